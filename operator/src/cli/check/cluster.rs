//! The installation: is everything there, is it of this version, and is an operator at work?

use std::collections::BTreeSet;

use k8s_openapi::{
    api::scheduling::v1::PriorityClass,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps},
};
use kube::{CustomResourceExt, ResourceExt};
use scavenger_schema::{names, scavenger_job::ScavengerJob, scavenger_pool::ScavengerPool};
use scavenger_vocabulary::pool_condition::{READY, SUPERVISOR_STARTS};

use super::{
    Finding, Verdict,
    read::{Read, Seen},
};

/// The oldest minor version of Kubernetes 1 whose API has what the operator and its policies need.
const OLDEST_MINOR: u32 = 31;

/// A working operator writes the pool's status once a minute at least.
const FRESH_SECONDS: i64 = 150;

/// `--expendable-pods-priority-cutoff` of the cluster autoscaler unless it is set: pods below buy no node and keep none.
const AUTOSCALER_CUTOFF: i32 = -10;

/// The policies without which ScavengerJobs could pass for ordinary work, or the other way round.
const POLICIES: [&str; 11] = [
    "scavenger-child-jobs",
    "scavenger-operator-configmaps",
    "scavenger-operator-jobs",
    "scavenger-operator-pods",
    "scavenger-operator-secrets",
    "scavenger-operator-services",
    "scavenger-pod-changes",
    "scavenger-pods",
    "scavengerjob-changes",
    "scavengerjob-finalizers",
    "scavengerjob-limits",
];

pub(super) fn findings(seen: &Seen, operator_namespace: &str) -> Vec<Finding> {
    let mut found = vec![version(&seen.version)];
    found.extend(seen.definitions.iter().map(|(name, definition)| api(name, definition)));
    found.extend(pool(seen, operator_namespace));
    found.push(policies(seen));
    found.extend(priority_classes(&seen.priority_classes));
    if seen.karpenter {
        found.push(Finding::warning(
            "autoscaler",
            "Karpenter is installed: it buys a node for a pending pod of a ScavengerJob unless the pool's nodeSelector \
             names a label that no NodePool sets (docs/autoscalers.md)",
        ));
    }
    found
}

fn version((major, minor): &(String, String)) -> Finding {
    const CHECK: &str = "Kubernetes";
    // Some distributions write "33+".
    let number = minor.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse::<u32>();
    match number {
        Ok(number) if major == "1" && number < OLDEST_MINOR => Finding::problem(
            CHECK,
            format!("version {major}.{minor} is too old; the operator needs 1.{OLDEST_MINOR} or newer"),
        ),
        _ => Finding::ok(CHECK, format!("version {major}.{minor}")),
    }
}

/// Whether a definition is there, and has the fields that this program knows.
fn api(name: &str, definition: &Read<Option<CustomResourceDefinition>>) -> Finding {
    const CHECK: &str = "API";
    let own = if name.starts_with("scavengerjobs") { ScavengerJob::crd() } else { ScavengerPool::crd() };
    let stored = match definition {
        Err(why) => return Finding::new(CHECK, Verdict::Unknown, format!("{name}: {why}")),
        Ok(None) => {
            return Finding::problem(
                CHECK,
                format!("{name} is not installed; apply the CRDs of the release"),
            );
        }
        Ok(Some(stored)) => stored,
    };
    let conditions = stored.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut established = conditions.filter(|condition| condition.type_ == "Established");
    if !established.any(|condition| condition.status == "True") {
        return Finding::problem(
            CHECK,
            format!("{name} is not established yet; see `kubectl describe crd {name}`"),
        );
    }
    let (known, there) = (fields(&own), fields(stored));
    let list = |of: &BTreeSet<String>, without: &BTreeSet<String>| {
        let more: Vec<&str> = of.difference(without).map(String::as_str).take(4).collect();
        more.join(", ")
    };
    if !known.is_subset(&there) {
        let lacks = list(&known, &there);
        return Finding::problem(
            CHECK,
            format!(
                "{name} is older than this program ({lacks} missing); apply the CRDs of the release first"
            ),
        );
    }
    if known != there {
        let more = list(&there, &known);
        return Finding::warning(CHECK, format!("{name} is newer than this program (it has {more}, too)"));
    }
    Finding::ok(CHECK, format!("{name} is installed, with the fields of this version"))
}

