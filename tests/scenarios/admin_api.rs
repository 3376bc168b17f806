//! Every endpoint of the admin, taken from its own description: each rejects malformed requests, and answers as
//! described. New rows are tested here without further code. Changes and rejections are in the audit log.

mod answered;
mod refused;

use crate::harness::relay::Relay;
use crate::harness::server::TOKEN;
use crate::harness::{Client, Larder, Origin, Response};
use serde_json::Value;

/// An operation of the description.
struct Operation {
    method: String,
    path: String,
    description: Value,
}

impl Operation {
    /// Its path, with this for the `{…}`.
    fn path_of(&self, named: &str) -> String {
        self.path.split_once('{').map_or_else(|| self.path.clone(), |(start, _)| format!("{start}{named}"))
    }

    /// A path that fits.
    fn target(&self) -> String {
        self.path_of("h/page")
    }

    /// The schema of its body, where that is JSON.
    fn takes(&self) -> Option<&Value> {
        let schema = &self.description["requestBody"]["content"]["application/json"]["schema"];
        schema.is_object().then_some(schema)
    }

    /// Query and body of its example.
    fn example(&self) -> Option<(&str, &str)> {
        let it = &self.description["x-example"];
        Some((it["query"].as_str()?, it["body"].as_str()?))
    }

    fn is_open(&self) -> bool {
        self.description["security"].as_array().is_some_and(Vec::is_empty)
    }

    /// Whether it takes a query as part of its path.
    fn takes_any_query(&self) -> bool {
        self.path.contains("/{uri}")
    }

    /// Whether it does nothing without one.
    fn needs_a_parameter(&self) -> bool {
        self.parameters().iter().any(|it| it["required"] == true)
    }

    fn parameters(&self) -> Vec<&Value> {
        let all = self.description["parameters"].as_array().into_iter().flatten();
        all.filter(|it| it["in"] == "query").collect()
    }
}

fn start() -> (Origin, Larder) {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=9999999\n\npage");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[admin]\nlisten = \"127.0.0.1:0\"\naudit = \"audit.log\"\n[log]\n\
         levels = {{ audit = \"off\" }}\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    ));
    (origin, larder)
}

/// The answer to `GET /api/v1/openapi.json`.
fn description(larder: &Larder) -> Value {
    let it = send(larder, "GET", "/api/v1/openapi.json", &[&larder.admin_lines()], "");
    assert_eq!(200, it.status, "{it:?}");
    let all: Value = serde_json::from_slice(&it.body).unwrap();
    assert_eq!("3.1.0", all["openapi"]);
    all
}

