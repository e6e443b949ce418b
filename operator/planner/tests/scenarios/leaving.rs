//! Nodes that are in the pool until a time that an admin has announced. The model's ScavengerJobs start again within a minute and
//! save every minute, unless a scenario says otherwise.

use scavenger_planner::{
    fixtures::{at, budget, node, pod, seconds, settings, sj},
    resources::Share,
    values::{Node, Phase, Reason, Settings, WaitingReason},
};
use scavenger_simulator::{Cluster, Workload};

use super::work;

/// So many nodes for ten ScavengerJobs each, which fill them.
fn full(nodes: usize, settings: Settings) -> Cluster {
    let nodes: Vec<Node> = (0..nodes).map(|number| node(&name(number), 10_000)).collect();
    let count = nodes.len() * 10;
    let mut cluster = Cluster::new(settings.filled_to(1.0)).with_nodes(nodes);
    for number in 0..count {
        cluster.submit(sj(&format!("job{number}")), work(100_000));
    }
    cluster.run_until("all run", |cluster| {
        cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count() == count
    });
    cluster
}

fn name(number: usize) -> String {
    format!("n{number}")
}

/// The time so many seconds after the model began is announced for a node.
fn announce(cluster: &mut Cluster, number: usize, second: i64) {
    cluster.set_node(node(&name(number), 10_000).until(at(second)));
    cluster.run_for(seconds(1));
}

fn run_to(cluster: &mut Cluster, second: i64) {
    let time = at(second).duration_since(cluster.now);
    assert!(time >= seconds(0), "it is later than {second}");
    cluster.run_for(time);
}

/// How many pods of ScavengerJobs are on a node.
fn there(cluster: &Cluster, number: usize) -> usize {
    let name = name(number);
    cluster.all_live_pods().iter().filter(|pod| pod.node.as_deref() == Some(&*name)).count()
}

fn on(cluster: &Cluster, sj: &str) -> String {
    cluster.live_pods(sj)[0].node.as_deref().expect("it should be on a node").to_owned()
}

#[test]
fn only_what_can_save_before_starts_there() {
    let nodes = [node("n0", 10_000).until(at(3600))];
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    // A minute to start, 45 to save, and two that it is asked for the last checkpoint before.
    cluster.submit(sj("slow").interruptible_after(seconds(46 * 60)), work(10_000));
    cluster.submit(sj("quick").interruptible_after(seconds(15 * 60)), work(10_000));
    cluster.submit(sj("saves").saving().interruptible_after(seconds(7200)), work(10_000));
    for name in ["quick", "saves"] {
        cluster.run_until_phase(name, Phase::Running);
    }
    cluster.run_for(seconds(60));
    assert_eq!(cluster.waits("slow"), Some(WaitingReason::NoCapacity), "{}", cluster.history());
    let message = cluster.status("slow").message.clone();
    let expected = "(1 node looked at, 1 of them in the pool for too short a time for it to save)";
    assert!(message.ends_with(expected), "{message}");
    // What needs 18 minutes is given 20.
    run_to(&mut cluster, 3600 - 20 * 60);
    cluster.submit(sj("late").interruptible_after(seconds(15 * 60)), work(10_000));
    cluster.submit(sj("saves-late").saving().interruptible_after(seconds(7200)), work(10_000));
    cluster.run_until_phase("saves-late", Phase::Running);
    cluster.run_for(seconds(60));
    // Behind the other one, since both ask for the same and may go nowhere.
    assert_eq!(cluster.waits("late"), Some(WaitingReason::BehindInQueue), "{}", cluster.history());
    cluster.set_node(node("n0", 10_000));
    for name in ["late", "slow"] {
        cluster.run_until_phase(name, Phase::Running);
    }
}

#[test]
fn kube_scheduler_does_not_choose_it_for_what_cannot_save_before() {
    let nodes = [node("n0", 10_000).until(at(3600)), node("n1", 10_000)];
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    // The other node is the emptier one.
    cluster.create_pod(pod("shop", 5000).patient(), seconds(10_000));
    cluster.run_until("it has a node", |cluster| {
        cluster.ordinary_pods().next().is_some_and(|pod| pod.node.is_some())
    });
    for name in ["a", "b", "c"] {
        cluster.submit(sj(name).interruptible_after(seconds(7200)), work(10_000));
        cluster.run_until_phase(name, Phase::Running);
        assert_eq!(on(&cluster, name), "n1", "{}", cluster.history());
    }
}

