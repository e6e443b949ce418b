//! The quotas of a namespace, as far as they count the pods of ScavengerJobs. Read only when the operator says that
//! one of them is used up: its sentence names what is missing for prose, not for programs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceQuota, ScopeSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use scavenger_schema::quantity::{parse_milli, parse_units};
use scavenger_schema::tuning::Resources;

use crate::gpus;

/// How the names of all PriorityClasses of ScavengerJobs begin.
const CLASS_PREFIX: &str = "scavenger-";

/// What the quotas of a namespace leave for the next pod of a ScavengerJob.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaRoom {
    cpu_millicores: Option<i64>,
    memory_bytes: Option<i64>,
    /// By the name of the resource.
    gpus: BTreeMap<String, i64>,
    pods: Option<i64>,
}

impl QuotaRoom {
    /// The least that any of the quotas leaves.
    #[must_use]
    pub fn of(quotas: &[ResourceQuota]) -> Self {
        let mut room = Self::default();
        for quota in quotas.iter().filter(|quota| counts_scavenger_jobs(quota)) {
            let status = quota.status.clone().unwrap_or_default();
            let (hard, used) = (status.hard.unwrap_or_default(), status.used.unwrap_or_default());
            let left =
                |names: &[&str], parse: fn(&str) -> Option<i64>| least_left(&hard, &used, names, parse);
            let milli = |text: &str| parse_milli(text).ok();
            let units = |text: &str| parse_units(text).ok();
            lower(&mut room.cpu_millicores, left(&["cpu", "requests.cpu", "limits.cpu"], milli));
            lower(&mut room.memory_bytes, left(&["memory", "requests.memory", "limits.memory"], units));
            let named = hard.keys().filter_map(|name| name.strip_prefix("requests."));
            for resource in named.filter(|resource| gpus::is_gpu(resource)) {
                let mut most = room.gpus.get(resource).copied();
                lower(&mut most, left(&[&format!("requests.{resource}")], units));
                room.gpus.extend(most.map(|most| (resource.to_owned(), most)));
            }
            lower(&mut room.pods, left(&["pods", "count/pods", "count/jobs.batch"], units));
        }
        room
    }

    /// True if a pod that asks for this much may be made, its GPUs by the name of their resource.
    #[must_use]
    pub fn holds(&self, wanted: &Resources, gpu_resource: &str) -> bool {
        let within = |wanted: u64, left: Option<i64>| {
            left.is_none_or(|left| i64::try_from(wanted).is_ok_and(|wanted| wanted <= left))
        };
        within(wanted.cpu_millicores.into(), self.cpu_millicores)
            && within(wanted.memory_bytes, self.memory_bytes)
            && within(wanted.gpus.into(), self.gpus.get(gpu_resource).copied())
            && within(1, self.pods)
    }
}

fn lower(room: &mut Option<i64>, left: Option<i64>) {
    *room = room.iter().chain(left.iter()).min().copied();
}

fn least_left(
    hard: &BTreeMap<String, Quantity>,
    used: &BTreeMap<String, Quantity>,
    names: &[&str],
    parse: fn(&str) -> Option<i64>,
) -> Option<i64> {
    names
        .iter()
        .filter_map(|name| {
            let most = parse(&hard.get(*name)?.0)?;
            Some(most - used.get(*name).and_then(|used| parse(&used.0)).unwrap_or(0))
        })
        .min()
}

/// True if the quota counts the pods of ScavengerJobs. They are Guaranteed, have no deadline of their own, and their
/// class is one of ours.
fn counts_scavenger_jobs(quota: &ResourceQuota) -> bool {
    let Some(spec) = &quota.spec else { return false };
    let scopes = spec.scopes.as_deref().unwrap_or_default();
    let by_scope = scopes.iter().all(|scope| !matches!(scope.as_str(), "BestEffort" | "Terminating"));
    by_scope && spec.scope_selector.as_ref().is_none_or(selects)
}

