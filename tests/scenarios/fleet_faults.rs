//! Failures of memcached: right bytes, no error, no long wait, and it is used again once it is healthy.

use super::super::harness::tiers::{binary, fleet, of_size};
use super::super::harness::{Larder, Memcached, Origin, until};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// The timeout of operations, with which a busy machine does not pass for a failed server.
const TIMEOUT: &str = "timeout = \"500ms\"";

/// A larder whose fleet is this memcached.
fn before(origin: &Origin, memcached: &Memcached) -> Larder {
    Larder::before_with(origin, "", &fleet(&[memcached], TIMEOUT))
}

/// GETs a page for the first time, and returns how long that took.
#[allow(clippy::disallowed_methods, reason = "what clients wait is measured in real time")]
#[track_caller]
fn right(larder: &Larder, length: usize) -> Duration {
    let start = Instant::now();
    let found = larder.get(&format!("/{length}"));
    let took = start.elapsed();
    assert_eq!(200, found.status);
    assert!(found.complete && found.body == binary(length), "/{length}");
    took
}

/// No request waits for anything but the timeout of some operations: the next longer wait takes ten seconds.
#[track_caller]
fn patient(waits: &[Duration]) {
    assert!(waits.iter().all(|it| *it < Duration::from_secs(9)), "{waits:?}");
}

/// It is used again at the first request after `retry`, and keeps what is written to it.
#[track_caller]
fn used_again(larder: &Larder, memcached: &Memcached, from: usize) {
    let before = larder.counter("fleet_puts");
    let mut length = from;
    larder.advance(6);
    until("it is used again", || {
        length += 1;
        right(larder, length);
        larder.counter("fleet_puts") > before
    });
    assert!(!memcached.keys().is_empty());
    assert_eq!(1, larder.counter("fleet_readmissions"));
}

#[test]
fn a_hanging_server_is_ejected_and_readmitted() {
    let (memcached, origin) = (Memcached::start(), of_size());
    let larder = before(&origin, &memcached);
    right(&larder, 1000);
    memcached.stop();
    let waits: Vec<Duration> = (1..30).map(|it| right(&larder, 2000 + it)).collect();
    patient(&waits);
    until("it is left out", || larder.counter("fleet_ejections") == 1);
    memcached.go_on();
    used_again(&larder, &memcached, 3000);
}

#[test]
fn a_killed_server_is_ejected_and_readmitted() {
    let (mut memcached, origin) = (Memcached::start(), of_size());
    let larder = before(&origin, &memcached);
    right(&larder, 1000);
    memcached.kill();
    let waits: Vec<Duration> = (1..30).map(|it| right(&larder, 2000 + it)).collect();
    patient(&waits);
    until("it is left out", || larder.counter("fleet_ejections") == 1);
    memcached.start_again();
    used_again(&larder, &memcached, 3000);
}

#[test]
fn a_flapping_server_fails_no_request() {
    let (mut memcached, origin) = (Memcached::start(), of_size());
    let larder = before(&origin, &memcached);
    for round in 0..6 {
        memcached.kill();
        let waits: Vec<Duration> = (0..5).map(|it| right(&larder, 1000 + round * 20 + it)).collect();
        patient(&waits);
        memcached.start_again();
        larder.advance(6);
        let waits: Vec<Duration> = (5..10).map(|it| right(&larder, 1000 + round * 20 + it)).collect();
        patient(&waits);
    }
}

#[test]
fn a_full_server_stores_a_part_of_the_pages() {
    let memcached = Memcached::with(&["-m", "2", "-M"]);
    let origin = of_size();
    let larder = before(&origin, &memcached);
    for at in 0..150 {
        right(&larder, 30_000 + at);
    }
    until("it was full", || larder.counter("fleet_puts_failed") > 0);
    assert_eq!(0, larder.counter("fleet_ejections"), "what is full is not broken");
    let fresh = before(&origin, &memcached);
    for at in 0..150 {
        right(&fresh, 30_000 + at);
    }
}

#[test]
fn a_copy_in_ram_stands_while_the_fleet_is_silent() {
    let (memcached, origin) = (Memcached::start(), of_size());
    let larder = before(&origin, &memcached);
    right(&larder, 1000);
    until("it is in the fleet", || larder.counter("fleet_puts") == 1);
    memcached.stop();
    for _ in 0..5 {
        larder.advance(6);
        right(&larder, 1000);
        right(&larder, 1000);
    }
    memcached.go_on();
    assert_eq!(1, origin.requests());
}

/// A server in a memcached's place.
struct Liar {
    folder: tempfile::TempDir,
    connections: std::sync::Arc<AtomicUsize>,
}

impl Liar {
    fn new(lie: impl Fn(&mut UnixStream) + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let connections = std::sync::Arc::new(AtomicUsize::new(0));
        let (counted, lie) = (connections.clone(), std::sync::Arc::new(lie));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, SeqCst);
                let lie = lie.clone();
                std::thread::spawn(move || lie(&mut stream));
            }
        });
        Self { folder, connections }
    }

    fn section(&self) -> String {
        let socket = self.folder.path().join("socket");
        format!("[cache.fleet]\nservers = [\"unix:{}\"]\npurge_log = false\n{TIMEOUT}\n", socket.display())
    }
}

/// Answers whatever comes with the same bytes.
fn parrot(says: &'static [u8]) -> Liar {
    Liar::new(move |stream| {
        let mut chunk = [0; 65536];
        while stream.read(&mut chunk).is_ok_and(|it| it > 0) {
            if stream.write_all(says).is_err() {
                return;
            }
        }
    })
}

#[test]
fn liars_are_not_believed() {
    let liars: [(&str, Liar); 10] = [
        ("closes", Liar::new(|_| ())),
        ("says nothing", parrot(b"")),
        ("garbage", parrot(b"\0\xff\r\n\r\ngarbage")),
        ("another protocol", parrot(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")),
        ("always stored", parrot(b"HD\r\n")),
        ("never there", parrot(b"EN\r\n")),
        ("a value without its end", parrot(b"VA 1000 f0 c1 t60\r\n<h1>defaced")),
        ("a value of nobody's", parrot(b"VA 16 f0 c1 t60\r\n<h1>defaced</h1>\r\n")),
        ("out of memory", parrot(b"SERVER_ERROR out of memory storing object\r\n")),
        (
            "drips",
            Liar::new(|stream| {
                let mut chunk = [0; 65536];
                let _ = stream.read(&mut chunk);
                for byte in b"VA 100000 f0 c1 t60\r\n".iter().cycle() {
                    if stream.write_all(&[*byte]).is_err() {
                        return;
                    }
                    std::thread::park_timeout(Duration::from_millis(20));
                }
            }),
        ),
    ];
    let origin = of_size();
    for (name, liar) in liars {
        let larder = Larder::before_with(&origin, "", &liar.section());
        let waits: Vec<Duration> = (0..12).map(|it| right(&larder, 1000 + it)).collect();
        patient(&waits);
        for at in 0..12 {
            assert!(larder.get(&format!("/{}", 1000 + at)).is_hit(), "{name}: RAM goes on");
        }
        assert!(liar.connections.load(SeqCst) > 0, "{name} was asked");
        assert_eq!(0, larder.counter("cache_hits_fleet"), "{name}");
    }
}
