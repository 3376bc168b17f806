//! The advisor on planted sites: every planted fault is found with the requests that it costs, and nothing is proposed for pages that
//! are for one client or differ between clients.

use crate::harness::command::run;
use crate::harness::origin::{Received, Script, response};
use crate::harness::{Larder, Origin, until};
use serde_json::{Value, json};

fn answer(request: &Received) -> Vec<Script> {
    let large = "x".repeat(40_000);
    if request.field("If-None-Match") == Some("\"same\"") {
        return vec![Script::Send(response("HTTP/1.1 304 Not Modified\nETag: \"same\"\n\n"))];
    }
    let tag = format!("ETag: \"{}\"\n", request.number);
    let path = request.target().split('?').next().unwrap_or_default();
    let (head, body) = match path.split('/').nth(1).unwrap_or_default() {
        "silent" => ("", "x".to_owned()),
        "differs" => ("", "x".repeat(request.number % 7 + 1)),
        "tagged" => ("ETag: \"same\"\n", "x".to_owned()),
        "changing" => (&*tag, "x".to_owned()),
        "private" => ("Cache-Control: private, max-age=60\n", "x".to_owned()),
        "cookie" => ("Set-Cookie: a=b\n", "x".to_owned()),
        "language" => ("Cache-Control: max-age=60\nVary: User-Agent\n", "x".to_owned()),
        "dated" => {
            let cookies = request.field("Cookie").unwrap_or_default();
            let page = if cookies.contains("session") { cookies } else { "the same for all" };
            ("Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\n", page.to_owned())
        }
        "by-client" => {
            let client = &request.field("X-Forwarded-For").unwrap_or_default()[..9];
            return vec![Script::Send(response(&format!(
                "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n9\r\n{client}\r\n0\r\n\r\n"
            )))];
        }
        "far" => (
            "Content-Type: text/html\n",
            format!("{}{}", "x".repeat(70_000), request.field("X-Forwarded-For").unwrap_or_default()),
        ),
        "by-ga" | "by-ga2" => (
            "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\n",
            request.field("Cookie").unwrap_or_default().to_owned(),
        ),
        "text" => ("Content-Type: text/html\nCache-Control: max-age=600\n", large),
        "coded" => ("Content-Type: text/html\nContent-Encoding: gzip\nCache-Control: max-age=600\n", large),
        "large" => ("Cache-Control: max-age=600\n", large),
        _ => ("Cache-Control: max-age=60\n", "x".to_owned()),
    };
    vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{head}\n{body}")))]
}

/// A larder with a route for each of these names, whose keys of `cache` are given.
pub(super) fn start(origin: &Origin, routes: &[(&str, &str)], top: &str) -> Larder {
    let url = origin.url();
    let routes: String = routes
        .iter()
        .map(|(name, cache)| {
            format!("[[site.route]]\nname = \"{name}\"\npath = \"/{name}/*\"\nproxy = {{ to = [\"{url}\"] }}\n{cache}\n")
        })
        .collect();
    let config =
        format!("listen = [\"127.0.0.1:0\"]\nworkers = 2\n{top}\n[[site]]\nhosts = [\"*\"]\n{routes}");
    Larder::configured(config)
}

pub(super) fn advice(larder: &Larder) -> Value {
    let response = larder.admin_get("/api/v1/advice");
    assert_eq!(200, response.status, "{}", response.text());
    serde_json::from_str(&response.text()).unwrap()
}

/// Each finding: its name, route, requests, and the keys of its changes.
pub(super) fn findings(larder: &Larder) -> Vec<String> {
    let report = advice(larder);
    let one = |it: &Value| {
        let changes = it["changes"].as_array().unwrap().iter();
        let keys = changes.flat_map(|it| it["settings"].as_array().cloned().unwrap_or_default());
        let keys: Vec<String> =
            keys.map(|it| it.as_str().unwrap().split(" = ").next().unwrap().to_owned()).collect();
        let (name, route) = (it["name"].as_str().unwrap(), it["route"].as_str().unwrap_or("-"));
        format!("{name} {route} {} {}", it["requests"], keys.join(" "))
    };
    let mut found: Vec<String> = report["findings"].as_array().unwrap().iter().map(one).collect();
    found.sort();
    found
}

