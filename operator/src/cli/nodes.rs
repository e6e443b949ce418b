//! `scavenger-operator nodes`: what each node has and uses, and which ScavengerJobs are on it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use scavenger_planner::{
    NodeStanding, Planner,
    resources::{Amount, CPU, MEMORY, PODS, Resources, Share},
    values::{Key, Name, Node, Observation},
};
use serde::Serialize;

use super::{
    snapshot::{Listing, Snapshot},
    text::{Output, json_lines, table},
};

/// List the nodes: what they have and use, and the ScavengerJobs on them
///
/// Looks at the cluster once, or at a snapshot of it. THRESHOLD is the share of cpu up to which ScavengerJobs start: of
/// each node if the pool has groups of nodes, or else of the pool. The name of the node's group follows. USED counts the requests of all pods on the node, and what is promised
/// to starts in flight. A node outside the pool says why it is outside. A node in the pool is `open` unless no ScavengerJob
/// may start there now. AGENT says whether the node agent is live, as the pool's status tells.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Only nodes of the pool
    #[arg(long)]
    pool_only: bool,

    #[command(flatten)]
    listing: Listing,
}

/// How a node stands to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    /// ScavengerJobs may start there.
    Open,
    /// It takes none now.
    Closed,
    /// It is not ready, cordoned or under pressure.
    Unusable,
    /// It does not belong to the pool.
    Outside,
}

/// A node, as it is printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    state: State,
    /// Why it is not open, or not for everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The group of `spec.nodeGroups` whose thresholds hold for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// Up to which share of cpu ScavengerJobs start: of this node in a pool with groups, or else of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_threshold: Option<f64>,
    /// Millicores of cpu, bytes of memory and storage, units of anything else.
    allocatable: BTreeMap<String, i64>,
    used: BTreeMap<String, i64>,
    /// Whether its node agent is live; not given if nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_agent: Option<bool>,
    /// Those with a pod on it that has not ended.
    scavenger_jobs: Vec<String>,
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    let Listing { output, source } = &options.listing;
    let snapshot = source.read().await?;
    let mut rows = rows(&snapshot);
    rows.retain(|row| !options.pool_only || row.state != State::Outside);
    let text = match output {
        Output::Text if rows.is_empty() => "there are no nodes\n".to_owned(),
        Output::Text => lines(&rows),
        Output::Json => json_lines(&rows)?,
    };
    snapshot.print(*output, &text)
}

/// Every node by name.
fn rows(snapshot: &Snapshot) -> Vec<Row> {
    let mut planner = snapshot.planner();
    planner.plan(snapshot.time);
    let mut nodes: BTreeMap<Name, &Node> = BTreeMap::new();
    let mut jobs: BTreeMap<Name, Key> = BTreeMap::new();
    let mut used: BTreeMap<Name, Resources> = BTreeMap::new();
    let on = snapshot.owners_by_node();
    for observation in snapshot.observations() {
        match observation {
            Observation::Node(node) => {
                nodes.insert(node.name.clone(), node);
            }
            Observation::ScavengerJob(sj) => {
                jobs.insert(sj.uid.clone(), sj.key.clone());
            }
            Observation::Pod(pod) if !pod.phase.is_terminal() => {
                let Some(node) = &pod.node else { continue };
                used.entry(node.clone()).or_default().add(&pod.requests);
            }
            _ => {}
        }
    }
    let pool = planner.pool_report(snapshot.time);
    // What is promised is known of the pool's nodes alone; on others nothing is.
    let in_pool: BTreeMap<&Name, Resources> =
        pool.nodes.iter().map(|node| (node.name, node.used.clone())).collect();
    let row = |(name, node): (&Name, &&Node)| {
        let (state, mut message) = state(name, &planner);
        let node_agent = snapshot.has_node_agent(name).filter(|_| state != State::Outside);
        if state == State::Open && node_agent == Some(false) && snapshot.requires_node_agent() {
            let said = message.map(|message| format!("{message}; {BY_REQUESTS}"));
            message = said.or_else(|| Some(BY_REQUESTS.to_owned()));
        }
        let sums = in_pool.get(name).or_else(|| used.get(name)).cloned().unwrap_or_default();
        let owners = on.get(name).into_iter().flatten().filter_map(|uid| jobs.get(*uid));
        let mut scavenger_jobs: Vec<String> = owners.map(ToString::to_string).collect();
        scavenger_jobs.sort_unstable();
        let settings = planner.settings().ok().filter(|_| state != State::Outside);
        let group = settings.and_then(|settings| settings.node_groups.get(settings.group_of(node)?));
        Row {
            name: name.to_string(),
            state,
            message,
            group: group.map(|group| group.name.to_string()),
            start_threshold: settings
                .map(|settings| settings.start_thresholds_of(node).share(CPU).fraction()),
            allocatable: amounts(&node.allocatable),
            used: amounts(&sums),
            node_agent,
            scavenger_jobs,
        }
    };
    nodes.iter().map(row).collect()
}

/// What is said of a node without a live agent in a pool that requires one.
const BY_REQUESTS: &str = "ScavengerJobs start there by requests, because its node agent is not live";

fn state(node: &Name, planner: &Planner) -> (State, Option<String>) {
    match planner.node_standing(node) {
        Some(NodeStanding::Open) => (State::Open, None),
        Some(NodeStanding::OpenUntil(until)) => (State::Open, Some(open_until(until))),
        Some(NodeStanding::Closed(why)) => (State::Closed, Some(why)),
        Some(NodeStanding::Unusable(why)) => (State::Unusable, Some(why)),
        Some(NodeStanding::Outside(why)) => (State::Outside, Some(why)),
        None => (State::Outside, None),
    }
}

