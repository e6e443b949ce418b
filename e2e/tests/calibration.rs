//! Calibration on the spot: the tuner proposes benchmarks for the node of this cluster, a chemist puts them into the
//! queue, the submitter makes and runs them, and afterwards the tuner knows what another simulation does there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::DeleteParams};
use scavenger_e2e::{
    World,
    forward::forward,
    local::{Printed, tuner},
    postgres::{Database, NAMESPACE},
    queue::{attempts, prepare_with, row, state},
    world::{run_within, until, until_within},
};
use scavenger_schema::{names, scavenger_pool::ScavengerPool};
use serde::Deserialize;
use serde_json::{Value, json};

/// The simulation whose speed is predicted: 4 nm of water, half of the smaller benchmark, with a cut-off of 0.9 nm where
/// theirs is 1 nm.
const OTHER: &str = "water-6k";
const OTHER_STEPS: u32 = 3000;
const OTHER_ATOMS: i64 = 6495;

/// Steps that `prepare` gives its own box, which nobody computes here.
const UNUSED_STEPS: u32 = 100;

/// GROMACS in the image.
const VERSION: &str = "2022.5-Debian_2022.5_2";

/// How often the simulation is tried where the machine was not quiet.
const ROUNDS: usize = 3;

/// What the tuner's 80% interval is stretched to: three standard deviations instead of 1.28. An 80% interval misses one
/// time in five by its meaning, which no test may.
const THREE_SIGMA: f64 = 3.0 / 1.2816;

/// The tuner believes that hardware is at most so many times slower than its class (`BOUND` in tuner/model/src/learn/mod.rs);
/// a machine that others keep busy may be slower.
const BELIEVED: f64 = 3.0;

/// A chemist with a login of her own, and where she runs benchmarks.
struct Chemist<'a> {
    world: &'a World,
    database: Database,
    role: String,
    url: String,
    node: String,
    labels: Value,
}

/// What `scavenger-tuner calibrate --output json` prints, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Proposal {
    half_width: f64,
    benchmarks: Vec<Benchmark>,
    rows: Vec<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Benchmark {
    system: Value,
    layout: Value,
    ns_per_day: Interval,
}

/// One row of gromacs_observation.
#[derive(Debug, Deserialize)]
struct Observation {
    owner: String,
    source: String,
    atoms: i64,
    system: Value,
    cpu_millicores: i64,
    layout: Value,
    node_labels: Value,
    gromacs_version: Option<String>,
    ns_per_day: f64,
    steps: i64,
}

/// What the tuner expects of a run.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Interval {
    p10: f64,
    p50: f64,
    p90: f64,
}

