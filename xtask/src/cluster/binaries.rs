//! Builds the cluster's programs from the Go modules, once per state of their sources.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::up::Options;
use crate::cache::{self, Key};
use crate::preflight;
use crate::progress::Task;

/// What one compilation of everything leaves behind, Go's own cache included, is about 8 GiB.
const BUILD_GIB: u64 = 10;

/// Programs that a running cluster may get later, because they run only when asked for.
pub(super) const ON_REQUEST: &[&str] = &["kwok", "metrics-server"];

/// The names by which the one Kubernetes program is called.
const KUBERNETES: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
];

/// A release of Kubernetes that a cluster can run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Kubernetes {
    #[value(name = "1.31")]
    #[serde(rename = "1.31", alias = "V1_31")]
    V1_31,
    #[value(name = "1.34")]
    #[serde(rename = "1.34", alias = "V1_34")]
    V1_34,
    #[default]
    #[value(name = "1.37")]
    #[serde(rename = "1.37", alias = "V1_37")]
    V1_37,
}

impl Kubernetes {
    /// The files with the versions and the checksums of its modules.
    fn files(self) -> (&'static str, &'static str) {
        match self {
            Self::V1_31 => ("kubernetes-1.31.mod", "kubernetes-1.31.sum"),
            Self::V1_34 => ("kubernetes-1.34.mod", "kubernetes-1.34.sum"),
            Self::V1_37 => ("go.mod", "go.sum"),
        }
    }
}

impl Display for Kubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("should have no hidden values").get_name())
    }
}

/// Programs that are built together, because they change together.
struct Set {
    /// The kind of cache entry.
    kind: &'static str,
    /// Shown while it is built.
    title: &'static str,
    /// The Go module's folder.
    module: PathBuf,
    /// The file that names the versions of everything.
    go_mod: &'static str,
    /// Files and folders of the module that decide what comes out.
    sources: Vec<&'static str>,
    flags: Vec<String>,
    /// Package and the programs' names.
    programs: Vec<(&'static str, &'static str)>,
}

/// Where every program is, by the name it is called by.
pub(super) type Programs = BTreeMap<&'static str, PathBuf>;

/// Checks, without changing anything, that what is missing could be built.
pub(super) fn check(options: &Options) -> Result<()> {
    let missing = missing_sets(options)?;
    if missing.is_empty() {
        return Ok(());
    }
    preflight::go(&missing.iter().map(|set| set.module.clone()).collect::<Vec<_>>())?;
    // The node's own two programs take a second and no room to speak of.
    if missing.iter().any(|set| set.kind != "devnode") {
        preflight::disk(&cache::folder()?, BUILD_GIB)?;
    }
    Ok(())
}

/// What is still to be built, for people.
pub(super) fn missing(options: &Options) -> Result<Vec<&'static str>> {
    Ok(missing_sets(options)?.iter().map(|set| set.title).collect())
}

fn missing_sets(options: &Options) -> Result<Vec<Set>> {
    let mut missing = Vec::new();
    for set in sets(options)? {
        if !cache::has(set.kind, &set.key()?)? {
            missing.push(set);
        }
    }
    Ok(missing)
}

/// Builds what is missing.
pub(super) fn ensure(options: &Options) -> Result<Programs> {
    let mut programs = Programs::new();
    for set in sets(options)? {
        let folder = cache::entry(set.kind, &set.key()?, |target| set.build(target))?;
        for (_, name) in &set.programs {
            if *name == "kube" {
                programs.extend(KUBERNETES.iter().map(|name| (*name, folder.join("kube"))));
            } else {
                programs.insert(name, folder.join(name));
            }
        }
    }
    Ok(programs)
}

