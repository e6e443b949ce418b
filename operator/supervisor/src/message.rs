//! The termination message: the kubelet puts the content of a file into the pod's status when the container has ended.

use std::{
    fs::OpenOptions,
    io::Read as _,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::PathBuf,
};

use nix::libc;
use scavenger_schema::supervision::{EndMessage, EndReport};

/// The kubelet reads no more of a message.
const LONGEST: u64 = 4096;

/// The file of the message, and what the supervisor wrote into it.
#[derive(Debug)]
pub struct Message {
    path: PathBuf,
    own: Vec<u8>,
}

impl Message {
    /// A message into a file that the container runtime made.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, own: Vec::new() }
    }

    /// Writes the report, unless the workload wrote something itself. A file that is missing is not made.
    pub fn write(&mut self, report: &EndReport) {
        let Ok(mut text) = serde_json::to_vec(&EndMessage { scavenger_supervisor: *report }) else { return };
        // Spaces instead of a shorter file: at no moment is the message empty or cut, and this may be the last moment.
        text.resize(text.len().max(self.own.len().saturating_sub(1)), b' ');
        text.push(b'\n');
        let options =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&self.path);
        let Ok(mut file) = options else { return };
        if !file.metadata().is_ok_and(|file| file.is_file()) {
            return;
        }
        let mut there = Vec::new();
        if (&mut file).take(LONGEST + 1).read_to_end(&mut there).is_err() || there != self.own {
            return;
        }
        if file.write_all_at(&text, 0).is_ok() {
            self.own = text;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scavenger_schema::supervision::Stop;

    use super::*;

    #[test]
    fn a_workloads_message_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("message");
        let report = EndReport { stop: Stop::Unanswered, ..EndReport::default() };
        Message::new(path.clone()).write(&report);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        let mut message = Message::new(path.clone());
        message.write(&report);
        // A shorter report replaces a longer one.
        message.write(&EndReport { stop: Stop::Answered, ..report });
        let read: EndMessage = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.scavenger_supervisor.stop, Stop::Answered);
        fs::write(&path, "own words").unwrap();
        message.write(&report);
        assert_eq!(fs::read_to_string(&path).unwrap(), "own words");
    }
}
