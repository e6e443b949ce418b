//! A chemist drives rows with the verbs of the command line, from `add` to `rm`, and a webhook hears of each end. Operator and
//! pods are the cluster's; Postgres, tuner and submitter run on this machine, where the webhook's server listens.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};
use axum::{Json, Router, routing::post};
use scavenger_e2e::{
    World,
    faults::Proxy,
    gromacs::{Computed, computed},
    local::{Postgres, Submitter, Tuner, submitter},
    queue::prepare_with,
    run,
    world::{LIMIT, until, until_within},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use serde_json::Value;
use tokio::net::TcpListener;

/// Steps of a row: some seconds on half a core. They are 5 ps.
const STEPS: i64 = 2500;

/// Steps that were computed elsewhere before the queue heard of them.
const STEPS_BEFORE: i64 = 500;

const BEGUN_ELSEWHERE: &str = "
mkdir -p /data/old
cd /data/old
gmx -quiet mdrun -s /data/water/water.tpr -nsteps 500 -cpo state.cpt -ntmpi 1 -ntomp 1 -nb cpu 2> mdrun.txt
";

/// What a webhook was told.
type Reports = Arc<Mutex<Vec<Value>>>;

/// A server on the loopback device that takes every report.
async fn endpoint() -> Result<(SocketAddr, Reports)> {
    let reports = Reports::default();
    let kept = Arc::clone(&reports);
    let take = move |Json(report): Json<Value>| async move {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/hook", post(take))).await });
    Ok((address, reports))
}

/// Row, submission and state of each end that was reported. One may be reported twice.
fn reported(reports: &Reports) -> BTreeSet<(i64, i64, String)> {
    let reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |report: &Value| {
        let state = report["state"].as_str()?.to_owned();
        Some((report["row"].as_i64()?, report["submission"].as_i64()?, state))
    };
    reports.iter().filter_map(of).collect()
}

/// The command line of a chemist.
struct Verbs<'a> {
    postgres: &'a Postgres,
    namespace: &'a str,
}

impl Verbs<'_> {
    /// Runs a verb, and returns what it prints.
    async fn say(&self, arguments: &[&str]) -> Result<String> {
        submitter(self.postgres, arguments).await
    }

    /// Adds a row for the water box; returns its number.
    async fn add(&self, more: &[&str]) -> Result<String> {
        let usual = ["add", "water/water.tpr", "--namespace", self.namespace, "--pvc", "simulations"];
        let image = ["--image", "scavenger.dev/gromacs:2022.5", "--max-cpu-millicores", "500"];
        let rest = ["--allow-duplicate", "--project", "verbs", "--output", "json"];
        let printed = self.say(&[&usual[..], &image, &rest, more].concat()).await?;
        let added: Value = serde_json::from_str(&printed)?;
        Ok(added[0]["id"].as_i64().with_context(|| printed.clone())?.to_string())
    }

    async fn show(&self, row: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.say(&["show", row, "--output", "json"]).await?)?)
    }

    /// Waits until a row is in a state; another end is an error.
    async fn is(&self, row: &str, state: &str) -> Result<Value> {
        until_within(2 * LIMIT, &format!("row {row} is {state}"), || async {
            let story = self.show(row).await?;
            let found = story["row"]["state"].as_str().unwrap_or_default();
            let is_other_end = ["completed", "failed", "cancelled"].contains(&found) && found != state;
            ensure!(!is_other_end, "row {row}: {}", story["row"]);
            Ok((found == state).then_some(story))
        })
        .await
    }

    /// The rows that are listed with `filter`.
    async fn listed(&self, filter: &[&str]) -> Result<Vec<String>> {
        let printed = self.say(&[&["list", "--output", "json"], filter].concat()).await?;
        let rows: Vec<Value> = serde_json::from_str(&printed)?;
        Ok(rows.iter().map(|row| row["id"].to_string()).collect())
    }

    async fn refused(&self, arguments: &[&str], words: &str) -> Result<()> {
        let refusal = self.say(arguments).await.err().with_context(|| format!("{arguments:?} was done"))?;
        ensure!(format!("{refusal:#}").contains(words), "{arguments:?}: {refusal:#}");
        Ok(())
    }
}

