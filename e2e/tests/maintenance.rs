//! Nodes that an admin takes from ScavengerJobs: closed by hand, or in the pool until a time that is announced. The nodes are
//! played, and the pool consists of two of them for as long, so this is a program of its own.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    alone::pool_of_played_nodes,
    faults::Witness,
    kubectl::kubectl,
    room::{bring_pool, patch_pool, pools, status},
    tool::Tool,
    world::{LIMIT, played, run_within, until, until_within},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

/// There is one pool.
static TURN: Mutex<()> = Mutex::new(());

/// The node that is taken, and the other one.
const TAKEN: &str = "fake-0002";
const OTHER: &str = "fake-0001";

/// A label of the test's own, by which the pool selects.
const SELECTED: &str = "e2e.scavenger.dev/maintained";

/// Runs a test while the pool consists of two played nodes.
fn on_two_nodes<F>(name: &str, test: impl FnOnce(&'static World) -> F + Copy)
where
    F: Future<Output = Result<()>>,
{
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run_within(std::time::Duration::from_secs(900), name, move |world| async move {
        pool_of_played_nodes(world).await?;
        for node in [TAKEN, OTHER] {
            mark(world, node, &json!({ "labels": { SELECTED: &world.namespace } })).await?;
        }
        bring_pool(world, &json!({ "nodeSelector": { SELECTED: &world.namespace } })).await?;
        let result = test(world).await;
        let nothing = json!({
            "labels": { SELECTED: null },
            "annotations": { names::ANNOTATION_CLOSED: null, names::ANNOTATION_UNTIL: null },
        });
        for node in [TAKEN, OTHER] {
            mark(world, node, &nothing).await?;
        }
        patch_pool(world, &json!({ "nodeSelector": null, "toleratedTaints": null })).await?;
        result
    });
}

async fn mark(world: &World, node: &str, metadata: &Value) -> Result<()> {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let patch = json!({ "metadata": metadata });
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// One that saves first after such a time.
fn saving_after(name: &str, interruption_after: &str) -> Value {
    let mut job = played(name, "1");
    job["spec"]["interruptionAfter"] = json!(interruption_after);
    job
}

async fn submit(world: &World, prefix: &str, count: usize, interruption_after: &str) -> Result<()> {
    for number in 0..count {
        let job = saving_after(&format!("{prefix}-{number}"), interruption_after);
        world.create::<ScavengerJob>(job).await?;
    }
    Ok(())
}

/// The names of the ScavengerJobs of a kind that have a pod on a node.
async fn on(world: &World, node: &str, prefix: &str) -> Result<BTreeSet<String>> {
    let pods = world.api::<Pod>().list(&ListParams::default().labels(names::LABEL_JOB)).await?;
    let there = pods.into_iter().filter(|pod| {
        let is_on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node);
        is_on && pod.metadata.deletion_timestamp.is_none()
    });
    let of = there.filter_map(|pod| pod.metadata.labels?.remove(names::LABEL_JOB));
    Ok(of.filter(|name| name.starts_with(prefix)).collect())
}

/// Waits until every ScavengerJob of a kind runs.
async fn run_all(world: &World, prefix: &str) -> Result<()> {
    until(&format!("all of {prefix} run"), || async {
        let jobs = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
        let mut of_kind = jobs
            .iter()
            .filter(|job| job.metadata.name.as_deref().is_some_and(|name| name.starts_with(prefix)));
        Ok(of_kind.all(|job| status(job).phase == Some(Phase::Running)).then_some(()))
    })
    .await
}

/// Waits until the operator says this of the node that is taken.
async fn is_told(admin: &Tool, words: &str) -> Result<()> {
    until(&format!("nodes says: {words}"), || async {
        let printed = admin.good(&["nodes", "--pool-only"]).await?;
        let line = printed.lines().find(|line| line.starts_with(TAKEN));
        Ok(line.filter(|line| line.contains(words)).map(|_| ()))
    })
    .await
}

/// The message of the pool's condition Ready.
async fn pool_says(world: &World, words: &str) -> Result<()> {
    until(&format!("the pool says: {words}"), || async {
        let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
        let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
        Ok(ready.filter(|ready| ready.message.contains(words)).map(|_| ()))
    })
    .await
}

async fn close_by_hand(world: &World) -> Result<()> {
    let admin = Tool::of(None)?;
    submit(world, "before", 8, "60s").await?;
    run_all(world, "before").await?;
    let stay = on(world, TAKEN, "before").await?;
    ensure!(!stay.is_empty(), "none runs on the node");

    kubectl(&["annotate", "node", TAKEN, "scavenger.dev/closed=its disk is replaced"]).await?;
    pool_says(world, &format!("node {TAKEN} is closed by an admin: its disk is replaced")).await?;
    is_told(&admin, "closed: ").await?;
    // The other node is the fuller one with each of them.
    submit(world, "after", 8, "60s").await?;
    run_all(world, "after").await?;
    let wrong = on(world, TAKEN, "after").await?;
    ensure!(wrong.is_empty(), "these were started there: {wrong:?}");
    ensure!(on(world, TAKEN, "before").await? == stay, "those that run there stay");

    kubectl(&["annotate", "node", TAKEN, "scavenger.dev/closed-"]).await?;
    is_told(&admin, "open").await?;
    submit(world, "again", 8, "60s").await?;
    run_all(world, "again").await?;
    ensure!(!on(world, TAKEN, "again").await?.is_empty(), "none was started on the node that is open again");
    let jobs = world.api::<ScavengerJob>().list(&ListParams::default()).await?;
    ensure!(jobs.iter().all(|job| status(job).interrupted_count == 0), "somebody was interrupted");
    Ok(())
}

/// What a person reads who closes a node, and what becomes of the node.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_node_that_an_admin_closes_keeps_what_runs_and_takes_nothing_new() {
    on_two_nodes("closed-by-hand", |world| async move { close_by_hand(world).await });
}

async fn maintain(world: &World) -> Result<()> {
    let (admin, witness) = (Tool::of(None)?, Witness::start(&world.client, &world.namespace));
    let over = admin.run(&["maintain", TAKEN, "--at", "2026-01-01T00:00:00Z"]).await?;
    ensure!(over.code == Some(2) && over.stderr.contains("is over"), "{over:?}");
    admin.refused(&["maintain", "no-such-node", "--in", "1h"], &["there is no node"]).await?;

    let said = admin.good(&["maintain", TAKEN, "--in", "1h"]).await?;
    ensure!(said.contains(&format!("no ScavengerJob is on node {TAKEN}")), "{said}");
    is_told(&admin, "open: only what can save before").await?;
    // The node is the emptier one for each of them.
    submit(world, "slow", 6, "2h").await?;
    run_all(world, "slow").await?;
    let wrong = on(world, TAKEN, "slow").await?;
    ensure!(wrong.is_empty(), "these cannot save before: {wrong:?}");
    submit(world, "quick", 6, "60s").await?;
    run_all(world, "quick").await?;
    let quick = on(world, TAKEN, "quick").await?;
    ensure!(!quick.is_empty(), "what can save before starts there");

    let said = admin.good(&["maintain", TAKEN, "--in", "150s"]).await?;
    let first = quick.first().context("somebody is there")?;
    ensure!(said.contains(&format!("{}/{first}", world.namespace)), "{said}");
    is_told(&admin, "too soon for anything to start there").await?;
    until_within(2 * LIMIT, "the node is empty", || async {
        Ok(on(world, TAKEN, "").await?.is_empty().then_some(()))
    })
    .await?;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let node = nodes.get(TAKEN).await?;
    let until_time = node.metadata.annotations.unwrap_or_default().remove(names::ANNOTATION_UNTIL);
    let until_time: jiff::Timestamp = until_time.context("the time is announced")?.parse()?;
    #[expect(clippy::disallowed_methods, reason = "the wall clock is what the admin announced")]
    let now = jiff::Timestamp::now();
    ensure!(now <= until_time, "it was empty at {now}, and not at {until_time}");
    run_all(world, "quick").await?;
    for name in &quick {
        let job = world.api::<ScavengerJob>().get(name).await?;
        let reason = status(&job).attempts.first().and_then(|attempt| attempt.reason.clone());
        ensure!(reason == Some(Reason::NodeLeftPool), "{name}: {reason:?}");
    }

    let said = admin.good(&["maintain", TAKEN, "--cancel"]).await?;
    ensure!(said == format!("node {TAKEN} stays in the pool\n"), "{said}");
    is_told(&admin, "open ").await?;
    submit(world, "later", 6, "2h").await?;
    run_all(world, "later").await?;
    ensure!(!on(world, TAKEN, "later").await?.is_empty(), "it takes whatever starts");
    witness.is_content()
}

/// From the announcement to the empty node, and back.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_node_is_empty_at_the_time_that_was_announced() {
    on_two_nodes("maintained", |world| async move { maintain(world).await });
}
