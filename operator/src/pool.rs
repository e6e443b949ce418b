//! The status of the ScavengerPool: what everyone may know about the room there is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use scavenger_planner::{
    Closed,
    node_use::UsageReport,
    report::{self, Measuring, PoolReport, SharesReport, TenantReport},
    resources::{CPU, MEMORY, Resources, is_in_bytes},
    values::{Counted, Key, Name, Phase},
};
use scavenger_schema::{
    quantity::{format_bytes, format_milli},
    scavenger_job::Quantity,
    scavenger_pool::{DryRunStatus, HeldBack, NodeAgentsStatus, Queue, ScavengerPoolStatus, UsageStatus},
    tenants::TenantStatus,
};
use scavenger_vocabulary::pool_condition::{MEMORY_MEASURED, READY, SUPERVISOR_STARTS, UNJUDGED_PODS};

use crate::node_shapes;

/// The status at one moment, without `updateTime` and `observedGeneration`, which the writer adds.
pub(crate) fn status(pool: &PoolReport<'_>, now: Timestamp) -> ScavengerPoolStatus {
    let (ready, free) = match pool.settings {
        Ok(settings) => {
            let ready = |ready, reason, message| condition(READY, ready, reason, message, now);
            let ready = if settings.drain {
                ready(false, "Draining", "every ScavengerJob is interrupted and none starts (spec.drain)")
            } else if settings.paused {
                ready(false, "Paused", "no ScavengerJob starts (spec.paused)")
            } else {
                // What is measured of memory changes often, and has a condition of its own.
                let closed = pool.closed_nodes.iter().filter(|(_, closed)| **closed != Closed::Memory);
                let closed = closed.take(NAMED).map(|(node, closed)| format!("; {}", closed.message(node)));
                let window =
                    settings.window.as_ref().map(|name| format!(" as in window {name}")).unwrap_or_default();
                let unknown = pool.shares.as_ref().filter(|shares| !shares.labels_known);
                let unknown = unknown.map(|_| UNKNOWN_LABELS).unwrap_or_default();
                let closed = closed.collect::<String>();
                let message = format!("ScavengerJobs are admitted{window}{closed}{unknown}");
                ready(true, "Admitting", &message)
            };
            (ready, pool.free())
        }
        Err(reason) => (condition(READY, false, "Unusable", reason, now), Resources::default()),
    };
    let of = |phase| pool.counts.phases.get(&phase).copied().unwrap_or(0);
    let waiting = pool.counts.waiting.iter().filter(|(_, number)| **number > 0);
    ScavengerPoolStatus {
        observed_generation: None,
        update_time: None,
        conditions: [ready, unjudged_pods(pool, now), memory_measured(pool, now)]
            .into_iter()
            .chain(supervisor_starts(pool, now))
            .collect(),
        window: pool.settings.ok().and_then(|settings| settings.window.as_deref()).map(str::to_owned),
        start_threshold: pool.settings.ok().map(|settings| settings.start_thresholds.default.fraction()),
        nodes: count(pool.nodes.len()),
        allocatable: quantities(pool.allocatable),
        used: quantities(&pool.used),
        free: quantities(&free),
        usage: pool.usage.as_ref().map(usage),
        held_back: pool.held_back.iter().map(held_back).collect(),
        tenants: pool.shares.iter().flat_map(|shares| &shares.tenants).map(tenant).collect(),
        tenants_counted_until: pool.shares.as_ref().map(|shares| Time(shares.counted_until)),
        shares: pool.shares.as_ref().and_then(shares),
        node_agents: node_agents(pool),
        node_shapes: node_shapes::of(pool),
        queue: Queue {
            waiting: count(of(Phase::Waiting) + of(Phase::Interrupted)),
            starting: count(of(Phase::Starting)),
            running: count(of(Phase::Running)),
            waiting_by_reason: waiting
                .map(|(reason, number)| (reason.name().to_owned(), count(*number)))
                .collect(),
        },
        // The writer knows it.
        forecast: None,
    }
}

/// Nodes that the status names which the breaker has taken out, or whose agent is missing.
const NODES: usize = 50;

/// How nodes that are counted by use stand.
fn usage(report: &UsageReport<'_>) -> UsageStatus {
    let compute = |amounts: &Resources| {
        let mut amounts = quantities(amounts);
        amounts.retain(|name, _| [CPU, MEMORY].contains(&name.as_str()));
        amounts
    };
    UsageStatus {
        nodes: count(report.known),
        estimated_nodes: count(report.estimated),
        unmeasured_nodes: count(report.unmeasured),
        tripped_nodes: report.tripped.iter().take(NODES).map(|(node, ..)| node.to_string()).collect(),
        requested: compute(&report.requested),
        expected: compute(&report.expected),
        held: compute(&report.held),
        dry_run: report.dry_run.as_ref().and_then(|run| {
            Some(DryRunStatus {
                since: Time(run.since?),
                core_hours: (run.core_hours() * 100.0).round() / 100.0,
                interruptions: i64::try_from(run.interruptions).unwrap_or(i64::MAX),
            })
        }),
    }
}

