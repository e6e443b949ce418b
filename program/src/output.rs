//! Data for people and pipes.

use std::io::{self, Write as _};

use anyhow::Context as _;

use crate::exit::Unusable;

/// Writes data to standard output.
///
/// # Errors
/// [`Unusable`] if it cannot be written. A reader who has read enough (`| head -1`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.with_context(|| Unusable("cannot write to standard output".to_owned())),
    }
}
