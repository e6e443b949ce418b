//! The words of the project: what users read says the same thing in the same plain words. Checked are the pages, comments
//! in manifests, descriptions of the CRDs, help pages, and messages in the code.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{docs, shell::ROOT};

/// Words to avoid, and what to write instead. Several words follow each other in the text, on one line or on two.
const AVOID: [(&str, &str); 12] = [
    ("anew", "again"),
    ("reckon", "calculate or count"),
    ("reckons", "calculates or counts"),
    ("reckoned", "calculated or counted"),
    ("reckoning", "calculating or counting"),
    ("for ever", "forever"),
    ("with success", "succeeded"),
    ("can not", "cannot"),
    ("whoever", "those who"),
    ("by itself", "on its own"),
    ("told", "reported, written, distinguished"),
    ("untold", "not reported"),
];

/// Sentences of other programs, which are recognised as they are.
const QUOTED: [&str; 2] = ["can not be settled", "can not run on the GPU"];

/// Folders of code whose strings are messages.
const CODE: [&str; 10] = [
    "gromacs-submitter/src",
    "operator/planner/src",
    "operator/src",
    "operator/supervisor/src",
    "schema/src",
    "tuner/model/src",
    "tuner/src",
    "vocabulary/src",
    "workloads/counter/src",
    "xtask/src",
];

/// This file names the words.
const OWN: &str = "xtask/src/words.rs";

/// Checks everything, and names each place with the better word.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for path in docs::checkout()? {
        let Some(prose) = prose_of(&path) else { continue };
        let file = Path::new(ROOT).join(&path);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {path}"))?;
        for (line, word, instead) in found(&prose(&text)) {
            wrong.push(format!("{path}:{line}: {word:?}; write {instead}"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { bail!("words to avoid:\n  {}", wrong.join("\n  ")) }
}

/// How the prose of a file is found; none if it has none that is checked.
fn prose_of(path: &str) -> Option<fn(&str) -> String> {
    let name = Path::new(path);
    match name.extension()?.to_str()? {
        "md" => Some(of_markdown),
        // Descriptions fill it: all of it is prose.
        "yaml" if path == "schema/generated/crds.yaml" => Some(str::to_owned),
        "yaml" if path.starts_with("deploy/") && !path.starts_with("deploy/chart/crds") => Some(of_yaml),
        "snap" => Some(str::to_owned),
        "rs" if path != OWN && CODE.iter().any(|folder| path.starts_with(&format!("{folder}/"))) => {
            let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
            (!is_test).then_some(of_rust as fn(&str) -> String)
        }
        _ => None,
    }
}

/// The text without code. Lines stay where they are.
fn of_markdown(text: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            let outside = line.split('`').step_by(2).collect::<Vec<_>>();
            prose.push_str(&outside.join(" ` "));
        }
        prose.push('\n');
    }
    prose
}

/// The comments. Lines stay where they are.
fn of_yaml(text: &str) -> String {
    let comment = |line: &str| {
        let trimmed = line.trim_start();
        trimmed.strip_prefix('#').map_or(String::new(), |comment| comment.trim_start_matches('#').to_owned())
    };
    text.lines().map(|line| comment(line) + "\n").collect()
}

/// The strings of the code before its tests. Lines stay where they are.
fn of_rust(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut prose = String::new();
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '\n' => prose.push('\n'),
            '/' if rest.peek() == Some(&'/') => {
                rest.next_if(|letter| *letter != '\n');
                while rest.next_if(|letter| *letter != '\n').is_some() {}
            }
            // A letter between quotes; a lifetime has no quote behind it.
            '\'' => {
                let mut ahead = rest.clone();
                let escaped = ahead.next() == Some('\\');
                if escaped {
                    ahead.next();
                }
                if ahead.next() == Some('\'') {
                    rest = ahead;
                }
            }
            '"' => {
                prose.push_str(" . ");
                while let Some(letter) = rest.next().filter(|letter| *letter != '"') {
                    match letter {
                        // A line that goes on behind a backslash is one sentence.
                        '\\' if rest.peek() == Some(&'\n') => prose.push(' '),
                        '\\' => {
                            rest.next();
                            prose.push(' ');
                        }
                        letter => prose.push(letter),
                    }
                }
                prose.push_str(" . ");
            }
            _ => {}
        }
    }
    prose
}

/// Every word to avoid with its line.
fn found(prose: &str) -> Vec<(usize, &'static str, &'static str)> {
    let mut words: Vec<(String, usize)> = Vec::new();
    for (number, line) in prose.lines().enumerate() {
        let mut line = line.to_owned();
        for quoted in QUOTED {
            line = line.replace(quoted, ".");
        }
        let mut word = String::new();
        for letter in line.chars().chain([' ']) {
            if letter.is_alphanumeric() || letter == '\'' {
                word.extend(letter.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push((std::mem::take(&mut word), number + 1));
            }
            // What a sign divides is no phrase.
            if !letter.is_whitespace() && letter != '*' && letter != '_' {
                words.push((letter.to_string(), number + 1));
            }
        }
    }
    let mut all = Vec::new();
    for (avoided, instead) in AVOID {
        let phrase: Vec<&str> = avoided.split(' ').collect();
        for place in words.windows(phrase.len()) {
            if place.iter().map(|(word, _)| word).eq(phrase.iter()) {
                all.push((place[0].1, avoided, instead));
            }
        }
    }
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(prose: &str) -> Vec<(usize, &'static str)> {
        found(prose).into_iter().map(|(line, word, _)| (line, word)).collect()
    }

    #[test]
    fn words_are_found_whole_and_over_the_end_of_a_line() {
        assert_eq!(lines("It can\nnot be.\nAnew!"), [(1, "can not"), (3, "anew")]);
        assert_eq!(lines("what it can, not what it may; renewed"), []);
        assert_eq!(lines("step 0: a molecule can not be settled"), [], "GROMACS says so");
    }

    #[test]
    fn prose_is_what_people_read() {
        let page = "told\n```\ntold\n```\nuse `told` here\n";
        assert_eq!(lines(&of_markdown(page)), [(1, "told")]);
        let manifest = "# told\nkind: told\n  # not anew\n";
        assert_eq!(lines(&of_yaml(manifest)), [(1, "told"), (3, "anew")]);
        let code = "// told\nlet told = '\"'; say(\"it is \\\n told\");\nlet a: &'a str = \"anew\";\n\
                    #[cfg(test)]\nmod tests { \"whoever\" }\n";
        assert_eq!(lines(&of_rust(code)), [(3, "told"), (4, "anew")]);
    }

    #[test]
    fn the_words_are_the_projects() {
        check().unwrap();
    }
}
