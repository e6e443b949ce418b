//! The input and output of a command in a container. A connection that breaks is not the end of the output: only the exit status
//! is.

use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::AttachedProcess;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, SimplexStream, WriteHalf};

/// Bytes that are taken at a time.
const PIECE_BYTES: usize = 64 << 10;

/// How much of what a command complains about is kept.
const MOST_COMPLAINT_BYTES: usize = 4096;

/// Exit code of a command that did not even start.
const NOT_STARTED: i32 = 126;

/// Why the output did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The connection ended before the command did.
    #[error("the connection to pod {0} broke; run the command again")]
    Break(String),
    /// Nothing came for too long.
    #[error("pod {pod} sent nothing for {} s; check the network, and run the command again", silence.as_secs())]
    Hear {
        /// The pod.
        pod: String,
        /// How long.
        silence: Duration,
    },
    /// Nothing was taken for too long.
    #[error("pod {pod} took nothing for {} s; check the network, and run the command again", silence.as_secs())]
    Send {
        /// The pod.
        pod: String,
        /// How long.
        silence: Duration,
    },
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Exit code.
    pub code: i32,
    /// What it wrote to standard error.
    pub complaint: String,
}

/// A command that runs.
pub struct Exec {
    pod: String,
    /// The connection, which ends with it.
    _process: AttachedProcess,
    stdin: Option<WriteHalf<SimplexStream>>,
    stdout: Option<ReadHalf<SimplexStream>>,
    stderr: Option<ReadHalf<SimplexStream>>,
    status: Pin<Box<dyn Future<Output = Option<Status>> + Send>>,
    ended: Option<Status>,
    complaint: Vec<u8>,
}

impl Exec {
    pub(super) fn new(pod: &str, mut process: AttachedProcess) -> Self {
        let status = process.take_status();
        Self {
            pod: pod.to_owned(),
            stdin: process.stdin(),
            stdout: process.stdout(),
            stderr: process.stderr(),
            status: Box::pin(async { status?.await }),
            _process: process,
            ended: None,
            complaint: Vec::new(),
        }
    }

    /// The next bytes that it prints; none at its end.
    ///
    /// # Errors
    /// [`ExecError`] if the connection breaks, or nothing comes for as long as `silence`.
    pub async fn next(&mut self, silence: Option<Duration>) -> Result<Option<Vec<u8>>, ExecError> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut complaint = [0; 1024];
        loop {
            if self.stdout.is_none() && self.stderr.is_none() && self.ended.is_some() {
                return Ok(None);
            }
            let quiet = async {
                match silence {
                    Some(silence) => tokio::time::sleep(silence).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                length = read(self.stdout.as_mut(), &mut piece) => {
                    if length > 0 {
                        piece.truncate(length);
                        return Ok(Some(piece));
                    }
                    self.stdout = None;
                }
                length = read(self.stderr.as_mut(), &mut complaint) => self.complain(&complaint[..length]),
                // The client does not end the streams of a connection that broke, but drops this.
                status = &mut self.status, if self.ended.is_none() => match status {
                    Some(status) => self.ended = Some(status),
                    None => return Err(ExecError::Break(self.pod.clone())),
                },
                () = quiet => {
                    let silence = silence.unwrap_or_default();
                    return Err(ExecError::Hear { pod: self.pod.clone(), silence });
                }
            }
        }
    }

    /// Sends bytes to it; false if it ended before it had taken them.
    ///
    /// # Errors
    /// [`ExecError`] if the connection breaks, or nothing is taken for as long as `silence`.
    pub async fn send(&mut self, bytes: &[u8], silence: Duration) -> Result<bool, ExecError> {
        let mut left = bytes;
        let mut complaint = [0; 1024];
        while !left.is_empty() {
            if self.ended.is_some() {
                return Ok(false);
            }
            tokio::select! {
                taken = write(self.stdin.as_mut(), left) => left = &left[taken..],
                length = read(self.stderr.as_mut(), &mut complaint) => self.complain(&complaint[..length]),
                // Nobody takes anything any more from the moment on at which this comes.
                status = &mut self.status => match status {
                    Some(status) => self.ended = Some(status),
                    None => return Err(ExecError::Break(self.pod.clone())),
                },
                () = tokio::time::sleep(silence) => {
                    return Err(ExecError::Send { pod: self.pod.clone(), silence });
                }
            }
        }
        Ok(true)
    }

    /// Keeps what it complains about; nothing more comes after nothing.
    fn complain(&mut self, words: &[u8]) {
        let kept = words.len().min(MOST_COMPLAINT_BYTES - self.complaint.len());
        self.complaint.extend_from_slice(&words[..kept]);
        if words.is_empty() {
            self.stderr = None;
        }
    }

    /// How it ended; what it prints until then is dropped.
    ///
    /// # Errors
    /// [`ExecError`].
    pub async fn end(mut self) -> Result<Ended, ExecError> {
        while self.next(None).await?.is_some() {}
        let status = self.ended.take().unwrap_or_default();
        let mut complaint = String::from_utf8_lossy(&self.complaint).trim().to_owned();
        let code = exit_code(&status);
        if code == NOT_STARTED && complaint.is_empty() {
            complaint = status.message.unwrap_or_default();
        }
        Ok(Ended { code, complaint })
    }

    /// All that it prints, and how it ended.
    ///
    /// # Errors
    /// [`ExecError`].
    pub async fn all(mut self) -> Result<(Vec<u8>, Ended), ExecError> {
        let mut printed = Vec::new();
        while let Some(piece) = self.next(None).await? {
            printed.extend_from_slice(&piece);
        }
        Ok((printed, self.end().await?))
    }
}

/// Bytes that were read, 0 at the end; a stream that has ended says nothing more.
async fn read(stream: Option<&mut ReadHalf<SimplexStream>>, into: &mut [u8]) -> usize {
    match stream {
        // It is memory of this process: reading it cannot fail.
        Some(stream) => stream.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Bytes that were taken.
async fn write(stream: Option<&mut WriteHalf<SimplexStream>>, bytes: &[u8]) -> usize {
    match stream {
        // It is memory of this process, which nobody closes.
        Some(stream) => stream.write(bytes).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

fn exit_code(status: &Status) -> i32 {
    if status.status.as_deref() == Some("Success") {
        return 0;
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let code = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    code.filter_map(|cause| cause.message.as_deref()?.parse().ok()).next().unwrap_or(NOT_STARTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_stands_among_the_causes() {
        let read =
            |value: serde_json::Value| exit_code(&serde_json::from_value(value).expect("should be a status"));
        assert_eq!(read(serde_json::json!({ "status": "Success" })), 0);
        let failed = serde_json::json!({
            "status": "Failure", "reason": "NonZeroExitCode",
            "details": { "causes": [{ "reason": "ExitCode", "message": "4" }] },
        });
        assert_eq!(read(failed), 4);
        assert_eq!(read(serde_json::json!({ "status": "Failure", "message": "no sh" })), NOT_STARTED);
    }
}
