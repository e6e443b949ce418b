//! The ladder of a row of several simulations: the tuner is asked for one of them on its share of each node, and what it
//! says is multiplied.

use scavenger_schema::bounds::{self, HALF_CORE, WHOLE_CORE};
use scavenger_schema::simulation::{GromacsToTune, LadderRung};
use scavenger_schema::tuning::{Limits, NodeShape, Resources, SharedGpu};
use scavenger_tuner_model::hardware::is_share;
use sqlx::types::Json;

use super::ladder::NoConfiguration;
use crate::text::number_of;

/// What one simulation of a row has.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// Its part of the nodes.
    pub nodes: Vec<NodeShape>,
    /// Its part of what the row may ask for.
    pub limits: Limits,
}

/// The part of nodes and limits that each simulation of the row has: all of it for a row of one.
#[must_use]
pub fn share(row: &GromacsToTune, nodes: &[NodeShape], limits: &Limits) -> Share {
    let count = row.simulations();
    if count == 1 {
        return Share { nodes: nodes.to_vec(), limits: limits.clone() };
    }
    let nodes = nodes
        .iter()
        .map(|node| NodeShape {
            allocatable: part(&node.allocatable, count),
            largest_free: node.largest_free.as_ref().map(|free| part(free, count)),
            ..node.clone()
        })
        .collect();
    let limits = Limits {
        max_cpu_millicores: limits.max_cpu_millicores.map(|most| (most / count).max(HALF_CORE)),
        max_memory_bytes: limits
            .max_memory_bytes
            .map(|most| (most / u64::from(count)).max(bounds::MAX_MEMORY_BYTES.min)),
        max_gpus: limits.max_gpus.map(|most| most / count),
        ..limits.clone()
    };
    Share { nodes, limits }
}

/// The tuner knows nothing below half a core: what is less is worked out from that.
fn part(all: &Resources, count: u32) -> Resources {
    Resources {
        cpu_millicores: (all.cpu_millicores / count).max(HALF_CORE.min(all.cpu_millicores)),
        memory_bytes: all.memory_bytes / u64::from(count),
        gpus: all.gpus / count,
    }
}

/// What a rank takes as a process of its own, in bytes: at most 45 MB beside the atoms, with a share of the launcher (GROMACS 2022.5
/// with Open MPI 4.1).
const PROCESS_BYTES: i64 = 48 << 20;

/// The configurations of one simulation whose ranks are processes, each of which takes memory of its own. Their speed is taken to be
/// that of ranks that are threads.
///
/// # Errors
/// If no node holds any of them within the limits.
pub fn in_processes(
    row: &GromacsToTune,
    ladder: Vec<LadderRung>,
    share: &Share,
) -> Result<Vec<LadderRung>, NoConfiguration> {
    if !row.uses_library_mpi() {
        return Ok(ladder);
    }
    let with_processes = |rung: LadderRung| {
        let bytes = PROCESS_BYTES.saturating_mul(rung.layout.ntmpi.into());
        LadderRung {
            memory_bytes: rung.memory_bytes.saturating_add(bytes),
            predicted_memory_bytes: rung.predicted_memory_bytes.saturating_add(bytes),
            ..rung
        }
    };
    let all: Vec<LadderRung> = ladder.into_iter().map(with_processes).collect();
    let least = all.iter().min_by_key(|rung| rung.memory_bytes).map(LadderRung::resources);
    let fits = |rung: &LadderRung| is_held(rung, &share.nodes, &share.limits);
    let fitting: Vec<LadderRung> = all.into_iter().filter(fits).collect();
    if fitting.is_empty() {
        Err(NoConfiguration::Now(too_large(row.simulations(), least)))
    } else {
        Ok(fitting)
    }
}

