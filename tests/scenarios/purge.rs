//! Purging on one node: over the admin API and by the `PURGE` method.

use crate::harness::command::run;
use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Client, Larder, Origin, Response, until};
use serde_json::{Value, json};

/// An origin whose pages have a tag of their first letter, a validator, and say how often they were made.
fn tagged() -> Origin {
    let made = std::sync::atomic::AtomicUsize::new(0);
    Origin::new(move |it: &Received| {
        let number = made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let letter = it.target().get(1..2).unwrap_or("-").to_owned();
        let kind = if it.target().ends_with(".css") { "text/css" } else { "text/html" };
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"e\"\nSurrogate-Key: {letter} every\nContent-Type: {kind}\n\n{number}"
        )
    })
}

/// The admin's answer to `POST /cache/purge`.
fn post(larder: &Larder, body: &str) -> (u16, Value) {
    let answer = larder.admin_send("POST", "/cache/purge", body).read();
    (answer.status, serde_json::from_str(&answer.text()).unwrap_or_else(|it| panic!("{it}: {answer:?}")))
}

#[track_caller]
pub(super) fn purge(larder: &Larder, body: Value) -> Value {
    let (status, answer) = post(larder, &body.to_string());
    assert_eq!(200, status, "{body}: {answer}");
    assert_eq!(json!(true), answer["complete"], "{body}: {answer}");
    answer
}

fn is_hit(larder: &Larder, target: &str) -> bool {
    larder.get(target).is_hit()
}

/// Stores the pages, purges, and tells which of them are hits then.
#[track_caller]
fn check(body: Value, left: &[&str]) {
    let origin = tagged();
    let larder = Larder::before(&origin, "");
    let pages = ["/a/1", "/a/2", "/a/x.css", "/b/1"];
    for page in pages {
        larder.get(page);
        assert!(is_hit(&larder, page), "{page} is stored");
    }
    purge(&larder, body.clone());
    let hits: Vec<&str> = pages.into_iter().filter(|it| is_hit(&larder, it)).collect();
    assert_eq!(left, hits.as_slice(), "{body}");
}

#[test]
fn by_url() {
    check(json!({ "url": "http://h/a/1" }), &["/a/2", "/a/x.css", "/b/1"]);
    check(json!({ "url": "HTTPS://H:443/a/1#x" }), &["/a/2", "/a/x.css", "/b/1"]);
    check(json!({ "url": "/b/1", "host": "h" }), &["/a/1", "/a/2", "/a/x.css"]);
    // The port of either scheme is that of both.
    check(json!({ "url": "http://h:443/a/1" }), &["/a/2", "/a/x.css", "/b/1"]);
    check(json!({ "url": "h:443/a/1" }), &["/a/2", "/a/x.css", "/b/1"]);
    check(json!({ "url": "/b/1", "host": "h:443" }), &["/a/1", "/a/2", "/a/x.css"]);
    check(json!({ "prefix": "https://h:80/a/" }), &["/b/1"]);
    check(json!({ "url": "h:4443/a/1" }), &["/a/1", "/a/2", "/a/x.css", "/b/1"]);
    check(json!({ "url": "http://h/a" }), &["/a/1", "/a/2", "/a/x.css", "/b/1"]);
    check(json!({ "url": "http://other/a/1" }), &["/a/1", "/a/2", "/a/x.css", "/b/1"]);
}

#[test]
fn by_prefix() {
    check(json!({ "prefix": "http://h/a/" }), &["/b/1"]);
    check(json!({ "prefix": "//h/a/x*" }), &["/a/1", "/a/2", "/b/1"]);
    check(json!({ "prefix": "http://h" }), &[]);
    check(json!({ "prefix": "http://hh" }), &["/a/1", "/a/2", "/a/x.css", "/b/1"]);
}

#[test]
fn by_tag() {
    check(json!({ "tag": "a" }), &["/b/1"]);
    check(json!({ "tag": "every" }), &[]);
    check(json!({ "tag": "A" }), &["/a/1", "/a/2", "/a/x.css", "/b/1"]);
}

