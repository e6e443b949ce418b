//! Nodes that go (drained by an admin, lost, taken out of the pool), and one whose containers cannot start. The nodes are
//! played, and the pool consists of them for as long, so this is a program of its own.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    coordination::v1::Lease,
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    node::v1::RuntimeClass,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use scavenger_e2e::{
    World,
    alone::pool_of_played_nodes,
    faults::Witness,
    kubectl::kubectl,
    room::{bring_pool, has_reason, patch_pool, pool_is_known, pools, status},
    world::{LIMIT, played, run_within, until, until_within},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::json;

/// There is one pool.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test while the pool consists of played nodes.
fn on_played_nodes<F>(name: &str, test: impl FnOnce(&'static World) -> F + Copy)
where
    F: Future<Output = Result<()>>,
{
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run_within(std::time::Duration::from_secs(900), name, move |world| async move {
        pool_of_played_nodes(world).await?;
        pool_is_known(world).await?;
        let result = test(world).await;
        patch_pool(world, &json!({ "nodeSelector": null, "toleratedTaints": null })).await?;
        result
    });
}

async fn node_of(world: &World, job: &str) -> Result<String> {
    let pod = world.pod(job).await?;
    pod.spec.and_then(|spec| spec.node_name).with_context(|| format!("the pod of {job} has no node"))
}

/// A ScavengerJob that counts as interrupted this often runs again.
async fn runs_again(world: &World, name: &str, interrupted: i64) -> Result<ScavengerJob> {
    world
        .job_until(name, "running again", |job| {
            status(job).phase == Some(Phase::Running) && status(job).interrupted_count == interrupted
        })
        .await
}

#[test]
fn kubectl_drain_ends_and_they_go_on_elsewhere() {
    on_played_nodes("drained-node", |world| async move {
        let mut gang = played("gang", "30");
        gang["spec"]["podCount"] = json!(2);
        for job in [played("alone", "10m"), gang] {
            world.create::<ScavengerJob>(job).await?;
        }
        for name in ["alone", "gang"] {
            world.phase(name, Phase::Running).await?;
        }
        // Both go: that of the gang which is on the node takes the other one with it.
        let node = node_of(world, "gang").await?;
        let moved = node_of(world, "alone").await? == node;
        // The supervisor's program lies in an emptyDir.
        let flags = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s"];
        let drained = kubectl(&[&["drain", node.as_str()], &flags[..]].concat()).await;
        let result = async {
            let said = drained?;
            ensure!(said.contains("drained"), "{said}");
            let gang = runs_again(world, "gang", 1).await?;
            let reason = status(&gang).attempts[0].reason.clone();
            ensure!(reason == Some(Reason::EvictionByEvictionAPI), "{reason:?}");
            runs_again(world, "alone", i64::from(moved)).await?;
            for name in ["alone", "gang"] {
                for pod in world.pods(name).await? {
                    let on = pod.spec.and_then(|spec| spec.node_name);
                    ensure!(on.as_deref() != Some(&*node), "a pod of {name} is on the drained node");
                }
            }
            Ok(())
        }
        .await;
        kubectl(&["uncordon", &node]).await?;
        result
    });
}

/// A label of the test's own, so that its ScavengerJobs go where it says.
const LABEL: &str = "e2e.scavenger.dev/lost";

/// A node on which nobody plays the kubelet but this test, and only once.
async fn unattended_node(world: &World, name: &str) -> Result<()> {
    let amounts = json!({ "cpu": "4", "memory": "8Gi", "pods": "10" });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "type": "kwok", LABEL: world.namespace, "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        } },
        "spec": { "taints": [{ "key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule" }] },
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
        },
    });
    Api::<Node>::all(world.client.clone())
        .create(&PostParams::default(), &serde_json::from_value(node)?)
        .await?;
    Ok(())
}

