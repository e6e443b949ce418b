//! Amounts of cpu, memory, pods and extended resources, shares of them, and what a second of each is worth.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::Name;

/// An amount of every resource. What is not named is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resources {
    /// Processor time in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Number of pods.
    pub pods: i64,
    /// Everything else: extended resources (`nvidia.com/gpu`, ...) in whole units, scratch space and huge pages in bytes.
    pub other: BTreeMap<Arc<str>, i64>,
}

/// Name of a resource as Kubernetes spells it.
pub const CPU: &str = "cpu";
/// See [`CPU`].
pub const MEMORY: &str = "memory";
/// See [`CPU`].
pub const PODS: &str = "pods";
/// See [`CPU`]: scratch space on the node's own disk.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// True for a resource that is counted in bytes.
#[must_use]
pub fn is_in_bytes(resource: &str) -> bool {
    matches!(resource, MEMORY | EPHEMERAL_STORAGE) || resource.starts_with("hugepages-")
}

impl Resources {
    /// Every resource that is named, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        [(CPU, self.cpu_milli), (MEMORY, self.memory_bytes), (PODS, self.pods)]
            .into_iter()
            .chain(self.other.iter().map(|(name, amount)| (&**name, *amount)))
    }

    /// Amount of one resource.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        match name {
            CPU => self.cpu_milli,
            MEMORY => self.memory_bytes,
            PODS => self.pods,
            _ => self.other.get(name).copied().unwrap_or(0),
        }
    }

    /// Another amount of every resource that is named.
    #[must_use]
    pub fn map(&self, amount: impl Fn(&str, i64) -> i64) -> Self {
        Self {
            cpu_milli: amount(CPU, self.cpu_milli),
            memory_bytes: amount(MEMORY, self.memory_bytes),
            pods: amount(PODS, self.pods),
            other: self.other.iter().map(|(name, value)| (name.clone(), amount(name, *value))).collect(),
        }
    }

    /// Adds `more` to every resource.
    pub fn add(&mut self, more: &Self) {
        self.combine(more, i64::saturating_add);
    }

    /// Takes `less` from every resource. What falls below 0 stays there: a node can be overcommitted.
    pub fn subtract(&mut self, less: &Self) {
        self.combine(less, i64::saturating_sub);
    }

    fn combine(&mut self, with: &Self, operation: fn(i64, i64) -> i64) {
        self.cpu_milli = operation(self.cpu_milli, with.cpu_milli);
        self.memory_bytes = operation(self.memory_bytes, with.memory_bytes);
        self.pods = operation(self.pods, with.pods);
        for (name, amount) in &with.other {
            let mine = self.other.entry(name.clone()).or_insert(0);
            *mine = operation(*mine, *amount);
        }
        self.other.retain(|_, amount| *amount != 0);
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(more);
        sum
    }

    /// What is left of this without `less`.
    #[must_use]
    pub fn minus(&self, less: &Self) -> Self {
        let mut difference = self.clone();
        difference.subtract(less);
        difference
    }

    /// `count` times this.
    #[must_use]
    pub fn times(&self, count: i64) -> Self {
        self.map(|_, amount| amount.saturating_mul(count))
    }

    /// The first resource of which this is more than `free`; none if it fits.
    #[must_use]
    pub fn exceeds<'a>(&'a self, free: &Self) -> Option<&'a str> {
        self.iter().find(|(name, amount)| *amount > 0 && *amount > free.get(name)).map(|(name, _)| name)
    }

    /// True if this and `beside` fit into `free` together, as far as this asks for anything.
    #[must_use]
    pub fn fits_beside(&self, beside: &Self, free: &Self) -> bool {
        self.iter()
            .all(|(name, amount)| amount <= 0 || amount <= free.get(name).saturating_sub(beside.get(name)))
    }

    /// Larger of both, resource by resource.
    #[must_use]
    pub fn larger(&self, other: &Self) -> Self {
        let mut larger = self.clone();
        larger.cpu_milli = larger.cpu_milli.max(other.cpu_milli);
        larger.memory_bytes = larger.memory_bytes.max(other.memory_bytes);
        larger.pods = larger.pods.max(other.pods);
        for (name, amount) in &other.other {
            let mine = larger.other.entry(name.clone()).or_insert(*amount);
            *mine = (*mine).max(*amount);
        }
        larger
    }
}