#[test]
fn by_condition() {
    check(json!({ "where": "header[\"content-type\"] == \"text/css\"" }), &["/a/1", "/a/2", "/b/1"]);
    check(json!({ "where": "status == 200 && key ~ \"/1$\"" }), &["/a/2", "/a/x.css"]);
}

#[test]
fn a_purge_of_all_responses() {
    check(json!({ "all": true }), &[]);
}

#[test]
fn a_purge_by_url_covers_all_variants_of_the_key() {
    let origin = tagged();
    let larder = Larder::before(
        &origin,
        "key = { headers = [\"X-Country\"], cookies = [\"lang\"], drop = [\"utm_*\"] }",
    );
    let get = |lines: &str| larder.client().get_with("/a?q=1&utm_a=2", lines).is_hit();
    let kinds = ["", "X-Country: de\r\n", "X-Country: fr\r\nCookie: lang=fr\r\n"];
    assert_eq!([false; 3], kinds.map(get));
    assert_eq!([true; 3], kinds.map(get));
    purge(&larder, json!({ "url": "http://h/a?utm_b=9&q=1" }));
    assert_eq!([false; 3], kinds.map(get));
}

#[test]
fn soft_leaves_a_stale_response() {
    let origin = tagged();
    let larder = Larder::before(&origin, "stale_while_revalidate = \"1h\"");
    let first = larder.get("/a").text();
    purge(&larder, json!({ "url": "h/a", "soft": true }));
    let stale = larder.get("/a");
    assert_eq!(
        (first.as_str(), true),
        (stale.text().as_str(), stale.is_hit()),
        "used once more, while it is validated"
    );
    until("the new one is there", || larder.get("/a").text() != first);
    assert_eq!(Some("\"e\""), origin.received()[1].field("if-none-match"));
}

#[test]
fn a_page_purged_for_validation_is_not_served_before_its_validation() {
    let origin = tagged();
    let larder = Larder::before(&origin, "stale_while_revalidate = \"1h\"");
    let first = larder.get("/a").text();
    purge(&larder, json!({ "tag": "every", "validate": true }));
    assert_ne!(first, larder.get("/a").text());
    assert_eq!(Some("\"e\""), origin.received()[1].field("if-none-match"));
}

#[test]
fn a_page_in_flight_is_not_served_after_its_purge() {
    let gate = Gate::new();
    let door = gate.clone();
    let origin = Origin::scripted(move |it: &Received| {
        let text = format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\nContent-Length: 1\n\n{}", it.number);
        match it.number {
            0 => vec![Script::Gate(door.clone()), Script::Send(response(&text))],
            _ => vec![Script::Send(response(&text))],
        }
    });
    let larder = Larder::before(&origin, "");
    let mut early = larder.client();
    early.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the origin is asked", || origin.requests() == 1);
    let answer = purge(&larder, json!({ "url": "http://h/a" }));
    assert_eq!("applied", answer["receipts"][0]["state"], "{answer}");
    assert_eq!(
        "1",
        larder.get("/a").text(),
        "what was asked before the purge is nobody's who comes after it"
    );
    gate.open();
    assert_eq!("0", early.read().text(), "who asked before gets what was asked for");
    let after = larder.get("/a");
    assert_eq!(("1", true), (after.text().as_str(), after.is_hit()));
}

