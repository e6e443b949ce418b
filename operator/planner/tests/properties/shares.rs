//! Shares between tenants: what they used is known exactly, shares follow weights, nobody starves, and limits hold.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use scavenger_planner::{
    Planner,
    fixtures::{node, seconds, settings, sj},
    resources::Share,
    values::{Key, Name, Order, Phase, ScavengerJob, Settings},
};
use scavenger_simulator::{Cluster, Workload};

/// After this time what was used counts half as much.
const HALF_LIFE: SignedDuration = SignedDuration::from_hours(2);

fn pool(weights: &[(&str, f64)]) -> Settings {
    let mut settings = settings().filled_to(1.0).starting_at_once(50).shared(weights);
    settings.sharing.as_mut().expect("it should be shared").half_life = HALF_LIFE;
    settings
}

/// Two nodes with 10 cpu each.
fn cluster(settings: Settings) -> Cluster {
    let mut cluster = Cluster::new(settings).with_nodes([node("n1", 10_000), node("n2", 10_000)]);
    // What holds after each plan is checked by others.
    cluster.thorough = false;
    cluster
}

fn of<'a>(cluster: &'a Cluster, namespace: &'a str) -> impl Iterator<Item = &'a ScavengerJob> {
    cluster.scavenger_jobs().filter(move |sj| &*sj.key.namespace == namespace)
}

fn waiting(cluster: &Cluster, namespace: &str) -> usize {
    of(cluster, namespace).filter(|sj| sj.status.phase == Phase::Waiting).count()
}

fn used(planner: &Planner, now: Timestamp) -> BTreeMap<Name, f64> {
    let shares = planner.shares(now).expect("it should be shared");
    shares
        .tenants
        .into_iter()
        .map(|tenant| (tenant.name, tenant.averages.get("cpu").copied().unwrap_or(0.0)))
        .collect()
}

/// How a tenant submits: cores of each and for how many seconds each runs, and how many wait at least: more than there are
/// cores, so that it never has none to start.
#[derive(Debug, Clone)]
struct Greed {
    cpu: i64,
    needs: i64,
    wait: usize,
}

fn greed() -> impl Strategy<Value = Greed> {
    (1..4_i64, 200..900_i64, 21..40_usize).prop_map(|(cpu, needs, wait)| Greed { cpu, needs, wait })
}

/// Tops up what waits of each tenant.
fn submit(cluster: &mut Cluster, tenants: &[(&str, Greed)], number: &mut usize) {
    for (namespace, greed) in tenants {
        for _ in waiting(cluster, namespace)..greed.wait {
            *number += 1;
            let sj = sj(&format!("j{number}")).in_namespace(namespace).asking(greed.cpu * 1000);
            cluster.submit(sj, Workload { needs: seconds(greed.needs), ..Workload::default() });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 10, ..super::cases(4) })]

    #[test]
    fn shares_follow_the_weights_within_a_half_life(
        weights in prop::collection::vec(1..5_u8, 3), greeds in prop::collection::vec(greed(), 3)
    ) {
        let names = ["a", "b", "c"];
        let weights: Vec<(&str, f64)> = names.iter().zip(&weights).map(|(name, weight)| (*name, f64::from(*weight))).collect();
        let tenants: Vec<(&str, Greed)> = names.into_iter().zip(greeds).collect();
        let mut cluster = cluster(pool(&weights));
        let mut number = 0;
        while cluster.now.duration_since(scavenger_planner::fixtures::at(0)) < HALF_LIFE {
            submit(&mut cluster, &tenants, &mut number);
            cluster.run_for(seconds(60));
        }
        let used = used(&cluster.planner, cluster.now);
        let (all, weight): (f64, f64) = (used.values().sum(), weights.iter().map(|(_, weight)| weight).sum());
        // What fits decides, too: one that asks for three cores cannot use two that are free on a node.
        for (name, own) in weights {
            let (has, due) = (used[name] / all, own / weight);
            prop_assert!((has - due).abs() < 0.1, "{name} used {has:.3} instead of {due:.3}: {used:?} {tenants:?}");
        }
    }

    #[test]
    fn who_used_everything_has_its_turn_within_the_bound(greeds in prop::collection::vec(greed(), 3)) {
        let mut cluster = cluster(pool(&[]));
        let (mut number, others) = (0, ["b", "c", "d"].into_iter().zip(greeds).collect::<Vec<_>>());
        // It used all that there is.
        let first = [("a", Greed { cpu: 1, needs: 600, wait: 20 })];
        while cluster.now.duration_since(scavenger_planner::fixtures::at(0)) < HALF_LIFE * 3 {
            submit(&mut cluster, &first, &mut number);
            cluster.run_for(seconds(300));
        }
        for key in of(&cluster, "a").map(|sj| sj.key.clone()).collect::<Vec<Key>>() {
            cluster.delete(&key);
        }
        cluster.run_for(seconds(90));
        cluster.submit(sj("last").in_namespace("a"), Workload { needs: seconds(600), ..Workload::default() });
        let since = cluster.now;
        // log2(1 + W / (w d)) half-lives, where at least 0.75 of the pool is held; then something has to end.
        let bound = HALF_LIFE * 233 / 100 + seconds(900);
        while !of(&cluster, "a").any(|sj| sj.status.phase == Phase::Running) {
            submit(&mut cluster, &others, &mut number);
            cluster.run_for(seconds(60));
            let waited = cluster.now.duration_since(since);
            prop_assert!(waited < bound, "it waits for {waited:#}: {:?}", used(&cluster.planner, cluster.now));
        }
    }

    #[test]
    fn nobody_holds_more_than_its_max_share(
        most in 1..9_u8, fair in any::<bool>(), greeds in prop::collection::vec(greed(), 2), restart in 0..20_u8
    ) {
        let share = f64::from(most) / 10.0;
        let mut settings = pool(&[]).with_tenant("a", |tenant| tenant.max_share = Some(Share::from_fraction(share)));
        if !fair {
            settings.sharing.as_mut().expect("it should be shared").order = Order::Interruptions;
        }
        let mut cluster = cluster(settings);
        let (mut number, tenants) = (0, ["a", "b"].into_iter().zip(greeds).collect::<Vec<_>>());
        for round in 0..40 {
            submit(&mut cluster, &tenants, &mut number);
            cluster.run_for(seconds(30));
            if round == restart {
                cluster.restart(round % 2 == 0);
            }
            // What has ended holds nothing, although its status may not say so yet.
            let pods = cluster.all_live_pods();
            let own = pods.iter().filter(|pod| &*pod.key.namespace == "a");
            let held: i64 = own.map(|pod| pod.requests.cpu_milli).sum();
            prop_assert!(held <= i64::from(most) * 2000, "holds {held} with {most} tenths of 20 cpu");
        }
    }
}

