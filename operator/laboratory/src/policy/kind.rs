//! The policies by name, and how each begins.

use scavenger_planner::values::{PreemptionMode, Settings};

use super::{
    greedy::Greedy, newest::Newest, none::Nobody, operator::Operator, predecessor::Predecessor,
    quota::interrupt_threshold, rule::Policy, stock::Stock,
};
use crate::{
    values::Time,
    world::{Preempts, World},
};

/// The policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Plain Jobs of low priority, all at once.
    Stock,
    /// A quota; those that started last go first.
    Newest,
    /// Fixed thresholds with a margin of one standard deviation; those that started last are killed.
    Predecessor,
    /// This operator, as its pool says.
    Operator,
    /// Starts as this operator; the cheapest victims anywhere, with perfect knowledge.
    Greedy,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Stock, Self::Newest, Self::Predecessor, Self::Operator, Self::Greedy];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Newest => "newest",
            Self::Predecessor => "predecessor",
            Self::Operator => "operator",
            Self::Greedy => "greedy",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// True if the pool changes what it does.
    #[must_use]
    pub fn follows_pool(self) -> bool {
        self != Self::Stock
    }

    /// Which ordinary pods kube-scheduler preempts for.
    #[must_use]
    pub fn preempts(self, settings: &Settings) -> Preempts {
        match (self, settings.preemption_mode) {
            (Self::Greedy, _) => Preempts::None,
            (Self::Operator, PreemptionMode::Operator) => Preempts::ThoseWithPriority,
            _ => Preempts::All,
        }
    }

    /// The thresholds of cpu that it keeps to, by the names that the pool gives them.
    #[must_use]
    pub fn thresholds(self, settings: &Settings) -> Vec<(&'static str, f64)> {
        let start = settings.start_thresholds.share("cpu");
        let target =
            settings.headroom.target_overrides.get("cpu").copied().unwrap_or(settings.headroom.target);
        let all = [
            ("startThreshold", start),
            ("headroomTarget", target),
            ("interruptThreshold", interrupt_threshold(settings, "cpu")),
        ];
        let kept: &[usize] = match self {
            Self::Stock => &[],
            Self::Greedy => &[0],
            Self::Predecessor => &[0, 2],
            Self::Newest | Self::Operator => &[0, 1, 2],
        };
        kept.iter().map(|place| (all[*place].0, all[*place].1.fraction())).collect()
    }

    /// The policy at the beginning of a run.
    #[must_use]
    pub fn begin(self, settings: &Settings, late: Time, world: &World<'_>) -> Box<dyn Policy> {
        match self {
            Self::Stock => Box::new(Stock::default()),
            Self::Newest => Box::new(Newest::new(settings, world)),
            Self::Predecessor => Box::new(Predecessor::new(settings, world)),
            Self::Operator => Box::new(Operator::new(settings.clone(), late, world)),
            Self::Greedy => Box::new(Greedy::new(settings.clone(), late, world)),
        }
    }
}

/// The policy of a cluster without ScavengerJobs.
#[must_use]
pub fn none() -> Box<dyn Policy> {
    Box::new(Nobody)
}
