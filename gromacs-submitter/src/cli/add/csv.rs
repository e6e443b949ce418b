//! Rows from a CSV file: the header names columns of the table, an error names line and column.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail};

use super::Entry;
use crate::gmx_options::OptionError;
use crate::grompp_options;
use crate::mdrun_options::MdrunOptions;
use crate::store::{Labels, Moment, NewRow};

/// Fills one column of a row from a cell.
type Fill = fn(&mut NewRow, &str) -> Result<(), String>;

/// Every column that a user may give.
const COLUMNS: [(&str, Fill); 46] = [
    ("namespace", |row, cell| text(&mut row.namespace, cell)),
    ("persistent_volume_claim", |row, cell| text(&mut row.persistent_volume_claim, cell)),
    ("tpr_path", |row, cell| text(&mut row.tpr_path, cell)),
    ("multidir", |row, cell| folders(&mut row.multidir, cell)),
    ("image", |row, cell| number(&mut row.image, cell)),
    ("run_as_user", |row, cell| number(&mut row.run_as_user, cell)),
    ("run_as_group", |row, cell| number(&mut row.run_as_group, cell)),
    ("priority", |row, cell| number(&mut row.priority, cell)),
    ("max_cpu_millicores", |row, cell| number(&mut row.max_cpu_millicores, cell)),
    ("max_memory_bytes", |row, cell| number(&mut row.max_memory_bytes, cell)),
    ("max_gpus", |row, cell| number(&mut row.max_gpus, cell)),
    ("min_cpu_millicores", |row, cell| number(&mut row.min_cpu_millicores, cell)),
    ("min_ns_per_day", |row, cell| number(&mut row.min_ns_per_day, cell)),
    ("min_efficiency", |row, cell| number(&mut row.ladder_settings.min_efficiency, cell)),
    ("max_configurations", |row, cell| number(&mut row.ladder_settings.max_configurations, cell)),
    ("gpu_price", |row, cell| number(&mut row.ladder_settings.gpu_price, cell)),
    ("memory_price", |row, cell| number(&mut row.ladder_settings.memory_price, cell)),
    ("interruption_after_seconds", |row, cell| number(&mut row.interruption_after_seconds, cell)),
    ("fallback_after_seconds", |row, cell| number(&mut row.fallback_after_seconds, cell)),
    ("append", |row, cell| flag(&mut row.append, cell)),
    ("checkpoint_path", |row, cell| number(&mut row.checkpoint_path, cell)),
    ("mdrun_options", |row, cell| words(&mut row.mdrun_options, MdrunOptions::words(cell))),
    ("grompp_options", |row, cell| words(&mut row.grompp_options, grompp_options::words(cell))),
    ("node_labels", |row, cell| labels(&mut row.node_labels, cell)),
    ("deadline", |row, cell| deadline(&mut row.deadline, cell)),
    ("project", |row, cell| number(&mut row.project, cell)),
    ("labels", |row, cell| labels(&mut row.labels, cell)),
    ("held", |row, cell| flag(&mut row.held, cell)),
    ("after", |row, cell| list(&mut row.after, cell)),
    ("atoms", |row, cell| number(&mut row.system.atoms, cell)),
    ("box_nm", |row, cell| list(&mut row.system.box_nm, cell)),
    ("nsteps", |row, cell| number(&mut row.system.nsteps, cell)),
    ("init_step", |row, cell| number(&mut row.system.init_step, cell)),
    ("dt_ps", |row, cell| number(&mut row.system.dt_ps, cell)),
    ("cutoff_nm", |row, cell| number(&mut row.system.cutoff_nm, cell)),
    ("rlist_nm", |row, cell| number(&mut row.system.rlist_nm, cell)),
    ("nstlist", |row, cell| number(&mut row.system.nstlist, cell)),
    ("pme_grid", |row, cell| list(&mut row.system.pme_grid, cell)),
    ("pme_order", |row, cell| number(&mut row.system.pme_order, cell)),
    ("bonded_interactions", |row, cell| number(&mut row.system.bonded_interactions, cell)),
    ("constraints", |row, cell| number(&mut row.system.constraints, cell)),
    ("gpu_nonbonded", |row, cell| flag(&mut row.system.gpu_nonbonded, cell)),
    ("gpu_pme", |row, cell| flag(&mut row.system.gpu_pme, cell)),
    ("gpu_bonded", |row, cell| flag(&mut row.system.gpu_bonded, cell)),
    ("gpu_update", |row, cell| flag(&mut row.system.gpu_update, cell)),
    ("gromacs_version", |row, cell| number(&mut row.system.gromacs_version, cell)),
];

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
    for (needed, default) in [
        ("tpr_path", ""),
        ("namespace", &defaults.namespace),
        ("persistent_volume_claim", &defaults.persistent_volume_claim),
    ] {
        if default.is_empty() && !header.iter().any(|name| name == needed) {
            let option = if needed == "tpr_path" {
                String::new()
            } else {
                format!(", and there is no --{}", needed.replace('_', "-"))
            };
            bail!("line 1: the header has no column {needed}{option}");
        }
    }
    let mut entries = Vec::new();
    let mut record = csv::ByteRecord::new();
    loop {
        let more = reader.read_byte_record(&mut record);
        if !more.context("the file is not CSV")? {
            break;
        }
        let line = record.position().map(csv::Position::line);
        let mut row = NewRow { tpr_path: String::new(), ..defaults.clone() };
        let result = fill(&mut row, &record, &columns);
        entries.push(Entry { line, tpr_path: row.tpr_path.clone(), row: result.map(|()| row) });
    }
    anyhow::ensure!(!entries.is_empty(), "the file has a header and no rows");
    Ok(entries)
}

