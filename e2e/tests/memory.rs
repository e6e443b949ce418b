//! Who is killed when a node has no memory left: real pods, with the scores that the kubelet gives them.
//!
//! This machine must not run out of memory itself. So the cgroup of all pods of the cluster gets a limit, which stands for
//! the node's memory. That concerns every pod of the cluster, so this is a program of its own. It can only be done on the
//! machine on which the node runs, and there as root.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    World, repetitions,
    room::{delete_pod, status},
    world::{run_within, until},
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use scavenger_vocabulary::{Outcome, Reason};
use serde_json::{Value, json};

const MEBIBYTE: u64 = 1 << 20;

/// What the workload holds, of the 512 MiB that are its limit.
const HELD: u64 = 400;

/// What an ordinary pod that requested little grows to.
const GROWN: u64 = 300;

/// What the node has left when the ordinary pod comes.
const LEFT: u64 = 150;

/// Bash takes this many MiB, a little at a time, and says when it has them.
fn takes(mebibytes: u64) -> Value {
    let script = format!(
        "chunk=x; for i in {{1..20}}; do chunk=$chunk$chunk; done; for ((i = 0; i < {mebibytes}; i++)); do \
         all[i]=$chunk; ((i % 10)) || sleep 0.05; done; echo grown; sleep 1000000 & wait"
    );
    json!(["bash", "-c", script])
}

fn workload(name: &str, supervised: bool) -> Value {
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob", "metadata": { "name": name },
        "spec": {
            "image": "scavenger.dev/gromacs:2022.5", "command": takes(HELD),
            "resources": { "requests": { "cpu": "100m", "memory": "512Mi" } },
            "supervisor": { "enabled": supervised },
            "interruptionAfter": "1s", "terminationGracePeriodSeconds": 1,
        },
    })
}

/// Burstable: it may use far more than it requested.
fn ordinary(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "owner", "image": "scavenger.dev/gromacs:2022.5", "imagePullPolicy": "IfNotPresent",
                "command": takes(GROWN),
                "resources": { "requests": { "cpu": "10m", "memory": "64Mi" } },
            }],
        },
    })
}

/// The cgroup of all pods of the cluster.
struct Node {
    folder: PathBuf,
    limit: &'static str,
    usage: &'static str,
}

