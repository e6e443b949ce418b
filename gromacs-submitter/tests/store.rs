//! Every query, on a real Postgres: defaults, rules, claims by two submitters at once, history, the view.

#![allow(clippy::too_many_lines, reason = "a story is told in one piece")]

mod postgres;
mod rows;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use gromacs_submitter::advance::{AttemptRecord, Measurement, Observation, Place, with_failure};
use gromacs_submitter::probe::parse_inspection;
use gromacs_submitter::store::{Changes, Claim, ClaimOptions, NewRow, RowFilter, Store, StoreError};
use gromacs_submitter::view::{AttemptView, NodeView};
use jiff::{SignedDuration, Timestamp};
use postgres::{as_role, empty_database, migrated_store, store};
use rows::{any, rung};
use scavenger_schema::simulation::{RowStatus, State};
use scavenger_schema::tuning::SystemDescription;
use scavenger_vocabulary::Outcome;

const ANSWER: &str = include_str!("fixtures/inspection-2022.txt");

fn new_row(tpr_path: &str) -> NewRow {
    NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: tpr_path.to_owned(),
        ..NewRow::default()
    }
}

async fn claim_one(store: &Store) -> Claim {
    let mut claims = store.claim(&any(1)).await.expect("should claim");
    assert_eq!(claims.len(), 1, "should find a row that is due");
    claims.remove(0)
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("should be a time")
}

fn zen3() -> BTreeMap<String, String> {
    BTreeMap::from([("node.kubernetes.io/instance-type".to_owned(), "c6a.16xlarge".to_owned())])
}

fn attempt(number: i32, rung: i32, outcome: Option<Outcome>) -> AttemptRecord {
    AttemptRecord {
        view: AttemptView {
            number,
            rung: Some(rung),
            is_superseded: false,
            cpu_millicores: Some(1000),
            memory_bytes: Some(314_572_800),
            gpus: Some(0),
            node: Some(NodeView {
                name: "worker-1".to_owned(),
                labels: zen3(),
                cpu_millicores: Some(8000),
                requested_millicores: Some(3000),
            }),
            args: vec!["-v".to_owned()],
            creation_time: now(),
            start_time: Some(now()),
            end_time: outcome.map(|_| now() + SignedDuration::from_secs(60)),
            outcome,
            reason: None,
            message: None,
            lost_seconds: None,
        },
        first_step: Some(0),
        last_step: None,
        measured: None,
        peak_memory_bytes: None,
        log_end: None,
        restart_seconds: None,
    }
}

#[tokio::test]
async fn migrations_apply_from_zero_and_again() {
    let url = empty_database().await;
    let store = store(&url, "a");
    let error = store.check_schema().await.expect_err("should refuse an empty database");
    assert!(matches!(error, StoreError::UseSchema { found: 0, .. }), "{error}");
    assert!(error.to_string().contains("gromacs-submitter migrate"), "{error}");
    let version = store.migrate().await.expect("should migrate from zero");
    assert_eq!(store.migrate().await.expect("should migrate again"), version);
    store.check_schema().await.expect("should be new enough");
    let first = store.queue_id().await.expect("should have an identity");
    assert_eq!(store.queue_id().await.expect("should have an identity"), first);
}

#[tokio::test]
async fn every_column_says_what_it_holds() {
    let (store, _) = migrated_store("a").await;
    let silent: Vec<String> = sqlx::query_scalar(
        "select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relname like 'gromacs_%' and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
            and col_description(c.oid, a.attnum) is null",
    )
    .fetch_all(store.pool())
    .await
    .expect("should list the columns");
    assert!(silent.is_empty(), "columns without a comment: {silent:?}");
}

#[tokio::test]
async fn an_insert_needs_three_columns() {
    let (store, _) = migrated_store("a").await;
    let id: i64 = sqlx::query_scalar(
        "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path)
        values ('lab', 'data', 'water/my file.tpr') returning id",
    )
    .fetch_one(store.pool())
    .await
    .expect("should insert");
    let claim = claim_one(&store).await;
    assert_eq!((claim.row.id, claim.row.owner.as_str()), (id, "worker"));
    assert_eq!(claim.row.status.state, State::Queued);
    assert_eq!((claim.row.run_as_user, claim.row.interruption_after_seconds), (1000, 600));
    assert_eq!(claim.row.inspected, None);
}

