//! What the operator costs while there is nothing to do. Printed, with ten times the aim as the bound of the test.

use anyhow::{Context, Result, ensure};
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use scavenger_e2e::{World, postgres::NAMESPACE, run, world::until};
use serde_json::Value;

/// Length of the measurement in seconds; the kubelet takes a sample every 10 to 15.
const SECONDS: i64 = 40;

/// One sample of the kubelet.
#[derive(Debug)]
struct Sample {
    time: Timestamp,
    cpu_nanoseconds: u64,
    memory_bytes: u64,
}

async fn sample(world: &World) -> Result<Sample> {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
    // The one that works; the others stand by.
    let operator = pods.get(&world.leader().await?).await?;
    let node =
        operator.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("the operator has no node")?;
    let request = Request::get(format!("/api/v1/nodes/{node}/proxy/stats/summary")).body(Vec::new())?;
    let summary: Value = world.client.request(request).await?;
    let name = operator.name_any();
    let pod =
        summary["pods"].as_array().into_iter().flatten().find(|pod| pod["podRef"]["name"] == name.as_str());
    let container = &pod.with_context(|| format!("the kubelet has no figures of {name}"))?["containers"][0];
    let number = |value: &Value| value.as_u64().context("the kubelet gives no number");
    Ok(Sample {
        time: container["cpu"]["time"].as_str().context("the kubelet gives no time")?.parse()?,
        cpu_nanoseconds: number(&container["cpu"]["usageCoreNanoSeconds"])?,
        memory_bytes: number(&container["memory"]["workingSetBytes"])?,
    })
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn an_idle_operator_costs_next_to_nothing() {
    run("idle", |world| async move {
        let first = until("the kubelet has figures", || async { Ok(sample(world).await.ok()) }).await?;
        let last = until("the measurement is long enough", || async {
            let now = sample(world).await?;
            Ok((now.time.as_second() - first.time.as_second() >= SECONDS).then_some(now))
        })
        .await?;
        let seconds = (last.time.as_millisecond() - first.time.as_millisecond()) as f64 / 1e3;
        let share = (last.cpu_nanoseconds - first.cpu_nanoseconds) as f64 / 1e9 / seconds;
        let megabytes = last.memory_bytes as f64 / 1e6;
        println!(
            "idle operator: {:.2}% of a core (aim: 1%), {megabytes:.0} MB working set (aim: 50 MB)",
            share * 100.0
        );
        ensure!(share < 0.1 && megabytes < 500.0, "ten times the aim");
        Ok(())
    });
}
