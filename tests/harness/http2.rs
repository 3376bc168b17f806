//! A client of HTTP/2 that sends exact frames on demand. It parses frames by its own few lines: the server's codec does
//! not judge itself.

use super::{Larder, TIMEOUT};
use larder_wire::http2::hpack::{HpackDecoder, Section};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::TcpStream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const HEADER_TABLE_SIZE: u16 = 1;

/// The largest payload of a frame without a setting (RFC 9113 §4.2).
const LARGEST_FRAME: usize = 16_384;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const ACK: u8 = 1;

/// One frame as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Its error code, where it has one.
    pub fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// The response of one stream.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Of the final head; 0 without one.
    pub status: u16,
    /// Of the final head, then of the trailers.
    pub fields: Vec<(String, String)>,
    /// The final head as it came.
    pub block: Vec<u8>,
    /// Statuses of interim heads.
    pub interim: Vec<u16>,
    pub interim_fields: Vec<(String, String)>,
    pub trailers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The stream ended well.
    pub complete: bool,
    /// It was reset with this code.
    pub reset: Option<u32>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection.
pub struct Http2 {
    pub stream: TcpStream,
    next: u32,
    /// Gives the windows back what came.
    pub is_generous: bool,
    answers: BTreeMap<u32, Answer>,
    /// The fields that the server has us remember.
    table: Table,
    /// The code of the last GOAWAY.
    pub goaway: Option<u32>,
    /// One was sent before it that left everything open.
    pub was_announced: bool,
    /// The server's settings.
    pub settings: BTreeMap<u16, u32>,
}

/// A frame of these parts.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Fields as literals that are not indexed.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            integer(text.len(), &mut out);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

fn integer(value: usize, out: &mut Vec<u8>) {
    if value < 127 {
        return out.push(u8::try_from(value).unwrap());
    }
    out.push(127);
    let mut rest = value - 127;
    while rest >= 128 {
        out.push(u8::try_from(rest % 128 + 128).unwrap());
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap());
}

/// The pseudo-fields of a request, and `more` fields.
pub fn request<'a>(method: &'a str, path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "h")];
    pseudo.iter().chain(more).copied().collect()
}

impl Http2 {
    /// Connects, and sends preface and settings.
    pub fn connect(larder: &Larder) -> Self {
        Self::with_settings(larder, &[])
    }

    /// The same, with these settings.
    pub fn with_settings(larder: &Larder, settings: &[(u16, u32)]) -> Self {
        Self::over(TcpStream::connect(larder.address).unwrap(), settings)
    }

