//! What comes before a production run: each row makes its file of what the row before it computed, with nobody at hand.

use anyhow::{Result, ensure};
use scavenger_e2e::{
    chemist::Chemist,
    gromacs::{Computed, computed},
    queue::{prepare_with, row, state},
    run,
};

use super::row_options::{add, retried};

/// Steps of the production run.
const STEPS: u32 = 2000;

/// Beside the run input that other tests use: a box of water as `gmx solvate` leaves it, and the settings of a minimisation, of
/// two equilibrations and of a production run.
const INPUTS: &str = r#"
cd /data/water
cat > topol.top <<TOPOLOGY
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
Water
[ molecules ]
TOPOLOGY
gmx -quiet -nobackup solvate -cs spc216.gro -box 2.2 2.2 2.2 -o solvated.gro -p topol.top > solvate.log 2>&1
common='cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
nstenergy = 100'
dynamics="$common
integrator = md
dt = 0.002
constraints = h-bonds
tcoupl = v-rescale
tc-grps = System
tau-t = 1.0
ref-t = 300"
barostat='pcoupl = C-rescale
tau-p = 5.0
ref-p = 1.0
compressibility = 4.5e-5'
printf '%s\n' "$common" 'integrator = steep' 'nsteps = 200' 'emtol = 500' 'define = -DFLEXIBLE' > em.mdp
printf '%s\n' "$dynamics" 'nsteps = 1000' 'gen-vel = yes' 'gen-temp = 300' > nvt.mdp
printf '%s\n' "$dynamics" "$barostat" 'nsteps = 1000' 'continuation = yes' > npt.mdp
printf '%s\n' "$dynamics" "$barostat" 'nsteps = 2000' 'continuation = yes' > md.mdp
"#;

/// Adds `water/NAME.tpr` behind another row; returns its number.
async fn made(chemist: &Chemist, name: &str, after: Option<i64>, grompp: &str) -> Result<i64> {
    let (path, after) = (format!("water/{name}.tpr"), after.map(|row| row.to_string()));
    let mut arguments = vec![path.as_str(), "--grompp", grompp];
    arguments.extend(after.iter().flat_map(|row| ["--after", row]));
    add(chemist, &arguments).await
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_chain_makes_its_files_from_the_minimisation_to_the_production_run() {
    run("equilibration", |world| async move {
        let database = prepare_with(world, 1000, INPUTS).await?;
        let alice = Chemist::new(world, &database, "alice", true).await?;
        let minimised = made(&alice, "em", None, "-f em.mdp -c solvated.gro -p topol.top").await?;
        let from_here = "-c gromacs-{after}/confout.gro -p topol.top";
        let with_state = format!("{from_here} -t gromacs-{{after}}/state.cpt");
        // Its settings are not there.
        let nvt = made(&alice, "nvt", Some(minimised), &format!("-f hot.mdp {from_here}")).await?;
        let npt = made(&alice, "npt", Some(nvt), &format!("-f npt.mdp {with_state}")).await?;
        let md = made(&alice, "md", Some(npt), &format!("-f md.mdp {with_state}")).await?;

        state(&database, minimised, "completed").await?;
        let reason = state(&database, nvt, "failed").await?.reason.unwrap_or_default();
        ensure!(
            reason.starts_with("making and reading water/nvt.tpr failed: ") && reason.contains("hot.mdp"),
            "{reason}"
        );
        let waits = row(&database, npt).await?;
        ensure!(waits.state == "queued", "it began without the file of the row before: {waits:?}");

        let text = nvt.to_string();
        alice.good(&["edit", &text, "--grompp", &format!("-f nvt.mdp {from_here}")]).await?;
        retried(&alice, &database, nvt).await?;
        for id in [nvt, npt, md] {
            let row = state(&database, id, "completed").await?;
            ensure!(row.step == row.last_step, "row {id} did not reach its last step: {row:?}");
        }
        let steps = i64::from(STEPS);
        let found = computed(world, md).await?;
        let expected = Computed { steps, last_step: steps, restarts: 0, frames: steps / 100 + 1 };
        ensure!(found == expected, "{found:?}");
        let shown = alice.json(&["show", &md.to_string()]).await?;
        let words = shown["simulation"]["grompp_options"].as_array().map(Vec::len);
        ensure!(words == Some(8), "{}", shown["simulation"]);
        Ok(())
    });
}
