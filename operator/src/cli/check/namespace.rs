//! What a namespace has that decides about pods: its Pod Security level, LimitRanges, quotas, pull secrets and claims.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{LimitRange, LimitRangeItem, PersistentVolumeClaim, ResourceQuota},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt;
use scavenger_schema::{names, quantity, scavenger_job::ScavengerJob};

use super::{
    Finding, Verdict,
    read::{Read, Seen},
};

/// The level that a namespace enforces on pods.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

pub(super) fn findings(seen: &Seen, example: &ScavengerJob) -> Vec<Finding> {
    let mut found = vec![namespace(seen)];
    found.extend(limit_ranges(&seen.limit_ranges, example));
    found.extend(quotas(&seen.quotas, example));
    found.extend(pull_secrets(seen, example));
    found.extend(claims(&seen.claims, example));
    found
}

fn namespace(seen: &Seen) -> Finding {
    const CHECK: &str = "namespace";
    let namespace = match &seen.namespace {
        Err(why) => return Finding::new(CHECK, Verdict::Unknown, why.clone()),
        Ok(None) => return Finding::problem(CHECK, "it does not exist"),
        Ok(Some(namespace)) => namespace,
    };
    if namespace.metadata.deletion_timestamp.is_some() {
        return Finding::problem(CHECK, "it is being deleted: nothing new is accepted there");
    }
    // Pods of ScavengerJobs meet the strictest level by construction, so none can refuse them.
    let level = namespace.labels().get(POD_SECURITY).map_or("no", String::as_str);
    Finding::ok(
        CHECK,
        format!("it enforces {level} Pod Security level; pods of ScavengerJobs meet restricted"),
    )
}

fn limit_ranges(ranges: &Read<Vec<LimitRange>>, example: &ScavengerJob) -> Vec<Finding> {
    const CHECK: &str = "LimitRange";
    let ranges = match ranges {
        Err(why) => return vec![Finding::new(CHECK, Verdict::Unknown, why.clone())],
        Ok(ranges) if ranges.is_empty() => return vec![Finding::ok(CHECK, "none")],
        Ok(ranges) => ranges,
    };
    ranges.iter().map(|range| limit_range(CHECK, range, example)).collect()
}

/// Whether a pod of the example is within a LimitRange. Its containers all request the same, and limits equal requests, so
/// ratios and defaults do not matter. Where pods are counted by use they request less: the dry run says what comes of that.
fn limit_range(check: &'static str, range: &LimitRange, example: &ScavengerJob) -> Finding {
    let name = range.name_any();
    let items = range.spec.iter().flat_map(|spec| &spec.limits);
    let mut between = Vec::new();
    for item in items.filter(|item| matches!(&*item.type_, "Container" | "Pod")) {
        for (resource, asked) in &example.spec.resources.requests {
            let limit = |of: &Option<BTreeMap<String, Quantity>>| of.as_ref()?.get(resource).cloned();
            let (least, most) = (limit(&item.min), limit(&item.max));
            if let Some(message) = outside(item, resource, &asked.0, least.as_ref(), most.as_ref()) {
                return Finding::problem(check, format!("{name}: {message}"));
            }
            match (least, most) {
                (Some(least), Some(most)) => between.push(format!("{resource} {} to {}", least.0, most.0)),
                (Some(least), None) => between.push(format!("{resource} at least {}", least.0)),
                (None, Some(most)) => between.push(format!("{resource} at most {}", most.0)),
                (None, None) => {}
            }
        }
    }
    match between.is_empty() {
        true => Finding::ok(check, format!("{name}: it limits nothing that ScavengerJobs request")),
        false => Finding::ok(check, format!("{name}: each pod may request {}", between.join(", "))),
    }
}

