//! Text that wants to be something else: SQL, a path out of the volume, a command of the terminal. Every argument and
//! every cell is only ever text; what the table cannot hold is refused with a sentence.

mod postgres;
mod program;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use program::{Program, text};
use serde_json::Value;

/// What a row may be called.
const GOOD_PATHS: [&str; 8] = [
    "a b.tpr",
    "'; drop table gromacs_to_tune; --.tpr",
    "$(touch hacked)/`id`/${HOME}.tpr",
    "\"quoted\", with comma;.tpr",
    "%s%n {} {0} $1.tpr",
    "wässer/水.tpr",
    "-x.tpr",
    "..a/b...tpr",
];

/// What leads elsewhere, or is no path.
const BAD_PATHS: [&str; 9] = [
    "../a.tpr",
    "a/../../b.tpr",
    "a/./b.tpr",
    "/etc/passwd.tpr",
    "a//b.tpr",
    "line\nbreak.tpr",
    "esc\u{1b}[2J.tpr",
    "tab\t.tpr",
    "no ending",
];

/// Values for every other text that a person may give.
fn bad_texts() -> Vec<String> {
    vec![
        "'; drop table gromacs_to_tune; --".to_owned(),
        "a b".to_owned(),
        "../..".to_owned(),
        "x\ny".to_owned(),
        "\u{1b}]0;owned\u{7}".to_owned(),
        "x".repeat(10_000),
    ]
}

/// No byte that a terminal obeys, apart from line breaks.
fn is_quiet(bytes: &[u8]) -> bool {
    text(bytes).chars().all(|character| character == '\n' || !character.is_control())
}

fn quote(cell: &str) -> String {
    format!("\"{}\"", cell.replace('"', "\"\""))
}