#[test]
fn a_reader_of_a_purged_body_gets_all_of_it() {
    let origin =
        Origin::new(|_| format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", "x".repeat(8 << 20)));
    let larder = Larder::before(&origin, "");
    larder.get("/big");
    let mut slow = larder.client();
    slow.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
    let start = slow.read_bytes(1000);
    purge(&larder, json!({ "all": true }));
    assert!(!is_hit(&larder, "/big"), "gone for others");
    let head = start.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    let rest = slow.read_bytes((8 << 20) - (start.len() - head));
    assert_eq!(8 << 20, start.len() - head + rest.len());
    assert!(rest.iter().all(|it| *it == b'x'));
}

#[test]
fn the_response_to_a_purge_describes_its_effect() {
    let origin = tagged();
    let larder = Larder::before(&origin, "");
    let one = purge(&larder, json!({ "tag": "x" }));
    let two = purge(&larder, json!({ "url": "H/a", "soft": true }));
    assert_eq!(json!({ "tag": "x" }), one["scope"]);
    assert_eq!(
        (json!({ "url": "http://h/a" }), "soft"),
        (two["scope"].clone(), two["strength"].as_str().unwrap())
    );
    assert_eq!(one["seq"].as_u64().unwrap() + 1, two["seq"].as_u64().unwrap());
    assert_eq!(
        json!([{ "of": "ram", "state": "applied", "count": 0, "count_is": "exact", "count_is_exact": true }]),
        two["receipts"]
    );
    assert_eq!(2, larder.counter("purges"));
}

#[test]
fn bad_questions_get_one_sentence() {
    let origin = tagged();
    let larder = Larder::before(&origin, "");
    let refused = |body: &str| {
        let (status, answer) = post(&larder, body);
        assert_eq!(400, status, "{body}: {answer}");
        answer["detail"].as_str().unwrap().to_owned()
    };
    assert_eq!("\"tga\" is unknown; did you mean \"tag\"?", refused("{\"tga\": \"x\"}"));
    assert!(refused("{\"where\": \"status = 3\"}").starts_with("column "));
    assert!(refused("nonsense").starts_with("The body is not JSON: "));
    assert_eq!("\"tag\" is duplicate; send it once.", refused("{\"tag\": \"a\", \"tag\": \"b\"}"));
    let unclear = "\"x\" is ambiguous: host or path; write http://HOST/PATH, or /PATH with \"host\".";
    assert_eq!(unclear, refused("{\"url\": \"x\"}"));
    let ended = run(larder.folder.path(), &["purge", "x", "--admin", &larder.admin.to_string()]);
    assert_eq!((2, ""), (ended.code, ended.out.as_str()));
    let unclear = unclear.replace("\"host\".", "--host");
    assert!(ended.err.contains(&unclear), "{}", ended.err);
    assert_eq!(0, larder.counter("purges"));
    assert_eq!(405, larder.admin_get("/cache/purge").status);
}

/// A `PURGE` of `/a` at a larder whose route says `purge`.
fn by_method(purge: &str, lines: &str) -> (Response, Larder, Origin) {
    let origin = tagged();
    let larder = Larder::before(&origin, purge);
    larder.get("/a");
    let answer = larder.client().request("PURGE", "/a", lines, "");
    (answer, larder, origin)
}

#[test]
fn a_purge_request_is_sent_to_the_origin_by_default() {
    let (answer, _, origin) = by_method("", "");
    assert_eq!(200, answer.status);
    assert_eq!("PURGE /a HTTP/1.1", origin.received()[1].line());
}

#[test]
fn purge_where_it_is_allowed() {
    let (answer, larder, origin) = by_method("purge = { method = true }", "");
    let report: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!((200, json!({ "url": "http://h/a" })), (answer.status, report["scope"].clone()), "{answer:?}");
    assert_eq!(1, origin.requests(), "it never reaches the origin");
    assert!(!is_hit(&larder, "/a"));
}

#[test]
fn purge_of_a_path_that_looks_like_another_host() {
    let larder = Larder::before(&tagged(), "purge = { method = true }");
    for target in ["//other/a", "/a", "//a"] {
        larder.get(target);
        assert!(is_hit(&larder, target));
        let answer = larder.client().request("PURGE", target, "", "");
        assert_eq!(200, answer.status, "{target}: {answer:?}");
        assert!(!is_hit(&larder, target), "{target}");
    }
}

#[test]
fn purge_softly() {
    let (answer, larder, origin) = by_method("purge = { method = true }", "Fastly-Soft-Purge: 1\r\n");
    assert!(answer.text().contains("\"soft\""), "{answer:?}");
    larder.get("/a");
    assert_eq!(Some("\"e\""), origin.received()[1].field("if-none-match"));
}

/// Whose tag is missing, for whatever reason, has not meant the URL.
#[test]
fn purge_of_no_tag_is_refused() {
    for lines in ["Surrogate-Key: \r\n", "Cache-Tag: , \r\n", "Surrogate-Key: b\r\nCache-Tag: ,\r\n"] {
        let (answer, larder, _) = by_method("purge = { method = true }", lines);
        assert_eq!(400, answer.status, "{lines}: {answer:?}");
        assert!(answer.text().contains("contains no tag; remove it to purge the URL."), "{answer:?}");
        assert!(is_hit(&larder, "/a") && larder.counter("purges") == 0, "{lines}");
    }
}

/// Other caches mean more than the URL by these: a 200 would have removed none of it.
#[test]
fn purge_by_a_way_that_is_not_known_is_refused() {
    let (_, larder, _) = by_method("purge = { method = true }", "X-Purge-Method: tags\r\n");
    assert!(is_hit(&larder, "/a") && larder.counter("purges") == 0);
    for name in [
        "X-Xkey-Softpurge",
        "X-Key-Purge",
        "X-Purge-Tags",
        "Purge-Tags",
        "X-Purge-Keys",
        "X-Purge-Regex",
        "X-Invalidate-Pattern",
        "X-Ban-Regexp",
        "Ban-Regex",
        "Edge-Cache-Tag",
        "Cache-Groups",
    ] {
        let answer = larder.client().request("PURGE", "/a", &format!("{name}: x\r\n"), "");
        assert!(answer.status == 400 && answer.text().contains("is not supported"), "{name}: {answer:?}");
    }
    assert!(is_hit(&larder, "/a") && larder.counter("purges") == 0);
    let (answer, larder, _) = by_method("purge = { method = true }", "X-Purge-Method: default\r\n");
    assert!(answer.status == 200 && !is_hit(&larder, "/a"), "{answer:?}");
}

#[test]
fn purge_of_tags() {
    let (answer, larder, _) = by_method("purge = { method = true }", "Surrogate-Key: x, b\r\n");
    assert_eq!(200, answer.status, "{answer:?}");
    assert!(is_hit(&larder, "/a"), "the tags are meant, not the URL");
    larder.client().request("PURGE", "/", "Cache-Tag: a\r\n", "");
    assert!(!is_hit(&larder, "/a"));
}

/// A route of `origin` for a path, with what it says of `PURGE`.
fn route(origin: &Origin, path: &str, purge: &str) -> String {
    let url = origin.url();
    format!("[[site.route]]\npath = {path:?}\nproxy = {{ to = [{url:?}] }}\ncache = {{ {purge} }}\n")
}

#[test]
fn a_purge_of_tags_covers_only_routes_that_allow_it() {
    let origin = tagged();
    let allowed = "purge = { method = true, from = [\"127.0.0.1\"] }";
    let elsewhere = "purge = { method = true, from = [\"10.0.0.0/8\"] }";
    let site = |hosts: &str, routes: &[(&str, &str)]| {
        let routes: String = routes.iter().map(|it| route(&origin, it.0, it.1)).collect();
        format!("[[site]]\nhosts = [{hosts:?}]\n{routes}")
    };
    let config = [
        "listen = [\"127.0.0.1:0\"]\n".to_owned(),
        site(
            "a.example",
            &[("/a.b/private/*", elsewhere), ("/one", "purge = { method = false }"), ("/*", allowed)],
        ),
        site("b.example", &[("/open/*", allowed), ("/*", "purge = { method = false }")]),
        site("*.c.example", &[("/*", allowed)]),
        site("x.c.example", &[("/*", elsewhere)]),
        site("*", &[("/*", "")]),
    ];
    let larder = Larder::configured(config.concat());
    let gone = [
        "a.example/",
        "a.example/two",
        "a.example/a-b/private/x",
        "a.example:81/%C3%BC",
        "b.example/open/x",
        "y.c.example/x",
    ];
    let kept = [
        "a.example/a.b/private/x",
        "a.example/one",
        "b.example/",
        "b.example/opener",
        "x.c.example/x",
        "other/x",
    ];
    let mut client = larder.client();
    let mut get = |url: &&str| {
        let (host, path) = url.split_at(url.find('/').unwrap());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read()
    };
    for it in gone.iter().chain(&kept) {
        get(it);
        assert!(get(it).is_hit(), "{it}");
    }
    let mut purger = larder.client();
    let mut purge_tag = |tag: &str| {
        purger.send(format!("PURGE / HTTP/1.1\r\nHost: a.example\r\nSurrogate-Key: {tag}\r\n\r\n"));
        purger.read()
    };
    // Tags that nothing has touch nothing, however many they are.
    (0..100).for_each(|n| assert_eq!(200, purge_tag(&format!("none-{n}")).status));
    assert_eq!(0, larder.counter("purge_rules_full"));
    for it in gone.iter().chain(&kept) {
        assert!(get(it).is_hit(), "{it}");
    }
    let answer = purge_tag("every");
    assert_eq!(200, answer.status, "{answer:?}");
    for it in gone {
        assert!(!get(&it).is_hit(), "{it}: {answer:?}");
    }
    for it in kept {
        assert!(get(&it).is_hit(), "{it}: {answer:?}");
    }
    // The admin's reaches all.
    self::purge(&larder, json!({ "tag": "every" }));
    for it in kept {
        assert!(!get(&it).is_hit(), "{it}");
    }
}

#[test]
fn purge_from_elsewhere_is_forbidden() {
    let (answer, larder, origin) = by_method("purge = { method = true, from = [\"10.0.0.0/8\"] }", "");
    assert_eq!((403, 1), (answer.status, origin.requests()));
    assert!(is_hit(&larder, "/a"));
    assert_eq!(1, larder.counter("purges_refused"));
}

#[test]
fn purge_switched_off_is_no_method() {
    let (answer, larder, origin) = by_method("purge = { method = false }", "");
    assert_eq!((405, 1), (answer.status, origin.requests()));
    assert!(answer.field("allow").is_some_and(|it| it.contains("GET") && !it.contains("PURGE")));
    assert!(is_hit(&larder, "/a"));
}

/// Has larder take over a configuration; in force in its main thread then.
fn reload(larder: &Larder, config: &str) {
    let before = larder.counter("config_reloads");
    std::fs::write(larder.config(), config).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is taken over", || larder.counter("config_reloads") > before);
}

#[test]
fn a_subsystem_is_logged_while_its_level_is_debug() {
    let origin = tagged();
    let config = |levels: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nerror = \"error.log\"\n{levels}\n\
             [[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
            origin.url()
        )
    };
    let larder = Larder::configured(config(""));
    let log = || larder.error_log();
    let reload = |levels: &str| reload(&larder, &config(levels));
    larder.get("/before");
    reload("levels = { origin = \"debug\" }");
    larder.get("/while?a");
    let line = "debug origin-asked method=GET url=\"http://h/while?a\" status=200 duration_us=";
    let is_told = |target: &str| log().contains(target);
    until("the request is told", || is_told("/while?a"));
    assert!(
        log()
            .lines()
            .any(|it| it.replace('"', "").contains(&line.replace('"', "")) && it.contains("why=uri-miss")),
        "{}",
        log()
    );
    reload("");
    larder.get("/after");
    purge(&larder, json!({ "tag": "last" }));
    until("a later event is told", || is_told("tag=last"));
    assert!(!is_told("/before") && !is_told("/after"), "{}", log());
}