fn outside(
    item: &LimitRangeItem,
    resource: &str,
    asked: &str,
    least: Option<&Quantity>,
    most: Option<&Quantity>,
) -> Option<String> {
    let amount = |text: &str| quantity::parse_milli(text).ok();
    let (kind, asks) = (&item.type_, amount(asked)?);
    if let Some(least) = least.filter(|least| amount(&least.0).is_some_and(|least| asks < least)) {
        return Some(format!(
            "a {kind} must request at least {} of {resource}, and this requests {asked}",
            least.0
        ));
    }
    let most = most.filter(|most| amount(&most.0).is_some_and(|most| asks > most))?;
    Some(format!("a {kind} may request at most {} of {resource}, and this requests {asked}", most.0))
}

fn quotas(quotas: &Read<Vec<ResourceQuota>>, example: &ScavengerJob) -> Vec<Finding> {
    const CHECK: &str = "quota";
    let quotas = match quotas {
        Err(why) => return vec![Finding::new(CHECK, Verdict::Unknown, why.clone())],
        Ok(quotas) if quotas.is_empty() => return vec![Finding::ok(CHECK, "none")],
        Ok(quotas) => quotas,
    };
    quotas.iter().map(|quota| self::quota(CHECK, quota, example)).collect()
}

fn quota(check: &'static str, quota: &ResourceQuota, example: &ScavengerJob) -> Finding {
    let name = quota.name_any();
    let counts = of_scavenger_jobs(quota);
    if counts == Counts::Others {
        return Finding::ok(check, format!("{name}: it does not count ScavengerJobs"));
    }
    let hard = quota.status.iter().flat_map(|status| status.hard.iter().flatten());
    let used = |resource: &String| {
        let used = quota.status.as_ref().and_then(|status| status.used.as_ref()?.get(resource));
        used.map_or("0", |used| &*used.0)
    };
    let amount = |text: &str| quantity::parse_milli(text).ok();
    let concerns = hard.filter(|(resource, _)| concerns_pods_or_jobs(resource));
    let full: Vec<String> = concerns
        .clone()
        // A quota of no GPUs keeps nobody out who requests none.
        .filter(|(resource, _)| takes(example, resource))
        .filter(|(resource, hard)| {
            amount(&hard.0).zip(amount(used(resource))).is_some_and(|(hard, used)| used >= hard)
        })
        .map(|(resource, hard)| format!("{resource} ({} of {})", used(resource), hard.0))
        .collect();
    if !full.is_empty() {
        return Finding::problem(check, format!("{name}: nothing is left of {}", full.join(", ")));
    }
    let left: Vec<String> =
        concerns.map(|(resource, hard)| format!("{resource} {} of {}", used(resource), hard.0)).collect();
    if left.is_empty() {
        return Finding::ok(check, format!("{name}: it counts nothing that ScavengerJobs use"));
    }
    let left = left.join(", ");
    match counts {
        Counts::ScavengerJobs => Finding::ok(check, format!("{name}: ScavengerJobs alone, used {left}")),
        _ => Finding::warning(
            check,
            format!(
                "{name}: counts ScavengerJobs with ordinary pods (used {left}), so that ordinary pods may be refused; \
                 give each a quota of its own (docs/permissions.md#quotas)"
            ),
        ),
    }
}

/// Whose pods a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    ScavengerJobs,
    Others,
    Both,
}

fn of_scavenger_jobs(quota: &ResourceQuota) -> Counts {
    let Some(spec) = &quota.spec else { return Counts::Both };
    // Pods of ScavengerJobs are Guaranteed, and have no deadline of their own.
    let leaves_out = ["BestEffort", "Terminating", "CrossNamespacePodAffinity"];
    if spec.scopes.iter().flatten().any(|scope| leaves_out.contains(&&**scope)) {
        return Counts::Others;
    }
    let selector =
        spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    for expression in selector {
        if leaves_out.contains(&&*expression.scope_name) && expression.operator == "Exists" {
            return Counts::Others;
        }
        if expression.scope_name != "PriorityClass" {
            continue;
        }
        let values = expression.values.clone().unwrap_or_default();
        let ours = values.iter().any(|value| names::is_priority_class(value));
        let all_ours = values.iter().all(|value| names::is_priority_class(value));
        match &*expression.operator {
            "In" if ours && all_ours => return Counts::ScavengerJobs,
            "In" if !ours => return Counts::Others,
            "NotIn" if ours => return Counts::Others,
            "DoesNotExist" => return Counts::Others,
            _ => {}
        }
    }
    Counts::Both
}