#[test]
fn a_job_names_the_nodes_where_too_many_others_leave() {
    let nodes = (0..60).map(|number| match number {
        0..55 => node(&name(number), 10_000).until(at(3600)),
        _ => node(&name(number), 10_000),
    });
    let mut cluster = Cluster::new(settings().filled_to(1.0)).with_nodes(nodes);
    for number in 0..4 {
        let name = format!("slow{number}");
        cluster.submit(sj(&name).interruptible_after(seconds(7200)).asking(6000), work(10_000));
        cluster.run_until_phase(&name, Phase::Running);
        let on = on(&cluster, &name);
        assert!(on.trim_start_matches('n').parse::<usize>().is_ok_and(|number| number >= 55), "{on}");
    }
}

#[test]
fn a_node_is_empty_at_its_time_and_stays_so() {
    let mut cluster = full(1, settings());
    announce(&mut cluster, 0, 3600);
    // Half a minute for a checkpoint, as much to stop, and as much for the kubelet.
    run_to(&mut cluster, 3600 - 91);
    assert_eq!(there(&cluster, 0), 10, "{}", cluster.history());
    run_to(&mut cluster, 3600);
    assert_eq!(there(&cluster, 0), 0, "{}", cluster.history());
    let reasons = |reason: &Reason| {
        let attempts = cluster.scavenger_jobs().filter_map(|sj| sj.status.attempt.as_deref());
        attempts.filter(|attempt| attempt.reason.as_ref() == Some(reason)).count()
    };
    assert_eq!(reasons(&Reason::NodeLeftPool), 10);
    cluster.submit(sj("saves").saving(), work(10));
    cluster.run_for(seconds(3600));
    assert_eq!(there(&cluster, 0), 0, "{}", cluster.history());
    let report = cluster.planner.pool_report(cluster.now);
    let messages: Vec<String> = report.closed_nodes.iter().map(|(node, why)| why.message(node)).collect();
    assert_eq!(
        messages,
        ["node n0 is in the pool until 2027-01-15T09:00:00Z, too soon for anything to start there"]
    );
    cluster.set_node(node("n0", 10_000));
    cluster.run_until("all run again", |cluster| there(cluster, 0) >= 10);
}

#[test]
fn the_slower_the_budget_the_earlier_they_begin_to_go() {
    let mut cluster = full(2, Settings { budgets: vec![budget(1, 60)], ..settings() });
    announce(&mut cluster, 0, 3600);
    // Nine minutes from the first of ten to the last.
    run_to(&mut cluster, 3600 - 91 - 540);
    assert_eq!(there(&cluster, 0), 10, "{}", cluster.history());
    run_to(&mut cluster, 3600 - 91 - 240);
    assert!((4..=6).contains(&there(&cluster, 0)), "{}", cluster.history());
    run_to(&mut cluster, 3600);
    assert_eq!((there(&cluster, 0), there(&cluster, 1)), (0, 10), "{}", cluster.history());
}

#[test]
fn nodes_that_leave_one_after_the_other_share_a_budget() {
    let mut cluster = full(3, Settings { budgets: vec![budget(1, 30)], ..settings() });
    cluster.strict = false;
    for (number, second) in [(0, 3600), (1, 3660), (2, 7200)] {
        announce(&mut cluster, number, second);
    }
    run_to(&mut cluster, 3600);
    assert_eq!(there(&cluster, 0), 0, "{}", cluster.history());
    run_to(&mut cluster, 3660);
    assert_eq!((there(&cluster, 1), there(&cluster, 2)), (0, 10), "{}", cluster.history());
}

#[test]
fn what_the_budget_holds_back_stays_beyond_the_time() {
    let mut cluster = full(1, Settings { budgets: vec![budget(0, 10)], ..settings() });
    announce(&mut cluster, 0, 3600);
    run_to(&mut cluster, 3700);
    assert_eq!(there(&cluster, 0), 10);
    let held = cluster.planner.held_back(cluster.now);
    assert_eq!(
        held.iter().map(|held| (held.reason, held.jobs.len())).collect::<Vec<_>>(),
        [(&Reason::NodeLeftPool, 10)]
    );
    cluster.set_pool(Ok(Settings { budgets: vec![budget(1, 10)], ..settings().filled_to(1.0) }));
    cluster.run_for(seconds(150));
    assert_eq!(there(&cluster, 0), 0, "{}", cluster.history());
}

#[test]
fn a_time_that_is_mended_within_a_minute_costs_nothing() {
    let mut cluster = full(1, settings());
    // Of last year.
    announce(&mut cluster, 0, -86_400 * 365);
    cluster.run_for(seconds(50));
    announce(&mut cluster, 0, 86_400);
    cluster.run_for(seconds(600));
    assert_eq!(there(&cluster, 0), 10, "{}", cluster.history());
    announce(&mut cluster, 0, -86_400 * 365);
    cluster.run_for(seconds(75));
    assert_eq!(there(&cluster, 0), 0, "{}", cluster.history());
}

