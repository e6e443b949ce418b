//! The words of the project: what users read says the same thing in the same plain words. Checked are the pages and their
//! pictures, comments in manifests, alerts, descriptions of the CRDs and of the crates, help pages, messages and log lines in
//! the code, and what the migrations write into the database.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{docs, shell::ROOT};

/// Words to avoid, and what to write instead. Several words follow each other in the text, on one line or on two.
const AVOID: [(&str, &str); 25] = [
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
    ("room", "capacity"),
    ("rung", "configuration"),
    ("rungs", "configurations"),
    ("lap", "retry cycle"),
    ("laps", "retry cycles"),
    ("sentence", "message"),
    ("hang", "stop, does not answer, does not end"),
    ("hangs", "has stopped, does not answer, does not end"),
    ("tell apart", "distinguish"),
    ("tells apart", "distinguishes"),
    ("climb down", "fall back"),
    ("climbs down", "falls back"),
    ("round in circles", "what happens again and again"),
];

/// What is right as it is: messages of other programs, which are recognised by them, and what is said of language.
const QUOTED: [&str; 3] = ["can not be settled", "can not run on the GPU", "one statement per sentence"];

/// Beginnings of statements and lists of columns, whose names look like words.
const SQL: [&str; 6] = ["select ", "insert ", "update ", "delete ", "with ", "id, "];

/// Migrations, whose comments of columns replace each other: only the last one of a column is read.
const MIGRATIONS: &str = "schema/migrations/";

/// Folders of code whose strings are messages.
const CODE: [&str; 20] = [
    "gromacs-submitter/src",
    "operator/forecast/src",
    "operator/laboratory/src",
    "operator/node-agent/cgroups/src",
    "operator/node-agent/src",
    "operator/planner/src",
    "operator/recording/src",
    "operator/reporting/src",
    "operator/specs/src",
    "operator/src",
    "operator/supervisor/src",
    "program/src",
    "schema/src",
    "tuner/lab/src",
    "tuner/model/src",
    "tuner/src",
    "vocabulary/src",
    "workloads/counter/src",
    "xtask/guest/src",
    "xtask/src",
];

/// This file names the words.
const OWN: &str = "xtask/src/words.rs";

