//! kube-scheduler's rules, by cases that /docs/preemption.md and the source of Kubernetes 1.36 name.

use scavenger_laboratory::{
    values::{MINUTE, NodeId, SECOND, Time},
    workload::{Ordinary, Workload},
    world::{Delays, Disruption, Owner, Preempts, World},
};

use super::{nodes, ordinary, scavenger, start, workload};

/// ScavengerJobs with cores, priority, node and when they begin.
type Case = (i64, i32, u32, Time);

/// Which of them are preempted for an ordinary pod of so many cores that comes after ten minutes.
fn preempted(cores_of_nodes: &[i64], cases: &[Case], cores: i64) -> Vec<usize> {
    let scavengers = cases.iter().map(|(cores, ..)| scavenger(*cores)).collect();
    let ordinary = vec![ordinary(10 * MINUTE, MINUTE, cores)];
    let workload = workload(nodes(cores_of_nodes), ordinary, scavengers);
    let world = played(&workload, Preempts::All, cases);
    let is_preempted = |sj: &usize| {
        world.pods.iter().any(|pod| {
            let Owner::Attempt(attempt, _) = pod.owner else { return false };
            let of = world.attempts[attempt.index()].start.sj.index();
            of == *sj && pod.deleted.is_some_and(|(_, why)| why == Disruption::Preempted)
        })
    };
    assert!(world.tally.ordinary[0].waited.is_some(), "the ordinary pod never started");
    (0..cases.len()).filter(is_preempted).collect()
}

fn played<'a>(workload: &'a Workload, preempts: Preempts, cases: &[Case]) -> World<'a> {
    let mut world = World::new(workload, preempts, Delays::default(), 1);
    let mut in_order: Vec<(Time, u32)> =
        cases.iter().zip(0..).map(|((.., begins), sj)| (*begins, sj)).collect();
    in_order.sort_unstable();
    for (begins, sj) in in_order {
        let (_, priority, node, _) = cases[sj as usize];
        world.advance(begins);
        start(&mut world, sj, priority, node);
    }
    world.advance(12 * MINUTE);
    world
}

#[test]
fn a_lower_priority_goes_first_even_if_it_is_older() {
    let cases = [(2, -1000, 0, 0), (2, -999, 0, MINUTE)];
    assert_eq!(preempted(&[4], &cases, 2), [0]);
}

#[test]
fn of_the_same_priority_the_youngest_goes() {
    let cases = [(2, -1000, 0, 0), (2, -1000, 0, MINUTE), (2, -1000, 0, 2 * MINUTE)];
    assert_eq!(preempted(&[6], &cases, 2), [2]);
    assert_eq!(preempted(&[6], &cases, 4), [1, 2]);
}

#[test]
fn all_of_lower_priority_go_in_thought_and_the_more_important_come_back_first() {
    // The old one of three cores comes back first; then there is no capacity for the younger one of two, but for that of one.
    let cases = [(3, -1000, 0, 0), (2, -1000, 0, MINUTE), (1, -1000, 0, 2 * MINUTE)];
    assert_eq!(preempted(&[6], &cases, 2), [1]);
    // Not the cheapest set: of what is sufficient alone, the youngest.
    let cases = [(1, -1000, 0, 0), (4, -1000, 0, MINUTE), (1, -1000, 0, 2 * MINUTE)];
    assert_eq!(preempted(&[6], &cases, 1), [2]);
}

#[test]
fn the_node_whose_most_important_victim_is_the_least_important_is_chosen() {
    let cases = [(2, -999, 0, 0), (2, -1000, 1, 0)];
    assert_eq!(preempted(&[2, 2], &cases, 2), [1]);
    // However many they are.
    let cases = [(2, -999, 0, 0), (1, -1000, 1, 0), (1, -1000, 1, 0)];
    assert_eq!(preempted(&[2, 2], &cases, 2), [1, 2]);
}

#[test]
fn then_the_smallest_sum_of_priorities_is_chosen_which_means_fewer_victims() {
    let cases = [(1, -1000, 0, 0), (1, -1000, 0, 0), (2, -1000, 1, 0)];
    assert_eq!(preempted(&[2, 2], &cases, 2), [2]);
    // Of two victims on either node, the sum decides.
    let cases = [(1, -1000, 0, 0), (1, -1002, 0, 0), (1, -1000, 1, 0), (1, -1001, 1, 0)];
    assert_eq!(preempted(&[2, 2], &cases, 2), [0, 1]);
}

