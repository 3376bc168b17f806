//! The CPU time of both ends of a hand-over of a million small responses: the sender alone, the receiver alone, and both over a Unix
//! socket. `cargo run --release -p larder-store --example hand_over_time [OBJECTS]`

use larder_semantics::field::{Field, FieldList};
use larder_stdx::clock::{self, precise_micros};
use larder_store::snapshot::StreamVersion;
use larder_store::snapshot::transfer::RamTransfer;
use larder_store::{RamSettings, Store, StoredArc, StoredBody, sample};
use larder_wire::ready_head::ReadyHead;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes of a message of the hand-over.
const PIECE: usize = 256 << 10;

fn main() {
    let objects: usize = std::env::args().nth(1).map_or(1_000_000, |it| it.parse().expect("a number"));
    clock::tick();
    let before = store();
    let body: Vec<u8> = (0..600_usize).map(|it| it.to_le_bytes()[0]).collect();
    (0..objects).for_each(|n| put(&before, n, &body));
    println!("{objects} responses take {} MiB", before.used() >> 20);

    let mut file =
        File::from(rustix::fs::memfd_create("stream", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd"));
    measured("send alone", objects, || send(&before, io::sink()));
    send(&before, &file);
    file.rewind().expect("a seekable file");
    let after = store();
    measured("receive alone", objects, || receive(&after, &file));
    assert_eq!(objects as u64, after.objects());
    measured("free", objects, || drop(after));
    drop(file);
    let (there, here) = UnixStream::pair().expect("a pair");
    let after = store();
    measured("both", objects, || {
        std::thread::scope(|scope| {
            scope.spawn(|| measured("  the sender", objects, || send(&before, there)));
            receive(&after, here);
        });
    });
    assert_eq!(objects as u64, after.objects());
}

fn store() -> Arc<Store> {
    let settings = RamSettings { budget: 8 << 30, heap_line: 16 * 1024, fills: 100 };
    let store = Store::new(settings, Arc::default()).expect("a memfd");
    store.add_overhead(64 << 30);
    store
}

fn send(store: &Arc<Store>, to: impl Write) {
    let transfer = RamTransfer::begin(
        store,
        BufWriter::with_capacity(PIECE, to),
        StreamVersion::default(),
        1,
        None,
        || false,
    )
    .expect("room");
    transfer.end().expect("a receiver");
}

fn receive(store: &Store, from: impl Read) {
    store.receive_ram(BufReader::with_capacity(PIECE, from), 1, None, |_| false).expect("a whole stream");
}

/// Reports the time of `work`, and the CPU time of its thread and of the process, per response.
fn measured(what: &str, objects: usize, work: impl FnOnce() + Send) {
    let timed = || {
        let clocks = [ClockId::ThreadCPUTime, ClockId::ProcessCPUTime];
        let (start, before) = (precise_micros(), clocks.map(cpu_nanos));
        work();
        let (took, after) = (precise_micros() - start, clocks.map(cpu_nanos));
        let [thread, process] = [0, 1].map(|it| (after[it] - before[it]) / objects as u64);
        println!(
            "{what}: {} ms, for each {thread} ns of CPU in its thread, {process} ns in all",
            took / 1000
        );
    };
    std::thread::scope(|scope| {
        std::thread::Builder::new().name(what.into()).spawn_scoped(scope, timed).expect("a thread");
    });
}

fn cpu_nanos(of: ClockId) -> u64 {
    let now = clock_gettime(of);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn put(store: &Store, n: usize, body: &[u8]) {
    let key = format!("http://www.example.com/articles/{n:010}.html");
    let etag = format!("\"{n:x}-5f3a\"");
    let modified = "Mon, 23 Nov 2026 10:00:00 GMT";
    let fields = FieldList::from_fields(&[
        Field { name: "Server", value: b"origin" },
        Field { name: "Date", value: b"Fri, 27 Nov 2026 10:00:00 GMT" },
        Field { name: "Content-Type", value: b"text/html; charset=utf-8" },
        Field { name: "Cache-Control", value: b"public" },
        Field { name: "Last-Modified", value: modified.as_bytes() },
        Field { name: "ETag", value: etag.as_bytes() },
    ]);
    let now = clock::wall();
    let mut meta = sample::meta(&[]);
    (meta.request_time, meta.response_time, meta.date) = (now, now, now);
    meta.lifetime.seconds = 86400;
    meta.etag = Some(etag.as_bytes().into());
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for it in fields.view().iter() {
        head.extend_from_slice(&[it.name.as_bytes(), b": ", it.value, b"\r\n"].concat());
    }
    head.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    let stored =
        larder_store::Stored::new(meta, ReadyHead::new(&head), fields, StoredBody::on_the_heap(&[body]));
    let stored: StoredArc = store.ram_form(stored);
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), stored, 4).expect("room");
}
