//! The scripts as a pod runs them, on a folder that stands for the volume.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;
use crate::folder::{batches, parse_sums};

const STAGING: &str = "to/.staging";

/// What a script prints for a volume, and how it ends.
fn run(mut command: Vec<String>, volume: &Path, input: &[u8]) -> (Vec<u8>, Ended) {
    command[4] = volume.to_str().expect("should be text").to_owned();
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh should start");
    let mut stdin = child.stdin.take().expect("stdin should be piped");
    // One that ends early reads no more of it.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("should end");
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    (output.stdout, Ended { code: output.status.code().unwrap_or(-1), complaint })
}

const PLACE: Place<'_> = Place { image: "gmx", claim: "simulations", user: 1000, folder: "to" };

fn good(command: Vec<String>, volume: &Path) -> Vec<u8> {
    let (printed, ended) = run(command, volume, b"");
    check(PLACE, &ended).expect("should do it");
    printed
}

fn look(volume: &Path, paths: &[&str]) -> Vec<There> {
    let printed = good(look_command(paths.iter().copied()), volume);
    parse_look(&printed, paths.len()).expect("should be answers")
}

/// Brings files with these contents to these paths.
fn bring(volume: &Path, files: &[(&str, &str)], replace: bool) -> Result<Vec<Placed>, PutError> {
    let source = tempfile::tempdir().expect("should make a folder");
    let locals: Vec<LocalFile> = (0..)
        .zip(files)
        .map(|(number, (path, content))| {
            let local = source.path().join(number.to_string());
            fs::write(&local, content).expect("should write");
            LocalFile { name: (*path).to_owned(), size: content.len() as u64, path: local }
        })
        .collect();
    let mut archive = Vec::new();
    let sent = write_archive(&locals, 0, &mut archive, |_| {}).expect("should be written");
    let (_, ended) = run(receive_command(STAGING, length(&locals)), volume, &archive);
    check(PLACE, &ended)?;
    let arrivals = sent.iter().zip(files).map(|(sent, (path, _))| Arrival {
        number: sent.number,
        sha256: sent.sha256.as_deref().expect("should be whole"),
        path,
    });
    let (printed, ended) = run(place_command(STAGING, replace, arrivals), volume, b"");
    check(PLACE, &ended)?;
    let placed = parse_placed(&printed, files.len());
    fs::remove_dir_all(volume.join(STAGING)).expect("should be removed");
    placed
}

/// All files below a folder, and what is in them. Links are followed nowhere.
fn contents(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(&here).expect("should be a folder") {
            let path = entry.expect("should be read").path();
            let name = path.strip_prefix(folder).expect("should be below").display().to_string();
            let kind = path.symlink_metadata().expect("should be there").file_type();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() {
                all.insert(name, format!("-> {}", fs::read_link(path).expect("should be a link").display()));
            } else {
                all.insert(name, fs::read_to_string(path).expect("should be text"));
            }
        }
    }
    all
}

/// A volume with a link out of it, one inside, a row's folder, and a file; and what lies beside the volume.
fn volume() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("should make a folder");
    for path in ["volume/to", "volume/row/gromacs-7", "outside"] {
        fs::create_dir_all(folder.path().join(path)).expect("should make a folder");
    }
    for (path, content) in [
        ("outside/secret", "secret"),
        ("volume/to/there.tpr", "old"),
        ("volume/row/gromacs-7/.row", "uuid"),
        ("volume/row/gromacs-7/md.log", "log"),
    ] {
        fs::write(folder.path().join(path), content).expect("should write");
    }
    symlink("../../outside", folder.path().join("volume/to/out")).expect("should link");
    symlink("../../outside/secret", folder.path().join("volume/to/secret")).expect("should link");
    symlink("../row", folder.path().join("volume/to/row")).expect("should link");
    symlink("none", folder.path().join("volume/to/dangling")).expect("should link");
    folder
}

#[test]
fn what_has_a_path_is_said_and_no_link_is_followed() {
    let folder = volume();
    let found = look(
        &folder.path().join("volume"),
        &[
            "to/there.tpr",
            "to/none",
            "none/none",
            "to",
            "to/out/secret",
            "to/secret",
            "to/dangling",
            "to/there.tpr/x",
            "row/gromacs-7/md.log",
            "to/row/gromacs-7/md.log",
            "-rf",
            "$(id)",
        ],
    );
    let expected = [
        There::File(3),
        There::Nothing,
        There::Nothing,
        There::Folder,
        There::Link,
        There::Link,
        There::Link,
        There::Other,
        There::Row,
        There::Link,
        There::Nothing,
        There::Nothing,
    ];
    assert_eq!(found, expected);
}

