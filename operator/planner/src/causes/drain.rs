//! Drain: while the pool is being drained every active attempt is interrupted.

use super::pool::{Cause, Pool};
use crate::{
    facts::tracked::Tracked,
    values::{Key, Reason},
};

/// The admin's wish that nothing runs (`spec.drain`).
#[derive(Debug, Default)]
pub(crate) struct Drain;

/// True for an active attempt whose interruption was neither ordered nor written down.
pub(crate) fn concerns(tracked: &Tracked) -> bool {
    tracked.sj().ongoing_attempt().is_some() && !tracked.is_decided()
}

impl Cause for Drain {
    fn is_idle(&mut self, pool: &Pool<'_>) -> bool {
        !pool.settings.drain
    }

    fn order(&mut self, pool: &mut Pool<'_>) {
        let active = pool.seen.active().filter(|sj| pool.seen.get(sj).is_some_and(concerns));
        for sj in active.cloned().collect::<Vec<Key>>() {
            pool.order(&sj, Reason::Drained, "the ScavengerPool is being drained".to_owned());
        }
    }
}
