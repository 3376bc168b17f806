//! Access to the admin: none without the token, for pages of another origin, or for clients of
//! a public listener.

use crate::harness::command::run;
use crate::harness::server::{Setup, TOKEN, binary};
use crate::harness::{Client, Larder, Origin, Response, until};
use serde_json::Value;
use std::io::BufRead as _;
use std::os::fd::FromRawFd as _;
use std::os::unix::fs::PermissionsExt as _;

fn page() -> Origin {
    Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage")
}

/// A request with these lines and nothing else.
fn send(larder: &Larder, first: &str, lines: &[&str], body: &str) -> Response {
    let mut client = Client::connect(larder.admin);
    let mut text = format!("{first} HTTP/1.1\r\n");
    for line in lines {
        text.push_str(&format!("{line}\r\n"));
    }
    client.send(format!("{text}Content-Length: {}\r\n\r\n{body}", body.len()));
    client.read()
}

/// The same with our own `Host` and these lines.
fn fetch(larder: &Larder, first: &str, lines: &[&str], body: &str) -> Response {
    let host = format!("Host: {}", larder.admin);
    send(larder, first, &[&[host.as_str()], lines].concat(), body)
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

fn json(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap_or_else(|it| panic!("{it}: {response:?}"))
}

/// The login link of `larder login`: only the code.
fn printed_code(larder: &Larder) -> String {
    let admin = larder.admin.to_string();
    let output = run(larder.folder.path(), &["login", "--admin", &admin]);
    assert_eq!(0, output.code, "{output:?}");
    output.out.trim().strip_prefix(&format!("http://{admin}/#login=")).unwrap().to_owned()
}

/// Standard output may be a log, which others read; a terminal is not.
#[test]
fn the_start_prints_a_login_link_on_a_terminal_alone() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    until("it has started", || larder.printed().contains("\"larder login\" prints a link to log in"));
    assert!(!larder.printed().contains("#login="), "{}", larder.printed());
    let (mut ours, mut theirs) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both descriptors are written during the call, and belong to nothing else after it.
    let (ours, theirs) = unsafe {
        assert_eq!(0, libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast()));
        (std::fs::File::from_raw_fd(ours), std::fs::File::from_raw_fd(theirs))
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(binary());
    command
        .args(["serve", ".", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .current_dir(folder.path());
    command.env_remove("LARDER_ADMIN_TOKEN").env("XDG_STATE_HOME", folder.path());
    let mut child = command.env("XDG_RUNTIME_DIR", folder.path()).stdout(theirs).spawn().unwrap();
    let lines = std::io::BufReader::new(ours).lines();
    let found = lines.map_while(Result::ok).find(|it| it.contains("login"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(found.as_ref().is_some_and(|it| it.contains("/#login=")), "{found:?}");
}

fn login(larder: &Larder, code: &str) -> Response {
    fetch(larder, "POST /api/v1/login", &[], &format!("{{\"code\":\"{code}\"}}"))
}

#[test]
fn only_the_token_lets_in() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let right = bearer(TOKEN);
    assert_eq!(200, fetch(&larder, "GET /cache/stats", &[&right], "").status);
    assert_eq!(200, fetch(&larder, "GET /cache/stats", &[&right.replace("Bearer", "bearer")], "").status);
    let wrong = [
        vec![],
        vec![bearer("")],
        vec![bearer(&TOKEN[1..])],
        vec![bearer(&format!("{TOKEN}x"))],
        vec![format!("Authorization: Basic {TOKEN}")],
        vec![format!("Authorization: {TOKEN}")],
        vec![bearer(TOKEN), bearer(TOKEN)],
        vec![format!("Cookie: token={TOKEN}")],
    ];
    for lines in wrong {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let it = fetch(&larder, "GET /cache/stats", &lines, "");
        assert_eq!(
            (401, Some("Bearer realm=\"larder\"")),
            (it.status, it.field("www-authenticate")),
            "{lines:?}"
        );
        assert_eq!(401, json(&it)["status"], "{lines:?}");
    }
    let it = fetch(&larder, &format!("GET /cache/stats?token={TOKEN}"), &[], "");
    assert_eq!(401, it.status, "{it:?}");
}

#[test]
fn requests_without_the_token_get_only_the_page_and_healthz() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    for path in ["/api/v1/openapi.json", "/metrics", "/api/v1/stats", "/api/v1", "/health", "/healthz/"] {
        assert_eq!(401, fetch(&larder, &format!("GET {path}"), &[], "").status, "{path}");
    }
    let it = fetch(&larder, "GET /healthz", &[], "");
    assert_eq!((200, "ok\n", Some("text/plain")), (it.status, it.text().as_str(), it.field("content-type")));
    assert_eq!(None, it.field("server"));
    assert_eq!(405, fetch(&larder, "POST /healthz", &[&bearer(TOKEN)], "").status);
    assert_eq!(421, send(&larder, "GET /", &["Host: lured.example"], "").status);
    assert_eq!(200, fetch(&larder, "GET /api/v1/openapi.json", &[&bearer(TOKEN)], "").status);
}

/// Load balancers ask by an address of their own, older monitors over HTTP/1.0: both got 421, and the audit log a line for each.
#[test]
fn a_monitor_needs_no_host() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    for head in [
        "GET /healthz HTTP/1.0\r\n\r\n",
        "HEAD /healthz HTTP/1.0\r\n\r\n",
        "GET /healthz HTTP/1.0\r\nHost: balancer.example\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: balancer.example:8080\r\nConnection: close\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: balancer.example\r\nOrigin: http://other.example\r\n\r\n",
    ] {
        let mut client = Client::connect(larder.admin);
        let found = client.send(head).read_for(head.split(' ').next().unwrap());
        assert_eq!(200, found.status, "{head}");
    }
    // Nothing else is open so.
    for head in ["GET /healthz?x HTTP/1.0\r\n\r\n", "POST /healthz HTTP/1.0\r\nContent-Length: 0\r\n\r\n"] {
        assert_ne!(200, Client::connect(larder.admin).send(head).read().status, "{head}");
    }
    assert_eq!(421, Client::connect(larder.admin).send("GET / HTTP/1.0\r\n\r\n").read().status);
}

#[test]
fn a_name_that_was_lured_here_is_refused() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let (token, port) = (bearer(TOKEN), larder.admin.port());
    let ours = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LOCALHOST:{port}"),
        format!("[::1]:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
    ];
    for host in ours {
        let it = send(&larder, "GET /cache/stats", &[&format!("Host: {host}"), &token], "");
        assert_eq!(200, it.status, "{host}: {it:?}");
    }
    let foreign = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        "[::1]".to_owned(),
        format!("0.0.0.0:{port}"),
        format!("[::]:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("2130706433:{port}"),
    ];
    for host in foreign {
        for first in ["GET /cache/stats", "GET /", "POST /api/v1/login", "POST /cache/purge"] {
            let it = send(&larder, first, &[&format!("Host: {host}"), &token], "");
            assert_eq!(421, it.status, "{host}, {first}: {it:?}");
            assert_eq!(421, json(&it)["status"], "{host}, {first}");
        }
    }
    let absolute = send(&larder, "GET http://evil.example/cache/stats", &["Host: evil.example", &token], "");
    assert_eq!(421, absolute.status);
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    larder.get("/");
    let token = bearer(TOKEN);
    let port = larder.admin.port();
    let foreign = [
        "Origin: http://evil.example".to_owned(),
        "Origin: null".to_owned(),
        format!("Origin: http://evil.example:{port}"),
        format!("Origin: https://127.0.0.1:{port}"),
        format!("Origin: http://127.0.0.1:{}", larder.address.port()),
        "Origin: ".to_owned(),
        "Sec-Fetch-Site: cross-site".to_owned(),
        "Sec-Fetch-Site: same-site".to_owned(),
    ];
    for line in foreign {
        // What a form or a simple request of a page may send without asking first.
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json"] {
            let kind = format!("Content-Type: {kind}");
            let it = fetch(&larder, "POST /cache/purge", &[&line, &kind, &token], "{\"all\":true}");
            assert_eq!((403, 403), (it.status, json(&it)["status"].as_u64().unwrap()), "{line}: {it:?}");
        }
    }
    // What the browser sends of itself is not the token: without it, nothing happens in any case.
    let it = fetch(&larder, "POST /cache/purge", &["Content-Type: text/plain"], "{\"all\":true}");
    assert_eq!(401, it.status);
    assert!(larder.get("/").is_hit(), "nothing was purged");
    let preflight = ["Origin: http://evil.example", "Access-Control-Request-Method: POST"];
    let it = fetch(&larder, "OPTIONS /cache/purge", &preflight, "");
    assert_eq!((403, None), (it.status, it.field("access-control-allow-origin")));
    let ours = [format!("Origin: http://127.0.0.1:{port}"), format!("Origin: http://localhost:{port}")];
    for line in ours {
        let site = "Sec-Fetch-Site: same-origin";
        let it = fetch(&larder, "POST /cache/purge", &[&line, site, &token], "{\"all\":true}");
        assert_eq!(200, it.status, "{line}: {it:?}");
    }
    assert!(!larder.get("/").is_hit(), "it was purged");
}

