//! The first lines of `explain`: the answer, whether it is right, and changes, which are followed here: the page becomes a hit, and no
//! visitor gets the page of another.

use crate::harness::command::run;
use crate::harness::origin::{Gate, Received, Script, response};
use crate::harness::{Larder, Origin, until};
use serde_json::{Value, json};

/// Pages by their path; those of a session have the name of the visitor.
fn answer(request: &Received) -> Vec<Script> {
    let cookie = request.field("Cookie").unwrap_or("nobody");
    let (head, body) = match request.target().split('?').next().unwrap_or_default() {
        "/page" | "/many" => ("Cache-Control: max-age=60\n", "x".to_owned()),
        "/cookie" => ("Cache-Control: max-age=60\nSet-Cookie: a=b\n", "x".to_owned()),
        "/private" => ("Cache-Control: private, max-age=60\n", "x".to_owned()),
        "/changing" => ("", "x".repeat(request.number + 1)),
        _ => ("", format!("for {cookie}")),
    };
    vec![Script::Send(response(&format!("HTTP/1.1 200 OK\n{head}\n{body}")))]
}

fn start(origin: &Origin) -> Larder {
    let url = origin.url();
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n\n[[site.route]]\n# Everything.\npath = \"/*\"\nproxy = {{ to = [\"{url}\"] }}\n"
    ))
}

fn explain(larder: &Larder, question: &Value) -> Value {
    let response = larder.admin_post("/api/v1/explain", &question.to_string());
    assert_eq!(200, response.status, "{question}: {}", response.text());
    serde_json::from_slice(&response.body).unwrap()
}

fn page(larder: &Larder, target: &str) -> Value {
    explain(larder, &json!({ "url": format!("http://h{target}") }))
}

/// The settings that are proposed.
fn settings(report: &Value) -> Vec<Value> {
    let changes = report["summary"]["changes"].as_array().unwrap().iter();
    changes.filter(|it| it["by"] == "configuration").cloned().collect()
}

/// Makes the edits of a change in the file, and has them taken over.
fn follow(larder: &Larder, change: &Value) {
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let edited = larder
        .admin_post("/api/v1/config/edit", &json!({ "text": text, "set": change["edits"] }).to_string());
    assert_eq!(200, edited.status, "{}", edited.text());
    let edited: Value = serde_json::from_slice(&edited.body).unwrap();
    let new = edited["text"].as_str().unwrap();
    for line in change["diff"][0]["lines"].as_array().unwrap().iter().filter(|it| it["op"] == "+") {
        assert!(new.lines().any(|it| line["text"] == it), "{line} is in\n{new}");
    }
    assert!(new.contains("# Everything.\n"), "comments stay");
    std::fs::write(larder.config(), new).unwrap();
    larder.signal(libc::SIGHUP);
    let path = change["edits"][0]["path"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
    until("it is taken over", || page(larder, "/page")["settings"]["given"].to_string().contains(&path));
}

#[test]
fn the_answer_is_first_and_private_pages_get_no_advice() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin);
    for target in ["/page", "/cookie", "/private", "/cookie", "/private", "/changing"] {
        larder.get(target);
    }
    larder.advance(2);
    larder.get("/changing");
    for (target, expect) in [
        ("/page", "Served from ram: fresh for 58 s. right"),
        ("/cookie", "Not cached: the response sets the cookie a. right"),
        ("/private", "Not cached: the response is private. right"),
        ("/changing", "Not cached: the response declares no lifetime. right"),
        ("/new", "Not stored yet: no response is stored under this key. once"),
    ] {
        let report = page(&larder, target);
        let summary = &report["summary"];
        let found =
            format!("{} {}", summary["answer"].as_str().unwrap(), summary["judgement"].as_str().unwrap());
        assert_eq!(expect.to_lowercase(), found.to_lowercase(), "{report:#}");
        assert!(settings(&report).is_empty(), "{report:#}");
    }
}

#[test]
fn a_lifetime_that_is_followed_shares_no_page_of_a_session() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin);
    larder.get("/silent");
    let report = page(&larder, "/silent");
    assert_eq!("could-be-cached", report["summary"]["judgement"], "{report:#}");
    let [change] = &settings(&report)[..] else { panic!("{report:#}") };
    let lines = change["settings"].as_array().unwrap();
    assert_eq!([json!("cache.default_ttl = \"60s\""), json!("cache.private_cookies = [\"*\"]")], lines[..2]);
    assert!(lines[2].as_str().unwrap().starts_with("cache.ignored_cookies = [\"_ga*\","), "{change:#}");
    assert_eq!("larder.toml", change["diff"][0]["file"]);
    follow(&larder, change);
    let of = |cookie: &str| {
        let mut client = larder.client();
        client.send(format!("GET /silent HTTP/1.1\r\nHost: h\r\n{cookie}\r\n"));
        client.read()
    };
    of("");
    assert!(of("").is_hit(), "it is a hit now");
    assert!(of("Cookie: _ga=1\r\n").is_hit(), "cookies of analytics do not matter");
    assert_eq!("for a=1; _ga=2", of("Cookie: a=1; _ga=2\r\n").text());
    assert_eq!("for a=1", of("Cookie: a=1\r\n").text());
    assert_eq!("for a=2", of("Cookie: a=2\r\n").text());
    assert_eq!("for nobody", of("").text());
}

