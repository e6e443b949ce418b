//! The life of a ScavengerJob on a real cluster: held, limited and cleaned up; refused by the API server; stuck at the
//! kubelet.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{LimitRange, Pod, ResourceQuota},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    room::status,
    run,
    world::{argument, counter, over_attempts, resumed_at, until},
};
use scavenger_schema::scavenger_job::{Outcome, Phase, ScavengerJob};
use scavenger_vocabulary::{Reason, WaitingReason, condition};
use serde_json::{Value, json};

fn message(job: &ScavengerJob) -> String {
    status(job).message.unwrap_or_default()
}

/// The reason why it waits, or why it ended.
fn reason(job: &ScavengerJob) -> String {
    let kinds = [condition::ADMITTED, condition::COMPLETE, condition::FAILED];
    let conditions = status(job).conditions;
    let condition = conditions.into_iter().find(|condition| kinds.contains(&condition.type_.as_str()));
    condition.map(|condition| condition.reason).unwrap_or_default()
}

async fn change(world: &World, spec: Value) -> kube::Result<ScavengerJob> {
    let patch = json!({ "spec": spec });
    world.api::<ScavengerJob>().patch("count", &PatchParams::default(), &Patch::Merge(&patch)).await
}

/// Waits until the pod of `count` has counted to 10.
async fn counted(world: &World) -> Result<()> {
    let pod = world.pods("count").await?.first().context("the ScavengerJob has no pod")?.name_any();
    let far = |line: &str| {
        line.strip_prefix("checkpoint ").and_then(|at| at.parse().ok()).is_some_and(|at: u32| at >= 10)
    };
    world.log_until(&pod, "a checkpoint at 10", far).await?;
    Ok(())
}

async fn nothing_is_left(world: &World) -> Result<()> {
    until("its Jobs and pods are gone", || async {
        let jobs = world.api::<BatchJob>().list(&Default::default()).await?.items;
        Ok((jobs.is_empty() && world.pods("count").await?.is_empty()).then_some(()))
    })
    .await
}

#[test]
fn suspend_interrupts_it_holds_it_and_lets_it_go_on() {
    run("suspend", |world| async move {
        world.claim("data").await?;
        world.create::<ScavengerJob>(over_attempts(counter("count", 100), 2)).await?;
        world.phase("count", Phase::Running).await?;
        counted(world).await?;
        let refused = change(world, json!({ "podCount": 2, "suspend": true })).await;
        ensure!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.message.contains("no attempt is active")),
            "{refused:?}"
        );
        // A write of the spec carries no status: whatever it says of the phase is not heard.
        let pretends = json!({ "spec": { "podCount": 2 }, "status": { "phase": Phase::Interrupted } });
        let patched = world.api::<ScavengerJob>();
        let patched = patched.patch("count", &PatchParams::default(), &Patch::Merge(&pretends)).await;
        ensure!(
            matches!(&patched, Err(kube::Error::Api(status)) if status.message.contains("no attempt is active")),
            "{patched:?}"
        );
        let suspended = change(world, json!({ "suspend": true })).await?;
        let job = world.phase("count", Phase::Interrupted).await?;
        ensure!(
            reason(&job) == WaitingReason::Suspended.name() && message(&job) == "held by spec.suspend",
            "{:?}",
            status(&job)
        );
        let now = status(&job);
        ensure!((now.interrupted_count, now.counted_interruptions) == (1, 0), "{now:?}");
        ensure!(now.observed_generation == suspended.metadata.generation, "{now:?}");
        ensure!(now.attempts[0].outcome == Some(Outcome::Interrupted), "{now:?}");
        nothing_is_left(world).await?;

        change(world, json!({ "suspend": false })).await?;
        let job = world.phase("count", Phase::Completed).await?;
        let now = status(&job);
        ensure!(now.attempts[1].priority_class_name == "scavenger-0", "{now:?}");
        let pod = world.pods("count").await?.first().context("the ScavengerJob has no pod")?.name_any();
        let log = world.log_until(&pod, "the second attempt's log", |line| line.starts_with("done ")).await?;
        ensure!(resumed_at(&log)? >= 10, "it did not resume from its checkpoint: {log}");
        Ok(())
    });
}

