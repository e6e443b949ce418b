//! One page for an admin who decides: what ScavengerJobs would have got done on the cluster of a trace, at which start
//! thresholds, and what it would have cost ordinary pods.

use std::fmt::Write as _;

use scavenger_planner::{resources::Share, values::Settings};

use crate::{
    chance::Chance,
    compare::{Contender, Outcome},
    measure::{Figures, Interval},
    policy::Kind,
    pool::Pool,
    print::Comparison,
    values::{Amounts, DAY, HOUR, MINUTE, Time},
    workload::{Mix, Recorded, Workload},
};

/// The start thresholds that are played, in percent: from cautious to close to full.
const THRESHOLDS: [u32; 4] = [60, 70, 80, 90];

/// Where headroom would begin below its target, it begins so much above: as far apart as the defaults are.
const HEADROOM_PERCENT: u32 = 5;

/// So many of a thousand ordinary pods must start as fast as without ScavengerJobs.
const AS_FAST: f64 = 999.0;

/// ScavengerJobs come from this time on: those pods that are there at the beginning find their nodes first.
const SETTLED: Time = 5 * MINUTE;

/// The sizes of drawn pods, in cores.
static CORES: [i64; 4] = [1, 2, 4, 8];

/// The pool with each of the thresholds.
#[must_use]
pub fn contenders(pool: &Pool) -> Vec<Contender> {
    let contender = |percent: &u32| {
        let pool = Pool { name: Some(format!("{percent}%")), settings: at(&pool.settings, *percent) };
        Contender { kind: Kind::Operator, pool }
    };
    THRESHOLDS.iter().map(contender).collect()
}

fn at(settings: &Settings, percent: u32) -> Settings {
    let share = |percent: u32| Share::from_fraction(f64::from(percent) / 100.0);
    let mut settings = settings.clone();
    settings.start_thresholds.default = share(percent);
    let headroom = &mut settings.headroom;
    headroom.target = headroom.target.max(share(percent));
    let least = Share::from_fraction(headroom.target.fraction() + f64::from(HEADROOM_PERCENT) / 100.0);
    headroom.interrupt_threshold = headroom.interrupt_threshold.map(|threshold| threshold.max(least));
    settings
}

/// What ordinary pods ask of the cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Cores that all nodes have for pods.
    pub cores: f64,
    /// Cores that ordinary pods request on average.
    pub mean_cores: f64,
    /// The most that they request at the same time.
    pub peak_cores: f64,
}

impl Load {
    /// Of a workload, if each of its pods runs when it arrives.
    #[must_use]
    pub fn of(workload: &Workload) -> Self {
        let mut changes: Vec<(Time, i64)> = Vec::new();
        let mut held = 0_i128;
        for pod in &workload.ordinary {
            let end = pod.arrival.saturating_add(pod.duration);
            let seen = end.min(workload.length) - pod.arrival;
            held += i128::from(pod.requests.cpu) * i128::from(seen.max(0));
            changes.push((pod.arrival, pod.requests.cpu));
            changes.push((end, -pod.requests.cpu));
        }
        // What ends at a moment is gone by then.
        changes.sort_unstable();
        let (mut sum, mut peak) = (0, 0);
        for (_, change) in changes {
            sum += change;
            peak = peak.max(sum);
        }
        let Amounts { cpu, .. } = workload.capacity();
        Self {
            cores: cpu as f64 / 1000.0,
            mean_cores: held as f64 / workload.length.max(1) as f64 / 1000.0,
            peak_cores: peak as f64 / 1000.0,
        }
    }
}

/// The workload for a seed, with so many ScavengerJobs that they could use all that is free; those of the trace if it has any.
#[must_use]
pub fn draw(facts: &Facts<'_>, seed: u64) -> Workload {
    let workload = facts.workload;
    if !workload.scavengers.is_empty() {
        return workload.clone();
    }
    let mut scavengers = mix(facts).draw(&mut Chance::new(seed, 2));
    for sj in &mut scavengers {
        sj.arrival = sj.arrival.max(SETTLED);
    }
    Workload { scavengers, ..workload.clone() }
}

