//! A proxy between a submitter and Postgres that counts what is written there, and can stop the world right before or
//! right after any of it.
//!
//! A write is a transaction that commits and has changed something. Postgres itself says which that is: a transaction
//! gets its number with the first row that it locks or changes, and one that only reads, or that looked for work and
//! found none, never has one. To be able to ask before it is too late, the proxy opens a transaction around each
//! statement that comes outside of one; it was one anyhow.
//!
//! Of the protocol (version 3) this understands just the frames, and in them the five messages that say what is
//! executed; what it forwards is byte for byte what it was sent. Crates that decode messages write their own reading
//! of them back, and those that are clients read only what servers send. Neither encryption nor passwords: the test's
//! own server on the same machine trusts everyone.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream, UnixStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
        unix,
    },
    sync::watch,
    task::JoinSet,
};

/// Where the world stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The write is never carried out nor answered.
    Before,
    /// It is carried out and never answered.
    After,
}

type Judge = Box<dyn FnMut(&str) -> Option<Hold> + Send>;

struct Shared {
    socket: PathBuf,
    judge: Mutex<Judge>,
    held: watch::Sender<usize>,
    connections: watch::Sender<usize>,
}

/// A proxy on the loopback device in front of a Postgres that listens on a Unix socket.
pub struct SqlProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl SqlProxy {
    /// Starts it in front of the server with this socket.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(socket: PathBuf) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            socket,
            judge: Mutex::new(Box::new(|_| None)),
            held: watch::Sender::new(0),
            connections: watch::Sender::new(0),
        });
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, _server: server })
    }

    /// Address of database `postgres` through it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://tester@{}/postgres?sslmode=disable", self.address)
    }

    /// Decides about every write from now on, by the beginnings of its statements.
    pub fn judge(&self, judge: impl FnMut(&str) -> Option<Hold> + Send + 'static) {
        *self.shared.judge.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(judge);
    }

    /// Ends when a write has been held.
    ///
    /// # Errors
    /// If the proxy is gone.
    pub async fn held(&self) -> Result<()> {
        let mut held = self.shared.held.subscribe();
        let before = *held.borrow_and_update();
        held.wait_for(|held| *held != before).await.context("the proxy is gone")?;
        Ok(())
    }

    /// Ends when nobody is connected any more: then nothing that a killed client had sent is still on its way.
    ///
    /// # Errors
    /// If the proxy is gone.
    pub async fn is_left(&self) -> Result<()> {
        let mut connections = self.shared.connections.subscribe();
        connections.wait_for(|count| *count == 0).await.context("the proxy is gone")?;
        Ok(())
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => {
                eprintln!("the proxy before Postgres ended: {error}");
                return;
            }
        };
        shared.connections.send_modify(|count| *count += 1);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A client or a server that goes away is what this is for.
            if let Err(error) = serve(&shared, client).await
                && error.downcast_ref::<std::io::Error>().is_none()
            {
                eprintln!("the proxy before Postgres: {error:#}");
            }
            shared.connections.send_modify(|count| *count -= 1);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(shared: &Shared, client: TcpStream) -> Result<()> {
    client.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = UnixStream::connect(&shared.socket).await?.into_split();
    let mut connection = Connection {
        client: BufReader::new(from_client),
        to_client,
        server: BufReader::new(from_server),
        to_server,
        statements: HashMap::new(),
        portals: HashMap::new(),
        in_transaction: false,
        done: Vec::new(),
    };
    connection.greet().await?;
    while let Some(batch) = connection.next_batch().await? {
        if let Some(hold) = connection.carry_out(shared, &batch).await? {
            let Connection { mut client, server, to_server, .. } = connection;
            if hold == Hold::Before {
                // The server takes back what is not committed when its client is gone.
                drop((server, to_server));
            }
            shared.held.send_modify(|held| *held += 1);
            // Until the client is killed.
            tokio::io::copy(&mut client, &mut tokio::io::sink()).await?;
            return Ok(());
        }
    }
    Ok(())
}

/// A message: its kind, its length (without the kind), what it says.
struct Frame(Vec<u8>);