#[test]
fn files_get_their_paths_when_they_are_whole() {
    let folder = volume();
    let volume = folder.path().join("volume");
    let files = [("to/a b/ü $(id).tpr", "one"), ("to/-rf", "two"), ("new/deep/er/x", "")];
    assert_eq!(bring(&volume, &files, false), Ok(vec![Placed::Placed; 3]));
    let all = contents(&volume);
    for (path, content) in files {
        assert_eq!(all.get(path).map(String::as_str), Some(content), "{path}");
    }
    let sums = parse_sums(&good(sums_command([("to/-rf", 3), ("to/a b/ü $(id).tpr", 1)]), &volume));
    assert_eq!(sums[0], "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3");
    assert_eq!(sums.len(), 2);
}

#[test]
fn a_file_is_replaced_only_if_it_may_be() {
    let folder = volume();
    let volume = folder.path().join("volume");
    let files = [("to/there.tpr", "new")];
    assert_eq!(bring(&volume, &files, false), Ok(vec![Placed::Obstructed(There::File(0))]));
    assert_eq!(contents(&volume)["to/there.tpr"], "old");
    assert_eq!(bring(&volume, &files, true), Ok(vec![Placed::Placed]));
    assert_eq!(contents(&volume)["to/there.tpr"], "new");
}

