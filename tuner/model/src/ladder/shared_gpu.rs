//! Several equal simulations on one GPU.
//!
//! One simulation leaves a GPU idle while it launches work, waits for the host and moves data. Others can use that time.
//! Built from published figures and run on no machine of this project: +28% in total for four on a die of an MI250X, up to
//! 1.8 times for small systems with NVIDIA's MPS.

use std::collections::BTreeMap;

use scavenger_schema::tuning::{Device, Interval, Resources, SharedGpu};

use super::candidates::{Candidate, MOST_CORES_PER_GPU, Question, core_counts, holding};
use crate::hardware::parts::MOST_BUSY;
use crate::layout;
use crate::memory::request_bytes;
use crate::system::System;

/// Most that was seen in total relative to one simulation alone.
const MOST_GAIN: f64 = 1.8;
/// How much wider the interval is than that of one simulation: nothing here was measured.
const WIDER: f64 = 1.2;

/// What 2 to `limits.max_simulations_per_gpu` simulations do together, for each kind of GPU the best division of cores.
pub(crate) fn shared_gpus(question: &Question<'_>, all: &[Candidate]) -> Vec<SharedGpu> {
    let mut classes: BTreeMap<String, f64> = BTreeMap::new();
    // A share of a GPU is divided no further.
    let is_whole = |candidate: &&Candidate| {
        candidate.resources.gpus == 1
            && candidate.bound.is_none()
            && candidate.slowest.gpu.is_some_and(|gpu| gpu.pods == 1)
    };
    for candidate in all.iter().filter(is_whole) {
        let class = candidate.slowest.class(1);
        let fastest = classes.entry(class).or_default();
        *fastest = fastest.max(candidate.speed);
    }
    let mut found: Vec<SharedGpu> = Vec::new();
    for (class, alone) in &classes {
        for simulations in 2..=question.limits.max_simulations_per_gpu {
            let options = core_counts(question.kinds, MOST_CORES_PER_GPU / simulations)
                .into_iter()
                .filter_map(|cores| together(question, class, simulations, cores, *alone));
            found.extend(options.max_by(|a, b| a.ns_per_day_total.p50.total_cmp(&b.ns_per_day_total.p50)));
        }
    }
    found
}

