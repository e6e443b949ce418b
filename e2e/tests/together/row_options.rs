//! What a chemist says of a row beside its file: the speed that it must have at least, a table that its mdrun reads, and the
//! user that it runs as. Each is taken at its word, and where that cannot be, the row says why and what to do.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use scavenger_e2e::{
    World,
    chemist::Chemist,
    postgres::Database,
    queue::{Row, is_complete_with, prepare_with, row, simulations, state},
    run,
    world::{exec, until},
};

/// Some seconds on half a core.
const STEPS: u32 = 1500;

/// No machine computes the water box so fast, and no prediction says so.
const TOO_FAST: &str = "100000";

/// As many as the .mdp file of [`DIMERS`] says.
const DIMER_STEPS: i64 = 10_000;

/// Pairs of atoms, held together by a bond whose energy stands in a table: mdrun finds it with `-tableb` and nowhere else.
const DIMERS: &str = r#"
mkdir -p /data/dimers /data/tables
awk 'BEGIN { for (i = 0; i <= 1000; i++) { r = i / 1000; printf "%.4f %.8f %.8f\n", r, (r - 0.3) ^ 2 / 2, 0.3 - r } }' \
    > /data/tables/bond_b0.xvg
cd "$(mktemp -d)"
cat > topol.top <<TOPOLOGY
[ defaults ]
1 2 yes 0.5 0.5
[ atomtypes ]
AR 18 39.948 0.0 A 0.34 0.996
[ moleculetype ]
DIM 1
[ atoms ]
1 AR 1 DIM A 1 0.0
2 AR 1 DIM B 1 0.0
[ bonds ]
1 2 8 0 1000.0
[ system ]
Dimers
[ molecules ]
DIM 216
TOPOLOGY
cat > cell.gro <<CELL
A dimer
    2
    1DIM      A    1   0.100   0.200   0.200
    1DIM      B    2   0.400   0.200   0.200
0.6 0.6 0.6
CELL
cat > md.mdp <<PARAMETERS
integrator = md
nsteps = 10000
dt = 0.002
cutoff-scheme = Verlet
rvdw = 0.9
rcoulomb = 0.9
tcoupl = v-rescale
tc-grps = System
tau-t = 0.5
ref-t = 90
gen-vel = yes
gen-temp = 90
nstenergy = 100
PARAMETERS
{
    gmx -quiet -nobackup genconf -f cell.gro -nbox 6 6 6 -o conf.gro
    gmx -quiet -nobackup grompp -f md.mdp -c conf.gro -p topol.top -o /data/dimers/dimers.tpr
} > log 2>&1 || { tail -n 25 log >&2; exit 1; }
"#;

/// A folder that every user may write to, with the same box.
const FOR_EVERYBODY: &str = r#"
mkdir -p /data/shared
cp /data/water/water.tpr /data/shared/
chmod 777 /data/shared
"#;

/// A user and group that nothing else in the cluster has.
const USER: &str = "2345";

/// Adds a row for half a core; returns its number.
pub(crate) async fn add(chemist: &Chemist, arguments: &[&str]) -> Result<i64> {
    let usual = ["add", "--max-cpu-millicores", "500", "--allow-duplicate"];
    let added = chemist.json(&[&usual[..], arguments].concat()).await?;
    added[0]["id"].as_i64().with_context(|| added.to_string())
}

/// Sets `retry_requested`, and waits until the submitter has heard that.
pub(crate) async fn retried(chemist: &Chemist, database: &Database, id: i64) -> Result<()> {
    chemist.good(&["retry", &id.to_string()]).await?;
    until(&format!("row {id} begins again"), || async {
        let state = row(database, id).await?.state;
        Ok((!matches!(state.as_str(), "failed" | "cancelled")).then_some(()))
    })
    .await
}

