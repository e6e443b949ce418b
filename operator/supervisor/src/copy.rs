//! The copy of the program that an init container leaves for the container of the workload.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The file name of the copy.
pub const NAME: &str = "scavenger-supervisor";

/// Copies the running program into a directory.
#[must_use]
pub fn copy(directory: &Path) -> ExitCode {
    match copied(directory) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            crate::say(&format!("cannot copy the program into {}: {error}", directory.display()));
            ExitCode::FAILURE
        }
    }
}

/// The file appears complete or not at all: an init container can be killed and run again.
fn copied(directory: &Path) -> io::Result<PathBuf> {
    let target = directory.join(NAME);
    let half = directory.join(format!(".{NAME}-{}", std::process::id()));
    let done = (|| {
        fs::copy("/proc/self/exe", &half)?;
        fs::set_permissions(&half, fs::Permissions::from_mode(0o555))?;
        fs::File::open(&half)?.sync_all()?;
        fs::rename(&half, &target)
    })();
    if done.is_err() {
        fs::remove_file(&half).ok();
    }
    done.map(|()| target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_replaces_an_older_one_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(NAME), "older").unwrap();
        let copy = copied(folder.path()).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), fs::read("/proc/self/exe").unwrap());
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o7777, 0o555);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(copied(&folder.path().join("missing")).is_err());
    }
}
