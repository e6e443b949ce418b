//! The pool as far as a row needs it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use scavenger_schema::scavenger_job::Quantity;
use scavenger_schema::scavenger_pool::ScavengerPool;
use scavenger_schema::simulation::{GromacsToTune, LadderRung, LadderSettings};
use scavenger_schema::supervisor::Switch;
use scavenger_schema::{quantity, tuning};
use scavenger_tuner_model::hardware::class_of_labels;
use scavenger_vocabulary::{Accounting, WaitingReason};

use super::limits::PoolLimits;
use super::pool_node::PoolNode;
use crate::ladder_settings;

/// Why ScavengerJobs wait that would take room if there were more.
const WAITS_FOR_ROOM: [WaitingReason; 3] =
    [WaitingReason::NoCapacity, WaitingReason::Unscheduled, WaitingReason::BehindInQueue];

/// The pool as far as a row needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolView {
    /// How long an attempt may stay unscheduled.
    pub pending_timeout: Duration,
    /// Nodes for the tuner. What is free on them is bounded by what the threshold leaves.
    pub nodes: Vec<PoolNode>,
    /// What a ScavengerJob may ask for.
    pub limits: PoolLimits,
    /// When the operator last wrote down what is free.
    pub update_time: Option<Timestamp>,
    /// How far its clock is ahead of that by which `update_time` is, as far as is known.
    pub operator_ahead: SignedDuration,
    /// True if workloads run under the supervisor unless they refuse it.
    pub supervises: bool,
    /// Keys of the taints that ScavengerJobs may tolerate.
    pub tolerated_taints: Vec<String>,
    /// How many ScavengerJobs wait for room, or behind others that do.
    pub waiting_for_room: i32,
    /// How it wants configurations chosen.
    pub ladder_settings: LadderSettings,
    /// The share of the pool's cpu that ordinary pods are expected to use beside ScavengerJobs, at most 0.95; 0 where
    /// capacity is counted by requests, for then what a ScavengerJob requests is its own.
    pub shared_cpu: f64,
}

impl PoolView {
    /// Reads the pool; shapes that cannot be read, or that have no room for any pod, are left out.
    #[must_use]
    pub fn new(pool: &ScavengerPool) -> Self {
        let status = pool.status.clone().unwrap_or_default();
        let shapes = status.node_shapes.iter();
        let nodes = shapes.flat_map(|shape| PoolNode::read(shape, &status.free, &pool.spec.limits));
        Self {
            pending_timeout: pool.spec.pending_timeout.into(),
            waiting_for_room: WAITS_FOR_ROOM
                .iter()
                .filter_map(|reason| status.queue.waiting_by_reason.get(reason.name()))
                .sum(),
            nodes: nodes.collect(),
            ladder_settings: ladder_settings::of_pool(&pool.spec),
            limits: PoolLimits::new(&pool.spec.limits),
            tolerated_taints: pool.spec.tolerated_taints.clone(),
            update_time: status.update_time.map(|time| time.0),
            operator_ahead: SignedDuration::ZERO,
            shared_cpu: shared_cpu(pool),
            supervises: pool
                .spec
                .supervisor
                .as_ref()
                .is_some_and(|supervisor| supervisor.default == Switch::On),
        }
    }

    /// The pool as far as the row may run there.
    #[must_use]
    pub fn of_row(self, row: &GromacsToTune) -> Self {
        let build = row.build();
        let nodes = self.nodes.into_iter().filter(|node| row.may_run_on(node));
        Self { nodes: nodes.map(|node| node.for_build(&build)).collect(), ..self }
    }

    /// The nodes as the tuner knows them.
    #[must_use]
    pub fn shapes(&self) -> Vec<tuning::NodeShape> {
        self.nodes.iter().map(|node| node.shape.clone()).collect()
    }

