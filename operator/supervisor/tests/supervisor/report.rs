//! Reports to a TLS server on the loopback interface.

use std::{
    fs,
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use scavenger_reporting::testing;
use scavenger_schema::supervision::{LiveReport, Stop};

use crate::harness::{Bench, eventually, lives};

/// The operator, as far as a supervisor sees it.
pub type Server = testing::Server<LiveReport>;

/// A workload that writes a checkpoint each time `next` appears.
pub const STEPS: &str = "trap 'echo asked >> got' USR1; trap 'exit 143' TERM; echo $$ > ready; \
                     while [ ! -e go ]; do if [ -e next ]; then rm next; echo $RANDOM > half; mv half state.cpt; fi; \
                     sleep 0.02; done";

pub fn flags<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let flags =
        ["--report-url", url, "--report-token", "token", "--report-ca", "ca", "--checkpoint", "state.cpt"];
    flags.iter().chain(more).copied().collect()
}

#[test]
fn checkpoints_are_reported_and_tokens_read_each_time() {
    let bench = Bench::new();
    let server = Server::start();
    fs::write(bench.path("token"), "first\n").unwrap();
    fs::write(bench.path("ca"), &server.ca).unwrap();
    // Only an announced change comes in time.
    let every = ["--report-every", "100ms", "--look-every", "1h"];
    let running = bench.start(&flags(&server.url, &every), &["bash", "-c", STEPS]);
    bench.number("ready");
    bench.make("next");
    eventually("the first report", || {
        server.requests().iter().any(|request| request.report.checkpoint.is_some())
    });
    let requests = server.requests();
    let first = requests.last().unwrap();
    assert_eq!((first.path.as_str(), first.token.as_str()), ("/reports", "Bearer first"));
    assert_eq!(first.report.checkpoint.unwrap().seen, 1);
    // Another token; a file that is half there fails one report, and costs nothing else.
    fs::write(bench.path("token"), "second\n").unwrap();
    bench.make("next");
    eventually("the second token", || {
        let requests = server.requests();
        let last = requests.last().unwrap();
        last.token == "Bearer second" && last.report.checkpoint.is_some_and(|checkpoint| checkpoint.seen >= 2)
    });
    bench.make("go");
    assert_eq!(running.end(), 0);
    assert_eq!(bench.end_report().unwrap().checkpoint.unwrap().seen, 2);
}

#[test]
fn a_replica_that_does_not_lead_is_asked_again() {
    let bench = Bench::new();
    let server = Server::start();
    fs::write(bench.path("token"), "token").unwrap();
    fs::write(bench.path("ca"), &server.ca).unwrap();
    server.answer(421, "not the leader");
    let running = bench.start(&flags(&server.url, &["--report-every", "100ms"]), &["bash", "-c", STEPS]);
    bench.number("ready");
    bench.make("next");
    eventually("two tries", || server.requests().len() >= 2);
    // Nonsense after it, and a redirect: the token goes nowhere else.
    server.answer(200, "<html>");
    let tried = server.requests().len();
    bench.make("next");
    eventually("an answer of nonsense", || server.requests().len() > tried);
    server.answer(307, "");
    bench.make("next");
    let tried = server.requests().len();
    eventually("a redirect", || server.requests().len() > tried + 1);
    assert!(server.requests().iter().all(|request| request.path == "/reports"));
    bench.make("go");
    assert_eq!(running.end(), 0);
}

#[test]
fn an_answer_asks_for_a_checkpoint() {
    let bench = Bench::new();
    let server = Server::start();
    fs::write(bench.path("token"), "token").unwrap();
    fs::write(bench.path("ca"), &server.ca).unwrap();
    server.answer(200, "{\"checkpoint\":true,\"more\":[]}");
    let every = ["--report-every", "100ms", "--request-signal", "USR1"];
    // It stands behind a shell, as SIGTERM's recipient would.
    fs::write(bench.path("steps"), STEPS).unwrap();
    let running = bench.start(&flags(&server.url, &every), &["sh", "-c", "bash steps; exit $?"]);
    bench.number("ready");
    eventually("the request", || !bench.lines("got").is_empty());
    // It is asked in every answer, and still at it.
    let reported = server.requests().len();
    eventually("more answers", || server.requests().len() >= reported + 3);
    assert_eq!(bench.lines("got"), ["asked"]);
    bench.make("go");
    assert_eq!(running.end(), 0);
}

#[test]
fn an_answer_asks_by_a_command() {
    let bench = Bench::new();
    let server = Server::start();
    fs::write(bench.path("token"), "token").unwrap();
    fs::write(bench.path("ca"), &server.ca).unwrap();
    server.answer(200, "{\"checkpoint\":true}");
    // What it runs finds itself as the workload does: first to be killed, and with no signal blocked.
    let ask = "cat /proc/self/oom_score_adj > score; grep SigBlk /proc/self/status > blocked; echo asked >> got; \
               touch next; exit 3";
    let words = ["bash", "-c", ask].map(|word| format!("--request-command={word}"));
    let more = ["--report-every", "100ms", &words[0], &words[1], &words[2]];
    let running = bench.start(&flags(&server.url, &more), &["bash", "-c", STEPS]);
    bench.number("ready");
    let reported = || {
        let last = server.requests().last().and_then(|request| request.report.checkpoint);
        last.map_or(0, |checkpoint| checkpoint.seen)
    };
    eventually("the checkpoint that was asked for", || reported() >= 1);
    // Answered, so it is asked once more.
    eventually("another", || bench.lines("got").len() >= 2);
    assert!(bench.read("score") == "1000\n" && bench.read("blocked").ends_with("0000000000000000\n"));
    eventually("its exit code", || {
        bench.read("log").contains("asks for a checkpoint ended with exit code 3")
    });
    bench.make("go");
    assert_eq!(running.end(), 0);
}

