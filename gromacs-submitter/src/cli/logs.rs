//! `logs`: what the newest attempt of a row printed, or what is left of it.

use std::io::Write as _;

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use scavenger_schema::names;
use scavenger_schema::simulation::State;
use scavenger_schema::terminal::is_unsafe;

use super::reader::{SHORT, find, with_reader};
use super::text::{print_note, shown};
use super::{Outcome, print_error};
use crate::cluster::Access;
use crate::config::{AttemptNumber, Database, LogsOptions};
use crate::folder::{because, end_command};
use crate::manifest::Probe;
use crate::store::{AttemptLog, RowFolder};

/// Lines of the end of md.log.
const LINES: u32 = 100;

pub(super) async fn exec(database: &Database, options: &LogsOptions) -> anyhow::Result<Outcome> {
    let Some((folder, attempts)) = find(database, options.row).await? else { return Ok(Outcome::Failed) };
    let ran = !attempts.is_empty() || may_run(&folder);
    if !ran && (options.mdrun || options.attempt.is_some() || is_queued(&folder)) {
        print_error(&has_not_run(&folder));
        return Ok(Outcome::Failed);
    }
    if let Some(simulation) = options.simulation.as_ref().filter(|name| !folder.multidir.contains(name)) {
        print_error(&no_simulation(&folder, simulation));
        return Ok(Outcome::Failed);
    }
    if options.mdrun {
        return end_of_mdrun_log(&folder, options).await;
    }
    let access = Access::connect(&options.reading.kubernetes, &folder.namespace).await?;
    let pods = access.pods_of(&access.jobs_of(&folder.uuid).await?).await?;
    if let Some(Printed { what, pod }) = choose(&folder, &pods, options.attempt) {
        let Some(log) = access.log(&pod, options.follow, options.lines).await? else {
            print_error(&format!(
                "{what} of row {} has printed nothing yet: its pod {pod} starts; try again in a moment",
                folder.id
            ));
            return Ok(Outcome::Failed);
        };
        if what == INSPECTION {
            print_note(&format!("what {what} of row {} printed", folder.id));
        }
        print_log(log).await?;
        return Ok(Outcome::Done);
    }
    if let Some(wanted) = options.attempt {
        return Ok(print_end(&folder, &attempts, wanted));
    }
    if attempts.is_empty() {
        print_error(&has_not_run(&folder));
        return Ok(Outcome::Failed);
    }
    print_note(&format!("the pods of row {} are gone, and their output with them", folder.id));
    end_of_mdrun_log(&folder, options).await
}

/// True if the row may have a pod of which the database does not know yet.
fn may_run(folder: &RowFolder) -> bool {
    matches!(folder.state.parse(), Ok(State::Submitted | State::Running | State::Interrupted))
}

/// True if nothing of the row was ever in the cluster.
fn is_queued(folder: &RowFolder) -> bool {
    matches!(folder.state.parse(), Ok(State::Queued)) && folder.submission == 1
}

fn has_not_run(folder: &RowFolder) -> String {
    format!("row {} has not run: it is {}{}", folder.id, folder.state, because(folder.reason.as_deref()))
}

fn no_simulation(folder: &RowFolder, wanted: &str) -> String {
    let (row, wanted) = (folder.id, shown(wanted));
    if folder.multidir.is_empty() {
        return format!("row {row} is one simulation; leave --simulation {wanted} out");
    }
    let folders: Vec<String> = folder.multidir.iter().map(|name| shown(name)).collect();
    format!("row {row} has no simulation {wanted}; it has {}", folders.join(", "))
}

/// Of what a row that has not run may have a pod: its .tpr file is read, or made and read.
const INSPECTION: &str = "the inspection";

/// What is printed.
#[derive(Debug, PartialEq, Eq)]
struct Printed {
    /// Of what it is.
    what: String,
    /// The pod.
    pod: String,
}