#[tokio::test]
async fn odd_paths_are_stored_as_they_are() {
    let program = Program::migrated().await;
    program.good(&[&["add", "--"], &GOOD_PATHS[..]].concat());
    let table: String = GOOD_PATHS.iter().map(|path| format!("{}\n", quote(path))).collect();
    let output =
        program.with_stdin(&["add", "--allow-duplicate", "--from", "-"], format!("tpr_path\n{table}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stored: Vec<String> = program
        .json(&["list"])
        .as_array()
        .expect("should be a list")
        .iter()
        .map(|row| row["tpr_path"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(stored, [GOOD_PATHS, GOOD_PATHS].concat());
    assert!(!std::path::Path::new("hacked").exists());
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_refused() {
    let program = Program::migrated().await;
    let long = format!("{}.tpr", "x".repeat(10_000));
    let bad: Vec<&str> = BAD_PATHS.iter().copied().chain([long.as_str()]).collect();
    for path in &bad {
        let output = program.run(&["add", "--", path]);
        assert_eq!(output.status.code(), Some(1), "{path:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("tpr_path must be the path of a .tpr file"), "{path:?}");
        assert!(is_quiet(&output.stderr), "{path:?}");
        assert!(output.stderr.len() < 2000, "a message stays readable");
    }
    let table: String = bad.iter().map(|path| format!("{}\n", quote(path))).collect();
    let output = program.with_stdin(&["add", "--from", "-"], format!("tpr_path\n{table}"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr).matches("tpr_path must be").count(), bad.len());
    assert!(is_quiet(&output.stderr));
    assert_eq!(program.rows(), 0);
}

#[tokio::test]
async fn every_other_text_is_refused_or_only_text() {
    let program = Program::migrated().await;
    for value in bad_texts() {
        for option in ["--namespace", "--persistent-volume-claim", "--image"] {
            // The image may hold everything but blanks and control characters.
            let good = option == "--image" && value == "../..";
            let output = program.run(&["add", "a.tpr", option, &value, "--dry-run"]);
            let expected = if good { Some(0) } else { Some(1) };
            assert_eq!(output.status.code(), expected, "{option} {value:?}: {}", text(&output.stderr));
            assert!(is_quiet(&output.stderr) && is_quiet(&output.stdout), "{option} {value:?}");
        }
        for column in [
            "namespace",
            "persistent_volume_claim",
            "image",
            "gromacs_version",
            "priority",
            "atoms",
            "box_nm",
            "gpu_pme",
        ] {
            let table = format!("tpr_path,{column}\na.tpr,{}\n", quote(&value));
            let output = program.with_stdin(&["add", "--from", "-", "--dry-run"], table);
            // What GROMACS calls its version is anybody's guess; up to a hundred characters are text.
            let free =
                column == "gromacs_version" && value.len() < 100 || column == "image" && value == "../..";
            assert_eq!(
                output.status.code(),
                Some(i32::from(!free)),
                "{column} {value:?}: {}",
                text(&output.stderr)
            );
            assert!(is_quiet(&output.stderr) && is_quiet(&output.stdout), "{column} {value:?}");
        }
        for filter in ["--owner", "--namespace"] {
            assert_eq!(program.json(&["list", filter, &value]), serde_json::json!([]), "{filter} {value:?}");
            assert_eq!(program.good(&["cancel", filter, &value, "--yes"]), "no row to cancel\n");
            assert!(
                program.good(&["report", filter, &value]).starts_with("nothing ran"),
                "{filter} {value:?}"
            );
        }
        let header =
            program.with_stdin(&["add", "--from", "-"], format!("tpr_path,{}\na.tpr,1\n", quote(&value)));
        assert_eq!(header.status.code(), Some(2), "{value:?}");
        assert!(is_quiet(&header.stderr), "{value:?}");
        assert_eq!(program.run(&["list", "--state", &value]).status.code(), Some(2), "{value:?}");
    }
    assert_eq!(program.rows(), 0, "the table is still there, and empty");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused() {
    let program = Program::migrated().await;
    let bad = OsString::from_vec(b"\xff\xfe.tpr".to_vec());
    let output = program.run(&[OsString::from("add"), bad.clone()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("UTF-8"), "{}", text(&output.stderr));
    let output = program
        .command(&["add", "a.tpr"])
        .env("SCAVENGER_SUBMITTER_NAMESPACE", bad)
        .output()
        .expect("the submitter should start");
    assert_eq!(output.status.code(), Some(2), "in the environment, too");
    for table in [&b"tpr_path\n\xff.tpr\n"[..], b"tpr_path\na\0b.tpr\n", b"tpr_path\n\"a\0.tpr\"\n"] {
        let output = program.with_stdin(&["add", "--from", "-"], table);
        assert_eq!(output.status.code(), Some(1), "{table:?}");
        assert!(text(&output.stderr).contains("line 2: column tpr_path"), "{}", text(&output.stderr));
    }
    let folder = tempfile::tempdir().expect("should make a folder");
    std::fs::write(folder.path().join(OsString::from_vec(b"\xff.tpr".to_vec())), "x").expect("should write");
    let root = folder.path().to_str().expect("should be text");
    let output = program.run(&["add", "--root", root, "*.tpr"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("UTF-8"), "{}", text(&output.stderr));
    assert_eq!(program.rows(), 0);
}

/// What GROMACS, an operator or another program wrote into the database is shown, never obeyed.
#[tokio::test]
async fn stored_text_never_commands_the_terminal() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr"]);
    program
        .sql(
            "update gromacs_to_tune set state = 'failed', dt_ps = 0.002, image = 'x',
                reason = E'bad \\x1b[2J\\x1b]0;owned\\x07 \\u009b31m \\u202e news\\r\\nnext\\x7f',
                gromacs_version = E'\\x1b[1m2022'",
        )
        .await;
    program
        .sql(
            "insert into gromacs_attempt (row_id, submission, attempt, creation_time, start_time, end_time, outcome,
                reason, message, ns_per_day)
            values (1, 1, 1, now(), now() - interval '1 hour', now(), 'failed', E'Odd\\x1b[2J', E'\\x1b[31mred\\n', 1)",
        )
        .await;
    program
        .sql("insert into gromacs_event (row_id, state, submission, message) values (1, E'\\x1b[3m', 1, E'\\x1b[4m')")
        .await;
    let folder = tempfile::tempdir().expect("should make a folder");
    let svg = folder.path().join("x.svg");
    let svg = svg.to_str().expect("should be text");
    for arguments in [
        &["list"][..],
        &["list", "--output", "json"],
        &["show", "1"],
        &["show", "1", "--output", "json"],
        &["watch", "1", "--until-finished"],
        &["watch", "1", "--until-finished", "--output", "json"],
        &["report", "--csv", "-"],
        &["report", "--plot", svg],
    ] {
        let output = program.run(arguments);
        assert!(
            is_quiet(&output.stdout) && is_quiet(&output.stderr),
            "{arguments:?}: {:?}",
            text(&output.stdout)
        );
        assert!(!text(&output.stdout).contains('\u{202e}'), "{arguments:?}");
    }
    assert!(is_quiet(&std::fs::read(svg).expect("should be drawn")));
    let listed: Value = program.json(&["list"]);
    assert!(
        listed[0]["reason"].as_str().is_some_and(|reason| reason.contains("\u{1b}[2J")),
        "JSON loses nothing"
    );
}
