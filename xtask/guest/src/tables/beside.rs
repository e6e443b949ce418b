//! What an ordinary pod notices beside the processors: of a checkpoint on its disk, of the page cache, of the network. One
//! coarse row each.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use nix::mount::{MsFlags, mount};
use scavenger_kernel_guest::{
    figures::ratio,
    layout::{MEBIBYTE, Node, Pod},
};

use super::{Accounting, row, scavenger, table};
use crate::{
    actor::{Actor, Policy},
    cgroup::Pods,
    init::Asked,
};

/// The disk, and where it is mounted.
const DISK: &str = "/dev/vda";
const FOLDER: &str = "/data";

/// Mebibytes of a checkpoint, of what its pod may have in memory, and of a file that an ordinary pod reads again and again.
const CHECKPOINT: u64 = 400;
const LIMIT: u64 = 200;
const FILE: u64 = 100;

/// Seconds of a measurement.
const WINDOW: &str = "5";

/// Measures.
pub fn run(asked: &Asked) -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    mount(Some(DISK), FOLDER, Some("ext4"), MsFlags::empty(), None::<&str>)?;
    fs::write("/data/file", vec![1; usize::try_from(FILE * MEBIBYTE).unwrap_or_default()])?;
    File::open("/data/file")?.sync_all()?;
    let checkpoint = CHECKPOINT.to_string();
    table(
        "beside",
        "Not only cpu, coarse: an ordinary pod that requests half of the node beside a ScavengerJob by requests, 1.00 = alone",
        &[
            "what the ordinary pod does",
            "the ScavengerJob meanwhile",
            "alone",
            "beside it",
            "beside it, pod idle",
        ],
    );
    let writes = format!("writes checkpoints of {CHECKPOINT} MiB");
    let write = ["checkpoint", "/data/checkpoint", &checkpoint];
    for (what, role, meanwhile, scavenger) in [
        (
            "4 KiB and fsync, median time",
            vec!["fsync", "/data/ordinary", WINDOW],
            writes.as_str(),
            write.as_slice(),
        ),
        (
            "reads a file in the page cache, MiB/s",
            vec!["read", "/data/file", WINDOW],
            writes.as_str(),
            &write,
        ),
        (
            "1 KiB over loopback and back, a second",
            vec!["ask", WINDOW],
            "sends what it can over loopback",
            &["stream"],
        ),
    ] {
        let alone = measure(asked, &role, None, false)?;
        let mut cells = vec![what.to_owned(), meanwhile.to_owned(), shown(alone, role[0])];
        for idle in [false, true] {
            cells.push(ratio(measure(asked, &role, Some(scavenger), idle)?, alone));
        }
        row(cells);
    }
    io::stdout().flush()
}

fn shown(value: f64, role: &str) -> String {
    if role == "fsync" { format!("{value:.1} ms") } else { format!("{value:.0}") }
}

/// Plays both roles, and returns the ordinary pod's figure.
fn measure(asked: &Asked, role: &[&str], beside: Option<&[&str]>, idle: bool) -> io::Result<f64> {
    let node = Node { memory: 600 * MEBIBYTE, ..super::node(asked) };
    let scavenger = scavenger(Accounting::Requests, node.cpu * 2 / 5, LIMIT * MEBIBYTE);
    let ordinary = Pod { uid: "0rd-1nary", cpu: node.cpu / 2, memory: 2 * FILE * MEBIBYTE, limits: None };
    let pods = Pods::make(node, &[ordinary, scavenger])?;
    if idle {
        pods.make_idle(&scavenger)?;
    }
    let busy = beside.map(|role| {
        let mut actor = Actor::start(&pods.container(&scavenger), 0, Policy::Normal, role)?;
        actor.number()?;
        io::Result::Ok(actor)
    });
    let busy = busy.transpose()?;
    let mut actor = Actor::start(&pods.container(&ordinary), 0, Policy::Normal, role)?;
    let figure = actor.number();
    actor.end()?;
    busy.map_or(Ok(()), Actor::end)?;
    fs::remove_file(Path::new(FOLDER).join("checkpoint")).ok();
    figure
}
