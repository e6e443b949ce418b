//! Rows and the ScavengerJobs that are made of them.

use scavenger_schema::simulation::Engine;
use scavenger_schema::supervisor::Recipients;
use sqlx::types::Json;

use super::*;
use crate::fixtures::{calibration, command, inspected, ladder, manifest_settings, row, terms};

#[test]
fn mdrun_is_process_one_with_an_explicit_layout() {
    let job = simulation_job(&row(), &ladder()[0], &manifest_settings(), &terms());
    assert_eq!(job.metadata.name.as_deref(), Some("gromacs-7-1"));
    assert_eq!(job.spec.command[..2], ["sh", "-c"], "which makes room for mdrun");
    assert_eq!(job.spec.command[2].replace("$$", "$"), START_SCRIPT);
    assert_eq!(job.spec.command[3..], ["start", "gmx", "mdrun"]);
    assert_eq!(
        job.spec.args.join(" "),
        "-s /data/water/topol.tpr -cpi state.cpt -cpo state.cpt -cpt 9.0000 \
         -ntmpi 1 -ntomp 2 -npme 0 -pin off -nb cpu -v -stepout 181"
    );
    assert_eq!(job.spec.working_dir.as_deref(), Some("/data/water/gromacs-7"));
    assert_eq!(job.spec.resources.requests["cpu"].0, "2");
    assert_eq!(job.spec.resources.requests["memory"].0, "300Mi");
    assert_eq!(job.spec.image, "gromacs:test");
}

#[test]
fn the_threads_of_the_image_do_not_contradict_those_of_the_layout() {
    for rung in ladder() {
        let job = simulation_job(&row(), &rung, &manifest_settings(), &terms());
        let found: Vec<_> =
            job.spec.env.iter().map(|env| (env.name.as_str(), env.value.as_deref())).collect();
        assert_eq!(found, [("OMP_NUM_THREADS", Some(rung.layout.ntomp.to_string().as_str()))]);
    }
}

#[test]
fn the_image_is_the_one_that_read_the_file() {
    let sum = "sha256:0123";
    for (requested, image_id, pinned) in [
        ("gromacs:test", "docker.io/library/gromacs@sha256:0123", "gromacs@sha256:0123"),
        ("lab/gromacs:1", "docker.io/lab/gromacs@sha256:0123", "lab/gromacs@sha256:0123"),
        ("r.example:5000/g:1", "r.example:5000/g@sha256:0123", "r.example:5000/g@sha256:0123"),
        (
            "r.example:5000/g",
            "docker-pullable://r.example:5000/g@sha256:0123",
            "r.example:5000/g@sha256:0123",
        ),
        ("gromacs:test", "docker.io/library/import-2026-11-22@sha256:0123", "gromacs:test"),
        ("gromacs:test", sum, "gromacs:test"),
        ("gromacs:test", "", "gromacs:test"),
    ] {
        assert_eq!(pinned_image(requested, Some(image_id)), pinned, "{image_id}");
    }
    assert_eq!(pinned_image("gromacs:test", None), "gromacs:test");
    let mut row = row();
    row.pinned_image = Some(format!("gromacs@{sum}"));
    let settings = manifest_settings();
    let image = |job: ScavengerJob| job.spec.image;
    assert_eq!(image(simulation_job(&row, &ladder()[0], &settings, &terms())), "gromacs@sha256:0123");
    assert_eq!(image(probe_job(&row, Probe::Verification, &settings, &terms())), "gromacs@sha256:0123");
    assert_eq!(
        image(probe_job(&row, Probe::Inspection, &settings, &terms())),
        "gromacs:test",
        "it looks again"
    );
}

#[test]
fn without_locks_each_restart_writes_new_files() {
    let args = |append| {
        simulation_job(&GromacsToTune { append, ..row() }, &ladder()[0], &manifest_settings(), &terms())
            .spec
            .args
    };
    assert!(args(Some(false)).contains(&"-noappend".to_owned()));
    for append in [None, Some(true)] {
        assert!(!args(append).iter().any(|arg| arg.contains("append")), "the default of mdrun");
    }
}

#[test]
fn a_folder_of_a_claim_has_one_label_for_everybody() {
    let label = |row: &GromacsToTune| {
        let job = simulation_job(row, &ladder()[0], &manifest_settings(), &terms());
        job.metadata.labels.unwrap_or_default().remove(names::LABEL_FOLDER).expect("it should be labelled")
    };
    let first = row();
    let other_claim = GromacsToTune { persistent_volume_claim: "other".to_owned(), ..row() };
    let other_row = GromacsToTune { id: 8, ..row() };
    assert_eq!(label(&first), label(&row()));
    assert_eq!(label(&first).len(), 32);
    assert_ne!(label(&first), label(&other_claim));
    assert_ne!(label(&first), label(&other_row));
    let probe = probe_job(&first, Probe::Inspection, &manifest_settings(), &terms());
    assert!(!probe.metadata.labels.unwrap_or_default().contains_key(names::LABEL_FOLDER));
}

