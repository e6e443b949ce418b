//! Accounting `Usage`: ScavengerJobs on capacity that is reserved but not used. What the nodes use is played, since the
//! machine of the tests is busy with them; API server, scheduler, kubelet and containers are real.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use scavenger_e2e::{
    World,
    alone::alone,
    by_use::{PlayedUse, is_known, usage_of_the_pool, with_usage},
    faults::Operator,
    metrics_server,
    postgres::NAMESPACE,
    room::{has_reason, interrupted, now, patch_pool, status},
    world::{counter, exec, ordinary_pod, played, real_node, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Accounting, Phase, ScavengerJob},
};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::{Value, json};

/// Pods that reserve nearly all of a played node, of which none requests much.
async fn reserve(world: &World, node: &str) -> Result<()> {
    for number in 0..20 {
        let requests = json!({ "cpu": "3", "memory": "12Gi" });
        let mut pod = ordinary_pod(&format!("reserves-{number}"), &requests);
        pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
        pod["spec"]["tolerations"] = json!([{ "key": "kwok.x-k8s.io/node", "operator": "Exists" }]);
        world.create::<Pod>(pod).await?;
    }
    until("the node is reserved", || async {
        let pods = world.api::<Pod>().list(&ListParams::default()).await?;
        let bound = pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        Ok((bound.count() == 20).then_some(()))
    })
    .await
}

fn on(node: &str, name: &str, cpu: &str, memory: &str) -> Value {
    let mut job = played(name, cpu);
    job["spec"]["resources"]["requests"]["memory"] = json!(memory);
    job["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
    job
}

async fn submit(world: &World, job: Value) -> Result<()> {
    let jobs: Api<ScavengerJob> = world.api();
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    Ok(())
}

/// 60 of 64 cores are reserved and 8 are used.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn what_is_reserved_but_not_used_is_filled_and_given_back() {
    alone("by-use", |world, proxy| async move {
        let node = "fake-0001";
        let used = PlayedUse::new("8", "20Gi");
        used.measure(&proxy, node, None);
        let operator = Operator::start(&proxy, &world.client).await?;
        reserve(world, node).await?;
        submit(world, on(node, "first", "20", "40Gi")).await?;
        let waits = |job: &ScavengerJob| has_reason(job, WaitingReason::NoCapacity);
        world.job_until("first", "waits for capacity", waits).await?;
        with_usage(world, node, || async {
            let first = world.phase("first", Phase::Running).await?;
            let attempt = status(&first).attempt.context("it runs")?;
            ensure!(attempt.accounting == Accounting::Usage, "{attempt:?}");
            ensure!(attempt.node_name.as_deref() == Some(node), "{attempt:?}");
            let pod = world.pod("first").await?;
            let class = pod.status.as_ref().and_then(|status| status.qos_class.clone());
            ensure!(class.as_deref() == Some("Burstable"), "{class:?}");
            // An ordinary pod finds what it requests at once, whatever ScavengerJobs hold.
            let mut late = ordinary_pod("late", &json!({ "cpu": "2", "memory": "1Gi" }));
            late["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
            late["spec"]["tolerations"] = json!([{ "key": "kwok.x-k8s.io/node", "operator": "Exists" }]);
            world.create::<Pod>(late).await?;
            world.pod_runs("late").await?;
            ensure!(status(&world.phase("first", Phase::Running).await?).interrupted_count == 0);
            // Another operator goes on with what this one knew.
            operator.stop().await?;
            let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), NAMESPACE);
            let written = maps.get(names::NODE_USE).await?.data.unwrap_or_default();
            let line = written["nodes"].lines().find(|line| line.starts_with(node)).context("no line")?;
            let known = line.split(' ').nth(2).context("no third field")?.parse::<u64>()?;
            ensure!(known >= 30, "{line}");
            let operator = Operator::start(&proxy, &world.client).await?;
            is_known(world).await?;
            // Ordinary pods come to use what they reserved.
            used.set("8", "210Gi");
            let reason = interrupted(world, "first", 1).await?;
            ensure!(reason == Reason::NodeMemoryShort, "{reason}");
            until("the pool's status says what is reserved", || async {
                let usage = usage_of_the_pool(world).await?;
                let cpu = usage.requested.get("cpu").map(|cpu| cpu.milli()).transpose()?;
                Ok((cpu == Some(62_000)).then_some(()))
            })
            .await?;
            operator.kill().await
        })
        .await
    });
}

