//! A large body that is another at each fetch: a reader that is too slow for the others reads from the spool, and is cut only where that
//! has no room for it.

use super::{LENGTH, asks, body};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Larder, Origin, Response, until};
use std::sync::Arc;

const CLIENTS: usize = 12;

/// An origin of a body in chunks, which goes on behind its head when the gate is opened. Each fetch has its number, as an export has the
/// time.
fn origin(gate: &Arc<Gate>, body: &[u8]) -> Origin {
    let (gate, body) = (gate.clone(), body.to_vec());
    Origin::scripted(move |request| {
        let mut sent = Vec::with_capacity(body.len() + (1 << 20));
        for (number, piece) in body.chunks(100_000).enumerate() {
            let first = if number == 0 { b'0' + request.number as u8 } else { piece[0] };
            sent.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            sent.push(first);
            sent.extend_from_slice(&piece[1..]);
            sent.extend_from_slice(b"\r\n");
        }
        sent.extend_from_slice(b"0\r\n\r\n");
        let head = response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nTransfer-Encoding: chunked\n\n");
        vec![Script::Send(head), Script::Gate(gate.clone()), Script::Send(sent)]
    })
}

/// This number of clients of one fetch; every third reads at once, and the others when these have everything.
fn crowd(larder: &Larder, gate: &Gate) -> Vec<Response> {
    let clients: Vec<Client> = (0..CLIENTS).map(|_| asks(larder, "")).collect();
    until("it is fetched", || gate.waiting() == 1);
    until("all wait for it", || larder.counter("requests_collapsed") == CLIENTS as u64 - 1);
    gate.open();
    let (fast, slow): (Vec<_>, Vec<_>) = clients.into_iter().enumerate().partition(|it| it.0 % 3 == 0);
    let read = |clients: Vec<(usize, Client)>| {
        let readers = clients.into_iter().map(|mut it| std::thread::spawn(move || it.1.read()));
        let readers: Vec<_> = readers.collect();
        readers.into_iter().map(|it| it.join().unwrap()).collect::<Vec<Response>>()
    };
    let mut all = read(fast);
    all.extend(read(slow));
    all
}

fn larder(origin: &Origin, spool: &str) -> Larder {
    Larder::before_with(origin, "", &format!("[cache.ram]\nsize = \"16MiB\"\n[cache.spool]\n{spool}"))
}

/// How many had the whole of the first fetch; the others have a beginning of it, and see that it is cut.
fn whole(crowd: &[Response], body: &[u8]) -> usize {
    for (number, it) in crowd.iter().enumerate() {
        assert!(it.body.len() > 1 && it.body[0] == b'0' && body[1..].starts_with(&it.body[1..]), "{number}");
        assert_eq!(it.complete, it.body.len() == body.len(), "{number}: {}", it.body.len());
    }
    crowd.iter().filter(|it| it.complete).count()
}

#[test]
fn all_clients_get_one_representation_by_one_fetch() {
    let (body, gate) = (body(LENGTH), Gate::new());
    let origin = origin(&gate, &body);
    let larder = larder(&origin, "");
    let before = larder.memory("ram", "fills");
    assert_eq!(CLIENTS, whole(&crowd(&larder, &gate), &body));
    let counted = |name| larder.counter(name);
    assert_eq!((1, 1, 0), (origin.requests(), counted("fill_spooled"), counted("fill_laggards")));
    until("the spool is empty", || counted("fill_spool_bytes") == 0);
    until("nothing is held", || larder.memory("ram", "fills") == before);
}

/// While they do not read, the body is in the spool and not in RAM.
#[test]
fn unread_bytes_are_not_in_memory() {
    let (body, gate) = (body(LENGTH), Gate::new());
    let origin = origin(&gate, &body);
    let larder = larder(&origin, "");
    let mut slow: Vec<Client> = (0..CLIENTS).map(|_| asks(&larder, "")).collect();
    until("it is fetched", || gate.waiting() == 1);
    let mut fast = larder.client();
    fast.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    until("it is followed", || larder.counter("requests_collapsed") == CLIENTS as u64);
    gate.open();
    assert_eq!(1, whole(&[fast.read()], &body));
    assert!(larder.counter("fill_spool_bytes") > LENGTH as u64 / 2);
    let (fills, resident) = (larder.memory("ram", "fills"), larder.resident_data());
    assert!(fills < 4 << 20, "{fills}");
    assert!(resident < (16 + 20 + 2) << 20, "{resident}");
    // Those who go away need it no more.
    let mut last = slow.pop().unwrap();
    drop(slow);
    assert_eq!(1, whole(&[last.read()], &body));
    until("the spool is empty", || larder.counter("fill_spool_bytes") == 0);
}

/// Where there is no spool, or no room in it, a reader that is too slow is cut.
#[test]
fn without_a_spool_a_reader_that_is_too_slow_is_cut() {
    let body = body(LENGTH);
    for (spool, given_up) in
        [("size = \"off\"", 0), ("size = \"4MiB\"", 1), ("directory = \"/nowhere/at/all\"", 0)]
    {
        let gate = Gate::new();
        let origin = origin(&gate, &body);
        let larder = larder(&origin, spool);
        let whole = whole(&crowd(&larder, &gate), &body);
        let counted = |name| larder.counter(name);
        assert!((1..CLIENTS).contains(&whole), "{spool}: {whole}");
        assert_eq!((CLIENTS - whole) as u64, counted("fill_laggards"), "{spool}");
        assert_eq!((1, given_up), (origin.requests(), counted("fill_spool_given_up")), "{spool}");
        until("the spool is empty", || counted("fill_spool_bytes") == 0);
    }
}

/// What RAM cannot hold goes to the disk while it comes, and in one fetch to every client that asked in time.
#[test]
fn a_body_that_only_the_disk_takes_is_shared() {
    let (body, gate) = (body(LENGTH), Gate::new());
    let folder = tempfile::tempdir().unwrap();
    let origin = origin(&gate, &body);
    let disk = format!(
        "size = \"1GiB\"\n[cache.disk]\npath = {:?}\nsize = \"256MiB\"\nsegment_size = \"32MiB\"\n",
        folder.path().join("disk")
    );
    let larder = larder(&origin, &disk);
    assert_eq!(CLIENTS, whole(&crowd(&larder, &gate), &body));
    let counted = |name| larder.counter(name);
    assert_eq!((1, 0), (origin.requests(), counted("fill_laggards")));
    // A busy device is given up, and a lookup in it times out: the body of the next request is then stored.
    let ended =
        || ["disk_writes", "disk_large_given_up", "disk_off_skipped"].map(counted).iter().sum::<u64>();
    until("its write has ended", || ended() > 0);
    until("it is found there", || {
        let (before, is_hit) = (ended(), larder.get("/x").is_hit());
        if !is_hit {
            until("the next write has ended", || ended() > before);
        }
        is_hit
    });
}