/// One request with these lines.
pub(super) fn fetch(larder: &Larder, target: &str, lines: &str) {
    let mut client = larder.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
    assert_eq!(200, client.read().status, "{target}");
}

#[test]
fn every_planted_fault_is_found_and_no_page_of_one_client() {
    let origin = Origin::scripted(answer);
    let routes = [
        ("many", ""),
        ("silent", ""),
        ("differs", ""),
        ("tagged", ""),
        ("changing", ""),
        ("private", ""),
        ("cookie", ""),
        ("language", ""),
        ("session", "cache = { private_cookies = [\"*\"] }"),
        ("short", ""),
    ];
    let larder = start(&origin, &routes, "");
    for number in 0..14 {
        fetch(&larder, &format!("/many/a?utm_source={number}&page=1"), "");
        for route in ["silent", "differs", "tagged", "changing", "private", "cookie", "short"] {
            fetch(&larder, &format!("/{route}/a"), "");
        }
        fetch(&larder, "/silent/a", "Cookie: session=1\r\n");
        fetch(&larder, "/language/a", &format!("User-Agent: {number}\r\n"));
        fetch(&larder, "/session/a", "Cookie: _ga=1; _gid=2\r\n");
        fetch(&larder, "/session/a", "Cookie: session=1; _gid=2\r\n");
        larder.advance(61);
    }
    let every_cookie = "cache.default_ttl cache.private_cookies cache.ignored_cookies";
    until("all are counted", || {
        findings(&larder)
            == [
                "analytics-cookies session 14 cache.ignored_cookies".to_owned(),
                "analytics-parameters many 14 cache.key.drop".to_owned(),
                "expired short 13 cache.stale_while_revalidate".to_owned(),
                format!("no-lifetime - 27 {every_cookie}"),
                "variants language 13 ".to_owned(),
            ]
    });
    let report = advice(&larder);
    let uncached: Vec<String> = report["uncached"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {}", it["route"].as_str().unwrap(), it["reason"].as_str().unwrap()))
        .collect();
    for expect in [
        "private private",
        "cookie set-cookie",
        "differs no-lifetime",
        "changing no-lifetime",
        "silent credentials",
        "session private-cookie",
    ] {
        assert!(uncached.iter().any(|it| it == expect), "{expect} is not in {uncached:?}");
    }
    let admin = larder.admin.to_string();
    let report = run(larder.folder.path(), &["advice", "--admin", &admin]).out;
    assert!(report.contains("many: One page is stored under many URLs"), "{report}");
    assert!(report.contains("\n  larder.toml:") && report.contains("\n  + "), "{report}");
    assert!(
        report.contains("not cached on purpose: by the configuration, the request or the response\n"),
        "{report}"
    );
}

#[test]
fn too_little_ram_is_found_by_pages_that_are_asked_for_again() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("large", "")], "[cache.ram]\nsize = \"8MiB\"");
    for _ in 0..3 {
        for page in 0..300 {
            larder.get(&format!("/large/{page}"));
        }
    }
    let found = findings(&larder);
    let [only] = &found[..] else { panic!("{found:?}") };
    let words: Vec<&str> = only.split(' ').collect();
    let ["small-ram", "-", requests, "cache.ram.size", "cache.disk.path"] = words[..] else {
        panic!("{found:?}")
    };
    assert!(requests.parse::<u32>().unwrap() > 100, "{found:?}");
    let report = advice(&larder);
    let change = &report["findings"][0]["changes"][0];
    assert_eq!(json!([true, ["cache.ram.size = \"16MiB\""]]), json!([change["restart"], change["settings"]]));
    let lines = change["diff"][0]["lines"].to_string();
    assert!(lines.contains("size = \\\"8MiB\\\"") && lines.contains("size = \\\"16MiB\\\""), "{lines}");
}

