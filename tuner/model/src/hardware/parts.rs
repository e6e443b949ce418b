//! Parts of GPUs, each what Kubernetes counts as a device: slices (MIG) with processors, bandwidth and memory of their own, and
//! shares of several pods that take turns (time slicing or MPS).
//!
//! A slice differs from its part by what the parts share, and by clocks that rise when the others idle. Whether the other pods
//! of a share compute is not known, so it is predicted as if all of them did: that is what they do together that counts for a
//! queue. Both are built from published figures (see `ladder::shared_gpu`) and were never run.

use std::sync::LazyLock;

use super::{GPU_CLASSES, GpuClass};

/// Between the name of the product and the number of pods in the name of a share.
const SHARED: &str = "-shared-";
/// Most pods on a GPU for which anything was published.
const MOST_PODS: u32 = 4;
/// Share of a GPU's time that several simulations together can fill: their kernels rarely fit seamlessly.
pub(crate) const MOST_BUSY: f64 = 0.95;
/// No part was ever run. Of a share the others may do less or more than this one.
const SIGMA_PART: f64 = 0.5;

/// Products that can be divided, by NVIDIA's user guide for MIG.
const DIVIDED: [&str; 8] = ["a30", "a100", "a100-80gb", "a100-80gb-pcie", "h100", "h200", "gh200", "b200"];
/// The parts of processors and of memory that a slice has, of 4 and 4.
const OF_A30: &[(f64, f64)] = &[(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)];
/// The same of 7 and 8. Memory comes in whole parts, each with its share of the bandwidth.
const OF_OTHERS: &[(f64, f64)] = &[(1.0, 1.0), (1.0, 2.0), (2.0, 2.0), (3.0, 4.0), (4.0, 4.0), (7.0, 8.0)];

static PARTS: LazyLock<Vec<GpuClass>> = LazyLock::new(|| {
    let divided = GPU_CLASSES.iter().filter(|class| DIVIDED.contains(&class.key));
    divided.flat_map(slices_of).chain(GPU_CLASSES.iter().skip(1).flat_map(shares_of)).collect()
});

/// The part of a product that has such shares of its processors and its memory. Its name is made once, and kept as long as the
/// program runs.
fn part(product: &GpuClass, name: &str, pods: u32, (processors, memory): (f64, f64)) -> GpuClass {
    GpuClass {
        key: Box::leak(format!("{}{name}", product.key).into_boxed_str()),
        pattern: "",
        pods,
        tflops: product.tflops * processors,
        bandwidth: product.bandwidth * memory,
        cache_mib: product.cache_mib * memory,
        memory_gib: product.memory_gib * memory,
        sigma: SIGMA_PART,
        source: "its part of the product: NVIDIA MIG user guide, or while all pods on it compute",
        ..*product
    }
}

fn slices_of(whole: &GpuClass) -> impl Iterator<Item = GpuClass> {
    let (parts, all) = if whole.key == "a30" { (OF_A30, (4.0, 4.0)) } else { (OF_OTHERS, (7.0, 8.0)) };
    parts.iter().map(move |(processors, memory)| {
        let gib = (whole.memory_gib * memory / all.1).round();
        part(whole, &format!("-mig-{processors}g.{gib}gb"), 1, (processors / all.0, memory / all.1))
    })
}

fn shares_of(product: &GpuClass) -> impl Iterator<Item = GpuClass> {
    (2..=MOST_PODS).map(move |pods| {
        let share = 1.0 / f64::from(pods);
        part(product, &format!("{SHARED}{pods}"), pods, (MOST_BUSY * share, share))
    })
}

/// The class of a slice of a product, `1g.5gb`, or with engines for media `1g.5gb.me`; none if the product is not divided so.
pub(super) fn slice_of(product: &GpuClass, profile: &str) -> Option<&'static GpuClass> {
    let profile = profile.to_ascii_lowercase();
    let (size, media) = profile.split_once("gb")?;
    if media.starts_with(char::is_alphanumeric) {
        return None;
    }
    find(&format!("{}-mig-{size}gb", product.key))
}

/// The class of a product that `pods` share; none if nothing is known of so many.
pub(super) fn share_of(product: &GpuClass, pods: u32) -> Option<&'static GpuClass> {
    find(&format!("{}{SHARED}{pods}", product.key))
}

fn find(key: &str) -> Option<&'static GpuClass> {
    all().find(|class| class.key == key)
}

/// True if a class of this name, or of a GPU beside a processor, is a share.
#[must_use]
pub fn is_share(class: &str) -> bool {
    class.contains(SHARED)
}

/// All parts, slices first.
pub(crate) fn all() -> impl Iterator<Item = &'static GpuClass> {
    PARTS.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(key: &str) -> &'static GpuClass {
        GpuClass::by_key(key).expect("should be a product")
    }

    #[test]
    fn those_who_share_a_gpu_have_a_little_less_than_all_of_it_together() {
        let whole = product("a100");
        for pods in 2..=4 {
            let share = share_of(whole, pods).expect("should be a share");
            assert_eq!((share.key, share.pods), (format!("a100-shared-{pods}").as_str(), pods));
            assert!(is_share(&format!("zen3+{}", share.key)));
            let together = share.tflops * f64::from(pods) / whole.tflops;
            assert!((together - MOST_BUSY).abs() < 1e-9, "{together}");
            assert!((share.memory_gib * f64::from(pods) - whole.memory_gib).abs() < 1e-9);
        }
        assert_eq!((share_of(whole, 1), share_of(whole, 5)), (None, None));
        assert!(!is_share("zen3+a100") && !is_share("a100-mig-2g.10gb"));
    }

    #[test]
    fn a_slice_is_named_as_the_guide_names_it_and_has_its_share() {
        let class = |key: &str, profile: &str| slice_of(product(key), profile);
        for (key, profiles) in [
            ("a30", "1g.6gb 2g.12gb 4g.24gb"),
            ("a100", "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
            ("h100", "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
            ("h200", "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
            ("gh200", "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
            ("b200", "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
        ] {
            assert!(profiles.split(' ').all(|profile| class(key, profile).is_some()), "{key}");
        }
        let seventh = class("a100", "1g.5gb.me").expect("should be a slice");
        assert_eq!((seventh.key, seventh.memory_gib), ("a100-mig-1g.5gb", 5.0));
        assert!(
            (seventh.tflops * 7.0 - 19.5).abs() < 1e-9 && (seventh.bandwidth * 8.0 - 1555.0).abs() < 1e-9
        );
        let quarter = class("a30", "1G.6GB+ME").expect("should be a slice");
        assert!((quarter.tflops * 4.0 - 10.3).abs() < 1e-9 && (quarter.bandwidth * 4.0 - 933.0).abs() < 1e-9);
        for (key, profile) in
            [("a100", "1g.50gb"), ("a100", "5g.5gb"), ("t4", "1g.5gb"), ("a100", "1g.5gb2"), ("a100", "")]
        {
            assert_eq!(class(key, profile), None, "{key} {profile}");
        }
    }

    #[test]
    fn runs_of_a_part_are_found_again() {
        assert!(all().all(|part| GpuClass::by_key(part.key) == Some(part)));
    }
}
