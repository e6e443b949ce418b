//! Which resources of a node are GPUs, and which of them a build of GROMACS can use.

use std::collections::BTreeMap;

use scavenger_schema::tuning::Build;
use scavenger_vocabulary::hardware;

/// Whole GPUs of NVIDIA, and slices where all of a node are equal.
pub(crate) const USUAL: &str = "nvidia.com/gpu";

/// Shares of a GPU (time slicing, MPS), where NVIDIA's device plugin names them apart from whole ones.
pub(crate) const SHARED: &str = "nvidia.com/gpu.shared";

/// GPUs of AMD.
pub(crate) const AMD: &str = "amd.com/gpu";

/// How the names of slices begin where a node has several kinds: `nvidia.com/mig-1g.5gb`.
const SLICES: &str = "nvidia.com/mig-";

/// True if a device of this resource is a GPU, a share or a slice of one.
pub(crate) fn is_gpu(resource: &str) -> bool {
    [USUAL, SHARED, AMD].contains(&resource) || slice(resource).is_some()
}

/// The slice that a device of this resource is, such as `1g.5gb`; none for whole GPUs.
pub(crate) fn slice(resource: &str) -> Option<&str> {
    resource.strip_prefix(SLICES).filter(|slice| !slice.is_empty())
}

/// Adds to the labels of a node what the name of its GPUs says: the product that the labels name is that of whole ones.
pub(crate) fn label_by_resource(labels: &mut BTreeMap<String, String>, resource: &str) {
    if let Some(slice) = slice(resource) {
        labels.insert(hardware::GPU_PARTITION.to_owned(), slice.to_owned());
    }
    // Where nothing says how many share a GPU, it is no whole one all the same.
    if resource == SHARED {
        labels.entry(hardware::GPU_REPLICAS.to_owned()).or_insert_with(|| "several".to_owned());
    }
}

/// False if mdrun of this build finds no GPU there: one for CUDA none of AMD, and one for HIP none of NVIDIA.
pub(crate) fn is_used_by(resource: &str, build: &Build) -> bool {
    match build.gpu_backend.as_deref() {
        Some("CUDA") => resource != AMD,
        Some("HIP") => resource == AMD,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_and_the_gpus_of_two_makers_are_gpus() {
        for (resource, expected) in [
            ("nvidia.com/gpu", (true, None)),
            ("nvidia.com/gpu.shared", (true, None)),
            ("amd.com/gpu", (true, None)),
            ("nvidia.com/mig-1g.5gb", (true, Some("1g.5gb"))),
            ("nvidia.com/mig-", (false, None)),
            ("cpu", (false, None)),
            ("example.com/fpga", (false, None)),
        ] {
            assert_eq!((is_gpu(resource), slice(resource)), expected, "{resource}");
        }
    }

    #[test]
    fn a_build_uses_the_gpus_that_it_is_for() {
        let build = |word: &str| Build { gpu_backend: Some(word.to_owned()), ..Build::default() };
        for (build, nvidia, amd) in [
            (build("CUDA"), true, false),
            (build("HIP"), false, true),
            (build("SYCL"), true, true),
            (build("OpenCL"), true, true),
            (Build::default(), true, true),
        ] {
            assert_eq!((is_used_by(USUAL, &build), is_used_by(AMD, &build)), (nvidia, amd), "{build:?}");
            assert_eq!(is_used_by("nvidia.com/mig-1g.5gb", &build), nvidia, "{build:?}");
        }
    }
}
