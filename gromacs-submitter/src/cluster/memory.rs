//! How much memory pods use, where the cluster measures that.

use std::sync::PoisonError;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use scavenger_program::objects::Objects;
use scavenger_schema::quantity::parse_units;
use scavenger_schema::scavenger_job::ScavengerJob;

use super::{Cluster, TIMEOUT};

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
}