/// Its operations.
fn operations(larder: &Larder) -> Vec<Operation> {
    let all = description(larder);
    let mut operations = Vec::new();
    for (path, methods) in all["paths"].as_object().unwrap() {
        for (method, description) in methods.as_object().unwrap() {
            let (method, path, description) = (method.to_uppercase(), path.clone(), description.clone());
            operations.push(Operation { method, path, description });
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

/// Whether a refusal is JSON that says its status, what is wrong, and where; its `where`.
#[track_caller]
fn check_refusal(it: &Response, status: u16, about: &str) -> String {
    assert_eq!(status, it.status, "{about}: {it:?}");
    assert_eq!(Some("application/json"), it.field("content-type"), "{about}");
    let description: Value = serde_json::from_slice(&it.body).unwrap_or_else(|_| panic!("{about}: {it:?}"));
    assert_eq!(u64::from(status), description["status"], "{about}: {description}");
    let detail = description["detail"].as_str().unwrap_or("");
    assert!(
        detail.len() > 10 && detail.len() < 1000 && detail.ends_with(['.', '?']),
        "{about}: {description}"
    );
    let at = description["where"].as_str().unwrap_or("");
    assert!(!at.is_empty(), "{about}: {description}");
    at.to_owned()
}

#[test]
fn changes_are_written_to_the_audit_log() {
    let (_origin, larder) = start();
    let lines = larder.admin_lines();
    let purge = "{\"tag\":\"loud\"}";
    assert_eq!(200, send(&larder, "POST", "/cache/purge", &[&lines], purge).status);
    assert_eq!(200, send(&larder, "PUT", "/api/v1/overlays?uri=/late", &[&lines], "late").status);
    assert_eq!(200, larder.admin_get("/cache/stats").status);
    let log = || std::fs::read_to_string(larder.folder.path().join("audit.log")).unwrap_or_default();
    crate::harness::until("both are description", || {
        log().lines().filter(|it| it.contains(" admin-write ")).count() >= 2
    });
    let text = log();
    for part in [
        "info admin-write who=admin role=admin from=127.0.0.1:",
        "method=POST path=/cache/purge status=200 body=\"{\\\"tag\\\":\\\"loud\\\"}\"",
        "method=PUT path=/api/v1/overlays status=200 query=\"uri=/late\" body=\"(4 bytes)\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("/cache/stats"), "reading is no change: {text}");
    assert!(!text.contains(TOKEN), "{text}");
}

#[test]
fn a_malformed_request_is_refused_in_the_same_form() {
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
    let untold = larder.counter("admin_refusals_unlogged");
    assert_eq!(300, larder.counter("admin_refusals"));
    let log = || std::fs::read_to_string(larder.folder.path().join("audit.log")).unwrap_or_default();
    let left_out = || {
        let text = log();
        let numbers = text.split("left_out=").skip(1).map(|it| it.split_whitespace().next().unwrap());
        numbers.map(|it| it.parse::<u64>().unwrap()).sum::<u64>()
    };
    larder.advance(2);
    crate::harness::until("those left out are description", || left_out() == untold);
    let description = log().lines().filter(|it| it.contains(" admin-refused ")).count() as u64;
    assert_eq!(300, description + untold);
}

/// A storm hides neither what another client was refused, nor what somebody with the token was.
#[test]
fn a_storm_of_refusals_hides_no_other_client() {
    let (_origin, larder) = start();
    let host = format!("Host: {}", larder.admin);
    let mut client = Client::connect(larder.admin);
    for _ in 0..100 {
        client.send(format!("GET /cache/stats HTTP/1.1\r\n{host}\r\n\r\n"));
        assert_eq!(401, client.read().status);
    }
    let mut other = Client::connect_from([127, 0, 0, 9].into(), larder.admin);
    other.send(format!("PUT /api/v1/config HTTP/1.1\r\n{host}\r\nContent-Length: 2\r\n\r\n{{}}"));
    assert_eq!(401, other.read().status);
    assert_eq!(400, send(&larder, "POST", "/cache/purge", &[&larder.admin_lines()], "{").status);
    let log = || std::fs::read_to_string(larder.folder.path().join("audit.log")).unwrap_or_default();
    larder.advance(2);
    crate::harness::until("those left out are description", || log().contains(" admin-refused-summary "));
    let text = log();
    for part in [
        "who=nobody from=127.0.0.9:",
        "method=PUT path=/api/v1/config status=401",
        "who=admin role=admin from=127.0.0.1:",
        "method=POST path=/cache/purge status=400",
        "admin-refused-summary from=127.0.0.1 status=401 left_out=",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().count() < 30, "{text}");
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
    let output = crate::harness::command::run(folder.path(), &["run"]);
    assert_eq!(2, output.code, "{output:?}");
    assert!(
        output.err.contains("larder.toml:") && output.err.contains("is the admin of this larder"),
        "{}",
        output.err
    );
}

/// Where the file says at which port the admin listens, `larder check` says the same beforehand, with the line.
#[test]
fn a_route_to_the_admin_is_found_by_check() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[admin]\nlisten = \"127.0.0.1:9999\"\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
                  proxy = { to = [\"http://localhost:9999\"] }\n";
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    let output = crate::harness::command::run(folder.path(), &["check"]);
    assert_eq!(2, output.code, "{output:?}");
    assert!(
        output.err.contains("larder.toml:5") && output.err.contains("is the admin of this larder"),
        "{}",
        output.err
    );
    std::fs::write(folder.path().join("larder.toml"), config.replace("localhost:9999", "localhost:9998"))
        .unwrap();
    assert_eq!(0, crate::harness::command::run(folder.path(), &["check"]).code);
}

#[test]
fn a_route_that_is_led_to_the_admin_later_is_not_let_in() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let admin = format!("[admin]\nlisten = \"127.0.0.1:0\"\nsocket = \"{}\"", socket.display());
    let larder = Larder::before_with(&origin, "", &admin);
    // A reload that names it is refused, however its address is written ...
    let config = std::fs::read_to_string(larder.config()).unwrap();
    let lead_to = |to: &str| {
        std::fs::write(larder.config(), config.replace(&origin.url(), to)).unwrap();
        larder.signal(libc::SIGHUP);
    };
    let port = larder.admin.port();
    for to in [format!("http://{}", larder.admin), format!("http://127.1:{port}")] {
        let before = larder.counter("config_rejections");
        lead_to(&to);
        crate::harness::until("it is refused", || larder.counter("config_rejections") > before);
    }
    assert_eq!("page", larder.get("/cache/stats").text());
    // ... and by something between the two it is led there, but not let in, whatever token it shows ...
    let between = Relay::to(socket);
    lead_to(&between.name());
    crate::harness::until("it is taken", || larder.counter("config_reloads") >= 1);
    for path in ["/", "/cache/stats", "/api/v1/openapi.json"] {
        let led =
            larder.client().send(format!("GET {path} HTTP/1.1\r\n{}\r\n\r\n", larder.admin_lines())).read();
        assert_eq!(403, led.status, "{path}: {led:?}");
        assert!(led.text().contains("came through a route of this larder"), "{led:?}");
    }
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

/// Bodies that are on their way take a bounded number of bytes together, whoever sends them and however slowly.
#[test]
fn many_bodies_at_once_take_no_more_than_their_bound() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder =
        Larder::before_with(&origin, "", "[admin]\nlisten = \"127.0.0.1:0\"\noverlay_size = \"1MiB\"");
    let lines = larder.admin_lines();
    // What the overlays may take, and 4 MiB for bodies.
    let (bound, length, senders) = (5 << 20, 1_000_000, 12);
    let mut clients: Vec<Client> = (0..senders)
        .map(|number| {
            let mut client = Client::connect(larder.admin);
            let target = format!("/api/v1/overlays?uri=/{number}");
            client.send(format!("PUT {target} HTTP/1.1\r\n{lines}\r\nContent-Length: {length}\r\n\r\n"));
            client
        })
        .collect();
    // All but the last byte, in turns: every body is begun before any could end.
    let piece = vec![b'x'; (length - 1) / 9];
    for _ in 0..9 {
        for it in &mut clients {
            it.send(&piece);
        }
    }
    let refused = |clients: &[Client]| -> Vec<usize> {
        let has_answer = |it: &Client| {
            it.stream.set_nonblocking(true).unwrap();
            let found = it.stream.peek(&mut [0]);
            it.stream.set_nonblocking(false).unwrap();
            found.is_ok()
        };
        (0..clients.len()).filter(|it| has_answer(&clients[*it])).collect()
    };
    let fit = bound / length;
    crate::harness::until("the rest is refused", || refused(&clients).len() >= senders - fit);
    let answered = refused(&clients);
    let mut kept = 0;
    for (number, client) in clients.iter_mut().enumerate() {
        if answered.contains(&number) {
            let answer = client.read();
            assert_eq!(503, answer.status, "{answer:?}");
            let description: Value = serde_json::from_slice(&answer.body).unwrap();
            assert!(description["detail"].as_str().unwrap().ends_with("retry."), "{description}");
            assert!(client.is_closed());
            continue;
        }
        let rest = vec![b'x'; length - 9 * piece.len()];
        let answer = client.send(&rest).read();
        assert!(matches!(answer.status, 200 | 507), "{answer:?}");
        kept += usize::from(answer.status == 200);
    }
    assert_eq!(1, kept, "overlays have a bound of their own");
    assert_eq!(1, larder.counter("overlays"));
    let log = larder.counter("admin_refusals");
    assert_eq!((senders - kept) as u64, log, "each is counted");
    // What was refused has left: the next finds room.
    larder.admin_request("DELETE", "/api/v1/overlays?uri=/0");
    assert_eq!(413, send(&larder, "PUT", "/api/v1/overlays?uri=/a", &[&lines], &"x".repeat(2 << 20)).status);
    assert_eq!(200, send(&larder, "POST", "/api/v1/config/check", &[&lines], r#"{"text":""}"#).status);
}