/// Of the row's pods, that of the attempt that is wanted; if none is named, the newest one that there is. The inspection is
/// gone before anything is submitted: one that is newer than all attempts is why the row does not go on.
fn choose(folder: &RowFolder, pods: &[Pod], wanted: Option<AttemptNumber>) -> Option<Printed> {
    let label = |pod: &Pod, name: &str| -> Option<String> { pod.labels().get(name).map(ToOwned::to_owned) };
    let numbered = pods.iter().filter_map(|pod| {
        let submission = folder.names().submission_of(&label(pod, names::LABEL_JOB)?)?;
        let attempt: i32 = label(pod, names::LABEL_ATTEMPT)?.parse().ok()?;
        Some(((submission, attempt), pod))
    });
    let is_wanted = |&(submission, attempt): &(i32, i32)| {
        wanted.is_none_or(|wanted| {
            wanted.attempt == attempt && wanted.submission.unwrap_or(folder.submission) == submission
        })
    };
    let attempt = numbered.filter(|(number, _)| is_wanted(number)).max_by_key(|(number, _)| *number);
    let inspection = folder.names().probe(Probe::Inspection);
    let inspected = pods
        .iter()
        .filter(|pod| wanted.is_none() && label(pod, names::LABEL_JOB).as_ref() == Some(&inspection));
    let newest = inspected.max_by_key(|pod| pod.creation_timestamp());
    match (attempt, newest) {
        (Some((_, pod)), Some(newest)) if newest.creation_timestamp() > pod.creation_timestamp() => {
            Some(Printed { what: INSPECTION.to_owned(), pod: newest.name_any() })
        }
        (Some(((submission, attempt), pod)), _) => {
            Some(Printed { what: format!("attempt {submission}.{attempt}"), pod: pod.name_any() })
        }
        (None, newest) => {
            newest.map(|newest| Printed { what: INSPECTION.to_owned(), pod: newest.name_any() })
        }
    }
}

/// What the database kept of an attempt without a pod.
fn print_end(folder: &RowFolder, attempts: &[AttemptLog], wanted: AttemptNumber) -> Outcome {
    let row = folder.id;
    let submission = wanted.submission.unwrap_or(folder.submission);
    let found =
        attempts.iter().find(|known| known.submission == submission && known.attempt == wanted.attempt);
    match found.map(|known| known.log_end.as_deref()) {
        None => {
            print_error(&format!(
                "row {row} has no attempt {wanted}; `gromacs-submitter show {row}` lists them"
            ));
            Outcome::Failed
        }
        Some(None) => {
            print_error(&format!(
                "the pod of attempt {wanted} of row {row} is gone, and its output with it; `gromacs-submitter logs \
                 {row} --mdrun` prints the end of md.log"
            ));
            Outcome::Failed
        }
        Some(Some(end)) => {
            print_note(&format!("the pod of attempt {wanted} is gone; these are its last lines"));
            let _ = print(&Safe::default().take(format!("{}\n", end.trim_end()).as_bytes()));
            Outcome::Done
        }
    }
}

/// The end of mdrun's log on the volume.
async fn end_of_mdrun_log(folder: &RowFolder, options: &LogsOptions) -> anyhow::Result<Outcome> {
    let lines = options.lines.unwrap_or(LINES);
    let read = with_reader(folder, &options.reading, SHORT, async |reader| {
        reader.output(folder, end_command(folder, lines, options.simulation.as_deref())).await
    });
    let printed = read.await?;
    let end = printed.iter().position(|byte| *byte == b'\n').map_or(printed.len(), |end| end + 1);
    let name = String::from_utf8_lossy(&printed[..end]);
    let claim = &folder.persistent_volume_claim;
    print_note(&format!("the end of {}/{} on volume {claim}", folder.path(), shown(name.trim_end())));
    let _ = print(&Safe::default().take(&printed[end..]));
    Ok(Outcome::Done)
}

async fn print_log(log: impl AsyncBufRead) -> anyhow::Result<()> {
    futures::pin_mut!(log);
    let mut safe = Safe::default();
    loop {
        let piece = log.fill_buf().await?;
        let length = piece.len();
        // A reader that closed stdout (`| head`) wants no more of it.
        if length == 0 || print(&safe.take(piece)).is_err() {
            return Ok(());
        }
        log.consume_unpin(length);
    }
}

fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Makes what a program printed safe for a terminal, piece by piece. mdrun writes its progress over itself; here each is a
/// line.
#[derive(Default)]
struct Safe {
    /// The beginning of a character whose end has not come yet.
    cut: Vec<u8>,
}