/// What its kubelet would say of a pod that has started.
async fn has_started(world: &World, job: &str) -> Result<Pod> {
    let bound = until(&format!("the pod of {job} has a node"), || async {
        let pods = world.pods(job).await?;
        Ok(pods.into_iter().find(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())))
    })
    .await?;
    let now = bound.creation_timestamp();
    let running = json!({ "status": {
        "phase": "Running", "startTime": now,
        "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": [{
            "name": "main", "image": "played", "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": { "startedAt": now } },
        }],
    } });
    let patch = Patch::Strategic(&running);
    Ok(world.api::<Pod>().patch_status(&bound.name_any(), &PatchParams::default(), &patch).await?)
}

async fn lose_a_node(world: &World, lost: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let witness = Witness::start(&world.client, &world.namespace);
    let here = |name: &str| {
        let mut job = played(name, "100m");
        job["spec"]["nodeSelector"] = json!({ LABEL: world.namespace });
        job
    };
    world.create::<ScavengerJob>(here("lost")).await?;
    let pod = has_started(world, "lost").await?;
    world.phase("lost", Phase::Running).await?;

    // Nobody renews its Lease: the node lifecycle controller gives it up. There is room elsewhere.
    until("the node is given up", || async {
        let conditions =
            nodes.get(lost).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        let unknown = conditions.iter().any(|one| one.type_ == "Ready" && one.status == "Unknown");
        Ok(unknown.then_some(()))
    })
    .await?;
    let elsewhere = json!({ "metadata": { "labels": { LABEL: world.namespace } } });
    nodes.patch("fake-0001", &PatchParams::default(), &Patch::Merge(&elsewhere)).await?;
    // After 5 minutes the taint manager would do by itself what this taint makes it do at once.
    let taints = nodes.get(lost).await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let mut taints: Vec<_> = taints.iter().map(|taint| json!(taint)).collect();
    taints.push(json!({ "key": LABEL, "effect": "NoExecute" }));
    let tainted = json!({ "spec": { "taints": taints } });
    nodes.patch(lost, &PatchParams::default(), &Patch::Merge(&tainted)).await?;

    let unreachable = |job: &ScavengerJob| has_reason(job, WaitingReason::NodeUnreachable);
    let job = world.job_until("lost", "told that its node is unreachable", unreachable).await?;
    let now = status(&job);
    ensure!(now.phase == Some(Phase::Interrupted) && now.interrupted_count == 1, "{now:?}");
    let reason = now.attempts[0].reason.as_ref();
    ensure!(reason == Some(&Reason::DeletionByTaintManager), "{reason:?}");
    let message = now.message.clone().unwrap_or_default();
    ensure!(message.contains(lost) && message.contains(&pod.name_any()), "{message}");

    // There is room, others get it, and only this one waits: its pod may still be at work.
    world.create::<ScavengerJob>(here("other")).await?;
    world.phase("other", Phase::Running).await?;
    let still = world.api::<Pod>().get(&pod.name_any()).await.context("the pod was removed by force")?;
    ensure!(still.uid() == pod.uid(), "the pod is another one");
    let grace = still.metadata.deletion_grace_period_seconds;
    ensure!(grace == Some(1), "it was deleted with a grace period of {grace:?}");
    let phase = still.status.and_then(|status| status.phase);
    ensure!(phase.as_deref() == Some("Running"), "{phase:?}");
    ensure!(world.api::<BatchJob>().get_opt("lost-2").await?.is_none(), "a second attempt was made");
    witness.is_content()?;

    // An admin removes the node, so nothing of it is at work any more.
    nodes.delete(lost, &DeleteParams::default()).await?;
    let job = runs_again(world, "lost", 1).await?;
    ensure!(status(&job).attempt.is_some_and(|attempt| attempt.number == 2), "{:?}", status(&job));
    ensure!(node_of(world, "lost").await? == "fake-0001", "it runs on {}", node_of(world, "lost").await?);
    witness.is_content()
}

#[test]
fn on_a_lost_node_it_is_interrupted_and_not_started_twice() {
    on_played_nodes("lost-node", |world| async move {
        let lost = format!("lost-{}", world.namespace);
        unattended_node(world, &lost).await?;
        let result = lose_a_node(world, &lost).await;
        let nodes: Api<Node> = Api::all(world.client.clone());
        let unlabelled = json!({ "metadata": { "labels": { LABEL: null } } });
        nodes.patch("fake-0001", &PatchParams::default(), &Patch::Merge(&unlabelled)).await?;
        match nodes.delete(&lost, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        result
    });
}

/// A label of the test's own, by which the pool selects.
const SELECTED: &str = "e2e.scavenger.dev/selected";

async fn select(world: &World, node: &str, selected: bool) -> Result<()> {
    let value = selected.then_some(&*world.namespace);
    let labels = json!({ "metadata": { "labels": { SELECTED: value } } });
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(&labels)).await?;
    Ok(())
}

