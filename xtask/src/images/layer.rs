//! Layers: tar files in which everything has the same date, so that the same content has the same digest.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// The date of every file in an image: 2000-01-01, since some programs take 0 for "no date".
pub(super) const EPOCH_SECONDS: u64 = 946_684_800;

/// A layer and the digest of its tar file, which an image's configuration calls the diff id.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// Lower case hexadecimal SHA-256.
    pub(super) sha256: String,
    /// The tar file.
    pub(super) content: Tar,
}

/// Where a layer's tar file is.
#[derive(Debug, Clone)]
pub(super) enum Tar {
    /// In the cache.
    File(PathBuf),
    /// Here; for layers that are quickly made.
    Bytes(Vec<u8>),
}

/// A file that we put into an image.
#[derive(Debug, Clone)]
pub(super) struct NewFile {
    path: String,
    mode: u32,
    content: Vec<u8>,
}

impl NewFile {
    /// A file at `path`, relative to the root of the image.
    pub(super) fn new(path: &str, mode: u32, content: &[u8]) -> Self {
        Self { path: path.to_owned(), mode, content: content.to_owned() }
    }

    /// An executable copied from this machine.
    pub(super) fn read(path: &str, source: &Path) -> Result<Self> {
        let content = fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
        Ok(Self { path: path.to_owned(), mode: 0o755, content })
    }
}

impl Layer {
    /// A layer of a few files and the directories above them.
    pub(super) fn of_files(files: &[NewFile]) -> Result<Self> {
        let mut entries: Vec<_> = files.iter().collect();
        entries.sort_by(|left, right| left.path.cmp(&right.path));
        let mut builder = Builder::new(Hashing::new(Vec::new()));
        for file in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(file.mode);
            header.set_size(file.content.len() as u64);
            stamp(&mut header);
            builder
                .append_data(&mut header, &file.path, file.content.as_slice())
                .with_context(|| format!("cannot add {} to a layer", file.path))?;
        }
        let (bytes, sha256) = builder.into_inner()?.finish();
        Ok(Self { sha256, content: Tar::Bytes(bytes) })
    }

    /// Copies a tar file, without what `drop` names, and with the dates of all files set.
    ///
    /// The order stays: mmdebstrap sorts by name, and a hard link must stay behind its target.
    pub(super) fn filtered(source: &Path, target: &Path, drop: &Drop) -> Result<Self> {
        let input = File::open(source).with_context(|| format!("cannot open {}", source.display()))?;
        let output = File::create(target).with_context(|| format!("cannot create {}", target.display()))?;
        let mut builder = Builder::new(Hashing::new(io::BufWriter::with_capacity(1 << 20, output)));
        let mut archive = tar::Archive::new(io::BufReader::with_capacity(1 << 20, input));
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = inside(&entry.path()?);
            if path.as_os_str().is_empty() || drop.matches(&path, entry.header().entry_type()) {
                continue;
            }
            append(&mut builder, &mut entry, &path, drop)
                .with_context(|| format!("cannot copy {} into a layer", path.display()))?;
        }
        let (mut writer, sha256) = builder.into_inner()?.finish();
        writer.flush()?;
        Ok(Self { sha256, content: Tar::File(target.to_owned()) })
    }

    /// Size of the tar file in bytes.
    pub(super) fn size(&self) -> Result<u64> {
        match &self.content {
            Tar::Bytes(bytes) => Ok(bytes.len() as u64),
            Tar::File(path) => {
                let found = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
                Ok(found.len())
            }
        }
    }

    /// The tar file, from its beginning.
    pub(super) fn reader(&self) -> Result<Box<dyn Read + '_>> {
        Ok(match &self.content {
            Tar::Bytes(bytes) => Box::new(bytes.as_slice()),
            Tar::File(path) => {
                let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
                Box::new(io::BufReader::with_capacity(1 << 20, file))
            }
        })
    }
}

fn append<W: Write>(
    builder: &mut Builder<W>,
    entry: &mut tar::Entry<'_, impl Read>,
    path: &Path,
    drop: &Drop,
) -> Result<()> {
    let original = entry.header();
    let mut header = Header::new_gnu();
    let kind = original.entry_type();
    header.set_entry_type(kind);
    header.set_mode(original.mode()?);
    header.set_uid(original.uid()?);
    header.set_gid(original.gid()?);
    header.set_mtime(EPOCH_SECONDS);
    match kind {
        EntryType::Regular | EntryType::Directory => {
            header.set_size(entry.size());
            builder.append_data(&mut header, path, entry)?;
        }
        EntryType::Symlink | EntryType::Link => {
            let target = entry.link_name()?.context("a link without target")?.into_owned();
            let target = if kind == EntryType::Link { inside(&target) } else { target };
            if kind == EntryType::Link && drop.matches(&target, EntryType::Regular) {
                bail!("it is a hard link to {}, which the recipe drops", target.display());
            }
            header.set_size(0);
            builder.append_link(&mut header, path, target)?;
        }
        other => bail!("entries of type {other:?} are not supported; add it to what the recipe drops"),
    }
    Ok(())
}

