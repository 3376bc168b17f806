//! The fill: sharing, keeping, windows, privacy, removal, and every interleaving of a writer with its readers.

use super::*;
use crate::purges::PurgeFacts;
use crate::ram::{Lookup, RamSettings};
use crate::sample::{meta, plain, store, text};
use larder_semantics::field::FieldList;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[path = "tests/crowds.rs"]
mod crowds;
#[path = "tests/spooling.rs"]
mod spooling;

const MOST: u64 = u64::MAX;

fn shared() -> FillHead {
    FillHead::Shared(Arc::new(head()))
}

fn head() -> SharedHead {
    let fields = FieldList::new();
    SharedHead {
        status: 200,
        fields,
        length: None,
        vary: Vec::new(),
        variant: Box::default(),
        meta: meta(&[]),
        purge_facts: PurgeFacts::default(),
        spent: SpentLifetime::No,
    }
}

fn begin(store: &Store, key: &[u8]) -> Begin {
    let hash = store.hash(key);
    store.begin(hash, hash, key)
}

#[track_caller]
fn lead(store: &Store, key: &[u8]) -> (FillWriter, FillReader) {
    match begin(store, key) {
        Begin::Lead(writer, reader) => (writer, reader),
        _ => panic!("somebody leads already"),
    }
}

#[track_caller]
fn follow(store: &Store, key: &[u8]) -> FillReader {
    match begin(store, key) {
        Begin::Follow(reader) => reader,
        _ => panic!("there is nothing to follow"),
    }
}

/// A future's result at its first poll; `None` where it waits.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// The runtime with its timers.
fn clock() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

#[track_caller]
fn push(writer: &mut FillWriter, bytes: &[u8]) {
    now(writer.push(Bytes::copy_from_slice(bytes), MOST)).expect("has room").unwrap();
}

/// All that a reader can have now, and how it ended if it did.
fn drain(reader: &mut FillReader) -> (Vec<u8>, Option<FillEnd>) {
    let mut all = Vec::new();
    loop {
        match now(reader.next()) {
            None => return (all, None),
            Some(Ok(bytes)) => all.extend_from_slice(&bytes),
            Some(Err(end)) => return (all, Some(end)),
        }
    }
}

#[test]
fn followers_read_while_it_arrives() {
    let store = store(8 << 20);
    let empty = store.used();
    let (mut writer, mut leader) = lead(&store, b"k");
    let mut early = follow(&store, b"k");
    assert!(now(early.head()).is_none());
    writer.head(shared(), true);
    assert!(matches!(now(early.head()), Some(FillHead::Shared(_))));
    push(&mut writer, b"one ");
    assert_eq!(b"one ".to_vec(), drain(&mut early).0);
    push(&mut writer, b"two");
    let mut late = follow(&store, b"k");
    assert_eq!(3, writer.readers());
    assert_eq!(b"one two".to_vec(), drain(&mut late).0);
    assert!(writer.may_store());
    assert_eq!(b"one two".to_vec(), writer.chunks().concat());
    writer.finish(FillEnd::Complete(None));
    assert!(matches!(drain(&mut early), (rest, Some(FillEnd::Complete(None))) if rest == b"two"));
    assert!(matches!(drain(&mut leader), (all, Some(FillEnd::Complete(None))) if all == b"one two"));
    drop((early, leader, late));
    assert_eq!((empty, 0), (store.used(), store.in_flight.len()));
}

#[test]
fn a_dead_writer_is_seen() {
    let store = store(8 << 20);
    let (writer, mut reader) = lead(&store, b"k");
    drop(writer);
    assert!(matches!(now(reader.head()), Some(FillHead::Failed(502))));
    assert!(matches!(drain(&mut reader).1, Some(FillEnd::Failed)));
    let (mut writer, mut reader) = lead(&store, b"k");
    writer.head(shared(), true);
    push(&mut writer, b"half");
    drop(writer);
    assert!(matches!(drain(&mut reader), (half, Some(FillEnd::Failed)) if half == b"half"));
    lead(&store, b"k");
}

