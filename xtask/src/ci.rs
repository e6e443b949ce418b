//! `cargo xtask ci`: the one list of checks.

use std::{collections::BTreeSet, process::Command, time::Instant};

use anyhow::{Context, Result, bail};

use crate::{cache, chart, docs, generate, layers, lint, paths, release, rules, shell, test, words};

/// Members of the workspace, each checked alone: a build of the whole workspace merges features and hides what one of
/// them forgot to ask for.
const CRATES: [&str; 23] = [
    "scavenger-vocabulary",
    "scavenger-cgroups",
    "scavenger-node-agent",
    "scavenger-planner",
    "scavenger-forecast",
    "scavenger-simulator",
    "scavenger-laboratory",
    "scavenger-specs",
    "scavenger-recording",
    "scavenger-supervisor",
    "scavenger-reporting",
    "scavenger-schema",
    "scavenger-program",
    "scavenger-tuner-model",
    "scavenger-operator",
    "scavenger-tuner",
    "scavenger-tuner-lab",
    "gromacs-submitter",
    "scavenger-counter",
    "scavenger-e2e",
    "scavenger-local-postgres",
    "scavenger-kernel-guest",
    "xtask",
];

/// Run the list of checks that a change must pass
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Leave out the tests (and with them the cluster)
    #[arg(long)]
    pub(crate) no_test: bool,

    /// Run every test, not only those that a change must pass
    #[arg(long, conflicts_with = "no_test")]
    pub(crate) all: bool,

    /// Run only the checks with this text in their name
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
}

/// Runs every check, all of them even if one fails, and says at the end which did.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let began = Instant::now();
    let mut failed = Vec::new();
    let mut ran = 0;
    let mut check = |name: &str, run: &dyn Fn() -> Result<()>| {
        if arguments.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            return;
        }
        ran += 1;
        match run() {
            Ok(()) => eprintln!("ci: {name}: ok ({:.0} s)", began.elapsed().as_secs_f64()),
            Err(error) => {
                eprintln!("ci: {name}: FAILED: {error:#}");
                failed.push(name.to_owned());
            }
        }
    };
    check("format", &|| shell::run(&mut shell::cargo(&["fmt", "--all", "--check"])));
    let clippy =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "--deny", "warnings"];
    check("clippy", &|| shell::run(&mut shell::cargo(&clippy)));
    let doc = ["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"];
    check("documentation of the code", &|| {
        shell::run(shell::cargo(&doc).env("RUSTDOCFLAGS", "--deny warnings"))
    });
    check("generated files", &|| generate::run(&generate::Arguments { check: true }));
    // Such a mistake is rare, and found by the first who builds one program.
    for name in CRATES.iter().filter(|_| arguments.all || arguments.only.is_some()) {
        check(&format!("{name} alone"), &|| {
            shell::run(&mut shell::cargo(&["check", "--locked", "--package", name]))
        });
    }
    check("one build of programs and tests", &one_build);
    check("Helm chart and kustomizations", &chart::check);
    check("files of a release", &release::check);
    check("pages against the code", &docs::check);
    check("words", &words::check);
    check("form of manifests, scripts and pages", &lint::check);
    check("shell scripts and spelling", &lint::tools);
    check("site of the pages", &docs::book);
    check("planner depends on no client", &planner_is_pure);
    check("tables of imports", &layers::check);
    check("tables of rules", &rules::check);
    check("names in paths of requests", &paths::check);
    check("licences and sources of dependencies", &dependencies);
    check("development cluster's Go code", &go);
    if arguments.no_test {
        eprintln!("ci: tests: left out (--no-test)");
    } else {
        check("tests", &|| test::run(&test::Arguments::of_ci(arguments.all)));
    }
    if let (0, Some(only)) = (ran, &arguments.only) {
        bail!("no check has {only:?} in its name");
    }
    if failed.is_empty() {
        eprintln!("ci: all checks passed ({:.0} s)", began.elapsed().as_secs_f64());
        Ok(())
    } else {
        bail!("these checks failed: {}", failed.join(", "))
    }
}

/// Version of cargo-deny, which is built once and kept in the cache.
const CARGO_DENY: &str = "0.20.2";

/// What deny.toml says. Advisories are left out: they are fetched from outside, and a new one must not fail a change
/// that has nothing to do with it.
fn dependencies() -> Result<()> {
    let deny = cache::program("cargo-deny", CARGO_DENY, &["--no-default-features"])?;
    // It looks at the crates of every platform, and a build has fetched those of this one only.
    shell::run(&mut shell::cargo(&["fetch", "--locked", "--quiet"]))?;
    let mut deny = Command::new(deny);
    deny.args(["--offline", "--log-level", "error", "check", "licenses", "bans", "sources"]);
    shell::run(deny.current_dir(shell::ROOT))
}

/// Format, vet and tests of the development cluster's own Go code; what it is made of is built by `cluster up`.
fn go() -> Result<()> {
    let folder = format!("{}/deploy/devcluster", shell::ROOT);
    let unformatted = Command::new("gofmt").args(["-l", "cmd", "embed.go"]).current_dir(&folder).output();
    let unformatted = unformatted.context("cannot run gofmt; is Go installed and in the PATH?")?.stdout;
    if !unformatted.is_empty() {
        bail!("gofmt would change {}", String::from_utf8_lossy(&unformatted).trim().replace('\n', ", "));
    }
    for arguments in [["vet", "./cmd/devnode"], ["test", "./cmd/devnode"]] {
        shell::run(Command::new("go").args(arguments).current_dir(&folder).env("CGO_ENABLED", "0"))?;
    }
    Ok(())
}

/// The planner is a function of values, and so is the forecast: no client, runtime or log crate among what it depends on.
fn planner_is_pure() -> Result<()> {
    let banned = ["kube", "k8s-openapi", "tokio", "tracing", "log", "rand", "scavenger-schema"];
    for package in ["scavenger-planner", "scavenger-forecast"] {
        let text = tree(&["--package", package, "--edges", "normal"])?;
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        let found: Vec<&str> = names.filter(|name| banned.contains(name)).collect();
        if !found.is_empty() {
            bail!("{package} depends on {}", found.join(", "));
        }
    }
    Ok(())
}

/// Tests add no feature to what programs depend on: else everything above it would be compiled a second time for the images.
fn one_build() -> Result<()> {
    let features = |edges: &str| -> Result<BTreeSet<String>> {
        let text = tree(&["--workspace", "--format", "{p} [{f}]", "--edges", edges])?;
        Ok(text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
    };
    let (programs, tests) = (features("normal,build")?, features("normal,build,dev")?);
    let other: Vec<&String> = programs.difference(&tests).collect();
    if other.is_empty() {
        return Ok(());
    }
    bail!(
        "tests build these with more features than programs do; name those features in xtask/generator/Cargo.toml: {other:?}"
    )
}

/// What `cargo tree` prints, without indentation.
fn tree(arguments: &[&str]) -> Result<String> {
    let mut tree = shell::cargo(&["tree", "--locked", "--prefix", "none"]);
    let output = tree.args(arguments).output().context("cannot run `cargo tree`")?;
    if !output.status.success() {
        bail!("`cargo tree` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
