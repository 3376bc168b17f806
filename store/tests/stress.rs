//! Several workers on one store at once: leaders, followers, aborts, removals, purges of every scope, sweeps and
//! evictions. Every read is whole, of one version, and not older than a removal or purge that had returned before.

use bytes::Bytes;
use larder_counters::Counters;
use larder_semantics::expression::Expression;
use larder_semantics::field::FieldList;
use larder_semantics::tags;
use larder_store::fill::{SharedHead, SpentLifetime};
use larder_store::ram::Lookup;
use larder_store::{
    Begin, FillEnd, FillHead, FillReader, FillWriter, PurgeFacts, PurgeRule, PurgeScope, RamSettings, Store,
    Stored, StoredArc, StoredBody, Strength, sample,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const KEYS: usize = 12;
const WORKERS: u64 = 4;
const TURNS: usize = 400;

/// The origin's current answer, and the version below which none may be seen any more.
#[derive(Default)]
struct Page {
    origin: AtomicU64,
    floor: AtomicU64,
}

#[derive(Default)]
struct World {
    pages: [Page; KEYS],
    hits: AtomicU64,
    leads: AtomicU64,
    follows: AtomicU64,
    /// Lookups that found what a purge had left stale or doubted.
    left: AtomicU64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % most
    }
}

/// Words of the body of a page: some fit the heap, some are for the arena.
fn words(page: usize) -> usize {
    100 + page * 1200
}

#[track_caller]
fn check(page: usize, bytes: &[u8], floor: u64) {
    assert_eq!(words(page) * 8, bytes.len(), "whole");
    let first = &bytes[..8];
    assert!(bytes == first.repeat(words(page)), "one version");
    let word = u64::from_ne_bytes(first.try_into().unwrap());
    assert_eq!(page as u64, word % KEYS as u64, "its own page");
    assert!(
        word / KEYS as u64 >= floor,
        "version {} is older than {floor}, which was removed",
        word / KEYS as u64
    );
}

async fn read(mut reader: FillReader) -> (Vec<u8>, FillEnd) {
    let mut all = Vec::new();
    loop {
        match reader.next().await {
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(end) => return (all, end),
        }
        tokio::task::yield_now().await;
    }
}

/// The course of a fetch.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    /// It is kept and stored.
    Store,
    /// It is passed on only.
    Pass,
    /// Its origin goes away in the middle.
    Break,
    /// Its client goes away at once.
    Abort,
}

const MOODS: [Mood; 8] =
    [Mood::Store, Mood::Store, Mood::Store, Mood::Store, Mood::Store, Mood::Pass, Mood::Break, Mood::Abort];

