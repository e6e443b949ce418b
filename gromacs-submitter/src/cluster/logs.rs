//! What pods printed. It is read as bytes: mdrun prints the title of a system in whatever encoding that is, and a limit may cut a
//! character in two.

use futures::AsyncReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::LogParams;
use scavenger_program::objects::Objects;
use scavenger_schema::scavenger_job::ScavengerJob;

use super::{Cluster, ClusterError, LOG_PROGRESS_LINES, within};
use crate::text::without_nul;

/// How much of a log's beginning is read: mdrun's banner and the step it starts from.
const LOG_HEAD_BYTES: i64 = 8192;

/// How much of that of a probe: grompp says what is wrong anywhere between its notes.
const LOG_OF_PROBE_BYTES: i64 = 1 << 20;

/// More of a log is not held: 40 lines of a container runtime are 640 kB.
const MOST_LOG_BYTES: u64 = 2 << 20;

/// How many lines of the end of a finished log are read. A container runtime cuts mdrun's endless progress line into
/// lines of at most 16 kB, so this is at most 640 kB.
const LOG_END_LINES: i64 = 40;

/// What to read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPart {
    /// The newest lines.
    Progress,
    /// Those and the beginning.
    StartAndProgress,
    /// The beginning and the end of a log that grows no more.
    StartAndEnd,
    /// All of the log of a probe that has ended, within reason, and its end.
    Whole,
}

impl Cluster {
    /// Beginning and end of the log of an attempt's pod; none if the pod or its log is gone.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn log(
        &self,
        namespace: &str,
        job: &ScavengerJob,
        attempt: i32,
        part: LogPart,
    ) -> Result<Option<String>, ClusterError> {
        let pods = self.pods(namespace);
        let name = job.name_any();
        let request = async {
            let Some(pod) = self.pod_of(namespace, job, attempt).await? else { return Ok(None) };
            let mut text = String::new();
            let head = match part {
                LogPart::Progress => None,
                LogPart::StartAndProgress | LogPart::StartAndEnd => Some(LOG_HEAD_BYTES),
                LogPart::Whole => Some(LOG_OF_PROBE_BYTES),
            };
            if let Some(bytes) = head {
                let parameters = LogParams { limit_bytes: Some(bytes), ..LogParams::default() };
                let Some(head) = read_log(&pods, &pod, &parameters).await? else { return Ok(None) };
                // The line that the limit cut is not taken for a whole one.
                text.push_str(&head[..head.rfind(['\n', '\r']).map_or(0, |end| end + 1)]);
            }
            let is_at_end = matches!(part, LogPart::StartAndEnd | LogPart::Whole);
            let lines = if is_at_end { LOG_END_LINES } else { LOG_PROGRESS_LINES };
            let parameters = LogParams { tail_lines: Some(lines), ..LogParams::default() };
            let Some(tail) = read_log(&pods, &pod, &parameters).await? else { return Ok(None) };
            text.push_str(&tail);
            Ok(Some(without_nul(text)))
        };
        within("read the log of", namespace, &name, request).await
    }
}

/// A log, or a part of it; none if it cannot be had now and never again: the pod is gone, or its container never started.
async fn read_log(
    pods: &Objects<Pod>,
    pod: &str,
    parameters: &LogParams,
) -> Result<Option<String>, kube::Error> {
    let stream = match pods.log_stream(pod, parameters).await {
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 400 => return Ok(None),
        stream => stream?,
    };
    let mut stream = std::pin::pin!(stream.take(MOST_LOG_BYTES));
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.map_err(kube::Error::ReadEvents)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use axum::Router;
    use axum::extract::Query;
    use axum::routing::get;
    use serde_json::json;

    use super::*;
    use crate::fixtures::{client, ladder, manifest_settings, row, terms};
    use crate::manifest::simulation_job;
    use crate::mdrun_log;

    /// What mdrun prints of a system whose title is in Latin-1, cut where the API server was told to.
    async fn printed(text: &'static [u8], part: LogPart) -> Option<String> {
        let log = move |Query(asked): Query<HashMap<String, String>>| async move {
            let most = asked.get("limitBytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(usize::MAX);
            text[..text.len().min(most)].to_vec()
        };
        let pods = || async {
            axum::Json(
                json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {},
                "items": [{ "metadata": { "name": "pod" } }] }),
            )
        };
        let router = Router::new()
            .route("/api/v1/namespaces/lab/pods", get(pods))
            .route("/api/v1/namespaces/lab/pods/pod/log", get(log));
        let cluster = Cluster::with_client(client(router).await);
        let job = simulation_job(&row(), &ladder()[0], &manifest_settings(), &terms());
        cluster.log("lab", &job, 1, part).await.expect("should be read")
    }

    const LATIN: &[u8] =
        b"starting mdrun 'Wasser f\xfcr die Pr\xfcfung'\n4000 steps, 8.0 ps.\n\rstep 0\rstep 300\r\n";

    #[tokio::test]
    async fn a_title_in_any_encoding_hides_no_progress() {
        for part in [LogPart::StartAndProgress, LogPart::StartAndEnd, LogPart::Whole, LogPart::Progress] {
            let text = printed(LATIN, part).await.expect("should be there");
            let facts = mdrun_log::parse(&text);
            assert_eq!((facts.first_step, facts.last_step), (Some(0), Some(300)), "{part:?}: {text}");
        }
    }

    #[tokio::test]
    async fn a_character_that_a_limit_cuts_in_two_hides_nothing() {
        // The limit falls into the last character, of two bytes.
        let head = "x".repeat(usize::try_from(LOG_HEAD_BYTES).expect("should be small") - 1 - LATIN.len());
        let text = [LATIN, head.as_bytes(), "\u{fc}\nstep 400\r\n".as_bytes()].concat();
        let text = printed(text.leak(), LogPart::StartAndEnd).await.expect("should be there");
        assert_eq!(mdrun_log::parse(&text).last_step, Some(400), "{text}");
    }

    #[tokio::test]
    async fn what_a_probe_says_is_read_wherever_it_stands() {
        let text =
            format!("{}WARNING 1 [file a.mdp]:\n  wrong\n\n{}", "a note\n".repeat(4000), "x\n".repeat(4000));
        let text: &'static str = text.leak();
        let whole = printed(text.as_bytes(), LogPart::Whole).await.expect("should be there");
        assert!(whole.contains("WARNING 1 [file a.mdp]"));
    }
}
