//! Over TLS on the loopback interface, with the client of supervisors and agents.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
};

use scavenger_reporting::client::{Client, Posted, ReportTo, Terms};
use scavenger_schema::{
    node_agent::{self, NodePods, NodeReport},
    supervision::{Answer, LiveReport},
};
use tokio::net::TcpSocket;

use super::*;
use crate::reports::{
    authority::{Authorities, Server, server_due},
    server,
};

/// A client trusts by the machine's clock.
#[expect(clippy::disallowed_methods, reason = "certificates are judged by the machine's clock")]
fn today() -> Timestamp {
    Timestamp::now()
}

fn names() -> Vec<String> {
    vec!["localhost".to_owned()]
}

/// The endpoint on a port of its own.
struct Served {
    played: Played,
    authorities: Authorities,
    certificate: watch::Sender<Option<Arc<rustls::ServerConfig>>>,
    address: SocketAddr,
    folder: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

impl Served {
    async fn start() -> Self {
        let played = Played::new();
        let authorities = Authorities::default().due(today()).unwrap().unwrap();
        let server = certificate(&authorities, today());
        let certificate = watch::Sender::new(Some(server.config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let (desk, metrics) = (Arc::clone(&played.desk), Arc::clone(&played.metrics));
        tasks.spawn(server::serve(listener, certificate.subscribe(), desk, metrics));
        let folder = tempfile::tempdir().unwrap();
        let served = Self { played, authorities, certificate, address, folder, _tasks: tasks };
        served.write("token", &served.played.time.token("water-1-x"));
        served.write("ca", &served.authorities.bundle());
        served
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// A client with this file as its token.
    fn client(&self, path: &str, token: &str) -> Client {
        let to = ReportTo {
            url: format!("https://localhost:{}{path}", self.address.port()),
            token: self.path(token),
            ca: self.path("ca"),
        };
        let within = Duration::from_secs(60);
        Client::new(to, Terms { user_agent: "test", within, longest_answer: 4096 })
    }

    /// Sends a report as a supervisor does.
    async fn post(&self) -> Posted<Answer> {
        let mut client = self.client("/reports", "token");
        let report: LiveReport = serde_json::from_str(BODY).unwrap();
        tokio::task::spawn_blocking(move || client.post(&report)).await.unwrap()
    }

    /// Asks as the agent of a node does that has this version.
    fn ask(&self, version: &str) -> tokio::task::JoinHandle<Posted<NodePods>> {
        let mut client = self.client(node_agent::PATH, "agent");
        let report = NodeReport { version: version.to_owned(), failed: Vec::new() };
        tokio::task::spawn_blocking(move || client.post(&report))
    }

    async fn outcome(&self) -> String {
        format!("{:?}", self.post().await.outcome)
    }
}

fn certificate(authorities: &Authorities, time: Timestamp) -> Server {
    server_due(None, authorities, &names(), time).unwrap().unwrap()
}

#[tokio::test]
async fn a_supervisor_reports_and_is_asked_for_a_checkpoint() {
    let mut served = Served::start().await;
    let posted = served.post().await;
    assert_eq!((format!("{:?}", posted.outcome), posted.problem), ("Taken".to_owned(), None));
    assert_eq!(posted.answer, Some(Answer { checkpoint: false }));
    let report = served.played.link.reports.try_recv().unwrap();
    assert_eq!((report.pod_uid.as_str(), report.seen, report.progress), ("uid-water-1-x", 2, Some(0.5)));
    let own = Name::from("uid-water-1-x");
    served.played.link.requests.ask(std::iter::once((&own, report.received)));
    assert_eq!(served.post().await.answer, Some(Answer { checkpoint: true }));
    // Two replicas: this one does not lead, and then it does.
    served.played.leadership.send_replace(Leadership::Standby);
    assert_eq!(served.outcome().await, "NotLeader");
    served.played.leadership.send_replace(leader());
    assert_eq!(served.outcome().await, "Taken");
    // The fourth within ten seconds; a forged token.
    assert_eq!(served.post().await.problem.unwrap(), "HTTP status 429");
    served
        .write("token", &token(AUDIENCE, served.played.time.now() + SignedDuration::from_hours(1), "forged"));
    assert_eq!(served.post().await.problem.unwrap(), "HTTP status 401");
}

#[tokio::test]
async fn an_agent_asks_and_waits_beside_supervisors() {
    let served = Served::start().await;
    served.write("agent", &served.played.agent("n1"));
    served.played.link.nodes.publish(served.played.time.now());
    let first = served.ask("").await.unwrap();
    assert_eq!((format!("{:?}", first.outcome), &first.problem), ("Taken".to_owned(), &None));
    let none = first.answer.unwrap();
    let held = served.ask(&none.version);
    assert_eq!(served.outcome().await, "Taken", "a supervisor's report, meanwhile");
    assert!(!held.is_finished());
    served.played.sees(&agents::pod("a"));
    let pods = held.await.unwrap().answer.unwrap().pods;
    assert_eq!(pods.iter().map(|pod| pod.uid.as_str()).collect::<Vec<_>>(), ["uid-a"]);
    // The token of a supervisor is none of an agent.
    served.write("agent", &served.played.time.token("water-1-x"));
    assert_eq!(served.ask("").await.unwrap().problem.unwrap(), "HTTP status 401");
}

#[tokio::test]
async fn a_rotation_interrupts_no_report() {
    let served = Served::start().await;
    let (now, half_a_year) = (today(), SignedDuration::from_hours(180 * 24));
    // The first authority is half a year old, and the second has just been made.
    let first = Authorities::default().due(now - half_a_year).unwrap().unwrap();
    let both = first.due(now).unwrap().unwrap();
    let mut pod = 0;
    let mut trusted = async |bundle: &Authorities| {
        pod += 1;
        served.write("token", &served.played.time.token(&format!("pod-{pod}")));
        served.write("ca", &bundle.bundle());
        served.post().await.problem.is_none()
    };
    let server = certificate(&both, now);
    served.certificate.send_replace(Some(Arc::clone(&server.config)));
    assert!(trusted(&first).await, "a pod that has not seen the second yet");
    assert!(trusted(&both).await);
    // A day later the second signs.
    let later = now + SignedDuration::from_hours(24);
    let server = server_due(Some(&server), &both, &names(), later).unwrap().unwrap();
    served.certificate.send_replace(Some(server.config));
    assert!(trusted(&both).await);
    assert!(!trusted(&first).await, "the second authority is another one");
    // Nor is a stranger trusted, or the server before it has a certificate.
    let stranger = Authorities::default().due(now).unwrap().unwrap();
    assert!(!trusted(&stranger).await);
    served.certificate.send_replace(None);
    assert!(!trusted(&both).await);
}

/// A connection from one of the machine's own addresses.
async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    let stream = socket.connect(to).await.unwrap().into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Reads until the server closes the connection; true if it does, and has said nothing.
async fn is_closed(mut stream: TcpStream) -> bool {
    let read = move || match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

#[tokio::test]
async fn slow_clients_hold_nothing() {
    let served = Served::start().await;
    // Half a handshake each: one address has its places and no more.
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = connect([127, 0, 0, 2], served.address).await;
        // The server may have closed it already.
        stream.write_all(&[22, 3]).ok();
        slow.push(stream);
    }
    let refused = |reason| served.played.metrics.reports.refused_so_far(reason);
    within(Duration::from_secs(10), "its other connections are closed", || refused("full_for_address") == 68)
        .await;
    assert_eq!(served.outcome().await, "Taken", "somebody else's report");
    // The rest is closed when its time is over.
    for stream in slow {
        assert!(is_closed(stream).await);
    }
    within(Duration::from_secs(10), "each was counted", || refused("too_slow") == 32).await;
    // A head that never ends.
    let stream = connect([127, 0, 0, 3], served.address).await;
    let config = trusting(&served.authorities.bundle());
    let head = move || {
        let connection = rustls::ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        stream.write_all(b"POST /reports HTTP/1.1\r\nx: ").unwrap();
        stream.flush().unwrap();
        stream
    };
    let _open = tokio::task::spawn_blocking(head).await.unwrap();
    within(Duration::from_secs(20), "the head was not waited for", || refused("too_slow") == 33).await;
}

/// A client that trusts a bundle.
fn trusting(bundle: &str) -> Arc<rustls::ClientConfig> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    Arc::new(config.with_no_client_auth())
}
