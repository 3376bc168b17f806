//! Advice about settings of a route that real requests show: a larger `cache.max_object`, the cache of a route that does not use it, the
//! order of parameters, and the fields in `Vary`.

use super::advice::{advice, fetch, findings, start};
use crate::harness::origin::{Received, Script, response};
use crate::harness::{Larder, Origin, until};
use serde_json::Value;

const CHUNKS: usize = 700_000;

fn answer(request: &Received) -> Vec<Script> {
    let path = request.target().split('?').next().unwrap_or_default().to_owned();
    let client = request.field("X-Forwarded-For").unwrap_or_default().to_owned();
    let (head, body) = match path.split('/').nth(1).unwrap_or_default() {
        "download" => ("Cache-Control: max-age=600\n", "x".repeat(1_400_000)),
        "silent-download" => ("", "x".repeat(1_400_000)),
        "chunked" => {
            let half = "y".repeat(CHUNKS);
            return vec![Script::Send(response(&format!(
                "HTTP/1.1 200 OK\nCache-Control: max-age=600\nTransfer-Encoding: chunked\n\n{CHUNKS:x}\r\n{half}\r\n{CHUNKS:x}\r\n{half}\r\n0\r\n\r\n"
            )))];
        }
        "assets" => ("Cache-Control: public, max-age=600\n", path),
        "mixed" if path.ends_with('0') => ("Cache-Control: private\n", path),
        "login" if path.ends_with('0') => ("Cache-Control: public, max-age=600\nSet-Cookie: a=b\n", path),
        "mixed" | "login" => ("Cache-Control: public, max-age=600\n", path),
        "missing" => return vec![Script::Send(response("HTTP/1.1 404 Not Found\n\nnot found"))],
        "landing" => ("Cache-Control: public, max-age=600\nSet-Cookie: ab=1; Path=/\n", path),
        "session" => ("Cache-Control: public, max-age=600\nSet-Cookie: sid=1; Path=/\n", path),
        "mine" => ("Cache-Control: public, max-age=600\n", client),
        "list" => {
            let mut all: Vec<&str> = request.target().split(['?', '&']).skip(1).collect();
            all.sort_unstable();
            ("Cache-Control: max-age=600\n", all.join(" "))
        }
        "ordered" => ("Cache-Control: max-age=600\n", request.target().to_owned()),
        "agent" => ("Cache-Control: max-age=600\nVary: Accept-Encoding, User-Agent\n", path),
        "language" => ("Cache-Control: max-age=600\nVary: Accept-Language\n", path),
        _ => ("Cache-Control: max-age=600\n", path),
    };
    vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{head}\n{body}")))]
}

const TRUSTED: &str = "[clients]\ntrusted = [\"127.0.0.1\"]";

/// The finding of this name for a route.
fn finding(report: &Value, name: &str, route: &str) -> Value {
    let mut all = report["findings"].as_array().unwrap().iter();
    all.find(|it| it["name"] == name && it["route"] == route).cloned().unwrap_or_default()
}

/// Two downloads of 1.4 MB each, which are requested often, and one of which each request wants another.
#[test]
fn responses_above_max_object_get_a_size_that_holds_them() {
    let origin = Origin::scripted(answer);
    let limit = "cache = { max_object = \"1MiB\" }";
    let routes = [("download", limit), ("chunked", limit), ("once", limit), ("silent-download", limit)];
    let larder = start(&origin, &routes, "");
    for number in 0..24 {
        for route in ["download", "chunked", "silent-download"] {
            fetch(&larder, &format!("/{route}/{}", number % 2), "");
        }
        fetch(&larder, &format!("/once/{number}"), "");
    }
    let expect = ["too-large chunked 22 cache.max_object", "too-large download 22 cache.max_object"];
    until("they are counted", || findings(&larder) == expect);
    let report = advice(&larder);
    for route in ["chunked", "download"] {
        let change = &finding(&report, "too-large", route)["changes"][0];
        assert_eq!("cache.max_object = \"2MiB\"", change["settings"][0], "{change}");
        assert!(change["sentence"].as_str().unwrap().contains("2 pages"), "{change}");
    }
    drop(larder);

    let limit = "cache = { max_object = \"2MiB\" }";
    let larder = start(&origin, &[("download", limit), ("chunked", limit)], "");
    for route in ["download", "chunked"] {
        fetch(&larder, &format!("/{route}/0"), "");
        until("it is stored", || larder.get(&format!("/{route}/0")).is_hit());
    }
}

