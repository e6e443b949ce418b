//! The copy of its .tpr file that a row runs: the inspection's script makes it, and whatever becomes of the user's file later, it
//! stays what was inspected.

mod volume;

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use gromacs_submitter::multidir;
use gromacs_submitter::probe::{self, Change, GROMPP_SCRIPT, INSPECT_SCRIPT, change, parse_inspection};
use volume::{UUID, Volume};

/// A `gmx` whose dump has as many steps as the file has bytes, and that writes down which file it read.
fn dumping() -> String {
    format!(
        "case \"$*\" in
        *' grompp '*) for word; do case $word in *.mdp | *.tpr) echo made >\"$word\" ;; esac; done ;;
        *'convert-tpr '*) while [ $# -gt 1 ]; do
                if [ \"$1\" = -s ]; then from=$2; fi
                if [ \"$1\" = -o ]; then cat \"$from\" \"$from\" >\"$2\"; fi
                shift
            done ;;
        *--version*) echo 'GROMACS version:    2022.5-Debian' ;;
        *'dump -s '*) sed \"s/^   nsteps .*/   nsteps = $(wc -c <\"$4\")/\" '{}/tests/fixtures/dump-peptide.txt' ;;
        *) exit 9 ;;
        esac",
        env!("CARGO_MANIFEST_DIR")
    )
}

struct Row {
    volume: Volume,
    file: PathBuf,
    folder: PathBuf,
    /// What the last inspection found that the row took.
    taken: BTreeMap<String, String>,
}

impl Row {
    /// A row whose file holds `first` when it is inspected.
    fn new() -> Self {
        let volume = Volume::new(&dumping());
        let (file, folder) = (volume.0.join("topol.tpr"), volume.0.join("gromacs-7"));
        write(&file, "first");
        let mut row = Self { volume, file, folder, taken: BTreeMap::new() };
        row.taken = row.read();
        row
    }

