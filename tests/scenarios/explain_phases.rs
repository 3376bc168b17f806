//! `explain` names the phase that decides before the cache: the file of a path, the TLS rules of a site, methods, redirects, maintenance,
//! and the sticky cookie, each with file and line. The explanation is compared with the response to a request.

use crate::harness::command::run;
use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin, http2};
use serde_json::{Value, json};

fn explain(larder: &Larder, question: &Value) -> Value {
    let response = larder.admin_post("/api/v1/explain", &question.to_string());
    assert_eq!(200, response.status, "{question}: {}", response.text());
    serde_json::from_slice(&response.body).unwrap()
}

fn page(larder: &Larder, target: &str) -> Value {
    explain(larder, &json!({ "url": format!("http://{}{target}", larder.address) }))
}

/// A larder over a directory with these files, and these keys of `files`, the first of which is in line 7.
fn site(keys: &str) -> (tempfile::TempDir, Larder) {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "index.html",
        "about.html",
        "docs/index.html",
        "docs/a.html",
        "404.html",
        "app.js",
        "images/x.png",
        ".env",
    ] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nfiles.root = {:?}\n{keys}\n",
        folder.path()
    );
    (folder, Larder::configured(config))
}

/// Compares the explanation of a path with the response to it, before and after: status, then file or `Location`, key, line.
#[track_caller]
fn check(larder: &Larder, target: &str, status: u16, found: &str, key: &str, line: u32) {
    for _ in 0..2 {
        let report = page(larder, target);
        let shown = match status {
            301 => {
                report["verdict"]["sentence"].as_str().unwrap().contains(&format!("Redirected to {found}, "))
            }
            200 => report["file"]["path"] == found,
            _ => report["file"]["page"].as_str().unwrap_or("none") == found,
        };
        assert!(shown, "{target}: {report}");
        assert_eq!(
            json!([status, format!("site.route.files.{key}")]),
            json!([report["verdict"]["status"], report["file"]["key"]]),
            "{report}"
        );
        assert!(
            report["file"]["where"].as_str().unwrap().ends_with(&format!("larder.toml:{line}")),
            "{report}"
        );
        let (first, second) = (larder.get(target), http2::Http2::connect(larder).get(target));
        assert_eq!([status, status], [first.status, second.status], "{target}");
        let (texts, location) = ([first.text(), second.text()], first.field("location"));
        let expect = found.trim_start_matches('/');
        match status {
            301 => assert_eq!(Some(found), location, "{target}"),
            200 => assert_eq!([expect, expect], texts, "{target}"),
            _ => assert!(found == "none" || texts.iter().all(|it| it == expect), "{target}"),
        }
    }
}

/// Explain said "That is right: larder rejects such requests before the cache" of a path without a file.
#[test]
fn a_path_without_a_file_is_by_the_key_and_line_of_the_directory() {
    let (folder, larder) = site("");
    let summary = page(&larder, "/none.pdf")["summary"].clone();
    assert_eq!("by-rule", summary["judgement"], "{summary:#}");
    let because = summary["because"].as_str().unwrap();
    assert!(
        because.starts_with("`site.route.files.root` at ") && because.contains("larder.toml:6 decides"),
        "{because}"
    );
    assert!(because.contains(folder.path().to_str().unwrap()), "{because}");
    let url = format!("http://{}/app.js", larder.address);
    let summary = explain(&larder, &json!({ "url": url, "method": "POST" }))["summary"].clone();
    assert_eq!("by-rule", summary["judgement"], "{summary:#}");
    assert_eq!("No key admits another method for a file.", summary["because"]);
}

