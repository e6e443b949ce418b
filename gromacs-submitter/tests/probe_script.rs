//! The inspection and verification scripts as a pod runs them: by `sh`, with a `gmx` that prints a recorded dump.

mod volume;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use gromacs_submitter::probe::{
    GROMPP_SCRIPT, INSPECT_SCRIPT, PREPARE_SCRIPT, VERIFY_SCRIPT, WATER_SCRIPT, parse_inspection,
    parse_preparation, parse_verification,
};
use scavenger_schema::{gmx_dump, tuning};
use volume::{OTHER_UUID, UUID, Volume, contents, is_refused};

/// Prints the dump of a solvated peptide, and far more coordinates than anybody should read.
fn dumping() -> String {
    format!(
        "case \"$*\" in
        *--version*) echo 'GROMACS version:    2022.5-Debian'; echo 'GPU support:        disabled' ;;
        *'dump -s '*) cat '{}/tests/fixtures/dump-peptide.txt'; yes '   x[    1]={{ 1.0, 1.0, 1.0}}' ;;
        *) exit 9 ;;
        esac",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn a_peptide_in_water_is_described_and_the_coordinates_are_not_read() {
    let volume = Volume::new(&dumping());
    let folder = volume.0.join("gromacs-1");
    let output = volume.run(INSPECT_SCRIPT, &[&volume.file("a.tpr"), &folder]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(folder.is_dir(), "the working directory is made");
    assert_eq!(volume.message(), String::from_utf8_lossy(&output.stdout), "message and log say the same");
    let system = parse_inspection(&volume.message()).expect("should be a good answer").system;
    assert_eq!((system.atoms, system.nsteps, system.init_step), (Some(1048), Some(1000), Some(200)));
    // 342 rigid water molecules with three constraints each, and 12 bonds to hydrogen in the peptide.
    assert_eq!(system.constraints, Some(342 * 3 + 12));
    // 9 other bonds, 36 angles, 41 pairs, and the dihedrals that grompp kept.
    assert_eq!(system.bonded_interactions, Some(9 + 36 + 41 + 42));
    assert_eq!(system.box_nm, Some(vec![2.2, 2.2, 2.2]));
    assert_eq!(system.gromacs_version.as_deref(), Some("2022.5-Debian"));
    assert_eq!((system.gpu_nonbonded, system.gpu_pme), (Some(false), Some(false)), "the build knows no GPU");
    let message = volume.message();
    assert!(message.contains("energy-groups=1\nupdate-obstacles=none\n"), "{message}");
    assert!(message.len() < 1000, "the operator copies at most 1 kB: {message}");
}

/// Dumps by Debian's packages of 2020.6 and 2025.2 of a peptide in water that each made by itself (`pdb2gmx -ff amber99sb`,
/// `solvate`, `grompp`), without lists of atoms and exclusions. Names and settings differ between releases.
#[test]
fn releases_before_and_after_are_read_the_same() {
    for (dump, build) in [
        (include_str!("fixtures/dump-2020.txt"), "2020.6-Debian-2020.6-2"),
        (include_str!("fixtures/dump-2025.txt"), "2025.2-Debian_2025.2_1"),
    ] {
        let volume = Volume::new(&format!(
            "case \"$*\" in
            *--version*) echo 'GROMACS version:    {build}'; echo 'GPU support:        disabled' ;;
            *'dump -s '*) cat \"$(dirname \"$0\")/../dump\" ;;
            esac"
        ));
        std::fs::write(volume.0.join("dump"), dump).expect("should write a dump");
        let output = volume.run(INSPECT_SCRIPT, &[&volume.file("a.tpr"), &volume.0.join("gromacs-1")]);
        assert!(output.status.success(), "{build}: {}", String::from_utf8_lossy(&output.stderr));
        let system = parse_inspection(&volume.message()).expect("should be a good answer").system;
        assert_eq!(system.gromacs_version.as_deref(), Some(build));
        assert_eq!((system.atoms, system.nsteps, system.init_step), (Some(1042), Some(1000), Some(200)));
        // mdrun chooses nstlist by itself where the buffer follows from a tolerance.
        assert_eq!((system.dt_ps, system.cutoff_nm, system.nstlist), (Some(0.002), Some(1.0), None));
        assert_eq!((system.pme_grid, system.pme_order), (Some(vec![20, 20, 20]), Some(4)));
        assert_eq!(system.constraints, Some(340 * 3 + 12), "{build}");
        assert_eq!(system.bonded_interactions, Some(9 + 36 + 41 + 42), "{build}");
        assert_eq!(system.box_nm, Some(vec![2.2, 2.2, 2.2]));
        assert!(volume.message().contains("update-obstacles=none\n"), "{build}: {}", volume.message());
    }
}