#[test]
fn then_the_latest_start_of_the_most_important_victim_is_chosen() {
    let cases = [(2, -1000, 0, 0), (2, -1000, 1, MINUTE)];
    assert_eq!(preempted(&[2, 2], &cases, 2), [1]);
    let cases = [(2, -1000, 0, MINUTE), (2, -1000, 1, 0)];
    assert_eq!(preempted(&[2, 2], &cases, 2), [0]);
    // Of several on a node the earliest counts.
    let cases =
        [(1, -1000, 0, 0), (1, -1000, 0, 5 * MINUTE), (1, -1000, 1, MINUTE), (1, -1000, 1, 2 * MINUTE)];
    assert_eq!(preempted(&[2, 2], &cases, 2), [2, 3]);
}

#[test]
fn nobody_is_preempted_where_capacity_is_free_or_for_a_pod_that_may_not_preempt() {
    assert_eq!(preempted(&[2, 2], &[(2, -1000, 0, 0)], 2), Vec::<usize>::new());
    let patient = vec![ordinary(10 * MINUTE, MINUTE, 2)];
    let workload = workload(nodes(&[2]), patient, vec![scavenger(2)]);
    for (preempts, starts) in
        [(Preempts::All, true), (Preempts::ThoseWithPriority, false), (Preempts::None, false)]
    {
        let world = played(&workload, preempts, &[(2, -1000, 0, 0)]);
        assert_eq!(world.tally.ordinary[0].waited.is_some(), starts, "{preempts:?}");
    }
}

#[test]
fn what_is_freed_for_a_pod_is_taken_by_no_less_important_one() {
    // The second ScavengerJob would fit as soon as the first is gone.
    let pods = vec![ordinary(10 * MINUTE, MINUTE, 2)];
    let workload = workload(nodes(&[2]), pods, vec![scavenger(2), scavenger(2)]);
    let world = played(&workload, Preempts::All, &[(2, -1000, 0, 0), (2, -1000, 0, MINUTE)]);
    let waited = world.tally.ordinary[0].waited.unwrap();
    // Scheduler, grace, phase, scheduler, kubelet.
    assert!(waited <= 10 + 2000 + 300 + 10 + 700, "{waited}");
    let second = world.scavengers[1].first_run.unwrap();
    assert!(second > 11 * MINUTE, "it ran after the ordinary pod: {second}");
}

#[test]
fn a_pod_preempts_once_while_its_victims_end() {
    let pods = vec![ordinary(10 * MINUTE, MINUTE, 2), ordinary(10 * MINUTE + SECOND, MINUTE, 1)];
    let workload = workload(nodes(&[2, 2, 2]), pods, (0..3).map(|_| scavenger(2)).collect());
    let cases = [(2, -1000, 0, 0), (2, -1000, 1, 0), (2, -1000, 2, 0)];
    let world = played(&workload, Preempts::All, &cases);
    let victims = world.pods.iter().filter(|pod| pod.deleted.is_some()).count();
    assert_eq!(victims, 2, "one for each ordinary pod");
}

#[test]
fn an_ordinary_pod_that_is_preempted_by_another_is_made_again_for_the_rest_of_its_time() {
    let high = Ordinary { priority: 1000, ..ordinary(10 * MINUTE, MINUTE, 2) };
    let low = ordinary(0, 30 * MINUTE, 2);
    let workload = workload(nodes(&[2]), vec![low, high], Vec::new());
    let mut world = World::new(&workload, Preempts::All, Delays::default(), 1);
    world.advance(workload.length);
    assert_eq!((world.tally.ordinary[0].preempted, world.tally.ordinary[1].preempted), (1, 0));
    let again = world.pods.iter().filter(|pod| pod.owner == Owner::Ordinary(0)).nth(1).unwrap();
    assert_eq!(again.node, Some(NodeId(0)));
    let end = again.ended.unwrap();
    assert!((31 * MINUTE..32 * MINUTE).contains(&end), "{end}");
}
