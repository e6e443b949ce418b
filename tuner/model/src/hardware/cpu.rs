//! Micro-architectures of CPUs.
//!
//! The class, not the model number, carries most of what can be known: SIMD width, clock under vector load,
//! work per cycle. `clock_ghz` is a typical all-core clock under vector load, not the base clock, which misleads
//! on recent chips. `pair_cycles` starts from the peak of the vector units: the Ewald kernel of GROMACS needs
//! about 65 floating-point operations per pair and reaches about half of the peak; where two classes have the
//! same units they differ by known bottlenecks only; of 512-bit units about four tenths are reached. `ipc` is integer
//! and memory-bound work per cycle relative to Ivy Bridge, after published SPEC CPU 2006/2017 rate results per core and
//! clock. For Intel's servers from Skylake on the clock is that under 512-bit load, and `ipc` counts the rest of the
//! step, which runs at a clock about a tenth higher (the AVX2 and non-AVX columns of Intel's turbo tables). None of the columns is
//! fitted to the measurements in `tuner/data`; what is fitted are the factors common to all classes, in
//! [`crate::performance::Constants`].

use std::fmt;

use Architecture::{Arm, Power, X86};

/// Vector instructions that GROMACS would be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Simd {
    /// 128 bit, no FMA.
    Sse,
    /// 128 bit with FMA in units shared by two cores.
    Avx128Fma,
    /// 256 bit, no FMA.
    Avx256,
    /// 256-bit instructions on 128-bit units, with FMA.
    Avx2On128,
    /// 256 bit with FMA.
    Avx2,
    /// 512-bit instructions on 256-bit units, with FMA.
    Avx512On256,
    /// 512 bit with FMA.
    Avx512,
    /// ARM, 128 bit.
    Neon,
    /// ARM, scalable, of 256 bit.
    Sve,
    /// The same of 128 bit: no wider than NEON.
    SveOn128,
    /// The same of 512 bit.
    SveOn512,
    /// POWER, 128 bit.
    Vsx,
}

impl Simd {
    /// The instructions of a build, as `gmx --version` names them.
    #[must_use]
    pub fn of_build(name: &str) -> Option<Self> {
        let name = match name.trim() {
            "SSE2" => "SSE4.1",
            "AVX_512_KNL" => "AVX_512",
            name => name,
        };
        // Of those with one name, the one that a build can be for.
        let named = [
            Self::Sse,
            Self::Avx128Fma,
            Self::Avx256,
            Self::Avx2On128,
            Self::Avx2,
            Self::Avx512,
            Self::Neon,
            Self::Sve,
            Self::Vsx,
        ];
        named.into_iter().find(|simd| simd.name() == name)
    }

    /// What a build is called, which says neither how wide SVE is, nor in how many parts AVX-512 is carried out; which
    /// processors can run it, and how old it is among theirs; and the time of the pairs with such a build relative to one for
    /// AVX2, on a processor that has both; on ARM relative to one for NEON.
    ///
    /// The times were measured, not counted from the width: half as wide is far from twice as long, since loads, shuffles and
    /// the clock under load do not follow the width. [`CpuClass::pair_cycles_with`] has a test of what was measured.
    fn facts(self) -> (&'static str, Architecture, u32, f64) {
        match self {
            Self::Sse => ("SSE4.1", X86, 0, 1.85),
            Self::Avx128Fma => ("AVX_128_FMA", X86, 1, 1.7),
            Self::Avx256 => ("AVX_256", X86, 1, 1.3),
            Self::Avx2On128 => ("AVX2_128", X86, 2, 1.7),
            Self::Avx2 => ("AVX2_256", X86, 2, 1.0),
            Self::Avx512On256 => ("AVX_512", X86, 3, 0.92),
            Self::Avx512 => ("AVX_512", X86, 3, 0.83),
            Self::Neon => ("ARM_NEON_ASIMD", Arm, 0, 1.0),
            Self::Sve => ("ARM_SVE", Arm, 1, 1.0),
            Self::SveOn128 => ("ARM_SVE", Arm, 1, 1.18),
            Self::SveOn512 => ("ARM_SVE", Arm, 1, 0.35),
            Self::Vsx => ("IBM_VSX", Power, 0, 1.0),
        }
    }

    fn name(self) -> &'static str {
        self.facts().0
    }

    fn architecture(self) -> Architecture {
        self.facts().1
    }

    /// What a processor with these instructions can run: what is older, and no wider.
    fn includes(self, build: Self) -> bool {
        let ((_, own, newest, _), (_, its, age, _)) = (self.facts(), build.facts());
        // Bulldozer's own instructions went with it.
        let is_lost = build == Self::Avx128Fma && self != Self::Avx128Fma;
        own == its && age <= newest && !is_lost
    }
}

