//! What a row thinks of resources, for the configurations that the tuner proposes.

use clap::Args;
use scavenger_schema::bounds::{self, Bounds};
use scavenger_schema::simulation::LadderSettings;

/// Options of rows about the ladder of configurations. A row need not say anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub struct LadderFlags {
    /// Begin with the fastest configuration that has at least this share of the best speed per price
    ///
    /// Without a GPU that is the parallel efficiency. Counts before the ScavengerPool's spec.configurations; what neither says
    /// is the tuner's own.
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Configurations")]
    pub min_efficiency: Option<f64>,
    /// Try at most COUNT configurations
    ///
    /// Counts before the ScavengerPool's spec.configurations; what neither says is the tuner's own.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(i64::from(bounds::MAX_CONFIGURATIONS.min)..=i64::from(bounds::MAX_CONFIGURATIONS.max)), help_heading = "Configurations")]
    pub max_configurations: Option<i32>,
    /// Count a GPU as this many cores
    ///
    /// Lower where GPUs are idle and cores are scarce: it decides how many cores pay beside a GPU. Counts before the
    /// ScavengerPool's spec.weights; what neither says is the tuner's own.
    #[arg(long, value_name = "CORES", value_parser = price, help_heading = "Configurations")]
    pub gpu_price: Option<f64>,
    /// Count a GiB of memory as this many cores
    ///
    /// Counts before the ScavengerPool's spec.weights; what neither says is the tuner's own.
    #[arg(long, value_name = "CORES", value_parser = price, help_heading = "Configurations")]
    pub memory_price: Option<f64>,
}

impl LadderFlags {
    /// As the columns have it.
    #[must_use]
    pub fn settings(self) -> LadderSettings {
        let Self { min_efficiency, max_configurations, gpu_price, memory_price } = self;
        LadderSettings { min_efficiency, max_configurations, gpu_price, memory_price }
    }
}

fn share(text: &str) -> Result<f64, String> {
    number(text, bounds::MIN_EFFICIENCY)
}

fn price(text: &str) -> Result<f64, String> {
    number(text, bounds::PRICE)
}

fn number(text: &str, bounds: Bounds<f64>) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "must be a number".to_owned())?;
    if number >= bounds.min && number <= bounds.max {
        Ok(number)
    } else {
        Err(format!("must be between {} and {}", bounds.min, bounds.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tuner_would_refuse_is_refused_at_once() {
        assert_eq!(share("0.5"), Ok(0.5));
        for text in ["0", "1.1", "NaN", "x", ""] {
            assert!(share(text).is_err(), "{text:?}");
        }
        assert_eq!(price("0"), Ok(0.0));
        for text in ["-1", "inf", "NaN", "1e7"] {
            assert!(price(text).is_err(), "{text:?}");
        }
    }
}