/// For people: `1.5 cpu, 512 MiB`, without pods, which everybody has one of.
impl fmt::Display for Resources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, amount) in self.iter().filter(|(name, amount)| *name != PODS && *amount != 0) {
            write!(formatter, "{separator}{}", Amount(name, amount))?;
            separator = ", ";
        }
        if separator.is_empty() { formatter.write_str("nothing") } else { Ok(()) }
    }
}

/// One resource for people: `1.5 cpu`, `512 MiB`, `2 nvidia.com/gpu`.
pub struct Amount<'a>(pub &'a str, pub i64);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, amount) = *self;
        match name {
            CPU => {
                let (sign, cores, rest) =
                    (if amount < 0 { "-" } else { "" }, amount.abs() / 1000, amount.abs() % 1000);
                if rest == 0 {
                    write!(formatter, "{sign}{cores} cpu")
                } else {
                    let fraction = format!("{rest:03}");
                    write!(formatter, "{sign}{cores}.{} cpu", fraction.trim_end_matches('0'))
                }
            }
            // Whole MiB, rounded down: for reading, not for reckoning.
            MEMORY => write!(formatter, "{} MiB", amount / (1 << 20)),
            _ if is_in_bytes(name) => write!(formatter, "{} MiB {name}", amount / (1 << 20)),
            PODS if amount == 1 => formatter.write_str("1 pod"),
            _ => write!(formatter, "{amount} {name}"),
        }
    }
}

/// A share in millionths, so that thresholds are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Share(u32);

impl Share {
    /// All of it.
    pub const ONE: Self = Self(1_000_000);

    /// From a fraction of 1; values outside 0 to 1 are cut off there.
    #[must_use]
    pub fn from_fraction(fraction: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0..=1e6 before"
        )]
        Self((fraction.clamp(0.0, 1.0) * 1e6).round() as u32)
    }

    /// The fraction of 1.
    #[must_use]
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// Rounded up to a tenth.
    #[must_use]
    pub(crate) fn up_to_tenths(self) -> Self {
        Self(self.0.div_ceil(100_000) * 100_000)
    }

    /// This share of `amount`, rounded down.
    #[must_use]
    pub fn of(self, amount: i64) -> i64 {
        let part = i128::from(amount) * i128::from(self.0) / 1_000_000;
        i64::try_from(part).expect("a share of at most 1 should fit where the whole did")
    }

    /// This share of a time, in whole milliseconds.
    #[must_use]
    pub fn of_time(self, time: SignedDuration) -> SignedDuration {
        SignedDuration::from_millis(self.of(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// `70%`, `66.7%`.
impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 + 500) / 1000;
        if tenths.is_multiple_of(10) {
            write!(formatter, "{}%", tenths / 10)
        } else {
            write!(formatter, "{}.{}%", tenths / 10, tenths % 10)
        }
    }
}

/// Up to which share of each resource ScavengerJobs may fill the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thresholds {
    /// For resources that are not named below.
    pub default: Share,
    /// For single resources.
    pub overrides: BTreeMap<Arc<str>, Share>,
}

impl Thresholds {
    /// Share that holds for a resource.
    #[must_use]
    pub fn share(&self, name: &str) -> Share {
        self.overrides.get(name).copied().unwrap_or(self.default)
    }

    /// What may be used of `whole`.
    #[must_use]
    pub fn of(&self, whole: &Resources) -> Resources {
        whole.map(|name, amount| self.share(name).of(amount))
    }
}

/// Bytes to which the weight of memory, and of what else is counted in bytes, belongs: 1 GiB.
const GIB: u128 = 1 << 30;

/// A weight in millionths, so that losses are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Weight(u32);

impl Weight {
    /// That of one, where it is only compared with others.
    pub const ONE: Self = Self(1_000_000);