/// Settings and words of the build that the tuner asks for, with two perturbed atoms in each of 340 molecules.
#[test]
fn the_build_and_what_makes_a_step_dear_are_found() {
    let volume = Volume::new(
        "case \"$*\" in
        *--version*) cat <<'VERSION'
GROMACS version:    2025.2
Precision:          mixed
MPI library:        MPI (CUDA-aware)
GPU support:        CUDA
SIMD instructions:  AVX2_256
VERSION
        ;;
        *'dump -s '*) cat \"$(dirname \"$0\")/../dump\" ;;
        esac",
    );
    let atom = |type_b: u32, charge_b: &str| {
        format!(
            "            atom[     0]={{type=  0, typeB=  {type_b}, ptype=    Atom, m= 1.6e+01, q=-8.2e-01, mB= 1.6e+01, \
             qB={charge_b}, resind=    0, atomnumber=  8}}\n"
        )
    };
    let atoms = [atom(1, "-8.2e-01"), atom(0, " 0.0e+00"), atom(0, "-8.2e-01")].concat();
    let dump = include_str!("fixtures/dump-2025.txt");
    let water =
        dump.lines().find(|line| line.trim_start().starts_with("moltype (1):")).expect("should have water");
    let dump = dump.replacen(&format!("{water}\n"), &format!("{water}\n{atoms}"), 1);
    let (name, rest) = dump.split_once("colvars:").expect("should have the module");
    let dump = format!("{name}colvars:{}", rest.replacen("= false", "= true", 1));
    std::fs::write(volume.0.join("dump"), dump).expect("should write a dump");
    let output = volume.run(INSPECT_SCRIPT, &[&volume.file("a.tpr"), &volume.0.join("gromacs-1")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let values = parse_inspection(&volume.message()).expect("should be a good answer").values;
    assert_eq!(values[tuning::MODULES], "colvars");
    assert_eq!(values[tuning::PERTURBED_ATOMS], (2 * 340).to_string());
    assert_eq!(tuning::Build::of(&values).words(), "AVX2_256 mixed MPI CUDA");
    for key in tuning::COST_SETTINGS.iter().filter(|key| !key.starts_with("mts-")) {
        assert!(values.contains_key(*key), "{key}");
    }
    assert!(volume.message().len() < 1000, "the operator copies at most 1 kB");
}

/// The script cannot read the table, so it has its own.
#[test]
fn the_script_knows_every_interaction() {
    for (name, size) in gmx_dump::BONDED {
        let entry = format!("{name}:{size}");
        assert!(
            ["\"", ","].iter().any(|before| INSPECT_SCRIPT.contains(&format!("{before}{entry}"))),
            "{entry}"
        );
    }
}

#[test]
fn what_keeps_the_update_off_a_gpu_is_found() {
    let older = include_str!("fixtures/dump-peptide.txt");
    let newer = include_str!("fixtures/dump-2025.txt");
    for (dump, from, to, obstacle) in [
        (older, "nfreeze:           N", "nfreeze:           Y", "frozen-atoms"),
        (older, "acc:\t           0", "acc:\t           0.5", "acceleration"),
        (older, "deform[    1]={ 0.00000e+00", "deform[    1]={ 1.00000e-03", "deformation"),
        (older, "Water Pol.:\n         nr: 0", "Water Pol.:\n         nr: 5", "shells"),
        (older, "Orient. Rest.:\n         nr: 0", "Orient. Rest.:\n         nr: 3", "orientation-restraints"),
        (older, "Virtual site 3:\n         nr: 0", "Virtual site 3:\n         nr: 8", "virtual-sites"),
        (older, "Constraint:\n         nr: 36", "Constraint:\n         nr: 900", "coupled-constraints"),
        (newer, "Vir. site 3fad:\n         nr: 0", "Vir. site 3fad:\n         nr: 8", "virtual-sites"),
        (newer, "Virt. site 4fd:\n         nr: 0", "Virt. site 4fd:\n         nr: 8", "virtual-sites"),
        (newer, "Virtual site 1:\n         nr: 0", "Virtual site 1:\n         nr: 8", "virtual-sites"),
    ] {
        assert!(dump.contains(from), "{from:?}");
        let volume = Volume::new("case \"$*\" in *'dump -s '*) cat \"$(dirname \"$0\")/../dump\" ;; esac");
        std::fs::write(volume.0.join("dump"), dump.replacen(from, to, 1)).expect("should write a dump");
        let folder = volume.0.join("gromacs-1");
        let output = volume.run(INSPECT_SCRIPT, &[&volume.file("a.tpr"), &folder]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let message = volume.message();
        assert!(message.contains(&format!("update-obstacles={obstacle}\n")), "{obstacle}: {message}");
    }
}

/// What keeps the modular simulator away matters to an expanded ensemble, which has no checkpoints then.
#[test]
fn what_keeps_an_expanded_ensemble_from_its_checkpoints_is_found() {
    let dumps = [include_str!("fixtures/dump-2020.txt"), include_str!("fixtures/dump-2025.txt")];
    let of_peptide = include_str!("fixtures/dump-peptide.txt");
    for dump in dumps.into_iter().chain([of_peptide]) {
        for (from, to, variable, expected) in [
            ("annealing:          No", "annealing:      Single", None, "annealing"),
            ("annealing:          No", "annealing:          No    Periodic", None, "annealing"),
            (
                "interactiveMD                  = false",
                "interactiveMD                  = true",
                None,
                "interactive-md",
            ),
            ("Dis. Rest.:\n         nr: 0", "Dis. Rest.:\n         nr: 3", None, "distance-restraints"),
            ("annealing:", "annealing:", Some(""), "disabled"),
            ("annealing:", "annealing:", None, ""),
        ] {
            assert!(dump.contains(from), "{from:?}");
            for (setting, is_expanded) in [("no", false), ("expanded", true)] {
                let free_energy = format!("free-energy                    = {setting}");
                let changed = dump.replacen(from, to, 1).replacen(
                    "free-energy                    = no",
                    &free_energy,
                    1,
                );
                let set = variable.map(|_| "export GMX_DISABLE_MODULAR_SIMULATOR=; ").unwrap_or_default();
                let volume =
                    Volume::new("case \"$*\" in *'dump -s '*) cat \"$(dirname \"$0\")/../dump\" ;; esac");
                std::fs::write(volume.0.join("dump"), changed).expect("should write a dump");
                let script = format!("{set}{INSPECT_SCRIPT}");
                let output = volume.run(&script, &[&volume.file("a.tpr"), &volume.0.join("gromacs-1")]);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let found = parse_inspection(&volume.message()).expect("should be a good answer").values;
                let found = found.get("legacy-simulator").map(String::as_str).unwrap_or_default();
                assert_eq!(found, if is_expanded { expected } else { "" }, "{to}");
            }
        }
    }
}

#[test]
fn a_folder_of_another_row_is_left_alone() {
    let volume = Volume::new(&dumping());
    let (file, folder) = (volume.file("a.tpr"), volume.0.join("gromacs-1"));
    let inspect = |uuid: &str| volume.run(INSPECT_SCRIPT, &[&file, &folder, Path::new(uuid)]);
    assert!(inspect(UUID).status.success());
    let marked = std::fs::read_to_string(folder.join(".row")).expect("should be marked");
    assert_eq!(marked, format!("{UUID}\n"));
    // Also before there is a checkpoint.
    is_refused(&inspect(OTHER_UUID), &folder);
    // Again, after an interruption or before another submission, with a checkpoint by now.
    volume.file("gromacs-1/state.cpt");
    assert!(inspect(UUID).status.success());
    let before = contents(&folder);
    is_refused(&inspect(OTHER_UUID), &folder);
    assert_eq!(contents(&folder), before, "nothing in it has changed");
    // One that nobody has marked.
    std::fs::remove_file(folder.join(".row")).expect("should be marked");
    let output = inspect(UUID);
    assert_eq!(output.status.code(), Some(9));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a checkpoint that is not this row's"));
}

/// What makes a file writes and removes nothing in the folder of another row before it knows whose it is.
#[test]
fn a_folder_of_another_row_is_left_alone_by_what_makes_a_file() {
    let volume = Volume::new(&format!("CALLS={}\n{}", "$(dirname \"$0\")/calls", making()));
    let (tpr, folder) = (volume.0.join("npt/npt.tpr"), volume.0.join("npt/gromacs-7"));
    std::fs::create_dir_all(&folder).expect("should make a folder");
    for name in ["new.tpr", "mdout.mdp", ".made"] {
        std::fs::write(folder.join(name), "of another row").expect("should write");
    }
    std::fs::write(folder.join(".row"), format!("{OTHER_UUID}\n")).expect("should write");
    std::fs::write(&tpr, "of somebody else").expect("should write");
    let before = contents(&folder);
    is_refused(&volume.run(GROMPP_SCRIPT, &with_grompp(&tpr, &folder)), &folder);
    std::fs::remove_file(&tpr).expect("should be there");
    is_refused(&volume.run(GROMPP_SCRIPT, &with_grompp(&tpr, &folder)), &folder);
    let words = ["2", "3", "4", "1200", UUID].map(Path::new);
    let arguments: Vec<&Path> = [tpr.as_path(), folder.as_path()].into_iter().chain(words).collect();
    is_refused(&volume.run(WATER_SCRIPT, &arguments), &folder);
    assert_eq!(contents(&folder), before);
    assert!(!tpr.exists());
}

#[test]
fn odd_paths_are_only_paths() {
    let volume = Volume::new(&dumping());
    for name in
        ["a b.tpr", "$(touch hacked).tpr", "`id`.tpr", "'; exit 0; '.tpr", "-x.tpr", "\"q\".tpr", "*.tpr"]
    {
        let folder = volume.0.join(format!("out {name}"));
        let output = volume.run(INSPECT_SCRIPT, &[&volume.file(name), &folder]);
        assert!(
            output.status.success() && folder.is_dir(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert!(!Path::new("hacked").exists() && !volume.0.join("hacked").exists());
}

#[test]
fn what_can_not_be_read_fails_with_gromacs_words() {
    let volume = Volume::new("echo 'Fatal error:' >&2; echo 'no luck' >&2; exit 1");
    let folder = volume.0.join("gromacs-1");
    let output = volume.run(INSPECT_SCRIPT, &[&volume.file("a.tpr"), &folder]);
    assert_eq!(output.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no luck"));
    assert_eq!(volume.message(), "", "a failure leaves the message to the log's end");

    let output = volume.run(INSPECT_SCRIPT, &[&volume.0.join("none.tpr"), &folder]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no file"));

    let output = volume.run(INSPECT_SCRIPT, &[&volume.file("a.tpr"), &volume.file("taken")]);
    assert_eq!(output.status.code(), Some(5), "the working directory cannot be made");
}

/// A `gmx` that writes down what it is called with, makes the files it is told to, and keeps the topology and the
/// settings that `grompp` reads.
fn making() -> String {
    format!(
        "echo \"$*\" >>\"$CALLS\"
        case \"$*\" in
        *'grompp '*) cp topol.top grompp.mdp \"$(dirname \"$CALLS\")\" && echo run >new.tpr ;;
        *solvate*) echo cell >cell.gro ;;
        *genconf*) echo box >box.gro ;;
        *--version*) echo 'GROMACS version:    2022.5-Debian' ;;
        *'dump -s '*) cat '{}/tests/fixtures/dump-peptide.txt'; yes '   x[    1]={{ 1.0, 1.0, 1.0}}' ;;
        *) exit 9 ;;
        esac",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn a_box_of_water_is_made_in_its_folder_and_then_described() {
    let volume = Volume::new(&format!("CALLS={}\n{}", "$(dirname \"$0\")/calls", making()));
    let (tpr, folder) = (volume.0.join("calibration-7/water.tpr"), volume.0.join("calibration-7/gromacs-7"));
    let numbers = ["2", "3", "4", "1200", UUID].map(Path::new);
    let arguments: Vec<&Path> = [tpr.as_path(), folder.as_path()].into_iter().chain(numbers).collect();
    // Twice: an attempt that was interrupted is made again.
    for _ in 0..2 {
        let output = volume.run(WATER_SCRIPT, &arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let system = parse_inspection(&volume.message()).expect("should be a good answer").system;
        assert_eq!(system.atoms, Some(1048), "what was made is read");
    }
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("should be there");
    let calls = read(volume.0.join("bin/calls"));
    assert!(calls.contains("genconf -f cell.gro -nbox 2 3 4 -o box.gro"), "{calls}");
    assert!(read(volume.0.join("bin/topol.top")).contains("SOL 5184\n"), "216 times 24");
    assert!(read(volume.0.join("bin/grompp.mdp")).contains("nsteps = 1200\n"));
    assert_eq!(read(tpr), "run\n");
    let left = contents(&folder);
    let names: Vec<&str> = left.keys().map(String::as_str).collect();
    assert_eq!(names, [".row"], "what it was made from is removed");
}

#[test]
fn a_box_that_can_not_be_made_fails_with_gromacs_words() {
    let volume = Volume::new("echo 'Fatal error:' >&2; echo 'Library file spc216.gro not found' >&2; exit 1");
    let (tpr, folder) = (volume.0.join("c/water.tpr"), volume.0.join("c/gromacs-7"));
    let numbers = ["2", "2", "2", "200", UUID].map(Path::new);
    let arguments: Vec<&Path> = [tpr.as_path(), folder.as_path()].into_iter().chain(numbers).collect();
    let output = volume.run(WATER_SCRIPT, &arguments);
    assert_eq!(output.status.code(), Some(8));
    assert!(String::from_utf8_lossy(&output.stderr).contains("spc216.gro not found"));
    assert!(!tpr.exists());
    assert_eq!(volume.message(), "");
}

/// Arguments of the script that makes a row's file: those of the inspection, and words for grompp.
fn with_grompp<'a>(tpr: &'a Path, folder: &'a Path) -> Vec<&'a Path> {
    let none = Path::new("-");
    let own = [Path::new("6"), tpr, folder, Path::new(UUID), none, none, none];
    let words =
        ["-f", "npt.mdp", "-c", "../nvt/gromacs-6/confout.gro", "-p", "a topology.top"].map(Path::new);
    own.into_iter().chain(words).collect()
}

#[test]
fn a_row_makes_its_file_as_long_as_nothing_is_computed() {
    let volume = Volume::new(&format!(
        "case \"$*\" in
        *' grompp '*) echo \"$PWD: $*\" >>\"$(dirname \"$0\")/calls\"
            for word; do case $word in *.mdp | *.tpr) made=$word; [ -f \"$made\" ] || echo $$ >\"$made\" ;; esac; done ;;
        *) {} ;;
        esac",
        dumping()
    ));
    let (tpr, folder) = (volume.0.join("npt/npt.tpr"), volume.0.join("npt/gromacs-7"));
    let arguments = with_grompp(&tpr, &folder);
    let output = volume.run(GROMPP_SCRIPT, &arguments);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("there is no folder"),
        "and none is made for it"
    );

    std::fs::create_dir(volume.0.join("npt")).expect("should make a folder");
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("should be there");
    let mut files = Vec::new();
    // Twice: what was made wrongly is made again.
    for _ in 0..2 {
        let output = volume.run(GROMPP_SCRIPT, &arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let inspection = parse_inspection(&volume.message()).expect("should be a good answer");
        assert_eq!((inspection.system.atoms, inspection.made), (Some(1048), true), "what was made is read");
        assert!(!inspection.values.contains_key("made"), "the file says nothing of it");
        files.push(read(tpr.clone()));
    }
    assert_ne!(files[0], files[1]);
    let calls = read(volume.0.join("bin/calls"));
    let expected = format!(
        "{}/npt: -quiet -nobackup grompp -f npt.mdp -c ../nvt/gromacs-6/confout.gro -p a topology.top -o {folder}/new.tpr -po \
         {folder}/mdout.mdp\n",
        volume.0.display(),
        folder = folder.display()
    );
    assert_eq!(calls, expected.repeat(2));
    assert_eq!(read(folder.join(".row")), format!("{UUID}\n"));

    // Once there is a checkpoint, it is the file that was computed with.
    std::fs::write(folder.join("state.cpt"), "x").expect("should write");
    assert!(volume.run(GROMPP_SCRIPT, &arguments).status.success());
    assert!(!parse_inspection(&volume.message()).expect("should be a good answer").made);
    assert_eq!(read(tpr.clone()), files[1]);
    // Even if a crash has left the one before alone.
    std::fs::rename(folder.join("state.cpt"), folder.join("state_prev.cpt")).expect("should rename");
    assert!(volume.run(GROMPP_SCRIPT, &arguments).status.success());
    assert_eq!(read(volume.0.join("bin/calls")), calls);
}

#[test]
fn a_file_that_somebody_else_made_is_not_written_over() {
    let volume = Volume::new(&dumping());
    let (tpr, folder) = (volume.file("npt.tpr"), volume.0.join("gromacs-7"));
    let output = volume.run(GROMPP_SCRIPT, &with_grompp(&tpr, &folder));
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("npt.tpr is there, and grompp would write over it; move it away"), "{said}");
}

