//! What it costs to follow 1,000 running simulations, and how far behind their logs the rows are: `cargo bench -p
//! gromacs-submitter --bench follower`.
//!
//! The API server is a stand-in on the loopback device, in a process of its own, that answers as the real one does to
//! the two requests that following makes; the logs are as mdrun and a container runtime make them: 16 kB of progress
//! lines every 2 s, cut anywhere. Client, parser, follower and Postgres are the real ones, without TLS. Each line's step
//! is the time at which it was written, in milliseconds, so that the row tells how old its progress is.
//!
//! Ends with an error if rows fall behind, if a log that floods or hangs holds up the others, or if memory grows while
//! nothing can be written down.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a program that measures"
)]
#![allow(missing_docs, reason = "a program")]

#[path = "../tests/postgres/mod.rs"]
mod postgres;
#[path = "../tests/rows/mod.rs"]
mod rows;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::routing::get;
use futures::StreamExt as _;
use gromacs_submitter::cluster::Cluster;
use gromacs_submitter::follower::Follower;
use gromacs_submitter::manifest::{ManifestSettings, Terms, simulation_job};
use gromacs_submitter::store::Store;
use jiff::Timestamp;
use postgres::{as_role, migrated_store, store};
use rows::{any, rung};
use scavenger_schema::scavenger_job::ImagePullPolicy;
use serde::{Deserialize, Serialize};

/// Simulations that run.
const STREAMS: usize = 1000;

/// How often a container runtime has 16 kB of mdrun's progress together at most, see `step_interval`.
const PIECE_INTERVAL: Duration = Duration::from_secs(2);
const PIECE_BYTES: usize = 16 * 1024;

/// How often rows are written, and how long each part is watched.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(20);

/// Of the rows with an ordinary log, the oldest progress is at most so old: an interval of the pieces and one of the
/// writes are 3 s, the rest is for a busy machine. A follower that cannot keep up falls behind ever more.
const OLDEST: Duration = Duration::from_secs(10);

/// Most by which the logs that are not as they should be make the others' progress older, at the 99th percentile.
const HELD_UP: f64 = 2.0;

/// Most memory for each stream, most of which is the buffer of its connection.
const MOST_BYTES_PER_STREAM: usize = 160 * 1024;

/// Environment variable that makes this program the stand-in.
const SERVES: &str = "FOLLOWER_BENCH_SERVES";

/// Logs that are not as they should be: every so many-th row's.
const ODD: i64 = 20;

fn main() {
    // Nothing here is encrypted, but clients are made with a provider or not at all.
    rustls::crypto::ring::default_provider().install_default().expect("should be the first");
    let runtime = tokio::runtime::Runtime::new().expect("should start");
    if std::env::var_os(SERVES).is_some() {
        runtime.block_on(serve());
    } else {
        runtime.block_on(measure());
    }
}

fn milliseconds_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("should be after 1970");
    i64::try_from(now.as_millis()).expect("should be before the sun goes out")
}

