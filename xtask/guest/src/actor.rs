//! What the processes of pods do.

use std::{
    fs::{self, File, OpenOptions},
    hint::black_box,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    libc,
    sys::signal::{SigSet, Signal},
    time::{ClockId, clock_gettime},
};
use scavenger_kernel_guest::{figures::percentile, layout::MEBIBYTE};

use crate::pause;

/// This program.
pub const PROGRAM: &str = "/init";

/// Rounds of work between two looks at a clock.
const ROUNDS: u64 = 2_000;

/// How the threads of a pod are scheduled among each other and beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// As usual.
    Normal,
    /// `SCHED_BATCH`, which the supervisor sets.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// A nice value of 19.
    Nice,
}

impl Policy {
    const ALL: [Self; 4] = [Self::Normal, Self::Batch, Self::Idle, Self::Nice];
}

/// A process in a cgroup, whose output is read.
pub struct Actor {
    /// The process.
    pub child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Actor {
    /// Starts a process that enters a cgroup, takes a score and a policy, and plays a role.
    pub fn start(group: &Path, score: i32, policy: Policy, role: &[&str]) -> io::Result<Self> {
        let place = Policy::ALL.iter().position(|one| *one == policy).unwrap_or_default();
        let mut command = Command::new(PROGRAM);
        command.arg(group).args([score.to_string(), place.to_string()]).args(role);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    /// The next line of its output, as numbers.
    pub fn numbers(&mut self) -> io::Result<Vec<f64>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.split_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// The first of them.
    pub fn number(&mut self) -> io::Result<f64> {
        self.numbers()?
            .first()
            .copied()
            .ok_or_else(|| io::Error::other("a process ended before it had measured"))
    }

    /// Ends it, if it has not ended.
    pub fn end(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }
}

/// Plays a role: `GROUP SCORE POLICY ROLE ...`.
pub fn run(arguments: &[String]) -> ExitCode {
    let [group, score, policy, role, rest @ ..] = arguments else { return ExitCode::from(2) };
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match enter(group, score, policy).and_then(|()| play(role, &rest)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A dash leaves group and score as they are.
fn enter(group: &str, score: &str, policy: &str) -> io::Result<()> {
    if group != "-" {
        fs::write(Path::new(group).join("cgroup.procs"), std::process::id().to_string())?;
    }
    if score != "-" {
        fs::write("/proc/self/oom_score_adj", score)?;
    }
    let policy = policy.parse().ok().and_then(|place: usize| Policy::ALL.get(place)).copied();
    let set = |number: libc::c_int| {
        let priority: libc::c_int = 0;
        // SAFETY: the kernel's scheduling parameter is one integer. musl's function refuses always.
        #[expect(unsafe_code, reason = "there is no other way to it")]
        let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, number, &raw const priority) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    match policy {
        Some(Policy::Batch) => set(libc::SCHED_BATCH),
        Some(Policy::Idle) => set(libc::SCHED_IDLE),
        Some(Policy::Nice) => {
            // SAFETY: numbers only.
            #[expect(unsafe_code, reason = "there is no other way to it")]
            let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }
        _ => Ok(()),
    }
}

fn play(role: &str, arguments: &[&str]) -> io::Result<()> {
    let number =
        |place: usize| -> f64 { arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or_default() };
    let whole =
        |place: usize| -> u64 { arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or_default() };
    let text = |place: usize| arguments.get(place).copied().unwrap_or_default();
    match role {
        "exec" => return Err(Command::new(text(0)).args(&arguments[1..]).exec()),
        "compute" => println!("{}", compute(whole(0), number(1))),
        "serve" => serve(whole(0), whole(1)),
        "hold" => {
            let held = touched(whole(0));
            println!("{}", std::process::id());
            forever(&held);
        }
        "grow" => {
            let mut held = Vec::new();
            for _ in 0..whole(0) {
                held.push(touched(1));
                pause(0.002);
            }
            println!("{}", held.len());
            forever(&held);
        }
        "save" => save(whole(0), number(1)),
        "fsync" => println!("{}", fsyncs(Path::new(text(0)), number(1))?),
        "checkpoint" => checkpoints(Path::new(text(0)), whole(1))?,
        "read" => println!("{}", read_again(Path::new(text(0)), number(1))?),
        "ask" => println!("{}", ask(number(0))?),
        "stream" => stream()?,
        _ => return Err(io::Error::other("there is no such role")),
    }
    Ok(())
}

/// Keeps what is held until somebody ends the process.
fn forever<T>(held: &T) -> ! {
    loop {
        black_box(held);
        thread::park();
    }
}

/// Work that is the same everywhere.
pub fn work(rounds: u64) {
    for round in 0..rounds {
        black_box(round);
    }
}

/// Computes on so many threads for so many seconds; returns the seconds of processor time that it got. Where a machine runs
/// in the host's time, these depend least on what else the host does.
fn compute(threads: u64, seconds: f64) -> f64 {
    let began = Instant::now();
    let before = used(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while began.elapsed().as_secs_f64() < seconds {
                    work(ROUNDS);
                }
            });
        }
    });
    (used(ClockId::CLOCK_PROCESS_CPUTIME_ID) - before).as_secs_f64()
}

