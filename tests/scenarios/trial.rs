//! A changed configuration on recent requests, before it is applied: planted regressions are listed, responses of one client are
//! found, a predicted hit ratio is the one that the server then has, and no secret is in a record.

use super::configuring::admin;
use crate::harness::command::run;
use crate::harness::origin::{Received, Script, response};
use crate::harness::{Larder, Origin, until};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The page depends on its path, and below `/user` on the cookie.
fn answer(request: &Received) -> Vec<Script> {
    let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
    let head = match path.split('/').nth(1).unwrap_or_default() {
        "long" => "Cache-Control: max-age=300\n",
        "sets" => "Cache-Control: max-age=300\nSet-Cookie: session=s3cret; Path=/\n",
        "mine" => "Cache-Control: private, max-age=300\n",
        "plain" | "user" => "",
        _ => "Cache-Control: max-age=60\n",
    };
    let body = match path.split('/').nth(1).unwrap_or_default() {
        "user" => format!("hello {}", request.field("Cookie").unwrap_or("nobody")),
        "list" => {
            let page = query.split('&').find(|it| it.starts_with("page=")).unwrap_or("page=1");
            format!("list {page}")
        }
        _ => path.to_owned(),
    };
    vec![Script::Send(response(&format!("HTTP/1.1 200 OK\nContent-Type: text/html\n{head}\n{body}")))]
}

/// A larder with these routes, each with its path and further keys; `{origin}` is the address of the origin.
fn start(origin: &Origin, routes: &[(&str, &str)]) -> Larder {
    Larder::configured(configuration(origin, routes))
}

fn configuration(origin: &Origin, routes: &[(&str, &str)]) -> String {
    let text: String = routes
        .iter()
        .map(|(path, keys)| {
            format!("[[site.route]]\npath = \"{path}\"\nproxy = {{ to = [\"{}\"] }}\n{keys}\n", origin.url())
        })
        .collect();
    format!("listen = [\"127.0.0.1:0\"]\nworkers = 2\n\n[[site]]\nhosts = [\"*\"]\n{text}")
}

fn text(larder: &Larder) -> String {
    std::fs::read_to_string(larder.config()).unwrap()
}

/// The result of the trial of the file with `from` replaced by `to`.
#[track_caller]
fn tried(larder: &Larder, from: &str, to: &str) -> Value {
    let text = text(larder);
    assert!(text.contains(from), "{from:?} is not in\n{text}");
    // A request is recorded after its response, and before the end of its connection.
    until("no client is connected", || larder.counter("connections_open") == 0);
    let body = json!({ "text": text.replace(from, to) });
    let (status, report) = admin(larder, "POST", "/api/v1/config/trial", body.to_string().as_bytes());
    assert_eq!(200, status, "{report}");
    assert_eq!(true, report["complete"]);
    report
}

/// Each kind of change with its requests, and the first example.
fn changes(report: &Value) -> Vec<String> {
    let one = |it: &Value| {
        let example = &it["examples"][0];
        let path = example["url"].as_str().unwrap().splitn(4, '/').nth(3).unwrap_or_default().to_owned();
        let of = |it: &Value| it.as_str().unwrap_or("none").to_owned();
        format!(
            "{} {} /{path}: {} > {}",
            it["kind"].as_str().unwrap(),
            it["requests"],
            of(&example["from"]),
            of(&example["to"])
        )
    };
    report["changes"].as_array().unwrap().iter().filter(|it| it["requests"] != 0).map(one).collect()
}

/// Each reason against sharing with its responses.
fn shared(report: &Value) -> Vec<String> {
    let one = |it: &Value| format!("{} {}", it["reason"].as_str().unwrap(), it["requests"]);
    report["shared"].as_array().unwrap().iter().map(one).collect()
}

fn ratio(report: &Value, which: &str) -> f64 {
    report["hit_ratio"][which].as_f64().unwrap_or_else(|| panic!("{report}"))
}

/// One request with these lines.
fn fetch(larder: &Larder, target: &str, lines: &str) -> String {
    let mut client = larder.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
    client.read().text()
}