/// A page that says nothing about sharing, and visitors with cookies of analytics: a site with the defaults. The change that is
/// proposed, written to the configuration, answers them from the cache, and no visitor with a session.
#[test]
fn cookies_of_analytics_make_no_page_private_once_the_advice_is_followed() {
    let origin = Origin::scripted(answer);
    let visit = |larder: &Larder| {
        for number in 0..12 {
            fetch(larder, "/dated/a", &format!("Cookie: _ga={number}; _gid=2\r\n"));
            fetch(larder, "/dated/a", &format!("Cookie: _ga={number}; session={number}\r\n"));
            fetch(larder, "/dated/a", &format!("Cookie: _ga={number}\r\nX-Api-Key: {number}\r\n"));
        }
    };
    let larder = start(&origin, &[("dated", "")], "");
    visit(&larder);
    let expect = "analytics-cookies dated 12 cache.private_cookies cache.ignored_cookies";
    until("they are counted", || findings(&larder) == [expect]);
    let report = advice(&larder);
    let settings: Vec<&str> = report["findings"][0]["changes"][0]["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    let settings = settings.join("\n");
    drop(larder);

    let larder = start(&origin, &[("dated", &settings)], "");
    let before = origin.received().len();
    visit(&larder);
    let received = origin.received();
    let cookies: Vec<&str> =
        received[before..].iter().map(|it| it.field("Cookie").unwrap_or_default()).collect();
    assert_eq!(1, cookies.iter().filter(|it| it.is_empty()).count() - 12, "one for all of them: {cookies:?}");
    assert_eq!(12, cookies.iter().filter(|it| it.contains("session=")).count(), "{cookies:?}");
}

#[test]
fn text_that_is_sent_without_compression_is_found() {
    let origin = Origin::scripted(answer);
    let on = "cache = { compress = { enabled = true } }";
    let larder = start(&origin, &[("text", ""), ("coded", ""), ("text2", on), ("large", "")], "");
    for number in 0..12 {
        for route in ["text", "coded", "large"] {
            fetch(&larder, &format!("/{route}/{number}"), "Accept-Encoding: gzip, br\r\n");
        }
        fetch(&larder, &format!("/text/{number}"), "Accept-Encoding: gzip\r\n");
        fetch(&larder, &format!("/text/plain{number}"), "");
    }
    let expect = "compression-off - 12 cache.compress.enabled cache.compress.uncached";
    until("they are counted", || findings(&larder) == [expect]);
    let report = advice(&larder);
    let change = &report["findings"][0]["changes"][0];
    assert_eq!(
        json!(["cache.compress.enabled = true", "cache.compress.uncached = false"]),
        change["settings"]
    );
    assert!(change["diff"][0]["lines"].to_string().contains("uncached = false"), "{change}");
}

/// Pages without a lifetime that differ between clients, in chunks without a length or far from their beginning, and a session whose
/// cookie has the name of one of analytics: the trial of such a change is red, and the advice proposed it.
#[test]
fn no_change_is_proposed_whose_trial_is_red() {
    let origin = Origin::scripted(answer);
    let named = "cache = { private_cookies = [\"other\", \"_g*\"] }";
    let routes = [("by-client", ""), ("far", ""), ("by-ga", ""), ("by-ga2", named), ("silent", "")];
    let larder = start(&origin, &routes, "[clients]\ntrusted = [\"127.0.0.1\"]");
    for number in 0..36 {
        let (client, cookie) = (100 + number % 6, 100 + number % 5);
        for route in ["by-client", "far", "silent"] {
            fetch(&larder, &format!("/{route}/a"), &format!("X-Forwarded-For: 9.9.9.{client}\r\n"));
        }
        for route in ["by-ga", "by-ga2"] {
            fetch(&larder, &format!("/{route}/a"), &format!("Cookie: _ga={cookie}\r\n"));
        }
        // The recorder takes a number of requests in each quarter of a second.
        larder.advance(1);
    }
    let every_cookie = "cache.default_ttl cache.private_cookies cache.ignored_cookies";
    until("the one that is the same for all is found", || {
        findings(&larder) == [format!("no-lifetime silent 36 {every_cookie}")]
    });
    let report = advice(&larder);
    let uncached = report["uncached"].as_array().unwrap();
    for (route, reason) in [("by-client", "no-lifetime"), ("far", "no-lifetime"), ("by-ga", "credentials")] {
        let is_it =
            |it: &Value| json!([it["route"], it["reason"], it["requests"]]) == json!([route, reason, 36]);
        assert!(uncached.iter().any(is_it), "{route} {reason} is not in {uncached:?}");
    }
}

/// A preset with a fixed list of cookies, and an application that has given its session another name.
#[test]
fn a_session_cookie_that_the_route_removes_is_found() {
    let origin = Origin::new(|it| match it.field("Cookie") {
        Some(cookie) if cookie.contains("sid=") => "HTTP/1.1 200 OK\n\nknown".to_owned(),
        _ => "HTTP/1.1 200 OK\nSet-Cookie: sid=s3cret; Path=/\nSet-Cookie: theme=dark\n\nnew".to_owned(),
    });
    let larder = start(
        &origin,
        &[("shop", "cache.preset = \"django\""), ("own", "cache.private_cookies = [\"sid\"]")],
        "",
    );
    fetch(&larder, "/shop/a", "");
    assert_eq!(Vec::<String>::new(), findings(&larder));
    fetch(&larder, "/shop/a", "Cookie: sid=1; _ga=2\r\n");
    fetch(&larder, "/shop/b", "Cookie: sid=1\r\n");
    fetch(&larder, "/own/b", "Cookie: sid=1\r\n");
    assert_eq!(["removed-cookies shop 2 cache.private_cookies"], findings(&larder)[..]);
    let report = advice(&larder);
    let change = &report["findings"][0]["changes"][0];
    assert!(change.to_string().contains("sessionid") && change.to_string().contains("\"sid\""), "{change}");
    assert!(!report.to_string().contains("s3cret") && !report.to_string().contains("theme"), "{report}");
    // The proposed names are in force: the finding ends.
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let names = "cache = { preset = \"django\", private_cookies = [\"sessionid\", \"csrftoken\", \"messages\", \"sid\"] }";
    std::fs::write(larder.config(), text.replace("cache.preset = \"django\"", names)).unwrap();
    let before = larder.counter("config_reloads");
    larder.signal(libc::SIGHUP);
    until("the names are in force", || larder.counter("config_reloads") > before);
    until("the finding has ended", || findings(&larder).is_empty());
}

/// An applied change stayed in the advice with the requests from before it.
#[test]
fn requests_from_before_a_change_of_a_route_are_no_evidence_about_it() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("language", ""), ("tagged", "")], "");
    for number in 0..20 {
        fetch(&larder, "/language/a", &format!("User-Agent: {number}\r\n"));
    }
    until("it is found", || findings(&larder).iter().any(|it| it.starts_with("variants language 19")));
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let changed = text.replacen("name = \"language\"", "name = \"language\"\ncache.max_object = \"1MiB\"", 1);
    std::fs::write(larder.config(), changed).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is left out", || findings(&larder).is_empty());
}