/// True if a pod of the example takes something of what a quota counts: every pod is one, and has the resources that it
/// requests.
fn takes(example: &ScavengerJob, resource: &str) -> bool {
    let name = resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits."));
    let name = name.unwrap_or(resource);
    name == "pods" || name.starts_with("count/") || example.spec.resources.requests.contains_key(name)
}

fn concerns_pods_or_jobs(resource: &str) -> bool {
    let of_pods = |name: &str| matches!(name, "cpu" | "memory" | "pods" | "ephemeral-storage");
    let requested = resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits."));
    let others = ["count/pods", "count/jobs.batch", "count/scavengerjobs.scavenger.dev"];
    of_pods(resource) || requested.is_some_and(|name| name != "storage") || others.contains(&resource)
}

/// Whether the Secrets exist with which the images are pulled.
fn pull_secrets(seen: &Seen, example: &ScavengerJob) -> Vec<Finding> {
    const CHECK: &str = "pull secrets";
    let account = example.spec.service_account_name.as_deref().unwrap_or("default");
    let mut named: Vec<(String, String)> = Vec::new();
    let mut found = Vec::new();
    match &seen.service_accounts {
        Err(why) => found.push(Finding::new(CHECK, Verdict::Unknown, why.clone())),
        Ok(accounts) => match accounts.iter().find(|known| known.name_any() == account) {
            None => found.push(Finding::problem(
                "service account",
                format!("{account:?} does not exist; pods cannot be created"),
            )),
            Some(known) => {
                let secrets = known.image_pull_secrets.iter().flatten();
                named.extend(
                    secrets.map(|secret| (secret.name.clone(), format!("service account {account}"))),
                );
            }
        },
    }
    named.extend(
        example.spec.image_pull_secrets.iter().map(|name| (name.clone(), "the ScavengerJob".to_owned())),
    );
    if let Some(supervisor) = seen.supervisor_of(example) {
        let secrets = supervisor.image_pull_secrets.iter();
        named.extend(secrets.map(|name| (name.to_string(), "the pool's supervisor".to_owned())));
    }
    if named.is_empty() {
        if found.is_empty() {
            found.push(Finding::ok(CHECK, "none is named; the nodes must be able to pull without one"));
        }
        return found;
    }
    match &seen.secrets {
        Err(why) => found.push(Finding::new(CHECK, Verdict::Unknown, why.clone())),
        Ok(secrets) => {
            let missing: Vec<String> = named
                .iter()
                .filter(|(name, _)| !secrets.contains(name))
                .map(|(name, by)| format!("{name} (named by {by})"))
                .collect();
            found.push(match missing.is_empty() {
                true => Finding::ok(CHECK, "all that are named exist"),
                false => Finding::problem(CHECK, format!("not in this namespace: {}", missing.join(", "))),
            });
        }
    }
    found
}

