//! deploy/monitoring against the operator's own metrics: whatever dashboard and alert rules name is served.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;

const DASHBOARD: &str = include_str!("../../../deploy/monitoring/dashboard.json");
const RULES: &str = include_str!("../../../deploy/monitoring/rules.yaml");

/// Names of all samples, with the names of their labels.
fn served() -> BTreeMap<String, BTreeSet<String>> {
    let metrics = Metrics::new();
    // A family without a member is not served.
    for family in [&metrics.interruptions, &metrics.withdrawals, &metrics.failures] {
        drop(family.get_or_create(&Reason { reason: "Any".to_owned() }));
    }
    drop(metrics.waiting.get_or_create(&Reason { reason: "Any".to_owned() }));
    drop(metrics.phases.get_or_create(&PhaseLabel { phase: "Any" }));
    drop(metrics.actions.get_or_create(&ActionLabels { task: "any", result: "ok" }));
    for family in [&metrics.useful_work, &metrics.lost_work] {
        drop(family.get_or_create(&ResourceLabel { resource: "cpu".to_owned() }));
    }
    for family in [&metrics.allocatable, &metrics.used, &metrics.threshold] {
        drop(family.get_or_create(&ResourceLabel { resource: "cpu".to_owned() }));
    }
    drop(metrics.watch_age.get_or_create(&KindLabel { kind: "any" }));
    let mut served = BTreeMap::<String, BTreeSet<String>>::new();
    for line in metrics.render().unwrap().lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter_map(|pair| pair.split_once('='));
        served.entry(name.to_owned()).or_default().extend(labels.map(|(label, _)| label.to_owned()));
    }
    served
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
        // What kube-state-metrics says of the guard is not ours to serve.
        let of_the_guard = expression.contains("kube_cronjob_");
        assert!(!names.is_empty() || of_the_guard, "this names no metric of the operator: {expression}");
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
    ] {
        assert!(alerts.iter().any(|name| name == alert), "{alert} is missing");
    }
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