#[test]
fn one_that_is_created_suspended_waits() {
    run("suspended", |world| async move {
        world.claim("data").await?;
        let mut job = counter("count", 10);
        job["spec"]["suspend"] = json!(true);
        world.create::<ScavengerJob>(job).await?;
        world.job_until("count", "suspended", |job| reason(job) == WaitingReason::Suspended.name()).await?;
        change(world, json!({ "suspend": false })).await?;
        let job = world.phase("count", Phase::Completed).await?;
        ensure!(status(&job).attempts.len() == 1, "{:?}", status(&job));
        Ok(())
    });
}

#[test]
fn the_deadline_ends_it() {
    run("deadline", |world| async move {
        world.claim("data").await?;
        let mut job = counter("count", 100_000);
        job["spec"]["activeDeadlineSeconds"] = json!(6);
        world.create::<ScavengerJob>(job).await?;
        let job = world.phase("count", Phase::Failed).await?;
        ensure!(reason(&job) == Reason::DeadlineExceeded.name(), "{:?}", status(&job));
        let now = status(&job);
        ensure!((5..=8).contains(&now.active_seconds), "{now:?}");
        nothing_is_left(world).await
    });
}

#[test]
fn a_finished_one_is_removed_with_its_jobs() {
    run("ttl", |world| async move {
        world.claim("data").await?;
        world.create::<ScavengerJob>(counter("count", 10)).await?;
        let job = world.phase("count", Phase::Completed).await?;
        ensure!(job.spec.ttl_seconds_after_finished == 7 * 24 * 3600, "{:?}", job.spec);
        ensure!(world.api::<BatchJob>().get_opt("count-1").await?.is_some(), "the Job did not stay");
        // The finished one may be told so at any time.
        change(world, json!({ "ttlSecondsAfterFinished": 2 })).await?;
        until("the ScavengerJob is gone", || async {
            Ok(world.api::<ScavengerJob>().get_opt("count").await?.is_none().then_some(()))
        })
        .await?;
        nothing_is_left(world).await
    });
}

#[test]
fn running_out_of_memory_is_its_own_failure() {
    run("oom", |world| async move {
        world.claim("data").await?;
        let mut job = counter("count", 10);
        // An image with coreutils; tail keeps what it read until a line ends, which never happens.
        job["spec"]["image"] = json!("scavenger.dev/postgres:15");
        job["spec"]["command"] = json!(["tail", "/dev/zero"]);
        job["spec"]["args"] = json!([]);
        world.create::<ScavengerJob>(job).await?;
        let job = world.phase("count", Phase::Failed).await?;
        ensure!(reason(&job) == Reason::OOMKilled.name(), "{:?}", status(&job));
        let now = status(&job);
        ensure!(now.interrupted_count == 0 && now.attempts.len() == 1, "{now:?}");
        ensure!(message(&job).contains("ask for more memory"), "{now:?}");
        Ok(())
    });
}

#[test]
fn a_quota_that_is_used_up_holds_it_until_there_is_room() {
    run("quota", |world| async move {
        world.claim("data").await?;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "none" },
            "spec": { "hard": { "pods": "0" } },
        });
        world.create::<ResourceQuota>(quota).await?;
        until("the quota is in force", || async {
            let quota = world.api::<ResourceQuota>().get("none").await?;
            Ok(quota.status.and_then(|status| status.hard).map(|_| ()))
        })
        .await?;
        world.create::<ScavengerJob>(counter("count", 10)).await?;
        let job = world
            .job_until("count", "QuotaExceeded", |job| reason(job) == WaitingReason::QuotaExceeded.name())
            .await?;
        ensure!(message(&job).contains("is forbidden: exceeded quota: none"), "{:?}", status(&job));
        ensure!(status(&job).phase == Some(Phase::Waiting), "{:?}", status(&job));
        ensure!(status(&job).attempts[0].outcome == Some(Outcome::Withdrawn), "{:?}", status(&job));
        nothing_is_left(world).await?;
        world.api::<ResourceQuota>().delete("none", &DeleteParams::default()).await?;
        let job = world.phase("count", Phase::Completed).await?;
        ensure!(status(&job).interrupted_count == 0, "{:?}", status(&job));
        Ok(())
    });
}

