//! Takes files out of a tar stream that is not trusted: a pod writes it. Only files that were asked for are taken, each once, under a temporary name beside the one that it gets when its checksum is known to be right.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::local::{Hashing, hexadecimal};

/// Why the stream is not taken.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is no tar stream, or ends too early.
    #[error("what the pod sends is broken off or no tar archive: {0}")]
    ReadStream(#[source] io::Error),
    /// A path that leads out of the folder.
    #[error("the pod sent {0:?}, which leads out of the folder; nothing of it was written")]
    StayInside(String),
    /// Links, devices and the like.
    #[error("the pod sent {name:?} as {kind}; only ordinary files are copied")]
    TakeKind {
        /// Its name.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// Not one of those that were asked for.
    #[error("the pod sent {0:?}, which was not asked for")]
    Expect(String),
    /// A second time.
    #[error("the pod sent {0:?} twice")]
    TakeOnce(String),
    /// The stream ends in a file.
    #[error("{name} is broken off: {got} of {size} bytes came")]
    TakeWhole {
        /// Its name.
        name: String,
        /// Bytes that came.
        got: u64,
        /// Bytes that were announced.
        size: u64,
    },
    /// This machine cannot hold it.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something has taken its name meanwhile.
    #[error("{} is there by now; --overwrite replaces it", .0.display())]
    Replace(PathBuf),
}

/// A file that has come whole, under a temporary name. Dropping it removes it.
#[derive(Debug)]
pub struct Arrived {
    /// Its path in the folder.
    pub name: String,
    /// Its size, bytes.
    pub size: u64,
    /// Its SHA-256, as `sha256sum` prints it.
    pub sha256: String,
    file: NamedTempFile,
    path: PathBuf,
}

impl Arrived {
    /// Gives it its name.
    ///
    /// # Errors
    /// [`UnpackError::Replace`] if a file has that name and shall not be replaced, or the file system's error.
    pub fn keep(self, replace: bool) -> Result<(), UnpackError> {
        let kept =
            if replace { self.file.persist(&self.path) } else { self.file.persist_noclobber(&self.path) };
        match kept {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Err(UnpackError::Replace(self.path))
            }
            Err(error) => Err(UnpackError::Write { path: self.path, source: error.error }),
        }
    }
}

/// A path as it is in the folder; none if it leads out of it, or is not UTF-8.
pub(super) fn inside(path: impl AsRef<Path>) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.as_ref().components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Takes the files that are `expected` out of a stream and writes them into `target`, under temporary names.
///
/// # Errors
/// [`UnpackError`]; what was written is removed then. That a file is missing is none: it may be gone by now.
pub fn unpack(
    stream: impl Read,
    target: &Path,
    expected: &BTreeSet<String>,
) -> Result<Vec<Arrived>, UnpackError> {
    let mut archive = tar::Archive::new(stream);
    let mut arrived: Vec<Arrived> = Vec::new();
    for entry in archive.entries().map_err(UnpackError::ReadStream)? {
        let mut entry = entry.map_err(UnpackError::ReadStream)?;
        let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        if !kind.is_file() {
            return Err(UnpackError::TakeKind { name: shown, kind: kind_name(kind) });
        }
        let path = entry.path().map_err(UnpackError::ReadStream)?.into_owned();
        let Some(name) = inside(&path) else { return Err(UnpackError::StayInside(shown)) };
        if !expected.contains(&name) {
            return Err(UnpackError::Expect(shown));
        }
        if arrived.iter().any(|other| other.name == name) {
            return Err(UnpackError::TakeOnce(shown));
        }
        let size = entry.size();
        let modified = entry.header().mtime().ok();
        arrived.push(write(&mut entry, target, name, size, modified)?);
    }
    Ok(arrived)
}

fn write(
    stream: &mut impl Read,
    target: &Path,
    name: String,
    size: u64,
    modified: Option<u64>,
) -> Result<Arrived, UnpackError> {
    let path = target.join(&name);
    let failed = |source: io::Error| UnpackError::Write { path: path.clone(), source };
    let folder = path.parent().unwrap_or(target);
    fs::create_dir_all(folder).map_err(failed)?;
    let file = tempfile::Builder::new()
        .prefix(".gromacs-submitter-")
        .suffix(".part")
        // The umask takes from it what it takes from every new file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(failed)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut got = 0;
    loop {
        let length = stream.read(&mut buffer).map_err(UnpackError::ReadStream)?;
        if length == 0 {
            break;
        }
        Hashing(&mut hash).write_all(&buffer[..length]).map_err(failed)?;
        file.as_file().write_all(&buffer[..length]).map_err(failed)?;
        got += length as u64;
    }
    if got != size {
        return Err(UnpackError::TakeWhole { name, got, size });
    }
    if let Some(seconds) = modified {
        // A help only: not every file system keeps every time.
        let _ = file.as_file().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    }
    // A machine that loses power must not keep the name and lose the content.
    file.as_file().sync_all().map_err(failed)?;
    Ok(Arrived { name, size, sha256: hexadecimal(hash), file, path })
}

fn kind_name(kind: tar::EntryType) -> &'static str {
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_hard_link() {
        "a hard link"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_block_special() || kind.is_character_special() {
        "a device"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "something else"
    }
}

#[cfg(test)]
mod tests {
    use tar::{Builder, EntryType, Header};

    use super::*;

    /// An entry as it is written: what the library would refuse to write is written nevertheless.
    fn entry(name: &str, kind: EntryType, link: Option<&str>, content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o777);
        header.set_mtime(1_800_000_000);
        if let Some(link) = link {
            header.set_link_name_literal(link).expect("should be a name");
        }
        let old = header.as_gnu_mut().expect("should be a GNU header");
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    fn file(name: &str, content: &[u8]) -> Vec<u8> {
        entry(name, EntryType::Regular, None, content)
    }

    fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = entries.concat();
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }

    fn expected(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// What is in a folder, temporary files too.
    fn content(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("should be a folder")
            .map(|entry| entry.expect("should be an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn refused(bytes: &[u8], names: &[&str]) -> String {
        let outer = tempfile::tempdir().expect("should make a folder");
        let target = outer.path().join("target");
        fs::create_dir(&target).expect("should make a folder");
        let error = unpack(bytes, &target, &expected(names)).expect_err("should be refused").to_string();
        assert_eq!(content(&target), Vec::<String>::new(), "{error}");
        assert_eq!(content(outer.path()), ["target"], "{error}");
        error
    }

    #[test]
    fn files_get_their_names_when_they_are_kept() {
        let target = tempfile::tempdir().expect("should make a folder");
        let mut builder = Builder::new(Vec::new());
        let long = format!("sub/{}.log", "long".repeat(40));
        for (name, content) in [("./md.log", "abc"), (long.as_str(), ""), ("a b.gro", "x")] {
            let mut header = Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mtime(1_800_000_000);
            builder.append_data(&mut header, name, content.as_bytes()).expect("should be written");
        }
        let bytes = builder.into_inner().expect("should be written");
        let names = expected(&["md.log", &long, "a b.gro", "gone.edr"]);
        let arrived = unpack(bytes.as_slice(), target.path(), &names).expect("should be taken");
        assert!(!target.path().join("md.log").exists(), "not before its checksum is right");
        let facts: Vec<(&str, u64)> = arrived.iter().map(|file| (file.name.as_str(), file.size)).collect();
        assert_eq!(facts, [("md.log", 3), (long.as_str(), 0), ("a b.gro", 1)]);
        assert_eq!(arrived[0].sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        for file in arrived {
            file.keep(false).expect("should be kept");
        }
        assert_eq!(content(target.path()), ["a b.gro", "md.log", "sub"]);
        let found = fs::metadata(target.path().join("md.log")).expect("should be there");
        let modified = found.modified().expect("should have a time");
        assert_eq!(modified, SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        assert_ne!(found.permissions().mode() & 0o044, 0, "others may read it as any new file");
    }

    #[test]
    fn nothing_is_replaced_without_leave() {
        let target = tempfile::tempdir().expect("should make a folder");
        let path = target.path().join("md.log");
        fs::write(&path, "mine").expect("should write");
        let take = || {
            let bytes = archive(&[file("md.log", b"theirs")]);
            unpack(bytes.as_slice(), target.path(), &expected(&["md.log"]))
                .expect("should be taken")
                .remove(0)
        };
        let error = take().keep(false).expect_err("should be refused").to_string();
        assert!(error.ends_with("md.log is there by now; --overwrite replaces it"), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("should read"), "mine");
        take().keep(true).expect("should replace");
        assert_eq!(fs::read_to_string(&path).expect("should read"), "theirs");
        assert_eq!(content(target.path()), ["md.log"], "no temporary file is left");
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        for name in ["../evil", "/tmp/evil", "a/../../evil", "./../evil", "..", "sub/.."] {
            // Even if it was asked for.
            let error = refused(&archive(&[file(name, b"x")]), &[name, "evil", "a"]);
            assert!(error.contains("leads out of the folder"), "{name}: {error}");
        }
    }

    #[test]
    fn links_devices_and_folders_are_not_made() {
        for (kind, link, words) in [
            (EntryType::Symlink, Some("/etc/passwd"), "a symbolic link"),
            (EntryType::Link, Some("/etc/passwd"), "a hard link"),
            (EntryType::Directory, None, "a folder"),
            (EntryType::Block, None, "a device"),
            (EntryType::Char, None, "a device"),
            (EntryType::Fifo, None, "a pipe"),
            (EntryType::new(b'9'), None, "something else"),
        ] {
            let error = refused(&archive(&[entry("md.log", kind, link, b"")]), &["md.log"]);
            assert_eq!(error, format!("the pod sent \"md.log\" as {words}; only ordinary files are copied"));
        }
        // What the library fills with zeros.
        refused(&archive(&[entry("md.log", EntryType::GNUSparse, None, b"")]), &["md.log"]);
        // A link that a file behind it would be written through.
        let bytes = archive(&[entry("sub", EntryType::Symlink, Some("/tmp"), b""), file("sub/evil", b"x")]);
        assert!(refused(&bytes, &["sub", "sub/evil"]).contains("a symbolic link"));
    }

    #[test]
    fn only_what_was_asked_for_is_taken_and_once() {
        let error = refused(&archive(&[file("md.log", b"x"), file(".bashrc", b"x")]), &["md.log"]);
        assert_eq!(error, "the pod sent \".bashrc\", which was not asked for");
        let error = refused(&archive(&[file("md.log", b"x"), file("./md.log", b"y")]), &["md.log"]);
        assert_eq!(error, "the pod sent \"./md.log\" twice");
    }

    #[test]
    fn a_stream_that_breaks_leaves_nothing() {
        let whole = archive(&[file("a.log", &[b'x'; 2000]), file("b.log", &[b'y'; 2000])]);
        // In a file, and in a header.
        for length in [512 + 100, 512 + 2048 + 512 + 1999, 512 + 2048 + 7] {
            let error = refused(&whole[..length], &["a.log", "b.log"]);
            assert!(error.contains("broken off"), "{length}: {error}");
        }
        let error = refused(&[b'#'; 2048], &["a.log"]);
        assert!(error.contains("no tar archive"), "{error}");
    }
}
