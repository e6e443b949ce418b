//! Which node of a cluster carries the demo, and how much of it is held so that the story is the same on every node.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use scavenger_schema::quantity::{format_milli, parse_milli, parse_units};
use serde_json::Value;

use crate::images::Architecture;

/// What the simulations find on the node, in thousandths of a core: enough for one core and a half, and not for two cores.
const FOR_SIMULATIONS: i64 = 1550;

/// With less than this the ordinary pod would find a core without preempting a simulation, or none at all.
const LEAST_FOR_SIMULATIONS: i64 = 1500;

/// What ScavengerJobs leave free, as 95% of two cores do.
const LEFT_FREE: i64 = 100;

/// Memory of everything that the demo runs.
const MEMORY: i64 = 1 << 30;

/// Pods that the demo runs at a time, with some to spare.
const PODS: i64 = 15;

/// Cpu in thousandths of a core, memory in bytes, and a number of pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) cpu: i64,
    memory: i64,
    pods: i64,
}

/// A node as the demo sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) allocatable: Amount,
    /// What no pod has requested.
    pub(super) free: Amount,
    /// Why nothing of the demo can run there, whatever is free.
    unfit: Option<String>,
}

/// What is done to a node so that the simulations find what they find in the demo on a machine with two cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    /// Cpu that a placeholder requests, in thousandths of a core.
    pub(super) placeholder: Option<i64>,
    /// Up to which share of the node ScavengerJobs may fill it.
    pub(super) threshold: f64,
}

impl Node {
    /// Reads the lists of nodes and pods of a cluster.
    pub(super) fn read(nodes: &Value, pods: &Value) -> Result<Vec<Self>> {
        let mut requested: BTreeMap<&str, Amount> = BTreeMap::new();
        for pod in pods["items"].as_array().into_iter().flatten() {
            let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            if let (Some(node), false) = (pod["spec"]["nodeName"].as_str(), is_over) {
                let sum = requested.entry(node).or_default();
                let more = requests(&pod["spec"])?;
                *sum =
                    Amount { cpu: sum.cpu + more.cpu, memory: sum.memory + more.memory, pods: sum.pods + 1 };
            }
        }
        let list = nodes["items"].as_array().into_iter().flatten();
        list.map(|node| {
            let name = node["metadata"]["name"].as_str().context("a node without a name")?;
            let of = &node["status"]["allocatable"];
            let allocatable = Amount { pods: milli(&of["pods"])? / 1000, ..amount(of)? };
            let used = requested.get(name).copied().unwrap_or_default();
            Ok(Self {
                name: name.to_owned(),
                allocatable,
                free: Amount {
                    cpu: allocatable.cpu - used.cpu,
                    memory: allocatable.memory - used.memory,
                    pods: allocatable.pods - used.pods,
                },
                unfit: unfit(node),
            })
        })
        .collect()
    }

    /// Why the demo cannot run on the node, whose own pods request `ours`; none if it can.
    fn refusal(&self, ours: i64) -> Option<String> {
        if let Some(unfit) = &self.unfit {
            return Some(unfit.clone());
        }
        let needed = ours + LEAST_FOR_SIMULATIONS + LEFT_FREE;
        let too_small = |free: String, what: &str, needed: String| {
            Some(format!("has {free} of {what} free, and the demo needs {needed}"))
        };
        if self.free.cpu < needed {
            return too_small(format_milli(self.free.cpu), "cpu", format_milli(needed));
        }
        if self.free.memory < MEMORY {
            let mebibytes = |bytes: i64| format!("{} MiB", bytes >> 20);
            return too_small(mebibytes(self.free.memory), "memory", mebibytes(MEMORY));
        }
        if self.free.pods < PODS {
            return too_small(self.free.pods.to_string(), "its pods", PODS.to_string());
        }
        None
    }

    /// How much is held on the node, beside pods of the demo that request `ours`.
    pub(super) fn share(&self, ours: i64) -> Share {
        let spare = self.free.cpu - ours - FOR_SIMULATIONS - LEFT_FREE;
        // Four digits: on the largest nodes that is a hundredth of a core.
        let threshold = 1.0 - LEFT_FREE as f64 / self.allocatable.cpu as f64;
        Share { placeholder: (spare > 0).then_some(spare), threshold: (threshold * 1e4).floor() / 1e4 }
    }
}

