//! The thread that looks at files. It is a thread of its own because a file server that does not answer stops it, and
//! signals must pass all the same.

use std::{
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{
    announced::Announcements,
    files::{self, ServerTime},
    run::Shared,
    say,
    state::Made,
    tracker::{self, Clock, Tracker},
};

/// Two looks that see the same file must be this far apart, to say that it no longer changes.
const SETTLED: Duration = Duration::from_secs(1);

/// Looking takes at most one part in this many of the time: a pattern can match 100,000 files.
const SHARE: u32 = 100;

/// No longer than this between two looks, whatever they cost, while somebody waits for a checkpoint.
const URGENT: Duration = Duration::from_secs(2);

/// What to look at.
#[derive(Debug, Clone)]
pub struct Files {
    /// The path or glob of checkpoints.
    pub checkpoint: Option<String>,
    /// The file with the progress.
    pub progress: Option<PathBuf>,
    /// The time between two looks without a reason.
    pub every: Duration,
}

const STOPPING: u8 = b's';
const ENDED: u8 = b'e';

/// A look that somebody waits for, and that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    First,
    Last,
}

/// The thread, as its owner sees it.
#[derive(Debug)]
pub struct Watch {
    orders: PipeWriter,
    done: Receiver<Looked>,
    announced: Arc<Announcements>,
}

impl Watch {
    /// Starts the thread, and waits a moment until it has seen what an earlier attempt left.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(files: Files, shared: Arc<Shared>, patience: Duration) -> io::Result<Self> {
        let (reader, orders) = io::pipe()?;
        let (tell, done) = mpsc::channel();
        let announced = Arc::new(Announcements::new());
        let watcher = Watcher::new(files, shared, reader, tell, Arc::clone(&announced));
        thread::Builder::new().name("files".to_owned()).spawn(move || watcher.watch())?;
        if done.recv_timeout(patience).is_err() {
            say("the volume of the checkpoint does not answer; the workload starts all the same");
        }
        Ok(Self { orders, done, announced })
    }

    /// A signal to stop came, and is about to be passed on: what was announced by now is no answer to it.
    pub fn before_stop(&self) {
        self.announced.stopping();
    }

    /// A signal to stop was passed on: checkpoints matter more than before.
    pub fn stopping(&mut self) {
        self.orders.write_all(&[STOPPING]).ok();
    }

    /// The workload has ended: has a last look, and says whether there was time for it.
    pub fn finish(mut self, patience: Duration) -> bool {
        self.orders.write_all(&[ENDED]).ok();
        let until = Instant::now() + patience;
        loop {
            match self.done.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Looked::Last) => return true,
                // It took longer than the workload was kept waiting, and maybe longer than the workload ran.
                Ok(Looked::First) => {}
                Err(_) => return false,
            }
        }
    }
}

struct Watcher {
    files: Files,
    shared: Arc<Shared>,
    orders: PipeReader,
    tell: Sender<Looked>,
    tracker: Tracker,
    announced: Arc<Announcements>,
    /// When the files were looked at last.
    looked: Instant,
    stopping: bool,
    progress_said: bool,
    leads_away_said: bool,
}

impl Watcher {
    fn new(
        files: Files,
        shared: Arc<Shared>,
        orders: PipeReader,
        tell: Sender<Looked>,
        announced: Arc<Announcements>,
    ) -> Self {
        Self {
            files,
            shared,
            orders,
            tell,
            tracker: Tracker::default(),
            announced,
            looked: Instant::now(),
            stopping: false,
            progress_said: false,
            leads_away_said: false,
        }
    }

    fn watch(mut self) {
        if let Some(pattern) = self.files.checkpoint.clone() {
            let began = ServerTime::ask(&files::fixed_part(&pattern)).time;
            let look = files::look(&pattern);
            self.announced.listen(look.directories.iter());
            self.say_what_leads_away(look.leads_away);
            let now = look.newest.last().and_then(|found| Some(ServerTime::ask(found.path.parent()?).time));
            let now = now.unwrap_or(std::time::SystemTime::UNIX_EPOCH);
            self.looked = Instant::now();
            self.tracker = Tracker::new(tracker::left_before(look.newest, began, now), now);
        }
        self.tell.send(Looked::First).ok();
        let mut cost = Duration::ZERO;
        let mut last = Instant::now();
        // A change was announced, and waits until the pace allows a look.
        let mut announced = false;
        loop {
            let soon = announced || self.stopping || self.tracker.is_unsettled();
            let pause = if soon { SETTLED } else { self.files.every };
            let urgent = self.stopping || self.shared.look(|state| state.awaits_checkpoint(last));
            let rest = if urgent { (cost * SHARE).min(URGENT) } else { cost * SHARE };
            let next = last + pause.max(rest);
            match self.wait(next, !announced) {
                Woken::Order(STOPPING) => self.stopping = true,
                Woken::Order(ENDED) => {
                    self.look(true);
                    self.tell.send(Looked::Last).ok();
                    return;
                }
                Woken::Order(_) => return,
                Woken::Change => announced = true,
                Woken::Time => {
                    let began = Instant::now();
                    self.look(false);
                    last = Instant::now();
                    cost = last - began;
                    announced = false;
                }
            }
        }
    }

