//! A pool of two kinds of nodes and one with a slice of a GPU, behind a taint: what is predicted and recorded is about
//! each of them, and the row may run on all of them. Nodes whose GPUs have other names, AMD's and slices of several sizes,
//! are asked for these.
//!
//! Postgres, tuner, submitter and API server are real; operator, pool and pods are played.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::response::IntoResponse;
use scavenger_e2e::{
    World,
    faults::{OPERATOR, Proxy},
    local::{Postgres, Submitter, Tuner, queue},
    played::{Logs, PlayedJob},
    room::patch_pool,
    world::{OPERATORS, run_within, until},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde_json::{Value, json};

const FIRST_LOG: &str = include_str!("../../gromacs-submitter/tests/fixtures/mdrun-terminated.txt");
const LAST_LOG: &str = include_str!("../../gromacs-submitter/tests/fixtures/mdrun-continued.txt");

/// Key of the taint of nodes with GPUs.
const GPU_TAINT: &str = "nvidia.com/gpu";

/// Labels of a node of AMD's third generation, of one of Intel's, and of one with a seventh of an A100.
fn labels() -> [Value; 3] {
    [
        json!({ "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "c6a.8xlarge" }),
        json!({ "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.2xlarge" }),
        json!({
            "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.2xlarge",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
        }),
    ]
}

/// Nodes with 8 cores and a GPU by another name: its instance type, what tells its product, and the name.
const OTHER_GPUS: [(&str, (&str, &str), &str); 2] = [
    ("amd-box", ("amd.com/gpu.product-name", "AMD_Instinct_MI250X_OAM"), "amd.com/gpu"),
    ("slices-box", ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB"), "nvidia.com/mig-1g.5gb"),
];

#[expect(clippy::disallowed_methods, reason = "the stamp of a measurement is a time by the clock")]
fn pool() -> Value {
    let shape = |cpu: &str, gpus: &str, labels: &Value| {
        let room = json!({ "cpu": cpu, "memory": "16Gi", "pods": "100", "nvidia.com/gpu": gpus });
        json!({ "count": 1, "labels": labels, "allocatable": room, "largestFree": room })
    };
    let others = OTHER_GPUS.map(|(instance, (label, product), resource)| {
        let mut shape =
            shape("8", "0", &json!({ "node.kubernetes.io/instance-type": instance, label: product }));
        shape["allocatable"][resource] = "4".into();
        shape["largestFree"][resource] = "4".into();
        shape
    });
    let [zen, lake, slice] = labels();
    let [amd, slices] = others;
    let room = json!({ "cpu": "64", "memory": "80Gi", "pods": "500", "nvidia.com/gpu": "7",
        "amd.com/gpu": "4", "nvidia.com/mig-1g.5gb": "4" });
    json!({
        "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
        "spec": {
            "pendingTimeout": "1s", "limits": { "minInterruptionAfter": "1s" }, "toleratedTaints": [GPU_TAINT],
        },
        "status": {
            "updateTime": jiff::Timestamp::now(), "nodes": 5, "allocatable": room, "free": room,
            "nodeShapes": [shape("32", "0", &zen), shape("8", "0", &lake), shape("8", "7", &slice), amd, slices],
        },
    })
}

/// Adds a row of which everything is known, and returns its number.
async fn add(world: &World, postgres: &Postgres, columns: &str, values: &str) -> Result<i64> {
    let insert = format!(
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, atoms, nsteps, init_step, dt_ps,
            cutoff_nm, constraints, bonded_interactions, gromacs_version, inspected{columns})
        values ('{}', 'data', 'water/topol.tpr', 90000, 4000, 0, 0.002, 0.9, 90000, 0, '2024.4', '{{\"run-input\": \"run-1-2.tpr\"}}'{values})
        returning id",
        world.namespace
    );
    Ok(postgres.sql(&insert).await?.parse()?)
}

/// Waits until the tuner has answered, and returns the kinds of hardware of a row's configurations.
async fn classes(postgres: &Postgres, id: i64) -> Result<Vec<String>> {
    let select =
        format!("select hardware_class, gpus from gromacs_ladder where row_id = {id} order by configuration");
    let rows: Vec<Value> = until(&format!("row {id} has configurations"), || async {
        let rows: Vec<Value> = postgres.rows(&select).await?;
        Ok((!rows.is_empty()).then_some(rows))
    })
    .await?;
    rows.iter().map(|row| Ok(row["hardware_class"].as_str().context("it has a class")?.to_owned())).collect()
}

async fn all(world: &'static World) -> Result<()> {
    let mut postgres = queue(world).await?;
    let tuner = Tuner::start(None).await?;
    let (api, logs) = (Proxy::start_as(names::SUBMITTER).await?, Logs::default());
    let played = logs.clone();
    api.answer(move |uri| {
        let is_pool = uri.path().ends_with("/scavengerpools/default");
        if is_pool { Some(axum::Json(pool()).into_response()) } else { played.answer(uri) }
    });
    let submitter =
        Submitter::start_with(&postgres.url(), tuner.address(), &api, &["--progress-interval=300ms"]).await?;

    // A slice is no whole A100: it is recognised, and used.
    let id = add(world, &postgres, "", "").await?;
    let found = classes(&postgres, id).await?;
    ensure!(found.iter().any(|class| class == "cascadelake+a100-mig-1g.5gb"), "{found:?}");
    ensure!(found.iter().any(|class| class == "zen3"), "{found:?}");
    let name = format!("gromacs-{id}-1");
    PlayedJob::made(world, &name, &logs).await?;
    let tolerations = world.api::<ScavengerJob>().get(&name).await?.spec.tolerations;
    ensure!(json!(tolerations) == json!([{ "key": GPU_TAINT, "operator": "Exists" }]), "{tolerations:?}");

    // Where it ran is recorded with what it measured, for each kind.
    let [zen, lake, _] = labels();
    for (node, labels, class, cores) in [("zen", &zen, "zen3", 16000), ("lake", &lake, "cascadelake", 4000)] {
        let limits = format!(", 0, {cores}");
        let id = add(world, &postgres, ", max_gpus, max_cpu_millicores", &limits).await?;
        let mut job = PlayedJob::made(world, &format!("gromacs-{id}-1"), &logs).await?;
        job.runs(FIRST_LOG.split("Received the TERM").next().unwrap_or_default()).await?;
        job.is_on(node, labels).await?;
        job.completes("", Some(LAST_LOG)).await?;
        let ran = until(&format!("what row {id} measured is recorded"), || async {
            let select = format!("select * from gromacs_observation where row_id = {id}");
            Ok(postgres.rows::<Value>(&select).await?.into_iter().next())
        })
        .await?;
        ensure!(ran["node"] == node && ran["hardware_class"] == class, "{ran}");
        ensure!(ran["node_labels"] == *labels, "{ran}");
    }
    for (instance, _, resource) in OTHER_GPUS {
        let labels = format!(r#", '{{"node.kubernetes.io/instance-type": "{instance}"}}'"#);
        let id = add(world, &postgres, ", node_labels", &labels).await?;
        ensure!(classes(&postgres, id).await?[0].contains('+'), "the GPU comes first on {instance}");
        let name = format!("gromacs-{id}-1");
        PlayedJob::made(world, &name, &logs).await?;
        let requests = world.api::<ScavengerJob>().get(&name).await?.spec.resources.requests;
        let gpus: Vec<(&String, &String)> = requests
            .iter()
            .filter(|(name, _)| name.contains('/'))
            .map(|(name, count)| (name, &count.0))
            .collect();
        ensure!(gpus.len() == 1 && gpus[0].0 == resource && gpus[0].1 == "1", "{instance}: {requests:?}");
    }
    submitter.kill().await?;
    drop(tuner);
    postgres.down()
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn what_is_predicted_and_measured_is_about_the_kind_of_node() {
    run_within(Duration::from_secs(600), "kinds-of-nodes", |world| async move {
        if std::env::var_os(OPERATOR).is_none() {
            eprintln!("skipped kinds-of-nodes: {OPERATOR} is not set; `cargo xtask test` sets it");
            ensure!(std::env::var_os("CI").is_none(), "{OPERATOR} is not set");
            return Ok(());
        }
        // The policies read the pool that is there, not the one that is played.
        patch_pool(world, &json!({ "toleratedTaints": [GPU_TAINT] })).await?;
        world.operators(0).await?;
        let result = all(world).await;
        // As it was, whatever became of the test.
        patch_pool(world, &json!({ "toleratedTaints": null })).await?;
        let restored = world.operators(OPERATORS).await;
        result.and(restored)
    });
}
