//! What failed beside the others and passed alone, written down until somebody mends it: the next run begins with it. The
//! second time the same part does so, it is a fault that has to be mended.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{cache, shell};

/// One such failure, a line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    part: String,
    at: Timestamp,
    commit: String,
    why: String,
}

/// Beside what is built, since a run in a clean clone counts too.
fn file() -> Result<PathBuf> {
    Ok(cache::folder()?.join("flaky.jsonl"))
}

/// Writes one down.
pub(super) fn remember(part: &str, why: &str) -> Result<()> {
    #[expect(clippy::disallowed_methods, reason = "this is the edge: it is written down for people")]
    let at = Timestamp::now();
    let line = Line {
        part: part.to_owned(),
        at,
        commit: shell::git(&["rev-parse", "--short", "HEAD"])?,
        why: why.to_owned(),
    };
    append(&file()?, &line)
}

fn append(file: &Path, line: &Line) -> Result<()> {
    let mut text = serde_json::to_string(line).context("cannot write down a failure")?;
    text.push('\n');
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// What was written down, for people; empty if nothing was.
pub(super) fn told() -> Result<String> {
    let file = file()?;
    let text = fs::read_to_string(&file).unwrap_or_default();
    Ok(tell(&text, &file))
}

fn tell(text: &str, file: &Path) -> String {
    let mut parts: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        parts.entry(line.part.clone()).or_default().push(line);
    }
    let mut told = String::new();
    for (part, lines) in &parts {
        let Some(last) = lines.last() else { continue };
        let times = match lines.len() {
            1 => "once".to_owned(),
            times => format!("{times} times, which has to be mended"),
        };
        told.push_str(&format!(
            "test: {part} failed beside the others and passed alone {times}; last at {}, commit {}: {}\n",
            last.at.strftime("%F %R"),
            last.commit,
            last.why
        ));
    }
    if !told.is_empty() {
        told.push_str(&format!("test: once that is mended, remove its lines from {}\n", file.display()));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_down_is_told_with_how_often_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flaky.jsonl");
        assert_eq!(tell("", &file), "");
        for (part, why) in
            [("together", "no leader"), ("by_use", "too late"), ("together", "killed\n  twice")]
        {
            let at = "2026-11-27T10:00:00Z".parse().unwrap();
            let line = Line { part: part.into(), at, commit: "abc".into(), why: why.into() };
            append(&file, &line).unwrap();
        }
        let told = tell(&fs::read_to_string(&file).unwrap(), &file);
        let expected = "\
test: by_use failed beside the others and passed alone once; last at 2026-11-27 10:00, commit abc: too late
test: together failed beside the others and passed alone 2 times, which has to be mended; last at 2026-11-27 10:00, commit abc: killed
  twice
";
        assert!(told.starts_with(expected), "{told}");
        assert!(told.lines().last().unwrap().starts_with("test: once that is mended, remove its lines"));
    }
}
