//! Run time that was kept and lost, as supervisors measured it. Only attempts under the supervisor count.

use std::sync::atomic::AtomicU64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::{Registry, Unit},
};
use scavenger_planner::values::{Attempt, Reason, ScavengerJob};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    cause: String,
}

type Seconds = Family<Labels, Counter<f64, AtomicU64>>;

/// Run time by namespace, and by the reason for which attempts ended.
#[derive(Debug, Default)]
pub(super) struct RunTime {
    useful: Seconds,
    lost: Seconds,
    expected: Seconds,
}

impl RunTime {
    pub(super) fn register(&self, registry: &mut Registry) {
        let of_supervised = "of attempts under the supervisor, by namespace and by the reason of their end";
        registry.register_with_unit(
            "attempt_useful",
            format!("Run time up to the last checkpoint {of_supervised}"),
            Unit::Seconds,
            self.useful.clone(),
        );
        registry.register_with_unit(
            "attempt_lost",
            format!("Run time after the last checkpoint {of_supervised}"),
            Unit::Seconds,
            self.lost.clone(),
        );
        registry.register_with_unit(
            "attempt_expected_lost",
            format!(
                "What the planner expected to be lost {of_supervised}; compare with attempt_lost_seconds"
            ),
            Unit::Seconds,
            self.expected.clone(),
        );
    }

    /// Takes in a status that was written over `before`. An attempt counts with the write that first says what it lost.
    pub(super) fn written(&self, before: Option<&Attempt>, sj: &ScavengerJob) {
        let Some(attempt) = sj.status.attempt.as_deref() else { return };
        let is_known =
            before.is_some_and(|before| before.number == attempt.number && before.measured.lost.is_some());
        let (Some(lost), false) = (attempt.measured.lost, is_known) else { return };
        let (Some(start), Some(end)) = (attempt.start_time, attempt.end_time) else { return };
        let lost = lost.as_secs_f64();
        let useful = (end.duration_since(start).as_secs_f64() - lost).max(0.0);
        let labels = Labels {
            namespace: sj.key.namespace.to_string(),
            cause: attempt.reason.as_ref().map(Reason::name).unwrap_or_default().to_owned(),
        };
        self.useful.get_or_create(&labels).inc_by(useful);
        self.lost.get_or_create(&labels).inc_by(lost);
        if let Some(expected) = attempt.measured.expected {
            self.expected.get_or_create(&labels).inc_by(expected.as_secs_f64());
        }
    }
}