#[test]
fn a_private_body_is_for_its_leader() {
    let store = store(8 << 20);
    let (mut writer, mut leader) = lead(&store, b"k");
    let mut follower = follow(&store, b"k");
    writer.head(FillHead::Private(Arc::new(head())), true);
    assert!(matches!(begin(&store, b"k"), Begin::Lead(..)), "nobody joins it");
    assert!(matches!(now(follower.head()), Some(FillHead::Private(_))));
    push(&mut writer, b"secret");
    assert!(matches!(drain(&mut follower), (none, Some(FillEnd::Failed)) if none.is_empty()));
    assert_eq!(1, writer.readers());
    assert_eq!(b"secret".to_vec(), drain(&mut leader).0);
    assert!(!writer.may_store());
    drop(follower);
    drop(leader);
    assert_eq!(Some(Err(Abandoned)), now(writer.push(Bytes::from_static(b"more"), MOST)));
}

#[test]
fn no_more_is_fetched_for_a_lone_reader_than_it_lets_lie() {
    let store = store(8 << 20);
    let (mut writer, mut reader) = lead(&store, b"k");
    writer.head(FillHead::Private(Arc::new(head())), false);
    let step = |writer: &mut FillWriter| {
        let is_wanted = now(writer.wanted()).is_some();
        if is_wanted {
            push(writer, &[7; PIECE as usize]);
        }
        is_wanted
    };
    assert!(step(&mut writer), "the beginning");
    assert!(!step(&mut writer), "nobody has asked for it");
    reader.set_read_ahead(0);
    now(reader.next()).unwrap().unwrap();
    assert!(!step(&mut writer), "it may have been all that its client takes");
    assert!(now(reader.next()).is_none() && step(&mut writer), "it waits");
    reader.set_read_ahead(u64::MAX);
    now(reader.next()).unwrap().unwrap();
    assert_eq!(WINDOW / PIECE, (0..10).filter(|_| step(&mut writer)).count() as u64);
    drop(reader);
    assert_eq!(Some(Err(Abandoned)), now(writer.wanted()));
    // Where others read as well, or all is kept, the writer is no lone reader's.
    let (mut writer, mut reader) = lead(&store, b"s");
    writer.head(shared(), true);
    reader.set_read_ahead(0);
    assert_eq!(10, (0..10).filter(|_| step(&mut writer)).count());
    drop(reader);
    assert!(step(&mut writer));
}

/// Many clients that take nothing: once what lies here for all of them is much, no more is fetched for any.
#[test]
fn a_full_fill_budget_limits_read_ahead_to_the_bytes_taken() {
    let store = store(8 << 20);
    let private = || FillHead::Private(Arc::new(head()));
    let mut all: Vec<_> = (0..100_u8).map(|it| lead(&store, &[it])).collect();
    for (writer, reader) in &mut all {
        writer.head(private(), false);
        reader.set_read_ahead(u64::MAX);
        while now(writer.wanted()).is_some() {
            push(writer, &[7; PIECE as usize]);
            reader.set_read_ahead(u64::MAX);
            if writer.fill.state.lock().length == PIECE {
                now(reader.next()).unwrap().unwrap();
            }
        }
    }
    let held = store.budget.fills.get();
    assert!((1 << 20..(1 << 20) + 2 * WINDOW).contains(&held), "an eighth and what was on its way: {held}");
    let (writer, reader) = &mut all[99];
    assert!(now(reader.next()).is_none() && now(writer.wanted()).is_some(), "who waits for more has it");
}

