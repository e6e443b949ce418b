//! The factors of the model that are common to all hardware.

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
    pair: 1.0 within 0.1, fitted 0.995;
    /// Measured over counted cycles of PME spread and gather. Centre: the tables of md.log, 300 to 474 reference cycles
    /// per atom against the 420 that are counted.
    spread: 0.95 within 0.15, fitted 0.95;
    /// Measured over counted cycles of FFT and solve. Centre: the same tables, 0.5 to 0.9 reference cycles per cycle.
    mesh: 0.65 within 0.2, fitted 0.74;
    /// Measured over counted cycles of update, constraints, bonded interactions and pair search. Centre: the same
    /// tables, 200 to 300 reference cycles per atom.
    other: 2.0 within 0.15, fitted 1.96;
    /// Loss of a rank whose threads fill a shared cache.
    thread: 0.06 within 0.5, fitted 0.0531;
    /// How long cores wait for the slowest of them, per logarithm of how many they are, relative to their work without the pairs.
    /// Centre: what runs on 1 to 64 cores of single nodes lost beyond all else. Runs on whole nodes cannot tell it from a slower
    /// machine, so they must not decide it.
    crowding: 0.15 within 0.2, fitted 0.151;
    /// Seconds per step for the barriers of OpenMP, times threads^0.75 - 1.
    barrier: 15e-6 within 0.6, fitted 1.49e-5;
    /// Gain of a second hardware thread per core.
    smt: 0.18 within 0.3, fitted 0.147;
    /// Reference cycles per atom of a halo, spent by one thread of a rank.
    halo: 60.0 within 0.4, fitted 63.8;
    /// Reference cycles per atom that a PME rank gets from and returns to the ranks of the domains. Centre: the tables
    /// of md.log, 39 to 76.
    redistribution: 60.0 within 0.3, fitted 58.8;
    /// Reference cycles per PME grid point of a rank that one of its threads moves. Centre: the tables of md.log.
    mesh_serial: 10.0 within 0.4, fitted 9.28;
    /// Reference cycles per atom of a rank that only one of its threads works.
    serial: 30.0 within 0.6, fitted 28.5;
    /// Seconds per message between ranks.
    latency: 2e-6 within 0.8, fitted 3.73e-6;
    /// GPU: operations per pair relative to the peak.
    gpu_pair: 150.0 within 0.3, fitted 139.0;
    /// GPU: passes over memory per PME grid point and per spread point.
    gpu_mesh: 12.0 within 0.4, fitted 11.0;
    /// GPU: time of a pass over what its cache holds, relative to one over memory. Centre: published measurements of the
    /// bandwidth of caches, 2 to 5 times that of memory.
    gpu_cache: 0.35 within 0.4, fitted 0.336;
    /// GPU: bytes per atom for everything that is neither.
    gpu_atom: 600.0 within 0.4, fitted 581.0;
    /// GPU: seconds per step of launches and waits.
    gpu_launch: 80e-6 within 0.3, fitted 1.02e-4;
}
