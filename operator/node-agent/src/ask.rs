//! The thread that asks the operator for the list of pods, and answers what it asks back.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use scavenger_reporting::{
    client::{Client, Posted, ReportTo, Terms},
    random::jitter,
    schedule::{Outcome, Schedule},
};
use scavenger_schema::node_agent::{
    HOLD_SECONDS, KILLS_PATH, KillReport, KillTaken, KilledPod, NodePod, NodePods, NodeReport,
};

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

/// For an answer about a kill, which the operator takes at once.
const ANSWER_TERMS: Terms = Terms { within: Duration::from_secs(10), longest_answer: 1024, ..TERMS };

/// The other thread looks at all pods before it says what it knows of kills.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(5);

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
    let mut answers = Client::new(ReportTo { url: beside(&url), ..to.clone() }, ANSWER_TERMS);
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
        let Some(NodePods { version: newest, pods, killed }) = answer else { continue };
        let is_news = version.as_ref() != Some(&newest);
        if is_news {
            version = Some(newest);
            let Some(explained) = pass_on(news, pods, killed) else { return };
            explained.iter().for_each(|kill| answer_about(kill, &mut answers));
        }
        schedule.asked(Instant::now() + if is_news { AFTER_NEWS } else { AFTER_NOTHING });
    }
}

/// Gives the list to the other thread. Returns what that knows of the kills, or none if it has ended.
fn pass_on(news: &Sender<News>, pods: Vec<NodePod>, killed: Vec<KilledPod>) -> Option<Vec<KillReport>> {
    let (answers, explained) = mpsc::channel();
    let is_asked = !killed.is_empty();
    news.send(News::List { pods, killed, answers }).ok()?;
    Some(if is_asked { explained.recv_timeout(EXPLAINED_WITHIN).unwrap_or_default() } else { Vec::new() })
}

/// An answer that is not taken is not repeated: the operator waits for some seconds, and then goes on without.
fn answer_about(kill: &KillReport, client: &mut Client) {
    let KillReport { uid, cause, .. } = kill;
    let Posted { outcome, problem, .. } = client.post::<_, KillTaken>(kill);
    let line = format!("a container of pod {uid} was killed for memory; cause: {cause:?}");
    match problem.or_else(|| (outcome == Outcome::NotLeader).then(|| "no replica leads".to_owned())) {
        None => say(&line),
        Some(problem) => say(&format!("{line}; cannot tell the operator: {problem}")),
    }
}

/// The other path of the same server.
fn beside(url: &str) -> String {
    let base = url.rsplit_once('/').map_or(url, |(base, _)| base);
    format!("{base}{KILLS_PATH}")
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
    fn answers_go_to_another_path_of_the_same_server() {
        assert_eq!(beside("https://operator.ns.svc:8443/nodes"), "https://operator.ns.svc:8443/kills");
    }

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
