//! What ran, summed up over all of the time and over stretches of it.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use scavenger_schema::simulation::Kind;
use serde::Serialize;

use crate::store::Ran;

/// Stretches that a person counts in, in minutes.
const WIDTHS: [i64; 11] = [1, 5, 15, 30, 60, 120, 360, 720, 1440, 10_080, 40_320];

/// As many stretches as can be told apart in a picture or read in a table.
const MOST_BINS: i64 = 48;

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Sums {
    /// From then on: what was asked for, or when the first attempt started.
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    /// Simulations that ran.
    pub(super) simulations: i64,
    /// Calibrations that ran. They count everywhere but in what was simulated.
    pub(super) calibrations: i64,
    /// Commands that ran. They count as calibrations do.
    pub(super) commands: i64,
    /// Attempts that ran.
    pub(super) runs: i64,
    pub(super) completed: i64,
    pub(super) failed: i64,
    pub(super) interrupted: i64,
    pub(super) run_seconds: f64,
    pub(super) core_hours: f64,
    /// Of the running time, what was computed after the last checkpoint of an attempt that ended in the time. None if that
    /// was measured for no attempt.
    pub(super) lost_seconds: Option<i64>,
    /// Time simulated, ns.
    pub(super) ns: f64,
    /// ns per day of the time in which anything ran.
    pub(super) ns_per_day: f64,
    /// Measured runs by what else was on their node.
    pub(super) measured: Measured,
    /// Running time per interruption.
    pub(super) seconds_between_interruptions: Option<f64>,
    pub(super) bins: Vec<Bin>,
}

/// Measured runs by what else was on their node: a core is faster where others are idle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Measured {
    /// On the whole of a node.
    pub(super) whole_node: i64,
    /// On a part of one, the rest of which was free.
    pub(super) part_alone: i64,
    /// On a part of one, beside other pods.
    pub(super) part_beside_others: i64,
}

/// Share of a node's CPU that other pods may request, or that may be left, before it counts: every node runs a few small
/// pods of the system.
const LITTLE: f64 = 0.1;

impl Measured {
    fn of(ran: &[Ran]) -> Self {
        let mut measured = Self::default();
        for attempt in ran {
            let Some((own, node)) = attempt.cpu_millicores.zip(attempt.node_cpu_millicores) else { continue };
            let (own, node) = (f64::from(own), f64::from(node).max(1.0));
            let Some(requested) = attempt.node_requested_millicores.map(f64::from) else { continue };
            if own >= (1.0 - LITTLE) * node {
                measured.whole_node += 1;
            } else if requested - own <= LITTLE * node {
                measured.part_alone += 1;
            } else {
                measured.part_beside_others += 1;
            }
        }
        measured
    }
}

/// A stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Bin {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// Simulations that ran, on average.
    pub(super) running: f64,
    pub(super) completed: i64,
    pub(super) failed: i64,
    pub(super) interrupted: i64,
    /// Time simulated, ns.
    pub(super) ns: f64,
    /// All simulations together.
    pub(super) ns_per_day: f64,
}

/// Rows of a kind that ran.
fn rows(ran: &[Ran], kind: Kind) -> i64 {
    let of_kind = ran.iter().filter(|attempt| attempt.kind == kind.as_str());
    i64::try_from(of_kind.map(|attempt| attempt.row_id).collect::<HashSet<_>>().len()).unwrap_or(i64::MAX)
}

