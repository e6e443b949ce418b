//! The commands of the pages, carried out as they stand there but for the names that every reader replaces.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    as_user,
    page::{self, Block, Kind},
};
use crate::{
    cluster::{self, Cluster},
    images::{self, Profile, Registry},
    install::{self, NAMESPACE},
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

/// Alice's password.
const PASSWORD: &str = "walk";

/// How long a command is repeated until it prints what the page shows.
const SHOWN_LIMIT: Duration = Duration::from_secs(120);

/// No command of a page takes longer, in seconds.
const COMMAND_LIMIT: &str = "1800";

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
    let reader = Reader::new(cluster, folder.path(), &name)?;
    let mut count = 0;
    let mut forward = None;
    for path in PAGES {
        let text =
            fs::read_to_string(Path::new(ROOT).join(path)).with_context(|| format!("cannot read {path}"))?;
        for block in page::blocks(&text).with_context(|| path.to_owned())? {
            eprintln!("walk: {path}:{}", block.line);
            reader.carry_out(&block).with_context(|| format!("{path}:{}", block.line))?;
            count += 1;
        }
        if path == OPENS_THE_QUEUE {
            forward = Some(reader.forward()?);
        }
    }
    drop(forward);
    ensure!(count >= LEAST_BLOCKS, "only {count} blocks of the pages are marked");
    let left = install::left(&cluster.access())?;
    ensure!(left.is_empty(), "after docs/uninstall.md these are left: {}", left.join(", "));
    eprintln!("walk: {count} blocks of {} pages did what the pages say", PAGES.len());
    Ok(())
}

/// Somebody with a shell, a checkout and the pages.
struct Reader<'a> {
    cluster: &'a Cluster,
    /// The checkout, and beside it what the pages tell to write.
    checkout: PathBuf,
    /// What every reader writes instead of the names in the pages.
    names: Vec<(&'static str, String)>,
    /// Where the database is reached.
    port: u16,
}

impl<'a> Reader<'a> {
    fn new(cluster: &'a Cluster, folder: &Path, registry: &str) -> Result<Self> {
        // Files that commands write do not go into the real checkout.
        let checkout = folder.join("scavengerjobs");
        fs::create_dir_all(&checkout).context("cannot make a temporary folder")?;
        for entry in ["deploy", "schema", "docs"] {
            symlink(Path::new(ROOT).canonicalize()?.join(entry), checkout.join(entry))
                .context("cannot make a temporary folder")?;
        }
        fs::write(folder.join("variables"), "").context("cannot make a temporary file")?;
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.context("no port of this machine is free")?.port();
        let names = vec![
            ("registry.example/scavenger", registry.to_owned()),
            ("postgres.example", format!("127.0.0.1:{port}")),
            ("namespace NAMESPACE", "namespace default".to_owned()),
            ("FOLDER", "../kustomization".to_owned()),
            ("'...'", format!("'{PASSWORD}'")),
        ];
        Ok(Self { cluster, checkout, names, port })
    }

    fn own(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (theirs, own)| text.replace(theirs, own))
    }

    fn carry_out(&self, block: &Block) -> Result<()> {
        match &block.kind {
            Kind::Shell(text) => self.shell(&self.own(text)),
            Kind::Console(commands) => commands.iter().try_for_each(|(command, shown)| {
                let shown: Vec<String> = shown.iter().map(|line| self.own(line)).collect();
                self.until_shown(&self.own(command), &shown)
            }),
            Kind::Yaml(text) => {
                let folder = self.checkout.join("../kustomization");
                fs::create_dir_all(&folder)
                    .and_then(|()| fs::write(folder.join("kustomization.yaml"), self.own(text)))
                    .context("cannot write a kustomization")
            }
            Kind::Sql(text) => {
                let psql = "psql --host=/tmp --username=postgres --set=ON_ERROR_STOP=1 scavenger";
                let text = self.own(text);
                self.shell(&format!(
                    "kubectl exec --stdin --namespace {NAMESPACE} statefulset/postgres -- {psql} <<'SQL'\n{text}SQL\n"
                ))
            }
        }
    }

    /// Runs commands in the reader's shell, which must succeed.
    fn shell(&self, text: &str) -> Result<()> {
        let output = self.try_in_shell(text)?;
        eprint!("{text}{}", said(&output));
        ensure!(
            output.status.success(),
            "these commands ended with {}:\n{text}{}",
            output.status,
            said(&output)
        );
        Ok(())
    }

    /// Runs commands in the reader's shell, which remembers what was exported.
    fn try_in_shell(&self, text: &str) -> Result<Output> {
        let mut command = Command::new("timeout");
        let script = format!("source ../variables\nset -euo pipefail\n{text}\nexport -p > ../variables\n");
        command.args([COMMAND_LIMIT, "bash", "-c", &script]).current_dir(&self.checkout).stdin(Stdio::null());
        as_user(&mut command, self.cluster)?;
        command.env("PGPASSWORD", PASSWORD).output().context("cannot run bash")
    }

    /// Repeats a command until it succeeds and prints what the page shows.
    fn until_shown(&self, command: &str, shown: &[String]) -> Result<()> {
        let began = Instant::now();
        let mut last = String::new();
        loop {
            let output = self.try_in_shell(command)?;
            let now = said(&output);
            if now != last {
                eprint!("$ {command}\n{now}");
            }
            let missing = page::missing(shown, &String::from_utf8_lossy(&output.stdout));
            if missing.is_none() && output.status.success() {
                return Ok(());
            }
            if began.elapsed() > SHOWN_LIMIT {
                bail!(
                    "`{command}` never printed {:?}; the last time it printed:\n{now}",
                    missing.unwrap_or_default()
                );
            }
            last = now;
            #[expect(clippy::disallowed_methods, reason = "as a person does who looks again")]
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// `kubectl port-forward`, until it is dropped.
    fn forward(&self) -> Result<Running> {
        let mut command = Command::new("kubectl");
        let port = format!("{}:5432", self.port);
        command.args(["port-forward", "--namespace", NAMESPACE, "statefulset/postgres", &port]);
        as_user(&mut command, self.cluster)?;
        Running::start(command.stdout(Stdio::null()), &format!("127.0.0.1:{}", self.port))
    }
}

/// What a command printed, to both of its outputs.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A program that listens, and ends when this is dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command, address: &str) -> Result<Self> {
        let mut running = Self(command.stdin(Stdio::null()).spawn().context("cannot start a program")?);
        let began = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            if let Some(status) = running.0.try_wait()? {
                bail!("{:?} ended with {status}", command.get_program());
            }
            ensure!(began.elapsed() < Duration::from_secs(60), "nothing answers at {address}");
            #[expect(clippy::disallowed_methods, reason = "a program does not say when it listens")]
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
        let mut count = 0;
        for path in PAGES {
            let text = fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
            let blocks = page::blocks(&text).unwrap();
            assert!(!blocks.is_empty(), "{path} has no marked block");
            count += blocks.len();
        }
        assert!(count >= LEAST_BLOCKS, "only {count} blocks are marked");
    }
}