/// The configurations of a row of several simulations, largest first: those of one (`ladder`) multiplied, with fewer cores
/// than half of one for each, and with several on one GPU (`shared`). Resources are those of all, speeds those of each.
///
/// # Errors
/// If no node holds any of them within the limits.
pub fn together(
    row: &GromacsToTune,
    ladder: Vec<LadderRung>,
    shared: &[SharedGpu],
    nodes: &[NodeShape],
    limits: &Limits,
) -> Result<Vec<LadderRung>, NoConfiguration> {
    let count = row.simulations();
    if count == 1 {
        return Ok(ladder);
    }
    let model_version = ladder.first().map(|rung| rung.model_version.clone()).unwrap_or_default();
    // From so few cores on they take turns.
    let smallest = ladder
        .iter()
        .filter(|rung| rung.gpus == 0 && rung.layout.threads() == 1)
        .min_by_key(|rung| rung.cpu_millicores)
        .cloned();
    let mut all: Vec<LadderRung> = ladder.iter().map(|rung| times(rung, count)).collect();
    all.extend(smallest.iter().flat_map(|rung| taking_turns(rung, count)));
    all.extend(shared.iter().filter_map(|shared| on_shared_gpus(row, shared, &model_version)));
    let least = all.iter().min_by_key(|rung| (rung.gpus, rung.cpu_millicores)).map(LadderRung::resources);
    // Of a shared GPU a pod gets one share, since several may be of the same GPU.
    let is_several_shares = |rung: &LadderRung| rung.gpus > 1 && is_share(&rung.hardware_class);
    let fits = |rung: &LadderRung| {
        bounds::is_pod_cpu(rung.resources().cpu_millicores)
            && !is_several_shares(rung)
            && is_held(rung, nodes, limits)
    };
    all.retain(fits);
    if all.is_empty() {
        return Err(NoConfiguration::Now(too_large(count, least)));
    }
    // Of equal resources the faster one.
    all.sort_by(|one, other| {
        other
            .ns_per_day_p50
            .total_cmp(&one.ns_per_day_p50)
            .then(one.cpu_millicores.cmp(&other.cpu_millicores))
    });
    let mut kept: Vec<LadderRung> = Vec::with_capacity(all.len());
    for mut rung in all {
        let same = |known: &LadderRung| {
            (known.cpu_millicores, known.gpus, &known.node_labels)
                == (rung.cpu_millicores, rung.gpus, &rung.node_labels)
        };
        if kept.iter().any(same) {
            continue;
        }
        let wanted = rung.resources();
        rung.fits_now = nodes.iter().filter(|node| rung.may_run_on(node)).any(|node| {
            let free = node.largest_free.as_ref().unwrap_or(&node.allocatable);
            wanted.fits_in(free)
        });
        kept.push(rung);
    }
    Ok(kept)
}

/// True if some node can hold it, and the limits allow it.
fn is_held(rung: &LadderRung, nodes: &[NodeShape], limits: &Limits) -> bool {
    let wanted = rung.resources();
    nodes.iter().any(|node| rung.may_run_on(node) && wanted.fits_in(&node.allocatable))
        && allow(limits, &wanted)
}

fn allow(limits: &Limits, wanted: &Resources) -> bool {
    limits.max_cpu_millicores.is_none_or(|most| wanted.cpu_millicores <= most)
        && limits.max_memory_bytes.is_none_or(|most| wanted.memory_bytes <= most)
        && limits.max_gpus.is_none_or(|most| wanted.gpus <= most)
}

fn too_large(count: u32, least: Option<Resources>) -> String {
    let needs = least.map_or_else(String::new, |least| {
        format!(
            ": the smallest configuration takes {} cores and {} MiB of memory",
            f64::from(least.cpu_millicores) / 1000.0,
            least.memory_bytes >> 20
        )
    });
    let or = if count > 1 { ", or cancel the row and add the simulations as rows of fewer each" } else { "" };
    format!(
        "no node holds {} within the limits of the row and the pool{needs}; allow more{or}",
        number_of(count as usize, "simulation")
    )
}

/// Each simulation has what the tuner proposes for one.
fn times(rung: &LadderRung, count: u32) -> LadderRung {
    let number = i32::try_from(count).unwrap_or(i32::MAX);
    LadderRung {
        cpu_millicores: rung.cpu_millicores.saturating_mul(number),
        memory_bytes: rung.memory_bytes.saturating_mul(number.into()),
        gpus: rung.gpus.saturating_mul(number),
        predicted_memory_bytes: rung.predicted_memory_bytes.saturating_mul(number.into()),
        reason: format!("{}; {}", total(count, rung.ns_per_day_p50), rung.reason),
        ..rung.clone()
    }
}