#[test]
fn a_proxy_before_it_has_a_name_of_the_configuration() {
    let origin = page();
    let url = origin.url();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\nhosts = [\"ops.example.com\"]\n[[site]]\n\
         hosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{url}\"] }}\n"
    ));
    let token = bearer(TOKEN);
    for (host, origin, status) in [
        ("ops.example.com", "https://ops.example.com", 200),
        ("OPS.example.com:8443", "https://ops.example.com:8443", 200),
        ("ops.example.com", "https://ops.example.com.evil.example", 403),
        ("ops.example.com", "https://evil.example", 403),
        ("ops.example.com.evil.example", "https://ops.example.com", 421),
        ("x.ops.example.com", "https://ops.example.com", 421),
    ] {
        let lines = [&*format!("Host: {host}"), &*format!("Origin: {origin}"), &*token];
        let it = send(&larder, "POST /api/v1/login-links", &lines, "");
        assert_eq!(status, it.status, "{host} {origin}: {it:?}");
        if status == 200 {
            let link = json(&it)["link"].as_str().unwrap().to_owned();
            assert!(link.starts_with(&format!("https://{host}/#login=")), "{link}");
        }
    }
}

#[test]
fn a_login_link_works_once_and_for_ten_minutes() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let code = printed_code(&larder);
    let session = login(&larder, &code);
    assert_eq!(200, session.status, "{session:?}");
    let token = json(&session)["token"].as_str().unwrap().to_owned();
    let shown = bearer(&token);
    assert_eq!(200, fetch(&larder, "GET /cache/stats", &[&shown], "").status);
    let again = login(&larder, &code);
    assert_eq!((403, true), (again.status, again.text().contains("already used")), "{again:?}");

    let code = printed_code(&larder);
    larder.advance(601);
    assert_eq!(403, login(&larder, &code).status, "it is over ten minutes old");
    assert_eq!(200, fetch(&larder, "GET /cache/stats", &[&shown], "").status, "the session lasts");

    assert_eq!(200, fetch(&larder, "POST /api/v1/logout", &[&shown], "").status);
    assert_eq!(401, fetch(&larder, "GET /cache/stats", &[&shown], "").status, "it has ended");
    assert_eq!(409, fetch(&larder, "POST /api/v1/logout", &[&bearer(TOKEN)], "").status);
}

