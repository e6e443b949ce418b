//! `cargo xtask demo`: one story from three rows in Postgres to three results, with an interruption in between.

mod check;
mod display;
mod elsewhere;
mod queue;
mod stage;

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    chart,
    cluster::{self, Access, Cluster},
    forecast::Forecast,
    images::{self, Image},
    install::{self, Agents, By},
    packages,
    progress::Task,
    shell::ROOT,
};
use display::Display;
use queue::{Queue, Row};
use stage::Stage;

/// Simulations, one row each: path of the run input on the claim `simulations`.
const SIMULATIONS: [&str; 3] = ["water-3k/water-3k.tpr", "water-6k/water-6k.tpr", "water-12k/water-12k.tpr"];

/// Share of its steps that a simulation has done when the owner's pod arrives, in percent.
const OWNER_ARRIVES_AT: f64 = 15.0;

/// The owner's pod needs its core for so long, in seconds.
const OWNER_SECONDS: u32 = 20;

/// The demo's installation: a kustomization, and the same as values of the chart.
const VALUES: &str = "deploy/demo";

/// Longest time for the whole story; it takes about a fifth of it.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Show the whole pipeline: three simulations, a ladder, an interruption, three results
///
/// Starts a real Kubernetes on this machine, installs operator, tuner, submitter and Postgres, adds three rows to the
/// queue with `gromacs-submitter add`, and follows them. With --kubeconfig and --registry it does so on a cluster of yours,
/// and removes everything at the end. Exits with 1 unless every simulation reached its last step, lost nothing to the
/// interruption, and its row is completed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Leave the cluster up, and print how to look around
    #[arg(long)]
    keep: bool,
    /// Install with the Helm chart instead of kustomize; at the end, upgrade and uninstall the release, unless --keep
    #[arg(long, conflicts_with = "kubeconfig")]
    chart: bool,
    /// Name missing Debian packages instead of installing them
    #[arg(long)]
    no_install: bool,
    /// Name of the cluster; there must be none of that name yet
    #[arg(long, default_value = "dev", value_name = "NAME", conflicts_with = "kubeconfig")]
    name: cluster::Name,
    /// How the programs in the images are built
    #[arg(long, default_value = "dev", value_name = "PROFILE")]
    profile: images::Profile,
    #[command(flatten)]
    elsewhere: elsewhere::Elsewhere,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(kubeconfig) = &arguments.elsewhere.kubeconfig {
        return elsewhere::run(arguments, kubeconfig);
    }
    // All that can be wrong with the machine first, before anything is changed.
    let options = cluster::Options { no_install: arguments.no_install, ..cluster::Options::default() };
    cluster::check(&options)?;
    let name = arguments.name.as_str();
    if Cluster::running(name).is_ok() {
        bail!(
            "the cluster {name} is up already and may hold your work; remove it with \
             `cargo xtask cluster down --name {name}`, or choose another with --name"
        );
    }
    forecast(&options, arguments.profile)?.print_before(!arguments.no_install, || {
        packages::ensure(packages::CLUSTER, !arguments.no_install)?;
        images::ensure(!arguments.no_install)
    })?;
    let cluster = cluster::up(name, &options)?;
    cluster::tell_when_interrupted(std::slice::from_ref(&arguments.name), || {})?;
    let by = if arguments.chart { By::Chart(VALUES) } else { By::Kustomization(VALUES) };
    let stage = Stage::of(&cluster);
    let mut result = install::install(&cluster, by, Agents::All, arguments.profile)
        .and_then(|()| create_namespaces(&stage))
        .and_then(|()| story(&stage));
    if result.is_ok() && arguments.chart && !arguments.keep {
        result = install::upgrade_and_uninstall(&stage.access);
    }
    if result.is_err() {
        tell_what_happened(&stage, &stage.access);
    }
    if arguments.keep {
        look_around(&cluster);
    } else {
        cluster::leave(&arguments.name);
    }
    result
}

/// What comes, and how long it takes.
fn forecast(options: &cluster::Options, profile: images::Profile) -> Result<Forecast> {
    let mut forecast = Forecast::of_missing(options, &Image::all(), packages::CLUSTER)?;
    let (how, minutes) = match profile {
        images::Profile::Release => ("with", 5..=12),
        images::Profile::Dev => ("without", 3..=6),
    };
    forecast.add(format!("the project's programs are built {how} optimisation"), minutes, " the first time");
    forecast.add("a cluster starts, and three simulations run in it", 3..=3, "");
    Ok(forecast)
}

