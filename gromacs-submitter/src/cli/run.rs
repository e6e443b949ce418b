//! `run`: works on the queue, forever or once.

use std::sync::Arc;

use anyhow::Context as _;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use scavenger_program::signal::EndSignal;
use scavenger_schema::simulation::State;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::text::{Table, json as print_json, terminal_width};
use super::{Outcome, print_line};
use crate::advance::Settings;
use crate::cluster::Cluster;
use crate::config::{Database, RunOptions};
use crate::daemon::{self, Pace};
use crate::follower::Follower;
use crate::health::{self, Metrics};
use crate::heard::Heard;
use crate::manifest::ManifestSettings;
use crate::store::{Claim, ClaimOptions, Store, StoreError, WaitingRow};
use crate::tuner_client::TunerClient;
use crate::webhook::Webhook;
use crate::worker::Worker;

/// Connections beyond those of the rows in work: the loop, LISTEN, the webhook.
const EXTRA_CONNECTIONS: u32 = 3;

/// Rows write for milliseconds and wait for seconds, so they share few connections.
const MOST_CONNECTIONS: u32 = 10;

/// Files that are open besides the logs that are followed: connections to the database, requests of the rows in work,
/// a watch for each namespace.
const OTHER_FILES: rlim_t = 256;

/// Rows that wait for others, as a dry run names them.
const MOST_WAITING_ROWS: i64 = 200;

pub(super) async fn exec(database: &Database, options: RunOptions) -> anyhow::Result<Outcome> {
    anyhow::ensure!(
        options.lease.as_secs() >= 30,
        "--lease {:?} is shorter than 30s, which a request to Kubernetes and one to the tuner can take together",
        options.lease
    );
    let connections = u32::from(options.concurrency).min(MOST_CONNECTIONS) + EXTRA_CONNECTIONS;
    let store =
        Store::new(super::url(database)?, holder(), options.lease, connections, database.connect_timeout)?;
    // Kubernetes sets an empty variable where a key of a Secret is empty.
    let webhook = options.webhook_url.as_ref().filter(|url| !url.is_empty()).map(Webhook::new).transpose()?;
    let store = if webhook.is_some() { store.that_reports_ends() } else { store };
    if options.dry_run {
        store.check_schema().await?;
        let due = due(&store, &options).await?;
        let waiting = store.waiting_for_rows(MOST_WAITING_ROWS).await?;
        store.close().await;
        print_due(&due, &waiting, options.output.is_json());
        return Ok(Outcome::Done);
    }
    let queue_id = first_contact(&store, options.once).await?;
    let cluster = Cluster::connect().await?;
    let metrics = Arc::new(Metrics::default());
    let follower = if options.once {
        None
    } else {
        Some(Follower::new(cluster.clone(), logs_to_follow(options.follow)?))
    };
    let worker = Arc::new(Worker {
        store: store.clone(),
        cluster,
        follower,
        webhook,
        tuner: TunerClient::new(&options.tuner_url)?,
        settings: Settings {
            fallback_after: options.fallback_after,
            progress_interval: options.progress_interval,
            keep_jobs: options.keep_jobs,
            follows_logs: !options.once,
        },
        manifest: ManifestSettings {
            queue_id,
            gromacs_image: options.gromacs_image,
            image_pull_policy: options.image_pull_policy.into(),
            gpu_runtime_class: options.gpu_runtime_class,
        },
        metrics: Arc::clone(&metrics),
        heard: Heard::default(),
        taken: std::sync::Mutex::default(),
    });
    let pace = Pace {
        concurrency: options.concurrency.into(),
        max_waiting: options.max_waiting.into(),
        shutdown_grace: options.shutdown_grace,
    };
    if options.once {
        let all_well = daemon::run_once(worker, &pace).await?;
        store.close().await;
        return Ok(if all_well { Outcome::Done } else { Outcome::Failed });
    }
    let mut signal = EndSignal::new()?;
    let stop = Arc::new(Notify::new());
    let stop_serving = Arc::new(Notify::new());
    let serving = {
        let stop_serving = Arc::clone(&stop_serving);
        tokio::spawn(health::serve(options.listen, metrics, async move { stop_serving.notified().await }))
    };
    let mut daemon = tokio::spawn(daemon::run(worker, pace, Arc::clone(&stop)));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "works on the queue");
    tokio::select! {
        // The end of either is the end of the process: whoever started it starts it again.
        served = serving => {
            served.context("serving health ended")?.with_context(|| format!("cannot listen on {}", options.listen))?;
            anyhow::bail!("serving health ended");
        }
        ended = &mut daemon => {
            ended.context("the loop ended unexpectedly")?;
            anyhow::bail!("the loop ended although nobody asked it to");
        }
        _ = signal.next() => {}
    }
    stop.notify_one();
    daemon.await.context("the loop ended unexpectedly")?;
    stop_serving.notify_one();
    store.close().await;
    Ok(Outcome::Done)
}

