//! Accounting `Usage` in tests: what a node uses is played, since the machine of the tests is busy with them, and the pool
//! counts this node by it.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use axum::response::IntoResponse;
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{Api, Client, api::ListParams};
use scavenger_schema::{names, quantity, scavenger_pool::UsageStatus};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    World,
    faults::Proxy,
    room::{now, patch_pool, pools},
    world::until,
};

/// Where the API server serves what nodes use.
const NODES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

/// What a node uses: cpu and memory as metrics-server writes them.
#[derive(Debug, Clone)]
pub struct PlayedUse(Arc<Mutex<(String, String)>>);

impl PlayedUse {
    /// So much.
    #[must_use]
    pub fn new(cpu: &str, memory: &str) -> Self {
        Self(Arc::new(Mutex::new((cpu.to_owned(), memory.to_owned()))))
    }

    /// From now on it uses so much.
    pub fn set(&self, cpu: &str, memory: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (cpu.to_owned(), memory.to_owned());
    }

    /// The list as metrics-server writes it.
    fn list(&self, node: &str, measured: Timestamp) -> Value {
        let (cpu, memory) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        json!({
            "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {},
            "items": [{
                "metadata": { "name": node }, "timestamp": measured, "window": "15s",
                "usage": { "cpu": cpu, "memory": memory },
            }],
        })
    }

    /// Lets a node use it, measured whenever somebody asks; or measured at one time once and for all.
    pub fn measure(&self, proxy: &Proxy, node: &str, stands_still: Option<Timestamp>) {
        let (node, used) = (node.to_owned(), self.clone());
        proxy.answer(move |uri| {
            let asked = uri.path() == NODES;
            asked.then(|| axum::Json(used.list(&node, stands_still.unwrap_or_else(now))).into_response())
        });
    }

    /// Lets a node use it, measured when the cluster's own metrics-server measured the node `real`; while that does not
    /// answer, nobody does. Ends when the handle is aborted.
    pub fn measure_with_the_metrics_server(
        &self,
        proxy: &Proxy,
        client: &Client,
        node: &str,
        real: &str,
    ) -> JoinHandle<()> {
        let measured: Arc<Mutex<Option<Timestamp>>> = Arc::default();
        let (used, name, last) = (self.clone(), node.to_owned(), Arc::clone(&measured));
        proxy.answer(move |uri| {
            let time = *last.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = uri.path() == NODES;
            asked.then(|| match time {
                Some(time) => axum::Json(used.list(&name, time)).into_response(),
                None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            })
        });
        let (client, path) = (client.clone(), format!("{NODES}/{real}"));
        tokio::spawn(async move {
            let mut every = tokio::time::interval(Duration::from_secs(2));
            loop {
                every.tick().await;
                let time = measured_at(&client, &path).await;
                *measured.lock().unwrap_or_else(PoisonError::into_inner) = time;
            }
        })
    }
}

/// When metrics-server measured a node last; none if it does not answer at once.
async fn measured_at(client: &Client, path: &str) -> Option<Timestamp> {
    let request = http::Request::get(path).body(Vec::new()).ok()?;
    let answer = tokio::time::timeout(Duration::from_secs(3), client.request::<Value>(request)).await;
    answer.ok()?.ok()?["timestamp"].as_str()?.parse().ok()
}

/// The pool counts one node by use, and gives it up after a short time. What the tests leave out is put back.
///
/// # Errors
/// Those of the test.
pub async fn with_usage<F>(world: &World, node: &str, test: impl FnOnce() -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let usage = json!({
        "nodeSelector": { "kubernetes.io/hostname": node }, "window": "30s", "maxMetricsAge": "40s",
        "metricsGracePeriod": "1m", "linger": "0s",
    });
    let on = json!({
        "accounting": "Usage", "usage": usage, "startThreshold": 0.8, "headroomTarget": 0.85, "interruptThreshold": 0.9,
    });
    patch_pool(world, &on).await?;
    let result = test().await;
    let off = json!({
        "accounting": null, "usage": null, "startThreshold": 0.95, "headroomTarget": 0.95, "interruptThreshold": 1,
    });
    patch_pool(world, &off).await?;
    result
}

/// What the pool's status says of its use.
///
/// # Errors
/// What the API server says.
pub async fn usage_of_the_pool(world: &World) -> Result<UsageStatus> {
    let status = pools(world).get(names::DEFAULT_POOL).await?.status.unwrap_or_default();
    Ok(status.usage.unwrap_or_default())
}

/// Waits until the use of the node is known.
///
/// # Errors
/// If it does not come to be.
pub async fn is_known(world: &World) -> Result<()> {
    until("the pool knows what its node uses", || async {
        Ok((usage_of_the_pool(world).await?.nodes == 1).then_some(()))
    })
    .await
}

/// What a node has for pods of a resource.
///
/// # Errors
/// What the API server says.
pub async fn allocatable(world: &World, node: &str, resource: &str) -> Result<Quantity> {
    let node = Api::<Node>::all(world.client.clone()).get(node).await?;
    let allocatable = node.status.and_then(|status| status.allocatable).unwrap_or_default();
    allocatable.get(resource).cloned().with_context(|| format!("the node has no {resource}"))
}

/// Millicores that the pods of a node request.
///
/// # Errors
/// What the API server says.
pub async fn requested_cpu(world: &World, node: &str) -> Result<i64> {
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let mut requested = 0;
    for pod in Api::<Pod>::all(world.client.clone()).list(&on_node).await? {
        for container in pod.spec.into_iter().flat_map(|spec| spec.containers) {
            let requests = container.resources.and_then(|resources| resources.requests).unwrap_or_default();
            requested += requests.get("cpu").map_or(Ok(0), |cpu| quantity::parse_milli(&cpu.0))?;
        }
    }
    Ok(requested)
}
