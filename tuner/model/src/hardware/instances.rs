//! Instance types of clouds. From the providers' instance pages; families that mix generations of the same speed are
//! given as the one in the middle, others are left out.

/// (start of the type, CPU class, GPU class or nothing). Of several that match, the longest wins.
type Family = (&'static str, &'static str, &'static str);

/// Families of AWS, up to what follows a letter for disks, network or memory.
#[rustfmt::skip]
const AWS: &[Family] = &[
    ("c3", "ivybridge", ""), ("c4", "haswell", ""), ("m4", "broadwell", ""), ("r4", "broadwell", ""),
    ("i3", "broadwell", ""), ("x1", "haswell", ""),
    ("c5", "cascadelake", ""), ("m5", "cascadelake", ""), ("r5", "cascadelake", ""), ("t3", "cascadelake", ""),
    ("c5a", "zen2", ""), ("m5a", "zen", ""), ("r5a", "zen", ""), ("t3a", "zen", ""),
    ("c6a", "zen3", ""), ("m6a", "zen3", ""), ("r6a", "zen3", ""), ("hpc6a", "zen3", ""),
    ("c7a", "zen4", ""), ("m7a", "zen4", ""), ("r7a", "zen4", ""), ("hpc7a", "zen4", ""),
    ("c8a", "zen5", ""), ("m8a", "zen5", ""), ("r8a", "zen5", ""), ("hpc8a", "zen5", ""),
    ("c6i", "icelake-sp", ""), ("m6i", "icelake-sp", ""), ("r6i", "icelake-sp", ""), ("hpc6i", "icelake-sp", ""),
    ("i4i", "icelake-sp", ""), ("x2i", "icelake-sp", ""),
    ("c7i", "sapphirerapids", ""), ("m7i", "sapphirerapids", ""), ("r7i", "sapphirerapids", ""),
    ("c7i-flex", "sapphirerapids", ""), ("m7i-flex", "sapphirerapids", ""),
    ("i7i", "emeraldrapids", ""),
    ("c8i", "graniterapids", ""), ("m8i", "graniterapids", ""), ("r8i", "graniterapids", ""),
    ("c8i-flex", "graniterapids", ""), ("m8i-flex", "graniterapids", ""),
    ("c6g", "neoverse-n1", ""), ("m6g", "neoverse-n1", ""), ("r6g", "neoverse-n1", ""), ("t4g", "neoverse-n1", ""),
    ("x2g", "neoverse-n1", ""), ("i4g", "neoverse-n1", ""), ("im4g", "neoverse-n1", ""), ("is4g", "neoverse-n1", ""),
    ("c7g", "neoverse-v1", ""), ("m7g", "neoverse-v1", ""), ("r7g", "neoverse-v1", ""), ("hpc7g", "neoverse-v1", ""),
    ("c8g", "neoverse-v2", ""), ("m8g", "neoverse-v2", ""), ("r8g", "neoverse-v2", ""), ("x8g", "neoverse-v2", ""),
    ("i8g", "neoverse-v2", ""), ("c9g", "neoverse-v3", ""), ("m9g", "neoverse-v3", ""), ("r9g", "neoverse-v3", ""),
    ("p2", "broadwell", "k80"), ("p3", "broadwell", "v100"), ("p4d", "cascadelake", "a100"),
    ("p5", "zen3", "h100"), ("p5en", "sapphirerapids", "h200"), ("p6-b200", "emeraldrapids", "b200"),
    ("g4dn", "cascadelake", "t4"), ("g5", "zen2", "a10"), ("g5g", "neoverse-n1", "t4"), ("g6", "zen3", "l4"),
    ("g6e", "zen3", "l40s"), ("gr6", "zen3", "l4"),
];

/// Families of Google's cloud, with the hyphen that ends them.
#[rustfmt::skip]
const GOOGLE: &[Family] = &[
    ("n2-", "cascadelake", ""), ("c2-", "cascadelake", ""), ("m2-", "cascadelake", ""),
    ("c3-", "sapphirerapids", ""), ("h3-", "sapphirerapids", ""), ("z3-", "sapphirerapids", ""),
    ("c4-", "emeraldrapids", ""), ("n4-", "emeraldrapids", ""),
    ("n2d-", "zen2", ""), ("c2d-", "zen3", ""), ("t2d-", "zen3", ""), ("c3d-", "zen4", ""),
    ("c4d-", "zen5", ""), ("h4d-", "zen5", ""),
    ("t2a-", "neoverse-n1", ""), ("c4a-", "neoverse-v2", ""),
    ("a2-highgpu", "cascadelake", "a100"), ("a2-megagpu", "cascadelake", "a100"), ("a2-ultragpu", "cascadelake", "a100-80gb"),
    ("a3-", "sapphirerapids", "h100"), ("a3-ultragpu", "emeraldrapids", "h200"), ("a4-", "emeraldrapids", "b200"),
    ("g2-", "cascadelake", "l4"),
];

/// Shapes of Oracle's cloud, without what tells a virtual machine from a whole node.
#[rustfmt::skip]
const ORACLE: &[Family] = &[
    ("Standard.E3", "zen2", ""), ("Standard.E4", "zen3", ""), ("Standard.E5", "zen4", ""), ("Standard.E6", "zen5", ""),
    ("Standard2", "skylake-sp", ""), ("Standard3", "icelake-sp", ""), ("Optimized3", "icelake-sp", ""),
    ("Standard.A1", "neoverse-n1", ""), ("Standard.A2", "ampereone", ""),
];

/// CPU and GPU class of an instance type.
pub(super) fn instance(name: &str) -> (Option<&'static str>, Option<&'static str>) {
    let longest = |families: &'static [Family], matches: &dyn Fn(&str) -> bool| {
        families.iter().filter(|(start, ..)| matches(start)).max_by_key(|(start, ..)| start.len())
    };
    let family = if let Some(size) = name.strip_prefix("Standard_") {
        return (azure(size), azure_gpu(name));
    } else if let Some(shape) = name.strip_prefix("VM.").or_else(|| name.strip_prefix("BM.")) {
        longest(ORACLE, &|start| {
            shape.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    } else if name.contains('.') {
        longest(AWS, &|start| {
            name.strip_prefix(start)
                .is_some_and(|rest| rest.trim_start_matches(['d', 'n', 'e', 'b', 'z', 's']).starts_with('.'))
        })
    } else {
        longest(GOOGLE, &|start| name.starts_with(start))
    };
    let known = |key: &'static str| (!key.is_empty()).then_some(key);
    family.map_or((None, None), |(_, cpu, gpu)| (known(cpu), known(gpu)))
}

/// True if a CPU of this instance type is one of two hardware threads of a core, false if it is a core; none if the type
/// is not known.
///
/// From the providers' pages: AWS ("Optimize CPU options": a vCPU is a thread, except on Graviton, on HPC types and on
/// those of AMD from the seventh generation on), Google ("CPU platforms": except on Arm, T2D, H3 and H4D), Azure ("vCPU
/// quotas" and the pages of the series: except on Arm, HB, HC, HX, NC and the F series of AMD from version 6 on) and
/// Oracle ("Compute shapes": an OCPU of x86 is two of Kubernetes' CPUs).
pub(super) fn hardware_threads(name: &str) -> Option<bool> {
    let class = instance(name).0?;
    let arm = ["neoverse", "ampereone"].iter().any(|arm| class.starts_with(arm));
    let whole_cores = if let Some(size) = name.strip_prefix("Standard_") {
        ["HB", "HC", "HX", "NC"].iter().any(|series| size.starts_with(series))
            || size.starts_with('F') && class.starts_with("zen")
    } else if name.starts_with("VM.") || name.starts_with("BM.") {
        false
    } else if name.contains('.') {
        name.starts_with("hpc") || matches!(class, "zen4" | "zen5")
    } else {
        ["t2d-", "h3-", "h4d-"].iter().any(|family| name.starts_with(family))
    };
    Some(!arm && !whole_cores)
}

/// CPU class of a size of Azure's, `D16ads_v5`: series, number of CPUs, features, version.
fn azure(size: &str) -> Option<&'static str> {
    let series: String = size.chars().take_while(char::is_ascii_uppercase).collect();
    let features: String = size[series.len()..]
        .chars()
        .skip_while(|c| c.is_ascii_digit() || *c == '-')
        .take_while(char::is_ascii_lowercase)
        .collect();
    let version = size.rsplit_once("_v").and_then(|(_, version)| version.parse::<u32>().ok()).unwrap_or(1);
    let (arm, amd) = (features.contains('p'), features.contains('a'));
    Some(match (series.as_str(), version) {
        ("HB", 1) => "zen",
        ("HB", 2) => "zen2",
        ("HB", 3) => "zen3",
        ("HB", 4 | 5) | ("HX", _) => "zen4",
        ("HC", _) => "skylake-sp",
        ("D" | "E", 5) if arm => "neoverse-n1",
        ("D" | "E", 6) if arm => "neoverse-n2",
        ("D" | "E", 4) if amd => "zen2",
        ("D" | "E", 5) if amd => "zen3",
        ("D" | "E" | "F", 6) if amd => "zen4",
        ("D" | "E" | "F", 7) if amd => "zen5",
        ("D" | "E", 4) | ("F", 2) => "cascadelake",
        ("D" | "E", 5) => "icelake-sp",
        ("D" | "E", 6) => "emeraldrapids",
        ("NC", 3) if amd => "zen2",
        ("NC" | "NV", 4 | 5) if amd => "zen3",
        _ => return None,
    })
}

/// GPU class of a size of Azure's, which names the product.
fn azure_gpu(name: &str) -> Option<&'static str> {
    let named =
        [("_T4_", "t4"), ("_A100_", "a100-80gb"), ("_A10_", "a10"), ("_H100_", "h100"), ("_H200_", "h200")];
    named.iter().find(|(part, _)| name.contains(part)).map(|(_, key)| *key)
}

