//! What people see of the queue and change in it: why a row waits, counts, plans, edits; on a real Postgres.

#![allow(clippy::too_many_lines, reason = "a story is told in one piece")]

mod postgres;
mod program;
mod rows;

use std::collections::BTreeSet;

use gromacs_submitter::store::{Changes, Edit, Labels, Moment, NewRow, RowFilter, Store, StoreError};
use postgres::{as_role, migrated_store, store};
use program::{Program, text};
use rows::any;
use scavenger_schema::row;
use scavenger_schema::simulation::{LadderSettings, PrivateState, RowStatus, State};
use serde_json::Value;
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
        .execute("insert into gromacs_tenant (database_role, namespace, max_cpu_millicores) values ('alice', 'lab', 8000)")
        .await
        .expect("should add a tenant");
    let alice = store(&as_role(&url, "alice"), "alice");
    (submitter, admin, alice)
}

async fn reason(store: &Store, row: i64) -> String {
    sqlx::query_scalar("select coalesce(reason, '') from gromacs_queue where id = $1")
        .bind(row)
        .fetch_one(store.pool())
        .await
        .expect("should be there")
}

async fn set(store: &Store, row: i64, state: State) {
    sqlx::query("update gromacs_to_tune set state = $2 where id = $1")
        .bind(row)
        .bind(state.as_str())
        .execute(store.pool())
        .await
        .expect("should set");
}

#[tokio::test]
async fn a_row_that_waits_for_its_turn_says_what_for() {
    let (submitter, admin, alice) = queue().await;
    let row = alice.add(&new_row("a.tpr")).await.expect("should add");
    let other = alice.add(&new_row("b.tpr")).await.expect("should add");
    assert_eq!(
        reason(&alice, row).await,
        "waits for its turn: no submitter runs; start gromacs-submitter run"
    );
    submitter.is_alive(2).await.expect("should say so");
    assert_eq!(reason(&alice, row).await, "waits for its turn");
    admin
        .pool()
        .execute("update gromacs_submitter_seen set seen_time = now() - interval '12 minutes'")
        .await
        .expect("should set");
    assert_eq!(reason(&alice, row).await, "waits for its turn: no submitter has been heard of for 12 min");
    submitter.is_alive(1).await.expect("should say so");

    set(&admin, other, State::Submitted).await;
    assert_eq!(
        reason(&alice, row).await,
        "waits for its turn: 1 row of alice waits in the cluster, the limit of the submitter is 1"
    );
    admin
        .pool()
        .execute("update gromacs_tenant set max_rows_in_work = 1 where database_role = 'alice'")
        .await
        .expect("should set");
    assert_eq!(
        reason(&alice, row).await,
        "waits for its turn: 1 row is in work in namespace lab, the limit of the tenant is 1"
    );
    set(&admin, other, State::Completed).await;
    assert_eq!(reason(&alice, row).await, "waits for its turn");

    let mut transaction = alice.pool().begin().await.expect("should begin");
    sqlx::query("select from gromacs_to_tune where id = $1 for update")
        .bind(row)
        .execute(&mut *transaction)
        .await
        .expect("should lock");
    assert_eq!(
        reason(&submitter, row).await,
        "waits for its turn: an open transaction holds the row; commit it"
    );
    assert_eq!(reason(&submitter, other).await, "");
    transaction.rollback().await.expect("should end");
    assert_eq!(reason(&alice, row).await, "waits for its turn");
    alice.set_held(&[row], true).await.expect("should hold");
    assert_eq!(reason(&alice, row).await, "is held; release it to begin");
    submitter.is_gone().await.expect("should say so");
    alice.set_held(&[row], false).await.expect("should release");
    assert!(reason(&alice, row).await.contains("no submitter runs"));
}

