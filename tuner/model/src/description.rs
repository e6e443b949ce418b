//! What the model knows of each class of hardware, for people: constants, source, runs, residual.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scavenger_schema::bounds::WHOLE_CORE;
use scavenger_schema::tuning::{Layout, ModelClass};

use crate::Model;
use crate::calibrate::wanted;
use crate::hardware::{CPU_CLASSES, CpuClass, GpuClass, Hardware, gpu_classes, shares};
use crate::model::Job;

/// [`ModelClass::kind`] of CPUs.
const CPU: &str = "cpu";
/// The same of GPUs.
const GPU: &str = "gpu";

/// Every class, CPUs first, with what was learned about it.
#[must_use]
pub fn classes(model: &Model) -> Vec<ModelClass> {
    let fitted = |key: &str| {
        let (pair, other) = model.factors_of(key);
        [("fittedPair".to_owned(), pair), ("fittedOther".to_owned(), other)]
    };
    let cpus = CPU_CLASSES.iter().map(|class| {
        let mut constants = of_cpu(class);
        constants.extend(fitted(class.key));
        let described = described(class.key, CPU, constants, half_width_of_cpu(class), class.source);
        ModelClass { simd: Some(class.simd.to_string()), ..described }
    });
    // Of what may be shared, what was: all products in all parts would fill the page.
    let is_known = |class: &&GpuClass| model.residual(class.key, true).is_some();
    let gpus = gpu_classes().chain(shares::all().filter(is_known)).map(|class| {
        let mut constants = of_gpu(class);
        constants.extend(fitted(class.key));
        described(class.key, GPU, constants, half_width_of_gpu(class), class.source)
    });
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
pub fn half_width_of_cpu(class: &'static CpuClass) -> f64 {
    half_width_on_node(class, (2 * CORES).max(class.node_cores as u32))
}

/// The same on a node of 16 cores, all of which work.
fn half_width_of_whole_node(class: &'static CpuClass) -> f64 {
    half_width_on_node(class, CORES)
}

fn half_width_on_node(cpu: &'static CpuClass, node_cpus: u32) -> f64 {
    let node_cpus = Some(node_cpus);
    half_width(
        &Hardware { cpu, smt: false, smt_known: true, gpu: None, node_cpus, is_virtual: false },
        &Layout::cpu(CORES, 1),
    )
}

/// The same of a class of GPU: for one beside 8 cores of a usual processor.
#[must_use]
pub fn half_width_of_gpu(class: &'static GpuClass) -> f64 {
    let cpu = CpuClass::by_key("amd64-avx2").unwrap_or(CpuClass::unknown());
    half_width(
        &Hardware {
            cpu,
            smt: false,
            smt_known: true,
            gpu: Some(class),
            node_cpus: Some(16),
            is_virtual: false,
        },
        &Layout::water(1, 8, 1),
    )
}

fn half_width(hardware: &Hardware, layout: &Layout) -> f64 {
    let model = Model::prior();
    // The bounds of a request have water in them: without a system, nothing would be known of the class.
    let Ok(job) = Job::new(&wanted(100_000), None) else { return f64::INFINITY };
    let asked = model.about(&job, &[*hardware]);
    let speed = asked.predict(hardware, layout, layout.threads() * WHOLE_CORE).ns_per_day;
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
        ("cacheMibPerCore", class.cache_mib),
        ("memoryGbPerSecondPerCore", class.memory_gbps),
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

/// What the constants mean, in the order of the tables.
const MEANINGS: [(&str, &str); 16] = [
    ("clockGhz", "typical clock of all cores under vector load, in GHz"),
    ("boostGhz", "clock of a single busy core, in GHz"),
    ("cyclesPerPair", "clock cycles per pair interaction"),
    ("otherWorkPerCycle", "all other work per cycle, relative to Ivy Bridge"),
    ("coresPerCache", "cores that share a last-level cache"),
    ("cacheMibPerCore", "second and last level of cache per core, in MiB"),
    ("memoryGbPerSecondPerCore", "bandwidth of memory per core when all cores work, in GB/s"),
    ("coresOfUsualNode", "cores of a usual node; counts where the node itself is not known"),
    ("teraflops", "peak single precision of one device, in TFLOP/s"),
    ("bandwidthGbPerSecond", "memory bandwidth, in GB/s"),
    ("cacheMib", "last-level cache of the device, in MiB"),
    ("shareOfPeak", "share of the peak that pair kernels reach, relative to Volta"),
    ("memoryGib", "device memory, in GiB"),
    ("launchRelativeToCuda", "time to launch work, relative to CUDA"),
    ("fittedPair", "factor on the time of pairs, fitted to measured runs; 1 where there are none"),
    ("fittedOther", "the same on the time of all other work"),
];

/// The page of the documentation that shows every class.
#[must_use]
pub fn page() -> String {
    let mut text = PREFACE.to_owned();
    let classes = classes(&Model::prior());
    for (kind, title) in [(CPU, "CPU classes"), (GPU, "GPU classes")] {
        let of_kind: Vec<&ModelClass> = classes.iter().filter(|class| class.kind == kind).collect();
        let Some(first) = of_kind.first() else { continue };
        let names: Vec<&str> = MEANINGS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| first.constants.contains_key(*name))
            .collect();
        let _ = writeln!(text, "\n## {title}\n");
        for (name, meaning) in MEANINGS.iter().filter(|(name, _)| names.contains(name)) {
            let _ = writeln!(text, "- `{name}`: {meaning}");
        }
        // GPUs have no vector instructions of their own name, and are not asked for in part.
        let (simd, widths) = if kind == CPU {
            (("| SIMD ", "|---"), ("half-width on a part of a node | on a whole node", "|---|---"))
        } else {
            (("", ""), ("half-width", "|---"))
        };
        let _ = writeln!(text, "\n| class {}| {} | {} | source |", simd.0, names.join(" | "), widths.0);
        let _ = writeln!(text, "|---{}{}{}|---|", simd.1, "|---:".repeat(names.len()), widths.1);
        for class in of_kind {
            let values: Vec<String> = names.iter().map(|name| class.constants[*name].to_string()).collect();
            let whole = CpuClass::by_key(&class.class).filter(|_| kind == CPU).map(half_width_of_whole_node);
            let _ = writeln!(
                text,
                "| {} {}| {} | x{:.2}{} | {} |",
                class.class,
                class.simd.as_ref().map(|simd| format!("| {simd} ")).unwrap_or_default(),
                values.join(" | "),
                class.half_width,
                whole.map(|width| format!(" | x{width:.2}")).unwrap_or_default(),
                class.source
            );
        }
    }
    text
}

const PREFACE: &str = "\
<!-- Generated by `cargo xtask generate` from tuner/model/src/hardware; do not edit. -->

# What the tuner knows of hardware

The tuner assigns each node to a class of CPU and, if the node has one, a class of GPU. The constants of a class come
from three places:

- data sheets, which the column *source* names: clocks, vector instructions, caches, bandwidth, cores of a usual node, and
  the peak and the memory of a GPU;
- estimates from what the data sheets say of the units of a processor: `cyclesPerPair`, `otherWorkPerCycle`, `shareOfPeak`
  and `launchRelativeToCuda`. Where a data sheet gives a range of clocks, `clockGhz` is an estimate, too;
- a fit to the measured runs in [tuner/data](../tuner/data/README.md), for the classes that these have runs of:
  `fittedPair` and `fittedOther`. All other classes have 1 there.

The *half-width* says how uncertain a class is before anything is measured: 8 of 10
speeds lie within that factor of the prediction. It is that of a prediction for 100,000 atoms of water on 16 cores, or on
one GPU beside 8 cores, of a node that says whether its CPUs are hardware threads. Where that is not known, where the
system is far from what was measured, and where cores are many for it, the interval of a prediction is wider.

Each CPU class has two half-widths: on 16 cores of a larger node, whose other cores are taken to be half busy, and on a
node of 16 cores. A part of a node is less certain, because its clock depends on what the other cores do. Compare classes
within one of these columns. `halfWidth` of `GET /v1/model` is that on a part of a node.

A GPU that 2 to 4 pods share (time slicing or MPS, by the label `nvidia.com/gpu.replicas` or
`cloud.google.com/gke-max-shared-clients-per-gpu`) is a class of its own, such as `a100-shared-4`: its share of the product
while all pods on it compute. Shares are not listed below.

`GET /v1/model` shows the same for a running tuner, and what your cluster has taught it:

```sh
kubectl port-forward --namespace scavenger-system deployment/scavenger-tuner 8080 &
curl -s http://localhost:8080/v1/model | jq '.classes[] | select(.runs > 0)'
```

| field | meaning |
|---|---|
| `classes[].constants` | the constants below |
| `classes[].halfWidth` | the half-width without any measurement |
| `classes[].source` | where the constants are published |
| `classes[].runs` | measured runs of this cluster on the class |
| `classes[].residual.medianRatio` | median of measured over predicted time; 1.2 is 20% slower than predicted |
| `classes[].residual.spread` | median absolute deviation of its logarithm |
| `dropped[]` | measured runs that are not used, counted by reason |

[measurements.md](measurements.md) explains how to add runs of your own, and lists the reasons why a run is not used.
How good the predictions are stands in [accuracy.md](../tuner/data/accuracy.md).

A node is recognised by its labels: those of Node Feature Discovery, the instance type, the GPU product. `unknown` and
the classes that are named after an architecture stand for everything that is not recognised further.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::fixtures::{labelled, node, water};
    use scavenger_schema::hardware::{AVX2, SMT};
    use scavenger_schema::tuning::{Build, PredictRequest};

    const PRODUCT: &str = "nvidia.com/gpu.product";

    #[test]
    fn every_class_has_its_constants_and_a_source() {
        let classes = classes(&Model::prior());
        assert_eq!(classes.len(), CPU_CLASSES.len() + gpu_classes().count());
        for class in &classes {
            assert!(class.half_width > 1.0 && !class.source.is_empty(), "{class:?}");
            let known = |name: &String| MEANINGS.iter().any(|(meant, _)| meant == name);
            assert!(class.constants.len() >= 4 && class.constants.keys().all(known), "{class:?}");
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
            owner: None,
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
        let on_bare_metal = [("node.kubernetes.io/instance-type", "c6a.metal"), (SMT, "false")];
        let whole =
            PredictRequest { node: labelled(&node(16_000, 64), &on_bare_metal, 0), ..request.clone() };
        let zen3 = CpuClass::by_key("zen3").expect("Zen 3 should be in the table");
        let (class, width) = served(&whole);
        assert_eq!(class, "zen3");
        assert!((width / half_width_of_whole_node(zen3) - 1.0).abs() < 1e-3, "{width}");
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
        let of = |key: &str| {
            let class = CpuClass::by_key(key).expect("it should be in the table");
            (half_width_of_cpu(class), half_width_of_whole_node(class))
        };
        let (part, whole) = of("zen2");
        for small in ["nehalem", "sandybridge", "skylake-client", "zen2-client", "zen3-client", "apple-m"] {
            let (of_part, of_whole) = of(small);
            assert!(of_part > 0.99 * part && of_whole > 0.99 * whole, "{small}: {of_part} {of_whole}");
            assert!(of_part > 1.1 * of_whole, "{small}: {of_part} {of_whole}");
        }
    }

    #[test]
    fn the_page_has_a_line_per_class() {
        let page = page();
        for class in CPU_CLASSES.iter().map(|class| class.key).chain(gpu_classes().map(|class| class.key)) {
            assert!(page.contains(&format!("\n| {class} | ")), "{class}");
        }
    }
}