#[test]
fn a_session_ends_when_it_is_not_used() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let session = json(&login(&larder, &printed_code(&larder)));
    let shown = bearer(session["token"].as_str().unwrap());
    let status = || fetch(&larder, "GET /cache/stats", &[&shown], "").status;
    const HOUR: i64 = 3600;
    for _ in 0..15 {
        larder.advance(11 * HOUR);
        assert_eq!(200, status(), "it is used");
    }
    larder.advance(11 * HOUR);
    assert_eq!(401, status(), "a week is over");
    let link = json(&fetch(&larder, "POST /api/v1/login-links", &[&bearer(TOKEN)], ""));
    let session = json(&login(&larder, link["code"].as_str().unwrap()));
    let shown = bearer(session["token"].as_str().unwrap());
    larder.advance(13 * HOUR);
    assert_eq!(401, fetch(&larder, "GET /cache/stats", &[&shown], "").status, "nobody used it");
}

#[test]
fn a_restart_keeps_sessions() {
    let (origin, folder) = (page(), tempfile::tempdir().unwrap());
    let at = |it: &str| folder.path().join(it).display().to_string();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\nadmin.listen = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    );
    std::fs::write(at("larder.toml"), config).unwrap();
    let start = |more: &str| {
        let first = format!("export XDG_STATE_HOME={} {more}", at("state"));
        Larder::within(&first, &["run", "-c", &at("larder.toml")])
    };
    let status =
        |larder: &Larder, token: &str| fetch(larder, "GET /cache/stats", &[&bearer(token)], "").status;
    let larder = start("");
    let logged_in = |code: &str| json(&login(&larder, code))["token"].as_str().unwrap().to_owned();
    let stays = logged_in(&printed_code(&larder));
    let link = json(&fetch(&larder, "POST /api/v1/login-links", &[&bearer(TOKEN)], ""));
    let leaves = logged_in(link["code"].as_str().unwrap());
    assert_eq!(200, fetch(&larder, "POST /api/v1/logout", &[&bearer(&leaves)], "").status);
    // Killed: nothing is written at its end.
    drop(larder);
    let larder = start("");
    assert_eq!([200, 401], [status(&larder, &stays), status(&larder, &leaves)]);
    drop(larder);
    let files = std::fs::read_dir(folder.path().join("state/larder")).unwrap().flatten();
    let sessions = files.map(|it| it.path()).find(|it| it.to_string_lossy().contains("/sessions-")).unwrap();
    assert!(!std::fs::read_to_string(&sessions).unwrap().contains(&stays), "it is no credential");
    // A changed admin token ends them.
    let larder = start("LARDER_ADMIN_TOKEN=another-token-of-the-same-admin-0123456789");
    assert_eq!(401, status(&larder, &stays));
}

