//! Every endpoint of the admin, taken from its own description: each refuses what is not well-formed, and each answers its
//! example as it says. Rows that are added are tested here without a word.

use crate::harness::schema;
use crate::harness::server::{Setup, TOKEN};
use crate::harness::{Client, Larder, Origin, Response};
use serde_json::Value;

/// An operation of the description.
struct Operation {
    method: String,
    path: String,
    told: Value,
}

impl Operation {
    /// A path that fits.
    fn target(&self) -> String {
        match self.path.split_once('{') {
            Some((start, _)) => format!("{start}h/page"),
            None => self.path.clone(),
        }
    }

    fn is_open(&self) -> bool {
        self.told["security"].as_array().is_some_and(Vec::is_empty)
    }

    /// Whether it takes a query as part of its path.
    fn takes_any_query(&self) -> bool {
        self.path.contains("/{uri}")
    }

    fn parameters(&self) -> Vec<&Value> {
        let all = self.told["parameters"].as_array().into_iter().flatten();
        all.filter(|it| it["in"] == "query").collect()
    }
}

fn start() -> (Origin, Larder) {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=9999999\n\npage");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[admin]\nlisten = \"127.0.0.1:0\"\naudit = \"audit.log\"\n[log]\n\
         levels = {{ audit = \"off\" }}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    );
    let larder = Larder::start(Setup { config, env: Vec::new() });
    (origin, larder)
}

/// What `GET /api/v1/openapi.json` says, which needs no token.
fn operations(larder: &Larder) -> Vec<Operation> {
    let it = send(larder, "GET", "/api/v1/openapi.json", &[&format!("Host: {}", larder.admin)], "");
    assert_eq!(200, it.status, "{it:?}");
    let all: Value = serde_json::from_slice(&it.body).unwrap();
    assert_eq!("3.1.0", all["openapi"]);
    let mut operations = Vec::new();
    for (path, methods) in all["paths"].as_object().unwrap() {
        for (method, told) in methods.as_object().unwrap() {
            let (method, path, told) = (method.to_uppercase(), path.clone(), told.clone());
            operations.push(Operation { method, path, told });
        }
    }
    assert!(operations.len() >= 15, "{}", operations.len());
    operations
}

fn send(larder: &Larder, method: &str, target: &str, lines: &[&str], body: &str) -> Response {
    let mut client = Client::connect(larder.admin);
    let lines: String = lines.iter().map(|it| format!("{it}\r\n")).collect();
    let length = body.len();
    client.send(format!("{method} {target} HTTP/1.1\r\n{lines}Content-Length: {length}\r\n\r\n{body}"));
    client.read()
}

/// Whether a refusal is JSON that says its status, and what is wrong.
#[track_caller]
fn check_refusal(it: &Response, status: u16, about: &str) {
    assert_eq!(status, it.status, "{about}: {it:?}");
    let told: Value = serde_json::from_slice(&it.body).unwrap_or_else(|_| panic!("{about}: {it:?}"));
    assert_eq!(u64::from(status), told["status"], "{about}: {told}");
    let detail = told["detail"].as_str().unwrap_or("");
    assert!(detail.len() > 10 && detail.ends_with(['.', '?']), "{about}: {told}");
}

