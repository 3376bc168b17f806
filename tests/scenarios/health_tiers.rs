//! The findings of memcached servers, of requests in the queue of an origin, and of repeated purges, each by real traffic.

use super::configuring::admin;
use super::health::{names, state};
use crate::harness::origin::{Script, response};
use crate::harness::tiers::{fleet, of_size};
use crate::harness::{Larder, Memcached, Origin, until};
use serde_json::{Value, json};
use std::time::Duration;

/// The finding of this name.
fn found(larder: &Larder, name: &str) -> Value {
    let all = state(larder)["findings"].as_array().unwrap().clone();
    all.into_iter().find(|it| it["name"] == name).unwrap_or_default()
}

/// Its sentence, once it holds.
fn sentence_of(larder: &Larder, name: &str) -> String {
    until(name, || {
        larder.pass(1_000);
        found(larder, name).is_object()
    });
    found(larder, name)["sentence"].as_str().unwrap().to_owned()
}

#[test]
fn a_memcached_with_too_little_memory_is_a_notice() {
    let (origin, memcached) = (of_size(), Memcached::with(&["-m", "8"]));
    let larder = Larder::before_with(&origin, "", &fleet(&[&memcached], "timeout = \"60s\""));
    state(&larder);
    // 24 MB for a server of 8 MiB.
    let pages: Vec<String> = (0..400).map(|it| format!("/{}", 60_000 + it)).collect();
    pages.iter().for_each(|it| assert_eq!(200, larder.get(it).status));
    until("all were written", || larder.counter("fleet_puts") >= 400);
    assert_eq!(0, larder.counter("fleet_lost"));
    larder.advance(6);
    pages.iter().for_each(|it| assert_eq!(200, larder.get(it).status));
    assert!(larder.counter("fleet_lost") >= 100, "{}", larder.counter("fleet_lost"));
    let text = sentence_of(&larder, "memcached-too-small");
    assert!(text.starts_with("memcached loses fresh pages since "), "{text}");
}

/// "Needed once" was the class of these requests, four other changes were proposed, and with them in force no request became a hit.
#[test]
fn stored_pages_in_doubt_are_possible_hits_and_the_first_advice_and_the_trial_names_them() {
    let (origin, mut memcached) = (of_size(), Memcached::start());
    let lines = fleet(&[&memcached], "timeout = \"500ms\"\nretry = \"100ms\"\nfailures = 1")
        .replace("purge_log = false", "purge_log = true");
    let larder = Larder::before_with(&origin, "", &lines);
    let advice = || admin(&larder, "GET", "/api/v1/advice", b"").1["findings"][0].clone();
    let doubt = || {
        let text = json!({ "text": std::fs::read_to_string(larder.config()).unwrap() }).to_string();
        admin(&larder, "POST", "/api/v1/config/trial", text.as_bytes()).1["doubt"].clone()
    };
    until("the purge log is followed", || larder.counter("purge_log_polls") > 0);
    assert_eq!(200, larder.get("/100").status);
    assert_eq!(Value::Null, doubt());
    memcached.kill();
    until("the purge log is not followed", || {
        larder.pass(1_000);
        larder.get("/100");
        names(&larder).first().is_some_and(|it| it == "purge-log-not-followed")
    });
    assert_eq!(200, larder.get("/100").status);
    let why = admin(&larder, "GET", "/api/v1/why", b"").1;
    let reasons = why["routes"][0]["reasons"].as_array().unwrap();
    let doubted = reasons.iter().find(|it| it["reason"] == "doubted").unwrap();
    assert!(doubted["requests"].as_u64() > Some(0) && doubted["requests"] == doubted["could_be_hits"]);
    let first = advice();
    assert_eq!(("responses-doubted", "server"), (&*text(&first["name"]), &*text(&first["changes"][0]["by"])));
    let sentence = text(&first["changes"][0]["sentence"]);
    assert!(sentence.starts_with("The purge log is not followed since "), "{sentence}");
    assert!(text(&doubt()).starts_with("The purge log is not followed"), "{}", doubt());
    memcached.start_again();
    until("it is used again", || names(&larder).is_empty());
    assert_ne!("responses-doubted", text(&advice()["name"]));
    assert_eq!(Value::Null, doubt());
}

fn text(of: &Value) -> String {
    of.as_str().unwrap_or_default().to_owned()
}

