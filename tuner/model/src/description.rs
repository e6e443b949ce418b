//! What the model knows of each class of hardware, for people: constants, source, runs, residual.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scavenger_schema::bounds::WHOLE_CORE;
use scavenger_schema::tuning::{Build, Layout, ModelClass};

use crate::Model;
use crate::calibrate::wanted;
use crate::hardware::{CPU_CLASSES, CpuClass, GPU_CLASSES, GpuClass, Hardware, parts};
use crate::model::Job;

/// [`ModelClass::kind`] of CPUs.
const CPU: &str = "cpu";
/// The same of GPUs.
const GPU: &str = "gpu";

/// Every class, CPUs first, with what was learned about it.
#[must_use]
pub fn classes(model: &Model) -> Vec<ModelClass> {
    let cpus = CPU_CLASSES.iter().map(|class| {
        let described = described(class.key, CPU, of_cpu(class), half_width_of_cpu(class), class.source);
        ModelClass { simd: Some(class.simd.to_string()), ..described }
    });
    // Of the parts those that were measured: all products in all parts would fill the page.
    let is_known = |class: &&GpuClass| model.residual(class.key, true).is_some();
    let gpus = GPU_CLASSES
        .iter()
        .chain(parts::all().filter(is_known))
        .map(|class| described(class.key, GPU, of_gpu(class), half_width_of_gpu(class), class.source));
    let mut classes: Vec<ModelClass> = cpus.chain(gpus).collect();
    for class in &mut classes {
        let residual = model.residual(&class.class, class.kind == GPU).cloned();
        class.runs = residual.as_ref().map_or(0, |residual| residual.runs);
        class.residual = residual;
    }
    classes
}

fn described(
    key: &str,
    kind: &str,
    constants: BTreeMap<String, f64>,
    half_width: f64,
    source: &str,
) -> ModelClass {
    ModelClass {
        class: key.to_owned(),
        kind: kind.to_owned(),
        simd: None,
        constants,
        half_width,
        source: source.to_owned(),
        runs: 0,
        residual: None,
    }
}

/// Cores for which the half-width of a class of CPU is published.
const CORES: u32 = 16;

/// Half-width of the 80% interval of a class of CPU that was never measured, as a factor: that of the prediction for
/// 100,000 atoms of water on 16 cores of a usual node, or of one of twice as many where that has fewer. So it is that
/// of a part of a node for all classes, on which the clock is less certain.
#[must_use]
fn half_width_of_cpu(cpu: &'static CpuClass) -> f64 {
    let node_cpus = (2 * CORES).max(cpu.node_cores as u32);
    half_width(&Hardware::of_cores(cpu, node_cpus), &Layout::cpu(CORES, 1))
}

/// The same of a class of GPU: for one beside 8 cores of a usual processor.
#[must_use]
fn half_width_of_gpu(class: &'static GpuClass) -> f64 {
    let cpu = CpuClass::by_key("amd64-avx2").unwrap_or(CpuClass::unknown());
    half_width(&Hardware { gpu: Some(class), ..Hardware::of_cores(cpu, 16) }, &Layout::water(1, 8, 1))
}

fn half_width(hardware: &Hardware, layout: &Layout) -> f64 {
    let model = Model::prior();
    // The bounds of a request have water in them: without a system, nothing would be known of the class.
    let Ok(job) = Job::new(&wanted(100_000), None, &Build::default()) else { return f64::INFINITY };
    let speed = model.predict(&job, hardware, layout, layout.threads() * WHOLE_CORE).ns_per_day;
    speed.p90 / speed.p50
}

