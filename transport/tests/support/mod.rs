//! A worker on a thread of its own with a handler for tests, and a client that says and hears bytes.

use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_transport::ResponseWriter;
use larder_transport::body::{BodyPiece, FileOwner, FileSlice};
use larder_transport::listener::{self, Listen, ListeningSocket};
use larder_transport::worker::{self, ClientLimits, ConnectionLimit, TransportWorker};
use larder_transport::{AnswerNow, Client, ClientGone, Handler, Reply, RequestBody, ResponseBody};
use larder_wire::message::{Reject, Request, RequestHead};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Bytes of `/file`.
pub const FILE: usize = 24 * 1024 * 1024;

/// A test's orders to the worker.
#[derive(Debug)]
pub enum Order {
    Drain,
    Quit,
}

/// Bounds that no test reaches by accident.
pub fn limits() -> ClientLimits {
    let long = Duration::from_secs(60);
    ClientLimits {
        head_size: 4096,
        target_size: 1024,
        body_size: 1 << 20,
        head_timeout: long,
        body_timeout: long,
        idle_timeout: long,
        write_timeout: long,
        min_rate: 0,
        connections: 1000,
        http2_streams: 128,
        upgrades: true,
    }
}

/// A running worker; ends with the value.
pub struct Server {
    pub address: SocketAddr,
    pub counters: Arc<Counters>,
    orders: UnboundedSender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn new() -> Self {
        Self::with(limits())
    }

    pub fn with(limits: ClientLimits) -> Self {
        Self::on(listener::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap(), limits)
    }

    pub fn on(bound: ListeningSocket, limits: ClientLimits) -> Self {
        Self::begin(bound, Arc::default(), limits, |_| {})
    }

    /// One of several that share `connection_limit`.
    pub fn among(connection_limit: &Arc<ConnectionLimit>, limits: ClientLimits) -> Self {
        let bound = listener::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
        Self::begin(bound, connection_limit.clone(), limits, |_| {})
    }

    /// One that lets clients in only while descriptors suffice.
    pub fn within_descriptors() -> Self {
        let bound = listener::bind(&Listen::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
        Self::begin(bound, Arc::default(), limits(), |it| it.reserve_descriptors())
    }

    fn begin(
        bound: ListeningSocket,
        connection_limit: Arc<ConnectionLimit>,
        limits: ClientLimits,
        prepare: fn(&TransportWorker),
    ) -> Self {
        clock::tick();
        let address = bound.tcp().unwrap_or(([127, 0, 0, 1], 0).into());
        let counters = Arc::new(Counters::default());
        let (orders, mut inbox) = unbounded_channel();
        let shared = counters.clone();
        let thread = std::thread::spawn(move || {
            worker::runtime().unwrap().block_on(async move {
                let worker = TransportWorker::sharing(connection_limit, shared, limits);
                prepare(&worker);
                tokio::task::spawn_local(worker.clone().watch());
                tokio::task::spawn_local(listener::serve(bound, worker.clone(), Rc::new(Answers)));
                while let Some(order) = inbox.recv().await {
                    match order {
                        Order::Drain => {
                            worker.drain(std::time::Duration::from_secs(1));
                            worker.drained().await;
                        }
                        Order::Quit => return,
                    }
                }
            });
        });
        Self { address, counters, orders, thread: Some(thread) }
    }

    pub fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
    }

    pub fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.address).unwrap();
        // A test that waits in vain fails; nothing depends on how long this is.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Peer { stream, buffer: Vec::new() }
    }

    /// Says everything, closes that side, and hears everything.
    pub fn talk(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut peer = self.connect();
        peer.say(bytes);
        peer.stream.shutdown(Shutdown::Write).unwrap();
        peer.rest()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Quit);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The other end of a connection.
pub struct Peer {
    pub stream: TcpStream,
    buffer: Vec<u8>,
}

impl Peer {
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Everything until the server closes.
    pub fn rest(&mut self) -> String {
        let mut all = std::mem::take(&mut self.buffer);
        self.stream.read_to_end(&mut all).unwrap();
        String::from_utf8(all).unwrap()
    }

    /// Everything up to and with `end`.
    pub fn until(&mut self, end: &str) -> String {
        let mut part = [0; 4096];
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, end.as_bytes()) {
                let rest = self.buffer.split_off(at + end.len());
                return String::from_utf8(std::mem::replace(&mut self.buffer, rest)).unwrap();
            }
            let count = self.stream.read(&mut part).unwrap();
            assert!(count > 0, "{end:?} never came: {:?}", String::from_utf8_lossy(&self.buffer));
            self.buffer.extend_from_slice(&part[..count]);
        }
    }

    /// What was heard and not looked at.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Waits until the server is seen to have closed, in whatever way.
    pub fn closed(&mut self) -> std::io::Result<usize> {
        self.stream.read_to_end(&mut self.buffer)
    }
}