#[test]
fn a_broader_route_a_redirect_and_a_refusal_are_listed_with_their_lines() {
    let origin = Origin::scripted(answer);
    let larder = start(
        &origin,
        &[("/shop/*", "name = \"shop\""), ("/blog/*", "name = \"blog\""), ("/*", "name = \"rest\"")],
    );
    for _ in 0..3 {
        for target in ["/shop/a", "/blog/a", "/blog/b", "/other"] {
            fetch(&larder, target, "");
        }
    }
    let same = tried(&larder, "workers = 2", "workers = 2 # the same");
    assert_eq!((json!(12), json!(false)), (same["records"].clone(), same["danger"].clone()), "{same}");
    assert!(changes(&same).is_empty(), "{same}");
    assert_eq!((ratio(&same, "measured"), ratio(&same, "running")), (8.0 / 12.0, 8.0 / 12.0));

    let broader = tried(&larder, "path = \"/shop/*\"", "path = \"regex:/(shop|blog)/.*\"");
    // Of requests to two workers either may be recorded first.
    let of_blog = |report: &Value, kind: &str, change: &str| {
        let found = changes(report);
        found.len() == 1 && ["a", "b"].iter().any(|it| found[0] == format!("{kind} 6 /blog/{it}: {change}"))
    };
    assert!(of_blog(&broader, "route", "blog > shop"), "{broader}");
    let route = &broader["changes"][0];
    assert_eq!((&json!(2), &json!("site.route.path")), (&route["urls"], &route["examples"][0]["key"]));
    let place = route["examples"][0]["where"].as_str().unwrap();
    let line = text(&larder).lines().position(|it| it.contains("/shop/*")).unwrap() + 1;
    assert!(place.contains(&format!("larder.toml:{line}")), "{place}");

    let redirect =
        "path = \"/blog/a\"\nredirect = { to = \"/elsewhere\" }\n[[site.route]]\npath = \"/blog/*\"";
    let redirected = tried(&larder, "path = \"/blog/*\"", redirect);
    let report = changes(&redirected);
    assert!(report.iter().any(|it| it.starts_with("status 3 /blog/a: 200 > 30")), "{report:?}");

    let denied = tried(&larder, "name = \"blog\"", "name = \"blog\"\naccess = { deny = [\"127.0.0.0/8\"] }");
    assert!(of_blog(&denied, "status", "200 > 403"), "{denied}");
    assert_eq!("site.route.access.deny", denied["changes"][1]["examples"][0]["key"]);

    let gone = tried(&larder, "path = \"/*\"", "path = \"/none\"");
    assert!(changes(&gone).contains(&"status 3 /other: 200 > 404".to_owned()), "{gone}");
}

#[test]
fn another_origin_is_unknown_and_not_guessed() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("/*", "")]);
    fetch(&larder, "/a", "");
    fetch(&larder, "/a", "");
    let report = tried(&larder, &origin.url(), "http://127.0.0.1:1");
    assert!(changes(&report).is_empty(), "{report}");
    assert_eq!(json!(null), report["hit_ratio"]["changed"], "{report}");
    assert_eq!(
        (&json!("other-origin"), &json!(2)),
        (&report["unknown"][0]["fact"], &report["unknown"][0]["requests"])
    );
}

#[test]
fn responses_of_one_client_are_found_before_they_are_shared() {
    let origin = Origin::scripted(answer);
    let routes = [
        ("/sets/*", "cache = { max_object = \"1MiB\" }"),
        ("/mine/*", "cache = { max_object = \"2MiB\" }"),
        ("/user/*", "cache = { private_cookies = [\"session\"] }"),
        ("/list/*", "cache = { max_object = \"3MiB\" }"),
        ("/*", ""),
    ];
    let larder = start(&origin, &routes);
    for number in 0..3 {
        fetch(&larder, "/sets/a", "");
        fetch(&larder, "/mine/a", "");
        assert!(fetch(&larder, "/user/a", &format!("Cookie: session=s3cret{number}\r\n")).contains("s3cret"));
        fetch(&larder, &format!("/list/a?page={number}"), "");
        fetch(&larder, &format!("/tracked?utm_source={number}"), "");
    }
    let sets = tried(&larder, "max_object = \"1MiB\"", "store_set_cookie = true");
    assert_eq!(["set-cookie 3"], shared(&sets)[..], "{sets}");
    assert_eq!(true, sets["danger"]);
    assert_eq!(["storage 3 /sets/a: set-cookie > stored"], changes(&sets)[..]);
    let example = &sets["changes"][4]["examples"][0];
    assert_eq!("cache.store_set_cookie", example["key"]);
    assert!(example["where"].as_str().unwrap().contains("larder.toml:"), "{example}");

    let mine = tried(&larder, "max_object = \"2MiB\"", "override_ttl = \"60s\"");
    assert_eq!(
        (json!([]), json!(false)),
        (mine["shared"].clone(), mine["danger"].clone()),
        "it stays private: {mine}"
    );

    let user = tried(
        &larder,
        "private_cookies = [\"session\"]",
        "private_cookies = [\"other\"], default_ttl = \"60s\"",
    );
    assert_eq!(["private 3", "differed 3"], shared(&user)[..], "{user}");

    let list = tried(&larder, "max_object = \"3MiB\"", "key = { drop = [\"page\"] }");
    assert_eq!(["differed 3"], shared(&list)[..], "three URLs with different bodies: {list}");
    assert!(
        changes(&list)[0].starts_with("key 3 /list/a?page=0: http://h/list/a?page=0 > http://h/list/a"),
        "{list}"
    );

    let tracked = tried(&larder, "path = \"/*\"", "cache = { key = { drop = [\"utm_*\"] } }\npath = \"/*\"");
    assert_eq!(
        (json!([]), json!(false)),
        (tracked["shared"].clone(), tracked["danger"].clone()),
        "{tracked}"
    );
    assert!(ratio(&tracked, "changed") > ratio(&tracked, "running"), "{tracked}");
    let text = format!("{sets}{mine}{user}{list}{tracked}");
    assert!(!text.contains("s3cret"), "{text}");
}

