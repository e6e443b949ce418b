//! Measured runs of one's own: a CSV file, checked line by line, as rows of gromacs_observation.

use std::collections::BTreeMap;
use std::io::Read;

use scavenger_schema::tuning::{
    Build, Device, GpuOffload, Layout, NodeShape, PmeDescription, PredictRequest, Resources,
    SystemDescription,
};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::hardware;
use scavenger_tuner_model::layout::unasked_offload;
use scavenger_tuner_model::model::Observation;
use scavenger_tuner_model::system::{cube_of_water, usual_water};
use serde::Deserialize;
use sqlx::types::Json;

use crate::observations::{PATIENCE, SHORTEST_SECONDS, Source};

/// Why a file is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A line is no run.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// There is nothing to import.
    #[error("the file holds no run")]
    Empty,
    /// The database did not take the rows.
    #[error("the runs could not be inserted")]
    Insert(#[source] sqlx::Error),
    /// The database took too long.
    #[error("the database did not answer within {PATIENCE:?}")]
    Timeout,
}

/// A line of the file. Units are in the names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    atoms: u64,
    ns_per_day: f64,
    wall_seconds: f64,
    ntmpi: u32,
    ntomp: u32,
    npme: Option<u32>,
    gpus: Option<u32>,
    nb: Option<Device>,
    pme: Option<Device>,
    bonded: Option<Device>,
    update: Option<Device>,
    cpu_millicores: Option<u32>,
    box_nm: Option<String>,
    dt_ps: Option<f64>,
    cutoff_nm: Option<f64>,
    rlist_nm: Option<f64>,
    nstlist: Option<u32>,
    pme_grid: Option<String>,
    pme_order: Option<u32>,
    gromacs_version: Option<String>,
    simd: Option<String>,
    precision: Option<String>,
    mpi: Option<String>,
    gpu_backend: Option<String>,
    peak_memory_bytes: Option<i64>,
    node_cpu_millicores: Option<i32>,
    node_requested_millicores: Option<i32>,
}

/// A run that was checked.
#[derive(Clone, Debug)]
pub struct Run {
    /// Number of its line.
    pub line: u64,
    /// What ran, how and where.
    pub asked: PredictRequest,
    /// CPU of its node, and what all that ran there had of it, in thousandths of a core; none if it is not known.
    pub node_millicores: (Option<i32>, Option<i32>),
    /// Class of its hardware.
    pub hardware_class: String,
    /// Measured speed.
    pub ns_per_day: f64,
    /// Seconds over which it was measured.
    pub wall_seconds: f64,
    /// Peak memory, if it was measured.
    pub peak_memory_bytes: Option<i64>,
    /// Measured over predicted time, without any measurement.
    pub time_ratio: f64,
}

/// Reads and checks a file: the first line that is wrong is the error.
pub fn read(
    file: impl Read,
    labels: &BTreeMap<String, String>,
    gromacs_version: Option<&str>,
) -> Result<Vec<Run>, ImportError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(file);
    let mut runs = Vec::new();
    let header = reader.headers().cloned().map_err(|error| at(1, &error))?;
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        match reader.read_record(&mut record) {
            Ok(false) => break,
            Ok(true) => {}
            Err(error) => return Err(at(line, &error)),
        }
        let line = record.position().map_or(line, csv::Position::line);
        let parsed: Line = record.deserialize(Some(&header)).map_err(|error| at(line, &error))?;
        let run = checked(&parsed, line, labels, gromacs_version);
        runs.push(run.map_err(|problem| ImportError::Line { line, problem })?);
    }
    if runs.is_empty() { Err(ImportError::Empty) } else { Ok(runs) }
}

/// What the reader of CSV says, without its own number of the line.
fn at(line: u64, error: &csv::Error) -> ImportError {
    let problem = match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => match err.field() {
            Some(field) => format!("column {}: {}", field + 1, err.kind()),
            None => err.kind().to_string(),
        },
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} fields, the first line has {expected_len}")
        }
        _ => error.to_string(),
    };
    ImportError::Line { line, problem }
}

