//! Follows the logs of running attempts and writes their progress down.
//!
//! One stream per attempt, at most as many as are allowed; what is beyond is read from time to time instead. A stream
//! keeps only the newest progress, and all rows are written in one statement per interval, so neither a fast log nor
//! a slow database makes anything pile up. No stream is read faster than mdrun can write: what floods is held back
//! where it comes from. Nothing rests on it: a stream that ends is opened again when the row is looked at next, and the
//! end of an attempt is read from its kept log.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{AsyncBufRead, AsyncBufReadExt};
use jiff::Timestamp;
use scavenger_schema::scavenger_job::ScavengerJob;
use scavenger_schema::simulation::GromacsToTune;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use crate::advance::take_progress;
use crate::cluster::Cluster;
use crate::mdrun_log::{self, LogFacts};
use crate::store::{Progress, Store, StoreError};

/// A row that is followed says so at least as often, whether it has progressed or not.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);

/// Streams that are opened at the same time: a submitter that has just started has all of them to open, with two
/// requests each.
const OPENED_AT_ONCE: usize = 16;

/// A log that has nothing to say yet may let its reader wait; others are opened meanwhile.
const LONGEST_TURN: Duration = Duration::from_millis(500);

/// Most that is read of a stream in a second: eight times what mdrun writes, whose progress fills a container runtime's
/// 16 kB once in 2 s at most.
const MOST_BYTES_PER_SECOND: f64 = 65_536.0;

/// A line that is longer is none of mdrun's.
const LONGEST_LINE_BYTES: usize = 1024;

/// Rows that this process follows.
#[derive(Clone)]
pub struct Follower {
    cluster: Cluster,
    rows: Arc<Mutex<HashMap<i64, Followed>>>,
    opening: Arc<Semaphore>,
    most: usize,
}

/// UUID of the row, submission and attempt: what a row's progress belongs to. Where a backup is restored meanwhile, its number
/// is another row's.
type Attempt = (String, i32, i32);

