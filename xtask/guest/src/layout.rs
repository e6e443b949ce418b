//! The cgroups of a node's pods, as the kubelet of Kubernetes 1.37 and a container runtime lay them out.

use scavenger_cgroups::{
    tree::{Class, Driver},
    weight::weight,
};

use crate::runtime::Conversion;

/// A mebibyte.
pub const MEBIBYTE: u64 = 1 << 20;

/// Multiples of this are what `memory.high` holds.
const PAGE: u64 = 4096;

/// The kubelet's `memoryThrottlingFactor`, in percent, where memory QoS throttles.
const THROTTLING_PERCENT: u64 = 90;

/// The period of `cpu.max`, in microseconds.
const PERIOD: u64 = 100_000;

/// A node.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// The names of its cgroups.
    pub names: Driver,
    /// Processors for pods, in thousandths.
    pub cpu: u64,
    /// Memory for pods, in bytes.
    pub memory: u64,
    /// The runtime's conversion of requests.
    pub conversion: Conversion,
    /// The kubelet's memory QoS, with `memoryReservationPolicy: TieredReservation` and a `memoryThrottlingFactor` of 0.9.
    pub memory_qos: bool,
    /// The kernel ends all processes of a container at once; not with the kubelet's `singleProcessOOMKill`.
    pub oom_group: bool,
}

/// A pod of one container.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pod {
    /// The pod's UID.
    pub uid: &'static str,
    /// Requested processors, in thousandths.
    pub cpu: u64,
    /// Requested memory, in bytes.
    pub memory: u64,
    /// Limits of both, if it has limits.
    pub limits: Option<(u64, u64)>,
}

/// A cgroup and what is written into its files, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Path below the root of the hierarchy.
    pub path: String,
    /// File and value.
    pub files: Vec<(&'static str, String)>,
}

impl Pod {
    /// Its class.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.limits {
            None if self.cpu == 0 && self.memory == 0 => Class::BestEffort,
            Some(limits) if limits == (self.cpu, self.memory) => Class::Guaranteed,
            _ => Class::Burstable,
        }
    }

    /// `oom_score_adj` of its processes on a node with so much memory.
    #[must_use]
    pub fn score(&self, memory_of_node: u64) -> i32 {
        match self.class() {
            Class::Guaranteed => -997,
            Class::BestEffort => 1000,
            Class::Burstable => {
                let share = i32::try_from(1000 * self.memory / memory_of_node.max(1)).unwrap_or(1000);
                (1000 - share).clamp(3, 999)
            }
        }
    }
}

impl Node {
    /// The cgroup of all pods, those of the classes, and those of each pod and its container; each below one before it.
    #[must_use]
    pub fn groups(&self, pods: &[Pod]) -> Vec<Group> {
        let burstable: Vec<&Pod> = pods.iter().filter(|pod| pod.class() == Class::Burstable).collect();
        let cpu: u64 = burstable.iter().map(|pod| pod.cpu).sum();
        let mut groups = vec![
            Group {
                path: self.names.class(Class::Guaranteed),
                files: [self.weight(self.cpu), ("memory.max", self.memory.to_string())].into(),
            },
            Group { path: self.names.class(Class::Burstable), files: [self.weight(cpu)].into() },
            Group { path: self.names.class(Class::BestEffort), files: [self.weight(0)].into() },
        ];
        if self.memory_qos {
            let low: u64 = burstable.iter().map(|pod| pod.memory).sum();
            let guaranteed = pods.iter().filter(|pod| pod.class() == Class::Guaranteed);
            let min = guaranteed.map(|pod| pod.memory).sum::<u64>() + low;
            groups[0].files.extend([("memory.min", min.to_string()), ("memory.low", low.to_string())]);
            groups[1].files.push(("memory.low", low.to_string()));
        }
        groups.extend(pods.iter().flat_map(|pod| [self.pod(pod), self.container(pod)]));
        groups
    }

