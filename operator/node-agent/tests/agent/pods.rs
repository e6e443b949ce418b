//! Pods of a node with the kernel's cgroups.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use scavenger_cgroups::cpu::{Cgroup, Wish};

use crate::{
    harness::{Agent, Class, Driver, Pod, Tree, eventually, program},
    operator::Operator,
};

const CLASSES: [(Class, u64); 3] =
    [(Class::Guaranteed, 1_600), (Class::Burstable, 200), (Class::BestEffort, 0)];

/// A pod of each class.
fn pods(tree: &Tree, from: u32) -> Vec<Pod> {
    (from..).zip(CLASSES).map(|(number, (class, milli_cpu))| tree.running(class, number, milli_cpu)).collect()
}

#[test]
fn pods_become_idle_and_get_their_weights_back() {
    for (driver, container) in [(Driver::Cgroupfs, "crio-91ab"), (Driver::Systemd, "crio-91ab.scope")] {
        let Some(tree) = Tree::of_kernel(driver) else { return };
        let (ours, ordinary) = (pods(&tree, 1), pods(&tree, 10));
        ours.iter().for_each(|pod| pod.container(container));
        let operator = Operator::start();
        let agent = Agent::start(&tree.root, &operator);
        operator.tell(&ours.iter().map(|pod| pod.listed(true)).collect::<Vec<_>>());
        eventually("all idle", || ours.iter().all(Pod::is_idle));
        // The first ends in a while, the second was deleted by force, the third stays until the agent ends.
        operator.tell(&[ours[0].listed(false), ours[2].listed(true)]);
        eventually("two weights", || ours[..2].iter().all(Pod::is_as_before));
        assert!(ours[2].is_idle());
        let log = agent.end();
        assert!(ours.iter().chain(&ordinary).all(Pod::is_as_before), "{log}");
        for (pod, word) in ours.iter().zip(["has weight", "has weight", "is idle"]) {
            assert_eq!(log.matches(&format!("pod {} {word}", pod.uid)).count(), 1, "{log}");
        }
        assert!(ordinary.iter().all(|pod| !log.contains(&pod.uid)), "{log}");
    }
}

#[test]
fn the_kubelet_is_done_before_the_agent_begins() {
    let Some(tree) = Tree::of_kernel(Driver::Systemd) else { return };
    let operator = Operator::start();
    let agent = Agent::start(&tree.root, &operator);
    let other = tree.running(Class::Burstable, 1, 200);
    // It is bound, and the kubelet has not heard of it.
    let uid = "0a0a0a0a-0000-4000-8000-000000000002";
    let bound = scavenger_schema::node_agent::NodePod { uid: uid.to_owned(), milli_cpu: 1_600, idle: true };
    operator.tell(&[other.listed(true), bound]);
    eventually("the other one", || other.is_idle());
    let pod = tree.pod(Class::Burstable, 2, 1_600);
    assert_eq!(pod.uid, uid);
    // Two looks of the agent and more.
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        pod.write_weight().unwrap();
        assert!(pod.is_as_before());
        thread::yield_now();
    }
    pod.container("cri-containerd-0.scope");
    let began = Instant::now();
    eventually("idle", || pod.is_idle());
    println!("idle {:?} after the pod's first container was there", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(2), "it is looked for five times a second");
    let log = agent.end();
    assert!(!log.contains("cannot"), "{log}");
}

#[test]
fn weights_that_others_write_are_mended() {
    let Some(tree) = Tree::of_kernel(Driver::Systemd) else { return };
    let pod = tree.running(Class::Burstable, 1, 1_600);
    let operator = Operator::start();
    let agent = Agent::start_with(&tree.root, &operator, &["--look-every", "100ms"]);
    operator.tell(&[pod.listed(true)]);
    eventually("idle", || pod.is_idle());
    for time in 1..=3 {
        // As systemd does: idle no more, then the weight.
        if pod.read("cpu.idle").is_some() {
            fs::write(pod.path.join("cpu.idle"), "0").unwrap();
        }
        pod.write_weight().ok();
        eventually("idle again", || pod.is_idle());
        eventually("a word about it", || agent.log().matches("is again").count() == time);
    }
    operator.tell(&[pod.listed(false)]);
    eventually("the weight", || pod.is_as_before());
    agent.end();
}

