//! The policies by name, and how each begins.

use scavenger_planner::values::{PreemptionMode, Settings};

use super::{greedy::Greedy, newest::Newest, none::Nobody, operator::Operator, rule::Policy, stock::Stock};
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
    /// This operator, as its pool says.
    Operator,
    /// The cheapest victims anywhere, with perfect knowledge.
    Greedy,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Stock, Self::Newest, Self::Operator, Self::Greedy];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Newest => "newest",
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

    /// The policy at the beginning of a run.
    #[must_use]
    pub fn begin(self, settings: &Settings, late: Time, world: &World<'_>) -> Box<dyn Policy> {
        match self {
            Self::Stock => Box::new(Stock::default()),
            Self::Newest => Box::new(Newest::new(settings, world)),
            Self::Operator => Box::new(Operator::new(settings.clone(), late, world)),
            Self::Greedy => Box::new(Greedy::new(settings, world)),
        }
    }
}

/// The policy of a cluster without ScavengerJobs.
#[must_use]
pub fn none() -> Box<dyn Policy> {
    Box::new(Nobody)
}
