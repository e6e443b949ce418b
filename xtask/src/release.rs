//! `cargo xtask release --dry-run`: everything that a release consists of, in one folder.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::{
    chart,
    images::{self, Architecture, Image},
    shell::ROOT,
};

/// Write everything that a release consists of into one folder
///
/// Images with their lists of contents, those of this project's own programs for each architecture and under one index; the
/// chart's package; install.yaml, pool.yaml, queue.yaml, postgres.yaml, node-agent.yaml, record.yaml and crds.yaml for kubectl; the commands
/// scavenger-operator, gromacs-submitter, scavenger-tuner and scavenger-laboratory as static programs, which run on any Linux;
/// the notes of this version, and SHA256SUMS over all of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Publish nothing: only write the files
    #[arg(long, required = true)]
    dry_run: bool,

    /// Where the files go; it must be empty or not exist
    #[arg(long, value_name = "DIR", default_value = "target/release-files")]
    output: PathBuf,

    /// Registry and path in the manifests, under which nodes find the images
    #[arg(long, value_name = "REGISTRY", default_value = "scavenger.dev")]
    registry: String,

    /// Name or address of Postgres in queue.yaml; that of postgres.yaml unless given
    #[arg(long, value_name = "HOST", default_value = "postgres")]
    database_host: String,

    /// Architectures of images and programs; this machine's alone needs no cross compiler
    #[arg(long, value_name = "ARCHITECTURE", value_delimiter = ',', default_value = "amd64,arm64")]
    architecture: Vec<Architecture>,

    /// Leave out images and programs, which take the longest
    #[arg(long)]
    no_images: bool,

    /// Do not install missing Debian packages, only name them
    #[arg(long)]
    no_install: bool,
}

/// Checksums of all other files.
const SUMS: &str = "SHA256SUMS";

/// Stands above queue.yaml.
const QUEUE: &str = "\
# The queue of GROMACS simulations: tuner and submitter. Apply install.yaml first. The passwords of the database are in the
# Secret `postgres` of this namespace, with the keys password, submitter-password and tuner-password. Create it first
# (docs/install.md#the-queue).
";

/// Writes a release for one architecture, as it stands with default options, and says where.
pub(crate) fn write(architecture: Architecture, no_install: bool) -> Result<PathBuf> {
    let output = Path::new(ROOT).join("target/walked-release");
    if output.exists() {
        fs::remove_dir_all(&output).with_context(|| format!("cannot remove {}", output.display()))?;
    }
    run(&Arguments {
        dry_run: true,
        output: output.clone(),
        registry: "scavenger.dev".into(),
        database_host: "postgres".into(),
        architecture: vec![architecture],
        no_images: false,
        no_install,
    })?;
    Ok(output)
}

/// Carries out `cargo xtask release`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.output;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let is_empty = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    ensure!(is_empty, "{} is not empty: remove it, or name another folder with --output", folder.display());
    let folder = fs::canonicalize(folder).with_context(|| format!("cannot find {}", folder.display()))?;
    let write = |name: &str, content: &str| {
        fs::write(folder.join(name), content).with_context(|| format!("cannot write {name}"))
    };
    manifests(&folder, arguments)?;
    let changes = Path::new(ROOT).join("CHANGELOG.md");
    let changes =
        fs::read_to_string(&changes).with_context(|| format!("cannot read {}", changes.display()))?;
    write("notes.md", &notes(&changes, env!("CARGO_PKG_VERSION"))?)?;
    if !arguments.no_images {
        let images = Image::all();
        images::ensure_for(&arguments.architecture, &images, !arguments.no_install)?;
        for archive in images::build_all(&arguments.architecture, &images, images::Profile::Release)? {
            archive.copy_to(&folder)?;
        }
        for (name, program) in images::build_commands(&arguments.architecture, !arguments.no_install)? {
            fs::copy(program, folder.join(&name)).with_context(|| format!("cannot write {name}"))?;
        }
    }
    let sums = sums(&folder)?;
    write(SUMS, &sums)?;
    print!("{sums}");
    eprintln!("{} files are in {}", sums.lines().count() + 1, folder.display());
    Ok(())
}

/// The files that kubectl and Helm take.
fn manifests(folder: &Path, arguments: &Arguments) -> Result<()> {
    let write = |name: &str, content: &str| {
        fs::write(folder.join(name), content).with_context(|| format!("cannot write {name}"))
    };
    let files = chart::files(&arguments.registry, &arguments.database_host)?;
    write("install.yaml", &files.install)?;
    write("pool.yaml", &files.pool)?;
    write("queue.yaml", &format!("{QUEUE}{}", files.queue))?;
    write("postgres.yaml", &files.postgres)?;
    write("node-agent.yaml", &files.node_agent)?;
    write("record.yaml", &files.record)?;
    let crds = chart::folder().join("crds/crds.yaml");
    fs::copy(&crds, folder.join("crds.yaml")).with_context(|| format!("cannot copy {}", crds.display()))?;
    let destination = folder.to_string_lossy();
    chart::helm(&["package", ".", "--destination", &destination], &chart::folder(), "")?;
    Ok(())
}

