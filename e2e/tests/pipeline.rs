//! From a row in Postgres to its result: the submitter, the tuner and real `gmx mdrun`.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job as BatchJob,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use scavenger_e2e::{
    World,
    postgres::{Database, NAMESPACE},
    run,
    world::until,
};
use scavenger_schema::scavenger_job::{Phase, ScavengerJob};
use serde::Deserialize;
use serde_json::json;

/// Steps of the test's simulation: 20 s or so on half a core.
const STEPS: u32 = 3000;

#[derive(Debug, Deserialize)]
struct Row {
    state: String,
    reason: Option<String>,
    rung: Option<i32>,
    step: Option<i64>,
    last_step: Option<i64>,
    ns_per_day: Option<f64>,
    interruptions: i64,
}

#[derive(Debug, Deserialize)]
struct Attempt {
    outcome: Option<String>,
    first_step: Option<i64>,
}

/// A small water box on claim `simulations`, and the submitter's rights in the namespace.
async fn prepare(world: &World) -> Result<Database> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "gromacs-submitter" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gromacs-submitter-tenant" },
        "subjects": [{ "kind": "ServiceAccount", "name": "gromacs-submitter", "namespace": NAMESPACE }],
    });
    world.create::<RoleBinding>(binding).await?;
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
                "command": ["bash", "/water/prepare.sh", "/data"],
                "args": [format!("water:2.5:{STEPS}")],
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
    until("the water box is prepared", || async {
        let status = jobs.get("prepare-water").await?.status;
        Ok((status.and_then(|status| status.succeeded).unwrap_or(0) > 0).then_some(()))
    })
    .await?;
    Ok(Database::new(&world.client))
}

