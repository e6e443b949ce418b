//! Rows that run a command, on a real Postgres: what is stored, what is refused in which words, and who waits for whom.

#![allow(clippy::too_many_lines, reason = "a story is told in one piece")]

mod postgres;
mod program;
mod rows;

use gromacs_submitter::store::{Claim, NewRow, Store, StoreError};
use postgres::{as_role, empty_database, migrated_database, migrated_store, store};
use program::{Program, text};
use rows::any;
use scavenger_schema::simulation::{Command, Kind, MIGRATIONS};
use serde_json::{Value, json};
use sqlx::migrate::Migrator;
use sqlx::{Connection as _, Executor as _};

/// Options of a command that lacks nothing.
const OPTIONS: [&str; 8] =
    ["--image", "registry.example/python:3", "--folder", "water", "--cores", "0.5", "--memory", "512Mi"];

/// `add` of a command with these options and words.
fn add<'a>(options: &[&'a str], words: &[&'a str]) -> Vec<&'a str> {
    [&["add"], options, &["--command", "--"], words].concat()
}

fn new_row(words: &[&str]) -> NewRow {
    NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        command: Some(words.iter().map(ToString::to_string).collect()),
        image: Some("python:3".to_owned()),
        cpu_millicores: Some(1000),
        memory_bytes: Some(1 << 30),
        ..NewRow::default()
    }
}

async fn claimed(submitter: &Store) -> Vec<Claim> {
    let rows = submitter.claim(&any(100)).await.expect("should claim");
    submitter.release_all().await.expect("should give back");
    rows
}

#[tokio::test]
async fn a_command_is_added_listed_shown_and_claimed() {
    let (submitter, url) = migrated_store("submitter-1").await;
    let program = Program::new(url);
    let words = ["python3", "../analyse.py", "--label", "two words"];
    let would = program.good(&add(&[&OPTIONS[..], &["--dry-run"]].concat(), &words));
    assert_eq!(would, "would add python3 ../analyse.py --label 'two words'\n");
    assert_eq!(program.rows(), 0);
    let added = program.good(&add(&OPTIONS, &words));
    assert_eq!(added, "row 2: python3 ../analyse.py --label 'two words'\n");

    let listed = program.good(&["list"]);
    let line = listed.lines().nth(1).unwrap_or_default();
    assert!(
        line.contains("command  queued") && line.contains("water/gromacs-2  0.5 cores, 512 MiB"),
        "{listed}"
    );
    let row = &program.json(&["list"])[0];
    assert_eq!((&row["kind"], &row["command"]), (&json!("command"), &json!(words)));
    assert_eq!(row["configuration_number"], Value::Null);
    let shown = program.good(&["show", "2"]);
    for fact in [
        "gromacs-2-1: water/gromacs-2 on volume data",
        "command     python3 ../analyse.py --label 'two words'",
        "runs with   0.5 cores, 512 MiB",
        "results     water/gromacs-2 on the volume",
    ] {
        assert!(shown.contains(fact), "{fact:?} is missing in\n{shown}");
    }
    assert!(!shown.contains("checkpoint"), "{shown}");

    let claims = claimed(&submitter).await;
    let row = &claims[0].row;
    let expected = words.map(ToOwned::to_owned);
    assert_eq!((row.kind, row.tpr_path.as_str()), (Kind::Command, "water/gromacs-2"));
    let command = Command { words: &expected, cpu_millicores: 500, memory_bytes: 512 << 20 };
    assert_eq!(row.command(), Some(command));
    assert_eq!((row.min_cpu_millicores, row.min_ns_per_day), (None, None));

    // The root of the volume has no name.
    program.good(&add(&["--image", "a", "--cores", "2", "--memory", "1Gi"], &["true"]));
    assert_eq!(program.json(&["list"])[1]["tpr_path"], "gromacs-3");
}

