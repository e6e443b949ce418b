//! Several pods that count in step over TCP.
//!
//! The pod with index 0 leads. Everything is lines of text: a follower says `hello INDEX`, the leader answers
//! `start ATTEMPT COUNT` once all are there, then for each step `go N`, which a follower answers with `did N`,
//! and finally `end N`. Whoever loses a peer fails: there is no way to go on without it.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use crate::checkpoint::Checkpoint;
use crate::count::{self, Ending, say};
use crate::events::{Event, Events};
use crate::journal::{Event as Entry, Journal};
use crate::settings::{Gang, OnSigterm, Settings};

/// Pause between two tries to reach the leader, whose name may not resolve yet.
const RETRY: Duration = Duration::from_millis(250);
/// A pod that was just created may drop packets for a moment; better try again than wait for the kernel.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a gang could not be formed at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot listen on port {port}")]
    Listen { port: u16, source: std::io::Error },
}

/// How the search for followers ended.
pub(crate) enum Gathering {
    /// All are connected.
    All(Followers),
    /// SIGTERM came first.
    Stopped,
    /// Somebody is missing.
    Failed(String),
}

/// The leader's view of the other pods.
#[derive(Debug)]
pub(crate) struct Followers {
    connected: Vec<Follower>,
    timeout: Duration,
}

#[derive(Debug)]
struct Follower {
    connection: usize,
    index: usize,
    stream: TcpStream,
    did: u64,
}

impl Followers {
    /// A count without a gang.
    pub(crate) fn none() -> Self {
        Self { connected: Vec::new(), timeout: Duration::ZERO }
    }

    /// Waits until every follower has said hello.
    pub(crate) fn gather(gang: &Gang, events: &Events, on_sigterm: OnSigterm) -> Result<Gathering, Error> {
        let deadline = Instant::now() + gang.start_timeout;
        let listener = TcpListener::bind(("0.0.0.0", gang.port))
            .map_err(|source| Error::Listen { port: gang.port, source })?;
        let sender = events.sender();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if sender.send(Event::Connected(stream)).is_err() {
                    break;
                }
            }
        });

        let mut unnamed: Vec<Option<TcpStream>> = Vec::new();
        let mut followers = Self { connected: Vec::new(), timeout: gang.peer_timeout };
        while followers.connected.len() + 1 < gang.size {
            match events.next_before(deadline) {
                Some(Event::Terminate) if on_sigterm == OnSigterm::Ignore => {}
                Some(Event::Terminate) => return Ok(Gathering::Stopped),
                Some(Event::Connected(stream)) => {
                    let reading = prepare(&stream, gang.peer_timeout).and_then(|()| stream.try_clone());
                    if let Ok(reading) = reading {
                        read_lines(unnamed.len(), reading, events.sender());
                        unnamed.push(Some(stream));
                    }
                }
                Some(Event::Line(connection, line)) => {
                    let index = line.strip_prefix("hello ").and_then(|index| index.parse().ok());
                    let stream = unnamed.get_mut(connection).and_then(Option::take);
                    if let (Some(index), Some(stream)) = (index, stream) {
                        // A pod that was replaced says hello again: the newest connection counts.
                        followers.connected.retain(|known| known.index != index);
                        if (1..gang.size).contains(&index) {
                            followers.connected.push(Follower { connection, index, stream, did: 0 });
                        }
                    }
                }
                Some(Event::Gone(connection, _)) => {
                    followers.connected.retain(|known| known.connection != connection);
                }
                Some(Event::Reached(_)) => {}
                None => {
                    let missing = gang.size - 1 - followers.connected.len();
                    return Ok(Gathering::Failed(format!(
                        "{missing} of {} peers did not connect within {:?}",
                        gang.size - 1,
                        gang.start_timeout
                    )));
                }
            }
        }
        followers.connected.sort_by_key(|follower| follower.index);
        Ok(Gathering::All(followers))
    }

    /// Tells everyone where to go on from.
    pub(crate) fn start(&mut self, from: Checkpoint) -> Result<(), String> {
        self.tell(&format!("start {} {}", from.attempt, from.count))
    }

    /// Lets everyone begin a step.
    pub(crate) fn go(&mut self, step: u64) -> Result<(), String> {
        self.tell(&format!("go {step}"))
    }

    /// Tells everyone that the work is done. Whoever is gone by now is not missed.
    pub(crate) fn end(&mut self, count: u64) {
        self.tell(&format!("end {count}")).ok();
    }

    /// Whether everyone has finished the step.
    pub(crate) fn all_did(&self, step: u64) -> bool {
        self.connected.iter().all(|follower| follower.did >= step)
    }

    /// How long a follower may be silent.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Says who has not finished the step.
    pub(crate) fn silent(&self, step: u64) -> String {
        let silent: Vec<_> =
            self.connected.iter().filter(|peer| peer.did < step).map(|peer| peer.index.to_string()).collect();
        format!("lost peer {}: silent for {:?}", silent.join(", "), self.timeout)
    }

    /// Takes note of what a follower said.
    pub(crate) fn hear(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Line(connection, line) => {
                let step = line.strip_prefix("did ").and_then(|step| step.parse().ok());
                let peer = self.connected.iter_mut().find(|peer| peer.connection == connection);
                if let (Some(step), Some(peer)) = (step, peer) {
                    peer.did = step;
                }
                Ok(())
            }
            Event::Gone(connection, why) => {
                match self.connected.iter().find(|peer| peer.connection == connection) {
                    Some(peer) => Err(format!("lost peer {}: {why}", peer.index)),
                    None => Ok(()),
                }
            }
            // A stranger: nobody joins a count that has begun.
            Event::Terminate | Event::Connected(_) | Event::Reached(_) => Ok(()),
        }
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        for peer in &mut self.connected {
            send(&mut peer.stream, line).map_err(|error| format!("lost peer {}: {error}", peer.index))?;
        }
        Ok(())
    }
}