fn checked(
    line: &Line,
    number: u64,
    labels: &BTreeMap<String, String>,
    gromacs_version: Option<&str>,
) -> Result<Run, String> {
    let box_nm = line.box_nm.as_deref().map(|text| three::<f64>("box_nm", text)).transpose()?;
    let given = line.pme_grid.as_deref();
    let grid = given.filter(|grid| *grid != "none").map(|text| three::<u32>("pme_grid", text)).transpose()?;
    let usual = usual_water(line.atoms, box_nm.unwrap_or_else(|| cube_of_water(line.atoms as f64)));
    let usual_pme = |usual: PmeDescription| PmeDescription {
        grid: grid.unwrap_or(usual.grid),
        order: line.pme_order.unwrap_or(usual.order),
    };
    let system = SystemDescription {
        box_nm,
        dt_ps: line.dt_ps.unwrap_or(usual.dt_ps),
        cutoff_nm: line.cutoff_nm.unwrap_or(usual.cutoff_nm),
        rlist_nm: line.rlist_nm,
        nstlist: line.nstlist,
        pme: usual.pme.filter(|_| given != Some("none")).map(usual_pme),
        bonded_interactions: None,
        constraints: None,
        // It ran, so everything was allowed where it was.
        gpu_offload: GpuOffload { update: true, ..GpuOffload::default() },
        ..usual
    };
    let version = line.gromacs_version.as_deref().or(gromacs_version);
    let build = Build {
        simd: line.simd.clone(),
        precision: line.precision.clone(),
        mpi: line.mpi.clone(),
        gpu_backend: line.gpu_backend.clone(),
    };
    let layout = layout(line, &system, unasked_offload(version, &build));
    let gpus = layout.gpus;
    if gpus > 0 && build.lacks_gpus() {
        return Err("a build in double precision or without gpu_backend uses no GPU".to_owned());
    }
    for (name, value) in [("ns_per_day", line.ns_per_day), ("wall_seconds", line.wall_seconds)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(format!("{name} must be greater than 0, is {value}"));
        }
    }
    if line.node_cpu_millicores.is_some_and(|cpu| cpu < 1)
        || line.node_requested_millicores.is_some_and(|cpu| cpu < 0)
    {
        return Err("node_cpu_millicores must be above 0, and node_requested_millicores not below".to_owned());
    }
    if line.wall_seconds < SHORTEST_SECONDS {
        return Err(format!(
            "wall_seconds must be at least {SHORTEST_SECONDS}, is {}: the start weighs too much",
            line.wall_seconds
        ));
    }
    let threads = line.ntmpi.saturating_mul(line.ntomp);
    let cpu_millicores = line.cpu_millicores.unwrap_or_else(|| threads.saturating_mul(1000));
    let asked = PredictRequest {
        system,
        layout,
        node: NodeShape {
            count: 1,
            allocatable: Resources { cpu_millicores: 0, memory_bytes: 0, gpus },
            largest_free: None,
            labels: labels.clone(),
        },
        cpu_millicores: Some(cpu_millicores),
        gromacs_version: version.map(str::to_owned),
        build,
    };
    let run = Observation::new(&asked, None, line.ns_per_day).map_err(|error| error.to_string())?;
    let taken = hardware::hardware_of(labels, gpus);
    let predicted = Model::prior().speed(&run.job, &taken, &layout, cpu_millicores);
    Ok(Run {
        line: number,
        asked,
        node_millicores: (line.node_cpu_millicores, line.node_requested_millicores),
        hardware_class: taken.class(gpus),
        ns_per_day: line.ns_per_day,
        wall_seconds: line.wall_seconds,
        peak_memory_bytes: line.peak_memory_bytes.filter(|bytes| *bytes > 0),
        time_ratio: predicted / line.ns_per_day,
    })
}

/// How the run was divided. What a line does not say of a GPU is where mdrun puts it on its own: of several ranks PME goes
/// there only if one rank does nothing else, and the update never.
fn layout(line: &Line, system: &SystemDescription, unasked: GpuOffload) -> Layout {
    let (gpus, npme) = (line.gpus.unwrap_or(0), line.npme.unwrap_or(0));
    let alone = line.ntmpi == 1;
    let on = |is_there: bool| if gpus > 0 && is_there { Device::Gpu } else { Device::Cpu };
    let grid = system.pme.as_ref().is_some_and(|pme| pme.order == 4) && (alone || npme == 1);
    let pme = line.pme.unwrap_or(on(unasked.pme && grid));
    let pme_is_there = system.pme.is_none() || pme == Device::Gpu;
    Layout {
        npme,
        gpus,
        nb: line.nb.unwrap_or(on(unasked.nonbonded)),
        pme,
        bonded: line.bonded.unwrap_or(on(unasked.bonded)),
        update: line.update.unwrap_or(on(unasked.update && alone && pme_is_there)),
        ..Layout::cpu(line.ntmpi, line.ntomp)
    }
}

