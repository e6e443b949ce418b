//! deploy/monitoring against the operator's own metrics: whatever dashboard and alert rules name is served.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use scavenger_planner::{
    Closed,
    node_use::{DryRun, UsageReport},
    report::{GroupReport, Measuring, NodeReport},
    resources::Resources,
    values::{Attempt, Demand, KillCause, Measured, Outcome, Placement},
};
use scavenger_program::metrics_page::assert_explained;
use serde_json::Value;

use super::{
    pool::{AmountLabels, GroupLabels, TenantLabel},
    *,
};

const DASHBOARD: &str = include_str!("../../../deploy/monitoring/dashboard.json");
const REPORT: &str = include_str!("../../../docs/report.md");
const RULES: &str = include_str!("../../../deploy/monitoring/rules.yaml");

/// Metrics of which each family has a member.
fn filled() -> Metrics {
    let metrics = Metrics::new();
    let tenant = TenantLabel { tenant: "any".to_owned() };
    for family in [&metrics.pool.tenant_share, &metrics.pool.tenant_used] {
        drop(family.get_or_create(&tenant));
    }
    drop(metrics.pool.tenant_waiting.get_or_create(&tenant));
    // A family without a member is not served.
    for family in [&metrics.interruptions, &metrics.withdrawals, &metrics.failures] {
        drop(family.get_or_create(&End { namespace: "any".to_owned(), reason: "Any".to_owned() }));
    }
    drop(metrics.waiting.get_or_create(&Reason { reason: "Any".to_owned() }));
    drop(metrics.phases.get_or_create(&PhaseLabel { phase: "Any" }));
    drop(metrics.actions.get_or_create(&ActionLabels { task: "any", result: "ok" }));
    metrics.written(None, &measured(3, 10));
    for family in [&metrics.useful_work, &metrics.lost_work] {
        drop(family.get_or_create(&ResourceLabel { resource: "cpu".to_owned() }));
    }
    let pool = &metrics.pool;
    for family in [&pool.allocatable, &pool.used, &pool.pending_requests, &pool.threshold] {
        drop(family.get_or_create(&AmountLabels { resource: "cpu".to_owned(), unit: "core" }));
    }
    for family in [&pool.group_allocatable, &pool.group_used, &pool.group_threshold] {
        drop(family.get_or_create(&GroupLabels {
            taints: String::new(),
            resource: "cpu".to_owned(),
            unit: "core",
        }));
    }
    drop(pool.held_back.get_or_create(&Reason { reason: "Any".to_owned() }));
    drop(metrics.action_duration.get_or_create(&TaskLabel { task: "any" }));
    drop(metrics.watch_errors.get_or_create(&WatchError { kind: "any", code: "403".to_owned() }));
    drop(metrics.undecodable.get_or_create(&KindLabel { kind: "any" }));
    drop(metrics.watch_age.get_or_create(&KindLabel { kind: "any" }));
    metrics.reports.answered("taken");
    metrics.node_agents.answered("taken");
    metrics.node_agents.explained(KillCause::Node);
    metrics.node_agents.nodes(&[NodeReport {
        name: &"n1".into(),
        labels: &BTreeMap::new(),
        allocatable: &Resources::default(),
        used: Resources::default(),
        free: Resources::default(),
        has_agent: true,
    }]);
    metrics.reports.reviewed("known");
    metrics.reports.connection_refused("full");
    metrics.reports.checkpoint("lab".to_owned());
    metrics.by_use.set(Some(&UsageReport {
        known: 1,
        estimated: 0,
        unmeasured: 0,
        without_agent: 0,
        tripped: Vec::new(),
        own_limits: 3,
        requested: Resources::default(),
        expected: Resources::default(),
        held: Resources::default(),
        dry_run: Some(DryRun::default()),
    }));
    metrics
}

