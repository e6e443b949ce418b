//! What several rules say in the same words.

use scavenger_schema::simulation::GromacsToTune;
use scavenger_vocabulary::Phase;

use crate::text::pairs;
use crate::view::JobView;

/// Why nothing is done for a row.
pub(super) const NO_POOL: &str = "there is no ScavengerPool \"default\"";

/// The operator's sentence, or that there is none yet.
pub(super) fn said(job: &JobView) -> String {
    job.message.clone().unwrap_or_else(|| match job.phase {
        Phase::Waiting => "waits for the operator".to_owned(),
        Phase::Starting => "starts".to_owned(),
        Phase::Running => "runs".to_owned(),
        Phase::Interrupted => "was interrupted".to_owned(),
        Phase::Completed => "is complete".to_owned(),
        Phase::Failed => "failed".to_owned(),
    })
}

pub(super) fn name_taken(name: &str, row: &GromacsToTune) -> String {
    format!(
        "ScavengerJob {name} in namespace {} is in the way: its label scavenger.dev/row-uuid is not this row's UUID; delete it if \
         nobody needs it, and retry",
        row.namespace
    )
}

/// Nodes come and go, so the row waits.
pub(super) fn no_nodes(row: &GromacsToTune) -> String {
    if row.node_labels.is_empty() {
        return "the ScavengerPool \"default\" shows no nodes (status.nodeShapes is empty)".to_owned();
    }
    format!(
        "no kind of node that the ScavengerPool \"default\" shows has the labels {} (status.nodeShapes); to run \
         elsewhere, cancel the row, change node_labels (gromacs-submitter edit), and retry",
        pairs(&row.node_labels).join(", ")
    )
}

pub(super) fn before_greeting(sentence: &str) -> &str {
    sentence.split(": :-)").next().unwrap_or(sentence).lines().next().unwrap_or_default()
}

/// The last line that says anything.
pub(super) fn last_line(text: &str) -> Option<String> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(ToOwned::to_owned)
}

/// What rules a configuration out.
pub(super) type RuledOut = &'static str;
pub(super) const NO_CAPACITY: RuledOut = "no free capacity";
pub(super) const OVER_QUOTA: RuledOut = "more than the quota leaves";
pub(super) const OVER_LIMITS: RuledOut = "more than the pool's limits allow";
pub(super) const BELOW_LEAST_CPU: RuledOut = "fewer cores than min_cpu_millicores";
pub(super) const BELOW_LEAST_SPEED: RuledOut = "slower than min_ns_per_day";
pub(super) const LONGER_THAN_A_DAY: RuledOut =
    "it may take longer than a day, and begins again after each interruption";
pub(super) const SLOW_TO_STOP: RuledOut = "its last checkpoint takes longer than the pool allows";
