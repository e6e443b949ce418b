//! `cargo xtask walk`: what a new user does with nothing but a kubeconfig and a registry, on a cluster that knows nothing of
//! the project: the demo, the commands of the pages, and a release without a checkout.

mod demo;
mod page;
mod pages;
mod reader;
mod release;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Subcommand;

use crate::{
    cluster::{self, Cluster},
    images, packages, program,
    progress::Task,
};

/// Walk through the demo, the pages or a release as a new user, on a cluster that knows nothing of the project
///
/// Starts a second development cluster with a registry and without any image of the project, and takes it away at the end.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Leave the cluster up afterwards
    #[arg(long, global = true)]
    keep: bool,
    /// Name of the cluster; one of that name that is left over from an earlier run is removed first
    #[arg(long, default_value = "walk", value_name = "NAME", global = true)]
    name: cluster::Name,
    /// Name missing Debian packages instead of installing them
    #[arg(long, global = true)]
    no_install: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The demo with --kubeconfig: what it refuses, an interruption, and a whole run; nothing may be left behind
    Demo,
    /// The marked commands of install.md, README.md, queue.md, first-simulation.md, run-your-own.md, upgrade.md and
    /// uninstall.md, in this order; what they print must be what the pages show
    Pages {
        /// End behind this page, such as docs/run-your-own.md
        #[arg(long, value_name = "FILE")]
        page: Option<String>,
    },
    /// The marked commands of readiness.md, with nothing of this checkout but the files of a release
    Release {
        /// Folder with the files that `cargo xtask release --dry-run` wrote; they are written first unless given
        #[arg(long, value_name = "DIR")]
        files: Option<PathBuf>,
    },
}

/// How many nodes without containers stand beside the real one in a walk through a release, which is 5% of them then.
const OTHER_NODES: u32 = 19;

/// Carries out `cargo xtask walk`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let options = cluster::Options {
        no_install: arguments.no_install,
        registry: matches!(arguments.what, What::Demo),
        fake_nodes: if matches!(arguments.what, What::Release { .. }) { OTHER_NODES } else { 0 },
        ..cluster::Options::default()
    };
    if let What::Pages { page } = &arguments.what {
        pages::check(page.as_deref())?;
    }
    cluster::check(&options)?;
    packages::ensure(packages::CLUSTER, !arguments.no_install)?;
    images::ensure(!arguments.no_install)?;
    cluster::tell_when_interrupted(std::slice::from_ref(&arguments.name), || {})?;
    let files = match &arguments.what {
        What::Release { files } => release::files(files.as_deref(), arguments.no_install)?,
        What::Demo | What::Pages { .. } => PathBuf::new(),
    };
    let name = arguments.name.as_str();
    cluster::down(name)?;
    let result = cluster::up(name, &options).and_then(|cluster| match &arguments.what {
        What::Demo => demo::walk(&cluster, program::path()?),
        What::Pages { page } => pages::walk(&cluster, page.as_deref()),
        What::Release { .. } => release::walk(&cluster, &files),
    });
    if arguments.keep {
        eprintln!("the cluster {name} stays up: eval \"$(cargo xtask cluster env --name {name})\"");
    } else {
        cluster::leave(&arguments.name);
    }
    result
}

/// Lets a command find the cluster, kubectl and the project's programs, as a user's shell does.
fn as_user(command: &mut Command, cluster: &Cluster, programs: &Path) -> Result<()> {
    let ours = programs.to_owned();
    let helm = cluster::tool("helm")?;
    let helm = helm.parent().context("helm is in no folder")?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [cluster.tools(), ours, helm].into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).context("a folder of the PATH has a colon in its name")?;
    command.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig());
    // The cluster is on this machine.
    command.env("NO_PROXY", "*").env("no_proxy", "*");
    Ok(())
}

/// Everything that belongs to no namespace, and the labels of the nodes: an admin would find there what was left behind.
fn whole(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let kinds = "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,validatingadmissionpolicies,\
                 validatingadmissionpolicybindings,priorityclasses";
    let mut all: BTreeSet<String> =
        cluster.kubectl_output(&["get", kinds, "--output=name"])?.lines().map(str::to_owned).collect();
    let labels = "go-template={{range .items}}{{.metadata.name}} {{.metadata.labels}}{{end}}";
    all.insert(cluster.kubectl_output(&["get", "nodes", "--output", labels])?);
    Ok(all)
}

/// Compares the cluster with how it was.
fn ensure_unchanged(cluster: &Cluster, before: &BTreeSet<String>, after: &str) -> Result<()> {
    let task = Task::start("comparing the cluster with how it was");
    let now = whole(cluster)?;
    let new: Vec<&String> = now.difference(before).collect();
    let gone: Vec<&String> = before.difference(&now).collect();
    ensure!(
        new.is_empty() && gone.is_empty(),
        "after {after} these are new: {new:?}, and these are gone: {gone:?}"
    );
    task.done(format!("after {after} the cluster is as it was"));
    Ok(())
}
