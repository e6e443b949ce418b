//! Product names of CPUs, as `/proc/cpuinfo`, `lscpu` and lists of machines give them. The vendors' numbering tells
//! the generation.

/// Products whose name tells the class: (part of the name in lower case, class). The first that matches counts.
const NAMES: &[(&str, &str)] = &[
    ("xeon phi", "knightslanding"),
    ("graviton2", "neoverse-n1"),
    ("graviton3", "neoverse-v1"),
    ("graviton4", "neoverse-v2"),
    ("graviton5", "neoverse-v3"),
    ("neoverse-n1", "neoverse-n1"),
    ("neoverse-n2", "neoverse-n2"),
    ("neoverse-v1", "neoverse-v1"),
    ("neoverse-v2", "neoverse-v2"),
    ("neoverse-v3", "neoverse-v3"),
    ("ampereone", "ampereone"),
    ("altra", "neoverse-n1"),
    ("cobalt 100", "neoverse-n2"),
    ("yitian 710", "neoverse-n2"),
    ("axion", "neoverse-v2"),
    ("grace", "neoverse-v2"),
    ("a64fx", "a64fx"),
    ("thunderx2", "thunderx2"),
    ("kunpeng", "kunpeng920"),
    ("apple m", "apple-m"),
    ("power9", "power9"),
    ("hygon", "zen"),
    ("opteron", "bulldozer"),
    ("core ultra", "alderlake"),
];

/// CPU class of a product: `AMD EPYC 7742 64-Core Processor`, `Intel(R) Xeon(R) CPU E5-2697 v2 @ 2.70GHz`.
#[must_use]
pub(super) fn product(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase().replace("(r)", "").replace("(tm)", "");
    if let Some((_, key)) = NAMES.iter().find(|(part, _)| lower.contains(part)) {
        return Some(key);
    }
    let words: Vec<&str> = lower
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| !word.is_empty())
        .collect();
    let number = |after: &str| {
        let at = words.iter().position(|word| *word == after)?;
        words[at..].iter().find(|word| word.len() >= 4 && word.starts_with(|c: char| c.is_ascii_digit()))
    };
    if let Some(model) = number("epyc") {
        return epyc(model);
    }
    if let Some(model) = number("ryzen") {
        return ryzen(model, lower.contains("threadripper"));
    }
    words.iter().enumerate().find_map(|(at, word)| {
        let next = words.get(at + 1).copied().unwrap_or_default();
        match *word {
            "gold" | "platinum" | "silver" | "bronze" => scalable(next),
            "xeon" if next.len() == 5 => xeon6(next),
            _ if ["e3-", "e5-", "e7-"].iter().any(|series| word.starts_with(series)) => e_series(word, next),
            _ if word.starts_with("w-") => w_series(word),
            _ if ["i3-", "i5-", "i7-", "i9-"].iter().any(|series| word.starts_with(series)) => {
                core(&word[3..])
            }
            _ => None,
        }
    })
}

/// The last digit of an EPYC is its generation, letters after it aside: 7742, 7R32, 9V74, 9654P, 73F3.
fn epyc(model: &str) -> Option<&'static str> {
    match model.chars().rev().find(char::is_ascii_digit)? {
        '1' => Some("zen"),
        '2' => Some("zen2"),
        '3' => Some("zen3"),
        '4' => Some("zen4"),
        '5' => Some("zen5"),
        _ => None,
    }
}

/// The first digit of a Ryzen is its generation.
fn ryzen(model: &str, threadripper: bool) -> Option<&'static str> {
    match (model.chars().next()?, threadripper) {
        ('1' | '2', _) => Some("zen"),
        ('3' | '4', _) => Some("zen2-client"),
        ('5' | '6', _) => Some("zen3-client"),
        ('7', true) => Some("zen4"),
        ('7' | '8', _) => Some("zen4-client"),
        ('9', _) => Some("zen5-client"),
        _ => None,
    }
}

/// The second digit of a Xeon Scalable is its generation.
fn scalable(model: &str) -> Option<&'static str> {
    match model.chars().nth(1)? {
        '1' => Some("skylake-sp"),
        '2' => Some("cascadelake"),
        '3' => Some("icelake-sp"),
        '4' => Some("sapphirerapids"),
        '5' => Some("emeraldrapids"),
        _ => None,
    }
}

/// Xeon 6: 6972P, 6780E.
fn xeon6(model: &str) -> Option<&'static str> {
    let digits = model.starts_with('6') && model[..4].chars().all(|c| c.is_ascii_digit());
    match model.chars().last()? {
        'p' if digits => Some("graniterapids"),
        'e' if digits => Some("sierraforest"),
        _ => None,
    }
}

