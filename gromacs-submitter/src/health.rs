//! /healthz, /readyz and /metrics.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use scavenger_program::metrics::{self as program, Process};
use scavenger_program::probes::{self, Probes};
use scavenger_program::server;
use scavenger_schema::simulation::RowStatus;
use tokio::net::TcpListener;

/// The loop that claims rows turns at least every 10 s; after this long without a turn it hangs.
const LONGEST_TURN: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabel {
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

/// What became of a report of a row's end to the webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportOutcome {
    /// The endpoint took it.
    Delivered,
    /// It did not; the report is sent again.
    Failed,
    /// It did not, as often as it was tried, or nobody sent it for a week.
    GivenUp,
}

impl ReportOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::GivenUp => "given_up",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// What the process counts, and whether it is well.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    process: Process,
    steps: Family<StepLabel, Counter>,
    entered: Family<StateLabel, Counter>,
    rows: Family<StateLabel, Gauge>,
    interruptions: Counter,
    working: Gauge<i64, AtomicI64>,
    followed: Gauge<i64, AtomicI64>,
    late: Gauge,
    database_errors: Counter,
    webhook_reports: Family<OutcomeLabel, Counter>,
    webhook_waiting: Gauge<i64, AtomicI64>,
    started: Instant,
    last_turn: AtomicU64,
    database_answers: AtomicBool,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("gromacs_submitter");
        let steps = Family::default();
        registry.register("steps", "Steps of rows by kind; error: could not be done", Family::clone(&steps));
        let entered = Family::default();
        registry.register("state_changes", "Rows that entered a state", Family::clone(&entered));
        let rows = Family::default();
        registry.register("rows", "Rows of the queue by state", Family::clone(&rows));
        let interruptions = Counter::default();
        registry.register("interruptions", "Interruptions seen", Counter::clone(&interruptions));
        let working = Gauge::default();
        registry.register("working_rows", "Rows that are being worked on", Gauge::clone(&working));
        let followed = Gauge::default();
        registry.register("followed_rows", "Running rows whose logs are followed", Gauge::clone(&followed));
        let database_errors = Counter::default();
        registry.register(
            "database_errors",
            "Requests that the database did not do",
            Counter::clone(&database_errors),
        );
        let late = Gauge::default();
        registry.register(
            "late_rows",
            "Rows that have not ended and are expected to miss their deadlines",
            Gauge::clone(&late),
        );
        let webhook_reports = Family::default();
        registry.register(
            "webhook_reports",
            "Ends of rows sent to the webhook; failed: is sent again, given_up: is not",
            Family::clone(&webhook_reports),
        );
        let webhook_waiting = Gauge::default();
        registry.register(
            "webhook_waiting_reports",
            "Ends of rows that the webhook has not taken yet",
            Gauge::clone(&webhook_waiting),
        );
        program::register_build(&mut registry, env!("CARGO_PKG_VERSION"));
        Self {
            registry,
            process: Process::default(),
            steps,
            entered,
            rows,
            interruptions,
            working,
            followed,
            late,
            database_errors,
            webhook_reports,
            webhook_waiting,
            started: Instant::now(),
            last_turn: AtomicU64::new(0),
            database_answers: AtomicBool::new(false),
        }
    }
}

impl Metrics {
    /// Counts a step by its kind.
    pub fn count_step(&self, step: &'static str) {
        self.steps.get_or_create(&StepLabel { step }).inc();
    }

    /// Counts a change of state and interruptions.
    pub fn count_state(&self, before: &RowStatus, after: &RowStatus) {
        if before.state != after.state {
            self.entered.get_or_create(&StateLabel { state: after.state.to_string() }).inc();
        }
        let interruptions = after.interruptions.saturating_sub(before.interruptions);
        self.interruptions.inc_by(u64::try_from(interruptions).unwrap_or(0));
    }

    /// Sets the number of rows by state.
    pub fn set_rows(&self, counts: &[(String, i64)]) {
        for state in scavenger_schema::simulation::State::ALL {
            let count = counts.iter().find(|(name, _)| name == state.as_str()).map_or(0, |(_, count)| *count);
            self.rows.get_or_create(&StateLabel { state: state.to_string() }).set(count);
        }
    }

    /// Sets the number of rows in work.
    pub fn set_working(&self, count: usize) {
        self.working.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the number of rows that are followed.
    pub fn set_followed(&self, count: usize) {
        self.followed.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the number of rows that are expected to miss their deadlines.
    pub fn set_late(&self, count: i64) {
        self.late.set(count);
    }

    /// Counts a report to the webhook.
    pub fn count_report(&self, outcome: ReportOutcome) {
        self.webhook_reports.get_or_create(&OutcomeLabel { outcome: outcome.name() }).inc();
    }

    /// Sets the number of reports that the webhook has not taken yet.
    pub fn set_reports(&self, count: i64) {
        self.webhook_waiting.set(count);
    }

    /// The loop turned, and the database did or did not answer.
    pub fn turned(&self, database_answers: bool) {
        self.last_turn.store(self.started.elapsed().as_secs(), Ordering::Relaxed);
        self.database_answers.store(database_answers, Ordering::Relaxed);
        if !database_answers {
            self.database_errors.inc();
        }
    }
}

impl Probes for Metrics {
    fn alive(&self) -> Result<(), String> {
        let last = Duration::from_secs(self.last_turn.load(Ordering::Relaxed));
        if self.started.elapsed().saturating_sub(last) < LONGEST_TURN {
            return Ok(());
        }
        Err(format!("the loop that claims rows has not turned for {} s", LONGEST_TURN.as_secs()))
    }

    fn ready(&self) -> Result<(), String> {
        if self.database_answers.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err("the database does not answer".to_owned())
    }

    fn metrics(&self) -> Result<String, fmt::Error> {
        program::text(&self.registry, &self.process)
    }
}

/// Serves the three paths until `stop` is done.
///
/// # Errors
/// If the address cannot be listened on.
pub async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "serves /healthz, /readyz and /metrics");
    server::serve(listener, probes::router(metrics), stop, server::SHORT_GRACE).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use scavenger_program::metrics_page::assert_explained;
    use scavenger_schema::simulation::State;

    use super::*;

    const RULES: &str = include_str!("../../deploy/monitoring/rules.yaml");
    const DASHBOARD: &str = include_str!("../../deploy/monitoring/dashboard.json");

    /// Each family has a member: one without is not served.
    fn served() -> String {
        let metrics = Metrics::default();
        metrics.count_step("start");
        metrics.count_report(ReportOutcome::Delivered);
        metrics.set_rows(&[]);
        let queued = crate::fixtures::row().status;
        metrics
            .count_state(&queued, &RowStatus { state: State::Running, interruptions: 2, ..queued.clone() });
        metrics.metrics().unwrap()
    }

    #[test]
    fn every_metric_is_explained() {
        assert_explained(&served(), "The submitter");
    }

    #[test]
    fn alerts_and_dashboard_name_what_is_served() {
        let text = served();
        let samples: Vec<&str> = text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
        let words =
            |text: &'static str| text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let named = |text| words(text).filter(|word| word.starts_with("gromacs_submitter_"));
        assert!(named(RULES).count() >= 2, "the alerts name metrics of the submitter");
        for name in named(RULES).chain(named(DASHBOARD)) {
            assert!(samples.contains(&name), "{name} is not served");
        }
    }
}