#[tokio::test]
async fn bad_values_are_refused_with_a_sentence() {
    let (store, _) = migrated_store("a").await;
    let long = format!("{}.tpr", "a".repeat(10_000));
    for path in [
        "",
        "/etc/x.tpr",
        "../x.tpr",
        "a/../x.tpr",
        "a//b.tpr",
        "a\nb.tpr",
        "./x.tpr",
        "x.gro",
        ".tpr",
        "a/.tpr",
        &long,
    ] {
        let error = store.add(&new_row(path)).await.expect_err(path);
        assert!(matches!(error, StoreError::BreakRule(_)), "{path:?}: {error}");
        assert!(error.to_string().contains("tpr_path must be"), "{error}");
    }
    for path in [
        "x.tpr",
        "a b/x.tpr",
        "it's.tpr",
        "a/\"$(id)`.tpr",
        "..a/b..c.tpr",
        "日本/水.tpr",
        "'; drop table gromacs_to_tune; --.tpr",
    ] {
        store.add(&new_row(path)).await.expect(path);
    }
    for namespace in ["", "Lab", "a b", "a/b", "-a", &"a".repeat(64)] {
        let new = NewRow { namespace: namespace.to_owned(), ..new_row("x.tpr") };
        let error = store.add(&new).await.expect_err(namespace);
        assert!(error.to_string().contains("is not one of yours (lab)"), "{error}");
    }
    for (new, field) in [
        (NewRow { persistent_volume_claim: "a_b".to_owned(), ..new_row("x.tpr") }, "persistent_volume_claim"),
        (NewRow { image: Some("a b".to_owned()), ..new_row("x.tpr") }, "image"),
        (NewRow { run_as_user: Some(0), ..new_row("x.tpr") }, "run_as_user"),
        (NewRow { max_cpu_millicores: Some(1), ..new_row("x.tpr") }, "max_cpu_millicores"),
        (NewRow { interruption_after_seconds: Some(0), ..new_row("x.tpr") }, "interruption_after_seconds"),
        (NewRow { fallback_after_seconds: Some(0), ..new_row("x.tpr") }, "fallback_after_seconds"),
    ] {
        let error = store.add(&new).await.expect_err(field);
        assert!(error.to_string().starts_with(field), "{error}");
    }
}

#[tokio::test]
async fn two_submitters_never_claim_the_same_row() {
    let (first, url) = migrated_store("first").await;
    let second = store(&url, "second");
    for number in 0..200 {
        first.add(&new_row(&format!("{number}.tpr"))).await.expect("should add");
    }
    let claim_all = |store: Store| async move {
        let mut ids = Vec::new();
        loop {
            let options = ClaimOptions { except: ids.clone(), ..any(7) };
            let claims = store.claim(&options).await.expect("should claim");
            if claims.is_empty() {
                return ids;
            }
            ids.extend(claims.iter().map(|claim| claim.row.id));
        }
    };
    let (left, right) = tokio::join!(tokio::spawn(claim_all(first)), tokio::spawn(claim_all(second)));
    let (left, right) = (left.expect("should not panic"), right.expect("should not panic"));
    let all: HashSet<i64> = left.iter().chain(&right).copied().collect();
    assert_eq!((left.len() + right.len(), all.len()), (200, 200));
}

#[tokio::test]
async fn a_lease_keeps_others_away_and_ends() {
    let (first, url) = migrated_store("first").await;
    let second = store(&url, "second");
    first.add(&new_row("x.tpr")).await.expect("should add");
    let claim = claim_one(&first).await;
    assert!(second.claim(&any(1)).await.expect("should claim").is_empty());
    // Its own lease on a row that it does not work on any more was left behind by a failed write.
    assert_eq!(claim_one(&first).await.row.id, claim.row.id);
    sqlx::query("update gromacs_to_tune set lease_until = now() - interval '1 second'")
        .execute(first.pool())
        .await
        .expect("should end the lease");
    let taken = claim_one(&second).await;
    let error = first
        .record(&claim, &claim.row.status, &Changes::default())
        .await
        .expect_err("should not write a row that another holds");
    assert!(matches!(error, StoreError::LoseLease(_)), "{error}");
    second.record(&taken, &taken.row.status, &Changes::default()).await.expect("should write its own row");
    second.release_all().await.expect("should release");
    assert_eq!(claim_one(&first).await.row.id, claim.row.id);
}

