//! A pod that reads the volume of rows, for as long as a verb needs it.

use std::time::Duration;

use anyhow::{Context as _, bail};
use rand::RngExt as _;

use super::pod::{Pod, Stop, VolumeUser, in_pod, place};
use super::{open_current, print_error};
use crate::cluster::{Access, AccessError, Exec, Mount, Purpose};
use crate::config::{Database, Reading};
use crate::folder;
use crate::store::{AttemptLog, RowFolder};

/// How long a pod may run that only lists, or prints the end of a log.
pub(super) const SHORT: Duration = Duration::from_secs(600);

/// The pod, once it takes commands.
pub(super) struct Reader<'a>(&'a Pod<'a>);

impl Reader<'_> {
    /// Runs a command in the pod.
    pub(super) async fn exec(&self, command: Vec<String>) -> Result<Exec, AccessError> {
        self.0.exec(command).await
    }

    /// All that a script prints of the folder of a row, if it succeeds.
    pub(super) async fn output(&self, of: &RowFolder, command: Vec<String>) -> anyhow::Result<Vec<u8>> {
        let (printed, ended) = self.exec(command).await?.all().await?;
        folder::check(of, self.image(), &ended)?;
        Ok(printed)
    }

    /// Image that the commands run in.
    pub(super) fn image(&self) -> &str {
        self.0.image()
    }
}

/// The folder of a row and its attempts; none, and said so, if the user sees no such row.
pub(super) async fn find(
    database: &Database,
    row: i64,
) -> anyhow::Result<Option<(RowFolder, Vec<AttemptLog>)>> {
    let store = open_current(database).await?;
    let folder = store.folder(row).await?;
    let attempts = store.attempt_logs(row).await?;
    store.close().await;
    if folder.is_none() {
        print_error(&format!("there is no row {row}"));
    }
    Ok(folder.map(|folder| (folder, attempts)))
}

/// Does `work` with a pod that reads the volume of a row. The pod is deleted afterwards, whatever comes: an error, Ctrl-C,
/// or the end of the terminal. If this program is killed, the pod ends on its own.
pub(super) async fn with_reader<T>(
    folder: &RowFolder,
    reading: &Reading,
    within: Duration,
    work: impl AsyncFnOnce(&Reader) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let access = Access::connect(&reading.kubernetes, &folder.namespace).await?;
    let rows = std::slice::from_ref(folder);
    read_rows(&access, rows, reading, within, &mut Stop::new()?, work).await
}

/// The same for several rows, of one claim and one user: the first stands for all of them.
pub(super) async fn read_rows<T>(
    access: &Access,
    rows: &[RowFolder],
    reading: &Reading,
    within: Duration,
    stop: &mut Stop,
    work: impl AsyncFnOnce(&Reader) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let first = rows.first().context("no row is named")?;
    let mount = Mount::from(first);
    let reason = folder::because(first.reason.as_deref());
    let whose = format!("; row {} is {}{reason}", first.id, first.state);
    let placement = stop.unless(place(access, mount, Purpose::Read, &whose)).await?;
    let image = stop.unless(image(access, rows, reading)).await?;
    let user = VolumeUser {
        access,
        mount,
        image: &image,
        purpose: Purpose::Read,
        placement: &placement,
        wait: reading.wait,
        within,
    };
    let name = first.names().reader(rand::rng().random());
    in_pod(&user, &name, stop, async |pod: &Pod<'_>| work(&Reader(pod)).await).await
}

/// The image of one of the rows, which is on nodes already.
async fn image(access: &Access, rows: &[RowFolder], reading: &Reading) -> anyhow::Result<String> {
    let named = rows.iter().find_map(|row| row.pinned_image.as_ref().or(row.image.as_ref()));
    if let Some(image) = reading.image.as_ref().or(named) {
        return Ok(image.clone());
    }
    // A row that names none runs in the submitter's, which only its ScavengerJobs tell.
    for row in rows {
        if let Some(job) = access.jobs_of(&row.uuid).await?.into_iter().next() {
            return Ok(job.spec.image);
        }
    }
    let row = rows.first().context("no row is named")?;
    bail!(
        "the image of row {} is not known: the row is {}{}; name one with --image, such as debian:stable-slim",
        row.id,
        row.state,
        folder::because(row.reason.as_deref())
    )
}
