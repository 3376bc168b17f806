//! Files that change while they are cached or sent: a change is seen in time, and no two versions are ever
//! mixed.

mod support;

use larder_files::{FileLookup, OpenFile, RootOptions};
use larder_stdx::clock::Monotonic;
use larder_transport::body::BodyPiece;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use support::{Got, Site, read};

const LARGE: usize = 100_000;

#[track_caller]
fn check(site: &Site, now: u64, expect: &str) {
    let got = site.at(now, "GET /f");
    let text = got.text();
    assert_eq!((expect.len(), true), (text.len(), text == expect), "at {now}: {} {text:.20}", got.status);
    assert_eq!(expect.len().to_string(), got.field("content-length"));
}

/// Files are sent as they are on the disk.
fn uncopied() -> RootOptions {
    RootOptions { copied_file: 0, ..RootOptions::default() }
}

fn file(site: &Site, now: u64) -> Arc<OpenFile> {
    match site.block_on(site.root.lookup("/f", &[], Monotonic(now))) {
        Ok(FileLookup::File(file)) => file,
        _ => panic!("a file"),
    }
}

fn is_intact(file: &OpenFile) -> bool {
    match &file.body {
        BodyPiece::Bytes(_) => true,
        BodyPiece::File(slice) => slice.owner.is_intact(),
    }
}

/// The new text, in place, by rename, and by removal: the ways in which people change files.
fn changes(text: &str) -> Vec<Change> {
    let [a, b, c] = [(); 3].map(|()| text.to_owned());
    vec![
        Box::new(move |it: &Site| it.write("f", &a)),
        Box::new(move |it: &Site| {
            it.write("f.new", &b);
            fs::rename(it.path("f.new"), it.path("f")).unwrap();
        }),
        Box::new(move |it: &Site| {
            fs::remove_file(it.path("f")).unwrap();
            it.write("f", &c);
        }),
    ]
}

type Change = Box<dyn Fn(&Site)>;

#[test]
fn a_change_is_seen_within_the_time() {
    for (old, new) in [("old", "newer"), ("old", "new"), ("", "x"), ("x", "")] {
        for change in changes(new) {
            let site = Site::new(&[("f", old)]);
            check(&site, 1000, old);
            change(&site);
            check(&site, 1499, old);
            check(&site, 2000, new);
        }
    }
}

#[test]
fn a_large_file_changes_at_once_because_its_bytes_are_not_kept() {
    let (old, new) = ("o".repeat(LARGE), "n".repeat(LARGE + 1));
    let site = Site::with(uncopied(), &[("f", &old)]);
    check(&site, 1000, &old);
    site.write("f", &new);
    assert!(site.root.lookup_now("/f", &[], Monotonic(1001)).is_none(), "its head would be a lie");
    check(&site, 1001, &new);
}

#[test]
fn the_validator_changes_with_the_bytes() {
    let site = Site::new(&[("f", "one")]);
    let mut etags = vec![site.at(1000, "GET /f").field("etag").to_owned()];
    site.set_modified("f", 1_000_000_000);
    assert_eq!(etags[0], site.at(2000, "GET /f").field("etag"), "another deployment of the same bytes");
    site.write("f.new", "two");
    site.set_modified("f.new", 1_000_000_000);
    fs::rename(site.path("f.new"), site.path("f")).unwrap();
    etags.push(site.at(3000, "GET /f").field("etag").to_owned());
    etags.dedup();
    assert_eq!(2, etags.len(), "also for files of one size and time: {etags:?}");
    assert_eq!("two", site.at(3000, "GET /f").text());
}

#[test]
fn a_removed_file_is_gone_within_the_time() {
    let large = "l".repeat(LARGE);
    for (text, options) in [("small", uncopied()), (&large, uncopied()), (&large, RootOptions::default())] {
        let site = Site::with(options, &[("f", text)]);
        check(&site, 1000, text);
        fs::remove_file(site.path("f")).unwrap();
        check(&site, 1400, text);
        assert_eq!((404, 0), (site.at(2000, "GET /f").status, site.root.files_held()));
        site.write("f", "again");
        check(&site, 2001, "again");
    }
}

