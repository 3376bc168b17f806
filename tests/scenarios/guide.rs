//! The pages of `docs/guide`: each configuration is started as it is printed, with the addresses and folders of the test, and
//! answers the requests that its page promises. A page without a test, or a test without a page, is a failure.

use crate::harness::acme_ca::AcmeCa;
use crate::harness::application::{Application, Gunicorn};
use crate::harness::mmdb::{country, database};
use crate::harness::origin::Behind;
use crate::harness::php::PhpFpm;
use crate::harness::postgres::Postgres;
use crate::harness::secure::Authority;
use crate::harness::server::Setup;
use crate::harness::uwsgi::Uwsgi;
use crate::harness::{Client, Larder, Origin, Response, until};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use regex::Regex;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide")
}

/// The configuration of a page, and a folder that stands for `/etc`, `/srv` and `/run`.
struct Guide {
    config: String,
    folder: tempfile::TempDir,
    env: Vec<(String, String)>,
}

impl Guide {
    /// Reads a page. Its first fenced block is the configuration; a block with a path after its language is that file.
    fn page(name: &str) -> Self {
        let text = std::fs::read_to_string(pages().join(format!("{name}.md"))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut guide = Self { config: String::new(), folder, env: Vec::new() };
        for block in text.split("\n```").skip(1).step_by(2) {
            let (info, content) = block.split_once('\n').unwrap();
            let content = guide.local(&format!("{content}\n"));
            match info.split_once(' ') {
                Some((_, path)) => guide.write(path, &content),
                None if info == "toml" && guide.config.is_empty() => guide.config = content,
                None => assert_ne!("toml", info, "{name}: one complete configuration"),
            }
        }
        assert!(guide.config.starts_with("listen = "), "{name}: a complete file");
        guide
    }

    /// The same text with the folders of the test, and with ports that the system chooses.
    fn local(&self, text: &str) -> String {
        let listen = Regex::new(r"(0\.0\.0\.0|\[::\]):\d+").unwrap();
        let paths = Regex::new(r#"([":])(/(?:etc|srv|run|var/log)/)"#).unwrap();
        let folder = format!("${{1}}{}${{2}}", self.folder.path().display());
        paths.replace_all(&listen.replace_all(text, "127.0.0.1:0"), folder).into_owned()
    }

    /// Writes a file of the page.
    fn write(&self, path: &str, content: &str) {
        let path = self.folder.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn write_with_mode(&self, path: &str, content: &str, mode: u32) {
        self.write(path, content);
        let path = self.folder.path().join(path.trim_start_matches('/'));
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    /// Writes a file that can be executed.
    fn write_program(&self, path: &str, content: &str) {
        self.write_with_mode(path, content, 0o755);
    }

    /// Writes a file that other users cannot read, as a private key is to be.
    fn write_private(&self, path: &str, content: &str) {
        self.write_with_mode(path, content, 0o600);
    }

    /// Has `to` in place of `from`, which the configuration contains.
    fn replace(&mut self, from: &str, to: &str) {
        assert!(self.config.contains(from), "{from} is in the configuration");
        self.config = self.config.replace(from, to);
    }

    /// Starts larder; `origin` stands for every application of the page.
    fn start(&self, origin: &impl Behind) -> Larder {
        let local = Regex::new(r"http://(127\.0\.0\.1|10\.0\.0\.\d+):[1-9]\d*").unwrap();
        let origins = local.find_iter(&self.config).count();
        let has_none = !self.config.contains("proxy") || self.config.contains("unix:");
        assert!(origins > 0 || has_none, "the origin of the test is used");
        let config = local.replace_all(&self.config, origin.url()).into_owned();
        let larder = Larder::start(Setup { config, env: self.env.clone() });
        let mut check = std::process::Command::new(crate::harness::server::binary());
        let check =
            check.arg("check").envs(self.env.clone()).current_dir(larder.folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&check.stdout).into_owned();
        // A test may be root, and the user of a page exists on another machine.
        let is_of_page =
            |it: &str| it.starts_with("warning: ") && !it.contains(": user: not set: a start as root");
        assert!(check.status.success() && !text.lines().any(is_of_page), "{text}");
        larder
    }

    /// The same for a page without an application.
    fn start_alone(&self) -> Larder {
        self.start(&application())
    }
}

/// An application that names the request it got, and no lifetime.
fn application() -> Origin {
    Origin::new(|it| format!("HTTP/1.1 200 OK\nContent-Type: text/html\n\n{}", it.line()))
}

/// One request to `host`, with more header lines.
fn fetch(larder: &Larder, method: &str, host: &str, target: &str, lines: &str) -> Response {
    let mut client = larder.client();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"));
    client.read_for(method)
}

fn get(larder: &Larder, target: &str) -> Response {
    fetch(larder, "GET", "example.com", target, "")
}

#[track_caller]
fn redirects(answer: &Response, status: u16, to: &str) {
    assert_eq!((status, Some(to)), (answer.status, answer.field("location")));
}

#[track_caller]
fn answers(answer: &Response, status: u16, text: &str) {
    assert_eq!((status, text), (answer.status, answer.text().trim_end()), "{answer:?}");
}

/// The tests, by the page of each, and the list of their names.
macro_rules! pages {
    ($($page:ident),* $(,)?) => {
        const PAGES: &[&str] = &[$(stringify!($page)),*];
        mod page {
            $(#[test] fn $page() { super::$page(super::Guide::page(&stringify!($page).replace('_', "-"))); })*
        }
    };
}

pages! {
    after_an_incident,
    allow_only_the_office, behind_a_cdn, cache_an_api, canonical_host, certificates, cgi, client_certificates, coming_from, cors_api, countries, crawlers,
    django, error_pages,
    forward_auth,
    health_checks_for_a_load_balancer, https_by_itself, jwt, maintenance_page, markdown_for_agents, nextcloud, nextjs, pages_that_follow_a_database, password, php, protected_files, public_directory, python, rate_limit_the_login, roles,
    reading_the_page,
    redirect_to_https, redirects_from_a_map, rewrite_a_prefix, secrets_and_environment, security_headers,
    several_files, signed_urls, single_page_application, sql_api, static_site, sticky_sessions, uploads, why_is_my_hit_ratio_low, wordpress,
}

#[test]
fn every_page_has_a_test_and_is_listed() {
    let list = std::fs::read_to_string(pages().join("README.md")).unwrap();
    let mut found: Vec<String> = std::fs::read_dir(pages())
        .unwrap()
        .filter_map(|it| it.unwrap().file_name().to_str()?.strip_suffix(".md").map(str::to_owned))
        .filter(|it| it != "README")
        .collect();
    found.sort();
    let mut tested: Vec<String> = PAGES.iter().map(|it| it.replace('_', "-")).collect();
    tested.sort();
    assert_eq!(tested, found, "the tests and the pages");
    for page in &found {
        assert_eq!(1, list.matches(&format!("]({page}.md)")).count(), "{page} in docs/guide/README.md");
    }
}

/// Signs the certificate of a page, in the files that it names.
fn certificate(guide: &Guide, host: &str) -> Authority {
    let authority = Authority::new();
    authority.sign("example.com", &[host]);
    for file in ["example.com.pem", "example.com.key"] {
        let text = std::fs::read_to_string(authority.path(file)).unwrap();
        guide.write_private(&format!("/etc/larder/{file}"), &text);
    }
    authority
}

/// One GET of `/a` over TLS, with more header lines.
fn over_tls(larder: &Larder, authority: &Authority, host: &str, lines: &str) -> Response {
    over_tls_at(larder, authority, host, "/a", lines)
}

/// The same for another path.
fn over_tls_at(larder: &Larder, authority: &Authority, host: &str, path: &str, lines: &str) -> Response {
    let printed = larder.printed();
    let address = printed.lines().find_map(|it| it.strip_prefix("listening on https://")).unwrap();
    let address = address.trim_end_matches('/').parse().unwrap();
    let mut secure = authority.trusting().connect(address, host).unwrap();
    secure.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n")).read()
}

fn redirect_to_https(guide: Guide) {
    let authority = certificate(&guide, "example.com");
    let larder = guide.start(&application());
    redirects(&get(&larder, "/a?b=c"), 308, "https://example.com/a?b=c");
    let answer = over_tls(&larder, &authority, "example.com", "");
    answers(&answer, 200, "GET /a HTTP/1.1");
    assert_eq!(Some("max-age=31536000"), answer.field("strict-transport-security"));
}

fn https_by_itself(mut guide: Guide) {
    let ca = AcmeCa::start();
    let folder = guide.folder.path().join("acme");
    guide.replace(
        "email = \"ops@example.com\"\n",
        &format!("email = \"ops@example.com\"\nfolder = {folder:?}\n{}", ca.section()),
    );
    let larder = guide.start(&application());
    ca.validates_at(larder.address);
    until("example.com has a certificate", || larder.counter("acme_certificates") == 2);
    redirects(&get(&larder, "/a"), 308, "https://example.com/a");
    let printed = larder.printed();
    let address = printed.lines().find_map(|it| it.strip_prefix("listening on https://")).unwrap();
    let connect =
        || ca.authority.trusting().connect(address.trim_end_matches('/').parse().unwrap(), "example.com");
    until("it is served", || connect().is_ok());
    let answer = connect().unwrap().send("GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n").read();
    assert_eq!(200, answer.status);
}

fn certificates(guide: Guide) {
    guide.write("/srv/acme/.well-known/acme-challenge/t0ken", "answer");
    let authority = certificate(&guide, "example.com");
    let larder = guide.start(&application());
    let challenge = "/.well-known/acme-challenge/t0ken";
    redirects(&get(&larder, challenge), 308, &format!("https://example.com{challenge}"));
    answers(&over_tls_at(&larder, &authority, "example.com", challenge, ""), 200, "answer");
}

fn cgi(guide: Guide) {
    let hello = std::fs::read_to_string(guide.folder.path().join("srv/cgi-bin/hello")).unwrap();
    guide.write_program("/srv/cgi-bin/hello", &hello);
    guide.write_program(
        "/srv/cgit/cgit.cgi",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s %s' \"$SCRIPT_NAME\" \"$PATH_INFO\" \"${CGIT_CONFIG##*/}\"\n",
    );
    let larder = guide.start_alone();
    answers(&get(&larder, "/cgi-bin/hello/you?x"), 200, "Hello /you");
    assert!(get(&larder, "/cgi-bin/hello/you?x").is_hit());
    answers(&get(&larder, "/git/linux/log"), 200, "/git /linux/log cgitrc");
    assert!(get(&larder, "/git/linux/log").is_hit());
    assert_eq!(404, get(&larder, "/cgi-bin/none").status);
}

fn after_an_incident(mut guide: Guide) {
    guide.replace("127.0.0.1:9180", "127.0.0.1:0");
    let (origin, file) = (application(), guide.folder.path().join("srv/state/history"));
    let larder = guide.start(&origin);
    let get = |target: &str| fetch(&larder, "GET", "shop.example.com", target, "");
    assert_eq!(200, get("/api/a").status);
    let report = || -> serde_json::Value {
        serde_json::from_str(&larder.admin_get("/api/v1/history?step=60").text()).unwrap()
    };
    assert_eq!(
        ("file", file.to_str()),
        (report()["kept"]["in"].as_str().unwrap(), report()["kept"]["path"].as_str())
    );
    larder.pass(60_000);
    assert_eq!(1, report()["samples"].as_array().unwrap().len());
    assert!(larder.admin_get("/api/v1/worst").text().contains("/api/a"));
    until("the file is written", || file.metadata().is_ok_and(|it| it.len() > 500));
}

fn reading_the_page(mut guide: Guide) {
    let dead = crate::harness::closed_address();
    guide.replace("http://10.0.0.7:8000", &format!("http://localhost:{}", dead.1.port()));
    guide.replace("\"5s\"", "\"20ms\"");
    let larder = guide.start_alone();
    let state = || larder.admin_get("/api/v1/health").text();
    until("the state is that of the page", || state().contains("\"word\":\"degraded\""));
    assert!(state().contains("; its route uses http://"), "{}", state());
    answers(&get(&larder, "/"), 200, "GET / HTTP/1.1");
}

fn coming_from(guide: Guide) {
    guide.write("/srv/static/a.css", "style");
    let authority = certificate(&guide, "example.com");
    let larder = guide.start(&application());
    redirects(&get(&larder, "/a"), 308, "https://example.com/a");
    answers(&over_tls(&larder, &authority, "example.com", ""), 200, "GET /a HTTP/1.1");
    answers(&over_tls_at(&larder, &authority, "example.com", "/static/a.css", ""), 200, "style");
    let page = std::fs::read_to_string(pages().join("coming-from.md")).unwrap();
    let row = Regex::new(r"(?m)^\| (.*) \| (top|site|route) \| (.*) \|$").unwrap();
    let rows: Vec<_> = row.captures_iter(&page).map(|it| it.extract().1).collect();
    assert!(rows.len() > 60, "the table is found");
    for [word, place, keys] in rows {
        let report = checked(&guide, place, keys);
        assert!(report.starts_with("OK"), "{word}: {report}");
    }
}

/// The output of `larder check` for a configuration with the keys of a cell of the table.
fn checked(guide: &Guide, place: &str, keys: &str) -> String {
    guide.write("/srv/htpasswd", "a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe\n");
    guide.write("/srv/www/index.html", "page");
    guide.write("/srv/wp/index.php", "<?php");
    guide.write("/srv/502.html", "page");
    guide.write("/srv/private/a", "private");
    guide.write_program("/srv/cgit/cgit.cgi", "#!/bin/sh\n");
    guide.write_program("/srv/cgi-bin/hello", "#!/bin/sh\n");
    guide.write("/srv/redirects.map", "/a /b\n");
    let lines: Vec<String> =
        keys.split('`').skip(1).step_by(2).map(|it| guide.local(&it.replace("\\|", "|"))).collect();
    let has = |names: &[&str]| lines.iter().any(|it| names.iter().any(|name| it.starts_with(name)));
    let at = |here: &str| if here == place { lines.join("\n") } else { String::new() };
    let listen = if has(&["listen"]) {
        ""
    } else {
        "listen = [\"127.0.0.1:0\", \"https://127.0.0.1:0\"]\ntls.self_signed = true\n"
    };
    let hosts = if has(&["hosts"]) { "" } else { "hosts = [\"example.com\", \"www.example.com\"]\n" };
    let is_service = has(&["php = ", "proxy = ", "proxy.to", "files", "cgi", "redirect = ", "respond"]);
    let service = if is_service { "" } else { "proxy.to = [\"http://127.0.0.1:8000\"]\n" };
    let text = format!(
        "{listen}{}\n[[site]]\n{hosts}{}\n[[site.route]]\n{service}{}\n\
         [[site.route]]\nproxy.to = [\"http://127.0.0.1:8000\"]\n",
        at("top"),
        at("site"),
        at("route")
    );
    guide.write("/etc/row.toml", &text);
    let mut check = std::process::Command::new(crate::harness::server::binary());
    let check = check.args(["check", "-c"]).arg(guide.folder.path().join("etc/row.toml")).output().unwrap();
    let report = String::from_utf8_lossy(&[check.stdout, check.stderr].concat()).into_owned();
    if check.status.success() { format!("OK {report}") } else { format!("{text}\n{report}") }
}

fn canonical_host(guide: Guide) {
    let larder = guide.start(&application());
    redirects(&fetch(&larder, "GET", "www.example.com", "/a?b=c", ""), 308, "http://example.com/a?b=c");
    for host in ["example.net", "shop.example.net"] {
        redirects(&fetch(&larder, "POST", host, "/a", ""), 308, "http://example.com/a");
    }
    answers(&get(&larder, "/a"), 200, "GET /a HTTP/1.1");
}

fn single_page_application(guide: Guide) {
    guide.write("/srv/app/index.html", "the application");
    guide.write("/srv/app/assets/app.4f2a.js", &"export const a = 1;\n".repeat(200));
    let larder = guide.start(&application());
    for path in ["/", "/orders/7"] {
        let answer = get(&larder, path);
        answers(&answer, 200, "the application");
        assert_eq!(Some("no-cache"), answer.field("cache-control"), "{path}");
    }
    let script = fetch(&larder, "GET", "example.com", "/assets/app.4f2a.js", "Accept-Encoding: gzip\r\n");
    assert_eq!((200, Some("gzip")), (script.status, script.field("content-encoding")));
    assert_eq!(Some("public, max-age=31536000, immutable"), script.field("cache-control"));
    assert_eq!(404, get(&larder, "/assets/old.js").status);
    answers(&get(&larder, "/api/users"), 200, "GET /api/users HTTP/1.1");
}

fn public_directory(guide: Guide) {
    guide.write("/srv/app/public/app.css", &"p { color: red }\n".repeat(200));
    guide.write("/srv/app/public/.env", "secret");
    let page = |line: &str| format!("{line} {}", "<li>soup</li>".repeat(200));
    let origin = Origin::new(move |it| {
        let private = "Cache-Control: private\nContent-Type: text/html";
        format!("HTTP/1.1 200 OK\n{private}\n\n{}", page(it.line()))
    });
    let larder = guide.start(&origin);
    let file = fetch(&larder, "GET", "example.com", "/app.css", "Accept-Encoding: gzip\r\n");
    assert_eq!((200, Some("gzip")), (file.status, file.field("content-encoding")));
    assert_eq!(Some("public, max-age=3600"), file.field("cache-control"));
    for path in ["/", "/orders/7", "/.env"] {
        let answer = get(&larder, path);
        assert!(answer.text().starts_with(&format!("GET {path} HTTP/1.1")), "{answer:?}");
    }
    assert!(fetch(&larder, "POST", "example.com", "/app.css", "").text().starts_with("POST /app.css"));
}

fn static_site(guide: Guide) {
    guide.write("/srv/www/index.html", "home");
    guide.write("/srv/www/about.html", &"about ".repeat(400));
    guide.write("/srv/www/docs/index.html", "docs");
    guide.write("/srv/www/404.html", "nothing here");
    guide.write("/srv/www/.env", "secret");
    let larder = guide.start_alone();
    answers(&get(&larder, "/"), 200, "home");
    let about = fetch(&larder, "GET", "example.com", "/about", "Accept-Encoding: br\r\n");
    assert_eq!((200, Some("br")), (about.status, about.field("content-encoding")));
    assert_eq!(Some("max-age=300"), about.field("cache-control"));
    redirects(&get(&larder, "/about.html"), 301, "/about");
    redirects(&get(&larder, "/docs"), 301, "/docs/");
    answers(&get(&larder, "/docs/"), 200, "docs");
    answers(&get(&larder, "/none"), 404, "nothing here");
    answers(&get(&larder, "/.env"), 404, "nothing here");
}

fn redirects_from_a_map(guide: Guide) {
    let larder = guide.start(&application());
    redirects(&get(&larder, "/old-page?a=b"), 301, "/new-page?a=b");
    redirects(&get(&larder, "/shop"), 308, "https://shop.example.com/");
    redirects(&get(&larder, "/blog/2024/hello"), 301, "/articles/2024/hello");
    answers(&get(&larder, "/new-page"), 200, "GET /new-page HTTP/1.1");
}

fn roles(mut guide: Guide) {
    let token = |it: &str| format!("{it}-0123456789abcdefghijklmnopqrstuvwxyz");
    for name in ["grafana", "night-shift"] {
        guide.write_private(&format!("/etc/larder/{name}.token"), &format!("{}\n", token(name)));
    }
    guide.write("/var/log/larder/audit.log", "");
    guide.replace("[admin]\n", "[admin]\nlisten = \"127.0.0.1:0\"\n");
    let larder = guide.start(&application());
    let status = |name: &str, method: &str, target: &str, body: &str| {
        let (mut client, host) = (Client::connect(larder.admin), larder.admin);
        let length = body.len();
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n{body}",
            token(name)
        ));
        client.read().status
    };
    let all = r#"{"all":true}"#;
    assert_eq!(
        [200, 403],
        [status("grafana", "GET", "/metrics", ""), status("grafana", "POST", "/api/v1/purge", all)]
    );
    assert_eq!(
        [200, 403],
        [
            status("night-shift", "POST", "/api/v1/purge", all),
            status("night-shift", "GET", "/api/v1/audit", "")
        ]
    );
}

fn maintenance_page(guide: Guide) {
    guide.write("/etc/larder/maintenance.html", "back soon");
    let larder = guide.start(&application());
    let answer = get(&larder, "/a");
    answers(&answer, 503, "back soon");
    assert_eq!(Some("1800"), answer.field("retry-after"));
    drop(larder);
    let mut open = guide;
    open.replace("192.0.2.0/24", "127.0.0.1");
    answers(&get(&open.start(&application()), "/a"), 200, "GET /a HTTP/1.1");
}

fn error_pages(guide: Guide) {
    guide.write("/etc/larder/errors/404.html", "not here");
    guide.write("/etc/larder/errors/sorry.html", "sorry");
    let origin = Origin::new(|it| match it.target() {
        "/500" => "HTTP/1.1 500 Internal Server Error\n\nstack trace".to_owned(),
        "/api/500" => "HTTP/1.1 500 Internal Server Error\n\n{}".to_owned(),
        _ => "HTTP/1.1 404 Not Found\n\nnone".to_owned(),
    });
    let larder = guide.start(&origin);
    answers(&get(&larder, "/500"), 500, "sorry");
    answers(&get(&larder, "/none"), 404, "not here");
    answers(&get(&larder, "/api/500"), 500, "{}");
}

fn security_headers(guide: Guide) {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\nCache-Control: max-age=60\nX-Powered-By: PHP/8.3\nReferrer-Policy: no-referrer\n\npage",
    );
    let larder = guide.start(&origin);
    for is_hit in [false, true] {
        let answer = get(&larder, "/a");
        assert_eq!(is_hit, answer.is_hit());
        for (name, value) in [
            ("strict-transport-security", Some("max-age=31536000; includeSubDomains")),
            ("x-content-type-options", Some("nosniff")),
            ("x-frame-options", Some("DENY")),
            ("content-security-policy", Some("default-src 'self'; frame-ancestors 'none'")),
            ("referrer-policy", Some("no-referrer")),
            ("x-powered-by", None),
        ] {
            assert_eq!(value, answer.field(name), "{name}");
        }
    }
    assert_eq!(Some("SAMEORIGIN"), get(&larder, "/embed/a").field("x-frame-options"));
}

fn cors_api(guide: Guide) {
    let origin = application();
    let larder = guide.start(&origin);
    let preflight = |page: &str| {
        let lines = format!("Origin: {page}\r\nAccess-Control-Request-Method: PUT\r\n");
        fetch(&larder, "OPTIONS", "api.example.com", "/items/7", &lines)
    };
    let answer = preflight("https://app.example.com");
    assert_eq!(204, answer.status);
    for (name, value) in [("origin", "https://app.example.com"), ("credentials", "true")] {
        assert_eq!(Some(value), answer.field(&format!("access-control-allow-{name}")), "{name}");
    }
    assert_eq!(403, preflight("https://example.net").status);
    assert_eq!(0, origin.requests());
    let lines = "Origin: https://app.example.com\r\n";
    let answer = fetch(&larder, "GET", "api.example.com", "/items/7", lines);
    assert_eq!(Some("https://app.example.com"), answer.field("access-control-allow-origin"));
}

fn rate_limit_the_login(guide: Guide) {
    let larder = guide.start(&application());
    larder.hold();
    let login = |ip| Client::connect_from(ip, larder.address).request("POST", "/login", "", "name=a").status;
    let own = Ipv4Addr::new(127, 0, 0, 1);
    let statuses: Vec<u16> = (0..7).map(|_| login(own)).collect();
    assert_eq!([200, 200, 200, 200, 200, 429, 429], *statuses);
    assert_eq!(200, login(Ipv4Addr::new(127, 0, 0, 2)));
    answers(&get(&larder, "/"), 200, "GET / HTTP/1.1");
    larder.pass(12_000);
    assert_eq!([200, 429], [login(own), login(own)]);
    // Other spellings are the same login; those that another route could claim are none.
    let spelled = |path| Client::connect_from(own, larder.address).request("POST", path, "", "name=a").status;
    assert_eq!([429; 4], ["/login/", "/LOGIN", "/Login/", "/login?a"].map(spelled));
    assert_eq!([400; 4], ["/login%2f", "//login", "/x/../login", "/%6cogin"].map(spelled));
    // The limit of the hour, after 20 requests that were within that of the minute, and the one of three minutes.
    for _ in 0..15 {
        larder.pass(12_000);
        login(own);
    }
    larder.pass(12_000);
    let refused = Client::connect_from(own, larder.address).request("POST", "/login", "", "name=a");
    let wait: u64 = refused.field("retry-after").unwrap_or_default().parse().unwrap_or(0);
    assert!(refused.status == 429 && wait > 12, "{refused:?}");
    // Another key is another count, and the same address.
    let api = |key: &str| {
        let lines = format!("X-Api-Key: {key}\r\n");
        Client::connect_from(own, larder.address).request("GET", "/api/a", &lines, "").status
    };
    for _ in 0..5 {
        assert_eq!([200; 20], [(); 20].map(|()| api("a")));
        larder.pass(10_000);
    }
    // One more after 36 seconds.
    assert_eq!([200, 429, 200], ["a", "a", "b"].map(api));
}

/// The rest of its requests is in `moved_sites`.
fn nextcloud(mut guide: Guide) {
    let fpm = PhpFpm::start(2);
    let written = format!("unix:{}/run/php/php-fpm.sock", guide.folder.path().display());
    guide.replace(&written, &fpm.name());
    for file in ["index.php", "remote.php", "apps/files/appinfo.php", "data/alice/a.txt"] {
        guide.write(&format!("/srv/nextcloud/{file}"), "<?php echo $_SERVER['SCRIPT_NAME'];");
    }
    let larder = guide.start_alone();
    let get = |target: &str| fetch(&larder, "GET", "cloud.example.com", target, "");
    answers(&get("/apps/files/"), 200, "/index.php");
    answers(&get("/remote.php/dav/"), 200, "/remote.php");
    redirects(&get("/.well-known/caldav"), 301, "/remote.php/dav/");
    for path in ["/apps/files/appinfo.php", "/data/alice/a.txt", "/index.php/../data/alice/a.txt"] {
        assert_eq!(404, get(path).status, "{path}");
    }
}

fn countries(mut guide: Guide) {
    guide.replace("\"example.com\"", "\"*\"");
    let file = guide.folder.path().join("etc/larder/country.mmdb");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let made = database(&[("127.0.1.0/24", country("DE")), ("127.0.2.0/24", country("FR"))]);
    std::fs::write(file, made).unwrap();
    let larder = guide.start(&Origin::new(|it| {
        let seen = it.field("x-country").unwrap_or("none");
        format!("HTTP/1.1 200 OK\nContent-Type: text/html\n\n{} {seen}", it.target())
    }));
    let from = |network, path: &str| {
        Client::connect_from(Ipv4Addr::new(127, 0, network, 1), larder.address).get(path)
    };
    let (german, french, unknown) = (1, 2, 3);
    assert_eq!([403, 200, 200], [german, french, unknown].map(|it| from(it, "/casino/").status));
    assert_eq!(Some("FR"), from(french, "/casino/").field("x-country"));
    assert_eq!([200, 302, 200], [german, french, unknown].map(|it| from(it, "/").status));
    assert_eq!(Some("/fr/"), from(french, "/").field("location"));
    let prices = |it| from(it, "/prices").text();
    assert_eq!(["/prices DE", "/prices FR", "/prices none"], [german, french, unknown].map(prices));
    assert!(from(german, "/prices").is_hit() && from(french, "/prices").text() == "/prices FR");
}
fn crawlers(mut guide: Guide) {
    guide.replace("\"example.com\"", "\"*\"");
    let larder = guide.start(&application());
    larder.hold();
    let from = |network| Client::connect_from(Ipv4Addr::new(127, 0, network, 1), larder.address);
    let mut crawler = from(1);
    let statuses: Vec<u16> = (0..62).map(|it| crawler.get(&format!("/{it}")).status).collect();
    assert!(statuses[..61].iter().all(|it| *it == 200) && statuses[61] == 429, "{statuses:?}");
    assert!(crawler.get("/0").is_hit());
    assert_eq!(200, from(2).get("/61").status);
    assert!(crawler.get("/61").is_hit());
    larder.advance(601);
    assert_eq!("larder; hit; ttl=-1; detail=miss-budget", crawler.get("/0").cache());
    larder.pass(2000);
    assert_eq!([200, 429], ["/62", "/63"].map(|it| crawler.get(it).status));
}
fn allow_only_the_office(mut guide: Guide) {
    guide.replace("192.0.2.0/24", "127.0.0.1");
    guide.replace("\"example.com\"", "\"*\"");
    let larder = guide.start(&application());
    answers(&get(&larder, "/admin/users"), 200, "GET /admin/users HTTP/1.1");
    let mut other = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), larder.address);
    assert_eq!(403, other.get("/admin/users").status);
    for path in ["/admin", "/admin/", "/ADMIN/users", "/Admin"] {
        assert_eq!([403, 200], [other.get(path).status, get(&larder, path).status], "{path}");
    }
    for path in ["/%61dmin/users", "/x/..%2fadmin/users"] {
        assert_eq!([400; 2], [other.get(path).status, get(&larder, path).status], "{path}");
    }
    answers(&other.get("/"), 200, "GET / HTTP/1.1");
}

