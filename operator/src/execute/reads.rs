//! Live reads, and what the events of others say: the kubelet's and the Job controller's.

use jiff::SignedDuration;
use k8s_openapi::api::{
    batch::v1::Job as BatchJob,
    core::v1::{Event as CoreEvent, Pod as ApiPod},
};
use kube::api::ListParams;
use scavenger_planner::{
    action::{Answer, Failure, PodEvent},
    values::{Key, Name},
};

use scavenger_schema::names;

use super::{Executor, Outcome, errors::failure};
use crate::{manifest, observe::convert};

/// Longest message of somebody else's event that goes on into a status, in bytes.
const MAX_EVENT: usize = 1024;

/// Longest time between the kubelet's summaries of what is not mounted, and between its tries to mount one volume: each
/// takes 2 min and 3 s.
const SUMMARY_EVERY: SignedDuration = SignedDuration::from_secs(150);

impl Executor {
    async fn live_pods(&self, key: &Key, labels: &str) -> Result<kube::core::ObjectList<ApiPod>, Failure> {
        // Without a resourceVersion the API server answers with the newest state, not from its cache's past.
        self.api::<ApiPod>(key).list(&ListParams::default().labels(labels)).await.map_err(failure)
    }

    /// Pods of the ScavengerJob that have not ended. Phases Succeeded and Failed are final: the kubelet reports them
    /// only once every container has ended.
    pub(super) async fn pods_left(&self, key: &Key, uid: &str) -> Result<u32, Failure> {
        Ok(alive(&self.live_pods(key, &manifest::selector(uid)).await?))
    }

    /// As [`Self::pods_left`], of every ScavengerJob that had or has this name: one whose finalizer was taken off by hand
    /// leaves pods behind, and they write where the pods of the next one will.
    pub(super) async fn pods_left_of_name(&self, key: &Key) -> Result<u32, Failure> {
        Ok(alive(&self.live_pods(key, &format!("{}={}", names::LABEL_JOB, key.name)).await?))
    }

    /// A pod of another ScavengerJob that has not ended and works in this folder.
    pub(super) async fn pod_in_folder(
        &self,
        key: &Key,
        uid: &str,
        folder: Option<&String>,
    ) -> Result<Option<Name>, Failure> {
        let Some(folder) = folder else { return Ok(None) };
        let others = format!("{}={folder},{}!={uid}", names::LABEL_FOLDER, names::LABEL_JOB_UID);
        let pods =
            self.api::<ApiPod>(key).list(&ListParams::default().labels(&others)).await.map_err(failure)?;
        let alive = pods.iter().map(convert::pod).find(|pod| !pod.phase.is_terminal());
        Ok(alive.map(|pod| pod.key.name))
    }

    pub(super) async fn read_job(&self, key: &Key, uid: &Name) -> Outcome {
        let there = self.api::<BatchJob>(key).get_opt(&key.name).await.map_err(failure)?;
        let job = there.as_ref().and_then(convert::job).filter(|job| job.uid == *uid);
        Ok(job.map_or_else(|| Answer::JobGone { uid: uid.clone() }, |job| Answer::Job(job.into())))
    }

    pub(super) async fn look_for_job(&self, key: &Key, uid: &str, attempt: u32) -> Outcome {
        let name = names::job(&key.name, attempt);
        let there = self.api::<BatchJob>(key).get_opt(&name).await.map_err(failure)?;
        let job = there.as_ref().and_then(convert::job).filter(|job| *job.owner == *uid);
        Ok(job.map_or(Answer::NoJob { attempt }, |job| Answer::Job(job.into())))
    }

    pub(super) async fn list_pods(&self, key: &Key, uid: &str, job: Option<&(Key, Name)>) -> Outcome {
        let list = self.live_pods(key, &manifest::selector(uid)).await?;
        let version = list.metadata.resource_version.as_deref().unwrap_or_default();
        // Taken for 0, every pod that was seen would count as newer than this list.
        let resource_version = version.parse().map_err(|_| {
            Failure::Transient(format!(
                "the list of pods has resourceVersion {version:?}, which is not a number"
            ))
        })?;
        let create_failure = match job {
            Some((job, uid)) => self.create_failure(job, uid).await?,
            None => None,
        };
        Ok(Answer::Pods { pods: list.iter().map(convert::pod).collect(), resource_version, create_failure })
    }

    /// Why the Job controller could not create pods: it says so only in events.
    async fn create_failure(&self, job: &Key, uid: &str) -> Result<Option<String>, Failure> {
        let newest = self.newest_event(job, uid, ",reason=FailedCreate").await?;
        let said = newest.and_then(|event| event.message);
        // What is before it are the Job controller's words; the sentence is the API server's.
        Ok(said.map(|said| said.strip_prefix("Error creating: ").map(str::to_owned).unwrap_or(said)))
    }

