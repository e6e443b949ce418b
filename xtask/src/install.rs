//! Installs the project into a development cluster the way README tells a user to: images, a password, kubectl apply.

use std::{fmt::Write as _, fs, io::Read};

use anyhow::{Context, Result};
use serde_json::json;

use crate::{
    cluster::Cluster,
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

/// Builds and loads all images, applies `overlay` (a folder below the checkout) and waits until everything runs.
pub(crate) fn install(cluster: &Cluster, overlay: &str, profile: Profile) -> Result<()> {
    let archives = images::build(&Image::all(), profile)?;
    let paths: Vec<_> = archives.iter().map(|archive| archive.path.clone()).collect();
    cluster.load(&paths)?;

    let task = Task::start("installing operator, tuner, submitter and Postgres");
    let apply = |folder: &str| {
        let path = format!("{ROOT}/{folder}");
        cluster.kubectl_output(&["apply", "--server-side", "--force-conflicts", "-k", &path])
    };
    // The definitions first: kubectl looks up every kind before it creates the first object.
    apply("schema/generated")?;
    cluster.kubectl_output(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd/scavengerjobs.scavenger.dev",
        "crd/scavengerpools.scavenger.dev",
    ])?;
    create_passwords(cluster)?;
    apply(overlay)?;
    // Images have a fixed tag: pods of an earlier installation must be replaced to run what was just built. Postgres is
    // not ours to rebuild, and its restart would only cost time.
    cluster.kubectl_output(&[
        "-n",
        NAMESPACE,
        "rollout",
        "restart",
        WORKLOADS[1],
        WORKLOADS[2],
        WORKLOADS[3],
    ])?;
    for workload in WORKLOADS {
        task.detail(&format!("waiting for {workload}"));
        cluster.kubectl_output(&["-n", NAMESPACE, "rollout", "status", "--timeout=180s", workload])?;
    }
    task.done("operator, tuner, submitter and Postgres are running");
    Ok(())
}

/// Keys of the Secret with the database's passwords: of its superuser, and of the submitter's role.
const PASSWORDS: [&str; 2] = ["password", "submitter-password"];

/// Makes the Secret with the database's passwords, or adds what an older one has not. None is ever printed.
fn create_passwords(cluster: &Cluster) -> Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": NAMESPACE, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    cluster.kubectl_with_input(&apply, namespace.to_string().as_bytes())?;
    let names = "go-template={{range $key, $value := .data}}{{$key}} {{end}}";
    let get = ["-n", NAMESPACE, "get", "secret", "postgres", "--ignore-not-found", "-o", names];
    let existing = cluster.kubectl_output(&get)?;
    let existing: Vec<&str> = existing.split_whitespace().collect();
    for key in PASSWORDS.iter().filter(|key| !existing.contains(key)) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "postgres", "namespace": NAMESPACE },
            "stringData": { *key: random_password()? },
        });
        // A manager for each key: what a manager leaves out the next time is taken away.
        let manager = format!("--field-manager=xtask-{key}");
        let apply = ["apply", "--server-side", &manager, "-f", "-"];
        cluster.kubectl_with_input(&apply, secret.to_string().as_bytes())?;
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
