//! Who is left behind where no strong tag proves anything: the whole is asked for again, and goes on where what was sent ends, if
//! it begins with that.

use super::{LENGTH, asks, body, larder, one_lags};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Origin, until};
use std::sync::Arc;

fn whole(head: &str, body: &[u8]) -> Vec<u8> {
    [&response(&format!("HTTP/1.1 {head}\nContent-Length: {}\n\n", body.len())), body].concat()
}

fn in_chunks(head: &str, body: &[u8]) -> Vec<u8> {
    let head = response(&format!("HTTP/1.1 {head}\nTransfer-Encoding: chunked\n\n"));
    [&head, format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
}

/// An origin of `first`, which goes on behind its head when the gate is opened; to all that is asked later it says `again`.
fn origin(gate: &Arc<Gate>, first: Vec<u8>, again: Vec<u8>) -> Origin {
    let gate = gate.clone();
    Origin::scripted(move |request| {
        assert_eq!((None, None), (request.field("range"), request.field("if-range")));
        if request.number > 0 {
            return vec![Script::Send(again.clone()), Script::Close];
        }
        let head = first.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
        let (head, body) = (first[..head].to_vec(), first[head..].to_vec());
        vec![Script::Send(head), Script::Gate(gate.clone()), Script::Send(body)]
    })
}

const FRESH: &str = "200 OK\nCache-Control: max-age=60";

#[test]
fn who_is_left_behind_without_a_strong_tag_has_all_the_same() {
    let body = body(LENGTH);
    for fields in ["", "\nETag: W/\"a\"", "\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\nContent-Type: a/b"]
    {
        let head = format!("{FRESH}{fields}");
        for again in [whole(&head, &body), in_chunks(&head, &body)] {
            let gate = Gate::new();
            let origin = origin(&gate, in_chunks(&head, &body), again);
            let larder = larder(&origin, "", "");
            let (fast, slow) = one_lags(&larder, &gate, "");
            assert!(fast.complete && fast.body == body, "{fields}");
            assert!(slow.complete && slow.body == body, "{fields}, {}", slow.body.len());
            let counted = |name| larder.counter(name);
            assert_eq!((1, 0), (counted("fill_laggards_continued"), counted("fill_laggards_cut")));
            assert_eq!(2, origin.requests());
        }
    }
}

/// The page was changed beyond what was sent: its client has the new one, whole.
#[test]
fn what_has_changed_further_on_is_sent_as_it_is_now() {
    let (old, gate) = (body(LENGTH), Gate::new());
    let mut new = old.clone();
    new.truncate(LENGTH - 10);
    new.extend_from_slice(b"and other words");
    let origin = origin(&gate, in_chunks(FRESH, &old), in_chunks(FRESH, &new));
    let larder = larder(&origin, "", "");
    let (fast, slow) = one_lags(&larder, &gate, "");
    assert!(fast.complete && fast.body == old && slow.complete && slow.body == new);
}

#[test]
fn who_would_have_bytes_of_two_is_cut() {
    let body = body(LENGTH);
    let other = |at: usize| {
        let mut other = body.clone();
        other[at] = b'x';
        other
    };
    let cases = [
        ("another beginning", in_chunks(FRESH, &other(0))),
        ("another byte", in_chunks(FRESH, &other(60_000))),
        ("no more than a beginning", in_chunks(FRESH, &body[..60_000])),
        ("a length that it cannot have", whole(FRESH, &body[..60_000])),
        ("another type", in_chunks(&format!("{FRESH}\nContent-Type: a/b"), &body)),
        ("another tag", in_chunks(&format!("{FRESH}\nETag: W/\"b\""), &body)),
        ("another coding", in_chunks(&format!("{FRESH}\nContent-Encoding: x"), &body)),
        ("another status", in_chunks("404 N", &body)),
        ("an error", in_chunks("503 S", b"sorry")),
        ("nothing", Vec::new()),
    ];
    for (name, again) in cases {
        let gate = Gate::new();
        let origin = origin(&gate, in_chunks(FRESH, &body), again);
        let larder = larder(&origin, "", "");
        let (fast, slow) = one_lags(&larder, &gate, "");
        assert!(fast.complete && fast.body == body, "{name}");
        assert!(!slow.complete && body.starts_with(&slow.body) && slow.body.len() > 60_000, "{name}");
        let counted = |name| larder.counter(name);
        assert_eq!((0, 1), (counted("fill_laggards_continued"), counted("fill_laggards_cut")), "{name}");
    }
}

/// One that breaks off once more is cut there.
#[test]
fn a_rest_that_breaks_off_is_cut() {
    let (body, gate) = (body(LENGTH), Gate::new());
    let mut again = in_chunks(FRESH, &body);
    again.truncate(again.len() - 8);
    let origin = origin(&gate, in_chunks(FRESH, &body), again);
    let larder = larder(&origin, "", "");
    let (_, slow) = one_lags(&larder, &gate, "");
    assert!(!slow.complete && body.starts_with(&slow.body));
    assert_eq!(1, larder.counter("fill_laggards_continued"));
}

/// What RAM cannot hold goes to the disk while it comes, and to everybody who asked in time: in one fetch, but for those
/// who are left behind.
#[test]
fn what_only_the_disk_takes_is_shared() {
    let (body, gate) = (Arc::new(body(LENGTH)), Gate::new());
    let folder = tempfile::tempdir().unwrap();
    let origin = origin(&gate, whole(FRESH, &body), whole(FRESH, &body));
    let disk = format!(
        "[cache.disk]\npath = {:?}\nsize = \"256MiB\"\nsegment_size = \"32MiB\"\n",
        folder.path().join("disk")
    );
    let larder = larder(&origin, "", &disk);
    let clients: Vec<Client> = (0..20).map(|_| asks(&larder, "")).collect();
    until("it is fetched", || gate.waiting() == 1);
    until("all wait for it", || larder.counter("requests_collapsed") == 19);
    gate.open();
    let readers = clients.into_iter().map(|mut client| {
        let expect = body.clone();
        std::thread::spawn(move || {
            let it = client.read();
            assert!(it.complete && it.body == *expect, "{}", it.body.len());
        })
    });
    let readers: Vec<_> = readers.collect();
    readers.into_iter().for_each(|it| it.join().unwrap());
    let counted = |name| larder.counter(name);
    assert_eq!(0, counted("fill_laggards_cut"));
    assert_eq!(1 + counted("fill_laggards_continued"), origin.requests() as u64);
    until("it is on disk", || counted("disk_writes") == 1);
    until("it is found there", || larder.get("/x").is_hit());
}