/// Lets this process have as many files open as it needs, each followed log being one, and tells how many logs it can
/// follow. Many container runtimes start programs with a limit of 1,024 that they may raise by themselves.
fn logs_to_follow(wanted: u16) -> anyhow::Result<usize> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")?;
    let (needed, logs) = share_files(wanted, hard);
    if soft < needed {
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard).context("cannot raise the limit of open files")?;
    }
    if logs < wanted.into() {
        tracing::warn!(logs, wanted, files = hard, "the limit of open files lets fewer logs be followed");
    }
    Ok(logs)
}

/// The files that must be allowed, and the logs that they are enough for.
fn share_files(wanted: u16, hard: rlim_t) -> (rlim_t, usize) {
    let files = hard.min(rlim_t::from(wanted) + OTHER_FILES);
    let logs = files.saturating_sub(OTHER_FILES).min(wanted.into());
    (files, usize::try_from(logs).unwrap_or(0))
}

/// The rows that a submitter with these options would take.
async fn due(store: &Store, options: &RunOptions) -> Result<Vec<Claim>, StoreError> {
    let claim = ClaimOptions {
        limit: options.concurrency.into(),
        except: Vec::new(),
        max_waiting: options.max_waiting.into(),
        early: options.once,
    };
    store.would_claim(&claim).await
}

fn print_due(due: &[Claim], waiting: &[WaitingRow], as_json: bool) {
    if as_json {
        let rows = due.iter().map(|claim| {
            let row = &claim.row;
            json!({ "id": row.id, "owner": row.owner, "namespace": row.namespace, "tpr_path": row.tpr_path,
                "state": row.status.state.as_str(), "due": true, "reason": null })
        });
        let waiting = waiting.iter().map(|row| {
            json!({ "id": row.id, "owner": row.owner, "namespace": row.namespace, "tpr_path": row.tpr_path,
                "state": State::Queued.as_str(), "due": false, "reason": row.reason })
        });
        print_line(&print_json(&Value::Array(rows.chain(waiting).collect())));
        return;
    }
    let mut table = Table::new(&[">ROW", "OWNER", "NAMESPACE", "STATE", "FILE"]);
    for Claim { row, .. } in due {
        table.push(&[
            row.id.to_string(),
            row.owner.clone(),
            row.namespace.clone(),
            row.status.state.to_string(),
            row.tpr_path.clone(),
        ]);
    }
    if table.is_empty() {
        print_line("no row is due");
    } else {
        table.render(terminal_width()).iter().for_each(|line| print_line(line));
    }
    for row in waiting {
        print_line(&format!("row {} is not due: {}", row.id, row.reason));
    }
}

/// Waits for the database at the start of the daemon: it may come up later than the submitter. An old schema is no
/// matter of waiting.
async fn first_contact(store: &Store, once: bool) -> Result<String, StoreError> {
    loop {
        let contact = async {
            store.check_schema().await?;
            store.queue_id().await
        };
        match contact.await {
            Err(StoreError::Query(error)) if !once => {
                tracing::warn!(%error, "the database does not answer; tries again");
                tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            }
            result => return result,
        }
    }
}

/// Names this process in leases: a restarted one must not take itself for the one before.
fn holder() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "submitter".to_owned());
    format!("{host}-{}-{:08x}", std::process::id(), rand::random::<u32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_leave_files_for_everything_else() {
        assert_eq!(share_files(1000, 524_288), (1256, 1000));
        assert_eq!(share_files(1000, 1024), (1024, 768));
        assert_eq!(share_files(1000, 100), (100, 0));
    }
}
