//! From raw specs to checked planner values. What the API server could not check is found here, once; later steps
//! cannot fail on input.
//!
//! The operator reads what the API server stores, the laboratory reads the pool of a file: both mean the same by it. What an
//! operator sees of a cluster at one time is a file of its own ([`snapshot`]).

pub mod container_hash;
mod forms;
pub mod snapshot;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, civil::Time, tz::TimeZone};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use scavenger_planner::{
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, Share, Thresholds, Weight, Weights},
    values::{
        Accounting, Budget, Calendar, Controls, Demand, Filling, Headroom, Name, NodeGroup, Order, Placement,
        PreemptionMode, Rank, Runtime, ScavengerJobSpec, Schedule, Settings, Sharing, SupervisionSpec,
        Supervisor, Tenant, Toleration, UsageRules, Window,
    },
};
use scavenger_schema::{
    form,
    quantity::QuantityError,
    scavenger_job::{self, Quantity, TaintEffect, TolerationOperator},
    scavenger_pool::{self as crd, ScavengerPoolSpec, ThresholdWindow},
    supervisor::Switch,
    tenants::{self, SharingSpec},
};
use scavenger_vocabulary::Reason;
use thiserror::Error;

use forms::FormError;

/// Seconds of work that a restart costs if `spec.checkpoint` does not say.
const DEFAULT_RESTART_SECONDS: i64 = 60;

/// Weights of resources for which `spec.weights` names none: of a core, and of a GiB of memory, since a core usually
/// comes with 8 GiB. Scratch space is worth nothing: nobody's work is measured in it.
const DEFAULT_WEIGHTS: [(&str, f64); 3] = [(CPU, 1.0), (MEMORY, 0.125), (EPHEMERAL_STORAGE, 0.0)];

/// The same for a unit of any extended resource: a GPU usually comes with 8 cores or more.
const DEFAULT_EXTENDED_WEIGHT: f64 = 8.0;

/// Why a spec cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// A name, a key or a value has another form than Kubernetes asks for.
    #[error(transparent)]
    Form(#[from] FormError),
    /// A quantity cannot be read.
    #[error("{field}: {source}")]
    ReadQuantity {
        /// Its field.
        field: String,
        /// What is wrong with it.
        source: QuantityError,
    },
    /// A number or a duration is too small.
    #[error("{field} must be at least {least}")]
    TooSmall {
        /// Its field.
        field: &'static str,
        /// The least that is allowed.
        least: &'static str,
    },
    /// ScavengerJobs would be started only to be interrupted.
    #[error(
        "spec.headroomTarget of {resource} must be at least its start threshold and below its interrupt threshold"
    )]
    Headroom {
        /// The resource whose thresholds are not in order.
        resource: String,
    },
    /// A window of time cannot be used.
    #[error("window {name:?} of spec.windows: {source}")]
    Window {
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: Box<SpecError>,
    },
    /// A group of nodes cannot be used.
    #[error("group {name:?} of spec.nodeGroups: {source}")]
    NodeGroup {
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: Box<SpecError>,
    },
    /// A budget for interruptions cannot be used.
    #[error("the budget of {jobs} in spec.disruptionBudgets {what}")]
    Budget {
        /// How many it allows, as it was given.
        jobs: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The times of a budget cannot be used.
    #[error("the budget of {jobs} in spec.disruptionBudgets: {source}")]
    Schedule {
        /// How many it allows, as it was given.
        jobs: String,
        /// What is wrong with its times.
        source: Box<SpecError>,
    },
    /// There is no such time zone.
    #[error("timeZone {0:?} is unknown: name one of the IANA database, for example Europe/Berlin")]
    TimeZone(String),
    /// Not a time of day.
    #[error("{field} {text:?} must be hours and minutes, for example 06:00")]
    TimeOfDay {
        /// Its field.
        field: &'static str,
        /// What was given.
        text: String,
    },
}

/// What the planner needs to know of a ScavengerJob's spec, if nothing is wrong with its name.
pub fn sj(object: &scavenger_job::ScavengerJob) -> Result<ScavengerJobSpec, SpecError> {
    forms::check_name(&object.name_any())?;
    sj_spec(&object.spec)
}