/// The pattern of requests of the next test: four pages, one request a second of each.
fn visit(larder: &Larder, seconds: u32) {
    for second in 0..seconds {
        for page in 0..4 {
            // A sparse page has a visitor every five seconds.
            if page < 2 || second % 5 == page {
                fetch(larder, &format!("/plain/{page}"), "");
                fetch(larder, &format!("/long/{page}"), "");
            }
        }
        larder.advance(1);
    }
}

/// Another size of RAM and other tiers of a route change the hit ratio, and no decision: "no change" was predicted.
#[test]
fn changed_keys_of_tiers_are_named_as_not_modelled() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("/*", "cache = { max_ttl = \"1h\" }")]);
    visit(&larder, 1);
    let same = tried(&larder, "workers = 2", "workers = 3");
    assert_eq!(json!([]), same["not_modelled"], "{same}");
    let ram = "workers = 2\n[cache.ram]\nsize = \"8MiB\"\nidle = \"20s\"\n";
    let report = tried(&larder, "workers = 2", ram);
    assert_eq!(json!(["cache.ram.size", "cache.ram.idle"]), report["not_modelled"], "{report}");
    let report = tried(&larder, "cache = { max_ttl", "cache = { tiers = [\"ram\"], max_ttl");
    assert_eq!(json!(["cache.tiers"]), report["not_modelled"], "{report}");
}

#[test]
fn a_predicted_hit_ratio_is_the_one_that_the_server_then_has() {
    let origin = Origin::scripted(answer);
    let routes = [("/long/*", "cache = { max_ttl = \"1h\" }"), ("/*", "cache = { max_object = \"1MiB\" }")];
    let larder = start(&origin, &routes);
    visit(&larder, 40);
    let raised = ("cache = { max_object = \"1MiB\" }", "cache = { default_ttl = \"10s\" }");
    let cut = ("max_ttl = \"1h\"", "max_ttl = \"3s\"");
    for (change, is_more) in [(raised, true), (cut, false)] {
        let report = tried(&larder, change.0, change.1);
        let (before, predicted) = (ratio(&report, "running"), ratio(&report, "changed"));
        assert!((before - ratio(&report, "measured")).abs() < 0.01, "{report}");
        assert_eq!(is_more, predicted > before + 0.1, "{report}");
        assert_eq!(!is_more, predicted < before - 0.1, "{report}");
        let kind = if is_more { "storage" } else { "lifetime" };
        let lists: Vec<String> = changes(&report);
        assert!(lists.iter().any(|it| it.starts_with(kind)) || is_more, "{lists:?}");

        let config = configuration(&origin, &routes).replace(change.0, change.1);
        let applied = Larder::configured(config);
        visit(&applied, 40);
        let real = tried(&applied, "workers = 2", "workers = 2 # the same");
        let measured = ratio(&real, "measured");
        assert!((measured - predicted).abs() < 0.03, "predicted {predicted}, then {measured}: {report}");
    }
}

