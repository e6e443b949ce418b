//! Programs of this workspace, built for their images.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum as _;
use object::Endianness;
use object::elf::{EM_AARCH64, EM_X86_64, PT_INTERP};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};

use super::Architecture;
use super::catalogue::{Image, Linking, Program};
use crate::{compile, progress::Task, shell};

/// The Debian packages with which images of an architecture are built.
pub(super) fn packages(architecture: Architecture) -> Vec<&'static str> {
    let compiler: &[&str] = match architecture {
        // A C compiler for static programs; that for the others is there with Rust.
        _ if !architecture.is_foreign() => &["musl-tools"],
        Architecture::Amd64 => &["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"],
        Architecture::Arm64 => &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
    };
    [&["mmdebstrap"], compiler].concat()
}

/// Rust's name of what a program is built for.
pub(super) fn target(linking: Linking, architecture: Architecture) -> &'static str {
    match (architecture, linking) {
        (Architecture::Amd64, Linking::Dynamic) => "x86_64-unknown-linux-gnu",
        (Architecture::Amd64, Linking::Static) => "x86_64-unknown-linux-musl",
        (Architecture::Arm64, Linking::Dynamic) => "aarch64-unknown-linux-gnu",
        (Architecture::Arm64, Linking::Static) => "aarch64-unknown-linux-musl",
    }
}

/// Makes sure that Rust's standard library for a program is there. With `install` false, a missing one is an error that
/// names the command to run.
pub(super) fn ensure_target(program: Program, architecture: Architecture, install: bool) -> Result<()> {
    let target = target(program.linking, architecture);
    if has_target(target)? {
        return Ok(());
    }
    let add = ["target", "add", target];
    if !install {
        bail!("the Rust target {target} is missing; run: rustup {}", add.join(" "));
    }
    let task = Task::start(format!("installing the Rust target {target}"));
    let output = Command::new("rustup").args(add).current_dir(shell::ROOT).output();
    let output = output.with_context(|| {
        format!("cannot run rustup; install the Rust target {target} in the way that your Rust was installed")
    })?;
    if !output.status.success() {
        bail!(
            "rustup {} failed; without this target there are no images for {} (--architecture): {}",
            add.join(" "),
            architecture.name(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    task.done(format!("installed the Rust target {target}"));
    Ok(())
}

/// Asks the compiler, and not rustup: a distribution's Rust has no rustup.
fn has_target(target: &str) -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(shell::ROOT)
        .output()
        .context("cannot run rustc")?;
    let folder = String::from_utf8_lossy(&output.stdout);
    Ok(output.status.success() && fs::read_dir(folder.trim()).is_ok_and(|mut files| files.next().is_some()))
}

/// How programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Optimised: for users and measurements.
    Release,
    /// As `cargo test --workspace` builds them: one build for the tests and the demo.
    Dev,
}

/// Source code of the project.
#[derive(Debug)]
pub(crate) struct Checkout {
    /// Its root.
    pub(crate) root: PathBuf,
    /// Where cargo builds it, if not where it usually does.
    pub(crate) target: Option<PathBuf>,
}

impl Checkout {
    /// The one that this program is of.
    pub(crate) fn this() -> Self {
        Self { root: PathBuf::from(shell::ROOT), target: None }
    }

    /// True if it has this package: an older one may not have all that this one has.
    fn has(&self, package: &str) -> bool {
        let locked = fs::read_to_string(self.root.join("Cargo.lock")).unwrap_or_default();
        locked
            .lines()
            .any(|line| line.strip_prefix("name = ").is_some_and(|name| name.trim_matches('"') == package))
    }
}

/// Builds the programs of a checkout, those that share their dependencies in one run of cargo, and says where each is.
pub(super) fn build(
    checkout: &Checkout,
    programs: &[Program],
    profile: Profile,
    architecture: Architecture,
) -> Result<HashMap<&'static str, PathBuf>> {
    let (fixed, dynamic): (Vec<_>, Vec<_>) =
        programs.iter().copied().partition(|program| program.linking == Linking::Static);
    let (apart, together): (Vec<_>, Vec<_>) =
        dynamic.into_iter().partition(|program| profile == Profile::Release && program.is_built_apart());
    let mut found = built(checkout, cargo(checkout, profile, architecture, false), &together)?;
    found.extend(built(checkout, cargo(checkout, profile, architecture, true), &apart)?);
    found.extend(built(checkout, cargo_static(checkout, architecture), &fixed)?);
    Ok(found)
}

