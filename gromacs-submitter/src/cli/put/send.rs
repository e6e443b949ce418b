//! How files get onto the volume: what is in their way, what is there already, and the rest in batches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rand::RngExt as _;
use tokio::sync::mpsc;

use super::order::Order;
use crate::cli::copied::{Fate, bytes_of, named};
use crate::cli::pod::Pod;
use crate::cli::text::shown;
use crate::cluster::Exec;
use crate::folder::{batches, digest_of, parse_sums};
use crate::put::{
    self, Arrival, LocalFile, Place, Placed, Sent, There, length, look_command, parse_look, parse_placed,
    parse_space, place_command, receive_command, space_command, sums_command, used, write_archive,
};
use crate::store::InUse;

/// A copy has lost its connection if the pod takes nothing for so long.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Bytes that are handed on at a time, and pieces that wait for the pod.
const PIECE_BYTES: usize = 64 << 10;
const PIECES: usize = 16;

/// What became of all files, and what is left of the volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Brought {
    /// Path from the root of the volume, and size.
    pub(super) files: BTreeMap<String, (u64, Fate)>,
    /// Bytes that are left.
    pub(super) left: u64,
}

impl Brought {
    /// True if every file is on the volume.
    pub(super) fn is_whole(&self) -> bool {
        self.changing().is_none()
    }

    /// The first file that is not on the volume.
    pub(crate) fn changing(&self) -> Option<&str> {
        self.files.iter().find(|(_, (_, fate))| *fate == Fate::Changing).map(|(path, _)| path.as_str())
    }

    /// The paths of all files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Files that were copied, for tests.
    #[cfg(test)]
    pub(crate) fn of(paths: impl IntoIterator<Item = String>) -> Self {
        Self { files: paths.into_iter().map(|path| (path, (1, Fate::Copied))).collect(), left: 0 }
    }
}

/// A folder for what is on its way, which no other command has: hidden, so that no listing shows it.
pub(super) fn staging(folder: &str) -> String {
    let name = format!(".gromacs-submitter-put-{:016x}", rand::rng().random::<u64>());
    if folder.is_empty() { name } else { format!("{folder}/{name}") }
}

/// A name for the pod, which no other command has.
pub(super) fn pod_name() -> String {
    format!("gromacs-writer-{:08x}", rand::rng().random::<u32>())
}

/// A file, and the path that it gets.
#[derive(Debug, Clone)]
struct Item {
    file: LocalFile,
    path: String,
}

impl Item {
    fn name_and_size(&self) -> (&str, u64) {
        (&self.path, self.file.size)
    }
}

/// Brings files through a pod.
pub(super) struct Sender<'a> {
    pod: &'a Pod<'a>,
    order: &'a Order,
    items: Vec<Item>,
    staging: &'a str,
    place: Place<'a>,
    /// Number of the next file in an archive.
    next: u64,
}

impl<'a> Sender<'a> {
    pub(super) fn new(
        pod: &'a Pod<'a>,
        order: &'a Order,
        paths: &[String],
        staging: &'a str,
        user: i64,
    ) -> Self {
        let item = |(file, path): (&LocalFile, &String)| Item { file: file.clone(), path: path.clone() };
        let items = order.files.iter().zip(paths).map(item).collect();
        let folder = if order.folder.is_empty() { "the root" } else { &order.folder };
        let place = Place { image: pod.image(), claim: &order.claim, user, folder };
        Self { pod, order, items, staging, place, next: 0 }
    }

