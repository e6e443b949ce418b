//! Starts the workload and reads how processes ended.

use std::{
    ffi::{CString, OsStr, OsString},
    io::{self, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::Command,
};

use nix::{
    libc,
    sys::signal::SigSet,
    unistd::{ForkResult, fork},
};

use crate::say;

/// A command that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {command:?}: {reason}")]
pub struct NotStarted {
    /// The exit code that a shell uses: 127 for a command that was not found, 126 for one that could not be run.
    pub code: u8,
    command: OsString,
    reason: String,
}

/// Starts the command with the given signals blocked, and returns its process id.
///
/// # Errors
/// If there is no such command or it cannot be run.
pub fn start(command: &[OsString], keep_priority: bool, mask: SigSet) -> Result<i32, NotStarted> {
    let (name, arguments) = command.split_first().expect("the command line requires a command");
    let mut process = Command::new(name);
    process.args(arguments);
    let (mut refusals, mut tell) = (None, None);
    if !keep_priority && let Ok((reader, writer)) = io::pipe() {
        (refusals, tell) = (Some(reader), Some(writer));
    }
    // SAFETY: between fork and exec only system calls are made, and nothing is allocated.
    #[expect(unsafe_code, reason = "there is no other way into the child")]
    unsafe {
        process.pre_exec(move || {
            // std hands the mask of this process on, in which the signals that are passed on are blocked.
            mask.thread_set_mask()?;
            if let Some(tell) = &mut tell {
                let [oom, policy] = stand_back().map(i32::to_ne_bytes);
                tell.write_all(&oom).ok();
                tell.write_all(&policy).ok();
            }
            Ok(())
        });
    }
    let started = process.spawn();
    // It holds the other end of the pipe.
    drop(process);
    let child = started.map_err(|error| not_started(name, &error))?;
    if let Some(refusals) = &mut refusals {
        let mut errors = [[0; 4]; 2];
        if errors.iter_mut().all(|error| refusals.read_exact(error).is_ok()) {
            for (what, error) in ["oom_score_adj", "the scheduling policy"].iter().zip(errors) {
                let error = i32::from_ne_bytes(error);
                if error != 0 {
                    let error = io::Error::from_raw_os_error(error);
                    say(&format!("{what} of the workload stays as it is: {error}"));
                }
            }
        }
    }
    Ok(i32::try_from(child.id()).expect("process ids are positive"))
}

/// Starts another command, without waiting until it is found, and returns its process id. Its end is reaped as that of any
/// other process. Nothing of the standard library is used: it would wait for a command that cannot be run, and another thread
/// may have reaped that already.
///
/// # Errors
/// If there can be no further process.
pub fn start_beside(command: &[CString], keep_priority: bool, mask: &SigSet) -> nix::Result<i32> {
    let words: Vec<*const libc::c_char> =
        command.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: between fork and exec only system calls are made, and nothing is allocated. The words end with a null pointer,
    // and live until the program is replaced.
    #[expect(unsafe_code, reason = "there is no other way into the child")]
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child.as_raw()),
        ForkResult::Child => unsafe {
            if mask.thread_set_mask().is_ok() && !words[0].is_null() {
                if !keep_priority {
                    stand_back();
                }
                libc::execvp(words[0], words.as_ptr());
            }
            libc::_exit(127)
        },
    }
}

/// Makes this process the first to be killed when memory runs out, and one that waits for processes that react to
/// somebody. Returns the errors, 0 for none.
fn stand_back() -> [i32; 2] {
    let failed = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    // SAFETY: the strings end with a zero, and the kernel's scheduling parameter is one integer. The system call is
    // made directly because musl's function refuses always.
    #[expect(unsafe_code, reason = "std's files allocate")]
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        let mut oom = 0;
        if file < 0 || libc::write(file, c"1000".as_ptr().cast(), 4) != 4 {
            oom = failed();
        }
        if file >= 0 {
            libc::close(file);
        }
        let priority: libc::c_int = 0;
        let set = libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const priority);
        [oom, if set == 0 { 0 } else { failed() }]
    }
}

fn not_started(name: &OsStr, error: &io::Error) -> NotStarted {
    let is_path = name.as_encoded_bytes().contains(&b'/');
    let (code, reason) = match error.kind() {
        io::ErrorKind::NotFound if !is_path => (127, "no directory of PATH has it".to_owned()),
        io::ErrorKind::NotFound if Path::new(name).exists() => {
            (127, "the interpreter or loader that it names does not exist".to_owned())
        }
        io::ErrorKind::NotFound => (127, "there is no such file".to_owned()),
        _ => (126, error.to_string()),
    };
    NotStarted { code, command: name.to_owned(), reason }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Its exit code: 128 + n for signal n.
    pub code: u8,
    /// A signal ended it.
    pub by_signal: bool,
}

/// A process that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    /// This one ended.
    Ended(i32, End),
    /// Children are left, and none has ended.
    NoneYet,
    /// There is no child any more.
    NoChild,
}

/// Waits for a child that has ended, without blocking.
#[must_use]
pub fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: the status is a valid place to write to. nix's function fails for real-time signals.
    #[expect(unsafe_code, reason = "nix knows no real-time signals")]
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match pid {
        0 => Reaped::NoneYet,
        pid if pid > 0 => Reaped::Ended(pid, end(status)),
        _ => Reaped::NoChild,
    }
}

fn end(status: i32) -> End {
    let by_signal = libc::WIFSIGNALED(status);
    let code = if by_signal { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
    End { code: u8::try_from(code).unwrap_or(u8::MAX), by_signal }
}
