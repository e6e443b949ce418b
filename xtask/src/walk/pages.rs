//! The commands of the pages, carried out as they stand there but for the names that every reader replaces.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::reader::{Reader, Running};
use crate::{
    cluster::{self, Cluster},
    images::{self, Profile, Registry},
    install::{self, NAMESPACE},
    program,
    shell::{self, ROOT},
};

/// The pages in the order in which a new user needs them.
const PAGES: [&str; 6] = [
    "docs/install.md",
    "README.md",
    "docs/queue.md",
    "docs/first-simulation.md",
    "docs/upgrade.md",
    "docs/uninstall.md",
];

/// All blocks that are marked. Fewer, and marks were lost; a new one raises it.
const LEAST_BLOCKS: usize = 24;

/// The page behind which the database is reached from here, as docs/queue.md suggests for the small Postgres.
const OPENS_THE_QUEUE: &str = "docs/queue.md";

pub(super) fn walk(cluster: &Cluster) -> Result<()> {
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
    let reader = with_checkout(cluster, folder.path(), &name, port)?;
    let mut count = 0;
    let mut forward = None;
    for path in PAGES {
        count += reader.follow(path)?;
        if path == OPENS_THE_QUEUE {
            forward = Some(forwarded(&reader, port)?);
        }
    }
    drop(forward);
    ensure!(count >= LEAST_BLOCKS, "only {count} blocks of the pages are marked");
    let left = install::left(&cluster.access())?;
    ensure!(left.is_empty(), "after docs/uninstall.md these are left: {}", left.join(", "));
    eprintln!("walk: {count} blocks of {} pages did what the pages say", PAGES.len());
    Ok(())
}

/// Somebody with a checkout. Files that commands write do not go into the real one.
fn with_checkout<'a>(cluster: &'a Cluster, folder: &Path, registry: &str, port: u16) -> Result<Reader<'a>> {
    let checkout = folder.join("scavengerjobs");
    fs::create_dir_all(&checkout).context("cannot make a temporary folder")?;
    for entry in ["deploy", "schema", "docs"] {
        symlink(Path::new(ROOT).canonicalize()?.join(entry), checkout.join(entry))
            .context("cannot make a temporary folder")?;
    }
    let names = vec![
        ("registry.example/scavenger", registry.to_owned()),
        ("postgres.example", format!("127.0.0.1:{port}")),
        ("namespace NAMESPACE", "namespace default".to_owned()),
        ("FOLDER", "../kustomization".to_owned()),
        ("'...'", format!("'{}'", super::reader::PASSWORD)),
    ];
    Reader::new(cluster, checkout, program::folder()?.to_owned(), names)
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
    fn every_marked_block_can_be_read() {
        let count: usize = PAGES.iter().map(|page| Reader::blocks_of(page).unwrap().len()).sum();
        assert!(count >= LEAST_BLOCKS, "only {count} blocks are marked");
    }
}
