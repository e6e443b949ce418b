//! The thread that hears of changes of the counters of pods: the cgroup of a pod that ended by a kill is gone within seconds,
//! before the next look.

use std::{
    io,
    path::Path,
    sync::{Arc, mpsc::Sender},
    thread,
    time::Duration,
};

use scavenger_cgroups::memory::Watch;

use crate::{run::News, say};

/// The pause after changes. The counters of a pod at its limit change all the time.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts the thread. What is added to the watch is heard of.
///
/// # Errors
/// If the kernel has no watch to give, or there is no thread to be had.
pub fn start(news: Sender<News>) -> io::Result<Arc<Watch>> {
    let watch = Arc::new(Watch::new()?);
    let own = Arc::clone(&watch);
    let watches = move || {
        loop {
            let changed = match own.wait() {
                Ok(changed) => changed,
                Err(error) => return say(&format!("{LOOKS_ONLY}: {error}")),
            };
            if news.send(News::Counters(changed)).is_err() {
                return;
            }
            thread::park_timeout(PAUSE);
        }
    };
    thread::Builder::new().name("watches".to_owned()).spawn(watches)?;
    Ok(watch)
}

/// What is said if there is no watch.
pub const LOOKS_ONLY: &str = "cannot watch the counters of pods, which are read from time to time, so some kills for memory stay unexplained";

/// Hears of changes of a pod from now on. None if it has no counters, or there are too many watches; then it is only looked at.
pub fn add(watch: &Watch, pod: &Path) -> Option<i32> {
    watch.add(pod).ok()
}
