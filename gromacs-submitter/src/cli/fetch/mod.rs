//! `fetch`: copies files of rows to this machine.

mod print;
mod row;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::ensure;

use super::copied::Fate;
use super::pod::{Interrupted, Stop};
use super::reader::{Reader, find, read_rows, with_reader};
use super::text::shown;
use super::{Outcome, open_current, print_error, row_filter};
use crate::cluster::Access;
use crate::config::{Database, FetchOptions};
use crate::folder::{A_FOLDER, FolderError, Present, UnpackError, present};
use crate::store::RowFolder;
use print::Printer;
use row::{Result, Target};

pub(super) async fn exec(database: &Database, options: &FetchOptions) -> anyhow::Result<Outcome> {
    let rows = options.rows();
    is_clear(&rows, options)?;
    match rows[..] {
        [row] => one(database, row, options).await,
        _ => several(database, &rows, options).await,
    }
}

/// Whether rows are named or chosen, and each once.
fn is_clear(rows: &[i64], options: &FetchOptions) -> anyhow::Result<()> {
    let chosen = !options.filter.is_empty();
    ensure!(
        chosen || !rows.is_empty(),
        "no row is named; write its number before the files, or choose rows with a filter such as --project"
    );
    ensure!(
        !chosen || rows.is_empty(),
        "row {} is named, and a filter chooses rows, too; leave one out, or write ./{} for a file of that name",
        rows[0],
        rows[0]
    );
    let mut sorted = rows.to_vec();
    sorted.sort_unstable();
    // Both would write into one folder.
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        anyhow::bail!("row {} is named twice; name it once", twice[0]);
    }
    Ok(())
}

/// Copies the files of a row into the folder that is named.
async fn one(database: &Database, row: i64, options: &FetchOptions) -> anyhow::Result<Outcome> {
    let Some((folder, _)) = find(database, row).await? else { return Ok(Outcome::Failed) };
    let target = Target { folder: &options.to, options };
    let work = with_reader(&folder, &options.reading, options.within, async |reader| {
        Box::pin(row::fetch(reader, &folder, target)).await
    });
    let results = match work.await? {
        Ok(results) => results,
        Err(refusal) => {
            print_error(&refusal);
            return Ok(Outcome::Failed);
        }
    };
    let mut printer = Printer::new(options, false);
    printer.row(row, &results);
    printer.end(&[]);
    Ok(if is_any_changing(&results) { Outcome::Failed } else { Outcome::Done })
}

/// Copies the files of each row into a folder of its own, with a pod for each volume. What cannot be had of one row keeps
/// no other.
async fn several(database: &Database, rows: &[i64], options: &FetchOptions) -> anyhow::Result<Outcome> {
    let Some(folders) = chosen(database, rows, options).await? else { return Ok(Outcome::Failed) };
    // Without a cluster no row is to be had.
    let mut volumes = Vec::new();
    for rows in by_volume(folders) {
        volumes.push((Access::connect(&options.reading.kubernetes, &rows[0].namespace).await?, rows));
    }
    let mut stop = Stop::new()?;
    let mut copies = Copies::new(options);
    for (access, rows) in &volumes {
        let before = copies.tried;
        let work = async |reader: &Reader| Box::pin(copies.copy(reader, rows, options)).await;
        let read = read_rows(access, rows, &options.reading, options.within, &mut stop, work).await;
        let Err(error) = read else { continue };
        if ends_all(&error) {
            copies.end();
            return Err(error);
        }
        let why = format!("{error:#}");
        let untried = rows.iter().skip(copies.tried - before);
        copies.missing.extend(untried.map(|row| (row.id, why.clone())));
    }
    Ok(copies.end())
}

