//! An initramfs: the `newc` format of cpio, which the kernel unpacks.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use anyhow::{Context, Result};

/// The kinds of files, as in a mode.
const FOLDER: u32 = 0o04_0000;
const FILE: u32 = 0o10_0000;
const LINK: u32 = 0o12_0000;
const DEVICE: u32 = 0o02_0000;

/// The kernel unpacks from the beginning to the end, so a folder comes before what is in it.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    /// Files so far; each has a number.
    count: u32,
    /// Paths that are in it.
    paths: std::collections::BTreeSet<String>,
}

impl Archive {
    /// With what a program needs before anything is mounted.
    pub(super) fn new() -> Self {
        let mut archive = Self::default();
        archive.folder("dev");
        // Standard input and output of process 1: character device 5, 1.
        archive.entry("dev/console", DEVICE | 0o600, 0, (5, 1), &[]);
        archive
    }

    /// A file with this content.
    pub(super) fn content(&mut self, path: &str, mode: u32, modified: u64, content: &[u8]) {
        self.folders_above(path);
        self.entry(path, FILE | mode, modified, (0, 0), content);
    }

    /// A file of this machine.
    pub(super) fn file(&mut self, path: &str, from: &Path) -> Result<()> {
        let read = || -> std::io::Result<_> { Ok((fs::metadata(from)?, fs::read(from)?)) };
        let (metadata, content) = read().with_context(|| format!("cannot read {}", from.display()))?;
        let modified = u64::try_from(metadata.mtime()).unwrap_or_default();
        self.content(path, metadata.permissions().mode() & 0o777, modified, &content);
        Ok(())
    }

    /// A symbolic link.
    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.folders_above(path);
        self.entry(path, LINK | 0o777, 0, (0, 0), target.as_bytes());
    }

    /// Whether the path is in it.
    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// All of it, with the entry that ends it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, 0, (0, 0), &[]);
        self.bytes
    }

    fn folders_above(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(place, _)| place);
        for folder in ends.map(|place| &path[..place]).filter(|folder| !folder.is_empty()) {
            self.folder(folder);
        }
    }

    fn folder(&mut self, path: &str) {
        if !self.has(path) {
            self.entry(path, FOLDER | 0o755, 0, (0, 0), &[]);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, modified: u64, device: (u32, u32), content: &[u8]) {
        if !self.paths.insert(path.to_owned()) {
            return;
        }
        self.count += 1;
        let size = u32::try_from(content.len()).expect("a file of an initramfs should be small");
        let modified = u32::try_from(modified).unwrap_or_default();
        let length = u32::try_from(path.len() + 1).expect("a path should be short");
        let links = if mode & FOLDER == FOLDER { 2 } else { 1 };
        let fields = [self.count, mode, 0, 0, links, modified, size, 0, 0, device.0, device.1, length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode and content of each entry.
    fn entries(mut bytes: &[u8]) -> Vec<(String, u32, String)> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            assert_eq!(&bytes[..6], b"070701");
            let field = |number: usize| {
                let text = std::str::from_utf8(&bytes[6 + 8 * number..][..8]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, length) = (field(1), field(6), field(11));
            let text =
                |from: usize, count: usize| String::from_utf8(bytes[from..from + count].to_vec()).unwrap();
            let name = text(110, length - 1);
            let content = (110 + length).next_multiple_of(4);
            entries.push((name, u32::try_from(mode).unwrap(), text(content, size)));
            bytes = &bytes[(content + size).next_multiple_of(4)..];
        }
        entries
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_each_only_once() {
        let mut archive = Archive::new();
        archive.content("usr/bin/a", 0o755, 1, b"first");
        archive.content("usr/bin/b", 0o644, 1, b"");
        archive.content("usr/bin/a", 0o755, 1, b"again");
        archive.link("bin", "usr/bin");
        let found = entries(&archive.finish());
        let found: Vec<(&str, u32, &str)> =
            found.iter().map(|(name, mode, content)| (name.as_str(), *mode, content.as_str())).collect();
        assert_eq!(
            found,
            [
                ("dev", 0o04_0755, ""),
                ("dev/console", 0o02_0600, ""),
                ("usr", 0o04_0755, ""),
                ("usr/bin", 0o04_0755, ""),
                ("usr/bin/a", 0o10_0755, "first"),
                ("usr/bin/b", 0o10_0644, ""),
                ("bin", 0o12_0777, "usr/bin"),
                ("TRAILER!!!", 0, ""),
            ]
        );
    }

    #[test]
    fn a_file_keeps_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let mut archive = Archive::new();
        archive.file("init", &path).unwrap();
        assert!(archive.has("init") && !archive.has("other"));
        assert!(entries(&archive.finish()).contains(&("init".to_owned(), 0o10_0750, "x".to_owned())));
        assert!(Archive::new().file("init", &folder.path().join("missing")).is_err());
    }
}
