//! `explain` predicts the next request: it runs the functions that serve.

use crate::harness::origin::{Script, response};
use crate::harness::tiers::fleet;
use crate::harness::{Client, Larder, Memcached, Origin, Response};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Heads of responses that are kept, not kept, kept for a while, or kept for some.
const RESPONSES: &[&str] = &[
    "200 OK\nCache-Control: max-age=60",
    "200 OK\nCache-Control: max-age=60\nETag: \"a\"",
    "200 OK\nCache-Control: max-age=0\nETag: \"a\"",
    "200 OK\nCache-Control: no-cache\nETag: \"a\"",
    "200 OK\nCache-Control: no-store",
    "200 OK\nCache-Control: private",
    "200 OK\nCache-Control: private=\"x-mine\", max-age=60\nX-Mine: 1",
    "200 OK\nCache-Control: s-maxage=10, max-age=1000\nETag: \"a\"",
    "200 OK\nCache-Control: max-age=60, must-revalidate\nETag: \"a\"",
    "200 OK\nCache-Control: max-age=10, stale-while-revalidate=1000\nETag: \"a\"",
    "200 OK\nCache-Control: max-age=10, stale-if-error=1000",
    "200 OK\nCache-Control: public\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
    "200 OK\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
    "200 OK",
    "200 OK\nExpires: Thu, 01 Jan 2099 00:00:00 GMT",
    "200 OK\nExpires: 0",
    "200 OK\nCache-Control: max-age=60\nAge: 59",
    "200 OK\nCache-Control: max-age=60\nVary: Accept-Language",
    "200 OK\nCache-Control: max-age=60\nVary: *",
    "200 OK\nCache-Control: max-age=60\nSet-Cookie: a=1",
    "200 OK\nCache-Control: max-age=1\nCDN-Cache-Control: max-age=600",
    "200 OK\nCache-Control: max-age=600\nCDN-Cache-Control: no-store",
    "200 OK\nCache-Control: public, max-age=60\nWWW-Authenticate: Basic",
    "404 Not Found\nCache-Control: max-age=60",
    "404 Not Found",
    "301 Moved Permanently\nLocation: /0",
    "302 Found\nLocation: /0",
    "302 Found\nLocation: /0\nCache-Control: max-age=60",
    "410 Gone\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
    "500 Internal Server Error",
    "500 Internal Server Error\nCache-Control: max-age=60",
    "299 Odd\nCache-Control: max-age=60",
    "299 Odd\nCache-Control: max-age=60, must-understand, no-store",
];

/// Methods and fields of requests.
const REQUESTS: &[(&str, &str)] = &[
    ("GET", ""),
    ("GET", "Cache-Control: no-cache"),
    ("GET", "Cache-Control: max-age=5"),
    ("GET", "Cache-Control: min-fresh=50"),
    ("GET", "Cache-Control: max-stale=500"),
    ("GET", "Cache-Control: only-if-cached"),
    ("GET", "Cache-Control: no-store"),
    ("GET", "Pragma: no-cache"),
    ("GET", "Authorization: Basic eDp5"),
    ("GET", "Accept-Language: de"),
    ("GET", "Cookie: session=1"),
    ("GET", "If-None-Match: \"a\""),
    ("GET", "If-None-Match: *"),
    ("GET", "If-Match: \"b\""),
    ("GET", "If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT"),
    ("GET", "Range: bytes=0-1"),
    ("GET", "Range: bytes=0-1,3-3"),
    ("GET", "Range: bytes=7-"),
    ("GET", "Range: lines=1"),
    ("HEAD", ""),
    ("OPTIONS", ""),
];

/// `Cache-Status` and the status in the words of `explain`.
fn observed(response: &Response) -> &'static str {
    let cache = response.cache().split("; detail=").next().unwrap_or_default();
    match () {
        () if response.status == 504 => "gateway-timeout",
        // Fresh is what lives longer than it is old: nothing left is stale.
        () if cache.contains("; hit; ttl=-") || cache.ends_with("; hit; ttl=0") => "stale-hit",
        () if cache.contains("; hit") => "hit",
        () if cache.contains("fwd=bypass") || cache.contains("fwd=method") => "pass",
        () if cache.contains("fwd=") => "origin",
        () => "nothing",
    }
}