/// Counts along with the leader.
pub(crate) fn follow(settings: &Settings, gang: &Gang, events: &Events) -> Result<Ending, count::Error> {
    let journal = Journal::open(settings.journal.as_deref())?;
    let mut follower = Following { settings, gang, journal, reached: Checkpoint { attempt: 0, count: 0 } };
    match follower.follow(events) {
        Ok(ending) => Ok(ending),
        Err(Lost::Stopped) => {
            follower.note(Entry::Sigterm)?;
            say(&format!("stopped {}", follower.reached.count));
            Ok(Ending::Stopped(settings.on_sigterm))
        }
        Err(Lost::Leader(why)) => {
            follower.note(Entry::Fail)?;
            say(&format!("failed {}: lost the leader {}: {why}", follower.reached.count, gang.leader));
            Ok(Ending::Failed)
        }
        Err(Lost::Journal(error)) => Err(error),
    }
}

struct Following<'a> {
    settings: &'a Settings,
    gang: &'a Gang,
    journal: Journal,
    reached: Checkpoint,
}

/// Why a follower cannot go on.
enum Lost {
    Stopped,
    Leader(String),
    Journal(count::Error),
}

impl From<count::Error> for Lost {
    fn from(error: count::Error) -> Self {
        Self::Journal(error)
    }
}

