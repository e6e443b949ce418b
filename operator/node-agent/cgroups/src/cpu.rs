//! The cgroup of a pod: how it becomes idle, and how it gets its weight back.
//!
//! The kernel drops the weight of a cgroup that becomes idle. A cgroup that is no longer idle has the weight of a new one. So the
//! weight is stored first, as an extended attribute of the folder: the mark. The mark outlives the program and goes with the
//! cgroup. A cgroup that is idle without a mark was made idle by another program. It is left alone, unless its pod is known to be
//! a ScavengerJob's.
//!
//! A cgroup without children is left alone, too. No container runs in it, and the kubelet may not be done: it makes the folder,
//! writes the weight, then other limits. The kernel refuses a weight while the cgroup is idle, and the kubelet would leave out
//! what follows. Containers come last.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::Path,
};

use rustix::{
    fs::{self, AtFlags, Dir, FileType, Mode, OFlags, XattrFlags},
    io::Errno,
};

use crate::weight::{LEAST_SHARES, LEAST_WEIGHT, shares, weight};

/// The attribute that holds the weight from before, in decimal digits.
const MARK: &str = "user.scavenger.weight";

/// Holds 1 while the cgroup is idle. Kernels before 5.15 have none.
const IDLE: &str = "cpu.idle";

/// How a version of cgroups calls and counts the weight.
#[derive(Debug)]
struct Version {
    file: &'static str,
    least: u64,
    of_request: fn(u64) -> u64,
}

const VERSIONS: [Version; 2] = [
    Version { file: "cpu.weight", least: LEAST_WEIGHT, of_request: weight },
    Version { file: "cpu.shares", least: LEAST_SHARES, of_request: shares },
];

/// What becomes of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It becomes idle.
    Idle,
    /// It gets its weight back. Without a mark the weight follows from the pod's request, in thousandths of a processor. Without
    /// either nothing is changed.
    Weight(Option<u64>),
}

/// What came of a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// Nothing had to be changed.
    Same,
    /// No container is in it yet.
    NotYet,
    /// It is idle now.
    MadeIdle,
    /// It has this weight again.
    Restored(u64),
}

/// The cgroup of a pod, held open. Its files are opened by their names in it.
#[derive(Debug)]
pub struct Cgroup {
    folder: OwnedFd,
    version: &'static Version,
}