/// The node that is `named`, or the one that suffices and of which the least must be held.
pub(super) fn choose<'a>(nodes: &'a [Node], named: Option<&str>, ours: i64) -> Result<&'a Node> {
    if let Some(name) = named {
        let Some(node) = nodes.iter().find(|node| node.name == name) else {
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            bail!("there is no node {name} (--node); there are: {}", names.join(", "));
        };
        return match node.refusal(ours) {
            Some(refusal) => bail!("node {name} {refusal}"),
            None => Ok(node),
        };
    }
    let fit = nodes.iter().filter(|node| node.refusal(ours).is_none());
    fit.min_by_key(|node| (node.free.cpu, &node.name)).with_context(|| {
        let refusals: Vec<String> = nodes
            .iter()
            .filter_map(|node| Some(format!("\n  {} {}", node.name, node.refusal(ours)?)))
            .collect();
        if refusals.is_empty() {
            return "the cluster has no nodes".to_owned();
        }
        format!("no node can carry the demo:{}", refusals.concat())
    })
}

fn unfit(node: &Value) -> Option<String> {
    let (ours, theirs) =
        (Architecture::of_this_machine().name(), node["status"]["nodeInfo"]["architecture"].as_str());
    let is_ready = |one: &&Value| one["type"] == "Ready" && one["status"] == "True";
    if !node["status"]["conditions"].as_array().into_iter().flatten().any(|one| is_ready(&one)) {
        return Some("is not Ready".into());
    }
    if theirs != Some(ours) {
        return Some(format!(
            "is {}, and images built here are {ours}",
            theirs.unwrap_or("of an unknown kind")
        ));
    }
    if node["status"]["nodeInfo"]["operatingSystem"] != "linux" {
        return Some("does not run Linux".into());
    }
    if node["spec"]["unschedulable"] == true {
        return Some("is cordoned".into());
    }
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let taint = taints.find(|taint| taint["effect"] != "PreferNoSchedule")?;
    Some(format!("has the taint {}", taint["key"].as_str().unwrap_or_default()))
}

/// What a pod requests, as kube-scheduler counts it.
pub(super) fn requests(spec: &Value) -> Result<Amount> {
    let list = |name: &str| spec[name].as_array().cloned().unwrap_or_default();
    let (mut sum, mut start) = (amount(&spec["overhead"])?, Amount::default());
    for container in list("containers") {
        add(&mut sum, amount(&container["resources"]["requests"])?);
    }
    // Those that stay run beside the ones that come after them.
    let mut sidecars = Amount::default();
    for container in list("initContainers") {
        let one = amount(&container["resources"]["requests"])?;
        if container["restartPolicy"] == "Always" {
            add(&mut sidecars, one);
        } else {
            start.cpu = start.cpu.max(sidecars.cpu + one.cpu);
            start.memory = start.memory.max(sidecars.memory + one.memory);
        }
    }
    add(&mut sum, sidecars);
    let most = Amount { cpu: sum.cpu.max(start.cpu), memory: sum.memory.max(start.memory), pods: 0 };
    // What is requested for the pod as a whole counts instead.
    let whole = &spec["resources"]["requests"];
    let of_pod = amount(whole)?;
    Ok(Amount {
        cpu: if whole["cpu"].is_null() { most.cpu } else { of_pod.cpu },
        memory: if whole["memory"].is_null() { most.memory } else { of_pod.memory },
        pods: 0,
    })
}

fn add(sum: &mut Amount, more: Amount) {
    sum.cpu += more.cpu;
    sum.memory += more.memory;
}

fn amount(of: &Value) -> Result<Amount> {
    let memory = of["memory"].as_str().map_or(Ok(0), parse_units)?;
    Ok(Amount { cpu: milli(&of["cpu"])?, memory, pods: 0 })
}