    pub(super) async fn read_pod_events(&self, pods: &[(Key, Name)]) -> Outcome {
        let mut events = Vec::with_capacity(pods.len());
        for (pod, uid) in pods {
            let newest = self.newest_event(pod, uid, "").await?;
            let event = newest.map(|event| PodEvent {
                warning: event.type_.as_deref() == Some("Warning"),
                reason: event.reason.unwrap_or_default(),
                message: convert::shortened(event.message.as_deref().unwrap_or_default(), MAX_EVENT),
                other_container: event.involved_object.field_path.as_deref().and_then(other_container),
            });
            events.push((pod.name.clone(), event));
        }
        Ok(Answer::PodEvents(events))
    }

    /// The newest event about an object. By its UID: another one of the same name may have been there before.
    async fn newest_event(&self, object: &Key, uid: &str, also: &str) -> Result<Option<CoreEvent>, Failure> {
        let fields = format!("involvedObject.uid={uid}{also}");
        let events = self
            .api::<CoreEvent>(object)
            .list(&ListParams::default().fields(&fields))
            .await
            .map_err(failure)?;
        Ok(newest(&events.items))
    }
}

/// How many of these pods have not ended.
fn alive(pods: &kube::core::ObjectList<ApiPod>) -> u32 {
    let alive = pods.iter().filter(|pod| !convert::pod(pod).phase.is_terminal()).count();
    u32::try_from(alive).unwrap_or(u32::MAX)
}

/// The container that an event is about, `spec.initContainers{NAME}` or `spec.containers{NAME}`, unless that is the main one.
fn other_container(field: &str) -> Option<Name> {
    let (_, name) = field.strip_suffix('}')?.split_once('{')?;
    (name != manifest::CONTAINER).then(|| name.into())
}

/// The newest of an object's events. About every two minutes the kubelet sums up that some volumes of a pod are not
/// mounted; what it said of one of them since the summary before (it tries at least as often) tells why.
fn newest(events: &[CoreEvent]) -> Option<CoreEvent> {
    let time = |event: &CoreEvent| {
        let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
        series
            .map(|time| time.0)
            .or(event.last_timestamp.as_ref().map(|time| time.0))
            .or(event.event_time.as_ref().map(|time| time.0))
    };
    let sums_up = |event: &CoreEvent| {
        event.message.as_ref().is_some_and(|message| message.starts_with("Unable to attach or mount volumes"))
    };
    // Stamps have whole seconds; in one second, the complaint is what counts.
    let order = |event: &CoreEvent| (time(event), event.type_.as_deref() == Some("Warning"));
    let newest = events.iter().max_by_key(|event| order(event))?;
    let explains = |event: &&CoreEvent| {
        let recent =
            time(newest).zip(time(event)).is_some_and(|(newest, time)| newest - SUMMARY_EVERY <= time);
        recent && !sums_up(event) && event.type_.as_deref() == Some("Warning")
    };
    let telling = events.iter().filter(explains).max_by_key(|event| order(event));
    telling.filter(|_| sums_up(newest)).or(Some(newest)).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(second: u32, kind: &str, message: &str) -> CoreEvent {
        serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {}, "type": kind, "message": message,
            "lastTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60),
        }))
        .expect("the event should be valid")
    }

    #[test]
    fn the_container_that_an_event_is_about_is_known() {
        for (field, container) in [
            ("spec.containers{main}", None),
            ("spec.containers{network}", Some("network")),
            ("spec.initContainers{mesh}", Some("mesh")),
            ("spec", None),
        ] {
            assert_eq!(other_container(field).as_deref(), container, "{field}");
        }
    }

    fn said(events: &[CoreEvent]) -> Option<String> {
        newest(events).and_then(|event| event.message)
    }

    #[test]
    fn the_newest_event_counts_and_a_complaint_before_other_news_of_the_same_second() {
        let pulled = event(60, "Normal", "pulled");
        let failed = event(60, "Warning", "failed");
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[event(59, "Warning", "old"), pulled.clone()]).as_deref(), Some("pulled"));
        assert_eq!(said(&[failed, pulled]).as_deref(), Some("failed"));
    }

    #[test]
    fn a_summary_gives_way_to_what_was_said_of_a_volume_since_the_one_before() {
        let summary =
            event(300, "Warning", "Unable to attach or mount volumes: unmounted volumes=[a]: timed out");
        let earlier =
            event(177, "Warning", "Unable to attach or mount volumes: unmounted volumes=[a]: timed out");
        let reason = |second| event(second, "Warning", "MountVolume.SetUp failed");
        let all = |second| [reason(second), summary.clone(), earlier.clone(), event(290, "Normal", "news")];
        assert_eq!(said(&all(180)).as_deref(), Some("MountVolume.SetUp failed"));
        assert_eq!(said(&all(100)), summary.message, "it was mounted since");
    }
}
