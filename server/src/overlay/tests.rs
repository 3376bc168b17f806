use super::*;
use larder_config::page_url::BareWord;
use larder_store::RamSettings;

const NOW: OverlayTime = OverlayTime { wall: WallTime(1_000_000), uptime: Monotonic(5_000) };

struct World {
    overlays: Arc<Overlays>,
    store: Arc<Store>,
    counters: Arc<Counters>,
}

fn world() -> World {
    let counters: Arc<Counters> = Arc::default();
    let settings = RamSettings { budget: 4 << 20, heap_line: 16 << 10, fills: 4 };
    let store = Store::new(settings, counters.clone()).unwrap();
    World { overlays: Overlays::new(store.clone(), counters.clone()), store, counters }
}

impl World {
    fn put(
        &self,
        uri: &str,
        body: &[u8],
        ttl: Option<u64>,
        most: u64,
    ) -> Result<OverlayReport, OverlayRefusal> {
        let page = OverlayPage { status: 200, content_type: None, body, ttl, by: "me" };
        self.overlays.put(OverlayTarget::read(uri, BareWord::IsPath).unwrap(), &page, most, NOW)
    }

    #[track_caller]
    fn check(&self, authority: &str, target: &str, expect: Option<&str>) {
        let found = self.overlays.find(authority, target, || NOW.uptime).map(|it| it.report().uri);
        assert_eq!(expect, found.as_deref(), "{authority} {target}");
    }
}

#[test]
fn the_host_before_every_host() {
    let world = world();
    assert!(!world.overlays.any());
    for uri in ["/a", "http://h/a", "http://h:81/b?c"] {
        world.put(uri, b"x", None, 1 << 20).unwrap();
    }
    world.check("h", "/a", Some("*://h/a"));
    world.check("H:80", "/a", Some("*://h/a"));
    world.check("other", "/a", Some("/a"));
    world.check("h:81", "/b?c", Some("*://h:81/b?c"));
    world.check("h", "/b?c", None);
    world.check("h:81", "/b", None);
    let removed = world
        .overlays
        .remove(&OverlayTarget::read("http://h/a", BareWord::IsPath).unwrap(), NOW.uptime)
        .unwrap();
    assert_eq!("*://h/a", removed.uri);
    world.check("h", "/a", Some("/a"));
    assert_eq!(
        None,
        world.overlays.remove(&OverlayTarget::read("http://h/a", BareWord::IsPath).unwrap(), NOW.uptime)
    );
    assert_eq!(2, world.overlays.list(NOW.uptime).0.len());
}

/// To the millisecond, and whatever becomes of the wall clock.
#[test]
fn a_lifetime_ends() {
    let world = world();
    let report = world.put("/a", b"x", Some(10), 1 << 20).unwrap();
    assert_eq!(Some(WallTime(NOW.wall.0 + 10)), report.expires);
    world.put("/b", b"x", None, 1 << 20).unwrap();
    let after = |millis| Monotonic(NOW.uptime.0 + millis);
    let at = |millis| world.overlays.find("h", "/a", || after(millis)).is_some();
    assert_eq!([true, true, false], [0, 9_999, 10_000].map(at));
    world.overlays.sweep(after(9_999));
    assert_eq!(2, world.counters.overlays.get());
    world.overlays.sweep(after(10_000));
    assert_eq!(1, world.counters.overlays.get());
}