#[tokio::test]
async fn rows_are_counted_without_reading_them() {
    let (submitter, admin, alice) = queue().await;
    let counts = || async {
        let mut counts = submitter.count_by_state().await.expect("should count");
        counts.sort();
        counts
    };
    assert_eq!(counts().await, []);
    for number in 0..5 {
        alice.add(&new_row(&format!("{number}.tpr"))).await.expect("should add");
    }
    set(&admin, 1, State::Running).await;
    set(&admin, 2, State::Failed).await;
    let expected =
        [("failed", 1), ("queued", 3), ("running", 1)].map(|(state, rows)| (state.to_owned(), rows));
    assert_eq!(counts().await, expected);
    assert_eq!(counts().await, expected, "summed up, it is the same");
    alice.remove(&[2]).await.expect("should remove");
    assert_eq!(counts().await, expected[1..]);
    let lines: i64 = sqlx::query_scalar("select count(*) from gromacs_state_count")
        .fetch_one(admin.pool())
        .await
        .expect("should count");
    assert!(lines <= 3, "{lines} lines are left");
}

/// What chemists and submitters ask, with many rows of two owners: no plan reads the table.
#[tokio::test]
async fn no_question_reads_the_whole_table() {
    // A quick run has fewer; Postgres already reads this table only where it must.
    let row_count: i64 = if std::env::var_os("SCAVENGER_E2E_REPEAT").is_some() { 1_000_000 } else { 200_000 };
    let (submitter, admin, alice) = queue().await;
    let mut connection = admin.pool().acquire().await.expect("should connect");
    connection.execute("set session_replication_role = replica").await.expect("should prepare");
    sqlx::query(
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path, run_as_user,
            interruption_after_seconds, state, project, after, waits_for_rows)
        select case when n % 2 = 0 then 'alice' else 'rich' end, 'lab', 'data', n || '.tpr', 1000, 600,
            case when n % 100 = 0 then 'queued' when n % 1000 = 1 then 'running' else 'completed' end, 'p' || n % 50,
            case when n % 200 = 0 then array[n - 100] else '{}' end, n % 200 = 0
        from generate_series(1, $1) n",
    )
    .bind(row_count)
    .execute(&mut *connection)
    .await
    .expect("should insert");
    connection.execute("analyze gromacs_to_tune").await.expect("should analyze");
    let list = |condition: &str| {
        format!(
            "select * from gromacs_queue q where q.id = any(array(select q.id from gromacs_to_tune q where {condition}
                order by q.id desc limit 200) || '{{}}'::bigint[]) order by q.id desc"
        )
    };
    let open = "q.state = any('{queued,inspecting,tuning,submitted,running,interrupted}')";
    let questions = [
        (&alice, list("true")),
        (&alice, list(open)),
        (&alice, list("q.project = 'p7'")),
        (&alice, list("(q.deadline is not null and gromacs_late_seconds(q) is not null)")),
        (&alice, "select * from gromacs_queue order by id desc limit 200".to_owned()),
        (&alice, "select * from gromacs_queue where id = 4711".to_owned()),
        (&submitter, list("true")),
        (
            &submitter,
            "select count(*) from gromacs_to_tune q where q.owner = 'alice' and q.namespace = 'lab'
            and q.state = 'running'"
                .to_owned(),
        ),
        (
            &submitter,
            "select count(*) from gromacs_to_tune where deadline is not null
            and state not in ('completed', 'failed', 'cancelled') and (late_seconds is not null or deadline < now())"
                .to_owned(),
        ),
        (
            &submitter,
            "select distinct namespace from gromacs_to_tune
            where state in ('inspecting', 'tuning', 'submitted', 'running', 'interrupted')"
                .to_owned(),
        ),
        (
            &submitter,
            "select q.id from gromacs_to_tune q where q.after <> '{}' and q.after @> array[100::bigint]
            and q.waits_for_rows order by q.id for update"
                .to_owned(),
        ),
        (
            &submitter,
            "select q.id from gromacs_to_tune q where q.owner = 'alice' and q.start_time is not null
            order by q.id desc limit 30"
                .to_owned(),
        ),
        (
            &submitter,
            "select id, gromacs_waits_for(id, after) from gromacs_to_tune
            where state = 'queued' and waits_for_rows order by id limit 200"
                .to_owned(),
        ),
    ];
    for (store, question) in questions {
        let plan: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("explain {question}")))
            .fetch_all(store.pool())
            .await
            .expect("should plan");
        let plan = plan.join("\n");
        assert!(!plan.contains("Seq Scan on gromacs_to_tune"), "{question}\n{plan}");
    }
    // As the command line asks: the newest of half the rows, without reading the others.
    let rows = alice.list(&RowFilter { limit: Some(3), ..RowFilter::default() }).await.expect("should list");
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_i64().unwrap_or_default()).collect();
    assert_eq!(ids, [row_count - 4, row_count - 2, row_count]);
    // What a claim and the completion of a row run is in functions: nothing of it reads the table, nor rows that wait.
    let scans = || async {
        let mut connection = admin.pool().acquire().await.expect("should connect");
        connection.execute("select pg_stat_force_next_flush()").await.expect("should ask");
        let scans: i64 =
            sqlx::query_scalar("select seq_scan from pg_stat_user_tables where relname = 'gromacs_to_tune'")
                .fetch_one(&mut *connection)
                .await
                .expect("should read");
        scans
    };
    let before = scans().await;
    let claimed = submitter.claim(&any(4)).await.expect("should claim");
    assert!(claimed.iter().all(|claim| claim.row.after.is_empty()), "{claimed:?}");
    let completed = admin
        .pool()
        .execute("update gromacs_to_tune set state = 'completed' where id = 100")
        .await
        .expect("should complete");
    assert_eq!(completed.rows_affected(), 1);
    assert!(!waits(&admin, 200).await, "it came after row 100");
    assert!(waits(&admin, 400).await);
    assert_eq!(scans().await, before, "something read the whole table");
}

