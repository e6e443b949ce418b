//! Rows that come after other rows, on a real Postgres.

#![allow(clippy::too_many_lines, reason = "a story is told in one piece")]

mod postgres;
mod program;
mod rows;

use std::time::Duration;

use gromacs_submitter::store::{Edit, NewRow, Store, StoreError};
use postgres::{as_role, migrated_store, store};
use program::{Program, text};
use rows::any;
use scavenger_schema::simulation::State;
use sqlx::Executor as _;

fn new_row(tpr_path: &str, after: &[i64]) -> NewRow {
    NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: tpr_path.to_owned(),
        after: (!after.is_empty()).then(|| after.to_vec()),
        ..NewRow::default()
    }
}

/// A submitter, an admin, and a chemist who is nothing else.
async fn queue() -> (Store, Store, Store) {
    let (submitter, url) = migrated_store("submitter-1").await;
    let admin = store(&as_role(&url, "tester"), "admin");
    admin
        .pool()
        .execute(
            "insert into gromacs_tenant (database_role, namespace) values ('alice', 'lab'), ('bob', 'lab')",
        )
        .await
        .expect("should add tenants");
    let alice = store(&as_role(&url, "alice"), "alice");
    submitter.is_alive(20).await.expect("should say so");
    (submitter, admin, alice)
}

async fn add(store: &Store, tpr_path: &str, after: &[i64]) -> i64 {
    store.add(&new_row(tpr_path, after)).await.expect("should add")
}

async fn reason(store: &Store, row: i64) -> String {
    sqlx::query_scalar("select coalesce(reason, '') from gromacs_queue where id = $1")
        .bind(row)
        .fetch_one(store.pool())
        .await
        .expect("should be there")
}

async fn set(store: &Store, row: i64, state: State) {
    sqlx::query(
        "update gromacs_to_tune set state = $2, lease_holder = null, lease_until = null where id = $1",
    )
    .bind(row)
    .bind(state.as_str())
    .execute(store.pool())
    .await
    .expect("should set");
}

async fn waits(store: &Store, row: i64) -> bool {
    sqlx::query_scalar("select waits_for_rows from gromacs_to_tune where id = $1")
        .bind(row)
        .fetch_one(store.pool())
        .await
        .expect("should be there")
}

/// The rows that a submitter takes now.
async fn claimed(submitter: &Store) -> Vec<i64> {
    let mut rows: Vec<i64> =
        submitter.claim(&any(100)).await.expect("should claim").iter().map(|claim| claim.row.id).collect();
    submitter.release_all().await.expect("should give back");
    rows.sort_unstable();
    rows
}

#[tokio::test]
async fn a_chain_goes_on_row_by_row() {
    let (submitter, admin, alice) = queue().await;
    let nvt = add(&alice, "nvt.tpr", &[]).await;
    let npt = add(&alice, "npt.tpr", &[nvt]).await;
    let other = add(&alice, "other.tpr", &[]).await;
    // The most urgent of all, but for the rows before it.
    let mut last = new_row("md.tpr", &[npt, other]);
    last.priority = Some(1000);
    let md = alice.add(&last).await.expect("should add");

    assert_eq!(claimed(&submitter).await, [nvt, other]);
    assert_eq!(reason(&alice, nvt).await, "waits for its turn");
    assert_eq!(reason(&alice, npt).await, format!("waits for row {nvt} (queued)"));
    assert_eq!(
        reason(&alice, md).await,
        format!("waits for rows {npt} (queued), {other} (queued)"),
        "the chemist sees what the submitter does"
    );
    set(&admin, nvt, State::Running).await;
    set(&admin, other, State::Completed).await;
    assert_eq!(reason(&alice, npt).await, format!("waits for row {nvt} (running)"));
    assert_eq!(reason(&alice, md).await, format!("waits for row {npt} (queued)"));

    // A retry of what failed lets the rows behind it go on.
    for (state, what) in [(State::Failed, "failed"), (State::Cancelled, "was cancelled")] {
        set(&admin, nvt, state).await;
        assert_eq!(
            reason(&alice, npt).await,
            format!(
                "row {nvt} {what}, and this row begins only after that is completed: retry row {nvt}, or let this row \
                 go on without it (gromacs-submitter edit {npt} --no-after)"
            )
        );
        assert!(!claimed(&submitter).await.contains(&npt));
    }
    set(&admin, nvt, State::Queued).await;
    assert_eq!(reason(&alice, npt).await, format!("waits for row {nvt} (queued)"));
    let mut listener = submitter.listen().await.expect("should listen");
    set(&admin, nvt, State::Completed).await;
    tokio::time::timeout(Duration::from_secs(30), listener.recv())
        .await
        .expect("submitters should hear of it")
        .expect("should listen");
    assert_eq!(claimed(&submitter).await, [npt]);
    assert_eq!(reason(&alice, npt).await, "waits for its turn");

    // What was completed goes on for longer: rows that have not begun wait again.
    set(&admin, nvt, State::Queued).await;
    assert_eq!(reason(&alice, npt).await, format!("waits for row {nvt} (queued)"));
    set(&admin, nvt, State::Completed).await;
    admin
        .pool()
        .execute("update gromacs_to_tune set inspected = '{}' where tpr_path = 'npt.tpr'")
        .await
        .expect("should set");
    set(&admin, nvt, State::Queued).await;
    assert!(!waits(&admin, npt).await, "it has begun");

    // A row that failed while it waited, and is queued again, is judged again.
    set(&admin, md, State::Cancelled).await;
    set(&admin, npt, State::Completed).await;
    assert!(!waits(&admin, md).await);
    set(&admin, npt, State::Queued).await;
    set(&admin, md, State::Queued).await;
    assert!(waits(&admin, md).await);
}