fn predicted(larder: &Larder, target: &str, method: &str, line: &str) -> (String, Option<u64>) {
    let fields: Vec<[&str; 2]> = line.split_once(": ").map(|it| [it.0, it.1]).into_iter().collect();
    let asked =
        serde_json::json!({ "url": format!("http://h{target}"), "method": method, "headers": fields });
    let asked = asked.to_string();
    let mut client = Client::connect(larder.admin);
    let (lines, length) = (larder.admin_lines(), asked.len());
    client
        .send(format!("POST /cache/explain HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n{asked}"));
    let text = client.read().text();
    let outcome: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|it| panic!("{it}: {text}"));
    match outcome["verdict"]["name"].as_str().unwrap_or_else(|| panic!("no verdict: {text}")) {
        "miss" | "revalidate" => ("origin".to_owned(), None),
        other => (other.to_owned(), outcome["verdict"]["status"].as_u64()),
    }
}

fn origin() -> Origin {
    Origin::new(|request| {
        let number = request.target().split('/').nth(1).and_then(|it| it.parse::<usize>().ok());
        format!("HTTP/1.1 {}\n\nhello", RESPONSES[number.unwrap_or(0)])
    })
}

#[test]
fn explain_predicts_the_outcome() {
    let origin = origin();
    check(&Larder::before(&origin, "private_cookies = [\"session\"]"));
}

#[test]
fn and_where_all_lies_in_the_fleet() {
    let (memcached, origin) = (Memcached::start(), origin());
    let top = fleet(&[&memcached], "no_block = false\ntimeout = \"60s\"");
    check(&Larder::before_with(&origin, "tiers = [\"fleet\"], private_cookies = [\"session\"]", &top));
}

#[test]
fn and_where_ram_asks_the_fleet_again() {
    let (memcached, origin) = (Memcached::start(), origin());
    let top = fleet(&[&memcached], "no_block = false\ntimeout = \"60s\"\nlocal_ttl = \"1s\"");
    let larder = Larder::before_with(&origin, "private_cookies = [\"session\"]", &top);
    check(&larder);
    assert!(larder.counter("cache_rechecks") > 0);
}