/// What the message says while namespaces cannot be listed.
const UNKNOWN_LABELS: &str = "; labels of namespaces are not known, since the operator cannot list namespaces: each namespace \
                              is a tenant by its own name";

/// How one tenant stands. Shares in tenths of a percent: more would change with each write.
fn tenant(tenant: &TenantReport) -> TenantStatus {
    let rounded = |share: f64| (share * 1e3).round() / 1e3;
    TenantStatus {
        name: tenant.name.to_string(),
        weight: tenant.rules.weight.number(),
        share: rounded(tenant.share),
        used: rounded(tenant.used),
        running: count(tenant.running),
        waiting: count(tenant.waiting),
        averages: tenant.averages.iter().map(|(name, average)| (name.to_string(), *average)).collect(),
    }
}

/// The first tenants in one line; none if there are none.
fn shares(shares: &SharesReport) -> Option<String> {
    let share = |tenant: &TenantReport| {
        format!("{} {:.1}% (used {:.1}%)", tenant.name, tenant.share * 100.0, tenant.used * 100.0)
    };
    let first: Vec<String> = shares.tenants.iter().take(NAMED).map(share).collect();
    let more = if shares.tenants.len() > NAMED { ", ..." } else { "" };
    (!first.is_empty()).then(|| format!("{}{more}", first.join(", ")))
}

/// What a status says that tenants used.
pub(crate) fn counted(status: &ScavengerPoolStatus) -> Option<Counted> {
    let averages = |tenant: &TenantStatus| {
        let averages = tenant.averages.iter().map(|(name, average)| (Name::from(name.as_str()), *average));
        (Name::from(tenant.name.as_str()), averages.collect())
    };
    let until = status.tenants_counted_until.as_ref()?.0;
    Some(Counted { until, used: status.tenants.iter().map(averages).collect() })
}

/// The status without what changes with every second.
pub(crate) fn without_counts(status: &ScavengerPoolStatus) -> ScavengerPoolStatus {
    let mut status = status.clone();
    status.tenants_counted_until = None;
    status.tenants.iter_mut().for_each(|tenant| tenant.averages.clear());
    status
}

/// Interruptions that budgets hold back.
fn held_back(held: &report::HeldBack<'_>) -> HeldBack {
    HeldBack { reason: held.reason.to_string(), jobs: count(held.jobs.len()), next_time: held.next.map(Time) }
}

/// Which nodes have a live agent; none in a pool in which nobody needs to know.
fn node_agents(pool: &PoolReport<'_>) -> Option<NodeAgentsStatus> {
    let (live, missing): (Vec<_>, Vec<_>) = pool.nodes.iter().partition(|node| node.has_agent);
    let usage = pool.settings.ok().and_then(|settings| settings.usage.as_deref());
    let is_required = usage.is_some_and(|rules| rules.require_node_agent);
    (is_required || !live.is_empty()).then(|| NodeAgentsStatus {
        live: count(live.len()),
        missing: count(missing.len()),
        missing_nodes: missing.iter().take(NODES).map(|node| node.name.to_string()).collect(),
    })
}

/// How many pods a message names.
const NAMED: usize = 5;

/// Pending pods for which nothing is interrupted because not all of their constraints can be judged.
fn unjudged_pods(pool: &PoolReport<'_>, now: Timestamp) -> Condition {
    match unjudged(pool) {
        None => condition(UNJUDGED_PODS, false, "AllJudged", "", now),
        Some(message) => condition(UNJUDGED_PODS, true, "ConstraintNotJudged", &message, now),
    }
}

/// The same as a message; none if there are no such pods.
pub(crate) fn unjudged(pool: &PoolReport<'_>) -> Option<String> {
    let named = |(pod, constraints): &(&Key, Vec<Name>)| format!("{pod} ({})", constraints.join(", "));
    let pods: Vec<String> = pool.unsupported_pods.iter().map(named).collect();
    let more = if pods.len() > NAMED { ", ..." } else { "" };
    (!pods.is_empty()).then(|| {
        format!(
            "for {} pending pods nothing is interrupted, since the operator cannot judge these of their constraints: \
             {}{more}",
            pods.len(),
            pods[..pods.len().min(NAMED)].join("; "),
        )
    })
}

/// Whether memory pressure is seen in time.
fn memory_measured(pool: &PoolReport<'_>, now: Timestamp) -> Condition {
    let pressure = "ScavengerJobs go when their node reports a pressure condition, which can be too late where the kubelet \
                    has hard eviction thresholds only: set soft ones";
    let (is, reason, message) = match pool.measuring_memory {
        Measuring::Yes => {
            let message =
                "ScavengerJobs go when their node uses more than 90% of its memory, as metrics.k8s.io tells";
            (true, "MetricsApi", message.to_owned())
        }
        Measuring::No => {
            (false, "PressureConditionsOnly", format!("metrics.k8s.io is not served: {pressure}"))
        }
        Measuring::NotSince(since) => {
            let message = format!(
                "metrics.k8s.io has measured no node since {since:.0}; nodes that were closed for their memory stay closed to \
                 ScavengerJobs, and all others stay open; until it measures again, {pressure}"
            );
            (false, "NothingMeasured", message)
        }
    };
    condition(MEMORY_MEASURED, is, reason, &message, now)
}

