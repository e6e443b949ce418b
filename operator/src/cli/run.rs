//! `scavenger-operator run`: the operator itself.

use std::{net::SocketAddr, str::FromStr, sync::Arc, time::Duration};

use anyhow::Context;
use jiff::SignedDuration;
use kube::{Client, Config, client::ClientBuilder};
use scavenger_program::{
    exit::Unusable,
    logging::{Logging, Program},
    probes, server,
    signal::EndSignal,
};
use scavenger_schema::names;
use tokio::{net::TcpListener, sync::watch};
use tracing::info;

use crate::{
    controller::{Controller, Health},
    health::Asked,
    leader::{Candidate, Election},
    manifest,
    metrics::Metrics,
    observe::progress::{Listen, Progress},
    reports::{self, Endpoint},
};

/// Run the operator
///
/// Watches ScavengerJobs, Jobs, pods, nodes and the ScavengerPool `default`, and runs ScavengerJobs as batch/v1 Jobs
/// on the capacity that the pool's threshold leaves. Settings of the pool are in the ScavengerPool and may change while
/// the operator runs; these flags are settings of the process.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Address of /healthz, /readyz and /metrics
    #[arg(long, env = "SCAVENGER_OPERATOR_LISTEN", default_value = "0.0.0.0:8080", value_name = "ADDRESS")]
    #[arg(help_heading = "Connection")]
    listen: SocketAddr,

    /// Address at which the supervisors in pods report over HTTPS; `off`: nowhere
    ///
    /// The replica that leads takes reports, the others answer with status 421. The certificate is the operator's own: its
    /// authority is in the Secret `scavenger-supervisor-ca` beside the Lease.
    #[arg(
        long,
        env = "SCAVENGER_OPERATOR_REPORTS_LISTEN",
        default_value = "0.0.0.0:8443",
        value_name = "ADDRESS"
    )]
    #[arg(value_parser = reports_listen, help_heading = "Connection")]
    reports_listen: ReportsListen,

    /// Namespace of the agents of nodes, if there are any
    ///
    /// Pods of this namespace that run as the ServiceAccount `scavenger-node-agent` learn which pods of ScavengerJobs their
    /// nodes have. They ask at the address of `--reports-listen`.
    #[arg(
        long,
        env = "SCAVENGER_OPERATOR_NODE_AGENT_NAMESPACE",
        default_value = names::NODE_AGENT,
        value_name = "NAMESPACE"
    )]
    #[arg(value_parser = super::namespace, help_heading = "Connection")]
    node_agent_namespace: String,

    /// Calls to the API server that run at the same time
    #[arg(long, env = "SCAVENGER_OPERATOR_CONCURRENCY", default_value_t = 32, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Connection")]
    concurrency: u16,

    /// How long nothing may be heard on a watch before /healthz fails, and the kubelet starts the operator again (90s to 24h)
    ///
    /// The API server sends a bookmark about once a minute on a watch that has nothing to tell. Errors do not count, and
    /// the first list of a kind may take as long as it takes.
    #[arg(long, env = "SCAVENGER_OPERATOR_MAX_WATCH_AGE", default_value = DEFAULT_WATCH_AGE, value_name = "DURATION")]
    #[arg(value_parser = max_watch_age, help_heading = "Safety")]
    max_watch_age: SignedDuration,

    #[command(flatten)]
    lease: super::LeaseOptions,

    /// How long the Lease lasts without being renewed (10s to 60s, whole seconds)
    ///
    /// A leader that cannot renew it ends 5 s before that, and another one takes over after it. Longer is for an API server
    /// that is slow now and then.
    #[arg(long, env = "SCAVENGER_OPERATOR_LEASE_DURATION", default_value = "15s", value_name = "DURATION")]
    #[arg(value_parser = lease_duration, help_heading = "Leader election")]
    lease_duration: Duration,

    #[command(flatten)]
    logging: Logging<Operator>,
}

/// This program's flags for logs.
#[derive(Debug, Clone)]
pub(super) struct Operator;

impl Program for Operator {
    const LOG: &'static str = "SCAVENGER_OPERATOR_LOG";
    const LOG_FORMAT: &'static str = "SCAVENGER_OPERATOR_LOG_FORMAT";
    const LOG_HELP: &'static str = "Log what FILTER lets through\n\nA level (error, warn, info, debug, trace) or \
        directives as of the tracing crate, such as `info,scavenger_operator=debug`. Logs go to stderr.";
}

/// Where supervisors report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportsListen {
    Off,
    At(SocketAddr),
}

fn reports_listen(text: &str) -> Result<ReportsListen, String> {
    if text == "off" {
        return Ok(ReportsListen::Off);
    }
    SocketAddr::from_str(text)
        .map(ReportsListen::At)
        .map_err(|_| "write an address with its port, for example 0.0.0.0:8443, or off".to_owned())
}

/// `--max-watch-age` unless another is given.
const DEFAULT_WATCH_AGE: &str = "3m";

#[cfg(test)]
pub(crate) fn default_max_watch_age() -> SignedDuration {
    max_watch_age(DEFAULT_WATCH_AGE).expect("the default should be within its own limits")
}

