//! Files that are compressed by the server: each form is made once, kept within the bounds of the cache, and is a form of
//! its own for validators and ranges.

mod support;

use larder_files::{Encoded, FileCompression, FileEncoder, RootOptions};
use larder_semantics::coding::Coding;
use larder_semantics::compress::{CodingPreference, Compress};
use larder_semantics::field::Field;
use larder_stdx::clock::Monotonic;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use support::{Got, Site};

/// Encodings so far, the most at the same time, and what the next ones give.
#[derive(Default)]
struct Works {
    made: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
    script: Mutex<Vec<Encoded>>,
}

/// The encoder of these tests: the coding's name and a third of the bytes.
fn encode(works: &Works, coding: Coding, plain: &[u8]) -> Encoded {
    let running = works.running.fetch_add(1, SeqCst) + 1;
    works.most.fetch_max(running, SeqCst);
    works.made.fetch_add(1, SeqCst);
    let scripted = works.script.lock().unwrap().pop();
    works.running.fetch_sub(1, SeqCst);
    scripted.unwrap_or_else(|| {
        Encoded::Made([format!("{coding:?}:").as_bytes(), &plain[..plain.len() / 3]].concat())
    })
}

fn options(works: &Arc<Works>) -> RootOptions {
    let works = works.clone();
    let encoder = FileEncoder::new(2, move |coding, plain| encode(&works, coding, plain));
    let codings = CodingPreference::of([Coding::Zstd, Coding::Brotli, Coding::Gzip]);
    let types = vec!["text/*".to_owned()];
    let rules = Arc::new(Compress { codings, min_size: 100, max_size: 8 << 20, types, uncached: true });
    RootOptions { compress: Some(FileCompression { rules, encoder }), ..RootOptions::default() }
}

fn site(files: &[(&str, &str)]) -> (Site, Arc<Works>) {
    let works = Arc::default();
    (Site::with(options(&works), files), works)
}

fn accepting(site: &Site, target: &str, accept: &str) -> Got {
    site.request(&format!("GET {target}\nAccept-Encoding: {accept}"))
}

fn text() -> String {
    "0123456789".repeat(100)
}

#[test]
fn each_form_is_made_once() {
    let (site, works) = site(&[("a.txt", &text())]);
    let check = |accept: &str, coding: Option<&str>, begins: &str| {
        for method in ["GET", "GET", "HEAD"] {
            let got = site.request(&format!("{method} /a.txt\nAccept-Encoding: {accept}"));
            assert_eq!((200, coding), (got.status, got.find("content-encoding")), "{accept}");
            assert_eq!("Accept-Encoding", got.field("vary"));
            assert_eq!("text/plain; charset=utf-8", got.field("content-type"));
            if method == "GET" {
                assert!(got.text().starts_with(begins), "{accept}");
                assert_eq!(got.body.len().to_string(), got.field("content-length"));
            }
        }
    };
    check("gzip, deflate, br, zstd", Some("zstd"), "Zstd:01");
    check("gzip, br", Some("br"), "Brotli:01");
    check("gzip", Some("gzip"), "Gzip:01");
    check("gzip;q=0.5, br;q=0.4", Some("gzip"), "Gzip:01");
    check("identity", None, "0123");
    check("", None, "0123");
    assert_eq!(3, works.made.load(SeqCst));
    let fields = [Field { name: "Accept-Encoding", value: b"br" }];
    let hit = site.root.lookup_now("/a.txt", &fields, Monotonic(1000)).expect("a form is a hit");
    assert!(String::from_utf8_lossy(&hit.head.text()).contains("\r\nContent-Encoding: br\r\n"));
    let same = site.root.lookup_now("/a.txt", &fields, Monotonic(1000)).unwrap();
    assert!(Arc::ptr_eq(&hit, &same));
    assert_eq!(None, site.get("/a.txt").find("content-encoding"));
}