#[test]
fn a_stream_ends_with_its_session() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let session = json(&login(&larder, &printed_code(&larder)));
    let shown = bearer(session["token"].as_str().unwrap());
    let mut listener = Client::connect(larder.admin);
    listener.send(format!("GET /api/v1/stream HTTP/1.1\r\nHost: {}\r\n{shown}\r\n\r\n", larder.admin));
    listener.read_raw_head();
    larder.get("/told");
    let mut text = String::new();
    while !text.contains("/told") {
        text.push_str(&String::from_utf8(listener.read_chunk().expect("it goes on")).unwrap());
    }
    assert_eq!(200, fetch(&larder, "POST /api/v1/logout", &[&shown], "").status);
    larder.get("/untold");
    let mut rest = String::new();
    while let Some(chunk) = listener.read_chunk() {
        rest.push_str(&String::from_utf8(chunk).unwrap());
    }
    assert!(!rest.contains("/untold"), "{rest}");
}

#[test]
fn sessions_and_links_are_bounded() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let token = bearer(TOKEN);
    let link = || {
        let it = json(&fetch(&larder, "POST /api/v1/login-links", &[&token], ""));
        it["code"].as_str().unwrap().to_owned()
    };
    let first = json(&login(&larder, &link()))["token"].as_str().unwrap().to_owned();
    let second = json(&login(&larder, &link()))["token"].as_str().unwrap().to_owned();
    let works = |token: &str| fetch(&larder, "GET /cache/stats", &[&bearer(token)], "").status == 200;
    for _ in 2..64 {
        assert_eq!(200, login(&larder, &link()).status);
    }
    // The first was used since.
    assert!(works(&first));
    assert_eq!(200, login(&larder, &link()).status);
    assert_eq!((true, false), (works(&first), works(&second)));
    assert_eq!(1, larder.counter("admin_sessions_full"));
    let oldest = link();
    let newer: Vec<String> = (0..8).map(|_| link()).collect();
    assert_eq!((403, 200), (login(&larder, &oldest).status, login(&larder, &newer[0]).status));
}

#[test]
fn guesses_are_rate_limited_and_lock_out_no_user() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let guess = |at: usize| fetch(&larder, "GET /cache/stats", &[&bearer(&format!("guess-{at}"))], "").status;
    let answers: Vec<u16> = (0..200).map(guess).collect();
    assert!(answers[..20].iter().all(|it| *it == 401), "{answers:?}");
    // The clock runs on meanwhile: a few more of the right kind may come.
    let many = answers.iter().filter(|it| **it == 429).count();
    assert!(many >= 100, "{answers:?}");
    assert_eq!(200, fetch(&larder, "GET /cache/stats", &[&bearer(TOKEN)], "").status);
    assert_eq!(many as u64, larder.counter("admin_throttled"));
    assert_eq!(200, larder.counter("admin_wrong_tokens"));
    larder.advance(60);
    assert_eq!(401, guess(0));
}

