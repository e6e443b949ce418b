//! Sweeps: one setting of the pool over several values, and what each costs. docs/defaults.md says which sweep chose which default.

mod settings;

use scavenger_program::exit::Unusable;
use serde::Serialize;

use crate::{
    compare::{Outcome, baseline, play},
    measure::Figures,
    policy::Kind,
    pool::{Document, Pool},
    run::Conditions,
    seeds,
    values::Time,
    workload::Workload,
};

pub use settings::{SWEEPS, Setting};

/// One value of a sweep.
#[derive(Debug, Clone)]
pub struct Value {
    /// As it is written.
    pub text: String,
    /// The pool with it.
    pub pool: Pool,
    /// True if the pool has it anyway.
    pub is_usual: bool,
}

/// The values of a setting: those that were given, or its own.
///
/// # Errors
/// [`Unusable`] if there is no such setting, or the definition of the pool refuses a value.
pub fn values(name: &str, given: &[String], pool: Option<&Document>) -> Result<Vec<Value>, Unusable> {
    let known = SWEEPS.iter().find(|setting| setting.name == name);
    let base = match (pool, known) {
        (Some(pool), _) => pool.clone(),
        (None, Some(setting)) => Document::of_spec(setting.pool).map_err(Unusable)?,
        (None, None) => Document::default(),
    };
    let texts: Vec<String> = match (given, known) {
        ([], Some(setting)) => setting.values.iter().map(ToString::to_string).collect(),
        ([], None) => {
            let names = SWEEPS.map(|setting| setting.name).join(", ");
            return Err(Unusable(format!(
                "there are no values of {name:?}: name some with --value, or one of the settings that have some: {names}"
            )));
        }
        (given, _) => given.to_vec(),
    };
    let usual = base.pool().map_err(Unusable)?;
    let value = |text: String| {
        let spec = if text.starts_with('{') && known.is_some_and(Setting::has_several) {
            text.clone()
        } else {
            format!("{{ {name}: {text} }}")
        };
        let pool = base.with(&spec).and_then(|document| document.pool());
        let pool = pool.map_err(|error| Unusable(format!("value {text:?}: {error}")))?;
        let is_usual = pool.settings == usual.settings;
        Ok(Value { text, pool, is_usual })
    };
    texts.into_iter().map(value).collect()
}

/// What the values of a setting gave in one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// The workload.
    pub workload: String,
    /// What each value gave, in their order.
    pub outcomes: Vec<Outcome>,
}

/// Plays a workload with every value, for so many seeds.
pub fn sweep(
    workload: (&str, &(dyn Fn(u64) -> Workload + Sync)),
    values: &[Value],
    (number, late, threads): (u64, Time, usize),
) -> Swept {
    let (name, draw) = workload;
    let one = |seed: u64| -> Vec<Figures> {
        let workload = draw(seed);
        let (baseline, conditions) = (baseline(&workload, seed), Conditions { late, seed });
        let figures =
            |value: &Value| play(&workload, Kind::Operator, &value.pool.settings, conditions, &baseline).1;
        values.iter().map(figures).collect()
    };
    let by_seed = seeds::each(threads, number, one);
    let outcome = |(place, value): (usize, &Value)| {
        let usual = if value.is_usual { " (as it is)" } else { "" };
        let runs = by_seed.iter().map(|figures| figures[place].clone()).collect();
        Outcome { runs, ..Outcome::none(format!("{}{usual}", value.text)) }
    };
    Swept { workload: name.to_owned(), outcomes: values.iter().enumerate().map(outcome).collect() }
}
