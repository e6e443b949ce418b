//! The guard of preemption mode Operator, while no operator is at work. It concerns the one operator of the cluster, so
//! it is tried in a program of its own.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{CronJob, Job as BatchJob},
    coordination::v1::Lease,
    core::v1::Pod,
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, LogParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    kubectl::{checkout, kubectl},
    postgres::NAMESPACE,
    room::{
        delete_pod, holding, in_mode_operator, interrupted, owner_of_class, start, status, unschedulable,
    },
    run,
    users::{self, may, refused},
    world::{OPERATORS, ordinary_pod, succeeded, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

/// Longer ago than the guard waits.
const LONG_AGO: SignedDuration = SignedDuration::from_mins(10);

async fn guard_file(what: &str) -> Result<String> {
    let file = checkout("deploy/preemption-operator/guard.yaml");
    let file = file.to_str().context("the checkout's path is no text")?;
    let arguments: &[&str] = if what == "delete" {
        &["delete", "--wait=true", "--ignore-not-found"]
    } else {
        &["apply", "--server-side"]
    };
    kubectl(&[arguments, &["-f", file]].concat()).await
}

/// Says when the Lease was renewed last.
#[expect(clippy::disallowed_methods, reason = "the stamp of a Lease is a time by the clock")]
async fn renewed(world: &World, ago: SignedDuration) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), NAMESPACE);
    let time = Timestamp::now().saturating_sub(ago)?;
    let patch = json!({ "spec": { "renewTime": format!("{time:.6}") } });
    leases.patch(names::OPERATOR, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Makes a Job from the CronJob as an admin would, and returns whether it succeeded, and what it said.
async fn guard(world: &World, name: &str) -> Result<(bool, String)> {
    kubectl(&["create", "job", "--namespace", NAMESPACE, "--from=cronjob/scavenger-guard", name]).await?;
    let jobs: Api<BatchJob> = Api::namespaced(world.client.clone(), NAMESPACE);
    let has_succeeded =
        until(&format!("the Job {name} ends"), || async { Ok(succeeded(&jobs.get(name).await?)) }).await?;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
    let pod = pods.list(&of_job).await?.items.pop().with_context(|| format!("the Job {name} has no pod"))?;
    let log = pods.logs(&pod.name_any(), &LogParams::default()).await?;
    jobs.delete(name, &DeleteParams::background()).await?;
    println!("{log}");
    Ok((has_succeeded, log))
}

async fn cron(world: &World, patch: &Value) -> Result<()> {
    let crons: Api<CronJob> = Api::namespaced(world.client.clone(), NAMESPACE);
    crons.patch("scavenger-guard", &PatchParams::default(), &Patch::Strategic(patch)).await?;
    Ok(())
}

/// UIDs of the pods of these ScavengerJobs that nobody has asked to go.
async fn untouched(world: &World, jobs: &[&str]) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for job in jobs {
        let pods = world.pods(job).await?.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        all.extend(pods.filter_map(|pod| pod.uid()));
    }
    Ok(all)
}

fn says(log: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(log.contains(word), "{word:?} is not in:\n{log}");
    }
    Ok(())
}

/// The next operator calls it interrupted, and it advances in the queue. Of a pod that is gone by then only its Job
/// tells, which knows the condition and not its reason.
async fn taken_away(world: &World, count: i64, reason: &Reason) -> Result<()> {
    let told = interrupted(world, "cheap", count).await?;
    ensure!(told == *reason || told == Reason::DisruptionTarget, "{told}");
    let job = world.api::<ScavengerJob>().get("cheap").await?;
    ensure!(status(&job).counted_interruptions == count, "{:?}", status(&job));
    Ok(())
}

