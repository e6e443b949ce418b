//! What a test gives the planner and what the planner answers, as one hash per plan. `cargo xtask trace` runs the tests with
//! [`FOLDER`], and compares the hashes with those of an earlier commit.

use std::{
    cell::RefCell,
    fmt::{self, Debug, Write as _},
    fs::File,
    io::Write as _,
    ops::{Deref, DerefMut},
    path::Path,
    thread,
};

use jiff::Timestamp;

use scavenger_planner::{
    Plan, Planner,
    guard::Help,
    values::{Key, Observation},
};

/// The folder into which each test writes a file of its own; without it nothing is written.
const FOLDER: &str = "SCAVENGER_TRACE";

/// If it is set, the files have what was given and what was answered, too.
const TEXT: &str = "SCAVENGER_TRACE_TEXT";

/// A planner whose plans are hashed. It has every method of [`Planner`].
#[derive(Debug)]
pub struct Traced(Planner);

impl Default for Traced {
    fn default() -> Self {
        record(|recorder| recorder.given(&"another planner"));
        Self(Planner::default())
    }
}

impl Traced {
    /// [`Planner::observe`].
    pub fn observe(&mut self, observation: Observation, now: Timestamp) {
        record(|recorder| recorder.given(&(now, &observation)));
        self.0.observe(observation, now);
    }

    /// [`Planner::plan`].
    pub fn plan(&mut self, now: Timestamp) -> Plan {
        let plan = self.0.plan(now);
        record(|recorder| recorder.answered(now, &plan));
        plan
    }

    /// [`Planner::relieve`].
    #[must_use]
    pub fn relieve(self, now: Timestamp) -> Vec<(Key, Help)> {
        let helped = self.0.relieve(now);
        record(|recorder| recorder.answered(now, &helped));
        helped
    }
}

impl Deref for Traced {
    type Target = Planner;

    fn deref(&self) -> &Planner {
        &self.0
    }
}

impl DerefMut for Traced {
    fn deref_mut(&mut self) -> &mut Planner {
        &mut self.0
    }
}

/// Writes the trace of one test. Each test has a thread of its own, which is named after it.
struct Recorder {
    file: File,
    hash: Hash,
    with_text: bool,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = RefCell::new(Recorder::of_this_test());
}

fn record(write: impl FnOnce(&mut Recorder)) {
    RECORDER.with_borrow_mut(|recorder| {
        if let Some(recorder) = recorder {
            write(recorder);
        }
    });
}

impl Recorder {
    fn of_this_test() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "the model does not depend on what is written down")]
        let folder = std::env::var(FOLDER).ok()?;
        let file = Path::new(&folder).join(thread::current().name()?.replace("::", "."));
        let file =
            File::create(&file).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        Some(Self { file, hash: Hash::default(), with_text: std::env::var_os(TEXT).is_some() })
    }

    /// What is given is no part of the hash: a test gives the same as long as it is answered the same.
    fn given(&mut self, what: &dyn Debug) {
        if self.with_text {
            self.write(&format!("< {what:?}"));
        }
    }

    fn answered(&mut self, now: Timestamp, answer: &dyn Debug) {
        self.hash.take_in(&(now, answer));
        if self.with_text {
            self.write(&format!("> {now}\n{answer:#?}"));
        }
        self.write(&format!("= {:016x}", self.hash.0));
    }

    fn write(&mut self, line: &str) {
        writeln!(self.file, "{line}").expect("a trace should be written");
    }
}

/// FNV-1a over the text of all that came so far: short, and the same with every release of Rust.
#[derive(Debug)]
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn take_in(&mut self, what: &dyn Debug) {
        writeln!(self, "{what:?}").expect("a hash should take any text");
    }
}

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::at;

    #[test]
    fn another_text_is_another_hash_from_then_on() {
        let hashes = |answers: [&str; 3]| {
            let mut hash = Hash::default();
            answers.map(|answer| {
                hash.take_in(&(at(0), answer));
                hash.0
            })
        };
        let (one, other) = (hashes(["a", "b", "c"]), hashes(["a", "x", "c"]));
        assert_eq!(one, hashes(["a", "b", "c"]));
        assert_eq!(one[0], other[0]);
        assert!(one[1] != other[1] && one[2] != other[2]);
    }
}
