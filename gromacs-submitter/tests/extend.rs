//! Rows that go on from what was computed before, on a real Postgres: completed ones, and those that start from a checkpoint.

mod postgres;
mod program;
mod rows;

use gromacs_submitter::store::{Changes, Edit, Extended, Length, NewRow, RowFilter, Store};
use postgres::{as_role, migrated_store, store};
use program::{Program, text};
use rows::any;
use scavenger_schema::simulation::{RowStatus, State};
use sqlx::Executor as _;

fn new_row(tpr_path: &str) -> NewRow {
    NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: tpr_path.to_owned(),
        ..NewRow::default()
    }
}

/// A submitter, an admin, and a chemist who is nothing else.
async fn queue() -> (Store, Store, Store) {
    let (submitter, url) = migrated_store("submitter-1").await;
    let admin = store(&as_role(&url, "tester"), "admin");
    admin
        .pool()
        .execute("insert into gromacs_tenant (database_role, namespace) values ('alice', 'lab')")
        .await
        .expect("should add a tenant");
    (submitter, admin, store(&as_role(&url, "alice"), "alice"))
}

/// A row of 1,000,000 steps of 2 fs, 2 ns, in this state.
async fn row_in(state: State, admin: &Store, alice: &Store) -> i64 {
    let row = alice.add(&new_row(&format!("{state}.tpr"))).await.expect("should add");
    sqlx::query(
        "update gromacs_to_tune set state = $2, nsteps = 1000000, dt_ps = 0.002, step = 1000000,
            inspected = '{\"integrator\": \"md\"}' where id = $1",
    )
    .bind(row)
    .bind(state.as_str())
    .execute(admin.pool())
    .await
    .expect("should set");
    row
}

#[tokio::test]
async fn a_completed_row_is_extended_again_and_again() {
    let (submitter, admin, alice) = queue().await;
    let row = row_in(State::Completed, &admin, &alice).await;
    let behind = alice.add(&NewRow { after: Some(vec![row]), ..new_row("b.tpr") }).await.expect("should add");
    alice.set_held(&[behind], true).await.expect("should hold");
    assert!(submitter.claim(&any(10)).await.expect("should claim").is_empty());

    let tried = alice.extend(&[row], Length::More(100.0), true).await.expect("should be possible");
    let expected = Extended { id: row, from_ns: 2.0, to_ns: 102.0, extended_nsteps: 51_000_000 };
    assert_eq!(tried, std::slice::from_ref(&expected));
    assert!(submitter.claim(&any(10)).await.expect("should claim").is_empty(), "it was only tried");

    assert_eq!(alice.extend(&[row], Length::More(100.0), false).await.expect("should extend"), [expected]);
    let claim = submitter.claim(&any(10)).await.expect("should claim").remove(0);
    assert_eq!((claim.row.id, claim.row.extended_nsteps), (row, Some(51_000_000)));
    assert!(claim.row.retry_requested && claim.row.status.state == State::Completed);
    // As the submitter does, with the length that it reads in the copy.
    let status = RowStatus { state: State::Queued, submission: 2, ..claim.row.status.clone() };
    let changes = Changes { clears_requests: true, releases: true, ..Changes::default() };
    submitter.record(&claim, &status, &changes).await.expect("should record");
    let waits: bool = sqlx::query_scalar("select waits_for_rows from gromacs_to_tune where id = $1")
        .bind(behind)
        .fetch_one(alice.pool())
        .await
        .expect("should be there");
    assert!(waits, "what comes after it waits for the new end");

    let history: Vec<String> = sqlx::query_scalar(
        "select message from gromacs_event where row_id = $1 and message is not null order by id",
    )
    .bind(row)
    .fetch_all(alice.pool())
    .await
    .expect("should read");
    assert_eq!(history, ["extension to 51000000 steps requested by alice"]);

    let error = alice.extend(&[row], Length::More(1.0), false).await.expect_err("should refuse");
    assert!(
        error.to_string().starts_with(&format!(
            "row {row} is queued, and only a completed row can be extended: wait for its end"
        )),
        "{error}"
    );
    admin
        .pool()
        .execute("update gromacs_to_tune set state = 'completed', nsteps = 51000000 where id = 1")
        .await
        .expect("should complete");
    let until = alice.extend(&[row], Length::Until(102.5), false).await.expect("should extend");
    assert_eq!(until[0].extended_nsteps, 51_250_000);
}

