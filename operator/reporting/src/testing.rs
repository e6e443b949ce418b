//! The operator, as far as a program on a node sees it, and patience.

#![allow(clippy::unwrap_used, missing_docs, reason = "for tests: one that cannot go on has failed")]

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use serde::de::DeserializeOwned;

/// Much longer than anything takes, on an emulated processor as well.
pub const LIMIT: Duration = Duration::from_mins(5);

/// Asks until the answer is yes.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

#[derive(Debug, Clone)]
pub struct Request<R> {
    pub path: String,
    pub token: String,
    pub report: R,
}

/// A TLS server on the loopback interface. Each connection has a thread of its own and carries one request.
#[derive(Debug)]
pub struct Server<R> {
    pub url: String,
    /// The certificate to trust.
    pub ca: String,
    requests: Arc<Mutex<Vec<Request<R>>>>,
    status: Arc<AtomicU16>,
    answer: Arc<Mutex<&'static str>>,
}

impl<R: Clone + DeserializeOwned + Send + 'static> Server<R> {
    /// Takes every report with `{}`, until it is told otherwise.
    #[must_use]
    pub fn start() -> Self {
        let (status, answer) = (Arc::new(AtomicU16::new(200)), Arc::new(Mutex::new("{}")));
        let (own_status, own_answer) = (Arc::clone(&status), Arc::clone(&answer));
        let answers = move |_: &Request<R>| {
            (own_status.load(Ordering::SeqCst), (*own_answer.lock().unwrap()).to_owned())
        };
        Self { status, answer, ..Self::answering("/reports", answers) }
    }

    /// Answers with the status and the body that a function returns, as late as it does.
    #[must_use]
    pub fn answering(
        path: &str,
        answers: impl Fn(&Request<R>) -> (u16, String) + Clone + Send + 'static,
    ) -> Self {
        let (ca, config) = certificates();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://localhost:{}{path}", listener.local_addr().unwrap().port());
        let requests: Arc<Mutex<Vec<Request<R>>>> = Arc::default();
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, config, kept) = (answers.clone(), Arc::clone(&config), Arc::clone(&kept));
                thread::spawn(move || {
                    // A client that trusts nobody hangs up: no request then.
                    if let Some((request, stream)) = read::<R>(stream, &config) {
                        kept.lock().unwrap().push(request.clone());
                        let (status, body) = answers(&request);
                        write(stream, status, &body);
                    }
                });
            }
        });
        Self { url, ca, requests, status: Arc::default(), answer: Arc::default() }
    }

    /// What has come so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request<R>> {
        self.requests.lock().unwrap().clone()
    }

    /// What a server that was made by [`Self::start`] answers from here on.
    pub fn answer(&self, status: u16, answer: &'static str) {
        *self.answer.lock().unwrap() = answer;
        self.status.store(status, Ordering::SeqCst);
    }
}

fn certificates() -> (String, Arc<ServerConfig>) {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    (ca.pem(), Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap()))
}

type Tls = StreamOwned<ServerConnection, TcpStream>;

fn read<R: DeserializeOwned>(stream: TcpStream, config: &Arc<ServerConfig>) -> Option<(Request<R>, Tls)> {
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(config)).ok()?, stream);
    let mut text = String::new();
    let mut part = [0; 4096];
    loop {
        let count = stream.read(&mut part).ok().filter(|count| *count > 0)?;
        text.push_str(std::str::from_utf8(&part[..count]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let header = |name: &str| {
            let line = |line: &str| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            };
            head.lines().find_map(line).unwrap_or_else(|| panic!("no header {name} in {head:?}"))
        };
        if body.len() == header("content-length").parse::<usize>().unwrap() {
            assert_eq!(header("content-type"), "application/json");
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let report = serde_json::from_str(body).unwrap();
            return Some((Request { path, token: header("authorization"), report }, stream));
        }
    }
}

fn write(mut stream: Tls, status: u16, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\ncontent-length: {length}\r\n");
    stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes()).ok();
    stream.conn.send_close_notify();
    stream.flush().ok();
}
