//! ScavengerJobs as rows of the queue become them: simulations of several sizes with GROMACS, their resources and speeds from the
//! tuner's model.

use scavenger_schema::tuning::{Build, LadderRequest, Limits, NodeShape, Resources, Rung};
use scavenger_tuner_model::{
    Model, ladder,
    system::{cube_of_water, usual_water},
};

use super::{Node, Scavenger};
use crate::{
    chance::Chance,
    values::{Amounts, DAY, MINUTE, SECOND, Time},
};

/// Atoms of the systems: the sizes of the public benchmarks that the model was fitted to, but for those that need many nodes.
const SYSTEMS: [u64; 6] = [20_000, 61_000, 82_000, 142_000, 465_000, 1_400_000];

/// The least that a row simulates and the most, in thousandths of a nanosecond: pieces of a few hours to a few days.
const PICOSECONDS: (Time, Time) = (2_000, 100_000);

/// mdrun is told to write a checkpoint so often, where the row has the usual `interruption_after` of ten minutes.
const INTERVAL: Time = 9 * MINUTE;

/// What writing one takes, at most a few seconds on shared storage.
const COST: Time = SECOND;

/// What a row without measured restarts is taken to need until work goes on.
const RESTART: Time = 30 * SECOND;

/// Without a supervisor the script around mdrun does not pass SIGTERM on, so nothing is saved and mdrun ends at once.
const GRACE: Time = SECOND;

/// So many of a hundred are there from the beginning, as in the other scenarios.
const AT_ONCE_PERCENT: u64 = 30;

/// Where it cannot start the fastest configuration the submitter takes the next one, so each of a ladder comes up.
type Ladder = Vec<Rung>;

/// Rows that together have work for so many cores all of the time.
pub(super) fn rows(nodes: &[Node], cores: i64, length: Time, chance: &mut Chance) -> Vec<Scavenger> {
    let ladders: Vec<Ladder> = SYSTEMS.iter().map(|atoms| ladder(*atoms, nodes)).collect();
    let wanted = cores * 1000 * length;
    let (mut rows, mut asked) = (Vec::new(), 0);
    while asked < wanted {
        let ladder = chance.of(&ladders);
        let row = row(chance.of(ladder), length, chance);
        asked += row.requests.cpu * row.work.min(length - row.arrival);
        rows.push(row);
    }
    rows.sort_by_key(|row| row.arrival);
    rows
}

/// The configurations of a system on these nodes.
fn ladder(atoms: u64, nodes: &[Node]) -> Ladder {
    let mut shapes: Vec<Amounts> = nodes.iter().map(|node| node.capacity).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let shape = |capacity: &Amounts| NodeShape {
        count: 1,
        allocatable: Resources {
            cpu_millicores: u32::try_from(capacity.cpu).unwrap_or(u32::MAX),
            memory_bytes: u64::try_from(capacity.memory << 20).unwrap_or(0),
            gpus: 0,
        },
        largest_free: None,
        labels: [].into(),
    };
    let request = LadderRequest {
        system: usual_water(atoms, cube_of_water(atoms as f64)),
        limits: Limits::default(),
        gromacs_version: None,
        build: Build::default(),
        nodes: shapes.iter().map(shape).collect(),
        explore: None,
    };
    let reply = ladder::build(&Model::prior(), &request);
    reply.expect("water should have a ladder on the nodes of a scenario").rungs
}

fn row(rung: &Rung, length: Time, chance: &mut Chance) -> Scavenger {
    let picoseconds = chance.between_evenly_by_size(PICOSECONDS.0, PICOSECONDS.1) as f64;
    let days = picoseconds / 1000.0 / rung.ns_per_day.p50;
    Scavenger {
        arrival: if chance.percent(AT_ONCE_PERCENT) { 0 } else { chance.below(length) },
        work: (days * DAY as f64).ceil() as Time,
        pods: 1,
        requests: Amounts::of_pod(
            i64::from(rung.resources.cpu_millicores),
            i64::try_from(rung.resources.memory_bytes.div_ceil(1 << 20)).unwrap_or(i64::MAX),
            0,
        ),
        interval: INTERVAL,
        cost: COST,
        restart: RESTART,
        grace: GRACE,
        saves: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::HOUR;

    #[test]
    fn rows_ask_for_what_the_tuner_says_and_take_as_long() {
        let capacity = Amounts { cpu: 31_500, memory: 126 << 10, pods: 110, gpus: 0 };
        let nodes = [Node { name: "n".to_owned(), capacity, labels: [].into() }];
        let rows = rows(&nodes, 100, 2 * DAY, &mut Chance::new(1, 1));
        let cores: Vec<i64> = rows.iter().map(|row| row.requests.cpu).collect();
        assert!(cores.iter().any(|cpu| *cpu <= 2000) && cores.iter().any(|cpu| *cpu >= 10_000), "{cores:?}");
        assert!(rows.iter().all(|row| row.requests.fits(capacity) && row.work > MINUTE));
        let asked: i64 = rows.iter().map(|row| row.requests.cpu * row.work.min(2 * DAY - row.arrival)).sum();
        let share = asked as f64 / (100_000 * 2 * DAY) as f64;
        assert!((1.0..1.5).contains(&share), "{share}");
        // 2 ns of 20,000 atoms take an hour or so on a few cores, and no row takes a second or a year.
        let longest = rows.iter().map(|row| row.work).max().unwrap_or(0);
        assert!((10 * HOUR..1000 * DAY).contains(&longest), "{longest}");
    }
}
