//! What agent and operator say to each other. The cgroups are plain files.

use std::{fs, time::Instant};

use crate::{
    harness::{Agent, Class, Tree, eventually},
    operator::Operator,
};

#[test]
fn a_request_is_held_until_there_is_something_to_say() {
    let tree = Tree::of_files();
    let pod = tree.running(Class::Burstable, 1, 200);
    let operator = Operator::start();
    operator.tell(&[pod.listed(true)]);
    let agent = Agent::start(&tree.root, &operator);
    eventually("idle", || pod.is_idle());
    eventually("a request that is held", || operator.server.requests().len() == 2);
    agent.write_token("another\n");
    let began = Instant::now();
    operator.tell(&[pod.listed(false)]);
    eventually("its weight", || pod.is_as_before());
    println!("{:?} from the operator's news to the weight", began.elapsed());
    eventually("the next request", || operator.server.requests().len() == 3);
    let requests = operator.server.requests();
    let said: Vec<_> =
        requests.iter().map(|request| (request.token.as_str(), request.report.version.as_str())).collect();
    assert_eq!(said, [("Bearer token", ""), ("Bearer token", "1"), ("Bearer another", "2")]);
    assert!(requests.iter().all(|request| request.path == "/nodes" && request.report.failed.is_empty()));
    agent.end();
}

#[test]
fn what_the_kernel_refuses_is_said_and_reported() {
    let tree = Tree::of_files();
    let (good, bad) = (tree.running(Class::Burstable, 1, 200), tree.running(Class::Guaranteed, 2, 200));
    fs::write(bad.path.join("cpu.idle"), "nonsense").unwrap();
    let operator = Operator::start();
    operator.tell(&[bad.listed(true), good.listed(true)]);
    let agent = Agent::start_with(&tree.root, &operator, &["--look-every", "10ms"]);
    eventually("idle", || good.is_idle());
    eventually("a report", || {
        operator.tell(&[bad.listed(true), good.listed(true)]);
        operator.server.requests().last().is_some_and(|last| last.report.failed == [bad.uid.as_str()])
    });
    let log = agent.log();
    assert_eq!(log.matches("cannot change the cgroup").count(), 1, "{log}");
    fs::write(bad.path.join("cpu.idle"), "0").unwrap();
    eventually("idle", || bad.is_idle());
    agent.end();
}

#[test]
fn a_tree_that_is_missing_is_waited_for() {
    let tree = Tree::of_files();
    let pod = tree.running(Class::Burstable, 1, 200);
    let elsewhere = tree.root.with_file_name("elsewhere");
    fs::rename(&tree.root, &elsewhere).unwrap();
    let operator = Operator::start();
    let agent = Agent::start_with(&tree.root, &operator, &["--look-every", "10ms"]);
    eventually("a report", || {
        operator.tell(&[pod.listed(true)]);
        operator.server.requests().last().is_some_and(|last| last.report.failed == [pod.uid.as_str()])
    });
    let log = agent.log();
    assert_eq!(log.matches("cannot read the cgroups of pods").count(), 1, "{log}");
    fs::rename(&elsewhere, &tree.root).unwrap();
    eventually("idle", || pod.is_idle());
    agent.end();
}

#[test]
fn a_replica_that_does_not_lead_is_asked_again() {
    let tree = Tree::of_files();
    let pod = tree.running(Class::Burstable, 1, 200);
    let operator = Operator::start();
    operator.refuse(Some(421));
    operator.tell(&[pod.listed(true)]);
    let agent = Agent::start(&tree.root, &operator);
    eventually("a try", || !operator.server.requests().is_empty());
    operator.refuse(None);
    eventually("idle", || pod.is_idle());
    let log = agent.end();
    assert!(log.contains("no replica leads"), "{log}");
}
