//! Advice that rests on recorded requests: cookies and parameters that change no page. Nothing is proposed for pages that are marked as
//! private, set a cookie or differed between clients, and the missing evidence is named.

use crate::harness::origin::{Received, Script, response};
use crate::harness::{Larder, Origin, until};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

fn answer(request: &Received) -> Vec<Script> {
    let cookies = request.field("Cookie").unwrap_or_default();
    let path = request.target().split('?').next().unwrap_or_default().to_owned();
    let (head, body) = match path.split('/').nth(1).unwrap_or_default() {
        "guide" => ("", path),
        "news" => ("Cache-Control: public, max-age=600\nVary: Cookie\n", path),
        "account" => ("Cache-Control: private\n", path),
        "login" => ("Cache-Control: max-age=600\nSet-Cookie: sid=1\n", path),
        "mine" => ("Cache-Control: max-age=600\n", format!("{path} {cookies}")),
        "clock" => ("Cache-Control: max-age=600\n", format!("{path} {}", request.number)),
        _ => ("Cache-Control: max-age=600\n", path),
    };
    vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{head}\n{body}")))]
}

/// Routes by name with their keys of `cache`.
const ROUTES: [(&str, &str); 9] = [
    ("category", "cache = { private_cookies = [\"*\"], ignored_cookies = [\"old\"] }"),
    ("static", "cache = { private_cookies = [\"sid\"] }"),
    ("listed", "cache = { private_cookies = [\"sid\", \"cart\"] }"),
    ("guide", ""),
    ("news", ""),
    ("account", "cache = { private_cookies = [\"*\"] }"),
    ("login", "cache = { private_cookies = [\"*\"] }"),
    ("mine", "cache = { private_cookies = [\"*\"] }"),
    ("clock", "cache = { private_cookies = [\"*\"] }"),
];

fn start(origin: &Origin, routes: &[(&str, &str)]) -> Larder {
    let url = origin.url();
    let one = |(name, cache): &(&str, &str)| {
        format!(
            "[[site.route]]\nname = \"{name}\"\npath = \"/{name}/*\"\nproxy = {{ to = [\"{url}\"] }}\n{cache}\n"
        )
    };
    let routes: String = routes.iter().map(one).collect();
    let config = format!("listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n{routes}");
    Larder::configured(config)
}

fn fetch(larder: &Larder, target: &str, lines: &str) {
    let mut client = larder.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
    assert_eq!(200, client.read().status, "{target}");
}

/// Visitors with a session and a cookie that is new with each request.
fn visit(larder: &Larder, routes: &[&str], visitors: std::ops::Range<u32>) {
    for visitor in visitors {
        for route in routes {
            for page in 0..2 {
                let cookies = format!("Cookie: sid={visitor:08x}; once={visitor}{page}{route}\r\n");
                fetch(larder, &format!("/{route}/{page}"), &cookies);
            }
        }
    }
}

fn json(larder: &Larder, path: &str) -> Value {
    let response = larder.admin_get(path);
    assert_eq!(200, response.status, "{}", response.text());
    serde_json::from_str(&response.text()).unwrap()
}

/// Each finding: its name, route and proposed lines.
fn findings(larder: &Larder) -> Vec<String> {
    let report = json(larder, "/api/v1/advice");
    let one = |it: &Value| {
        let changes = it["changes"].as_array().unwrap().iter();
        let lines = changes.flat_map(|it| it["settings"].as_array().cloned().unwrap_or_default());
        let lines: Vec<String> = lines.map(|it| it.as_str().unwrap().to_owned()).collect();
        format!(
            "{} {}: {}",
            it["name"].as_str().unwrap(),
            it["route"].as_str().unwrap_or("-"),
            lines.join("; ")
        )
    };
    let mut found: Vec<String> = report["findings"].as_array().unwrap().iter().map(one).collect();
    found.sort();
    found
}

