//! What a change of the pool does, beside what would happen anyway.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::play::Happening;

/// With which pool something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum DueTo {
    /// With the change alone: it does that.
    Change,
    /// Without the change alone: it prevents that.
    OnlyWithout,
    /// With the change and without.
    Anyway,
}

/// Something that happens, and when without the change.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) happening: Happening,
    /// None if no change is played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due_to: Option<DueTo>,
    /// How long after the snapshot it happens without the change, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) without_change_seconds: Option<i64>,
}

/// Puts what happens without a change and with it side by side, in the order of time. What happens to a ScavengerJob for the first
/// time with the change is the same as what happens to it for the first time without, and so on, whenever that is: it is not
/// harmed more often.
pub(super) fn rows(unchanged: &[Happening], changed: Option<&[Happening]>) -> Vec<Row> {
    let row = |happening: &Happening, due_to, without: Option<i64>| Row {
        happening: happening.clone(),
        due_to,
        without_change_seconds: without,
    };
    let Some(changed) = changed else {
        return unchanged.iter().map(|happening| row(happening, None, None)).collect();
    };
    let what = |happening: &Happening| (happening.scavenger_job.clone(), happening.event);
    let mut without: BTreeMap<_, VecDeque<&Happening>> = BTreeMap::new();
    for happening in unchanged {
        without.entry(what(happening)).or_default().push_back(happening);
    }
    let mut rows = Vec::new();
    for happening in changed {
        let same = without.get_mut(&what(happening)).and_then(VecDeque::pop_front);
        let due_to = same.map_or(DueTo::Change, |_| DueTo::Anyway);
        rows.push(row(happening, Some(due_to), same.map(|same| same.seconds)));
    }
    let prevented = without.into_values().flatten();
    rows.extend(prevented.map(|happening| row(happening, Some(DueTo::OnlyWithout), Some(happening.seconds))));
    rows.sort_by_key(|row| row.happening.seconds);
    rows
}

#[cfg(test)]
mod tests {
    use scavenger_planner::action::Event;

    use super::*;

    fn happening((seconds, name, event): &(i64, &str, Event)) -> Happening {
        Happening {
            seconds: *seconds,
            scavenger_job: (*name).to_owned(),
            event: *event,
            reason: String::new(),
            message: String::new(),
            lost_core_seconds: 0.0,
            nodes: Vec::new(),
        }
    }

    #[test]
    fn what_happens_anyway_is_not_due_to_the_change() {
        let run =
            |happenings: &[(i64, &str, Event)]| happenings.iter().map(happening).collect::<Vec<Happening>>();
        let without =
            run(&[(5, "a", Event::Interrupted), (9, "b", Event::Interrupted), (9, "c", Event::Started)]);
        let with = run(&[
            (2, "a", Event::Started),
            (3, "a", Event::Interrupted),
            (4, "a", Event::Interrupted),
            (9, "c", Event::Started),
        ]);
        let rows = rows(&without, Some(&with));
        let said = rows.iter().map(|row| {
            let Row { happening, due_to, without_change_seconds } = row;
            (happening.seconds, &*happening.scavenger_job, due_to.unwrap(), *without_change_seconds)
        });
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                (2, "a", DueTo::Change, None),
                (3, "a", DueTo::Anyway, Some(5)),
                (4, "a", DueTo::Change, None),
                (9, "c", DueTo::Anyway, Some(9)),
                (9, "b", DueTo::OnlyWithout, Some(9)),
            ]
        );
    }
}
