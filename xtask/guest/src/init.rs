//! What the kernel starts: mounts what programs expect, loads modules, measures, and ends the machine.

use std::{
    convert::Infallible,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::symlink,
    path::Path,
    process::ExitCode,
    sync::Mutex,
};

use nix::{
    kmod::{ModuleInitFlags, finit_module},
    libc,
    mount::{MsFlags, mount},
    sys::reboot::{RebootMode, reboot},
};
use scavenger_cgroups::tree::Driver;
use scavenger_kernel_guest::report::Line;

use crate::tables;

/// Where the host reads.
const PORT: &str = "/dev/ttyS1";

static REPORT: Mutex<Option<File>> = Mutex::new(None);

/// What is asked for on the kernel's command line, behind `--`.
#[derive(Debug)]
pub struct Asked {
    /// Names of the tables.
    pub tables: Vec<String>,
    /// Fewer rows.
    pub short: bool,
    /// How cgroups are named.
    pub names: Driver,
}

impl Asked {
    fn of(arguments: &[String]) -> Self {
        let list = arguments.iter().find_map(|argument| argument.strip_prefix("tables=")).unwrap_or_default();
        let has = |word: &str| arguments.iter().any(|argument| argument == word);
        Self {
            tables: list.split(',').map(str::to_owned).collect(),
            short: has("short"),
            names: if has("names=cgroupfs") { Driver::Cgroupfs } else { Driver::Systemd },
        }
    }
}

/// Sends a line to the host.
pub fn report(line: &Line) {
    let mut port = REPORT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sent = port.as_mut().map(|port| port.write_all(line.text().as_bytes()));
    if !matches!(sent, Some(Ok(()))) {
        // The console is all that is left.
        eprintln!("{line:?}");
    }
}

/// Runs as process 1. The host sees from the missing last line that something went wrong.
pub fn run(arguments: &[String]) -> ExitCode {
    match prepare().and_then(|()| tables::run(&Asked::of(arguments))) {
        Ok(()) => report(&Line::Done),
        Err(error) => eprintln!("the measurements ended: {error}"),
    }
    let Err(error): nix::Result<Infallible> = reboot(RebootMode::RB_AUTOBOOT);
    eprintln!("cannot end the machine: {error}");
    ExitCode::FAILURE
}

fn prepare() -> io::Result<()> {
    for (kind, target) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/dev/shm"),
        ("tmpfs", "/tmp"),
        ("cgroup2", "/sys/fs/cgroup"),
    ] {
        // It is there if the kernel, or the mount before it, made it.
        fs::create_dir_all(target)?;
        match mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>) {
            Ok(()) | Err(nix::errno::Errno::EBUSY) => {}
            Err(error) => return Err(io::Error::other(format!("cannot mount {target}: {error}"))),
        }
    }
    *REPORT.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
        Some(OpenOptions::new().write(true).open(PORT)?);
    symlink("/proc/self/fd", "/dev/fd").ok();
    load_modules(Path::new("/modules"))?;
    loopback_up()
}

/// Loads what the host put there. The names are in the order in which they need each other.
fn load_modules(folder: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        let loaded = finit_module(File::open(&path)?, c"", ModuleInitFlags::empty());
        loaded.map_err(|error| io::Error::other(format!("cannot load {}: {error}", path.display())))?;
    }
    Ok(())
}

/// Tests talk to servers at 127.0.0.1.
fn loopback_up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: zeros are a request, its name ends with a zero, and the kernel reads and writes nothing else.
    #[expect(unsafe_code, reason = "the standard library knows no network devices")]
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (place, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        request.ifr_ifru.ifru_flags =
            libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
        libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&socket), libc::SIOCSIFFLAGS as _, &raw mut request)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