#[test]
fn the_command_prints_the_report_and_fails_for_private_responses() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("/*", "cache = { max_object = \"1MiB\" }")]);
    for _ in 0..3 {
        fetch(&larder, "/sets/a", "");
    }
    let path = larder.config();
    let (folder, admin) = (path.parent().unwrap(), larder.admin.to_string());
    let check = |file: &str, flags: &[&str]| {
        run(folder, &[&["check", "-c", file, "--against-recent", "--admin", &admin], flags].concat())
    };
    let safe = check("larder.toml", &[]);
    assert_eq!(0, safe.code, "{safe:?}");
    assert!(
        safe.out.contains("on the last 3 requests") && safe.out.contains("No request changes"),
        "{safe:?}"
    );
    let old = text(&larder);
    let new = old.replace("max_object = \"1MiB\"", "store_set_cookie = true");
    std::fs::write(folder.join("tried.toml"), new).unwrap();
    let shared = check("tried.toml", &[]);
    assert_eq!(1, shared.code, "{shared:?}");
    assert!(shared.out.contains("DANGER: 3 newly shared responses have Set-Cookie"), "{shared:?}");
    let json: Value = serde_json::from_str(&check("tried.toml", &["--json"]).out).unwrap();
    assert_eq!(true, json["danger"]);
    assert_eq!((old, 0), (text(&larder), larder.counter("config_reloads")), "nothing was applied");
    let usage = check("larder.toml", &["--workers", "3"]);
    assert_eq!(2, usage.code, "{usage:?}");
    assert!(usage.err.contains("--against-recent tries the file as it is; remove --workers"), "{usage:?}");
    std::fs::write(folder.join("wrong.toml"), "wrong = 1").unwrap();
    assert_eq!(2, check("wrong.toml", &[]).code);
}

/// The page of the session, after many anonymous requests; a redirect of each session; a page that changes with each request; a page of
/// two groups; and one that demands credentials.
fn private_answer(request: &Received) -> Vec<Script> {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    let session = request.field("Cookie").unwrap_or("nobody");
    let of = |head: &str, body: &str| {
        vec![Script::Send(response(&format!("HTTP/1.1 {head}\nContent-Type: text/html\n\n{body}")))]
    };
    match request.target().split('/').nth(1).unwrap_or_default() {
        "home" => of("200 OK", &format!("home of {session}")),
        "away" => of(&format!("302 Found\nLocation: /of/{session}"), ""),
        "form" => of("200 OK", &format!("{session} nonce {}", COUNT.fetch_add(1, Ordering::Relaxed))),
        "group" => of("200 OK\nCache-Control: max-age=60", request.field("X-AB").unwrap_or("none")),
        _ => of("200 OK\nCache-Control: max-age=60", "the page"),
    }
}