#[test]
fn the_member_of_a_list_that_answers_is_named() {
    let (_folder, larder) = site("files.try = [\"{path}\", \"{path}.html\", \"{path}/\", \"/index.html\"]");
    check(&larder, "/app.js?x", 200, "app.js", "try", 7);
    check(&larder, "/about", 200, "about.html", "try", 7);
    check(&larder, "/docs?q=1", 301, "/docs/?q=1", "root", 6);
    check(&larder, "/docs/", 200, "docs/index.html", "index", 6);
    check(&larder, "/no/such/page", 200, "index.html", "try", 7);
    check(&larder, "/.env", 404, "none", "try", 7);
    let report = page(&larder, "/about");
    let sentence = report["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("member {path}.html of site.route.files.try"), "{sentence}");
    let (_folder, larder) = site("files.try = [\"{path}\", \"=410\"]\nfiles.dotfiles = true");
    check(&larder, "/.env", 200, ".env", "try", 7);
    check(&larder, "/gone", 410, "none", "try", 7);
}

#[test]
fn clean_urls_applications_listings_and_the_page_for_404_are_named() {
    let (_folder, larder) =
        site("files.clean_urls = true\nfiles.not_found = \"/404.html\"\nfiles.listing = true");
    check(&larder, "/about", 200, "about.html", "clean_urls", 7);
    check(&larder, "/about.html?x", 301, "/about?x", "clean_urls", 7);
    check(&larder, "/docs/index", 301, "/docs/", "clean_urls", 7);
    check(&larder, "/docs/%61", 200, "docs/a.html", "clean_urls", 7);
    check(&larder, "/missing", 404, "/404.html", "not_found", 8);
    let report = page(&larder, "/images/");
    assert_eq!(
        json!(["file", "site.route.files.listing"]),
        json!([report["verdict"]["name"], report["file"]["key"]]),
        "{report}"
    );
    let (_folder, larder) = site("files.spa = true");
    check(&larder, "/users/7", 200, "index.html", "spa", 7);
    check(&larder, "/missing.js", 404, "none", "root", 6);
    let report =
        explain(&larder, &json!({ "url": format!("http://{}/", larder.address), "method": "DELETE" }));
    assert_eq!(
        json!(["refused", 405]),
        json!([report["verdict"]["name"], report["verdict"]["status"]]),
        "{report}"
    );
    assert_eq!(405, larder.client().request("DELETE", "/", "", "").status);
    let admin = larder.admin.to_string();
    let report = run(
        larder.folder.path(),
        &["explain", &format!("http://{}/users/7", larder.address), "--admin", &admin],
    );
    assert!(
        report.out.contains("file     index.html in ") && report.out.contains("site.route.files.spa ("),
        "{}",
        report.out
    );
}

#[test]
fn an_explanation_reads_no_file_and_changes_no_cache() {
    let (folder, larder) = site("files.cache_for = \"1h\"");
    page(&larder, "/about.html");
    std::fs::write(folder.path().join("about.html"), "changed").unwrap();
    assert_eq!("changed", larder.get("/about.html").text());
}

#[test]
fn methods_redirects_maintenance_and_health_are_named_with_their_lines() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/app/*\"\nmethods = [\"GET\"]\nproxy.to = \"{0}\"\n\
         [[site.route]]\npath = \"/down\"\nmaintenance.enabled = true\nproxy.to = \"{0}\"\n[[site.route]]\npath = \"/ready\"\nrespond.health = \"ready\"\n",
        origin.url()
    ));
    let fetch = |method: &str, target: &str| {
        let explanation = explain(
            &larder,
            &json!({ "url": format!("http://{}{target}", larder.address), "method": method }),
        );
        let found = larder.client().request(method, target, "", "");
        assert_eq!(json!(found.status), explanation["verdict"]["status"], "{target}: {explanation}");
        explanation
    };
    let explanation = fetch("DELETE", "/app/x");
    let passed = &explanation["matched"]["passed_over"][0];
    assert!(passed["where"].as_str().unwrap().ends_with("larder.toml:7"), "{explanation}");
    assert_eq!("it does not accept DELETE", passed["sentence"]);
    for (target, name, line) in
        [("/app", "redirect", 6), ("/down", "maintenance", 11), ("/ready", "answer", 15)]
    {
        let explanation = fetch("GET", target);
        assert_eq!(name, explanation["verdict"]["name"]);
        assert!(
            explanation["where"].as_str().unwrap().ends_with(&format!("larder.toml:{line}")),
            "{explanation}"
        );
    }
    assert_eq!(0, origin.requests());
}

/// Routes that precede the deciding one are named whichever part of larder answers.
#[test]
fn routes_that_are_passed_over_are_named_with_every_answer() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x"), "x").unwrap();
    let first = "[[site.route]]\npath = \"/*\"\nwhen = 'header[\"X-Beta\"] == \"1\"'\nrespond.body = \"beta\"\n\
                 [[site.route]]\npath = \"/app/*\"\nmethods = [\"POST\"]\nrespond.body = \"app\"\n";
    let deciding = [
        ("respond.body = \"x\"".to_owned(), 200),
        ("redirect.to = \"https://other.test/\"".to_owned(), 302),
        ("respond.body = \"x\"\naccess.deny = [\"127.0.0.1\"]".to_owned(), 403),
        ("maintenance.enabled = true\nrespond.body = \"x\"".to_owned(), 503),
        (format!("files.root = {:?}", folder.path()), 404),
        ("when = 'header[\"X-Beta\"] == \"2\"'\nrespond.body = \"x\"".to_owned(), 405),
    ];
    for (keys, status) in deciding {
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n{first}[[site.route]]\npath = \"/*\"\n{keys}\n"
        );
        let larder = Larder::configured(config);
        assert_eq!(status, larder.get("/app/y").status, "{keys}");
        let report = page(&larder, "/app/y");
        assert_eq!(json!(status), report["verdict"]["status"], "{keys}: {report}");
        let passed =
            report["matched"]["passed_over"].as_array().unwrap_or_else(|| panic!("{keys}: {report}"));
        let file = larder.config().display().to_string();
        let expect = [("site.route.when", 7), ("site.route.methods", 11)];
        for (row, (key, line)) in passed.iter().zip(expect) {
            assert_eq!(json!([key, format!("{file}:{line}")]), json!([row["key"], row["where"]]), "{keys}");
        }
        assert_eq!(if status == 405 { 3 } else { 2 }, passed.len(), "{keys}: {report}");
        if status == 405 {
            let report = page(&larder, "/y");
            let passed = &report["matched"]["passed_over"];
            assert_eq!(
                json!([404, "site.route.when", "site.route.when"]),
                json!([report["verdict"]["status"], passed[0]["key"], passed[1]["key"]])
            );
            assert_eq!(404, larder.get("/y").status);
        }
    }
}

#[test]
fn the_tls_rules_of_a_site_are_named() {
    let authority = Authority::new();
    authority.sign("one", &["open.test", "closed.test"]);
    let certificate = authority.path("one");
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\", \"http://127.0.0.1:0\"]\n[tls]\ncertificates = [{{ cert = {:?}, key = {:?} }}]\n\
         [[site]]\nhosts = [\"open.test\"]\n[[site.route]]\nrespond.body = \"open\"\n\
         [[site]]\nhosts = [\"closed.test\"]\ntls.client_auth = \"required\"\ntls.client_ca = {:?}\n[[site.route]]\nrespond.body = \"closed\"\n",
        certificate.with_extension("pem"),
        certificate.with_extension("key"),
        authority.path("ca.pem")
    ));
    let fetch = |url: &str, name: Value| {
        let mut question = json!({ "url": url });
        if !name.is_null() {
            question["server_name"] = name;
        }
        let explanation = explain(&larder, &question);
        (
            explanation["verdict"]["status"].clone(),
            explanation["tls"]["where"]["client_auth"].as_str().unwrap_or("none").to_owned(),
        )
    };
    let check = |url: &str, name: Value, status: u16, place: &str| {
        let (found, by) = fetch(url, name.clone());
        assert!(found == status && by.ends_with(place), "{url} {name}: {found} {by}");
    };
    check("https://open.test/", Value::Null, 200, "default");
    check("https://open.test/", json!("closed.test"), 421, "default");
    check("https://closed.test/", json!("open.test"), 421, "larder.toml:10");
    check("https://closed.test/", json!("unknown.test"), 421, "larder.toml:10");
    check("https://closed.test/", json!("CLOSED.test"), 200, "larder.toml:10");
    check("https://closed.test/", Value::Null, 200, "larder.toml:10");
    check("http://closed.test/", Value::Null, 403, "larder.toml:10");
    check("http://open.test/", json!("closed.test"), 200, "none");
}

#[test]
fn the_origin_of_a_sticky_cookie_is_named_without_its_value() {
    let [one, two] = [(); 2].map(|()| Origin::fixed("HTTP/1.1 200 OK\n\npage"));
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy.to = [{:?}, {:?}]\nproxy.sticky.cookie = \"at\"\n",
        one.url(),
        two.url()
    ));
    let first = larder.get("/a");
    let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let asked = if one.requests() == 1 { &one } else { &two };
    let fetch = |cookie: &str| {
        let headers = if cookie.is_empty() { json!([]) } else { json!([["Cookie", cookie]]) };
        explain(&larder, &json!({ "url": format!("http://{}/a", larder.address), "headers": headers }))
    };
    let report = fetch(&format!("x=1; {cookie}"));
    let name = report["sticky"]["origin"].as_str().unwrap();
    assert!(asked.url().contains(name) || name.contains(&asked.address.to_string()), "{report}");
    assert!(report["sticky"]["where"].as_str().unwrap().ends_with("larder.toml:7"), "{report}");
    assert!(!report.to_string().contains(cookie.strip_prefix("at=").unwrap()), "{report}");
    for other in ["", "at=0000000000000001", "at=x"] {
        let report = fetch(other);
        assert!(
            report["sticky"]["origin"].is_null() && report["sticky"]["sentence"].is_string(),
            "{other}: {report}"
        );
    }
}

/// What `larder explain` prints about a URL.
fn printed(larder: &Larder, url: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["explain", url, "--admin", &larder.admin.to_string()]);
    assert_eq!(0, ended.code, "{}", ended.err);
    ended.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_fixed_answer_is_named_with_its_key_and_line() {
    let larder = Larder::configured(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/gone\"\nrespond.status = 410\n\
         [[site.route]]\npath = \"/text\"\naccess.deny = [\"192.0.2.1\"]\nrespond.body = \"{path}\"\n",
    );
    let place = |line: u32| format!("{}:{line}", larder.config().display());
    for (target, status, key, line) in [("/gone", 410, "status", 7), ("/text", 200, "body", 11)] {
        let (report, found) = (page(&larder, target), larder.get(target));
        assert_eq!(status, found.status);
        let sentence = format!("Answered by larder before the cache: {status} (site.route.respond.{key}).");
        assert_eq!(
            json!([sentence, status, "answer", place(line)]),
            json!([
                report["verdict"]["sentence"],
                report["verdict"]["status"],
                report["verdict"]["name"],
                report["where"]
            ]),
            "{report}"
        );
        let text = printed(&larder, &format!("http://{}{target}", larder.address));
        assert!(text.contains(&sentence) && text.contains(&format!("answer {}", place(line))), "{text}");
    }
}

#[test]
fn the_access_rule_that_adds_vary_is_named_with_its_line() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/team/*\"\nproxy.to = \"{0}\"\n\
         access.allow_when = 'header.X-Team == \"a\"'\n[[site.route]]\nproxy.to = \"{0}\"\naccess = {{ deny_when = 'header.X-Team == \"b\"', shared = true }}\n",
        origin.url()
    ));
    let ask = |target: &str| {
        let headers = json!([["X-Team", "a"]]);
        explain(&larder, &json!({ "url": format!("http://{}{target}", larder.address), "headers": headers }))
    };
    let report = ask("/team/x");
    assert_eq!(
        Some("X-Team"),
        larder.client().get_with("/team/x", "X-Team: a\r\n").field("vary").map(|it| {
            assert!(it.eq_ignore_ascii_case("x-team"), "{it}");
            "X-Team"
        })
    );
    let place = format!("{}:8", larder.config().display());
    assert_eq!(
        json!(["x-team"]),
        json!(
            report["matched"]["vary_by_access"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it.as_str().unwrap().to_lowercase())
                .collect::<Vec<_>>()
        )
    );
    assert_eq!(json!(place), report["matched"]["where"]["access"]);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/team/x", larder.address);
    let ended =
        run(folder.path(), &["explain", &url, "-H", "X-Team: a", "--admin", &larder.admin.to_string()]);
    let text = ended.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.to_lowercase()
            .contains(&format!("adds vary: x-team, which the access rules read ({})", place.to_lowercase())),
        "{text}"
    );
    // With `shared`, the field is in no `Vary`.
    let report = ask("/other");
    assert_eq!(json!([]), report["matched"]["vary_by_access"], "{report}");
    assert_eq!(None, larder.client().get_with("/other", "X-Team: a\r\n").field("vary"));
}

#[test]
fn a_redirect_of_a_site_without_a_route_is_named_with_its_line() {
    let larder = Larder::configured(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"www.h.test\"]\ncanonical_host = \"h.test\"\n\
         [[site]]\nhosts = [\"h.test\"]\n[[site.route]]\nrespond.body = \"home\"\n",
    );
    let report = explain(&larder, &json!({ "url": "http://www.h.test/a?b" }));
    let place = format!("{}:3", larder.config().display());
    let sentence = "Answered by larder before the cache: 308 to http://h.test/a?b (site.canonical_host).";
    assert_eq!(
        json!([sentence, place, 0]),
        json!([report["verdict"]["sentence"], report["where"], report["site"]]),
        "{report}"
    );
    for http2 in [false, true] {
        let location = match http2 {
            false => {
                let mut client = larder.client();
                let it = client.send("GET /a?b HTTP/1.1\r\nHost: www.h.test\r\n\r\n").read();
                (it.status, it.field("location").map(str::to_owned))
            }
            true => {
                let mut client = http2::Http2::connect(&larder);
                let request = [
                    (":method", "GET"),
                    (":scheme", "http"),
                    (":path", "/a?b"),
                    (":authority", "www.h.test"),
                ];
                let id = client.head(&request, http2::END_STREAM);
                let it = client.answer(id);
                (it.status, it.field("location").map(str::to_owned))
            }
        };
        assert_eq!((308, Some("http://h.test/a?b".to_owned())), location);
    }
}
