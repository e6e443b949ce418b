//! The recording of a cluster, which `scavenger-operator record` wrote, as a workload. docs/record.md describes it.
//!
//! Nodes of a workload stay as they are, so that a recording takes part with the nodes that were open for at least half of the
//! time, and with the pods that ran there. What is left out is said.

use std::{collections::BTreeMap, io::BufRead, sync::Arc};

use jiff::Timestamp;
use scavenger_recording::{self as recording, Class, Event, Line};

use super::{
    Node, Ordinary, Read, Recorded, Uses, Workload,
    read::{ends_in_the_middle, finish},
};
use crate::values::{Amounts, HOUR, MINUTE, SECOND, Time};

/// A time in which nothing was seen that is worth a word: a recorder that starts again needs seconds, and every five minutes it
/// says that it is there and that the API server answers.
const GAP: Time = 10 * MINUTE;

/// Reads a recording.
///
/// # Errors
/// A message with the line of what makes no sense, or why there is nothing to play.
pub(super) fn read(from: impl BufRead) -> Result<Read, String> {
    let mut history = History::default();
    let read = recording::read(from, |_, line| history.take(line))?;
    let half = read.half.map(ends_in_the_middle);
    let (workload, recorded, notes) = history.workload()?;
    let notes: Vec<String> = half.into_iter().chain(notes).collect();
    Ok(Read { workload, recorded: Some(recorded), note: (!notes.is_empty()).then(|| notes.join("; ")) })
}

/// What the lines say so far.
#[derive(Debug, Default)]
struct History {
    begin: Option<Timestamp>,
    end: Timestamp,
    /// When a recorder last said that it is there.
    marked: Timestamp,
    nodes: BTreeMap<String, NodeHistory>,
    pods: BTreeMap<String, PodHistory>,
    /// Beginnings of times in which nothing was seen, and how long they were.
    gaps: Vec<(Timestamp, Time)>,
}

#[derive(Debug)]
struct NodeHistory {
    node: recording::Node,
    open_since: Option<Timestamp>,
    open: Time,
}

#[derive(Debug)]
struct PodHistory {
    pod: recording::Pod,
    created: Timestamp,
    bound: Option<(Timestamp, String)>,
    ended: Option<Timestamp>,
    /// What it used from each time on.
    used: Vec<(Timestamp, Amounts)>,
}

impl History {
    fn take(&mut self, Line { time, event }: Line) -> Result<(), String> {
        if self.begin.is_none() && event != Event::Begin {
            return Err("it must be a line \"begin\": nothing else says when the recording began".to_owned());
        }
        match event {
            Event::Begin | Event::Mark | Event::Full => {
                if self.begin.is_some() && between(self.marked, time) >= GAP {
                    self.gaps.push((self.marked, between(self.marked, time)));
                }
                self.begin.get_or_insert(time);
                self.marked = time;
            }
            Event::Node(node) => self.node(time, node)?,
            Event::NodeGone { name } => {
                let node = self.nodes.get_mut(&name).ok_or_else(|| format!("node {name:?} was not there"))?;
                node.close(time);
            }
            Event::Pod(pod) => {
                let history = PodHistory { pod, created: time, bound: None, ended: None, used: Vec::new() };
                self.pods.insert(history.pod.name.clone(), history);
            }
            Event::Bound { name, node } => {
                if !self.nodes.contains_key(&node) {
                    return Err(format!("node {node:?} was not there"));
                }
                self.pod(&name)?.bound = Some((time, node));
            }
            Event::Started { name } => {
                self.pod(&name)?;
            }
            Event::Ended { name } => self.pod(&name)?.ended = Some(time),
            Event::Use { name, cpu_milli, memory_mib } => {
                let used = Amounts { cpu: cpu_milli, memory: memory_mib, ..Amounts::default() };
                self.pod(&name)?.used.push((time, used));
            }
        }
        self.end = self.end.max(time);
        Ok(())
    }

