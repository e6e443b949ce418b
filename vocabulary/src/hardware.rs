//! Labels of nodes that tell which hardware they are: what the operator passes on, and what the tuner recognises.
//!
//! Other labels differ between equal nodes (the release of the kernel, serial numbers, times), and would make each of them
//! a kind of its own.

/// Architecture, by the kubelet: `amd64`.
pub const ARCH: &str = "kubernetes.io/arch";

/// Instance type, by the cloud: `c6a.16xlarge`.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Vendor of the processor, by Node Feature Discovery.
pub const CPU_VENDOR: &str = "feature.node.kubernetes.io/cpu-model.vendor_id";

/// Family of the processor.
pub const CPU_FAMILY: &str = "feature.node.kubernetes.io/cpu-model.family";

/// Model of the processor.
pub const CPU_MODEL: &str = "feature.node.kubernetes.io/cpu-model.id";

/// Whether a core has several hardware threads.
pub const SMT: &str = "feature.node.kubernetes.io/cpu-hardware_multithreading";

/// Vector instructions of the processor.
pub const AVX2: &str = "feature.node.kubernetes.io/cpu-cpuid.AVX2";
/// See [`AVX2`].
pub const AVX512F: &str = "feature.node.kubernetes.io/cpu-cpuid.AVX512F";
/// See [`AVX2`].
pub const AVX512VNNI: &str = "feature.node.kubernetes.io/cpu-cpuid.AVX512VNNI";
/// See [`AVX2`].
pub const SVE: &str = "feature.node.kubernetes.io/cpu-cpuid.SVE";

/// The GPU product, by the device plugins and by the clouds; the first that a node has counts.
pub const GPU_PRODUCTS: [&str; 6] = [
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
];

/// Into how many time shares the device plugin divides a GPU.
pub const GPU_REPLICAS: &str = "nvidia.com/gpu.replicas";

/// Slice of a GPU (MIG) that a device is, where the product does not say so: `1g.5gb`.
pub const GPU_PARTITION: &str = "cloud.google.com/gke-gpu-partition-size";

/// How many pods may share a GPU.
pub const GPU_CLIENTS: &str = "cloud.google.com/gke-max-shared-clients-per-gpu";

const OTHERS: [&str; 13] = [
    ARCH,
    INSTANCE_TYPE,
    CPU_VENDOR,
    CPU_FAMILY,
    CPU_MODEL,
    SMT,
    AVX2,
    AVX512F,
    AVX512VNNI,
    SVE,
    GPU_REPLICAS,
    GPU_PARTITION,
    GPU_CLIENTS,
];

/// True for a label that tells which hardware a node is.
#[must_use]
pub fn is_told_by(label: &str) -> bool {
    OTHERS.contains(&label) || GPU_PRODUCTS.contains(&label)
}
