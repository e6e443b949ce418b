//! Gives a fuzzer the paths that people write, and what pods send: nothing may panic, and no path may lead out of its folder.
//! `cargo xtask fuzz` builds it with libFuzzer and runs it.

#![cfg_attr(fuzzing, no_main)]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Component, Path},
    sync::LazyLock,
};

use gromacs_submitter::{folder, grompp_options, mdrun_options::MdrunOptions, put};

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| try_out(data));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    let mut files = std::env::args_os().skip(1).peekable();
    if files.peek().is_none() {
        eprintln!("error: name files with inputs to try out, or run `cargo xtask fuzz` to search for some");
        return std::process::ExitCode::from(2);
    }
    for file in files {
        match fs::read(&file) {
            Ok(data) => try_out(&data),
            Err(error) => {
                eprintln!("error: {} cannot be read: {error}", Path::new(&file).display());
                return std::process::ExitCode::from(2);
            }
        }
    }
    std::process::ExitCode::SUCCESS
}

/// Gives an input to whom its first byte names.
fn try_out(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    match kind % 5 {
        0 => a_stream_of_files(data),
        1 => a_stream_of_files(&archive(data)),
        2 => what_a_pod_prints(data),
        3 => names_of_a_person(&String::from_utf8_lossy(data)),
        _ => options_of_a_person(&String::from_utf8_lossy(data)),
    }
}

/// True if a path stays in the folder that it is relative to.
fn stays(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// `fetch`: whatever a pod sends, and even if it was asked for.
fn a_stream_of_files(stream: &[u8]) {
    let outer = tempfile::tempdir().expect("should make a folder");
    let target = outer.path().join("target");
    fs::create_dir(&target).expect("should make a folder");
    let arrived = folder::unpack(stream, &target, &named(stream)).unwrap_or_default();
    for file in arrived {
        assert!(stays(&file.name), "{file:?}");
        // If the name of one file is that of another one's folder, only one of them can be kept.
        let _ = file.keep(true);
    }
    let left: Vec<_> = fs::read_dir(outer.path()).expect("should be there").flatten().collect();
    assert!(left.len() == 1, "{left:?}");
    let mut folders = vec![target];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("should be there").flatten() {
            let kind = entry.file_type().expect("should have one");
            assert!(kind.is_dir() || kind.is_file(), "{entry:?}");
            if kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
}

/// An entry for each line, whose first byte is its type and whose others are its name: no fuzzer finds the checksums of headers.
fn archive(lines: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for line in lines.split(|byte| *byte == b'\n') {
        let Some((kind, name)) = line.split_first() else { continue };
        let mut header = tar::Header::new_gnu();
        let field = &mut header.as_gnu_mut().expect("should be one").name;
        let length = name.len().min(field.len());
        field[..length].copy_from_slice(&name[..length]);
        header.set_entry_type(tar::EntryType::new(*kind));
        header.set_link_name("/etc/passwd").expect("should be short");
        header.set_size(line.len() as u64);
        header.set_cksum();
        builder.append(&header, line).expect("should be written");
    }
    builder.into_inner().expect("should be written")
}

/// The names in a stream, as they are, and as one asks for them.
fn named(stream: &[u8]) -> BTreeSet<String> {
    let mut archive = tar::Archive::new(stream);
    let entries = archive.entries().into_iter().flatten().flatten();
    let names = entries.map(|entry| String::from_utf8_lossy(&entry.path_bytes()).into_owned());
    names.flat_map(|name| [name.trim_start_matches("./").to_owned(), name]).collect()
}

/// `fetch`, `files` and `put`: what a pod prints of a volume.
fn what_a_pod_prints(printed: &[u8]) {
    for file in folder::parse_listing(printed) {
        assert!(stays(&file.name), "{file:?}");
    }
    let _ = folder::parse_sums(printed);
    let lines = printed.iter().filter(|byte| **byte == b'\n').count();
    let _ = (put::parse_look(printed, lines), put::parse_placed(printed, lines), put::parse_space(printed));
}

/// A folder with a link that leads out of it, beside a file that is nobody's business.
static LAPTOP: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let laptop = tempfile::tempdir().expect("should make a folder");
    let inside = laptop.path().join("in");
    fs::create_dir_all(inside.join("a/c")).expect("should make folders");
    for file in ["in/a/b", "in/a/c/a", "in/ü", "secret"] {
        fs::write(laptop.path().join(file), file).expect("should write");
    }
    symlink("..", inside.join("up")).expect("should link");
    symlink("../secret", inside.join("link")).expect("should link");
    laptop
});

/// `put`: a folder of the volume, and what is to come there, a line each.
fn names_of_a_person(text: &str) {
    let (to, named) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(to) = put::check_folder(to) else { return };
    assert!(to.is_empty() || stays(&to), "{to:?}");
    let inside = LAPTOP.path().join("in").canonicalize().expect("should be there");
    let named: Vec<String> = named.lines().map(ToOwned::to_owned).collect();
    for file in put::find(&inside, &named).unwrap_or_default().files {
        let real = file.path.canonicalize().expect("should be there");
        assert!(real.starts_with(&inside), "{file:?}");
        let path = put::path_of(&to, &file.name).expect("these names are short");
        assert!(stays(&path) && path.split('/').all(|part| !part.starts_with('.')), "{path:?}");
        assert!(to.is_empty() || path.starts_with(&format!("{to}/")), "{path:?}");
    }
}

/// `add --mdrun-options` and `--grompp`: the files that they name are files of the volume.
fn options_of_a_person(text: &str) {
    if let Ok(options) = MdrunOptions::words(text).and_then(|words| MdrunOptions::read(&words)) {
        for file in options.files() {
            assert!(stays(file), "{file:?} of {text:?}");
        }
    }
    if let Ok(words) = grompp_options::words(text) {
        let _ = grompp_options::of_row(&words, &[7]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_reach_what_they_are_for() {
        let good = archive(b"0sub/md.log\n0./b");
        assert_eq!(named(&good).len(), 3, "{:?}", named(&good));
        let target = tempfile::tempdir().expect("should make a folder");
        let arrived = folder::unpack(good.as_slice(), target.path(), &named(&good)).expect("should be taken");
        assert_eq!(arrived.len(), 2);
        for input in [
            &b"\x010sub/md.log\n2sub/link"[..],
            b"\x010../evil",
            b"\x02f 1 2 md.log",
            b"\x03monday\na\n*\nlink\nup/secret",
            b"\x04-dlb yes",
        ] {
            try_out(input);
        }
    }

    #[test]
    fn a_path_that_leads_out_does_not_stay() {
        for path in ["", "/a", "..", "a/../b", "a/.."] {
            assert!(!stays(path), "{path}");
        }
        assert!(stays("a/./b c/ü"));
    }
}