/// Xeon E3, E5 and E7, whose version is a word of its own or the end of the number.
fn e_series(model: &str, next: &str) -> Option<&'static str> {
    let version = [next, &model[3..]].iter().find_map(|text| {
        let (_, version) = text.rsplit_once('v')?;
        version.parse::<u32>().ok()
    });
    match version {
        None => Some("sandybridge"),
        Some(2) => Some("ivybridge"),
        Some(3) => Some("haswell"),
        Some(4) => Some("broadwell"),
        Some(5 | 6) => Some("skylake-client"),
        Some(_) => None,
    }
}

/// Xeon W: W-2145, W-3275, W-3375.
fn w_series(model: &str) -> Option<&'static str> {
    match model.get(2..4)? {
        "21" | "31" => Some("skylake-sp"),
        "22" | "32" => Some("cascadelake"),
        "33" => Some("icelake-sp"),
        _ => None,
    }
}

/// Core i: the number without its last three digits is the generation.
fn core(model: &str) -> Option<&'static str> {
    let digits: String = model.chars().take_while(char::is_ascii_digit).collect();
    match digits.parse::<u32>().ok()? / 1000 {
        2 => Some("sandybridge"),
        3 => Some("ivybridge"),
        4 => Some("haswell"),
        5 => Some("broadwell"),
        6..=10 => Some("skylake-client"),
        11 => Some("icelake-client"),
        12..=14 => Some("alderlake"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::CpuClass;
    use super::*;

    #[test]
    fn names_tell_the_class() {
        for (name, key) in [
            ("AMD EPYC 7742 64-Core Processor", "zen2"),
            ("EPYC 7742", "zen2"),
            ("AMD EPYC 7R13 Processor", "zen3"),
            ("AMD EPYC 7A53 64-Core Processor", "zen3"),
            ("AMD EPYC 9V74 80-Core Processor", "zen4"),
            ("AMD EPYC 9654P 96-Core Processor", "zen4"),
            ("AMD EPYC 9755 128-Core Processor", "zen5"),
            ("AMD EPYC 75F3 32-Core Processor", "zen3"),
            ("AMD Ryzen 9 5950X 16-Core Processor", "zen3-client"),
            ("AMD Ryzen Threadripper PRO 7995WX 96-Cores", "zen4"),
            ("AMD Ryzen 9 9950X 16-Core Processor", "zen5-client"),
            ("Intel(R) Xeon(R) CPU E5-2697 v2 @ 2.70GHz", "ivybridge"),
            ("E5-2695 v4", "broadwell"),
            ("Xeon E5-2680v3", "haswell"),
            ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", "sandybridge"),
            ("Gold 6142", "skylake-sp"),
            ("Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz", "cascadelake"),
            ("Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz", "icelake-sp"),
            ("Intel(R) Xeon(R) Platinum 8480+", "sapphirerapids"),
            ("INTEL(R) XEON(R) PLATINUM 8592+", "emeraldrapids"),
            ("Intel(R) Xeon(R) 6972P", "graniterapids"),
            ("Intel(R) Xeon(R) 6780E", "sierraforest"),
            ("Intel(R) Xeon Phi(TM) CPU 7210 @ 1.30GHz", "knightslanding"),
            ("Intel(R) Xeon(R) W-2145 CPU @ 3.70GHz", "skylake-sp"),
            ("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", "skylake-client"),
            ("13th Gen Intel(R) Core(TM) i9-13900K", "alderlake"),
            ("Ampere(R) Altra(R) Processor", "neoverse-n1"),
            ("NVIDIA Grace", "neoverse-v2"),
            ("AWS Graviton3", "neoverse-v1"),
            ("POWER9, altivec supported", "power9"),
        ] {
            assert_eq!(product(name), Some(key), "{name}");
        }
        assert_eq!(product("Intel Xeon Processor (Skylake)"), None);
        assert_eq!(product("AMD EPYC"), None);
        assert_eq!(product(""), None);
    }

    #[test]
    fn every_class_that_a_name_tells_exists() {
        for (part, key) in NAMES {
            assert!(CpuClass::by_key(key).is_some(), "{part}: {key}");
        }
        for digit in '0'..='9' {
            let models = [format!("7{digit}4{digit}"), format!("{digit}{digit}42")];
            for class in
                models.iter().flat_map(|m| [epyc(m), ryzen(m, false), ryzen(m, true), scalable(m), core(m)])
            {
                assert!(class.is_none_or(|key| CpuClass::by_key(key).is_some()), "{class:?}");
            }
        }
    }
}