/// Numbers that stand still start nobody, and take back what runs.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_node_that_is_not_measured_takes_none_and_gives_up_what_it_has() {
    alone("unmeasured", |world, proxy| async move {
        let node = "fake-0001";
        let used = PlayedUse::new("8", "20Gi");
        used.measure(&proxy, node, None);
        let operator = Operator::start(&proxy, &world.client).await?;
        reserve(world, node).await?;
        with_usage(world, node, || async {
            submit(world, on(node, "runs", "10", "20Gi")).await?;
            world.phase("runs", Phase::Running).await?;
            used.measure(&proxy, node, Some(now()));
            let reason = interrupted(world, "runs", 1).await?;
            ensure!(reason == Reason::NodeNotMeasured, "{reason}");
            let waits = |job: &ScavengerJob| has_reason(job, WaitingReason::NoCapacity);
            world.job_until("runs", "waits until the node is measured again", waits).await?;
            used.measure(&proxy, node, None);
            world.phase("runs", Phase::Running).await?;
            Ok(())
        })
        .await?;
        operator.kill().await
    });
}

/// On the real node: the kubelet gives the container the smallest weight, and the kernel takes it first.
#[test]
fn a_container_on_the_real_node_comes_after_all_others() {
    alone("by-use-real", |world, proxy| async move {
        let node = real_node(&Api::all(world.client.clone())).await?;
        let used = PlayedUse::new("100m", "1Gi");
        used.measure(&proxy, &node, None);
        let operator = Operator::start(&proxy, &world.client).await?;
        patch_pool(world, &json!({ "nodeSelector": null })).await?;
        world.claim("data").await?;
        with_usage(world, &node, || async {
            is_known(world).await?;
            let mut job = counter("counts", 1_000_000);
            // With bash and coreutils beside the counter.
            job["spec"]["image"] = json!(concat!("scavenger.dev/counter-mpirun:", env!("CARGO_PKG_VERSION")));
            job["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
            job["spec"]["terminationGracePeriodSeconds"] = json!(45);
            world.create::<ScavengerJob>(job).await?;
            let job = world.phase("counts", Phase::Running).await?;
            ensure!(status(&job).attempt.is_some_and(|one| one.accounting == Accounting::Usage));
            let pod = world.pod("counts").await?;
            let spec = pod.spec.as_ref().context("a pod has a spec")?;
            ensure!(spec.termination_grace_period_seconds == Some(30), "{spec:?}");
            let of = |command: [&'static str; 2]| async move {
                let pod = world.pod("counts").await?.name_any();
                exec(&world.api::<Pod>(), &pod, "main", &command).await
            };
            let score: i32 = of(["cat", "/proc/self/oom_score_adj"]).await?.trim().parse()?;
            ensure!(score >= 999, "the kernel would take {score}");
            let groups = of(["cat", "/proc/self/cgroup"]).await?;
            ensure!(groups.contains("burstable"), "{groups}");
            let shares = of(["cat", "/sys/fs/cgroup/cpu/cpu.shares"]).await;
            match shares {
                Ok(shares) => ensure!(shares.trim() == "2", "cpu.shares are {shares}"),
                // cgroup v2.
                Err(_) => {
                    let weight = of(["cat", "/sys/fs/cgroup/cpu.weight"]).await?;
                    ensure!(weight.trim() == "1", "cpu.weight is {weight}");
                }
            }
            Ok(())
        })
        .await?;
        operator.kill().await
    });
}

/// Requests say nothing of these pods: what they may use at most counts.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_quota_of_limits_holds_what_is_counted_by_use() {
    alone("by-use-quota", |world, proxy| async move {
        let node = "fake-0001";
        PlayedUse::new("8", "20Gi").measure(&proxy, node, None);
        let operator = Operator::start(&proxy, &world.client).await?;
        let hard = json!({ "limits.cpu": "25", "limits.memory": "1Ti", "requests.cpu": "1" });
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "limits" }, "spec": { "hard": hard },
        });
        with_usage(world, node, || async {
            is_known(world).await?;
            world.create::<ResourceQuota>(quota).await?;
            let used = || async {
                let quota = world.api::<ResourceQuota>().get("limits").await?;
                let used = quota.status.and_then(|status| status.used).unwrap_or_default();
                Ok(used
                    .get("limits.cpu")
                    .zip(used.get("requests.cpu"))
                    .map(|(l, r)| (l.0.clone(), r.0.clone())))
            };
            until("the quota counts", used).await?;
            submit(world, on(node, "first", "20", "1Gi")).await?;
            world.phase("first", Phase::Running).await?;
            let counted = until("the quota counts again", used).await?;
            ensure!(counted == ("20".to_owned(), "0".to_owned()), "limits and requests: {counted:?}");
            submit(world, on(node, "second", "20", "1Gi")).await?;
            let waits = |job: &ScavengerJob| has_reason(job, WaitingReason::QuotaExceeded);
            let second = world.job_until("second", "waits for the quota", waits).await?;
            let message = status(&second).message.unwrap_or_default();
            ensure!(message.contains("limits.cpu"), "{message}");
            world.api::<ScavengerJob>().delete("first", &DeleteParams::default()).await?;
            let second = world.phase("second", Phase::Running).await?;
            ensure!(status(&second).interrupted_count == 0, "{:?}", status(&second));
            Ok(())
        })
        .await?;
        operator.kill().await
    });
}

