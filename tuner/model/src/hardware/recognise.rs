//! From node labels and `/proc/cpuinfo` to classes.

use std::collections::BTreeMap;

use scavenger_schema::bounds::WHOLE_CORE;
use scavenger_schema::hardware as label;

use super::instances::{hardware_threads, instance};
use super::parts::{share_of, slice_of};
use super::{CpuClass, GPU_CLASSES, GpuClass};

/// What is known of a node's processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Class of the CPU.
    pub cpu: &'static CpuClass,
    /// True if a CPU of Kubernetes is one of two hardware threads of a core.
    pub smt: bool,
    /// False if nothing told whether it is: [`Self::smt`] is false then.
    pub smt_known: bool,
    /// Class of the GPUs, if the node has any.
    pub gpu: Option<&'static GpuClass>,
    /// CPUs of Kubernetes that the node has; none if it is not known, and those of a usual node of the class are assumed.
    pub node_cpus: Option<u32>,
    /// True if such a node is a virtual machine, and others may share its processor.
    pub is_virtual: bool,
}

/// What the labels of a node with `gpus` GPUs tell.
#[must_use]
pub fn hardware_of(labels: &BTreeMap<String, String>, gpus: u32) -> Hardware {
    let threads = threads_from_labels(labels);
    Hardware {
        cpu: cpu_from_labels(labels),
        smt: threads == Some(true),
        smt_known: threads.is_some(),
        gpu: (gpus > 0).then(|| gpu_from_labels(labels)),
        node_cpus: None,
        is_virtual: is_virtual(labels),
    }
}

/// True for instances of a cloud, but for those that are whole machines by their name.
fn is_virtual(labels: &BTreeMap<String, String>) -> bool {
    let name = labels.get(label::INSTANCE_TYPE).map(String::as_str).unwrap_or_default();
    instance(name).0.is_some() && !name.contains("metal") && !name.starts_with("BM.")
}

impl Hardware {
    /// Cores of that class, whole ones, on a machine that has so many of them.
    #[must_use]
    pub fn of_cores(cpu: &'static CpuClass, node_cpus: u32) -> Self {
        Self { cpu, smt: false, smt_known: true, gpu: None, node_cpus: Some(node_cpus), is_virtual: false }
    }

    /// Name of the class of what a pod with `gpus` GPUs uses of it: `zen2`, `zen2+a100`.
    #[must_use]
    pub fn class(&self, gpus: u32) -> String {
        match self.gpu.filter(|_| gpus > 0) {
            Some(gpu) => format!("{}+{}", self.cpu.key, gpu.key),
            None => self.cpu.key.to_owned(),
        }
    }

    /// The same on a node that has `cpu_millicores` for pods.
    #[must_use]
    pub fn on_node(self, cpu_millicores: u32) -> Self {
        let cpus = cpu_millicores / WHOLE_CORE;
        Self { node_cpus: (cpus > 0).then_some(cpus), ..self }
    }
}

/// Name of the class of what a pod with `gpus` GPUs uses of a node with such labels.
#[must_use]
pub fn class_of_labels(labels: &BTreeMap<String, String>, gpus: u32) -> String {
    hardware_of(labels, gpus).class(gpus)
}

/// Whether a CPU of Kubernetes is a hardware thread: by NFD's label, else by the instance type. NFD on a node says it
/// where there are threads; no processor of Arm in the table has any.
fn threads_from_labels(labels: &BTreeMap<String, String>) -> Option<bool> {
    let get = |key: &str| labels.get(key).map(String::as_str);
    let by_label = get(label::SMT).map(|value| value == "true");
    let by_type = || get(label::INSTANCE_TYPE).and_then(hardware_threads);
    let by_silence =
        || (labels.contains_key(label::CPU_VENDOR) || get(label::ARCH) == Some("arm64")).then_some(false);
    by_label.or_else(by_type).or_else(by_silence)
}