#[test]
fn the_token_is_made_once_for_its_owner_and_found_by_the_commands() {
    let origin = page();
    let state = tempfile::tempdir().unwrap();
    let start = |state: &std::path::Path| {
        let env = [("XDG_STATE_HOME", state.to_str().unwrap()), ("LARDER_ADMIN_TOKEN", "")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
            origin.url()
        );
        Larder::start(Setup { config, env })
    };
    let larder = start(state.path());
    let file = state.path().join("larder/admin-token");
    assert_eq!(0o600, file.metadata().unwrap().permissions().mode() & 0o777);
    let token = std::fs::read_to_string(&file).unwrap();
    assert_eq!(200, fetch(&larder, "GET /cache/stats", &[&bearer(token.trim())], "").status);
    assert_eq!(401, fetch(&larder, "GET /cache/stats", &[&bearer(TOKEN)], "").status);
    assert!(!larder.printed().contains(token.trim()), "a token that is kept is not told");

    let admin = larder.admin.to_string();
    let login = |state: Option<&std::path::Path>| {
        let mut command = std::process::Command::new(crate::harness::server::binary());
        command.args(["login", "--admin", &admin]).current_dir(larder.folder.path());
        command.env_remove("LARDER_ADMIN_TOKEN").env("XDG_STATE_HOME", state.unwrap_or(larder.folder.path()));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (code, text) = login(Some(state.path()));
    assert!(code == Some(0) && text.contains("/#login="), "{text}");
    let (code, text) = login(None);
    assert_eq!(Some(1), code, "{text}");
    assert!(text.contains("requires its token (") && text.contains("LARDER_ADMIN_TOKEN"), "{text}");

    let again = start(state.path());
    assert_eq!(200, fetch(&again, "GET /cache/stats", &[&bearer(token.trim())], "").status, "it is kept");
}

#[test]
fn a_token_file_that_other_users_may_read_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let config = "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"token\"\n[[site]]\n\
                  hosts = [\"*\"]\n[[site.route]]\nfiles = { root = \".\" }\n";
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    let mut command = std::process::Command::new(crate::harness::server::binary());
    command.arg("run").current_dir(folder.path()).env_remove("LARDER_ADMIN_TOKEN");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(Some(2), output.status.code(), "{text}");
    assert!(text.contains("(mode 0644)") && text.contains("chmod 600 "), "{text}");
}

#[test]
fn a_token_file_that_holds_none_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("larder");
    std::fs::create_dir(&state).unwrap();
    let file = state.join("admin-token");
    let config = "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"*\"]\n\
                  [[site.route]]\nfiles = { root = \".\" }\n";
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    let refused = |says: &str| {
        let mut command = std::process::Command::new(crate::harness::server::binary());
        command.arg("run").current_dir(folder.path());
        command.env_remove("LARDER_ADMIN_TOKEN").env("XDG_STATE_HOME", folder.path());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(Some(2), output.status.code(), "{text}");
        assert!(text.starts_with("larder: The admin token file ") && text.contains(says), "{text}");
        assert_eq!(
            (1, ""),
            (text.lines().count(), String::from_utf8_lossy(&output.stdout).as_ref()),
            "{text}"
        );
    };
    std::os::unix::fs::symlink("nowhere", &file).unwrap();
    refused("is a dangling symbolic link");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("admin-token", &file).unwrap();
    refused("cannot be read");
    std::fs::remove_file(&file).unwrap();
    for bytes in [&[0xFF; 40][..], b"short\n", b""] {
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        refused("contains no token");
    }
}