impl Following<'_> {
    fn note(&mut self, entry: Entry) -> Result<(), count::Error> {
        Ok(self.journal.write(entry, self.reached.attempt, self.reached.count)?)
    }

    fn follow(&mut self, events: &Events) -> Result<Ending, Lost> {
        let deadline = Instant::now() + self.gang.start_timeout;
        let mut stream = self.reach(events, deadline)?;
        let lost = |error: std::io::Error| Lost::Leader(error.to_string());
        prepare(&stream, self.gang.peer_timeout).map_err(lost)?;
        read_lines(0, stream.try_clone().map_err(lost)?, events.sender());
        send(&mut stream, &format!("hello {}", self.gang.index)).map_err(lost)?;

        let mut deadline = deadline;
        loop {
            let line = self.hear(events, deadline)?;
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["start", attempt, count] => {
                    self.reached = Checkpoint { attempt: number(attempt)?, count: number(count)? };
                    self.note(Entry::Start)?;
                    say(&format!("joined at {count}"));
                }
                ["go", step] => {
                    self.pass(events)?;
                    self.reached.count = number(step)?;
                    self.note(Entry::Step)?;
                    send(&mut stream, &format!("did {step}")).map_err(lost)?;
                }
                ["end", count] => {
                    self.reached.count = number(count)?;
                    self.note(Entry::Done)?;
                    say(&format!("done {count}"));
                    return Ok(Ending::Done);
                }
                _ => return Err(Lost::Leader(format!("it said {line:?}"))),
            }
            deadline = Instant::now() + self.settings.every + self.gang.peer_timeout;
        }
    }

    /// Tries to connect until it works. Each try has a thread of its own, since looking a name up can take
    /// longer than SIGTERM may wait.
    fn reach(&self, events: &Events, deadline: Instant) -> Result<TcpStream, Lost> {
        loop {
            let (leader, port, sender) = (self.gang.leader.clone(), self.gang.port, events.sender());
            thread::spawn(move || {
                let addresses = (leader.as_str(), port).to_socket_addrs().into_iter().flatten();
                let mut reached = addresses.flat_map(|at| TcpStream::connect_timeout(&at, CONNECT_TIMEOUT));
                match reached.next() {
                    Some(stream) => sender.send(Event::Reached(stream)),
                    None => sender.send(Event::Gone(0, "not reached".to_owned())),
                }
            });
            loop {
                match events.next_before(deadline) {
                    Some(Event::Reached(stream)) => return Ok(stream),
                    Some(Event::Gone(..)) => break,
                    Some(Event::Terminate) if self.settings.on_sigterm != OnSigterm::Ignore => {
                        return Err(Lost::Stopped);
                    }
                    Some(_) => {}
                    None => {
                        let why = format!("not reached within {:?}", self.gang.start_timeout);
                        return Err(Lost::Leader(why));
                    }
                }
            }
            let pause = (Instant::now() + RETRY).min(deadline);
            while let Some(event) = events.next_before(pause) {
                if matches!(event, Event::Terminate) && self.settings.on_sigterm != OnSigterm::Ignore {
                    return Err(Lost::Stopped);
                }
            }
        }
    }

    /// The leader's next line.
    fn hear(&self, events: &Events, deadline: Instant) -> Result<String, Lost> {
        loop {
            match events.next_before(deadline) {
                Some(Event::Line(_, line)) => return Ok(line),
                Some(event) => self.heed(event)?,
                None => return Err(Lost::Leader("silent for too long".to_owned())),
            }
        }
    }

    /// The work of one step.
    fn pass(&self, events: &Events) -> Result<(), Lost> {
        let computed = Instant::now() + self.settings.every;
        while let Some(event) = events.next_before(computed) {
            self.heed(event)?;
        }
        Ok(())
    }

    fn heed(&self, event: Event) -> Result<(), Lost> {
        match event {
            Event::Terminate if self.settings.on_sigterm != OnSigterm::Ignore => Err(Lost::Stopped),
            Event::Gone(_, why) => Err(Lost::Leader(why)),
            _ => Ok(()),
        }
    }
}

fn number(text: &str) -> Result<u64, Lost> {
    text.parse().map_err(|_| Lost::Leader(format!("it said {text:?} where a number belongs")))
}

/// Small lines at once, and no write that blocks forever.
fn prepare(stream: &TcpStream, timeout: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))))
}

fn send(stream: &mut TcpStream, line: &str) -> std::io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Reports each line of a peer, and its end.
fn read_lines(connection: usize, stream: TcpStream, sender: Sender<Event>) {
    thread::spawn(move || {
        let mut why = "connection closed".to_owned();
        for line in BufReader::new(stream).lines() {
            let sent = match line {
                Ok(line) => sender.send(Event::Line(connection, line)),
                Err(error) => {
                    why = error.to_string();
                    break;
                }
            };
            if sent.is_err() {
                return;
            }
        }
        sender.send(Event::Gone(connection, why)).ok();
    });
}