/// `gmx grompp` writes another file each time, and says what it was asked to read.
const MAKING: &str = "case \"$*\" in
    *grompp*) echo \"$*\" >>\"$(dirname \"$0\")/calls\"
        while [ \"$#\" -gt 0 ]; do
            case $1 in -o) date +%N >\"$2\"; echo \"$$\" >>\"$2\" ;; -po) : >\"$2\" ;; esac
            shift
        done ;;
    *) exit 9 ;;
    esac";

/// Two rows may name one file, and begin in the same moment: only the first one makes it.
#[test]
fn of_two_rows_that_make_one_file_at_once_the_second_says_that_it_is_there() {
    let volume = Volume::new(MAKING);
    let (tpr, first, second) =
        (volume.0.join("npt.tpr"), volume.0.join("gromacs-7"), volume.0.join("gromacs-8"));
    // The second one has looked before the first one was done.
    std::fs::create_dir(&second).expect("should make a folder");
    std::fs::write(second.join(".made"), "").expect("should write");
    std::fs::write(second.join("mdout.mdp"), "").expect("should write");
    volume.run(GROMPP_SCRIPT, &with_grompp(&tpr, &first));
    let made = std::fs::read(&tpr).expect("it should be made");
    let output = volume.run(GROMPP_SCRIPT, &with_grompp(&tpr, &second));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("npt.tpr is there, and grompp would write over it"), "{said}");
    assert_eq!(std::fs::read(&tpr).expect("it should stay"), made);
    assert!(!second.join("new.tpr").exists(), "nothing is left");
    // The first one makes it again, as often as it likes.
    volume.run(GROMPP_SCRIPT, &with_grompp(&tpr, &first));
    assert_ne!(std::fs::read(&tpr).expect("it should be made again"), made);
}