    /// Copies what is not there yet; the message why nothing is copied if something is in the way.
    pub(super) async fn send(&mut self, in_use: &[InUse]) -> anyhow::Result<Result<Brought, String>> {
        let there = self.look().await?;
        if let Some(refusal) = obstacle(&self.items, &there, self.order) {
            return Ok(Err(refusal));
        }
        let mut brought = Brought::default();
        let (copy, replaced) = self.compare(&there, &mut brought).await?;
        if let Some(refusal) = refusal(&replaced, self.order, in_use) {
            return Ok(Err(refusal));
        }
        brought.left = self.space().await?;
        if let Some(refusal) = too_large(bytes(&copy), brought.left, &self.order.claim) {
            return Ok(Err(refusal));
        }
        if self.order.dry_run {
            let would = copy.into_iter().map(|item| (item.path, (item.file.size, Fate::WouldCopy)));
            brought.files.extend(would);
            return Ok(Ok(brought));
        }
        self.copy_all(&copy, &mut brought).await?;
        brought.left = self.space().await?;
        Ok(Ok(brought))
    }

    /// All that a script prints, if it succeeds.
    async fn output(&self, command: Vec<String>) -> anyhow::Result<Vec<u8>> {
        let (printed, ended) = self.pod.exec(command).await?.all().await?;
        put::check(self.place, &ended)?;
        Ok(printed)
    }

    async fn look(&self) -> anyhow::Result<Vec<There>> {
        let mut all = Vec::new();
        for batch in batches(&self.items, |item| (item.path.as_str(), 0)) {
            let command = look_command(batch.iter().map(|item| item.path.as_str()));
            all.extend(parse_look(&self.output(command).await?, batch.len())?);
        }
        Ok(all)
    }

    async fn space(&self) -> anyhow::Result<u64> {
        Ok(parse_space(&self.output(space_command()).await?)?)
    }

    /// What is to be copied, and what of it replaces another file. Only files of the same size are read.
    async fn compare(
        &self,
        there: &[There],
        brought: &mut Brought,
    ) -> anyhow::Result<(Vec<Item>, BTreeSet<String>)> {
        let mut alike = Vec::new();
        let mut replaced = BTreeSet::new();
        for (item, there) in self.items.iter().zip(there) {
            match there {
                There::File(size) if *size == item.file.size => alike.push(item.clone()),
                There::File(_) => drop(replaced.insert(item.path.clone())),
                _ => {}
            }
        }
        for batch in batches(&alike, Item::name_and_size) {
            let command = sums_command(batch.iter().map(|item| (item.path.as_str(), item.file.size)));
            let remote = parse_sums(&self.output(command).await?);
            let (made, wanted) = (remote.len(), batch.len());
            ensure!(made == wanted, "the pod made {made} of {wanted} checksums; run the command again");
            for ((item, remote), local) in batch.iter().zip(remote).zip(digests(batch).await?) {
                if remote == local {
                    brought.files.insert(item.path.clone(), (item.file.size, Fate::Unchanged));
                } else {
                    replaced.insert(item.path.clone());
                }
            }
        }
        // What differs is copied if it may be: the refusal comes first if not.
        let copy =
            self.items.iter().filter(|item| !brought.files.contains_key(&item.path)).cloned().collect();
        Ok((copy, replaced))
    }

