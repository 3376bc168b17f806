//! Roles of the admin's tokens: each endpoint with each role, sessions and streams of tokens that a reload changes, and the audit log by token.

use crate::harness::command::run;
use crate::harness::server::TOKEN;
use crate::harness::{Client, Larder, Origin, Response, until};
use serde_json::Value;

const VIEWER: &str = "viewer-0123456789abcdefghijklmnopqrstuv";
const OPERATOR: &str = "operator-0123456789abcdefghijklmnopqrst";
const SECOND: &str = "second-0123456789abcdefghijklmnopqrstuv";
const ROLES: [(&str, &str, &str); 4] = [
    (VIEWER, "grafana", "viewer"),
    (OPERATOR, "night-shift", "operator"),
    (SECOND, "second", "admin"),
    (TOKEN, "admin", "admin"),
];

fn page() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=9999999\n\npage")
}

fn tokens() -> String {
    let section = |(token, name, role): &(&str, &str, &str)| {
        format!("[[admin.tokens]]\nname = \"{name}\"\nrole = \"{role}\"\ntoken = \"{token}\"\n")
    };
    ROLES[..3].iter().map(section).collect()
}

fn config(origin: &Origin, tokens: &str) -> String {
    format!(
        "# a comment: hunter2\nlisten = [\"127.0.0.1:0\"]\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\naudit = \"audit.log\"\n{tokens}\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n\
         [site.route.request_headers]\nset = {{ \"X-Api-Key\" = \"literal-of-the-origin\", \"X-Word\" = \"word-of-a-field\" }}\n",
        origin.url()
    )
}

fn start(origin: &Origin) -> Larder {
    Larder::configured(config(origin, &tokens()))
}

fn fetch(larder: &Larder, token: &str, method: &str, target: &str, body: &str) -> Response {
    let mut client = Client::connect(larder.admin);
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
        larder.admin,
        body.len()
    ));
    client.read()
}

fn json(it: &Response) -> Value {
    serde_json::from_slice(&it.body).unwrap_or_else(|error| panic!("{error}: {it:?}"))
}

#[track_caller]
fn get(larder: &Larder, token: &str, target: &str) -> Value {
    let it = fetch(larder, token, "GET", target, "");
    assert_eq!(200, it.status, "{target}: {it:?}");
    json(&it)
}

fn status(larder: &Larder, token: &str, method: &str, target: &str) -> u16 {
    fetch(larder, token, method, target, "").status
}

/// A session of a token.
fn session(larder: &Larder, token: &str) -> Value {
    let link = json(&fetch(larder, token, "POST", "/api/v1/login-links", ""));
    let login = fetch(larder, token, "POST", "/api/v1/login", &format!("{{\"code\":{}}}", link["code"]));
    assert_eq!(200, login.status, "{login:?}");
    json(&login)
}

fn reload(larder: &Larder, config: &str) {
    let before = larder.counter("config_reloads");
    // The ports are those of the start: only the admin's is required.
    std::fs::write(larder.config(), config).unwrap();
    larder.signal(libc::SIGHUP);
    until("the reload is done", || larder.counter("config_reloads") > before);
}

