//! The configuration over the admin: read, checked, edited, put in force, rolled back. The file is the real one.

use crate::harness::origin::Received;
use crate::harness::{Client, Larder, Origin, until};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A request to the admin with JSON.
pub(super) fn admin(larder: &Larder, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let mut client = Client::connect(larder.admin);
    let length = body.len();
    client.send(format!(
        "{method} {path} HTTP/1.1\r\n{}\r\nContent-Length: {length}\r\n\r\n",
        larder.admin_lines()
    ));
    client.send(body);
    let answer = client.read();
    (answer.status, serde_json::from_str(&answer.text()).unwrap_or_else(|it| panic!("{it}: {answer:?}")))
}

fn post(larder: &Larder, path: &str, body: &Value) -> (u16, Value) {
    admin(larder, "POST", &format!("/api/v1/config/{path}"), body.to_string().as_bytes())
}

fn put(larder: &Larder, text: &str, base: &str) -> (u16, Value) {
    admin(larder, "PUT", "/api/v1/config", json!({ "text": text, "base": base }).to_string().as_bytes())
}

fn config(larder: &Larder) -> Value {
    let (status, report) = admin(larder, "GET", "/api/v1/config", b"");
    assert_eq!(200, status, "{report}");
    report
}

fn file(larder: &Larder) -> String {
    std::fs::read_to_string(larder.config()).unwrap()
}

fn text_and_hash(larder: &Larder) -> (String, String) {
    let message = config(larder);
    (message["text"].as_str().unwrap().to_owned(), message["hash"].as_str().unwrap().to_owned())
}

/// larder with comments in its file, before an origin that says which `Host` it saw and names no lifetime.
fn commented() -> (Origin, Larder) {
    let origin = Origin::new(|it: &Received| {
        format!("HTTP/1.1 200 OK\nContent-Type: text/html\n\n{}", it.field("host").unwrap_or("none"))
    });
    let larder = Larder::before_with(&origin, "", "# why two: it is a test\n# and a second line\n");
    (origin, larder)
}

