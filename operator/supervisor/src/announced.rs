//! Changes in directories, as the kernel announces them, and which of them came before a signal to stop. The kernel keeps
//! them in order, which the times of files do not show: those are rounded, by some file systems to whole seconds.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::files::OWN_FILES;

/// What is announced, and what of it was heard. Nothing here waits for a file server, except for [`listen`](Self::listen).
#[derive(Debug)]
pub struct Announcements {
    /// Nothing if the kernel gives no more of them to this user.
    kernel: Option<Inotify>,
    heard: Mutex<Heard>,
}

impl Announcements {
    /// Begins without directories.
    #[must_use]
    pub fn new() -> Self {
        let kernel = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok();
        Self { kernel, heard: Mutex::default() }
    }

    /// Is ready to be read when something was announced.
    #[must_use]
    pub fn source(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.as_ref().map(Inotify::as_fd)
    }

    /// A directory that is listened to already, or that does not exist yet, does no harm.
    pub fn listen<'a>(&self, directories: impl Iterator<Item = &'a PathBuf>) {
        let flags = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        for directory in directories {
            if let Some(kernel) = &self.kernel {
                kernel.add_watch(directory, flags).ok();
            }
        }
    }

    /// Takes what was announced, and says whether there was a change by somebody else.
    pub fn take(&self) -> bool {
        self.take_into(&mut self.heard())
    }

    /// A signal to stop came and was not passed on yet: what is announced from now on came after it.
    pub fn stopping(&self) {
        let mut heard = self.heard();
        self.take_into(&mut heard);
        heard.stopping = true;
    }

    /// Whether all changes of a file were announced before the signal to stop. No if nobody heard of it, and before there was
    /// such a signal.
    #[must_use]
    pub fn came_before_the_stop(&self, path: &Path) -> bool {
        let mut heard = self.heard();
        if !heard.stopping {
            return false;
        }
        // After the signal there is a look each second, announced or not.
        self.take_into(&mut heard);
        path.file_name().is_some_and(|name| heard.came_before(name))
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_into(&self, heard: &mut Heard) -> bool {
        /// The kernel keeps 16,384 announcements, and one reading has at least 15 of them.
        const READINGS: usize = 2_048;
        let mut changed = false;
        for _ in 0..READINGS {
            let Some(Ok(events)) = self.kernel.as_ref().map(Inotify::read_events) else { break };
            for event in events {
                changed |= heard.of(event.name);
            }
        }
        changed
    }
}

impl Default for Announcements {
    fn default() -> Self {
        Self::new()
    }
}

/// The names in the latest announcements.
#[derive(Debug, Default)]
struct Heard {
    stopping: bool,
    /// With whether it came after the signal to stop; the latest last.
    latest: VecDeque<(OsString, bool)>,
}

impl Heard {
    /// Takes in an announcement, and says whether it is of somebody else.
    fn of(&mut self, name: Option<OsString>) -> bool {
        /// A look shows a few of the newest files.
        const MOST: usize = 64;
        // Without a name it is of a directory, or says that announcements were lost: no order is known any more.
        let Some(name) = name else {
            self.latest.clear();
            return true;
        };
        if name.as_encoded_bytes().starts_with(OWN_FILES.as_bytes()) {
            return false;
        }
        self.latest.retain(|(known, _)| *known != name);
        if self.latest.len() == MOST {
            self.latest.pop_front();
        }
        self.latest.push_back((name, self.stopping));
        true
    }

    fn came_before(&self, name: &OsStr) -> bool {
        self.latest.iter().any(|(known, after)| known == name && !after)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_order_of_announcements_is_that_of_changes() {
        let folder = tempfile::tempdir().unwrap();
        let announced = Announcements::new();
        announced.listen([folder.path().to_owned()].iter());
        assert!(!announced.take());
        let path = |name: &str| folder.path().join(name);
        fs::write(path("before"), "1").unwrap();
        fs::write(path("both"), "1").unwrap();
        assert!(!announced.came_before_the_stop(&path("before")));
        // Nobody has taken them yet.
        announced.stopping();
        fs::write(path("both"), "2").unwrap();
        fs::write(path("after"), "1").unwrap();
        let before =
            ["before", "both", "after", "never"].map(|name| announced.came_before_the_stop(&path(name)));
        assert_eq!(before, [true, false, false, false]);
        assert!(!announced.take());
    }

    #[test]
    fn what_is_announced_once_is_known_for_a_while() {
        let name = |number: u32| OsString::from(number.to_string());
        let mut heard = Heard::default();
        for number in 0..100 {
            assert!(heard.of(Some(name(number))));
        }
        assert!(!heard.of(Some(OsString::from(format!("{OWN_FILES}1")))));
        // The oldest are forgotten: of them nobody says that they came before.
        assert!(!heard.came_before(&name(35)) && heard.came_before(&name(36)));
        heard.stopping = true;
        heard.of(Some(name(99)));
        assert!(!heard.came_before(&name(99)) && heard.came_before(&name(98)));
        // Some were lost.
        assert!(heard.of(None));
        assert!(!heard.came_before(&name(98)));
    }
}