/// The row of a route and reason in the view *Why*.
fn why(larder: &Larder, route: &str, reason: &str) -> Value {
    let report = json(larder, "/api/v1/why");
    let rows = report["routes"].as_array().unwrap().iter().filter(|it| it["name"] == route);
    let found = rows.flat_map(|it| it["reasons"].as_array().unwrap()).find(|it| it["reason"] == reason);
    found.cloned().unwrap_or_default()
}

#[test]
fn pages_that_are_the_same_for_all_cookies_are_proposed_and_no_page_of_one_client() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &ROUTES);
    let names = ROUTES.map(|it| it.0);
    visit(&larder, &names, 0..4);
    // Four sessions prove nothing, and the page says so.
    let _ = findings(&larder);
    assert_eq!(Vec::<String>::new(), findings(&larder));
    let evidence = why(&larder, "category", "private-cookie")["evidence"].as_str().unwrap().to_owned();
    assert!(evidence.contains("is not known yet: fewer than 10 responses"), "{evidence}");
    visit(&larder, &names, 4..24);
    until("the pages are judged", || {
        findings(&larder)
            == [
                "needless-cookies category: cache.ignored_cookies = [\"old\",\"once\",\"sid\"]",
                "needless-cookies guide: cache.default_ttl = \"60s\"; cache.private_cookies = [\"*\"]; cache.ignored_cookies = [\"once\",\"sid\"]",
                "needless-cookies listed: cache.private_cookies = [\"cart\"]",
                "needless-cookies news: cache.private_cookies = [\"*\"]; cache.ignored_cookies = [\"once\",\"sid\"]",
                "needless-cookies static: cache.ignored_cookies = [\"sid\"]",
            ]
    });
    for (route, words) in [
        ("account", "marks responses of this route as private, such as http://h/account/"),
        ("login", "set a cookie, such as http://h/login/"),
        ("mine", "differed between clients, or from request to request, such as http://h/mine/"),
        ("clock", "differed between clients, or from request to request"),
    ] {
        let rows = ["private-cookie", "set-cookie", "private"]
            .map(|reason| why(&larder, route, reason)["evidence"].clone());
        assert!(rows.iter().any(|it| it.as_str().is_some_and(|it| it.contains(words))), "{route}: {rows:?}");
    }
    // Explain judges such a request by the same evidence.
    for (route, cookies, judgement) in [
        ("category", "sid=1; once=2", "could-be-cached"),
        ("category", "sid=1; cart=2", "right"),
        ("guide", "sid=77", "could-be-cached"),
        ("mine", "sid=1", "right"),
    ] {
        let url = format!("http://h/{route}/0");
        let question = serde_json::json!({ "url": url, "headers": [["Cookie", cookies]] }).to_string();
        let response = larder.admin_post("/api/v1/explain", &question);
        let report: Value = serde_json::from_slice(&response.body).unwrap();
        let summary = &report["summary"];
        assert_eq!(judgement, summary["judgement"], "{route} {cookies}: {summary:#}");
        let has_setting = summary["changes"].as_array().unwrap().iter().any(|it| it["by"] == "configuration");
        assert_eq!(judgement == "could-be-cached", has_setting, "{summary:#}");
    }
    // From now on, such requests are counted as possible hits; one with another cookie is not.
    let before =
        ["category", "mine"].map(|it| why(&larder, it, "private-cookie")["could_be_hits"].as_u64().unwrap());
    visit(&larder, &["category", "mine"], 30..33);
    fetch(&larder, "/category/0", "Cookie: sid=1; cart=2\r\n");
    fetch(&larder, "/category/0", "Cookie: sid=1\r\nX-Api-Key: 2\r\n");
    let after = || {
        ["category", "mine"].map(|it| why(&larder, it, "private-cookie")["could_be_hits"].as_u64().unwrap())
    };
    until("they are counted", || after() == [before[0] + 6, before[1]]);
    let stats = json(&larder, "/api/v1/stats");
    assert!(stats["totals"]["could_be_hits"].as_u64().unwrap() >= 6, "{}", stats["totals"]);
}