/// Checks everything, and names each place with the better word.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    let read = |path: &str| {
        fs::read_to_string(Path::new(ROOT).join(path)).with_context(|| format!("cannot read {path}"))
    };
    let mut checkout = docs::checkout()?;
    checkout.sort_unstable();
    for path in checkout {
        let text = read(&path);
        let prose = if path.starts_with(MIGRATIONS) {
            of_migration(&text?)
        } else if let Some(prose) = prose_of(&path) {
            prose(&text?)
        } else {
            continue;
        };
        for (line, word, instead) in found(&prose) {
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
        // So do the alerts' summaries; expressions are made of names.
        "yaml" if path == "deploy/monitoring/rules.yaml" => Some(str::to_owned),
        "yaml" if path.starts_with("deploy/") && !path.starts_with("deploy/chart/crds") => Some(of_yaml),
        "snap" => Some(str::to_owned),
        "svg" if path.starts_with("docs/") => Some(of_picture),
        "toml" if name.ends_with("Cargo.toml") => Some(of_crate),
        "rs" if path != OWN && CODE.iter().any(|folder| path.starts_with(&format!("{folder}/"))) => {
            let is_test = path.contains("/tests/")
                || ["/tests.rs", "/fixtures.rs"].iter().any(|end| path.ends_with(end));
            (!is_test).then_some(of_code as fn(&str) -> String)
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

/// What a picture shows and what a screen reader reads: all that is outside of tags. Lines stay where they are.
fn of_picture(text: &str) -> String {
    let mut prose = String::new();
    for part in text.split('<') {
        let (tag, outside) = part.split_once('>').unwrap_or((part, ""));
        prose.push_str(&"\n".repeat(tag.matches('\n').count()));
        // Texts of two tags are two phrases.
        prose.push_str(" . ");
        prose.push_str(outside);
    }
    prose
}

/// What cargo and the images say of a crate. Lines stay where they are.
fn of_crate(text: &str) -> String {
    let description = |line: &str| line.strip_prefix("description = ").unwrap_or_default().to_owned();
    text.lines().map(|line| description(line) + "\n").collect()
}

/// The comments. Lines stay where they are.
fn of_yaml(text: &str) -> String {
    let comment = |line: &str| {
        let trimmed = line.trim_start();
        trimmed.strip_prefix('#').map_or(String::new(), |comment| comment.trim_start_matches('#').to_owned())
    };
    text.lines().map(|line| comment(line) + "\n").collect()
}

/// The strings of a migration, among them the comments of columns; `--` comments are for those who write migrations. Lines
/// stay where they are.
fn of_migration(text: &str) -> String {
    let strings = |line: &str| {
        let mut prose = String::new();
        // Two quotes in a row are one quote of the text.
        for (number, part) in line.replace("''", "\u{2019}").split('\'').enumerate() {
            let is_text = number % 2 == 1;
            if !is_text && part.contains("--") {
                break;
            }
            if is_text && !is_name(part) {
                prose.push_str(part);
                prose.push_str(" . ");
            }
        }
        prose
    };
    text.lines().map(|line| strings(line) + "\n").collect()
}

/// A string without a blank is a name, such as that of a column, and no message.
fn is_name(text: &str) -> bool {
    !text.trim().contains(char::is_whitespace)
}

/// The lines of a string of the code that is a message; empty lines if it is a name or a statement.
fn message(text: &str) -> String {
    if is_name(text) || SQL.iter().any(|keyword| text.starts_with(keyword)) {
        return "\n".repeat(text.matches('\n').count());
    }
    // Names of values stand in braces.
    text.split('{')
        .map(|part| part.split_once('}').map_or(part, |(_, text)| text))
        .collect::<Vec<_>>()
        .join(".")
}

/// Traits of clap. The comments of a type that derives one are a program's help page.
const OF_HELP: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

/// What the code says to users: its strings, and its help pages. Lines stay where they are.
fn of_code(text: &str) -> String {
    let (messages, help) = (of_rust(text), of_help(text));
    let messages = messages.lines().chain(std::iter::repeat(""));
    help.lines().zip(messages).map(|(help, messages)| format!("{help}{messages}\n")).collect()
}

/// The help pages: the comments of types that clap reads, and of their fields. Lines stay where they are.
fn of_help(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut prose = vec![""; lines.len()];
    let is_help = |line: &str| {
        let mut names = line.split(|letter: char| !letter.is_alphanumeric());
        line.starts_with("#[derive(") && names.any(|name| OF_HELP.contains(&name))
    };
    for derive in (0..lines.len()).filter(|derive| is_help(lines[*derive])) {
        let above =
            lines[..derive].iter().rposition(|line| !line.starts_with("///") && !line.starts_with('#'));
        let below = lines[derive..].iter().position(|line| line.starts_with('}'));
        let end = below.map_or(lines.len(), |below| derive + below);
        for number in above.map_or(0, |above| above + 1)..end {
            prose[number] = lines[number].trim_start().strip_prefix("///").unwrap_or_default();
        }
    }
    prose.join("\n") + "\n"
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
                let mut text = String::new();
                while let Some(letter) = rest.next().filter(|letter| *letter != '"') {
                    match letter {
                        // A line that goes on behind a backslash is one sentence.
                        '\\' if rest.peek() == Some(&'\n') => text.push(' '),
                        '\\' => {
                            rest.next();
                            text.push(' ');
                        }
                        letter => text.push(letter),
                    }
                }
                prose.push_str(" . ");
                prose.push_str(&message(&text));
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
        // A flag is a name: --no-rung.
        let is_flag = |text: &str| text.trim_start_matches(['[', '(', '\'', '<']).starts_with("--");
        let line =
            line.split(' ').map(|text| if is_flag(text) { "." } else { text }).collect::<Vec<_>>().join(" ");
        let mut word = String::new();
        for letter in line.chars().chain([' ']) {
            // A word with _ in it is a name: next_rung.
            if letter.is_alphanumeric() || letter == '\'' || letter == '_' && !word.is_empty() {
                word.extend(letter.to_lowercase());
                continue;
            }
            if !word.is_empty() {
                words.push((std::mem::take(&mut word).trim_end_matches('_').to_owned(), number + 1));
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
        assert_eq!(lines("it hangs,\nand none tells\napart"), [(1, "hangs"), (2, "tells apart")]);
        assert_eq!(lines("step 0: a molecule can not be settled"), [], "GROMACS says so");
    }

    #[test]
    fn prose_is_what_people_read() {
        let page = "told\n```\ntold\n```\nuse `told` here\n";
        assert_eq!(lines(&of_markdown(page)), [(1, "told")]);
        let manifest = "# told\nkind: told\n  # not anew\n";
        assert_eq!(lines(&of_yaml(manifest)), [(1, "told"), (3, "anew")]);
        let code = "// told\nlet told = '\"'; say(\"it is \\\n told\");\nlet a: &'a str = \"{told} anew\";\n\
                    #[cfg(test)]\nmod tests { \"whoever\" }\n";
        assert_eq!(lines(&of_rust(code)), [(3, "told"), (4, "anew")]);
    }

    #[test]
    fn help_pages_are_read() {
        let code = "/// Says what is told.\nfn say() {}\n\n/// Run anew\n#[derive(Debug, clap::Args)]\n\
                    #[command(version)]\nstruct Options {\n    /// Ends by\n    /// itself\n    #[arg(long)]\n    \
                    flag: bool,\n}\n\n/// For whoever reads.\nstruct Other;\n";
        let prose = prose_of("operator/src/cli/guard.rs").unwrap();
        assert_eq!(lines(&prose(code)), [(4, "anew"), (8, "by itself")]);
    }

    #[test]
    fn pictures_and_descriptions_of_crates_are_read() {
        let picture = prose_of("docs/pictures/life.svg").unwrap();
        let text = "<svg room=\"room\"\n  width=\"1\">\n<text>no room</text><text>it can</text><text>not run</text></svg>\n";
        assert_eq!(lines(&picture(text)), [(3, "room")]);
        let manifest = prose_of("gromacs-submitter/Cargo.toml").unwrap();
        assert_eq!(
            lines(&manifest("name = \"rung\"\ndescription = \"Climbs down\"\n")),
            [(2, "climbs down")]
        );
    }

    #[test]
    fn alerts_and_log_lines_are_read() {
        let prose = prose_of("deploy/monitoring/rules.yaml").unwrap();
        let alert = "expr: max(room_bytes) > 0\nsummary: No room\n";
        assert_eq!(lines(&prose(alert)), [(2, "room")]);
        let prose = prose_of("operator/src/controller/mod.rs").unwrap();
        assert_eq!(lines(&prose("warn!(%error, \"no room, tries again\");")), [(1, "room")]);
    }

    #[test]
    fn names_are_no_prose() {
        let code = "[\"rung\", \"select rung\n from told\"];\n\"no rung\";\n";
        assert_eq!(lines(&of_rust(code)), [(3, "rung")]);
        assert_eq!(lines("--no-rung [env: NO_RUNG] next_rung _rung_"), [(1, "rung")]);
    }

    #[test]
    fn of_a_migration_strings_are_read() {
        let text = "-- no room\ncomment on column a.b is 'No room: --a.';\nfoo('room', 'No''s room'); -- 'no room'\n";
        assert_eq!(lines(&of_migration(text)), [(2, "room"), (3, "room")]);
    }
}
