//! What an admin waits for while very many ScavengerJobs wait.

use jiff::SignedDuration;
use scavenger_planner::{
    action::{Action, Task, Urgency},
    fixtures::{node, seconds, settings, sj},
    values::{Phase, Settings},
};
use scavenger_simulator::{Cluster, Stream, Workload};

use super::work;

const CROWD: usize = 100_000;

fn pool() -> Settings {
    settings().filled_to(0.8).starting_at_once(40)
}

/// Forty run, and very many more wait; a few of them were told why. Four actions at a time are carried out.
fn crowd() -> Cluster {
    let mut cluster = Cluster::new(pool()).with_nodes([node("n1", 50_000)]).with_concurrency(4);
    cluster.thorough = false;
    for number in 0..40 {
        cluster.submit(sj(&format!("runs{number:02}")), work(100_000));
    }
    cluster.run_until("forty run", |cluster| {
        cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).count() == 40
    });
    for number in 0..CROWD {
        cluster.submit(sj(&format!("job{number:06}")), Workload::default());
    }
    cluster.run_for(seconds(300));
    // Five a second, and five that a quiet time had saved up.
    let told = cluster.scavenger_jobs().filter(|sj| sj.status.written).count() - 40;
    assert!((1400..=1505).contains(&told), "{told} were told in five minutes");
    cluster
}

fn delete_those_that_run(cluster: &mut Cluster) {
    for number in 0..40 {
        cluster.delete_sj(&format!("runs{number:02}"));
    }
}

/// What was carried out after the settings changed, by how long after.
fn after(cluster: &mut Cluster, settings: Settings) -> Vec<(SignedDuration, Action)> {
    let (before, began) = (cluster.log.len(), cluster.now);
    cluster.set_pool(Ok(settings));
    cluster.run_for(seconds(120));
    let log = cluster.log[before..].iter();
    log.map(|(time, action)| (time.duration_since(began), action.clone())).collect()
}

fn begins(action: &Action) -> bool {
    comes_to(action, Phase::Starting)
}

fn comes_to(action: &Action, phase: Phase) -> bool {
    matches!(&action.task, Task::WriteStatus(write) if write.status.phase == phase)
}

/// Lets time pass until so many actions of this kind were carried out. Looks at what was done, and not at each of the crowd
/// after every step.
fn run_until_done(cluster: &mut Cluster, what: &str, count: usize, of: impl Fn(&Action) -> bool) {
    let before = cluster.log.len();
    cluster.run_until(what, |cluster| {
        cluster.log[before..].iter().filter(|(_, action)| of(action)).nth(count - 1).is_some()
    });
}

#[test]
fn once_it_is_paused_nothing_starts_however_many_wait() {
    let mut cluster = crowd();
    delete_those_that_run(&mut cluster);
    run_until_done(&mut cluster, "the first of the crowd starts", 1, begins);
    let log = after(&mut cluster, Settings { paused: true, ..pool() });
    // The watch, and the requests that were on their way when the planner heard of it.
    let known = cluster.delays.watch[&Stream::Pool] + cluster.delays.request;
    let late = log.iter().filter(|(time, action)| {
        *time > known && (begins(action) || matches!(action.task, Task::CreateJob { .. }))
    });
    assert_eq!(late.count(), 0);
    assert!(log.iter().any(|(_, action)| matches!(action.task, Task::CreateJob { .. })), "it came too late");
}

#[test]
fn a_drain_evicts_its_first_pod_within_two_seconds_however_many_wait() {
    let mut cluster = crowd();
    let log = after(&mut cluster, Settings { drain: true, ..pool() });
    let first = log.iter().position(|(_, action)| Urgency::of(&action.task) == Urgency::Stops);
    let first = first.expect("a pod should be evicted");
    let took = log[first].0;
    assert!(took < seconds(2), "{first} actions in {took} before the first eviction");
}

#[test]
fn a_pause_that_is_taken_back_holds_nobody_up_however_many_wait() {
    let mut cluster = crowd();
    delete_those_that_run(&mut cluster);
    cluster.set_pool(Ok(Settings { paused: true, ..pool() }));
    cluster.run_for(seconds(1));
    let log = after(&mut cluster, pool());
    let first = log.iter().position(|(_, action)| begins(action)).expect("one should start");
    let took = log[first].0;
    assert!(took < seconds(2), "{first} actions in {took} before the first start");
}

/// So many that refer to a ConfigMap that does not exist, 20 s after they came.
fn lacking(count: usize) -> Cluster {
    let mut cluster = Cluster::new(pool()).with_nodes([node("n1", 50_000_000)]).with_concurrency(4);
    cluster.thorough = false;
    for number in 0..count {
        let missing = vec![("ConfigMap".to_owned(), "nope".to_owned())];
        let workload = Workload { refers_to: missing, ..Workload::default() };
        cluster.submit(sj(&format!("job{number:04}")), workload);
    }
    cluster.run_for(seconds(20));
    cluster
}

#[test]
fn those_that_refer_to_something_missing_are_told_from_the_budget_however_many_they_are() {
    let cluster = lacking(5000);
    let written =
        cluster.log.iter().filter(|(_, action)| matches!(action.task, Task::WriteStatus(_))).count();
    // Five a second, and five that a quiet time had saved up.
    assert!((90..=105).contains(&written), "{written} writes in 20 s");
    let cluster = lacking(20);
    for sj in cluster.scavenger_jobs() {
        let expected = "ConfigMap \"nope\" does not exist in namespace \"lab\"";
        assert_eq!(sj.status.message, expected, "{}", sj.key);
    }
}

#[test]
fn a_pool_that_was_deleted_and_made_again_holds_nobody_up_however_many_wait() {
    let mut cluster = crowd();
    delete_those_that_run(&mut cluster);
    cluster.set_pool(Err("the ScavengerPool \"default\" does not exist".to_owned()));
    cluster.run_for(seconds(60));
    let log = after(&mut cluster, pool());
    let (first, _) = log.iter().find(|(_, action)| begins(action)).expect("some should start");
    assert!(*first <= seconds(2), "the first start came after {first}");
}

#[test]
fn a_device_plugin_that_starts_again_holds_nobody_up_however_many_wait() {
    let gpu = "nvidia.com/gpu";
    let with_gpus = |count| node("gpus", 50_000).having(gpu, count);
    let mut cluster = Cluster::new(pool()).with_nodes([with_gpus(8)]).with_concurrency(4);
    cluster.thorough = false;
    for number in 0..CROWD {
        cluster.submit(sj(&format!("job{number:06}")).asking_for(gpu, 1), work(100_000));
    }
    run_until_done(&mut cluster, "most of the GPUs are in use", 6, |action| comes_to(action, Phase::Running));
    cluster.run_for(seconds(60));
    let before = cluster.log.len();
    // The kubelet says 0 until the plugin has registered again, for some seconds.
    cluster.set_node(with_gpus(0));
    cluster.run_for(seconds(10));
    cluster.set_node(with_gpus(8));
    let began = cluster.now;
    for number in 0..4 {
        cluster.delete_sj(&format!("job{number:06}"));
    }
    cluster.run_for(seconds(60));
    let log = &cluster.log[before..];
    let told = log.iter().filter(|(_, action)| Urgency::of(&action.task) == Urgency::Tells).count();
    assert!(told <= 5 * 75, "{told} were told in 70 s");
    let first = log.iter().find(|(time, action)| *time >= began && begins(action));
    let first = first.expect("some should start").0.duration_since(began);
    assert!(first <= seconds(5), "the first start came after {first}");
}