    /// The number.
    #[must_use]
    pub fn number(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// From a number; values outside 0 to 1000 are cut off there.
    #[must_use]
    pub fn from_number(number: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 0..=1e9 before, which fits; NaN becomes 0"
        )]
        Self((number.clamp(0.0, 1000.0) * 1e6).round() as u32)
    }
}

/// What a second of each resource is worth: of a core, of a GiB of what is counted in bytes, of a unit of anything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weights {
    /// For extended resources that are not named below.
    pub extended: Weight,
    /// For single resources.
    pub named: BTreeMap<Name, Weight>,
}

impl Weights {
    fn of(&self, resource: &str) -> u128 {
        let default = if matches!(resource, CPU | MEMORY | PODS) { Weight(0) } else { self.extended };
        u128::from(self.named.get(resource).copied().unwrap_or(default).0)
    }

    /// Weighted sum of an amount of every resource, in billionths.
    #[must_use]
    pub fn weigh(&self, resources: &Resources) -> u128 {
        resources.iter().fold(0, |sum, (name, amount)| {
            let amount = u128::try_from(amount).unwrap_or(0);
            let weighted = match name {
                // Thousandths times millionths.
                CPU => amount * self.of(name),
                _ if is_in_bytes(name) => amount * self.of(name) * 1000 / GIB,
                _ => amount * self.of(name) * 1000,
            };
            sum + weighted
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(milli: i64) -> Resources {
        Resources { cpu_milli: milli, ..Resources::default() }
    }

    #[test]
    fn a_share_is_exact() {
        let thresholds = Thresholds { default: Share::from_fraction(0.7), overrides: BTreeMap::new() };
        assert_eq!(thresholds.of(&cpu(10_000)), cpu(7_000));
        assert_eq!(Share::from_fraction(0.29).of(100), 29);
        assert_eq!(Share::from_fraction(f64::NAN).of(100), 0);
        assert_eq!(Share::from_fraction(1.0).of(i64::MAX), i64::MAX);
        assert_eq!(Share::from_fraction(0.95).to_string(), "95%");
        assert_eq!(Share::from_fraction(0.666_7).to_string(), "66.7%");
    }

    #[test]
    fn an_extended_resource_that_nobody_has_does_not_fit() {
        let gpu = Resources { other: [("nvidia.com/gpu".into(), 1)].into(), ..Resources::default() };
        assert_eq!(gpu.exceeds(&cpu(1000)), Some("nvidia.com/gpu"));
        assert_eq!(Resources::default().exceeds(&cpu(-1)), None);
    }

    #[test]
    fn people_can_read_it() {
        let some = Resources {
            cpu_milli: 1500,
            memory_bytes: 512 << 20,
            pods: 1,
            other: [("a/b".into(), 2), (EPHEMERAL_STORAGE.into(), 3 << 30)].into(),
        };
        assert_eq!(some.to_string(), "1.5 cpu, 512 MiB, 2 a/b, 3072 MiB ephemeral-storage");
        assert_eq!(cpu(-250).to_string(), "-0.25 cpu");
        assert_eq!(Resources::default().to_string(), "nothing");
    }

    #[test]
    fn weights_are_per_core_gib_and_unit() {
        let weights = Weights {
            extended: Weight::from_number(8.0),
            named: [(CPU.into(), Weight::from_number(1.0)), (MEMORY.into(), Weight::from_number(0.5))].into(),
        };
        let some =
            Resources { cpu_milli: 1500, memory_bytes: 3 << 30, pods: 7, other: [("gpu".into(), 2)].into() };
        assert_eq!(weights.weigh(&some), 1_500_000_000 + 1_500_000_000 + 16_000_000_000);
        // By the GiB: by the byte, a disk would outweigh everything else.
        let disk =
            Resources { other: [("ephemeral-storage".into(), 2 << 30)].into(), ..Resources::default() };
        assert_eq!(weights.weigh(&disk), 16_000_000_000);
        assert_eq!(Weight::from_number(f64::NAN), Weight(0));
    }
}