async fn waits_for(database: &Database, id: i64, words: &str) -> Result<Row> {
    until(&format!("row {id} says {words:?}"), || async {
        let row = row(database, id).await?;
        Ok(row.reason.as_deref().is_some_and(|reason| reason.contains(words)).then_some(row))
    })
    .await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_row_waits_for_the_speed_that_it_wants_until_that_is_taken_back() {
    run("min-speed", |world| async move {
        let database = prepare_with(world, STEPS, "").await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let id = add(&alice, &["water/water.tpr", "--min-ns-per-day", TOO_FAST]).await?;
        let waits = waits_for(&database, id, "min_ns_per_day").await?;
        let reason = waits.reason.unwrap_or_default();
        let speed = reason
            .strip_prefix("no configuration is predicted to do 100000 ns/day (min_ns_per_day), the fastest of all does ")
            .and_then(|rest| {
                rest.strip_suffix(
                    "; the row waits for other nodes; to run on these, cancel it, lower min_ns_per_day, and retry",
                )
            });
        let speed: f64 = speed.and_then(|speed| speed.parse().ok()).with_context(|| reason.clone())?;
        ensure!(waits.state == "tuning" && speed > 0.0 && speed < 100_000.0, "{}: {reason}", waits.state);
        let blocked = database.sql(&format!("select blocked from gromacs_to_tune where id = {id}")).await?;
        ensure!(blocked == "t", "it counts among the rows that hold up others: {blocked}");

        // It holds up nothing, and stays where it is.
        let other = add(&alice, &["water/water.tpr"]).await?;
        is_complete_with(&state(&database, other, "completed").await?, STEPS)?;
        ensure!(row(&database, id).await?.state == "tuning", "it went on without its speed");
        ensure!(simulations(world, id).await?.is_empty(), "it has a ScavengerJob");

        // As its reason says.
        let text = id.to_string();
        let unset = ["edit", &text, "--unset", "min-ns-per-day"];
        alice
            .refused(&unset, &["only while it is queued or has ended: cancel it, change it, and retry"])
            .await?;
        alice.good(&["cancel", &text]).await?;
        state(&database, id, "cancelled").await?;
        alice.good(&unset).await?;
        retried(&alice, &database, id).await?;
        is_complete_with(&state(&database, id, "completed").await?, STEPS)
    });
}

/// Arguments of mdrun in the row's first attempt that ran.
async fn arguments(chemist: &Chemist, id: i64) -> Result<String> {
    let story = chemist.json(&["show", &id.to_string()]).await?;
    let attempts = story["attempts"].as_array().with_context(|| story.to_string())?;
    let ran = attempts.iter().find(|attempt| attempt["start_time"].is_string());
    Ok(ran.with_context(|| format!("no attempt ran: {attempts:?}"))?["mdrun_args"].to_string())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_table_that_mdrun_reads_must_be_on_the_volume() {
    run("table", |world| async move {
        let database = prepare_with(world, STEPS, DIMERS).await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let dimers = "dimers/dimers.tpr";
        let good = add(&alice, &[dimers, "--mdrun-options", "-tableb tables/bond_b0.xvg"]).await?;
        let missing = add(&alice, &[dimers, "--mdrun-options", "-tableb tables/angle_b0.xvg"]).await?;
        let unsaid = add(&alice, &[dimers]).await?;
        let is_done = |row: Row| {
            let ends = (row.step, row.last_step);
            ensure!(
                ends == (Some(DIMER_STEPS), Some(DIMER_STEPS)),
                "it did not reach its last step: {row:?}"
            );
            Ok(())
        };

        // The inspection finds that out: mdrun is not even tried.
        let reason = state(&database, missing, "failed").await?.reason.unwrap_or_default();
        ensure!(
            reason
                == "reading dimers/dimers.tpr failed: there is no file /data/tables/angle_b0.xvg on the volume; put it there, \
                    and retry",
            "{reason}"
        );
        ensure!(simulations(world, missing).await?.is_empty(), "it has a ScavengerJob");

        is_done(state(&database, good, "completed").await?)?;
        let arguments = arguments(&alice, good).await?;
        ensure!(
            arguments.contains("-tableb") && arguments.contains("/data/tables/bond_b0.xvg"),
            "{arguments}"
        );

        // Without the option mdrun has no table, which shows that the other row read its own.
        let reason = state(&database, unsaid, "failed").await?.reason.unwrap_or_default();
        ensure!(
            reason.contains("no table file whose name matched '_b0.xvg'")
                && reason.ends_with(&format!(
                    "name the table with -tableb in mdrun_options (gromacs-submitter edit {unsaid} --mdrun-options), and retry"
                )),
            "{reason}"
        );

        for id in [missing, unsaid] {
            let edit = ["edit", &id.to_string(), "--mdrun-options", "-tableb tables/bond_b0.xvg"];
            alice.good(&edit).await?;
            retried(&alice, &database, id).await?;
            is_done(state(&database, id, "completed").await?)?;
        }
        Ok(())
    });
}

/// User and group of the folder of a row beside `/data/shared/water.tpr`, of mdrun's log in it, and of what runs in its pod.
async fn users(world: &World, id: i64) -> Result<String> {
    let pod = world.pod(&format!("gromacs-{id}-1")).await?;
    let containers = pod.spec.as_ref().map(|spec| &spec.containers);
    let container = containers.and_then(|all| all.first()).context("a pod without containers")?;
    let script = format!("cd /data/shared/gromacs-{id} && stat -c %u:%g . md.log && echo $(id -u):$(id -g)");
    let command = ["bash", "-euc", &script];
    exec(&world.api::<Pod>(), &pod.name_any(), &container.name, &command).await
}

#[test]
fn a_row_runs_as_the_user_that_it_names() {
    run("other-user", |world| async move {
        // Long enough that its pod can be looked at on a fast machine, too.
        const LONG: u32 = 4000;
        let database = prepare_with(world, LONG, FOR_EVERYBODY).await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let named = ["--run-as-user", USER, "--run-as-group", USER];
        let id = add(&alice, &[&["shared/water.tpr"], &named[..]].concat()).await?;
        until("the simulation computes", || async {
            Ok(row(&database, id).await?.step.filter(|step| *step > 100))
        })
        .await?;
        let both = format!("{USER}:{USER}");
        let found = users(world, id).await?;
        ensure!(found.lines().collect::<Vec<_>>() == [both.as_str(); 3], "{found}");
        is_complete_with(&state(&database, id, "completed").await?, LONG)?;
        // The pod that reads the volume is the same user's.
        let listed = alice.good(&["files", &id.to_string()]).await?;
        ensure!(listed.contains("md.log") && listed.contains("confout.gro"), "{listed}");
        Ok(())
    });
}