#[tokio::test]
async fn words_are_stored_as_they_are() {
    let program = Program::migrated().await;
    let words =
        ["a b", "", "--", "-x", "line\nfeed", "wäter ☃", "$(HOME) ${x} `id`", "\"'\\", "{after}", "*", "x=1"];
    program.good(&add(&OPTIONS, &words));
    assert_eq!(program.json(&["list"])[0]["command"], json!(words));
    // The same command a second time is another row.
    let added = program.good(&add(&[&OPTIONS[..], &["--output", "json"]].concat(), &words));
    let added: Value = serde_json::from_str(&added).expect("should be JSON");
    assert_eq!((&added[0]["result"], &added[0]["command"]), (&json!("added"), &json!(words)));
}

#[tokio::test]
async fn what_is_no_command_is_refused_in_a_sentence() {
    let program = Program::migrated().await;
    let long = "x".repeat(17_000);
    let many = vec!["x"; 257];
    let word_rule = "command must be a list of 1 to 256 words";
    let without = |option: &str| -> Vec<&str> {
        let pairs = OPTIONS.chunks(2).filter(|pair| pair[0] != option);
        pairs.flatten().copied().collect()
    };
    let with = |more: &[&'static str]| -> Vec<&str> { [&OPTIONS[..], more].concat() };
    for (options, words, sentence) in [
        (with(&[]), vec![""], word_rule),
        (with(&[]), vec![long.as_str()], word_rule),
        (with(&[]), many, word_rule),
        (without("--image"), vec!["true"], "a command needs an image, and its tenant has none"),
        (without("--cores"), vec!["true"], "a command needs cpu_millicores and memory_bytes"),
        (without("--memory"), vec!["true"], "a command needs cpu_millicores and memory_bytes"),
        (with(&["--mdrun-options", "-dlb yes"]), vec!["true"], "a command is no simulation"),
        (with(&["--checkpoint", "a.cpt"]), vec!["true"], "a command is no simulation"),
        (with(&["--deadline", "3d"]), vec!["true"], "a command is no simulation"),
        (with(&["--min-cpu-millicores", "1"]), vec!["true"], "a command is no simulation"),
        (with(&["--max-configurations", "1"]), vec!["true"], "a command is no simulation"),
        (with(&["--max-cpu-millicores", "499"]), vec!["true"], "at most max_cpu_millicores of the row"),
        (
            with(&["--max-memory-bytes", "16777216"]),
            vec!["true"],
            "memory_bytes must be at least 16 MiB, and at most",
        ),
    ] {
        let output = program.run(&add(&options, &words));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options:?} {said}");
        assert!(said.contains(sentence), "{options:?}: {said}");
        assert!(said.len() < 2000, "a message stays readable: {said}");
    }
    for folder in
        ["", "/", "/water", "water/", "..", "../water", "a/../b", "a//b", ".", "./a", "a/.", "a\nb", &long]
    {
        let output =
            program.run(&add(&[&without("--folder")[..], &["--folder", folder]].concat(), &["true"]));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{folder:?}: {said}");
        assert!(
            said.contains("folder must be a folder relative to the root of the volume"),
            "{folder:?}: {said}"
        );
    }
    for folder in ["wäter ☃", "a b/-c", "..a", "a.b", ".hidden"] {
        program
            .good(&add(&[&without("--folder")[..], &["--dry-run", "--folder", folder]].concat(), &["true"]));
    }
    // What cannot be meant is refused before the database is asked.
    for (arguments, sentence) in [
        (vec!["add", "--command"], "PATH"),
        (vec!["add", "--command", "--"], "PATH"),
        (vec!["add", "--command", "--put", "--", "true"], "cannot be used with"),
        (vec!["add", "--command", "--multidir", "a", "b", "--", "true"], "cannot be used with"),
        (vec!["add", "--command", "--from", "rows.csv"], "cannot be used with"),
        (add(&["--cores", "many"], &["true"]), "is not a Kubernetes quantity"),
        (add(&["--memory", "4 GB"], &["true"]), "is not a Kubernetes quantity"),
        (add(&["--memory=-1Gi"], &["true"]), "is negative"),
    ] {
        let output = program.run(&arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?}: {said}");
    }
    // A simulation has nothing of a command.
    for option in [&["--folder", "water"][..], &["--cores", "1"], &["--memory", "1Gi"]] {
        let output = program.run(&[&["add", "a.tpr"], option].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("only a command has folder"), "{}", text(&output.stderr));
    }
    assert_eq!(program.rows(), 0);
}