    /// The resource that a configuration with GPUs asks for: that of a node that can hold it, of one that has them free
    /// rather than of another, and then of the kind that it is predicted for.
    #[must_use]
    pub fn gpu_resource_for(&self, rung: &LadderRung) -> Option<&str> {
        let wanted = rung.resources();
        let holds = |node: &&PoolNode| rung.may_run_on(node) && wanted.fits_in(&node.allocatable);
        let rank = |node: &&PoolNode| {
            let is_of_kind = class_of_labels(&node.labels, wanted.gpus) == rung.hardware_class;
            (wanted.fits_in(node.free()), is_of_kind)
        };
        // Of equals the first one.
        let best = self.nodes.iter().filter(holds).rev().max_by_key(rank)?;
        best.gpu_resource.as_deref().filter(|_| wanted.gpus > 0)
    }

    /// True if there is room for it now: on a node where it may run, and under the threshold.
    #[must_use]
    pub fn has_room_for(&self, rung: &LadderRung) -> bool {
        let mut nodes = self.nodes.iter().filter(|node| rung.may_run_on(node));
        nodes.any(|node| rung.resources().fits_in(node.free()))
    }

    /// Most memory that a node offers to a pod that asks for the CPU and the GPUs of a configuration; none if none holds
    /// these.
    #[must_use]
    pub fn most_memory_beside(&self, rung: &LadderRung) -> Option<u64> {
        let wanted = rung.resources();
        let holds = |offer: &tuning::Resources| {
            wanted.cpu_millicores <= offer.cpu_millicores && wanted.gpus <= offer.gpus
        };
        self.nodes
            .iter()
            .filter(|node| rung.may_run_on(node))
            .map(|node| &node.allocatable)
            .filter(|offer| holds(offer))
            .map(|offer| offer.memory_bytes)
            .max()
    }
}

