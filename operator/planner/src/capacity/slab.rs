//! A set of numbers and a store by number, both small and fast to walk along.

/// A set of small numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn get(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(super) fn set(&mut self, number: usize, value: bool) {
        let word = number / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let bit = 1 << (number % 64);
        if value {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(mine, theirs)| mine & theirs != 0)
    }

    pub(super) fn common(&self, other: &Self) -> usize {
        self.0.iter().zip(&other.0).map(|(mine, theirs)| (mine & theirs).count_ones() as usize).sum()
    }

    /// The numbers that are in both, the smallest first. Costs nothing for 64 numbers of which none is in both.
    pub(super) fn both(&self, other: &Self) -> impl Iterator<Item = usize> {
        self.0.iter().zip(&other.0).enumerate().flat_map(|(word, (mine, theirs))| {
            let mut left = mine & theirs;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                // The lowest bit that is set goes.
                left &= left.checked_sub(1)?;
                Some(word * 64 + bit)
            })
        })
    }
}

/// A set of groups by their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reach(u64);

impl Reach {
    pub(super) fn contains(self, group: usize) -> bool {
        self.0 >> group & 1 == 1
    }

    pub(super) fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn add(&mut self, group: usize) {
        self.0 |= 1 << group;
    }
}

/// Values under numbers that stay the same.
#[derive(Debug, Clone)]
pub(super) struct Slab<T> {
    /// By their numbers; none where a number is vacant.
    pub(super) items: Vec<Option<T>>,
    vacant: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), vacant: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn add(&mut self, item: T) -> usize {
        match self.vacant.pop() {
            Some(number) => {
                self.items[number] = Some(item);
                number
            }
            None => {
                self.items.push(Some(item));
                self.items.len() - 1
            }
        }
    }

    pub(super) fn at(&self, number: usize) -> &T {
        self.items[number].as_ref().expect("a number should be used only while its item is there")
    }

    pub(super) fn at_mut(&mut self, number: usize) -> &mut T {
        self.items[number].as_mut().expect("a number should be used only while its item is there")
    }

    pub(super) fn remove(&mut self, number: usize) -> T {
        let item = self.items[number].take().expect("a number should be used only while its item is there");
        self.vacant.push(number);
        item
    }
}
