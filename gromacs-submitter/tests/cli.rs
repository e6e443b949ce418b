//! The program as a user meets it: help pages, what each verb prints and how it ends, on a real Postgres.

#![allow(clippy::too_many_lines, reason = "a story is told in one piece")]

mod postgres;
mod program;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::CommandFactory as _;
use gromacs_submitter::config::Cli;
use program::{Program, SUBMITTER, text};
use serde_json::Value;
use sqlx::{Connection as _, Executor as _, PgConnection};

/// Help as it is printed, at a width that no terminal changes.
fn pages(render: fn(&mut clap::Command) -> clap::builder::StyledStr) -> String {
    let mut command = Cli::command().term_width(100).version("0.0.0");
    command.build();
    let mut pages = render(&mut command).to_string();
    for verb in command.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
        pages.push_str("\n----------\n");
        pages.push_str(&render(verb).to_string());
        for verb in verb.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
            pages.push_str("\n----------\n");
            pages.push_str(&render(verb).to_string());
        }
    }
    pages
}

#[test]
fn help_pages() {
    insta::assert_snapshot!("help", pages(clap::Command::render_long_help));
    let short = pages(clap::Command::render_help);
    insta::assert_snapshot!("help_short", short);
    for heading in ["Connection:", "Scheduling:", "Safety:", "Logging:"] {
        assert!(short.contains(heading), "{heading}");
    }
}

#[test]
fn completions_know_the_verbs() {
    let script = Program::without_database().good(&["completions", "bash"]);
    for verb in ["add", "list", "cancel", "retry", "fetch", "tenant"] {
        assert!(script.contains(&format!("gromacs__submitter,{verb})")), "{verb} is missing");
    }
}

