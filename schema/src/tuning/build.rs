//! How GROMACS was built.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::bounds;
use crate::gpu_offload::GPU_SUPPORT;

/// Key of the line `SIMD instructions:` of `gmx --version` among what an inspection found.
pub const SIMD: &str = "simd";
/// The same of the line `Precision:`.
pub const PRECISION: &str = "precision";
/// The same of the line `MPI library:`.
pub const MPI: &str = "mpi";

/// How GROMACS was built, in the words of `gmx --version`. A word that the tuner does not know counts as missing: the
/// build is then taken to suit the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Build {
    /// `SIMD instructions:`, such as `AVX2_256` or `SSE4.1`. A build for narrower ones than the processor has is slower.
    #[cfg_attr(feature = "openapi", schemars(length(max = bounds::BUILD_WORD_LENGTH.max)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simd: Option<String>,
    /// `Precision:`, `mixed` or `double`. A build in double precision uses no GPU.
    #[cfg_attr(feature = "openapi", schemars(length(max = bounds::BUILD_WORD_LENGTH.max)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// `MPI library:`, such as `thread_mpi` or `MPI`. Runs of one build tell more of each other than those of two.
    #[cfg_attr(feature = "openapi", schemars(length(max = bounds::BUILD_WORD_LENGTH.max)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mpi: Option<String>,
    /// `GPU support:`, such as `CUDA`, `SYCL`, `OpenCL`, `HIP` or `disabled`.
    #[cfg_attr(feature = "openapi", schemars(length(max = bounds::BUILD_WORD_LENGTH.max)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_backend: Option<String>,
}

impl Build {
    /// The build that an inspection found, from its values by key. What is too long for a request is left out.
    #[must_use]
    pub fn of(values: &BTreeMap<String, String>) -> Self {
        let word = |key: &str| {
            let fits =
                |word: &&String| !word.is_empty() && word.len() <= crate::bounds::BUILD_WORD_LENGTH.max;
            values.get(key).filter(fits).cloned()
        };
        Self { simd: word(SIMD), precision: word(PRECISION), mpi: word(MPI), gpu_backend: word(GPU_SUPPORT) }
    }

    /// True if nothing is known of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// True if it computes in double precision.
    #[must_use]
    pub fn is_double(&self) -> bool {
        self.precision.as_deref().is_some_and(|word| word.eq_ignore_ascii_case("double"))
    }

    /// True if it has no code for GPUs.
    #[must_use]
    pub fn lacks_gpus(&self) -> bool {
        let none = |word: &str| ["disabled", "none"].iter().any(|none| word.eq_ignore_ascii_case(none));
        self.gpu_backend.as_deref().is_some_and(none) || self.is_double()
    }

    /// True if it is known to have no thread-MPI: one built for library MPI, or for none, such as for PLUMED. mdrun started by
    /// itself is then one rank, and ends where it is told how many thread-MPI ranks to start.
    #[must_use]
    pub fn lacks_thread_mpi(&self) -> bool {
        self.mpi.as_deref().is_some_and(|word| !word.eq_ignore_ascii_case("thread_mpi"))
    }

    /// The words that tell it from other builds of the same version; empty if nothing is known of it.
    #[must_use]
    pub fn words(&self) -> String {
        let words = [&self.simd, &self.precision, &self.mpi, &self.gpu_backend];
        words.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inspection_tells_the_build() {
        let values = [(SIMD, "SSE4.1"), (PRECISION, "double"), (MPI, "thread_mpi"), (GPU_SUPPORT, "CUDA")];
        let mut values: BTreeMap<String, String> =
            values.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let build = Build::of(&values);
        assert_eq!(build.words(), "SSE4.1 double thread_mpi CUDA");
        assert!(build.is_double() && build.lacks_gpus(), "GROMACS has no double precision on GPUs");
        assert!(!build.lacks_thread_mpi() && !Build::default().lacks_thread_mpi(), "most have it");
        for mpi in ["MPI", "none"] {
            values.insert(MPI.to_owned(), mpi.to_owned());
            assert!(Build::of(&values).lacks_thread_mpi(), "{mpi}");
        }
        values.insert(SIMD.to_owned(), "x".repeat(1000));
        assert_eq!(Build::of(&values).simd, None);
        assert!(Build::of(&BTreeMap::new()).is_unknown());
    }
}