    /// The same over a connection on which something was sent already.
    pub fn over(stream: TcpStream, settings: &[(u16, u32)]) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        let (answers, theirs) = (BTreeMap::new(), BTreeMap::new());
        let mut it = Self {
            stream,
            next: 1,
            is_generous: true,
            answers,
            table: Table::default(),
            goaway: None,
            was_announced: false,
            settings: theirs,
        };
        it.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        it.set(settings);
        it
    }

    /// Sends settings. A smaller table is one that the server has to name before it uses it (RFC 7541 §4.2).
    pub fn set(&mut self, settings: &[(u16, u32)]) {
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.send(frame(SETTINGS, 0, 0, &payload));
        let size = settings.iter().find(|it| it.0 == HEADER_TABLE_SIZE);
        self.table.wanted.push_back(size.map(|it| it.1 as usize));
    }

    /// Sends bytes. The server may have closed; its earlier bytes can still be read.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends a head, and returns its stream.
    pub fn head(&mut self, fields: &[(&str, &str)], flags: u8) -> u32 {
        let id = self.next;
        self.next += 2;
        let block = block(fields);
        let mut parts = block.chunks(LARGEST_FRAME).peekable();
        let mut begin = (HEADERS, flags);
        while let Some(part) = parts.next() {
            let end = if parts.peek().is_none() { END_HEADERS } else { 0 };
            self.send(frame(begin.0, begin.1 | end, id, part));
            begin = (CONTINUATION, 0);
        }
        id
    }

    /// The next stream is this one.
    pub fn begin_at(&mut self, id: u32) {
        self.next = id;
    }

    /// Sends a whole GET.
    pub fn send_get(&mut self, path: &str) -> u32 {
        self.head(&request("GET", path, &[]), END_STREAM)
    }

    /// One GET and its answer.
    pub fn get(&mut self, path: &str) -> Answer {
        let id = self.send_get(path);
        self.answer(id)
    }

    pub fn data(&mut self, id: u32, data: &[u8], flags: u8) {
        self.send(frame(DATA, flags, id, data));
    }

    /// Lets more come.
    pub fn allow(&mut self, id: u32, bytes: u32) {
        self.send(frame(WINDOW_UPDATE, 0, id, &bytes.to_be_bytes()));
    }

    /// The response of a stream, once it is over.
    pub fn answer(&mut self, id: u32) -> Answer {
        loop {
            let answer = self.answers.entry(id).or_default();
            if answer.complete || answer.reset.is_some() {
                return self.answers.remove(&id).unwrap();
            }
            if self.read().is_none() {
                return self.answers.remove(&id).unwrap_or_default();
            }
        }
    }

    /// The response of a stream so far.
    pub fn so_far(&mut self, id: u32) -> &Answer {
        self.answers.entry(id).or_default()
    }

    /// Reads until this holds of what came of a stream.
    #[track_caller]
    pub fn until(&mut self, id: u32, done: impl Fn(&Answer) -> bool) -> &Answer {
        while !done(self.so_far(id)) {
            assert!(self.read().is_some(), "the connection ended: {:?}", self.answers.get(&id));
        }
        self.so_far(id)
    }

    /// Reads to the end of the connection; how many frames of each kind came.
    pub fn rest(&mut self) -> BTreeMap<u8, usize> {
        let mut counts = BTreeMap::new();
        while let Some(it) = self.read() {
            *counts.entry(it.kind).or_default() += 1;
        }
        counts
    }

    /// The next frame, which is also noted where it belongs; `None` at the end.
    pub fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        let it = Frame { kind, flags, stream: u32::from_be_bytes(stream), payload };
        self.note(&it);
        Some(it)
    }

    fn note(&mut self, it: &Frame) {
        match it.kind {
            HEADERS => {
                assert!(it.flags & END_HEADERS != 0, "no head of ours is that long");
                let fields = self.table.fields(&it.payload);
                let answer = self.answers.entry(it.stream).or_default();
                let status =
                    fields.iter().find(|it| it.0 == ":status").map(|it| it.1.parse::<u16>().unwrap());
                match status {
                    Some(status @ 100..200) => {
                        answer.interim.push(status);
                        answer.interim_fields.extend(fields);
                    }
                    Some(status) => {
                        (answer.status, answer.fields) = (status, fields);
                        answer.block.clone_from(&it.payload);
                    }
                    None => answer.trailers = fields,
                }
                answer.complete |= it.flags & END_STREAM != 0;
            }
            DATA => {
                let answer = self.answers.entry(it.stream).or_default();
                answer.body.extend_from_slice(&it.payload);
                answer.complete |= it.flags & END_STREAM != 0;
                let (is_over, length) = (answer.complete, u32::try_from(it.payload.len()).unwrap());
                if self.is_generous && length > 0 {
                    self.allow(0, length);
                    if !is_over {
                        self.allow(it.stream, length);
                    }
                }
            }
            RST_STREAM => self.answers.entry(it.stream).or_default().reset = Some(it.code()),
            SETTINGS if it.flags & ACK == 0 => {
                for one in it.payload.chunks(6) {
                    let value = u32::from_be_bytes(one[2..].try_into().unwrap());
                    self.settings.insert(u16::from_be_bytes([one[0], one[1]]), value);
                }
                self.send(frame(SETTINGS, ACK, 0, &[]));
            }
            SETTINGS => self.table.acknowledged(),
            GOAWAY if it.payload[..4] == [0x7f, 0xff, 0xff, 0xff] => self.was_announced = true,
            GOAWAY => self.goaway = Some(it.code()),
            PING if it.flags & ACK == 0 => self.send(frame(PING, ACK, 0, &it.payload)),
            _ => {}
        }
    }
}