#[test]
fn every_endpoint_refuses_what_is_not_for_it() {
    let (_origin, larder) = start();
    larder.get("/kept");
    let (host, token) = (format!("Host: {}", larder.admin), format!("Authorization: Bearer {TOKEN}"));
    let wrong = format!("Authorization: Bearer x{TOKEN}");
    let mut refused = 0;
    for it in operations(&larder) {
        let (method, target) = (it.method.as_str(), it.target());
        let about = |what: &str| format!("{what}: {method} {target}");
        // A new second of the audit log, and of those who guess.
        larder.advance(5);
        let mut check = |answer: Response, status: u16, what: &str| {
            check_refusal(&answer, status, &about(what));
            let log = || std::fs::read_to_string(larder.folder.path().join("audit.log")).unwrap_or_default();
            let path = target.split('?').next().unwrap();
            let line = format!("method={method} path={path} status={status}");
            crate::harness::until(&about(what), || log().matches(&line).count() > 0);
            refused += 1;
        };
        let foreign = ["Host: evil.example", &token];
        check(send(&larder, method, &target, &foreign, ""), 421, "a foreign host");
        if method != "GET" {
            let lines = [&*host, &*token, "Origin: http://evil.example", "Content-Type: text/plain"];
            check(send(&larder, method, &target, &lines, "{}"), 403, "a foreign page");
        }
        if !it.is_open() {
            check(send(&larder, method, &target, &[&host], "{}"), 401, "no token");
            check(send(&larder, method, &target, &[&host, &wrong], "{}"), 401, "a wrong token");
        }
        if !it.takes_any_query() {
            let target = format!("{target}?colour=red");
            let answer = send(&larder, method, &target, &[&host, &token], "{}");
            assert!(answer.text().contains("colour"), "{answer:?}");
            check(answer, 400, "an unknown parameter");
        }
        if method != "GET" {
            let lines = format!("{host}\r\n{token}\r\nContent-Length: 99999999999\r\n\r\n");
            let mut client = Client::connect(larder.admin);
            client.send(format!("{method} {target} HTTP/1.1\r\n{lines}"));
            check(client.read(), 413, "a body without end");
        }
        if it.told["requestBody"]["content"]["application/json"].is_object() {
            for body in ["", "{", "\"\u{1}\"", "[1,2", "nonsense"] {
                check(send(&larder, method, &target, &[&host, &token], body), 400, "no JSON");
            }
        }
        for parameter in it.parameters().iter().filter(|it| it["schema"]["type"] == "integer") {
            let target = format!("{target}?{}=many", parameter["name"].as_str().unwrap());
            check(send(&larder, method, &target, &[&host, &token], ""), 400, "no number");
        }
        assert_eq!(404, send(&larder, method, "/api/v1/nothing", &[&host, &token], "").status);
    }
    assert!(refused > 60, "{refused}");
    assert!(larder.get("/kept").is_hit(), "nothing was purged");
    assert_eq!(0, larder.counter("overlays"));
    assert_eq!(0, larder.counter("admin_refusals_untold"));
}

#[test]
fn every_endpoint_answers_its_example_as_it_says() {
    let (_origin, larder) = start();
    larder.get("/kept");
    let lines = larder.admin_lines();
    let mut asked = 0;
    for it in operations(&larder) {
        let method = it.method.as_str();
        let answer = &it.told["responses"]["200"]["content"]["application/json"]["schema"];
        let body = &it.told["requestBody"]["content"]["application/json"]["example"];
        let needs_more = it.path.contains('{') || it.parameters().iter().any(|it| it["required"] == true);
        // What changes something is asked where its row says with what.
        let example = it.told["x-example"].as_object();
        if !answer.is_object() || (needs_more || method != "GET") && example.is_none() {
            continue;
        }
        let text = |name: &str| example.and_then(|it| it[name].as_str()).unwrap_or("").to_owned();
        let mark = if text("query").is_empty() { "" } else { "?" };
        let target = format!("{}{mark}{}", it.target(), text("query"));
        let response = send(&larder, method, &target, &[&lines], &text("body"));
        assert_eq!(200, response.status, "{method} {target}: {response:?}");
        if body.is_object() {
            let takes = &it.told["requestBody"]["content"]["application/json"]["schema"];
            assert_eq!(Vec::<String>::new(), schema::problems(takes, body), "{method} {target}: its example");
        }
        let given: Value = serde_json::from_slice(&response.body).unwrap();
        let problems = schema::problems(answer, &given);
        assert!(problems.is_empty(), "{method} {target}: {problems:#?}\n{given:#}");
        asked += 1;
    }
    assert!(asked >= 12, "{asked}");
}