#[tokio::test]
async fn circles_and_rows_that_are_not_there_are_refused() {
    let (_, admin, alice) = queue().await;
    let first = add(&alice, "a.tpr", &[]).await;
    let second = add(&alice, "b.tpr", &[first]).await;
    let third = add(&alice, "c.tpr", &[second]).await;
    let bobs: i64 = sqlx::query_scalar(
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path)
        values ('bob', 'lab', 'data', 'theirs.tpr') returning id",
    )
    .fetch_one(admin.pool())
    .await
    .expect("should add");
    for missing in [bobs, 4711] {
        let error = alice.add(&new_row("d.tpr", &[first, missing])).await.expect_err("should refuse");
        assert!(matches!(error, StoreError::BreakRule(_)), "{error}");
        assert_eq!(
            error.to_string(),
            format!(
                "after names row {missing}, and alice has no row {missing}; name rows that alice added before (rule \
                 gromacs_to_tune_after_allowed)"
            ),
            "whether another owner has such a row is not said"
        );
    }
    let after = |rows: &[i64]| Edit { after: Some(rows.to_vec()), ..Edit::default() };
    for (row, rows, words) in [
        (first, vec![first], format!("row {first} cannot come after itself; leave it out")),
        (
            first,
            vec![third],
            format!(
                "row {first} cannot come after row {third}, which waits for row {first}, directly or through others"
            ),
        ),
        (first, vec![second], format!("row {first} cannot come after row {second}, which waits for")),
        (third, vec![bobs], format!("after names row {bobs}, and alice has no row {bobs}")),
        (third, vec![second; 101], "after must be a list of at most 100 numbers of rows".to_owned()),
    ] {
        let error = alice.edit(&[row], &after(&rows), false).await.expect_err("should refuse").to_string();
        assert!(error.starts_with(&words), "{error}");
    }
    let null = sqlx::query(
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, after)
        values ('lab', 'data', 'n.tpr', array[null::bigint])",
    )
    .execute(alice.pool())
    .await
    .map_err(StoreError::from)
    .expect_err("should refuse");
    assert!(null.to_string().starts_with("after must be a list"), "{null}");

    // What makes no circle is fine, and a row that waits for none is due.
    alice.edit(&[third], &after(&[first]), false).await.expect("should change");
    alice.edit(&[second], &after(&[third]), false).await.expect("should change");
    assert_eq!(reason(&alice, second).await, format!("waits for row {third} (queued)"));
    alice.edit(&[third], &after(&[]), false).await.expect("should change");
    assert_eq!(reason(&alice, third).await, "waits for its turn");
    set(&admin, third, State::Running).await;
    let error = alice.edit(&[third], &after(&[first]), false).await.expect_err("should refuse");
    assert!(error.to_string().contains("cancel it, change it, and retry"), "{error}");
}

