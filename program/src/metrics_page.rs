//! docs/metrics.md against what a program serves, for the tests of the programs.

use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../docs/metrics.md");

/// Metrics by the names that people know, each with the names of its labels.
pub type Described = BTreeMap<String, BTreeSet<String>>;

/// What a text of metrics serves, but for what is the same in every program. A family without a member is not in it.
#[must_use]
pub fn served(text: &str) -> Described {
    let histograms = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" histogram"));
    let histograms: Vec<&str> = histograms.collect();
    let mut served = Described::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap_or(line.len()));
        let of_histogram = histograms.iter().find(|histogram| {
            name.strip_prefix(**histogram).is_some_and(|rest| ["_bucket", "_sum", "_count"].contains(&rest))
        });
        let name = of_histogram.map_or(name, |histogram| histogram);
        if name.starts_with("process_") {
            continue;
        }
        let labels =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()));
        let labels = labels.filter(|label| label != "le");
        served.entry(name.to_owned()).or_default().extend(labels);
    }
    served
}

/// What a section of the page lists: the first column names a metric, the second its labels.
#[must_use]
pub fn explained(section: &str) -> Described {
    let (_, rest) = PAGE.split_once(&format!("\n## {section}\n")).unwrap_or_default();
    let rows = rest.split("\n## ").next().unwrap_or_default().lines();
    let cells = rows.filter(|line| line.starts_with("| `")).map(|line| line.split(" | ").collect::<Vec<_>>());
    let quoted =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    cells
        .filter_map(|cells| {
            let [name, labels, _, ..] = cells.as_slice() else { return None };
            Some((quoted(name).pop()?, quoted(labels).into_iter().collect()))
        })
        .collect()
}

/// Checks that a section lists what is served and nothing else, with the labels that it has.
///
/// # Panics
/// If it does not.
pub fn assert_explained(text: &str, section: &str) {
    let (served, explained) = (served(text), explained(section));
    assert!(!served.is_empty(), "nothing is served");
    for (name, labels) in &served {
        let in_page = explained.get(name);
        assert_eq!(in_page, Some(labels), "docs/metrics.md, {section}: labels of {name}");
    }
    let gone: Vec<_> = explained.keys().filter(|name| !served.contains_key(*name)).collect();
    assert!(gone.is_empty(), "docs/metrics.md, {section}: these are not served: {gone:?}");
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::{Process, text};

    #[test]
    fn what_every_program_serves_is_explained() {
        let text = text(&Registry::default(), &Process::default()).unwrap();
        assert!(served(&text).is_empty(), "it is the same in every program");
        let names: Vec<&str> = text.lines().filter(|line| line.starts_with("process_")).collect();
        let names = names.iter().filter_map(|line| Some(line.split_once(' ')?.0.to_owned()));
        let explained = explained("Every program");
        assert_eq!(names.collect::<BTreeSet<_>>(), explained.into_keys().collect());
    }

    #[test]
    fn a_histogram_is_one_metric() {
        let text = "# TYPE x_seconds histogram\nx_seconds_sum{a=\"1\"} 2\nx_seconds_bucket{le=\"1\",a=\"1\"} 3\n\
                    # TYPE x_count gauge\nx_count 3\nx_things_total{b=\"c,d\",e=\"f\"} 1\n";
        let labels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let expected = [
            ("x_seconds", labels(&["a"])),
            ("x_count", labels(&[])),
            ("x_things_total", labels(&["b", "e"])),
        ];
        assert_eq!(served(text), expected.map(|(name, labels)| (name.to_owned(), labels)).into());
    }
}
