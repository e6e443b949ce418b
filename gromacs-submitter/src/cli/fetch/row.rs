//! The files of one row: what is to be copied, and how it comes to this machine.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::sync::mpsc;

use crate::cli::copied::{Fate, named};
use crate::cli::reader::Reader;
use crate::cli::text::{print_note, shown};
use crate::cluster::Exec;
use crate::config::FetchOptions;
use crate::folder::{
    Arrived, Present, RemoteFile, UnpackError, batches, check, copy_command, digest_of, list_command, names,
    parse_listing, parse_sums, present, select, sums_command, unpack,
};
use crate::store::RowFolder;

/// A copy in which nothing comes for so long has lost its connection.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Pieces of the stream that wait to be written.
const PIECES: usize = 16;

/// tar's exit codes if a file changed while it read it, or was gone: the checksums tell.
const FILES_CHANGED: [i32; 2] = [1, 2];

/// A file with its fate, and its size as it was copied.
pub(super) type Result = (String, u64, Fate);

/// Where the files of a row come to, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) folder: &'a Path,
    pub(super) options: &'a FetchOptions,
}

/// What is to be done with the files that are wanted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    copy: Vec<RemoteFile>,
    unchanged: Vec<RemoteFile>,
    differ: Vec<String>,
    obstacles: Vec<(String, &'static str)>,
}

/// Copies what is wanted; the sentence why nothing is if something is in its way.
pub(super) async fn fetch(
    reader: &Reader<'_>,
    folder: &RowFolder,
    target: Target<'_>,
) -> anyhow::Result<std::result::Result<Vec<Result>, String>> {
    let files = parse_listing(&reader.output(folder, list_command(folder)).await?);
    let wanted = select(folder.id, &files, &target.options.patterns())?;
    let plan = plan(reader, folder, &wanted, target.folder).await?;
    if let Some(refusal) = refusal(&plan, target) {
        return Ok(Err(refusal));
    }
    let fate = |fate| move |file: &RemoteFile| (file.name.clone(), file.size, fate);
    let mut results: Vec<Result> = plan.unchanged.iter().map(fate(Fate::Unchanged)).collect();
    if target.options.dry_run {
        results.extend(plan.copy.iter().map(fate(Fate::WouldCopy)));
    } else {
        copy_all(reader, folder, &plan.copy, target, &mut results).await?;
    }
    results.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(Ok(results))
}

/// Copies files, and once more those that changed meanwhile.
async fn copy_all(
    reader: &Reader<'_>,
    folder: &RowFolder,
    files: &[RemoteFile],
    target: Target<'_>,
    results: &mut Vec<Result>,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(target.folder).map_err(|source| {
        anyhow::Error::new(UnpackError::Write { path: target.folder.to_owned(), source })
    })?;
    let mut left = Vec::new();
    for batch in batches(files, RemoteFile::name_and_size) {
        let (copied, changed) = copy(reader, folder, batch, target).await?;
        results.extend(copied);
        left.extend(changed);
    }
    // mdrun writes a checkpoint as a new file: a second try finds that one whole.
    for file in left {
        let (copied, changed) = copy(reader, folder, std::slice::from_ref(&file), target).await?;
        results.extend(copied);
        results.extend(changed.into_iter().map(|file| (file.name, file.size, Fate::Changing)));
    }
    Ok(())
}

/// Compares what is wanted with what is here. Only files of the same size are read.
async fn plan(
    reader: &Reader<'_>,
    folder: &RowFolder,
    wanted: &[RemoteFile],
    target: &Path,
) -> anyhow::Result<Plan> {
    let (mut plan, alike) = by_size(wanted, target)?;
    for batch in batches(&alike, RemoteFile::name_and_size) {
        let remote = sums(reader, folder, batch.iter().map(|file| (file.name.as_str(), file.size))).await?;
        let paths: Vec<PathBuf> = batch.iter().map(|file| target.join(&file.name)).collect();
        let local = tokio::task::spawn_blocking(move || {
            let sum = |path: &PathBuf| {
                digest_of(path).with_context(|| format!("{} cannot be read", path.display()))
            };
            paths.iter().map(sum).collect::<anyhow::Result<Vec<String>>>()
        });
        for ((file, remote), local) in batch.iter().zip(remote).zip(local.await??) {
            if remote == local {
                plan.unchanged.push(file.clone());
            } else {
                plan.differ.push(file.name.clone());
            }
        }
    }
    // What differs is copied if it may be: the refusal comes first if not.
    plan.copy.extend(wanted.iter().filter(|file| plan.differ.contains(&file.name)).cloned());
    Ok(plan)
}

