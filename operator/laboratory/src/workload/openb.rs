//! Alibaba's public trace `cluster-trace-gpu-v2023` (`openb`): the list of nodes and a list of pods.
//!
//! The cluster is far larger than its load, so that nobody would ever have to wait: only as many of its nodes are taken, the
//! largest first, as carry the highest load of the window at 90%. Parts of a GPU count as a whole one: the planner
//! knows whole GPUs only. The trace has no ScavengerJobs.

use std::{fs, path::Path};

use scavenger_program::exit::Unusable;
use serde::{Deserialize, de::DeserializeOwned};

use super::{Node, Ordinary, Workload, read::finish};
use crate::{
    chance::Chance,
    values::{Amounts, SECOND, Time},
};

/// The files of the trace, in one folder.
const NODES: &str = "openb_node_list_all_node.csv";
/// See [`NODES`].
const PODS: &str = "openb_pod_list_default.csv";

/// So many hundredths of the nodes that are taken are asked for at the busiest moment.
const FULLEST: i64 = 90;

/// Pods that a kubelet takes.
const PODS_PER_NODE: i64 = 110;

/// Priority of pods that serve users; others have none.
const LATENCY_SENSITIVE: i32 = 1000;

#[derive(Debug, Deserialize)]
struct NodeRow {
    sn: String,
    cpu_milli: i64,
    memory_mib: i64,
    gpu: i64,
}

#[derive(Debug, Deserialize)]
struct PodRow {
    cpu_milli: i64,
    memory_mib: i64,
    num_gpu: i64,
    qos: String,
    creation_time: i64,
    deletion_time: Option<i64>,
}

/// Reads the trace of a folder between two times, in its seconds.
///
/// # Errors
/// [`Unusable`] with the file and the line of what makes no sense, or if nothing happens in the window.
pub fn read(folder: &Path, (from, to): (i64, i64)) -> Result<Workload, Unusable> {
    let nodes: Vec<NodeRow> = rows(&folder.join(NODES))?;
    let pods: Vec<PodRow> = rows(&folder.join(PODS))?;
    let ordinary: Vec<Ordinary> = pods.iter().filter_map(|row| pod(row, from, to)).collect();
    if ordinary.is_empty() {
        let path = folder.join(PODS);
        return Err(Unusable(format!("{}: no pod is there between second {from} and {to}", path.display())));
    }
    let nodes = enough(nodes, &ordinary);
    let mut workload = Workload { nodes, ordinary, ..Workload::default() };
    finish(&mut workload).map_err(|error| Unusable(format!("{}: {error}", folder.display())))?;
    workload.length = (to - from) * SECOND;
    Ok(workload)
}

fn rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Unusable> {
    let file = fs::File::open(path)
        .map_err(|error| Unusable(format!("{}: cannot be read: {error}", path.display())))?;
    let mut rows = csv::Reader::from_reader(file);
    let wrong = |error: csv::Error| Unusable(format!("{}: {error}", path.display()));
    rows.deserialize().map(|row| row.map_err(wrong)).collect()
}

/// A pod of the window; what came before was there when it begins.
fn pod(row: &PodRow, from: i64, to: i64) -> Option<Ordinary> {
    let arrival = row.creation_time.max(from);
    let end = row.deletion_time.unwrap_or(to).min(i64::MAX / SECOND);
    (arrival < to && end > arrival).then(|| Ordinary {
        arrival: (arrival - from) * SECOND,
        duration: (end - arrival) * SECOND,
        requests: Amounts::of_pod(row.cpu_milli, row.memory_mib, row.num_gpu),
        priority: if row.qos == "LS" { LATENCY_SENSITIVE } else { 0 },
    })
}

/// The trace has whole seconds: where within them a pod comes and ends is drawn. So is the order in which those are placed that
/// were there when the window begins, since the trace has no nodes of theirs. In a full cluster that decides who waits later.
pub fn draw_within_seconds(workload: &mut Workload, chance: &mut Chance) {
    for pod in &mut workload.ordinary {
        pod.arrival += chance.below(SECOND);
        pod.duration += chance.below(SECOND);
    }
    workload.ordinary.sort_by_key(|pod| pod.arrival);
}

/// As few of the nodes, the largest first, as carry the highest load: GPUs first, and what is missing of cpu and memory then.
fn enough(mut rows: Vec<NodeRow>, ordinary: &[Ordinary]) -> Vec<Node> {
    let peak = peak(ordinary).map(|amount| (amount * 100 + FULLEST - 1) / FULLEST);
    rows.sort_by(|a, b| (b.gpu, b.cpu_milli, &a.sn).cmp(&(a.gpu, a.cpu_milli, &b.sn)));
    let (mut taken, mut sum) = (Vec::new(), Amounts::default());
    for row in rows {
        let lacks = match row.gpu {
            0 => peak.cpu > sum.cpu || peak.memory > sum.memory,
            _ => peak.gpus > sum.gpus,
        };
        if lacks {
            let node = node(&row);
            sum = sum.plus(node.capacity);
            taken.push(node);
        }
    }
    taken
}