/// What a row computed has the number of the last start in its name where mdrun does not append, and nobody knows that when
/// the chain is written down.
#[test]
fn a_chain_finds_what_the_row_before_wrote_in_parts() {
    let volume = Volume::new(MAKING);
    let before = volume.0.join("nvt/gromacs-6");
    std::fs::create_dir_all(&before).expect("should make a folder");
    std::fs::create_dir(volume.0.join("npt")).expect("should make a folder");
    let (tpr, folder) = (volume.0.join("npt/npt.tpr"), volume.0.join("npt/gromacs-7"));
    let asked = || {
        volume.run(GROMPP_SCRIPT, &with_grompp(&tpr, &folder));
        let calls = std::fs::read_to_string(volume.0.join("bin/calls")).expect("should be called");
        let last = calls.lines().last().unwrap_or_default().to_owned();
        last.split_once("-c ").and_then(|(_, rest)| rest.split_once(" -p")).map(|(path, _)| path.to_owned())
    };
    let mut seconds = 1_800_000_000;
    let mut write = |name: &str| {
        let path = before.join(name);
        let file = std::fs::File::create(&path).expect("should write");
        seconds += 10;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(time).expect("should set the time");
    };
    for (written, found) in [
        (None, "confout.gro"),
        (Some("confout.part0002.gro"), "confout.part0002.gro"),
        // It was extended, and interrupted meanwhile.
        (Some("confout.part0010.gro"), "confout.part0010.gro"),
        // The last one appended.
        (Some("confout.gro"), "confout.gro"),
        (Some("confout.part0011.gro"), "confout.part0011.gro"),
    ] {
        if let Some(name) = written {
            write(name);
        }
        assert_eq!(asked(), Some(format!("../nvt/gromacs-6/{found}")), "{written:?}");
    }
}

