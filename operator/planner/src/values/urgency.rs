//! Which of the actions that are planned goes next, while more wait than are carried out at the same time.

use std::collections::BTreeMap;

use super::action::{Action, Task};

/// How urgent a task is, most urgent first. Each step of a start goes before the one ahead of it, so that those that
/// began are through before others begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Somebody waits for the room.
    Stops,
    /// The end of an attempt: it gives room back.
    Ends,
    /// The Job of an attempt.
    Creates,
    /// An attempt begins, or is said to run.
    Writes,
    /// What must be known before something is done.
    Reads,
    /// News for people.
    Tells,
}

impl Urgency {
    /// That of a task.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        match task {
            Task::Interrupt { .. } | Task::DeleteAgain { .. } | Task::DeleteJob { .. } => Self::Stops,
            // The order to interrupt: the pods are evicted only after it is on record.
            Task::WriteStatus(write) if write.orders_interruption() => Self::Stops,
            // Without an event it only adds what was found out about an attempt that ended before.
            Task::WriteStatus(write) if write.ended.is_some() && write.event.is_some() => Self::Ends,
            Task::CreateJob { .. } => Self::Creates,
            Task::WriteStatus(write) if write.status.phase.is_active() => Self::Writes,
            Task::Prepare { .. }
            | Task::ReadJob { .. }
            | Task::LookForJob { .. }
            | Task::ListPods { .. }
            | Task::ReadPodEvents { .. }
            | Task::DeleteScavengerJob { .. }
            | Task::RemoveFinalizer { .. } => Self::Reads,
            Task::WriteStatus(_) => Self::Tells,
        }
    }
}

/// So many that came later does an action let past for each degree by which it is less urgent than they are. No action
/// waits without end: while one waits nothing else can be done about its ScavengerJob, not even what is most urgent.
const LET_PAST: u64 = 256;

/// Actions that wait for one of those under way to end.
#[derive(Debug, Default)]
pub struct Line {
    /// By their turn, and by when they came.
    actions: BTreeMap<(u64, u64), Action>,
    joined: u64,
}

impl Line {
    /// An action joins the line.
    pub fn join(&mut self, action: Action) {
        self.joined += 1;
        let turn = match Urgency::of(&action.task) {
            // Somebody waits for the capacity, however many others came before.
            Urgency::Stops => 0,
            urgency => self.joined + LET_PAST * (urgency as u64),
        };
        self.actions.insert((turn, self.joined), action);
    }

    /// True while an action waits.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Takes the action that goes next.
    pub fn take(&mut self) -> Option<Action> {
        self.actions.pop_first().map(|(_, action)| action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Key;

    fn action(name: &str, task: Task) -> Action {
        Action { sj: Key::new("lab", name), uid: name.into(), task }
    }

    fn names(mut line: Line) -> Vec<String> {
        std::iter::from_fn(|| line.take()).map(|action| action.sj.name.to_string()).collect()
    }

    #[test]
    fn what_frees_room_goes_before_what_takes_it() {
        let mut line = Line::default();
        line.join(action("prepares", Task::Prepare { resource_version: 1 }));
        line.join(action(
            "creates",
            Task::CreateJob {
                attempt: 1,
                priority_class: 0,
                confinement: Box::default(),
                supervisor: None,
                by_use: None,
            },
        ));
        line.join(action("prepares too", Task::Prepare { resource_version: 1 }));
        line.join(action("stops", Task::Interrupt { pods: Vec::new() }));
        assert_eq!(names(line), ["stops", "creates", "prepares", "prepares too"]);
    }

    #[test]
    fn no_action_waits_without_end() {
        let mut line = Line::default();
        line.join(action("prepares", Task::Prepare { resource_version: 1 }));
        for _ in 0..10 * LET_PAST {
            line.join(action(
                "creates",
                Task::CreateJob {
                    attempt: 1,
                    priority_class: 0,
                    confinement: Box::default(),
                    supervisor: None,
                    by_use: None,
                },
            ));
        }
        let before = names(line).iter().position(|name| name == "prepares");
        assert!(before.is_some_and(|before| before as u64 <= 2 * LET_PAST), "{before:?} went before it");
    }
}
