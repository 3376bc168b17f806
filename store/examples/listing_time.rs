//! How long it takes to list a million responses by each sort and with a search, and what hits cost meanwhile.
//! `cargo run --release -p larder-store --example listing_time [OBJECTS [WHAT]]`

use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::field::FieldList;
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::stored::Meta;
use larder_semantics::tags;
use larder_stdx::clock::{WallTime, precise_micros};
use larder_store::listing::{Order, Pattern, Query, Sort};
use larder_store::ram::Lookup;
use larder_store::{Body, Born, Marks, Settings, Store, Stored};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keys that are hit all the time.
const HOT: usize = 1000;

/// How often each is listed.
const ROUNDS: usize = 7;

fn main() {
    let objects: usize = std::env::args().nth(1).map_or(1_000_000, |it| it.parse().expect("a number"));
    let settings = Settings { budget: 8 << 30, heap_line: 16 * 1024, fills: 100 };
    let store = Store::new(settings, Arc::new(Counters::default())).expect("a memfd");
    // In an order that is not that of their numbers.
    (0..objects).for_each(|n| put(&store, n.wrapping_mul(7_654_321) % objects));
    println!("{objects} responses take {} MiB", store.used() >> 20);
    all(&store, "nobody asks");
    let keys: Vec<String> = (0..HOT).map(key).collect();
    let (stop, worst, rounds) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let start = precise_micros();
                hits(&store, &keys);
                worst.fetch_max(precise_micros() - start, Relaxed);
                rounds.fetch_add(1, Relaxed);
            }
        });
        let report = |what: &str, took: u64| {
            let (rounds, worst) = (rounds.swap(0, Relaxed), worst.swap(0, Relaxed));
            let each = took as f64 / rounds.max(1) as f64 / HOT as f64 * 1000.0;
            println!("{what}: hits {each:.0} ns each, the slowest thousand {worst} us");
        };
        let start = precise_micros();
        while precise_micros() - start < 500_000 {
            std::thread::yield_now();
        }
        report("hits alone", precise_micros() - start);
        let start = precise_micros();
        all(&store, "while hits are served");
        report("meanwhile", precise_micros() - start);
        stop.store(true, Relaxed);
    });
}

fn all(store: &Store, when: &str) {
    for sort in [Sort::Key, Sort::Size, Sort::Age, Sort::Hits, Sort::Expires] {
        for order in [Order::Ascending, Order::Descending] {
            time(store, &format!("{when}: by {sort:?}, {order:?}"), || query(sort, order));
        }
    }
    let found = |text: &str| Some(Pattern::new(text));
    time(store, &format!("{when}: search for a part"), || Query {
        pattern: found("77777"),
        ..query(Sort::Key, Order::Ascending)
    });
    time(store, &format!("{when}: search for a pattern"), || Query {
        pattern: found("*/articles/*7.html"),
        ..query(Sort::Size, Order::Descending)
    });
    time(store, &format!("{when}: with a tag"), || Query {
        tag: Some("tag-7".to_owned()),
        ..query(Sort::Size, Order::Descending)
    });
}

/// Microseconds that this thread has had of a processor: whatever else the machine has to do.
fn own_micros() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split(' ').next().and_then(|it| it.parse::<u64>().ok()).expect("nanoseconds") / 1000
}

fn query(sort: Sort, order: Order) -> Query {
    Query { pattern: None, tag: None, status: None, sort, order, limit: 100, after: None }
}

fn time(store: &Store, what: &str, query: impl Fn() -> Query) {
    if std::env::args().nth(2).is_some_and(|only| !what.contains(&only)) {
        return;
    }
    let (mut walls, mut cores): (Vec<u64>, Vec<u64>) = (0..ROUNDS)
        .map(|_| {
            let query = query();
            let (start, core) = (precise_micros(), own_micros());
            black_box(store.list(&query).matched);
            (precise_micros() - start, own_micros() - core)
        })
        .unzip();
    walls.sort_unstable();
    cores.sort_unstable();
    let (wall, core) = (walls[ROUNDS / 2], cores[ROUNDS / 2]);
    println!("{what}: {wall} us (median; best {}), a core for {core} us by one thread of two", walls[0]);
}

fn hits(store: &Store, keys: &[String]) {
    for key in keys {
        let Lookup::Shelf(shelf) = store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0) else {
            panic!("nothing was evicted");
        };
        black_box(shelf.select(&[], &mut Vec::new()));
        shelf.note_hit();
    }
}

fn key(n: usize) -> String {
    format!("http://www.example.com/articles/2024/page-{n:010}.html")
}

fn put(store: &Store, n: usize) {
    let key = key(n);
    let meta = Meta {
        status: 200,
        request_time: WallTime(n as u64),
        response_time: WallTime(n as u64),
        date: WallTime(n as u64),
        initial_age: 0,
        lifetime: Lifetime { seconds: 60, source: LifetimeSource::MaxAge },
        must_revalidate: false,
        no_cache: false,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        etag: None,
        last_modified: None,
        vary: Vec::new(),
        partial: None,
    };
    let mut fields = FieldList::new();
    fields.push("Content-Type", "text/html; charset=utf-8");
    fields.push("ETag", "\"some-tag\"");
    let stored = Stored {
        meta,
        head: b"HTTP/1.1 200 OK\r\n"[..].into(),
        fields,
        trailers: None,
        body: Body::Heap(Bytes::from(vec![b'x'; n % 700])),
        variant: Box::default(),
        marks: Marks { tags: [tags::hash(&format!("tag-{}", n % 100))].into(), born: Born::default() },
        recheck: AtomicU64::new(u64::MAX),
        on_disk: Default::default(),
        forms: None,
    };
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), Arc::new(stored), 4).expect("room");
}
