//! Form of what no compiler reads: manifests, scripts and pages. Two tools of others look deeper: ShellCheck at the
//! scripts, and codespell at every word.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{docs, packages, shell::ROOT};

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

/// The tools, as Debian has them.
const TOOLS: [&str; 2] = ["shellcheck", "codespell"];

/// What ShellCheck need not say: the names of logs that the scripts list are mdrun's own.
const QUIET: &str = "SC2012";

/// What codespell takes for mistakes: words of Rust, names, and a mistake that a test makes on purpose.
const SPELLED: &str = "crate,equil,fro,keypair,nd,operater,ser";

/// What others wrote, or a program did: recorded output, pictures, lists of versions.
const WRITTEN_ELSEWHERE: [&str; 5] = [".snap", ".svg", ".lock", ".sum", ".mdp"];

/// Runs the tools over the checkout, and installs them if they are missing.
pub(crate) fn tools() -> Result<()> {
    packages::ensure(&TOOLS, true)?;
    let mut checkout = docs::checkout()?;
    checkout.retain(|path| !path.contains("/fixtures/"));
    let mut wrong = String::new();
    for path in &checkout {
        let Some(shell) = shell_of(path)? else { continue };
        let shell = format!("--shell={shell}");
        wrong += &said(Command::new("shellcheck").args(["--format=gcc", "--exclude", QUIET, &shell, path]))?;
    }
    let words = checkout.iter().filter(|path| !WRITTEN_ELSEWHERE.iter().any(|end| path.ends_with(end)));
    wrong += &said(Command::new("codespell").args(["--ignore-words-list", SPELLED]).args(words))?;
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.trim_end()) }
}

/// What a tool prints about the checkout; nothing if all is well.
fn said(tool: &mut Command) -> Result<String> {
    let output = tool.current_dir(ROOT).output().with_context(|| format!("cannot run {tool:?}"))?;
    if output.status.success() {
        return Ok(String::new());
    }
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    Ok(format!("{}{stdout}{stderr}", if stdout.is_empty() { "it failed: " } else { "" }))
}

/// The shell that a file is written for; none if it is no script.
fn shell_of(path: &str) -> Result<Option<&'static str>> {
    let name = Path::new(path);
    let is_named = name.extension().is_some_and(|extension| extension == "sh");
    if !is_named && name.extension().is_some() {
        return Ok(None);
    }
    let text = fs::read(Path::new(ROOT).join(path)).with_context(|| format!("cannot read {path}"))?;
    Ok(shell(&String::from_utf8_lossy(&text), is_named))
}

/// The shell that the first line of a text names, or sh if its name says that it is a script.
fn shell(text: &str, is_named: bool) -> Option<&'static str> {
    match text.lines().next().and_then(|line| line.strip_prefix("#!")) {
        Some(first) if first.contains("bash") => Some("bash"),
        Some(first) if first.trim_end().ends_with("sh") || is_named => Some("sh"),
        Some(_) => None,
        None => is_named.then_some("sh"),
    }
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
    let shell = shell(&text, true).unwrap_or("sh");
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
    fn the_first_line_names_the_shell() {
        assert_eq!(shell("#!/bin/bash\n", false), Some("bash"));
        assert_eq!(shell("#!/usr/bin/env sh\n", false), Some("sh"));
        assert_eq!(shell("# $1: a folder\n", true), Some("sh"));
        assert_eq!(shell("#!/usr/bin/python3\n", false), None);
        assert_eq!(shell("words\n", false), None);
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