/// The nodes on which the pods are, once every ScavengerJob runs.
async fn nodes_of_all(world: &World) -> Result<Option<BTreeSet<String>>> {
    let jobs = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
    if jobs.iter().any(|job| status(job).phase != Some(Phase::Running)) {
        return Ok(None);
    }
    let pods = world.api::<Pod>().list(&ListParams::default().labels(names::LABEL_JOB)).await?;
    let alive = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(Some(alive.filter_map(|pod| pod.spec?.node_name).collect()))
}

async fn stay_on_selected_nodes(world: &World) -> Result<()> {
    let witness = Witness::start(&world.client, &world.namespace);
    for node in ["fake-0001", "fake-0002"] {
        select(world, node, true).await?;
    }
    bring_pool(world, &json!({ "nodeSelector": { SELECTED: world.namespace } })).await?;
    // Node fake-0003 is outside and empty, so kube-scheduler would prefer it for every third.
    for number in 0..28 {
        world.create::<ScavengerJob>(played(&format!("job-{number}"), "2")).await?;
    }
    let on = until("all run", || nodes_of_all(world)).await?;
    let inside = ["fake-0001", "fake-0002"].map(str::to_owned).into();
    ensure!(on == inside, "they run on {on:?}");
    witness.is_content()?;

    // After a minute outside the node gives them back, and there is room for all of them on the other one.
    select(world, "fake-0002", false).await?;
    let only = BTreeSet::from(["fake-0001".to_owned()]);
    until_within(2 * LIMIT, "all run on the node that is left", || async {
        Ok(nodes_of_all(world).await?.filter(|on| *on == only).map(|_| ()))
    })
    .await?;
    let jobs = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
    let interrupted: Vec<_> = jobs.iter().filter(|job| status(job).interrupted_count > 0).collect();
    ensure!(!interrupted.is_empty(), "nobody was interrupted");
    for job in interrupted {
        let reason = status(job).attempts[0].reason.clone();
        ensure!(reason == Some(Reason::NodeLeftPool), "{}: {reason:?}", job.name_any());
    }
    witness.is_content()
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn pods_stay_on_selected_nodes_and_a_node_that_leaves_gives_them_back() {
    on_played_nodes("selected-nodes", |world| async move {
        let result = stay_on_selected_nodes(world).await;
        for node in ["fake-0001", "fake-0002"] {
            select(world, node, false).await?;
        }
        // Merged into what the other tests' pool selects by.
        patch_pool(world, &json!({ "nodeSelector": { SELECTED: null } })).await?;
        result
    });
}

/// A budget keeps them on a node that left the pool, and the pool's status says so. Without it they go.
async fn wait_for_the_budget(world: &World) -> Result<()> {
    for node in ["fake-0001", "fake-0002"] {
        select(world, node, true).await?;
    }
    let budgets = json!([{ "reasons": ["NodeLeftPool"], "jobs": 0 }]);
    let pool = json!({ "nodeSelector": { SELECTED: world.namespace }, "disruptionBudgets": budgets });
    bring_pool(world, &pool).await?;
    for number in 0..8 {
        world.create::<ScavengerJob>(played(&format!("job-{number}"), "2")).await?;
    }
    until("all run", || nodes_of_all(world)).await?;
    let pods = world.api::<Pod>().list(&ListParams::default().labels(names::LABEL_JOB)).await?;
    let on = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("fake-0002");
    let on_it = i32::try_from(pods.iter().filter(on).count())?;
    ensure!(on_it > 0, "none runs on the node");

    select(world, "fake-0002", false).await?;
    until_within(2 * LIMIT, "the status says who is held back", || async {
        let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
        let held = status.held_back.into_iter().find(|held| held.reason == Reason::NodeLeftPool.name());
        Ok(held.filter(|held| held.jobs == on_it && held.next_time.is_none()).map(|_| ()))
    })
    .await?;
    let jobs = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
    ensure!(jobs.iter().all(|job| status(job).interrupted_count == 0), "somebody was interrupted");

    patch_pool(world, &json!({ "disruptionBudgets": null })).await?;
    let only = BTreeSet::from(["fake-0001".to_owned()]);
    until("all run on the node that is left", || async {
        Ok(nodes_of_all(world).await?.filter(|on| *on == only).map(|_| ()))
    })
    .await?;
    until("nobody is held back", || async {
        let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
        Ok(status.held_back.is_empty().then_some(()))
    })
    .await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_budget_of_none_keeps_scavenger_jobs_on_a_node_that_left_the_pool() {
    on_played_nodes("budget-of-none", |world| async move {
        let result = wait_for_the_budget(world).await;
        for node in ["fake-0001", "fake-0002"] {
            select(world, node, false).await?;
        }
        patch_pool(world, &json!({ "nodeSelector": { SELECTED: null }, "disruptionBudgets": null })).await?;
        result
    });
}

/// Taints of the two groups beside the plain one, as nodes with GPUs and cheap ones have them.
const GPU_TAINT: &str = "e2e.scavenger.dev/gpu-node";
const SPOT_TAINT: &str = "e2e.scavenger.dev/spot";

/// What the nodes behind the first taint have.
const GPU: &str = "e2e.scavenger.dev/gpu";

/// The nodes: plain, with GPUs, cheap. Each has 64 cores.
const GROUPS: [(&str, Option<&str>); 3] =
    [("fake-0001", None), ("fake-0002", Some(GPU_TAINT)), ("fake-0003", Some(SPOT_TAINT))];

/// Taints the nodes as they are grouped, or takes the taints away again.
async fn group_nodes(world: &World, tainted: bool) -> Result<()> {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let taint = |key: &str, value: &str| json!({ "key": key, "value": value, "effect": "NoSchedule" });
    for (node, key) in GROUPS {
        let own = key.filter(|_| tainted).map(|key| taint(key, "yes"));
        let taints: Vec<_> = [taint("kwok.x-k8s.io/node", "fake")].into_iter().chain(own).collect();
        let patch = json!({ "spec": { "taints": taints } });
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    let gpus = tainted.then_some("8");
    let patch = json!({ "status": { "capacity": { GPU: gpus }, "allocatable": { GPU: gpus } } });
    nodes.patch_status("fake-0002", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// One that tolerates these taints, too.
fn tolerating(name: &str, cpu: &str, taints: &[&str]) -> serde_json::Value {
    let mut sj = played(name, cpu);
    if let Some(tolerations) = sj["spec"]["tolerations"].as_array_mut() {
        tolerations.extend(taints.iter().map(|key| json!({ "key": key, "operator": "Exists" })));
    }
    sj
}

/// How many pods of ScavengerJobs whose name begins so are on each node.
async fn count_on_nodes(world: &World, prefix: &str) -> Result<BTreeMap<String, usize>> {
    let mut on = BTreeMap::new();
    for pod in world.api::<Pod>().list(&ListParams::default().labels(names::LABEL_JOB)).await? {
        if pod.name_any().starts_with(prefix) && pod.metadata.deletion_timestamp.is_none() {
            *on.entry(pod.spec.and_then(|spec| spec.node_name).unwrap_or_default()).or_default() += 1;
        }
    }
    Ok(on)
}

/// Waits until the pods of those whose name begins so are where they are to be.
async fn are_on_nodes(world: &World, prefix: &str, expected: &[(&str, usize)]) -> Result<()> {
    let expected = expected.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect();
    let on = RefCell::new(BTreeMap::new());
    until(&format!("pods of {prefix} are on {expected:?}"), || async {
        let found = count_on_nodes(world, prefix).await?;
        let is_it = found == expected;
        on.replace(found);
        Ok(is_it.then_some(()))
    })
    .await
    .with_context(|| format!("they are on {:?}", on.borrow()))
}

async fn keep_to_each_groups_threshold(world: &World) -> Result<()> {
    let witness = Witness::start(&world.client, &world.namespace);
    // 20 of 4 cores without a toleration: half of 64 plain cores takes 8, however empty the other nodes are.
    for number in 0..20 {
        world.create::<ScavengerJob>(played(&format!("plain-{number}"), "4")).await?;
    }
    are_on_nodes(world, "plain-", &[("fake-0001", 8)]).await?;
    // More than the plain nodes may ever give.
    world.create::<ScavengerJob>(played("large", "40")).await?;
    let large = world.job_until("large", "waiting", |sj| has_reason(sj, WaitingReason::NeverFits)).await?;
    let said = status(&large).message.unwrap_or_default();
    ensure!(said.contains("40 cpu") && said.contains("50%"), "{said}");
    // Those that tolerate a taint have the plain node and that group: half of 128 cores, less 32 that are taken.
    for number in 0..12 {
        let sj = tolerating(&format!("spot-{number}"), "4", &[SPOT_TAINT]);
        world.create::<ScavengerJob>(sj).await?;
    }
    are_on_nodes(world, "spot-", &[("fake-0003", 8)]).await?;
    // Without their toleration nobody gets the nodes with GPUs, and with it only as much as half of them.
    for number in 0..6 {
        let mut sj = tolerating(&format!("gpu-{number}"), "4", &[GPU_TAINT]);
        sj["spec"]["resources"]["requests"][GPU] = json!("1");
        world.create::<ScavengerJob>(sj).await?;
    }
    are_on_nodes(world, "gpu-", &[("fake-0002", 4)]).await?;
    // An ordinary pod takes much of the plain node: those that can be nowhere else go, and the others stay.
    let mut ordinary = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "ordinary" },
        "spec": {
            "containers": [{ "name": "main", "image": "played", "resources": { "requests": { "cpu": "28" } } }],
            "tolerations": [{ "key": "kwok.x-k8s.io/node", "operator": "Exists" }],
        },
    });
    ordinary["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "fake-0001" });
    world.create::<Pod>(ordinary).await?;
    // 60 of 64 cores are more than 80%, and 60% are left: 8 - 6.
    are_on_nodes(world, "plain-", &[("fake-0001", 2)]).await?;
    are_on_nodes(world, "spot-", &[("fake-0003", 8)]).await?;
    are_on_nodes(world, "gpu-", &[("fake-0002", 4)]).await?;
    for sj in world.api::<ScavengerJob>().list(&ListParams::default()).await? {
        let reasons = status(&sj).attempts.into_iter().map(|attempt| attempt.reason);
        ensure!(reasons.flatten().all(|reason| reason == Reason::Headroom), "{:?}", status(&sj));
    }
    witness.is_content()
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn groups_of_nodes_behind_taints_keep_their_own_thresholds() {
    on_played_nodes("node-groups", |world| async move {
        let own = json!({
            "toleratedTaints": ["kwok.x-k8s.io/node", GPU_TAINT, SPOT_TAINT],
            "startThreshold": 0.5, "headroomTarget": 0.6, "interruptThreshold": 0.8,
        });
        let before = pools(world).get(names::DEFAULT_POOL).await?.spec;
        group_nodes(world, true).await?;
        bring_pool(world, &own).await?;
        let result = keep_to_each_groups_threshold(world).await;
        patch_pool(
            world,
            &json!({
                "startThreshold": before.start_threshold, "headroomTarget": before.headroom_target,
                "interruptThreshold": before.interrupt_threshold,
            }),
        )
        .await?;
        group_nodes(world, false).await?;
        result
    });
}

/// A class for pods in sandboxes: each takes 30 cores of its own, and goes to one node, which has a taint.
async fn sandboxes(world: &World) -> Result<()> {
    let class = json!({
        "metadata": { "name": world.namespace }, "handler": "played", "overhead": { "podFixed": { "cpu": "30" } },
        "scheduling": {
            "nodeSelector": { "kubernetes.io/hostname": "fake-0002" },
            "tolerations": [{ "key": SPOT_TAINT, "operator": "Exists" }],
        },
    });
    let classes: Api<RuntimeClass> = Api::all(world.client.clone());
    classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    let taint = json!({ "spec": { "taints": [
        { "key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule" },
        { "key": SPOT_TAINT, "value": "yes", "effect": "NoSchedule" }] } });
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.patch("fake-0002", &PatchParams::default(), &Patch::Merge(&taint)).await?;
    Ok(())
}

async fn refused(world: &World, name: &str, words: &[&str]) -> Result<()> {
    let says = |job: &ScavengerJob| {
        let message = status(job).message.unwrap_or_default();
        has_reason(job, WaitingReason::Refused) && words.iter().all(|word| message.contains(word))
    };
    world.job_until(name, &format!("refused with {words:?}"), says).await.map(drop)
}

async fn go_to_sandboxes(world: &World) -> Result<()> {
    let boxed = |name: &str| {
        let mut job = played(name, "30");
        job["spec"]["runtimeClassName"] = json!(world.namespace);
        job
    };
    sandboxes(world).await?;
    world.create::<ScavengerJob>(boxed("first")).await?;
    refused(world, "first", &[&world.namespace, "limits.allowedRuntimeClasses"]).await?;
    bring_pool(world, &json!({ "limits": { "allowedRuntimeClasses": [world.namespace] } })).await?;
    refused(world, "first", &[&world.namespace, SPOT_TAINT, "toleratedTaints"]).await?;
    bring_pool(world, &json!({ "toleratedTaints": ["kwok.x-k8s.io/node", SPOT_TAINT] })).await?;
    world.phase("first", Phase::Running).await?;
    ensure!(node_of(world, "first").await? == "fake-0002");
    let spec = world.pod("first").await?.spec.unwrap_or_default();
    let overhead = spec.overhead.and_then(|overhead| overhead.get("cpu").map(|cpu| cpu.0.clone()));
    ensure!(overhead.as_deref() == Some("30"), "the API server added {overhead:?}");

    // 60 of 64 cores are used there, and the empty nodes are none for it.
    world.create::<ScavengerJob>(boxed("second")).await?;
    let job = world.job_until("second", "waiting", |job| has_reason(job, WaitingReason::NoCapacity)).await?;
    ensure!(status(&job).attempt.is_none(), "it was started in vain: {:?}", status(&job));
    let first = status(&world.api::<ScavengerJob>().get("first").await?);
    ensure!(first.interrupted_count == 0, "{first:?}");
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_runtime_class_takes_its_overhead_and_moves_no_pod_out_of_the_pool() {
    on_played_nodes("runtime-class", |world| async move {
        let result = go_to_sandboxes(world).await;
        patch_pool(world, &json!({ "limits": { "allowedRuntimeClasses": null } })).await?;
        let nodes: Api<Node> = Api::all(world.client.clone());
        let plain = json!({ "spec": { "taints": [
            { "key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule" }] } });
        nodes.patch("fake-0002", &PatchParams::default(), &Patch::Merge(&plain)).await?;
        let classes: Api<RuntimeClass> = Api::all(world.client.clone());
        classes.delete(&world.namespace, &DeleteParams::default()).await?;
        result
    });
}

/// Resources of one node that no other node has, as slices of GPUs and huge pages are on large clusters.
const DEVICES: u32 = 30;

#[test]
fn a_node_with_many_resources_is_in_the_status() {
    on_played_nodes("many-resources", |world| async move {
        let nodes: Api<Node> = Api::all(world.client.clone());
        let offer = async |amount: Option<&str>| {
            let all: serde_json::Map<_, _> = (0..DEVICES)
                .map(|number| (format!("e2e.scavenger.dev/device-{number}"), json!(amount)))
                .collect();
            let patch = json!({ "status": { "capacity": all, "allocatable": all } });
            nodes.patch_status("fake-0001", &PatchParams::default(), &Patch::Merge(&patch)).await
        };
        offer(Some("2")).await?;
        let told = until("the pool's status has all resources", || async {
            let pool = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
            let of_shape = pool.node_shapes.iter().map(|shape| shape.allocatable.len()).max();
            let most = DEVICES as usize;
            Ok((pool.allocatable.len() > most && of_shape > Some(most)).then_some(()))
        })
        .await;
        offer(None).await?;
        told
    });
}

/// What runc says on a node whose driver was upgraded under the runtime.
const BROKEN: &str = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
                      failed: unable to start container process: error during container init: error running prestart hook \
                      #0: exit status 1: nvidia-container-cli: initialization error: nvml error: driver/library version \
                      mismatch";

/// Plays the kubelet of a node on which no container can be started: its Lease is renewed, and each pod fails.
async fn play_broken_kubelet(world: &World, node: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-node-lease");
    let pods = world.api::<Pod>();
    let here = ListParams::default().fields(&format!("spec.nodeName={node},status.phase=Pending"));
    let mut every = tokio::time::interval(std::time::Duration::from_millis(500));
    loop {
        every.tick().await;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": node },
            "spec": { "holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": MicroTime(now()) },
        });
        leases.patch(node, &PatchParams::apply("e2e").force(), &Patch::Apply(&lease)).await?;
        for pod in pods.list(&here).await? {
            let failed = json!({ "status": {
                "phase": "Failed", "startTime": pod.creation_timestamp(),
                "containerStatuses": [{
                    "name": "main", "image": "played", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "terminated": {
                        "exitCode": 128, "reason": "StartError", "message": BROKEN,
                        "startedAt": "1970-01-01T00:00:00Z", "finishedAt": now().to_string(),
                    } },
                }],
            } });
            match pods
                .patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&failed))
                .await
            {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock of a played kubelet")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// True if a ScavengerJob has had no attempt but the one that runs.
fn never_failed(sj: &ScavengerJob) -> bool {
    status(sj).attempt.is_some_and(|attempt| attempt.number == 1)
}

async fn close_a_broken_node(world: &World, broken: &str) -> Result<()> {
    let witness = Witness::start(&world.client, &world.namespace);
    let here = |name: &str| {
        let mut sj = played(name, "100m");
        sj["spec"]["nodeSelector"] = json!({ LABEL: world.namespace });
        sj
    };
    // There is no other node for them.
    for name in ["first", "second", "third"] {
        world.create::<ScavengerJob>(here(name)).await?;
    }
    let closed = until("the node is closed", || async {
        let pool = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
        let said = pool.conditions.into_iter().map(|one| one.message);
        Ok(said.into_iter().find(|message| message.contains("takes no ScavengerJobs until")))
    })
    .await?;
    println!("{closed}");
    ensure!(closed.contains(&format!("node {broken} takes no")) && closed.contains("nvml error"), "{closed}");
    for name in ["first", "second", "third"] {
        let sj = status(&world.api::<ScavengerJob>().get(name).await?);
        ensure!(sj.phase != Some(Phase::Failed), "{name}: {sj:?}");
    }
    // It looks empty, and still nothing is sent there any more.
    let elsewhere = json!({ "metadata": { "labels": { LABEL: world.namespace } } });
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.patch("fake-0001", &PatchParams::default(), &Patch::Merge(&elsewhere)).await?;
    for number in 0..6 {
        world.create::<ScavengerJob>(here(&format!("later-{number}"))).await?;
    }
    for number in 0..6 {
        let sj = world.phase(&format!("later-{number}"), Phase::Running).await?;
        ensure!(never_failed(&sj), "{:?}", status(&sj));
    }
    for name in ["first", "second", "third"] {
        let sj = status(&world.phase(name, Phase::Running).await?);
        ensure!(sj.start_times.len() == 1, "{name}: {sj:?}");
        ensure!(node_of(world, name).await? == "fake-0001", "{name} runs on {}", node_of(world, name).await?);
    }
    witness.is_content()
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_node_whose_containers_cannot_start_is_closed_after_three() {
    on_played_nodes("broken-node", |world| async move {
        let broken = format!("broken-{}", world.namespace);
        unattended_node(world, &broken).await?;
        let result = tokio::select! {
            result = close_a_broken_node(world, &broken) => result,
            ended = play_broken_kubelet(world, &broken) => ended.context("the played kubelet"),
        };
        let nodes: Api<Node> = Api::all(world.client.clone());
        let unlabelled = json!({ "metadata": { "labels": { LABEL: null } } });
        nodes.patch("fake-0001", &PatchParams::default(), &Patch::Merge(&unlabelled)).await?;
        nodes.delete(&broken, &DeleteParams::default()).await?;
        let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-node-lease");
        leases.delete(&broken, &DeleteParams::default()).await?;
        result
    });
}

/// A volume that one node at a time can mount, bound to a claim. It is attached by a driver that nobody has: the nodes are
/// played.
async fn volume_of_one_node(world: &World, claim: &str) -> Result<String> {
    let name = format!("{claim}-{}", world.namespace);
    let size = json!({ "storage": "1Mi" });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": size, "storageClassName": "",
            "csi": { "driver": "e2e.scavenger.dev", "volumeHandle": name },
            "claimRef": { "namespace": world.namespace, "name": claim },
        },
    });
    Api::<PersistentVolume>::all(world.client.clone())
        .create(&PostParams::default(), &serde_json::from_value(volume)?)
        .await?;
    world
        .create::<PersistentVolumeClaim>(json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": claim },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": size }, "storageClassName": "",
                "volumeName": name,
            },
        }))
        .await?;
    until("the claim is bound", || async {
        let claim = world.api::<PersistentVolumeClaim>().get(claim).await?;
        let phase = claim.status.and_then(|status| status.phase);
        Ok((phase.as_deref() == Some("Bound")).then_some(()))
    })
    .await?;
    Ok(name)
}

