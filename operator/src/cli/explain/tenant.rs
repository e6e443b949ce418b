//! What `explain` says to those who may not see the whole cluster: what the status of the ScavengerJob says, its pods, and
//! what the status of the pool says about capacity.

use std::collections::BTreeMap;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    core::v1::Pod,
};
use kube::{
    Client, ResourceExt,
    api::{ListParams, PostParams},
};
use scavenger_program::objects::Objects;
use scavenger_schema::{
    names,
    scavenger_job::{Quantity, ScavengerJob},
    scavenger_pool::{ScavengerPool, ScavengerPoolStatus},
};
use scavenger_vocabulary::pool_condition::READY;

use super::{Lines, age};

/// What a snapshot lists, in the whole cluster.
const LISTED: [(&str, &str); 6] = [
    ("", "nodes"),
    ("", "pods"),
    ("", "persistentvolumes"),
    ("batch", "jobs"),
    (names::GROUP, "scavengerjobs"),
    (names::GROUP, "scavengerpools"),
];

/// A status that is older was not written by an operator that works: it writes once a minute at least.
const FRESH_SECONDS: i64 = 150;

/// True if this user may list all that a plan is made from.
pub(super) async fn may_see_the_cluster(client: &Client) -> anyhow::Result<bool> {
    for (group, resource) in LISTED {
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            verb: Some("list".to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = Objects::all(client.clone()).create(&PostParams::default(), &review).await;
        let answer: SelfSubjectAccessReview =
            answer.context("the API server could not be asked what this user may list")?;
        if !answer.status.is_some_and(|status| status.allowed) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The same as for others, as far as it is known.
pub(super) async fn explain(client: &Client, sj: &ScavengerJob) -> anyhow::Result<String> {
    let namespace = sj.namespace().unwrap_or_default();
    let pods: Objects<Pod> = Objects::namespaced(client.clone(), &namespace);
    let selector = format!("{}={}", names::LABEL_JOB_UID, sj.uid().unwrap_or_default());
    let pods = match pods.list(&ListParams::default().labels(&selector)).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(error)) if error.code == 403 => Err("they may not be listed by this user"),
        Err(error) => return Err(error).context("the pods of the ScavengerJob could not be listed"),
    };
    let pools: Objects<ScavengerPool> = Objects::all(client.clone());
    let pool = match pools.get_opt(names::DEFAULT_POOL).await {
        Ok(Some(pool)) => Ok(pool.status.unwrap_or_default()),
        Ok(None) => Err("the ScavengerPool \"default\" does not exist; an admin must create it"),
        Err(kube::Error::Api(error)) if error.code == 403 => {
            Err("its status may not be read by this user; docs/permissions.md says how an admin shows it")
        }
        Err(error) => return Err(error).context("the ScavengerPool could not be read"),
    };
    Ok(text(sj, pods.as_deref().map_err(|why| *why), pool.as_ref().map_err(|why| *why), now()))
}

fn text(
    sj: &ScavengerJob,
    pods: Result<&[Pod], &str>,
    pool: Result<&ScavengerPoolStatus, &str>,
    now: Timestamp,
) -> String {
    let status = sj.status.clone().unwrap_or_default();
    let mut lines = Lines::default();
    let mut phase = status.phase.unwrap_or_default().name().to_owned();
    match status.interrupted_count {
        0 => {}
        1 => phase.push_str(", interrupted once"),
        count => phase.push_str(&format!(", interrupted {count} times")),
    }
    if sj.metadata.deletion_timestamp.is_some() {
        phase.push_str(", being deleted");
    }
    let key = format!("{}/{}", sj.namespace().unwrap_or_default(), sj.name_any());
    lines.add("ScavengerJob", &format!("{key}, {phase}"));
    if let Some(message) = &status.message {
        lines.add("says", message);
    }
    let admitted = status.conditions.iter().find(|condition| condition.type_ == "Admitted");
    if let Some(condition) = admitted.filter(|condition| condition.status == "False") {
        let since = now.duration_since(condition.last_transition_time.0);
        lines.add("waits", &format!("{}, for {}", condition.reason, age(since)));
    }
    if let Some(time) = status.not_before.as_ref().filter(|time| time.0 > now) {
        lines.add("not before", &format!("{} from now", age(time.0.duration_since(now))));
    }
    let requests = sj.spec.resources.requests.iter();
    let requests: Vec<String> = requests.map(|(name, amount)| format!("{name} {}", amount.0)).collect();
    let count = match sj.spec.pod_count {
        1 => String::new(),
        count => format!("{count} pods with "),
    };
    lines.add("asks for", &format!("{count}{}", requests.join(", ")));
    match pods {
        Ok(pods) => pods.iter().for_each(|pod| lines.add("pod", &pod_line(pod))),
        Err(why) => lines.add("pod", why),
    }
    let forecast = pool.ok().and_then(|pool| pool.forecast.as_ref());
    super::start::add(&mut lines, sj.status.as_ref(), forecast, now);
    match pool {
        Ok(pool) => capacity(&mut lines, sj, pool, now),
        Err(why) => lines.add("pool", why),
    }
    lines.text
}

fn pod_line(pod: &Pod) -> String {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unscheduled = conditions
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .find_map(|condition| condition.message.clone());
    let place = match (node, unscheduled) {
        (Some(node), _) => format!("on {node}"),
        (None, Some(why)) => format!("no node: {why}"),
        (None, None) => "no node yet".to_owned(),
    };
    format!("{} {phase}, {place}", pod.name_any())
}

/// What the pool says about what the ScavengerJob asks for.
fn capacity(lines: &mut Lines, sj: &ScavengerJob, pool: &ScavengerPoolStatus, now: Timestamp) {
    let Some(written) = &pool.update_time else {
        return lines.add("pool", "no operator has written its status yet; is the operator running?");
    };
    let old = now.duration_since(written.0);
    if old.as_secs() > FRESH_SECONDS {
        lines.add(
            "pool",
            &format!("its status was written {} ago: no operator is at work, and nothing starts", age(old)),
        );
    }
    let ready = pool.conditions.iter().find(|condition| condition.type_ == READY);
    if let Some(ready) = ready.filter(|condition| condition.status == "False") {
        lines.add("pool", &ready.message);
    }
    let queue = &pool.queue;
    let nodes = super::nodes_that_take(usize::try_from(pool.nodes).unwrap_or(0));
    lines.add(
        "pool",
        &format!("{nodes}; {} wait, {} start, {} run", queue.waiting, queue.starting, queue.running),
    );
    for (name, asked) in &sj.spec.resources.requests {
        let amount = |amounts: &BTreeMap<String, Quantity>| {
            amounts.get(name).map_or_else(|| "0".to_owned(), |quantity| quantity.0.clone())
        };
        let whole = format!("{name}: {} free below the threshold", amount(&pool.free));
        let count = sj.spec.pod_count;
        let each = if count == 1 { String::new() } else { format!(" for each of {count} pods") };
        lines.add("capacity", &format!("{whole}; this asks for {}{each}", asked.0));
    }
    for shape in &pool.node_shapes {
        let free = |name: &String| shape.largest_free.get(name).map_or("0", |quantity| &*quantity.0);
        let free: Vec<String> =
            sj.spec.resources.requests.keys().map(|name| format!("{name} {}", free(name))).collect();
        let count = if shape.count == 1 { "1 node".to_owned() } else { format!("{} alike", shape.count) };
        lines.add("most free", &format!("{} on one of {count}", free.join(", ")));
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: ages are those of now")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sj() -> ScavengerJob {
        let spec = json!({
            "image": "i", "interruptionAfter": "1m", "podCount": 2,
            "resources": { "requests": { "cpu": "2", "memory": "1Gi" } } });
        let status = json!({
            "phase": "Interrupted", "interruptedCount": 2, "message": "needs 4 cpu; 1 cpu left",
            "conditions": [{ "type": "Admitted", "status": "False", "reason": "NoCapacity", "message": "",
                             "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
        let metadata = json!({ "name": "water", "namespace": "chem" });
        let object = json!({ "apiVersion": "scavenger.dev/v1alpha1", "kind": "ScavengerJob",
                             "metadata": metadata, "spec": spec, "status": status });
        serde_json::from_value(object).unwrap()
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn a_tenant_sees_what_the_statuses_say() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "water-3-0" },
            "status": { "phase": "Pending", "conditions": [
                { "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available" }] } }))
        .unwrap();
        let pool: ScavengerPoolStatus = serde_json::from_value(json!({
            "updateTime": "2026-01-01T00:01:00Z", "nodes": 3, "free": { "cpu": "1", "memory": "9Gi" },
            "queue": { "waiting": 4, "starting": 0, "running": 1 },
            "nodeShapes": [{ "count": 3, "allocatable": { "cpu": "4" }, "largestFree": { "cpu": "1500m" } }] }))
        .unwrap();
        let now = at("2026-01-01T00:01:30Z");
        assert_eq!(
            text(&sj(), Ok(&[pod]), Ok(&pool), now),
            "ScavengerJob  chem/water, Interrupted, interrupted 2 times\n\
             says          needs 4 cpu; 1 cpu left\n\
             waits         NoCapacity, for 90s\n\
             asks for      2 pods with cpu 2, memory 1Gi\n\
             pod           water-3-0 Pending, no node: 0/3 nodes are available\n\
             pool          3 nodes take ScavengerJobs; 4 wait, 0 start, 1 run\n\
             capacity      cpu: 1 free below the threshold; this asks for 2 for each of 2 pods\n\
             capacity      memory: 9Gi free below the threshold; this asks for 1Gi for each of 2 pods\n\
             most free     cpu 1500m, memory 0 on one of 3 alike\n"
        );
    }

    #[test]
    fn a_pool_that_is_old_closed_or_hidden_says_so() {
        let mut pool = ScavengerPoolStatus::default();
        let now = at("2026-01-01T00:10:00Z");
        let said = |pool: Result<&ScavengerPoolStatus, &str>| text(&sj(), Err("hidden pods"), pool, now);
        assert!(said(Ok(&pool)).contains("pool          no operator has written its status yet"));
        pool = serde_json::from_value(json!({ "updateTime": "2026-01-01T00:00:00Z", "conditions": [
            { "type": "Ready", "status": "False", "reason": "Paused", "message": "no ScavengerJob starts",
              "lastTransitionTime": "2026-01-01T00:00:00Z" }] }))
        .unwrap();
        let old = said(Ok(&pool));
        assert!(
            old.contains("pool          its status was written 10m0s ago: no operator is at work"),
            "{old}"
        );
        assert!(old.contains("pool          no ScavengerJob starts\n"), "{old}");
        let hidden = said(Err("hidden pool"));
        assert!(hidden.ends_with("pod           hidden pods\npool          hidden pool\n"), "{hidden}");
    }
}