fn cargo(checkout: &Checkout, profile: Profile, architecture: Architecture, apart: bool) -> Command {
    let mut command = shell::cargo(BUILD);
    match profile {
        Profile::Release => {
            command.arg("--release");
            name_packages(&mut command, checkout, |program| {
                program.linking == Linking::Dynamic && program.is_built_apart() == apart
            });
        }
        // Naming packages would choose other features of the dependencies than the tests have.
        Profile::Dev => {
            command.arg("--workspace");
        }
    }
    if architecture.is_foreign() {
        let target = target(Linking::Dynamic, architecture);
        command.args(["--target", target]);
        use_cross_compiler(&mut command, target, architecture);
    }
    command
}

/// Static programs have one profile: without optimisation the supervisor has 17 MB, twice what the volume holds to which
/// it is copied.
fn cargo_static(checkout: &Checkout, architecture: Architecture) -> Command {
    let target = target(Linking::Static, architecture);
    let mut command = shell::cargo(BUILD);
    command.args(["--profile", "supervisor", "--target", target]);
    name_packages(&mut command, checkout, |program| program.linking == Linking::Static);
    if architecture.is_foreign() {
        use_cross_compiler(&mut command, target, architecture);
    }
    command
}

/// Builds programs for machines whose libc is not known, and says where each is.
pub(super) fn build_commands(
    programs: &[Program],
    architecture: Architecture,
) -> Result<HashMap<&'static str, PathBuf>> {
    let (apart, together): (Vec<_>, Vec<_>) =
        programs.iter().copied().partition(|program| program.is_built_apart());
    let mut found = build_static(&together, architecture)?;
    found.extend(build_static(&apart, architecture)?);
    Ok(found)
}

fn build_static(programs: &[Program], architecture: Architecture) -> Result<HashMap<&'static str, PathBuf>> {
    let target = target(Linking::Static, architecture);
    let mut command = shell::cargo(BUILD);
    command.args(["--release", "--target", target]);
    for program in programs {
        command.args(["--package", program.package]);
    }
    if architecture.is_foreign() {
        use_cross_compiler(&mut command, target, architecture);
    }
    let built = built(&Checkout::this(), command, programs)?;
    for program in built.values() {
        ensure_runs_anywhere(program, architecture)?;
    }
    Ok(built)
}

/// Makes sure that a program runs on any Linux of this architecture: nothing of that machine has to load it.
fn ensure_runs_anywhere(program: &Path, architecture: Architecture) -> Result<()> {
    let shown = program.display();
    let content = fs::read(program).with_context(|| format!("cannot read {shown}"))?;
    let file = ElfFile64::<Endianness>::parse(&*content);
    let file = file.with_context(|| format!("{shown} is no program of Linux"))?;
    let expected = match architecture {
        Architecture::Amd64 => EM_X86_64,
        Architecture::Arm64 => EM_AARCH64,
    };
    let machine = file.elf_header().e_machine(file.endian());
    ensure!(machine == expected, "{shown} is not for {}: its machine is {machine}", architecture.name());
    let is_loaded = file.elf_program_headers().iter().any(|part| part.p_type(file.endian()) == PT_INTERP);
    ensure!(!is_loaded, "{shown} is not static: it asks for a loader, which not every Linux has");
    Ok(())
}

/// Debian's cross compiler, for what is written in C, and to link.
fn use_cross_compiler(command: &mut Command, target: &str, architecture: Architecture) {
    let compiler = match architecture {
        Architecture::Amd64 => "x86_64-linux-gnu-gcc",
        Architecture::Arm64 => "aarch64-linux-gnu-gcc",
    };
    let name = target.replace('-', "_");
    command.env(format!("CC_{name}"), compiler);
    command.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), compiler);
}

const BUILD: &[&str] = &["build", "--locked", "--bins"];

/// Those of every image that are built together, whichever are wanted: the packages that are built together decide the features of what they depend
/// on, and an image shall be the same whether it is built alone or with others.
fn name_packages(command: &mut Command, checkout: &Checkout, is_wanted: impl Fn(Program) -> bool) {
    let programs = Image::value_variants().iter().filter_map(|image| image.program());
    let packages: BTreeSet<_> =
        programs.filter(|program| is_wanted(*program)).map(|program| program.package).collect();
    for package in packages.into_iter().filter(|package| checkout.has(package)) {
        command.args(["--package", package]);
    }
}