async fn waits(store: &Store, row: i64) -> bool {
    sqlx::query_scalar("select waits_for_rows from gromacs_to_tune where id = $1")
        .bind(row)
        .fetch_one(store.pool())
        .await
        .expect("should be there")
}

#[tokio::test]
async fn owners_edit_what_is_queued_or_has_ended() {
    let (submitter, admin, alice) = queue().await;
    let row = alice.add(&new_row("a.tpr")).await.expect("should add");
    let cores = |millicores| Edit { max_cpu_millicores: Some(millicores), ..Edit::default() };
    let edit = |edit: Edit| {
        let alice = &alice;
        async move { alice.edit(&[row], &edit, false).await }
    };
    assert_eq!(edit(cores(4000)).await.expect("should change"), [row]);
    // The tenant's limit holds.
    let error = edit(cores(16_000)).await.expect_err("should refuse");
    assert!(
        error.to_string().starts_with("max_cpu_millicores is 16000, but namespace lab allows at most 8000"),
        "{error}"
    );
    admin
        .pool()
        .execute("update gromacs_to_tune set inspected = '{}', pinned_image = 'x@sha256:1'")
        .await
        .expect("should set");
    edit(Edit {
        image: Some("gromacs:2".to_owned()),
        priority: Some(7),
        append: Some(false),
        mdrun_options: Some(vec!["-dlb".to_owned(), "no".to_owned()]),
        node_labels: Some(Labels([("kubernetes.io/arch".to_owned(), "arm64".to_owned())].into())),
        ..Edit::default()
    })
    .await
    .expect("should change");
    let claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    assert_eq!(
        (claim.row.image.as_deref(), claim.row.priority, claim.row.append, claim.row.max_cpu_millicores),
        (Some("gromacs:2"), 7, Some(false), Some(4000))
    );
    assert_eq!(claim.row.mdrun_options, ["-dlb", "no"]);
    assert_eq!(claim.row.node_labels.get("kubernetes.io/arch").map(String::as_str), Some("arm64"));
    for (name, value) in [("no label", "x"), ("arch", "a b"), ("/arch", "x")] {
        let labels = Some(Labels([(name.to_owned(), value.to_owned())].into()));
        let error = edit(Edit { node_labels: labels, ..Edit::default() }).await.expect_err("should refuse");
        assert!(error.to_string().contains("node_labels must be an object"), "{error}");
    }
    assert_eq!(
        (claim.row.pinned_image, claim.row.status.inspect_again),
        (None, true),
        "another image reads again"
    );

    let names = Edit {
        project: Some("water".to_owned()),
        labels: Some(Labels([("T".to_owned(), "310".to_owned())].into())),
        ..Edit::default()
    };
    for (state, may_change) in [
        (State::Running, false),
        (State::Interrupted, false),
        (State::Failed, true),
        (State::Completed, true),
    ] {
        set(&admin, row, state).await;
        let changed = edit(cores(2000)).await;
        assert_eq!(changed.is_ok(), may_change, "{state}: {changed:?}");
        if let Err(error) = changed {
            assert!(matches!(error, StoreError::BreakRule(_)), "{error}");
            assert!(error.to_string().contains("cancel it, change it, and retry"), "{error}");
        }
        assert_eq!(edit(names.clone()).await.expect("names can always be changed"), [row], "{state}");
    }
    // Labels are added to, and a dry run takes back.
    let more =
        Edit { labels: Some(Labels([("lambda".to_owned(), "0.3".to_owned())].into())), ..Edit::default() };
    alice.edit(&[row], &more, true).await.expect("should try");
    alice.edit(&[row], &more, false).await.expect("should change");
    let found = alice
        .select(&RowFilter {
            labels: [("T".to_owned(), "310".to_owned()), ("lambda".to_owned(), "0.3".to_owned())].into(),
            project: Some("water".to_owned()),
            ..RowFilter::default()
        })
        .await
        .expect("should select");
    assert_eq!(found, [(row, "completed".to_owned())]);
    let bad = Edit { labels: Some(Labels([("a=b".to_owned(), String::new())].into())), ..Edit::default() };
    let error = alice.edit(&[row], &bad, false).await.expect_err("should refuse");
    assert!(error.to_string().contains("labels must be an object"), "{error}");
    // Nobody else's.
    let theirs = submitter.add(&new_row("b.tpr")).await.expect("should add");
    assert_eq!(
        alice.edit(&[theirs], &cores(1000), false).await.expect("should find none"),
        Vec::<i64>::new()
    );
}

