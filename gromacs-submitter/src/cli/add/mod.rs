//! `add`: puts simulations into the queue.

mod csv;
mod entry;
mod files;
mod inspect;
mod multidir;
mod put;

use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::text::{json as print_json, number_of};
use super::{Outcome, open_current, print_error, print_line};
use crate::config::{AddColumns, AddOptions, Combination, Database, Sweep, texts_of};
use crate::grompp_options;
use crate::mdrun_options::MdrunOptions;
use crate::store::{AddMode, Added, NewRow};
use entry::Entry;

pub(super) async fn exec(database: &Database, mut options: AddOptions) -> anyhow::Result<Outcome> {
    if options.put && options.root.is_none() {
        options.root = Some(PathBuf::from("."));
    }
    let mut entries = entries(&options)?;
    for entry in &mut entries {
        entry.check();
    }
    if let Some(tpr) = &options.tpr {
        let system = inspect::inspect(tpr)?;
        for entry in &mut entries {
            if let Ok(row) = &mut entry.row {
                row.system = system.clone();
            }
        }
    }
    let any_bad = entries.iter().any(|entry| entry.row.is_err());
    let mut brought = None;
    if options.put && (!any_bad || options.keep_going) {
        match Box::pin(put::bring(database, &options, &mut entries)).await? {
            Ok(all) => brought = Some(all).filter(|_| !options.dry_run),
            Err(refusal) => {
                print_error(&format!("{refusal}; nothing was added"));
                return Ok(Outcome::Failed);
            }
        }
    }
    let rows: Vec<NewRow> = entries.iter().filter_map(|entry| entry.row.clone().ok()).collect();
    let mode = AddMode {
        keep_going: options.keep_going,
        skip_existing: options.skip_existing,
        allow_duplicate: options.allow_duplicate,
        // What the database says about the others belongs to the same answer.
        dry_run: options.dry_run || (any_bad && !options.keep_going),
    };
    let store = open_current(database).await?;
    let (fates, committed) = store.add_all(&rows, mode).await?;
    store.close().await;
    let mut fates = fates.into_iter();
    let results: Vec<(Entry, Added)> = entries
        .into_iter()
        .map(|entry| {
            let fate = match &entry.row {
                Ok(_) => fates.next().unwrap_or_else(|| Added::Refused("it was not tried".to_owned())),
                Err(reason) => Added::Refused(reason.clone()),
            };
            (entry, fate)
        })
        .collect();
    let outcome = tell(&options, &results, committed);
    if let Some(brought) = brought.filter(|_| !committed) {
        put::tell_what_lies_there(&options.row.0.persistent_volume_claim, &brought);
    }
    Ok(outcome)
}

/// Prints what became of each, and how many there were of each kind.
fn tell(options: &AddOptions, results: &[(Entry, Added)], committed: bool) -> Outcome {
    let refused = results.iter().filter(|(_, fate)| matches!(fate, Added::Refused(_))).count();
    let skipped = results.iter().filter(|(_, fate)| matches!(fate, Added::Exists { .. })).count();
    let good = results.len() - refused - skipped;
    let would = options.dry_run && (refused == 0 || options.keep_going);
    if options.output.is_json() {
        let rows: Vec<Value> =
            results.iter().map(|(entry, fate)| json_result(entry, fate, committed, would)).collect();
        print_line(&print_json(&Value::Array(rows)));
    } else {
        for (entry, fate) in results {
            match fate {
                Added::Row(row) if committed => print_line(&format!("row {row}: {}", entry.what())),
                Added::Row(_) if would => print_line(&format!("would add {}", entry.named())),
                Added::Row(_) => {}
                Added::Exists { row: Some(row), state } => {
                    print_line(&format!("skipped {}: row {row} has it, {state}", entry.label()));
                }
                Added::Exists { row: None, state } => {
                    print_line(&format!("skipped {}: {state}", entry.label()));
                }
                Added::Refused(reason) => print_error(&format!("{}: {reason}", entry.label())),
            }
        }
        if results.len() > 1 && (committed || would) {
            let verb = if committed { "added" } else { "would add" };
            let mut summary = format!("{verb} {}", number_of(good, "row"));
            for (number, what) in [(skipped, "skipped"), (refused, "refused")] {
                if number > 0 {
                    summary.push_str(&format!(", {number} {what}"));
                }
            }
            print_line(&summary);
        }
    }
    if refused == 0 {
        return Outcome::Done;
    }
    if !options.keep_going {
        let others = if good > 0 { "; --keep-going adds the others" } else { "" };
        print_error(&format!("nothing was added: {} refused{others}", were(refused)));
    }
    Outcome::Failed
}

fn were(number: usize) -> String {
    format!("{} {}", number_of(number, "row"), if number == 1 { "was" } else { "were" })
}

