//! Who is killed when the node has no memory left, and what is known of it afterwards.

use std::{fs, io, path::Path};

use scavenger_kernel_guest::layout::{MEBIBYTE, Node, Pod};

use super::{Accounting, check, row, scavenger, table};
use crate::{
    actor::{Actor, PROGRAM, Policy},
    cgroup::{Pods, count},
    init::Asked,
    pause, until,
};

/// The supervisor, as the host put it into the machine.
const SUPERVISOR: &str = "/scavenger-supervisor";

/// The container's termination message.
const MESSAGE: &str = "/tmp/message";

/// Memory of the node, in mebibytes; of the ScavengerJob, what it may have and what it holds; and what the ordinary pod grows
/// to.
const NODE: u64 = 128;
const LIMIT: u64 = 96;
const HELD: u64 = 72;
const GROWN: u64 = 84;

/// A case.
#[derive(Debug, Clone, Copy)]
struct Case {
    accounting: Accounting,
    supervised: bool,
    /// The ordinary pod requests memory; else it is BestEffort.
    burstable: bool,
    oom_group: bool,
    memory_qos: bool,
    /// The ScavengerJob grows above its own limit, and nobody else grows.
    own_limit: bool,
}

const CASE: Case = Case {
    accounting: Accounting::Requests,
    supervised: true,
    burstable: true,
    oom_group: true,
    memory_qos: false,
    own_limit: false,
};

/// The whole table.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (accounting, supervised) in [
        (Accounting::Requests, true),
        (Accounting::Requests, false),
        (Accounting::Usage, true),
        (Accounting::Usage, false),
    ] {
        for burstable in [true, false] {
            for oom_group in [true, false] {
                cases.push(Case { accounting, supervised, burstable, oom_group, ..CASE });
            }
        }
    }
    cases.extend([
        Case { memory_qos: true, ..CASE },
        Case { memory_qos: true, supervised: false, ..CASE },
        Case { own_limit: true, ..CASE },
        Case { own_limit: true, oom_group: false, ..CASE },
    ]);
    cases
}

/// What was found.
#[derive(Debug, Default)]
struct Found {
    supervisor: Option<bool>,
    workload: bool,
    ordinary: bool,
    code: String,
    reported: bool,
    container: String,
    pod: (u64, u64),
}

/// Measures.
pub fn run(asked: &Asked) -> io::Result<()> {
    table(
        "deaths",
        "Who is killed when the node has no memory left, and what is known afterwards",
        &[
            "the ScavengerJob",
            "the ordinary pod",
            "memory.oom.group",
            "supervisor",
            "workload",
            "ordinary pod",
            "exit code of the container",
            "supervisor's message",
            "container: oom, oom_kill, oom_group_kill",
            "pod: oom, oom_kill",
        ],
    );
    let short = [CASE, Case { oom_group: false, ..CASE }, Case { supervised: false, ..CASE }];
    for case in if asked.short { short.to_vec() } else { cases() } {
        let found = play(asked, case)?;
        judge(case, &found);
        row(cells(case, &found));
    }
    Ok(())
}

fn cells(case: Case, found: &Found) -> Vec<String> {
    let alive = |alive: bool| if alive { "alive" } else { "**killed**" }.to_owned();
    let mut name = match case.accounting {
        Accounting::Requests => "by requests",
        Accounting::Usage => "by use",
    }
    .to_owned();
    for (is_so, text) in [
        (!case.supervised, ", no supervisor"),
        (case.memory_qos, ", memory QoS"),
        (case.own_limit, ", outgrows its own limit"),
    ] {
        name.push_str(if is_so { text } else { "" });
    }
    vec![
        name,
        if case.burstable { "Burstable" } else { "BestEffort" }.to_owned(),
        u8::from(case.oom_group).to_string(),
        found.supervisor.map_or("-".to_owned(), alive),
        alive(found.workload),
        if case.own_limit { "-".to_owned() } else { alive(found.ordinary) },
        found.code.clone(),
        if found.reported { "written" } else { "none" }.to_owned(),
        found.container.clone(),
        format!("{}, {}", found.pod.0, found.pod.1),
    ]
}