    fn wait(&self, until: Instant, listening: bool) -> Woken {
        let mut sources = vec![PollFd::new(self.orders.as_fd(), PollFlags::POLLIN)];
        if let Some(source) = self.announced.source().filter(|_| listening) {
            sources.push(PollFd::new(source, PollFlags::POLLIN));
        }
        let left = until.saturating_duration_since(Instant::now());
        // A part of a millisecond counts as one.
        let left = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        let ready = poll(&mut sources, left);
        let is_ready = |source: &PollFd| source.any().unwrap_or(false);
        if ready.is_ok_and(|count| count > 0) && is_ready(&sources[0]) {
            let mut order = [0];
            let read = (&self.orders).read(&mut order);
            return Woken::Order(if read.is_ok_and(|count| count == 1) { order[0] } else { 0 });
        }
        if sources.get(1).is_some_and(is_ready) && self.announced.take() {
            return Woken::Change;
        }
        if Instant::now() >= until { Woken::Time } else { self.wait(until, listening) }
    }

    fn look(&mut self, ended: bool) {
        let mut made = None;
        if let Some(pattern) = &self.files.checkpoint {
            let look = files::look(pattern);
            self.announced.listen(look.directories.iter());
            self.say_what_leads_away(look.leads_away);
            let now = Instant::now();
            let since_last_look = now - std::mem::replace(&mut self.looked, now);
            if self.tracker.has_news(&look.newest)
                && let Some(newest) = look.newest.last()
            {
                let server = ServerTime::ask(newest.path.parent().unwrap_or(Path::new(".")));
                let clock = Clock { now: server.time, since_last_look };
                let counted = self.tracker.look(look.newest, clock, ended);
                made = counted.map(|found| {
                    let came_before_stop = self.announced.came_before_the_stop(&found.path);
                    Made { came_before_stop, ..files::made(&found, server) }
                });
            }
        }
        let progress = self.progress();
        if made.is_some() {
            self.shared.measure();
        }
        self.shared.update(|state| {
            let before = (state.seen, state.progress);
            if let Some(made) = made {
                state.count(made);
            }
            state.progress = progress.or(state.progress);
            before != (state.seen, state.progress)
        });
    }

    fn say_what_leads_away(&mut self, link: Option<PathBuf>) {
        if let Some(link) = link.filter(|_| !self.leads_away_said) {
            self.leads_away_said = true;
            let link = link.display();
            say(&format!(
                "{link} is no checkpoint: it is a link out of its volume; watch the path that it leads to"
            ));
        }
    }

    fn progress(&mut self) -> Option<f64> {
        let path = self.files.progress.as_deref()?;
        match files::progress(path) {
            Ok(progress) => progress,
            Err(problem) => {
                if !self.progress_said {
                    self.progress_said = true;
                    say(&format!("{} is ignored: {problem}", path.display()));
                }
                None
            }
        }
    }
}

enum Woken {
    Order(u8),
    Change,
    Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the owner is told of the last look, if the thread says this after the order to have it.
    fn told(answers: &[Looked]) -> bool {
        let (mut reader, orders) = io::pipe().unwrap();
        let (tell, done) = mpsc::channel();
        let watch = Watch { orders, done, announced: Arc::default() };
        thread::scope(|scope| {
            scope.spawn(|| {
                reader.read_exact(&mut [0]).unwrap();
                for answer in answers {
                    tell.send(*answer).unwrap();
                }
            });
            watch.finish(Duration::from_millis(200))
        })
    }

    #[test]
    fn a_first_look_that_outlasts_the_workload_is_not_taken_for_the_last() {
        assert!(!told(&[]));
        assert!(!told(&[Looked::First]));
        assert!(told(&[Looked::First, Looked::Last]));
        assert!(told(&[Looked::Last]));
    }
}