/// What is clear without reading a file, and those whose contents decide: they have the same size here.
fn by_size(wanted: &[RemoteFile], target: &Path) -> anyhow::Result<(Plan, Vec<RemoteFile>)> {
    let mut plan = Plan::default();
    let mut alike = Vec::new();
    for file in wanted {
        let found = present(target, &file.name)
            .with_context(|| format!("{} cannot be looked at", target.join(&file.name).display()))?;
        match found {
            Present::Nothing => plan.copy.push(file.clone()),
            Present::Obstacle(kind) => plan.obstacles.push((file.name.clone(), kind)),
            Present::File(size) if size == file.size => alike.push(file.clone()),
            Present::File(_) => plan.differ.push(file.name.clone()),
        }
    }
    Ok((plan, alike))
}

/// Why nothing is copied; none if nothing is in the way.
fn refusal(plan: &Plan, target: Target<'_>) -> Option<String> {
    let Target { folder, options } = target;
    let target = shown(&folder.display().to_string());
    if let Some((name, kind)) = plan.obstacles.first() {
        return Some(format!(
            "{} in {target} is {kind}, or lies behind one, and is not replaced; remove it, or copy to another folder",
            shown(name)
        ));
    }
    if options.overwrite || plan.differ.is_empty() {
        return None;
    }
    let differ = if plan.differ.len() == 1 { "differs" } else { "differ" };
    Some(format!(
        "{} in {target} {differ} from the volume, and nothing was copied; --overwrite replaces what differs",
        named(plan.differ.iter().map(String::as_str))
    ))
}

/// Copies files. Returns what was copied, and the files that were others when their checksums were made.
async fn copy(
    reader: &Reader<'_>,
    folder: &RowFolder,
    files: &[RemoteFile],
    target: Target<'_>,
) -> anyhow::Result<(Vec<Result>, Vec<RemoteFile>)> {
    let exec = reader.exec(copy_command(folder, files)).await?;
    let arrived = receive(exec, folder, reader.image(), target.folder, names(files)).await?;
    let remote = sums(reader, folder, arrived.iter().map(|file| (file.name.as_str(), file.size))).await?;
    let mut copied = Vec::new();
    let mut done = BTreeSet::new();
    for (file, remote) in arrived.into_iter().zip(remote) {
        if file.sha256 != remote {
            continue;
        }
        let (name, size) = (file.name.clone(), file.size);
        file.keep(target.options.overwrite)?;
        done.insert(name.clone());
        copied.push((name, size, Fate::Copied));
    }
    Ok((copied, files.iter().filter(|file| !done.contains(&file.name)).cloned().collect()))
}

/// Checksums of so many bytes of files on the volume.
async fn sums<'a>(
    reader: &Reader<'_>,
    folder: &RowFolder,
    files: impl ExactSizeIterator<Item = (&'a str, u64)>,
) -> anyhow::Result<Vec<String>> {
    let expected = files.len();
    if expected == 0 {
        return Ok(Vec::new());
    }
    let sums = parse_sums(&reader.output(folder, sums_command(folder, files)).await?);
    ensure!(
        sums.len() == expected,
        "the pod made {} of {expected} checksums; run the command again",
        sums.len()
    );
    Ok(sums)
}

