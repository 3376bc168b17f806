//! Pages in the fleet, over real memcached processes: one node reads every page of another, and a foreign value is never
//! taken for a page.

mod fleet;

use bytes::Bytes;
use fleet::memcached::{Memcached, On};
use fleet::pages::{assert_miss, get, get_as, hit, noise, page, put, text};
use fleet::{key, patient, run};
use larder_counters::Counters;
use larder_store::fleet::{
    FilledBy, Fleet, FleetKeys, FleetResult, FleetSettings, LeaseState, MemcachedProtocol, OversizePolicy,
    Removed, Settled, Want,
};
use larder_store::{Store, StoredBody, ram, sample};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(60);

/// Settings under which a test sees what became of a write.
fn settings(servers: &[Memcached]) -> FleetSettings {
    FleetSettings { no_block: false, ..patient(servers.iter().map(Memcached::address).collect()) }
}

/// Two nodes of three servers, in every protocol on every kind of socket.
fn each(change: impl Fn(&mut FleetSettings), test: impl AsyncFn(Rc<Fleet>, Rc<Fleet>, Arc<Counters>)) {
    for (on, protocol) in [
        (On::Tcp, MemcachedProtocol::Meta),
        (On::Unix, MemcachedProtocol::Meta),
        (On::Tcp, MemcachedProtocol::Binary),
        (On::Unix, MemcachedProtocol::Binary),
    ] {
        let servers: Vec<_> = (0..3).map(|_| Memcached::start(on, &[])).collect();
        let mut settings = settings(&servers);
        settings.protocol = protocol;
        change(&mut settings);
        run(async {
            let (a, _) = fleet::fleet(settings.clone());
            let (b, counters) = fleet::fleet(settings);
            test(a, b, counters).await;
        });
    }
}

/// Two nodes of one server.
fn pair(change: impl Fn(&mut FleetSettings), test: impl AsyncFn(Rc<Fleet>, Rc<Fleet>, Arc<Counters>)) {
    let servers = [Memcached::start(On::Unix, &[])];
    let mut settings = settings(&servers);
    change(&mut settings);
    run(async {
        let (a, _) = fleet::fleet(settings.clone());
        let (b, counters) = fleet::fleet(settings);
        test(a, b, counters).await;
    });
}

fn as_it_is(_: &mut FleetSettings) {}

#[test]
fn a_page_of_one_node_is_read_by_another() {
    each(as_it_is, async |a, b, counters| {
        let fields = [
            ("Cache-Control", "max-age=600, stale-while-revalidate=30"),
            ("Content-Type", "text/html; charset=utf-8"),
            ("ETag", "\"v1\""),
            ("Link", "</a>; rel=preload"),
            ("Link", "</b>; rel=preload"),
            ("X-Latin", "caf\u{e9}"),
        ];
        let stored = page(&fields, &[], StoredBody::Heap(Bytes::from_static(b"hello").into()));
        assert_eq!(Settled::Stored, put(&a, "http://example.com/", &stored).await);
        let found = hit(get(&b, "http://example.com/").await);
        assert_eq!(b"hello"[..], found.body);
        assert_eq!(stored.meta, found.envelope.meta);
        assert_eq!(stored.fields().text(), found.envelope.fields.text());
        assert_eq!(stored.trailers().unwrap().text(), found.envelope.trailers.unwrap().text());
        assert_eq!(*stored.tags(), *found.envelope.tags);
        assert!(!found.by_application);
        assert_eq!(
            (1, 1, 0),
            (counters.fleet_gets.get(), counters.fleet_hits.get(), counters.fleet_misses.get())
        );
        assert_miss(get(&b, "http://example.com/other").await);
    });
}

