//! The executor: takes actions from the same line as the real one, a few at a time.

use super::{
    Fault, Kill,
    cluster::{Cluster, Event},
};
use scavenger_planner::{
    action::{Action, ActionResult, Failure, Line},
    values::Observation,
};

/// How many actions are carried out at the same time, if a test says nothing else: as many as the operator's own default.
const CONCURRENCY: usize = 32;

/// Actions that wait, and how many are under way.
#[derive(Debug)]
pub(super) struct Executor {
    concurrency: usize,
    line: Line,
    under_way: usize,
}

impl Default for Executor {
    fn default() -> Self {
        Self { concurrency: CONCURRENCY, line: Line::default(), under_way: 0 }
    }
}

impl Executor {
    /// The executor of a planner that was started after another was killed.
    pub(super) fn restart(&mut self) {
        *self = Self { concurrency: self.concurrency, ..Self::default() };
    }
}

impl Cluster {
    /// The same with so many actions carried out at the same time.
    #[must_use]
    pub fn with_concurrency(mut self, concurrency: usize) -> Self {
        self.executor.concurrency = concurrency;
        self
    }

    /// Actions that are planned join the line, and as many as may be begin.
    pub(super) fn begin(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.executor.line.join(action);
        }
        while self.executor.under_way < self.executor.concurrency
            && let Some(action) = self.executor.line.take()
        {
            self.executor.under_way += 1;
            self.after(self.delays.request, Event::Execute(action));
        }
    }

    /// The planner hears what became of an action, and the next may begin.
    pub(super) fn answer(&mut self, result: ActionResult) {
        self.executor.under_way -= 1;
        self.tell(Observation::Done(result));
    }

    pub(super) fn execute(&mut self, action: Action, instance: u32) {
        let mut answered = instance == self.instance;
        self.actions += 1;
        let number = self.actions;
        let mut fault = self.faults.get(&number).cloned();
        if let Some((random, percent)) = &mut self.random
            && random.below(100) < *percent
        {
            fault = Some(match random.below(3) {
                0 => Fault::Refused(Failure::Transient("the API server is away".to_owned())),
                1 => Fault::Refused(Failure::Conflict),
                _ => Fault::AnswerLost,
            });
        }
        if self.outage || self.poisoned.contains(&action.sj) {
            fault = Some(Fault::Refused(Failure::Transient("the API server is away".to_owned())));
        }
        match self.kill {
            Some(Kill::Before(at)) if at == number => {
                self.kill = None;
                return self.restart(false);
            }
            Some(Kill::Late(at)) if at == number => {
                self.kill = None;
                self.restart(true);
                answered = false;
            }
            _ => {}
        }
        let (sj, uid) = (action.sj.clone(), action.uid.clone());
        let answer = match fault {
            Some(Fault::Refused(failure)) => Err(failure),
            Some(Fault::AnswerLost) => {
                let _lost = self.carry_out(action, instance);
                Err(Failure::Transient("no answer within 20 s".to_owned()))
            }
            None => self.carry_out(action, instance),
        };
        if self.kill == Some(Kill::After(number)) {
            self.kill = None;
            return self.restart(false);
        }
        if answered {
            let delay = self.delay(self.delays.answer);
            let result = ActionResult { sj, uid, time: self.now + delay, answer };
            self.exactly_after(delay, Event::Answer(Box::new(result)));
        }
    }
}

#[cfg(test)]
mod tests {
    use scavenger_planner::fixtures::{node, seconds, sj};

    use super::*;
    use crate::Workload;

    #[test]
    fn no_more_actions_are_under_way_than_may_be() {
        let mut cluster = Cluster::default().with_nodes([node("n1", 10_000)]).with_concurrency(2);
        for number in 0..7 {
            cluster.submit(sj(&format!("job{number}")), Workload::default());
        }
        cluster.run_for(seconds(5));
        let times: Vec<_> = cluster.log.iter().map(|(time, _)| *time).collect();
        assert!(times.len() > 21, "{}", times.len());
        // A request and its answer take this long.
        let turn = cluster.delays.request + cluster.delays.answer;
        for three in times.windows(3) {
            assert!(three[2].duration_since(three[0]) >= turn, "{three:?}");
        }
    }
}