#[test]
fn the_configuration_is_reported_with_its_keys() {
    let (_origin, larder) = commented();
    let message = config(&larder);
    assert_eq!((&json!(true), &Value::Null), (&message["editable"], &message["why"]));
    assert_eq!(file(&larder), message["text"].as_str().unwrap());
    assert_eq!(message["hash"], message["running_hash"]);
    assert!(message["path"].as_str().unwrap().ends_with("/larder.toml"));
    assert_eq!(json!(2), message["document"]["workers"]);
    let keys = message["keys"].as_array().unwrap();
    let key = |name: &str| keys.iter().find(|it| it["key"] == name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(json!(true), key("cache.ram.size")["restart"]);
    assert_eq!(
        (&json!("256MiB"), &json!("size")),
        (&key("cache.ram.size")["default"], &key("cache.ram.size")["kind"])
    );
    let ttl = key("site.route.cache.default_ttl");
    assert_eq!(
        (&json!(false), &json!("site[].route[].cache.default_ttl")),
        (&ttl["restart"], &ttl["pattern"])
    );
}

#[test]
fn a_change_is_shown_and_put_in_force() {
    let (_origin, larder) = commented();
    larder.get("/");
    assert!(!larder.get("/").is_hit(), "no lifetime yet");
    let (before, hash) = text_and_hash(&larder);
    let set = json!([{ "path": ["site", 0, "route", 0, "cache", "default_ttl"], "value": "60s" }]);
    let (status, edited) = post(&larder, "edit", &json!({ "text": before, "set": set }));
    assert_eq!(200, status, "{edited}");
    let text = edited["text"].as_str().unwrap();
    assert!(text.contains("# why two: it is a test\n# and a second line\n"), "{text}");
    let (_, checked) = post(&larder, "check", &json!({ "text": text }));
    assert_eq!(
        (&json!(true), &json!([]), &json!([])),
        (&checked["ok"], &checked["problems"], &checked["restart"])
    );
    let changed: Vec<&str> =
        checked["diff"].as_array().unwrap().iter().map(|it| it["op"].as_str().unwrap()).collect();
    assert_eq!(2, changed.iter().filter(|it| **it != " ").count(), "{checked}");
    assert_eq!(before, file(&larder), "nothing is written yet");
    let (status, put) = put(&larder, text, &hash);
    assert_eq!(200, status, "{put}");
    assert_eq!(text, file(&larder));
    larder.get("/");
    assert!(larder.get("/").is_hit(), "it is in force when the answer comes");
    let message = config(&larder);
    assert_eq!((&put["hash"], &put["hash"]), (&message["hash"], &message["running_hash"]));
    let past = &message["history"][0];
    assert_eq!("1 key: route /*: cache.default_ttl", past["change"]);
    let (status, shown) = post(&larder, "check", &json!({ "to": past["id"] }));
    assert_eq!((200, &json!(true)), (status, &shown["ok"]), "{shown}");
    let gone: Vec<&Value> = shown["diff"].as_array().unwrap().iter().filter(|it| it["op"] != " ").collect();
    assert_eq!(2, gone.len(), "what a rollback would change: {shown}");
    assert_eq!(404, post(&larder, "check", &json!({ "to": 77 })).0);
    assert_eq!(400, post(&larder, "check", &json!({})).0);
    assert_eq!(400, post(&larder, "check", &json!({ "text": "", "to": past["id"] })).0);
    let (status, back) = post(&larder, "rollback", &json!({ "to": past["id"] }));
    assert_eq!((200, hash.as_str()), (status, back["hash"].as_str().unwrap()), "{back}");
    assert_eq!(before, file(&larder));
    larder.get("/other");
    assert!(!larder.get("/other").is_hit(), "and out of force");
    assert_eq!(2, config(&larder)["history"].as_array().unwrap().len(), "a rollback can be rolled back");
    assert_eq!(2, larder.counter("config_reloads"), "the watch of the file does not take it over again");
}

#[test]
fn a_concurrent_change_of_the_file_is_not_overwritten() {
    let (_origin, larder) = commented();
    let (before, hash) = text_and_hash(&larder);
    let theirs = format!("{before}# theirs\n");
    std::fs::write(larder.config(), &theirs).unwrap();
    let (status, report) = put(&larder, &format!("{before}# ours\n"), &hash);
    assert_eq!(409, status, "{report}");
    assert!(report["detail"].as_str().unwrap().starts_with("The file was changed in the meantime"));
    assert_eq!(theirs, file(&larder));
    assert_eq!(json!([]), config(&larder)["history"]);
}

/// Both the check and the put refuse `text`, with these places; and nothing has changed.
#[track_caller]
fn refused(larder: &Larder, text: &str, line: u64, column: u64, key: Value, message: &str) {
    let (before, hash) = text_and_hash(larder);
    let (_, checked) = post(larder, "check", &json!({ "text": text }));
    let (status, report) = put(larder, text, &hash);
    assert_eq!((422, &json!(false)), (status, &checked["ok"]), "{report}");
    for problem in [&checked["problems"][0], &report["problems"][0]] {
        assert_eq!(
            (json!(line), json!(column), key.clone()),
            (problem["line"].clone(), problem["column"].clone(), problem["key"].clone()),
            "{problem}"
        );
        assert!(problem["message"].as_str().unwrap().contains(message), "{problem}");
    }
    assert!(report["detail"].as_str().unwrap().contains(message), "{report}");
    assert_eq!(before, file(larder));
    assert_eq!((json!([]), 0), (config(larder)["history"].clone(), larder.counter("config_reloads")));
}

#[test]
fn a_wrong_configuration_is_refused_with_its_place() {
    let (_origin, larder) = commented();
    let (text, _) = text_and_hash(&larder);
    let before = |line: &str| format!("{line}\n{text}");
    refused(&larder, &before("limits.head_size = = 1"), 1, 20, Value::Null, "not TOML");
    refused(&larder, &before("limits.head_size = \"a\u{0}b\""), 1, 22, Value::Null, "not TOML");
    refused(&larder, &before("\nlimts.head_size = 1"), 2, 1, json!("limts"), "did you mean `limits`?");
    refused(
        &larder,
        &before("limits.head_size = \"1 cow\""),
        1,
        8,
        json!("limits.head_size"),
        "allowed: a size from",
    );
    refused(
        &larder,
        &before("limits.connections = true"),
        1,
        8,
        json!("limits.connections"),
        "allowed: a whole number",
    );
    refused(&larder, "", 1, 1, Value::Null, "no site is configured");
    let lines = u64::try_from(text.lines().count()).unwrap();
    let files = format!("{text}[[site]]\nhosts = \"x\"\nroute = [{{ files = {{ root = \"nowhere\" }} }}]\n");
    refused(&larder, &files, lines + 3, 22, json!("site.route.files.root"), "nowhere");
    larder.get("/");
    assert_eq!(200, larder.get("/").status);
}

#[test]
fn keys_that_require_a_restart_are_named_and_the_rest_applies() {
    let (_origin, larder) = commented();
    let (before, hash) = text_and_hash(&larder);
    let text = before
        .replace("workers = 2", "workers = 3")
        .replace("# and", "cache.ram.size = \"99MiB\"\ncache.x_cache = true\n# and");
    let (_, checked) = post(&larder, "check", &json!({ "text": text }));
    assert_eq!(
        (json!(true), json!(["workers", "cache.ram.size"])),
        (checked["ok"].clone(), checked["restart"].clone())
    );
    let (status, report) = put(&larder, &text, &hash);
    let pending = json!(["workers", "cache.ram.size"]);
    assert_eq!((200, &pending), (status, &report["pending"]), "{report}");
    let now = config(&larder);
    assert_eq!((&pending, &now["hash"]), (&now["pending"], &now["running_hash"]));
    until("the rest is in force", || (0..8).all(|_| larder.get("/").field("x-cache").is_some()));
    let (status, report) = put(&larder, &before, now["hash"].as_str().unwrap());
    assert_eq!((200, &json!([])), (status, &report["pending"]), "{report}");
}

/// A key that waits for a restart held back every later change that was applied over the admin.
#[test]
fn a_change_is_in_force_although_an_earlier_one_waits_for_a_restart() {
    let (_origin, larder) = commented();
    let (before, hash) = text_and_hash(&larder);
    let waits = before.replace("workers = 2", "workers = 3 # more");
    let (status, report) = put(&larder, &waits, &hash);
    assert_eq!((200, &json!(["workers"])), (status, &report["pending"]), "{report}");
    let text = waits.replace("# and", "cache.x_cache = true\n# and");
    let (status, report) = put(&larder, &text, report["hash"].as_str().unwrap());
    assert_eq!((200, &json!(["workers"])), (status, &report["pending"]), "{report}");
    until("the second change is in force", || larder.get("/").field("x-cache").is_some());
    assert_eq!((json!(["workers"]), text), (config(&larder)["pending"].clone(), file(&larder)));
    // Back to what runs needs no restart.
    let history = config(&larder)["history"].as_array().unwrap().clone();
    assert_eq!(2, history.len(), "{history:?}");
    let (status, report) = post(&larder, "rollback", &json!({ "to": history[1]["id"] }));
    assert_eq!((200, &json!([])), (status, &report["pending"]), "{report}");
    assert_eq!((json!([]), before), (config(&larder)["pending"].clone(), file(&larder)));
    // And the other way; the next start reads it.
    let (status, report) = post(&larder, "rollback", &json!({ "to": history[0]["id"] }));
    assert_eq!((200, &json!(["workers"])), (status, &report["pending"]), "{report}");
    let next = Larder::configured(file(&larder));
    assert_eq!((json!([]), waits), (config(&next)["pending"].clone(), file(&next)));
}

#[test]
fn a_malformed_request_for_the_configuration_is_refused() {
    let (_origin, larder) = commented();
    let before = file(&larder);
    let check = |method: &str, path: &str, body: &[u8], status: u16, says: &str| {
        let (found, report) = admin(&larder, method, path, body);
        assert_eq!(status, found, "{path}: {report}");
        assert!(report["detail"].as_str().unwrap().contains(says), "{path}: {report}");
    };
    let long = json!({ "text": "#".repeat(2 << 20), "base": "x" }).to_string();
    check("PUT", "/api/v1/config", long.as_bytes(), 413, "The body exceeds 1048576 bytes");
    check("PUT", "/api/v1/config", b"{\"text\"\n\x00}", 400, "not JSON");
    check("PUT", "/api/v1/config", b"{}", 400, "\"text\" is missing");
    check("PUT", "/api/v1/config", b"{\"text\":\"\"}", 400, "\"base\" is missing");
    check(
        "PUT",
        "/api/v1/config",
        b"{\"text\":\"\",\"base\":\"\",\"when\":\"restart\"}",
        400,
        "\"when\" is unknown",
    );
    check(
        "POST",
        "/api/v1/config/rollback",
        b"{\"to\":\"99\"}",
        404,
        "has no configuration 99; GET /api/v1/config lists the ids",
    );
    check("POST", "/api/v1/config/rollback", b"{\"to\":\"../x\"}", 400, "\"to\" is not an id of the history");
    check("POST", "/api/v1/config/check", b"{\"text\":7}", 400, "\"text\" is a text, not 7");
    check("POST", "/api/v1/config/edit", b"{\"text\":\"\"}", 400, "\"set\" is missing");
    check("POST", "/api/v1/config/edit", b"{\"text\":\"\",\"set\":[{}]}", 400, "\"set[0].path\" is missing");
    let both = b"{\"text\":\"\",\"set\":[{\"path\":[\"x\"],\"value\":1,\"to\":0}]}";
    check("POST", "/api/v1/config/edit", both, 400, "An edit is");
    check(
        "POST",
        "/api/v1/config/edit",
        b"{\"text\":\"x = \",\"set\":[{\"path\":[\"x\"],\"value\":1}]}",
        400,
        "not TOML",
    );
    let nowhere =
        json!({ "text": before, "set": [{ "path": ["site", 3, "hosts"], "value": "x" }] }).to_string();
    check("POST", "/api/v1/config/edit", nowhere.as_bytes(), 400, "site[3] does not exist");
    assert_eq!(before, file(&larder));
}

#[test]
fn larder_without_a_file_names_the_reason() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nx");
    let url = origin.url();
    let larder = Larder::command(&[
        "proxy",
        &url,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--ram",
        "8MiB",
    ]);
    let message = config(&larder);
    assert_eq!((&Value::Null, &json!(false)), (&message["path"], &message["editable"]));
    assert!(message["why"].as_str().unwrap().contains("larder run -c FILE"), "{message}");
    assert!(
        message["flags"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["key"] == "cache.ram.size" && it["flag"] == "--ram")
    );
    let (status, refused) = put(&larder, "", "x");
    assert_eq!((409, &message["why"]), (status, &refused["detail"]));
}

