//! The files in the folder of a row: which there are, which are wanted, and how they come to this machine.
//!
//! A pod runs constant scripts with `sh -c SCRIPT NAME FOLDER ...`, so no shell parses a name. Its answer is
//! not trusted: a name leads nowhere but into the folder that the user named, and a file counts as copied only when its
//! size and checksum are right.

mod local;
mod unpack;

use std::collections::BTreeSet;

use glob::{MatchOptions, Pattern};

pub(crate) use local::hexadecimal;
pub use local::{A_FOLDER, Present, digest_of, present};
pub use unpack::{Arrived, UnpackError, unpack};

use crate::cluster::Ended;
use crate::manifest::MOUNT_PATH;
use crate::store::RowFolder;

const LIST_SCRIPT: &str = concat!(include_str!("own.sh"), include_str!("list.sh"));
const SUMS_SCRIPT: &str = concat!(include_str!("own.sh"), include_str!("sums.sh"));
const COPY_SCRIPT: &str = concat!(include_str!("own.sh"), include_str!("copy.sh"));
const END_SCRIPT: &str = concat!(include_str!("own.sh"), include_str!("end.sh"));

/// Exit codes of the scripts.
const NO_TOOL: i32 = 3;
const NO_FOLDER: i32 = 4;
const NO_LOG: i32 = 7;
const OF_ANOTHER: i32 = 9;

/// Files that are copied in one go: a connection that breaks costs no more than these.
const MOST_FILES: usize = 100;
const MOST_BYTES: u64 = 256 << 20;

/// Bytes of their names: these are part of a request's address, which has at most 64 KiB in the client, and needs three characters
/// for a byte that is no ASCII.
const MOST_NAME_BYTES: usize = 12 << 10;

/// Why the folder cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// The image lacks a program.
    #[error("image {image} has no {tool}; name another one with --image, such as debian:stable-slim")]
    FindTool {
        /// The image.
        image: String,
        /// The program.
        tool: String,
    },
    /// The row wrote nothing.
    #[error("there is no folder {folder} on PersistentVolumeClaim {claim} yet: row {row} is {state}{}", because(reason.as_deref()))]
    FindFolder {
        /// The folder.
        folder: String,
        /// The claim.
        claim: String,
        /// The row.
        row: i64,
        /// Its state.
        state: String,
        /// Why.
        reason: Option<String>,
    },
    /// It is not marked with the UUID of the row.
    #[error(
        "{folder} on PersistentVolumeClaim {claim} is not the folder of row {row}: its file .row does not have the row's UUID; if \
         it is all the same, write {uuid} into that file, else look at it with a pod of your own"
    )]
    Own {
        /// The folder.
        folder: String,
        /// The claim.
        claim: String,
        /// The row.
        row: i64,
        /// Its UUID.
        uuid: String,
    },
    /// mdrun did not start.
    #[error("there is no md.log in {folder} on PersistentVolumeClaim {claim}: row {row} is {state}{}", because(reason.as_deref()))]
    FindLog {
        /// The folder.
        folder: String,
        /// The claim.
        claim: String,
        /// The row.
        row: i64,
        /// Its state.
        state: String,
        /// Why.
        reason: Option<String>,
    },
    /// Anything else.
    #[error(
        "{folder} on PersistentVolumeClaim {claim} cannot be read as user {user} (exit code {code}): {complaint}"
    )]
    Read {
        /// The folder.
        folder: String,
        /// The claim.
        claim: String,
        /// User id of the row.
        user: i64,
        /// Exit code.
        code: i32,
        /// What the command says.
        complaint: String,
    },
    /// Nothing matches.
    #[error("no file of row {row} matches {pattern:?}; `gromacs-submitter files {row}` lists them{}", in_folders(found_in.as_deref()))]
    Match {
        /// The row.
        row: i64,
        /// The pattern.
        pattern: String,
        /// The pattern that means such files in the folders below, if there are any.
        found_in: Option<String>,
    },
}

/// `: waits for its turn`, or nothing.
pub(crate) fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// `, and "**/*.xtc" means those in its folders`, or nothing.
fn in_folders(pattern: Option<&str>) -> String {
    pattern.map(|pattern| format!(", and {pattern:?} means those in its folders")).unwrap_or_default()
}

/// A file in the folder of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Its path in the folder.
    pub name: String,
    /// Its size, bytes.
    pub size: u64,
    /// When it was changed last, seconds since 1970.
    pub modified: i64,
}

impl RemoteFile {
    /// What counts for its place in [`batches`].
    #[must_use]
    pub fn name_and_size(&self) -> (&str, u64) {
        (&self.name, self.size)
    }
}