#[test]
fn what_is_changed_is_written_down() {
    let (_origin, larder) = start();
    let lines = larder.admin_lines();
    let purge = "{\"tag\":\"loud\"}";
    assert_eq!(200, send(&larder, "POST", "/cache/purge", &[&lines], purge).status);
    assert_eq!(200, send(&larder, "PUT", "/api/v1/overlays?uri=/late", &[&lines], "late").status);
    assert_eq!(200, larder.admin_get("/cache/stats").status);
    let log = || std::fs::read_to_string(larder.folder.path().join("audit.log")).unwrap_or_default();
    crate::harness::until("both are told", || {
        log().lines().filter(|it| it.contains(" admin-write ")).count() >= 2
    });
    let text = log();
    for part in [
        "info admin-write who=token from=127.0.0.1:",
        "method=POST path=/cache/purge status=200 body=\"{\\\"tag\\\":\\\"loud\\\"}\"",
        "method=PUT path=/api/v1/overlays status=200 query=\"uri=/late\" body=\"(4 bytes)\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("/cache/stats"), "reading is no change: {text}");
    assert!(!text.contains(TOKEN), "{text}");
}

#[test]
fn what_cannot_be_read_is_refused_as_everything_else() {
    let (_origin, larder) = start();
    let token = format!("Authorization: Bearer {TOKEN}");
    let host = format!("Host: {}", larder.admin);
    for (lines, status) in [
        (format!("GET /cache/stats HTTP/1.1\r\n{host}\r\nHost: evil.example\r\n{token}\r\n\r\n"), 400),
        (format!("GET /cache/stats HTTP/1.1\r\n{token}\r\n\r\n"), 400),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n{token}\r\n\r\n", "x".repeat(9000)), 414),
        (format!("POST /cache/purge HTTP/1.1\r\n{host}\r\n{token}\r\nContent-Length: +5\r\n\r\n"), 400),
        (
            format!(
                "POST /cache/purge HTTP/1.1\r\n{host}\r\n{token}\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"
            ),
            400,
        ),
        (
            format!(
                "PUT /api/v1/overlays?uri=/a HTTP/1.1\r\n{host}\r\n{token}\r\nContent-Length: 99999999\r\n\r\n"
            ),
            413,
        ),
    ] {
        let before = larder.counter("admin_refusals");
        let mut client = Client::connect(larder.admin);
        client.send(&lines);
        let about: String = lines.chars().take(90).collect();
        check_refusal(&client.read(), status, &about);
        assert_eq!(before + 1, larder.counter("admin_refusals"), "{about}");
    }
    let log = || std::fs::read_to_string(larder.folder.path().join("audit.log")).unwrap_or_default();
    crate::harness::until("they are in the log", || log().matches(" admin-refused ").count() == 6);
    assert!(!log().contains(TOKEN), "{}", log());
}

#[test]
fn a_storm_of_refusals_is_counted() {
    let (_origin, larder) = start();
    let host = format!("Host: {}", larder.admin);
    let mut client = Client::connect(larder.admin);
    for _ in 0..300 {
        client.send(format!("GET /cache/stats HTTP/1.1\r\n{host}\r\n\r\n"));
        assert_eq!(401, client.read().status);
    }
    let untold = larder.counter("admin_refusals_untold");
    assert_eq!(300, larder.counter("admin_refusals"));
    let log = || std::fs::read_to_string(larder.folder.path().join("audit.log")).unwrap_or_default();
    let left_out = || {
        let text = log();
        let numbers = text.split("left_out=").skip(1).map(|it| it.split_whitespace().next().unwrap());
        numbers.map(|it| it.parse::<u64>().unwrap()).sum::<u64>()
    };
    larder.advance(2);
    crate::harness::until("those left out are told", || left_out() == untold);
    let told = log().lines().filter(|it| it.contains(" admin-refused ")).count() as u64;
    assert_eq!(300, told + untold);
}

#[test]
fn no_route_leads_to_the_admin() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\nsocket = \"{0}\"\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\nproxy = {{ to = [\"unix:{0}\"] }}\n",
        socket.display()
    );
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    let said = crate::harness::command::run(folder.path(), &["run"]);
    assert_eq!(2, said.code, "{said:?}");
    assert!(
        said.err.contains("larder.toml:") && said.err.contains("is the admin of this larder"),
        "{}",
        said.err
    );
}

#[test]
fn a_route_that_is_led_to_the_admin_later_is_not_let_in() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = Larder::before(&origin, "");
    // A reload that names it is refused ...
    let config = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), config.replace(&origin.url(), &format!("http://{}", larder.admin)))
        .unwrap();
    larder.signal(libc::SIGHUP);
    crate::harness::until("it is refused", || larder.counter("config_rejections") == 1);
    assert_eq!("page", larder.get("/cache/stats").text());
    // ... and another larder, which cannot know, has no token to show.
    let other = Larder::command(&[
        "proxy",
        &format!("http://{}", larder.admin),
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]);
    for host in [other.address.to_string(), larder.admin.to_string()] {
        let mut client = other.client();
        client.send(format!("GET /cache/stats HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let it = client.read();
        assert!(matches!(it.status, 401 | 421), "{host}: {it:?}");
    }
}
