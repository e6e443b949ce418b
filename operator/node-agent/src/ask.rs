//! The thread that asks the operator for the list of pods.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    thread,
    time::{Duration, Instant},
};

use scavenger_reporting::{
    client::{Client, Posted, ReportTo, Terms},
    random::jitter,
    schedule::{Outcome, Schedule},
};
use scavenger_schema::node_agent::{HOLD_SECONDS, NodePods, NodeReport};

use crate::{Problem, run::News, say};

/// The operator holds a request until the list changes. A kubelet runs 110 pods unless it is configured for more.
const TERMS: Terms = Terms {
    user_agent: concat!("scavenger-node-agent/", env!("CARGO_PKG_VERSION")),
    within: Duration::from_secs(HOLD_SECONDS + 10),
    longest_answer: 256 * 1024,
};

/// The pause after the first failure. Later ones are up to ten times as long.
const RETRY: Duration = Duration::from_secs(10);

/// The pause after a new list. Changes in quick succession come as one list.
const AFTER_NEWS: Duration = Duration::from_millis(100);

/// The pause after the same list. It bounds the requests to an operator that does not hold them.
const AFTER_NOTHING: Duration = Duration::from_secs(1);

/// The UIDs of pods whose cgroup could not be changed, which the other thread writes.
pub type Failed = Arc<Mutex<Vec<String>>>;

/// Starts the thread. It sends a last message when it ends.
///
/// # Errors
/// If there is no thread to be had.
pub fn start(to: ReportTo, news: Sender<News>, failed: Failed) -> io::Result<()> {
    let asks = move || {
        let at_the_end = AtTheEnd(news);
        ask(to, &at_the_end.0, &failed);
    };
    thread::Builder::new().name("asks".to_owned()).spawn(asks).map(drop)
}

struct AtTheEnd(Sender<News>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.send(News::NobodyAsks).ok();
    }
}

fn ask(to: ReportTo, news: &Sender<News>, failed: &Failed) {
    let url = to.url.clone();
    let mut client = Client::new(to, TERMS);
    let mut schedule = Schedule::new(Instant::now(), RETRY, false, jitter());
    let mut version = None;
    let mut problem = Problem::default();
    loop {
        schedule.news();
        wait(schedule.due());
        let report = NodeReport {
            version: version.clone().unwrap_or_default(),
            failed: failed.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        let (outcome, answer, wrong) = understood(client.post(&report));
        if let Some(wrong) = problem.is(wrong) {
            say(&format!("cannot ask {url}: {wrong}; the last list stays valid"));
        }
        schedule.ended(Instant::now(), outcome, jitter());
        let Some(NodePods { version: newest, pods }) = answer else { continue };
        let is_news = version.as_ref() != Some(&newest);
        schedule.asked(Instant::now() + if is_news { AFTER_NEWS } else { AFTER_NOTHING });
        if is_news {
            version = Some(newest);
            if news.send(News::List(pods)).is_err() {
                return;
            }
        }
    }
}

/// An answer that cannot be read must not count as an empty list.
fn understood(posted: Posted<NodePods>) -> (Outcome, Option<NodePods>, Option<String>) {
    match posted {
        Posted { outcome: Outcome::Taken, answer: None, .. } => {
            (Outcome::Failed, None, Some("its answer cannot be read".to_owned()))
        }
        Posted { outcome: Outcome::NotLeader, answer, problem } => {
            (Outcome::NotLeader, answer, problem.or_else(|| Some("no replica leads".to_owned())))
        }
        Posted { outcome, answer, problem } => (outcome, answer, problem),
    }
}

fn wait(until: Instant) {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_read_is_a_failure() {
        let taken = |answer| Posted { outcome: Outcome::Taken, answer, problem: None };
        let (outcome, answer, problem) = understood(taken(None));
        assert_eq!(
            (outcome, answer, problem.unwrap().as_str()),
            (Outcome::Failed, None, "its answer cannot be read")
        );
        let (outcome, answer, problem) = understood(taken(Some(NodePods::default())));
        assert_eq!((outcome, answer, problem), (Outcome::Taken, Some(NodePods::default()), None));
        let standby = Posted { outcome: Outcome::NotLeader, answer: None, problem: None };
        assert_eq!(understood(standby).2.unwrap(), "no replica leads");
    }
}