async fn share_a_volume_of_one_node(world: &World) -> Result<()> {
    let mounting = |name: &str, cpu: &str| {
        let mut sj = played(name, cpu);
        sj["spec"]["persistentVolumeClaims"] = json!([{ "claimName": "data", "mountPath": "/data" }]);
        sj
    };
    let mut gang = mounting("gang", "8");
    gang["spec"]["podCount"] = json!(3);
    world.create::<ScavengerJob>(gang).await?;
    let running = world.phase("gang", Phase::Running).await?;
    ensure!(never_failed(&running), "{:?}", status(&running));
    let chosen = status(&running).attempt.and_then(|attempt| attempt.node_name);
    let there = chosen.context("the status does not name the node")?;
    // kube-scheduler would have spread them.
    for pod in world.pods("gang").await? {
        let on = pod.spec.and_then(|spec| spec.node_name);
        ensure!(on.as_ref() == Some(&there), "a pod of the gang is on {on:?} and not on {there}");
    }
    world.create::<ScavengerJob>(mounting("small", "1")).await?;
    world.phase("small", Phase::Running).await?;
    ensure!(node_of(world, "small").await? == there, "the second one is not where the volume is attached");
    world.create::<ScavengerJob>(mounting("large", "60")).await?;
    let expected = format!("its volume is attached to node {there}");
    let large = world
        .job_until("large", "told where its volume is", |job| {
            status(job).message.is_some_and(|message| message.ends_with(&expected))
        })
        .await?;
    ensure!(status(&large).attempt.is_none(), "it was tried in vain: {:?}", status(&large));
    let mut wide = mounting("wide", "25");
    wide["spec"]["podCount"] = json!(3);
    world.create::<ScavengerJob>(wide).await?;
    world
        .job_until("wide", "told that no node takes all of its pods", |job| {
            let message = status(job).message.unwrap_or_default();
            message.contains("no node has capacity for all 3 pods")
                && has_reason(job, WaitingReason::NeverFits)
        })
        .await?;
    // Once nobody mounts it any more, the volume may be attached elsewhere.
    for name in ["gang", "small"] {
        world.api::<ScavengerJob>().delete(name, &DeleteParams::default()).await?;
    }
    world.phase("large", Phase::Running).await?;
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn those_that_share_a_volume_of_one_node_share_the_node() {
    on_played_nodes("one-node-volume", |world| async move {
        let volume = volume_of_one_node(world, "data").await?;
        let result = share_a_volume_of_one_node(world).await;
        let volumes: Api<PersistentVolume> = Api::all(world.client.clone());
        volumes.delete(&volume, &DeleteParams::default()).await?;
        result
    });
}
