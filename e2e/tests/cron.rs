//! The submitter as a CronJob instead of a daemon, set up as the README says. All rows of the queue then wait for its runs,
//! so it is tried in a program of its own.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::Api;
use scavenger_e2e::{
    World,
    kubectl::{checkout, kubectl},
    postgres::{Database, NAMESPACE},
    queue::{attempts, insert, is_complete, prepare, row, simulations},
    run,
    world::{succeeded, until},
};

async fn apply(folder: &str) -> Result<String> {
    let path = checkout(folder);
    let path = path.to_str().context("the checkout's path is no text")?;
    kubectl(&["apply", "--server-side", "--force-conflicts", "-k", path]).await
}

async fn without_a_daemon(world: &World, database: &Database) -> Result<()> {
    let system = ["--namespace", NAMESPACE];
    kubectl(&[&["delete", "deployment", "gromacs-submitter", "--wait"], &system[..]].concat()).await?;
    apply("deploy/submitter-cron").await?;
    // Every minute instead of every other: the test waits for one that the controller starts by itself.
    let schedule = r#"{"spec":{"schedule":"* * * * *"}}"#;
    kubectl(&[&["patch", "cronjob", "gromacs-submitter", "-p", schedule], &system[..]].concat()).await?;

    let id = insert(world, database, "water/water.tpr", &[("max_cpu_millicores", "500")]).await?;
    let jobs: Api<Job> = Api::namespaced(world.client.clone(), NAMESPACE);
    // As an admin who does not want to wait: runs by hand beside those of the schedule.
    let mut runs = 0_u32;
    let done = loop {
        runs += 1;
        ensure!(runs < 200, "the row is not done after {runs} runs: {:?}", row(database, id).await?);
        let name = format!("by-hand-{runs}");
        let make = ["create", "job", &name, "--from=cronjob/gromacs-submitter"];
        kubectl(&[&make[..], &system[..]].concat()).await?;
        // A run fails if any row does or has to be tried again, also one that an earlier test left in the queue.
        // Of those that succeeded the CronJob keeps one: this one is gone if a run of the schedule ends right after it.
        until(&format!("{name} has ended"), || async {
            Ok(jobs.get_opt(&name).await?.map_or(Some(true), |job| succeeded(&job)))
        })
        .await?;
        let delete = ["delete", "job", &name, "--wait", "--ignore-not-found"];
        kubectl(&[&delete[..], &system[..]].concat()).await?;
        let row = row(database, id).await?;
        if matches!(row.state.as_str(), "completed" | "failed") {
            break row;
        }
    };
    is_complete(&done)?;
    ensure!(simulations(world, id).await?.len() == 1, "more than one ScavengerJob was made");
    let attempts = attempts(database, id).await?;
    ensure!(attempts.len() == 1, "{attempts:?}");
    let crons: Api<CronJob> = Api::namespaced(world.client.clone(), NAMESPACE);
    until("the schedule has made a run that succeeded", || async {
        let status = crons.get("gromacs-submitter").await?.status.unwrap_or_default();
        Ok(status.last_successful_time.is_some().then_some(()))
    })
    .await
}

#[test]
fn a_row_is_computed_without_a_daemon() {
    run("cron", |world| async move {
        let database = prepare(world).await?;
        let result = without_a_daemon(world, &database).await;
        // As it was, whatever became of the row: later tests need the daemon.
        kubectl(&["delete", "cronjob", "gromacs-submitter", "--namespace", NAMESPACE, "--ignore-not-found"])
            .await?;
        apply("e2e/deploy").await?;
        let rollout = ["rollout", "status", "deployment/gromacs-submitter", "--timeout=120s"];
        kubectl(&[&rollout[..], &["--namespace", NAMESPACE]].concat()).await?;
        result
    });
}
