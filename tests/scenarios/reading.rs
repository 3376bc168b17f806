//! Reading the configuration on the real binary: included files, variables of the environment, blocks, and all mistakes at
//! once.

use crate::harness::command::run;
use crate::harness::server::Setup;
use crate::harness::{Client, Larder, Origin, until};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};

const PAGE: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nhello";

/// larder with a site for `main.test`, files in `conf.d`, and its origin in the environment.
fn start(origin: &Origin) -> Larder {
    let config = "listen = [\"127.0.0.1:0\"]\nworkers = 2\ninclude = [\"conf.d/*.toml\"]\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n\
                  [log]\nerror = \"error.log\"\n\n[block.app]\nproxy = { to = [\"${APP_ORIGIN}\"] }\ncache.x_cache = true\n\n\
                  [[site]]\nhosts = [\"main.test\"]\n[[site.route]]\nuse = [\"app\"]\n";
    let env = vec![("APP_ORIGIN".to_owned(), origin.url())];
    Larder::start(Setup { config: config.to_owned(), env })
}

/// The status of a host's start page, and its `X-Cache`.
fn get(larder: &Larder, host: &str) -> (u16, Option<String>) {
    let mut client = larder.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let page = client.read();
    (page.status, page.field("x-cache").map(str::to_owned))
}