/// Processor time by a clock of this process or thread.
fn used(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// Answers requests of so many rounds each; prints the median and the 99th percentile of their times, in microseconds.
fn serve(rounds: u64, requests: u64) {
    let mut times = Vec::new();
    for number in 0..requests {
        // Not in step with the clock of the scheduler.
        let arrives = Instant::now() + Duration::from_micros(15_000 + number * 7_919 % 10_000);
        pause(arrives.saturating_duration_since(Instant::now()).as_secs_f64());
        work(rounds);
        times.push(arrives.elapsed().as_secs_f64() * 1e6);
    }
    println!("{} {}", percentile(&times, 0.5), percentile(&times, 0.99));
}

/// So many mebibytes of memory that are really there.
fn touched(mebibytes: u64) -> Vec<u8> {
    let mut held = vec![0; usize::try_from(mebibytes * MEBIBYTE).unwrap_or_default()];
    held.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    held
}

/// Computes on so many threads until SIGTERM, and then needs so many seconds of cpu for its last checkpoint.
fn save(threads: u64, seconds: f64) {
    let stop = SigSet::from(Signal::SIGTERM);
    if stop.thread_block().is_err() {
        return;
    }
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stopped.load(Ordering::Relaxed) {
                    work(ROUNDS);
                }
            });
        }
        println!("0");
        stop.wait().ok();
        stopped.store(true, Ordering::Relaxed);
    });
    let own = || used(ClockId::CLOCK_THREAD_CPUTIME_ID);
    let until = own() + Duration::from_secs_f64(seconds);
    while own() < until {
        work(ROUNDS);
    }
    println!("1");
}

/// Writes 4 KiB and calls fsync, again and again; returns the median of the times, in milliseconds.
fn fsyncs(path: &Path, seconds: f64) -> io::Result<f64> {
    let mut file = File::create(path)?;
    let (mut times, began) = (Vec::new(), Instant::now());
    while began.elapsed().as_secs_f64() < seconds {
        let asked = Instant::now();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&[1; 4096])?;
        file.sync_all()?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
        pause(0.02);
    }
    Ok(percentile(&times, 0.5))
}

/// Writes checkpoints of so many mebibytes, one after the other.
fn checkpoints(path: &Path, mebibytes: u64) -> io::Result<()> {
    let piece = touched(1);
    println!("0");
    loop {
        let mut file = File::create(path)?;
        for _ in 0..mebibytes {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
    }
}

/// Reads a file again and again; returns how many mebibytes a second that were.
fn read_again(path: &Path, seconds: f64) -> io::Result<f64> {
    let mut file = OpenOptions::new().read(true).open(path)?;
    let mut piece = vec![0; 1 << 16];
    let (mut pieces, began) = (0_u32, Instant::now());
    while began.elapsed().as_secs_f64() < seconds {
        if file.read(&mut piece)? == 0 {
            file.rewind()?;
        }
        pieces += 1;
    }
    Ok(f64::from(pieces) / 16.0 / began.elapsed().as_secs_f64())
}

/// Sends requests of 1 KiB over the loopback device and waits for their answers; returns how many a second.
fn ask(seconds: f64) -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    thread::spawn(move || {
        let mut request = [0; 1024];
        while server.read_exact(&mut request).and_then(|()| server.write_all(&request)).is_ok() {}
    });
    let (mut answers, began, mut request) = (0_u32, Instant::now(), [0; 1024]);
    while began.elapsed().as_secs_f64() < seconds {
        client.write_all(&request)?;
        client.read_exact(&mut request)?;
        answers += 1;
    }
    Ok(f64::from(answers) / began.elapsed().as_secs_f64())
}

/// Sends as much as it can over the loopback device.
fn stream() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    thread::spawn(move || io::copy(&mut server, &mut io::sink()));
    let piece = touched(1);
    println!("0");
    loop {
        client.write_all(&piece)?;
    }
}