/// A file of [`FILE`] bytes, each with its offset's low byte.
struct Pattern(File);

impl FileOwner for Pattern {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
        None
    }
}

/// The bytes of [`Pattern`].
pub fn pattern(from: usize, length: usize) -> Vec<u8> {
    (from..from + length).map(|it| u8::try_from(it % 251).unwrap()).collect()
}

/// The file of `/file`, made once.
static PATTERN: LazyLock<Arc<Pattern>> = LazyLock::new(|| {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&pattern(0, FILE)).unwrap();
    Arc::new(Pattern(file))
});

/// Answers by path; see [`Answers::run`].
struct Answers;

impl Answers {
    async fn run(request: &Request, body: RequestBody<'_>, mut reply: Reply<'_>) -> Result<(), ClientGone> {
        let none = FieldList::new();
        match request.target.split('?').next().unwrap_or_default() {
            "/echo" => return echo(body, reply).await,
            "/stream" => {
                reply.head(200, &none, ResponseBody::Stream).await?;
                for it in ["one", "two", "three"] {
                    reply.push_body(bytes(it)).await?;
                    reply.flush().await?;
                }
                let mut trailers = FieldList::new();
                trailers.push("X-Sum", "3");
                return reply.finish(Some(&trailers)).await;
            }
            "/interim" => {
                let mut fields = FieldList::new();
                fields.push("Link", "</a.css>");
                reply.interim(103, &fields).await?;
                reply.head(204, &none, ResponseBody::Length(0)).await?;
            }
            "/short" => {
                reply.head(200, &none, ResponseBody::Length(10)).await?;
                reply.push_body(bytes("half")).await?;
            }
            "/cut" => {
                reply.head(200, &none, ResponseBody::Stream).await?;
                reply.push_body(bytes("half")).await?;
                return Ok(());
            }
            "/file" => {
                let slice = |from: usize, length: usize| {
                    BodyPiece::File(FileSlice {
                        owner: PATTERN.clone(),
                        offset: from as u64,
                        length: length as u64,
                    })
                };
                reply.head(200, &none, ResponseBody::Length(FILE as u64)).await?;
                reply.push_body(slice(0, 1000)).await?;
                reply.push_body(slice(1000, FILE - 1000)).await?;
            }
            "/panic" => panic!("asked for"),
            "/forever" => std::future::pending().await,
            _ => {
                tokio::task::yield_now().await;
                reply.head(200, &none, length(&request.target)).await?;
                reply.push_body(bytes(&request.target)).await?;
            }
        }
        reply.finish(None).await
    }
}

/// Says how long the body was, how it began, and what its trailers were; or why it is none.
async fn echo(mut body: RequestBody<'_>, mut reply: Reply<'_>) -> Result<(), ClientGone> {
    let none = FieldList::new();
    let (mut sum, mut text) = (0, Vec::new());
    let (status, outcome) = loop {
        match body.next().await {
            Ok(Some(bytes)) => {
                sum += bytes.len();
                text.extend_from_slice(&bytes[..bytes.len().min(100)]);
            }
            Ok(None) => {
                let trailers = body.trailers();
                let trailers = trailers.map_or_else(Vec::new, |it| it.text().trim_ascii_end().to_owned());
                text.truncate(20);
                let (text, trailers) = (String::from_utf8_lossy(&text), String::from_utf8_lossy(&trailers));
                break (200, format!("{sum}:{text}:{trailers}"));
            }
            Err(ClientGone::TooLarge) => break (413, "TooLarge".to_owned()),
            Err(gone) => break (400, format!("{gone:?}")),
        }
    };
    reply.head(status, &none, length(&outcome)).await?;
    reply.push_body(bytes(&outcome)).await?;
    reply.finish(None).await
}

fn length(text: &str) -> ResponseBody {
    ResponseBody::Length(text.len() as u64)
}

fn bytes(text: &str) -> BodyPiece {
    BodyPiece::Bytes(Bytes::copy_from_slice(text.as_bytes()))
}

impl Handler for Answers {
    /// `/fast…` is answered at once, with the target as its body.
    fn answer_now(&self, head: &RequestHead<'_>, _: &Client, answer: &mut ResponseWriter<'_>) -> AnswerNow {
        if !head.target.starts_with("/fast") {
            return AnswerNow::Later;
        }
        assert_ne!("/fast/panic", head.target, "asked for");
        answer.status(200);
        answer.field("Content-Length", head.target.len().to_string().as_bytes());
        answer.end_with(&Bytes::copy_from_slice(head.target.as_bytes()));
        AnswerNow::Answered
    }

    async fn answer<'c>(
        &'c self,
        request: Rc<Request>,
        _: &'c Client,
        body: RequestBody<'c>,
        reply: Reply<'c>,
    ) {
        let _ = Self::run(&request, body, reply).await;
    }

    fn rejected(&self, _: Reject, _: &Client, _: u64) {}
}
