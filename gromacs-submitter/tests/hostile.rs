//! Text that wants to be something else: SQL, a path out of the volume, a command of the terminal. Every argument and
//! every cell is only ever text; what the table cannot hold is refused with a sentence.

mod postgres;
mod program;

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use gromacs_submitter::config::Sweep;
use gromacs_submitter::gmx_options::words;
use gromacs_submitter::mdrun_options::MdrunOptions;
use gromacs_submitter::put::{check_folder, path_of};
use gromacs_submitter::store::{AddMode, Added, Labels, NewRow, Store};
use program::{Program, text};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use serde_json::Value;

/// Parts of paths, the worst of them, and what a sweep puts into them.
const PARTS: [&str; 22] = [
    "",
    ".",
    "..",
    "...",
    "a",
    "a b",
    "ü",
    "{x}",
    "{x}{x}",
    ".{x}",
    "{after}",
    "{",
    "-x",
    "~",
    "*",
    "\\",
    "$(id)",
    "'\"",
    ";",
    "a\nb",
    "\u{202e}",
    "gromacs-7",
];

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

/// A path of bad parts, with an ending that some column asks for.
fn path() -> impl Strategy<Value = String> {
    let ending = select(vec!["", "/", ".tpr", "x.tpr", "x.cpt", "/..x.tpr", ".tpr\n"]);
    (vec(select(PARTS.to_vec()), 0..5), ending).prop_map(|(parts, ending)| parts.join("/") + ending)
}

/// A row that names files everywhere, a simulation or a command; few of them are accepted if everything is bad.
fn row_of_paths() -> impl Strategy<Value = NewRow> {
    let word =
        || select([&PARTS[..], &["-plumed", "-table", "-dlb", "yes"]].concat()).prop_map(str::to_owned);
    let option = |of: BoxedStrategy<String>| proptest::option::weighted(0.2, of);
    let columns = (
        path(),
        option(path().boxed()),
        proptest::option::weighted(0.2, vec(path(), 2..4)),
        option(path().boxed()),
        proptest::option::weighted(0.2, vec(word(), 1..4)),
        btree_map(select(PARTS.to_vec()).prop_map(str::to_owned), word(), 0..3),
        vec(word(), 0..3),
        any::<bool>(),
    );
    columns.prop_map(
        |(tpr_path, checkpoint_path, multidir, folder, command, labels, options, is_labelled)| {
            let is_command = command.is_some();
            NewRow {
                namespace: "lab".to_owned(),
                persistent_volume_claim: "data".to_owned(),
                tpr_path: if is_command { String::new() } else { tpr_path },
                checkpoint_path: checkpoint_path.filter(|_| !is_command),
                multidir: multidir.filter(|_| !is_command),
                mdrun_options: (!is_command && MdrunOptions::read(&options).is_ok()).then_some(options),
                folder: folder.filter(|_| is_command),
                cpu_millicores: is_command.then_some(100),
                memory_bytes: is_command.then_some(1 << 24),
                image: is_command.then(|| "image".to_owned()),
                command,
                labels: is_labelled.then_some(Labels(labels)),
                ..NewRow::default()
            }
        },
    )
}

