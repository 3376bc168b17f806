//! Literal secrets of a configuration: in no page, answer, difference, message or log of larder, and in force after every way of editing.

use crate::harness::command::{Ended, run_with};
use crate::harness::server::Setup;
use crate::harness::{Larder, Origin, until};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Every secret of these scenarios has this text.
const MARK: &str = "5ecre7-0123456789abcdef0123456789abcdef0123456789abcdef";
/// That of a hash of a password.
const HASH: &str = "abIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f7";

fn rules(prefix: &str) -> String {
    format!(
        "[[site.route]]\npath = \"{prefix}/set/*\"\ntrace = 1\nproxy = {{ to = [\"{{origin}}\"] }}\nrequest_headers.set = {{ X-Api-Key = \"{MARK}-key\", X-Plain = '{MARK}-plain {{host}}' }}\n\
         [[site.route]]\npath = \"{prefix}/jwt/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ jwt = {{ secret = '''{MARK}-jwt''', issuer = \"i\" }} }}\n\
         [[site.route]]\npath = \"{prefix}/signed/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\n[site.route.access.signed]\nsecret = [\n  \"{MARK}-one\", # first\n  \"{MARK}-\\u0074wo\",\n]\n\
         [[site.route]]\npath = \"{prefix}/basic/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess.basic.users = [\"deploy:$2y$05${HASH}/FuA2/mHZFpe\"]\n"
    )
}

/// Routes that compare with secrets, and send them, at keys of other values.
const OTHER_KEYS: &str = r#"[[site.route]]
path = "/when/*"
when = 'header["X-Origin-Verify"] == "${SECRET}"'
proxy.to = ["{origin}"]
[[site.route]]
path = "/when/*"
trace = 1
proxy = { to = ["{origin}"] }
access = { deny_when = 'query.k == "${SECRET}"', allow_when = 'header["X-Origin-Verify"] != "${SECRET}"' }
cache.rule = [{ when = 'header["X-Verify"] == "${SECRET}"', pass = true }]
[[site.route]]
path = "/allow/*"
proxy = { to = ["{origin}"] }
access = { allow_when = 'header["X-Origin-Verify"] == "${SECRET}"' }
[[site.route]]
path = "/literal/*"
when = 'header["X-Auth"] == "{mark}-when"'
proxy = { to = ["{origin}"] }
[[site.route]]
path = "/literal/*"
when = "cookie[\"preview\"] == \"{mark}-cookie\" && host == \"h\""
proxy = { to = ["{origin}"] }
[[site.route]]
path = "/base/*"
proxy = { to = ["{origin}/base-${SECRET}"] }
[[site.route]]
path = "/added/*"
add_prefix = "/${SECRET}"
query.set = { k = "${SECRET}" }
proxy = { to = ["{origin}"] }
[[site.route]]
path = "/forward/*"
access = { forward = { to = "{origin}", path = "/auth?key=${SECRET}" } }
proxy = { to = ["{origin}"] }
"#;

/// larder with every kind of secret in its main file, in a block and in an included file.
fn guarded(origin: &Origin) -> Larder {
    let levels: String = ["server", "purge", "disk", "fleet", "nodes", "origin", "log"]
        .map(|it| format!("levels.{it} = \"debug\"\n"))
        .concat();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\ninclude = [\"conf.d/*.toml\"]\n[block.keys]\naccess.jwt = {{ secret = \"{MARK}-block\", issuer = \"i\" }}\n\
         [log]\naccess = \"access.log\"\nerror = \"error.log\"\n{levels}[[site]]\nhosts = [\"main.test\", \"*\"]\nlog_skip = 'query == \"${{SECRET}}\"'\n{}{OTHER_KEYS}",
        rules("")
    );
    let config = config.replace("{origin}", &origin.url()).replace("{mark}", MARK);
    let larder = Larder::start(Setup { config, env: vec![("SECRET".into(), format!("{MARK}-env"))] });
    fs::create_dir(larder.folder.path().join("conf.d")).unwrap();
    let included =
        format!("[[site]]\nhosts = [\"inc.test\"]\n{}", rules("")).replace("{origin}", &origin.url());
    fs::write(larder.folder.path().join("conf.d/inc.toml"), included).unwrap();
    let before = larder.counter("config_reloads");
    larder.signal(libc::SIGHUP);
    until("the included file is in force", || larder.counter("config_reloads") > before);
    larder
}

