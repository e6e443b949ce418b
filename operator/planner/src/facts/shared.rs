//! One copy of what many objects hold alike: each object brings its own from its decoder.

use std::{collections::BTreeSet, sync::Arc};

use crate::values::{Demand, ScavengerJob};

/// Values that somebody holds, each of them once.
#[derive(Debug)]
pub(crate) struct Shared<T: ?Sized> {
    values: BTreeSet<Arc<T>>,
    /// Calls of [`Self::share`] until values that nobody holds are looked for.
    calls_left: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { values: BTreeSet::new(), calls_left: 0 }
    }
}

impl<T: Ord + ?Sized> Shared<T> {
    /// Replaces a value by the copy that is there already.
    pub(crate) fn share(&mut self, value: &mut Arc<T>) {
        match self.values.get(&**value) {
            Some(known) => value.clone_from(known),
            None => _ = self.values.insert(value.clone()),
        }
        if self.calls_left > 0 {
            self.calls_left -= 1;
            return;
        }
        self.values.retain(|value| Arc::strong_count(value) > 1);
        // So many calls at most double the number of values: each pays for a look at two.
        self.calls_left = self.values.len();
    }
}

impl Shared<Demand> {
    /// The same for what a ScavengerJob's spec asks for, and what its attempt runs with.
    pub(crate) fn share_of(&mut self, sj: &mut ScavengerJob) {
        let of_spec = sj.spec.iter_mut().map(|spec| &mut spec.demand);
        let of_attempt = sj.status.attempt.iter_mut().map(|attempt| &mut attempt.demand);
        of_spec.chain(of_attempt).for_each(|demand| self.share(demand));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_become_one_copy() {
        let mut shared = Shared::default();
        let mut values: [Arc<str>; 3] = ["a".into(), "b".into(), "a".into()];
        for value in &mut values {
            shared.share(value);
        }
        assert!(Arc::ptr_eq(&values[0], &values[2]));
        assert_eq!(&*values[1], "b");
    }

    #[test]
    fn values_that_nobody_holds_are_forgotten() {
        let mut shared = Shared::default();
        let mut held = Arc::new(0);
        shared.share(&mut held);
        for number in 1..1000 {
            shared.share(&mut Arc::new(number));
            assert!(shared.values.len() < 10, "{} are kept", shared.values.len());
        }
        assert!(shared.values.contains(&held));
    }
}