#[test]
fn what_is_made_holds_its_name_until_its_pods_are_gone() {
    let simulation = simulation_job(&row(), &ladder()[0], &manifest_settings(), &terms());
    let probe = probe_job(&row(), Probe::Inspection, &manifest_settings(), &terms());
    for job in [simulation, probe] {
        assert_eq!(job.metadata.finalizers.unwrap_or_default(), [names::FINALIZER]);
    }
}

#[test]
fn strings_of_the_user_reach_neither_a_shell_nor_kubernetes_variables() {
    let mut row = row();
    row.tpr_path = "a $(SCAVENGER_HOSTS) `id` $HOME/'; rm -rf x #.tpr".to_owned();
    let job = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms());
    assert_eq!(job.spec.command[2], without_comments(INSPECT_SCRIPT).replace('$', "$$"));
    assert_eq!(job.spec.args[0], "inspect");
    assert_eq!(job.spec.args[1], "/data/a $$(SCAVENGER_HOSTS) `id` $$HOME/'; rm -rf x #.tpr");
    assert_eq!(job.spec.args[2], "/data/a $$(SCAVENGER_HOSTS) `id` $$HOME/gromacs-7");
    // workingDir is not expanded by Kubernetes.
    let mdrun = simulation_job(&row, &ladder()[0], &manifest_settings(), &terms());
    assert_eq!(mdrun.spec.working_dir.as_deref(), Some("/data/a $(SCAVENGER_HOSTS) `id` $HOME/gromacs-7"));
}

/// The longest argument that the API server takes has 16,384 bytes.
#[test]
fn every_script_of_a_probe_fits_into_an_argument() {
    let options = ["-f", "a.mdp", "-c", "a.gro", "-p", "a.top"].map(ToOwned::to_owned).to_vec();
    let several = ["sim0", "sim1"].map(ToOwned::to_owned).to_vec();
    for row in [
        row(),
        calibration(),
        GromacsToTune { grompp_options: options, ..row() },
        GromacsToTune { multidir: several, ..row() },
    ] {
        for probe in [Probe::Inspection, Probe::Verification] {
            let spec = probe_job(&row, probe, &manifest_settings(), &terms()).spec;
            for words in spec.command.iter().chain(&spec.args) {
                assert!(words.len() < 16384 && !words.contains("\n# "), "{}: {words}", words.len());
            }
        }
    }
    // What a script writes into a file stays.
    assert!(without_comments(WATER_SCRIPT).contains("#include \"oplsaa.ff/spce.itp\""));
}

/// A build for library MPI, or for none, is one rank and must not be told how many.
#[test]
fn an_image_without_thread_mpi_gets_no_number_of_ranks() {
    let built = |mpi: &str| {
        let found = [("mpi".to_owned(), mpi.to_owned())];
        GromacsToTune { inspected: Some(sqlx::types::Json(found.into())), ..row() }
    };
    let args = |row: &GromacsToTune| {
        simulation_job(row, &ladder()[0], &manifest_settings(), &terms()).spec.args.join(" ")
    };
    for mpi in ["MPI", "none"] {
        assert!(args(&built(mpi)).contains("-cpt 9.0000 -ntomp 2 -npme 0"), "{}", args(&built(mpi)));
        assert!(runs_on_one_rank(&built(mpi)));
    }
    for mpi in ["thread_mpi", ""] {
        assert!(args(&built(mpi)).contains("-ntmpi 1 -ntomp 2"), "{}", args(&built(mpi)));
        assert!(!runs_on_one_rank(&built(mpi)));
    }
    let plumed = ["-plumed", "plumed.dat"].map(ToOwned::to_owned).to_vec();
    assert!(runs_on_one_rank(&GromacsToTune { mdrun_options: plumed, ..built("thread_mpi") }));
}