/// Processors that run the same programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Architecture {
    X86,
    Arm,
    Power,
}

impl fmt::Display for Simd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A micro-architecture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuClass {
    /// Name in replies, metrics and observations.
    pub key: &'static str,
    /// Products it stands for.
    pub products: &'static str,
    /// Vector instructions.
    pub simd: Simd,
    /// Typical all-core clock under vector load in GHz.
    pub clock_ghz: f64,
    /// Clock of a single busy core in GHz, the vendor's maximum.
    pub boost_ghz: f64,
    /// Cycles per pair interaction.
    pub pair_cycles: f64,
    /// Other work per cycle, relative to Ivy Bridge.
    pub ipc: f64,
    /// Cores that share a last-level cache: beyond them the threads of one rank get in each other's way.
    pub cache_cores: f64,
    /// Cores of a usual node with two sockets; a client chip has one.
    pub node_cores: f64,
    /// Standard deviation of ln(speed) between sites, builds and products of the class.
    pub sigma: f64,
    /// Where clock and units are published.
    pub source: &'static str,
}

macro_rules! cpu {
    ($key:literal, $products:literal, $simd:ident, $ghz:literal GHz, $boost:literal boost, $pair:literal per pair,
     $ipc:literal ipc, $cache:literal cores, $node:literal a node, sigma $sigma:literal, $source:literal) => {
        CpuClass {
            key: $key,
            products: $products,
            simd: Simd::$simd,
            clock_ghz: $ghz,
            boost_ghz: $boost,
            pair_cycles: $pair,
            ipc: $ipc,
            cache_cores: $cache,
            node_cores: $node,
            sigma: $sigma,
            source: $source,
        }
    };
}

