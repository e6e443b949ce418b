//! The queue of simulations as the tests use it: a small water box, rows, and what became of them.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{ConfigMap, PersistentVolumeClaim},
    rbac::v1::RoleBinding,
};
use kube::ResourceExt;
use scavenger_schema::scavenger_job::ScavengerJob;
use serde::Deserialize;
use serde_json::json;

use crate::{
    World,
    postgres::{Database, NAMESPACE},
    world::{LIMIT, until_within},
};

/// Steps of the test's simulation: 20 s or so on half a core.
pub const STEPS: u32 = 3000;

/// One row of the view gromacs_queue.
#[derive(Debug, Deserialize)]
pub struct Row {
    /// Column of that name.
    pub state: String,
    /// Column of that name.
    pub reason: Option<String>,
    /// Column of that name.
    pub configuration_number: Option<i32>,
    /// Column of that name.
    pub step: Option<i64>,
    /// Column of that name.
    pub last_step: Option<i64>,
    /// Column of that name.
    pub ns_per_day: Option<f64>,
    /// Column of that name.
    pub interruptions: i64,
}

/// One row of gromacs_attempt.
#[derive(Debug, Deserialize)]
pub struct Attempt {
    /// Column of that name.
    pub outcome: Option<String>,
    /// Column of that name.
    pub reason: Option<String>,
    /// Column of that name.
    pub submission: i32,
    /// Column of that name.
    pub cpu_millicores: Option<i64>,
    /// Column of that name.
    pub memory_bytes: Option<i64>,
    /// Column of that name.
    pub peak_memory_bytes: Option<i64>,
    /// Column of that name.
    pub log_end: Option<String>,
    /// Column of that name.
    pub first_step: Option<i64>,
}

/// A small water box on claim `simulations`, the submitter's rights in the namespace, and the admin as its tenant.
///
/// # Errors
/// What the API server or psql says.
pub async fn prepare(world: &World) -> Result<Database> {
    prepare_with(world, STEPS, "").await
}

/// Like [`prepare`], with so many steps, and with more files that `script` makes beside /data/water/water.tpr in a
/// folder of its own under /data; the .mdp files are in /water.
///
/// # Errors
/// What the API server or psql says.
pub async fn prepare_with(world: &World, steps: u32, script: &str) -> Result<Database> {
    admit_submitter(world).await?;
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "simulations" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    world.create::<PersistentVolumeClaim>(claim).await?;
    let files = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "prepare-water" },
        "data": {
            "prepare.sh": include_str!("../../deploy/examples/water/prepare.sh"),
            "em.mdp": include_str!("../../deploy/examples/water/em.mdp"),
            "md.mdp": include_str!("../../deploy/examples/water/md.mdp"),
        },
    });
    world.create::<ConfigMap>(files).await?;
    // The example's own Job, with a smaller box and without its request: it must not wait for the other tests.
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "prepare-water" },
        "spec": { "backoffLimit": 2, "template": { "spec": {
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "prepare", "image": "scavenger.dev/gromacs:2022.5",
                "command": ["bash", "-euc", format!("bash /water/prepare.sh /data \"$1\"\n{script}"), "prepare"],
                "args": [format!("water:2.5:{steps}")],
                "resources": { "requests": { "cpu": "10m" } },
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }, { "name": "inputs", "mountPath": "/water" }],
            }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "simulations" } },
                { "name": "inputs", "configMap": { "name": "prepare-water" } },
            ],
        } } },
    });
    world.create::<BatchJob>(job).await?;
    let jobs = world.api::<BatchJob>();
    // With its little request it comes last on a node that is full.
    until_within(2 * LIMIT, "the water box is prepared", || async {
        let status = jobs.get("prepare-water").await?.status;
        Ok((status.and_then(|status| status.succeeded).unwrap_or(0) > 0).then_some(()))
    })
    .await?;
    let database = Database::new(&world.client);
    database
        .sql(&format!(
            "insert into gromacs_tenant (database_role, namespace) values ('postgres', '{}')",
            world.namespace
        ))
        .await?;
    Ok(database)
}

