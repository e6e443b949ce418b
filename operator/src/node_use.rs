//! What is known of the use of nodes, kept in a ConfigMap of the operator's namespace, so that a leader goes on where the
//! one before it ended (accounting Usage).
//!
//! A line for each node, in the order of its names:
//!
//! ```text
//! nodes:  NAME  TIME  KNOWN-SECONDS  CPU-MILLICORES  MEMORY-BYTES  WEIGHT
//! harmed: NAME  UNTIL  WHAT HAPPENED
//! byRequests: NAMESPACE  UNTIL
//! ```
//!
//! A line that cannot be read is left out: what it says is learned again.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use scavenger_planner::{
    Planner,
    node_use::REMEMBERED_EVERY,
    values::{Harm, Name, RememberedNode, RememberedUse},
};
use scavenger_program::objects::Objects;
use scavenger_schema::{names, terminal::shown};
use tokio::{task::JoinHandle, time::Instant};
use tracing::{info, warn};

use crate::config_map::{self, bring};

/// Keys of the ConfigMap.
const NODES: &str = "nodes";
const HARMED: &str = "harmed";
const BY_REQUESTS: &str = "byRequests";

/// The API server takes 1 MiB in a ConfigMap. That is some 11,000 nodes; what is known of more is learned again.
const LONGEST: usize = 900 << 10;

/// After this no answer of the API server is waited for.
const WITHIN: Duration = Duration::from_secs(5);

/// The ConfigMap.
#[derive(Debug, Clone)]
pub(crate) struct Store(Objects<ConfigMap>);

impl Store {
    pub(crate) fn new(client: &Client, namespace: &str) -> Self {
        Self(Objects::namespaced(client.clone(), namespace))
    }

    /// What the leader before this one knew; none if nothing is there, or it cannot be read.
    pub(crate) async fn read(&self) -> Option<RememberedUse> {
        let read = tokio::time::timeout(WITHIN, self.0.get_opt(names::NODE_USE)).await;
        let map = match read {
            Ok(Ok(map)) => map.filter(config_map::is_ours)?,
            Ok(Err(error)) => {
                let error = error.to_string();
                warn!(error = shown(&error), "ConfigMap {:?} was not read: {LEARNED}", names::NODE_USE);
                return None;
            }
            Err(_) => {
                warn!("ConfigMap {:?} was not read in time: {LEARNED}", names::NODE_USE);
                return None;
            }
        };
        let remembered = parse(&map.data.unwrap_or_default());
        let (nodes, harmed) = (remembered.nodes.len(), remembered.harmed.len());
        info!(nodes, harmed, "what the leader before this one knew of the use of nodes is known");
        Some(remembered)
    }

    async fn write(self, remembered: RememberedUse) {
        let written =
            tokio::time::timeout(WITHIN, bring(&self.0, names::NODE_USE, format(&remembered))).await;
        let error = match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        warn!(
            error = shown(&error),
            "ConfigMap {:?} was not written: the next leader learns the use of nodes again",
            names::NODE_USE
        );
    }
}

const LEARNED: &str = "the use of nodes is learned again";

/// Writes down what the planner knows.
pub(crate) struct Memory {
    store: Store,
    last: Option<Instant>,
    under_way: Option<JoinHandle<()>>,
}

impl Memory {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, last: None, under_way: None }
    }

    /// Writes it down if that was not done for [`REMEMBERED_EVERY`].
    pub(crate) fn offer(&mut self, planner: &Planner) {
        let every = REMEMBERED_EVERY.unsigned_abs();
        if self.last.is_some_and(|last| last.elapsed() < every)
            || self.under_way.as_ref().is_some_and(|task| !task.is_finished())
        {
            return;
        }
        // Also if there is nothing to write: all nodes are looked at for that, and the loop turns often.
        self.last = Some(Instant::now());
        let Some(remembered) = worth_writing(planner) else { return };
        self.under_way = Some(tokio::spawn(self.store.clone().write(remembered)));
    }

    /// Writes it down for the last time.
    pub(crate) async fn finish(self, planner: &Planner) {
        if let Some(task) = self.under_way {
            task.await.ok();
        }
        if let Some(remembered) = worth_writing(planner) {
            self.store.write(remembered).await;
        }
    }
}

/// What the planner knows, if it is anything.
fn worth_writing(planner: &Planner) -> Option<RememberedUse> {
    planner.remembered_use().filter(|known| *known != RememberedUse::default())
}

/// The ConfigMap's data. Of too many lines those of nodes are left out, which are measured again in minutes: that a
/// node was harmed nobody finds out before it is harmed again.
fn format(remembered: &RememberedUse) -> BTreeMap<String, String> {
    let mut left = LONGEST;
    let mut text = |lines: &mut dyn Iterator<Item = String>| {
        let mut text = String::new();
        for line in lines {
            if line.len() > left {
                break;
            }
            left -= line.len();
            text += &line;
        }
        text
    };
    let harmed = remembered.harmed.iter();
    let harmed = text(&mut harmed.map(|(name, Harm { until, why })| {
        format!("{name} {until:.0} {}\n", why.replace(['\r', '\n'], " "))
    }));
    let by_requests = remembered.by_requests.iter();
    let by_requests = text(&mut by_requests.map(|(namespace, until)| format!("{namespace} {until:.0}\n")));
    let nodes = text(&mut remembered.nodes.iter().map(|(name, node)| {
        let RememberedNode { time, known, cpu_milli, memory_bytes, weight } = node;
        let (time, known) = (time.as_second(), known.as_secs());
        format!("{name} {time} {known} {cpu_milli} {memory_bytes} {weight:.1}\n")
    }));
    [(NODES, nodes), (HARMED, harmed), (BY_REQUESTS, by_requests)]
        .map(|(key, text)| (key.to_owned(), text))
        .into()
}

