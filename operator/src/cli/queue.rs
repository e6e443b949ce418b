//! `scavenger-operator queue`: who waits, in order, and what decides about the order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use jiff::Timestamp;
use scavenger_planner::{
    report::QueueEntry,
    resources::{PODS, Resources},
    values::{Key, Observation, Phase, ScavengerJob, Waiting, WaitingReason},
};
use serde::Serialize;

use super::{
    snapshot::{Listing, Snapshot},
    text::{Output, age, json_lines, percent, requests, table},
};

/// List the ScavengerJobs that wait, in the order of the queue
///
/// Looks at the cluster once, or at a snapshot of it. The columns INTERRUPTED, WAITS and SHARE are the parts of the rank, in
/// the order in which they decide: the interruptions that count (at most 10), the time since the creation or the last
/// interruption, and the share of the pool that the tenant holds, the smaller first. In a pool with order FairShare what the
/// tenant used decides before the time, among those that were never interrupted. A ScavengerJob that does not fit
/// does not hold up those behind it. The lines below the table count the ScavengerJobs that can start now, and those that
/// wait for something other than capacity.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Only ScavengerJobs of this namespace; their ranks are those in the whole queue
    #[arg(short, long, value_name = "NAMESPACE", value_parser = super::namespace)]
    namespace: Option<String>,

    /// At most this many ScavengerJobs, the first ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    #[command(flatten)]
    listing: Listing,
}

/// A ScavengerJob in the queue, as it is printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    rank: usize,
    namespace: String,
    name: String,
    /// Those that count.
    interruptions: u32,
    waiting_since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// From 0 to 1.
    tenant_share: f64,
    ready_since: Timestamp,
    last_start_failed: bool,
    pod_count: u32,
    /// Of one pod: millicores of cpu, bytes of memory and storage, units of anything else.
    requests: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip)]
    asks: String,
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    let snapshot = options.listing.source.read().await?;
    let view = View::of(&snapshot);
    snapshot.print(options.listing.output, &view.text(snapshot.time, options)?)
}

/// What is known of those that wait.
#[derive(Debug)]
struct View {
    rows: Vec<Row>,
    /// Those that a plan would start.
    can_start: Vec<Key>,
    /// Those that wait for something other than capacity, by reason.
    others: BTreeMap<WaitingReason, Vec<Key>>,
}

impl View {
    fn of(snapshot: &Snapshot) -> Self {
        let mut planner = snapshot.planner();
        let plan = planner.plan(snapshot.time);
        let mut waiting: BTreeMap<Key, Option<Waiting>> = BTreeMap::new();
        for observation in snapshot.observations() {
            if let Observation::ScavengerJob(sj) = observation
                && matches!(sj.status.phase, Phase::Waiting | Phase::Interrupted)
            {
                waiting.insert(sj.key.clone(), said(sj).cloned());
            }
        }
        let queue = planner.queue();
        let rows = queue.iter().enumerate();
        let rows = rows.map(|(index, entry)| row(index + 1, entry, waiting.get(&entry.sj)));
        let (rows, in_queue): (Vec<Row>, BTreeSet<&Key>) =
            (rows.collect(), queue.iter().map(|e| &e.sj).collect());
        let mut others: BTreeMap<WaitingReason, Vec<Key>> = BTreeMap::new();
        for (key, said) in &waiting {
            if !in_queue.contains(key)
                && !plan.report.admitted.contains(key)
                && let Some(said) = said
            {
                others.entry(said.reason).or_default().push(key.clone());
            }
        }
        Self { rows, can_start: plan.report.admitted, others }
    }

    fn text(&self, now: Timestamp, options: &Options) -> anyhow::Result<String> {
        let is_shown = |namespace: &str| options.namespace.as_deref().is_none_or(|only| only == namespace);
        let mut rows: Vec<Row> = self.rows.iter().filter(|row| is_shown(&row.namespace)).cloned().collect();
        let all = rows.len();
        rows.truncate(options.limit.map_or(all, |limit| limit as usize));
        if options.listing.output == Output::Json {
            return json_lines(&rows);
        }
        let mut text = match rows.len() {
            0 => "the queue is empty\n".to_owned(),
            _ => lines(&rows, now),
        };
        let mut add = |count: usize, what: &str| {
            if count > 0 {
                writeln!(text, "{count} more {what}").expect("writing to a string should not fail");
            }
        };
        add(all - rows.len(), "in the queue (--limit)");
        let count = |keys: &[Key]| keys.iter().filter(|key| is_shown(&key.namespace)).count();
        add(count(&self.can_start), "can start now");
        for (reason, keys) in &self.others {
            add(count(keys), &format!("not in the queue: {}", reason.name()));
        }
        Ok(text)
    }
}

/// What the status says it waits for.
fn said(sj: &ScavengerJob) -> Option<&Waiting> {
    sj.status.admitted.as_ref()?.waiting.as_ref()
}

