//! Installs the project the way docs/install.md describes it: images, a password, and kubectl or Helm.

use std::{fmt::Write as _, fs, io::Read, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    chart,
    cluster::{Access, Cluster},
    images::{self, Image, Profile},
    progress::Task,
    shell::ROOT,
};

/// Namespace of the project's own parts.
pub(crate) const NAMESPACE: &str = "scavenger-system";

/// Deployments and the StatefulSet that must be up before anything is tried.
const WORKLOADS: [&str; 4] = [
    "statefulset/postgres",
    "deployment/scavenger-operator",
    "deployment/scavenger-tuner",
    "deployment/gromacs-submitter",
];

/// By what it is installed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By<'a> {
    /// A kustomization below this checkout.
    Kustomization(&'static str),
    /// A kustomization below another checkout, with that one's definitions.
    KustomizationOf(&'a Path, &'static str),
    /// The chart, with the `values.yaml` of a folder below this checkout.
    Chart(&'static str),
}

/// On which nodes of a cluster the node agent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agents {
    /// It is not installed.
    None,
    /// Those that a test labels: what other tests measure must not depend on it.
    Labelled,
    /// All.
    All,
}

/// Label of the nodes on which the tests have the agent.
const AGENT_LABEL: &str = "e2e.example/node-agent";

/// The agent's namespace, as the chart has it.
const AGENT_NAMESPACE: &str = "scavenger-node-agent";

impl Agents {
    /// The chart's values for a cluster of this machine.
    fn values(self, cluster: &Cluster) -> Value {
        let mut agent = json!({ "enabled": true, "kubepods": cluster.kubepods() });
        match self {
            Self::None => return json!({}),
            Self::Labelled => agent["nodeSelector"] = json!({ AGENT_LABEL: "true" }),
            Self::All => {}
        }
        json!({ "nodeAgent": agent })
    }
}

/// Builds and loads all images, installs, and waits until everything runs.
pub(crate) fn install(cluster: &Cluster, by: By<'_>, agents: Agents, profile: Profile) -> Result<()> {
    let archives = images::build(&Image::all(), profile)?;
    let paths: Vec<_> = archives.iter().map(|archive| archive.path.clone()).collect();
    cluster.load(&paths)?;

    let task = Task::start("installing operator, tuner, submitter and Postgres");
    let deployments = ["-n", NAMESPACE, "get", "deployments", "--output", "name"];
    let earlier = cluster.kubectl_output(&deployments)?;
    let access = cluster.access();
    match by {
        By::Kustomization(overlay) => {
            // Before the operator, which looks once a minute whether the agent's namespace is there.
            node_agent(cluster, agents)?;
            kustomize(&access, Path::new(ROOT), overlay)?;
        }
        By::KustomizationOf(checkout, overlay) => kustomize(&access, checkout, overlay)?,
        By::Chart(folder) => helm_install(&access, folder, &agents.values(cluster).to_string())?,
    }
    // Images have a fixed tag: pods of an earlier installation must be replaced to run what was just built. Postgres is
    // not ours to rebuild, and its restart would only cost time. So would that of pods which were made just now.
    for workload in &WORKLOADS[1..] {
        if earlier.lines().any(|name| name.ends_with(&workload.replace("deployment", ""))) {
            cluster.kubectl_output(&["-n", NAMESPACE, "rollout", "restart", workload])?;
        }
    }
    wait(&access, &task)?;
    if agents == Agents::All {
        task.detail("waiting for the node agent");
        let agent = "daemonset/scavenger-node-agent";
        access.kubectl_output(&["-n", AGENT_NAMESPACE, "rollout", "status", "--timeout=180s", agent])?;
    }
    task.done(RUNNING);
    Ok(())
}

/// What is said when everything runs.
const RUNNING: &str = "operator, tuner, submitter and Postgres are running";