/// The stand-in, and what it saw.
#[derive(Default)]
struct Logs {
    open: AtomicUsize,
    listed: AtomicUsize,
    listed_at_once: AtomicUsize,
    opening: AtomicUsize,
    odd_bytes: AtomicUsize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Counts {
    open: usize,
    /// Most requests for a pod's name at the same time.
    at_once: usize,
    /// Sent by logs that flood.
    odd_bytes: usize,
}

#[derive(Deserialize)]
struct Selected {
    #[serde(rename = "labelSelector")]
    selector: String,
}

async fn serve() {
    let logs = Arc::new(Logs::default());
    let router = Router::new()
        .route("/api/v1/namespaces/lab/pods", get(list_pods))
        .route("/api/v1/namespaces/lab/pods/{pod}/log", get(log))
        .route("/counts", get(counts))
        .with_state(logs);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("should bind");
    println!("{}", listener.local_addr().expect("should have an address"));
    axum::serve(listener, router).await.expect("should serve");
}

async fn counts(State(logs): State<Arc<Logs>>) -> axum::Json<Counts> {
    axum::Json(Counts {
        open: logs.open.load(Ordering::Relaxed),
        at_once: logs.listed_at_once.load(Ordering::Relaxed),
        odd_bytes: logs.odd_bytes.load(Ordering::Relaxed),
    })
}

async fn list_pods(
    State(logs): State<Arc<Logs>>,
    Query(selected): Query<Selected>,
) -> axum::Json<serde_json::Value> {
    let at_once = logs.opening.fetch_add(1, Ordering::Relaxed) + 1;
    logs.listed_at_once.fetch_max(at_once, Ordering::Relaxed);
    logs.listed.fetch_add(1, Ordering::Relaxed);
    // An API server takes some milliseconds.
    tokio::time::sleep(Duration::from_millis(5)).await;
    logs.opening.fetch_sub(1, Ordering::Relaxed);
    let uid = selected.selector.split(['=', ',']).nth(1).unwrap_or_default().to_owned();
    axum::Json(serde_json::json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
        "items": [{ "metadata": { "name": format!("pod-{uid}"), "namespace": "lab" } }],
    }))
}

/// Counts a log as open until the client is gone.
struct Open(Arc<Logs>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn log(State(logs): State<Arc<Logs>>, Path(pod): Path<String>) -> Body {
    logs.open.fetch_add(1, Ordering::Relaxed);
    let open = Open(Arc::clone(&logs));
    let id: i64 = pod.trim_start_matches("pod-").parse().expect("should be a row's number");
    // Not all at the same moment.
    let phase = PIECE_INTERVAL * u32::try_from(id % 1000).expect("should be small") / 1000;
    let pieces = futures::stream::unfold((open, true), move |(open, is_first)| async move {
        let piece = match kind(id) {
            Kind::Ordinary => {
                tokio::time::sleep(if is_first { phase } else { PIECE_INTERVAL }).await;
                piece()
            }
            Kind::Floods => piece(),
            Kind::Endless => Bytes::from(vec![b'x'; PIECE_BYTES]),
            Kind::Hangs => {
                futures::future::pending::<()>().await;
                Bytes::new()
            }
        };
        if kind(id) != Kind::Ordinary {
            open.0.odd_bytes.fetch_add(piece.len(), Ordering::Relaxed);
        }
        Some((Ok::<_, std::io::Error>(piece), (open, false)))
    });
    Body::from_stream(pieces.boxed())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ordinary,
    /// Progress lines as fast as they are taken.
    Floods,
    /// No line end.
    Endless,
    /// Nothing.
    Hangs,
}

/// Rows beyond the first thousand have logs that are not all as they should be.
fn kind(id: i64) -> Kind {
    match (id > i64::try_from(STREAMS).expect("should be small"), id % ODD) {
        (true, 0) => Kind::Floods,
        (true, 1) => Kind::Endless,
        (true, 2) => Kind::Hangs,
        _ => Kind::Ordinary,
    }
}

/// What mdrun wrote since the last piece, cut in the middle of a line.
fn piece() -> Bytes {
    let line = format!("\rstep {}, remaining wall clock time:  1234 s          ", milliseconds_now());
    let mut piece = line.repeat(PIECE_BYTES / line.len() + 1).into_bytes();
    piece.truncate(PIECE_BYTES);
    piece.into()
}

struct Server {
    child: Child,
    url: String,
    /// Making one reads all certificates of the machine.
    client: reqwest::Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().expect("should know itself"))
            .env(SERVES, "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("should start itself");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("should be piped"))
            .read_line(&mut address)
            .expect("should tell its address");
        Self { child, url: format!("http://{}", address.trim()), client: reqwest::Client::new() }
    }

    async fn counts(&self) -> Counts {
        let request = self.client.get(format!("{}/counts", self.url));
        let text = request.send().await.expect("should answer");
        text.json().await.expect("should count")
    }
}