#[test]
fn mode_and_link_stay() {
    let (_origin, larder) = commented();
    let real = larder.folder.path().join("real.toml");
    std::fs::rename(larder.config(), &real).unwrap();
    std::os::unix::fs::symlink("real.toml", larder.config()).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    let (text, hash) = text_and_hash(&larder);
    let (status, report) = put(&larder, &format!("{text}# more\n"), &hash);
    assert_eq!(200, status, "{report}");
    assert!(std::fs::symlink_metadata(larder.config()).unwrap().is_symlink());
    assert_eq!(0o640, std::fs::metadata(&real).unwrap().permissions().mode() & 0o7777);
    assert!(file(&larder).ends_with("# more\n"));
}

/// Whoever reads the file while it is changed reads one text or the other; clients notice nothing.
#[test]
fn a_reader_of_the_file_never_sees_a_partial_text() {
    let (_origin, larder) = commented();
    let (text, mut hash) = text_and_hash(&larder);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (stop, path, start) = (stop.clone(), larder.config(), text.clone());
        std::thread::spawn(move || {
            while !stop.load(SeqCst) {
                let read = std::fs::read_to_string(&path).unwrap();
                assert!(read.starts_with(&start) && read.ends_with('\n'), "{read}");
            }
        })
    };
    let load = {
        let (stop, mut client) = (stop.clone(), larder.client());
        std::thread::spawn(move || {
            let mut count = 0;
            while !stop.load(SeqCst) {
                assert_eq!(200, client.get("/").status);
                count += 1;
            }
            count
        })
    };
    for round in 0..20 {
        let (status, report) = put(&larder, &format!("{text}# {}\n", "x".repeat(round * 400)), &hash);
        assert_eq!(200, status, "{report}");
        hash = report["hash"].as_str().unwrap().to_owned();
    }
    stop.store(true, SeqCst);
    reader.join().unwrap();
    assert!(load.join().unwrap() > 0);
    assert_eq!(20, larder.counter("config_reloads"));
}

