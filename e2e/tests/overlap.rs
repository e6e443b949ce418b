//! No two at once: whatever takes an attempt away, the next one begins only when it has ended. The workload itself is
//! the judge: it locks its checkpoint, ends with an exit status of its own if another run holds the lock, and keeps a
//! journal with the times at which it worked.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{batch::v1::Job as BatchJob, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams},
};
use scavenger_e2e::{
    World,
    faults::Witness,
    halted::Halted,
    postgres::NAMESPACE,
    repetitions,
    room::{delete_pod, has_reason, has_run_for, status},
    world::{LIMIT, argument, counter_beside, run_within, until},
};
use scavenger_schema::scavenger_job::{Outcome, Phase, ScavengerJob};
use scavenger_vocabulary::WaitingReason;
use serde_json::{Value, json};

/// Two on one volume: one that saves and goes, and one that goes on until it is killed.
const JOBS: [(&str, &str); 2] = [("saves", "save"), ("ignores", "ignore")];

/// What takes an attempt away.
#[derive(Debug, Clone, Copy)]
enum Means {
    Preemption,
    Deletion,
    Eviction,
    JobDeleted,
    JobOrphansItsPods,
    OperatorKilled,
    LeaderFrozen,
    NodeLost,
}

/// Those of every round.
const MEANS: [Means; 6] = [
    Means::Preemption,
    Means::Deletion,
    Means::Eviction,
    Means::JobDeleted,
    Means::JobOrphansItsPods,
    Means::OperatorKilled,
];

/// Those of the first of so many rounds: a node is given up after most of a minute, and a Lease runs out after 15 s.
const SLOW_MEANS: [Means; 2] = [Means::LeaderFrozen, Means::NodeLost];

/// So often these come.
const SLOW_EVERY: usize = 4;

/// How long the leader is frozen at least in a soak: for several times the 15 s after which its Lease runs out.
const FROZEN_FOR: Duration = Duration::from_secs(60);

/// A small generator (xorshift): the same seed gives the same order.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap_or(0)
    }

    fn shuffled<T: Copy>(&mut self, all: &[T]) -> Vec<T> {
        let mut all = all.to_vec();
        for end in (1..all.len()).rev() {
            let other = self.below(end + 1);
            all.swap(end, other);
        }
        all
    }
}

fn holding_the_lock(name: &str, on_sigterm: &str, slot: &str) -> Value {
    let mut job = counter_beside(name, 1_000_000);
    job["spec"]["args"][1] = json!("--every=50ms");
    argument(&mut job, &format!("--on-sigterm={on_sigterm}"));
    job["spec"]["resources"]["requests"][slot] = json!(5);
    job["spec"]["interruptionAfter"] = json!("1s");
    job["spec"]["terminationGracePeriodSeconds"] = json!(3);
    job
}

/// Waits until both have run for a whole stretch since they were last taken away: without one, each interruption would
/// double the wait for the next start.
async fn both_run(world: &World) -> Result<()> {
    for (name, _) in JOBS {
        has_run_for(world, name, Duration::from_secs(2)).await?;
    }
    Ok(())
}

async fn interruptions(world: &World) -> Result<i64> {
    let mut sum = 0;
    for (name, _) in JOBS {
        sum += status(&world.api::<ScavengerJob>().get(name).await?).interrupted_count;
    }
    Ok(sum)
}

/// How often the operator in a pod was started again.
async fn restarts(pods: &Api<Pod>, pod: &str) -> Result<i32> {
    let status = pods.get(pod).await?.status.and_then(|status| status.container_statuses).unwrap_or_default();
    Ok(status.iter().map(|container| container.restart_count).sum())
}

async fn take_away(world: &World, means: Means, name: &str, slot: &str) -> Result<()> {
    let pod = world.pod(name).await?.name_any();
    let child = status(&world.api::<ScavengerJob>().get(name).await?)
        .attempt
        .map(|attempt| attempt.job_name)
        .context("the attempt has no Job")?;
    match means {
        Means::Preemption => {
            world.owner_pod("owner", slot, 4).await?;
        }
        Means::Deletion => {
            world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        }
        Means::Eviction => {
            world.api::<Pod>().evict(&pod, &EvictParams::default()).await?;
        }
        Means::JobDeleted => {
            world.api::<BatchJob>().delete(&child, &DeleteParams::background()).await?;
        }
        Means::JobOrphansItsPods => {
            world.api::<BatchJob>().delete(&child, &DeleteParams::orphan()).await?;
            // It goes on; who deleted the Job deletes the pod later.
            until("the Job is gone", || async {
                Ok(world.api::<BatchJob>().get_opt(&child).await?.is_none().then_some(()))
            })
            .await?;
            world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        }
        Means::OperatorKilled => {
            let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
            let leader = world.leader().await?;
            world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
            let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            pods.delete(&leader, &at_once).await?;
        }
        Means::LeaderFrozen => {
            let pods: Api<Pod> = Api::namespaced(world.client.clone(), NAMESPACE);
            let leader = world.leader().await?;
            let before = restarts(&pods, &leader).await?;
            let frozen = Halted::operator(&leader)?;
            let until_at_least =
                tokio::time::Instant::now() + if is_soak() { FROZEN_FOR } else { Duration::ZERO };
            world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
            until("another replica leads", || async {
                let now = world.leader().await.ok();
                Ok(now.is_some_and(|now| !now.is_empty() && now != leader).then_some(()))
            })
            .await?;
            // That one begins the next attempt, of which the frozen one knows nothing. Then the frozen one goes on from
            // where it was, and must end without a write.
            let begun = |job: &ScavengerJob| {
                status(job).phase.is_some_and(Phase::is_active)
                    && status(job).attempt.is_some_and(|attempt| attempt.job_name != child)
            };
            world.job_until(name, "starting again under the next leader", begun).await?;
            tokio::time::sleep_until(until_at_least).await;
            drop(frozen);
            until("the frozen leader has ended", || async {
                Ok((restarts(&pods, &leader).await? > before).then_some(()))
            })
            .await?;
        }
        Means::NodeLost => {
            // To the cluster it is gone; the workload does not notice, and works on without knowing that it was deleted.
            let _halted = Halted::kubelet()?;
            world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
            let unreachable = |job: &ScavengerJob| has_reason(job, WaitingReason::NodeUnreachable);
            world.job_until(name, "told that its node is unreachable", unreachable).await?;
        }
    }
    Ok(())
}