/// Names of all samples, with the names of their labels.
fn served() -> BTreeMap<String, BTreeSet<String>> {
    let mut served = BTreeMap::<String, BTreeSet<String>>::new();
    for line in filled().render().unwrap().lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter_map(|pair| pair.split_once('='));
        served.entry(name.to_owned()).or_default().extend(labels.map(|(label, _)| label.to_owned()));
    }
    served
}

/// A ScavengerJob whose attempt ran for 100 s and lost so many, of so many that were expected.
fn measured(lost: i64, expected: i64) -> ScavengerJob {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let mut sj = scavenger_planner::fixtures::sj("a");
    let demand = Demand { per_pod: Resources::default(), pod_count: 1, placement: Placement::default() };
    sj.status.attempt = Some(Box::new(Attempt {
        start_time: Some(at(0)),
        end_time: Some(at(100)),
        reason: Some(scavenger_vocabulary::Reason::Headroom),
        measured: Measured {
            lost: Some(SignedDuration::from_secs(lost)),
            expected: Some(SignedDuration::from_secs(expected)),
            ..Measured::default()
        },
        ..Attempt::first(demand.into(), at(0))
    }));
    sj
}

#[test]
fn a_measured_attempt_counts_once() {
    let metrics = Metrics::new();
    let sj = measured(30, 40);
    let mut before = sj.status.attempt.clone().unwrap();
    before.measured.lost = None;
    // The write that ended it did not know yet what it lost.
    let unknown = ScavengerJob {
        status: ScavengerJobStatus { attempt: Some(before.clone()), ..sj.status.clone() },
        ..sj.clone()
    };
    metrics.written(None, &unknown);
    metrics.written(Some(&before), &sj);
    metrics.written(sj.status.attempt.as_deref(), &sj);
    let text = metrics.render().unwrap();
    for line in [
        r#"scavenger_attempt_useful_seconds_total{namespace="lab",cause="Headroom"} 70.0"#,
        r#"scavenger_attempt_lost_seconds_total{namespace="lab",cause="Headroom"} 30.0"#,
        r#"scavenger_attempt_expected_lost_seconds_total{namespace="lab",cause="Headroom"} 40.0"#,
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in {text}");
    }
}

/// What useful and lost work come to in core-seconds, and how many attempts kept nothing.
fn work(metrics: &Metrics) -> (f64, f64, f64) {
    let text = metrics.render().unwrap();
    let value = |name: &str| {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let line = lines.find(|line| line.starts_with(name) && !line.contains("memory"));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    };
    let of = |name: &str| value(&format!("scavenger_{name}_total"));
    (of("useful_work"), of("lost_work"), of("attempts_without_checkpoint"))
}

/// One that runs under the supervisor is written down as ended before its supervisor has said what it lost. Then the workload
/// ignores SIGTERM, although it promised to save.
#[test]
fn what_was_measured_counts_as_work_and_not_the_promise() {
    let mut sj = measured(70, 40);
    sj.spec.as_mut().unwrap().saves_on_sigterm = true;
    let attempt = sj.status.attempt.as_mut().unwrap();
    (attempt.supervised, attempt.outcome) = (true, Some(Outcome::Interrupted));
    attempt.demand = Demand {
        per_pod: Resources { cpu_milli: 1000, ..Resources::default() },
        ..(*attempt.demand).clone()
    }
    .into();
    let measured = sj.status.attempt.clone().unwrap();
    let runs =
        Attempt { outcome: None, end_time: None, measured: Measured::default(), ..(*measured).clone() };
    let ended = Attempt { measured: Measured::default(), ..(*measured).clone() };
    let next = Attempt { number: measured.number + 1, outcome: None, end_time: None, ..runs.clone() };
    let with = |attempt: &Attempt| {
        let status = ScavengerJobStatus { attempt: Some(Box::new(attempt.clone())), ..sj.status.clone() };
        ScavengerJob { status, ..sj.clone() }
    };

    let metrics = Metrics::new();
    metrics.written(Some(&runs), &with(&ended));
    assert_eq!(work(&metrics), (0.0, 0.0, 0.0), "its supervisor has not spoken yet");
    metrics.written(Some(&ended), &with(&measured));
    metrics.written(Some(&measured), &with(&next));
    assert_eq!(work(&metrics), (30.0, 70.0, 0.0));

    // Its node is lost, and with it what the supervisor left: the promise counts once the next attempt begins.
    let metrics = Metrics::new();
    metrics.written(Some(&runs), &with(&ended));
    metrics.written(Some(&ended), &with(&next));
    metrics.written(Some(&next), &with(&next));
    let (useful, lost, _) = work(&metrics);
    assert_eq!(useful + lost, 100.0, "{useful} {lost}");

    // Without the supervisor nothing more is found out.
    let metrics = Metrics::new();
    let plain = |attempt: &Attempt| Attempt { supervised: false, ..attempt.clone() };
    metrics.written(Some(&plain(&runs)), &with(&plain(&ended)));
    metrics.written(Some(&plain(&ended)), &with(&plain(&next)));
    let (useful, lost, _) = work(&metrics);
    assert_eq!(useful + lost, 100.0, "{useful} {lost}");
}