    /// The path of a pod's cgroup.
    #[must_use]
    pub fn pod_path(&self, pod: &Pod) -> String {
        self.names.pod(pod.class(), pod.uid)
    }

    /// The path of the cgroup of a pod's container.
    #[must_use]
    pub fn container_path(&self, pod: &Pod) -> String {
        let id = pod.uid.replace('-', "");
        match self.names {
            Driver::Cgroupfs => format!("{}/{id}", self.pod_path(pod)),
            Driver::Systemd => format!("{}/cri-containerd-{id}.scope", self.pod_path(pod)),
        }
    }

    fn weight(&self, cpu: u64) -> (&'static str, String) {
        ("cpu.weight", weight(cpu).to_string())
    }

    fn pod(&self, pod: &Pod) -> Group {
        let mut files = vec![self.weight(pod.cpu)];
        files.extend(self.limits_and_protection(pod));
        Group { path: self.pod_path(pod), files }
    }

    fn container(&self, pod: &Pod) -> Group {
        let mut files = vec![("cpu.weight", self.conversion.weight(pod.cpu).to_string())];
        files.extend(self.limits_and_protection(pod));
        if let Some(high) = self.high(pod) {
            files.push(("memory.high", high.to_string()));
        }
        files.push(("memory.oom.group", u8::from(self.oom_group).to_string()));
        Group { path: self.container_path(pod), files }
    }

    /// What pod and container have alike.
    fn limits_and_protection(&self, pod: &Pod) -> Vec<(&'static str, String)> {
        let mut files = Vec::new();
        if let Some((cpu, memory)) = pod.limits {
            files.push(("cpu.max", format!("{} {PERIOD}", cpu * PERIOD / 1000)));
            files.push(("memory.max", memory.to_string()));
        }
        if self.memory_qos && pod.memory > 0 {
            let file = if pod.class() == Class::Guaranteed { "memory.min" } else { "memory.low" };
            files.push((file, pod.memory.to_string()));
        }
        files
    }

