//! Slices of GPUs (MIG): a device is a part of a product, with its own share of processors, bandwidth and memory.

use std::sync::LazyLock;

use super::GpuClass;

/// A slice as its name has it, `1g.5gb`: so many of the product's parts, with so much memory.
struct Slice {
    product: &'static str,
    profile: &'static str,
    class: GpuClass,
}

/// A slice differs from its share by what the parts share, and by clocks that rise when the others idle.
const SIGMA: f64 = 0.45;

/// Parts into which processors and memory of a product are divided.
fn parts(product: &str) -> (f64, f64) {
    match product {
        "a30" => (4.0, 4.0),
        _ => (7.0, 8.0),
    }
}

macro_rules! slices {
    ($($product:literal: $($profile:literal)+;)+) => {
        [$($(($product, $profile, concat!($product, "-mig-", $profile)),)+)+]
    };
}

/// Products that can be divided, by NVIDIA's user guide for MIG.
#[rustfmt::skip]
const NAMES: [(&str, &str, &str); 45] = slices! {
    "a30": "1g.6gb" "2g.12gb" "4g.24gb";
    "a100": "1g.5gb" "1g.10gb" "2g.10gb" "3g.20gb" "4g.20gb" "7g.40gb";
    "a100-80gb": "1g.10gb" "1g.20gb" "2g.20gb" "3g.40gb" "4g.40gb" "7g.80gb";
    "a100-80gb-pcie": "1g.10gb" "1g.20gb" "2g.20gb" "3g.40gb" "4g.40gb" "7g.80gb";
    "h100": "1g.10gb" "1g.20gb" "2g.20gb" "3g.40gb" "4g.40gb" "7g.80gb";
    "h200": "1g.18gb" "1g.35gb" "2g.35gb" "3g.71gb" "4g.71gb" "7g.141gb";
    "gh200": "1g.12gb" "1g.24gb" "2g.24gb" "3g.48gb" "4g.48gb" "7g.96gb";
    "b200": "1g.23gb" "1g.45gb" "2g.45gb" "3g.90gb" "4g.90gb" "7g.180gb";
};

static SLICES: LazyLock<Vec<Slice>> = LazyLock::new(|| NAMES.into_iter().filter_map(slice).collect());

fn slice((product, profile, key): (&'static str, &'static str, &'static str)) -> Option<Slice> {
    let whole = GpuClass::by_key(product)?;
    let (processors, gigabytes) = profile.strip_suffix("gb")?.split_once("g.")?;
    let (processors, gigabytes): (f64, f64) = (processors.parse().ok()?, gigabytes.parse().ok()?);
    let (of_processors, of_memory) = parts(product);
    // Memory comes in whole parts, each with its share of the bandwidth.
    let bandwidth = (gigabytes / whole.memory_gib * of_memory).round().clamp(1.0, of_memory) / of_memory;
    let class = GpuClass {
        key,
        pattern: "",
        tflops: whole.tflops * processors / of_processors,
        bandwidth: whole.bandwidth * bandwidth,
        cache_mib: whole.cache_mib * bandwidth,
        memory_gib: gigabytes,
        sigma: SIGMA,
        source: "NVIDIA MIG user guide: its share of the product",
        ..*whole
    };
    Some(Slice { product, profile, class })
}

/// The class of a slice of a product; none if that is not known to be divided so.
pub(super) fn slice_of(product: &GpuClass, profile: &str) -> Option<&'static GpuClass> {
    // `1g.5gb.me` has the engines for media beside it.
    let profile = profile.to_ascii_lowercase();
    let found = SLICES.iter().find(|slice| {
        slice.product == product.key
            && profile
                .strip_prefix(slice.profile)
                .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    });
    found.map(|slice| &slice.class)
}

/// All slices.
pub(super) fn all() -> impl Iterator<Item = &'static GpuClass> {
    SLICES.iter().map(|slice| &slice.class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(product: &str, profile: &str) -> Option<&'static GpuClass> {
        slice_of(GpuClass::by_key(product).expect("should be a product"), profile)
    }

    #[test]
    fn a_slice_has_its_share() {
        assert_eq!(SLICES.len(), NAMES.len());
        let whole = GpuClass::by_key("a100").expect("should be a product");
        let seventh = class("a100", "1g.5gb").expect("should be a slice");
        assert_eq!((seventh.key, seventh.memory_gib), ("a100-mig-1g.5gb", 5.0));
        assert!((seventh.tflops * 7.0 - whole.tflops).abs() < 1e-9);
        assert!((seventh.bandwidth * 8.0 - whole.bandwidth).abs() < 1e-9);
        let half = class("a100", "3g.20gb").expect("should be a slice");
        assert!((half.bandwidth * 2.0 - whole.bandwidth).abs() < 1e-9);
        let quarter = class("a30", "1g.6gb").expect("should be a slice");
        assert!((quarter.tflops * 4.0 - 10.3).abs() < 1e-9 && (quarter.bandwidth * 4.0 - 933.0).abs() < 1e-9);
    }

    #[test]
    fn every_slice_is_smaller_than_its_product() {
        for slice in SLICES.iter() {
            let whole = GpuClass::by_key(slice.product).expect("should be a product");
            let class = &slice.class;
            assert!(class.tflops <= whole.tflops && class.bandwidth <= whole.bandwidth, "{}", class.key);
            assert!(class.memory_gib <= whole.memory_gib, "{}", class.key);
            assert_eq!(GpuClass::by_key(class.key), Some(class), "runs of it are found again");
        }
    }

    #[test]
    fn only_what_the_guide_names_is_a_slice() {
        assert_eq!(class("a100", "1g.5gb.me").map(|class| class.key), Some("a100-mig-1g.5gb"));
        assert_eq!(class("h100", "1G.10GB+ME").map(|class| class.key), Some("h100-mig-1g.10gb"));
        for (product, profile) in [("a100", "1g.50gb"), ("a100", "5g.5gb"), ("t4", "1g.5gb"), ("a100", "")] {
            assert_eq!(class(product, profile), None, "{product} {profile}");
        }
    }
}