#[test]
fn small_and_compressed_files_are_not_compressed() {
    let (site, works) = site(&[("small.txt", "small"), ("picture.png", &text()), ("archive.gz", &text())]);
    for target in ["/small.txt", "/picture.png", "/archive.gz"] {
        let got = accepting(&site, target, "gzip, br, zstd");
        assert_eq!((None, None), (got.find("content-encoding"), got.find("vary")), "{target}");
    }
    assert_eq!(0, works.made.load(SeqCst));
}

#[test]
fn a_form_without_gain_is_not_made_again_but_one_without_room_is() {
    let (site, works) = site(&[("a.txt", &text())]);
    works.script.lock().unwrap().extend([Encoded::Later, Encoded::NoGain]);
    assert_eq!(None, accepting(&site, "/a.txt", "zstd").find("content-encoding"));
    assert_eq!(None, accepting(&site, "/a.txt", "zstd").find("content-encoding"));
    assert_eq!(1, works.made.load(SeqCst));
    assert_eq!(None, accepting(&site, "/a.txt", "gzip").find("content-encoding"), "no room");
    assert_eq!(Some("gzip"), accepting(&site, "/a.txt", "gzip").find("content-encoding"));
}

#[test]
fn siblings_come_first() {
    let (site, works) = site(&[("a.txt", &text()), ("a.txt.gz", "the sibling")]);
    assert_eq!("the sibling", accepting(&site, "/a.txt", "gzip, br, zstd").text());
    assert_eq!(0, works.made.load(SeqCst));
    assert_eq!(Some("br"), accepting(&site, "/a.txt", "br").find("content-encoding"));
    assert_eq!(Some("br"), accepting(&site, "/a.txt", "gzip;q=0.1, br").find("content-encoding"));
    assert_eq!(1, works.made.load(SeqCst));
}

#[test]
fn each_form_has_its_own_weak_tag_and_no_ranges() {
    let (site, _) = site(&[("a.txt", &text())]);
    let plain = site.get("/a.txt").field("etag").to_owned();
    let tag = |accept: &str| accepting(&site, "/a.txt", accept).field("etag").to_owned();
    let tags = [tag("gzip"), tag("br"), tag("zstd")];
    for (tag, coding) in tags.iter().zip(["gzip", "br", "zstd"]) {
        assert_eq!(format!("W/{}-{coding}\"", plain.trim_end_matches('"')), **tag);
        let status = |sent: &str, field: &str| {
            let request = format!("GET /a.txt\nAccept-Encoding: {coding}\n{field}: {sent}");
            site.request(&request).status
        };
        assert_eq!((304, 200), (status(tag, "If-None-Match"), status(&plain, "If-None-Match")));
        assert_eq!((412, 200), (status(tag, "If-Match"), status(&plain, "If-Match")));
    }
    assert_eq!(None, accepting(&site, "/a.txt", "gzip").find("accept-ranges"));
    let part = site.request("GET /a.txt\nAccept-Encoding: gzip\nRange: bytes=0-3");
    assert_eq!((206, "0123", None), (part.status, part.text().as_str(), part.find("content-encoding")));
    assert_eq!((plain.as_str(), "bytes 0-3/1000"), (part.field("etag"), part.field("content-range")));
    let whole = format!("GET /a.txt\nAccept-Encoding: gzip\nRange: bytes=0-3\nIf-Range: {}", tags[0]);
    assert_eq!((200, 1000), (site.request(&whole).status, site.request(&whole).body.len()));
}

#[test]
fn a_changed_file_has_new_forms() {
    let (site, works) = site(&[("a.txt", &text())]);
    let old = accepting(&site, "/a.txt", "gzip");
    site.write("a.txt", &"new ".repeat(300));
    let new = site.at(9000, "GET /a.txt\nAccept-Encoding: gzip");
    assert!(new.text().starts_with("Gzip:new "));
    assert_ne!(old.field("etag"), new.field("etag"));
    assert_eq!(2, works.made.load(SeqCst));
    fs::remove_file(site.path("a.txt")).unwrap();
    assert_eq!(404, site.at(20_000, "GET /a.txt\nAccept-Encoding: gzip").status);
    assert_eq!((0, 0), (site.root.files_held(), site.root.memory_held()));
}

