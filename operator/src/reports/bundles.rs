//! The ConfigMaps from which pods learn whom to trust: one in each namespace with supervised ScavengerJobs, and one in that of
//! the agents of nodes, if there is one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use scavenger_program::objects::Objects;
use scavenger_schema::terminal::shown;
use tokio::{sync::watch, time::Instant};
use tracing::warn;

use super::{CA, Clock};
use crate::{
    config_map::{Error, bring},
    leader::Leadership,
};

/// The ConfigMap's key: the file's name in the pod.
pub(crate) const KEY: &str = "ca.crt";

/// From one namespace to the next: five in a second.
const SPACE: Duration = Duration::from_millis(200);

/// After this a namespace is looked at again: somebody may have deleted its ConfigMap.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(3600);

/// After this a namespace is tried again that could not be written.
const TRIED_EVERY: Duration = Duration::from_secs(60);

/// After this no answer of the API server is waited for.
const WITHIN: Duration = Duration::from_secs(10);

/// A namespace in which this was done last.
#[derive(Debug, Clone)]
struct Done {
    bundle: Arc<str>,
    /// When it is looked at again.
    again: Instant,
}

/// Writes the ConfigMaps, as long as this replica leads.
pub(super) struct Bundles {
    client: Client,
    /// Namespace of the agents of nodes.
    agents: String,
    leadership: watch::Receiver<Leadership>,
    clock: Clock,
    done: BTreeMap<String, Done>,
}

impl Bundles {
    pub(super) fn new(
        client: &Client,
        agents: String,
        leadership: watch::Receiver<Leadership>,
        clock: Clock,
    ) -> Self {
        Self { client: client.clone(), agents, leadership, clock, done: BTreeMap::new() }
    }

    pub(super) async fn run(
        mut self,
        mut namespaces: watch::Receiver<BTreeSet<String>>,
        mut bundle: watch::Receiver<Option<Arc<str>>>,
    ) {
        loop {
            let mut wanted = namespaces.borrow_and_update().clone();
            wanted.insert(self.agents.clone());
            let trusted = bundle.borrow_and_update().clone();
            let now = (self.clock)();
            let leads = self.leadership.borrow_and_update().holds(now.at);
            self.done.retain(|namespace, _| wanted.contains(namespace));
            let next = trusted
                .filter(|_| leads)
                .map(|trusted| (next(&wanted, &self.done, &trusted, now.at), trusted));
            let until = match next {
                // Nothing to write, or nobody to write it.
                None => None,
                Some((Next::Wait(until), _)) => until,
                Some((Next::Write(namespace), trusted)) => {
                    self.bring(namespace, trusted).await;
                    Some(Instant::now() + SPACE)
                }
            };
            let wait = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            // While it writes nothing else wakes it, so that changes cannot make it write faster.
            let writes = until.is_some_and(|until| until <= Instant::now() + SPACE);
            tokio::select! {
                () = wait => {}
                changed = namespaces.changed(), if !writes => if changed.is_err() { return },
                changed = bundle.changed(), if !writes => if changed.is_err() { return },
                changed = self.leadership.changed(), if !writes => if changed.is_err() { return },
            }
        }
    }

    async fn bring(&mut self, namespace: String, bundle: Arc<str>) {
        let api = Objects::namespaced(self.client.clone(), &namespace);
        let brought = tokio::time::timeout(
            WITHIN,
            bring(&api, CA, BTreeMap::from([(KEY.to_owned(), bundle.to_string())])),
        )
        .await;
        let pause = match brought {
            Ok(Ok(())) => LOOKED_AT_EVERY,
            // Most clusters have no agents, and who installs them does not say so to the operator.
            Ok(Err(Error::Kube(kube::Error::Api(status))))
                if namespace == self.agents && status.code == 404 =>
            {
                TRIED_EVERY
            }
            Ok(Err(error)) => {
                let error = error.to_string();
                warn!(
                    namespace,
                    error = shown(&error),
                    "ConfigMap {CA:?} was not written: pods there cannot report"
                );
                TRIED_EVERY
            }
            Err(_) => TRIED_EVERY,
        };
        self.done.insert(namespace, Done { bundle, again: (self.clock)().at + pause });
    }
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Look at this namespace, and write what is missing.
    Write(String),
    /// Nothing before then, if anything at all.
    Wait(Option<Instant>),
}

/// The first namespace that has not got this bundle, or was looked at long ago.
fn next(wanted: &BTreeSet<String>, done: &BTreeMap<String, Done>, bundle: &Arc<str>, now: Instant) -> Next {
    let is_due = |namespace: &&String| {
        done.get(*namespace).is_none_or(|done| done.bundle != *bundle || done.again <= now)
    };
    match wanted.iter().find(is_due) {
        Some(namespace) => Next::Write(namespace.clone()),
        None => Next::Wait(done.values().map(|done| done.again).min()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_is_written_once_for_each_bundle_and_looked_at_again() {
        let wanted: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let (first, second): (Arc<str>, Arc<str>) = ("first".into(), "second".into());
        let start = Instant::now();
        let mut done = BTreeMap::new();
        for namespace in ["a", "b"] {
            assert_eq!(next(&wanted, &done, &first, start), Next::Write(namespace.to_owned()));
            done.insert(
                namespace.to_owned(),
                Done { bundle: Arc::clone(&first), again: start + LOOKED_AT_EVERY },
            );
        }
        assert_eq!(next(&wanted, &done, &first, start), Next::Wait(Some(start + LOOKED_AT_EVERY)));
        assert_eq!(next(&wanted, &done, &second, start), Next::Write("a".to_owned()));
        assert_eq!(next(&wanted, &done, &first, start + LOOKED_AT_EVERY), Next::Write("a".to_owned()));
        assert_eq!(next(&BTreeSet::new(), &BTreeMap::new(), &first, start), Next::Wait(None));
    }
}
