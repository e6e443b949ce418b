//! In which order configurations are tried: by speed, or by when they would be done.

use std::collections::BTreeMap;

use scavenger_schema::tuning::{LadderRequest, NodeShape, Resources, Rung};

/// Expected wait in seconds until a node has `resources` free, none if the request does not tell enough.
///
/// What a node lacks comes free as its pods are replaced: of a node that is turned over in an hour, a tenth in six
/// minutes. Of several equal nodes any will do, so the wait is shared among them, and of several shapes the one with the
/// shortest wait counts.
pub(crate) fn wait_seconds(
    resources: &Resources,
    labels: &BTreeMap<String, String>,
    request: &LadderRequest,
) -> Option<f64> {
    let turnover = request.turnover_seconds?;
    let holders =
        request.nodes.iter().filter(|node| node.has(labels) && resources.fits_in(&node.allocatable));
    let waits: Option<Vec<f64>> = holders
        .map(|node| Some(turnover * shortfall(resources, node)? / f64::from(node.count.max(1))))
        .collect();
    waits?.into_iter().min_by(f64::total_cmp)
}

/// What is missing on the node with the most free, as the largest share of what a node has of a resource.
fn shortfall(resources: &Resources, node: &NodeShape) -> Option<f64> {
    let free = node.largest_free?;
    let share =
        |wanted: f64, free: f64, all: f64| if all > 0.0 { ((wanted - free) / all).max(0.0) } else { 0.0 };
    let (wanted, all) = (resources, &node.allocatable);
    let cpu = share(wanted.cpu_millicores.into(), free.cpu_millicores.into(), all.cpu_millicores.into());
    let memory = share(wanted.memory_bytes as f64, free.memory_bytes as f64, all.memory_bytes as f64);
    let gpus = share(wanted.gpus.into(), free.gpus.into(), all.gpus.into());
    Some(cpu.max(memory).max(gpus))
}

/// Orders configurations by their expected finish, wait and run together, if it is known of all of them. Otherwise they
/// stay as they are, fastest first.
pub(crate) fn by_expected_finish(rungs: &mut [Rung]) {
    let finish = |rung: &Rung| Some(rung.wait_seconds? / 3600.0 + rung.hours_to_finish?);
    if rungs.iter().all(|rung| finish(rung).is_some()) {
        // Stable: of two that would be done at the same time the faster one stays first.
        rungs.sort_by(|a, b| finish(a).unwrap_or_default().total_cmp(&finish(b).unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::build;
    use crate::ladder::fixtures::{node, request, water};
    use crate::model::Model;

    /// A ladder on nodes of 16 cores, 5 of which are free on one of them, of a run of so many steps.
    fn ladder(nsteps: i64, turnover_seconds: Option<f64>, count: u32) -> Vec<Rung> {
        let mut system = water(100_000);
        system.nsteps = nsteps;
        let mut busy = node(16_000, 64);
        busy.count = count;
        busy.largest_free = Some(Resources { cpu_millicores: 5000, memory_bytes: 64 << 30, gpus: 0 });
        let request = LadderRequest { turnover_seconds, ..request(system, vec![busy]) };
        build(&Model::prior(), &request).expect("there should be a ladder").rungs
    }

    #[test]
    fn a_short_run_takes_what_is_free_and_a_long_one_waits() {
        let short = ladder(1000, Some(3600.0), 1);
        let fastest_free = short.iter().filter(|rung| rung.fits_now).map(|rung| rung.ns_per_day.p50);
        assert!(short[0].fits_now && short[0].ns_per_day.p50 == fastest_free.fold(0.0, f64::max));
        assert_eq!(ladder(50_000_000, Some(3600.0), 1)[0].resources.cpu_millicores, 16_000);
    }

    #[test]
    fn of_many_nodes_one_is_soon_free() {
        assert!(ladder(50_000, Some(7200.0), 1)[0].fits_now);
        assert_eq!(ladder(50_000, Some(7200.0), 100)[0].resources.cpu_millicores, 16_000);
    }

    #[test]
    fn without_an_end_or_a_turnover_speed_decides() {
        for rungs in [ladder(-1, Some(3600.0), 1), ladder(1000, None, 1)] {
            assert_eq!(rungs[0].resources.cpu_millicores, 16_000);
            assert!(rungs.windows(2).all(|pair| pair[0].ns_per_day.p50 >= pair[1].ns_per_day.p50));
        }
        assert!(ladder(1000, None, 1).iter().all(|rung| rung.wait_seconds.is_none()));
    }

    #[test]
    fn a_node_that_hides_what_is_free_leaves_the_wait_unknown() {
        let mut system = water(100_000);
        system.nsteps = 1000;
        let request =
            LadderRequest { turnover_seconds: Some(3600.0), ..request(system, vec![node(16_000, 64)]) };
        let rungs = build(&Model::prior(), &request).expect("there should be a ladder").rungs;
        assert!(rungs.iter().all(|rung| rung.wait_seconds.is_none()));
    }

    #[test]
    fn the_wait_is_the_share_that_is_missing() {
        for rung in ladder(1000, Some(3600.0), 1) {
            let missing = (f64::from(rung.resources.cpu_millicores) - 5000.0).max(0.0) / 16_000.0;
            let wait = rung.wait_seconds.expect("the wait should be known");
            assert!((wait - 3600.0 * missing).abs() < 1e-9, "{rung:?}");
        }
    }
}
