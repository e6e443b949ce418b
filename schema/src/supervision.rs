//! What the supervisor of a pod reports: while the workload runs over HTTPS, and at its end in the termination message.
//!
//! A report carries no name. Its sender is known by its token, which is bound to the pod.

use jiff::Timestamp;
pub use scavenger_vocabulary::supervisor::Stop;
use serde::{Deserialize, Serialize};

/// The newest checkpoint that the workload wrote since the supervisor started it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// When it was written, by the clock of the node.
    pub time: Timestamp,
    /// Seconds from then to the moment of the report. It is right even if the node's clock is not.
    pub age_seconds: f64,
    /// How many checkpoints were seen. More may have been written: two in quick succession are seen as one.
    pub seen: u64,
}

/// Processor time of the threads of a workload, as the kernel counts it (`/proc/PID/task/TID/schedstat`), in seconds. Of a
/// thread that has ended it is what was seen of it last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuTime {
    /// On a processor.
    pub run_seconds: f64,
    /// Ready to run, while others had the processors.
    pub wait_seconds: f64,
}

/// Processor time of a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// Since the supervisor started it.
    pub total: CpuTime,
    /// Since its newest checkpoint; all of it before the first one.
    pub since_checkpoint: CpuTime,
}

/// What a supervisor sends while the workload runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveReport {
    /// Nothing before the first checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Between 0 and 1, if the workload tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Nothing where the kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
}

/// The answer to a [`LiveReport`]. A body that cannot be read counts as the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The workload shall write a checkpoint now.
    #[serde(default)]
    pub checkpoint: bool,
}

/// What a supervisor leaves in the termination message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndReport {
    /// Nothing if no checkpoint was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Between 0 and 1, if the workload told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// As it was counted last: at a signal to stop, at a checkpoint or for a report. Nothing where the kernel does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// The signal to stop: SIGTERM, or what the image names as its stop signal.
    pub stop: Stop,
}

/// The object around an [`EndReport`], which no message of a workload has by chance.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndMessage {
    /// The report.
    pub scavenger_supervisor: EndReport,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_on_the_wire_stay_as_they_are() {
        let time = "2026-01-02T03:04:05Z".parse().unwrap();
        let checkpoint = Some(Checkpoint { time, age_seconds: 1.5, seen: 2 });
        let total = CpuTime { run_seconds: 8.5, wait_seconds: 1.0 };
        let cpu = Some(Cpu { total, since_checkpoint: CpuTime { run_seconds: 0.5, wait_seconds: 0.0 } });
        let report = EndReport { checkpoint, progress: Some(0.5), cpu, stop: Stop::Answered };
        let text = serde_json::to_string(&EndMessage { scavenger_supervisor: report }).unwrap();
        assert_eq!(
            text,
            "{\"scavengerSupervisor\":{\"checkpoint\":{\"time\":\"2026-01-02T03:04:05Z\",\"ageSeconds\":1.5,\"seen\":2},\
             \"progress\":0.5,\"cpu\":{\"total\":{\"runSeconds\":8.5,\"waitSeconds\":1.0},\
             \"sinceCheckpoint\":{\"runSeconds\":0.5,\"waitSeconds\":0.0}},\"stop\":\"Answered\"}}"
        );
        assert_eq!(serde_json::from_str::<EndMessage>(&text).unwrap().scavenger_supervisor, report);
        assert_eq!(serde_json::to_string(&LiveReport::default()).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<Answer>("{\"later\":1}").unwrap(), Answer::default());
    }
}