/// `9.4x9.4x9.4`
fn three<T: std::str::FromStr + Copy>(name: &str, text: &str) -> Result<[T; 3], String> {
    let parts: Result<Vec<T>, _> = text.split('x').map(|part| part.trim().parse()).collect();
    let parts = parts.ok().and_then(|parts| <[T; 3]>::try_from(parts).ok());
    parts.ok_or_else(|| format!("{name} must be three numbers such as 9.4x9.4x9.4, is {text:?}"))
}

/// Inserts the runs, all or none. With `dry_run` the database tries it and takes it back.
pub async fn insert(
    source: &Source,
    runs: &[Run],
    owner: Option<&str>,
    dry_run: bool,
) -> Result<(), ImportError> {
    let all = async {
        let mut transaction = source.pool().begin().await?;
        for run in runs {
            let PredictRequest { system, layout, node, gromacs_version, build, .. } = &run.asked;
            let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
            let steps = run.ns_per_day / 86_400.0 * run.wall_seconds * 1000.0 / system.dt_ps;
            sqlx::query(
                "insert into gromacs_observation (owner, source, atoms, system, cpu_millicores, gpus, layout,
                    hardware_class, node_labels, gromacs_version, ns_per_day, steps, wall_seconds, peak_memory_bytes,
                    gromacs_build, node_cpu_millicores, node_requested_millicores)
                values (coalesce($1, session_user), 'import', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
                    $16)",
            )
            .bind(owner)
            .bind(i64::try_from(system.atoms).unwrap_or(i64::MAX))
            .bind(Json(system))
            .bind(run.asked.cpu_millicores.map(count))
            .bind(count(node.allocatable.gpus))
            .bind(Json(layout))
            .bind(&run.hardware_class)
            .bind(Json(&node.labels))
            .bind(gromacs_version)
            .bind(run.ns_per_day)
            // Casting saturates; a run has at least one step.
            .bind((steps as i64).max(1))
            .bind(run.wall_seconds)
            .bind(run.peak_memory_bytes)
            // As the submitter writes it: null if it is not known.
            .bind(Some(build).filter(|build| !build.is_unknown()).map(Json))
            .bind(run.node_millicores.0)
            .bind(run.node_millicores.1)
            .execute(&mut *transaction)
            .await?;
        }
        if dry_run { transaction.rollback().await } else { transaction.commit().await }
    };
    let outcome = tokio::time::timeout(PATIENCE, all).await.map_err(|_| ImportError::Timeout)?;
    outcome.map_err(ImportError::Insert)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "atoms,ns_per_day,wall_seconds,ntmpi,ntomp,pme_grid,gpus";

    fn labels() -> BTreeMap<String, String> {
        let pairs = [
            ("node.kubernetes.io/instance-type", "hpc6a.48xlarge"),
            ("nvidia.com/gpu.product", "NVIDIA-A100"),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn import(lines: &str) -> Result<Vec<Run>, ImportError> {
        read(format!("{HEADER}\n{lines}").as_bytes(), &labels(), Some("2024.4"))
    }

    fn refused(lines: &str) -> String {
        import(lines).expect_err("the file should be refused").to_string()
    }

    #[test]
    fn runs_are_read_with_what_is_usual_filled_in() {
        let runs = import("100000,20,300,16,1,80x80x80,\n100000, 90, 60, 1, 12,, 1\n");
        let runs = runs.expect("the file should be read");
        assert_eq!((runs[0].line, runs[0].asked.cpu_millicores), (2, Some(16_000)));
        assert_eq!((runs[0].hardware_class.as_str(), runs[1].hardware_class.as_str()), ("zen3", "zen3+a100"));
        assert_eq!(runs[1].asked.system.pme.as_ref().map(|pme| pme.grid), Some([84; 3]));
        assert_eq!((runs[1].asked.layout.nb, runs[1].asked.layout.pme), (Device::Gpu, Device::Gpu));
        assert!(runs.iter().all(|run| run.time_ratio > 0.0 && run.time_ratio.is_finite()));
    }

    #[test]
    fn a_build_for_narrow_instructions_is_no_slow_processor() {
        let header = format!("{HEADER},simd,precision,mpi,gpu_backend");
        let lines = "100000,20,300,16,1,,,,,,\n100000,10,300,16,1,,,SSE4.1,mixed,thread_mpi,disabled";
        let runs = read(format!("{header}\n{lines}").as_bytes(), &labels(), None).expect("it should be read");
        assert!(runs[0].asked.build.is_unknown());
        assert_eq!(runs[1].asked.build.words(), "SSE4.1 mixed thread_mpi disabled");
        // Half the speed of the build for the processor is what such a build does.
        let ratio = runs[1].time_ratio / runs[0].time_ratio;
        assert!((0.7..1.4).contains(&ratio), "{ratio}");
        for (build, sentence) in [
            (",,,disabled", "line 2: a build in double precision or without gpu_backend uses no GPU"),
            (",double,,CUDA", "line 2: a build in double precision or without gpu_backend uses no GPU"),
        ] {
            let text = format!("{header}\n100000,90,60,1,12,,1,{build}");
            let said = read(text.as_bytes(), &labels(), None).expect_err("it should be refused").to_string();
            assert_eq!(said, sentence);
        }
        let long = format!("{header}\n100000,90,60,1,12,,0,{},,,", "x".repeat(1000));
        let said = read(long.as_bytes(), &labels(), None).expect_err("it should be refused").to_string();
        assert!(said.starts_with("line 2: build.simd: must have"), "{said}");
    }

    #[test]
    fn on_a_gpu_is_what_mdrun_of_the_release_puts_there() {
        let header = "atoms,ns_per_day,wall_seconds,gpus,gromacs_version,ntmpi,ntomp,npme,pme,gpu_backend";
        let of = |rest: &str| {
            let text = format!("{header}\n100000,90,60,1,{rest}");
            let run = read(text.as_bytes(), &labels(), None).expect("the file should be read").remove(0);
            let Layout { nb, pme, bonded, update, .. } = run.asked.layout;
            [nb, pme, bonded, update].map(|device| device == Device::Gpu)
        };
        assert_eq!(of("2024.4,1,12,,,"), [true; 4]);
        assert_eq!(of(",1,12,,,"), [true; 4]);
        assert_eq!(of("2022.5,1,12,,,"), [true, true, true, false]);
        assert_eq!(of("2018.8,1,12,,,"), [true, true, false, false]);
        assert_eq!(of("2016.4,1,12,,,"), [true, false, false, false]);
        assert_eq!(of("2024.4,1,12,,cpu,"), [true, false, true, false]);
        assert_eq!(of("2024.4,4,3,,,"), [true, false, true, false]);
        assert_eq!(of("2024.4,4,3,1,,"), [true, true, true, false]);
        assert_eq!(of("2024.4,1,12,,,OpenCL"), [true, true, false, false]);
    }

    #[test]
    fn the_page_lists_the_columns() {
        let page = include_str!("../../docs/measurements.md");
        let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
        let documented: Vec<&str> = cells
            .map_while(|(names, _)| (!names.contains("short")).then_some(names))
            .flat_map(|names| names.split(',').map(|name| name.trim_matches([' ', '`'])))
            .collect();
        let unknown = read("speed\n1\n".as_bytes(), &labels(), None).expect_err("should be refused");
        let unknown = unknown.to_string();
        let (_, known) = unknown.split_once("expected one of ").expect("it names the columns");
        let mut known: Vec<&str> = known.split(", ").map(|name| name.trim_matches('`')).collect();
        let mut documented = documented;
        known.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, known);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (lines, sentence) in [
            ("", "the file holds no run"),
            ("100000,20,300,16,1,,0\n100000,20,300,14,1,,0", "line 3: layout: 14 ranks"),
            ("0,20,300,16,1,,0", "line 2: system.atoms"),
            ("100000,-1,300,16,1,,0", "line 2: ns_per_day must be greater than 0, is -1"),
            ("100000,NaN,300,16,1,,0", "line 2: ns_per_day must be greater than 0"),
            ("100000,20,3,16,1,,0", "line 2: wall_seconds must be at least 5"),
            ("100000,20,300,16,1,80x80,0", "line 2: pme_grid must be three numbers"),
            ("many,20,300,16,1,,0", "line 2: column 1: invalid digit"),
            ("100000,20,300,16,1", "line 2: has 5 fields, the first line has 7"),
        ] {
            let said = refused(lines);
            assert!(said.contains(sentence), "{lines:?}: {said}");
        }
        let unknown = read("atoms,speed\n1,2\n".as_bytes(), &labels(), None).expect_err("should be refused");
        assert!(unknown.to_string().contains("unknown field `speed`"), "{unknown}");
    }
}
