//! Reading a request head allocates nothing: a hit passes through it. Reading an envelope allocates no more than it
//! has bytes, and a few KiB.

use larder_semantics::scheme::Scheme;
use larder_wire::envelope::Envelope;
use larder_wire::http1::request::{ParsedRequest, parse};
use larder_wire::message::{FieldStorage, HeadLimits};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed to the system's allocator; the count is a plain cell of this thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|it| it.set(it.get() + 1));
        let _ = BYTES.try_with(|it| it.set(it.get() + layout.size()));
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
    let limits = HeadLimits { head: 4096, target: 1024, scheme: Scheme::Http };
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
        let mut storage = FieldStorage::new();
        if let Ok(ParsedRequest::Head(_, length)) = parse(raw.as_bytes(), &limits, &mut storage) {
            whole += usize::from(length == raw.len());
        }
    }
    assert_eq!(before, ALLOCATIONS.get());
    assert_eq!(2, whole);
    drop(Box::new(whole));
    assert_ne!(before, ALLOCATIONS.get(), "the counter counts");
}

/// Every length of a hostile envelope is tried, and none is believed: what was ever allocated together stays within
/// the bytes that are there and the index of the lines.
#[test]
fn an_envelope_allocates_no_more_than_it_has_bytes() {
    let key: (u8, Vec<u8>) = (1, b"http://a/".to_vec());
    let facts = (3, vec![0; 50]);
    let large = 50_000;
    let all: Vec<Vec<(u8, Vec<u8>)>> = vec![
        vec![key.clone(), (2, b"a:\r\n".repeat(256)), facts.clone()],
        vec![key.clone(), (2, b"a:\r\n".repeat(large)), facts.clone()],
        vec![
            key.clone(),
            facts.clone(),
            (5, (0..large).map(|it| format!("a{it:08},")).collect::<String>().into()),
        ],
        vec![key.clone(), facts.clone(), (9, vec![1; large * 8])],
        vec![key.clone(), facts.clone(), (10, vec![1; large * 16])],
        vec![key.clone(), facts.clone(), (6, vec![b'a'; large])],
        vec![(1, vec![b'a'; large]), (2, [&b"a: "[..], &[b'b'; 50_000], b"\r\n"].concat()), facts],
    ];
    for sections in &all {
        let content: Vec<u8> = sections
            .iter()
            .flat_map(|(tag, content)| {
                let length = u32::try_from(content.len()).unwrap().to_le_bytes();
                [&[*tag], &length[..], content].concat()
            })
            .collect();
        let mut raw = b"\x93lrd\x01\x00\xc8\x00".to_vec();
        raw.extend_from_slice(&u32::try_from(content.len() + 28).unwrap().to_le_bytes());
        raw.extend_from_slice(&[0xff; 12]);
        raw.extend_from_slice(&content);
        raw.extend_from_slice(&larder_wire::envelope::sum(&raw).to_le_bytes());
        let before = BYTES.get();
        let read = Envelope::read(&raw).is_ok();
        let taken = BYTES.get() - before;
        assert!(taken <= raw.len() + 4096, "{} bytes of {}, read: {read}", taken, raw.len());
    }
}