impl Frame {
    async fn read(from: &mut (impl AsyncReadExt + Unpin)) -> Result<Self> {
        let mut bytes = vec![0; 5];
        from.read_exact(&mut bytes).await?;
        let length = usize::try_from(u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]))?;
        ensure!(length >= 4, "a message of length {length}");
        bytes.resize(1 + length, 0);
        from.read_exact(&mut bytes[5..]).await?;
        Ok(Self(bytes))
    }

    fn query(text: &str) -> Result<Self> {
        let mut bytes = vec![b'Q'];
        bytes.extend(u32::try_from(4 + text.len() + 1)?.to_be_bytes());
        bytes.extend(text.as_bytes());
        bytes.push(0);
        Ok(Self(bytes))
    }

    fn kind(&self) -> u8 {
        self.0[0]
    }

    fn body(&self) -> &[u8] {
        &self.0[5..]
    }

    /// Its first two texts, each of which ends in a zero.
    fn texts(&self) -> (String, String) {
        let mut texts = self.body().split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into());
        (texts.next().unwrap_or_default(), texts.next().unwrap_or_default())
    }

    /// What a server may say at any time: notifications, notices and changed parameters.
    fn is_unasked(&self) -> bool {
        matches!(self.kind(), b'A' | b'N' | b'S')
    }
}

/// Messages of a client up to where it waits for the answer.
struct Batch {
    bytes: Vec<u8>,
    /// What they execute.
    executed: Vec<String>,
    /// False if the client ends with them.
    is_answered: bool,
}

impl Batch {
    fn begins_with(&self, word: &str) -> bool {
        let [statement] = &*self.executed else { return false };
        statement.trim_start().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    }
}

struct Connection {
    client: BufReader<OwnedReadHalf>,
    to_client: OwnedWriteHalf,
    server: BufReader<unix::OwnedReadHalf>,
    to_server: unix::OwnedWriteHalf,
    /// Text of each prepared statement.
    statements: HashMap<String, String>,
    /// Text of the statement of each portal.
    portals: HashMap<String, String>,
    /// True in a transaction that the client began.
    in_transaction: bool,
    /// What was executed in it.
    done: Vec<String>,
}

impl Connection {
    /// From the first message to where the server waits for queries.
    async fn greet(&mut self) -> Result<()> {
        const VERSION_3: u32 = 196_608;
        let mut start = vec![0; 8];
        self.client.read_exact(&mut start).await?;
        let length = usize::try_from(u32::from_be_bytes([start[0], start[1], start[2], start[3]]))?;
        let code = u32::from_be_bytes([start[4], start[5], start[6], start[7]]);
        ensure!(code == VERSION_3 && length >= 8, "connect with sslmode=disable");
        start.resize(length, 0);
        self.client.read_exact(&mut start[8..]).await?;
        self.to_server.write_all(&start).await?;
        loop {
            let frame = Frame::read(&mut self.server).await?;
            self.to_client.write_all(&frame.0).await?;
            match frame.kind() {
                b'Z' => return Ok(()),
                b'R' if frame.body() != [0; 4] => bail!("the server asks for a password"),
                _ => {}
            }
        }
    }

    /// What the client wants next; none if it ended. Passes on what the server says meanwhile.
    async fn next_batch(&mut self) -> Result<Option<Batch>> {
        loop {
            let client_speaks = tokio::select! {
                bytes = self.client.fill_buf() => {
                    if bytes?.is_empty() {
                        return Ok(None);
                    }
                    true
                }
                bytes = self.server.fill_buf() => {
                    if bytes?.is_empty() {
                        return Ok(None);
                    }
                    false
                }
            };
            if client_speaks {
                return self.read_batch().await.map(Some);
            }
            let frame = Frame::read(&mut self.server).await?;
            self.to_client.write_all(&frame.0).await?;
        }
    }

    async fn read_batch(&mut self) -> Result<Batch> {
        let mut batch = Batch { bytes: Vec::new(), executed: Vec::new(), is_answered: true };
        loop {
            let frame = Frame::read(&mut self.client).await?;
            let (first, second) = frame.texts();
            let is_last = match frame.kind() {
                // Query: text. Parse: name, text. Bind: portal, name. Execute: portal.
                b'Q' => {
                    batch.executed.push(first);
                    true
                }
                b'P' => {
                    self.statements.insert(first, second);
                    false
                }
                b'B' => {
                    self.portals.insert(first, self.statements.get(&second).cloned().unwrap_or_default());
                    false
                }
                b'E' => {
                    batch.executed.push(self.portals.get(&first).cloned().unwrap_or_default());
                    false
                }
                // Terminate.
                b'X' => {
                    batch.is_answered = false;
                    true
                }
                // Sync.
                kind => kind == b'S',
            };
            batch.bytes.extend(frame.0);
            if is_last {
                return Ok(batch);
            }
        }
    }

