//! Process 1 of the emulated machine, and what the processes of pods do there: they are this program again.

mod actor;
mod cgroup;
mod init;
mod tables;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::process::id() == 1 { init::run(&arguments) } else { actor::run(&arguments) }
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "a measurement lasts as long as it lasts")]
fn pause(seconds: f64) {
    std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
}

/// Asks until the answer is yes, for so many seconds at most; returns the last answer.
fn until(limit: f64, mut is_so: impl FnMut() -> bool) -> bool {
    let began = std::time::Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if began.elapsed().as_secs_f64() > limit {
            return false;
        }
        pause(0.01);
    }
}