/// Inserts a row and returns its id.
async fn insert(world: &World, database: &Database, path: &str, more: &[(&str, &str)]) -> Result<i64> {
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

async fn row(database: &Database, id: i64) -> Result<Row> {
    let rows = database.rows(&format!("select * from gromacs_queue where id = {id}")).await?;
    rows.into_iter().next().context("the row is gone")
}

/// Waits until a row is in a state; another end is an error at once.
async fn state(database: &Database, id: i64, state: &str) -> Result<Row> {
    until(&format!("row {id} is {state}"), || async {
        let row = row(database, id).await?;
        if row.state == state {
            return Ok(Some(row));
        }
        ensure!(!matches!(row.state.as_str(), "completed" | "failed" | "cancelled"), "row {id} is {row:?}");
        Ok(None)
    })
    .await
}

fn is_complete(row: &Row) -> Result<()> {
    ensure!(
        row.last_step == Some(i64::from(STEPS)) && row.step == row.last_step,
        "it did not reach its last step: {row:?}"
    );
    ensure!(row.ns_per_day.is_some_and(|speed| speed > 0.0), "no speed was measured: {row:?}");
    Ok(())
}

async fn attempts(database: &Database, id: i64) -> Result<Vec<Attempt>> {
    let select = format!(
        "select outcome, first_step from gromacs_attempt where row_id = {id} and start_time is not null \
         order by submission, attempt"
    );
    database.rows(&select).await
}

/// ScavengerJobs that run a row's simulation (not its inspection).
async fn simulations(world: &World, id: i64) -> Result<Vec<String>> {
    let jobs = world.api::<ScavengerJob>().list(&kube::api::ListParams::default()).await?;
    let names = jobs.iter().map(ResourceExt::name_any);
    Ok(names
        .filter(|name| name.starts_with(&format!("gromacs-{id}-")) && !name.contains("inspect"))
        .collect())
}

#[test]
fn a_row_comes_down_the_ladder_and_completes() {
    run("ladder", |world| async move {
        let database = prepare(world).await?;
        let id = insert(world, &database, "water/water.tpr", &[]).await?;
        let row = state(&database, id, "completed").await?;
        is_complete(&row)?;
        // The first configuration asks for both cores, which the node can not give.
        ensure!(row.rung.is_some_and(|rung| rung > 1), "{row:?}");
        let names = simulations(world, id).await?;
        ensure!(names.len() == 1, "falling back must stay within one ScavengerJob: {names:?}");
        let observations: Vec<serde_json::Value> =
            database.rows(&format!("select * from gromacs_observation where row_id = {id}")).await?;
        ensure!(observations.len() == 1, "{observations:?}");
        Ok(())
    });
}

#[test]
fn a_missing_run_input_fails_its_row_and_the_others_go_on() {
    run("no-tpr", |world| async move {
        let database = prepare(world).await?;
        let bad = insert(world, &database, "water/nowhere.tpr", &[]).await?;
        let good = insert(world, &database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
        let failed = state(&database, bad, "failed").await?;
        let reason = failed.reason.unwrap_or_default();
        ensure!(reason.contains("nowhere.tpr"), "the reason does not name the file: {reason}");
        is_complete(&state(&database, good, "completed").await?)
    });
}

#[test]
fn an_interrupted_simulation_continues_from_its_checkpoint() {
    run("interrupted", |world| async move {
        let database = prepare(world).await?;
        let id = insert(world, &database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
        let name = format!("gromacs-{id}-1");
        until("the simulation computes", || async {
            Ok(row(&database, id).await?.step.filter(|step| *step > 200))
        })
        .await?;
        let pod = world.pods(&name).await?.first().context("the simulation has no pod")?.name_any();
        world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        let row = state(&database, id, "completed").await?;
        is_complete(&row)?;
        ensure!(row.interruptions == 1, "{row:?}");
        let attempts = attempts(&database, id).await?;
        ensure!(attempts.len() == 2, "{attempts:?}");
        ensure!(attempts[0].outcome.as_deref() == Some("interrupted"), "{attempts:?}");
        ensure!(attempts[1].first_step.is_some_and(|step| step > 200), "it did not resume: {attempts:?}");
        Ok(())
    });
}

#[test]
fn rows_wait_while_the_tuner_is_down() {
    run("tuner-down", |world| async move {
        let database = prepare(world).await?;
        let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), NAMESPACE);
        let scale = |replicas: u32| json!({ "spec": { "replicas": replicas } });
        deployments.patch("scavenger-tuner", &PatchParams::default(), &Patch::Merge(scale(0))).await?;
        let told = async {
            let id = insert(world, &database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
            until("the row says that the tuner is down", || async {
                let row = row(&database, id).await?;
                let reason = row.reason.unwrap_or_default();
                Ok((row.state == "tuning" && reason.contains("tuner")).then_some(()))
            })
            .await?;
            anyhow::Ok(id)
        }
        .await;
        // Up again whatever became of the row: other tests need it.
        deployments.patch("scavenger-tuner", &PatchParams::default(), &Patch::Merge(scale(1))).await?;
        is_complete(&state(&database, told?, "completed").await?)
    });
}

#[test]
fn a_restart_of_postgres_loses_nothing_and_repeats_nothing() {
    run("postgres", |world| async move {
        let database = prepare(world).await?;
        let id = insert(world, &database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
        let name = format!("gromacs-{id}-1");
        until("the simulation is submitted", || async {
            Ok(world.api::<ScavengerJob>().get_opt(&name).await?)
        })
        .await?;
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
        let uid = pods.get("postgres-0").await?.uid();
        pods.delete("postgres-0", &DeleteParams::default()).await?;
        until("Postgres is back", || async {
            let pod = pods.get_opt("postgres-0").await?.filter(|pod| pod.uid() != uid);
            let ready = pod.and_then(|pod| pod.status?.conditions).is_some_and(|conditions| {
                conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
            });
            Ok(ready.then_some(()))
        })
        .await?;
        is_complete(&state(&database, id, "completed").await?)?;
        ensure!(simulations(world, id).await? == [name.clone()], "another ScavengerJob was made");
        let job = world.phase(&name, Phase::Completed).await?;
        let attempts_made = job.status.map(|status| status.attempts.len());
        ensure!(attempts_made == Some(1), "{attempts_made:?} attempts were made");
        let observations: Vec<serde_json::Value> =
            database.rows(&format!("select * from gromacs_observation where row_id = {id}")).await?;
        ensure!(observations.len() == 1, "{observations:?}");
        Ok(())
    });
}