#[tokio::test]
async fn owners_take_turns_and_few_of_each_wait() {
    let (store, url) = migrated_store("a").await;
    let admin = postgres::store(&as_role(&url, "tester"), "admin");
    sqlx::query(
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path, priority)
        select 'rich', 'lab', 'data', n || '.tpr', 0 from generate_series(1, 1000) n
        union all select 'poor', 'lab', 'data', n || '.tpr', n from generate_series(1, 3) n",
    )
    .execute(admin.pool())
    .await
    .expect("should insert");
    let claims = store.claim(&any(4)).await.expect("should claim");
    let mut owners: Vec<&str> = claims.iter().map(|claim| claim.row.owner.as_str()).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["poor", "poor", "rich", "rich"]);
    let priorities: HashSet<i32> =
        claims.iter().filter(|claim| claim.row.owner == "poor").map(|claim| claim.row.priority).collect();
    assert_eq!(priorities, HashSet::from([2, 3]), "higher priority first");
    // Two of each are leased: with room for three per owner, one more of each comes.
    let taken: Vec<i64> = claims.iter().map(|claim| claim.row.id).collect();
    let options = ClaimOptions { except: taken, max_waiting: 3, ..any(100) };
    assert_eq!(store.claim(&options).await.expect("should claim").len(), 2);
}

#[tokio::test]
async fn a_wake_during_the_work_is_not_lost() {
    let (store, _) = migrated_store("a").await;
    let id = store.add(&new_row("x.tpr")).await.expect("should add");
    let claim = claim_one(&store).await;
    let later = now() + SignedDuration::from_hours(24 * 365);
    let status =
        RowStatus { state: State::Submitted, next_attempt_time: later.into(), ..claim.row.status.clone() };
    let releases = Changes { releases: true, ..Changes::default() };
    store.wake(&[id]).await.expect("should wake");
    store.record(&claim, &status, &releases).await.expect("should write");
    let again = claim_one(&store).await;
    store.record(&again, &status, &releases).await.expect("should write");
    assert!(store.claim(&any(1)).await.expect("should claim").is_empty(), "it is due in a year");
    let claimed = |seconds| store.next_due(Duration::from_secs(seconds));
    assert!(claimed(0).await.expect("should ask").is_some_and(|seconds| seconds > 1000.0));
    store.wake(&[id]).await.expect("should wake");
    assert!(claimed(60).await.expect("should ask").is_some_and(|seconds| seconds <= 0.0));
    assert_eq!(claimed(0).await.expect("should ask"), None, "the claim could not take it");
    assert_eq!(claim_one(&store).await.row.id, id);
}

#[tokio::test]
async fn once_takes_rows_early_but_not_those_that_sit_out_a_failure() {
    let (store, _) = migrated_store("a").await;
    store.add(&new_row("x.tpr")).await.expect("should add");
    let claim = claim_one(&store).await;
    let later = now() + SignedDuration::from_hours(24 * 365);
    let releases = Changes { releases: true, ..Changes::default() };
    let mut status =
        RowStatus { state: State::Running, next_attempt_time: later.into(), ..claim.row.status.clone() };
    store.record(&claim, &status, &releases).await.expect("should write");
    let early = ClaimOptions { early: true, ..any(1) };
    let mut claims = store.claim(&early).await.expect("should claim");
    let claim = claims.pop().expect("should be taken early");
    status.failures = 1;
    store.record(&claim, &status, &releases).await.expect("should write");
    assert!(store.claim(&early).await.expect("should claim").is_empty());
}

