//! Files that are brought onto a volume: which there are on this machine, what is in their way there, and how they get their
//! places.
//!
//! A pod runs constant scripts with `sh -c SCRIPT put FOLDER ...`, so no shell parses a name. Files travel under numbers: a
//! name is first used when the file is whole, and then each of its folders is looked at. So nothing is written behind a
//! link or in the folder of a row, no matter who made it.

mod archive;
mod local;
mod uses;

pub use archive::{ArchiveError, Sent, length, write_archive};
pub use local::{Found, LocalFile, NameError, check_folder, find, path_of};
pub use uses::{InUse, used};

use crate::cluster::Ended;
use crate::manifest::MOUNT_PATH;

const LOOK_SCRIPT: &str = concat!(include_str!("walk.sh"), include_str!("look.sh"));
const SPACE_SCRIPT: &str = concat!(include_str!("walk.sh"), include_str!("space.sh"));
const RECEIVE_SCRIPT: &str = concat!(include_str!("walk.sh"), include_str!("receive.sh"));
const PLACE_SCRIPT: &str = concat!(include_str!("walk.sh"), include_str!("place.sh"));
const SUMS_SCRIPT: &str = concat!(include_str!("walk.sh"), include_str!("../folder/sums.sh"));

/// Exit codes of the scripts.
const NO_TOOL: i32 = 3;
const IN_THE_WAY: i32 = 10;

/// What `tar` and `mv` say of a volume that is full.
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// Why files cannot be brought.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The image lacks a program.
    #[error("image {image} has no {tool}; name another one with --image, such as debian:stable-slim")]
    FindTool {
        /// The image.
        image: String,
        /// The program.
        tool: String,
    },
    /// Something that is no folder, or a folder of a row, has a part of the path.
    #[error("{folder} on PersistentVolumeClaim {claim} cannot be written into: {} is in its way; name another folder with --to", there.words())]
    Enter {
        /// The folder.
        folder: String,
        /// The claim.
        claim: String,
        /// What is there.
        there: There,
    },
    /// The volume is full.
    #[error(
        "PersistentVolumeClaim {claim} is full ({complaint}); remove files that nobody needs, or ask for a larger volume, and run the command again"
    )]
    Fit {
        /// The claim.
        claim: String,
        /// What the command says.
        complaint: String,
    },
    /// Anything else.
    #[error("PersistentVolumeClaim {claim} cannot be written as user {user} (exit code {code}): {complaint}")]
    Write {
        /// The claim.
        claim: String,
        /// User id.
        user: i64,
        /// Exit code.
        code: i32,
        /// What the command says.
        complaint: String,
    },
    /// The pod says something else than was asked.
    #[error("the pod said {0:?}, which is no answer; run the command again")]
    Understand(String),
}

/// What has a path on the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum There {
    /// Nothing.
    Nothing,
    /// A file of so many bytes.
    File(u64),
    /// A folder.
    Folder,
    /// A symbolic link, or something behind one.
    Link,
    /// The folder of a row, or something in one.
    Row,
    /// Something else, or something behind a file.
    Other,
}

impl There {
    /// What it is.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::File(_) => "a file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Row => "the folder of a row",
            Self::Other => "something that is no folder and no ordinary file",
        }
    }

    fn read(line: &str) -> Option<Self> {
        let (word, size) = line.split_once(' ').map_or((line, None), |(word, size)| (word, Some(size)));
        Some(match (word, size) {
            ("nothing", None) => Self::Nothing,
            ("file", None) => Self::File(0),
            ("file", Some(size)) => Self::File(size.parse().ok()?),
            ("folder", None) => Self::Folder,
            ("link", None) => Self::Link,
            ("row", None) => Self::Row,
            ("other", None) => Self::Other,
            _ => return None,
        })
    }
}

/// What became of a file that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It has its path.
    Placed,
    /// It is not what was sent.
    Broken,
    /// This is in its way.
    Obstructed(There),
}

/// A file that came, with the place that it is to get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// Its number in the archive.
    pub number: u64,
    /// Its SHA-256, as `sha256sum` prints it.
    pub sha256: &'a str,
    /// Its path from the root of the volume.
    pub path: &'a str,
}

fn command(script: &str, more: impl IntoIterator<Item = String>) -> Vec<String> {
    let start = ["sh", "-c", script, "put", MOUNT_PATH].map(ToOwned::to_owned);
    start.into_iter().chain(more).collect()
}