#[tokio::test]
async fn sql_is_refused_in_the_same_words() {
    let (_, url) = migrated_store("submitter-1").await;
    let alice = store(&url, "alice");
    let resources = "image, cpu_millicores, memory_bytes";
    let values = "'a', 1000, 1073741824";
    for (columns, of_columns, sentence) in [
        ("command", "'{}'", "command must be a list of 1 to 256 words"),
        ("command", "'{{a,b},{c,d}}'", "command must be a list of 1 to 256 words"),
        ("command", "'{a,null}'", "command must be a list of 1 to 256 words"),
        ("command, tpr_path", "'{a}', 'a.tpr'", "a command has no .tpr file; leave tpr_path out"),
        ("command, multidir", "'{a}', '{a,b}'", "a command is no simulation"),
        ("command, benchmark_ranks", "'{a}', 1", "only a calibration has benchmark_ columns"),
        ("kind, tpr_path", "'command', 'a.tpr'", "a row is of kind command if it has a command"),
    ] {
        let statement = format!(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, {resources}, {columns})
            values ('lab', 'data', {values}, {of_columns})"
        );
        let error = alice.pool().execute(sqlx::AssertSqlSafe(statement)).await.expect_err(columns);
        let error = StoreError::from(error).to_string();
        assert!(error.contains(sentence), "{columns}: {error}");
    }
    let kind = "insert into gromacs_to_tune (namespace, persistent_volume_claim, image, cpu_millicores, memory_bytes, command, kind)
        values ('lab', 'data', 'a', 1000, 1073741824, '{a}', 'simulation') returning kind";
    let kind: String = sqlx::query_scalar(kind).fetch_one(alice.pool()).await.expect("should add");
    assert_eq!(kind, "command", "the command says it");
}

#[tokio::test]
async fn the_tenants_image_and_limits_are_the_commands() {
    let (_, url) = migrated_store("submitter-1").await;
    let superuser = store(&as_role(&url, "tester"), "admin");
    superuser
        .pool()
        .execute(
            "insert into gromacs_tenant (database_role, namespace, image, image_patterns, max_cpu_millicores,
                max_memory_bytes, min_cpu_millicores, min_ns_per_day)
            values ('alice', 'lab', 'lab/gromacs:1', '{lab/*}', 2000, 1073741824, 1000, 5)",
        )
        .await
        .expect("should add a tenant");
    let alice = store(&as_role(&url, "alice"), "alice");
    let good = NewRow { image: None, cpu_millicores: Some(2000), ..new_row(&["true"]) };
    let row = alice.add(&good).await.expect("should add");
    let image: String = sqlx::query_scalar("select image from gromacs_to_tune where id = $1")
        .bind(row)
        .fetch_one(alice.pool())
        .await
        .expect("should read");
    assert_eq!(image, "lab/gromacs:1");
    for (bad, sentence) in [
        (
            NewRow { cpu_millicores: Some(2001), ..good.clone() },
            "at most max_cpu_millicores of the row or its tenant",
        ),
        (
            NewRow { memory_bytes: Some((1 << 30) + 1), ..good.clone() },
            "at most max_memory_bytes of the row or its tenant",
        ),
        (NewRow { image: Some("python:3".to_owned()), ..good.clone() }, "image \"python:3\" is not allowed"),
    ] {
        let error = alice.add(&bad).await.expect_err(sentence).to_string();
        assert!(error.contains(sentence), "{error}");
    }
}

