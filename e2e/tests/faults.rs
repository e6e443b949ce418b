//! The operator between a real API server and the worst that can happen on the way to it. Nodes and containers are
//! played by KWOK; scheduler, Job controller, garbage collector, quota and admission are real.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{batch::v1::Job as BatchJob, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use scavenger_e2e::{
    World,
    alone::{alone, in_phase, submit},
    faults::{Fate, Operator, Witness},
    repetitions,
    room::status,
    world::{played, until},
};
use scavenger_schema::{
    names,
    scavenger_job::{Phase, ScavengerJob},
    scavenger_pool::ScavengerPool,
};
use scavenger_vocabulary::{Reason, WaitingReason, pool_condition::MEMORY_MEASURED};
use serde_json::json;

/// Cores of the played nodes: three with 64 each.
const CORES: f64 = 192.0;

/// Share of them that ScavengerJobs may take, as e2e/deploy sets it.
const THRESHOLD: f64 = 0.95;

/// Waits until so many run, and nothing has been started for a while: twice the operator's longest pause.
async fn settles(world: &World, witness: &Witness, running: usize) -> Result<()> {
    until(&format!("{running} run and no more start"), || async {
        witness.is_content()?;
        let quiet = witness.since_last_start().is_some_and(|since| since > Duration::from_secs(15));
        Ok((quiet && in_phase(world, Phase::Running).await? == running).then_some(()))
    })
    .await
    .with_context(|| format!("{:?} Jobs were active at most and at last", witness.active()))
}

/// A view that is 10 s old knows neither the Jobs that were made nor the room they take.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn blind_it_gives_no_room_twice() {
    alone("blind", |world, proxy| async move {
        // Room for 50.
        let cpu = format!("{:.0}m", CORES * THRESHOLD / 50.5 * 1000.0);
        let witness = Witness::start(&world.client, &world.namespace);
        proxy.delay_watches(Duration::from_secs(10));
        let operator = Operator::start(&proxy, &world.client).await?;
        submit(world, 200, &cpu).await?;
        settles(world, &witness, 50).await?;
        let (most, _) = witness.active();
        ensure!(most == 50, "{most} were active at the same time, and there is room for 50");
        operator.kill().await?;
        witness.is_content()
    });
}

/// A thousand at once, writes that fail at random, and an outage of a minute in the middle.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_surge_keeps_to_the_threshold_and_gets_through() {
    alone("surge", |world, proxy| async move {
        let (all, room) = if repetitions(1) > 1 { (1000, 400) } else { (400, 150) };
        let cpu = format!("{:.0}m", CORES * THRESHOLD / (f64::from(room) + 0.9) * 1000.0);
        let (all, room) = (usize::try_from(all)?, usize::try_from(room)?);
        let witness = Witness::start(&world.client, &world.namespace);
        // One in ten fails; which, is the same in each run.
        proxy.judge(|write| match write.number % 30 {
            7 => Fate::Refuse(500),
            17 => Fate::Refuse(429),
            27 => Fate::Refuse(409),
            _ => Fate::Pass,
        });
        let operator = Operator::start(&proxy, &world.client).await?;
        let began = Instant::now();
        submit(world, all, &cpu).await?;
        until("a quarter runs", || async {
            Ok((in_phase(world, Phase::Running).await? >= room / 4).then_some(()))
        })
        .await?;
        proxy.set_down(true);
        let outage = Duration::from_secs(if repetitions(1) > 1 { 60 } else { 15 });
        // Not a wait for something: the length of the outage.
        tokio::time::sleep(outage).await;
        operator.ends().await?;
        proxy.set_down(false);
        let operator = Operator::start(&proxy, &world.client).await?;
        settles(world, &witness, room).await?;
        let (most, _) = witness.active();
        ensure!(most == room, "{most} were active at the same time, and there is room for {room}");
        let pools: Api<ScavengerPool> = Api::all(world.client.clone());
        let may_start = usize::try_from(pools.get(names::DEFAULT_POOL).await?.spec.max_concurrent_starts)?;
        let starting = witness.most_starting();
        ensure!(
            (2..=may_start).contains(&starting),
            "{starting} were starting at the same time, and maxConcurrentStarts is {may_start}"
        );
        println!(
            "surge: {room} of {all} run {:.0} s after the first was created, at most {starting} starting at the same \
             time, with an outage of {} s, one write in ten failing, and {} writes",
            (began.elapsed() - Duration::from_secs(15)).as_secs_f64(),
            outage.as_secs(),
            proxy.writes()
        );
        operator.kill().await?;
        witness.is_content()
    });
}

