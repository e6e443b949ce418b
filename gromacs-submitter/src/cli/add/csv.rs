//! Rows from a CSV file: the header names columns of the table, an error names line and column.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use scavenger_schema::row::{self, Column, Kind, Value};

use super::Entry;
use crate::config::{deadline, label, texts, words};
use crate::store::{Labels, NewRow};

/// Reads `from`, or stdin if it is `-`.
pub(super) fn read(from: &Path, defaults: &NewRow) -> anyhow::Result<Vec<Entry>> {
    let mut content = Vec::new();
    if from == Path::new("-") {
        std::io::stdin().read_to_end(&mut content).context("stdin cannot be read")?;
    } else {
        content = std::fs::read(from).with_context(|| format!("--from {} cannot be read", from.display()))?;
    }
    parse(&content, defaults)
}

fn parse(content: &[u8], defaults: &NewRow) -> anyhow::Result<Vec<Entry>> {
    // Spreadsheets begin their files with a byte order mark.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(content);
    let header: Vec<String> = reader
        .headers()
        .context("line 1 cannot be read")?
        .iter()
        .map(|name| name.trim().to_owned())
        .collect();
    let columns = columns(&header)?;
    let has_commands = columns.iter().any(|column| column.name == COMMAND);
    let is_there = |needed: &&Column| columns.contains(needed) || (has_commands && needed.name == FILE);
    if let Some(missing) = empty(defaults).find(|needed| !is_there(needed)) {
        let option = match missing.flag.long {
            "" => String::new(),
            long => format!(", and there is no --{long}"),
        };
        bail!("line 1: the header has no column {}{option}", missing.name);
    }
    let mut entries = Vec::new();
    let mut record = csv::ByteRecord::new();
    loop {
        let more = reader.read_byte_record(&mut record);
        if !more.context("the file is not CSV")? {
            break;
        }
        let line = record.position().map(csv::Position::line);
        let mut row = defaults.clone();
        let result = fill(&mut row, &record, &columns);
        entries.push(Entry { line, values: None, tpr_path: row.tpr_path.clone(), row: result.map(|()| row) });
    }
    anyhow::ensure!(!entries.is_empty(), "the file has a header and no rows");
    Ok(entries)
}

/// A row has one of them.
const FILE: &str = "tpr_path";
const COMMAND: &str = "command";

/// Its values may hold blanks.
const SETTINGS: &str = "mdp_options";

/// Columns that a row must have and has not.
fn empty(row: &NewRow) -> impl Iterator<Item = &'static Column> + use<> {
    let nothing = Value::Text(String::new());
    let needs_no_file = row.command.is_some();
    row.values()
        .filter(move |(column, value)| column.is_required && value.as_ref() == Some(&nothing))
        .map(|it| it.0)
        .filter(move |column| !(needs_no_file && column.name == FILE))
}

