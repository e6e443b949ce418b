//! Those that lose least: of the ScavengerJobs that could be interrupted, the set that covers what is short and throws away
//! least work in all. The one rule for every cause that has a choice.
//!
//! Small and many against large and one is the case that a simple order gets wrong: six ScavengerJobs of one cpu at the end
//! of a stretch may lose more together than one of six cpu that has just begun. So the search is exact: branch and bound
//! over the candidates, cheapest first. Its effort is limited ([`MAX_EFFORT`]). Nodes have few dozen candidates, for which
//! it ends long before; over a pool of thousands the answer is the best that was found until then.

use std::collections::BTreeMap;

use crate::{
    lifecycle::loss::Loss,
    values::{Key, resources::Resources},
};

/// Most looks at a candidate in one search: some ten milliseconds.
const MAX_EFFORT: u64 = 2_000_000;

/// A ScavengerJob that could be interrupted.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The ScavengerJob.
    pub sj: Key,
    /// What it holds where something is short.
    pub held: Resources,
    /// What is lost if it goes, with all of its pods, wherever they are.
    pub loss: Loss,
    /// True if it goes only where the others do not suffice, whatever is lost.
    pub is_young: bool,
}

/// Those of the candidates that lose least together and cover what is short; as much of it as all of them hold, if that
/// is less. Cheapest first; young ones come last, and only for what the others leave uncovered. `short` names resources and
/// amounts.
pub fn choose(short: &[(&str, i64)], candidates: Vec<Candidate>) -> Vec<Key> {
    let (young, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|one| one.is_young);
    let held: BTreeMap<Key, Resources> = match young.is_empty() {
        true => BTreeMap::new(),
        false => others.iter().map(|one| (one.sj.clone(), one.held.clone())).collect(),
    };
    let mut chosen = choose_among(short, others);
    let covered = |name: &str| {
        let held = chosen.iter().filter_map(|sj| held.get(sj)).map(|held| held.get(name).max(0));
        held.fold(0, i64::saturating_add)
    };
    let left = short.iter().map(|(name, amount)| (*name, amount.saturating_sub(covered(name))));
    let left: Vec<(&str, i64)> = left.collect();
    chosen.extend(choose_among(&left, young));
    chosen
}

fn choose_among(short: &[(&str, i64)], candidates: Vec<Candidate>) -> Vec<Key> {
    let held = |name: &str| candidates.iter().map(|one| i128::from(one.held.get(name).max(0))).sum::<i128>();
    let short: Vec<(&str, i64)> = short
        .iter()
        .map(|(name, amount)| (*name, i64::try_from(held(name).min(i128::from(*amount))).unwrap_or(*amount)))
        .filter(|(_, amount)| *amount > 0)
        .collect();
    Search::new(&short, candidates).map(|search| search.run().1).unwrap_or_default()
}

/// The search for one shortage.
pub(crate) struct Search {
    /// What is short, of each resource that is.
    shortage: Vec<i64>,
    /// Cheapest first; equal ones side by side.
    items: Vec<Item>,
    /// Of each resource that is short, the items that hold some, by the price of a unit.
    by_price: Vec<Vec<usize>>,
}

struct Item {
    sj: Key,
    /// Loss, and one more, so that of two equal sets the smaller one is cheaper.
    cost: u128,
    loss: Loss,
    /// Of each resource that is short.
    held: Vec<i64>,
}

impl Search {
    /// None if not even all candidates together would cover what is short.
    pub(crate) fn new(short: &[(&str, i64)], candidates: Vec<Candidate>) -> Option<Self> {
        let mut items: Vec<Item> = candidates
            .into_iter()
            .map(|candidate| Item {
                // More than what is short helps nobody, and would only blur the bound.
                held: short.iter().map(|(name, short)| candidate.held.get(name).clamp(0, *short)).collect(),
                cost: candidate.loss.amount.saturating_mul(1024).saturating_add(1),
                loss: candidate.loss,
                sj: candidate.sj,
            })
            .filter(|item| item.held.iter().any(|held| *held > 0))
            .collect();
        items.sort_by(|a, b| (&a.loss, &a.held).cmp(&(&b.loss, &b.held)));
        let by_price = |resource: usize| {
            let mut holding: Vec<usize> =
                (0..items.len()).filter(|item| items[*item].held[resource] > 0).collect();
            holding.sort_by_key(|item| (price(&items[*item], resource), *item));
            holding
        };
        let by_price = (0..short.len()).map(by_price).collect();
        let search = Self { shortage: short.iter().map(|(_, amount)| *amount).collect(), items, by_price };
        let all: Vec<usize> = (0..search.items.len()).collect();
        search.covers(&all).then_some(search)
    }

