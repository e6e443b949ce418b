//! The proofs at the end of the demo, from the files that mdrun wrote and from what the submitter recorded.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use scavenger_vocabulary::Reason;
use serde_json::{Value, json};

use super::queue::{Attempt, Queue, Row};
use super::stage::Stage;
use crate::{images::Image, progress::Task};

/// Seconds that an attempt may lose although no step is computed twice: those in which mdrun started.
const MOST_LOST: i64 = 10;

/// Prints, for each folder given as an argument, what the checks need: gmx's opinion of the energies, and the lines of
/// md.log that tell where mdrun stopped and began.
const SCRIPT: &str = r#"
for folder in "$@"; do
    echo "== $folder"
    gmx -quiet check -e "$folder/ener.edr" 2>&1 | tr '\r' '\n' | grep -E "don't match|Last energy frame|Found .* frames|rror" || true
    awk '/Writing checkpoint, step/ { print "checkpoint", $4 }
         /Restarting from checkpoint/ { print "restart" }
         next_is_step { print "step", $1; next_is_step = 0 }
         /^ +Step +Time$/ { next_is_step = 1 }' "$folder/md.log"
done
"#;

/// Checks everything that the demo promises.
pub(super) fn everything(stage: &Stage, queue: &Queue<'_>, rows: &[Row]) -> Result<()> {
    let task = Task::start("checking the results");
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let attempts = queue.attempts(&ids)?;
    let folders: Vec<String> = rows.iter().map(folder).collect();
    let report = report(stage, &folders)?;
    let jobs = stage.access.kubectl_output(&[
        "get",
        "scavengerjobs",
        "--namespace",
        stage.chemists,
        "--output=json",
    ])?;
    let jobs: Value = serde_json::from_str(&jobs).context("kubectl printed no JSON")?;
    let mut wrong = Vec::new();
    let mut facts = String::new();
    for (row, folder) in rows.iter().zip(&folders) {
        let of_row: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.row_id == row.id).collect();
        match check(row, &of_row, section(&report, folder)) {
            Ok(fact) => {
                let lost = lost_seconds(&jobs, row.id);
                if let Err(error) = lost_agrees(row, lost) {
                    wrong.push(format!("{}: {error:#}", row.tpr_path));
                }
                let lost =
                    lost.map_or_else(|| "loss not measured".to_owned(), |lost| format!("lost {lost} s"));
                writeln!(facts, "  {}: {fact}; {lost}", row.tpr_path)
                    .expect("writing to a string should not fail");
            }
            Err(error) => wrong.push(format!("{}: {error:#}", row.tpr_path)),
        }
    }
    if !rows.iter().any(|row| row.configuration_number.is_some_and(|rung| rung > 1)) {
        wrong.push("no row came down from its first configuration".to_owned());
    }
    if !attempts.iter().any(|attempt| attempt.reason.as_deref() == Some(Reason::PreemptionByScheduler.name()))
    {
        wrong.push("no simulation was preempted by kube-scheduler".to_owned());
    }
    if !wrong.is_empty() {
        bail!("the demo did not end well:\n  {}", wrong.join("\n  "));
    }
    task.done("every simulation is complete and continuous");
    print!("{facts}");
    Ok(())
}

/// `lost_seconds` of `gromacs-submitter list` is what the supervisors measured, and that is nothing beside the starts: md.log
/// shows no step that was computed twice.
fn lost_agrees(row: &Row, measured: Option<i64>) -> Result<()> {
    if row.lost_seconds != measured {
        bail!(
            "gromacs-submitter list says that {:?} s were lost, and the ScavengerJobs say {measured:?}",
            row.lost_seconds
        );
    }
    if let Some(lost) = measured.filter(|lost| *lost > MOST_LOST * (row.interruptions + 1)) {
        bail!("{lost} s were lost, and md.log shows no step twice");
    }
    Ok(())
}

