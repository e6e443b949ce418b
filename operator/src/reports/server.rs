//! Connections: TLS, deadlines, limits. A connection carries one request and has ten seconds for it, unless the desk holds
//! it.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::Instant,
};
use tokio_rustls::TlsAcceptor;
use tracing::warn;

use super::desk::Desk;
use crate::metrics::Metrics;

/// From the first byte of a connection to the last.
const CONNECTION_WITHIN: Duration = Duration::from_secs(10);

/// Of these the handshake and the head of the request may take so long each.
const STEP_WITHIN: Duration = Duration::from_secs(3);

/// Connections at the same time, but for those that are held. A report takes some milliseconds: 200 reports in a second need a handful.
const MOST: usize = 256;

/// Those of one address. Behind a node that hides its pods' addresses there can be a hundred supervisors.
const MOST_OF_PEER: usize = 32;

/// A head of a request has 1,500 bytes, with the token.
const LONGEST_HEAD: usize = 16 * 1024;

/// How long nothing is accepted when the system has no connection to give.
const BREATH: Duration = Duration::from_millis(200);

/// Serves until the task is dropped, and what it has begun with it. Without a certificate, connections are closed.
pub(super) async fn serve(
    listener: TcpListener,
    certificate: watch::Receiver<Option<Arc<ServerConfig>>>,
    desk: Arc<Desk>,
    metrics: Arc<Metrics>,
) {
    let places = Arc::new(Places::default());
    let mut connections = tokio::task::JoinSet::new();
    let mut said = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_ended) = connections.join_next() => continue,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    warn!(%error, "connections of supervisors cannot be accepted");
                }
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let Some(config) = certificate.borrow().clone() else {
            metrics.reports.connection_refused("no_certificate");
            continue;
        };
        let place = match places.take(peer.ip()) {
            Ok(place) => place,
            Err(reason) => {
                metrics.reports.connection_refused(reason);
                continue;
            }
        };
        let (desk, metrics) = (Arc::clone(&desk), Arc::clone(&metrics));
        connections.spawn(async move {
            let stay = Stay::new(place);
            let served = tokio::select! {
                served = connection(stream, peer, config, (&desk, &stay)) => served,
                () = stay.is_over() => Err("too_slow"),
            };
            if let Err(reason) = served {
                metrics.reports.connection_refused(reason);
            }
        });
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    config: Arc<ServerConfig>,
    (desk, stay): (&Desk, &Stay),
) -> Result<(), &'static str> {
    let handshake = tokio::time::timeout(STEP_WITHIN, TlsAcceptor::from(config).accept(stream)).await;
    let stream = handshake.map_err(|_| "too_slow")?.map_err(|_| "handshake")?;
    let service = service_fn(|mut request: Request<Incoming>| async move {
        request.extensions_mut().insert(stay.clone());
        Ok::<_, Infallible>(desk.answer(peer.ip(), request).await)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(STEP_WITHIN)
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(32)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    served.map_err(|error| if error.is_timeout() { "too_slow" } else { "broken" })
}

/// A connection's place among the others, and its time.
#[derive(Debug, Clone)]
pub(super) struct Stay {
    place: Arc<Mutex<Option<Place>>>,
    until: Arc<watch::Sender<Instant>>,
}

impl Stay {
    fn new(place: Place) -> Self {
        let until = watch::Sender::new(Instant::now() + CONNECTION_WITHIN);
        Self { place: Arc::new(Mutex::new(Some(place))), until: Arc::new(until) }
    }

    /// The request waits for as long as this. Its place is free for others meanwhile: the desk holds one request of
    /// each sender at most.
    pub(super) fn hold(&self, wait: Duration) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.until.send_replace(Instant::now() + wait + CONNECTION_WITHIN);
    }

    async fn is_over(&self) {
        let mut changed = self.until.subscribe();
        loop {
            let until = *changed.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                _moved = changed.changed() => {}
            }
        }
    }
}

/// Connections that are open, by address.
#[derive(Debug, Default)]
struct Places {
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// A place that is free again when this is dropped.
#[derive(Debug)]
struct Place {
    places: Arc<Places>,
    peer: IpAddr,
}

impl Places {
    fn take(self: &Arc<Self>, peer: IpAddr) -> Result<Place, &'static str> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.values().sum::<usize>() >= MOST {
            return Err("full");
        }
        let of_peer = open.entry(peer).or_default();
        if *of_peer >= MOST_OF_PEER {
            return Err("full_for_address");
        }
        *of_peer += 1;
        Ok(Place { places: Arc::clone(self), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.places.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_peer) = open.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                open.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_takes_every_place() {
        let places = Arc::new(Places::default());
        let peer = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut taken: Vec<_> = (0..MOST_OF_PEER).map(|_| places.take(peer(0)).unwrap()).collect();
        assert_eq!(places.take(peer(0)).err(), Some("full_for_address"));
        for last in 1..=u8::MAX {
            taken.extend((0..MOST_OF_PEER).map_while(|_| places.take(peer(last)).ok()));
        }
        assert_eq!(taken.len(), MOST);
        assert_eq!(places.take(peer(200)).err(), Some("full"));
        taken.clear();
        assert!(places.take(peer(0)).is_ok());
        assert!(places.open.lock().unwrap().len() <= 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_held_has_more_time_and_no_place() {
        let places = Arc::new(Places::default());
        let peer = IpAddr::from([10, 0, 0, 1]);
        let (hold, began) = (Duration::from_secs(50), Instant::now());
        let short = Stay::new(places.take(peer).unwrap());
        short.is_over().await;
        assert_eq!(began.elapsed(), CONNECTION_WITHIN);
        let long = Stay::new(places.take(peer).unwrap());
        let over = tokio::spawn({
            let long = long.clone();
            async move { long.is_over().await }
        });
        tokio::time::sleep(CONNECTION_WITHIN / 2).await;
        assert_eq!(places.open.lock().unwrap()[&peer], 2);
        let began = Instant::now();
        long.hold(hold);
        assert_eq!(places.open.lock().unwrap()[&peer], 1, "its place is free");
        over.await.unwrap();
        assert_eq!(began.elapsed(), hold + CONNECTION_WITHIN);
    }
}
