//! Names of resources: only those that a node has cost something.

use super::*;
use crate::fixtures::{node, pod, settings, sj};

fn asking_for(names: usize) -> Pod {
    let mut pod = pod("greedy", 100);
    pod.requests.other = (0..names).map(|number| (format!("example.org/r{number}").into(), 1)).collect();
    pod
}

#[test]
fn ten_thousand_names_that_no_node_has_take_no_columns() {
    let settings = settings();
    let mut capacity = Capacity::default();
    for number in 0..100 {
        capacity.set_node(node(&format!("n{number}"), 1000).having("gpu", 1), Some(&settings));
    }
    capacity.set_pod(&asking_for(10_000));
    let demand = sj("a").asking_for("example.org/none", 1).spec.unwrap().demand;
    let ask = capacity.ask(&demand);
    let mut promises = Promises::default();
    capacity.settle(&mut promises);
    let free = capacity.free_row(promises.ledger(), &settings);
    assert!(!capacity.fits(ask, &free));
    assert!(capacity.never_fits(ask, &settings).is_some());
    assert_eq!(
        capacity.used(promises.ledger()),
        Resources::default(),
        "it fits nowhere and so takes nothing"
    );
    assert_eq!(capacity.places.width(), 4, "cpu, memory, pods and gpu");
    // A pod that was put onto a node by hand.
    capacity.set_pod(&asking_for(10_000).on("n1"));
    capacity.settle(&mut promises);
    assert_eq!(capacity.places.width(), 4);
    capacity.check_index(promises.ledger()).unwrap();
}

#[test]
fn a_name_counts_as_soon_as_a_node_has_it() {
    let settings = settings();
    let mut capacity = Capacity::default();
    capacity.set_node(node("n1", 10_000), Some(&settings));
    let demand = sj("a").asking_for("gpu", 1).spec.unwrap().demand;
    let ask = capacity.ask(&demand);
    let mut promises = Promises::default();
    for has in [false, true, false] {
        let node = if has { node("n2", 10_000).having("gpu", 4) } else { node("n2", 10_000) };
        capacity.set_node(node, Some(&settings));
        capacity.settle(&mut promises);
        let free = capacity.free_row(promises.ledger(), &settings);
        assert_eq!(capacity.fits(ask, &free), has);
        capacity.check_index(promises.ledger()).unwrap();
    }
}
