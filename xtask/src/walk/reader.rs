//! A reader of the pages, who carries out their marked blocks as they stand there but for the names that every reader replaces.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    as_user,
    page::{self, Block, Kind},
};
use crate::{cluster::Cluster, install::NAMESPACE, shell::ROOT};

/// Alice's password.
pub(super) const PASSWORD: &str = "walk";

/// How long a command is repeated until it prints what the page shows.
const SHOWN_LIMIT: Duration = Duration::from_secs(120);

/// No command of a page takes longer, in seconds.
const COMMAND_LIMIT: &str = "1800";

/// Names in the pages, each with what a reader writes instead. The first that fits counts.
pub(super) type Names = Vec<(&'static str, String)>;

/// Somebody with a shell and the pages.
pub(super) struct Reader<'a> {
    cluster: &'a Cluster,
    /// Where the commands run. What they remember is in the folder above.
    folder: PathBuf,
    /// Where the project's programs are.
    programs: PathBuf,
    /// What every reader writes instead of the names in the pages.
    names: Names,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        folder: PathBuf,
        programs: PathBuf,
        names: Names,
    ) -> Result<Self> {
        fs::write(folder.join("../variables"), "").context("cannot make a temporary file")?;
        Ok(Self { cluster, folder, programs, names })
    }

    /// The marked blocks of a page, which has at least one.
    pub(super) fn blocks_of(page: &str) -> Result<Vec<Block>> {
        let text =
            fs::read_to_string(Path::new(ROOT).join(page)).with_context(|| format!("cannot read {page}"))?;
        let blocks = page::blocks(&text).with_context(|| page.to_owned())?;
        ensure!(!blocks.is_empty(), "{page} has no marked block");
        Ok(blocks)
    }

    /// Carries out the marked blocks of a page, and says how many these are.
    pub(super) fn follow(&self, page: &str) -> Result<usize> {
        let blocks = Self::blocks_of(page)?;
        for block in &blocks {
            eprintln!("walk: {page}:{}", block.line);
            self.carry_out(block).with_context(|| format!("{page}:{}", block.line))?;
        }
        Ok(blocks.len())
    }

    /// Lets a command find what the reader finds.
    pub(super) fn equip(&self, command: &mut Command) -> Result<()> {
        as_user(command, self.cluster, &self.programs)
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
                let folder = self.folder.join("../kustomization");
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
        command.args([COMMAND_LIMIT, "bash", "-c", &script]).current_dir(&self.folder).stdin(Stdio::null());
        self.equip(&mut command)?;
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
}

/// What a command printed, to both of its outputs.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A program that listens, and ends when this is dropped.
pub(super) struct Running(Child);

impl Running {
    pub(super) fn start(command: &mut Command, address: &str) -> Result<Self> {
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