#[tokio::test]
async fn requests_make_a_row_due_and_are_taken_back() {
    let (store, _) = migrated_store("a").await;
    let id = store.add(&new_row("x.tpr")).await.expect("should add");
    assert!(store.request_retry(&[id]).await.expect("should ask").is_empty(), "it has not failed");
    let claim = claim_one(&store).await;
    let failed = with_failure(&claim.row, "no such file".to_owned(), Duration::from_secs(86400), now());
    let releases = Changes { releases: true, ..Changes::default() };
    store.record(&claim, &failed, &releases).await.expect("should write");
    assert!(store.claim(&any(1)).await.expect("should claim").is_empty(), "failed is final");
    assert!(store.request_cancel(&[id]).await.expect("should ask").is_empty(), "it has ended");
    assert_eq!(store.request_retry(&[id]).await.expect("should ask"), [id]);
    let claim = claim_one(&store).await;
    assert!(claim.row.retry_requested);
    let queued = RowStatus { state: State::Queued, submission: 2, ..claim.row.status.clone() };
    let changes = Changes { clears_requests: true, ..releases };
    let written = store.record(&claim, &queued, &changes).await.expect("should write");
    assert!(!written.row.retry_requested);
    assert_eq!(store.request_cancel(&[id]).await.expect("should ask"), [id]);
    // Even when its owner has no room for one more.
    let crowded = ClaimOptions { max_waiting: 0, ..any(1) };
    assert_eq!(store.claim(&crowded).await.expect("should claim").len(), 1);
}

#[tokio::test]
async fn a_value_that_no_column_holds_is_no_reason_to_try_again() {
    let (store, _) = migrated_store("a").await;
    store.add(&new_row("x.tpr")).await.expect("should add");
    let claim = claim_one(&store).await;
    let status = RowStatus { reason: Some("mdrun said \0".to_owned()), ..claim.row.status.clone() };
    let error = store.record(&claim, &status, &Changes::default()).await.expect_err("a NUL is no text");
    assert!(error.is_final(), "{error}");
    assert!(error.to_string().contains("cannot hold what was found"), "{error}");
    let status = RowStatus { submission: 0, ..claim.row.status.clone() };
    let error = store.record(&claim, &status, &Changes::default()).await.expect_err("breaks a rule");
    assert!(error.is_final(), "{error}");
}