struct Followed {
    attempt: Attempt,
    /// The row as it was when the stream was opened, with the progress since then.
    row: GromacsToTune,
    newest: Option<LogFacts>,
    written: Option<Instant>,
    /// Closes the stream. None until it is open.
    task: Option<AbortHandle>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Follower {
    /// Follows at most `most` rows.
    #[must_use]
    pub fn new(cluster: Cluster, most: usize) -> Self {
        Self { cluster, rows: Arc::default(), opening: Arc::new(Semaphore::new(OPENED_AT_ONCE)), most }
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<i64, Followed>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of rows that are followed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rows().len()
    }

    /// True if this attempt is followed.
    #[must_use]
    pub fn follows(&self, row: &GromacsToTune) -> bool {
        self.rows().get(&row.id).is_some_and(|followed| followed.attempt == attempt_of(row))
    }

    /// Follows the attempt that the row's progress belongs to, if there is room for one more; false if not.
    pub fn follow(&self, row: &GromacsToTune, job: &ScavengerJob) -> bool {
        let mut rows = self.rows();
        // An earlier attempt's stream is closed when it is replaced.
        rows.remove(&row.id);
        if rows.len() >= self.most {
            return false;
        }
        let (follower, job, id) = (self.clone(), job.clone(), row.id);
        let (namespace, attempt) = (row.namespace.clone(), attempt_of(row));
        let of_entry = attempt.clone();
        // It waits for the lock at its first word, so the entry is there before it ends.
        let task = tokio::spawn(async move {
            let opened = {
                let mut turn = follower.opening.acquire().await.ok();
                let mut opening = pin!(follower.cluster.follow(&namespace, &job, attempt.2));
                match tokio::time::timeout(LONGEST_TURN, &mut opening).await {
                    Ok(opened) => opened,
                    Err(_) => {
                        turn.take();
                        opening.await
                    }
                }
            };
            // What a stream holds while it is open, it holds a thousand times.
            drop((namespace, job));
            match opened {
                Ok(Some(stream)) => {
                    let note = |facts| follower.note(id, &attempt, facts);
                    if let Err(error) = newest_progress(stream, note).await {
                        tracing::debug!(row = id, %error, "a log broke off; it is opened again");
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(row = id, %error, "a log cannot be followed"),
            }
            follower.forget(id, &attempt);
        });
        let followed = Followed {
            attempt: of_entry,
            row: row.clone(),
            newest: None,
            written: None,
            task: Some(task.abort_handle()),
        };
        rows.insert(id, followed);
        true
    }

    fn note(&self, id: i64, attempt: &Attempt, facts: LogFacts) {
        if let Some(followed) = self.rows().get_mut(&id).filter(|followed| followed.attempt == *attempt) {
            followed.newest = Some(facts);
        }
    }

    /// The stream ended; what it said last is still written.
    fn forget(&self, id: i64, attempt: &Attempt) {
        let mut rows = self.rows();
        let Some(followed) = rows.get_mut(&id).filter(|followed| followed.attempt == *attempt) else {
            return;
        };
        followed.task = None;
        if followed.newest.is_none() {
            rows.remove(&id);
        }
    }

    /// Writes what is new, in one statement.
    ///
    /// # Errors
    /// The database's; nothing is lost, since the newest progress is written the next time.
    pub async fn write(&self, store: &Store, now: Timestamp) -> Result<(), StoreError> {
        let progress = self.due(now);
        if progress.is_empty() {
            return Ok(());
        }
        let answers = store.write_progress(&progress).await?;
        let mut rows = self.rows();
        for (id, is_ours) in answers {
            if !is_ours {
                // Another submitter follows it, or it does not run any more.
                rows.remove(&id);
            } else if let Some(followed) = rows.get_mut(&id) {
                followed.written = Some(Instant::now());
            }
        }
        // What ended and was written is done.
        rows.retain(|_, followed| followed.task.is_some() || followed.newest.is_some());
        Ok(())
    }

    /// The rows that have something to say.
    fn due(&self, now: Timestamp) -> Vec<Progress> {
        let mut rows = self.rows();
        let mut due = Vec::new();
        for followed in rows.values_mut() {
            let newest = followed.newest.take();
            if newest.is_none() && followed.written.is_some_and(|written| written.elapsed() < SIGN_OF_LIFE) {
                continue;
            }
            if let Some(facts) = newest {
                let mut status = followed.row.status.clone();
                take_progress(&mut status, &facts, &followed.row, now);
                followed.row.status = status;
            }
            let status = &followed.row.status;
            due.push(Progress {
                row: followed.row.id,
                uuid: followed.row.uuid.clone(),
                submission: status.submission,
                attempt: status.attempt,
                step: status.step,
                ns_per_day: status.ns_per_day,
                time: status.progress_time.map(Timestamp::from),
            });
        }
        due
    }
}

fn attempt_of(row: &GromacsToTune) -> Attempt {
    (row.uuid.clone(), row.status.submission, row.status.attempt)
}

/// Reads a log to its end and tells each newest progress.
async fn newest_progress(
    stream: impl AsyncBufRead,
    mut note: impl FnMut(LogFacts),
) -> Result<(), std::io::Error> {
    futures::pin_mut!(stream);
    // The line whose end has not come yet.
    let mut cut: Vec<u8> = Vec::new();
    loop {
        let piece = stream.fill_buf().await?;
        let length = piece.len();
        if length == 0 {
            return Ok(());
        }
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        match (piece.iter().position(is_end), piece.iter().rposition(is_end)) {
            (Some(first), Some(last)) => {
                // Only the line that was cut in two is copied.
                cut.extend_from_slice(&piece[..=first]);
                // Of 300 lines of progress the newest counts; the others are read only if it is not at the end.
                let whole = &piece[first..=last];
                let behind = whole.len().saturating_sub(LONGEST_LINE_BYTES);
                let end = behind + whole[behind..].iter().position(is_end).unwrap_or(0);
                let newest = [&whole[end..], whole, &cut]
                    .iter()
                    .map(|lines| mdrun_log::parse(&String::from_utf8_lossy(lines)))
                    .find(|facts| facts.last_step.is_some());
                if let Some(facts) = newest {
                    note(facts);
                }
                cut.clear();
                cut.extend_from_slice(&piece[last + 1..]);
            }
            _ => cut.extend_from_slice(piece),
        }
        if cut.len() > LONGEST_LINE_BYTES {
            cut.clear();
        }
        // Most of the time a stream waits, and should hold little then.
        cut.shrink_to(LONGEST_LINE_BYTES);
        stream.consume_unpin(length);
        tokio::time::sleep(Duration::from_secs_f64(length as f64 / MOST_BYTES_PER_SECOND)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn steps_of(chunks: &[&str]) -> Vec<i64> {
        let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
            chunks.iter().map(|chunk| Ok(chunk.as_bytes().to_vec())).collect();
        let stream = futures::stream::iter(chunks);
        let mut steps = Vec::new();
        newest_progress(futures::TryStreamExt::into_async_read(stream), |facts| {
            steps.extend(facts.last_step);
        })
        .await
        .expect("should read to the end");
        steps
    }

    #[tokio::test]
    async fn the_newest_progress_of_each_piece_counts() {
        let pieces = [
            "\rstep 10, remaining wall clock time: 9 s \rstep 20, remaining",
            " wall clock time: 8 s \rstep 3",
            "0\r",
        ];
        assert_eq!(steps_of(&pieces).await, [10, 20, 30], "numbers that are cut in two are put together");
    }

    #[tokio::test]
    async fn what_is_no_progress_takes_no_memory() {
        let line = "x".repeat(LONGEST_LINE_BYTES + 1);
        assert_eq!(steps_of(&[&line, &line, "\nstep 7\n"]).await, [7]);
        assert_eq!(steps_of(&["Writing final coordinates.\n"]).await, Vec::<i64>::new());
    }
    #[tokio::test]
    async fn what_floods_is_held_back() {
        let piece = "\rstep 7, remaining wall clock time: 9 s".repeat(400);
        let least = Duration::from_secs_f64(3.0 * piece.len() as f64 / MOST_BYTES_PER_SECOND);
        let begun = Instant::now();
        assert_eq!(steps_of(&[&piece, &piece, &piece]).await, [7, 7, 7]);
        assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    }
}