/// CPU class by NFD's model labels, else the instance type, else the feature labels, else the architecture.
#[must_use]
pub fn cpu_from_labels(labels: &BTreeMap<String, String>) -> &'static CpuClass {
    let get = |key: &str| labels.get(key).map(String::as_str);
    let has = |feature: &str| labels.contains_key(feature);
    let number = |key: &str| get(key).and_then(|text| text.parse::<u32>().ok());

    let vendor = get(label::CPU_VENDOR).unwrap_or_default();
    if let (Some(family), Some(model)) = (number(label::CPU_FAMILY), number(label::CPU_MODEL))
        && let Some(key) = x86_model(vendor, family, model, has(label::AVX512VNNI))
            .or_else(|| arm_part(arm_implementer(vendor)?, model))
    {
        return class(key);
    }
    if let Some(key) = get(label::INSTANCE_TYPE).and_then(|name| instance(name).0) {
        return class(key);
    }
    let arch = get(label::ARCH).unwrap_or_default();
    class(match arch {
        "arm64" if has(label::SVE) => "arm64-sve",
        "arm64" => "arm64",
        "amd64" | "" if has(label::AVX512F) => "amd64-avx512",
        "amd64" | "" if has(label::AVX2) => "amd64-avx2",
        "amd64" => "amd64",
        "ppc64le" => "power9",
        _ => super::UNKNOWN,
    })
}

/// Class by vendor and the decimal family and model of CPUID.
fn x86_model(vendor: &str, family: u32, model: u32, vnni: bool) -> Option<&'static str> {
    match vendor {
        "Intel" | "GenuineIntel" => intel_model(family, model, vnni),
        "AMD" | "AuthenticAMD" => amd_model(family, model),
        "Hygon" | "HygonGenuine" => (family == 24).then_some("zen"),
        _ => None,
    }
}

/// Intel Software Developer's Manual, table of DisplayFamily_DisplayModel.
fn intel_model(family: u32, model: u32, vnni: bool) -> Option<&'static str> {
    if family != 6 {
        return None;
    }
    Some(match model {
        26 | 30 | 31 | 37 | 44 | 46 | 47 => "nehalem",
        42 | 45 => "sandybridge",
        58 | 62 => "ivybridge",
        60 | 63 | 69 | 70 => "haswell",
        61 | 71 | 79 | 86 => "broadwell",
        78 | 94 | 142 | 158 | 165 | 166 => "skylake-client",
        // Skylake-SP and Cascade Lake share the number; only the latter has VNNI.
        85 if vnni => "cascadelake",
        85 => "skylake-sp",
        87 | 133 => "knightslanding",
        106 | 108 => "icelake-sp",
        125 | 126 | 140 | 141 | 167 => "icelake-client",
        143 => "sapphirerapids",
        151 | 154 | 170 | 172 | 181 | 183 | 186 | 189 | 191 | 197 | 198 => "alderlake",
        175 => "sierraforest",
        173 | 174 => "graniterapids",
        207 => "emeraldrapids",
        _ => return None,
    })
}

/// Families and models as the Linux kernel groups them (`arch/x86/kernel/cpu/amd.c`).
fn amd_model(family: u32, model: u32) -> Option<&'static str> {
    Some(match (family, model) {
        (23, 0..=47) => "zen",
        (23, 49) => "zen2",
        (23, _) => "zen2-client",
        // 48 is Trento, a server chip: EPYC 7A53.
        (25, 0..=15 | 48) => "zen3",
        (25, 16..=31 | 128..=175) => "zen4",
        (25, 96..=127) => "zen4-client",
        (25, _) => "zen3-client",
        (26, 0..=31) => "zen5",
        (26, _) => "zen5-client",
        (21, _) => "bulldozer",
        _ => return None,
    })
}

/// The vendors of ARM processors that NFD names, with their implementer.
const ARM_VENDORS: [(&str, u32); 7] = [
    ("ARM", 0x41),
    ("Broadcom", 0x42),
    ("Cavium", 0x43),
    ("Fujitsu", 0x46),
    ("Huawei", 0x48),
    ("Apple", 0x61),
    ("Ampere", 0xc0),
];

