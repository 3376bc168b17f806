//! A byte-exact origin: it answers each request with the bytes that a script gives, and remembers every byte that
//! it received. It never interprets more than the end of a head and the length of a body.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};

/// One request as the origin received it.
#[derive(Clone, Debug)]
pub struct Received {
    /// The head, with its final empty line.
    pub head: String,
    /// The body as it arrived, chunked framing included.
    pub body: Vec<u8>,
    /// Which of the origin's connections, counted from 0.
    pub connection: usize,
    /// Which of the origin's requests, counted from 0.
    pub number: usize,
}

impl Received {
    /// The first value of a header field, without whitespace around it.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The request line.
    pub fn line(&self) -> &str {
        self.head.lines().next().unwrap_or("")
    }

    /// The request target.
    pub fn target(&self) -> &str {
        self.line().split(' ').nth(1).unwrap_or("")
    }
}

/// One thing that a script does, in order.
pub enum Script {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Waits until the gate is opened.
    Gate(Arc<Gate>),
    /// Lets this much time pass: for origins that are slow, never for a test that hopes.
    Pause(std::time::Duration),
    /// Goes on by itself, with what has come already; the connection ends with it.
    Own(fn(&mut TcpStream, Vec<u8>)),
    /// Closes the connection in an orderly way.
    Close,
    /// Resets it.
    Reset,
}

/// A door that a test opens.
#[derive(Default)]
pub struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicUsize,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Opens it for good.
    pub fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// How many stand before it.
    pub fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Waits before it.
    pub fn pass(&self) {
        self.waiting.fetch_add(1, SeqCst);
        let open = self.open.lock().unwrap();
        let (open, timeout) = self.changed.wait_timeout_while(open, super::TIMEOUT, |it| !*it).unwrap();
        drop(open);
        self.waiting.fetch_sub(1, SeqCst);
        if timeout.timed_out() {
            eprintln!("origin: a gate was never opened");
        }
    }
}

type Answer = dyn Fn(&Received) -> Vec<Script> + Send + Sync;

/// A running origin. Its threads end with their connections.
pub struct Origin {
    /// Where it listens.
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
    bytes: Bytes,
}

/// Everything that came on each connection.
type Bytes = Arc<Mutex<Vec<Vec<u8>>>>;

impl Origin {
    /// An origin that answers each request with what `answer` makes of it.
    pub fn scripted(answer: impl Fn(&Received) -> Vec<Script> + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    /// The same on a listening socket.
    pub fn on(
        listener: TcpListener,
        answer: impl Fn(&Received) -> Vec<Script> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(AtomicUsize::new(0));
        let bytes = Bytes::default();
        let origin = Self {
            address,
            received: received.clone(),
            connections: connections.clone(),
            bytes: bytes.clone(),
        };
        let answer: Arc<Answer> = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, received, bytes) = (answer.clone(), received.clone(), bytes.clone());
                let connection = connections.fetch_add(1, SeqCst);
                bytes.lock().unwrap().push(Vec::new());
                std::thread::spawn(move || {
                    let mut peer = Peer { stream, bytes, connection };
                    serve(&mut peer, &*answer, &received);
                });
            }
        });
        origin
    }

    /// An origin whose answers are plain text: status line, fields, empty line, body; `Content-Length` is
    /// added where no framing field is given.
    pub fn new(answer: impl Fn(&Received) -> String + Send + Sync + 'static) -> Self {
        Self::scripted(move |request| vec![Script::Send(response(&answer(request)))])
    }

    /// An origin that gives every request the same answer.
    pub fn fixed(answer: &str) -> Self {
        let answer = answer.to_owned();
        Self::new(move |_| answer.clone())
    }

    /// Every request so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// Every byte so far, by connection, including incomplete requests.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        self.bytes.lock().unwrap().clone()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Something else that serves HTTP and may be an origin: another larder.
pub struct Place {
    /// Where it listens.
    pub address: SocketAddr,
}

/// A server that larder may stand in front of.
pub trait Behind {
    /// `http://127.0.0.1:PORT`.
    fn url(&self) -> String;
}

