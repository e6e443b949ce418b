//! The thread that sends reports.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use scavenger_reporting::{
    client::{Client, Posted, ReportTo, Terms},
    random::jitter,
    schedule::Schedule,
};
use scavenger_schema::supervision::Answer;

use crate::{delivery::Delivery, request::Asker, run::Shared, say};

/// An answer is a few words.
const TERMS: Terms = Terms {
    user_agent: concat!("scavenger-supervisor/", env!("CARGO_PKG_VERSION")),
    within: Duration::from_secs(10),
    longest_answer: 4096,
};

/// Starts the thread. It ends with the process.
///
/// # Errors
/// If there is no thread to be had.
pub fn start(
    to: ReportTo,
    every: Duration,
    asker: Option<Arc<Asker>>,
    shared: Arc<Shared>,
    delivery: Arc<Delivery>,
) -> io::Result<()> {
    let reporter = move || report(to, every, asker.as_deref(), &shared, &delivery);
    thread::Builder::new().name("reports".to_owned()).spawn(reporter).map(drop)
}

fn report(to: ReportTo, every: Duration, asker: Option<&Asker>, shared: &Shared, delivery: &Delivery) -> ! {
    let mut schedule = Schedule::new(Instant::now(), every, asker.is_some(), jitter());
    let url = to.url.clone();
    let mut client = Client::new(to, TERMS);
    let mut known = 0;
    let mut said = false;
    loop {
        let checkpoints = shared.wait_for_checkpoint(known, schedule.due());
        if checkpoints != known {
            known = checkpoints;
            schedule.news();
        }
        if Instant::now() < schedule.due() {
            continue;
        }
        schedule.sending();
        shared.measure();
        let report = shared.look(|state| state.live(Instant::now(), SystemTime::now()));
        let posted: Posted<Answer> = client.post(&report);
        schedule.ended(Instant::now(), posted.outcome, jitter());
        if let Some(problem) = posted.problem
            && !said
        {
            said = true;
            say(&format!("cannot report to {url}: {problem}; the workload is not affected"));
        }
        if posted.answer.unwrap_or_default().checkpoint
            && let Some(asker) = asker
        {
            let asked = Instant::now();
            // A second request while it writes would have it write twice, and the second time into its end.
            if shared.look(|state| state.awaits_checkpoint(asked)) || !asker.ask(delivery) {
                continue;
            }
            shared.update(|state| {
                state.asked = Some(asked);
                true
            });
            schedule.asked(asked);
        }
    }
}