    /// Carries out a batch and passes on the answer, unless it is a write that is to be held.
    async fn carry_out(&mut self, shared: &Shared, batch: &Batch) -> Result<Option<Hold>> {
        if !batch.is_answered {
            self.to_server.write_all(&batch.bytes).await?;
            return Ok(None);
        }
        if !self.in_transaction && !batch.executed.is_empty() && !batch.begins_with("begin") {
            return self.carry_out_alone(shared, batch).await;
        }
        let mut hold = None;
        if self.in_transaction && batch.begins_with("commit") {
            hold = self.judge(shared).await?;
            if hold == Some(Hold::Before) {
                return Ok(hold);
            }
        }
        let (answer, status) = self.ask(&batch.bytes).await?;
        if self.in_transaction {
            self.done.extend(batch.executed.iter().cloned());
        }
        self.in_transaction = status != b'I';
        if !self.in_transaction {
            self.done.clear();
        }
        if hold.is_none() {
            self.to_client.write_all(&answer).await?;
        }
        Ok(hold)
    }

    /// Like [`Self::carry_out`] for statements outside of a transaction: they get one of their own.
    async fn carry_out_alone(&mut self, shared: &Shared, batch: &Batch) -> Result<Option<Hold>> {
        self.ask(&Frame::query("begin")?.0).await?;
        let (mut answer, status) = self.ask(&batch.bytes).await?;
        let mut hold = None;
        match status {
            b'T' => {
                self.done.clone_from(&batch.executed);
                hold = self.judge(shared).await?;
                self.done.clear();
                if hold == Some(Hold::Before) {
                    return Ok(hold);
                }
                let (said, _) = self.ask(&Frame::query("commit")?.0).await?;
                // Nothing here is checked as late as that, so this is the proxy's own error.
                ensure!(said.first() == Some(&b'C'), "a commit failed: {}", String::from_utf8_lossy(&said));
            }
            b'E' => {
                self.ask(&Frame::query("rollback")?.0).await?;
            }
            _ => {}
        }
        // As the client would have been told: outside of a transaction.
        if let Some(status) = answer.last_mut() {
            *status = b'I';
        }
        if hold.is_none() {
            self.to_client.write_all(&answer).await?;
        }
        Ok(hold)
    }

    /// Asks whether the transaction has changed anything, and then what is to become of it.
    async fn judge(&mut self, shared: &Shared) -> Result<Option<Hold>> {
        let question = Frame::query("select pg_current_xact_id_if_assigned() is not null")?;
        let (answer, status) = self.ask(&question.0).await?;
        let mut frames = &answer[..];
        let mut wrote = false;
        // One row with one column of length 1: t or f. What failed does not commit.
        while status == b'T' && !frames.is_empty() {
            let frame = Frame::read(&mut frames).await?;
            wrote |= frame.kind() == b'D' && frame.body().ends_with(b"t");
        }
        if !wrote {
            return Ok(None);
        }
        let what = label(&self.done);
        let mut judge = shared.judge.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(judge(&what))
    }

    /// Sends messages and returns the answer up to where the server waits for more, and the status of the transaction
    /// then: idle, in a transaction, or in one that failed. What nobody asked for is passed on at once.
    async fn ask(&mut self, messages: &[u8]) -> Result<(Vec<u8>, u8)> {
        self.to_server.write_all(messages).await?;
        let mut answer = Vec::new();
        loop {
            let frame = Frame::read(&mut self.server).await?;
            if frame.is_unasked() {
                self.to_client.write_all(&frame.0).await?;
                continue;
            }
            let status = (frame.kind() == b'Z').then(|| frame.body().first().copied()).flatten();
            answer.extend(frame.0);
            if let Some(status) = status {
                return Ok((answer, status));
            }
        }
    }
}

/// How much of a statement tells it from the others.
const LABEL_CHARACTERS: usize = 60;