fn write(larder: &Larder, name: &str, text: &str) {
    let path = larder.folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const SITE: &str = "# the second site\n[[site]]\nhosts = [\"a.test\"]\nuse = [\"app\"]\n[[site.route]]\ncache.x_cache = false\n";

#[test]
fn included_files_are_watched_and_named() {
    let origin = Origin::fixed(PAGE);
    let larder = start(&origin);
    let (status, x_cache) = get(&larder, "main.test");
    assert_eq!((200, true), (status, x_cache.is_some()), "the block and the environment are used");
    assert_eq!(404, get(&larder, "a.test").0);
    write(&larder, "conf.d/a.toml", SITE);
    until("the new site is served", || get(&larder, "a.test").0 == 200);
    assert_eq!(None, get(&larder, "a.test").1, "its own key wins over the block");
    // A mistake: the old configuration stays, and file and line are named.
    let refused = larder.counter("config_rejections");
    write(&larder, "conf.d/a.toml", &format!("{SITE}lisen = 1\n"));
    until("the mistake is found", || larder.counter("config_rejections") > refused);
    until("it is named", || larder.error_log().contains("conf.d/a.toml:7: site.route.lisen: unknown key"));
    assert_eq!(200, get(&larder, "a.test").0);
    // A key of two files.
    write(&larder, "conf.d/b.toml", "workers = 3\n");
    write(&larder, "conf.d/a.toml", SITE);
    until("both places are named", || {
        let log = larder.error_log();
        log.contains("conf.d/b.toml:1: workers: the key is set twice; first at")
            && log.contains("larder.toml:2")
    });
    fs::remove_file(larder.folder.path().join("conf.d/b.toml")).unwrap();
    fs::remove_file(larder.folder.path().join("conf.d/a.toml")).unwrap();
    until("a removed file is no longer served", || get(&larder, "a.test").0 == 404);
    assert_eq!(200, get(&larder, "main.test").0);
}

/// The answer of the admin to JSON.
fn fetch(larder: &Larder, path: &str, body: &Value) -> Value {
    serde_json::from_str(&larder.admin_post(&format!("/api/v1/config/{path}"), &body.to_string()).text())
        .unwrap()
}

fn config(larder: &Larder) -> Value {
    serde_json::from_str(&larder.admin_get("/api/v1/config").text()).unwrap()
}

fn put(larder: &Larder, body: &Value) -> (u16, Value) {
    let (mut client, body) = (Client::connect(larder.admin), body.to_string());
    let lines = larder.admin_lines();
    client.send(format!(
        "PUT /api/v1/config HTTP/1.1\r\n{lines}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let answer = client.read();
    (answer.status, serde_json::from_str(&answer.text()).unwrap())
}

/// larder with an included file, which the admin tells.
fn start_with_included(origin: &Origin) -> (Larder, Value) {
    let larder = start(origin);
    write(&larder, "conf.d/a.toml", &format!("cache.max_ttl = \"1d\"\n{SITE}"));
    until("the new site is served", || get(&larder, "a.test").0 == 200);
    let message = config(&larder);
    (larder, message)
}

#[test]
fn the_admin_shows_included_files_and_places_their_mistakes() {
    let origin = Origin::fixed(PAGE);
    let (larder, report) = start_with_included(&origin);
    let file = &report["included"][0];
    assert!(file["file"].as_str().unwrap().ends_with("conf.d/a.toml"), "{report}");
    assert_eq!(json!("1d"), report["document"]["cache"]["max_ttl"]);
    assert_eq!(json!(["a.test"]), report["document"]["site"][1]["hosts"]);
    assert_eq!((&json!([0, 1]), &json!(true)), (&report["site_files"], &file["editable"]));
    assert_eq!((&report["hash"], &json!([])), (&report["running_hash"], &report["pending"]));
    let text = report["text"].as_str().unwrap();
    assert!(!text.contains(&origin.url()), "variables are not replaced in the text");
    // A mistake of the main text has its line, one of an included file its file as well.
    let checked = fetch(&larder, "check", &json!({ "text": format!("{text}lisen = 1\n") }));
    assert!(checked["problems"][0]["line"].is_u64(), "{checked}");
    assert_eq!(Value::Null, checked["problems"][0]["file"], "{checked}");
    let wrong = file["text"].as_str().unwrap().replace("x_cache = false", "x_cache = 7");
    let included = json!([{ "path": file["path"], "text": wrong }]);
    let checked = fetch(&larder, "check", &json!({ "text": text, "included": included }));
    let problem = &checked["problems"][0];
    assert_eq!((&file["file"], &json!(7)), (&problem["file"], &problem["line"]), "{checked}");
    assert_eq!(json!(["site", 1, "route", 0]), problem["within"], "{checked}");
    assert_eq!(file["path"], checked["included"][0]["path"], "{checked}");
    let layers = fetch(&larder, "layers", &json!({ "text": text, "at": ["site", 1, "route", 0] }));
    let x_cache = layers["keys"]["cache.x_cache"].as_array().unwrap();
    assert_eq!(
        (&json!("own"), &json!("conf.d/a.toml"), &json!(7)),
        (&x_cache[0]["from"], &x_cache[0]["file"], &x_cache[0]["line"])
    );
    assert_eq!(
        (&json!("site-block"), &json!("app"), &json!(true)),
        (&x_cache[1]["from"], &x_cache[1]["name"], &x_cache[1]["value"])
    );
}

#[test]
fn an_edit_goes_to_its_file_and_is_rolled_back_there() {
    let origin = Origin::fixed(PAGE);
    let (larder, report) = start_with_included(&origin);
    let path = larder.folder.path().join("conf.d/a.toml");
    let (before, main) = (fs::read_to_string(&path).unwrap(), fs::read_to_string(larder.config()).unwrap());
    let set = json!([
        { "path": ["cache", "max_ttl"], "value": "2d" },
        { "path": ["site", 1, "route", 0, "cache", "x_cache"], "value": true },
        { "path": ["workers"], "value": 2 },
    ]);
    let edited = fetch(&larder, "edit", &json!({ "text": report["text"], "set": set }));
    assert_eq!(report["text"], edited["text"], "nothing of the main file is another");
    let text = before.replace("1d", "2d").replace("x_cache = false", "x_cache = true");
    let file = &report["included"][0];
    assert_eq!(json!([{ "path": file["path"], "text": text }]), edited["included"]);
    // Changed by another meanwhile, it is not written.
    let change = |base: &Value| {
        let included = json!([{ "path": file["path"], "text": text, "base": base }]);
        json!({ "text": report["text"], "base": report["hash"], "included": included })
    };
    let (status, refused) = put(&larder, &change(&report["hash"]));
    assert_eq!((409, &json!("base")), (status, &refused["where"]), "{refused}");
    assert_eq!(before, fs::read_to_string(&path).unwrap());
    let (status, saved) = put(&larder, &change(&file["hash"]));
    assert_eq!(200, status, "{saved}");
    assert_eq!(text, fs::read_to_string(&path).unwrap());
    assert_eq!(main, fs::read_to_string(larder.config()).unwrap());
    assert!(get(&larder, "a.test").1.is_some(), "it is in force when the answer comes");
    // One rollback restores every file of the change.
    let past = config(&larder)["history"][0]["id"].clone();
    let shown = fetch(&larder, "check", &json!({ "to": past }));
    assert_eq!(file["path"], shown["included"][0]["path"], "{shown}");
    let back = fetch(&larder, "rollback", &json!({ "to": past }));
    assert_eq!(json!([]), back["pending"], "{back}");
    assert_eq!(before, fs::read_to_string(&path).unwrap());
    assert_eq!(None, get(&larder, "a.test").1);
}

#[test]
fn the_admin_writes_and_tells_no_file_outside_of_the_configuration() {
    let origin = Origin::fixed(PAGE);
    let (larder, report) = start_with_included(&origin);
    let other = larder.folder.path().join("other.toml");
    fs::write(&other, "# not for anyone\nworkers = 7\n").unwrap();
    let change = |text: &Value, path: &Value| json!({ "text": text, "base": report["hash"], "included": [{ "path": path, "text": "", "base": "" }] });
    let (status, refused) = put(&larder, &change(&report["text"], &json!(other)));
    assert_eq!((409, &json!("included")), (status, &refused["where"]), "{refused}");
    let with = json!(report["text"].as_str().unwrap().replace("[\"conf.d", "[\"other.toml\", \"conf.d"));
    let (status, refused) = put(&larder, &change(&with, &json!(other)));
    assert_eq!(
        (409, &json!("included")),
        (status, &refused["where"]),
        "also if the text includes it: {refused}"
    );
    assert_eq!("# not for anyone\nworkers = 7\n", fs::read_to_string(&other).unwrap());
    let checked = fetch(&larder, "check", &json!({ "text": with }));
    let edit = json!([{ "path": ["log", "access"], "value": "-" }]);
    let edited = fetch(&larder, "edit", &json!({ "text": with, "set": edit }));
    assert_eq!(json!([]), checked["included"]);
    let into = json!([{ "path": ["site", 2], "value": { "hosts": "c.test" }, "file": 1 }]);
    let (status, refused) = {
        let answer =
            larder.admin_post("/api/v1/config/edit", &json!({ "text": with, "set": into }).to_string());
        (answer.status, answer.text())
    };
    assert!(status == 400 && refused.contains("other.toml yet; save its include first"), "{refused}");
    for it in [&checked["document"], &edited] {
        assert!(!it.to_string().contains("not for anyone"), "{it}");
        assert_ne!(json!(7), it["workers"], "{it}");
    }
}

#[test]
fn every_mistake_is_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let main = "include = [\"conf.d/*.toml\", \"missing.toml\"]\nworkers = \"${NO_SUCH_VARIABLE}\"\nroot = \"x\"\n\
                [block.a]\n[[site]]\nhosts = \"*\"\n[[site.route]]\nuse = \"b\"\nproxy.to = \":1\"\n";
    fs::write(folder.path().join("larder.toml"), main).unwrap();
    fs::create_dir(folder.path().join("conf.d")).unwrap();
    fs::write(
        folder.path().join("conf.d/x.toml"),
        "[log]\nerror = \"${NO_SUCH_VARIABLE:-e.log}\"\nlevel = 1\n",
    )
    .unwrap();
    let expect = "larder.toml:1: include: missing.toml cannot be read: no such file or directory\n\
         larder.toml:2: workers: the environment variable NO_SUCH_VARIABLE is not set; set it, or give a default: ${NO_SUCH_VARIABLE:-DEFAULT}\n\
         larder.toml:3: root: unknown key; larder calls it `site.route.files.root`; for example files = { root = \"public\" }\n\
         larder.toml:8: site.route.use: there is no block \"b\"; did you mean \"a\"?\n\
         conf.d/x.toml:3: log.level: unknown key; larder calls it `log.levels`; one for each part of larder\n";
    for command in ["check", "run"] {
        let ended = run(folder.path(), &[command, "-c", "larder.toml"]);
        assert_eq!(2, ended.code, "{ended:?}");
        let report: String =
            ended.err.lines().map(|it| format!("{}\n", it.trim_start_matches("larder: "))).collect();
        assert_eq!(expect, report, "{command}");
    }
    let right = "include = [\"conf.d/*.toml\"]\n[[site]]\nhosts = \"*\"\n[[site.route]]\nproxy.to = \":1\"\n";
    fs::write(folder.path().join("larder.toml"), right).unwrap();
    fs::remove_file(folder.path().join("conf.d/x.toml")).unwrap();
    fs::write(folder.path().join("real"), "[block.unused]\n").unwrap();
    std::os::unix::fs::symlink("../real", folder.path().join("conf.d/x.toml")).unwrap();
    let ended = run(folder.path(), &["check", "-c", "larder.toml"]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(
        ended.out.contains("warning: conf.d/x.toml:1: block.unused: the block is not used"),
        "{}",
        ended.out
    );
    let real = fs::canonicalize(folder.path().join("real")).unwrap();
    assert!(ended.out.contains(&format!("  include  conf.d/x.toml -> {}", real.display())), "{}", ended.out);
}

/// The response to a request in clear text, whatever listens.
fn clear_text(address: std::net::SocketAddr) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Writes a configuration and waits until it is in force.
fn reload(larder: &Larder, text: &str) {
    let before = larder.counter("config_reloads");
    fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is in force", || larder.counter("config_reloads") > before);
}

#[test]
fn a_reload_opens_and_closes_addresses() {
    let origin = Origin::fixed(PAGE);
    let site = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nerror = \"error.log\"\n[[site]]\nhosts = \"*\"\n[[site.route]]\nproxy.to = \"{}\"\n",
        origin.url()
    );
    let with = |listen: &str| format!("listen = [{listen}]\nworkers = 2\n{site}");
    let first = "\"127.0.0.1:0\"";
    let larder = Larder::configured(with(first));
    let mut kept = larder.client();
    assert_eq!(200, kept.get("/").status);
    let (_reserved, address) = crate::harness::reserved_address();
    let both = with(&format!("{first}, \"{address}\", \"unix:more.sock\""));
    reload(&larder, &both);
    let fetch = || std::net::TcpStream::connect(address).is_ok();
    until("the new address is open", fetch);
    // Every worker serves it.
    for _ in 0..16 {
        assert_eq!(200, Client::connect(address).get("/").status);
    }
    until("the socket is there", || larder.folder.path().join("more.sock").exists());
    assert_eq!(200, larder.get("/").status, "the first address is the same");
    let json: Value = serde_json::from_str(&larder.admin_get("/api/v1/stats").text()).unwrap();
    assert!(json.to_string().contains(&format!("http://{address}")), "{json}");
    let mut on_removed = Client::connect(address);
    assert_eq!(200, on_removed.get("/").status);
    // The same port with TLS, then none.
    let tls = with(&format!("{first}, \"https://{address}\""))
        .replacen("workers", "tls.self_signed = true\nworkers", 1)
        .replacen("\"127.0.0.1:0\"", "\"http://127.0.0.1:0\"", 1);
    reload(&larder, &tls);
    until("clear text is not HTTP there any more", || !clear_text(address).starts_with("HTTP/1.1 200"));
    assert_eq!(200, on_removed.get("/").status, "an open connection is served on");
    reload(&larder, &with(first));
    until("the address is closed", || !fetch());
    until("its socket file is removed", || !larder.folder.path().join("more.sock").exists());
    assert_eq!(200, kept.get("/").status);
    // An address in use rejects the reload, and nothing of it is taken over.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = larder.counter("config_rejections");
    let text = with(&format!("{first}, \"{address}\", \"{}\"", taken.local_addr().unwrap()));
    fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is rejected", || larder.counter("config_rejections") > refused);
    until("the reason is in the log", || larder.error_log().contains("the address is in use"));
    assert!(!fetch(), "the address before it is not open either");
    assert_eq!(200, larder.get("/").status);
}

#[test]
fn a_reload_switches_the_logs() {
    let origin = Origin::fixed(PAGE);
    let with = |log: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\n{log}\n[[site]]\nhosts = \"*\"\n[[site.route]]\nproxy.to = \"{}\"\n",
            origin.url()
        )
    };
    let larder = Larder::configured(with("error = \"one.log\""));
    let read = |name: &str| fs::read_to_string(larder.folder.path().join(name)).unwrap_or_default();
    let lines = |name: &str, format: &str| {
        until("lines are written", || {
            larder.get("/line");
            read(name).lines().any(|it| it == format)
        });
    };
    reload(&larder, &with("error = \"one.log\"\naccess = \"a.log\"\nformat = \"{status} {target}\""));
    lines("a.log", "200 /line");
    reload(&larder, &with("error = \"two.log\"\naccess = \"b.log\"\nformat = \"new {target}\""));
    lines("b.log", "new /line");
    until("the error log is switched", || read("two.log").contains("reloaded"));
    reload(&larder, &with("error = \"two.log\"\naccess = \"off\""));
    until("no line is added", || {
        let before = read("b.log").len();
        (0..4).for_each(|_| drop(larder.get("/silent")));
        before == read("b.log").len()
    });
    // A target that cannot be opened: nothing is switched.
    let refused = larder.counter("config_rejections");
    fs::write(larder.config(), with("error = \"none/x.log\"\naccess = \"c.log\"")).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is rejected", || larder.counter("config_rejections") > refused);
    until("the reason is in the old log", || read("two.log").contains("its directory must exist"));
}