#[test]
fn bodies_of_every_type_and_size_are_equal() {
    let types = [
        "text/html",
        "application/json",
        "text/css",
        "application/javascript",
        "image/png",
        "image/svg+xml",
        "font/woff2",
        "application/pdf",
        "application/octet-stream",
        "video/mp4",
        "application/wasm",
        "text/event-stream",
    ];
    let sizes = [
        0,
        1,
        2,
        100,
        4095,
        16 << 10,
        100_000,
        (1 << 20) - 1100,
        (1 << 20) - 700,
        (1 << 20) - 512,
        (1 << 20) - 1,
        1 << 20,
        (1 << 20) + 1,
        2 << 20,
        5 << 20,
    ];
    each(as_it_is, async |a, b, counters| {
        for (at, size) in sizes.into_iter().enumerate() {
            let body = noise(size);
            let fields = [("Cache-Control", "max-age=60"), ("Content-Type", types[at % types.len()])];
            let stored = page(&fields, &[], StoredBody::Heap(body.clone().into()));
            let url = format!("http://a/{at}");
            assert_eq!(Settled::Stored, put(&a, &url, &stored).await, "{size}");
            let found = hit(get(&b, &url).await);
            assert!(body == found.body, "{size} bytes");
            assert_eq!(Some(types[at % types.len()].as_bytes()), found.envelope.fields.get("content-type"));
        }
        assert_eq!(0, counters.fleet_corrupt.get() + counters.fleet_failures.get());
    });
}

#[test]
fn a_body_of_the_arena_is_equal() {
    pair(as_it_is, async |a, b, _| {
        let settings = ram::RamSettings { budget: 64 << 20, heap_line: 1024, fills: 10 };
        let store = Store::new(settings, Arc::default()).unwrap();
        for size in [2000, 300_000, 3 << 20] {
            let body = noise(size);
            let kept = store.make_body(std::slice::from_ref(&body)).unwrap();
            assert!(matches!(kept, StoredBody::Arena(_)));
            let stored = page(&[("Cache-Control", "max-age=60")], &[], kept);
            assert_eq!(Settled::Stored, put(&a, "http://a/", &stored).await);
            assert!(body == hit(get(&b, "http://a/").await).body, "{size}");
        }
    });
}

#[test]
fn a_body_of_a_file_is_equal() {
    use larder_transport::body::{FileOwner, FileSlice};
    struct Segment(std::fs::File);
    impl FileOwner for Segment {
        fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
            std::os::fd::AsFd::as_fd(&self.0)
        }
        fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
            None
        }
    }
    pair(as_it_is, async |a, b, _| {
        let mut file = tempfile::tempfile().unwrap();
        let body = noise(400_000);
        std::io::Write::write_all(&mut file, &body).unwrap();
        let slice = |offset, length| {
            StoredBody::Disk(Box::new(FileSlice {
                owner: Arc::new(Segment(file.try_clone().unwrap())),
                offset,
                length,
            }))
        };
        let stored = page(&[("Cache-Control", "max-age=60")], &[], slice(1000, 399_000));
        assert_eq!(Settled::Stored, put(&a, "http://a/", &stored).await);
        assert!(body[1000..] == hit(get(&b, "http://a/").await).body);
        let beyond = page(&[("Cache-Control", "max-age=60")], &[], slice(1000, 400_000));
        assert_eq!(Settled::NotStored, put(&a, "http://b/", &beyond).await, "the file is shorter");
    });
}

#[test]
fn each_variant_is_found_and_a_removal_takes_all() {
    each(as_it_is, async |a, b, _| {
        let fields = [("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")];
        let (de, en, fr) =
            ([("accept-language", "de")], [("accept-language", "en")], [("accept-language", "fr")]);
        let url = "http://a/";
        for (request, body) in [(&de, "Guten Tag"), (&en, "Good day")] {
            let turn = get_as(&a, url, request, Want::Recompute).await;
            let stored = page(&fields, request, StoredBody::Heap(Bytes::from_static(body.as_bytes()).into()));
            assert_eq!(Settled::Stored, put(&a, url, &stored).await);
            drop(turn);
        }
        assert_eq!(b"Good day"[..], hit(get_as(&b, url, &en, Want::ReadOnly).await).body);
        assert_eq!(b"Guten Tag"[..], hit(get_as(&b, url, &de, Want::ReadOnly).await).body);
        assert_miss(get_as(&b, url, &fr, Want::ReadOnly).await);
        // The other node adds one, and it belongs with the others.
        let turn = get_as(&b, url, &fr, Want::Recompute).await;
        let stored = page(&fields, &fr, StoredBody::Heap(Bytes::from_static(b"Bonjour").into()));
        assert_eq!(Settled::Stored, put(&b, url, &stored).await);
        drop(turn);
        assert_eq!(b"Guten Tag"[..], hit(get_as(&a, url, &de, Want::ReadOnly).await).body);
        // Removed by one node, all are gone, and stay so when one comes anew from either.
        assert_eq!(Removed::Everywhere, b.remove(url.as_bytes()).await);
        assert_miss(get_as(&b, url, &fr, Want::ReadOnly).await);
        let turn = get_as(&b, url, &en, Want::Recompute).await;
        let stored = page(&fields, &en, StoredBody::Heap(Bytes::from_static(b"Good evening").into()));
        assert_eq!(Settled::Stored, put(&b, url, &stored).await);
        drop(turn);
        assert_eq!(b"Good evening"[..], hit(get_as(&a, url, &en, Want::ReadOnly).await).body);
        assert_miss(get_as(&a, url, &de, Want::ReadOnly).await);
    });
}