/// Installs the chart where the nodes can pull its images, and waits until everything runs. `more` are values in YAML
/// beside those of the folder.
pub(crate) fn by_chart(access: &Access, folder: &str, more: &str) -> Result<()> {
    let task = Task::start("installing operator, tuner, submitter and Postgres");
    helm_install(access, folder, more)?;
    wait(access, &task)?;
    task.done(RUNNING);
    Ok(())
}

fn wait(access: &Access, task: &Task) -> Result<()> {
    for workload in WORKLOADS {
        task.detail(&format!("waiting for {workload}"));
        access.kubectl_output(&["-n", NAMESPACE, "rollout", "status", "--timeout=180s", workload])?;
    }
    Ok(())
}

/// The definitions first: kubectl looks up every kind before it creates the first object.
fn kustomize(access: &Access, checkout: &Path, overlay: &str) -> Result<()> {
    let apply = |folder: &str| {
        let path = checkout.join(folder);
        let path = path.to_string_lossy();
        access.kubectl_output(&["apply", "--server-side", "--force-conflicts", "-k", &path])
    };
    apply("schema/generated")?;
    access.kubectl_output(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd/scavengerjobs.scavenger.dev",
        "crd/scavengerpools.scavenger.dev",
    ])?;
    create_passwords(access)?;
    apply(overlay).map(drop)
}

/// Installs the node agent from its kustomization.
fn node_agent(cluster: &Cluster, agents: Agents) -> Result<()> {
    if agents == Agents::None {
        return Ok(());
    }
    let access = cluster.access();
    let folder = Path::new(ROOT).join("deploy/node-agent");
    let text = access.kubectl_output(&["kustomize", &folder.to_string_lossy()])?;
    let mut objects = chart::documents(&text)?;
    let values = agents.values(cluster);
    let daemon_set = objects.iter_mut().find(|object| object["kind"] == "DaemonSet");
    let pod = daemon_set.and_then(|object| object.pointer_mut("/spec/template/spec"));
    let pod = pod.with_context(|| format!("{} has no DaemonSet", folder.display()))?;
    pod["volumes"][0]["hostPath"]["path"] = values["nodeAgent"]["kubepods"].clone();
    for (label, value) in values["nodeAgent"]["nodeSelector"].as_object().into_iter().flatten() {
        pod["nodeSelector"][label] = value.clone();
    }
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    access.kubectl_with_input(&apply, list.to_string().as_bytes()).map(drop)
}

/// Helm installs the definitions on its own, and waits for them.
fn helm_install(access: &Access, folder: &str, more: &str) -> Result<()> {
    create_passwords(access)?;
    let values = format!("{ROOT}/{folder}/values.yaml");
    let install = ["upgrade", "--install", chart::RELEASE, ".", "--values", &values, "--values", "-"];
    helm(access, &install, more)
}

/// Takes the release away, if there is one, and waits until its objects are gone.
pub(crate) fn uninstall(access: &Access) -> Result<()> {
    helm(access, &["uninstall", chart::RELEASE, "--ignore-not-found", "--wait"], "")
}