#[test]
fn a_limit_of_the_namespace_holds_it_with_the_servers_sentence() {
    run("limit-range", |world| async move {
        world.claim("data").await?;
        let limits = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "small" },
            "spec": { "limits": [{ "type": "Container", "max": { "memory": "8Mi" } }] },
        });
        world.create::<LimitRange>(limits).await?;
        world.create::<ScavengerJob>(counter("count", 10)).await?;
        let refused = |job: &ScavengerJob| reason(job) == WaitingReason::Refused.name();
        let job = world.job_until("count", "Refused", refused).await?;
        let sentence = "maximum memory usage per Container is 8Mi, but limit is 16Mi";
        ensure!(message(&job).contains(sentence), "{:?}", status(&job));
        ensure!(status(&job).refused_since.is_some(), "{:?}", status(&job));
        ensure!(status(&job).attempts[0].outcome == Some(Outcome::Withdrawn), "{:?}", status(&job));
        nothing_is_left(world).await?;
        world.api::<LimitRange>().delete("small", &DeleteParams::default()).await?;
        let job = world.phase("count", Phase::Completed).await?;
        ensure!(status(&job).refused_since.is_none(), "{:?}", status(&job));
        Ok(())
    });
}

#[test]
fn a_missing_config_map_fails_it_whether_it_is_mounted_or_read() {
    run("no-config-map", |world| async move {
        world.claim("data").await?;
        let mut mounted = counter("count", 10);
        mounted["spec"]["configMaps"] = json!([{ "name": "mounted", "mountPath": "/config" }]);
        let mut read = counter("read", 10);
        let from = json!({ "configMapKeyRef": { "name": "read", "key": "k" } });
        read["spec"]["env"] = json!([{ "name": "A", "valueFrom": from }]);
        world.create::<ScavengerJob>(mounted).await?;
        world.create::<ScavengerJob>(read).await?;
        for (name, map) in [("count", "mounted"), ("read", "read")] {
            let job = world.phase(name, Phase::Failed).await?;
            ensure!(reason(&job) == Reason::ReferenceMissing.name(), "{:?}", status(&job));
            ensure!(
                message(&job).contains(&format!("ConfigMap \"{map}\" does not exist")),
                "{:?}",
                status(&job)
            );
            ensure!(status(&job).attempt.is_none(), "an attempt was made: {:?}", status(&job));
        }
        Ok(())
    });
}

#[test]
fn a_missing_secret_fails_it_with_the_kubelets_reason_whether_it_is_mounted_or_read() {
    run("no-secret", |world| async move {
        world.claim("data").await?;
        let mut mounted = counter("count", 10);
        mounted["spec"]["secrets"] = json!([{ "secretName": "mounted", "mountPath": "/secret" }]);
        let mut read = counter("read", 10);
        let from = json!({ "secretKeyRef": { "name": "read", "key": "k" } });
        read["spec"]["env"] = json!([{ "name": "A", "valueFrom": from }]);
        world.create::<ScavengerJob>(mounted).await?;
        world.create::<ScavengerJob>(read).await?;
        for (name, says) in [("count", "secret \"mounted\" not found"), ("read", "secret \"read\" not found")]
        {
            let job = world.phase(name, Phase::Failed).await?;
            ensure!(reason(&job) == Reason::ContainerNotCreated.name(), "{:?}", status(&job));
            ensure!(message(&job).contains(says), "{:?}", status(&job));
            ensure!(status(&job).start_times.is_empty(), "{:?}", status(&job));
        }
        nothing_is_left(world).await
    });
}

