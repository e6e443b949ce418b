//! `recommend`: one ladder, offline.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use scavenger_schema::gpu_offload;
use scavenger_schema::tuning::{
    Build, EFFICIENCY, LadderReply, LadderRequest, Limits, MIB, NodeShape, Resources, SystemDescription,
};
use scavenger_tuner_model::system::{cube_of_water, usual_water};
use scavenger_tuner_model::text::three_digits;
use scavenger_tuner_model::{hardware, ladder};

use super::Failure;
use crate::config::RecommendOptions;
use crate::tpr;

/// Prints the ladder.
pub fn exec(options: &RecommendOptions) -> Result<(), Failure> {
    let request = request(options)?;
    let model = super::block_on(async {
        // The pool of connections belongs to the runtime.
        let source = super::source(options.database_url.as_deref())?;
        super::model(source.as_ref()).await
    })?;
    let mut reply = ladder::build(&model, &request)
        .map_err(|error| Failure::work(anyhow!("no configuration: {error}")))?;
    if let (true, [node]) = (options.node.is_empty() && options.request.is_none(), request.nodes.as_slice()) {
        reply.notes.insert(0, taken_for(node));
    }
    if let Some(path) = &options.plot {
        let curve =
            ladder::curve(&model, &request).map_err(|error| Failure::work(anyhow!("no curve: {error}")))?;
        let (atoms, least) = (request.system.atoms, request.limits.min_efficiency);
        let svg = crate::plot::ladder(atoms, &curve, &reply, least).map_err(Failure::work)?;
        super::write(path, &svg)?;
    }
    let version = request.gromacs_version.as_deref();
    super::print_as(options.output, &reply, |reply| table(reply, version))
}

fn request(options: &RecommendOptions) -> Result<LadderRequest, Failure> {
    let mut request = match (&options.request, &options.file) {
        (Some(path), _) => read(path)?,
        (None, Some(file)) => {
            let found = tpr::read(&options.gmx, file)
                .and_then(|values| Ok((tpr::describe(&values)?, values)))
                .with_context(|| format!("cannot read {}", file.display()));
            let (mut system, values) = found.map_err(Failure::environment)?;
            if options.nsteps != -1 {
                system.nsteps = options.nsteps;
            }
            let mut request = with_nodes(options, system)?;
            let found = Build::of(&values);
            let version = || values.get(gpu_offload::VERSION).cloned();
            request.gromacs_version = request.gromacs_version.or_else(version);
            request.build = Build { simd: request.build.simd.take().or(found.simd), ..found };
            request
        }
        (None, None) => described(options)?,
    };
    if let Some(cores) = options.max_cores {
        request.limits.max_cpu_millicores = Some(cores.saturating_mul(1000));
    }
    let limits = &mut request.limits;
    limits.max_memory_bytes = options.max_memory.or(limits.max_memory_bytes);
    limits.max_gpus = options.max_gpus.or(limits.max_gpus);
    limits.max_configurations = options.max_configurations.unwrap_or(limits.max_configurations);
    limits.min_efficiency = options.min_efficiency.unwrap_or(limits.min_efficiency);
    Ok(request)
}

fn read(path: &Path) -> Result<LadderRequest, Failure> {
    let mut text = String::new();
    let outcome = if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|content| text = content)
    };
    outcome.with_context(|| format!("cannot read {}", path.display())).map_err(Failure::environment)?;
    crate::http::parse(text.as_bytes())
        .map_err(|reply| Failure::environment(anyhow!("{}: {}", path.display(), reply.error)))
}

/// Water with the usual settings.
fn described(options: &RecommendOptions) -> Result<LadderRequest, Failure> {
    let atoms = options.atoms.unwrap_or_default();
    let system = SystemDescription {
        box_nm: None,
        nsteps: options.nsteps,
        bonded_interactions: None,
        constraints: None,
        ..usual_water(atoms, cube_of_water(atoms as f64))
    };
    with_nodes(options, system)
}

