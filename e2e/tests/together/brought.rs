//! A chemist brings files from a laptop, has them computed, and is kept from what others need, with the command line and the
//! rights of the page alone.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Pod},
    rbac::v1::{Role, RoleBinding},
};
use kube::api::ListParams;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use scavenger_e2e::{
    World,
    chemist::Chemist,
    postgres::Database,
    queue::{admit_submitter, state},
    volume::SmallVolume,
    world::{LIMIT, run_within, until},
};
use serde_json::{Value, json};

/// The page that says which rights are needed.
const PERMISSIONS: &str = include_str!("../../../docs/permissions.md");

/// Two small water boxes of few steps, with a name that a shell would divide.
fn laptop() -> Result<tempfile::TempDir> {
    let home = tempfile::tempdir()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples/water/prepare.sh");
    let made = Command::new("bash").arg(script).arg(home.path()).arg("box:2.5:300").output()?;
    ensure!(made.status.success(), "{made:?}");
    for folder in ["water 1", "wässer-2"] {
        let folder = home.path().join(folder);
        fs::create_dir(&folder)?;
        fs::copy(home.path().join("box/box.tpr"), folder.join("topol.tpr"))?;
    }
    fs::write(home.path().join("water 1/notes.txt"), "of Monday")?;
    symlink("/etc/passwd", home.path().join("water 1/passwd"))?;
    fs::remove_dir_all(home.path().join("box"))?;
    Ok(home)
}

/// The rules of the table in the section about logs and files, as a role has them.
fn rules() -> Result<Vec<Value>> {
    let section =
        PERMISSIONS.split("### Logs and files of simulations").nth(1).context("the section is gone")?;
    let rows = section.lines().skip_while(|line| !line.starts_with("| resource")).skip(2);
    let words = |cell: &str| -> Vec<String> {
        cell.split(',').map(|word| word.trim().trim_matches('`').to_owned()).collect()
    };
    let rules = rows.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let resource = cells.get(1).context("a row has no cell")?.trim_matches('`');
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        Ok(json!({ "apiGroups": [group], "resources": [resource], "verbs": words(cells[2]) }))
    });
    rules.collect()
}

/// A chemist with the rights of the page and no other.
async fn chemist(world: &World, database: &Database) -> Result<Chemist> {
    let alice = Chemist::new(world, database, "alice", false).await?;
    let rules = rules()?;
    ensure!(rules.len() > 5, "{rules:?}");
    world
        .create::<Role>(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "files" }, "rules": rules,
        }))
        .await?;
    let user = format!("alice-{}", world.namespace);
    world
        .create::<RoleBinding>(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "files" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "files" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
        }))
        .await?;
    Ok(alice)
}

/// The pod of a command that was killed ends, and nobody deletes it.
async fn no_writer_is_left(world: &World) -> Result<()> {
    let writers = ListParams::default()
        .labels("app.kubernetes.io/name=gromacs-writer")
        .fields("status.phase!=Succeeded");
    until("the pod that writes the volume has ended", || async {
        Ok(world.api::<Pod>().list(&writers).await?.items.is_empty().then_some(()))
    })
    .await
}

/// A claim that nobody uses yet.
async fn claim(world: &World) -> Result<()> {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "simulations" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    world.create::<PersistentVolumeClaim>(claim).await?;
    Ok(())
}

async fn phase(world: &World) -> Result<String> {
    let claim = world.api::<PersistentVolumeClaim>().get("simulations").await?;
    Ok(claim.status.and_then(|status| status.phase).unwrap_or_default())
}

/// The folder of what is on its way.
const ON_ITS_WAY: &str = ".gromacs-submitter-put-*";

const IMAGE: [&str; 2] = ["--image", "scavenger.dev/gromacs:2022.5"];

