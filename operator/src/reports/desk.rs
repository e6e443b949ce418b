//! One request: who may say what, and what is believed of it.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use jiff::{SignedDuration, Timestamp};
use scavenger_planner::values::KillReport;
use scavenger_schema::{
    node_agent::{self, HOLD_SECONDS, KillTaken, NodeReport},
    supervision::{Answer, Checkpoint, LiveReport},
};
use serde::de::DeserializeOwned;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    watch,
};

use super::{
    Clock, Ends, Report, Requests, kills,
    nodes::{Asked, Nodes},
    pace::Pace,
    reviews::{Reviews, Stranger},
    server::Stay,
    token::{Pod, Sender},
};
use crate::{leader::Leadership, metrics::Metrics, observe::supervision};

/// Where reports are sent to.
pub(super) const PATH: &str = "/reports";

/// A report has 150 bytes.
const LONGEST_BODY: usize = 4096;

/// What an agent says names each pod of its node by 39 bytes at most: no node has more than some hundred.
const LONGEST_BODY_OF_AGENT: usize = 32 * 1024;

/// A body that takes longer is not waited for.
const BODY_WITHIN: Duration = Duration::from_secs(3);

/// Reports of one pod: one in so long, and three at once after a pause. The supervisor sends one a minute.
const REPORTS: (Duration, u32) = (Duration::from_secs(10), 3);

/// Requests of the agent of one node: one in so long, and ten at once after a pause. Between two changes it has one.
const OF_AGENT: (Duration, u32) = (Duration::from_secs(1), 10);

/// What an agent says about kills: as many at once as it is asked about.
const KILLS: (Duration, u32) = (Duration::from_secs(1), kills::MOST_OF_NODE as u32);

/// How long an agent waits that is told nothing new.
const HOLD: Duration = Duration::from_secs(HOLD_SECONDS);

/// When to come again to a loop that has too much to do.
const LATER: Duration = Duration::from_secs(10);

/// A checkpoint is not older than a workload can be.
const OLDEST: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// Why a report is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    NotLeader,
    NotReady,
    NoSuchPath,
    NoSuchMethod,
    Unauthenticated,
    TooManyTokens(Duration),
    ReviewFailed,
    TooOften(Duration),
    TooLarge,
    TooSlow,
    Malformed,
    NotAsked,
    Busy,
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            // Both pass within seconds, and the supervisor comes again as soon.
            Self::NotLeader | Self::NotReady => StatusCode::MISDIRECTED_REQUEST,
            Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::NoSuchMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::TooManyTokens(_) | Self::TooOften(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::ReviewFailed | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::NotAsked => StatusCode::FORBIDDEN,
        }
    }

    /// The word in the metric.
    fn word(self) -> &'static str {
        match self {
            Self::NotLeader => "not_leader",
            Self::NotReady => "not_ready",
            Self::NoSuchPath | Self::NoSuchMethod => "no_such_path",
            Self::Unauthenticated => "unauthenticated",
            Self::TooManyTokens(_) => "too_many_tokens",
            Self::ReviewFailed => "review_failed",
            Self::TooOften(_) => "too_often",
            Self::TooLarge => "too_large",
            Self::TooSlow => "too_slow",
            Self::Malformed => "malformed",
            Self::NotAsked => "not_asked",
            Self::Busy => "busy",
        }
    }

    fn retry_after(self) -> Option<Duration> {
        match self {
            Self::TooManyTokens(wait) | Self::TooOften(wait) => Some(wait),
            Self::ReviewFailed | Self::Busy => Some(LATER),
            _ => None,
        }
    }
}

/// Takes requests one by one.
pub(super) struct Desk {
    leadership: watch::Receiver<Leadership>,
    reviews: Reviews,
    reports: mpsc::Sender<Report>,
    requests: Requests,
    nodes: Nodes,
    kills: mpsc::Sender<KillReport>,
    clock: Clock,
    metrics: Arc<Metrics>,
    pace: Mutex<Pace<String>>,
    pace_of_agents: Mutex<Pace<String>>,
    pace_of_kills: Mutex<Pace<String>>,
}

/// Where requests go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Reports,
    Nodes,
    Kills,
}

impl Place {
    fn at(path: &str) -> Option<Self> {
        match path {
            PATH => Some(Self::Reports),
            node_agent::PATH => Some(Self::Nodes),
            node_agent::KILLS_PATH => Some(Self::Kills),
            _ => None,
        }
    }
}