fn arm_implementer(vendor: &str) -> Option<u32> {
    ARM_VENDORS.iter().find(|(name, _)| *name == vendor).map(|(_, implementer)| *implementer)
}

fn arm_vendor(implementer: u32) -> Option<&'static str> {
    ARM_VENDORS.iter().find(|(_, number)| *number == implementer).map(|(name, _)| *name)
}

/// ARM implementer and part numbers as in the kernel's `arch/arm64/include/asm/cputype.h`.
fn arm_part(implementer: u32, part: u32) -> Option<&'static str> {
    Some(match (implementer, part) {
        (0x41, 0xd0c) => "neoverse-n1",
        (0x41, 0xd49 | 0xd8e) => "neoverse-n2",
        (0x41, 0xd40) => "neoverse-v1",
        (0x41, 0xd4f) => "neoverse-v2",
        (0x41, 0xd83 | 0xd84) => "neoverse-v3",
        (0x42, 0x516) | (0x43, 0x0af) => "thunderx2",
        (0x46, 0x001) => "a64fx",
        (0x48, 0xd01) => "kunpeng920",
        (0x61, _) => "apple-m",
        (0xc0, 0xac3 | 0xac4) => "ampereone",
        _ => return None,
    })
}

/// GPU class by the product label of the device plugin's feature discovery, else by the instance type.
#[must_use]
pub fn gpu_from_labels(labels: &BTreeMap<String, String>) -> &'static GpuClass {
    let Some(product) = label::GPU_PRODUCTS.iter().find_map(|key| labels.get(*key)) else {
        let key = labels.get(label::INSTANCE_TYPE).and_then(|name| instance(name).1);
        return key.and_then(GpuClass::by_key).unwrap_or(GpuClass::unknown());
    };
    let upper = product.to_ascii_uppercase();
    let count = |key: &str| labels.get(key).map(|count| count.parse::<u32>());
    let several = |key: &str| count(key)?.ok().filter(|pods| *pods > 1);
    let pods = several(label::GPU_REPLICAS).or_else(|| several(label::GPU_CLIENTS));
    // What a device plugin marks, or counts in a way that nobody can read.
    let (upper, is_marked) = match upper.strip_suffix("-SHARED") {
        Some(product) => (product.to_owned(), true),
        None => (upper, count(label::GPU_REPLICAS).is_some_and(|count| count.is_err())),
    };
    let (product, slice) = match upper.split_once("-MIG-") {
        Some((product, slice)) => (product, Some(slice)),
        None => (upper.as_str(), labels.get(label::GPU_PARTITION).map(String::as_str)),
    };
    let words: Vec<&str> = product.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let whole = GPU_CLASSES
        .iter()
        .skip(1)
        .filter(|class| names(&words, class.pattern))
        .max_by_key(|class| class.pattern.len());
    let found = match (slice, pods) {
        (None, Some(pods)) => whole.and_then(|whole| share_of(whole, pods)),
        (None, None) if !is_marked => whole,
        (Some(slice), None) if !is_marked => whole.and_then(|whole| slice_of(whole, slice)),
        // Nobody knows how many share it, or what a share of a slice is worth.
        _ => None,
    };
    found.unwrap_or(GpuClass::unknown())
}

/// True if the words of a product hold `pattern` from the start of one of them on, and no digit follows directly:
/// `RTX-3090` is an RTX3090, `A100` is no A10, and `GH200-480GB` is a GH200.
fn names(words: &[&str], pattern: &str) -> bool {
    (0..words.len()).any(|start| {
        let mut wanted = pattern;
        for word in &words[start..] {
            if let Some(after) = word.strip_prefix(wanted) {
                return !after.starts_with(|next: char| next.is_ascii_digit());
            }
            let Some(rest) = wanted.strip_prefix(word).filter(|_| !word.is_empty()) else { return false };
            wanted = rest;
        }
        false
    })
}

