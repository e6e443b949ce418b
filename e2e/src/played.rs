//! The operator of one ScavengerJob, played by a test: what it writes into the status, and its finalizer. So a test
//! decides when what happens, and a life takes no longer than those who watch it.
//!
//! Pods are played by the proxy that the submitter has in front of the API server: it answers which pod an attempt has,
//! what that one wrote, and how much memory it uses.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, ensure};
use axum::{
    body::{Body, Bytes},
    extract::Query,
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use scavenger_schema::{names, scavenger_job::ScavengerJob};
use scavenger_vocabulary::{Outcome, Phase, Reason, WaitingReason, condition};
use serde_json::{Value, json};

use crate::{World, world::until};

/// A time that is the same in each life of a test.
fn time(attempt: usize, minute: u32) -> String {
    format!("2026-01-01T{attempt:02}:{minute:02}:00Z")
}

/// A ScavengerJob whose operator a test plays.
pub struct PlayedJob {
    jobs: Api<ScavengerJob>,
    name: String,
    uid: String,
    logs: Logs,
    /// The attempt that is there now.
    active: Option<Value>,
    /// The attempts that have ended.
    ended: Vec<Value>,
}

impl PlayedJob {
    /// Waits until it is made, with the finalizer that the submitter sets.
    ///
    /// # Errors
    /// If it is not made.
    pub async fn made(world: &World, name: &str, logs: &Logs) -> Result<Self> {
        let jobs = world.api::<ScavengerJob>();
        let job = until(&format!("{name} is made"), || async {
            let job = jobs.get_opt(name).await?;
            Ok(job.filter(|job| job.metadata.deletion_timestamp.is_none()))
        })
        .await?;
        ensure!(job.finalizers() == [names::FINALIZER], "{name} was made with {:?}", job.finalizers());
        let uid = job.uid().context("the API server gives everything a UID")?;
        Ok(Self { jobs, name: name.to_owned(), uid, logs: logs.clone(), active: None, ended: Vec::new() })
    }

    /// It waits, for this reason.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn waits(&self, reason: WaitingReason, message: &str) -> Result<()> {
        let phase = if self.ended.is_empty() { Phase::Waiting } else { Phase::Interrupted };
        let conditions = json!([condition_of(condition::ADMITTED, "False", reason.name(), message)]);
        self.write(json!({ "phase": phase, "message": message, "conditions": conditions })).await
    }

    /// The next attempt runs, with what the spec asks for now, and has written `log`.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn runs(&mut self, log: &str) -> Result<()> {
        let job = self.jobs.get(&self.name).await?;
        let number = self.ended.len() + 1;
        self.active = Some(json!({
            "number": number, "jobName": format!("{}-{number}", self.name), "generation": job.metadata.generation,
            "requests": job.spec.resources.requests, "args": job.spec.args, "podCount": 1,
            "priorityClassName": "scavenger-0", "creationTime": time(number, 0), "startTime": time(number, 1),
        }));
        self.logs.write(&self.uid, number, Some(log));
        let message = format!("attempt {number} is running");
        self.write(json!({ "phase": Phase::Running, "message": message })).await
    }

    /// The attempt that runs is taken away, and its pod with its log; the next one has to wait a moment.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn is_interrupted(&mut self, reason: Reason, waits: WaitingReason) -> Result<()> {
        self.end(Outcome::Interrupted, &reason, "the pod was deleted", None)?;
        self.waits(waits, "waits after an interruption").await
    }

    /// The attempt that runs succeeds, having written `log`; none if its pod is gone. Its last words are
    /// `message`.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn completes(&mut self, message: &str, log: Option<&str>) -> Result<()> {
        self.end(Outcome::Completed, &Reason::Completed, message, log)?;
        let said = "the workload succeeded";
        let conditions = json!([condition_of(condition::COMPLETE, "True", Reason::Completed.name(), said)]);
        self.write(json!({
            "phase": Phase::Completed, "message": said, "conditions": conditions, "finishTime": time(self.ended.len(), 2),
        }))
        .await
    }

    /// The attempt that runs fails.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn fails(&mut self, reason: Reason, message: &str, log: &str) -> Result<()> {
        self.end(Outcome::Failed, &reason, message, Some(log))?;
        let conditions = json!([condition_of(condition::FAILED, "True", reason.name(), message)]);
        self.write(json!({
            "phase": Phase::Failed, "message": message, "conditions": conditions, "finishTime": time(self.ended.len(), 2),
        }))
        .await
    }

    /// Waits until its spec was replaced as often as it takes to get there.
    ///
    /// # Errors
    /// If it was not.
    pub async fn is_replaced(&self, generation: i64) -> Result<()> {
        until(&format!("{} is replaced", self.name), || async {
            let job = self.jobs.get(&self.name).await?;
            Ok((job.metadata.generation == Some(generation)).then_some(()))
        })
        .await
    }

    /// Waits until it is suspended.
    ///
    /// # Errors
    /// If it is not.
    pub async fn is_suspended(&self) -> Result<()> {
        until(&format!("{} is suspended", self.name), || async {
            Ok(self.jobs.get(&self.name).await?.spec.suspend.then_some(()))
        })
        .await
    }

    /// A person holds it, as `scavenger-operator hold` does.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn is_held(&self) -> Result<()> {
        let annotations = json!({ names::ANNOTATION_SUSPENDED_TO_GROW: null });
        let patch = json!({ "metadata": { "annotations": annotations }, "spec": { "suspend": true } });
        self.jobs.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Says on which node the attempt runs that is there now.
    ///
    /// # Errors
    /// If none is there, or what the API server says.
    pub async fn is_on(&mut self, node: &str, labels: &Value) -> Result<()> {
        let attempt = self.active.as_mut().context("no attempt runs")?;
        let allocatable = json!({ "cpu": "64", "memory": "64Gi", "pods": "100" });
        attempt["nodes"] =
            json!([{ "name": node, "podCount": 1, "labels": labels, "allocatable": allocatable }]);
        self.write(json!({ "phase": Phase::Running, "message": "it runs" })).await
    }

    /// Waits until it is deleted, and lets it go: its pods are gone.
    ///
    /// # Errors
    /// If it is not deleted.
    pub async fn is_deleted(self) -> Result<()> {
        until(&format!("{} is deleted", self.name), || async {
            let job = self.jobs.get_opt(&self.name).await?;
            Ok(job.is_none_or(|job| job.metadata.deletion_timestamp.is_some()).then_some(()))
        })
        .await?;
        for number in 1..=self.ended.len() + 1 {
            self.logs.write(&self.uid, number, None);
        }
        let finalizer = json!({ "metadata": { "finalizers": null } });
        self.jobs.patch(&self.name, &PatchParams::default(), &Patch::Merge(finalizer)).await?;
        Ok(())
    }

    fn end(&mut self, outcome: Outcome, reason: &Reason, message: &str, log: Option<&str>) -> Result<()> {
        let mut attempt = self.active.take().context("no attempt runs")?;
        let number = self.ended.len() + 1;
        for (field, value) in [
            ("endTime", &*time(number, 2)),
            ("outcome", outcome.name()),
            ("reason", reason.name()),
            ("message", message),
        ] {
            attempt[field] = json!(value);
        }
        self.logs.write(&self.uid, number, log);
        self.ended.push(attempt);
        Ok(())
    }

    async fn write(&self, more: Value) -> Result<()> {
        let job = self.jobs.get(&self.name).await?;
        let interrupted =
            self.ended.iter().filter(|attempt| attempt["outcome"] == Outcome::Interrupted.name()).count();
        let runs = self.ended.iter().chain(&self.active);
        let start_times: Vec<&Value> = runs.map(|attempt| &attempt["startTime"]).collect();
        let mut status = json!({
            "observedGeneration": job.metadata.generation, "interruptedCount": interrupted, "attempt": self.active,
            "attempts": self.ended, "startTimes": start_times, "conditions": [],
        });
        if let (Some(status), Value::Object(more)) = (status.as_object_mut(), more) {
            status.extend(more);
        }
        let patch = Patch::Merge(json!({ "status": status }));
        self.jobs.patch_status(&self.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

fn condition_of(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time(0, 0),
    })
}

