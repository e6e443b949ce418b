//! What an idle ScavengerJob gets of a node that ordinary pods keep busy, and how soon it has saved its work when it must stop.

use std::{io, time::Instant};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use scavenger_kernel_guest::{figures::ratio, layout::Pod};

use super::{Accounting, NEIGHBOURS, Neighbour, check, node, processors, row, table};
use crate::{
    actor::{Actor, Policy},
    cgroup::Pods,
    init::Asked,
    pause, until,
};

/// Seconds of cpu that the last checkpoint takes.
const CHECKPOINT: &str = "0.5";

/// Seconds of grace that pods have by default.
const GRACE: f64 = 30.0;

/// Seconds in which processor time is counted.
const WINDOW: &str = "3";

/// Measures.
pub fn run(asked: &Asked) -> io::Result<()> {
    let neighbours = if asked.short { &NEIGHBOURS[..1] } else { &NEIGHBOURS[..] };
    table(
        "starved",
        "A ScavengerJob by requests, its pod idle, beside a busy ordinary pod that requests so much of the node; the last \
         checkpoint takes 0.5 s of cpu",
        &[
            "the ordinary pod",
            "processor time of the ScavengerJob, 1.00 = alone",
            "SIGTERM to the checkpoint, pod idle",
            "the same, weight restored at SIGTERM",
        ],
    );
    for neighbour in neighbours {
        let scavenger = neighbour.scavenger(Accounting::Requests);
        let alone = work(&Pods::make(node(asked), &[scavenger])?, &scavenger)?;
        let beside = {
            let (pods, busy) = busy(asked, neighbour)?;
            let work = work(&pods, &scavenger)?;
            busy.end()?;
            work
        };
        let idle = saved(asked, neighbour, false)?;
        let restored = saved(asked, neighbour, true)?;
        let name = format!(
            "{}: the weight is restored, and the checkpoint is there within {GRACE} s",
            neighbour.name
        );
        check(restored.is_some(), name);
        row(vec![neighbour.name.to_owned(), ratio(beside, alone), seconds(idle), seconds(restored)]);
    }
    Ok(())
}

fn seconds(time: Option<f64>) -> String {
    time.map_or(format!("not within {GRACE} s"), |time| format!("{time:.1} s"))
}

/// A node with an ordinary pod that computes on every processor and a ScavengerJob whose pod is idle.
fn busy(asked: &Asked, neighbour: &Neighbour) -> io::Result<(Pods, Actor)> {
    let (ordinary, scavenger) = (neighbour.ordinary(), neighbour.scavenger(Accounting::Requests));
    let pods = Pods::make(node(asked), &[ordinary, scavenger])?;
    pods.make_idle(&scavenger)?;
    let role = ["compute", &processors().to_string(), "1000"];
    let actor = Actor::start(&pods.container(&ordinary), 0, Policy::Normal, &role)?;
    Ok((pods, actor))
}

fn work(pods: &Pods, scavenger: &Pod) -> io::Result<f64> {
    let role = ["compute", &processors().to_string(), WINDOW];
    let mut actor = Actor::start(&pods.container(scavenger), 0, Policy::Normal, &role)?;
    let work = actor.number();
    actor.end()?;
    work
}

/// Seconds from SIGTERM to the last checkpoint; none if it is not there when the grace period ends.
fn saved(asked: &Asked, neighbour: &Neighbour, restore: bool) -> io::Result<Option<f64>> {
    let (pods, busy) = busy(asked, neighbour)?;
    let scavenger = neighbour.scavenger(Accounting::Requests);
    let role = ["save", &processors().to_string(), CHECKPOINT];
    let mut actor = Actor::start(&pods.container(&scavenger), 0, Policy::Normal, &role)?;
    actor.number()?;
    pause(0.5);
    if restore {
        pods.restore(&scavenger)?;
    }
    let asked = Instant::now();
    kill(Pid::from_raw(actor.child.id().cast_signed()), Signal::SIGTERM)?;
    let mut ended = false;
    until(GRACE, || {
        ended = actor.child.try_wait().is_ok_and(|status| status.is_some());
        ended
    });
    let time = asked.elapsed().as_secs_f64();
    actor.end()?;
    busy.end()?;
    Ok(ended.then_some(time))
}