/// Whoever comes second sees what the first one did.
#[tokio::test]
async fn rows_that_are_completed_at_the_same_moment_are_not_missed() {
    const COMPLETE: &str = "update gromacs_to_tune set state = 'completed' where id = $1";
    let (_, admin, alice) = queue().await;
    let left = add(&alice, "left.tpr", &[]).await;
    let right = add(&alice, "right.tpr", &[]).await;
    let both = add(&alice, "both.tpr", &[left, right]).await;
    let mut first = admin.pool().begin().await.expect("should begin");
    sqlx::query(COMPLETE).bind(left).execute(&mut *first).await.expect("should complete");
    let second = {
        let admin = admin.clone();
        tokio::spawn(async move { sqlx::query(COMPLETE).bind(right).execute(admin.pool()).await })
    };
    wait_for_a_lock(&admin).await;
    first.commit().await.expect("should commit");
    second.await.expect("should end").expect("should complete");
    assert!(!waits(&admin, both).await);

    // A row is added while the one before it is being completed.
    let before = add(&alice, "before.tpr", &[]).await;
    let mut completes = admin.pool().begin().await.expect("should begin");
    sqlx::query(COMPLETE).bind(before).execute(&mut *completes).await.expect("should complete");
    let adding = {
        let alice = alice.clone();
        tokio::spawn(async move { add(&alice, "behind.tpr", &[before]).await })
    };
    wait_for_a_lock(&admin).await;
    completes.commit().await.expect("should commit");
    let behind = adding.await.expect("should add");
    assert!(!waits(&admin, behind).await);
}