fn row(rank: usize, entry: &QueueEntry<'_>, waiting: Option<&Option<Waiting>>) -> Row {
    let waiting = waiting.and_then(Option::as_ref);
    let demand = entry.demand;
    let amounts = |resources: &Resources| {
        let named = resources.iter().filter(|(name, amount)| *name != PODS && *amount > 0);
        named.map(|(name, amount)| (name.to_owned(), amount)).collect()
    };
    Row {
        rank,
        namespace: entry.sj.namespace.to_string(),
        name: entry.sj.name.to_string(),
        interruptions: entry.interruptions,
        waiting_since: entry.waiting_since,
        tenant: entry.tenant.as_ref().map(ToString::to_string),
        tenant_share: entry.tenant_share as f64 / 1e6,
        ready_since: entry.ready_since,
        last_start_failed: entry.last_start_failed,
        pod_count: demand.pod_count,
        requests: amounts(&demand.per_pod),
        reason: waiting.map(|waiting| waiting.reason.name()),
        message: waiting.map(|waiting| waiting.message.clone()),
        asks: requests(&demand.per_pod, demand.pod_count),
    }
}

fn lines(rows: &[Row], now: Timestamp) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let failed = if row.last_start_failed { " (last start failed)" } else { "" };
            [
                row.rank.to_string(),
                format!("{}/{}", row.namespace, row.name),
                row.interruptions.to_string(),
                age(now.duration_since(row.waiting_since)),
                percent(row.tenant_share),
                age(now.duration_since(row.ready_since)),
                row.asks.clone(),
                format!("{}{failed}", row.reason.unwrap_or("not judged yet")),
            ]
        })
        .collect();
    let header = ["RANK", "SCAVENGERJOB", "INTERRUPTED", "WAITS", "SHARE", "READY", "REQUESTS", "REASON"];
    table(header, &rows)
}

#[cfg(test)]
mod tests {
    use scavenger_planner::{
        fixtures::{at, node, settings, sj},
        values::Admitted,
    };

    use super::{super::snapshot::Source, *};

    /// A pool of 10 cpu, of which ScavengerJobs may use 7.
    fn snapshot(jobs: Vec<ScavengerJob>) -> Snapshot {
        let mut observations = vec![
            Observation::Node(node("n1", 10_000)),
            Observation::Pool(Box::new(Ok(settings()))),
            Observation::VolumesKnown(true),
        ];
        observations.extend(jobs.into_iter().map(|sj| Observation::ScavengerJob(Box::new(sj))));
        Snapshot::new(at(1000), observations)
    }

    fn waits(mut sj: ScavengerJob, interruptions: u32, since: i64, reason: WaitingReason) -> ScavengerJob {
        sj.creation_time = at(since);
        sj.status.written = true;
        sj.status.counted_interruptions = interruptions;
        let waiting = Waiting { reason, message: format!("{}: because", reason.name()) };
        sj.status.admitted = Some(Admitted { waiting: Some(waiting), since: at(since) });
        sj
    }

    fn options(namespace: Option<&str>, limit: Option<u32>, output: Output) -> Options {
        let listing = Listing { output, source: Source::default() };
        Options { listing, namespace: namespace.map(str::to_owned), limit }
    }

    fn suspended(name: &str) -> ScavengerJob {
        let mut sj = waits(sj(name), 0, 100, WaitingReason::Suspended);
        sj.controls.suspend = true;
        sj
    }

    #[test]
    fn those_that_wait_are_listed_by_rank_with_what_decides() {
        let large = |name: &str| sj(name).asking(8000);
        let jobs = vec![
            waits(large("late"), 0, 900, WaitingReason::NeverFits),
            waits(large("early"), 0, 400, WaitingReason::NeverFits),
            waits(large("often"), 3, 940, WaitingReason::NeverFits),
            waits(sj("small"), 0, 950, WaitingReason::NoCapacity),
            suspended("held"),
        ];
        let snapshot = snapshot(jobs);
        let view = View::of(&snapshot);
        let text = view.text(snapshot.time, &options(None, None, Output::Text)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let rows: Vec<Vec<&str>> =
            lines[1..4].iter().map(|line| line.split_whitespace().take(6).collect()).collect();
        assert_eq!(
            rows,
            [
                ["1", "lab/often", "3", "60s", "10.0%", "60s"],
                ["2", "lab/early", "0", "10m0s", "10.0%", "10m0s"],
                ["3", "lab/late", "0", "100s", "10.0%", "100s"],
            ]
        );
        assert!(lines[0].starts_with("RANK  SCAVENGERJOB"), "{text}");
        assert!(lines[1].ends_with("8 cpu, 8000 MiB  NeverFits"), "{text}");
        assert_eq!(lines[4..], ["1 more can start now", "1 more not in the queue: Suspended"]);
    }

    #[test]
    fn a_limit_and_a_namespace_leave_some_out_and_json_says_it_all() {
        let jobs = (0..3)
            .map(|number| waits(sj(&format!("j{number}")).asking(8000), 0, number, WaitingReason::NeverFits));
        let snapshot = snapshot(jobs.collect());
        let view = View::of(&snapshot);
        let text = |options| view.text(snapshot.time, &options).unwrap();
        let limited = text(options(None, Some(1), Output::Text));
        assert!(limited.ends_with("2 more in the queue (--limit)\n"), "{limited}");
        assert_eq!(text(options(Some("elsewhere"), None, Output::Text)), "the queue is empty\n");
        let json = text(options(None, Some(1), Output::Json));
        let row: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(row["rank"], 1);
        assert_eq!(row["name"], "j0");
        assert_eq!(row["requests"]["cpu"], 8000);
        assert_eq!(row["message"], "NeverFits: because");
    }
}