/// A ScavengerJob that is deleted before its supervisor has said what its last attempt lost.
#[test]
fn the_last_attempt_of_one_that_is_gone_counts() {
    let metrics = Metrics::new();
    let mut sj = measured(30, 40);
    metrics.gone(&sj);
    let attempt = sj.status.attempt.as_mut().unwrap();
    (attempt.measured, attempt.outcome) = (Measured::default(), Some(Outcome::Interrupted));
    attempt.demand = Demand {
        per_pod: Resources { cpu_milli: 1000, ..Resources::default() },
        ..(*attempt.demand).clone()
    }
    .into();
    metrics.gone(&sj);
    let (useful, lost, _) = work(&metrics);
    assert_eq!(useful + lost, 100.0, "the promise counts: {useful} {lost}");
    let text = metrics.render().unwrap();
    // What was not measured is not said to be.
    let line = r#"scavenger_attempt_lost_seconds_total{namespace="lab",cause="Headroom"} 30.0"#;
    assert!(text.lines().any(|written| written == line), "{line} is not in {text}");
}

/// Every string under a key, however deep.
fn strings(value: &Value, wanted: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == wanted => found.push(text.clone()),
                    other => strings(other, wanted, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, wanted, found)),
        _ => {}
    }
}

/// Names in an expression that are ours, with the labels by which each is selected.
fn named(expression: &str) -> Vec<(String, Vec<String>)> {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (start, _) in expression.match_indices("scavenger_") {
        if expression[..start].ends_with(letter) {
            continue;
        }
        let rest = &expression[start..];
        let (name, rest) = rest.split_at(rest.find(|c| !letter(c)).unwrap_or(rest.len()));
        let selector = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(s, _)| s);
        let labels = selector
            .split(',')
            .filter_map(|matcher| matcher.split_once(['=', '!']))
            .map(|(label, _)| label.trim().to_owned());
        found.push((name.to_owned(), labels.collect()));
    }
    found
}

/// Labels by which an expression groups.
fn grouped(expression: &str) -> Vec<String> {
    let mut labels = Vec::new();
    for part in expression.split("by (").skip(1) {
        let inside = part.split_once(')').map_or(part, |(inside, _)| inside);
        labels.extend(inside.split(',').map(|label| label.trim().to_owned()));
    }
    labels
}

