//! What was learnt, as a text that fits into an object of the API: at most 40 kB. Forecasts that are not decided yet are not in
//! it; whether they hold is not known, so nothing is learnt from them.

use serde::{Deserialize, Serialize};

use crate::Forecaster;

/// The form of the text. What has another form is learnt again.
const VERSION: u8 = 1;

/// Numbers by place; those that are not there are 0.
pub(crate) type Table = Vec<(u16, Vec<f32>)>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Memory {
    version: u8,
    starts: u32,
    /// Of those that were decided lately, how many there were, and how many held.
    trials: (f32, f32),
    flows: Table,
    hours: Table,
    spread: Table,
}

/// To four digits: the last one says nothing any more.
pub(crate) fn rounded(number: f64) -> f32 {
    format!("{number:.3e}").parse().unwrap_or(0.0)
}

/// Writes a table down; rows of zeros are left out.
pub(crate) fn table<const N: usize>(rows: impl Iterator<Item = [f64; N]>) -> Table {
    let rows = (0..).zip(rows).filter(|(_, row)| row.iter().any(|number| *number != 0.0));
    rows.map(|(place, row)| (place, row.iter().map(|number| rounded(*number)).collect())).collect()
}

/// Reads a table of so many rows; none if it is not one that [`table`] wrote.
pub(crate) fn read<const N: usize>(table: &Table, rows: usize) -> Option<Vec<[f64; N]>> {
    let mut read = vec![[0.0; N]; rows];
    for (place, row) in table {
        let row: [f32; N] = row.as_slice().try_into().ok()?;
        if row.iter().any(|number| !number.is_finite()) {
            return None;
        }
        *read.get_mut(usize::from(*place))? = row.map(f64::from);
    }
    Some(read)
}

impl Forecaster {
    /// What was learnt, for [`Self::recall`].
    #[must_use]
    pub fn remember(&self) -> String {
        let memory = Memory {
            version: VERSION,
            starts: self.starts_seen,
            trials: self.trials.remember(),
            flows: self.rates.flows(),
            hours: self.rates.hours(),
            spread: self.spread.remember(),
        };
        serde_json::to_string(&memory).unwrap_or_default()
    }

    /// One that goes on from what another remembered; none if the text is not one that this version wrote.
    #[must_use]
    pub fn recall(text: &str) -> Option<Self> {
        let memory: Memory = serde_json::from_str(text).ok()?;
        (memory.version == VERSION).then_some(())?;
        let mut forecaster = Self { starts_seen: memory.starts, ..Self::default() };
        forecaster.trials.recall(memory.trials)?;
        forecaster.rates.recall(&memory.flows, &memory.hours)?;
        forecaster.spread.recall(&memory.spread)?;
        Some(forecaster)
    }
}