/// All classes; the first is the one nothing is known of, and those of an architecture alone follow.
#[rustfmt::skip]
pub static CPU_CLASSES: &[CpuClass] = &[
    cpu!("unknown", "any", Avx2, 2.6 GHz, 3.4 boost, 4.6 per pair, 1.2 ipc, 8.0 cores, 64.0 a node, sigma 0.55,
        "middle of the classes below"),
    cpu!("amd64", "x86-64 of unknown model", Avx2, 2.6 GHz, 3.4 boost, 4.3 per pair, 1.25 ipc, 8.0 cores, 64.0 a node, sigma 0.45,
        "middle of the x86 classes below"),
    cpu!("amd64-avx2", "x86-64 of unknown model with AVX2", Avx2, 2.7 GHz, 3.4 boost, 4.4 per pair, 1.25 ipc, 8.0 cores, 64.0 a node, sigma 0.35,
        "middle of the AVX2 classes below"),
    cpu!("amd64-avx512", "x86-64 of unknown model with AVX-512", Avx512, 2.6 GHz, 3.7 boost, 2.5 per pair, 1.4 ipc, 16.0 cores, 64.0 a node, sigma 0.33,
        "middle of the AVX-512 classes below"),
    cpu!("arm64", "ARM of unknown model", Neon, 2.6 GHz, 2.8 boost, 8.0 per pair, 1.1 ipc, 16.0 cores, 64.0 a node, sigma 0.5,
        "middle of the ARM classes below"),
    cpu!("arm64-sve", "ARM of unknown model with SVE", Sve, 2.7 GHz, 2.9 boost, 5.2 per pair, 1.2 ipc, 16.0 cores, 64.0 a node, sigma 0.45,
        "middle of the SVE classes below"),

    cpu!("nehalem", "Xeon 5500 and 5600, first Core i", Sse, 2.9 GHz, 3.2 boost, 15.0 per pair, 0.85 ipc, 6.0 cores, 12.0 a node, sigma 0.25,
        "ark.intel.com Xeon X5650; 1 SSE add + 1 SSE mul per cycle"),
    cpu!("sandybridge", "Xeon E5 v1, Core i 2000", Avx256, 2.9 GHz, 3.3 boost, 7.7 per pair, 0.95 ipc, 8.0 cores, 16.0 a node, sigma 0.15,
        "ark.intel.com Xeon E5-2670; 1 AVX add + 1 AVX mul per cycle"),
    cpu!("ivybridge", "Xeon E5 v2, Core i 3000", Avx256, 3.0 GHz, 3.5 boost, 7.5 per pair, 1.0 ipc, 12.0 cores, 24.0 a node, sigma 0.15,
        "ark.intel.com Xeon E5-2697 v2; 1 AVX add + 1 AVX mul per cycle"),
    cpu!("haswell", "Xeon E5 v3, Core i 4000", Avx2, 2.5 GHz, 3.3 boost, 4.9 per pair, 1.15 ipc, 12.0 cores, 24.0 a node, sigma 0.15,
        "ark.intel.com Xeon E5-2680 v3, AVX turbo table; 2 AVX2 FMA per cycle"),
    cpu!("broadwell", "Xeon E5 v4, Core i 5000", Avx2, 2.4 GHz, 3.3 boost, 4.8 per pair, 1.2 ipc, 18.0 cores, 36.0 a node, sigma 0.15,
        "ark.intel.com Xeon E5-2695 v4, AVX turbo table; 2 AVX2 FMA per cycle"),
    cpu!("skylake-client", "Core i 6000 to 10000, Xeon E-2100/2200", Avx2, 3.8 GHz, 4.6 boost, 4.6 per pair, 1.25 ipc, 8.0 cores, 8.0 a node, sigma 0.16,
        "ark.intel.com Core i7-8700K; 2 AVX2 FMA per cycle"),
    cpu!("skylake-sp", "Xeon Scalable 1st generation", Avx512, 2.2 GHz, 3.5 boost, 2.5 per pair, 1.4 ipc, 18.0 cores, 40.0 a node, sigma 0.16,
        "Intel 336065 (AVX-512 turbo of Gold 6142, 6148); 2 AVX-512 FMA per cycle"),
    cpu!("cascadelake", "Xeon Scalable 2nd and 3rd (4-socket) generation", Avx512, 2.5 GHz, 3.9 boost, 2.5 per pair, 1.4 ipc, 20.0 cores, 40.0 a node, sigma 0.16,
        "Intel 338848 (AVX-512 turbo of Gold 6248); 2 AVX-512 FMA per cycle"),
    cpu!("icelake-sp", "Xeon Scalable 3rd generation", Avx512, 2.6 GHz, 3.5 boost, 2.4 per pair, 1.6 ipc, 28.0 cores, 64.0 a node, sigma 0.16,
        "Intel 638353 (AVX-512 turbo of Platinum 8358); 2 AVX-512 FMA per cycle"),
    cpu!("sapphirerapids", "Xeon Scalable 4th generation", Avx512, 2.6 GHz, 3.8 boost, 2.3 per pair, 1.75 ipc, 28.0 cores, 112.0 a node, sigma 0.16,
        "ark.intel.com Platinum 8480+; 2 AVX-512 FMA per cycle"),
    cpu!("emeraldrapids", "Xeon Scalable 5th generation", Avx512, 2.7 GHz, 3.9 boost, 2.3 per pair, 1.75 ipc, 32.0 cores, 128.0 a node, sigma 0.16,
        "ark.intel.com Platinum 8592+; 2 AVX-512 FMA per cycle"),
    cpu!("graniterapids", "Xeon 6 with P-cores", Avx512, 2.8 GHz, 3.9 boost, 2.3 per pair, 1.85 ipc, 43.0 cores, 192.0 a node, sigma 0.25,
        "ark.intel.com Xeon 6972P; 2 AVX-512 FMA per cycle"),
    cpu!("icelake-client", "Core i 11000, Ice and Tiger Lake", Avx512, 3.6 GHz, 5.0 boost, 4.2 per pair, 1.45 ipc, 8.0 cores, 8.0 a node, sigma 0.25,
        "ark.intel.com Core i9-11900K; 1 AVX-512 FMA per cycle"),
    cpu!("alderlake", "Core i 12000 to 14000", Avx2, 3.8 GHz, 5.5 boost, 4.3 per pair, 1.5 ipc, 8.0 cores, 16.0 a node, sigma 0.3,
        "ark.intel.com Core i9-13900K; performance and efficiency cores mixed"),
    cpu!("knightslanding", "Xeon Phi 7200", Avx512, 1.3 GHz, 1.5 boost, 5.5 per pair, 0.35 ipc, 2.0 cores, 64.0 a node, sigma 0.3,
        "ark.intel.com Xeon Phi 7210; 2 AVX-512 FMA per cycle, in narrow cores"),
    cpu!("sierraforest", "Xeon 6 with E-cores", Avx2On128, 2.7 GHz, 3.2 boost, 7.0 per pair, 1.2 ipc, 4.0 cores, 288.0 a node, sigma 0.3,
        "ark.intel.com Xeon 6780E; 2 FMA of 128 bit per cycle"),
    cpu!("bulldozer", "Opteron 4200 to 6300", Avx128Fma, 2.6 GHz, 3.2 boost, 15.0 per pair, 0.6 ipc, 4.0 cores, 32.0 a node, sigma 0.3,
        "amd.com Opteron 6376; 2 FMA of 128 bit per cycle and pair of cores"),
    cpu!("zen", "EPYC 7001, Ryzen 1000 and 2000", Avx2On128, 2.6 GHz, 3.0 boost, 7.8 per pair, 1.0 ipc, 4.0 cores, 64.0 a node, sigma 0.16,
        "amd.com EPYC 7551; 2 FMA of 128 bit per cycle"),
    cpu!("zen2", "EPYC 7002", Avx2, 2.45 GHz, 3.4 boost, 4.4 per pair, 1.2 ipc, 4.0 cores, 128.0 a node, sigma 0.15,
        "amd.com EPYC 7742, between base 2.25 and boost; 2 AVX2 FMA per cycle"),
    cpu!("zen2-client", "Ryzen 3000 and 4000", Avx2, 3.9 GHz, 4.6 boost, 4.4 per pair, 1.2 ipc, 4.0 cores, 16.0 a node, sigma 0.16,
        "amd.com Ryzen 9 3950X; 2 AVX2 FMA per cycle"),
    cpu!("zen3", "EPYC 7003", Avx2, 2.8 GHz, 3.5 boost, 4.1 per pair, 1.4 ipc, 8.0 cores, 128.0 a node, sigma 0.15,
        "amd.com EPYC 7763; 2 AVX2 FMA and 2 add per cycle"),
    cpu!("zen3-client", "Ryzen 5000", Avx2, 4.2 GHz, 4.8 boost, 4.1 per pair, 1.4 ipc, 8.0 cores, 16.0 a node, sigma 0.16,
        "amd.com Ryzen 9 5950X; 2 AVX2 FMA and 2 add per cycle"),
    cpu!("zen4", "EPYC 9004", Avx512On256, 3.1 GHz, 3.7 boost, 3.3 per pair, 1.55 ipc, 8.0 cores, 192.0 a node, sigma 0.16,
        "amd.com EPYC 9654; AVX-512 in two halves of 256 bit"),
    cpu!("zen4-client", "Ryzen 7000", Avx512On256, 4.7 GHz, 5.6 boost, 3.3 per pair, 1.55 ipc, 8.0 cores, 16.0 a node, sigma 0.25,
        "amd.com Ryzen 9 7950X; AVX-512 in two halves of 256 bit"),
    cpu!("zen5", "EPYC 9005", Avx512, 3.3 GHz, 4.1 boost, 2.3 per pair, 1.75 ipc, 8.0 cores, 256.0 a node, sigma 0.25,
        "amd.com EPYC 9755; 2 AVX-512 FMA per cycle"),
    cpu!("zen5-client", "Ryzen 9000", Avx512, 4.9 GHz, 5.6 boost, 2.6 per pair, 1.7 ipc, 8.0 cores, 16.0 a node, sigma 0.25,
        "amd.com Ryzen 9 9950X; 2 AVX-512 FMA per cycle, two channels of memory"),

    cpu!("neoverse-n1", "Graviton2, Ampere Altra", Neon, 2.6 GHz, 2.6 boost, 8.6 per pair, 1.1 ipc, 32.0 cores, 64.0 a node, sigma 0.25,
        "ARM Neoverse N1 optimisation guide: 2 NEON FMA per cycle"),
    cpu!("neoverse-v1", "Graviton3", Sve, 2.6 GHz, 2.6 boost, 5.0 per pair, 1.3 ipc, 32.0 cores, 64.0 a node, sigma 0.25,
        "ARM Neoverse V1 optimisation guide: 2 SVE FMA of 256 bit per cycle"),
    cpu!("neoverse-v2", "Graviton4, Grace", SveOn128, 3.0 GHz, 3.1 boost, 4.8 per pair, 1.5 ipc, 36.0 cores, 96.0 a node, sigma 0.25,
        "ARM Neoverse V2 optimisation guide: 4 SVE FMA of 128 bit per cycle"),
    cpu!("neoverse-v3", "Graviton5", SveOn128, 3.3 GHz, 3.3 boost, 4.6 per pair, 1.6 ipc, 48.0 cores, 192.0 a node, sigma 0.3,
        "ARM Neoverse V3 product brief: 4 SVE FMA of 128 bit per cycle"),
    cpu!("neoverse-n2", "Azure Cobalt 100, Yitian 710", SveOn128, 3.2 GHz, 3.3 boost, 8.4 per pair, 1.25 ipc, 32.0 cores, 128.0 a node, sigma 0.3,
        "ARM Neoverse N2 optimisation guide: 2 SVE FMA of 128 bit per cycle"),
    cpu!("ampereone", "AmpereOne", Neon, 3.0 GHz, 3.0 boost, 8.8 per pair, 1.05 ipc, 16.0 cores, 192.0 a node, sigma 0.3,
        "Ampere A192-32X brief: 2 NEON FMA per cycle"),
    cpu!("kunpeng920", "Kunpeng 920", Neon, 2.6 GHz, 2.6 boost, 9.5 per pair, 0.9 ipc, 32.0 cores, 128.0 a node, sigma 0.3,
        "HiSilicon Kunpeng 920 brief: 2 NEON FMA per cycle, single precision"),
    cpu!("apple-m", "Apple M1 to M4", Neon, 3.2 GHz, 3.3 boost, 5.0 per pair, 1.9 ipc, 8.0 cores, 8.0 a node, sigma 0.3,
        "Apple silicon CPU optimization guide: 4 NEON FMA per cycle; performance and efficiency cores mixed"),
    cpu!("power9", "IBM POWER9", Vsx, 3.4 GHz, 3.8 boost, 9.0 per pair, 1.1 ipc, 2.0 cores, 40.0 a node, sigma 0.3,
        "IBM POWER9 user's manual: 2 VSX FMA of 128 bit per cycle"),
    cpu!("thunderx2", "Marvell ThunderX2 CN99", Neon, 2.2 GHz, 2.5 boost, 10.0 per pair, 0.65 ipc, 32.0 cores, 64.0 a node, sigma 0.28,
        "Marvell CN9980 brief: 2 NEON FMA per cycle"),
    cpu!("a64fx", "Fujitsu A64FX", SveOn512, 2.0 GHz, 2.0 boost, 5.5 per pair, 0.35 ipc, 12.0 cores, 48.0 a node, sigma 0.3,
        "Fujitsu A64FX microarchitecture manual: 2 SVE FMA of 512 bit per cycle, long latencies"),
];

