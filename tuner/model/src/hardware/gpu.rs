//! GPU products.
//!
//! Peak single precision, memory bandwidth and last-level cache are from the vendors' data sheets. `use_of_peak` is the
//! share of the peak that short-range kernels can be expected to reach relative to Volta. Architectures that count a
//! second FP32 path (GA10x, Ada, Hopper, Blackwell) issue four instructions per clock in each multiprocessor, as Volta
//! does, and count twice the operations: where about seven tenths of the instructions of a kernel are floating-point, as
//! those of the pair kernel, 0.7 of the peak are within Volta's reach; the same holds for Pascal, whose units do integers,
//! too. Cards that cannot hold the clock that their peak is stated for reach less (T4, A10, L4, the accelerators with HBM
//! from Hopper on), and so do those that need packed instructions for their peak (CDNA). `launch` is
//! what a launch through SYCL on ROCm, GROMACS's way to AMD, takes next to CUDA's.

/// A GPU product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuClass {
    /// Name in replies, metrics and observations.
    pub key: &'static str,
    /// Text that a product label contains, in upper case without separators.
    pub pattern: &'static str,
    /// Pods that share a device; each has what Kubernetes counts as one. 1 if it is for one alone.
    pub pods: u32,
    /// Peak single precision in TFLOP/s, of one device as Kubernetes counts them.
    pub tflops: f64,
    /// Memory bandwidth in GB/s.
    pub bandwidth: f64,
    /// Last-level cache in MiB: what of the PME grid it holds is not read from memory.
    pub cache_mib: f64,
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
    ($key:literal, $pattern:literal, $tflops:literal TFLOPS, $bandwidth:literal GBps, $cache:literal MiB cache, $use:literal of peak,
     $memory:literal GiB, launch $launch:literal, sigma $sigma:literal, $source:literal) => {
        GpuClass {
            key: $key,
            pattern: $pattern,
            pods: 1,
            tflops: $tflops,
            bandwidth: $bandwidth,
            cache_mib: $cache,
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
    gpu!("unknown", "", 15.0 TFLOPS, 700.0 GBps, 6.0 MiB cache, 0.9 of peak, 16.0 GiB, launch 1.0, sigma 0.8, "middle of the products below"),
    gpu!("k80", "K80", 4.1 TFLOPS, 240.0 GBps, 1.5 MiB cache, 0.6 of peak, 12.0 GiB, launch 1.0, sigma 0.32, "NVIDIA K80 data sheet, one of two dies"),
    gpu!("p100", "P100", 9.5 TFLOPS, 732.0 GBps, 4.0 MiB cache, 0.7 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA P100 data sheet"),
    gpu!("gtx1080ti", "GTX1080TI", 11.3 TFLOPS, 484.0 GBps, 2.75 MiB cache, 0.7 of peak, 11.0 GiB, launch 1.0, sigma 0.28, "NVIDIA GTX 1080 Ti specification"),
    gpu!("v100", "V100", 15.0 TFLOPS, 900.0 GBps, 6.0 MiB cache, 1.0 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA V100 data sheet"),
    gpu!("t4", "T4", 8.1 TFLOPS, 320.0 GBps, 4.0 MiB cache, 0.7 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA T4 data sheet; held back by 70 W"),
    gpu!("rtx2080ti", "RTX2080TI", 13.4 TFLOPS, 616.0 GBps, 5.5 MiB cache, 1.0 of peak, 11.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Turing white paper"),
    gpu!("a100", "A100", 19.5 TFLOPS, 1555.0 GBps, 40.0 MiB cache, 1.0 of peak, 40.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A100 data sheet"),
    gpu!("a30", "A30", 10.3 TFLOPS, 933.0 GBps, 24.0 MiB cache, 1.0 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A30 data sheet"),
    gpu!("a10", "A10", 31.2 TFLOPS, 600.0 GBps, 6.0 MiB cache, 0.5 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A10 data sheet"),
    gpu!("a40", "A40", 37.4 TFLOPS, 696.0 GBps, 6.0 MiB cache, 0.7 of peak, 48.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A40 data sheet"),
    gpu!("rtxa6000", "RTXA6000", 38.7 TFLOPS, 768.0 GBps, 6.0 MiB cache, 0.7 of peak, 48.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX A6000 data sheet"),
    gpu!("rtx3090", "RTX3090", 35.6 TFLOPS, 936.0 GBps, 6.0 MiB cache, 0.7 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Ampere GA102 white paper"),
    gpu!("rtx4090", "RTX4090", 82.6 TFLOPS, 1008.0 GBps, 72.0 MiB cache, 0.7 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Ada white paper"),
    gpu!("l4", "L4", 30.3 TFLOPS, 300.0 GBps, 48.0 MiB cache, 0.4 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA L4 data sheet; held back by 72 W"),
    gpu!("l40", "L40", 90.5 TFLOPS, 864.0 GBps, 96.0 MiB cache, 0.7 of peak, 48.0 GiB, launch 1.0, sigma 0.28, "NVIDIA L40 data sheet"),
    gpu!("l40s", "L40S", 91.6 TFLOPS, 864.0 GBps, 96.0 MiB cache, 0.7 of peak, 48.0 GiB, launch 1.0, sigma 0.28, "NVIDIA L40S data sheet"),
    gpu!("h100", "H100", 60.0 TFLOPS, 3000.0 GBps, 50.0 MiB cache, 0.6 of peak, 80.0 GiB, launch 1.0, sigma 0.28, "NVIDIA H100 data sheet, between PCIe (51) and SXM (67)"),
    gpu!("h200", "H200", 67.0 TFLOPS, 4800.0 GBps, 50.0 MiB cache, 0.6 of peak, 141.0 GiB, launch 1.0, sigma 0.28, "NVIDIA H200 data sheet"),
    gpu!("gh200", "GH200", 67.0 TFLOPS, 4000.0 GBps, 50.0 MiB cache, 0.6 of peak, 96.0 GiB, launch 1.0, sigma 0.28, "NVIDIA GH200 data sheet"),
    gpu!("mi100", "MI100", 23.1 TFLOPS, 1229.0 GBps, 8.0 MiB cache, 0.5 of peak, 32.0 GiB, launch 2.0, sigma 0.32, "AMD Instinct MI100 data sheet"),
    gpu!("mi210", "MI210", 22.6 TFLOPS, 1638.0 GBps, 8.0 MiB cache, 0.6 of peak, 64.0 GiB, launch 2.0, sigma 0.32, "AMD Instinct MI210 data sheet"),
    gpu!("mi250x", "MI250X", 23.9 TFLOPS, 1638.0 GBps, 8.0 MiB cache, 0.6 of peak, 64.0 GiB, launch 2.0, sigma 0.28, "AMD Instinct MI250X data sheet, one of two dies"),
    gpu!("mi300x", "MI300X", 163.4 TFLOPS, 5300.0 GBps, 256.0 MiB cache, 0.3 of peak, 192.0 GiB, launch 2.0, sigma 0.32, "AMD Instinct MI300X data sheet"),
    gpu!("k40", "K40", 4.3 TFLOPS, 288.0 GBps, 1.5 MiB cache, 0.6 of peak, 12.0 GiB, launch 1.0, sigma 0.32, "NVIDIA K40 data sheet"),
    gpu!("m60", "M60", 4.8 TFLOPS, 160.0 GBps, 2.0 MiB cache, 0.7 of peak, 8.0 GiB, launch 1.0, sigma 0.32, "NVIDIA M60 data sheet, one of two dies"),
    gpu!("p4", "P4", 5.5 TFLOPS, 192.0 GBps, 2.0 MiB cache, 0.6 of peak, 8.0 GiB, launch 1.0, sigma 0.28, "NVIDIA P4 data sheet; held back by 75 W"),
    gpu!("p40", "P40", 11.8 TFLOPS, 346.0 GBps, 3.0 MiB cache, 0.7 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA P40 data sheet"),
    gpu!("gtx1060", "GTX1060", 4.4 TFLOPS, 192.0 GBps, 1.5 MiB cache, 0.7 of peak, 6.0 GiB, launch 1.0, sigma 0.28, "NVIDIA GTX 1060 specification"),
    gpu!("gtx1070", "GTX1070", 6.5 TFLOPS, 256.0 GBps, 2.0 MiB cache, 0.7 of peak, 8.0 GiB, launch 1.0, sigma 0.28, "NVIDIA GTX 1070 specification"),
    gpu!("gtx1080", "GTX1080", 8.9 TFLOPS, 320.0 GBps, 2.0 MiB cache, 0.7 of peak, 8.0 GiB, launch 1.0, sigma 0.28, "NVIDIA GTX 1080 specification"),
    gpu!("titanxp", "TITANXP", 12.1 TFLOPS, 548.0 GBps, 3.0 MiB cache, 0.7 of peak, 12.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Titan Xp specification"),
    gpu!("titanv", "TITANV", 14.9 TFLOPS, 653.0 GBps, 4.5 MiB cache, 1.0 of peak, 12.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Titan V specification"),
    gpu!("rtx2060", "RTX2060", 6.5 TFLOPS, 336.0 GBps, 3.0 MiB cache, 1.0 of peak, 6.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Turing white paper"),
    gpu!("rtx2070", "RTX2070", 7.5 TFLOPS, 448.0 GBps, 4.0 MiB cache, 1.0 of peak, 8.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Turing white paper"),
    gpu!("rtx2080", "RTX2080", 10.1 TFLOPS, 448.0 GBps, 4.0 MiB cache, 1.0 of peak, 8.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Turing white paper"),
    gpu!("titanrtx", "TITANRTX", 16.3 TFLOPS, 672.0 GBps, 6.0 MiB cache, 1.0 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Turing white paper"),
    gpu!("rtx4000", "RTX4000", 7.1 TFLOPS, 416.0 GBps, 4.0 MiB cache, 1.0 of peak, 8.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Quadro RTX 4000 data sheet"),
    gpu!("rtx5000", "RTX5000", 11.2 TFLOPS, 448.0 GBps, 4.0 MiB cache, 1.0 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Quadro RTX 5000 data sheet"),
    gpu!("rtx6000", "RTX6000", 16.3 TFLOPS, 672.0 GBps, 6.0 MiB cache, 1.0 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Quadro RTX 6000 data sheet"),
    gpu!("rtx8000", "RTX8000", 16.3 TFLOPS, 672.0 GBps, 6.0 MiB cache, 1.0 of peak, 48.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Quadro RTX 8000 data sheet"),
    gpu!("a2", "A2", 4.5 TFLOPS, 200.0 GBps, 2.0 MiB cache, 0.6 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A2 data sheet"),
    gpu!("a16", "A16", 4.5 TFLOPS, 200.0 GBps, 2.0 MiB cache, 0.6 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A16 data sheet, one of four dies"),
    gpu!("a100-80gb", "A100SXM480GB", 19.5 TFLOPS, 2039.0 GBps, 40.0 MiB cache, 1.0 of peak, 80.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A100 data sheet"),
    gpu!("a100-80gb-pcie", "A10080GB", 19.5 TFLOPS, 1935.0 GBps, 40.0 MiB cache, 1.0 of peak, 80.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A100 data sheet"),
    gpu!("a800", "A800", 19.5 TFLOPS, 2039.0 GBps, 40.0 MiB cache, 1.0 of peak, 80.0 GiB, launch 1.0, sigma 0.28, "NVIDIA A800, as A100 but for its links"),
    gpu!("rtxa4000", "RTXA4000", 19.2 TFLOPS, 448.0 GBps, 4.0 MiB cache, 0.7 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX A4000 data sheet"),
    gpu!("rtxa5000", "RTXA5000", 27.8 TFLOPS, 768.0 GBps, 6.0 MiB cache, 0.7 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX A5000 data sheet"),
    gpu!("rtx3060", "RTX3060", 12.7 TFLOPS, 360.0 GBps, 3.0 MiB cache, 0.7 of peak, 12.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Ampere GA102 white paper"),
    gpu!("rtx3070", "RTX3070", 20.3 TFLOPS, 448.0 GBps, 4.0 MiB cache, 0.7 of peak, 8.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Ampere GA102 white paper"),
    gpu!("rtx3080", "RTX3080", 29.8 TFLOPS, 760.0 GBps, 5.0 MiB cache, 0.7 of peak, 10.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Ampere GA102 white paper"),
    gpu!("rtx3080ti", "RTX3080TI", 34.1 TFLOPS, 912.0 GBps, 6.0 MiB cache, 0.7 of peak, 12.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 3080 Ti specification"),
    gpu!("rtx3090ti", "RTX3090TI", 40.0 TFLOPS, 1008.0 GBps, 6.0 MiB cache, 0.7 of peak, 24.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 3090 Ti specification"),
    gpu!("rtx4060", "RTX4060", 15.1 TFLOPS, 272.0 GBps, 24.0 MiB cache, 0.7 of peak, 8.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 4060 specification"),
    gpu!("rtx4070", "RTX4070", 29.1 TFLOPS, 504.0 GBps, 36.0 MiB cache, 0.7 of peak, 12.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 4070 specification"),
    gpu!("rtx4070ti", "RTX4070TI", 40.1 TFLOPS, 504.0 GBps, 48.0 MiB cache, 0.7 of peak, 12.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 4070 Ti specification"),
    gpu!("rtx4080", "RTX4080", 48.7 TFLOPS, 717.0 GBps, 64.0 MiB cache, 0.7 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 4080 specification"),
    gpu!("rtx6000ada", "RTX6000ADA", 91.1 TFLOPS, 960.0 GBps, 96.0 MiB cache, 0.7 of peak, 48.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 6000 Ada data sheet"),
    gpu!("rtx5000ada", "RTX5000ADA", 65.3 TFLOPS, 576.0 GBps, 72.0 MiB cache, 0.7 of peak, 32.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 5000 Ada data sheet"),
    gpu!("rtx4000sffada", "RTX4000SFFADA", 19.2 TFLOPS, 280.0 GBps, 48.0 MiB cache, 0.6 of peak, 20.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 4000 SFF Ada data sheet"),
    gpu!("rtx4000ada", "RTX4000ADA", 26.7 TFLOPS, 360.0 GBps, 48.0 MiB cache, 0.6 of peak, 20.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 4000 Ada data sheet"),
    gpu!("rtx5070", "RTX5070", 30.9 TFLOPS, 672.0 GBps, 48.0 MiB cache, 0.7 of peak, 12.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 5070 specification"),
    gpu!("rtx5070ti", "RTX5070TI", 43.9 TFLOPS, 896.0 GBps, 48.0 MiB cache, 0.7 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 5070 Ti specification"),
    gpu!("rtx5080", "RTX5080", 56.3 TFLOPS, 960.0 GBps, 64.0 MiB cache, 0.7 of peak, 16.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 5080 specification"),
    gpu!("rtx5090", "RTX5090", 104.8 TFLOPS, 1792.0 GBps, 96.0 MiB cache, 0.7 of peak, 32.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX 5090 specification"),
    gpu!("rtxpro6000", "RTXPRO6000", 125.0 TFLOPS, 1792.0 GBps, 128.0 MiB cache, 0.7 of peak, 96.0 GiB, launch 1.0, sigma 0.28, "NVIDIA RTX PRO 6000 Blackwell data sheet"),
    gpu!("h800", "H800", 60.0 TFLOPS, 3000.0 GBps, 50.0 MiB cache, 0.6 of peak, 80.0 GiB, launch 1.0, sigma 0.28, "NVIDIA H800, as H100 but for its links"),
    gpu!("h20", "H20", 44.0 TFLOPS, 4000.0 GBps, 60.0 MiB cache, 0.6 of peak, 96.0 GiB, launch 1.0, sigma 0.28, "NVIDIA H20 specification"),
    gpu!("b200", "B200", 75.0 TFLOPS, 8000.0 GBps, 126.0 MiB cache, 0.6 of peak, 180.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Blackwell data sheet"),
    gpu!("gb200", "GB200", 80.0 TFLOPS, 8000.0 GBps, 126.0 MiB cache, 0.6 of peak, 186.0 GiB, launch 1.0, sigma 0.28, "NVIDIA Blackwell data sheet"),
    gpu!("mi50", "MI50", 13.3 TFLOPS, 1024.0 GBps, 4.0 MiB cache, 0.6 of peak, 16.0 GiB, launch 2.0, sigma 0.32, "AMD Instinct MI50 data sheet"),
    gpu!("mi60", "MI60", 14.7 TFLOPS, 1024.0 GBps, 4.0 MiB cache, 0.6 of peak, 32.0 GiB, launch 2.0, sigma 0.32, "AMD Instinct MI60 data sheet"),
    gpu!("mi250", "MI250", 22.6 TFLOPS, 1638.0 GBps, 8.0 MiB cache, 0.6 of peak, 64.0 GiB, launch 2.0, sigma 0.32, "AMD Instinct MI250 data sheet, one of two dies"),
    gpu!("mi300a", "MI300A", 122.6 TFLOPS, 5300.0 GBps, 256.0 MiB cache, 0.3 of peak, 128.0 GiB, launch 2.0, sigma 0.32, "AMD Instinct MI300A data sheet"),
    gpu!("mi325x", "MI325X", 163.4 TFLOPS, 6000.0 GBps, 256.0 MiB cache, 0.3 of peak, 256.0 GiB, launch 2.0, sigma 0.32, "AMD Instinct MI325X data sheet"),
];

impl GpuClass {
    /// The product of that name, or the slice or share.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        GPU_CLASSES.iter().chain(super::parts::all()).find(|class| class.key == key)
    }

    /// The class for GPUs that nothing is known of.
    #[must_use]
    pub fn unknown() -> &'static Self {
        &GPU_CLASSES[0]
    }
}
