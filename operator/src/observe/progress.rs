//! How old each watch is: when the API server last sent on it what the operator can use.
//!
//! The API server sends a bookmark about once a minute on a watch that has nothing to tell, so a watch on which nothing
//! arrives is wedged, however healthy the process looks. Bookmarks and pages of lists are seen below the watcher, which
//! shows neither; events count once they are decoded. A refusal is no sign of life: the watcher asks again and again
//! with the version that it has, and all the while the view of that kind stands still.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, combinators::MapFrame};
use tokio::time::Instant;
use tower::{Layer, Service};

use super::Watched;

/// A view of a kind that is older than this is not planned on: an API server that starts again is back sooner.
const FAILED_FOR: Duration = Duration::from_secs(30);

/// A watch that was accepted and did not fail for this long is taken to work before anything arrives on it. A version
/// that the API server no longer has is refused at once.
const SETTLED: Duration = Duration::from_secs(2);

/// What was heard of one kind.
#[derive(Debug, Clone, Copy)]
struct Heard {
    last: Instant,
    /// True once its first list is complete.
    listed: bool,
    /// Since when there were only errors.
    failing: Option<Instant>,
    /// When the API server accepted a watch after that.
    accepted: Option<Instant>,
}

impl Heard {
    fn failed_for(&self, now: Instant) -> Option<Duration> {
        let settled = self.accepted.is_some_and(|accepted| now - accepted >= SETTLED);
        self.failing.filter(|_| !settled).map(|failing| now - failing)
    }
}

/// When each watch was last heard of, and which fail.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// By kind; none before there are watches: a replica that stands by has none.
    heard: Mutex<Option<[Heard; Watched::ALL.len()]>>,
}

impl Progress {
    /// The watches begin now; until then none has an age.
    pub(crate) fn begin(&self) {
        let heard = Heard { last: Instant::now(), listed: false, failing: None, accepted: None };
        *self.lock() = Some([heard; Watched::ALL.len()]);
    }

    /// Time since the API server last sent something usable on each watch, or since it began.
    pub(crate) fn ages(&self) -> Vec<(Watched, Duration)> {
        let now = Instant::now();
        self.all().into_iter().map(|(watched, heard)| (watched, now - heard.last)).collect()
    }

    /// A watch on which nothing usable was heard for longer than this. The first list is waited for however long it
    /// takes: a restart would only begin it again. Nor is there one for a kind without which planning goes on, if it is
    /// refused: the operator would plan nothing for a while, and be refused again.
    pub(crate) fn overdue(&self, limit: Duration) -> Option<(Watched, Duration)> {
        let now = Instant::now();
        let counts =
            |watched: Watched, heard: Heard| heard.listed && (watched.is_vital() || heard.failing.is_none());
        let all = self.all().into_iter().filter(|(watched, heard)| counts(*watched, *heard));
        all.map(|(watched, heard)| (watched, now - heard.last)).find(|(_, age)| *age > limit)
    }

    /// Kinds of which there were only errors for too long: what the operator knows of them may be wrong by now.
    pub(crate) fn failing(&self) -> Vec<Watched> {
        let now = Instant::now();
        let failing = |heard: &Heard| heard.failed_for(now).is_some_and(|time| time >= FAILED_FOR);
        self.all().into_iter().filter(|(_, heard)| failing(heard)).map(|(watched, _)| watched).collect()
    }

    /// A bookmark arrived, or an event that could be decoded.
    pub(crate) fn hear(&self, watched: Watched) {
        self.note(watched, |heard, now| {
            *heard = Heard { last: now, failing: None, accepted: None, ..*heard };
        });
    }

    /// A list of this kind is complete.
    pub(crate) fn list(&self, watched: Watched) {
        self.hear(watched);
        self.note(watched, |heard, _| heard.listed = true);
    }

    /// The watch, or a list for it, failed.
    pub(crate) fn fail(&self, watched: Watched) {
        self.note(watched, |heard, now| {
            let since = heard.failed_for(now).map_or(now, |time| now - time);
            *heard = Heard { failing: Some(since), accepted: None, ..*heard };
        });
    }

