//! `add --put`: brings the files that rows name onto their volume first.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::ensure;

use super::entry::Entry;
use crate::cli::copied::{changing, named};
use crate::cli::put::{Brought, Order, put, summary};
use crate::cli::text::{number_of, print_note};
use crate::config::{AddOptions, Database};
use crate::mdrun_options::MdrunOptions;
use crate::multidir;
use crate::put::{check_folder, find, path_of};
use crate::store::NewRow;

/// Brings what the rows name, and lets the rows name it where it is then; the message why nothing is brought if something is in
/// the way.
pub(super) async fn bring(
    database: &Database,
    options: &AddOptions,
    entries: &mut [Entry],
) -> anyhow::Result<Result<Brought, String>> {
    let folder = check_folder(options.to.as_deref().unwrap_or_default())?;
    let rows = || entries.iter().filter_map(|entry| entry.row.as_ref().ok());
    let Some(first) = rows().next().cloned() else { return Ok(Err("there is no row to add".to_owned())) };
    let same = |row: &NewRow| {
        row.namespace == first.namespace && row.persistent_volume_claim == first.persistent_volume_claim
    };
    ensure!(
        rows().all(same),
        "--put brings files onto one volume, and the rows name several; add them one volume at a time"
    );
    let names: BTreeSet<String> = rows().flat_map(files_of).collect();
    let root = options.root.as_deref().unwrap_or_else(|| Path::new("."));
    let found = find(root, &names.into_iter().collect::<Vec<_>>())?;
    let order = Order {
        namespace: first.namespace.clone(),
        claim: first.persistent_volume_claim.clone(),
        folder: folder.clone(),
        run_as_user: first.run_as_user,
        run_as_group: first.run_as_group,
        image: first.image.clone(),
        overwrite: false,
        dry_run: options.dry_run,
        files: found.files,
    };
    let brought = match Box::pin(put(database, &order, &options.writing)).await? {
        Ok(brought) => brought,
        refused => return Ok(refused),
    };
    print_note(&summary(&order, &brought));
    if let Some(name) = brought.changing() {
        return Ok(Err(format!("{}; add it again later", changing(name, "here"))));
    }
    for entry in entries.iter_mut() {
        if let Ok(row) = &mut entry.row {
            move_into(row, &folder)?;
            entry.tpr_path.clone_from(&row.tpr_path);
        }
    }
    Ok(Ok(brought))
}

/// The files that a row names, from the root.
fn files_of(row: &NewRow) -> Vec<String> {
    let folders = row.multidir.as_deref().unwrap_or_default();
    let named = std::iter::once(&row.tpr_path).chain(&row.checkpoint_path);
    let mut files: Vec<String> = named.flat_map(|path| multidir::files(path, folders)).collect();
    if let Ok(options) = MdrunOptions::read(row.mdrun_options.as_deref().unwrap_or_default()) {
        files.extend(options.files().map(ToOwned::to_owned));
    }
    files
}

/// Lets a row name its files in a folder of the volume.
fn move_into(row: &mut NewRow, folder: &str) -> anyhow::Result<()> {
    row.tpr_path = path_of(folder, &row.tpr_path)?;
    if let Some(path) = &mut row.checkpoint_path {
        *path = path_of(folder, path)?;
    }
    if let Some(words) = &mut row.mdrun_options {
        *words = MdrunOptions::read(words)?.with_files(|path| path_of(folder, path))?;
    }
    Ok(())
}

/// Says what lies on the volume although nothing was added.
pub(super) fn tell_what_lies_there(claim: &str, brought: &Brought) {
    print_note(&lies_there(claim, brought));
}

fn lies_there(claim: &str, brought: &Brought) -> String {
    let number = brought.paths().count();
    format!(
        "{} on PersistentVolumeClaim {claim} although nothing was added: {}; the next add --put copies none of them again",
        if number == 1 { "1 file lies".to_owned() } else { format!("{} lie", number_of(number, "file")) },
        named(brought.paths())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<Vec<String>> {
        Some(text.split_whitespace().map(ToOwned::to_owned).collect())
    }

    #[test]
    fn all_that_a_row_names_is_brought_and_named_in_its_folder() {
        let mut row = NewRow {
            tpr_path: "ens/topol.tpr".to_owned(),
            multidir: words("sim0 sim1"),
            checkpoint_path: Some("state.cpt".to_owned()),
            mdrun_options: words("-plumed meta/plumed.dat -dlb yes"),
            ..NewRow::default()
        };
        let files = [
            "ens/sim0/topol.tpr",
            "ens/sim1/topol.tpr",
            "sim0/state.cpt",
            "sim1/state.cpt",
            "meta/plumed.dat",
        ];
        assert_eq!(files_of(&row), files);
        move_into(&mut row, "alice/monday").expect("should be short");
        assert_eq!(row.tpr_path, "alice/monday/ens/topol.tpr");
        assert_eq!(row.checkpoint_path.as_deref(), Some("alice/monday/state.cpt"));
        assert_eq!(row.mdrun_options, words("-plumed alice/monday/meta/plumed.dat -dlb yes"));
        let single = NewRow { tpr_path: "topol.tpr".to_owned(), ..NewRow::default() };
        assert_eq!(files_of(&single), ["topol.tpr"]);
    }

    #[test]
    fn what_lies_on_the_volume_is_named() {
        let said = |number: usize| {
            lies_there("simulations", &Brought::of((0..number).map(|it| format!("{it:02}.tpr"))))
        };
        assert_eq!(
            said(1),
            "1 file lies on PersistentVolumeClaim simulations although nothing was added: 00.tpr; the next add --put \
             copies none of them again"
        );
        assert!(said(12).starts_with("12 files lie on"), "{}", said(12));
        assert!(said(12).contains(": 00.tpr, 01.tpr, 02.tpr, 03.tpr, 04.tpr, 7 more; "), "{}", said(12));
    }
}