#[test]
fn a_calibration_runs_one_layout_once_through_on_its_kind_of_node() {
    let row = calibration();
    let job = simulation_job(&row, &ladder()[1], &manifest_settings(), &terms());
    assert_eq!(job.spec.command, ["gmx", "-nobackup", "mdrun"]);
    assert_eq!(
        job.spec.args.join(" "),
        "-s /data/calibration-7/water.tpr -cpt -1 -ntmpi 1 -ntomp 1 -npme 0 -pin off -nb cpu \
         -notunepme -noconfout -resetstep 600 -v -stepout 104"
    );
    assert_eq!(job.spec.working_dir.as_deref(), Some("/data/calibration-7/gromacs-7"));
    assert_eq!(job.spec.node_selector["kubernetes.io/arch"], "amd64");
    assert!(job.spec.checkpoint.is_none(), "it has none to go on from");
    let probe = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms());
    assert_eq!(
        probe.spec.args,
        [
            "water",
            "/data/calibration-7/water.tpr",
            "/data/calibration-7/gromacs-7",
            "2",
            "3",
            "3",
            "1200",
            row.uuid.as_str()
        ]
    );
    assert_eq!(probe.spec.resources.requests["memory"].0, "325Mi");
    assert_eq!(probe.spec.node_selector, job.spec.node_selector);
    assert!(probe.spec.command[2].contains("genconf") && probe.spec.command[2].contains("gmx -quiet dump"));
    assert!(probe.spec.command[2].len() < 16384, "the API server takes no longer one");
}

#[test]
fn a_row_that_starts_from_a_checkpoint_writes_new_parts() {
    let path = Some("old run/$(X).cpt".to_owned());
    let row = GromacsToTune { checkpoint_path: path, ..row() };
    let probe = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms());
    assert_eq!(probe.spec.args[4..], ["-", "/data/old run/$$(X).cpt", "-"]);
    let mdrun = simulation_job(&row, &ladder()[0], &manifest_settings(), &terms());
    assert!(mdrun.spec.args.contains(&"-noappend".to_owned()), "{:?}", mdrun.spec.args);
    let extended = GromacsToTune { extended_nsteps: Some(9000), ..row };
    let probe = probe_job(&extended, Probe::Inspection, &manifest_settings(), &terms());
    assert_eq!(probe.spec.args[4..], ["9000", "/data/old run/$$(X).cpt", "-"]);
}

#[test]
fn a_row_that_is_extended_runs_a_copy_of_its_file() {
    let row = GromacsToTune { extended_nsteps: Some(9000), ..row() };
    let probe = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms());
    assert_eq!(
        probe.spec.args[1..],
        ["/data/water/topol.tpr", "/data/water/gromacs-7", row.uuid.as_str(), "9000", "-", "-"]
    );
    let mdrun = simulation_job(&row, &ladder()[0], &manifest_settings(), &terms());
    assert_eq!(mdrun.spec.args[..4], ["-s", "/data/water/gromacs-7/extended.tpr", "-cpi", "state.cpt"]);
}

#[test]
fn a_row_that_makes_its_file_has_words_for_grompp() {
    let words = ["-f", "npt.mdp", "-c", "gromacs-{after}/$(X).gro", "-p", "topol.top"];
    let row =
        GromacsToTune { grompp_options: words.map(ToOwned::to_owned).to_vec(), after: vec![6], ..row() };
    let probe = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms());
    assert_eq!(probe.spec.command[2].replace("$$", "$"), without_comments(GROMPP_SCRIPT));
    assert_eq!(
        probe.spec.args,
        [
            "inspect",
            "6",
            "/data/water/topol.tpr",
            "/data/water/gromacs-7",
            row.uuid.as_str(),
            "-",
            "-",
            "-",
            "-f",
            "npt.mdp",
            "-c",
            "gromacs-6/$$(X).gro",
            "-p",
            "topol.top"
        ]
    );
    let cpu = |max_cpu_millicores| {
        let row = GromacsToTune { max_cpu_millicores, ..row.clone() };
        let probe = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms());
        probe.spec.resources.requests["cpu"].0.clone()
    };
    assert_eq!((cpu(None), cpu(Some(8000)), cpu(Some(300))), ("500m".into(), "500m".into(), "300m".into()));
    assert_eq!(probe.spec.resources.requests["memory"].0, "320Mi");
}

#[test]
fn everything_of_a_row_runs_as_its_tenants_service_account() {
    let mut row = row();
    row.service_account = Some("simulations".to_owned());
    let settings = manifest_settings();
    for job in [
        simulation_job(&row, &ladder()[0], &settings, &terms()),
        probe_job(&row, Probe::Inspection, &settings, &terms()),
        probe_job(&row, Probe::Verification, &settings, &terms()),
    ] {
        assert_eq!(job.spec.service_account_name.as_deref(), Some("simulations"));
    }
}

#[test]
fn a_file_in_the_root_of_the_volume_has_its_folder_there() {
    let mut row = row();
    row.tpr_path = "topol.tpr".to_owned();
    let job = simulation_job(&row, &ladder()[0], &manifest_settings(), &terms());
    assert_eq!(job.spec.working_dir.as_deref(), Some("/data/gromacs-7"));
}

