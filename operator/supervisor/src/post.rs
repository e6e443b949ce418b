//! One report over HTTPS.

use std::{fs, sync::Arc, time::Duration};

use scavenger_schema::supervision::{Answer, LiveReport};
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsProvider};

use crate::{cli::ReportTo, schedule::Outcome};

/// From looking up the name to the last byte of the answer.
const WITHIN: Duration = Duration::from_secs(10);

/// An answer is a few words.
const LONGEST_ANSWER: u64 = 4096;

/// The status of a replica that does not lead.
const NOT_LEADER: u16 = 421;

/// What came of a report.
#[derive(Debug)]
pub struct Posted {
    /// For the schedule.
    pub outcome: Outcome,
    /// What the operator asks for.
    pub answer: Answer,
    /// Why it failed.
    pub problem: Option<String>,
}

/// Sends a report. The token and the certificates are read each time: both are replaced while a pod runs.
#[must_use]
pub fn post(to: &ReportTo, report: &LiveReport) -> Posted {
    match try_post(to, report) {
        Ok((NOT_LEADER, _)) => {
            Posted { outcome: Outcome::NotLeader, answer: Answer::default(), problem: None }
        }
        Ok((200..=299, body)) => {
            let answer = serde_json::from_slice(&body).unwrap_or_default();
            Posted { outcome: Outcome::Taken, answer, problem: None }
        }
        Ok((status, _)) => failed(format!("HTTP status {status}")),
        Err(problem) => failed(problem),
    }
}

fn failed(problem: String) -> Posted {
    Posted { outcome: Outcome::Failed, answer: Answer::default(), problem: Some(problem) }
}

fn try_post(to: &ReportTo, report: &LiveReport) -> Result<(u16, Vec<u8>), String> {
    let read = |path: &std::path::Path| {
        fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let token = read(&to.token)?;
    let token =
        std::str::from_utf8(&token).map_err(|_| format!("{} is not text", to.token.display()))?.trim();
    let pem = read(&to.ca)?;
    let certificates: Vec<_> = ureq::tls::parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(format!("{} holds no certificate", to.ca.display()));
    }
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .build();
    // The workload's proxy is not for the operator, and a redirect must not carry the token elsewhere.
    let agent = ureq::Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(WITHIN))
        .https_only(true)
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("scavenger-supervisor/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent();
    let body = serde_json::to_vec(report).map_err(|error| error.to_string())?;
    let sent = agent
        .post(&to.url)
        .header("authorization", format!("Bearer {token}"))
        .content_type("application/json")
        .send(&body[..]);
    let mut answer = sent.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    // A report that was taken is taken, whatever becomes of the answer's body.
    let body = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec().unwrap_or_default();
    Ok((status, body))
}
