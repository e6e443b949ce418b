//! Files of this machine that are to be brought: ordinary files below a root, by the paths that they have there.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};

/// As long as a path on a volume may be, bytes: the column `tpr_path` allows no more.
const LONGEST_PATH: usize = 900;

/// Why files are not brought.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// The root is none.
    #[error("--root {} cannot be read: {source}", root.display())]
    FindRoot {
        /// The root.
        root: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A path that leads out of the root.
    #[error("{path} is not inside {}; name the folder above it with --root", root.display())]
    StayInside {
        /// What was named.
        path: String,
        /// The root.
        root: PathBuf,
    },
    /// Nothing is there.
    #[error("there is no {path} in {}", root.display())]
    FindFile {
        /// What was named.
        path: String,
        /// The root.
        root: PathBuf,
    },
    /// A pattern that means nothing.
    #[error("{path} is not a pattern: {why}; write for example 'water-*/*.tpr'")]
    ReadPattern {
        /// What was named.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// A device, a pipe and the like.
    #[error("{0} is neither a file nor a folder; only these are copied")]
    TakeKind(String),
    /// A hidden file: such names are the submitter's own on the volume.
    #[error("{0} is hidden; give it a name that does not begin with a dot")]
    TakeHidden(String),
    /// A name that the volume cannot have.
    #[error(
        "{0:?} cannot be a path on the volume: a path has at most {LONGEST_PATH} bytes of UTF-8, and no control characters; rename it"
    )]
    TakeName(String),
    /// A folder of the volume that is none.
    #[error(
        "--to {0:?} must be a folder relative to the root of the volume, without '..', hidden folders and control characters, for example water/monday"
    )]
    TakeFolder(String),
    /// It cannot be looked at.
    #[error("{} cannot be read: {source}", path.display())]
    Look {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A file of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    /// Its path below the root, as it is stored.
    pub name: String,
    /// Its size when it was found, bytes.
    pub size: u64,
    /// Where it is. No part of it is a link.
    pub path: PathBuf,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The files, in the order of their names, each once.
    pub files: Vec<LocalFile>,
    /// What lies in the folders and is not copied: hidden files, links, devices.
    pub left_out: Vec<String>,
}

/// Finds files, folders with all that is in them, and patterns for both, below `root`. A file with exactly the name comes before
/// a pattern.
///
/// # Errors
/// [`NameError`] for the first path that cannot be brought.
pub fn find(root: &Path, paths: &[String]) -> Result<Found, NameError> {
    let real = root.canonicalize().and_then(|real| fs::read_dir(&real).map(|_| real));
    let real = real.map_err(|source| NameError::FindRoot { root: root.to_owned(), source })?;
    let mut search = Search {
        known: std::path::absolute(root).unwrap_or_else(|_| real.clone()),
        real,
        files: BTreeMap::new(),
        left_out: Vec::new(),
    };
    for path in paths {
        search.named(path)?;
    }
    search.left_out.sort();
    search.left_out.dedup();
    Ok(Found { files: search.files.into_values().collect(), left_out: search.left_out })
}

/// A folder from the root of the volume, in the shape in which paths are stored; empty for the root itself.
///
/// # Errors
/// [`NameError::TakeFolder`].
pub fn check_folder(folder: &str) -> Result<String, NameError> {
    let refuse = || NameError::TakeFolder(folder.to_owned());
    let name = stored(Path::new(folder)).ok_or_else(refuse)?;
    if !is_good(&name) || is_hidden(&name) { Err(refuse()) } else { Ok(name) }
}

/// The path of a file in a folder of the volume.
///
/// # Errors
/// [`NameError::TakeName`] if the volume cannot have it.
pub fn path_of(folder: &str, name: &str) -> Result<String, NameError> {
    let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    if is_good(&path) { Ok(path) } else { Err(NameError::TakeName(path)) }
}

