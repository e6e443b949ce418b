//! What an ordinary pod notices of a ScavengerJob that computes on every processor.

use std::{io, time::Instant};

use scavenger_kernel_guest::{figures::ratio, layout::Pod};

use super::{Accounting, NEIGHBOURS, Neighbour, Stance, check, node, processors, row, table};
use crate::{
    actor::{self, Actor, Policy},
    cgroup::{Pods, count},
    init::Asked,
    pause,
};

/// Seconds of a burst on a machine with a clock of its own, and on one in the host's time.
const BURST: [f64; 2] = [1.0, 3.0];

/// Seconds of cpu of a request.
const REQUEST: f64 = 0.002;

/// Before an ordinary pod begins, the ScavengerJob has computed for so many seconds.
const BEFORE: f64 = 0.3;

/// It is ended when the ordinary pod has measured.
const LONG: &str = "1000";

type Way = (Accounting, Stance);

const WAYS: [Way; 8] = [
    (Accounting::Requests, Stance::Threads(Policy::Normal)),
    (Accounting::Requests, Stance::Threads(Policy::Batch)),
    (Accounting::Requests, Stance::Threads(Policy::Nice)),
    (Accounting::Requests, Stance::Threads(Policy::Idle)),
    (Accounting::Requests, Stance::PodIdle),
    (Accounting::Usage, Stance::Threads(Policy::Normal)),
    (Accounting::Usage, Stance::Threads(Policy::Idle)),
    (Accounting::Usage, Stance::PodIdle),
];

/// What is measured where threads change nothing, and in short.
const FEW: [Way; 4] = [WAYS[0], WAYS[4], WAYS[5], WAYS[7]];

fn name((accounting, stance): Way) -> String {
    let accounting = match accounting {
        Accounting::Requests => "by requests",
        Accounting::Usage => "by use",
    };
    format!("{accounting}{}", stance.name())
}

/// Bursts, requests, and what the ScavengerJob gets of an idle node.
pub fn run(asked: &Asked) -> io::Result<()> {
    let neighbours = if asked.short { &NEIGHBOURS[..1] } else { &NEIGHBOURS[..] };
    let (ways, requests) = if asked.short { (&FEW[..2], 60) } else { (&WAYS[..], 200) };
    bursts_of(asked, neighbours, ways)?;
    let rounds = rounds_of_a_request();
    let mut head = vec!["the ScavengerJob"];
    let heads: Vec<String> = neighbours
        .iter()
        .flat_map(|neighbour| ["median", "99th percentile"].map(|what| format!("{}, {what}", neighbour.name)))
        .collect();
    head.extend(heads.iter().map(String::as_str));
    let title = "Time of a request that takes 2 ms of cpu, 1.00 = alone, of ordinary pods that request so much of the node";
    table("requests", title, &head);
    let alone = neighbours
        .iter()
        .map(|neighbour| times(asked, neighbour, None, rounds, requests))
        .collect::<io::Result<Vec<_>>>()?;
    let mut cells = vec!["none, in ms".to_owned()];
    cells.extend(alone.iter().flatten().map(|time| format!("{:.2}", time / 1e3)));
    row(cells);
    for way in ways {
        let mut cells = vec![name(*way)];
        for (neighbour, alone) in neighbours.iter().zip(&alone) {
            let beside = times(asked, neighbour, Some(*way), rounds, requests)?;
            cells.extend(beside.iter().zip(alone).map(|(beside, alone)| ratio(*beside, *alone)));
        }
        row(cells);
    }
    Ok(())
}

/// Bursts alone, for machines with several processors.
pub fn bursts(asked: &Asked) -> io::Result<()> {
    bursts_of(asked, &NEIGHBOURS, &FEW)
}

fn bursts_of(asked: &Asked, neighbours: &[Neighbour], ways: &[Way]) -> io::Result<()> {
    let mut head = vec!["the ScavengerJob"];
    head.extend(neighbours.iter().map(|neighbour| neighbour.name));
    head.push("what it gets of an idle node");
    let processors = processors();
    let title = format!(
        "Processor time that a burst of ordinary pods gets that request so much of the node, 1.00 = alone; {processors} {}",
        if processors == 1 { "processor" } else { "processors" }
    );
    table("bursts", &title, &head);
    let alone: Vec<f64> =
        neighbours.iter().map(|neighbour| burst(asked, neighbour, None)).collect::<io::Result<_>>()?;
    let all = of_idle_node(asked, ways[0])?;
    for way in ways {
        let mut cells = vec![name(*way)];
        for (neighbour, alone) in neighbours.iter().zip(&alone) {
            let kept = burst(asked, neighbour, Some(*way))?;
            cells.push(ratio(kept, *alone));
            if *way == WAYS[4] && neighbour.requests.is_some() && !is_hosts_time() {
                let text = format!(
                    "beside an idle pod a burst keeps {} of alone, 0.85 at least",
                    ratio(kept, *alone)
                );
                check(kept >= 0.85 * alone, text);
            }
        }
        let gets = of_idle_node(asked, *way)?;
        cells.push(ratio(gets, all));
        if !is_hosts_time() {
            let text = format!("{}: {} of an idle node, 0.95 at least", name(*way), ratio(gets, all));
            check(gets >= 0.95 * all, text);
        }
        row(cells);
    }
    Ok(())
}