    /// Copies files, and once more those that changed meanwhile.
    async fn copy_all(&mut self, copy: &[Item], brought: &mut Brought) -> anyhow::Result<()> {
        let bar = bar(bytes(copy));
        let mut changed = Vec::new();
        for batch in batches(copy, Item::name_and_size) {
            changed.extend(self.copy(batch, &bar, brought).await?);
        }
        for mut item in changed {
            // Its size can be another one by now.
            let again = item.file.path.symlink_metadata().ok().filter(Metadata::is_file);
            let left = match again {
                Some(found) => {
                    item.file.size = found.len();
                    self.copy(slice::from_ref(&item), &bar, brought).await?
                }
                None => vec![item],
            };
            brought.files.extend(left.into_iter().map(|item| (item.path, (item.file.size, Fate::Changing))));
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Copies files in one go. Returns those that changed while they were read.
    async fn copy(
        &mut self,
        batch: &[Item],
        bar: &ProgressBar,
        brought: &mut Brought,
    ) -> anyhow::Result<Vec<Item>> {
        let files: Vec<LocalFile> = batch.iter().map(|item| item.file.clone()).collect();
        let exec = self.pod.exec_with_input(receive_command(self.staging, length(&files))).await?;
        let sent = transfer(exec, self.place, files, self.next, bar.clone()).await?;
        self.next += batch.len() as u64;
        let mut changed = Vec::new();
        let mut whole = Vec::new();
        for (item, sent) in batch.iter().zip(sent) {
            match sent.sha256 {
                Some(sha256) => whole.push((item, sent.number, sha256)),
                None => changed.push(item.clone()),
            }
        }
        if whole.is_empty() {
            return Ok(changed);
        }
        let arrivals =
            whole.iter().map(|(item, number, sha256)| Arrival { number: *number, sha256, path: &item.path });
        let command = place_command(self.staging, self.order.overwrite, arrivals);
        let placed = parse_placed(&self.output(command).await?, whole.len())?;
        for ((item, ..), placed) in whole.into_iter().zip(placed) {
            match placed {
                Placed::Placed => {
                    brought.files.insert(item.path.clone(), (item.file.size, Fate::Copied));
                }
                // As if it had changed on its way.
                Placed::Broken => changed.push(item.clone()),
                Placed::Obstructed(there) => bail!("{}", in_the_way(&item.path, there, self.order)),
            }
        }
        Ok(changed)
    }
}

fn bytes(items: &[Item]) -> u64 {
    items.iter().fold(0, |sum, item| sum.saturating_add(item.file.size))
}

/// Checksums of files of this machine.
async fn digests(batch: &[Item]) -> anyhow::Result<Vec<String>> {
    let paths: Vec<PathBuf> = batch.iter().map(|item| item.file.path.clone()).collect();
    let sum = |path: &PathBuf| digest_of(path).with_context(|| format!("{} cannot be read", path.display()));
    tokio::task::spawn_blocking(move || paths.iter().map(sum).collect()).await?
}

/// A bar on a terminal, and nothing elsewhere.
fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    let style = "{bar:40} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

/// Sends files as an archive to a command that takes it.
async fn transfer(
    mut exec: Exec,
    place: Place<'_>,
    files: Vec<LocalFile>,
    first: u64,
    bar: ProgressBar,
) -> anyhow::Result<Vec<Sent>> {
    let (sender, mut receiver) = mpsc::channel(PIECES);
    let writing = tokio::task::spawn_blocking(move || {
        let stream = BufWriter::with_capacity(PIECE_BYTES, Pieces(sender));
        write_archive(&files, first, stream, |bytes| bar.inc(bytes))
    });
    let mut is_taken = true;
    while let Some(piece) = receiver.recv().await {
        is_taken = exec.send(&piece, LONGEST_SILENCE).await?;
        if !is_taken {
            break;
        }
    }
    drop(receiver);
    let written = writing.await?;
    // What the command says is the reason if it ended before it had all.
    if is_taken && let Err(error) = written {
        return Err(error.into());
    }
    put::check(place, &exec.end().await?)?;
    Ok(written?)
}

/// Hands on what is written.
struct Pieces(mpsc::Sender<Vec<u8>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.blocking_send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why nothing is copied: what is no file has the path of one, or is a part of it.
fn obstacle(items: &[Item], there: &[There], order: &Order) -> Option<String> {
    let mut both = items.iter().zip(there);
    let (item, there) = both.find(|(_, there)| !matches!(there, There::Nothing | There::File(_)))?;
    Some(in_the_way(&item.path, *there, order))
}

fn in_the_way(path: &str, there: There, order: &Order) -> String {
    let path = shown(path);
    let claim = &order.claim;
    match there {
        There::Row => format!(
            "{path} on PersistentVolumeClaim {claim} would lie in the folder of a row, which is the row's alone; name \
             another folder with --to"
        ),
        There::File(_) => format!(
            "{path} has come to PersistentVolumeClaim {claim} meanwhile, and is not replaced; run the command again"
        ),
        other => format!(
            "{path} on PersistentVolumeClaim {claim} is {}, or lies behind one, and is not replaced; name another \
             folder with --to",
            other.words()
        ),
    }
}

/// Why nothing is copied if these files would be replaced; none if they may be.
fn refusal(replaced: &BTreeSet<String>, order: &Order, in_use: &[InUse]) -> Option<String> {
    let claim = &order.claim;
    if !order.overwrite && !replaced.is_empty() {
        let differ = if replaced.len() == 1 { "differs" } else { "differ" };
        let named = named(replaced.iter().map(String::as_str));
        return Some(format!(
            "{named} on PersistentVolumeClaim {claim} {differ} from what is here, and nothing was copied; --overwrite \
             replaces what differs"
        ));
    }
    let (path, row) = used(in_use, replaced)?;
    Some(format!(
        "{} on PersistentVolumeClaim {claim} is used by row {row}, which has not ended, and nothing was copied; cancel the \
         row, or copy to another folder with --to",
        shown(path)
    ))
}

/// Why that does not fit on the volume; none if it does.
fn too_large(bytes: u64, left: u64, claim: &str) -> Option<String> {
    (bytes > left).then(|| {
        format!(
            "{} bytes are to be copied, and PersistentVolumeClaim {claim} has {} left; remove files that nobody needs, or \
             ask for a larger volume",
            bytes_of(bytes),
            bytes_of(left)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(overwrite: bool) -> Order {
        Order { claim: "simulations".to_owned(), folder: "water".to_owned(), overwrite, ..Order::default() }
    }

    fn paths(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn what_differs_stops_all_unless_it_may_be_replaced() {
        let said = |replaced: &[&str], overwrite| refusal(&paths(replaced), &order(overwrite), &[]);
        assert_eq!(said(&[], false), None);
        assert_eq!(said(&["water/a.tpr"], true), None);
        assert_eq!(
            said(&["water/a.tpr"], false).as_deref(),
            Some(
                "water/a.tpr on PersistentVolumeClaim simulations differs from what is here, and nothing was copied; \
                 --overwrite replaces what differs"
            )
        );
        let many = said(&["1", "2", "3", "4", "5", "6", "7"], false).unwrap_or_default();
        assert!(
            many.starts_with("1, 2, 3, 4, 5, 2 more on PersistentVolumeClaim simulations differ"),
            "{many}"
        );
    }

    #[test]
    fn what_a_row_uses_is_never_replaced() {
        let row = InUse { id: 7, tpr_path: "water/a.tpr".to_owned(), ..InUse::default() };
        let said = refusal(&paths(&["water/0.tpr", "water/a.tpr"]), &order(true), &[row]).unwrap_or_default();
        assert!(
            said.starts_with("water/a.tpr on PersistentVolumeClaim simulations is used by row 7"),
            "{said}"
        );
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let item = |path: &str| Item {
            file: LocalFile { name: path.to_owned(), size: 1, path: path.into() },
            path: path.to_owned(),
        };
        let items = [item("a"), item("b")];
        let said =
            |there: There| obstacle(&items, &[There::Nothing, there], &order(true)).unwrap_or_default();
        assert_eq!(said(There::File(3)), "");
        assert!(said(There::Link).starts_with("b on PersistentVolumeClaim simulations is a symbolic link"));
        assert!(said(There::Row).contains("would lie in the folder of a row"));
    }

    #[test]
    fn what_does_not_fit_is_not_begun() {
        assert_eq!(too_large(10, 10, "simulations"), None);
        assert_eq!(
            too_large(1_000_000, 4096, "simulations").as_deref(),
            Some(
                "1,000,000 bytes are to be copied, and PersistentVolumeClaim simulations has 4,096 left; remove files that \
                 nobody needs, or ask for a larger volume"
            )
        );
    }

    #[test]
    fn what_is_on_its_way_lies_in_the_folder_and_is_hidden() {
        let (one, other) = (staging("a/b"), staging("a/b"));
        assert!(one.starts_with("a/b/.gromacs-submitter-put-") && one != other, "{one} {other}");
        assert!(staging("").starts_with('.'));
    }
}
