//! The operator's own events: one for each start of an attempt, and one for each end.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event as ApiEvent, EventType, Recorder, Reporter},
};
use scavenger_planner::action::Event;
use scavenger_schema::{names, scavenger_job::ScavengerJob, terminal::shown};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tracing::warn;

use crate::metrics::Metrics;

/// Longest note of an event, in characters; the API allows 1 kB, and a character may take up to 4 bytes.
const MAX_NOTE: usize = 250;

/// Events that may wait to be published. More are dropped and counted: an event is news, the status is the truth.
const EVENTS: usize = 10_000;

/// Longest time that an event waits for the rest of the work to be done. While much is to be done, events come at this
/// pace: the API server is better used for starts.
const EVENT_PATIENCE: Duration = Duration::from_millis(100);

/// Events that are published at the same time.
const EVENTS_AT_ONCE: usize = 4;

/// Publishes events beside the actions.
pub(super) struct Events {
    /// None once nothing more is published.
    queued: Mutex<Option<mpsc::Sender<(ApiEvent, ObjectReference)>>>,
    busy: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    publishing: Mutex<Option<JoinHandle<()>>>,
}

impl Events {
    /// Publishes events until this is gone.
    pub(super) fn start(client: Client, metrics: Arc<Metrics>) -> Self {
        let (sender, queued) = mpsc::channel(EVENTS);
        let busy = watch::Sender::new(false);
        let publishing = tokio::spawn(publish(client, queued, busy.subscribe(), Arc::clone(&metrics)));
        let (queued, publishing) = (Mutex::new(Some(sender)), Mutex::new(Some(publishing)));
        Self { queued, busy, metrics, publishing }
    }

    /// Publishes what is queued, and takes nothing more. What is left after so long is lost.
    pub(super) async fn flush(&self, bound: Duration) {
        // Nothing is left to be done that would come first.
        self.set_busy(false);
        let sender = locked(&self.queued).take();
        let publishing = locked(&self.publishing).take();
        let (Some(sender), Some(mut publishing)) = (sender, publishing) else { return };
        drop(sender);
        if tokio::time::timeout(bound, &mut publishing).await.is_err() {
            publishing.abort();
            warn!("stopped before every event was published");
        }
    }

    /// Says whether actions wait for others to end.
    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.send_if_modified(|was| std::mem::replace(was, busy) != busy);
    }

    /// Has an event published, beside the action: how long that takes is no part of what the planner waits for.
    pub(super) fn tell(&self, sj: &ScavengerJob, event: Event, message: &str) {
        let type_ = match event {
            Event::Failed => EventType::Warning,
            Event::Started | Event::Interrupted | Event::Withdrawn | Event::Completed => EventType::Normal,
        };
        let event = ApiEvent {
            type_,
            reason: event.name().to_owned(),
            note: Some(message.chars().take(MAX_NOTE).collect()),
            // Events are merged when all but the note are equal: each attempt gets its own.
            action: sj
                .status
                .as_ref()
                .and_then(|status| status.attempt.as_ref())
                .map_or_else(|| "Reconcile".to_owned(), |attempt| format!("Attempt{}", attempt.number)),
            secondary: None,
        };
        let queued = locked(&self.queued);
        let was_sent =
            queued.as_ref().is_some_and(|queued| queued.try_send((event, sj.object_ref(&()))).is_ok());
        if !was_sent {
            self.metrics.lost_event();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Publishes events until the executor is gone. One that is lost is no reason to do anything twice.
async fn publish(
    client: Client,
    queued: mpsc::Receiver<(ApiEvent, ObjectReference)>,
    busy: watch::Receiver<bool>,
    metrics: Arc<Metrics>,
) {
    let reporter = Reporter { controller: names::OPERATOR.to_owned(), instance: None };
    // One for the process: it knows which events to merge.
    let recorder = &Recorder::new(client, reporter);
    let metrics = &metrics;
    let next = async |(mut queued, mut busy): (mpsc::Receiver<_>, watch::Receiver<bool>)| {
        let event = queued.recv().await?;
        // Whichever comes first; if the executor is gone, so is what was to be done.
        drop(tokio::time::timeout(EVENT_PATIENCE, busy.wait_for(|busy| !busy)).await);
        Some((event, (queued, busy)))
    };
    futures::stream::unfold((queued, busy), next)
        .for_each_concurrent(EVENTS_AT_ONCE, |(event, object)| async move {
            if let Err(error) = recorder.publish(&event, &object).await {
                metrics.lost_event();
                warn!(
                    namespace = object.namespace,
                    name = object.name,
                    error = shown(&error.to_string()),
                    "event was not published"
                );
            }
        })
        .await;
}
