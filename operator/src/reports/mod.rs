//! Takes the reports of supervisors, which run in the pods of ScavengerJobs, and tells the agents of nodes which of these
//! pods they have.
//!
//! ```text
//! supervisor ─┐                        ┌─Report, KillReport─▶
//!             ├─HTTPS──▶ server ──▶ desk          controller
//! agent ──────┘            ▲         │ ▲─Requests, Nodes─┤
//!           certificate    │   token │                   │ Namespaces
//!                        keeper    reviews               ▼
//!                          └──────────bundle─────────▶ bundles ──▶ ConfigMaps
//! ```
//!
//! | file | does |
//! |---|---|
//! | `server` | connections: TLS, deadlines, limits |
//! | `desk` | one request: who may say what, and what is believed of it |
//! | `nodes` | the pods of each node, for its agent |
//! | `kills` | kills for memory about which the agent of the node is asked |
//! | `reviews` | whose token it is: the cache, and the budget of TokenReviews |
//! | `pace` | how often something may happen, per key |
//! | `token` | tokens and TokenReviews as values |
//! | `authority` | certificates: what is due, without I/O |
//! | `keeper` | the Secret with the authorities, and the server's certificate |
//! | `bundles` | the ConfigMaps from which pods learn whom to trust |
//!
//! A report of a supervisor changes the expected loss of its own ScavengerJob alone, and within its `interruptionAfter`. What an
//! agent says decides whose fault a kill was that the operator has seen on the node of this agent. So nothing here is worth more
//! than a little work: every queue is bounded, and whatever is beyond a bound is refused with a status on which
//! the supervisor tries again later.

mod authority;
mod bundles;
mod desk;
mod keeper;
mod kills;
mod nodes;
mod pace;
mod reviews;
mod server;
mod token;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock},
};

use jiff::Timestamp;
use kube::Client;
use scavenger_planner::values::{Cpu, KillReport, Name};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tracing::info;

pub(crate) use self::{bundles::KEY as CA_KEY, nodes::Nodes, token::AUDIENCE};
use crate::{leader::Leadership, metrics::Metrics};

/// The Secret with the authorities, and the ConfigMap with their certificates. The policies of deploy/operator know the
/// name.
pub(crate) const CA: &str = "scavenger-supervisor-ca";

/// The Service of the endpoint.
pub(crate) const SERVICE: &str = "scavenger-operator-reports";

/// Where the supervisors of pods send their reports, if the operator is in this namespace and listens on this port. The name
/// has the address of every replica.
pub(crate) fn url(namespace: &str, port: u16) -> String {
    format!("https://{SERVICE}.{namespace}.svc:{port}{}", desk::PATH)
}

/// Reports that may wait for the loop. One of 10,000 pods each minute is 170 in a second.
const CHANNEL: usize = 1024;

/// What agents say about kills may wait for the loop in this number.
const KILLS: usize = 256;

/// What a pod's supervisor said, clamped to what can be true.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    /// Namespace of the pod.
    pub(crate) namespace: String,
    /// Name of the pod.
    pub(crate) pod: String,
    /// UID of the pod: a pod of the same name that came later is another one.
    pub(crate) pod_uid: String,
    /// When the newest checkpoint was written, by the operator's clock; never later than `received`.
    pub(crate) checkpoint: Option<Timestamp>,
    /// How many checkpoints the supervisor has seen.
    pub(crate) seen: u64,
    /// Between 0 and 1.
    pub(crate) progress: Option<f64>,
    /// Processor time of the workload; none where the kernel does not count it.
    pub(crate) cpu: Option<Cpu>,
    /// When the report arrived.
    pub(crate) received: Timestamp,
}

/// The pods that shall write a checkpoint now, by UID, each with the time after which one answers. The answer to each
/// report says whether its pod is among them. None until the view of this term is complete.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Arc<RwLock<Option<HashMap<String, Timestamp>>>>);

impl Requests {
    /// Asks the pods with these UIDs, and no others any more.
    pub(crate) fn ask<'a>(&self, pods: impl Iterator<Item = (&'a Name, Timestamp)>) {
        self.set(Some(pods.map(|(uid, since)| ((**uid).to_owned(), since)).collect()));
    }

    fn set(&self, pods: Option<HashMap<String, Timestamp>>) {
        let asked = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if *asked != pods {
            drop(asked);
            *self.0.write().unwrap_or_else(PoisonError::into_inner) = pods;
        }
    }

    /// Whether the planner knows the pods that report. What it heard before would be lost.
    fn are_known(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether a pod that reports this checkpoint is asked for another one. The report that brings the answer is not asked
    /// again, though the planner has yet to hear of it: a workload would write twice.
    fn ask_for_more(&self, pod: &str, checkpoint: Option<Timestamp>) -> bool {
        let asked = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let since = asked.as_ref().and_then(|asked| asked.get(pod));
        since.is_some_and(|since| checkpoint.is_none_or(|checkpoint| checkpoint <= *since))
    }
}

