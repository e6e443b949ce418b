//! `scavenger-operator explain`: why a ScavengerJob waits, or why it was stopped, on one screen.

mod start;
mod tenant;

use std::{cmp::Reverse, fmt::Write as _};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use scavenger_planner::{
    Planner,
    action::Task,
    resources::{Amount, CPU, MEMORY, PODS, Resources},
    uid_of_preemptor,
    values::{Figures, Key, Observation, Order, Phase, Pod, RuntimeClass, ScavengerJob, ScavengerJobStatus},
};
use scavenger_schema::{scavenger_job as crd, terminal::shown};
use scavenger_vocabulary::{Reason, Supervision};

use super::{
    Unusable,
    connection::Target,
    job,
    nodes::open_until,
    plan,
    snapshot::{Snapshot, Source},
    text::{Output, age, percent, print},
};

/// Attempts shown, the newest.
const ATTEMPTS: usize = 5;

/// Say why a ScavengerJob waits, or why it was stopped
///
/// Looks at the cluster once (or at a snapshot of it): where the ScavengerJob stands in the queue, what it asks for next
/// to what the pool has left, what the operator would do next, and how its attempts ended. Without the right to list nodes
/// and pods of the whole cluster, it shows what the status of the ScavengerJob and of the pool say.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    source: Source,
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    if !options.source.is_live() {
        let hint = "write NAMESPACE/NAME, for example chem/water-1: a snapshot has no namespace of its own";
        let key = options.target.named()?.context(Unusable(hint.to_owned()))?;
        let snapshot = options.source.read().await?;
        return snapshot.print(Output::Text, &explain(&snapshot, &key)?);
    }
    let client = options.source.connection.connect().await?;
    let key = options.target.key(&client)?;
    // The planner knows no attempt but the last: the history is for people alone.
    let sj = job::read(&client, &key).await?;
    if !tenant::may_see_the_cluster(&client).await? {
        return print(&(tenant::explain(&client, &sj).await? + &history(&sj)));
    }
    let snapshot = Snapshot::take(&client).await?;
    let start = start::read(&client, &sj, snapshot.time).await;
    snapshot.print(Output::Text, &(explain(&snapshot, &key)? + &start + &history(&sj)))
}

fn explain(snapshot: &Snapshot, key: &Key) -> anyhow::Result<String> {
    let sj = snapshot
        .observations()
        .iter()
        .rev()
        .find_map(|observation| match observation {
            Observation::ScavengerJob(sj) if sj.key == *key => Some(sj),
            _ => None,
        })
        .with_context(|| job::missing(key))?;
    let mut planner = snapshot.planner();
    let plan = planner.plan(snapshot.time);
    let next = plan.actions.iter().find(|action| action.sj == *key).map(|action| &action.task);
    let mut lines = Lines::default();
    lines.add("ScavengerJob", &format!("{key}, {}", phase(sj, snapshot.time)));
    if !sj.status.message.is_empty() {
        lines.add("says", &sj.status.message);
    }
    let disruption = sj.status.attempt.as_ref().and_then(|attempt| attempt.disruption.as_ref());
    if let Some(pod) = disruption.and_then(|disruption| preemptor(snapshot, &disruption.message)) {
        lines.add("went for", &format!("pod {pod}"));
    }
    if let Some(waiting) = sj.status.admitted.as_ref().and_then(|admitted| admitted.waiting.as_ref()) {
        lines.add("waits", waiting.reason.name());
    }
    if let Some(time) = sj.status.not_before.filter(|time| *time > snapshot.time) {
        lines.add("not before", &format!("{} from now", age(time.duration_since(snapshot.time))));
    }
    match &sj.spec {
        Ok(spec) => {
            let pods = match spec.demand.pod_count {
                1 => String::new(),
                count => format!("{count} pods with "),
            };
            lines.add("asks for", &format!("{pods}{}", spec.demand.per_pod));
            if let Some(class) =
                runtime_class(snapshot, sj).filter(|class| class.overhead != Resources::default())
            {
                let (name, overhead) = (&*class.name, &class.overhead);
                lines.add("runtime", &format!("RuntimeClass {name:?} takes {overhead} more for each pod"));
            }
        }
        Err(error) => lines.add("asks for", &format!("something that cannot be understood: {error}")),
    }
    if let Some((level, steps)) = planner.running_priority(key, snapshot.time) {
        lines.add("priority", &format!("step {level} of {steps}: the higher, the more would be lost"));
    }
    supervision(&mut lines, sj, snapshot.time);
    usage(&mut lines, sj);
    queue(&mut lines, &planner, sj, snapshot.time);
    if let Some(why) = planner.node_that_left(key) {
        lines.add("node", &why);
    }
    if let Some(why) = held_back(&planner, key, snapshot.time) {
        lines.add("held back", &why);
    }
    lines.add("next", &would(next, sj));
    for pod in pods(snapshot, sj) {
        lines.add("pod", &pod_line(pod));
    }
    room(&mut lines, &planner, &asked(snapshot, sj), snapshot.time);
    if let Some(text) = node_agents(snapshot) {
        lines.add("node agents", &text);
    }
    Ok(lines.text)
}