fn check(expressions: &[String]) {
    let served = served();
    for expression in expressions {
        let names = named(expression);
        // Not the operator's to serve: what kube-state-metrics says, and what the submitter and the process are known by.
        let others = ["kube_cronjob_", "kube_deployment_", "kube_pod_", "gromacs_submitter_", "process_"];
        let of_others = others.iter().any(|prefix| expression.contains(prefix));
        assert!(!names.is_empty() || of_others, "this names no metric of the operator: {expression}");
        let mut known: BTreeSet<String> = ["le".to_owned()].into();
        for (name, labels) in names {
            let has = served.get(&name).unwrap_or_else(|| panic!("{name} is not served: {expression}"));
            for label in labels {
                assert!(has.contains(&label), "{name} has no label {label}: {expression}");
            }
            known.extend(has.iter().cloned());
        }
        for label in grouped(expression) {
            assert!(known.contains(&label), "nothing has the label {label}: {expression}");
        }
    }
}

#[test]
fn the_dashboard_names_what_is_served() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut expressions = Vec::new();
    strings(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 20, "only {} expressions were found", expressions.len());
    check(&expressions);
}

/// The queries of docs/report.md, each on one line.
fn report() -> Vec<String> {
    let blocks = REPORT.split("```promql\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(|block| block.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_page_about_the_report_names_what_is_served() {
    let report = report();
    assert!(report.len() > 8, "only {} queries were found", report.len());
    check(&report);
    for query in report {
        for reason in query.split("reason=").skip(1) {
            let reasons = reason.split('"').nth(1).unwrap_or_default();
            for name in reasons.split('|') {
                assert!(
                    scavenger_vocabulary::Reason::ALL.iter().any(|known| known.name() == name),
                    "{name} is no reason: {query}"
                );
            }
        }
    }
}

#[test]
fn the_dashboard_has_the_queries_of_the_report() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut expressions = Vec::new();
    strings(&dashboard, "expr", &mut expressions);
    for query in report() {
        // Instead of 30 days the time range of the dashboard.
        let shown = query.replace("[30d", "[$__range");
        assert!(expressions.contains(&shown), "it has no panel with {shown}");
    }
}

#[test]
fn no_panel_of_the_dashboard_covers_another() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_i64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have the same id");
    let mut taken = BTreeMap::new();
    for panel in panels {
        let [x, y, width, height] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_i64().unwrap());
        for place in (x..x + width).flat_map(|column| (y..y + height).map(move |row| (column, row))) {
            if let Some(other) = taken.insert(place, &panel["title"]) {
                panic!("{} covers {other}", panel["title"]);
            }
        }
    }
}

#[test]
fn the_alert_rules_name_what_is_served() {
    let rules: Value = serde_saphyr::from_str(RULES).unwrap();
    let (mut expressions, mut alerts) = (Vec::new(), Vec::new());
    strings(&rules, "expr", &mut expressions);
    strings(&rules, "alert", &mut alerts);
    check(&expressions);
    for alert in [
        "ScavengerOperatorDown",
        "ScavengerPodsUnserved",
        "ScavengerGuardFailing",
        "ScavengerWatchTooOld",
        "ScavengerWritesFailing",
        "ScavengerQueueStuck",
        "ScavengerNodesClosed",
        "ScavengerNodeOverdue",
        "ScavengerJobsStarved",
        "ScavengerInterruptionsHeldBack",
        "ScavengerDeletionStuck",
        "ScavengerLostWorkHigh",
        "ScavengerNodeAgentFailing",
        "ScavengerNodeAgentMissing",
        "ScavengerTunerUnavailable",
        "GromacsSubmitterUnavailable",
        "GromacsSubmitterDatabaseFailing",
    ] {
        assert!(alerts.iter().any(|name| name == alert), "{alert} is missing");
    }
}

/// Every metric by the name that people know it by.
fn metrics() -> BTreeSet<String> {
    let samples = served().into_keys().filter(|name| !name.ends_with("_sum") && !name.ends_with("_count"));
    samples.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn every_metric_is_shown_and_explained() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut expressions = Vec::new();
    strings(&dashboard, "expr", &mut expressions);
    let shown = expressions.join(" ");
    let metrics = metrics();
    assert!(metrics.len() > 20, "{metrics:?}");
    for metric in &metrics {
        assert!(shown.contains(metric), "{metric} is on no panel of the dashboard");
    }
    assert_explained(&filled().render().unwrap(), "The operator");
}

