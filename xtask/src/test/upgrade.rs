//! `cargo xtask upgrade`: from an older build to this one and back, with ScavengerJobs and rows in every state under way.
//!
//! The older build is made from its commit and kept. Both builds are on the node from the beginning: the older one's
//! images have the tag [`TAG`], and an overlay of its own manifests names them. The test applies one installation over
//! the other, as an admin would.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};

use super::{Depth, How, cargo_test};
use crate::{
    cache::{self, Key},
    cluster::{self, Cluster},
    contract,
    images::{self, Checkout, Image, Profile},
    install::{self, Agents, By},
    packages,
    progress::Task,
    shell,
};

/// Tag of the older images. Both versions call theirs by the same one until the first release.
const TAG: &str = "older";

/// Folder of the overlay in the older checkout.
const OVERLAY: &str = "e2e/older";

/// The images with a program that an upgrade replaces. Workloads and Postgres stay as they are.
const REPLACED: [Image; 4] = [Image::Operator, Image::Tuner, Image::GromacsSubmitter, Image::Supervisor];

/// Test an upgrade from an older build to this one, and the way back
///
/// Installs the older build, brings ScavengerJobs into every phase and rows into every state, upgrades, goes back one
/// version and upgrades again. Fails if anything was lost, done twice, or interrupted by it. Takes about a quarter of an
/// hour, and ten minutes more the first time, when the older build is compiled.
#[derive(Debug, clap::Args)]
pub(crate) struct UpgradeArguments {
    /// Commit or tag of the older build; by default the last tag, or a commit before there was any
    #[arg(long, value_name = "REVISION")]
    from: Option<String>,
    /// Do not go back: the older build is from before its `migrate` left a newer database alone
    #[arg(long)]
    forward_only: bool,
    /// Leave the cluster up afterwards
    #[arg(long)]
    keep: bool,
    /// Name of the cluster; one of that name that is left over from an earlier run is removed first
    #[arg(long, default_value = "upgrade", value_name = "NAME")]
    name: cluster::Name,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Carries out `cargo xtask upgrade`.
pub(crate) fn run(arguments: &UpgradeArguments) -> Result<()> {
    let commit = commit(arguments.from.as_deref())?;
    let options = cluster::Options {
        no_install: arguments.no_install,
        fake_nodes: 1,
        metrics_server: true,
        ..cluster::Options::default()
    };
    cluster::check(&options)?;
    let mut wanted: Vec<&str> = packages::CLUSTER.to_vec();
    wanted.extend(packages::TESTS);
    packages::ensure(&wanted, !arguments.no_install)?;
    images::ensure(!arguments.no_install)?;
    let how = How { depth: Depth::Test, pythons: contract::pythons()?, trace: None };
    let older = older(&commit)?;
    shell::run(&mut shell::cargo(&["test", "--locked", "--no-run", "--workspace"]))?;

    cluster::tell_when_interrupted(std::slice::from_ref(&arguments.name), || {})?;
    let result = test(arguments, &options, &older, &how);
    if arguments.keep {
        let name = arguments.name.as_str();
        eprintln!("the cluster {name} stays up: eval \"$(cargo xtask cluster env --name {name})\"");
    } else {
        cluster::leave(&arguments.name);
    }
    result
}

fn test(arguments: &UpgradeArguments, options: &cluster::Options, older: &Path, how: &How) -> Result<()> {
    let name = arguments.name.as_str();
    cluster::down(name)?;
    let cluster = cluster::up(name, options)?;
    load(&cluster, older)?;
    let checkout = older.join("source");
    install::install(&cluster, By::KustomizationOf(&checkout, OVERLAY), Agents::None, Profile::Dev)?;
    let mut tests = cargo_test(&["--workspace", "--test", "e2e"]);
    how.apply(&mut tests, Some(&cluster))?;
    tests.env("SCAVENGER_E2E_OLDER", checkout.join(OVERLAY));
    if arguments.forward_only {
        tests.env("SCAVENGER_E2E_FORWARD_ONLY", "1");
    }
    shell::run(tests.args(["--", "--include-ignored", "--show-output", "upgrade::"]))
}

/// The older images, under a tag of their own. This checkout's, which come later, take their names.
fn load(cluster: &Cluster, older: &Path) -> Result<()> {
    let archives: Vec<PathBuf> = REPLACED.iter().map(|image| older.join(image.file_name())).collect();
    cluster.load(&archives)?;
    for image in REPLACED {
        cluster.tag(&image.reference(), &image.reference_at(TAG))?;
    }
    Ok(())
}

/// What is upgraded from as long as there is no tag: the build with the one migration of the queue. Databases of before are not
/// migrated.
const BEFORE_TAGS: &str = "93cfef2d";

/// The commit of a revision.
fn commit(revision: Option<&str>) -> Result<String> {
    let revision = match revision {
        Some(revision) => revision.to_owned(),
        None => shell::git(&["describe", "--tags", "--abbrev=0"]).unwrap_or_else(|_| BEFORE_TAGS.to_owned()),
    };
    shell::git(&["rev-parse", "--verify", &format!("{revision}^{{commit}}")])
}

/// The older build: its source, and the archives of its images. Made once for each commit.
fn older(commit: &str) -> Result<PathBuf> {
    let short = &commit[..12.min(commit.len())];
    cache::entry("older", &Key::new(commit), |folder| {
        let task = Task::start(format!("building the images of {short}"));
        let source = folder.join("source");
        check_out(commit, &source)?;
        // Beside this checkout's own, so that neither throws away what the other has compiled.
        let target = Some(Path::new(shell::ROOT).join("target/older"));
        let checkout = Checkout { root: source.clone(), target };
        for archive in images::build_of(&checkout, &REPLACED, Profile::Dev)? {
            let name = archive.path.file_name().context("an archive without a name")?;
            fs::copy(&archive.path, folder.join(name)).context("cannot write to the cache")?;
        }
        let overlay = source.join(OVERLAY);
        fs::create_dir_all(&overlay)
            .and_then(|()| fs::write(overlay.join("kustomization.yaml"), kustomization()))
            .with_context(|| format!("cannot write {}", overlay.display()))?;
        task.done(format!("built the images of {short}"));
        Ok(())
    })
}

/// Writes the files of a commit into a folder.
fn check_out(commit: &str, folder: &Path) -> Result<()> {
    let mut git = std::process::Command::new("git");
    git.args(["archive", "--format=tar", commit]).current_dir(shell::ROOT);
    let mut git = git.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot run git")?;
    let files = git.stdout.take().context("git has no standard output")?;
    let unpacked = tar::Archive::new(files).unpack(folder);
    ensure!(git.wait()?.success(), "git archive {commit} failed; its own messages are above");
    unpacked.with_context(|| format!("cannot write the files of {commit} to {}", folder.display()))
}

/// The tests' installation with the older images. The pool names the supervisor's image in a field of its own.
fn kustomization() -> String {
    let images: String = REPLACED
        .iter()
        .map(|image| format!("  - name: {}\n    newTag: {TAG}\n", image.without_tag()))
        .collect();
    let supervisor = Image::Supervisor.reference_at(TAG);
    format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - ../deploy\nimages:\n{images}\
         patches:\n  - patch: |-\n      apiVersion: scavenger.dev/v1alpha1\n      kind: ScavengerPool\n      metadata:\n        \
         name: default\n      spec:\n        supervisor:\n          image: {supervisor}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlay_names_each_image_once_and_the_supervisors_twice() {
        let text = kustomization();
        assert_eq!(text.matches("newTag: older").count(), 4, "{text}");
        assert!(text.contains("  - name: scavenger.dev/operator\n"), "{text}");
        assert!(text.contains("image: scavenger.dev/supervisor:older"), "{text}");
        let _: serde_json::Value = serde_saphyr::from_str(&text).expect("the overlay should be YAML");
    }

    #[test]
    fn a_commit_is_written_as_files() {
        let folder = tempfile::tempdir().unwrap();
        check_out(&commit(Some("HEAD")).unwrap(), folder.path()).unwrap();
        assert!(folder.path().join("e2e/deploy/kustomization.yaml").exists());
        assert!(commit(Some("no-such-tag")).is_err());
    }
}