fn sj_spec(spec: &scavenger_job::ScavengerJobSpec) -> Result<ScavengerJobSpec, SpecError> {
    forms::check(spec)?;
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
    let (secrets, config_maps) = references(spec);
    let demand = Arc::new(Demand { per_pod, pod_count, placement });
    let runtime = |class: &str| Runtime { class: class.into(), own: demand.clone() };
    Ok(ScavengerJobSpec {
        runtime: spec.runtime_class_name.as_deref().map(runtime).map(Box::new),
        claims,
        secrets,
        config_maps,
        container_hash: container_hash::of(spec),
        image_hash: container_hash::of_image(spec),
        demand,
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

/// The Secrets and the ConfigMaps that a spec mounts or takes variables from.
fn references(spec: &scavenger_job::ScavengerJobSpec) -> (Vec<Name>, Vec<Name>) {
    let name = |name: &String| Name::from(name.as_str());
    let mut secrets: Vec<Name> = spec.secrets.iter().map(|secret| name(&secret.secret_name)).collect();
    let mut config_maps: Vec<Name> = spec.config_maps.iter().map(|map| name(&map.name)).collect();
    for source in spec.env.iter().filter_map(|variable| variable.value_from.as_ref()) {
        secrets.extend(source.secret_key_ref.as_ref().map(|key| name(&key.name)));
        config_maps.extend(source.config_map_key_ref.as_ref().map(|key| name(&key.name)));
    }
    (secrets, config_maps)
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
pub fn controls(spec: &scavenger_job::ScavengerJobSpec) -> Controls {
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

/// Settings of a pool, from its spec and its `metadata.generation`.
pub fn settings(spec: &ScavengerPoolSpec, generation: Option<i64>) -> Result<Settings, SpecError> {
    let at_least_one = |field, value: i32| {
        usize::try_from(value)
            .ok()
            .filter(|value| *value > 0)
            .ok_or(SpecError::TooSmall { field, least: "1" })
    };
    at_least_one("spec.prioritySteps", spec.priority_steps)?;
    forms::check_labels(&form::KEY, "spec.nodeSelector", &spec.node_selector)?;
    let Filling { start_thresholds, headroom } = filling(spec)?;
    let named =
        DEFAULT_WEIGHTS.into_iter().chain(spec.weights.iter().map(|(name, weight)| (name.as_str(), *weight)));
    Ok(Settings {
        generation: generation.unwrap_or(0),
        node_selector: names(&spec.node_selector),
        tolerated_taints: tolerated_taints(spec),
        allowed_runtime_classes: {
            let classes = spec.limits.allowed_runtime_classes.iter();
            classes.map(|class| class.as_str().into()).collect()
        },
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
        minimum_run: spec.minimum_run.map(signed).unwrap_or_default(),
        budgets: spec.disruption_budgets.iter().map(budget).collect::<Result<_, _>>()?,
        preemption_mode: match spec.preemption_mode {
            crd::PreemptionMode::Scheduler => PreemptionMode::Scheduler,
            crd::PreemptionMode::Operator => PreemptionMode::Operator,
        },
        sharing: sharing(&spec.sharing),
        paused: spec.paused,
        drain: spec.drain,
        supervisor: supervisor(spec),
        usage: usage(spec),
    })
}

/// How tenants share the pool; none if the spec says nothing of that.
fn sharing(spec: &SharingSpec) -> Option<Box<Sharing>> {
    let says_something = spec.order != tenants::Order::default()
        || spec.tenant_label.is_some()
        || !spec.tenants.is_empty()
        || spec.share_half_life.is_some();
    let tenant = |tenant: &tenants::TenantSpec| {
        let rules = Tenant {
            weight: Weight::from_number(tenant.weight),
            max_share: tenant.max_share.map(Share::from_fraction),
            paused: tenant.paused,
        };
        (Name::from(tenant.name.as_str()), rules)
    };
    says_something.then(|| {
        Box::new(Sharing {
            order: match spec.order {
                tenants::Order::Interruptions => Order::Interruptions,
                tenants::Order::FairShare => Order::FairShare,
            },
            label: spec.tenant_label.as_deref().map(Name::from),
            half_life: spec.share_half_life.map_or(WEEK, signed),
            tenants: spec.tenants.iter().map(tenant).collect(),
        })
    })
}

/// After this time what a tenant used counts half as much, unless the spec says otherwise.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// No node has a taint of another form, and a Job that tolerated it would be refused.
fn tolerated_taints(spec: &ScavengerPoolSpec) -> Vec<Name> {
    let keys = spec.tolerated_taints.iter().filter(|key| form::KEY_OR_NOTHING.fits(key));
    keys.map(|key| Name::from(key.as_str())).collect()
}

/// The supervisor of a pool; none if it names none.
pub fn supervisor(spec: &ScavengerPoolSpec) -> Option<Supervisor> {
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
            require_node_agent: rules.require_node_agent,
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

fn budget(budget: &crd::DisruptionBudget) -> Result<Budget, SpecError> {
    let jobs = match &budget.jobs {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    };
    let wrong = |what: &'static str| SpecError::Budget { jobs: jobs.clone(), what };
    if !budget.reasons.iter().all(Reason::is_planned) {
        return Err(wrong("names a reason for which nobody can wait"));
    }
    let period = signed(budget.period);
    if period < SignedDuration::from_secs(1) {
        return Err(wrong("needs a period of at least 1s"));
    }
    let read = match jobs.strip_suffix('%') {
        // One at least, or a small pool could never be relieved.
        Some(percent) => {
            percent.parse().map(|percent: u32| (f64::from(percent) / 100.0, usize::from(percent > 0)))
        }
        None => jobs.parse().map(|number| (0.0, number)),
    };
    let (share, at_least) = read.map_err(|_| wrong("needs a number of jobs, or a share such as 10%"))?;
    let read = |times| {
        schedule(times).map_err(|source| SpecError::Schedule { jobs: jobs.clone(), source: source.into() })
    };
    Ok(Budget {
        reasons: budget.reasons.clone(),
        share: Share::from_fraction(share),
        at_least,
        period,
        schedule: budget.schedule.as_ref().map(read).transpose()?,
    })
}

fn window(window: &ThresholdWindow, pool: &ScavengerPoolSpec) -> Result<Window, SpecError> {
    Ok(Window {
        name: window.name.as_str().into(),
        schedule: schedule(&window.schedule)?,
        filling: with_thresholds_of!(window, pool)?,
    })
}

fn schedule(schedule: &crd::Schedule) -> Result<Schedule, SpecError> {
    let time = |field, text: &str| {
        Time::strptime("%H:%M", text).map_err(|_| SpecError::TimeOfDay { field, text: text.to_owned() })
    };
    let mut days = [schedule.days.is_empty(); 7];
    for day in &schedule.days {
        days[*day as usize] = true;
    }
    Ok(Schedule {
        days,
        start: time("start", &schedule.start)?,
        end: time("end", &schedule.end)?,
        time_zone: TimeZone::get(&schedule.time_zone)
            .map_err(|_| SpecError::TimeZone(schedule.time_zone.clone()))?,
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
pub fn resources(field: &str, list: &BTreeMap<String, Quantity>) -> Result<Resources, SpecError> {
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
mod tests;
