//! From raw specs to checked planner values. What the API server could not check is found here, once; later steps can
//! not fail on input.

use std::collections::BTreeMap;

use jiff::{SignedDuration, civil::Time, tz::TimeZone};
use scavenger_planner::{
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, Share, Thresholds},
    values::{
        Accounting, Calendar, Controls, Demand, Filling, Headroom, Name, NodeGroup, Placement,
        PreemptionMode, Rank, ScavengerJobSpec, Settings, SupervisionSpec, Supervisor, Toleration,
        UsageRules, Window,
    },
    weights::{Weight, Weights},
};
use scavenger_schema::{
    quantity::QuantityError,
    scavenger_job::{self, Quantity, TaintEffect, TolerationOperator},
    scavenger_pool::{self as crd, ScavengerPoolSpec, ThresholdWindow},
    supervisor::Switch,
};
use thiserror::Error;

/// Seconds of work that a restart costs if `spec.checkpoint` does not say.
const DEFAULT_RESTART_SECONDS: i64 = 60;

/// Weights of resources for which `spec.weights` names none: of a core, and of a GiB of memory, since a core usually
/// comes with 8 GiB. Scratch space is worth nothing: nobody's work is measured in it.
const DEFAULT_WEIGHTS: [(&str, f64); 3] = [(CPU, 1.0), (MEMORY, 0.125), (EPHEMERAL_STORAGE, 0.0)];

/// The same for a unit of any extended resource: a GPU usually comes with 8 cores or more.
const DEFAULT_EXTENDED_WEIGHT: f64 = 8.0;

/// Why a spec cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum SpecError {
    #[error("{field}: {source}")]
    ReadQuantity { field: String, source: QuantityError },
    #[error("{field} must be at least {least}")]
    TooSmall { field: &'static str, least: &'static str },
    #[error(
        "spec.headroomTarget of {resource} must be at least its start threshold and below its interrupt threshold"
    )]
    Headroom { resource: String },
    #[error("window {name:?} of spec.windows: {source}")]
    Window { name: String, source: Box<SpecError> },
    #[error("group {name:?} of spec.nodeGroups: {source}")]
    NodeGroup { name: String, source: Box<SpecError> },
    #[error("timeZone {0:?} is unknown: name one of the IANA database, for example Europe/Berlin")]
    TimeZone(String),
    #[error("{field} {text:?} must be hours and minutes, for example 06:00")]
    TimeOfDay { field: &'static str, text: String },
}

/// What the planner needs to know of a ScavengerJob's spec.
pub(crate) fn sj_spec(spec: &scavenger_job::ScavengerJobSpec) -> Result<ScavengerJobSpec, SpecError> {
    let mut per_pod = resources("spec.resources.requests", &spec.resources.requests)?;
    per_pod.pods = 1;
    let pod_count = u32::try_from(spec.pod_count)
        .ok()
        .filter(|count| *count > 0)
        .ok_or(SpecError::TooSmall { field: "spec.podCount", least: "1" })?;
    let interruption_after = signed(spec.interruption_after);
    if interruption_after < SignedDuration::from_secs(1) {
        return Err(SpecError::TooSmall { field: "spec.interruptionAfter", least: "1s" });
    }
    let checkpoint = spec.checkpoint.as_ref();
    let restart_seconds = checkpoint.map_or(DEFAULT_RESTART_SECONDS, |checkpoint| checkpoint.restart_seconds);
    let placement = Placement {
        node_selector: names(&spec.node_selector),
        tolerations: spec
            .tolerations
            .iter()
            .map(|toleration| Toleration {
                key: toleration.key.as_deref().filter(|key| !key.is_empty()).map(Name::from),
                value: match toleration.operator {
                    Some(TolerationOperator::Exists) => None,
                    Some(TolerationOperator::Equal) | None => {
                        Some(toleration.value.as_deref().unwrap_or_default().into())
                    }
                },
                effect: toleration.effect.map(effect_name).map(Name::from),
            })
            .collect(),
        ..Placement::default()
    };
    let mut claims: Vec<Name> =
        spec.persistent_volume_claims.iter().map(|claim| claim.claim_name.as_str().into()).collect();
    // One that is mounted twice is one.
    claims.sort_unstable();
    claims.dedup();
    Ok(ScavengerJobSpec {
        claims,
        demand: Demand { per_pod, pod_count, placement }.into(),
        interruption_after,
        checkpoint_interval: checkpoint
            .and_then(|checkpoint| checkpoint.interval)
            .map(signed)
            .filter(|interval| *interval >= SignedDuration::from_secs(1)),
        saves_on_sigterm: checkpoint.is_some_and(|checkpoint| checkpoint.saves_on_sigterm),
        restart: SignedDuration::from_secs(restart_seconds.clamp(0, 86_400)),
        grace_period: SignedDuration::from_secs(spec.termination_grace_period_seconds.clamp(0, 86_400)),
        supervision: supervision(spec),
    })
}