#[tokio::test]
async fn what_the_inspection_found_is_written_and_read_again() {
    let (submitter, _, alice) = queue().await;
    let mut given = new_row("a.tpr");
    given.system.atoms = Some(9);
    alice.add(&given).await.expect("should add");
    let answer = include_str!("fixtures/inspection-2022.txt");
    let mut claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    for (nsteps, locks) in [(4000, "no"), (8000, "yes")] {
        let text = format!("{}\nlocks={locks}\n", answer.replace("nsteps=4000", &format!("nsteps={nsteps}")));
        let mut inspection = gromacs_submitter::probe::parse_inspection(&text).expect("should be read");
        inspection.image = Some("gromacs@sha256:1".to_owned());
        let changes = Changes { inspection: Some(inspection), ..Changes::default() };
        let status = RowStatus {
            state: State::Inspecting,
            private: PrivateState { start_failures: 2, ..claim.row.status.private.clone() },
            ..claim.row.status.clone()
        };
        claim = submitter.record(&claim, &status, &changes).await.expect("should record");
        assert_eq!((claim.row.system.atoms, claim.row.system.nsteps), (Some(9), Some(nsteps)));
        assert_eq!(claim.row.append, Some(false), "what was found first stays");
        assert_eq!(claim.row.pinned_image.as_deref(), Some("gromacs@sha256:1"));
        assert_eq!(claim.row.status, status);
    }
    // A digest that is gone from its registry.
    let changes = Changes { forgets_image: true, ..Changes::default() };
    let written = submitter.record(&claim, &claim.row.status, &changes).await.expect("should record");
    assert_eq!((written.row.pinned_image, written.row.inspected), (None, claim.row.inspected.clone()));
}

#[tokio::test]
async fn a_file_system_that_cannot_lock_is_remembered() {
    let (submitter, _, alice) = queue().await;
    let given = NewRow { append: Some(true), ..new_row("a.tpr") };
    alice.add(&given).await.expect("should add");
    let claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    assert_eq!(claim.row.append, Some(true));
    let changes = Changes { stops_appending: true, ..Changes::default() };
    let written = submitter.record(&claim, &claim.row.status, &changes).await.expect("should record");
    assert_eq!(written.row.append, Some(false));
}

