//! How much memory pods use, where the cluster measures that.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use scavenger_program::objects::Objects;
use scavenger_schema::quantity::parse_units;
use scavenger_schema::scavenger_job::ScavengerJob;

use super::{Cluster, TIMEOUT};

/// How long nobody asks again for what this cluster does not have (metrics.k8s.io) or does not allow.
const MISSING_FOR: Duration = Duration::from_secs(300);

/// Where memory is not measured, and since when that is known.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// The cluster does not measure, or does not answer.
    everywhere: Option<Instant>,
    /// The submitter may not read it in these namespaces.
    namespaces: BTreeMap<String, Instant>,
}

impl Missing {
    /// True if nobody should ask for what is measured in a namespace.
    fn is_in(&mut self, namespace: &str) -> bool {
        let is_new = |since: &Instant| since.elapsed() < MISSING_FOR;
        self.namespaces.retain(|_, since| is_new(since));
        self.everywhere.as_ref().is_some_and(is_new) || self.namespaces.contains_key(namespace)
    }

    /// Takes a failed request in a namespace into account. A pod is measured every so often, and not before it has run
    /// for a while; what one namespace forbids, others may allow.
    fn note(&mut self, namespace: &str, error: Option<&kube::Error>) {
        match error {
            Some(kube::Error::Api(status))
                if status.is_not_found() && status.message.contains("podmetrics") => {}
            Some(kube::Error::Api(status)) if status.is_forbidden() => {
                self.namespaces.insert(namespace.to_owned(), Instant::now());
            }
            _ => self.everywhere = Some(Instant::now()),
        }
    }
}

impl Cluster {
    /// Memory that the pod of an attempt uses now, bytes; none where the cluster does not measure it, or not yet.
    /// Never an error: nothing rests on it.
    pub async fn memory_bytes(&self, namespace: &str, job: &ScavengerJob, attempt: i32) -> Option<i64> {
        let missing = || self.metrics_missing.lock().unwrap_or_else(PoisonError::into_inner);
        if missing().is_in(namespace) {
            return None;
        }
        let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", "PodMetrics");
        let metrics: Objects<DynamicObject> = Objects::namespaced_with(
            self.client.clone(),
            namespace,
            &ApiResource::from_gvk_with_plural(&kind, "pods"),
        );
        let request = async {
            let Some(pod) = self.pod_of(namespace, job, attempt).await? else { return Ok(None) };
            metrics.get(&pod).await.map(Some)
        };
        match tokio::time::timeout(TIMEOUT, request).await {
            Ok(Ok(measured)) => measured.as_ref().and_then(|measured| memory_of(&measured.data)),
            Ok(Err(error)) => {
                missing().note(namespace, Some(&error));
                None
            }
            Err(_) => {
                missing().note(namespace, None);
                None
            }
        }
    }
}

/// Memory of all containers of a pod, as metrics.k8s.io tells it.
fn memory_of(measured: &serde_json::Value) -> Option<i64> {
    let containers = measured["containers"].as_array()?;
    let of = |container: &serde_json::Value| parse_units(container["usage"]["memory"].as_str()?).ok();
    containers.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn memory_is_summed_over_the_containers() {
        let measured = json!({ "containers": [
            { "name": "main", "usage": { "cpu": "980m", "memory": "30Mi" } },
            { "name": "other", "usage": { "memory": "1024" } },
        ] });
        assert_eq!(memory_of(&measured), Some((30 << 20) + 1024));
        for wrong in [json!({}), json!({ "containers": [{ "usage": { "memory": "x" } }] }), json!(null)] {
            assert_eq!(memory_of(&wrong), None, "{wrong}");
        }
    }

    fn refused(code: u16, message: &str) -> kube::Error {
        let reason = if code == 403 { "Forbidden" } else { "NotFound" }.to_owned();
        let status = Status { code, reason, message: message.to_owned(), ..Status::default() };
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn what_one_namespace_forbids_is_measured_in_others() {
        let mut missing = Missing::default();
        missing.note("lab", Some(&refused(404, "podmetrics.metrics.k8s.io \"a\" not found")));
        assert!(!missing.is_in("lab"), "a pod that was not measured yet");
        missing.note("lab", Some(&refused(403, "pods.metrics.k8s.io is forbidden")));
        assert!(missing.is_in("lab") && !missing.is_in("other"));
        for error in [Some(refused(404, "the server could not find the requested resource")), None] {
            let mut missing = Missing::default();
            missing.note("lab", error.as_ref());
            assert!(missing.is_in("lab") && missing.is_in("other"), "nobody measures: {error:?}");
        }
    }

    #[test]
    fn a_right_that_is_given_is_used_after_a_while() {
        let long_ago = Instant::now().checked_sub(MISSING_FOR).expect("the machine should be up for as long");
        let mut missing = Missing { everywhere: Some(long_ago), ..Missing::default() };
        missing.namespaces.insert("lab".to_owned(), long_ago);
        assert!(!missing.is_in("lab"));
    }
}
