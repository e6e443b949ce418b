//! Files as a tar stream of a length that is known before. A file that changes meanwhile does not change the length, and is not
//! trusted.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};
use tar::{Builder, Header};

use super::LocalFile;
use crate::folder::hexadecimal;

/// tar's blocks, bytes.
const BLOCK: u64 = 512;

/// Why a stream could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nobody takes the stream.
    #[error("the files cannot be sent: {0}")]
    Write(#[source] io::Error),
}

/// A file that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its number in the archive.
    pub number: u64,
    /// SHA-256 of what was sent; none if the file changed meanwhile, or is gone.
    pub sha256: Option<String>,
}

/// Bytes of the archive of these files.
#[must_use]
pub fn length(files: &[LocalFile]) -> u64 {
    let whole = |size: u64| size.div_ceil(BLOCK).saturating_mul(BLOCK);
    // Two blocks of zeros end it.
    files.iter().fold(2 * BLOCK, |sum, file| sum.saturating_add(BLOCK).saturating_add(whole(file.size)))
}

/// Writes files as a tar archive of [`length`] bytes, under the numbers from `first` on. `sent` hears how many bytes of them are
/// written.
///
/// # Errors
/// [`ArchiveError`].
pub fn write_archive(
    files: &[LocalFile],
    first: u64,
    stream: impl Write,
    mut sent: impl FnMut(u64),
) -> Result<Vec<Sent>, ArchiveError> {
    let mut archive = Builder::new(stream);
    let mut all = Vec::new();
    for (number, file) in (first..).zip(files) {
        let failed = |source| ArchiveError::Read { path: file.path.clone(), source };
        let opened = open(file).map_err(failed)?;
        let mut content = Content::new(file.size, opened, &mut sent);
        let mut header = Header::new_gnu();
        header.set_size(file.size);
        header.set_mode(0o644);
        header.set_mtime(content.modified());
        archive
            .append_data(&mut header, number.to_string(), &mut content)
            .map_err(|error| content.failure.take().map_or(ArchiveError::Write(error), failed))?;
        all.push(Sent { number, sha256: content.end() });
    }
    archive.into_inner().and_then(|mut stream| stream.flush()).map_err(ArchiveError::Write)?;
    Ok(all)
}

/// The file; none if it is gone, or something else by now.
fn open(file: &LocalFile) -> io::Result<Option<File>> {
    // Neither a link nor a pipe that has taken its name since is followed or waited for.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    match OpenOptions::new().read(true).custom_flags(flags).open(&file.path) {
        Ok(opened) => Ok(Some(opened).filter(|opened| opened.metadata().is_ok_and(|found| found.is_file()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Exactly so many bytes: those of a file, and zeros for what it lacks.
struct Content<'a, S> {
    file: Option<File>,
    /// What the file was like when it was opened.
    before: Option<(u64, i64, i64)>,
    left: u64,
    hash: Sha256,
    /// It is not what it was.
    is_changed: bool,
    failure: Option<io::Error>,
    sent: &'a mut S,
}

impl<'a, S: FnMut(u64)> Content<'a, S> {
    fn new(size: u64, file: Option<File>, sent: &'a mut S) -> Self {
        let before = file.as_ref().and_then(state);
        let is_changed = before.is_none_or(|(length, ..)| length != size);
        Self { file, before, left: size, hash: Sha256::new(), is_changed, failure: None, sent }
    }

    /// Seconds since 1970.
    fn modified(&self) -> u64 {
        self.before.and_then(|(_, seconds, _)| u64::try_from(seconds).ok()).unwrap_or(0)
    }

    /// The checksum of all of it.
    fn end(self) -> Option<String> {
        let after = self.file.as_ref().and_then(state);
        let is_good = !self.is_changed && self.left == 0 && after.is_some() && after == self.before;
        is_good.then(|| hexadecimal(self.hash))
    }
}

impl<S: FnMut(u64)> Read for Content<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if most == 0 {
            return Ok(0);
        }
        let read = match &mut self.file {
            Some(file) => file.read(&mut buffer[..most]),
            None => Ok(0),
        };
        let mut length = match read {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                self.failure = Some(io::Error::new(error.kind(), error.to_string()));
                return Err(error);
            }
        };
        if length == 0 {
            self.is_changed = true;
            buffer[..most].fill(0);
            length = most;
        }
        self.hash.update(&buffer[..length]);
        self.left -= length as u64;
        (self.sent)(length as u64);
        Ok(length)
    }
}

