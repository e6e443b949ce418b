//! Who goes for headroom, against a second, slower statement of the rule.

use std::cmp::Reverse;

use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{at, key, settings},
    internals::{Candidate, headroom},
    loss::Loss,
    resources::{Resources, Share},
    values::Headroom,
};

#[derive(Debug, Clone)]
struct World {
    headroom: Headroom,
    ordinary: Resources,
    allocatable: Resources,
    holders: Vec<Candidate>,
}

fn amounts(cpu: i64, memory: i64, gpu: i64) -> Resources {
    let other = if gpu > 0 { [("gpu".into(), gpu)].into() } else { [].into() };
    Resources { cpu_milli: cpu * 1000, memory_bytes: memory << 30, pods: 1, other }
}

fn world() -> impl Strategy<Value = World> {
    let holder = (0..6_i64, 0..6_i64, 0..3_i64, 0..8_u32);
    let overrides = prop_oneof![Just(None), (50..100_u8).prop_map(Some)];
    (prop::collection::vec(holder, 0..8), 0..40_i64, 0..40_i64, 0..6_i64, 50..100_u8, overrides).prop_map(
        |(holders, cpu, memory, gpu, threshold, gpu_threshold)| {
            let share = |percent: u8| Share::from_fraction(f64::from(percent) / 100.0);
            let mut headroom = settings().headroom;
            headroom.interrupt_threshold = Some(share(threshold));
            headroom.target = share(threshold - 10);
            if let Some(percent) = gpu_threshold {
                headroom.interrupt_threshold_overrides.insert("gpu".into(), share(percent));
                headroom.target_overrides.insert("gpu".into(), share(percent - 1));
            }
            World {
                headroom,
                ordinary: amounts(cpu, memory, gpu),
                allocatable: Resources { pods: 110, ..amounts(40, 40, 8) },
                holders: holders
                    .into_iter()
                    .enumerate()
                    .map(|(number, (cpu, memory, gpu, loss))| Candidate {
                        sj: key(&format!("job{number}")),
                        held: amounts(cpu, memory, gpu),
                        loss: Loss {
                            amount: loss.into(),
                            interrupted_count: 0,
                            began: Reverse(at(0)),
                            uid: format!("{number}").into(),
                        },
                        is_young: false,
                    })
                    .collect(),
            }
        },
    )
}

/// What is used with these ScavengerJobs.
fn used(world: &World, stay: impl Fn(usize) -> bool) -> Resources {
    let mut used = world.ordinary.clone();
    for (_, holder) in world.holders.iter().enumerate().filter(|(number, _)| stay(*number)) {
        used.add(&holder.held);
    }
    used
}

fn target(world: &World, resource: &str) -> i64 {
    let headroom = &world.headroom;
    let share = headroom.target_overrides.get(resource).copied().unwrap_or(headroom.target);
    share.of(world.allocatable.get(resource))
}

/// What is above its target, of the resources that passed their threshold with everybody there.
fn above(world: &World, now: &Resources) -> Vec<&'static str> {
    let before = used(world, |_| true);
    let headroom = &world.headroom;
    ["cpu", "memory", "pods", "gpu"]
        .into_iter()
        .filter(|resource| {
            let named = headroom.interrupt_threshold_overrides.get(*resource).copied();
            let threshold = named.or(headroom.interrupt_threshold.filter(|_| *resource != "gpu"));
            let whole = world.allocatable.get(resource);
            threshold.is_some_and(|share| before.get(resource) > share.of(whole))
                && now.get(resource) > target(world, resource)
        })
        .collect()
}

proptest! {
    #![proptest_config(super::cases(3000))]

    #[test]
    fn the_target_is_reached_if_it_can_be_and_nobody_goes_in_vain(world in world()) {
        let everybody = used(&world, |_| true);
        let chosen = headroom::choose(&everybody, &world.allocatable, &world.headroom, "", world.holders.clone());
        let goes = |number: usize| chosen.iter().any(|(sj, _)| *sj == world.holders[number].sj);
        let over = above(&world, &everybody);
        prop_assert_eq!(world.headroom.suffices(&everybody, &world.allocatable), over.is_empty());
        let left = above(&world, &used(&world, |number| !goes(number)));
        for resource in &left {
            // Only others hold it now.
            let stays = (0..world.holders.len()).any(|i| !goes(i) && world.holders[i].held.get(resource) > 0);
            prop_assert!(!stays, "{} is still above its target", resource);
        }
        for number in (0..world.holders.len()).filter(|number| goes(*number)) {
            let helps = over.iter().any(|resource| world.holders[number].held.get(resource) > 0);
            prop_assert!(helps, "{} holds nothing that is short", number);
            // Brute force: with him back, a resource is above its target that is not now, or stays above it.
            let back = above(&world, &used(&world, |i| !goes(i) || i == number));
            let holds_what_is_left =
                left.iter().any(|resource| world.holders[number].held.get(resource) > 0);
            prop_assert!(back.len() > left.len() || holds_what_is_left, "{} goes in vain", number);
        }
        // Brute force: no set that leaves as little above the target loses less in all.
        let reached = |goes: &dyn Fn(usize) -> bool| {
            let now = used(&world, |number| !goes(number));
            let short = |resource: &&str| now.get(resource).max(target(&world, resource));
            over.iter().map(short).collect::<Vec<i64>>()
        };
        let lost = |goes: &dyn Fn(usize) -> bool| {
            (0..world.holders.len()).filter(|i| goes(*i)).map(|i| world.holders[i].loss.amount).sum::<u128>()
        };
        let best = reached(&goes);
        for set in 0..1_u32 << world.holders.len() {
            let other = |number: usize| set & (1 << number) != 0;
            prop_assert!(reached(&other) != best || lost(&other) >= lost(&goes), "{:b} loses less", set);
        }
    }

    #[test]
    fn a_young_one_goes_only_if_all_others_do_not_suffice(world in world(), young in 0..256_u32) {
        let is_young = |number: usize| young & (1 << number) != 0;
        let mut holders = world.holders.clone();
        for (number, holder) in holders.iter_mut().enumerate() {
            holder.is_young = is_young(number);
        }
        let everybody = used(&world, |_| true);
        let chosen = headroom::choose(&everybody, &world.allocatable, &world.headroom, "", holders);
        let goes = |number: usize| chosen.iter().any(|(sj, _)| *sj == world.holders[number].sj);
        // What is left above the target once all others are gone.
        let left = above(&world, &used(&world, is_young));
        for number in (0..world.holders.len()).filter(|number| is_young(*number) && goes(*number)) {
            let helps = left.iter().any(|resource| world.holders[number].held.get(resource) > 0);
            prop_assert!(helps, "{} is young and goes in vain", number);
        }
        // The target is reached all the same.
        for resource in above(&world, &used(&world, |number| !goes(number))) {
            let stays = (0..world.holders.len()).any(|i| !goes(i) && world.holders[i].held.get(resource) > 0);
            prop_assert!(!stays, "{} is still above its target", resource);
        }
    }
}