#[tokio::test]
async fn others_come_before_it_and_behind_it() {
    let (submitter, url) = migrated_store("submitter-1").await;
    let program = Program::new(url);
    program.good(&["add", "md.tpr"]);
    program.good(&add(&[&OPTIONS[..], &["--after", "1"]].concat(), &["true"]));
    program.good(&["add", "next.tpr", "--after", "2"]);
    program.good(&add(&[&OPTIONS[..], &["--after-any", "2"]].concat(), &["true"]));
    let due = || async { claimed(&submitter).await.iter().map(|claim| claim.row.id).collect::<Vec<_>>() };
    assert_eq!(due().await, [1]);
    assert_eq!(program.json(&["show", "2"])["row"]["reason"], "waits for row 1 (queued)");
    program.sql("update gromacs_to_tune set state = 'completed' where id = 1").await;
    assert_eq!(due().await, [2]);
    program.good(&["cancel", "2"]);
    program.sql("update gromacs_to_tune set state = 'cancelled' where id = 2").await;
    assert_eq!(due().await, [4]);
    assert!(program.good(&["show", "2"]).contains("to start over: gromacs-submitter retry 2"));
    program.good(&["retry", "2"]);
    program.sql("update gromacs_to_tune set state = 'completed' where id = 2").await;
    assert_eq!(due().await, [2, 3, 4]);
}

#[tokio::test]
async fn what_it_asks_for_can_be_changed_and_what_it_is_cannot() {
    let program = Program::migrated().await;
    program.good(&add(&OPTIONS, &["true"]));
    program.good(&["add", "md.tpr"]);
    program.good(&["edit", "1", "--cores", "2", "--memory", "2Gi", "--image", "python:4"]);
    assert_eq!(program.json(&["list"])[0]["configuration"], "2 cores, 2048 MiB");
    program.sql("update gromacs_to_tune set command = '{false,x}' where id = 1").await;
    assert_eq!(program.json(&["list"])[0]["command"], json!(["false", "x"]));
    for (arguments, sentence) in [
        (&["edit", "1", "--unset", "cores"][..], "a command needs cpu_millicores and memory_bytes"),
        (&["edit", "1", "--unset", "image"], "a command needs an image"),
        (&["edit", "1", "--mdrun-options=-dlb yes"], "a command is no simulation"),
        (&["edit", "2", "--cores", "1"], "only a command has folder, cpu_millicores and memory_bytes"),
    ] {
        let output = program.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?}: {said}");
    }
    program.sql("update gromacs_to_tune set state = 'completed' where id = 1").await;
    let output = program.run(&["extend", "1", "--ns", "1"]);
    assert!(
        text(&output.stderr).contains("a command has no length and cannot be extended"),
        "{}",
        text(&output.stderr)
    );
    let mut alice =
        sqlx::PgConnection::connect(program.url().expect("should have one")).await.expect("should connect");
    for (statement, sentence) in [
        (
            "update gromacs_to_tune set command = '{true}' where id = 2",
            "a row is of kind command if it has a command",
        ),
        (
            "update gromacs_to_tune set command = null where id = 1",
            "a row is of kind command if it has a command",
        ),
    ] {
        let error = StoreError::from(alice.execute(statement).await.expect_err(statement)).to_string();
        assert!(error.contains(sentence), "{statement}: {error}");
    }
}

