//! Sweeps: what a setting of the pool costs.

use std::process::Command;

use scavenger_laboratory::{
    compare::Outcome,
    print,
    sweep::{Swept, sweep, values},
};

use super::runs::some_of;

fn swept(setting: &str, given: &[&str]) -> Swept {
    let given: Vec<String> = given.iter().map(ToString::to_string).collect();
    let values = values(setting, &given, None).expect("the values should be usable");
    sweep(("daily", &|seed| some_of("daily", seed, 3)), &values, (2, 50, 2))
}

#[test]
fn a_higher_start_threshold_keeps_more() {
    let swept = swept("startThreshold", &["0.5", "0.7", "0.85"]);
    let names: Vec<&str> = swept.outcomes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["0.5", "0.7 (as it is)", "0.85"]);
    let kept = |outcome: &Outcome| outcome.over(|figures| figures.kept_core_hours).median;
    let kept: Vec<f64> = swept.outcomes.iter().map(kept).collect();
    assert!(kept.is_sorted() && kept[0] > 0.0, "{kept:?}");
    let workloads = vec![swept];
    let setting = "startThreshold".to_owned();
    let table = print::sweep(&print::Sweep {
        setting,
        mode: "Scheduler",
        seeds: 2,
        late_milliseconds: 50,
        workloads,
    });
    assert!(
        table.starts_with("startThreshold in mode Scheduler, median of 2 seeds\n\n| workload "),
        "{table}"
    );
    assert_eq!(table.lines().filter(|line| line.starts_with("| daily")).count(), 3, "{table}");
}

#[test]
fn a_value_that_the_pool_would_not_take_is_said_in_one_line() {
    let refused = |setting: &str, value: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scavenger-laboratory"));
        command.args(["sweep", "--setting", setting]);
        for value in value {
            command.args(["--value", value]);
        }
        let output = command.output().expect("the program should run");
        let stderr = String::from_utf8(output.stderr).expect("it should print text");
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        stderr
    };
    for (setting, value, said) in [
        (
            "startThreshold",
            &["0.7", "0.95"][..],
            "value \"0.95\": spec.headroomTarget of cpu must be at least",
        ),
        ("startTreshold", &["0.7"], "value \"0.7\": spec.startTreshold is unknown"),
        ("minimumRun", &["soon"], "value \"soon\": "),
        ("headroom", &["{ headroomTarget: "], "value \"{ headroomTarget: \": "),
        ("shareHalfLife", &[], "there are no values of \"shareHalfLife\": name some with --value"),
    ] {
        let error = refused(setting, value);
        assert!(error.contains(said), "{setting} {value:?}: {error}");
    }
}