#[tokio::test]
async fn a_whole_life_is_written_down() {
    let (store, _) = migrated_store("a").await;
    let id = store.add(&new_row("water/topol.tpr")).await.expect("should add");
    sqlx::query("update gromacs_to_tune set cutoff_nm = 1.2 where id = $1")
        .bind(id)
        .execute(store.pool())
        .await
        .expect("should set what the user knows");
    let claim = claim_one(&store).await;
    let mut status = RowStatus { state: State::Tuning, ..claim.row.status.clone() };
    let mut inspection = parse_inspection(ANSWER).expect("should parse");
    inspection.image = Some("gromacs@sha256:0123".to_owned());
    inspection.values.insert("simd".to_owned(), "AVX2_256".to_owned());
    let changes = Changes { inspection: Some(inspection), ..Changes::default() };
    let claim = store.record(&claim, &status, &changes).await.expect("should record the inspection");
    assert!(claim.row.inspected.is_some());
    assert_eq!(claim.row.system.atoms, Some(2652));
    assert_eq!(claim.row.system.pme_grid, Some(vec![25, 25, 25]));
    assert_eq!(claim.row.system.cutoff_nm, Some(1.2), "what the user gave wins");

    status.state = State::Submitted;
    status.rung = Some(1);
    let ladder = vec![rung(1, 2000), rung(2, 1000)];
    let changes = Changes { ladder: Some(ladder.clone()), ..Changes::default() };
    let claim = store.record(&claim, &status, &changes).await.expect("should record the ladder");
    assert_eq!(store.ladder(id, 1).await.expect("should read"), ladder);
    assert_eq!(store.namespaces().await.expect("should ask"), ["lab"]);

    status.state = State::Running;
    status.rung = Some(2);
    status.start_time = Some(now().into());
    status.step = Some(1000);
    status.ns_per_day = Some(40.0);
    status.progress_time = Some(now().into());
    let changes = Changes { attempts: vec![attempt(1, 2, None)], ..Changes::default() };
    let claim = store.record(&claim, &status, &changes).await.expect("should record the start");
    let running = RowFilter { states: vec![State::Running], ..RowFilter::default() };
    let view = &store.list(&running).await.expect("should list")[0];
    assert_eq!(view["configuration"], "1 core, 300 MiB, 1x1");
    assert_eq!((view["configuration_number"].as_i64(), view["configurations"].as_i64()), (Some(2), Some(2)));
    assert_eq!(view["percent"].as_f64(), Some(25.0));
    assert!(view["expected_finish_time"].is_string());

    status.state = State::Completed;
    status.finish_time = Some((now() + SignedDuration::from_secs(90)).into());
    let mut ended = attempt(1, 2, Some(Outcome::Completed));
    ended.first_step = None;
    ended.last_step = Some(4000);
    let measured = Measurement { ns_per_day: 41.5, steps: 4000, wall_seconds: 60.0 };
    ended.measured = Some(measured);
    let observation = Observation {
        attempt: 1,
        system: claim.row.system.description().expect("should have atoms"),
        rung: 2,
        place: Place::of(&ended.view),
        measured: Some(measured),
        peak_memory_bytes: Some(31_457_280),
        killed_for_memory: false,
    };
    let changes = Changes {
        attempts: vec![ended],
        observations: vec![observation],
        releases: true,
        ..Changes::default()
    };
    let mut again = claim.clone();
    store.record(&claim, &status, &changes).await.expect("should record the end");
    // The same once more, as after a crash in between: nothing is counted twice.
    sqlx::query("update gromacs_to_tune set lease_holder = 'a'")
        .execute(store.pool())
        .await
        .expect("should lease");
    again.row.status = status.clone();
    store.record(&again, &status, &changes).await.expect("should record it again");
    let counts: (i64, i64) = sqlx::query_as(
        "select (select count(*) from gromacs_observation), (select count(*) from gromacs_attempt)",
    )
    .fetch_one(store.pool())
    .await
    .expect("should count");
    assert_eq!(counts, (1, 1));
    type Ran = (String, String, serde_json::Value, String, String, serde_json::Value);
    let ran: Vec<Ran> = sqlx::query_as(
        "select image, gromacs_version, gromacs_build, node, hardware_class, node_labels from gromacs_attempt
        union all
        select image, gromacs_version, gromacs_build, node, hardware_class, node_labels from gromacs_observation",
    )
    .fetch_all(store.pool())
    .await
    .expect("should read");
    let (image, version) = ("gromacs@sha256:0123", claim.row.system.gromacs_version.clone());
    let version = version.expect("should be inspected");
    let build = serde_json::json!({
        "simd": "AVX2_256", "precision": "mixed", "mpi": "thread_mpi", "gpuBackend": "disabled"
    });
    let labels = serde_json::to_value(zen3()).expect("should serialise");
    let expected = (image.to_owned(), version, build, "worker-1".to_owned(), "zen3".to_owned(), labels);
    assert_eq!(ran, vec![expected; 2]);
    let beside: (Option<i32>, Option<i32>) =
        sqlx::query_as("select node_cpu_millicores, node_requested_millicores from gromacs_observation")
            .fetch_one(store.pool())
            .await
            .expect("should read");
    assert_eq!(beside, (Some(8000), Some(3000)));
    let system = claim.row.system.description().expect("should have atoms");
    let earlier = store.measured_runs(id, &system, 2).await.expect("should read");
    assert_eq!(earlier.len(), 1);
    assert_eq!((earlier[0].ns_per_day, earlier[0].layout), (41.5, ladder[1].layout.0));
    assert!(
        store.measured_runs(id, &system, 1).await.expect("should read").is_empty(),
        "only earlier submissions count"
    );
    assert!(store.kills(id).await.expect("should read").is_empty(), "nothing was killed");
    sqlx::query("update gromacs_attempt set reason = 'OOMKilled'")
        .execute(store.pool())
        .await
        .expect("should update");
    let kills = store.kills(id).await.expect("should read");
    assert_eq!(kills.len(), 1);
    assert_eq!((kills[0].memory_bytes, kills[0].layout), (314_572_800, ladder[1].layout));
    // Newer ones: of another size, on another kind of node, on no kind that is known, on that kind again.
    for (number, rung, class, speed) in [
        (2, 1, Some("zen3"), 70.0),
        (3, 2, Some("zen2"), 30.0),
        (4, 2, None, 20.0),
        (5, 2, Some("zen2"), 31.0),
    ] {
        sqlx::query(
            "insert into gromacs_attempt (row_id, submission, attempt, configuration, creation_time, hardware_class, ns_per_day)
            values ($1, 1, $2, $3, now(), $4, $5)",
        )
        .bind(id)
        .bind(number)
        .bind(rung)
        .bind(class)
        .bind(speed)
        .execute(store.pool())
        .await
        .expect("should insert");
    }
    assert_eq!(
        speeds(&store, id, &system).await,
        [31.0, 30.0, 70.0],
        "what ran on the kind of the newest of its size"
    );
    let first_step: Option<i64> =
        sqlx::query_scalar("select first_step from gromacs_attempt where attempt = 1")
            .fetch_one(store.pool())
            .await
            .expect("should read");
    assert_eq!(first_step, Some(0), "what was known of an attempt stays known");

    let story = store.show(id).await.expect("should ask").expect("should be there");
    let states: Vec<&str> = story["events"]
        .as_array()
        .expect("should be a list")
        .iter()
        .map(|event| event["state"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(states, ["queued", "tuning", "submitted", "running", "completed"]);
    assert_eq!(story["row"]["wall_seconds"].as_i64(), Some(90));
    assert_eq!(story["row"]["run_seconds"].as_i64(), Some(60));
    assert!(store.show(id + 1).await.expect("should ask").is_none());
    assert_eq!(store.count_by_state().await.expect("should count"), [("completed".to_owned(), 1)]);
    another_row_of_its_system_learns_of_it(&store, id, &system).await;
}

/// What a second submission of a row would learn of.
async fn speeds(store: &Store, id: i64, system: &SystemDescription) -> Vec<f64> {
    let earlier = store.measured_runs(id, system, 2).await.expect("should read");
    earlier.iter().map(|run| run.ns_per_day).collect()
}

/// Rows of the same owner and system count after a row's own, as far as they ran on the same kind of node.
async fn another_row_of_its_system_learns_of_it(store: &Store, id: i64, system: &SystemDescription) {
    // It learns of what the first one recorded, and another system does not.
    let other = store.add(&new_row("water/second.tpr")).await.expect("should add");
    let longer = SystemDescription { nsteps: 9_000_000, ..system.clone() };
    assert_eq!(speeds(store, other, &longer).await, [41.5]);
    let larger = SystemDescription { atoms: system.atoms + 3, ..system.clone() };
    assert!(speeds(store, other, &larger).await.is_empty());
    for (class, speed) in [("zen2", 33.0), ("zen3", 45.0)] {
        sqlx::query(
            "insert into gromacs_observation (row_id, submission, attempt, owner, source, atoms, system, cpu_millicores,
                gpus, layout, node_labels, hardware_class, ns_per_day, steps, wall_seconds)
            select $1, 1, ($3::double precision)::integer, owner, source, atoms, system, cpu_millicores, gpus, layout,
                node_labels, $2, $3::double precision, steps, wall_seconds
            from gromacs_observation where ns_per_day = 41.5",
        )
        .bind(other)
        .bind(class)
        .bind(speed)
        .execute(store.pool())
        .await
        .expect("should insert");
    }
    let both = speeds(store, id, system).await;
    assert_eq!(both, [31.0, 30.0, 70.0, 33.0], "its own first, then others' on the same kind");
    sqlx::query(
        "insert into gromacs_observation (row_id, submission, attempt, owner, source, atoms, system, cpu_millicores,
            gpus, layout, node_labels, hardware_class, ns_per_day, steps, wall_seconds)
        select row_id, 2, attempt, 'somebody', source, atoms, system, cpu_millicores, gpus, layout, node_labels,
            hardware_class, 34, steps, wall_seconds from gromacs_observation where ns_per_day = 33",
    )
    .execute(store.pool())
    .await
    .expect("should insert");
    assert_eq!(speeds(store, id, system).await, both, "what others own says nothing");
}