/// The cache of a route that does not use it is proposed if all responses were for all clients, and explained with the same change.
#[test]
fn the_cache_of_a_route_without_one_is_proposed_if_all_its_responses_were_for_all_clients() {
    let origin = Origin::scripted(answer);
    let off = "cache = { enabled = false }";
    let larder = start(&origin, &[("assets", off), ("mixed", off), ("login", off), ("mine", off)], TRUSTED);
    for number in 0..30 {
        for route in ["assets", "mixed", "login", "mine"] {
            let client = format!("X-Forwarded-For: 9.9.9.{}\r\n", number % 5);
            fetch(&larder, &format!("/{route}/{}", number % 3), &client);
        }
        larder.advance(1);
    }
    until("they are counted", || findings(&larder) == ["cache-off assets 27 cache.enabled"]);
    let explain = |target: &str| -> Value {
        let body = serde_json::json!({ "url": format!("http://h{target}") }).to_string();
        serde_json::from_str(&larder.admin_post("/api/v1/explain", &body).text()).unwrap()
    };
    let [assets, mixed] = ["/assets/1", "/mixed/1"].map(explain);
    let settings = |it: &Value| it["summary"]["changes"][0]["settings"][0].clone();
    assert_eq!(
        [Value::from("cache.enabled = true"), Value::Null],
        [settings(&assets), settings(&mixed)],
        "{} {}",
        assets["summary"],
        mixed["summary"]
    );
    assert_eq!("could-be-cached", assets["summary"]["judgement"]);
}

/// URLs that differ in the order of their parameters only.
#[test]
fn pages_that_are_the_same_for_each_order_of_parameters_are_found() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("list", ""), ("ordered", "")], "");
    for page in 0..8 {
        for query in ["color=red&size=m", "size=m&color=red"] {
            for route in ["list", "ordered"] {
                fetch(&larder, &format!("/{route}/a?{query}&page={page}"), "");
                fetch(&larder, &format!("/{route}/a?page={page}&{query}"), "");
            }
        }
    }
    until("they are found", || findings(&larder) == ["parameter-order list 24 cache.key.sort"]);
}

#[test]
fn the_fields_that_make_variants_are_named() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("agent", ""), ("language", "")], "");
    for (number, letter) in ('a'..='n').enumerate() {
        let lines =
            format!("Accept-Language: de, x{letter}\r\nUser-Agent: a{number}\r\nAccept-Encoding: gzip\r\n");
        for route in ["agent", "language"] {
            fetch(&larder, &format!("/{route}/a"), &lines);
        }
    }
    until("they are found", || findings(&larder) == ["variants agent 13 ", "variants language 13 "]);
    let report = advice(&larder);
    let [agent, language] = ["agent", "language"].map(|it| finding(&report, "variants", it));
    let sentence = |it: &Value| it["sentence"].as_str().unwrap().to_owned();
    assert!(sentence(&agent).contains("User-Agent (14 values)"), "{agent}");
    assert!(!sentence(&agent).contains("Accept-Encoding"), "{agent}");
    assert!(sentence(&language).contains("Accept-Language (14 values)"), "{language}");
    let [agent, language] = [agent, language].map(|it| it["changes"].to_string());
    assert!(agent.contains("cache.key.strict") && !agent.contains("one language"), "{agent}");
    assert!(language.contains("cache.key.accept_language"), "{language}");
}

/// A lifetime of the whole route was proposed for its 404s.
#[test]
fn missing_pages_get_a_lifetime_of_their_status() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("missing", "cache = { private_cookies = [\"sid\"] }")], "");
    (0..24).for_each(|it| assert_eq!(404, larder.get(&format!("/missing/{}", it % 3)).status));
    until("they are counted", || findings(&larder) == ["missing-pages missing 24 cache.status_ttl"]);
    let change = finding(&advice(&larder), "missing-pages", "missing")["changes"][0].clone();
    assert_eq!("cache.status_ttl = { 404 = \"60s\" }", change["settings"][0], "{change}");
    assert!(change["diff"].to_string().contains("status_ttl = { 404 = \\\"60s\\\" }"), "{change}");
    let body = serde_json::json!({ "url": "http://h/missing/1" }).to_string();
    let explained: Value = serde_json::from_str(&larder.admin_post("/api/v1/explain", &body).text()).unwrap();
    assert_eq!(
        change["settings"], explained["summary"]["changes"][0]["settings"],
        "{}",
        explained["summary"]
    );
}

