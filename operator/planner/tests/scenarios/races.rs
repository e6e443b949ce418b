//! Starts that are prepared at the same time, and whose answers come in any order.

use std::slice;

use scavenger_planner::{
    Plan,
    action::{Action, ActionResult, Answer, Task},
    fixtures::{at, key, millis, node, pod, settings, sj},
    values::{Access, Observation, Phase, ScavengerJob, Volume},
};
use scavenger_simulator::Traced;

/// Created at this second, with everything that a start needs.
fn created(sj: ScavengerJob, second: i64) -> ScavengerJob {
    ScavengerJob { creation_time: at(second), has_finalizer: true, ..sj }
}

/// A planner that sees these ScavengerJobs.
fn planner(seen: impl IntoIterator<Item = Observation>, all: &[ScavengerJob]) -> Traced {
    let mut planner = Traced::default();
    planner.observe(Observation::Pool(Box::new(Ok(settings().filled_to(1.0)))), at(100));
    for observation in seen {
        planner.observe(observation, at(100));
    }
    for sj in all {
        planner.observe(Observation::ScavengerJob(Box::new(sj.clone())), at(100));
    }
    planner
}

/// An answer comes after so many milliseconds.
fn answered(planner: &mut Traced, action: &Action, answer: Answer, after: i64) -> Plan {
    let time = at(200) + millis(after);
    let result = ActionResult { sj: action.sj.clone(), uid: action.uid.clone(), time, answer: Ok(answer) };
    planner.observe(Observation::Done(result), time);
    planner.plan(time)
}

/// Its status was written as the plan asks for it.
fn written(planner: &mut Traced, plan: &Plan, sj: &ScavengerJob, after: i64) -> (ScavengerJob, Plan) {
    let [action] = plan.actions.as_slice() else { panic!("{:?}", plan.actions) };
    let Task::WriteStatus(write) = &action.task else { panic!("{action:?}") };
    let status = write.status.clone();
    let sj = ScavengerJob { status, resource_version: sj.resource_version + 1, ..sj.clone() };
    let plan = answered(planner, action, Answer::ScavengerJob(Box::new(sj.clone())), after);
    (sj, plan)
}

/// It is found ready to start.
fn prepared(planner: &mut Traced, action: &Action, sj: &ScavengerJob, after: i64) -> Plan {
    let sj = ScavengerJob { resource_version: sj.resource_version + 10, ..sj.clone() };
    let answer = Answer::Prepared {
        sj: Box::new(sj),
        pods_left: 0,
        folder_pod: None,
        missing: Vec::new(),
        claims: Vec::new(),
    };
    answered(planner, action, answer, after)
}

/// Those whose status is to say Starting.
fn starts(plan: &Plan) -> Vec<&str> {
    let starts = |action: &&Action| matches!(&action.task, Task::WriteStatus(write) if write.status.phase == Phase::Starting);
    plan.actions.iter().filter(starts).map(|action| &*action.sj.name).collect()
}

/// Those that are to be prepared.
fn prepares(plan: &Plan) -> Vec<&Action> {
    plan.actions.iter().filter(|action| matches!(action.task, Task::Prepare { .. })).collect()
}

#[test]
fn of_two_in_one_folder_that_are_admitted_together_one_is_prepared_whatever_their_names() {
    for (first, second) in [("a", "b"), ("b", "a")] {
        let first = created(sj(first).in_folder("water"), 0);
        let second = created(sj(second).in_folder("water"), 10);
        let mut planner = planner([Observation::Node(node("n1", 10_000))], &[first.clone(), second.clone()]);
        let plan = planner.plan(at(200));
        let all = prepares(&plan);
        assert_eq!(all.len(), 1, "{:?}", plan.actions);
        assert_eq!(all[0].sj, first.key);
        let plan = prepared(&mut planner, all[0], &first, 10);
        assert_eq!(starts(&plan), [&*first.key.name]);
    }
}

#[test]
fn of_two_that_share_a_volume_and_are_admitted_one_after_the_other_one_is_prepared() {
    let nodes = ["n1", "n2"].map(|name| Observation::Node(node(name, 10_000)));
    let shops = ["n1", "n2"]
        .map(|name| Observation::Pod(Box::new(pod(&format!("shop-{name}"), 9000).on(name).running())));
    let access = Access::OneNode;
    let volume = Volume { name: "pv".into(), claim: Some(key("data")), affinity: Vec::new(), access };
    let all = [
        created(sj("a").asking(8000).mounting("data"), 0),
        created(sj("b").asking(7000).mounting("data"), 10),
    ];
    let seen = nodes.into_iter().chain(shops).chain([Observation::Volume(volume)]);
    let mut planner = planner(seen, &all);
    let plan = planner.plan(at(100));
    assert!(prepares(&plan).is_empty(), "nothing fits");
    // They are told so.
    for (action, number) in plan.actions.iter().zip(1..) {
        let Task::WriteStatus(write) = &action.task else { panic!("{action:?}") };
        let sj = all.iter().find(|sj| sj.key == action.sj).unwrap();
        let written =
            ScavengerJob { status: write.status.clone(), resource_version: number + 1, ..sj.clone() };
        answered(&mut planner, action, Answer::ScavengerJob(Box::new(written)), 0);
    }
    let mut prepared = Vec::new();
    for (shop, after) in [("shop-n1", 0), ("shop-n2", 5)] {
        let now = at(300) + millis(after);
        planner.observe(Observation::PodGone(key(shop)), now);
        prepared.extend(prepares(&planner.plan(now)).into_iter().map(|action| action.sj.name.to_string()));
    }
    assert_eq!(prepared, ["a"]);
}

#[test]
fn what_stands_in_the_way_of_a_start_is_looked_at_again_after_a_while_whatever_is_seen_until_then() {
    let missing = vec![("ConfigMap".to_owned(), "input".to_owned())];
    for (pods_left, folder_pod, missing) in
        [(1, None, Vec::new()), (0, Some("other-1-0".into()), Vec::new()), (0, None, missing)]
    {
        let sj = created(sj("a").in_folder("water"), 0);
        let mut planner = planner([Observation::Node(node("n1", 10_000))], slice::from_ref(&sj));
        let plan = planner.plan(at(200));
        let sj = ScavengerJob { resource_version: sj.resource_version + 1, ..sj };
        let answer =
            Answer::Prepared { sj: Box::new(sj.clone()), pods_left, folder_pod, missing, claims: Vec::new() };
        let plan = answered(&mut planner, prepares(&plan)[0], answer, 0);
        let (sj, plan) = written(&mut planner, &plan, &sj, 10);
        let message = sj.status.message.clone();
        assert!(plan.actions.is_empty(), "{message}: {:?}", plan.actions);
        let labelled = ScavengerJob { resource_version: sj.resource_version + 1, ..sj };
        planner.observe(Observation::ScavengerJob(Box::new(labelled)), at(201));
        let plan = planner.plan(at(201));
        assert!(plan.actions.is_empty(), "{message}: {:?}", plan.actions);
        let again = plan.wake_at.unwrap();
        assert_eq!(again, at(202), "{message}");
        assert_eq!(prepares(&planner.plan(again)).len(), 1, "{message}");
    }
}
