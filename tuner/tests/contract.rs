//! The contract, tried out from outside: schemathesis sends requests made from the OpenAPI document to the real program
//! and checks every reply against it.
//!
//! Runs as part of `cargo xtask test`, which installs schemathesis and says where its Python is in
//! `SCAVENGER_SCHEMATHESIS_PYTHON`.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{env, fs};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Requests that schemathesis makes up per path and kind, at proptest's own number of cases; as many times more as
/// `PROPTEST_CASES` asks for.
const EXAMPLES: u64 = 100;
/// Fewest answers other than refusals that a run must have had for each path: it would show little otherwise.
const FEWEST_ANSWERS: u64 = 5;

/// The program, serving on a port of its own; stopped when dropped.
struct Server {
    process: Child,
    address: SocketAddr,
    /// What it logs after it has begun.
    log: Option<JoinHandle<Vec<Value>>>,
}

impl Server {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_scavenger-tuner"))
            .args(["--log-format", "json", "serve", "--listen", "127.0.0.1:0"])
            // Beside everything else a machine tests, an answer of a tenth of a second can take longer than the 5 s
            // that the service gives a request; this test is about what it answers.
            .args(["--request-timeout", "60s"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program should start");
        let stderr = process.stderr.take().expect("it should be piped");
        let mut lines = BufReader::new(stderr).lines().map(|line| line.expect("logs should be UTF-8"));
        let first = lines.next().expect("it should say where it listens");
        let first: Value = serde_json::from_str(&first).unwrap_or_else(|error| panic!("{error}: {first}"));
        let address = first["fields"]["listen"].as_str().expect("it should say where it listens");
        let address = address.parse().expect("it should be an address");
        let log = thread::spawn(move || {
            lines
                .map(|line| serde_json::from_str(&line).unwrap_or(Value::String(line)))
                // Refusals are told, too, and are not kept.
                .filter(|line: &Value| line["level"] != "INFO")
                .collect()
        });
        Self { process, address, log: Some(log) }
    }

    /// Sends bytes as they are and returns what comes back until the server hangs up.
    async fn exchange(&self, request: &str) -> String {
        let mut connection =
            tokio::net::TcpStream::connect(self.address).await.expect("the server should accept");
        connection.write_all(request.as_bytes()).await.expect("the server should read");
        let mut reply = String::new();
        let read = connection.read_to_string(&mut reply);
        let read = tokio::time::timeout(Duration::from_secs(60), read).await;
        read.expect("the server should hang up").expect("the reply should be text");
        reply
    }

    /// Stops it as Kubernetes would, and returns what it logged beside refusals.
    fn stop(mut self) -> Vec<Value> {
        let id = nix::unistd::Pid::from_raw(self.process.id().try_into().expect("should be a process id"));
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).expect("it should still run");
        let status = self.process.wait().expect("it should end");
        assert!(status.success(), "the server ended with {status}");
        let log = self.log.take().expect("it is taken once");
        log.join().expect("the log should be read")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already, if the test went well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn schemathesis(python: &Path, folder: &Path, address: SocketAddr) -> Command {
    for (name, content) in [
        ("schemathesis.toml", include_str!("contract/schemathesis.toml")),
        ("checks.py", include_str!("contract/checks.py")),
    ] {
        fs::write(folder.join(name), content).expect("should be written");
    }
    let document = folder.join("tuner.json");
    let printed = Command::new(env!("CARGO_BIN_EXE_scavenger-tuner")).arg("openapi").output();
    fs::write(&document, printed.expect("the document should be printed").stdout).expect("should be written");
    let cases: u64 =
        env::var("PROPTEST_CASES").map_or(256, |cases| cases.parse().expect("should be a number"));
    let mut command = Command::new(python);
    command
        .args(["-m", "schemathesis.cli", "run"])
        .arg(&document)
        .args(["--url", &format!("http://{address}"), "--checks", "all", "--no-color", "--warnings", "off"])
        .args(["--max-examples", &(EXAMPLES * cases / 256).max(1).to_string()])
        // It reads its settings where it runs, and leaves caches there.
        .current_dir(folder);
    if let Ok(seed) = env::var("PROPTEST_RNG_SEED") {
        command.args(["--seed", &seed]);
    }
    command
}

/// How many requests the metrics count for a path and a status.
fn counted(metrics: &str, path: &str, status: u16) -> u64 {
    let counter = format!("scavenger_tuner_requests_total{{path=\"{path}\",status=\"{status}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(counter.as_str()));
    value.map_or(0, |value| value.parse().expect("a counter should be a number"))
}

#[tokio::test]
async fn schemathesis_finds_nothing() {
    let Some(python) = env::var_os("SCAVENGER_SCHEMATHESIS_PYTHON") else {
        assert!(
            env::var_os("SCAVENGER_E2E").is_none(),
            "SCAVENGER_SCHEMATHESIS_PYTHON should be set where SCAVENGER_E2E is"
        );
        eprintln!("SKIPPED: SCAVENGER_SCHEMATHESIS_PYTHON is not set; `cargo xtask test` runs this");
        return;
    };
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder should be made");
    let mut command = schemathesis(Path::new(&python), folder.path(), server.address);
    let output = command.output().expect("schemathesis should run");
    let report = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    println!("{report}");
    assert!(output.status.success(), "{command:?} ended with {}: {complaint}", output.status);

    let metrics = server.exchange("GET /metrics HTTP/1.1\r\nhost: tuner\r\nconnection: close\r\n\r\n").await;
    for path in ["/v1/ladder", "/v1/predict", "/v1/calibrate"] {
        let (answered, refused) = (counted(&metrics, path, 200), counted(&metrics, path, 422));
        println!("{path}: {answered} answered, {refused} refused for what is in them");
        assert!(answered >= FEWEST_ANSWERS && refused >= FEWEST_ANSWERS, "{metrics}");
    }
    assert_eq!(server.stop(), Vec::<Value>::new());
}
