//! Deadlines and renewed ladders on a real Postgres: what is written, what the history says, and who is late.

mod postgres;
mod rows;

use gromacs_submitter::store::{
    AddMode, Added, Changes, Claim, Edit, Moment, NewRow, RowFilter, Store, StoreError,
};
use postgres::migrated_store;
use rows::{any, rung};
use scavenger_schema::simulation::{LadderRung, PrivateState, RowStatus, State};
use serde_json::Value;

async fn add(store: &Store, tpr_path: &str, deadline: Option<Moment>) -> Result<i64, StoreError> {
    let row = NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: tpr_path.to_owned(),
        deadline,
        ..NewRow::default()
    };
    store.add(&row).await
}

async fn late(store: &Store) -> Vec<(i64, i64)> {
    let rows = store.list(&RowFilter { late: true, ..RowFilter::default() }).await.expect("should list");
    let of = |row: &Value| Some((row["id"].as_i64()?, row["late_seconds"].as_i64()?));
    rows.iter().map(|row| of(row).expect("it is late by so much")).collect()
}

async fn history(store: &Store, row: i64) -> Vec<String> {
    let story = store.show(row).await.expect("should show").expect("should be there");
    let messages = story["events"].as_array().expect("should have events").iter();
    messages.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect()
}

async fn claimed(store: &Store, row: i64) -> Claim {
    let claims = store.claim(&any(10)).await.expect("should claim");
    claims.into_iter().find(|claim| claim.row.id == row).expect("should be due")
}

#[tokio::test]
async fn who_is_late_is_listed_counted_and_has_it_in_its_history() {
    let (store, _) = migrated_store("a").await;
    let plain = add(&store, "a.tpr", None).await.expect("should add");
    let far = add(&store, "b.tpr", Some(Moment::In(1e6))).await.expect("should add");
    let past = "2026-01-01T00:00:00Z".parse().expect("should be a time");
    let missed = add(&store, "c.tpr", Some(Moment::At(past))).await.expect("should add");
    // What nobody has looked at is late from its deadline on.
    let found = late(&store).await;
    assert_eq!(found.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [missed]);
    assert_eq!(store.count_late().await.expect("should count"), 1);

    let mut claim = claimed(&store, far).await;
    for (late_seconds, words) in [
        (Some(3 * 3600), Some("will miss its deadline by about 3 h")),
        (Some(4 * 3600), None),
        (None, Some("is expected to meet its deadline again")),
        (Some(0), Some("will just miss its deadline")),
        (None, Some("is expected to meet its deadline again")),
        (Some(3 * 86400), Some("will miss its deadline by about 3 d")),
    ] {
        let before = history(&store, far).await.len();
        let status = RowStatus { state: State::Submitted, late_seconds, ..claim.row.status.clone() };
        claim = store.record(&claim, &status, &Changes::default()).await.expect("should write");
        assert_eq!(claim.row.status.late_seconds, late_seconds);
        let told: Vec<String> = history(&store, far).await.split_off(before);
        let told: Vec<&str> =
            told.iter().map(String::as_str).filter(|line| line.contains("deadline")).collect();
        assert_eq!(told, words.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(late(&store).await.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [far, missed]);
    assert_eq!(store.count_late().await.expect("should count"), 2);

    // What has ended in time was never late, and what was completed too late stays so.
    let ended = RowStatus {
        state: State::Completed,
        late_seconds: None,
        finish_time: Some(store.clock().into()),
        ..claim.row.status.clone()
    };
    store.record(&claim, &ended, &Changes::default()).await.expect("should write");
    assert!(!late(&store).await.iter().any(|(row, _)| *row == far));
    let change = |deadline| Edit { deadline: Some(deadline), ..Edit::default() };
    let hour_ago = store.clock() - jiff::SignedDuration::from_hours(1);
    let changed = store.edit(&[far], &change(Some(Moment::At(hour_ago))), false).await;
    assert_eq!(changed.expect("in any state"), [far]);
    let by =
        late(&store).await.iter().find(|(row, _)| *row == far).map(|(_, by)| *by).expect("should be late");
    assert!((3599..3700).contains(&by), "{by}");
    assert_eq!(store.count_late().await.expect("should count"), 1, "it has ended");
    store.edit(&[far, missed], &change(None), false).await.expect("should be taken away");
    assert!(late(&store).await.is_empty());
    store.edit(&[plain], &change(Some(Moment::In(60.0))), false).await.expect("should change");
    let shown = store.show(plain).await.expect("should show").expect("should be there");
    assert!(shown["row"]["deadline"].is_string() && shown["row"]["late_seconds"].is_null(), "{shown}");
}

#[tokio::test]
async fn a_deadline_that_is_no_time_is_refused_in_words() {
    let (store, _) = migrated_store("a").await;
    let ancient = Moment::At(jiff::Timestamp::UNIX_EPOCH);
    let refused = add(&store, "a.tpr", Some(ancient)).await.expect_err("should be refused").to_string();
    assert!(refused.starts_with("deadline must be a time between"), "{refused}");
    // So far away that no time says it: the others are added.
    let far = NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: "b.tpr".to_owned(),
        deadline: Some(Moment::In(1e12)),
        ..NewRow::default()
    };
    let near = NewRow { tpr_path: "c.tpr".to_owned(), deadline: Some(Moment::In(60.0)), ..far.clone() };
    let mode = AddMode { keep_going: true, ..AddMode::default() };
    let (fates, _) = store.add_all(&[far, near], mode).await.expect("should answer");
    assert!(matches!(fates.as_slice(), [Added::Refused(_), Added::Row(_)]), "{fates:?}");
    let calibration = "insert into gromacs_to_tune (kind, namespace, persistent_volume_claim, benchmark_atoms,
        benchmark_ranks, benchmark_threads, nsteps, deadline) values ('calibration', 'lab', 'data', 10000, 1, 1, 1000, now())";
    let error = sqlx::query(calibration).execute(store.pool()).await.expect_err("should be refused");
    assert!(StoreError::from(error).to_string().starts_with("a calibration has no deadline"));
}

