//! GPU products.
//!
//! Peak single precision and memory bandwidth are from the vendors' data sheets. `use_of_peak` is the share of the
//! peak that short-range kernels can be expected to reach relative to Volta: architectures that count a second
//! FP32 path shared with integers (GA10x, Ada, Hopper) or need matrix or packed instructions for it (CDNA) reach
//! less of theirs. `launch` is what a launch through SYCL on ROCm, GROMACS's way to AMD, takes next to CUDA's.

/// A GPU product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuClass {
    /// Name in replies, metrics and observations.
    pub key: &'static str,
    /// Text that a product label contains, in upper case without separators.
    pub pattern: &'static str,
    /// Peak single precision in TFLOP/s, of one device as Kubernetes counts them.
    pub tflops: f64,
    /// Memory bandwidth in GB/s.
    pub bandwidth: f64,
    /// Share of the peak that is within reach, relative to Volta.
    pub use_of_peak: f64,
    /// Device memory in GiB.
    pub memory_gib: f64,
    /// Time to launch work relative to CUDA.
    pub launch: f64,
    /// Standard deviation of ln(speed) between hosts, builds and versions.
    pub sigma: f64,
    /// Where the figures are published.
    pub source: &'static str,
}

macro_rules! gpu {
    ($key:literal, $pattern:literal, $tflops:literal TFLOPS, $bandwidth:literal GBps, $use:literal of peak,
     $memory:literal GiB, launch $launch:literal, sigma $sigma:literal, $source:literal) => {
        GpuClass {
            key: $key,
            pattern: $pattern,
            tflops: $tflops,
            bandwidth: $bandwidth,
            use_of_peak: $use,
            memory_gib: $memory,
            launch: $launch,
            sigma: $sigma,
            source: $source,
        }
    };
}

/// All products. The first is the unknown one; of several patterns that match, the longest wins.
#[rustfmt::skip]
pub static GPU_CLASSES: &[GpuClass] = &[
    gpu!("unknown", "", 15.0 TFLOPS, 700.0 GBps, 0.9 of peak, 16.0 GiB, launch 1.0, sigma 0.8, "middle of the products below"),
    gpu!("k80", "K80", 4.1 TFLOPS, 240.0 GBps, 0.6 of peak, 12.0 GiB, launch 1.0, sigma 0.4, "NVIDIA K80 data sheet, one of two dies"),
    gpu!("p100", "P100", 9.5 TFLOPS, 732.0 GBps, 0.85 of peak, 16.0 GiB, launch 1.0, sigma 0.35, "NVIDIA P100 data sheet"),
    gpu!("gtx1080ti", "GTX1080TI", 11.3 TFLOPS, 484.0 GBps, 0.85 of peak, 11.0 GiB, launch 1.0, sigma 0.35, "NVIDIA GTX 1080 Ti specification"),
    gpu!("v100", "V100", 15.0 TFLOPS, 900.0 GBps, 1.0 of peak, 16.0 GiB, launch 1.0, sigma 0.35, "NVIDIA V100 data sheet"),
    gpu!("t4", "T4", 8.1 TFLOPS, 320.0 GBps, 0.7 of peak, 16.0 GiB, launch 1.0, sigma 0.35, "NVIDIA T4 data sheet; held back by 70 W"),
    gpu!("rtx2080ti", "RTX2080TI", 13.4 TFLOPS, 616.0 GBps, 1.0 of peak, 11.0 GiB, launch 1.0, sigma 0.35, "NVIDIA Turing white paper"),
    gpu!("a100", "A100", 19.5 TFLOPS, 1555.0 GBps, 1.0 of peak, 40.0 GiB, launch 1.0, sigma 0.35, "NVIDIA A100 data sheet"),
    gpu!("a30", "A30", 10.3 TFLOPS, 933.0 GBps, 1.0 of peak, 24.0 GiB, launch 1.0, sigma 0.35, "NVIDIA A30 data sheet"),
    gpu!("a10", "A10", 31.2 TFLOPS, 600.0 GBps, 0.5 of peak, 24.0 GiB, launch 1.0, sigma 0.35, "NVIDIA A10 data sheet"),
    gpu!("a40", "A40", 37.4 TFLOPS, 696.0 GBps, 0.55 of peak, 48.0 GiB, launch 1.0, sigma 0.35, "NVIDIA A40 data sheet"),
    gpu!("rtxa6000", "RTXA6000", 38.7 TFLOPS, 768.0 GBps, 0.55 of peak, 48.0 GiB, launch 1.0, sigma 0.35, "NVIDIA RTX A6000 data sheet"),
    gpu!("rtx3090", "RTX3090", 35.6 TFLOPS, 936.0 GBps, 0.6 of peak, 24.0 GiB, launch 1.0, sigma 0.35, "NVIDIA Ampere GA102 white paper"),
    gpu!("rtx4090", "RTX4090", 82.6 TFLOPS, 1008.0 GBps, 0.55 of peak, 24.0 GiB, launch 1.0, sigma 0.35, "NVIDIA Ada white paper"),
    gpu!("l4", "L4", 30.3 TFLOPS, 300.0 GBps, 0.4 of peak, 24.0 GiB, launch 1.0, sigma 0.35, "NVIDIA L4 data sheet; held back by 72 W"),
    gpu!("l40", "L40", 90.5 TFLOPS, 864.0 GBps, 0.5 of peak, 48.0 GiB, launch 1.0, sigma 0.35, "NVIDIA L40 data sheet"),
    gpu!("l40s", "L40S", 91.6 TFLOPS, 864.0 GBps, 0.5 of peak, 48.0 GiB, launch 1.0, sigma 0.35, "NVIDIA L40S data sheet"),
    gpu!("h100", "H100", 60.0 TFLOPS, 3000.0 GBps, 0.6 of peak, 80.0 GiB, launch 1.0, sigma 0.35, "NVIDIA H100 data sheet, between PCIe (51) and SXM (67)"),
    gpu!("h200", "H200", 67.0 TFLOPS, 4800.0 GBps, 0.6 of peak, 141.0 GiB, launch 1.0, sigma 0.35, "NVIDIA H200 data sheet"),
    gpu!("gh200", "GH200", 67.0 TFLOPS, 4000.0 GBps, 0.6 of peak, 96.0 GiB, launch 1.0, sigma 0.35, "NVIDIA GH200 data sheet"),
    gpu!("mi100", "MI100", 23.1 TFLOPS, 1229.0 GBps, 0.5 of peak, 32.0 GiB, launch 2.0, sigma 0.4, "AMD Instinct MI100 data sheet"),
    gpu!("mi210", "MI210", 22.6 TFLOPS, 1638.0 GBps, 0.6 of peak, 64.0 GiB, launch 2.0, sigma 0.4, "AMD Instinct MI210 data sheet"),
    gpu!("mi250x", "MI250X", 23.9 TFLOPS, 1638.0 GBps, 0.6 of peak, 64.0 GiB, launch 2.0, sigma 0.4, "AMD Instinct MI250X data sheet, one of two dies"),
    gpu!("mi300x", "MI300X", 163.4 TFLOPS, 5300.0 GBps, 0.3 of peak, 192.0 GiB, launch 2.0, sigma 0.4, "AMD Instinct MI300X data sheet"),
];

impl GpuClass {
    /// The product of that name.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        GPU_CLASSES.iter().find(|class| class.key == key)
    }

    /// The class for GPUs that nothing is known of.
    #[must_use]
    pub fn unknown() -> &'static Self {
        &GPU_CLASSES[0]
    }
}