#[test]
fn the_error_log_tells_of_purges_as_far_as_its_levels_say() {
    let origin = tagged();
    let config = |level: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nerror = \"error.log\"\n\
             levels = {{ purge = \"{level}\", audit = \"off\" }}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
            origin.url()
        )
    };
    let larder = Larder::configured(config("info"));
    let log = || larder.error_log();
    let report = |what: &str| log().lines().any(|it| it.contains(what));
    purge(&larder, json!({ "tag": "loud" }));
    until("it is told", || report(" info purged tag=loud strength=hard seq=1 by=\"admin from 127.0.0.1\""));
    reload(&larder, &config("error"));
    purge(&larder, json!({ "tag": "quiet" }));
    reload(&larder, &config("info"));
    purge(&larder, json!({ "tag": "again" }));
    until("a later event is told", || report("tag=again"));
    assert!(!report(" purged tag=quiet"), "{}", log());
}

#[test]
fn a_purge_of_a_url_is_logged_without_its_secrets() {
    let origin = tagged();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nerror = \"error.log\"\nlevels = {{ audit = \"off\" }}\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    ));
    purge(&larder, json!({ "url": "http://h/reset?token=S3CRET" }));
    purge(&larder, json!({ "prefix": "http://h/mail?code=S3CRET" }));
    purge(&larder, json!({ "tag": "last" }));
    until("all are told", || larder.error_log().contains("tag=last"));
    let log = larder.error_log();
    assert!(log.contains("http://h/reset?token=***") && log.contains("http://h/mail?code=***"), "{log}");
    assert!(!log.contains("S3CRET"), "{log}");
}