/// The real metrics-server hangs, the operator is killed while many wait, and both are started again: nothing starts on
/// numbers that stand still, and nobody is interrupted.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn the_metrics_server_is_restarted_and_the_leader_changes() {
    const WAITING: usize = 10;
    alone("metrics-restart", |world, proxy| async move {
        let (node, real) = ("fake-0001", real_node(&Api::all(world.client.clone())).await?);
        let used = PlayedUse::new("8", "20Gi");
        let asking = used.measure_with_the_metrics_server(&proxy, &world.client, node, &real);
        let operator = Operator::start(&proxy, &world.client).await?;
        reserve(world, node).await?;
        with_usage(world, node, || async {
            // Beyond the time that all this takes.
            patch_pool(world, &json!({ "usage": { "metricsGracePeriod": "20m" } })).await?;
            submit(world, on(node, "runs", "10", "20Gi")).await?;
            world.phase("runs", Phase::Running).await?;

            let halted = metrics_server::halt()?;
            until("the pool knows that its node is not measured", || async {
                Ok((usage_of_the_pool(world).await?.unmeasured_nodes == 1).then_some(()))
            })
            .await?;
            for number in 0..WAITING {
                submit(world, on(node, &format!("late-{number}"), "1", "1Gi")).await?;
            }
            let waits = |job: &ScavengerJob| {
                [WaitingReason::NoCapacity, WaitingReason::BehindInQueue]
                    .iter()
                    .any(|why| has_reason(job, *why))
            };
            for number in 0..WAITING {
                world.job_until(&format!("late-{number}"), "waits", waits).await?;
            }
            operator.kill().await?;
            let operator = Operator::start(&proxy, &world.client).await?;
            until("the next leader works", || operator_is_ready(&operator)).await?;
            drop(halted);
            metrics_server::restart().await?;
            for number in 0..WAITING {
                let late = world.phase(&format!("late-{number}"), Phase::Running).await?;
                ensure!(status(&late).attempts.is_empty(), "{:?}", status(&late));
            }
            let runs = world.phase("runs", Phase::Running).await?;
            ensure!(status(&runs).interrupted_count == 0, "{:?}", status(&runs));
            // The status says so a moment later.
            is_known(world).await?;
            let usage = usage_of_the_pool(world).await?;
            ensure!(usage.tripped_nodes.is_empty(), "{usage:?}");
            operator.kill().await
        })
        .await?;
        asking.abort();
        Ok(())
    });
}

async fn operator_is_ready(operator: &Operator) -> Result<Option<()>> {
    // Not before it listens.
    Ok(operator.is_ready().await.unwrap_or(false).then_some(()))
}
