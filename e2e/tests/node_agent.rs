//! The agent of a node and the kernel: the cgroups of ScavengerJobs are idle while it runs, and as the kubelet made them
//! before and after. The tests' clusters have the agent on nodes with a label, which no node has but in here.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, LogParams, PostParams},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use scavenger_e2e::{
    World,
    cgroup::{Weight, weights},
    growth::takes,
    metrics::Metrics,
    node_agent::{self, agents, is_ready},
    postgres::NAMESPACE,
    room::{pools, status},
    run,
    world::{counter_beside, ordinary_pod, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

/// Waits until the pod of a ScavengerJob has this weight.
async fn weighs(world: &World, job: &str, wanted: Weight) -> Result<()> {
    let (pod, began) = (world.pod(job).await?, Instant::now());
    let pod = &pod;
    let what = format!("{job} has {wanted:?}");
    let answer = until(&what, || async {
        let weight = Weight::of(pod)?;
        // What an idle group shows as its weight differs from kernel to kernel.
        let is_wanted = weight.idle == wanted.idle && (wanted.idle || weight.weight == wanted.weight);
        Ok(is_wanted.then_some(()))
    });
    let answer = answer.await.with_context(|| format!("{:?}", Weight::of(pod)));
    println!("{job} had {wanted:?} after {:.1} s", began.elapsed().as_secs_f64());
    answer
}

fn idle(weight: Weight) -> Weight {
    Weight { idle: true, ..weight }
}

/// Starts a ScavengerJob that requests so much cpu, and waits until it runs.
async fn start(world: &World, name: &str, milli: u32) -> Result<Weight> {
    let mut job = counter_beside(name, 1_000_000);
    job["spec"]["resources"]["requests"]["cpu"] = json!(format!("{milli}m"));
    runs(world, job).await
}

async fn runs(world: &World, job: Value) -> Result<Weight> {
    let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    world.create::<ScavengerJob>(job).await?;
    world.phase(&name, Phase::Running).await?;
    Weight::of(&world.pod(&name).await?)
}

/// A workload that takes its time for the last checkpoint.
fn slow(name: &str, milli: u32) -> Value {
    let mut job = counter_beside(name, 1_000_000);
    job["spec"]["image"] = json!("scavenger.dev/gromacs:2022.5");
    job["spec"]["command"] =
        json!(["bash", "-c", "trap 'sleep 15; exit 0' TERM; echo waits; while :; do sleep 0.2; done"]);
    job["spec"]["args"] = json!([]);
    job["spec"]["resources"]["requests"]["cpu"] = json!(format!("{milli}m"));
    // So that the shell itself gets the signal.
    job["spec"]["supervisor"] = json!({ "enabled": false });
    job["spec"]["terminationGracePeriodSeconds"] = json!(30);
    job
}

/// Kills the agent as the kernel would when memory is short, and waits until it runs again.
async fn kill_agent(world: &World) -> Result<()> {
    let agent = agents(world).await?.into_iter().next().context("there is no agent")?;
    let restarts = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
        statuses.unwrap_or_default().iter().map(|status| status.restart_count).sum::<i32>()
    };
    let (uid, before) = (agent.uid().context("the agent has no UID")?, restarts(&agent));
    kill(Pid::from_raw(process_of(&uid)?), Signal::SIGKILL)?;
    until("the agent runs again", || async {
        let again = agents(world).await?;
        Ok(again.iter().any(|pod| restarts(pod) > before && is_ready(pod)).then_some(()))
    })
    .await
}

/// The agent's process on this machine.
fn process_of(uid: &str) -> Result<i32> {
    let is_its = |folder: &PathBuf| {
        let read = |name| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let groups = read("cgroup");
        (groups.contains(uid) || groups.contains(&uid.replace('-', "_")))
            && read("cmdline").contains("scavenger-node-agent")
    };
    let processes = fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    let found = processes.filter(is_its).find_map(|folder| folder.file_name()?.to_str()?.parse().ok());
    found.context("the agent has no process on this machine")
}

/// Takes the agent's DaemonSet away while it is at work, and lets `look` look at what is left; afterwards it is there again.
async fn without_daemon_set(world: &World, look: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let daemon_sets: Api<DaemonSet> = Api::namespaced(world.client.clone(), names::NODE_AGENT);
    let mut kept = daemon_sets.get(names::NODE_AGENT).await?;
    daemon_sets.delete(names::NODE_AGENT, &DeleteParams::default()).await?;
    let gone = until("the agent is gone", || async { Ok(agents(world).await?.is_empty().then_some(())) });
    let looked = match gone.await {
        Ok(()) => look().await,
        Err(error) => Err(error),
    };
    (kept.metadata.resource_version, kept.metadata.uid, kept.status) = (None, None, None);
    kept.metadata.managed_fields = None;
    daemon_sets.create(&PostParams::default(), &kept).await?;
    looked
}

