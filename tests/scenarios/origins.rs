//! Several origins behind one route: the choice, and the effect of one that ends, hangs, fails or is drained.

use crate::harness::command::run;
use crate::harness::names::Moving;
use crate::harness::origin::{Gate, Script, response};
use crate::harness::server::Setup;
use crate::harness::{Larder, Origin, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// larder before these origins, with more keys of `proxy`, and cache settings.
fn before(origins: &[String], proxy: &str, cache: &str) -> Larder {
    let to: Vec<String> = origins.iter().map(|it| format!("\"{it}\"")).collect();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         cache = {{ {cache} }}\n[site.route.proxy]\nto = [{}]\n{proxy}\n",
        to.join(", ")
    ))
}

/// Answers everything with `name`.
fn named(name: &'static str) -> Origin {
    Origin::fixed(&format!("HTTP/1.1 200 OK\nCache-Control: no-store\n\n{name}"))
}

/// The origins of the statistics, in the order of the configuration.
fn origins(larder: &Larder) -> Vec<Value> {
    let stats: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
    stats["origins"].as_array().unwrap().clone()
}

fn states(larder: &Larder) -> Vec<String> {
    origins(larder).iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect()
}

/// A process before an application that answers with `whole`, or with the length of the body it was sent, and that can
/// be killed. The answers are short, so that a process that is killed has sent a response whole or not at all: one
/// whose head has reached the client already cannot be asked for again.
fn process(application: &Origin) -> Larder {
    before(&[application.url()], "", "enabled = false")
}

#[test]
fn one_killed_and_one_stopped_of_three_origins_fail_no_idempotent_request() {
    for cache in ["enabled = false", "default_ttl = \"60s\""] {
        let application = Origin::new(|asked| {
            let body = match asked.line().starts_with("PUT ") && asked.body.iter().all(|it| *it == b'x') {
                true => asked.body.len().to_string(),
                false => "whole".to_owned(),
            };
            format!("HTTP/1.1 200 OK\n\n{body}")
        });
        let all = [process(&application), process(&application), process(&application)];
        let urls: Vec<String> = all.iter().map(|it| format!("http://{}", it.address)).collect();
        let proxy = "first_byte_timeout = \"5s\"\neject_time = \"1h\"\neject_max = \"1h\"\neject_after = 3";
        let larder = before(&urls, proxy, cache);
        let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let load: Vec<_> = (0..6)
            .map(|number| {
                let (mut client, over, answered) = (larder.client(), over.clone(), answered.clone());
                std::thread::spawn(move || {
                    for turn in 0.. {
                        let method = ["GET", "PUT", "HEAD", "PUT", "OPTIONS"][turn % 5];
                        let target = format!("/page.txt?{number}-{turn}");
                        // Some leaves with the head, some of it behind it.
                        let body = "x".repeat([0, 10, 0, 50_000, 0][turn % 5]);
                        let found = client.request(method, &target, "", &body);
                        let expect =
                            if method == "PUT" { body.len().to_string() } else { "whole".to_owned() };
                        let whole = method == "HEAD" || found.body == expect.as_bytes();
                        assert!(found.status == 200 && whole, "{method}: {} {}", found.status, found.text());
                        answered.fetch_add(1, SeqCst);
                        if over.load(SeqCst) {
                            return;
                        }
                    }
                })
            })
            .collect();
        let more = |count: usize| {
            let at = answered.load(SeqCst) + count;
            until("the load goes on", || {
                assert!(load.iter().all(|it| !it.is_finished()), "a request failed");
                answered.load(SeqCst) >= at
            });
        };
        more(100);
        all[0].signal(libc::SIGKILL);
        until("the dead one is left alone", || states(&larder) == ["ejected", "up", "up"]);
        more(100);
        all[1].signal(libc::SIGSTOP);
        until("and the one that stands still", || states(&larder) == ["ejected", "ejected", "up"]);
        more(100);
        all[1].signal(libc::SIGCONT);
        over.store(true, SeqCst);
        load.into_iter().for_each(|it| it.join().unwrap());
        assert_eq!(2, larder.counter("origin_ejections"));
        assert!(larder.counter("origin_retries_elsewhere") >= 6);
        assert_eq!(0, larder.counter("origin_retry_budget"));
        until("no requests in progress", || origins(&larder).iter().all(|it| it["in_flight"] == 0));
    }
}