fn command(
    script: &str,
    name: &str,
    folder: &RowFolder,
    more: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let path = format!("{MOUNT_PATH}/{}", folder.path());
    let start = ["sh", "-c", script, name].map(ToOwned::to_owned);
    start.into_iter().chain([path, folder.uuid.clone()]).chain(more).collect()
}

/// Lists the folder.
#[must_use]
pub fn list_command(folder: &RowFolder) -> Vec<String> {
    command(LIST_SCRIPT, "list", folder, [])
}

/// Writes files as tar does.
#[must_use]
pub fn copy_command(folder: &RowFolder, files: &[RemoteFile]) -> Vec<String> {
    command(COPY_SCRIPT, "copy", folder, files.iter().map(|file| argument(&file.name)))
}

/// Prints the checksums of so many bytes of files.
#[must_use]
pub fn sums_command<'a>(folder: &RowFolder, files: impl IntoIterator<Item = (&'a str, u64)>) -> Vec<String> {
    let pairs = files.into_iter().flat_map(|(name, size)| [size.to_string(), argument(name)]);
    command(SUMS_SCRIPT, "sums", folder, pairs)
}

/// Prints the end of mdrun's log; of the newest one if the row is of several simulations and `simulation` names none.
#[must_use]
pub fn end_command(folder: &RowFolder, lines: u32, simulation: Option<&str>) -> Vec<String> {
    let more = [Some(lines.to_string()), simulation.map(ToOwned::to_owned)];
    command(END_SCRIPT, "end", folder, more.into_iter().flatten())
}

/// No name is taken for an option.
fn argument(name: &str) -> String {
    format!("./{name}")
}

/// Why a script failed; none if it did not.
///
/// # Errors
/// [`FolderError`].
pub fn check(folder: &RowFolder, image: &str, ended: &Ended) -> Result<(), FolderError> {
    let claim = folder.persistent_volume_claim.clone();
    let (path, row, state, reason) = (folder.path(), folder.id, folder.state.clone(), folder.reason.clone());
    match ended.code {
        0 => Ok(()),
        NO_TOOL => Err(FolderError::FindTool { image: image.to_owned(), tool: ended.complaint.clone() }),
        NO_FOLDER => Err(FolderError::FindFolder { folder: path, claim, row, state, reason }),
        OF_ANOTHER => Err(FolderError::Own { folder: path, claim, row, uuid: folder.uuid.clone() }),
        NO_LOG => Err(FolderError::FindLog { folder: path, claim, row, state, reason }),
        code => {
            let complaint = ended.complaint.clone();
            Err(FolderError::Read { folder: path, claim, user: folder.run_as_user, code, complaint })
        }
    }
}

/// Reads what the listing printed, in the order of names. A line that names no file in the folder is left out.
#[must_use]
pub fn parse_listing(printed: &[u8]) -> Vec<RemoteFile> {
    let mut files: Vec<RemoteFile> = printed
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let mut words = std::str::from_utf8(line).ok()?.splitn(3, ' ');
            let (size, modified) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(RemoteFile { name: unpack::inside(words.next()?)?, size, modified })
        })
        .collect();
    files.sort_by(|left, right| left.name.cmp(&right.name));
    files.dedup_by(|left, right| left.name == right.name);
    files
}

/// Reads checksums, one a line.
#[must_use]
pub fn parse_sums(printed: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(printed);
    text.lines().filter_map(|line| line.split_whitespace().next()).map(ToOwned::to_owned).collect()
}

/// The files that any of the patterns means; all without patterns.
///
/// # Errors
/// [`FolderError::Match`] if a pattern means none.
pub fn select(row: i64, files: &[RemoteFile], patterns: &[Pattern]) -> Result<Vec<RemoteFile>, FolderError> {
    // An asterisk stays in its folder, as in a shell.
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let means = |pattern: &Pattern, file: &RemoteFile| {
        // A name of a file that looks like a pattern means that file.
        pattern.as_str() == file.name || pattern.matches_with(&file.name, options)
    };
    if let Some(pattern) = patterns.iter().find(|pattern| !files.iter().any(|file| means(pattern, file))) {
        // Each simulation of a row of several has a folder of its own.
        let below = format!("**/{}", pattern.as_str());
        let found = Pattern::new(&below).is_ok_and(|below| files.iter().any(|file| means(&below, file)));
        let found_in = Some(below).filter(|_| found);
        return Err(FolderError::Match { row, pattern: pattern.as_str().to_owned(), found_in });
    }
    let wanted =
        |file: &&RemoteFile| patterns.is_empty() || patterns.iter().any(|pattern| means(pattern, file));
    Ok(files.iter().filter(wanted).cloned().collect())
}