/// The beginnings of the statements, each once.
fn label(statements: &[String]) -> String {
    let mut beginnings: Vec<String> = statements
        .iter()
        .map(|text| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            text.chars().take(LABEL_CHARACTERS).collect()
        })
        .collect();
    beginnings.dedup();
    beginnings.join("; ")
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, Executor as _, PgConnection, postgres::PgListener};

    use super::*;
    use crate::local::Postgres;

    /// A server with a table that has one row, a proxy in front of it, and what the proxy saw.
    async fn stage() -> (Postgres, SqlProxy, Arc<Mutex<Vec<String>>>) {
        let postgres = Postgres::start().await.unwrap();
        postgres.sql("create table t (n int); insert into t values (1)").await.unwrap();
        let proxy = SqlProxy::start(postgres.socket()).await.unwrap();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&seen);
        proxy.judge(move |what| {
            noted.lock().unwrap().push(what.to_owned());
            None
        });
        (postgres, proxy, seen)
    }

    async fn change(connection: &mut PgConnection, from: i32, to: i32) -> sqlx::Result<u64> {
        let update = sqlx::query("update t set n = $2 where n = $1").bind(from).bind(to);
        Ok(update.execute(connection).await?.rows_affected())
    }

    #[tokio::test]
    async fn what_changes_something_counts_and_nothing_else() {
        let (mut postgres, proxy, seen) = stage().await;
        let mut client = PgConnection::connect(&proxy.url()).await.unwrap();
        let count = || seen.lock().unwrap().len();

        // Reads, and a change of no row, also from a prepared statement that is executed again.
        let n: i32 = sqlx::query_scalar("select n from t").fetch_one(&mut client).await.unwrap();
        assert_eq!((n, change(&mut client, 7, 8).await.unwrap(), count()), (1, 0, 0));
        assert_eq!((change(&mut client, 1, 2).await.unwrap(), count()), (1, 1));

        // A statement that only looks like reading.
        let hidden = "with c as (update t set n = 3 returning n) select n from c";
        let n: i32 = sqlx::query_scalar(hidden).fetch_one(&mut client).await.unwrap();
        assert_eq!((n, count()), (3, 2));

        // What fails changes nothing, and the connection goes on.
        let failed = client.execute("insert into t values (1 / 0)").await.unwrap_err();
        assert!(failed.to_string().contains("division by zero"), "{failed}");

        // A transaction is one write, when it commits and has written.
        let mut transaction = client.begin().await.unwrap();
        assert_eq!(change(&mut transaction, 3, 4).await.unwrap(), 1);
        assert_eq!(change(&mut transaction, 4, 5).await.unwrap(), 1);
        assert_eq!(count(), 2);
        transaction.commit().await.unwrap();
        assert_eq!(count(), 3);
        let mut transaction = client.begin().await.unwrap();
        assert_eq!(change(&mut transaction, 5, 6).await.unwrap(), 1);
        transaction.rollback().await.unwrap();
        let mut transaction = client.begin().await.unwrap();
        assert_eq!(change(&mut transaction, 7, 8).await.unwrap(), 0);
        transaction.commit().await.unwrap();
        assert_eq!(count(), 3);
        assert_eq!(postgres.sql("select n from t").await.unwrap(), "5");
        assert_eq!(seen.lock().unwrap()[2], "update t set n = $2 where n = $1");
        postgres.down().unwrap();
    }

    #[tokio::test]
    async fn notifications_pass_while_nobody_asks() {
        let (mut postgres, proxy, seen) = stage().await;
        let mut listener = PgListener::connect(&proxy.url()).await.unwrap();
        listener.listen("news").await.unwrap();
        postgres.sql("notify news, 'first'").await.unwrap();
        assert_eq!(listener.recv().await.unwrap().payload(), "first");
        assert!(seen.lock().unwrap().is_empty());
        postgres.down().unwrap();
    }

    #[tokio::test]
    async fn a_write_is_held_before_it_is_there_or_after() {
        let (mut postgres, proxy, _) = stage().await;
        for (in_transaction, hold, from, there) in [
            (false, Hold::Before, 1, 1),
            (false, Hold::After, 1, 2),
            (true, Hold::Before, 2, 2),
            (true, Hold::After, 2, 3),
        ] {
            proxy.judge(move |_| Some(hold));
            let mut client = PgConnection::connect(&proxy.url()).await.unwrap();
            let write = async {
                if in_transaction {
                    let mut transaction = client.begin().await?;
                    change(&mut transaction, from, from + 1).await?;
                    transaction.commit().await
                } else {
                    change(&mut client, from, from + 1).await.map(drop)
                }
            };
            tokio::select! {
                answer = write => panic!("a write that was held was answered: {answer:?}"),
                held = proxy.held() => held.unwrap(),
            }
            // As when a process is killed: no farewell.
            drop(client);
            proxy.is_left().await.unwrap();
            // Waits for the server to notice, if the row is still locked.
            let update = "update t set n = n returning n";
            assert_eq!(postgres.sql(update).await.unwrap(), there.to_string(), "{hold:?}");
        }
        postgres.down().unwrap();
    }
}