/// The rows of the story by their numbers.
struct Rows {
    /// Has options of mdrun, is changed while it is held, and extended at its end.
    first: String,
    /// Starts from a checkpoint of another folder, after the first.
    continued: String,
    /// Is cancelled, retried and removed.
    dropped: String,
    /// Overtakes the others.
    urgent: String,
}

/// How the first row's configurations are chosen. Some of it is taken back.
const CHOICE: [&str; 12] = [
    "--min-efficiency",
    "0.9",
    "--max-configurations",
    "2",
    "--gpu-price",
    "3",
    "--memory-price",
    "0.02",
    "--max-memory-bytes",
    "1073741824",
    "--min-ns-per-day",
    "0.001",
];

/// Where and how the urgent row runs.
const PLACE: [&str; 10] = [
    "--node-label",
    "kubernetes.io/arch=amd64",
    "--append",
    "false",
    "--fallback-after",
    "10m",
    "--label",
    "where=amd64",
    "--label",
    "how=parts",
];

/// It ran on such nodes only, and wrote parts of its output.
async fn placed_as_said(world: &World, urgent: &str, story: &Value) -> Result<()> {
    ensure!(story["simulation"]["fallback_after_seconds"] == 600, "{}", story["simulation"]);
    let (arguments, _) = only_attempt(story)?;
    ensure!(arguments.contains("-noappend"), "{arguments}");
    let name = format!("gromacs-{urgent}-1");
    let job = world.api::<ScavengerJob>().get(&name).await?;
    let selected = job.spec.node_selector.get("kubernetes.io/arch").map(String::as_str);
    ensure!(selected == Some("amd64"), "{name}: {:?}", job.spec.node_selector);
    Ok(())
}

async fn added_and_changed(verbs: &Verbs<'_>) -> Result<Rows> {
    let options = ["--mdrun-options", "-nstlist 20 -dlb no", "--label", "n=1", "--hold"];
    let first = verbs.add(&[&options[..], &CHOICE].concat()).await?;
    verbs.say(&["edit", &first, "--unset", "gpu-price,max-memory-bytes"]).await?;
    let held = verbs.show(&first).await?;
    ensure!(held["row"]["reason"] == "is held; release it to begin", "{}", held["row"]);
    let continued = verbs.add(&["--checkpoint", "old/state.cpt", "--after", &first]).await?;
    verbs.say(&["edit", &first, "--mdrun-options", "-nstlist 30", "--label", "n=2"]).await?;
    let changed = verbs.show(&first).await?;
    ensure!(changed["simulation"]["mdrun_options"] == serde_json::json!(["-nstlist", "30"]), "{changed}");
    ensure!(changed["row"]["labels"]["n"] == "2", "{changed}");
    let asked = &changed["simulation"];
    ensure!(asked["gpu_price"].is_null() && asked["max_memory_bytes"].is_null(), "{asked}");
    ensure!(asked["min_efficiency"] == 0.9 && asked["min_ns_per_day"] == 0.001, "{asked}");
    verbs.refused(&["edit", &first, "--mdrun-options", "-nstlist many"], "-nstlist").await?;
    verbs.refused(&["extend", &first, "--ns", "1"], "only a completed row can be extended").await?;
    verbs.refused(&["edit", &first, "--after", &continued], "waits for row").await?;
    verbs.say(&["release", &first]).await?;
    verbs.is(&first, "running").await?;

    // One row at a time may be in work, so these wait for their turn.
    let dropped = verbs.add(&[]).await?;
    verbs.say(&["hold", &dropped]).await?;
    let urgent = verbs.add(&[&["--hold", "--deadline", "2020-01-01"], &PLACE[..]].concat()).await?;
    verbs.say(&["edit", &urgent, "--priority", "10"]).await?;
    verbs.say(&["release", &dropped, &urgent]).await?;
    for filter in
        [&["--late"][..], &["--label", "where=amd64"], &["--label", "where=amd64", "--label", "how=parts"]]
    {
        let listed = verbs.listed(filter).await?;
        ensure!(listed == [urgent.clone()], "{filter:?}: {listed:?}");
    }
    let none = verbs.listed(&["--label", "where=amd64", "--label", "n=2"]).await?;
    ensure!(none.is_empty(), "no row has both labels: {none:?}");
    let waits = verbs.show(&continued).await?;
    let reason = waits["row"]["reason"].as_str().unwrap_or_default().to_owned();
    ensure!(reason.starts_with(&format!("waits for row {first}")), "{reason}");
    Ok(Rows { first, continued, dropped, urgent })
}