#[tokio::test]
async fn what_mdrun_refused_is_remembered_until_somebody_retries() {
    use gromacs_submitter::advance::Refused;
    let (submitter, _, alice) = queue().await;
    let row = alice.add(&new_row("a.tpr")).await.expect("should add");
    let mut claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    let ladder = Some(vec![rows::rung(1, 2000), rows::rung(2, 1000)]);
    let status = claim.row.status.clone();
    claim = submitter
        .record(&claim, &status, &Changes { ladder, ..Changes::default() })
        .await
        .expect("should record");
    let refused = Some(Refused { rung: 2, words: "no domains".to_owned() });
    let status = RowStatus { submission: 2, ..claim.row.status.clone() };
    claim = submitter
        .record(&claim, &status, &Changes { refused, ..Changes::default() })
        .await
        .expect("should record");
    let refusals = submitter.refusals(row).await.expect("should read");
    assert_eq!(refusals.iter().map(|refusal| refusal.words.as_str()).collect::<Vec<_>>(), ["no domains"]);
    let status = claim.row.status.clone();
    let changes = Changes { clears_requests: true, ..Changes::default() };
    submitter.record(&claim, &status, &changes).await.expect("should record");
    assert_eq!(submitter.refusals(row).await.expect("should read"), []);
}

