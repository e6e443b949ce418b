//! Starts the workload, passes signals on, reaps, and ends as the workload did.

use std::{
    os::fd::AsFd as _,
    process::ExitCode,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction},
        signalfd::{SfdFlags, SignalFd},
    },
};

use crate::{
    child::{self, End, Reaped},
    cli::Settings,
    cpu::Meter,
    delivery::Delivery,
    message::Message,
    reporter,
    request::Asker,
    say,
    state::State,
    watch::{Files, Watch},
};

/// What the command leaves behind gets so long to end.
const STRAYS: Duration = Duration::from_secs(2);

/// Between two looks at processes that save.
const SAVING: Duration = Duration::from_millis(200);

/// After SIGKILL. Only a process that waits for a device takes longer, and the container's end waits for nobody.
const KILLED: Duration = Duration::from_millis(500);

/// A look at a volume may take so long before the workload starts, and after it has ended.
const VOLUME: Duration = Duration::from_secs(2);

/// The signals that are passed on.
const PASSED_ON: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// What the threads share.
#[derive(Debug)]
pub struct Shared {
    known: Mutex<Known>,
    changed: Condvar,
    meter: Mutex<Meter>,
}

#[derive(Debug)]
struct Known {
    state: State,
    message: Message,
}

impl Shared {
    fn new(watched: bool, message: Message) -> Self {
        let state = State { watched, ..State::default() };
        let meter = Mutex::new(Meter::default());
        Self { known: Mutex::new(Known { state, message }), changed: Condvar::new(), meter }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is known.
    pub fn look<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock().state)
    }

    /// Changes what is known. After a signal to stop a change goes into the message at once: if the grace period runs
    /// out, nothing is left to write it.
    pub fn update(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut known = self.lock();
        if change(&mut known.state) && known.state.stopped.is_some() {
            known.write_message();
        }
        self.changed.notify_all();
    }

    /// Looks at the workload's processor time, before a report and whenever something happens from which it is counted.
    pub fn measure(&self) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cpu) = meter.look() {
            self.lock().state.cpu = Some(cpu);
        }
    }

    /// Waits until there are more checkpoints than `seen`, or for the time; returns how many there are.
    pub fn wait_for_checkpoint(&self, seen: u64, until: Instant) -> u64 {
        let wait = until.saturating_duration_since(Instant::now());
        let known = self.changed.wait_timeout_while(self.lock(), wait, |known| known.state.seen == seen);
        known.unwrap_or_else(PoisonError::into_inner).0.state.seen
    }
}

impl Known {
    fn write_message(&mut self) {
        let report = self.state.end(Instant::now(), SystemTime::now());
        self.message.write(&report);
    }
}

/// Runs the workload to its end.
#[must_use]
pub fn run(settings: Settings) -> ExitCode {
    let (signals, mask) = match take_signals() {
        Ok(taken) => taken,
        Err(error) => {
            say(&format!("cannot receive signals: {error}"));
            return ExitCode::FAILURE;
        }
    };
    // Orphans come to this process, not to another one above it. As process 1 they do anyway.
    prctl::set_child_subreaper(true).ok();
    let watched = settings.checkpoint.is_some();
    let shared = Arc::new(Shared::new(watched, Message::new(settings.message)));
    let files =
        Files { checkpoint: settings.checkpoint, progress: settings.progress, every: settings.look_every };
    let mut watch = None;
    if files.checkpoint.is_some() || files.progress.is_some() {
        watch = unaffected(Watch::start(files, Arc::clone(&shared), VOLUME), "files are not watched");
    }
    let child = match child::start(&settings.command, settings.keep_priority, mask) {
        Ok(child) => child,
        Err(error) => {
            say(&error.to_string());
            return ExitCode::from(error.code);
        }
    };
    let delivery = Arc::new(Delivery::new(settings.rule, child));
    let asker = settings.request.map(|request| Arc::new(Asker::new(request, settings.keep_priority, mask)));
    if let Some(to) = settings.report_to {
        let started = reporter::start(
            to,
            settings.report_every,
            asker.clone(),
            Arc::clone(&shared),
            Arc::clone(&delivery),
        );
        unaffected(started, "nothing is reported");
    }
    let mut supervised = Supervised { signals, delivery, shared, watch, asker, child };
    let end = supervised.workload();
    supervised.strays(end);
    supervised.last_words(end.code);
    ExitCode::from(end.code)
}

/// Says why a helper is missing. The workload runs without it.
fn unaffected<T>(result: std::io::Result<T>, effect: &str) -> Option<T> {
    result.map_err(|error| say(&format!("{effect}: {error}"))).ok()
}