#[test]
fn a_post_is_sent_once_even_if_its_origin_fails() {
    let seen = Arc::new(AtomicUsize::new(0));
    let dies = {
        let seen = seen.clone();
        move |_: &crate::harness::origin::Received| {
            seen.fetch_add(1, SeqCst);
            vec![Script::Reset]
        }
    };
    let (a, b) = (Origin::scripted(dies.clone()), Origin::scripted(dies));
    let larder = before(&[a.url(), b.url()], "eject_after = 0", "");
    for body in ["", "x=1"] {
        let before = seen.load(SeqCst);
        assert_eq!(502, larder.client().request("POST", "/", "", body).status);
        assert_eq!(before + 1, seen.load(SeqCst));
    }
    // What may be done twice is tried with each.
    let before = seen.load(SeqCst);
    assert_eq!(502, larder.get("/").status);
    assert_eq!(before + 2, seen.load(SeqCst));
}

#[test]
fn an_ejected_origin_is_tried_by_one_request_and_comes_back() {
    let fails = Arc::new(AtomicBool::new(true));
    let flaky = {
        let fails = fails.clone();
        Origin::new(move |_| match fails.load(SeqCst) {
            true => "HTTP/1.1 503 No\n\nbusy".to_owned(),
            false => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nflaky".to_owned(),
        })
    };
    let good = named("good");
    let proxy = "balance = \"round_robin\"\nfailure_statuses = [503]\neject_after = 2\nslow_start = \"0s\"";
    let larder = before(&[flaky.url(), good.url()], proxy, "");
    let get = || larder.get("/").text();
    until("it is left alone", || {
        assert_eq!("good", get());
        states(&larder) == ["ejected", "up"]
    });
    let asked = flaky.requests();
    (0..8).for_each(|_| assert_eq!("good", get()));
    assert_eq!(asked, flaky.requests());
    larder.pass(5_000);
    until("its time is over", || states(&larder) == ["probing", "up"]);
    (0..8).for_each(|_| assert_eq!("good", get()));
    assert_eq!(asked + 1, flaky.requests(), "one has tried it, and it is left alone for longer");
    fails.store(false, SeqCst);
    larder.pass(10_000);
    until("its time is over again", || states(&larder) == ["probing", "up"]);
    assert_eq!("flaky", get());
    assert_eq!(vec!["up", "up"], states(&larder));
    assert_eq!(1, larder.counter("origin_readmissions"));
}

#[test]
fn an_open_circuit_breaker_refuses_at_once_and_serves_stale() {
    let fails = Arc::new(AtomicBool::new(false));
    let origin = {
        let fails = fails.clone();
        Origin::scripted(move |_| match fails.load(SeqCst) {
            true => vec![Script::Reset],
            false => vec![Script::Send(response(
                "HTTP/1.1 200 OK\nCache-Control: max-age=1, stale-if-error=600\n\npage",
            ))],
        })
    };
    let larder = before(&[origin.url()], "all_ejected = \"refuse\"\neject_after = 2", "");
    assert_eq!("page", larder.get("/").text());
    fails.store(true, SeqCst);
    (0..2).for_each(|_| assert_eq!(502, larder.get("/other").status));
    let asked = origin.requests();
    assert_eq!(503, larder.get("/other").status);
    larder.advance(5);
    assert_eq!("page", larder.get("/").text(), "stale, and at once");
    assert_eq!(asked, origin.requests());
    assert!(larder.counter("origin_refused_ejected") >= 2);
    fails.store(false, SeqCst);
    larder.pass(5_000);
    until("one may try", || states(&larder) == ["probing"]);
    assert_eq!(200, larder.get("/other").status);
    assert_eq!(vec!["slow_start"], states(&larder));
}