/// For what it would be interrupted if a budget of the pool allowed it, and when that may be.
fn held_back(planner: &Planner, key: &Key, now: Timestamp) -> Option<String> {
    let held = planner.held_back(now).into_iter().find(|held| held.jobs.contains_key(key))?;
    let (reason, why) = (held.reason, &held.jobs[key]);
    Some(format!("it is to be interrupted ({reason}: {why}); {}", plan::next_by_budget(held.next, now)))
}

/// The pod that a message about an interruption only describes, if it is there yet: who sees the whole cluster may know its name.
fn preemptor<'a>(snapshot: &'a Snapshot, message: &str) -> Option<&'a Key> {
    let uid = uid_of_preemptor(message)?;
    snapshot.observations().iter().find_map(|observation| match observation {
        Observation::Pod(pod) if *pod.uid == *uid => Some(&pod.key),
        _ => None,
    })
}

/// The RuntimeClass of a ScavengerJob, if it names one that is there.
fn runtime_class<'a>(snapshot: &'a Snapshot, sj: &ScavengerJob) -> Option<&'a RuntimeClass> {
    let name = &sj.spec.as_ref().ok()?.runtime.as_ref()?.class;
    snapshot.observations().iter().rev().find_map(|observation| match observation {
        Observation::RuntimeClass(class) if class.name == *name => Some(class),
        _ => None,
    })
}

/// What a ScavengerJob asks for with all of its pods.
fn asked(snapshot: &Snapshot, sj: &ScavengerJob) -> Resources {
    let Ok(spec) = &sj.spec else { return Resources::default() };
    match runtime_class(snapshot, sj) {
        Some(class) => class.added_to(&spec.demand).total(),
        None => spec.demand.total(),
    }
}

/// Lines with a heading in the first column.
#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn add(&mut self, heading: &str, text: &str) {
        // Messages hold the last words of containers, and events.
        writeln!(self.text, "{heading:<13} {}", shown(text)).expect("writing to a string should not fail");
    }
}

fn phase(sj: &ScavengerJob, now: Timestamp) -> String {
    let status = &sj.status;
    let since = match status.phase {
        Phase::Waiting => Some(sj.creation_time),
        Phase::Starting => status.attempt.as_ref().map(|attempt| attempt.creation_time),
        Phase::Running => status.start_times.last().copied(),
        Phase::Interrupted => status.interruption_times.last().copied(),
        Phase::Completed | Phase::Failed => status.finish_time,
    };
    let mut text = status.phase.name().to_owned();
    if let Some(since) = since {
        write!(text, " for {}", age(now.duration_since(since))).expect("writing to a string should not fail");
    }
    match status.interrupted_count {
        0 => {}
        1 => text.push_str(", interrupted once"),
        count => write!(text, ", interrupted {count} times").expect("writing to a string should not fail"),
    }
    if sj.deleting {
        text.push_str(", being deleted");
    }
    text
}

/// Which tenant's it is, and how that stands, if the pool says something of tenants.
fn tenant(lines: &mut Lines, planner: &Planner, sj: &ScavengerJob, now: Timestamp) {
    let shares = planner.shares(now);
    let tenants = shares.iter().flat_map(|shares| &shares.tenants);
    let Some(tenant) = planner.tenant_of(&sj.key.namespace) else { return };
    let Some(tenant) = tenants.into_iter().find(|other| other.name == tenant) else { return };
    let limit = tenant.rules.max_share.map(|most| format!(" and may hold {most}"));
    let text = format!(
        "{} with weight {}: holds {} of the pool{}, and used {}{}",
        tenant.name,
        tenant.rules.weight.number(),
        percent(tenant.share),
        limit.unwrap_or_default(),
        percent(tenant.used),
        if tenant.rules.paused { "; paused" } else { "" },
    );
    lines.add("tenant", &text);
}

