//! `serve`: the HTTP service.

use std::time::Duration;

use anyhow::Context as _;
use scavenger_program::signal::EndSignal;
use scavenger_tuner_model::Model;
use tokio::net::TcpListener;

use super::Failure;
use crate::config::ServeOptions;
use crate::http::{self, Service};
use crate::observations::{Source, follow};

/// Longest body. A request has at most 1,000 shapes of nodes.
const BODY_LIMIT: usize = 1 << 20;
/// Longest time without a look for new measured runs. The database tells of them as they come; this is for when it cannot.
const LEARN_EVERY: Duration = Duration::from_secs(60);
/// Wait for open requests after SIGTERM.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Serves until SIGTERM or SIGINT.
pub fn exec(options: &ServeOptions) -> Result<(), Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
        .map_err(Failure::environment)?
        .block_on(serve(options))
}

async fn serve(options: &ServeOptions) -> Result<(), Failure> {
    let listener = TcpListener::bind(options.listen)
        .await
        .with_context(|| format!("cannot listen on {}", options.listen))
        .map_err(Failure::environment)?;
    let mut signal = EndSignal::new().map_err(Failure::environment)?;
    let service = Service::new(Model::prior(), options.request_timeout, BODY_LIMIT);
    let source =
        options.database_url.as_deref().map(Source::new).transpose().map_err(Failure::environment)?;
    let learning = source.map(|source| {
        service.set_ready(false);
        tokio::spawn(follow(service.clone(), source, LEARN_EVERY))
    });
    let listening = listener.local_addr().context("cannot tell the address").map_err(Failure::environment)?;
    tracing::info!(listen = %listening, model = service.model().version(), "serving");
    let stop = async {
        let name = signal.next().await;
        tracing::info!(signal = name, "stopping: open requests are finished, new ones refused");
        // First: it would say ready again.
        if let Some(learning) = learning {
            learning.abort();
        }
        service.set_ready(false);
    };
    http::serve(listener, &service, stop, SHUTDOWN_GRACE).await;
    Ok(())
}