/// Programs that are no part of a cluster: Helm and kustomize.
pub(crate) fn tool(name: &str) -> Result<PathBuf> {
    let module = root()?.join("tools");
    let version = required(&module.join("go.mod"), "helm.sh/helm/v4")?;
    let set = Set {
        kind: "tools",
        title: "Helm and kustomize",
        flags: vec![format!("-ldflags=-s -w -X helm.sh/helm/v4/internal/version.version={version}")],
        module: module.clone(),
        go_mod: "go.mod",
        sources: vec!["go.mod", "go.sum"],
        programs: vec![
            ("helm.sh/helm/v4/cmd/helm", "helm"),
            ("sigs.k8s.io/kustomize/kustomize/v5", "kustomize"),
        ],
    };
    let key = set.key()?;
    if !cache::has(set.kind, &key)? {
        preflight::go(&[module])?;
    }
    Ok(cache::entry(set.kind, &key, |target| set.build(target))?.join(name))
}

/// The Go module of the checkout that this program was built from.
fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/devcluster");
    root.canonicalize().with_context(|| {
        format!("the checkout has no {}: run `cargo xtask` in a complete one", root.display())
    })
}

fn sets(options: &Options) -> Result<Vec<Set>> {
    let kubernetes = options.kubernetes;
    let root = root()?;
    let node = root.join("node");
    let metrics = root.join("metrics");
    let strip = "-ldflags=-s -w".to_owned();
    let (go_mod, go_sum) = kubernetes.files();
    let mut sets = vec![
        Set {
            kind: "kubernetes",
            title: "Kubernetes and etcd",
            flags: vec![
                // What differs between releases is in files for one of them.
                format!("-tags=kubernetes_{kubernetes}"),
                format!("-ldflags=-s -w {}", version_flags(&root.join(go_mod))?),
            ],
            module: root.clone(),
            go_mod,
            sources: vec![go_mod, go_sum, "cmd/kube"],
            programs: vec![("./cmd/kube", "kube")],
        },
        Set {
            kind: "node",
            title: "containerd and CoreDNS",
            flags: vec!["-tags=no_btrfs".into(), strip.clone()],
            module: node.clone(),
            go_mod: "go.mod",
            sources: vec!["go.mod", "go.sum", "cmd"],
            programs: vec![
                ("github.com/containerd/containerd/v2/cmd/containerd", "containerd"),
                (
                    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
                    "containerd-shim-runc-v2",
                ),
                ("github.com/containerd/containerd/v2/cmd/ctr", "ctr"),
                ("./cmd/coredns", "coredns"),
            ],
        },
        Set {
            kind: "devnode",
            title: "the node's supervisor",
            flags: vec![strip.clone()],
            module: root,
            go_mod: "go.mod",
            sources: vec!["cmd/devnode", "cmd/pause", "embed.go", "config", "manifests", "kwok"],
            programs: vec![("./cmd/devnode", "devnode"), ("./cmd/pause", "pause")],
        },
    ];
    if options.fake_nodes > 0 {
        sets.push(Set {
            kind: "kwok",
            title: "KWOK",
            flags: vec![strip],
            module: node,
            go_mod: "go.mod",
            sources: vec!["go.mod", "go.sum"],
            programs: vec![("sigs.k8s.io/kwok/cmd/kwok", "kwok")],
        });
    }
    if options.metrics_server {
        let version = required(&metrics.join("go.mod"), "sigs.k8s.io/metrics-server")?;
        sets.push(Set {
            kind: "metrics-server",
            title: "the metrics-server",
            flags: vec![format!("-ldflags=-s -w -X k8s.io/client-go/pkg/version.gitVersion={version}")],
            module: metrics,
            go_mod: "go.mod",
            sources: vec!["go.mod", "go.sum"],
            programs: vec![("sigs.k8s.io/metrics-server/cmd/metrics-server", "metrics-server")],
        });
    }
    Ok(sets)
}

/// The version that the programs answer with is the one that go.mod requires.
fn version_flags(go_mod: &Path) -> Result<String> {
    let version = required(go_mod, "k8s.io/kubernetes")?;
    let version = version.trim_start_matches('v');
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let package = "k8s.io/component-base/version";
    Ok(format!(
        "-X {package}.gitVersion=v{version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} \
         -X {package}.gitTreeState=clean"
    ))
}