impl CpuClass {
    /// The class of that name.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        CPU_CLASSES.iter().find(|class| class.key == key)
    }

    /// Cycles per pair interaction with a build for `simd`; none, and one that cannot run here, is one for the class's
    /// own instructions.
    #[must_use]
    pub fn pair_cycles_with(&self, simd: Option<Simd>) -> f64 {
        self.pair_cycles * self.relative_pair_time(simd)
    }

    /// Time of the pairs with a build for `simd` relative to one for the class's own instructions.
    pub(crate) fn relative_pair_time(&self, simd: Option<Simd>) -> f64 {
        let own = self.simd;
        let Some(simd) = simd.filter(|simd| self.runs(*simd)) else { return 1.0 };
        if simd.name() == own.name() {
            return 1.0;
        }
        let relative = simd.facts().3 / own.facts().3;
        // NEON is faster than SVE that is no wider.
        if own.architecture() == Arm { relative } else { relative.max(1.0) }
    }

    /// True if a program with these vector instructions may run on it. Classes that stand for an architecture alone may be
    /// any of its processors.
    #[must_use]
    pub fn runs(&self, simd: Simd) -> bool {
        match self.key {
            super::UNKNOWN => true,
            "amd64" | "arm64" => self.simd.architecture() == simd.architecture(),
            _ => self.simd.includes(simd),
        }
    }

    /// The class for hardware that nothing is known of.
    #[must_use]
    pub fn unknown() -> &'static Self {
        &CPU_CLASSES[0]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_distinct_and_the_first_is_unknown() {
        let keys: BTreeSet<_> = CPU_CLASSES.iter().map(|class| class.key).collect();
        assert_eq!(keys.len(), CPU_CLASSES.len());
        assert_eq!(CpuClass::unknown().key, super::super::UNKNOWN);
    }

    #[test]
    fn the_less_is_known_the_wider() {
        let is_middle = |class: &&CpuClass| class.source.starts_with("middle of");
        let (many, named): (Vec<&CpuClass>, Vec<&CpuClass>) = CPU_CLASSES.iter().partition(is_middle);
        assert_eq!(many.len(), 6);
        let widest_known = named.iter().map(|class| class.sigma).fold(0.0, f64::max);
        assert!(many.iter().all(|class| class.sigma > widest_known));
    }
}