/// Reads it.
fn parse(data: &BTreeMap<String, String>) -> RememberedUse {
    let lines = |key: &str| data.get(key).map(String::as_str).unwrap_or_default().lines();
    RememberedUse {
        nodes: lines(NODES).filter_map(node).collect(),
        harmed: lines(HARMED).filter_map(harm).collect(),
        by_requests: lines(BY_REQUESTS).filter_map(by_requests).collect(),
    }
}

fn node(line: &str) -> Option<(Name, RememberedNode)> {
    let fields: Vec<&str> = line.split(' ').collect();
    let &[name, time, known, cpu_milli, memory_bytes, weight] = &*fields else { return None };
    let weight = weight.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight >= 0.0)?;
    let amount = |text: &str| text.parse().ok().filter(|amount: &i64| *amount >= 0);
    let node = RememberedNode {
        time: Timestamp::from_second(time.parse().ok()?).ok()?,
        known: SignedDuration::from_secs(amount(known)?),
        cpu_milli: amount(cpu_milli)?,
        memory_bytes: amount(memory_bytes)?,
        weight,
    };
    Some((name.into(), node))
}

fn harm(line: &str) -> Option<(Name, Harm)> {
    let mut fields = line.splitn(3, ' ');
    let (name, until, why) = (fields.next()?, fields.next()?, fields.next()?);
    Some((name.into(), Harm { until: until.parse().ok()?, why: why.to_owned() }))
}

fn by_requests(line: &str) -> Option<(Name, Timestamp)> {
    let (namespace, until) = line.split_once(' ')?;
    Some((namespace.into(), until.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn known(cpu_milli: i64) -> RememberedNode {
        RememberedNode {
            time: at(1_800_000_000),
            known: SignedDuration::from_mins(10),
            cpu_milli,
            memory_bytes: 5 << 30,
            weight: 173.5,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let harm = Harm { until: at(1_800_000_060), why: "ordinary pod a/b: killed\nfor memory".into() };
        let remembered = RememberedUse {
            nodes: [("n1".into(), known(1500)), ("n2".into(), known(0))].into(),
            harmed: [("n3".into(), harm.clone())].into(),
            by_requests: [("lab".into(), at(1_800_000_600))].into(),
        };
        let mut expected = remembered.clone();
        expected.harmed.insert("n3".into(), Harm { why: harm.why.replace('\n', " "), ..harm });
        assert_eq!(parse(&format(&remembered)), expected);
        assert_eq!(parse(&BTreeMap::new()), RememberedUse::default());
    }

    #[test]
    fn lines_that_cannot_be_read_are_left_out() {
        let nodes = "n1 1800000000 600 1500 100 1.0\n\nn2 x 600 1 1 1\nn3 1800000000 600 -1 1 1\nn4 1 1 1 1 inf\nn5 1 1 1 1 NaN\n\
                     n6 99999999999999 1 1 1 1\nn7 1 1 1 1 1 1\n";
        let data = [
            (NODES.to_owned(), nodes.to_owned()),
            (HARMED.to_owned(), "n8\nn9 soon x\n".to_owned()),
            (BY_REQUESTS.to_owned(), "lab\nlab soon\n".to_owned()),
        ];
        let read = parse(&data.into());
        assert_eq!(read.nodes.keys().collect::<Vec<_>>(), [&Name::from("n1")]);
        assert!(read.harmed.is_empty() && read.by_requests.is_empty());
    }

    #[test]
    fn that_nodes_were_harmed_is_kept_however_many_nodes_there_are() {
        let harm = Harm { until: at(1_800_000_060), why: "ordinary pod a/b: killed for memory".into() };
        let name = |number: usize| Name::from(format!("node-{number:06}").as_str());
        let remembered = RememberedUse {
            nodes: (0..50_000).map(|number| (name(number), known(12_345))).collect(),
            harmed: (0..500).map(|number| (name(number), harm.clone())).collect(),
            by_requests: [("lab".into(), at(1_800_000_600))].into(),
        };
        let read = parse(&format(&remembered));
        assert_eq!((read.harmed, read.by_requests), (remembered.harmed, remembered.by_requests));
        assert!(read.nodes.len() > 10_000);
    }

    #[test]
    fn a_config_map_takes_ten_thousand_nodes_and_never_too_many() {
        let name =
            |number: usize| format!("ip-10-0-{number:06}.eu-central-1.compute.internal").as_str().into();
        let of = |count: usize| RememberedUse {
            nodes: (0..count).map(|number| (name(number), known(12_345))).collect(),
            ..RememberedUse::default()
        };
        assert_eq!(parse(&format(&of(10_000))).nodes.len(), 10_000);
        let most = format(&of(50_000));
        assert!(most.values().map(String::len).sum::<usize>() < 1 << 20);
        assert!(parse(&most).nodes.len() > 10_000);
    }
}
