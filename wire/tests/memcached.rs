//! Both of memcached's protocols against a real memcached, and replies that no sound server sends.

use larder_wire::memcached::{
    BadReply, Expected, FleetKey, Hit, MemcachedLease, MemcachedProtocol, MemcachedRefusal, MemcachedReply,
    MemcachedRequest, MemcachedValue, ParsedReply, ReplyKind, Ttl,
};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

/// A memcached of its own, on a Unix socket in a folder of its own; ended when dropped.
struct Server {
    process: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("memcached");
        command.arg("-s").arg(folder.path().join("socket")).args(["-m", "16", "-I", "512k", "-t", "1"]);
        command.args(["-u", "root"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("memcached is not installed (Debian package memcached)");
        Server { process, folder }
    }

    fn connect(&self, protocol: MemcachedProtocol) -> Connection {
        // It has no way to say that it listens: asked again and again, for 20 seconds at most.
        for _ in 0..2000 {
            if let Ok(socket) = UnixStream::connect(self.folder.path().join("socket")) {
                socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
                return Connection { socket, protocol, buffer: Vec::new(), opaque: 0 };
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        panic!("memcached does not listen");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Connection {
    socket: UnixStream,
    protocol: MemcachedProtocol,
    buffer: Vec<u8>,
    opaque: u32,
}

const MOST: usize = 1 << 20;

impl Connection {
    /// The reply to one request, and the value that it brought.
    fn fetch(&mut self, request: &MemcachedRequest<'_>) -> (MemcachedReply, Vec<u8>) {
        self.ask_all(&[*request]).remove(0)
    }

    /// The reply to a request that is sent with the last bytes of its value behind it.
    fn ask_with(&mut self, request: &MemcachedRequest<'_>, rest: &[u8]) -> (MemcachedReply, Vec<u8>) {
        let opaque = self.opaque;
        let mut out = Vec::new();
        self.protocol.write(request, opaque, &mut out);
        self.opaque = opaque.wrapping_add(77);
        self.socket.write_all(&[&out, rest, self.protocol.end_of_value()].concat()).unwrap();
        self.reply(request, opaque)
    }

    /// The replies to requests that were sent together.
    fn ask_all(&mut self, requests: &[MemcachedRequest<'_>]) -> Vec<(MemcachedReply, Vec<u8>)> {
        let first = self.opaque;
        let mut out = Vec::new();
        for request in requests {
            self.protocol.write(request, self.opaque, &mut out);
            self.opaque = self.opaque.wrapping_add(77);
        }
        self.socket.write_all(&out).unwrap();
        let numbers = (0..).map(|it: u32| first.wrapping_add(it * 77));
        requests.iter().zip(numbers).map(|(it, opaque)| self.reply(it, opaque)).collect()
    }

    fn reply(&mut self, request: &MemcachedRequest<'_>, opaque: u32) -> (MemcachedReply, Vec<u8>) {
        let key = match request {
            MemcachedRequest::Get { key, named: true, .. } => Some(*key),
            _ => None,
        };
        let expected = Expected { opaque, kind: request.kind(), key, most: MOST };
        loop {
            match self.protocol.parse(&self.buffer, &expected) {
                Ok(ParsedReply::Reply(reply, length)) => {
                    let value = match &reply {
                        MemcachedReply::Hit(hit) => self.buffer[hit.value.clone()].to_vec(),
                        _ => Vec::new(),
                    };
                    self.buffer.drain(..length);
                    return (reply, value);
                }
                Ok(ParsedReply::More(needed)) => assert!(needed > self.buffer.len(), "{needed}"),
                Err(why) => panic!("{why}: {:?}", String::from_utf8_lossy(&self.buffer)),
            }
            let mut some = [0; 4096];
            let count = self.socket.read(&mut some).unwrap();
            assert!(count > 0, "memcached closed the connection after {request:?}");
            self.buffer.extend_from_slice(&some[..count]);
        }
    }
}

fn key(text: &str) -> FleetKey {
    FleetKey::new(text.as_bytes()).unwrap()
}

fn get(key: &FleetKey) -> MemcachedRequest<'_> {
    MemcachedRequest::Get { key, named: true, vivify: None, recache: None }
}

fn set<'a>(key: &'a FleetKey, value: &'a [&'a [u8]]) -> MemcachedRequest<'a> {
    let value = MemcachedValue::of(value);
    MemcachedRequest::Set { key, value, flags: 7, expire: 100, cas: None, stale_if_older: false }
}

fn hit(reply: &(MemcachedReply, Vec<u8>)) -> &Hit {
    let MemcachedReply::Hit(hit) = &reply.0 else { panic!("{reply:?}") };
    hit
}

/// Values and keys as long as may be, and several requests in one write.
fn sizes_and_batches(it: &mut Connection, a: &FleetKey) {
    let done = (MemcachedReply::Done, Vec::new());
    let large = vec![b'x'; 600_000];
    assert_eq!(MemcachedReply::Refused(MemcachedRefusal::TooLarge), it.fetch(&set(a, &[&large])).0);
    let almost = vec![b'x'; 400_000];
    assert_eq!(done, it.fetch(&set(a, &[&almost])), "the connection goes on after a refusal");
    assert!(it.fetch(&get(a)).1 == almost);

    let longest = key(&"k".repeat(250));
    let replies =
        it.ask_all(&[set(&longest, &[b"v"]), get(&longest), get(&key("nothing")), MemcachedRequest::Noop]);
    assert_eq!(done, replies[0]);
    assert_eq!(b"v", &replies[1].1[..]);
    assert_eq!((&MemcachedReply::Miss, &MemcachedReply::Done), (&replies[2].0, &replies[3].0));
}

#[test]
fn both_protocols_have_the_same_effect() {
    let server = Server::start();
    for protocol in [MemcachedProtocol::Meta, MemcachedProtocol::Binary] {
        let mut it = server.connect(protocol);
        let (a, b, n) =
            (key(&format!("a{protocol:?}")), key(&format!("b{protocol:?}")), key(&format!("n{protocol:?}")));
        let done = (MemcachedReply::Done, Vec::new());
        assert_eq!(done, it.fetch(&MemcachedRequest::Noop), "{protocol:?}");
        assert_eq!(MemcachedReply::Miss, it.fetch(&get(&a)).0);
        assert_eq!(done, it.fetch(&set(&a, &[b"one\r\nEN\r\n", b"", b"two\0"])));
        let got = it.fetch(&get(&a));
        assert_eq!(b"one\r\nEN\r\ntwo\0", &got.1[..]);
        let cas = hit(&got).cas;
        assert_eq!(
            (7, true, MemcachedLease::None, false),
            (hit(&got).flags, cas > 0, hit(&got).lease, hit(&got).stale)
        );
        assert_eq!(
            got,
            it.fetch(&MemcachedRequest::Get { key: &a, named: false, vivify: None, recache: None })
                .named_as(&got)
        );

        // The last bytes of a value may be sent by whoever has them.
        let value = MemcachedValue { pieces: &[b"head"], behind: b"\r\nthe rest".len() };
        let c = key(&format!("c{protocol:?}"));
        let request =
            MemcachedRequest::Set { key: &c, value, flags: 7, expire: 100, cas: None, stale_if_older: false };
        assert_eq!(MemcachedReply::Done, it.ask_with(&request, b"\r\nthe rest").0);
        assert_eq!(b"head\r\nthe rest", &it.fetch(&get(&c)).1[..]);

        let add =
            |key| MemcachedRequest::Add { key, value: MemcachedValue::of(&[b"three"]), flags: 0, expire: 0 };
        assert_eq!(MemcachedReply::NotStored, it.fetch(&add(&a)).0);
        assert_eq!(done, it.fetch(&add(&b)));
        let swap = |key, cas| MemcachedRequest::Set {
            key,
            value: MemcachedValue::of(&[b"four"]),
            flags: 0,
            expire: 9,
            cas: Some(cas),
            stale_if_older: false,
        };
        assert_eq!(MemcachedReply::Exists, it.fetch(&swap(&a, cas + 1000)).0);
        assert_eq!(done, it.fetch(&swap(&a, cas)));
        assert_eq!(MemcachedReply::NotFound, it.fetch(&swap(&key("nothing"), 5)).0);

        let by = |by, begin| MemcachedRequest::Increment { key: &n, by, begin };
        assert_eq!(MemcachedReply::NotFound, it.fetch(&by(1, None)).0);
        assert_eq!(MemcachedReply::Number(40), it.fetch(&by(5, Some((40, 0)))).0);
        assert_eq!(MemcachedReply::Number(45), it.fetch(&by(5, Some((40, 0)))).0);
        assert_eq!(MemcachedReply::Number(44), it.fetch(&by(u64::MAX, None)).0);
        assert!(matches!(
            it.fetch(&MemcachedRequest::Increment { key: &a, by: 1, begin: None }).0,
            MemcachedReply::Refused(MemcachedRefusal::Client)
        ));

        assert_eq!(done, it.fetch(&MemcachedRequest::Touch { key: &a, expire: u32::MAX }));
        assert_eq!(b"four", &it.fetch(&get(&a)).1[..], "a long time is not a date long ago");
        assert_eq!(
            MemcachedReply::NotFound,
            it.fetch(&MemcachedRequest::Touch { key: &key("nothing"), expire: 9 }).0
        );
        let cas = hit(&it.fetch(&get(&a))).cas;
        let only = |cas| MemcachedRequest::Delete { key: &a, stale: None, cas: Some(cas) };
        assert_eq!(MemcachedReply::Exists, it.fetch(&only(cas + 1000)).0);
        assert_eq!(done, it.fetch(&only(cas)));
        assert_eq!(done, it.fetch(&set(&a, &[b"again"])));
        assert_eq!(done, it.fetch(&MemcachedRequest::Delete { key: &a, stale: None, cas: None }));
        assert_eq!(
            MemcachedReply::NotFound,
            it.fetch(&MemcachedRequest::Delete { key: &a, stale: None, cas: None }).0
        );

        sizes_and_batches(&mut it, &a);
        assert!(it.buffer.is_empty());
    }
}

trait NamedAs {
    fn named_as(self, other: &Self) -> Self;
}

impl NamedAs for (MemcachedReply, Vec<u8>) {
    /// The same without where the value lay, which a reply that names its key has further behind; and without the time
    /// that is left, which goes on.
    fn named_as(mut self, other: &Self) -> Self {
        if let (MemcachedReply::Hit(mine), MemcachedReply::Hit(others)) = (&mut self.0, &other.0) {
            assert_eq!(others.value.len(), mine.value.len());
            (mine.value, mine.ttl) = (others.value.clone(), others.ttl);
        }
        self
    }
}

#[test]
fn one_of_all_requesting_nodes_gets_the_lease() {
    let server = Server::start();
    let (mut a, mut b) = (server.connect(MemcachedProtocol::Meta), server.connect(MemcachedProtocol::Meta));
    let key = key("page");
    let fetch = MemcachedRequest::Get { key: &key, named: true, vivify: Some(30), recache: None };
    let (first, second) = (a.fetch(&fetch), b.fetch(&fetch));
    assert_eq!((MemcachedLease::Won, 0), (hit(&first).lease, first.1.len()));
    assert_eq!((MemcachedLease::Taken, 0), (hit(&second).lease, second.1.len()));
    let fill = MemcachedRequest::Set {
        key: &key,
        value: MemcachedValue::of(&[b"page"]),
        flags: 0,
        expire: 100,
        cas: Some(hit(&first).cas),
        stale_if_older: true,
    };
    assert_eq!(MemcachedReply::Done, a.fetch(&fill).0);
    let filled = b.fetch(&fetch);
    assert_eq!((MemcachedLease::None, &b"page"[..]), (hit(&filled).lease, &filled.1[..]));
    assert!(matches!(hit(&filled).ttl, Ttl::Seconds(90..=100)), "{filled:?}");

    // Stale: one makes it anew, the others are served meanwhile.
    assert_eq!(
        MemcachedReply::Done,
        a.fetch(&MemcachedRequest::Delete { key: &key, stale: Some(50), cas: None }).0
    );
    let (first, second) = (a.fetch(&fetch), b.fetch(&fetch));
    assert_eq!(
        (MemcachedLease::Won, true, &b"page"[..]),
        (hit(&first).lease, hit(&first).stale, &first.1[..])
    );
    assert_eq!(
        (MemcachedLease::Taken, true, &b"page"[..]),
        (hit(&second).lease, hit(&second).stale, &second.1[..])
    );

    // Soon over: the same, before it is stale.
    assert_eq!(MemcachedReply::Done, a.fetch(&set(&key, &[b"page"])).0);
    let fetch = MemcachedRequest::Get { key: &key, named: true, vivify: None, recache: Some(1000) };
    let (first, second) = (a.fetch(&fetch), b.fetch(&fetch));
    assert_eq!((MemcachedLease::Won, false), (hit(&first).lease, hit(&first).stale));
    assert_eq!(MemcachedLease::Taken, hit(&second).lease);
    // For ever.
    assert_eq!(
        MemcachedReply::Done,
        a.fetch(&MemcachedRequest::Set {
            key: &key,
            value: MemcachedValue::default(),
            flags: 0,
            expire: 0,
            cas: None,
            stale_if_older: false
        })
        .0
    );
    assert_eq!((Ttl::Never, 0..0), {
        let it = a.fetch(&fetch);
        (hit(&it).ttl, 0..it.1.len())
    });
}

#[test]
fn a_server_of_the_other_protocol_is_noticed() {
    let server = Server::start();
    let mut it = server.connect(MemcachedProtocol::Meta);
    it.socket.write_all(b"mx nothing\r\n").unwrap();
    assert_eq!(
        MemcachedReply::Refused(MemcachedRefusal::UnknownCommand),
        it.reply(&MemcachedRequest::Noop, 0).0
    );
    assert!(MemcachedRefusal::UnknownCommand.closes() && !MemcachedRefusal::TooLarge.closes());
    let noop = |protocol: MemcachedProtocol, bytes: &[u8]| {
        protocol.parse(bytes, &Expected { opaque: 0, kind: ReplyKind::Noop, key: None, most: 0 })
    };
    assert_eq!(Err(BadReply::Foreign), noop(MemcachedProtocol::Meta, b"\x81\0"));
    assert_eq!(Err(BadReply::Foreign), noop(MemcachedProtocol::Binary, b"ERROR\r\n"));
    assert_eq!(Err(BadReply::Foreign), noop(MemcachedProtocol::Meta, b"HTTP/1.1 200 OK\r\n"));
}

#[track_caller]
fn check_meta(kind: ReplyKind, expect: Result<ParsedReply, BadReply>, raw: &[u8]) {
    let key = key("k");
    let key = (kind == ReplyKind::Get).then_some(&key);
    let expected = Expected { opaque: 5, kind, key, most: 10 };
    assert_eq!(expect, MemcachedProtocol::Meta.parse(raw, &expected), "{:?}", String::from_utf8_lossy(raw));
}

#[test]
fn meta_replies_that_do_not_fit_end_the_connection() {
    let hit =
        Hit { value: 12..14, flags: 0, cas: 0, ttl: Ttl::Unknown, lease: MemcachedLease::None, stale: false };
    check_meta(
        ReplyKind::Get,
        Ok(ParsedReply::Reply(MemcachedReply::Hit(hit), 16)),
        b"VA 2 O5 kk\r\nab\r\nmore",
    );
    check_meta(ReplyKind::Get, Ok(ParsedReply::More(16)), b"VA 2 O5 kk\r\nab\r");
    check_meta(ReplyKind::Get, Ok(ParsedReply::More(12)), b"VA 2 O5 kk\r");
    check_meta(ReplyKind::Get, Ok(ParsedReply::More(1)), b"");
    check_meta(ReplyKind::Get, Err(BadReply::Opaque), b"VA 2 O6 kk\r\nab\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Opaque), b"VA 2 kk\r\nab\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Opaque), b"VA 2 O5 O6 kk\r\nab\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Key), b"VA 2 O5 kK\r\nab\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Key), b"VA 2 O5\r\nab\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::TooLarge), b"VA 11 O5 kk\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Number), b"VA -1 O5 kk\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Number), b"VA 99999999999999999999 O5 kk\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Number), b"VA\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Line), b"VA 2 O5 kk\r\nabc\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Line), b"VA 2 O5 kk\nab\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Line), &[&b"VA 2 "[..], &[b' '; 2000]].concat());
    check_meta(ReplyKind::Get, Err(BadReply::Unexpected), b"HD O5\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Foreign), b"VALUE k 0 2\r\nab\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Foreign), b"X");
    check_meta(ReplyKind::Get, Ok(ParsedReply::Reply(MemcachedReply::Miss, 4)), b"EN\r\n");
    check_meta(ReplyKind::Get, Err(BadReply::Opaque), b"EN O4\r\n");
    check_meta(ReplyKind::Set, Err(BadReply::Opaque), b"HD\r\n");
    check_meta(ReplyKind::Set, Ok(ParsedReply::Reply(MemcachedReply::Done, 7)), b"HD O5\r\n");
    check_meta(ReplyKind::Set, Err(BadReply::Unexpected), b"VA 2 O5\r\nab\r\n");
    check_meta(
        ReplyKind::Increment,
        Ok(ParsedReply::Reply(MemcachedReply::Number(7), 12)),
        b"VA 1 O5\r\n7\r\n",
    );
    check_meta(ReplyKind::Increment, Err(BadReply::Number), b"VA 1 O5\r\nx\r\n");
    check_meta(ReplyKind::Noop, Err(BadReply::Unexpected), b"HD O5\r\n");
    let out = Ok(ParsedReply::Reply(MemcachedReply::Refused(MemcachedRefusal::OutOfMemory), 43));
    check_meta(ReplyKind::Set, out, b"SERVER_ERROR out of memory storing object\r\n");
}

