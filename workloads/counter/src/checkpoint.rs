//! The checkpoint file: read once, then replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// How far the work has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Which run of the program wrote it, from 1.
    pub(crate) attempt: u64,
    /// Steps that are done.
    pub(crate) count: u64,
}

/// Why the checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot open the lock file {path:?}; does its directory exist, and may user {user} write to it?")]
    OpenLock { path: PathBuf, user: u32, source: io::Error },
    #[error("the checkpoint {path:?} is in use: another run holds the lock on {lock:?}")]
    InUse { path: PathBuf, lock: PathBuf },
    #[error("cannot lock {path:?}")]
    Lock { path: PathBuf, source: Errno },
    #[error("cannot read the checkpoint {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path:?} is no checkpoint of this program; move it away to start from 0")]
    Malformed { path: PathBuf },
    #[error("cannot write the checkpoint {path:?}")]
    Write { path: PathBuf, source: io::Error },
}

/// The one place where a count is kept. Holds the lock for as long as it lives.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    // Released by the kernel when the process ends, however it ends.
    _lock: Flock<File>,
}

impl Store {
    /// Takes the lock and reads what is there.
    ///
    /// The lock is on a file beside the checkpoint, not on the directory, so that several workloads can keep
    /// their checkpoints in one directory; and not on the checkpoint, which is replaced at each save.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<Checkpoint>), Error> {
        let lock_path = with_suffix(path, ".lock");
        let file = OpenOptions::new().create(true).append(true).open(&lock_path).map_err(|source| {
            Error::OpenLock { path: lock_path.clone(), user: nix::unistd::geteuid().as_raw(), source }
        })?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(Error::InUse { path: path.to_owned(), lock: lock_path });
            }
            Err((_, source)) => return Err(Error::Lock { path: lock_path, source }),
        };
        let found = match fs::read_to_string(path) {
            Ok(text) => Some(parse(&text).ok_or_else(|| Error::Malformed { path: path.to_owned() })?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::Read { path: path.to_owned(), source }),
        };
        Ok((Self { path: path.to_owned(), _lock: lock }, found))
    }

    /// Replaces the checkpoint. After a crash at any instant the file holds the old one or the new one.
    pub(crate) fn save(&self, checkpoint: Checkpoint) -> Result<(), Error> {
        self.replace(checkpoint).map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    fn replace(&self, checkpoint: Checkpoint) -> io::Result<()> {
        let temporary = with_suffix(&self.path, ".new");
        let mut file = File::create(&temporary)?;
        write!(file, "attempt {}\ncount {}\n", checkpoint.attempt, checkpoint.count)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        // The rename itself is only on the disk once the directory is.
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        File::open(directory)?.sync_all()
    }
}

fn parse(text: &str) -> Option<Checkpoint> {
    let mut lines = text.lines();
    let attempt = lines.next()?.strip_prefix("attempt ")?.parse().ok()?;
    let count = lines.next()?.strip_prefix("count ")?.parse().ok()?;
    lines.next().is_none().then_some(Checkpoint { attempt, count })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("count");
        let saved = Checkpoint { attempt: 2, count: 120 };
        let (store, found) = Store::open(&path).unwrap();
        assert_eq!(found, None);
        store.save(Checkpoint { attempt: 1, count: 60 }).unwrap();
        store.save(saved).unwrap();
        drop(store);
        assert_eq!(Store::open(&path).unwrap().1, Some(saved));
        assert!(!directory.path().join("count.new").exists());
    }

    #[test]
    fn a_second_run_is_refused_until_the_first_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("count");
        let first = Store::open(&path).unwrap();
        assert!(matches!(Store::open(&path), Err(Error::InUse { .. })));
        Store::open(&directory.path().join("other")).unwrap();
        drop(first);
        Store::open(&path).unwrap();
    }

    #[test]
    fn foreign_content_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("count");
        for text in ["", "120", "attempt 1\ncount x\n", "attempt 1\ncount 1\nmore\n"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(Store::open(&path), Err(Error::Malformed { .. })), "{text:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = Store::open(Path::new("/no/such/count")).unwrap_err().to_string();
        assert!(error.contains("/no/such/count.lock"), "{error}");
    }
}
