//! Loads container images onto a cluster's node.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Cluster;
use crate::progress::Task;

/// An entry of a docker-archive's manifest.json.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ManifestEntry {
    config: String,
    repo_tags: Option<Vec<String>>,
}

impl Cluster {
    /// Imports docker-archive files. Images that are there already, with the same content under the same name,
    /// are left alone.
    pub(crate) fn load(&self, archives: &[PathBuf]) -> Result<()> {
        let present = self.image_ids()?;
        for archive in archives {
            let images = images_in(archive)?;
            let names: Vec<_> = images.iter().map(|(name, _)| name.as_str()).collect();
            let names = names.join(", ");
            if images.iter().all(|image| present.contains(image)) {
                eprintln!("{names} is loaded already");
                continue;
            }
            let task = Task::start(format!("loading {names}"));
            self.ctr(&["images", "import", "--no-unpack=false", &archive.to_string_lossy()])?;
            task.done(format!("loaded {names}"));
        }
        Ok(())
    }

    /// Gives an image on the node another name, too.
    pub(crate) fn tag(&self, image: &str, name: &str) -> Result<()> {
        self.ctr(&["images", "tag", "--force", image, name]).map(drop)
    }

    /// Name and configuration digest of every image on the node.
    fn image_ids(&self) -> Result<BTreeSet<(String, String)>> {
        // CRI keeps, beside each name, the configuration's digest as a name of its own for the same target.
        let list = self.ctr(&["images", "list"])?;
        let rows: Vec<(&str, &str)> = list
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace();
                Some((fields.next()?, fields.nth(1)?))
            })
            .collect();
        let named = |row: &&(&str, &str)| !row.0.starts_with("sha256:");
        let mut ids = BTreeSet::new();
        for (name, target) in rows.iter().filter(named) {
            let config = rows.iter().find(|(other, same)| other.starts_with("sha256:") && same == target);
            ids.extend(config.map(|(config, _)| ((*name).to_owned(), (*config).to_owned())));
        }
        Ok(ids)
    }

    fn ctr(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(self.binary("ctr"))
            .arg("--address")
            .arg(self.containerd_socket())
            .args(["--namespace", "k8s.io"])
            .args(arguments)
            .output()
            .context("cannot run ctr")?;
        if !output.status.success() {
            bail!("ctr {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The archive's images: the name as containerd writes it, and the digest of the configuration.
fn images_in(archive: &Path) -> Result<Vec<(String, String)>> {
    let shown = archive.display();
    let not_an_archive = || format!("{shown} is not a docker-archive: build one with `cargo xtask images`");
    let open = || File::open(archive).with_context(|| format!("cannot open {shown}"));
    let manifest = member(open()?, "manifest.json")?.with_context(not_an_archive)?;
    let entries: Vec<ManifestEntry> = serde_json::from_slice(&manifest).with_context(not_an_archive)?;
    let mut images = Vec::new();
    for entry in entries {
        let config = member(open()?, &entry.config)?.with_context(not_an_archive)?;
        let digest: String = Sha256::digest(&config).iter().map(|byte| format!("{byte:02x}")).collect();
        for name in entry.repo_tags.unwrap_or_default() {
            images.push((full_name(&name), format!("sha256:{digest}")));
        }
    }
    if images.is_empty() {
        bail!("{shown} names no image: build it with a tag");
    }
    Ok(images)
}

/// One file of a tar archive. Large layers are skipped over, not read.
fn member(archive: File, name: &str) -> Result<Option<Vec<u8>>> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries_with_seek().context("cannot read the archive")?;
    for entry in entries {
        let mut entry = entry.context("the archive is damaged")?;
        if entry.path().is_ok_and(|path| path == Path::new(name)) {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).context("the archive is damaged")?;
            return Ok(Some(content));
        }
    }
    Ok(None)
}

/// Docker's short names mean its own registry; everything with a dot in its first part is complete.
fn full_name(name: &str) -> String {
    match name.split_once('/') {
        Some((registry, _)) if registry.contains(['.', ':']) || registry == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::full_name;

    #[test]
    fn names_are_completed_as_containerd_does() {
        assert_eq!(full_name("scavenger.dev/counter:1"), "scavenger.dev/counter:1");
        assert_eq!(full_name("scavenger/counter:1"), "docker.io/scavenger/counter:1");
        assert_eq!(full_name("counter:1"), "docker.io/library/counter:1");
    }
}