/// A variable that was exported once and forgotten must not change what a verb does: `DRY_RUN=1` would disarm `cancel`.
/// The daemon is set up by variables; what people type has them for where to connect and as whom.
#[test]
fn variables_set_up_the_daemon_and_the_connection_alone() {
    const OF_PEOPLE: [&str; 6] = [
        "DATABASE_URL",
        "SCAVENGER_SUBMITTER_CONNECT_TIMEOUT",
        "SCAVENGER_SUBMITTER_LOG",
        "SCAVENGER_SUBMITTER_LOG_FORMAT",
        "SCAVENGER_SUBMITTER_NAMESPACE",
        "SCAVENGER_SUBMITTER_PVC",
    ];
    fn check(command: &clap::Command) {
        for argument in command.get_arguments() {
            let env = argument.get_env().and_then(|name| name.to_str());
            let id = argument.get_id().as_str();
            let is_of_daemon = command.get_name() == "run"
                && !matches!(id, "help" | "version" | "once" | "dry_run" | "output");
            match env {
                None => assert!(!is_of_daemon, "--{id} of run has no variable"),
                Some(name) if is_of_daemon => {
                    assert!(name == "DATABASE_URL" || name.starts_with("SCAVENGER_SUBMITTER_"), "{name}");
                }
                Some(name) => assert!(OF_PEOPLE.contains(&name), "{name} changes {}", command.get_name()),
            }
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}

/// Whatever is wrong with how it was called: stderr, exit code 2, nothing on stdout.
#[test]
fn usage_errors() {
    let none = "postgres://nobody@127.0.0.1:1/none";
    let cases: [(&[&str], &str); 30] = [
        (&[], "help"),
        (&["lists"], "unrecognized subcommand"),
        (&["list", "--colour"], "unexpected argument '--colour'"),
        (&["list", "--state", "done"], "the states are queued"),
        (&["list", "--output", "xml"], "possible values: table, json"),
        (&["list", "--limit", "0"], "--limit"),
        (&["list"], "no database is named; set DATABASE_URL"),
        (&["list", "--database-url", "mysql://x"], "DATABASE_URL is not a Postgres URL"),
        (&["run", "--gromacs-image", "x", "--fallback-after", "10"], "write for example 90s, 10m or 1h30m"),
        (&["show"], "<ROW>"),
        (&["show", "one"], "invalid value 'one'"),
        (&["logs", "1", "--attempt", "first"], "write an attempt as `show` does, such as 1.2, or 2"),
        (&["logs", "1", "--mdrun", "--follow"], "cannot be used with"),
        (&["fetch", "1"], "--to <DIR>"),
        (&["fetch", "1", "a[", "--to", "x"], "write for example '*.xtc'"),
        (&["fetch", "*.xtc", "--to", "x"], "no row is named"),
        (&["fetch", "1", "2", "1", "--to", "x"], "row 1 is named twice; name it once"),
        (
            &["fetch", "1", "--project", "water", "--to", "x"],
            "row 1 is named, and a filter chooses rows, too",
        ),
        (&["put"], "<PATH>"),
        (
            &["put", "a", "--namespace", "lab", "--pvc", "data", "--to", "../b"],
            "must be a folder relative to the root",
        ),
        (&["put", "none", "--namespace", "lab", "--pvc", "data"], "there is no none in"),
        (&["add", "a.tpr", "--to", "b"], "--put"),
        (&["add", "a.tpr", "--put", "--grompp", "-f a.mdp -c a.gro -p a.top"], "cannot be used with"),
        (&["cancel"], "required"),
        (&["cancel", "1", "--state", "queued"], "cannot be used with"),
        (&["add", "--namespace", "lab", "--pvc", "data"], "required"),
        (&["add", "a.tpr"], "--namespace is missing"),
        (&["add", "a.tpr", "--namespace", "lab"], "--persistent-volume-claim is missing"),
        (&["report", "--since", "yesterday"], "write for example 12h, 7d"),
        (&["list", "--database-url", none, "--connect-timeout", "1s"], "the database failed"),
    ];
    for (arguments, words) in cases {
        let output = Program::without_database().run(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[tokio::test]
async fn an_empty_database_says_what_to_do_and_migrates() {
    let program = Program::new(postgres::empty_database().await);
    let output = program.run(&["list"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("gromacs-submitter migrate"), "{}", text(&output.stderr));

    let planned = program.good(&["migrate", "--dry-run"]);
    assert!(planned.contains("would apply migration 18: queue"), "{planned}");
    assert_eq!(program.run(&["list"]).status.code(), Some(2), "a dry run changes nothing");

    let applied = program.good(&["migrate"]);
    assert!(
        applied.contains("applied migration 18: queue") && applied.contains("the schema has version"),
        "{applied}"
    );
    assert_eq!(program.good(&["migrate", "--dry-run"]), "the schema is current\n");
    let again: Value = program.json(&["migrate"]);
    assert_eq!(again["migrations"], serde_json::json!([]));
    assert!(program.good(&["list"]).starts_with("ROW"));
}

#[tokio::test]
async fn a_database_that_is_not_made_yet_is_waited_for() {
    let url = postgres::empty_database().await;
    let late = Program::new(postgres::as_role(&url, "late"));
    let short = late.run(&["migrate", "--wait", "1s"]);
    assert_eq!(short.status.code(), Some(2), "{}", text(&short.stderr));
    let mut waiting = late.command(&["migrate", "--wait", "1m"]);
    let mut waiting = waiting.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("should start");
    let mut said = String::new();
    let mut stderr = BufReader::new(waiting.stderr.take().expect("should have stderr"));
    stderr.read_line(&mut said).expect("should read");
    assert!(said.contains("late") && said.contains("trying again for up to 60 s"), "{said}");
    let mut admin = PgConnection::connect(&url).await.expect("should connect");
    admin.execute("create role late login superuser").await.expect("should make the role");
    let output = waiting.wait_with_output().expect("should end");
    assert!(output.status.success() && text(&output.stdout).contains("the schema has version"), "{output:?}");
}

#[tokio::test]
async fn what_a_library_logs_stays_away_from_people() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr"]);
    let slow = "create or replace function gromacs_turn(of_owner text, of_namespace text) returns text
        language sql stable as $$ select pg_sleep(1.1)::text $$";
    let mut admin =
        PgConnection::connect(&postgres::as_role(program.url().expect("should have one"), "tester"))
            .await
            .expect("should connect");
    admin.execute(slow).await.expect("should slow it down");
    let listed = program.run(&["list"]);
    assert!(listed.status.success() && text(&listed.stdout).contains("a.tpr"), "{listed:?}");
    assert_eq!(text(&listed.stderr), "");
    // Those who look for it find it.
    let asked = program.run(&["--log", "info,sqlx=warn", "list"]);
    assert!(text(&asked.stderr).contains("slow statement"), "{asked:?}");
}

/// On a busy server a migration takes more than a second, and all of its text would fill the log.
#[tokio::test]
async fn a_migration_that_takes_long_is_not_printed() {
    let url = postgres::empty_database().await;
    let mut admin = PgConnection::connect(&url).await.expect("should connect");
    let slow = "create function slow() returns event_trigger language plpgsql as $$ begin
            if tg_tag = 'COMMENT' and pg_backend_pid()::text <> coalesce(current_setting('slow.once', true), '') then
                perform set_config('slow.once', pg_backend_pid()::text, false), pg_sleep(1.1);
            end if; end $$;
        create event trigger slow on ddl_command_start execute function slow()";
    admin.execute(slow).await.expect("should slow it down");
    let output = Program::new(url).run(&["migrate"]);
    assert!(output.status.success(), "{output:?}");
    let printed = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(printed.contains("the schema has version") && printed.len() < 1000, "{printed}");
}

#[tokio::test]
async fn a_sweep_is_a_row_for_each_combination() {
    let program = Program::migrated().await;
    let sweep = [
        "fep/{lambda}/{T}.tpr",
        "--label",
        "lambda={lambda}",
        "--sweep",
        "lambda=00..19",
        "--sweep",
        "T=300,310",
    ];
    let add = |more: &[&str]| program.run(&[&["add"], sweep.as_slice(), more].concat());
    let would = text(&add(&["--dry-run"]).stdout);
    assert!(would.starts_with("would add fep/00/300.tpr (lambda=00, T=300)\n"), "{would}");
    assert!(would.ends_with("would add fep/19/310.tpr (lambda=19, T=310)\nwould add 40 rows\n"), "{would}");
    assert_eq!(program.rows(), 0);
    assert!(add(&[]).status.success());
    assert_eq!(program.rows(), 40);
    let seventh = program.good(&["list", "--label", "lambda=07", "--output", "json"]);
    assert!(seventh.contains("fep/07/300.tpr") && seventh.contains("fep/07/310.tpr"), "{seventh}");

    let refused = program.run(&["add", "{x}/a.tpr", "--sweep", "x=ok,..", "--project", "{x}"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("error: ../a.tpr (x=..): tpr_path must be the path of a .tpr file"), "{said}");
    assert_eq!(program.rows(), 40, "all of them or none");
    let grompp = "-f {x}.mdp -c a.gro -p topol.top";
    for (arguments, words) in [
        (vec!["add", "a.tpr", "--sweep", "x=1,2"], "{x} stands in no path, label or option"),
        (vec!["add", "{x}.tpr", "--sweep", "x=1,1"], "x has the value 1 twice; leave one out"),
        (vec!["add", "{x}.tpr", "--sweep", "x=1", "--sweep", "x=2"], "x is swept twice"),
        (vec!["add", "{x}.tpr", "--sweep", "x=0..99999"], "the sweep makes 100000 rows; make at most 10000"),
        (vec!["add", "{x}.tpr", "--grompp", grompp, "--sweep", "x=a,/etc/b"], "with x=/etc/b: "),
    ] {
        let output = program.run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    assert_eq!(program.rows(), 40);
}

#[tokio::test]
async fn files_are_added_all_or_none() {
    let program = Program::migrated().await;
    let would = program.good(&["add", "--dry-run", "a.tpr", "b c.tpr"]);
    assert_eq!(would, "would add a.tpr\nwould add b c.tpr\nwould add 2 rows\n");
    assert_eq!(program.rows(), 0, "a dry run adds nothing");

    let output = program.run(&["add", "a.tpr", "../b.tpr", "c.tpr"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("error: ../b.tpr: tpr_path must be the path of a .tpr file"), "{stderr}");
    assert!(
        stderr.contains("nothing was added: 1 row was refused; --keep-going adds the others"),
        "{stderr}"
    );
    assert!(output.stdout.is_empty());
    assert_eq!(program.rows(), 0);

    let output = program.run(&["add", "--keep-going", "a.tpr", "../b.tpr", "c.tpr"]);
    assert_eq!(output.status.code(), Some(1), "what was refused is still a failure");
    assert!(text(&output.stdout).ends_with("added 2 rows, 1 refused\n"), "{}", text(&output.stdout));
    assert_eq!(program.rows(), 2);

    let refused = program.run(&["add", "d.tpr", "--dry-run", "--run-as-user", "0"]);
    assert_eq!(refused.status.code(), Some(1), "a dry run says what would be refused");
    assert!(text(&refused.stderr).contains("nothing runs as root"), "{}", text(&refused.stderr));
}

#[tokio::test]
async fn what_a_row_wrote_needs_a_row_that_ran_and_a_cluster() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "--hold"]);
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let output = program.run(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
    };
    let waits = "error: row 1 has not run: it is queued: is held; release it to begin\n";
    fails(&["logs", "1"], 1, waits);
    fails(&["logs", "1", "--mdrun"], 1, waits);
    for arguments in [&["logs", "9"][..], &["files", "9"], &["fetch", "9", "--to", "x"]] {
        fails(arguments, 1, "there is no row 9");
    }
    for (arguments, words) in [
        (&["fetch", "1", "9", "--to", "x"][..], "there is no row 9, and nothing was copied"),
        (&["fetch", "8", "1", "9", "*.xtc", "--to", "x"], "there are no rows 8, 9, and nothing was copied"),
        (&["fetch", "--project", "water", "--to", "x"], "the filters choose no row"),
    ] {
        fails(arguments, 1, words);
    }
    // Only from here on a cluster is needed.
    fails(&["fetch", "--state", "queued", "--to", "x"], 2, "no Kubernetes cluster is configured");
    fails(&["files", "1"], 2, "no Kubernetes cluster is configured");
    program.sql("update gromacs_to_tune set state = 'running', reason = 'attempt 1 runs on 1 core'").await;
    fails(&["logs", "1"], 2, "no Kubernetes cluster is configured");
    // Row level security decides who sees a row.
    let alice = Program::new(postgres::as_role(program.url().expect("should have a database"), "alice"));
    assert!(text(&alice.run(&["logs", "1"]).stderr).contains("there is no row 1"));
}

/// What is wrong with files is said before a cluster is asked for anything.
#[tokio::test]
async fn what_cannot_be_brought_needs_no_cluster() {
    let program = Program::migrated().await;
    let laptop = tempfile::tempdir().expect("should make a folder");
    let root = laptop.path().to_str().expect("should be text");
    std::fs::write(laptop.path().join("a.tpr"), vec![1; 2000]).expect("should write");
    std::fs::create_dir(laptop.path().join("empty")).expect("should make a folder");
    std::os::unix::fs::symlink("/etc/passwd", laptop.path().join("out.tpr")).expect("should link");
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let output = program.run(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
    };
    fails(&["put", "--root", root, "empty"], 2, "there is no file to copy");
    fails(&["put", "--root", root, "out.tpr"], 2, "out.tpr is not inside");
    fails(
        &["put", "--root", root, "a.tpr", "--namespace", "other"],
        2,
        "namespace other is not one of yours",
    );
    fails(&["put", "--root", root, "a.tpr"], 2, "no image is known in which the volume could be written");
    fails(&["put", "--root", root, "a.tpr", "--image", "gmx"], 2, "no Kubernetes cluster is configured");
    fails(&["add", "--put", "--root", root, "*.tpr"], 1, "nothing was added");
    fails(
        &["add", "--put", "--root", root, "a.tpr", "--image", "gmx"],
        2,
        "no Kubernetes cluster is configured",
    );
    assert_eq!(program.rows(), 0);
    let url = postgres::as_role(program.url().expect("should have a database"), "tester");
    let mut admin = PgConnection::connect(&url).await.expect("should connect");
    admin.execute("update gromacs_tenant set max_put_bytes = 1999").await.expect("should be set");
    fails(
        &["put", "--root", root, "a.tpr", "--image", "gmx"],
        1,
        "1 file has 2,000 bytes, and the limit of the tenant",
    );
}

#[tokio::test]
async fn a_cron_that_adds_twice_is_harmless() {
    let program = Program::migrated().await;
    let row = program.json(&["add", "a.tpr"])[0]["id"].to_string();
    let output = program.run(&["add", "a.tpr", "b.tpr"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains(&format!("row {row} computes this file already and is queued")), "{stderr}");
    assert_eq!(program.rows(), 1);

    let skipped = program.good(&["add", "--skip-existing", "a.tpr", "b.tpr", "b.tpr"]);
    assert!(skipped.contains(&format!("skipped a.tpr: row {row} has it, queued")), "{skipped}");
    assert!(skipped.ends_with("added 1 row, 2 skipped\n"), "{skipped}");

    program.sql("update gromacs_to_tune set state = 'completed'").await;
    assert!(
        program.good(&["add", "--skip-existing", "a.tpr"]).starts_with("skipped"),
        "it is computed already"
    );
    program.good(&["add", "a.tpr"]);
    program.good(&["add", "--allow-duplicate", "a.tpr", "a.tpr"]);
    assert_eq!(program.rows(), 5);
}

#[tokio::test]
async fn five_hundred_files_take_a_second() {
    let program = Program::migrated().await;
    let volume = tempfile::tempdir().expect("should make a folder");
    for number in 0..500 {
        let folder = volume.path().join(format!("runs/{number:03}"));
        std::fs::create_dir_all(&folder).expect("should make a folder");
        std::fs::write(folder.join("md.tpr"), "x").expect("should write a file");
    }
    let began = Instant::now();
    let root = volume.path().to_str().expect("should be text");
    let added = program.good(&["add", "--root", root, "runs/*/md.tpr"]);
    let took = began.elapsed().as_secs_f64();
    println!("500 files were added in {took:.2} s");
    assert!(added.ends_with("added 500 rows\n"), "{added}");
    // Far more than it takes, for a machine that does other things, too.
    assert!(took < 5.0, "{took} s");
    let rows = program.json(&["list", "--limit", "1"]);
    assert_eq!(rows[0]["tpr_path"], "runs/499/md.tpr", "in the order of their names");
}

#[tokio::test]
async fn a_table_of_simulations_is_added_from_a_file_or_stdin() {
    let program = Program::migrated().await;
    let table = "tpr_path,priority,atoms,box_nm,nsteps,gpu_pme\n\
                 runs/1.tpr,5,3000,3 3 3,1000,true\n\
                 \"odd, name.tpr\",,,,,\n";
    let added = program.with_stdin(&["add", "--from", "-"], table);
    assert!(added.status.success(), "{}", text(&added.stderr));
    let story = program.json(&["show", "1"]);
    assert_eq!(story["simulation"]["atoms"], 3000);
    assert_eq!(story["simulation"]["box_nm"], serde_json::json!([3, 3, 3]));
    assert_eq!(story["simulation"]["priority"], 5);

    let bad = "tpr_path,priority\ngood.tpr,1\nx.tpr,high\nno-tpr,1\nruns/1.tpr,1\n";
    let output = program.with_stdin(&["add", "--from", "-", "--output", "json"], bad);
    assert_eq!(output.status.code(), Some(1));
    let results: Value = serde_json::from_slice(&output.stdout).expect("should be JSON");
    let told: Vec<(i64, &str)> = results
        .as_array()
        .expect("should be a list")
        .iter()
        .map(|row| (row["line"].as_i64().unwrap_or(0), row["result"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(
        told,
        [(2, "not added"), (3, "refused"), (4, "refused"), (5, "refused")],
        "all errors in one go"
    );
    assert!(
        results[1]["reason"].as_str().is_some_and(|why| why.contains("column priority: \"high\"")),
        "{results}"
    );
    assert!(results[2]["reason"].as_str().is_some_and(|why| why.contains("tpr_path must be")), "{results}");
    assert_eq!(program.rows(), 2);

    let output = program.run(&["add", "--from", "/nowhere.csv"]);
    assert_eq!(output.status.code(), Some(2), "a file that is not there is the environment's");
}

#[tokio::test]
async fn a_run_input_file_is_inspected_here() {
    let program = Program::migrated().await;
    let folder = tempfile::tempdir().expect("should make a folder");
    let gmx = folder.path().join("gmx");
    let dump = format!("{}/tests/fixtures/dump-peptide.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(
        &gmx,
        format!("#!/bin/sh\ncase \"$*\" in *--version*) echo 'GROMACS version:    2022.5' ;; *) cat '{dump}' ;; esac\n"),
    )
    .expect("should write a script");
    std::fs::set_permissions(&gmx, std::fs::Permissions::from_mode(0o755)).expect("should be executable");
    let local = folder.path().join("local $(copy).tpr");
    std::fs::write(&local, "x").expect("should write a file");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let local = local.to_str().expect("should be text");
    let output = program
        .command(&["add", "runs/a.tpr", "--tpr", local])
        .env("PATH", &path)
        .output()
        .expect("the submitter should start");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let story = program.json(&["show", "1"]);
    assert_eq!(story["simulation"]["atoms"], 1048);
    // That is the image's to say.
    assert!(story["simulation"]["gromacs_version"].is_null(), "{story}");

    let root = folder.path().to_str().expect("should be text");
    let output = program
        .command(&["add", "--root", root, "--tpr", local])
        .env("PATH", &path)
        .output()
        .expect("the submitter should start");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(program.json(&["show", "2"])["row"]["tpr_path"], "local $(copy).tpr");

    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).expect("should make a folder");
    let output = program
        .command(&["add", "runs/b.tpr", "--tpr", local])
        .env("PATH", "/bin:/usr/bin")
        .output()
        .expect("the submitter should start");
    if !output.status.success() {
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("is gmx in the PATH"), "{}", text(&output.stderr));
    }
}

#[tokio::test]
async fn rows_are_listed_shown_cancelled_and_tried_again() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "b.tpr", "c.tpr", "d.tpr"]);
    program
        .sql("update gromacs_to_tune set state = 'failed', reason = 'LINCS warnings' where id in (2, 3)")
        .await;

    let failed = program.json(&["list", "--state", "failed"]);
    assert_eq!(failed.as_array().map(Vec::len), Some(2));
    assert_eq!(program.json(&["list", "--owner", "nobody"]), serde_json::json!([]));
    assert_eq!(program.json(&["list", "--namespace", "lab", "--limit", "1"])[0]["id"], 4);
    let table = program.good(&["list"]);
    assert_eq!(table.lines().count(), 5);
    assert!(table.contains("LINCS warnings") && table.contains("waits for its turn"), "{table}");

    let story = program.good(&["show", "2"]);
    assert!(
        story.contains("state       failed for") && story.contains("gromacs-submitter retry 2"),
        "{story}"
    );
    let story = program.good(&["show", "4"]);
    assert!(story.contains("1 row of the same owner before it"), "{story}");
    assert_eq!(program.run(&["show", "99"]).status.code(), Some(1));

    let output = program.run(&["cancel", "1", "2", "99"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "row 1: cancel requested\n");
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("row 2: it is failed already") && stderr.contains("row 99: there is no such row"),
        "{stderr}"
    );

    let output = program.run(&["retry", "--all-failed"]);
    assert_eq!(output.status.code(), Some(2), "a filter needs a yes");
    assert!(text(&output.stderr).contains("this would retry 2 rows; say --yes"), "{}", text(&output.stderr));
    let would = program.good(&["retry", "--all-failed", "--dry-run"]);
    assert_eq!(would, "row 2: would retry it, it is failed\nrow 3: would retry it, it is failed\n");
    let asked = program.json(&["retry", "--all-failed", "--yes"]);
    assert_eq!(asked.as_array().map(Vec::len), Some(2));
    let requested = program.json(&["show", "3"]);
    assert_eq!(requested["simulation"]["retry_requested"], true);
    assert_eq!(program.good(&["cancel", "--owner", "nobody"]), "no row to cancel\n");
    let all = program.good(&["cancel", "--namespace", "lab", "--yes"]);
    assert_eq!(
        all, "row 1: cancel requested\nrow 4: cancel requested\n",
        "those that have ended are no error"
    );
}

/// Everything a chemist does needs no more than a chemist's rights, and reaches no further than the chemist's own rows.
#[tokio::test]
async fn a_chemist_can_do_it_all_and_sees_only_own_rows() {
    let url = postgres::migrated_database().await;
    let admin = Program::new(url.clone());
    admin.good(&["tenant", "add", "alice", "lab"]);
    admin.good(&["tenant", "add", "bob", "lab"]);
    let alice = Program::new(postgres::as_role(&url, "alice"));
    let bob = Program::new(postgres::as_role(&url, "bob"));
    alice.good(&["add", "a.tpr", "b.tpr"]);
    bob.good(&["add", "a.tpr"]);
    assert_eq!(
        (alice.rows(), bob.rows(), admin.rows()),
        (2, 1, 3),
        "one chemist's file is none of the other's"
    );
    assert!(alice.good(&["show", "1"]).contains("of alice"));
    for (arguments, why) in [(["show", "1"], "there is no row 1"), (["cancel", "1"], "there is no such row")]
    {
        let output = bob.run(&arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    let output = alice.run(&["add", "c.tpr", "--namespace", "elsewhere", "--dry-run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("ask the admin"), "{}", text(&output.stderr));
    assert_eq!(alice.good(&["cancel", "--state", "queued", "--yes"]).lines().count(), 2);
    assert!(alice.good(&["report"]).starts_with("nothing ran"));
    admin.sql("update gromacs_to_tune set state = 'completed'").await;
    alice.good(&["watch", "1", "2", "--until-finished"]);
}

#[tokio::test]
async fn a_dry_run_of_run_names_the_rows_that_are_due() {
    let program = Program::migrated().await;
    let run = ["run", "--dry-run", "--gromacs-image", "x"];
    assert_eq!(program.good(&run), "no row is due\n");
    program.good(&["add", "a.tpr", "b.tpr", "c.tpr"]);
    program.sql("update gromacs_to_tune set priority = 1 where id = 3").await;
    let due = program.json(&run);
    assert_eq!(due.as_array().map(Vec::len), Some(3));
    assert_eq!(program.json(&run), due, "nobody holds them now");
    assert!(program.good(&run).contains("queued  b.tpr"));
    let two = program.json(&["run", "--dry-run", "--gromacs-image", "x", "--concurrency", "2"]);
    let ids: Vec<_> = two.as_array().into_iter().flatten().map(|row| row["id"].as_i64()).collect();
    assert!(ids.len() == 2 && ids.contains(&Some(3)), "the first to be taken: {ids:?}");
    let one = program.run(&["run", "--dry-run", "--gromacs-image", "x", "--concurrency", "1"]);
    assert!(text(&one.stderr).contains("1 is not in 2..=1000"), "{}", text(&one.stderr));
}

#[tokio::test]
async fn a_watch_tells_changes_and_ends_with_them() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "b.tpr"]);
    assert_eq!(program.run(&["watch", "99"]).status.code(), Some(1), "there is no such row");
    let watch = program
        // Nothing but the database's word wakes it.
        .command(&["watch", "--until-finished", "--interval", "1h"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the submitter should start");
    let mut lines = program::Lines::of(watch);
    lines.until("row 2");
    program.sql("update gromacs_to_tune set state = 'running', reason = 'attempt 1 runs' where id = 1").await;
    lines.until("running  attempt 1 runs");
    program.sql("update gromacs_to_tune set state = 'completed', reason = null").await;
    assert_eq!(lines.end(), Some(0), "all rows are completed");

    program.good(&["add", "c.tpr"]);
    let watch = program
        .command(&["watch", "3", "--until-finished", "--interval", "200ms", "--output", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the submitter should start");
    let mut lines = program::Lines::of(watch);
    let first: Value = serde_json::from_str(&lines.until("c.tpr")).expect("each line should be JSON");
    assert_eq!(first["id"], 3);
    program.sql("update gromacs_to_tune set state = 'failed' where id = 3").await;
    assert_eq!(lines.end(), Some(1), "a row failed");

    // Its state says so until the submitter has heard the request.
    program.good(&["retry", "3"]);
    for rows in [&["3"][..], &[]] {
        let watch = program
            .command(&[&["watch", "--until-finished", "--interval", "200ms"], rows].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the submitter should start");
        let mut lines = program::Lines::of(watch);
        lines.until("row 3");
        program
            .sql("update gromacs_to_tune set state = 'running', retry_requested = false where id = 3")
            .await;
        lines.until("running");
        program.sql("update gromacs_to_tune set state = 'completed' where id = 3").await;
        assert_eq!(lines.end(), Some(0), "{rows:?}: it is completed");
        program.sql("update gromacs_to_tune set state = 'failed' where id = 3").await;
        program.good(&["retry", "3"]);
    }
}

#[tokio::test]
async fn a_report_has_a_table_a_file_and_a_picture() {
    let program = Program::migrated().await;
    assert!(program.good(&["report"]).starts_with("nothing ran since"));
    program.good(&["add", "a.tpr"]);
    program.sql("update gromacs_to_tune set dt_ps = 0.002, atoms = 3000, nsteps = 1000").await;
    program
        .sql(
            "insert into gromacs_attempt (row_id, submission, attempt, cpu_millicores, creation_time, start_time,
                end_time, outcome, first_step, last_step, ns_per_day)
            select 1, 1, n, 1000, now(), now() - interval '4 hours' + n * interval '1 hour',
                now() - interval '4 hours' + n * interval '1 hour' + interval '50 minutes',
                case n when 3 then 'completed' else 'interrupted' end, 500000 * (n - 1), 500000 * n, 20 + n
            from generate_series(1, 3) n",
        )
        .await;
    let folder = tempfile::tempdir().expect("should make a folder");
    let (csv, svg) = (folder.path().join("runs.csv"), folder.path().join("runs.svg"));
    let (csv, svg) = (csv.to_str().expect("should be text"), svg.to_str().expect("should be text"));
    let table = program.good(&["report", "--since", "1d", "--csv", csv, "--plot", svg]);
    assert!(table.contains("1 simulation ran 3 times, together 2 h 30 min"), "{table}");
    let content = std::fs::read_to_string(csv).expect("should be written");
    assert_eq!(content.lines().count(), 4, "{content}");
    assert!(std::fs::read_to_string(svg).expect("should be written").contains("speed of each run (ns/day)"));
    let sums = program.json(&["report", "--since", "100m"]);
    assert_eq!((sums["runs"].as_i64(), sums["interrupted"].as_i64()), (Some(2), Some(1)), "{sums}");
    assert!(program.good(&["report", "--csv", "-"]).starts_with("row,owner,namespace,tpr_path"));
    assert_eq!(program.run(&["report", "--plot", "/nowhere/x.svg"]).status.code(), Some(2));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Command::new(SUBMITTER)
        .arg("--help")
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the submitter should start");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the submitter should end");
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    let _ = std::io::stderr().flush();
}
