//! An origin that follows a test's script byte for byte: one thread per connection, blocking sockets, port 0.

#![allow(dead_code, reason = "every test file uses its own part of it")]

use larder_counters::Counters;
use larder_origin::{
    Exchange, OriginAddress, OriginError, OriginLimits, OriginPool, OutgoingRequest, RequestLine,
};
use larder_semantics::field::FieldList;
use larder_wire::message::Framing;
use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Either kind of socket.
pub trait Socket: Read + Write + Send {
    /// Makes closing send a reset.
    fn linger_zero(&self);
}

impl Socket for TcpStream {
    fn linger_zero(&self) {
        socket2::SockRef::from(self).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

impl Socket for UnixStream {
    fn linger_zero(&self) {}
}

/// The origin's end of one connection.
pub struct Peer {
    socket: Box<dyn Socket>,
    report: Sender<String>,
    go: Arc<Mutex<Receiver<()>>>,
}

impl Peer {
    /// Reads to the empty line; "" where the connection ended.
    pub fn head(&mut self) -> String {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match self.socket.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return String::new(),
            }
        }
        String::from_utf8(head).unwrap()
    }

    /// Reads exactly this number of bytes.
    pub fn exactly(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.socket.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Reads until the other side closes or resets.
    pub fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let _ = self.socket.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    /// Sends; whether the other side was still there.
    pub fn send(&mut self, text: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(text.as_ref()).is_ok()
    }

    /// Closes with a reset.
    pub fn reset(self) {
        self.socket.linger_zero();
    }

    /// Tells the test something.
    pub fn report(&self, text: impl Into<String>) {
        let _ = self.report.send(text.into());
    }

    /// [`Peer::report`], for when the peer is gone.
    pub fn reporter(&self) -> impl Fn(&str) + use<> {
        let report = self.report.clone();
        move |text| drop(report.send(text.to_owned()))
    }

    /// Lets time pass, for what is about time.
    pub fn pause(&self, duration: Duration) {
        let (_never, nothing) = channel::<()>();
        let _ = nothing.recv_timeout(duration);
    }

    /// Waits until the test says so.
    pub fn wait(&self) {
        let _ = self.go.lock().unwrap().recv();
    }
}

/// A running origin, seen from the test.
pub struct Scripted {
    pub address: OriginAddress,
    reports: Receiver<String>,
    go: Sender<()>,
}

impl Scripted {
    /// `script` is called for every connection, with its number from 0.
    pub fn tcp(script: impl Fn(usize, Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        Self::start(OriginAddress::Tcp("127.0.0.1".to_owned(), port), script, move || {
            let (socket, _) = listener.accept().unwrap();
            socket.set_nodelay(true).unwrap();
            Box::new(socket)
        })
    }

    /// The same on a Unix socket.
    pub fn unix(path: &Path, script: impl Fn(usize, Peer) + Send + Sync + 'static) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        Self::start(OriginAddress::Unix(path.to_owned()), script, move || {
            Box::new(listener.accept().unwrap().0)
        })
    }

    fn start(
        address: OriginAddress,
        script: impl Fn(usize, Peer) + Send + Sync + 'static,
        accept: impl Fn() -> Box<dyn Socket> + Send + 'static,
    ) -> Self {
        let (report, reports) = channel();
        let (go, gone) = channel();
        let gone = Arc::new(Mutex::new(gone));
        let script = Arc::new(script);
        std::thread::spawn(move || {
            for number in 0.. {
                let peer = Peer { socket: accept(), report: report.clone(), go: gone.clone() };
                let script = script.clone();
                std::thread::spawn(move || script(number, peer));
            }
        });
        Self { address, reports, go }
    }

    /// The next thing that a connection reported. Blocks the worker, which has nothing else to do.
    pub fn reported(&self) -> String {
        self.reports.recv_timeout(Duration::from_secs(10)).expect("the origin reports")
    }

    /// Lets one [`Peer::wait`] return.
    pub fn go(&self) {
        self.go.send(()).unwrap();
    }
}

/// Long limits: a test shortens the one it is about.
pub fn limits() -> OriginLimits {
    OriginLimits {
        connect: Duration::from_secs(10),
        handshake: Duration::from_secs(10),
        first_byte: Duration::from_secs(10),
        between_bytes: Duration::from_secs(10),
        total: Duration::ZERO,
        idle: Duration::from_secs(10),
        head_size: 16 * 1024,
        connections: 100,
        queue: 1600,
        queue_wait: None,
        idle_connections: 100,
        interim: 8,
    }
}

/// A client of `scripted`.
pub fn client(scripted: &Scripted, limits: OriginLimits) -> (Rc<OriginPool>, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    (OriginPool::new(scripted.address.clone(), limits, counters.clone()), counters)
}

/// Runs a test as a worker runs; a test that hangs fails.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(20), test).await };
    tokio::task::LocalSet::new().block_on(&runtime, bounded).expect("the test hangs");
}

/// A request for `/`.
pub fn request(method: &str, framing: Framing) -> OutgoingRequest {
    let mut fields = FieldList::new();
    fields.push("Host", "a");
    let line = RequestLine::Own { method: method.to_owned(), target: "/".to_owned() };
    OutgoingRequest {
        line,
        fields,
        framing,
        asked: None,
        reason: None,
        client: None,
        variables: FieldList::default(),
        application: None,
    }
}

/// A GET.
pub fn get() -> OutgoingRequest {
    request("GET", Framing::Empty)
}

/// The rest of the body as text, and how it ended.
pub async fn body(exchange: &Exchange) -> (String, Result<(), OriginError>) {
    let mut text = Vec::new();
    let end = loop {
        match exchange.next().await {
            Ok(Some(bytes)) => text.extend_from_slice(&bytes),
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    (String::from_utf8_lossy(&text).into_owned(), end)
}

/// Sends a GET and reads all of its answer: `200 body`, or the error.
pub async fn fetch(origin: &Rc<OriginPool>) -> String {
    told(origin.send(get()).await).await
}

/// The outcome of an exchange: `100 200 body`, `200 bo Disconnected`, or only the error.
pub async fn told(exchange: Result<Rc<Exchange>, OriginError>) -> String {
    let mut out = String::new();
    let exchange = match exchange {
        Ok(exchange) => exchange,
        Err(error) => return format!("{error:?}"),
    };
    loop {
        match exchange.head().await {
            Ok(response) => {
                out.push_str(&format!("{} ", response.status));
                if response.status >= 200 {
                    break;
                }
            }
            Err(error) => return out + &format!("{error:?}"),
        }
    }
    let (text, end) = body(&exchange).await;
    out.push_str(&text);
    if let Err(error) = end {
        out.push_str(&format!(" {error:?}"));
    }
    out
}