    /// No set that covers what is short loses less than this.
    pub(super) fn lower_bound(&self) -> u128 {
        self.bound(0, &self.shortage, &mut 0)
    }

    /// What is lost, in units of this search, and who goes, cheapest first.
    pub(crate) fn run(&self) -> (u128, Vec<Key>) {
        let by_loss: Vec<usize> = (0..self.items.len()).collect();
        let mut by_price = by_loss.clone();
        by_price.sort_by_key(|item| (self.price_of_help(*item), *item));
        // What is good at once saves most of the search.
        let first = [by_loss, by_price].map(|order| self.greedy(&order));
        let chosen = first.into_iter().min_by_key(|chosen| self.cost(chosen)).unwrap_or_default();
        let mut best = Best { cost: self.cost(&chosen), chosen, path: Vec::new(), effort: 0 };
        self.descend(0, 0, &self.shortage, &mut best);
        best.chosen.sort_unstable();
        (best.cost, best.chosen.iter().map(|item| self.items[*item].sj.clone()).collect())
    }

    fn covers(&self, chosen: &[usize]) -> bool {
        self.left(chosen).iter().all(|left| *left <= 0)
    }

    /// What these leave uncovered of each resource.
    fn left(&self, chosen: &[usize]) -> Vec<i128> {
        let of = |(resource, short): (usize, &i64)| {
            let held = chosen.iter().map(|item| i128::from(self.items[*item].held[resource]));
            i128::from(*short) - held.sum::<i128>()
        };
        self.shortage.iter().enumerate().map(of).collect()
    }

    fn cost(&self, chosen: &[usize]) -> u128 {
        chosen.iter().fold(0, |sum, item| sum.saturating_add(self.items[*item].cost))
    }

    /// The cost of a candidate for the share of the shortage that it covers, in millionths of all that is short.
    fn price_of_help(&self, item: usize) -> u128 {
        let item = &self.items[item];
        let share = |(held, short): (&i64, &i64)| i128::from(*held) * 1_000_000 / i128::from(*short).max(1);
        let help: i128 = item.held.iter().zip(&self.shortage).map(share).sum();
        item.cost.saturating_mul(1_000_000) / u128::try_from(help).unwrap_or(1).max(1)
    }

    /// Least cost at which the items from `from` on could cover `short`, if parts of them could be taken: the dearest
    /// of the single resources. [`u128::MAX`] if they cannot.
    fn bound(&self, from: usize, short: &[i64], effort: &mut u64) -> u128 {
        let mut dearest = 0;
        for (resource, holding) in self.by_price.iter().enumerate() {
            let mut short = u128::try_from(short[resource]).unwrap_or(0);
            let mut least = 0_u128;
            for item in holding {
                if short == 0 {
                    break;
                }
                *effort += 1;
                if *item >= from {
                    let held = u128::try_from(self.items[*item].held[resource]).unwrap_or(0);
                    let taken = held.min(short);
                    // The price of one unit is rounded down, so the sum is never more than the truth.
                    let part = price(&self.items[*item], resource).saturating_mul(taken) >> PRICE_BITS;
                    least = least.saturating_add(part);
                    short -= taken;
                }
            }
            dearest = dearest.max(if short > 0 { u128::MAX } else { least });
        }
        dearest
    }