    fn node(&mut self, time: Timestamp, node: recording::Node) -> Result<(), String> {
        if node.is_open && (node.cpu_milli == 0 || node.memory_mib == 0) {
            return Err("a node that is open needs cpu_milli and memory_mib".to_owned());
        }
        let is_open = node.is_open;
        let history = self.nodes.entry(node.name.clone()).or_insert_with(|| NodeHistory {
            node: node.clone(),
            open_since: None,
            open: 0,
        });
        history.close(time);
        history.open_since = is_open.then_some(time);
        history.node = node;
        Ok(())
    }

    fn pod(&mut self, name: &str) -> Result<&mut PodHistory, String> {
        self.pods.get_mut(name).ok_or_else(|| format!("pod {name:?} did not arrive before"))
    }

    /// The workload, what is known beside it, and what was left out.
    fn workload(mut self) -> Result<(Workload, Recorded, Vec<String>), String> {
        let (Some(begin), end) = (self.begin, self.end) else { return Err("it has no lines".to_owned()) };
        let length = between(begin, end);
        if length < SECOND {
            return Err("it spans no time: its first and its last line are of the same second".to_owned());
        }
        let mut notes: Vec<String> = self
            .gaps
            .iter()
            .map(|(from, gap)| format!("nothing was seen for {} min from {from} on", gap / MINUTE))
            .collect();
        let mut note = |count: usize, what: &str| {
            if count > 0 {
                notes.push(format!("left out: {count} {what}"));
            }
        };
        for node in self.nodes.values_mut() {
            node.close(end);
        }
        let all = self.nodes.len();
        self.nodes.retain(|_, node| node.open * 2 >= length);
        note(
            all - self.nodes.len(),
            "nodes that were closed to pods, or away, for more than half of the time",
        );
        let nodes = self.nodes.values().map(|history| node(&history.node)).collect();
        let mut workload = Workload { nodes, length, ..Workload::default() };
        let (mut of_scavengers, mut elsewhere, mut unbound) = (0, 0, 0);
        let mut played = Vec::new();
        for history in self.pods.values() {
            match &history.bound {
                _ if history.pod.class == Class::Scavenger => of_scavengers += 1,
                None => unbound += 1,
                Some((_, node)) if !self.nodes.contains_key(node) => elsewhere += 1,
                Some((bound, _)) => {
                    played.extend(history.ordinary(*bound, begin, end).map(|pod| (pod, history)));
                }
            }
        }
        played.sort_by_key(|(pod, _)| pod.arrival);
        workload.ordinary = played.iter().map(|(pod, _)| *pod).collect();
        let is_measured = self.pods.values().any(|history| !history.used.is_empty());
        let used_cores = is_measured.then(|| {
            let used = played.iter().map(|(_, history)| history.uses(begin)).collect();
            workload.uses = Some(Arc::new(Uses::Recorded(used)));
            mean(played.iter().map(|(_, history)| *history), end)
        });
        note(elsewhere, "pods on those nodes");
        note(unbound, "pods that found no node: nobody knows how long they would have run");
        note(of_scavengers, "pods of ScavengerJobs");
        finish(&mut workload)?;
        workload.length = length;
        Ok((workload, Recorded { begin, used_cores: used_cores.flatten() }, notes))
    }
}

impl NodeHistory {
    fn close(&mut self, time: Timestamp) {
        if let Some(since) = self.open_since.take() {
            self.open += between(since, time);
        }
    }
}

impl PodHistory {
    /// What it used, by the time since the beginning.
    fn uses(&self, begin: Timestamp) -> Vec<(Time, Amounts)> {
        self.used.iter().map(|(time, used)| (between(begin, *time), *used)).collect()
    }

    /// What was there before the recording was there when it began. What did not end goes on beyond its end; nothing if it was over
    /// before.
    fn ordinary(&self, bound: Timestamp, begin: Timestamp, end: Timestamp) -> Option<Ordinary> {
        let bound = bound.max(begin);
        let duration = match self.ended {
            Some(ended) if ended < bound => return None,
            Some(ended) => between(bound, ended),
            None => between(bound, end) + HOUR,
        };
        let arrival = if bound == begin { begin } else { self.created.clamp(begin, bound) };
        let pod = &self.pod;
        Some(Ordinary {
            arrival: between(begin, arrival),
            // Times are whole seconds.
            duration: duration.max(SECOND),
            requests: Amounts::of_pod(pod.cpu_milli, pod.memory_mib, pod.gpus),
            priority: pod.priority,
        })
    }
}

