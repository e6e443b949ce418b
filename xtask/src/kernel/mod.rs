//! `cargo xtask kernel`: what a stock kernel with cgroup v2 does to ordinary pods and ScavengerJobs.

mod archive;
mod debian;
mod machine;
mod programs;
mod tables;

use std::{fs, thread, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum as _;

use self::{machine::Machine, programs::Tested, tables::Report};
use crate::{
    images::{self, Architecture, Image},
    packages,
};

/// Show what a stock kernel with cgroup v2 does to ordinary pods and ScavengerJobs
///
/// Boots Debian's kernel for virtual machines in QEMU, which emulates the processors: neither root nor KVM is needed. There,
/// cgroups are laid out as the kubelet does. Most tables come from a machine whose clock counts instructions, so that other
/// work on this machine is not in the figures. docs/contributing/kernel.md explains the tables.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Measure less, in less than a minute
    #[arg(long)]
    short: bool,
    /// Measure only this
    #[arg(long, value_name = "WHAT", conflicts_with = "short")]
    only: Vec<Part>,
    /// Measure bursts on machines with so many processors
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,4", conflicts_with = "short",
          value_parser = clap::value_parser!(u32).range(1..=16))]
    processors: Vec<u32>,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Who is killed when memory runs out
    Deaths,
    /// What requests and bursts of ordinary pods notice, on one processor
    Slowed,
    /// How soon a starved ScavengerJob has saved its work
    Starved,
    /// Bursts on several processors
    Bursts,
    /// A checkpoint beside a disk, the page cache and the network
    Beside,
    /// The supervisor's own tests
    Supervisor,
    /// The node agent's own tests
    NodeAgent,
}

impl Part {
    /// Whose tests these are.
    fn tested(self) -> Option<Tested> {
        match self {
            Self::Supervisor => Some(Tested::Supervisor),
            Self::NodeAgent => Some(Tested::NodeAgent),
            _ => None,
        }
    }
}

/// A machine, and what is measured on it.
#[derive(Debug, PartialEq, Eq)]
struct Boot {
    machine: Machine,
    parts: Vec<Part>,
    /// Words for the guest.
    words: &'static str,
}

/// A machine that takes longer has stopped: five times what it takes on two cores.
const LIMIT: Duration = Duration::from_mins(20);

/// Boots the machines, and prints their tables.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "this needs a machine of amd64: it boots Debian's kernel for amd64"
    );
    packages::ensure(packages::KERNEL, !arguments.no_install)?;
    images::ensure_for(&[Architecture::of_this_machine()], &[Image::Supervisor], !arguments.no_install)?;
    let kernel = debian::kernel()?;
    let boots = boots(arguments);
    let tested = |parts: &[Part]| parts.iter().filter_map(|part| part.tested()).collect::<Vec<_>>();
    let built = programs::build(&boots.iter().flat_map(|boot| tested(&boot.parts)).collect::<Vec<_>>())?;
    println!("Kernel: {}\n", kernel.version);
    let measure = |boot: &Boot| -> Result<Report> {
        // The guest has the same names.
        let tables: Vec<_> = boot.parts.iter().filter_map(|part| part.to_possible_value()).collect();
        let tables: Vec<&str> = tables.iter().map(|name| name.get_name()).collect();
        let asked = format!("tables={} {}", tables.join(","), boot.words);
        // Unpacking takes a machine its own time, so each gets what it needs.
        let modules = if boot.machine.disk { &kernel.modules[..] } else { &[] };
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let initramfs = folder.path().join("initramfs");
        fs::write(&initramfs, built.archive(modules, &tested(&boot.parts))?)
            .with_context(|| format!("cannot write {}", initramfs.display()))?;
        boot.machine.run(&kernel.image, &initramfs, folder.path(), &asked, LIMIT)
    };
    let (mut failed, mut checks) = (Vec::new(), 0);
    let mut tell = |boot: &Boot, report: Report| {
        println!("On {}:\n\n{}", boot.machine.name(), report.text());
        checks += report.checks;
        failed.extend(report.failed);
    };
    // Whose clock counts instructions does not notice others. It has one thread of this machine.
    let (side_by_side, alone): (Vec<_>, Vec<_>) = boots.iter().partition(|boot| boot.machine.virtual_time);
    let reports: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = side_by_side.iter().map(|boot| scope.spawn(|| measure(boot))).collect();
        running.into_iter().map(|one| one.join().expect("nobody should have panicked")).collect()
    });
    for (boot, report) in side_by_side.into_iter().zip(reports) {
        tell(boot, report?);
    }
    for boot in alone {
        tell(boot, measure(boot)?);
    }
    if !failed.is_empty() {
        bail!("{} of {checks} expectations are not met:\n  {}", failed.len(), failed.join("\n  "));
    }
    if checks > 0 {
        println!("All {checks} expectations are met.");
    }
    Ok(())
}

/// Which machines measure what. Both ways to name cgroups occur.
fn boots(arguments: &Arguments) -> Vec<Boot> {
    // With several processors and a clock of its own, the kernel does not come up on QEMU 7.2.
    let machine = |processors| Machine { processors, virtual_time: processors == 1, disk: false };
    if arguments.short {
        let parts = vec![Part::Deaths, Part::Slowed, Part::NodeAgent];
        return vec![Boot { machine: machine(1), parts, words: "short names=systemd" }];
    }
    let one = Boot {
        machine: machine(1),
        parts: vec![Part::Deaths, Part::Slowed, Part::Starved, Part::NodeAgent],
        words: "names=systemd",
    };
    let several = arguments.processors.iter().map(|processors| Boot {
        machine: machine(*processors),
        parts: vec![Part::Bursts],
        words: "names=cgroupfs",
    });
    let tests = Boot { machine: machine(1), parts: vec![Part::Supervisor], words: "names=systemd" };
    let disk = Machine { disk: true, ..machine(2) };
    let disk = Boot { machine: disk, parts: vec![Part::Beside], words: "names=systemd" };
    let mut boots: Vec<Boot> = [one, tests].into_iter().chain(several).chain([disk]).collect();
    if !arguments.only.is_empty() {
        boots.iter_mut().for_each(|boot| boot.parts.retain(|part| arguments.only.contains(part)));
    }
    boots.retain(|boot| !boot.parts.is_empty());
    boots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(short: bool, only: &[Part]) -> Arguments {
        Arguments { short, only: only.to_vec(), processors: vec![2, 4], no_install: true }
    }

    #[test]
    fn every_part_is_measured_once_and_bursts_on_each_machine() {
        let boots = boots(&arguments(false, &[]));
        for part in Part::value_variants() {
            let count = boots.iter().filter(|boot| boot.parts.contains(part)).count();
            assert_eq!(count, if *part == Part::Bursts { 2 } else { 1 }, "{part:?}");
        }
        for names in ["names=systemd", "names=cgroupfs"] {
            assert!(boots.iter().any(|boot| boot.words.contains(names)), "{names}");
        }
    }

    #[test]
    fn what_is_left_out_needs_no_machine() {
        let found = boots(&arguments(false, &[Part::Starved]));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].machine.processors, found[0].parts.as_slice()), (1, [Part::Starved].as_slice()));
        assert_eq!(boots(&arguments(true, &[])).len(), 1, "the short form boots once");
    }
}