/// A purge removes the page from the fleet: that is no loss.
#[test]
fn a_removed_page_is_no_page_that_memcached_has_lost() {
    let (origin, memcached) = (of_size(), Memcached::start());
    let larder = Larder::before_with(&origin, "", &fleet(&[&memcached], "timeout = \"60s\""));
    assert_eq!(200, larder.get("/100").status);
    until("it was written", || larder.counter("fleet_puts") == 1);
    let other = Larder::before_with(&origin, "", &fleet(&[&memcached], "timeout = \"60s\""));
    assert_eq!(200, other.get("/100").status);
    let mut client = other.client();
    client.send("DELETE /100 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(200, client.read().status);
    until("it was removed", || other.counter("fleet_removes") >= 1);
    larder.advance(6);
    assert_eq!(200, larder.get("/100").status);
    assert_eq!(0, larder.counter("fleet_lost"));
}

#[test]
fn a_memcached_server_that_fails_again_and_again_is_a_finding() {
    let (origin, mut memcached) = (of_size(), Memcached::start());
    let lines = fleet(&[&memcached], "timeout = \"60s\"\nretry = \"100ms\"\nfailures = 1");
    let larder = Larder::before_with(&origin, "", &lines);
    let mut number = 1_000;
    for _ in 0..3 {
        assert!(!names(&larder).contains(&"memcached-flaps".to_owned()));
        memcached.kill();
        until("it is not used", || {
            number += 1;
            larder.get(&format!("/{number}"));
            names(&larder).contains(&"memcached-down".to_owned())
        });
        memcached.start_again();
        until("it is used", || {
            larder.pass(200);
            // A request is the attempt.
            number += 1;
            larder.get(&format!("/{number}"));
            !names(&larder).contains(&"memcached-down".to_owned())
        });
    }
    let text = sentence_of(&larder, "memcached-flaps");
    let expect = format!("memcached server {} fails and comes back since ", memcached.name());
    assert!(text.starts_with(&expect) && text.contains(" times within the last ten minutes)"), "{text}");
    larder.pass(601_000);
    assert!(!names(&larder).contains(&"memcached-flaps".to_owned()));
}

#[test]
fn requests_that_wait_for_a_slot_of_an_origin_are_a_notice_with_key_value_and_line() {
    let page = || Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage"));
    let origin = Origin::scripted(move |_| vec![Script::Pause(Duration::from_millis(300)), page()]);
    let url = origin.url();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"offers\"\npath = \"/*\"\n\
         proxy.to = {url:?}\nproxy.connections = 1\nproxy.queue = 100\nproxy.queue_timeout = \"1m\"\n"
    ));
    state(&larder);
    std::thread::scope(|threads| {
        for number in 0..30 {
            let larder = &larder;
            threads.spawn(move || assert_eq!(200, larder.get(&format!("/{number}")).status));
        }
    });
    let text = sentence_of(&larder, "origin-queue");
    assert!(text.contains("requests wait for a slot of origin "), "{text}");
    assert!(text.contains("`proxy.connections` of route offers is 1 ("), "{text}");
    assert!(text.contains("larder.toml:9"), "{text}");
}

#[test]
fn a_client_that_purges_the_same_page_again_and_again_is_named() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage");
    let larder = Larder::before_with(&origin, "purge = { method = true, from = [\"127.0.0.0/8\"] }", "");
    state(&larder);
    for number in 0..22 {
        assert!(number > 9 || !names(&larder).contains(&"purge-repeated".to_owned()), "{number}");
        assert_eq!(200, larder.get("/shop").status);
        assert_eq!(200, larder.client().request("PURGE", "/shop", "", "").status);
    }
    let text = sentence_of(&larder, "purge-repeated");
    assert!(text.starts_with("127.0.0.1 has purged url http://"), "{text}");
    assert!(
        text.contains("/shop repeatedly since ")
            && text.contains(" times within the last five minutes); ")
            && text.contains(" requests"),
        "{text}"
    );
}

/// An old importer sent a pattern every 15 s that its route does not permit: each purge took half a second of the fleet, and removed nothing.
#[test]
fn a_client_whose_purges_match_nothing_is_named() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage");
    let larder = Larder::before_with(&origin, "purge = { method = true, from = [\"127.0.0.0/8\"] }", "");
    state(&larder);
    for number in 0..10 {
        assert!(!names(&larder).contains(&"purge-repeated".to_owned()), "{number}");
        assert_eq!(200, larder.client().request("PURGE", "/none", "", "").status);
    }
    let text = sentence_of(&larder, "purge-repeated");
    assert!(
        text.contains("(10 times within the last five minutes); no stored response of this node matched"),
        "{text}"
    );
}