#[test]
fn a_hash_gives_each_target_one_origin_and_each_cookie_too() {
    let all = [named("a"), named("b"), named("c")];
    let urls: Vec<String> = all.iter().map(Origin::url).collect();
    for (proxy, target, line) in [
        ("balance = \"consistent_hash\"", "/N", ""),
        ("balance = \"hash\"", "/N", ""),
        ("balance = \"consistent_hash\"\nhash_by = \"cookie:id\"", "/", "Cookie: x=y; id=N\r\n"),
        ("balance = \"consistent_hash\"\nhash_by = \"header:X-User\"", "/", "X-User: N\r\n"),
    ] {
        let larder = before(&urls, proxy, "");
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for number in 0..60 {
            let (target, line) =
                (target.replace('N', &number.to_string()), line.replace('N', &number.to_string()));
            let answers: Vec<String> =
                (0..3).map(|_| larder.client().get_with(&target, &line).text()).collect();
            assert!(answers.iter().all(|it| *it == answers[0]), "{proxy}: {answers:?}");
            *found.entry(answers[0].clone()).or_default() += 1;
        }
        assert!(found.len() == 3 && found.values().all(|it| *it >= 2), "{proxy}: {found:?}");
    }
}

#[test]
fn a_consistent_hash_moves_only_the_keys_of_a_drained_origin() {
    let all = [named("a"), named("b"), named("c")];
    let urls: Vec<String> = all.iter().map(Origin::url).collect();
    let larder = before(&urls, "balance = \"consistent_hash\"\nslow_start = \"1000s\"", "");
    let answers = || -> Vec<String> { (0..60).map(|it| larder.get(&format!("/{it}")).text()).collect() };
    let at_first = answers();
    command(&larder, &format!("drain {}", urls[2]));
    let without = answers();
    for (number, (then, now)) in at_first.iter().zip(&without).enumerate() {
        assert!(now != "c" && (then == "c" || then == now), "/{number} went from {then} to {now}");
    }
    let moved = at_first.iter().zip(&without).filter(|it| it.0 == "c");
    let to: std::collections::BTreeSet<&String> = moved.map(|it| it.1).collect();
    assert_eq!(2, to.len(), "what was with it is spread over the others");
    // It is back at once: a hash knows no slow start.
    command(&larder, &format!("restore {}", urls[2]));
    assert_eq!(at_first, answers());
}

#[test]
fn the_share_of_a_restored_origin_grows_gradually() {
    let (a, b) = (named("a"), named("b"));
    let larder = before(&[a.url(), b.url()], "balance = \"round_robin\"\nslow_start = \"1000s\"", "");
    // One connection, and so one worker, which takes turns by itself.
    let mut client = larder.client();
    let mut asked = |times: usize| (0..times).filter(|_| client.get("/").text() == "a").count();
    assert_eq!(30, asked(60));
    command(&larder, &format!("drain {}", a.url()));
    assert_eq!(0, asked(60));
    command(&larder, &format!("restore {}", a.url()));
    assert_eq!(vec!["slow_start", "up"], states(&larder));
    // A tenth of its weight at first, then as much as time has passed, of a second's precision and more.
    assert!((4..=7).contains(&asked(60)), "of 60, about 60 / 11");
    larder.pass(500_000);
    until("the half of it", || (18..=22).contains(&asked(60)));
    larder.pass(500_000);
    until("all of it", || asked(60) == 30);
    assert_eq!(vec!["up", "up"], states(&larder));
}

