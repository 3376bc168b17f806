//! The budget is a promise about memory: resident bytes, the arena's included, while fills churn. Alone in its
//! process, since it measures that process.

use bytes::{Bytes, BytesMut};
use larder_counters::Counters;
use larder_semantics::field::FieldList;
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::stored::Meta;
use larder_stdx::clock::WallTime;
use larder_store::fill::SharedHead;
use larder_store::{Begin, FillEnd, FillHead, Marks, Settings, Store, Stored, sample};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Barrier};

/// As in the binary: see docs/decisions/0020-resident-memory.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc 2: freed pages go back at once.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

const BUDGET: u64 = 32 << 20;

/// The fixed base: what the process may take beside the budget, whatever its size, and what two workers can add
/// between two looks.
const BASE: u64 = larder_store::ram::OUTSIDE + (5 << 20);

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % most
    }
}

/// Resident bytes of this process, mapped shared pages left out, and the pages of its memfd.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = |name: &str| {
        let line = status.lines().find(|it| it.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    };
    let arena = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|it| {
        let path = it.ok()?.path();
        let target = std::fs::read_link(&path).ok()?;
        let is_arena = target.to_string_lossy().contains("larder-arena");
        is_arena.then(|| std::fs::metadata(&path).unwrap().blocks() * 512)
    });
    (line("VmRSS:") - line("RssShmem:"), arena.sum())
}

fn meta() -> Meta {
    Meta {
        status: 200,
        request_time: WallTime(1),
        response_time: WallTime(1),
        date: WallTime(1),
        initial_age: 0,
        lifetime: Lifetime { seconds: 60, source: LifetimeSource::MaxAge },
        must_revalidate: false,
        no_cache: false,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        etag: Some(b"\"0123456789abcdef\""[..].into()),
        last_modified: None,
        vary: Vec::new(),
        partial: None,
    }
}

fn fields() -> FieldList {
    let mut fields = FieldList::new();
    fields.push("Date", "Mon, 01 Jan 2024 00:00:00 GMT");
    fields.push("Content-Type", "text/html; charset=utf-8");
    fields.push("Cache-Control", "max-age=60");
    fields.push("ETag", "\"0123456789abcdef\"");
    fields.shrink();
    fields
}

/// One fill from head to store, its bytes sliced out of a large read buffer as an origin's are.
async fn fill(store: &Store, key: &[u8], length: usize) {
    let hash = store.hash(key);
    let Begin::Lead(mut writer, mut reader) = store.begin(hash, hash, key) else { panic!("alone here") };
    let head = SharedHead {
        status: 200,
        fields: fields(),
        length: Some(length as u64),
        vary: Vec::new(),
        variant: Box::default(),
        marks: Marks::default(),
        meta: meta(),
    };
    writer.head(FillHead::Shared(Arc::new(head)), true);
    let (mut left, mut buffer) = (length, BytesMut::new());
    while left > 0 {
        if buffer.capacity() == 0 {
            buffer.reserve(64 * 1024);
        }
        let take = left.min(buffer.capacity()).min(16 * 1024);
        buffer.resize(take, 7);
        writer.push(buffer.split().freeze(), u64::MAX).await.unwrap();
        reader.next().await.unwrap();
        left -= take;
    }
    if writer.may_store() {
        let body = store.make_body(&writer.chunks()).unwrap();
        let head = Bytes::from_static(b"HTTP/1.1 200 OK\r\n");
        let head = [&head[..], fields().text()].concat().into_boxed_slice();
        let stored = Stored { meta: meta(), head, fields: fields(), ..sample::stored(body) };
        writer.insert(Arc::new(stored), 4).unwrap();
    }
    writer.finish(FillEnd::Complete(None));
}

/// A kind of load: the size of its next body.
type Load = fn(&mut Random) -> u64;

const LOADS: [Load; 5] = [
    |it| it.below(3_000),
    |it| it.below(300),
    |it| it.below(16_000),
    |it| 1 << (8 + it.below(13)),
    |it| 20_000 + it.below(500_000),
];

/// Fills its half of the budget one and a half times over, looking at what is resident beyond `base`.
fn churn(store: &Store, random: &mut Random, base: u64, loads: &[Load]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut bytes, mut minded) = (0, 0);
    loop {
        let length = loads[random.below(loads.len() as u64) as usize](random);
        let key = format!("http://www.example.com/page/{:x}/index.html", random.below(1 << 40));
        runtime.block_on(fill(store, key.as_bytes(), length as usize));
        bytes += length + 1000;
        let enough = bytes > BUDGET * 3 / 4;
        // A timer would do this some times a second: here a second is half a MiB.
        if bytes - minded > 1 << 19 || enough {
            minded = bytes;
            store.mind_memory();
            let (heap, arena) = resident();
            let heap = heap.saturating_sub(base);
            let most = BUDGET + BUDGET / 20 + BASE;
            assert!(heap + arena <= most, "{heap} on the heap and {arena} in the arena, over {most}");
        }
        if enough {
            break;
        }
    }
}

#[test]
fn memory_stays_within_the_budget_while_fills_churn() {
    // SAFETY: sets a number that the allocator reads when it frees pages.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) };
    let settings = Settings { budget: BUDGET, heap_line: 16 * 1024, fills: 100 };
    let (base, _) = resident();
    let store = Store::new(settings, Arc::new(Counters::default())).unwrap();
    let turn = Barrier::new(2);
    let worker = |seed| {
        let mut random = Random(seed);
        // Each load by itself, which is the worst for an allocator, then all of them mixed.
        let each = LOADS.iter().map(std::slice::from_ref);
        for loads in each.chain([&LOADS[..], &LOADS[1..3]]) {
            turn.wait();
            churn(&store, &mut random, base, loads);
            assert!(store.used() <= BUDGET + BUDGET / 100, "{}", store.used());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| worker(0x5EED));
        scope.spawn(|| worker(0xF00D));
    });
    assert!(store.used() > BUDGET / 10 * 9, "the budget is used, too");
}
