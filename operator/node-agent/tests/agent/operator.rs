//! The operator, as far as an agent sees it: it holds a request until there is something to say.

use std::{
    ops::Deref,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use scavenger_reporting::testing::Server;
use scavenger_schema::node_agent::{
    HOLD_SECONDS, KILLS_PATH, KillReport, KilledPod, NodePod, NodePods, NodeReport, PATH,
};
use serde::Deserialize;

#[derive(Default)]
struct Says {
    version: u64,
    pods: Vec<NodePod>,
    killed: Vec<KilledPod>,
    /// Instead of an answer.
    refuses: Option<u16>,
    /// The same for what is said about kills.
    refuses_kills: Option<u16>,
}

/// What an agent says: which list it has, or why a container was killed.
#[derive(Debug, Clone, Deserialize)]
pub struct Said {
    #[serde(flatten)]
    node: NodeReport,
    #[serde(flatten)]
    kill: Option<KillReport>,
}

impl Deref for Said {
    type Target = NodeReport;

    fn deref(&self) -> &NodeReport {
        &self.node
    }
}

pub struct Operator {
    pub server: Server<Said>,
    says: Arc<(Mutex<Says>, Condvar)>,
}

impl Operator {
    pub fn start() -> Self {
        let says: Arc<(Mutex<Says>, Condvar)> = Arc::default();
        let own = Arc::clone(&says);
        let server = Server::<Said>::answering(PATH, move |request| {
            let (says, changed) = &*own;
            if request.path == KILLS_PATH {
                return (says.lock().unwrap().refuses_kills.unwrap_or(200), "{}".to_owned());
            }
            let knows = |says: &mut Says| {
                says.refuses.is_none() && says.version.to_string() == request.report.version
            };
            let hold = Duration::from_secs(HOLD_SECONDS);
            let (says, _) = changed.wait_timeout_while(says.lock().unwrap(), hold, knows).unwrap();
            let Says { version, pods, killed, refuses, .. } = &*says;
            let answer =
                NodePods { version: version.to_string(), pods: pods.clone(), killed: killed.clone() };
            (refuses.unwrap_or(200), serde_json::to_string(&answer).unwrap())
        });
        Self { server, says }
    }

    pub fn tell(&self, pods: &[NodePod]) {
        self.change(|says| says.pods = pods.to_vec());
    }

    /// Asks why containers of these pods were killed.
    pub fn ask(&self, killed: &[KilledPod]) {
        self.change(|says| says.killed = killed.to_vec());
    }

    fn change(&self, change: impl FnOnce(&mut Says)) {
        let mut says = self.says.0.lock().unwrap();
        says.version += 1;
        change(&mut says);
        self.says.1.notify_all();
    }

    pub fn refuse(&self, status: Option<u16>) {
        self.says.0.lock().unwrap().refuses = status;
        self.says.1.notify_all();
    }

    pub fn refuse_kills(&self, status: u16) {
        self.says.0.lock().unwrap().refuses_kills = Some(status);
    }

    /// What was said about kills.
    pub fn kills(&self) -> Vec<KillReport> {
        self.server.requests().into_iter().filter_map(|request| request.report.kill).collect()
    }
}
