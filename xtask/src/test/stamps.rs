//! What a soak has passed already, and at which commit: it takes longer than most people can wait, so it can be stopped
//! and gone on with, part by part.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::shell;

/// The stamps of the parts of a soak.
#[derive(Debug)]
pub(super) struct Stamps {
    folder: PathBuf,
    /// The commit that is tested; none while files differ from it.
    commit: Option<String>,
    /// True if parts that have passed at this commit are left out.
    resume: bool,
}

/// What is written down when a part has passed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Stamp {
    commit: String,
    seconds: f64,
}

impl Stamps {
    /// Those of the work tree.
    pub(super) fn of_work_tree(folder: PathBuf, resume: bool) -> Result<Self> {
        let commit = shell::git(&["rev-parse", "HEAD"])?;
        let is_clean = shell::git(&["status", "--porcelain"])?.is_empty();
        if !is_clean {
            eprintln!(
                "soak: files differ from the commit {commit}, so nothing is stamped and nothing left out"
            );
        }
        Ok(Self { folder, commit: is_clean.then_some(commit), resume })
    }

    /// For how long a part ran that has passed at this commit, if it is to be left out.
    pub(super) fn passed(&self, part: &str) -> Option<f64> {
        let commit = self.commit.as_ref().filter(|_| self.resume)?;
        let stamp: Stamp = serde_json::from_slice(&fs::read(self.file(part)).ok()?).ok()?;
        (stamp.commit == *commit).then_some(stamp.seconds)
    }

    /// A part has passed.
    pub(super) fn stamp(&self, part: &str, seconds: f64) -> Result<()> {
        let Some(commit) = self.commit.clone() else { return Ok(()) };
        let file = self.file(part);
        fs::create_dir_all(&self.folder)
            .and_then(|()| Ok(serde_json::to_vec(&Stamp { commit, seconds })?))
            .and_then(|stamp| fs::write(&file, stamp))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    fn file(&self, part: &str) -> PathBuf {
        self.folder.join(format!("{}.json", part.replace(' ', "-")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_left_out_only_if_it_passed_at_this_commit_and_one_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let at = |commit: Option<&str>, resume| Stamps {
            folder: folder.path().join("soak"),
            commit: commit.map(str::to_owned),
            resume,
        };
        at(None, true).stamp("without a cluster", 1.0).unwrap();
        assert_eq!(at(Some("a"), true).passed("without a cluster"), None, "a dirty tree is not stamped");
        at(Some("a"), false).stamp("without a cluster", 2.5).unwrap();
        assert_eq!(at(Some("a"), true).passed("without a cluster"), Some(2.5));
        assert_eq!(at(Some("a"), false).passed("without a cluster"), None);
        assert_eq!(at(Some("b"), true).passed("without a cluster"), None);
        assert_eq!(at(None, true).passed("without a cluster"), None);
        assert_eq!(at(Some("a"), true).passed("kills"), None);
    }
}
