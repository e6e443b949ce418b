//! How much memory nodes really use, where the cluster serves metrics.k8s.io (metrics-server, for example). There is no
//! watch of it: it is read by the clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use scavenger_planner::values::{Observation, Usage};
use scavenger_schema::quantity;
use scavenger_schema::terminal::shown;
use serde::Deserialize;
use tokio::{sync::mpsc, time::MissedTickBehavior};
use tracing::warn;

use crate::controller::Message;

/// What metrics-server measures by default.
const EVERY: Duration = Duration::from_secs(15);

/// What is older than this says nothing about now.
const OLDEST: SignedDuration = SignedDuration::from_mins(2);

const PATH: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    metadata: Metadata,
    timestamp: Timestamp,
    usage: Amounts,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Amounts {
    memory: String,
}

/// Reads until the controller is gone.
pub(super) async fn follow(client: Client, sender: mpsc::Sender<Message>) {
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut measured = false;
    loop {
        every.tick().await;
        let usage = read(&client).await;
        // Nothing that stays nothing is no news.
        if usage.is_none() && !measured {
            continue;
        }
        measured = usage.is_some();
        if sender.send(Message::Seen(Observation::Usage(usage))).await.is_err() {
            return;
        }
    }
}

/// What was measured lately; none if nobody measures, or does not tell.
async fn read(client: &Client) -> Option<Vec<Usage>> {
    let request = http::Request::get(PATH).body(Vec::new()).ok()?;
    match client.request::<List>(request).await {
        Ok(list) => Some(usage(list, now())),
        // Not served, or by something that is down.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 503) => None,
        Err(error) => {
            warn!(error = shown(&error.to_string()), "measured memory could not be read");
            None
        }
    }
}

fn usage(list: List, now: Timestamp) -> Vec<Usage> {
    let items = list.items.into_iter().filter(|item| now.duration_since(item.timestamp) <= OLDEST);
    items
        .filter_map(|item| {
            let memory_bytes = quantity::parse_units(&item.usage.memory).ok()?;
            Some(Usage { node: item.metadata.name.as_str().into(), memory_bytes, time: item.timestamp })
        })
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "the edge: how old a measurement is")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_lately_counts() {
        // As metrics-server says it.
        let list: List = serde_json::from_value(serde_json::json!({
            "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
            "items": [
                { "metadata": { "name": "n1", "creationTimestamp": "2026-01-01T00:00:10Z" },
                  "timestamp": "2026-01-01T00:00:00Z", "window": "20.042s",
                  "usage": { "cpu": "156340172n", "memory": "1903220Ki" } },
                { "metadata": { "name": "n2" }, "timestamp": "2025-12-31T23:50:00Z", "window": "20s",
                  "usage": { "cpu": "1", "memory": "1Gi" } },
            ],
        }))
        .unwrap();
        let time = "2026-01-01T00:00:00Z".parse().unwrap();
        let found = usage(list, "2026-01-01T00:00:15Z".parse().unwrap());
        assert_eq!(found, [Usage { node: "n1".into(), memory_bytes: 1_903_220 << 10, time }]);
    }
}
