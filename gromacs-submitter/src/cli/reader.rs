//! A pod that reads the volume of a row, for as long as a verb needs it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rand::RngExt as _;
use scavenger_program::signal::EndSignal;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::text::{print_note, stretch};
use super::{open_current, print_error};
use crate::cluster::{
    Access, AccessError, Exec, ExecError, Placement, ReaderPod, Readiness, placement, reader_pod, readiness,
};
use crate::config::{Database, Reading};
use crate::folder;
use crate::store::{AttemptLog, RowFolder};

/// How often the pod is looked at until it runs.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long a pod may run that only lists, or prints the end of a log.
pub(super) const SHORT: Duration = Duration::from_secs(600);

/// Somebody ends the program: Ctrl-C, SIGTERM, or the end of the terminal.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted;

/// What ends the program, from the moment on at which this was made: so that a pod is deleted first.
pub(super) struct Stop {
    end: EndSignal,
    hangup: Signal,
}

impl Stop {
    pub(super) fn new() -> anyhow::Result<Self> {
        let hangup = signal(SignalKind::hangup()).context("cannot handle SIGHUP")?;
        Ok(Self { end: EndSignal::new()?, hangup })
    }

    /// Does `work`, unless the program is to end before that is done.
    async fn unless<T>(&mut self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        tokio::select! {
            result = work => result,
            _ = self.end.next() => Err(Interrupted.into()),
            _ = self.hangup.recv() => Err(Interrupted.into()),
        }
    }
}

/// The pod, once it takes commands.
pub(super) struct Reader<'a> {
    access: &'a Access,
    pod: &'a str,
    image: &'a str,
}

impl Reader<'_> {
    /// Runs a command in the pod.
    pub(super) async fn exec(&self, command: Vec<String>) -> Result<Exec, AccessError> {
        self.access.exec(self.pod, crate::cluster::READER_CONTAINER, command).await
    }

    /// All that a script prints of the folder of a row, if it succeeds.
    pub(super) async fn output(&self, of: &RowFolder, command: Vec<String>) -> anyhow::Result<Vec<u8>> {
        let (printed, ended) = self.exec(command).await?.all().await?;
        folder::check(of, self.image, &ended)?;
        Ok(printed)
    }

    /// Image that the commands run in.
    pub(super) fn image(&self) -> &str {
        self.image
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
    let folder = rows.first().context("no row is named")?;
    let prepared = async {
        let placement = place(access, folder).await?;
        let image = image(access, rows, reading).await?;
        clear_up(access).await?;
        Ok((image, placement))
    };
    let (image, placement) = stop.unless(prepared).await?;
    let name = folder.names().reader(rand::rng().random());
    let within = within + reading.wait;
    let pod = reader_pod(&ReaderPod { folder, name: &name, image: &image, placement: &placement, within });
    let made = access.create_pod(&pod).await;
    if let Err(error @ (AccessError::Allow { .. } | AccessError::Refuse { .. })) = made {
        return Err(error.into());
    }
    let reader = Reader { access, pod: &name, image: &image };
    let done = async {
        made?;
        wait(access, &name, reading.wait, &placement).await?;
        work(&reader).await
    };
    let result = match stop.unless(done).await {
        Err(error) if error.is::<ExecError>() => Err(why_it_broke(access, &name, error).await),
        result => result,
    };
    if let Err(error) = access.delete_pod(&name).await {
        print_note(&format!("pod {name} in namespace {} stays for a minute: {error}", access.namespace()));
    }
    result
}

/// A connection that broke may have lost its pod, which says why.
async fn why_it_broke(access: &Access, name: &str, error: anyhow::Error) -> anyhow::Error {
    match access.pod(name).await.map(|pod| pod.as_ref().map(readiness)) {
        Ok(Some(Readiness::Hopeless(why))) => anyhow::anyhow!(
            "pod {name}, which read the volume, ended too early: {why}; run the command again (fetch --within lets it \
             take longer)"
        ),
        _ => error,
    }
}

/// Removes what programs that were killed left behind: their pods have ended on their own.
async fn clear_up(access: &Access) -> Result<(), AccessError> {
    for pod in access.ended_readers().await? {
        access.delete_pod(&pod).await?;
    }
    Ok(())
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

async fn place(access: &Access, folder: &RowFolder) -> anyhow::Result<Placement> {
    let (name, namespace) = (&folder.persistent_volume_claim, &folder.namespace);
    let claim = access.claim(name).await?.with_context(|| {
        format!(
            "there is no PersistentVolumeClaim {name} in namespace {namespace}; does your kubeconfig name the cluster \
             of row {}?",
            folder.id
        )
    })?;
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    ensure!(
        phase == "Bound",
        "PersistentVolumeClaim {name} in namespace {namespace} is {phase}, so it holds no files; row {} is {}{}",
        folder.id,
        folder.state,
        folder::because(folder.reason.as_deref())
    );
    let placement = placement(&claim, &access.mounts(name).await?);
    if let Placement::TakenBy(pod) = &placement {
        bail!(
            "PersistentVolumeClaim {name} can be mounted by one pod (ReadWriteOncePod), and pod {pod} mounts it; try \
             again when that pod has ended"
        );
    }
    Ok(placement)
}

/// Waits until the pod takes commands.
async fn wait(access: &Access, name: &str, longest: Duration, placement: &Placement) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let pod = access.pod(name).await?;
        let seen = pod.as_ref().map_or(Readiness::Hopeless("it was deleted".to_owned()), readiness);
        match seen {
            Readiness::Ready => return Ok(()),
            Readiness::Hopeless(why) => bail!("pod {name}, which reads the volume, does not run: {why}"),
            Readiness::Waiting(_) if began.elapsed() < longest => tokio::time::sleep(LOOK_EVERY).await,
            Readiness::Waiting(why) => {
                let warning = access.warning(name).await.map(|warning| format!(" ({warning})"));
                let place = match placement {
                    Placement::On(nodes) => format!("; its volume is attached to {}", nodes.join(", ")),
                    _ => String::new(),
                };
                let waited = stretch(i64::try_from(longest.as_secs()).unwrap_or(i64::MAX));
                bail!(
                    "pod {name}, which reads the volume, does not run after {waited}: {why}{}{place}; --wait lets it \
                     take longer",
                    warning.unwrap_or_default()
                );
            }
        }
    }
}