#[test]
fn every_endpoint_needs_its_role() {
    let origin = page();
    let larder = start(&origin);
    let all = get(&larder, TOKEN, "/api/v1/openapi.json");
    let rank = |role: &str| ["viewer", "operator", "admin"].iter().position(|it| *it == role).unwrap();
    let (mut refused, mut permitted, mut unusual) = (0, 0, Vec::new());
    for (path, methods) in all["paths"].as_object().unwrap() {
        for (method, report) in methods.as_object().unwrap() {
            let method = method.to_uppercase();
            let is_open = report["security"].as_array().is_some_and(Vec::is_empty);
            let Some(needed) = report["x-role"].as_str() else {
                assert!(is_open, "{method} {path} is not open, and names no role");
                continue;
            };
            assert!(!is_open, "{method} {path}");
            if (method == "GET") != (needed == "viewer") {
                unusual.push(format!("{method} {path} {needed}"));
            }
            // With the role it is refused for its query, so that nothing is done.
            let target = match path.split_once('{') {
                Some((start, "uri}")) => format!("{start}ftp://h/x"),
                Some((start, _)) => format!("{start}1?colour=red"),
                None => format!("{path}?colour=red"),
            };
            for (token, name, role) in ROLES {
                let it = fetch(&larder, token, &method, &target, "{}");
                if rank(role) >= rank(needed) {
                    assert_eq!(400, it.status, "{role}: {method} {path}: {it:?}");
                    permitted += 1;
                    continue;
                }
                let sentence = format!(
                    "This request requires the role {needed}; the token \"{name}\" has the role {role}."
                );
                assert_eq!((403, &*sentence), (it.status, json(&it)["detail"].as_str().unwrap()), "{path}");
                refused += 1;
            }
        }
    }
    assert!(refused > 30 && permitted > 130, "{refused}, {permitted}");
    unusual.retain(|it| it != "GET /cache/reset/{uri} operator");
    unusual.sort();
    // A viewer changes nothing but its own sessions; what it may not read is listed here.
    assert_eq!(
        [
            "GET /api/v1/audit admin",
            "GET /api/v1/sessions admin",
            "GET /api/v1/tokens admin",
            "POST /api/v1/explain viewer",
            "POST /api/v1/login-links viewer",
            "POST /api/v1/logout viewer",
            "POST /api/v1/logout/everywhere viewer",
            "POST /api/v1/purge/preview viewer",
            "POST /cache/explain viewer",
        ],
        *unusual
    );
    for path in ["/api/v1/config", "/api/v1/config/rollback", "/api/v1/config/check", "/api/v1/upgrade"] {
        for method in ["PUT", "POST"] {
            assert_ne!(200, status(&larder, OPERATOR, method, path), "{path}");
        }
    }
}

#[test]
fn an_operator_works_and_a_viewer_reads() {
    let origin = page();
    let larder = start(&origin);
    assert_eq!(200, larder.get("/").status);
    assert!(larder.get("/").is_hit());
    for (token, expect) in [(VIEWER, 403), (OPERATOR, 200)] {
        let purge = fetch(&larder, token, "POST", "/cache/purge", "{\"all\":true}");
        assert_eq!(expect, purge.status, "{purge:?}");
        assert_eq!(expect == 403, larder.get("/").is_hit());
        let overlay = fetch(&larder, token, "PUT", "/api/v1/overlays?uri=/late&status=503", "late");
        assert_eq!(expect, overlay.status, "{overlay:?}");
        assert_eq!(if expect == 200 { 503 } else { 200 }, larder.get("/late").status);
        // Maintenance is an edit of the file, which an operator cannot replace otherwise.
        assert_eq!(expect, status(&larder, token, "PUT", "/api/v1/maintenance?host=*"));
        let text = std::fs::read_to_string(larder.config()).unwrap();
        assert_eq!(expect == 200, text.contains("enabled = true"), "{text}");
        assert!(text.contains("# a comment: hunter2") && text.contains("literal-of-the-origin"), "{text}");
        assert_eq!(if expect == 200 { 503 } else { 200 }, larder.get("/a").status);
        assert_eq!(expect, status(&larder, token, "DELETE", "/api/v1/maintenance"));
        assert_eq!(200, larder.get("/a").status);
        assert_eq!(200, status(&larder, token, "GET", "/api/v1/stats"));
    }
    assert_eq!(404, status(&larder, OPERATOR, "PUT", "/api/v1/maintenance?host=other.test"));
    let list = get(&larder, VIEWER, "/api/v1/maintenance");
    assert_eq!(serde_json::json!({ "sites": [{ "hosts": ["*"], "maintenance": false }] }), list);
}