#[test]
fn an_admin_for_other_machines_is_warned_of() {
    let files = "[[site]]\nhosts = [\"*\"]\n[[site.route]]\nfiles = { root = \".\" }\n";
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"0.0.0.0:0\"\n[log]\nerror = \"larder.log\"\naccess = \"off\"\n{files}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, &config).unwrap();
    // Standard error goes to a file, which is what the operator's terminal would show.
    let larder = Larder::within("exec 2> said", &["run", "-c", file.to_str().unwrap()]);
    let warning = "admin.listen: 0.0.0.0:0 is reachable from other machines, and its token is sent in clear text; listen on 127.0.0.1 and use an SSH tunnel, or a proxy with TLS, to reach it from elsewhere";
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let report = |text: &str| text.matches(warning).count();
    let outcome = || read(larder.folder.path().join("said"));
    let logged = || {
        let beside = read(folder.path().join("larder.log"));
        if beside.is_empty() { read(larder.folder.path().join("larder.log")) } else { beside }
    };
    until("it is in both", || report(&outcome()) == 1 && report(&logged()) == 1);
    assert!(outcome().contains("larder: warning: "), "{}", outcome());
    assert!(logged().contains(" warn config-warning why="), "{}", logged());
    std::fs::write(&file, format!("{config}# changed\n")).unwrap();
    larder.signal(libc::SIGHUP);
    until("a reload tells of it again", || report(&logged()) >= 2);
}

#[test]
fn a_start_without_a_writable_token_file_names_the_remedy_and_prints_no_token() {
    let origin = page();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    );
    // A file stands where the folder would.
    let state = tempfile::NamedTempFile::new().unwrap();
    let first = format!(
        "export XDG_STATE_HOME={} && unset LARDER_ADMIN_TOKEN && exec 2> said",
        state.path().display()
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, config).unwrap();
    let larder = Larder::within(&first, &["run", "-c", file.to_str().unwrap()]);
    let text = || std::fs::read_to_string(larder.folder.path().join("said")).unwrap_or_default();
    until("standard error says it", || text().contains("larder: The admin token cannot be kept ("));
    let line = text().lines().find(|it| it.contains("cannot be kept")).unwrap().to_owned();
    assert!(line.contains("set admin.token_file to a file that larder can write"), "{line}");
    assert!(line.ends_with(", or set LARDER_ADMIN_TOKEN."), "{line}");
    assert_eq!(200, larder.get("/").status, "pages are served");
    let output = larder.printed() + &text();
    assert!(!larder.printed().contains("token"), "{output}");
    let is_of_token = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    for word in output.split(|it| !is_of_token(it)).filter(|it| it.len() >= 16) {
        let refused = fetch(&larder, "GET /cache/stats", &[&bearer(word)], "").status;
        assert_ne!(200, refused, "{word} is a token, in {output}");
    }
}

#[test]
fn every_answer_is_guarded() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    for (first, lines) in [
        ("GET /", vec![]),
        ("GET /cache/stats", vec![bearer(TOKEN)]),
        ("GET /cache/stats", vec![]),
        ("GET /none", vec![bearer(TOKEN)]),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let it = fetch(&larder, first, &lines, "");
        let policy = it.field("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        let kept = it.field("cache-control").unwrap();
        assert!(kept == "no-store" || first == "GET /" && kept == "no-cache", "{first}: {kept}");
        let rest = ["x-frame-options", "referrer-policy", "x-content-type-options"];
        let rest = rest.map(|it_is| it.field(it_is).unwrap_or(""));
        assert_eq!(["DENY", "no-referrer", "nosniff"], rest, "{first}");
    }
}

#[test]
fn no_client_of_a_public_listener_reaches_it() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let (public, admin, token) = (larder.address, larder.admin, bearer(TOKEN));
    for path in
        ["/cache/stats", "/api/v1/stats", "/api/v1/login-links", "/cache/purge", "/test/clock?advance=9"]
    {
        for (target, host) in [
            (path.to_owned(), public.to_string()),
            (path.to_owned(), admin.to_string()),
            (path.to_owned(), "localhost".to_owned()),
            (format!("http://{admin}{path}"), admin.to_string()),
        ] {
            for method in ["GET", "POST"] {
                let mut client = larder.client();
                client.send(format!(
                    "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{token}\r\nContent-Length: 0\r\n\r\n"
                ));
                let it = client.read();
                assert_eq!((200, "page"), (it.status, &*it.text()), "{method} {target} {host}: the origin's");
            }
        }
    }
}
