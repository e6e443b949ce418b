//! What accounting Usage would bring, where it is only calculated.
//!
//! Each node is taken to be filled at once with whatever is free by use beyond what is free by requests, as if there were
//! always a ScavengerJob that fits. What ordinary pods begin to use is taken back as the causes would take it back: down to
//! the headroom target, and that is an interruption.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    capacity::Account,
    values::{Name, Node, Settings, resources::CPU},
};

/// What accounting Usage would bring.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DryRun {
    /// Since when it is calculated.
    pub since: Option<Timestamp>,
    /// Cpu that ScavengerJobs would have had beyond what they get by requests, in milliseconds of a thousandth of a core.
    milli_milliseconds: i128,
    /// How often something would have been taken back.
    pub interruptions: u64,
    nodes: BTreeMap<Name, Filled>,
}

#[derive(Debug, Clone, PartialEq)]
struct Filled {
    cpu_milli: i64,
    since: Timestamp,
    /// Since when ordinary pods have needed some of it.
    busy_since: Option<Timestamp>,
}

/// The cpu of a node, in millicores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuOfNode {
    /// The start threshold.
    pub(crate) limit: i64,
    /// What ordinary pods request.
    pub(crate) ordinary: i64,
    /// What ordinary pods use.
    pub(crate) used: i64,
    /// What ScavengerJobs hold.
    pub(crate) held: i64,
}

impl CpuOfNode {
    /// What ScavengerJobs have by requests, or could have at once.
    fn by_requests(self) -> i64 {
        (self.limit - self.ordinary).max(self.held)
    }
}

impl DryRun {
    /// Core-hours that ScavengerJobs would have had beyond what they get by requests, until a node was last looked at.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub fn core_hours(&self) -> f64 {
        self.milli_milliseconds as f64 / (1000.0 * 1000.0 * 3600.0)
    }

    /// A node was looked at.
    pub(crate) fn follow(
        &mut self,
        node: &Node,
        account: &Account,
        cpu: CpuOfNode,
        settings: &Settings,
        linger: SignedDuration,
        now: Timestamp,
    ) {
        self.since.get_or_insert(now);
        let whole = node.allocatable.cpu_milli;
        let (used, by_requests) = (cpu.used, cpu.by_requests());
        let left = |limit: i64, used: i64| (limit - used - by_requests).max(0);
        let filled = self.nodes.entry(node.name.clone()).or_insert(Filled {
            cpu_milli: 0,
            since: now,
            busy_since: None,
        });
        let passed = now.duration_since(filled.since).as_millis();
        self.milli_milliseconds += i128::from(filled.cpu_milli) * passed.max(0);
        filled.since = now;
        // Nothing would run where nobody measures, or where memory is the limit.
        if !account.open || account.expected.memory_bytes >= account.limit.memory_bytes {
            filled.cpu_milli = 0;
            return;
        }
        let most = left(settings.interrupts_above(node, CPU).of(whole), used);
        if filled.cpu_milli <= most {
            filled.busy_since = None;
        } else if now.duration_since(*filled.busy_since.get_or_insert(now)) >= linger {
            filled.cpu_milli =
                left(settings.headroom_of(node).target(CPU).of(whole), used).min(filled.cpu_milli);
            filled.busy_since = None;
            self.interruptions += 1;
        }
        filled.cpu_milli = filled.cpu_milli.max(left(account.limit.cpu_milli, account.expected.cpu_milli));
    }

    /// A node is gone.
    pub(crate) fn forget(&mut self, node: &Name) {
        self.nodes.remove(node);
    }
}