fn password(guide: Guide) {
    let authority = certificate(&guide, "staging.example.com");
    let origin = application();
    let larder = guide.start(&origin);
    let fetch = |lines: &str| over_tls(&larder, &authority, "staging.example.com", lines);
    let refused = fetch("");
    assert_eq!(401, refused.status);
    assert!(refused.field("www-authenticate").unwrap().starts_with("Basic realm=\"staging\""), "{refused:?}");
    assert_eq!(401, fetch("Authorization: Basic ZGVwbG95Om9wZW4=\r\n").status);
    assert_eq!(0, origin.requests());
    answers(&fetch("Authorization: Basic ZGVwbG95Om9wZW4gc2VzYW1l\r\n"), 200, "GET /a HTTP/1.1");
}

fn forward_auth(mut guide: Guide) {
    let authority = certificate(&guide, "app.example.com");
    let service = Origin::new(|it| match (it.target(), it.field("cookie")) {
        ("/oauth2/auth", Some("_oauth2_proxy=alices")) => {
            "HTTP/1.1 202 Accepted\nX-Auth-Request-User: alice\nX-Auth-Request-Email: a@example.com\n\n"
                .to_owned()
        }
        ("/oauth2/auth", _) => "HTTP/1.1 401 Unauthorized\n\n".to_owned(),
        (target, _) => format!("HTTP/1.1 200 OK\n\nsign in at {target}"),
    });
    guide.replace("http://127.0.0.1:4180", &service.url().replace("127.0.0.1", "localhost"));
    let origin = Origin::new(|it| {
        let field = |name: &str| it.field(name).unwrap_or("none").to_owned();
        format!("HTTP/1.1 200 OK\n\n{} {}", field("x-auth-request-user"), field("x-auth-request-email"))
    });
    let larder = guide.start(&origin);
    let fetch = |lines: &str| over_tls(&larder, &authority, "app.example.com", lines);
    redirects(&fetch(""), 302, "/oauth2/start?rd=%2Fa");
    let claim = "X-Auth-Request-User: root\r\nx_auth_request_user: root\r\n";
    assert_eq!(302, fetch(claim).status);
    answers(&fetch(&format!("{claim}Cookie: _oauth2_proxy=alices\r\n")), 200, "alice a@example.com");
    assert_eq!(1, origin.requests());
}