fn queue(lines: &mut Lines, planner: &Planner, sj: &ScavengerJob, now: Timestamp) {
    tenant(lines, planner, sj, now);
    if let Some((before, all)) = planner.place_in_queue(&sj.key) {
        let sharing = planner.settings().ok().and_then(|settings| settings.sharing.as_ref());
        let by = match sharing.map(|sharing| sharing.order) {
            Some(Order::FairShare) => "then whose tenant used least for its weight, then longest waiting",
            Some(Order::Interruptions) | None => "then longest waiting",
        };
        let place = match before {
            0 => "first".to_owned(),
            before => format!("after {before} others"),
        };
        lines.add("queue", &format!("{place}, of {all} that may start (most interrupted first, {by})"));
    }
}

/// Whether it runs under the supervisor, and what is known because of that.
fn supervision(lines: &mut Lines, sj: &ScavengerJob, now: Timestamp) {
    let status = &sj.status;
    if let Some(supervised) = &status.supervised {
        let text = match supervised.why {
            Supervision::Supervised => "yes".to_owned(),
            _ => format!("no: {}", supervised.message),
        };
        lines.add("supervised", &text);
    }
    if let Some(since) = status.starved_since {
        let text = format!("since {}: {}", age(now.duration_since(since)), ScavengerJobStatus::STARVED);
        lines.add("starved", &text);
    }
    if let Some(observed) = &status.observed_saves {
        lines.add("on SIGTERM", &observed.message);
    }
    if let Some(time) = status.last_checkpoint {
        let progress = status.progress.map(|progress| format!(", {:.0}% done", progress * 100.0));
        lines.add(
            "checkpoint",
            &format!("{} ago{}", age(now.duration_since(time)), progress.unwrap_or_default()),
        );
    }
}

/// What the attempt was measured to use, where somebody measures it.
fn usage(lines: &mut Lines, sj: &ScavengerJob) {
    let status = &sj.status;
    let attempt = status.attempt.as_deref();
    let Some((usage, attempt)) =
        status.usage.as_deref().zip(attempt).filter(|(usage, attempt)| usage.attempt == attempt.number)
    else {
        return;
    };
    let of = |name, figures: Figures| {
        format!("{} on average and {} at most", Amount(name, figures.mean), Amount(name, figures.peak))
    };
    let measured = age(usage.measured);
    lines.add(
        "uses",
        &format!("{}; {} (measured for {measured})", of(CPU, usage.cpu), of(MEMORY, usage.memory)),
    );
    if let Some(advice) = usage.advice(attempt) {
        lines.add("requests", &advice);
    }
}

fn would(next: Option<&Task>, sj: &ScavengerJob) -> String {
    match next {
        Some(task) => format!("the operator would {}", plan::describe(task)),
        None if sj.status.phase.is_finished() => "nothing: it has ended".to_owned(),
        None => "nothing now: the operator waits for something to change".to_owned(),
    }
}

fn pods<'a>(snapshot: &'a Snapshot, sj: &'a ScavengerJob) -> impl Iterator<Item = &'a Pod> {
    snapshot.observations().iter().filter_map(|observation| match observation {
        // In another namespace it belongs to nobody, whatever it says.
        Observation::Pod(pod)
            if pod.key.namespace == sj.key.namespace
                && pod.owner.as_ref().is_some_and(|(uid, _)| *uid == sj.uid) =>
        {
            Some(&**pod)
        }
        _ => None,
    })
}

fn pod_line(pod: &Pod) -> String {
    let mut text = format!("{} {:?}", pod.key.name, pod.phase);
    match (&pod.node, &pod.unschedulable) {
        (Some(node), _) => write!(text, " on {node}"),
        (None, Some(why)) => write!(text, ", no node: {why}"),
        (None, None) => write!(text, ", no node yet"),
    }
    .expect("writing to a string should not fail");
    if let Some((reason, message)) = &pod.disruption_target {
        write!(text, "; taken away: {reason}: {message}").expect("writing to a string should not fail");
    } else if pod.deletion_requested.is_some() {
        text.push_str("; its deletion was requested");
    }
    text
}