/// Until somebody in this database waits for a lock.
async fn wait_for_a_lock(admin: &Store) {
    let waiting = async {
        loop {
            let waiting: i64 = sqlx::query_scalar(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
            )
            .fetch_one(admin.pool())
            .await
            .expect("should read");
            if waiting > 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("somebody should wait");
}

#[tokio::test]
async fn what_is_waited_for_is_not_removed_unless_it_is_completed() {
    let (submitter, admin, alice) = queue().await;
    let first = add(&alice, "a.tpr", &[]).await;
    let second = add(&alice, "b.tpr", &[]).await;
    let last = add(&alice, "c.tpr", &[first, second]).await;
    set(&admin, first, State::Completed).await;
    set(&admin, second, State::Failed).await;
    assert_eq!(alice.remove(&[first]).await.expect("should remove"), [first]);
    let error = alice.remove(&[second]).await.expect_err("should refuse");
    assert!(
        error.to_string().starts_with(&format!(
            "row {second} is failed, and row {last} waits for it: retry row {second}, or change what row {last} comes \
             after (gromacs-submitter edit {last} --no-after), or cancel row {last}"
        )),
        "{error}"
    );
    alice
        .edit(&[last], &Edit { after: Some(Vec::new()), ..Edit::default() }, false)
        .await
        .expect("should change");
    assert_eq!(claimed(&submitter).await, [last], "it waits no more");
    assert_eq!(alice.remove(&[second]).await.expect("should remove"), [second]);
}

#[tokio::test]
async fn chains_on_the_command_line() {
    let program = Program::migrated().await;
    program.good(&["add", "nvt.tpr"]);
    program.good(&["add", "npt.tpr", "--after", "1"]);
    let added = program.with_stdin(&["add", "--from", "-"], "tpr_path,after\nmd.tpr,1 2\nfree.tpr,\n");
    assert!(added.status.success(), "{}", text(&added.stderr));
    let refused = program.run(&["add", "x.tpr", "--after", "1,99"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("x.tpr: after names row 99, and worker has no row 99"));

    let table = program.good(&["list"]);
    assert!(table.contains("waits for rows 1 (queued), 2 (queued)"), "{table}");
    assert_eq!(program.json(&["list"])[2]["after"], serde_json::json!([1, 2]));
    let story = program.good(&["show", "3"]);
    assert!(story.contains("after       rows 1, 2\n"), "{story}");
    assert!(story.contains("why         waits for rows 1 (queued), 2 (queued)\n"), "{story}");
    let due = program.good(&["run", "--dry-run", "--gromacs-image", "gromacs:1"]);
    assert!(
        due.ends_with(
            "row 2 is not due: waits for row 1 (queued)\n\
             row 3 is not due: waits for rows 1 (queued), 2 (queued)\n"
        ),
        "{due}"
    );
    let due = program.json(&["run", "--dry-run", "--gromacs-image", "gromacs:1"]);
    let rows: Vec<_> = due
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| (row["id"].as_i64().unwrap_or_default(), row["due"] == true))
        .collect();
    assert_eq!(rows, [(1, true), (4, true), (2, false), (3, false)]);

    assert_eq!(program.good(&["edit", "3", "--after", "4"]), "row 3: changed\n");
    assert!(program.good(&["show", "3"]).contains("after       row 4\n"));
    let circle = program.run(&["edit", "4", "--after", "3"]);
    assert_eq!(circle.status.code(), Some(2));
    assert!(text(&circle.stderr).contains("row 4 cannot come after row 3"), "{}", text(&circle.stderr));
    assert_eq!(program.good(&["edit", "3", "--no-after"]), "row 3: changed\n");
    assert!(!program.good(&["show", "3"]).contains("\nafter "));
    let both = program.run(&["edit", "3", "--no-after", "--after", "1"]);
    assert_eq!(both.status.code(), Some(2));

    program.sql("update gromacs_to_tune set state = 'failed', reason = 'x' where id = 1").await;
    let refused = program.run(&["rm", "1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("row 1 is failed, and row 2 waits for it: retry row 1"));
}

#[tokio::test]
async fn a_row_may_begin_however_others_ended() {
    let (submitter, admin, alice) = queue().await;
    let one = add(&alice, "one.tpr", &[]).await;
    let other = add(&alice, "other.tpr", &[]).await;
    let any_end = NewRow { after_any: Some(vec![one, other]), ..new_row("sum.tpr", &[]) };
    let sum = alice.add(&any_end).await.expect("should add");
    let both = NewRow { after_any: Some(vec![other]), ..new_row("both.tpr", &[one]) };
    let both = alice.add(&both).await.expect("should add");
    assert_eq!(claimed(&submitter).await, [one, other]);
    assert_eq!(
        reason(&alice, sum).await,
        format!("waits for the end of rows {one} (queued), {other} (queued)")
    );
    assert_eq!(
        reason(&alice, both).await,
        format!("waits for row {one} (queued), and waits for the end of row {other} (queued)")
    );

    set(&admin, other, State::Failed).await;
    assert_eq!(reason(&alice, sum).await, format!("waits for the end of row {one} (queued)"));
    let mut listener = submitter.listen().await.expect("should listen");
    set(&admin, one, State::Cancelled).await;
    tokio::time::timeout(Duration::from_secs(30), listener.recv())
        .await
        .expect("submitters should hear of it")
        .expect("should listen");
    assert_eq!(claimed(&submitter).await, [sum], "both of them have ended");
    assert!(
        reason(&alice, both).await.starts_with(&format!("row {one} was cancelled, and this row begins only"))
    );

    // A row that is tried again has not ended.
    set(&admin, one, State::Queued).await;
    assert!(waits(&admin, sum).await);
    set(&admin, one, State::Completed).await;
    assert_eq!(claimed(&submitter).await, [sum, both]);
    set(&admin, other, State::Queued).await;
    assert!(waits(&admin, sum).await && waits(&admin, both).await);
    set(&admin, other, State::Failed).await;
    assert_eq!(alice.remove(&[other]).await.expect("nobody waits for its completion"), [other]);
    assert_eq!(claimed(&submitter).await, [sum, both]);

    let missing = NewRow { after_any: Some(vec![one, 4711]), ..new_row("d.tpr", &[]) };
    let error = alice.add(&missing).await.expect_err("should refuse").to_string();
    assert_eq!(
        error,
        "after_any names row 4711, and alice has no row 4711; name rows that alice added before (rule \
         gromacs_to_tune_after_any_allowed)"
    );
    let last = add(&alice, "last.tpr", &[sum]).await;
    let circle = Edit { after_any: Some(vec![last]), ..Edit::default() };
    let error = alice.edit(&[sum], &circle, false).await.expect_err("should refuse").to_string();
    assert!(
        error.starts_with(&format!("row {sum} cannot come after row {last}, which waits for row {sum}")),
        "{error}"
    );
    let none = Edit { after_any: Some(Vec::new()), ..Edit::default() };
    set(&admin, one, State::Queued).await;
    assert!(waits(&admin, sum).await);
    alice.edit(&[sum], &none, false).await.expect("should change");
    assert!(!waits(&admin, sum).await);
}

#[tokio::test]
async fn the_command_line_says_after_any() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr"]);
    program.good(&["add", "b.tpr", "--after-any", "1"]);
    let shown = program.good(&["show", "2"]);
    assert!(shown.contains("after any") && shown.contains("waits for the end of row 1 (queued)"), "{shown}");
    program.good(&["edit", "2", "--no-after-any"]);
    assert!(!program.good(&["show", "2"]).contains("after any"));
}

/// What a row says of the settings of its file, and of the options of grompp.
async fn settings(store: &Store, row: i64) -> (serde_json::Value, Vec<String>, bool) {
    let asked = "select mdp_options, grompp_options, inspect_again from gromacs_to_tune where id = $1";
    sqlx::query_as(asked).bind(row).fetch_one(store.pool()).await.expect("should be there")
}

#[tokio::test]
async fn a_sweep_sets_settings_of_one_file() {
    let (store, url) = migrated_store("tests").await;
    let program = Program::new(url);
    let grompp = "-f fep.mdp -c start.gro -p topol.top";
    let words = |more: &str| format!("{grompp}{more}").split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
    let sweep = ["fep/{l}.tpr", "--sweep", "l=0..2", "--grompp", grompp, "--mdp", "init-lambda-state={l}"];
    program.good(&[&["add"], &sweep[..], &["--mdp", "define=-DA={l} -DB"]].concat());
    for row in 1..=3 {
        let l = row - 1;
        let expected =
            serde_json::json!({"init-lambda-state": l.to_string(), "define": format!("-DA={l} -DB")});
        assert_eq!(settings(&store, row).await, (expected, words(" -mdp"), false));
    }
    let shown = program.good(&["show", "2"]);
    assert!(shown.contains("\nmdp         define=-DA=1 -DB, init-lambda-state=1\n"), "{shown}");

    // Others take the place of all of them, and the file is made again.
    program.good(&["edit", "1", "--mdp", "ref-t=310"]);
    let (changed, options, again) = settings(&store, 1).await;
    assert_eq!(
        (changed, options.last().map(String::as_str), again),
        (serde_json::json!({"ref-t": "310"}), Some("-mdp"), true)
    );
    program.good(&["edit", "2", "--no-mdp"]);
    let none = (serde_json::json!({}), words(""), true);
    assert_eq!(settings(&store, 2).await, none, "programs of before may compute it");
    program.good(&["edit", "3", "--grompp", "-f other.mdp -c start.gro -p topol.top"]);
    let (_, options, _) = settings(&store, 3).await;
    assert_eq!((options[1].as_str(), options.last().map(String::as_str)), ("other.mdp", Some("-mdp")));
    let refused = program.run(&["edit", "3", "--grompp", ""]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("leave mdp_options out"), "{}", text(&refused.stderr));
}

#[tokio::test]
async fn a_setting_is_one_line_of_a_file_that_the_row_makes() {
    let program = Program::migrated().await;
    let grompp = ["--grompp", "-f a.mdp -c a.gro -p a.top"];
    let add = |settings: &[&str], grompp: &[&str]| {
        let settings = settings.iter().flat_map(|setting| ["--mdp", setting]);
        program.run(&[&["add", "a.tpr"], grompp, &settings.collect::<Vec<_>>()].concat())
    };
    let long = format!("define={}", "x".repeat(4096));
    for (given, grompp, words) in [
        (&["ref-t=300\nnsteps=1"][..], &grompp[..], "mdp_options must be an object of settings"),
        (&["ref-t=300;400"], &grompp, "mdp_options must be"),
        (&["define=\u{1b}[2J"], &grompp, "mdp_options must be"),
        (&["#include=x"], &grompp, "mdp_options must be"),
        (&["a b=1"], &grompp, "mdp_options must be"),
        (&["ref-t\nnsteps=1"], &grompp, "mdp_options must be"),
        (&[&long], &grompp, "mdp_options must be"),
        (&["ref-t=300"], &[], "give grompp_options, too, or leave mdp_options out"),
        (
            &["ref-t=300", "ref_T=310"],
            &grompp,
            "mdp_options has ref-t and ref_T, which are one setting for GROMACS",
        ),
    ] {
        let output = add(given, grompp);
        assert_eq!(output.status.code(), Some(1), "{given:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{given:?}: {}", text(&output.stderr));
    }
    assert_eq!(program.rows(), 0);
    assert!(add(&["define=$(touch hacked) 'a' \"b\" \\1 & `id`", "ref-t="], &grompp).status.success());
    assert!(!std::path::Path::new("hacked").exists());
    // What was refused has taken numbers.
    let row = program.json(&["list"])[0]["id"].to_string();
    let shown = program.json(&["show", &row]);
    let expected = serde_json::json!({"define": "$(touch hacked) 'a' \"b\" \\1 & `id`", "ref-t": ""});
    assert_eq!(shown["simulation"]["mdp_options"], expected);
}
