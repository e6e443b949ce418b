//! A file system whose locks are refused: it mirrors a folder through FUSE, and the kernel asks it for every lock.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use easy_fuser::FuseSession;
use easy_fuser::fuse_presets::mirror_fs::{MirrorFs, MirrorFsTrait as _};
use easy_fuser::fuse_presets::{StatelessHandler, UnimplementedFuseHandler};
use easy_fuser::fuse_serial::{prelude::*, spawn_mount};
use easy_fuser_macro::delegate_fs;
use fuser::InitFlags;
use nix::errno::Errno;
use tempfile::TempDir;

/// Which locks are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refuses {
    /// All, as over NFS if nobody answers for its locks.
    All,
    /// Those of fcntl, which mdrun takes, and not those of flock, which the inspection takes.
    Fcntl,
}

/// A mounted file system, empty at first.
pub(super) struct FileSystem {
    /// Unmounts it. Its end is not waited for: the node of a cluster that was started in the meantime has a copy of all
    /// mounts, and keeps this one alive.
    _session: FuseSession<PathBuf>,
    mounted: TempDir,
    /// Kept until it is unmounted.
    _mirrored: TempDir,
}

impl FileSystem {
    /// None where nobody may mount one, but not where every test must run.
    pub(super) fn new(refuses: Refuses) -> Option<Self> {
        let mount = || -> io::Result<Self> {
            let (mounted, mirrored) = (tempfile::tempdir()?, tempfile::tempdir()?);
            let mirror = Mirror {
                refuses,
                mirror: MirrorFs::new(mirrored.path().to_owned()),
                folders: StatelessHandler::new(),
                unsupported: UnimplementedFuseHandler::new(),
            };
            let session = spawn_mount(mirror, mounted.path(), &[], None)?;
            Ok(Self { _session: session, mounted, _mirrored: mirrored })
        };
        mount()
            .inspect_err(|error| {
                eprintln!("skipped: no file system can be mounted by FUSE: {error}");
                assert!(std::env::var_os("CI").is_none(), "no file system can be mounted by FUSE: {error}");
            })
            .ok()
    }

    pub(super) fn path(&self) -> &Path {
        self.mounted.path()
    }
}

struct Mirror {
    refuses: Refuses,
    mirror: MirrorFs,
    folders: StatelessHandler<PathBuf>,
    unsupported: UnimplementedFuseHandler<PathBuf>,
}

impl FuseHandler for Mirror {
    type TId = PathBuf;
    type FileHandle = OwnedFd;

    /// The kernel grants all other locks without asking the file system.
    fn init(&self, _: &RequestInfo, config: &mut KernelConfig) -> FuseResult<()> {
        let asked = match self.refuses {
            Refuses::All => InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS,
            Refuses::Fcntl => InitFlags::FUSE_POSIX_LOCKS,
        };
        config
            .add_capabilities(asked)
            .map_err(|_| PosixError::new(Errno::ENOSYS as i32, "the kernel asks no file system for locks"))
    }

    fn setlk(
        &self,
        _: &RequestInfo,
        _: PathBuf,
        _: Option<&mut OwnedFd>,
        _: u64,
        _: LockInfo,
        _: bool,
    ) -> FuseResult<()> {
        Err(no_locks())
    }

    fn getlk(
        &self,
        _: &RequestInfo,
        _: PathBuf,
        _: Option<&mut OwnedFd>,
        _: u64,
        _: LockInfo,
    ) -> FuseResult<LockInfo> {
        Err(no_locks())
    }

    delegate_fs! { mirror, [
        access, bmap, copy_file_range, create, fallocate, flush, fsync, getattr, getxattr, ioctl, listxattr, lookup,
        lseek, mkdir, mknod, open, read, readdir, readdirplus, readlink, release, removexattr, rename, rmdir, setattr,
        setxattr, statfs, symlink, unlink, write
    ]}
    delegate_fs! { folders, [ forget, fsyncdir, opendir, releasedir ] }
    delegate_fs! { unsupported, [ link ] }
}

fn no_locks() -> PosixError {
    PosixError::new(Errno::ENOLCK as i32, "there are no locks")
}

#[tokio::test]
async fn it_is_unmounted_although_a_node_has_a_copy_of_its_mount() {
    let Some(file_system) = FileSystem::new(Refuses::All) else { return };
    let path = file_system.path().to_string_lossy().into_owned();
    let is_mounted = |process: &str| {
        let mounts =
            std::fs::read_to_string(format!("/proc/{process}/mountinfo")).expect("should have mounts");
        mounts.contains(&path)
    };
    // As the node of a cluster begins, whose mounts are its own.
    let node = ["--mount", "--propagation", "private", "sleep", "600"];
    let mut node = Command::new("unshare").args(node).spawn().expect("should start unshare");
    let begun = Instant::now();
    while !std::fs::read(format!("/proc/{}/cmdline", node.id())).is_ok_and(|line| line.starts_with(b"sleep"))
    {
        assert!(begun.elapsed() < Duration::from_secs(60), "it has no mounts of its own");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_mounted("self") && is_mounted(&node.id().to_string()), "it has no copy");
    let (done, unmounted) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(file_system);
        done.send(()).ok();
    });
    let waited = unmounted.recv_timeout(Duration::from_secs(60));
    node.kill().and_then(|()| node.wait()).expect("should end");
    waited.expect("it should not wait for the node");
    assert!(!is_mounted("self"), "it is mounted");
}