/// Cores that these pods used on average from the first measurement to the end.
fn mean<'a>(pods: impl Iterator<Item = &'a PodHistory> + Clone, end: Timestamp) -> Option<f64> {
    let first = pods.clone().filter_map(|pod| pod.used.first()).map(|(time, _)| *time).min()?;
    let of = |pod: &PodHistory| -> i128 {
        let ends = pod.used.iter().skip(1).map(|(time, _)| *time).chain([pod.ended.unwrap_or(end)]);
        let spans = pod.used.iter().zip(ends).map(|((from, used), to)| (used.cpu, between(*from, to).max(0)));
        spans.map(|(cpu, span)| i128::from(cpu) * i128::from(span)).sum()
    };
    let span = between(first, end);
    (span > 0).then(|| pods.map(of).sum::<i128>() as f64 / span as f64 / 1000.0)
}

fn node(node: &recording::Node) -> Node {
    let capacity =
        Amounts { cpu: node.cpu_milli, memory: node.memory_mib, pods: node.max_pods, gpus: node.gpus };
    Node { name: node.name.clone(), capacity, labels: node.labels.clone() }
}

/// Milliseconds from one moment to a later one.
fn between(from: Timestamp, to: Timestamp) -> Time {
    to.as_millisecond() - from.as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scavenger_recording::HEADER;

    /// Rows behind the header and the line `begin`, each with its minute in front.
    fn recorded(rows: &str) -> Result<Read, String> {
        let at = |minute: i64| Timestamp::from_second(1_800_000_000 + 60 * minute).unwrap();
        let mut text = format!("{HEADER}{}", Line { time: at(0), event: Event::Begin }.text());
        for row in rows.lines() {
            let (minute, rest) = row.split_once(',').unwrap();
            text.push_str(&format!("{},{rest}\n", at(minute.parse().unwrap())));
        }
        read(text.as_bytes())
    }

    /// What a recorder says every five minutes, from one minute to another.
    fn marks(from: i64, to: i64) -> String {
        (from..=to).step_by(5).map(|minute| format!("{minute},mark,,,,,,,,,,\n")).collect()
    }

    const NODE: &str = "0,node,n1,,4000,8192,1,20,,,open,disk=ssd\n";

    #[test]
    fn pods_are_there_from_their_arrival_to_their_end() {
        let read = recorded(&format!(
            "{NODE}-90,pod,old,,500,512,0,,2000001000,daemon,,\n-90,bound,old,n1,,,,,,,,\n\
             10,pod,job,,1000,2048,1,,0,ordinary,,\n12,bound,job,n1,,,,,,,,\n12,started,job,,,,,,,,,\n\
             42,ended,job,,,,,,,,,\n{}",
            marks(5, 120)
        ))
        .unwrap();
        assert_eq!(read.note, None);
        let Workload { nodes, ordinary, length, .. } = read.workload;
        assert_eq!(nodes[0].capacity, Amounts { cpu: 4000, memory: 8192, pods: 20, gpus: 1 });
        assert_eq!(nodes[0].labels["disk"], "ssd");
        assert_eq!(length, 2 * HOUR);
        let pods: Vec<_> =
            ordinary.iter().map(|pod| (pod.arrival / MINUTE, pod.duration / MINUTE, pod.priority)).collect();
        // The daemon goes on beyond the end, and the job runs from where it was bound.
        assert_eq!(pods, [(0, 180, 2_000_001_000), (10, 30, 0)]);
        assert_eq!(ordinary[1].requests, Amounts::of_pod(1000, 2048, 1));
        assert_eq!((read.recorded.unwrap().used_cores, read.workload.uses), (None, None));
    }

    #[test]
    fn what_cannot_be_played_is_left_out_and_counted() {
        let read = recorded(&format!(
            "{NODE}0,node,tainted,,4000,8192,0,20,,,closed,\n0,node,spot,,4000,8192,0,20,,,open,\n\
             0,pod,a,,1,1,0,,0,ordinary,,\n0,bound,a,tainted,,,,,,,,\n\
             0,pod,b,,1,1,0,,0,ordinary,,\n0,pod,c,,1,1,0,,-9,scavenger,,\n0,bound,c,n1,,,,,,,,\n\
             0,pod,d,,1,1,0,,0,ordinary,,\n0,bound,d,n1,,,,,,,,\n20,node-gone,spot,,,,,,,,,\n\
             {}60,begin,recording-1,,,,,,,,,\n{}72,pod,e,,1,1,0,,0,ordinary,,\n{}",
            marks(5, 30),
            marks(65, 70),
            marks(85, 90),
        ))
        .unwrap();
        assert_eq!((read.workload.nodes.len(), read.workload.ordinary.len()), (1, 1));
        assert_eq!(
            read.note.unwrap(),
            "nothing was seen for 30 min from 2027-01-15T08:30:00Z on; \
             nothing was seen for 15 min from 2027-01-15T09:10:00Z on; \
             left out: 2 nodes that were closed to pods, or away, for more than half of the time; \
             left out: 1 pods on those nodes; \
             left out: 2 pods that found no node: nobody knows how long they would have run; \
             left out: 1 pods of ScavengerJobs"
        );
    }

    #[test]
    fn use_is_the_mean_over_the_time_in_which_it_was_measured() {
        let read = recorded(&format!(
            "{NODE}0,pod,a,,1000,1,0,,0,ordinary,,\n0,bound,a,n1,,,,,,,,\n0,pod,b,,1000,1,0,,0,ordinary,,\n\
             0,bound,b,n1,,,,,,,,\n0,pod,c,,1,1,0,,-9,scavenger,,\n\
             20,use,a,,400,10,,,,,,\n20,use,b,,600,10,,,,,,\n30,use,c,,4000,10,,,,,,\n40,ended,b,,,,,,,,,\n\
             60,use,a,,200,10,,,,,,\n100,mark,,,,,,,,,,\n"
        ))
        .unwrap();
        // 1 core for 20 minutes, 0.4 for 20, 0.2 for 40.
        let used = read.recorded.unwrap().used_cores.unwrap();
        assert!((used - 36.0 / 80.0).abs() < 1e-9, "{used}");
        let uses = read.workload.uses.unwrap();
        let of = |place: u32, minute: Time| uses.of(place, Amounts::default(), minute * MINUTE).cpu;
        assert_eq!(
            [(0, 20), (0, 59), (0, 60), (1, 30)].map(|(pod, minute)| of(pod, minute)),
            [400, 400, 200, 600]
        );
    }

    #[test]
    fn a_recording_in_which_there_is_nothing_to_play_is_refused() {
        for (rows, said) in [
            ("", "it spans no time"),
            ("60,mark,,,,,,,,,,\n", "it has no nodes"),
            ("0,node,n1,,4000,8192,1,20,,,closed,\n60,mark,,,,,,,,,,\n", "it has no nodes"),
            ("0,node,n1,,0,8192,1,20,,,open,\n", "line 3: a node that is open needs cpu_milli"),
            (&format!("{NODE}60,mark,,,,,,,,,,\n"), "it has neither ordinary pods nor ScavengerJobs"),
            (&format!("{NODE}1,ended,a,,,,,,,,,\n"), "line 4: pod \"a\" did not arrive before"),
            (
                &format!("{NODE}1,pod,a,,1,1,0,,0,ordinary,,\n1,bound,a,n9,,,,,,,,\n"),
                "line 5: node \"n9\" was not",
            ),
            ("1,node-gone,n9,,,,,,,,,\n", "line 3: node \"n9\" was not there"),
            ("1,node,n1,,lots,8192,1,20,,,open,\n", "line 3: cpu_milli \"lots\" must be a whole number"),
        ] {
            let error = recorded(rows).err().unwrap_or_default();
            assert!(error.starts_with(said), "{rows}: {error}");
        }
        let error = read(format!("{HEADER}2027-01-15T08:30:00Z,mark,,,,,,,,,,\n").as_bytes()).unwrap_err();
        assert!(error.starts_with("line 2: it must be a line \"begin\""), "{error}");
    }
}