#[test]
fn a_configuration_is_recognised_by_its_number_and_requests() {
    let (row, ladder) = (row(), ladder());
    for rung in &ladder {
        let job = simulation_job(&row, rung, &manifest_settings(), &terms());
        let numbers = Configurations::of(&job);
        assert_eq!(numbers.rung(1, &ladder, &job.spec.resources.requests), Some(rung.rung));
    }
    let requests = |rung: usize| {
        simulation_job(&row, &ladder[rung], &manifest_settings(), &terms()).spec.resources.requests
    };
    // Replaced in generation 3; 2 and 4 were somebody's who suspended it.
    let numbers = Configurations::new(1).and(3, 2);
    assert_eq!(numbers.text(), "1=1,3=2");
    assert_eq!(numbers.rung(2, &ladder, &requests(0)), Some(1));
    assert_eq!(numbers.rung(4, &ladder, &requests(1)), Some(2));
    assert_eq!(numbers.rung(4, &ladder, &requests(0)), None, "somebody gave it other requests");
    let mut same = requests(0);
    same.insert("cpu".to_owned(), "2000m".into());
    assert_eq!(numbers.rung(1, &ladder, &same), Some(1), "amounts, not spellings");
    assert_eq!(Configurations::default().rung(1, &ladder, &requests(0)), None);
}

#[test]
fn the_last_checkpoint_has_the_time_it_needs() {
    let (mut row, mut rung) = (row(), ladder().remove(2));
    // 22 ns/day at 2 fs are 127 steps/s: 200 steps take 1.6 s.
    row.system.gromacs_version = Some("2025.2-Debian_2025.2_1".to_owned());
    assert_eq!(needed_grace_seconds(&row, &rung), 7);
    // A build that is three times as slow as was predicted.
    rung.ns_per_day_p10 = 22.0 / 20.0;
    assert_eq!(needed_grace_seconds(&row, &rung), 37, "200 steps at the slow end of the interval");
    row.status.private.speed_ratio = Some(0.25);
    assert_eq!(needed_grace_seconds(&row, &rung), 13, "once measured, at a quarter of what was predicted");
    row.status.private.speed_ratio = None;
    let grace = |row: &GromacsToTune, rung: &LadderRung, longest| {
        let terms = Terms { longest_grace: longest, ..terms() };
        simulation_job(row, rung, &manifest_settings(), &terms).spec.termination_grace_period_seconds
    };
    assert_eq!((grace(&row, &rung, 60), grace(&row, &rung, 30), grace(&row, &rung, 600)), (60, 30, 60));
    // 0.05 ns/day: 3.5 s for a step, 691 s for 200 of them; 10 million atoms take 48 s more to write.
    rung.ns_per_day_p10 = 0.05;
    row.system.atoms = Some(10_000_000);
    assert_eq!(needed_grace_seconds(&row, &rung), 745);
    assert_eq!(grace(&row, &rung, 900), 745);
    // Two pair searches are 80 steps on CPU cores, whatever fewer the file asks for, and 200 with a GPU.
    row.system.gromacs_version = Some("2022.5-Debian_2022.5_2".to_owned());
    row.system.nstlist = Some(10);
    assert_eq!(needed_grace_seconds(&row, &rung), 330);
    rung.layout.nb = Device::Gpu;
    assert_eq!(needed_grace_seconds(&row, &rung), 745);
    row.system.nstlist = Some(200);
    assert!(needed_grace_seconds(&row, &rung) > 1400);
    row.mdrun_options = ["-nstlist", "40"].map(ToOwned::to_owned).to_vec();
    assert_eq!(needed_grace_seconds(&row, &rung), 330, "the row's own option counts, not the file");
    row.mdrun_options.clear();
    rung.ns_per_day_p10 = 0.0;
    assert!(needed_grace_seconds(&row, &rung) > 1_000_000);
}

