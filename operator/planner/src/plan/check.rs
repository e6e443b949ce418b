//! What must hold after any plan, and in any state. All of it is run on every plan in every test; what is cheap,
//! [`kept_up`], now and then in the operator, too.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::Planner;
use crate::values::{Phase, WaitingReason, later, resources::Resources};

#[cfg(any(test, feature = "fixtures"))]
use std::collections::BTreeSet;

#[cfg(any(test, feature = "fixtures"))]
use super::Plan;
#[cfg(any(test, feature = "fixtures"))]
use crate::values::{Key, ScavengerJob, action::Task};

/// What was so before a plan.
#[cfg(any(test, feature = "fixtures"))]
#[derive(Debug)]
pub struct Before {
    starting: BTreeSet<Key>,
    under_way: BTreeSet<Key>,
    /// The attempts whose interruption was decided.
    decided: BTreeSet<(Key, u32)>,
}

#[cfg(any(test, feature = "fixtures"))]
impl Before {
    /// To be taken just before [`Planner::plan`].
    #[must_use]
    pub fn of(planner: &Planner) -> Self {
        let under_way = planner.seen.iter().filter(|(_, tracked)| tracked.turn.is_under_way());
        let decided = planner.seen.iter().filter(|(_, tracked)| tracked.is_decided());
        Self {
            starting: planner.promises.starting().clone(),
            under_way: under_way.map(|(key, _)| key.clone()).collect(),
            decided: decided.map(|(key, tracked)| (key.clone(), attempt_number(tracked.sj()))).collect(),
        }
    }

    /// Checks a plan and the state it left.
    ///
    /// # Errors
    /// What is broken.
    pub fn check(&self, planner: &Planner, plan: &Plan) -> Result<(), String> {
        self.one_action_each(planner, plan)?;
        self.decided_once(planner, plan)?;
        self.admitted_within_limits(planner)?;
        state(planner)
    }

