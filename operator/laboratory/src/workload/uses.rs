//! What ordinary pods use of what they request, over time: as a recording says it, or drawn. data/use/README.md says where the
//! shapes are from that are drawn.
//!
//! Drawn memory of a pod is that of one measured container. Its cpu is the load of a measured cluster in that hour, times a
//! number that is drawn for each minute: nobody measured single pods minute by minute.

use crate::{
    chance::Chance,
    values::{Amounts, HOUR, MINUTE, Time},
};

/// Thousandths, one line for each container, one number for each minute.
const MEMORY: &str = include_str!("../../data/use/memory.csv");

/// Thousandths, one line for each day, one number for each hour.
const CPU: &str = include_str!("../../data/use/cpu.csv");

/// Between these a minute of a pod differs from the load of its cluster, in thousandths; each order of magnitude is as likely as
/// another, so that the mean is 1.17.
const BUSY: (i64, i64) = (300, 3000);

/// So many minutes are drawn, and come again.
const DRAWN: usize = 1009;

/// What each ordinary pod uses.
#[derive(Debug, Clone, PartialEq)]
pub enum Uses {
    /// As it is drawn from a seed.
    Drawn(Shapes),
    /// As it was measured: for each pod of the workload in their order, what it used from a time on.
    Recorded(Vec<Vec<(Time, Amounts)>>),
}

/// How use of all pods is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Shapes {
    memory: Vec<Vec<i64>>,
    cpu: Vec<i64>,
    busy: Vec<i64>,
}

impl Uses {
    /// Those of a seed.
    ///
    /// # Panics
    /// If the files of the laboratory are no numbers, which a test excludes.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 4);
        let numbers = |line: &str| -> Vec<i64> {
            line.split(',')
                .map(|number| number.parse().expect("a file of the laboratory should have numbers"))
                .collect()
        };
        Self::Drawn(Shapes {
            memory: MEMORY.lines().map(numbers).collect(),
            cpu: CPU.lines().flat_map(numbers).collect(),
            busy: (0..DRAWN).map(|_| chance.between_evenly_by_size(BUSY.0, BUSY.1)).collect(),
        })
    }

    /// What the ordinary pod at a place of the workload uses at a time, if it requests this.
    #[must_use]
    pub fn of(&self, place: u32, requests: Amounts, time: Time) -> Amounts {
        match self {
            Self::Drawn(shapes) => shapes.of(place as usize, requests, time),
            Self::Recorded(pods) => measured(&pods[place as usize], requests, time),
        }
    }
}

/// What was measured last; the first of all until then. A pod that was never measured uses what it requests.
fn measured(samples: &[(Time, Amounts)], requests: Amounts, time: Time) -> Amounts {
    let behind = samples.partition_point(|(from, _)| *from <= time);
    samples.get(behind.saturating_sub(1)).map_or(requests, |(_, used)| *used)
}

impl Shapes {
    fn of(&self, place: usize, requests: Amounts, time: Time) -> Amounts {
        let at = |span: Time| usize::try_from(time.max(0) / span).unwrap_or(0);
        let container = &self.memory[place % self.memory.len()];
        let load = self.cpu[at(HOUR) % self.cpu.len()];
        // Two pods are busy in different minutes.
        let busy = self.busy[(at(MINUTE) + place * 31) % self.busy.len()];
        let memory = container[at(MINUTE) % container.len()];
        Amounts {
            cpu: requests.cpu * load * busy / 1_000_000,
            memory: requests.memory * memory / 1000,
            ..Amounts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::DAY;

    #[test]
    fn pods_use_about_half_of_what_they_request_and_each_in_its_own_way() {
        let uses = Uses::draw(1);
        assert_eq!(uses, Uses::draw(1));
        let requests = Amounts::of_pod(1000, 1000, 0);
        let used = |place: u32, minute: i64| uses.of(place, requests, minute * MINUTE);
        let all = || (0..48).flat_map(|place| (0..2 * DAY / MINUTE).map(move |minute| (place, minute)));
        let mean = |amount: fn(Amounts) -> i64| {
            all().map(|(place, minute)| amount(used(place, minute))).sum::<i64>() / all().count() as i64
        };
        assert!((450..650).contains(&mean(|used| used.cpu)), "{}", mean(|used| used.cpu));
        assert!((350..450).contains(&mean(|used| used.memory)), "{}", mean(|used| used.memory));
        assert_ne!(used(0, 600), used(1, 600));
        assert_ne!(used(0, 600).cpu, used(0, 601).cpu);
    }

    #[test]
    fn what_was_measured_holds_until_the_next_time() {
        let requests = Amounts::of_pod(1000, 1000, 0);
        let used = |cpu: i64| Amounts { cpu, memory: 10, ..Amounts::default() };
        let uses = Uses::Recorded(vec![vec![(MINUTE, used(100)), (3 * MINUTE, used(300))], Vec::new()]);
        let at = |minute: i64| uses.of(0, requests, minute * MINUTE);
        assert_eq!([0, 1, 2, 3, 99].map(|minute| at(minute).cpu), [100, 100, 100, 300, 300]);
        assert_eq!(uses.of(1, requests, 0), requests, "it was never measured");
    }
}
