//! Statement 20: each limit that is hit has a status, a counter and a line in the log, at most once a second. And
//! 15: when there are no descriptors left, hits go on and nothing spins.

use crate::harness::origin::Gate;
use crate::harness::{Client, Larder, Origin, until};
use std::time::{Duration, Instant};

fn larder(origin: &Origin, limits: &str) -> Larder {
    of_workers(origin, 1, limits)
}

fn of_workers(origin: &Origin, workers: usize, limits: &str) -> Larder {
    let url = origin.url();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = {workers}\n[limits]\n{limits}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{url}\"] }}\n[log]\naccess = \"off\"\nerror = \"errors.log\"\n"
    ))
}

/// Waits for the line about a limit, and looks that there is at most one for each second since it `began`.
#[track_caller]
fn assert_logged(larder: &Larder, began: Instant, counter: &str) {
    let path = larder.folder.path().join("errors.log");
    let named = format!("limit={counter} ");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    until(&format!("{counter} is logged"), || read().contains(&named));
    let text = read();
    let lines = text.lines().filter(|it| it.contains(&named)).count() as u64;
    assert!(lines <= began.elapsed().as_secs() + 1, "{text}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "lines are counted by real seconds")]
fn heads_targets_and_bodies() {
    let began = Instant::now();
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = larder(&origin, "head_size = \"2KiB\"\ntarget_size = \"512B\"\nbody_size = \"1KiB\"");
    for number in 1..=5 {
        let it = larder.client().get_with("/", &format!("X: {}\r\n", "x".repeat(3000)));
        assert_eq!(431, it.status, "{it:?}");
        assert_eq!(number, larder.counter("head_too_large"));
        let it = larder.get(&format!("/{}", "x".repeat(600)));
        assert_eq!(414, it.status, "{it:?}");
        assert_eq!(number, larder.counter("target_too_long"));
        let mut client = larder.client();
        let it = client.request("POST", "/", "", &"x".repeat(1025));
        assert_eq!((413, Some("close")), (it.status, it.field("connection")), "{it:?}");
        assert!(client.is_closed());
        assert_eq!(2 * number - 1, larder.counter("body_too_large"));
        let it = larder.client().request("POST", "/", "Expect: 100-continue\r\n", &"x".repeat(1025));
        assert_eq!((413, 0), (it.status, it.interim.len()), "{it:?}");
        assert_eq!(2 * number, larder.counter("body_too_large"));
    }
    assert_eq!(0, origin.requests());
    assert!(origin.bytes().iter().all(Vec::is_empty), "nothing was sent to the origin");
    for counter in ["head_too_large", "target_too_long", "body_too_large"] {
        assert_logged(&larder, began, counter);
    }
    // Just below each of them.
    assert_eq!(200, larder.get(&format!("/{}", "x".repeat(500))).status);
    assert_eq!(200, larder.client().request("POST", "/", "", &"x".repeat(1024)).status);
    assert_eq!(200, larder.client().get_with("/", &format!("X: {}\r\n", "x".repeat(1900))).status);
}

#[test]
fn a_chunked_body_that_grows_over_the_limit() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = larder(&origin, "body_size = \"100KiB\"");
    let mut client = larder.client();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
    for _ in 0..40 {
        client.send(&chunk);
    }
    let it = client.read();
    assert_eq!((413, Some("close")), (it.status, it.field("connection")), "{it:?}");
    assert!(client.is_closed());
    assert_eq!(1, larder.counter("body_too_large"));
    assert_eq!(0, origin.requests(), "the origin had no whole request");
}

/// A client that sends its whole body before it reads gets the response, and no reset.
#[test]
fn a_client_that_sends_on_reads_its_413() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = larder(&origin, "body_size = \"100KiB\"");
    for framing in ["Content-Length: 33554432", "Transfer-Encoding: chunked"] {
        let mut client = larder.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n"));
        let chunked = framing.ends_with("chunked");
        let piece = "x".repeat(1 << 20);
        for _ in 0..32 {
            // The harness fails if a send does.
            client.send(if chunked { format!("100000\r\n{piece}\r\n") } else { piece.clone() });
        }
        let it = client.read();
        assert_eq!((413, Some("close")), (it.status, it.field("connection")), "{framing}: {it:?}");
        assert!(client.is_closed());
    }
    assert_eq!(0, origin.requests());
}

#[test]
#[allow(clippy::disallowed_methods, reason = "lines are counted by real seconds")]
fn connections() {
    let began = Instant::now();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok");
    let larder = larder(&origin, "connections = 50");
    larder.hold();
    let mut clients: Vec<Client> = (0..50).map(|_| larder.client()).collect();
    for it in &mut clients {
        assert_eq!("ok", it.get("/").text());
    }
    for number in 1..=20 {
        let mut refused = larder.client();
        assert!(refused.is_closed());
        assert_eq!(number, larder.counter("connections_refused"));
    }
    larder.release();
    assert_logged(&larder, began, "connections_refused");
    for it in &mut clients {
        assert!(it.get("/").is_hit(), "who was there first stays");
    }
    drop(clients);
    until("there is room again", || larder.counter("connections_open") == 0);
    assert_eq!("ok", larder.get("/").text());
}

