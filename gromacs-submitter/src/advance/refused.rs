//! The configurations that mdrun refused, or that it would refuse for the same reason.

use std::collections::BTreeMap;

use scavenger_schema::simulation::LadderRung;
use scavenger_schema::tuning::Layout;
use sqlx::types::Json;

use super::tries::MOST_TRIES;
use crate::faults::{Meaning, is_no_nodes_fault, of_gromacs, rules_out};

/// How much slower than several ranks one of as many threads may be.
const SLOW_ON_ONE_RANK: f64 = 0.5;

/// How much slower one rank on the CPU is expected to be than a configuration with GPUs.
const WITHOUT_GPU: f64 = 0.1;

/// A layout that mdrun refused, in an earlier submission.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Refusal {
    /// The layout.
    pub layout: Json<Layout>,
    /// Why, in mdrun's words.
    pub words: String,
    /// Where, if that is known.
    pub node: Option<String>,
}

/// The ladder of a row that runs on one rank: its configurations keep their resources. What several ranks were predicted to do is
/// the fast end of what one does.
#[must_use]
pub fn on_one_rank(ladder: Vec<LadderRung>) -> Vec<LadderRung> {
    let mut kept: Vec<LadderRung> = Vec::with_capacity(ladder.len());
    for mut rung in ladder {
        if rung.layout.ntmpi > 1 {
            rung.layout = Json(rung.layout.0.on_one_rank());
            rung.ns_per_day_p10 *= SLOW_ON_ONE_RANK;
            rung.reason = format!("{}; one rank, since its GROMACS or PLUMED takes no more", rung.reason);
        }
        // Two layouts of the same resources are one by now.
        if !kept.iter().any(|known| {
            known.layout == rung.layout
                && known.resources() == rung.resources()
                && known.node_labels == rung.node_labels
        }) {
            kept.push(rung);
        }
    }
    kept
}

/// The tuner's ladder without what mdrun refused, or would refuse for the same reason. If nothing is left, one rank on
/// the CPU with the resources of the smallest configuration: every input that GROMACS can run at all runs so.
///
/// A GPU that does not work is its node's fault until two nodes say so, or the only one of the `gpu_nodes` that there are: one
/// broken node must not keep a row off all GPUs. If the row finds no other node for half a day, it goes on without.
///
/// # Errors
/// mdrun's words, if it refused that as well.
pub fn without_refused(
    ladder: Vec<LadderRung>,
    refusals: &[Refusal],
    gpu_nodes: usize,
) -> Result<Vec<LadderRung>, String> {
    let is_of_gpu = |refusal: &&Refusal| of_gromacs(&refusal.words) == Meaning::Gpu;
    let broken: Vec<Option<&str>> =
        refusals.iter().filter(is_of_gpu).map(|refusal| refusal.node.as_deref()).collect();
    let enough = usize::try_from(MOST_TRIES).unwrap_or(usize::MAX);
    let no_gpus = is_no_nodes_fault(&broken, gpu_nodes) || broken.len() > enough;
    let counts = |refusal: &&Refusal| no_gpus || !is_of_gpu(refusal);
    let refusal = |layout: &Layout| {
        let mut counted = refusals.iter().filter(counts);
        counted.find(|refusal| rules_out(&refusal.words, &refusal.layout.0, layout))
    };
    let Some(smallest) = ladder.last().cloned() else { return Ok(ladder) };
    let left: Vec<LadderRung> = ladder.into_iter().filter(|rung| refusal(&rung.layout.0).is_none()).collect();
    if !left.is_empty() {
        return Ok(left);
    }
    let threads = u32::try_from(smallest.cpu_millicores / 1000).unwrap_or(1).max(1);
    let layout = Layout::cpu(1, threads);
    if let Some(refusal) = refusal(&layout) {
        return Err(format!("mdrun refuses every configuration: {}", refusal.words));
    }
    let slower = if smallest.gpus > 0 { WITHOUT_GPU } else { 1.0 };
    Ok(vec![LadderRung {
        gpus: 0,
        node_labels: Json(BTreeMap::new()),
        layout: Json(layout),
        ns_per_day_p10: smallest.ns_per_day_p10 * slower,
        ns_per_day_p50: smallest.ns_per_day_p50 * slower,
        ns_per_day_p90: smallest.ns_per_day_p90,
        hours_to_finish: smallest.hours_to_finish.map(|hours| hours / slower),
        reason: "one rank on the CPU, since mdrun refuses all others".to_owned(),
        ..smallest
    }])
}
