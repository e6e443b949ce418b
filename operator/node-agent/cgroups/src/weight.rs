//! From the request of a pod to the weight of its cgroup, as the kubelet calculates it.
//!
//! This holds from Kubernetes 1.31 to 1.37, and for the cgroups of pods. The weights of containers are written by the runtime,
//! and newer runtimes convert in another way.

/// The least `cpu.shares` that the kernel knows: those of a pod that requests nothing.
pub const LEAST_SHARES: u64 = 2;

/// The most.
pub const MOST_SHARES: u64 = 262_144;

/// The least `cpu.weight` that the kernel takes.
pub const LEAST_WEIGHT: u64 = 1;

/// What the kubelet writes into `cpu.shares` of a pod that requests so many thousandths of a processor.
#[must_use]
pub const fn shares(milli_cpu: u64) -> u64 {
    let shares = milli_cpu.saturating_mul(1024) / 1000;
    if shares < LEAST_SHARES {
        LEAST_SHARES
    } else if shares > MOST_SHARES {
        MOST_SHARES
    } else {
        shares
    }
}

/// What the kubelet writes into `cpu.weight` of the same pod on cgroup v2.
#[must_use]
pub const fn weight(milli_cpu: u64) -> u64 {
    LEAST_WEIGHT + (shares(milli_cpu) - LEAST_SHARES) * 9999 / (MOST_SHARES - LEAST_SHARES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelets_numbers() {
        for (milli_cpu, of_shares, of_weight) in [
            (0, 2, 1),
            (1, 2, 1),
            (2, 2, 1),
            (3, 3, 1),
            (100, 102, 4),
            (200, 204, 8),
            (250, 256, 10),
            (1_000, 1_024, 39),
            (1_600, 1_638, 63),
            (2_000, 2_048, 79),
            (64_000, 65_536, 2_500),
            (255_999, 262_142, 9_999),
            (256_000, 262_144, 10_000),
            (u64::MAX, 262_144, 10_000),
        ] {
            assert_eq!((shares(milli_cpu), weight(milli_cpu)), (of_shares, of_weight), "{milli_cpu}");
        }
    }
}
