//! Tenants share the pool: in which order they come, and how much each may hold.

use jiff::SignedDuration;
use scavenger_planner::{
    Planner,
    fixtures::{node, seconds, settings, sj},
    report::TenantReport,
    resources::Share,
    values::{Key, Order, Phase, ScavengerJob, Settings, WaitingReason},
};
use scavenger_simulator::Cluster;

use super::work;

/// One node with 10 cpu. All of it may be used.
fn cluster(settings: Settings) -> Cluster {
    Cluster::new(settings.filled_to(1.0).starting_at_once(20)).with_nodes([node("n1", 10_000)])
}

fn submit(cluster: &mut Cluster, namespace: &str, count: usize, needs: i64) {
    for number in 0..count {
        cluster.submit(sj(&format!("{namespace}-{number}")).in_namespace(namespace), work(needs));
    }
}

fn of<'a>(cluster: &'a Cluster, namespace: &'a str) -> impl Iterator<Item = &'a ScavengerJob> {
    cluster.scavenger_jobs().filter(move |sj| &*sj.key.namespace == namespace)
}

fn running(cluster: &Cluster, namespace: &str) -> usize {
    of(cluster, namespace).filter(|sj| sj.status.phase.is_active()).count()
}

/// Why those of a namespace wait that know it.
fn waits(cluster: &Cluster, namespace: &str) -> Vec<(WaitingReason, String)> {
    let said = |sj: &ScavengerJob| {
        let waiting = sj.status.admitted.as_ref()?.waiting.clone()?;
        Some((waiting.reason, waiting.message))
    };
    of(cluster, namespace).filter_map(said).collect()
}

fn tenant(planner: &Planner, cluster: &Cluster, name: &str) -> TenantReport {
    let shares = planner.shares(cluster.now).expect("the pool should say something of tenants");
    shares.tenants.into_iter().find(|tenant| &*tenant.name == name).expect("the tenant should be known")
}

fn used(cluster: &Cluster, name: &str) -> f64 {
    tenant(&cluster.planner, cluster, name).used
}

#[test]
fn where_nobody_used_anything_tenants_take_turns_by_their_weights() {
    let mut cluster = cluster(settings().shared(&[("many", 1.0), ("few", 1.5)]));
    submit(&mut cluster, "many", 30, 100_000);
    submit(&mut cluster, "few", 8, 100_000);
    cluster.run_for(seconds(30));
    assert_eq!((running(&cluster, "many"), running(&cluster, "few")), (4, 6));
}

#[test]
fn without_a_word_about_shares_those_that_came_first_start_first() {
    let mut cluster = cluster(settings());
    submit(&mut cluster, "many", 30, 100_000);
    cluster.run_for(seconds(2));
    submit(&mut cluster, "few", 8, 100_000);
    cluster.run_for(seconds(30));
    assert_eq!((running(&cluster, "many"), running(&cluster, "few")), (10, 0));
    assert!(cluster.planner.shares(cluster.now).is_none());
}

#[test]
fn who_used_more_waits_until_others_used_as_much() {
    let mut cluster = cluster(settings().shared(&[]));
    submit(&mut cluster, "before", 200, 3600);
    cluster.run_for(SignedDuration::from_hours(12));
    submit(&mut cluster, "after", 200, 3600);
    // Those that run go on to their end.
    assert_eq!(running(&cluster, "before"), 10);
    cluster.run_for(seconds(2 * 3600));
    assert_eq!((running(&cluster, "before"), running(&cluster, "after")), (0, 10));
    assert!(used(&cluster, "before") > 0.2 && used(&cluster, "after") < 0.1);
    cluster.run_for(SignedDuration::from_hours(12));
    assert!(running(&cluster, "before") > 0, "it has its turn again");
}

#[test]
fn an_interruption_comes_before_any_share() {
    let mut cluster = cluster(settings().shared(&[]));
    submit(&mut cluster, "before", 40, 10_000);
    cluster.run_for(seconds(3600));
    submit(&mut cluster, "after", 40, 10_000);
    cluster.preempt(&Key::new("before", "before-3-1-0"));
    cluster.run_for(seconds(90));
    assert_eq!(running(&cluster, "before"), 10);
}

