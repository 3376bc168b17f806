//! Rules of a route about the responses that it caches, by status, type, size, field and URL.

use crate::harness::command::run;
use crate::harness::http2::Http2;
use crate::harness::origin::Received;
use crate::harness::{Larder, Origin, until};

/// An application that answers as the path says: `/STATUS/TYPE/SIZE/NAME`, with `Cache-Control: max-age=60`, and without it where the query is
/// `silent`.
fn application() -> Origin {
    Origin::new(|it: &Received| {
        let parts: Vec<&str> = it.target().split(['/', '?']).collect();
        let (status, kind) = (parts[1], parts[2].replace('-', "/"));
        let size: usize = parts[3].parse().unwrap();
        let control =
            if it.target().ends_with("?silent") { "X-None: 1" } else { "Cache-Control: max-age=60" };
        let own = if it.target().contains("own") { "Set-Cookie: a=1\n" } else { "" };
        let private = if it.target().contains("secret") { "Cache-Control: private\n" } else { "" };
        let body = "x".repeat(size);
        format!(
            "HTTP/1.1 {status} Y\n{control}\n{own}{private}Content-Type: {kind}; charset=utf-8\nContent-Length: {size}\nX-Kind: {}\n\n{body}",
            parts[4]
        )
    })
}

fn before(origin: &Origin, rules: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n{rules}",
        origin.url()
    ))
}

const RULES: &str = r#"
[[site.route.cache.rule]]
when = 'size > 1KiB'
pass = true
[[site.route.cache.rule]]
when = 'type == "application/json"'
ttl = "5s"
[[site.route.cache.rule]]
when = 'status == 503 || status == 302'
ttl = "2s"
[[site.route.cache.rule]]
when = 'header["X-Kind"] == "news"'
ttl = "1h"
[[site.route.cache.rule]]
when = 'path ~ "/never$"'
pass = true
[[site.route.cache.rule]]
when = 'query == "silent"'
ttl = "10s"
"#;

/// Asks twice, and once more after each time; whether each is a hit.
#[track_caller]
fn check(larder: &Larder, target: &str, seconds: i64, expect: [bool; 2]) {
    larder.get(target);
    let soon = larder.get(target);
    larder.advance(seconds);
    let late = larder.get(target);
    assert_eq!(expect, [soon.is_hit(), late.is_hit()], "{target}: {} then {}", soon.cache(), late.cache());
}

#[test]
fn the_first_rule_that_holds_decides() {
    let origin = application();
    let larder = before(&origin, RULES);
    check(&larder, "/200/text-html/100/other", 30, [true, true]);
    check(&larder, "/200/text-html/2000/other", 1, [false, false]);
    check(&larder, "/200/application-json/2000/other", 1, [false, false]);
    check(&larder, "/200/application-json/100/other", 4, [true, true]);
    check(&larder, "/200/application-json/100/another", 6, [true, false]);
    check(&larder, "/200/text-html/100/news", 3_000, [true, true]);
    check(&larder, "/200/text-html/100/never", 1, [false, false]);
    // A condition about the status makes other statuses cacheable; another condition does not.
    check(&larder, "/503/text-html/100/a?silent", 3, [true, false]);
    check(&larder, "/302/text-html/100/a?silent", 1, [true, true]);
    check(&larder, "/500/text-html/100/a?silent", 1, [false, false]);
    check(&larder, "/200/text-html/100/a?silent", 8, [true, true]);
    // Personal responses stay so.
    for name in ["own", "secret"] {
        check(&larder, &format!("/200/application-json/100/{name}"), 1, [false, false]);
    }
    assert!(larder.get("/200/text-html/100/own-news").status == 200);
}

#[test]
fn rules_hold_over_http2_and_are_changed_by_a_reload() {
    let origin = application();
    let larder = before(&origin, RULES);
    let target = "/200/application-json/100/other";
    larder.get(target);
    let mut client = Http2::connect(&larder);
    let hit = client.get(target);
    assert!(hit.field("cache-status").is_some_and(|it| it.contains("hit; ttl=5")), "{:?}", hit.fields);
    let text = std::fs::read_to_string(larder.config()).unwrap().replace("\"5s\"", "\"700s\"");
    std::fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is taken over", || larder.counter("config_reloads") > 0);
    let target = "/200/application-json/100/later";
    until("each worker has it", || {
        larder.advance(10);
        client.get(target);
        client.get(target).field("cache-status").is_some_and(|it| it.contains("hit; ttl=700"))
    });
    larder.get("/200/text-html/100/never");
    assert!(!client.get("/200/text-html/100/never").field("cache-status").unwrap().contains("hit"));
}

#[test]
fn explain_names_the_rule_with_its_line() {
    let origin = application();
    let larder = before(&origin, RULES);
    let explain = |target: &str| {
        let (url, admin) = (format!("http://h{target}"), larder.admin.to_string());
        run(larder.folder.path(), &["explain", &url, "--admin", &admin]).out
    };
    for target in ["/200/text-html/100/never", "/200/application-json/100/other"] {
        larder.get(target);
    }
    let passed = explain("/200/text-html/100/never");
    assert!(passed.contains("cache.rule at ") && passed.contains("larder.toml:20: pass = true"), "{passed}");
    let hit = explain("/200/application-json/100/other");
    assert!(hit.contains("cache.rule at ") && hit.contains("larder.toml:11: ttl = 5 s"), "{hit}");
    // The line that decides names the rule, too, and no key of the route that is not set.
    assert!(hit.contains("larder.toml:11: ttl=5 - age") && !hit.contains("override_ttl: default"), "{hit}");
}

#[test]
fn mistakes_in_rules_are_named() {
    let origin = application();
    let larder = before(&origin, "");
    let wrong = r#"
[[site.route.cache.rule]]
ttl = "5s"
[[site.route.cache.rule]]
when = 'cookie.a == "1"'
pass = true
[[site.route.cache.rule]]
when = 'status == 404'
[[site.route.cache.rule]]
when = 'status == 404'
ttl = "1s"
pass = true
[[site.route.cache.rule]]
when = 'status == 404'
tll = "1s"
"#;
    let config =
        std::fs::read_to_string(larder.config()).unwrap().replace("[admin]", &format!("{wrong}[admin]"));
    std::fs::write(larder.folder.path().join("wrong.toml"), config).unwrap();
    let ended = run(larder.folder.path(), &["check", "-c", "wrong.toml"]);
    assert_eq!(2, ended.code, "{ended:?}");
    for sentence in [
        "site.route.cache.rule.when: missing; a rule requires a condition",
        "unknown name \"cookie\"; expected status, type, size",
        "the rule has no effect; set ttl",
        "a rule with pass = true stores nothing",
        "site.route.cache.rule.tll: unknown key; did you mean",
    ] {
        assert!(ended.err.contains(sentence), "{sentence}: {}", ended.err);
    }
}