fn json_result(entry: &Entry, fate: &Added, committed: bool, would: bool) -> Value {
    let (result, id, reason) = match fate {
        Added::Row(row) if committed => ("added", Some(*row), None),
        Added::Row(_) if would => ("would add", None, None),
        Added::Row(_) => ("not added", None, Some("another row was refused".to_owned())),
        Added::Exists { row, state } => ("skipped", *row, Some(state.clone())),
        Added::Refused(reason) => ("refused", None, Some(reason.clone())),
    };
    let mut value = json!({ "tpr_path": entry.tpr_path, "result": result, "id": id, "reason": reason });
    if let Some(words) = entry.command() {
        value["tpr_path"] = Value::Null;
        value["command"] = words.into();
    }
    if let Some(line) = entry.line {
        value["line"] = line.into();
    }
    if let Some(values) = &entry.values {
        value["sweep"] = values.as_str().into();
    }
    value
}

/// The rows that are wanted: those of the options, for each combination of what is swept.
fn entries(options: &AddOptions) -> anyhow::Result<Vec<Entry>> {
    if options.sweep.is_empty() {
        return entries_of(options);
    }
    let texts = [options.tpr_path.clone(), options.multidir.clone(), texts_of(&options.row.0)].concat();
    if let Some(name) = Sweep::unused(&options.sweep, &texts) {
        anyhow::bail!("{{{name}}} stands in no path, label or option, so its rows would be the same");
    }
    let mut entries = Vec::new();
    for combination in Sweep::grid(&options.sweep).map_err(anyhow::Error::msg)? {
        let of_values = format!("with {}", combination.shown());
        let options = filled(options, &combination).with_context(|| of_values.clone())?;
        let found = entries_of(&options).with_context(|| of_values.clone())?;
        entries.extend(found.into_iter().map(|entry| Entry { values: Some(combination.shown()), ..entry }));
    }
    Ok(entries)
}

/// The options for one combination of values.
fn filled(options: &AddOptions, combination: &Combination<'_>) -> anyhow::Result<AddOptions> {
    let fill = |texts: &[String]| texts.iter().map(|text| combination.fill(text)).collect();
    let row = combination.fill_row(&options.row.0);
    // A value is no reason to let through what the options themselves must not say.
    if let Some(words) = &row.mdrun_options {
        MdrunOptions::read(words)?;
    }
    if let Some(words) = &row.grompp_options {
        grompp_options::check(words)?;
    }
    Ok(AddOptions {
        tpr_path: fill(&options.tpr_path),
        multidir: fill(&options.multidir),
        row: AddColumns(row),
        sweep: Vec::new(),
        ..options.clone()
    })
}

fn entries_of(options: &AddOptions) -> anyhow::Result<Vec<Entry>> {
    let mut defaults = options.row.0.clone();
    if let Some(root) = &options.root {
        let on_volume = |path: &str, option: &str| {
            files::one(root, path).with_context(|| format!("--{option} names no file"))
        };
        if let Some(path) = defaults.checkpoint_path.as_mut().filter(|_| options.multidir.is_empty()) {
            *path = on_volume(path, "checkpoint")?;
        }
        if let Some(words) = &mut defaults.mdrun_options {
            *words = MdrunOptions::read(words)?.with_files(|path| on_volume(path, "mdrun-options"))?;
        }
    }
    if let Some(from) = &options.from {
        return csv::read(from, &defaults);
    }
    anyhow::ensure!(!defaults.namespace.is_empty(), "--namespace is missing: where the simulation runs");
    anyhow::ensure!(
        !defaults.persistent_volume_claim.is_empty(),
        "--persistent-volume-claim is missing: the volume with the .tpr file"
    );
    if options.command {
        let row = NewRow { command: Some(options.tpr_path.clone()), ..defaults };
        return Ok(vec![Entry { line: None, values: None, tpr_path: String::new(), row: Ok(row) }]);
    }
    if !options.multidir.is_empty() {
        return Ok(vec![multidir::entry(options, defaults)?]);
    }
    let mut paths = options.tpr_path.clone();
    if let Some(tpr) = &options.tpr {
        if paths.is_empty() {
            anyhow::ensure!(
                options.root.is_some(),
                "PATH is missing: where the file of --tpr is on the volume, or --root where the volume is mounted"
            );
            let absolute =
                std::path::absolute(tpr).with_context(|| format!("{} is not a path", tpr.display()))?;
            paths.push(absolute.to_str().context("the path of --tpr is not UTF-8")?.to_owned());
        }
        anyhow::ensure!(paths.len() == 1, "--tpr is about one file; {} were named", paths.len());
    }
    let found = match &options.root {
        Some(root) => files::expand(root, &paths)?,
        None => paths.into_iter().map(|path| (path.clone(), files::literal(path))).collect(),
    };
    Ok(found
        .into_iter()
        .map(|(named, path)| Entry {
            line: None,
            values: None,
            tpr_path: path.clone().unwrap_or(named),
            row: path.map(|tpr_path| NewRow { tpr_path, ..defaults.clone() }),
        })
        .collect())
}