#[test]
fn a_file_becomes_a_directory_and_back() {
    let site = Site::new(&[("f", "file")]);
    check(&site, 1000, "file");
    fs::remove_file(site.path("f")).unwrap();
    site.write("f/index.html", "index");
    assert_eq!((301, "/f/".to_owned()), {
        let got = site.at(2000, "GET /f");
        (got.status, got.field("location").to_owned())
    });
    assert_eq!("index", site.at(2000, "GET /f/").text());
    fs::remove_dir_all(site.path("f")).unwrap();
    site.write("f", "file");
    assert_eq!(404, site.at(3000, "GET /f/").status);
    check(&site, 3000, "file");
}

#[test]
fn siblings_come_and_go() {
    let site = Site::new(&[("f", "plain")]);
    let get = |now| {
        let got = site.at(now, "GET /f\nAccept-Encoding: gzip");
        format!("{} {}", got.text(), got.find("vary").unwrap_or("-"))
    };
    assert_eq!("plain -", get(1000));
    site.write("f.gz", "gzip");
    assert_eq!("gzip Accept-Encoding", get(2000));
    site.write("f.gz", "gzip two");
    assert_eq!("gzip two Accept-Encoding", get(3000));
    fs::remove_file(site.path("f.gz")).unwrap();
    assert_eq!("plain -", get(4000));
    site.write("f.gz", "gzip");
    site.write("f", "newer plain");
    site.set_modified("f.gz", 1_000_000_000);
    assert_eq!("newer plain -", get(5000), "the sibling is older than the file");
}

/// A send in progress continues with the old bytes, or ends with an error.
#[test]
fn a_send_never_mixes() {
    let old = "o".repeat(LARGE);
    let sends = |name: &str, change: &dyn Fn(&Site), expect: bool| {
        for (options, expect) in [(uncopied(), expect), (RootOptions::default(), true)] {
            let site = Site::with(options, &[("f", &old)]);
            let file = file(&site, 1000);
            let first = read(&file.body.slice(0, 1000));
            change(&site);
            assert_eq!((1000, expect), (first.len(), is_intact(&file)), "{name}");
            if expect {
                let rest = read(&file.body.slice(1000, LARGE as u64 - 1000));
                assert!(rest.len() == LARGE - 1000 && rest.iter().all(|it| *it == b'o'), "{name}");
            }
        }
    };
    sends("untouched", &|_| {}, true);
    sends("removed", &|it| fs::remove_file(it.path("f")).unwrap(), true);
    sends("renamed", &|it| fs::rename(it.path("f"), it.path("g")).unwrap(), true);
    sends("linked", &|it| fs::hard_link(it.path("f"), it.path("g")).unwrap(), true);
    sends(
        "replaced",
        &|it| {
            it.write("g", &"n".repeat(LARGE));
            fs::rename(it.path("g"), it.path("f")).unwrap();
        },
        true,
    );
    sends(
        "truncated",
        &|it| File::options().write(true).open(it.path("f")).unwrap().set_len(10).unwrap(),
        false,
    );
    sends("emptied and written", &|it| it.write("f", &"n".repeat(LARGE)), false);
    sends("edited", &|it| edit(it, 5000), false);
    sends("longer", &|it| it.write("f", &"n".repeat(LARGE * 2)), false);
    sends("appended to", &|it| append(it, b"new"), true);
    let twice = |it: &Site| {
        append(it, b"new");
        append(it, b"newer");
    };
    sends("appended to twice", &twice, true);
    let appended_and_edited = |it: &Site| {
        append(it, b"new");
        edit(it, LARGE as u64 - 9);
    };
    sends("appended to, and edited at its end", &appended_and_edited, false);
}

/// Whether the bytes that are read at this offset may be sent.
fn holds(file: &OpenFile, offset: u64) -> bool {
    let BodyPiece::File(slice) = &file.body else { panic!("a file") };
    let bytes = read(&file.body.slice(offset, 1000.min(slice.length - offset)));
    slice.owner.holds(offset, &bytes)
}