/// Less than `rung` for each, in whole cores down to half a core for all: the speed is what their turns leave.
fn taking_turns(rung: &LadderRung, count: u32) -> Vec<LadderRung> {
    let all = times(rung, count);
    let full = u32::try_from(all.cpu_millicores).unwrap_or(0);
    let mut totals = Vec::new();
    let mut next = full;
    while next > HALF_CORE {
        let less = if next.is_multiple_of(WHOLE_CORE) { next / 2 } else { next };
        next = (less / WHOLE_CORE * WHOLE_CORE).max(HALF_CORE);
        totals.push(next);
    }
    let slower = |millicores: u32| {
        let factor = f64::from(millicores) / f64::from(full);
        LadderRung {
            cpu_millicores: i32::try_from(millicores).unwrap_or(i32::MAX),
            ns_per_day_p10: all.ns_per_day_p10 * factor,
            ns_per_day_p50: all.ns_per_day_p50 * factor,
            ns_per_day_p90: all.ns_per_day_p90 * factor,
            hours_to_finish: all.hours_to_finish.map(|hours| hours / factor),
            reason: format!("{}; they take turns", total(count, all.ns_per_day_p50 * factor)),
            ..all.clone()
        }
    };
    totals.into_iter().map(slower).collect()
}

/// As many GPUs as it takes, with the same number of simulations on each.
fn on_shared_gpus(row: &GromacsToTune, shared: &SharedGpu, model_version: &str) -> Option<LadderRung> {
    let count = row.simulations();
    let on_each = shared.simulations.max(1);
    if !count.is_multiple_of(on_each) {
        return None;
    }
    let gpus = count / on_each;
    let each = |speed: f64| speed / f64::from(on_each);
    let speed = each(shared.ns_per_day_total.p50);
    let memory = i64::try_from(shared.resources.memory_bytes.saturating_mul(gpus.into())).ok()?;
    let steps = row.system.last_step()? - row.status.step.unwrap_or(row.system.init_step.unwrap_or(0));
    let hours = steps as f64 * row.system.dt_ps? / 1000.0 / speed * 24.0;
    Some(LadderRung {
        rung: 0,
        cpu_millicores: i32::try_from(shared.resources.cpu_millicores.checked_mul(gpus)?).ok()?,
        memory_bytes: memory,
        gpus: i32::try_from(gpus).ok()?,
        node_labels: Json::default(),
        layout: Json(shared.layout),
        ns_per_day_p10: each(shared.ns_per_day_total.p10),
        ns_per_day_p50: speed,
        ns_per_day_p90: each(shared.ns_per_day_total.p90),
        hours_to_finish: Some(hours).filter(|hours| hours.is_finite()),
        efficiency: shared.gain.clamp(0.0, 1.0),
        predicted_memory_bytes: memory,
        hardware_class: shared.hardware_class.clone(),
        fits_now: false,
        reason: format!("{}; {on_each} on a GPU, which was predicted and never run", total(count, speed)),
        model_version: model_version.to_owned(),
        replaced: false,
    })
}

/// `4 simulations, 31.2 ns/day together`.
fn total(count: u32, each: f64) -> String {
    let total = each * f64::from(count);
    let decimals = if total >= 100.0 { 0 } else { 1 + usize::from(total < 10.0) };
    format!("{count} simulations, {total:.decimals$} ns/day together")
}

#[cfg(test)]
mod tests {
    use scavenger_schema::simulation::Engine;
    use scavenger_schema::tuning::{Interval, Layout};

    use super::*;
    use crate::fixtures::{ladder, pool, row};

    fn of_four() -> GromacsToTune {
        let multidir = ["sim0", "sim1", "sim2", "sim3"].map(ToOwned::to_owned).to_vec();
        GromacsToTune { multidir, ..row() }
    }

    fn node(cores: u32, memory_gib: u64, gpus: u32) -> NodeShape {
        let allocatable = Resources { cpu_millicores: cores * 1000, memory_bytes: memory_gib << 30, gpus };
        NodeShape { allocatable, largest_free: None, ..pool().nodes[0].shape.clone() }
    }

