//! A chemist sees what a simulation prints and brings its files home, with the command line alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Output,
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use scavenger_e2e::{
    World,
    chemist::Chemist,
    gromacs::checksums,
    queue::{prepare_with, row, state},
    run,
    world::until,
};

/// Long enough that its files can be listed while it runs.
const STEPS: u32 = 9000;

/// For rows that only have to end.
const FEW_STEPS: u32 = 300;

/// Pods that read volumes.
async fn readers(world: &World) -> Result<Vec<Pod>> {
    let readers = ListParams::default().labels("app.kubernetes.io/name=gromacs-reader");
    Ok(world.api::<Pod>().list(&readers).await?.items)
}

async fn no_reader_is_left(world: &World) -> Result<()> {
    until("the pod that reads the volume is gone", || async {
        Ok(readers(world).await?.is_empty().then_some(()))
    })
    .await
}

/// Names and sizes, as `files` lists them.
async fn sizes(chemist: &Chemist, row: &str) -> Result<BTreeMap<String, u64>> {
    let listed = chemist.json(&["files", row]).await?;
    let files = listed.as_array().context("no list")?.iter();
    let pairs = files.map(|file| Some((file["name"].as_str()?.to_owned(), file["size"].as_u64()?)));
    pairs.collect::<Option<_>>().with_context(|| listed.to_string())
}

/// What `sha256sum` of this machine says.
fn checksum(path: &Path) -> Result<String> {
    let output = std::process::Command::new("sha256sum").arg(path).output()?;
    let printed = String::from_utf8(output.stdout)?;
    Ok(printed.split_whitespace().next().context("sha256sum prints nothing")?.to_owned())
}

async fn files_come_home(world: &World, chemist: &Chemist, id: i64) -> Result<()> {
    let row = id.to_string();
    let on_volume = checksums(world, id).await?;
    let listed = sizes(chemist, &row).await?;
    ensure!(listed.contains_key("md.log") && listed.contains_key("confout.gro"), "{listed:?}");
    ensure!(listed.keys().eq(on_volume.keys()), "{listed:?}, but on the volume {on_volume:?}");

    let home = tempfile::tempdir()?;
    let to = home.path().join("results");
    let to_text = to.to_str().context("the folder's path is no text")?;
    let fetch = ["fetch", &row, "*.log", "*.gro", "--to", to_text];
    let dry = chemist.good(&[&fetch[..], &["--dry-run"]].concat()).await?;
    ensure!(dry.contains("would copy md.log") && !to.exists(), "{dry}");
    let printed = chemist.good(&fetch).await?;
    ensure!(printed.contains("copied 2 files"), "{printed}");
    let found = || -> Result<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(&to)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        names.sort();
        Ok(names)
    };
    ensure!(found()? == ["confout.gro", "md.log"], "{:?}", found()?);
    for name in found()? {
        let (here, there) = (checksum(&to.join(&name))?, &on_volume[&name]);
        ensure!(here == *there, "{name} has checksum {here} here, and {there} on the volume");
        ensure!(fs::metadata(to.join(&name))?.len() == listed[&name], "{name} has another size");
    }

    // As long as it was, so that only its checksum tells.
    let log = to.join("md.log");
    let mut mine = fs::read(&log)?;
    mine[0] ^= 1;
    fs::write(&log, &mine)?;
    chemist.refused(&fetch, &["md.log in", "differs from the volume", "--overwrite"]).await?;
    ensure!(fs::read(&log)? == mine, "it was replaced");
    chemist.good(&[&fetch[..], &["--overwrite"]].concat()).await?;
    ensure!(checksum(&log)? == on_volume["md.log"], "it was not replaced");
    let all = chemist.good(&["fetch", &row, "--to", to_text]).await?;
    ensure!(all.contains("2 files had the same content already"), "{all}");
    for (name, sum) in &on_volume {
        ensure!(checksum(&to.join(name))? == *sum, "{name} has another checksum here");
    }
    Ok(())
}

/// Sends a signal to a command as soon as its pod is there, and returns how it ended.
async fn signalled(world: &World, chemist: &Chemist, id: i64, signal: Signal) -> Result<Output> {
    // Pods of earlier commands are still terminating.
    no_reader_is_left(world).await?;
    let child = chemist.command(&["files", &id.to_string()])?.spawn()?;
    until("it has made its pod", || async { Ok((!readers(world).await?.is_empty()).then_some(())) }).await?;
    let process = child.id().context("it has ended already")?;
    kill(Pid::from_raw(i32::try_from(process)?), signal)?;
    Ok(child.wait_with_output().await?)
}