/// What a ScavengerJob says about the supervisor. All of its pods mount the same claims, so what one pod of a gang writes
/// there all of them see: one rank counts. Elsewhere each pod has a checkpoint of its own, and the oldest counts.
fn supervision(spec: &scavenger_job::ScavengerJobSpec) -> SupervisionSpec {
    let checkpoint = spec.checkpoint.as_ref();
    let path = checkpoint.and_then(|checkpoint| checkpoint.path.as_deref());
    let is_below = |path: &str, mount: &str| {
        path.strip_prefix(mount.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
    };
    let is_on_claim = path.is_some_and(|path| {
        spec.persistent_volume_claims.iter().any(|claim| is_below(path, &claim.mount_path))
    });
    let named = checkpoint.and_then(|checkpoint| checkpoint.rank).and_then(|rank| u32::try_from(rank).ok());
    SupervisionSpec {
        enabled: spec.supervisor.as_ref().and_then(|supervisor| supervisor.enabled),
        has_command: !spec.command.is_empty(),
        names_checkpoint: path.is_some(),
        can_be_asked: path.is_some() && checkpoint.is_some_and(|checkpoint| checkpoint.request.is_some()),
        rank: named.or(is_on_claim.then_some(0)).map_or(Rank::Oldest, Rank::One),
    }
}

/// What of a ScavengerJob's spec may change at any time; its schema keeps the numbers in their bounds.
pub(crate) fn controls(spec: &scavenger_job::ScavengerJobSpec) -> Controls {
    Controls {
        suspend: spec.suspend,
        active_deadline: spec.active_deadline_seconds.map(bounded_seconds),
        ttl_after_finished: bounded_seconds(spec.ttl_seconds_after_finished),
    }
}

fn effect_name(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}

/// Settings of a pool.
pub(crate) fn settings(spec: &ScavengerPoolSpec) -> Result<Settings, SpecError> {
    let at_least_one = |field, value: i32| {
        usize::try_from(value)
            .ok()
            .filter(|value| *value > 0)
            .ok_or(SpecError::TooSmall { field, least: "1" })
    };
    at_least_one("spec.prioritySteps", spec.priority_steps)?;
    let Filling { start_thresholds, headroom } = filling(spec)?;
    let named =
        DEFAULT_WEIGHTS.into_iter().chain(spec.weights.iter().map(|(name, weight)| (name.as_str(), *weight)));
    Ok(Settings {
        node_selector: names(&spec.node_selector),
        tolerated_taints: spec.tolerated_taints.iter().map(|key| Name::from(key.as_str())).collect(),
        start_thresholds,
        max_concurrent_starts: at_least_one("spec.maxConcurrentStarts", spec.max_concurrent_starts)?,
        pending_timeout: signed(spec.pending_timeout),
        start_deadline: signed(spec.start_deadline),
        reference_grace: signed(spec.reference_grace),
        refusal_grace: signed(spec.refusal_grace),
        interruption_backoff: signed(spec.interruption_backoff),
        reserve_after: signed(spec.reserve_after),
        priority_steps: spec.priority_steps,
        weights: Weights {
            extended: Weight::from_number(DEFAULT_EXTENDED_WEIGHT),
            named: named.map(|(name, weight)| (name.into(), Weight::from_number(weight))).collect(),
        },
        headroom,
        calendar: calendar(spec)?.map(Box::new),
        window: None,
        node_groups: node_groups(spec)?,
        preemption_mode: match spec.preemption_mode {
            crd::PreemptionMode::Scheduler => PreemptionMode::Scheduler,
            crd::PreemptionMode::Operator => PreemptionMode::Operator,
        },
        paused: spec.paused,
        drain: spec.drain,
        supervisor: supervisor(spec),
        usage: usage(spec),
    })
}

/// The supervisor of a pool; none if it names none.
pub(crate) fn supervisor(spec: &ScavengerPoolSpec) -> Option<Supervisor> {
    spec.supervisor.as_ref().map(|supervisor| Supervisor {
        image: supervisor.image.as_str().into(),
        image_pull_secrets: supervisor.image_pull_secrets.iter().map(|name| name.as_str().into()).collect(),
        by_default: supervisor.default == Switch::On,
    })
}

/// Rules of accounting Usage; none if capacity is counted by requests.
fn usage(spec: &ScavengerPoolSpec) -> Option<Box<UsageRules>> {
    let rules = &spec.usage;
    let percent = |percent: i32| Share::from_fraction(f64::from(percent) / 100.0);
    (spec.accounting == Accounting::Usage).then(|| {
        Box::new(UsageRules {
            node_selector: names(&rules.node_selector),
            static_cpu_selector: names(&rules.static_cpu_node_selector),
            dry_run: rules.dry_run,
            window: signed(rules.window),
            half_life: signed(rules.half_life),
            percentile: percent(rules.percentile),
            margin: percent(rules.margin_percent),
            linger: signed(rules.linger),
            oldest_metrics: signed(rules.max_metrics_age),
            metrics_grace: signed(rules.metrics_grace_period),
            most_pods_per_node: u32::try_from(rules.max_pods_per_node).unwrap_or(0),
            grace_period: SignedDuration::from_secs(rules.max_termination_grace_period_seconds),
        })
    })
}

fn shares(fractions: &BTreeMap<String, f64>) -> BTreeMap<Name, Share> {
    fractions.iter().map(|(name, fraction)| (name.as_str().into(), Share::from_fraction(*fraction))).collect()
}

/// How far ScavengerJobs fill the pool, by the thresholds of the spec itself.
fn filling(spec: &ScavengerPoolSpec) -> Result<Filling, SpecError> {
    check_headroom(spec)?;
    Ok(Filling {
        start_thresholds: Thresholds {
            default: Share::from_fraction(spec.start_threshold),
            overrides: shares(&spec.start_threshold_overrides),
        },
        headroom: Headroom {
            interrupt_threshold: spec.interrupt_threshold.map(Share::from_fraction),
            interrupt_threshold_overrides: shares(&spec.interrupt_threshold_overrides),
            target: Share::from_fraction(spec.headroom_target),
            target_overrides: shares(&spec.headroom_target_overrides),
        },
    })
}

fn calendar(spec: &ScavengerPoolSpec) -> Result<Option<Calendar>, SpecError> {
    if spec.windows.is_empty() {
        return Ok(None);
    }
    let read = |window: &ThresholdWindow| {
        self::window(window, spec)
            .map_err(|source| SpecError::Window { name: window.name.clone(), source: source.into() })
    };
    let windows = spec.windows.iter().map(read).collect::<Result<_, _>>()?;
    Ok(Some(Calendar::new(windows, filling(spec)?)))
}

/// Thresholds of the pool with others where a window or a group of nodes has its own.
macro_rules! with_thresholds_of {
    ($own:expr, $pool:expr) => {{
        let (own, mut spec) = ($own, $pool.clone());
        spec.start_threshold = own.start_threshold.unwrap_or(spec.start_threshold);
        spec.start_threshold_overrides.extend(own.start_threshold_overrides.clone());
        spec.interrupt_threshold = own.interrupt_threshold.or(spec.interrupt_threshold);
        spec.interrupt_threshold_overrides.extend(own.interrupt_threshold_overrides.clone());
        spec.headroom_target = own.headroom_target.unwrap_or(spec.headroom_target);
        spec.headroom_target_overrides.extend(own.headroom_target_overrides.clone());
        filling(&spec)
    }};
}

fn node_groups(spec: &ScavengerPoolSpec) -> Result<Vec<NodeGroup>, SpecError> {
    let read = |group: &crd::NodeGroup| {
        let filling = with_thresholds_of!(group, spec)
            .map_err(|source| SpecError::NodeGroup { name: group.name.clone(), source: source.into() })?;
        Ok(NodeGroup {
            name: group.name.as_str().into(),
            node_selector: names(&group.node_selector),
            filling,
        })
    };
    spec.node_groups.iter().map(read).collect()
}

fn window(window: &ThresholdWindow, pool: &ScavengerPoolSpec) -> Result<Window, SpecError> {
    let time = |field, text: &str| {
        Time::strptime("%H:%M", text).map_err(|_| SpecError::TimeOfDay { field, text: text.to_owned() })
    };
    let mut days = [window.days.is_empty(); 7];
    for day in &window.days {
        days[*day as usize] = true;
    }
    Ok(Window {
        name: window.name.as_str().into(),
        days,
        start: time("start", &window.start)?,
        end: time("end", &window.end)?,
        time_zone: TimeZone::get(&window.time_zone)
            .map_err(|_| SpecError::TimeZone(window.time_zone.clone()))?,
        filling: with_thresholds_of!(window, pool)?,
    })
}

/// The rule that CEL states too, for a pool that was stored before the rule was there: ScavengerJobs must not be
/// started only to be interrupted.
fn check_headroom(spec: &ScavengerPoolSpec) -> Result<(), SpecError> {
    let of = |overrides: &BTreeMap<String, f64>, resource: &str, default: f64| {
        overrides.get(resource).copied().unwrap_or(default)
    };
    let named =
        spec.interrupt_threshold_overrides.iter().map(|(name, threshold)| (name.as_str(), *threshold));
    let default = spec.interrupt_threshold.into_iter().flat_map(|threshold| {
        [CPU, MEMORY, PODS]
            .into_iter()
            .filter(|name| !spec.interrupt_threshold_overrides.contains_key(*name))
            .map(move |name| (name, threshold))
    });
    for (resource, threshold) in named.chain(default) {
        // 1 switches it off: there is no order to keep.
        if threshold >= 1.0 {
            continue;
        }
        let target = of(&spec.headroom_target_overrides, resource, spec.headroom_target);
        let start = of(&spec.start_threshold_overrides, resource, spec.start_threshold);
        if !(start <= target && target < threshold) {
            return Err(SpecError::Headroom { resource: resource.to_owned() });
        }
    }
    Ok(())
}

/// A list of resources by name; cpu in millicores, everything else in whole units.
pub(crate) fn resources(field: &str, list: &BTreeMap<String, Quantity>) -> Result<Resources, SpecError> {
    let mut sum = Resources::default();
    for (name, quantity) in list {
        let read = |source| SpecError::ReadQuantity { field: format!("{field}.{name}"), source };
        match name.as_str() {
            CPU => sum.cpu_milli = quantity.milli().map_err(read)?,
            MEMORY => sum.memory_bytes = quantity.units().map_err(read)?,
            "pods" => sum.pods = quantity.units().map_err(read)?,
            other => {
                sum.other.insert(other.into(), quantity.units().map_err(read)?);
            }
        }
    }
    Ok(sum)
}

fn names(map: &BTreeMap<String, String>) -> BTreeMap<Name, Name> {
    map.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

/// Ten years: far from overflow when added to a time stamp, and longer than anybody waits.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 3650);

/// CEL keeps durations positive; one that is not (or too long for the planner's type) is taken as its bound.
fn signed(duration: kube::core::Duration) -> SignedDuration {
    if duration.is_negative() {
        return SignedDuration::ZERO;
    }
    SignedDuration::try_from(std::time::Duration::from(duration))
        .map_or(LONGEST, |duration| duration.min(LONGEST))
}

fn bounded_seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds.max(0)).min(LONGEST)
}

