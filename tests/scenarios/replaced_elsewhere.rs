//! A node that learns from the fleet of another node's newer response: its older one answers no request any more, also
//! where the origin fails, memcached is down, or the node restarts.

use super::removed::REPLACED_BY;
use crate::harness::origin::{Script, response};
use crate::harness::tiers::{disk, fleet, killed, settled, written};
use crate::harness::{Larder, Memcached, Origin, Response};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The origin's actions, one after the other.
const OLD: usize = 0;
const NEW: usize = 1;
const CLOSES: usize = 2;
const FAILS: usize = 3;

/// Longer than a node uses what it has without asking the fleet.
const LOCAL_TTL: i64 = 2;

/// An origin whose page has these heads, by what it does.
fn origin(old: &str, new: &str) -> (Origin, Arc<AtomicUsize>) {
    let does = Arc::new(AtomicUsize::new(OLD));
    let (report, old, new) = (does.clone(), old.to_owned(), new.to_owned());
    let origin = Origin::scripted(move |_| {
        let text = match report.load(SeqCst) {
            OLD => format!("HTTP/1.1 200 OK\n{old}\n\nold"),
            NEW => format!("HTTP/1.1 {new}\n\nnew"),
            CLOSES => return vec![Script::Close],
            _ => "HTTP/1.1 503 Service Unavailable\n\nsorry".to_owned(),
        };
        vec![Script::Send(response(&text))]
    });
    (origin, does)
}

fn node(origin: &Origin, memcached: &Memcached, folder: &Path) -> Larder {
    let fleet = fleet(&[memcached], "timeout = \"60s\"\nlocal_ttl = \"1s\"");
    Larder::before_with(origin, "", &(fleet + &disk(folder)))
}

fn reload(node: &Larder) -> Response {
    node.client().get_with("/", "Cache-Control: no-cache\r\n")
}

/// Asks in each way in which a page may be answered.
#[track_caller]
fn is_not_old(what: &str, node: &Larder) {
    for lines in ["", "Cookie: a=b\r\n", "Range: bytes=0-1\r\n", "Cache-Control: max-stale\r\n", ""] {
        let answer = node.client().get_with("/", lines);
        assert!(!answer.text().starts_with("ol"), "{what}, {lines:?}: {answer:?}");
    }
    let head = node.client().request("HEAD", "/", "", "");
    assert_ne!(Some("\"old\""), head.field("etag"), "{what}, HEAD: {head:?}");
}

#[test]
fn a_page_replaced_on_another_node_is_not_served_where_the_origin_fails() {
    for (number, (what, new)) in REPLACED_BY.into_iter().enumerate() {
        let mut memcached = Memcached::start();
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (origin, does) = origin("Cache-Control: max-age=600\nETag: \"old\"", new);
        let [a, mut b] = [0, 1].map(|it| node(&origin, &memcached, folders[it].path()));
        assert_eq!("old", a.get("/").text());
        settled(&a, 1);
        assert!(b.get("/").is_hit(), "{what}");
        written(&b, 1);
        // Also where the newer response comes right after the older one.
        let apart = if number % 4 < 2 { 1 } else { 5 };
        [&a, &b].iter().for_each(|it| it.advance(apart));
        // Every second time the other node has it on its disk alone.
        let on_disk = number % 2 == 1;
        if on_disk {
            killed(b);
            b = node(&origin, &memcached, folders[1].path());
            b.advance(5);
        }
        does.store(NEW, SeqCst);
        assert_eq!("new", reload(&a).text(), "{what}");
        if what == "a second" {
            settled(&a, 2);
        }
        does.store(if on_disk { CLOSES } else { FAILS }, SeqCst);
        for seconds in [LOCAL_TTL, 5, 130, 600] {
            [&a, &b].iter().for_each(|it| it.advance(seconds));
            is_not_old(what, &a);
            is_not_old(what, &b);
        }
        killed(b);
        memcached.start_again();
        is_not_old(what, &node(&origin, &memcached, folders[1].path()));
    }
}

#[test]
fn a_clock_that_is_set_back_prolongs_no_use_without_the_fleet() {
    let memcached = Memcached::start();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let head = "Cache-Control: max-age=86400";
    let (origin, does) = origin(head, &format!("200 OK\n{head}"));
    let [a, b] = [0, 1].map(|it| node(&origin, &memcached, folders[it].path()));
    assert_eq!("old", a.get("/").text());
    settled(&a, 1);
    assert!(b.get("/").is_hit());
    b.advance(-3600);
    does.store(NEW, SeqCst);
    assert_eq!("new", a.client().request("POST", "/", "Content-Length: 0\r\n", "").text());
    b.advance(LOCAL_TTL);
    is_not_old("set back", &b);
}