/// Folders come with what is in them, once, and links do not.
async fn folders_come(world: &World, alice: &Chemist, root: &str) -> Result<()> {
    let put = [&["put", "--root", root, "water 1", "w*-2", "--to", "monday"][..], &IMAGE].concat();
    ensure!(phase(world).await? == "Pending", "the claim does not wait for its first consumer");
    let dry = alice.run(&[&put[..], &["--dry-run"]].concat()).await?;
    ensure!(dry.code == Some(0) && dry.stdout.contains("would copy 3 files"), "{dry:?}");
    let printed = alice.run(&put).await?;
    println!("{}{}", printed.stdout, printed.stderr);
    ensure!(printed.code == Some(0), "{printed:?}");
    for words in [
        "copied monday/water 1/notes.txt",
        "copied monday/wässer-2/topol.tpr",
        "copied 3 files",
        "bytes left",
    ] {
        ensure!(printed.stdout.contains(words), "{words:?} is not in: {printed:?}");
    }
    ensure!(printed.stderr.contains("left out: water 1/passwd"), "{printed:?}");
    ensure!(phase(world).await? == "Bound", "the pod is no consumer");
    let again = alice.good(&put).await?;
    ensure!(again.contains("copied 0 files, 0 bytes; 3 files had the same content already"), "{again}");
    let notes = Path::new(root).join("water 1/notes.txt");
    fs::write(&notes, "of Friday")?;
    let words = ["monday/water 1/notes.txt on PersistentVolumeClaim simulations differs", "--overwrite"];
    alice.refused(&put, &words).await?;
    let replaced = alice.good(&[&put[..], &["--overwrite"]].concat()).await?;
    ensure!(replaced.contains("copied 1 file, 9 bytes; 2 files had"), "{replaced}");
    no_writer_is_left(world).await
}

/// The rows of files that come with them are computed, and their files are their own from then on.
async fn rows_come_with_their_files(
    world: &World,
    alice: &Chemist,
    database: &Database,
    root: &str,
) -> Result<()> {
    let add =
        [&["add", "--put", "--root", root, "--to", "tuesday", "--max-cpu-millicores", "500"][..], &IMAGE]
            .concat();
    let added = alice.run(&[&add[..], &["w*/*.tpr"]].concat()).await?;
    println!("{}{}", added.stdout, added.stderr);
    ensure!(added.code == Some(0) && added.stdout.contains("added 2 rows"), "{added:?}");
    ensure!(added.stderr.contains("copied 2 files"), "{added:?}");
    let rows = alice.json(&["list"]).await?;
    let rows: Vec<i64> =
        rows.as_array().context("no list")?.iter().filter_map(|row| row["id"].as_i64()).collect();
    let [first, second] = rows[..] else { anyhow::bail!("{rows:?}") };

    let held =
        alice.json(&[&add[..], &["water 1/topol.tpr", "--hold", "--allow-duplicate"]].concat()).await?;
    let held = held[0]["id"].to_string();
    let tpr = Path::new(root).join("water 1/topol.tpr");
    let mut other = fs::read(&tpr)?;
    other.push(0);
    fs::write(&tpr, other)?;
    let put = [&["put", "--root", root, "water 1/topol.tpr", "--to", "tuesday", "--overwrite"][..], &IMAGE]
        .concat();
    alice.refused(&put, &["tuesday/water 1/topol.tpr", "is used by row", "has not ended"]).await?;
    alice.good(&["cancel", &held]).await?;

    for row in [first, second] {
        state(database, row, "completed").await?;
    }
    let refused =
        alice.run(&[&add[..], &["wässer-2/topol.tpr", "--project", &"x".repeat(2000)]].concat()).await?;
    println!("{}{}", refused.stdout, refused.stderr);
    ensure!(refused.code == Some(1), "{refused:?}");
    let lies = "1 file lies on PersistentVolumeClaim simulations although nothing was added: tuesday/wässer-2/topol.tpr";
    ensure!(refused.stderr.contains(lies), "{refused:?}");

    let into = format!("tuesday/water 1/gromacs-{first}");
    let put = [&["put", "--root", root, "water 1/notes.txt", "--to", &into][..], &IMAGE].concat();
    alice.refused(&put, &["would lie in the folder of a row"]).await?;
    no_writer_is_left(world).await
}

