//! What goes into the machines: our own programs, static, and for the supervisor's tests the programs that the tests call.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{archive::Archive, debian};
use crate::{compile, shell};

const TARGET: &str = "x86_64-unknown-linux-musl";

/// Programs that the supervisor's tests start, as this machine has them. Python is not to be had static; so all of them are
/// Debian's own, with their libraries.
const CALLED: [&str; 26] = [
    "bash", "cat", "cut", "dash", "env", "false", "grep", "head", "ln", "mkdir", "mkfifo", "mount", "mv",
    "python3", "rm", "seq", "setsid", "sh", "sleep", "tee", "timeout", "touch", "tr", "true", "umount",
    "unshare",
];

/// Python's own modules, without those that no test needs.
const LEFT_OUT: [&str; 7] =
    ["/test/", "/idlelib/", "/lib2to3/", "/config-", "/ensurepip/", "/pydoc_data/", "/tkinter/"];

/// A program whose tests the machines run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tested {
    Supervisor,
    NodeAgent,
}

impl Tested {
    fn package(self) -> &'static str {
        match self {
            Self::Supervisor => "scavenger-supervisor",
            Self::NodeAgent => "scavenger-node-agent",
        }
    }
}

/// What is built for the machines.
pub(super) struct Built {
    guest: PathBuf,
    programs: Vec<(&'static str, PathBuf)>,
    tests: Vec<(Tested, Vec<compile::Program>)>,
}

/// Builds the programs, and the tests of these.
pub(super) fn build(tested: &[Tested]) -> Result<Built> {
    let one = |package: &str| -> Result<PathBuf> {
        // Each alone, as the images have the supervisor: together they would decide each other's features.
        let arguments = [
            "build",
            "--locked",
            "--bins",
            "--profile",
            "supervisor",
            "--target",
            TARGET,
            "--package",
            package,
        ];
        let built = compile::run(&format!("compiling {package}"), &mut shell::cargo(&arguments))?;
        let program = built.into_iter().find(|program| program.target.name == package);
        Ok(program
            .with_context(|| format!("cargo did not say where it put the program {package}"))?
            .executable)
    };
    let guest = one("scavenger-kernel-guest")?;
    let programs = [Tested::Supervisor, Tested::NodeAgent].map(Tested::package);
    let programs = programs.map(|package| Ok((package, one(package)?))).into_iter().collect::<Result<_>>()?;
    let tests = |&tested: &Tested| {
        let package = tested.package();
        let arguments = ["test", "--locked", "--no-run", "--target", TARGET, "--package", package];
        let built =
            compile::run(&format!("compiling the tests of {package}"), &mut shell::cargo(&arguments))?;
        Ok((tested, built.into_iter().filter(|program| program.profile.test).collect()))
    };
    Ok(Built { guest, programs, tests: tested.iter().map(tests).collect::<Result<_>>()? })
}

impl Built {
    /// The initramfs, with these modules of the kernel, and with the tests of these programs.
    pub(super) fn archive(&self, modules: &[PathBuf], wanted: &[Tested]) -> Result<Vec<u8>> {
        let mut archive = Archive::new();
        archive.file("init", &self.guest)?;
        for (name, program) in &self.programs {
            archive.file(name, program)?;
        }
        for (number, module) in modules.iter().enumerate() {
            archive.file(&format!("modules/{number:02}.ko"), module)?;
        }
        // Tests talk to servers of this name.
        archive.content("etc/hosts", 0o644, 0, b"127.0.0.1 localhost\n");
        for (tested, tests) in self.tests.iter().filter(|(tested, _)| wanted.contains(tested)) {
            for test in tests {
                let kind =
                    if test.target.kind.iter().any(|kind| kind == "test") { "integration" } else { "itself" };
                let folder = tested.package().trim_start_matches("scavenger-");
                archive.file(&format!("tests/{folder}/{}-{kind}", test.target.name), &test.executable)?;
            }
        }
        if wanted.contains(&Tested::Supervisor) {
            for folder in ["bin", "lib", "lib64", "sbin"] {
                archive.link(folder, &format!("usr/{folder}"));
            }
            for program in CALLED {
                called(&mut archive, program)?;
            }
            python(&mut archive)?;
        }
        Ok(archive.finish())
    }
}

/// Adds a program that is in the path, by its name, with its libraries.
fn called(archive: &mut Archive, name: &str) -> Result<()> {
    let path = ["/usr/bin", "/usr/sbin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists());
    let path = path.with_context(|| format!("there is no {name} in /usr/bin"))?;
    let real = path.canonicalize().with_context(|| format!("cannot follow {}", path.display()))?;
    archive.file(&inside(&path), &real)?;
    with_libraries(archive, &real)
}

/// Adds the libraries of a program or library.
fn with_libraries(archive: &mut Archive, path: &Path) -> Result<()> {
    let output = Command::new("ldd").arg(path).output().context("cannot run ldd")?;
    for library in libraries(&String::from_utf8_lossy(&output.stdout)) {
        // The loader's own path is a link into /usr, as the folders in the machine are.
        let real = Path::new(&library).canonicalize().with_context(|| format!("cannot follow {library}"))?;
        let folder = Path::new(&library).parent().unwrap_or(Path::new("/"));
        let folder = folder.canonicalize().with_context(|| format!("cannot follow {}", folder.display()))?;
        let name = Path::new(&library).file_name().unwrap_or_default();
        archive.file(&inside(&folder.join(name)), &real)?;
    }
    Ok(())
}

/// Paths of libraries in what ldd prints.
fn libraries(text: &str) -> BTreeSet<String> {
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned);
    text.lines().filter_map(path).collect()
}

/// Adds Python's own modules.
fn python(archive: &mut Archive) -> Result<()> {
    let script = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let output =
        Command::new("/usr/bin/python3").args(["-c", script]).output().context("cannot run python3")?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !fs::exists(folder.join("os.py")).unwrap_or_default() {
        bail!("{} does not hold Python's modules", folder.display());
    }
    let is_wanted = |path: &str| !LEFT_OUT.iter().any(|part| path.contains(part));
    for path in debian::files(&folder)? {
        if path.is_file() && is_wanted(&path.to_string_lossy()) {
            archive.file(&inside(&path), &path)?;
            if path.extension().is_some_and(|end| end == "so") {
                with_libraries(archive, &path)?;
            }
        }
    }
    Ok(())
}

/// A path of this machine as it is in the archive.
fn inside(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_what_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibtinfo.so.6 => /lib/x86_64-linux-gnu/libtinfo.so.6 (0x00007f)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<String> = libraries(text).into_iter().collect();
        assert_eq!(
            found,
            [
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib/x86_64-linux-gnu/libtinfo.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
        assert!(libraries("\tnot a dynamic executable\n").is_empty());
    }
}
