//! Times, amounts and numbers of things as the model counts them: plain integers, since each run handles millions.

use jiff::{SignedDuration, Timestamp};
use scavenger_planner::{resources::Resources, values::Name};

/// Milliseconds since the run began, or a span of them.
pub type Time = i64;

/// A second.
pub const SECOND: Time = 1000;
/// A minute.
pub const MINUTE: Time = 60 * SECOND;
/// An hour.
pub const HOUR: Time = 60 * MINUTE;
/// A day.
pub const DAY: Time = 24 * HOUR;

/// The name of the extended resource that GPUs are.
pub const GPU: &str = "nvidia.com/gpu";

/// When every run begins: midnight by UTC on a Monday, so that windows of time in a pool mean something.
const BEGIN: i64 = 20_836 * 86_400;

/// The moment at which the planner is asked.
#[must_use]
pub fn stamp(time: Time) -> Timestamp {
    let begin = Timestamp::from_second(BEGIN).expect("the begin of a run should be a time");
    begin.saturating_add(span(time)).unwrap_or(Timestamp::MAX)
}

/// The time of a moment of the planner's.
#[must_use]
pub fn time_of(stamp: Timestamp) -> Time {
    stamp.as_millisecond() - BEGIN * 1000
}

/// A span of the planner's.
#[must_use]
pub fn span(time: Time) -> SignedDuration {
    SignedDuration::from_millis(time)
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The place in a table of all of them.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// Of the thing at this place.
            ///
            /// # Panics
            /// If a run has more than four billion of them.
            #[must_use]
            pub fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("a run should have fewer than four billion things"))
            }
        }
    };
}

number!(
    /// A node.
    NodeId
);
number!(
    /// A pod. No number is used twice in a run.
    PodId
);
number!(
    /// A ScavengerJob.
    SjId
);
number!(
    /// An attempt of a ScavengerJob.
    AttemptId
);

/// An amount of every resource that is modelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu: i64,
    /// MiB.
    pub memory: i64,
    /// Pods.
    pub pods: i64,
    /// GPUs.
    pub gpus: i64,
}

impl Amounts {
    /// What one pod asks for.
    #[must_use]
    pub fn of_pod(cpu: i64, memory: i64, gpus: i64) -> Self {
        Self { cpu, memory, pods: 1, gpus }
    }

    /// Resource by resource.
    #[must_use]
    pub fn each(self) -> [i64; 4] {
        [self.cpu, self.memory, self.pods, self.gpus]
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            cpu: self.cpu + more.cpu,
            memory: self.memory + more.memory,
            pods: self.pods + more.pods,
            gpus: self.gpus + more.gpus,
        }
    }

    /// What is left of this without `less`; below 0 if that is more.
    #[must_use]
    pub fn minus(self, less: Self) -> Self {
        self.plus(less.times(-1))
    }

    /// `count` times this.
    #[must_use]
    pub fn times(self, count: i64) -> Self {
        self.map(|amount| amount * count)
    }

    /// Another amount of every resource.
    #[must_use]
    pub fn map(self, amount: impl Fn(i64) -> i64) -> Self {
        Self {
            cpu: amount(self.cpu),
            memory: amount(self.memory),
            pods: amount(self.pods),
            gpus: amount(self.gpus),
        }
    }

    /// The larger of both, resource by resource.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.max(other.cpu),
            memory: self.memory.max(other.memory),
            pods: self.pods.max(other.pods),
            gpus: self.gpus.max(other.gpus),
        }
    }

    /// True if `free` has all that this asks for.
    #[must_use]
    pub fn fits(self, free: Self) -> bool {
        self.each().into_iter().zip(free.each()).all(|(wanted, free)| wanted <= 0 || wanted <= free)
    }

    /// The same in the planner's units.
    #[must_use]
    pub fn resources(self) -> Resources {
        let gpus = (self.gpus != 0).then(|| (Name::from(GPU), self.gpus));
        Resources {
            cpu_milli: self.cpu,
            memory_bytes: self.memory << 20,
            pods: self.pods,
            other: gpus.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_on_a_monday_at_midnight() {
        assert_eq!(stamp(0).to_string(), "2027-01-18T00:00:00Z");
        assert_eq!(stamp(0).to_zoned(jiff::tz::TimeZone::UTC).weekday(), jiff::civil::Weekday::Monday);
        assert_eq!(time_of(stamp(HOUR + 5)), HOUR + 5);
    }

    #[test]
    fn a_pod_that_asks_for_nothing_of_a_resource_fits_where_none_is_left() {
        let free = Amounts { cpu: 1000, memory: 100, pods: 1, gpus: -1 };
        assert!(Amounts::of_pod(1000, 100, 0).fits(free));
        assert!(!Amounts::of_pod(1000, 100, 1).fits(free));
        assert!(!Amounts::of_pod(1001, 100, 0).fits(free));
    }
}
