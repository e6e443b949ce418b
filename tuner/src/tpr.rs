//! What `gmx dump -s` prints of a run input file, as a description of the system.
//!
//! Only GROMACS itself reads every version of its own format, so the file is not read here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use scavenger_schema::tuning::{GpuOffload, PmeDescription, Settings, SystemDescription};
use scavenger_schema::{gmx_dump, gpu_offload, tuning};

/// Longest line of a dump that is looked at, in bytes; what is longer is no line of parameters.
const LONGEST_LINE: u64 = 64 * 1024;
/// Most lines of a dump before its coordinates: the topology of a large system has some millions.
const MOST_LINES: usize = 50_000_000;

/// Why a file gives no system.
#[derive(Debug, thiserror::Error)]
pub enum TprError {
    /// GROMACS is not there.
    #[error("cannot run {program} to read the run input file; install GROMACS, or name it with --gmx")]
    Start {
        /// The program that was tried.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its output ended early.
    #[error("cannot read what gmx dump prints")]
    Read(#[source] io::Error),
    /// It printed no such value, because it could not read the file or this is no run input file.
    #[error("gmx dump found no {0}; is this a run input file that this version of GROMACS can read?")]
    Missing(&'static str),
    /// It printed something else than a number.
    #[error("gmx dump says {key} = {value}, which is not a number in range")]
    Number {
        /// Name of the parameter.
        key: &'static str,
        /// What stands there.
        value: String,
    },
}

/// What `gmx --version` says of the version and of GPUs, under the keys of [`gpu_offload`]; empty if it cannot be asked.
#[must_use]
pub fn build(program: &str) -> BTreeMap<String, String> {
    let output = Command::new(program).args(["-quiet", "--version"]).stdin(Stdio::null()).output();
    output.map_or_else(|_| BTreeMap::new(), |output| build_of(&String::from_utf8_lossy(&output.stdout)))
}

fn build_of(text: &str) -> BTreeMap<String, String> {
    let keys = [
        ("GROMACS version:", gpu_offload::VERSION),
        ("GPU support:", gpu_offload::GPU_SUPPORT),
        ("SIMD instructions:", tuning::SIMD),
        ("Precision:", tuning::PRECISION),
        ("MPI library:", tuning::MPI),
    ];
    let lines = text.lines().filter_map(|line| {
        let (title, key) = keys.iter().find(|(title, _)| line.starts_with(title))?;
        let word = line.strip_prefix(title)?.split_whitespace().next()?;
        Some(((*key).to_owned(), word.to_owned()))
    });
    lines.collect()
}

/// Reads `file` with GROMACS's own `gmx` program, whose build is `build`.
pub fn read(
    program: &str,
    build: &BTreeMap<String, String>,
    file: &Path,
) -> Result<SystemDescription, TprError> {
    let mut gmx = Command::new(program)
        .args(["-quiet", "dump", "-s"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| TprError::Start { program: program.to_owned(), source })?;
    let outcome = match gmx.stdout.take() {
        Some(output) => parse(BufReader::new(output), build),
        None => Err(TprError::Missing("output")),
    };
    // What follows the parameters are coordinates: of no use, and long. It may have ended by itself.
    let _ = gmx.kill();
    let _ = gmx.wait();
    outcome
}

/// Reads what `gmx dump -s` prints, up to the coordinates.
pub fn parse(
    mut dump: impl BufRead,
    build: &BTreeMap<String, String>,
) -> Result<SystemDescription, TprError> {
    let mut values = build.clone();
    let (mut obstacles, mut bonds, mut groups) = (BTreeSet::new(), 0.0, 0_u32);
    let mut edges = [None; 3];
    let mut molecules: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut block, mut molecule) = (0, 0);
    let mut kind = String::new();
    let mut perturbed = 0.0;
    let (mut bonded, mut constraints) = (0.0, 0.0);
    let mut bytes = Vec::new();
    for _ in 0..MOST_LINES {
        bytes.clear();
        let read =
            io::Read::take(&mut dump, LONGEST_LINE).read_until(b'\n', &mut bytes).map_err(TprError::Read)?;
        if read == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim();
        if line.starts_with("x (") {
            break;
        }
        if let Some(count) = line.strip_prefix("nr:") {
            let numbers: f64 = count.trim().parse().unwrap_or(0.0);
            let copies = molecules.get(&molecule).copied().unwrap_or(0.0);
            obstacles.extend(obstacle_of(&kind, numbers, &mut bonds));
            match gmx_dump::BONDED.iter().find(|(name, _)| *name == kind) {
                Some((_, size)) => bonded += numbers / f64::from(*size) * copies,
                None if kind == "Constraint" => constraints += numbers / 3.0 * copies,
                None if kind == "Settle" => constraints += numbers / 4.0 * 3.0 * copies,
                None => {}
            }
            kind.clear();
        } else if line.starts_with("atom[") {
            if gmx_dump::has_two_states(line) {
                perturbed += molecules.get(&molecule).copied().unwrap_or(0.0);
            }
        } else if let Some(rest) = line.strip_prefix("moltype (") {
            molecule = leading_number(rest);
            kind.clear();
            bonds = 0.0;
        } else if let Some(row) = line.strip_prefix("box[") {
            box_row(row, &mut edges);
        } else if let Some(row) = line.strip_prefix("deform[") {
            let moves =
                row.split_once('{').is_some_and(|(_, row)| row.contains(|c| ('1'..='9').contains(&c)));
            obstacles.extend(moves.then_some("deformation"));
        } else if line.starts_with("energygrp-flags[") {
            groups += 1;
        } else if let Some(frozen) = line.strip_prefix("nfreeze:") {
            obstacles.extend(frozen.contains('Y').then_some("frozen-atoms"));
        } else if let Some(row) = line.strip_prefix("acc:") {
            let moves = row.split_whitespace().any(|word| word.parse() != Ok(0.0));
            obstacles.extend(moves.then_some("acceleration"));
        } else if let Some((key, value)) = line.split_once('=') {
            let (key, value) = (key.trim(), value.trim());
            match key {
                "moltype" => block = leading_number(value),
                "#molecules" => {
                    *molecules.entry(block).or_default() += value.parse().unwrap_or(0.0);
                }
                // Its first value counts: some names come again for groups of atoms.
                _ if is_wanted(key) => {
                    values.entry(key.to_owned()).or_insert_with(|| value.to_owned());
                }
                _ => {}
            }
        } else if let Some(name) = line.strip_suffix(':').filter(|name| name.len() < 64) {
            name.clone_into(&mut kind);
        }
    }
    let obstacles = Vec::from_iter(obstacles).join(",");
    let found = if obstacles.is_empty() { gpu_offload::NO_OBSTACLES.to_owned() } else { obstacles };
    values.insert(gpu_offload::OBSTACLES.to_owned(), found);
    values.insert(gpu_offload::ENERGY_GROUPS.to_owned(), groups.to_string());
    values.insert(tuning::PERTURBED_ATOMS.to_owned(), perturbed.to_string());
    describe(&values, edges, bonded, constraints)
}

/// What keeps the update off a GPU in a list of interactions of a kind of molecule. Constraints hang together where they
/// replace the bonds between heavy atoms, too; `bonds` counts those that are left.
fn obstacle_of(kind: &str, numbers: f64, bonds: &mut f64) -> Option<&'static str> {
    let constraints = numbers / 3.0;
    match kind {
        _ if numbers <= 0.0 => None,
        "Bond" | "G96Bond" => {
            *bonds += numbers / 3.0;
            None
        }
        "Constraint" => (constraints > gpu_offload::MOST_COUPLED_CONSTRAINTS as f64
            && 2.0 * *bonds < constraints)
            .then_some("coupled-constraints"),
        _ if gmx_dump::is_virtual_sites(kind) => Some("virtual-sites"),
        _ if kind.contains("Pol") => Some("shells"),
        _ if kind.starts_with("Orient") => Some("orientation-restraints"),
        _ => None,
    }
}

fn is_wanted(key: &str) -> bool {
    gpu_offload::SETTINGS.contains(&key)
        || tuning::COST_SETTINGS.contains(&key)
        || matches!(
            key,
            "#atoms"
                | "nsteps"
                | "dt"
                | "rcoulomb"
                | "rvdw"
                | "rlist"
                | "nstlist"
                | "verlet-buffer-tolerance"
                | "fourier-nx"
                | "fourier-ny"
                | "fourier-nz"
        )
}

/// The number at the start of a text such as `0 "Protein"` or `3):`; 0 if there is none.
fn leading_number(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// `    0]={ 3.1e+00,  0.0e+00,  0.0e+00}`: the diagonal is wanted, of the first box (others follow).
fn box_row(row: &str, edges: &mut [Option<f64>; 3]) {
    let Some((index, numbers)) = row.split_once("]={") else { return };
    let Ok(index) = index.trim().parse::<usize>() else { return };
    let number =
        numbers.trim_end_matches('}').split(',').nth(index).and_then(|text| text.trim().parse().ok());
    if let Some(edge) = edges.get_mut(index)
        && edge.is_none()
    {
        *edge = number;
    }
}

fn describe(
    values: &BTreeMap<String, String>,
    edges: [Option<f64>; 3],
    bonded: f64,
    constraints: f64,
) -> Result<SystemDescription, TprError> {
    let atoms: u64 = number(values, "#atoms")?;
    let rcoulomb: f64 = number(values, "rcoulomb")?;
    let rvdw: f64 = number(values, "rvdw")?;
    // With a tolerance mdrun chooses both itself, and larger ones than the file says.
    let tolerance: f64 = number(values, "verlet-buffer-tolerance").unwrap_or(0.0);
    let (rlist_nm, nstlist) = if tolerance < 0.0 {
        SystemDescription::list_of(number(values, "rlist")?, number(values, "nstlist")?)
    } else {
        (None, None)
    };
    let uses_pme = values.get("coulombtype").is_some_and(|kind| kind.to_ascii_uppercase().starts_with("PME"));
    let pme = if uses_pme {
        let grid =
            [number(values, "fourier-nx")?, number(values, "fourier-ny")?, number(values, "fourier-nz")?];
        Some(PmeDescription { grid, order: number(values, "pme-order")? })
    } else {
        None
    };
    let on_gpu = gpu_offload::allowed(values);
    let usual = GpuOffload::default();
    let box_nm = match edges {
        [Some(x), Some(y), Some(z)] if x > 0.0 && y > 0.0 && z > 0.0 => Some([x, y, z]),
        _ => None,
    };
    Ok(SystemDescription {
        atoms,
        box_nm,
        nsteps: number(values, "nsteps")?,
        dt_ps: number(values, "dt")?,
        cutoff_nm: SystemDescription::cutoff_of(rcoulomb, rvdw),
        rlist_nm,
        nstlist,
        pme,
        // Casting saturates, and the check of the request refuses what is out of range.
        bonded_interactions: Some(bonded as u64),
        constraints: Some(constraints as u64),
        gpu_offload: GpuOffload {
            nonbonded: on_gpu.nonbonded.unwrap_or(usual.nonbonded),
            pme: on_gpu.pme.unwrap_or(false),
            bonded: on_gpu.bonded.unwrap_or(usual.bonded),
            update: on_gpu.update.unwrap_or(usual.update),
        },
        settings: Settings::of(values, atoms),
    })
}

fn number<T: std::str::FromStr>(values: &BTreeMap<String, String>, key: &'static str) -> Result<T, TprError> {
    let text = values.get(key).ok_or(TprError::Missing(key))?;
    text.parse().map_err(|_| TprError::Number { key, value: text.chars().take(40).collect() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WATER: &str = r#"
water.tpr:
inputrec:
   integrator                     = md
   dt                             = 0.002
   nsteps                         = 5000
   nstlist                        = 10
   verlet-buffer-tolerance        = 0.005
   rlist                          = 1.012
   coulombtype                    = PME
   rcoulomb                       = 1
   rvdw                           = 0.9
   fourier-nx                     = 25
   fourier-ny                     = 26
   fourier-nz                     = 27
   pme-order                      = 4
topology:
   name="Water"
   #atoms                         = 2652
   #molblock                      = 1
   molblock (0):
      moltype              = 0 "SOL"
      #molecules                     = 884
   moltype (0):
      name="SOL"
      Settle:
         nr: 4
         iatoms:
            0 type=1 (SETTLE)
box (3x3):
   box[    0]={ 2.98600e+00,  0.00000e+00,  0.00000e+00}
   box[    1]={ 0.00000e+00,  2.98700e+00,  0.00000e+00}
   box[    2]={ 0.00000e+00,  0.00000e+00,  2.98800e+00}
box_rel (3x3):
   box_rel[    0]={ 0.00000e+00,  0.00000e+00,  0.00000e+00}
x (2652x3):
   nsteps = 7
"#;

    #[test]
    fn reads_a_box_of_water() {
        let system = parse(WATER.as_bytes(), &BTreeMap::new()).expect("the dump should be read");
        assert_eq!((system.atoms, system.nsteps, system.dt_ps), (2652, 5000, 0.002));
        assert_eq!(system.box_nm, Some([2.986, 2.987, 2.988]));
        assert_eq!((system.cutoff_nm, system.rlist_nm, system.nstlist), (1.0, None, None));
        assert_eq!(system.pme, Some(PmeDescription { grid: [25, 26, 27], order: 4 }));
        assert_eq!((system.bonded_interactions, system.constraints), (Some(0), Some(2652)));
    }

    #[test]
    fn a_vacuum_has_a_cutoff_that_a_request_may_have() {
        let of = |cutoff: &str, rlist: &str, nstlist: &str| {
            let dump = WATER
                .replace("rcoulomb                       = 1", &format!("rcoulomb = {cutoff}"))
                .replace("rvdw                           = 0.9", &format!("rvdw = {cutoff}"))
                .replace("tolerance        = 0.005", "tolerance = -1")
                .replace("rlist                          = 1.012", &format!("rlist = {rlist}"))
                .replace("nstlist                        = 10", &format!("nstlist = {nstlist}"))
                .replace("coulombtype                    = PME", "coulombtype = Cut-off");
            let system = parse(dump.as_bytes(), &BTreeMap::new()).expect("the dump should be read");
            scavenger_tuner_model::system::System::check(&system).expect("the tuner should take it");
            (system.cutoff_nm, system.rlist_nm, system.nstlist)
        };
        assert_eq!(of("0", "0", "0"), (5.0, None, None));
        assert_eq!(of("333.3", "333.3", "10"), (5.0, None, Some(10)));
        assert_eq!(of("1.2", "1.3", "20"), (1.2, Some(1.3), Some(20)));
    }

    #[test]
    fn settings_and_build_tell_what_may_run_on_a_gpu() {
        let cuda =
            build_of("GROMACS version:    2024.4\nPrecision:          mixed\nGPU support:        CUDA\n");
        let dump = WATER.replace(
            "   pme-order",
            "   vdw-type = Cut-off\n   tcoupl = V-rescale\n   pcoupl = No\n   constraint-algorithm = Lincs\n   pme-order",
        );
        let of = |dump: &str, build: &BTreeMap<String, String>| {
            let offload = parse(dump.as_bytes(), build).expect("the dump should be read").gpu_offload;
            [offload.nonbonded, offload.pme, offload.bonded, offload.update]
        };
        assert_eq!(of(&dump, &cuda), [true; 4]);
        assert_eq!(of(&dump, &BTreeMap::new()), [true, true, true, false], "the build is not known");
        assert_eq!(of(&dump, &build_of("GPU support:        disabled\n")), [false; 4]);
        let lj_pme = dump.replace("vdw-type = Cut-off", "vdw-type = PME\n   lj-pme-comb-rule = Geometric");
        assert_eq!(of(&lj_pme, &cuda), [true, false, true, false]);
        for kind in ["Virtual site 3", "Virt. site 3fd", "Vir. site 3out"] {
            let sites =
                dump.replace("      Settle:", &format!("      {kind}:\n         nr: 5\n      Settle:"));
            assert_eq!(of(&sites, &cuda), [true, true, true, false], "{kind}");
        }
        let coupled = dump.replace("      Settle:", "      Constraint:\n         nr: 900\n      Settle:");
        assert_eq!(of(&coupled, &cuda), [true, true, true, false]);
    }

    #[test]
    fn says_what_is_missing_or_no_number() {
        let error = |from: &str, to: &str| {
            parse(WATER.replace(from, to).as_bytes(), &BTreeMap::new())
                .expect_err("the spoilt dump should be refused")
                .to_string()
        };
        assert!(error("#atoms ", "#atom ").contains("no #atoms"));
        assert!(error("= 2652", "= -3").contains("#atoms = -3"));
        assert!(error("= 26\n", "= 99999999999\n").contains("fourier-ny"));
        assert!(parse(&b""[..], &BTreeMap::new()).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            lines in prop::collection::vec(
                prop_oneof![
                    "[ -~]{0,40}",
                    prop::sample::select(WATER.lines().map(str::to_owned).collect::<Vec<_>>()),
                    "(#atoms|nsteps|dt|rlist|fourier-nx|pme-order|moltype|#molecules) = [-+0-9.eEnaif]{0,12}",
                    r"box\[ *[0-9-]{0,3}\]=\{[ ,0-9.e+-]{0,30}\}?",
                    "(nr:|moltype \\(|box\\[)[ -~]{0,10}",
                ],
                0..60,
            ),
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut text = lines.join("\n").into_bytes();
            text.extend(bytes);
            // Whatever is read must be safe for the model, too.
            if let Ok(system) = parse(text.as_slice(), &BTreeMap::new()) {
                let _ = scavenger_tuner_model::system::System::check(&system);
            }
        }
    }
}