#[tokio::test]
async fn what_cannot_be_extended_says_why() {
    let (_, admin, alice) = queue().await;
    for (state, words) in [
        (State::Queued, "only a completed row can be extended: wait for its end"),
        (State::Running, "only a completed row can be extended: wait for its end"),
        (State::Failed, "only a completed row can be extended: retry it first"),
        (State::Cancelled, "only a completed row can be extended: retry it first"),
    ] {
        let row = row_in(state, &admin, &alice).await;
        let error = alice.extend(&[row], Length::More(1.0), false).await.expect_err("should refuse");
        assert!(error.to_string().starts_with(&format!("row {row} is {state}, and {words}")), "{error}");
    }
    let row = row_in(State::Completed, &admin, &alice).await;
    for (length, words) in [
        (Length::Until(2.0), format!("row {row} has done 1000000 steps (2 ns) already; extend it to more")),
        (Length::Until(1.0), format!("row {row} has done 1000000 steps (2 ns) already; extend it to more")),
        (Length::More(1e-9), format!("row {row} has done 1000000 steps (2 ns) already; extend it to more")),
        (Length::More(1e30), "extended_nsteps must be between 1 and 1000000000000000".to_owned()),
    ] {
        let error = alice.extend(&[row], length, false).await.expect_err("should refuse");
        assert!(error.to_string().starts_with(&words), "{error}");
    }
    for (change, words) in [
        ("inspected = '{\"integrator\": \"steep\"}'", "minimises an energy and has no length"),
        ("inspected = '{}', dt_ps = null", "nsteps or dt_ps of row"),
    ] {
        let change = format!("update gromacs_to_tune set {change} where state = 'completed'");
        admin.pool().execute(sqlx::AssertSqlSafe(change)).await.expect("should set");
        let error = alice.extend(&[row], Length::More(1.0), false).await.expect_err("should refuse");
        assert!(error.to_string().contains(words), "{error}");
    }
    // Nobody else's, and none that is not there.
    assert_eq!(alice.extend(&[4711], Length::More(1.0), false).await.expect("should find none"), []);
    // A length is not taken back, nor is a retry of what is completed carried out without one.
    for request in ["extended_nsteps = 1, state = 'completed'", "retry_requested = true"] {
        let request = format!("update gromacs_to_tune set {request} where id = {row}");
        admin.pool().execute(sqlx::AssertSqlSafe(request)).await.expect_err("should refuse");
    }
    let edit = Edit { priority: Some(3), ..Edit::default() };
    assert_eq!(alice.edit(&[row], &edit, false).await.expect("should change"), [row]);
}

/// As long as one of its simulations is, all are.
#[tokio::test]
async fn a_row_of_several_simulations_is_extended_as_one() {
    let (submitter, admin, alice) = queue().await;
    let folders = ["sim0", "sim1"].map(ToOwned::to_owned).to_vec();
    let several = NewRow { multidir: Some(folders.clone()), ..new_row("ens/topol.tpr") };
    let row = alice.add(&several).await.expect("should add");
    admin
        .pool()
        .execute(
            "update gromacs_to_tune set state = 'completed', nsteps = 1000000, dt_ps = 0.002, step = 1000000,
                inspected = '{\"integrator\": \"md\"}'",
        )
        .await
        .expect("should complete");
    let expected = Extended { id: row, from_ns: 2.0, to_ns: 3.0, extended_nsteps: 1_500_000 };
    assert_eq!(alice.extend(&[row], Length::More(1.0), false).await.expect("should extend"), [expected]);
    let claim = submitter.claim(&any(10)).await.expect("should claim").remove(0);
    assert_eq!((&claim.row.multidir, claim.row.extended_nsteps), (&folders, Some(1_500_000)));
    let listed = alice.list(&RowFilter::default()).await.expect("should list");
    assert_eq!((&listed[0]["simulations"], &listed[0]["last_step"]), (&2.into(), &1_000_000.into()));
}