fn why_is_my_hit_ratio_low(guide: Guide) {
    std::fs::create_dir_all(guide.folder.path().join("srv")).unwrap();
    let origin = application();
    let larder = guide.start(&origin);
    let get = |target: &str| fetch(&larder, "GET", "shop.example.com", target, "");
    assert!(!get("/a?utm_source=x").is_hit());
    assert!(get("/a?gclid=y").is_hit(), "one page, whatever campaign leads to it");
    larder.advance(61);
    assert!(get("/a").is_hit(), "stale, and renewed in the background");
    until("the reasons are counted", || {
        let stats: serde_json::Value =
            serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
        let reasons = &stats["routes"][0]["reasons"];
        ["first-request", "refresh"].iter().all(|it| reasons[it]["requests"] == 1)
    });
}

fn cache_an_api(guide: Guide) {
    let origin = application();
    let larder = guide.start(&origin);
    let get = |target: &str| fetch(&larder, "GET", "api.example.com", target, "");
    answers(&get("/v1/items?q=a&page=2&utm=x"), 200, "GET /v1/items?page=2&q=a HTTP/1.1");
    assert!(get("/v1/items?page=2&q=a").is_hit());
    assert!(
        !fetch(&larder, "POST", "api.example.com", "/v1/items?page=2&q=a", "Content-Length: 0\r\n").is_hit()
    );
    assert!(!get("/v1/other").is_hit());
    let before = origin.requests();
    larder.advance(31);
    assert!(get("/v1/other").is_hit(), "stale, and fetched in the background");
    until("it is fetched", || origin.requests() > before);
}