/// Seconds of processor time that this process has used.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("should be Linux");
    let (_, fields) = stat.rsplit_once(')').expect("should have a name");
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
    // USER_HZ is 100 everywhere.
    ticks as f64 / 100.0
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("should be Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("should tell");
    1024 * line.split_whitespace().nth(1).expect("should be a number").parse::<usize>().expect("a number")
}

async fn measure() {
    let server = Server::start();
    let (submitter, url) = migrated_store("bench").await;
    let admin = store(&as_role(&url, "tester"), "admin");
    let client = kube::Client::try_from(kube::Config::new(server.url.parse().expect("should be a URL")))
        .expect("should make a client");
    let cluster = Cluster::with_client(client);
    println!(
        "{STREAMS} logs, {PIECE_BYTES} bytes every {PIECE_INTERVAL:?} each, written down every {WRITE_INTERVAL:?}"
    );
    let before = resident_bytes();
    let mut ages = Vec::new();
    for (part, first) in
        [("all as mdrun writes them", 1), ("5% flood, 5% without line ends, 5% hang", STREAMS + 1)]
    {
        ages.push(watch(&server, &cluster, &submitter, &admin, part, first, before).await);
    }
    let held_up = ages[1] as f64 / ages[0] as f64;
    assert!(held_up <= HELD_UP, "the others' progress is {held_up:.1} times as old");
}