impl Cgroup {
    /// Opens it.
    ///
    /// # Errors
    /// If there is no such folder, or it is not one of the cpu controller.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = fs::open(path, flags, Mode::empty())?;
        for version in &VERSIONS {
            match fs::statat(&folder, version.file, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => return Ok(Self { folder, version }),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(about(version.file, error)),
            }
        }
        let problem = "it has neither cpu.weight nor cpu.shares, so the cpu controller is not there";
        Err(io::Error::new(io::ErrorKind::NotFound, problem))
    }

    /// Fulfils a wish.
    ///
    /// # Errors
    /// If the kernel does not let its files be read or written.
    pub fn fulfil(&self, wish: Wish) -> io::Result<Done> {
        match wish {
            Wish::Idle if self.is_idle()? => Ok(Done::Same),
            Wish::Idle if !self.has_children()? => Ok(Done::NotYet),
            Wish::Idle => self.make_idle().map(|()| Done::MadeIdle),
            Wish::Weight(request) => match (self.mark(), request) {
                (Some(weight), _) => self.restore(weight),
                (None, Some(request)) if self.is_idle()? => self.restore((self.version.of_request)(request)),
                _ => Ok(Done::Same),
            },
        }
    }

    /// Without `cpu.idle` the least weight stands for it.
    fn is_idle(&self) -> io::Result<bool> {
        match self.read(IDLE)? {
            Some(idle) => Ok(idle == 1),
            None => Ok(self.weight()? <= self.version.least),
        }
    }

    fn weight(&self) -> io::Result<u64> {
        self.read(self.version.file)?.ok_or_else(|| about(self.version.file, Errno::NOENT))
    }

    fn has_children(&self) -> io::Result<bool> {
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            if entry.file_type() == FileType::Directory && !entry.file_name().to_bytes().starts_with(b".") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn mark(&self) -> Option<u64> {
        let mut text = [0; 32];
        let length = fs::fgetxattr(&self.folder, MARK, &mut text[..]).ok()?;
        let weight = std::str::from_utf8(text.get(..length)?).ok()?.parse().ok()?;
        // An idle cgroup has a weight that cannot be written.
        Some(weight).filter(|weight| *weight >= self.version.least)
    }

    fn make_idle(&self) -> io::Result<()> {
        if self.mark().is_none() {
            // A kernel before 5.7 keeps no marks. Then the weight follows from the request.
            let mark = self.weight()?.to_string();
            fs::fsetxattr(&self.folder, MARK, mark.as_bytes(), XattrFlags::empty()).ok();
        }
        if !self.write(IDLE, 1)? {
            self.write(self.version.file, self.version.least)?;
        }
        Ok(())
    }

    fn restore(&self, weight: u64) -> io::Result<Done> {
        let before = (self.is_idle()?, self.weight()?);
        self.write(IDLE, 0)?;
        if self.weight()? != weight {
            self.write(self.version.file, weight)?;
        }
        // Last: a program that is killed before this finds the mark when it starts again.
        fs::fremovexattr(&self.folder, MARK).ok();
        let after = (self.is_idle()?, self.weight()?);
        Ok(if before == after { Done::Same } else { Done::Restored(after.1) })
    }

    /// None if there is no such file.
    fn read(&self, name: &str) -> io::Result<Option<u64>> {
        let Some(mut file) = self.file(name, OFlags::RDONLY)? else { return Ok(None) };
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| about(name, error))?;
        let bad =
            |_| about(name, io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is no number")));
        text.trim().parse().map(Some).map_err(bad)
    }

    /// False if there is no such file.
    fn write(&self, name: &str, number: u64) -> io::Result<bool> {
        let Some(mut file) = self.file(name, OFlags::WRONLY | OFlags::TRUNC)? else { return Ok(false) };
        // The kernel takes a number in one piece.
        file.write_all(number.to_string().as_bytes()).map_err(|error| about(name, error))?;
        Ok(true)
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<Option<File>> {
        match fs::openat(&self.folder, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(about(name, error)),
        }
    }
}

fn about(name: &str, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// Plain files in the place of a cgroup, with a container below.
    fn pod(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("cri-containerd-0.scope")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn a_weight_comes_back_with_each_set_of_files() {
        for (files, when_idle, when_not) in [
            (&[("cpu.idle", "0\n"), ("cpu.weight", "8\n")][..], ["1", "8\n"], ["0", "8\n"]),
            (&[("cpu.idle", "0\n"), ("cpu.shares", "204\n")], ["1", "204\n"], ["0", "204\n"]),
            (&[("cpu.weight", "8\n")], ["", "1"], ["", "8"]),
            (&[("cpu.shares", "204\n")], ["", "2"], ["", "204"]),
        ] {
            let folder = pod(files);
            let weight = files.last().unwrap().0;
            let read = |name| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
            let cgroup = Cgroup::open(folder.path()).unwrap();
            assert_eq!(cgroup.fulfil(Wish::Weight(Some(200))).unwrap(), Done::Same);
            assert_eq!(cgroup.fulfil(Wish::Idle).unwrap(), Done::MadeIdle);
            assert_eq!([read("cpu.idle"), read(weight)], when_idle);
            assert_eq!(cgroup.fulfil(Wish::Idle).unwrap(), Done::Same);
            // With the mark or, where this file system keeps none, with the request.
            assert!(matches!(cgroup.fulfil(Wish::Weight(Some(200))).unwrap(), Done::Restored(8 | 204)));
            assert_eq!([read("cpu.idle"), read(weight)], when_not);
            assert_eq!(cgroup.fulfil(Wish::Weight(Some(200))).unwrap(), Done::Same);
        }
    }

    #[test]
    fn a_cgroup_that_is_idle_without_a_mark_is_left_alone() {
        let folder = pod(&[("cpu.idle", "1\n"), ("cpu.weight", "100\n")]);
        let cgroup = Cgroup::open(folder.path()).unwrap();
        assert_eq!(cgroup.fulfil(Wish::Weight(None)).unwrap(), Done::Same);
        // Unless it is a ScavengerJob's.
        assert_eq!(cgroup.fulfil(Wish::Weight(Some(1_600))).unwrap(), Done::Restored(63));
        // Without cpu.idle, a pod that requests nothing does not count as idle again and again.
        let least = pod(&[("cpu.weight", "1\n")]);
        let least = Cgroup::open(least.path()).unwrap();
        assert_eq!(least.fulfil(Wish::Weight(Some(0))).unwrap(), Done::Same);
    }

    #[test]
    fn a_cgroup_without_containers_is_left_alone() {
        let folder = pod(&[("cpu.idle", "0\n"), ("cpu.weight", "100\n")]);
        fs::remove_dir(folder.path().join("cri-containerd-0.scope")).unwrap();
        let cgroup = Cgroup::open(folder.path()).unwrap();
        assert_eq!(cgroup.fulfil(Wish::Idle).unwrap(), Done::NotYet);
        assert_eq!(fs::read_to_string(folder.path().join("cpu.idle")).unwrap(), "0\n");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = pod(&[]);
        let missing = Cgroup::open(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("neither cpu.weight nor cpu.shares"), "{missing}");
        let folder = pod(&[("cpu.idle", "yes\n"), ("cpu.weight", "100\n")]);
        let nonsense = Cgroup::open(folder.path()).unwrap().fulfil(Wish::Idle).unwrap_err().to_string();
        assert_eq!(nonsense, "cpu.idle: \"yes\\n\" is no number");
    }
}
