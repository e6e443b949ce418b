//! Reports the ends of rows to a webhook: an HTTP endpoint of the site, or of a chat such as Slack or Mattermost.
//!
//! What is to be reported stands in the database from the transaction on that ends the row. So a report is sent at least
//! once, whichever submitter sends it, and twice if a submitter dies before it has written down that the endpoint took it.

use std::fmt;
use std::time::Duration;

use futures::future::join_all;
use reqwest::header::RETRY_AFTER;
use reqwest::redirect;
use serde_json::Value;
use tokio::sync::Notify;

use crate::advance::hours;
use crate::health::{Metrics, ReportOutcome};
use crate::store::{EndReport, Store, StoreError};
use crate::text::{number_of, root_cause};

/// Longest time for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long no other submitter sends what one is about to send: longer than it waits for all answers.
const HELD: Duration = Duration::from_secs(30);

/// Reports that are on their way at the same time.
const BATCH: i64 = 16;

/// The delay before the second try; it doubles with each.
const FIRST_DELAY: Duration = Duration::from_secs(2);

/// The longest such delay.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// So many tries take about 20 hours.
const MOST_TRIES: i32 = 30;

/// What is older is news to nobody: no submitter had a webhook meanwhile.
const OLDEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often it is looked for reports that are due although nothing woke the webhook.
const IDLE: Duration = Duration::from_secs(5);

/// The longest pause while the endpoint takes nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Longest reason in the sentence for a chat, in characters. The document has all of it.
const LONGEST_REASON: usize = 300;

/// Address of a webhook. All who know it can write there, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(String);

impl From<String> for WebhookUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl WebhookUrl {
    /// True if nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookUrl")
    }
}

/// Why there is no webhook, or a report was not taken. No sentence names the address.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address is none.
    #[error("--webhook-url is not the address of a webhook; write https://HOST/PATH")]
    ReadUrl,
    /// The client cannot be built.
    #[error("the client for the webhook cannot be built: {}", root_cause(.0))]
    BuildClient(#[source] reqwest::Error),
    /// No answer came.
    #[error("the webhook does not answer: {}", root_cause(.0))]
    ReachEndpoint(#[source] reqwest::Error),
    /// It does not take it.
    #[error("the webhook answers with HTTP status {status}")]
    TakeReport {
        /// HTTP status.
        status: u16,
        /// How long it does not want to be asked again.
        retry_after: Option<Duration>,
    },
}

/// What became of the reports that were due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Taken by the endpoint.
    pub delivered: usize,
    /// Not taken; they are sent again later, or given up.
    pub failed: usize,
}

/// The endpoint.
#[allow(missing_debug_implementations, reason = "its address is a secret")]
pub struct Webhook {
    url: reqwest::Url,
    client: reqwest::Client,
    wake: Notify,
}

impl Webhook {
    /// The endpoint at this address. The process must have a TLS provider installed.
    ///
    /// # Errors
    /// If the address is none, or the TLS set-up fails.
    pub fn new(url: &WebhookUrl) -> Result<Self, WebhookError> {
        let url = reqwest::Url::parse(url.0.trim()).map_err(|_| WebhookError::ReadUrl)?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(WebhookError::ReadUrl);
        }
        // A redirection would carry what is reported to another host.
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .connect_timeout(TIMEOUT / 2)
            .redirect(redirect::Policy::none())
            .build()
            .map_err(|error| WebhookError::BuildClient(error.without_url()))?;
        Ok(Self { url, client, wake: Notify::new() })
    }

    /// A row has ended.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Sends what is due, forever.
    pub async fn run(&self, store: &Store, metrics: &Metrics) {
        let mut pause = FIRST_DELAY;
        loop {
            match self.send_batch(store, metrics).await {
                Ok(sent) if sent.delivered > 0 => {
                    pause = FIRST_DELAY;
                    continue;
                }
                // An endpoint that takes nothing is left alone for a while, whatever else ends.
                Ok(sent) if sent.failed > 0 => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "ends of rows could not be reported; tries again"),
            }
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep(IDLE) => {}
            }
        }
    }

    /// Sends what is due, until nothing is, or the endpoint takes nothing.
    pub async fn send_due(&self, store: &Store, metrics: &Metrics) -> Result<Sent, StoreError> {
        let mut all = Sent::default();
        loop {
            let sent = self.send_batch(store, metrics).await?;
            all.delivered += sent.delivered;
            all.failed += sent.failed;
            if sent.delivered == 0 {
                return Ok(all);
            }
        }
    }

    async fn send_batch(&self, store: &Store, metrics: &Metrics) -> Result<Sent, StoreError> {
        for row in store.remove_old_end_reports(OLDEST).await? {
            tracing::warn!(row, "the end of the row is reported no more: it is a week ago");
            metrics.count_report(ReportOutcome::GivenUp);
        }
        let reports = store.take_end_reports(BATCH, HELD).await?;
        let answers = join_all(reports.iter().map(|report| self.send(report))).await;
        let mut sent = Sent::default();
        for (report, answer) in reports.iter().zip(answers) {
            let row = report.row_id;
            match answer {
                Ok(()) => {
                    sent.delivered += 1;
                    store.remove_end_report(report.id).await?;
                    metrics.count_report(ReportOutcome::Delivered);
                    tracing::info!(row, "the end of the row is reported");
                }
                Err(error) if report.tries >= MOST_TRIES => {
                    sent.failed += 1;
                    store.remove_end_report(report.id).await?;
                    metrics.count_report(ReportOutcome::GivenUp);
                    tracing::error!(row, tries = report.tries, %error, "the end of the row is reported no more");
                }
                Err(error) => {
                    sent.failed += 1;
                    store.delay_end_report(report.id, delay(report.tries, &error)).await?;
                    metrics.count_report(ReportOutcome::Failed);
                    tracing::warn!(row, tries = report.tries, %error, "the end of the row could not be reported; tries again");
                }
            }
        }
        metrics.set_reports(store.count_end_reports().await?);
        Ok(sent)
    }

    async fn send(&self, report: &EndReport) -> Result<(), WebhookError> {
        let mut document = report.document.0.clone();
        if let Some(fields) = document.as_object_mut() {
            let text = text(&report.document.0);
            fields.insert("text".to_owned(), text.into());
        }
        let request = self.client.post(self.url.clone()).json(&document);
        let response =
            request.send().await.map_err(|error| WebhookError::ReachEndpoint(error.without_url()))?;
        if response.status().is_success() {
            return Ok(());
        }
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        Err(WebhookError::TakeReport { status: response.status().as_u16(), retry_after })
    }
}

