//! Everything the program waits for, in one queue: signals, lines from peers, and the passing of time.

use std::net::TcpStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use nix::sys::signal::{SigSet, Signal};

/// Something that happened outside.
#[derive(Debug)]
pub(crate) enum Event {
    /// SIGTERM (or SIGINT, from a terminal).
    Terminate,
    /// Someone connected to the leader.
    Connected(TcpStream),
    /// The leader was reached.
    Reached(TcpStream),
    /// A peer sent a line.
    Line(usize, String),
    /// A peer's connection ended, and why.
    Gone(usize, String),
}

/// Why signals cannot be waited for.
#[derive(Debug, thiserror::Error)]
#[error("cannot wait for signals")]
pub(crate) struct Error(#[from] nix::errno::Errno);

/// The queue.
#[derive(Debug)]
pub(crate) struct Events {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
}

impl Events {
    /// A queue without signals.
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver }
    }

    /// Blocks SIGTERM and SIGINT for this thread and those it will start, and turns them into events.
    pub(crate) fn with_signals() -> Result<Self, Error> {
        let events = Self::new();
        let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
        signals.thread_block()?;
        let sender = events.sender();
        thread::spawn(move || {
            while signals.wait().is_ok() {
                if sender.send(Event::Terminate).is_err() {
                    break;
                }
            }
        });
        Ok(events)
    }

    /// A handle with which a thread reports events.
    pub(crate) fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// The next event, or nothing once `deadline` has passed.
    pub(crate) fn next_before(&self, deadline: Instant) -> Option<Event> {
        // The only other error is a queue without senders, and this struct holds one.
        self.receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }
}