/// What a command that is stopped had on its way is removed, and the same command brings it.
async fn one_that_is_stopped_leaves_nothing(
    world: &World,
    alice: &Chemist,
    small: &SmallVolume,
    root: &str,
) -> Result<()> {
    // Long enough that it is still on its way when that is seen.
    fs::File::create(Path::new(root).join("long"))?.set_len(256 << 20)?;
    let put = [&["put", "--root", root, "long", "--to", "wednesday"][..], &IMAGE].concat();
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let child = alice.command(&put)?.spawn()?;
        let begun = || async { Ok((!small.find(ON_ITS_WAY).await?.is_empty()).then_some(())) };
        until("a file is on its way", begun).await?;
        let process = child.id().context("it has ended already")?;
        kill(Pid::from_raw(i32::try_from(process)?), signal)?;
        let ended = child.wait_with_output().await?;
        ensure!(!ended.status.success(), "{ended:?}");
        let removed = || async { Ok(small.find(ON_ITS_WAY).await?.is_empty().then_some(())) };
        until("what was on its way is removed", removed).await?;
        ensure!(small.find("long").await?.is_empty(), "a file that has not come has a name");
    }
    let again = alice.good(&put).await?;
    ensure!(again.contains("copied 1 file, 268,435,456 bytes"), "{again}");
    no_writer_is_left(world).await
}

/// A volume that fills in the middle keeps what is complete, and the same command brings the rest when there is space.
async fn a_volume_that_fills_takes_the_rest_later(
    alice: &Chemist,
    small: &SmallVolume,
    root: &str,
) -> Result<()> {
    let many = Path::new(root).join("many");
    fs::create_dir(&many)?;
    for number in 0..150 {
        fs::write(many.join(format!("{number:03}.mdp")), format!("nsteps = {number}"))?;
    }
    let put = [&["put", "--root", root, "many", "--pvc", SmallVolume::CLAIM][..], &IMAGE].concat();
    small.limit_files(130).await?;
    alice.refused(&put, &["PersistentVolumeClaim small is full", "run the command again"]).await?;
    small.limit_files(1000).await?;
    let again = alice.good(&put).await?;
    ensure!(again.contains("copied 50 files") && again.contains("100 files had the same content"), "{again}");
    let removed = || async { Ok(small.find(ON_ITS_WAY).await?.is_empty().then_some(())) };
    until("what was on its way is removed", removed).await
}

/// Names that a shell, tar or find would read otherwise.
const NAMES: [&str; 8] = ["-rf", "$(id).tpr", "*", ";x", "it's", "\"quoted\"", "back\\slash", "ü ☃"];

/// As many as a long campaign has, in one command.
const MANY: usize = 10_000;

/// A name is only a name, however many there are, and what is there under it is not replaced.
async fn names_are_only_names(alice: &Chemist, root: &str) -> Result<()> {
    let odd = Path::new(root).join("odd");
    for name in NAMES {
        fs::create_dir_all(odd.join(name))?;
        fs::write(odd.join(name).join(name), name)?;
    }
    let put = [&["put", "--root", root, "odd", "--to=-rf/$(id)"][..], &IMAGE].concat();
    let printed = alice.good(&put).await?;
    for name in NAMES {
        ensure!(printed.contains(&format!("copied -rf/$(id)/odd/{name}/{name}")), "{name}: {printed}");
    }
    let again = alice.good(&put).await?;
    ensure!(again.contains("copied 0 files, 0 bytes; 8 files had the same content already"), "{again}");

    let campaign = Path::new(root).join("campaign");
    fs::create_dir(&campaign)?;
    for number in 0..MANY {
        fs::write(campaign.join(format!("{number:05}.mdp")), format!("gen-seed = {number}"))?;
    }
    let put = [&["put", "--root", root, "campaign"][..], &IMAGE].concat();
    let began = Instant::now();
    let printed = alice.good(&put).await?;
    println!("{MANY} files: {:.1?}", began.elapsed());
    ensure!(printed.contains("copied 10,000 files"), "{}", printed.lines().last().unwrap_or_default());
    fs::write(campaign.join("07000.mdp"), "gen-seed = 7001")?;
    alice.refused(&put, &["campaign/07000.mdp on PersistentVolumeClaim simulations differs"]).await
}

