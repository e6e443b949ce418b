//! Tells the user what is being done: a spinner or bar on a terminal, plain lines elsewhere.
//!
//! Everything goes to stderr: stdout is for what a command prints as its result.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Without a terminal, a long task repeats how far it is this often.
const PLAIN_INTERVAL: Duration = Duration::from_secs(20);

/// One thing that is being done. Dropped without [`Task::done`], it vanishes from the terminal, and the
/// error that ended it speaks for itself.
pub(crate) struct Task {
    what: String,
    started: Instant,
    display: Display,
}

enum Display {
    Terminal(ProgressBar),
    Plain { last: RefCell<Instant>, total: RefCell<u64> },
}

impl Task {
    /// Shows that `what` has begun, e.g. "building the Kubernetes programs".
    pub(crate) fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        let started = Instant::now();
        let display = if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new_spinner().with_message(what.clone());
            bar.enable_steady_tick(Duration::from_millis(100));
            Display::Terminal(bar)
        } else {
            eprintln!("{what} ...");
            Display::Plain { last: RefCell::new(started), total: RefCell::new(0) }
        };
        Self { what, started, display }
    }

    /// Turns the spinner into a bar of `total` parts.
    pub(crate) fn set_total(&self, total: u64) {
        match &self.display {
            Display::Terminal(bar) => {
                bar.set_length(total);
                bar.set_style(
                    ProgressStyle::with_template("{spinner} {msg} [{bar:30}] {pos}/{len} ({elapsed})")
                        .expect("should be a valid template"),
                );
            }
            Display::Plain { total: known, .. } => *known.borrow_mut() = total,
        }
    }

    /// Says how many of the parts are done.
    pub(crate) fn set_position(&self, position: u64) {
        match &self.display {
            Display::Terminal(bar) => bar.set_position(position),
            Display::Plain { last, total } => {
                if last.borrow().elapsed() >= PLAIN_INTERVAL {
                    *last.borrow_mut() = Instant::now();
                    eprintln!("  {position} of {} ({})", total.borrow(), seconds(self.started.elapsed()));
                }
            }
        }
    }

    /// Shows what exactly is going on now.
    pub(crate) fn detail(&self, detail: &str) {
        match &self.display {
            Display::Terminal(bar) => bar.set_message(format!("{}: {detail}", self.what)),
            Display::Plain { .. } => eprintln!("  {detail}"),
        }
    }

    /// Prints a line of somebody else's, which stays.
    pub(crate) fn say(&self, line: &str) {
        match &self.display {
            Display::Terminal(bar) => bar.println(line),
            Display::Plain { .. } => eprintln!("{line}"),
        }
    }

    /// Ends the task with a line that stays, e.g. "the cluster dev is ready (14.2 s)".
    pub(crate) fn done(self, result: impl AsRef<str>) {
        if let Display::Terminal(bar) = &self.display {
            bar.finish_and_clear();
        }
        eprintln!("{} ({})", result.as_ref(), seconds(self.started.elapsed()));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Display::Terminal(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