/// `simulations` with `cores` cores each, if a node of that class holds them.
fn together(
    question: &Question<'_>,
    class: &str,
    simulations: u32,
    cores: u32,
    alone: f64,
) -> Option<SharedGpu> {
    let &Question { model, job, limits, kinds, .. } = question;
    let gpus = kinds.iter().filter_map(|kind| kind.hardware.gpu);
    let layout = gpus.filter_map(|gpu| layout::gpu_layout(&job.system, cores, gpu)).next()?;
    let peak = model.peak_bytes(job, &layout);
    let resources = Resources {
        cpu_millicores: cores * simulations * 1000,
        memory_bytes: request_bytes(peak) * u64::from(simulations),
        gpus: 1,
    };
    let is_too_much = limits.max_cpu_millicores.is_some_and(|most| resources.cpu_millicores > most)
        || limits.max_memory_bytes.is_some_and(|most| resources.memory_bytes > most);
    // All of them must fit into the memory of the GPU together.
    let atoms = job.system.atoms * f64::from(simulations);
    let all_atoms = System { atoms, ..job.system.clone() };
    let hardware = holding(question, &resources)
        .find(|hardware| hardware.class(1) == class)
        .filter(|hardware| !is_too_much && layout::check(&all_atoms, &layout, hardware.gpu).is_ok())?;
    let one = question.model.predict(question.job, &hardware, &layout, cores * 1000);
    let step = one.step;
    // Busy with what is on the GPU; launches and transfers are not.
    let mesh = if layout.pme == Device::Gpu { step.pme } else { 0.0 };
    let busy = (step.pair + mesh + step.other).min(step.total - step.overhead).max(step.pair);
    let period = step.total.max(busy * f64::from(simulations) / MOST_BUSY);
    let total = one.ns_per_day.p50 * step.total / period * f64::from(simulations);
    let total = total.min(MOST_GAIN * alone);
    let Interval { p10, p50, p90 } = one.ns_per_day;
    Some(SharedGpu {
        simulations,
        resources,
        layout,
        ns_per_day_total: Interval {
            p10: total * p10 / p50 / WIDER,
            p50: total,
            p90: total * p90 / p50 * WIDER,
        },
        ns_per_day_each: total / f64::from(simulations),
        gain: total / alone,
        hardware_class: class.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use crate::ladder::build;
    use crate::ladder::fixtures::{labelled, node, request, water};
    use crate::model::Model;
    use scavenger_schema::tuning::LadderReply;

    fn ladder(atoms: u64, most: u32, cores: u32) -> LadderReply {
        let gpu_node = labelled(
            &node(cores * 1000, 256),
            &[
                ("nvidia.com/gpu.product", "NVIDIA-A100"),
                ("node.kubernetes.io/instance-type", "hpc6a.48xlarge"),
            ],
            1,
        );
        let mut request = request(water(atoms), vec![gpu_node]);
        request.limits.max_simulations_per_gpu = most;
        build(&Model::prior(), &request).expect("there should be a ladder")
    }

    #[test]
    fn nobody_shares_a_gpu_unless_asked() {
        let reply = ladder(30_000, 1, 24);
        assert!(reply.shared_gpu.is_empty());
        assert!(!reply.notes.iter().any(|note| note.contains("on one GPU")));
    }

    #[test]
    fn two_to_four_share_a_gpu_and_gain_what_was_seen() {
        let reply = ladder(30_000, 4, 24);
        let counts: Vec<u32> = reply.shared_gpu.iter().map(|shared| shared.simulations).collect();
        assert_eq!(counts, [2, 3, 4]);
        for shared in &reply.shared_gpu {
            assert!((0.5..=1.8).contains(&shared.gain), "{shared:?}");
            assert_eq!(shared.resources.gpus, 1);
            assert_eq!(shared.resources.cpu_millicores, shared.simulations * shared.layout.threads() * 1000);
            let total = shared.ns_per_day_each * f64::from(shared.simulations);
            assert!((total / shared.ns_per_day_total.p50 - 1.0).abs() < 1e-9);
            // Nothing of it was measured.
            assert!(shared.ns_per_day_total.p90 / shared.ns_per_day_total.p10 > 2.0);
        }
        assert!(reply.notes.iter().any(|note| note.contains("never run")), "{:?}", reply.notes);
    }

    /// A node of 16 cores whose GPU is divided among so many pods.
    fn on_shares(pods: u32) -> LadderReply {
        let count = pods.to_string();
        let labels = [
            ("node.kubernetes.io/instance-type", "hpc6a.48xlarge"),
            ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB"),
            ("nvidia.com/gpu.replicas", count.as_str()),
        ];
        let mut request = request(water(30_000), vec![labelled(&node(16_000, 64), &labels, pods)]);
        request.limits.max_simulations_per_gpu = 4;
        build(&Model::prior(), &request).expect("there should be a ladder")
    }

    #[test]
    fn where_a_pool_shares_its_gpus_single_rows_get_shares() {
        let [whole, two, four] = [1, 2, 4].map(on_shares);
        let on_gpu = |reply: &LadderReply| reply.rungs.iter().find(|rung| rung.resources.gpus > 0).cloned();
        let alone = on_gpu(&whole).expect("there is a configuration with the GPU").ns_per_day.p50;
        for (reply, pods) in [(&two, 2), (&four, 4)] {
            let rung = on_gpu(reply).expect("there is a configuration with a share");
            assert_eq!(rung.hardware_class, format!("zen3+a100-shared-{pods}"));
            assert_eq!(rung.resources.gpus, 1);
            assert!(rung.resources.cpu_millicores <= 24_000 / pods, "who shares a GPU shares the cores");
            let total = rung.ns_per_day.p50 * f64::from(pods);
            // Together they do more than one alone, and not more than was ever seen.
            assert!((0.7..=1.8).contains(&(total / alone)), "{pods}: {total} {alone}");
            assert!(
                rung.reason.contains(&format!("{pods} such simulations share a GPU, ")),
                "{}",
                rung.reason
            );
            assert!(rung.ns_per_day.p90 / rung.ns_per_day.p10 > 2.5, "nothing of it was measured");
            assert!(reply.shared_gpu.is_empty(), "a share is divided no further");
            assert!(reply.notes.iter().any(|note| note.contains("never run")), "{:?}", reply.notes);
        }
    }

    #[test]
    fn small_systems_gain_more_than_large_ones() {
        let gain = |atoms| ladder(atoms, 2, 24).shared_gpu[0].gain;
        assert!(gain(10_000) > gain(1_000_000), "{} {}", gain(10_000), gain(1_000_000));
    }

    #[test]
    fn few_cores_hold_few_simulations() {
        let reply = ladder(30_000, 4, 3);
        assert!(reply.shared_gpu.iter().all(|shared| shared.simulations <= 3));
        assert!(reply.shared_gpu.iter().all(|shared| shared.resources.cpu_millicores <= 3000));
    }

    #[test]
    fn the_memory_of_the_gpu_holds_them_all() {
        // 40 GiB at 1,500 bytes per atom: one such system, not three.
        let reply = ladder(12_000_000, 4, 24);
        assert!(reply.shared_gpu.iter().all(|shared| shared.simulations <= 2), "{:?}", reply.shared_gpu);
    }
}