/// True if a path that is appended to a folder names something in it.
fn stays(path: &str) -> bool {
    !path.chars().any(|sign| sign.is_ascii_control())
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// The row as the database has it; of a command the path of its folder, too.
async fn stored(store: &Store, row: i64) -> (String, NewRow) {
    type Columns = (
        String,
        Option<String>,
        Vec<String>,
        Option<String>,
        Option<Vec<String>>,
        sqlx::types::Json<std::collections::BTreeMap<String, String>>,
        Vec<String>,
    );
    let asked = "select tpr_path, checkpoint_path, multidir, folder, command, labels, mdrun_options from gromacs_to_tune where id = $1";
    let found: Columns =
        sqlx::query_as(asked).bind(row).fetch_one(store.pool()).await.expect("should be there");
    let (tpr_path, checkpoint_path, multidir, folder, command, labels, mdrun_options) = found;
    let row = NewRow {
        tpr_path: if command.is_some() { String::new() } else { tpr_path.clone() },
        checkpoint_path,
        multidir: Some(multidir),
        folder,
        command,
        labels: Some(Labels(labels.0)),
        mdrun_options: Some(mdrun_options),
        ..NewRow::default()
    };
    (tpr_path, row)
}

/// Whatever a row is called, and whatever a sweep makes of it: what is accepted is stored as it is, every path of it stays on the
/// volume, and words stay words.
#[test]
fn no_path_that_is_accepted_leaves_the_volume() {
    let runtime = tokio::runtime::Runtime::new().expect("should make a runtime");
    let (store, _) = runtime.block_on(postgres::migrated_store("tests"));
    let accepted = Cell::new(0);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) };
    let property = |(templates, values): (Vec<NewRow>, Vec<String>)| {
        // A value that the sweep refuses stands for itself.
        let sweep = format!("x={}", values.join(",")).parse::<Sweep>().or_else(|_| "x=..,a/../b".parse());
        let sweeps = [sweep.expect("should be a sweep")];
        let grid = Sweep::grid(&sweeps).expect("should be small");
        let rows: Vec<NewRow> = grid
            .iter()
            .flat_map(|combination| templates.iter().map(|row| combination.fill_row(row)))
            .collect();
        let mode = AddMode { keep_going: true, allow_duplicate: true, ..AddMode::default() };
        let (fates, _) = runtime.block_on(store.add_all(&rows, mode)).expect("should answer");
        for (row, fate) in rows.iter().zip(&fates) {
            let Added::Row(id) = fate else { continue };
            let (place, found) = runtime.block_on(stored(&store, *id));
            prop_assert!(stays(&place), "{place:?}");
            let given = NewRow {
                namespace: String::new(),
                persistent_volume_claim: String::new(),
                multidir: row.multidir.clone().or(Some(Vec::new())),
                labels: row.labels.clone().or(Some(Labels::default())),
                mdrun_options: row.mdrun_options.clone().or(Some(Vec::new())),
                cpu_millicores: None,
                memory_bytes: None,
                image: None,
                ..row.clone()
            };
            prop_assert_eq!(&found, &given);
            let options = MdrunOptions::read(found.mdrun_options.as_deref().unwrap_or_default());
            let files = options.iter().flat_map(MdrunOptions::files).map(str::to_owned);
            let named = found.checkpoint_path.iter().chain(&found.folder).cloned().chain(files);
            let in_folders = found.multidir.iter().flatten().cloned();
            for path in named.chain(in_folders) {
                prop_assert!(stays(&path), "{path:?} of {row:?}");
                // Where it is brought to by `add --put`.
                if let (Ok(folder), Ok(path)) = (check_folder("to"), path_of("to", &path)) {
                    prop_assert!(path.starts_with(&format!("{folder}/")) && stays(&path), "{path:?}");
                }
            }
            accepted.set(accepted.get() + 1);
        }
        Ok(())
    };
    let strategy = (vec(row_of_paths(), 1..12), vec(select(PARTS.to_vec()).prop_map(str::to_owned), 1..4));
    TestRunner::new(config).run(&strategy, property).expect("every path should stay");
    assert!(accepted.get() > 20, "only {} rows were accepted, which shows nothing", accepted.get());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What people type is read or refused, whatever it is.
    #[test]
    fn no_text_is_more_than_a_text(given in "[ -~üé\n\t{}=,.0-9]{0,40}", template in "[ -~ü{}x]{0,40}") {
        if let Ok(sweep) = given.parse::<Sweep>() {
            for combination in Sweep::grid(std::slice::from_ref(&sweep)).expect("should be small") {
                prop_assert_eq!(combination.fill(&template).is_empty(), template.is_empty());
            }
        }
        let _ = MdrunOptions::words(&given);
        let _ = gromacs_submitter::grompp_options::words(&given);
        if let Ok(options) = gromacs_submitter::grompp_options::of_row(&words(&given), &[7]) {
            prop_assert!(options.iter().all(|word| !word.starts_with('/')), "{:?}", options);
        }
        if let Ok(folder) = check_folder(&given) {
            prop_assert!(folder.is_empty() || stays(&folder), "{:?}", folder);
        }
    }
}
