//! The endpoint without a cluster: tokens that a closure reviews, an API server in memory, TLS over loopback.

mod agents;
mod api;
mod certificates;
mod flood;
mod kills;
mod requests;
mod wire;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::SignedDuration;

use super::{
    desk::Desk,
    reviews::Reviews,
    token::{AUDIENCE, Kind, Pod, Reviewer, Sender, tests::token},
    *,
};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// A report with a checkpoint of 30 seconds ago.
const BODY: &str =
    r#"{"checkpoint":{"time":"2026-01-02T03:04:05Z","ageSeconds":30.0,"seen":2},"progress":0.5}"#;

/// Time that tokio's clock drives, and that a test may shift for everybody else's.
#[derive(Clone)]
struct Time {
    began: Instant,
    shift: Arc<AtomicI64>,
}

impl Time {
    fn new() -> Self {
        Self { began: Instant::now(), shift: Arc::default() }
    }

    fn start() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.began.elapsed()).unwrap();
        Self::start() + passed + SignedDuration::from_secs(self.shift.load(Ordering::SeqCst))
    }

    fn shift(&self, by: SignedDuration) {
        self.shift.fetch_add(by.as_secs(), Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let time = self.clone();
        Arc::new(move || Moment { at: Instant::now(), time: time.now() })
    }

    /// The token of a pod, good for an hour.
    fn token(&self, pod: &str) -> String {
        token(AUDIENCE, self.now() + SignedDuration::from_hours(1), &format!("signed-{pod}"))
    }
}

fn leader() -> Leadership {
    Leadership::Leader { until: Instant::now() + Duration::from_secs(1_000_000) }
}

/// Believes tokens with the signature `signed-POD`, or `signed-NODE` in those for agents, and counts.
#[derive(Clone, Default)]
struct Reviewed {
    asked: Arc<Mutex<Vec<Instant>>>,
    fails: Arc<Mutex<bool>>,
}

impl Reviewed {
    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn reviewer(&self) -> Reviewer {
        let reviewed = self.clone();
        Arc::new(move |token, kind| {
            let reviewed = reviewed.clone();
            async move {
                reviewed.asked.lock().unwrap().push(Instant::now());
                // As long as an API server takes.
                tokio::time::sleep(Duration::from_millis(5)).await;
                if *reviewed.fails.lock().unwrap() {
                    return Err("no API server".to_owned());
                }
                Ok(token.rsplit_once(".signed-").map(|(_, name)| match kind {
                    Kind::Supervisor => Sender::Pod(named(name)),
                    Kind::NodeAgent => Sender::Node(name.to_owned()),
                }))
            }
            .boxed()
        })
    }
}

fn named(pod: &str) -> Pod {
    Pod { namespace: "lab".to_owned(), name: pod.to_owned(), uid: format!("uid-{pod}") }
}

/// A desk, and everything around it.
struct Played {
    time: Time,
    leadership: watch::Sender<Leadership>,
    reviewed: Reviewed,
    metrics: Arc<Metrics>,
    link: Link,
    desk: Arc<Desk>,
}

impl Played {
    fn new() -> Self {
        Self::with(|reviewed| reviewed.reviewer())
    }

    fn with(reviewer: impl FnOnce(&Reviewed) -> Reviewer) -> Self {
        let (time, reviewed, metrics) = (Time::new(), Reviewed::default(), Arc::new(Metrics::new()));
        let leadership = watch::Sender::new(leader());
        let (link, ends) = link();
        link.requests.ask(std::iter::empty());
        let reviews = Reviews::new(reviewer(&reviewed), time.clock(), Arc::clone(&metrics));
        let desk = Desk::new(leadership.subscribe(), reviews, &ends, time.clock(), Arc::clone(&metrics));
        Self { time, leadership, reviewed, metrics, link, desk: Arc::new(desk) }
    }

    async fn post(&self, token: &str, body: &str) -> Response<Full<Bytes>> {
        self.desk.answer(PEER, request(token, body)).await
    }

    async fn status(&self, token: &str, body: &str) -> u16 {
        self.post(token, body).await.status().as_u16()
    }

    /// How often each status is the answer to so many reports.
    async fn statuses(&self, token: &str, count: usize) -> BTreeMap<u16, usize> {
        let mut statuses = BTreeMap::new();
        for _ in 0..count {
            *statuses.entry(self.status(token, BODY).await).or_default() += 1;
        }
        statuses
    }
}

fn request(token: &str, body: &str) -> Request<Full<Bytes>> {
    Request::post(super::desk::PATH)
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .unwrap()
}

async fn text(response: Response<Full<Bytes>>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Lets time pass until this holds; fails if it never does.
async fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
