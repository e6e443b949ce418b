//! How old each watch is: when the API server last sent anything on it.
//!
//! The API server sends a bookmark about once a minute on a watch that has nothing to tell, so a watch on which nothing
//! arrives is wedged, however healthy the process looks. The bytes are seen below the watcher, where bookmarks, retries
//! and lists that never end all look as they are.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, combinators::MapFrame};
use tower::{Layer, Service};

use super::Watched;

/// When each watch was last heard of.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    /// True once there are watches: a replica that stands by has none.
    watches: AtomicBool,
    /// Milliseconds since `began`, by kind.
    heard: [AtomicU64; Watched::ALL.len()],
}

impl Default for Progress {
    fn default() -> Self {
        Self { began: Instant::now(), watches: AtomicBool::new(false), heard: Default::default() }
    }
}

impl Progress {
    /// The watches begin now; until then none has an age.
    pub(crate) fn begin(&self) {
        for watched in Watched::ALL {
            self.hear(watched);
        }
        self.watches.store(true, Ordering::Relaxed);
    }

    /// Time since the API server last sent something on each watch, or since it began.
    pub(crate) fn ages(&self) -> impl Iterator<Item = (Watched, Duration)> {
        let now = self.began.elapsed();
        let watches = self.watches.load(Ordering::Relaxed);
        Watched::ALL.into_iter().zip(&self.heard).filter(move |_| watches).map(move |(watched, heard)| {
            let heard = Duration::from_millis(heard.load(Ordering::Relaxed));
            (watched, now.saturating_sub(heard))
        })
    }

    fn hear(&self, watched: Watched) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some((_, heard)) = Watched::ALL.into_iter().zip(&self.heard).find(|(kind, _)| *kind == watched)
        {
            heard.store(now, Ordering::Relaxed);
        }
    }
}

/// The kind that a request watches, if it does.
fn watched<B>(request: &Request<B>) -> Option<Watched> {
    let uri = request.uri();
    let is_watch = uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    let kind = uri.path().rsplit('/').next()?;
    Watched::ALL.into_iter().find(|watched| is_watch && watched.name() == kind)
}

/// Listens to the answers of every watch request that passes.
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

type Heard<B> = MapFrame<B, Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>>;

impl<S, A, B> Service<Request<A>> for Listening<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes>,
{
    type Response = Response<Heard<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let watched = watched(&request);
        let progress = Arc::clone(&self.progress);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let hear = move |frame: Frame<Bytes>| {
                if let Some(watched) = watched {
                    progress.hear(watched);
                }
                frame
            };
            Ok(answer.await?.map(|body| {
                let hear: Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send> = Box::new(hear);
                body.map_frame(hear)
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(uri: &str) -> Option<Watched> {
        watched(&Request::get(uri).body(()).unwrap())
    }

    #[test]
    fn only_watches_of_the_kinds_that_are_watched_are_listened_to() {
        assert_eq!(kind("/api/v1/pods?&watch=true&timeoutSeconds=290"), Some(Watched::Pods));
        assert_eq!(kind("/apis/batch/v1/jobs?watch=true&labelSelector=a"), Some(Watched::Jobs));
        assert_eq!(
            kind("/apis/scavenger.dev/v1alpha1/scavengerjobs?watch=true"),
            Some(Watched::ScavengerJobs)
        );
        assert_eq!(kind("/api/v1/pods?limit=500"), None);
        assert_eq!(kind("/api/v1/secrets?watch=true"), None);
    }

    #[test]
    fn what_is_heard_of_is_young_again() {
        let began = Instant::now() - Duration::from_secs(100);
        let progress = Progress { began, watches: AtomicBool::new(true), ..Progress::default() };
        progress.hear(Watched::Nodes);
        for (watched, age) in progress.ages() {
            assert_eq!(age < Duration::from_secs(50), watched == Watched::Nodes, "{watched:?}: {age:?}");
        }
    }

    #[test]
    fn watches_have_no_age_before_they_begin() {
        let began = Instant::now() - Duration::from_secs(100);
        let progress = Progress { began, ..Progress::default() };
        assert_eq!(progress.ages().count(), 0, "a replica that stands by has no watch that could be too old");
        progress.begin();
        assert_eq!(progress.ages().count(), Watched::ALL.len());
        assert!(progress.ages().all(|(_, age)| age < Duration::from_secs(50)));
    }
}