impl Node {
    /// The node of a pod that runs; none if that is another machine.
    fn of(pod: &Pod) -> Result<Option<Self>> {
        let uid = pod.uid().context("the pod has no UID")?;
        for entry in fs::read_dir("/proc")?.flatten() {
            let Ok(cgroups) = fs::read_to_string(entry.path().join("cgroup")) else { continue };
            for line in cgroups.lines().filter(|line| line.contains(&uid)) {
                // "9:memory:/scavenger-test/kubepods/...", "0::/scavenger-test/kubepods/...".
                let mut fields = line.splitn(3, ':').skip(1);
                let (controllers, path) =
                    (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
                let Some(top) = path.split('/').find(|part| !part.is_empty()) else { continue };
                let (root, limit, usage) = match controllers {
                    "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
                    "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
                    _ => continue,
                };
                let folder = PathBuf::from(root).join(top);
                if folder.join(limit).exists() {
                    return Ok(Some(Self { folder, limit, usage }));
                }
            }
        }
        Ok(None)
    }

    /// Leaves so much memory beside what is used now.
    fn leave(&self, mebibytes: u64) -> Result<()> {
        // What is only cached would be given back later, and the node would have more than it seemed.
        let reclaim =
            if self.limit == "memory.max" { ("memory.reclaim", "1G") } else { ("memory.force_empty", "0") };
        let _ = fs::write(self.folder.join(reclaim.0), reclaim.1);
        let used: u64 = fs::read_to_string(self.folder.join(self.usage))?.trim().parse()?;
        self.write(&(used + mebibytes * MEBIBYTE).to_string())
    }

    fn lift(&self) -> Result<()> {
        self.write(if self.limit == "memory.max" { "max" } else { "-1" })
    }

    fn write(&self, limit: &str) -> Result<()> {
        let file = self.folder.join(self.limit);
        fs::write(&file, limit).with_context(|| format!("cannot write {limit} to {}", file.display()))
    }
}

/// An ordinary pod comes, and grows beyond what the node has left. True if it is killed; false if it has all that it wanted.
async fn is_killed(world: &World, node: &Node, name: &str) -> Result<bool> {
    node.leave(LEFT)?;
    world.create::<Pod>(ordinary(name)).await?;
    let end = until(&format!("{name} has grown, or was killed"), || async {
        let pod = world.api::<Pod>().get(name).await?;
        let state = pod.status.unwrap_or_default().container_statuses.unwrap_or_default().pop();
        if let Some(ended) = state.and_then(|status| status.state).and_then(|state| state.terminated) {
            ensure!(ended.exit_code == 137, "{name} ended otherwise: {ended:?}");
            return Ok(Some(true));
        }
        let log = world.api::<Pod>().logs(name, &Default::default()).await.unwrap_or_default();
        Ok(log.contains("grown").then_some(false))
    })
    .await;
    node.lift()?;
    end
}

/// Waits until a ScavengerJob holds what it takes; returns its pod.
async fn holds(world: &World, name: &str) -> Result<Pod> {
    world.phase(name, Phase::Running).await?;
    let pod = world.pod(name).await?;
    world.log_until(&pod.name_any(), "the workload holds its memory", |line| line == "grown").await?;
    Ok(pod)
}

/// Without the supervisor: the kernel takes the ordinary pod, although that alone requested its memory for a purpose.
async fn ordinary_goes(world: &World) -> Result<()> {
    world.create::<ScavengerJob>(workload("alone", false)).await?;
    let pod = holds(world, "alone").await?;
    let node = Node::of(&pod)?.context("the node runs on another machine")?;
    ensure!(
        is_killed(world, &node, "beside-alone").await?,
        "the ordinary pod lives, so the other arm shows nothing"
    );
    let sj = world.phase("alone", Phase::Running).await?;
    ensure!(status(&sj).attempts.is_empty(), "{:?}", status(&sj));
    delete_pod(world, "beside-alone").await?;
    world.api::<ScavengerJob>().delete("alone", &DeleteParams::default()).await?;
    Ok(())
}

/// With it: the workload goes, which is an interruption, since it was measured to use less than its limit.
async fn workload_goes(world: &World) -> Result<()> {
    world.create::<ScavengerJob>(workload("supervised", true)).await?;
    for round in 1..=repetitions(1).min(10) {
        let pod = holds(world, "supervised").await?;
        let node = Node::of(&pod)?.context("the node runs on another machine")?;
        let number = pod.labels().get("scavenger.dev/attempt").cloned().context("the pod has no attempt")?;
        let measured =
            |sj: &ScavengerJob| status(sj).usage.is_some_and(|usage| usage.attempt.to_string() == number);
        world.job_until("supervised", "it was measured", measured).await?;
        let name = format!("beside-{round}");
        ensure!(!is_killed(world, &node, &name).await?, "round {round}: the ordinary pod was killed first");
        let killed =
            |sj: &ScavengerJob| status(sj).attempts.iter().any(|one| one.number.to_string() == number);
        let sj = world.job_until("supervised", "its workload was killed", killed).await?;
        let attempt = status(&sj).attempts.into_iter().find(|one| one.number.to_string() == number);
        let attempt = attempt.context("the attempt is not recorded")?;
        ensure!(
            (attempt.outcome, attempt.reason.as_ref())
                == (Some(Outcome::Interrupted), Some(&Reason::NodeOutOfMemory)),
            "{attempt:?}"
        );
        println!("round {round}: {}", attempt.message.unwrap_or_default());
        delete_pod(world, &name).await?;
    }
    Ok(())
}

#[test]
fn the_supervised_workload_goes_before_an_ordinary_pod() {
    let limit = std::time::Duration::from_secs(if repetitions(1) > 1 { 3600 } else { 600 });
    run_within(limit, "memory", |world| async move {
        ordinary_goes(world).await?;
        workload_goes(world).await
    });
}