/// 2 s, 4 s, 8 s ... up to an hour, and not before the endpoint wants it.
fn delay(tries: i32, error: &WebhookError) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(0).min(11);
    let own = FIRST_DELAY * (1 << doublings);
    let wanted = match error {
        WebhookError::TakeReport { retry_after, .. } => *retry_after,
        _ => None,
    };
    own.max(wanted.unwrap_or_default()).min(LONGEST_DELAY)
}

/// The document as a sentence: a chat shows the field `text`, and nothing else.
fn text(document: &Value) -> String {
    let word = |name: &str| document[name].as_str().unwrap_or_default();
    let mut text = format!("row {} ({}) of {}", document["row"], word("tpr_path"), word("owner"));
    if let Some(project) = document["project"].as_str() {
        text.push_str(&format!(", project {project},"));
    }
    text.push_str(match word("state") {
        "completed" => " is completed",
        "cancelled" => " is cancelled",
        _ => " failed",
    });
    let mut facts = Vec::new();
    if let Some(ns) = document["ns_done"].as_f64() {
        facts.push(format!("{ns} ns"));
    }
    if let Some(seconds) = document["wall_seconds"].as_f64() {
        facts.push(format!("{} from start to end", hours(seconds)));
    }
    if let Some(count) = document["interruptions"].as_u64().filter(|count| *count > 0) {
        facts.push(number_of(count as usize, "interruption"));
    }
    if !facts.is_empty() {
        text.push_str(&format!(" ({})", facts.join(", ")));
    }
    if let Some(reason) = document["reason"].as_str() {
        let words: Vec<&str> = reason.split_whitespace().collect();
        let all = words.join(" ");
        let short: String = all.chars().take(LONGEST_REASON).collect();
        let more = if short.len() < all.len() { " ..." } else { "" };
        text.push_str(&format!(": {short}{more}"));
    }
    tame(&text)
}

/// What people call their files and projects calls nobody in a chat (`<!channel>`, `@all`), and is no markup.
fn tame(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('@', "@\u{200b}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chat_gets_a_sentence() {
        let document = json!({ "row": 7, "owner": "alice", "project": null, "tpr_path": "water/topol.tpr",
            "state": "completed", "reason": null, "ns_done": 100, "wall_seconds": 122_040, "interruptions": 3 });
        assert_eq!(
            text(&document),
            "row 7 (water/topol.tpr) of alice is completed (100 ns, 33.9 h from start to end, 3 interruptions)"
        );
        let document = json!({ "row": 8, "owner": "bob", "project": "salt", "tpr_path": "<!channel>/x.tpr",
            "state": "failed", "reason": "mdrun failed:\n@all, out of disk space", "interruptions": 0 });
        assert_eq!(
            text(&document),
            "row 8 (&lt;!channel&gt;/x.tpr) of bob, project salt, failed: mdrun failed: @\u{200b}all, out of disk space"
        );
        let long = json!({ "row": 8, "state": "failed", "reason": "x".repeat(1000) });
        assert!(text(&long).len() < 400 && text(&long).ends_with(" ..."));
    }

    #[test]
    fn an_endpoint_that_fails_is_asked_less_and_less() {
        let error = |seconds: Option<u64>| WebhookError::TakeReport {
            status: 503,
            retry_after: seconds.map(Duration::from_secs),
        };
        assert_eq!([1, 2, 3].map(|tries| delay(tries, &error(None)).as_secs()), [2, 4, 8]);
        assert_eq!(delay(1, &error(Some(60))), Duration::from_secs(60));
        assert_eq!(delay(1, &error(Some(1_000_000))), LONGEST_DELAY);
        let all: Duration = (1..MOST_TRIES).map(|tries| delay(tries, &error(None))).sum();
        assert!((18..24).contains(&(all.as_secs() / 3600)), "{all:?}");
    }

    #[test]
    fn the_address_is_never_shown() {
        let url = WebhookUrl::from("https://hooks.example/secret".to_owned());
        assert!(!format!("{url:?}").contains("secret"));
        for wrong in ["hooks.example/secret", "ftp://hooks.example/secret", "secret:hooks"] {
            match Webhook::new(&WebhookUrl::from(wrong.to_owned())) {
                Err(error) => assert!(!format!("{error} {error:?}").contains("secret"), "{error}"),
                Ok(_) => panic!("{wrong} is taken for an address"),
            }
        }
    }
}