#[test]
fn look_again_and_failed_end_the_company() {
    for head in [FillHead::StoreChanged, FillHead::Failed(504), FillHead::Unreachable(502)] {
        let store = store(8 << 20);
        let (mut writer, _reader) = lead(&store, b"k");
        let mut follower = follow(&store, b"k");
        let kind = std::mem::discriminant(&head);
        writer.head(head, false);
        assert!(matches!(begin(&store, b"k"), Begin::Lead(..)));
        assert!(matches!(now(follower.head()), Some(now) if std::mem::discriminant(&now) == kind));
    }
}

#[test]
fn a_follow_without_a_fill_begins_none() {
    let store = store(8 << 20);
    let empty = store.used();
    let hash = store.hash(b"k");
    let try_to = || store.follow(hash, hash, b"k");
    assert!(try_to().is_none());
    assert_eq!((empty, 0), (store.used(), store.in_flight.len()));
    let (mut writer, leader) = lead(&store, b"k");
    let mut early = try_to().unwrap();
    assert!(store.follow(hash, hash, b"other").is_none(), "another key of the same hash");
    writer.head(shared(), true);
    push(&mut writer, b"one");
    assert_eq!((3, b"one".to_vec()), (early.arrived(), drain(&mut early).0));
    let mut late = try_to().unwrap();
    assert_eq!((3, b"one".to_vec()), (writer.readers(), drain(&mut late).0));
    store.remove(hash, b"k");
    assert!(try_to().is_none(), "what was removed is not joined");
    writer.finish(FillEnd::Complete(None));
    drop((early, leader, late));
    assert_eq!((empty, 0), (store.used(), store.in_flight.len()));
}

#[test]
fn a_fill_that_is_not_stored_waits_for_its_slowest_reader() {
    let clock = clock();
    let _within = clock.enter();
    let store = store(8 << 20);
    let empty = store.used();
    let (mut writer, mut reader) = lead(&store, b"k");
    let mut slow = follow(&store, b"k");
    writer.head(shared(), false);
    for _ in 0..WINDOW / 65536 {
        push(&mut writer, &[7; 65536]);
    }
    assert_eq!(WINDOW as usize, drain(&mut reader).0.len());
    assert_eq!(None, now(writer.push(Bytes::from(vec![7; 65536]), MOST)), "the slow one is a window behind");
    now(slow.next()).unwrap().unwrap();
    push(&mut writer, &[8; 65536]);
    assert!(store.used() - empty < WINDOW + 65536);
    assert_eq!(None, now(writer.push(Bytes::from(vec![7; 65536]), MOST)));
    drop(slow);
    push(&mut writer, &[9; 65536]);
    assert_eq!(2 * 65536, drain(&mut reader).0.len());
    drop(reader);
    assert_eq!(Some(Err(Abandoned)), now(writer.push(Bytes::from_static(b"x"), MOST)));
    drop(writer);
    assert_eq!(empty, store.used());
}

