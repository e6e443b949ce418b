//! docs/chart.md: every value of the chart with its default, and its comment in values.yaml.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A value that a user sets as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// The names on the way to it, with dots.
    pub(super) path: String,
    /// The comment above it.
    comment: String,
}

/// All settings of a values.yaml, in its order. A map whose first key has a comment is a section; any other is set as a
/// whole.
pub(super) fn settings(values: &str) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut parents: Vec<(usize, &str)> = Vec::new();
    // Below a setting nothing has a comment of its own.
    let mut inside: Option<usize> = None;
    let mut lines = values.lines().peekable();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        let depth = line.len() - text.len();
        if text.is_empty() {
            comment.clear();
        } else if let Some(said) = text.strip_prefix('#') {
            inside = None;
            comment.push(said.trim());
        } else if inside.is_none_or(|setting| depth <= setting) {
            let (key, _) =
                text.split_once(':').with_context(|| format!("values.yaml: no key in {line:?}"))?;
            parents.retain(|(parent, _)| *parent < depth);
            parents.push((depth, key));
            let is_section = text.ends_with(':') && lines.peek().is_some_and(|next| is_section(next));
            if is_section {
                inside = None;
            } else {
                let path = parents.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".");
                ensure!(!comment.is_empty(), "values.yaml: {path} has no comment");
                settings.push(Setting { path, comment: comment.join(" ") });
                inside = Some(depth);
            }
            comment.clear();
        }
    }
    Ok(settings)
}

/// True if the line behind a key says that the key is a section: a comment, or a section again.
fn is_section(next: &str) -> bool {
    let text = next.trim_start();
    text.starts_with('#') || SECTIONS_OF_SECTIONS.iter().any(|name| text == format!("{name}:"))
}

/// Sections that stand first in a section.
const SECTIONS_OF_SECTIONS: [&str; 1] = ["podMonitor"];

/// The page.
pub(super) fn page(values: &str) -> Result<String> {
    let defaults: Value = serde_saphyr::from_str(values).context("values.yaml is not YAML")?;
    let mut page = HEAD.to_owned();
    let mut section = "";
    let settings = settings(values)?;
    for setting in &settings {
        let first = setting.path.split('.').next().unwrap_or_default();
        if first != section {
            section = first;
            page.push_str(&format!("\n## {section}\n\n| value | default | meaning |\n|---|---|---|\n"));
        }
        let pointer = format!("/{}", setting.path.replace('.', "/"));
        let default = defaults.pointer(&pointer).with_context(|| format!("{} is not there", setting.path))?;
        page.push_str(&format!("| `{}` | `{default}` | {} |\n", setting.path, setting.comment));
    }
    Ok(page)
}

const HEAD: &str = "# Values of the Helm chart

<!-- Written by `cargo xtask generate` from deploy/chart/values.yaml: change it there. -->

[install.md](install.md) says how to install the chart. `values.schema.json` in the chart has the types of all values;
Helm refuses names and values that are not in it.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_a_section_or_a_setting() {
        let values = "# About the file.\n\na:\n  # First.\n  b: 1\n  # Second,\n  # longer.\n  c:\n    d:\n      e: 2\n  # Third.\n  f: []\n";
        let found = settings(values).unwrap();
        let setting = |path: &str, comment: &str| Setting { path: path.into(), comment: comment.into() };
        assert_eq!(
            found,
            [setting("a.b", "First."), setting("a.c", "Second, longer."), setting("a.f", "Third.")]
        );
        assert!(page(values).unwrap().contains("| `a.c` | `{\"d\":{\"e\":2}}` | Second, longer. |\n"));
        assert!(settings("a: 1\n").unwrap_err().to_string().contains("a has no comment"));
    }
}