#[tokio::test]
async fn extensions_on_the_command_line() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "b.tpr", "c.tpr", "--project", "water"]);
    program
        .sql("update gromacs_to_tune set state = 'completed', nsteps = 1000000, dt_ps = 0.002 where id < 3")
        .await;
    assert!(program.good(&["show", "1"]).contains("gromacs-submitter extend 1 --ns NANOSECONDS"));
    assert_eq!(
        program.good(&["extend", "1", "--ns", "0.5", "--dry-run"]),
        "row 1: would go on from 2 to 2.5 ns\n"
    );
    let refused = program.run(&["extend", "--in-project", "water", "--ns", "8"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("this would extend 2 rows; say --yes"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(
        program.good(&["extend", "--in-project", "water", "--until", "10", "--yes"]),
        "row 1: goes on from 2 to 10 ns\nrow 2: goes on from 2 to 10 ns\n"
    );
    let story = program.good(&["show", "1"]);
    assert!(story.contains("extended    to 5,000,000 steps in all\n"), "{story}");
    assert!(story.contains("requested   extension; the submitter sees to it\n"), "{story}");
    let printed = program.run(&["extend", "3", "--ns", "1"]);
    assert_eq!(printed.status.code(), Some(2));
    assert!(text(&printed.stderr).contains("row 3 is queued, and only a completed row can be extended"));
    for arguments in
        [&["extend", "1"][..], &["extend", "1", "--ns", "0"], &["extend", "1", "--ns", "1", "--until", "2"]]
    {
        assert_eq!(program.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(program.run(&["extend", "9", "--ns", "1"]).status.code(), Some(1));
}

#[tokio::test]
async fn rows_that_start_from_a_checkpoint() {
    let (submitter, _, alice) = queue().await;
    let starting = |path: &str| NewRow { checkpoint_path: Some(path.to_owned()), ..new_row("a.tpr") };
    let row = alice.add(&starting("old/state.cpt")).await.expect("should add");
    let claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    assert_eq!((claim.row.id, claim.row.checkpoint_path.as_deref()), (row, Some("old/state.cpt")));
    for bad in ["", "/old/state.cpt", "../state.cpt", "old//state.cpt", "old/state.tpr", ".cpt", "a\n.cpt"] {
        let error = alice.add(&starting(bad)).await.expect_err("should refuse");
        assert!(
            error.to_string().starts_with("checkpoint_path must be the path of a .cpt file"),
            "{bad:?}: {error}"
        );
    }
    let error = alice
        .add(&NewRow { append: Some(true), ..starting("old/state.cpt") })
        .await
        .expect_err("should refuse");
    assert!(error.to_string().contains("leave append out, or say false"), "{error}");
    let calibration =
        "insert into gromacs_to_tune (kind, namespace, persistent_volume_claim, benchmark_atoms,
            benchmark_ranks, benchmark_threads, nsteps, checkpoint_path)
        values ('calibration', 'lab', 'data', 10000, 1, 1, 1000, 'old/state.cpt')";
    let error = alice.pool().execute(calibration).await.expect_err("should refuse");
    assert!(error.to_string().contains("a calibration starts from the beginning"), "{error}");
}

#[tokio::test]
async fn checkpoints_on_the_command_line() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "--checkpoint", "old/state.cpt"]);
    let table =
        program.with_stdin(&["add", "--from", "-"], "tpr_path,checkpoint_path\nb.tpr,old/b.cpt\nc.tpr,\n");
    assert!(table.status.success(), "{}", text(&table.stderr));
    let paths: Vec<_> = (1..4)
        .map(|row| program.json(&["show", &row.to_string()])["simulation"]["checkpoint_path"].clone())
        .collect();
    assert_eq!(
        paths,
        [serde_json::json!("old/state.cpt"), serde_json::json!("old/b.cpt"), serde_json::Value::Null]
    );
    assert!(program.good(&["show", "1"]).contains("starts from old/state.cpt\n"));

    // Where the volume is mounted, the file must be there.
    let volume = tempfile::tempdir().expect("should make a folder");
    for name in ["d.tpr", "d.cpt"] {
        std::fs::write(volume.path().join(name), "x").expect("should write");
    }
    let root = volume.path().to_str().expect("should be text");
    let absolute = volume.path().join("d.cpt");
    let absolute = absolute.to_str().expect("should be text");
    program.good(&["add", "--root", root, "d.tpr", "--checkpoint", absolute]);
    assert!(program.good(&["show", "4"]).contains("starts from d.cpt\n"));
    let missing = program.run(&["add", "--root", root, "d.tpr", "--checkpoint", "e.cpt"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        text(&missing.stderr).contains("--checkpoint names no file: e.cpt: "),
        "{}",
        text(&missing.stderr)
    );
}
