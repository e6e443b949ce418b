//! If admission refuses some for their own spec, all others start as if those were not there.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{key, node, seconds, settings, sj},
    values::{Name, Phase},
};
use scavenger_simulator::{Cluster, Workload};

/// One of a namespace: what it asks for, how long after the one before it was submitted, in seconds, and what of it is refused.
#[derive(Debug, Clone)]
struct One {
    cpu: i64,
    after: i64,
    spec: u64,
    denied: Option<bool>,
}

fn ones() -> impl Strategy<Value = Vec<One>> {
    let denied = prop_oneof![Just(None), Just(Some(false)), Just(Some(true))];
    let one = (500..3000_i64, prop_oneof![Just(0), 0..40_i64], 0..8_u64, denied);
    prop::collection::vec(one.prop_map(|(cpu, after, spec, denied)| One { cpu, after, spec, denied }), 2..24)
}

/// When each that is not refused began to run. With `all`, those are there, too, that are refused.
fn starts(ones: &[One], all: bool, at_once: usize) -> BTreeMap<Name, Timestamp> {
    let mut cluster = Cluster::new(settings().starting_at_once(at_once)).with_nodes([node("n1", 200_000)]);
    cluster.thorough = false;
    for (number, one) in ones.iter().enumerate() {
        cluster.run_for(seconds(one.after));
        let name = format!("job{number:02}");
        match one.denied {
            Some(_) if !all => continue,
            Some(true) => cluster.denied_pods.insert(key(&name)),
            Some(false) => cluster.denied_jobs.insert(key(&name)),
            None => true,
        };
        // Those that are refused have something in common that the others lack.
        let spec = one.spec + if one.denied.is_some() { 100 } else { 0 };
        let needs = SignedDuration::from_hours(100);
        cluster.submit(sj(&name).asking(one.cpu).alike(spec), Workload { needs, ..Workload::default() });
    }
    let is_good = |name: &str| ones[name[3..].parse::<usize>().expect("a number")].denied.is_none();
    cluster.run_until("all that are not refused run", |cluster| {
        let mut good = cluster.scavenger_jobs().filter(|sj| is_good(&sj.key.name));
        good.all(|sj| sj.status.phase == Phase::Running)
    });
    let good = cluster.scavenger_jobs().filter(|sj| is_good(&sj.key.name));
    good.map(|sj| (sj.key.name.clone(), sj.status.start_times[0])).collect()
}

proptest! {
    #![proptest_config(super::cases(60))]

    #[test]
    fn what_is_refused_for_its_own_spec_holds_up_nobody_else(ones in ones(), at_once in 2..12_usize) {
        let (without, with) = (starts(&ones, false, at_once), starts(&ones, true, at_once));
        // At most all are tried once before, one after the other: 15 s until the Job controller says why there are no pods, and
        // 6 s until the next.
        let bad = i64::try_from(ones.iter().filter(|one| one.denied.is_some()).count()).expect("few");
        for (name, started) in with {
            let late = started.duration_since(without[&name]);
            prop_assert!(late <= seconds(5 + 25 * bad), "{name} is {late} late, {bad} are refused");
        }
    }
}