fn selects(selector: &ScopeSelector) -> bool {
    selector.match_expressions.iter().flatten().all(|expression| {
        let names_ours = || expression.values.iter().flatten().any(|class| class.starts_with(CLASS_PREFIX));
        match (expression.scope_name.as_str(), expression.operator.as_str()) {
            ("PriorityClass", "In") => names_ours(),
            ("PriorityClass", "NotIn") => !names_ours(),
            ("PriorityClass", "DoesNotExist") | ("BestEffort" | "Terminating", "Exists") => false,
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quota(spec: &serde_json::Value, hard: &serde_json::Value, used: &serde_json::Value) -> ResourceQuota {
        serde_json::from_value(json!({ "spec": spec, "status": { "hard": hard, "used": used } }))
            .expect("should be a quota")
    }

    fn asks(cpu_millicores: u32, memory_mib: u64) -> Resources {
        Resources { cpu_millicores, memory_bytes: memory_mib << 20, gpus: 0 }
    }

    #[test]
    fn the_least_that_any_quota_leaves_counts() {
        let room = QuotaRoom::of(&[
            quota(
                &json!({}),
                &json!({ "requests.cpu": "4", "pods": "10" }),
                &json!({ "requests.cpu": "2500m", "pods": "3" }),
            ),
            quota(&json!({}), &json!({ "limits.cpu": "2", "memory": "1Gi" }), &json!({ "limits.cpu": "1" })),
        ]);
        assert!(room.holds(&asks(1000, 1024), gpus::USUAL));
        assert!(!room.holds(&asks(1001, 1), gpus::USUAL));
        assert!(!room.holds(&asks(1, 1025), gpus::USUAL));
        let full = QuotaRoom::of(&[quota(
            &json!({}),
            &json!({ "count/jobs.batch": "3" }),
            &json!({ "count/jobs.batch": "3" }),
        )]);
        assert!(!full.holds(&asks(1, 1), gpus::USUAL));
        assert!(QuotaRoom::of(&[]).holds(&asks(1_000_000, 1_000_000), gpus::USUAL));
    }

    #[test]
    fn gpus_count_by_the_name_of_their_resource() {
        let hard = json!({ "requests.nvidia.com/gpu": "1", "requests.amd.com/gpu": "0", "requests.nvidia.com/mig-1g.5gb": "2" });
        let used = json!({ "requests.nvidia.com/gpu": "1" });
        let room = QuotaRoom::of(&[quota(&json!({}), &hard, &used)]);
        let one = Resources { gpus: 1, ..asks(1, 1) };
        let holds = |resource: &str| room.holds(&one, resource);
        assert!(!holds("nvidia.com/gpu") && !holds("amd.com/gpu"));
        assert!(holds("nvidia.com/mig-1g.5gb") && holds("nvidia.com/mig-2g.10gb"));
    }

    #[test]
    fn quotas_of_ordinary_work_do_not_count() {
        let class = |operator: &str, values: &[&str]| {
            json!({ "scopeSelector": { "matchExpressions": [
                { "scopeName": "PriorityClass", "operator": operator, "values": values },
            ] } })
        };
        let none = json!({ "cpu": "0" });
        for (spec, counts) in [
            (class("In", &["scavenger-0", "scavenger-1"]), true),
            (class("In", &["high"]), false),
            (class("NotIn", &["scavenger-0"]), false),
            (class("NotIn", &["high"]), true),
            (class("Exists", &[]), true),
            (class("DoesNotExist", &[]), false),
            (json!({ "scopes": ["BestEffort"] }), false),
            (json!({ "scopes": ["NotBestEffort", "NotTerminating"] }), true),
            (json!({ "scopes": ["Terminating"] }), false),
        ] {
            let room = QuotaRoom::of(&[quota(&spec, &none, &json!({}))]);
            assert_eq!(!room.holds(&asks(1, 1), gpus::USUAL), counts, "{spec}");
        }
    }
}