fn named<const N: usize>(constants: [(&str, f64); N]) -> BTreeMap<String, f64> {
    constants.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn of_cpu(class: &CpuClass) -> BTreeMap<String, f64> {
    named([
        ("clockGhz", class.clock_ghz),
        ("boostGhz", class.boost_ghz),
        ("cyclesPerPair", class.pair_cycles),
        ("otherWorkPerCycle", class.ipc),
        ("coresPerCache", class.cache_cores),
        ("coresOfUsualNode", class.node_cores),
    ])
}

fn of_gpu(class: &GpuClass) -> BTreeMap<String, f64> {
    named([
        ("teraflops", class.tflops),
        ("bandwidthGbPerSecond", class.bandwidth),
        ("cacheMib", class.cache_mib),
        ("shareOfPeak", class.use_of_peak),
        ("memoryGib", class.memory_gib),
        ("launchRelativeToCuda", class.launch),
    ])
}

/// The page of the documentation that shows every class.
#[must_use]
pub fn page() -> String {
    let mut text = PREFACE.to_owned();
    for class in CPU_CLASSES {
        let _ = writeln!(
            text,
            "| {} | {} | {} | x{:.2} |",
            class.key,
            class.products,
            class.simd,
            half_width_of_cpu(class)
        );
    }
    text.push_str("\n## GPU classes\n\nBy half-width, beside 8 cores of a usual node:\n\n");
    let mut by_width: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for class in GPU_CLASSES {
        by_width.entry(format!("x{:.2}", half_width_of_gpu(class))).or_default().push(class.key);
    }
    for (width, keys) in by_width {
        let _ = writeln!(text, "- {width}: {}", keys.join(", "));
    }
    if let Some(width) = parts::all().map(half_width_of_gpu).next() {
        let _ = writeln!(text, "- x{width:.2}: every part of a product");
    }
    text
}

const PREFACE: &str = "\
<!-- Generated by `cargo xtask generate` from tuner/model/src/hardware; do not edit. -->

# What the tuner knows of hardware

The tuner assigns each node to a class of CPU and, if the node has one, a class of GPU. Labels decide: those of Node Feature
Discovery, the instance type, the product of the GPU. `unknown` and the classes that are named after an architecture stand
for all that is not recognised further.

What it knows of a class before any measurement is from data sheets, and from estimates of what the units of a processor do
per cycle. The clock of a core depends on how many others of its socket work. No class has a factor that was fitted to its
runs.

`GET /v1/model` shows what is known of a class, and what your cluster has taught:

```sh
kubectl port-forward --namespace scavenger-system deployment/scavenger-tuner 8080 &
curl -s http://localhost:8080/v1/model | jq '.classes[] | select(.runs > 0)'
```

| field | meaning |
|---|---|
| `classes[].constants` | clocks in GHz, cycles per pair, other work per cycle relative to Ivy Bridge, and cores of a usual node; of a GPU its peak, memory, bandwidth and cache |
| `classes[].halfWidth` | the half-width without any measurement |
| `classes[].source` | where the constants are published |
| `classes[].runs` | measured runs of this cluster on the class |
| `classes[].residual.medianRatio` | median of measured over predicted time; 1.2 is 20% slower than predicted |
| `classes[].residual.spread` | median absolute deviation of its logarithm |
| `dropped[]` | measured runs that are not used, counted by reason |

[measurements.md](measurements.md) explains how to add runs of your own, and [accuracy.md](../tuner/data/accuracy.md) says how
good the predictions are.

The *half-width* says how uncertain a class is before anything is measured: 8 of 10 speeds lie within that factor of the
prediction for 100,000 atoms of water. Where the system is far from what was measured, or cores are many for it, the interval
is wider. A run on the class narrows it.

A slice of a GPU (MIG) and a GPU that 2 to 4 pods share (time slicing or MPS) are classes of their own, such as
`a100-mig-1g.5gb` and `a100-shared-4`: a part of the product.

## CPU classes

The half-width is that of 16 cores of a usual node whose other cores are half busy.

| class | processors | SIMD | half-width |
|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::{labelled, node, water};
    use scavenger_schema::hardware::{AVX2, SMT};
    use scavenger_schema::tuning::PredictRequest;

    const PRODUCT: &str = "nvidia.com/gpu.product";

    #[test]
    fn every_class_has_its_constants_and_a_source() {
        let classes = classes(&Model::prior());
        assert_eq!(classes.len(), CPU_CLASSES.len() + GPU_CLASSES.len());
        for class in &classes {
            assert!(class.half_width > 1.0 && !class.source.is_empty(), "{class:?}");
            assert!(class.constants.len() >= 4, "{class:?}");
            assert_eq!((class.runs, &class.residual), (0, &None));
        }
    }

    #[test]
    fn the_half_width_is_that_of_a_prediction() {
        let labels = [("node.kubernetes.io/instance-type", "hpc6a.48xlarge")];
        let request = PredictRequest {
            system: water(100_000),
            layout: Layout::cpu(16, 1),
            node: labelled(&node(128_000, 512), &labels, 0),
            cpu_millicores: None,
            gromacs_version: None,
            build: Build::default(),
        };
        let served = |request: &PredictRequest| {
            let reply = Model::prior().answer(request).expect("the layout should run");
            (reply.hardware_class, reply.ns_per_day.p90 / reply.ns_per_day.p50)
        };
        let classes = classes(&Model::prior());
        let published = |key: &str, kind: &str| {
            let found = classes.iter().find(|class| class.class == key && class.kind == kind);
            found.expect("it is in the table").half_width
        };
        let (class, width) = served(&request);
        assert_eq!(class, "zen3");
        assert!((width / published("zen3", "cpu") - 1.0).abs() < 1e-3, "{width}");
        let labels =
            [("kubernetes.io/arch", "amd64"), (AVX2, "true"), (SMT, "false"), (PRODUCT, "NVIDIA-A100")];
        let beside = PredictRequest {
            layout: Layout::water(1, 8, 1),
            node: labelled(&node(16_000, 64), &labels, 1),
            ..request
        };
        let (class, width) = served(&beside);
        assert_eq!(class, "amd64-avx2+a100");
        assert!((width / published("a100", "gpu") - 1.0).abs() < 1e-3, "{width}");
    }

    #[test]
    fn a_class_of_small_nodes_looks_no_more_certain_than_a_measured_one() {
        let of = |key: &str| half_width_of_cpu(CpuClass::by_key(key).expect("it should be in the table"));
        for small in ["nehalem", "sandybridge", "skylake-client", "zen2-client", "zen3-client", "apple-m"] {
            assert!(of(small) > 0.99 * of("zen2"), "{small}: {}", of(small));
        }
    }

    #[test]
    fn the_page_has_a_line_per_class() {
        let page = page();
        assert!(CPU_CLASSES.iter().all(|class| page.contains(&format!("\n| {} | ", class.key))));
        assert!(GPU_CLASSES.iter().all(|class| page.contains(&format!(" {}", class.key))));
        assert!(page.lines().count() < 110, "two screens");
    }
}
