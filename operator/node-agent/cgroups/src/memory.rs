//! What the kernel counts of a pod's memory: how often it reached its limit, and how many of its processes were killed.
//!
//! cgroup v2 counts in the cgroup of a container and in all above it, and the counters of a pod outlive its containers. So the
//! file of the pod tells of every kill in it. A cgroup that reached its own limit counts an `oom`; when the node has none left,
//! only the processes that die are counted (`oom_kill`).
//!
//! cgroup v1 counts kills in the container's cgroup alone, which is removed a moment later. So nothing is read there.

use std::{
    fs, io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// The file of the counters.
const EVENTS: &str = "memory.events";

/// The counters of a pod and all that is in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// How often a limit was reached so that something had to be killed: that of the pod, or of a container of it.
    pub oom: u64,
    /// How many processes were killed for memory, whether the pod or the node lacked it.
    pub oom_kill: u64,
}

impl Counters {
    /// Reads those of a pod. None without cgroup v2, or if the pod is gone.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(pod: &Path) -> io::Result<Option<Self>> {
        match fs::read_to_string(pod.join(EVENTS)) {
            Ok(text) => Ok(parse(&text)),
            // A cgroup that is removed loses its files before its folder.
            Err(error) if matches!(error.raw_os_error(), Some(GONE)) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// ENODEV: what a file of a cgroup says that was removed while it was open.
const GONE: i32 = 19;

fn parse(text: &str) -> Option<Counters> {
    let value = |name: &str| {
        let line = |line: &str| line.split_once(' ').filter(|(key, _)| *key == name)?.1.trim().parse().ok();
        text.lines().find_map(line)
    };
    Some(Counters { oom: value("oom")?, oom_kill: value("oom_kill")? })
}

/// Waits for counters to change.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// One that waits for nothing yet.
    ///
    /// # Errors
    /// If the kernel has none to give.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC)?))
    }

    /// Waits for those of this pod, too, until it is gone. Returns the number by which [`Self::wait`] calls it.
    ///
    /// # Errors
    /// If there are no counters, or the kernel has no watch left.
    pub fn add(&self, pod: &Path) -> io::Result<i32> {
        let file: PathBuf = pod.join(EVENTS);
        Ok(inotify::add_watch(&self.0, &file, WatchFlags::MODIFY)?)
    }

    /// Waits, and returns the numbers of pods whose counters have changed.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn wait(&self) -> io::Result<Vec<i32>> {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut space);
        let mut changed = Vec::new();
        loop {
            let event = events.next()?;
            // The other events say that a pod is gone.
            if event.events().contains(ReadFlags::MODIFY) && !changed.contains(&event.wd()) {
                changed.push(event.wd());
            }
            if events.is_buffer_empty() && !changed.is_empty() {
                return Ok(changed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_counters_are_read_of_cgroup_v2() {
        // Linux 5.15 has no oom_group_kill.
        for more in ["", "oom_group_kill 1\n"] {
            let folder = tempfile::tempdir().unwrap();
            let text = format!("low 0\nhigh 0\nmax 31\noom 2\noom_kill 3\n{more}");
            fs::write(folder.path().join(EVENTS), text).unwrap();
            let counters = Counters::read(folder.path()).unwrap();
            assert_eq!(counters, Some(Counters { oom: 2, oom_kill: 3 }));
        }
    }

    #[test]
    fn without_them_nothing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        // What cgroup v1 has.
        fs::write(folder.path().join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
            .unwrap();
        fs::write(folder.path().join("memory.failcnt"), "12\n").unwrap();
        assert_eq!(Counters::read(folder.path()).unwrap(), None);
        assert_eq!(Counters::read(&folder.path().join("gone")).unwrap(), None);
        for text in ["", "oom 1\n", "oom_kill 1\n", "oom x\noom_kill 1\n", "oom\noom_kill\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_change_is_heard_of() {
        let [one, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let write = |folder: &Path| fs::write(folder.join(EVENTS), "oom 0\noom_kill 0\n").unwrap();
        let watch = Watch::new().unwrap();
        assert!(watch.add(one.path()).is_err(), "nothing is there");
        write(one.path());
        write(other.path());
        let (first, second) = (watch.add(one.path()).unwrap(), watch.add(other.path()).unwrap());
        write(other.path());
        assert_eq!(watch.wait().unwrap(), [second]);
        // One that is gone is not a change.
        fs::remove_file(other.path().join(EVENTS)).unwrap();
        write(one.path());
        assert_eq!(watch.wait().unwrap(), [first]);
    }
}