/// Nothing is read from outside of the folder, and nothing is written behind a link of the volume.
async fn nothing_leads_elsewhere(alice: &Chemist, small: &SmallVolume, root: &str) -> Result<()> {
    let elsewhere = tempfile::tempdir()?;
    fs::write(elsewhere.path().join("secret"), "of others")?;
    symlink(elsewhere.path(), Path::new(root).join("elsewhere"))?;
    let put =
        |path, to, claim| [&["put", "--root", root, path, "--to", to, "--pvc", claim][..], &IMAGE].concat();
    for (path, to, why) in [
        ("../passwd", "in", "is not inside"),
        ("/etc/passwd", "in", "is not inside"),
        ("elsewhere", "in", "is not inside"),
        ("elsewhere/secret", "in", "is not inside"),
        ("water 1/notes.txt", "../in", "'..'"),
        ("water 1/notes.txt", "/in", "relative"),
    ] {
        alice.refused(&put(path, to, SmallVolume::CLAIM), &[why]).await?;
    }
    small.link("etc", "/etc").await?;
    small.link("up", "..").await?;
    for to in ["etc", "up", "up/up"] {
        alice.refused(&put("water 1/notes.txt", to, SmallVolume::CLAIM), &["is a symbolic link"]).await?;
    }
    Ok(())
}

/// A file that is written to all the time is not taken for whole, and the others come.
async fn a_file_that_changes_is_not_taken_for_whole(alice: &Chemist, root: &str) -> Result<()> {
    let folder = Path::new(root).join("written");
    fs::create_dir(&folder)?;
    fs::write(folder.join("done.xvg"), "1 2")?;
    let changing = folder.join("md.log");
    fs::write(&changing, "step 0")?;
    let put = [&["put", "--root", root, "written"][..], &IMAGE].concat();
    let ended = AtomicBool::new(false);
    let writes = async {
        // As long as the command reads, at whatever moment that is.
        while !ended.load(Ordering::Relaxed) {
            fs::OpenOptions::new().append(true).open(&changing)?.write_all(b"step\n")?;
            // Far more often than the command looks, and without a core of its own.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok(())
    };
    let copies = async {
        let printed = alice.run(&put).await;
        ended.store(true, Ordering::Relaxed);
        printed
    };
    let (written, printed) = tokio::join!(writes, copies);
    written?;
    let printed = printed?;
    ensure!(printed.code == Some(1) && printed.stderr.contains("written/md.log"), "{printed:?}");
    ensure!(printed.stdout.contains("copied written/done.xvg"), "{printed:?}");
    let again = alice.good(&put).await?;
    ensure!(again.contains("copied 1 file") && again.contains("1 file had the same content"), "{again}");
    Ok(())
}

/// More than the volume holds, or than the tenant may bring, is not begun.
async fn too_much_is_refused(world: &World, alice: &Chemist, database: &Database, root: &str) -> Result<()> {
    fs::File::create(Path::new(root).join("large"))?.set_len(20 << 20)?;
    let put = [&["put", "--root", root, "large"][..], &IMAGE].concat();
    let onto_small = [&put[..], &["--pvc", SmallVolume::CLAIM]].concat();
    let words = ["20,971,520 bytes are to be copied, and PersistentVolumeClaim small has", "left"];
    alice.refused(&onto_small, &words).await?;
    database
        .sql(&format!(
            "update gromacs_tenant set max_put_bytes = 1000 where namespace = '{}'",
            world.namespace
        ))
        .await?;
    alice.refused(&put, &["the limit of the tenant for one command is 1,000"]).await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_chemist_brings_files_from_a_laptop_and_has_them_computed() {
    // 10,000 files take minutes beside other tests.
    run_within(10 * LIMIT, "brought", |world| async move {
        admit_submitter(world).await?;
        claim(world).await?;
        let database = Database::new(&world.client);
        let alice = chemist(world, &database).await?;
        let laptop = laptop()?;
        let root = laptop.path().to_str().context("the folder's path is no text")?;
        folders_come(world, &alice, root).await?;
        rows_come_with_their_files(world, &alice, &database, root).await?;
        let small = SmallVolume::new(world, "monday/wässer-2/topol.tpr").await?;
        one_that_is_stopped_leaves_nothing(world, &alice, &small, root).await?;
        a_volume_that_fills_takes_the_rest_later(&alice, &small, root).await?;
        nothing_leads_elsewhere(&alice, &small, root).await?;
        a_file_that_changes_is_not_taken_for_whole(&alice, root).await?;
        names_are_only_names(&alice, root).await?;
        too_much_is_refused(world, &alice, &database, root).await?;
        small.remove().await
    });
}