/// Bodies of every size: on the heap, copied, and in their own file.
#[test]
fn large_files() {
    let large = "x".repeat(3 << 20);
    let (site, works) = site(&[("copied.txt", &large[..500_000]), ("large.txt", &large)]);
    let got = accepting(&site, "/copied.txt", "gzip");
    assert_eq!((Some("gzip"), 500_000 / 3 + 5), (got.find("content-encoding"), got.body.len()));
    // The first request does not wait for a form that takes long.
    assert_eq!(None, accepting(&site, "/large.txt", "gzip").find("content-encoding"));
    let mut tries = 0;
    while accepting(&site, "/large.txt", "gzip").find("content-encoding").is_none() {
        tries += 1;
        assert!(tries < 100_000, "never made");
        site.block_on(tokio::task::yield_now());
    }
    assert_eq!(2, works.made.load(SeqCst));
}

#[test]
fn forms_count_in_the_bound_of_the_cache() {
    let works = Arc::default();
    let options = RootOptions { entries: 8, ..options(&works) };
    let names: Vec<String> = (0..20).map(|it| format!("{it}.txt")).collect();
    let body = text();
    let files: Vec<(&str, &str)> = names.iter().map(|it| (it.as_str(), body.as_str())).collect();
    let site = Site::with(options, &files);
    for name in &names {
        for accept in ["gzip", "br", "zstd"] {
            assert_eq!(Some(accept), accepting(&site, &format!("/{name}"), accept).find("content-encoding"));
        }
        assert!(site.root.files_held() <= 8, "{}", site.root.files_held());
    }
    let forms = 2 * (1000 + 3 * 340) + 8 * 2000;
    assert!(site.root.memory_held() < forms, "{}", site.root.memory_held());
}

/// A hundred requests for the same new form: one encoding, and every response is coded.
#[test]
fn requests_at_once_share_the_work() {
    let (site, works) = site(&[("a.txt", &text()), ("b.txt", &text())]);
    let fields = [Field { name: "Accept-Encoding", value: b"gzip" }];
    let answers = site.block_on(async {
        let one = |it: usize| {
            let root = site.root.clone();
            let target = if it.is_multiple_of(2) { "/a.txt" } else { "/b.txt" };
            let fields = &fields;
            async move { root.answer("GET", target, fields, Monotonic(1000)).await }
        };
        futures_join((0..100).map(one).collect()).await
    });
    assert!(answers.iter().all(|it| it.fields.get("content-encoding") == Some(b"gzip")));
    assert_eq!(2, works.made.load(SeqCst));
    assert!(works.most.load(SeqCst) <= 2);
}

/// Drives all of them on this thread.
async fn futures_join<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = futures.into_iter().map(Box::pin).map(Some).collect();
    let mut done: Vec<Option<T>> = pending.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (slot, result) in pending.iter_mut().zip(&mut done) {
            if let Some(future) = slot
                && let std::task::Poll::Ready(it) = future.as_mut().poll(context)
            {
                (*slot, *result) = (None, Some(it));
            }
        }
        match pending.iter().all(Option::is_none) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// A client that goes away while its form is made loses nothing for the next one.
#[test]
fn a_form_is_made_although_its_client_went_away() {
    let (site, works) = site(&[("a.txt", &text())]);
    site.get("/a.txt");
    let fields = [Field { name: "Accept-Encoding", value: b"gzip" }];
    site.block_on(async {
        let mut gone = Box::pin(site.root.answer("GET", "/a.txt", &fields, Monotonic(1000)));
        std::future::poll_fn(|context| {
            let _ = gone.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    });
    assert_eq!(Some("gzip"), accepting(&site, "/a.txt", "gzip").find("content-encoding"));
    assert_eq!(1, works.made.load(SeqCst));
}