#[tokio::test]
async fn a_table_of_commands_and_simulations_is_added() {
    let program = Program::migrated().await;
    let table = "tpr_path,command,folder,image,cpu_millicores,memory_bytes\n\
        ,python3 'two words.py' \"\" --x,water,python:3,1000,1073741824\n\
        md.tpr,,,,,\n\
        ,true,,python:3,500,16777216\n";
    let added = program.with_stdin(&["add", "--from", "-", "--output", "json"], table);
    assert!(added.status.success(), "{}", text(&added.stderr));
    let added: Value = serde_json::from_slice(&added.stdout).expect("should be JSON");
    assert_eq!(added[0]["tpr_path"], Value::Null);
    assert_eq!(added[0]["command"], json!(["python3", "two words.py", "", "--x"]));
    assert_eq!((&added[1]["tpr_path"], &added[1]["command"]), (&json!("md.tpr"), &Value::Null));
    let kinds: Vec<_> =
        program.json(&["list"]).as_array().into_iter().flatten().map(|row| row["kind"].clone()).collect();
    assert_eq!(kinds, ["command", "simulation", "command"]);
    for (table, sentence) in [
        ("command\n\"a 'b\"\n", "line 2: column command: it ends inside quotes, or with a backslash"),
        ("command,image\n,x\n", "line 2: column tpr_path: it is empty"),
        ("command,tpr_path\na,a.tpr\n", "a command has no .tpr file"),
        ("command\ntrue\n", "a command needs an image"),
    ] {
        let output = program.with_stdin(&["add", "--from", "-"], table);
        assert_eq!(output.status.code(), Some(1), "{table:?}");
        assert!(text(&output.stderr).contains(sentence), "{table:?}: {}", text(&output.stderr));
    }
}

#[tokio::test]
async fn a_sweep_fills_the_words_of_a_command() {
    let program = Program::migrated().await;
    program.good(&add(&[&OPTIONS[..], &["--sweep", "l=0..1"]].concat(), &["sum", "{l}.xvg", "{m}"]));
    let commands: Vec<_> =
        program.json(&["list"]).as_array().into_iter().flatten().map(|row| row["command"].clone()).collect();
    assert_eq!(commands, [json!(["sum", "0.xvg", "{m}"]), json!(["sum", "1.xvg", "{m}"])]);
}

#[tokio::test]
async fn a_command_delays_no_estimate_of_its_project() {
    let program = Program::migrated().await;
    program.good(&["add", "md.tpr", "--project", "water"]);
    program.good(&add(&[&OPTIONS[..], &["--project", "water"]].concat(), &["true"]));
    let running = "update gromacs_to_tune set state = 'running', nsteps = 1000, dt_ps = 0.002, step = 500, ns_per_day = 8.64
        where id = 1";
    program.sql(running).await;
    // 0.001 ns are left, and 8.64 ns are a day.
    let sums = program.good(&["list", "--by-project"]);
    assert_eq!(sums, "water: 0 of 2 done, 1 running, 1 waiting, the rest in about 10 s\n");
}

/// Rows were there before commands were, and programs of the version before go on adding simulations.
#[tokio::test]
async fn rows_of_before_are_no_commands() {
    migrated_database().await;
    let url = empty_database().await;
    let admin = store(&url, "admin");
    let first = MIGRATIONS.iter().filter(|migration| migration.version < 21).cloned().collect();
    Migrator::with_migrations(first).run(admin.pool()).await.expect("should migrate to the version before");
    for statement in [
        "insert into gromacs_tenant (database_role, namespace) values ('alice', 'lab')",
        "grant gromacs_chemist to alice",
    ] {
        admin.pool().execute(statement).await.expect("should add a tenant");
    }
    let alice = store(&as_role(&url, "alice"), "alice");
    let simulation = NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: "a.tpr".to_owned(),
        ..NewRow::default()
    };
    alice.add(&simulation).await.expect("should add");
    admin.migrate().await.expect("should migrate");
    alice.add(&NewRow { tpr_path: "b.tpr".to_owned(), ..simulation }).await.expect("should add");
    alice.add(&new_row(&["true"])).await.expect("should add");
    let kinds: Vec<(String, Option<Vec<String>>)> =
        sqlx::query_as("select kind, command from gromacs_queue order by id")
            .fetch_all(alice.pool())
            .await
            .expect("should read");
    let simulation = ("simulation".to_owned(), None);
    assert_eq!(
        kinds,
        [simulation.clone(), simulation, ("command".to_owned(), Some(vec!["true".to_owned()]))]
    );
}