/// Where ScavengerJobs start by requests because an agent is missing, in a pool that counts by use.
fn node_agents(snapshot: &Snapshot) -> Option<String> {
    let agents = snapshot.node_agents.as_ref().filter(|_| snapshot.requires_node_agent())?;
    let (live, missing) = (agents.live, agents.missing);
    let names = agents.missing_nodes.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = if usize::try_from(missing).unwrap_or(0) > NAMED { ", ..." } else { "" };
    (missing > 0).then(|| {
        format!(
            "live on {live} of {} nodes, missing on {names}{more}: ScavengerJobs start there by requests \
             (usage.requireNodeAgent of the pool)",
            live + missing
        )
    })
}

fn nodes_that_take(count: usize) -> String {
    match count {
        1 => "1 node takes ScavengerJobs".to_owned(),
        count => format!("{count} nodes take ScavengerJobs"),
    }
}

/// What the pool has, next to what the ScavengerJob asks for.
fn room(lines: &mut Lines, planner: &Planner, demand: &Resources, now: Timestamp) {
    let pool = planner.pool_report(now);
    if let Err(reason) = pool.settings {
        return lines.add("pool", &format!("nothing is admitted: {reason}"));
    }
    lines.add("pool", &nodes_that_take(pool.nodes.len() - pool.closed_nodes.len()));
    for (node, closed) in &pool.closed_nodes {
        lines.add("pool", &closed.message(node));
    }
    for (node, until) in &pool.leaving_nodes {
        if !pool.closed_nodes.iter().any(|(closed, _)| closed == node) {
            lines.add("pool", &format!("node {node}: {}", open_until(*until)));
        }
    }
    // Everybody asks for these, and this one maybe for more.
    let resources = pool.allocatable.iter().map(|(name, _)| name);
    for name in resources.filter(|name| matches!(*name, CPU | MEMORY | PODS) || demand.get(name) > 0) {
        let of = |resources: &Resources| Amount(name, resources.get(name)).to_string();
        let (left, asks) = (of(&pool.free()), of(demand));
        let (all, used, limit) = (of(pool.allocatable), of(&pool.used), of(&pool.limit));
        lines.add(
            "capacity",
            &format!(
                "{left} left below the threshold of {limit} ({used} used of {all}); this asks for {asks}"
            ),
        );
    }
    if let Some(text) = held_for_pending(planner.pods_that_hold_capacity()) {
        lines.add("held", &text);
    }
    if let Some(text) = crate::pool::unjudged(&pool) {
        lines.add("unjudged", &text);
    }
}

/// Ordinary pods that a line names.
const NAMED: usize = 5;

/// What is held for ordinary pods that wait for a node, and which they are, the largest first.
fn held_for_pending<'a>(pods: impl Iterator<Item = (&'a Key, &'a Resources)>) -> Option<String> {
    let mut pods: Vec<_> = pods.collect();
    pods.sort_by_key(|(key, requests)| (Reverse((requests.cpu_milli, requests.memory_bytes)), *key));
    let mut sum = Resources::default();
    for (_, requests) in &pods {
        sum.add(requests);
    }
    let names: Vec<String> = pods.iter().take(NAMED).map(|(key, _)| key.to_string()).collect();
    let names = names.join(", ");
    match pods.len() {
        0 => None,
        1 => Some(format!("{sum} of what is used, for an ordinary pod that waits for a node: {names}")),
        count => {
            let more = match count.saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Some(format!(
                "{sum} of what is used, for {count} ordinary pods that wait for a node: {names}{more}"
            ))
        }
    }
}

fn history(sj: &crd::ScavengerJob) -> String {
    let attempts = sj.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default();
    let mut lines = Lines::default();
    for attempt in attempts.iter().rev().take(ATTEMPTS) {
        let ran = match (&attempt.start_time, &attempt.end_time) {
            (Some(start), Some(end)) => format!("ran {}", age(end.0.duration_since(start.0))),
            (None, _) => "did not run".to_owned(),
            (Some(_), None) => "runs".to_owned(),
        };
        let outcome = attempt.outcome.map_or_else(String::new, |outcome| format!("{outcome:?}: "));
        let why =
            attempt.message.as_deref().or(attempt.reason.as_ref().map(Reason::name)).unwrap_or_default();
        let lost = lost(attempt);
        lines.add(&format!("attempt {}", attempt.number), &format!("{ran}{lost}; {outcome}{why}"));
    }
    lines.text
}

