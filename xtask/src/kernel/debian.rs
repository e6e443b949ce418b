//! Debian's kernel for virtual machines, unpacked into the cache: installed, it would be the one that this machine boots next.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{cache, packages, shell};

/// The package that depends on the newest one.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// The kind of cache entry.
const KIND: &str = "linux-kernel";

/// What the measurements need of what is no part of the kernel itself.
const MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic"];

/// A kernel that was unpacked.
pub(super) struct Kernel {
    /// The image to boot.
    pub(super) image: PathBuf,
    /// Files of modules, each behind those that it needs.
    pub(super) modules: Vec<PathBuf>,
    /// Its version, for people.
    pub(super) version: String,
}

/// The kernel from the cache, or from the package of today.
pub(super) fn kernel() -> Result<Kernel> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let folder = cache::entry(KIND, &cache::Key::new(&format!("{PACKAGE} {release}")), |folder| {
        let package = packages::download(PACKAGE, folder)?;
        shell::run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(folder))?;
        fs::remove_file(&package).with_context(|| format!("cannot remove {}", package.display()))
    })?;
    let boot = folder.join("boot");
    let image = list(&boot)?.into_iter().find(|path| name(path).starts_with("vmlinuz-"));
    let image = image.with_context(|| format!("{} holds no kernel", boot.display()))?;
    let version = name(&image).trim_start_matches("vmlinuz-").to_owned();
    Ok(Kernel { image, modules: modules(&files(&folder)?, &MODULES)?, version })
}

/// The files of these modules, each behind those that it needs. One without a file is part of the kernel.
fn modules(files: &[PathBuf], wanted: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for wanted in wanted {
        let is_wanted =
            |path: &&PathBuf| name(path).replace('-', "_") == format!("{}.ko", wanted.replace('-', "_"));
        let Some(path) = files.iter().find(is_wanted) else { continue };
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let needed = needed(&content);
        let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
        for path in modules(files, &needed)?.into_iter().chain([path.clone()]) {
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Names of the modules that a module needs, as its own section `.modinfo` has them.
fn needed(module: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"\0depends=";
    let Some(place) = module.windows(FIELD.len()).position(|bytes| bytes == FIELD) else { return Vec::new() };
    let list = module[place + FIELD.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(list).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Every file below a folder.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in list(folder)? {
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_behind_those_that_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, needs: &str| {
            let text = format!("\x7fELF\0license=GPL\0depends={needs}\0retpoline=Y\0");
            fs::write(folder.path().join(name), text).unwrap();
        };
        write("ext4.ko", "jbd2,mb-cache,crc16");
        write("jbd2.ko", "");
        write("mb_cache.ko", "crc16");
        write("crc16.ko", "");
        write("other.ko", "ext4");
        let found = modules(&files(folder.path()).unwrap(), &["ext4", "virtio_pci"]).unwrap();
        let names: Vec<String> = found.iter().map(|path| name(path)).collect();
        assert_eq!(names, ["jbd2.ko", "crc16.ko", "mb_cache.ko", "ext4.ko"]);
        assert!(needed(b"no module").is_empty());
    }
}