#[cfg(test)]
mod tests {
    use super::super::{CpuClass, GpuClass};
    use super::*;

    #[test]
    fn every_class_that_is_named_exists() {
        for (start, cpu, gpu) in AWS.iter().chain(GOOGLE).chain(ORACLE) {
            assert!(CpuClass::by_key(cpu).is_some(), "{start}: {cpu}");
            assert!(gpu.is_empty() || GpuClass::by_key(gpu).is_some(), "{start}: {gpu}");
        }
        for series in ["HB", "HX", "HC", "D", "E", "F", "NC", "NV"] {
            for features in ["s", "as", "pds"] {
                for version in 1..=8 {
                    if let Some(key) = azure(&format!("{series}8{features}_v{version}")) {
                        assert!(CpuClass::by_key(key).is_some(), "{key}");
                    }
                }
            }
        }
    }

    #[test]
    fn types_tell_the_class() {
        let cpu = |name: &str| instance(name).0.unwrap_or("-");
        for (name, key) in [
            ("m6i.4xlarge", "icelake-sp"),
            ("m6idn.4xlarge", "icelake-sp"),
            ("c5n.18xlarge", "cascadelake"),
            ("c5ad.large", "zen2"),
            ("c7i-flex.large", "sapphirerapids"),
            ("c7gn.16xlarge", "neoverse-v1"),
            ("hpc7a.96xlarge", "zen4"),
            ("c3.8xlarge", "ivybridge"),
            ("c3-standard-8", "sapphirerapids"),
            ("c3d-standard-8", "zen4"),
            ("c4a-highcpu-16", "neoverse-v2"),
            ("e2-standard-4", "-"),
            ("Standard_HB120-64rs_v3", "zen3"),
            ("Standard_D16ads_v5", "zen3"),
            ("Standard_D16s_v5", "icelake-sp"),
            ("Standard_D16ps_v6", "neoverse-n2"),
            ("Standard_D16s_v3", "-"),
            ("VM.Standard.E4.Flex", "zen3"),
            ("BM.Optimized3.36", "icelake-sp"),
            ("", "-"),
            ("m6", "-"),
        ] {
            assert_eq!(cpu(name), key, "{name}");
        }
    }