/// Short and long work, as far as the time allows, of pods that take at most half a node.
fn mix(facts: &Facts<'_>) -> Mix {
    let workload = facts.workload;
    let largest = workload.nodes.iter().map(|node| node.capacity.cpu / 1000).max().unwrap_or(0);
    let sizes = CORES.iter().filter(|cores| *cores * 2 <= largest).count().max(1);
    let longest = (workload.length / 2).clamp(MINUTE, 12 * HOUR);
    let work = ((10 * MINUTE).min(longest / 2), longest);
    let cores = facts.free_cores(&Load::of(workload)).ceil() as i64;
    let length = workload.length;
    Mix { work, cores: &CORES[..sizes], ..Mix::filling(1, length) }.asking_for(cores, length)
}

/// What is said about the cluster and its ScavengerJobs.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The cluster and its ordinary pods.
    pub workload: &'a Workload,
    /// What else was recorded.
    pub recorded: Option<Recorded>,
    /// The pool with which each threshold was played.
    pub pool: &'a Pool,
}

/// The page.
#[must_use]
pub fn page(facts: &Facts<'_>, comparison: &Comparison) -> String {
    let mut text = String::from("What ScavengerJobs would have done on this cluster\n\n");
    cluster(&mut text, facts, comparison);
    scavengers(&mut text, facts, comparison);
    text.push('\n');
    table(&mut text, facts, &comparison.outcomes);
    text.push('\n');
    text.push_str(&recommendation(&comparison.outcomes, facts));
    text.push_str(&limits(facts));
    text
}

impl Facts<'_> {
    /// True if the pool counts capacity by use.
    fn is_by_use(&self) -> bool {
        self.pool.settings.places_by_use()
    }

    /// Cores that are free on average, as the pool counts them.
    fn free_cores(&self, load: &Load) -> f64 {
        let used = self.recorded.and_then(|recorded| recorded.used_cores).filter(|_| self.is_by_use());
        (load.cores - used.unwrap_or(load.mean_cores)).max(0.0)
    }
}

fn cluster(text: &mut String, facts: &Facts<'_>, comparison: &Comparison) {
    let Facts { workload, recorded, .. } = facts;
    let load = Load::of(workload);
    let capacity = workload.capacity();
    let percent = |cores: f64| format!("{:.0}% ({cores:.1} cores)", 100.0 * cores / load.cores.max(1e-9));
    let begin = recorded.map(|recorded| format!(" from {} on", recorded.begin)).unwrap_or_default();
    let _ = writeln!(text, "{}: {}{begin}", comparison.workload, span(workload.length));
    let gpus = if capacity.gpus > 0 { format!(", {} GPUs", capacity.gpus) } else { String::new() };
    let _ = writeln!(
        text,
        "  the cluster    {}, {:.1} cores and {} GiB for pods{gpus}",
        number(workload.nodes.len(), "node"),
        load.cores,
        capacity.memory >> 10,
    );
    let _ = writeln!(text, "  ordinary pods  {}", number(workload.ordinary.len(), "pod"));
    let _ = writeln!(text, "  they request   {} on average", percent(load.mean_cores));
    let waited = if load.peak_cores > load.cores { ": more than there is, so some waited" } else { "" };
    let _ = writeln!(text, "                 {} at the busiest moment{waited}", percent(load.peak_cores));
    if let Some(used) = recorded.and_then(|recorded| recorded.used_cores) {
        let _ =
            writeln!(text, "  they use       {} on average, as metrics.k8s.io measured it", percent(used));
    }
    let counted = if facts.is_by_use() { "use" } else { "requests" };
    let _ = writeln!(text, "  free           {} on average, by {counted}", percent(facts.free_cores(&load)));
    if workload.length < DAY {
        text.push_str(
            "This is less than a day. Nights and weekends are not in it: record a week before you decide.\n",
        );
    }
}