impl Safe {
    fn take(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.cut);
        bytes.extend_from_slice(piece);
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) => bytes.len(),
            // What is wrong in the middle is replaced, and so is what is cut off behind it.
            Err(_) => bytes.len(),
        };
        self.cut = bytes.split_off(whole);
        String::from_utf8_lossy(&bytes)
            .chars()
            .map(|character| match character {
                '\n' | '\t' => character,
                '\r' => '\n',
                _ if is_unsafe(character) => '\u{fffd}',
                _ => character,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::row_folder;

    fn pod(name: &str, job: &str, attempt: &str) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": name, "labels": {
            "scavenger.dev/job": job, "scavenger.dev/attempt": attempt,
        } } }))
        .expect("should be a pod")
    }

    #[test]
    fn a_simulation_that_a_row_does_not_have_is_an_error() {
        let one = row_folder();
        assert_eq!(no_simulation(&one, "sim0"), "row 7 is one simulation; leave --simulation sim0 out");
        let several = RowFolder { multidir: ["sim0", "sim1"].map(ToOwned::to_owned).to_vec(), ..one };
        assert_eq!(no_simulation(&several, "sim2"), "row 7 has no simulation sim2; it has sim0, sim1");
    }

    #[test]
    fn the_newest_attempt_is_printed_unless_another_is_wanted() {
        let pods = [
            pod("a", "gromacs-7-2", "2"),
            pod("b", "gromacs-7-2", "10"),
            pod("c", "gromacs-7-1", "11"),
            pod("e", "gromacs-7-inspect", "13"),
        ];
        let folder = RowFolder { submission: 2, ..row_folder() };
        let chosen = |wanted: Option<&str>| {
            let wanted = wanted.map(|wanted| wanted.parse().expect("should be an attempt"));
            choose(&folder, &pods, wanted).map(|Printed { what, pod }| format!("{what} {pod}"))
        };
        assert_eq!(chosen(None).as_deref(), Some("attempt 2.10 b"));
        assert_eq!(chosen(Some("2")).as_deref(), Some("attempt 2.2 a"));
        assert_eq!(chosen(Some("1.11")).as_deref(), Some("attempt 1.11 c"));
        assert_eq!(chosen(Some("1.1")), None);
    }

    #[test]
    fn the_inspection_is_printed_where_the_row_does_not_go_on_because_of_it() {
        let at = |pod: Pod, second: i64| {
            let time = jiff::Timestamp::from_second(second).expect("should be a time");
            let mut pod = pod;
            pod.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
            pod
        };
        let inspection = |name: &str, second: i64| at(pod(name, "gromacs-7-inspect", "1"), second);
        let attempt = at(pod("a", "gromacs-7-1", "1"), 100);
        let chosen = |pods: &[Pod], wanted: Option<&str>| {
            let wanted = wanted.map(|wanted| wanted.parse().expect("should be an attempt"));
            choose(&row_folder(), pods, wanted).map(|Printed { what, pod }| format!("{what} {pod}"))
        };
        assert_eq!(
            chosen(&[inspection("i", 50), inspection("j", 60)], None).as_deref(),
            Some("the inspection j")
        );
        assert_eq!(chosen(&[attempt.clone(), inspection("i", 50)], None).as_deref(), Some("attempt 1.1 a"));
        assert_eq!(
            chosen(&[attempt.clone(), inspection("i", 150)], None).as_deref(),
            Some("the inspection i"),
            "a retry reads the file again"
        );
        assert_eq!(chosen(&[attempt, inspection("i", 150)], Some("1.1")).as_deref(), Some("attempt 1.1 a"));
        assert_eq!(chosen(&[pod("x", "gromacs-70-inspect", "1")], None), None);
    }

    #[test]
    fn a_row_that_has_not_run_says_what_it_waits_for() {
        assert_eq!(has_not_run(&row_folder()), "row 7 has not run: it is queued: waits for its turn");
        let without = RowFolder { reason: None, state: "tuning".to_owned(), ..row_folder() };
        assert_eq!(has_not_run(&without), "row 7 has not run: it is tuning");
    }

    #[test]
    fn a_log_moves_no_cursor_and_progress_is_a_line_each() {
        let mut safe = Safe::default();
        let text = "step 1\rstep 2\n\u{1b}[2Jwässer\tx\n".as_bytes();
        // Cut in the middle of a character.
        let cut = text.iter().position(|byte| *byte == 0xc3).expect("should have one") + 1;
        let printed = safe.take(&text[..cut]) + &safe.take(&text[cut..]);
        assert_eq!(printed, "step 1\nstep 2\n\u{fffd}[2Jwässer\tx\n");
        assert_eq!(Safe::default().take(b"a\xffb"), "a\u{fffd}b");
    }
}
