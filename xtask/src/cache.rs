//! What is built once and kept outside the checkout, so that a second run, or a fresh clone, builds nothing.
//!
//! Entries are folders named by what they were made from; a finished entry never changes.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};

use crate::shell;

/// Entries that nobody asked for in this time are removed.
const KEPT: Duration = Duration::from_secs(14 * 24 * 3600);

/// The cache folder: `$XDG_CACHE_HOME/scavengerjobs` or `~/.cache/scavengerjobs`.
pub(crate) fn folder() -> Result<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set: set one of them")?;
    Ok(base.join("scavengerjobs"))
}

/// A hash over whatever decides what an entry contains.
#[derive(Clone)]
pub(crate) struct Key(Sha256);

impl Key {
    /// Begins with the recipe: versions, flags, whatever is not in a file.
    pub(crate) fn new(recipe: &str) -> Self {
        Self(Sha256::new()).with(recipe.as_bytes())
    }

    fn with(mut self, part: &[u8]) -> Self {
        // The length keeps neighbouring parts apart.
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    /// Adds a file, or all files below a folder, by relative name and content.
    pub(crate) fn with_path(self, base: &Path, relative: &str) -> Result<Self> {
        let path = base.join(relative);
        if path.is_dir() {
            let mut names = fs::read_dir(&path)
                .and_then(|entries| {
                    entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>, _>>()
                })
                .with_context(|| format!("cannot list {}", path.display()))?;
            names.sort();
            names.iter().try_fold(self, |key, name| {
                key.with_path(base, &format!("{relative}/{}", name.to_string_lossy()))
            })
        } else {
            let mut content = Vec::new();
            File::open(&path)
                .and_then(|mut file| file.read_to_end(&mut content))
                .with_context(|| format!("cannot read {}", path.display()))?;
            Ok(self.with(relative.as_bytes()).with(&content))
        }
    }

    fn name(&self) -> String {
        self.0.clone().finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Where the entry of this kind and key is, or will be.
pub(crate) fn path(kind: &str, key: &Key) -> Result<PathBuf> {
    Ok(folder()?.join(format!("{kind}-{}", key.name())))
}

/// Whether the entry is there.
pub(crate) fn has(kind: &str, key: &Key) -> Result<bool> {
    Ok(path(kind, key)?.exists())
}

/// The entry's folder; if it is not there, `make` fills it. Two processes that want the same entry take turns,
/// and the second finds it made.
pub(crate) fn entry(kind: &str, key: &Key, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let target = path(kind, key)?;
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create the cache {}", folder.display()))?;
    let _turn = lock(&folder.join(format!("{kind}.lock")))?;
    if !target.exists() {
        let unfinished = folder.join(format!("{kind}-unfinished"));
        remove(&unfinished)?;
        fs::create_dir(&unfinished).with_context(|| format!("cannot create {}", unfinished.display()))?;
        make(&unfinished)?;
        fs::rename(&unfinished, &target).with_context(|| format!("cannot create {}", target.display()))?;
    }
    // The time of the last use; a failure only makes the entry look older.
    let _ = File::open(&target).and_then(|entry| entry.set_modified(now()));
    forget_old(&folder, kind);
    Ok(target)
}

/// A program from crates.io, built at its first use. `features` are arguments of `cargo install`.
pub(crate) fn program(name: &str, version: &str, features: &[&str]) -> Result<PathBuf> {
    let version = format!("={version}");
    // A build without optimisation takes a third of the time, and runs for seconds.
    let mut install = vec!["install", name, "--version", &version, "--locked", "--debug"];
    install.extend(features);
    let folder = entry(name, &Key::new(&install.join(" ")), |folder| {
        shell::run(shell::cargo(&install).arg("--quiet").arg("--root").arg(folder))
    })?;
    Ok(folder.join("bin").join(name))
}

/// Waits until no other process holds the lock file.
pub(crate) fn lock(path: &Path) -> Result<Flock<File>> {
    lock_file(File::create(path).with_context(|| format!("cannot create {}", path.display()))?, path)
}

/// As [`lock`], for a file or folder that is open already.
pub(crate) fn lock_file(file: File, path: &Path) -> Result<Flock<File>> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((file, _)) => {
            eprintln!("another process is at work here: waiting for it ({})", path.display());
            Flock::lock(file, FlockArg::LockExclusive)
                .map_err(|(_, error)| error)
                .with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// Removes a file or folder; it is no error if it is not there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn forget_old(folder: &Path, kind: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_of_kind = entry.file_name().to_string_lossy().starts_with(&format!("{kind}-"));
        let age =
            entry.metadata().and_then(|metadata| metadata.modified()).map(|used| now().duration_since(used));
        if is_of_kind && age.is_ok_and(|age| age.is_ok_and(|age| age > KEPT)) {
            // Next time, if it does not work now.
            let _ = remove(&entry.path());
        }
    }
}

fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_follows_names_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let key = || Key::new("recipe").with_path(folder.path(), "source").unwrap().name();
        fs::create_dir(folder.path().join("source")).unwrap();
        let empty = key();
        fs::write(folder.path().join("source/a"), "1").unwrap();
        let one = key();
        fs::rename(folder.path().join("source/a"), folder.path().join("source/b")).unwrap();
        let renamed = key();
        fs::write(folder.path().join("source/b"), "2").unwrap();
        let changed = key();
        let all = std::collections::BTreeSet::from([empty, one, renamed, changed.clone()]);
        assert_eq!(all.len(), 4);
        assert_eq!(changed, key());
        assert_ne!(changed, Key::new("other").with_path(folder.path(), "source").unwrap().name());
    }
}
