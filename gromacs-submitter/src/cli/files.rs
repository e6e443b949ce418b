//! `files`: lists the folder of a row.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::reader::{SHORT, find, with_reader};
use super::text::{Table, count, json as print_json, terminal_width};
use super::{Outcome, print_line};
use crate::config::{Database, FilesOptions};
use crate::folder::{RemoteFile, list_command, parse_listing};

pub(super) async fn exec(database: &Database, options: &FilesOptions) -> anyhow::Result<Outcome> {
    let Some((folder, _)) = find(database, options.row).await? else { return Ok(Outcome::Failed) };
    let listing = with_reader(&folder, &options.reading, SHORT, async |reader| {
        reader.output(&folder, list_command(&folder)).await
    });
    let files = parse_listing(&listing.await?);
    if options.output.is_json() {
        let files: Vec<Value> = files
            .iter()
            .map(|file| {
                let modified = time(file).map(|time| time.to_string());
                json!({ "name": file.name, "size": file.size, "modified": modified })
            })
            .collect();
        print_line(&print_json(&Value::Array(files)));
    } else {
        for line in table(&files).render(terminal_width()) {
            print_line(&line);
        }
    }
    Ok(Outcome::Done)
}

fn time(file: &RemoteFile) -> Option<Timestamp> {
    Timestamp::from_second(file.modified).ok()
}

fn table(files: &[RemoteFile]) -> Table {
    let mut table = Table::new(&[">BYTES", "CHANGED (UTC)", "NAME"]);
    for file in files {
        let changed = time(file).map_or_else(|| "-".to_owned(), |time| time.strftime("%F %T").to_string());
        table.push(&[count(i64::try_from(file.size).unwrap_or(i64::MAX)), changed, file.name.clone()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_line_up_and_names_move_no_cursor() {
        let file =
            |name: &str, size: u64| RemoteFile { name: name.to_owned(), size, modified: 1_800_000_000 };
        let lines = table(&[file("md.log", 1_234_567), file("evil\u{1b}[2J", 5)]).render(None);
        assert_eq!(
            lines,
            [
                "    BYTES  CHANGED (UTC)        NAME",
                "1,234,567  2027-01-15 08:00:00  md.log",
                "        5  2027-01-15 08:00:00  evil\u{fffd}[2J",
            ]
        );
    }
}