/// The controller's side: what it takes from the endpoint, and what it tells it.
#[derive(Debug)]
pub(crate) struct Link {
    /// Reports in the order in which they arrived.
    pub(crate) reports: mpsc::Receiver<Report>,
    /// Whom to ask for a checkpoint.
    pub(crate) requests: Requests,
    /// Namespaces with supervised ScavengerJobs, whose pods need to know whom to trust.
    pub(crate) namespaces: watch::Sender<BTreeSet<String>>,
    /// The pods of each node, for its agent.
    pub(crate) nodes: Nodes,
    /// What the agents of nodes say about kills.
    pub(crate) kills: mpsc::Receiver<KillReport>,
}

impl Link {
    /// Pods of these namespaces need to know whom to trust.
    pub(crate) fn serve(&self, namespaces: &[&Name]) {
        self.namespaces.send_if_modified(|served| {
            let is_new = served.len() != namespaces.len()
                || !namespaces.iter().all(|namespace| served.contains(&***namespace));
            if is_new {
                *served = namespaces.iter().map(|namespace| (***namespace).to_owned()).collect();
            }
            is_new
        });
    }

    /// A new view: nothing is known yet of whom to ask, and who needs certificates. Reports are not taken until it is
    /// complete.
    pub(crate) fn begin(&self) {
        self.requests.set(None);
        self.namespaces.send_replace(BTreeSet::new());
        self.nodes.begin();
    }
}

/// The endpoint's side of a [`Link`].
#[derive(Debug)]
pub(crate) struct Ends {
    reports: mpsc::Sender<Report>,
    requests: Requests,
    namespaces: watch::Receiver<BTreeSet<String>>,
    nodes: Nodes,
    kills: mpsc::Sender<KillReport>,
}

/// Both sides.
pub(crate) fn link() -> (Link, Ends) {
    let (sender, reports) = mpsc::channel(CHANNEL);
    let (namespaces, seen) = watch::channel(BTreeSet::new());
    let (requests, nodes) = (Requests::default(), Nodes::default());
    let (explain, kills) = mpsc::channel(KILLS);
    let ends = Ends {
        reports: sender,
        requests: requests.clone(),
        namespaces: seen,
        nodes: nodes.clone(),
        kills: explain,
    };
    (Link { reports, requests, namespaces, nodes, kills }, ends)
}

/// The moment of a request: for what is measured in time that passes, and for what is compared with others' clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Instant,
    time: Timestamp,
}

/// Where the endpoint reads the time.
type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// What the endpoint is made of.
pub(crate) struct Endpoint {
    pub(crate) listener: TcpListener,
    pub(crate) client: Client,
    /// The operator's own namespace: of its Secret and its Service.
    pub(crate) namespace: String,
    /// That of the agents of nodes.
    pub(crate) agents: String,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Endpoint {
    /// Serves until the tasks are dropped.
    pub(crate) fn start(self, ends: Ends) -> JoinSet<()> {
        let listen = self.listener.local_addr().ok().map(tracing::field::display);
        info!(listen, "reports of supervisors and requests of node agents are taken");
        let clock: Clock = Arc::new(now);
        let reviewer = token::reviewer(&self.client, &self.agents);
        let reviews = reviews::Reviews::new(reviewer, Arc::clone(&clock), Arc::clone(&self.metrics));
        let desk = desk::Desk::new(
            self.leadership.clone(),
            reviews,
            &ends,
            Arc::clone(&clock),
            Arc::clone(&self.metrics),
        );
        let (keeper, certificate, bundle) =
            keeper::Keeper::new(&self.client, &self.namespace, self.leadership.clone(), Arc::clone(&clock));
        let at = Arc::clone(&clock);
        let bundles = bundles::Bundles::new(&self.client, self.agents, self.leadership, clock);
        let mut tasks = JoinSet::new();
        tasks.spawn(ends.nodes.measure(move || at().at, Arc::clone(&self.metrics)));
        tasks.spawn(keeper.run());
        tasks.spawn(bundles.run(ends.namespaces, bundle));
        tasks.spawn(server::serve(self.listener, certificate, Arc::new(desk), self.metrics));
        tasks
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: the one clock of the endpoint")]
fn now() -> Moment {
    Moment { at: Instant::now(), time: Timestamp::now() }
}

#[cfg(test)]
mod tests;
