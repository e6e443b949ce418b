//! What a second of each resource is worth, so that losses of different kinds can be compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Name,
    resources::{CPU, MEMORY, PODS, Resources, is_in_bytes},
};

/// Bytes to which the weight of memory, and of what else is counted in bytes, belongs: 1 GiB.
const GIB: u128 = 1 << 30;

/// A weight in millionths, so that losses are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Weight(u32);

impl Weight {
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
