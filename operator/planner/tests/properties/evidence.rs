//! The order of deletion and end, in whatever pieces the watch delivers it.

use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{at, pod},
    internals::Evidence,
    values::Pod,
};

/// What becomes of one pod: when it is deleted and when its container ends, and how.
#[derive(Debug, Clone)]
struct Story {
    deleted: Option<u32>,
    ended: Option<(u32, i32)>,
}

fn story() -> impl Strategy<Value = Story> {
    let deleted = prop_oneof![Just(None), (0..400_u32).prop_map(Some)];
    let exit = prop_oneof![Just(0), Just(1)];
    let ended = prop_oneof![Just(None), (0..400_u32, exit).prop_map(Some)];
    (deleted, ended).prop_map(|(deleted, ended)| Story { deleted, ended })
}

/// Versions of the pods in the order in which they are made, with the tenth of a second of each.
fn versions(stories: &[Story]) -> Vec<(u32, usize, Pod)> {
    let mut moments: Vec<(u32, usize, bool)> = Vec::new();
    for (number, story) in stories.iter().enumerate() {
        moments.extend(story.deleted.map(|tenth| (tenth, number, true)));
        moments.extend(story.ended.map(|(tenth, _)| (tenth, number, false)));
    }
    moments.sort_unstable();
    let mut now: Vec<Pod> =
        (0..stories.len()).map(|number| pod(&format!("p{number}"), 1).of("u", 1).running()).collect();
    let mut versions: Vec<(u32, usize, Pod)> =
        now.iter().cloned().enumerate().map(|(number, pod)| (0, number, pod)).collect();
    for (version, (tenth, number, deletion)) in moments.into_iter().enumerate() {
        let second = at(i64::from(tenth / 10));
        let pod = now[number].clone().version(100 + version as u64);
        now[number] = if deletion {
            pod.deleted(second)
        } else {
            pod.ended(stories[number].ended.map_or(0, |(_, code)| code), second)
        };
        versions.push((tenth, number, now[number].clone()));
    }
    versions
}

/// Whether a deletion came before the pod's own end and before the first end without success of any.
fn truth(stories: &[Story]) -> bool {
    let first_failure = stories
        .iter()
        .filter_map(|story| story.ended)
        .filter(|(_, code)| *code != 0)
        .map(|(tenth, _)| tenth)
        .min();
    stories.iter().any(|story| {
        story.deleted.is_some_and(|deleted| {
            story.ended.is_none_or(|(ended, _)| deleted <= ended)
                && first_failure.is_none_or(|failure| deleted <= failure)
        })
    })
}

/// Two things of one tenth of a second have no order in the truth either.
fn have_an_order(stories: &[Story]) -> bool {
    let things = |story: &Story| [story.deleted, story.ended.map(|(tenth, _)| tenth)];
    let mut tenths: Vec<u32> = stories.iter().flat_map(things).flatten().collect();
    tenths.sort_unstable();
    let all = tenths.len();
    tenths.dedup();
    tenths.len() == all
}

proptest! {
    #![proptest_config(super::cases(3000))]

    #[test]
    fn an_unbroken_watch_tells_the_order_exactly(stories in prop::collection::vec(story(), 1..4)) {
        prop_assume!(have_an_order(&stories));
        let mut evidence = Evidence::default();
        for (_, _, pod) in versions(&stories) {
            evidence.note(&pod, 1, at(1000));
        }
        prop_assert_eq!(evidence.disruption(None).is_some(), truth(&stories));
        prop_assert!(!evidence.tie(None));
    }

    #[test]
    fn a_watch_that_is_cut_somewhere_never_tells_the_wrong_order(
        stories in prop::collection::vec(story(), 1..4),
        blind_from in 0..400_u32,
        blind_for in 0..400_u32,
        rotated in 0..4_usize,
    ) {
        prop_assume!(have_an_order(&stories));
        let versions = versions(&stories);
        let mut evidence = Evidence::default();
        for (_, _, pod) in versions.iter().filter(|(tenth, _, _)| *tenth <= blind_from) {
            evidence.note(pod, 1, at(1000));
        }
        // Listed again, in any order.
        let back = blind_from.saturating_add(blind_for);
        let mut list: Vec<&Pod> = (0..stories.len())
            .filter_map(|number| {
                versions.iter().rfind(|(tenth, of, _)| *of == number && *tenth <= back).map(|(_, _, pod)| pod)
            })
            .collect();
        let rotated = rotated % list.len();
        list.rotate_left(rotated);
        for pod in list {
            evidence.note(pod, 2, at(1000));
        }
        for (_, _, pod) in versions.iter().filter(|(tenth, _, _)| *tenth > back) {
            evidence.note(pod, 2, at(1000));
        }
        match (evidence.disruption(None).is_some(), truth(&stories)) {
            (true, false) => prop_assert!(false, "a disruption that was none: {:?}", evidence.disruption(None)),
            (false, true) => prop_assert!(evidence.tie(None), "a disruption was overlooked"),
            _ => {}
        }
    }
}