#[test]
fn the_checkpoint_that_is_watched_is_the_one_that_mdrun_writes() {
    let spec = |row: &GromacsToTune| simulation_job(row, &ladder()[0], &manifest_settings(), &terms()).spec;
    let mut row = row();
    for (seconds, minutes) in [(60, 0.9), (600, 9.0), (7200, 108.0)] {
        row.interruption_after_seconds = seconds;
        let spec = spec(&row);
        let checkpoint = spec.checkpoint.expect("it should promise checkpoints");
        let behind = |flag: &str| {
            let at = spec.args.iter().position(|arg| arg == flag).expect("the flag should be there");
            spec.args[at + 1].clone()
        };
        let folder = spec.working_dir.clone().expect("it should have a folder");
        assert_eq!(checkpoint.path, Some(format!("{folder}/{}", behind("-cpo"))));
        assert_eq!(behind("-cpi"), behind("-cpo"));
        assert_eq!(behind("-cpt").parse(), Ok(minutes));
        let interval: Duration = checkpoint.interval.expect("it should promise an interval").into();
        assert!(interval.as_secs_f64() > minutes * 60.0, "mdrun writes at the first pair search after that");
        assert!(interval <= Duration::from(spec.interruption_after), "the definition demands it");
    }
}

/// The path is a glob on a claim, with at most 512 characters, as the definition demands.
#[test]
fn a_folder_with_any_name_is_watched_alone() {
    let path = |tpr_path: String| {
        let row = GromacsToTune { tpr_path, ..row() };
        simulation_job(&row, &ladder()[0], &manifest_settings(), &terms()).spec.checkpoint.unwrap().path
    };
    assert_eq!(
        path("T=[310]/a*b?/$x.tpr".to_owned()).as_deref(),
        Some("/data/T=[[]310[]]/a[*]b[?]/gromacs-7/state.cpt")
    );
    assert_eq!(path("a.tpr".to_owned()).as_deref(), Some("/data/gromacs-7/state.cpt"));
    let longest = 512 - "/data//gromacs-7/state.cpt".len();
    assert_eq!(path(format!("{}/a.tpr", "ü".repeat(longest))).map(|path| path.chars().count()), Some(512));
    assert_eq!(path(format!("{}/a.tpr", "x".repeat(longest + 1))), None);
    assert_eq!(path(format!("{}/a.tpr", "*".repeat(longest / 2))), None);
}

#[test]
fn everything_has_a_command_and_only_a_simulation_a_supervisor() {
    for row in [row(), calibration()] {
        let settings = manifest_settings();
        let simulation = simulation_job(&row, &ladder()[0], &settings, &terms()).spec;
        assert!(!simulation.command.is_empty() && simulation.supervisor.is_none(), "the pool decides");
        for probe in [Probe::Inspection, Probe::Verification] {
            let spec = probe_job(&row, probe, &settings, &terms()).spec;
            assert!(!spec.command.is_empty() && spec.checkpoint.is_none());
            assert_eq!(spec.supervisor.and_then(|supervisor| supervisor.enabled), Some(false));
        }
    }
}

#[test]
fn sigterm_reaches_mdrun_behind_a_script_only_under_a_supervisor() {
    let mut row = row();
    let saves = |row: &GromacsToTune, supervised: bool| {
        let terms = Terms { supervised, ..terms() };
        let spec = simulation_job(row, &ladder()[0], &manifest_settings(), &terms).spec;
        spec.checkpoint.expect("it should promise checkpoints").saves_on_sigterm
    };
    assert_eq!([false, true].map(|supervised| saves(&row, supervised)), [true, true]);
    let values = BTreeMap::from([("launcher".to_owned(), "script".to_owned())]);
    row.inspected = Some(sqlx::types::Json(values));
    assert_eq!([false, true].map(|supervised| saves(&row, supervised)), [false, true]);
}

#[test]
fn only_what_has_gpus_has_their_runtime_class() {
    let mut settings = manifest_settings();
    let mut rung = ladder().remove(0);
    let class = |rung: &LadderRung, settings: &ManifestSettings| {
        simulation_job(&row(), rung, settings, &terms()).spec.runtime_class_name
    };
    rung.gpus = 1;
    assert_eq!(class(&rung, &settings), None, "the cluster's default");
    settings.gpu_runtime_class = Some("nvidia".to_owned());
    assert_eq!(class(&rung, &settings).as_deref(), Some("nvidia"));
    rung.gpus = 0;
    assert_eq!(class(&rung, &settings), None);
    assert_eq!(probe_job(&row(), Probe::Inspection, &settings, &terms()).spec.runtime_class_name, None);
}

#[test]
fn further_options_follow_those_of_the_submitter_and_their_files_are_looked_for() {
    let mut row = row();
    let options = ["-dlb", "yes", "-plumed", "meta/$(id).dat"];
    row.mdrun_options = options.map(ToOwned::to_owned).to_vec();
    let spec = simulation_job(&row, &ladder()[0], &manifest_settings(), &terms()).spec;
    assert_eq!(
        spec.args[spec.args.len() - 7..].join(" "),
        "-v -stepout 181 -dlb yes -plumed /data/meta/$$(id).dat"
    );
    let probe = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms()).spec;
    assert_eq!(probe.args[4..].join(" "), "- - - /data/meta/$$(id).dat");
    // What is none of the list reaches no command line.
    row.mdrun_options = ["-maxh", "1"].map(ToOwned::to_owned).to_vec();
    let spec = simulation_job(&row, &ladder()[0], &manifest_settings(), &terms()).spec;
    assert!(!spec.args.iter().any(|argument| argument == "-maxh"), "{:?}", spec.args);
}

