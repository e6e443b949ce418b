//! Hardware classes: what can be known of a node's speed without a measurement.

mod cpu;
mod gpu;
mod instances;
pub(crate) mod parts;
mod recognise;

pub use cpu::{CPU_CLASSES, CpuClass, Simd};
pub use gpu::{GPU_CLASSES, GpuClass};
pub use parts::is_share;
pub use recognise::{
    Hardware, class_of_labels, cpu_from_labels, gpu_from_labels, hardware_of, labels_from_cpuinfo,
};

/// Key of the class for CPUs and GPUs that nothing is known of.
pub const UNKNOWN: &str = "unknown";