#[tokio::test]
async fn projects_holds_edits_and_removals_on_the_command_line() {
    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "b.tpr", "--project", "water", "--label", "T=310", "--hold"]);
    program.good(&["add", "c.tpr", "--project", "water", "--label", "T=300,lambda=0.3"]);
    program.good(&["add", "d.tpr"]);
    let ids = |arguments: &[&str]| -> Vec<i64> {
        let rows = program.json(arguments);
        rows.as_array().expect("a list").iter().filter_map(|row| row["id"].as_i64()).collect()
    };
    assert_eq!(ids(&["list", "--project", "water"]), [1, 2, 3]);
    assert_eq!(ids(&["list", "--label", "T=310"]), [1, 2]);
    assert_eq!(ids(&["list", "--label", "T=300", "--label", "lambda=0.3"]), [3]);
    let table = program.good(&["list"]);
    assert!(table.starts_with("ROW  PROJECT  STATE") && table.contains("is held; release it"), "{table}");
    let cut = program.run(&["list", "--limit", "1"]);
    assert!(cut.stderr.is_empty(), "who says how many knows it");

    assert_eq!(program.good(&["release", "1"]), "row 1: released\n");
    assert_eq!(program.good(&["hold", "3"]), "row 3: held\n");
    let refused = program.run(&["hold", "--in-project", "water"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("this would hold 3 rows; say --yes"), "{}", text(&refused.stderr));
    assert_eq!(program.good(&["hold", "--with-label", "T=310", "--yes"]), "row 1: held\nrow 2: held\n");

    assert_eq!(program.good(&["edit", "4", "--priority", "-5", "--project", "ice"]), "row 4: changed\n");
    assert_eq!(program.good(&["edit", "4", "--dry-run", "--priority", "3"]), "row 4: would be changed\n");
    let story = program.json(&["show", "4"]);
    assert_eq!((&story["simulation"]["priority"], &story["row"]["project"]), (&(-5).into(), &"ice".into()));
    let nothing = program.run(&["edit", "4"]);
    assert_eq!(nothing.status.code(), Some(2), "nothing to change");
    let missing = program.run(&["edit", "99", "--priority", "3"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("row 99: there is no such row"));

    program
        .sql(
            "update gromacs_to_tune set state = 'failed', nsteps = 1000, dt_ps = 0.002,
                reason = 'mdrun failed: Too many LINCS warnings (1001)' where id = 1;
            update gromacs_to_tune set state = 'completed', nsteps = 1000, dt_ps = 0.002 where id = 2;
            update gromacs_to_tune set state = 'running', nsteps = 1000, dt_ps = 0.002, step = 500, ns_per_day = 8.64
                where id = 3",
        )
        .await;
    // 0.001 ns are left, and 8.64 ns are a day: 10 s.
    assert_eq!(
        program.good(&["list", "--by-project"]),
        "ice: 0 of 1 done, 1 waiting\n\
         water: 1 of 3 done, 1 failed (1x Too many LINCS warnings (N)), 1 running, the rest in about 10 s\n"
    );
    let sums = program.json(&["list", "--by-project", "--project", "water"]);
    assert_eq!((&sums[0]["rows"], &sums[0]["failed"]), (&3.into(), &1.into()));

    let refused = program.run(&["rm", "3"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("only completed, failed and cancelled rows can be removed"));
    assert_eq!(program.good(&["rm", "--dry-run", "1"]), "row 1: would remove it, it is failed\n");
    assert_eq!(program.good(&["rm", "1", "2"]), "row 1: removed\nrow 2: removed\n");
    assert_eq!(ids(&["list"]), [3, 4]);
}

#[tokio::test]
async fn the_least_that_a_row_runs_with() {
    let (submitter, _, alice) = queue().await;
    let least = |cpu, speed| NewRow {
        min_cpu_millicores: Some(cpu),
        min_ns_per_day: Some(speed),
        ..new_row("a.tpr")
    };
    let row = alice.add(&least(2000, 10.0)).await.expect("should add");
    let edit = Edit { min_cpu_millicores: Some(4000), min_ns_per_day: Some(0.0), ..Edit::default() };
    assert_eq!(alice.edit(&[row], &edit, false).await.expect("should change"), [row]);
    let claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    assert_eq!((claim.row.min_cpu_millicores, claim.row.min_ns_per_day), (Some(4000), Some(0.0)));
    // The tenant allows 8000.
    for (cpu, speed, words) in [
        (9000, 0.0, "min_cpu_millicores must be between 0 and 1024000"),
        (-1, 0.0, "min_cpu_millicores must be between 0 and 1024000"),
        (0, -1.0, "min_ns_per_day must be between 0 and 1000000"),
        (0, f64::NAN, "min_ns_per_day must be between 0 and 1000000"),
    ] {
        let error = alice.add(&least(cpu, speed)).await.expect_err("should refuse");
        assert!(error.to_string().starts_with(words), "{error}");
    }
    let calibration =
        "insert into gromacs_to_tune (kind, namespace, persistent_volume_claim, benchmark_atoms,
            benchmark_ranks, benchmark_threads, nsteps, min_ns_per_day)
        values ('calibration', 'lab', 'data', 10000, 1, 1, 1000, 5)";
    let error = alice.pool().execute(calibration).await.map_err(StoreError::from).expect_err("should refuse");
    assert!(error.to_string().starts_with("a calibration runs with one configuration"), "{error}");

    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "--min-cpu-millicores", "2500", "--min-ns-per-day", "12.5"]);
    let table = program.with_stdin(&["add", "--from", "-"], "tpr_path,min_ns_per_day\nb.tpr,3\n");
    assert!(table.status.success(), "{}", text(&table.stderr));
    let story = program.good(&["show", "1"]);
    assert!(story.contains("at least 2.5 cores, at least 12.5 ns/day"), "{story}");
    program.good(&["edit", "1", "--min-cpu-millicores", "0", "--min-ns-per-day", "0"]);
    assert!(!program.good(&["show", "1"]).contains("at least"));
    assert_eq!(program.json(&["show", "2"])["simulation"]["min_ns_per_day"], 3.0);
}

