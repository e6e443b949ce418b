//! How the configurations of a row are chosen: as the row says, else as the pool says, else as the tuner does on its own.

use std::collections::BTreeMap;

use scavenger_schema::bounds;
use scavenger_schema::configurations::Configurations;
use scavenger_schema::scavenger_pool::ScavengerPoolSpec;
use scavenger_schema::simulation::LadderSettings;
use scavenger_schema::tuning::{Limits, PriceWeights};
use serde::Serialize;

/// Who set a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SetBy {
    /// The row.
    Row,
    /// The ScavengerPool.
    Pool,
    /// Nobody: it is the tuner's own.
    Tuner,
}

/// What counts, and who set it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chosen {
    /// What counts.
    pub settings: LadderSettings,
    /// Who set each of them, by the name of its column.
    pub set_by: BTreeMap<&'static str, SetBy>,
}

/// The one rule of precedence: the row before the pool. What neither says is the tuner's own default.
#[must_use]
pub fn choose(row: &LadderSettings, pool: &LadderSettings) -> Chosen {
    let tuner = Limits::default();
    let tuner = LadderSettings {
        min_efficiency: Some(tuner.min_efficiency),
        max_configurations: i32::try_from(tuner.max_configurations).ok(),
        gpu_price: Some(tuner.weights.gpu),
        memory_price: Some(tuner.weights.memory_gib),
    };
    let by = |settings: &LadderSettings, who: SetBy| settings.said().map(move |column| (column, who));
    // Of a column that several say, the last one stays.
    let set_by = by(&tuner, SetBy::Tuner).chain(by(pool, SetBy::Pool)).chain(by(row, SetBy::Row));
    Chosen { set_by: set_by.collect(), settings: row.or(pool).or(&tuner) }
}

impl Chosen {
    /// As the tuner's requests say it, beside what row and pool limit.
    #[must_use]
    pub fn within(&self, limits: &Limits) -> Limits {
        let LadderSettings { min_efficiency, max_configurations, gpu_price, memory_price } = self.settings;
        let most = max_configurations.and_then(|most| u32::try_from(most).ok());
        Limits {
            min_efficiency: min_efficiency.unwrap_or(limits.min_efficiency),
            max_configurations: most.unwrap_or(limits.max_configurations),
            weights: PriceWeights {
                core: 1.0,
                gpu: gpu_price.unwrap_or(limits.weights.gpu),
                memory_gib: memory_price.unwrap_or(limits.weights.memory_gib),
            },
            ..limits.clone()
        }
    }
}

/// What a pool sets. Its prices are its weights of a GPU and of memory in those of a core. A value that the tuner would refuse
/// counts as none.
#[must_use]
pub fn of_pool(pool: &ScavengerPoolSpec) -> LadderSettings {
    let core = pool.weights.get("cpu").copied().unwrap_or(1.0);
    let price = |resource: &str| {
        let price = pool.weights.get(resource)? / core;
        bounds::PRICE.contain(&price).then_some(price)
    };
    let Configurations { min_efficiency, max_configurations } = pool.configurations;
    LadderSettings {
        min_efficiency: min_efficiency.filter(|share| bounds::MIN_EFFICIENCY.contain(share)),
        max_configurations: max_configurations
            .filter(|most| u32::try_from(*most).is_ok_and(|most| bounds::MAX_CONFIGURATIONS.contain(&most))),
        gpu_price: price("nvidia.com/gpu"),
        memory_price: price("memory"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_weights<const N: usize>(weights: [(&str, f64); N]) -> ScavengerPoolSpec {
        let weights = weights.map(|(resource, weight)| (resource.to_owned(), weight));
        ScavengerPoolSpec { weights: BTreeMap::from(weights), ..ScavengerPoolSpec::default() }
    }

    fn settings(number: i32) -> LadderSettings {
        let price = Some(f64::from(number));
        LadderSettings {
            min_efficiency: Some(f64::from(number) / 10.0),
            max_configurations: Some(number),
            gpu_price: price,
            memory_price: price,
        }
    }

    #[test]
    fn the_row_counts_before_the_pool() {
        let none = LadderSettings::default();
        for (row, pool, by, number) in
            [(settings(1), settings(2), SetBy::Row, 1), (none, settings(2), SetBy::Pool, 2)]
        {
            let chosen = choose(&row, &pool);
            assert_eq!(chosen.settings, settings(number));
            let columns = ["min_efficiency", "max_configurations", "gpu_price", "memory_price"];
            assert_eq!(chosen.set_by, columns.map(|column| (column, by)).into());
        }
    }

    #[test]
    fn each_value_is_looked_for_on_its_own() {
        let row = LadderSettings { gpu_price: Some(0.0), ..LadderSettings::default() };
        let pool = of_pool(&with_weights([("memory", 0.25), ("cpu", 0.5), ("nvidia.com/gpu", 8.0)]));
        let chosen = choose(&row, &pool);
        let limits = chosen.within(&Limits { max_gpus: Some(1), ..Limits::default() });
        assert_eq!((limits.max_gpus, limits.max_configurations, limits.min_efficiency), (Some(1), 12, 0.7));
        assert_eq!(limits.weights, PriceWeights { core: 1.0, gpu: 0.0, memory_gib: 0.5 });
        let set_by = serde_json::to_value(chosen.set_by).expect("should be JSON");
        let expected = serde_json::json!({
            "min_efficiency": "tuner", "max_configurations": "tuner", "gpu_price": "row", "memory_price": "pool",
        });
        assert_eq!(set_by, expected);
    }

    #[test]
    fn values_of_a_pool_that_the_tuner_would_refuse_count_as_none() {
        let weights = |cpu: f64| with_weights([("cpu", cpu), ("nvidia.com/gpu", 8.0)]);
        assert_eq!(of_pool(&weights(2.0)).gpu_price, Some(4.0));
        let none = LadderSettings::default();
        assert_eq!(of_pool(&weights(0.0)), none);
        assert_eq!(of_pool(&ScavengerPoolSpec::default()), none);
        let of = |min_efficiency, max_configurations| {
            let configurations = Configurations {
                min_efficiency: Some(min_efficiency),
                max_configurations: Some(max_configurations),
            };
            of_pool(&ScavengerPoolSpec { configurations, ..ScavengerPoolSpec::default() })
        };
        let set = LadderSettings { min_efficiency: Some(0.5), max_configurations: Some(4), ..none };
        assert_eq!(of(0.5, 4), set);
        for (share, most) in [(0.0, 0), (1.01, 33), (f64::NAN, -1)] {
            assert_eq!(of(share, most), none, "{share} {most}");
        }
    }

    #[test]
    fn what_nobody_sets_is_the_tuners_own() {
        let none = LadderSettings::default();
        assert_eq!(choose(&none, &none).within(&Limits::default()), Limits::default());
    }
}