/// What is said of a node that leaves the pool.
pub(super) fn open_until(until: Timestamp) -> String {
    format!("only what can save before {until:.0} starts there, when it leaves the pool")
}

fn amounts(resources: &Resources) -> BTreeMap<String, i64> {
    let named = resources.iter().filter(|(_, amount)| *amount != 0);
    named.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

fn lines(rows: &[Row]) -> String {
    // A column for every extended resource that some node has.
    let cells = |row: &Row| {
        let of = |name: &str| {
            let amount = |amounts: &BTreeMap<String, i64>| amounts.get(name).copied().unwrap_or(0);
            (Amount(name, amount(&row.used)).to_string(), Amount(name, amount(&row.allocatable)).to_string())
        };
        let share = |name: &str| {
            let (used, all) = of(name);
            format!("{} of {all}", used.split(' ').next().unwrap_or_default())
        };
        let others = row.allocatable.keys().filter(|name| !matches!(&***name, CPU | MEMORY | PODS));
        let others: Vec<String> = others.map(|name| share(name)).collect();
        let state = match row.state {
            State::Open => "open",
            State::Closed => "closed",
            State::Unusable => "unusable",
            State::Outside => "outside",
        };
        [
            row.name.clone(),
            row.message.as_ref().map_or_else(|| state.to_owned(), |why| format!("{state}: {why}")),
            row.start_threshold.map_or_else(String::new, |share| match &row.group {
                None => Share::from_fraction(share).to_string(),
                Some(group) => format!("{} ({group})", Share::from_fraction(share)),
            }),
            share(CPU),
            share(MEMORY),
            share(PODS),
            others.join(", "),
            row.node_agent.map_or("", |is_live| if is_live { "live" } else { "none" }).to_owned(),
            row.scavenger_jobs.join(" "),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    let heads =
        ["NODE", "STATE", "THRESHOLD", "CPU USED", "MEMORY USED", "PODS", "OTHER", "AGENT", "SCAVENGERJOBS"];
    table(heads, &rows)
}

#[cfg(test)]
mod tests {
    use scavenger_planner::fixtures::{at, node, pod, settings, sj};

    use super::*;

    #[test]
    fn each_node_says_what_it_uses_and_why_it_takes_none() {
        let runs = sj("runs");
        let observations = vec![
            Observation::Node(node("n1", 10_000)),
            Observation::Node(node("n2", 4000).having("nvidia.com/gpu", 2).labelled("kind", "gpu")),
            Observation::Node(node("n3", 4000).cordoned()),
            Observation::Node(node("n4", 4000).tainted("control-plane")),
            Observation::Node(node("n5", 4000).until(at(3600))),
            Observation::Node(node("n6", 4000).until(at(240))),
            Observation::Pool(Box::new(Ok(settings().with_group("gpus", ("kind", "gpu"), 0.3)))),
            Observation::ScavengerJob(Box::new(runs)),
            Observation::Pod(Box::new(pod("ordinary", 3000).on("n1"))),
            Observation::Pod(Box::new(pod("runs-1-0", 2000).of("uid-of-runs", 1).on("n1"))),
            Observation::Pod(Box::new(pod("system", 500).on("n4"))),
        ];
        let rows = rows(&Snapshot::new(at(0), observations));
        let text = lines(&rows);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(
            lines[1],
            ["n1", "open", "70%", "5 of 10 cpu", "5000 of 10000 MiB", "2 of 110 pods", "lab/runs"],
            "{text}"
        );
        assert_eq!(
            lines[2],
            [
                "n2",
                "open",
                "30% (gpus)",
                "0 of 4 cpu",
                "0 of 4000 MiB",
                "0 of 110 pods",
                "0 of 2 nvidia.com/gpu"
            ],
            "{text}"
        );
        assert_eq!(lines[3][1], "unusable: it is cordoned");
        assert_eq!(lines[4][1..3], ["outside: it has taint control-plane:NoSchedule", "0.5 of 4 cpu"]);
        assert_eq!(
            lines[5][1],
            "open: only what can save before 2027-01-15T09:00:00Z starts there, when it leaves the pool"
        );
        assert_eq!(
            lines[6][1],
            "closed: node n6 is in the pool until 2027-01-15T08:04:00Z, too soon for anything to start there"
        );
        assert_eq!(rows[0].scavenger_jobs, ["lab/runs"]);
    }

    #[test]
    fn nodes_without_a_live_agent_say_what_that_means() {
        let mut careful = settings().by_use();
        careful.usage.as_mut().unwrap().require_node_agent = true;
        for (settings, expected) in
            [(settings().by_use(), "open".to_owned()), (careful, format!("open: {BY_REQUESTS}"))]
        {
            let mut observations = vec![Observation::Pool(Box::new(Ok(settings)))];
            observations.extend(["n1", "n2"].map(|name| Observation::Node(node(name, 4000))));
            let rows = rows(&Snapshot::new(at(0), observations).with_agents(1, 1, &["n2"]));
            assert_eq!([rows[0].node_agent, rows[1].node_agent], [Some(true), Some(false)]);
            let text = lines(&rows);
            let cells: Vec<Vec<&str>> = text.lines().map(|line| line.split("  ").collect()).collect();
            let has = |row: usize, text: &str| cells[row].iter().any(|cell| cell.trim() == text);
            assert!(has(1, "open") && has(1, "live"), "{text}");
            assert!(has(2, &expected) && has(2, "none"), "{text}");
        }
    }
}