/// A fault that the application had corrected stayed in the advice as long as the process, and days of other requests hid one that began.
#[test]
fn advice_and_reasons_are_those_of_the_last_hour() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("language", ""), ("tagged", "")], "");
    let visit = |first: u32| {
        for number in first..first + 20 {
            fetch(&larder, "/language/a", &format!("User-Agent: {number}\r\n"));
        }
    };
    let rows = || {
        let report: Value = serde_json::from_str(&larder.admin_get("/api/v1/why").text()).unwrap();
        let routes = report["routes"].as_array().unwrap().clone();
        let seconds = report["seconds"].as_u64().unwrap();
        let sums: Vec<u64> = routes.iter().map(|it| it["requests"].as_u64().unwrap()).collect();
        (seconds, sums, routes.iter().map(|it| it["reasons"].as_array().unwrap().len()).collect::<Vec<_>>())
    };
    let found = |number: u32| {
        findings(&larder).iter().any(|it| it.starts_with(&format!("variants language {number} ")))
    };
    visit(0);
    until("it is found", || found(19));
    const HALF: u64 = 1_800_000;
    larder.pass(HALF);
    assert!(found(19), "half an hour later");
    assert_eq!((1800, vec![20, 0], vec![2, 0]), (rows().0 / 60 * 60, rows().1, rows().2));
    larder.pass(HALF);
    assert!(findings(&larder).is_empty(), "{:?}", findings(&larder));
    assert_eq!((1800, vec![0, 0], vec![0, 0]), (rows().0 / 60 * 60, rows().1, rows().2));
    visit(100);
    until("a new fault is found", || found(20));
    let report = advice(&larder);
    let (finding, seconds) = (&report["findings"][0], report["seconds"].as_u64().unwrap());
    assert_eq!(20 * 3600 / seconds, finding["per_hour"].as_u64().unwrap(), "{report:#}");
}