/// Gives the submitter its rights in the namespace, as deploy/tenant does.
///
/// # Errors
/// What the API server says.
pub async fn admit_submitter(world: &World) -> Result<()> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "gromacs-submitter" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gromacs-submitter-tenant" },
        "subjects": [{ "kind": "ServiceAccount", "name": "gromacs-submitter", "namespace": NAMESPACE }],
    });
    world.create::<RoleBinding>(binding).await?;
    Ok(())
}

/// Inserts a row and returns its id.
///
/// # Errors
/// What the API server or psql says.
pub async fn insert(world: &World, database: &Database, path: &str, more: &[(&str, &str)]) -> Result<i64> {
    let columns: String = more.iter().map(|(column, _)| format!(", {column}")).collect();
    let values: String = more.iter().map(|(_, value)| format!(", {value}")).collect();
    let id = database
        .sql(&format!(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path{columns}) \
             values ('{}', 'simulations', '{path}'{values}) returning id",
            world.namespace
        ))
        .await?;
    id.parse().with_context(|| format!("psql returned no id but {id:?}"))
}

/// One row.
///
/// # Errors
/// If it cannot be read.
pub async fn row(database: &Database, id: i64) -> Result<Row> {
    let rows = database.rows(&format!("select * from gromacs_queue where id = {id}")).await?;
    rows.into_iter().next().context("the row is gone")
}

/// Waits until a row is in a state; another end is an error at once.
///
/// # Errors
/// What the API server or psql says.
pub async fn state(database: &Database, id: i64, state: &str) -> Result<Row> {
    until_within(2 * LIMIT, &format!("row {id} is {state}"), || async {
        let row = row(database, id).await?;
        if row.state == state {
            return Ok(Some(row));
        }
        ensure!(!matches!(row.state.as_str(), "completed" | "failed" | "cancelled"), "row {id} is {row:?}");
        Ok(None)
    })
    .await
}

/// Checks that a row's simulation reached its last step, and that its speed was measured.
///
/// # Errors
/// What is missing.
pub fn is_complete(row: &Row) -> Result<()> {
    is_complete_with(row, STEPS)
}

/// Like [`is_complete`], with so many steps.
///
/// # Errors
/// What is missing.
pub fn is_complete_with(row: &Row, steps: u32) -> Result<()> {
    ensure!(
        row.last_step == Some(i64::from(steps)) && row.step == row.last_step,
        "it did not reach its last step: {row:?}"
    );
    ensure!(row.ns_per_day.is_some_and(|speed| speed > 0.0), "no speed was measured: {row:?}");
    Ok(())
}

/// The attempts of a row that ran, in their order.
///
/// # Errors
/// If they cannot be read.
pub async fn attempts(database: &Database, id: i64) -> Result<Vec<Attempt>> {
    let select = format!(
        "select outcome, reason, submission, cpu_millicores, memory_bytes, peak_memory_bytes, log_end, first_step \
         from gromacs_attempt where row_id = {id} and start_time is not null order by submission, attempt"
    );
    database.rows(&select).await
}

/// ScavengerJobs that run a row's simulation (not its inspection).
///
/// # Errors
/// What the API server or psql says.
pub async fn simulations(world: &World, id: i64) -> Result<Vec<String>> {
    let jobs = world.api::<ScavengerJob>().list(&kube::api::ListParams::default()).await?;
    let names = jobs.iter().map(ResourceExt::name_any);
    Ok(names
        .filter(|name| name.starts_with(&format!("gromacs-{id}-")) && !name.contains("inspect"))
        .collect())
}

/// The history of a row, oldest first.
///
/// # Errors
/// If it cannot be read.
pub async fn history(database: &Database, id: i64) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Event {
        message: Option<String>,
    }
    let select = format!("select message from gromacs_event where row_id = {id} order by id");
    let events: Vec<Event> = database.rows(&select).await?;
    Ok(events.into_iter().filter_map(|event| event.message).collect())
}
