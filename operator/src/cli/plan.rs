//! `scavenger-operator plan`: what the operator would do now.

use std::{collections::BTreeMap, fmt::Write as _};

use jiff::{SignedDuration, Timestamp};
use scavenger_planner::{
    action::{Action, StatusWrite, Task},
    report::HeldBack,
};
use scavenger_schema::terminal::shown;
use scavenger_vocabulary::number_of;

use super::{
    snapshot::Source,
    text::{Output, age, json_lines},
};

/// Show what the operator would do, and do nothing
///
/// Looks at the cluster once (or at a snapshot of it) the way a starting operator does, plans, and prints the actions:
/// those that start, stop or end something one by one, those that only tell why something waits as counts.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,

    /// How to print the actions
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

pub(super) async fn exec(options: &Options) -> anyhow::Result<()> {
    let snapshot = options.source.read().await?;
    let mut planner = snapshot.planner();
    let plan = planner.plan(snapshot.time);
    let text = match options.output {
        Output::Text => table(&plan.actions) + &held_back(&planner.held_back(snapshot.time), snapshot.time),
        Output::Json => json_lines(&plan.actions)?,
    };
    snapshot.print(options.output, &text)
}

fn table(actions: &[Action]) -> String {
    let mut rows = Vec::new();
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    for action in actions {
        if let Task::WriteStatus(write) = &action.task
            && let Some(reason) = only_tells(write)
        {
            *told.entry(reason).or_default() += 1;
        } else {
            // Messages hold the last words of containers, and events.
            rows.push((action.sj.to_string(), shown(&describe(&action.task))));
        }
    }
    if rows.is_empty() && told.is_empty() {
        return "nothing is to be done\n".to_owned();
    }
    let width = rows.iter().map(|(sj, _)| sj.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (sj, task) in rows {
        writeln!(text, "{sj:width$}  {task}").expect("writing to a string should not fail");
    }
    for (reason, count) in told {
        writeln!(text, "{count} would get the reason why they wait: {reason}")
            .expect("writing to a string should not fail");
    }
    text
}

/// Interruptions that budgets of the pool hold back, as counts.
fn held_back(held: &[HeldBack<'_>], now: Timestamp) -> String {
    let line = |held: &HeldBack<'_>| {
        let jobs = number_of(held.jobs.len(), "ScavengerJob");
        format!("{jobs} to be interrupted for {}: {}\n", held.reason, next_by_budget(held.next, now))
    };
    held.iter().map(line).collect()
}

/// When a budget allows the next interruption.
pub(super) fn next_by_budget(next: Option<Timestamp>, now: Timestamp) -> String {
    match next.map(|time| time.duration_since(now)) {
        Some(wait) if wait > SignedDuration::ZERO => {
            format!("disruptionBudgets of the pool allow the next one in {}", age(wait))
        }
        Some(_) => "disruptionBudgets of the pool allow the next one now".to_owned(),
        None => "disruptionBudgets of the pool allow none".to_owned(),
    }
}

/// The reason, if a status write only tells why a ScavengerJob waits.
fn only_tells(write: &StatusWrite) -> Option<&'static str> {
    let waiting = write.status.admitted.as_ref()?.waiting.as_ref()?;
    (write.ended.is_none() && write.event.is_none()).then(|| waiting.reason.name())
}

/// What a task does, in words.
pub(super) fn describe(task: &Task) -> String {
    match task {
        Task::Prepare { .. } => "start: look up what it refers to, then begin an attempt".to_owned(),
        Task::WriteStatus(write) => {
            let phase = write.status.phase.name();
            format!("write status {phase}: {}", write.status.message)
        }
        Task::CreateJob { attempt, .. } => format!("create the Job of attempt {attempt}"),
        Task::LookForJob { attempt } => format!("look for the Job of attempt {attempt}, whose pods are left"),
        Task::ReadJob { job, .. } => format!("read Job {:?}, which no watch has shown yet", &*job.name),
        Task::ListPods { .. } => "list its pods, to be sure what became of them".to_owned(),
        Task::DeleteJob { job, .. } => format!("delete Job {:?} and its pods", &*job.name),
        Task::Interrupt { pods } => match &pods[..] {
            [(pod, _)] => format!("evict pod {}", pod.name),
            pods => format!("evict its {} pods", pods.len()),
        },
        Task::DeleteAgain { pods } => {
            let names: Vec<&str> = pods.iter().map(|(pod, ..)| &*pod.name).collect();
            format!("delete {} again: its own grace period is over", names.join(", "))
        }
        Task::ReadPodEvents { .. } => "read the events of its pods, to know what keeps them".to_owned(),
        Task::DeleteScavengerJob { .. } => "delete it: its ttlSecondsAfterFinished is over".to_owned(),
        Task::RemoveFinalizer { .. } => "let its deletion go on, if no pod of it is left".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use scavenger_planner::values::Key;

    use super::*;

    #[test]
    fn the_last_words_of_a_container_reach_no_terminal_as_they_are() {
        use scavenger_planner::values::ScavengerJobStatus;

        let status = ScavengerJobStatus {
            message: "evil\u{1b}[2J\nchem/a  forged".to_owned(),
            ..ScavengerJobStatus::default()
        };
        let write = StatusWrite { resource_version: 1, status, ended: None, event: None };
        let task = Task::WriteStatus(Box::new(write));
        let action = Action { sj: Key::new("chem", "water"), uid: "u".into(), task };
        assert_eq!(table(&[action]), "chem/water  write status Waiting: evil\u{fffd}[2J chem/a  forged\n");
    }

    #[test]
    fn what_budgets_hold_back_is_counted() {
        let reason = scavenger_vocabulary::Reason::NodeLeftPool;
        let jobs =
            |count: usize| (0..count).map(|i| (Key::new("chem", i.to_string()), String::new())).collect();
        let (one, two) = (jobs(1), jobs(2));
        let now = Timestamp::UNIX_EPOCH;
        let held = |jobs, next| HeldBack { reason: &reason, jobs, next };
        let later = now + SignedDuration::from_mins(5);
        assert_eq!(
            held_back(&[held(&one, Some(later)), held(&two, None)], now),
            "1 ScavengerJob to be interrupted for NodeLeftPool: disruptionBudgets of the pool allow the next one in 5m0s\n\
             2 ScavengerJobs to be interrupted for NodeLeftPool: disruptionBudgets of the pool allow none\n"
        );
    }

    #[test]
    fn actions_are_told_in_words() {
        let action = |name: &str, task| Action { sj: Key::new("chem", name), uid: "u".into(), task };
        let job = Key::new("chem", "water-2");
        let actions = [
            action("water", Task::DeleteJob { job, uid: "c".into() }),
            action("a", Task::Prepare { resource_version: 1 }),
        ];
        assert_eq!(
            table(&actions),
            "chem/water  delete Job \"water-2\" and its pods\n\
             chem/a      start: look up what it refers to, then begin an attempt\n"
        );
        assert_eq!(table(&[]), "nothing is to be done\n");
    }
}
