//! Attempts that a test takes away, and what became of them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use scavenger_schema::scavenger_job::{Attempt, ScavengerJob};

use crate::{
    World,
    room::{delete_pod, status},
    world::until,
};

/// An attempt that was taken away.
#[derive(Debug)]
pub struct Ended {
    /// What is recorded of it.
    pub attempt: Attempt,
    /// From the deletion of its pod to the pod's end.
    pub took: Duration,
}

/// So often the leader may change just when an attempt ends.
const CHANGES: usize = 3;

/// Deletes the pod of the running attempt once it is `ready`, and waits until the attempt is over and measured.
///
/// # Errors
/// If no attempt runs, or it does not end.
pub async fn take_away(world: &World, name: &str, ready: impl AsyncFn() -> Result<()>) -> Result<Ended> {
    for _ in 0..CHANGES {
        ready().await?;
        let pod = world.pod(name).await?.name_any();
        let running = status(&world.api::<ScavengerJob>().get(name).await?).attempt;
        let number = running.context("no attempt is active")?.number;
        let changes = world.changes_of_leader().await?;
        let began = Instant::now();
        delete_pod(world, &pod).await?;
        let took = began.elapsed();
        let attempt = until(&format!("attempt {number} of {name} is over and measured"), || async {
            let job = world.api::<ScavengerJob>().get(name).await?;
            let ended = status(&job).attempts.into_iter().find(|attempt| attempt.number == number);
            let Some(attempt) = ended else { return Ok(None) };
            if !attempt.supervised || attempt.answered_sigterm.is_some() {
                return Ok(Some(Some(attempt)));
            }
            // Only the replica that led when the pod went saw its last message.
            Ok((world.changes_of_leader().await? != changes).then_some(None))
        })
        .await?;
        match attempt {
            Some(attempt) => return Ok(Ended { attempt, took }),
            None => {
                println!("{name}: another replica led when attempt {number} ended, so it is not measured");
            }
        }
    }
    bail!("{name}: the leader changed at each of {CHANGES} interruptions")
}

impl Ended {
    /// It answered SIGTERM with a checkpoint, and at least half of the grace period was left.
    ///
    /// # Errors
    /// If it did not.
    pub fn answered_within(&self, name: &str, grace: Duration) -> Result<()> {
        let Self { attempt, took } = self;
        println!("{name}: ended after {took:.1?} of {grace:?}, lost {:?} s", attempt.lost_seconds);
        ensure!(attempt.supervised && attempt.answered_sigterm == Some(true), "{name}: {attempt:?}");
        ensure!(attempt.lost_seconds.is_some_and(|lost| lost <= 1), "{name}: {attempt:?}");
        ensure!(*took < grace / 2, "{name} ended after {took:?} only");
        Ok(())
    }
}