    /// A part of a list arrived. It says nothing of the watch that follows.
    fn hear_page(&self, watched: Watched) {
        self.note(watched, |heard, now| heard.last = now);
    }

    /// The API server accepted a watch.
    fn accept(&self, watched: Watched) {
        self.note(watched, |heard, now| heard.accepted = heard.failing.map(|_| now));
    }

    fn all(&self) -> Vec<(Watched, Heard)> {
        self.lock().iter().flat_map(|heard| Watched::ALL.into_iter().zip(*heard)).collect()
    }

    fn note(&self, watched: Watched, change: impl FnOnce(&mut Heard, Instant)) {
        let mut all = self.lock();
        let found = all.iter_mut().flat_map(|heard| Watched::ALL.into_iter().zip(heard));
        if let Some((_, heard)) = found.into_iter().find(|(kind, _)| *kind == watched) {
            change(heard, Instant::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<[Heard; Watched::ALL.len()]>> {
        // Each change is one assignment, so it is whole even if a thread panicked.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request of a watcher asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    List,
    Watch,
}

/// The kind of which a request lists or watches all objects, if it does.
fn asked<B>(request: &Request<B>) -> Option<(Watched, Asked)> {
    let uri = request.uri();
    let is_watch = uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    let kind = uri.path().rsplit('/').next()?;
    let watched = Watched::ALL.into_iter().find(|watched| watched.name() == kind)?;
    Some((watched, if is_watch { Asked::Watch } else { Asked::List }))
}

/// Finds bookmarks in the body of a watch: each line is one event, and begins with its type.
#[derive(Debug, Default)]
struct Bookmarks {
    /// How much of the line's beginning is a bookmark's; none once it is something else.
    matched: Option<usize>,
    in_line: bool,
}

impl Bookmarks {
    const BEGINNING: &[u8] = br#"{"type":"BOOKMARK""#;

    /// True if a bookmark begins in these bytes, or is completed by them.
    fn are_in(&mut self, bytes: &[u8]) -> bool {
        let mut found = false;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.in_line {
                *self = Self { matched: Some(0), in_line: true };
            }
            if let Some(matched) = self.matched {
                let wanted = &Self::BEGINNING[matched..];
                let length = wanted.len().min(line.len());
                self.matched = (wanted[..length] == line[..length]).then_some(matched + length);
                if self.matched == Some(Self::BEGINNING.len()) {
                    found = true;
                    self.matched = None;
                }
            }
            self.in_line = !line.ends_with(b"\n");
        }
        found
    }
}

/// Listens to the answers to every list and watch that passes.
#[derive(Debug, Clone)]
pub(crate) struct Listen(pub(crate) Arc<Progress>);

impl<S> Layer<S> for Listen {
    type Service = Listening<S>;

    fn layer(&self, inner: S) -> Listening<S> {
        Listening { inner, progress: Arc::clone(&self.0) }
    }
}

/// A client's service with [`Listen`] around it.
#[derive(Debug, Clone)]
pub(crate) struct Listening<S> {
    inner: S,
    progress: Arc<Progress>,
}

type Hear = Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>;

impl<S, A, B> Service<Request<A>> for Listening<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes>,
{
    type Response = Response<MapFrame<B, Hear>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let asked = asked(&request);
        let progress = Arc::clone(&self.progress);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            let asked = asked.filter(|_| answer.status().is_success());
            if let Some((watched, Asked::Watch)) = asked {
                progress.accept(watched);
            }
            let mut bookmarks = Bookmarks::default();
            let hear: Hear = Box::new(move |frame| {
                match (asked, frame.data_ref()) {
                    (Some((watched, Asked::List)), Some(_)) => progress.hear_page(watched),
                    (Some((watched, Asked::Watch)), Some(bytes)) if bookmarks.are_in(bytes) => {
                        progress.hear(watched);
                    }
                    _ => {}
                }
                frame
            });
            Ok(answer.map(|body| body.map_frame(hear)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(uri: &str) -> Option<(Watched, Asked)> {
        asked(&Request::get(uri).body(()).unwrap())
    }

    #[test]
    fn only_kinds_that_are_watched_are_listened_to() {
        assert_eq!(kind("/api/v1/pods?&watch=true&timeoutSeconds=290"), Some((Watched::Pods, Asked::Watch)));
        assert_eq!(
            kind("/apis/batch/v1/jobs?watch=true&labelSelector=a"),
            Some((Watched::Jobs, Asked::Watch))
        );
        assert_eq!(
            kind("/apis/scavenger.dev/v1alpha1/scavengerjobs?watch=true"),
            Some((Watched::ScavengerJobs, Asked::Watch))
        );
        assert_eq!(kind("/api/v1/pods?limit=500"), Some((Watched::Pods, Asked::List)));
        assert_eq!(kind("/api/v1/secrets?watch=true"), None);
    }

    #[test]
    fn a_bookmark_is_found_however_it_is_cut() {
        let lines = concat!(
            "{\"type\":\"ADDED\",\"object\":{\"a\":\"{\\\"type\\\":\\\"BOOKMARK\\\"\"}}\n",
            "{\"type\":\"BOOKMARK\",\"object\":{}}\n",
            "{\"type\":\"ERROR\",\"object\":{}}\n",
        )
        .as_bytes();
        for size in 1..=lines.len() {
            let mut bookmarks = Bookmarks::default();
            let found = lines.chunks(size).filter(|chunk| bookmarks.are_in(chunk)).count();
            assert_eq!(found, 1, "in pieces of {size} bytes");
        }
        assert!(!Bookmarks::default().are_in(b"{\"kind\":\"Status\",\"code\":403}\n"));
    }

    async fn pass(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn watches_have_no_age_before_they_begin() {
        let progress = Progress::default();
        pass(100).await;
        assert_eq!(progress.ages(), [], "a replica that stands by has no watch that could be too old");
        progress.begin();
        pass(1).await;
        progress.hear(Watched::Nodes);
        pass(1).await;
        for (watched, age) in progress.ages() {
            let seconds = if watched == Watched::Nodes { 1 } else { 2 };
            assert_eq!(age, Duration::from_secs(seconds), "{watched:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_kind_without_which_nothing_is_planned_is_begun_again_when_it_is_refused() {
        for (watched, overdue) in
            [(Watched::Pods, true), (Watched::Volumes, false), (Watched::RuntimeClasses, false)]
        {
            let progress = Progress::default();
            progress.begin();
            progress.list(watched);
            tokio::time::advance(Duration::from_secs(60)).await;
            progress.fail(watched);
            tokio::time::advance(Duration::from_secs(600)).await;
            assert_eq!(progress.overdue(Duration::from_secs(180)).is_some(), overdue, "{watched:?}");
            // On which nothing is heard at all.
            progress.hear(watched);
            tokio::time::advance(Duration::from_secs(600)).await;
            assert!(progress.overdue(Duration::from_secs(180)).is_some(), "{watched:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_list_may_take_as_long_as_it_takes() {
        let progress = Progress::default();
        progress.begin();
        pass(3600).await;
        let limit = Duration::from_secs(180);
        assert_eq!(progress.overdue(limit), None);
        progress.list(Watched::Pods);
        pass(170).await;
        progress.hear_page(Watched::Pods);
        pass(170).await;
        assert_eq!(progress.overdue(limit), None, "a page of a list is a sign of life");
        pass(11).await;
        assert_eq!(progress.overdue(limit), Some((Watched::Pods, Duration::from_secs(181))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_accepted_and_fails_again_at_once_still_fails() {
        let progress = Progress::default();
        progress.begin();
        for _ in 0..4 {
            progress.accept(Watched::Pods);
            progress.fail(Watched::Pods);
            pass(10).await;
        }
        assert_eq!(progress.failing(), [Watched::Pods]);
        progress.accept(Watched::Pods);
        assert_eq!(progress.failing(), [Watched::Pods]);
        pass(2).await;
        assert_eq!(progress.failing(), [], "it goes on from where it was");
        progress.fail(Watched::Pods);
        pass(29).await;
        assert_eq!(progress.failing(), [], "the time counts again");
        pass(1).await;
        assert_eq!(progress.failing(), [Watched::Pods]);
        progress.hear(Watched::Pods);
        assert_eq!(progress.failing(), []);
    }
}
