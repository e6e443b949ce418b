//! A submitter whose clock is wrong: what is due is a matter of the database's clock, and so is what it writes.

mod postgres;
mod rows;

use std::process::Command;
use std::time::Duration;

use gromacs_submitter::store::{Changes, NewRow, Store};
use postgres::{as_role, migrated_store, store};
use rows::any;
use scavenger_schema::simulation::{RowStatus, State};

/// Names the database for the test that is run with a wrong clock.
const DATABASE: &str = "SCAVENGER_TEST_WRONG_CLOCK";

/// What a row that was settled for half a minute is told by the clock of the database.
const SETTLED: Duration = Duration::from_secs(30);

/// True if `faketime` is installed; otherwise the test is left out, but not where every test must run.
fn has_faketime() -> bool {
    let found =
        Command::new("faketime").args(["-f", "+0", "true"]).status().is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: faketime is not in the PATH; `cargo xtask test` installs it");
        assert!(std::env::var_os("CI").is_none(), "faketime is not in the PATH");
    }
    found
}

#[tokio::test]
async fn a_submitter_with_a_wrong_clock_goes_by_that_of_the_database() {
    if !has_faketime() {
        return;
    }
    let (admin, url) = migrated_store("admin").await;
    let new = NewRow {
        namespace: "lab".to_owned(),
        persistent_volume_claim: "data".to_owned(),
        tpr_path: "x.tpr".to_owned(),
        ..NewRow::default()
    };
    for ahead in ["-1h", "+1h"] {
        let row = admin.add(&new).await.expect("should add");
        let program = std::env::current_exe().expect("should be a program");
        let run = Command::new("faketime")
            .args(["--exclude-monotonic", "-f", ahead])
            .arg(program)
            .args(["--exact", "with_a_wrong_clock", "--nocapture"])
            .env(DATABASE, &url)
            .output()
            .expect("should run");
        let told =
            [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(run.status.success() && told.contains("1 passed"), "{ahead}: {told}");
        let (seconds, off): (f64, f64) = sqlx::query_as(
            "select extract(epoch from next_attempt_time - clock_timestamp())::float8,
                abs(extract(epoch from finish_time - clock_timestamp()))::float8
            from gromacs_to_tune where id = $1",
        )
        .bind(row)
        .fetch_one(admin.pool())
        .await
        .expect("should read");
        let longest = SETTLED.as_secs_f64();
        assert!(seconds > longest - 25.0 && seconds <= longest, "{ahead}: due in {seconds} s");
        assert!(off < 25.0, "{ahead}: the own clock was {off} s away");
        let due = admin.claim(&any(10)).await.expect("should claim");
        assert!(due.is_empty(), "{ahead}: it is at rest for all");
    }
}

/// Does nothing unless the test above runs it.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the clock of the test, which is wrong")]
async fn with_a_wrong_clock() {
    let Some(url) = std::env::var(DATABASE).ok() else { return };
    let submitter = store(&url, "wrong");
    let claim = submitter.claim(&any(1)).await.expect("should claim").remove(0);
    let now = submitter.clock();
    let own = jiff::Timestamp::now();
    assert!(now.duration_since(own).abs().as_secs() > 3000, "the clocks agree: {now} and {own}");
    let status = RowStatus {
        state: State::Inspecting,
        next_attempt_time: (now + SETTLED).into(),
        finish_time: Some(now.into()),
        ..claim.row.status.clone()
    };
    let changes = Changes { releases: true, ..Changes::default() };
    submitter.record(&claim, &status, &changes).await.expect("should record");
    assert!(submitter.claim(&any(1)).await.expect("should claim").is_empty(), "it is not due at once");
}

/// Whatever clock the operator has, and however short a submitter lives.
#[tokio::test]
async fn the_word_of_the_operator_counts_from_when_a_submitter_first_saw_it() {
    let (first, url) = migrated_store("first").await;
    let written = |text: &str| text.parse::<jiff::Timestamp>().expect("should be a time");
    let age = |seen: jiff::Timestamp, store: &Store| store.clock().duration_since(seen).as_secs();
    first.claim(&any(1)).await.expect("should read the clock");
    let mut seen = Vec::new();
    for update in ["2026-01-01T00:00:00Z", "2031-01-01T00:00:00.123456Z", "2020-01-01T00:00:00Z"] {
        let time = first.pool_seen(written(update)).await.expect("should be kept");
        assert!(age(time, &first).abs() < 25, "{update} counts from now on, and not from {time}");
        seen.push(time);
    }
    assert!(seen.is_sorted());
    // It says nothing more, and the next process knows since when.
    sqlx::query("update gromacs_pool_seen set seen_time = seen_time - interval '10 minutes'")
        .execute(first.pool())
        .await
        .expect("should make it older");
    let next = store(&as_role(&url, "submitter"), "next");
    next.claim(&any(1)).await.expect("should read the clock");
    let time = next.pool_seen(written("2020-01-01T00:00:00Z")).await.expect("should be known");
    assert!((595..625).contains(&age(time, &next)), "{time}");
    let time = next.pool_seen(written("2020-01-01T00:00:05Z")).await.expect("should be kept");
    assert!(age(time, &next) < 25, "it is there again: {time}");
}