#[tokio::test]
async fn a_ladder_that_is_renewed_keeps_what_attempts_ran_with() {
    let (store, _) = migrated_store("a").await;
    let row = add(&store, "a.tpr", None).await.expect("should add");
    let claim = claimed(&store, row).await;
    let status = RowStatus { state: State::Submitted, ..claim.row.status.clone() };
    let ladder = vec![rung(1, 2000), rung(2, 1000), rung(3, 500)];
    let changes = Changes { ladder: Some(ladder.clone()), ..Changes::default() };
    let claim = store.record(&claim, &status, &changes).await.expect("should write");

    let faster = LadderRung { ns_per_day_p50: 60.0, model_version: "2".to_owned(), ..rung(2, 1000) };
    let renewed = vec![rung(4, 4000), faster.clone()];
    let changes = Changes { renewed: Some(renewed.clone()), ..Changes::default() };
    let status = RowStatus { private: PrivateState { ladder_interruptions: 3, ..status.private }, ..status };
    let claim = store.record(&claim, &status, &changes).await.expect("should write");
    assert_eq!(claim.row.status.private.ladder_interruptions, 3);
    let read = store.ladder(row, 1).await.expect("should read");
    let (gone, tried): (Vec<LadderRung>, Vec<LadderRung>) = read.into_iter().partition(|rung| rung.replaced);
    assert_eq!(tried, renewed, "in this order");
    let numbers: Vec<i32> = gone.iter().map(|rung| rung.rung).collect();
    assert_eq!(numbers, [1, 3], "their attempts still say what they ran with");

    // What comes back is tried again.
    let changes = Changes { renewed: Some(ladder.clone()), ..Changes::default() };
    store.record(&claim, &status, &changes).await.expect("should write");
    let read = store.ladder(row, 1).await.expect("should read");
    let tried: Vec<LadderRung> = read.into_iter().filter(|rung| !rung.replaced).collect();
    assert_eq!(tried, ladder);
}