/// The window is full, the fast reader has read all of it, and the slow one stands at `slow`.
async fn one_lags(store: &Store, read: usize) -> (FillWriter, FillReader, FillReader) {
    let (mut writer, mut fast) = lead(store, b"k");
    let mut slow = follow(store, b"k");
    writer.head(shared(), false);
    for _ in 0..WINDOW / 65536 {
        push(&mut writer, &[7; 65536]);
    }
    drain(&mut fast);
    for _ in 0..read {
        now(slow.next()).unwrap().unwrap();
        push(&mut writer, &[7; 65536]);
        drain(&mut fast);
    }
    (writer, fast, slow)
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_delays_other_readers_is_left_behind() {
    let store = store(8 << 20);
    let empty = store.used();
    let (mut writer, mut fast, mut slow) = one_lags(&store, 1).await;
    let begun = tokio::time::Instant::now();
    writer.push(Bytes::from(vec![8; 65536]), MOST).await.unwrap();
    assert_eq!(HELD, begun.elapsed());
    assert_eq!((1, 1), (writer.readers(), store.counters.fill_laggards.get()));
    assert_eq!(65536, drain(&mut fast).0.len());
    assert!(matches!(now(slow.next()), Some(Err(FillEnd::LeftBehind))));
    drop(slow);
    drop(fast);
    assert_eq!(Some(Err(Abandoned)), now(writer.push(Bytes::from_static(b"x"), MOST)));
    drop(writer);
    assert_eq!(empty, store.used());
}

/// How long others wait in all, as `slow_reader` has it.
const HELD: Duration = Duration::from_millis(500);

/// A chunk of the long bodies here.
const CHUNK: usize = 65536;

/// Reads to the end, with a rest behind every `burst` bytes; how much it had, how it ended, and how long that took.
async fn walk(mut reader: FillReader, burst: usize, rest: Duration) -> (usize, FillEnd, Duration) {
    let begun = tokio::time::Instant::now();
    let mut length = 0;
    loop {
        match reader.next().await {
            Ok(bytes) => length += bytes.len(),
            Err(end) => return (length, end, begun.elapsed()),
        }
        if length % burst == 0 {
            tokio::time::sleep(rest).await;
        }
    }
}

async fn pour(mut writer: FillWriter, chunks: usize) {
    for _ in 0..chunks {
        writer.push(Bytes::from(vec![8; CHUNK]), MOST).await.unwrap();
    }
    writer.finish(FillEnd::Complete(None));
}

/// Whether they do not move, or move at a walk, and however many: the fast one loses half a second, and has everything.
#[tokio::test(start_paused = true)]
async fn slow_readers_delay_other_readers_by_half_a_second_in_all() {
    const CHUNKS: usize = 256;
    for rests in [vec![u64::MAX / 2], vec![100], vec![20, 21], (1..=20).map(|it| it * 7).collect()] {
        let store = store(8 << 20);
        let empty = store.used();
        let (mut writer, fast) = lead(&store, b"k");
        let slow: Vec<_> = rests.iter().map(|_| follow(&store, b"k")).collect();
        writer.head(shared(), false);
        let walks =
            slow.into_iter().zip(&rests).map(|(it, rest)| walk(it, CHUNK, Duration::from_millis(*rest)));
        let walks: Vec<_> = walks.map(|it| tokio::time::timeout(Duration::from_secs(3600), it)).collect();
        let ((), fast, walked) =
            tokio::join!(pour(writer, CHUNKS), walk(fast, usize::MAX, Duration::ZERO), join_all(walks));
        assert!(matches!(fast, (length, FillEnd::Complete(None), _) if length == CHUNKS * CHUNK));
        assert!(fast.2 <= HELD + Duration::from_millis(1), "{rests:?}: {:?}", fast.2);
        for it in walked.iter().flatten() {
            assert!(
                matches!(it, (length, FillEnd::LeftBehind, _) if *length < CHUNKS * CHUNK),
                "{rests:?} {it:?}"
            );
        }
        assert_eq!(rests.len() as u64, store.counters.fill_laggards.get(), "{rests:?}");
        assert_eq!(empty, store.used());
    }
}

/// All of them, each polled in turn.
async fn join_all<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|it| it.1.is_none()) {
            if let Poll::Ready(out) = future.as_mut().poll(context) {
                *done = Some(out);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Two that read at the same pace, each in bursts of its own, are not parted where RAM has room between them.
#[tokio::test(start_paused = true)]
async fn a_reader_that_keeps_pace_in_bursts_is_not_left_behind() {
    const CHUNKS: usize = 1024;
    for (budget, laggards) in [(256 << 20, 0), (16 << 20, 1)] {
        let store = store(budget);
        let empty = store.used();
        let (mut writer, one) = lead(&store, b"k");
        let other = follow(&store, b"k");
        writer.head(shared(), false);
        let ((), one, other) = tokio::join!(
            pour(writer, CHUNKS),
            walk(one, 16 * CHUNK, Duration::from_millis(100)),
            walk(other, 40 * CHUNK, Duration::from_millis(250)),
        );
        let whole = [&one, &other].iter().filter(|it| it.0 == CHUNKS * CHUNK).count();
        assert_eq!((2 - laggards, laggards as u64), (whole, store.counters.fill_laggards.get()));
        assert_eq!(empty, store.used());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_that_delays_no_other_is_waited_for() {
    let store = store(8 << 20);
    let hour = Duration::from_secs(3600);
    let (mut writer, reader) = lead(&store, b"alone");
    writer.head(shared(), false);
    for _ in 0..WINDOW / 65536 {
        push(&mut writer, &[7; 65536]);
    }
    assert!(tokio::time::timeout(hour, writer.push(Bytes::from_static(b"x"), MOST)).await.is_err());
    drop(reader);

    // The other is a window ahead, but busy with what it has read.
    let (mut writer, mut ahead) = lead(&store, b"busy");
    let behind = follow(&store, b"busy");
    writer.head(shared(), false);
    for _ in 0..WINDOW / 65536 {
        push(&mut writer, &[7; 65536]);
        now(ahead.next()).unwrap().unwrap();
    }
    let more = Bytes::from(vec![7; 65536]);
    assert!(tokio::time::timeout(hour, writer.push(more.clone(), MOST)).await.is_err());
    assert_eq!(0, store.counters.fill_laggards.get());
    assert!(now(ahead.next()).is_none(), "now it waits");
    writer.push(more, MOST).await.unwrap();
    assert_eq!(1, store.counters.fill_laggards.get());
    drop((ahead, behind));
}

#[test]
fn a_fill_that_exceeds_the_object_limit_continues_as_a_window() {
    let store = store(8 << 20);
    let (mut writer, mut reader) = lead(&store, b"k");
    writer.head(shared(), true);
    now(writer.push(Bytes::from(vec![1; 60_000]), 100_000)).unwrap().unwrap();
    assert!(writer.may_store());
    now(writer.push(Bytes::from(vec![1; 60_000]), 100_000)).unwrap().unwrap();
    assert!(!writer.may_store());
    assert!(matches!(begin(&store, b"k"), Begin::Lead(..)), "nobody joins any more");
    assert_eq!(120_000, drain(&mut reader).0.len(), "but nothing is lost");
    assert_eq!(1, store.counters.cache_object_too_large.get());
    assert!(writer.chunks().is_empty(), "and nothing is held");
}

#[test]
fn a_fill_that_exceeds_the_budget_continues_as_a_window() {
    let store = store(1 << 20);
    let (mut writer, mut reader) = lead(&store, b"k");
    writer.head(shared(), true);
    let mut sent = 0;
    for _ in 0..100 {
        push(&mut writer, &[1; 30_000]);
        sent += drain(&mut reader).0.len();
        assert!(store.used() <= 1 << 20);
    }
    assert_eq!((3_000_000, false), (sent, writer.may_store()));
    assert_eq!(1, store.counters.cache_over_budget.get());
}

#[test]
fn kept_fills_evict_to_make_room_and_do_not_wait_for_readers() {
    let store = store(1 << 20);
    for n in 0..3_000u32 {
        store.insert(store.hash(&n.to_ne_bytes()), &n.to_ne_bytes(), plain(text("x")), 1).unwrap();
    }
    let (mut writer, mut reader) = lead(&store, b"k");
    writer.head(shared(), true);
    for _ in 0..25 {
        push(&mut writer, &[1; 10_000]);
    }
    assert!(writer.may_store() && store.used() <= 1 << 20);
    assert_eq!(250_000, drain(&mut reader).0.len());
}

#[test]
fn a_response_removed_during_its_fill_is_not_stored() {
    let store = store(8 << 20);
    let hash = store.hash(b"k");
    let (mut writer, mut reader) = lead(&store, b"k");
    let (mut private, _) = store.begin_private(hash, b"k", store.removals(hash));
    let (mut other, _others) = lead(&store, b"other");
    let variant = store.begin(hash, store.hash(b"k+variant"), b"k");
    let Begin::Lead(mut variant, _variants) = variant else { panic!("another flight") };
    for writer in [&mut writer, &mut private, &mut other, &mut variant] {
        writer.head(shared(), true);
    }
    assert!(writer.may_store() && private.may_store() && other.may_store() && variant.may_store());
    store.remove(hash, b"k");
    assert!(!writer.may_store() && !private.may_store() && other.may_store() && !variant.may_store());
    assert_eq!(Err(NotStored::Removed), writer.insert(plain(text("old")), 1));
    assert!(matches!(store.lookup(hash, b"k", 0), Lookup::Nothing));
    assert_eq!(Ok(()), other.insert(plain(text("new")), 1));
    let (mut after, _afters) = lead(&store, b"k");
    push(&mut writer, b"still read by those who asked before");
    assert!(!drain(&mut reader).0.is_empty());
    drop(writer);
    after.head(shared(), true);
    assert!(after.may_store());
    assert_eq!(2, store.in_flight.len(), "the removed ones have left: `after` and `other` are there");
}

#[test]
fn a_response_from_a_lower_tier_is_not_stored_if_removed_meanwhile() {
    let store = store(8 << 20);
    let hash = store.hash(b"k");
    let (was_there, (writer, _reader)) = store.remove_with(hash, b"k", || {
        let (writer, reader) = lead(&store, b"k");
        writer.admit(plain(text("found")), 1).unwrap();
        (writer, reader)
    });
    assert!(was_there && writer.was_removed());
    assert!(matches!(store.lookup(hash, b"k", 0), Lookup::Nothing), "what it has brought is gone");
    assert_eq!(Err(NotStored::Removed), writer.admit(plain(text("found")), 1));
}

#[test]
fn fills_are_bounded_and_counted() {
    let settings = RamSettings { budget: 1 << 20, heap_line: 16384, fills: 2 };
    let store = Store::new(settings, Arc::default()).unwrap();
    let first = lead(&store, b"1");
    let _second = lead(&store, b"2");
    assert!(matches!(begin(&store, b"3"), Begin::Full));
    follow(&store, b"2");
    store.begin_private(store.hash(b"3"), b"3", store.removals(store.hash(b"3")));
    assert_eq!(1, store.counters.fills_full.get());
    drop(first);
    lead(&store, b"3");
}

#[test]
fn a_body_that_drips_is_a_few_chunks() {
    let store = store(8 << 20);
    let empty = store.used();
    let (mut writer, mut reader) = lead(&store, b"k");
    writer.head(shared(), true);
    let bytes: Vec<u8> = (0..50_000u32).map(|it| (it % 251) as u8).collect();
    for it in &bytes[..30_000] {
        push(&mut writer, &[*it]);
    }
    let first = drain(&mut reader).0;
    for it in &bytes[30_000..] {
        push(&mut writer, &[*it]);
    }
    assert_eq!(bytes, [first, drain(&mut reader).0].concat(), "also for one who stood within a joined chunk");
    assert!(writer.chunks().len() < 20, "{}", writer.chunks().len());
    assert!(store.used() - empty < 60_000);
    assert_eq!(bytes, writer.chunks().concat());
}

#[test]
fn a_fill_without_readers_cannot_be_joined() {
    let store = store(8 << 20);
    let (mut writer, reader) = lead(&store, b"k");
    writer.head(shared(), true);
    assert_eq!(None, now(writer.without_readers()));
    drop(reader);
    assert_eq!(Some(()), now(writer.without_readers()));
    assert!(matches!(begin(&store, b"k"), Begin::Lead(..)));
}

#[test]
fn a_hundred_thousand_aborts_leave_nothing() {
    let store = store(8 << 20);
    let empty = store.used();
    for n in 0..100_000u32 {
        let (mut writer, leader) = lead(&store, b"k");
        let mut follower = follow(&store, b"k");
        match n % 5 {
            0 => drop(writer),
            1 => drop((leader, follower, writer)),
            2 => {
                assert!(now(follower.next()).is_none());
                drop((leader, follower));
                writer.head(shared(), false);
                assert_eq!(Some(Err(Abandoned)), now(writer.push(Bytes::from_static(b"x"), MOST)));
            }
            3 => {
                writer.head(shared(), true);
                push(&mut writer, b"some");
                drop((writer, leader));
                assert!(matches!(drain(&mut follower).1, Some(FillEnd::Failed)));
            }
            _ => {
                assert!(now(writer.without_readers()).is_none());
                store.remove(store.hash(b"k"), b"k");
            }
        }
    }
    assert_eq!((empty, 0), (store.used(), store.in_flight.len()));
    assert!(matches!(begin(&store, b"k"), Begin::Lead(..)), "none of the places is taken");
}

/// Counts its wake-ups.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = usize>>>,
    bell: Arc<Bell>,
    heard: usize,
    done: Option<usize>,
}

impl Task {
    fn new(future: impl Future<Output = usize> + 'static) -> Self {
        // Rung once: a new task is polled.
        Self { future: Box::pin(future), bell: Arc::new(Bell(AtomicUsize::new(1))), heard: 0, done: None }
    }

    /// Polls if it was woken since the last poll, as a runtime does; says whether it was.
    fn run(&mut self) -> bool {
        let rung = self.bell.0.load(Relaxed);
        if rung == self.heard || self.done.is_some() {
            return false;
        }
        self.heard = rung;
        let waker = Waker::from(self.bell.clone());
        if let Poll::Ready(length) = self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.done = Some(length);
        }
        true
    }
}

async fn read_all(mut reader: FillReader) -> usize {
    reader.head().await;
    let mut length = 0;
    while let Ok(bytes) = reader.next().await {
        length += bytes.len();
    }
    length
}

/// Every order in which a writer and two readers can take their turns, each polled only when woken: all arrive.
#[test]
fn no_wake_up_is_lost_in_any_order_of_turns() {
    let clock = clock();
    let _within = clock.enter();
    let chunk = Bytes::from(vec![5; 160 * 1024]); // Two fill the window.
    let store = store(8 << 20);
    // Sums that are not optimised would take minutes.
    let tagged = || {
        let mut head = head();
        head.meta.etag = Some((*b"\"a\"").into());
        FillHead::Shared(Arc::new(head))
    };
    for keep in [true, false] {
        for schedule in 0..3u32.pow(9) {
            let (mut writer, leader) = lead(&store, b"k");
            let follower = follow(&store, b"k");
            let bytes = chunk.clone();
            let mut tasks = [
                Task::new(async move {
                    tokio::task::yield_now().await;
                    writer.head(tagged(), keep);
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                        writer.push(bytes.clone(), MOST).await.unwrap();
                    }
                    tokio::task::yield_now().await;
                    writer.finish(FillEnd::Complete(None));
                    0
                }),
                Task::new(read_all(leader)),
                Task::new(read_all(follower)),
            ];
            let mut turns = schedule;
            for _ in 0..9 {
                tasks[(turns % 3) as usize].run();
                turns /= 3;
            }
            while tasks.iter_mut().any(Task::run) {}
            let read = tasks.map(|it| it.done);
            assert_eq!([Some(0), Some(3 * chunk.len()), Some(3 * chunk.len())], read, "{keep} {schedule}");
        }
    }
}

#[test]
fn a_private_fetch_is_not_stored_if_its_key_was_removed_meanwhile() {
    let store = store(8 << 20);
    let hash = store.hash(b"k");
    let before = store.removals(hash);
    store.remove(hash, b"k");
    let (mut late, _reader) = store.begin_private(hash, b"k", before);
    late.head(shared(), true);
    assert!(!late.may_store());
    let (mut after, _reader) = store.begin_private(hash, b"k", store.removals(hash));
    after.head(shared(), true);
    assert!(after.may_store());
}