/// Two origins of one port, `a` at 127.0.0.1 and `b` at 127.0.0.2, whose connections are used once.
fn of_one_port() -> (Origin, Origin) {
    let once = |name: &'static str| {
        move |_: &crate::harness::origin::Received| {
            let text = format!("HTTP/1.1 200 OK\nCache-Control: no-store\nConnection: close\n\n{name}");
            vec![Script::Send(response(&text))]
        }
    };
    let pair = std::iter::repeat_with(|| {
        let one = TcpListener::bind("127.0.0.1:0").ok()?;
        let other = TcpListener::bind(("127.0.0.2", one.local_addr().ok()?.port())).ok()?;
        Some((one, other))
    });
    let (one, other) = pair.take(100).flatten().next().expect("a port that is free at both addresses");
    (Origin::on(one, once("a")), Origin::on(other, once("b")))
}

#[test]
fn a_name_is_resolved_every_ten_seconds_and_at_once_after_a_failed_connect() {
    let (a, _b) = of_one_port();
    let name = Moving::at("127.0.0.1");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         proxy.to = \"http://moving.test:{}\"\n",
        a.address.port()
    );
    let larder = Larder::start(Setup { config, env: name.environment() });
    assert_eq!("a", larder.get("/").text());
    name.moves("127.0.0.2");
    assert_eq!("a", larder.get("/").text(), "what is known is used for a while");
    larder.pass(10_000);
    until("it is asked where it is now", || larder.get("/").text() == "b");
    name.moves("127.0.0.3");
    larder.pass(10_000);
    until("nobody is there", || larder.get("/").status == 502);
    name.moves("127.0.0.1");
    assert_eq!("a", larder.get("/").text(), "at once");
}

#[test]
fn an_origin_drained_in_the_file_gets_no_new_request_and_loses_none() {
    let (a, b) = (named("a"), named("b"));
    let larder = before(&[a.url(), b.url()], "balance = \"round_robin\"", "");
    let answers = || -> Vec<String> { (0..6).map(|_| larder.get("/").text()).collect() };
    assert!(answers().contains(&"a".to_owned()));
    let config = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), config.replace(&a.url(), &format!("{} drain", a.url()))).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is drained", || states(&larder) == ["drained", "up"]);
    until("nobody asks it any more", || {
        let asked = a.requests();
        answers().iter().all(|it| it == "b") && a.requests() == asked
    });
}

/// The output of `larder origin …`.
fn command(larder: &Larder, words: &str) -> String {
    let admin = larder.admin.to_string();
    let words: Vec<&str> = words.split(' ').chain(["--admin", &admin]).collect();
    let ended = run(larder.folder.path(), &[&["origin"], &words[..]].concat());
    ended.out + &ended.err
}

#[test]
fn an_origin_drained_by_an_operator_gets_no_new_request_until_it_is_restored() {
    let (gate, b) = (Gate::new(), named("b"));
    let held = gate.clone();
    let a = Origin::scripted(move |asked| {
        let send = Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\na"));
        if asked.target() == "/slow" { vec![Script::Gate(held.clone()), send] } else { vec![send] }
    });
    let larder = before(&[a.url(), b.url()], "balance = \"round_robin\"", "");
    let answers = || -> Vec<String> { (0..6).map(|_| larder.get("/").text()).collect() };
    // Some of them are under way with the one that is drained.
    let mut slow: Vec<_> = (0..2).map(|_| larder.client()).collect();
    for client in &mut slow {
        client.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
        larder.get("/");
    }
    until("one is under way", || gate.waiting() > 0);
    let text = command(&larder, &format!("drain {}", a.url()));
    assert!(
        text.contains("receives no new requests, ")
            && text.contains(" in progress; until `larder origin restore`"),
        "{text}"
    );
    assert_eq!(vec!["drained", "up"], states(&larder));
    assert_eq!(["b"; 6], answers()[..]);
    // What the file says of others changes nothing of it.
    let config = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), config.replace("round_robin", "least_requests")).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is reloaded", || larder.counter("config_reloads") >= 1);
    assert_eq!(["b"; 6], answers()[..]);
    for report in [command(&larder, "list"), run_explain(&larder)] {
        assert!(report.contains(&format!("{} drained by the operator", a.url())), "{report}");
    }
    gate.open();
    let slow: Vec<String> = slow.iter_mut().map(|it| it.read().text()).collect();
    assert!(slow.contains(&"a".to_owned()), "it was not cut: {slow:?}");
    let restored = format!("{} is in use again; its share of requests grows (slow start)\n", a.url());
    assert_eq!(restored, command(&larder, &format!("restore {}", a.url())));
    larder.pass(60_000);
    assert_eq!(vec!["up", "up"], states(&larder));
    assert!(answers().contains(&"a".to_owned()));
}

