//! Paths on a volume: as they are, or found in the folder where the volume is mounted here.

use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;

/// What the user named, and the path relative to the volume's root or why there is none.
type Named = (String, Result<String, String>);

/// A path as it stands: nobody here can see the volume.
pub(super) fn literal(path: String) -> Result<String, String> {
    if path.contains(['*', '?']) {
        return Err("the volume cannot be seen from here, so * and ? find nothing; name with --root the folder where \
                    it is mounted (if the file is really called so, add it with --from)"
            .to_owned());
    }
    Ok(path)
}

/// Finds each path or pattern below `root`. A file with exactly that name comes before a pattern.
pub(super) fn expand(root: &Path, paths: &[String]) -> anyhow::Result<Vec<Named>> {
    let (real, known) = roots(root)?;
    Ok(paths.iter().flat_map(|path| find(&real, &known, path)).collect())
}

/// The one file that `path` names below `root`.
pub(super) fn one(root: &Path, path: &str) -> anyhow::Result<String> {
    let mut found = expand(root, &[path.to_owned()])?;
    anyhow::ensure!(found.len() == 1, "{path} fits {} files", found.len());
    let (named, file) = found.remove(0);
    file.map_err(|why| anyhow::anyhow!("{named}: {why}"))
}

/// A path as it is below `root`, whether anything is there or not.
pub(super) fn relative(root: &Path, path: &str) -> anyhow::Result<Result<String, String>> {
    let (real, known) = roots(root)?;
    Ok(below(&real, &known, path)
        .and_then(|found| found.to_str().map(ToOwned::to_owned).ok_or_else(|| NOT_UTF_8.to_owned())))
}

const NOT_UTF_8: &str = "its name is not UTF-8";

/// The root by its real name, and as the user knows it: an absolute path is written with either.
fn roots(root: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let real = root.canonicalize().with_context(|| format!("--root {} cannot be read", root.display()))?;
    anyhow::ensure!(real.is_dir(), "--root {} is not a folder", root.display());
    let known = std::path::absolute(root).unwrap_or_else(|_| real.clone());
    Ok((real, known))
}

fn below(real: &Path, known: &Path, path: &str) -> Result<PathBuf, String> {
    let relative = if Path::new(path).is_absolute() {
        match Path::new(path).strip_prefix(known).or_else(|_| Path::new(path).strip_prefix(real)) {
            Ok(relative) => relative.to_path_buf(),
            Err(_) => return Err(format!("it is not inside --root {}", known.display())),
        }
    } else {
        PathBuf::from(path)
    };
    // `./a.tpr` is what a shell's completion makes of `a.tpr`; `..` is left for the rule of the table to refuse.
    let relative: PathBuf = relative.components().filter(|part| !matches!(part, Component::CurDir)).collect();
    if relative.components().any(|part| matches!(part, Component::ParentDir)) {
        return Err("it must not hold '..'; name it from the volume's root".to_owned());
    }
    Ok(relative)
}

fn find(real: &Path, known: &Path, path: &str) -> Vec<Named> {
    let refuse = |why: String| vec![(path.to_owned(), Err(why))];
    let relative = match below(real, known, path) {
        Ok(relative) => relative,
        Err(why) => return refuse(why),
    };
    let Some(text) = relative.to_str() else { return refuse(NOT_UTF_8.to_owned()) };
    if real.join(&relative).exists() || !text.contains(['*', '?', '[']) {
        return vec![(text.to_owned(), check(real, &relative))];
    }
    let parts: Result<Vec<Part>, glob::PatternError> = text.split('/').map(Part::new).collect();
    let parts = match parts {
        Ok(parts) => parts,
        Err(error) => return refuse(format!("it is not a pattern: {}", error.msg)),
    };
    let mut found = Vec::new();
    walk(real, Path::new(""), &parts, &mut found);
    if found.is_empty() { refuse(format!("no file in {} fits", known.display())) } else { found }
}

/// What stands between two slashes of a pattern.
enum Part {
    /// `**`: any folders.
    Folders,
    /// A name, or a pattern for one.
    Name(glob::Pattern),
}

impl Part {
    fn new(text: &str) -> Result<Self, glob::PatternError> {
        if text == "**" { Ok(Self::Folders) } else { glob::Pattern::new(text).map(Self::Name) }
    }

    fn fits(pattern: &glob::Pattern, name: &str) -> bool {
        // As in a shell: hidden files are meant only by patterns that begin with a dot.
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
        pattern.matches_with(name, options)
    }
}

