//! A client over QUIC that sends any bytes on any stream, and sees how each stream and the connection end.

use super::TIMEOUT;
use super::secure::Trusting;
use bytes::BytesMut;
use larder_wire::http2::hpack::Section;
use larder_wire::http3::frame::{FrameStream, Http3Frame, Http3FrameReader, begin_headers, end_headers};
use larder_wire::http3::qpack::{self, encode};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, TransportConfig, VarInt,
};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The control stream of a client: its type, and SETTINGS without any.
pub const CONTROL: &[u8] = &[0x00, 0x04, 0x00];

/// What arrived on one stream.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether it ended in order.
    pub is_whole: bool,
    /// The code of its reset.
    pub reset: Option<u64>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http3Response {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Http3Response {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|it| it.0 == name).map(|it| &*it.1)
    }
}

/// A network that loses every thirteenth packet, and lets every seventh one be overtaken by the next; without chance.
#[derive(Default)]
struct BadNetwork {
    packets: u32,
    held: Option<Vec<u8>>,
}

impl BadNetwork {
    /// The packets that arrive, in order, when this one is sent.
    fn pass(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        self.packets += 1;
        let before = self.held.take();
        if self.packets % 13 == 0 {
            return before.into_iter().collect();
        }
        if self.packets % 7 == 0 && before.is_none() {
            self.held = Some(packet.to_vec());
            return Vec::new();
        }
        std::iter::once(packet.to_vec()).chain(before).collect()
    }
}

/// The sessions of a client, which its later connections resume with early data.
pub struct QuicSessions(rustls::ClientConfig);

impl QuicSessions {
    /// Without any so far.
    pub fn new(trusting: &Trusting) -> Self {
        let mut tls = trusting.config();
        tls.enable_early_data = true;
        Self(tls)
    }

    /// A connection whose handshake is complete.
    pub fn connect(&self, to: SocketAddr) -> QuicClient {
        let mut it = self.resume(to);
        it.complete_handshake();
        it
    }

    /// A connection whose first packets have the first bytes that are sent, if there is a session.
    pub fn resume(&self, to: SocketAddr) -> QuicClient {
        QuicClient::new(endpoint(to, self.0.clone(), "localhost"))
    }

    /// The first packets of a connection with this request in early data, which are not sent; no other packets follow.
    pub fn first_packets(&self, to: SocketAddr, request: &[u8], ends: bool) -> Vec<Vec<u8>> {
        let mut it = self.resume(to);
        assert!(it.has_early_data(), "there is no session");
        it.keep_packets();
        it.uni(CONTROL, false);
        it.bi(request, ends);
        it.kept.unwrap_or_default()
    }
}

/// One connection.
pub struct QuicClient {
    socket: UdpSocket,
    /// Packets that are kept in place of being sent.
    kept: Option<Vec<Vec<u8>>>,
    /// The networks to the server, and from it.
    networks: Option<[BadNetwork; 2]>,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    streams: BTreeMap<StreamId, Arrived>,
    /// How the connection ended: the code of the application, or `u64::MAX` for any other end.
    pub closed: Option<u64>,
    is_connected: bool,
    /// Bytes that QUIC did not take yet.
    unsent: Vec<(StreamId, Vec<u8>, bool)>,
}

fn now() -> Instant {
    larder_stdx::clock::instant()
}

/// An endpoint with one connection, of which no packet was sent yet.
fn endpoint(
    to: SocketAddr,
    mut tls: rustls::ClientConfig,
    name: &str,
) -> (Endpoint, ConnectionHandle, Connection) {
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicClientConfig::try_from(Arc::new(tls)).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[7; 32]);
    let config = Arc::new(EndpointConfig::new(Arc::new(key)));
    let mut endpoint = Endpoint::new(config, None, false, None);
    let mut config = ClientConfig::new(Arc::new(tls));
    let mut transport = TransportConfig::default();
    // A scenario may wait for something of its own meanwhile.
    transport.max_idle_timeout(None);
    config.transport_config(Arc::new(transport));
    let (handle, quic) = endpoint.connect(now(), config, to, name).unwrap();
    (endpoint, handle, quic)
}

/// A socket of a client, with a short wait for packets.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    socket
}

/// Begins a handshake on `socket` and never completes it; waits until something comes back.
pub fn begin_handshake(socket: &UdpSocket, to: SocketAddr, trusting: &Trusting, name: &str) {
    let (_endpoint, _, mut quic) = endpoint(to, trusting.config(), name);
    let mut out = Vec::new();
    while let Some(it) = quic.poll_transmit(now(), 1, &mut out) {
        socket.send_to(&out[..it.size], it.destination).unwrap();
        out.clear();
    }
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.recv(&mut [0; 2048]).unwrap();
}