fn columns(header: &[String]) -> anyhow::Result<Vec<&'static Column>> {
    let mut columns: Vec<&'static Column> = Vec::new();
    for name in header {
        let Some(column) = row::column(name) else {
            let known: Vec<&str> = row::COLUMNS.iter().map(|column| column.name).collect();
            let hint = if name.contains([';', '\t']) { "; write commas between cells" } else { "" };
            bail!("line 1: unknown column {name:?}{hint}; the columns are: {}", known.join(", "));
        };
        if columns.contains(&column) {
            bail!("line 1: column {name} is given twice; remove one");
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Every cell is looked at, so that one look tells everything that is wrong with the line.
fn fill(row: &mut NewRow, record: &csv::ByteRecord, columns: &[&'static Column]) -> Result<(), String> {
    if record.len() != columns.len() {
        return Err(format!("the line has {} cells, the header has {}", record.len(), columns.len()));
    }
    let mut wrong = Vec::new();
    for (column, cell) in columns.iter().zip(record) {
        let result = match std::str::from_utf8(cell) {
            Err(_) => Err("it is not UTF-8".to_owned()),
            Ok(cell) if cell.contains('\0') => Err("it holds a zero byte".to_owned()),
            Ok("") => continue,
            Ok(cell) => value(column, cell),
        };
        match result {
            Ok(value) => row.set(column.name, value),
            Err(why) => wrong.push(format!("column {}: {why}", column.name)),
        }
    }
    for column in empty(row) {
        if !wrong.iter().any(|why| why.starts_with(&format!("column {}:", column.name))) {
            wrong.push(format!("column {}: it is empty", column.name));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// What a cell says.
fn value(column: &Column, cell: &str) -> Result<Value, String> {
    match column.kind {
        Kind::Text => Ok(Value::Text(cell.to_owned())),
        Kind::Integer => number(cell, "an integer, or is out of range").map(Value::Integer),
        Kind::Bigint => number(cell, "an integer, or is out of range").map(Value::Bigint),
        Kind::Real => number(cell, "a number").map(Value::Real),
        Kind::Boolean => flag(cell).map(Value::Boolean),
        Kind::Texts => texts(column.name, cell).map(Value::Texts),
        Kind::Integers => list(cell).map(Value::Integers),
        Kind::Bigints => list(cell).map(Value::Bigints),
        Kind::Reals => list(cell).map(Value::Reals),
        Kind::Labels => {
            // `T=310 lambda=0.3`, and quoted as in a shell `'ref-t=300 300'`
            let words = if column.name == SETTINGS {
                words(cell)?
            } else {
                cell.split_whitespace().map(ToOwned::to_owned).collect()
            };
            let pairs = words.iter().map(|word| label(word)).collect::<Result<_, _>>()?;
            Ok(Value::Labels(Labels(pairs)))
        }
        Kind::Time => {
            let read = deadline(cell.trim()).map(Value::Time);
            read.map_err(|explain| format!("{} is not a time; {explain}", quote(cell)))
        }
    }
}

/// Shortens what is repeated in a message.
fn quote(cell: &str) -> String {
    format!("{:?}", super::super::text::cut(cell, 60))
}

fn number<T: FromStr>(cell: &str, what: &str) -> Result<T, String> {
    // Blanks around a number mean nothing.
    cell.trim().parse().map_err(|_| format!("{} is not {what}", quote(cell)))
}

fn list<T: FromStr>(cell: &str) -> Result<Vec<T>, String> {
    // As a person writes them, 3.0 3.0 3.0, or as Postgres does, {3.0,3.0,3.0}.
    let inner = cell.trim().trim_start_matches('{').trim_end_matches('}');
    let values: Option<Vec<T>> = inner
        .split(|character: char| character == ',' || character.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().ok())
        .collect();
    values.ok_or_else(|| format!("{} is not a list of numbers; write for example 3 3 3", quote(cell)))
}

fn flag(cell: &str) -> Result<bool, String> {
    match cell.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "1" => Ok(true),
        "false" | "f" | "no" | "0" => Ok(false),
        _ => Err(format!("{} is neither true nor false", quote(cell))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> NewRow {
        NewRow {
            namespace: "chem".to_owned(),
            persistent_volume_claim: "data".to_owned(),
            priority: Some(1),
            ..NewRow::default()
        }
    }

    #[test]
    fn columns_are_filled_by_name_and_the_rest_by_the_options() {
        let content = "\u{feff}tpr_path, priority,box_nm,pme_grid,gpu_pme,namespace\n\
                       a.tpr,5,3 3.5 3,\"{25,25,25}\",true,lab\n\
                       \"b, c.tpr\",,,,,\n";
        let entries = parse(content.as_bytes(), &defaults()).expect("should be a good file");
        let rows: Vec<&NewRow> =
            entries.iter().map(|entry| entry.row.as_ref().expect("should be good")).collect();
        assert_eq!(rows[0].namespace, "lab");
        assert_eq!(rows[0].priority, Some(5));
        assert_eq!(rows[0].system.box_nm, Some(vec![3.0, 3.5, 3.0]));
        assert_eq!(rows[0].system.pme_grid, Some(vec![25, 25, 25]));
        assert_eq!(rows[0].system.gpu_pme, Some(true));
        assert_eq!(
            (rows[1].tpr_path.as_str(), rows[1].priority, rows[1].namespace.as_str()),
            ("b, c.tpr", Some(1), "chem")
        );
        assert_eq!(entries[1].line, Some(3));
    }

    #[test]
    fn an_error_names_line_and_column() {
        let content = b"tpr_path,priority,dt_ps,gpu_pme\na.tpr,high,x,maybe\nb.tpr,1\n,,,\nc.tpr,99999999999,,\n\xff.tpr,,,\nd\0.tpr,,,\n";
        let entries = parse(content, &defaults()).expect("should be a table");
        let wrong: Vec<(u64, String)> = entries
            .into_iter()
            .map(|entry| (entry.line.unwrap_or(0), entry.row.expect_err("should be wrong")))
            .collect();
        for (found, (line, words)) in wrong.iter().zip([
            (
                2,
                vec![
                    "column priority: \"high\"",
                    "column dt_ps: \"x\" is not a number",
                    "column gpu_pme: \"maybe\"",
                ],
            ),
            (3, vec!["2 cells, the header has 4"]),
            (4, vec!["column tpr_path: it is empty"]),
            (5, vec!["column priority", "out of range"]),
            (6, vec!["column tpr_path: it is not UTF-8"]),
            (7, vec!["column tpr_path: it holds a zero byte"]),
        ]) {
            assert_eq!(found.0, line);
            assert!(words.iter().all(|word| found.1.contains(word)), "{found:?}");
        }
    }

    #[test]
    fn a_header_that_is_none_is_refused_as_a_whole() {
        for (content, words) in [
            ("", "no column tpr_path"),
            ("tpr_path\n", "no rows"),
            ("tpr_path,owner\na,b\n", "unknown column \"owner\""),
            ("tpr_path;priority\na;1\n", "write commas between cells"),
            ("tpr_path,tpr_path\na,b\n", "twice"),
            ("priority\n1\n", "no column tpr_path"),
        ] {
            let error = parse(content.as_bytes(), &defaults()).err().expect("should be refused").to_string();
            assert!(error.contains(words), "{content:?}: {error}");
        }
        let error = parse(b"tpr_path\na.tpr\n", &NewRow::default()).err().expect("should be refused");
        assert!(error.to_string().contains("no --namespace"), "{error}");
    }
}