    /// Cores, GPUs and speed of each simulation.
    fn shape(ladder: &[LadderRung]) -> Vec<(i32, i32, f64)> {
        ladder.iter().map(|rung| (rung.cpu_millicores, rung.gpus, rung.ns_per_day_p50)).collect()
    }

    #[test]
    fn one_simulation_is_asked_for_on_its_share_of_a_node() {
        let limits = Limits {
            max_cpu_millicores: Some(6000),
            max_memory_bytes: Some(8 << 30),
            max_gpus: Some(2),
            ..Limits::default()
        };
        let mut large = node(16, 32, 4);
        large.largest_free = Some(Resources { cpu_millicores: 1000, memory_bytes: 4 << 30, gpus: 1 });
        let found = share(&of_four(), &[large.clone(), node(1, 2, 0)], &limits);
        let parts: Vec<_> = found.nodes.iter().map(|node| node.allocatable).collect();
        assert_eq!(parts[0], Resources { cpu_millicores: 4000, memory_bytes: 8 << 30, gpus: 1 });
        assert_eq!(parts[1].cpu_millicores, 500, "the tuner knows nothing below half a core");
        assert_eq!(found.nodes[0].largest_free.map(|free| (free.cpu_millicores, free.gpus)), Some((500, 0)));
        assert_eq!(found.nodes[0].labels, large.labels, "the hardware is the same");
        let bounds = (found.limits.max_cpu_millicores, found.limits.max_memory_bytes, found.limits.max_gpus);
        assert_eq!(bounds, (Some(1500), Some(2 << 30), Some(0)));
        let alone = share(&row(), std::slice::from_ref(&large), &limits);
        assert_eq!((alone.nodes, alone.limits), (vec![large], limits));
    }

    #[test]
    fn resources_are_those_of_all_and_speeds_those_of_each() {
        let nodes = [node(16, 32, 0)];
        let found = together(&of_four(), ladder(), &[], &nodes, &Limits::default()).expect("should fit");
        let expected = [(8000, 0, 78.0), (4000, 0, 45.0), (2000, 0, 22.0), (1000, 0, 11.0), (500, 0, 5.5)];
        assert_eq!(shape(&found), expected);
        assert_eq!(found[0].memory_bytes, 4 * (300 << 20));
        assert_eq!(found[0].predicted_memory_bytes, 4 * (100 << 20));
        assert_eq!(found[0].layout, ladder()[0].layout, "of each");
        assert!(found[0].reason.starts_with("4 simulations, 312 ns/day together"), "{}", found[0].reason);
        assert!(found[4].reason.ends_with("22.0 ns/day together; they take turns"), "{}", found[4].reason);
        assert!((found[3].ns_per_day_p10 / found[3].ns_per_day_p50 - 0.8).abs() < 1e-9);
        let alone = together(&row(), ladder(), &[], &[], &Limits::default());
        assert_eq!(alone.expect("should be as it was"), ladder());
    }

    #[test]
    fn ranks_that_are_processes_take_memory_of_their_own() {
        let with_library_mpi = |row| GromacsToTune { engine: Engine::Mpi, ..row };
        let nodes = [node(16, 32, 0)];
        let of_processes =
            |row: &GromacsToTune, limits: &Limits| in_processes(row, ladder(), &share(row, &nodes, limits));
        let unlimited = Limits::default();
        assert_eq!(of_processes(&of_four(), &unlimited).expect("should be as it was"), ladder());
        for row in [row(), of_four()].map(with_library_mpi) {
            let found = of_processes(&row, &unlimited).expect("should fit");
            let expected: Vec<i64> = ladder()
                .iter()
                .map(|rung| rung.memory_bytes + PROCESS_BYTES * i64::from(rung.layout.ntmpi))
                .collect();
            assert_eq!(found.iter().map(|rung| rung.memory_bytes).collect::<Vec<_>>(), expected);
        }
        let limits = Limits { max_memory_bytes: Some(310 << 20), ..Limits::default() };
        let why = of_processes(&with_library_mpi(row()), &limits).expect_err("should not fit");
        let NoConfiguration::Now(words) = why else { panic!("{why:?} would never change") };
        assert!(
            words.starts_with("no node holds 1 simulation within the limits")
                && words.ends_with("; allow more"),
            "{words}"
        );
    }