#[test]
fn a_row_for_one_kind_of_nodes_is_read_and_runs_there() {
    let mut row = row();
    row.node_labels.insert("kubernetes.io/arch".to_owned(), "arm64".to_owned());
    let simulation = simulation_job(&row, &ladder()[0], &manifest_settings(), &terms());
    for job in [simulation, probe_job(&row, Probe::Inspection, &manifest_settings(), &terms())] {
        assert_eq!(job.spec.node_selector, row.node_labels.0);
    }
}

#[test]
fn every_taint_that_the_pool_tolerates_is_tolerated() {
    let of_pool = |keys: Vec<String>| {
        let terms = Terms { tolerated_taints: keys, ..terms() };
        let simulation = simulation_job(&row(), &ladder()[0], &manifest_settings(), &terms);
        let probes = [Probe::Inspection, Probe::Verification];
        let probes = probes.map(|probe| probe_job(&row(), probe, &manifest_settings(), &terms));
        for probe in probes {
            assert_eq!(probe.spec.tolerations, simulation.spec.tolerations, "they run on the same nodes");
        }
        serde_json::to_value(simulation.spec.tolerations).expect("should be JSON")
    };
    assert_eq!(of_pool(Vec::new()), serde_json::json!([]));
    // A toleration without a key would be one for every taint, which the pool's policy refuses.
    let keys = ["nvidia.com/gpu", "", "spot"].map(ToOwned::to_owned).to_vec();
    let exists = |key: &str| serde_json::json!({ "key": key, "operator": "Exists" });
    assert_eq!(of_pool(keys), serde_json::json!([exists("nvidia.com/gpu"), exists("spot")]));
    let many = of_pool((0..20).map(|number| format!("taint-{number}")).collect());
    assert_eq!(many.as_array().map(Vec::len), Some(16), "a ScavengerJob takes no more");
}

#[test]
fn threads_are_pinned_where_a_row_says_so_and_the_cores_are_whole() {
    let pinned = |row: &GromacsToTune, cpu_millicores: i32| {
        let rung = LadderRung { cpu_millicores, ..ladder()[0].clone() };
        let args = simulation_job(row, &rung, &manifest_settings(), &terms()).spec.args.join(" ");
        assert_eq!(args.matches("-pin ").count(), 1, "{args}");
        args.contains("-pin on")
    };
    assert!(!pinned(&row(), 2000), "not unless it is said");
    let mdrun_options = ["-pin", "on"].map(ToOwned::to_owned).to_vec();
    let row = GromacsToTune { mdrun_options: mdrun_options.clone(), ..row() };
    assert!(pinned(&row, 2000) && !pinned(&row, 500));
    assert!(!pinned(&GromacsToTune { mdrun_options, ..of_two() }, 2000), "all would be on the same cores");
}

#[test]
fn a_restart_costs_what_was_measured() {
    let promised = |restart_seconds| {
        let terms = Terms { restart_seconds, ..terms() };
        let spec = simulation_job(&row(), &ladder()[0], &manifest_settings(), &terms).spec;
        spec.checkpoint.expect("should promise one").restart_seconds
    };
    assert_eq!((promised(None), promised(Some(47))), (30, 47));
    assert_eq!(promised(Some(2)), 10, "mdrun may not have come to its first step by then");
}

fn of_two() -> GromacsToTune {
    GromacsToTune { multidir: ["sim0", "a $(b)"].map(ToOwned::to_owned).to_vec(), ..row() }
}