fn check(larder: &Larder) {
    let mut client = larder.client();
    let (mut compared, mut wrong) = (0, Vec::new());
    for age in [0, 30, 200] {
        larder.advance(age);
        for (at, (method, line)) in REQUESTS.iter().enumerate() {
            for (number, response) in RESPONSES.iter().enumerate() {
                // A page for each pair, so that one request does not spoil the next; asked for once before.
                let target = format!("/{number}/{at}");
                if age == 0 {
                    client.get(&target);
                }
                let (predicted, status) = predicted(larder, &target, method, line);
                let lines = if line.is_empty() { String::new() } else { format!("{line}\r\n") };
                let response_now = client.request(method, &target, &lines, "");
                let observed = observed(&response_now);
                compared += 1;
                let as_said = status.is_none_or(|it| it == u64::from(response_now.status));
                if predicted != observed || !as_said {
                    let cache = response_now.cache();
                    wrong.push(format!("{method} {line} of {response:?} after {age} s: said {predicted} {status:?}, was {observed} {} ({cache})", response_now.status));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}

/// What larder does with a request that it refuses itself, and what it says that it would do.
#[track_caller]
fn refused(larder: &Larder, method: &str, target: &str, lines: &str, status: u16) {
    let mut client = larder.client();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: h:80\r\n{lines}\r\n"));
    assert_eq!(status, client.read_for(method).status, "{method} {target:.40} {lines:.40}");
    let explanation = explain(larder, method, if method == "CONNECT" { "/" } else { target }, lines);
    let verdict = (explanation["verdict"]["name"].as_str(), explanation["verdict"]["status"].as_u64());
    assert_eq!((Some("refused"), Some(status.into())), verdict, "{method} {target:.40}: {explanation:#}");
}

fn explain(larder: &Larder, method: &str, target: &str, lines: &str) -> serde_json::Value {
    let headers: Vec<[&str; 2]> =
        lines.lines().filter_map(|it| it.split_once(": ")).map(|it| [it.0, it.1]).collect();
    let question =
        serde_json::json!({ "url": format!("http://h:80{target}"), "method": method, "headers": headers });
    let question = question.to_string();
    let mut client = Client::connect(larder.admin);
    let (shown, length) = (larder.admin_lines(), question.len());
    client.send(format!(
        "POST /cache/explain HTTP/1.1\r\n{shown}\r\nContent-Length: {length}\r\n\r\n{question}"
    ));
    serde_json::from_str(&client.read().text()).unwrap()
}

#[test]
fn explain_names_the_field_that_no_stored_variant_has() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: X-Country\n\nok");
    let larder = Larder::before(&origin, "");
    let mut client = larder.client();
    client.send("GET / HTTP/1.1\r\nHost: h:80\r\nX-Country: de\r\n\r\n");
    assert_eq!("ok", client.read().text());
    let explanation = explain(&larder, "GET", "/", "X-Country: fr\r\n");
    let rules = explanation["rules"].as_array().unwrap();
    let rule = rules.iter().find(|it| it["rule"] == "stored").unwrap_or_else(|| panic!("{explanation:#}"));
    let evidence = rule["evidence"].as_str().unwrap();
    assert!(evidence.contains("x-country: fr") && evidence.contains("stored: x-country: de"), "{evidence}");
}

#[test]
fn explain_predicts_the_refusals_of_larder() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder = Larder::before(&origin, "");
    larder.get("/");
    let id = origin.received()[0].field("cdn-loop").unwrap().to_owned();
    refused(&larder, "TRACE", "/", "", 405);
    refused(&larder, "CONNECT", "h:80", "", 405);
    let explanation = explain(&larder, "CONNECT", "/", "");
    assert!(
        explanation["change"].as_str().unwrap().starts_with("An extended CONNECT of HTTP/2"),
        "{explanation:#}"
    );
    refused(&larder, "GET", &format!("/{}", "x".repeat(9000)), "", 414);
    refused(&larder, "GET", "/", &format!("X-Large: {}\r\n", "x".repeat(20_000)), 431);
    refused(&larder, "GET", "/", &format!("CDN-Loop: somebody, {id}\r\n"), 508);
    refused(&larder, "GET", "/", "Expect: the-unexpected\r\n", 417);
    // Nor does it ask the origin what it answers itself.
    let last = "Max-Forwards: 0\r\n";
    assert_eq!(200, larder.client().request("OPTIONS", "/", last, "").status);
    assert_eq!("answered", explain(&larder, "OPTIONS", "/", last)["verdict"]["name"]);
    assert_eq!(1, origin.requests());
}

#[test]
fn a_larder_with_other_limits_refuses_by_those() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let larder =
        Larder::before_with(&origin, "", "[limits]\ntarget_size = \"1KiB\"\nhead_size = \"32KiB\"\n");
    refused(&larder, "GET", &format!("/{}", "x".repeat(1024)), "", 414);
    let large = format!("X-Large: {}\r\n", "x".repeat(20_000));
    assert_eq!("miss", explain(&larder, "GET", "/", &large)["verdict"]["name"]);
}

#[test]
fn a_loop_that_meets_a_hit_ends_there() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok");
    let larder = Larder::before(&origin, "");
    larder.get("/");
    let loops = format!("CDN-Loop: {}\r\n", origin.received()[0].field("cdn-loop").unwrap());
    assert_eq!("hit", explain(&larder, "GET", "/", &loops)["verdict"]["name"]);
    assert!(larder.client().get_with("/", &loops).is_hit());
}