/// Blocks the signals, for all threads that are started later, and receives them as values. Returns the mask from
/// before, with which the command starts.
fn take_signals() -> nix::Result<(SignalFd, SigSet)> {
    // A parent that ignores SIGCHLD hands that on, and then nobody's exit code is known.
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of this program.
    #[expect(unsafe_code, reason = "nix guards handlers that run code")]
    unsafe {
        sigaction(Signal::SIGCHLD, &default)?;
    }
    let set: SigSet = PASSED_ON.into_iter().chain([Signal::SIGCHLD]).collect();
    let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    Ok((signals, before))
}

struct Supervised {
    signals: SignalFd,
    delivery: Arc<Delivery>,
    shared: Arc<Shared>,
    watch: Option<Watch>,
    asker: Option<Arc<Asker>>,
    child: i32,
}

impl Supervised {
    /// Waits for the command's end.
    fn workload(&mut self) -> End {
        loop {
            loop {
                match child::reap() {
                    Reaped::Ended(pid, end) if pid == self.child => return end,
                    Reaped::Ended(pid, end) => {
                        if let Some(asker) = &self.asker {
                            asker.ended(pid, end);
                        }
                    }
                    Reaped::NoneYet => break,
                    Reaped::NoChild => {
                        say("the workload was waited for by somebody else; its exit code is unknown");
                        return End { code: 1, by_signal: false };
                    }
                }
            }
            self.wait(None);
            while let Ok(Some(received)) = self.signals.read_signal() {
                self.received(received.ssi_signo, received.ssi_code);
            }
        }
    }

    fn received(&mut self, number: u32, code: i32) {
        // A terminal sends its signals to the command, too.
        if code == libc::SI_KERNEL {
            return;
        }
        let Ok(signal) = i32::try_from(number).map_err(|_| Errno::EINVAL).and_then(Signal::try_from) else {
            return;
        };
        match signal {
            // Which of them means "stop" is the image's choice (STOPSIGNAL).
            Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT => {
                // Before the signal is passed on: a workload can save before this thread runs again.
                let asked = Instant::now();
                if let Some(watch) = &self.watch {
                    watch.before_stop();
                }
                self.delivery.deliver(signal);
                self.shared.measure();
                self.shared.update(|state| state.stop(asked));
                if let Some(watch) = &mut self.watch {
                    watch.stopping();
                }
            }
            Signal::SIGHUP | Signal::SIGUSR1 | Signal::SIGUSR2 => {
                self.delivery.deliver(signal);
            }
            Signal::SIGWINCH | Signal::SIGCONT => self.delivery.to_child(signal),
            _ => {}
        }
    }

    /// Sees to it that nothing keeps the container from ending.
    fn strays(&mut self, end: End) {
        // A launcher that has no handler for the signal dies of it at once. The others that got it are still saving, and
        // have the time that their pod has.
        if end.by_signal && self.shared.look(|state| state.stopped.is_some()) {
            while !self.reap_until(Some(Instant::now() + SAVING)) && self.delivery.is_awaited() {}
        }
        if !self.reap_until(None) {
            self.delivery.end_strays();
            if !self.reap_until(Some(Instant::now() + STRAYS)) {
                self.delivery.kill_strays();
                self.reap_until(Some(Instant::now() + KILLED));
            }
        }
    }

    /// Reaps until no child is left, which it returns, or for the time.
    fn reap_until(&mut self, until: Option<Instant>) -> bool {
        loop {
            match child::reap() {
                Reaped::Ended(..) => {}
                Reaped::NoChild => return true,
                Reaped::NoneYet if until.is_none_or(|until| Instant::now() >= until) => return false,
                Reaped::NoneYet => {
                    self.wait(until);
                    while let Ok(Some(_)) = self.signals.read_signal() {}
                }
            }
        }
    }

    fn wait(&self, until: Option<Instant>) {
        let left = until.map_or(PollTimeout::NONE, |until| {
            let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], left).ok();
    }

    /// The report of the end: for a workload that was asked to stop, and for one that succeeded. A failure keeps its own
    /// message, or the end of its log.
    fn last_words(&mut self, code: u8) {
        let looked = self.watch.take().is_none_or(|watch| watch.finish(VOLUME));
        if !looked {
            self.shared.update(|state| std::mem::replace(&mut state.watched, false));
        }
        let mut known = self.shared.lock();
        if code == 0 || known.state.stopped.is_some() {
            known.write_message();
        }
    }
}