#[test]
fn parameters_of_analytics_leave_the_key() {
    let origin = Origin::scripted(answer);
    let larder = start(&origin);
    larder.get("/many?utm_source=a&page=2");
    let report = page(&larder, "/many?utm_source=b&page=2");
    let [change] = &settings(&report)[..] else { panic!("{report:#}") };
    assert_eq!(json!(["cache.key.drop = [\"utm_*\"]"]), change["settings"]);
    follow(&larder, change);
    larder.get("/many?utm_source=c&page=2");
    assert!(larder.get("/many?utm_source=d&page=2").is_hit());
    assert!(!larder.get("/many?utm_source=d&page=3").is_hit(), "only these parameters");
}

#[test]
fn a_path_a_host_a_tag_and_an_id_are_subjects() {
    let origin =
        Origin::new(|_| "HTTP/1.1 200 OK\nCache-Control: max-age=60\nCache-Tag: first\n\nx".to_owned());
    let larder = start(&origin);
    let mut client = larder.client();
    client.send(format!("GET /page HTTP/1.1\r\nHost: {}\r\n\r\n", larder.address));
    client.read();
    let fetch = |text: &str| explain(&larder, &json!({ "ask": text }));
    // A path alone is that of the latest request, which is known once it is finished.
    until("the request is finished", || fetch("/page")["verdict"]["name"] == "hit");
    for text in ["/page", &format!("{}/page", larder.address), &format!("http://{}/page", larder.address)] {
        assert_eq!("hit", fetch(text)["verdict"]["name"], "{text}");
    }
    // Clients name the host of a site, and a port that a proxy or a container maps to the listener.
    client.send("GET /mapped HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    client.read();
    until("the request is finished", || fetch("/mapped")["verdict"]["name"] == "hit");
    client.send("PURGE /mapped HTTP/1.1\r\nHost: shop.test\r\n\r\n");
    client.read();
    for text in ["first", "tag:first"] {
        let report = fetch(text);
        assert_eq!(
            json!(["tag", 1]),
            json!([report["verdict"]["name"], report["pages"].as_array().unwrap().len()])
        );
    }
    assert!(
        fetch("intranet")["summary"]["answer"]
            .as_str()
            .unwrap()
            .starts_with("No stored response has the tag intranet.")
    );
    for (question, at) in [
        (json!({ "ask": "/a b" }), "ask"),
        (json!({ "ask": "" }), "ask"),
        (json!({ "ask": "/a", "url": "http://h/" }), "ask"),
        (json!({ "ask": "ftp://h/" }), "url"),
        // As traces and the worst requests show it: explained as it stands, it was a page without requests.
        (json!({ "ask": "/page?token=***" }), "url"),
    ] {
        let report = larder.admin_post("/api/v1/explain", &question.to_string());
        let report = (report.status, serde_json::from_slice::<Value>(&report.body).unwrap());
        assert_eq!((400, at), (report.0, report.1["where"].as_str().unwrap()), "{question}");
    }
    let admin = larder.admin.to_string();
    let report = run(larder.folder.path(), &["explain", "/page", "--admin", &admin]);
    assert!(report.out.starts_with("Served from RAM: fresh for "), "{}", report.out);
    assert!(
        report.out.contains("\nThat is right: ") && report.out.contains("\nhow this was decided\n"),
        "{}",
        report.out
    );
}

/// The sentence spoke of a background revalidation, and the only change was one of the application.
#[test]
fn an_expired_page_has_the_setting_that_its_sentence_speaks_of() {
    let origin = Origin::new(|_| "HTTP/1.1 200 OK\nCache-Control: max-age=2\nETag: \"a\"\n\nx".to_owned());
    let larder = start(&origin);
    larder.get("/page");
    larder.advance(5);
    let report = page(&larder, "/page");
    let [change] = &settings(&report)[..] else { panic!("{report:#}") };
    assert_eq!(json!(["cache.stale_while_revalidate = \"60s\""]), change["settings"]);
}

/// Explain said "That is right: the page may be for one client" of a redirect loop behind a proxy that `clients.trusted` does not name.
#[test]
fn a_redirect_loop_behind_an_untrusted_proxy_is_a_fault_that_names_the_proxy() {
    let origin = Origin::new(|request| match request.field("X-Forwarded-Proto") {
        Some("https") => "HTTP/1.1 200 OK\nCache-Control: private\n\nx".to_owned(),
        _ => "HTTP/1.1 301 Moved Permanently\nLocation: https://h/account\n\n".to_owned(),
    });
    let larder = start(&origin);
    let mut client = larder.client();
    let ask = |client: &mut crate::harness::Client| {
        client.send(
            "GET /account HTTP/1.1\r\nHost: h\r\nCookie: sid=s3cret\r\nX-Forwarded-Proto: https\r\n\r\n",
        );
        client.read().status
    };
    assert_eq!(301, ask(&mut client));
    until("the request is recorded", || page(&larder, "/account")["summary"]["judgement"] == "fault");
    let report = page(&larder, "/account");
    let text = report["summary"].to_string();
    for part in ["a loop for the clients of 127.0.0.1", "X-Forwarded-Proto: https", "`clients.trusted`"] {
        assert!(text.contains(part), "{part}: {report:#}");
    }
    assert!(!report.to_string().contains("s3cret"), "{report:#}");
    // A client without a proxy gets a redirect to https, which is no fault.
    larder.get("/plain");
    assert_ne!("fault", page(&larder, "/plain")["summary"]["judgement"]);
}

/// Explain said "That is right: the configuration says so" of larder's own redirect, which was a loop for the clients of a proxy.
#[test]
fn a_redirect_of_larder_is_a_fault_for_the_clients_of_an_untrusted_proxy() {
    let larder = Larder::configured(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"h\"]\nredirect_https = true\n[[site.route]]\npath = \"/*\"\nrespond = { status = 200, body = \"here\" }\n"
            .to_owned(),
    );
    assert_eq!(308, larder.get("/plain").status);
    let answer = |target: &str| page(&larder, target)["summary"].clone();
    assert_eq!("right", answer("/plain")["judgement"], "{}", answer("/plain"));
    let mut client = larder.client();
    client.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: https\r\n\r\n");
    assert_eq!(308, client.read().status);
    until("the request is recorded", || answer("/x")["judgement"] == "fault");
    let text = answer("/x").to_string();
    for part in ["It is a loop for the clients of 127.0.0.1", "clients.trusted = [\\\"127.0.0.1\\\"]"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Explain said "That is right" of a URL that answers each request with 500.
#[test]
fn a_url_that_answers_each_request_with_500_is_a_fault() {
    let origin = Origin::fixed("HTTP/1.1 500 Internal Server Error\n\nx");
    let larder = start(&origin);
    let statuses = [0; 3].map(|_| larder.get("/broken").status);
    assert_eq!([500; 3], statuses);
    let report = page(&larder, "/broken");
    assert_eq!("fault", report["summary"]["judgement"], "{report:#}");
    assert_eq!("Not cached: the last response to this URL was 500.", report["summary"]["answer"]);
}

/// Explain said "Repair the origin first" where a time limit of larder had ended the request.
#[test]
fn a_request_that_a_time_limit_ended_names_its_key_value_and_line() {
    let shut = Gate::new();
    let gate = shut.clone();
    let origin = Origin::scripted(move |_| vec![Script::Gate(gate.clone()), Script::Close]);
    let url = origin.url();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy.to = [\"{url}\"]\nproxy.first_byte_timeout = \"300ms\"\n"
    ));
    assert_eq!(504, larder.get("/slow").status);
    let summary = page(&larder, "/slow")["summary"].clone();
    assert_eq!("fault", summary["judgement"], "{summary:#}");
    let because = summary["because"].as_str().unwrap();
    assert!(
        because.contains("larder ended the request: `site.route.proxy.first_byte_timeout` (at "),
        "{because}"
    );
    assert!(because.contains("larder.toml:7) is 300ms. Raise it"), "{because}");
    shut.open();
}

#[test]
fn cookies_on_which_the_answer_depends_are_named_without_their_values() {
    let origin = Origin::new(|request| match request.target() {
        "/news" => "HTTP/1.1 200 OK\nCache-Control: max-age=60\nVary: Cookie\n\nx".to_owned(),
        "/set" => "HTTP/1.1 200 OK\nCache-Control: max-age=60\nSet-Cookie: sid=s3cret\n\nx".to_owned(),
        _ => "HTTP/1.1 200 OK\n\nx".to_owned(),
    });
    let larder = start(&origin);
    let mut client = larder.client();
    for target in ["/news", "/guide", "/set"] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nCookie: _shop=s3cret; sid=s3cret\r\n\r\n"));
        client.read();
    }
    for (target, cookie, answer) in [
        (
            "/news",
            None,
            "Not stored for this client: Vary makes a variant for each value of the cookies _shop and sid.",
        ),
        ("/guide", None, "the last request for this URL had the cookies _shop and sid, and"),
        ("/guide", Some("lang=s3cret"), "the request has the cookie lang, and"),
        ("/set", None, "the response sets the cookie sid."),
    ] {
        let headers: Vec<[&str; 2]> = cookie.iter().map(|it| ["Cookie", it]).collect();
        let report = explain(&larder, &json!({ "url": format!("http://h{target}"), "headers": headers }));
        let found = report["summary"]["answer"].as_str().unwrap();
        assert!(found.contains(answer), "{target}: {report:#}");
        assert!(!report.to_string().contains("s3cret"), "{report:#}");
    }
}