#[test]
fn neither_links_nor_folders_of_rows_are_written_into() {
    let folder = volume();
    let volume = folder.path().join("volume");
    let before = contents(folder.path());
    for (path, there) in [
        ("to/out/new", There::Link),
        ("to/out/secret", There::Link),
        ("to/secret", There::Link),
        ("to/dangling", There::Link),
        ("row/gromacs-7/new", There::Row),
        ("row/gromacs-7/md.log", There::Row),
        ("to/there.tpr/x", There::Other),
        ("to", There::Folder),
    ] {
        assert_eq!(bring(&volume, &[(path, "evil")], true), Ok(vec![Placed::Obstructed(there)]), "{path}");
    }
    assert_eq!(contents(folder.path()), before);
    for (staging, there) in [("to/out/.s", There::Link), ("row/gromacs-7/.s", There::Row)] {
        let (_, ended) = run(receive_command(staging, 1024), &volume, &[0; 1024]);
        let error = check(PLACE, &ended).expect_err("should be refused");
        assert_eq!(
            error,
            PutError::Enter { folder: "to".to_owned(), claim: "simulations".to_owned(), there }
        );
    }
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn what_breaks_off_or_differs_gets_no_path() {
    let folder = volume();
    let volume = folder.path().join("volume");
    let local = folder.path().join("local");
    fs::write(&local, [b'x'; 5000]).expect("should write");
    let files = [LocalFile { name: "a".to_owned(), size: 5000, path: local }];
    let mut archive = Vec::new();
    let sent = write_archive(&files, 3, &mut archive, |_| {}).expect("should be written");
    let (_, ended) = run(receive_command(STAGING, length(&files)), &volume, &archive[..3000]);
    assert!(matches!(check(PLACE, &ended), Err(PutError::Write { .. })), "{ended:?}");
    // What is there of it is no file for a path.
    let sha256 = sent[0].sha256.as_deref().expect("should be whole");
    let placed = good(place_command(STAGING, true, [Arrival { number: 3, sha256, path: "to/a" }]), &volume);
    assert_eq!(parse_placed(&placed, 1), Ok(vec![Placed::Broken]));
    assert!(!volume.join("to/a").exists());
    // The same command again brings it, whatever is left of the first.
    assert_eq!(bring(&volume, &[("to/a", "whole")], false), Ok(vec![Placed::Placed]));
    assert_eq!(contents(&volume)["to/a"], "whole");
}

#[test]
fn a_volume_that_cannot_be_written_says_why() {
    let ended = |complaint: &str| Ended { code: 2, complaint: complaint.to_owned() };
    let full = ended("tar: 0: Cannot write: No space left on device");
    let said = check(PLACE, &full).expect_err("should be refused").to_string();
    assert!(said.starts_with("PersistentVolumeClaim simulations is full (tar: 0: "), "{said}");
    // One line of many stands for all, the one that says so.
    let many = "tar: 0: Cannot change mode\ntar: 0: Wrote only 512 of 10240 bytes: No space left on device\n\
        tar: 1: Cannot open: No space left on device\ntar: Exiting with failure status due to previous errors";
    let complaint = "tar: 0: Wrote only 512 of 10240 bytes: No space left on device".to_owned();
    let claim = "simulations".to_owned();
    assert_eq!(check(PLACE, &ended(many)), Err(PutError::Fit { claim, complaint }));
    let twice = ended("tar: 0: Cannot open: Permission denied\ntar: 1: Cannot open: Permission denied");
    let said = check(PLACE, &twice).expect_err("should be refused").to_string();
    assert!(said.ends_with("(exit code 2): tar: 0: Cannot open: Permission denied"), "{said}");
    let denied = ended("mkdir: cannot create directory './to': Permission denied");
    let said = check(PLACE, &denied).expect_err("should be refused").to_string();
    assert!(said.starts_with("PersistentVolumeClaim simulations cannot be written as user 1000"), "{said}");
    let no_tool = Ended { code: 3, complaint: "tar".to_owned() };
    assert!(
        check(PLACE, &no_tool).expect_err("should be refused").to_string().contains("image gmx has no tar")
    );
}

#[test]
fn space_is_read_from_the_last_line() {
    let printed = b"Filesystem     1024-blocks     Used Available Capacity Mounted on\n//server/my share 264212084 1 36885120      62% /data\n";
    assert_eq!(parse_space(printed), Ok(36_885_120 * 1024));
    assert!(parse_space(b"df: no such thing").is_err() && parse_space(b"").is_err());
    let folder = volume();
    assert!(parse_space(&good(space_command(), folder.path())).is_ok_and(|left| left > 0));
}

/// The client takes no address of more than 64 KiB, and a name is a part of one.
#[test]
fn the_longest_names_are_no_address_too_long() {
    let paths: Vec<String> = (0..300).map(|number| format!("{number:03}{}x", "ü".repeat(448))).collect();
    assert_eq!(paths[0].len(), 900);
    let sha256 = "0".repeat(64);
    let pods = kube::core::Request::new("/api/v1/namespaces/chem/pods");
    let parameters = kube::api::AttachParams::default();
    for batch in batches(&paths, |path| (path.as_str(), 1)) {
        let arrivals = batch.iter().map(|path| Arrival { number: 1_000_000, sha256: &sha256, path });
        let sums = batch.iter().map(|path| (path.as_str(), 1 << 40));
        let look = batch.iter().map(String::as_str);
        for command in [
            place_command(&path_of("a", STAGING).expect("should be short"), true, arrivals),
            sums_command(sums),
            look_command(look),
        ] {
            pods.exec("gromacs-writer-01234567", command, &parameters).expect("should be a request");
        }
    }
}

#[test]
fn a_pod_that_says_something_else_is_not_believed() {
    assert!(parse_look(b"nothing\n", 2).is_err());
    assert!(parse_look(b"file x\n", 1).is_err());
    assert!(parse_look(b"file 1\nrow\n", 2).is_ok());
    assert!(parse_placed(b"placed\nfile\nlink 3\n", 3).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever a path is that the rules let through, and whatever lies on the volume: nothing is written but that path, and
    /// nothing at all outside the volume.
    #[test]
    fn nothing_is_written_elsewhere(name in "((out|secret|row|dangling|there\\.tpr|gromacs-7|a|\\.\\.|\\.|-n|\\$\\(id\\)|ü| )/){0,3}(secret|md\\.log|a|-rf|there\\.tpr|;x|\\*|'|\")") {
        let folder = volume();
        let before = contents(folder.path());
        let volume = folder.path().join("volume");
        if let (Ok(to), Ok(name)) = (check_folder("to"), check_folder(&name)) {
            let path = path_of(&to, &name).expect("should be short");
            let placed = bring(&volume, &[(&path, "new")], true).expect("should answer");
            let mut expected = before;
            if placed == [Placed::Placed] {
                expected.insert(format!("volume/{path}"), "new".to_owned());
            }
            prop_assert_eq!(contents(folder.path()), expected);
        }
    }
}
