//! Responses that an application writes into memcached, by `docs/examples/fill.py`, are found and understood; and the
//! worked example of `docs/fleet-envelope.md` is an envelope.

use larder_semantics::policy::Policy;
use larder_store::fleet::keys::FleetKeys;
use larder_wire::envelope::{Envelope, EnvelopeError};
use larder_wire::memcached::{
    Expected, FleetKey, MemcachedProtocol, MemcachedReply, MemcachedRequest, ParsedReply, ReplyKind,
};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A memcached on a Unix socket in a folder of its own; ended when dropped.
struct Memcached {
    process: Child,
    folder: tempfile::TempDir,
}

impl Memcached {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("memcached");
        command.arg("-s").arg(folder.path().join("socket")).args(["-m", "16", "-t", "1", "-u", "root"]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let it =
            Self { process: process.expect("memcached is not installed (Debian package memcached)"), folder };
        // It has no way to say that it listens: asked again and again, for 20 seconds at most.
        for _ in 0..2000 {
            if UnixStream::connect(it.socket()).is_ok() {
                return it;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        panic!("memcached does not listen");
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Runs the example for one page.
    fn fill(&self, key: &str, body: &[u8], more: &[&str]) {
        let page = self.folder.path().join("page");
        std::fs::write(&page, body).unwrap();
        let server = format!("unix:{}", self.socket().display());
        let mut command = Command::new("python3");
        command.arg(root().join("docs/examples/fill.py")).args([&server, key]).arg(page).args(more);
        let done = command.output().expect("python3 is not installed");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// The value under a key, in both protocols.
    fn get(&self, key: &FleetKey) -> Option<Vec<u8>> {
        let mut values = [MemcachedProtocol::Meta, MemcachedProtocol::Binary].map(|it| self.get_by(it, key));
        assert!(values[0] == values[1]);
        values[0].take()
    }

    fn get_by(&self, protocol: MemcachedProtocol, key: &FleetKey) -> Option<Vec<u8>> {
        let mut socket = UnixStream::connect(self.socket()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut out = Vec::new();
        protocol.write(&MemcachedRequest::Get { key, named: true, vivify: None, recache: None }, 9, &mut out);
        socket.write_all(&out).unwrap();
        let expected = Expected { opaque: 9, kind: ReplyKind::Get, key: Some(key), most: 1 << 20 };
        let mut buffer = Vec::new();
        loop {
            match protocol.parse(&buffer, &expected).unwrap() {
                ParsedReply::Reply(MemcachedReply::Hit(hit), _) => return Some(buffer[hit.value].to_vec()),
                ParsedReply::Reply(MemcachedReply::Miss, _) => return None,
                ParsedReply::Reply(other, _) => panic!("{other:?}"),
                ParsedReply::More(_) => {}
            }
            let mut some = [0; 4096];
            let count = socket.read(&mut some).unwrap();
            assert!(count > 0, "memcached closed the connection");
            buffer.extend_from_slice(&some[..count]);
        }
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn an_item_written_by_the_example_is_read() {
    let memcached = Memcached::start();
    let long = format!("http://example.com/{}", "x".repeat(300));
    let with_header = "http://example.com/ h:x-device=phone";
    let cases: [(&str, FleetKeys, &[&str]); 6] = [
        ("http://example.com/a?b=c", FleetKeys::default(), &[]),
        (&long, FleetKeys::default(), &[]),
        (with_header, FleetKeys::default(), &[]),
        ("http://example.com/#a", FleetKeys::default(), &[]),
        ("https://example.com/a", FleetKeys::new("app:", None, false).unwrap(), &["--prefix", "app:"]),
        (
            "https://example.com:8443/a",
            FleetKeys::new("p-", Some("shop"), false).unwrap(),
            &["--namespace", "shop", "--prefix", "p-"],
        ),
    ];
    let body: Vec<u8> = (0..=255).cycle().take(3000).collect();
    for (key, keys, more) in cases {
        memcached.fill(key, &body, &[more, &["--max-age", "120", "--type", "image/png"]].concat());
        let value = memcached.get(&keys.key(key.as_bytes())).expect(key);
        assert_eq!(Err(EnvelopeError::NoFacts), Envelope::read(&value));
        let now = larder_stdx::clock::wall();
        let (envelope, length) = Envelope::read_filled(&value, &Policy::default(), now).unwrap();
        assert_eq!(*keys.full(key.as_bytes()), *envelope.key);
        assert_eq!(Ok(()), envelope.body.check(&value[length..]));
        assert!(value[length..] == body, "{key}");
        assert_eq!((200, 120), (envelope.meta.status, envelope.meta.lifetime.seconds));
        assert!(envelope.meta.age(now) <= 60, "its Date is now");
        assert_eq!(Some(&b"image/png"[..]), envelope.fields.get("content-type"));
    }
}

/// Every two hexadecimal digits of the block below a heading.
fn example(text: &str) -> Vec<u8> {
    let block = text.split("## An example").nth(1).unwrap().split("```").nth(1).unwrap();
    let line = |it: &str| it.split("  ").next().unwrap_or_default().to_owned();
    let digits: String = block.lines().skip(1).map(line).collect::<String>().split_whitespace().collect();
    digits
        .as_bytes()
        .chunks(2)
        .map(|it| u8::from_str_radix(std::str::from_utf8(it).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn the_worked_example_of_the_manual_is_an_envelope() {
    let text = std::fs::read_to_string(root().join("docs/fleet-envelope.md")).unwrap();
    let raw = example(&text);
    let now = larder_stdx::clock::WallTime(1_700_000_031);
    let (envelope, length) = Envelope::read_filled(&raw, &Policy::default(), now).unwrap();
    assert_eq!(b"http://example.com/", &*envelope.key);
    assert_eq!((200, 60, 30), (envelope.meta.status, envelope.meta.lifetime.seconds, envelope.meta.age(now)));
    assert_eq!(Ok(()), envelope.body.check(&raw[length..]));
    assert_eq!(b"Hello\n", &raw[length..]);
}
