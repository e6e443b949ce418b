//! What every reader of a trace comes to.

use jiff::Timestamp;

use super::Workload;

/// What was read of a trace, and what people should know about it.
#[derive(Debug)]
pub struct Read {
    /// The workload.
    pub workload: Workload,
    /// What else is known, if it is the recording of a cluster.
    pub recorded: Option<Recorded>,
    /// What was left out, if something was.
    pub note: Option<String>,
}

/// What was recorded, beside the workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recorded {
    /// When it began.
    pub begin: Timestamp,
    /// Cores that ordinary pods used on average, if that was measured.
    pub used_cores: Option<f64>,
}

/// What is said of a trace whose last line is not whole.
pub(super) fn ends_in_the_middle(number: u64) -> String {
    format!("line {number} ends in the middle; the trace is read up to there")
}

/// Sorts what has to be in order, and refuses a trace in which there is nothing to look at. It ends when the last ordinary pod
/// does, or with the last submission of a ScavengerJob if that is later.
pub(super) fn finish(workload: &mut Workload) -> Result<(), String> {
    if workload.nodes.is_empty() {
        return Err("it has no nodes".to_owned());
    }
    workload.ordinary.sort_by_key(|pod| pod.arrival);
    workload.scavengers.sort_by_key(|sj| sj.arrival);
    let ends = workload.ordinary.iter().map(|pod| pod.arrival.saturating_add(pod.duration));
    let ends = ends.chain(workload.scavengers.iter().map(|sj| sj.arrival.saturating_add(sj.work)));
    workload.length = ends.max().ok_or("it has neither ordinary pods nor ScavengerJobs")?;
    Ok(())
}
