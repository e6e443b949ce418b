//! What the tuner accepts of each field of a request.
//!
//! Each constant is used twice: by the tuner, which refuses what lies outside, and by the schema of its OpenAPI document.

/// The least and the most that is accepted, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds<T> {
    /// The least.
    pub min: T,
    /// The most.
    pub max: T,
}

impl<T: PartialOrd> Bounds<T> {
    /// True if `value` is accepted. NaN never is.
    pub fn contain(&self, value: &T) -> bool {
        self.min <= *value && *value <= self.max
    }
}

/// Atoms of a system.
pub const ATOMS: Bounds<u64> = Bounds { min: 1, max: 1_000_000_000 };
/// Edge of the box in nm.
pub const BOX_NM: Bounds<f64> = Bounds { min: 0.1, max: 100_000.0 };
/// Steps to do; -1 is a run without an end.
pub const NSTEPS: Bounds<i64> = Bounds { min: -1, max: i64::MAX };
/// Time step in ps.
pub const DT_PS: Bounds<f64> = Bounds { min: 1e-6, max: 1.0 };
/// Cut-off in nm.
pub const CUTOFF_NM: Bounds<f64> = Bounds { min: 0.1, max: 5.0 };
/// Radius of the pair list in nm. A run input file stores it and the cut-off in single precision and prints few digits,
/// so that it may seem to be up to 1% shorter than the cut-off.
pub const RLIST_NM: Bounds<f64> = Bounds { min: 0.099, max: 10.0 };
/// Steps between pair searches.
pub const NSTLIST: Bounds<u32> = Bounds { min: 1, max: 1000 };
/// Points of the PME grid along one edge.
pub const PME_GRID: Bounds<u32> = Bounds { min: 4, max: 4096 };
/// Interpolation order of PME.
pub const PME_ORDER: Bounds<u32> = Bounds { min: 3, max: 12 };
/// Bonded interactions or constraints.
pub const INTERACTIONS: Bounds<u64> = Bounds { min: 0, max: 100_000_000_000 };

/// Atoms that differ in the two states of a free-energy calculation.
pub const PERTURBED_ATOMS: Bounds<u64> = Bounds { min: 0, max: ATOMS.max };
/// Steps between evaluations of long-range forces.
pub const MTS_INTERVAL: Bounds<u32> = Bounds { min: 1, max: 100 };
/// Bytes of trajectory per step.
pub const OUTPUT_BYTES: Bounds<f64> = Bounds { min: 0.0, max: 1e12 };

/// Limit for the CPU of a pod, in thousandths of a core.
pub const MAX_CPU_MILLICORES: Bounds<u32> = Bounds { min: HALF_CORE, max: 1_024_000 };
/// Limit for the memory of a pod, in bytes.
pub const MAX_MEMORY_BYTES: Bounds<u64> = Bounds { min: 1 << 20, max: MEMORY_BYTES.max };
/// Limit for the GPUs of a pod.
pub const MAX_GPUS: Bounds<u32> = Bounds { min: 0, max: 16 };
/// Most configurations of a ladder.
pub const MAX_CONFIGURATIONS: Bounds<u32> = Bounds { min: 1, max: 32 };
/// Least efficiency of the first configuration.
pub const MIN_EFFICIENCY: Bounds<f64> = Bounds { min: 0.01, max: 1.0 };
/// Price of a core; not 0, so that every configuration has a price.
pub const CORE_PRICE: Bounds<f64> = Bounds { min: 1e-6, max: 1e6 };
/// Price of another resource.
pub const PRICE: Bounds<f64> = Bounds { min: 0.0, max: 1e6 };

/// Simulations on one GPU at a time.
pub const SIMULATIONS_PER_GPU: Bounds<u32> = Bounds { min: 1, max: 4 };
/// Seed of a draw: what a JSON number holds exactly.
pub const SEED: Bounds<u64> = Bounds { min: 0, max: (1 << 53) - 1 };
/// Measured runs of a simulation that are sent along.
pub const MEASURED_RUNS: Bounds<usize> = Bounds { min: 1, max: 100 };
/// A measured speed in ns per day.
pub const NS_PER_DAY: Bounds<f64> = Bounds { min: 1e-9, max: 1e9 };