    /// `memory.high` of a container; none where it is not throttled.
    fn high(&self, pod: &Pod) -> Option<u64> {
        let limit = pod.limits.map_or(self.memory, |(_, memory)| memory);
        let is_throttled = self.memory_qos && pod.class() != Class::Guaranteed && limit > pod.memory;
        is_throttled.then(|| (pod.memory + (limit - pod.memory) * THROTTLING_PERCENT / 100) / PAGE * PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node {
        names: Driver::Cgroupfs,
        cpu: 2000,
        memory: 400 * MEBIBYTE,
        conversion: Conversion::Quadratic,
        memory_qos: false,
        oom_group: true,
    };
    const BY_REQUESTS: Pod =
        Pod { uid: "a-1", cpu: 1600, memory: 300 * MEBIBYTE, limits: Some((1600, 300 * MEBIBYTE)) };
    const BY_USE: Pod = Pod { cpu: 0, memory: 8 * MEBIBYTE, ..BY_REQUESTS };
    const ORDINARY: Pod = Pod { uid: "b-2", cpu: 200, memory: 40 * MEBIBYTE, limits: None };
    const NOTHING: Pod = Pod { uid: "c-3", cpu: 0, memory: 0, limits: None };

    fn file(node: &Node, path: &str, name: &str) -> Option<String> {
        let groups = node.groups(&[BY_REQUESTS, ORDINARY, NOTHING]);
        let group = groups.into_iter().find(|group| group.path == path)?;
        group.files.into_iter().find(|(file, _)| *file == name).map(|(_, value)| value)
    }

    #[test]
    fn groups_have_the_kubelets_names() {
        let node = Node { names: Driver::Systemd, ..NODE };
        assert_eq!(NODE.container_path(&BY_REQUESTS), "kubepods/poda-1/a1");
        assert_eq!(NODE.container_path(&ORDINARY), "kubepods/burstable/podb-2/b2");
        assert_eq!(
            node.container_path(&BY_REQUESTS),
            "kubepods.slice/kubepods-poda_1.slice/cri-containerd-a1.scope"
        );
        assert_eq!(
            node.container_path(&NOTHING),
            "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podc_3.slice/cri-containerd-c3.scope"
        );
        for node in [NODE, node] {
            let paths: Vec<String> =
                node.groups(&[BY_USE, NOTHING]).into_iter().map(|group| group.path).collect();
            for (place, path) in paths.iter().enumerate().skip(1) {
                let (parent, _) = path.rsplit_once('/').unwrap();
                assert!(paths[..place].iter().any(|earlier| earlier == parent), "{path} has no parent");
            }
        }
    }

    #[test]
    fn a_pod_gets_the_score_of_its_class() {
        assert_eq!([BY_REQUESTS, ORDINARY, NOTHING].map(|pod| pod.score(NODE.memory)), [-997, 900, 1000]);
        assert_eq!(BY_USE.class(), Class::Burstable);
        assert_eq!(BY_USE.score(NODE.memory), 980);
        assert_eq!(Pod { memory: 1, ..ORDINARY }.score(NODE.memory), 999);
        assert_eq!(Pod { memory: NODE.memory, ..ORDINARY }.score(NODE.memory), 3);
    }

    #[test]
    fn pods_classes_and_containers_get_what_the_kubelet_and_the_runtime_write() {
        for (path, name, value) in [
            ("kubepods", "cpu.weight", "79"),
            ("kubepods", "memory.max", "419430400"),
            ("kubepods/burstable", "cpu.weight", "8"),
            ("kubepods/besteffort", "cpu.weight", "1"),
            ("kubepods/poda-1", "cpu.weight", "63"),
            ("kubepods/poda-1", "cpu.max", "160000 100000"),
            ("kubepods/poda-1/a1", "memory.max", "314572800"),
            ("kubepods/poda-1/a1", "memory.oom.group", "1"),
            ("kubepods/burstable/podb-2", "cpu.weight", "8"),
            ("kubepods/burstable/podb-2/b2", "cpu.weight", "29"),
        ] {
            assert_eq!(file(&NODE, path, name).as_deref(), Some(value), "{path}/{name}");
        }
        let single = Node { oom_group: false, conversion: Conversion::Linear, ..NODE };
        assert_eq!(file(&single, "kubepods/poda-1/a1", "memory.oom.group").as_deref(), Some("0"));
        assert_eq!(file(&single, "kubepods/burstable/podb-2/b2", "cpu.weight").as_deref(), Some("8"));
        for name in ["memory.min", "memory.low", "memory.high"] {
            assert_eq!(file(&NODE, "kubepods/poda-1/a1", name), None, "{name}");
        }
    }

    #[test]
    fn memory_qos_protects_requests_and_throttles_below_the_limit() {
        let node = Node { memory_qos: true, ..NODE };
        let mebibytes = |count: u64| Some((count * MEBIBYTE).to_string());
        assert_eq!(file(&node, "kubepods", "memory.min"), mebibytes(340));
        assert_eq!(file(&node, "kubepods", "memory.low"), mebibytes(40));
        assert_eq!(file(&node, "kubepods/burstable", "memory.low"), mebibytes(40));
        assert_eq!(file(&node, "kubepods/poda-1", "memory.min"), mebibytes(300));
        assert_eq!(file(&node, "kubepods/poda-1/a1", "memory.high"), None);
        assert_eq!(file(&node, "kubepods/burstable/podb-2/b2", "memory.low"), mebibytes(40));
        assert_eq!(file(&node, "kubepods/burstable/podb-2/b2", "memory.high"), mebibytes(364));
        assert_eq!(file(&node, "kubepods/besteffort/podc-3/c3", "memory.high"), mebibytes(360));
    }
}