/// Paths of all fields of the version that we serve.
fn fields(definition: &CustomResourceDefinition) -> BTreeSet<String> {
    fn collect(schema: &JSONSchemaProps, path: &str, into: &mut BTreeSet<String>) {
        for (name, field) in schema.properties.iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            collect(field, &path, into);
            into.insert(path);
        }
        if let Some(items) = &schema.items {
            let items = serde_json::to_value(items).and_then(serde_json::from_value::<JSONSchemaProps>);
            if let Ok(items) = items {
                collect(&items, path, into);
            }
        }
    }
    let mut found = BTreeSet::new();
    let versions =
        definition.spec.versions.iter().filter(|version| version.name == "v1alpha1" && version.served);
    for schema in versions.filter_map(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref()) {
        collect(schema, "", &mut found);
    }
    // What every object has, and the API server may describe or not.
    found.retain(|path| !path.starts_with("metadata") && path != "apiVersion" && path != "kind");
    found
}

/// Whether ScavengerJobs are admitted, and whether an operator is at work.
fn pool(seen: &Seen, operator_namespace: &str) -> Vec<Finding> {
    const POOL: &str = "pool";
    const OPERATOR: &str = "operator";
    let pool = match &seen.pool {
        Err(why) => return vec![Finding::new(POOL, Verdict::Unknown, why.clone())],
        Ok(None) => {
            return vec![Finding::problem(
                POOL,
                format!("the ScavengerPool {:?} does not exist; apply deploy/operator", names::DEFAULT_POOL),
            )];
        }
        Ok(Some(pool)) => pool,
    };
    let Some((status, written)) =
        pool.status.as_ref().and_then(|status| Some((status, status.update_time.as_ref()?)))
    else {
        return vec![Finding::problem(
            OPERATOR,
            "no operator has written the status of the pool; is it running?",
        )];
    };
    let age = seen.now.duration_since(written.0);
    let mut found = vec![match age.as_secs() {
        old if old > FRESH_SECONDS => Finding::problem(
            OPERATOR,
            format!(
                "none is at work: the status of the pool is {} old; see `kubectl -n {operator_namespace} get pods`",
                super::super::text::age(age)
            ),
        ),
        _ => Finding::ok(OPERATOR, "at work: it has written the status of the pool within a minute or so"),
    }];
    let is = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind);
    found.push(match is(READY) {
        Some(ready) if ready.status != "True" => {
            Finding::warning(POOL, format!("no ScavengerJob starts now: {}", ready.message))
        }
        _ if status.nodes == 0 => Finding::problem(
            POOL,
            "it has no node that can take pods; `scavenger-operator nodes` says why (nodeSelector, toleratedTaints)",
        ),
        _ if status.nodes == 1 => Finding::ok(POOL, "1 node takes ScavengerJobs"),
        _ => Finding::ok(POOL, format!("{} nodes take ScavengerJobs", status.nodes)),
    });
    if let Some(starts) = is(SUPERVISOR_STARTS).filter(|condition| condition.status != "True") {
        found.push(Finding::warning(
            "supervisor",
            format!("ScavengerJobs run without it where it does not start: {}", starts.message),
        ));
    }
    found
}

