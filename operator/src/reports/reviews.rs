//! Whose token it is. The API server is asked once per token, and a few times a second at most.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sha2::{Digest, Sha256};
use tokio::{sync::watch, time::Instant};
use tracing::warn;

use super::{
    Clock,
    pace::Pace,
    token::{self, Kind, Reviewer, Sender},
};
use crate::metrics::Metrics;

/// From one review to the next: five in a second.
///
/// The kubelet replaces a token after 80% of its hour. 10,000 pods cost 3.5 reviews a second; after a change of leader it
/// takes 33 minutes to ask about each.
const SPACE: Duration = Duration::from_millis(200);

/// How long a request may wait for the turn of its token. The supervisor that would wait longer is told to try again; its
/// token keeps its turn, and is known by then.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How far ahead turns are given: to 2,000 tokens, of which none is longer than 8 KiB.
const LONGEST_QUEUE: Duration = Duration::from_secs(400);

/// A token that was refused is not asked about again for so long. A pod that was created this moment may be unknown to
/// the API server that is asked.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// Refused tokens that one address may cause reviews of: one in so long, and five at once. Others share the budget.
const REFUSALS: (Duration, u32) = (Duration::from_secs(20), 5);

/// Tokens that are known at the same time. A pod has two for a while when the kubelet replaces its token.
const MOST: usize = 25_000;

/// Longer than this no token is believed without asking again.
const LONGEST_KNOWN: Duration = Duration::from_secs(24 * 3600);

/// The longest that a refused request is told to wait.
const TRY_AGAIN: Duration = Duration::from_secs(30);

type Hash = [u8; 32];

/// Why a token names no sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stranger {
    /// It is none of ours.
    Refused,
    /// There are too many tokens to ask about. The time is after which another try is worth it.
    TooMany(Duration),
    /// The API server did not answer.
    Unanswered,
}

type Outcome = Result<Arc<Sender>, Stranger>;

/// A review that will be answered.
#[derive(Clone)]
struct Asked {
    turn: Instant,
    answer: watch::Receiver<Option<Outcome>>,
}

/// The cache, and the budget.
pub(super) struct Reviews {
    reviewer: Reviewer,
    clock: Clock,
    metrics: Arc<Metrics>,
    state: Arc<Mutex<State>>,
}

struct State {
    known: HashMap<Hash, (Arc<Sender>, Instant)>,
    refused: HashMap<Hash, Instant>,
    /// Reviews that are under way or have a turn. Who asks about the same token waits for the same answer.
    asked: HashMap<Hash, Asked>,
    /// When the next review may be sent.
    next: Option<Instant>,
    refusals: Pace<IpAddr>,
    /// The last review failed: said once.
    failing: bool,
}

impl Reviews {
    pub(super) fn new(reviewer: Reviewer, clock: Clock, metrics: Arc<Metrics>) -> Self {
        let state = State {
            known: HashMap::new(),
            refused: HashMap::new(),
            asked: HashMap::new(),
            next: None,
            refusals: Pace::new(REFUSALS.0, REFUSALS.1),
            failing: false,
        };
        Self { reviewer, clock, metrics, state: Arc::new(Mutex::new(state)) }
    }

    /// Whom a token names. `peer` sent it.
    pub(super) async fn sender(&self, token: &str, peer: IpAddr) -> Outcome {
        let now = (self.clock)();
        let (kind, expires) = token::claims(token).ok_or(Stranger::Refused)?;
        let left = Duration::try_from(expires.duration_since(now.time)).map_err(|_| Stranger::Refused)?;
        let until = now.at + left.min(LONGEST_KNOWN);
        let hash: Hash = Sha256::digest(token).into();
        let Asked { turn, mut answer } = match self.look(hash, peer, now.at)? {
            Found::Known(sender) => return Ok(sender),
            Found::Asked(asked) => asked,
            Found::Unknown(asked, sender) => {
                self.ask((token.to_owned(), kind), hash, (peer, asked.turn, until), sender);
                asked
            }
        };
        if turn.saturating_duration_since(now.at) > LONGEST_WAIT {
            return Err(Stranger::TooMany(TRY_AGAIN));
        }
        let answered = answer.wait_for(Option::is_some).await;
        match answered.map(|outcome| (*outcome).clone()) {
            Ok(Some(outcome)) => outcome,
            // The task that asked has panicked.
            _ => {
                lock(&self.state).asked.remove(&hash);
                Err(Stranger::Unanswered)
            }
        }
    }