fn pages_that_follow_a_database(mut guide: Guide) {
    let database = Postgres::with(
        &["wal_level=logical"],
        "create table products (id int primary key, name text, price numeric(9, 2), category text); \
         create table categories (name text primary key, visible bool); insert into categories values ('tea', true), ('cup', true); \
         insert into products values (6, 'mug', 9, 'cup'), (7, 'oolong', 12.50, 'tea'); create publication larder for table \
         products, categories; alter role larder replication; alter table products replica identity full",
    );
    guide.write("/run/secrets/shop", "geheim\n");
    let url = format!("postgres+unix://larder@{}/postgres", database.socket().display());
    guide.replace("postgres://larder@127.0.0.1:5432/shop", &url);
    let larder = guide.start_alone();
    let get = |target: &str| fetch(&larder, "GET", "api.example.com", target, "");
    let pages = ["/products/6", "/products/7", "/categories/tea", "/categories/cup"];
    // All pages were validated once when the first change purges one.
    let is_followed = "select count(*) from pg_replication_slots where active and slot_type = 'logical'";
    until("the database is followed", || database.sql(is_followed) == "1");
    until("the page is a hit", || get("/products/6").is_hit());
    database.sql("update products set name = 'cup' where id = 6");
    until("the page has the new name", || get("/products/6").text().contains("cup"));
    // On a busy machine larder may not hear from the database for more than a second: then it validates all pages once.
    let mut price = 12;
    until("a change leaves pages of other rows alone", || {
        pages.iter().for_each(|it| until("the page is a hit", || get(it).is_hit()));
        price += 1;
        database.sql(&format!("update products set price = {price} where id = 7"));
        for changed in ["/products/7", "/categories/tea"] {
            until("the page has the new price", || get(changed).text().contains(&format!("{price}.00")));
        }
        get("/products/6").is_hit() && get("/categories/cup").is_hit()
    });
    database.sql("update categories set visible = false where name = 'tea'");
    until("the category is hidden", || get("/categories/tea").text().trim() == "[]");
}

