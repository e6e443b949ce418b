//! A pod on a kind of node.

use scavenger_schema::bounds;
use scavenger_schema::tuning::{Device, Layout};

use crate::hardware::Hardware;
use crate::performance::{GpuPlacement, Placement};

/// What part of a core a hardware thread is worth, on nodes where Kubernetes counts hardware threads: two of them
/// together do about 1.18 times the work of one core.
const HARDWARE_THREAD: f64 = 0.59;

/// What part of the cores that a pod does not have is taken to be busy with other pods. Not known before; between an idle
/// node and a full one lie some 30% of the clock.
const BUSY_NEIGHBOURS: f64 = 0.5;

/// Loss of a pod that is given half a core: it runs at full speed and is stopped half of the time, in slices of
/// 100 ms, and caches cool meanwhile.
const THROTTLED: f64 = 0.97;

/// Time of a pod that is given less than a core, relative to what its share of one would do.
pub(super) fn throttling(cpu_millicores: u32) -> f64 {
    if cpu_millicores < bounds::WHOLE_CORE { 1.0 / THROTTLED } else { 1.0 }
}

/// CPUs of a pod with `cpu_millicores`, of its node, and of the machine that the node is a part of.
fn sizes(hardware: &Hardware, cpu_millicores: u32) -> (f64, f64, f64) {
    let worth = if hardware.smt { HARDWARE_THREAD } else { 1.0 };
    let usual = hardware.cpu.node_cores / worth;
    let node = hardware.node_cpus.map_or(usual, f64::from);
    // Of the machine that a virtual one is a part of, nobody knows the rest.
    let host = if hardware.is_virtual { node.max(usual) } else { node };
    (cpus(cpu_millicores).min(node), node, host)
}

fn cpus(millicores: u32) -> f64 {
    f64::from(millicores) / f64::from(bounds::WHOLE_CORE)
}

/// Share of the cores of its machine that a pod has.
fn share(hardware: &Hardware, cpu_millicores: u32) -> f64 {
    let (own, _, host) = sizes(hardware, cpu_millicores);
    own / host
}

/// Share of the cores of its machine that work while a pod with `cpu_millicores` does: what all pods request on the node, as
/// far as it is known, and some of the rest.
pub(super) fn busy(hardware: &Hardware, cpu_millicores: u32, requested_millicores: Option<u32>) -> f64 {
    let (own, node, host) = sizes(hardware, cpu_millicores);
    let (working, known) = match requested_millicores {
        Some(requested) => (cpus(requested).min(node).max(own), node),
        None => (own, own),
    };
    (working + BUSY_NEIGHBOURS * (host - known)) / host
}

pub(super) fn placement(hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> Placement {
    let on = |device: Device| device == Device::Gpu;
    let worth = if hardware.smt { HARDWARE_THREAD } else { 1.0 };
    let cores = f64::from(cpu_millicores) / 1000.0 * worth;
    Placement {
        ranks: f64::from(layout.ntmpi),
        threads: f64::from(layout.ntomp),
        npme: f64::from(layout.npme),
        cores,
        smt: 1.0,
        busy: busy(hardware, cpu_millicores, None),
        share: share(hardware, cpu_millicores),
        gpu: hardware.gpu.filter(|_| layout.gpus > 0).map(|class| GpuPlacement {
            class,
            count: f64::from(layout.gpus),
            pme: on(layout.pme),
            bonded: on(layout.bonded),
            update: on(layout.update),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use scavenger_schema::hardware as label;

    use super::*;
    use crate::hardware::hardware_of;

    #[test]
    fn the_node_decides_how_busy_it_is() {
        let of = |labels: &[(&str, &str)]| {
            let labels: BTreeMap<String, String> =
                labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            hardware_of(&labels, 0)
        };
        let zen3 = of(&[(label::CPU_VENDOR, "AMD"), (label::CPU_FAMILY, "25"), (label::CPU_MODEL, "1")]);
        assert_eq!((zen3.cpu.key, zen3.smt, zen3.is_virtual), ("zen3", false, false));
        assert_eq!(busy(&zen3, 32_000, None), 0.25 + 0.5 * 0.75);
        let small = zen3.on_node(32_900);
        assert_eq!(busy(&small, 32_000, None), 1.0, "it has the node for itself");
        assert_eq!(busy(&small, 8000, None), 0.625);
        for (requested, expected) in [(8000, 0.25), (24_000, 0.75), (4000, 0.25), (64_000, 1.0)] {
            assert_eq!(busy(&small, 8000, Some(requested)), expected, "{requested}");
        }
        // Of a machine of 128 cores, which are twice as many threads or nearly, the rest is taken to be half busy.
        let part = of(&[(label::INSTANCE_TYPE, "hpc6a.48xlarge")]).on_node(32_000);
        assert!(part.is_virtual && !part.smt);
        assert_eq!(busy(&part, 32_000, None), 0.625);
        assert_eq!(busy(&part, 8000, Some(8000)), (8.0 + 48.0) / 128.0);
        let threads = of(&[(label::INSTANCE_TYPE, "c6a.metal")]).on_node(192_000);
        assert!(!threads.is_virtual && threads.smt, "{threads:?}");
        assert_eq!(busy(&threads, 96_000, Some(96_000)), 0.5);
    }
}
