//! A real checkpoint decides: who goes in each mode, who is asked for a checkpoint first, and what a promise is worth that is
//! not kept. All on the real node.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use scavenger_e2e::{
    World,
    checkpointing::{asked, checkpoint, first_measured, on_demand, reported},
    interruption::{Ended, take_away},
    room::{
        delete_all, delete_pod, has_run_for, in_mode_operator, interrupted, owner_of_class, start, status,
        with_headroom,
    },
    run,
    world::{exec, until},
};
use scavenger_schema::scavenger_job::{Attempt, Phase, ScavengerJob};
use scavenger_vocabulary::{Reason, condition};
use serde_json::json;

/// Held by a test whose ordinary pod waits for capacity of the real node, and by one whose workload is asked for a checkpoint
/// there: nobody is asked while somebody waits.
static WAITING: Mutex<()> = Mutex::new(());

/// Who makes room.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Scheduler,
    Operator,
    Headroom,
}

impl Mode {
    /// Slots that each of the two holds. With two of them the one is below every threshold.
    fn slots(self) -> u32 {
        if self == Self::Headroom { 2 } else { 5 }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Scheduler => Reason::PreemptionByScheduler,
            Self::Operator => Reason::PreemptedByOperator,
            Self::Headroom => Reason::Headroom,
        }
    }

    /// Who goes of the two: the operator takes the one with the newer checkpoint, and kube-scheduler, which knows no
    /// checkpoints, the one that started last.
    fn rule<'a>(self, fresh: &'a str, stale: &'a str) -> (&'a str, &'a str) {
        match self {
            Self::Scheduler => ("younger", "older"),
            _ => (fresh, stale),
        }
    }
}

/// An older and a younger one, of which `fresh` has the newer checkpoint.
async fn two(world: &World, slot: &str, mode: Mode, fresh: &str, stale: &str) -> Result<()> {
    delete_all(world).await?;
    start(world, on_demand("older", slot, mode.slots())).await?;
    // Their starts are told in whole seconds.
    has_run_for(world, "older", Duration::from_secs(2)).await?;
    start(world, on_demand("younger", slot, mode.slots())).await?;
    checkpoint(world, stale).await?;
    has_run_for(world, "younger", Duration::from_secs(5)).await?;
    checkpoint(world, fresh).await
}

/// What was measured of the one that went, beside what was expected of it.
fn compare(went: &str, mode: Mode, attempt: &Attempt) -> Result<()> {
    println!(
        "{mode:?}: {went} went: lost {:?} s, expected {:?} s, answered SIGTERM: {:?}",
        attempt.lost_seconds, attempt.expected_lost_seconds, attempt.answered_sigterm
    );
    ensure!(attempt.answered_sigterm == Some(false), "{attempt:?}");
    let lost = attempt.lost_seconds.context("nothing was measured")?;
    let Some(expected) = attempt.expected_lost_seconds else {
        ensure!(mode == Mode::Scheduler, "nothing was expected: {attempt:?}");
        return Ok(());
    };
    // Before headroom takes it, it is asked for a checkpoint, and has 30 s to write one, which it does not.
    let waits = if mode == Mode::Headroom { 30 } else { 0 };
    ensure!((-3..=waits + 5).contains(&(lost - expected)), "lost {lost} s instead of {expected} s");
    Ok(())
}