async fn story(world: &World, class: &str) -> Result<()> {
    world.claim("data").await?;
    let slot = &world.slots(11).await?;
    start(world, holding("cheap", slot, 5, true)).await?;
    start(world, holding("dear", slot, 5, false)).await?;
    let both = untouched(world, &["cheap", "dear"]).await?;
    ensure!(both.len() == 2, "{both:?}");

    // Gone, and not for long: another replica may be about to take over.
    world.operators(0).await?;
    owner_of_class(world, "owner", Some(class), slot, json!({})).await?;
    unschedulable(world, "owner").await?;
    renewed(world, SignedDuration::from_secs(10)).await?;
    let (succeeded, log) = guard(world, "guard-fresh").await?;
    ensure!(succeeded, "{log}");
    says(&log, &["operator      at work: Lease scavenger-system/scavenger-operator"])?;
    ensure!(untouched(world, &["cheap", "dear"]).await? == both, "somebody was interrupted for nothing");

    // Renewed all the time, by an operator whose clock is ten minutes behind.
    let renewing = async {
        let mut every = tokio::time::interval(Duration::from_secs(1));
        loop {
            every.tick().await;
            renewed(world, LONG_AGO).await?;
        }
        #[expect(unreachable_code, reason = "it ends when the other one does, or with an error")]
        anyhow::Ok(())
    };
    let (succeeded, log) = tokio::select! {
        done = guard(world, "guard-clock") => done?,
        failed = renewing => return failed,
    };
    ensure!(succeeded, "{log}");
    says(&log, &["none at work", "at work again"])?;
    ensure!(untouched(world, &["cheap", "dear"]).await? == both, "somebody was interrupted for nothing");

    // Stale, but it shall only say what it would do.
    renewed(world, LONG_AGO).await?;
    let of_container = |args: &[&str]| {
        json!({ "spec": { "jobTemplate": { "spec": { "template": { "spec": {
        "containers": [{ "name": "guard", "args": args }] } } } } } })
    };
    cron(world, &of_container(&["guard", "--stale-after=2m", "--dry-run"])).await?;
    let (succeeded, log) = guard(world, "guard-dry").await?;
    ensure!(succeeded, "{log}");
    let owner = format!("{}/owner: capacity on node", world.namespace);
    let victim = format!("ScavengerJob {}/cheap, pod cheap-1-0", world.namespace);
    says(&log, &["none at work", "1 that kube-scheduler", &owner, &victim, "would be interrupted"])?;
    ensure!(untouched(world, &["cheap", "dear"]).await? == both, "somebody was interrupted in a dry run");
    cron(world, &of_container(&["guard", "--stale-after=2m"])).await?;

    // Now it frees the room, with the one that loses least.
    let dear = untouched(world, &["dear"]).await?;
    let (succeeded, log) = guard(world, "guard-stale").await?;
    ensure!(succeeded, "{log}");
    says(&log, &[&owner, &victim, ": evicted"])?;
    world.pod_runs("owner").await?;
    ensure!(untouched(world, &["dear"]).await? == dear, "the dear one went, too");
    let (succeeded, log) = guard(world, "guard-idle").await?;
    ensure!(succeeded, "{log}");
    says(&log, &["pending pods  none"])?;

    // The next operator finds what became of it, and it comes back.
    world.operators(OPERATORS).await?;
    taken_away(world, 1, &Reason::EvictionByEvictionAPI).await?;
    delete_pod(world, "owner").await?;
    world.phase("cheap", Phase::Running).await?;

    // A budget that forbids everything does not keep it.
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "nothing" },
        "spec": { "maxUnavailable": 0, "selector": {} },
    });
    world.create::<PodDisruptionBudget>(budget).await?;
    world.operators(0).await?;
    owner_of_class(world, "owner", Some(class), slot, json!({})).await?;
    unschedulable(world, "owner").await?;
    renewed(world, LONG_AGO).await?;
    let (succeeded, log) = guard(world, "guard-budget").await?;
    ensure!(succeeded, "{log}");
    says(&log, &["deleted, since a PodDisruptionBudget forbids its eviction"])?;
    world.pod_runs("owner").await?;
    world.operators(OPERATORS).await?;
    taken_away(world, 2, &Reason::InterruptedByScavenger).await?;
    ensure!(untouched(world, &["dear"]).await? == dear, "the dear one went, too");

    // While an operator is at work it looks at nothing else.
    let (succeeded, log) = guard(world, "guard-at-work").await?;
    ensure!(succeeded && log.lines().count() == 1, "{log}");
    says(&log, &["operator      at work", "is held by scavenger-operator-"])
}

/// It may interrupt ScavengerJobs, and nothing else.
async fn rights(world: &World) -> Result<()> {
    let client = users::client(&users::service_account(NAMESPACE, names::GUARD)).await?;
    until("the guard has its rights", || async {
        Ok(may(&client, None, ("", "pods/eviction", "create")).await?.then_some(()))
    })
    .await?;
    for (needs, right) in [
        (true, ("", "pods", "list")),
        (true, ("", "pods", "delete")),
        (true, ("", "persistentvolumes", "list")),
        (true, ("scavenger.dev", "scavengerjobs", "list")),
        (false, ("scavenger.dev", "scavengerjobs", "patch")),
        (false, ("scavenger.dev", "scavengerjobs/status", "patch")),
        (false, ("scavenger.dev", "scavengerpools", "patch")),
        (false, ("batch", "jobs", "create")),
        (false, ("batch", "jobs", "delete")),
        (false, ("", "pods", "create")),
        (false, ("", "pods", "patch")),
        (false, ("", "persistentvolumeclaims", "list")),
        (false, ("", "secrets", "get")),
        (false, ("coordination.k8s.io", "leases", "update")),
        (false, ("coordination.k8s.io", "leases", "create")),
    ] {
        let may = may(&client, Some(NAMESPACE), right).await?;
        ensure!(may == needs, "may the guard {right:?}? {may}");
    }
    // RBAC knows no classes of pods; the policies do.
    let ordinary = ordinary_pod("bystander", &json!({ "cpu": "10m", "memory": "16Mi" }));
    world.create::<Pod>(ordinary).await?;
    let pods: Api<Pod> = Api::namespaced(client, &world.namespace);
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let words = ["scavenger-operator-pods", "delete and mark only"];
    refused("the guard deletes an ordinary pod", pods.delete("bystander", &dry).await, &words)?;
    let marked = json!({ "status": { "conditions": [{ "type": "DisruptionTarget", "status": "True" }] } });
    let (parameters, patch) =
        (PatchParams { dry_run: true, ..PatchParams::default() }, Patch::Strategic(&marked));
    let answer = pods.patch_status("bystander", &parameters, &patch).await;
    refused("the guard marks an ordinary pod", answer, &words)
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn the_guard_frees_the_room_while_no_operator_does() {
    run("guard", |world| async move {
        guard_file("apply").await?;
        // Its own runs every minute would come between.
        cron(world, &json!({ "spec": { "suspend": true } })).await?;
        let result = match rights(world).await {
            Ok(()) => in_mode_operator(world, |class| async move { story(world, &class).await }).await,
            unlike => unlike,
        };
        world.operators(OPERATORS).await?;
        guard_file("delete").await?;
        result
    });
}
