//! Where memory is not measured.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long nobody asks again for what this cluster does not have (metrics.k8s.io) or does not allow.
const MISSING_FOR: Duration = Duration::from_secs(300);

/// Where memory is not measured, and since when that is known.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// The cluster does not measure, or does not answer.
    everywhere: Option<Instant>,
    /// The submitter may not read it in these namespaces.
    namespaces: BTreeMap<String, Instant>,
}

impl Missing {
    /// True if nobody should ask for what is measured in a namespace.
    pub(super) fn is_in(&mut self, namespace: &str) -> bool {
        let is_new = |since: &Instant| since.elapsed() < MISSING_FOR;
        self.namespaces.retain(|_, since| is_new(since));
        self.everywhere.as_ref().is_some_and(is_new) || self.namespaces.contains_key(namespace)
    }

    /// Takes a failed request in a namespace into account. A pod is measured every so often, and not before it has run
    /// for a while; what one namespace forbids, others may allow.
    pub(super) fn note(&mut self, namespace: &str, error: Option<&kube::Error>) {
        match error {
            Some(kube::Error::Api(status))
                if status.is_not_found() && status.message.contains("podmetrics") => {}
            Some(kube::Error::Api(status)) if status.is_forbidden() => {
                self.namespaces.insert(namespace.to_owned(), Instant::now());
            }
            _ => self.everywhere = Some(Instant::now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, message: &str) -> kube::Error {
        let reason = if code == 403 { "Forbidden" } else { "NotFound" }.to_owned();
        let status = Status { code, reason, message: message.to_owned(), ..Status::default() };
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn what_one_namespace_forbids_is_measured_in_others() {
        let mut missing = Missing::default();
        missing.note("lab", Some(&refused(404, "podmetrics.metrics.k8s.io \"a\" not found")));
        assert!(!missing.is_in("lab"), "a pod that was not measured yet");
        missing.note("lab", Some(&refused(403, "pods.metrics.k8s.io is forbidden")));
        assert!(missing.is_in("lab") && !missing.is_in("other"));
        for error in [Some(refused(404, "the server could not find the requested resource")), None] {
            let mut missing = Missing::default();
            missing.note("lab", error.as_ref());
            assert!(missing.is_in("lab") && missing.is_in("other"), "nobody measures: {error:?}");
        }
    }

    #[test]
    fn a_right_that_is_given_is_used_after_a_while() {
        let long_ago = Instant::now().checked_sub(MISSING_FOR).expect("the machine should be up for as long");
        let mut missing = Missing { everywhere: Some(long_ago), ..Missing::default() };
        missing.namespaces.insert("lab".to_owned(), long_ago);
        assert!(!missing.is_in("lab"));
    }
}