/// Watches that say nothing more, on connections that look well: what happens in the cluster is not seen. The kubelet
/// asks after the operator's health and starts it again, and nothing is lost.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn wedged_watches_are_noticed() {
    if repetitions(1) == 1 {
        eprintln!("left to `cargo xtask soak`: a bookmark comes once a minute, so this takes two");
        return;
    }
    alone("wedged", |world, proxy| async move {
        let jobs: Api<ScavengerJob> = world.api();
        let operator = Operator::start(&proxy, &world.client).await?;
        jobs.create(&PostParams::default(), &serde_json::from_value(played("seen", "10m"))?).await?;
        world.phase("seen", Phase::Running).await?;
        proxy.wedge_watches();
        let began = Instant::now();
        jobs.create(&PostParams::default(), &serde_json::from_value(played("unseen", "10m"))?).await?;
        end(world, "seen", 0).await?;
        ensure!(operator.health().await?.0, "it is unwell before it can know");
        let said = until("its health says so", || async {
            let (well, said) = operator.health().await?;
            Ok((!well).then_some(said))
        })
        .await?;
        println!(
            "watches wedged -> /healthz fails after {:.0} s (90 s are set): {said}",
            began.elapsed().as_secs_f64()
        );
        ensure!(said.starts_with("nothing was heard on the watch of "), "{said}");
        for name in ["seen", "unseen"] {
            let phase = status(&jobs.get(name).await?).phase;
            ensure!(
                !matches!(phase, Some(Phase::Completed)) && (name == "seen" || phase.is_none()),
                "{name}: {phase:?}"
            );
        }
        operator.kill().await?;
        let operator = Operator::start(&proxy, &world.client).await?;
        world.phase("seen", Phase::Completed).await?;
        world.phase("unseen", Phase::Running).await?;
        operator.kill().await
    });
}

/// A hundred wait for a claim that never comes, and one makes every write on it fail; the others do not notice.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn those_that_wait_or_are_poisoned_hold_up_nobody() {
    alone("blocked", |world, proxy| async move {
        proxy.judge(|write| {
            let poisoned =
                write.path.contains("/scavengerjobs/poison") || write.path.contains("/jobs/poison");
            if poisoned { Fate::Refuse(500) } else { Fate::Pass }
        });
        let operator = Operator::start(&proxy, &world.client).await?;
        let jobs: Api<ScavengerJob> = world.api();
        for number in 0..100 {
            let mut job = played(&format!("blocked-{number}"), "10m");
            job["spec"]["persistentVolumeClaims"] = json!([{ "claimName": "never", "mountPath": "/data" }]);
            jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
        }
        jobs.create(&PostParams::default(), &serde_json::from_value(played("poison", "10m"))?).await?;
        let began = Instant::now();
        jobs.create(&PostParams::default(), &serde_json::from_value(played("good", "10m"))?).await?;
        world.phase("good", Phase::Running).await?;
        println!(
            "behind 100 that wait and one that fails, one ran after {:.1} s",
            began.elapsed().as_secs_f64()
        );
        let poisoned = jobs.get("poison").await?.status.and_then(|status| status.phase);
        ensure!(poisoned.is_none(), "the poisoned one was not poisoned: {poisoned:?}");
        operator.kill().await
    });
}