#[test]
fn a_304_makes_a_replaced_page_current_again() {
    let (memcached, folder) = (Memcached::start(), tempfile::tempdir().unwrap());
    let asked_for_old =
        |request: &crate::harness::origin::Received| request.field("if-none-match") == Some("\"old\"");
    let is_private = Arc::new(AtomicUsize::new(0));
    let report = is_private.clone();
    let origin = Origin::new(move |request| match report.load(SeqCst) {
        1 => "HTTP/1.1 200 OK\nCache-Control: private\n\nnew".to_owned(),
        _ if asked_for_old(request) => "HTTP/1.1 304 N\nETag: \"old\"\nCache-Control: max-age=600".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"old\"\n\nold".to_owned(),
    });
    let other = tempfile::tempdir().unwrap();
    let (a, b) = (node(&origin, &memcached, folder.path()), node(&origin, &memcached, other.path()));
    a.get("/");
    settled(&a, 1);
    assert!(b.get("/").is_hit());
    [&a, &b].iter().for_each(|it| it.advance(5));
    is_private.store(1, SeqCst);
    assert_eq!("new", reload(&a).text());
    is_private.store(0, SeqCst);
    b.advance(LOCAL_TTL);
    let validated = b.get("/");
    assert_eq!("old", validated.text());
    assert!(validated.cache().contains("fwd-status=304"), "{}", validated.cache());
    assert!(b.get("/").is_hit(), "it is stored again");
}

#[test]
fn a_replaced_page_is_not_served_while_it_is_revalidated() {
    let memcached = Memcached::start();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (origin, does) =
        origin("Cache-Control: max-age=10, stale-while-revalidate=600", "200 OK\nCache-Control: private");
    let [a, b] = [0, 1].map(|it| node(&origin, &memcached, folders[it].path()));
    a.get("/");
    settled(&a, 1);
    assert!(b.get("/").is_hit());
    [&a, &b].iter().for_each(|it| it.advance(5));
    does.store(NEW, SeqCst);
    assert_eq!("new", reload(&a).text());
    [&a, &b].iter().for_each(|it| it.advance(30));
    assert_eq!("new", b.get("/").text());
}

#[test]
fn a_page_of_the_fleet_replaces_the_older_one_on_the_disk() {
    for new in ["max-age=600", "max-age=1"] {
        let mut memcached = Memcached::start();
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (origin, does) =
            origin("Cache-Control: max-age=600\nETag: \"old\"", &format!("200 OK\nCache-Control: {new}"));
        let [a, b] = [0, 1].map(|it| node(&origin, &memcached, folders[it].path()));
        a.get("/");
        settled(&a, 1);
        assert!(b.get("/").is_hit());
        written(&b, 1);
        [&a, &b].iter().for_each(|it| it.advance(5));
        does.store(NEW, SeqCst);
        assert_eq!("new", reload(&a).text());
        settled(&a, 2);
        b.advance(LOCAL_TTL);
        assert_eq!("new", b.get("/").text(), "{new}");
        does.store(CLOSES, SeqCst);
        killed(b);
        memcached.kill();
        let b = node(&origin, &memcached, folders[1].path());
        is_not_old(new, &b);
    }
}

#[test]
fn a_page_is_not_gone_back_to_where_the_newer_one_in_the_fleet_varies() {
    for name in ["X-Q", "Accept-Encoding", "Cookie"] {
        for from_disk in [false, true] {
            let memcached = Memcached::start();
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let new = format!("200 OK\nCache-Control: max-age=600\nVary: {name}");
            let (origin, does) = origin("Cache-Control: max-age=600\nETag: \"old\"", &new);
            let [a, mut b] = [0, 1].map(|it| node(&origin, &memcached, folders[it].path()));
            a.get("/");
            settled(&a, 1);
            assert!(b.get("/").is_hit());
            written(&b, 1);
            if from_disk {
                killed(b);
                b = node(&origin, &memcached, folders[1].path());
            }
            [&a, &b].iter().for_each(|it| it.advance(5));
            does.store(NEW, SeqCst);
            assert_eq!("new", reload(&a).text());
            settled(&a, 2);
            does.store(FAILS, SeqCst);
            b.advance(LOCAL_TTL);
            let other = b.client().get_with("/", &format!("{name}: gzip\r\n"));
            assert_ne!("old", other.text(), "{name}: {}", other.cache());
            is_not_old(name, &b);
        }
    }
}