impl QuicClient {
    /// Connects and greets.
    pub fn connect(to: SocketAddr, trusting: &Trusting, name: &str) -> Self {
        let mut it = Self::new(endpoint(to, trusting.config(), name));
        it.complete_handshake();
        it
    }

    fn new((endpoint, handle, quic): (Endpoint, ConnectionHandle, Connection)) -> Self {
        Self {
            socket: socket(),
            kept: None,
            networks: None,
            endpoint,
            handle,
            quic,
            streams: BTreeMap::new(),
            closed: None,
            is_connected: false,
            unsent: Vec::new(),
        }
    }

    /// Waits for the end of the handshake.
    pub fn complete_handshake(&mut self) {
        self.until("a handshake", |it| it.is_connected || it.closed.is_some());
    }

    /// Sends no packets, and keeps them.
    pub fn keep_packets(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// Sends the packets that were kept; returns copies.
    pub fn release_packets(&mut self, to: SocketAddr) -> Vec<Vec<u8>> {
        let kept = self.kept.take().unwrap_or_default();
        for it in &kept {
            self.socket.send_to(it, to).unwrap();
        }
        kept
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.quic.close(now(), VarInt::from_u32(0x100), bytes::Bytes::new());
        self.step();
    }

    /// Whether it has a session for early data.
    pub fn has_early_data(&self) -> bool {
        self.quic.has_0rtt()
    }

    /// Whether the server took its early data, after the handshake.
    pub fn was_early(&self) -> bool {
        self.is_connected && self.quic.accepted_0rtt()
    }

    /// The same, with the control stream of HTTP/3.
    pub fn begin(to: SocketAddr, trusting: &Trusting, name: &str) -> Self {
        let mut it = Self::connect(to, trusting, name);
        it.uni(CONTROL, false);
        it
    }

    /// Goes on from another port without knowing it, as behind a router that forgot the old one.
    pub fn move_away(&mut self) {
        self.socket = socket();
    }

    /// Has a bad network from now on.
    pub fn lose_packets(&mut self) {
        self.networks = Some(Default::default());
    }

    /// Has a good network again.
    pub fn lose_no_packets(&mut self) {
        self.networks = None;
    }

    /// Opens a unidirectional stream with these bytes.
    pub fn uni(&mut self, bytes: &[u8], ends: bool) -> StreamId {
        self.open(Dir::Uni, bytes, ends)
    }

    /// Opens a bidirectional stream with these bytes.
    pub fn bi(&mut self, bytes: &[u8], ends: bool) -> StreamId {
        self.open(Dir::Bi, bytes, ends)
    }

    fn open(&mut self, dir: Dir, bytes: &[u8], ends: bool) -> StreamId {
        self.until("room for a stream", |it| it.closed.is_some() || it.has_room(dir));
        let id = self.quic.streams().open(dir).unwrap_or(StreamId::new(quinn_proto::Side::Client, dir, 0));
        self.send(id, bytes, ends);
        id
    }

    fn has_room(&mut self, dir: Dir) -> bool {
        // A stream that is opened is used.
        self.quic.streams().remote_open_streams(dir) < u64::MAX
    }

    /// Sends bytes on a stream.
    pub fn send(&mut self, id: StreamId, bytes: &[u8], ends: bool) {
        self.unsent.push((id, bytes.to_vec(), ends));
        self.step();
    }

    /// Ends a stream in both directions at once.
    pub fn cancel(&mut self, id: StreamId) {
        let code = VarInt::from_u32(0x10c);
        let _ = self.quic.send_stream(id).reset(code);
        let _ = self.quic.recv_stream(id).stop(code);
        self.step();
    }

    /// Asks for no more bytes of a stream.
    pub fn stop(&mut self, id: StreamId) {
        let _ = self.quic.recv_stream(id).stop(VarInt::from_u32(0x10c));
        self.step();
    }

    /// What arrived on a stream so far.
    pub fn arrived(&self, id: StreamId) -> Arrived {
        self.streams.get(&id).cloned().unwrap_or_default()
    }

    /// Sends, and receives for a moment.
    pub fn turn(&mut self) {
        self.step();
    }

    /// Waits for an event.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_done: impl Fn(&mut Self) -> bool) {
        let end = now() + TIMEOUT;
        while !is_done(self) {
            assert!(now() < end, "{what} did not come");
            self.step();
        }
    }

    /// Waits for the end of a stream: its response, or the code of its reset.
    pub fn response(&mut self, id: StreamId) -> Result<Http3Response, u64> {
        self.until("the end of a response", |it| {
            let stream = it.arrived(id);
            stream.is_whole || stream.reset.is_some() || it.closed.is_some()
        });
        let stream = self.arrived(id);
        match stream.reset {
            Some(code) => Err(code),
            None if !stream.is_whole => Err(self.closed.unwrap_or_default()),
            None => Ok(read(&stream.bytes)),
        }
    }

