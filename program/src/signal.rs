//! SIGTERM and SIGINT: the process is to end.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Either signal, from the moment on at which this was made.
///
/// Made first of all: process 1 of a container does not end by a signal that it has no handler for yet, so one that came
/// before would be lost.
#[derive(Debug)]
pub struct EndSignal {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignal {
    /// Handles both signals from now on.
    ///
    /// # Errors
    /// If a handler cannot be installed.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot handle SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot handle SIGINT")?,
        })
    }

    /// Waits for the next of them, and names it. One that came since the last call is not lost.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;

    #[tokio::test]
    async fn a_signal_that_comes_before_it_is_waited_for_is_not_lost() {
        let mut signal = EndSignal::new().unwrap();
        let own = std::process::id().to_string();
        assert!(Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
        let name = tokio::time::timeout(Duration::from_secs(60), signal.next()).await.unwrap();
        assert_eq!(name, "SIGTERM");
    }
}
