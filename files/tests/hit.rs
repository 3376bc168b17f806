//! The hit path allocates nothing: a counting allocator watches.

mod support;

use larder_semantics::field::Field;
use larder_stdx::clock::Monotonic;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::Site;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator as it is; counting touches only a plain cell.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|it| it.set(it.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_hit_allocates_nothing() {
    let large = "x".repeat(100_000);
    let files = [("a b.css", "plain"), ("a b.css.gz", "gzip"), ("s.txt", "small"), ("l.bin", large.as_str())];
    let site = Site::new(&files);
    let fields = [Field { name: "Accept-Encoding", value: b"gzip, deflate, br" }];
    let targets = ["/a%20b.css", "/s.txt", "/l.bin?version=1"];
    for it in targets {
        site.get(it);
    }
    // The buffer of a connection, which exists before.
    let mut sent = Vec::with_capacity(4096);
    let before = ALLOCATIONS.get();
    for it in targets {
        let file = site.root.lookup_now(it, &fields, Monotonic(1000)).expect("cached");
        sent.clear();
        file.head.write_text(&mut sent);
        assert!(!sent.is_empty() && larder_files::is_plain(&fields));
        assert!(!file.body.clone().is_empty());
    }
    assert_eq!(0, ALLOCATIONS.get() - before);
}

#[test]
fn files_without_readers_are_closed() {
    let large = "x".repeat(100_000);
    let files = [("a.bin", large.as_str()), ("b.bin", large.as_str()), ("s.txt", "in memory")];
    let site = Site::new(&files);
    for it in ["/a.bin", "/b.bin", "/s.txt"] {
        site.get(it);
    }
    let sent = site.root.lookup_now("/a.bin", &[], Monotonic(1000)).unwrap().body.clone();
    site.root.let_go();
    let is_held = |it| site.root.lookup_now(it, &[], Monotonic(1000)).is_some();
    assert_eq!([true, false, true], ["/a.bin", "/b.bin", "/s.txt"].map(is_held));
    assert_eq!((2, true), (site.root.files_held(), sent.len() == 100_000));
    drop(sent);
    site.root.let_go();
    assert_eq!([false, true], ["/a.bin", "/s.txt"].map(is_held));
    site.get("/b.bin");
    assert_eq!(2, site.root.files_held());
}