/// The sum of a histogram.
fn sum(metrics: &Metrics, histogram: &str) -> f64 {
    let text = metrics.render().unwrap();
    let of = |line: &str| line.strip_prefix(&format!("{histogram}_sum "))?.parse().ok();
    text.lines().find_map(of).unwrap()
}

#[test]
fn who_queued_for_hours_waited_for_hours() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let metrics = Metrics::new();
    let demand = Demand { per_pod: Resources::default(), pod_count: 1, placement: Placement::default() };
    let attempt = Attempt { start_time: Some(at(36_002)), ..Attempt::first(demand.into(), at(36_000)) };
    let mut status = ScavengerJobStatus { attempt: Some(Box::new(attempt)), ..ScavengerJobStatus::default() };
    metrics.started(at(0), &status);
    assert_eq!(sum(&metrics, "scavenger_start_latency_seconds"), 36_002.0);
    assert_eq!(sum(&metrics, "scavenger_launch_duration_seconds"), 2.0);
    // From then on, since it was interrupted.
    status.interruption_times = vec![at(100), at(35_902)];
    metrics.started(at(0), &status);
    assert_eq!(sum(&metrics, "scavenger_start_latency_seconds"), 36_102.0);
}

#[test]
fn what_a_plan_and_an_action_may_take_is_within_the_buckets() {
    let metrics = Metrics::new();
    metrics.planned(std::time::Duration::from_secs(2));
    metrics.action("any", &Err(Failure::Gone), std::time::Duration::from_secs(20));
    let text = metrics.render().unwrap();
    for histogram in ["scavenger_plan_duration_seconds", "scavenger_action_duration_seconds"] {
        let buckets = text.lines().filter(|line| line.starts_with(&format!("{histogram}_bucket")));
        let mut finite = buckets.filter(|line| !line.contains("+Inf"));
        assert!(finite.next_back().is_some_and(|last| last.ends_with(" 1")), "{histogram}:\n{text}");
    }
}

/// A watch that is too old fails the liveness probe, and with the process its age is gone.
#[test]
fn the_alert_of_old_watches_comes_before_the_restart() {
    let rules: Value = serde_saphyr::from_str(RULES).unwrap();
    let alerts = rules["groups"][0]["rules"].as_array().unwrap();
    let alert = alerts.iter().find(|rule| rule["alert"] == "ScavengerWatchTooOld").unwrap();
    let limit: i64 = alert["expr"].as_str().unwrap().rsplit_once("> ").unwrap().1.parse().unwrap();
    let lasting: SignedDuration = alert["for"].as_str().unwrap().parse().unwrap();
    // Prometheus reads and judges every 15 s to 30 s.
    let late = SignedDuration::from_secs(limit + 30) + lasting;
    assert!(late < crate::cli::default_max_watch_age(), "{late:#} is too late");
    assert!(limit > 90, "a healthy watch reaches more than a minute");
}

#[test]
fn expressions_are_read_as_prometheus_reads_them() {
    let expression =
        r#"sum by (le, task) (rate(scavenger_a_total{result=~"x|y",task!="z"}[5m])) / my_scavenger_b"#;
    assert_eq!(
        named(expression),
        [("scavenger_a_total".to_owned(), vec!["result".to_owned(), "task".to_owned()])]
    );
    assert_eq!(grouped(expression), ["le", "task"]);
}

