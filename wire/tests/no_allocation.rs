//! Reading a request head allocates nothing: a hit passes through it.

use larder_wire::http1::request::{Limits, Parsed, Storage, parse};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed to the system's allocator; the count is a plain cell of this thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|it| it.set(it.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_head_is_read_in_place() {
    let limits = Limits { head: 4096, target: 1024 };
    let fields = "A: b\r\n".repeat(100);
    let heads = [
        format!("GET /a?b HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n{fields}\r\n"),
        format!("POST http://[::1]:80/a HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 5\r\n{fields}\r\n"),
        format!("GET / HTTP/1.1\r\nHost: a,b\r\n{fields}\r\n"),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}"),
    ];
    let before = ALLOCATIONS.get();
    let mut whole = 0;
    for raw in &heads {
        let mut storage = Storage::new();
        if let Ok(Parsed::Head(_, length)) = parse(raw.as_bytes(), &limits, &mut storage) {
            whole += usize::from(length == raw.len());
        }
    }
    assert_eq!(before, ALLOCATIONS.get());
    assert_eq!(2, whole);
    drop(Box::new(whole));
    assert_ne!(before, ALLOCATIONS.get(), "the counter counts");
}