    /// What is known without asking. If nothing is, a turn is taken.
    fn look(&self, hash: Hash, peer: IpAddr, now: Instant) -> Result<Found, Stranger> {
        let mut state = lock(&self.state);
        if let Some((sender, until)) = state.known.get(&hash)
            && now < *until
        {
            return Ok(Found::Known(Arc::clone(sender)));
        }
        if state.refused.get(&hash).is_some_and(|until| now < *until) {
            return Err(Stranger::Refused);
        }
        // A task that has panicked will not answer.
        if let Some(asked) = state.asked.get(&hash)
            && asked.answer.has_changed().is_ok()
        {
            return Ok(Found::Asked(asked.clone()));
        }
        let turn = state.next.unwrap_or(now).max(now);
        if turn.duration_since(now) > LONGEST_QUEUE {
            return Err(Stranger::TooMany(TRY_AGAIN));
        }
        // Paid in advance, and given back if the token is good: many bad ones at once are too many, too.
        state.refusals.pass(peer, now).map_err(|wait| Stranger::TooMany(wait.min(TRY_AGAIN)))?;
        state.next = Some(turn + SPACE);
        let (sender, answer) = watch::channel(None);
        let asked = Asked { turn, answer };
        state.asked.insert(hash, asked.clone());
        Ok(Found::Unknown(asked, sender))
    }

    /// Asks, whether or not the client stays to hear the answer.
    fn ask(
        &self,
        (token, kind): (String, Kind),
        hash: Hash,
        (peer, turn, until): (IpAddr, Instant, Instant),
        sender: watch::Sender<Option<Outcome>>,
    ) {
        let (reviewer, clock) = (Arc::clone(&self.reviewer), Arc::clone(&self.clock));
        let (state, metrics) = (Arc::clone(&self.state), Arc::clone(&self.metrics));
        tokio::spawn(async move {
            tokio::time::sleep_until(turn).await;
            let answer = reviewer(token, kind).await;
            let mut state = lock(&state);
            state.asked.remove(&hash);
            let outcome = state.take_in(answer, hash, (peer, until), clock().at, &metrics);
            metrics.reports.known(state.known.len());
            drop(state);
            sender.send_replace(Some(outcome));
        });
    }
}

enum Found {
    Known(Arc<Sender>),
    Asked(Asked),
    Unknown(Asked, watch::Sender<Option<Outcome>>),
}

impl State {
    fn take_in(
        &mut self,
        answer: Result<Option<Sender>, String>,
        hash: Hash,
        (peer, until): (IpAddr, Instant),
        now: Instant,
        metrics: &Metrics,
    ) -> Outcome {
        let failing = answer.is_err();
        if let Err(error) = &answer
            && !self.failing
        {
            warn!(
                error,
                "tokens cannot be reviewed: reports of supervisors and requests of node agents are not taken"
            );
        }
        self.failing = failing;
        match answer {
            Ok(Some(sender)) => {
                metrics.reports.reviewed("known");
                self.refusals.give_back(&peer);
                let sender = Arc::new(sender);
                self.make_space(now);
                self.known.insert(hash, (Arc::clone(&sender), until));
                Ok(sender)
            }
            Ok(None) => {
                metrics.reports.reviewed("refused");
                // Five reviews a second: never more than a few hundred.
                self.refused.retain(|_, until| now < *until);
                self.refused.insert(hash, now + REFUSED_FOR);
                Err(Stranger::Refused)
            }
            Err(_) => {
                metrics.reports.reviewed("error");
                // That is no fault of the one who sent it.
                self.refusals.give_back(&peer);
                Err(Stranger::Unanswered)
            }
        }
    }

    /// Tokens that have expired go first, then those that expire first.
    fn make_space(&mut self, now: Instant) {
        if self.known.len() < MOST {
            return;
        }
        self.known.retain(|_, (_, until)| now < *until);
        if self.known.len() < MOST {
            return;
        }
        // A tenth at once, so that this is rare.
        let mut ends: Vec<Instant> = self.known.values().map(|(_, until)| *until).collect();
        ends.sort_unstable();
        let first = ends[MOST / 10];
        self.known.retain(|_, (_, until)| *until > first);
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