/// The variants of an older page stay unreachable where the page varies on their names again.
#[test]
fn variants_are_unreachable_after_the_vary_fields_changed() {
    each(as_it_is, async |a, b, _| {
        let by = |name| [("Cache-Control", "max-age=60"), ("Vary", name)];
        let (de, en) = ([("accept-language", "de")], [("accept-language", "en")]);
        let url = "http://a/";
        for (names, request, body) in [
            ("Accept-Language", &de, "old"),
            ("Accept-Language", &en, "old"),
            ("X-Q", &en, "new"),
            ("Accept-Language", &en, "newest"),
        ] {
            let turn = get_as(&a, url, request, Want::Recompute).await;
            let stored =
                page(&by(names), request, StoredBody::Heap(Bytes::from_static(body.as_bytes()).into()));
            assert_eq!(Settled::Stored, put(&a, url, &stored).await);
            drop(turn);
        }
        assert_eq!(b"newest"[..], hit(get_as(&b, url, &en, Want::ReadOnly).await).body);
        assert_miss(get_as(&b, url, &de, Want::ReadOnly).await);
    });
}

#[test]
fn a_removed_page_is_a_miss_on_every_node() {
    each(as_it_is, async |a, b, counters| {
        for at in 0..20 {
            let url = format!("http://a/{at}");
            assert_eq!(Settled::Stored, put(&a, &url, &text("x")).await);
            assert_eq!(Removed::Everywhere, b.remove(url.as_bytes()).await);
            assert_miss(get(&a, &url).await);
        }
        assert_eq!((20, 0), (counters.fleet_removes.get(), counters.fleet_removes_failed.get()));
    });
}

#[test]
fn a_page_removed_during_its_write_is_not_restored() {
    pair(
        |it| it.compress_above = Some(1),
        async |a, b, _| {
            for at in 0..20 {
                // Large enough to be packed by another thread, so that the removal overtakes it.
                let stored = page(
                    &[("Cache-Control", "max-age=60")],
                    &[],
                    StoredBody::Heap(vec![b'x'; 600_000].into()),
                );
                let url = format!("http://a/{at}");
                let on_its_way = a.put(url.as_bytes(), &stored);
                assert_eq!(Removed::Everywhere, a.remove(url.as_bytes()).await);
                assert_eq!(Settled::NotStored, on_its_way.wait().await);
                // Behind what was told and not waited for.
                assert_eq!(Removed::Everywhere, a.remove(b"http://other/").await);
                assert_miss(get(&b, &url).await);
                assert_eq!(u64::MAX, stored.recheck.load(Relaxed));
            }
        },
    );
}

#[test]
fn a_copy_in_ram_is_to_be_checked_once_it_is_stored() {
    pair(
        |it| it.local_ttl = Duration::from_secs(7),
        async |a, _, _| {
            let stored = text("x");
            let before = larder_stdx::clock::wall().0;
            assert_eq!(Settled::Stored, put(&a, "http://a/", &stored).await);
            let recheck = stored.recheck.load(Relaxed);
            assert!((before + 7..before + 60).contains(&recheck), "{before} {recheck}");
        },
    );
}