/// Whatever a row need not say can be taken back by who may say it.
#[tokio::test]
async fn what_was_said_is_taken_back() {
    let (_, _, alice) = queue().await;
    let said = NewRow {
        project: Some("water".to_owned()),
        image: Some("gromacs:2".to_owned()),
        append: Some(false),
        deadline: Some(Moment::In(1e6)),
        max_cpu_millicores: Some(2000),
        max_memory_bytes: Some(1 << 30),
        max_gpus: Some(1),
        min_cpu_millicores: Some(500),
        min_ns_per_day: Some(1.0),
        ladder_settings: LadderSettings {
            min_efficiency: Some(0.5),
            max_configurations: Some(3),
            gpu_price: Some(2.0),
            memory_price: Some(0.5),
        },
        interruption_after_seconds: Some(1200),
        fallback_after_seconds: Some(60),
        ..new_row("a.tpr")
    };
    let row = alice.add(&said).await.expect("should add");
    let plain = alice.add(&new_row("a.tpr")).await.expect("should add");
    let columns = |row| {
        let alice = &alice;
        async move {
            let all: Value = sqlx::query_scalar(
                "select to_jsonb(q) - 'id' - 'uuid' - 'creation_time' - 'next_attempt_time' - 'state_time' - 'wakes' - 'inspect_again'
                from gromacs_to_tune q where id = $1",
            )
            .bind(row)
            .fetch_one(alice.pool())
            .await
            .expect("should be there");
            all
        }
    };
    assert_ne!(columns(row).await, columns(plain).await);
    let all: BTreeSet<&str> = row::can_be_unset().map(|column| column.name).collect();
    let unset = Edit { unset: all.clone(), ..Edit::default() };
    assert!(!unset.is_always_possible());
    alice.edit(&[row], &unset, true).await.expect("should try");
    assert_ne!(columns(row).await, columns(plain).await, "it was only tried");
    assert_eq!(alice.edit(&[row], &unset, false).await.expect("should change"), [row]);
    // The tenant's limit and the usual interval are there again.
    let (now, before) = (columns(row).await, columns(plain).await);
    assert_eq!(now, before);
    assert_eq!((&now["max_cpu_millicores"], &now["interruption_after_seconds"]), (&8000.into(), &600.into()));

    // What stops nothing can be taken back at any time.
    let names = Edit { unset: ["project", "deadline"].into(), ..Edit::default() };
    assert!(names.is_always_possible());
    let (_, admin, alice) = queue().await;
    let row = alice.add(&said).await.expect("should add");
    set(&admin, row, State::Running).await;
    assert_eq!(alice.edit(&[row], &names, false).await.expect("should change"), [row]);
    let error = alice.edit(&[row], &unset, false).await.expect_err("should refuse");
    assert!(error.to_string().contains("cancel it, change it, and retry"), "{error}");

    let program = Program::migrated().await;
    program.good(&["add", "a.tpr", "--min-efficiency", "0.5", "--max-gpus", "1", "--deadline", "3d"]);
    let value = |column: &str| program.json(&["show", "1"])["simulation"][column].clone();
    assert_eq!(program.good(&["edit", "1", "--unset", "min-efficiency,max_gpus"]), "row 1: changed\n");
    assert_eq!((value("min_efficiency"), value("max_gpus")), (Value::Null, Value::Null));
    assert!(value("deadline").is_string());
    program.good(&["edit", "1", "--unset", "deadline", "--unset", "project"]);
    assert_eq!(value("deadline"), Value::Null);
    for (arguments, words) in [
        (
            &["edit", "1", "--min-efficiency", "0.7", "--unset", "min-efficiency"][..],
            "--min-efficiency says a value, and --unset takes it back; leave one of them out",
        ),
        (&["edit", "1", "--unset", "namespace"], "possible values: project, image, append, deadline"),
    ] {
        let refused = program.run(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(text(&refused.stderr).contains(words), "{}", text(&refused.stderr));
    }
}

#[tokio::test]
async fn the_view_shows_deadlines_and_how_many_simulations_a_row_has() {
    let (submitter, admin, alice) = queue().await;
    alice.add(&new_row("a.tpr")).await.expect("should add");
    let folders = ["sim0", "sim1", "sim2"].map(ToOwned::to_owned).to_vec();
    let several = NewRow {
        multidir: Some(folders.clone()),
        deadline: Some(Moment::At("2026-01-01T00:00:00Z".parse().expect("should be a time"))),
        ..new_row("ens/topol.tpr")
    };
    let row = alice.add(&several).await.expect("should add");
    let found: Vec<(i64, i32, bool, bool)> = sqlx::query_as(
        "select id, simulations, deadline is not null, late_seconds > 0 is true from gromacs_queue order by id",
    )
    .fetch_all(alice.pool())
    .await
    .expect("should read");
    assert_eq!(found, [(1, 1, false, false), (row, 3, true, true)]);
    // A kubelet or an operator whose clock is ahead: nothing lasts for less than no time.
    sqlx::query(
        "insert into gromacs_attempt (row_id, submission, attempt, creation_time, start_time)
        values ($1, 1, 1, now(), now() + interval '3 hours')",
    )
    .bind(row)
    .execute(submitter.pool())
    .await
    .expect("should play the submitter");
    let start =
        "update gromacs_to_tune set state = 'running', start_time = now() + interval '3 hours' where id = 2";
    admin.pool().execute(start).await.expect("should set");
    let times = "select wall_seconds, run_seconds from gromacs_queue where id = 2";
    let times: (i64, i64) = sqlx::query_as(times).fetch_one(alice.pool()).await.expect("should read");
    assert_eq!(times, (0, 0));
    let listed = alice.list(&RowFilter::default()).await.expect("should list");
    assert_eq!((&listed[1]["simulations"], &listed[1]["run_seconds"]), (&3.into(), &0.into()));
    assert!(listed[1]["late_seconds"].as_i64() > Some(0) && listed[1]["deadline"].is_string(), "{listed:?}");
    let story = alice.show(row).await.expect("should show").expect("should be there");
    assert_eq!((&story["row"]["simulations"], &story["attempts"][0]["run_seconds"]), (&3.into(), &0.into()));
    // Where its files are, and whose logs there may be.
    let folder = alice.folder(row).await.expect("should read").expect("should be there");
    assert_eq!((folder.path().as_str(), folder.multidir), ("ens/gromacs-2", folders));
    assert_eq!(story["simulation"]["uuid"], folder.uuid, "people find what is marked with it");

    let program = Program::migrated().await;
    program.good(&["add", "ens/topol.tpr", "--multidir", "sim0", "sim1", "--deadline", "2026-01-01"]);
    let table = program.good(&["list"]);
    assert!(table.starts_with("ROW  SIMULATIONS  STATE"), "{table}");
    let rows = program.json(&["list"]);
    assert_eq!((&rows[0]["simulations"], rows[0]["deadline"].is_string()), (&2.into(), true));
    let refused = program.run(&["logs", "1", "--mdrun", "--simulation", "sim2"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("row 1 has not run"), "{}", text(&refused.stderr));
}

/// What a restart costs: of the row, else of its owner's newest rows, and of nobody else's.
#[tokio::test]
async fn a_restart_costs_what_the_row_or_its_owner_measured() {
    let (submitter, admin, alice) = queue().await;
    for file in ["a.tpr", "b.tpr", "c.tpr"] {
        alice.add(&new_row(file)).await.expect("should add");
    }
    let theirs = submitter.add(&new_row("d.tpr")).await.expect("should add");
    let claims = submitter.claim(&any(10)).await.expect("should claim");
    let row = |id: i64| {
        let claim = claims.iter().find(|claim| claim.row.id == id);
        claim.expect("should be claimed").row.clone()
    };
    let ask = |id: i64| {
        let (submitter, row) = (&submitter, row(id));
        async move { submitter.restart_seconds(&row).await.expect("should ask") }
    };
    let measured = |id: i64, attempt: i32, seconds: i32| {
        let admin = &admin;
        async move {
            sqlx::query(
                "with started as (update gromacs_to_tune set start_time = now() where id = $1)
                insert into gromacs_attempt (row_id, submission, attempt, creation_time, restart_seconds)
                values ($1, 1, $2, now(), $3)",
            )
            .bind(id)
            .bind(attempt)
            .bind(seconds)
            .execute(admin.pool())
            .await
            .expect("should play the submitter");
        }
    };
    assert_eq!(ask(1).await, None);
    measured(theirs, 1, 500).await;
    assert_eq!(ask(1).await, None, "somebody else's");
    measured(2, 1, 20).await;
    measured(2, 2, 25).await;
    assert_eq!((ask(1).await, ask(2).await), (Some(25), Some(25)));
    measured(1, 1, 40).await;
    assert_eq!(ask(1).await, Some(40), "its own comes first");
    // One start that took long does not count for all.
    for attempt in 2..=20 {
        measured(1, attempt, if attempt == 15 { 3000 } else { attempt }).await;
    }
    assert_eq!(ask(1).await, Some(20));
    assert_eq!(ask(3).await, Some(25), "of all of the owner's");
}