/// The average of what the attempts of a namespace held, by what the log of the model says of them.
fn reference(cluster: &Cluster, lives: &BTreeMap<(Key, u32), Life>, namespace: &str) -> f64 {
    let left = |since: Timestamp| {
        (-cluster.now.duration_since(since).as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
    };
    let own = lives.iter().filter(|((sj, _), _)| &*sj.namespace == namespace);
    own.map(|(_, life)| life.cpu * (left(life.until.unwrap_or(cluster.now)) - left(life.from))).sum()
}

/// How long an attempt held what.
struct Life {
    cpu: f64,
    from: Timestamp,
    until: Option<Timestamp>,
}

/// Takes in what statuses say now.
fn note(cluster: &Cluster, lives: &mut BTreeMap<(Key, u32), Life>) {
    let mut there: BTreeMap<(Key, u32), Life> = BTreeMap::new();
    for sj in cluster.scavenger_jobs() {
        let Some(attempt) = &sj.status.attempt else { continue };
        let cpu = attempt.demand.total().cpu_milli as f64 / 1000.0;
        let life = Life { cpu, from: attempt.creation_time, until: attempt.end_time };
        there.insert((sj.key.clone(), attempt.number), life);
    }
    for (key, life) in lives.iter_mut().filter(|(key, _)| !there.contains_key(*key)) {
        // Deleted: its pods went a moment before.
        let _ = key;
        life.until.get_or_insert(cluster.now);
    }
    lives.extend(there);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20, ..super::cases(6) })]

    #[test]
    fn a_planner_that_begins_knows_exactly_what_was_used(
        greeds in prop::collection::vec(greed(), 2), events in prop::collection::vec((0..6_u8, 1..200_i64), 20..60)
    ) {
        let mut cluster = cluster(pool(&[]));
        let (mut number, tenants) = (0, ["a", "b"].into_iter().zip(greeds).collect::<Vec<_>>());
        let mut lives = BTreeMap::new();
        for (event, span) in events {
            submit(&mut cluster, &tenants, &mut number);
            for _ in 0..span {
                cluster.run_for(seconds(1));
                note(&cluster, &mut lives);
            }
            let active: Vec<Key> =
                cluster.scavenger_jobs().filter(|sj| sj.status.phase == Phase::Running).map(|sj| sj.key.clone()).collect();
            let chosen = active.get(number % active.len().max(1));
            match (event, chosen) {
                (0, Some(key)) => cluster.delete(key),
                (1, Some(key)) => cluster.preempt(&Key::new(key.namespace.clone(), format!("{}-1-0", key.name))),
                (2, _) => cluster.restart(span % 2 == 0),
                _ => {}
            }
            // Another planner that lists everything now knows the same, to the bit.
            let mut fresh = Planner::default();
            for object in cluster.objects() {
                fresh.observe(object, cluster.now);
            }
            cluster.settle();
            let mut after = Planner::default();
            for object in cluster.objects() {
                after.observe(object, cluster.now);
            }
            prop_assert_eq!(used(&cluster.planner, cluster.now), used(&after, cluster.now));
            let used = used(&cluster.planner, cluster.now);
            note(&cluster, &mut lives);
            for tenant in ["a", "b"] {
                let (known, truth) = (used.get(tenant).copied().unwrap_or(0.0), reference(&cluster, &lives, tenant));
                // The first minute is not counted, nor a moment around each write.
                prop_assert!((known - truth).abs() < 0.35, "{tenant}: {known} instead of {truth}");
            }
        }
    }
}
