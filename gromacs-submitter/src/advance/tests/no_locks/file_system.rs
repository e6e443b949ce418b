//! A file system whose locks are refused: it mirrors a folder through FUSE, and the kernel asks it for every lock.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

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
    session: Option<FuseSession<PathBuf>>,
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
            Ok(Self { session: Some(session), mounted, _mirrored: mirrored })
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

impl Drop for FileSystem {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.join()
        {
            eprintln!("{} stays mounted: {error}", self.path().display());
        }
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
