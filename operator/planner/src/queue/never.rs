//! Which lines of the queue can fit at all: the others stay out of every walk until nodes or settings change.

use std::collections::BTreeSet;

use super::{Line, Queue, Room, fronts::Fronts, rank::Lane, walk::Walk};
use crate::capacity::Traits;

impl Queue {
    /// Finds out whether lines can ever fit: of new ones, of those whose pods other nodes let in than before, and of all if
    /// nodes came, went or grew.
    pub(crate) fn decide_who_never_fits(&mut self, room: &mut Room<'_>, walk: &mut Walk) {
        let new = std::mem::take(&mut self.new);
        let epoch = room.capacity.epoch();
        let most = room.capacity.most_row(room.settings);
        let readmitted = room.capacity.take_readmitted();
        if std::mem::replace(&mut self.epoch, epoch) == epoch {
            for ask in readmitted {
                let first = Lane { ask, ..Lane::default() };
                for (lane, line) in self.lines.range_mut(first..).take_while(|(lane, _)| lane.ask == ask) {
                    if !new.contains(lane) {
                        line.decide(*lane, false, &most, room, (&mut self.fronts, &mut self.untold), walk);
                    }
                }
            }
            for lane in &new {
                if let Some(line) = self.lines.get_mut(lane) {
                    line.decide(*lane, true, &most, room, (&mut self.fronts, &mut self.untold), walk);
                }
            }
        } else {
            for (lane, line) in &mut self.lines {
                let is_new = new.contains(lane);
                line.decide(*lane, is_new, &most, room, (&mut self.fronts, &mut self.untold), walk);
            }
        }
    }
}

impl Line {
    /// Finds out whether it can ever fit.
    fn decide(
        &mut self,
        lane: Lane,
        is_new: bool,
        most: &[i64],
        room: &mut Room<'_>,
        (fronts, untold): (&mut Fronts, &mut BTreeSet<Lane>),
        walk: &mut Walk,
    ) {
        let never = !room.capacity.can_fit(lane.ask, most, room.settings);
        let traits = match is_new {
            true => room.capacity.traits(lane.ask),
            false => Traits { kind: room.capacity.kind(lane.ask), ..self.traits },
        };
        let Some((head, oldest)) = self.members.first().zip(self.ages.first()) else { return };
        let (was_front, before) = (!is_new && !self.never, std::mem::replace(&mut self.traits, traits));
        if was_front && (never || before != traits) {
            fronts.remove(head.turn, lane, before);
            fronts.change_age(before, Some(oldest), None, lane);
        }
        if !never && (!was_front || before != traits) {
            fronts.insert(head.turn, lane, traits);
            fronts.change_age(traits, None, Some(oldest), lane);
        }
        if !is_new && self.never == never {
            if before != traits {
                fronts.set_settled(head.turn, lane, self.is_settled());
            }
            return;
        }
        self.never = never;
        self.told = None;
        if never {
            untold.remove(&lane);
        } else {
            untold.insert(lane);
        }
        if !is_new {
            walk.told.extend(self.members.iter().map(|rank| rank.sj()));
        }
    }
}