fn built(
    checkout: &Checkout,
    mut command: Command,
    programs: &[Program],
) -> Result<HashMap<&'static str, PathBuf>> {
    if programs.is_empty() {
        return Ok(HashMap::new());
    }
    command.current_dir(&checkout.root);
    if let Some(target) = &checkout.target {
        command.arg("--target-dir").arg(target);
    }
    let names: Vec<&'static str> = programs.iter().map(|program| program.binary).collect();
    let built = compile::run(&format!("compiling {}", names.join(", ")), &mut command)?;
    let wanted = |name: &str| names.iter().copied().find(|wanted| *wanted == name);
    Ok(built.into_iter().filter_map(|built| Some((wanted(&built.target.name)?, built.executable))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_together_does_not_depend_on_what_is_wanted() {
        let built = |apart: bool| -> Vec<String> {
            let here = Architecture::of_this_machine();
            let command = cargo(&Checkout::this(), Profile::Release, here, apart);
            let arguments: Vec<_> =
                command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
            let named =
                arguments.iter().zip(arguments.iter().skip(1)).filter(|(flag, _)| *flag == "--package");
            named.map(|(_, package)| package.clone()).collect()
        };
        let together = ["gromacs-submitter", "scavenger-counter", "scavenger-operator", "scavenger-tuner"];
        assert_eq!(built(false), together);
        assert_eq!(built(true), ["scavenger-laboratory"], "its features are not for the operator");
    }

    #[test]
    fn what_an_older_checkout_does_not_have_is_not_built() {
        assert!(Checkout::this().has("scavenger-supervisor") && !Checkout::this().has("scavenger"));
    }

    #[test]
    fn a_missing_target_is_seen() {
        assert!(has_target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH)).unwrap());
        assert!(!has_target("no-such-target").unwrap());
    }

    #[test]
    fn a_program_of_a_release_asks_for_no_loader_and_is_of_its_architecture() {
        const MACHINE: usize = 18;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let said = |content: &[u8], architecture| {
            fs::write(&path, content).unwrap();
            ensure_runs_anywhere(&path, architecture).map_err(|error| format!("{error:#}"))
        };
        let here = Architecture::of_this_machine();
        let other = Architecture::ALL.into_iter().find(|it| it.is_foreign()).unwrap();
        // This program is one for a machine with its libc.
        let mut content = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(said(&content, here).is_err_and(|error| error.contains("is not static")));
        assert!(
            said(&content, other).is_err_and(|error| error.contains(&format!("is not for {}", other.name())))
        );
        let file = ElfFile64::<Endianness>::parse(&*content).unwrap();
        let headers = file.elf_header().e_phoff(file.endian()) as usize;
        let sizes = file.elf_header().e_phentsize(file.endian()) as usize;
        let place = file.elf_program_headers().iter().position(|it| it.p_type(file.endian()) == PT_INTERP);
        let place = headers + sizes * place.unwrap();
        content[place..place + 4].fill(0);
        assert_eq!(said(&content, here), Ok(()));
        let machine = match other {
            Architecture::Amd64 => EM_X86_64,
            Architecture::Arm64 => EM_AARCH64,
        };
        content[MACHINE..MACHINE + 2].copy_from_slice(&machine.to_le_bytes());
        assert_eq!(said(&content, other), Ok(()));
        assert!(said(b"#!/bin/sh\n", here).is_err_and(|error| error.contains("is no program of Linux")));
    }

    #[test]
    fn another_architecture_has_a_compiler_of_its_own() {
        let this = Checkout::this();
        for architecture in Architecture::ALL {
            for command in
                [cargo_static(&this, architecture), cargo(&this, Profile::Release, architecture, false)]
            {
                let compilers = command
                    .get_envs()
                    .filter(|(_, value)| value.is_some_and(|value| value.to_string_lossy().ends_with("-gcc")))
                    .count();
                assert_eq!(compilers, if architecture.is_foreign() { 2 } else { 0 }, "{command:?}");
            }
            let is_there = packages(architecture).contains(&"musl-tools");
            assert_ne!(is_there, architecture.is_foreign());
        }
    }
}
