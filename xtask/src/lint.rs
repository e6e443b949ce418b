//! Form of what no compiler reads: manifests, scripts and pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{docs, shell::ROOT};

/// Templates are no YAML before they are rendered: the check of the chart and the development cluster render them.
const TEMPLATES: [&str; 3] =
    ["deploy/chart/templates/", "deploy/devcluster/config/", "deploy/devcluster/manifests/"];

/// Checks every file, and names all that is wrong.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for path in docs::checkout()? {
        let kind = Path::new(&path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if !matches!(kind, "yaml" | "yml" | "json" | "sh" | "md" | "toml") {
            continue;
        }
        let text =
            fs::read_to_string(Path::new(ROOT).join(&path)).with_context(|| format!("cannot read {path}"))?;
        wrong.extend(form(&text).into_iter().map(|message| format!("{path}:{message}")));
        let broken = match kind {
            "yaml" | "yml" if !TEMPLATES.iter().any(|folder| path.starts_with(folder)) => yaml(&text),
            "json" => serde_json::from_str::<Value>(&text).map(|_| ()).map_err(|error| error.to_string()),
            "sh" => script(&path)?,
            _ => Ok(()),
        };
        wrong.extend(broken.err().map(|message| format!("{path}: {message}")));
    }
    if wrong.is_empty() { Ok(()) } else { bail!("not well formed:\n  {}", wrong.join("\n  ")) }
}

/// What an editor would not show.
fn form(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in text.split('\n').enumerate() {
        let number = number + 1;
        if line.ends_with([' ', '\t', '\r']) {
            wrong.push(format!("{number}: blanks at the end of the line"));
        }
        if line.trim_start_matches(' ').starts_with('\t') {
            wrong.push(format!("{number}: a tab in the indentation"));
        }
    }
    if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        wrong.push(format!("{}: the file does not end with one line end", text.lines().count()));
    }
    wrong
}

/// Every document is YAML, and no key comes twice.
fn yaml(text: &str) -> Result<(), String> {
    serde_saphyr::from_multiple::<Value>(text).map(|_| ()).map_err(|error| error.to_string())
}

/// A shell understands it, and it says which.
fn script(path: &str) -> Result<Result<(), String>> {
    let file = Path::new(ROOT).join(path);
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {path}"))?;
    let shell = match text.lines().next() {
        Some(first) if first.starts_with("#!") && first.contains("bash") => "bash",
        _ => "sh",
    };
    let output =
        Command::new(shell).arg("-n").arg(&file).output().with_context(|| format!("cannot run {shell}"))?;
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(if output.status.success() { Ok(()) } else { Err(message) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_editor_shows_is_named() {
        assert_eq!(form("a\nb\n"), Vec::<String>::new());
        assert_eq!(form("a \n\tb\n"), ["1: blanks at the end of the line", "2: a tab in the indentation"]);
        assert_eq!(form("a"), ["1: the file does not end with one line end"]);
        assert_eq!(form("a\n\n"), ["2: the file does not end with one line end"]);
        assert_eq!(form("a\r\n"), ["1: blanks at the end of the line"]);
    }

    #[test]
    fn a_key_that_comes_twice_is_no_yaml() {
        assert!(yaml("a: 1\n---\nb: {c: 2}\n").is_ok());
        assert!(yaml("a: 1\na: 2\n").is_err());
        assert!(yaml("a: [1\n").is_err());
    }

    #[test]
    fn the_checkout_is_well_formed() {
        check().unwrap();
    }
}