/// See [`PoolView::shared_cpu`].
#[expect(clippy::cast_precision_loss, reason = "a share")]
fn shared_cpu(pool: &ScavengerPool) -> f64 {
    let Some(status) = pool.status.as_ref() else { return 0.0 };
    let by_use = pool.spec.accounting == Accounting::Usage && !pool.spec.usage.dry_run;
    let expected = status.usage.as_ref().filter(|_| by_use).and_then(|usage| usage.expected.get("cpu"));
    let milli = |cpu: Option<&Quantity>| cpu.and_then(|cpu| quantity::parse_milli(&cpu.0).ok());
    match (milli(expected), milli(status.allocatable.get("cpu"))) {
        (Some(expected), Some(all)) if all > 0 => (expected as f64 / all as f64).clamp(0.0, 0.95),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use scavenger_vocabulary::hardware;
    use serde_json::json;

    use super::*;

    fn pool(free_cpu: &str) -> PoolView {
        PoolView::new(
            &serde_json::from_value(json!({
                "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
                "spec": { "limits": { "maxResources": { "cpu": "4", "memory": "1Gi" } } },
                "status": {
                    "updateTime": "2026-11-21T10:00:00Z",
                    "free": { "cpu": free_cpu, "memory": "8Gi" },
                    "nodeShapes": [
                        { "count": 2, "allocatable": { "cpu": "8", "memory": "16Gi" },
                          "largestFree": { "cpu": "3", "memory": "4Gi" } },
                        { "count": 1, "allocatable": { "cpu": "2", "memory": "64Gi" },
                          "largestFree": { "cpu": "1", "memory": "60Gi" } },
                        { "count": 0, "allocatable": { "cpu": "9", "memory": "99Gi" }, "largestFree": {} },
                        { "count": 1, "allocatable": { "cpu": "x" }, "largestFree": {} },
                    ],
                },
            }))
            .expect("should be a pool"),
        )
    }

    #[test]
    fn processors_are_shared_only_where_they_are_counted_by_use() {
        let pool = |spec: serde_json::Value| {
            let view = PoolView::new(
                &serde_json::from_value(json!({
                    "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
                    "spec": spec,
                    "status": {
                        "allocatable": { "cpu": "40" },
                        "usage": { "nodes": 3, "expected": { "cpu": "10", "memory": "1Gi" } },
                    },
                }))
                .expect("should be a pool"),
            );
            format!("{:.2}", view.shared_cpu)
        };
        assert_eq!(pool(json!({ "accounting": "Usage" })), "0.25");
        assert_eq!(pool(json!({ "accounting": "Usage", "usage": { "dryRun": true } })), "0.00");
        assert_eq!(pool(json!({})), "0.00");
    }

    #[test]
    fn what_pays_is_read_from_its_weights_and_configurations() {
        let pool = serde_json::from_value(json!({
            "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
            "spec": { "weights": { "nvidia.com/gpu": 12.0 },
                      "configurations": { "minEfficiency": 0.5, "maxConfigurations": 6 } },
        }));
        let view = PoolView::new(&pool.expect("should be a pool"));
        let set = LadderSettings {
            min_efficiency: Some(0.5),
            max_configurations: Some(6),
            gpu_price: Some(12.0),
            memory_price: None,
        };
        assert_eq!(view.ladder_settings, set);
    }

    fn asks(cpu_millicores: i32, memory_gib: i64) -> LadderRung {
        LadderRung { cpu_millicores, memory_bytes: memory_gib << 30, ..crate::fixtures::ladder().remove(0) }
    }

    #[test]
    fn there_is_room_on_one_node_and_under_the_threshold() {
        let roomy = pool("100");
        assert_eq!(roomy.nodes.len(), 2, "what cannot be read is left out");
        assert!(roomy.has_room_for(&asks(3000, 4)));
        assert!(!roomy.has_room_for(&asks(3001, 1)), "on no node");
        assert!(!roomy.has_room_for(&asks(2000, 5)), "CPU on one node and memory on another");
        assert!(!pool("1500m").has_room_for(&asks(2000, 1)), "the threshold leaves less than the node");
        assert!(pool("1500m").has_room_for(&asks(1500, 1)));
    }

    #[test]
    fn what_is_bound_to_a_kind_of_node_has_room_there_alone() {
        let mut pool = pool("100");
        pool.nodes[1].labels = BTreeMap::from([("kind".to_owned(), "small".to_owned())]);
        let bound = |kind: &str, cpu: i32| {
            let labels = BTreeMap::from([("kind".to_owned(), kind.to_owned())]);
            LadderRung { node_labels: sqlx::types::Json(labels), ..asks(cpu, 1) }
        };
        assert!(pool.has_room_for(&bound("small", 1000)) && !pool.has_room_for(&bound("small", 2000)));
        assert!(pool.has_room_for(&asks(2000, 1)) && !pool.has_room_for(&bound("large", 1000)));
        assert_eq!(pool.most_memory_beside(&bound("small", 1000)), Some(64 << 30));
        assert_eq!(pool.most_memory_beside(&bound("large", 1000)), None);
    }

    /// A node with GPUs of AMD, and one whose GPU is cut into slices of two sizes. The larger ones are taken.
    fn with_gpus() -> PoolView {
        PoolView::new(
            &serde_json::from_value(json!({
                "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
                "spec": { "limits": { "maxResources": { "amd.com/gpu": "1" } } },
                "status": { "nodeShapes": [
                    { "count": 2, "allocatable": { "cpu": "64", "memory": "64Gi", "amd.com/gpu": "8" },
                      "largestFree": { "cpu": "64", "memory": "64Gi", "amd.com/gpu": "8" },
                      "labels": { "amd.com/gpu.product-name": "AMD_Instinct_MI250X_OAM" } },
                    { "count": 1,
                      "allocatable": { "cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "0",
                        "nvidia.com/mig-1g.5gb": "4", "nvidia.com/mig-2g.10gb": "1" },
                      "largestFree": { "cpu": "8", "memory": "16Gi", "nvidia.com/mig-1g.5gb": "3" },
                      "labels": { "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB" } },
                ] },
            }))
            .expect("should be a pool"),
        )
    }

    #[test]
    fn a_configuration_asks_for_what_the_gpus_of_its_nodes_are_called() {
        let of_build = |word: &str| {
            let mut row = crate::fixtures::row();
            let found = BTreeMap::from([("gpu-support".to_owned(), word.to_owned())]);
            row.inspected = Some(sqlx::types::Json(found));
            with_gpus().of_row(&row)
        };
        let pool = of_build("SYCL");
        let told: Vec<_> = pool
            .nodes
            .iter()
            .map(|node| {
                let partition = node.labels.get(hardware::GPU_PARTITION).map(String::as_str);
                (node.gpu_resource.as_deref().unwrap_or_default(), node.allocatable.gpus, partition)
            })
            .collect();
        // Of eight the pool lets a pod ask for one.
        assert_eq!(
            told,
            [
                ("amd.com/gpu", 1, None),
                ("nvidia.com/mig-1g.5gb", 4, Some("1g.5gb")),
                ("nvidia.com/mig-2g.10gb", 1, Some("2g.10gb"))
            ]
        );
        let on_gpu =
            |cpu: i32, class: &str| LadderRung { gpus: 1, hardware_class: class.to_owned(), ..asks(cpu, 1) };
        let class = |index: usize| class_of_labels(&pool.nodes[index].labels, 1);
        let resource = |rung: &LadderRung| pool.gpu_resource_for(rung).map(str::to_owned);
        assert_eq!(resource(&on_gpu(32000, "any")).as_deref(), Some("amd.com/gpu"), "no other node holds it");
        assert_eq!(resource(&on_gpu(4000, &class(0))).as_deref(), Some("amd.com/gpu"));
        assert_eq!(resource(&on_gpu(4000, &class(1))).as_deref(), Some("nvidia.com/mig-1g.5gb"));
        assert_ne!(
            resource(&on_gpu(4000, &class(2))).as_deref(),
            Some("nvidia.com/mig-2g.10gb"),
            "it is taken"
        );
        assert_eq!(resource(&asks(4000, 1)), None);
        // A build for CUDA finds nothing on GPUs of AMD, and one for HIP on nothing else.
        let found =
            |word: &str| of_build(word).nodes.iter().map(|node| node.allocatable.gpus).collect::<Vec<_>>();
        assert_eq!((found("CUDA"), found("HIP")), (vec![0, 4, 1], vec![1, 0, 0]));
    }

    #[test]
    fn memory_is_what_a_node_offers_beside_the_cores() {
        assert_eq!(pool("1").most_memory_beside(&asks(2000, 0)), Some(64 << 30));
        assert_eq!(pool("1").most_memory_beside(&asks(4000, 0)), Some(16 << 30));
        assert_eq!(pool("1").most_memory_beside(&asks(9000, 0)), None);
    }

    #[test]
    fn shares_of_gpus_are_asked_for_by_their_name_and_are_no_whole_ones() {
        let shape = |labels: serde_json::Value| {
            let all = json!({ "cpu": "16", "memory": "64Gi", "nvidia.com/gpu.shared": "4" });
            json!({ "count": 1, "allocatable": all, "largestFree": all, "labels": labels })
        };
        let product = json!({ "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB" });
        let mut counted = product.clone();
        counted["nvidia.com/gpu.replicas"] = "4".into();
        let pool = PoolView::new(
            &serde_json::from_value(json!({
                "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
                "spec": {}, "status": { "nodeShapes": [shape(counted), shape(product)] },
            }))
            .expect("should be a pool"),
        );
        let classes: Vec<String> = pool.nodes.iter().map(|node| class_of_labels(&node.labels, 1)).collect();
        assert_eq!(classes, ["unknown+a100-shared-4", "unknown+unknown"]);
        let rung = LadderRung { gpus: 1, hardware_class: classes[0].clone(), ..asks(4000, 1) };
        assert_eq!(pool.gpu_resource_for(&rung), Some("nvidia.com/gpu.shared"));
    }
}