/// What the operator, the agent and the documentation build on.
fn judge(case: Case, found: &Found) {
    let (oom, kills) = found.pod;
    if case.own_limit {
        check(
            oom > 0 && kills > 0,
            format!("above its own limit the pod has oom {oom} and oom_kill {kills}, both above 0"),
        );
    } else if !found.workload {
        check(
            oom == 0 && kills > 0,
            format!("killed for the node the pod has oom {oom} (0) and oom_kill {kills} (above 0)"),
        );
    }
    if case.supervised && case.burstable && !case.own_limit {
        check(
            !found.workload && found.ordinary,
            "the supervised workload is killed, and no Burstable pod".to_owned(),
        );
        let survives = found.supervisor == Some(!case.oom_group);
        check(survives, "the supervisor survives without memory.oom.group, and only then".to_owned());
    }
}

fn play(asked: &Asked, case: Case) -> io::Result<Found> {
    let node = Node {
        memory: NODE * MEBIBYTE,
        memory_qos: case.memory_qos,
        oom_group: case.oom_group,
        ..super::node(asked)
    };
    let memory = if case.burstable { 24 * MEBIBYTE } else { 0 };
    let ordinary = Pod { uid: "0rd-1nary", cpu: if case.burstable { 100 } else { 0 }, memory, limits: None };
    let scavenger = scavenger(case.accounting, 400, LIMIT * MEBIBYTE);
    let pods = Pods::make(node, &[ordinary, scavenger])?;

    fs::write(MESSAGE, "")?;
    let held = if case.own_limit { 2 * LIMIT } else { HELD };
    let role = if case.own_limit { "grow" } else { "hold" };
    let held = held.to_string();
    let mut workload = vec![PROGRAM, "-", "-", "0", role, &held];
    if case.supervised {
        workload.splice(0..0, ["exec", SUPERVISOR, "run", "--message", MESSAGE, "--"]);
    } else {
        workload.drain(..4);
    }
    let mut main =
        Actor::start(&pods.container(&scavenger), scavenger.score(node.memory), Policy::Normal, &workload)?;
    let events = pods.container(&scavenger).join("memory.events");
    let mut found = Found::default();
    let mut workload = main.child.id();
    let mut grower = None;
    if case.own_limit {
        until(60.0, || count(&events, "oom_kill") > 0);
        found.ordinary = true;
    } else {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number of a process"
        )]
        {
            workload = main.number()? as u32;
        }
        let role = ["grow", &GROWN.to_string()];
        let mut actor =
            Actor::start(&pods.container(&ordinary), ordinary.score(node.memory), Policy::Normal, &role)?;
        // It says so when it has grown, and its output ends when it is killed.
        found.ordinary = !actor.numbers()?.is_empty();
        grower = Some(actor);
    }
    // The kernel is at work on what it kills.
    pause(0.5);
    found.workload = !case.own_limit && lives(workload);
    if case.supervised {
        // It ends once its workload has; killed it has no exit code of its own.
        let mut status = None;
        until(if found.workload { 0.0 } else { 20.0 }, || {
            status = main.child.try_wait().ok().flatten();
            status.is_some()
        });
        found.supervisor = Some(status.is_none_or(|status| status.code().is_some()));
        found.code = status.map_or("runs".to_owned(), |status| status.code().unwrap_or(137).to_string());
    } else {
        found.code = if found.workload { "runs" } else { "137" }.to_owned();
    }
    found.reported = fs::metadata(MESSAGE)?.len() > 0;
    found.container =
        ["oom", "oom_kill", "oom_group_kill"].map(|name| count(&events, name).to_string()).join(", ");
    main.end()?;
    // The runtime removes the container's cgroup; that of the pod is there until the pod is gone.
    pods.remove_container(&scavenger)?;
    let events = pods.pod(&scavenger).join("memory.events");
    found.pod = (count(&events, "oom"), count(&events, "oom_kill"));
    grower.map_or(Ok(()), Actor::end)?;
    Ok(found)
}

/// Whether there is such a process, a zombie aside.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}