fn policies(seen: &Seen) -> Finding {
    const CHECK: &str = "policies";
    let (policies, bindings) = match (&seen.policies, &seen.bindings) {
        (Ok(policies), Ok(bindings)) => (policies, bindings),
        (Err(why), _) | (_, Err(why)) => return Finding::new(CHECK, Verdict::Unknown, why.clone()),
    };
    let is_there = |name: &str| policies.iter().any(|policy| policy.name_any() == name);
    let is_bound = |name: &str| {
        let mut specs = bindings.iter().map(|binding| &binding.spec).filter(|spec| spec.policy_name == name);
        specs.any(|spec| spec.validation_actions.iter().any(|action| action == "Deny"))
    };
    let missing: Vec<&str> = POLICIES.into_iter().filter(|name| !is_there(name)).collect();
    if !missing.is_empty() {
        return Finding::problem(CHECK, format!("missing: {}; apply deploy/operator", missing.join(", ")));
    }
    let idle: Vec<&str> = POLICIES.into_iter().filter(|name| !is_bound(name)).collect();
    if !idle.is_empty() {
        let idle = idle.join(", ");
        return Finding::problem(
            CHECK,
            format!("no binding with action Deny for {idle}; apply deploy/operator"),
        );
    }
    Finding::ok(CHECK, format!("all {} are in place", POLICIES.len()))
}