/// Offsets at the beginning, behind the header of a recording, in two blocks and at their border, and at the end.
const OFFSETS: [u64; 6] = [0, 4096, 20_000, 65_000, 70_000, 3 * LARGE as u64 - 10];

/// Which of [`OFFSETS`] may be sent of a file after a change; `at_rest` says whether it was not written to for a while before.
#[track_caller]
fn check_holds(at_rest: bool, change: &dyn Fn(&Site), expect: [bool; 6]) {
    let text: String = (0..3 * LARGE).map(|it| char::from(b'a' + (it * 7 % 23) as u8)).collect();
    let site = Site::with(uncopied(), &[("f", &text)]);
    if at_rest {
        site.set_modified("f", 1_000_000_000);
    }
    let file = file(&site, 1000);
    assert_eq!([true; 6], OFFSETS.map(|it| holds(&file, it)));
    change(&site);
    assert_eq!(expect, OFFSETS.map(|it| holds(&file, it)));
}

/// A new time alone cuts nothing, nor does a recording whose header is written anew; what was edited is not sent.
#[test]
fn bytes_of_a_changed_file_are_sent_only_if_unchanged() {
    let touch = |it: &Site| it.set_modified("f", 1_500_000_000);
    let (all, none) = ([true; 6], [false; 6]);
    check_holds(true, &touch, all);
    check_holds(false, &touch, none);
    check_holds(true, &|it| edit(it, 66_000), [true, true, true, false, false, true]);
    let edited_and_touched = |it: &Site| {
        edit(it, 5000);
        touch(it);
    };
    check_holds(true, &edited_and_touched, [false, false, false, false, true, true]);
    let recorded = |it: &Site| {
        edit(it, 4);
        append(it, b"more");
    };
    check_holds(false, &recorded, [false, true, true, true, true, true]);
    check_holds(true, &recorded, [false, true, true, true, true, true]);
    let recorded_and_edited = |it: &Site| {
        recorded(it);
        edit(it, 3 * LARGE as u64 / 2);
    };
    check_holds(false, &recorded_and_edited, none);
    let shorter =
        |it: &Site| File::options().write(true).open(it.path("f")).unwrap().set_len(100_000).unwrap();
    // At the end there is nothing to read.
    check_holds(true, &shorter, [true, true, true, false, false, true]);
}

fn append(site: &Site, text: &[u8]) {
    File::options().append(true).open(site.path("f")).unwrap().write_all(text).unwrap();
}

/// A log: a client gets it up to its length at that time, and is not cut because of later writes.
#[test]
fn a_file_that_grows_is_never_busy() {
    for (size, options) in
        [(1000, RootOptions::default()), (LARGE, RootOptions::default()), (LARGE, uncopied())]
    {
        let site =
            Site::with(RootOptions { cache_for: Duration::ZERO, ..options }, &[("f", &"o".repeat(size))]);
        let path = site.path("f");
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut file = File::options().append(true).open(&path).unwrap();
                for _ in 0..100_000 {
                    if stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
                        break;
                    }
                    file.write_all(b"o").unwrap();
                }
            });
            let _stop = stop;
            for now in 0..200 {
                let got = site.at(now, "GET /f");
                assert_eq!(
                    (200, got.body.len().to_string().as_str()),
                    (got.status, got.field("content-length")),
                    "of a file of {size} bytes at {now}"
                );
                assert!(got.body.len() >= size && got.body.iter().all(|it| *it == b'o'));
            }
        });
    }
}

/// Two nodes with the same files, of other inodes; and of other dates, unless the file is too large for memory.
#[test]
fn nodes_agree_on_the_validator() {
    let large = "l".repeat(LARGE);
    for (text, options) in
        [("small", RootOptions::default()), (&large, RootOptions::default()), (&large, uncopied())]
    {
        let tag = |modified| {
            let site = Site::with(options.clone(), &[("beside", "x"), ("f", text)]);
            site.set_modified("f", modified);
            site.get("/f").field("etag").to_owned()
        };
        assert_eq!(tag(1_000_000_000), tag(1_000_000_000));
        let in_memory = text.len() as u64 <= options.copied_file.max(options.small_file);
        assert_eq!(in_memory, tag(1_000_000_000) == tag(1_000_000_001));
    }
}