#[tokio::test]
async fn a_fall_back_is_told_even_if_the_next_attempt_runs_by_then() {
    let (store, _) = migrated_store("a").await;
    let id = store.add(&new_row("x.tpr")).await.expect("should add");
    let claim = claim_one(&store).await;
    let mut status = RowStatus { state: State::Submitted, rung: Some(1), ..claim.row.status.clone() };
    let why = "exceeded quota; falls back to configuration 2 of 2";
    (status.next_rung, status.reason) = (Some(2), Some(why.to_owned()));
    let claim = store.record(&claim, &status, &Changes::default()).await.expect("should announce it");
    (status.rung, status.next_rung, status.state) = (Some(2), None, State::Running);
    status.start_time = Some(now().into());
    status.reason = Some("attempt 2 runs".to_owned());
    store.record(&claim, &status, &Changes::default()).await.expect("should write");
    let said: Vec<Option<String>> = sqlx::query_scalar(
        "select message from gromacs_event where row_id = $1 and configuration = 2 order by id",
    )
    .bind(id)
    .fetch_all(store.pool())
    .await
    .expect("should read the history");
    assert_eq!(said, [Some(why.to_owned()), Some("attempt 2 runs".to_owned())]);
}

#[tokio::test]
async fn the_next_attempt_tells_how_far_the_one_before_came() {
    let (store, _) = migrated_store("a").await;
    store.add(&new_row("x.tpr")).await.expect("should add");
    let claim = claim_one(&store).await;
    let mut first = attempt(1, 1, Some(Outcome::Interrupted));
    first.last_step = Some(631);
    let mut withdrawn = attempt(2, 1, Some(Outcome::Withdrawn));
    withdrawn.view.start_time = None;
    withdrawn.first_step = None;
    let mut next = attempt(3, 1, None);
    next.first_step = Some(1080);
    let changes = Changes { attempts: vec![first, withdrawn, next], ..Changes::default() };
    store.record(&claim, &claim.row.status, &changes).await.expect("should write");
    let steps: Vec<Option<i64>> =
        sqlx::query_scalar("select last_step from gromacs_attempt order by attempt")
            .fetch_all(store.pool())
            .await
            .expect("should read");
    assert_eq!(steps, [Some(1080), None, None]);
}

