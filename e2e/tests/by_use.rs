//! Accounting `Usage`: ScavengerJobs on capacity that is reserved but not used. What the nodes use is played, since the
//! machine of the tests is busy with them; API server, scheduler, kubelet and containers are real.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use axum::response::IntoResponse;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use scavenger_e2e::{
    World,
    alone::alone,
    faults::{Operator, Proxy},
    postgres::NAMESPACE,
    room::{has_reason, interrupted, now, patch_pool, pools, status},
    world::{counter, exec, ordinary_pod, played, real_node, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Accounting, Phase, ScavengerJob},
    scavenger_pool::UsageStatus,
};
use scavenger_vocabulary::{Reason, WaitingReason};
use serde_json::{Value, json};

/// What a node uses: cpu and memory as metrics-server writes them. None while nobody measures it.
type Use = Arc<Mutex<Option<(&'static str, &'static str)>>>;

fn set(used: &Use, new: Option<(&'static str, &'static str)>) {
    *used.lock().unwrap_or_else(PoisonError::into_inner) = new;
}

/// Lets a node use so much, measured whenever somebody asks; or measured at one time once and for all.
fn measure(proxy: &Proxy, node: &str, used: &Use, stands_still: Option<Timestamp>) {
    let (node, used) = (node.to_owned(), Arc::clone(used));
    proxy.answer(move |uri| {
        let used = *used.lock().unwrap_or_else(PoisonError::into_inner);
        let item = used.map(|(cpu, memory)| {
            json!({
                "metadata": { "name": node }, "timestamp": stands_still.unwrap_or_else(now), "window": "15s",
                "usage": { "cpu": cpu, "memory": memory },
            })
        });
        let list = json!({
            "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
            "items": item.into_iter().collect::<Vec<_>>(),
        });
        let asked = uri.path() == "/apis/metrics.k8s.io/v1beta1/nodes";
        asked.then(|| axum::Json(list).into_response())
    });
}

/// The pool counts one node by use, and gives it up after a short time. What the tests leave out is put back.
async fn with_usage<F>(world: &World, node: &str, test: impl FnOnce() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let usage = json!({
        "nodeSelector": { "kubernetes.io/hostname": node }, "window": "30s", "maxMetricsAge": "40s",
        "metricsGracePeriod": "1m", "linger": "0s",
    });
    let on = json!({
        "accounting": "Usage", "usage": usage, "startThreshold": 0.8, "headroomTarget": 0.85, "interruptThreshold": 0.9,
    });
    patch_pool(world, &on).await?;
    let result = test().await;
    let off = json!({
        "accounting": null, "usage": null, "startThreshold": 0.95, "headroomTarget": 0.95, "interruptThreshold": 1,
    });
    patch_pool(world, &off).await?;
    result
}

async fn usage_of_the_pool(world: &World) -> Result<UsageStatus> {
    let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
    Ok(status.usage.unwrap_or_default())
}

/// Waits until the use of the node is known.
async fn is_known(world: &World) -> Result<()> {
    until("the pool knows what its node uses", || async {
        Ok((usage_of_the_pool(world).await?.nodes == 1).then_some(()))
    })
    .await
}

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
fn what_is_reserved_but_not_used_is_filled_and_given_back() {
    alone("by-use", |world, proxy| async move {
        let node = "fake-0001";
        let used: Use = Arc::new(Mutex::new(Some(("8", "20Gi"))));
        measure(&proxy, node, &used, None);
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
            set(&used, Some(("8", "210Gi")));
            let reason = interrupted(world, "first", 1).await?;
            ensure!(reason == Reason::NodeMemoryShort, "{reason}");
            let usage = usage_of_the_pool(world).await?;
            ensure!(usage.requested["cpu"].milli()? == 62_000, "{usage:?}");
            operator.kill().await
        })
        .await
    });
}

/// Numbers that stand still start nobody, and take back what runs.
#[test]
fn a_node_that_is_not_measured_takes_none_and_gives_up_what_it_has() {
    alone("unmeasured", |world, proxy| async move {
        let node = "fake-0001";
        let used: Use = Arc::new(Mutex::new(Some(("8", "20Gi"))));
        measure(&proxy, node, &used, None);
        let operator = Operator::start(&proxy, &world.client).await?;
        reserve(world, node).await?;
        with_usage(world, node, || async {
            submit(world, on(node, "runs", "10", "20Gi")).await?;
            world.phase("runs", Phase::Running).await?;
            measure(&proxy, node, &used, Some(now()));
            let reason = interrupted(world, "runs", 1).await?;
            ensure!(reason == Reason::NodeNotMeasured, "{reason}");
            let waits = |job: &ScavengerJob| has_reason(job, WaitingReason::NoCapacity);
            world.job_until("runs", "waits until the node is measured again", waits).await?;
            measure(&proxy, node, &used, None);
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
        let used: Use = Arc::new(Mutex::new(Some(("100m", "1Gi"))));
        measure(&proxy, &node, &used, None);
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