fn scavengers(text: &mut String, facts: &Facts<'_>, comparison: &Comparison) {
    text.push('\n');
    if facts.workload.scavengers.is_empty() {
        let mix = mix(facts);
        let (least, most) = (span(mix.work.0), span(mix.work.1));
        let sizes: Vec<String> = mix.cores.iter().map(i64::to_string).collect();
        let _ = writeln!(
            text,
            "ScavengerJobs, drawn from a seed: {} that together could use all that is free. Each needs {least} to {most}.\n\
             Their pods request {} cores, and write a checkpoint every 5 to 30 minutes; 30% of them also on SIGTERM.",
            number(mix.count, "ScavengerJob"),
            sizes.join(", "),
        );
    } else {
        let count = number(facts.workload.scavengers.len(), "ScavengerJob");
        let _ = writeln!(text, "ScavengerJobs: the {count} of the trace.");
    }
    let _ = writeln!(
        text,
        "Each row is the same time with another start threshold, against the same time without ScavengerJobs{}.",
        match comparison.seeds {
            1 => String::new(),
            seeds => format!(":\nthe median of {seeds} seeds"),
        }
    );
}

/// A column: its two heads, how many digits its figures have, and the figure.
type Column = (&'static str, &'static str, usize, fn(&Figures) -> f64);

const COLUMNS: [Column; 10] = [
    ("core hours", "kept", 1, |figures| figures.kept_core_hours),
    ("core hours", "lost", 1, |figures| figures.lost_core_hours),
    ("ScavengerJobs", "done", 0, |figures| figures.finished),
    ("interrup-", "tions", 0, |figures| figures.interruptions),
    ("cpu", "requested %", 1, |figures| 100.0 * figures.utilisation),
    ("ordinary pods", "later", 0, |figures| figures.ordinary_later),
    ("that is %", "of all", 2, |figures| figures.ordinary_later_percent),
    ("later by s,", "mean", 1, |figures| figures.ordinary_later_seconds),
    ("preempted", "more often", 0, |figures| figures.ordinary_preemptions),
    ("killed for", "memory", 0, |figures| figures.killed_for_memory),
];

fn table(text: &mut String, facts: &Facts<'_>, outcomes: &[Outcome]) {
    // By requests memory is never short.
    let columns = &COLUMNS[..if facts.is_by_use() { COLUMNS.len() } else { COLUMNS.len() - 1 }];
    let heads = |first: &str, head: fn(&Column) -> &'static str| {
        std::iter::once(first).chain(columns.iter().map(head)).map(str::to_owned).collect()
    };
    let mut rows = vec![heads("start", |(head, ..)| head), heads("up to", |(_, head, ..)| head)];
    for (percent, outcome) in THRESHOLDS.iter().zip(outcomes) {
        let figures = columns.iter().map(|(_, _, digits, figure)| {
            let Interval { median, .. } = outcome.over(*figure);
            if median.is_nan() { "-".to_owned() } else { format!("{median:.digits$}") }
        });
        rows.push(std::iter::once(format!("{percent}%")).chain(figures).collect::<Vec<String>>());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=columns.len()).map(width).collect();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  "));
    }
}

/// What the page says in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recommended {
    /// The highest start threshold, in percent, at which 99.9% of ordinary pods start as fast as without, whatever the seed.
    Threshold(u32),
    /// At none of them they do.
    Harm,
    /// With some seed nothing is kept, so there is nothing to recommend ScavengerJobs for.
    Nothing,
}

fn recommended(outcomes: &[Outcome]) -> Recommended {
    let spares = |outcome: &Outcome| {
        outcome.runs.iter().all(|figures| {
            figures.ordinary_later * 1000.0 <= (1000.0 - AS_FAST) * figures.ordinary_pods
                && figures.ordinary_preemptions <= 0.0
        })
    };
    let keeps = |outcome: &Outcome| outcome.runs.iter().all(|figures| figures.kept_core_hours > 0.0);
    let sparing = THRESHOLDS.iter().zip(outcomes).filter(|(_, outcome)| spares(outcome));
    match sparing.max_by_key(|(percent, _)| **percent) {
        None => Recommended::Harm,
        Some((percent, outcome)) if keeps(outcome) => Recommended::Threshold(*percent),
        Some(_) => Recommended::Nothing,
    }
}