/// Nothing said which client sends them, nor which value of `cache.request_directives` would help.
#[test]
fn a_client_that_demands_new_responses_is_named_with_the_setting() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("feed", ""), ("careful", "")], TRUSTED);
    for number in 0..24 {
        let client = format!("X-Forwarded-For: 9.9.9.{}\r\n", if number % 4 == 0 { 5 } else { 7 });
        let demand = format!("{client}Cache-Control: no-cache\r\n");
        fetch(&larder, &format!("/feed/{}", number % 2), &demand);
        fetch(&larder, &format!("/careful/{}", number % 2), &demand);
    }
    fetch(&larder, "/careful/1", "Cache-Control: no-store\r\n");
    until("they are counted", || {
        findings(&larder)
            .iter()
            .any(|it| it.starts_with("new-demanded feed 2") && it.ends_with("cache.request_directives"))
    });
    let report = advice(&larder);
    let found = finding(&report, "new-demanded", "feed");
    let sentence = found["sentence"].as_str().unwrap();
    assert!(sentence.ends_with("2 clients; 18 of 24 from 9.9.9.7."), "{sentence}");
    assert_eq!("cache.request_directives = \"harmless\"", found["changes"][0]["settings"][0], "{found}");
    assert_eq!(Value::Null, finding(&report, "new-demanded", "careful"), "a request has no-store");
}

/// The remedy was the application's alone, although the operator knows what the cookie is for.
#[test]
fn a_cookie_that_the_operator_has_named_is_left_out_of_the_stored_page() {
    let origin = Origin::scripted(answer);
    let named = "cache = { ignored_cookies = [\"ab\"], private_cookies = [\"sid\"] }";
    let explain = |larder: &Larder, target: &str| -> Value {
        let body = serde_json::json!({ "url": format!("http://h{target}") }).to_string();
        let answer: Value =
            serde_json::from_str(&larder.admin_post("/api/v1/explain", &body).text()).unwrap();
        answer["summary"].clone()
    };
    for (keys, setting) in [("", Value::Null), (named, Value::from("cache.store_set_cookie = true"))] {
        let larder = start(&origin, &[("landing", keys), ("session", keys)], "");
        for target in ["/landing/1", "/session/1"] {
            (0..3).for_each(|_| fetch(&larder, target, ""));
        }
        until("it is known", || {
            explain(&larder, "/landing/1")["answer"].as_str().unwrap().contains("cookie ab")
        });
        let landing = explain(&larder, "/landing/1");
        assert_eq!(setting, landing["changes"][0]["settings"][0], "{landing}");
        let is_hinted = landing["because"].as_str().unwrap().contains("name it in `cache.ignored_cookies`");
        assert_eq!(setting.is_null(), is_hinted, "{landing}");
        let session = explain(&larder, "/session/1").to_string();
        assert!(!session.contains("store_set_cookie"), "{session}");
    }
}

/// The change was one of the common section, which changes each other route as well.
#[test]
fn routes_with_the_same_change_are_one_finding_that_changes_each_of_them() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("one", ""), ("idle", ""), ("two", "")], "");
    for _ in 0..12 {
        fetch(&larder, "/one/a", "");
        fetch(&larder, "/two/a", "");
        larder.advance(601);
    }
    until("they are counted", || findings(&larder) == ["expired - 22 cache.stale_while_revalidate"]);
    let report = advice(&larder);
    let found = &report["findings"][0];
    assert_eq!(
        serde_json::json!([null, ["one", "two"]]),
        serde_json::json!([found["route"], found["routes"]])
    );
    let edits = found["changes"][0]["edits"].as_array().unwrap();
    let paths: Vec<&Value> = edits.iter().map(|it| &it["path"]).collect();
    let expect = serde_json::json!([
        ["site", 0, "route", 0, "cache", "stale_while_revalidate"],
        ["site", 0, "route", 2, "cache", "stale_while_revalidate"]
    ]);
    assert_eq!(expect, serde_json::json!(paths), "{found}");
    assert!(!found["changes"][0]["diff"].as_array().unwrap().is_empty(), "{found}");
}
