//! What follows from the table of columns in the migration: `cargo xtask generate` writes it between its marks.

use std::fmt::Write as _;

use super::{COLUMNS, Column, System, Update, all};
use crate::rules::RULES;
use crate::simulation::MIGRATIONS;

/// The folder of the migrations, relative to the checkout.
const FOLDER: &str = "schema/migrations";

/// What a line begins with, and then the name of a part, above what is generated.
const BEGIN: &str = "-- Generated from schema/src/row: ";

/// The line below it.
const END: &str = "-- End of what is generated.";

/// Longest line of a list.
const WIDTH: usize = 120;

/// Each migration by its file, with all of its parts as the table has them. A part has the columns that its migration adds, so
/// one that was released stays as it is.
///
/// # Errors
/// The name of a part that is not known, or has no end.
pub fn migrations() -> Result<Vec<(String, String)>, String> {
    let migration = |migration: &sqlx::migrate::Migration| {
        let name = migration.description.replace(' ', "_");
        let file = format!("{FOLDER}/{:04}_{name}.sql", migration.version);
        Ok((file, fill(migration.sql.as_str(), migration.version)?))
    };
    MIGRATIONS.iter().map(migration).collect()
}

fn fill(text: &str, version: i64) -> Result<String, String> {
    let mut filled = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        filled.push_str(line);
        filled.push('\n');
        let Some(name) = line.trim_start().strip_prefix(BEGIN) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        for generated in part(name, version).ok_or_else(|| format!("there is no part {name:?}"))?.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(filled, "{indent}{generated}");
        }
        let end = lines.find(|line| line.trim_start() == END);
        let _ = writeln!(filled, "{}", end.ok_or_else(|| format!("the part {name:?} has no end"))?);
    }
    Ok(filled)
}

/// A part of the migration `version`.
fn part(name: &str, version: i64) -> Option<String> {
    let of_version =
        || all().filter(move |column| column.since == version).map(move |column| column.at(version));
    let check = |column: Column| Some((format!("{}_valid", column.name), column.condition()?));
    let others = RULES.iter().filter(move |rule| rule.since == version);
    let others = others.map(|rule| (rule.name.to_owned(), rule.condition.to_owned()));
    let constraint = |(name, condition)| format!("constraint gromacs_to_tune_{name} check ({condition})");
    Some(match name {
        "columns" => of_version().map(|column| definition(column) + ",\n").collect(),
        "checks" => of_version().filter_map(check).chain(others).map(|it| constraint(it) + ",\n").collect(),
        "further columns" => {
            let columns = of_version().map(|column| format!("add column {}", definition(column)));
            let checks =
                of_version().filter_map(check).chain(others).map(|it| format!("add {}", constraint(it)));
            alter(columns.chain(checks))
        }
        "changed columns" => {
            let changed = || {
                all()
                    .filter(move |column| column.before.is_some_and(|before| before.until == version))
                    .copied()
            };
            let changes = changed().filter_map(check).flat_map(|(name, condition)| {
                let drop = format!("drop constraint gromacs_to_tune_{name}");
                [drop, format!("add {}", constraint((name, condition)))]
            });
            alter(changes) + &changed().map(comment).collect::<String>()
        }
        "comments" => of_version().map(comment).collect(),
        "rights" => {
            let inserted = of_version().filter(|column| !column.is_request);
            let updated = of_version().filter(|column| column.update != Update::Never);
            grant("insert", inserted) + &grant("update", updated)
        }
        "trigger of edits" => {
            let known = COLUMNS.iter().filter(|column| column.since <= version);
            let columns = names(known.filter(|column| column.update == Update::AtRest).copied());
            let list = wrap("create trigger gromacs_edit_allowed before update of ", &columns);
            format!("{list}\n    on gromacs_to_tune for each row execute function gromacs_edit_allowed();\n")
        }
        "system of a calibration" => {
            let system = System::default();
            let columns: Vec<String> = system
                .values()
                .map(|it| it.0)
                .filter(|name| *name != "nsteps")
                .map(|name| format!("new.{name}"))
                .collect();
            format!("{}) > 0\n", wrap("if num_nonnulls(", &columns))
        }
        _ => return None,
    })
}

fn alter(changes: impl Iterator<Item = String>) -> String {
    format!("alter table gromacs_to_tune\n    {};\n", changes.collect::<Vec<_>>().join(",\n    "))
}

fn definition(column: Column) -> String {
    let is_filled = column.is_required || column.is_of_tenant || column.default.is_some();
    let mut line = format!("{} {}", column.name, column.kind.sql());
    line.push_str(if is_filled { " not null" } else { "" });
    line + &column.default.map(|default| format!(" default {default}")).unwrap_or_default()
}

fn comment(column: Column) -> String {
    let text = column.comment.replace('\'', "''");
    format!("comment on column gromacs_to_tune.{} is '{text}';\n", column.name)
}

fn grant(right: &str, columns: impl Iterator<Item = Column>) -> String {
    let columns = names(columns);
    if columns.is_empty() {
        return String::new();
    }
    format!("{}) on gromacs_to_tune to gromacs_chemist;\n", wrap(&format!("grant {right} ("), &columns))
}

fn names(columns: impl Iterator<Item = Column>) -> Vec<String> {
    columns.map(|column| column.name.to_owned()).collect()
}

/// A list behind `begin`, in lines of at most [`WIDTH`].
fn wrap(begin: &str, items: &[String]) -> String {
    let mut text = begin.to_owned();
    let mut width = text.len();
    for (place, item) in items.iter().enumerate() {
        let item = if place + 1 == items.len() { item.clone() } else { format!("{item},") };
        if width + 1 + item.len() > WIDTH - 4 {
            text.push_str("\n    ");
            width = 4;
        } else if place > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(&item);
        width += item.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migrations_are_as_the_table_has_them() {
        let filled = migrations().expect("should have every part");
        let written: String = MIGRATIONS.iter().map(|migration| migration.sql.as_str()).collect();
        let generated: String = filled.into_iter().map(|(_, text)| text).collect();
        assert!(generated == written, "run `cargo xtask generate`");
        for name in [
            "columns",
            "checks",
            "further columns",
            "changed columns",
            "comments",
            "rights",
            "trigger of edits",
            "system of a calibration",
        ] {
            assert!(written.contains(&format!("{BEGIN}{name}\n")), "{name}");
        }
    }

    #[test]
    fn each_column_is_added_by_a_migration() {
        for column in all() {
            let found = MIGRATIONS.iter().find(|migration| migration.version == column.since);
            let text = found.map(|migration| migration.sql.as_str()).unwrap_or_default();
            let line = format!("{} {}", column.name, column.kind.sql());
            assert!(
                text.lines().any(|it| it.trim_start().trim_start_matches("add column ").starts_with(&line)),
                "{line}"
            );
        }
    }

    #[test]
    fn a_part_that_nobody_knows_or_ends_is_an_error() {
        assert!(
            fill("-- Generated from schema/src/row: column\n", 18)
                .is_err_and(|error| error.contains("\"column\""))
        );
        assert!(
            fill("-- Generated from schema/src/row: rights\n", 18)
                .is_err_and(|error| error.contains("no end"))
        );
    }
}
