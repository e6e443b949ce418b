//! Layers of Debian packages, made by mmdebstrap.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Architecture;
use super::layer::{self, Drop, EPOCH_SECONDS, Layer, Tar};
use crate::cache::{self, Key};
use crate::progress::Task;

/// The kind of cache entry, and the files in one.
const KIND: &str = "layer";
const LAYER: &str = "layer.tar";
const DIGEST: &str = "sha256";
/// Names of the package files that were unpacked, in a cache entry and, while a layer is made, in its tree.
const PACKAGES: &str = "packages.list";

/// Set this to use another mirror than Debian's own, on a machine that reaches only that.
const MIRROR_VARIABLE: &str = "SCAVENGER_DEBIAN_MIRROR";
/// Makes /bin, /lib and the like links into /usr, as on any Debian 12; the variant `extract` does not by itself.
const MERGED_USR: &str = "/usr/share/mmdebstrap/hooks/merged-usr";

/// A Debian release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    /// Debian 12, for software whose version is part of the image's name.
    Bookworm,
    /// The one on this machine: a program runs only on a libc that is not older than the one it was linked with.
    ThisMachine,
}

impl Suite {
    fn name(self) -> String {
        let bookworm = || "bookworm".to_owned();
        match self {
            Self::Bookworm => bookworm(),
            Self::ThisMachine => {
                let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
                codename(&release).unwrap_or_else(bookworm)
            }
        }
    }
}

/// The codename in the text of an os-release file, if it is Debian's.
fn codename(release: &str) -> Option<String> {
    let value = |key| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    value("ID").filter(|id| id == "debian").and_then(|_| value("VERSION_CODENAME"))
}

/// How to make a layer.
#[derive(Debug)]
pub(super) struct Recipe {
    /// What the packages run on.
    pub(super) architecture: Architecture,
    /// The release that the packages are from.
    pub(super) suite: Suite,
    /// mmdebstrap's variant: `extract` unpacks packages, `minbase` installs them in a minimal Debian.
    pub(super) variant: &'static str,
    /// Packages besides those of the variant; what they depend on comes along.
    pub(super) packages: &'static [&'static str],
    /// Shell commands that mmdebstrap runs once the packages are unpacked, with the tree as `$1`.
    pub(super) hooks: &'static [&'static str],
    /// Lists of paths that stay out.
    pub(super) drop: &'static [&'static [&'static str]],
}

impl Recipe {
    /// Names the layer in the cache, by all that goes into it.
    ///
    /// Versions of packages are not among it: a layer stays until it is refreshed, so that a build does not
    /// depend on what the mirror carries today.
    pub(super) fn key(&self) -> Key {
        Key::new(&format!("{EPOCH_SECONDS} {:?} {:?}", self.arguments(), self.drop))
    }

    /// Codename of the release that the packages are from.
    pub(super) fn release(&self) -> String {
        self.suite.name()
    }

    /// What is done with the packages, for people.
    fn title(&self, verb: &str) -> String {
        let foreign = if self.architecture.is_foreign() { self.architecture.name() } else { "" };
        let of = if foreign.is_empty() { String::new() } else { format!(" of {foreign}") };
        format!("{verb} Debian packages{of}: {}", self.packages.join(", "))
    }

    /// Writes the names of the packages' files into the tree: the variant `extract` has no database of packages but
    /// their files at hand, the others the database.
    fn list_packages(&self) -> String {
        if self.variant == "extract" {
            return format!(r#"--extract-hook=cd "$1"/var/cache/apt/archives && ls *.deb > "$1"/{PACKAGES}"#);
        }
        let format = "--showformat='${Package}_${Version}_${Architecture}.deb\\n'";
        let database = r#"--admindir="$1"/var/lib/dpkg"#;
        format!(r#"--customize-hook=dpkg-query {database} --show {format} > "$1"/{PACKAGES}"#)
    }

    /// What mmdebstrap is called with, but for the target and the mirror.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--variant={}", self.variant),
            format!("--include={}", self.packages.join(",")),
            r#"--aptopt=APT::Install-Recommends "false""#.to_owned(),
            "--format=tar".to_owned(),
        ];
        if self.variant == "extract" {
            arguments.push(format!("--hook-dir={MERGED_USR}"));
        }
        if self.architecture.is_foreign() {
            arguments.push(format!("--architectures={}", self.architecture.name()));
        }
        arguments.extend(self.hooks.iter().map(|hook| format!("--extract-hook={hook}")));
        arguments.push(self.list_packages());
        arguments.push(self.suite.name());
        arguments
    }
}