/// Writes what comes under temporary names, which are removed if not all of it comes.
async fn receive(
    mut exec: Exec,
    folder: &RowFolder,
    image: &str,
    target: &Path,
    expected: BTreeSet<String>,
) -> anyhow::Result<Vec<Arrived>> {
    let (sender, receiver) = mpsc::channel(PIECES);
    let target = target.to_owned();
    let unpacking = tokio::task::spawn_blocking(move || {
        unpack(Received { receiver, piece: io::Cursor::default() }, &target, &expected)
    });
    while let Some(piece) = exec.next(Some(LONGEST_SILENCE)).await? {
        if sender.send(piece).await.is_err() {
            // It has all that it wants, or an error.
            break;
        }
    }
    drop(sender);
    let arrived = unpacking.await??;
    let ended = exec.end().await?;
    if FILES_CHANGED.contains(&ended.code) {
        print_note(&ended.complaint);
    } else {
        check(folder, image, &ended)?;
    }
    Ok(arrived)
}

/// The pieces as a stream; it ends when their sender is gone.
struct Received {
    receiver: mpsc::Receiver<Vec<u8>>,
    piece: io::Cursor<Vec<u8>>,
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.piece.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let Some(piece) = self.receiver.blocking_recv() else { return Ok(0) };
            self.piece = io::Cursor::new(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::config::{Cli, Command};

    fn options(more: &[&str]) -> FetchOptions {
        let arguments = ["gromacs-submitter", "fetch", "7", "--to", "results"];
        let cli = Cli::try_parse_from(arguments.iter().chain(more)).expect("should be good");
        match cli.command {
            Command::Fetch(options) => options,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(plan: &Plan, options: &FetchOptions) -> Option<String> {
        super::refusal(plan, Target { folder: &options.to, options })
    }

    #[test]
    fn a_file_that_differs_stops_all_unless_it_may_be_replaced() {
        let differ: Vec<String> = ["md.log", "state.cpt"].map(ToOwned::to_owned).to_vec();
        let plan = Plan { differ, ..Plan::default() };
        assert_eq!(
            refusal(&plan, &options(&[])).as_deref(),
            Some(
                "md.log, state.cpt in results differ from the volume, and nothing was copied; --overwrite replaces \
                 what differs"
            )
        );
        assert_eq!(refusal(&plan, &options(&["--overwrite"])), None);
        let many = Plan { differ: (0..7).map(|number| number.to_string()).collect(), ..Plan::default() };
        let said = refusal(&many, &options(&[])).unwrap_or_default();
        assert!(said.starts_with("0, 1, 2, 3, 4, 2 more in results differ"), "{said}");
    }

    #[test]
    fn what_is_no_file_is_never_replaced() {
        let obstacles = vec![("md.log".to_owned(), "a symbolic link")];
        let plan = Plan { obstacles, ..Plan::default() };
        let said = refusal(&plan, &options(&["--overwrite"])).unwrap_or_default();
        assert!(said.starts_with("md.log in results is a symbolic link"), "{said}");
    }

    #[test]
    fn only_files_of_the_same_size_are_read() {
        let target = tempfile::tempdir().expect("should be made");
        for (name, text) in [("shorter", "ab"), ("same", "abc"), ("longer", "abcd")] {
            std::fs::write(target.path().join(name), text).expect("should be written");
        }
        std::fs::create_dir(target.path().join("folder")).expect("should be made");
        let names = ["shorter", "same", "longer", "folder", "none"];
        let wanted = names.map(|name| RemoteFile { name: name.to_owned(), size: 3, modified: 0 });
        let (plan, alike) = by_size(&wanted, target.path()).expect("should be looked at");
        assert_eq!(alike, [wanted[1].clone()]);
        assert_eq!(plan.copy, [wanted[4].clone()]);
        assert_eq!(plan.differ, ["shorter", "longer"]);
        assert_eq!(plan.obstacles.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["folder"]);
        assert_eq!(plan.unchanged, []);
    }

    #[tokio::test]
    async fn the_stream_ends_with_its_sender() {
        let (sender, receiver) = mpsc::channel(PIECES);
        for piece in ["ab", "", "c"] {
            sender.send(piece.as_bytes().to_vec()).await.expect("should be taken");
        }
        drop(sender);
        let read = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            Received { receiver, piece: io::Cursor::default() }.read_to_string(&mut text).map(|_| text)
        });
        assert_eq!(read.await.expect("should end").expect("should be text"), "abc");
    }
}
