//! Capacity that is kept up change by change equals capacity that is made from what there is in the end.

use std::collections::BTreeMap;

use proptest::prelude::*;
use scavenger_planner::{
    fixtures::{at, node, pod, settings, sj},
    internals::{Capacity, Ledger},
    resources::Resources,
    values::{Node, Pod, Settings},
};

#[derive(Debug, Clone)]
enum Change {
    Node(Node),
    NodeGoes(usize),
    Pod(Box<Pod>),
    PodGoes(usize),
    Settings(Box<Option<Settings>>),
}

fn any_node() -> impl Strategy<Value = Node> {
    (0..4_usize, 1..10_i64, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(number, cpu, usable, labelled, tainted, gpu)| {
            let mut node = node(&format!("n{number}"), cpu * 1000);
            if !usable {
                node = node.cordoned();
            }
            if labelled {
                node = node.labelled("pool", "yes");
            }
            if tainted {
                node = node.tainted("batch");
            }
            if gpu { node.having("gpu", 2) } else { node }
        },
    )
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let place = prop_oneof![Just(None), (0..5_usize).prop_map(Some)];
    (0..6_usize, 1..6_i64, place.clone(), place, any::<bool>(), 0..5_u8, any::<bool>()).prop_map(
        |(number, cpu, node, nominated, owned, state, gpu)| {
            let mut pod = pod(&format!("p{number}"), cpu * 500);
            pod.node = node.map(|number| format!("n{number}").into());
            pod.nominated_node = nominated.map(|number| format!("n{number}").into());
            if owned {
                pod = pod.of("u", 1);
            }
            if gpu {
                pod.requests.other.insert("gpu".into(), 1);
            }
            match state {
                0 => pod.running(),
                1 => pod.ended(0, at(1)),
                2 => pod.deleted(at(1)),
                3 => {
                    pod.gated = true;
                    pod
                }
                _ => pod,
            }
        },
    )
}

fn any_settings() -> impl Strategy<Value = Option<Settings>> {
    (0..5_u8).prop_map(|kind| {
        let mut settings = settings();
        if kind == 1 {
            settings.node_selector.insert("pool".into(), "yes".into());
        }
        if kind == 2 {
            settings.tolerated_taints.push("batch".into());
        }
        if kind == 3 {
            settings = settings.with_group("some", ("pool", "yes"), 0.4);
        }
        (kind < 4).then_some(settings)
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => any_node().prop_map(Change::Node),
        1 => (0..4_usize).prop_map(Change::NodeGoes),
        6 => any_pod().prop_map(|pod| Change::Pod(Box::new(pod))),
        2 => (0..6_usize).prop_map(Change::PodGoes),
        1 => any_settings().prop_map(|settings| Change::Settings(settings.into())),
    ]
}

proptest! {
    #![proptest_config(super::cases(1000))]

    #[test]
    fn room_kept_up_to_date_equals_room_made_anew(changes in prop::collection::vec(change(), 0..40)) {
        let mut capacity = Capacity::default();
        let mut settings_now = Some(settings());
        let (mut nodes, mut pods) = (BTreeMap::new(), BTreeMap::new());
        let none = Ledger::default();
        let huge = sj("huge").asking(9000).asking_for("gpu", 1).spec.unwrap().demand;
        for change in changes {
            let (epoch, version) = (capacity.epoch(), capacity.version());
            let now = settings_now.clone().unwrap_or_else(settings);
            let before = (capacity.never_fits_plainly(&huge, &now).is_some(), capacity.fit(&huge, &none, &now).is_ok());
            match change {
                Change::Node(node) => {
                    capacity.set_node(node.clone(), settings_now.as_ref());
                    nodes.insert(node.name.clone(), node);
                }
                Change::NodeGoes(number) => {
                    let name = format!("n{number}").into();
                    capacity.remove_node(&name);
                    nodes.remove(&name);
                }
                Change::Pod(pod) => {
                    capacity.set_pod(&pod);
                    pods.insert(pod.key.clone(), pod);
                }
                Change::PodGoes(number) => {
                    let key = scavenger_planner::fixtures::key(&format!("p{number}"));
                    capacity.remove_pod(&key);
                    pods.remove(&key);
                }
                Change::Settings(settings) => {
                    capacity.set_settings(settings.as_ref().as_ref());
                    settings_now = *settings;
                }
            }
            let mut again = Capacity::default();
            // In another order: pods before their nodes.
            for pod in pods.values() {
                again.set_pod(pod);
            }
            for node in nodes.values() {
                again.set_node(node.clone(), settings_now.as_ref());
            }
            prop_assert_eq!(capacity.allocatable(), again.allocatable());
            prop_assert_eq!(capacity.used(&none), again.used(&none));
            let on = |capacity: &Capacity| -> Vec<(Node, Resources)> {
                capacity.pool_nodes().map(|(node, used)| (node.clone(), used.clone())).collect()
            };
            prop_assert_eq!(on(&capacity), on(&again));
            // Nobody waits for a change that is not told.
            let now = settings_now.clone().unwrap_or_else(settings);
            let after = (capacity.never_fits_plainly(&huge, &now).is_some(), capacity.fit(&huge, &none, &now).is_ok());
            prop_assert!(before.0 == after.0 || capacity.epoch() != epoch, "never fits: {:?} {:?}", before, after);
            prop_assert!(before.1 || !after.1 || capacity.version() != version, "room appeared");
        }
    }
}
