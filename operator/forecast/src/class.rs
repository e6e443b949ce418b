//! Classes of demand: what ScavengerJobs of one class wait for comes free about as often for all of them.

/// Sizes that are distinguished: up to half a core, one, two, four, and so on up to more than 32.
const SIZES: u8 = 8;

/// How many classes there are.
pub const CLASSES: usize = 3 * SIZES as usize;

/// What kind of capacity a ScavengerJob waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One pod.
    Single,
    /// Several pods that start together.
    Gang,
    /// Pods that ask for something besides cpu and memory, such as GPUs.
    Device,
}

impl Kind {
    /// That of so many pods.
    #[must_use]
    pub const fn of(pods: u32, has_devices: bool) -> Self {
        match pods {
            _ if has_devices => Self::Device,
            1 => Self::Single,
            _ => Self::Gang,
        }
    }
}

/// A class of demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

impl Class {
    /// The class of a ScavengerJob whose pods together ask for so many cores, or for as large a part of the pool in another
    /// resource.
    #[must_use]
    pub fn of(kind: Kind, cores: f64) -> Self {
        // Half a core is size 0, and each size up to twice the one below.
        let size = (cores * 2.0).max(1.0).log2().ceil().clamp(0.0, f64::from(SIZES - 1)) as u8;
        let kind = match kind {
            Kind::Single => 0,
            Kind::Gang => 1,
            Kind::Device => 2,
        };
        Self(kind * SIZES + size)
    }

    /// The class of pods that together ask for so much cpu, in thousandths of a core, and memory, in a pool that has so much of
    /// both: much memory counts as if it were as large a part of the cores.
    #[must_use]
    pub fn of_demand(kind: Kind, (cpu, memory): (i64, i64), pool: (i64, i64)) -> Self {
        let part = memory as f64 / pool.1.max(1) as f64;
        Self::of(kind, (cpu as f64).max(part * pool.0 as f64) / 1000.0)
    }

    /// Its place in a table of all of them.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0).min(CLASSES - 1)
    }

    /// What it is called: `1 pod up to 4 cpu`.
    #[must_use]
    pub fn name(self) -> String {
        let kind = ["1 pod", "several pods", "devices"][self.index() / usize::from(SIZES)];
        let size = self.index() % usize::from(SIZES);
        let cores = |size: usize| f64::from(1_u32 << size) / 2.0;
        if size + 1 == usize::from(SIZES) {
            format!("{kind} above {} cpu", cores(size - 1))
        } else {
            format!("{kind} up to {} cpu", cores(size))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_goes_up_to_twice_the_one_below() {
        let name = |kind, cores| Class::of(kind, cores).name();
        assert_eq!(name(Kind::Single, 0.0), "1 pod up to 0.5 cpu");
        assert_eq!(name(Kind::Single, 1.0), "1 pod up to 1 cpu");
        assert_eq!(name(Kind::Single, 1.001), "1 pod up to 2 cpu");
        assert_eq!(name(Kind::Gang, 32.0), "several pods up to 32 cpu");
        assert_eq!(name(Kind::Device, 1e9), "devices above 32 cpu");
        assert_eq!(Class::of(Kind::Device, f64::INFINITY).index(), CLASSES - 1);
        assert_eq!(Class::of(Kind::Single, f64::NAN).index(), 0);
    }
}