async fn one_that_is_stopped_leaves_nothing(world: &World, chemist: &Chemist, id: i64) -> Result<()> {
    let interrupted = signalled(world, chemist, id, Signal::SIGINT).await?;
    let complaint = String::from_utf8_lossy(&interrupted.stderr);
    ensure!(interrupted.status.code() == Some(2) && complaint.contains("interrupted"), "{interrupted:?}");
    no_reader_is_left(world).await?;

    let killed = signalled(world, chemist, id, Signal::SIGKILL).await?;
    ensure!(killed.status.code().is_none(), "{killed:?}");
    until("the pod of a command that was killed ends on its own", || async {
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        let readers = readers(world).await?;
        ensure!(readers.len() == 1, "{readers:?}");
        Ok((phase(&readers[0]).as_deref() == Some("Succeeded")).then_some(()))
    })
    .await?;
    chemist.good(&["files", &id.to_string()]).await?;
    no_reader_is_left(world).await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_chemist_follows_a_simulation_and_brings_its_files_home() {
    run("results", |world| async move {
        let database = prepare_with(world, STEPS, "").await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let add = ["add", "water/water.tpr", "--max-cpu-millicores", "500"];
        let added = alice.json(&add).await?;
        let id = added[0]["id"].as_i64().with_context(|| added.to_string())?;
        let held = alice.json(&[&add[..], &["--hold", "--allow-duplicate"]].concat()).await?;
        let held = held[0]["id"].to_string();
        alice.refused(&["logs", &held], &["has not run", "is held; release it to begin"]).await?;
        let image = ["--image", "scavenger.dev/gromacs:2022.5"];
        let words = ["there is no folder water/gromacs-", "is held"];
        alice.refused(&[&["files", &held], &image[..]].concat(), &words).await?;

        until("the simulation computes", || async {
            Ok(row(&database, id).await?.step.filter(|step| *step > 100))
        })
        .await?;
        let text = id.to_string();
        let log = alice.good(&["logs", &text]).await?;
        ensure!(log.contains("starting mdrun") && log.contains("step "), "{log}");
        ensure!(!log.contains('\r'), "{log:?}");
        let listed = sizes(&alice, &text).await?;
        ensure!(listed.get("md.log").is_some_and(|size| *size > 0), "{listed:?}");
        let end = alice.good(&["logs", &text, "--mdrun", "--lines", "500"]).await?;
        ensure!(end.contains("Started mdrun"), "{end}");
        ensure!(row(&database, id).await?.state == "running", "it ended too early for this test");
        // It goes on until the attempt ends.
        let followed = alice.good(&["logs", &text, "--follow", "--lines", "5"]).await?;
        ensure!(followed.contains("Performance:"), "{followed}");
        state(&database, id, "completed").await?;

        files_come_home(world, &alice, id).await?;
        one_that_is_stopped_leaves_nothing(world, &alice, id).await?;

        // A chemist without a right in the namespace.
        let bob = Chemist::new(world, &database, "bob", false).await?;
        bob.refused(&["files", &text], &[&format!("there is no row {text}")]).await?;
        let his = bob.json(&[&add[..], &["--hold", "--allow-duplicate"]].concat()).await?;
        let his = his[0]["id"].to_string();
        bob.refused(&["files", &his], &["you have no right to get persistentvolumeclaims", &world.namespace])
            .await?;
        no_reader_is_left(world).await
    });
}

/// Pods that were made to read volumes, by now.
async fn readers_so_far(world: &World) -> Result<BTreeSet<String>> {
    let scheduled = ListParams::default().fields("reason=Scheduled,involvedObject.kind=Pod");
    let events = world.api::<Event>().list(&scheduled).await?;
    let names = events.items.into_iter().filter_map(|event| event.involved_object.name);
    Ok(names.filter(|name| name.contains("-reader-")).collect())
}

/// Two rows of one file that are complete, one that is held, and one whose claim is missing: what there is comes with one
/// pod, and what there is not is named.
async fn a_project_comes_home(world: &World, alice: &Chemist, done: [i64; 2]) -> Result<()> {
    let held =
        alice.json(&["add", "water/water.tpr", "--hold", "--allow-duplicate", "--project", "pair"]).await?;
    let held = held[0]["id"].to_string();
    let lost =
        ["add", "water/lost.tpr", "--hold", "--project", "pair", "--persistent-volume-claim", "nothing"];
    let lost = alice.json(&lost).await?[0]["id"].to_string();
    let home = tempfile::tempdir()?;
    let to = home.path().join("results");
    let to = to.to_str().context("the folder's path is no text")?;
    let fetch = ["fetch", "--project", "pair", "*.log", "*.gro", "--to", to];

    let before = readers_so_far(world).await?;
    let printed = alice.run(&fetch).await?;
    ensure!(printed.code == Some(1), "{printed:?}");
    ensure!(printed.stdout.contains("copied 4 files of 2 rows"), "{printed:?}");
    for words in [
        format!("row {held} is missing: there is no folder water/gromacs-{held}"),
        format!("row {lost} is missing: there is no PersistentVolumeClaim nothing"),
    ] {
        ensure!(printed.stderr.contains(&words), "{words:?} is not in: {printed:?}");
    }
    let made = until("the pod that read the volume was seen", || async {
        let all = readers_so_far(world).await?;
        let made: Vec<String> = all.difference(&before).cloned().collect();
        Ok((!made.is_empty()).then_some(made))
    })
    .await?;
    ensure!(made.len() == 1, "one pod reads a claim, not {made:?}");
    for id in done {
        let on_volume = checksums(world, id).await?;
        for name in ["md.log", "confout.gro"] {
            let here = checksum(&Path::new(to).join(format!("gromacs-{id}/{name}")))?;
            ensure!(here == on_volume[name], "{name} of row {id} has another checksum here");
        }
    }
    let rows = done.map(|id| id.to_string());
    let again = alice.good(&["fetch", &rows[0], &rows[1], "*.log", "*.gro", "--to", to]).await?;
    ensure!(again.contains("4 files had the same content already"), "{again}");
    alice
        .refused(
            &["fetch", &rows[0], "999999", "--to", to],
            &["there is no row 999999, and nothing was copied"],
        )
        .await?;
    no_reader_is_left(world).await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_chemist_brings_several_rows_home_in_one_go() {
    run("several", |world| async move {
        let database = prepare_with(world, FEW_STEPS, "").await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let mut done = [0; 2];
        for id in &mut done {
            let add = [
                "add",
                "water/water.tpr",
                "--allow-duplicate",
                "--project",
                "pair",
                "--max-cpu-millicores",
                "500",
            ];
            let added = alice.json(&add).await?;
            *id = added[0]["id"].as_i64().with_context(|| added.to_string())?;
        }
        for id in done {
            state(&database, id, "completed").await?;
        }
        a_project_comes_home(world, &alice, done).await
    });
}