fn story(stage: &Stage) -> Result<()> {
    let began = Instant::now();
    prepare(stage)?;
    print_settings(&stage.access)?;
    let queue = Queue::new(&stage.access);
    queue.add_tenant(stage.chemists)?;
    let ids = queue.add(stage.chemists, "simulations", &SIMULATIONS)?;
    let display = Display::new(&format!(
        "{} rows are in gromacs_to_tune; the submitter takes them from here",
        ids.len()
    ));
    let rows = follow(stage, &queue, &ids, &display, began)?;
    drop(display);
    print!("\n{}", queue.summary()?);
    check::everything(stage, &queue, &rows)
}

fn create_namespaces(stage: &Stage) -> Result<()> {
    for name in [stage.chemists, stage.owner] {
        stage.access.kubectl_with_input(&["create", "-f", "-"], namespace(name).to_string().as_bytes())?;
    }
    Ok(())
}

/// A namespace in which everything of the demo may run.
fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    })
}

/// The submitter's rights, and run inputs on a volume.
fn prepare(stage: &Stage) -> Result<()> {
    let task = Task::start("preparing three water boxes (solvate, minimise, grompp)");
    let (access, namespace) = (&stage.access, stage.chemists);
    for folder in ["deploy/tenant", "deploy/demo/water"] {
        let objects = stage.objects(folder)?.to_string();
        let apply = ["apply", "--server-side", "--namespace", namespace, "-f", "-"];
        access.kubectl_with_input(&apply, objects.as_bytes())?;
    }
    let wait =
        ["wait", "--namespace", namespace, "--for=condition=Complete", "--timeout=600s", "job/prepare-water"];
    access.kubectl_output(&wait)?;
    // Its request of half a core must not be in the way.
    access.kubectl_output(&["delete", "job", "prepare-water", "--namespace", namespace, "--wait"])?;
    task.done("three water boxes are on the PersistentVolumeClaim simulations");
    Ok(())
}

