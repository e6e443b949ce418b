//! Accounting by use: ScavengerJobs on what is reserved and not used.

use std::process::Command;

use scavenger_laboratory::{
    measure::{Figures, measure},
    policy::Kind,
    run::{Conditions, run, run_baseline},
    sweep::values,
    workload::Workload,
};

use super::runs::{check_attempts, check_pods, check_work, some_of};

/// A tenth of the scenario.
fn reserved() -> Workload {
    let mut workload = some_of("reserved", 1, 6);
    workload.nodes.truncate(20);
    let mut number = 0;
    let mut tenth = || {
        number += 1;
        number % 10 == 0
    };
    workload.ordinary.retain(|_| tenth());
    workload.scavengers.retain(|_| tenth());
    workload
}

fn played(workload: &Workload, accounting: &str) -> Figures {
    let values = values("accounting", &[accounting.to_owned()], None).expect("it should be an accounting");
    let conditions = Conditions { late: 50, seed: 1 };
    let baseline = run_baseline(workload, 1).tally.ordinary;
    let (world, _) = run(workload, Kind::Operator, &values[0].pool.settings, conditions);
    check_pods(&world);
    check_work(&world);
    check_attempts(&world);
    measure(&world, &baseline)
}

#[test]
fn where_nothing_is_left_by_requests_much_gets_done_by_use() {
    let workload = reserved();
    let by_requests = played(&workload, "{ accounting: Requests }");
    let by_use = played(&workload, "{ accounting: Usage, usage: {} }");
    let kept = [&by_requests, &by_use].map(|figures| figures.kept_core_hours);
    assert!(kept[1] > 5.0 * kept[0] && kept[1] > 20.0, "{kept:?}");
    // Ordinary pods wait for each other in a cluster that is full by requests, now these and now those: on the whole they get the same.
    let held = [&by_requests, &by_use].map(|figures| figures.ordinary_utilisation);
    assert!((held[0] - held[1]).abs() < 0.002, "{held:?}");
    assert_eq!((by_use.ordinary_preemptions, by_use.killed_for_memory), (0.0, 0.0));
    // Some wait for processors: that is not lost by interruptions, and not hidden either.
    assert!(by_use.idle_core_hours > 0.0 && by_use.goodput > 0.5, "{by_use:?}");
}

#[test]
fn what_nothing_is_known_of_is_not_counted_by_use() {
    let value = "{ accounting: Usage, usage: {} }";
    let mut command = Command::new(env!("CARGO_BIN_EXE_scavenger-laboratory"));
    command.args(["sweep", "--setting", "accounting", "--scenario", "steady", "--value", value]);
    let output = command.output().expect("the program should run");
    let stderr = String::from_utf8(output.stderr).expect("it should print text");
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("nothing says what the pods of steady use"), "{stderr}");
}