/// The groups that are idle.
fn idle_groups() -> Result<BTreeMap<PathBuf, Weight>> {
    Ok(weights()?.into_iter().filter(|(_, weight)| weight.idle).collect())
}

/// What runs before the agent comes, and its weights then.
struct Before {
    stays: Weight,
    ends: Weight,
    ordinary: Pod,
}

async fn story(world: &World, before: &Before) -> Result<()> {
    let ordinary = &before.ordinary;
    let beside = Weight::of(ordinary)?;
    node_agent::on_the_node(world, true).await?;
    weighs(world, "stays", idle(before.stays)).await?;
    weighs(world, "ends", idle(before.ends)).await?;
    let late = start(world, "late", 20).await?;
    weighs(world, "late", idle(late)).await?;
    let groups = idle_groups()?;
    ensure!(groups.len() == 3, "three ScavengerJobs run, and these are idle: {groups:#?}");
    ensure!(Weight::of(ordinary)? == beside, "{beside:?} became {:?}", Weight::of(ordinary)?);
    until("the operator counts the agent", || async {
        // Nobody leads for a moment if a replica is slow to renew its Lease.
        let Ok(metrics) = Metrics::read(world).await else { return Ok(None) };
        let failed = metrics.value("scavenger_node_agent_failed_pods");
        Ok((metrics.value("scavenger_node_agents") == 1.0 && failed == 0.0).then_some(()))
    })
    .await?;
    // After a kill nobody remembers which weight there was.
    kill_agent(world).await?;
    let pod = world.pod("ends").await?;
    world.api::<ScavengerJob>().delete("ends", &DeleteParams::default()).await?;
    weighs(world, "ends", before.ends).await?;
    let now = world.api::<Pod>().get(&pod.name_any()).await?;
    ensure!(now.uid() == pod.uid() && now.metadata.deletion_timestamp.is_some(), "{:?}", now.metadata);
    weighs(world, "stays", idle(before.stays)).await?;
    without_daemon_set(world, async || {
        let groups = idle_groups()?;
        ensure!(groups.is_empty(), "the agent is gone, and these are idle: {groups:#?}");
        weighs(world, "stays", before.stays).await?;
        ensure!(Weight::of(ordinary)? == beside, "{beside:?} became {:?}", Weight::of(ordinary)?);
        Ok(())
    })
    .await?;
    // It is taken up again, and given back when the node loses its agent.
    node_agent::on_the_node(world, true).await?;
    weighs(world, "stays", idle(before.stays)).await
}

/// Held by a test that starts or stops the agents.
static AGENTS: Mutex<()> = Mutex::new(());

#[test]
fn scavenger_jobs_are_idle_while_the_agent_runs_and_no_longer() {
    let _turn = AGENTS.lock().unwrap_or_else(PoisonError::into_inner);
    run("node-agent", |world| async move {
        world.claim("data").await?;
        let stays = start(world, "stays", 120).await?;
        let ends = runs(world, slow("ends", 150)).await?;
        let resources = json!({ "cpu": "50m", "memory": "16Mi" });
        let ordinary = world.create::<Pod>(ordinary_pod("ordinary", &resources)).await?;
        world.pod_runs("ordinary").await?;
        ensure!(idle_groups()?.is_empty(), "without the agent these are idle: {:#?}", idle_groups()?);
        let result = story(world, &Before { stays, ends, ordinary }).await;
        // Whatever happened: other tests have no agent.
        node_agent::on_the_node(world, false).await?;
        result?;
        weighs(world, "stays", stays).await
    });
}

/// A ScavengerJob whose one container takes more than its limit.
fn outgrows(name: &str) -> Value {
    let mut job = slow(name, 50);
    job["spec"]["command"] = json!(["bash", "-c", format!("{}; sleep 1000000 & wait", takes(300, "0.01"))]);
    job["spec"]["resources"]["requests"]["memory"] = json!("128Mi");
    job
}

/// An ordinary pod that does the same, and whose container begins again.
fn ordinary_that_outgrows(name: &str) -> Value {
    let mut pod = ordinary_pod(name, &json!({ "cpu": "10m", "memory": "64Mi" }));
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!("scavenger.dev/gromacs:2022.5");
    container["command"] = json!(["bash", "-c", format!("{}; sleep 1000000 & wait", takes(300, "0.01"))]);
    container["resources"] =
        json!({ "requests": { "cpu": "10m", "memory": "64Mi" }, "limits": { "memory": "128Mi" } });
    pod["spec"]["restartPolicy"] = json!("Always");
    pod
}

/// What the agent says of a pod whose container was killed. With cgroup v1 it cannot know why.
async fn is_explained(world: &World, uid: &str) -> Result<()> {
    let cause = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { "Limit" } else { "Unknown" };
    let line = format!("a container of pod {uid} was killed for memory; cause: {cause}");
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), names::NODE_AGENT);
    until(&format!("the agent says: {line}"), || async {
        let Some(agent) = agents(world).await?.into_iter().next() else { return Ok(None) };
        let log = pods.logs(&agent.name_any(), &LogParams::default()).await?;
        // What it could not tell ends otherwise.
        Ok(log.lines().any(|said| said.ends_with(&line)).then_some(()))
    })
    .await
}