/// The figures of a pool, given as the planner reports them.
fn figures(allocatable: &Resources, used: &Resources, groups: Vec<GroupReport<'_>>) -> Metrics {
    let metrics = Metrics::new();
    let counts = Counts::default();
    let (node, closed) = ("n1".into(), Closed::ByAdmin("its disk is replaced".into()));
    let pool = PoolReport {
        settings: Err("none"),
        allocatable,
        used: used.clone(),
        pending_requests: used.clone(),
        limit: Resources::default(),
        nodes: Vec::new(),
        groups,
        counts: &counts,
        oldest_ready: Timestamp::from_second(40).ok(),
        longest_deletion: None,
        starved: 2,
        unsupported_pods: Vec::new(),
        closed_nodes: vec![(&node, &closed)],
        leaving_nodes: Vec::new(),
        overdue_nodes: 1,
        without_supervisor: None,
        measuring_memory: Measuring::No,
        usage: None,
        held_back: Vec::new(),
        shares: None,
    };
    metrics.pool(&pool, Timestamp::from_second(100).unwrap());
    metrics
}

#[test]
fn ages_are_those_of_the_oldest() {
    let none = Resources::default();
    let text = figures(&none, &none, Vec::new()).render().unwrap();
    for line in [
        "scavenger_starved_jobs 2",
        "scavenger_closed_nodes{reason=\"Admin\"} 1",
        "scavenger_closed_nodes{reason=\"Memory\"} 0",
        "scavenger_overdue_nodes 1",
        "scavenger_oldest_waiting_seconds 60.0",
        "scavenger_longest_deletion_seconds 0.0",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in {text}");
    }
    assert!(text.contains("scavenger_build_info{version=\""), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn what_ended_is_counted_by_namespace() {
    let metrics = Metrics::new();
    let sj = measured(3, 10);
    for namespace in ["lab", "lab", "chem"] {
        metrics.event(Event::Interrupted, namespace, &sj.status);
    }
    let text = metrics.render().unwrap();
    let line = r#"scavenger_interruptions_total{namespace="lab",reason="Headroom"} 2"#;
    assert!(text.lines().any(|written| written == line), "{line} is not in {text}");
}

#[test]
fn amounts_are_in_base_units() {
    let resources = Resources { cpu_milli: 1500, memory_bytes: 1 << 30, pods: 3, ..Resources::default() };
    let text = figures(&resources, &resources, Vec::new()).render().unwrap();
    for line in [
        "scavenger_pool_used{resource=\"cpu\",unit=\"core\"} 1.5",
        "scavenger_pool_used{resource=\"memory\",unit=\"byte\"} 1073741824.0",
        "scavenger_pool_used{resource=\"pods\",unit=\"integer\"} 3.0",
        "scavenger_pool_pending_requests{resource=\"cpu\",unit=\"core\"} 1.5",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in {text}");
    }
}

#[test]
fn nodes_with_the_same_taints_have_figures_of_their_own() {
    let cores = |cores: i64| Resources { cpu_milli: cores * 1000, ..Resources::default() };
    let (all, half) = (cores(64), cores(32));
    let group = |taints: &str| GroupReport {
        taints: taints.to_owned(),
        allocatable: &half,
        used: &half,
        limit: cores(22),
    };
    let metrics = figures(&all, &half, vec![group(""), group("nvidia.com/gpu:NoSchedule")]);
    let text = metrics.render().unwrap();
    for line in [
        "scavenger_pool_group_allocatable{taints=\"\",resource=\"cpu\",unit=\"core\"} 32.0",
        "scavenger_pool_group_used{taints=\"nvidia.com/gpu:NoSchedule\",resource=\"cpu\",unit=\"core\"} 32.0",
        "scavenger_pool_group_start_threshold{taints=\"\",resource=\"cpu\",unit=\"core\"} 22.0",
    ] {
        assert!(text.lines().any(|written| written == line), "{line} is not in {text}");
    }
}

#[test]
fn the_memory_of_the_whole_process_is_served() {
    let text = Metrics::new().render().unwrap();
    let value = |name: &str| -> i64 {
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
    };
    let now = value("process_resident_memory_bytes ");
    assert!(now > 1 << 20, "{text}");
    assert!(value("scavenger_peak_resident_memory_bytes ") >= now / 2, "{text}");
}
