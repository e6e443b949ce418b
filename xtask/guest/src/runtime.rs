//! What a container runtime makes of a pod's request of cpu. The kubelet converts those of pods and classes of pods on its own,
//! and in the older of both ways: [`scavenger_cgroups::weight`].

use scavenger_cgroups::weight::{LEAST_SHARES, MOST_SHARES, shares, weight};

/// How the runtime converts shares into the weight of a container's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// runc before 1.3.2, crun before 1.23: as the kubelet.
    Linear,
    /// Those versions and newer ones.
    Quadratic,
}

impl Conversion {
    /// What the runtime writes into `cpu.weight` of a container that requests so many thousandths of a processor.
    #[must_use]
    pub fn weight(self, milli_cpu: u64) -> u64 {
        match (self, shares(milli_cpu)) {
            (Self::Linear, _) => weight(milli_cpu),
            (Self::Quadratic, LEAST_SHARES) => 1,
            (Self::Quadratic, MOST_SHARES) => 10_000,
            (Self::Quadratic, shares) => parabola(shares),
        }
    }
}

/// Over the logarithm, through the least shares (2, 1), the default (1024, 100) and the most (262144, 10000).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "between 1 and 10000"
)]
fn parabola(shares: u64) -> u64 {
    let l = (shares as f64).log2();
    10_f64.powf((l * l + 125.0 * l) / 612.0 - 7.0 / 34.0).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_runtime_gives_one_processor_the_default_weight() {
        for (milli, linear, quadratic) in
            [(0, 1, 1), (100, 4, 17), (1000, 39, 100), (256_000, 10_000, 10_000), (1_000_000, 10_000, 10_000)]
        {
            assert_eq!(Conversion::Linear.weight(milli), linear, "{milli}");
            assert_eq!(Conversion::Quadratic.weight(milli), quadratic, "{milli}");
        }
    }
}