fn edit(site: &Site, at: u64) {
    File::options().write(true).open(site.path("f")).unwrap().write_all_at(b"new", at).unwrap();
}

#[test]
fn a_file_in_memory_is_never_two_halves() {
    never_two_halves(["a".repeat(9000), "b".repeat(16_000)]);
    never_two_halves(["a".repeat(90_000), "b".repeat(160_000)]);
}

/// One thread rewrites a file in place as fast as it can, the other reads it.
fn never_two_halves(texts: [String; 2]) {
    let site = Site::with(RootOptions { cache_for: Duration::ZERO, ..RootOptions::default() }, &[("f", "")]);
    let path = site.path("f");
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let file = File::options().write(true).open(&path).unwrap();
            for it in texts.iter().cycle() {
                if stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
                    break; // Also where the reader has panicked.
                }
                // As editors do: never both letters at a time, but any length of either.
                file.set_len(0).unwrap();
                file.write_all_at(it.as_bytes(), 0).unwrap();
            }
        });
        let _stop = stop;
        for now in 0..500 {
            let got = site.at(now, "GET /f");
            if got.status == 503 {
                continue; // Never the same twice while it was read.
            }
            let mixed = got.body.contains(&b'a') && got.body.contains(&b'b');
            assert!(!mixed, "two versions in one body of {}", got.body.len());
            assert_eq!((200, got.body.len().to_string().as_str()), (got.status, got.field("content-length")));
        }
    });
}

#[test]
fn one_request_checks_a_file_halfway_while_other_requests_are_served() {
    let site = Site::new(&[("f", "text")]);
    check(&site, 1000, "text");
    let now = |at| site.root.lookup_now("/f", &[], Monotonic(at)).is_some();
    assert!(now(1499));
    assert!(!now(1500), "somebody has to look");
    let loads = || site.counters.files_loads.get();
    let before = loads();
    check(&site, 1500, "text");
    assert_eq!(before + 1, loads());
    assert!(now(1999) && !now(2000), "counted from the last look");
    fs::remove_file(site.path("f")).unwrap();
    let first = site.root.lookup("/f", &[], Monotonic(2000));
    let second = site.root.lookup("/f", &[], Monotonic(2000));
    let (first, second) = site.block_on(async {
        let pool = occupy_the_pool();
        let mut first = std::pin::pin!(first);
        poll_once(first.as_mut()).await;
        let second = second.await;
        drop(pool);
        (first.await, second)
    });
    assert!(first.is_err() && second.is_ok(), "the second did not wait for the disk");
}

/// Keeps the only thread of the test's pool until what it returns is dropped.
fn occupy_the_pool() -> std::sync::mpsc::Sender<()> {
    let (release, released) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || released.recv());
    release
}

/// Lets a future run until it waits for the first time.
async fn poll_once<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) {
    let mut poll =
        |it: &mut std::task::Context<'_>| std::task::Poll::Ready(future.as_mut().poll(it).is_pending());
    assert!(std::future::poll_fn(&mut poll).await, "it has to wait");
}

#[test]
fn the_cache_is_bounded() {
    let options = RootOptions { entries: 10, ..RootOptions::default() };
    let site = Site::with(options, &[("hot", "hot")]);
    for it in 0..100 {
        let name = format!("f{it}");
        site.write(&name, &name);
        assert_eq!(name, site.at(1000, &format!("GET /{name}")).text());
        assert_eq!("hot", site.at(1000, "GET /hot").text());
        assert!(site.root.files_held() <= 10);
    }
    assert!(site.root.lookup_now("/hot", &[], Monotonic(1000)).is_some(), "what is used stays");
    assert!(site.counters.files_evictions.get() >= 90);
    assert!(site.counters.files_loads.get() <= 102, "hot was loaded once");
}

