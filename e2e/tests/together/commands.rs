//! Rows that run a command: behind a simulation, through an interruption, and to files that come home.

use std::fs;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    chemist::Chemist,
    queue::{attempts, history, prepare_with, row, state},
    run,
    world::{exec, until},
};

/// The simulation only has to end.
const STEPS: u32 = 300;

/// What no shell and no API server may read on its way.
const WORD: &str = "two  words $(HOME) $$ \\ 'quoted' \u{2603}\nnext line";

/// Waits at its first start until it is interrupted, and works at the next one.
const SCRIPT: &str = "printf '%s' \"$2\" >word.txt
echo started >>starts.txt
if [ \"$(wc -l <starts.txt)\" -lt 2 ]; then sleep 3600; fi
exec gmx -quiet -nobackup editconf -f \"$1\" -o box.pdb";

/// Adds a command; returns its number.
async fn add(chemist: &Chemist, options: &[&str], words: &[&str]) -> Result<i64> {
    let image = ["--image", "scavenger.dev/gromacs:2022.5", "--cores", "100m", "--memory", "64Mi"];
    let arguments = [&["add"], &image[..], options, &["--command", "--"], words].concat();
    let printed = chemist.good(&arguments).await?;
    let number = printed.strip_prefix("row ").and_then(|rest| rest.split_once(':')).map(|(number, _)| number);
    number.and_then(|number| number.parse().ok()).with_context(|| printed.clone())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_command_behind_a_simulation_starts_over_and_its_output_comes_home() {
    run("commands", |world| async move {
        let database = prepare_with(world, STEPS, "").await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let added = alice.json(&["add", "water/water.tpr", "--max-cpu-millicores", "500"]).await?;
        let simulation = added[0]["id"].as_i64().with_context(|| added.to_string())?;
        let structure = format!("../gromacs-{simulation}/confout.gro");
        let after = simulation.to_string();
        let options = ["--folder", "water", "--after", &after];
        let id = add(&alice, &options, &["sh", "-c", SCRIPT, "name", &structure, WORD]).await?;
        let waits = row(&database, id).await?;
        ensure!(
            waits.reason.as_deref().is_some_and(|reason| reason.contains(&format!("row {after}"))),
            "{waits:?}"
        );
        let last =
            add(&alice, &["--after", &id.to_string()], &["sh", "-c", "echo no frames; exit 3"]).await?;
        let lost = add(&alice, &["--folder", "nowhere"], &["true"]).await?;
        let misspelt = add(&alice, &[], &["no-such-program", "--help"]).await?;

        state(&database, simulation, "completed").await?;
        state(&database, id, "running").await?;
        let pods = world.api::<Pod>();
        let pod = world.pod(&format!("gromacs-{id}-1")).await?.name_any();
        until("it has begun", || async {
            let found = exec(&pods, &pod, "main", &["cat", "starts.txt"]).await;
            Ok(found.ok().filter(|text| text.contains("started")))
        })
        .await?;
        pods.delete(&pod, &DeleteParams::default()).await?;
        let done = state(&database, id, "completed").await?;
        ensure!(done.interruptions == 1 && done.step.is_none(), "{done:?}");
        let outcomes: Vec<_> = attempts(&database, id).await?.into_iter().map(|it| it.outcome).collect();
        let expected = ["interrupted", "completed"].map(|it| Some(it.to_owned()));
        ensure!(outcomes == expected, "{outcomes:?}");
        let told = history(&database, id).await?;
        ensure!(!told.iter().any(|line| line.contains("tuner") || line.contains("tuning")), "{told:?}");

        let home = tempfile::tempdir()?;
        let to = home.path().to_str().context("the folder's path is no text")?;
        alice.good(&["fetch", &id.to_string(), "--to", to]).await?;
        let read = |name: &str| fs::read_to_string(home.path().join(name)).with_context(|| name.to_owned());
        ensure!(read("word.txt")? == WORD, "{:?}", read("word.txt")?);
        ensure!(read("starts.txt")?.lines().count() == 2, "it starts over: {:?}", read("starts.txt")?);
        ensure!(read("box.pdb")?.contains("ATOM"), "{}", read("box.pdb")?);

        // The end of another one, a folder that is not there, and a program that is not in the image.
        let failed = state(&database, last, "failed").await?.reason.unwrap_or_default();
        ensure!(failed.contains("exited with code 3") && failed.contains("no frames"), "{failed}");
        let nowhere = state(&database, lost, "failed").await?.reason.unwrap_or_default();
        ensure!(
            nowhere.ends_with("there is no folder /data/nowhere on the volume; make it, and retry"),
            "{nowhere}"
        );
        let misspelt = state(&database, misspelt, "failed").await?.reason.unwrap_or_default();
        ensure!(misspelt.contains("no-such-program") && !misspelt.contains("tries again"), "{misspelt}");
        Ok(())
    });
}
