//! The resident memory of a small response in total: key, head in both forms, body, facts for decisions, index and
//! policy. Alone in its process, since it measures that process.

mod support;

use larder_counters::Counters;
use larder_semantics::field::FieldList;
use larder_semantics::stored::Meta;
use larder_stdx::clock::WallTime;
use larder_store::{RamSettings, Store, Stored, sample};
use larder_wire::ready_head::ReadyHead;
use std::sync::Arc;
use support::fills::without_purge_delay;

/// As in the binary: see docs/decisions/0020-resident-memory.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const COUNT: u64 = 100_000;

/// Bytes of resident memory that each may take.
const MOST: u64 = 640;

/// Bytes of a body.
const BODY: usize = 100;

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: Vec<u64> = statm.split_whitespace().map(|it| it.parse().unwrap()).collect();
    (pages[1] - pages[2]) * rustix::param::page_size() as u64
}

/// As an application behind a usual server answers.
fn response(store: &Store, number: u64) -> Stored {
    let etag = format!("\"{:x}-{:x}\"", number * 0x9E37, BODY);
    let mut fields = FieldList::new();
    fields.push("Server", "nginx/1.26.2");
    fields.push("Date", format!("Mon, 01 Jan 2024 00:{:02}:{:02} GMT", number / 60 % 60, number % 60));
    fields.push("Content-Type", "text/html; charset=utf-8");
    fields.push("Cache-Control", "public, max-age=86400");
    fields.push("ETag", &etag);
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    head.extend_from_slice(fields.text());
    head.extend_from_slice(format!("Content-Length: {BODY}\r\n").as_bytes());
    let body = store.make_body(&[vec![number as u8; BODY].into()]).unwrap();
    let now = WallTime(1_704_067_200 + number / 1000);
    let times = Meta { request_time: now, response_time: now, date: now, ..sample::meta(&[]) };
    let meta = Meta { etag: Some(etag.as_bytes().into()), ..times };
    Stored::new(meta, ReadyHead::passing(&head), fields, body)
}

#[test]
fn a_page_of_a_hundred_bytes_takes_no_more_than_it_may() {
    without_purge_delay();
    let settings = RamSettings { budget: 2 << 30, heap_line: 16 * 1024, fills: 100 };
    let store = Store::new(settings, Arc::new(Counters::default())).unwrap();
    let before = resident();
    for number in 0..COUNT {
        let key = format!("http://www.example.com/pages/{number:07}.html");
        let stored = store.ram_form(response(&store, number));
        store.insert(store.hash(key.as_bytes()), key.as_bytes(), stored, 4).unwrap();
    }
    assert_eq!(COUNT, store.objects());
    let each = (resident() - before) / COUNT;
    println!("{each} bytes each; told {}; {:?}", store.used() / COUNT, store.memory());
    assert!(each <= MOST, "{each} bytes each");
}