#[test]
fn the_error_log_has_each_step_of_a_purge_at_level_debug() {
    let origin = tagged();
    let config = |levels: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nerror = \"error.log\"\n{levels}\n\
             [[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
            origin.url()
        )
    };
    let larder = Larder::configured(config(""));
    let log = || larder.error_log();
    let report = |what: &str| log().lines().any(|it| it.replace('"', "").contains(what));
    let change = |target: &str| larder.client().request("POST", target, "", "");
    change("/before");
    purge(&larder, json!({ "tag": "before" }));
    reload(&larder, &config("levels = { purge = \"debug\" }"));
    change("/while");
    until("what a request removes is told", || {
        report(" debug invalidated method=POST url=http://h/while status=200")
    });
    purge(&larder, json!({ "tag": "while" }));
    until("where it stands is told", || report(" debug purge-receipt seq=2 of=ram state=applied"));
    assert!(!report("/before") && !report("purge-receipt seq=1"), "{}", log());
}

#[test]
fn from_the_command_line() {
    let origin = tagged();
    let larder = Larder::before(&origin, "");
    let admin = larder.admin.to_string();
    let command = |arguments: &[&str]| {
        let mut all = vec!["purge", "--admin", &admin];
        all.extend(arguments);
        run(larder.folder.path(), &all)
    };
    for page in ["/a/1", "/a/2", "/b/1"] {
        larder.get(page);
    }
    let ended = command(&["http://h/a/1", "h/a/2"]);
    let expect = "purged url http://h/a/1 (hard, purge number 1)\n  ram: 1 response removed\n\
                  purged url http://h/a/2 (hard, purge number 2)\n  ram: 1 response removed\n";
    assert_eq!((0, expect, ""), (ended.code, ended.out.as_str(), ended.err.as_str()));
    assert_eq!([false, false, true], ["/a/1", "/a/2", "/b/1"].map(|it| is_hit(&larder, it)));
    let ended = command(&["--tag", "b", "--soft", "--json"]);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (0, json!(true), json!("soft")),
        (ended.code, report["complete"].clone(), report["purges"][0]["strength"].clone())
    );
    assert_eq!(2, command(&[]).code);
    let ended = run(larder.folder.path(), &["purge", "--all", "--admin", "127.0.0.1:1"]);
    assert_eq!(1, ended.code);
    assert!(ended.err.contains("No larder answers at 127.0.0.1:1"), "{}", ended.err);
}