/// Arguments of mdrun and the first step of the row's only attempt.
fn only_attempt(story: &Value) -> Result<(String, i64)> {
    let attempts = story["attempts"].as_array().context("no attempts")?;
    let ran: Vec<&Value> = attempts.iter().filter(|attempt| attempt["start_time"].is_string()).collect();
    ensure!(ran.len() == 1, "{attempts:?}");
    Ok((ran[0]["mdrun_args"].to_string(), ran[0]["first_step"].as_i64().context("its start is not known")?))
}

/// What was said of its configurations counted, and what was taken back did not.
fn chosen_as_said(story: &Value) -> Result<()> {
    let answer = &story["tuner_answers"][0];
    ensure!(answer["min_efficiency"] == 0.9 && answer["max_configurations"] == 2, "{answer}");
    let set_by = &answer["set_by"];
    ensure!(set_by["memory_price"] == "row" && set_by["gpu_price"] != "row", "{answer}");
    let ladder = story["ladder"].as_array().context("no configurations")?;
    ensure!((1..=2).contains(&ladder.len()), "{ladder:?}");
    Ok(())
}

async fn story(world: &World, postgres: &Postgres, reports: &Reports) -> Result<()> {
    let verbs = Verbs { postgres, namespace: &world.namespace };
    let Rows { first, continued, dropped, urgent } = added_and_changed(&verbs).await?;

    let completed = verbs.is(&first, "completed").await?;
    chosen_as_said(&completed)?;
    let (arguments, first_step) = only_attempt(&completed)?;
    ensure!(
        arguments.contains(r#""-nstlist", "30""#) || arguments.contains(r#""-nstlist","30""#),
        "{arguments}"
    );
    ensure!(first_step == 0, "{first_step}");
    let overtook = verbs.is(&urgent, "completed").await?;
    ensure!(overtook["row"]["late_seconds"].as_i64() > Some(0), "{}", overtook["row"]);
    let text = verbs.say(&["show", &urgent]).await?;
    ensure!(text.contains("missed its deadline by"), "{text}");
    placed_as_said(world, &urgent, &overtook).await?;

    verbs.say(&["cancel", &dropped]).await?;
    verbs.is(&dropped, "cancelled").await?;
    // A row that is removed takes its report along.
    let end = (dropped.parse()?, 1, "cancelled".to_owned());
    until("its end was reported", || async { Ok(reported(reports).contains(&end).then_some(())) }).await?;
    // It goes on if that was a mistake, behind those that wait.
    verbs.say(&["retry", &dropped]).await?;

    let (arguments, first_step) = only_attempt(&verbs.is(&continued, "completed").await?)?;
    ensure!(first_step == STEPS_BEFORE && arguments.contains("-noappend"), "{first_step} {arguments}");
    let began = |story: &Value| story["row"]["start_time"].as_str().unwrap_or_default().to_owned();
    ensure!(began(&overtook) < began(&verbs.show(&continued).await?), "the urgent one comes first");

    verbs.is(&dropped, "completed").await?;
    // It succeeds, since all that it watches is completed.
    verbs.say(&["watch", &dropped, "--until-finished"]).await?;
    let sums = verbs.say(&["list", "--by-project"]).await?;
    ensure!(sums.starts_with("verbs: 4 of 4 done"), "{sums}");
    let end = (dropped.parse()?, 2, "completed".to_owned());
    until("its second end was reported", || async { Ok(reported(reports).contains(&end).then_some(())) })
        .await?;
    verbs.say(&["rm", &dropped]).await?;
    verbs.refused(&["show", &dropped], &format!("there is no row {dropped}")).await?;

    // As long again, in the same output.
    let printed = verbs.say(&["extend", &first, "--ns", "0.005"]).await?;
    ensure!(printed.contains("goes on from 0.005 to 0.01 ns"), "{printed}");
    let extended = until("the first one has gone on", || async {
        let story = verbs.show(&first).await?;
        ensure!(story["row"]["state"] != "failed", "{}", story["row"]);
        let is_longer = story["row"]["last_step"].as_i64() == Some(2 * STEPS);
        Ok((story["row"]["state"] == "completed" && is_longer).then_some(story))
    })
    .await?;
    ensure!(extended["row"]["step"].as_i64() == Some(2 * STEPS), "{}", extended["row"]);
    let expected =
        Computed { steps: 2 * STEPS, last_step: 2 * STEPS, restarts: 1, frames: 2 * STEPS / 100 + 1 };
    let found = computed(world, first.parse()?).await?;
    ensure!(found == expected, "an extended run must be continuous: {found:?}");
    // A wish that nothing is stopped for, in any state.
    verbs.say(&["edit", &first, "--deadline", "2020-01-01"]).await?;
    let listed = verbs.say(&["list", "--late"]).await?;
    ensure!(listed.contains("missed its deadline by"), "{listed}");
    verbs.say(&["edit", &first, "--no-deadline"]).await?;

    let ends =
        |row: &str, submission: i64, state: &str| Ok((row.parse::<i64>()?, submission, state.to_owned()));
    let expected: BTreeSet<_> = [
        ends(&first, 1, "completed"),
        ends(&urgent, 1, "completed"),
        ends(&dropped, 1, "cancelled"),
        ends(&dropped, 2, "completed"),
        ends(&continued, 1, "completed"),
        ends(&first, 2, "completed"),
    ]
    .into_iter()
    .collect::<Result<_>>()?;
    until("each end was reported", || async {
        let reported = reported(reports);
        ensure!(reported.is_subset(&expected), "{reported:?}");
        Ok((reported == expected).then_some(()))
    })
    .await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_chemist_drives_rows_with_the_verbs_and_hears_of_their_ends() {
    run("verbs", |world| async move {
        prepare_with(world, u32::try_from(STEPS)?, BEGUN_ELSEWHERE).await?;
        let mut postgres = Postgres::start().await?;
        submitter(&postgres, &["migrate"]).await?;
        // One row in work at a time shows who goes first.
        let tenant = format!(
            "insert into gromacs_tenant (database_role, namespace, max_rows_in_work) values (session_user, '{}', 1)",
            world.namespace
        );
        postgres.sql(&tenant).await?;
        let tuner = Tuner::start(None).await?;
        let api = Proxy::start_as(names::SUBMITTER).await?;
        let (address, reports) = endpoint().await?;
        let hook = format!("--webhook-url=http://{address}/hook");
        let arguments = [hook.as_str(), "--progress-interval=1s", "--fallback-after=20s"];
        let running = Submitter::start_with(&postgres.url(), tuner.address(), &api, &arguments).await?;
        let told = story(world, &postgres, &reports).await;
        running.kill().await?;
        drop(tuner);
        postgres.down()?;
        told
    });
}