    fn one_action_each(&self, planner: &Planner, plan: &Plan) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for action in &plan.actions {
            let key = &action.sj;
            ensure(seen.insert(key), || format!("{key} has two actions in one plan"))?;
            ensure(!self.under_way.contains(key), || format!("{key} has a second action under way"))?;
            let tracked = planner.seen.get(key).ok_or_else(|| format!("{key} is not in the view"))?;
            ensure(tracked.turn.is_under_way() && tracked.sj().uid == action.uid, || {
                format!("the action of {key} is not remembered")
            })?;
            if let Task::WriteStatus(write) = &action.task {
                let old = attempt_number(tracked.sj());
                let new = write.status.attempt.as_ref().map_or(0, |attempt| attempt.number);
                ensure(new == old || new == old + 1, || format!("{key} goes from attempt {old} to {new}"))?;
            }
        }
        Ok(())
    }

    fn decided_once(&self, planner: &Planner, plan: &Plan) -> Result<(), String> {
        let mut ordered = BTreeSet::new();
        for order in &plan.report.ordered {
            let number = planner.seen.get(&order.sj).map_or(0, |tracked| attempt_number(tracked.sj()));
            let attempt = (order.sj.clone(), number);
            ensure(!self.decided.contains(&attempt) && ordered.insert(attempt), || {
                format!("the interruption of {} is ordered again: {}", order.sj, order.message)
            })?;
        }
        Ok(())
    }

    fn admitted_within_limits(&self, planner: &Planner) -> Result<(), String> {
        let admitted = planner.promises.starting().iter().filter(|key| !self.starting.contains(*key));
        // What was found starting after a restart was admitted by somebody else.
        let admitted: Vec<&Key> = admitted
            .filter(|key| planner.seen.get(key).is_some_and(|tracked| !tracked.sj().status.phase.is_active()))
            .collect();
        let (Some(first), Ok(settings)) = (admitted.first(), planner.settings()) else { return Ok(()) };
        let count = planner.promises.starting().len();
        ensure(count <= settings.max_concurrent_starts, || {
            format!("{count} start at once, {first} among them")
        })?;
        let limit = planner.capacity.limit(settings);
        planner.capacity.check_limits_of_nodes(planner.promises.ledger())?;
        let used = planner.capacity.used(planner.promises.ledger());
        for key in &admitted {
            let Some(Ok(spec)) = planner.seen.get(key).map(|tracked| &tracked.sj().spec) else { continue };
            planner
                .capacity
                .check_part(&spec.demand, planner.promises.ledger(), settings)
                .map_err(|said| format!("{key} was admitted, and {said}"))?;
        }
        for key in admitted {
            let Some(Ok(spec)) = planner.seen.get(key).map(|tracked| &tracked.sj().spec) else { continue };
            for (name, amount) in spec.demand.total().iter().filter(|(_, amount)| *amount > 0) {
                ensure(used.get(name) <= limit.get(name), || {
                    format!(
                        "{key} was admitted with {amount} {name}, so {} of {} are used",
                        used.get(name),
                        limit.get(name)
                    )
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(any(test, feature = "fixtures"))]
fn attempt_number(sj: &ScavengerJob) -> u32 {
    sj.status.attempt.as_ref().map_or(0, |attempt| attempt.number)
}

/// Compares the sums that are kept up change by change (how many are where, what is in flight, what is used) with what
/// they are made from, and looks for pods that were bound outside the pool. Looks at each object once.
///
/// # Errors
/// What differs.
pub fn kept_up(planner: &Planner) -> Result<(), String> {
    counts(planner)?;
    ledger(planner)?;
    planner.capacity.check_totals()?;
    placed(planner)
}

/// What may lie between the moment in which a node leaves the pool and that in which the planner hears of it.
const LAG: SignedDuration = SignedDuration::from_secs(30);

/// No pod of a ScavengerJob was bound to a node outside the pool: a pod that is there was there before the node left.
fn placed(planner: &Planner) -> Result<(), String> {
    for (node, since) in planner.causes.left_pool.since() {
        for pod in planner.capacity.scavenger_pods(node) {
            let Some(sj) = planner.seen.key_of(pod.owner, &pod.key.namespace) else { continue };
            let Some(attachments) = planner.seen.attachments(sj) else { continue };
            let attempt = attachments.pods.get(&pod.key.name).and_then(|pod| Some(pod.owner.as_ref()?.1));
            let job = attachments.jobs.values().find(|job| Some(job.attempt) == attempt);
            ensure(job.is_none_or(|job| job.creation_time <= later(since, LAG)), || {
                format!("pod {} is on node {node}, which had left the pool before its Job was made", pod.key)
            })?;
        }
    }
    Ok(())
}

/// Checks a state in which nothing is left to be planned.
///
/// # Errors
/// What is broken.
#[cfg(any(test, feature = "fixtures"))]
pub fn state(planner: &Planner) -> Result<(), String> {
    kept_up(planner)?;
    queue(planner)?;
    planner.queue.check(&planner.capacity, &planner.shares)?;
    planner.capacity.check_index(planner.promises.ledger())?;
    let timers: BTreeSet<_> =
        planner.seen.iter().filter_map(|(key, tracked)| Some((tracked.turn.timer()?, key.clone()))).collect();
    ensure(timers == *planner.agenda.timers(), || "timers differ from those of the entries".to_owned())?;
    ensure(planner.seen.index_is_right(), || "the index by UID differs from the ScavengerJobs".to_owned())
}

fn counts(planner: &Planner) -> Result<(), String> {
    let mut phases: BTreeMap<Phase, usize> = BTreeMap::new();
    let mut waiting: BTreeMap<WaitingReason, usize> = BTreeMap::new();
    for (_, tracked) in planner.seen.iter() {
        *phases.entry(tracked.sj().status.phase).or_default() += 1;
        let admitted = tracked.sj().status.admitted.as_ref();
        if let Some(said) = admitted.and_then(|admitted| admitted.waiting.as_ref()) {
            *waiting.entry(said.reason).or_default() += 1;
        }
    }
    let mut counted = planner.seen.counts().clone();
    counted.phases.retain(|_, count| *count > 0);
    counted.waiting.retain(|_, count| *count > 0);
    ensure(counted.phases == phases && counted.waiting == waiting, || {
        format!("counts are {counted:?} instead of {phases:?} and {waiting:?}")
    })
}

fn ledger(planner: &Planner) -> Result<(), String> {
    let mut total = Resources::default();
    let mut promised: BTreeMap<_, Resources> = BTreeMap::new();
    for (key, per_pod, places) in planner.promises.ledger().iter() {
        let tracked = planner.seen.get(key);
        ensure(tracked.is_some(), || format!("capacity is reserved for {key}, which is gone"))?;
        let active = tracked.is_some_and(|tracked| tracked.sj().status.phase.is_active());
        let held = tracked.is_some_and(|tracked| {
            let attached = planner.seen.attachments(key);
            let attached = attached.is_some_and(|all| !all.jobs.is_empty() || !all.pods.is_empty());
            tracked.turn.is_under_way() || tracked.turn.has_pause() || attached
        });
        ensure(active || planner.promises.has_slot(key) || held, || {
            format!("capacity is reserved for {key}, which does not start")
        })?;
        ensure(!places.is_empty(), || format!("nothing is reserved for {key}"))?;
        for place in places {
            total.add(per_pod);
            if let Some(node) = place {
                promised.entry(node.clone()).or_default().add(per_pod);
            }
        }
    }
    ensure(total == *planner.promises.ledger().total(), || {
        format!("the ledger's total is {} instead of {total}", planner.promises.ledger().total())
    })?;
    for (node, amount) in &promised {
        ensure(planner.promises.ledger().promised(node) == Some(amount), || {
            format!(
                "{:?} is promised on {node} instead of {amount}",
                planner.promises.ledger().promised(node)
            )
        })?;
    }
    ensure(planner.promises.ledger().promised_nodes() == promised.len(), || {
        "a node is promised to nobody".to_owned()
    })
}

#[cfg(any(test, feature = "fixtures"))]
fn queue(planner: &Planner) -> Result<(), String> {
    for key in planner.queue.iter() {
        let Some(tracked) = planner.seen.get(key) else { return Err(format!("{key} waits but is gone")) };
        ensure(!planner.promises.has_slot(key), || format!("{key} starts and waits in the queue"))?;
        // Whoever has an action under way is looked at again when its answer comes.
        ensure(!tracked.sj().status.phase.is_active() || tracked.turn.is_under_way(), || {
            format!("{key} is active and waits in the queue")
        })?;
    }
    if let Ok(settings) = planner.settings() {
        for (ask, never) in planner.queue.never() {
            let demand = planner.capacity.demand(ask);
            let truth = planner.capacity.never_fits_plainly(demand, settings).is_some();
            ensure(never == truth, || format!("{demand:?} is taken for one that never fits: {never}"))?;
        }
    }
    Ok(())
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::{at, key, node, pod, settings, sj},
        values::{Attempt, Observation, Phase},
    };

    /// One ScavengerJob runs on one node.
    fn planner() -> Planner {
        let mut sj = sj("a");
        let demand = sj.spec.as_ref().unwrap().demand.clone();
        sj.status.phase = Phase::Running;
        sj.status.attempt =
            Some(Box::new(Attempt { start_time: Some(at(1)), ..Attempt::first(demand, at(0)) }));
        let pod = pod("a-1-0", 1000).of(&sj.uid, 1).on("n1").running();
        let mut planner = Planner::default();
        for observation in [
            Observation::Pool(Box::new(Ok(settings()))),
            Observation::Node(node("n1", 10_000)),
            Observation::ScavengerJob(Box::new(sj)),
            Observation::Pod(Box::new(pod)),
        ] {
            planner.observe(observation, at(2));
        }
        planner
    }

    #[test]
    fn whatever_is_not_kept_up_is_found() {
        assert_eq!(kept_up(&planner()), Ok(()));
        let spoil: [fn(&mut Planner); 3] = [
            |planner| planner.seen.spoil(),
            |planner| planner.promises.spoil(&key("gone")),
            |planner| planner.capacity.spoil(),
        ];
        for (number, spoil) in spoil.into_iter().enumerate() {
            let mut planner = planner();
            spoil(&mut planner);
            assert!(kept_up(&planner).is_err(), "{number}");
        }
    }
}