#[test]
fn a_tenant_holds_no_more_than_its_max_share_and_is_told_so() {
    for order in [Order::Interruptions, Order::FairShare] {
        let mut settings = settings().shared(&[]).with_tenant("lab-a", |tenant| {
            tenant.max_share = Some(Share::from_fraction(0.3));
        });
        settings.sharing.as_mut().unwrap().order = order;
        let mut cluster = cluster(settings.clone());
        submit(&mut cluster, "lab-a", 5, 1000);
        cluster.run_for(seconds(30));
        assert_eq!(running(&cluster, "lab-a"), 3);
        let said = waits(&cluster, "lab-a");
        let message = "needs 1 cpu, but tenant lab-a holds 3 cpu and may hold 3 cpu: 30% (maxShare) of the 10 cpu that \
                       ScavengerJobs may use now; waits until ScavengerJobs of this tenant end";
        assert!(said.contains(&(WaitingReason::TenantLimit, message.to_owned())), "{said:?}");
        // Nobody else is held up, even by one that has waited for long.
        cluster.run_for(seconds(800));
        submit(&mut cluster, "lab-b", 7, 100_000);
        cluster.run_for(seconds(30));
        assert_eq!(running(&cluster, "lab-b"), 7);
        // What runs when it is lowered goes on, and nothing is added.
        let lower =
            settings.with_tenant("lab-a", |tenant| tenant.max_share = Some(Share::from_fraction(0.1)));
        cluster.set_pool(Ok(lower.filled_to(1.0).starting_at_once(20)));
        cluster.run_for(seconds(30));
        assert_eq!(running(&cluster, "lab-a"), 3);
        cluster.run_for(seconds(400));
        assert_eq!(running(&cluster, "lab-a"), 1, "{}", cluster.history());
    }
}

#[test]
fn a_tenant_that_asks_for_more_than_it_may_ever_hold_is_told_what_to_do() {
    let settings = settings().shared(&[]).with_tenant("lab-a", |tenant| {
        tenant.max_share = Some(Share::from_fraction(0.2));
    });
    let mut cluster = cluster(settings);
    cluster.submit(sj("large").in_namespace("lab-a").asking(4000), work(10));
    cluster.run_for(seconds(30));
    let said = waits(&cluster, "lab-a");
    assert!(
        said[0].1.ends_with("have an admin raise maxShare in spec.tenants of the ScavengerPool"),
        "{said:?}"
    );
}

#[test]
fn a_paused_tenant_starts_nothing_and_what_runs_goes_on() {
    let paused = |paused| settings().shared(&[]).with_tenant("lab-a", |tenant| tenant.paused = paused);
    let whole = |settings: Settings| settings.filled_to(1.0).starting_at_once(20);
    let mut cluster = cluster(paused(false));
    submit(&mut cluster, "lab-a", 2, 100_000);
    cluster.run_for(seconds(30));
    cluster.set_pool(Ok(whole(paused(true))));
    cluster.submit(sj("late").in_namespace("lab-a"), work(1000));
    submit(&mut cluster, "lab-b", 2, 1000);
    cluster.run_for(seconds(30));
    assert_eq!((running(&cluster, "lab-a"), running(&cluster, "lab-b")), (2, 2));
    let message = "tenant lab-a is paused (spec.tenants of the ScavengerPool)".to_owned();
    assert_eq!(waits(&cluster, "lab-a"), [(WaitingReason::Paused, message)]);
    cluster.set_pool(Ok(whole(paused(false))));
    cluster.run_for(seconds(30));
    assert_eq!(running(&cluster, "lab-a"), 3);
}