#[test]
fn explain_proposes_one_request_for_a_page_never_requested() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: X-Mine\n\nok");
    let larder = Larder::before(&origin, "");
    let change = |method: &str, lines: &str| {
        let explanation = explain(&larder, method, "/page", lines);
        explanation["change"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(
        "Send the request once, and run explain again: nothing is stored, and no response is recorded.",
        change("GET", "")
    );
    let depends = "The result then depends on the response: nothing is stored, and no response is recorded.";
    assert_eq!(format!("Send the request with GET. {depends}"), change("HEAD", ""));
    assert_eq!(format!("Send the request with GET. {depends}"), change("POST", ""));
    let both = "Send the request with GET. Send the request without Authorization.";
    assert_eq!(format!("{both} {depends}"), change("HEAD", "Authorization: x\r\n"));
    assert_eq!(
        "Send the request without only-if-cached.",
        change("GET", "Cache-Control: only-if-cached\r\n")
    );
    let no_store = change("GET", "Cache-Control: no-store\r\n");
    assert!(no_store.contains("no-store") || no_store.contains("without Cache-Control"), "{no_store}");
    larder.get("/page");
    let other = "Send the request once: the stored responses match other requests, and no response to this one is recorded.";
    assert_eq!(other, change("GET", "X-Mine: 1\r\n"));
    larder.client().get_with("/page", "X-Mine: 1\r\n");
    assert_eq!("hit", explain(&larder, "GET", "/page", "X-Mine: 1\r\n")["verdict"]["name"]);
}

/// A page of one visitor's is rightly not cached: neither the advice nor that of the last refusal would share it.
#[test]
fn a_private_page_is_not_proposed_to_be_shared() {
    for (head, lines) in [
        ("Cache-Control: private\n", ""),
        ("Cache-Control: no-store, max-age=60\n", ""),
        ("Set-Cookie: a=b\n", ""),
        ("CDN-Cache-Control: max-age=0\nCache-Control: private\n", ""),
        ("Cache-Control: max-age=60\n", "Authorization: x\r\n"),
        ("", "Cookie: sid=1\r\n"),
    ] {
        let origin = Origin::new(move |_| format!("HTTP/1.1 200 OK\n{head}\nok"));
        let larder = Larder::before(&origin, "");
        larder.client().get_with("/page", lines);
        let explanation = explain(&larder, "GET", "/page", lines);
        for change in [&explanation["change"], &explanation["last_refusal"]["change"]] {
            let report = change.as_str().unwrap_or_default();
            assert!(
                report.starts_with("Nothing: the page is rightly not cached."),
                "{head}{lines}: {explanation:#}"
            );
        }
    }
}

/// What was one visitor's, or differed between clients, is not proposed to be shared once another client was answered otherwise.
#[test]
fn a_page_that_was_private_once_is_not_proposed_to_be_shared() {
    for (to_visitors, to_others) in [
        ("Cache-Control: private", ""),
        ("Set-Cookie: a=b", "ETag: \"a\""),
        ("", ""),
        ("ETag: W/\"of-{}\"", "ETag: W/\"of-{}\""),
        ("Vary: Cookie", "Vary: Cookie"),
        ("ETag: \"a\"\nVary: Cookie", "ETag: \"a\"\nVary: Cookie"),
        ("Cache-Control: max-age=60\nVary: *", "Cache-Control: max-age=60\nVary: *"),
    ] {
        let origin = Origin::new(move |request| {
            let (head, of) = match request.field("cookie") {
                Some(cookie) => (to_visitors, cookie.to_owned()),
                None => (to_others, "other".to_owned()),
            };
            format!("HTTP/1.1 200 OK\n{}\n\nfor {of}", head.replace("{}", &of)).replace("\n\n\n", "\n\n")
        });
        let larder = Larder::before(&origin, "");
        for lines in ["Cookie: sid=1\r\n", "Cookie: sid=22\r\n"] {
            larder.client().get_with("/page", lines);
        }
        larder.advance(11);
        larder.get("/page");
        for seconds in [0, 11] {
            larder.advance(seconds);
            for lines in ["", "Cookie: sid=1\r\n"] {
                let explanation = explain(&larder, "GET", "/page", lines);
                for change in [&explanation["change"], &explanation["last_refusal"]["change"]] {
                    let report = change.as_str().unwrap_or_default();
                    let shares = report.contains("Configure the origin") || report.contains("Set cache.");
                    assert!(!shares, "{to_visitors} {to_others} {lines}: {explanation:#}");
                }
            }
        }
    }
}

/// Responses that differ may be for one client each.
#[test]
fn a_page_whose_responses_differ_is_not_proposed_to_be_shared() {
    let origin = Origin::new(|request| format!("HTTP/1.1 200 OK\n\n{}", "a".repeat(request.number + 1)));
    let larder = Larder::before(&origin, "");
    larder.get("/page");
    let report = || explain(&larder, "GET", "/page", "")["change"].as_str().unwrap_or_default().to_owned();
    assert!(report().starts_with("Configure the origin"), "{}", report());
    larder.advance(11);
    larder.get("/page");
    assert!(report().starts_with("Nothing: recent responses to this URL differ"), "{}", report());
}

/// The lifetime that is proposed of a stale copy does not grow with its age.
#[test]
fn the_change_proposed_for_a_stale_copy_does_not_depend_on_its_age() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=0\nETag: \"a\"\n\nok");
    let larder = Larder::before(&origin, "");
    larder.get("/page");
    let change = || explain(&larder, "GET", "/page", "")["change"].clone();
    let expect = "Configure the origin to respond with Cache-Control: max-age=60.";
    assert_eq!(expect, change());
    larder.advance(1000);
    assert_eq!(expect, change());
}

