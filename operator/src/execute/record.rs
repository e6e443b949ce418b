//! One line of the log for each attempt that ended. The API server has its record until the ScavengerJob is deleted; a
//! log store has the line for as long as it keeps the log.

use scavenger_planner::values::Key;
use scavenger_schema::{scavenger_job::Attempt, terminal::shown};
use tracing::info;

/// Writes the line. An attempt whose lost work is only measured later gets a second one.
pub(super) fn attempt_ended(key: &Key, uid: &str, attempt: &Attempt) {
    let nodes: Vec<&str> = attempt.nodes.iter().map(|node| node.name.as_str()).collect();
    let requests: Vec<String> =
        attempt.requests.iter().map(|(resource, amount)| format!("{resource}={}", amount.0)).collect();
    info!(
        namespace = %key.namespace, name = %key.name, uid,
        attempt = attempt.number,
        outcome = attempt.outcome.map(|outcome| outcome.name()),
        reason = attempt.reason.as_ref().map(|reason| reason.name()),
        status_message = %shown(attempt.message.as_deref().unwrap_or_default()),
        created = %attempt.creation_time.0,
        started = attempt.start_time.as_ref().map(|time| time.0.to_string()),
        ended = attempt.end_time.as_ref().map(|time| time.0.to_string()),
        lost_seconds = attempt.lost_seconds,
        pods = attempt.pod_count,
        requests = requests.join(" "),
        nodes = nodes.join(" "),
        "attempt ended"
    );
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use serde_json::{Value, json};
    use tracing::subscriber::DefaultGuard;

    use super::*;

    #[derive(Clone, Default)]
    pub(in crate::execute) struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        /// Takes what this thread logs until the guard is dropped.
        pub(in crate::execute) fn take(&self) -> DefaultGuard {
            let writer = self.clone();
            let subscriber = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
            tracing::subscriber::set_default(subscriber)
        }

        pub(in crate::execute) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn it_is_one_line_that_a_log_store_can_read() {
        let attempt: Attempt = serde_json::from_value(json!({
            "number": 2, "jobName": "sim-2", "generation": 1, "requests": { "cpu": "2", "memory": "4Gi" }, "podCount": 2,
            "args": ["--password=x"], "priorityClassName": "scavenger-1", "creationTime": "2026-01-01T00:00:00Z",
            "startTime": "2026-01-01T00:00:10Z", "endTime": "2026-01-01T01:00:00Z", "lostSeconds": 30,
            "outcome": "Interrupted", "reason": "Headroom", "message": "made way\nfor pods",
            "nodes": [{ "name": "n1", "podCount": 1 }, { "name": "n2", "podCount": 1 }],
        }))
        .unwrap();
        let log = Log::default();
        let taken = log.take();
        attempt_ended(&Key::new("lab", "sim"), "u1", &attempt);
        drop(taken);
        let text = log.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains("password"), "arguments may hold what a log must not: {text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "namespace": "lab", "name": "sim", "uid": "u1", "attempt": 2, "outcome": "Interrupted", "reason": "Headroom",
            "created": "2026-01-01T00:00:00Z", "started": "2026-01-01T00:00:10Z", "ended": "2026-01-01T01:00:00Z",
            "status_message": "made way for pods", "message": "attempt ended", "lost_seconds": 30, "pods": 2, "requests": "cpu=2 memory=4Gi", "nodes": "n1 n2",
        });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&line["fields"][field], value, "{field} of {text}");
        }
    }
}
