//! The pictures of a comparison: whole files that name what they show, the same bytes each time.

use std::{fs, path::Path};

use super::command_line::{simulate, trace};

/// The pictures of a comparison with these seeds, by their names.
fn drawn(seeds: &str) -> Vec<(String, String)> {
    let trace = trace("scavenger-job,30,200000,1000,1024,60\n");
    let folder = tempfile::tempdir().expect("a folder should be made");
    let into = folder.path().join("new");
    let name = |path: &Path| path.to_str().expect("names here should be UTF-8").to_owned();
    let (path, to) = (name(trace.path()), name(&into));
    let arguments = ["--trace", &path, "--seeds", seeds, "--plot", &to];
    let (status, _, stderr) = simulate(&arguments);
    assert_eq!(status, Some(0), "{stderr}");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let file = entry.expect("the folder should be read").path();
        let text = fs::read_to_string(&file).expect("a picture should be read");
        (name(Path::new(file.file_name().unwrap_or_default())), text.replace(&path, ""))
    };
    let entries = fs::read_dir(&into).expect("the folder should be there");
    let mut files: Vec<(String, String)> = entries.map(file).collect();
    files.sort();
    files
}

#[test]
fn the_pictures_name_every_policy() {
    let files = drawn("2");
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["lost.svg", "used.svg", "waiting.svg"]);
    for (name, text) in &files {
        assert!(
            text.trim_end().ends_with("</svg>") && !text.contains("NaN") && !text.contains("inf"),
            "{name}: {text}"
        );
        for policy in ["stock", "newest", "predecessor", "operator Scheduler", "operator Operator", "greedy"]
        {
            assert!(text.contains(policy), "{name} does not name {policy}");
        }
    }
    assert!(files[1].1.contains("startThreshold") && files[1].1.contains("interruptThreshold"));
    assert_eq!(files, drawn("2"));
}

#[test]
fn a_single_seed_has_no_interval() {
    let files = drawn("1");
    assert!(files[0].1.contains("1 seed") && !files[0].1.contains("5% to 95%"));
}