/// The settings of the pool that are the demo's own, as the cluster has them.
fn print_settings(access: &Access) -> Result<()> {
    let pool = access.kubectl_output(&["get", "scavengerpool", "default", "-o", "json"])?;
    let pool: Value = serde_json::from_str(&pool).context("kubectl printed no JSON for the ScavengerPool")?;
    println!("\nScavengerPool default, where the demo differs from the default settings:");
    let path = format!("{ROOT}/{VALUES}/values.yaml");
    let values = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let values = chart::documents(&values)?;
    let own =
        values.iter().filter_map(|values| values["pool"]["spec"].as_object()).flat_map(|spec| spec.keys());
    for field in own.map(String::as_str).chain(["nodeSelector"]) {
        let value = &pool["spec"][field];
        if !value.is_null() {
            println!("  {field}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    let status = &pool["status"];
    println!(
        "  capacity: {} of {} cpu used on {} node\n",
        status["used"]["cpu"].as_str().unwrap_or("?"),
        status["allocatable"]["cpu"].as_str().unwrap_or("?"),
        status["nodes"]
    );
    Ok(())
}

/// Where the owner's pod is in its short life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerPod {
    NotYet,
    Waits,
    Runs,
    Gone,
}

/// Follows the rows until all are done; in between an owner's pod comes and goes.
fn follow(
    stage: &Stage,
    queue: &Queue<'_>,
    ids: &[i64],
    display: &Display,
    began: Instant,
) -> Result<Vec<Row>> {
    let mut owner = OwnerPod::NotYet;
    loop {
        let rows = queue.rows(ids)?;
        display.show(&rows);
        owner = play_owner(stage, owner, &rows, display)?;
        if rows.iter().all(|row| matches!(row.state.as_str(), "completed" | "failed" | "cancelled")) {
            if owner != OwnerPod::Gone {
                bail!(
                    "the simulations ended before the ordinary pod had come and gone: nothing was interrupted"
                );
            }
            return Ok(rows);
        }
        if began.elapsed() > LIMIT {
            bail!("not all simulations were done within {} minutes", LIMIT.as_secs() / 60);
        }
        #[expect(clippy::disallowed_methods, reason = "a person watches: the rows are shown once a second")]
        thread::sleep(Duration::from_secs(1));
    }
}

/// One step of the owner's pod.
fn play_owner(stage: &Stage, owner: OwnerPod, rows: &[Row], display: &Display) -> Result<OwnerPod> {
    match owner {
        OwnerPod::NotYet => {
            let far = rows
                .iter()
                .any(|row| row.state == "running" && row.percent.is_some_and(|p| p >= OWNER_ARRIVES_AT));
            if !far {
                return Ok(owner);
            }
            display.say("an ordinary pod arrives (no PriorityClass named) and asks for 1 cpu");
            let pod = owner_pod(stage).to_string();
            stage.access.kubectl_with_input(&["create", "-f", "-"], pod.as_bytes())?;
            Ok(OwnerPod::Waits)
        }
        OwnerPod::Waits | OwnerPod::Runs => {
            let phase = stage.access.kubectl_output(&[
                "get",
                "pod",
                "owner",
                "--namespace",
                stage.owner,
                "-o",
                "jsonpath={.status.phase}",
            ])?;
            match (phase.as_str(), owner) {
                ("Running", OwnerPod::Waits) => {
                    display.say("kube-scheduler preempted a simulation; the ordinary pod runs");
                    Ok(OwnerPod::Runs)
                }
                ("Succeeded", _) => {
                    display.say("the ordinary pod has ended; its core is free again");
                    Ok(OwnerPod::Gone)
                }
                ("Failed", _) => {
                    bail!("the ordinary pod failed, which nothing in this demo should make it do")
                }
                _ => Ok(owner),
            }
        }
        OwnerPod::Gone => Ok(owner),
    }
}

fn owner_pod(stage: &Stage) -> Value {
    counting_pod(stage, "owner", "1", OWNER_SECONDS)
}

/// An ordinary pod that holds `cpu` for so many seconds.
fn counting_pod(stage: &Stage, name: &str, cpu: &str, seconds: u32) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": stage.owner },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": name,
                "image": Image::Counter.reference(),
                "imagePullPolicy": "IfNotPresent",
                "command": ["scavenger-counter"],
                "args": [format!("--to={seconds}"), "--every=1s", "--checkpoint=/tmp/count"],
                "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } },
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    });
    stage.fit_pod(&mut pod["spec"]);
    pod
}

/// What a person would look at first when the demo failed.
fn tell_what_happened(stage: &Stage, access: &Access) {
    let of = |namespace, what: &[&'static str]| [what, &["--namespace", namespace]].concat();
    let logs = |deployment| of(install::NAMESPACE, &["logs", deployment, "--tail=40"]);
    for arguments in [
        of(stage.chemists, &["get", "scavengerjobs,pods", "--output=wide"]),
        of(stage.owner, &["get", "pods", "--output=wide"]),
        of(install::NAMESPACE, &["get", "pods", "--output=wide"]),
        logs("deployment/scavenger-operator"),
        logs("deployment/gromacs-submitter"),
    ] {
        eprintln!("\n$ kubectl {}", arguments.join(" "));
        match access.kubectl_output(&arguments) {
            Ok(text) => eprint!("{text}"),
            Err(error) => eprintln!("{error:#}"),
        }
    }
}

fn look_around(cluster: &Cluster) {
    let name = &cluster.name;
    println!("\nThe cluster stays up. To look around:");
    println!("  eval \"$(cargo xtask cluster env --name {name})\"");
    print_commands(&Stage::of(cluster));
    println!("To remove it:");
    println!("  cargo xtask cluster down --name {name}");
}

/// What a person can look at while the demo's installation is there.
fn print_commands(stage: &Stage) {
    println!("  kubectl get scavengerjobs,jobs,pods --namespace {}", stage.chemists);
    println!("  kubectl describe scavengerpool default");
    println!(
        "  kubectl exec --namespace {} --stdin --tty postgres-0 -- {} {}",
        install::NAMESPACE,
        queue::PSQL.join(" "),
        queue::CHEMIST
    );
    println!("      select * from gromacs_queue;   select * from gromacs_event order by id;");
}