/// A node uses more memory than its pods ask for. The proxy plays that, and before that a cluster without metrics.k8s.io.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn measured_memory_takes_those_that_lose_least() {
    alone("measured", |world, proxy| async move {
        let jobs: Api<ScavengerJob> = world.api();
        proxy.measure_nothing();
        let operator = Operator::start(&proxy, &world.client).await?;
        let measured = |is: &'static str| async move {
            until(&format!("the pool says {is}"), || async {
                let pools: Api<ScavengerPool> = Api::all(world.client.clone());
                let conditions = pools.get(names::DEFAULT_POOL).await?.status.unwrap_or_default().conditions;
                let told = conditions.iter().any(|one| one.type_ == MEMORY_MEASURED && one.status == is);
                Ok(told.then_some(()))
            })
            .await
        };
        measured("False").await?;
        // 60 of 256 GiB, all on one node.
        for (name, saves) in [("cheap", true), ("cheaper", true), ("dear", false)] {
            let mut job = played(name, "1");
            job["spec"]["resources"]["requests"]["memory"] = json!("20Gi");
            job["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "fake-0001" });
            job["spec"]["interruptionAfter"] = json!("10m");
            job["spec"]["checkpoint"] = json!({ "savesOnSigterm": saves, "restartSeconds": 5 });
            jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
            world.phase(name, Phase::Running).await?;
        }
        // 240 GiB are 94%; 22 GiB less would be 85%: two must go. The measurement grows old and is read again and again.
        let began = Instant::now();
        proxy.measure("fake-0001", "240Gi");
        for name in ["cheap", "cheaper"] {
            let gone = |job: &ScavengerJob| status(job).interrupted_count >= 1;
            let job = world.job_until(name, "interrupted", gone).await?;
            let attempt = status(&job).attempts.last().cloned().context("no attempt was recorded")?;
            ensure!(attempt.reason == Some(Reason::NodePressure), "{attempt:?}");
            ensure!(attempt.message.as_ref().is_some_and(|said| said.contains("as measured")), "{attempt:?}");
        }
        println!("measured -> both interrupted in {:.1} s (read every 15 s)", began.elapsed().as_secs_f64());
        measured("True").await?;
        // By requests there would be room again, but the node is as full as it was measured to be.
        for name in ["cheap", "cheaper"] {
            // One of them in line behind the other.
            let reasons = [WaitingReason::NoCapacity.name(), WaitingReason::BehindInQueue.name()];
            let waits = |job: &ScavengerJob| {
                status(job).conditions.iter().any(|one| reasons.contains(&one.reason.as_str()))
            };
            world.job_until(name, "waiting for room", waits).await?;
        }
        let dear = world.phase("dear", Phase::Running).await?;
        ensure!(status(&dear).interrupted_count == 0, "{:?}", status(&dear));
        // Nothing is measured any more, and the node stays closed that was hot when it was measured last.
        proxy.measure_nothing();
        measured("False").await?;
        // kube-scheduler, which knows of requests alone, likes the emptiest node best. Its Job keeps this one off it.
        for node in ["fake-0002", "fake-0003"] {
            let mut job = played(node, "30");
            job["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
            jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
            world.phase(node, Phase::Running).await?;
        }
        jobs.create(&PostParams::default(), &serde_json::from_value(played("new", "1"))?).await?;
        world.phase("new", Phase::Running).await?;
        let spec = world.pod("new").await?.spec.unwrap_or_default();
        ensure!(spec.node_name.as_deref() != Some("fake-0001"), "it runs on the full node");
        let affinity = json!(spec.affinity).to_string();
        ensure!(affinity.contains("NotIn") && affinity.contains("fake-0001"), "{affinity}");
        operator.kill().await
    });
}

/// Lets the played containers of a ScavengerJob end.
async fn end(world: &World, job: &str, exit_code: u8) -> Result<()> {
    let annotations = json!({ "metadata": { "annotations": {
        "fake.scavenger.dev/run-seconds": "0", "fake.scavenger.dev/exit-code": exit_code.to_string(),
    } } });
    for pod in world.pods(job).await? {
        world
            .api::<Pod>()
            .patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&annotations))
            .await?;
    }
    Ok(())
}