/// What Node Feature Discovery would say of the first processor of this `/proc/cpuinfo`, as far as [`cpu_from_labels`] looks
/// at it.
#[must_use]
pub fn labels_from_cpuinfo(text: &str) -> BTreeMap<String, String> {
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    let hex = |name: &str| u32::from_str_radix(field(name)?.trim_start_matches("0x"), 16).ok();
    let arch = match (field("CPU implementer"), field("cpu")) {
        (Some(_), _) => "arm64",
        (_, Some(name)) if name.starts_with("POWER") => "ppc64le",
        _ => "amd64",
    };
    let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag).then(|| "true".to_owned());
    let count = |name: &str| field(name)?.parse::<u32>().ok();
    let threads = || Some((count("siblings")? > count("cpu cores")?).to_string());
    let vendor = || arm_vendor(hex("CPU implementer")?).map(str::to_owned);
    let part = || hex("CPU part").map(|part| part.to_string());
    let labels = [
        (label::ARCH, Some(arch.to_owned())),
        (label::CPU_VENDOR, field("vendor_id").or_else(vendor)),
        (label::CPU_FAMILY, field("cpu family").or_else(|| field("CPU architecture"))),
        (label::CPU_MODEL, field("model").or_else(part)),
        (label::SMT, threads()),
        (label::AVX2, has("avx2")),
        (label::AVX512F, has("avx512f")),
        (label::AVX512VNNI, has("avx512_vnni")),
        (label::SVE, has("sve")),
    ];
    labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn class(key: &str) -> &'static CpuClass {
    CpuClass::by_key(key).unwrap_or(CpuClass::unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn nfd(vendor: &str, family: &str, model: &str) -> BTreeMap<String, String> {
        labels(&[(label::CPU_VENDOR, vendor), (label::CPU_FAMILY, family), (label::CPU_MODEL, model)])
    }

    #[test]
    fn every_class_that_recognition_names_exists() {
        for family in 0..40 {
            for model in 0..300 {
                for vendor in ["Intel", "AMD", "Hygon"] {
                    for vnni in [false, true] {
                        if let Some(key) = x86_model(vendor, family, model, vnni) {
                            assert!(CpuClass::by_key(key).is_some(), "{key}");
                        }
                    }
                }
            }
        }
        for implementer in 0..256 {
            for part in 0..4096 {
                let key = arm_part(implementer, part);
                assert!(key.is_none_or(|key| CpuClass::by_key(key).is_some()), "{key:?}");
            }
        }
    }

    #[test]
    fn model_labels_tell_the_class() {
        assert_eq!(cpu_from_labels(&nfd("AMD", "23", "49")).key, "zen2");
        assert_eq!(cpu_from_labels(&nfd("Intel", "6", "79")).key, "broadwell");
        let mut skylake = nfd("Intel", "6", "85");
        assert_eq!(cpu_from_labels(&skylake).key, "skylake-sp");
        skylake.insert(label::AVX512VNNI.to_owned(), "true".to_owned());
        assert_eq!(cpu_from_labels(&skylake).key, "cascadelake");
        for (family, model, key) in [
            ("25", "1", "zen3"),
            ("25", "48", "zen3"),
            ("25", "17", "zen4"),
            ("25", "33", "zen3-client"),
            ("25", "97", "zen4-client"),
            ("25", "144", "zen4"),
            ("26", "2", "zen5"),
            ("26", "17", "zen5"),
            ("26", "68", "zen5-client"),
        ] {
            assert_eq!(cpu_from_labels(&nfd("AMD", family, model)).key, key, "{family} {model}");
        }
        // Part 0xd4f of ARM, as NFD gives it.
        assert_eq!(cpu_from_labels(&nfd("ARM", "15", "3407")).key, "neoverse-v2");
    }

    #[test]
    fn instance_types_tell_the_class() {
        let of = |instance: &str| cpu_from_labels(&labels(&[(label::INSTANCE_TYPE, instance)])).key;
        assert_eq!(of("m6i.4xlarge"), "icelake-sp");
        assert_eq!(of("m6id.4xlarge"), "icelake-sp");
        assert_eq!(of("c3d-standard-8"), "zen4");
        assert_eq!(of("c3-standard-8"), "sapphirerapids");
        assert_eq!(of("e2-standard-4"), "unknown");
    }

    #[test]
    fn labels_instance_types_and_cpuinfo_tell_threads_from_cores() {
        let of = |pairs: &[(&str, &str)]| {
            let hardware = hardware_of(&labels(pairs), 0);
            hardware.smt_known.then_some(hardware.smt)
        };
        assert_eq!(of(&[(label::INSTANCE_TYPE, "c6a.16xlarge")]), Some(true));
        assert_eq!(of(&[(label::INSTANCE_TYPE, "c6a.16xlarge"), (label::SMT, "false")]), Some(false));
        assert_eq!(of(&[(label::INSTANCE_TYPE, "m7a.large")]), Some(false));
        assert_eq!(of(&[(label::CPU_VENDOR, "AMD")]), Some(false));
        assert_eq!(of(&[(label::ARCH, "arm64")]), Some(false));
        assert_eq!(of(&[(label::ARCH, "amd64")]), None);
        for (siblings, threads) in [(32, Some(true)), (16, Some(false))] {
            let text = format!("vendor_id : AuthenticAMD\nsiblings : {siblings}\ncpu cores : 16\n");
            let hardware = hardware_of(&labels_from_cpuinfo(&text), 0);
            assert_eq!(hardware.smt_known.then_some(hardware.smt), threads);
        }
    }

    #[test]
    fn without_a_model_the_features_and_the_architecture_are_left() {
        let arch = labels(&[(label::ARCH, "amd64")]);
        assert_eq!(cpu_from_labels(&arch).key, "amd64");
        let mut wide = arch;
        wide.insert(label::AVX512F.to_owned(), "true".to_owned());
        assert_eq!(cpu_from_labels(&wide).key, "amd64-avx512");
        assert_eq!(cpu_from_labels(&labels(&[(label::ARCH, "arm64")])).key, "arm64");
        assert_eq!(cpu_from_labels(&labels(&[(label::ARCH, "riscv64")])).key, "unknown");
        assert_eq!(cpu_from_labels(&BTreeMap::new()).key, "unknown");
    }

    #[test]
    fn cpuinfo_tells_the_class() {
        let of = |text: &str| cpu_from_labels(&labels_from_cpuinfo(text)).key;
        let rome = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49\n\
                    model name\t: AMD EPYC 7742\nflags\t\t: fpu avx avx2\n";
        assert_eq!(of(rome), "zen2");
        let hidden = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 9999\nflags\t: avx avx2 avx512f\n";
        assert_eq!(of(hidden), "amd64-avx512");
        let graviton = "processor : 0\nCPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd40\nFeatures : asimd sve\n";
        assert_eq!(of(graviton), "neoverse-v1");
        assert_eq!(of("CPU implementer : 0x41\nCPU architecture: 8\nCPU part : 0xd0c\n"), "neoverse-n1");
        assert_eq!(of("processor : 0\ncpu : POWER9, altivec supported\nclock : 3800.000000MHz\n"), "power9");
    }

    #[test]
    fn product_labels_tell_the_gpu() {
        let of = |product: &str| gpu_from_labels(&labels(&[("nvidia.com/gpu.product", product)])).key;
        assert_eq!(of("NVIDIA-A100-SXM4-40GB"), "a100");
        assert_eq!(of("NVIDIA-A10"), "a10");
        assert_eq!(of("NVIDIA-A10G"), "a10");
        assert_eq!(of("NVIDIA-L40S"), "l40s");
        assert_eq!(of("NVIDIA-L4"), "l4");
        assert_eq!(of("NVIDIA-GH200-480GB"), "gh200");
        assert_eq!(of("Tesla-V100-SXM2-32GB"), "v100");
        assert_eq!(of("NVIDIA-GeForce-RTX-3090"), "rtx3090");
        assert_eq!(of("NVIDIA-GeForce-GTX-1080-Ti"), "gtx1080ti");
        assert_eq!(of("AMD_Instinct_MI250X_/_MI250"), "mi250x");
        assert_eq!(of("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"), "a100-mig-1g.5gb");
        assert_eq!(of("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"), "a100-80gb-mig-3g.40gb");
        assert_eq!(of("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me"), "h100-mig-1g.10gb");
        assert_eq!(of("NVIDIA-A100-SXM4-40GB-MIG-9g.99gb"), "unknown");
        assert_eq!(of("NVIDIA-A100-SXM4-40GB-SHARED"), "unknown");
        let two = |other: &str, value: &str| {
            let product = (label::GPU_PRODUCTS[3], "nvidia-tesla-a100");
            gpu_from_labels(&labels(&[product, (other, value)])).key
        };
        assert_eq!(two(label::GPU_PARTITION, "2g.10gb"), "a100-mig-2g.10gb");
        assert_eq!(two(label::GPU_CLIENTS, "4"), "a100-shared-4");
        assert_eq!([two(label::GPU_CLIENTS, "1"), two(label::GPU_REPLICAS, "1")], ["a100"; 2]);
        assert_eq!(
            [two(label::GPU_REPLICAS, "2"), two(label::GPU_REPLICAS, "5")],
            ["a100-shared-2", "unknown"]
        );
        let all = |key: &str, value: &str| {
            let product = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB-SHARED");
            gpu_from_labels(&labels(&[product, (label::GPU_REPLICAS, "3"), (key, value)])).key
        };
        assert_eq!(all(label::ARCH, "amd64"), "a100-shared-3");
        assert_eq!(all(label::GPU_PARTITION, "2g.10gb"), "unknown", "a share of a slice");
        assert_eq!(all(label::GPU_REPLICAS, "several"), "unknown");
        assert_eq!(two(label::GPU_REPLICAS, "several"), "unknown");
        assert_eq!(of("NVIDIA-A100-SXM4-80GB"), "a100-80gb");
        assert_eq!(of("NVIDIA-A100-80GB-PCIe"), "a100-80gb-pcie");
        assert_eq!(of("NVIDIA-A100-PCIE-40GB"), "a100");
        assert_eq!(of("NVIDIA-A2"), "a2");
        assert_eq!(of("NVIDIA-RTX-A2000"), "unknown");
        assert_eq!(of("NVIDIA-RTX-A6000"), "rtxa6000");
        assert_eq!(of("NVIDIA-RTX-6000-Ada-Generation"), "rtx6000ada");
        assert_eq!(of("NVIDIA-RTX-4000-SFF-Ada-Generation"), "rtx4000sffada");
        assert_eq!(of("Quadro-RTX-6000"), "rtx6000");
        assert_eq!(of("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"), "rtxpro6000");
        assert_eq!(of("NVIDIA-GeForce-RTX-4070-Ti-SUPER"), "rtx4070ti");
        assert_eq!(of("NVIDIA-GeForce-RTX-5090"), "rtx5090");
        assert_eq!(of("NVIDIA-GB200"), "gb200");
        assert_eq!(of("NVIDIA-H100-80GB-HBM3"), "h100");
        assert_eq!(of("AMD_Instinct_MI300X_OAM"), "mi300x");
        assert_eq!(of("Something-new"), "unknown");
        let other = |key: &str, value: &str| gpu_from_labels(&labels(&[(key, value)])).key;
        assert_eq!(other("cloud.google.com/gke-accelerator", "nvidia-tesla-t4"), "t4");
        assert_eq!(other("cloud.google.com/gke-accelerator", "nvidia-h100-80gb"), "h100");
        assert_eq!(other("karpenter.k8s.aws/instance-gpu-name", "a10g"), "a10");
        assert_eq!(other("k8s.amazonaws.com/accelerator", "nvidia-tesla-v100"), "v100");
        assert_eq!(other("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"), "mi300x");
        assert_eq!(other("beta.amd.com/gpu.product-name", "AMD_Instinct_MI210"), "mi210");
        assert_eq!(other(label::INSTANCE_TYPE, "p3.2xlarge"), "v100");
        assert_eq!(gpu_from_labels(&BTreeMap::new()).key, "unknown");
    }
}