/// Collects what fits `parts` in the folder `folder`, sorted by name. The crate's own walk ends the program at the first
/// name that is not UTF-8.
fn walk(real: &Path, folder: &Path, parts: &[Part], found: &mut Vec<Named>) {
    let Some((part, rest)) = parts.split_first() else { return };
    let here = real.join(folder);
    let mut entries = match std::fs::read_dir(&here)
        .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
    {
        Ok(entries) => entries,
        Err(error) => {
            found.push((folder.display().to_string(), Err(format!("the folder cannot be read: {error}"))));
            return;
        }
    };
    entries.sort_by_key(std::fs::DirEntry::file_name);
    if matches!(part, Part::Folders) {
        walk(real, folder, rest, found);
    }
    for entry in entries {
        let path = folder.join(entry.file_name());
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_folder = real.join(&path).is_dir();
        match part {
            // Links to folders are not followed here: one that leads upwards would never end.
            Part::Folders => {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !name.starts_with('.') {
                    walk(real, &path, parts, found);
                }
            }
            Part::Name(pattern) if !Part::fits(pattern, &name) => {}
            Part::Name(_) if is_folder && !rest.is_empty() => walk(real, &path, rest, found),
            Part::Name(_) if !is_folder && rest.is_empty() => {
                found.push((path.to_string_lossy().into_owned(), check(real, &path)));
            }
            Part::Name(_) => {}
        }
    }
}

/// The path, if a file is there that is really on the volume.
fn check(real: &Path, relative: &Path) -> Result<String, String> {
    let text = relative.to_str().ok_or("its name is not UTF-8")?;
    let file = real
        .join(relative)
        .canonicalize()
        .map_err(|error| format!("there is no such file in {}: {error}", real.display()))?;
    if !file.starts_with(real) {
        return Err(format!("it is a link that leads out of the volume, to {}", file.display()));
    }
    if !file.is_file() {
        return Err("it is not a file".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn volume() -> tempfile::TempDir {
        let volume = tempfile::tempdir().expect("should make a folder");
        for file in [
            "runs/a/md.tpr",
            "runs/b/md.tpr",
            "runs/b/em.tpr",
            "[1].tpr",
            "odd name'$(id).tpr",
            ".hidden.tpr",
        ] {
            let path = volume.path().join(file);
            fs::create_dir_all(path.parent().expect("should be inside")).expect("should make a folder");
            fs::write(path, "x").expect("should write a file");
        }
        volume
    }

    fn good(found: Vec<Named>) -> Vec<String> {
        found.into_iter().map(|(named, path)| path.unwrap_or_else(|why| panic!("{named}: {why}"))).collect()
    }

    #[test]
    fn patterns_are_expanded_relative_to_the_root() {
        let volume = volume();
        let root = volume.path();
        let find = |path: &str| good(expand(root, &[path.to_owned()]).expect("should read the folder"));
        assert_eq!(find("runs/*/md.tpr"), ["runs/a/md.tpr", "runs/b/md.tpr"]);
        assert_eq!(
            find("**/*.tpr"),
            ["[1].tpr", "odd name'$(id).tpr", "runs/a/md.tpr", "runs/b/em.tpr", "runs/b/md.tpr"],
            "hidden files are left alone"
        );
        assert_eq!(find("runs/**/e?.tpr"), ["runs/b/em.tpr"]);
        assert_eq!(find(".h*.tpr"), [".hidden.tpr"]);
        assert_eq!(find("./runs/a/md.tpr"), ["runs/a/md.tpr"]);
        assert_eq!(find(&format!("{}/runs/a/md.tpr", root.display())), ["runs/a/md.tpr"]);
        assert_eq!(find("[1].tpr"), ["[1].tpr"], "a file of that name comes before a pattern");
        assert_eq!(find("odd*"), ["odd name'$(id).tpr"]);
    }

    #[test]
    fn what_is_not_on_the_volume_is_refused() {
        let volume = volume();
        let root = volume.path();
        std::os::unix::fs::symlink("/etc/passwd", root.join("out.tpr")).expect("should link");
        for (path, why) in [
            ("../x.tpr", "'..'"),
            ("/etc/passwd", "not inside"),
            ("out.tpr", "leads out of the volume"),
            ("out*.tpr", "leads out of the volume"),
            ("none.tpr", "no such file"),
            ("none*.tpr", "no file in"),
            ("runs", "not a file"),
            ("a**b", "not a pattern"),
        ] {
            let found = expand(root, &[path.to_owned()]).expect("should read the folder");
            assert!(
                found.iter().all(|(_, found)| found.as_ref().is_err_and(|text| text.contains(why))),
                "{path}: {found:?}"
            );
        }
        assert!(expand(&root.join("none"), &[]).is_err());
    }

    #[test]
    fn without_the_volume_a_pattern_finds_nothing() {
        assert!(literal("runs/*.tpr".to_owned()).is_err_and(|why| why.contains("--root")));
        assert_eq!(literal("a[1].tpr".to_owned()).as_deref(), Ok("a[1].tpr"));
    }
}