#[test]
fn private_responses_are_named_however_they_are_made_public() {
    let origin = Origin::scripted(private_answer);
    let [alice, bob] = super::access_basic::users();
    let basic = format!("access = {{ basic = {{ users = [\"{alice}\", \"{bob}\"] }} }}");
    let routes = [
        ("/home/*", "cache = { max_object = \"1MiB\" }"),
        ("/away/*", "cache = { max_object = \"2MiB\" }"),
        ("/form/*", "cache = { max_object = \"3MiB\" }"),
        ("/group/*", "cache = { vary = [\"X-AB\"] }"),
        ("/shut/*", "access = { deny = [\"127.0.0.0/8\"] }"),
        ("/users/*", &basic),
        ("/*", "cache = { max_object = \"4MiB\" }"),
    ];
    let larder = start(&origin, &routes);
    for _ in 0..70 {
        fetch(&larder, "/home/a", "");
    }
    for number in 0..3 {
        let session = format!("Cookie: session=s3cret{number}\r\n");
        for target in ["/home/a", "/away/a", "/form/a", "/form/a"] {
            fetch(&larder, target, &session);
        }
        fetch(&larder, "/group/a", &format!("X-AB: {number}\r\n"));
        fetch(&larder, "/shut/a", "");
        fetch(&larder, "/users/a", "");
        fetch(&larder, "/users/a", super::access_basic::ALICES);
        fetch(&larder, &format!("/rest?token=s3cret{number}&utm_source=1"), "");
    }
    let home = tried(&larder, "max_object = \"1MiB\"", "default_ttl = \"60s\"");
    assert_eq!(["differed 73"], shared(&home)[..], "{home}");
    let away = tried(&larder, "max_object = \"2MiB\"", "status_ttl = { 302 = \"60s\" }");
    assert_eq!(["differed 3"], shared(&away)[..], "{away}");
    let form = tried(&larder, "max_object = \"3MiB\"", "default_ttl = \"60s\"");
    assert_eq!(["changes 6"], shared(&form)[..], "{form}");
    assert_eq!(true, form["danger"]);
    let group = tried(&larder, "cache = { vary = [\"X-AB\"] }", "");
    assert_eq!(["differed 3"], shared(&group)[..], "{group}");
    assert!(changes(&group)[0].starts_with("key 3 /group/a"), "{group}");
    let shut = tried(&larder, "access = { deny = [\"127.0.0.0/8\"] }", "");
    assert_eq!(["open 3 /shut/a: 403 > admitted"], changes(&shut)[..], "{shut}");
    assert_eq!(json!(false), shut["danger"], "no response with credentials becomes public");
    let users = tried(&larder, &basic, "");
    assert!(changes(&users).contains(&"open 3 /users/a: 401 > admitted".to_owned()), "{users}");
    assert_eq!(["opened 3"], shared(&users)[..], "{users}");
    let rest = tried(&larder, "max_object = \"4MiB\"", "key = { drop = [\"utm_*\"] }");
    assert!(changes(&rest)[0].starts_with("key 3 /rest?token=***&utm_source=1:"), "{rest}");
    let text = format!("{home}{away}{form}{group}{shut}{users}{rest}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn the_command_finds_the_larder_of_the_file_and_names_its_lines() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("/*", "cache = { max_object = \"1MiB\" }")]);
    fetch(&larder, "/plain", "");
    until("no client is connected", || larder.counter("connections_open") == 0);
    let folder = larder.config().parent().unwrap().to_owned();
    let new = text(&larder)
        .replace("max_object = \"1MiB\"", "default_ttl = \"60s\"")
        .replace("[admin]\nlisten = \"127.0.0.1:0\"", &format!("[admin]\nlisten = \"{}\"", larder.admin));
    let line = new.lines().position(|it| it.contains("default_ttl")).unwrap() + 1;
    std::fs::write(folder.join("tried.toml"), new).unwrap();
    // No larder runs with this file.
    let output = run(&folder, &["check", "-c", "tried.toml", "--against-recent"]);
    assert_eq!(0, output.code, "{output:?}");
    assert!(output.out.contains(&format!("(tried.toml:{line})")), "{output:?}");
}

/// "No request changes its status" was said of a time limit whose purpose is another status.
#[test]
fn a_trial_names_the_keys_that_recorded_responses_do_not_judge() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &[("/*", "name = \"all\"")]);
    assert_eq!(200, larder.get("/long/a").status);
    let report = tried(&larder, "] }", "], first_byte_timeout = \"9s\" }");
    assert_eq!(json!(["proxy.first_byte_timeout (route all)"]), report["not_judged"]);
    let report = tried(&larder, "\"all\"", "\"all\"\ncache.hit_for_miss = \"7s\"");
    assert_eq!(json!(["cache.hit_for_miss (route all)"]), report["not_judged"]);
    let report = tried(&larder, "workers = 2", "workers = 2\nlimits.head_size = \"9KiB\"");
    assert_eq!(json!(["limits.head_size"]), report["not_judged"]);
    let report = tried(&larder, "workers = 2", "workers = 1");
    assert_eq!(json!([]), report["not_judged"]);
}

/// The advice promised hits for a larger `cache.max_object`, and the trial of the same change said that no request changes.
#[test]
fn a_larger_max_object_is_predicted_for_responses_without_a_declared_length() {
    let origin = Origin::scripted(|_| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=3600\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunk = format!("2000\r\n{}\r\n", "x".repeat(0x2000));
        vec![Script::Send(format!("{head}{chunk}0\r\n\r\n").into_bytes())]
    });
    let larder = start(&origin, &[("/*", "cache.max_object = \"4KiB\"")]);
    (0..6).for_each(|_| assert_eq!(0x2000, fetch(&larder, "/download", "").len()));
    let report = tried(&larder, "\"4KiB\"", "\"16KiB\"");
    assert_eq!(["storage 6 /download: too-large > stored"], changes(&report)[..], "{report}");
    assert_eq!((0.0, 5.0 / 6.0), (ratio(&report, "running"), ratio(&report, "changed")));
}