/// What tells whether a file was written to: its size, and the time of its last change.
fn state(file: &File) -> Option<(u64, i64, i64)> {
    file.metadata().ok().map(|found| (found.len(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn file(folder: &tempfile::TempDir, name: &str, content: &[u8]) -> LocalFile {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("should write");
        // A change within one tick of the clock could have the same time.
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let opened = OpenOptions::new().write(true).open(&path).expect("should be opened");
        opened.set_modified(old).expect("should be set");
        LocalFile { name: name.to_owned(), size: content.len() as u64, path }
    }

    fn names_and_contents(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().expect("should be an archive");
        entries
            .map(|entry| {
                let mut entry = entry.expect("should be an entry");
                let mut content = Vec::new();
                entry.read_to_end(&mut content).expect("should be read");
                (entry.path().expect("should have a name").display().to_string(), content)
            })
            .collect()
    }

    #[test]
    fn files_travel_under_numbers_and_the_length_is_known() {
        let folder = tempfile::tempdir().expect("should make a folder");
        let files = [file(&folder, "a", b"abc"), file(&folder, "..b c", b""), file(&folder, "ü", &[7; 1024])];
        let (mut stream, mut bytes) = (Vec::new(), 0);
        let sent = write_archive(&files, 5, &mut stream, |more| bytes += more).expect("should be written");
        assert_eq!(stream.len() as u64, length(&files));
        assert_eq!(bytes, 1027);
        let names: Vec<String> = names_and_contents(&stream).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["5", "6", "7"]);
        assert_eq!(names_and_contents(&stream)[2].1, [7; 1024]);
        assert_eq!(sent[0].number, 5);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sent[0].sha256.as_deref(), Some(abc));
    }

    #[test]
    fn a_file_that_changes_keeps_the_length_and_is_not_trusted() {
        let folder = tempfile::tempdir().expect("should make a folder");
        let files = ["shorter", "longer", "gone", "link", "same"].map(|name| file(&folder, name, &[1; 700]));
        fs::write(&files[0].path, [1; 10]).expect("should write");
        fs::write(&files[1].path, [1; 900]).expect("should write");
        fs::remove_file(&files[2].path).expect("should be removed");
        fs::remove_file(&files[3].path).expect("should be removed");
        std::os::unix::fs::symlink("/etc/passwd", &files[3].path).expect("should link");
        let mut stream = Vec::new();
        let sent = write_archive(&files, 0, &mut stream, |_| {}).expect("should be written");
        assert_eq!(stream.len() as u64, length(&files));
        let good: Vec<bool> = sent.iter().map(|file| file.sha256.is_some()).collect();
        assert_eq!(good, [false, false, false, false, true]);
        assert_eq!(names_and_contents(&stream)[3].1, [0; 700], "nothing behind a link is sent");
    }

    #[test]
    fn a_file_that_is_written_to_while_it_is_read_is_not_trusted() {
        let folder = tempfile::tempdir().expect("should make a folder");
        let files = [file(&folder, "a", &[1; 300_000])];
        let path = files[0].path.clone();
        let mut once = Some(());
        let change = |_| {
            if once.take().is_some() {
                let mut bytes = vec![1; 300_000];
                bytes[0] = 2;
                fs::write(&path, bytes).expect("should write");
            }
        };
        let sent = write_archive(&files, 0, io::sink(), change).expect("should be written");
        assert_eq!(sent[0].sha256, None);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().expect("should make a folder");
        let path = folder.path().join("a/b");
        fs::write(folder.path().join("a"), "").expect("should write");
        let files = [LocalFile { name: "a/b".to_owned(), size: 1, path }];
        let error = write_archive(&files, 0, io::sink(), |_| {}).expect_err("should fail").to_string();
        assert!(error.contains("a/b cannot be read"), "{error}");
    }
}