#[test]
fn several_simulations_are_run_by_one_script() {
    let rung =
        LadderRung { cpu_millicores: 4000, gpus: 1, hours_to_finish: Some(10.0), ..ladder()[0].clone() };
    let job = simulation_job(&of_two(), &rung, &manifest_settings(), &terms());
    assert_eq!(job.spec.command[..2], ["sh", "-c"]);
    assert_eq!(job.spec.command[2].replace("$$", "$"), multidir::RUN_SCRIPT);
    assert_eq!(
        job.spec.args.join(" "),
        "/data/water/gromacs-7 /data/water topol.tpr 4000 120 1 0 2 sim0 a $$(b) gmx mdrun -cpi state.cpt -cpo state.cpt \
         -cpt 9.0000 -ntmpi 1 -ntomp 2 -npme 0 -pin off -nb cpu -v -stepout 27083"
    );
    assert_eq!(job.spec.resources.requests["cpu"].0, "4");
    let checkpoint = job.spec.checkpoint.expect("should promise one");
    assert_eq!(checkpoint.path.as_deref(), Some("/data/water/gromacs-7/.oldest-checkpoint"));
    let extended = GromacsToTune { extended_nsteps: Some(9000), ..of_two() };
    let args = simulation_job(&extended, &rung, &manifest_settings(), &terms()).spec.args;
    assert_eq!(args[..3], ["/data/water/gromacs-7", "/data/water/gromacs-7", "extended.tpr"]);
    let (one, two) = (needed_grace_seconds(&row(), &rung), needed_grace_seconds(&of_two(), &rung));
    assert!(two > one, "all write their last checkpoints: {one} s and {two} s");
}

fn with_library_mpi(row: GromacsToTune) -> GromacsToTune {
    GromacsToTune { engine: Engine::Mpi, ..row }
}

fn value_of<'a>(job: &'a ScavengerJob, name: &str) -> Option<&'a str> {
    job.spec.env.iter().find(|variable| variable.name == name)?.value.as_deref()
}

#[test]
fn replicas_are_one_mdrun_behind_its_launcher() {
    let mut rung = LadderRung { cpu_millicores: 8000, hours_to_finish: Some(10.0), ..ladder()[0].clone() };
    rung.layout = Json(Layout::cpu(2, 2));
    let mut row = with_library_mpi(GromacsToTune { inspected: inspected(), ..of_two() });
    row.mdrun_options = ["-replex", "500"].map(ToOwned::to_owned).to_vec();
    let job = simulation_job(&row, &rung, &manifest_settings(), &terms());
    assert_eq!(job.spec.command[..2], ["sh", "-c"]);
    assert_eq!(job.spec.command[2].replace("$$", "$"), multidir::mpi::MPI_SCRIPT);
    assert_eq!(
        job.spec.args.join(" "),
        "/data/water/gromacs-7 4000 120 500 2 sim0 a $$(b) mpirun -np 4 sh -c : >\"$$RANKS/$$$$\"; exec \"$$@\" rank gmx_mpi \
         mdrun -multidir ./sim0 ./a $$(b) -s run-1-2.tpr -cpi state.cpt -cpo state.cpt -cpt 9.0000 -ntomp 2 -npme 0 -pin off \
         -nb cpu -v -stepout 27083 -replex 500"
    );
    // mpirun would end its ranks a second after SIGTERM.
    let signal = job.spec.supervisor.as_ref().and_then(|supervisor| supervisor.signal.clone());
    assert_eq!(signal.and_then(|signal| signal.to), Some(Recipients::Leaves));
    assert_eq!(
        (value_of(&job, "OMP_NUM_THREADS"), value_of(&job, "GROMACS_PROGRAM")),
        (Some("2"), Some("gmx_mpi"))
    );
    let checkpoint = job.spec.checkpoint.expect("should promise one");
    assert_eq!(checkpoint.path.as_deref(), Some("/data/water/gromacs-7/.oldest-checkpoint"));
    let alone = GromacsToTune { mdrun_options: Vec::new(), ..row.clone() };
    let seconds = [&alone, &row].map(|row| needed_grace_seconds(row, &rung));
    assert!(seconds[0] < seconds[1], "replicas agree on when they stop: {seconds:?}");
    assert!(!runs_on_one_rank(&row));
}

#[test]
fn one_simulation_has_ranks_that_are_processes() {
    let mut rung = ladder()[0].clone();
    rung.layout = Json(Layout { npme: 1, ..Layout::cpu(4, 1) });
    let row = with_library_mpi(GromacsToTune { inspected: inspected(), ..row() });
    let job = simulation_job(&row, &rung, &manifest_settings(), &terms());
    let args = job.spec.args.join(" ");
    assert!(
        args.starts_with("/data/water/gromacs-7 4000 ") && args.contains(" 0 1 . mpirun -np 4 sh -c "),
        "{args}"
    );
    assert!(
        args.contains(" rank gmx_mpi mdrun -s /data/water/gromacs-7/run-1-2.tpr -cpi state.cpt ")
            && args.contains(" -ntomp 1 -npme 1 -pin off -nb cpu")
            && !args.contains("-ntmpi"),
        "{args}"
    );
    let path = job.spec.checkpoint.and_then(|checkpoint| checkpoint.path);
    assert_eq!(path.as_deref(), Some("/data/water/gromacs-7/state.cpt"));
    let found = BTreeMap::from([("integrator".to_owned(), "steep".to_owned())]);
    let minimisation = GromacsToTune { inspected: Some(Json(found)), ..row.clone() };
    let job = simulation_job(&minimisation, &rung, &manifest_settings(), &terms());
    assert_eq!(job.spec.command.join(" "), "mpirun -np 4 gmx_mpi -nobackup mdrun");
    for probe in [Probe::Inspection, Probe::Verification] {
        let job = probe_job(&row, probe, &manifest_settings(), &terms());
        assert_eq!(value_of(&job, "GROMACS_PROGRAM"), Some("gmx_mpi"));
        // The definition of ScavengerJobs keeps these names for the operator.
        assert!(!job.spec.env.iter().any(|variable| variable.name.starts_with("SCAVENGER_")));
        let job = probe_job(
            &GromacsToTune { engine: Engine::ThreadMpi, ..row.clone() },
            probe,
            &manifest_settings(),
            &terms(),
        );
        assert!(job.spec.env.is_empty());
    }
}