    fn try_reading(&self, steps: &str) -> (Option<i32>, String) {
        let kept = self.taken.get("run-input").map_or("-", String::as_str);
        let words = [UUID, steps, "-", kept].map(Path::new);
        let arguments = [&[self.file.as_path(), self.folder.as_path()], words.as_slice()].concat();
        let output = self.volume.run(INSPECT_SCRIPT, &arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn read(&self) -> BTreeMap<String, String> {
        assert_eq!(self.try_reading("-"), (Some(0), String::new()));
        parse_inspection(&self.volume.message()).expect("should be read").values
    }

    /// What mdrun of the row reads at its next start.
    fn runs(&self) -> String {
        text(&self.folder.join(&self.taken["run-input"]))
    }

    fn copies(&self) -> Vec<String> {
        copies(&self.folder)
    }

    fn replace(&self, program: &str, script: &str) {
        let path = self.volume.0.join("bin").join(program);
        write(&path, &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("should set");
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("should write");
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("should be there")
}

fn copies(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).expect("should be a folder");
    let names = names.map(|entry| entry.expect("should be read").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".tpr")).collect();
    names.sort();
    names
}

#[test]
fn whatever_becomes_of_the_users_file_the_row_runs_what_was_inspected() {
    type Act = fn(&Row);
    let acts: [(&str, Act); 6] = [
        ("written over in place, as cp does", |row| write(&row.file, "another")),
        ("replaced by a rename, as grompp does", |row| {
            write(&row.volume.0.join("new.tpr"), "another");
            std::fs::rename(row.volume.0.join("new.tpr"), &row.file).expect("should rename");
        }),
        ("renamed", |row| {
            std::fs::rename(&row.file, row.volume.0.join("#topol.tpr.1#")).expect("should rename");
        }),
        ("removed", |row| std::fs::remove_file(&row.file).expect("should remove")),
        ("cut off", |row| write(&row.file, "")),
        ("written over through another name", |row| {
            std::fs::hard_link(&row.file, row.volume.0.join("other.tpr")).expect("should link");
            write(&row.volume.0.join("other.tpr"), "another");
        }),
    ];
    for (what, act) in acts {
        let row = Row::new();
        let sum = &row.taken["tpr-checksum"];
        assert_eq!(row.taken["run-input"], format!("run-{sum}.tpr"), "its name says what it is a copy of");
        assert_eq!(row.taken["nsteps"], "5", "the copy is what was read");
        act(&row);
        assert_eq!(row.runs(), "first", "{what}");
    }
}

#[test]
fn what_a_link_leads_to_is_copied() {
    let mut row = Row::new();
    let elsewhere = row.volume.0.join("elsewhere.tpr");
    write(&elsewhere, "first, elsewhere");
    std::fs::remove_file(&row.file).expect("should remove");
    symlink(&elsewhere, &row.file).expect("should link");
    row.taken = row.read();
    assert_eq!(row.runs(), "first, elsewhere");
    let copy = row.folder.join(&row.taken["run-input"]);
    assert!(copy.symlink_metadata().expect("should be there").is_file());
    write(&elsewhere, "another");
    assert_eq!(row.runs(), "first, elsewhere");
}

#[test]
fn the_copy_of_a_file_that_nobody_may_write_can_be_read_and_replaced() {
    let mut row = Row::new();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    write(&row.file, "another");
    std::fs::set_permissions(&row.file, mode(0o044)).expect("should set");
    // What an inspection left that was killed.
    write(&row.folder.join("new.tpr"), "anot");
    std::fs::set_permissions(row.folder.join("new.tpr"), mode(0o444)).expect("should set");
    row.taken = row.read();
    assert_eq!(row.runs(), "another");
    let copy = row.folder.join(&row.taken["run-input"]).metadata().expect("should be there");
    assert_eq!(copy.permissions().mode() & 0o600, 0o600);
}

#[test]
fn a_retry_takes_another_file_only_once_it_was_judged() {
    let mut row = Row::new();
    let first = row.taken["run-input"].clone();
    write(&row.file, "another");
    let after = row.read();
    assert_ne!(change(&row.taken, &after), Change::None);
    assert_eq!(row.runs(), "first", "the row has not taken it");
    assert_eq!(row.copies().len(), 2);
    // Something else again: what nobody took goes, what the row runs stays.
    write(&row.file, "a third one");
    let third = row.read();
    assert_eq!(row.copies().len(), 2);
    assert_eq!(row.runs(), "first");
    row.taken = third;
    assert_eq!(row.read()["run-input"], row.taken["run-input"]);
    assert_eq!((row.runs().as_str(), row.copies().len()), ("a third one", 1));
    assert!(!row.copies().contains(&first));
}

#[test]
fn a_row_whose_file_is_gone_goes_on_with_its_copy() {
    let row = Row::new();
    std::fs::remove_file(&row.file).expect("should remove");
    let again = row.read();
    assert_eq!((change(&row.taken, &again), &again["run-input"]), (Change::None, &row.taken["run-input"]));
    // It is extended from there, too.
    write(&row.folder.join("state.cpt"), "x");
    assert_eq!(row.try_reading("9000"), (Some(0), String::new()));
    assert_eq!(text(&row.folder.join("extended.tpr")), "firstfirst");
    std::fs::remove_file(row.folder.join(&row.taken["run-input"])).expect("should remove");
    let (code, words) = row.try_reading("-");
    assert!(code == Some(4) && words.contains("there is no file") && words.contains("topol.tpr"), "{words}");
}

#[test]
fn what_is_extended_is_the_copy() {
    let row = Row::new();
    write(&row.folder.join("state.cpt"), "x");
    // Written over between the reading and the conversion.
    row.replace("cksum", "/usr/bin/cksum; echo another >\"$(dirname \"$0\")/../topol.tpr\"");
    assert_eq!(row.try_reading("9000").0, Some(0));
    assert_eq!(text(&row.folder.join("extended.tpr")), "firstfirst");
}

#[test]
fn a_copy_that_is_there_is_not_made_again_unless_it_was_damaged() {
    let row = Row::new();
    row.replace("cp", "echo 'no copying' >&2; exit 1");
    assert_eq!(row.read(), row.taken);
    write(&row.folder.join(&row.taken["run-input"]), "damaged");
    assert_eq!(row.try_reading("-").0, Some(6));
    row.replace("cp", "exec /bin/cp \"$@\"");
    assert_eq!(row.read(), row.taken);
    assert_eq!(row.runs(), "first");
}

#[test]
fn a_copy_that_has_no_space_leaves_nothing_and_says_so() {
    let mut row = Row::new();
    write(&row.file, "another");
    row.replace(
        "cp",
        "case $1 in --reflink*) exit 1 ;; esac
        printf ano >\"$3\"; echo \"cp: error writing '$3': No space left on device\" >&2; exit 1",
    );
    let (code, words) = row.try_reading("-");
    assert_eq!(code, Some(6));
    assert!(words.ends_with("new.tpr': No space left on device\n"), "{words}");
    assert_eq!(row.copies(), [row.taken["run-input"].clone()]);
    // Images without the option copy as well.
    row.replace(
        "cp",
        "case $1 in --reflink*) echo 'unrecognized option' >&2; exit 1 ;; esac; exec /bin/cp \"$@\"",
    );
    row.taken = row.read();
    assert_eq!(row.runs(), "another");
}

#[test]
fn a_file_that_changes_while_it_is_copied_is_not_taken() {
    let row = Row::new();
    write(&row.file, "another");
    row.replace("cp", "/bin/cp \"$@\" && for target; do :; done && echo more >>\"$target\"");
    let (code, words) = row.try_reading("-");
    assert!(code == Some(4) && words.contains("changed while it was copied; retry"), "{words}");
    assert_eq!(row.copies(), [row.taken["run-input"].clone()]);
}

#[test]
fn a_file_that_is_only_looked_at_is_not_copied() {
    let volume = Volume::new(&dumping());
    let (file, folder) = (volume.file("a.tpr"), volume.0.join("scratch"));
    assert!(volume.run(INSPECT_SCRIPT, &[&file, &folder]).status.success());
    assert!(!volume.message().contains("run-input"), "{}", volume.message());
    assert_eq!(copies(&folder), Vec::<String>::new());
}

#[test]
fn a_file_that_the_row_made_is_copied_too() {
    let volume = Volume::new(&dumping());
    let (file, folder) = (volume.0.join("npt.tpr"), volume.0.join("gromacs-7"));
    let words = ["6", file.to_str().unwrap_or_default(), folder.to_str().unwrap_or_default(), UUID];
    let words = words.into_iter().chain(["-", "-", "-", "-f", "npt.mdp"]).map(Path::new);
    let arguments: Vec<&Path> = words.collect();
    let output = volume.run(GROMPP_SCRIPT, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = parse_inspection(&volume.message()).expect("should be read");
    assert!(found.made);
    write(&file, "another");
    assert_eq!(text(&folder.join(&found.values["run-input"])), "made\n");
}

#[test]
fn each_of_several_simulations_has_its_copy() {
    let volume = Volume::new(&dumping().replace("$(wc -c <\"$4\")", "5"));
    let (file, work) = (volume.0.join("ens/topol.tpr"), volume.0.join("ens/gromacs-7"));
    let names = ["sim0", "a b"];
    let input = |name: &str| volume.0.join("ens").join(name).join("topol.tpr");
    for name in names {
        std::fs::create_dir_all(volume.0.join("ens").join(name)).expect("should make a folder");
        write(&input(name), &format!("first {name}"));
    }
    let inspect = |kept: &str| {
        let script = Path::new(probe::INSPECT_SCRIPT);
        let words = [UUID, "-", "-", kept, "2", "sim0", "a b"].map(Path::new);
        let arguments = [&[script, &file, &work], words.as_slice()].concat();
        let output = volume.run(multidir::INSPECT_SCRIPT, &arguments);
        let values = parse_inspection(&volume.message()).map(|found| found.values).unwrap_or_default();
        (output.status.code(), values, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, first, words) = inspect("-");
    assert_eq!(code, Some(0), "{words}");
    let copy = first["run-input"].clone();
    assert_eq!(copy, format!("run-{}.tpr", first["tpr-checksum"]));
    let runs = |name: &str, copy: &str| text(&work.join(name).join(copy));
    // One is written over, and one is removed.
    write(&input("sim0"), "another");
    std::fs::remove_file(input("a b")).expect("should remove");
    assert_eq!((runs("sim0", &copy).as_str(), runs("a b", &copy).as_str()), ("first sim0", "first a b"));
    let (code, second, words) = inspect(&copy);
    assert_eq!(code, Some(0), "{words}");
    assert_ne!(second["tpr-checksum"], first["tpr-checksum"]);
    assert_eq!(runs("sim0", &copy), "first sim0", "nobody has taken the other one");
    let other = &second["run-input"];
    assert_eq!((runs("sim0", other).as_str(), runs("a b", other).as_str()), ("another", "first a b"));
    // Put back, it is what it was.
    write(&input("sim0"), "first sim0");
    assert_eq!(inspect(&copy).1, first);
    assert_eq!(copies(&work.join("sim0")), [copy.as_str()]);
    // Without a copy it is missing.
    std::fs::remove_file(work.join("a b").join(&copy)).expect("should remove");
    let (code, _, words) = inspect(&copy);
    assert!(
        code == Some(4) && words.contains("there is no file") && words.contains("a b/topol.tpr"),
        "{words}"
    );
}