#[test]
fn a_softly_purged_page_is_validated_once_for_simultaneous_requests() {
    let gate = Gate::new();
    let before = gate.clone();
    let origin = Origin::scripted(move |it| {
        let text = "HTTP/1.1 200 OK\nCache-Control: max-age=600\nETag: \"e\"\n\npage";
        match it.field("if-none-match") {
            None => vec![Script::Send(response(text))],
            Some(_) => {
                let answer = response("HTTP/1.1 304 Not Modified\nETag: \"e\"\n\n");
                vec![Script::Gate(before.clone()), Script::Send(answer)]
            }
        }
    });
    let larder = Larder::before(&origin, "");
    larder.get("/");
    purge(&larder, json!({ "all": true, "soft": true }));
    let mut clients: Vec<Client> = (0..50).map(|_| larder.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until("the others wait for the first", || larder.counter("requests_collapsed") == 49);
    gate.open();
    for client in &mut clients {
        assert_eq!("page", client.read().text());
    }
    assert_eq!(2, origin.requests());
}

#[test]
fn a_bad_condition_on_the_command_line() {
    // Whether a larder runs or not.
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["purge", "--admin", "127.0.0.1:1", "--where", "status = 3"]);
    assert_eq!(2, ended.code, "{ended:?}");
    assert!(ended.err.starts_with("larder: --where, column 8: "), "{}", ended.err);
}

