//! What people ask of rows that are there: in which states it can be asked, and what is said otherwise.

use crate::simulation::State;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What is done, as people say it.
    pub verb: &'static str,
    /// The states that a row may be in when it is asked.
    pub states: &'static [State],
    /// Why it cannot be asked of another row, whose state stands for `{state}`.
    refusal: &'static str,
}

/// Stop it for good.
pub const CANCEL: Request = Request {
    verb: "cancel",
    states: &[
        State::Queued,
        State::Inspecting,
        State::Tuning,
        State::Submitted,
        State::Running,
        State::Interrupted,
    ],
    refusal: "it is {state} already",
};

/// Go on from its last checkpoint.
pub const RETRY: Request = Request {
    verb: "retry",
    states: &[State::Failed, State::Cancelled],
    refusal: "it is {state}; only failed and cancelled rows can be tried again",
};

/// Do not begin it until it is released.
pub const HOLD: Request = Request {
    verb: "hold",
    states: &[State::Queued],
    refusal: "it is {state}; only queued rows can be held and released",
};

/// Let it begin.
pub const RELEASE: Request = Request { verb: "release", ..HOLD };

/// Delete it, with its history.
pub const REMOVE: Request = Request {
    verb: "remove",
    states: &[State::Completed, State::Failed, State::Cancelled],
    refusal: "it is {state}; only completed, failed and cancelled rows can be removed: cancel it first",
};

/// All of them.
pub const REQUESTS: [Request; 5] = [CANCEL, RETRY, HOLD, RELEASE, REMOVE];

/// What is said of a row that is not there.
pub const NO_ROW: &str = "there is no such row";

impl Request {
    /// True if a row in `state` can be asked for it; of a state that this program does not know nothing is asked.
    #[must_use]
    pub fn is_possible(&self, state: &str) -> bool {
        state.parse::<State>().is_ok_and(|state| self.states.contains(&state))
    }

    /// Why a row in `state` cannot be asked for it; none if there is no such row.
    #[must_use]
    pub fn refusal(&self, state: Option<&str>) -> String {
        state.map_or_else(|| NO_ROW.to_owned(), |state| self.refusal.replace("{state}", state))
    }

    /// The text of a refusal, in which `{state}` stands for the state of the row.
    #[must_use]
    pub fn refusal_text(&self) -> &'static str {
        self.refusal
    }
}
