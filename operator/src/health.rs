//! What the operator answers on /healthz (the loop turns, and every watch of the leader is heard of), /readyz and /metrics.
//!
//! A leader is ready once every watch has delivered its first list, and while none only fails. A standby watches nothing and is ready while it could
//! lead: the API server answers, and the Lease was read. A standby that is never ready would block every rollout.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use scavenger_program::probes::Probes;

use crate::{controller::Health, metrics::Metrics};

/// The loop turns at least every 5 s; a plan of a very large cluster takes 2 s.
const MAX_IDLE_SECONDS: i64 = 60;

/// What the operator is asked for from outside.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) max_watch_age: Duration,
}

impl Probes for Asked {
    #[expect(clippy::disallowed_methods, reason = "the edge: asked from outside how old the last turn is")]
    fn alive(&self) -> Result<(), String> {
        let idle = self.health.idle_seconds(Timestamp::now());
        if idle > MAX_IDLE_SECONDS {
            return Err(format!("the loop has not turned for {idle} s"));
        }
        match self.health.progress.overdue(self.max_watch_age) {
            None => Ok(()),
            Some((watched, age)) => {
                Err(format!("nothing was heard on the watch of {} for {} s", watched.name(), age.as_secs()))
            }
        }
    }

    fn ready(&self) -> Result<(), String> {
        if self.health.is_ready() {
            return Ok(());
        }
        Err("the Lease was not read, or, as the leader, a list has not arrived or a watch fails".to_owned())
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        self.metrics.watches(&self.health.progress);
        self.metrics.render()
    }
}