#[tokio::test]
async fn what_an_attempt_lost_can_be_written_after_it() {
    let (store, _) = migrated_store("a").await;
    let id = store.add(&new_row("x.tpr")).await.expect("should add");
    let claim = claim_one(&store).await;
    let mut second = attempt(2, 1, Some(Outcome::Completed));
    second.view.lost_seconds = Some(0);
    let attempts = vec![attempt(1, 1, Some(Outcome::Interrupted)), second];
    let changes = Changes { attempts, ..Changes::default() };
    let claim = store.record(&claim, &claim.row.status, &changes).await.expect("should write");
    let story = store.show(id).await.expect("should ask").expect("should be there");
    assert_eq!(story["row"]["lost_seconds"], 0, "of what is known");
    let changes = Changes { lost: vec![(1, 7), (3, 1)], ..Changes::default() };
    store.record(&claim, &claim.row.status, &changes).await.expect("should write");
    let story = store.show(id).await.expect("should ask").expect("should be there");
    assert_eq!(story["row"]["lost_seconds"], 7);
    assert_eq!(story["attempts"][0]["lost_seconds"], 7);
    let ran = store.ran(&RowFilter::default(), now() - SignedDuration::from_hours(24)).await;
    let lost: Vec<_> = ran.expect("should read").iter().map(|ran| ran.lost_seconds).collect();
    assert_eq!(lost, [Some(7), Some(0)]);
}

