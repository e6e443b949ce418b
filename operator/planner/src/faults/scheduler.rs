//! What kube-scheduler says of a pod that it cannot place: "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated
//! taint(s). preemption: 0/5 nodes are available: ...". It names for each node only the first thing that fails. It looks at
//! capacity after taints and node affinity, and before volumes, other pods and topology.

use super::{Meaning, Speaker, meaning};
use crate::values::Refused;

/// What it says, as far as the planner understands it.
pub(crate) fn read(message: &str) -> Refused {
    Refused { lacks_capacity: names_a_lack(message), unjudged: unjudged(message).map(Into::into) }
}

/// True if one of its reasons is that a node has not enough.
fn names_a_lack(message: &str) -> bool {
    // What preemption would do is no reason of its own.
    let reasons = message.split("preemption:").next().unwrap_or_default();
    meaning(Speaker::SchedulerOfNode, reasons) == Some(Meaning::CapacityShort)
}

/// The first of its reasons that the planner cannot judge; the whole message if it names none.
fn unjudged(message: &str) -> Option<&str> {
    let Some((_, reasons)) = message.split_once(" nodes are available: ") else { return Some(message) };
    // Behind the reasons comes, as a sentence of its own, why kube-scheduler does not preempt.
    let reasons = reasons.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let reasons = reasons
        .split(", ")
        .map(|reason| reason.trim_start_matches(|char: char| char.is_ascii_digit() || char == ' '));
    reasons
        .filter(|reason| !reason.is_empty())
        .find(|reason| meaning(Speaker::SchedulerOfNode, reason).is_none())
}

/// True if a pod mounts a claim without a volume, unless the volume is made where the pod goes.
pub(crate) fn is_claim_unbound(message: &str) -> bool {
    meaning(Speaker::Scheduler, message) == Some(Meaning::ClaimUnbound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_capacity_on_some_node_is_named() {
        for message in [
            "0/3 nodes are available: 3 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
            "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had volume node affinity conflict.",
            "0/1 nodes are available: 1 Insufficient example.com/slot.",
            "0/1 nodes are available: 1 Too many pods.",
            "0/1 nodes are unavailable: 1 Insufficient cpu.",
            // As kube-scheduler 1.31, 1.34 and 1.37 say it of a pod that it preempts for, and why not.
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {dedicated: gpu}. preemption: \
             0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for \
             scheduling.",
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). no new claims to \
             deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 \
             Preemption is not helpful for scheduling.",
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). preemption: found a \
             potential placement for pod on node node-1, preempting 2 victims",
        ] {
            assert!(names_a_lack(message), "{message}");
        }
        for message in [
            "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/5 nodes are \
             available: 5 Preemption is not helpful for scheduling.",
            "0/5 nodes are available: persistentvolumeclaim \"data\" not found.",
            "0/5 nodes are available: 5 node(s) had volume node affinity conflict.",
            "0/5 nodes are available: 5 node(s) didn't match pod anti-affinity rules. preemption: 0/5 nodes are \
             available: 5 Insufficient cpu.",
            "0/5 nodes are available: 5 node(s) didn't have free ports for the requested pod ports.",
            "0/5 nodes are available: 5 node(s) didn't match pod topology spread constraints.",
            "0/5 nodes are available: 5 node(s) had untolerated taint(s).",
            "0/5 nodes are available: 5 cannot allocate all claims.",
            "running PreFilter plugin failed",
        ] {
            assert!(!names_a_lack(message), "{message}");
        }
    }

    #[test]
    fn what_cannot_be_judged_is_quoted() {
        let judged = |message: &str| unjudged(message).is_none();
        assert!(judged(
            "0/3 nodes are available: 1 Insufficient cpu, 1 Too many pods, 1 node(s) had untolerated taint(s). \
             preemption: not eligible due to preemptionPolicy=Never."
        ));
        assert!(judged("0/1 nodes are available: 1 Insufficient example.com/slot."));
        assert!(judged("0/1 nodes are available: 1 Insufficient ephemeral-storage."));
        assert!(judged(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match PersistentVolume's node affinity."
        ));
        for message in [
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints. x",
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "running PreFilter plugin failed",
        ] {
            assert!(!judged(message), "{message}");
        }
    }

    /// What kube-scheduler 1.31.0, 1.34.4 and 1.37.2 say of a pod that lacks capacity on one node, and may not go to the
    /// others for the reasons that the planner judges.
    #[test]
    fn each_releases_wording_is_understood() {
        for message in [
            // 1.31: a taint with its key and value, and the old words for a volume's nodes (until 1.32).
            "0/5 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 Too many pods, 1 node(s) didn't match \
             Pod's node affinity/selector, 1 node(s) had untolerated taint {dedicated: gpu}, 1 node(s) had volume node \
             affinity conflict, 1 node(s) were unschedulable. preemption: not eligible due to preemptionPolicy=Never.",
            // 1.34: the taint unnamed, new words for the volume, and what node affinity ruled out beforehand.
            "0/6 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match PersistentVolume's node affinity, 1 \
             node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't satisfy plugin(s) [NodeAffinity], 1 \
             node(s) had untolerated taint(s), 1 node(s) were unschedulable. no new claims to deallocate, preemption: \
             not eligible due to preemptionPolicy=Never.",
            // 1.37.
            "0/6 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match PersistentVolume's node affinity, 1 \
             node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't satisfy plugin(s) [NodeAffinity], 1 \
             node(s) had untolerated taint(s), 1 node(s) were unschedulable. preemption: not eligible due to \
             preemptionPolicy=Never.",
        ] {
            assert_eq!(unjudged(message), None, "{message}");
        }
        for (message, reason) in [
            // 1.31.
            (
                "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had no available volume zone. preemption: not \
                 eligible due to preemptionPolicy=Never.",
                "node(s) had no available volume zone",
            ),
            (
                "0/1 nodes are available: 1 node has pod using PersistentVolumeClaim with the same name and \
                 ReadWriteOncePod access mode. preemption: not eligible due to preemptionPolicy=Never.",
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            ),
            // 1.34 and 1.37: devices by DRA.
            (
                "0/2 nodes are available: 1 Insufficient cpu, 1 cannot allocate all claims. preemption: not eligible due \
                 to preemptionPolicy=Never.",
                "cannot allocate all claims",
            ),
            // 1.37: a node whose kubelet lacks a feature that the pod asks for.
            (
                "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's required features. \
                 preemption: not eligible due to preemptionPolicy=Never.",
                "node(s) didn't match Pod's required features",
            ),
        ] {
            assert_eq!(unjudged(message), Some(reason), "{message}");
        }
    }
}
