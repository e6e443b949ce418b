//! A pod on a kind of node.

use scavenger_schema::bounds;
use scavenger_schema::tuning::{Device, Layout};

use crate::hardware::Hardware;
use crate::performance::{GpuPlacement, Placement};

/// What part of a core a hardware thread is worth, on nodes where Kubernetes counts hardware threads: two of them
/// together do about 1.18 times the work of one core.
const HARDWARE_THREAD: f64 = 0.59;

/// What part of the cores that a pod does not have is taken to be busy with other pods. Not known; between an idle
/// node and a full one lie some 30% of the clock.
const BUSY_NEIGHBOURS: f64 = 0.5;

/// Loss of a pod that is given half a core: it runs at full speed and is stopped half of the time, in slices of
/// 100 ms, and caches cool meanwhile.
const THROTTLED: f64 = 0.97;

/// Time of a pod that is given less than a core, relative to what its share of one would do.
pub(super) fn throttling(cpu_millicores: u32) -> f64 {
    if cpu_millicores < bounds::WHOLE_CORE { 1.0 / THROTTLED } else { 1.0 }
}

pub(super) fn placement(hardware: &Hardware, layout: &Layout, cpu_millicores: u32) -> Placement {
    let on = |device: Device| device == Device::Gpu;
    let worth = if hardware.smt { HARDWARE_THREAD } else { 1.0 };
    let cores = f64::from(cpu_millicores) / 1000.0 * worth;
    let own = (cores / hardware.cpu.node_cores).min(1.0);
    Placement {
        nodes: 1.0,
        ranks: f64::from(layout.ntmpi),
        threads: f64::from(layout.ntomp),
        npme: f64::from(layout.npme),
        cores,
        smt: 1.0,
        busy: own + BUSY_NEIGHBOURS * (1.0 - own),
        gpu: hardware.gpu.filter(|_| layout.gpus > 0).map(|class| GpuPlacement {
            class,
            count: f64::from(layout.gpus),
            pme: on(layout.pme),
            bonded: on(layout.bonded),
            update: on(layout.update),
        }),
    }
}
