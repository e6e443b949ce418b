//! The targets: other policies keep as much as the operator, and the same comes out of any number of threads.

use scavenger_laboratory::{
    print,
    targets::{Case, Outcome, judge, play},
};

use super::runs::some_of;

/// Two seeds of three hours.
fn played(threads: usize) -> Outcome {
    let draw = Box::new(|seed| some_of("bursty", seed, 3));
    play(&Case { name: "bursty".to_owned(), draw }, 2, 50, threads)
}

#[test]
fn others_keep_as_much_as_the_operator_or_are_not_compared() {
    let outcome = played(2);
    assert_eq!(outcome, played(1));
    for seed in &outcome.seeds {
        let names: Vec<_> = seed.beside.iter().map(|one| (one.policy, one.mode)).collect();
        let expected = ["greedy", "stock", "newest", "predecessor"];
        let expected = expected.map(|name| (name, if name == "greedy" { "Operator" } else { "Scheduler" }));
        assert_eq!(names, expected);
        for one in &seed.beside {
            assert!((0.99..=1.01).contains(&one.kept), "{one:?}");
            assert!((0.98..=1.02).contains(&one.ordinary), "{one:?}");
            assert!(one.setting > 0.0 && one.lost > 0.0 && one.lost_by_interruptions > 0.0, "{one:?}");
        }
    }
    let rows = judge(&outcome);
    assert_eq!(rows.len(), 8);
    let table =
        print::targets(&print::Targets { seeds: 2, late_milliseconds: 50, rows, outcomes: vec![outcome] });
    assert_eq!(table.lines().filter(|line| line.starts_with("| bursty")).count(), 8, "{table}");
    assert!(table.contains("Seeds: 2. Of 8 targets: "), "{table}");
}