#[test]
fn a_viewer_reads_no_secret() {
    let origin = page();
    let larder = start(&origin);
    larder.get("/");
    let seen = get(&larder, TOKEN, "/api/v1/config");
    let text = seen["text"].as_str().unwrap();
    assert!(text.contains("# a comment: hunter2") && text.contains("word-of-a-field"), "{text}");
    assert_eq!(seen["hash"], seen["running_hash"]);
    for (token, _, _) in &ROLES[..2] {
        let all = get(&larder, token, "/api/v1/openapi.json");
        for (path, methods) in all["paths"].as_object().unwrap() {
            let report = &methods["get"];
            let is_stream = report["responses"]["200"]["content"]["text/event-stream"].is_object();
            if !report.is_object() || path.contains('{') || is_stream {
                continue;
            }
            let query = report["x-example"]["query"].as_str().unwrap_or_default();
            let it = fetch(&larder, token, "GET", &format!("{path}?{query}"), "");
            let hidden =
                ["hunter2", "literal-of-the-origin", "word-of-a-field", VIEWER, OPERATOR, SECOND, TOKEN];
            for secret in hidden {
                assert!(!it.text().contains(secret), "{path} shows {secret}: {}", it.text());
            }
        }
        let own = get(&larder, token, "/api/v1/config");
        assert_ne!(seen["hash"], own["hash"], "a hash of comments would help to guess them");
        assert_eq!(own["hash"], own["running_hash"]);
        let asked = "{\"url\":\"http://www.example.com/\"}";
        let report = fetch(&larder, token, "POST", "/api/v1/explain", asked).text();
        assert!(!report.contains("hunter2") && !report.contains("literal-of-the-origin"), "{report}");
    }
}

