//! 200 nodes whose ordinary pods use cpu and memory as pods of real clusters did, for an hour or two.

use std::collections::BTreeMap;

use jiff::Timestamp;
use scavenger_planner::values::{Accounting, Name};

use super::*;

/// Nodes.
const NODES: usize = 200;

/// Minutes of the traces that are played; they have 300.
fn minutes() -> i64 {
    if crate::in_full() { 120 } else { 60 }
}

/// Millicores and MiB of a node, and what its ordinary pods have reserved of each.
const WHOLE: i64 = 20_000;
const RESERVED: i64 = 18_000;

/// `interruptionAfter`.
const STRETCH: SignedDuration = SignedDuration::from_mins(30);

/// Lines of numbers; comments begin with `#`.
fn numbers(text: &str) -> Vec<Vec<i64>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            line.split(',').map(|number| number.parse().expect("the file should hold numbers")).collect()
        })
        .collect()
}

/// What ordinary pods use, by node and minute.
struct Traces {
    cpu: Vec<Vec<i64>>,
    memory: Vec<Vec<i64>>,
}

impl Traces {
    fn read() -> Self {
        Self {
            cpu: numbers(include_str!("../../data/cpu-by-hour.csv")),
            memory: numbers(include_str!("../../data/memory-by-minute.csv")),
        }
    }

    /// Millicores and MiB. Each node begins at another hour, and its load jumps around the hourly mean. Its memory is the
    /// trace of a container, half of what that had, since pods of a node do not all come to their peaks at once.
    fn of(&self, node: usize, minute: i64) -> Use {
        let minute = usize::try_from(minute).expect("minutes should begin at 0");
        let hours = &self.cpu[node % self.cpu.len()];
        let first = node * 7 % (hours.len() - 7);
        let (hour, within) = (first + minute / 60, (minute % 60) as i64);
        let mean = (hours[hour] * (60 - within) + hours[hour + 1] * within) / 60;
        // Up to a fifth more or less, another each five minutes.
        let jump = ((node * 7919 + minute / 5 * 104_729) % 41) as i64 - 20;
        let memory = self.memory[node % self.memory.len()][minute];
        (RESERVED * mean / 1000 * (100 + jump) / 100, RESERVED / 2 * memory / 1000)
    }
}

/// What pods of ScavengerJobs hold on each node.
fn held(cluster: &Cluster) -> BTreeMap<Name, Use> {
    let mut held: BTreeMap<Name, Use> = BTreeMap::new();
    for pod in cluster.all_live_pods().into_iter().filter(|pod| pod.owner.is_some()) {
        if let Some(node) = &pod.node {
            let sum = held.entry(node.clone()).or_default();
            sum.0 += pod.holds().cpu_milli;
            // Half of it is what they use: see `measure`.
            sum.1 += pod.holds().memory_bytes >> 21;
        }
    }
    held
}

#[test]
fn nodes_that_are_used_as_in_real_clusters_stay_below_the_threshold() {
    let traces = Traces::read();
    let name = |number: usize| -> Name { format!("n{number}").as_str().into() };
    let mut cluster = Cluster::new(settings().filled_to(0.85).by_use().starting_at_once(50))
        .with_nodes((0..NODES).map(|number| node(&name(number), WHOLE)));
    for number in 0..NODES * 18 {
        cluster.create_pod(pod(&format!("web-{number}"), 1000), FOREVER);
    }
    for number in 0..1000 {
        let mut sj = sj(&format!("s{number}")).asking(1000 + number % 4 * 1000);
        sj.spec.as_mut().unwrap().interruption_after = STRETCH;
        cluster.submit(sj, work(100_000));
    }
    // Since when a node has been above the threshold.
    let mut above: BTreeMap<usize, Timestamp> = BTreeMap::new();
    let (mut samples, mut samples_above, mut by_use) = (0_u32, 0_u32, 0_u32);
    for step in 0..minutes() * 60 / EVERY {
        let minute = step * EVERY / 60;
        cluster.run_for(seconds(EVERY));
        measure(&mut cluster, |node| traces.of(node[1..].parse().unwrap(), minute));
        let held = held(&cluster);
        for number in 0..NODES {
            let (cpu, mib) = traces.of(number, minute);
            let (held_cpu, held_mib) = held.get(&name(number)).copied().unwrap_or_default();
            let limit = WHOLE * 9 / 10;
            samples += 1;
            by_use += u32::from(held_cpu > 0);
            if held_cpu + held_mib > 0 && (cpu + held_cpu > limit || mib + held_mib > limit) {
                samples_above += 1;
                let since = *above.entry(number).or_insert(cluster.now);
                // The linger, two grace periods (that of one that ended before leaves its use uncertain), and two samples.
                let waits = cluster.now.duration_since(since);
                assert!(waits <= seconds(60 + 2 * 30 + 2 * EVERY), "n{number} has had too much for {waits}");
            } else {
                above.remove(&number);
            }
        }
    }
    // How often each was interrupted in as many stretches as it ran.
    let mut rates = Vec::new();
    for sj in cluster.scavenger_jobs().filter(|sj| sj.status.attempt.is_some()) {
        assert!(sj.status.attempt.as_ref().is_some_and(|attempt| attempt.accounting == Accounting::Usage));
        let stretches = minutes() * 60 / STRETCH.as_secs();
        rates.push(f64::from(sj.status.interrupted_count) / stretches as f64);
    }
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    println!(
        "{} of 1000 ran, on {:.0}% of nodes and samples; {:.2}% of samples above the threshold; {median:.2} interruptions \
         per interruptionAfter in the median, {:.2} in the 95th percentile",
        rates.len(),
        100.0 * f64::from(by_use) / f64::from(samples),
        100.0 * f64::from(samples_above) / f64::from(samples),
        rates[rates.len() * 95 / 100],
    );
    assert!(rates.len() > 200, "{} found capacity that is reserved and not used", rates.len());
    assert!(f64::from(samples_above) < 0.02 * f64::from(samples), "{samples_above} of {samples} samples");
    assert!(median <= 1.0, "{median}");
}