fn stamp(header: &mut Header) {
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(EPOCH_SECONDS);
}

/// The content of one file of a tar file.
pub(super) fn member(source: &Path, name: &str) -> Result<Vec<u8>> {
    let input = File::open(source).with_context(|| format!("cannot open {}", source.display()))?;
    let mut archive = tar::Archive::new(io::BufReader::with_capacity(1 << 20, input));
    for entry in archive.entries_with_seek()? {
        let mut entry = entry?;
        if inside(&entry.path()?) == Path::new(name) {
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            return Ok(content);
        }
    }
    bail!("{} has no {name}", source.display())
}

/// `./usr/bin/` -> `usr/bin`.
fn inside(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// Paths that stay out of a layer. In a pattern `*` stands for one whole component; what lies below a path that
/// matches is dropped too. Of usr/share/doc, the copyright files stay.
#[derive(Debug)]
pub(super) struct Drop(Vec<Vec<&'static str>>);

impl Drop {
    /// Splits the patterns once.
    pub(super) fn new(patterns: &[&[&'static str]]) -> Self {
        Self(
            patterns
                .iter()
                .flat_map(|list| list.iter())
                .map(|pattern| pattern.split('/').collect())
                .collect(),
        )
    }

    fn matches(&self, path: &Path, kind: EntryType) -> bool {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        if let ["usr", "share", "doc", below @ ..] =
            parts.iter().map(|part| &**part).collect::<Vec<_>>().as_slice()
        {
            return !match below {
                [] => true,
                // The directory of a package, or a link to that of another package with the same copyright.
                [_] => kind != EntryType::Regular,
                [_, name] => *name == "copyright",
                _ => false,
            };
        }
        self.0.iter().any(|pattern| {
            pattern.len() <= parts.len()
                && pattern.iter().zip(&parts).all(|(wanted, part)| *wanted == "*" || *wanted == part.as_ref())
        })
    }
}

/// Passes on what is written, and hashes it.
struct Hashing<W> {
    inner: W,
    hash: Sha256,
}

impl<W> Hashing<W> {
    fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    fn finish(self) -> (W, String) {
        (self.inner, hex(&self.hash.finalize()))
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.hash.update(&buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Lower case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a few bytes.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(patterns: &'static [&'static str], path: &str) -> bool {
        Drop::new(&[patterns]).matches(Path::new(path), EntryType::Regular)
    }

    #[test]
    fn a_pattern_drops_the_path_and_what_is_below() {
        let patterns = &["etc/apt", "dev/*", "usr/lib/*/gconv"];
        assert!(dropped(patterns, "etc/apt"));
        assert!(dropped(patterns, "etc/apt/sources.list"));
        assert!(!dropped(patterns, "etc/aptitude"));
        assert!(!dropped(patterns, "etc"));
        assert!(!dropped(patterns, "dev"));
        assert!(dropped(patterns, "dev/null"));
        assert!(dropped(patterns, "usr/lib/x86_64-linux-gnu/gconv/UTF-16.so"));
        assert!(!dropped(patterns, "usr/lib/gconv"));
    }

    #[test]
    fn copyrights_stay() {
        assert!(!dropped(&[], "usr/share/doc/gromacs/copyright"));
        assert!(dropped(&[], "usr/share/doc/gromacs/changelog.Debian.gz"));
        assert!(dropped(&[], "usr/share/doc/gromacs/html/index.html"));
        let link = Drop::new(&[]).matches(Path::new("usr/share/doc/libstdc++6"), EntryType::Symlink);
        assert!(!link);
    }

    #[test]
    fn order_and_dates_do_not_change_the_digest() {
        let files = [NewFile::new("etc/b", 0o644, b"b"), NewFile::new("etc/a", 0o644, b"a")];
        let turned = [files[1].clone(), files[0].clone()];
        let layer = Layer::of_files(&files).unwrap();
        assert_eq!(layer.sha256, Layer::of_files(&turned).unwrap().sha256);
        let Tar::Bytes(bytes) = &layer.content else { panic!("small layers are kept in memory") };
        assert_eq!(layer.sha256, sha256(bytes));
    }

    #[test]
    fn a_layer_is_copied_without_what_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source.tar");
        let files = ["etc/hostname", "etc/passwd"].map(|path| NewFile::new(path, 0o644, b"content"));
        let Tar::Bytes(bytes) = Layer::of_files(&files).unwrap().content else { panic!() };
        fs::write(&source, bytes).unwrap();
        let target = directory.path().join("target.tar");
        let layer = Layer::filtered(&source, &target, &Drop::new(&[&["etc/hostname"]])).unwrap();
        let expected = Layer::of_files(&files[1..]).unwrap();
        assert_eq!(layer.sha256, expected.sha256);
        assert_eq!(fs::read(&target).unwrap().len() as u64, layer.size().unwrap());
    }
}