#[cfg(test)]
mod tests {
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
        let settings = settings(&pool).unwrap();
        assert_eq!(settings.start_thresholds.default.to_string(), "70%");
        assert_eq!(settings.pending_timeout, SignedDuration::from_secs(60));
        assert_eq!(settings.headroom.interrupt_threshold.unwrap().to_string(), "90%");
        assert_eq!(settings.headroom.target.to_string(), "85%");
        let disk = resources("", &[("ephemeral-storage".to_owned(), "1Ti".into())].into()).unwrap();
        assert_eq!(settings.weights.weigh(&disk), 0, "no work is measured in scratch space");
    }

    #[test]
    fn headroom_can_be_switched_off_and_must_lie_above_the_start_threshold() {
        let pool = |text: &str| settings(&serde_json::from_str::<ScavengerPoolSpec>(text).unwrap());
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
    fn a_window_has_what_it_names_and_else_what_the_pool_has() {
        let pool = |windows: &str| {
            let text = format!(
                r#"{{ "startThreshold": 0.6, "startThresholdOverrides": {{ "gpu": 1, "memory": 0.5 }}, "windows": {windows} }}"#
            );
            settings(&serde_json::from_str::<ScavengerPoolSpec>(&text).unwrap())
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
            settings(&serde_json::from_str::<ScavengerPoolSpec>(&text).unwrap())
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
            let timeout = settings(&pool).unwrap().pending_timeout;
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
                let settings = settings(&pool).unwrap();
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
            let settings = settings(&pool).unwrap();
            let whole = Resources { cpu_milli: i64::MAX, ..Resources::default() };
            let part = settings.start_thresholds.of(&whole).cpu_milli;
            prop_assert!((0..=whole.cpu_milli).contains(&part), "{} of all is {}", number, part);
        }
    }
}
