//! The marked blocks of a page, and whether what was printed is what the page shows.

use anyhow::{Context, Result, ensure};

/// Stands in the line before a block that is carried out.
const MARK: &str = "<!-- walk -->";

/// A block of code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Line of the page at which it begins.
    pub(super) line: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Commands of a shell, whose output the page does not show.
    Shell(String),
    /// Commands, each with what it prints.
    Console(Vec<(String, Vec<String>)>),
    /// A file: here always a kustomization.
    Yaml(String),
    /// Statements for the database's admin.
    Sql(String),
}

/// The blocks of a page behind a mark.
pub(super) fn blocks(page: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim() != MARK {
            continue;
        }
        let (_, fence) = lines.next().with_context(|| format!("line {}: nothing is marked", number + 1))?;
        let indent = fence.len() - fence.trim_start().len();
        let language = fence.trim_start().strip_prefix("```");
        let language =
            language.with_context(|| format!("line {}: the mark is not in front of a block", number + 1))?;
        let mut text = String::new();
        for (_, line) in lines.by_ref() {
            if line.trim() == "```" {
                break;
            }
            text.push_str(line.get(indent..).unwrap_or_default());
            text.push('\n');
        }
        let kind = match language {
            "sh" => Kind::Shell(text),
            "yaml" => Kind::Yaml(text),
            "sql" => Kind::Sql(text),
            "" => Kind::Console(console(&text).with_context(|| format!("line {}", number + 2))?),
            other => anyhow::bail!("line {}: blocks of {other} cannot be carried out", number + 2),
        };
        blocks.push(Block { line: number + 2, kind });
    }
    Ok(blocks)
}

/// Commands behind `$ `, each with the lines that follow. One that ends with a backslash goes on in the next line.
fn console(text: &str) -> Result<Vec<(String, Vec<String>)>> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((command, output))) if output.is_empty() && command.ends_with('\\') => {
                command.push('\n');
                command.push_str(line);
            }
            (None, Some((_, output))) => output.push(line.to_owned()),
            (None, None) => anyhow::bail!("the block does not begin with a command"),
        }
    }
    ensure!(!commands.is_empty(), "the block has no command");
    Ok(commands)
}

/// The first line that the page shows and that was not printed, in the page's order. Numbers, times and the width of columns
/// differ from run to run, and more may be printed than is shown.
pub(super) fn missing<'a>(shown: &'a [String], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().map(alike);
    shown.iter().map(String::as_str).filter(|line| !line.trim().is_empty()).find(|line| {
        let line = alike(line);
        !printed.any(|other| other == line)
    })
}

/// A line without what differs from run to run.
fn alike(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        // 8s, 1m12s, 3.5%, 40,000, -2358.03, 2026-11-28, 10:00
        let number = word.strip_prefix('-').unwrap_or(word);
        let is_number = number.starts_with(|first: char| first.is_ascii_digit());
        let is_of_it =
            |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '%' | '.' | ',' | '-' | ':');
        if is_number && number.chars().all(is_of_it) { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_blocks_are_carried_out() {
        let page = "text\n```sh\nno\n```\n1. do\n   <!-- walk -->\n   ```sh\n   helm x \\\n     --y\n   ```\n<!-- walk -->\n```\n$ a b\nc\n$ d\n```\n";
        let expected = [
            Block { line: 7, kind: Kind::Shell("helm x \\\n  --y\n".into()) },
            Block {
                line: 12,
                kind: Kind::Console(vec![("a b".into(), vec!["c".into()]), ("d".into(), Vec::new())]),
            },
        ];
        assert_eq!(blocks(page).unwrap(), expected);
    }

    #[test]
    fn a_command_goes_on_behind_a_backslash() {
        let page = "<!-- walk -->\n```\n$ a \\\n    b\nc \\\nd\n```\n";
        let command = ("a \\\n    b".into(), vec!["c \\".into(), "d".into()]);
        assert_eq!(blocks(page).unwrap(), [Block { line: 2, kind: Kind::Console(vec![command]) }]);
    }

    #[test]
    fn a_mark_without_a_block_is_an_error() {
        for page in [
            "<!-- walk -->\n",
            "<!-- walk -->\n\n```sh\n",
            "<!-- walk -->\n```toml\n```\n",
            "<!-- walk -->\n```\nx\n```\n",
        ] {
            assert!(blocks(page).is_err(), "{page:?}");
        }
    }

    #[test]
    fn numbers_and_columns_may_differ() {
        let shown =
            ["NAME  AGE  MESSAGE".to_owned(), String::new(), "first   8s   attempt 1 is running".to_owned()];
        assert_eq!(missing(&shown, "more\nNAME   AGE   MESSAGE\nfirst 1m12s attempt 2 is running\n"), None);
        let other = "NAME AGE MESSAGE\nfirst 8s attempt 1 was interrupted\n";
        assert_eq!(missing(&shown, other), Some("first   8s   attempt 1 is running"));
        let sums = ["80 -2358.03".to_owned(), "ends at 2027-02-27 10:00 UTC".to_owned()];
        assert_eq!(missing(&sums, "81 -9.5\nends at 2026-12-01 09:59 UTC\n"), None);
        assert!(missing(&sums, "81 -\nends at - 09:59 UTC\n").is_some());
        let order = "first 8s attempt 1 is running\nNAME AGE MESSAGE\n";
        assert!(missing(&shown, order).is_some());
    }
}