fn milli(quantity: &Value) -> Result<i64> {
    // YAML of the chart writes some as numbers.
    let text = quantity.as_str().map(str::to_owned).or_else(|| Some(quantity.as_number()?.to_string()));
    Ok(text.map_or(Ok(0), |text| parse_milli(&text))?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, cpu: &str) -> Value {
        json!({
            "metadata": { "name": name },
            "spec": {},
            "status": {
                "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "110" },
                "conditions": [{ "type": "Ready", "status": "True" }],
                "nodeInfo": { "architecture": Architecture::of_this_machine().name(), "operatingSystem": "linux" },
            },
        })
    }

    fn read(nodes: &[Value], pods: &[Value]) -> Vec<Node> {
        Node::read(&json!({ "items": nodes }), &json!({ "items": pods })).unwrap()
    }

    fn pod(node: &str, cpu: &str, phase: &str) -> Value {
        let container = json!({ "resources": { "requests": { "cpu": cpu, "memory": "1Gi" } } });
        json!({ "spec": { "nodeName": node, "containers": [container] }, "status": { "phase": phase } })
    }

    #[test]
    fn two_cores_are_used_as_in_the_demo_on_this_machine() {
        let nodes = read(&[node("a", "2")], &[]);
        let node = choose(&nodes, None, 300).unwrap();
        assert_eq!(node.share(300), Share { placeholder: Some(50), threshold: 0.95 });
        assert_eq!(node.share(350), Share { placeholder: None, threshold: 0.95 });
    }

    #[test]
    fn a_large_node_is_filled_until_the_simulations_find_the_same() {
        let nodes =
            read(&[node("large", "64")], &[pod("large", "4", "Running"), pod("large", "9", "Succeeded")]);
        let share = choose(&nodes, None, 300).unwrap().share(300);
        assert_eq!(share.placeholder, Some(58_050));
        let below_threshold = (64_000.0 * share.threshold) as i64 - 4_000 - 58_050 - 300;
        assert!((1540..=1550).contains(&below_threshold), "{below_threshold}");
    }

    #[test]
    fn the_smallest_node_that_suffices_is_chosen() {
        let nodes = read(&[node("large", "64"), node("small", "1500m"), node("medium", "4")], &[]);
        assert_eq!(choose(&nodes, None, 300).unwrap().name, "medium");
        assert_eq!(choose(&nodes, Some("large"), 300).unwrap().name, "large");
        let error = choose(&nodes, Some("small"), 300).unwrap_err().to_string();
        assert_eq!(error, "node small has 1500m of cpu free, and the demo needs 1900m");
        let error = choose(&nodes, Some("other"), 300).unwrap_err().to_string();
        assert_eq!(error, "there is no node other (--node); there are: large, small, medium");
    }

    #[test]
    fn each_node_that_is_refused_is_named_with_the_reason() {
        let mut tainted = node("a", "8");
        tainted["spec"]["taints"] = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
        let mut cordoned = node("b", "8");
        cordoned["spec"]["unschedulable"] = json!(true);
        let mut foreign = node("c", "8");
        foreign["status"]["nodeInfo"]["architecture"] = json!("s390x");
        let mut gone = node("d", "8");
        gone["status"]["conditions"][0]["status"] = json!("Unknown");
        let full = [pod("e", "7", "Running")];
        let nodes = read(&[tainted, cordoned, foreign, gone, node("e", "8")], &full);
        let ours = Architecture::of_this_machine().name();
        let expected = format!(
            "no node can carry the demo:\n  a has the taint gpu\n  b is cordoned\n  c is s390x, and images built here are \
             {ours}\n  d is not Ready\n  e has 1 of cpu free, and the demo needs 1900m"
        );
        assert_eq!(choose(&nodes, None, 300).unwrap_err().to_string(), expected);
        assert_eq!(choose(&[], None, 300).unwrap_err().to_string(), "the cluster has no nodes");
    }

    #[test]
    fn a_pod_is_counted_as_the_scheduler_counts_it() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = json!("Always");
        let mut spec = json!({
            "containers": [container("1"), container("200m")],
            "initContainers": [sidecar, container("2")],
            "overhead": { "cpu": "50m" },
        });
        assert_eq!(requests(&spec).unwrap().cpu, 2100);
        spec["initContainers"].as_array_mut().unwrap().pop();
        assert_eq!(requests(&spec).unwrap().cpu, 1350);
        spec["resources"] = json!({ "requests": { "cpu": "3" } });
        assert_eq!(requests(&spec).unwrap().cpu, 3000);
    }
}
