//! Connections of an HTTP server.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

/// Longest wait for the head of a request, the first and each further one of a connection. A connection that says
/// nothing, or says it byte by byte, would otherwise stay forever.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// What is waited for a probe or a scrape that is under way when the process ends.
pub const SHORT_GRACE: Duration = Duration::from_secs(2);

/// Serves until `stop`, then finishes the requests that are open, but waits no longer than `grace` for them.
pub async fn serve(
    mut listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    grace: Duration,
) {
    let mut stop = pin!(stop);
    let app = TowerToHyperService::new(router);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let connections = GracefulShutdown::new();
    loop {
        let (stream, peer) = tokio::select! {
            // It waits by itself where there are no file descriptors left.
            accepted = Listener::accept(&mut listener) => accepted,
            () = &mut stop => break,
        };
        // A reply is one write, which must not wait for the client's word on an earlier one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot send at once");
        }
        let connection = connections.watch(builder.serve_connection(TokioIo::new(stream), app.clone()));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%peer, %error, "connection failed");
            }
        });
    }
    // New connections are refused from here on.
    drop(listener);
    if tokio::time::timeout(grace, connections.shutdown()).await.is_err() {
        tracing::warn!(?grace, "connections were still open and are cut");
    }
}