#[test]
fn an_excluded_response_is_not_written() {
    pair(
        |it| it.put = false,
        async |a, b, _| {
            assert_eq!(Settled::NotStored, put(&a, "http://a/", &text("x")).await);
            assert_miss(get(&b, "http://a/").await);
        },
    );
    pair(
        |it| it.large = OversizePolicy::Skip,
        async |a, b, _| {
            let large =
                page(&[("Cache-Control", "max-age=60")], &[], StoredBody::Heap(noise(2 << 20).into()));
            assert_eq!(Settled::NotStored, put(&a, "http://a/", &large).await);
            assert_miss(get(&b, "http://a/").await);
            assert_eq!(Settled::Stored, put(&a, "http://a/", &text("x")).await);
        },
    );
    pair(as_it_is, async |a, b, _| {
        let without = page(&[("Cache-Control", "max-age=0")], &[], StoredBody::Heap(Bytes::new().into()));
        assert_eq!(Settled::NotStored, put(&a, "http://a/", &without).await, "no lifetime and no validator");
        let part = [("Cache-Control", "max-age=60"), ("Content-Range", "bytes 0-4/10")];
        let mut part = sample::owned(page(&part, &[], StoredBody::Heap(Bytes::from_static(b"01234").into())));
        let held = larder_semantics::range::HeldRange { first: 0, last: 4, complete: Some(10) };
        part.meta.set_partial(Some(held));
        assert_eq!(Settled::NotStored, put(&a, "http://a/", &larder_store::StoredArc::new(part)).await);
        assert_miss(get(&b, "http://a/").await);
    });
}

#[test]
fn bodies_are_compressed_where_that_is_smaller() {
    let change = |it: &mut FleetSettings| it.compress_above = Some(1000);
    pair(change, async |a, b, counters| {
        let server = a.server(0);
        for (url, body, is_packed) in [
            ("http://a/text", Bytes::from(b"many words ".repeat(1000)), true),
            (
                "http://a/large",
                Bytes::from((0..200_000).map(|it| format!("line {it}\n")).collect::<String>()),
                true,
            ),
            ("http://a/short", Bytes::from(b"many words ".repeat(10)), false),
            ("http://a/noise", noise(50_000), false),
            // So empty that it would be taken for a bomb.
            ("http://a/zeros", Bytes::from(vec![0; 3_000_000]), false),
        ] {
            let stored = page(&[("Cache-Control", "max-age=60")], &[], StoredBody::Heap(body.clone().into()));
            assert_eq!(Settled::Stored, put(&a, url, &stored).await);
            let kept = server.get_many(&[key(url)], WITHIN).await.unwrap()[0].clone().unwrap();
            let (envelope, _) = larder_wire::envelope::Envelope::read(&kept).unwrap();
            assert_eq!(is_packed, envelope.body.packed.is_some(), "{url}");
            assert!(body == hit(get(&b, url).await).body, "{url}");
        }
        assert_eq!(0, counters.fleet_corrupt.get());
    });
}

#[test]
fn every_key_is_safe_and_its_own() {
    each(as_it_is, async |a, b, counters| {
        let long = format!("http://a/{}", "x".repeat(5000));
        let urls = [
            "http://a/ h:x=1",
            "http://a/\r\nflush_all\r\n",
            "http://a/\0",
            "http://a/\u{e4}",
            "http://a/#a",
            &long,
            &format!("{long}y"),
            "http://a/%20",
            "*",
        ];
        for url in urls {
            assert_eq!(Settled::Stored, put(&a, url, &text(url)).await);
        }
        for url in urls {
            assert_eq!(url.as_bytes(), hit(get(&b, url).await).body);
        }
        assert_eq!(0, counters.fleet_protocol_errors.get());
    });
}

#[test]
fn a_record_of_another_key_is_a_miss() {
    pair(as_it_is, async |a, b, counters| {
        let server = a.server(0);
        put(&a, "http://a/mine", &text("mine")).await;
        let record = server.get_many(&[key("http://a/mine")], WITHIN).await.unwrap()[0].clone().unwrap();
        server.set(&key("http://a/yours"), &record, 0, WITHIN).await.unwrap();
        assert_miss(get(&b, "http://a/yours").await);
        assert_eq!(1, counters.fleet_foreign.get());
    });
}