fn node(row: &NodeRow) -> Node {
    let capacity = Amounts { cpu: row.cpu_milli, memory: row.memory_mib, pods: PODS_PER_NODE, gpus: row.gpu };
    Node { name: row.sn.clone(), capacity, labels: [].into() }
}

/// The most that is asked for at the same time, of each resource on its own.
fn peak(ordinary: &[Ordinary]) -> Amounts {
    let mut changes: Vec<(Time, i64, Amounts)> = Vec::new();
    for pod in ordinary {
        changes.push((pod.arrival, 1, pod.requests));
        changes.push((pod.arrival + pod.duration, -1, pod.requests));
    }
    // What ends at a moment is gone by then.
    changes.sort_unstable();
    let (mut sum, mut peak) = (Amounts::default(), Amounts::default());
    for (_, sign, amounts) in changes {
        sum = sum.plus(amounts.times(sign));
        peak = peak.larger(sum);
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(nodes: &str, pods: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NODES), format!("sn,cpu_milli,memory_mib,gpu,model\n{nodes}")).unwrap();
        let header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
                      deletion_time,scheduled_time\n";
        fs::write(folder.path().join(PODS), format!("{header}{pods}")).unwrap();
        folder
    }

    /// Rows of cluster-trace-gpu-v2023 of alibaba/clusterdata.
    const SOME_NODES: &str = "openb-node-0000,32000,262144,0,\nopenb-node-0001,32000,262144,0,\n\
                              openb-node-0229,96000,786432,8,G2\nopenb-node-0230,96000,786432,8,G2\n";
    const SOME_PODS: &str = "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\n\
                             openb-pod-0001,6000,12288,1,460,,BE,Running,427061,12902960,427061\n\
                             openb-pod-0002,12000,24576,1,1000,,LS,Running,1558381,1558400,1558381\n";

    #[test]
    fn a_window_has_what_is_there_then_and_as_few_nodes_as_carry_it() {
        let folder = folder(SOME_NODES, SOME_PODS);
        let workload = read(folder.path(), (1_000_000, 2_000_000)).unwrap();
        let pods: Vec<_> = workload.ordinary.iter().map(|pod| (pod.arrival, pod.priority)).collect();
        assert_eq!(pods, [(0, 1000), (0, 0), (558_381_000, 1000)]);
        assert_eq!(workload.ordinary[2].duration, 19_000);
        assert_eq!(workload.nodes.len(), 1, "{:?}", workload.nodes);
        assert_eq!(workload.nodes[0].capacity.gpus, 8);
        assert_eq!(workload.length, 1_000_000_000);
    }

    #[test]
    fn seeds_differ_within_the_seconds_of_the_trace() {
        let folder = folder(SOME_NODES, SOME_PODS);
        let whole = read(folder.path(), (1_000_000, 2_000_000)).unwrap();
        let drawn = |seed| {
            let mut workload = whole.clone();
            draw_within_seconds(&mut workload, &mut Chance::new(seed, 4));
            workload.ordinary
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let seconds = |pods: &[Ordinary]| {
            let mut seconds: Vec<_> = pods
                .iter()
                .map(|pod| (pod.arrival / SECOND, pod.duration / SECOND, pod.requests.cpu))
                .collect();
            seconds.sort_unstable();
            seconds
        };
        assert_eq!(seconds(&drawn(1)), seconds(&whole.ordinary));
        let first = |seed| drawn(seed)[0].priority;
        assert!((1..20).any(|seed| first(seed) != first(1)), "who is placed first is drawn, too");
    }

    #[test]
    fn an_empty_window_and_a_bad_row_are_said() {
        let good = folder(SOME_NODES, SOME_PODS);
        let error = read(good.path(), (20_000_000, 30_000_000)).unwrap_err().to_string();
        assert!(error.ends_with("no pod is there between second 20000000 and 30000000"), "{error}");
        let bad = folder(SOME_NODES, &SOME_PODS.replace("6000", "lots"));
        let error = read(bad.path(), (0, 1)).unwrap_err().to_string();
        assert!(error.contains(PODS) && error.contains("line: 3"), "{error}");
        let error = read(Path::new("/nowhere"), (0, 1)).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/openb_node_list_all_node.csv: cannot be read"), "{error}");
    }
}
