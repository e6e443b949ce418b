//! Pods in which the supervisor could not be started. That is never their user's fault: the next attempt goes without it.

use jiff::SignedDuration;
use scavenger_vocabulary::supervisor::PROGRAM;

use super::kubelet::{self, OUT_OF_MEMORY};
use crate::values::{Container, Pod, tells_of_loss};

/// A container that ends with exit code 126 within this time has not run: its program could not be executed.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(10);

/// Why the init container that brings the supervisor is not created, or not yet: its image is not pulled, say. The
/// kubelet goes on trying, and a registry that does not answer now may do so in a minute.
pub(crate) fn not_created(pod: &Pod) -> Option<String> {
    match pod.supervisor.as_deref()? {
        Container::Waiting(Some((reason, message)))
            if kubelet::is_creation_error(reason) && !is_taken_away(pod) =>
        {
            Some(format!("{reason}: {message}"))
        }
        _ => None,
    }
}

/// A pod that is taken away while it starts says nothing.
fn is_taken_away(pod: &Pod) -> bool {
    pod.deletion_requested.is_some() || pod.disruption_target.is_some()
}

/// Why the supervisor of a pod could not be started, if it could not. That its init container is not created may pass:
/// [`not_created`].
pub(crate) fn not_started(pod: &Pod) -> Option<String> {
    let bringer = pod.supervisor.as_deref()?;
    if is_taken_away(pod) {
        return None;
    }
    match (bringer, &pod.container) {
        (Container::Ended { exit_code, reason, message, .. }, _)
            if *exit_code != 0 && is_its_own_end(*exit_code, reason) =>
        {
            Some(format!("its init container ended with exit code {exit_code}: {message}"))
        }
        (_, Container::Waiting(Some((reason, message)))) if message.contains(PROGRAM) => {
            Some(format!("{reason}: {message}"))
        }
        (_, Container::Ended { started: false, message, .. }) if message.contains(PROGRAM) => {
            Some(message.clone())
        }
        (_, Container::Ended { exit_code: 126, started: true, time: Some(time), .. })
            if pod.started.is_some_and(|started| time.duration_since(started) <= AT_ONCE) =>
        {
            Some("its container ended at once with exit code 126".to_owned())
        }
        _ => None,
    }
}

/// True unless a node that went down, a limit or a signal ended it.
fn is_its_own_end(exit_code: i32, reason: &str) -> bool {
    !matches!(exit_code, 137 | 143) && reason != OUT_OF_MEMORY && !tells_of_loss(reason)
}

/// What is said of an attempt whose supervisor was not started.
pub(crate) fn message(pod: &Pod, why: &str) -> String {
    format!(
        "the supervisor was not started in pod {}; the next attempt starts without it: {why}",
        pod.key.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, ended, supervised};

    #[test]
    fn an_image_that_cannot_be_pulled_and_a_program_that_cannot_be_run_are_known() {
        let mut pull = supervised("a");
        pull.supervisor =
            Some(Box::new(Container::Waiting(Some(("ErrImagePull".to_owned(), "x: not found".to_owned())))));
        assert_eq!(not_created(&pull).as_deref(), Some("ErrImagePull: x: not found"));
        assert_eq!(not_started(&pull), None, "the kubelet goes on trying");
        assert_eq!(not_created(&pull.deleted(at(1))), None);
        let mut copy = supervised("a");
        copy.supervisor = Some(Box::new(ended(1, "no space left on device", true)));
        assert!(not_started(&copy).is_some());
        copy.supervisor = Some(Box::new(ended(137, "", true)));
        assert_eq!(not_started(&copy), None, "a signal is not its own end");
        let mut noexec = supervised("a");
        noexec.container = ended(128, &format!("exec: \"{PROGRAM}\": permission denied"), false);
        assert!(not_started(&noexec).is_some());
        noexec.container = ended(128, "exec: \"/usr/bin/gmx\": permission denied", false);
        assert_eq!(not_started(&noexec), None);
        let mut at_once = supervised("a");
        at_once.container = ended(126, "", true);
        assert_eq!(not_started(&at_once), None, "nobody knows when it started");
        at_once.started = Some(at(0));
        assert!(not_started(&at_once).is_some());
        at_once.started = Some(at(-60));
        assert_eq!(not_started(&at_once), None, "it ran for a minute");
        at_once.started = Some(at(0));
        assert_eq!(not_started(&at_once.clone().deleted(at(1))), None);
        at_once.supervisor = None;
        assert_eq!(not_started(&at_once), None, "there is no supervisor");
    }
}