/// Node shapes of a request.
pub const NODE_SHAPES: Bounds<usize> = Bounds { min: 1, max: 1000 };
/// Nodes of one shape.
pub const NODES: Bounds<u32> = Bounds { min: 1, max: 1_000_000 };
/// CPU of a node, in thousandths of a core.
pub const CPU_MILLICORES: Bounds<u32> = Bounds { min: 0, max: 10_000_000 };
/// Memory of a node, in bytes.
pub const MEMORY_BYTES: Bounds<u64> = Bounds { min: 0, max: 1 << 50 };
/// GPUs of a node.
pub const GPUS: Bounds<u32> = Bounds { min: 0, max: 64 };
/// Characters of a label's name: what Kubernetes allows, a domain of 253, a slash and a name of 63.
pub const LABEL_NAME_LENGTH: Bounds<usize> = Bounds { min: 1, max: 317 };
/// Characters of a label's value: what Kubernetes allows.
pub const LABEL_VALUE_LENGTH: Bounds<usize> = Bounds { min: 0, max: 63 };

/// Ranks of a layout: as many as a node may have cores.
pub const RANKS: Bounds<u32> = Bounds { min: 1, max: CPU_MILLICORES.max / WHOLE_CORE };
/// OpenMP threads per rank: what mdrun is compiled for.
pub const THREADS: Bounds<u32> = Bounds { min: 1, max: 128 };
/// Ranks that do only PME.
pub const PME_RANKS: Bounds<u32> = Bounds { min: 0, max: RANKS.max };
/// Benchmarks to propose.
pub const BENCHMARKS: Bounds<u32> = Bounds { min: 1, max: 3 };
/// Limit for the CPU of a benchmark, in thousandths of a core.
pub const BENCHMARK_CPU_MILLICORES: Bounds<u32> = Bounds { min: WHOLE_CORE, max: MAX_CPU_MILLICORES.max };
/// Limit for the atoms of a benchmark, from the smallest box of water on.
pub const BENCHMARK_ATOMS: Bounds<u64> = Bounds { min: 5184, max: 10_000_000 };
/// Seconds that a benchmark should take.
pub const BENCHMARK_SECONDS: Bounds<f64> = Bounds { min: 20.0, max: 600.0 };
/// Characters of a version of GROMACS: what the queue's column holds.
pub const VERSION_LENGTH: Bounds<usize> = Bounds { min: 0, max: 100 };
/// Characters of a word of `gmx --version` about the build.
pub const BUILD_WORD_LENGTH: Bounds<usize> = Bounds { min: 0, max: 63 };

/// Smallest share of a core that a pod asks for, in thousandths.
pub const HALF_CORE: u32 = 500;
/// A core in thousandths: above half a core pods ask for whole ones.
pub const WHOLE_CORE: u32 = 1000;

/// True for the CPU that a pod may ask for: half a core, or whole ones.
#[must_use]
pub fn is_pod_cpu(millicores: u32) -> bool {
    let whole = Bounds { min: WHOLE_CORE, max: CPU_MILLICORES.max };
    millicores == HALF_CORE || whole.contain(&millicores) && millicores.is_multiple_of(WHOLE_CORE)
}

/// What [`is_pod_cpu`] says, or nothing.
#[cfg(feature = "openapi")]
pub(crate) fn pod_cpu_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [
            { "const": HALF_CORE },
            { "type": "integer", "minimum": WHOLE_CORE, "maximum": CPU_MILLICORES.max, "multipleOf": WHOLE_CORE },
            { "type": "null" },
        ],
    })
}

/// Labels of nodes.
#[cfg(feature = "openapi")]
pub(crate) fn labels_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "propertyNames": { "minLength": LABEL_NAME_LENGTH.min, "maxLength": LABEL_NAME_LENGTH.max },
        "additionalProperties": { "type": "string", "maxLength": LABEL_VALUE_LENGTH.max },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_never_accepted() {
        assert!(DT_PS.contain(&0.002) && DT_PS.contain(&DT_PS.min) && DT_PS.contain(&DT_PS.max));
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(!DT_PS.contain(&value), "{value}");
        }
    }

    #[test]
    fn pods_ask_for_half_a_core_or_whole_ones() {
        for (millicores, right) in [
            (0, false),
            (499, false),
            (500, true),
            (501, false),
            (1000, true),
            (1500, false),
            (10_000_000, true),
            (10_001_000, false),
        ] {
            assert_eq!(is_pod_cpu(millicores), right, "{millicores}");
        }
    }
}