/// The folders of the rows that are meant; none, and said so, if one of them is not there, or none is meant.
async fn chosen(
    database: &Database,
    rows: &[i64],
    options: &FetchOptions,
) -> anyhow::Result<Option<Vec<RowFolder>>> {
    let store = open_current(database).await?;
    let meant: Vec<i64> = if rows.is_empty() {
        store.select(&row_filter(&options.filter)).await?.into_iter().map(|(row, _)| row).collect()
    } else {
        rows.to_vec()
    };
    let folders = store.folders(&meant).await?;
    store.close().await;
    let absent: Vec<String> = rows
        .iter()
        .filter(|row| !folders.iter().any(|folder| folder.id == **row))
        .map(ToString::to_string)
        .collect();
    match absent.as_slice() {
        [] if folders.is_empty() => {
            print_error("the filters choose no row; `gromacs-submitter list` shows the rows");
        }
        [] => return Ok(Some(folders)),
        [row] => print_error(&format!("there is no row {row}, and nothing was copied")),
        rows => print_error(&format!("there are no rows {}, and nothing was copied", rows.join(", "))),
    }
    Ok(None)
}

/// The rows of each volume, and of each user as whom their pods read it.
fn by_volume(rows: Vec<RowFolder>) -> Vec<Vec<RowFolder>> {
    let mut groups: BTreeMap<_, Vec<RowFolder>> = BTreeMap::new();
    for row in rows {
        let key = (
            row.namespace.clone(),
            row.persistent_volume_claim.clone(),
            (row.run_as_user, row.group()),
            row.service_account.clone(),
        );
        groups.entry(key).or_default().push(row);
    }
    groups.into_values().collect()
}

/// True if no other row can be copied either: the program is to end, or this machine cannot hold what comes.
fn ends_all(error: &anyhow::Error) -> bool {
    error.is::<Interrupted>() || matches!(error.downcast_ref(), Some(UnpackError::Write { .. }))
}

/// True if the next row of the volume can be copied all the same.
fn is_of_one_row(error: &anyhow::Error) -> bool {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(FolderError::FindTool { .. }), _) | (_, Some(UnpackError::Write { .. })) => false,
        (of_folder, of_stream) => of_folder.is_some() || of_stream.is_some(),
    }
}

/// What is in the way of a folder for a row.
fn obstacle(target: &Path, name: &str) -> std::io::Result<Option<&'static str>> {
    Ok(match present(target, name)? {
        Present::Nothing | Present::Obstacle(A_FOLDER) => None,
        Present::File(_) => Some("a file"),
        Present::Obstacle(kind) => Some(kind),
    })
}

/// What has come of several rows, and what has not.
struct Copies<'a> {
    printer: Printer<'a>,
    /// Rows that were looked at.
    tried: usize,
    /// Rows without a single file that came, and why.
    missing: Vec<(i64, String)>,
    is_changing: bool,
}

impl<'a> Copies<'a> {
    fn new(options: &'a FetchOptions) -> Self {
        Self { printer: Printer::new(options, true), tried: 0, missing: Vec::new(), is_changing: false }
    }

    /// Copies rows of one volume.
    async fn copy(
        &mut self,
        reader: &Reader<'_>,
        rows: &[RowFolder],
        options: &FetchOptions,
    ) -> anyhow::Result<()> {
        for row in rows {
            let copied = Box::pin(copy_row(reader, row, options)).await?;
            self.tried += 1;
            match copied {
                Ok(results) => {
                    self.is_changing |= is_any_changing(&results);
                    self.printer.row(row.id, &results);
                }
                Err(why) => self.missing.push((row.id, why)),
            }
        }
        Ok(())
    }

    fn end(self) -> Outcome {
        self.printer.end(&self.missing);
        if self.missing.is_empty() && !self.is_changing { Outcome::Done } else { Outcome::Failed }
    }
}