/// Seconds that the supervisors of a row's attempts measured as lost; none if one measured nothing.
fn lost_seconds(jobs: &Value, row: i64) -> Option<i64> {
    let of_row = |job: &&Value| {
        let name = job["metadata"]["name"].as_str().unwrap_or_default();
        let submission = name.strip_prefix(&format!("gromacs-{row}-"));
        submission.is_some_and(|submission| submission.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let jobs = jobs["items"].as_array()?.iter().filter(of_row);
    // Those that were withdrawn have computed nothing.
    let ran = jobs.filter_map(|job| job["status"]["attempts"].as_array()).flatten();
    let mut ran = ran.filter(|attempt| attempt["outcome"] != "Withdrawn").peekable();
    ran.peek()?;
    ran.map(|attempt| attempt["lostSeconds"].as_i64()).sum()
}

/// Folder of a row's files, beside its run input.
fn folder(row: &Row) -> String {
    let parent = row.tpr_path.rsplit_once('/').map_or("", |(parent, _)| parent);
    format!("/data/{parent}/gromacs-{}", row.id)
}

/// Runs the script in a pod with the GROMACS image.
fn report(stage: &Stage, folders: &[String]) -> Result<String> {
    let mut args = vec![SCRIPT.to_owned(), "check".to_owned()];
    args.extend(folders.iter().cloned());
    let namespace = stage.chemists;
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "check", "namespace": namespace },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "check", "image": Image::Gromacs.reference(), "imagePullPolicy": "IfNotPresent",
                "command": ["bash", "-c"], "args": args,
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
                "volumeMounts": [{ "name": "data", "mountPath": "/data", "readOnly": true }],
            }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "simulations" } }],
        },
    });
    stage.fit_pod(&mut pod["spec"]);
    stage.access.kubectl_with_input(
        &["replace", "--force", "--grace-period=1", "-f", "-"],
        pod.to_string().as_bytes(),
    )?;
    let wait = [
        "wait",
        "--namespace",
        namespace,
        "--for=jsonpath={.status.phase}=Succeeded",
        "--timeout=120s",
        "pod/check",
    ];
    stage.access.kubectl_output(&wait).context("the pod that checks the results did not succeed")?;
    stage.access.kubectl_output(&["logs", "--namespace", namespace, "check"])
}

/// The part of the report that speaks of one folder.
fn section<'a>(report: &'a str, folder: &str) -> &'a str {
    let Some((_, rest)) = report.split_once(&format!("== {folder}\n")) else { return "" };
    rest.split("== ").next().unwrap_or_default()
}

/// Checks one simulation; returns a sentence about it.
fn check(row: &Row, attempts: &[&Attempt], report: &str) -> Result<String> {
    if row.state != "completed" {
        bail!("the row is {}: {}", row.state, row.reason.as_deref().unwrap_or("no reason given"));
    }
    let last_step = row.last_step.context("the row has no number of steps")?;
    if row.step != Some(last_step) {
        bail!("it ended at step {:?}, not {last_step}", row.step);
    }
    if let Some(line) = report.lines().find(|line| line.contains("don't match") || line.contains("rror")) {
        bail!("gmx check finds the energies not continuous: {}", line.trim());
    }
    let frames = report.lines().find(|line| line.contains("Found")).context("gmx check found no energies")?;
    let journey = Journey::read(report)?;
    if journey.restarts.len() != usize::try_from(row.interruptions)? {
        bail!(
            "mdrun was restarted {} times after {} interruptions",
            journey.restarts.len(),
            row.interruptions
        );
    }
    if journey.last_step != Some(last_step) {
        bail!("md.log ends at step {:?}, not {last_step}", journey.last_step);
    }
    // What the submitter recorded must agree with what mdrun wrote.
    for (number, checkpoint) in journey.restarts.iter().enumerate() {
        let next = attempts.get(number + 1).context("an attempt was not recorded")?;
        let first = next
            .first_step
            .with_context(|| format!("no one recorded at which step attempt {} began", number + 2))?;
        if first < *checkpoint {
            bail!("attempt {} began at step {first}, before checkpoint {checkpoint}", number + 2);
        }
    }
    let resumed = match journey.restarts.as_slice() {
        [] => "not interrupted".to_owned(),
        steps => format!(
            "interrupted and resumed at step {}, nothing computed twice",
            steps.iter().map(i64::to_string).collect::<Vec<_>>().join(" and ")
        ),
    };
    let ends: Vec<&str> = attempts.iter().filter_map(|attempt| attempt.outcome.as_deref()).collect();
    let reached = attempts.last().and_then(|attempt| attempt.last_step).unwrap_or(last_step);
    Ok(format!(
        "step {reached} of {last_step}; {resumed}; energies continuous ({}); {}",
        frames.trim(),
        ends.join(", ")
    ))
}