/// A node with the ordinary pod and, if there is one, the ScavengerJob, which computes.
fn beside(asked: &Asked, neighbour: &Neighbour, way: Option<Way>) -> io::Result<(Pods, Option<Actor>)> {
    let ordinary = neighbour.ordinary();
    let Some((accounting, stance)) = way else {
        return Ok((Pods::make(node(asked), &[ordinary])?, None));
    };
    let scavenger = neighbour.scavenger(accounting);
    let pods = Pods::make(node(asked), &[ordinary, scavenger])?;
    if stance == Stance::PodIdle {
        pods.make_idle(&scavenger)?;
    }
    let threads = processors().to_string();
    let role = ["compute", &threads, LONG];
    let actor = Actor::start(&pods.container(&scavenger), 0, stance.policy(), &role)?;
    pause(BEFORE);
    Ok((pods, Some(actor)))
}

/// The burst of a pod: what it computes, and for how long.
fn role() -> [String; 3] {
    let seconds = BURST[usize::from(is_hosts_time())];
    ["compute".to_owned(), processors().to_string(), seconds.to_string()]
}

/// Only a machine with one processor has a clock of its own.
fn is_hosts_time() -> bool {
    processors() > 1
}

/// Seconds of processor time that the ordinary pod gets in a burst. In the host's time, which the host may take away at any
/// moment: its share of what both pods get, which is all where it is alone.
fn burst(asked: &Asked, neighbour: &Neighbour, way: Option<Way>) -> io::Result<f64> {
    let (pods, scavenger) = beside(asked, neighbour, way)?;
    let used = |pod: &Pod| count(&pods.pod(pod).join("cpu.stat"), "usage_usec");
    let other = way.map(|(accounting, _)| neighbour.scavenger(accounting));
    let other = || other.as_ref().map(used).unwrap_or_default();
    let (role, before) = (role(), other());
    let seconds = of_ordinary(&pods, neighbour, &role.each_ref().map(String::as_str), Actor::number)?;
    let (own, other) = (used(&neighbour.ordinary()), other() - before);
    scavenger.map_or(Ok(()), Actor::end)?;
    #[expect(clippy::cast_precision_loss, reason = "some seconds")]
    let share = own as f64 / (own + other).max(1) as f64;
    Ok(if is_hosts_time() { share } else { seconds })
}

/// Median and 99th percentile of the times of requests.
fn times(
    asked: &Asked,
    neighbour: &Neighbour,
    way: Option<Way>,
    rounds: u64,
    requests: u64,
) -> io::Result<Vec<f64>> {
    let (pods, scavenger) = beside(asked, neighbour, way)?;
    let role = ["serve", &rounds.to_string(), &requests.to_string()];
    let times = of_ordinary(&pods, neighbour, &role, Actor::numbers);
    scavenger.map_or(Ok(()), Actor::end)?;
    times
}

fn of_ordinary<T>(
    pods: &Pods,
    neighbour: &Neighbour,
    role: &[&str],
    read: impl FnOnce(&mut Actor) -> io::Result<T>,
) -> io::Result<T> {
    let mut actor = Actor::start(&pods.container(&neighbour.ordinary()), 0, Policy::Normal, role)?;
    let found = read(&mut actor);
    actor.end()?;
    found
}

/// Seconds of processor time that the ScavengerJob gets while nobody else computes.
fn of_idle_node(asked: &Asked, (accounting, stance): Way) -> io::Result<f64> {
    let scavenger = NEIGHBOURS[0].scavenger(accounting);
    let pods = Pods::make(node(asked), &[scavenger])?;
    if stance == Stance::PodIdle {
        pods.make_idle(&scavenger)?;
    }
    let role = role();
    let role = role.each_ref().map(String::as_str);
    let mut actor = Actor::start(&pods.container(&scavenger), 0, stance.policy(), &role)?;
    let found = actor.number();
    actor.end()?;
    found
}

/// How many rounds of work take as long as a request, when nothing else runs.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "some millions"
)]
fn rounds_of_a_request() -> u64 {
    const ROUNDS: u64 = 2_000_000;
    let began = Instant::now();
    actor::work(ROUNDS);
    (ROUNDS as f64 * REQUEST / began.elapsed().as_secs_f64()) as u64
}