/// Two nodes, one for each ScavengerJob. No budget lets anybody go; the first node leaves.
#[test]
fn workloads_save_two_minutes_before_even_if_the_budget_holds_them_back() {
    let settings = Settings { budgets: vec![budget(0, 10)], ..settings().supervising() };
    let mut cluster =
        Cluster::new(settings.filled_to(1.0)).with_nodes([node("n0", 10_000), node("n1", 10_000)]);
    for name in ["a", "b"] {
        let workload = Workload { saves: false, ..work(100_000) };
        cluster.submit(sj(name).watched().that_can_be_asked().asking(8000), workload);
        cluster.run_until_phase(name, Phase::Running);
        cluster.report_checkpoint(name);
    }
    let on_first = if on(&cluster, "a") == "n0" { "a" } else { "b" };
    announce(&mut cluster, 0, 3600);
    let asked = |cluster: &Cluster| {
        let asked = cluster.planner.asked_for_checkpoint();
        asked.map(|(pod, since)| (pod.clone(), since)).collect::<Vec<_>>()
    };
    run_to(&mut cluster, 3600 - 121);
    assert_eq!(asked(&cluster), []);
    run_to(&mut cluster, 3600 - 120);
    let pod = cluster.live_pods(on_first)[0].uid.clone();
    assert_eq!(asked(&cluster), [(pod.clone(), at(3600 - 120))]);
    // The next operator asks as well.
    cluster.restart(false);
    cluster.run_for(seconds(5));
    assert_eq!(asked(&cluster), [(pod, at(3600 - 120))]);
    cluster.report_checkpoint(on_first);
    cluster.run_for(seconds(1));
    assert_eq!(asked(&cluster), [], "it has saved");
    run_to(&mut cluster, 3700);
    assert_eq!((asked(&cluster), there(&cluster, 0)), (Vec::new(), 1));
}

/// Those that have just saved lose least, and go first.
#[test]
fn those_go_first_that_lose_least() {
    let mut supervising = settings().supervising();
    supervising.budgets = vec![budget(1, 20)];
    let mut cluster =
        Cluster::new(supervising.filled_to(1.0)).with_nodes([node("n0", 10_000), node("n1", 10_000)]);
    let names = ["a", "b", "c", "d"];
    for name in names {
        let sj = sj(name).watched().asking(2000).only_on("here", "yes").interruptible_after(seconds(600));
        cluster.submit(sj, Workload { saves: false, ..work(100_000) });
    }
    let here = |node: Node| node.labelled("here", "yes");
    cluster.set_node(here(node("n0", 10_000)));
    for name in names {
        cluster.run_until_phase(name, Phase::Running);
        cluster.report_checkpoint(name);
    }
    cluster.set_node(here(node("n0", 10_000)).until(at(3600)));
    run_to(&mut cluster, 3600 - 240);
    for name in ["c", "a"] {
        cluster.report_checkpoint(name);
        cluster.run_for(seconds(1));
    }
    let interrupted = |cluster: &Cluster| {
        names.into_iter().filter(|name| cluster.status(name).interrupted_count > 0).collect::<Vec<_>>()
    };
    run_to(&mut cluster, 3600 - 90 - 60 + 25);
    assert_eq!(interrupted(&cluster), ["a", "c"], "{}", cluster.history());
    run_to(&mut cluster, 3600);
    assert_eq!(interrupted(&cluster), names);
}

/// What waits for the node of an ordinary pod is not held up by what leaves it anyway.
#[test]
fn an_ordinary_pod_waits_for_no_budget() {
    let none = Settings { budgets: vec![budget(0, 3600)], ..settings().preempting() };
    let mut cluster = full(1, none);
    cluster.strict = false;
    announce(&mut cluster, 0, 120);
    cluster.create_pod(pod("shop", 3000).patient(), seconds(10_000));
    cluster.run_for(seconds(10));
    assert!(cluster.ordinary_pods().next().is_some_and(|pod| pod.node.is_some()), "{}", cluster.history());
    assert_eq!(there(&cluster, 0), 7);
}

/// The time of a node outside the pool concerns nobody.
#[test]
fn a_node_outside_the_pool_keeps_nobody_off_and_is_not_cleared_for_its_time() {
    let mut outside = settings().filled_to(1.0);
    outside.node_selector = [("pool".into(), "yes".into())].into();
    outside.headroom.target = Share::from_fraction(1.0);
    let nodes = [node("n0", 10_000).until(at(600)), node("n1", 10_000).labelled("pool", "yes")];
    let mut cluster = Cluster::new(outside).with_nodes(nodes);
    cluster.submit(sj("a").interruptible_after(seconds(7200)), work(100));
    cluster.run_until_phase("a", Phase::Running);
    assert!(cluster.stored_sj("a").spec.as_ref().unwrap().demand.placement.avoided.is_empty());
    assert!(cluster.planner.pool_report(cluster.now).closed_nodes.is_empty());
}
