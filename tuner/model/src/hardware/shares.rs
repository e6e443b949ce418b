//! GPUs that several pods share, by time slicing or MPS: each pod has what Kubernetes counts as a device.
//!
//! Whether the others compute is not known, so a share is predicted as if all of them did: that is what they do together
//! that counts for a queue. Built from published figures (see `ladder::shared_gpu`) and never run.

use std::sync::LazyLock;

use super::{GPU_CLASSES, GpuClass};

/// Between the name of the product and the number of pods in the name of a share.
const MARK: &str = "-shared-";
/// Most pods on a GPU for which anything was published.
const MOST: u32 = 4;
/// Share of a GPU's time that several simulations together can fill: their kernels rarely fit seamlessly.
pub(crate) const MOST_BUSY: f64 = 0.95;
/// The others may do less or more than this one.
const SIGMA: f64 = 0.55;

static SHARES: LazyLock<Vec<GpuClass>> = LazyLock::new(|| {
    let products = GPU_CLASSES.iter().skip(1);
    products.flat_map(|product| (2..=MOST).map(|pods| share(product, pods))).collect()
});

fn share(product: &'static GpuClass, pods: u32) -> GpuClass {
    let part = MOST_BUSY / f64::from(pods);
    GpuClass {
        // Once for each of the few products, and kept as long as the program runs.
        key: Box::leak(format!("{}{MARK}{pods}", product.key).into_boxed_str()),
        pattern: "",
        pods,
        tflops: product.tflops * part,
        bandwidth: product.bandwidth * part,
        cache_mib: product.cache_mib / f64::from(pods),
        memory_gib: product.memory_gib / f64::from(pods),
        sigma: SIGMA,
        source: "its share of the product while all pods on it compute",
        ..*product
    }
}

/// The class of a product that `pods` share; none if nothing is known of so many.
pub(super) fn share_of(product: &GpuClass, pods: u32) -> Option<&'static GpuClass> {
    let is_it = |class: &&GpuClass| {
        class.pods == pods && class.key.split_once(MARK).is_some_and(|(name, _)| name == product.key)
    };
    SHARES.iter().find(is_it)
}

/// True if a class of this name, or of a GPU beside a processor, is a share.
#[must_use]
pub fn is_share(class: &str) -> bool {
    class.contains(MARK)
}

/// All shares.
pub fn all() -> impl Iterator<Item = &'static GpuClass> {
    SHARES.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_share_a_gpu_have_a_little_less_than_all_of_it_together() {
        let whole = GpuClass::by_key("a100").expect("should be a product");
        for pods in 2..=4 {
            let share = share_of(whole, pods).expect("should be a share");
            assert_eq!(share.key, format!("a100-shared-{pods}"));
            assert_eq!(share.pods, pods);
            assert!(is_share(&format!("zen3+{}", share.key)));
            let together = share.tflops * f64::from(pods) / whole.tflops;
            assert!((together - MOST_BUSY).abs() < 1e-9, "{together}");
            assert!((share.memory_gib * f64::from(pods) - whole.memory_gib).abs() < 1e-9);
            assert_eq!(GpuClass::by_key(share.key), Some(share), "runs of it are found again");
        }
        assert_eq!((share_of(whole, 1), share_of(whole, 5)), (None, None));
        assert!(!is_share("zen3+a100") && !is_share("a100-mig-2g.10gb"));
        assert!(all().all(|share| GpuClass::by_key(share.key) == Some(share)));
    }
}