impl Behind for Origin {
    fn url(&self) -> String {
        Origin::url(self)
    }
}

impl Behind for Place {
    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Makes bytes of a readable response: lines end in LF in `text` and in CRLF on the wire.
pub fn response(text: &str) -> Vec<u8> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let lower = head.to_ascii_lowercase();
    let mut out = String::new();
    for line in head.lines() {
        out.push_str(line.trim());
        out.push_str("\r\n");
    }
    let status: u16 = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    let framed = lower.contains("\ncontent-length:") || lower.contains("\ntransfer-encoding:");
    if !framed && status >= 200 && !matches!(status, 204 | 304) {
        out.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    out.push_str("\r\n");
    out.push_str(body);
    out.into_bytes()
}

/// One connection of larder's.
struct Peer {
    stream: TcpStream,
    bytes: Bytes,
    connection: usize,
}

fn serve(peer: &mut Peer, answer: &Answer, received: &Mutex<Vec<Received>>) {
    let _ = peer.stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Some((head, body)) = read_request(peer, &mut buffer) {
        let stream = &mut peer.stream;
        let request = {
            let mut all = received.lock().unwrap();
            let request = Received { head, body, connection: peer.connection, number: all.len() };
            all.push(request.clone());
            request
        };
        let head_only = request.line().starts_with("HEAD ");
        for step in answer(&request) {
            match step {
                Script::Send(bytes) => {
                    let end = match head_only {
                        true => {
                            bytes.windows(4).position(|it| it == b"\r\n\r\n").map_or(bytes.len(), |it| it + 4)
                        }
                        false => bytes.len(),
                    };
                    if stream.write_all(&bytes[..end]).is_err() {
                        return;
                    }
                }
                Script::Gate(gate) => gate.pass(),
                Script::Pause(time) => std::thread::park_timeout(time),
                Script::Own(run) => return run(stream, buffer),
                Script::Close => {
                    let _ = stream.shutdown(Shutdown::Both);
                    return;
                }
                Script::Reset => {
                    let socket = socket2::SockRef::from(&*stream);
                    let _ = socket.set_linger(Some(std::time::Duration::ZERO));
                    return;
                }
            }
        }
    }
}

/// Reads one request; its body as raw bytes. `None` when the connection ends, whole request or not: an incomplete
/// request is visible in nothing but its absence.
fn read_request(peer: &mut Peer, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|it| it == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(peer, buffer)?;
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end);
    let lower = head.to_ascii_lowercase();
    if lower.contains("\r\ntransfer-encoding: chunked\r\n") {
        loop {
            if let Some(length) = chunked_end(buffer) {
                return Some((head, buffer.drain(..length).collect()));
            }
            read_more(peer, buffer)?;
        }
    }
    let length = lower
        .lines()
        .find_map(|it| it.strip_prefix("content-length:"))
        .and_then(|it| it.trim().parse::<usize>().ok())
        .unwrap_or(0);
    while buffer.len() < length {
        read_more(peer, buffer)?;
    }
    Some((head, buffer.drain(..length).collect()))
}

fn read_more(peer: &mut Peer, buffer: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 16 * 1024];
    let count = peer.stream.read(&mut chunk).ok().filter(|it| *it > 0)?;
    peer.bytes.lock().unwrap()[peer.connection].extend_from_slice(&chunk[..count]);
    buffer.extend_from_slice(&chunk[..count]);
    Some(())
}

/// The length of a whole chunked body at the start of `bytes`, trailers included.
fn chunked_end(bytes: &[u8]) -> Option<usize> {
    let line = |from: usize| bytes[from..].windows(2).position(|it| it == b"\r\n").map(|it| from + it);
    let mut at = 0;
    loop {
        let end = line(at)?;
        let text = std::str::from_utf8(&bytes[at..end]).ok()?;
        let size = usize::from_str_radix(text.split(';').next()?.trim(), 16).ok()?;
        at = end + 2;
        if size == 0 {
            loop {
                let end = line(at)?;
                let empty = end == at;
                at = end + 2;
                if empty {
                    return Some(at);
                }
            }
        }
        at += size + 2;
        if at > bytes.len() {
            return None;
        }
    }
}