fn claims(claims: &Read<Vec<PersistentVolumeClaim>>, example: &ScavengerJob) -> Vec<Finding> {
    const CHECK: &str = "claims";
    let claims = match claims {
        Err(why) => return vec![Finding::new(CHECK, Verdict::Unknown, why.clone())],
        Ok(claims) => claims,
    };
    let mut found = Vec::new();
    let names = |is: &dyn Fn(&PersistentVolumeClaim) -> bool| {
        let names: Vec<String> = claims.iter().filter(|claim| is(claim)).map(ResourceExt::name_any).collect();
        names.join(", ")
    };
    let phase = |claim: &PersistentVolumeClaim| claim.status.as_ref().and_then(|status| status.phase.clone());
    let modes = |claim: &PersistentVolumeClaim, mode: &str| {
        let modes = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
        let modes: Vec<&String> = modes.collect();
        modes.iter().any(|one| *one == mode) && !modes.iter().any(|one| *one == "ReadWriteMany")
    };
    let missing: Vec<&str> = example
        .spec
        .persistent_volume_claims
        .iter()
        .map(|mount| &*mount.claim_name)
        .filter(|name| !claims.iter().any(|claim| claim.name_any() == *name))
        .collect();
    if !missing.is_empty() {
        found.push(Finding::problem(CHECK, format!("not in this namespace: {}", missing.join(", "))));
    }
    let lost = names(&|claim| phase(claim).as_deref() == Some("Lost"));
    if !lost.is_empty() {
        found.push(Finding::problem(CHECK, format!("their volumes are lost: {lost}")));
    }
    let one_node = names(&|claim| modes(claim, "ReadWriteOnce"));
    if !one_node.is_empty() {
        found.push(Finding::warning(
            CHECK,
            format!(
                "ReadWriteOnce: {one_node}; ScavengerJobs that share such a claim run on one node at a time, and the others \
                 wait (reason VolumeInUse); use ReadWriteMany to spread them"
            ),
        ));
    }
    let one_pod = names(&|claim| modes(claim, "ReadWriteOncePod"));
    if !one_pod.is_empty() {
        found.push(Finding::warning(
            CHECK,
            format!("ReadWriteOncePod: {one_pod}; one pod at a time mounts such a claim, so no gang can"),
        ));
    }
    if found.is_empty() {
        found.push(match claims.len() {
            0 => Finding::ok(CHECK, "none; a ScavengerJob needs one to keep its checkpoint"),
            1 => Finding::ok(CHECK, "1 claim, which pods on several nodes may mount"),
            count => Finding::ok(CHECK, format!("{count} claims, which pods on several nodes may mount")),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::trial::small, *};

    fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn only(found: &[Finding]) -> (Verdict, String) {
        let [finding] = found else { panic!("{found:?}") };
        (finding.verdict, finding.message.clone())
    }

    #[test]
    fn the_namespace_says_its_pod_security_level_and_whether_it_takes_anything() {
        let said = |seen: Read<Option<Value>>| {
            let found = namespace(&Seen { namespace: seen.map(|it| it.map(from)), ..Seen::nothing() });
            only(&[found])
        };
        let labelled = |labels: Value| Ok(Some(json!({ "metadata": { "name": "lab", "labels": labels } })));
        let (verdict, message) = said(labelled(json!({ POD_SECURITY: "baseline" })));
        assert_eq!(verdict, Verdict::Ok);
        assert_eq!(message, "it enforces baseline Pod Security level; pods of ScavengerJobs meet restricted");
        let (verdict, message) = said(labelled(json!({ "pod-security.kubernetes.io/warn": "restricted" })));
        assert!(
            verdict == Verdict::Ok && message.starts_with("it enforces no Pod Security level"),
            "{message}"
        );

        assert_eq!(said(Ok(None)), (Verdict::Problem, "it does not exist".to_owned()));
        let leaving = json!({ "metadata": { "name": "lab", "deletionTimestamp": "2026-11-25T00:00:00Z" } });
        let (verdict, message) = said(Ok(Some(leaving)));
        assert!(verdict == Verdict::Problem && message.contains("being deleted"), "{message}");
        let why = "this user may not read namespaces".to_owned();
        assert_eq!(said(Err(why.clone())), (Verdict::Unknown, why));
    }

    #[test]
    fn the_pull_secrets_of_account_job_and_pool_are_looked_for() {
        let account = |name: &str, secrets: Value| {
            from(json!({ "metadata": { "name": name }, "imagePullSecrets": secrets }))
        };
        let pool = json!({
            "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerPool", "metadata": { "name": "default" },
            "spec": { "supervisor": { "image": "supervisor:1", "imagePullSecrets": ["of-pool"], "default": "On" } },
        });
        let mut example = small();
        let mut seen = Seen { service_accounts: Ok(vec![account("default", json!([]))]), ..Seen::nothing() };
        let (verdict, message) = only(&pull_secrets(&seen, &example));
        assert!(verdict == Verdict::Ok && message.starts_with("none is named"), "{message}");

        seen.service_accounts = Ok(vec![account("default", json!([{ "name": "of-account" }]))]);
        seen.pool = Ok(Some(from(pool)));
        example.spec.image_pull_secrets = vec!["of-job".to_owned()];
        seen.secrets = Ok(vec!["of-account".to_owned()]);
        let missing = "not in this namespace: of-job (named by the ScavengerJob), of-pool (named by the pool's supervisor)";
        assert_eq!(only(&pull_secrets(&seen, &example)), (Verdict::Problem, missing.to_owned()));
        seen.secrets = Ok(["of-account", "of-job", "of-pool"].map(str::to_owned).into());
        assert_eq!(
            only(&pull_secrets(&seen, &example)),
            (Verdict::Ok, "all that are named exist".to_owned())
        );
        seen.secrets = Err("this user may not read secrets".to_owned());
        assert_eq!(only(&pull_secrets(&seen, &example)).0, Verdict::Unknown);

        // The pods of a ScavengerJob whose account does not exist are never created.
        let mut other = small();
        other.spec.service_account_name = Some("simulations".to_owned());
        other.spec.supervisor = Some(from(json!({ "enabled": false })));
        let (verdict, message) = only(&pull_secrets(&seen, &other));
        assert_eq!(verdict, Verdict::Problem);
        assert_eq!(message, "\"simulations\" does not exist; pods cannot be created");
    }

    #[test]
    fn a_limit_range_is_compared_with_what_a_pod_requests() {
        let said = |limits: Value| {
            let range = from(json!({ "metadata": { "name": "small" }, "spec": { "limits": [limits] } }));
            only(&limit_ranges(&Ok(vec![range]), &small()))
        };
        let (verdict, message) = said(json!({ "type": "Container", "min": { "cpu": "250m" } }));
        assert_eq!(verdict, Verdict::Problem);
        assert_eq!(message, "small: a Container must request at least 250m of cpu, and this requests 100m");
        let (verdict, message) = said(json!({ "type": "Pod", "max": { "memory": "32Mi" } }));
        assert_eq!(verdict, Verdict::Problem);
        assert!(message.contains("at most 32Mi of memory"), "{message}");
        let (verdict, message) =
            said(json!({ "type": "Container", "min": { "cpu": "10m" }, "max": { "cpu": "2" } }));
        assert_eq!((verdict, &*message), (Verdict::Ok, "small: each pod may request cpu 10m to 2"));
        assert_eq!(
            said(json!({ "type": "PersistentVolumeClaim", "min": { "storage": "9Gi" } })).0,
            Verdict::Ok
        );
        assert_eq!(only(&limit_ranges(&Ok(vec![]), &small())), (Verdict::Ok, "none".to_owned()));
    }

    #[test]
    fn a_quota_that_is_used_up_or_shared_is_named() {
        let quota = |used: &str, scope: Option<Value>| {
            let mut spec = json!({ "hard": { "pods": "10", "requests.storage": "1Gi" } });
            if let Some(scope) = scope {
                spec["scopeSelector"] = json!({ "matchExpressions": [scope] });
            }
            let status = json!({ "hard": { "pods": "10", "requests.storage": "1Gi" },
                                 "used": { "pods": used, "requests.storage": "1Gi" } });
            let quota = from(json!({ "metadata": { "name": "team" }, "spec": spec, "status": status }));
            only(&quotas(&Ok(vec![quota]), &small()))
        };
        let class = |operator: &str, values: &[&str]| {
            Some(json!({ "scopeName": "PriorityClass", "operator": operator, "values": values }))
        };
        assert_eq!(
            quota("10", None),
            (Verdict::Problem, "team: nothing is left of pods (10 of 10)".to_owned())
        );
        assert_eq!(quota("9", None).0, Verdict::Warning);
        let alone = (Verdict::Ok, "team: ScavengerJobs alone, used pods 9 of 10".to_owned());
        assert_eq!(quota("9", class("In", &["scavenger-0", "scavenger-1"])), alone);
        assert_eq!(quota("10", class("In", &["scavenger-0"])).0, Verdict::Problem);
        for scope in [class("NotIn", &["scavenger-0"]), class("In", &["gold"])] {
            assert_eq!(quota("10", scope), (Verdict::Ok, "team: it does not count ScavengerJobs".to_owned()));
        }
    }

    #[test]
    fn a_quota_of_none_keeps_out_who_requests_some() {
        let status =
            json!({ "hard": { "requests.nvidia.com/gpu": "0", "pods": "10" }, "used": { "pods": "1" } });
        let quota: ResourceQuota =
            from(json!({ "metadata": { "name": "team" }, "spec": {}, "status": status }));
        let said = |example: &ScavengerJob| only(&quotas(&Ok(vec![quota.clone()]), example));
        assert_eq!(said(&small()).0, Verdict::Warning, "it counts ordinary pods, too");
        let mut example = small();
        example.spec.resources.requests.insert("nvidia.com/gpu".to_owned(), from(json!("1")));
        let nothing = "team: nothing is left of requests.nvidia.com/gpu (0 of 0)";
        assert_eq!(said(&example), (Verdict::Problem, nothing.to_owned()));
    }

    #[test]
    fn the_quotas_of_the_examples_are_what_they_are_for() {
        let read = |text: &str| -> Vec<ResourceQuota> { serde_saphyr::from_multiple(text).unwrap() };
        let ordinary = read(include_str!("../../../../deploy/examples/quota-ordinary.yaml"));
        assert_eq!(of_scavenger_jobs(&ordinary[0]), Counts::Others);
        let ours = read(include_str!("../../../../deploy/examples/quota-scavengerjobs.yaml"));
        assert_eq!(of_scavenger_jobs(&ours[0]), Counts::ScavengerJobs);
    }

    #[test]
    fn claims_for_one_node_and_claims_that_are_not_there_are_named() {
        let claim = |name: &str, mode: &str, phase: &str| {
            from(
                json!({ "metadata": { "name": name }, "spec": { "accessModes": [mode] }, "status": { "phase": phase } }),
            )
        };
        let mut example = small();
        example.spec.persistent_volume_claims = from(
            json!([{ "claimName": "data", "mountPath": "/data" }, { "claimName": "gone", "mountPath": "/gone" }]),
        );
        let list = vec![
            claim("data", "ReadWriteOnce", "Bound"),
            claim("shared", "ReadWriteMany", "Bound"),
            claim("old", "ReadWriteMany", "Lost"),
            claim("single", "ReadWriteOncePod", "Bound"),
        ];
        let found = claims(&Ok(list), &example);
        let said: Vec<(Verdict, &str)> = found
            .iter()
            .map(|one| (one.verdict, one.message.split(';').next().unwrap_or_default()))
            .collect();
        assert_eq!(
            said,
            [
                (Verdict::Problem, "not in this namespace: gone"),
                (Verdict::Problem, "their volumes are lost: old"),
                (Verdict::Warning, "ReadWriteOnce: data"),
                (Verdict::Warning, "ReadWriteOncePod: single"),
            ]
        );
        let shared = claim("shared", "ReadWriteMany", "Bound");
        assert_eq!(only(&claims(&Ok(vec![shared]), &small())).0, Verdict::Ok);
    }
}