/// What an attempt lost, beside what was expected.
fn lost(attempt: &crd::Attempt) -> String {
    let span = |seconds: i64| age(SignedDuration::from_secs(seconds));
    let mut text = match (attempt.lost_seconds, attempt.expected_lost_seconds) {
        (Some(lost), Some(expected)) => format!(", lost {} (expected {})", span(lost), span(expected)),
        (Some(lost), None) => format!(", lost {}", span(lost)),
        (None, Some(expected)) => format!(", lost an unknown time (expected {})", span(expected)),
        (None, None) => String::new(),
    };
    if attempt.answered_sigterm == Some(false) {
        text.push_str(", wrote no checkpoint after SIGTERM");
    }
    text
}

#[cfg(test)]
mod tests {
    use jiff::civil::time;
    use scavenger_planner::{
        fixtures::{at, budget, daily, key, node, pod, runtime_class, settings, sj},
        resources::Share,
        values::{Attempt, Budget},
    };

    use super::*;

    #[test]
    fn the_overhead_of_a_runtime_class_is_part_of_what_is_asked_for() {
        let observations = vec![
            Observation::Node(node("n1", 4000)),
            Observation::Pool(Box::new(Ok(settings()))),
            Observation::RuntimeClass(runtime_class("kata").taking(250)),
            Observation::ScavengerJob(Box::new(sj("a").with_runtime_class("kata"))),
        ];
        let text = explain(&Snapshot::new(at(0), observations), &key("a")).unwrap();
        for line in [
            "asks for      1 cpu, 1000 MiB\n",
            "runtime       RuntimeClass \"kata\" takes 0.25 cpu, 250 MiB more for each pod\n",
            "; this asks for 1.25 cpu\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn a_node_that_leaves_the_pool_is_told_to_who_is_there_and_to_who_could_go_there() {
        let mut runs = sj("runs");
        let demand = runs.spec.as_ref().unwrap().demand.clone();
        runs.status.phase = Phase::Running;
        runs.status.attempt =
            Some(Box::new(Attempt { start_time: Some(at(0)), ..Attempt::first(demand, at(0)) }));
        let waits = sj("waits").interruptible_after(SignedDuration::from_hours(2));
        let observations = vec![
            Observation::Node(node("n1", 4000).until(at(3600))),
            Observation::Pool(Box::new(Ok(settings()))),
            Observation::ScavengerJob(Box::new(runs)),
            Observation::ScavengerJob(Box::new(waits)),
            Observation::Pod(Box::new(pod("runs-1-0", 1000).of("uid-of-runs", 1).on("n1").running())),
        ];
        let snapshot = Snapshot::new(at(60), observations);
        let text = explain(&snapshot, &key("runs")).unwrap();
        let line = "node          node n1 is in the pool until 2027-01-15T09:00:00Z; interrupted before, as far as \
                    disruptionBudgets allow it\n";
        assert!(text.contains(line), "{text}");
        let text = explain(&snapshot, &key("waits")).unwrap();
        let line = "pool          node n1: only what can save before 2027-01-15T09:00:00Z starts there, when it leaves the pool\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn who_is_held_back_by_a_budget_is_told_why_and_until_when() {
        let mut settings = settings();
        settings.headroom.interrupt_threshold = Some(Share::from_fraction(0.1));
        settings.headroom.target = Share::from_fraction(0.05);
        settings.budgets =
            vec![Budget { schedule: Some(daily(time(8, 0, 0, 0), time(8, 5, 0, 0))), ..budget(0, 10) }];
        let mut a = sj("a");
        let demand = a.spec.as_ref().unwrap().demand.clone();
        a.status.phase = Phase::Running;
        a.status.attempt =
            Some(Box::new(Attempt { start_time: Some(at(0)), ..Attempt::first(demand, at(0)) }));
        let of_a = pod("a-1-0", 1000).of("uid-of-a", 1).on("n1").running();
        let observations = vec![
            Observation::Node(node("n1", 4000)),
            Observation::Pool(Box::new(Ok(settings))),
            Observation::ScavengerJob(Box::new(a)),
            Observation::Pod(Box::new(of_a)),
        ];
        let text = explain(&Snapshot::new(at(60), observations), &key("a")).unwrap();
        let line = "held back     it is to be interrupted (Headroom: frees capacity before others need it: 1 cpu of 4 cpu \
                    are used, more than the interruptThreshold of 10%); disruptionBudgets of the pool allow the next one \
                    in 4m0s\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn the_pod_for_which_one_went_is_named_to_who_sees_the_whole_cluster() {
        let mut web = pod("web", 1000);
        web.key = Key::new("shop", "web");
        let observations =
            vec![Observation::Pod(Box::new(pod("other", 1000))), Observation::Pod(Box::new(web))];
        let snapshot = Snapshot::new(at(0), observations);
        let message = |uid: &str| {
            format!("frees capacity for an ordinary pod with priority 100 on node n1 (UID {uid})")
        };
        assert_eq!(preemptor(&snapshot, &message("uid-of-web")), Some(&Key::new("shop", "web")));
        assert_eq!(preemptor(&snapshot, &message("gone")), None);
        assert_eq!(preemptor(&snapshot, "frees capacity for pod lab/other on node n1"), None);
    }

    #[test]
    fn those_that_hold_capacity_are_named_the_largest_first() {
        let held = |cpus: &[i64]| {
            let pods: Vec<(Key, Resources)> = cpus
                .iter()
                .enumerate()
                .map(|(number, cpu)| {
                    let requests = Resources { cpu_milli: cpu * 1000, pods: 1, ..Resources::default() };
                    (Key::new("shop", format!("web-{number}")), requests)
                })
                .collect();
            held_for_pending(pods.iter().map(|(key, requests)| (key, requests)))
        };
        assert_eq!(held(&[]), None);
        assert_eq!(
            held(&[2]).as_deref(),
            Some("2 cpu of what is used, for an ordinary pod that waits for a node: shop/web-0")
        );
        assert_eq!(
            held(&[1, 1, 4, 1, 1, 1, 1]).as_deref(),
            Some(
                "10 cpu of what is used, for 7 ordinary pods that wait for a node: shop/web-2, shop/web-0, \
                 shop/web-1, shop/web-3, shop/web-4 and 2 more"
            )
        );
    }

    #[test]
    fn nodes_without_the_agent_that_the_pool_requires_are_named() {
        let snapshot = |require_node_agent: bool, missing: i32, names: &[&str]| {
            let mut settings = settings().by_use();
            settings.usage.as_mut().unwrap().require_node_agent = require_node_agent;
            let pool = Observation::Pool(Box::new(Ok(settings)));
            Snapshot::new(at(0), vec![pool]).with_agents(13, missing, names)
        };
        assert_eq!(node_agents(&snapshot(false, 1, &["n1"])), None, "nothing follows from that");
        assert_eq!(node_agents(&snapshot(true, 0, &[])), None);
        let said = node_agents(&snapshot(true, 7, &["n1", "n2", "n3", "n4", "n5", "n6", "n7"]));
        assert_eq!(
            said.as_deref(),
            Some(
                "live on 13 of 20 nodes, missing on n1, n2, n3, n4, n5, ...: ScavengerJobs start there by requests \
                 (usage.requireNodeAgent of the pool)"
            )
        );
    }

    #[test]
    fn what_was_lost_stands_beside_what_was_expected() {
        let attempt = |more: serde_json::Value| {
            let mut attempt = serde_json::json!({
                "number": 1, "jobName": "a-1", "generation": 1, "requests": {}, "podCount": 1,
                "priorityClassName": "scavenger-0", "creationTime": "2026-01-01T00:00:00Z" });
            attempt.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            lost(&serde_json::from_value(attempt).unwrap())
        };
        assert_eq!(attempt(serde_json::json!({})), "");
        let both = attempt(serde_json::json!({ "lostSeconds": 3, "expectedLostSeconds": 200 }));
        assert_eq!(both, ", lost 3s (expected 3m20s)");
        let deaf = attempt(serde_json::json!({ "expectedLostSeconds": 0, "answeredSigterm": false }));
        assert_eq!(deaf, ", lost an unknown time (expected 0s), wrote no checkpoint after SIGTERM");
    }
}
