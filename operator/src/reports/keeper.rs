//! The Secret with the operator's authorities, and the server's certificate that follows from it.
//!
//! Every replica reads the Secret: one that stands by must answer, too, that it does. The leader alone writes it, with the
//! version that was read, or as a new object. Of two that write, one reads again what the other wrote.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Client,
    api::{ObjectMeta, PostParams},
};
use rustls::ServerConfig;
use scavenger_program::objects::Objects;
use scavenger_schema::{names, terminal::shown};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    CA, Clock, SERVICE,
    authority::{self, Authorities, CertificateError, Server},
};
use crate::{config_map::MANAGED_BY, leader::Leadership};

/// The Secret's key.
const KEY: &str = "authorities.json";

/// How often the Secret is looked at.
const EVERY: Duration = Duration::from_secs(600);

/// How often while there is no certificate.
const EVERY_WITHOUT: Duration = Duration::from_secs(10);

/// How soon after somebody else wrote it.
const AGAIN: Duration = Duration::from_secs(1);

/// After this no answer of the API server is waited for.
const WITHIN: Duration = Duration::from_secs(10);

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
enum KeeperError {
    #[error("Secret {CA:?} could not be read or written: {0}")]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("Secret {CA:?}: no answer of the API server within {} s", WITHIN.as_secs())]
    Late,
}

/// What came of a look at the Secret.
#[derive(Debug, PartialEq, Eq)]
enum Looked {
    /// All is well until the next look.
    Settled,
    /// Somebody else wrote it: look again.
    Again,
}

/// Keeps the certificates.
pub(super) struct Keeper {
    secrets: Objects<Secret>,
    names: Vec<String>,
    leadership: watch::Receiver<Leadership>,
    clock: Clock,
    server: Option<Server>,
    certificate: watch::Sender<Option<Arc<ServerConfig>>>,
    bundle: watch::Sender<Option<Arc<str>>>,
}

/// A keeper, what the server shows, and what pods must trust.
pub(super) type Kept =
    (Keeper, watch::Receiver<Option<Arc<ServerConfig>>>, watch::Receiver<Option<Arc<str>>>);

impl Keeper {
    pub(super) fn new(
        client: &Client,
        namespace: &str,
        leadership: watch::Receiver<Leadership>,
        clock: Clock,
    ) -> Kept {
        let (certificate, shown) = watch::channel(None);
        let (bundle, trusted) = watch::channel(None);
        let secrets = Objects::namespaced(client.clone(), namespace);
        let keeper = Self {
            secrets,
            names: dns_names(namespace),
            leadership,
            clock,
            server: None,
            certificate,
            bundle,
        };
        (keeper, shown, trusted)
    }

    /// Looks at the Secret from time to time, and whenever this replica begins to lead.
    pub(super) async fn run(mut self) {
        let mut said = None;
        loop {
            let looked = tokio::time::timeout(WITHIN, self.look()).await.unwrap_or(Err(KeeperError::Late));
            let pause = match looked {
                Ok(Looked::Again) => AGAIN,
                Ok(Looked::Settled) if self.server.is_some() => EVERY,
                Ok(Looked::Settled) => EVERY_WITHOUT,
                Err(error) => {
                    let error = error.to_string();
                    if said.as_ref() != Some(&error) {
                        warn!(error = shown(&error), "no certificate for reports of supervisors");
                        said = Some(error);
                    }
                    EVERY_WITHOUT
                }
            };
            tokio::select! {
                changed = self.leadership.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn look(&mut self) -> Result<Looked, KeeperError> {
        let secret = self.secrets.get_opt(CA).await?;
        let mut authorities = secret.as_ref().map(read).unwrap_or_default();
        let now = (self.clock)();
        if self.leadership.borrow().holds(now.at)
            && let Some(due) = authorities.due(now.time)?
        {
            let written = self.write(secret, &due).await;
            match written {
                Ok(()) => info!(secret = CA, ?due, "authorities for reports of supervisors written"),
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                    return Ok(Looked::Again);
                }
                Err(error) => return Err(error.into()),
            }
            authorities = due;
        }
        if let Some(server) =
            authority::server_due(self.server.as_ref(), &authorities, &self.names, now.time)?
        {
            self.certificate.send_replace(Some(Arc::clone(&server.config)));
            self.server = Some(server);
        }
        let bundle = Some(authorities.bundle()).filter(|bundle| !bundle.is_empty());
        self.bundle.send_if_modified(|old| {
            let changed = old.as_deref() != bundle.as_deref();
            if changed {
                *old = bundle.map(Arc::from);
            }
            changed
        });
        Ok(Looked::Settled)
    }

    async fn write(&self, secret: Option<Secret>, authorities: &Authorities) -> kube::Result<()> {
        let text = serde_json::to_vec(authorities).map_err(kube::Error::SerdeError)?;
        let data = Some(BTreeMap::from([(KEY.to_owned(), ByteString(text))]));
        match secret {
            None => {
                let labels = BTreeMap::from([(MANAGED_BY.to_owned(), names::OPERATOR.to_owned())]);
                let metadata =
                    ObjectMeta { name: Some(CA.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
                let secret = Secret { metadata, data, ..Secret::default() };
                self.secrets.create(&PostParams::default(), &secret).await.map(drop)
            }
            Some(mut secret) => {
                secret.data = data;
                self.secrets.replace(CA, &PostParams::default(), &secret).await.map(drop)
            }
        }
    }
}

/// What the Secret holds. What cannot be read is as nothing: pods get new certificates to trust, and nothing else is lost.
fn read(secret: &Secret) -> Authorities {
    let Some(text) = secret.data.as_ref().and_then(|data| data.get(KEY)) else {
        return Authorities::default();
    };
    serde_json::from_slice(&text.0).unwrap_or_else(|_| {
        // Without the error, which can repeat what it could not read.
        warn!(secret = CA, key = KEY, "authorities cannot be read; new ones are made");
        Authorities::default()
    })
}

/// By what names pods reach the Service.
fn dns_names(namespace: &str) -> Vec<String> {
    vec![
        SERVICE.to_owned(),
        format!("{SERVICE}.{namespace}"),
        format!("{SERVICE}.{namespace}.svc"),
        format!("{SERVICE}.{namespace}.svc.cluster.local"),
    ]
}