    #[test]
    fn types_tell_threads_from_cores() {
        for (name, threads) in [
            ("c6a.16xlarge", Some(true)),
            ("m5.large", Some(true)),
            ("c7i.large", Some(true)),
            ("g4dn.xlarge", Some(true)),
            ("m7a.large", Some(false)),
            ("hpc6a.48xlarge", Some(false)),
            ("m6g.large", Some(false)),
            ("n2-standard-8", Some(true)),
            ("c3d-standard-8", Some(true)),
            ("t2d-standard-8", Some(false)),
            ("c4a-highcpu-16", Some(false)),
            ("Standard_D16ads_v5", Some(true)),
            ("Standard_F16as_v6", Some(false)),
            ("Standard_HB120rs_v3", Some(false)),
            ("Standard_D16ps_v6", Some(false)),
            ("VM.Standard.E4.Flex", Some(true)),
            ("VM.Standard.A1.Flex", Some(false)),
            ("e2-standard-4", None),
        ] {
            assert_eq!(hardware_threads(name), threads, "{name}");
        }
    }

    #[test]
    fn types_tell_the_gpu() {
        let gpu = |name: &str| instance(name).1.unwrap_or("-");
        for (name, key) in [
            ("p3.2xlarge", "v100"),
            ("p4d.24xlarge", "a100"),
            ("p5en.48xlarge", "h200"),
            ("g5.xlarge", "a10"),
            ("g6e.xlarge", "l40s"),
            ("a3-highgpu-8g", "h100"),
            ("a3-ultragpu-8g", "h200"),
            ("Standard_NC4as_T4_v3", "t4"),
            ("Standard_NC24ads_A100_v4", "a100-80gb"),
            ("m6i.large", "-"),
        ] {
            assert_eq!(gpu(name), key, "{name}");
        }
    }
}
