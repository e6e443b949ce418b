//! The service on a socket: clients that are slow, silent or many.
//!
//! The clock is tokio's and stands still while anything is to be done: nobody waits for a timeout.

use std::net::SocketAddr;
use std::time::Duration;

use scavenger_schema::tuning::{ErrorCode, ErrorReply};
use scavenger_tuner::http::{Service, serve};
use scavenger_tuner_model::Model;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(10);
/// Longer than the service waits for anything.
const LONG: Duration = Duration::from_secs(120);

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn server() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("should listen");
    let address = listener.local_addr().expect("should have an address");
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let service = Service::new(Model::prior(), REQUEST_TIMEOUT, 1 << 20);
        let stop = async {
            let _ = stopped.await;
        };
        serve(listener, &service, stop, GRACE).await;
    });
    Server { address, stop, task }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server should accept")
    }
}

/// All that comes until the server hangs up.
async fn rest(connection: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = tokio::time::timeout(LONG, connection.read_to_string(&mut text)).await;
    read.expect("the server should hang up").expect("the reply should be text");
    text
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_or_half_a_head_is_closed() {
    let server = server().await;
    for beginning in ["", "POST /v1/ladder HTTP/1.1\r\nhost: tun"] {
        let mut connection = server.connect().await;
        connection.write_all(beginning.as_bytes()).await.expect("the server should read");
        assert!(!rest(&mut connection).await.contains("200 OK"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_waited_for_as_long_as_a_request_may_take() {
    let server = server().await;
    let mut connection = server.connect().await;
    let half = "POST /v1/ladder HTTP/1.1\r\nhost: tuner\r\ncontent-type: application/json\r\n\
                content-length: 1000\r\n\r\n{\"system\":";
    connection.write_all(half.as_bytes()).await.expect("the server should read");
    let reply = rest(&mut connection).await;
    let (head, body) = reply.split_once("\r\n\r\n").expect("there should be a reply");
    assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
    let body: ErrorReply = serde_json::from_str(body).expect("the error should have its type");
    assert_eq!(body.code, ErrorCode::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn silent_connections_hold_up_nobody_and_are_cut_when_it_stops() {
    let server = server().await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        let mut connection = server.connect().await;
        let half =
            "POST /v1/ladder HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{";
        connection.write_all(half.as_bytes()).await.expect("the server should read");
        silent.push(connection);
    }
    let mut connection = server.connect().await;
    let request = "GET /healthz HTTP/1.1\r\nhost: tuner\r\nconnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).await.expect("the server should read");
    assert!(rest(&mut connection).await.starts_with("HTTP/1.1 200 OK"));

    let stopping = Instant::now();
    server.stop.send(()).expect("the server should listen to this");
    server.task.await.expect("the server should end");
    assert!(stopping.elapsed() <= GRACE + Duration::from_secs(1), "{:?}", stopping.elapsed());
    let refused = TcpStream::connect(server.address).await;
    assert!(refused.is_err(), "it still accepts connections");
}