/// The section of a version in the change log; that of what is not released yet, while the version has none.
fn notes(changes: &str, version: &str) -> Result<String> {
    let section = |name: &str| {
        let (_, rest) = changes.split_once(&format!("\n## [{name}]"))?;
        let (_, text) = rest.split_once('\n')?;
        Some(text.split("\n## ").next().unwrap_or_default().trim())
    };
    let text = section(version).or_else(|| section("Unreleased"));
    let text =
        text.with_context(|| format!("CHANGELOG.md has no section [{version}] and no [Unreleased]"))?;
    ensure!(!text.is_empty(), "CHANGELOG.md says nothing about {version}");
    Ok(format!("# ScavengerJobs for Kubernetes {version}\n\n{text}\n"))
}

/// Checksums of all files, sorted by name, as `sha256sum --check` reads them.
fn sums(folder: &Path) -> Result<String> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    let mut text = Vec::new();
    for name in names {
        let name = name.to_string_lossy();
        let mut hash = Hasher(Sha256::new());
        let mut file = File::open(folder.join(&*name)).with_context(|| format!("cannot open {name}"))?;
        io::copy(&mut file, &mut hash).with_context(|| format!("cannot read {name}"))?;
        let digest: String = hash.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{digest}  {name}")?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

struct Hasher(Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What `cargo xtask ci` asks: all but the images can be written.
pub(crate) fn check() -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    run(&Arguments {
        dry_run: true,
        output: folder.path().join("files"),
        registry: "registry.example/scavenger".into(),
        database_host: "db.example.org".into(),
        architecture: Vec::new(),
        no_images: true,
        no_install: true,
    })?;
    let version = env!("CARGO_PKG_VERSION");
    let secret = "secretKeyRef:";
    for (name, expected) in [
        ("install.yaml", vec![format!("image: registry.example/scavenger/operator:{version}")]),
        (
            "queue.yaml",
            vec![
                format!("image: registry.example/scavenger/tuner:{version}"),
                format!("image: registry.example/scavenger/gromacs-submitter:{version}"),
                secret.to_owned(),
                "@db.example.org:5432/".to_owned(),
            ],
        ),
        ("node-agent.yaml", vec![format!("image: registry.example/scavenger/node-agent:{version}")]),
        ("record.yaml", vec![format!("image: registry.example/scavenger/operator:{version}")]),
        ("postgres.yaml", vec!["kind: StatefulSet".to_owned(), "secretName: postgres".to_owned()]),
    ] {
        let text = fs::read_to_string(folder.path().join("files").join(name))?;
        for part in expected {
            ensure!(text.contains(&part), "{name} has no {part}");
        }
        ensure!(!text.contains("password: "), "{name} holds a password");
    }
    for name in ["install.yaml", "node-agent.yaml"] {
        let text = fs::read_to_string(folder.path().join("files").join(name))?;
        let first = text.lines().find(|line| line.starts_with("kind: "));
        ensure!(first == Some("kind: Namespace"), "{name} begins with {first:?}, and not with its namespace");
    }
    let package = concat!("files/scavengerjobs-", env!("CARGO_PKG_VERSION"), ".tgz");
    ensure!(folder.path().join(package).exists(), "there is no {package}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_the_section_of_the_version() {
        let changes = "# Changelog\n\n## [Unreleased]\n\n- next\n\n## [0.2.0] - 2026-01-01\n\n### Added\n\n- new\n\n## [0.1.0]\n\n- old\n";
        assert!(notes(changes, "0.2.0").unwrap().ends_with("0.2.0\n\n### Added\n\n- new\n"));
        assert!(notes(changes, "0.1.0").unwrap().ends_with("\n\n- old\n"));
        assert!(notes(changes, "0.3.0").unwrap().ends_with("0.3.0\n\n- next\n"));
        assert!(notes("# Changelog\n", "0.1.0").is_err());
        assert!(notes("# Changelog\n\n## [0.1.0]\n\n## [0.0.1]\n\n- x\n", "0.1.0").is_err());
    }

    #[test]
    fn sums_are_those_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "").unwrap();
        fs::write(folder.path().join("a"), "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
                        e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n";
        assert_eq!(sums(folder.path()).unwrap(), expected);
    }
}