fn run_explain(larder: &Larder) -> String {
    run(larder.folder.path(), &["explain", "http://h/", "--admin", &larder.admin.to_string()]).out
}

#[test]
fn a_refused_drain_or_restore_names_the_reason() {
    let (a, b) = (named("a"), named("b"));
    let log = "[log]\naccess = \"off\"\nerror = \"errors.log\"";
    let larder = before(&[a.url(), format!("{} drain", b.url())], log, "");
    let text = command(&larder, "drain http://127.0.0.1:1");
    assert!(
        text.contains("No route has the origin http://127.0.0.1:1; `larder origin list` or GET /api/v1/origins lists them."),
        "{text}"
    );
    let text = command(&larder, &format!("restore {}", b.url()));
    assert!(text.contains("is drained by the configuration: remove \"drain\" after it"), "{text}");
    assert_eq!(vec!["up", "drained"], states(&larder));
    // Nobody is left: that is said, and done.
    let text = command(&larder, &format!("drain {}", a.url()));
    assert!(text.contains("warning: route */* has no other origin that is up, and answers with stored responses or an error now"), "{text}");
    let answer = larder.get("/");
    assert_eq!(503, answer.status);
    assert!(answer.text().contains("all origins are drained"), "{answer:?}");
    assert_eq!([1, 0], ["origin_refused_drained", "origin_refused_ejected"].map(|it| larder.counter(it)));
    until("that is what is logged", || {
        std::fs::read_to_string(larder.folder.path().join("errors.log"))
            .is_ok_and(|it| it.contains("why=\"every origin of the route is drained\""))
    });
    let explained = run_explain(&larder);
    assert!(explained.contains("drained by the operator"), "{explained}");
    assert!(
        explained.contains("No origin is available: each is drained. The response is 503"),
        "{explained}"
    );
    // Who has no token changes nothing.
    let mut client = crate::harness::Client::connect(larder.admin);
    let target = format!("/api/v1/origins/drain?origin={}", a.url());
    client.send(format!("DELETE {target} HTTP/1.1\r\nHost: {}\r\n\r\n", larder.admin));
    assert_eq!(
        (401, vec!["drained", "drained"]),
        (client.read().status, states(&larder).iter().map(|it| &**it).collect())
    );
    assert_eq!(200, larder.admin_request("DELETE", &target).status);
    assert_eq!(200, larder.admin_request("DELETE", &target).status, "the address is in use");
    assert_eq!("a", larder.get("/").text());
}