/// What md.log tells about where mdrun stopped and began.
#[derive(Debug, PartialEq, Eq)]
struct Journey {
    /// The checkpoint of each restart.
    restarts: Vec<i64>,
    /// The last step that was written down.
    last_step: Option<i64>,
}

impl Journey {
    /// Reads the lines of the script.
    ///
    /// # Errors
    /// If a step was computed again that a checkpoint had covered, or lies behind one that was never reached.
    fn read(report: &str) -> Result<Self> {
        let mut journey = Self { restarts: Vec::new(), last_step: None };
        let mut checkpoint = None;
        for line in report.lines() {
            let number = || line.split_whitespace().nth(1).and_then(|step| step.parse::<i64>().ok());
            if line.starts_with("checkpoint ") {
                checkpoint = number();
            } else if line == "restart" {
                let from = checkpoint.context("mdrun was restarted without a checkpoint")?;
                journey.restarts.push(from);
                journey.last_step = Some(from);
            } else if line.starts_with("step ") {
                let step = number();
                if step < journey.last_step {
                    bail!("step {step:?} was computed again after step {:?}", journey.last_step);
                }
                journey.last_step = step;
            }
        }
        Ok(journey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_goes_on_from_the_checkpoint() {
        let report = "step 0\ncheckpoint 480\nstep 1320\ncheckpoint 1320\nrestart\nstep 5000\nstep 20000\ncheckpoint 20000\n";
        let journey = Journey::read(report).unwrap();
        assert_eq!(journey, Journey { restarts: vec![1320], last_step: Some(20000) });
    }

    #[test]
    fn a_step_computed_twice_is_found() {
        let report = "step 0\ncheckpoint 480\nrestart\nstep 300\n";
        assert!(Journey::read(report).is_err());
        assert!(Journey::read("step 0\nrestart\n").is_err());
    }

    #[test]
    fn what_was_lost_is_summed_over_the_attempts_that_ran() {
        let job = |name: &str, attempts: Value| json!({ "metadata": { "name": name }, "status": { "attempts": attempts } });
        let attempt = |outcome: &str, lost: Option<i64>| json!({ "outcome": outcome, "lostSeconds": lost });
        let jobs = json!({ "items": [
            job("gromacs-1-inspect", json!([attempt("Completed", Some(7))])),
            job("gromacs-1-1", json!([
                attempt("Interrupted", Some(2)), attempt("Withdrawn", None), attempt("Completed", Some(0)),
            ])),
            job("gromacs-11-1", json!([attempt("Completed", None)])),
        ] });
        assert_eq!(lost_seconds(&jobs, 1), Some(2));
        assert_eq!(lost_seconds(&jobs, 11), None);
        assert_eq!(lost_seconds(&jobs, 2), None);
    }

    #[test]
    fn the_column_of_the_table_is_what_was_measured() {
        let row = |lost: Option<i64>| -> Row {
            serde_json::from_value(json!({
                "id": 1, "tpr_path": "a.tpr", "state": "completed", "interruptions": 1, "lost_seconds": lost,
            }))
            .unwrap()
        };
        lost_agrees(&row(Some(20)), Some(20)).unwrap();
        lost_agrees(&row(None), None).unwrap();
        for (column, measured) in [(None, Some(0)), (Some(0), None), (Some(1), Some(2)), (Some(21), Some(21))]
        {
            assert!(lost_agrees(&row(column), measured).is_err(), "{column:?} {measured:?}");
        }
    }

    #[test]
    fn sections_are_told_apart() {
        let report = "== /data/a/gromacs-1\nFound 1 frames.\n== /data/a/gromacs-11\nFound 2 frames.\n";
        assert_eq!(section(report, "/data/a/gromacs-1"), "Found 1 frames.\n");
        assert_eq!(section(report, "/data/a/gromacs-11"), "Found 2 frames.\n");
        assert_eq!(section(report, "/data/b"), "");
    }
}
