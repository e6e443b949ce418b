//! The operator, as far as an agent sees it: it holds a request until there is something to say.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use scavenger_reporting::testing::Server;
use scavenger_schema::node_agent::{HOLD_SECONDS, NodePod, NodePods, NodeReport, PATH};

#[derive(Default)]
struct Says {
    version: u64,
    pods: Vec<NodePod>,
    /// Instead of an answer.
    refuses: Option<u16>,
}

pub struct Operator {
    pub server: Server<NodeReport>,
    says: Arc<(Mutex<Says>, Condvar)>,
}

impl Operator {
    pub fn start() -> Self {
        let says: Arc<(Mutex<Says>, Condvar)> = Arc::default();
        let own = Arc::clone(&says);
        let server = Server::<NodeReport>::answering(PATH, move |request| {
            let (says, changed) = &*own;
            let knows = |says: &mut Says| {
                says.refuses.is_none() && says.version.to_string() == request.report.version
            };
            let hold = Duration::from_secs(HOLD_SECONDS);
            let (says, _) = changed.wait_timeout_while(says.lock().unwrap(), hold, knows).unwrap();
            let answer = NodePods { version: says.version.to_string(), pods: says.pods.clone() };
            (says.refuses.unwrap_or(200), serde_json::to_string(&answer).unwrap())
        });
        Self { server, says }
    }

    pub fn tell(&self, pods: &[NodePod]) {
        let mut says = self.says.0.lock().unwrap();
        says.version += 1;
        says.pods = pods.to_vec();
        self.says.1.notify_all();
    }

    pub fn refuse(&self, status: Option<u16>) {
        self.says.0.lock().unwrap().refuses = status;
        self.says.1.notify_all();
    }
}
