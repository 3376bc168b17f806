//! An origin that speaks HTTP/2, frame by frame as a test says: one thread a connection, a script for each. It counts its
//! connections, and remembers what it was asked.

use super::TIMEOUT;
use super::http2::{ACK, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS};
use super::http2::{WINDOW_UPDATE, block, frame};
use super::origin::Behind;
use larder_wire::http2::hpack::{HpackDecoder, Section, TABLE};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

pub const NO_ERROR: u32 = 0;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;

/// A running origin.
pub struct Http2Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    connections: AtomicUsize,
    asked: Mutex<Vec<Asked>>,
    resets: Mutex<Vec<u32>>,
}

/// A request's head.
#[derive(Clone, Debug)]
pub struct Asked {
    pub stream: u32,
    pub fields: Vec<(String, String)>,
    pub ended: bool,
    /// Which of the origin's connections, from 0.
    pub connection: usize,
}

impl Asked {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    pub fn path(&self) -> &str {
        self.field(":path").unwrap()
    }
}

/// The parts of a request other than its head.
#[derive(Clone, Debug, Default)]
pub struct Upload {
    pub bytes: Vec<u8>,
    pub ended: bool,
    pub trailers: Vec<(String, String)>,
    pub reset: Option<u32>,
}

/// The origin's end of one connection.
pub struct Peer {
    pub stream: TcpStream,
    /// Which of the origin's connections, from 0.
    pub number: usize,
    decoder: HpackDecoder,
    shared: Arc<Shared>,
    uploads: BTreeMap<u32, Upload>,
    /// Answers PING.
    pub is_alive: bool,
}

impl Behind for Http2Origin {
    fn url(&self) -> String {
        format!("h2c://{}", self.address)
    }
}

impl Http2Origin {
    /// `script` has each connection, with larder's preface read and these settings sent.
    pub fn start(settings: &[(u16, u32)], script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let (script, counts) = (Arc::new(script), shared.clone());
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, script) = (stream.unwrap(), script.clone());
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                let number = counts.connections.fetch_add(1, SeqCst);
                let (shared, payload) = (counts.clone(), payload.clone());
                std::thread::spawn(move || {
                    let mut preface = [0; 24];
                    if stream.read_exact(&mut preface).is_err() {
                        return;
                    }
                    assert_eq!(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &preface);
                    let (decoder, uploads) = (HpackDecoder::new(TABLE), BTreeMap::new());
                    let mut peer = Peer { stream, number, decoder, shared, uploads, is_alive: true };
                    peer.send(frame(SETTINGS, 0, 0, &payload));
                    script(&mut peer);
                });
            }
        });
        Self { address, shared }
    }

    /// Answers every request with 200 and its path.
    pub fn echoing_paths() -> Self {
        Self::start(&[], |peer| {
            while let Some(asked) = peer.asked() {
                let path = asked.path().to_owned();
                peer.answer(asked.stream, &[("cache-control", "no-store")], path.as_bytes());
            }
        })
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }

    /// The requests so far, on all connections.
    pub fn received(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The codes of the resets that came.
    pub fn resets(&self) -> Vec<u32> {
        self.shared.resets.lock().unwrap().clone()
    }
}

impl Peer {
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// A head, or trailers.
    pub fn head(&mut self, stream: u32, fields: &[(&str, &str)], flags: u8) {
        self.send(frame(HEADERS, flags | END_HEADERS, stream, &block(fields)));
    }

    pub fn data(&mut self, stream: u32, data: &[u8], flags: u8) {
        self.send(frame(DATA, flags, stream, data));
    }

    /// A whole response.
    pub fn answer(&mut self, stream: u32, fields: &[(&str, &str)], body: &[u8]) {
        let fields: Vec<_> = [(":status", "200")].iter().chain(fields).copied().collect();
        self.head(stream, &fields, 0);
        self.data(stream, body, END_STREAM);
    }

    pub fn reset(&mut self, stream: u32, code: u32) {
        self.send(frame(RST_STREAM, 0, stream, &code.to_be_bytes()));
    }

    /// Begins with nothing above `last`.
    pub fn goaway(&mut self, last: u32, code: u32) {
        self.send(frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat()));
    }

    /// The next request; `None` at the end of the connection.
    pub fn asked(&mut self) -> Option<Asked> {
        loop {
            let it = self.read()?;
            let known = self.uploads.contains_key(&it.stream);
            if it.kind == HEADERS && !known {
                let fields = self.fields(&it);
                let ended = it.flags & END_STREAM != 0;
                self.uploads.insert(it.stream, Upload { ended, ..Upload::default() });
                let asked = Asked { stream: it.stream, fields, ended, connection: self.number };
                self.shared.asked.lock().unwrap().push(asked.clone());
                return Some(asked);
            }
            self.note(&it);
        }
    }

    /// The parts of a request other than its head, once it is over or `enough`.
    pub fn upload(&mut self, stream: u32, enough: impl Fn(&Upload) -> bool) -> Upload {
        loop {
            let upload = self.uploads.entry(stream).or_default();
            if upload.ended || upload.reset.is_some() || enough(upload) {
                return upload.clone();
            }
            match self.read() {
                Some(it) => self.note(&it),
                None => return self.uploads[&stream].clone(),
            }
        }
    }

    fn fields(&mut self, it: &Frame) -> Vec<(String, String)> {
        assert!(it.flags & END_HEADERS != 0, "no head of larder's is that long");
        let block = if it.flags & 0x20 != 0 { &it.payload[5..] } else { &it.payload };
        let mut section = Section::default();
        section.begin(100_000);
        self.decoder.decode(block, &mut section).unwrap();
        let text = |it: &[u8]| String::from_utf8(it.to_vec()).unwrap();
        section.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn note(&mut self, it: &Frame) {
        let ended = it.flags & END_STREAM != 0;
        match it.kind {
            DATA => {
                let upload = self.uploads.entry(it.stream).or_default();
                upload.bytes.extend_from_slice(&it.payload);
                upload.ended = ended;
                let length = u32::try_from(it.payload.len()).unwrap().to_be_bytes();
                if !it.payload.is_empty() {
                    self.send(frame(WINDOW_UPDATE, 0, 0, &length));
                    self.send(frame(WINDOW_UPDATE, 0, it.stream, &length));
                }
            }
            HEADERS => {
                let fields = self.fields(it);
                let upload = self.uploads.entry(it.stream).or_default();
                (upload.trailers, upload.ended) = (fields, ended);
            }
            RST_STREAM => {
                self.uploads.entry(it.stream).or_default().reset = Some(it.code());
                self.shared.resets.lock().unwrap().push(it.code());
            }
            _ => {}
        }
    }

    /// The next frame; frames of the connection are answered.
    fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        let it = Frame { kind, flags, stream: u32::from_be_bytes(stream), payload };
        match kind {
            SETTINGS if flags & ACK == 0 => self.send(frame(SETTINGS, ACK, 0, &[])),
            PING if flags & ACK == 0 && self.is_alive => self.send(frame(PING, ACK, 0, &it.payload)),
            _ => {}
        }
        Some(it)
    }
}