/// Two ScavengerJobs whose label says that they work in the same folder, as two rows can.
#[test]
fn two_that_work_in_one_folder_do_so_one_after_the_other() {
    run("folder", |world| async move {
        world.claim("data").await?;
        let in_folder = |name: &str, to: u32| {
            let mut job = counter(name, to);
            job["metadata"]["labels"] = json!({ "scavenger.dev/folder": "water" });
            job
        };
        world.create::<ScavengerJob>(in_folder("count", 100_000)).await?;
        world.phase("count", Phase::Running).await?;
        let pod = world.pods("count").await?.pop().context("the ScavengerJob has no pod")?;
        ensure!(pod.labels().get("scavenger.dev/folder").is_some_and(|folder| folder == "water"), "{pod:?}");
        world.create::<ScavengerJob>(in_folder("next", 5)).await?;
        let waits = |job: &ScavengerJob| {
            reason(job) == WaitingReason::FolderInUse.name() && message(job).contains("\"count\"")
        };
        world.job_until("next", "waits for the folder", waits).await?;
        world.api::<ScavengerJob>().delete("count", &DeleteParams::default()).await?;
        world.phase("next", Phase::Completed).await?;
        Ok(())
    });
}

#[test]
fn a_pod_that_a_deleted_job_left_behind_is_evicted() {
    run("orphan", |world| async move {
        world.claim("data").await?;
        world.create::<ScavengerJob>(counter("count", 100_000)).await?;
        world.phase("count", Phase::Running).await?;
        let orphan = DeleteParams {
            propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        world.api::<BatchJob>().delete("count-1", &orphan).await?;
        until("the Job is gone", || async {
            Ok(world.api::<BatchJob>().get_opt("count-1").await?.is_none().then_some(()))
        })
        .await?;
        world.api::<ScavengerJob>().delete("count", &DeleteParams::default()).await?;
        // Two reads of the Job, 10 s apart, then the eviction.
        until("the ScavengerJob is gone", || async {
            Ok(world.api::<ScavengerJob>().get_opt("count").await?.is_none().then_some(()))
        })
        .await?;
        nothing_is_left(world).await
    });
}

/// Everybody who may delete a pod may choose any grace period, and the kubelet waits for as long.
#[test]
fn a_deletion_with_a_long_grace_period_lasts_as_long_as_the_pods_own() {
    run("long-grace", |world| async move {
        world.claim("data").await?;
        let mut job = counter("count", 200);
        argument(&mut job, "--on-sigterm=ignore");
        world.create::<ScavengerJob>(job).await?;
        world.phase("count", Phase::Running).await?;
        counted(world).await?;
        let pod = world.pods("count").await?.pop().context("the ScavengerJob has no pod")?;
        let a_week = DeleteParams { grace_period_seconds: Some(604_800), ..DeleteParams::default() };
        world.api::<Pod>().delete(&pod.name_any(), &a_week).await?;
        let job = world.phase("count", Phase::Completed).await?;
        let outcomes: Vec<_> = status(&job).attempts.iter().map(|attempt| attempt.outcome).collect();
        ensure!(outcomes == [Some(Outcome::Interrupted), Some(Outcome::Completed)], "{:?}", status(&job));
        // The deletion of one's own pod gains no place in the queue.
        ensure!(status(&job).counted_interruptions == 0, "{:?}", status(&job));
        let pod = world.pods("count").await?.pop().context("the ScavengerJob has no pod")?.name_any();
        let log = world.log_until(&pod, "the second attempt's log", |line| line.starts_with("done ")).await?;
        ensure!(resumed_at(&log)? >= 10, "it did not resume from its checkpoint: {log}");
        Ok(())
    });
}

#[test]
fn bad_limits_are_refused_by_name() {
    run("bad-limits", |world| async move {
        for (field, value) in [
            ("activeDeadlineSeconds", json!(0)),
            ("activeDeadlineSeconds", json!(i64::MAX)),
            ("activeDeadlineSeconds", json!("1h")),
            ("ttlSecondsAfterFinished", json!(-1)),
            ("ttlSecondsAfterFinished", json!(i64::MAX)),
            ("suspend", json!("yes")),
        ] {
            let mut job = counter("bad", 10);
            job["spec"][field] = value.clone();
            match world.create::<ScavengerJob>(job).await {
                Err(kube::Error::Api(status)) => {
                    ensure!(
                        status.message.contains(&format!("spec.{field}")),
                        "{field} {value}: {}",
                        status.message
                    );
                }
                other => anyhow::bail!("{field} {value}: {other:?}"),
            }
        }
        Ok(())
    });
}