fn recommendation(outcomes: &[Outcome], facts: &Facts<'_>) -> String {
    let mode = format!("{:?}", facts.pool.settings.preemption_mode);
    match recommended(outcomes) {
        Recommended::Threshold(percent) => format!(
            "Recommended: startThreshold {:.1}, the highest of these at which 99.9% of ordinary pods start as fast as without \
             ScavengerJobs\n(within a second, with every seed) and none of them is preempted for more, in preemption mode {mode}.\n",
            f64::from(percent) / 100.0,
        ),
        Recommended::Nothing => {
            "Recommended: none of these. Where ordinary pods notice nothing, ScavengerJobs get nothing done: too little is free, \
             or the\nrecording is too short for a first checkpoint.\n"
                .to_owned()
        }
        Recommended::Harm => format!(
            "Recommended: none of these. At each of them more than 1 of 1,000 ordinary pods starts more than a second later, or one \
             is\npreempted that would not be, in preemption mode {mode}. Try a lower startThreshold with --pool, or fewer nodes.\n",
        ),
    }
}

fn limits(facts: &Facts<'_>) -> String {
    let capacity = if facts.is_by_use() {
        "how pods on a busy node slow each other down, beyond the cores that they get."
    } else if facts.workload.uses.is_some() {
        "accounting by use. This recording has what pods use: name a pool with accounting Usage by --pool to play that."
    } else {
        "accounting by use: this recording does not have what pods use."
    };
    format!(
        "\nWhat this does not show:\n- {capacity}\n\
         - affinity, spread and volumes of pods: kube-scheduler is played with resources and priorities alone.\n\
         - your users' ScavengerJobs, which are others than these.\n"
    )
}

fn number(count: usize, what: &str) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let plural = if count == 1 { "" } else { "s" };
    format!("{grouped} {what}{plural}")
}

