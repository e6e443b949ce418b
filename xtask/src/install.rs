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
    create_password(cluster)?;
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

/// Makes the Secret with the database's password, unless it is there. The password is never printed.
fn create_password(cluster: &Cluster) -> Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": NAMESPACE, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    });
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    cluster.kubectl_with_input(&apply, namespace.to_string().as_bytes())?;
    if !cluster
        .kubectl_output(&["-n", NAMESPACE, "get", "secret", "postgres", "--ignore-not-found", "-o", "name"])?
        .is_empty()
    {
        return Ok(());
    }
    let mut random = [0_u8; 24];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .context("cannot read random bytes for the database's password")?;
    let password = random.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string should not fail");
        text
    });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "postgres", "namespace": NAMESPACE },
        "stringData": { "password": password },
    });
    cluster.kubectl_with_input(&apply, secret.to_string().as_bytes())?;
    Ok(())
}
