//! The one path on which a pod of a ScavengerJob is interrupted, for the operator and for its guard.
//!
//! A pod is evicted. If something stands against that, it is marked and deleted at once, with its own grace period: an
//! interruption is decided for somebody who waits, and what others make for evictions must not let a ScavengerJob keep
//! what an ordinary pod needs. Nor does it hold up kube-scheduler, which deletes.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod as ApiPod, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Client,
    api::{DeleteParams, EvictParams, Patch, PatchParams, Preconditions},
    core::Status,
};
use scavenger_planner::{action::Failure, refusal, values::Key};
use scavenger_program::objects::Objects;
use scavenger_schema::terminal::shown;
use scavenger_vocabulary::Reason;
use serde_json::json;
use tracing::info;

use crate::execute::failure;

/// How long an eviction is waited for. A webhook may take 30 s, which is longer than an action may.
const EVICTED_WITHIN: Duration = Duration::from_secs(8);

/// Interrupts pods.
pub(crate) struct Evictor {
    /// Returns a 429 at once: that is how a PodDisruptionBudget refuses an eviction.
    client: Client,
    /// Who interrupts, as the pod's condition names it.
    by: &'static str,
}

/// How a pod went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Through the eviction API.
    Evicted,
    /// Marked and deleted, since something stood against its eviction.
    Deleted(Against),
    /// It was gone already, or another one has its name by now.
    Before,
}

/// What stands against an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Against {
    Budget,
    /// An admission webhook or policy refuses it, or a webhook cannot be called.
    Admission,
    /// It was not answered in time: somebody who is asked about it may be away.
    Silence,
}

impl fmt::Display for Against {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Budget => "a PodDisruptionBudget forbids its eviction",
            Self::Admission => "admission refuses its eviction",
            Self::Silence => "its eviction was not answered in time",
        })
    }
}

impl Evictor {
    pub(crate) fn new(client: Client, by: &'static str) -> Self {
        Self { client, by }
    }

    /// Interrupts one pod, and none that took its name since.
    pub(crate) async fn evict(&self, pod: &Key, uid: &str) -> Result<Gone, Failure> {
        let api: Objects<ApiPod> = Objects::namespaced(self.client.clone(), &pod.namespace);
        let only_this = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let eviction = EvictParams { delete_options: Some(only_this.clone()), ..EvictParams::default() };
        let answer = tokio::time::timeout(EVICTED_WITHIN, api.evict(&pod.name, &eviction)).await;
        let (against, reason) = match answer {
            Ok(Ok(_)) => return Ok(Gone::Evicted),
            Ok(Err(kube::Error::Api(error))) => match against(&error) {
                Some(against) => (against, error.message),
                None if is_another(&error) => return Ok(Gone::Before),
                None => return Err(failure(kube::Error::Api(error))),
            },
            Ok(Err(error)) => return Err(failure(error)),
            Err(_) => (Against::Silence, String::new()),
        };
        let reason = shown(&reason);
        info!(namespace = %pod.namespace, pod = %pod.name, reason, "deleted instead of evicted: {against}");
        // The condition comes first: by it the Job controller and the operator know that the pod was interrupted, and did not
        // fail.
        let marked = json!({
            "metadata": { "uid": uid },
            "status": { "conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": Reason::InterruptedByScavenger,
                "message": format!("interrupted by {}; {against}", self.by),
                "lastTransitionTime": Time(now()),
            }] },
        });
        match api.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(&marked)).await {
            Ok(_) => {}
            Err(kube::Error::Api(error)) if error.is_not_found() || error.is_conflict() => {
                return Ok(Gone::Before);
            }
            Err(error) => return Err(failure(error)),
        }
        match api.delete(&pod.name, &only_this).await {
            Ok(_) => Ok(Gone::Deleted(against)),
            Err(kube::Error::Api(error)) if is_another(&error) => Ok(Gone::Before),
            Err(error) => Err(failure(error)),
        }
    }
}

/// True if the pod is gone, or another one has its name by now.
fn is_another(error: &Status) -> bool {
    error.is_not_found() || error.is_conflict() && error.message.contains("UID in precondition")
}

/// What stands against an eviction, if that is why it failed. A webhook answers with whatever code it likes, so its
/// words count before all codes.
fn against(error: &Status) -> Option<Against> {
    if refusal::is_by_admission(&error.message) {
        return Some(Against::Admission);
    }
    forbidden_by_budget(error).then_some(Against::Budget)
}

/// True if a PodDisruptionBudget stands against an eviction: 429, which also means that the API server is busy, or 500
/// where two budgets match.
fn forbidden_by_budget(error: &Status) -> bool {
    let causes = error.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "DisruptionBudget")
        || error.code == 500 && error.message.contains("PodDisruptionBudget")
}