#[test]
fn a_session_has_the_name_and_the_role_of_its_token() {
    let origin = page();
    let larder = start(&origin);
    let (viewer, admin) = (session(&larder, VIEWER), session(&larder, TOKEN));
    assert_eq!(["grafana", "viewer"], [viewer["name"].as_str().unwrap(), viewer["role"].as_str().unwrap()]);
    let (seen, owner) = (viewer["token"].as_str().unwrap(), admin["token"].as_str().unwrap());
    assert_eq!("grafana", get(&larder, seen, "/api/v1/whoami")["name"]);
    assert_eq!(403, status(&larder, seen, "POST", "/cache/purge"));
    assert_eq!("viewer", session(&larder, seen)["role"], "a link of a session has no more rights");
    let list = get(&larder, owner, "/api/v1/sessions");
    let rows: Vec<&Value> = list["sessions"].as_array().unwrap().iter().collect();
    assert_eq!(3, rows.len(), "{list}");
    let own = rows.iter().find(|it| it["own"] == true).unwrap();
    assert_eq!((&admin["session"], "127.0.0.1"), (&own["id"], own["from"].as_str().unwrap()));
    let tokens = get(&larder, owner, "/api/v1/tokens");
    let find = |name: &str| {
        tokens["tokens"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone()
    };
    assert_eq!((2, true), (find("grafana")["sessions"].as_u64().unwrap(), find("grafana")["used"].is_u64()));
    assert!(find("night-shift")["used"].is_null(), "{tokens}");
    // One is ended by an admin, and by no viewer.
    let path = format!("/api/v1/sessions/{}", viewer["session"]);
    assert_eq!(403, status(&larder, seen, "DELETE", &path));
    assert_eq!(
        (200, 401),
        (status(&larder, owner, "DELETE", &path), status(&larder, seen, "GET", "/api/v1/whoami"))
    );
    assert_eq!(404, status(&larder, owner, "DELETE", &path));
    // Everywhere is the own token only.
    let link = json(&fetch(&larder, VIEWER, "POST", "/api/v1/login-links", ""))["code"].clone();
    let everywhere = json(&fetch(&larder, VIEWER, "POST", "/api/v1/logout/everywhere", ""));
    assert_eq!(1, everywhere["ended"], "{everywhere}");
    assert_eq!(403, fetch(&larder, VIEWER, "POST", "/api/v1/login", &format!("{{\"code\":{link}}}")).status);
    assert_eq!(200, status(&larder, owner, "GET", "/api/v1/sessions"));
    assert_eq!(404, status(&larder, TOKEN, "DELETE", "/api/v1/sessions?token=none"));
    assert_eq!(200, status(&larder, TOKEN, "DELETE", "/api/v1/sessions"));
    assert_eq!(401, status(&larder, owner, "GET", "/api/v1/sessions"));
}

#[test]
fn a_reload_ends_the_sessions_and_streams_of_a_changed_token() {
    let origin = page();
    let larder = start(&origin);
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let open = |token: &str| {
        let mut listener = Client::connect(larder.admin);
        let host = larder.admin;
        listener.send(format!(
            "GET /api/v1/stream HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
        ));
        listener.read_raw_head();
        listener
    };
    let token_of = |token: &str| session(&larder, token)["token"].as_str().unwrap().to_owned();
    let (viewer, operator, own) = (token_of(VIEWER), token_of(OPERATOR), token_of(TOKEN));
    let (mut first, mut second, mut third) = (open(&viewer), open(VIEWER), open(&own));
    let link = json(&fetch(&larder, OPERATOR, "POST", "/api/v1/login-links", ""))["code"].clone();
    // A removed token, and a smaller role.
    let removed = text.replace(
        &format!("[[admin.tokens]]\nname = \"grafana\"\nrole = \"viewer\"\ntoken = \"{VIEWER}\"\n"),
        "",
    );
    assert_ne!(text, removed);
    reload(&larder, &removed.replace("role = \"operator\"", "role = \"viewer\""));
    for token in [&*viewer, VIEWER, &operator] {
        assert_eq!(401, status(&larder, token, "GET", "/api/v1/whoami"));
    }
    assert_eq!(
        403,
        fetch(&larder, OPERATOR, "POST", "/api/v1/login", &format!("{{\"code\":{link}}}")).status
    );
    assert_eq!("viewer", get(&larder, OPERATOR, "/api/v1/whoami")["role"]);
    assert_eq!(200, status(&larder, &own, "GET", "/api/v1/sessions"));
    // Quiet streams end as well, with nothing of what happened afterwards.
    larder.get("/afterwards");
    for it in [&mut first, &mut second] {
        while let Some(chunk) = it.read_chunk() {
            assert!(!String::from_utf8(chunk).unwrap().contains("/afterwards"));
        }
    }
    let mut report = String::new();
    while !report.contains("/afterwards") {
        report.push_str(&String::from_utf8(third.read_chunk().expect("it goes on")).unwrap());
    }
}

#[test]
fn a_restart_keeps_the_sessions_of_tokens_that_are_unchanged() {
    let (origin, folder) = (page(), tempfile::tempdir().unwrap());
    let at = |it: &str| folder.path().join(it).display().to_string();
    let text = config(&origin, &tokens());
    std::fs::write(at("larder.toml"), &text).unwrap();
    let start = || {
        let first = format!("export XDG_STATE_HOME={}", at("state"));
        Larder::within(&first, &["run", "-c", &at("larder.toml")])
    };
    let larder = start();
    let token_of = |token: &str| session(&larder, token)["token"].as_str().unwrap().to_owned();
    let (viewer, operator) = (token_of(VIEWER), token_of(OPERATOR));
    drop(larder);
    let larder = start();
    assert_eq!("viewer", get(&larder, &viewer, "/api/v1/whoami")["role"]);
    assert_eq!("operator", get(&larder, &operator, "/api/v1/whoami")["role"]);
    drop(larder);
    // While it is stopped one token changes, and the other gets more rights.
    let text = text
        .replace(VIEWER, "another-0123456789abcdefghijklmnopqrstu")
        .replace("role = \"operator\"", "role = \"admin\"");
    std::fs::write(at("larder.toml"), text).unwrap();
    let larder = start();
    for token in [&viewer, &operator] {
        assert_eq!(401, status(&larder, token, "GET", "/api/v1/whoami"));
    }
    let files = std::fs::read_dir(folder.path().join("state/larder")).unwrap().flatten();
    for file in files.filter(|it| it.file_name().to_string_lossy().starts_with("sessions-")) {
        let kept = std::fs::read_to_string(file.path()).unwrap();
        for secret in [VIEWER, OPERATOR, &viewer, &operator] {
            assert!(!kept.contains(secret), "{kept}");
        }
    }
}

/// A new file of sessions cannot be written beside the old one here.
#[test]
fn a_session_that_has_ended_does_not_return_where_its_file_cannot_be_written() {
    let (origin, folder) = (page(), tempfile::tempdir().unwrap());
    let at = |it: &str| folder.path().join(it).display().to_string();
    std::fs::write(at("larder.toml"), config(&origin, &tokens())).unwrap();
    let start = || {
        let first = format!("export XDG_STATE_HOME={}", at("state"));
        Larder::within(&first, &["run", "-c", &at("larder.toml")])
    };
    let larder = start();
    let token = || session(&larder, VIEWER)["token"].as_str().unwrap().to_owned();
    let (ended, other) = (token(), token());
    let file = std::fs::read_dir(folder.path().join("state/larder")).unwrap().flatten();
    let file = file.map(|it| it.path()).find(|it| it.to_string_lossy().contains("/sessions-")).unwrap();
    std::fs::create_dir(file.with_extension("new")).unwrap();
    assert_eq!(200, status(&larder, &ended, "POST", "/api/v1/logout"));
    assert_eq!(
        (401, 200),
        (status(&larder, &ended, "GET", "/api/v1/whoami"), status(&larder, &other, "GET", "/api/v1/whoami"))
    );
    drop(larder);
    let larder = start();
    for token in [&ended, &other] {
        assert_eq!(401, status(&larder, token, "GET", "/api/v1/whoami"), "both end with the process");
    }
    // A file that cannot be removed either.
    let session = session(&larder, VIEWER)["token"].as_str().unwrap().to_owned();
    std::fs::create_dir(&file).unwrap();
    let answer = fetch(&larder, &session, "POST", "/api/v1/logout", "");
    assert_eq!(500, answer.status);
    assert!(answer.text().contains("would be valid again after a restart"), "{}", answer.text());
    assert_eq!(401, status(&larder, &session, "GET", "/api/v1/whoami"));
}

#[test]
fn no_token_displaces_the_sessions_of_another() {
    let origin = page();
    let larder = start(&origin);
    let own = session(&larder, TOKEN)["token"].as_str().unwrap().to_owned();
    let link = json(&fetch(&larder, TOKEN, "POST", "/api/v1/login-links", ""))["code"].clone();
    for _ in 0..70 {
        session(&larder, VIEWER);
    }
    for _ in 0..20 {
        assert_eq!(200, status(&larder, VIEWER, "POST", "/api/v1/login-links"));
    }
    assert_eq!(200, status(&larder, &own, "GET", "/api/v1/sessions"), "it was used the longest ago");
    assert_eq!(200, fetch(&larder, TOKEN, "POST", "/api/v1/login", &format!("{{\"code\":{link}}}")).status);
}

/// The entries of the requests of the scenario below, the latest first, and by each filter.
#[track_caller]
fn check_entries(larder: &Larder) {
    let rows = |query: &str| {
        let response = get(larder, TOKEN, &format!("/api/v1/audit{query}"));
        let row = |it: &Value| {
            let text = |name: &str| it[name].as_str().unwrap_or("-").to_owned();
            format!("{} {} {} {} {}", text("who"), text("role"), text("method"), text("path"), it["status"])
        };
        response["entries"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let expect = [
        "nobody - GET /api/v1/stats 401",
        "second admin PUT /api/v1/overlays 200",
        "second admin POST /api/v1/login 200",
        "second admin POST /api/v1/login-links 200",
        "grafana viewer PUT /api/v1/config 403",
        "night-shift operator POST /cache/purge 200",
    ];
    assert_eq!(expect, *rows(""));
    assert_eq!(["night-shift operator POST /cache/purge 200"], *rows("?who=night-shift"));
    assert_eq!(["grafana viewer PUT /api/v1/config 403"], *rows("?status=403"));
    assert_eq!(["second admin PUT /api/v1/overlays 200"], *rows("?search=PUT&kind=changes"));
    assert_eq!(2, rows("?kind=refused").len());
    assert_eq!(1, rows("?limit=1").len());
}

#[test]
fn the_audit_log_names_the_token_and_outlives_a_restart() {
    let (origin, folder) = (page(), tempfile::tempdir().unwrap());
    let at = |it: &str| folder.path().join(it).display().to_string();
    std::fs::write(at("larder.toml"), config(&origin, &tokens())).unwrap();
    let start = || {
        let first = format!("export XDG_STATE_HOME={}", at("state"));
        Larder::within(&first, &["run", "-c", &at("larder.toml")])
    };
    let larder = start();
    assert_eq!(200, fetch(&larder, OPERATOR, "POST", "/cache/purge", "{\"tag\":\"a\"}").status);
    assert_eq!(403, fetch(&larder, VIEWER, "PUT", "/api/v1/config", "{\"text\":\"\"}").status);
    let own = session(&larder, SECOND)["token"].as_str().unwrap().to_owned();
    assert_eq!(200, fetch(&larder, &own, "PUT", "/api/v1/overlays?uri=/late", "late").status);
    assert_eq!(401, status(&larder, &format!("x{VIEWER}"), "GET", "/api/v1/stats"));
    check_entries(&larder);
    let log = || std::fs::read_to_string(at("audit.log")).unwrap_or_default();
    until("they are in the file", || log().lines().count() >= 6);
    let text = log();
    assert!(text.contains("admin-write who=second role=admin session=1 from=127.0.0.1:"), "{text}");
    let login = text.lines().find(|it| it.contains("path=/api/v1/login ")).unwrap_or_default();
    assert!(login.contains("admin-write who=second role=admin session=1 from="), "{text}");
    for secret in [VIEWER, OPERATOR, SECOND, TOKEN, &own] {
        assert!(!text.contains(secret), "{text}");
    }
    let admin = larder.admin.to_string();
    let output = run(larder.folder.path(), &["audit", "--admin", &admin]);
    assert_eq!(0, output.code, "{output:?}");
    for part in ["night-shift", "403", "POST /cache/purge", "requires the role admin"] {
        assert!(output.out.contains(part), "{part}: {output:?}");
    }
    let kept = log();
    drop(larder);
    // A line that is damaged, and one that was cut by the end of the process.
    std::fs::write(
        at("audit.log"),
        format!("\0\0\nnonsense\n{kept}2026-01-31T10:00:00Z info admin-write who=x stat"),
    )
    .unwrap();
    check_entries(&start());
}

/// The audit log of the page was empty after a restart where `admin.audit` names no file.
#[test]
fn the_audit_log_outlives_a_restart_without_a_file_of_its_own() {
    let (origin, folder) = (page(), tempfile::tempdir().unwrap());
    let at = |it: &str| folder.path().join(it).display().to_string();
    let text = config(&origin, &tokens()).replace("audit = \"audit.log\"\n", "");
    std::fs::write(at("larder.toml"), text).unwrap();
    let start = || {
        let first = format!("export XDG_STATE_HOME={}", at("state"));
        Larder::within(&first, &["run", "-c", &at("larder.toml")])
    };
    let larder = start();
    assert_eq!(200, fetch(&larder, OPERATOR, "POST", "/cache/purge", "{\"tag\":\"a\"}").status);
    let kept = || {
        let files = std::fs::read_dir(folder.path().join("state/larder")).into_iter().flatten().flatten();
        let of_audit = |it: &std::fs::DirEntry| it.file_name().to_string_lossy().starts_with("audit-");
        files.filter(of_audit).filter_map(|it| std::fs::read_to_string(it.path()).ok()).collect::<String>()
    };
    until("the entry is kept", || kept().contains("/cache/purge"));
    assert!(!kept().contains(OPERATOR));
    drop(larder);
    let larder = start();
    let response = fetch(&larder, TOKEN, "GET", "/api/v1/audit", "");
    assert!(response.text().contains("/cache/purge"), "{}", response.text());
}

#[test]
fn a_mistake_in_a_token_is_one_sentence_with_its_line() {
    let origin = page();
    let folder = tempfile::tempdir().unwrap();
    let long = "0123456789abcdefghijklmnopqrstuvwxyz";
    let one = |name: &str, role: &str, token: &str| {
        format!("[[admin.tokens]]\nname = \"{name}\"\nrole = \"{role}\"\ntoken = \"{token}\"\n")
    };
    let cases = [
        (
            one("a", "viewer", "short"),
            "larder.toml:10:",
            "admin.tokens.token: a token must have 32 to 512 characters; this one has 5; `openssl rand -hex 32` prints a good one",
        ),
        (
            one("a", "viewer", ""),
            "larder.toml:10:",
            "admin.tokens.token: found another value; allowed: a text",
        ),
        (
            one("a", "viewer", &format!("{long} {long}")),
            "larder.toml:10:",
            "admin.tokens.token: a token may contain only letters",
        ),
        (one("a", "viewer", "file:none.token"), "larder.toml:10:", "admin.tokens.token: "),
        (
            one("a", "editor", long),
            "larder.toml:9:",
            "admin.tokens.role: found \"editor\"; allowed: one of \"viewer\", \"operator\", \"admin\"",
        ),
        (
            one("admin", "viewer", long),
            "larder.toml:8:",
            "admin.tokens.name: \"admin\" is a name of larder's own; choose another name",
        ),
        (
            one("a", "viewer", long) + &one("a", "viewer", SECOND),
            "larder.toml:12:",
            "admin.tokens.name: duplicate token name \"a\"; rename one",
        ),
        (
            one("a", "viewer", long) + &one("b", "admin", long),
            "larder.toml:14:",
            "admin.tokens.token: the same token as that of \"a\"; generate another one",
        ),
        (
            one("a", "viewer", TOKEN),
            "larder.toml:10:",
            "admin.tokens.token: the same token as that of \"admin\"; generate another one",
        ),
        (
            "[[admin.tokens]]\nname = \"a\"\n".to_owned(),
            "larder.toml:7:",
            "admin.tokens.role: missing; add it, such as role = \"viewer\"",
        ),
    ];
    for (sections, place, sentence) in cases {
        std::fs::write(folder.path().join("larder.toml"), config(&origin, &sections)).unwrap();
        let output = run(folder.path(), &["check"]);
        let line = output.err.lines().chain(output.out.lines()).find(|it| it.contains(sentence));
        let line = line.unwrap_or_else(|| panic!("{sentence}: {output:?}"));
        assert!(line.contains(place), "{place}: {line}");
        assert!(output.code != 0 && !line.contains(long) && !line.contains(TOKEN), "{output:?}");
    }
    // From a file, with a literal's warning gone.
    std::fs::write(folder.path().join("good.token"), format!("{long}\n")).unwrap();
    std::fs::write(
        folder.path().join("larder.toml"),
        config(&origin, &one("a", "viewer", "file:good.token")),
    )
    .unwrap();
    let output = run(folder.path(), &["check"]);
    assert_eq!(0, output.code, "{output:?}");
}

/// A changed file of a token counts as a change of the configuration.
#[test]
fn a_token_of_a_file_is_replaced_by_a_reload() {
    let origin = page();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("grafana.token");
    std::fs::write(&file, format!("{VIEWER}\n")).unwrap();
    let section = format!(
        "[[admin.tokens]]\nname = \"grafana\"\nrole = \"viewer\"\ntoken = \"file:{}\"\n",
        file.display()
    );
    let larder = Larder::configured(config(&origin, &section));
    let own = session(&larder, VIEWER)["token"].as_str().unwrap().to_owned();
    std::fs::write(&file, format!("{SECOND}\n")).unwrap();
    let before = larder.counter("config_reloads");
    larder.signal(libc::SIGHUP);
    until("the reload is done", || larder.counter("config_reloads") > before);
    assert_eq!(
        [401, 401, 200],
        [&*own, VIEWER, SECOND].map(|it| status(&larder, it, "GET", "/api/v1/whoami"))
    );
}

/// Live hid the secrets in the URLs of clients, and the key in an explanation, the list of objects and their search gave them away.
#[test]
fn secrets_in_urls_are_hidden_from_every_view_of_a_viewer() {
    let origin = page();
    let larder = start(&origin);
    larder.get("/a;jsessionid=SECRET-ID?page=1&token=SECRET-TOKEN");
    let mut seen = Vec::new();
    until("it is stored", || {
        let objects = get(&larder, VIEWER, "/api/v1/objects?search=page=1");
        seen = vec![objects.to_string()];
        objects["objects"].as_array().is_some_and(|it| it.len() == 1)
    });
    let found = |token: &str, search: &str| {
        let response = get(&larder, token, &format!("/api/v1/objects?search={search}"));
        response["matched"].as_u64().unwrap()
    };
    let id = get(&larder, VIEWER, "/api/v1/objects")["objects"][0]["id"].as_str().unwrap().to_owned();
    for search in ["SECRET", "token=SECRET", "*SECRET-TOKEN", "jsessionid=SECRET-I"] {
        assert_eq!([0, 0], [found(VIEWER, search), found(TOKEN, search)], "{search}");
    }
    assert_eq!(1, found(VIEWER, "jsessionid"));
    let object = format!("/api/v1/objects/{id}");
    seen.push(get(&larder, VIEWER, &object).to_string());
    let url = get(&larder, OPERATOR, &object)["url"].as_str().unwrap().to_owned();
    assert!(
        url.ends_with("/a;jsessionid=SECRET-ID?page=1&token=SECRET-TOKEN"),
        "an operator purges it: {url}"
    );
    let asked = format!("{{\"url\":\"{url}\"}}");
    let explained = json(&fetch(&larder, VIEWER, "POST", "/api/v1/explain", &asked));
    seen.push(explained["key"]["text"].to_string());
    for it in seen {
        assert!(!it.contains("SECRET"), "{it}");
    }
}