/// A text of 1,000 routes, whose check takes seconds.
fn many_routes(larder: &Larder) -> String {
    let route = |it: usize| {
        format!("[[site.route]]\npath = \"/{it}/*\"\nproxy = {{ to = [\"http://127.0.0.1:1\"] }}\n")
    };
    file(larder) + &(0..1000).map(route).collect::<String>()
}

/// Sends a request with JSON, whose response is read later.
fn begin(larder: &Larder, head: &str, body: &Value) -> Client {
    let (mut client, body) = (Client::connect(larder.admin), body.to_string());
    let length = body.len();
    client.send(format!(
        "{head} HTTP/1.1\r\n{}\r\nContent-Length: {length}\r\n\r\n{body}",
        larder.admin_lines()
    ));
    client
}

/// The thread of the admin also feeds the watchdog of the service manager: it must not read 1,000 routes meanwhile.
#[test]
fn the_admin_responds_while_it_checks_a_large_configuration() {
    let (_origin, larder) = commented();
    let mut check = begin(&larder, "POST /api/v1/config/check", &json!({ "text": many_routes(&larder) }));
    let (mut earlier, checked) = (0, Arc::new(AtomicBool::new(false)));
    let reader = std::thread::spawn({
        let checked = checked.clone();
        move || {
            let answer = check.read();
            checked.store(true, SeqCst);
            answer
        }
    });
    while !checked.load(SeqCst) {
        assert_eq!(200, admin(&larder, "GET", "/api/v1/whoami", b"").0);
        earlier += 1;
    }
    let answer = reader.join().unwrap();
    assert_eq!(200, answer.status, "{answer:?}");
    let report: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(json!(true), report["ok"], "{}", report["problems"]);
    assert!(earlier > 3, "{earlier} requests were answered during the check");
}

/// An editor saves the file while a large text is checked.
#[test]
fn a_change_that_is_made_during_the_check_is_not_overwritten() {
    let (_origin, larder) = commented();
    let (text, hash) = text_and_hash(&larder);
    let body = json!({ "text": many_routes(&larder), "base": hash });
    let mut client = begin(&larder, "PUT /api/v1/config", &body);
    // The admin reads in the order of arrival: the check has begun, or the base is compared later.
    assert_eq!(200, admin(&larder, "GET", "/api/v1/whoami", b"").0);
    let saved = format!("{text}# of the editor\n");
    std::fs::write(larder.config(), &saved).unwrap();
    let answer = client.read();
    assert_eq!(409, answer.status, "{answer:?}");
    assert!(answer.text().contains("was changed in the meantime"), "{answer:?}");
    assert_eq!(saved, file(&larder));
}