/// A life with everything in it: one is interrupted, comes back and completes; one fails; a gang completes.
async fn live(world: &World) -> Result<()> {
    let jobs: Api<ScavengerJob> = world.api();
    let mut gang = played("gang", "10m");
    gang["spec"]["podCount"] = json!(2);
    for job in [played("again", "10m"), played("fails", "10m"), gang] {
        jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    }
    for name in ["again", "fails", "gang"] {
        world.phase(name, Phase::Running).await?;
    }
    let pod = world.pod("again").await?.name_any();
    world.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
    world
        .job_until("again", "running again", |job| {
            status(job).phase == Some(Phase::Running) && status(job).interrupted_count == 1
        })
        .await?;
    end(world, "fails", 3).await?;
    end(world, "gang", 0).await?;
    end(world, "again", 0).await?;
    let (again, gang) =
        (world.phase("again", Phase::Completed).await?, world.phase("gang", Phase::Completed).await?);
    let fails = world.phase("fails", Phase::Failed).await?;
    for (job, attempts, interrupted) in [(&again, 2, 1), (&gang, 1, 0), (&fails, 1, 0)] {
        let status = status(job);
        ensure!(
            status.attempts.len() == attempts && status.interrupted_count == interrupted,
            "{}: {status:?}",
            job.name_any()
        );
    }
    let message = status(&fails).message.unwrap_or_default();
    ensure!(message.contains("exited with code 3"), "{message}");
    Ok(())
}

/// Removes what a life has left, for the next one.
async fn clear(world: &World) -> Result<()> {
    let jobs: Api<ScavengerJob> = world.api();
    jobs.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    until("everything is gone", || async {
        let left = jobs.list(&ListParams::default()).await?.items.len();
        let pods = world.api::<Pod>().list(&ListParams::default()).await?.items.len();
        let children = world.api::<BatchJob>().list(&ListParams::default()).await?.items.len();
        Ok((left == 0 && pods == 0 && children == 0).then_some(()))
    })
    .await
}

/// Killed before and after every write (some of them, unless all are asked for): the end is the same, and nothing was
/// done twice.
#[test]
#[ignore = "in `cargo xtask test --all`"]
fn killed_at_any_write_it_ends_as_if_it_had_not_been() {
    alone("killed", |world, proxy| async move {
        // Of this test alone: there may be something left of others that the operator clears up.
        let own = |path: &str| path.contains(&format!("/namespaces/{}/", world.namespace));
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        proxy.judge(move |write| {
            counter.fetch_add(usize::from(own(&write.path)), Ordering::Relaxed);
            Fate::Pass
        });
        let operator = Operator::start(&proxy, &world.client).await?;
        live(world).await?;
        let writes = count.load(Ordering::Relaxed);
        clear(world).await?;
        operator.kill().await?;
        let step = if repetitions(1) > 1 { 1 } else { 8 };
        let mut kills = 0;
        for number in (1..=writes).step_by(step) {
            for fate in [Fate::HoldBefore, Fate::HoldAfter] {
                let mut seen = 0;
                proxy.judge(move |write| {
                    seen += usize::from(own(&write.path));
                    if seen == number && own(&write.path) { fate } else { Fate::Pass }
                });
                let witness = Witness::start(&world.client, &world.namespace);
                let first = Operator::start(&proxy, &world.client).await?;
                let context = || format!("killed at write {number}, {fate:?}");
                let mut life = std::pin::pin!(live(world));
                let operator = tokio::select! {
                    // Fewer writes than in the undisturbed life: then there was nothing to kill it at.
                    lived = &mut life => {
                        lived.with_context(context)?;
                        first
                    }
                    held = proxy.held() => {
                        held?;
                        first.kill().await?;
                        kills += 1;
                        proxy.obey();
                        let next = Operator::start(&proxy, &world.client).await?;
                        life.await.with_context(context)?;
                        next
                    }
                };
                witness.is_content().with_context(context)?;
                clear(world).await.with_context(context)?;
                operator.kill().await?;
            }
        }
        println!("killed {kills} times around {writes} writes: the end was the same each time");
        ensure!(kills > 0, "it was never killed");
        Ok(())
    });
}
