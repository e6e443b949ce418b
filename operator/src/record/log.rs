//! The file of a recording: appended to line by line, never rewritten, and never larger than it may be.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufReader, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use jiff::Timestamp;
use scavenger_program::exit::Unusable;
use scavenger_recording::{Event, HEADER, Line};

use super::ledger::Ledger;

/// A recording that was full is gone on with once it may have so many more bytes: fewer would be full again at once.
const GOES_ON: u64 = 1 << 16;

/// A file that is recorded into.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    size: u64,
    most: u64,
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It stands in the file.
    Yes,
    /// The file has no place for it, and says so in its last line.
    Full,
}

impl Log {
    /// Opens a recording to go on with it, or begins one where there is no file. Also says what stands in it. Half a line at its
    /// end, which a recorder left that was killed, is cut off.
    ///
    /// # Errors
    /// [`Unusable`] with the file, and the line that is no part of a recording.
    pub(super) fn open(path: &Path, most: u64) -> Result<(Self, Ledger), Unusable> {
        let wrong = |what: String| Unusable(format!("{} {what} (--output)", path.display()));
        let cannot = |error: io::Error| wrong(format!("cannot be recorded into: {error}"));
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = options.map_err(cannot)?;
        // Where the file system knows no locks nothing keeps two recorders apart, and one is as good as before.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(wrong("is being recorded into by another process".to_owned()));
        }
        let mut ledger = Ledger::default();
        let mut ends_full = false;
        let read = scavenger_recording::read(BufReader::new(&file), |_, line| {
            ends_full = line.event == Event::Full;
            ledger.take(&line);
            Ok(())
        });
        let mut size = read.map_err(|error| wrong(format!("cannot be gone on with: {error}")))?.bytes;
        let most = if ends_full && size + GOES_ON > most { size } else { most };
        file.set_len(size).map_err(cannot)?;
        file.seek(SeekFrom::Start(size)).map_err(cannot)?;
        if size == 0 {
            file.write_all(HEADER.as_bytes()).map_err(cannot)?;
            size = HEADER.len() as u64;
        }
        Ok((Self { file, size, most }, ledger))
    }

    /// Writes a line at once, so that a kill leaves at most a part of it.
    ///
    /// # Errors
    /// Those of the file, a full disk among them.
    pub(super) fn append(&mut self, line: &Line) -> io::Result<Written> {
        let text = line.text();
        let full = Line { event: Event::Full, ..line.clone() }.text();
        if self.size + (text.len() + full.len()) as u64 > self.most {
            if self.size + full.len() as u64 <= self.most {
                self.write(&full)?;
            }
            return Ok(Written::Full);
        }
        self.write(&text)?;
        Ok(Written::Yes)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.size += text.len() as u64;
        Ok(())
    }

    /// Has what was written survive the end of its node.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn keep(&mut self, now: Timestamp) -> io::Result<Written> {
        let written = self.append(&Line { time: now, event: Event::Mark })?;
        self.file.sync_data()?;
        Ok(written)
    }

    /// Bytes that it has.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}
