//! What ScavengerJobs really use, as the cluster's metrics-server measures it.

use anyhow::{Context, ensure};
use scavenger_e2e::{room::status, run, world::counter};
use scavenger_schema::scavenger_job::ScavengerJob;
use serde_json::json;

#[test]
fn the_status_says_what_it_really_uses() {
    run("usage", |world| async move {
        world.claim("data").await?;
        let mut job = counter("count", 1_000_000);
        job["spec"]["resources"]["requests"]["memory"] = json!("64Mi");
        world.create::<ScavengerJob>(job).await?;
        let is_measured = |job: &ScavengerJob| status(job).usage.is_some();
        let job = world.job_until("count", "it was measured for a minute", is_measured).await?;
        let usage = status(&job).usage.context("it was measured")?;
        ensure!(usage.attempt == 1 && usage.measured_seconds >= 60, "{usage:?}");
        let (mean, peak) = (usage.memory_mean.units()?, usage.memory_peak.units()?);
        // A small program and its supervisor; not more than their limit.
        ensure!((1 << 20..=64 << 20).contains(&peak) && mean <= peak, "{usage:?}");
        let (mean, peak) = (usage.cpu_mean.milli()?, usage.cpu_peak.milli()?);
        ensure!(peak > 0 && mean <= peak, "a program that counts uses cpu: {usage:?}");
        ensure!(usage.message.is_none(), "that is judged after ten minutes: {usage:?}");
        Ok(())
    });
}
