//! Several seeds at once. A run depends on its seed alone, so what comes out is the same for any number of threads.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// Does something for each seed, from 1 on, on so many threads at a time. The results come in the order of the seeds.
pub fn each<T: Send>(threads: usize, seeds: u64, one: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(1);
    let done: Mutex<BTreeMap<u64, T>> = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds {
                break;
            }
            let result = one(seed);
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(seed, result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_come_in_the_order_of_the_seeds() {
        let expected: Vec<u64> = (1..=50).map(|seed| seed * seed).collect();
        for threads in [0, 1, 4] {
            assert_eq!(each(threads, 50, |seed| seed * seed), expected);
        }
        assert!(each(2, 0, |seed| seed).is_empty());
    }
}
