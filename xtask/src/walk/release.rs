//! The commands of readiness.md, carried out by an admin who has the files of a release and no checkout.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::reader::Reader;
use crate::{
    cluster::Cluster,
    images::{Architecture, Image},
    install, release,
};

/// The page.
const PAGE: &str = "docs/readiness.md";

/// All blocks that are marked. Fewer, and marks were lost; a new one raises it.
const LEAST_BLOCKS: usize = 10;

/// The files of a release: those in a folder, or new ones.
pub(super) fn files(given: Option<&Path>, no_install: bool) -> Result<PathBuf> {
    let folder = match given {
        Some(folder) => folder.to_owned(),
        None => release::write(Architecture::of_this_machine(), no_install)?,
    };
    fs::canonicalize(&folder).with_context(|| format!("cannot find {}", folder.display()))
}

pub(super) fn walk(cluster: &Cluster, files: &Path) -> Result<()> {
    let home = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = home.path().join("release");
    fs::create_dir(&folder).context("cannot make a temporary folder")?;
    for entry in fs::read_dir(files).with_context(|| format!("cannot list {}", files.display()))? {
        let entry = entry.with_context(|| format!("cannot list {}", files.display()))?;
        symlink(entry.path(), folder.join(entry.file_name())).context("cannot make a temporary folder")?;
    }
    // As `ctr images import` on each node of the canary: this is the only one that runs containers.
    let archives: Vec<PathBuf> = Image::all().iter().map(|image| files.join(image.file_name())).collect();
    cluster.load(&archives)?;
    let programs = home.path().join("bin");
    let names = vec![
        ("~/bin", programs.display().to_string()),
        ("linux-amd64", format!("linux-{}", Architecture::of_this_machine().name())),
        ("node NODE", "node scavenger-node".to_owned()),
    ];
    let count = Reader::new(cluster, folder, programs, names)?.follow(PAGE)?;
    ensure!(count >= LEAST_BLOCKS, "only {count} blocks of {PAGE} are marked");
    let left = install::left(&cluster.access())?;
    ensure!(left.is_empty(), "after {PAGE} these are left: {}", left.join(", "));
    eprintln!("walk: {count} blocks of {PAGE} did what the page says, with the files of the release alone");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_marked_block_can_be_read() {
        let count = Reader::blocks_of(PAGE).unwrap().len();
        assert!(count >= LEAST_BLOCKS, "only {count} blocks are marked");
    }
}
