use super::*;
use crate::assemble::assemble;
use crate::coding::ready;
use bytes::Bytes;
use larder_semantics::compress::{CodingPreference as Codings, Compress};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::policy::Policy;
use larder_semantics::stored::Meta;
use larder_stdx::clock::WallTime;
use larder_store::{PurgeFacts, StoredArc};

fn store(counters: &Arc<Counters>) -> Arc<Store> {
    let settings = larder_store::RamSettings { budget: 256 << 20, heap_line: 16 << 10, fills: 10 };
    Store::new(settings, counters.clone()).unwrap()
}

fn pool(store: &Arc<Store>, workers: usize, queue: usize) -> Arc<Coders> {
    let levels = CodecLevels { gzip: 6, brotli: 5, zstd: 3 };
    Coders::new(store.clone(), Arc::default(), CoderSettings { workers, queue, levels })
}

/// A stored page of `length` bytes under this `Content-Encoding`.
fn page(store: &Store, coding: &str, body: Vec<u8>) -> StoredArc {
    let compress = Compress {
        codings: Codings::DEFAULT,
        min_size: 0,
        max_size: 64 << 20,
        types: vec!["text/*".to_owned()],
        uncached: true,
    };
    let policy = Policy { compress: Some(Arc::new(compress)), ..Policy::default() };
    let fields = [
        Field { name: "Content-Type", value: b"text/html" },
        Field { name: "Content-Encoding", value: coding.as_bytes() },
    ];
    let meta = Meta::of(200, &fields, &policy, WallTime(1000), WallTime(1000));
    let body = store.make_body(&[Bytes::from(body)]).unwrap();
    let fields = FieldList::from_fields(&fields);
    StoredArc::new(ready(
        assemble(meta, fields, None, body, Box::default(), PurgeFacts::default(), &policy.tags),
        &policy,
    ))
}

fn wait(stored: &Stored, coding: Coding) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(stored.encodings.as_ref().unwrap().wait_settled(coding));
}

#[test]
fn an_order_is_made_by_a_thread() {
    let counters = Arc::default();
    let store = store(&counters);
    let pool = pool(&store, 2, 10);
    let stored = page(&store, "identity", b"soup ".repeat(10_000));
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
        pool.order(&stored, coding);
        pool.order(&stored, coding);
        wait(&stored, coding);
        let encoding = stored.encodings.as_ref().unwrap().get(coding).unwrap();
        let bytes = bytes_of(&encoding.body).unwrap();
        assert!(codec::decode(coding, &bytes, 1 << 20).unwrap() == b"soup ".repeat(10_000));
        let head = String::from_utf8_lossy(&encoding.head.text()).into_owned();
        assert!(
            head.contains(&format!("Content-Encoding: {}\r\n", transcode::token(coding).unwrap())),
            "{head}"
        );
        assert!(head.ends_with(&format!("Content-Length: {}\r\n", bytes.len())), "{head}");
    }
    assert_eq!(3, counters.coding_made.get());
    assert!(pool.state.lock().threads <= 2);
}

#[test]
fn a_coding_whose_encoder_never_fits_is_tried_once_and_the_next_is_made() {
    let counters = Arc::default();
    let settings = larder_store::RamSettings { budget: 16 << 20, heap_line: 16 << 10, fills: 10 };
    let store = Store::new(settings, counters).unwrap();
    let levels = CodecLevels { gzip: 6, brotli: 9, zstd: 3 };
    let pool = Coders::new(store.clone(), Arc::default(), CoderSettings { workers: 1, queue: 10, levels });
    let stored = page(&store, "identity", b"soup ".repeat(10_000));
    for coding in [Coding::Brotli, Coding::Brotli, Coding::Gzip] {
        pool.order(&stored, coding);
        wait(&stored, coding);
    }
    let encodings = stored.encodings.as_ref().unwrap();
    assert_eq!((1, true), (pool.counters.coding_no_memory.get(), encodings.refused().has(Coding::Brotli)));
    assert!(encodings.get(Coding::Gzip).is_some());
    let policy = Policy::default();
    let accepts = [Field { name: "Accept-Encoding", value: b"br, gzip;q=0.5" }];
    let facts = larder_semantics::request::RequestFacts::read("GET", &accepts);
    let report = crate::coding::describe(encodings, &policy, &accepts, &facts);
    assert!(report.contains("too large for cache.ram.size): br"), "{report}");
}

#[test]
fn an_undecodable_response_is_decoded_once() {
    let store = store(&Arc::default());
    let pool = pool(&store, 1, 10);
    let bomb = codec::encode(Coding::Zstd, pool.settings.levels, &vec![0; 32 << 20]).unwrap().unwrap();
    for (body, count) in
        [(b"no gzip".to_vec(), &pool.counters.decoding_failures), (bomb, &pool.counters.decoding_bombs)]
    {
        let coding = if body.len() < 10 { "gzip" } else { "zstd" };
        let stored = page(&store, coding, body);
        for _ in 0..3 {
            pool.order(&stored, Coding::Identity);
            wait(&stored, Coding::Identity);
        }
        assert!(stored.encodings.as_ref().unwrap().is_undecodable());
        assert_eq!(1, count.get(), "{coding}");
    }
}

#[test]
fn a_full_queue_refuses_for_now() {
    let store = store(&Arc::default());
    let stored = page(&store, "identity", b"soup ".repeat(1000));
    for (workers, queue) in [(1, 0), (0, 10)] {
        let pool = pool(&store, workers, queue);
        pool.order(&stored, Coding::Gzip);
        assert_eq!(1, pool.counters.coding_queue_full.get());
    }
    let encodings = stored.encodings.as_ref().unwrap();
    assert!(encodings.claim(Coding::Gzip), "it can be ordered again");
}

#[test]
fn the_coding_queue_is_bounded_in_bytes() {
    let store = store(&Arc::default());
    let pool = pool(&store, 1, 10);
    let large: Vec<_> = (0..2).map(|_| page(&store, "identity", vec![b'a'; 40 << 20])).collect();
    // Nobody takes anything out.
    {
        let mut state = pool.state.lock();
        (state.idle, state.threads) = (1, 1);
    }
    large.iter().for_each(|it| pool.order(it, Coding::Gzip));
    let waiting = {
        let state = pool.state.lock();
        (state.orders.len(), state.bytes)
    };
    assert_eq!((1, 40 << 20), waiting);
    assert_eq!(1, pool.counters.coding_queue_full.get());
    assert!(large[1].encodings.as_ref().unwrap().claim(Coding::Gzip));
}