/// A hit needs no change, and a server without a fleet has no other node.
#[test]
fn no_change_is_proposed_for_a_hit() {
    let origin = Origin::new(|it| match it.target() {
        "/private" => "HTTP/1.1 200 OK\nCache-Control: private\n\nown".to_owned(),
        _ => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok".to_owned(),
    });
    let larder = Larder::before(&origin, "");
    larder.get("/page");
    assert!(larder.get("/page").is_hit());
    let explanation = explain(&larder, "GET", "/page", "");
    assert_eq!(Some("hit"), explanation["verdict"]["name"].as_str(), "{explanation:#}");
    assert!(explanation["change"].is_null(), "{explanation:#}");
    larder.get("/private");
    let explanation = explain(&larder, "GET", "/private", "").to_string();
    assert!(!explanation.contains("this fleet") && !explanation.contains("nother node"), "{explanation}");
}

/// Of what was asked for and failed it is not said that nobody asked.
#[test]
fn explain_reports_the_last_failure_of_the_origin() {
    let failure = |bytes: Vec<u8>, status: u16, expect: &str| {
        let origin = Origin::scripted(move |_| vec![Script::Send(bytes.clone())]);
        let larder = Larder::before(&origin, "");
        assert_eq!(status, larder.get("/page").status);
        let explanation = explain(&larder, "GET", "/page", "");
        let last = &explanation["last_refusal"];
        assert_eq!(
            (status.into(), Some(expect)),
            (last["status"].clone(), last["sentence"].as_str()),
            "{explanation:#}"
        );
        let change = "Retry once the origin responds correctly; its last recorded response was invalid.";
        assert_eq!(
            (Some("miss"), Some(change)),
            (explanation["verdict"]["name"].as_str(), explanation["change"].as_str())
        );
    };
    let part = "HTTP/1.1 206 Partial Content\nContent-Range: bytes 0-1/9\nContent-Length: 2\n\nok";
    failure(
        response(part),
        502,
        "No valid response: the origin answered 206 to a request without Range (RFC 9110 §15.3.7).",
    );
    failure(
        b"nonsense\r\n\r\n".to_vec(),
        502,
        "No valid response: the origin's response is not valid HTTP: its status line is malformed, or it switches protocols without an upgrade request.",
    );
}

/// As long as the origin answers nothing valid, no request does better.
#[test]
fn explain_proposes_no_other_request_while_the_origin_fails() {
    let part = "HTTP/1.1 206 Partial Content\nContent-Length: 2\n\nok";
    let origin = Origin::scripted(move |_| vec![Script::Send(response(part))]);
    let larder = Larder::before(&origin, "");
    let expect = "Repair the origin first; its last recorded response was invalid.";
    let authorized = "Authorization: x\r\n";
    assert_eq!(502, larder.client().get_with("/page", authorized).status);
    for (method, lines) in [
        ("GET", authorized),
        ("GET", "Cache-Control: only-if-cached\r\n"),
        ("GET", "Cache-Control: no-cache\r\n"),
        ("GET", "Content-Length: 3\r\n"),
        ("HEAD", ""),
        ("POST", ""),
        ("TRACE", ""),
    ] {
        let explanation = explain(&larder, method, "/page", lines);
        assert_eq!(Some(expect), explanation["change"].as_str(), "{method} {lines}: {explanation:#}");
    }
}

/// A method that is not stored may stand before a response that is not: then both are told, and do it together.
#[test]
fn explain_proposes_changes_of_method_and_response_together() {
    for (head, lines, more) in [
        ("Cache-Control: max-age=0\n", "", ""),
        ("", "", ""),
        (
            "Cache-Control: max-age=0\n",
            "Cache-Control: only-if-cached\r\n",
            "Send the request without Cache-Control.",
        ),
    ] {
        for method in ["HEAD", "POST", "TRACE"] {
            let mended = Arc::new(AtomicBool::new(false));
            let asks = mended.clone();
            let origin = Origin::new(move |_| match asks.load(Ordering::SeqCst) {
                true => "HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok".to_owned(),
                false => format!("HTTP/1.1 200 OK\n{head}\nok"),
            });
            let larder = Larder::before(&origin, "");
            larder.get("/p");
            let explanation = explain(&larder, method, "/p", lines);
            let report = explanation["change"].as_str().unwrap_or_default();
            for one in [
                "Send the request with GET.",
                more,
                "Configure the origin to respond with Cache-Control: max-age=60.",
            ] {
                assert!(report.contains(one), "{method} {head}: {explanation:#}");
            }
            mended.store(true, Ordering::SeqCst);
            larder.get("/p");
            assert!(larder.get("/p").is_hit(), "{method} {head}");
        }
    }
}