/// Says what has each of the paths.
#[must_use]
pub fn look_command<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    command(LOOK_SCRIPT, paths.into_iter().map(ToOwned::to_owned))
}

/// Says how much space is left.
#[must_use]
pub fn space_command() -> Vec<String> {
    command(SPACE_SCRIPT, [])
}

/// Prints the checksums of so many bytes of files.
#[must_use]
pub fn sums_command<'a>(files: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<String> {
    // No path is taken for an option.
    command(SUMS_SCRIPT, files.into_iter().flat_map(|(path, size)| [size.to_string(), format!("./{path}")]))
}

/// Takes an archive of so many bytes into the folder `staging`, a path from the root of the volume.
#[must_use]
pub fn receive_command(staging: &str, bytes: u64) -> Vec<String> {
    command(RECEIVE_SCRIPT, [staging.to_owned(), bytes.to_string()])
}

/// Gives files that came their paths.
#[must_use]
pub fn place_command<'a>(
    staging: &str,
    replace: bool,
    files: impl IntoIterator<Item = Arrival<'a>>,
) -> Vec<String> {
    let how = if replace { "replace" } else { "keep" };
    let words = files
        .into_iter()
        .flat_map(|file| [file.number.to_string(), file.sha256.to_owned(), file.path.to_owned()]);
    command(PLACE_SCRIPT, [staging.to_owned(), how.to_owned()].into_iter().chain(words))
}

/// Where files come to, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The image that the commands run in.
    pub image: &'a str,
    /// The claim.
    pub claim: &'a str,
    /// The user.
    pub user: i64,
    /// The folder, from the root of the volume.
    pub folder: &'a str,
}

/// Why a script failed; none if it did not.
///
/// # Errors
/// [`PutError`].
pub fn check(place: Place<'_>, ended: &Ended) -> Result<(), PutError> {
    // `tar` says the same of each file: one line of it is enough.
    let lines = || ended.complaint.lines();
    let full = lines().find(|line| FULL.iter().any(|words| line.contains(words)));
    let complaint = full.or_else(|| lines().next()).unwrap_or_default().to_owned();
    let claim = place.claim.to_owned();
    Err(match ended.code {
        0 => return Ok(()),
        NO_TOOL => PutError::FindTool { image: place.image.to_owned(), tool: complaint },
        IN_THE_WAY => {
            let there = There::read(&complaint).unwrap_or(There::Other);
            PutError::Enter { folder: place.folder.to_owned(), claim, there }
        }
        _ if full.is_some() => PutError::Fit { claim, complaint },
        code => PutError::Write { claim, user: place.user, code, complaint },
    })
}

/// Reads what a script printed, one answer for each of so many questions.
fn answers<T>(printed: &[u8], expected: usize, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, PutError> {
    let text = String::from_utf8_lossy(printed);
    let wrong = |line: &str| PutError::Understand(line.chars().take(200).collect());
    let all: Vec<T> =
        text.lines().map(|line| read(line).ok_or_else(|| wrong(line))).collect::<Result<_, _>>()?;
    if all.len() == expected { Ok(all) } else { Err(wrong(&text)) }
}

/// What has each of so many paths.
///
/// # Errors
/// [`PutError::Understand`].
pub fn parse_look(printed: &[u8], expected: usize) -> Result<Vec<There>, PutError> {
    answers(printed, expected, There::read)
}

/// What became of each of so many files.
///
/// # Errors
/// [`PutError::Understand`].
pub fn parse_placed(printed: &[u8], expected: usize) -> Result<Vec<Placed>, PutError> {
    answers(printed, expected, |line| match line {
        "placed" => Some(Placed::Placed),
        "broken" => Some(Placed::Broken),
        line => There::read(line).map(Placed::Obstructed),
    })
}

/// Bytes that are left on the volume, as `df -P -k` says it.
///
/// # Errors
/// [`PutError::Understand`].
pub fn parse_space(printed: &[u8]) -> Result<u64, PutError> {
    let text = String::from_utf8_lossy(printed);
    // The name of a device can have blanks; the volume is mounted where there are none.
    let kilobytes = text.lines().last().and_then(|line| line.split_whitespace().rev().nth(2)?.parse().ok());
    kilobytes
        .map(|kilobytes: u64| kilobytes.saturating_mul(1024))
        .ok_or_else(|| PutError::Understand(text.chars().take(200).collect()))
}

#[cfg(test)]
mod tests;
