//! An admin records the cluster as docs/record.md says, fetches the file, and plays it in the laboratory.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use scavenger_e2e::{
    World,
    kubectl::{checkout, kubectl},
    run,
    world::{ordinary_pod, until},
};
use scavenger_laboratory::workload::{Ordinary, trace};
use serde_json::json;

const NAMESPACE: [&str; 2] = ["--namespace", "scavenger-system"];

const RECORDER: &str = "deployment/scavenger-recorder";

/// A request that no other pod of the tests has, in thousandths of a core.
const CPU: i64 = 137;

async fn apply(verb: &[&str]) -> Result<String> {
    let folder = checkout("deploy/record");
    kubectl(&[verb, &["-k", folder.to_str().context("the checkout's path is no text")?]].concat()).await
}

/// The recording as it is now, and the pod in it; none as long as it does not have both its start and its end.
async fn fetched(file: &Path) -> Result<Option<Ordinary>> {
    let print = [
        "exec",
        RECORDER,
        "--",
        "scavenger-operator",
        "record",
        "--output",
        "/record/cluster.trace",
        "--print",
    ];
    fs::write(file, kubectl(&[&NAMESPACE[..], &print].concat()).await?)?;
    // It spans no time at first.
    let Ok(read) = trace::read(file) else { return Ok(None) };
    ensure!(read.recorded.is_some(), "it is read as another kind of trace");
    let mine: Vec<Ordinary> =
        read.workload.ordinary.iter().copied().filter(|pod| pod.requests.cpu == CPU).collect();
    match mine[..] {
        [pod] if pod.arrival + pod.duration <= read.workload.length => Ok(Some(pod)),
        [] | [_] => Ok(None),
        _ => bail!("one pod became several: {mine:?}"),
    }
}

async fn recorded(world: &World) -> Result<()> {
    let rollout = ["rollout", "status", RECORDER, "--timeout=120s"];
    kubectl(&[&rollout[..], &NAMESPACE].concat()).await?;
    let resources = json!({ "cpu": format!("{CPU}m"), "memory": "48Mi" });
    let begun = std::time::Instant::now();
    world.create::<Pod>(ordinary_pod("recorded", &resources)).await?;
    world.pod_runs("recorded").await?;
    kubectl(&["delete", "pod", "recorded", "--namespace", &world.namespace, "--wait"]).await?;
    let longest = i64::try_from(begun.elapsed().as_millis())? + 2000;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("week.trace");
    let pod = until("the recording has the pod from its start to its end", || fetched(&file)).await?;
    ensure!(pod.requests.memory == 48 && (1000..=longest).contains(&pod.duration), "{pod:?}, {longest} ms");
    let text = fs::read_to_string(&file)?;
    for secret in [world.namespace.as_str(), "recorded,", "scavenger-node"] {
        ensure!(!text.contains(secret), "{secret} is in the recording");
    }
    Ok(())
}

#[test]
fn the_recorder_of_the_page_is_applied_fetched_and_played() {
    run("record", |world| async move {
        apply(&["apply", "--server-side", "--force-conflicts"]).await?;
        let result = recorded(world).await;
        apply(&["delete", "--ignore-not-found"]).await?;
        result
    });
}