    /// Takes them in this order until they suffice, and spares those that are superfluous then, the dearest first.
    fn greedy(&self, order: &[usize]) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        let mut left: Vec<i128> = self.shortage.iter().map(|short| i128::from(*short)).collect();
        for item in order {
            let held = &self.items[*item].held;
            if left.iter().zip(held).any(|(left, held)| *left > 0 && *held > 0) {
                chosen.push(*item);
                left.iter_mut().zip(held).for_each(|(left, held)| *left -= i128::from(*held));
            }
        }
        // Items are in the order of their loss.
        let mut spared: Vec<usize> = chosen.clone();
        spared.sort_unstable();
        for item in spared.into_iter().rev() {
            let held = &self.items[item].held;
            if left.iter().zip(held).all(|(left, held)| *left + i128::from(*held) <= 0) {
                chosen.retain(|other| *other != item);
                left.iter_mut().zip(held).for_each(|(left, held)| *left += i128::from(*held));
            }
        }
        chosen
    }

    /// Tries every set of the items from `from` on that could still be better. It goes one level deeper for each item that
    /// is taken; those that are left out are passed in the loop.
    fn descend(&self, mut from: usize, cost: u128, short: &[i64], best: &mut Best) {
        if short.iter().all(|short| *short <= 0) {
            if cost < best.cost {
                best.cost = cost;
                best.chosen.clone_from(&best.path);
            }
            return;
        }
        while let Some(item) = self.items.get(from) {
            let bound = self.bound(from, short, &mut best.effort);
            if best.effort > MAX_EFFORT || cost.saturating_add(bound) >= best.cost {
                return;
            }
            let left: Vec<i64> =
                short.iter().zip(&item.held).map(|(short, held)| short.saturating_sub(*held)).collect();
            best.path.push(from);
            self.descend(from + 1, cost.saturating_add(item.cost), &left, best);
            best.path.pop();
            // Without this one, another that is the same would only be the same again.
            let alike = |other: &&Item| other.cost == item.cost && other.held == item.held;
            from += self.items[from..].iter().take_while(alike).count();
        }
    }
}

/// Binary digits behind the point of a price: a unit is a byte or a thousandth of a core.
const PRICE_BITS: u32 = 20;

/// What a unit of a resource costs that this item holds.
fn price(item: &Item, resource: usize) -> u128 {
    item.cost.saturating_mul(1 << PRICE_BITS) / u128::try_from(item.held[resource]).unwrap_or(1).max(1)
}

struct Best {
    cost: u128,
    chosen: Vec<usize>,
    path: Vec<usize>,
    effort: u64,
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;
    use crate::fixtures::{at, key};

    fn candidate(name: &str, cpu: i64, loss: u128) -> Candidate {
        Candidate {
            sj: key(name),
            held: Resources { cpu_milli: cpu * 1000, ..Resources::default() },
            loss: Loss { amount: loss, interrupted_count: 0, began: Reverse(at(0)), uid: name.into() },
            is_young: false,
        }
    }

    fn chosen(short: i64, candidates: Vec<Candidate>) -> Vec<String> {
        choose(&[("cpu", short * 1000)], candidates).into_iter().map(|sj| sj.name.to_string()).collect()
    }

    /// Weighted by their size, six small ones at the end of a stretch lose 660 each, a large one at its start 1,560.
    #[test]
    fn one_large_one_goes_where_six_small_ones_lose_more() {
        let small = (0..6).map(|number| candidate(&format!("small{number}"), 1, 660));
        let mut all: Vec<Candidate> = small.collect();
        all.push(candidate("large", 6, 1560));
        assert_eq!(chosen(6, all.clone()), ["large"]);
        assert_eq!(chosen(2, all), ["small0", "small1"]);
    }

    #[test]
    fn young_ones_go_for_what_the_others_leave_uncovered() {
        let young = |name, cpu, loss| Candidate { is_young: true, ..candidate(name, cpu, loss) };
        let all = vec![candidate("dear", 2, 900), young("cheap", 3, 1), young("dearer", 2, 5)];
        assert_eq!(chosen(2, all.clone()), ["dear"]);
        assert_eq!(chosen(4, all.clone()), ["dear", "cheap"]);
        assert_eq!(chosen(9, all), ["dear", "cheap", "dearer"]);
        assert_eq!(chosen(2, vec![young("a", 1, 2), young("b", 2, 3)]), ["b"]);
    }

    #[test]
    fn if_all_together_do_not_suffice_all_that_help_go() {
        let all = vec![candidate("a", 1, 5), candidate("b", 2, 1), candidate("none", 0, 0)];
        assert_eq!(chosen(7, all), ["b", "a"]);
    }

    #[test]
    fn ten_thousand_candidates_are_answered_close_to_the_lower_bound() {
        let all: Vec<Candidate> = (0..10_000_i64)
            .map(|number| {
                let (cpu, loss) = (1 + number * 7919 % 16, 1 + (number * 104_729) % 1000);
                candidate(&format!("job{number}"), cpu, u128::try_from(cpu * loss).unwrap())
            })
            .collect();
        let search = Search::new(&[("cpu", 2_000_000)], all).unwrap();
        let (cost, scavenger_jobs) = search.run();
        assert!(scavenger_jobs.len() > 100, "{}", scavenger_jobs.len());
        assert!(cost <= search.lower_bound() * 101 / 100, "{cost} against {}", search.lower_bound());
    }
}
