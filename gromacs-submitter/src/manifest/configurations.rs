//! Which configuration a ScavengerJob runs, told by a number that it carries.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use scavenger_schema::names;
use scavenger_schema::scavenger_job::{Quantity, ScavengerJob};
use scavenger_schema::simulation::{ANNOTATION_CONFIGURATIONS, LadderRung};

use super::{requests, same_requests};
use crate::gpus;

/// Which configuration each generation of a ScavengerJob's spec is, as the submitter that wrote it says: arguments may
/// change with a release of the submitter, and a number does not. A generation that is not named, since somebody else
/// changed the spec, has the configuration of the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configurations(BTreeMap<i64, i32>);

/// More than a ScavengerJob's status lists attempts.
const MOST_GENERATIONS: usize = 100;

impl Configurations {
    /// Of a ScavengerJob that is made with `rung`.
    #[must_use]
    pub fn new(rung: i32) -> Self {
        Self(BTreeMap::from([(1, rung)]))
    }

    /// Reads the annotation; what is none says nothing.
    #[must_use]
    pub fn of(job: &ScavengerJob) -> Self {
        let text = job.annotations().get(ANNOTATION_CONFIGURATIONS).map(String::as_str).unwrap_or_default();
        let pair = |pair: &str| {
            let (generation, rung) = pair.split_once('=')?;
            Some((generation.parse().ok()?, rung.parse().ok()?))
        };
        Self(text.split(',').filter_map(pair).collect())
    }

    /// With `rung` from `generation` on.
    #[must_use]
    pub fn and(mut self, generation: i64, rung: i32) -> Self {
        self.0.insert(generation, rung);
        while self.0.len() > MOST_GENERATIONS {
            self.0.pop_first();
        }
        self
    }

    /// The configuration of a generation, if its requests are those of that configuration: a person may have given it
    /// others.
    #[must_use]
    pub fn rung(
        &self,
        generation: i64,
        ladder: &[LadderRung],
        requests_of_pod: &BTreeMap<String, Quantity>,
    ) -> Option<i32> {
        let (_, number) = self.0.range(..=generation).next_back()?;
        ladder
            .iter()
            .find(|rung| {
                rung.rung == *number && same_requests(&requests(rung, gpus::USUAL).requests, requests_of_pod)
            })
            .map(|rung| rung.rung)
    }

    /// True if a configuration was written down after `generation`, also one that was written down before.
    #[must_use]
    pub fn have_changed_since(&self, generation: i64) -> bool {
        self.0.range(generation.saturating_add(1)..).next().is_some()
    }

    /// When the submitter last gave a ScavengerJob another one, by the clock of the API server, which keeps who wrote last and
    /// when; none if it has had no other.
    #[must_use]
    pub fn change_time(&self, job: &ScavengerJob) -> Option<Timestamp> {
        let entries = job.metadata.managed_fields.iter().flatten();
        let is_own = |manager: &str| manager == names::SUBMITTER;
        let times = entries.filter(|entry| entry.manager.as_deref().is_some_and(is_own));
        times.filter_map(|entry| Some(entry.time.as_ref()?.0)).max().filter(|_| self.0.len() > 1)
    }

    /// The latest one.
    #[must_use]
    pub fn last(&self) -> Option<i32> {
        self.0.last_key_value().map(|(_, rung)| *rung)
    }

    /// As the annotation has it.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|(generation, rung)| format!("{generation}={rung}")).collect::<Vec<_>>().join(",")
    }
}
