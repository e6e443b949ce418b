//! The demo on a cluster that knows nothing of the project: what it refuses, an interruption, and the whole story.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde_json::json;

use super::{as_user, ensure_unchanged, whole};
use crate::{
    cluster::{self, Cluster},
    program, shell,
};

/// The demo says one of these, and is interrupted: while Helm installs, and while a pod of the story runs.
const UNDER_WAY: [&str; 2] = ["installing operator", "preparing three water boxes"];

/// A pull Secret of the user's, with its namespace.
const SECRET: [&str; 2] = ["default", "registry"];

pub(super) fn walk(cluster: &Cluster, program: &Path) -> Result<()> {
    let user = User { cluster, program };
    let before = whole(cluster)?;
    user.refusals()?;
    ensure_unchanged(cluster, &before, "the refusals")?;
    for under_way in UNDER_WAY {
        user.interruption(under_way)?;
        ensure_unchanged(cluster, &before, "an interruption")?;
    }
    let [namespace, name] = SECRET;
    create_secret(cluster, namespace, name)?;
    shell::run(&mut user.demo(&[&format!("--pull-secret={namespace}/{name}"), "--yes"])?)?;
    ensure_unchanged(cluster, &before, "the demo")
}

/// As an admin creates it for the registry.
fn create_secret(cluster: &Cluster, namespace: &str, name: &str) -> Result<()> {
    let (user, password) = cluster::LOGIN;
    let place = ["create", "secret", "docker-registry", name, "--namespace", namespace];
    let login = [
        &format!("--docker-server={}", cluster.registry()),
        &format!("--docker-username={user}"),
        &format!("--docker-password={password}"),
    ];
    cluster.kubectl_output(&[&place[..], &login.map(String::as_str)].concat()).map(drop)
}

/// Somebody with a kubeconfig, and a login for the registry.
struct User<'a> {
    cluster: &'a Cluster,
    program: &'a Path,
}

impl User<'_> {
    /// `cargo xtask demo` as a user calls it who has a kubeconfig, and a login for the registry.
    fn demo(&self, arguments: &[&str]) -> Result<Command> {
        self.demo_at(&format!("http://{}", self.cluster.registry()), arguments)
    }

    fn demo_at(&self, registry: &str, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(self.program);
        as_user(&mut command, self.cluster, program::folder()?)?;
        command.args(["demo", "--registry", registry, "--kubeconfig"]).arg(self.cluster.kubeconfig());
        let (user, password) = cluster::LOGIN;
        command.env("SCAVENGER_REGISTRY_USER", user).env("SCAVENGER_REGISTRY_PASSWORD", password);
        command.args(arguments).stdin(Stdio::null());
        Ok(command)
    }

    /// Each refusal changes nothing, and names what is wrong.
    fn refusals(&self) -> Result<()> {
        refused(
            self.demo_at(&self.cluster.registry(), &["--dry-run"])?,
            "write http:// in front of a registry without TLS",
        )?;
        let mut wrong = self.demo(&["--dry-run"])?;
        refused(
            wrong.env("SCAVENGER_REGISTRY_PASSWORD", "wrong"),
            "GET /v2/ with the login of this machine: the registry answers 401",
        )?;
        refused(self.demo(&["--context=other", "--dry-run"])?, "cannot locate context other")?;
        refused(self.demo(&["--node=other", "--dry-run"])?, "there is no node other (--node)")?;
        refused(self.demo(&["--storage-class=other", "--dry-run"])?, "there is no StorageClass other")?;
        refused(self.demo(&[])?, "pass --yes if this is the right cluster")?;
        // Without a login the node cannot pull, which shows before anything is installed.
        refused(self.demo(&["--yes"])?, "is a login missing (--pull-secret)")?;
        // As if somebody had installed the operator.
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "scavenger-operator" },
        });
        let access = self.cluster.access();
        access.kubectl_with_input(&["create", "-f", "-"], role.to_string().as_bytes())?;
        let refusal =
            self.demo(&["--yes"]).and_then(|demo| refused(demo, "are installed on this cluster already"));
        access.kubectl_output(&["delete", "clusterrole", "scavenger-operator"])?;
        refusal
    }

    /// Ctrl-C once the demo says a line. The nodes' login is in a file, as `docker login` writes it.
    fn interruption(&self, under_way: &str) -> Result<()> {
        let (user, password) = cluster::LOGIN;
        let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        let auth = BASE64_STANDARD.encode(format!("{user}:{password}"));
        let config = json!({ "auths": { self.cluster.registry(): { "auth": auth }, "other.example": { "auth": "b3RoZXI6" } } });
        file.write_all(config.to_string().as_bytes()).context("cannot write a temporary file")?;
        let secret = format!("--pull-secret={}", file.path().display());
        // A terminal interrupts all programs of a group.
        let mut demo = self.demo(&[&secret, "--yes"])?.process_group(0).stderr(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(demo.stderr.take().context("the demo has no standard error")?);
        let mut line = String::new();
        loop {
            line.clear();
            if said.read_line(&mut line).context("cannot read what the demo says")? == 0 {
                bail!("the demo ended before it could be interrupted: {}", demo.wait()?);
            }
            eprint!("{line}");
            if line.starts_with(under_way) {
                break;
            }
        }
        killpg(Pid::from_raw(i32::try_from(demo.id())?), Signal::SIGINT)
            .context("cannot interrupt the demo")?;
        let mut rest = String::new();
        said.read_to_string(&mut rest).context("cannot read what the demo says")?;
        let status = demo.wait().context("cannot wait for the demo")?;
        eprint!("{rest}");
        ensure!(!status.success(), "an interrupted demo ends as if all were well");
        ensure!(
            rest.contains("the demo is removed") && rest.contains("error: interrupted"),
            "it was not removed: {rest}"
        );
        Ok(())
    }
}

/// Runs a demo that must be refused in these words.
fn refused(mut demo: impl std::borrow::BorrowMut<Command>, words: &str) -> Result<()> {
    let output = demo.borrow_mut().output().context("cannot run the demo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && said.contains(words),
        "the demo was not refused with {words:?}: {said}"
    );
    eprintln!("refused: {words}");
    Ok(())
}
