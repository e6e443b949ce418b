use proptest::prelude::*;

use super::*;

fn spec(cpu: &str) -> scavenger_job::ScavengerJobSpec {
    serde_json::from_value(serde_json::json!({
        "image": "counter",
        "resources": { "requests": { "cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": 1 } },
        "interruptionAfter": "10m",
        "tolerations": [{ "key": "gpu", "operator": "Exists" }, { "key": "a", "value": "b", "effect": "NoSchedule" }],
    }))
    .unwrap()
}

#[test]
fn a_spec_becomes_numbers() {
    let checked = sj_spec(&spec("1500m")).unwrap();
    assert_eq!(checked.interruption_after, SignedDuration::from_secs(600));
    assert_eq!(checked.demand.pod_count, 1);
    let per_pod = &checked.demand.per_pod;
    assert_eq!((per_pod.cpu_milli, per_pod.memory_bytes, per_pod.pods), (1500, 1 << 30, 1));
    assert_eq!(per_pod.other.get("nvidia.com/gpu"), Some(&1));
    let tolerations = &checked.demand.placement.tolerations;
    assert_eq!(tolerations[0].value, None);
    assert_eq!(tolerations[1].value.as_deref(), Some("b"));
}

#[test]
fn what_may_change_at_any_time_has_its_defaults_and_bounds() {
    assert_eq!(controls(&spec("1")), Controls::default());
    let mut absurd = spec("1");
    absurd.active_deadline_seconds = Some(i64::MAX);
    absurd.ttl_seconds_after_finished = i64::MIN;
    let controls = controls(&absurd);
    assert_eq!(controls.active_deadline, Some(LONGEST));
    assert_eq!(controls.ttl_after_finished, SignedDuration::ZERO);
}

#[test]
fn a_bad_quantity_names_its_field() {
    let error = sj_spec(&spec("many")).unwrap_err();
    assert!(error.to_string().starts_with("spec.resources.requests.cpu: \"many\" is not"), "{error}");
}

#[test]
fn a_pool_without_settings_has_the_documented_ones() {
    let pool: ScavengerPoolSpec = serde_json::from_str("{}").unwrap();
    assert_eq!(pool, ScavengerPoolSpec::default());
    let settings = settings(&pool, Some(3)).unwrap();
    assert_eq!(settings.start_thresholds.default.to_string(), "70%");
    assert_eq!(settings.pending_timeout, SignedDuration::from_secs(60));
    assert_eq!(settings.headroom.interrupt_threshold.unwrap().to_string(), "90%");
    assert_eq!(settings.headroom.target.to_string(), "85%");
    let disk = resources("", &[("ephemeral-storage".to_owned(), "1Ti".into())].into()).unwrap();
    assert_eq!(settings.weights.weigh(&disk), 0, "no work is measured in scratch space");
}