/// A time in its two largest units.
fn span(time: Time) -> String {
    let parts = [(time / DAY, "d"), (time % DAY / HOUR, "h"), (time % HOUR / MINUTE, "min")];
    let parts = parts.iter().skip_while(|(amount, _)| *amount == 0).take(2).filter(|(amount, _)| *amount > 0);
    let parts: Vec<String> = parts.map(|(amount, unit)| format!("{amount} {unit}")).collect();
    if parts.is_empty() { "less than a minute".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        compare::compare,
        workload::{Node, Ordinary},
    };
    use scavenger_planner::values::PreemptionMode;

    fn workload(pods: &[(Time, Time, i64)]) -> Workload {
        let capacity = Amounts { cpu: 8000, memory: 32_768, pods: 110, gpus: 0 };
        let node = |name: &str| Node { name: name.to_owned(), capacity, labels: [].into() };
        let pod = |(arrival, duration, cores): &(Time, Time, i64)| Ordinary {
            arrival: *arrival,
            duration: *duration,
            requests: Amounts::of_pod(cores * 1000, 1024, 0),
            priority: 0,
        };
        Workload {
            nodes: ["a", "b"].map(node).into(),
            ordinary: pods.iter().map(pod).collect(),
            length: 6 * HOUR,
            ..Workload::default()
        }
    }

    #[test]
    fn the_load_is_what_pods_request_over_time() {
        let load = Load::of(&workload(&[(0, 3 * HOUR, 4), (3 * HOUR, HOUR, 6), (5 * HOUR, 9 * HOUR, 2)]));
        assert_eq!((load.cores, load.peak_cores), (16.0, 6.0), "one ends when the next begins");
        assert!((load.mean_cores - 20.0 / 6.0).abs() < 1e-9, "{load:?}");
        let (workload, usual) = (workload(&[]), Pool::usual(PreemptionMode::Scheduler));
        let facts = Facts { workload: &workload, recorded: None, pool: &usual };
        let load = Load::of(&workload);
        assert_eq!(facts.free_cores(&load), 16.0);
        let recorded = Some(Recorded { begin: jiff::Timestamp::UNIX_EPOCH, used_cores: Some(3.0) });
        assert_eq!(Facts { recorded, ..facts }.free_cores(&load), 16.0);
        let spec = "{ accounting: Usage, usage: {} }";
        let by_use = crate::pool::Document::of_spec(spec).unwrap().pool().unwrap();
        assert_eq!(Facts { recorded, pool: &by_use, ..facts }.free_cores(&load), 13.0);
    }

    #[test]
    fn every_threshold_makes_a_pool_that_the_operator_would_take() {
        for contender in contenders(&Pool::usual(PreemptionMode::Scheduler)) {
            let Settings { start_thresholds, headroom, .. } = contender.pool.settings;
            assert!(start_thresholds.default <= headroom.target, "{:?}", contender.pool.name);
            assert!(headroom.interrupt_threshold.is_some_and(|threshold| threshold > headroom.target));
        }
    }

    #[test]
    fn drawn_scavenger_jobs_fit_the_nodes_and_the_time() {
        let (workload, pool) = (workload(&[(0, HOUR, 4)]), Pool::usual(PreemptionMode::Scheduler));
        let facts = Facts { workload: &workload, recorded: None, pool: &pool };
        let drawn = draw(&facts, 1);
        assert_eq!(drawn, draw(&facts, 1));
        assert!(drawn.scavengers.len() > 3, "{}", drawn.scavengers.len());
        for sj in &drawn.scavengers {
            assert!(sj.arrival >= SETTLED && sj.work <= 3 * HOUR && sj.requests.cpu <= 4000, "{sj:?}");
        }
        assert_eq!(
            draw(&Facts { workload: &drawn, ..facts }, 2).scavengers,
            drawn.scavengers,
            "a trace that has some keeps them"
        );
    }

    fn outcome(later: f64, preempted: f64, runs: usize, kept: f64) -> Outcome {
        let (workload, pool) = (workload(&[(0, HOUR, 4)]), Pool::usual(PreemptionMode::Scheduler));
        let facts = Facts { workload: &workload, recorded: None, pool: &pool };
        let contenders = contenders(&pool);
        let mut outcome =
            compare(&contenders[..1], runs as u64, 50, |seed| draw(&facts, seed), |_| {}).remove(0);
        let last = outcome.runs.last_mut().unwrap();
        (last.ordinary_pods, last.ordinary_later, last.ordinary_preemptions) = (3000.0, later, preempted);
        last.kept_core_hours = kept;
        outcome
    }

    #[test]
    fn the_highest_threshold_is_recommended_that_holds_with_every_seed() {
        let good = outcome(3.0, 0.0, 2, 9.0);
        let (late, preempted, idle) =
            (outcome(4.0, 0.0, 2, 9.0), outcome(0.0, 1.0, 1, 9.0), outcome(0.0, 0.0, 2, 0.0));
        let of = |outcomes: [&Outcome; 4]| recommended(&outcomes.map(Clone::clone));
        assert_eq!(of([&good, &good, &late, &late]), Recommended::Threshold(70));
        assert_eq!(of([&good, &late, &good, &preempted]), Recommended::Threshold(80));
        assert_eq!(of([&late, &preempted, &late, &late]), Recommended::Harm);
        assert_eq!(of([&idle, &idle, &late, &late]), Recommended::Nothing, "nothing harms nobody");
    }

    #[test]
    fn spans_and_numbers_are_for_people() {
        assert_eq!(span(7 * DAY + 3 * HOUR + 5 * MINUTE), "7 d 3 h");
        assert_eq!(span(DAY + 5 * MINUTE), "1 d");
        assert_eq!((span(65 * MINUTE), span(5)), ("1 h 5 min".to_owned(), "less than a minute".to_owned()));
        assert_eq!(number(1, "pod"), "1 pod");
        assert_eq!(number(1_234_567, "pod"), "1,234,567 pods");
        assert_eq!(number(123, "pod"), "123 pods");
    }
}