#[test]
fn sites_have_logs_of_their_own() {
    let origin = Origin::fixed(PAGE);
    let syslog = tempfile::tempdir().unwrap();
    let socket = syslog.path().join("log");
    let datagrams = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    datagrams.set_read_timeout(Some(crate::harness::TIMEOUT)).unwrap();
    let site = |host: &str, log: &str| {
        format!("[[site]]\nhosts = \"{host}\"\n{log}\n[[site.route]]\nproxy.to = \"{}\"\n", origin.url())
    };
    let with = |a: &str| {
        let top = "listen = \"127.0.0.1:0\"\nworkers = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nerror = \"error.log\"\naccess = \"all.log\"\nformat = \"{host} {target}\"\n";
        let of_syslog = format!("access_log = \"syslog:{}\"", socket.display());
        let parts = [
            site("a.test", a),
            site("b.test", &of_syslog),
            site("c.test", "access_log = \"off\""),
            site("*", ""),
        ];
        format!("{top}{}", parts.concat())
    };
    let own = "access_log = \"a.log\"\nlog_format = \"own {target} {status}\"\nlog_skip = 'path == \"/health\"'\nlog_when = 'status < 500'";
    let larder = Larder::configured(with(own));
    let read = |name: &str| fs::read_to_string(larder.folder.path().join(name)).unwrap_or_default();
    let fetch = |host: &str, target: &str| {
        let mut client = larder.client();
        // A miss and a hit: both speeds are logged alike.
        for _ in 0..2 {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(200, client.read().status);
        }
    };
    for (host, target) in
        [("a.test", "/health"), ("a.test", "/a"), ("b.test", "/b"), ("c.test", "/c"), ("d.test", "/d")]
    {
        fetch(host, target);
    }
    until("the log of the site is written", || read("a.log") == "own /a 200\nown /a 200\n");
    until("the log of the others is written", || read("all.log") == "d.test /d\nd.test /d\n");
    let mut message = [0; 200];
    for _ in 0..2 {
        let count = datagrams.recv(&mut message).unwrap();
        let text = String::from_utf8_lossy(&message[..count]).into_owned();
        assert_eq!(format!("<134>larder[{}]: b.test /b", larder.child.id()), text);
    }
    // A reload gives the site another log, and the rules of all sites.
    reload(&larder, &with("access_log = \"a2.log\""));
    until("the new log is written", || {
        fetch("a.test", "/health");
        read("a2.log").contains("a.test /health")
    });
    assert_eq!("own /a 200\nown /a 200\n", read("a.log"));
    let refused = larder.counter("config_rejections");
    fs::write(larder.config(), with("access_log = \"none/a.log\"\nlog_when = 'statsu > 1'")).unwrap();
    larder.signal(libc::SIGHUP);
    until("a wrong condition is rejected", || larder.counter("config_rejections") > refused);
    assert!(
        larder
            .error_log()
            .contains("site.log_when: found 'statsu > 1'; allowed: a condition over the finished request")
    );
}
