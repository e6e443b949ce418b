//! A pod of the user's own that mounts a volume, for as long as a verb needs it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use scavenger_program::signal::EndSignal;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::text::{print_note, stretch};
use crate::cluster::{
    Access, AccessError, Exec, ExecError, Mount, Placement, Purpose, Readiness, VolumePod, placement,
    readiness, volume_pod,
};

/// How often the pod is looked at until it runs.
const LOOK_EVERY: Duration = Duration::from_millis(500);

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
    pub(super) async fn unless<T>(
        &mut self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        tokio::select! {
            result = work => result,
            _ = self.end.next() => Err(Interrupted.into()),
            _ = self.hangup.recv() => Err(Interrupted.into()),
        }
    }
}

/// A claim, and how a pod uses it.
#[derive(Clone, Copy)]
pub(super) struct VolumeUser<'a> {
    pub(super) access: &'a Access,
    pub(super) mount: Mount<'a>,
    pub(super) image: &'a str,
    pub(super) purpose: Purpose<'a>,
    pub(super) placement: &'a Placement,
    /// How long the pod may take to run.
    pub(super) wait: Duration,
    /// How long it may run.
    pub(super) within: Duration,
}

/// The pod, once it takes commands.
pub(super) struct Pod<'a> {
    access: &'a Access,
    name: &'a str,
    container: &'static str,
    image: &'a str,
}

impl Pod<'_> {
    /// Runs a command in the pod.
    pub(super) async fn exec(&self, command: Vec<String>) -> Result<Exec, AccessError> {
        self.access.exec(self.name, self.container, command, false).await
    }

    /// Runs a command that reads what is sent to it.
    pub(super) async fn exec_with_input(&self, command: Vec<String>) -> Result<Exec, AccessError> {
        self.access.exec(self.name, self.container, command, true).await
    }

    /// Image that the commands run in.
    pub(super) fn image(&self) -> &str {
        self.image
    }
}

/// Does `work` with a pod of that name. The pod is deleted afterwards, whatever comes: an error, Ctrl-C, or the end of the
/// terminal. If this program is killed, the pod ends on its own.
pub(super) async fn in_pod<T>(
    user: &VolumeUser<'_>,
    name: &str,
    stop: &mut Stop,
    work: impl AsyncFnOnce(&Pod) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let VolumeUser { access, mount, image, purpose, placement, wait: longest, within } = *user;
    stop.unless(clear_up(access)).await?;
    let within = within + longest;
    let pod = volume_pod(&VolumePod { mount, name, image, placement, within, purpose });
    let made = access.create_pod(&pod).await;
    if let Err(error @ (AccessError::Allow { .. } | AccessError::Refuse { .. })) = made {
        return Err(error.into());
    }
    let pod = Pod { access, name, container: purpose.container(), image };
    let done = async {
        made?;
        wait(access, name, longest, placement).await?;
        work(&pod).await
    };
    let result = match stop.unless(Box::pin(done)).await {
        Err(error) if error.is::<ExecError>() => Err(why_it_broke(access, name, error).await),
        result => result,
    };
    if let Err(error) = access.delete_pod(name).await {
        print_note(&format!("pod {name} in namespace {} stays for a minute: {error}", access.namespace()));
    }
    result
}

/// A connection that broke may have lost its pod, which says why.
async fn why_it_broke(access: &Access, name: &str, error: anyhow::Error) -> anyhow::Error {
    match access.pod(name).await.map(|pod| pod.as_ref().map(readiness)) {
        Ok(Some(Readiness::Hopeless(why))) => anyhow::anyhow!(
            "pod {name}, which mounted the volume, ended too early: {why}; run the command again (--within lets fetch \
             and put take longer)"
        ),
        _ => error,
    }
}

/// Removes what programs that were killed left behind: their pods have ended on their own.
async fn clear_up(access: &Access) -> anyhow::Result<()> {
    for pod in access.ended_pods().await? {
        access.delete_pod(&pod).await?;
    }
    Ok(())
}

/// Where a pod that mounts the claim can be. `whose` is said of one that cannot be read yet.
pub(super) async fn place(
    access: &Access,
    mount: Mount<'_>,
    purpose: Purpose<'_>,
    whose: &str,
) -> anyhow::Result<Placement> {
    let (name, namespace) = (mount.claim, mount.namespace);
    let claim = access.claim(name).await?.with_context(|| {
        format!(
            "there is no PersistentVolumeClaim {name} in namespace {namespace}; does your kubeconfig name the right \
             cluster?"
        )
    })?;
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    match (phase, purpose) {
        // The pod may be the first consumer for which a claim waits.
        ("Bound", _) | ("Pending", Purpose::Write { .. }) => {}
        (_, Purpose::Read) => {
            bail!(
                "PersistentVolumeClaim {name} in namespace {namespace} is {phase}, so it holds no files{whose}"
            )
        }
        _ => bail!(
            "PersistentVolumeClaim {name} in namespace {namespace} is {phase}; ask the admin for another one"
        ),
    }
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
            Readiness::Hopeless(why) => bail!("pod {name}, which mounts the volume, does not run: {why}"),
            Readiness::Waiting(_) if began.elapsed() < longest => tokio::time::sleep(LOOK_EVERY).await,
            Readiness::Waiting(why) => {
                let warning = access.warning(name).await.map(|warning| format!(" ({warning})"));
                let place = match placement {
                    Placement::On(nodes) => format!("; its volume is attached to {}", nodes.join(", ")),
                    _ => String::new(),
                };
                let waited = stretch(i64::try_from(longest.as_secs()).unwrap_or(i64::MAX));
                bail!(
                    "pod {name}, which mounts the volume, does not run after {waited}: {why}{}{place}; --wait lets it \
                     take longer",
                    warning.unwrap_or_default()
                );
            }
        }
    }
}