impl Desk {
    pub(super) fn new(
        leadership: watch::Receiver<Leadership>,
        reviews: Reviews,
        ends: &Ends,
        clock: Clock,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            leadership,
            reviews,
            reports: ends.reports.clone(),
            requests: ends.requests.clone(),
            nodes: ends.nodes.clone(),
            kills: ends.kills.clone(),
            clock,
            metrics,
            pace: Mutex::new(Pace::new(REPORTS.0, REPORTS.1)),
            pace_of_agents: Mutex::new(Pace::new(OF_AGENT.0, OF_AGENT.1)),
            pace_of_kills: Mutex::new(Pace::new(KILLS.0, KILLS.1)),
        }
    }

    /// Answers a request. The answer to a report that was taken is `{"checkpoint": true}` if its pod shall write one; to an
    /// agent's question, the pods of its node.
    pub(super) async fn answer<B>(&self, peer: IpAddr, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let place = Place::at(request.uri().path());
        let taken = self.take(peer, place, request).await;
        let word = taken.as_ref().map_or_else(|refusal| refusal.word(), |_| "taken");
        match place {
            Some(Place::Nodes | Place::Kills) => self.metrics.node_agents.answered(word),
            _ => self.metrics.reports.answered(word),
        }
        let (status, body) = match &taken {
            Ok(body) => (StatusCode::OK, body.clone()),
            // The status says it all, and nothing of the request is repeated.
            Err(refusal) => (refusal.status(), Bytes::new()),
        };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if taken.is_ok() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(wait) = taken.err().and_then(Refusal::retry_after) {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    async fn take<B>(&self, peer: IpAddr, place: Option<Place>, request: Request<B>) -> Result<Bytes, Refusal>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        // What costs least is asked first.
        self.must_lead()?;
        if !self.requests.are_known() {
            return Err(Refusal::NotReady);
        }
        let place = place.ok_or(Refusal::NoSuchPath)?;
        if request.method() != Method::POST {
            return Err(Refusal::NoSuchMethod);
        }
        let token = bearer(&request).ok_or(Refusal::Unauthenticated)?;
        let sender = self.reviews.sender(token, peer).await.map_err(|stranger| match stranger {
            Stranger::Refused => Refusal::Unauthenticated,
            Stranger::TooMany(wait) => Refusal::TooManyTokens(wait),
            Stranger::Unanswered => Refusal::ReviewFailed,
        })?;
        match (place, &*sender) {
            (Place::Reports, Sender::Pod(pod)) => {
                self.pass(&self.pace, &pod.uid)?;
                let said = body(request.into_body(), LONGEST_BODY).await?;
                self.hear(pod, &said)
            }
            (Place::Nodes, Sender::Node(node)) => {
                self.pass(&self.pace_of_agents, node)?;
                let stay = request.extensions().get::<Stay>().cloned();
                let said = body(request.into_body(), LONGEST_BODY_OF_AGENT).await?;
                self.tell(node, &said, stay).await
            }
            (Place::Kills, Sender::Node(node)) => {
                self.pass(&self.pace_of_kills, node)?;
                let said = body(request.into_body(), LONGEST_BODY).await?;
                self.learn(node, &said)
            }
            (Place::Reports, Sender::Node(_)) | (Place::Nodes | Place::Kills, Sender::Pod(_)) => {
                Err(Refusal::Unauthenticated)
            }
        }
    }

    fn pass(&self, pace: &Mutex<Pace<String>>, key: &str) -> Result<(), Refusal> {
        let now = (self.clock)().at;
        let mut pace = pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.pass(key.to_owned(), now).map_err(Refusal::TooOften)
    }

    /// Takes the report of a pod.
    fn hear(&self, pod: &Pod, said: &LiveReport) -> Result<Bytes, Refusal> {
        // Waiting for the review and the body took time in which the Lease can have gone.
        self.must_lead()?;
        let report = report(pod, said, (self.clock)().time);
        // What is full answers so: the supervisor keeps its news and sends them again. If an older report were dropped
        // instead, its pod would believe that it was taken.
        let checkpoint = self.requests.ask_for_more(&pod.uid, report.checkpoint);
        self.reports.try_send(report).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::Busy,
            TrySendError::Closed(_) => Refusal::NotLeader,
        })?;
        Ok(serde_json::to_vec(&Answer { checkpoint }).unwrap_or_default().into())
    }

    /// Tells the agent of a node which pods are there, as soon as that is news.
    async fn tell(&self, node: &str, said: &NodeReport, stay: Option<Stay>) -> Result<Bytes, Refusal> {
        self.must_lead()?;
        let changed = match self.nodes.ask(node, said, (self.clock)().at) {
            Asked::Unknown => return Err(Refusal::NotReady),
            Asked::Answer(body) => return Ok(body),
            Asked::Held(changed) => changed,
        };
        if let Some(stay) = stay {
            stay.hold(HOLD);
        }
        let mut leadership = self.leadership.clone();
        let is_lost =
            async { leadership.wait_for(|now| !matches!(now, Leadership::Leader { .. })).await.map(drop) };
        tokio::select! {
            _ended = changed => {}
            // An election that has ended says so no more.
            _lost = is_lost => return Err(Refusal::NotLeader),
            () = tokio::time::sleep(HOLD) => {}
        }
        self.must_lead()?;
        self.nodes.answer(node).ok_or(Refusal::NotReady)
    }

    /// Takes what the agent of a node says about a kill there that the operator has seen.
    fn learn(&self, node: &str, said: &node_agent::KillReport) -> Result<Bytes, Refusal> {
        self.must_lead()?;
        // First: what is taken is not asked again.
        let place = self.kills.try_reserve().map_err(|error| match error {
            TrySendError::Full(()) => Refusal::Busy,
            TrySendError::Closed(()) => Refusal::NotLeader,
        })?;
        let kill = self.nodes.explain(node, said).ok_or(Refusal::NotAsked)?;
        self.metrics.node_agents.explained(kill.cause);
        place.send(kill);
        Ok(serde_json::to_vec(&KillTaken {}).unwrap_or_default().into())
    }

    fn must_lead(&self) -> Result<(), Refusal> {
        let leads = self.leadership.borrow().holds((self.clock)().at);
        leads.then_some(()).ok_or(Refusal::NotLeader)
    }
}