/// A path by its parts; none if it leads upwards, is absolute or is not UTF-8.
fn stored(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

fn is_good(path: &str) -> bool {
    path.len() <= LONGEST_PATH && !path.chars().any(char::is_control)
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.'))
}

struct Search {
    /// The root without links.
    real: PathBuf,
    /// As the user knows it.
    known: PathBuf,
    files: BTreeMap<String, LocalFile>,
    left_out: Vec<String>,
}

impl Search {
    fn named(&mut self, path: &str) -> Result<(), NameError> {
        let outside = || NameError::StayInside { path: path.to_owned(), root: self.known.clone() };
        let given = Path::new(path);
        let below = if given.is_absolute() {
            given
                .strip_prefix(&self.known)
                .or_else(|_| given.strip_prefix(&self.real))
                .map_err(|_| outside())?
        } else {
            given
        };
        let name = stored(below).ok_or_else(outside)?;
        if self.real.join(&name).symlink_metadata().is_ok() {
            return self.take(&name, path);
        }
        let none = || NameError::FindFile { path: path.to_owned(), root: self.known.clone() };
        if !name.contains(['*', '?', '[']) {
            return Err(none());
        }
        let parts: Result<Vec<Part>, _> = name.split('/').map(Part::new).collect();
        let parts =
            parts.map_err(|error| NameError::ReadPattern { path: path.to_owned(), why: error.msg })?;
        let mut names = Vec::new();
        self.matching("", &parts, &mut names)?;
        if names.is_empty() {
            return Err(none());
        }
        names.iter().try_for_each(|name| self.take(name, name))
    }

    /// Takes what was named, or what a pattern means.
    fn take(&mut self, name: &str, named: &str) -> Result<(), NameError> {
        if is_hidden(name) {
            return Err(NameError::TakeHidden(named.to_owned()));
        }
        let path = self.real.join(name);
        let failed = |source| NameError::Look { path: path.clone(), source };
        // One that was named may be a link, as long as it stays inside.
        let path = path.canonicalize().map_err(failed)?;
        if !path.starts_with(&self.real) {
            return Err(NameError::StayInside { path: named.to_owned(), root: self.known.clone() });
        }
        let found = path.symlink_metadata().map_err(failed)?;
        if found.is_dir() {
            self.folder(&path, name)
        } else if found.is_file() {
            self.file(path, name.to_owned(), &found)
        } else {
            Err(NameError::TakeKind(named.to_owned()))
        }
    }

    fn file(&mut self, path: PathBuf, name: String, found: &Metadata) -> Result<(), NameError> {
        if !is_good(&name) {
            return Err(NameError::TakeName(name));
        }
        self.files.insert(name.clone(), LocalFile { name, size: found.len(), path });
        Ok(())
    }

    /// Takes all that is in a folder. Links are not followed: one could lead out of it, or upwards.
    fn folder(&mut self, path: &Path, name: &str) -> Result<(), NameError> {
        if !is_good(name) {
            return Err(NameError::TakeName(name.to_owned()));
        }
        for (entry, text) in entries(path)? {
            let name = if name.is_empty() { text.clone() } else { format!("{name}/{text}") };
            let path = path.join(&entry);
            let found =
                path.symlink_metadata().map_err(|source| NameError::Look { path: path.clone(), source })?;
            if text.starts_with('.') || !(found.is_dir() || found.is_file()) {
                self.left_out.push(name);
            } else if entry.to_str().is_none() {
                return Err(NameError::TakeName(name));
            } else if found.is_dir() {
                self.folder(&path, &name)?;
            } else {
                self.file(path, name, &found)?;
            }
        }
        Ok(())
    }

    /// Names below `folder` that a pattern means, sorted.
    fn matching(&self, folder: &str, parts: &[Part], names: &mut Vec<String>) -> Result<(), NameError> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        if matches!(part, Part::Folders) {
            if rest.is_empty() && !folder.is_empty() {
                names.push(folder.to_owned());
            }
            self.matching(folder, rest, names)?;
        }
        let path = self.real.join(folder);
        for (entry, text) in entries(&path)? {
            let name = if folder.is_empty() { text.clone() } else { format!("{folder}/{text}") };
            let is_folder = path.join(&entry).symlink_metadata().is_ok_and(|found| found.is_dir());
            match part {
                _ if text.starts_with('.') => {}
                Part::Folders if is_folder => self.matching(&name, parts, names)?,
                Part::Name(pattern) if pattern.matches_with(&text, MatchOptions::new()) => {
                    if entry.to_str().is_none() {
                        return Err(NameError::TakeName(name));
                    }
                    if rest.is_empty() {
                        names.push(name);
                    } else if is_folder {
                        self.matching(&name, rest, names)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What is in a folder, in the order of names.
fn entries(folder: &Path) -> Result<Vec<(std::ffi::OsString, String)>, NameError> {
    let failed = |source| NameError::Look { path: folder.to_owned(), source };
    let mut entries: Vec<_> = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>())
        .map_err(failed)?
        .into_iter()
        .map(|name| {
            let text = name.to_string_lossy().into_owned();
            (name, text)
        })
        .collect();
    entries.sort();
    Ok(entries)
}

/// What stands between two slashes of a pattern.
enum Part {
    /// `**`: any folders.
    Folders,
    /// A name, or a pattern for one.
    Name(Pattern),
}

impl Part {
    fn new(text: &str) -> Result<Self, glob::PatternError> {
        if text == "**" { Ok(Self::Folders) } else { Pattern::new(text).map(Self::Name) }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("should make a folder");
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("should be inside")).expect("should make a folder");
            fs::write(path, "x").expect("should write a file");
        }
        root
    }

    fn names(root: &Path, paths: &[&str]) -> Result<Vec<String>, String> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let found = find(root, &paths).map_err(|error| error.to_string())?;
        Ok(found.files.into_iter().map(|file| file.name).collect())
    }

    #[test]
    fn files_folders_and_patterns_keep_their_paths() {
        let root =
            folder(&["a 1/topol.tpr", "a 1/sub/ü.mdp", "b/topol.tpr", "b/md.log", "[1].tpr", "$(id).tpr"]);
        let is = |paths: &[&str], expected: &[&str]| {
            assert_eq!(names(root.path(), paths).expect("should be found"), expected, "{paths:?}");
        };
        is(&["a 1"], &["a 1/sub/ü.mdp", "a 1/topol.tpr"]);
        is(&["*/*.tpr"], &["a 1/topol.tpr", "b/topol.tpr"]);
        is(&["**/*.tpr"], &["$(id).tpr", "[1].tpr", "a 1/topol.tpr", "b/topol.tpr"]);
        is(&["a*"], &["a 1/sub/ü.mdp", "a 1/topol.tpr"]);
        is(&["a*/**"], &["a 1/sub/ü.mdp", "a 1/topol.tpr"]);
        is(&["[1].tpr"], &["[1].tpr"]);
        is(&["./b/md.log", "b", "b/"], &["b/md.log", "b/topol.tpr"]);
        is(&[root.path().join("b/md.log").to_str().expect("should be text")], &["b/md.log"]);
        is(&["."], &["$(id).tpr", "[1].tpr", "a 1/sub/ü.mdp", "a 1/topol.tpr", "b/md.log", "b/topol.tpr"]);
    }

    #[test]
    fn what_leads_out_or_is_no_file_is_refused() {
        let root = folder(&["a/x", ".hidden/x", "c\nd"]);
        let outside = folder(&["secret", "folder/secret"]);
        for (target, link) in [("secret", "out"), ("folder", "outside"), ("none", "dangling")] {
            symlink(outside.path().join(target), root.path().join(link)).expect("should link");
        }
        symlink(root.path().join("a/x"), root.path().join("in")).expect("should link");
        for (path, why) in [
            ("../x", "is not inside"),
            ("a/../../x", "is not inside"),
            ("/etc/passwd", "is not inside"),
            ("out", "is not inside"),
            ("out*", "is not inside"),
            ("outside/secret", "is not inside"),
            ("outside", "is not inside"),
            ("dangling", "cannot be read"),
            ("none", "there is no none in"),
            ("none*/*", "there is no none*/* in"),
            ("a**b", "is not a pattern"),
            (".hidden", "is hidden"),
            ("c*", "cannot be a path on the volume"),
        ] {
            let said = names(root.path(), &[path]).expect_err(path);
            assert!(said.contains(why), "{path}: {said}");
        }
        assert_eq!(names(root.path(), &["in"]).expect("should stay inside"), ["in"]);
        let bad = root.path().join(OsStr::from_bytes(b"\xff.tpr"));
        fs::write(bad, "x").expect("should write");
        assert!(names(root.path(), &["?.tpr"]).expect_err("no UTF-8").contains("of UTF-8"));
        assert!(names(&root.path().join("none"), &["a"]).expect_err("no root").contains("--root"));
    }

    #[test]
    fn links_hidden_files_and_pipes_in_a_folder_stay_behind_and_are_named() {
        let root = folder(&["a/x", "a/.git/config", "a/.row"]);
        symlink("/etc", root.path().join("a/etc")).expect("should link");
        symlink("..", root.path().join("a/up")).expect("should link");
        nix::unistd::mkfifo(&root.path().join("a/pipe"), nix::sys::stat::Mode::S_IRWXU)
            .expect("should be made");
        let found = find(root.path(), &["a".to_owned()]).expect("should be found");
        assert_eq!(found.files.iter().map(|file| &*file.name).collect::<Vec<_>>(), ["a/x"]);
        assert_eq!(found.left_out, ["a/.git", "a/.row", "a/etc", "a/pipe", "a/up"]);
        assert!(names(root.path(), &["a/pipe"]).expect_err("a pipe").contains("neither a file nor a folder"));
    }

    #[test]
    fn ten_thousand_files_are_found() {
        let root = tempfile::tempdir().expect("should make a folder");
        for number in 0..10_000 {
            fs::write(root.path().join(format!("{number:05}.mdp")), "").expect("should write");
        }
        assert_eq!(names(root.path(), &["."]).expect("should be found").len(), 10_000);
    }

    #[test]
    fn a_folder_of_the_volume_has_one_shape() {
        for (given, stored) in [("", ""), (".", ""), ("./a//b/", "a/b"), ("a b/ü", "a b/ü"), ("-rf", "-rf")]
        {
            assert_eq!(check_folder(given).expect(given), stored);
        }
        for bad in ["/a", "..", "a/..", "a/../b", ".hidden", "a/.b", "a\nb", &"x".repeat(901)] {
            assert!(check_folder(bad).is_err(), "{bad}");
        }
        assert!(path_of("a", &"x".repeat(899)).is_err());
    }

    proptest! {
        /// Whatever is named: every path that is to be made on the volume lies in the folder, and every file that is read lies in the
        /// root.
        #[test]
        fn no_path_leads_out(named in "(\\.\\./|/|\\./|link/|a/|\\*\\*/|\\*|[a-c.?\\[\\]~ü ]|\\.\\.){1,8}", to in "(\\.\\./|/|\\./|a/|[a-c.~ü ]|\\.\\.){0,6}") {
            let root = folder(&["in/a/b", "in/a/c/a", "in/b/ü", "secret", "a"]);
            symlink("..", root.path().join("in/link")).expect("should link");
            let inside = root.path().join("in");
            if let (Ok(found), Ok(folder)) = (find(&inside, std::slice::from_ref(&named)), check_folder(&to)) {
                let real = inside.canonicalize().expect("should be there");
                for file in found.files {
                    prop_assert!(file.path.canonicalize().expect("should be there").starts_with(&real), "{file:?}");
                    let path = path_of(&folder, &file.name).expect("should be short");
                    prop_assert!(!path.is_empty() && !path.starts_with('/') && !path.ends_with('/'), "{path}");
                    prop_assert!(path.split('/').all(|part| !part.is_empty() && !part.starts_with('.')), "{path}");
                    prop_assert!(folder.is_empty() || path.starts_with(&format!("{folder}/")), "{path}");
                }
            }
        }
    }
}
