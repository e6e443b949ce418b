//! Reads what the workload leaves on its volumes. Any of these calls can hang with a file server.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Read as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use glob::{MatchOptions, Pattern};
use nix::{libc, sys::statfs};
use scavenger_reporting::random;

use crate::{state::Made, tracker::Found};

/// So many of the newest files are looked at further: one may be half written while the one before it is complete. So many
/// again of those with times in the future.
const NEWEST: usize = 4;

/// More directories are not watched; files in the others are found by the slow look.
const DIRECTORIES: usize = 64;

/// What files of the supervisor begin with.
pub const OWN_FILES: &str = ".scavenger-supervisor-";

/// What one look showed.
#[derive(Debug, Default)]
pub struct Look {
    /// The newest files that match, the newest last.
    pub newest: Vec<Found>,
    /// The directories in which checkpoints appear.
    pub directories: BTreeSet<PathBuf>,
    /// A link that matches and leads out of its volume.
    pub leads_away: Option<PathBuf>,
}

/// Looks for checkpoints. Files and directories count, whatever else matches does not; nor does a link that leads out of
/// its volume, to what may be gone with the pod.
#[must_use]
pub fn look(pattern: &str) -> Look {
    let mut look = Look::default();
    look.directories.insert(fixed_part(pattern));
    // `*` means what it means in a shell: no names that begin with a dot.
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::default() };
    let paths: Box<dyn Iterator<Item = PathBuf>> = match glob::glob_with(pattern, options) {
        Ok(paths) => Box::new(paths.filter_map(Result::ok)),
        // A name with brackets in it.
        Err(_) => Box::new(std::iter::once(PathBuf::from(pattern))),
    };
    let now = SystemTime::now();
    for path in paths {
        let Ok(link) = fs::symlink_metadata(&path) else { continue };
        let target = if link.is_symlink() { fs::metadata(&path) } else { Ok(link.clone()) };
        let Ok(metadata) = target else { continue };
        let Ok(modified) = metadata.modified() else { continue };
        if !metadata.is_file() && !metadata.is_dir() {
            continue;
        }
        if metadata.dev() != link.dev() {
            look.leads_away.get_or_insert(path);
            continue;
        }
        if look.directories.len() < DIRECTORIES
            && let Some(directory) = path.parent()
        {
            look.directories.insert(directory.to_owned());
        }
        look.newest.push(Found { path, modified, size: metadata.len(), inode: metadata.ino() });
        if look.newest.len() > 64 * NEWEST {
            keep_newest(&mut look.newest, now);
        }
    }
    keep_newest(&mut look.newest, now);
    look
}

/// Files with times in the future are kept beside the others: they are from before the clock was set back, or of a file
/// server whose clock is ahead, and must not take the place of those that are written now.
fn keep_newest(found: &mut Vec<Found>, now: SystemTime) {
    found.sort_by_key(|found| found.modified);
    let mut future = found.split_off(found.partition_point(|found| found.modified <= now));
    for part in [&mut *found, &mut future] {
        part.drain(..part.len().saturating_sub(NEWEST));
    }
    found.append(&mut future);
}

/// The directory above the first part of a path that is a pattern, or above its last part.
#[must_use]
pub fn fixed_part(pattern: &str) -> PathBuf {
    let path = Path::new(pattern);
    let is_fixed = |part: &&std::ffi::OsStr| part.to_str().is_some_and(|part| Pattern::escape(part) == part);
    let mut fixed: PathBuf = path.iter().take_while(is_fixed).collect();
    if fixed == path {
        fixed.pop();
    }
    if fixed.as_os_str().is_empty() { PathBuf::from(".") } else { fixed }
}

/// What the clock showed that gives files in a directory their times.
#[derive(Debug, Clone, Copy)]
pub struct ServerTime {
    /// The time.
    pub time: SystemTime,
    /// It was not asked earlier.
    pub asked: Instant,
    /// The answer took so long.
    pub took: Duration,
}

impl ServerTime {
    /// Asks: this machine if its kernel gives files their times, else the file server.
    #[must_use]
    pub fn ask(directory: &Path) -> Self {
        let is_local = is_local(directory);
        let asked = Instant::now();
        let here = SystemTime::now();
        let time = if is_local { here } else { touched(directory).unwrap_or(here) };
        Self { time, asked, took: asked.elapsed() }
    }
}

/// Whether this machine's kernel gives files their times. A file system that is not known may be a remote one.
fn is_local(directory: &Path) -> bool {
    const BTRFS: i64 = 0x9123_683E;
    const EXT: i64 = 0xEF53;
    const F2FS: i64 = 0xF2F5_2010;
    const OVERLAY: i64 = 0x794C_7630;
    const TMPFS: i64 = 0x0102_1994;
    const XFS: i64 = 0x5846_5342;
    const ZFS: i64 = 0x2FC1_2FC1;
    let Ok(filesystem) = statfs::statfs(directory) else { return true };
    // The type of the number differs from one C library to the next.
    #[allow(clippy::unnecessary_cast, clippy::cast_possible_wrap, reason = "unsigned with musl")]
    let kind = filesystem.filesystem_type().0 as i64;
    [BTRFS, EXT, F2FS, OVERLAY, TMPFS, XFS, ZFS].contains(&(kind & 0xFFFF_FFFF))
}