#[test]
fn an_agent_that_is_killed_leaves_nothing_changed() {
    let Some(tree) = Tree::of_kernel(Driver::Cgroupfs) else { return };
    let ours = pods(&tree, 1);
    let listed: Vec<_> = ours.iter().map(|pod| pod.listed(true)).collect();
    let operator = Operator::start();
    operator.tell(&listed);
    let agent = Agent::start(&tree.root, &operator);
    eventually("all idle", || ours.iter().all(Pod::is_idle));
    agent.kill();
    // Meanwhile one pod was deleted, and another is no longer listed.
    operator.tell(&[ours[0].listed(true), ours[1].listed(false)]);
    assert!(ours.iter().all(Pod::is_idle));
    let agent = Agent::start(&tree.root, &operator);
    eventually("two weights", || ours[1..].iter().all(Pod::is_as_before));
    assert!(ours[0].is_idle());
    agent.kill();
    // Nobody is left but this command.
    let restored = Command::new(program()).args(["restore", "--tree"]).arg(&tree.root).status().unwrap();
    assert!(restored.success() && ours.iter().all(Pod::is_as_before));
}

#[test]
fn without_an_operator_the_last_answer_counts() {
    let Some(tree) = Tree::of_kernel(Driver::Cgroupfs) else { return };
    let pod = tree.running(Class::Burstable, 1, 200);
    let operator = Operator::start();
    operator.tell(&[pod.listed(true)]);
    let agent = Agent::start_with(&tree.root, &operator, &["--look-every", "100ms"]);
    eventually("idle", || pod.is_idle());
    operator.refuse(Some(503));
    eventually("a word about it", || agent.log().contains("HTTP status 503"));
    if pod.read("cpu.idle").is_some() {
        fs::write(pod.path.join("cpu.idle"), "0").unwrap();
    }
    pod.write_weight().ok();
    eventually("idle again", || pod.is_idle());
    let log = agent.end();
    assert!(pod.is_as_before() && log.matches("cannot ask").count() == 1, "{log}");
}

/// Makes pods and ends them at once, in three threads, until something else is done.
fn churn(tree: &Tree, with: impl Fn(&Pod) + Sync, until: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for lane in 1..=3 {
            let (with, ended) = (&with, &ended);
            scope.spawn(move || {
                for number in lane * 100_000.. {
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                    let pod = tree.running(Class::Burstable, number, 200);
                    with(&pod);
                    pod.end();
                }
            });
        }
        let _ends = Ends(&ended);
        until();
    });
}

/// Ends the threads, also if a test fails that they would wait for.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn pods_come_and_go_while_it_looks() {
    let Some(tree) = Tree::of_kernel(Driver::Systemd) else { return };
    let stays = tree.running(Class::Burstable, 1, 200);
    let operator = Operator::start();
    let agent = Agent::start_with(&tree.root, &operator, &["--look-every", "1ms"]);
    let listed = |pod: &Pod| operator.tell(&[stays.listed(pod.uid.ends_with('0')), pod.listed(true)]);
    churn(&tree, listed, || {
        let until = Instant::now() + Duration::from_secs(3);
        eventually("the end of the time", || Instant::now() >= until);
    });
    operator.tell(&[stays.listed(true)]);
    eventually("idle", || stays.is_idle());
    let log = agent.end();
    assert!(stays.is_as_before() && !log.contains("cannot"), "{log}");
}

#[test]
fn pods_come_and_go_while_weights_are_given_back() {
    let Some(tree) = Tree::of_kernel(Driver::Cgroupfs) else { return };
    let idle = |pod: &Pod| {
        Cgroup::open(&pod.path).unwrap().fulfil(Wish::Idle).unwrap();
    };
    churn(&tree, idle, || {
        for _ in 0..50 {
            let restore =
                Command::new(program()).args(["restore", "--tree"]).arg(&tree.root).output().unwrap();
            assert!(restore.status.success(), "{}", String::from_utf8_lossy(&restore.stderr));
        }
    });
}

#[test]
fn a_node_of_250_pods() {
    let Some(tree) = Tree::of_kernel(Driver::Systemd) else { return };
    let all: Vec<_> = (1..=250).map(|number| tree.running(Class::Burstable, number, 200)).collect();
    let operator = Operator::start();
    operator.tell(&[]);
    let agent = Agent::start(&tree.root, &operator);
    eventually("the agent", || operator.server.requests().len() > 1);
    let began = Instant::now();
    operator.tell(&all.iter().map(|pod| pod.listed(true)).collect::<Vec<_>>());
    eventually("all idle", || all.iter().all(Pod::is_idle));
    println!("250 pods idle after {:?}", began.elapsed());
    let began = Instant::now();
    let log = agent.end();
    println!("and back after {:?}", began.elapsed());
    assert!(all.iter().all(Pod::is_as_before), "{log}");
}
