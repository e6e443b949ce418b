//! `scavenger-operator snapshot`: what the planner would see of the cluster now, as a file.
//!
//! `plan` and `explain` read it, also to find out later why something was decided, and the laboratory plays on from it.
//! [`scavenger_specs::snapshot`] says what is in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufReader, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use jiff::Timestamp;
use kube::{Client, ResourceExt as _, api::ListParams};
use scavenger_planner::{
    Planner,
    values::{Name, Observation, Settings},
};
use scavenger_program::{exit::Unusable, objects::Objects};
use scavenger_schema::{
    names,
    scavenger_pool::{NodeAgentsStatus, ScavengerPool},
};
use scavenger_specs::snapshot::{self as format, Header};
use tokio::sync::mpsc;

use super::{
    connection::Connection,
    text::{Output, print},
};
use crate::{
    controller::Message,
    observe::{self, Reporting, Watched},
};

/// Longest time for the lists of a very large cluster.
const LIMIT: Duration = Duration::from_secs(120);

/// The first line of answers about a pool that counts nodes by use.
const BY_REQUESTS: &str = "note: the pool counts nodes by use (accounting Usage), and one look at the cluster measures nothing: \
                           free capacity, why something waits and what would start are by requests here; the status of each \
                           ScavengerJob and status.usage of the ScavengerPool say what the operator measured";

/// Write what the planner sees of the cluster to standard output
///
/// `scavenger-operator plan --snapshot FILE` reads it. It holds names, labels, requests and states of ScavengerJobs,
/// Jobs, pods and nodes; no Secret and no environment of a container is in it.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    let snapshot = Snapshot::take(&options.connection.connect().await?).await?;
    let mut out = std::io::stdout().lock();
    snapshot.write(&mut out).context("could not write to standard output")
}

/// What a list is made from, and how it is printed.
#[derive(Debug, clap::Args)]
pub(super) struct Listing {
    /// How to print them
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub(super) output: Output,

    #[command(flatten)]
    pub(super) source: Source,
}

/// Where a snapshot comes from.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Source {
    /// A file that `scavenger-operator snapshot` wrote, instead of the cluster as it is now
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    snapshot: Option<PathBuf>,

    #[command(flatten)]
    pub(super) connection: Connection,
}

impl Source {
    /// Reads the file, or the cluster.
    pub(super) async fn read(&self) -> anyhow::Result<Snapshot> {
        match &self.snapshot {
            Some(path) => Snapshot::read(path),
            None => Snapshot::take(&self.connection.connect().await?).await,
        }
    }

    /// True if the cluster itself is looked at.
    pub(super) fn is_live(&self) -> bool {
        self.snapshot.is_none()
    }
}

/// What a starting operator would have seen.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) time: Timestamp,
    observations: Vec<Observation>,
    /// Which nodes have a live agent, if the pool's status says so.
    pub(super) node_agents: Option<NodeAgentsStatus>,
}