/// The beginning of the pages of [`echo`] while the secrets are in force.
fn in_force() -> String {
    format!("{} {MARK}", MARK.len() + 4)
}

/// An origin that tells the length of one secret and the beginning of the other.
fn echo() -> Origin {
    Origin::new(|it| {
        let sent = [it.field("x-api-key"), it.field("x-plain")].map(|it| it.unwrap_or("none").to_owned());
        format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{} {}", sent[0].len(), sent[1])
    })
}

#[track_caller]
fn is_clean(what: &str, text: &str) {
    for secret in [MARK, HASH] {
        if let Some(at) = text.find(secret) {
            let around: String =
                text[..at].chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
            panic!("{what} shows a secret after {around}");
        }
    }
}

/// A command with the environment of [`guarded`].
fn run(folder: &Path, arguments: &[&str]) -> Ended {
    run_with(folder, arguments, &[("SECRET", &format!("{MARK}-env"))])
}

/// The status and the text of an answer of the admin, which has no secret.
#[track_caller]
fn asked(larder: &Larder, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let body = body.map(Value::to_string).unwrap_or_default();
    let answer = larder.admin_send(method, path, &body).read();
    let text = answer.text();
    is_clean(&format!("{method} {path} {body}"), &text);
    is_clean(path, &format!("{answer:?}"));
    (answer.status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

fn config(larder: &Larder) -> Value {
    asked(larder, "GET", "/api/v1/config", None).1
}

/// Nothing that larder has written has a secret, apart from its configuration and the history of that.
#[track_caller]
fn logs_are_clean(larder: &Larder) {
    is_clean("the output", &larder.printed());
    for it in fs::read_dir(larder.folder.path()).unwrap().flatten() {
        let name = it.file_name().to_string_lossy().into_owned();
        if it.path().is_file() && name != "larder.toml" {
            is_clean(&name, &String::from_utf8_lossy(&fs::read(it.path()).unwrap()));
        }
    }
    assert!(larder.folder.path().join("error.log").is_file());
}

/// Reads everything that the admin has, and of each the part about a URL.
fn every_get(larder: &Larder, url: &str) {
    let described = asked(larder, "GET", "/api/v1/openapi.json", None).1;
    let paths: Vec<String> = described["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|it| it.1.get("get").is_some())
        .map(|it| it.0.clone())
        .collect();
    assert!(paths.len() > 15, "{paths:?}");
    for path in paths.iter().filter(|it| !it.ends_with("/stream") && !it.contains('{')) {
        asked(larder, "GET", path, None);
        asked(larder, "GET", &format!("{path}?url={url}"), None);
    }
}

#[test]
fn no_view_shows_a_secret() {
    let origin = echo();
    let larder = guarded(&origin);
    let folder = larder.folder.path();
    let whole = larder.get("/set/a");
    assert!(whole.text().starts_with(&in_force()), "{whole:?}");
    let others = ["/when/a", "/allow/a", "/literal/a", "/base/a", "/added/a", "/forward/a"];
    for path in
        ["/set/a", "/jwt/a", "/signed/a?expires=1&signature=x", "/basic/a", "/none"].iter().chain(&others)
    {
        larder.get(path);
        larder.client().get_with(path, "Authorization: Basic ZGVwbG95Ong=\r\n");
        larder.client().get_with(path, "Authorization: Bearer a.b.c\r\n");
    }
    every_get(&larder, "http://main.test/set/a");
    for path in ["/", "/index.html", "/assets/x"] {
        is_clean(path, &larder.admin_get(path).text());
    }
    for (at, routes) in [(0, 12), (1, 4)] {
        for route in 0..routes {
            let text = config(&larder)["text"].clone();
            let (status, output) = asked(
                &larder,
                "POST",
                "/api/v1/config/layers",
                Some(&json!({ "text": text, "at": ["site", at, "route", route] })),
            );
            assert_eq!(200, status, "{output}");
        }
    }
    let of_both = ["main.test", "inc.test"]
        .into_iter()
        .flat_map(|host| ["set", "jwt", "signed", "basic"].map(|it| format!("http://{host}/{it}/a")));
    for url in of_both.chain(others.map(|it| format!("http://main.test{it}"))) {
        assert_eq!(200, asked(&larder, "POST", "/api/v1/explain", Some(&json!({ "url": url }))).0);
    }
    let hidden = ["set", "jwt", "signed", "basic"].map(|it| format!("http://inc.test/{it}/a"));
    for url in hidden.into_iter().chain(others.map(|it| format!("http://main.test{it}"))) {
        for arguments in
            [&["explain", &url][..], &["explain", &url, "--json"], &["explain", &url, "-c", "larder.toml"]]
        {
            let ended = run(folder, arguments);
            is_clean(&format!("{arguments:?}"), &format!("{}{}", ended.out, ended.err));
        }
    }
    for arguments in [
        &["check"][..],
        &["check", "--json"],
        &["check", "larder.toml"],
        &["check", "-v"],
        &["stats"],
        &["stats", "--json"],
        &["tail", "--help"],
    ] {
        let ended = run(folder, arguments);
        is_clean(&format!("{arguments:?}"), &format!("{}{}", ended.out, ended.err));
    }
    let output = run(folder, &["check"]);
    assert_eq!(
        2,
        output.out.matches("keeps it out").count() + output.err.matches("keeps it out").count(),
        "{output:?}"
    );
    logs_are_clean(&larder);
}

/// The text that the page has, edited in every way, comes back as the same file.
#[test]
fn a_secret_comes_back_from_the_page() {
    let origin = echo();
    let larder = guarded(&origin);
    let saved = fs::read_to_string(larder.config()).unwrap();
    let inc = larder.folder.path().join("conf.d/inc.toml");
    let saved_inc = fs::read_to_string(&inc).unwrap();
    let message = config(&larder);
    assert_eq!(message["hash"], message["running_hash"]);
    let (text, included) = (message["text"].as_str().unwrap(), &message["included"][0]);
    assert_eq!(saved.lines().count(), text.lines().count());
    assert!(text.contains("\"deploy:hidden:") && text.contains("{ secret = '''hidden:"), "{text}");
    // The document of the form has the same.
    let key =
        message["document"]["site"][0]["route"][0]["request_headers"]["set"]["X-Api-Key"].as_str().unwrap();
    assert!(key.starts_with("hidden:") && text.contains(key), "{key}");
    // Unchanged.
    let (_, checked) = asked(&larder, "POST", "/api/v1/config/check", Some(&json!({ "text": text })));
    assert_eq!(
        (&json!(true), true),
        (&checked["ok"], checked["diff"].as_array().unwrap().iter().all(|it| it["op"] == " ")),
        "{checked}"
    );
    // By the form: a header more, a user removed from no list, another route moved to the front; and in the included file.
    let set = json!([
        { "path": ["site", 0, "route", 0, "request_headers", "set", "X-More"], "value": "1{host}" },
        { "path": ["site", 0, "route", 3], "to": 0 },
        { "path": ["site", 1, "route", 1, "access", "jwt", "leeway"], "value": "5s" },
    ]);
    let (status, edited) =
        asked(&larder, "POST", "/api/v1/config/edit", Some(&json!({ "text": text, "set": set })));
    assert_eq!(200, status, "{edited}");
    let new_inc = &edited["included"][0];
    let files = json!([{ "path": new_inc["path"], "text": new_inc["text"], "base": included["hash"] }]);
    let put = json!({ "text": edited["text"], "base": message["hash"], "included": files });
    let (status, done) = asked(&larder, "PUT", "/api/v1/config", Some(&put));
    assert_eq!(200, status, "{done}");
    let (now, now_inc) = (fs::read_to_string(larder.config()).unwrap(), fs::read_to_string(&inc).unwrap());
    assert!(!now.contains("hidden:") && !now_inc.contains("hidden:"), "{now}");
    assert_eq!(saved.matches(MARK).count(), now.matches(MARK).count());
    assert_eq!(saved_inc.matches(MARK).count(), now_inc.matches(MARK).count());
    assert!(
        now.contains(&format!("'''{MARK}-jwt'''")) && now.contains(&format!("{MARK}-\\u0074wo")),
        "{now}"
    );
    assert!(now_inc.contains("leeway = \"5s\""), "{now_inc}");
    assert_eq!(config(&larder)["hash"], done["hash"]);
    assert!(larder.get("/set/b").text().starts_with(&in_force()), "it is in force");
    // By the text: a route that uses a secret of another one in other quotes.
    let text = config(&larder)["text"].as_str().unwrap().to_owned();
    let text = text.replace("[[site]]\n", &format!("[[site]]\nrequest_headers.set.X-Copy = '{key}'\n"));
    let (status, done) =
        asked(&larder, "PUT", "/api/v1/config", Some(&json!({ "text": text, "base": done["hash"] })));
    assert_eq!(200, status, "{done}");
    assert!(fs::read_to_string(larder.config()).unwrap().contains(&format!("X-Copy = '{MARK}-key'")));
    // Back to the first texts.
    let past = config(&larder)["history"].as_array().unwrap().last().unwrap()["id"].clone();
    let (status, shown) = asked(&larder, "POST", "/api/v1/config/check", Some(&json!({ "to": past })));
    assert_eq!((200, &json!(true)), (status, &shown["ok"]), "{shown}");
    let (status, back) = asked(&larder, "POST", "/api/v1/config/rollback", Some(&json!({ "to": past })));
    assert_eq!((200, &message["hash"]), (status, &back["hash"]), "{back}");
    assert_eq!(
        (saved, saved_inc),
        (fs::read_to_string(larder.config()).unwrap(), fs::read_to_string(&inc).unwrap())
    );
    logs_are_clean(&larder);
}

#[test]
fn mistakes_show_no_secret() {
    let origin = echo();
    let larder = guarded(&origin);
    let saved = fs::read_to_string(larder.config()).unwrap();
    let message = config(&larder);
    let text = message["text"].as_str().unwrap();
    // A placeholder that stands for nothing, or is at a key that is shown.
    let key =
        message["document"]["site"][0]["route"][0]["request_headers"]["set"]["X-Api-Key"].as_str().unwrap();
    for (wrong, line) in [
        (text.replacen(key, "hidden:0123456789abcdef", 1), text[..text.find(key).unwrap()].lines().count()),
        (
            text.replace("hosts = [\"main", &format!("hosts = [\"{key}\", \"main")),
            1 + text[..text.find("hosts =").unwrap()].matches('\n').count(),
        ),
    ] {
        let (status, refused) =
            asked(&larder, "PUT", "/api/v1/config", Some(&json!({ "text": wrong, "base": message["hash"] })));
        let problem = &refused["problems"][0];
        assert_eq!((422, &json!(line)), (status, &problem["line"]), "{refused}");
        assert!(problem["message"].as_str().unwrap().contains("stands for a secret"), "{problem}");
    }
    // Mistakes by hand, in the file: the page shows the file, and its problems.
    let lines = format!("trace = 1\nproxy = {{ to = [\"{}\"] }}\nrequest_headers.set", origin.url());
    for (old, new) in [
        ("secret = '''", "secrt = '''"),
        ("secret = '''", "secret '''"),
        ("secret = '''", "secret: '''"),
        ("secret = '''", "secret = = '''"),
        ("secret = '''", "secret = ["),
        ("-jwt'''", "-jwt''"),
        ("-jwt'''", "-jwt''' x"),
        ("-one\"", "-one"),
        ("-one\", # first", "-one\" # first"),
        ("  \"5ecre7", "  5ecre7"),
        ("jwt = { secret", "jwt = \"x\", jwt = { secret"),
        ("access = { jwt", "acess = { jwt"),
        ("X-Api-Key = \"", "X-Api-Key = \"${"),
        ("X-Api-Key = \"", "\"X Api\" = \"{"),
        ("X-Api-Key = \"", "X-Api-Key = [\""),
        ("access.basic.users = [", "access.basic = ["),
        ("access.basic.users = [", "access = ["),
        ("access.basic.users = [\"deploy:", "access.basic.users = [\""),
        (&lines, &format!("trace = 1\nproxy = {{ to = [\"{}\"] }}\nrequest_headers", origin.url())),
        ("[site.route.access.signed]", "[site.route.access.signed"),
        ("X-Auth\"] ==", "X-Auth\"] = ="),
        ("-when\"'", "-when'"),
        ("-when\"'", "-when\""),
        ("== \"${SECRET}\"'", "== ${SECRET}'"),
        ("== \"${SECRET}\"'", "~ \"(${SECRET}\"'"),
        ("workers = 2", "workers = \"${SECRET}\""),
        ("workers = 2", "cache.ram.size = \"${SECRET}\""),
        ("[log]", "[cache]\nstatus_ttl = { 404 = \"${SECRET}\" }\n[log]"),
        (
            "[[site.route]]\npath = \"/when/*\"",
            "[[site.route]]\npath = \"/r\"\nredirect.to = \"${SECRET}\"\n[[site.route]]\npath = \"/when/*\"",
        ),
        ("path = \"/when/*\"\n", "path = \"regex:(${SECRET}\"\n"),
        ("listen = [", "listen = [\"${SECRET}:x\", "),
    ] {
        let broken = saved.replacen(old, new, 1);
        assert_ne!(saved, broken, "{old}");
        fs::write(larder.config(), &broken).unwrap();
        let message = config(&larder);
        let (_, checked) =
            asked(&larder, "POST", "/api/v1/config/check", Some(&json!({ "text": message["text"] })));
        assert_eq!(&json!(false), &checked["ok"], "{old} {new} {checked}");
        assert!(checked["diff"].as_array().unwrap().iter().all(|it| it["op"] == " "), "{old} {new}");
        let (status, _) = asked(
            &larder,
            "PUT",
            "/api/v1/config",
            Some(&json!({ "text": message["text"], "base": message["hash"] })),
        );
        assert_eq!(422, status, "{old} {new}");
        assert_eq!(broken, fs::read_to_string(larder.config()).unwrap());
        let ended = run(larder.folder.path(), &["check"]);
        assert_ne!(0, ended.code, "{old} {new}");
        is_clean(&format!("check after {new}"), &format!("{}{}", ended.out, ended.err));
        let rejections = larder.counter("config_rejections");
        larder.signal(libc::SIGHUP);
        until("it is rejected", || larder.counter("config_rejections") > rejections);
        for path in ["/api/v1/health", "/api/v1/stats", "/metrics"] {
            asked(&larder, "GET", path, None);
        }
    }
    fs::write(larder.config(), &saved).unwrap();
    logs_are_clean(&larder);
}

/// What a client sends itself is not logged either.
#[test]
fn the_audit_has_no_text_of_a_configuration() {
    let larder = guarded(&echo());
    let body = json!({ "text": format!("site.access.jwt.secret = \"{MARK}\""), "base": "x" });
    let body = body.to_string();
    assert!(body.len() < 200);
    assert_eq!(409, larder.admin_send("PUT", "/api/v1/config", &body).read().status);
    until("it is logged", || {
        fs::read_to_string(larder.folder.path().join("error.log"))
            .is_ok_and(|it| it.contains("admin-refused"))
    });
    logs_are_clean(&larder);
}

/// Conditions may compare a field with a secret of the environment: neither metrics nor statistics have it, and two routes that differ
/// only in it are two.
#[test]
fn a_secret_in_a_condition_is_not_shown() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nx");
    let route = |value: &str| {
        format!(
            "[[site.route]]\npath = \"/k/*\"\nwhen = 'header.X-Api-Key == \"{value}\"'\nproxy.to = [\"{}\"]\n",
            origin.url()
        )
    };
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n{}{}[[site.route]]\naccess.allow_when = 'header.X-Api-Key == \"${{KEY_A}}\"'\nproxy.to = [\"{}\"]\n",
        route("${KEY_A}"),
        route("${KEY_B}"),
        origin.url()
    );
    let env = vec![("KEY_A".into(), "s3cretA".into()), ("KEY_B".into(), "s3cretB".into())];
    let larder = Larder::start(Setup { config, env });
    for key in ["s3cretA", "s3cretB", "s3cretB"] {
        assert_eq!(200, larder.client().get_with("/k/a", &format!("X-Api-Key: {key}\r\n")).status);
    }
    assert_eq!(403, larder.get("/other").status);
    let explained = larder.admin_post("/api/v1/explain", r#"{"url":"http://h/other"}"#).text();
    let answers = ["/metrics", "/api/v1/stats", "/api/v1/why"].map(|it| larder.admin_get(it).text());
    for text in answers.iter().chain([&explained]) {
        assert!(!text.contains("s3cret"), "{text}");
    }
    for when in ["header.X-Api-Key == \\\"${KEY_A}\\\"\"", "header.X-Api-Key == \\\"${KEY_B}\\\"\""] {
        assert!(answers[0].contains(&format!("when=\"{when}")), "{when}: {}", answers[0]);
    }
}

/// A path may have a token. Two routes whose paths have different variables are two.
#[test]
fn the_value_of_a_variable_in_a_path_or_a_redirect_is_not_shown() {
    let config = r#"
listen = ["127.0.0.1:0"]
[log]
access = "access.log"
format = "{route} {status}"
[[site]]
hosts = ["*"]
[[site.route]]
path = "/a-${TOKEN_A}/*"
respond = { body = "a" }
[[site.route]]
path = "/b-${TOKEN_B}/*"
redirect = { to = "/new-${TOKEN_A}/" }
[[site.route]]
path = "/*"
respond = { body = "other" }
"#;
    let variables = [("TOKEN_A", "t0ken-one"), ("TOKEN_B", "t0ken-two")];
    let env = variables.map(|(name, value)| (name.into(), value.into())).into();
    let larder = Larder::start(Setup { config: config.into(), env });
    let checked = run_with(larder.folder.path(), &["check", "-c", "larder.toml"], &variables);
    assert!(checked.out.contains("redirect 302 /new-${TOKEN_A}/"), "{checked:?}");
    assert!(!format!("{checked:?}").contains("t0ken"), "{checked:?}");
    assert_eq!("a", larder.get("/a-t0ken-one/x").text());
    let moved = larder.get("/b-t0ken-two/x");
    assert_eq!(Some("/new-t0ken-one/"), moved.field("location"));
    assert_eq!("other", larder.get("/a-t0ken-two/x").text());
    let explained = larder.admin_post("/api/v1/explain", r#"{"url":"http://h/other"}"#).text();
    let answers = ["/metrics", "/api/v1/stats", "/api/v1/why"].map(|it| larder.admin_get(it).text());
    for text in answers.iter().chain([&explained]) {
        assert!(!text.contains("t0ken"), "{text}");
    }
    for path in ["/a-${TOKEN_A}/*", "/b-${TOKEN_B}/*"] {
        assert!(answers[0].contains(path) && answers[1].contains(path), "{path}");
    }
    let explained = larder.admin_post("/api/v1/explain", r#"{"url":"http://h/a-t0ken-one/x"}"#).text();
    assert!(explained.contains(r#""path":"/a-${TOKEN_A}/*""#), "{explained}");
    let log = || fs::read_to_string(larder.folder.path().join("access.log")).unwrap_or_default();
    until("the log has them", || {
        log().contains("/a-${TOKEN_A}/* 200") && log().contains("/b-${TOKEN_B}/* 302")
    });
    assert!(!log().contains("t0ken"), "{}", log());
}

/// A condition may hold for a request without the secret, whose sender must not learn it from the explanation.
#[test]
fn the_condition_of_a_matched_route_is_explained_without_its_secret() {
    let config = r#"
listen = ["127.0.0.1:0"]
[[site]]
hosts = ["*"]
[[site.route]]
path = "/k/*"
when = 'header.X-Api-Key != "${KEY}"'
respond = { body = "no" }
[[site.route]]
path = "/*"
respond = { body = "yes" }
"#;
    let env = vec![("KEY".into(), r#"s3cret"and\more"#.into())];
    let larder = Larder::start(Setup { config: config.into(), env });
    let explained = larder.admin_post("/api/v1/explain", r#"{"url":"http://h/k/a"}"#).text();
    assert!(explained.contains(r#"header.X-Api-Key != \"${KEY}\""#), "{explained}");
    assert!(!explained.contains("s3cret"), "{explained}");
}

/// The value of a variable is a text, whatever it contains: it ends no text, and begins no test.
#[test]
fn the_value_of_a_variable_widens_no_condition() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nx");
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\naccess.allow_when = 'header.X-Key == \"a${{KEY}}\" || header.X-Key in [\"${{KEY}}\"]'\nproxy.to = \"{}\"\n",
        origin.url()
    );
    for key in ["\" || path ~ \"x", "\\", "\\\" || path ~ \"x", "a\\\"x", "\\d", "'", "${HOME}"] {
        let env = vec![("KEY".to_owned(), key.to_owned())];
        let larder = Larder::start(Setup { config: config.clone(), env });
        let status = |value: &str| larder.client().get_with("/x", &format!("X-Key: {value}\r\n")).status;
        assert_eq!([200, 200], [status(&format!("a{key}")), status(key)], "{key}");
        assert_eq!([403, 403], [status("a"), status("x")], "{key}");
    }
}

/// Not even a part of a value: the message has the condition as it is written.
#[test]
fn a_mistake_in_a_condition_shows_no_part_of_a_variable() {
    for (when, says) in [
        (
            r#"header.X == ${KEY}"#,
            "${KEY} is not in quotes; write \"${KEY}\": the value of a variable is a text",
        ),
        (r#"${KEY}"#, "${KEY} is not in quotes"),
        (r#"status == ${KEY}"#, "${KEY} is not in quotes"),
        (r#"header.X == "\${KEY}""#, "a backslash stands in front of ${KEY}"),
        (r#"header.X == "a" "${KEY}""#, "column 17: unexpected \"${KEY}\""),
        (r#"header.X == "${KEY}" "b${KEY}" && "#, "column 22: unexpected \"b${KEY}\""),
        (r#""${KEY}" == "a""#, "unknown name \"${KEY}\""),
        (r#"header.X in "${KEY}""#, "\"${KEY}\" is not a list"),
        (r#"header.X ~ "(${KEY}""#, "column 12: \"(${KEY}\" is not a regular expression: unclosed group"),
        (r#"client in "${KEY}""#, "\"${KEY}\" is not a network"),
        (r#"client in ["10.0.0.0/8", "${KEY}"]"#, "column 26: \"${KEY}\" is not a network"),
        (r#"header.X "${KEY}""#, "\"${KEY}\" has nothing to compare"),
        (r#"header["${KEY}" == "a""#, "column 17: a ] after the field name is missing"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nwhen = '{when}'\nrespond = {{}}\n"
        );
        fs::write(folder.path().join("larder.toml"), text).unwrap();
        for key in ["p4ss", "p4-ss.w0rd-x9-k1", "p4\"ss\\w0rd", "p4ss\tw0rd"] {
            let ended = run_with(folder.path(), &["check"], &[("KEY", key)]);
            assert!(ended.code == 2 && ended.err.contains(says), "{when}: {}", ended.err);
            for part in ["p4", "4ss", "w0r", "x9", "k1"] {
                assert!(!ended.err.contains(part), "{when}: {part}: {}", ended.err);
            }
        }
    }
}

/// Webhooks and the like have their secret in the path.
#[test]
fn a_secret_in_the_path_for_the_origin_is_shown_nowhere() {
    let origin = Origin::new(|it| format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{}", it.target()));
    let route = |path: &str, to: &str, keys: &str| {
        format!(
            "[[site.route]]\npath = \"{path}/*\"\ntrace = 1\nproxy.to = \"{}{to}\"\n{keys}\n",
            origin.url()
        )
    };
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"access.log\"\nerror = \"error.log\"\nlevels.origin = \"debug\"\n\
         [block.hook]\nadd_prefix = \"/plain/${{HOOK}}\"\n[[site]]\nhosts = [\"*\"]\n{}{}{}{}{}",
        route("/to", "/a/${HOOK}", "proxy.health = { path = \"/health\", interval = \"1s\" }"),
        route("/add", "", "use = [\"hook\"]"),
        route("/made", "", "rewrite = \"/${HOOK}/{uri}\""),
        route("/both", "/a/${HOOK}", "strip = \"/both\"\nadd_prefix = \"/b\""),
        route("/open", "/base", "add_prefix = \"/b\"")
    );
    let larder = Larder::start(Setup { config, env: vec![("HOOK".to_owned(), format!("{MARK}-hook"))] });
    for (path, shown) in [
        ("/to/a", "/***/to/a"),
        ("/add/a", "/***/add/a"),
        ("/made/a", "/***"),
        ("/both/a", "/***/a"),
        ("/open/a", "/base/b/open/a"),
    ] {
        let sent = larder.get(path).text();
        assert_eq!(path != "/open/a", sent.contains(MARK), "{sent}");
        let url = json!({ "url": format!("http://main.test{path}") });
        let report = asked(&larder, "POST", "/api/v1/explain", Some(&url)).1;
        assert_eq!(shown, report["origin_request"]["target"], "{report}");
    }
    every_get(&larder, "http://main.test/to/a");
    is_clean("metrics", &larder.admin_get("/metrics").text());
    logs_are_clean(&larder);
}

/// The fields of a request to explain are those of a visitor.
#[test]
fn the_audit_has_no_field_of_a_request_to_explain() {
    let larder = guarded(&echo());
    for (path, body) in [
        json!({ "url": format!("ftp://x y?token={MARK}"), "headers": [["Cookie", format!("sid={MARK}")]] }),
        json!({ "url": "http://h/", "headers": { "Authorization": format!("Bearer {MARK}") } }),
        json!({ "url": "http://h/", "unknown": MARK }),
    ]
    .into_iter()
    .flat_map(|it| ["/api/v1/explain", "/cache/explain"].map(|path| (path, it.to_string())))
    {
        // The log has a few refusals of a second.
        larder.advance(2);
        let response = larder.admin_send("POST", path, &body).read();
        assert!(response.status >= 400, "{response:?}");
    }
    let log = || larder.error_log();
    until("they are logged", || log().matches("/explain").count() >= 6);
    logs_are_clean(&larder);
    let audit = larder.admin_get("/api/v1/audit").text();
    assert!(audit.contains("/api/v1/explain") && !audit.contains(MARK), "{audit}");
}
