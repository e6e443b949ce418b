//! The factors of the model that are common to all hardware.

#[cfg(doc)]
use crate::hardware::Turbo;

macro_rules! constants {
    ($($(#[doc = $doc:literal])* $name:ident: $physics:literal within $spread:literal, fitted $fitted:literal;)*) => {
        /// The fitted factors, common to all hardware.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Constants {
            $($(#[doc = $doc])* pub $name: f64,)*
        }

        impl Constants {
            /// Fitted to the measurements in `tuner/data`: `scavenger-tuner-lab --show-constants` prints them.
            pub const FITTED: Self = Self { $($name: $fitted,)* };

            /// What is expected before any fit; also the centre that the fit is drawn to.
            pub const PHYSICS: Self = Self { $($name: $physics,)* };

            /// Standard deviation of the logarithm of each constant before any fit.
            pub const SPREAD: [f64; Self::COUNT] = [$($spread,)*];

            /// Names, in the order of the fields.
            pub const NAMES: [&'static str; Self::COUNT] = [$(stringify!($name),)*];

            /// How many there are.
            pub const COUNT: usize = [$($spread,)*].len();

            /// Logarithms, in the order of the fields; all are positive.
            #[must_use]
            pub fn logs(&self) -> [f64; Self::COUNT] {
                [$(self.$name.ln(),)*]
            }

            /// The opposite of [`Self::logs`].
            #[must_use]
            pub fn from_logs(logs: &[f64; Self::COUNT]) -> Self {
                let [$($name,)*] = logs.map(f64::exp);
                Self { $($name,)* }
            }
        }
    };
}

constants! {
    /// Measured over tabulated cycles of the pair kernel.
    pair: 1.0 within 0.1, fitted 0.912;
    /// Measured over counted cycles of PME spread and gather. Centre: the tables of md.log, 300 to 474 reference cycles
    /// per atom against the 420 that are counted.
    spread: 0.95 within 0.15, fitted 0.961;
    /// Measured over counted cycles of FFT and solve. Centre: the same tables, 0.5 to 0.9 reference cycles per cycle.
    mesh: 0.65 within 0.2, fitted 0.64;
    /// Measured over counted cycles of update, constraints, bonded interactions and pair search. Centre: the same
    /// tables, 200 to 300 reference cycles per atom.
    other: 2.0 within 0.15, fitted 2.14;
    /// Part of the way from the clock of all cores to the boost clock that one busy core of a node gets.
    boost: 0.9 within 0.1, fitted 0.903;
    /// Power of the busy share of a socket with which the boost of [`Turbo::Cores`] is lost. Centre: Intel's turbo tables of
    /// Skylake for 512-bit instructions.
    boost_cores: 0.7 within 0.3, fitted 0.719;
    /// The same of the busy share of a node and [`Turbo::Power`]. Centre: power grows with busy cores.
    boost_power: 1.0 within 0.3, fitted 0.892;
    /// Loss of a rank whose threads fill a shared cache.
    thread: 0.06 within 0.5, fitted 0.0645;
    /// Loss of each core of a simulation per logarithm of how many they are. Centre: what runs on 1 to 64 cores of single nodes
    /// lost beyond all else. What runs on whole nodes say is the same as a slower machine, so they must not decide it.
    crowding: 0.05 within 0.2, fitted 0.0483;
    /// Seconds per step for the barriers of OpenMP, times threads^0.75 - 1.
    barrier: 15e-6 within 0.6, fitted 1.83e-5;
    /// Gain of a second hardware thread per core.
    smt: 0.18 within 0.3, fitted 0.188;
    /// Reference cycles per atom of a halo, spent by one thread of a rank.
    halo: 60.0 within 0.4, fitted 65.1;
    /// Reference cycles per atom that a PME rank gets from and returns to the ranks of the domains. Centre: the tables
    /// of md.log, 39 to 76.
    redistribution: 60.0 within 0.3, fitted 75.0;
    /// Reference cycles per PME grid point of a rank that one of its threads moves. Centre: the tables of md.log.
    mesh_serial: 10.0 within 0.4, fitted 10.4;
    /// Power of the PME ranks with which the messages of a transpose grow.
    mesh_growth: 0.5 within 0.4, fitted 0.341;
    /// Reference cycles per atom of a rank that only one of its threads works.
    serial: 30.0 within 0.6, fitted 28.9;
    /// The same that domain decomposition adds.
    serial_domain: 60.0 within 0.6, fitted 58.4;
    /// Relative load imbalance per relative size of the halo.
    imbalance: 0.05 within 0.4, fitted 0.0997;
    /// Seconds per message between ranks of one node.
    latency: 2e-6 within 0.8, fitted 2.23e-6;
    /// Seconds per message between nodes.
    net_latency: 4e-6 within 0.8, fitted 5.44e-6;
    /// Growth of that per node, relative: more ranks share links and wait for the slowest.
    net_growth: 0.1 within 1.0, fitted 0.168;
    /// Bytes per second of one node's network.
    net_bandwidth: 8e9 within 0.7, fitted 1.16e10;
    /// GPU: operations per pair relative to the peak.
    gpu_pair: 150.0 within 0.3, fitted 139.0;
    /// GPU: passes over memory per PME grid point and per spread point.
    gpu_mesh: 12.0 within 0.4, fitted 10.8;
    /// GPU: time of a pass over what its cache holds, relative to one over memory. Centre: published measurements of the
    /// bandwidth of caches, 2 to 5 times that of memory.
    gpu_cache: 0.35 within 0.4, fitted 0.337;
    /// GPU: bytes per atom for everything that is neither.
    gpu_atom: 600.0 within 0.4, fitted 580.0;
    /// GPU: seconds per step of launches and waits.
    gpu_launch: 80e-6 within 0.3, fitted 1.02e-4;
}
