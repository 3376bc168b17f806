//! The time for listing a million responses by each sort and with a search, and the cost of hits meanwhile.
//! `cargo run --release -p larder-store --example listing_time [OBJECTS [WHAT]]`

use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::stored::Meta;
use larder_stdx::clock::{WallTime, precise_micros};
use larder_store::StoredArc;
use larder_store::listing::{ListingQuery, ListingSort, Pattern, SortDirection};
use larder_store::ram::Lookup;
use larder_store::{RamSettings, Store, StoredBody, sample};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Keys that are hit all the time.
const HOT: usize = 1000;

/// How many hits are timed together.
const FEW: usize = 10;

/// How often each is listed in a row.
const ROUNDS: usize = 5;

/// How often hits are measured alone and during listings.
const TURNS: usize = 5;

fn main() {
    let objects: usize = std::env::args().nth(1).map_or(1_000_000, |it| it.parse().expect("a number"));
    let settings = RamSettings { budget: 8 << 30, heap_line: 16 * 1024, fills: 100 };
    let store = Store::new(settings, Arc::new(Counters::default())).expect("a memfd");
    // In an order that is not that of their numbers.
    (0..objects).for_each(|n| put(&store, n.wrapping_mul(7_654_321) % objects));
    println!("{objects} responses take {} MiB", store.used() >> 20);
    all(&store, "nobody asks");
    let keys: Vec<String> = (0..HOT).map(key).collect();
    let (stop, beside) = (AtomicBool::new(false), AtomicBool::new(false));
    let [mut alone, mut meanwhile] = std::thread::scope(|scope| {
        let hitting = scope.spawn(|| {
            let mut times = [Vec::new(), Vec::new()];
            while !stop.load(Relaxed) {
                let at = usize::from(beside.load(Relaxed));
                for few in keys.chunks(FEW) {
                    let start = precise_micros();
                    hits(&store, few);
                    times[at].push(precise_micros() - start);
                }
            }
            times
        });
        // By turns, so that whatever else the machine does is in both.
        for _ in 0..TURNS {
            beside.store(false, Relaxed);
            let start = precise_micros();
            while precise_micros() - start < 300_000 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            beside.store(true, Relaxed);
            all(&store, "while hits are served");
        }
        stop.store(true, Relaxed);
        hitting.join().expect("nothing was evicted")
    });
    print_times("hits alone", &mut alone);
    print_times("hits meanwhile", &mut meanwhile);
}

fn print_times(what: &str, times: &mut [u64]) {
    // Nothing was listed meanwhile, or that at once.
    if times.is_empty() {
        return;
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 10_000];
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64 / FEW as f64 * 1000.0;
    println!(
        "{what}: {mean:.0} ns each; {FEW} of them: median {} us, 99 % {} us, 99.9 % {} us, 99.99 % {} us, the slowest {} us",
        at(5000),
        at(9900),
        at(9990),
        at(9999),
        at(10_000)
    );
}

fn all(store: &Store, when: &str) {
    for sort in
        [ListingSort::Key, ListingSort::Size, ListingSort::Age, ListingSort::Hits, ListingSort::Expires]
    {
        for order in [SortDirection::Ascending, SortDirection::Descending] {
            time(store, &format!("{when}: by {sort:?}, {order:?}"), || query(sort, order));
        }
    }
    let found = |text: &str| Pattern::new(text);
    time(store, &format!("{when}: search for a part"), || ListingQuery {
        pattern: found("77777"),
        ..query(ListingSort::Key, SortDirection::Ascending)
    });
    time(store, &format!("{when}: search for a pattern"), || ListingQuery {
        pattern: found("*/articles/*7.html"),
        ..query(ListingSort::Size, SortDirection::Descending)
    });
    time(store, &format!("{when}: search for everything"), || ListingQuery {
        pattern: found("*"),
        ..query(ListingSort::Size, SortDirection::Descending)
    });
    time(store, &format!("{when}: with a tag"), || ListingQuery {
        tag: Some("tag-7".to_owned()),
        ..query(ListingSort::Size, SortDirection::Descending)
    });
}

/// This thread's CPU time in microseconds, independent of other load.
fn own_micros() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split(' ').next().and_then(|it| it.parse::<u64>().ok()).expect("nanoseconds") / 1000
}

fn query(sort: ListingSort, order: SortDirection) -> ListingQuery {
    ListingQuery { pattern: None, tag: None, status: None, sort, order, limit: 100, after: None }
}

fn time(store: &Store, what: &str, query: impl Fn() -> ListingQuery) {
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
    println!("{what}: {wall} us (median; best {}), a core for {core} us by its own thread", walls[0]);
}

fn hits(store: &Store, keys: &[String]) {
    for key in keys {
        let Lookup::Entry(entry) = store.lookup(store.hash(key.as_bytes()), key.as_bytes(), 0) else {
            panic!("nothing was evicted");
        };
        black_box(entry.select(&[], &mut Vec::new()));
        entry.note_hit();
    }
}

fn key(n: usize) -> String {
    format!("http://www.example.com/articles/2024/page-{n:010}.html")
}

fn put(store: &Store, n: usize) {
    let key = key(n);
    let made = WallTime(n as u64);
    let mut stored = sample::stored(StoredBody::Heap(Bytes::from(vec![b'x'; n % 700]).into()));
    stored.meta = Meta { request_time: made, response_time: made, date: made, ..stored.meta };
    let mut fields = stored.fields();
    fields.push("Content-Type", "text/html; charset=utf-8");
    stored.set_head(stored.head.clone(), fields);
    let stored = stored.with_purge_facts(sample::tagged(&format!("tag-{}", n % 100)));
    store.insert(store.hash(key.as_bytes()), key.as_bytes(), StoredArc::new(stored), 4).expect("room");
}
