//! Ends of rows are reported to a real HTTP server, by the real program or by its parts: at least once, whatever the
//! server does and whenever the submitter dies, and no log names the address.

#![allow(clippy::expect_used, clippy::panic, reason = "a failure must be loud")]

mod postgres;
mod program;
mod rows;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::post;
use gromacs_submitter::health::Metrics;
use gromacs_submitter::store::{Changes, Store};
use gromacs_submitter::webhook::{Sent, Webhook, WebhookUrl};
use postgres::{migrated_store, store};
use program::{Program, text};
use scavenger_schema::simulation::{RowStatus, State as RowState};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Part of every address here, and of no log.
const TOKEN: &str = "s3cret-token";

/// Longest time until something happens; a report that was not taken is sent again after some seconds.
const PATIENCE: Duration = Duration::from_secs(90);

/// A row that fails before anything is asked of a cluster, and is the only one of its kind.
const FAILS: &str = "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, project, labels, mdrun_options)
    values ('lab', 'data', 'water/topol.tpr', 'water', '{\"T\": \"310\"}', '{-nonsense}')";

/// What the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Status(u16),
    Never,
}

#[derive(Clone)]
struct Shared {
    answers: Arc<Mutex<Vec<Answer>>>,
    received: UnboundedSender<Value>,
}

struct Endpoint {
    url: String,
    shared: Shared,
    received: UnboundedReceiver<Value>,
}

impl Endpoint {
    /// Gives these answers, the last one again and again.
    async fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("should listen");
        let url = format!("http://{}/hooks/{TOKEN}", listener.local_addr().expect("should have an address"));
        let (sender, received) = unbounded_channel();
        let shared = Shared { answers: Arc::default(), received: sender };
        let router = Router::new().route("/hooks/{token}", post(take)).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let endpoint = Self { url, shared, received };
        endpoint.answers(answers);
        endpoint
    }

    fn answers(&self, answers: &[Answer]) {
        *self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner) = answers.to_vec();
    }

    /// The next document that arrives.
    async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(PATIENCE, self.received.recv()).await;
        next.expect("a report should arrive").expect("the server should be there")
    }

    fn nothing_more(&mut self) {
        assert_eq!(self.received.try_recv().ok(), None);
    }

    fn webhook(&self) -> Webhook {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Webhook::new(&WebhookUrl::from(self.url.clone())).expect("should be an address")
    }
}

async fn take(State(shared): State<Shared>, uri: Uri, headers: HeaderMap, body: String) -> StatusCode {
    assert!(uri.path().ends_with(TOKEN), "{uri}");
    assert_eq!(headers["content-type"], "application/json");
    let answer = {
        let mut answers = shared.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() > 1 { answers.remove(0) } else { answers[0] }
    };
    let _ = shared.received.send(serde_json::from_str(&body).expect("should be JSON"));
    match answer {
        Answer::Status(status) => StatusCode::from_u16(status).expect("should be a status"),
        Answer::Never => std::future::pending().await,
    }
}

/// A submitter as a daemon, and what it logs.
struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// The end without a warning.
    fn kill(mut self) -> String {
        self.child.kill().expect("should be killed");
        self.child.wait().expect("should end");
        std::fs::read_to_string(&self.log).expect("should have logged")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A submitter of a cluster that does not answer: rows that fail or are cancelled before they begin need none.
struct Site {
    program: Program,
    folder: tempfile::TempDir,
    store: Store,
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("should make a folder");
        let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
            clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n\
            users: [{name: u, user: {}}]\n\
            contexts: [{name: c, context: {cluster: c, user: u}}]\n";
        std::fs::write(folder.path().join("config"), kubeconfig).expect("should write");
        let (store, url) = migrated_store("tests").await;
        Self { program: Program::new(url), folder, store }
    }

    fn command(&self, more: &[&str], url: Option<&str>) -> Command {
        let arguments = ["--log=trace", "run", "--gromacs-image=gromacs:test", "--listen=127.0.0.1:0"];
        let mut command = self.program.command(&[&arguments, more].concat());
        command.env("KUBECONFIG", self.folder.path().join("config"));
        if let Some(url) = url {
            command.env("SCAVENGER_SUBMITTER_WEBHOOK_URL", url);
        }
        command
    }

    fn start(&self, name: &str, url: &str) -> Running {
        let log: PathBuf = Path::new(self.folder.path()).join(name);
        let file = File::create(&log).expect("should make a file");
        let child = self.command(&[], Some(url)).stderr(file).spawn().expect("the submitter should start");
        Running { child, log }
    }

    async fn number(&self, question: &'static str) -> i64 {
        sqlx::query_scalar(question).fetch_one(self.store.pool()).await.expect("should count")
    }

    async fn until(&self, question: &'static str, number: i64) {
        let begun = Instant::now();
        let mut every = tokio::time::interval(Duration::from_millis(50));
        while self.number(question).await != number {
            assert!(begun.elapsed() < PATIENCE, "{question} is not {number}");
            every.tick().await;
        }
    }

    /// Nobody waits for the next try of a test.
    async fn hurry(&self) {
        let hurry = "update gromacs_end_report set next_try_time = now()";
        sqlx::query(hurry).execute(self.store.pool()).await.expect("should hurry");
    }
}