/// The fields that the server has its client remember, newest first.
struct Table {
    entries: VecDeque<(String, String)>,
    /// Bytes as RFC 7541 §4.1 counts them.
    size: usize,
    /// The server's last size update.
    max: usize,
    /// The allowed size, and the next one after the server's acknowledgement.
    allowed: usize,
    wanted: VecDeque<Option<usize>>,
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size: 0, max: 4096, allowed: 4096, wanted: VecDeque::new() }
    }
}

impl Table {
    fn acknowledged(&mut self) {
        self.allowed = self.wanted.pop_front().flatten().unwrap_or(self.allowed);
    }

    /// Reads a block.
    fn fields(&mut self, mut rest: &[u8]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        while let Some(first) = rest.first().copied() {
            if first & 0xe0 == 0x20 {
                assert!(found.is_empty(), "a size within a section");
                self.max = number(&mut rest, 5);
                assert!(self.max <= self.allowed, "{} bytes of {}", self.max, self.allowed);
                self.evict(0);
                continue;
            }
            assert!(self.max <= self.allowed, "the server did not say that it uses less");
            if first & 0x80 != 0 {
                found.push(self.at(number(&mut rest, 7)));
                continue;
            }
            let is_remembered = first & 0x40 != 0;
            let name = match number(&mut rest, if is_remembered { 6 } else { 4 }) {
                0 => text(&mut rest),
                index => self.at(index).0,
            };
            let field = (name, text(&mut rest));
            if is_remembered {
                let size = field.0.len() + field.1.len() + 32;
                self.evict(size);
                if size <= self.max {
                    self.entries.push_front(field.clone());
                    self.size += size;
                }
            }
            found.push(field);
        }
        found
    }

    fn evict(&mut self, size: usize) {
        while self.size + size > self.max {
            let Some((name, value)) = self.entries.pop_back() else { return };
            self.size -= name.len() + value.len() + 32;
        }
    }

    fn at(&self, index: usize) -> (String, String) {
        const STATUS: [&str; 7] = ["200", "204", "206", "304", "400", "404", "500"];
        const NAMES: [(usize, &str); 23] = [
            (8, ":status"),
            (18, "accept-ranges"),
            (20, "access-control-allow-origin"),
            (21, "age"),
            (22, "allow"),
            (24, "cache-control"),
            (26, "content-encoding"),
            (28, "content-length"),
            (29, "content-location"),
            (30, "content-range"),
            (31, "content-type"),
            (33, "date"),
            (34, "etag"),
            (44, "last-modified"),
            (45, "link"),
            (46, "location"),
            (52, "refresh"),
            (53, "retry-after"),
            (54, "server"),
            (55, "set-cookie"),
            (59, "vary"),
            (60, "via"),
            (61, "www-authenticate"),
        ];
        match index {
            8..=14 => (":status".to_owned(), STATUS[index - 8].to_owned()),
            62.. => self.entries.get(index - 62).unwrap_or_else(|| panic!("{index}")).clone(),
            _ => {
                let name = NAMES.iter().find(|it| it.0 == index).unwrap_or_else(|| panic!("{index}"));
                (name.1.to_owned(), String::new())
            }
        }
    }
}

fn number(rest: &mut &[u8], prefix: u32) -> usize {
    let mask = (1 << prefix) - 1;
    let mut sum = usize::from(rest[0]) & mask;
    let mut shift = 0;
    let mut goes_on = sum == mask;
    *rest = &rest[1..];
    while goes_on {
        sum += usize::from(rest[0] & 0x7f) << shift;
        goes_on = rest[0] & 0x80 != 0;
        shift += 7;
        *rest = &rest[1..];
    }
    sum
}

fn text(rest: &mut &[u8]) -> String {
    let is_coded = rest[0] & 0x80 != 0;
    let begin = *rest;
    let length = number(rest, 7);
    let (text, after) = rest.split_at(length);
    let whole = &begin[..begin.len() - after.len()];
    *rest = after;
    let text = if is_coded { huffman(whole) } else { text.to_vec() };
    String::from_utf8(text).unwrap()
}

/// The one thing that is left to the server's codec, whose table the examples of RFC 7541 are read by in its own tests.
fn huffman(string: &[u8]) -> Vec<u8> {
    let mut section = Section::default();
    section.begin(1 << 20);
    HpackDecoder::new(0).decode(&[b"\0\x01x", string].concat(), &mut section).unwrap();
    section.iter().next().unwrap().1.to_vec()
}