/// Between two judgements, Explain proposed to share the pages of a route that had begun to mark them as private or to set a cookie.
#[test]
fn the_newest_response_decides_about_pages_that_were_the_same_for_all_cookies() {
    for head in ["Cache-Control: private\n", "Cache-Control: max-age=600\nSet-Cookie: sid=1\n"] {
        let is_apart = Arc::new(AtomicBool::new(false));
        let now = is_apart.clone();
        let origin = Origin::scripted(move |request| match now.load(SeqCst) {
            false => answer(request),
            true => vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{head}\nx")))],
        });
        let larder = start(&origin, &[("category", "cache = { private_cookies = [\"*\"] }"), ("guide", "")]);
        let judgement = |route: &str| {
            let url = format!("http://h/{route}/0");
            let question = serde_json::json!({ "url": url, "headers": [["Cookie", "sid=77"]] }).to_string();
            let report: Value =
                serde_json::from_slice(&larder.admin_post("/api/v1/explain", &question).body).unwrap();
            report["summary"]["judgement"].as_str().unwrap().to_owned()
        };
        visit(&larder, &["category", "guide"], 0..24);
        until("the pages are judged", || findings(&larder).len() == 2);
        assert_eq!(["could-be-cached"; 2], ["category", "guide"].map(judgement));
        is_apart.store(true, SeqCst);
        let text = std::fs::read_to_string(larder.config()).unwrap();
        let text = serde_json::json!({ "text": text.replace("private_cookies = [\"*\"]", "private_cookies = [\"*\", \"zz\"]") }).to_string();
        for (number, route) in ["category", "guide"].into_iter().enumerate() {
            fetch(&larder, &format!("/{route}/0"), "Cookie: sid=77\r\n");
            until("the request is recorded", || {
                let trial = larder.admin_post("/api/v1/config/trial", &text);
                let trial: Value = serde_json::from_slice(&trial.body).unwrap();
                trial["records"] == 97 + number
            });
            assert_eq!("right", judgement(route), "{route}: {head}");
        }
    }
}

/// The proposed change, written to the configuration, is no danger for its trial, and makes hits of these requests.
#[test]
fn the_proposed_cookies_make_hits_without_a_danger() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin, &ROUTES[..1]);
    visit(&larder, &["category"], 0..24);
    until("they are judged", || findings(&larder).len() == 1);
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let changed = text.replace("[\"old\"]", "[\"old\", \"once\", \"sid\"]");
    let trial =
        larder.admin_post("/api/v1/config/trial", &serde_json::json!({ "text": changed }).to_string());
    let trial: Value = serde_json::from_str(&trial.text()).unwrap();
    assert_eq!(Some(false), trial["danger"].as_bool(), "{trial}");
    assert!(trial["hit_ratio"]["changed"].as_f64() > Some(0.9), "{trial}");
    // The session alone is in danger: nothing shows that the page is the same with every cart.
    fetch(&larder, "/category/0", "Cookie: sid=1; cart=2\r\n");
    let risky = text.replace("[\"old\"]", "[\"old\", \"once\", \"sid\", \"cart\"]");
    let mut trial = Value::Null;
    until("the last request is recorded", || {
        let text = serde_json::json!({ "text": risky }).to_string();
        trial = serde_json::from_str(&larder.admin_post("/api/v1/config/trial", &text).text()).unwrap();
        trial["records"] == 49
    });
    assert_eq!(Some(true), trial["danger"].as_bool(), "{trial}");
}

#[test]
fn all_parameters_that_change_no_page_are_proposed_in_one_change() {
    let origin = Origin::new(|it| {
        let page = it.target().split("page=").nth(1).unwrap_or_default();
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nproduct {}",
            page.split('&').next().unwrap_or_default()
        )
    });
    let larder = start(&origin, &[("product", "")]);
    for number in 0..30 {
        let page = number % 3;
        fetch(
            &larder,
            &format!("/product/1?page={page}&utm_source={number}&wt_mc=a{number}&emid=b{number}"),
            "",
        );
    }
    until("they are found", || {
        findings(&larder) == ["needless-parameters product: cache.key.drop = [\"utm_*\",\"emid\",\"wt_mc\"]"]
    });
}