/// A bookmark a minute: less than this would be reached by a healthy watch.
const LEAST_WATCH_AGE: SignedDuration = SignedDuration::from_secs(90);

/// Longer than this nobody wants to be blind.
const MOST_WATCH_AGE: SignedDuration = SignedDuration::from_hours(24);

fn max_watch_age(text: &str) -> Result<SignedDuration, String> {
    super::duration_within(text, LEAST_WATCH_AGE, MOST_WATCH_AGE, "between 90s and 24h, for example 3m")
}

/// A Lease counts in whole seconds. The guard takes over after 2 minutes, so that a leader must have given up by then.
fn lease_duration(text: &str) -> Result<Duration, String> {
    let hint = "between 10s and 60s, in whole seconds, for example 30s";
    let duration =
        super::duration_within(text, SignedDuration::from_secs(10), SignedDuration::from_secs(60), hint)?;
    if duration.subsec_nanos() != 0 {
        return Err(format!("write a duration with its unit {hint}"));
    }
    Ok(duration.unsigned_abs())
}

pub(super) async fn exec(options: Options) -> anyhow::Result<()> {
    // First of all: a leader whose signal is lost would keep the Lease until it is killed.
    let mut signal = EndSignal::new()?;
    options.logging.start()?;
    let health = Arc::new(Health::default());
    let config = super::config().await?;
    let client = super::connected(Client::try_from(config.clone()))?;
    let once = super::without_retries(config.clone())?;
    let watching = super::connected(listened_to(config, &health.progress))?;
    let listener = TcpListener::bind(options.listen)
        .await
        .with_context(|| Unusable(format!("could not listen on {} (--listen)", options.listen)))?;
    let reports_listener = match options.reports_listen {
        ReportsListen::Off => None,
        ReportsListen::At(address) => {
            let listener = TcpListener::bind(address).await;
            Some(
                listener
                    .with_context(|| Unusable(format!("could not listen on {address} (--reports-listen)")))?,
            )
        }
    };
    // The port that was got, if any was asked for.
    let listen = listener.local_addr().unwrap_or(options.listen);
    let metrics = Arc::new(Metrics::new());
    let asked = Asked {
        health: Arc::clone(&health),
        metrics: Arc::clone(&metrics),
        max_watch_age: options.max_watch_age.unsigned_abs(),
    };
    let (stopped, mut stop) = watch::channel(false);
    tokio::spawn(async move {
        signal.next().await;
        // Nobody listens any more if the loop ended first.
        let _ended = stopped.send(true);
    });
    let mut stop_server = stop.clone();
    let stop_server = async move {
        let _closed = stop_server.wait_for(|stopped| *stopped).await;
    };
    let server = server::serve(listener, probes::router(Arc::new(asked)), stop_server, server::SHORT_GRACE);
    info!(listen = %listen, "scavenger-operator {} starts", env!("CARGO_PKG_VERSION"));
    let candidate = Candidate {
        namespace: options.lease.namespace(&client),
        lease: options.lease.lease_name,
        identity: identity(),
        duration: options.lease_duration,
    };
    let namespace = candidate.namespace.clone();
    let election = Election::start(&client, candidate);
    let report_url = reports_listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let report_url = report_url.map(|listen| reports::url(&namespace, listen.port()));
    let (reports, ends) = reports::link();
    // Its tasks end with this function.
    let _endpoint = reports_listener.map(|listener| {
        let endpoint = Endpoint {
            listener,
            client: client.clone(),
            namespace: namespace.clone(),
            agents: options.node_agent_namespace,
            leadership: election.state.clone(),
            metrics: Arc::clone(&metrics),
        };
        endpoint.start(ends)
    });
    let concurrency = options.concurrency.into();
    let manifests = manifest::Settings { report_url };
    let controller =
        Controller { client, once, watching, metrics, health, concurrency, reports, namespace, manifests };
    let server = tokio::spawn(server);
    let stopped = async move {
        let _closed = stop.wait_for(|stopped| *stopped).await;
    };
    Box::pin(controller.run(election.state.clone(), stopped)).await?;
    // After the last write, not before.
    election.resign().await;
    // A client that keeps its connection open must not hold up the end.
    server.abort();
    Ok(())
}

/// A client whose watches are listened to, and which sends each request once.
fn listened_to(mut config: Config, progress: &Arc<Progress>) -> kube::Result<Client> {
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?.with_layer(&Listen(Arc::clone(progress))).build())
}

/// Names this process in the Lease: a restarted one must not take itself for the one before.
#[expect(clippy::disallowed_methods, reason = "the edge: when the process started is part of its name")]
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| names::OPERATOR.to_owned());
    format!("{host}_{}_{:x}", std::process::id(), jiff::Timestamp::now().as_nanosecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_whole_seconds() {
        assert_eq!(lease_duration("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(lease_duration("1m"), Ok(Duration::from_secs(60)));
        for text in ["9s", "61s", "15500ms", "15", ""] {
            assert!(lease_duration(text).is_err_and(|hint| hint.contains("whole seconds")), "{text:?}");
        }
    }
}