#[test]
fn a_purge_outlives_the_process() {
    let disk = tempfile::tempdir().unwrap();
    let origin = tagged();
    let start = || {
        let top = format!("[cache.disk]\npath = \"{}\"\nmin_ttl = \"0s\"\n", disk.path().display());
        Larder::before_with(&origin, "", &top)
    };
    let larder = start();
    larder.get("/a");
    larder.get("/b");
    until("both are on disk", || larder.counter("disk_writes") == 2);
    let answer = purge(&larder, json!({ "tag": "a" }));
    assert_eq!("applied", answer["receipts"][1]["state"], "{answer}");
    drop(larder); // As by kill -9: nothing is written any more.
    let larder = start();
    let (purged, kept) = (larder.get("/a"), larder.get("/b"));
    assert_eq!((false, true), (purged.is_hit(), kept.is_hit()), "{} {}", purged.cache(), kept.cache());
    assert_eq!(3, origin.requests());
}

#[test]
fn groups_are_purged_by_their_name() {
    let origin = Origin::new(|_| {
        "HTTP/1.1 200 OK\nCache-Control: max-age=60\nCache-Groups: \"one\", \"two\"\n\nx".to_owned()
    });
    let larder = Larder::before(&origin, "");
    larder.get("/");
    purge(&larder, json!({ "tag": "three" }));
    assert!(is_hit(&larder, "/"));
    purge(&larder, json!({ "where": "tag == \"two\"" }));
    assert!(!is_hit(&larder, "/"));
    purge(&larder, json!({ "tag": "one" }));
    assert!(!is_hit(&larder, "/"));
}

#[test]
fn urls_with_bytes_that_no_uri_may_have() {
    let origin = tagged();
    let larder = Larder::before(&origin, "");
    for target in ["/a|b", "/a?x[]=1", "/a{b}^"] {
        for (name, url) in [("url", format!("http://h{target}")), ("prefix", format!("//h{target}*"))] {
            larder.get(target);
            assert!(is_hit(&larder, target), "{target} is stored");
            purge(&larder, json!({ name: url }));
            assert!(!is_hit(&larder, target), "{name} {target}");
        }
    }
}

#[test]
fn a_body_that_is_too_large_for_the_admin_is_a_413() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    for length in ["65537", "68157440", "99999999999"] {
        let mut client = Client::connect(larder.admin);
        let head = format!(
            "POST /cache/purge HTTP/1.1\r\n{}\r\nContent-Length: {length}\r\n\r\n",
            larder.admin_lines()
        );
        let body = if length == "65537" { "x".repeat(65537) } else { String::new() };
        let it = client.send(head + &body).read();
        assert_eq!((413, true), (it.status, it.complete), "{length}: {it:?}");
        assert!(it.text().contains("The body exceeds 65536 bytes."), "{length}: {it:?}");
    }
}

#[test]
fn head_on_the_admin_is_get_without_the_body() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    for path in ["/", "/cache/stats"] {
        let mut client = Client::connect(larder.admin);
        let mut fetch = |method: &str| {
            client
                .send(format!("{method} {path} HTTP/1.1\r\n{}\r\n\r\n", larder.admin_lines()))
                .read_for(method)
        };
        let head = fetch("HEAD");
        let length: usize = head.field("content-length").unwrap().parse().unwrap();
        assert_eq!((200, 0, true), (head.status, head.body.len(), length > 100), "{path}: {head:?}");
        let get = fetch("GET");
        assert_eq!((200, head.field("content-type")), (get.status, get.field("content-type")), "{path}");
    }
    for (method, path, allow) in [("PUT", "/cache/stats", "GET, HEAD"), ("GET", "/cache/purge", "POST")] {
        let it = larder.admin_request(method, path);
        assert_eq!((405, Some(allow)), (it.status, it.field("allow")), "{method} {path}");
    }
}