impl Snapshot {
    /// Lists everything once.
    pub(super) async fn take(client: &Client) -> anyhow::Result<Self> {
        let (sender, mut messages) = mpsc::channel(1024);
        let _watches = observe::start(client, &sender, &Reporting::default());
        let mut unlisted: BTreeSet<Watched> = Watched::ALL.into();
        let mut observations = Vec::new();
        let lists = async {
            while !unlisted.is_empty() {
                match messages.recv().await {
                    Some(Message::Seen(observation)) => observations.push(observation),
                    Some(Message::Listed(watched)) => {
                        unlisted.remove(&watched);
                    }
                    Some(Message::Listing(watched)) => {
                        unlisted.insert(watched);
                    }
                    // Most plans are the same without it. Of what names such an object the answer says that it is not
                    // known.
                    Some(Message::Forbidden(watched)) => {
                        if let Some(unknown) = watched.known(false) {
                            unlisted.remove(&watched);
                            observations.push(unknown);
                        }
                    }
                    Some(Message::WatchEnded(watched)) => bail!("the watch of {} ended", watched.name()),
                    Some(Message::Unordered(watched, version)) => {
                        bail!("resourceVersion {version:?} of {} is not a number", watched.name())
                    }
                    None => bail!("the watches ended"),
                }
            }
            Ok(())
        };
        let listed = tokio::time::timeout(LIMIT, lists).await;
        if listed.is_err() {
            let missing: Vec<&str> = unlisted.into_iter().map(Watched::name).collect();
            bail!(
                "these could not be listed within {} s: {}; `kubectl auth can-i --list` says what you may read",
                LIMIT.as_secs(),
                missing.join(", ")
            );
        }
        listed??;
        let pools: Objects<ScavengerPool> = Objects::all(client.clone());
        // With the rights that the list before took.
        let pools =
            pools.list(&ListParams::default()).await.context("the ScavengerPool could not be read")?;
        let pool = pools.items.into_iter().find(|pool| pool.name_any() == names::DEFAULT_POOL);
        let node_agents = pool.and_then(|pool| pool.status?.node_agents);
        #[expect(clippy::disallowed_methods, reason = "the edge: when the snapshot was taken")]
        let time = Timestamp::now();
        Ok(Self { time, observations, node_agents })
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let file = path.display();
        let opened = std::fs::File::open(path).map_err(|error| {
            Unusable(format!("the snapshot {file} cannot be opened (--snapshot): {error}"))
        })?;
        let read = format::read(BufReader::new(opened));
        let (header, observations) = read.map_err(|error| Unusable(format!("{file}: {error}")))?;
        Ok(Self { time: header.snapshot_time, observations, node_agents: header.node_agents })
    }

    fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        let header = Header {
            snapshot_time: self.time,
            operator_version: format::VERSION.to_owned(),
            observations: None,
            node_agents: self.node_agents.clone(),
        };
        format::write(header, &self.observations, out)
    }

    /// A planner that has seen it. What nodes use it cannot know from one look, so it counts by requests.
    pub(super) fn planner(&self) -> Planner {
        let mut planner = Planner::default();
        for observation in &self.observations {
            let mut observation = observation.clone();
            if let Observation::Pool(settings) = &mut observation
                && let Ok(settings) = &mut **settings
            {
                settings.usage = None;
            }
            planner.observe(observation, self.time);
        }
        planner
    }

    /// Prints an answer that was made from it. What such an answer cannot know stands on its first line, or beside
    /// JSON.
    pub(super) fn print(&self, output: Output, answer: &str) -> anyhow::Result<()> {
        match (self.counts_by_use(), output) {
            (true, Output::Text) => return print(&format!("{BY_REQUESTS}\n{answer}")),
            (true, Output::Json) => eprintln!("{BY_REQUESTS}"),
            (false, _) => {}
        }
        print(answer)
    }

    /// True if the pool counts nodes by what is used, so that a planner that has seen nothing else answers otherwise
    /// than the operator.
    fn counts_by_use(&self) -> bool {
        self.settings().is_some_and(Settings::places_by_use)
    }

    /// True if ScavengerJobs start by use only where the agent of the node is live.
    pub(super) fn requires_node_agent(&self) -> bool {
        let rules = self.settings().and_then(|settings| settings.usage.as_deref());
        rules.is_some_and(|rules| rules.require_node_agent)
    }

    /// The pool's settings, if they are valid.
    fn settings(&self) -> Option<&Settings> {
        let pool = self.observations.iter().rev().find_map(|observation| match observation {
            Observation::Pool(settings) => Some(settings),
            _ => None,
        })?;
        (**pool).as_ref().ok()
    }

    /// Whether the agent of a node of the pool is live; none if the pool's status does not say.
    pub(super) fn has_node_agent(&self, node: &str) -> Option<bool> {
        let agents = self.node_agents.as_ref()?;
        let is_missing = agents.missing_nodes.iter().any(|missing| missing == node);
        // The status names some of them.
        let are_all_named =
            usize::try_from(agents.missing).is_ok_and(|all| all == agents.missing_nodes.len());
        (is_missing || are_all_named).then_some(!is_missing)
    }

    #[cfg(test)]
    pub(super) fn new(time: Timestamp, observations: Vec<Observation>) -> Self {
        Self { time, observations, node_agents: None }
    }

    #[cfg(test)]
    pub(super) fn with_agents(self, live: i32, missing: i32, names: &[&str]) -> Self {
        let missing_nodes = names.iter().map(|name| (*name).to_owned()).collect();
        Self { node_agents: Some(NodeAgentsStatus { live, missing, missing_nodes }), ..self }
    }

    pub(super) fn observations(&self) -> &[Observation] {
        &self.observations
    }

    /// UIDs of the ScavengerJobs with a pod on a node that has not ended, by node.
    pub(super) fn owners_by_node(&self) -> BTreeMap<&Name, BTreeSet<&Name>> {
        let mut owners: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
        for observation in &self.observations {
            if let Observation::Pod(pod) = observation
                && !pod.phase.is_terminal()
                && let (Some(node), Some((owner, _))) = (&pod.node, &pod.owner)
            {
                owners.entry(node).or_default().insert(owner);
            }
        }
        owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let time = Timestamp::from_second(1_000).unwrap();
        let no_pool = Observation::Pool(Box::new(Err("no pool".to_owned())));
        let observations = vec![Observation::PodsRelisted, no_pool];
        let snapshot = Snapshot::new(time, observations).with_agents(3, 1, &["n4"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        snapshot.write(&mut file.as_file()).unwrap();
        let again = Snapshot::read(file.path()).unwrap();
        assert_eq!((again.time, &again.node_agents), (time, &snapshot.node_agents));
        assert!(matches!(again.observations[0], Observation::PodsRelisted));
        let Observation::Pool(pool) = &again.observations[1] else { panic!("{again:?}") };
        assert_eq!(**pool, Err("no pool".to_owned()));
    }

    #[test]
    fn only_answers_about_a_pool_that_counts_by_use_begin_with_what_they_cannot_know() {
        use scavenger_planner::fixtures::{at, settings};

        let said = |settings: Settings| {
            let pool = Observation::Pool(Box::new(Ok(settings)));
            Snapshot::new(at(0), vec![pool]).counts_by_use()
        };
        assert!(!said(settings()));
        assert!(said(settings().by_use()));
        let mut dry_run = settings().by_use();
        if let Some(rules) = &mut dry_run.usage {
            rules.dry_run = true;
        }
        assert!(!said(dry_run), "it counts by requests");
    }

    #[test]
    fn whether_a_node_has_an_agent_is_said_only_if_it_is_known() {
        let snapshot = || Snapshot::new(Timestamp::UNIX_EPOCH, Vec::new());
        assert_eq!(snapshot().has_node_agent("n1"), None, "none is live");
        let all_named = snapshot().with_agents(2, 1, &["n3"]);
        assert_eq!(["n1", "n3"].map(|node| all_named.has_node_agent(node)), [Some(true), Some(false)]);
        let some_named = snapshot().with_agents(2, 2, &["n3"]);
        assert_eq!(["n1", "n3"].map(|node| some_named.has_node_agent(node)), [None, Some(false)]);
    }

    #[test]
    fn a_file_that_is_none_cannot_be_used_and_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "apiVersion: v1\n").unwrap();
        for (path, said) in
            [(file.path(), ": line 1 does not begin"), (Path::new("/no/such"), "cannot be opened")]
        {
            let error = Snapshot::read(path).unwrap_err();
            assert!(error.is::<Unusable>() && error.to_string().contains(said), "{error:#}");
            assert!(error.to_string().contains(&*path.display().to_string()), "{error:#}");
        }
    }
}