fn with_nodes(options: &RecommendOptions, system: SystemDescription) -> Result<LadderRequest, Failure> {
    let node = if options.node.is_empty() { vec![this_machine()?] } else { options.node.clone() };
    Ok(LadderRequest {
        system,
        limits: Limits::default(),
        gromacs_version: options.gromacs_version.clone(),
        build: Build { simd: options.simd.clone(), ..Build::default() },
        nodes: node,
        explore: None,
    })
}

/// This machine as a node: all its cores and memory, no GPU.
pub(super) fn this_machine() -> Result<NodeShape, Failure> {
    let help = "describe a node with --node";
    let cores = std::thread::available_parallelism()
        .with_context(|| format!("cannot tell the cores of this machine; {help}"))
        .map_err(Failure::environment)?;
    let memory = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .ok_or_else(|| Failure::environment(anyhow!("cannot tell the memory of this machine; {help}")))?;
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Ok(NodeShape {
        count: 1,
        allocatable: Resources {
            cpu_millicores: u32::try_from(cores.get() * 1000).unwrap_or(u32::MAX),
            memory_bytes: memory * 1024,
            gpus: 0,
        },
        largest_free: None,
        labels: hardware::labels_from_cpuinfo(&cpuinfo),
    })
}

/// What this machine was taken for, and how to describe a node better.
fn taken_for(node: &NodeShape) -> String {
    let taken = hardware::hardware_of(&node.labels, 0);
    let threads = match (taken.smt_known, taken.smt) {
        (true, true) => "hardware threads",
        (true, false) => "cores",
        (false, _) => "cores, or hardware threads",
    };
    let (cpus, memory) = (node.allocatable.cpu_millicores / 1000, node.allocatable.memory_bytes / MIB);
    format!(
        "this machine was taken for a node of class {} ({}) with {cpus} {threads}, {memory} MiB and no GPU; to describe \
         a node: --node {cpus},{memory}Mi,node.kubernetes.io/instance-type=TYPE, or its labels of Node Feature \
         Discovery, and gpus=1,nvidia.com/gpu.product=PRODUCT for a GPU",
        taken.cpu.key, taken.cpu.products
    )
}

/// The ladder for a person.
fn table(reply: &LadderReply, gromacs_version: Option<&str>) -> String {
    let mut rows = vec![
        [
            "cores",
            "gpus",
            "memory",
            "ns/day",
            "p10",
            "p90",
            "hours",
            "efficiency",
            "fits now",
            "hardware",
            "mdrun",
            "reason",
        ]
        .map(str::to_owned),
    ];
    for rung in &reply.rungs {
        rows.push([
            (f64::from(rung.resources.cpu_millicores) / 1000.0).to_string(),
            rung.resources.gpus.to_string(),
            format!("{} MiB", rung.resources.memory_bytes / MIB),
            three_digits(rung.ns_per_day.p50),
            three_digits(rung.ns_per_day.p10),
            three_digits(rung.ns_per_day.p90),
            rung.hours_to_finish.map_or_else(|| "-".to_owned(), three_digits),
            format!("{:.0}%", rung.efficiency * 100.0),
            if rung.fits_now { "yes" } else { "no" }.to_owned(),
            rung.hardware_class.clone(),
            rung.layout.mdrun_args(gromacs_version).join(" "),
            rung.reason.clone(),
        ]);
    }
    let mut text = aligned(&rows);
    let _ = writeln!(text, "efficiency: {EFFICIENCY}");
    for note in &reply.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Columns that are words, from the right.
const WORDS: usize = 3;

/// Rows in columns: numbers to the right, words to the left.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Nothing follows the last.
            let _ = if column + 1 == N {
                writeln!(text, "{cell}")
            } else if column + WORDS >= N {
                write!(text, "{cell:<width$}  ")
            } else {
                write!(text, "{cell:>width$}  ")
            };
        }
    }
    text
}