/// The time that a file gets which is made now.
fn touched(directory: &Path) -> Option<SystemTime> {
    // Ranks of a gang in other containers have the same process id and the same folder.
    let name = format!("{OWN_FILES}{:016x}", random::number());
    let path = directory.join(name);
    let file = OpenOptions::new().write(true).create_new(true).open(&path).ok()?;
    let time = file.metadata().and_then(|file| file.modified());
    fs::remove_file(&path).ok();
    time.ok()
}

/// When a checkpoint was made, by the clock that never jumps.
#[must_use]
pub fn made(found: &Found, server: ServerTime) -> Made {
    // The kernel gives files the time of its last tick, and some file systems whole seconds.
    const TICK: Duration = Duration::from_millis(20);
    let age = server.time.duration_since(found.modified).unwrap_or_default();
    let since_epoch = found.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let rounded = if since_epoch.subsec_nanos() == 0 { Duration::from_secs(1) } else { TICK };
    let at = server.asked.checked_sub(age).unwrap_or(server.asked);
    Made { at, precision: rounded + server.took, came_before_stop: false }
}

/// The progress that the workload wrote. Nothing while the file is missing or empty.
///
/// # Errors
/// What is wrong with the file.
pub fn progress(path: &Path) -> Result<Option<f64>, String> {
    const LONGEST: u64 = 64;
    // A FIFO must not stop the reader.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let Ok(mut file) = file else { return Ok(None) };
    if !file.metadata().is_ok_and(|file| file.is_file()) {
        return Err("it is not a regular file".to_owned());
    }
    let mut text = Vec::new();
    file.by_ref().take(LONGEST).read_to_end(&mut text).map_err(|error| error.to_string())?;
    parse_progress(&String::from_utf8_lossy(&text))
}

fn parse_progress(text: &str) -> Result<Option<f64>, String> {
    let text = text.trim();
    if text.is_empty() {
        // The workload is about to write it.
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(Some(number)),
        _ => Err(format!("it holds {text:?}; a number between 0 and 1 is needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_many_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for number in 0..600_u64 {
            let file = fs::File::create(folder.path().join(format!("{number}.cpt"))).unwrap();
            file.set_modified(time(1_000 + (number * 7) % 600)).unwrap();
        }
        fs::create_dir(folder.path().join("step.cpt")).unwrap();
        fs::write(folder.path().join(".hidden.cpt"), "").unwrap();
        std::os::unix::net::UnixListener::bind(folder.path().join("socket.cpt")).unwrap();
        let look = look(folder.path().join("*.cpt").to_str().unwrap());
        let times: Vec<SystemTime> = look.newest.iter().map(|found| found.modified).collect();
        assert_eq!(times[..3], [time(1_597), time(1_598), time(1_599)]);
        assert!(look.newest[3].path.ends_with("step.cpt"));
        assert_eq!(look.directories, BTreeSet::from([folder.path().to_owned()]));
    }

    #[test]
    fn a_fifo_does_not_stop_the_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(look(path.to_str().unwrap()).newest.is_empty());
        assert!(progress(&path).is_err());
        assert_eq!(progress(&folder.path().join("missing")), Ok(None));
    }

    #[test]
    fn the_fixed_part_of_a_pattern() {
        for (pattern, fixed) in [
            ("/data/state.cpt", "/data"),
            ("/data/*/state.cpt", "/data"),
            ("/data/run/*.cpt", "/data/run"),
            ("state.cpt", "."),
            ("/state.cpt", "/"),
            ("*.cpt", "."),
        ] {
            assert_eq!(fixed_part(pattern), Path::new(fixed), "{pattern}");
        }
        // No pattern at all: a name.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a***b");
        fs::write(&path, "x").unwrap();
        assert_eq!(look(path.to_str().unwrap()).newest.len(), 1);
    }

    #[test]
    fn a_touched_file_gives_the_time_and_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let before = SystemTime::now() - Duration::from_secs(1);
        let time = touched(folder.path()).unwrap();
        assert!(time > before && time < SystemTime::now() + Duration::from_secs(1));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(touched(&folder.path().join("missing")), None);
    }

    #[test]
    fn a_file_servers_clock_cancels_out() {
        let second = Duration::from_secs(1);
        // The server's clock is a year ahead, and it takes two seconds to answer.
        let server = ServerTime {
            time: SystemTime::now() + 365 * 86_400 * second,
            asked: Instant::now(),
            took: 2 * second,
        };
        let found = |modified| Found { path: PathBuf::new(), modified, size: 1, inode: 1 };
        let thirty = made(&found(server.time - 30 * second - Duration::from_nanos(1)), server);
        assert!(((server.asked - thirty.at).as_secs_f64() - 30.0).abs() < 1e-6);
        // A time in the future is now.
        assert_eq!(made(&found(server.time + second), server).at, server.asked);
        let whole = found(SystemTime::UNIX_EPOCH + 100 * second);
        assert_eq!(made(&whole, server).precision, 3 * second);
        assert!(made(&found(SystemTime::UNIX_EPOCH + second / 2), server).precision < 3 * second);
    }

    #[test]
    fn progress_is_a_number_between_0_and_1() {
        for (text, value) in [("0.25\n", 0.25), ("1", 1.0), (" 0 ", 0.0), ("5e-1", 0.5)] {
            assert_eq!(parse_progress(text), Ok(Some(value)));
        }
        assert_eq!(parse_progress("\n"), Ok(None));
        for bad in ["nan", "1.01", "-0.1", "inf", "half", "\u{fffd}"] {
            assert!(parse_progress(bad).is_err(), "{bad}");
        }
    }
}