impl Chemist<'_> {
    async fn new(world: &World) -> Result<Chemist<'_>> {
        let more = format!("bash /water/prepare.sh /data {OTHER}:4.0:{OTHER_STEPS}");
        let database = prepare_with(world, UNUSED_STEPS, &more).await?;
        let role = world.namespace.replace('-', "_");
        database
            .sql(&format!(
                "create role {role} login password 'calibration' in role gromacs_chemist;
                 insert into gromacs_tenant (database_role, namespace, max_cpu_millicores)
                     values ('{role}', '{}', 1000)",
                world.namespace
            ))
            .await?;
        let address = forward(&world.client, NAMESPACE, "postgres-0", 5432).await?;
        let pools: Api<ScavengerPool> = Api::all(world.client.clone());
        let status = pools.get(names::DEFAULT_POOL).await?.status.context("the pool has no status")?;
        let [shape] = status.node_shapes.as_slice() else {
            anyhow::bail!("the pool should have nodes of one kind: {:?}", status.node_shapes);
        };
        let amount = |name: &str| shape.allocatable.get(name).map(|amount| amount.0.clone());
        let mut node = vec![amount("cpu").context("no cpu")?, amount("memory").context("no memory")?];
        node.extend(shape.labels.iter().map(|(key, value)| format!("{key}={value}")));
        Ok(Chemist {
            world,
            database,
            url: format!("postgres://{role}:calibration@{address}/scavenger"),
            role,
            node: node.join(","),
            labels: serde_json::to_value(&shape.labels)?,
        })
    }

    /// `scavenger-tuner calibrate` for this cluster's node, bounded so that it is done soon: a core, two small boxes,
    /// the shortest time there is.
    async fn calibrate(&self, more: &[&str]) -> Result<Printed> {
        let mut arguments = vec!["calibrate", "--node", &self.node, "--max-cores=1", "--max-atoms=52000"];
        arguments.extend(["--benchmark-time=20s", "--max-benchmarks=2", "--output=json"]);
        arguments.extend(["--gromacs-version", VERSION, "--database-url", &self.url]);
        arguments.extend(more);
        tuner(&arguments).await
    }

    async fn proposal(&self, more: &[&str]) -> Result<Proposal> {
        let printed = self.calibrate(more).await?;
        ensure!(printed.code == Some(0), "calibrate failed: {printed:?}");
        serde_json::from_str(&printed.stdout).with_context(|| format!("{printed:?}"))
    }

    fn target(&self) -> [&str; 4] {
        ["--namespace", &self.world.namespace, "--pvc", "simulations"]
    }

    async fn count(&self) -> Result<i64> {
        let count = format!("select count(*) from gromacs_to_tune where owner = '{}'", self.role);
        Ok(self.database.sql(&count).await?.parse()?)
    }

    async fn observations(&self, id: i64) -> Result<Vec<Observation>> {
        self.database.rows(&format!("select * from gromacs_observation where row_id = {id}")).await
    }

    /// Speed that a calibration measured.
    async fn speed(&self, id: i64) -> Result<f64> {
        let observations = self.observations(id).await?;
        ensure!(observations.len() == 1, "row {id}: {observations:?}");
        Ok(observations[0].ns_per_day)
    }

    /// A calibration like another one.
    async fn again(&self, id: i64) -> Result<f64> {
        let columns = "kind, namespace, persistent_volume_claim, nsteps, benchmark_atoms, benchmark_ranks, \
                       benchmark_threads, benchmark_pme_ranks, benchmark_gpus, benchmark_node_labels";
        let insert = format!(
            "insert into gromacs_to_tune ({columns}) select {columns} from gromacs_to_tune where id = {id} returning id"
        );
        let repetition: i64 = self.database.sql_as(&self.role, &insert).await?.parse()?;
        completed(&self.database, repetition).await?;
        self.speed(repetition).await
    }

    /// What the tuner expects of the other simulation on one core, from what this chemist has measured; without a
    /// database, from what it knows of the hardware.
    async fn expected(&self, database: bool) -> Result<Interval> {
        let request = json!({
            "system": {
                "atoms": OTHER_ATOMS, "boxNm": [4.0, 4.0, 4.0], "nsteps": OTHER_STEPS, "dtPs": 0.002, "cutoffNm": 0.9,
                "pme": { "grid": [36, 36, 36], "order": 4 }, "bondedInteractions": 0, "constraints": OTHER_ATOMS,
            },
            "limits": { "maxCpuMillicores": 1000 },
            "gromacsVersion": VERSION,
            "nodes": [{ "allocatable": { "cpuMillicores": 2000, "memoryBytes": 4_294_967_296_u64 }, "labels": self.labels }],
        });
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), request.to_string())?;
        let path = file.path().to_string_lossy();
        let mut arguments = vec!["recommend", "--request", &path, "--output=json"];
        if database {
            arguments.extend(["--database-url", &self.url]);
        }
        let printed = tuner(&arguments).await?;
        let ladder: Value = serde_json::from_str(&printed.stdout).with_context(|| format!("{printed:?}"))?;
        let rungs = ladder["configurations"].as_array().context("the ladder has no configurations")?;
        let one_core = rungs.iter().find(|rung| rung["resources"]["cpuMillicores"] == 1000);
        Ok(serde_json::from_value(one_core.context("no configuration has one core")?["nsPerDay"].clone())?)
    }

    /// Runs the other simulation on one core and returns what it measured.
    async fn other(&self) -> Result<f64> {
        let insert = format!(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, fallback_after_seconds)
             values ('{}', 'simulations', '{OTHER}/{OTHER}.tpr', 600) returning id",
            self.world.namespace
        );
        let id: i64 = self.database.sql_as(&self.role, &insert).await?.parse()?;
        completed(&self.database, id).await?;
        let observations = self.observations(id).await?;
        let [run] = observations.as_slice() else { anyhow::bail!("row {id}: {observations:?}") };
        let ran = (run.source.as_str(), run.atoms, run.cpu_millicores, &run.system["pme"]["grid"]);
        ensure!(ran == ("simulation", OTHER_ATOMS, 1000, &json!([36, 36, 36])), "another one ran: {run:?}");
        Ok(run.ns_per_day)
    }

    /// Number of measured runs that the installed tuner has learned from.
    async fn runs(&self) -> Result<u64> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services/scavenger-tuner:http/proxy/v1/model");
        let request = http::Request::get(path).body(Vec::new())?;
        let model: Value = self.world.client.request(request).await?;
        model["runs"].as_u64().context("the model has no runs")
    }
}