/// Whether ScavengerJobs that are to run under the supervisor do; none in a pool that has none.
fn supervisor_starts(pool: &PoolReport<'_>, now: Timestamp) -> Option<Condition> {
    let held = pool.without_supervisor.as_ref()?;
    if held.is_empty() {
        return Some(condition(SUPERVISOR_STARTS, true, "Starts", "", now));
    }
    let more = if held.len() > NAMED { "; ..." } else { "" };
    let message = format!("{}{more}", held[..held.len().min(NAMED)].join("; "));
    Some(condition(SUPERVISOR_STARTS, false, "NotStarted", &message, now))
}

fn condition(kind: &str, is: bool, reason: &str, message: &str, now: Timestamp) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: if is { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(now),
        observed_generation: None,
    }
}

pub(crate) fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Amounts as Kubernetes writes them. What is overcommitted shows as 0.
pub(crate) fn quantities(resources: &Resources) -> BTreeMap<String, Quantity> {
    resources
        .iter()
        .map(|(name, amount)| {
            let amount = amount.max(0);
            let text = match name {
                CPU => format_milli(amount),
                _ if is_in_bytes(name) => format_bytes(amount),
                _ => amount.to_string(),
            };
            (name.to_owned(), Quantity(text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use scavenger_planner::{
        Planner,
        fixtures::{at, node, settings},
        values::{Counted, Observation, Settings},
    };
    use scavenger_vocabulary::Reason;

    use super::*;

    fn agents(settings: Settings, live: &[&str]) -> Option<NodeAgentsStatus> {
        let mut planner = Planner::default();
        planner.observe(Observation::Pool(Box::new(Ok(settings))), at(0));
        for number in 0..60 {
            planner.observe(Observation::Node(node(&format!("n{number:02}"), 4000)), at(0));
        }
        let live = live.iter().map(|name| Name::from(*name)).collect();
        planner.observe(Observation::NodeAgents(live), at(0));
        planner.plan(at(0));
        status(&planner.pool_report(at(0)), at(0)).node_agents
    }

    #[test]
    fn the_status_says_what_budgets_hold_back_and_until_when() {
        let (reason, jobs) =
            (Reason::NodeLeftPool, BTreeMap::from([(Key::new("lab", "a"), "why".to_owned())]));
        let of = |next| held_back(&report::HeldBack { reason: &reason, jobs: &jobs, next });
        let held = of(Some(at(60)));
        assert_eq!((held.reason.as_str(), held.jobs), ("NodeLeftPool", 1));
        assert_eq!(held.next_time, Some(Time(at(60))));
        assert_eq!(of(None).next_time, None);
    }

    #[test]
    fn what_tenants_used_is_read_back_as_it_was_written() {
        let settings = settings().shared(&[("chem", 2.0)]);
        let mut planner = Planner::default();
        planner.observe(Observation::Node(node("n", 4000)), at(0));
        planner.observe(Observation::Pool(Box::new(Ok(settings))), at(0));
        let used = BTreeMap::from([("chem".into(), BTreeMap::from([("cpu".into(), 1.0 / 3.0)]))]);
        let before = Counted { until: at(-86_400), used };
        planner.observe(Observation::Counted(Some(Box::new(before))), at(0));
        planner.plan(at(0));
        let written = status(&planner.pool_report(at(0)), at(0));
        let text = serde_json::to_string(&written).unwrap();
        let read = counted(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(read.until, at(0));
        assert_eq!(
            read.used.get("chem").and_then(|used| used.get("cpu")),
            Some(&0.166_666_667),
            "half in a day"
        );
        assert_eq!(written.shares.as_deref(), Some("chem 0.0% (used 4.2%)"));
        let mut later = written.clone();
        later.tenants_counted_until = Some(Time(at(60)));
        assert_eq!(without_counts(&later), without_counts(&written), "a moment is no news");
        assert_eq!(counted(&ScavengerPoolStatus::default()), None);
    }

    #[test]
    fn the_status_names_nodes_without_an_agent_where_somebody_needs_to_know() {
        assert_eq!(agents(settings().by_use(), &[]), None);
        let mut careful = settings().by_use();
        careful.usage.as_mut().unwrap().require_node_agent = true;
        let none = agents(careful.clone(), &[]).unwrap();
        assert_eq!((none.live, none.missing, none.missing_nodes.len()), (0, 60, 50));
        for settings in [settings(), careful] {
            // An agent of a node that is not in the pool counts for nobody.
            let some = agents(settings, &["n00", "n59", "elsewhere"]).unwrap();
            assert_eq!((some.live, some.missing, some.missing_nodes.len()), (2, 58, 50));
            assert_eq!(some.missing_nodes[0], "n01");
        }
    }
}