const WAITING: &str = "select count(*) from gromacs_end_report";
const FAILED: &str = "select count(*) from gromacs_to_tune where state = 'failed'";

fn says_nothing_of_the_address(log: &str) {
    assert!(!log.contains(TOKEN), "{}", log.lines().find(|line| line.contains(TOKEN)).unwrap_or_default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_reported_until_the_endpoint_takes_it() {
    let site = Site::new().await;
    // It ends before there is a webhook.
    site.program.sql(FAILS).await;
    let output = site.command(&["--once"], None).output().expect("the submitter should start");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!((site.number(FAILED).await, site.number(WAITING).await), (1, 0));

    let mut endpoint =
        Endpoint::start(&[Answer::Status(500), Answer::Status(503), Answer::Status(204)]).await;
    let submitter = site.start("log", &endpoint.url);
    site.program.sql(FAILS).await;
    let first = endpoint.next().await;
    assert_eq!(first, endpoint.next().await, "after an error it is sent again");
    assert_eq!(first, endpoint.next().await);
    site.until(WAITING, 0).await;
    for (field, value) in [
        ("row", json!(2)),
        ("submission", json!(1)),
        ("owner", json!("worker")),
        ("namespace", json!("lab")),
        ("project", json!("water")),
        ("labels", json!({ "T": "310" })),
        ("tpr_path", json!("water/topol.tpr")),
        ("state", json!("failed")),
        ("ns_done", Value::Null),
        ("interruptions", json!(0)),
    ] {
        assert_eq!(first[field], value, "{field} of {first}");
    }
    let reason = first["reason"].as_str().expect("should have a reason");
    assert!(reason.contains("-nonsense"), "{reason}");
    assert!(first["finish_time"].is_string(), "{first}");
    let said = first["text"].as_str().expect("should have a sentence");
    assert!(said.starts_with("row 2 (water/topol.tpr) of worker, project water, failed: "), "{said}");

    site.program
        .sql(
            "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, held)
                values ('lab', 'data', 'salt/topol.tpr', true);
            update gromacs_to_tune set cancel_requested = true where id = 3",
        )
        .await;
    let cancelled = endpoint.next().await;
    assert_eq!((&cancelled["row"], &cancelled["state"]), (&json!(3), &json!("cancelled")));
    site.until(WAITING, 0).await;
    endpoint.nothing_more();
    let log = submitter.kill();
    assert!(log.contains("the webhook answers with HTTP status 500"), "{log}");
    says_nothing_of_the_address(&log);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_hangs_holds_up_no_row_and_a_restart_loses_nothing() {
    let site = Site::new().await;
    let mut endpoint = Endpoint::start(&[Answer::Never]).await;
    let submitter = site.start("first", &endpoint.url);
    site.program.sql(FAILS).await;
    assert_eq!(endpoint.next().await["row"], json!(1));
    site.program.sql(FAILS).await;
    site.program.sql(FAILS).await;
    site.until(FAILED, 3).await;
    // It dies while a report is on its way.
    says_nothing_of_the_address(&submitter.kill());
    assert_eq!(site.number(WAITING).await, 3);

    endpoint.answers(&[Answer::Status(200)]);
    let submitter = site.start("second", &endpoint.url);
    site.hurry().await;
    site.until(WAITING, 0).await;
    let mut reported = std::collections::BTreeSet::new();
    while let Ok(document) = endpoint.received.try_recv() {
        reported.insert(document["row"].as_i64());
    }
    assert!(reported.is_superset(&[Some(1), Some(2), Some(3)].into()), "{reported:?}");
    says_nothing_of_the_address(&submitter.kill());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_reports_as_well_and_says_what_is_wrong() {
    let site = Site::new().await;
    let run = |url: &str| {
        let output = site.command(&["--once"], Some(url)).output().expect("the submitter should start");
        says_nothing_of_the_address(&text(&output.stderr));
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = run(&format!("hooks.example/{TOKEN}"));
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("--webhook-url is not the address of a webhook; write https://HOST/PATH"),
        "{said}"
    );

    site.program.sql(FAILS).await;
    let (code, said) = run(&format!("http://127.0.0.1:9/{TOKEN}"));
    assert_eq!(code, Some(1), "the row failed: {said}");
    assert!(said.contains("the webhook does not answer: "), "{said}");
    assert_eq!((site.number(FAILED).await, site.number(WAITING).await), (1, 1));

    let mut endpoint = Endpoint::start(&[Answer::Status(200)]).await;
    site.hurry().await;
    let (code, said) = run(&endpoint.url);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(endpoint.next().await["row"], json!(1));
    assert_eq!(site.number(WAITING).await, 0);
}

#[tokio::test]
async fn what_a_completed_row_has_done_is_in_its_report() {
    let (plain, url) = migrated_store("tests").await;
    let reporting = store(&url, "tests").that_reports_ends();
    let mut endpoint = Endpoint::start(&[Answer::Status(200)]).await;
    let (webhook, metrics) = (endpoint.webhook(), Metrics::default());
    for store in [&plain, &reporting] {
        let insert = "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path, atoms, nsteps, init_step, dt_ps)
            values ('lab', 'data', 'water/topol.tpr', 2652, 5000000, 1000, 0.002)";
        sqlx::query(insert).execute(store.pool()).await.expect("should insert");
        let claim = store.claim(&rows::any(1)).await.expect("should claim").remove(0);
        let start = jiff::Timestamp::from_second(1_800_000_000).expect("should be a time");
        let status = RowStatus {
            state: RowState::Completed,
            step: Some(5_001_000),
            interruptions: 2,
            start_time: Some(start.into()),
            finish_time: Some((start + jiff::SignedDuration::from_secs(7200)).into()),
            ..claim.row.status.clone()
        };
        let changes = Changes { releases: true, ..Changes::default() };
        store.record(&claim, &status, &changes).await.expect("should record");
    }
    let sent = webhook.send_due(&reporting, &metrics).await.expect("should ask the database");
    assert_eq!(sent, Sent { delivered: 1, failed: 0 }, "the first one ended without a webhook");
    let document = endpoint.next().await;
    assert_eq!(document["row"], json!(2));
    assert_eq!(document["ns_done"], json!(10), "{document}");
    assert_eq!((&document["wall_seconds"], &document["interruptions"]), (&json!(7200), &json!(2)));
    assert_eq!(
        document["text"],
        "row 2 (water/topol.tpr) of worker is completed (10 ns, 2.0 h from start to end, 2 interruptions)"
    );
    let again = webhook.send_due(&reporting, &metrics).await.expect("should ask the database");
    assert_eq!(again, Sent::default());
}

#[tokio::test]
async fn what_nobody_takes_is_given_up() {
    let (store, _) = migrated_store("tests").await;
    let store = store.that_reports_ends();
    let insert = "insert into gromacs_to_tune (namespace, persistent_volume_claim, tpr_path)
        values ('lab', 'data', 'water/topol.tpr')";
    sqlx::query(insert).execute(store.pool()).await.expect("should insert");
    let end = "insert into gromacs_end_report (row_id, document, tries, creation_time) values
        (1, '{\"row\": 1}', 29, now()), (1, '{\"row\": 1}', 0, now() - interval '8 days')";
    sqlx::query(end).execute(store.pool()).await.expect("should insert");
    let endpoint = Endpoint::start(&[Answer::Status(404)]).await;
    let sent = endpoint.webhook().send_due(&store, &Metrics::default()).await.expect("should ask");
    assert_eq!(sent, Sent { delivered: 0, failed: 1 });
    assert_eq!(store.count_end_reports().await.expect("should count"), 0);
}
