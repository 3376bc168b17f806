//! The functions on the path of a hit do not allocate, shown by an allocator that counts.

use larder_semantics::cache_status::{self, AnsweringTier, CacheReport};
use larder_semantics::coding::AcceptedCodings;
use larder_semantics::field::Field;
use larder_semantics::key::KeyRecipe;
use larder_semantics::policy::Policy;
use larder_semantics::range::{self, Selection};
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, ForwardReason, Reuse};
use larder_semantics::stored::Meta;
use larder_semantics::trace::Silent;
use larder_semantics::{date, vary};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|it| it.set(it.get() + 1));
        // SAFETY: the caller's promise is ours.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is ours.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[track_caller]
fn check(what: &str, run: impl FnOnce()) {
    let before = ALLOCATIONS.get();
    run();
    assert_eq!(0, ALLOCATIONS.get() - before, "{what} allocated");
}

#[test]
fn a_hit_does_not_allocate() {
    let line = |name, value: &'static str| Field { name, value: value.as_bytes() };
    let fields = [
        line("Accept-Encoding", "gzip, deflate;q=0.5, br, zstd"),
        line("Accept-Language", "en-GB, en;q=0.8, *;q=0.1"),
        line("X-Device", "phone, \"a b\""),
        line("Cookie", "a=1; b=2"),
    ];
    let names: Vec<Box<str>> =
        ["accept-encoding", "accept-language", "cookie", "x-device", "x-none"].map(Box::from).into();
    let chosen = KeyRecipe {
        headers: vec!["x-device".to_owned()],
        cookies: vec!["a*".to_owned()],
        query: larder_semantics::key::QueryPolicy::Drop(vec!["utm_*".to_owned()]),
        ..KeyRecipe::default()
    };
    let mut out = Vec::with_capacity(4096);
    let out = &mut out;
    check("the default key", || KeyRecipe::default().write("https", "a.example", "/a?b=c", &fields, out));
    check("a chosen key", || chosen.write("https", "a.example", "/a?utm_x=1&b=c", &fields, out));
    check("a variant key without names", || vary::write_key(&[], &fields, out));
    check("a variant key", || vary::write_key(&names, &fields, out));
    check("Accept-Encoding", || {
        assert!(AcceptedCodings::read(&fields).quality(larder_semantics::coding::Coding::Zstd) > 0)
    });
    check("one range", || assert_eq!(Selection::One(2, 5), range::select(b"bytes=2-3,4-5", 10)));
    check("a hit's Cache-Status", || {
        cache_status::write(CacheReport::Hit { ttl: 30, tier: AnsweringTier::Fleet }, out)
    });
    let reason = ForwardReason::UriMiss;
    let report = CacheReport::Forwarded { reason, status: Some(200), stored: true, collapsed: false };
    check("a miss's Cache-Status", || cache_status::write(report, out));
    check("a date", || date::write(larder_stdx::clock::WallTime(784_111_777), out));
}

#[test]
fn deciding_a_hit_does_not_allocate() {
    let line = |name, value: &'static str| Field { name, value: value.as_bytes() };
    let request = [
        line("Host", "a.example"),
        line("User-Agent", "Mozilla/5.0"),
        line("Cache-Control", "max-stale=10, min-fresh=1, unknown=\"a, b\""),
        line("Pragma", "foo, bar"),
        line("If-None-Match", "\"a\""),
        line("Range", "bytes=2-3"),
        line("Cookie", "a=b"),
    ];
    let response = [
        line("Cache-Control", "max-age=60, stale-while-revalidate=30"),
        line("ETag", "\"a\""),
        line("Content-Range", "bytes 0-9/10"),
    ];
    let policy = Policy::default();
    let now = larder_stdx::clock::WallTime(1_800_000_000);
    let later = |seconds| larder_stdx::clock::WallTime(now.0 + seconds);
    let whole = Meta::of(200, &response, &policy, now, now);
    let part = Meta::of(206, &response, &policy, now, now);
    let facts = RequestFacts::read("GET", &request);
    check("the facts of a request", || {
        std::hint::black_box(RequestFacts::read("GET", &request));
    });
    let verdict = |meta, seconds| reuse::decide(Ok(meta), &facts, &policy, later(seconds), &mut Silent);
    check("a fresh hit", || assert_eq!(Reuse::Serve, verdict(&whole, 5)));
    check("a hit of a part", || assert_eq!(Reuse::Serve, verdict(&part, 5)));
    check("a stale one", || assert_eq!(Reuse::Validate(ForwardReason::Request), verdict(&whole, 65)));
}