#[test]
fn a_command_that_hangs_or_does_not_exist_harms_nobody() {
    let bench = Bench::new();
    let server = Server::start();
    fs::write(bench.path("token"), "token").unwrap();
    fs::write(bench.path("ca"), &server.ca).unwrap();
    server.answer(200, "{\"checkpoint\":true}");
    fs::write(bench.path("hang"), "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done").unwrap();
    for words in [&["no-such-command"][..], &["bash", "hang"], &[""]] {
        for name in ["go", "ready", "pid"] {
            fs::remove_file(bench.path(name)).ok();
        }
        let words: Vec<String> = words.iter().map(|word| format!("--request-command={word}")).collect();
        let more: Vec<&str> =
            ["--report-every", "100ms"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let asked = server.requests().len();
        let running = bench.start(&flags(&server.url, &more), &["bash", "-c", STEPS]);
        bench.number("ready");
        if words.len() == 1 {
            eventually("a word about it", || bench.read("log").contains("exit code 127"));
        } else {
            bench.number("pid");
        }
        eventually("more reports", || server.requests().len() > asked + 3);
        running.signal(Signal::SIGTERM);
        assert_eq!(running.end(), 143);
        if words.len() > 1 {
            assert!(!lives(bench.number("pid")), "it was left behind");
        }
    }
}

#[test]
fn without_a_server_nothing_fails() {
    let bench = Bench::new();
    let trusted = Server::start();
    // A port where nobody listens, and a server that nobody vouches for.
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stranger = Server::start();
    fs::write(bench.path("token"), "token").unwrap();
    fs::write(bench.path("ca"), &trusted.ca).unwrap();
    for url in [
        format!("https://localhost:{unused}/"),
        "https://no-such-host.invalid/".to_owned(),
        stranger.url.clone(),
    ] {
        for name in ["go", "ready", "state.cpt"] {
            fs::remove_file(bench.path(name)).ok();
        }
        fs::write(bench.path("message"), "").unwrap();
        let running = bench.start(&flags(&url, &["--report-every", "100ms"]), &["bash", "-c", STEPS]);
        bench.number("ready");
        bench.make("next");
        eventually("a word about it", || bench.read("log").contains("cannot report to"));
        running.signal(Signal::SIGTERM);
        assert_eq!(running.end(), 143);
        let report = bench.end_report().unwrap();
        assert_eq!((report.stop, report.checkpoint.unwrap().seen), (Stop::Unanswered, 1));
        assert_eq!(bench.read("log").matches("cannot report").count(), 1);
    }
    assert!(stranger.requests().is_empty(), "a token went to a stranger");
}

/// A listener that takes no connection any more: whoever knocks hears nothing at all, as behind a firewall that drops.
fn deaf() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket,
    };
    use std::os::fd::AsRawFd as _;
    let own = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(own.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    listen(&own, Backlog::new(0).unwrap()).unwrap();
    let port = getsockname::<SockaddrIn>(own.as_raw_fd()).unwrap().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let limit = Duration::from_millis(200);
    let waiting = std::iter::from_fn(|| TcpStream::connect_timeout(&address, limit).ok()).collect();
    (TcpListener::from(own), waiting, address)
}

/// Somebody who connects and is sent these words and no end.
fn slow(words: &'static [u8]) -> (SocketAddr, Arc<Mutex<Vec<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let kept = Arc::clone(&open);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.write_all(words).ok();
            kept.lock().unwrap().push(stream);
        }
    });
    (address, open)
}

#[test]
fn a_server_that_is_slow_or_talks_nonsense_keeps_nobody_waiting() {
    let bench = Bench::new();
    fs::write(bench.path("token"), "token").unwrap();
    fs::write(bench.path("ca"), Server::start().ca).unwrap();
    let (_listener, _waiting, dropped) = deaf();
    let (silent, knocked) = slow(b"");
    // Not TLS at all, and the head of a record that says that 16 KiB follow.
    let (nonsense, talked) = slow(b"HTTP/1.1 200 OK\r\n\r\n{}");
    let (cut, began) = slow(&[0x16, 0x03, 0x03, 0x40, 0x00, 0x02]);
    for (address, reached, fails_at_once) in [
        (dropped, None, false),
        (silent, Some(knocked), false),
        (nonsense, Some(talked), true),
        (cut, Some(began), false),
    ] {
        for name in ["go", "ready", "state.cpt"] {
            fs::remove_file(bench.path(name)).ok();
        }
        fs::write(bench.path("message"), "").unwrap();
        let url = format!("https://{address}/reports");
        let running = bench.start(&flags(&url, &["--report-every", "100ms"]), &["bash", "-c", STEPS]);
        bench.number("ready");
        bench.make("next");
        if let Some(reached) = &reached {
            eventually("a report that is on its way", || !reached.lock().unwrap().is_empty());
        }
        if fails_at_once {
            eventually("a word about it", || bench.read("log").contains("cannot report to"));
        }
        eventually("the checkpoint", || bench.path("state.cpt").exists());
        running.signal(Signal::SIGTERM);
        assert_eq!(running.end(), 143, "{url}");
        let checkpoint = bench.end_report().unwrap().checkpoint;
        assert_eq!(checkpoint.map(|checkpoint| checkpoint.seen), Some(1), "{url}");
        // Who waits for an answer gives up after 3 or 10 seconds, and says so. Nobody waited for that.
        let log = bench.read("log");
        assert_eq!(log.contains("cannot report"), fails_at_once, "{url}: {log}");
    }
}
