//! Replica exchange: four replicas in one mdrun behind mpirun, in an image without thread-MPI, and a command behind them.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    chemist::Chemist,
    gromacs::{SYSTEM, computed_in},
    queue::{attempts, prepare_with, row, state},
    run,
    world::until,
};
use serde_json::Value;

const STEPS: u32 = 3000;

const IMAGE: &str = "scavenger.dev/gromacs-mpi:2022.5";

const FOLDERS: [&str; 4] = ["sim0", "sim1", "sim2", "sim3"];

/// The same box at four temperatures.
const REPLICAS: &str = r#"
for number in 0 1 2 3; do
    mkdir "sim$number"
    sed "s/@NSTEPS@/3000/; s/^ref-t .*/ref-t = $((300 + 2 * number))/" /water/md.mdp >replica.mdp
    gmx -quiet -nobackup grompp -f replica.mdp -c box.gro -p topol.top -o "sim$number/topol.tpr" -po out.mdp
done
"#;

/// Adds rows; returns the number of the first.
async fn add(chemist: &Chemist, arguments: &[&str]) -> Result<i64> {
    let printed = chemist.good(&[&["add", "--output", "json"], arguments].concat()).await?;
    let added: Value = serde_json::from_str(&printed).with_context(|| printed.clone())?;
    added[0]["id"].as_i64().with_context(|| added.to_string())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn four_replicas_exchange_through_an_interruption_and_a_command_follows() {
    run("mpi", |world| async move {
        let database = prepare_with(world, STEPS, &[SYSTEM, REPLICAS].concat()).await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let exchange = ["--mdrun-options", "-replex 100"];
        let replicas = ["water/topol.tpr", "--max-cpu-millicores", "500", "--multidir"];
        let replicas = [&replicas[..], &FOLDERS].concat();
        alice
            .refused(
                &[&["add"], &exchange[..], &replicas].concat(),
                &["-replex needs engine mpi and several simulations"],
            )
            .await?;
        let of_mpi = ["--engine", "mpi", "--image", IMAGE];
        let id = add(&alice, &[&of_mpi, &exchange[..], &replicas].concat()).await?;
        let text = id.to_string();
        let files = FOLDERS.map(|folder| format!("../gromacs-{id}/{folder}/traj_comp.xtc"));
        let files = files.each_ref().map(String::as_str);
        let command =
            ["--folder", "water", "--after", &text, "--image", IMAGE, "--cores", "100m", "--memory", "128Mi"];
        let words = ["--command", "--", "gmx_mpi", "-nobackup", "trjcat", "-cat", "-o", "all.xtc", "-f"];
        let last = add(&alice, &[&command[..], &words, &files].concat()).await?;
        // The usual image has thread-MPI alone.
        let elsewhere = add(&alice, &["water/water.tpr", "--engine", "mpi"]).await?;
        let reason = state(&database, elsewhere, "failed").await?.reason.unwrap_or_default();
        ensure!(reason.contains("the image has no gmx_mpi, which engine mpi needs"), "{reason}");

        let seen = until("the replicas compute", || async {
            let row = row(&database, id).await?;
            ensure!(row.state != "failed", "{row:?}");
            Ok(row.step.filter(|step| *step > 300))
        })
        .await?;
        let pod = world.pod(&format!("gromacs-{id}-1")).await?.name_any();
        world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        let done = state(&database, id, "completed").await?;
        ensure!((done.step, done.interruptions) == (Some(i64::from(STEPS)), 1), "{done:?}");
        let ran = attempts(&database, id).await?;
        ensure!(ran.len() == 2 && ran[0].outcome.as_deref() == Some("interrupted"), "{ran:?}");
        // The checkpoints that all wrote at SIGTERM, and no earlier ones.
        ensure!(ran[1].first_step.is_some_and(|step| step >= seen), "{seen} were seen: {ran:?}");
        for folder in FOLDERS {
            let computed = computed_in(world, id, folder).await?;
            ensure!(
                computed.last_step == i64::from(STEPS) && computed.steps == i64::from(STEPS),
                "{folder}: {computed:?}"
            );
            ensure!(computed.restarts == 1, "{folder}: {computed:?}");
            let log =
                alice.good(&["logs", &text, "--mdrun", "--simulation", folder, "--lines", "10000"]).await?;
            ensure!(
                log.contains("Replica exchange statistics") && log.contains("Repl ex "),
                "{folder}: {log}"
            );
        }

        state(&database, last, "completed").await?;
        let home = tempfile::tempdir()?;
        let to = home.path().to_str().context("the folder's path is no text")?;
        alice.good(&["fetch", &last.to_string(), "--to", to]).await?;
        ensure!(home.path().join("all.xtc").metadata()?.len() > 0, "trjcat wrote nothing");
        Ok(())
    });
}