#[track_caller]
fn check_binary(kind: ReplyKind, expect: Result<ParsedReply, BadReply>, raw: &[u8]) {
    let expected = Expected { opaque: 5, kind, key: None, most: 10 };
    assert_eq!(expect, MemcachedProtocol::Binary.parse(raw, &expected), "{raw:?}");
}

/// A reply with opaque 5: opcode, lengths of key and extras, status, length of all, and the rest.
fn binary(opcode: u8, key: u8, extras: u8, status: u8, length: u32, rest: &[u8]) -> Vec<u8> {
    let head = [0x81, opcode, 0, key, extras, 0, 0, status];
    [&head[..], &length.to_be_bytes(), &[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9], rest].concat()
}

#[test]
fn binary_replies_that_do_not_fit_end_the_connection() {
    let hit =
        Hit { value: 28..30, flags: 1, cas: 9, ttl: Ttl::Unknown, lease: MemcachedLease::None, stale: false };
    let whole = binary(0, 0, 4, 0, 6, b"\0\0\0\x01abmore");
    check_binary(ReplyKind::Get, Ok(ParsedReply::Reply(MemcachedReply::Hit(hit), 30)), &whole);
    check_binary(ReplyKind::Get, Ok(ParsedReply::More(30)), &whole[..29]);
    check_binary(ReplyKind::Get, Ok(ParsedReply::More(24)), &whole[..23]);
    check_binary(ReplyKind::Get, Ok(ParsedReply::More(24)), b"");
    check_binary(ReplyKind::Set, Err(BadReply::Unexpected), &whole);
    check_binary(ReplyKind::Get, Err(BadReply::Number), &binary(0, 0, 3, 0, 5, b"\0\0\x01ab"));
    check_binary(ReplyKind::Get, Err(BadReply::Number), &binary(0, 9, 4, 0, 6, b"\0\0\0\x01ab"));
    check_binary(ReplyKind::Get, Err(BadReply::TooLarge), &binary(0, 0, 4, 0, 15, b""));
    check_binary(ReplyKind::Get, Err(BadReply::TooLarge), &binary(0, 0, 4, 0, u32::MAX, b""));
    check_binary(ReplyKind::Get, Err(BadReply::TooLarge), &binary(0, 0, 0, 1, 2000, b""));
    check_binary(ReplyKind::Get, Err(BadReply::Foreign), b"VA");
    let mut other = whole.clone();
    other[15] = 6;
    check_binary(ReplyKind::Get, Err(BadReply::Opaque), &other);
    check_binary(ReplyKind::Increment, Err(BadReply::Number), &binary(5, 0, 0, 0, 4, b"\0\0\0\x01"));
    check_binary(ReplyKind::Noop, Err(BadReply::Unexpected), &binary(10, 0, 0, 1, 0, b""));
    // Found by the fuzzer: a read cannot be answered as a write.
    check_binary(ReplyKind::Get, Err(BadReply::Unexpected), &binary(0, 0, 0, 2, 0, b""));
    let key = key("k");
    let expected = Expected { opaque: 5, kind: ReplyKind::Get, key: Some(&key), most: 10 };
    let other = binary(12, 1, 4, 0, 7, b"\0\0\0\x01Kab");
    assert_eq!(Err(BadReply::Key), MemcachedProtocol::Binary.parse(&other, &expected));
}
