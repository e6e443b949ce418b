//! What is typed, and what cannot be used: one message with the file and the line, and status 2.

use std::{fs, process::Command};

pub(super) fn simulate(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scavenger-laboratory"));
    let output = command.arg("simulate").args(arguments).output().expect("the program should run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it should print text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A trace of a node, two ordinary pods and a ScavengerJob, with something behind it.
pub(super) fn trace(more: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file should be made");
    let rows = "kind,start_s,duration_s,cpu_milli,memory_mib,interval_s\n\
                node,,,9000,16384,\npod,0,2000,1000,1024,\npod,60,600,7000,1024,\nscavenger-job,0,300,2000,1024,60\n";
    fs::write(file.path(), format!("{rows}{more}")).expect("the file should take it");
    file
}

#[test]
fn what_cannot_be_used_is_said_in_one_line() {
    let bad_row = trace("pod,60,soon,1000,1024,\n");
    let row = bad_row.path().to_str().unwrap();
    let good = trace("");
    let good = good.path().to_str().unwrap();
    let pool = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let text = "apiVersion: scavenger.dev/v1alpha1\nkind: ScavengerPool\nmetadata: { name: default }\nspec: { startThreshold: 0.99 }\n";
    fs::write(pool.path(), text).unwrap();
    let pool = pool.path().to_str().unwrap();
    for (arguments, said) in [
        (&["--scenario", "weekly"][..], "there is no scenario \"weekly\"; there are steady"),
        (&["--scenario", "steady", "--policy", "best"], "there is no policy \"best\"; there are stock"),
        (&["--trace", row], "line 6: invalid float literal"),
        (&["--trace", "/nowhere.csv"], "/nowhere.csv: cannot be read"),
        (&["--trace", good, "--pool", pool], "spec.headroomTarget of cpu must be at least"),
        (&["--openb", "/nowhere", "--window", "5..5"], "--window \"5..5\" must be two seconds"),
        (&["--trace", good, "--plot", good], "cannot be written: File exists"),
        (&[], "nothing to play"),
    ] {
        let (status, stdout, stderr) = simulate(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {stderr}");
        assert!(stdout.is_empty() && stderr.contains(said), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_trace_is_played_and_its_last_half_line_is_left_out() {
    let whole = trace("");
    let arguments = |file: &tempfile::NamedTempFile| {
        let path = file.path().to_str().unwrap().to_owned();
        let (status, stdout, stderr) =
            simulate(&["--trace", &path, "--policy", "stock", "--seeds", "1", "-o", "json"]);
        assert_eq!(status, Some(0), "{stderr}");
        (stdout.replace(&path, ""), stderr)
    };
    let (figures, silent) = arguments(&whole);
    assert!(silent.is_empty(), "{silent}");
    let read: serde_json::Value = serde_json::from_str(&figures).unwrap();
    let run = &read["outcomes"][0]["runs"][0];
    // It is preempted just before its first checkpoint, and runs again when the large pod is gone.
    assert_eq!(
        (run["interruptions"].as_f64(), run["finished"].as_f64()),
        (Some(1.0), Some(1.0)),
        "{figures}"
    );
    let (cut, said) = arguments(&trace("pod,90,60"));
    assert_eq!(cut, figures);
    assert!(said.contains("line 6 ends in the middle; the trace is read up to there"), "{said}");
}
