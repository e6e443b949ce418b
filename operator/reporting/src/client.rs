//! One request over HTTPS, to the replica of the operator that leads.

use std::{
    fs,
    net::{SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use ureq::{
    Agent,
    http::Uri,
    tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider},
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

use crate::schedule::Outcome;

/// A replica whose node is gone answers nothing at all.
const CONNECTS_WITHIN: Duration = Duration::from_secs(3);

/// The status of a replica that does not lead.
const NOT_LEADER: u16 = 421;

/// Where reports are sent.
#[derive(Debug, Clone)]
pub struct ReportTo {
    /// The address.
    pub url: String,
    /// The file of the bearer token.
    pub token: PathBuf,
    /// The file of the certificates to trust.
    pub ca: PathBuf,
}

/// What differs from program to program.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How the program names itself.
    pub user_agent: &'static str,
    /// From the first connection to the last byte of the answer, all replicas together.
    pub within: Duration,
    /// Bytes of an answer. A longer one is not read.
    pub longest_answer: u64,
}

/// What came of a report.
#[derive(Debug)]
pub struct Posted<A> {
    /// For the schedule.
    pub outcome: Outcome,
    /// What the operator says. None if the report was not taken, or if the answer cannot be read.
    pub answer: Option<A>,
    /// Why it failed.
    pub problem: Option<String>,
}

/// Sends reports. The operator's name has the address of each replica; the one that took the last report is tried first.
#[derive(Debug)]
pub struct Client {
    to: ReportTo,
    terms: Terms,
    leader: Option<SocketAddr>,
}

impl Client {
    /// Nobody is known to lead yet.
    #[must_use]
    pub fn new(to: ReportTo, terms: Terms) -> Self {
        Self { to, terms, leader: None }
    }

    /// Sends a report. The token and the certificates are read each time: both are replaced while a pod runs.
    #[must_use]
    pub fn post<R: Serialize, A: DeserializeOwned>(&mut self, report: &R) -> Posted<A> {
        let failed = |problem| Posted { outcome: Outcome::Failed, answer: None, problem: Some(problem) };
        self.try_post(report).unwrap_or_else(failed)
    }

    fn try_post<R: Serialize, A: DeserializeOwned>(&mut self, report: &R) -> Result<Posted<A>, String> {
        let body = serde_json::to_vec(report).map_err(|error| error.to_string())?;
        let token = token(&self.to.token)?;
        let certificates = Arc::new(certificates(&self.to.ca)?);
        let until = Instant::now() + self.terms.within;
        let mut standby = false;
        let mut problem = None;
        for address in self.addresses()? {
            let left = until.saturating_duration_since(Instant::now());
            match self.send(address, &token, &certificates, &body, left) {
                Ok((NOT_LEADER, _)) => standby = true,
                Ok((200..=299, body)) => {
                    self.leader = Some(address);
                    let answer = serde_json::from_slice(&body).ok();
                    return Ok(Posted { outcome: Outcome::Taken, answer, problem: None });
                }
                Ok((status, _)) => return Err(format!("HTTP status {status}")),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        match problem {
            Some(problem) if !standby => Err(problem),
            // The one that leads may be the one that did not answer.
            problem => Ok(Posted { outcome: Outcome::NotLeader, answer: None, problem }),
        }
    }

    /// At least one.
    fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let url = &self.to.url;
        let uri: Uri = url.parse().map_err(|error| format!("{url:?} is not a URL: {error}"))?;
        let host = uri.scheme().zip(uri.authority());
        let host = host.and_then(|(scheme, host)| DefaultResolver::host_and_port(scheme, host));
        let host = host.ok_or_else(|| format!("{url:?} is not a URL"))?;
        let found = host.to_socket_addrs().map_err(|error| format!("{host} is not found: {error}"))?;
        let mut found: Vec<_> = found.collect();
        if found.is_empty() {
            return Err(format!("{host} has no address"));
        }
        found.sort_by_key(|address| Some(*address) != self.leader);
        Ok(found)
    }

    fn send(
        &self,
        address: SocketAddr,
        token: &str,
        certificates: &Arc<Vec<Certificate<'static>>>,
        body: &[u8],
        within: Duration,
    ) -> Result<(u16, Vec<u8>), String> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::Specific(Arc::clone(certificates)))
            .build();
        // The workload's proxy is not for the operator, and a redirect must not carry the token elsewhere.
        let config = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(within))
            .timeout_connect(Some(CONNECTS_WITHIN))
            .https_only(true)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(self.terms.user_agent)
            .build();
        let sent = Agent::with_parts(config, DefaultConnector::default(), At(address))
            .post(&self.to.url)
            .header("authorization", format!("Bearer {token}"))
            .content_type("application/json")
            .send(body);
        let mut answer = sent.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        // A report that was taken is taken, whatever becomes of the answer's body.
        let body = answer
            .body_mut()
            .with_config()
            .limit(self.terms.longest_answer)
            .read_to_vec()
            .unwrap_or_default();
        Ok((status, body))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn token(path: &Path) -> Result<String, String> {
    let text = String::from_utf8(read(path)?).map_err(|_| format!("{} is not text", path.display()))?;
    Ok(text.trim().to_owned())
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let pem = read(path)?;
    let certificates: Vec<_> = ureq::tls::parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(format!("{} holds no certificate", path.display()));
    }
    Ok(certificates)
}

/// The name of the URL has this address. The certificate must still be the name's.
#[derive(Debug)]
struct At(SocketAddr);

impl Resolver for At {
    fn resolve(
        &self,
        _: &Uri,
        _: &ureq::config::Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(self.0);
        Ok(addresses)
    }
}