/// The layer of a recipe, from the cache or made now.
pub(super) fn layer(recipe: &Recipe) -> Result<Layer> {
    let entry = cache::entry(KIND, &recipe.key(), |folder| {
        let task = Task::start(recipe.title("unpacking"));
        let whole = folder.join("whole.tar");
        mmdebstrap(recipe, &whole)?;
        let list = layer::member(&whole, PACKAGES)?;
        fs::write(folder.join(PACKAGES), list).context("cannot write to the cache")?;
        let drop = [recipe.drop, &[&[PACKAGES]]].concat();
        let layer = Layer::filtered(&whole, &folder.join(LAYER), &Drop::new(&drop))?;
        fs::remove_file(&whole).context("cannot remove a temporary file in the cache")?;
        fs::write(folder.join(DIGEST), &layer.sha256).context("cannot write to the cache")?;
        task.done(recipe.title("unpacked"));
        Ok(())
    })?;
    let digest = entry.join(DIGEST);
    let sha256 = fs::read_to_string(&digest).with_context(|| format!("cannot read {}", digest.display()))?;
    Ok(Layer { sha256, content: Tar::File(entry.join(LAYER)) })
}

/// Names of the files of the packages in a layer that was made, sorted.
pub(super) fn packages(recipe: &Recipe) -> Result<Vec<String>> {
    let path = cache::path(KIND, &recipe.key())?.join(PACKAGES);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut names: Vec<_> = text.lines().map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// Whether the layer is in the cache.
pub(super) fn is_made(recipe: &Recipe) -> Result<bool> {
    cache::has(KIND, &recipe.key())
}

/// Removes the layer from the cache, so that the next build unpacks the packages of today.
pub(super) fn forget(recipe: &Recipe) -> Result<()> {
    cache::remove(&cache::path(KIND, &recipe.key())?)
}

fn mmdebstrap(recipe: &Recipe, target: &Path) -> Result<()> {
    let mut command = Command::new("mmdebstrap");
    command.args(recipe.arguments()).arg(target);
    if let Some(mirror) = std::env::var_os(MIRROR_VARIABLE) {
        command.arg(mirror);
    }
    // With this set, mmdebstrap sorts what it packs and leaves out what differs from run to run.
    command.env("SOURCE_DATE_EPOCH", EPOCH_SECONDS.to_string());
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("cannot run mmdebstrap; is the Debian package mmdebstrap installed?")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        bail!("mmdebstrap ended with {}; the last it said:\n{last}", output.status);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codename_is_read_from_debian_only() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(codename(debian).as_deref(), Some("bookworm"));
        assert_eq!(codename("ID=ubuntu\nVERSION_CODENAME=noble\nID_LIKE=debian\n"), None);
        assert_eq!(codename(""), None);
    }

    #[test]
    fn every_input_of_a_recipe_reaches_mmdebstrap() {
        let recipe = Recipe {
            architecture: Architecture::of_this_machine(),
            suite: Suite::Bookworm,
            variant: "extract",
            packages: &["libc6", "dash"],
            hooks: &["true"],
            drop: &[],
        };
        let arguments = recipe.arguments().join(" ");
        for part in ["--variant=extract", "--include=libc6,dash", "--extract-hook=true", " bookworm"] {
            assert!(arguments.contains(part), "{part} is not in {arguments}");
        }
        assert!(!arguments.contains("--architectures"), "{arguments}");
        let foreign = Architecture::ALL.into_iter().find(|architecture| architecture.is_foreign()).unwrap();
        let foreign = Recipe { architecture: foreign, ..recipe }.arguments().join(" ");
        assert!(foreign.contains("--architectures="), "{foreign}");
    }
}