#[expect(clippy::disallowed_methods, reason = "the edge: the condition is stamped when it is set")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    /// An API server that answers an eviction with this, after so long, and takes everything else. It notes what it is
    /// asked.
    fn server(
        code: u16,
        answer: &Value,
        after: Duration,
        asked: &Arc<Mutex<Vec<(String, Value)>>>,
    ) -> Client {
        let (answer, asked) = (answer.to_string(), Arc::clone(asked));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (answer, asked) = (answer.clone(), Arc::clone(&asked));
            async move {
                let (parts, body) = request.into_parts();
                let path = parts.uri.path().rsplit("/namespaces/lab/").next().unwrap_or_default().to_owned();
                let sent = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
                asked.lock().unwrap().push((format!("{} {path}", parts.method), sent));
                let is_eviction = parts.method == Method::POST;
                if is_eviction {
                    tokio::time::sleep(after).await;
                }
                let text = match is_eviction {
                    true => answer,
                    false => {
                        json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "p" } }).to_string()
                    }
                };
                let mut response = Response::new(Body::from(text.into_bytes()));
                let code = if is_eviction { code } else { 200 };
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, "lab")
    }

    fn refused(code: u16, message: &str) -> Value {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "x", "message": message })
    }

    async fn evicted(
        code: u16,
        answer: &Value,
        after: Duration,
    ) -> (Result<Gone, Failure>, Vec<(String, Value)>) {
        let asked = Arc::default();
        let evictor = Evictor::new(server(code, answer, after, &asked), "me");
        let gone = evictor.evict(&Key::new("lab", "p"), "u").await;
        let asked = asked.lock().unwrap().clone();
        (gone, asked)
    }

    #[tokio::test]
    async fn what_others_make_for_evictions_does_not_keep_a_pod() {
        let mut budget = refused(429, "Cannot evict pod as it would violate the pod's disruption budget.");
        budget["details"] = json!({ "causes": [{ "reason": "DisruptionBudget", "message": "" }] });
        let down = "Internal error occurred: failed calling webhook \"w\": failed to call webhook: connection refused";
        for (code, answer, against) in [
            (429, budget, Against::Budget),
            (
                500,
                refused(500, "This pod has more than one PodDisruptionBudget, which is not supported."),
                Against::Budget,
            ),
            (500, refused(500, down), Against::Admission),
            // With the codes that a webhook may choose: one of them would mean that the pod is gone.
            (429, refused(429, "admission webhook \"w\" denied the request: later"), Against::Admission),
            (404, refused(404, "admission webhook \"w\" denied the request: no"), Against::Admission),
            (
                422,
                refused(
                    422,
                    "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                ),
                Against::Admission,
            ),
        ] {
            let (gone, asked) = evicted(code, &answer, Duration::ZERO).await;
            assert_eq!(gone, Ok(Gone::Deleted(against)), "{answer}");
            let requests: Vec<&str> = asked.iter().map(|(request, _)| request.as_str()).collect();
            assert_eq!(requests, ["POST pods/p/eviction", "PATCH pods/p/status", "DELETE pods/p"]);
            let condition = &asked[1].1["status"]["conditions"][0];
            assert_eq!(condition["message"], format!("interrupted by me; {against}"));
            // With the grace period of the pod, and only this one.
            assert_eq!(asked[2].1["preconditions"]["uid"], "u");
            assert_eq!(asked[2].1.get("gracePeriodSeconds"), None);
        }
    }

    #[tokio::test]
    async fn a_server_in_trouble_and_a_missing_right_are_no_reason_to_delete() {
        for (code, message) in [
            (429, "Too many requests, please try again later."),
            (500, "etcdserver: request timed out"),
            (
                403,
                "pods \"p\" is forbidden: User \"a\" cannot create resource \"pods/eviction\" in API group \"\"",
            ),
        ] {
            let (gone, asked) = evicted(code, &refused(code, message), Duration::ZERO).await;
            assert_eq!(gone, Err(Failure::Transient(message.to_owned())));
            assert_eq!(asked.len(), 1, "{message}");
        }
        let (gone, asked) =
            evicted(200, &json!({ "kind": "Status", "status": "Success" }), Duration::ZERO).await;
        assert_eq!((gone, asked.len()), (Ok(Gone::Evicted), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_webhook_that_does_not_answer_is_not_waited_for_longer_than_an_action_may_take() {
        let began = tokio::time::Instant::now();
        let down = refused(500, "failed calling webhook \"w\": context deadline exceeded");
        let (gone, asked) = evicted(500, &down, Duration::from_secs(30)).await;
        assert_eq!((gone, asked.len()), (Ok(Gone::Deleted(Against::Silence)), 3));
        assert_eq!(began.elapsed(), EVICTED_WITHIN);
    }
}