    #[test]
    fn an_odd_number_shares_whole_cores() {
        let mut row = of_four();
        row.multidir.pop();
        let half = vec![ladder().remove(2)];
        let found = together(&row, half, &[], &[node(4, 32, 0)], &Limits::default()).expect("should fit");
        let cores: Vec<i32> = found.iter().map(|rung| rung.cpu_millicores).collect();
        assert_eq!(cores, [1000, 500]);
        assert!((found[1].ns_per_day_p50 * 3.0 - 22.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_no_node_holds_or_the_limits_forbid_is_left_out() {
        let small = [node(1, 2, 0)];
        let found = together(&of_four(), ladder(), &[], &small, &Limits::default()).expect("should fit");
        assert_eq!(shape(&found), [(1000, 0, 11.0), (500, 0, 5.5)]);
        let limits = Limits { max_cpu_millicores: Some(500), ..Limits::default() };
        let found = together(&of_four(), ladder(), &[], &small, &limits).expect("should fit");
        assert_eq!(shape(&found), [(500, 0, 5.5)]);
        let limits = Limits { max_memory_bytes: Some(1 << 30), ..Limits::default() };
        let why = together(&of_four(), ladder(), &[], &small, &limits).expect_err("should not fit");
        let NoConfiguration::Now(words) = why else { panic!("{why:?} would never change") };
        assert!(words.starts_with("no node holds 4 simulations within the limits"), "{words}");
        assert!(words.contains("takes 0.5 cores and 1200 MiB of memory"), "{words}");
    }

    #[test]
    fn what_is_free_now_counts_for_all() {
        let mut one = node(16, 32, 0);
        one.largest_free = Some(Resources { cpu_millicores: 2000, memory_bytes: 8 << 30, gpus: 0 });
        let found = together(&of_four(), ladder(), &[], &[one], &Limits::default()).expect("should fit");
        let now: Vec<bool> = found.iter().map(|rung| rung.fits_now).collect();
        assert_eq!(now, [false, false, true, true, true]);
    }

    fn shared(simulations: u32) -> SharedGpu {
        SharedGpu {
            simulations,
            resources: Resources { cpu_millicores: 2000 * simulations, memory_bytes: 1 << 30, gpus: 1 },
            layout: Layout::water(1, 2, 1),
            ns_per_day_total: Interval { p10: 100.0, p50: 200.0, p90: 400.0 },
            ns_per_day_each: 200.0 / f64::from(simulations),
            gain: 1.3,
            hardware_class: "zen3 + a100".to_owned(),
        }
    }

    #[test]
    fn several_share_a_gpu() {
        let all = [2, 3, 4].map(shared);
        let nodes = [node(16, 64, 1)];
        let found = together(&of_four(), ladder(), &all, &nodes, &Limits::default()).expect("should fit");
        let with_gpus: Vec<_> = found.iter().filter(|rung| rung.gpus > 0).collect();
        assert_eq!(with_gpus.len(), 1, "three do not divide four, and two GPUs there are not: {found:?}");
        let four = with_gpus[0];
        assert_eq!((four.cpu_millicores, four.gpus, four.ns_per_day_p50), (8000, 1, 50.0));
        assert_eq!((four.layout.gpus, four.ns_per_day_p10, four.ns_per_day_p90), (1, 25.0, 100.0));
        assert!(four.reason.contains("200 ns/day together; 4 on a GPU"), "{}", four.reason);
        let nodes = [node(16, 64, 2)];
        let found = together(&of_four(), ladder(), &all, &nodes, &Limits::default()).expect("should fit");
        let two = found.iter().find(|rung| rung.gpus == 2).expect("should share two GPUs");
        assert_eq!((two.cpu_millicores, two.ns_per_day_p50, two.memory_bytes), (8000, 100.0, 2 << 30));
    }
}