#[test]
fn memory_is_bounded() {
    let options = RootOptions { memory: 100_000, ..RootOptions::default() };
    let site = Site::with(options, &[]);
    for it in 0..50 {
        site.write(&format!("f{it}"), &"x".repeat(16_000));
        site.at(1000, &format!("GET /f{it}"));
        assert!(site.root.memory_held() <= 100_000);
    }
    assert!((1..=6).contains(&site.root.files_held()));
}

#[test]
fn descriptors_come_back() {
    let site = Site::with(RootOptions { entries: 8, ..uncopied() }, &[]);
    let open = || {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(Result::ok)
            .filter(|it| fs::read_link(it.path()).is_ok_and(|it| it.starts_with(site.outside())))
            .count()
    };
    for it in 0..50 {
        site.write(&format!("f{it}"), &"x".repeat(LARGE));
        site.at(1000, &format!("GET /f{it}"));
        for name in ["absent", "f0/x", ""] {
            site.at(1000, &format!("GET /{name}"));
        }
    }
    assert!(open() <= 8 + 1, "{} open", open());
}

#[test]
fn a_full_queue_is_busy_and_drains() {
    let options =
        RootOptions { concurrency: 1, queue: 2, cache_for: Duration::ZERO, ..RootOptions::default() };
    let site = Site::with(options, &[("f", "text")]);
    let root = &site.root;
    let lookup = || root.answer("GET", "/f", &[], Monotonic(1000));
    let statuses = site.block_on(async {
        let pool = occupy_the_pool();
        let mut futures: Vec<_> = (0..4).map(|_| Box::pin(lookup())).collect();
        for it in &mut futures[..3] {
            poll_once(it.as_mut()).await;
        }
        let refused = Got::of("GET", &futures.pop().unwrap().await);
        assert_eq!(("1", 1), (refused.field("retry-after"), site.counters.files_busy.get()));
        drop(futures.remove(1)); // A client that goes away gives its place back.
        futures.push(Box::pin(lookup()));
        poll_once(futures[2].as_mut()).await;
        drop(pool);
        let mut statuses = Vec::new();
        for it in futures {
            statuses.push(it.await.status);
        }
        statuses
    });
    assert_eq!(vec![200, 200, 200], statuses);
}

/// 8 GiB that take no room on the disk; a byte of meaning on each side of 2^32.
#[test]
fn offsets_beyond_32_bits() {
    const SIZE: u64 = 8 << 30;
    let site = Site::new(&[("f", "")]);
    let file = File::options().write(true).open(site.path("f")).unwrap();
    file.set_len(SIZE).unwrap();
    file.write_all_at(b"<2^32>", (1 << 32) - 3).unwrap();
    file.write_all_at(b"end", SIZE - 3).unwrap();
    let head = site.request("HEAD /f");
    assert_eq!((200, "8589934592"), (head.status, head.field("content-length")));
    let check = |range: &str, place: &str, expect: &str| {
        let got = site.request(&format!("GET /f\nRange: bytes={range}"));
        assert_eq!((206, expect), (got.status, got.text().as_str()), "{range}");
        assert_eq!(format!("bytes {place}/8589934592"), got.field("content-range"));
    };
    check("4294967293-4294967298", "4294967293-4294967298", "<2^32>");
    check("4294967296-4294967297", "4294967296-4294967297", "32");
    check("-3", "8589934589-8589934591", "end");
    check("8589934591-", "8589934591-8589934591", "d");
    assert_eq!(416, site.request("GET /f\nRange: bytes=8589934592-").status);
    let whole = site.block_on(site.root.answer("GET", "/f", &[], Monotonic(1000)));
    assert_eq!(SIZE, whole.length(), "promised, not read");
    let parts = site.request("GET /f\nRange: bytes=4294967294-4294967297,-2").text();
    assert!(parts.contains("bytes 4294967294-4294967297/8589934592\r\n\r\n2^32"), "{parts}");
    assert!(parts.contains("bytes 8589934590-8589934591/8589934592\r\n\r\nnd\r\n"), "{parts}");
}