#[test]
fn the_memory_of_overlays_is_bounded_counted_and_freed() {
    let world = world();
    let before = world.store.used();
    let large = vec![b'x'; 100_000];
    let most = 250_000;
    let report = world.put("/1", &large, None, most).unwrap();
    assert_eq!(100_000, report.bytes);
    world.put("/2", &large, None, most).unwrap();
    let refused = world.put("/3", &large, None, most).unwrap_err();
    assert!(matches!(refused, OverlayRefusal::OverSize { bytes: 100_516, left: 48_968 }), "{refused:?}");
    assert_eq!(1, world.counters.overlays_refused.get());
    world.put("/2", &large, None, most).expect("in its own place there is room");
    assert!(world.store.used() - before >= 200_000, "of the RAM budget");
    assert_eq!(201_032, world.counters.overlay_bytes.get());
    assert_eq!(201_032, world.overlays.list(NOW.uptime).1);
    let reader = world.overlays.find("h", "/1", || NOW.uptime).unwrap();
    for uri in ["/1", "/2"] {
        world.overlays.remove(&OverlayTarget::read(uri, BareWord::IsPath).unwrap(), NOW.uptime).unwrap();
    }
    assert!(!world.overlays.any());
    assert!(world.store.used() - before >= 100_000, "what is being sent is there still");
    drop(reader);
    assert_eq!(before, world.store.used());
    assert_eq!(Err(OverlayRefusal::NoRoom), world.put("/4", &vec![0; 2 << 20], None, u64::MAX));
    assert_eq!(before, world.store.used());
}

#[test]
fn the_number_of_overlays_is_bounded() {
    let world = world();
    for number in 0..MOST {
        world.put(&format!("/{number}"), b"", None, u64::MAX).unwrap();
    }
    assert_eq!(Err(OverlayRefusal::TooMany), world.put("/more", b"", None, u64::MAX));
    world.put("/7", b"in place of another", None, u64::MAX).unwrap();
}

#[test]
fn an_etag_depends_on_body_and_content_type() {
    let world = world();
    let etag = |uri: &str, body: &[u8]| world.put(uri, body, None, 1 << 20).unwrap().etag;
    assert_eq!(etag("/a", b"one"), etag("/b", b"one"));
    assert_ne!(etag("/a", b"one"), etag("/a", b"two"));
    assert_ne!(etag("/a.css", b"one"), etag("/a.js", b"one"), "of another type");
}

#[test]
fn the_type_is_given_or_guessed() {
    #[track_caller]
    fn check(uri: &str, given: Option<&str>, body: &[u8], expect: &str) {
        let page =
            OverlayPage { status: 200, content_type: given.map(str::as_bytes), body, ttl: None, by: "" };
        let found = content_type(&OverlayTarget::read(uri, BareWord::IsPath).unwrap(), &page);
        assert_eq!(expect, String::from_utf8(found).unwrap(), "{uri} {given:?}");
    }
    let form = Some("application/x-www-form-urlencoded");
    check("/a.css", Some("text/plain"), b"", "text/plain");
    check("/a.css", form, b"", "text/css; charset=utf-8");
    check("/a.css?v=1.js", None, b"", "text/css; charset=utf-8");
    check("/", form, b"\xef\xbb\xbf \n<!DOCTYPE html><p>", "text/html; charset=utf-8");
    check("/about", None, b"<HTML>", "text/html; charset=utf-8");
    check("/about", None, b"<HTMLX", "text/html; charset=utf-8");
    for page in ["<h1>soon</h1>", "<p>", "<div class=a>", "<b>x", " <!-- x --><html>", "<my-page/>", "<br"] {
        check("/shop", form, page.as_bytes(), "text/html; charset=utf-8");
    }
    check("/shop", form, b"<me@example.org> wrote", "text/plain; charset=utf-8");
    check("/shop", form, b"<- back, 1 < 2", "text/plain; charset=utf-8");
    check("/shop", form, b"{\"a\":1}\n", "application/json");
    check("/shop", form, b"{not JSON}", "text/plain; charset=utf-8");
    check("/shop", form, b"<?xml version=\"1.0\"?><a/>", "application/xml");
    check("/about", Some(""), "caf\u{e9}\n".as_bytes(), "text/plain; charset=utf-8");
    check("/about", None, b"\x00<html>", "application/octet-stream");
    check("/v1.unheard-of", None, b"\xff", "application/octet-stream");
}
