//! Which row uses a file of a volume, as far as its columns say so.

use std::collections::BTreeSet;

use crate::mdrun_options::MdrunOptions;
use crate::multidir;
pub use crate::store::InUse;

/// A file of these `paths` that one of the rows uses, and the row. A row that makes its .tpr file uses the whole folder: what grompp
/// includes stands in the files.
#[must_use]
pub fn used<'a>(rows: &[InUse], paths: &'a BTreeSet<String>) -> Option<(&'a str, i64)> {
    rows.iter().find_map(|row| Some((used_by(row, paths)?, row.id)))
}

fn used_by<'a>(row: &InUse, paths: &'a BTreeSet<String>) -> Option<&'a str> {
    let named = std::iter::once(&row.tpr_path).chain(&row.checkpoint_path);
    let mut files: Vec<String> = named.flat_map(|path| multidir::files(path, &row.multidir)).collect();
    if let Ok(options) = MdrunOptions::read(&row.mdrun_options) {
        files.extend(options.files().map(ToOwned::to_owned));
    }
    let beside = row.tpr_path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_made = !row.grompp_options.is_empty();
    files
        .iter()
        .find_map(|file| paths.get(file))
        .or_else(|| paths.iter().find(|path| is_made && is_below(beside, path)))
        .map(String::as_str)
}

fn is_below(folder: &str, path: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn a_file_is_used_by_the_rows_that_name_it() {
        let row = InUse { id: 1, tpr_path: "a/topol.tpr".to_owned(), ..InUse::default() };
        let rows = [
            InUse { checkpoint_path: Some("old/state.cpt".to_owned()), ..row.clone() },
            InUse {
                id: 2,
                multidir: words("sim0 sim1"),
                tpr_path: "ens/topol.tpr".to_owned(),
                ..row.clone()
            },
            InUse { id: 3, mdrun_options: words("-plumed meta/plumed.dat"), ..row.clone() },
            InUse {
                id: 4,
                grompp_options: words("-f a.mdp -c a.gro -p a.top"),
                tpr_path: "made/a.tpr".to_owned(),
                ..row
            },
        ];
        for (path, user) in [
            ("a/topol.tpr", Some(1)),
            ("old/state.cpt", Some(1)),
            ("a/other.tpr", None),
            ("ens/topol.tpr", None),
            ("ens/sim1/topol.tpr", Some(2)),
            ("meta/plumed.dat", Some(3)),
            ("made/forcefield/water.itp", Some(4)),
            ("made-too/x", None),
        ] {
            let paths = BTreeSet::from([path.to_owned(), "another/a.tpr".to_owned()]);
            assert_eq!(used(&rows, &paths), user.map(|user| (path, user)), "{path}");
        }
    }
}