#[test]
fn what_grompp_refuses_is_said_in_its_words() {
    let volume = Volume::new("echo 'Fatal error:' >&2; echo 'Too many warnings (1).' >&2; exit 1");
    let (tpr, folder) = (volume.0.join("npt.tpr"), volume.0.join("gromacs-7"));
    let output = volume.run(GROMPP_SCRIPT, &with_grompp(&tpr, &folder));
    assert_eq!(output.status.code(), Some(8));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Too many warnings"));
    assert!(!tpr.exists());
}

#[test]
fn a_checkpoint_tells_its_step() {
    let volume = Volume::new("case \"$*\" in *'dump -cp '*) echo 'step = 4000'; yes 'x[0]={1,2,3}' ;; esac");
    let output = volume.run(VERIFY_SCRIPT, &[&volume.file("state.cpt")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(parse_verification(&volume.message()).map(|found| found.step), Ok(4000));
    let output = volume.run(VERIFY_SCRIPT, &[&volume.0.join("none.cpt")]);
    assert_eq!(output.status.code(), Some(4));
    let empty = Volume::new("exit 0");
    assert_eq!(empty.run(VERIFY_SCRIPT, &[&empty.file("state.cpt")]).status.code(), Some(7));
}

/// `flock` stands for the file system: where locks are not implemented it fails, whatever the file.
#[test]
fn whether_the_file_system_can_lock_is_tried() {
    for (flock, expected, append) in [
        ("exec \"$3\"", "locks=yes\n", None),
        ("echo 'flock: 3: Function not implemented' >&2; exit 71", "locks=no\n", Some(false)),
    ] {
        let volume = Volume::new(&dumping());
        let program = volume.0.join("bin/flock");
        std::fs::write(&program, format!("#!/bin/sh\n{flock}\n")).expect("should write flock");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("should set");
        let folder = volume.0.join("gromacs-1");
        let output = volume.run(INSPECT_SCRIPT, &[&volume.file("a.tpr"), &folder]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(volume.message().contains(expected), "{}", volume.message());
        assert_eq!(parse_inspection(&volume.message()).expect("should be read").append, append);
        assert_eq!(std::fs::read_dir(&folder).expect("should be a folder").count(), 0, "nothing is left");
    }
    // Here locks work.
    let volume = Volume::new(&dumping());
    let output = volume.run(INSPECT_SCRIPT, &[&volume.file("a.tpr"), &volume.0.join("gromacs-1")]);
    assert!(output.status.success() && volume.message().contains("locks=yes\n"), "{}", volume.message());
}

#[test]
fn a_file_that_changes_has_another_checksum() {
    let volume = Volume::new(&dumping());
    let folder = volume.0.join("gromacs-1");
    let file = volume.file("a.tpr");
    let checksum = || {
        volume.run(INSPECT_SCRIPT, &[&file, &folder]);
        parse_inspection(&volume.message()).expect("should be read").values["tpr-checksum"].clone()
    };
    let before = checksum();
    assert_eq!(before, checksum());
    std::fs::write(&file, "y").expect("should write");
    assert_ne!(before, checksum());
}

/// A shell takes a file without a first line of that kind for its own, so it stands for a program here.
#[test]
fn a_script_in_the_place_of_the_program_is_told() {
    let volume = Volume::new(&dumping());
    let inspect = || volume.run(INSPECT_SCRIPT, &[&volume.0.join("a.tpr"), &volume.0.join("gromacs-1")]);
    volume.file("a.tpr");
    assert!(inspect().status.success());
    assert!(volume.message().contains("\nlauncher=script\nlocks="), "{}", volume.message());
    let program = volume.0.join("bin/gmx");
    let text = std::fs::read_to_string(&program).expect("should be there");
    std::fs::write(&program, text.trim_start_matches("#!/bin/sh\n")).expect("should write gmx");
    assert!(inspect().status.success());
    assert!(!volume.message().contains("launcher"), "{}", volume.message());
    assert!(volume.message().contains("\nlocks="), "{}", volume.message());
}

#[test]
fn the_working_directory_of_a_command_is_made_and_its_folder_is_not() {
    let volume = Volume::new("exit 9");
    let (folder, uuid) = (volume.0.join("two words"), Path::new(UUID));
    let work = folder.join("gromacs-7");
    let prepare = |uuid| volume.run(PREPARE_SCRIPT, &[&folder, &work, uuid]);
    let output = prepare(uuid);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let sentence = format!("there is no folder {} on the volume; make it, and retry\n", folder.display());
    assert_eq!(output.status.code(), Some(4));
    assert!(said.ends_with(&sentence) && !folder.exists(), "{said}");
    assert!(parse_preparation(&said).is_err());

    std::fs::create_dir(&folder).expect("should make a folder");
    // A second time, too: what an attempt has left stays.
    for _ in 0..2 {
        let output = prepare(uuid);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(volume.message(), String::from_utf8_lossy(&output.stdout), "message and log say the same");
        parse_preparation(&volume.message()).expect("should be a good answer");
        assert_eq!(contents(&work)[".row"], format!("{UUID}\n"));
    }
    is_refused(&prepare(Path::new(OTHER_UUID)), &work);
}
