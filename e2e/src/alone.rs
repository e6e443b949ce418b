//! Tests of an operator of their own behind a [`Proxy`], while the cluster's own operator rests and the pool consists of
//! played nodes.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use serde_json::{Value, json};

use crate::{
    World,
    faults::{OPERATOR, Proxy, delete_if_there, free_lease},
    postgres, repetitions,
    room::{patch_pool, pools},
    world::{OPERATORS, played, run_within, until},
};

/// There is one pool, and only one operator may work on it.
static TURN: Mutex<()> = Mutex::new(());

/// Tests that wait for their turn.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Runs a test while the cluster's own operator rests and the pool consists of played nodes.
///
/// # Panics
/// If the test fails.
pub fn alone<F>(name: &str, test: impl FnOnce(&'static World, Proxy) -> F + Copy)
where
    F: Future<Output = Result<()>>,
{
    // Before the test's own time begins. One that failed must not make the others fail.
    WAITING.fetch_add(1, Ordering::SeqCst);
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    WAITING.fetch_sub(1, Ordering::SeqCst);
    // Every kill point takes two hours.
    let limit = Duration::from_secs(if repetitions(1) > 1 { 4 * 3600 } else { 1200 });
    run_within(limit, name, move |world| async move {
        if std::env::var_os(OPERATOR).is_none() {
            eprintln!("skipped {name}: {OPERATOR} is not set; `cargo xtask test` sets it");
            ensure!(std::env::var_os("CI").is_none(), "{OPERATOR} is not set");
            return Ok(());
        }
        world.operators(0).await?;
        forget_use(world).await?;
        pool_of_played_nodes(world).await?;
        let result = async { test(world, Proxy::start().await?).await }.await;
        if WAITING.load(Ordering::SeqCst) > 0 {
            // The next one would change it all again.
            return result;
        }
        // As it was, whatever became of the test.
        patch_pool(world, &json!({ "nodeSelector": null, "toleratedTaints": null })).await?;
        free_lease(&world.client).await?;
        world.operators(OPERATORS).await?;
        result
    });
}

/// Forgets what an operator of an earlier test wrote down of the use of the played nodes: it was another use.
async fn forget_use(world: &World) -> Result<()> {
    let config_maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), postgres::NAMESPACE);
    delete_if_there(&config_maps, names::NODE_USE).await?;
    // Else a test would take it for what its own operator knows.
    let none = Patch::Merge(json!({ "status": { "usage": null } }));
    pools(world).patch_status(names::DEFAULT_POOL, &PatchParams::default(), &none).await?;
    Ok(())
}

/// Lets the pool consist of played nodes.
///
/// # Errors
/// What the API server says.
pub async fn pool_of_played_nodes(world: &World) -> Result<()> {
    let nodes = json!({ "nodeSelector": { "type": "kwok" }, "toleratedTaints": ["kwok.x-k8s.io/node"] });
    patch_pool(world, &nodes).await?;
    // The policy that reads the pool learns of the change a moment later.
    until("the pool lets its tolerations in", || async {
        let probe = serde_json::from_value(played("probe", "10m"))?;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        Ok(world.api::<ScavengerJob>().create(&dry_run, &probe).await.ok().map(|_| ()))
    })
    .await
}

/// Submits so many, as [`played`] makes them.
///
/// # Errors
/// What the API server says.
pub async fn submit(world: &World, count: usize, cpu: &str) -> Result<()> {
    let sjs: Api<ScavengerJob> = world.api();
    let all = (0..count).map(|number| {
        let sjs = sjs.clone();
        async move {
            let sj: Value = played(&format!("job-{number}"), cpu);
            sjs.create(&PostParams::default(), &serde_json::from_value(sj)?).await?;
            anyhow::Ok(())
        }
    });
    futures::stream::iter(all).buffer_unordered(16).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// How many are in a phase.
///
/// # Errors
/// What the API server says.
pub async fn in_phase(world: &World, phase: Phase) -> Result<usize> {
    let sjs = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
    let is = |sj: &&ScavengerJob| sj.status.as_ref().is_some_and(|status| status.phase == Some(phase));
    Ok(sjs.iter().filter(is).count())
}
