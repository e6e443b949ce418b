//! What the supervisor costs a start: pairs of ScavengerJobs, one with it and one without, one after the other on the real
//! node. Figures, no verdicts: `cargo xtask bench --only supervisor` runs it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::{batch::v1::Job as BatchJob, core::v1::Pod};
use kube::{
    api::DeleteParams,
    runtime::{WatchStreamExt, watcher},
};
use scavenger_e2e::{
    World,
    room::status,
    world::{LIMIT, counter, run_within, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
};
use serde_json::json;
use tokio::sync::mpsc;

/// Pairs.
const PAIRS: usize = 50;

/// More than this for the supervisor in the median misses the aim.
const AIM: Duration = Duration::from_millis(500);

/// When a ScavengerJob's Job was seen first, and when its container ran.
async fn starts(world: &World, name: &str, supervised: bool) -> Result<Duration> {
    let (send, mut receive) = mpsc::unbounded_channel();
    let which = watcher::Config::default().labels(&format!("{}={name}", names::LABEL_JOB));
    let (jobs, pods) = (world.api::<BatchJob>(), world.api::<Pod>());
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let send_job = send.clone();
    let which_job = which.clone();
    let watching = [
        tokio::spawn(async move {
            let mut stream = watcher(jobs, which_job).default_backoff().applied_objects().boxed();
            while stream.next().await.is_none_or(|event| event.is_err()) {}
            let _ = send_job.send((false, Instant::now()));
        }),
        tokio::spawn(async move {
            let mut stream = watcher(pods, which).default_backoff().applied_objects().boxed();
            while !stream.next().await.is_some_and(|event| event.is_ok_and(|pod| runs(&pod))) {}
            let _ = send.send((true, Instant::now()));
        }),
    ];
    let mut job = counter(name, 1_000_000);
    job["spec"]["supervisor"] = json!({ "enabled": supervised });
    // The workload's own start is not to be measured, nor its limit of processor time.
    job["spec"]["resources"]["requests"]["cpu"] = json!("500m");
    world.create::<ScavengerJob>(job).await?;
    let mut made = None;
    let took = tokio::time::timeout(LIMIT, async {
        while let Some((is_running, time)) = receive.recv().await {
            match (is_running, made) {
                (true, Some(made)) => return Some(time.duration_since(made)),
                (true, None) => return None,
                (false, _) => made = Some(time),
            }
        }
        None
    });
    let took = took.await?.with_context(|| format!("{name} ran before its Job was seen"))?;
    watching.iter().for_each(tokio::task::JoinHandle::abort);
    let job = world.phase(name, Phase::Running).await?;
    let is_supervised = status(&job).attempt.is_some_and(|attempt| attempt.supervised);
    anyhow::ensure!(is_supervised == supervised, "{name} is supervised: {is_supervised}");
    let jobs = world.api::<ScavengerJob>();
    jobs.delete(name, &DeleteParams::default()).await?;
    until(&format!("{name} is gone"), || async { Ok(jobs.get_opt(name).await?.is_none().then_some(())) })
        .await?;
    Ok(took)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[test]
#[ignore = "a measurement of minutes: `cargo xtask bench --only supervisor`"]
fn the_supervisor_costs_a_start_little() {
    run_within(Duration::from_secs(1800), "bench-supervisor", |world| async move {
        world.claim("data").await?;
        let (mut with, mut without, mut more) = (Vec::new(), Vec::new(), Vec::new());
        // The first of each brings images and caches.
        for pair in 0..=PAIRS {
            let mut times = [Duration::ZERO; 2];
            // In turn, which of the two is first.
            for supervised in [pair % 2 == 0, pair % 2 != 0] {
                let name = format!("count-{pair}-{}", if supervised { "with" } else { "without" });
                times[usize::from(supervised)] = starts(world, &name, supervised).await?;
            }
            if pair > 0 {
                without.push(times[0]);
                with.push(times[1]);
                more.push(times[1].saturating_sub(times[0]));
            }
        }
        println!(
            "from the Job to a running container, medians of {PAIRS} pairs: {:.2?} with the supervisor, {:.2?} without; \
             median of the differences {:.2?} (aim: {AIM:?})",
            median(&mut with),
            median(&mut without),
            median(&mut more)
        );
        Ok(())
    });
}