#[test]
fn a_damaged_record_is_a_miss() {
    pair(as_it_is, async |a, b, counters| {
        let server = a.server(0);
        put(&a, "http://a/", &text("some text")).await;
        let record = server.get_many(&[key("http://a/")], WITHIN).await.unwrap()[0].clone().unwrap();
        let mut bad: Vec<Vec<u8>> = (0..record.len()).map(|it| record[..it].to_vec()).collect();
        for at in 0..record.len() {
            let mut changed = record.to_vec();
            changed[at] ^= 1 << (at % 8);
            bad.push(changed);
        }
        bad.push([&record[..], b"x"].concat());
        bad.push(noise(1000).to_vec());
        bad.push(b"text/html\0<p>not asked for".to_vec());
        let count = bad.len() as u64;
        for it in bad {
            server.set(&key("http://a/"), &it, 0, WITHIN).await.unwrap();
            assert_miss(get(&b, "http://a/").await);
        }
        // The empty one is not even foreign.
        assert_eq!(count - 1, counters.fleet_foreign.get() + counters.fleet_corrupt.get());
        server.set(&key("http://a/"), &record, 0, WITHIN).await.unwrap();
        assert_eq!(b"some text"[..], hit(get(&b, "http://a/").await).body);
    });
}

#[test]
fn a_body_without_all_its_own_parts_is_a_miss() {
    let change = |it: &mut FleetSettings| it.max_item = 20_000;
    pair(change, async |a, b, counters| {
        let server = a.server(0);
        let body = noise(100_000);
        let large = page(&[("Cache-Control", "max-age=60")], &[], StoredBody::Heap(body.clone().into()));
        put(&a, "http://a/", &large).await;
        put(&a, "http://b/", &large).await;
        let read = async |url: &str| server.get_many(&[key(url)], WITHIN).await.unwrap()[0].clone().unwrap();
        let parts = |record: &Bytes| {
            let (envelope, _) = larder_wire::envelope::Envelope::read(record).unwrap();
            envelope.body.parts.unwrap()
        };
        let (mine, others) = (parts(&read("http://a/").await), parts(&read("http://b/").await));
        let name = |parts: &larder_wire::envelope::BodySplit, it: u32| {
            FleetKeys::default().part(parts.generation, it).as_str().to_owned()
        };
        assert!(mine.count > 4, "{mine:?}");
        let first = name(&mine, 0);
        let whole = read(&first).await;
        let mut changed = whole.to_vec();
        changed[5000] ^= 1;
        let bad = [
            read(&name(&others, 0)).await.to_vec(),
            read(&name(&mine, 1)).await.to_vec(),
            changed,
            whole[..9000].to_vec(),
            vec![],
        ];
        for it in bad {
            server.set(&key(&first), &it, 0, WITHIN).await.unwrap();
            assert_miss(get(&b, "http://a/").await);
        }
        assert!(server.delete(&key(&first), WITHIN).await.unwrap());
        assert_miss(get(&b, "http://a/").await);
        assert_eq!(6, counters.fleet_corrupt.get());
        server.set(&key(&first), &whole, 0, WITHIN).await.unwrap();
        assert!(body == hit(get(&b, "http://a/").await).body);
    });
}