#[test]
fn probes_read_each_of_several_simulations() {
    let row = GromacsToTune { checkpoint_path: Some("water/old.cpt".to_owned()), ..of_two() };
    let job = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms());
    assert_eq!(job.spec.command[2].replace("$$", "$"), without_comments(multidir::INSPECT_SCRIPT));
    assert_eq!(job.spec.args[0], "multidir");
    assert_eq!(job.spec.args[1].replace("$$", "$"), without_comments(INSPECT_SCRIPT));
    assert_eq!(
        job.spec.args[2..],
        [
            "/data/water/topol.tpr",
            "/data/water/gromacs-7",
            row.uuid.as_str(),
            "-",
            "/data/water/old.cpt",
            "-",
            "2",
            "sim0",
            "a $$(b)"
        ]
    );
    let job = probe_job(&row, Probe::Verification, &manifest_settings(), &terms());
    assert_eq!(job.spec.command[2].replace("$$", "$"), without_comments(multidir::VERIFY_SCRIPT));
    assert_eq!(job.spec.args[2..], ["/data/water/gromacs-7", "sim0", "a $$(b)"]);
}

#[test]
fn a_command_runs_as_it_is_with_what_it_asks_for() {
    let mut of_command = command();
    of_command.pinned_image = Some("gromacs@sha256:0123".to_owned());
    let words = of_command.command().expect("should be one");
    let job = command_job(&of_command, words, &manifest_settings(), &terms());
    let spec = &job.spec;
    // Kubernetes makes one $ of two.
    assert_eq!(spec.command, ["gmx", "trjconv", "-f", "../gromacs-6/traj.xtc", "-o", "$$(x).xtc"]);
    assert!(spec.args.is_empty() && spec.checkpoint.is_none() && spec.supervisor.is_none());
    assert_eq!(spec.working_dir.as_deref(), Some("/data/water/gromacs-7"));
    assert_eq!(spec.image, "gromacs@sha256:0123");
    let requests: Vec<_> =
        spec.resources.requests.iter().map(|(name, it)| (name.as_str(), it.0.as_str())).collect();
    assert_eq!(requests, [("cpu", "1"), ("memory", "1Gi")]);
    let threads = |cpu_millicores: i32| {
        let spec =
            command_job(&of_command, Command { cpu_millicores, ..words }, &manifest_settings(), &terms())
                .spec;
        spec.env[0].value.clone().unwrap_or_default()
    };
    assert_eq!([500, 1000, 1999, 4000].map(threads), ["1", "1", "1", "4"]);
    let simulation = simulation_job(&row(), &ladder()[0], &manifest_settings(), &terms());
    assert_eq!(
        job.labels()[names::LABEL_FOLDER],
        simulation.labels()[names::LABEL_FOLDER],
        "both are of row 7 in water"
    );
    assert_eq!(job.name_any(), "gromacs-7-1");
}

#[test]
fn the_working_directory_of_a_command_is_made_in_its_folder() {
    let args = |tpr_path: &str| {
        let row = GromacsToTune { tpr_path: tpr_path.to_owned(), ..command() };
        let job = probe_job(&row, Probe::Inspection, &manifest_settings(), &terms());
        assert_eq!(job.spec.image, "gromacs:2024", "the image of the row, which it pins");
        job.spec.args
    };
    let uuid = command().uuid;
    assert_eq!(args("water/gromacs-7"), ["prepare", "/data/water", "/data/water/gromacs-7", &uuid]);
    assert_eq!(args("gromacs-7"), ["prepare", "/data", "/data/gromacs-7", &uuid]);
}