async fn kills(world: &World) -> Result<()> {
    node_agent::on_the_node(world, true).await?;
    until("the pool's status counts the agent", || async {
        let pool = pools(world).get(names::DEFAULT_POOL).await?;
        Ok(pool.status.and_then(|status| status.node_agents).filter(|agents| agents.live == 1).map(drop))
    })
    .await?;
    let before = Metrics::read(world).await?;
    world.claim("data").await?;
    world.create::<ScavengerJob>(outgrows("own-limit")).await?;
    // Soon it is gone with its Job.
    let uid = until("it has a pod", || async {
        Ok(world.pods("own-limit").await?.first().and_then(ResourceExt::uid))
    })
    .await?;
    is_explained(world, &uid).await?;
    let sj = world.phase("own-limit", Phase::Failed).await?;
    let last = status(&sj).attempts.into_iter().next_back().context("no attempt is recorded")?;
    ensure!(last.reason == Some(Reason::OOMKilled), "{last:?}");
    let ordinary = world.create::<Pod>(ordinary_that_outgrows("ordinary-limit")).await?;
    is_explained(world, &ordinary.uid().context("it has no UID")?).await?;
    until("the operator counts both answers", || async {
        let Ok(after) = Metrics::read(world).await else { return Ok(None) };
        let counter = |cause: &str| format!("scavenger_node_agent_kills_total{{cause=\"{cause}\"}}");
        let answers: f64 =
            ["limit", "unknown"].map(|cause| after.increase(&before, &counter(cause))).iter().sum();
        Ok((answers >= 2.0).then_some(()))
    })
    .await
}

#[test]
fn the_agent_is_asked_why_containers_were_killed_for_memory() {
    let _turn = AGENTS.lock().unwrap_or_else(PoisonError::into_inner);
    run("node-agent-kills", |world| async move {
        let result = kills(world).await;
        node_agent::on_the_node(world, false).await?;
        result
    });
}

/// Who is no agent: a pod with tokens of its own account, for agents and for supervisors.
fn stranger() -> Value {
    let supervisor = concat!("scavenger.dev/supervisor:", env!("CARGO_PKG_VERSION"));
    let url = format!("https://scavenger-operator-reports.{NAMESPACE}.svc:8443/nodes");
    let script = format!(
        r#"for token in agent supervisor; do
            /supervisor/scavenger-supervisor run --report-url {url} --report-token /token/$token --report-ca /ca/ca.crt \
                --report-every 1s --request-signal USR1 -- sleep 1000 2>&1 | sed -u "s/^/$token: /" &
        done; wait"#
    );
    let mount = |name: &str| json!({ "name": name, "mountPath": format!("/{name}"), "readOnly": true });
    let token = |path: &str, audience: &str| json!({ "serviceAccountToken": { "path": path, "audience": audience, "expirationSeconds": 3600 } });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "stranger" },
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
            "initContainers": [{
                "name": "supervisor", "image": supervisor, "command": ["/scavenger-supervisor", "copy", "/supervisor"],
                "volumeMounts": [{ "name": "supervisor", "mountPath": "/supervisor" }],
            }],
            "containers": [{
                "name": "main", "image": "scavenger.dev/gromacs:2022.5", "command": ["bash", "-c", script],
                "volumeMounts": [mount("supervisor"), mount("token"), mount("ca")],
            }],
            "securityContext": { "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000 },
            "volumes": [
                { "name": "supervisor", "emptyDir": { "sizeLimit": "8Mi" } },
                { "name": "ca", "configMap": { "name": "ca" } },
                { "name": "token", "projected": { "sources": [
                    token("agent", "scavenger.dev/node-agent"), token("supervisor", "scavenger.dev/supervisor"),
                ] } },
            ],
        },
    })
}

#[test]
fn strangers_are_not_told_which_pods_a_node_has() {
    run("node-agent-strangers", |world| async move {
        // Whom the agents trust.
        let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), names::NODE_AGENT);
        let data = maps.get("scavenger-supervisor-ca").await?.data;
        let ca =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "ca" }, "data": data });
        world.create::<ConfigMap>(ca).await?;
        let before = Metrics::read(world).await?;
        world.create::<Pod>(stranger()).await?;
        for token in ["agent", "supervisor"] {
            let refused = |line: &str| line.starts_with(token) && line.contains("HTTP status 401");
            world.log_until("stranger", &format!("the token for {token}s is refused"), refused).await?;
        }
        let counter = |result: &str| format!("scavenger_node_agent_requests_total{{result=\"{result}\"}}");
        let after = Metrics::read(world).await?;
        let refused = after.increase(&before, &counter("unauthenticated"));
        ensure!(refused >= 2.0, "{refused} requests were refused");
        Ok(())
    });
}
