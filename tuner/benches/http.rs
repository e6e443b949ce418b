//! Load test: requests per second on one core, over HTTP and TCP, kept-alive.
//!
//! The server has one thread, whose processor time is taken, so that what the clients and other programs on the
//! machine use does not count.

#![allow(missing_docs, reason = "a program, not a library")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use scavenger_tuner::http::{self, Service};
use scavenger_tuner_model::Model;
use scavenger_tuner_model::ladder::fixtures::{labelled, node, request, water};
use tokio::net::TcpListener;

const CLIENTS: usize = 4;
const REQUESTS: usize = 2000;

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux should have this clock").into()
}

/// Serves until told, then says how much processor time that took.
fn serve(address: &mpsc::Sender<SocketAddr>, stop: tokio::sync::oneshot::Receiver<()>) -> Duration {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("the runtime should start");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("should listen");
        address.send(listener.local_addr().expect("should have an address")).expect("somebody waits for it");
        let service = Service::new(Model::prior(), Duration::from_secs(60), 1 << 20);
        let before = processor_time();
        let stop = async {
            let _ = stop.await;
        };
        http::serve(listener, &service, stop, Duration::from_secs(10)).await;
        processor_time().saturating_sub(before)
    })
}

/// Sends the request again and again and returns how long each took.
fn ask(address: SocketAddr, request: &[u8]) -> Vec<Duration> {
    let mut connection = TcpStream::connect(address).expect("should connect");
    connection.set_nodelay(true).expect("should be set");
    let mut reply = vec![0; 1 << 20];
    (0..REQUESTS)
        .map(|_| {
            let start = Instant::now();
            connection.write_all(request).expect("should send");
            let mut length = 0;
            loop {
                let read = connection.read(&mut reply[length..]).expect("should receive");
                assert!(read > 0, "the server hung up");
                length += read;
                if is_whole(&reply[..length]) {
                    break;
                }
            }
            assert!(reply.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply[..length]));
            start.elapsed()
        })
        .collect()
}

fn is_whole(reply: &[u8]) -> bool {
    let Some(end) = reply.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&reply[..end]).to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| reply.len() >= end + 4 + length)
}

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let shapes = |count: u32| {
        let instances = ["c5a.x", "c6a.x", "c6g.x", "c6i.x", "c7a.x", "c7g.x", "c7i.x", "m5a.x"];
        (0..count)
            .map(|n| {
                let labels = [("node.kubernetes.io/instance-type", instances[n as usize % instances.len()])];
                labelled(&node((n % 64 + 1) * 2000, 256), &labels, 0)
            })
            .collect()
    };
    for count in [1, 8, 50] {
        let body = serde_json::to_string(&request(water(300_000), shapes(count))).expect("should serialise");
        let text = format!(
            "POST /v1/ladder HTTP/1.1\r\nhost: tuner\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (send_address, address) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let server = thread::spawn(move || serve(&send_address, stopped));
        let address = address.recv().expect("the server should start");
        let started = Instant::now();
        let mut times: Vec<Duration> = thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|_| scope.spawn(|| ask(address, text.as_bytes()))).collect();
            clients.into_iter().flat_map(|client| client.join().expect("the client should end")).collect()
        });
        let clock = started.elapsed();
        stop.send(()).expect("the server should listen to this");
        let busy = server.join().expect("the server should end");
        times.sort();
        let total = times.len() as f64;
        println!(
            "{count} node shapes: {:.0} requests per second of one core ({:.0} on the clock, {CLIENTS} clients; \
             median {:?}, 99th percentile {:?})",
            total / busy.as_secs_f64(),
            total / clock.as_secs_f64(),
            times[times.len() / 2],
            times[times.len() * 99 / 100]
        );
    }
}