/// Two that ordinary pods want to have gone: the rule of the mode says which goes, in both orders.
async fn the_rule_holds(world: &World, mode: Mode, class: Option<&str>) -> Result<()> {
    // Both together stay below the threshold of 95%.
    let slot = &world.slots(if mode == Mode::Headroom { 10 } else { 11 }).await?;
    let rounds = async || {
        for (fresh, stale) in [("younger", "older"), ("older", "younger")] {
            two(world, slot, mode, fresh, stale).await?;
            let (goes, stays) = mode.rule(fresh, stale);
            let owner = format!("owner-of-{fresh}");
            owner_of_class(world, &owner, class, slot, json!({})).await?;
            let second = format!("second-of-{fresh}");
            if mode == Mode::Headroom {
                // 4 + 4 slots are no more than 8, and this one makes it 9.
                world.pod_runs(&owner).await?;
                world.owner_pod(&second, slot, 1).await?;
            }
            let reason = interrupted(world, goes, 1).await?;
            ensure!(reason == mode.reason(), "{reason}");
            world.pod_runs(&owner).await?;
            let kept = world.phase(stays, Phase::Running).await?;
            ensure!(status(&kept).interrupted_count == 0, "{:?}", status(&kept));
            let job = first_measured(world, goes).await?;
            compare(goes, mode, &status(&job).attempts[0])?;
            ensure!(status(&job).progress == Some(0.25), "{:?}", status(&job).progress);
            delete_pod(world, &owner).await?;
            if mode == Mode::Headroom {
                delete_pod(world, &second).await?;
            }
        }
        Ok(())
    };
    if mode == Mode::Headroom { with_headroom(world, slot, rounds).await } else { rounds().await }
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn where_the_operator_preempts_the_newer_checkpoint_goes() {
    let _alone = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    run("decides", |world| async move {
        world.claim("data").await?;
        in_mode_operator(
            world,
            |class| async move { the_rule_holds(world, Mode::Operator, Some(&class)).await },
        )
        .await
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn where_the_scheduler_preempts_the_younger_goes() {
    let _alone = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    run("scheduler", |world| async move {
        world.claim("data").await?;
        the_rule_holds(world, Mode::Scheduler, None).await
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn for_headroom_the_newer_checkpoint_goes() {
    let _alone = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    run("fresh-headroom", |world| async move {
        world.claim("data").await?;
        the_rule_holds(world, Mode::Headroom, None).await
    });
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_planned_interruption_asks_for_a_checkpoint_first() {
    let _alone = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    run("asked", |world| async move {
        world.claim("data").await?;
        let slot = &world.slots(10).await?;
        with_headroom(world, slot, || async {
            for (name, request) in [
                ("by-signal", json!({ "signal": "USR1" })),
                ("by-command", json!({ "command": ["touch", "/data/by-command.ask"] })),
            ] {
                let before = reported(world).await?;
                start(world, asked(name, slot, 5, &request)).await?;
                until("it is known to write checkpoints", || async {
                    Ok((reported(world).await? > before).then_some(()))
                })
                .await?;
                has_run_for(world, name, Duration::from_secs(20)).await?;
                world.owner_pod("owner", slot, 4).await?;
                let reason = interrupted(world, name, 1).await?;
                ensure!(reason == Reason::Headroom, "{reason}");
                let job = first_measured(world, name).await?;
                let attempt = &status(&job).attempts[0];
                println!("{name}: asked before it went: lost {:?} of more than 20 s", attempt.lost_seconds);
                ensure!(attempt.lost_seconds.is_some_and(|lost| lost < 20), "{attempt:?}");
                ensure!(attempt.answered_sigterm == Some(false), "{attempt:?}");
                delete_all(world).await?;
                delete_pod(world, "owner").await?;
            }
            Ok(())
        })
        .await
    });
}

/// Waits for the condition SavesOnSigterm to be so, and returns its message.
async fn saves(world: &World, name: &str, wanted: &str) -> Result<String> {
    let found = |job: &ScavengerJob| {
        let conditions = status(job).conditions;
        let of_type = conditions.into_iter().find(|one| one.type_ == condition::SAVES_ON_SIGTERM);
        of_type.filter(|one| one.status == wanted).map(|one| one.message)
    };
    let what = format!("seen to save on SIGTERM: {wanted}");
    let job = world.job_until(name, &what, |job| found(job).is_some()).await?;
    found(&job).context("the condition is gone")
}

#[test]
#[ignore = "in `cargo xtask test --all`"]
fn a_promise_counts_until_an_attempt_breaks_it_and_again_once_one_keeps_it() {
    run("promise", |world| async move {
        world.claim("data").await?;
        let slot = &world.slots(10).await?;
        let mut job = on_demand("promise", slot, 5);
        let script = "cd /data; \
            trap 'if [ -e keep ]; then date > promise.new; mv promise.new promise.state; exit 143; fi' TERM; \
            while :; do sleep 0.2; done";
        job["spec"]["command"] = json!(["bash", "-c", script]);
        job["spec"]["checkpoint"]["savesOnSigterm"] = json!(true);
        job["spec"]["terminationGracePeriodSeconds"] = json!(3);
        world.create::<ScavengerJob>(job).await?;
        let ready = async || {
            world.phase("promise", Phase::Running).await?;
            has_run_for(world, "promise", Duration::from_secs(4)).await
        };
        let Ended { attempt, .. } = take_away(world, "promise", ready).await?;
        ensure!(attempt.answered_sigterm == Some(false), "{attempt:?}");
        let message = saves(world, "promise", "False").await?;
        println!("{message}");
        let number = attempt.number;
        ensure!(
            message.starts_with(&format!("attempt {number} got SIGTERM and wrote no checkpoint")),
            "{message}"
        );

        ready().await?;
        let pod = world.pod("promise").await?.name_any();
        exec(&world.api(), &pod, "main", &["touch", "/data/keep"]).await?;
        let Ended { attempt, .. } = take_away(world, "promise", ready).await?;
        ensure!(attempt.answered_sigterm == Some(true) && attempt.lost_seconds == Some(0), "{attempt:?}");
        println!("{}", saves(world, "promise", "True").await?);
        Ok(())
    });
}