#[test]
fn a_pool_names_no_label_and_no_taint_that_a_node_cannot_have() {
    let pool = |text: &str| settings(&serde_json::from_str::<ScavengerPoolSpec>(text).unwrap(), None);
    for (bad, said) in [
        (r#"{ "nodeSelector": { "a b": "c" } }"#, "spec.nodeSelector: key \"a b\" must be a name"),
        (r#"{ "nodeSelector": { "disk": "../x" } }"#, "spec.nodeSelector[disk] \"../x\" must be at most 63"),
    ] {
        let error = pool(bad).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
    // Nothing has such a taint. A Job that tolerated it would be refused, and with it every ScavengerJob.
    let settings = pool(r#"{ "toleratedTaints": ["a b", "nvidia.com/gpu", "../x"] }"#).unwrap();
    assert_eq!(settings.tolerated_taints, ["nvidia.com/gpu".into()]);
}

#[test]
fn a_scavenger_job_that_was_stored_with_another_name_is_wrong() {
    let job = |name: &str| {
        let spec = spec("1");
        let mut job = scavenger_job::ScavengerJob::new(name, spec);
        job.metadata.namespace = Some("lab".to_owned());
        sj(&job).map_err(|error| error.to_string())
    };
    assert!(job("water-1").is_ok());
    assert!(job("1abc").unwrap_err().starts_with("metadata.name \"1abc\" must be a DNS-1035 label"));
}

#[test]
fn headroom_can_be_switched_off_and_must_lie_above_the_start_threshold() {
    let pool = |text: &str| settings(&serde_json::from_str::<ScavengerPoolSpec>(text).unwrap(), None);
    let off = pool(r#"{ "interruptThreshold": null, "startThreshold": 0.95 }"#).unwrap();
    assert_eq!(off.headroom.interrupt_threshold, None);
    for off in [
        r#"{ "interruptThreshold": 1, "startThreshold": 1 }"#,
        r#"{ "interruptThresholdOverrides": { "gpu": 1 }, "startThresholdOverrides": { "gpu": 1 } }"#,
    ] {
        assert!(pool(off).is_ok(), "{off}");
    }
    for (bad, resource) in [
        (r#"{ "startThreshold": 0.95 }"#, "cpu"),
        (r#"{ "headroomTarget": 0.9 }"#, "cpu"),
        (r#"{ "headroomTargetOverrides": { "memory": 0.6 } }"#, "memory"),
        (r#"{ "interruptThresholdOverrides": { "gpu": 0.8 } }"#, "gpu"),
    ] {
        let error = pool(bad).unwrap_err();
        assert_eq!(error, SpecError::Headroom { resource: resource.to_owned() }, "{bad}");
    }
    let gpu = r#"{ "startThresholdOverrides": { "gpu": 1 } }"#;
    assert!(pool(gpu).is_ok(), "an extended resource has no headroom unless it is named");
}

#[test]
fn a_budget_is_a_number_or_a_share_in_a_time() {
    let pool = |budget: &str| {
        let text = format!(r#"{{ "disruptionBudgets": [{budget}] }}"#);
        settings(&serde_json::from_str::<ScavengerPoolSpec>(&text).unwrap(), None).map(|pool| pool.budgets)
    };
    let read = |budget: &str| pool(budget).unwrap().remove(0);
    let all = Budget {
        reasons: Vec::new(),
        share: Share::from_fraction(0.0),
        at_least: 5,
        period: SignedDuration::from_secs(10),
        schedule: None,
    };
    assert_eq!(read(r#"{ "jobs": 5 }"#), all);
    assert_eq!(read(r#"{ "jobs": "5", "period": "1h" }"#).period, SignedDuration::from_hours(1));
    for (jobs, share, at_least) in [("10%", 0.1, 1), ("0%", 0.0, 0), ("100%", 1.0, 1), ("0", 0.0, 0)] {
        let budget = read(&format!(r#"{{ "jobs": "{jobs}" }}"#));
        assert_eq!((budget.share, budget.at_least), (Share::from_fraction(share), at_least), "{jobs}");
    }
    let named = read(
        r#"{ "jobs": 0, "reasons": ["Headroom"],
             "schedule": { "days": ["Sat"], "start": "08:00", "end": "18:00", "timeZone": "Europe/Berlin" } }"#,
    );
    assert_eq!(named.reasons, [Reason::Headroom]);
    assert!(
        named
            .schedule
            .is_some_and(|schedule| schedule.days == [false, false, false, false, false, true, false])
    );
    for (bad, said) in [
        (r#"{ "jobs": "few" }"#, "needs a number of jobs, or a share such as 10%"),
        (r#"{ "jobs": -1 }"#, "needs a number of jobs, or a share such as 10%"),
        (r#"{ "jobs": 1, "reasons": ["Drained"] }"#, "names a reason for which nobody can wait"),
        (r#"{ "jobs": 1, "period": "0s" }"#, "needs a period of at least 1s"),
        (
            r#"{ "jobs": 1, "schedule": { "start": "8 am", "end": "18:00" } }"#,
            "start \"8 am\" must be hours and minutes, for example 06:00",
        ),
    ] {
        let error = pool(bad).unwrap_err().to_string();
        assert!(error.ends_with(said) && error.contains("spec.disruptionBudgets"), "{error}");
    }
}

#[test]
fn a_window_has_what_it_names_and_else_what_the_pool_has() {
    let pool = |windows: &str| {
        let text = format!(
            r#"{{ "startThreshold": 0.6, "startThresholdOverrides": {{ "gpu": 1, "memory": 0.5 }}, "windows": {windows} }}"#
        );
        settings(&serde_json::from_str::<ScavengerPoolSpec>(&text).unwrap(), None)
    };
    let berlin = r#"[{ "name": "nights", "days": ["Mon", "Sun"], "start": "20:00", "end": "06:00",
        "timeZone": "Europe/Berlin", "startThreshold": 0.8, "startThresholdOverrides": { "memory": 0.7 } }]"#;
    let settings = pool(berlin).unwrap();
    assert_eq!(
        (settings.window.as_deref(), settings.start_thresholds.default.to_string().as_str()),
        (None, "60%")
    );
    // A Sunday in summer, when clocks in Berlin are two hours ahead.
    let open = settings.at("2026-07-05T18:00:00Z".parse().unwrap());
    assert_eq!(open.window.as_deref(), Some("nights"));
    let share = |resource| open.start_thresholds.share(resource).to_string();
    assert_eq!([share("cpu"), share("memory"), share("gpu")], ["80%", "70%", "100%"]);
    assert_eq!(open.headroom.target.to_string(), "85%");
    assert_eq!(open.clone().at("2026-07-07T18:00:00Z".parse().unwrap()).window, None, "a Tuesday");

    for (bad, said) in [
        (
            r#"[{ "name": "a", "start": "20:00", "end": "06:00", "timeZone": "Europe/Atlantis" }]"#,
            "window \"a\" of spec.windows: timeZone \"Europe/Atlantis\" is unknown: name one of the IANA database, for \
             example Europe/Berlin",
        ),
        (
            r#"[{ "name": "a", "start": "20:00", "end": "06:00", "startThreshold": 0.95 }]"#,
            "window \"a\" of spec.windows: spec.headroomTarget of cpu must be at least its start threshold and below \
             its interrupt threshold",
        ),
        (
            r#"[{ "name": "a", "start": "8 pm", "end": "06:00" }]"#,
            "window \"a\" of spec.windows: start \"8 pm\" must be hours and minutes, for example 06:00",
        ),
    ] {
        assert_eq!(pool(bad).unwrap_err().to_string(), said);
    }
    let off = r#"[{ "name": "a", "start": "20:00", "end": "06:00", "startThreshold": 0.95, "interruptThreshold": 1 }]"#;
    assert!(pool(off).is_ok(), "nobody is interrupted for headroom");
}

#[test]
fn a_group_of_nodes_has_what_it_names_and_else_what_the_pool_has() {
    let pool = |groups: &str| {
        let text = format!(r#"{{ "startThreshold": 0.6, "nodeGroups": {groups} }}"#);
        settings(&serde_json::from_str::<ScavengerPoolSpec>(&text).unwrap(), None)
    };
    let settings = pool(
        r#"[{ "name": "fast", "nodeSelector": { "net": "fast" }, "startThreshold": 0.3, "headroomTarget": 0.4 },
            { "name": "all", "nodeSelector": { "net": "fast", "kind": "cpu" }, "startThresholdOverrides": { "gpu": 1 } }]"#,
    )
    .unwrap();
    let [fast, all] = &settings.node_groups[..] else { panic!("two groups: {settings:?}") };
    assert_eq!((&*fast.name, fast.node_selector.len(), all.node_selector.len()), ("fast", 1, 2));
    let share = |group: &NodeGroup, resource| group.filling.start_thresholds.share(resource).to_string();
    assert_eq!([share(fast, "cpu"), share(all, "cpu"), share(all, "gpu")], ["30%", "60%", "100%"]);
    assert_eq!(fast.filling.headroom.target.to_string(), "40%");
    assert_eq!(fast.filling.headroom.interrupt_threshold.unwrap().to_string(), "90%");
    let bad = r#"[{ "name": "a", "nodeSelector": { "a": "b" }, "startThreshold": 0.95 }]"#;
    assert_eq!(
        pool(bad).unwrap_err().to_string(),
        "group \"a\" of spec.nodeGroups: spec.headroomTarget of cpu must be at least its start threshold and below its \
         interrupt threshold"
    );
}

/// A duration as the schema takes it, with what it says in seconds.
fn duration() -> impl Strategy<Value = (String, f64)> {
    let part = (0..100_000_u32, 0..4_usize).prop_map(|(number, unit)| {
        let (name, seconds) = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)][unit];
        (format!("{number}{name}"), f64::from(number) * seconds)
    });
    prop::collection::vec(part, 1..5).prop_map(|parts| {
        let text = parts.iter().map(|(text, _)| text.as_str()).collect();
        (text, parts.iter().map(|(_, seconds)| seconds).sum())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn a_duration_is_what_it_says_within_its_bounds((text, says) in duration()) {
        let mut sj = serde_json::to_value(spec("1")).unwrap();
        sj["interruptionAfter"] = text.as_str().into();
        let taken = sj_spec(&serde_json::from_value(sj).unwrap());
        if says < 0.999_5 {
            prop_assert!(taken.is_err(), "{} is too short", text);
        } else {
            let is = taken.unwrap().interruption_after;
            let wanted = says.min(LONGEST.as_secs_f64());
            prop_assert!((is.as_secs_f64() - wanted).abs() < 0.001, "{} became {:#}", text, is);
        }
        let pool = serde_json::from_value(serde_json::json!({ "pendingTimeout": text })).unwrap();
        let timeout = settings(&pool, Some(3)).unwrap().pending_timeout;
        prop_assert!((SignedDuration::ZERO..=LONGEST).contains(&timeout), "{} became {:#}", text, timeout);
    }

    /// Text that the API server would refuse, too: an older definition may have let it in.
    #[test]
    fn no_text_breaks_a_spec(text in r"[-+]?[0-9.]{0,25}[a-zA-Zµ]{0,3}|.*") {
        let mut sj = serde_json::to_value(spec("1")).unwrap();
        sj["resources"]["requests"]["memory"] = text.as_str().into();
        if let Ok(checked) = sj_spec(&serde_json::from_value(sj.clone()).unwrap()) {
            prop_assert!(checked.demand.per_pod.memory_bytes >= 0);
        }
        sj["resources"]["requests"]["memory"] = 1.into();
        sj["interruptionAfter"] = text.as_str().into();
        if let Ok(read) = serde_json::from_value::<scavenger_job::ScavengerJobSpec>(sj)
            && let Ok(checked) = sj_spec(&read)
        {
            prop_assert!((SignedDuration::from_secs(1)..=LONGEST).contains(&checked.interruption_after));
        }
        let pool = serde_json::json!({ "startDeadline": text, "referenceGrace": text, "refusalGrace": text, "reserveAfter": text });
        if let Ok(pool) = serde_json::from_value::<ScavengerPoolSpec>(pool) {
            let settings = settings(&pool, Some(3)).unwrap();
            prop_assert!((SignedDuration::ZERO..=LONGEST).contains(&settings.start_deadline));
        }
    }

    #[test]
    fn a_share_outside_its_bounds_never_counts_as_more_than_all(number in any::<f64>()) {
        let pool = ScavengerPoolSpec {
            start_threshold: number,
            interrupt_threshold: None,
            weights: [(CPU.to_owned(), number)].into(),
            ..ScavengerPoolSpec::default()
        };
        let settings = settings(&pool, Some(3)).unwrap();
        let whole = Resources { cpu_milli: i64::MAX, ..Resources::default() };
        let part = settings.start_thresholds.of(&whole).cpu_milli;
        prop_assert!((0..=whole.cpu_milli).contains(&part), "{} of all is {}", number, part);
    }
}

#[test]
fn tenants_are_read_as_they_are_written_and_a_pool_that_names_none_has_none() {
    let read = |spec: serde_json::Value| {
        let spec: ScavengerPoolSpec = serde_json::from_value(spec).unwrap();
        settings(&spec, Some(1)).unwrap().sharing
    };
    assert_eq!(read(serde_json::json!({})), None);
    let sharing = read(serde_json::json!({
        "order": "FairShare", "tenantLabel": "example.org/group", "shareHalfLife": "24h",
        "tenants": [{ "name": "chem", "weight": 2, "maxShare": 0.25 }, { "name": "guests", "paused": true }],
    }))
    .unwrap();
    assert_eq!((sharing.order, sharing.label.as_deref()), (Order::FairShare, Some("example.org/group")));
    assert_eq!(sharing.half_life, SignedDuration::from_hours(24));
    let chem = Tenant {
        weight: Weight::from_number(2.0),
        max_share: Some(Share::from_fraction(0.25)),
        paused: false,
    };
    let guests = Tenant { paused: true, ..Tenant::default() };
    assert_eq!(sharing.tenants, [("chem".into(), chem), ("guests".into(), guests)].into());
    let limits = read(serde_json::json!({ "tenants": [{ "name": "chem" }] })).unwrap();
    assert_eq!((limits.order, limits.half_life), (Order::Interruptions, SignedDuration::from_hours(168)));
}