/// The version of a module that a go.mod requires.
fn required(path: &Path, name: &str) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = text.lines().map(|line| line.trim().trim_start_matches("require "));
    lines
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.split_whitespace().next())
        .map(str::to_owned)
        .with_context(|| format!("{} does not require {name}", path.display()))
}

impl Set {
    fn key(&self) -> Result<Key> {
        let recipe = format!("{:?} {:?} {}", self.flags, self.programs, std::env::consts::ARCH);
        self.sources.iter().try_fold(Key::new(&recipe), |key, source| key.with_path(&self.module, source))
    }

    fn build(&self, target: &Path) -> Result<()> {
        let task = Task::start(format!("building {}", self.title));
        let packages: Vec<_> = self.programs.iter().map(|(package, _)| *package).collect();
        task.detail("downloading the sources");
        task.set_total(self.count_packages(&packages)?);
        // Several packages at once go into a folder, each by the last part of its name.
        let mut build = self.go("build");
        // Stamping the commit in would make every commit a new program, and fail where git is missing.
        build
            .args(["-v", "-trimpath", "-buildvcs=false", "-o"])
            .arg(format!("{}/", target.display()))
            .args(&self.flags)
            .args(&packages);
        let mut build = build.stderr(Stdio::piped()).spawn().context("cannot run `go build`")?;
        let stderr = build.stderr.take().expect("should be piped");
        let mut said = Vec::new();
        let mut compiled = 0;
        for line in BufReader::new(stderr).lines() {
            let line = line.context("cannot read what `go build` says")?;
            // With -v, go names each package it compiles, and nothing else has no space in its line.
            if line.contains(' ') {
                said.push(line);
            } else {
                compiled += 1;
                task.set_position(compiled);
            }
        }
        let status = build.wait().context("cannot wait for `go build`")?;
        if !status.success() {
            bail!("building {} failed: {}", self.title, said.join("\n"));
        }
        task.done(format!("built {}", self.title));
        Ok(())
    }

    fn count_packages(&self, packages: &[&str]) -> Result<u64> {
        let mut list = self.go("list");
        let output = list.args(["-deps", "-f", "."]).args(&self.flags).args(packages).output();
        let output = output.context("cannot run `go list`")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.starts_with("go: downloading")).unwrap_or_default();
            bail!("cannot find the sources of {}: {last}", self.title);
        }
        Ok(output.stdout.lines().count() as u64)
    }

    fn go(&self, verb: &str) -> Command {
        let mut command = Command::new("go");
        // Static programs run in an image of nothing else; a vendored or workspace build of the user's does not count.
        command.arg(verb).current_dir(&self.module).env("CGO_ENABLED", "0");
        command.env("GOFLAGS", format!("-mod=readonly -modfile={}", self.go_mod));
        command.env("GOWORK", "off").env("GOTOOLCHAIN", "local").stdin(Stdio::null());
        command
    }
}

/// Where each of the programs shall be found in a cluster's bin folder.
pub(super) fn link(programs: &Programs, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, program) in programs {
        let link = folder.join(name);
        cache::remove(&link)?;
        std::os::unix::fs::symlink(program, &link)
            .with_context(|| format!("cannot create {}", link.display()))?;
    }
    Ok(())
}

/// Whether the bin folder links to these very programs.
pub(super) fn are_linked(programs: &Programs, folder: &Path) -> bool {
    programs
        .iter()
        .all(|(name, program)| std::fs::read_link(folder.join(name)).is_ok_and(|target| target == *program))
}

/// Reads all of a child's output, for a message.
pub(super) fn read_all(mut from: impl Read) -> String {
    let mut text = Vec::new();
    // What could be read until an error is still worth showing.
    let _ = from.read_to_end(&mut text);
    String::from_utf8_lossy(&text).trim().to_owned()
}
