//! The registry of the tests' cluster, and what a test puts in front of it: a registry in trouble.

use std::{
    env,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::World;

/// Environment variables with the registry's address, the address in front of it on which a test may listen, and
/// `USER:PASSWORD`.
const ADDRESS: &str = "SCAVENGER_E2E_REGISTRY";
const FRONT: &str = "SCAVENGER_E2E_REGISTRY_FRONT";
const LOGIN: &str = "SCAVENGER_E2E_REGISTRY_LOGIN";

/// The demo workload as `cargo xtask test` pushes it, behind the registry's name.
const COUNTER: &str = concat!("counter:", env!("CARGO_PKG_VERSION"));

/// The cluster's registry, which gives nothing without a password.
pub struct Registry {
    address: String,
    front: String,
    login: (String, String),
}

impl Registry {
    /// That of the tests' cluster.
    ///
    /// # Errors
    /// If it has none.
    pub fn of_the_cluster() -> Result<Self> {
        let read =
            |name| env::var(name).with_context(|| format!("{name} is not set; `cargo xtask test` sets it"));
        let login = read(LOGIN)?;
        let (user, password) = login.split_once(':').with_context(|| format!("{LOGIN} has no password"))?;
        let login = (user.to_owned(), password.to_owned());
        Ok(Self { address: read(ADDRESS)?, front: read(FRONT)?, login })
    }

    /// The demo workload in the registry.
    #[must_use]
    pub fn counter(&self) -> String {
        format!("{}/{COUNTER}", self.address)
    }

    /// The same through what a test puts in front.
    #[must_use]
    pub fn counter_behind_front(&self) -> String {
        format!("{}/{COUNTER}", self.front)
    }

    /// Makes a pull secret for the registry, with the right password or another one.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn secret(&self, world: &World, name: &str, right: bool) -> Result<()> {
        let (user, password) = &self.login;
        let password = if right { password } else { "wrong" };
        let login = json!({ "username": user, "password": password });
        let config = json!({ "auths": { &self.address: login, &self.front: login } });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name },
            "type": "kubernetes.io/dockerconfigjson", "stringData": { ".dockerconfigjson": config.to_string() },
        });
        world.create::<Secret>(secret).await?;
        Ok(())
    }
}

/// Listens in front of the registry: in trouble at first, then it passes everything on.
pub struct Front {
    well: Arc<AtomicBool>,
    _server: JoinSet<()>,
}

impl Front {
    /// Begins to listen, and answers everything with 503.
    ///
    /// # Errors
    /// If somebody listens there already, or the registry's address is none.
    pub async fn in_trouble(registry: &Registry) -> Result<Self> {
        let behind: SocketAddr = registry.address.parse().context("the registry's address is none")?;
        let listener = TcpListener::bind(&registry.front).await?;
        let well = Arc::new(AtomicBool::new(false));
        let is_well = Arc::clone(&well);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                let is_well = is_well.load(Ordering::Relaxed);
                connections.spawn(async move {
                    // A connection that breaks off is seen by the node.
                    let _ =
                        if is_well { pass_on(connection, behind).await } else { refuse(connection).await };
                });
            }
        });
        Ok(Self { well, _server: server })
    }

    /// From now on the registry itself answers.
    pub fn recover(&self) {
        self.well.store(true, Ordering::Relaxed);
    }
}

async fn pass_on(mut connection: TcpStream, behind: SocketAddr) -> std::io::Result<()> {
    let mut registry = TcpStream::connect(behind).await?;
    copy_bidirectional(&mut connection, &mut registry).await.map(drop)
}

async fn refuse(mut connection: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if connection.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    connection.write_all(answer.as_bytes()).await?;
    connection.shutdown().await
}