impl Sums {
    pub(super) fn new(ran: &[Ran], since: Timestamp, until: Timestamp) -> Self {
        // A picture of a week in which five minutes were used shows nothing.
        let first = ran.iter().map(|attempt| attempt.start_time.to_jiff()).min();
        let since = first.map_or(since, |first| first.max(since)).min(until);
        let mut bins = bins(since, until);
        let mut sums = Self {
            since,
            until,
            simulations: rows(ran, Kind::Simulation),
            calibrations: rows(ran, Kind::Calibration),
            commands: rows(ran, Kind::Command),
            runs: i64::try_from(ran.len()).unwrap_or(i64::MAX),
            completed: 0,
            failed: 0,
            interrupted: 0,
            run_seconds: 0.0,
            core_hours: 0.0,
            lost_seconds: None,
            ns: 0.0,
            ns_per_day: 0.0,
            measured: Measured::of(ran),
            seconds_between_interruptions: None,
            bins: Vec::new(),
        };
        for attempt in ran {
            let start = attempt.start_time.to_jiff();
            let end = attempt.end_time.map_or(until, jiff_sqlx::Timestamp::to_jiff);
            let inside = overlap(start, end, since, until);
            sums.run_seconds += inside;
            sums.core_hours += inside / 3600.0 * f64::from(attempt.cpu_millicores.unwrap_or(0)) / 1000.0;
            // As if it had gone at the same speed all the time.
            let whole = seconds(start, end).max(1e-3);
            let simulates = attempt.kind == Kind::Simulation.as_str();
            let ns = simulated_ns(attempt).filter(|_| simulates).unwrap_or(0.0);
            sums.ns += ns * inside / whole;
            for bin in &mut bins {
                let share = overlap(start, end, bin.from, bin.to);
                bin.running += share;
                bin.ns += ns * share / whole;
            }
            let ended = attempt.end_time.map(jiff_sqlx::Timestamp::to_jiff);
            let Some(ended) = ended.filter(|ended| (since..=until).contains(ended)) else { continue };
            if let Some(lost) = attempt.lost_seconds {
                sums.lost_seconds = Some(sums.lost_seconds.unwrap_or(0).saturating_add(lost));
            }
            let last = bins.len().saturating_sub(1);
            let bin = bins.iter().position(|bin| ended < bin.to).unwrap_or(last);
            let (of_all, of_bin) = match (attempt.outcome.as_deref(), bins.get_mut(bin)) {
                (Some("completed"), Some(bin)) => (&mut sums.completed, &mut bin.completed),
                (Some("failed"), Some(bin)) => (&mut sums.failed, &mut bin.failed),
                (Some("interrupted"), Some(bin)) => (&mut sums.interrupted, &mut bin.interrupted),
                _ => continue,
            };
            *of_all += 1;
            *of_bin += 1;
        }
        let mut busy = 0.0;
        for bin in &mut bins {
            let width = seconds(bin.from, bin.to).max(1e-3);
            bin.ns_per_day = bin.ns / width * 86400.0;
            busy += if bin.running > 0.0 { busy_seconds(ran, bin.from, bin.to, until) } else { 0.0 };
            bin.running /= width;
        }
        sums.ns_per_day = if busy > 0.0 { sums.ns / busy * 86400.0 } else { 0.0 };
        sums.seconds_between_interruptions =
            (sums.interrupted > 0).then(|| sums.run_seconds / sums.interrupted as f64);
        sums.bins = bins;
        sums
    }
}

/// Stretches of round length that begin at round times; the first and the last may be shorter.
fn bins(since: Timestamp, until: Timestamp) -> Vec<Bin> {
    let minutes = until.duration_since(since).as_secs() / 60;
    let width =
        WIDTHS.into_iter().find(|width| minutes / width < MOST_BINS).unwrap_or(minutes / MOST_BINS + 1) * 60;
    let mut bins = Vec::new();
    let mut from = since;
    while from < until {
        let next = Timestamp::from_second((from.as_second().div_euclid(width) + 1) * width);
        let to = next.map_or(until, |next| next.min(until));
        bins.push(Bin {
            from,
            to,
            running: 0.0,
            completed: 0,
            failed: 0,
            interrupted: 0,
            ns: 0.0,
            ns_per_day: 0.0,
        });
        from = to;
    }
    bins
}

/// Seconds between `from` and `to` in which at least one ran.
fn busy_seconds(ran: &[Ran], from: Timestamp, to: Timestamp, until: Timestamp) -> f64 {
    let mut busy = 0.0;
    // Attempts come in the order of their starts.
    let mut covered = from;
    for attempt in ran {
        let start = attempt.start_time.to_jiff().max(covered);
        let end = attempt.end_time.map_or(until, jiff_sqlx::Timestamp::to_jiff).min(to);
        if end > start {
            busy += seconds(start, end);
            covered = end;
        }
    }
    busy
}

fn overlap(start: Timestamp, end: Timestamp, from: Timestamp, to: Timestamp) -> f64 {
    seconds(start.max(from), end.min(to)).max(0.0)
}

pub(super) fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    let duration: SignedDuration = to.duration_since(from);
    duration.as_secs_f64()
}

/// Time that an attempt simulated, ns; none if it is not known.
pub(super) fn simulated_ns(attempt: &Ran) -> Option<f64> {
    let steps = attempt.last_step?.checked_sub(attempt.first_step?)?.max(0);
    Some(steps as f64 * attempt.dt_ps? / 1000.0)
}