/// Prints what it measured, and returns the age of the progress at the 99th percentile.
async fn watch(
    server: &Server,
    cluster: &Cluster,
    submitter: &Store,
    admin: &Store,
    part: &str,
    first: usize,
    before: usize,
) -> i64 {
    let follower = Follower::new(cluster.clone(), STREAMS);
    let begun = Instant::now();
    follow_all(&follower, submitter, admin, first).await;
    while server.counts().await.open < STREAMS {
        assert!(
            begun.elapsed() < Duration::from_secs(180),
            "not all logs were opened: {:?}",
            server.counts().await
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("\n{part}\n  all followed after {:.1} s", begun.elapsed().as_secs_f64());
    // The first pieces of all.
    let settled = Instant::now() + PIECE_INTERVAL + WRITE_INTERVAL;
    let (mut lags, mut writes) = (Vec::new(), Vec::new());
    let mut every = tokio::time::interval(WRITE_INTERVAL);
    let (mut processor, mut odd, mut since) = (0.0, 0, Instant::now());
    let mut is_settled = false;
    while since.elapsed() < WATCHED || !is_settled {
        every.tick().await;
        let begun = Instant::now();
        follower.write(submitter, Timestamp::now()).await.expect("should write");
        let took = begun.elapsed();
        if !is_settled {
            if Instant::now() >= settled {
                (processor, odd, since) =
                    (processor_seconds(), server.counts().await.odd_bytes, Instant::now());
                is_settled = true;
            }
            continue;
        }
        writes.push(took);
        lags.extend(ages(admin, first).await);
    }
    let seconds = since.elapsed().as_secs_f64();
    let busy = (processor_seconds() - processor) / seconds;
    let odd = (server.counts().await.odd_bytes - odd) as f64 / seconds / 1e6;
    lags.sort_unstable();
    writes.sort_unstable();
    println!(
        "  age of the progress in the rows: median {} ms, 99% {} ms, most {} ms",
        lags[lags.len() / 2],
        lags[lags.len() * 99 / 100],
        lags[lags.len() - 1]
    );
    println!(
        "  writing them down: median {:?}, most {:?}",
        writes[writes.len() / 2],
        writes[writes.len() - 1]
    );
    println!("  processor: {:.1}% of a core; {odd:.1} MB/s of what is not as it should be", 100.0 * busy);
    let followed = resident_bytes();
    // The database is away.
    tokio::time::sleep(5 * PIECE_INTERVAL).await;
    let later = resident_bytes();
    let each = later.saturating_sub(before) / STREAMS;
    println!(
        "  memory: {:.1} MB, {:.1} MB before, {:.1} MB after {:?} without a database: {} kB for each log",
        followed as f64 / 1e6,
        before as f64 / 1e6,
        later as f64 / 1e6,
        5 * PIECE_INTERVAL,
        each / 1000
    );
    println!("  at most {} logs looked for at once", server.counts().await.at_once);
    let oldest = Duration::from_millis(u64::try_from(lags[lags.len() - 1]).expect("should be positive"));
    assert!(oldest <= OLDEST, "the oldest progress is {oldest:?} old, {OLDEST:?} are allowed");
    assert!(each <= MOST_BYTES_PER_STREAM, "{each} bytes for each log, {MOST_BYTES_PER_STREAM} are allowed");
    end_all(&follower, submitter, admin).await;
    lags[lags.len() * 99 / 100]
}

/// The simulations end, and with them their streams.
async fn end_all(follower: &Follower, submitter: &Store, admin: &Store) {
    sqlx::query("update gromacs_to_tune set state = 'completed' where state = 'running'")
        .execute(admin.pool())
        .await
        .expect("should end");
    let begun = Instant::now();
    while follower.count() > 0 && begun.elapsed() < Duration::from_secs(60) {
        follower.write(submitter, Timestamp::now()).await.expect("should write");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(follower.count(), 0, "should follow nothing that has ended");
}

/// So many rows whose first attempt runs, followed.
async fn follow_all(follower: &Follower, submitter: &Store, admin: &Store, first: usize) {
    sqlx::query(
        "insert into gromacs_to_tune (owner, namespace, persistent_volume_claim, tpr_path, atoms, nsteps, dt_ps)
        select 'worker', 'lab', 'data', n || '.tpr', 1000, 9000000000000, 0.002
        from generate_series($1, $1 + $2 - 1) n",
    )
    .bind(i64::try_from(first).expect("should be small"))
    .bind(i64::try_from(STREAMS).expect("should be small"))
    .execute(admin.pool())
    .await
    .expect("should insert");
    sqlx::query(
        "update gromacs_to_tune set state = 'running', attempt = 1, first_step = 0 where state = 'queued'",
    )
    .execute(admin.pool())
    .await
    .expect("should run");
    let claims = submitter.claim(&any(STREAMS)).await.expect("should claim");
    assert_eq!(claims.len(), STREAMS);
    let settings = ManifestSettings {
        queue_id: "bench".to_owned(),
        gromacs_image: "gromacs".to_owned(),
        image_pull_policy: ImagePullPolicy::IfNotPresent,
        gpu_runtime_class: None,
    };
    let terms = Terms {
        longest_grace: 60,
        supervised: false,
        tolerated_taints: Vec::new(),
        gpu_resource: None,
        restart_seconds: None,
    };
    for claim in claims {
        let mut job = simulation_job(&claim.row, &rung(1, 1000), &settings, &terms);
        job.metadata.uid = Some(claim.row.id.to_string());
        assert!(follower.follow(&claim.row, &job), "should follow");
    }
}

/// Milliseconds since what the rows with an ordinary log tell was written to it.
async fn ages(admin: &Store, first: usize) -> Vec<i64> {
    let steps: Vec<(i64, Option<i64>)> =
        sqlx::query_as("select id, step from gromacs_to_tune where state = 'running' and id >= $1")
            .bind(i64::try_from(first).expect("should be small"))
            .fetch_all(admin.pool())
            .await
            .expect("should read");
    let now = milliseconds_now();
    steps
        .into_iter()
        .filter(|(id, _)| kind(*id) == Kind::Ordinary)
        .map(|(id, step)| now - step.unwrap_or_else(|| panic!("row {id} has no progress")))
        .collect()
}
