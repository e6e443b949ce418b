//! Names of resources: only those that a node has cost something.

use super::{table::View, *};
use crate::{
    fixtures::{node, pod, settings, sj},
    values::{Expression, NodeTerm, Operator, Placement, Pod},
};

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
    let mut ledger = Ledger::default();
    capacity.settle(&mut ledger);
    let free = capacity.free_row(&ledger, &settings);
    assert!(!capacity.fits(ask, &free));
    assert!(capacity.never_fits(ask, &settings).is_some());
    assert_eq!(capacity.used(&ledger), Resources::default(), "it fits nowhere and so takes nothing");
    assert_eq!(capacity.places.width(), 4, "cpu, memory, pods and gpu");
    // A pod that was put onto a node by hand.
    capacity.set_pod(&asking_for(10_000).on("n1"));
    capacity.settle(&mut ledger);
    assert_eq!(capacity.places.width(), 4);
    capacity.check_index(&ledger).unwrap();
}

#[test]
fn a_name_counts_as_soon_as_a_node_has_it() {
    let settings = settings();
    let mut capacity = Capacity::default();
    capacity.set_node(node("n1", 10_000), Some(&settings));
    let demand = sj("a").asking_for("gpu", 1).spec.unwrap().demand;
    let ask = capacity.ask(&demand);
    let mut ledger = Ledger::default();
    for has in [false, true, false] {
        let node = if has { node("n2", 10_000).having("gpu", 4) } else { node("n2", 10_000) };
        capacity.set_node(node, Some(&settings));
        capacity.settle(&mut ledger);
        let free = capacity.free_row(&ledger, &settings);
        assert_eq!(capacity.fits(ask, &free), has);
        capacity.check_index(&ledger).unwrap();
    }
}

/// Placements that name nodes in each way that there is, or name none.
fn placements() -> Vec<Placement> {
    let expression = |key: &str, operator, values: &[&str]| Expression {
        key: key.into(),
        operator,
        values: values.iter().map(|value| Name::from(*value)).collect(),
    };
    let labels = |expressions: &[Expression]| NodeTerm { labels: expressions.to_vec(), names: Vec::new() };
    let zone = |operator, values: &[&str]| labels(&[expression("zone", operator, values)]);
    let named = |names: &[&str]| NodeTerm::nodes(names.iter().map(|name| Name::from(*name)).collect());
    let selecting = |pairs: &[(&str, &str)]| Placement {
        node_selector: pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        ..Placement::default()
    };
    let affine = |terms: &[NodeTerm]| Placement { affinity: terms.to_vec(), ..Placement::default() };
    let mounting = |volumes: &[&[NodeTerm]]| Placement {
        volumes: volumes.iter().map(|terms| terms.to_vec()).collect(),
        ..Placement::default()
    };
    let both = NodeTerm { names: named(&["n1", "n2"]).names, ..zone(Operator::In, &["b"]) };
    let many: Vec<(String, String)> = (0..100).map(|n| (format!("key-{n:03}"), "x".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (&**key, &**value)).collect();
    vec![
        Placement::default(),
        selecting(&[("zone", "a")]),
        selecting(&[("zone", "a"), ("host", "n3")]),
        selecting(&[("zone", "nowhere")]),
        selecting(&many),
        affine(&[named(&["n4"])]),
        affine(&[named(&["n4"]), zone(Operator::In, &["a", "c"])]),
        affine(&[named(&["n4"]), zone(Operator::NotIn, &["a"])]),
        affine(&[both]),
        affine(&[NodeTerm::default()]),
        affine(&[zone(Operator::Exists, &[])]),
        mounting(&[&[zone(Operator::In, &["b"])], &[named(&["n1", "n2", "n5"])]]),
        mounting(&[&[]]),
        Placement { attached: Some(named(&["n6"])), ..selecting(&[("zone", "a")]) },
    ]
}

/// The nodes that let each demand in, once they are ready.
fn let_in(capacity: &Capacity, asks: &[Ask]) -> Vec<BTreeSet<Name>> {
    let nodes = || capacity.nodes.values().filter_map(|entry| entry.node.as_ref());
    let of = |ask: &Ask| {
        let placement = &capacity.places.demand(*ask).placement;
        nodes().filter(|node| View::Empty.admits(placement, node)).map(|node| node.name.clone()).collect()
    };
    asks.iter().map(of).collect()
}

/// However nodes come, change and go, each placement is admitted by the nodes that a look at all of them finds; and where
/// only labels change it is known whom that concerns.
#[test]
fn the_nodes_that_a_placement_names_are_all_that_admit_it() {
    let settings = settings();
    let labelled = |number: usize, zone: &str| {
        let name = format!("n{number}");
        let node = node(&name, 10_000).labelled("host", &name).labelled("zone", zone);
        (0..100).fold(node, |node, key| node.labelled(&format!("key-{key:03}"), "x"))
    };
    let zones = ["a", "b", "c"];
    for asked_after in 0..4 {
        let mut capacity = Capacity::default();
        let mut ledger = Ledger::default();
        let mut asks: Vec<Ask> = Vec::new();
        for step in 0..4 {
            if step == asked_after {
                let one = Demand::clone(&sj("a").asking(1000).spec.unwrap().demand);
                let demands = placements().into_iter().map(|placement| Demand { placement, ..one.clone() });
                asks.extend(demands.map(|demand| capacity.ask(&demand)));
            }
            let (epoch, before) = (capacity.epoch(), let_in(&capacity, &asks));
            match step {
                0 => (0..9).for_each(|n| capacity.set_node(labelled(n, zones[n % 3]), Some(&settings))),
                1 => (0..9).for_each(|n| capacity.set_node(labelled(n, zones[n / 3]), Some(&settings))),
                2 => capacity.remove_node(&"n4".into()),
                _ => capacity.set_node(labelled(4, "a"), Some(&settings)),
            }
            capacity.settle(&mut ledger);
            for ask in &asks {
                View::ALL.into_iter().for_each(|view| _ = capacity.places.count(*ask, view));
            }
            capacity.check_index(&ledger).unwrap();
            let after = let_in(&capacity, &asks);
            let concerned =
                asks.iter().zip(before.iter().zip(&after)).filter(|(_, (before, after))| before != after);
            let concerned: BTreeSet<Ask> = concerned.map(|(ask, _)| *ask).collect();
            let readmitted = capacity.take_readmitted();
            assert_eq!(capacity.epoch() == epoch, step == 1);
            if step == 1 {
                assert_eq!(readmitted, concerned, "asked after {asked_after}");
                assert!(asks.is_empty() || !concerned.is_empty() && concerned.len() < asks.len());
            }
        }
    }
}
