//! Attempts that a test takes away, and what became of them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use scavenger_schema::scavenger_job::{Attempt, ScavengerJob};

use crate::{
    World,
    room::{delete_pod, status},
};

/// An attempt that was taken away.
#[derive(Debug)]
pub struct Ended {
    /// What is recorded of it.
    pub attempt: Attempt,
    /// From the deletion of its pod to the pod's end.
    pub took: Duration,
}

/// Deletes the pod of the running attempt, and waits until the attempt is over and measured.
///
/// # Errors
/// If no attempt runs, or it does not end.
pub async fn take_away(world: &World, name: &str) -> Result<Ended> {
    let pod = world.pod(name).await?.name_any();
    let running = status(&world.api::<ScavengerJob>().get(name).await?).attempt;
    let number = running.context("no attempt is active")?.number;
    let began = Instant::now();
    delete_pod(world, &pod).await?;
    let took = began.elapsed();
    let measured = |job: &ScavengerJob| {
        let ended = status(job).attempts.into_iter().find(|attempt| attempt.number == number);
        ended.filter(|attempt| !attempt.supervised || attempt.answered_sigterm.is_some())
    };
    let job = world.job_until(name, "measured", |job| measured(job).is_some()).await?;
    Ok(Ended { attempt: measured(&job).context("the attempt is gone")?, took })
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
