//! The fleet tier, from outside: one node serves another's responses, one node asks for all, and clients get the right
//! bytes whatever the servers do.

use super::super::harness::origin::{Gate, Script, response};
use super::super::harness::tiers::{binary, disk, fleet, killed, node, of_size, same, settled, stored};
use super::super::harness::{Larder, Memcached, Origin, until};

#[test]
fn one_node_fills_and_another_serves() {
    let memcached = Memcached::start();
    let origin = of_size();
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    for (at, target) in ["/0", "/100", "/16384", "/26510", "/300000", "/3000000"].into_iter().enumerate() {
        let again = stored(&a, target);
        settled(&a, at as u64 + 1);
        let second = b.get(target);
        assert!(second.cache().ends_with("; detail=fleet"), "{target}: {}", second.cache());
        assert_eq!(binary(target[1..].parse().unwrap()), again.body);
        same(&again, &second);
        let third = b.get(target);
        assert!(third.is_hit() && !third.cache().contains("detail"), "{target}: {}", third.cache());
        same(&again, &third);
    }
    assert_eq!((6, 6), (origin.requests(), b.counter("cache_hits_fleet")));
}

#[test]
fn statuses_fields_and_trailers_come_through_the_fleet() {
    let memcached = Memcached::start();
    let origin = Origin::new(|request| match request.target() {
        "/moved" => "HTTP/1.1 301 Gone Elsewhere\nCache-Control: max-age=60\nLocation: /x\n\n".to_owned(),
        "/gone" => "HTTP/1.1 410 Gone\nCache-Control: max-age=60\nX-A: 1\nX-A: 2\n\ngone".to_owned(),
        "/empty" => "HTTP/1.1 204 No Content\nCache-Control: max-age=60\nETag: W/\"x\"\n\n".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\nTransfer-Encoding: chunked\nTrailer: X-Sum\n\n\
              5\nhello\n0\nX-Sum: 9\n\n"
            .replace('\n', "\r\n"),
    });
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    for (at, target) in ["/moved", "/gone", "/empty", "/trailers"].into_iter().enumerate() {
        let expect = stored(&a, target);
        settled(&a, at as u64 + 1);
        let found = b.get(target);
        assert!(found.cache().ends_with("; detail=fleet"), "{target}: {}", found.cache());
        same(&expect, &found);
    }
    assert_eq!(4, origin.requests());
}

