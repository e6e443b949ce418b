//! The commands of the pages, carried out as they stand there but for the names that every reader replaces.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use super::reader::{Names, Reader, Running};
use crate::{
    cluster::{self, Cluster},
    images::{self, Profile, Registry},
    install::{self, NAMESPACE},
    program,
    shell::{self, ROOT},
};

/// The pages in the order in which a new user needs them.
const PAGES: [&str; 7] = [
    "docs/install.md",
    "README.md",
    "docs/queue.md",
    "docs/first-simulation.md",
    FROM_NOTHING,
    "docs/upgrade.md",
    "docs/uninstall.md",
];

/// All blocks that are marked. Fewer, and marks were lost; a new one raises it.
const LEAST_BLOCKS: usize = 37;

/// The page for people who have a login and no checkout: it begins in an empty folder.
const FROM_NOTHING: &str = "docs/run-your-own.md";

/// The page behind which the database is reached from here, as docs/queue.md suggests for the small Postgres.
const OPENS_THE_QUEUE: &str = "docs/queue.md";

/// The pages up to this one, all without any.
fn up_to(last: Option<&str>) -> Result<&'static [&'static str]> {
    let Some(last) = last else { return Ok(&PAGES) };
    let place = PAGES.iter().position(|page| *page == last);
    let place = place.with_context(|| format!("{last} is none of the pages: {}", PAGES.join(", ")))?;
    Ok(&PAGES[..=place])
}

pub(super) fn check(last: Option<&str>) -> Result<()> {
    up_to(last).map(drop)
}

pub(super) fn walk(cluster: &Cluster, last: Option<&str>) -> Result<()> {
    let pages = up_to(last)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let registry_folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let registry = OpenRegistry::start(cluster, registry_folder.path())?;
    let name = format!("{}/scavenger", registry.address);
    let at: Registry = format!("http://{name}").parse().map_err(anyhow::Error::msg)?;
    images::push_all(&at, Profile::Dev, "")?;
    // What a reader has after docs/command-line.md#get-the-program.
    let programs = ["build", "--locked", "--quiet", "--workspace", "--bins"];
    shell::run(&mut shell::cargo(&programs))?;
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.context("no port of this machine is free")?.port();
    let reader = with_checkout(cluster, &folder.path().join("admin"), names(cluster, &name, port)?)?;
    let newcomer = in_empty_folder(cluster, &folder.path().join("alice"), names(cluster, &name, port)?)?;
    let mut count = 0;
    let mut forward = None;
    for path in pages {
        let began = Instant::now();
        let who = if *path == FROM_NOTHING { &newcomer } else { &reader };
        count += who.follow(path)?;
        eprintln!("walk: {path} took {} s", began.elapsed().as_secs());
        if *path == OPENS_THE_QUEUE {
            forward = Some(forwarded(&reader, port)?);
        }
    }
    drop(forward);
    if last.is_none() {
        ensure!(count >= LEAST_BLOCKS, "only {count} blocks of the pages are marked");
        let left = install::left(&cluster.access())?;
        ensure!(left.is_empty(), "after docs/uninstall.md these are left: {}", left.join(", "));
    }
    eprintln!("walk: {count} blocks of {} pages did what the pages say", pages.len());
    Ok(())
}

/// Somebody without a checkout, who has a kubeconfig of the admin until there is one of their own.
fn in_empty_folder<'a>(cluster: &'a Cluster, folder: &Path, names: Names) -> Result<Reader<'a>> {
    let empty = folder.join("empty");
    fs::create_dir_all(&empty).context("cannot make a temporary folder")?;
    Reader::new(cluster, empty, program::folder()?.to_owned(), names)
}

/// Somebody with a checkout. Files that commands write do not go into the real one.
fn with_checkout<'a>(cluster: &'a Cluster, folder: &Path, names: Names) -> Result<Reader<'a>> {
    let checkout = folder.join("scavengerjobs");
    fs::create_dir_all(&checkout).context("cannot make a temporary folder")?;
    for entry in ["deploy", "schema", "docs"] {
        symlink(Path::new(ROOT).canonicalize()?.join(entry), checkout.join(entry))
            .context("cannot make a temporary folder")?;
    }
    Reader::new(cluster, checkout, program::folder()?.to_owned(), names)
}

/// What readers of these pages write instead of the names there.
fn names(cluster: &Cluster, registry: &str, port: u16) -> Result<Names> {
    let server = ["config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}"];
    let server = cluster.kubectl_output(&server)?.trim().to_owned();
    Ok(vec![
        ("registry.example/scavenger", registry.to_owned()),
        ("postgres.example:5432", format!("127.0.0.1:{port}")),
        ("postgres.example", format!("127.0.0.1:{port}")),
        ("https://api.example:6443", server),
        ("namespace NAMESPACE", "namespace default".to_owned()),
        ("FOLDER", "../kustomization".to_owned()),
        ("'...'", format!("'{}'", super::reader::PASSWORD)),
    ])
}

/// `kubectl port-forward` to the database, until it is dropped.
fn forwarded(reader: &Reader<'_>, port: u16) -> Result<Running> {
    let mut command = Command::new("kubectl");
    let ports = format!("{port}:5432");
    command.args(["port-forward", "--namespace", NAMESPACE, "statefulset/postgres", &ports]);
    reader.equip(&mut command)?;
    Running::start(command.stdout(Stdio::null()), &format!("127.0.0.1:{port}"))
}

/// A registry without a login, from which the node pulls: the cluster's own asks for one.
struct OpenRegistry {
    address: String,
    _running: Running,
}

impl OpenRegistry {
    fn start(cluster: &Cluster, folder: &Path) -> Result<Self> {
        let address = cluster.registry_front();
        let config = format!(
            "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: \"{address}\"}}\n",
            folder.join("store").display()
        );
        let path = folder.join("config.yml");
        fs::write(&path, config).context("cannot write the registry's settings")?;
        let mut command = Command::new(cluster::registry_program()?);
        command.arg("serve").arg(path).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { _running: Running::start(&mut command, &address)?, address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_ends_behind_the_page_that_is_named() {
        assert_eq!(up_to(None).unwrap(), PAGES);
        assert_eq!(up_to(Some("README.md")).unwrap(), ["docs/install.md", "README.md"]);
        let error = up_to(Some("docs/nowhere.md")).unwrap_err().to_string();
        assert!(error.starts_with("docs/nowhere.md is none of the pages: docs/install.md, "), "{error}");
    }

    #[test]
    fn every_marked_block_can_be_read() {
        let count: usize = PAGES.iter().map(|page| Reader::blocks_of(page).unwrap().len()).sum();
        assert!(count >= LEAST_BLOCKS, "only {count} blocks are marked");
    }
}
