//! Whether an attempt runs under the supervisor.
//!
//! The pool names the supervisor, a ScavengerJob may refuse it, and it needs a command to be put in front of. Where it cannot
//! be started (its image cannot be pulled, a node mounts volumes noexec) the attempt is withdrawn, and the next one starts
//! without it, as others in its namespace do for a while (`supervisors.rs`): what the pool adds is never a user's failure.

use super::known::Known;
use crate::values::{Reason, Supervised, Supervision};

/// Whether an attempt that is decided on now runs under the supervisor, and why; none where nobody asks.
#[must_use]
pub(crate) fn of_start(known: &Known<'_>) -> Option<Supervised> {
    let pool = known.settings.ok()?.supervisor.as_ref();
    let wish = known.sj.spec.as_ref().ok()?.supervision;
    let because = |why: Supervision, message: String| Some(Supervised { why, message, since: known.now });
    let Some(pool) = pool else {
        let message = "the ScavengerPool names no supervisor (spec.supervisor)".to_owned();
        return (wish.enabled == Some(true)).then(|| because(Supervision::NotInPool, message)).flatten();
    };
    match wish.enabled {
        Some(false) => {
            return because(Supervision::SwitchedOff, "spec.supervisor.enabled is false".to_owned());
        }
        None if !pool.by_default => {
            let message = "spec.supervisor.default of the ScavengerPool is Off; set spec.supervisor.enabled";
            return because(Supervision::SwitchedOff, message.to_owned());
        }
        _ => {}
    }
    if !wish.has_command {
        let message = "the supervisor needs spec.command, since it cannot know the image's ENTRYPOINT";
        return because(Supervision::NoCommand, message.to_owned());
    }
    let last = known.sj.status.attempt.as_ref();
    if let Some(failed) = last.filter(|attempt| attempt.reason == Some(Reason::SupervisorNotStarted)) {
        return because(Supervision::NotStarted, failed.message.clone().unwrap_or_default());
    }
    if let Some(message) = known.supervisor_hold {
        return because(Supervision::NotStarted, message.to_owned());
    }
    because(Supervision::Supervised, String::new())
}