#[test]
fn a_head_a_range_and_only_if_cached_are_hits_of_the_fleet() {
    let memcached = Memcached::start();
    let origin = of_size();
    let a = node(&origin, &memcached);
    a.get("/50000");
    settled(&a, 1);
    for (method, lines, status) in [
        ("HEAD", "", 200),
        ("GET", "Range: bytes=10-19\r\n", 206),
        ("GET", "Cache-Control: only-if-cached\r\n", 200),
        ("GET", "Authorization: Basic eDp5\r\n", 200),
        ("GET", "Cache-Control: no-store\r\n", 200),
        ("GET", "If-None-Match: \"e\"\r\n", 304),
    ] {
        let node = node(&origin, &memcached);
        let found = node.client().request(method, "/50000", lines, "");
        assert_eq!(status, found.status, "{method} {lines}");
        assert!(found.cache().ends_with("; detail=fleet"), "{method} {lines}: {}", found.cache());
        if status == 206 {
            assert_eq!(binary(20)[10..], found.body);
        }
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn a_no_cache_request_gets_the_response_of_the_origin() {
    let memcached = Memcached::start();
    let origin = of_size();
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    a.get("/1");
    settled(&a, 1);
    let response = b.client().get_with("/1", "Cache-Control: no-cache\r\n");
    assert!(response.cache().contains("fwd=uri-miss"), "{}", response.cache());
    assert_eq!(2, origin.requests());
}

#[test]
fn a_private_response_is_not_shared() {
    let memcached = Memcached::start();
    let origin = Origin::new(|request| {
        let head = match request.target() {
            "/private" => "Cache-Control: private, max-age=60",
            "/no-store" => "Cache-Control: no-store",
            "/cookie" => "Cache-Control: max-age=60\nSet-Cookie: a=b",
            "/authorized" => "Cache-Control: max-age=60",
            "/shared" => "Cache-Control: max-age=60, public",
            _ => "Cache-Control: no-cache",
        };
        format!("HTTP/1.1 200 OK\n{head}\nETag: \"1\"\n\n{}", request.number)
    });
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    let paths = ["/private", "/no-store", "/cookie", "/authorized", "/no-cache"];
    let mut before = Vec::new();
    for path in paths {
        before.push(a.client().get_with(path, "Authorization: Basic eDp5\r\n").text());
    }
    a.get("/shared");
    settled(&a, 1);
    let shared = |it: &String| memcached.read(it).windows(6).any(|it| it == b"shared");
    let keys = memcached.keys();
    // Of the others there is at most a mark, which has neither fields nor a body.
    let has_fields = |it: &String| memcached.read(it).windows(4).any(|it| it == b"ETag");
    assert!(keys.iter().all(|it| !has_fields(it) || shared(it)), "{keys:?}");
    for (path, before) in paths.into_iter().zip(before) {
        let response = b.get(path);
        assert!(!response.is_hit(), "{path}: {}", response.cache());
        assert_ne!(before, response.text(), "{path}");
    }
}

#[test]
fn each_variant_is_its_own() {
    let memcached = Memcached::start();
    let origin = Origin::new(|request| {
        let language = request.field("accept-language").unwrap_or("none");
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: Accept-Language\n\n{language}")
    });
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    let lines = |it: &str| format!("Accept-Language: {it}\r\n");
    a.client().get_with("/", &lines("de"));
    settled(&a, 1);
    assert_eq!("fr", b.client().get_with("/", &lines("fr")).text());
    settled(&b, 1);
    let german = b.client().get_with("/", &lines("de"));
    assert_eq!("de", german.text());
    let french = a.client().get_with("/", &lines("fr"));
    assert_eq!("fr", french.text());
    assert!(french.is_hit() && german.is_hit(), "{} {}", french.cache(), german.cache());
    assert_eq!(2, origin.requests());
}

#[test]
fn a_cut_answer_is_in_no_tier() {
    let memcached = Memcached::start();
    let origin = Origin::scripted(|_| {
        let head =
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 100\r\n\r\nhalf".to_vec();
        vec![Script::Send(head), Script::Close]
    });
    let folder = tempfile::tempdir().unwrap();
    let top = fleet(&[&memcached], "") + &disk(folder.path());
    let a = Larder::before_with(&origin, "", &top);
    assert!(!a.get("/").complete);
    assert!(!a.get("/").complete);
    assert_eq!((0, 0), (a.counter("fleet_puts"), a.counter("cache_stores")));
    assert!(!memcached.keys().iter().any(|it| it.contains("//h/") && memcached.read(it).len() > 10));
}

#[test]
fn a_copy_in_ram_is_asked_about_after_its_local_lifetime() {
    let memcached = Memcached::start();
    let origin = Origin::new(|it| {
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"{0}\"\n\nanswer {0}", it.number)
    });
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    a.get("/");
    settled(&a, 1);
    assert_eq!("answer 0", b.get("/").text());
    let reads = |node: &Larder| node.counter("fleet_gets");
    let before = reads(&b);
    for _ in 0..20 {
        assert!(b.get("/").is_hit());
    }
    assert_eq!(before, reads(&b), "within its local lifetime nobody asks");
    b.advance(6);
    for _ in 0..20 {
        assert!(b.get("/").is_hit());
    }
    assert_eq!(before + 1, reads(&b), "after it, one does");
    // Another node has a newer one, from a later second: of two from one second the fleet keeps neither.
    a.advance(2);
    a.client().get_with("/", "Cache-Control: no-cache\r\n");
    settled(&a, 2); // What is on its way to the fleet has a deadline by the clock that is moved.
    a.advance(2);
    let newer = a.client().get_with("/", "Cache-Control: no-cache\r\n").text();
    until("it is in the fleet", || a.counter("fleet_puts") >= 3);
    assert_eq!("answer 0", b.get("/").text());
    b.advance(6);
    let found = b.get("/");
    assert_eq!(newer, found.text());
    assert!(found.cache().ends_with("; detail=fleet"), "{}", found.cache());
    assert_eq!(3, origin.requests());
}

#[test]
fn a_page_lost_by_the_fleet_is_validated() {
    let memcached = Memcached::start();
    let origin = Origin::new(|it| match it.field("if-none-match") {
        Some(_) => "HTTP/1.1 304 Not Modified\nCache-Control: max-age=600\nETag: \"1\"\n\n".to_owned(),
        None => "HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"1\"\n\nwhole".to_owned(),
    });
    let a = node(&origin, &memcached);
    a.get("/");
    settled(&a, 1);
    assert_eq!("OK\r\n", memcached.command("flush_all\r\n"));
    assert!(a.get("/").cache().ends_with("hit; ttl=600"));
    a.advance(6);
    let response = a.get("/");
    assert_eq!("whole", response.text());
    assert!(response.cache().contains("fwd=stale; fwd-status=304"), "{}", response.cache());
    settled(&a, 2);
    assert!(a.get("/").is_hit());
    assert_eq!(2, origin.requests());
}

#[test]
fn an_invalidated_page_is_served_by_other_nodes_at_most_for_its_local_lifetime() {
    let memcached = Memcached::start();
    let origin = Origin::new(|it| match it.line().starts_with("POST") {
        true => "HTTP/1.1 200 OK\n\ndone".to_owned(),
        false => format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nanswer {}", it.number),
    });
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    a.get("/");
    settled(&a, 1);
    assert_eq!("answer 0", b.get("/").text());
    assert_eq!(200, a.client().request("POST", "/", "", "x").status);
    assert_eq!("answer 2", a.get("/").text());
    settled(&a, 2);
    b.advance(6);
    assert_eq!("answer 2", b.get("/").text());
}

#[test]
fn one_of_four_nodes_fetches_an_expired_page() {
    let memcached = Memcached::start();
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::scripted(move |it| {
        let text =
            format!("HTTP/1.1 200 OK\nCache-Control: max-age=5, must-revalidate\n\nanswer {}", it.number);
        let answer = Script::Send(response(&text));
        if it.number == 0 { vec![answer] } else { vec![Script::Gate(opened.clone()), answer] }
    });
    let nodes: Vec<Larder> = (0..4).map(|_| node(&origin, &memcached)).collect();
    nodes[0].get("/");
    settled(&nodes[0], 1);
    for node in &nodes {
        assert_eq!("answer 0", node.get("/").text());
        node.advance(6);
    }
    let mut clients: Vec<_> = nodes.iter().flat_map(|it| (0..5).map(|_| it.client())).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("one node asks", || gate.waiting() == 1);
    until("the others wait for it", || {
        nodes.iter().map(|it| it.counter("recompute_waits")).sum::<u64>() == 3
    });
    gate.open();
    for client in &mut clients {
        assert_eq!("answer 1", client.read().text());
    }
    assert_eq!(2, origin.requests());
}

#[test]
fn one_of_four_nodes_fetches_a_page_in_no_tier() {
    let memcached = Memcached::start();
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::scripted(move |it| {
        let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nanswer {}", it.number);
        vec![Script::Gate(opened.clone()), Script::Send(response(&text))]
    });
    let nodes: Vec<Larder> = (0..4).map(|_| node(&origin, &memcached)).collect();
    let mut clients: Vec<_> = nodes.iter().flat_map(|it| (0..5).map(|_| it.client())).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("the others wait for one", || {
        nodes.iter().map(|it| it.counter("recompute_waits")).sum::<u64>() == 3
    });
    gate.open();
    for client in &mut clients {
        assert_eq!("answer 0", client.read().text());
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn a_lease_holder_with_an_unstorable_response_lets_other_nodes_ask() {
    let memcached = Memcached::start();
    let origin = Origin::new(|it| {
        format!("HTTP/1.1 200 OK\nCache-Control: private, max-age=60\n\nanswer {}", it.number)
    });
    let nodes: Vec<Larder> = (0..4).map(|_| node(&origin, &memcached)).collect();
    for (at, node) in nodes.iter().enumerate() {
        assert_eq!(format!("answer {at}"), node.get("/").text());
        assert_eq!(0, node.counter("recompute_wait_timeouts"), "no node waits for `collapse_wait`");
    }
}

#[test]
fn stale_while_revalidate_asks_the_origin_once_for_all_nodes() {
    let memcached = Memcached::start();
    let origin = Origin::new(|it| {
        let number = it.number;
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=5, stale-while-revalidate=60\n\nanswer {number}")
    });
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    a.get("/");
    settled(&a, 1);
    assert_eq!("answer 0", b.get("/").text());
    for it in [&a, &b] {
        it.advance(6);
    }
    assert_eq!("answer 0", a.get("/").text());
    settled(&a, 2);
    until("the other node has the new one", || b.get("/").text() == "answer 1");
    assert_eq!(2, origin.requests());
}

/// Writes `value` over everything that larder has in the servers.
fn spoil(memcached: &Memcached, spoilt: impl Fn(&[u8]) -> Vec<u8>) -> usize {
    let keys = memcached.keys();
    for key in &keys {
        let value = spoilt(&memcached.read(key));
        memcached.write(key, &value);
    }
    keys.len()
}

/// A change to a value.
type Spoil = Box<dyn Fn(&[u8]) -> Vec<u8>>;

#[test]
fn a_foreign_item_is_not_served() {
    let memcached = Memcached::start();
    let origin = of_size();
    let a = node(&origin, &memcached);
    let (other, right) = (a.get("/2000"), a.get("/1000"));
    settled(&a, 2);
    let whole = memcached.keys().into_iter().map(|it| memcached.read(&it));
    let wrong: Vec<u8> = whole.max_by_key(Vec::len).unwrap();
    assert!(wrong.len() > other.body.len());
    let kinds: [(&str, Spoil); 7] = [
        ("text", Box::new(|_| b"<h1>defaced</h1>".to_vec())),
        ("older form", Box::new(|_| b"text/html\0<h1>defaced</h1>".to_vec())),
        ("nothing", Box::new(|_| Vec::new())),
        ("another key's", Box::new(move |_| wrong.clone())),
        ("cut", Box::new(|it| it[..it.len() - 1].to_vec())),
        ("longer", Box::new(|it| [it, b"x"].concat())),
        (
            "a bit of the body",
            Box::new(|it| {
                let mut it = it.to_vec();
                let last = it.len() - 1;
                it[last] ^= 1;
                it
            }),
        ),
    ];
    for (name, kind) in kinds {
        // Whole again first, for every kind.
        let fresh = node(&origin, &memcached);
        assert_eq!("OK\r\n", memcached.command("flush_all\r\n"));
        fresh.get("/1000");
        settled(&fresh, 1);
        assert!(spoil(&memcached, kind) > 0);
        let before = origin.requests();
        let found = node(&origin, &memcached).get("/1000");
        assert!(found.body == right.body, "{name}: {}", found.text());
        assert!(!found.is_hit() && origin.requests() == before + 1, "{name}: {}", found.cache());
    }
}

#[test]
fn without_ram_every_hit_is_of_a_tier_below() {
    let memcached = Memcached::start();
    let origin = of_size();
    let a = Larder::before_with(&origin, "tiers = [\"fleet\"]", &fleet(&[&memcached], "timeout = \"60s\""));
    a.get("/1000");
    settled(&a, 1);
    for _ in 0..3 {
        let found = a.get("/1000");
        assert!(found.cache().ends_with("; detail=fleet"), "{}", found.cache());
        assert!(binary(1000) == found.body);
    }
    assert_eq!(1, origin.requests());
}

/// Has the documented program write a page, as an application would.
fn fill(memcached: &Memcached, key: &str, page: &str) {
    fill_after(memcached, 0, key, page);
}

/// [`fill`] by an application whose clock was moved by so many `seconds`, as larder's was: it writes dates.
fn fill_after(memcached: &Memcached, seconds: i64, key: &str, page: &str) {
    fill_with(memcached, seconds, key, page, &[]);
}

/// [`fill_after`], with more of what the program is told.
fn fill_with(memcached: &Memcached, seconds: i64, key: &str, page: &str, more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page");
    std::fs::write(&file, page).unwrap();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/fill.py");
    let moved = format!(
        "import runpy, sys, time; real = time.time; time.time = lambda: real() + {seconds}; \
         sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    );
    let mut command = std::process::Command::new("python3");
    command
        .args(["-c", &moved, program, &memcached.name(), key])
        .arg(&file)
        .args(["--max-age", "600"])
        .args(more);
    assert!(command.status().unwrap().success());
}

#[test]
fn an_application_fills_and_larder_serves() {
    let memcached = Memcached::start();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nof the origin");
    let top = fleet(&[&memcached], "timeout = \"60s\"\nfilled_by = \"applications\"");
    let larder = Larder::before_with(&origin, "", &top);
    fill(&memcached, "http://h/page?x=1", "by the application");
    let found = larder.get("/page?x=1");
    assert_eq!("by the application", found.text());
    assert_eq!(Some("text/html; charset=utf-8"), found.field("content-type"));
    assert!(found.cache().ends_with("; detail=fleet"), "{}", found.cache());
    assert!(!larder.get("/page?x=1").cache().contains("detail"), "then it is in RAM");
    // What the application writes next is seen after `local_ttl`.
    fill(&memcached, "http://h/page?x=1", "written anew");
    larder.advance(6);
    assert_eq!("written anew", larder.get("/page?x=1").text());
    assert_eq!(0, origin.requests());
    // What it has not written is the origin's to say, and larder writes nothing of that.
    assert_eq!("of the origin", larder.get("/other").text());
    assert_eq!((1, 0), (origin.requests(), larder.counter("fleet_puts")));
}

/// A larder before an origin that answers so, with a fleet that applications fill.
fn filled_by_applications(answer: &str) -> (Memcached, Origin, Larder) {
    let (memcached, origin) = (Memcached::start(), Origin::fixed(answer));
    let top = fleet(&[&memcached], "timeout = \"60s\"\nfilled_by = \"applications\"\nlocal_ttl = \"2s\"");
    let larder = Larder::before_with(&origin, "", &top);
    (memcached, origin, larder)
}

#[test]
fn a_response_of_the_origin_does_not_hide_one_of_an_application() {
    // The last two may not be stored for long or at all; one is asked about each time.
    for text in ["max-age=60", "max-age=60, no-cache", "no-store"] {
        let answer = format!("HTTP/1.1 404 Not Found\nCache-Control: {text}\nETag: \"0\"\n\nnot yet");
        let (memcached, origin, larder) = filled_by_applications(&answer);
        assert_eq!("not yet", larder.get("/page").text());
        assert_eq!("not yet", larder.get("/page").text());
        fill(&memcached, "http://h/page", "by the application");
        larder.advance(3);
        assert_eq!("by the application", larder.get("/page").text(), "{text}");
        assert!(origin.requests() <= 2, "{text}");
    }
}

#[test]
fn a_response_that_only_the_origin_has_holds_for_its_lifetime() {
    let (_memcached, origin, larder) =
        filled_by_applications("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nof the origin");
    larder.get("/page");
    let reads = larder.counter("fleet_gets");
    for turn in 1..=3 {
        larder.advance(3);
        assert!(larder.get("/page").is_hit());
        assert!(larder.get("/page").is_hit());
        assert_eq!(reads + turn, larder.counter("fleet_gets"), "it is asked once in its local lifetime");
    }
    assert_eq!(1, origin.requests());
}

#[test]
fn an_item_that_an_application_deletes_and_writes_again_is_seen() {
    let (memcached, origin, larder) =
        filled_by_applications("HTTP/1.1 404 Not Found\nCache-Control: max-age=60\n\ngone");
    fill(&memcached, "http://h/page", "first");
    assert_eq!("first", larder.get("/page").text());
    assert_eq!("DELETED\r\n", memcached.command("delete http://h/page\r\n"));
    larder.advance(3);
    assert_eq!("gone", larder.get("/page").text());
    fill_after(&memcached, 3, "http://h/page", "second");
    larder.advance(3);
    assert_eq!("second", larder.get("/page").text());
    assert_eq!(1, origin.requests());
}

#[test]
fn an_item_written_after_a_soft_purge_is_found() {
    for kind in ["soft", "validate"] {
        let (memcached, origin, larder) =
            filled_by_applications("HTTP/1.1 404 Not Found\nCache-Control: no-store\n\nnone");
        fill(&memcached, "http://h/page", "first");
        assert_eq!("first", larder.get("/page").text());
        let body = format!("{{\"url\": \"http://h/page\", \"{kind}\": true}}");
        assert_eq!(200, larder.admin_post("/cache/purge", &body).status);
        assert_eq!("none", larder.get("/page").text(), "{kind}");
        assert_eq!(1, origin.requests());
        larder.advance(3);
        fill_after(&memcached, 3, "http://h/page", "second");
        assert_eq!("second", larder.get("/page").text(), "{kind}");
        assert_eq!(1, origin.requests());
    }
}

#[test]
fn an_item_written_right_after_a_purge_is_seen_if_it_names_its_log_position() {
    let memcached = Memcached::start();
    let origin = Origin::fixed("HTTP/1.1 404 Not Found\nCache-Control: no-store\n\nnone");
    let sections = format!(
        "[cache.fleet]\nservers = [{:?}]\ntimeout = \"4s\"\nlease = \"10s\"\nfilled_by = \"applications\"\n",
        memcached.name()
    );
    let larder = Larder::before_with(&origin, "", &sections);
    in_sync(&larder);
    let (name, url) = (memcached.name(), "http://h/page");
    let knowing = ["--logs", &name];
    let purge = || {
        assert_eq!(200, larder.admin_post("/cache/purge", "{\"url\": \"http://h/page\"}").status);
    };
    fill_with(&memcached, 0, url, "first", &knowing);
    assert_eq!("first", larder.get("/page").text());
    purge();
    assert_eq!("miss: nothing, purged", explained(&larder, url));
    fill_with(&memcached, 0, url, "second", &knowing);
    assert_eq!("second", larder.get("/page").text());
    assert_eq!((0, 0), (origin.requests(), larder.counter("fleet_purged")));
    // One that says nothing but its `Date` may be older.
    purge();
    fill(&memcached, url, "third");
    assert_eq!("miss: nothing, purged", explained(&larder, url));
    assert_eq!("none", larder.get("/page").text());
    assert_eq!((1, 1), (origin.requests(), larder.counter("fleet_purged")));
}

#[test]
fn a_page_of_the_older_form_is_served() {
    let memcached = Memcached::start();
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nof the origin");
    let top = fleet(&[&memcached], "timeout = \"60s\"\nfilled_by = \"older\"");
    let larder = Larder::before_with(&origin, "default_ttl = \"60s\"", &top);
    memcached.write("http://h/page", b"text/plain\0by an older application");
    let found = larder.get("/page");
    assert_eq!("by an older application", found.text());
    assert_eq!(Some("text/plain"), found.field("content-type"));
    assert!(found.cache().ends_with("; detail=fleet"), "{}", found.cache());
    assert_eq!(0, origin.requests());
}

/// The verdict on a URL, and each tier's content for it.
fn explained(larder: &Larder, url: &str) -> String {
    let mut client = super::super::harness::Client::connect(larder.admin);
    let body = format!("{{\"url\": {url:?}}}");
    client.send(format!(
        "POST /cache/explain HTTP/1.1\r\n{}\r\nContent-Length: {}\r\n\r\n{body}",
        larder.admin_lines(),
        body.len()
    ));
    let answer: serde_json::Value = serde_json::from_slice(&client.read().body).unwrap();
    let holds = answer["tiers"].as_array().unwrap().iter().map(|it| it["holds"].as_str().unwrap());
    format!("{}: {}", answer["verdict"]["name"].as_str().unwrap(), holds.collect::<Vec<_>>().join(", "))
}

#[test]
fn explain_reports_the_content_of_each_tier() {
    let memcached = Memcached::start();
    let origin = of_size();
    let folder = tempfile::tempdir().unwrap();
    let top = fleet(&[&memcached], "timeout = \"60s\"") + &disk(folder.path());
    let larder = Larder::before_with(&origin, "", &top);
    let fetch = || explained(&larder, "http://h/1000");
    assert_eq!("miss: nothing, nothing, nothing", fetch());
    let other = node(&origin, &memcached);
    other.get("/1000");
    settled(&other, 1);
    assert_eq!("hit: nothing, nothing, response", fetch());
    larder.get("/1000");
    until("it is on disk", || fetch() == "hit: variants, response, response");
    assert_eq!("OK\r\n", memcached.command("flush_all\r\n"));
    assert_eq!("hit: variants, response, nothing", fetch());
    larder.advance(6);
    assert_eq!("revalidate: variants, response, nothing", fetch());
    let found = larder.get("/1000");
    assert!(found.cache().contains("fwd=stale"), "{}", found.cache());
    until("it is everywhere", || fetch() == "hit: variants, response, response");
}

/// Waits until a node trusts what it holds: it has read the purge log.
fn in_sync(node: &Larder) {
    until("the log is followed", || node.counter("purge_log_polls") >= 3);
}

#[test]
fn with_the_purge_log_one_fills_another_serves_and_a_restart_keeps_it() {
    let memcached = Memcached::start();
    let origin = of_size();
    let folder = tempfile::tempdir().unwrap();
    let sections =
        format!("[cache.fleet]\nservers = [{:?}]\ntimeout = \"4s\"\nlease = \"10s\"\n", memcached.name());
    let with_disk = sections.clone() + &disk(folder.path());
    let a = Larder::before_with(&origin, "", &with_disk);
    in_sync(&a);
    for target in ["/1000", "/100000"] {
        a.get(target);
    }
    settled(&a, 2);
    until("it is on disk", || a.counter("disk_writes") >= 2);
    let b = Larder::before_with(&origin, "", &sections);
    in_sync(&b);
    for target in ["/1000", "/100000"] {
        let found = b.get(target);
        assert!(found.cache().ends_with("; detail=fleet"), "{target}: {}", found.cache());
    }
    killed(a);
    let a = Larder::before_with(&origin, "", &with_disk);
    in_sync(&a);
    for (length, target) in [(1000, "/1000"), (100_000, "/100000")] {
        let found = a.get(target);
        assert!(found.cache().ends_with("; detail=disk"), "{target}: {}", found.cache());
        assert!(found.body == binary(length));
    }
    assert_eq!(2, origin.requests());
}

#[test]
fn a_page_from_the_fleet_is_restored_from_disk() {
    let memcached = Memcached::start();
    let origin = of_size();
    let folder = tempfile::tempdir().unwrap();
    let a = node(&origin, &memcached);
    a.get("/50000");
    settled(&a, 1);
    let b =
        Larder::before_with(&origin, "", &(fleet(&[&memcached], "timeout = \"60s\"") + &disk(folder.path())));
    assert!(b.get("/50000").cache().ends_with("; detail=fleet"));
    until("it is on disk", || b.counter("disk_writes") >= 1);
    killed(b);
    let b = Larder::before_with(&origin, "", &disk(folder.path()));
    let found = b.get("/50000");
    assert!(found.cache().ends_with("; detail=disk") && found.body == binary(50_000), "{}", found.cache());
    assert_eq!(1, origin.requests());
}

#[test]
fn a_removal_that_a_stopped_server_missed_is_remembered_by_the_node() {
    let memcached = Memcached::start();
    let origin = Origin::new(|it| match it.line().starts_with("POST") {
        true => "HTTP/1.1 200 OK\n\ndone".to_owned(),
        false => format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nanswer {}", it.number),
    });
    let top = fleet(&[&memcached], "timeout = \"1s\"\nretry = \"1s\"");
    let a = Larder::before_with(&origin, "", &top);
    a.get("/");
    settled(&a, 1);
    a.advance(2);
    memcached.stop();
    assert_eq!(200, a.client().request("POST", "/", "", "x").status);
    memcached.go_on();
    a.advance(2);
    let found = a.get("/");
    assert_eq!("answer 2", found.text(), "{}", found.cache());
}

#[test]
fn an_unused_lease_is_released_on_any_connection() {
    let memcached = Memcached::start();
    let origin = Origin::new(|_| "HTTP/1.1 200 OK\nCache-Control: no-store\n\nx".to_owned());
    let (a, b) = (node(&origin, &memcached), node(&origin, &memcached));
    // Nothing was ever written: some connections have not been opened.
    for page in 0..12 {
        let target = format!("/{page}");
        assert_eq!((200, 200), (a.get(&target).status, b.get(&target).status));
    }
    assert_eq!([0, 0], [&a, &b].map(|it| it.counter("recompute_wait_timeouts")), "no node waits in full");
    // One that a busy machine gives back late may be taken over.
    assert!(b.counter("recompute_takeovers") < 6, "{}", b.counter("recompute_takeovers"));
}