/// The kernel gives newcomers to either worker, whoever rests at the other one; and places are nobody's own.
#[test]
fn connections_are_counted_for_the_process_and_idle_ones_of_other_workers_are_closed() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::new(move |it| {
        if it.target() == "/busy" {
            held.pass();
        }
        "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok".to_owned()
    });
    let larder = of_workers(&origin, 2, "connections = 20");
    larder.hold();
    let mut busy: Vec<Client> = (0..12).map(|_| larder.client()).collect();
    for it in &mut busy {
        it.send("GET /busy HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    let mut resting: Vec<Client> = (0..8).map(|_| larder.client()).collect();
    for it in &mut resting {
        assert_eq!("ok", it.get("/").text());
    }
    until("all ask", || larder.counter("connections_open") == 20);
    for _ in 0..3 {
        larder.pass(2_000);
        let mut newcomers: Vec<Client> = (0..8).map(|_| larder.client()).collect();
        for it in &mut newcomers {
            assert_eq!("ok", it.get("/").text());
        }
        resting = newcomers;
    }
    assert_eq!([0, 24], ["connections_refused", "connections_shed"].map(|it| larder.counter(it)));
    // Now that all are busy or have just asked, nobody makes room, and nobody waits for that.
    assert!(larder.client().is_closed());
    assert_eq!(1, larder.counter("connections_refused"));
    gate.open();
    for it in &mut busy {
        assert_eq!("ok", it.read().text());
    }
    drop(resting);
}

/// Sets how many descriptors a process may have from now on.
pub(super) fn set_descriptors(larder: &Larder, most: u64) {
    let pid = libc::pid_t::try_from(larder.child.id()).unwrap();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through both calls; each reads or writes one of it.
    let done = unsafe {
        libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut limit);
        limit.rlim_cur = most;
        libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(0, done);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "what is measured is processor time over real time")]
fn without_descriptors_hits_go_on_and_nothing_spins() {
    let began = Instant::now();
    let origin = Origin::new(|it| match it.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nkept".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nother".to_owned(),
    });
    let larder = larder(&origin, "");
    let mut client = larder.client();
    assert_eq!("kept", client.get("/kept").text());
    let open = larder.descriptors() as u64;
    set_descriptors(&larder, open + 20);
    let mut crowd: Vec<Client> = (0..100).map(|_| larder.client()).collect();
    // The first have a head that does not end, the last a whole request: unfinished heads make room after a second.
    for (at, it) in crowd.iter_mut().enumerate() {
        it.send(if at < 50 {
            "GET /kept HTTP/1.1\r\nHost: h\r\n"
        } else {
            "GET /kept HTTP/1.1\r\nHost: h\r\n\r\n"
        });
    }
    // Only who asks again and again keeps a connection now: the idle make room.
    until("accepting has failed", || {
        assert!(client.get("/kept").is_hit());
        accept_errors(&larder) > 0
    });
    let (begun, used) = (Instant::now(), larder.processor_time());
    while begun.elapsed() < Duration::from_secs(1) {
        let it = client.get("/kept");
        assert_eq!((200, true), (it.status, it.is_hit()), "{it:?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let used = larder.processor_time() - used;
    assert!(used < 500, "{used} ms of processor time in a second of almost nothing");
    assert_logged(&larder, began, "accept_errors");
    // Those who wait in the queue are served as soon as there is room.
    let waiting = crowd.split_off(50);
    drop(crowd);
    set_descriptors(&larder, open + 200);
    for mut it in waiting {
        assert_eq!("kept", it.read().text());
    }
    assert_eq!("other", client.get("/other").text());
}

/// Who connects and says nothing makes room, too, long before a head would be late.
#[test]
fn silent_connections_are_closed_for_active_ones() {
    let origin = Origin::new(|_| "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nkept".to_owned());
    let larder = larder(&origin, "head_timeout = \"5m\"");
    assert_eq!("kept", larder.get("/").text());
    let open = larder.descriptors() as u64;
    set_descriptors(&larder, open + 20);
    let silent: Vec<Client> = (0..100).map(|_| larder.client()).collect();
    until("accepting has failed", || accept_errors(&larder) > 0);
    for _ in 0..5 {
        assert_eq!("kept", larder.get("/").text());
    }
    assert!(larder.counter("connections_shed") > 0);
    drop(silent);
}

/// A crowd of clients takes what is for clients; there is enough left to ask the origin.
#[test]
fn a_crowd_leaves_descriptors_for_the_origin() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\nok");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("larder.toml");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{}\"] }}\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\naccess = \"off\"\n",
        origin.url()
    );
    std::fs::write(&path, config).unwrap();
    let larder = Larder::within("ulimit -n 80", &["run", "-c", path.to_str().unwrap()]);
    // Each asks at once: who says nothing makes room for others.
    let fetch = |_| {
        let mut client = larder.client();
        client.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
        client
    };
    let mut crowd: Vec<Client> = (0..80).map(fetch).collect();
    until("no more are accepted", || larder.counter("accept_errors") > 0);
    let mut answered = 0;
    for client in &mut crowd {
        client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let it = client.read();
        assert!(matches!(it.status, 0 | 200), "{it:?}");
        answered += usize::from(it.status == 200);
    }
    assert!(answered >= 10, "{answered}");
}

