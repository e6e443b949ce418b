//! `scavenger-laboratory coverage`.

use anyhow::Result;
use scavenger_planner::values::PreemptionMode;
use scavenger_program::{exit::Unusable, output};

use super::{Coverage, History, print};
use crate::{
    policy::Kind,
    pool::Pool,
    run::{self, Conditions},
    values::{DAY, Time},
    workload::scenario::{SCENARIOS, Scenario},
};

/// Forecast each start, and say how many forecasts held
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Play the scenario of this name; again for another one
    #[arg(long, value_name = "NAME", required = true)]
    scenario: Vec<String>,
    /// Play with so many seeds, from 1 on
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Play so many days
    #[arg(long, value_name = "N", default_value_t = 28, value_parser = clap::value_parser!(i64).range(1..=366))]
    days: i64,
    /// Let ScavengerJobs have work for this part of the cluster's cpu; without, for 40 percent, which is more than they get
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(i64).range(1..=40))]
    load: Option<i64>,
}

/// How late the operator sees what changes.
const LATE: Time = 50;

/// Plays the scenarios and prints what their forecasts came to.
///
/// # Errors
/// [`Unusable`] if there is no scenario of a name.
pub fn run(options: &Options) -> Result<()> {
    let known = SCENARIOS.map(|scenario| scenario.name).join(", ");
    let unknown = |name: &str| Unusable(format!("there is no scenario {name:?}; there are {known}"));
    let named = |name: &String| Scenario::named(name).ok_or_else(|| unknown(name));
    let scenarios: Vec<Scenario> = options.scenario.iter().map(named).collect::<Result<_, _>>()?;
    for scenario in scenarios {
        let mut coverage = Coverage::default();
        for seed in 1..=options.seeds {
            coverage.add(&Coverage::of(&play(&scenario, seed, options)));
        }
        let Options { days, seeds, load, .. } = options;
        let load = load.map(|load| format!(", load {load}%")).unwrap_or_default();
        let heading = format!("scenario {}, {days} days, {seeds} seeds{load}", scenario.name);
        output::print(&print::text(&heading, &coverage))?;
    }
    Ok(())
}

/// Who waited when in one run.
fn play(scenario: &Scenario, seed: u64, options: &Options) -> History {
    let workload = scenario.draw_longer(seed, options.days * DAY, options.load);
    let settings = Pool::usual(PreemptionMode::Scheduler).settings;
    let conditions = Conditions { late: LATE, seed };
    let (world, _) = run::run(&workload, Kind::Operator, &settings, conditions);
    History::of(&world)
}