fn priority_classes(classes: &Read<Vec<PriorityClass>>) -> Vec<Finding> {
    const CHECK: &str = "PriorityClasses";
    let classes = match classes {
        Ok(classes) => classes,
        Err(why) => return vec![Finding::new(CHECK, Verdict::Unknown, why.clone())],
    };
    let mut wrong = Vec::new();
    let (mut before, mut highest): (Option<i32>, Option<i32>) = (None, None);
    for name in (0..names::PRIORITY_CLASSES).map(names::priority_class) {
        let Some(class) = classes.iter().find(|class| class.name_any() == name) else {
            wrong.push(format!("{name} is missing"));
            continue;
        };
        let value = class.value.unwrap_or_default();
        if before.is_some_and(|before| value <= before) {
            wrong.push(format!("{name} does not rank above the one before it"));
        }
        if class.preemption_policy.as_deref() != Some("Never") {
            wrong.push(format!("{name} preempts"));
        }
        before = Some(value);
        highest = highest.max(before);
    }
    let mut found = vec![match wrong.is_empty() {
        true => Finding::ok(CHECK, format!("all {} are in place", names::PRIORITY_CLASSES)),
        false => Finding::problem(CHECK, format!("{}; apply deploy/operator", wrong.join(", "))),
    }];
    let lower = classes.iter().filter(|class| {
        highest.is_some_and(|highest| class.value.unwrap_or_default() <= highest)
            && !names::is_priority_class(&class.name_any())
    });
    let lower: Vec<String> = lower.map(ResourceExt::name_any).collect();
    if !lower.is_empty() {
        found.push(Finding::warning(
            CHECK,
            format!(
                "pods of class {} do not rank above all ScavengerJobs; give it a higher value",
                lower.join(", ")
            ),
        ));
    }
    if highest.is_some_and(|highest| highest >= AUTOSCALER_CUTOFF) {
        found.push(Finding::warning(
            CHECK,
            format!(
                "the cluster autoscaler adds nodes for pods of priority {AUTOSCALER_CUTOFF} and more, and some classes of \
                 ScavengerJobs reach that; set priorityClasses.lowest of the chart lower (docs/autoscalers.md)"
            ),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_policies_are_those_that_are_installed() {
        let files = [
            include_str!("../../../../deploy/operator/policies.yaml"),
            include_str!("../../../../deploy/operator/policies-limits.yaml"),
            include_str!("../../../../deploy/operator/policies-operator.yaml"),
        ];
        let documents =
            files.iter().flat_map(|file| serde_saphyr::from_multiple::<serde_json::Value>(file).unwrap());
        let policies = documents.filter(|document| document["kind"] == "ValidatingAdmissionPolicy");
        let mut names: Vec<String> =
            policies.map(|policy| policy["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        assert_eq!(names, POLICIES);
    }

    #[test]
    fn the_priority_classes_are_those_that_are_installed() {
        let file = include_str!("../../../../deploy/operator/priority-classes.yaml");
        let mut classes: Vec<PriorityClass> = serde_saphyr::from_multiple(file).unwrap();
        let said = |classes: &[PriorityClass]| -> Vec<(Verdict, String)> {
            let found = priority_classes(&Ok(classes.to_vec()));
            found.into_iter().map(|finding| (finding.verdict, finding.message)).collect()
        };
        assert_eq!(said(&classes), [(Verdict::Ok, "all 10 are in place".to_owned())]);
        classes[3].value = Some(7);
        classes.remove(0);
        classes.push(
            serde_json::from_value(json!({ "metadata": { "name": "spot" }, "value": -2_000_000 })).unwrap(),
        );
        let said = said(&classes);
        let [(Verdict::Problem, wrong), (Verdict::Warning, low), (Verdict::Warning, cutoff)] = &said[..]
        else {
            panic!("{said:?}")
        };
        assert_eq!(
            wrong,
            "scavenger-0 is missing, scavenger-4 does not rank above the one before it; apply deploy/operator"
        );
        assert!(low.contains("class spot "), "{low}");
        assert!(cutoff.contains("cluster autoscaler"), "{cutoff}");
    }

    #[test]
    fn an_autoscaler_that_knows_no_priorities_is_named() {
        let said = |karpenter: bool| {
            let found = findings(&Seen { karpenter, ..Seen::nothing() }, "scavenger-system");
            found.into_iter().find(|finding| finding.check == "autoscaler")
        };
        assert_eq!(said(false), None);
        let warning = said(true).unwrap();
        assert_eq!(warning.verdict, Verdict::Warning);
        assert!(warning.message.starts_with("Karpenter is installed: it buys a node"), "{warning:?}");
    }

    #[test]
    fn old_versions_are_named_and_odd_ones_pass() {
        let of = |major: &str, minor: &str| version(&(major.to_owned(), minor.to_owned())).verdict;
        assert_eq!(of("1", "30"), Verdict::Problem);
        assert_eq!(of("1", "31"), Verdict::Ok);
        assert_eq!(of("1", "33+"), Verdict::Ok);
        assert_eq!(of("2", "0"), Verdict::Ok);
    }

    #[test]
    fn definitions_of_another_version_are_told_by_their_fields() {
        let mut crd = ScavengerJob::crd();
        let name = crd.name_any();
        let said = |crd: &CustomResourceDefinition| api(&name, &Ok(Some(crd.clone())));
        assert!(said(&crd).message.contains("not established"));
        crd.status = Some(
            serde_json::from_value(json!({ "conditions": [
                { "type": "Established", "status": "True", "reason": "", "message": "" }] }))
            .unwrap(),
        );
        assert_eq!(said(&crd).verdict, Verdict::Ok, "{:?}", said(&crd));
        let spec = |crd: &mut CustomResourceDefinition, change: &dyn Fn(&mut JSONSchemaProps)| {
            let schema = crd.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
            change(schema.properties.as_mut().unwrap().get_mut("spec").unwrap());
        };
        let mut old = crd.clone();
        spec(&mut old, &|spec| {
            spec.properties.as_mut().unwrap().remove("podMetadata");
        });
        let old = said(&old);
        assert_eq!(old.verdict, Verdict::Problem);
        assert!(old.message.contains("(spec.podMetadata, spec.podMetadata.annotations"), "{}", old.message);
        spec(&mut crd, &|spec| {
            spec.properties.as_mut().unwrap().insert("later".to_owned(), JSONSchemaProps::default());
        });
        let newer = said(&crd);
        assert_eq!(newer.verdict, Verdict::Warning);
        assert!(newer.message.contains("(it has spec.later, too)"), "{}", newer.message);
    }
}