/// Who needs one of its own to be asked waits until somebody lets go of one.
#[test]
fn a_request_without_a_descriptor_for_the_origin_waits_for_one() {
    let gate = crate::harness::origin::Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |_| {
        vec![
            crate::harness::origin::Script::Gate(before.clone()),
            crate::harness::origin::Script::Send(crate::harness::origin::response(
                "HTTP/1.1 200 OK\nCache-Control: no-store\n\nok",
            )),
        ]
    });
    let larder = larder(&origin, "");
    let mut clients: Vec<Client> = (0..30).map(|_| larder.client()).collect();
    until("all are accepted", || larder.counter("connections_open") >= 30);
    set_descriptors(&larder, larder.descriptors() as u64 + 8);
    for (number, it) in clients.iter_mut().enumerate() {
        it.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
    }
    until("some are at the gate", || gate.waiting() >= 2);
    gate.open();
    for it in &mut clients {
        let it = it.read();
        assert_eq!((200, "ok".to_owned()), (it.status, it.text()), "{it:?}");
    }
    set_descriptors(&larder, 1024); // Some for the admin.
    assert!(larder.counter("origin_descriptor_waits") > 0);
}

/// Files that are held open are let go when descriptors are needed.
#[test]
fn files_held_open_give_way_to_those_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let page = |number: usize| format!("{number:05}").repeat(4000);
    for number in 0..200 {
        std::fs::write(folder.path().join(number.to_string()), page(number)).unwrap();
    }
    let root = folder.path().to_str().unwrap();
    let larder = Larder::within(
        "ulimit -n 120",
        &["serve", root, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
    );
    let mut client = larder.client();
    for number in 0..200 {
        let it = client.get(&format!("/{number}"));
        assert_eq!((200, page(number)), (it.status, it.text()), "{number}");
    }
}

fn accept_errors(larder: &Larder) -> u64 {
    let text = std::fs::read_to_string(larder.folder.path().join("errors.log")).unwrap_or_default();
    text.matches("limit=accept_errors").count() as u64
}

#[test]
fn every_limit_of_the_table_is_in_the_statistics() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = larder(&origin, "");
    for name in [
        "connections_refused",
        "accept_errors",
        "client_head_timeouts",
        "client_body_timeouts",
        "client_write_timeouts",
        "head_too_large",
        "target_too_long",
        "body_too_large",
        "cache_over_budget",
        "cache_object_too_large",
        "cache_variants_full",
        "collapse_timeouts",
        "fills_full",
        "origin_timeouts",
        "origin_interim_flood",
        "origin_busy",
        "origin_descriptor_waits",
        "files_busy",
        "log_lines_dropped",
    ] {
        assert_eq!(0, larder.counter(name));
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "lines are counted by real seconds")]
fn an_origin_that_has_no_room_is_busy() {
    let began = Instant::now();
    let gate = crate::harness::origin::Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |_| {
        vec![
            crate::harness::origin::Script::Gate(before.clone()),
            crate::harness::origin::Script::Send(crate::harness::origin::response("HTTP/1.1 200 OK\n\nok")),
        ]
    });
    let url = origin.url();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy = {{ to = [\"{url}\"], connections = 4 }}\n[log]\naccess = \"off\"\nerror = \"errors.log\"\n"
    ));
    let mut clients: Vec<Client> = (0..4).map(|_| larder.client()).collect();
    for (number, it) in clients.iter_mut().enumerate() {
        it.send(format!("POST /{number} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"));
    }
    until("all four are at the gate", || gate.waiting() == 4);
    let it = larder.client().request("POST", "/x", "", "");
    assert_eq!((503, Some("1")), (it.status, it.field("retry-after")), "{it:?}");
    assert_eq!(1, larder.counter("origin_busy"));
    assert_logged(&larder, began, "origin_busy");
    gate.open();
    for it in &mut clients {
        assert_eq!("ok", it.read().text());
    }
}