#[test]
fn an_unhealthy_origin_gets_no_request_until_its_check_succeeds() {
    let sick = Arc::new(AtomicBool::new(false));
    let flaky = {
        let sick = sick.clone();
        Origin::new(move |request| match (request.target(), sick.load(SeqCst)) {
            ("/health", true) => "HTTP/1.1 503 No\n\n".to_owned(),
            _ => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nflaky".to_owned(),
        })
    };
    let good = named("good");
    let proxy = "balance = \"round_robin\"\nslow_start = \"0s\"\n\
                 health = { path = \"/health\", interval = \"20ms\", fall = 2, rise = 2 }";
    let larder = before(&[flaky.url(), good.url()], proxy, "");
    let answers = || -> Vec<String> { (0..6).map(|_| larder.get("/").text()).collect() };
    until("both are asked", || larder.counter("origin_health_checks") >= 4);
    assert_eq!(vec!["up", "up"], states(&larder));
    sick.store(true, SeqCst);
    until("it is left alone", || states(&larder) == ["unhealthy", "up"]);
    assert!(answers().iter().all(|it| it == "good"));
    sick.store(false, SeqCst);
    until("it is used again", || states(&larder) == ["up", "up"]);
    assert!(answers().contains(&"flaky".to_owned()));
    assert!(larder.counter("origin_health_failures") >= 2);
    // One task asks, whichever worker serves: its connection is used again.
    let asked = flaky.received().into_iter().filter(|it| it.target() == "/health");
    let connections: std::collections::BTreeSet<usize> = asked.map(|it| it.connection).collect();
    assert_eq!(1, connections.len());
}

/// A Django site turns away a `Host` that it does not know, and went `unhealthy` by that: checks say what requests say.
#[test]
fn a_check_names_the_sites_first_host() {
    for (preserve, expect) in [(true, Some("shop.example.com")), (false, None)] {
        let origin = Origin::fixed("HTTP/1.1 200 OK\n\nok");
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*.example.org\", \"Shop.example.com\", \"b.example.com\"]\n\
             [[site.route]]\npath = \"/*\"\n[site.route.proxy]\nto = [\"{}\"]\npreserve_host = {preserve}\n\
             health = {{ path = \"/health\", interval = \"20ms\" }}\n",
            origin.url()
        );
        let _larder = Larder::configured(config);
        until("it is asked", || origin.requests() > 0);
        let own = origin.url().replace("http://", "");
        assert_eq!(Some(expect.unwrap_or(&own)), origin.received()[0].field("host"));
    }
}

/// An application that answers 200 with an error page is not well; one that answers 401 may be.
#[test]
fn a_check_has_a_method_statuses_a_host_and_a_text() {
    let sick = Arc::new(AtomicBool::new(true));
    let origin = {
        let sick = sick.clone();
        Origin::new(move |asked| match (asked.target(), sick.load(SeqCst)) {
            ("/health", true) => "HTTP/1.1 401 No\n\nstatus: down".to_owned(),
            ("/health", false) => "HTTP/1.1 401 No\n\nstatus: up 7".to_owned(),
            _ => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nx".to_owned(),
        })
    };
    let other = named("other");
    let proxy = "health = { path = \"/health\", interval = \"20ms\", fall = 1, rise = 1, method = \"OPTIONS\", host = \"check.test\", \
                 status = [\"200\", \"400-401\"], body = \"regex:up [0-9]\" }";
    let larder = before(&[origin.url()], proxy, "");
    until("it is unhealthy by its body", || states(&larder) == ["unhealthy"]);
    let asked = &origin.received()[0];
    assert_eq!(("OPTIONS /health HTTP/1.1", Some("check.test")), (asked.line(), asked.field("host")));
    sick.store(false, SeqCst);
    until("it is used again", || states(&larder) == ["up"]);
    drop(larder);
    let larder = before(
        &[other.url()],
        "health = { path = \"/\", interval = \"20ms\", fall = 1, status = [\"404\"] }",
        "",
    );
    until("it is unhealthy by its status", || states(&larder) == ["unhealthy"]);
}