#[test]
fn namespaces_with_the_same_label_are_one_tenant_whenever_they_are_labelled() {
    let mut settings = settings().shared(&[]).with_tenant("chem", |tenant| {
        tenant.max_share = Some(Share::from_fraction(0.4));
    });
    settings.sharing.as_mut().unwrap().label = Some("team".into());
    let mut cluster = cluster(settings);
    for namespace in ["chem-a", "chem-b"] {
        cluster.label_namespace(namespace, &[("team", "chem")]);
        submit(&mut cluster, namespace, 4, 100_000);
    }
    submit(&mut cluster, "other", 2, 100_000);
    cluster.run_for(seconds(30));
    assert_eq!(running(&cluster, "chem-a") + running(&cluster, "chem-b"), 4);
    assert_eq!(running(&cluster, "other"), 2);
    // A namespace of its own is no longer bound by that.
    cluster.label_namespace("chem-b", &[]);
    cluster.run_for(seconds(90));
    assert_eq!(running(&cluster, "chem-a") + running(&cluster, "chem-b"), 8);
    cluster.restart(true);
    cluster.run_for(seconds(30));
    assert_eq!(tenant(&cluster.planner, &cluster, "chem").running, running(&cluster, "chem-a"));
}

#[test]
fn what_was_used_is_the_tenants_whatever_becomes_of_its_scavenger_jobs() {
    let lived = |deletes: bool, splits: usize| {
        let mut cluster = cluster(settings().shared(&[]));
        let cpu = 8000 / i64::try_from(splits).unwrap();
        for number in 0..splits {
            let sj = sj(&format!("j{number}")).in_namespace("lab-a").asking(cpu);
            cluster.submit(sj, work(100_000));
        }
        cluster.run_for(seconds(7200));
        for number in 0..splits {
            let key = Key::new("lab-a", format!("j{number}"));
            match deletes {
                true => cluster.delete(&key),
                false => cluster.preempt(&Key::new("lab-a", format!("j{number}-1-0"))),
            }
        }
        // Without a word about shares it would be gone after the grace period.
        cluster.run_for(seconds(10));
        let is_there = of(&cluster, "lab-a").count() > 0;
        cluster.run_for(seconds(20));
        (is_there, used(&cluster, "lab-a"), cluster)
    };
    let (_, one, _) = lived(true, 1);
    let (_, many, mut cluster) = lived(true, 8);
    let (_, kept, _) = lived(false, 1);
    assert!((one - many).abs() < 1e-4 && (one - kept).abs() < 1e-3, "{one} {many} {kept}");
    assert_eq!(of(&cluster, "lab-a").count(), 0, "what was used is written down, so they are gone");
    cluster.restart(true);
    assert!((used(&cluster, "lab-a") - many).abs() < 1e-9);
    let decayed = many / 2.0;
    cluster.run_for(SignedDuration::from_hours(24));
    assert!((used(&cluster, "lab-a") - decayed).abs() < 1e-3);
}

/// One that has used a lot and has much that waits gets no more than its share by reservations.
#[test]
fn old_jobs_of_a_greedy_tenant_do_not_take_all_that_becomes_free() {
    let mut cluster = cluster(settings().shared(&[]));
    submit(&mut cluster, "greedy", 10, 3600);
    cluster.run_for(seconds(60));
    // They wait for longer than reserveAfter.
    for number in 0..20 {
        let large = sj(&format!("large-{number}")).in_namespace("greedy").asking(5000);
        cluster.submit(large, work(3600));
    }
    cluster.run_for(seconds(3000));
    submit(&mut cluster, "modest", 10, 3000);
    cluster.run_until("the first ten are through", |cluster| {
        of(cluster, "greedy").filter(|sj| sj.status.phase == Phase::Completed).count() == 10
    });
    cluster.run_for(seconds(30));
    assert_eq!((running(&cluster, "modest"), running(&cluster, "greedy")), (10, 0), "{}", cluster.history());
}

#[test]
fn a_large_one_of_the_first_tenant_is_not_passed_forever_by_small_ones() {
    let mut cluster = cluster(settings().shared(&[]));
    submit(&mut cluster, "small", 200, 500);
    cluster.run_for(seconds(4000));
    cluster.submit(sj("large").in_namespace("large").asking(9000), work(100));
    cluster.run_until("the large one runs", |cluster| running(cluster, "large") == 1);
    // reserveAfter, and what ran then.
    assert!(cluster.now < scavenger_planner::fixtures::at(4000 + 600 + 600), "{}", cluster.now);
}