/// A verb of Helm, in the installation's namespace.
fn helm(access: &Access, arguments: &[&str], input: &str) -> Result<()> {
    access.may_go_on()?;
    let kubeconfig = access.kubeconfig().to_string_lossy();
    let everywhere = ["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig, "--timeout", "3m"];
    chart::helm(&[arguments, &everywhere].concat(), &chart::folder(), input).map(drop)
}

/// What docs/install.md says about a release: it is upgraded, and once it is uninstalled its definitions are left.
pub(crate) fn upgrade_and_uninstall(access: &Access) -> Result<()> {
    let task = Task::start("upgrading and uninstalling the chart's release");
    let upgrade =
        ["upgrade", chart::RELEASE, ".", "--reset-then-reuse-values", "--set", "operator.replicas=1"];
    helm(access, &[&upgrade[..], &["--wait"]].concat(), "")?;
    let replicas = "jsonpath={.spec.replicas}";
    let replicas = access.kubectl_output(&["-n", NAMESPACE, "get", WORKLOADS[1], "--output", replicas])?;
    ensure!(replicas == "1", "the upgraded release has {replicas} replicas of the operator instead of 1");
    access.kubectl_output(&["delete", "scavengerjobs", "--all", "--all-namespaces", "--timeout=120s"])?;
    uninstall(access)?;
    let left = left(access)?;
    let definitions = left.iter().filter(|name| name.starts_with("customresourcedefinition")).count();
    ensure!(definitions == 2 && left.len() == 2, "after the release is uninstalled these are left: {left:?}");
    let pools = access.kubectl_output(&["get", "scavengerpools", "--output=name"])?;
    ensure!(pools.is_empty(), "after the release is uninstalled there is {pools}");
    task.done("the release was upgraded and uninstalled; its definitions are left");
    Ok(())
}

/// What is there of an installation that belongs to no namespace.
pub(crate) fn left(access: &Access) -> Result<Vec<String>> {
    let kinds = "customresourcedefinitions,clusterroles,clusterrolebindings,validatingadmissionpolicies,\
                 validatingadmissionpolicybindings,priorityclasses";
    let names = access.kubectl_output(&["get", kinds, "--output=name"])?;
    Ok(ours(&names).into_iter().map(str::to_owned).collect())
}

/// Those of a list of names that the chart makes.
fn ours(names: &str) -> Vec<&str> {
    let is_ours = |line: &&str| {
        let name = line.rsplit('/').next().unwrap_or_default();
        ["scavenger", "gromacs-submitter", "gromacs-chemist"].iter().any(|ours| name.starts_with(ours))
    };
    names.lines().map(str::trim).filter(is_ours).collect()
}

/// Keys of the Secret with the database's passwords: of its superuser, and of the roles of submitter and tuner.
const PASSWORDS: [&str; 3] = ["password", "submitter-password", "tuner-password"];

/// Makes the Secret with the database's passwords, or adds what an older one has not. None is ever printed.
fn create_passwords(access: &Access) -> Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": NAMESPACE, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    access.kubectl_with_input(&apply, namespace.to_string().as_bytes())?;
    let names = "go-template={{range $key, $value := .data}}{{$key}} {{end}}";
    let get = ["-n", NAMESPACE, "get", "secret", "postgres", "--ignore-not-found", "-o", names];
    let existing = access.kubectl_output(&get)?;
    let existing: Vec<&str> = existing.split_whitespace().collect();
    for key in PASSWORDS.iter().filter(|key| !existing.contains(key)) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "postgres", "namespace": NAMESPACE },
            "stringData": { *key: random_password()? },
        });
        // A manager for each key: what a manager leaves out the next time is taken away.
        let manager = format!("--field-manager=xtask-{key}");
        let apply = ["apply", "--server-side", &manager, "-f", "-"];
        access.kubectl_with_input(&apply, secret.to_string().as_bytes())?;
    }
    Ok(())
}

fn random_password() -> Result<String> {
    let mut random = [0_u8; 24];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .context("cannot read random bytes for the database's passwords")?;
    Ok(random.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string should not fail");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_own_objects_are_found_by_their_names() {
        let names = "clusterrole.rbac.authorization.k8s.io/admin\nclusterrole.rbac.authorization.k8s.io/gromacs-users\n\
                     clusterrole.rbac.authorization.k8s.io/gromacs-submitter-tenant\n\
                     clusterrole.rbac.authorization.k8s.io/gromacs-chemist\n\
                     customresourcedefinition.apiextensions.k8s.io/scavengerjobs.scavenger.dev\n";
        assert_eq!(
            ours(names),
            [
                "clusterrole.rbac.authorization.k8s.io/gromacs-submitter-tenant",
                "clusterrole.rbac.authorization.k8s.io/gromacs-chemist",
                "customresourcedefinition.apiextensions.k8s.io/scavengerjobs.scavenger.dev",
            ]
        );
    }
}
