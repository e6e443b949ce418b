//! Containers that somebody's policy puts beside those of workloads. A pod has ended once all of its containers have.

use jiff::SignedDuration;
use scavenger_planner::values::{Container, Key, Name, Pod};

use super::cluster::{Cluster, Event};

/// A container that a policy puts beside that of a workload.
#[derive(Debug, Clone, Copy)]
pub struct Injected {
    /// How long it runs once the workload runs; forever if that is not given.
    pub needs: Option<SignedDuration>,
    /// Code with which it ends then.
    pub exit_code: i32,
}

impl Cluster {
    /// It starts with the workload.
    pub(super) fn start_injected(&mut self, pod: &Pod) {
        if let Some(Injected { needs: Some(needs), exit_code }) = self.workload_of(pod).beside {
            self.exactly_after(needs, Event::EndInjected(pod.key.clone(), pod.uid.clone(), exit_code));
        }
    }

    /// Its pod is deleted: it ignores SIGTERM for the grace period.
    pub(super) fn stop_injected(&mut self, pod: &Pod) {
        let workload = self.workload_of(pod);
        if workload.beside.is_some() {
            self.after(workload.grace, Event::EndInjected(pod.key.clone(), pod.uid.clone(), 143));
        }
    }

    /// It has ended.
    pub(super) fn end_injected(&mut self, pod: &Key, uid: &Name, exit_code: i32) {
        self.injected_ended.entry(uid.clone()).or_insert(exit_code);
        if self.pods.get(pod).is_some_and(|pod| matches!(pod.container, Container::Ended { .. })) {
            self.after(self.delays.pod_phase, Event::EndPhase(pod.clone(), uid.clone()));
        }
    }

    /// The code with which it ended, if there is one; none while it goes on.
    pub(super) fn injected_code(&self, pod: &Pod) -> Option<i32> {
        match self.workload_of(pod).beside {
            Some(_) => self.injected_ended.get(&pod.uid).copied(),
            None => Some(0),
        }
    }
}