/// Asks the origin, shares the answer, and stores it if the mood is right.
async fn fetch(world: &World, store: &Store, page: usize, mut writer: FillWriter, mood: Mood) {
    let purge_facts = PurgeFacts { tags: [tags::hash(&tag(page))].into(), epoch: store.epoch() };
    tokio::task::yield_now().await;
    let version = world.pages[page].origin.load(SeqCst);
    let word = version * KEYS as u64 + page as u64;
    let body = Bytes::from(word.to_ne_bytes().repeat(words(page)));
    let head = SharedHead {
        status: 200,
        fields: FieldList::new(),
        length: Some(body.len() as u64),
        vary: Vec::new(),
        variant: Box::default(),
        purge_facts: purge_facts.clone(),
        meta: sample::meta(&[]),
        spent: SpentLifetime::No,
    };
    writer.head(FillHead::Shared(Arc::new(head)), mood != Mood::Pass);
    for (n, start) in (0..body.len()).step_by(9_000).enumerate() {
        if mood == Mood::Break && n == 1 {
            return;
        }
        let end = body.len().min(start + 9_000);
        if writer.push(body.slice(start..end), u64::MAX).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    if writer.may_store() {
        keep(store, &writer, purge_facts);
    }
    writer.finish(FillEnd::Complete(None));
}

fn keep(store: &Store, writer: &FillWriter, purge_facts: PurgeFacts) {
    let Ok(body) = store.make_body(&writer.chunks()) else { return };
    std::thread::yield_now(); // Room for a removal.
    let stored = sample::stored(body).with_purge_facts(purge_facts);
    let _ = writer.insert(StoredArc::new(stored), 1);
}

async fn request(world: &World, store: &Store, page: usize, mood: Mood) {
    let key = [page as u8];
    let hash = store.hash(&key);
    let floor = world.pages[page].floor.load(SeqCst);
    let found = store.lookup(hash, &key, 0);
    let fresh = |it: &Stored| !it.meta.lifetime.source.is_ended();
    if let Lookup::Entry(entry) = &found
        && !fresh(&entry.variants[0])
    {
        // As a gateway would: the origin is asked first.
        world.left.fetch_add(1, SeqCst);
    } else if let Lookup::Entry(entry) = found {
        world.hits.fetch_add(1, SeqCst);
        let body = &entry.variants[0].body;
        return match body {
            StoredBody::Heap(bytes) => check(page, bytes, floor),
            StoredBody::Arena(it) | StoredBody::Disk(it) => {
                check(page, it.owner.mapped(it.offset, it.length).unwrap(), floor)
            }
        };
    }
    match store.begin(hash, hash, &key) {
        Begin::Lead(writer, reader) => {
            world.leads.fetch_add(1, SeqCst);
            if mood == Mood::Abort {
                drop(reader);
                return fetch(world, store, page, writer, mood).await;
            }
            let write = fetch(world, store, page, writer, mood);
            if let ((), (all, FillEnd::Complete(_))) = tokio::join!(write, read(reader)) {
                check(page, &all, floor);
            }
        }
        Begin::Follow(mut reader) => {
            world.follows.fetch_add(1, SeqCst);
            if mood == Mood::Abort {
                return;
            }
            reader.head().await;
            if let (all, FillEnd::Complete(_)) = read(reader).await {
                check(page, &all, floor);
            }
        }
        Begin::Full => {}
    }
}

fn tag(page: usize) -> String {
    format!("page-{page}")
}

/// The origin changes, and what is older is removed or purged: in one of many ways.
fn change(world: &World, store: &Store, page: usize, way: u64) {
    let key = [page as u8];
    let scope = match way % 6 {
        0 => Some(PurgeScope::Url(key.into())),
        1 => Some(PurgeScope::Prefix(key.into())),
        2 => Some(PurgeScope::Tag(tag(page).into())),
        3 => {
            let condition = format!("key == \"{}\" && status == 200", char::from(page as u8));
            Some(PurgeScope::Where(Expression::parse(&condition).unwrap()))
        }
        4 => Some(PurgeScope::All),
        _ => None,
    };
    let pages = if scope == Some(PurgeScope::All) { 0..KEYS } else { page..page + 1 };
    let new = |it: &Page| it.origin.fetch_add(1, SeqCst) + 1;
    let versions: Vec<_> = world.pages[pages].iter().map(|it| (it, new(it))).collect();
    match scope {
        Some(scope) => {
            let strength = [Strength::Hard, Strength::Validate, Strength::Soft][(way / 6 % 3) as usize];
            store.purge(PurgeRule { scope, strength, positions: Vec::new() });
        }
        None => drop(store.remove(store.hash(&key), &key)),
    }
    for (page, version) in versions {
        page.floor.fetch_max(version, SeqCst);
    }
}

#[test]
fn no_torn_response_and_none_older_than_a_removal_or_purge_is_read() {
    let settings = RamSettings { budget: 1 << 20, heap_line: 16 * 1024, fills: 100 };
    let counters = Arc::new(Counters::default());
    let store = Store::new(settings, counters.clone()).unwrap();
    let world = World::default();
    std::thread::scope(|scope| {
        for seed in 1..=WORKERS {
            let (store, world) = (&store, &world);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut random = Random(seed * 0x9E37_79B9);
                for _ in 0..TURNS {
                    // Four requests at a time on each worker, of few pages: many meet.
                    let mut next = || (random.below(KEYS as u64) as usize, MOODS[random.below(8) as usize]);
                    let [a, b, c, d] = [next(), next(), next(), next()];
                    runtime.block_on(async {
                        tokio::join!(
                            request(world, store, a.0, a.1),
                            request(world, store, b.0, b.1),
                            request(world, store, c.0, c.1),
                            request(world, store, d.0, d.1),
                        )
                    });
                    if random.below(4) == 0 {
                        change(world, store, random.below(KEYS as u64) as usize, random.below(18));
                    }
                    if random.below(8) == 0 {
                        store.sweep(8);
                    }
                }
            });
        }
    });
    let seen = [&world.hits, &world.leads, &world.follows, &world.left].map(|it| it.load(SeqCst));
    assert!(seen.iter().all(|it| *it > 100), "hits, leads, follows and what purges left: {seen:?}");
    for page in 0..KEYS {
        change(&world, &store, page, 5);
    }
    assert!(store.used() < 64 << 10, "only tables are left: {}", store.used());
}
