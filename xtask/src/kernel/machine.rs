//! An emulated machine that boots, measures, reports and ends.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use scavenger_kernel_guest::report::Line;

use super::tables::Report;
use crate::progress::Task;

/// QEMU's program for such machines.
const QEMU: &str = "qemu-system-x86_64";

/// Each instruction takes two to this power nanoseconds of a machine's own time.
const SHIFT: u32 = 3;

/// Mebibytes of memory.
const MEMORY: u32 = 1200;

/// The disk of the machine takes so many bytes, and so many operations, a second: about those of a cloud's small disk.
const DISK: &str = "throttling.bps-total=60000000,throttling.iops-total=1500";

/// What a machine is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Machine {
    /// Its processors.
    pub(super) processors: u32,
    /// Its clock counts instructions: whatever else the host does is not in the figures. Else it is the host's.
    pub(super) virtual_time: bool,
    /// It has a disk.
    pub(super) disk: bool,
}

impl Machine {
    /// What it is called for people.
    pub(super) fn name(self) -> String {
        let plural = if self.processors == 1 { "" } else { "s" };
        let time = if self.virtual_time { "virtual time" } else { "the host's time" };
        format!("{} processor{plural}, {time}", self.processors)
    }

    /// Boots, and returns what the machine reported. `folder` is for its files, and for those alone.
    pub(super) fn run(
        self,
        kernel: &Path,
        initramfs: &Path,
        folder: &Path,
        asked: &str,
        limit: Duration,
    ) -> Result<Report> {
        let disk = folder.join("disk");
        if self.disk {
            make_disk(&disk)?;
        }
        let console = folder.join("console");
        let task = Task::start(format!("measuring on {}", self.name()));
        let mut qemu = Command::new(QEMU);
        qemu.args(self.arguments(kernel, initramfs, &disk, &console, asked))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("errors")).context("cannot write a temporary file")?);
        let mut child = qemu.spawn().with_context(|| format!("cannot run {QEMU}"))?;
        let report = follow(&mut child, &task, limit);
        // It has ended, or it has taken too long.
        child.kill().and_then(|()| child.wait()).with_context(|| format!("cannot end {QEMU}"))?;
        let (report, in_time) = report?;
        if !report.done {
            // What it measured may say why.
            eprint!("{}", report.text());
        }
        if !report.done {
            let said = |file: &Path| fs::read(file).map(|text| String::from_utf8_lossy(&text).into_owned());
            let said =
                [folder.join("errors"), console].iter().flat_map(|file| said(file)).collect::<String>();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            let how = if in_time {
                "ended before it had measured everything".to_owned()
            } else {
                format!("has not measured everything after {} s", limit.as_secs())
            };
            bail!("the machine with {} {how}; the last it said:\n{last}", self.name());
        }
        task.done(format!("measured on {}", self.name()));
        Ok(report)
    }

    fn arguments(
        self,
        kernel: &Path,
        initramfs: &Path,
        disk: &Path,
        console: &Path,
        asked: &str,
    ) -> Vec<String> {
        let mut words: Vec<String> =
            ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"].map(str::to_owned).into();
        let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        let threads = if self.virtual_time { "single" } else { "multi" };
        add("-accel", format!("tcg,thread={threads}"));
        if self.virtual_time {
            // What waits takes no time of the host's.
            add("-icount", format!("shift={SHIFT},sleep=off"));
        }
        add("-cpu", "max".to_owned());
        add("-smp", self.processors.to_string());
        add("-m", MEMORY.to_string());
        add("-kernel", kernel.display().to_string());
        add("-initrd", initramfs.display().to_string());
        // The first port is the console; the second one carries the report.
        add("-serial", format!("file:{}", console.display()));
        add("-serial", "stdio".to_owned());
        if self.disk {
            // What reaches the disk need not survive the host.
            add("-drive", format!("file={},if=virtio,format=raw,cache=unsafe,{DISK}", disk.display()));
        }
        let kernel = "console=ttyS0 quiet panic=-1 mitigations=off cgroup_no_v1=all psi=1";
        add("-append", format!("{kernel} -- {asked}"));
        words
    }
}

/// Reads what the machine reports until it ends, or until it has taken too long: then the second value is false.
fn follow(child: &mut Child, task: &Task, limit: Duration) -> Result<(Report, bool)> {
    let output = child.stdout.take().context("nothing to read from")?;
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    let (mut report, until) = (Report::default(), Instant::now() + limit);
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let Some(line) = Line::parse(&line) else { continue };
                if let Line::Table { name, .. } = &line {
                    task.detail(name);
                }
                report.enter(line);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok((report, true)),
            Err(RecvTimeoutError::Timeout) => return Ok((report, false)),
        }
    }
}

/// An empty file system.
fn make_disk(path: &Path) -> Result<()> {
    let output = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-E", "lazy_itable_init=0"])
        .arg(path)
        .arg("1200M")
        .output()
        .context("cannot run mke2fs; is the Debian package e2fsprogs installed?")?;
    if !output.status.success() {
        bail!("mke2fs failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_of_its_own_counts_instructions() {
        let arguments = |virtual_time, disk| {
            let machine = Machine { processors: 2, virtual_time, disk };
            let path = Path::new;
            machine.arguments(path("k"), path("i"), path("d"), path("c"), "tables=deaths").join(" ")
        };
        let (own, hosts) = (arguments(true, false), arguments(false, true));
        assert!(own.contains("-accel tcg,thread=single -icount shift=3,sleep=off"), "{own}");
        assert!(hosts.contains("-accel tcg,thread=multi") && !hosts.contains("-icount"), "{hosts}");
        assert!(hosts.contains("file=d,if=virtio") && !own.contains("-drive"), "{hosts}");
        for arguments in [own, hosts] {
            assert!(
                arguments.contains("-smp 2")
                    && arguments.ends_with("cgroup_no_v1=all psi=1 -- tables=deaths")
            );
        }
    }
}