#[test]
fn envelopes_of_applications_are_read_if_the_key_allows_it() {
    // An envelope without facts: key, fields, body.
    fn envelope(url: &str, fields: &str, body: &[u8]) -> Vec<u8> {
        let sections = [(1_u8, url.as_bytes()), (2, fields.as_bytes())];
        let sections: Vec<u8> = sections
            .iter()
            .flat_map(|(tag, it)| [&[*tag][..], &u32::try_from(it.len()).unwrap().to_le_bytes(), it].concat())
            .collect();
        let length = u32::try_from(24 + sections.len() + 4).unwrap();
        let mut out = b"\x93lrd\x01\0\xc8\0".to_vec();
        out.extend(length.to_le_bytes());
        out.extend(larder_wire::envelope::sum(body).to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(sections);
        out.extend(larder_wire::envelope::sum(&out).to_le_bytes());
        out.extend(body);
        out
    }
    let record =
        envelope("http://a/", "Content-Type: text/html\r\nCache-Control: max-age=70\r\n", b"<p>by Python");
    for (by, new, old) in [
        (FilledBy::Larder, false, false),
        (FilledBy::Applications, true, false),
        (FilledBy::Older, true, true),
    ] {
        pair(
            |it| it.filled_by = by,
            async |a, b, counters| {
                let server = a.server(0);
                server.set(&key("http://a/"), &record, 0, WITHIN).await.unwrap();
                server.set(&key("http://a/old"), b"text/css; charset=utf-8\0a{}", 0, WITHIN).await.unwrap();
                match get(&b, "http://a/").await {
                    FleetResult::Hit { found, .. } => {
                        assert!(new && found.by_application);
                        assert_eq!(
                            (70, &b"<p>by Python"[..]),
                            (found.envelope.meta.lifetime.seconds, &found.body[..])
                        );
                    }
                    got => assert!(!new, "{got:?}"),
                }
                match get(&b, "http://a/old").await {
                    FleetResult::Hit { found, .. } => {
                        assert!(old && found.by_application);
                        assert_eq!(
                            Some(&b"text/css; charset=utf-8"[..]),
                            found.envelope.fields.get("content-type")
                        );
                        assert_eq!(b"a{}"[..], found.body);
                    }
                    got => assert!(!old, "{got:?}"),
                }
                assert_eq!(u64::from(!new) + u64::from(!old), counters.fleet_foreign.get());
            },
        );
    }
}

#[test]
fn the_older_form_is_not_taken_under_a_sum() {
    pair(
        |it| it.filled_by = FilledBy::Older,
        async |a, b, _| {
            let url = format!("http://a/{}", "x".repeat(300));
            let sum = FleetKeys::default().key(url.as_bytes());
            a.server(0).set(&sum, b"text/html\0whose?", 0, WITHIN).await.unwrap();
            assert_miss(get(&b, &url).await);
        },
    );
}

#[test]
fn without_an_expiry_a_server_keeps_pages_as_long_as_it_has_room() {
    each(
        |it| it.expire = Duration::ZERO,
        async |a, b, _| {
            assert_eq!(Settled::Stored, put(&a, "http://a/", &text("hello")).await);
            assert_eq!(b"hello"[..], hit(get(&b, "http://a/").await).body);
            // Also behind its lifetime there is something to validate, and one node whose turn that is.
            let stale = page(
                &[("Cache-Control", "max-age=0"), ("ETag", "\"a\"")],
                &[],
                StoredBody::Heap("old".into()),
            );
            assert_eq!(Settled::Stored, put(&a, "http://b/", &stale).await);
            assert_eq!(b"old"[..], hit(get(&b, "http://b/").await).body);
        },
    );
}

#[test]
fn one_node_of_four_recomputes() {
    let servers = [Memcached::start(On::Unix, &[])];
    let settings = settings(&servers);
    run(async {
        let nodes: Vec<_> = (0..4).map(|_| fleet::fleet(settings.clone()).0).collect();
        let url = "http://a/";
        // Nothing there: the first is to fill it.
        let mut wins = Vec::new();
        for node in &nodes {
            match get_as(node, url, &[], Want::Recompute).await {
                FleetResult::Miss { lease: LeaseState::Acquired(win), .. } => wins.push((node, win)),
                FleetResult::Miss { lease: LeaseState::HeldElsewhere(_), .. } => {}
                got => panic!("{got:?}"),
            }
        }
        assert_eq!(1, wins.len());
        let (node, win) = wins.pop().unwrap();
        assert_eq!(Settled::Stored, put(node, url, &text("one")).await);
        drop(win);
        for node in &nodes {
            assert_eq!(b"one"[..], hit(get_as(node, url, &[], Want::Recompute).await).body);
        }
    });
}

/// A page whose lifetime was over ten seconds ago.
fn expired(body: &'static str) -> larder_store::StoredArc {
    let fields = [("Cache-Control", "max-age=60"), ("Age", "70"), ("ETag", "\"1\"")];
    page(&fields, &[], StoredBody::Heap(Bytes::from_static(body.as_bytes()).into()))
}

#[test]
fn one_of_four_nodes_recomputes_an_expired_page() {
    let servers = [Memcached::start(On::Unix, &[])];
    let settings = FleetSettings { connections: 1, ..settings(&servers) };
    run(async {
        let nodes: Vec<_> = (0..4).map(|_| fleet::fleet(settings.clone()).0).collect();
        let url = "http://a/";
        assert_eq!(Settled::Stored, put(&nodes[0], url, &expired("old")).await);
        assert!(
            matches!(get(&nodes[0], url).await, FleetResult::Hit { lease: LeaseState::NotNeeded, .. }),
            "who only looks takes no turn"
        );
        let mut wins = Vec::new();
        for node in &nodes {
            match get_as(node, url, &[], Want::Recompute).await {
                FleetResult::Hit { found, lease: LeaseState::Acquired(win) } => {
                    assert_eq!(b"old"[..], found.body);
                    wins.push((node, win));
                }
                FleetResult::Hit { lease: LeaseState::HeldElsewhere(_), .. } => {}
                got => panic!("{got:?}"),
            }
        }
        assert_eq!(1, wins.len());
        // Given back without a new response: the next has the turn, and what is there stays.
        let (node, _) = &wins[0];
        let node = (*node).clone();
        drop(wins);
        // Behind what was told and not waited for.
        assert_eq!(Removed::Everywhere, node.remove(b"http://other/").await);
        let (found, win) = match get_as(&nodes[3], url, &[], Want::Recompute).await {
            FleetResult::Hit { found, lease: LeaseState::Acquired(win) } => (found, win),
            got => panic!("{got:?}"),
        };
        assert_eq!(b"old"[..], found.body);
        assert_eq!(Settled::Stored, put(&nodes[3], url, &text("new")).await);
        drop(win);
        let got = get_as(&nodes[0], url, &[], Want::Recompute).await;
        assert!(matches!(got, FleetResult::Hit { lease: LeaseState::NotNeeded, .. }));
        assert_eq!(b"new"[..], hit(got).body);
    });
}

#[test]
fn a_turn_that_comes_to_nothing_is_given_back() {
    pair(
        |it| it.connections = 1,
        async |a, b, _| {
            let url = "http://a/";
            let got = get_as(&a, url, &[], Want::Recompute).await;
            assert!(matches!(got, FleetResult::Miss { lease: LeaseState::Acquired(_), .. }));
            assert!(matches!(
                get_as(&b, url, &[], Want::Recompute).await,
                FleetResult::Miss { lease: LeaseState::HeldElsewhere(_), .. }
            ));
            drop(got);
            // Behind what was told and not waited for.
            assert_eq!(Removed::Everywhere, a.remove(b"http://other/").await);
            assert!(matches!(
                get_as(&b, url, &[], Want::Recompute).await,
                FleetResult::Miss { lease: LeaseState::Acquired(_), .. }
            ));
        },
    );
}

#[test]
fn a_lease_of_before_a_removal_does_not_fill_the_page() {
    pair(as_it_is, async |a, b, _| {
        let url = "http://a/";
        let got = get_as(&a, url, &[], Want::Recompute).await;
        assert!(matches!(got, FleetResult::Miss { lease: LeaseState::Acquired(_), .. }));
        assert_eq!(Removed::Everywhere, b.remove(url.as_bytes()).await);
        assert_eq!(Settled::NotStored, put(&a, url, &text("from before")).await);
        drop(got);
        assert_miss(get(&b, url).await);
    });
}

#[test]
fn a_page_removed_by_another_node_is_not_restored_by_a_replacement() {
    for protocol in [MemcachedProtocol::Meta, MemcachedProtocol::Binary] {
        for recompute_once in [true, false] {
            let change =
                |it: &mut FleetSettings| (it.protocol, it.recompute_once) = (protocol, recompute_once);
            pair(change, async |a, b, _| {
                // One that has expired, and one of another variant, when they are computed anew by one node.
                let (de, en) = ([("accept-language", "de")], [("accept-language", "en")]);
                let varies = [("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")];
                let german = page(&varies, &de, StoredBody::Heap(Bytes::from_static(b"Guten Tag").into()));
                let english = page(&varies, &en, StoredBody::Heap(Bytes::from_static(b"Good day").into()));
                for (url, old, request, new) in [
                    ("http://a/", expired("old"), &[][..], text("new")),
                    ("http://b/", german.clone(), &en[..], english.clone()),
                ] {
                    assert_eq!(Settled::Stored, put(&a, url, &old).await);
                    let turn = get_as(&a, url, request, Want::Recompute).await;
                    assert_eq!(Removed::Everywhere, b.remove(url.as_bytes()).await);
                    assert_eq!(Settled::NotStored, put(&a, url, &new).await, "{url}");
                    drop(turn);
                    for request in [&[][..], &de, &en] {
                        assert_miss(get_as(&b, url, request, Want::ReadOnly).await);
                    }
                }
            });
        }
    }
}

#[test]
fn of_two_that_compute_the_same_the_first_stays_and_both_variants_do() {
    pair(
        |it| it.recompute_once = false,
        async |a, b, _| {
            let url = "http://a/";
            assert_eq!(Settled::Stored, put(&a, url, &expired("old")).await);
            for node in [&a, &b] {
                hit(get_as(node, url, &[], Want::Recompute).await);
            }
            assert_eq!(Settled::Stored, put(&a, url, &text("first")).await);
            let second = text("second");
            assert_eq!(Settled::NotStored, put(&b, url, &second).await);
            assert_ne!(u64::MAX, second.recheck.load(Relaxed), "the fleet has one, and is to be asked");
            assert_eq!(b"first"[..], hit(get(&b, url).await).body);
            // What had come before the other was asked for is no reason to leave that out, whenever it was written.
            let url = "http://c/";
            assert_eq!(Settled::Stored, put(&a, url, &expired("old")).await);
            for node in [&a, &b] {
                hit(get_as(node, url, &[], Want::Recompute).await);
            }
            assert_eq!(Settled::Stored, put(&a, url, &text("first")).await);
            let mut later = sample::owned(text("later"));
            later.meta.request_time.0 += 1;
            later.meta.response_time.0 += 1;
            assert_eq!(Settled::Stored, put(&b, url, &larder_store::StoredArc::new(later)).await);
            assert_eq!(b"later"[..], hit(get(&a, url).await).body);

            let varies = [("Cache-Control", "max-age=60"), ("Vary", "Accept-Language")];
            let languages =
                [[("accept-language", "de")], [("accept-language", "en")], [("accept-language", "fr")]];
            let variant =
                |at: usize| page(&varies, &languages[at], StoredBody::Heap(languages[at][0].1.into()));
            let url = "http://b/";
            assert_eq!(Settled::Stored, put(&a, url, &variant(0)).await);
            assert_miss(get_as(&a, url, &languages[1], Want::Recompute).await);
            assert_miss(get_as(&b, url, &languages[2], Want::Recompute).await);
            assert_eq!(Settled::Stored, put(&a, url, &variant(1)).await);
            assert_eq!(Settled::Stored, put(&b, url, &variant(2)).await);
            for it in &languages {
                assert_eq!(it[0].1.as_bytes(), hit(get_as(&a, url, it, Want::ReadOnly).await).body);
            }
        },
    );
}

#[test]
fn a_fleet_without_recompute_once_grants_no_lease() {
    for change in [
        (|it: &mut FleetSettings| it.protocol = MemcachedProtocol::Binary) as fn(&mut FleetSettings),
        |it: &mut FleetSettings| it.recompute_once = false,
    ] {
        pair(change, async |a, b, _| {
            for node in [&a, &b] {
                assert_miss(get_as(node, "http://a/", &[], Want::Recompute).await);
            }
        });
    }
}

#[test]
fn a_namespace_is_shared_by_hosts() {
    let change = |it: &mut FleetSettings| it.keys = FleetKeys::new("p:", Some("shop"), false).unwrap();
    pair(change, async |a, b, _| {
        assert_eq!(Settled::Stored, put(&a, "http://a.example/x", &text("x")).await);
        assert_eq!(b"x"[..], hit(get(&b, "http://b.example/x").await).body);
        assert_miss(get(&b, "https://b.example/x").await);
    });
}
