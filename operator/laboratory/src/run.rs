//! One run: a workload, a policy, a seed.

use std::{collections::BTreeMap, time::Duration};

use nix::time::{ClockId, clock_gettime};
use scavenger_planner::values::Settings;

use crate::{
    policy::{self, Kind, Policy},
    values::Time,
    workload::Workload,
    world::{Delays, Preempts, World},
};

/// What a run depends on beside its workload.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    /// How late the operator sees what changes.
    pub late: Time,
    /// For what kube-scheduler draws.
    pub seed: u64,
}

/// Plays a workload under a policy to its end. Also says how often the policy ordered an interruption, by reason.
#[must_use]
pub fn run<'a>(
    workload: &'a Workload,
    kind: Kind,
    settings: &Settings,
    conditions: Conditions,
) -> (World<'a>, BTreeMap<String, u64>) {
    run_with(Delays::default(), workload, kind, settings, conditions)
}

/// The same where Kubernetes takes so long.
#[must_use]
pub fn run_with<'a>(
    delays: Delays,
    workload: &'a Workload,
    kind: Kind,
    settings: &Settings,
    conditions: Conditions,
) -> (World<'a>, BTreeMap<String, u64>) {
    let world = World::new(workload, kind.preempts(settings), delays, conditions.seed);
    let mut policy = kind.begin(settings, conditions.late, &world);
    let world = play(world, policy.as_mut());
    (world, policy.ordered())
}

/// Plays a workload whose ScavengerJobs nobody runs.
#[must_use]
pub fn run_baseline(workload: &Workload, seed: u64) -> World<'_> {
    let world = World::new(workload, Preempts::All, Delays::default(), seed);
    play(world, policy::none().as_mut())
}

fn play<'a>(mut world: World<'a>, policy: &mut dyn Policy) -> World<'a> {
    let end = world.workload.length;
    loop {
        let next = world.next_time().into_iter().chain(policy.wake_at()).min();
        let Some(next) = next.map(|time| time.max(world.now)).filter(|time| *time <= end) else { break };
        let mut changes = world.advance(next);
        // What is ordered can change something at once.
        loop {
            for change in changes {
                policy.see(change, &world);
            }
            let orders = policy.act(&world);
            if orders.is_empty() {
                break;
            }
            for order in orders {
                world.carry_out(order);
            }
            changes = world.advance(next);
        }
    }
    world.advance(end);
    world.finish();
    world
}

/// How much processor time something took.
///
/// # Panics
/// If the thread has no clock.
pub fn timed<T>(something: impl FnOnce() -> T) -> (T, Duration) {
    let now = || -> Duration {
        clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("the thread should have a clock").into()
    };
    let began = now();
    let result = something();
    (result, now() - began)
}