/// Copies one of several rows; the sentence why nothing of it has come if that keeps no other row.
async fn copy_row(
    reader: &Reader<'_>,
    row: &RowFolder,
    options: &FetchOptions,
) -> anyhow::Result<std::result::Result<Vec<Result>, String>> {
    let name = print::folder_of(row.id);
    let target = options.to.join(&name);
    if let Some(kind) = obstacle(&options.to, &name)? {
        let target = shown(&target.display().to_string());
        return Ok(Err(format!(
            "{target} is {kind}, and is not replaced; remove it, or copy to another folder"
        )));
    }
    match row::fetch(reader, row, Target { folder: &target, options }).await {
        Ok(Ok(results)) if results.is_empty() => Ok(Err("there is no file in its folder yet".to_owned())),
        Err(error) if is_of_one_row(&error) => Ok(Err(format!("{error:#}"))),
        result => result,
    }
}

fn is_any_changing(results: &[Result]) -> bool {
    results.iter().any(|(_, _, fate)| *fate == Fate::Changing)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::config::{Cli, Command};
    use crate::fixtures::row_folder;

    fn options(words: &[&str]) -> FetchOptions {
        let all = [&["gromacs-submitter", "fetch", "--to", "x"], words].concat();
        match Cli::try_parse_from(all).expect("should be good").command {
            Command::Fetch(options) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_are_named_or_chosen_and_each_once() {
        let said = |words: &[&str]| {
            let options = options(words);
            is_clear(&options.rows(), &options).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for good in [&["7"][..], &["7", "8"], &["--project", "water"], &["--late", "*.xtc"]] {
            assert_eq!(said(good), "", "{good:?}");
        }
        assert!(said(&["*.xtc"]).starts_with("no row is named; "), "{}", said(&["*.xtc"]));
        assert_eq!(said(&["7", "8", "7"]), "row 7 is named twice; name it once");
        let both = said(&["7", "--project", "water"]);
        assert!(both.starts_with("row 7 is named, and a filter chooses rows, too"), "{both}");
    }

    #[test]
    fn a_volume_is_read_by_one_pod_for_each_user() {
        let row = |id: i64, claim: &str, user: i64| RowFolder {
            id,
            persistent_volume_claim: claim.to_owned(),
            run_as_user: user,
            ..row_folder()
        };
        // Rows 1 and 4 have the same file: their folders have other names.
        let rows = vec![row(1, "a", 1000), row(2, "b", 1000), row(3, "a", 2000), row(4, "a", 1000)];
        let groups: Vec<Vec<i64>> =
            by_volume(rows).iter().map(|rows| rows.iter().map(|row| row.id).collect()).collect();
        assert_eq!(groups, [vec![1, 4], vec![3], vec![2]]);
    }

    #[test]
    fn what_one_row_lacks_keeps_no_other() {
        let of_row =
            anyhow::Error::new(FolderError::Match { row: 7, pattern: "*.trr".to_owned(), found_in: None });
        let tool = FolderError::FindTool { image: "gmx".to_owned(), tool: "tar".to_owned() };
        let full = UnpackError::Write { path: "x".into(), source: std::io::Error::other("full") };
        assert!(is_of_one_row(&of_row) && !ends_all(&of_row));
        assert!(is_of_one_row(&UnpackError::TakeOnce("md.log".to_owned()).into()));
        assert!(!is_of_one_row(&tool.into()));
        assert!(!is_of_one_row(&anyhow::anyhow!("the connection broke")));
        let full = anyhow::Error::new(full);
        assert!(!is_of_one_row(&full) && ends_all(&full));
        assert!(ends_all(&Interrupted.into()));
    }

    #[test]
    fn no_link_stands_for_the_folder_of_a_row() {
        let target = tempfile::tempdir().expect("should be made");
        let at = |name: &str| obstacle(target.path(), name).expect("should be looked at");
        std::fs::create_dir(target.path().join("gromacs-1")).expect("should be made");
        std::os::unix::fs::symlink("/tmp", target.path().join("gromacs-2")).expect("should be linked");
        std::fs::write(target.path().join("gromacs-3"), "x").expect("should be written");
        let found = ["gromacs-0", "gromacs-1", "gromacs-2", "gromacs-3"].map(at);
        assert_eq!(found, [None, None, Some("a symbolic link"), Some("a file")]);
    }
}