#[tokio::test]
async fn a_cancelled_row_leaves_no_attempt_open() {
    let (store, _) = migrated_store("a").await;
    store.add(&new_row("x.tpr")).await.expect("should add");
    let claim = claim_one(&store).await;
    let mut status =
        RowStatus { state: State::Running, attempt: 1, step: Some(500), ..claim.row.status.clone() };
    let changes = Changes { attempts: vec![attempt(1, 1, None)], ..Changes::default() };
    let claim = store.record(&claim, &status, &changes).await.expect("should write");
    status.state = State::Cancelled;
    status.finish_time = Some((now() + SignedDuration::from_secs(7)).into());
    store.record(&claim, &status, &Changes::default()).await.expect("should write");
    let story = store.show(claim.row.id).await.expect("should ask").expect("should be there");
    assert_eq!(story["attempts"][0]["outcome"], "interrupted");
    assert_eq!(story["attempts"][0]["reason"], "Cancelled");
    assert_eq!(story["attempts"][0]["last_step"], 500);
    assert_eq!(story["row"]["run_seconds"], 7);
}

#[tokio::test]
async fn inserts_and_requests_are_heard() {
    let (store, _) = migrated_store("a").await;
    let mut listener = store.listen().await.expect("should listen");
    let wait = std::time::Duration::from_secs(10);
    let id = store.add(&new_row("x.tpr")).await.expect("should add");
    tokio::time::timeout(wait, listener.recv())
        .await
        .expect("should hear of the row")
        .expect("should listen");
    store.request_cancel(&[id]).await.expect("should ask");
    tokio::time::timeout(wait, listener.recv())
        .await
        .expect("should hear of the request")
        .expect("should listen");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_an_error_without_its_password() {
    let store = Store::new(
        "postgres://u:secret@127.0.0.1:1/x",
        "a".to_owned(),
        std::time::Duration::from_secs(60),
        1,
        std::time::Duration::from_millis(300),
    )
    .expect("should read the URL");
    let error = store.check_schema().await.expect_err("should not connect");
    assert!(!format!("{error:?} {error}").contains("secret"));
    let bad = Store::new(
        "mysql//u:secret@h",
        "a".to_owned(),
        std::time::Duration::ZERO,
        1,
        std::time::Duration::ZERO,
    );
    assert!(!format!("{:?}", bad.expect_err("should refuse")).contains("secret"));
}

/// A run that was killed for its memory has no speed; nothing else may be without one.
#[tokio::test]
async fn an_observation_tells_of_speed_or_of_memory() {
    let url = empty_database().await;
    let store = store(&url, "a");
    store.migrate().await.expect("should migrate");
    let insert = async |values: &str| {
        let statement = format!(
            "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout, node_labels,
                ns_per_day, steps, wall_seconds, peak_memory_bytes, killed_for_memory)
            values ('a', 'simulation', 1, '{{}}', 1, 0, '{{}}', '{{}}', {values})"
        );
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(store.pool()).await.is_ok()
    };
    assert!(insert("1, 1, 1, null, false").await, "a class is not known, and no memory");
    assert!(insert("null, null, null, 1, true").await, "killed");
    assert!(!insert("null, null, null, null, false").await, "nothing was measured");
    assert!(!insert("1, null, 1, 1, false").await, "a speed without steps");
    assert!(!insert("1, 1, 1, 1, true").await, "what was killed has no speed");
}

/// A roll runs two versions side by side: what the newer one remembers is still there after the older one has written.
#[tokio::test]
async fn what_a_newer_submitter_remembers_survives_a_write() {
    let (store, _) = migrated_store("a").await;
    store.add(&new_row("water/topol.tpr")).await.expect("should add");
    let newer = "update gromacs_to_tune set submitter_state = '{\"laps\": 2, \"of_a_later_version\": {\"since\": [1, 2]}}'";
    sqlx::query(newer).execute(store.pool()).await.expect("should play the newer one");
    let claim = claim_one(&store).await;
    let mut status = claim.row.status.clone();
    assert_eq!(status.private.laps, 2);
    status.private.laps = 3;
    store.record(&claim, &status, &Changes::default()).await.expect("should record");
    let found: serde_json::Value = sqlx::query_scalar("select submitter_state from gromacs_to_tune")
        .fetch_one(store.pool())
        .await
        .expect("should read");
    assert_eq!(found["laps"], 3);
    assert_eq!(found["of_a_later_version"], serde_json::json!({ "since": [1, 2] }));
}