fn sql_api(mut guide: Guide) {
    let database = Postgres::start(
        "create table products (id int, name text, price numeric(9, 2), category text); create table orders (id serial, product int, count int); \
         insert into products values (6, 'mug', 9, 'cup'), (7, 'oolong', 12.50, 'tea')",
    );
    guide.write("/run/secrets/shop", "geheim\n");
    let url = format!("postgres+unix://larder@{}/postgres", database.socket().display());
    guide.replace("postgres://larder@127.0.0.1:5432/shop", &url);
    let larder = guide.start_alone();
    let get = |target: &str| fetch(&larder, "GET", "api.example.com", target, "");
    let oolong = r#"{"id":7,"name":"oolong","price":"12.50"}"#;
    answers(&get("/products?category=tea"), 200, &format!("[{oolong}]"));
    assert!(get("/products?utm=1&category=tea").is_hit());
    answers(&get("/products?limit=1"), 200, r#"[{"id":6,"name":"mug","price":"9.00"}]"#);
    answers(&get("/products/7"), 200, oolong);
    assert_eq!([404, 400], ["/products/8", "/products/x"].map(|it| get(it).status));
    database.sql("update products set price = 13");
    larder.admin_post("/api/v1/purge", r#"{"tag":"product:7"}"#);
    answers(&get("/products/7"), 200, &oolong.replace("12.50", "13.00"));
    let order = r#"{"product": 7, "count": 2}"#;
    let lines = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", order.len());
    let mut client = larder.client();
    client.send(format!("POST /orders HTTP/1.1\r\nHost: api.example.com\r\n{lines}\r\n{order}"));
    answers(&client.read(), 200, r#"{"id":1}"#);
    assert_eq!("7|2", database.sql("select product, count from orders"));
}

fn wordpress(guide: Guide) {
    let origin = Origin::new(|it| match it.target() {
        "/style.css" => {
            "HTTP/1.1 200 OK\nCache-Control: public, max-age=600\nContent-Type: text/css\n\nstyle".to_owned()
        }
        _ => "HTTP/1.1 200 OK\nContent-Type: text/html\n\npage".to_owned(),
    });
    let larder = guide.start(&origin);
    let get = |target: &str, lines: &str| fetch(&larder, "GET", "example.com", target, lines);
    let (analytics, login) = ("Cookie: _ga=1\r\n", "Cookie: wordpress_logged_in_a=b\r\n");
    get("/post/", "");
    assert!(get("/post/?utm_source=x", analytics).is_hit());
    assert!(!get("/post/", login).is_hit());
    get("/style.css", "");
    assert!(get("/style.css", login).is_hit());
    assert_eq!(200, fetch(&larder, "PURGE", "example.com", "/post/", "").status);
    assert!(!get("/post/", "").is_hit());
}

/// The page with a real Django, whose `collectstatic` has written the files.
fn django(guide: Guide) {
    let application = Application::django();
    let site = guide.folder.path().join("srv/site");
    std::fs::create_dir_all(site.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(application.folder(), &site).unwrap();
    guide.write("/srv/site/media/cat.jpg", "cat");
    let larder = guide.start(&application);
    let requests = application.requests();
    let path = "/static/admin/css/base.css";
    let style =
        fetch(&larder, "GET", "example.com", path, "Accept-Encoding: gzip\r\nCookie: sessionid=a\r\n");
    assert_eq!((200, Some("gzip")), (style.status, style.field("content-encoding")));
    assert_eq!(Some("public, max-age=86400"), style.field("cache-control"));
    answers(&get(&larder, "/media/cat.jpg"), 200, "cat");
    assert_eq!(requests, application.requests(), "Django is asked for no file");
    answers(&get(&larder, "/page/1"), 200, "for all");
    let hit = fetch(&larder, "GET", "example.com", "/page/1", "Cookie: _ga=1\r\n");
    assert!(hit.is_hit(), "{}", hit.cache());
    assert!(!fetch(&larder, "GET", "example.com", "/page/1", "Cookie: sessionid=a\r\n").is_hit());
    for path in ["/never/", "/never/"] {
        assert!(!get(&larder, path).is_hit());
    }
    // By SECURE_PROXY_SSL_HEADER and the host of the client.
    answers(&get(&larder, "/address/"), 200, "http://example.com/address/");
}

/// The page with a real uWSGI, by the settings that it prints, and a real gunicorn.
fn python(guide: Guide) {
    let folder = guide.folder.path();
    let app = "def application(environ, start_response):\n    \
               start_response('200 OK', [('Content-Type', 'text/html')])\n    \
               return [(environ['SERVER_SOFTWARE'] if 'gunicorn' in environ.get('SERVER_SOFTWARE', '') else 'uwsgi').encode()\n            \
               + b' ' + environ['PATH_INFO'].encode() + b' ' + str(len(environ.get('HTTP_COOKIE', ''))).encode()]\n";
    guide.write("/srv/app/app.py", app);
    guide.write("/srv/app/static/app.css", &"body { color: red }\n".repeat(200));
    std::fs::create_dir_all(folder.join("run/app")).unwrap();
    let settings = std::fs::read_to_string(folder.join("etc/uwsgi/app.ini")).unwrap();
    let local = Regex::new(r"= (/(?:srv|run)/)").unwrap();
    let local = local.replace_all(&settings, format!("= {}${{1}}", folder.display())).into_owned();
    guide.write("/etc/uwsgi/app.ini", &local);
    let _uwsgi =
        Uwsgi::start(folder, &["--ini", "etc/uwsgi/app.ini"], &[folder.join("run/app/uwsgi.sock").as_path()]);
    let _gunicorn =
        Gunicorn::start(&folder.join("srv/app"), "app:application", &folder.join("run/app/gunicorn.sock"));
    let larder = guide.start_alone();
    let style = fetch(&larder, "GET", "example.com", "/static/app.css", "Accept-Encoding: gzip\r\n");
    assert_eq!((200, Some("gzip")), (style.status, style.field("content-encoding")));
    answers(&get(&larder, "/news/"), 200, "uwsgi /news/ 0");
    assert!(get(&larder, "/news/").is_hit());
    let session = format!("Cookie: session={}\r\n", "x".repeat(10_000));
    let private = fetch(&larder, "GET", "example.com", "/news/", &session);
    answers(&private, 200, "uwsgi /news/ 10008");
    let api = get(&larder, "/api/a");
    assert!(api.text().starts_with("gunicorn/") && api.text().ends_with(" /api/a 0"), "{api:?}");
    assert!(get(&larder, "/api/a").is_hit());
}

fn nextjs(guide: Guide) {
    let origin = Origin::new(|it| {
        let form = it.field("rsc").map_or("page", |_| "data");
        let text = form.repeat(600);
        format!("HTTP/1.1 200 OK\nCache-Control: s-maxage=300\nContent-Type: text/html\nVary: rsc\n\n{text}")
    });
    let larder = guide.start(&origin);
    get(&larder, "/news");
    let hit = get(&larder, "/news");
    assert!(hit.is_hit() && hit.text().starts_with("page"));
    let data = fetch(&larder, "GET", "example.com", "/news", "RSC: 1\r\n");
    assert!(!data.is_hit() && data.text().starts_with("data"));
    let session = "Cookie: __Secure-authjs.session-token=a\r\n";
    assert!(!fetch(&larder, "GET", "example.com", "/news", session).is_hit());
    until("it is compressed", || {
        let answer = fetch(&larder, "GET", "example.com", "/news", "Accept-Encoding: br\r\n");
        answer.field("content-encoding") == Some("br")
    });
}

fn behind_a_cdn(guide: Guide) {
    let page = std::fs::read_to_string(pages().join("behind-a-cdn.md")).unwrap();
    let sent = page.split("```text\n").nth(1).and_then(|it| it.split("```").next()).unwrap();
    let lines = sent.lines().map(str::trim).filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n");
    let origin = Origin::new(move |it| {
        let lines = if it.target() == "/" { &lines[..] } else { "Larder-Cache-Control: max-age=3600" };
        let seen = it.field("x-forwarded-for").unwrap_or("-");
        format!("HTTP/1.1 200 OK\n{lines}\nSurrogate-Key: news\n\n{seen}")
    });
    let larder = guide.start(&origin);
    let private = fetch(&larder, "GET", "www.example.com", "/without", "");
    assert_eq!(Some("private, max-age=60"), private.field("cache-control"));
    let visitor = "X-Forwarded-For: 203.0.113.7\r\n";
    let get = || fetch(&larder, "GET", "www.example.com", "/", visitor);
    answers(&get(), 200, "203.0.113.7, 127.0.0.1");
    larder.advance(600);
    let hit = get();
    assert!(hit.is_hit(), "for an hour: {hit:?}");
    assert_eq!(Some("public, max-age=60"), hit.field("cache-control"));
    assert_eq!((None, Some("news")), (hit.field("age"), hit.field("surrogate-key")));
    assert_eq!(403, fetch(&larder, "PURGE", "www.example.com", "/", visitor).status, "a visitor may not");
    assert!(get().is_hit());
    assert_eq!(200, fetch(&larder, "PURGE", "www.example.com", "/", "").status);
    assert!(!get().is_hit());
}

fn markdown_for_agents(guide: Guide) {
    let origin = Origin::new(|it| {
        let form = it.field("accept").unwrap_or("no form").to_owned();
        format!("HTTP/1.1 200 OK\nContent-Type: {form}\n\n{form}")
    });
    let larder = guide.start(&origin);
    let get = |accept: &str| fetch(&larder, "GET", "docs.example.com", "/", &format!("Accept: {accept}\r\n"));
    for _ in 0..2 {
        answers(&get("text/html,application/xhtml+xml,*/*;q=0.8"), 200, "text/html");
        answers(&get("text/markdown, text/html, */*"), 200, "text/markdown");
        answers(&get("application/json"), 200, "application/json");
        answers(&get("image/png"), 200, "no form");
        answers(&get("*/*"), 200, "text/html");
    }
    assert_eq!(4, origin.requests());
    assert_eq!(["Accept"][..], get("*/*").members("vary"));
    fetch(&larder, "POST", "docs.example.com", "/", "Content-Length: 0\r\n");
    assert!(!get("text/markdown").is_hit() && !get("text/html").is_hit());
}

fn rewrite_a_prefix(guide: Guide) {
    let origin = Origin::new(|it| match it.target() {
        "/v2/old" => "HTTP/1.1 302 Found\nLocation: /v2/new\n\n".to_owned(),
        _ => format!("HTTP/1.1 200 OK\n\n{}", it.target()),
    });
    let larder = guide.start(&origin);
    answers(&get(&larder, "/api/users/7"), 200, "/v2/users/7");
    answers(&get(&larder, "/shop/42"), 200, "/catalogue/item?id=42");
    redirects(&get(&larder, "/api/old"), 302, "/api/new");
}

fn protected_files(guide: Guide) {
    guide.write("/srv/private/a/b c.pdf", "a pdf");
    let root = guide.folder.path().join("srv/private").display().to_string();
    let origin = Origin::new(move |it| {
        let order = match it.target() {
            "/absolute" => format!("X-Sendfile: {root}/a/b c.pdf"),
            "/relative" => "X-Sendfile: a/b c.pdf".to_owned(),
            "/accel" => "X-Accel-Redirect: /protected/a/b%20c.pdf".to_owned(),
            _ => "X-Sendfile: /etc/passwd".to_owned(),
        };
        format!("HTTP/1.1 200 OK\n{order}\n\n")
    });
    let larder = guide.start(&origin);
    for target in ["/absolute", "/relative", "/accel"] {
        let it = get(&larder, target);
        answers(&it, 200, "a pdf");
        assert_eq!(Some("application/pdf"), it.field("content-type"));
        assert_eq!(206, fetch(&larder, "GET", "example.com", target, "Range: bytes=0-1\r\n").status);
    }
    assert_eq!(404, get(&larder, "/other").status);
}

fn sticky_sessions(mut guide: Guide) {
    guide.replace(", \"http://127.0.0.1:8001\", \"http://127.0.0.1:8002\"]", "]");
    let larder = guide.start(&application());
    let first = get(&larder, "/");
    let line = first.field("set-cookie").unwrap().to_owned();
    assert!(line.starts_with("larder-origin=") && line.contains("Max-Age=3600"), "{line}");
    let cookie = format!("Cookie: {}\r\n", line.split(';').next().unwrap());
    let again = fetch(&larder, "GET", "example.com", "/", &cookie);
    assert_eq!(Some(line.as_str()), again.field("set-cookie"), "it is renewed");
}

fn client_certificates(guide: Guide) {
    let authority = Authority::new();
    authority.sign("one", &["www.example.com", "internal.example.com"]);
    authority.sign("me", &["me.test"]);
    for (from, to) in [("one.pem", "chain.pem"), ("one.key", "key.pem"), ("ca.pem", "clients.pem")] {
        let text = std::fs::read_to_string(authority.path(from)).unwrap();
        guide.write_private(&format!("/etc/larder/{to}"), &text);
    }
    let origin = Origin::new(|it| {
        let shown = it.field("client-cert").map_or("none", |_| "a certificate");
        format!("HTTP/1.1 200 OK\n\n{shown}")
    });
    let larder = guide.start(&origin);
    let asks = |name: &str, host: &str, showing: bool| {
        let how = authority.trusting();
        let how = if showing { how.showing(&authority, "me") } else { how };
        let mut it = how.connect(larder.address, name).unwrap();
        it.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = it.read();
        (answer.status, answer.text())
    };
    assert_eq!((200, "none".to_owned()), asks("www.example.com", "www.example.com", false));
    assert_eq!((200, "a certificate".to_owned()), asks("internal.example.com", "internal.example.com", true));
    assert_eq!(421, asks("www.example.com", "internal.example.com", true).0);
}

fn uploads(guide: Guide) {
    let larder = guide.start(&application());
    let announced = |target: &str, size: &str| {
        let mut client = larder.client();
        let expects = "Expect: 100-continue\r\n";
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: example.com\r\n{expects}Content-Length: {size}\r\n\r\n"
        ));
        client
    };
    assert_eq!(413, announced("/", "1048577").read_for("POST").status);
    assert_eq!(413, announced("/upload", "5368709121").read_for("POST").status);
    assert!(announced("/upload", "5368709120").is_told_to_continue());
}

fn several_files(guide: Guide) {
    let larder = guide.start(&application());
    let shop = fetch(&larder, "GET", "shop.example.com", "/a", "");
    answers(&shop, 200, "GET /a HTTP/1.1");
    assert_eq!(Some("nosniff"), shop.field("x-content-type-options"));
    redirects(&fetch(&larder, "GET", "old.example.com", "/a?b=c", ""), 301, "https://shop.example.com/a?b=c");
}

fn secrets_and_environment(mut guide: Guide) {
    guide.write("/run/secrets/api-key", "a-secret\n");
    guide.env = vec![("SITE_HOST".to_owned(), "example.com".to_owned())];
    let origin = application();
    let larder = guide.start(&origin);
    let answer = fetch(&larder, "GET", "example.com", "/a", "X-Api-Key: of-the-client\r\n");
    answers(&answer, 200, "GET /a HTTP/1.1");
    assert_eq!(Some("a-secret"), origin.received()[0].field("x-api-key"));
    assert_eq!(404, fetch(&larder, "GET", "example.net", "/a", "").status);
}

fn health_checks_for_a_load_balancer(guide: Guide) {
    let origin = application();
    let larder = guide.start(&origin);
    for path in ["/live", "/ready"] {
        assert_eq!(200, get(&larder, path).status, "{path}");
    }
    assert_eq!(0, origin.requests());
    let mut clients = [larder.client(), larder.client()];
    for client in &mut clients {
        assert_eq!(200, client.get("/a").status);
    }
    larder.hold();
    larder.signal(libc::SIGTERM);
    until("it drains", || std::net::TcpStream::connect(larder.address).is_err());
    let [live, ready] = &mut clients;
    assert_eq!([200, 503], [live.get("/live").status, ready.get("/ready").status]);
}

fn jwt(mut guide: Guide) {
    let authority = certificate(&guide, "api.example.com");
    let key = r#"{"kty":"OKP","crv":"Ed25519","kid":"2026","alg":"EdDSA","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    let issuer = Origin::fixed(&format!("HTTP/1.1 200 OK\n\n{{\"keys\":[{key}]}}"));
    guide.replace(
        "https://id.example.com/.well-known/jwks.json",
        &format!("{}/keys", issuer.url().replace("127.0.0.1", "localhost")),
    );
    let origin = Origin::new(|it| format!("HTTP/1.1 200 OK\n\n{:?}", it.field("x-user")));
    let larder = guide.start(&origin);
    let seed = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
    let pair = ring::signature::Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let fetch = |claims: serde_json::Value| {
        let signed = [r#"{"alg":"EdDSA","kid":"2026"}"#, &claims.to_string()]
            .map(|it| URL_SAFE_NO_PAD.encode(it))
            .join(".");
        let signature = URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes()));
        let lines = format!("X-User: root\r\nx_user: root\r\nAuthorization: Bearer {signed}.{signature}\r\n");
        over_tls(&larder, &authority, "api.example.com", &lines)
    };
    let claims = |user: &str| {
        let end = crate::harness::begun() + 60;
        serde_json::json!({ "iss": "https://id.example.com/", "aud": "shop", "sub": user, "exp": end, "scope": "read write" })
    };
    assert_eq!(401, over_tls(&larder, &authority, "api.example.com", "").status);
    for (name, value, status) in
        [("iss", "other", 401), ("aud", "other", 401), ("exp", "9999999999", 401), ("scope", "write", 403)]
    {
        let mut wrong = claims("alice");
        wrong[name] = value.into();
        assert_eq!(status, fetch(wrong).status, "{name}");
    }
    assert_eq!(0, origin.requests());
    answers(&fetch(claims("alice")), 200, "Some(\"alice\")");
    answers(&fetch(claims("bob")), 200, "Some(\"bob\")");
    until("it is stored", || fetch(claims("alice")).is_hit());
    answers(&fetch(claims("alice")), 200, "Some(\"alice\")");
}

fn signed_urls(guide: Guide) {
    let origin = application();
    let larder = guide.start(&origin);
    let of = |arguments: &[&str]| {
        let config = larder.config();
        let all = [&["sign", "-c", config.to_str().unwrap()], arguments].concat();
        let ended = crate::harness::command::run(larder.folder.path(), &all);
        assert_eq!(0, ended.code, "{}", ended.err);
        ended.out.trim().strip_prefix("http://media.example.com").unwrap().to_owned()
    };
    let get = |target: &str| fetch(&larder, "GET", "media.example.com", target, "");
    let page = of(&["http://media.example.com/video/42/a.mp4", "--expires", "10m"]);
    answers(&get(&page), 200, "GET /video/42/a.mp4 HTTP/1.1");
    let other = of(&["http://media.example.com/video/42/a.mp4", "--expires", "2h"]);
    assert!(get(&other).is_hit() && other != page);
    let player = of(&[
        "http://media.example.com/video/42/index.m3u8",
        "--prefix",
        "/video/42/",
        "--ip",
        "127.0.0.0/8",
    ]);
    let query = player.split_once('?').unwrap().1;
    answers(&get(&format!("/video/42/1.ts?{query}")), 200, "GET /video/42/1.ts HTTP/1.1");
    for wrong in [
        "/video/42/a.mp4".to_owned(),
        format!("/video/43/1.ts?{query}"),
        page.replace("a.mp4", "b.mp4"),
        format!("{page}&a"),
    ] {
        assert_eq!(403, get(&wrong).status, "{wrong}");
    }
    // The lines for Python make the same signature.
    let text = std::fs::read_to_string(pages().join("signed-urls.md")).unwrap();
    let python = text.split("```python\n").nth(1).and_then(|it| it.split("```").next()).unwrap();
    let secret = std::fs::read_to_string(guide.folder.path().join("run/secrets/url")).unwrap();
    let script =
        format!("{python}\nprint(sign({:?}, \"media.example.com\", \"/video/7/x\", 60))", secret.trim());
    let made = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
    let made = String::from_utf8(made.stdout).unwrap();
    answers(&get(made.trim()), 200, "GET /video/7/x HTTP/1.1");
    // The command signs by the clock of the machine.
    larder.advance(3600);
    until("it has expired", || get(&page).status == 403);
    assert_eq!(200, get(&other).status);
}

fn php(mut guide: Guide) {
    let fpm = PhpFpm::start(2);
    let written = format!("unix:{}/run/php/php-fpm.sock", guide.folder.path().display());
    guide.replace(&written, &fpm.name());
    let script = "<?php echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-';";
    for file in ["index.php", "wp-login.php", "wp-admin/index.php", "wp-content/uploads/evil.php"] {
        guide.write(&format!("/srv/wordpress/{file}"), script);
    }
    guide.write("/srv/wordpress/style.css", &"body { color: red }\n".repeat(200));
    let larder = guide.start_alone();
    let style = fetch(&larder, "GET", "example.com", "/style.css", "Accept-Encoding: gzip\r\n");
    assert_eq!((200, Some("gzip")), (style.status, style.field("content-encoding")));
    for (target, expect) in [
        ("/wp-login.php", "/wp-login.php -"),
        ("/index.php/2026/post", "/index.php /2026/post"),
        ("/wp-admin/", "/wp-admin/index.php -"),
        ("/2026/post/", "/index.php -"),
        ("/wp-content/uploads/none", "/index.php -"),
    ] {
        answers(&get(&larder, target), 200, expect);
    }
    redirects(&get(&larder, "/wp-admin"), 301, "/wp-admin/");
    for target in
        ["/wp-content/uploads/evil.php", "/wp-content/uploads/evil.php/x", "/wp-content/uploads/%65vil.php"]
    {
        assert_eq!(404, get(&larder, target).status, "{target}");
    }
    assert!(get(&larder, "/2026/post/").is_hit());
    assert!(
        !fetch(&larder, "GET", "example.com", "/2026/post/", "Cookie: wordpress_logged_in_a=b\r\n").is_hit()
    );
}