/// The token of a request.
fn bearer<B>(request: &Request<B>) -> Option<&str> {
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("Bearer") && values.next().is_none()).then(|| token.trim())
}

async fn body<T, B>(body: B, longest: usize) -> Result<T, Refusal>
where
    T: DeserializeOwned,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let collected = tokio::time::timeout(BODY_WITHIN, Limited::new(body, longest).collect()).await;
    let collected = collected.map_err(|_| Refusal::TooSlow)?;
    let bytes = collected.map_err(|error| {
        if error.is::<LengthLimitError>() { Refusal::TooLarge } else { Refusal::Malformed }
    })?;
    let bytes = bytes.to_bytes();
    // An array of the fields' values would be read, too.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Refusal::Malformed);
    }
    serde_json::from_slice(&bytes).map_err(|_| Refusal::Malformed)
}

/// What is believed of a report.
fn report(pod: &Pod, said: &LiveReport, now: Timestamp) -> Report {
    Report {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        pod_uid: pod.uid.clone(),
        checkpoint: said.checkpoint.map(|checkpoint| written(&checkpoint, now)),
        seen: said.checkpoint.map_or(0, |checkpoint| checkpoint.seen),
        progress: said
            .progress
            .filter(|progress| progress.is_finite())
            .map(|progress| progress.clamp(0.0, 1.0)),
        cpu: said.cpu.and_then(supervision::cpu),
        received: now,
    }
}

/// When a checkpoint was written, by the operator's clock. The age does not depend on the node's clock; if it is none, the
/// node's clock is all there is. Nothing was written later than now.
fn written(checkpoint: &Checkpoint, now: Timestamp) -> Timestamp {
    let oldest = now.checked_sub(OLDEST).unwrap_or(Timestamp::MIN);
    let age = SignedDuration::try_from_secs_f64(checkpoint.age_seconds.max(0.0)).ok();
    let time = if checkpoint.age_seconds.is_finite() {
        age.and_then(|age| now.checked_sub(age).ok()).unwrap_or(oldest)
    } else {
        checkpoint.time
    };
    time.clamp(oldest, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        Pod { namespace: "lab".to_owned(), name: "water-1-x".to_owned(), uid: "u".to_owned() }
    }

    fn said(text: &str) -> Report {
        report(&pod(), &serde_json::from_str(text).unwrap(), "2026-01-02T03:00:00Z".parse().unwrap())
    }

    #[test]
    fn what_is_said_is_clamped_to_what_can_be_true() {
        let checkpoint = |time: &str, age: &str| {
            let text = format!("{{\"checkpoint\":{{\"time\":\"{time}\",\"ageSeconds\":{age},\"seen\":7}}}}");
            let report = said(&text);
            assert_eq!((report.seen, report.progress), (7, None));
            report.checkpoint.unwrap().to_string()
        };
        // The age counts, whatever the node's clock says.
        for time in ["2026-01-02T02:59:00Z", "1970-01-01T00:00:00Z", "9999-01-01T00:00:00Z"] {
            assert_eq!(checkpoint(time, "90"), "2026-01-02T02:58:30Z");
        }
        assert_eq!(checkpoint("2030-01-01T00:00:00Z", "-3600"), "2026-01-02T03:00:00Z", "not in the future");
        for age in ["1e300", "9e18", "400000000"] {
            assert_eq!(
                checkpoint("2026-01-02T02:59:00Z", age),
                "2016-01-05T03:00:00Z",
                "no older than ten years"
            );
        }
        for (progress, expected) in [("0.25", 0.25), ("-1", 0.0), ("7e200", 1.0), ("1", 1.0)] {
            assert_eq!(said(&format!("{{\"progress\":{progress}}}")).progress, Some(expected));
        }
        let nothing = said("{}");
        assert_eq!((nothing.checkpoint, nothing.seen, nothing.progress), (None, 0, None));
        let not_a_number = LiveReport { progress: Some(f64::NAN), ..LiveReport::default() };
        assert_eq!(report(&pod(), &not_a_number, nothing.received).progress, None);
        let time = "2026-01-02T02:00:00Z".parse().unwrap();
        let without_age = Checkpoint { time, age_seconds: f64::NAN, seen: 1 };
        assert_eq!(written(&without_age, nothing.received), time);
    }
}