/// What the pods of played attempts have written; who has no log has no pod.
#[derive(Clone, Default)]
pub struct Logs {
    /// By the pod's name: UID of the ScavengerJob and number of the attempt.
    by_pod: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Logs {
    fn by_pod(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.by_pod.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, uid: &str, attempt: usize, log: Option<&str>) {
        let pod = format!("{uid}-{attempt}");
        match log {
            Some(log) => self.by_pod().insert(pod, log.to_owned()),
            None => self.by_pod().remove(&pod),
        };
    }

    /// Answers what is asked about played pods.
    #[must_use]
    pub fn answer(&self, uri: &Uri) -> Option<Response> {
        let path = uri.path();
        let Query(query) = Query::<BTreeMap<String, String>>::try_from_uri(uri).ok()?;
        let number = |key: &str| query.get(key).and_then(|text| text.parse::<usize>().ok());
        if let Some((_, pod)) =
            path.strip_prefix("/apis/metrics.k8s.io/v1beta1/").and_then(|rest| rest.rsplit_once("/pods/"))
        {
            let usage = json!({
                "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": { "name": pod },
                "timestamp": time(0, 0), "window": "15s",
                "containers": [{ "name": "main", "usage": { "cpu": "1", "memory": "48Mi" } }],
            });
            return Some(axum::Json(usage).into_response());
        }
        if path.ends_with("/pods") {
            let pod = pod_of(query.get("labelSelector")?)?;
            let known = self.by_pod().contains_key(&pod);
            let item = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": { "name": pod },
            });
            let list = json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {},
                "items": if known { vec![item] } else { Vec::new() },
            });
            return Some(axum::Json(list).into_response());
        }
        let (_, pod) = path.strip_suffix("/log")?.rsplit_once("/pods/")?;
        let Some(mut log) = self.by_pod().get(pod).cloned() else {
            return Some(StatusCode::NOT_FOUND.into_response());
        };
        if let Some(lines) = number("tailLines") {
            let start = log.trim_end_matches('\n').rmatch_indices('\n').nth(lines.max(1) - 1);
            log = log.split_off(start.map_or(0, |(end, _)| end + 1));
        }
        if let Some(bytes) = number("limitBytes") {
            log.truncate(bytes);
        }
        if query.get("follow").map(String::as_str) == Some("true") {
            // The pod runs on and says nothing more.
            let said = futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from(log)) });
            return Some(Body::from_stream(said.chain(futures::stream::pending())).into_response());
        }
        Some(log.into_response())
    }
}

/// Name of the played pod that has these labels.
fn pod_of(selector: &str) -> Option<String> {
    let labels: BTreeMap<&str, &str> =
        selector.split(',').filter_map(|label| label.split_once('=')).collect();
    Some(format!("{}-{}", labels.get(names::LABEL_JOB_UID)?, labels.get(names::LABEL_ATTEMPT)?))
}