/// No change turns an answer into a 504.
#[test]
fn explain_proposes_removal_of_only_if_cached_with_the_other_changes() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\nok");
    let (larder, off) = (Larder::before(&origin, ""), Larder::before(&origin, "enabled = false"));
    let only = "Cache-Control: only-if-cached\r\n";
    let change = |larder: &Larder, lines: &str| {
        let explanation = explain(larder, "GET", "/page", &format!("{only}{lines}"));
        assert_eq!(Some("pass"), explanation["verdict"]["name"].as_str(), "{explanation:#}");
        explanation["change"].as_str().unwrap_or_default().to_owned()
    };
    let without = "Send the request without only-if-cached.";
    let depends = "The result then depends on the response: nothing is stored, and no response is recorded.";
    let body = "Send the request without a body.";
    let overrides = "Send the request without X-HTTP-Method-Override.";
    let enable = "Set cache.enabled = true for the route.";
    assert_eq!(format!("{body} {without} {depends}"), change(&larder, "Content-Length: 3\r\n"));
    assert_eq!(
        format!("{overrides} {without} {depends}"),
        change(&larder, "X-HTTP-Method-Override: PUT\r\n")
    );
    let user = "Send the request without X-Forwarded-User, or add it to cache.key.headers to store one response per value.";
    assert_eq!(format!("{user} {without} {depends}"), change(&larder, "X-Forwarded-User: joe\r\n"));
    let explanation = explain(&larder, "GET", "/page", "X-Forwarded-User: joe\r\n");
    assert_eq!(
        "X-Forwarded-User: joe (a header field may change the target, method or user for the origin)",
        explanation["rules"][0]["evidence"],
        "{explanation:#}"
    );
    assert_eq!(format!("{enable} {without} {depends}"), change(&off, ""));
    assert_eq!(504, larder.client().get_with("/page", only).status);
    // Where the store has it, nothing is wrong with it.
    larder.get("/page");
    assert_eq!(body, change(&larder, "Content-Length: 3\r\n"));
    assert!(larder.client().get_with("/page", only).is_hit());
    larder.advance(100);
    assert_eq!(format!("{body} {without}"), change(&larder, "Content-Length: 3\r\n"));
}

/// What the application answered to a request for a part says nothing of this one.
#[test]
fn an_unstored_part_is_not_evidence_about_the_whole() {
    let origin = Origin::scripted(|request| {
        let text = match request.field("range") {
            Some(_) => {
                "HTTP/1.1 206 Partial Content\nCache-Control: no-store\nContent-Range: bytes 0-1/9\nContent-Length: 2\n\nok"
            }
            None => "HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 2\n\nok",
        };
        vec![Script::Send(response(text))]
    });
    let larder = Larder::before(&origin, "");
    larder.client().get_with("/part", "Range: bytes=0-1\r\n");
    let explanation = explain(&larder, "GET", "/part", "");
    let expect = "Send the request once: the response that was not stored belongs to another request.";
    assert_eq!(Some(expect), explanation["change"].as_str(), "{explanation:#}");
    larder.get("/part");
    assert_eq!("hit", explain(&larder, "GET", "/part", "")["verdict"]["name"], "as it said");
}

#[test]
fn explain_reports_an_ambiguous_path() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
    let to = format!("proxy = {{ to = [\"{}\"] }}", origin.url());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/a/*\"\n{to}\n[[site.route]]\npath = \"/*\"\n{to}\n"
    );
    let larder = Larder::start(crate::harness::server::Setup { config, env: Vec::new() });
    let explanation = explain(&larder, "GET", "/x/..%2fa/me?q=1", "");
    let expect = "Bypasses the cache: the path is ambiguous: two readings of it match different routes. The path is ambiguous: /a/me matches the route /a/*, /x/..%2fa/me matches the route /*.";
    assert_eq!(
        (Some("pass"), Some(expect)),
        (explanation["verdict"]["name"].as_str(), explanation["verdict"]["sentence"].as_str())
    );
    assert!(larder.get("/x/..%2fa/me?q=1").cache().contains("fwd=bypass"));
}