/// One run of the workload, from its journal: the number of its attempt, and the milliseconds at which it was first and
/// last at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    attempt: u64,
    first: u64,
    last: u64,
}

/// The runs of a journal, in the order in which they began.
fn runs(journal: &str) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for line in journal.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [event, attempt, _, at] = fields[..] else { anyhow::bail!("{line:?} is no line of a journal") };
        ensure!(event != "overlap", "two attempts met: {line:?}");
        let (attempt, at) = (attempt.parse()?, at.parse()?);
        match runs.iter_mut().find(|run| run.attempt == attempt) {
            Some(_) if event == "start" => anyhow::bail!("attempt {attempt} began twice"),
            Some(run) => run.last = run.last.max(at),
            None => runs.push(Run { attempt, first: at, last: at }),
        }
    }
    Ok(runs)
}

/// No two of them were at work at the same time.
fn one_after_the_other(runs: &[Run]) -> Result<()> {
    for (number, one) in runs.iter().enumerate() {
        for other in &runs[number + 1..] {
            ensure!(
                one.last < other.first || other.last < one.first,
                "attempts {} and {} were at work at the same time: {one:?}, {other:?}",
                one.attempt,
                other.attempt
            );
        }
    }
    Ok(())
}

/// Of six interruptions each, and eight where the slow ones are among them; 250 of them take most of an hour.
fn rounds() -> usize {
    repetitions(2).min(40)
}

/// True if there is time for what takes longer.
fn is_soak() -> bool {
    repetitions(1) > 1
}

async fn story(world: &World, seed: u64) -> Result<()> {
    world.claim("data").await?;
    let slot = world.slots(11).await?;
    let witness = Witness::start(&world.client, &world.namespace);
    for (name, on_sigterm) in JOBS {
        world.create::<ScavengerJob>(holding_the_lock(name, on_sigterm, &slot)).await?;
    }
    let mut random = Random(seed);
    let mut done = Vec::new();
    for round in 0..rounds() {
        let mut means = MEANS.to_vec();
        if round.is_multiple_of(SLOW_EVERY) {
            means.extend(SLOW_MEANS);
        }
        for means in random.shuffled(&means) {
            both_run(world).await?;
            let before = interruptions(world).await?;
            let (name, _) = JOBS[random.below(JOBS.len())];
            let what = || format!("round {round}, seed {seed}: {means:?} of {name}, after {done:?}");
            take_away(world, means, name, &slot).await.with_context(what)?;
            until("one is interrupted", || async {
                Ok((interruptions(world).await? > before).then_some(()))
            })
            .await
            .with_context(what)?;
            if matches!(means, Means::Preemption) {
                world.pod_runs("owner").await.with_context(what)?;
                delete_pod(world, "owner").await?;
            }
            done.push((means, name));
            witness.is_content().with_context(|| format!("seed {seed}, after {done:?}"))?;
        }
    }
    both_run(world).await?;
    let mut all = 0;
    for (name, _) in JOBS {
        let journal = world.file("data", &format!("journal-{name}")).await?;
        let runs = runs(&journal).with_context(|| format!("{name}, seed {seed}"))?;
        one_after_the_other(&runs).with_context(|| format!("{name}, seed {seed}"))?;
        let now = status(&world.api::<ScavengerJob>().get(name).await?);
        let interrupted = usize::try_from(now.interrupted_count)?;
        ensure!(runs.len() == interrupted + 1, "{} runs, {interrupted} interruptions of {name}", runs.len());
        for attempt in &now.attempts {
            let fine = matches!(attempt.outcome, Some(Outcome::Interrupted));
            ensure!(fine, "{name}, seed {seed}: {attempt:?}");
        }
        all += interrupted;
    }
    println!("{all} interruptions in {} rounds (seed {seed}), and no two attempts at once", rounds());
    Ok(())
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
#[expect(clippy::disallowed_methods, reason = "each run tries another order; the seed is in what it prints")]
fn no_two_attempts_are_ever_at_work_at_once() {
    let limit = (2 * LIMIT).saturating_mul(u32::try_from(rounds()).unwrap_or(u32::MAX)) + 2 * LIMIT;
    let seed = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(1) | 1;
    run_within(limit.max(Duration::from_secs(600)), "overlap", move |world| story(world, seed));
}

#[test]
fn runs_at_the_same_time_are_found() {
    let apart = "start 1 0 100\nstep 1 1 150\nsigterm 1 1 160\nstart 2 1 161\nstep 2 2 200\n";
    one_after_the_other(&runs(apart).unwrap()).unwrap();
    let together = "start 1 0 100\nstart 2 0 140\nstep 1 1 150\n";
    assert!(one_after_the_other(&runs(together).unwrap()).unwrap_err().to_string().contains("same time"));
    assert!(runs("start 1 0 100\noverlap 0 0 120\n").is_err());
    assert!(runs("start 1 0 100\nstart 1 0 120\n").is_err());
}