/// Waits until a row is completed: what takes seconds on a quiet machine takes minutes on a busy one.
async fn completed(database: &Database, id: i64) -> Result<()> {
    until_within(Duration::from_secs(600), &format!("row {id} is completed"), || async {
        let row = row(database, id).await?;
        ensure!(!matches!(row.state.as_str(), "failed" | "cancelled"), "row {id} is {row:?}");
        Ok((row.state == "completed").then_some(()))
    })
    .await
}

/// The tuner's command tells what is wrong, or else the row does.
async fn bad_input(chemist: &Chemist<'_>) -> Result<()> {
    for (arguments, code, sentence) in [
        (vec!["--namespace", "kube-system", "--pvc", "simulations"], 1, "is not one of yours"),
        (
            vec!["--namespace", &chemist.world.namespace, "--pvc", "No_Claim"],
            1,
            "persistent_volume_claim must be",
        ),
        (vec!["--namespace", &chemist.world.namespace], 2, "--pvc"),
    ] {
        let printed = chemist.calibrate(&arguments).await?;
        ensure!(
            printed.code == Some(code) && printed.stderr.contains(sentence),
            "{arguments:?}: {printed:?}"
        );
    }
    ensure!(chemist.count().await? == 0, "what was refused is in the queue");
    let one = |claim: &'static str, node: String| async move {
        let arguments =
            ["calibrate", "--node", &node, "--max-cores=1", "--max-benchmarks=1", "--output=json"];
        let target =
            ["--database-url", &chemist.url, "--namespace", &chemist.world.namespace, "--pvc", claim];
        let printed = tuner(&[arguments.as_slice(), target.as_slice()].concat()).await?;
        let proposal: Proposal =
            serde_json::from_str(&printed.stdout).with_context(|| format!("{printed:?}"))?;
        proposal.rows.first().copied().context("nothing was inserted")
    };
    let nowhere = one("simulations", "2,4Gi,kubernetes.io/arch=abacus".to_owned()).await?;
    let no_claim = one("nowhere", chemist.node.clone()).await?;
    for (id, sentence) in [(nowhere, "has the labels kubernetes.io/arch=abacus"), (no_claim, "nowhere")] {
        let failed = state(&chemist.database, id, "failed").await?;
        let reason = failed.reason.unwrap_or_default();
        ensure!(reason.contains(sentence), "row {id}: {reason}");
        println!("row {id}: {reason}");
    }
    Ok(())
}

/// Takes the pod of a benchmark away once, and waits for what it measures from its beginning.
async fn interrupted(chemist: &Chemist<'_>, id: i64) -> Result<()> {
    until(&format!("row {id} computes"), || async {
        let row = row(&chemist.database, id).await?;
        ensure!(!matches!(row.state.as_str(), "completed" | "failed"), "row {id} is {row:?}");
        Ok((row.state == "running" && row.step.is_some()).then_some(()))
    })
    .await?;
    let pod = chemist.world.pod(&format!("gromacs-{id}-1")).await?.name_any();
    chemist.world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
    completed(&chemist.database, id).await?;
    let attempts = attempts(&chemist.database, id).await?;
    ensure!(attempts.len() == 2, "{attempts:?}");
    ensure!(attempts[1].first_step == Some(0), "it did not start over: {attempts:?}");
    Ok(())
}

/// The benchmarks were run as they were proposed, and are told of their node.
async fn check(chemist: &Chemist<'_>, proposal: &Proposal) -> Result<()> {
    for (id, benchmark) in proposal.rows.iter().zip(&proposal.benchmarks) {
        let observations = chemist.observations(*id).await?;
        let [run] = observations.as_slice() else { anyhow::bail!("row {id}: {observations:?}") };
        ensure!((run.owner.as_str(), run.source.as_str()) == (&chemist.role, "calibration"), "{run:?}");
        ensure!(Some(run.atoms) == benchmark.system["atoms"].as_i64(), "{run:?}");
        ensure!(run.layout == benchmark.layout && run.node_labels == chemist.labels, "{run:?}");
        ensure!(
            Some(run.steps * 2) == benchmark.system["nsteps"].as_i64(),
            "half of it is measured: {run:?}"
        );
        ensure!(run.gromacs_version.as_deref() == Some(VERSION), "{run:?}");
        println!("row {id}: {} atoms, {:.2} ns/day", run.atoms, run.ns_per_day);
    }
    Ok(())
}