#[test]
fn a_backup_gets_requests_only_while_no_other_may() {
    let sick = Arc::new(AtomicBool::new(false));
    let main = {
        let sick = sick.clone();
        Origin::new(move |asked| match (asked.target(), sick.load(SeqCst)) {
            ("/health", true) => "HTTP/1.1 503 No\n\n".to_owned(),
            _ => "HTTP/1.1 200 OK\nCache-Control: no-store\n\nmain".to_owned(),
        })
    };
    let (backup, drained) = (named("backup"), named("drained"));
    let proxy = format!(
        "backup = [\"{}\"]\nbalance = \"round_robin\"\nslow_start = \"0s\"\n\
         health = {{ path = \"/health\", interval = \"20ms\", fall = 1, rise = 1 }}",
        backup.url()
    );
    let larder = before(&[main.url(), format!("{} drain", drained.url())], &proxy, "");
    let pages = |count: usize| (0..count).map(|_| larder.get("/").text()).collect::<Vec<_>>();
    assert_eq!(vec!["main"; 8], pages(8));
    sick.store(true, SeqCst);
    until("it is unhealthy", || states(&larder) == ["unhealthy", "drained", "up"]);
    assert_eq!(vec!["backup"; 8], pages(8));
    assert_eq!("backup", larder.client().request("POST", "/", "", "body").text());
    sick.store(false, SeqCst);
    until("it is used again", || states(&larder) == ["up", "drained", "up"]);
    assert_eq!(vec!["main"; 8], pages(8));
    // A request that the only other origin failed is repeated at the backup.
    let (_closed, dead) = crate::harness::closed_address();
    let larder = before(&[format!("http://{dead}")], &format!("backup = [\"{}\"]", backup.url()), "");
    assert_eq!("backup", larder.get("/").text());
    let mut http2 = crate::harness::http2::Http2::connect(&larder);
    assert_eq!("backup", http2.get("/").text());
}

/// A TLS origin for `app.test`, whose certificate is written to `ca.pem` of the folder. It answers by `answer`, and closes without
/// a word of TLS.
fn tls_origin(folder: &std::path::Path, answer: fn(&str) -> String) -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(vec!["app.test".to_owned()]).unwrap();
    std::fs::write(folder.join("ca.pem"), made.cert.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let chain = vec![made.cert.der().clone()];
    let config = Arc::new(builder.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let session = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(session, socket);
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&mut stream);
                let mut head = String::new();
                while lines.read_line(&mut head).is_ok_and(|it| it > 2) {}
                let _ = stream.write_all(answer(&head).as_bytes());
                let _ = stream.flush();
            });
        }
    });
    address
}

#[test]
fn an_https_origin_is_verified_and_a_truncated_response_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let address = tls_origin(folder.path(), |head| {
        let length = if head.starts_with("GET /whole ") { "Content-Length: 4\r\n" } else { "" };
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nConnection: close\r\n{length}\r\npage")
    });
    let ca = folder.path().join("ca.pem");
    let tls = format!("tls = {{ ca = \"{}\", name = \"app.test\" }}", ca.display());
    let larder = before(&[format!("https://{address}")], &tls, "");
    let found = larder.get("/whole");
    assert_eq!((200, "page"), (found.status, found.text().as_str()));
    assert!(larder.get("/whole").is_hit());
    for _ in 0..2 {
        let cut = larder.get("/until-the-end");
        assert!(!cut.complete && !cut.is_hit(), "{cut:?}");
    }
    assert_eq!(3, larder.counter("origin_tls_handshakes"));
    // Its certificate is not for its address.
    let tls = format!("tls = {{ ca = \"{}\" }}", ca.display());
    let larder = before(&[format!("https://{address}")], &tls, "");
    assert_eq!(502, larder.get("/whole").status);
    assert_eq!(1, larder.counter("origin_tls_failures"));
}

/// The other origin of the route was down: the preview of the drain named it as the one that gets the requests.
#[test]
fn draining_the_last_origin_that_is_up_is_warned_of() {
    let a = named("a");
    let larder = before(&[a.url(), "http://127.0.0.1:1".to_owned()], "", "");
    until("the other one is ejected", || {
        larder.get("/");
        states(&larder)[1] == "ejected"
    });
    let text = command(&larder, &format!("drain {}", a.url()));
    assert!(text.contains("warning: route */* has no other origin that is up"), "{text}");
}