/// `2026-11-21 08:00`, UTC.
pub(super) fn clock(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Noon; attempts begin so many seconds after midnight.
    pub(in crate::cli::report) fn now() -> Timestamp {
        "2026-11-21T12:00:00Z".parse().expect("should be a time")
    }

    /// An attempt on a core that computes 1 ns.
    pub(in crate::cli::report) fn ran(row: i64, start: i64, end: Option<i64>, outcome: &str) -> Ran {
        let at =
            |second: i64| (now() - SignedDuration::from_hours(12) + SignedDuration::from_secs(second)).into();
        Ran {
            row_id: row,
            owner: "anna".to_owned(),
            namespace: "chem".to_owned(),
            tpr_path: format!("runs/{row}/md.tpr"),
            submission: 1,
            attempt: 1,
            cpu_millicores: Some(1000),
            memory_bytes: Some(1 << 26),
            gpus: Some(0),
            ntmpi: Some(1),
            ntomp: Some(1),
            start_time: at(start),
            end_time: end.map(at),
            outcome: end.map(|_| outcome.to_owned()),
            reason: None,
            first_step: Some(0),
            last_step: Some(500_000),
            dt_ps: Some(0.002),
            ns_per_day: Some(24.0),
            lost_seconds: None,
            node_cpu_millicores: None,
            node_requested_millicores: None,
            kind: "simulation".to_owned(),
        }
    }

    #[test]
    fn measured_runs_are_counted_by_what_was_on_their_node() {
        let beside = |node, requested| Ran {
            node_cpu_millicores: node,
            node_requested_millicores: requested,
            ..ran(1, 0, Some(3600), "completed")
        };
        let ran = [
            beside(None, None),
            beside(Some(8000), None),
            beside(Some(1000), Some(1000)),
            beside(Some(8000), Some(1000)),
            beside(Some(8000), Some(1500)),
            beside(Some(8000), Some(4000)),
        ];
        let expected = Measured { whole_node: 1, part_alone: 2, part_beside_others: 1 };
        assert_eq!(Measured::of(&ran), expected);
    }

    #[test]
    fn calibrations_and_commands_cost_time_and_simulate_nothing() {
        let mut calibration = ran(2, 0, Some(3600), "completed");
        calibration.kind = "calibration".to_owned();
        let command = Ran { row_id: 3, kind: "command".to_owned(), ..calibration.clone() };
        let alone =
            Sums::new(&[ran(1, 0, Some(3600), "completed")], now() - SignedDuration::from_hours(24), now());
        let sums = Sums::new(
            &[ran(1, 0, Some(3600), "completed"), calibration, command],
            now() - SignedDuration::from_hours(24),
            now(),
        );
        assert_eq!((sums.simulations, sums.calibrations, sums.commands, sums.completed), (1, 1, 1, 3));
        assert!((sums.core_hours - 3.0 * alone.core_hours).abs() < 1e-9);
        assert!((sums.ns - alone.ns).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_lost_between_the_stretches() {
        let attempts = [
            ran(1, 0, Some(3600), "interrupted"),
            ran(2, 1800, Some(5400), "completed"),
            ran(1, 4000, Some(9000), "failed"),
            ran(3, 40_000, None, ""),
        ];
        let sums = Sums::new(&attempts, now() - SignedDuration::from_hours(24), now());
        assert_eq!((sums.simulations, sums.runs), (3, 4));
        assert_eq!((sums.completed, sums.failed, sums.interrupted), (1, 1, 1));
        assert_eq!(sums.since, now() - SignedDuration::from_hours(12), "from the first attempt on");
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6 * b.abs().max(1.0);
        assert!(close(sums.run_seconds, 3600.0 + 3600.0 + 5000.0 + 3200.0), "{}", sums.run_seconds);
        assert!(close(sums.ns, 4.0) && close(sums.bins.iter().map(|bin| bin.ns).sum(), 4.0));
        let running: f64 = sums.bins.iter().map(|bin| bin.running * seconds(bin.from, bin.to)).sum();
        assert!(close(running, sums.run_seconds), "{running}");
        let ended: i64 = sums.bins.iter().map(|bin| bin.completed + bin.failed + bin.interrupted).sum();
        assert_eq!(ended, 3);
        // Busy from 0 to 9000 s and for the last 3200 s.
        assert!(close(sums.ns_per_day, 4.0 / 12_200.0 * 86400.0), "{}", sums.ns_per_day);
        assert!(sums.bins.len() as i64 <= MOST_BINS + 1);
        assert!(sums.bins.windows(2).all(|pair| pair[0].to == pair[1].from));
    }

    #[test]
    fn an_attempt_counts_for_the_part_that_was_asked_for() {
        let sums =
            Sums::new(&[ran(1, 0, Some(7200), "completed")], now() - SignedDuration::from_hours(11), now());
        assert!((sums.run_seconds - 3600.0).abs() < 1e-6 && (sums.ns - 0.5).abs() < 1e-6, "{sums:?}");
    }

    #[test]
    fn no_time_at_all_is_no_harm() {
        let sums = Sums::new(&[ran(1, 0, None, "")], now(), now());
        assert!(sums.bins.is_empty() && sums.ns == 0.0);
        let long = bins(now() - SignedDuration::from_hours(24 * 3000), now());
        assert!(long.len() as i64 <= MOST_BINS + 1, "{}", long.len());
    }
}