/// True if what was measured lies in the tuner's interval, stretched to three standard deviations, by what repetitions
/// of one benchmark differ by on this machine, which others use at the same time, and by what the tuner does not believe.
fn covers(expected: Interval, measured: f64, benchmark: &Benchmark, repetitions: &[f64]) -> bool {
    let Interval { p10, p50, p90 } = expected;
    let slowest = repetitions.iter().copied().fold(f64::INFINITY, f64::min);
    let fastest = repetitions.iter().copied().fold(0.0, f64::max);
    let noise = fastest / slowest;
    println!(
        "predicted {p50:.2} ns/day ({p10:.2} to {p90:.2}), measured {measured:.2}: off by {:.0}% (goal on a quiet machine: \
         15%), {} the 80% interval; repetitions of a benchmark differ by {:.0}%",
        100.0 * ((p50 / measured).ln().abs().exp() - 1.0),
        if (p10..=p90).contains(&measured) { "inside" } else { "outside" },
        100.0 * (noise - 1.0)
    );
    let unbelieved = (benchmark.ns_per_day.p50 / slowest / BELIEVED).max(1.0);
    let allowed = (p90 / p10).sqrt().powf(THREE_SIGMA) * noise * unbelieved;
    (p50 / measured).ln().abs() <= allowed.ln()
}

async fn story(world: &World) -> Result<()> {
    let chemist = Chemist::new(world).await?;
    bad_input(&chemist).await?;

    let before = chemist.proposal(&[]).await?;
    ensure!(before.half_width > 1.5, "the hardware should be unknown: {}", before.half_width);
    ensure!(before.rows.is_empty() && !before.benchmarks.is_empty());
    let rows = chemist.count().await?;
    let mut dry_run = chemist.target().to_vec();
    dry_run.push("--dry-run");
    ensure!(chemist.proposal(&dry_run).await?.rows.is_empty() && chemist.count().await? == rows);
    let known = chemist.runs().await?;

    let proposal = chemist.proposal(&chemist.target()).await?;
    ensure!(proposal.rows.len() == proposal.benchmarks.len(), "{:?}", proposal.rows);
    interrupted(&chemist, proposal.rows[0]).await?;
    for id in &proposal.rows[1..] {
        completed(&chemist.database, *id).await?;
    }
    check(&chemist, &proposal).await?;

    let after = chemist.proposal(&[]).await?;
    println!("speeds were known within a factor of {:.2}, now {:.2}", before.half_width, after.half_width);
    ensure!(after.half_width < 0.85 * before.half_width, "{} after {}", after.half_width, before.half_width);
    let learned = known + u64::try_from(proposal.rows.len())?;
    until("the tuner has learned from them", || async {
        Ok((chemist.runs().await? >= learned).then_some(()))
    })
    .await?;

    // The last one is repeated: it tells least, and here it is the smallest.
    let repeated = proposal.rows.last().copied().zip(proposal.benchmarks.last());
    let (id, benchmark) = repeated.context("nothing was proposed")?;
    let mut repetitions = vec![chemist.speed(id).await?];
    let prior = chemist.expected(false).await?;
    for _ in 0..ROUNDS {
        let expected = chemist.expected(true).await?;
        ensure!(
            expected.p90 / expected.p10 < prior.p90 / prior.p10,
            "{expected:?} is not narrower than {prior:?}"
        );
        let measured = chemist.other().await?;
        repetitions.push(chemist.again(id).await?);
        println!("without a measurement: {:.2} ns/day ({:.2} to {:.2})", prior.p50, prior.p10, prior.p90);
        if covers(expected, measured, benchmark, &repetitions) {
            return Ok(());
        }
    }
    anyhow::bail!("the interval did not cover what was measured in {ROUNDS} rounds")
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn benchmarks_tell_how_fast_another_simulation_is() {
    run_within(Duration::from_secs(2400), "calibration", |world| async move { story(world).await });
}
