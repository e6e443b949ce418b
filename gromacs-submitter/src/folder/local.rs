//! What is in the folder on this machine already.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// What has the name of a file that is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Present {
    /// Nothing.
    Nothing,
    /// A file of that size.
    File(u64),
    /// Something else, which is never replaced, or is in the way of the file's folder.
    Obstacle(&'static str),
}

/// What a folder is called that has the name.
pub const A_FOLDER: &str = "a folder";

/// What is at `name` in `target`. Links are not followed, wherever they lead.
///
/// # Errors
/// If it cannot be looked at.
pub fn present(target: &Path, name: &str) -> io::Result<Present> {
    let mut path = target.to_owned();
    let mut parts = Path::new(name).components().peekable();
    while let Some(part) = parts.next() {
        path.push(part);
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Present::Nothing),
            found => found?,
        };
        let kind = found.file_type();
        if kind.is_symlink() {
            return Ok(Present::Obstacle("a symbolic link"));
        }
        match (kind.is_dir(), parts.peek().is_some()) {
            (true, true) => {}
            (true, false) => return Ok(Present::Obstacle(A_FOLDER)),
            (false, false) if kind.is_file() => return Ok(Present::File(found.len())),
            (false, _) => return Ok(Present::Obstacle("no folder and no ordinary file")),
        }
    }
    Ok(Present::Nothing)
}

/// SHA-256 of a file, as `sha256sum` prints it.
///
/// # Errors
/// If it cannot be read.
pub fn digest_of(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path)?, &mut Hashing(&mut hash))?;
    Ok(hexadecimal(hash))
}

pub(crate) fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes bytes into a checksum.
pub(super) struct Hashing<'a>(pub(super) &'a mut Sha256);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_ordinary_files_are_replaced_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("should make a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("md.log"), "abc").expect("should write");
        fs::create_dir(path("sub")).expect("should make a folder");
        symlink(path("md.log"), path("link")).expect("should link");
        symlink("/", path("root")).expect("should link");
        let at = |name: &str| present(folder.path(), name).expect("should look");
        assert_eq!(at("md.log"), Present::File(3));
        assert_eq!(at("new"), Present::Nothing);
        assert_eq!(at("sub/new"), Present::Nothing);
        assert_eq!(at("new/new"), Present::Nothing);
        assert_eq!(at("sub"), Present::Obstacle("a folder"));
        assert_eq!(at("link"), Present::Obstacle("a symbolic link"));
        assert_eq!(at("root/tmp"), Present::Obstacle("a symbolic link"));
        assert_eq!(at("md.log/x"), Present::Obstacle("no folder and no ordinary file"));
    }

    #[test]
    fn the_checksum_is_that_of_sha256sum() {
        let folder = tempfile::tempdir().expect("should make a folder");
        fs::write(folder.path().join("a"), "abc").expect("should write");
        assert_eq!(
            digest_of(&folder.path().join("a")).expect("should read"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