/// Groups of files with these names and sizes that are copied in one go, in their order.
#[must_use]
pub fn batches<T>(files: &[T], name_and_size: impl Fn(&T) -> (&str, u64)) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let (mut begin, mut name_bytes, mut bytes) = (0, 0, 0_u64);
    for (end, file) in files.iter().enumerate() {
        let (name, size) = name_and_size(file);
        name_bytes += name.len();
        bytes = bytes.saturating_add(size);
        let is_full = end - begin >= MOST_FILES || name_bytes > MOST_NAME_BYTES || bytes > MOST_BYTES;
        if end > begin && is_full {
            batches.push(&files[begin..end]);
            (begin, name_bytes, bytes) = (end, name.len(), size);
        }
    }
    if begin < files.len() {
        batches.push(&files[begin..]);
    }
    batches
}

/// Names of files.
#[must_use]
pub fn names(files: &[RemoteFile]) -> BTreeSet<String> {
    files.iter().map(|file| file.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::row_folder;

    fn file(name: &str, size: u64) -> RemoteFile {
        RemoteFile { name: name.to_owned(), size, modified: 0 }
    }

    fn chosen(patterns: &[&str]) -> Result<Vec<String>, FolderError> {
        let files =
            ["a[1].dat", "confout.gro", "md.log", "md.part0002.log", "sub/x.log"].map(|name| file(name, 1));
        let patterns: Vec<Pattern> =
            patterns.iter().map(|pattern| Pattern::new(pattern).expect("should be a pattern")).collect();
        select(7, &files, &patterns).map(|files| files.into_iter().map(|file| file.name).collect())
    }

    #[test]
    fn patterns_choose_as_in_a_shell() {
        let is = |patterns: &[&str], names: &[&str]| {
            assert_eq!(chosen(patterns).expect("should match"), names, "{patterns:?}");
        };
        is(&["*.log"], &["md.log", "md.part0002.log"]);
        is(&["**/*.log"], &["md.log", "md.part0002.log", "sub/x.log"]);
        is(&["md.log", "*.gro", "md.*"], &["confout.gro", "md.log", "md.part0002.log"]);
        is(&["a[1].dat"], &["a[1].dat"]);
        assert_eq!(chosen(&[]).expect("should be all").len(), 5);
    }

    #[test]
    fn a_pattern_that_means_nothing_is_an_error() {
        let error = chosen(&["*.log", "*.trr"]).expect_err("should be refused").to_string();
        assert_eq!(error, "no file of row 7 matches \"*.trr\"; `gromacs-submitter files 7` lists them");
        assert!(chosen(&["sub"]).is_err() && chosen(&["../*"]).is_err());
        // Where each simulation has a folder.
        let error = chosen(&["x.*"]).expect_err("should be refused").to_string();
        assert!(error.ends_with("lists them, and \"**/x.*\" means those in its folders"), "{error}");
    }

    #[test]
    fn a_listing_names_files_of_the_folder_only() {
        let printed =
            b"12 1800000000 ./md.log\n7 1800000001 ./a b.gro\n1 2 ./../etc/passwd\n1 2 /etc/passwd\n\
                        x 2 ./no-size\n3 4 ./sub/x\n1 2 ./md.log\n1 2 ./\xff\n\n";
        let expected = [("a b.gro", 7, 1_800_000_001), ("md.log", 12, 1_800_000_000), ("sub/x", 3, 4)];
        let files: Vec<(String, u64, i64)> =
            parse_listing(printed).into_iter().map(|file| (file.name, file.size, file.modified)).collect();
        assert_eq!(files, expected.map(|(name, size, modified)| (name.to_owned(), size, modified)));
    }

    #[test]
    fn batches_are_small_and_leave_nothing_out() {
        let mut files: Vec<RemoteFile> = (0..250).map(|number| file(&number.to_string(), 1)).collect();
        files.insert(0, file("large", MOST_BYTES + 1));
        let batches = batches(&files, RemoteFile::name_and_size);
        let sizes: Vec<usize> = batches.iter().map(|batch| batch.len()).collect();
        assert_eq!(sizes, [1, 100, 100, 50]);
        assert_eq!(batches.concat(), files);
    }

    #[test]
    fn names_are_neither_options_nor_part_of_a_script() {
        let folder = row_folder();
        let hostile = [file("-rf", 1), file("$(id)", 2)];
        let copy = copy_command(&folder, &hostile);
        assert_eq!(
            copy[2..],
            [COPY_SCRIPT, "copy", "/data/water/gromacs-7", &folder.uuid, "./-rf", "./$(id)"]
        );
        let sums = sums_command(&folder, [("-rf", 1)]);
        assert_eq!(sums[4..], ["/data/water/gromacs-7", &folder.uuid, "1", "./-rf"]);
    }

    /// What a script prints for a folder of this machine, and its exit code.
    fn run(mut command: Vec<String>, folder: &std::path::Path) -> (Vec<u8>, Ended) {
        command[4] = folder.to_str().expect("should be text").to_owned();
        let output = std::process::Command::new(&command[0])
            .args(&command[1..])
            .env("LC_ALL", "C")
            .output()
            .expect("sh should start");
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        (output.stdout, Ended { code: output.status.code().unwrap_or(-1), complaint })
    }

    /// What the inspection does.
    fn mark(folder: &std::path::Path, uuid: &str) {
        std::fs::write(folder.join(".row"), format!("{uuid}\n")).expect("should write");
    }

    #[test]
    fn the_folder_of_another_row_of_the_same_number_is_not_read() {
        let source = tempfile::tempdir().expect("should make a folder");
        std::fs::write(source.path().join("md.log"), "a secret\n").expect("should write");
        let folder = row_folder();
        let commands = || {
            let sums = sums_command(&folder, [("md.log", 1)]);
            [
                list_command(&folder),
                copy_command(&folder, &[file("md.log", 1)]),
                sums,
                end_command(&folder, 1, None),
            ]
        };
        let other = crate::fixtures::namesake().uuid;
        // Nobody has made it, another row has, or its marker is cut off.
        for marked in [None, Some(other.as_str()), Some(""), Some(&folder.uuid[..8])] {
            if let Some(uuid) = marked {
                mark(source.path(), uuid);
            }
            for command in commands() {
                let (printed, ended) = run(command, source.path());
                assert_eq!((printed.as_slice(), ended.code), (&b""[..], OF_ANOTHER), "{marked:?}");
                let sentence = check(&folder, "gmx", &ended).expect_err("should be refused").to_string();
                let beginning =
                    "water/gromacs-7 on PersistentVolumeClaim simulations is not the folder of row 7: ";
                assert!(sentence.starts_with(beginning) && sentence.contains(&folder.uuid), "{sentence}");
            }
        }
        mark(source.path(), &folder.uuid);
        for command in commands() {
            assert_eq!(run(command, source.path()).1.code, 0);
        }
    }

    #[test]
    fn a_folder_is_listed_summed_and_copied() {
        let root = tempfile::tempdir().expect("should make a folder");
        let (source, target) = (root.path().join("source"), root.path().join("target"));
        let folder = row_folder();
        let write = |name: &str, content: &str| {
            std::fs::write(source.join(name), content).expect("should write");
        };
        assert_eq!(run(list_command(&folder), &source).1.code, NO_FOLDER);
        std::fs::create_dir_all(source.join("sub")).expect("should make a folder");
        mark(&source, &folder.uuid);
        std::fs::create_dir(&target).expect("should make a folder");
        for (name, content) in
            [("md.log", "abcdef"), ("-n", "x"), ("$(id) 'a\"b", "y"), ("sub/w\u{e4}.gro", "")]
        {
            write(name, content);
        }
        for name in [".hidden", "two\nlines"] {
            write(name, "hidden");
        }
        std::os::unix::fs::symlink("/etc/passwd", source.join("link")).expect("should link");

        let (printed, ended) = run(list_command(&folder), &source);
        assert_eq!(check(&folder, "gmx", &ended), Ok(()));
        let files = parse_listing(&printed);
        let sizes: Vec<(&str, u64)> = files.iter().map(|file| (file.name.as_str(), file.size)).collect();
        assert_eq!(sizes, [("$(id) 'a\"b", 1), ("-n", 1), ("md.log", 6), ("sub/w\u{e4}.gro", 0)]);
        assert!(files.iter().all(|file| file.modified > 1_700_000_000), "{files:?}");

        let (stream, ended) = run(copy_command(&folder, &files), &source);
        assert_eq!(check(&folder, "gmx", &ended), Ok(()));
        let arrived = unpack(stream.as_slice(), &target, &names(&files)).expect("should be taken");
        // A log grows meanwhile, and a checkpoint is another one.
        write("md.log", "abcdefghi");
        write("-n", "z");
        let (sums, ended) =
            run(sums_command(&folder, arrived.iter().map(|file| (file.name.as_str(), file.size))), &source);
        assert_eq!(check(&folder, "gmx", &ended), Ok(()));
        let equal: Vec<bool> =
            arrived.iter().zip(parse_sums(&sums)).map(|(file, sum)| file.sha256 == sum).collect();
        assert_eq!(equal, [true, false, true, true]);
    }

    #[test]
    fn the_end_of_the_newest_log_is_printed() {
        let source = tempfile::tempdir().expect("should make a folder");
        let folder = row_folder();
        mark(source.path(), &folder.uuid);
        let end = || run(end_command(&folder, 2, None), source.path());
        assert_eq!(end().1.code, NO_LOG);
        let old = std::time::SystemTime::UNIX_EPOCH;
        std::fs::write(source.path().join("md.log"), "old\n").expect("should write");
        let file = std::fs::File::options().append(true).open(source.path().join("md.log"));
        file.expect("should open").set_modified(old).expect("should be older");
        std::fs::write(source.path().join("md.part0002.log"), "a\nb\nc\n").expect("should write");
        let (printed, ended) = end();
        assert_eq!((String::from_utf8_lossy(&printed).as_ref(), ended.code), ("md.part0002.log\nb\nc\n", 0));
    }

    #[test]
    fn of_several_simulations_the_newest_log_is_printed_or_that_which_is_wanted() {
        let source = tempfile::tempdir().expect("should make a folder");
        let folder = row_folder();
        mark(source.path(), &folder.uuid);
        let end = |simulation: Option<&str>| {
            let (printed, ended) = run(end_command(&folder, 1, simulation), source.path());
            (String::from_utf8_lossy(&printed).into_owned(), ended.code)
        };
        for (name, age) in [("sim0", 30), ("a b/$(id)", 10), ("-", 20)] {
            let inside = source.path().join(name);
            std::fs::create_dir_all(&inside).expect("should make a folder");
            let log = inside.join("md.log");
            std::fs::write(&log, format!("first\nof {name}\n")).expect("should write");
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            let file = std::fs::File::options().append(true).open(log).expect("should open");
            file.set_modified(time).expect("should be older");
        }
        assert_eq!(end(None), ("a b/$(id)/md.log\nof a b/$(id)\n".to_owned(), 0));
        for name in ["sim0", "-"] {
            assert_eq!(end(Some(name)), (format!("{name}/md.log\nof {name}\n"), 0));
        }
        std::fs::write(source.path().join("sim0/md.part0002.log"), "newer\n").expect("should write");
        assert_eq!(end(Some("sim0")), ("sim0/md.part0002.log\nnewer\n".to_owned(), 0));
        assert_eq!(end(Some("none")).1, NO_LOG, "it has not started");
        // Its files are listed with the folders, and a pattern finds them there.
        let (printed, ended) = run(list_command(&folder), source.path());
        assert_eq!(check(&folder, "gmx", &ended), Ok(()));
        let files = parse_listing(&printed);
        let of = |pattern: &str| {
            let pattern = Pattern::new(pattern).expect("should be a pattern");
            let chosen = select(7, &files, &[pattern]).map_err(|error| error.to_string())?;
            Ok::<_, String>(chosen.into_iter().map(|file| file.name).collect::<Vec<_>>())
        };
        assert_eq!(
            of("sim0/*.log"),
            Ok(["sim0/md.log", "sim0/md.part0002.log"].map(ToOwned::to_owned).to_vec())
        );
        assert_eq!(of("**/md.log").map(|files| files.len()), Ok(3));
        let error = of("*.log").expect_err("should mean none");
        assert!(error.ends_with("and \"**/*.log\" means those in its folders"), "{error}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let say = |code: i32, complaint: &str| {
            let ended = Ended { code, complaint: complaint.to_owned() };
            check(&row_folder(), "gmx:1", &ended).map_err(|error| error.to_string())
        };
        assert_eq!(say(0, ""), Ok(()));
        let sentence = |code: i32, complaint: &str| say(code, complaint).expect_err("should be an error");
        assert_eq!(
            sentence(NO_TOOL, "tar"),
            "image gmx:1 has no tar; name another one with --image, such as debian:stable-slim"
        );
        assert_eq!(
            sentence(NO_FOLDER, ""),
            "there is no folder water/gromacs-7 on PersistentVolumeClaim simulations yet: row 7 is queued: waits for \
             its turn"
        );
        assert!(sentence(NO_LOG, "").starts_with("there is no md.log in water/gromacs-7"));
        assert!(sentence(5, "cd: denied").contains("as user 2001 (exit code 5): cd: denied"));
    }
}