fn columns(header: &[String]) -> anyhow::Result<Vec<(&'static str, Fill)>> {
    let mut columns: Vec<(&'static str, Fill)> = Vec::new();
    for name in header {
        let Some(column) = COLUMNS.iter().find(|(column, _)| column == name) else {
            let known: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
            let hint = if name.contains([';', '\t']) { "; write commas between cells" } else { "" };
            bail!("line 1: unknown column {name:?}{hint}; the columns are: {}", known.join(", "));
        };
        if columns.iter().any(|(known, _)| known == &column.0) {
            bail!("line 1: column {name} is given twice; remove one");
        }
        columns.push(*column);
    }
    Ok(columns)
}

/// Every cell is looked at, so that one look tells everything that is wrong with the line.
fn fill(row: &mut NewRow, record: &csv::ByteRecord, columns: &[(&'static str, Fill)]) -> Result<(), String> {
    if record.len() != columns.len() {
        return Err(format!("the line has {} cells, the header has {}", record.len(), columns.len()));
    }
    let mut wrong = Vec::new();
    for ((name, fill), cell) in columns.iter().zip(record) {
        let result = match std::str::from_utf8(cell) {
            Err(_) => Err("it is not UTF-8".to_owned()),
            Ok(cell) if cell.contains('\0') => Err("it holds a zero byte".to_owned()),
            Ok("") => Ok(()),
            Ok(cell) => fill(row, cell),
        };
        if let Err(why) = result {
            wrong.push(format!("column {name}: {why}"));
        }
    }
    for (name, value) in [
        ("namespace", &row.namespace),
        ("persistent_volume_claim", &row.persistent_volume_claim),
        ("tpr_path", &row.tpr_path),
    ] {
        if value.is_empty() && !wrong.iter().any(|why| why.starts_with(&format!("column {name}:"))) {
            wrong.push(format!("column {name}: it is empty"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn text(column: &mut String, cell: &str) -> Result<(), String> {
    cell.clone_into(column);
    Ok(())
}

/// Shortens what is repeated in a message.
fn quote(cell: &str) -> String {
    format!("{:?}", super::super::text::cut(cell, 60))
}

fn number<T: FromStr>(column: &mut Option<T>, cell: &str) -> Result<(), String> {
    // Blanks around a number mean nothing; around a name they would be part of it.
    let parsed = cell.parse().or_else(|_| cell.trim().parse());
    *column = Some(parsed.map_err(|_| {
        let kind = std::any::type_name::<T>();
        if kind == "f64" {
            format!("{} is not a number", quote(cell))
        } else {
            format!("{} is not an integer, or is out of range", quote(cell))
        }
    })?);
    Ok(())
}

fn list<T: FromStr>(column: &mut Option<Vec<T>>, cell: &str) -> Result<(), String> {
    // As a person writes them, 3.0 3.0 3.0, or as Postgres does, {3.0,3.0,3.0}.
    let inner = cell.trim().trim_start_matches('{').trim_end_matches('}');
    let values: Option<Vec<T>> = inner
        .split(|character: char| character == ',' || character.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().ok())
        .collect();
    *column = Some(
        values.ok_or_else(|| format!("{} is not a list of numbers; write for example 3 3 3", quote(cell)))?,
    );
    Ok(())
}

fn flag(column: &mut Option<bool>, cell: &str) -> Result<(), String> {
    *column = Some(match cell.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "1" => true,
        "false" | "f" | "no" | "0" => false,
        _ => return Err(format!("{} is neither true nor false", quote(cell))),
    });
    Ok(())
}

/// `-dlb yes -plumed meta/plumed.dat`.
fn words(column: &mut Option<Vec<String>>, words: Result<Vec<String>, OptionError>) -> Result<(), String> {
    *column = Some(words.map_err(|error| error.to_string())?);
    Ok(())
}

/// `3d`, `2026-11-28T08:00:00Z`.
fn deadline(value: &mut Option<Moment>, cell: &str) -> Result<(), String> {
    let read = crate::config::deadline(cell.trim());
    *value = Some(read.map_err(|explain| format!("{} is not a time; {explain}", quote(cell)))?);
    Ok(())
}

/// `sim0 sim1 sim2`.
fn folders(column: &mut Option<Vec<String>>, cell: &str) -> Result<(), String> {
    *column = Some(cell.split_whitespace().map(ToOwned::to_owned).collect());
    Ok(())
}

/// `T=310 lambda=0.3`.
fn labels(value: &mut Option<Labels>, cell: &str) -> Result<(), String> {
    let pairs = cell.split_whitespace().map(crate::config::label).collect::<Result<_, _>>()?;
    *value = Some(Labels(pairs));
    Ok(())
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