    /// The response to a GET.
    pub fn get(&mut self, path: &str) -> Http3Response {
        let id = self.bi(&request("GET", path, &[]), true);
        self.response(id).unwrap()
    }

    /// Waits for the end of the connection: the code.
    pub fn end(&mut self) -> u64 {
        self.until("the end of a connection", |it| it.closed.is_some());
        self.closed.unwrap_or_default()
    }

    /// One turn: sends, and receives for a moment.
    fn step(&mut self) {
        self.write();
        self.transmit();
        let mut room = vec![0; 65_536];
        if let Ok((count, from)) = self.socket.recv_from(&mut room) {
            let arrived = match &mut self.networks {
                None => vec![room[..count].to_vec()],
                Some([_, back]) => back.pass(&room[..count]),
            };
            for bytes in arrived {
                let mut out = Vec::new();
                let event = self.endpoint.handle(now(), from, None, None, BytesMut::from(&*bytes), &mut out);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.quic.handle_event(event);
                }
            }
        }
        if self.quic.poll_timeout().is_some_and(|it| it <= now()) {
            self.quic.handle_timeout(now());
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => {
                    self.closed.get_or_insert(match reason {
                        ConnectionError::ApplicationClosed(it) => it.error_code.into_inner(),
                        _ => u64::MAX,
                    });
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.quic.streams().accept(dir) {
                        self.read(id);
                    }
                }
                _ => {}
            }
        }
        self.transmit();
    }

    fn write(&mut self) {
        for (id, mut bytes, ends) in std::mem::take(&mut self.unsent) {
            if self.unsent.iter().any(|it| it.0 == id) {
                self.unsent.push((id, bytes, ends));
                continue;
            }
            let mut stream = self.quic.send_stream(id);
            let count = stream.write(&bytes).unwrap_or(0);
            bytes.drain(..count);
            match bytes.is_empty() {
                true if ends => drop(stream.finish()),
                true => {}
                false => self.unsent.push((id, bytes, ends)),
            }
        }
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        while let Some(it) = self.quic.poll_transmit(now(), 1, &mut out) {
            let sent = match &mut self.networks {
                None => vec![out[..it.size].to_vec()],
                Some([there, _]) => there.pass(&out[..it.size]),
            };
            match &mut self.kept {
                Some(kept) => kept.extend(sent),
                None => {
                    for bytes in sent {
                        let _ = self.socket.send_to(&bytes, it.destination);
                    }
                }
            }
            out.clear();
        }
    }

    fn read(&mut self, id: StreamId) {
        let arrived = self.streams.entry(id).or_default();
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => arrived.bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    arrived.is_whole = true;
                    break;
                }
                Err(ReadError::Reset(code)) => {
                    arrived.reset = Some(code.into_inner());
                    break;
                }
                Err(ReadError::Blocked) => break,
            }
        }
        let _ = chunks.finalize();
    }
}

/// A frame.
pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    larder_wire::http3::write_varint(body.len() as u64, &mut out);
    out.extend_from_slice(body);
    out
}

/// A HEADERS frame with these fields.
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let at = begin_headers(&mut out);
    for (name, value) in fields {
        // Names with capital letters are written as they are.
        let start = out.len();
        encode::field(name.as_bytes(), value.as_bytes(), &mut out);
        if name.bytes().any(|it| it.is_ascii_uppercase()) {
            let from =
                out[start..].windows(name.len()).position(|it| it.eq_ignore_ascii_case(name.as_bytes()));
            let from = start + from.unwrap();
            out[from..from + name.len()].copy_from_slice(name.as_bytes());
        }
    }
    end_headers(at, &mut out);
    out
}

/// The HEADERS frame of a request.
pub fn request(method: &str, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let own = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    headers(&[&own, more].concat())
}

fn read(mut bytes: &[u8]) -> Http3Response {
    let mut reader = Http3FrameReader::new(FrameStream::Request, 1 << 20);
    let mut response = Http3Response { status: 0, fields: Vec::new(), body: Vec::new() };
    while let Some(frame) = reader.read(&mut bytes).unwrap() {
        match frame {
            Http3Frame::Headers(block) => {
                let mut section = Section::default();
                section.begin(1 << 20);
                qpack::decode(&block, &mut section).unwrap();
                let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
                for (name, value) in section.iter() {
                    match name {
                        b":status" => response.status = text(value).parse().unwrap(),
                        _ => response.fields.push((text(name), text(value))),
                    }
                }
            }
            Http3Frame::Data(data) => response.body.extend_from_slice(data),
            _ => {}
        }
    }
    assert!(reader.is_between_frames());
    response
}
