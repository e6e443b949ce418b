//! Reads the process table from `/proc`.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::signals::{self, Identity, Process};

/// Every process below this one, without zombies that this process did not start. Empty where `/proc` is missing, or
/// belongs to another pid namespace.
#[must_use]
pub fn below(supervisor: i32) -> Vec<Process> {
    let proc = Path::new("/proc");
    let mut below = ids_below(proc, supervisor);
    for process in &mut below {
        complete(process, &proc.join(process.pid.to_string()));
    }
    below
}

/// The same, of each no more than its ids: a node's own `/proc` has thousands of processes.
pub(crate) fn ids_below(proc: &Path, supervisor: i32) -> Vec<Process> {
    let own = fs::read_link(proc.join("self")).ok();
    if own != Some(PathBuf::from(supervisor.to_string())) {
        return Vec::new();
    }
    let Ok(folders) = fs::read_dir(proc) else { return Vec::new() };
    let table: Vec<Process> = folders
        .filter_map(|folder| {
            let folder = folder.ok()?;
            let pid = folder.file_name().to_str()?.parse().ok()?;
            let (parent, started, zombie) = stat(&fs::read(folder.path().join("stat")).ok()?)?;
            Some(Process { pid, parent, started, zombie, ..Process::default() })
        })
        .collect();
    signals::descendants(&table, supervisor).into_iter().cloned().collect()
}

/// The process that has an id now.
#[must_use]
pub fn identity(pid: i32) -> Option<Identity> {
    let (_, started, _) = stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    Some(Identity { pid, started })
}

/// Parent, time of start and whether it is a zombie. The name stands in parentheses and may hold anything.
fn stat(text: &[u8]) -> Option<(i32, u64, bool)> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&text[end + 1..]).ok()?.split_ascii_whitespace().collect();
    // The state is field 3 of proc(5), the parent 4, the time of start 22.
    let field = |number: usize| fields.get(number - 3).copied();
    Some((field(4)?.parse().ok()?, field(22)?.parse().ok()?, matches!(field(3)?, "Z" | "X")))
}

fn complete(process: &mut Process, folder: &Path) {
    if let Ok(program) = fs::read_link(folder.join("exe")) {
        // A program whose file was replaced: "bash (deleted)".
        let name = program.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
        process.program = String::from_utf8_lossy(name).into_owned();
    }
    let command = fs::read(folder.join("cmdline")).unwrap_or_default();
    let arguments = command.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    process.command = arguments.collect();
    process.command.pop();
    let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
    let mask = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(value.trim(), 16).ok()
    };
    process.caught = mask("SigCgt:").unwrap_or(0);
    process.deaf = mask("SigIgn:").unwrap_or(0) | mask("SigBlk:").unwrap_or(0);
    process.reads = pipe(&folder.join("fd/0"));
    let files = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    for file in files {
        let Some(pipe) = pipe(&file.path()) else { continue };
        let info = fs::read_to_string(folder.join("fdinfo").join(file.file_name())).unwrap_or_default();
        if writable(&info) {
            process.writes.insert(pipe);
        }
    }
}

/// The pipe behind an open file.
fn pipe(link: &Path) -> Option<u64> {
    let target = fs::read_link(link).ok()?;
    target.to_str()?.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()
}

/// Whether an open file can be written to: the last octal digits of its flags are the access mode.
fn writable(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 0o3 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 17 2 2 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 1";
        assert_eq!(stat(format!("12 (a) Z 1 (b) {rest}").as_bytes()), Some((17, 4242, false)));
        assert_eq!(stat(b"12 (a"), None);
        assert_eq!(stat(b"12 (a) S 1"), None);
    }

    #[test]
    fn flags_say_who_writes() {
        assert!(writable("pos:\t0\nflags:\t0100001\n"));
        assert!(writable("flags:\t02\n"));
        assert!(!writable("flags:\t0100000\n"));
        assert!(!writable(""));
    }

    #[test]
    fn another_namespaces_proc_is_not_believed() {
        assert!(below(i32::MAX).is_empty());
        assert!(ids_below(Path::new("/nowhere"), 1).is_empty());
    }

    #[test]
    fn an_id_is_one_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(identity(own), identity(own));
        assert!(identity(own).unwrap().started > 0);
        assert_eq!(identity(i32::MAX), None);
    }
}
