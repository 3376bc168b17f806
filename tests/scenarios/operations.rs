//! The work of an operator: starting, checking, reloading, rotating logs, explaining, and stopping.

use crate::harness::command::{run, wait};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::{Client, Larder, Origin, until};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const PAGE: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nhello";

/// A configuration with an error log, before `origin`; `cache` are the settings of its only route.
fn config(origin: &Origin, cache: &str, log: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n\n[admin]\nlisten = \"127.0.0.1:0\"\n\n[log]\nerror = \"error.log\"\n\
         {log}\n\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\ncache = {{ {cache} }}\n",
        origin.url()
    )
}

fn start(config: String) -> Larder {
    Larder::configured(config)
}

fn read(larder: &Larder, name: &str) -> String {
    std::fs::read_to_string(larder.folder.path().join(name)).unwrap_or_default()
}

/// The lines of a log, once `count` are there.
#[track_caller]
fn lines(larder: &Larder, name: &str, count: usize) -> Vec<String> {
    until("the lines are written", || read(larder, name).lines().count() >= count);
    read(larder, name).lines().map(str::to_owned).collect()
}

/// One GET over a Unix socket; the whole response as text.
fn get_unix(socket: &Path, target: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream
        .write_all(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_reload_under_load_loses_nothing() {
    let origin = Origin::fixed(PAGE);
    let larder = start(config(&origin, "", ""));
    larder.get("/");
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|number| {
            let (stop, mut client) = (stop.clone(), larder.client());
            std::thread::spawn(move || {
                let mut count = 0_u64;
                while !stop.load(SeqCst) {
                    // Hits, and pages that nobody asked for yet.
                    let target =
                        if count.is_multiple_of(8) { format!("/{number}/{count}") } else { "/".to_owned() };
                    let page = client.get(&target);
                    assert!(page.status == 200 && page.complete && page.text() == "hello", "{page:?}");
                    count += 1;
                }
                count
            })
        })
        .collect();
    for turn in 1..=20 {
        let on = turn % 2 == 1;
        std::fs::write(larder.config(), config(&origin, &format!("x_cache = {on}"), "")).unwrap();
        larder.signal(libc::SIGHUP);
        until("the reload is counted", || larder.counter("config_reloads") >= turn);
        // Each worker takes it over by itself.
        until("the change is there", || (0..8).all(|_| larder.get("/").field("x-cache").is_some() == on));
        assert!(larder.get("/").is_hit(), "the store outlives a reload");
    }
    let bad = config(&origin, "default_tll = \"60s\"", "");
    std::fs::write(larder.config(), &bad).unwrap();
    larder.signal(libc::SIGHUP);
    until("the refusal is counted", || larder.counter("config_rejections") >= 1);
    assert!(larder.get("/").is_hit());
    stop.store(true, SeqCst);
    let served: u64 = load.into_iter().map(|it| it.join().expect("every request was answered")).sum();
    assert!(served > 0);
    let line = 1 + bad.lines().position(|it| it.contains("default_tll")).unwrap();
    let text = format!("larder.toml:{line}: site.route.cache.default_tll: unknown key; did you mean");
    until("the reason is in the error log", || read(&larder, "error.log").contains(&text));
    assert!(read(&larder, "error.log").contains("reload-refused"));
}

#[test]
fn each_error_of_a_refused_reload_is_a_line_of_the_log() {
    let origin = Origin::fixed(PAGE);
    let larder = start(config(&origin, "", ""));
    let bad = format!("lisen = 1\nwokers = 0\n{}", std::fs::read_to_string(larder.config()).unwrap());
    std::fs::write(larder.config(), bad).unwrap();
    larder.signal(libc::SIGHUP);
    until("it is refused", || read(&larder, "error.log").matches(" reload-refused ").count() >= 2);
    let log = read(&larder, "error.log");
    for part in ["larder.toml:1: lisen: unknown key", "larder.toml:2: wokers: unknown key"] {
        let found: Vec<&str> = log.lines().filter(|it| it.contains(part)).collect();
        assert!(!found.is_empty() && found.iter().all(|it| it.contains(" error reload-refused ")), "{log}");
    }
    assert!(!log.contains("\\u000a"), "{log}");
}

#[test]
fn a_changed_file_is_noticed() {
    let origin = Origin::fixed(PAGE);
    let larder = start(config(&origin, "", ""));
    std::fs::write(larder.config(), config(&origin, "x_cache = true", "")).unwrap();
    until("the change is there", || larder.get("/").field("x-cache").is_some());
    std::fs::write(larder.config(), "listen = [").unwrap();
    until("the refusal is counted", || larder.counter("config_rejections") >= 1);
    assert!(larder.get("/").field("x-cache").is_some());
    // What needs a restart is named with its line, and the rest applies.
    let more = config(&origin, "server_timing = false", "").replacen("workers = 2", "workers = 3", 1);
    let more = more.replace("cache = { server_timing = false }", "server_timing = true");
    std::fs::write(larder.config(), more).unwrap();
    until("the rest is in force", || (0..8).all(|_| larder.get("/").field("server-timing").is_some()));
    until("the key is named", || {
        read(&larder, "error.log").contains("larder.toml:2: workers: takes effect at the next start")
    });
    assert_eq!(1, larder.counter("config_rejections"));
}

/// The old file could not be opened again: its directory has another name by now.
#[test]
fn a_refused_reload_leaves_the_access_log_at_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("old")).unwrap();
    let access = |file: &str| format!("access = \"{}\"", at(file).display());
    let origin = Origin::fixed(PAGE);
    let first = config(&origin, "", &access("old/access.log"));
    let larder = start(first.clone());
    std::fs::rename(at("old"), at("renamed")).unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    let audit = format!("[admin]\naudit = \"{}\"", at("directory").display());
    let second = config(&origin, "", &access("new.log")).replacen("[admin]", &audit, 1);
    std::fs::write(larder.config(), second).unwrap();
    until("the reload is refused", || larder.counter("config_rejections") >= 1);
    larder.get("/after");
    let has_line = |name: &str| std::fs::read_to_string(at(name)).is_ok_and(|it| it.contains("GET /after "));
    until("the request is logged", || has_line("renamed/access.log") || has_line("new.log"));
    assert!(!has_line("new.log"), "{}", read(&larder, "error.log"));
}

#[test]
fn the_access_log_in_combined_form_and_its_rotation() {
    let origin = Origin::fixed(PAGE);
    let larder = start(config(&origin, "", "access = \"access.log\""));
    let more = "User-Agent: a \"quoted\" one\r\nReferer: http://r/\r\n";
    let mut client = larder.client();
    for target in ["/a?b=c", "/a?b=c", "/%22"] {
        client.get_with(target, more);
    }
    let before = lines(&larder, "access.log", 3);
    let (first, rest) = before[0].split_once(" [").unwrap();
    let (time, rest) = rest.split_once("] ").unwrap();
    assert_eq!("127.0.0.1 - -", first);
    assert_eq!("\"GET /a?b=c HTTP/1.1\" 200 5 \"http://r/\" \"a \\x22quoted\\x22 one\"", rest);
    assert!(time.len() == "21/Nov/2026:07:42:06 +0000".len() && time.ends_with(" +0000"), "{time}");
    let at = |name: &str| larder.folder.path().join(name);
    std::fs::rename(at("access.log"), at("access.log.1")).unwrap();
    larder.signal(libc::SIGUSR1);
    until("the log is opened anew", || at("access.log").exists());
    client.get("/after");
    assert!(lines(&larder, "access.log", 1)[0].contains("GET /after "));
    assert_eq!(before, lines(&larder, "access.log.1", 3));
    assert_eq!(0, larder.counter("log_lines_dropped"));
}

#[test]
fn the_access_log_in_json() {
    let origin = Origin::scripted(|request| match request.target() {
        "/cut" => vec![
            Script::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this".to_vec()),
            Script::Close,
        ],
        _ => vec![Script::Send(response(PAGE))],
    });
    let larder = start(config(&origin, "", "access = \"access.log\"\nformat = \"json\""));
    for target in ["/a", "/a", "/cut"] {
        larder.get(target);
    }
    let page = larder.client().send("GET / HTTP/1.1\r\n\r\n").read().text();
    let lines = lines(&larder, "access.log", 4);
    let find = |target: &str, cache: &str| {
        let parsed = lines.iter().map(|it| serde_json::from_str::<serde_json::Value>(it).unwrap());
        let mut found = parsed.filter(|it| it["target"] == target && it["cache"] == cache);
        found.next().unwrap_or_else(|| panic!("{target} {cache} in {lines:#?}"))
    };
    let (miss, hit) = (find("/a", "uri-miss"), find("/a", "hit"));
    for it in [&miss, &hit] {
        assert_eq!(
            ("GET", "h", 200, 5),
            (
                it["method"].as_str().unwrap(),
                it["host"].as_str().unwrap(),
                it["status"].as_u64().unwrap(),
                it["bytes"].as_u64().unwrap(),
            )
        );
        assert_eq!(("whole", "*/*"), (it["end"].as_str().unwrap(), it["route"].as_str().unwrap()));
    }
    assert!(miss["origin_us"].as_u64().unwrap() <= miss["duration_us"].as_u64().unwrap(), "{miss}");
    assert!(hit["origin_us"].is_null());
    let cut = find("/cut", "uri-miss");
    assert_eq!(("cut", 9), (cut["end"].as_str().unwrap(), cut["bytes"].as_u64().unwrap()));
    let refused = find("-", "");
    assert_eq!(400, refused["status"]);
    assert_eq!(page.len() as u64, refused["bytes"].as_u64().unwrap(), "{refused}");
}

#[test]
fn the_access_log_in_a_form_of_ones_own() {
    let origin = Origin::fixed(PAGE);
    let form = r#"format = '{status} {cache} "{header:X-Forwarded-For}" {user_agent} {header:Cookie}'"#;
    let larder = start(config(&origin, "", &format!("access = \"access.log\"\n{form}")));
    let more = "User-Agent: two words\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: \"x\r\n";
    let mut client = larder.client();
    client.get_with("/", more);
    client.get("/");
    assert_eq!(
        [r#"200 uri-miss "192.0.2.1, \x22x" two\x20words -"#, r#"200 hit "-" - -"#],
        lines(&larder, "access.log", 2).as_slice()
    );
}

#[test]
fn a_log_at_its_largest_size_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("page"), "hello").unwrap();
    let (root, log) = (folder.path().to_str().unwrap(), folder.path().join("access.log"));
    // As large as it may become: blocks of 512 bytes.
    std::fs::File::create(&log).unwrap().set_len(100_000 * 512).unwrap();
    let arguments = ["serve", root, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--ram", "2MiB"];
    let arguments = [&arguments[..], &["--log", log.to_str().unwrap()]].concat();
    let larder = Larder::within("ulimit -f 100000", &arguments);
    assert_eq!(200, larder.get("/page").status);
    until("the line is dropped", || larder.counter("log_lines_dropped") > 0);
    assert_eq!(200, larder.get("/page").status);
}

#[test]
fn files_too_small_for_any_memory_are_refused_at_the_start() {
    let (binary, arguments) = (crate::harness::server::binary(), "proxy :9 --listen 127.0.0.1:0 --admin off");
    let run = format!("ulimit -f 1 && exec {} {arguments}", binary.display());
    let output = std::process::Command::new("sh").args(["-c", &run]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((Some(2), true), (output.status.code(), text.contains("exceeds `ulimit -f`")), "{text}");
}

#[test]
fn a_full_pipe_never_blocks_serving() {
    let origin = Origin::fixed(PAGE);
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the name is a string that ends in a zero and lives until the call returns.
    assert_eq!(0, unsafe { libc::mkfifo(name.as_ptr(), 0o600) });
    let larder = start(config(&origin, "", &format!("access = \"{}\"", pipe.display())));
    let mut client = larder.client();
    let target = format!("/{}", "x".repeat(7000));
    // Far more than pipe, queue and buffers hold: nobody reads.
    for _ in 0..4_000 {
        let page = client.get(&target);
        assert!(page.status == 200 && page.complete, "{page:?}");
    }
    until("lines are dropped", || larder.counter("log_lines_dropped") > 0);
    assert!(larder.resident() < 256 << 20);
    // And it stops, although the log cannot be written.
    let mut larder = larder;
    larder.signal(libc::SIGTERM);
    assert_eq!(Some(0), wait(&mut larder.child).code());
}

#[test]
fn a_stop_lets_requests_finish() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| vec![Script::Gate(held.clone()), Script::Send(response(PAGE))]);
    let mut larder = start(config(&origin, "", "access = \"access.log\""));
    let (mut busy, mut idle) = (larder.client(), larder.client());
    busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the request is at the origin", || gate.waiting() == 1);
    larder.signal(libc::SIGTERM);
    assert!(idle.is_closed(), "an idle connection is closed");
    until("nobody is let in any more", || std::net::TcpStream::connect(larder.address).is_err());
    gate.open();
    let page = busy.read();
    assert_eq!((200, "hello", true), (page.status, page.text().as_str(), page.complete));
    assert!(busy.is_closed());
    assert_eq!(Some(0), wait(&mut larder.child).code());
    assert!(lines(&larder, "access.log", 1)[0].contains("\"GET / HTTP/1.1\" 200 5"));
    assert!(read(&larder, "error.log").contains(" info stopped"));
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |_| vec![Script::Gate(held.clone())]);
    let text =
        config(&origin, "", "").replace("workers = 2", "workers = 2\nlimits.drain_timeout = \"100ms\"");
    let mut larder = start(text);
    let mut busy = larder.client();
    busy.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until("the request is at the origin", || gate.waiting() == 1);
    larder.signal(libc::SIGTERM);
    assert_eq!(Some(1), wait(&mut larder.child).code());
    assert!(busy.is_closed());
    assert!(read(&larder, "error.log").contains("requests-cut"));
    gate.open();
}

#[test]
fn serve_needs_a_directory_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("index.html"), "the index").unwrap();
    std::fs::write(folder.path().join("sub/a.txt"), "a text").unwrap();
    std::fs::write(folder.path().join(".secret"), "no").unwrap();
    let socket = folder.path().join("web.sock");
    let unix = format!("unix:{}", socket.display());
    let root = folder.path().to_str().unwrap();
    let larder = Larder::command(&[
        "serve",
        root,
        "--listing",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        &unix,
        "--admin",
        "127.0.0.1:0",
    ]);
    assert_eq!("the index", larder.get("/").text());
    let text = larder.get("/sub/a.txt");
    assert_eq!((200, "a text"), (text.status, text.text().as_str()));
    assert!(text.field("content-type").unwrap().starts_with("text/plain"));
    assert!(larder.get("/sub/").text().contains("a.txt"));
    assert_eq!((404, 404), (larder.get("/.secret").status, larder.get("/nothing").status));
    assert!(get_unix(&socket, "/sub/a.txt").ends_with("\r\n\r\na text"));
    assert!(larder.printed().contains(&format!("listening on {unix}\n")), "{}", larder.printed());
}

#[test]
fn proxy_takes_the_settings_that_matter() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nhello");
    let larder = Larder::command(&[
        "proxy",
        &origin.url(),
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--workers",
        "1",
        "--ram",
        "8MiB",
        "--default-ttl",
        "1m",
        "--log",
        "-",
        "--set",
        "cache.x_cache=true",
    ]);
    let mut client = larder.client();
    assert_eq!(Some("MISS"), client.get("/").field("x-cache"));
    let hit = client.get("/");
    assert_eq!((Some("HIT"), true), (hit.field("x-cache"), hit.is_hit()));
    until("the log is on standard output", || {
        larder.printed().matches("\"GET / HTTP/1.1\" 200 5").count() == 2
    });
    let quiet = Larder::command(&["proxy", &origin.url(), "--listen", "127.0.0.1:0", "--admin", "off"]);
    assert!(quiet.printed().contains("admin off\n"));
    assert_eq!(200, quiet.get("/").status);
}

#[test]
fn two_larders_on_one_machine() {
    let origin = Origin::fixed(PAGE);
    let before = || Larder::command(&["proxy", &origin.url(), "--listen", "127.0.0.1:0"]);
    let (one, two) = (before(), before());
    assert_ne!(one.admin, two.admin);
    for larder in [&one, &two] {
        assert!((9180..=9280).contains(&larder.admin.port()), "{}", larder.admin);
        larder.get("/");
        assert_eq!(1, larder.counter("cache_stores"));
    }
    // explain asks the one that serves the port.
    for (larder, stored) in [(&one, "/one"), (&two, "/two")] {
        larder.get(stored);
        let url = |path: &str| format!("http://{}{path}", larder.address);
        let host = format!("GET {stored} HTTP/1.1\r\nHost: {}\r\n\r\n", larder.address);
        larder.client().send(host).read();
        for (path, verdict) in [(stored, "hit"), ("/neither", "miss")] {
            let output = run(larder.folder.path(), &["explain", &url(path), "--json"]);
            let output: serde_json::Value =
                serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{output:?}"));
            assert_eq!(verdict, output["verdict"]["name"], "{path}: {output:#}");
        }
    }
}

#[test]
fn the_admin_answers_on_a_unix_socket_of_its_own_user() {
    let origin = Origin::fixed(PAGE);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let spelt = format!("unix:{}", socket.display());
    let arguments =
        ["proxy", &origin.url(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--admin-socket"];
    let arguments = [&arguments[..], &[socket.to_str().unwrap()]].concat();
    let larder = Larder::command(&arguments);
    until("it is printed", || larder.printed().contains(&format!("admin on {spelt}\n")));
    assert_eq!(0o600, std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777);
    assert!(get_unix(&socket, "/cache/stats").contains("\"cache_hits\""));
    let output = run(folder.path(), &["explain", "http://h/", "--admin", &spelt]);
    assert_eq!(0, output.code, "{output:?}");
    assert!(output.out.contains("\nverdict  miss\n"), "{}", output.out);
    let second = run(folder.path(), &arguments);
    assert_eq!(2, second.code, "the socket is in use: {second:?}");
    assert!(second.err.contains("choose another address with --admin-socket"), "{}", second.err);
    drop(larder);
    drop(Larder::command(&arguments)); // What was left of the first is replaced.
}

/// Whether `line` is one sentence: one line that says who speaks.
#[track_caller]
fn check_refused(folder: &Path, arguments: &[&str], expect: &str) {
    let ended = run(folder, arguments);
    let shown = arguments.join(" ");
    assert_eq!((2, ""), (ended.code, ended.out.as_str()), "{shown}: {}", ended.err);
    assert!(ended.err.starts_with("larder: ") && ended.err.contains(expect), "{shown}: {}", ended.err);
    assert_eq!(1, ended.err.lines().count(), "{shown}: {}", ended.err);
}

#[test]
fn a_start_that_cannot_succeed_names_the_reason_and_starts_nothing() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "listen = [\"127.0.0.1:0\"]\n[cash]\nsize = 1\n").unwrap();
    std::fs::write(folder.path().join("not.toml"), "listen = \n").unwrap();
    let check = |arguments: &str, expect: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        check_refused(folder.path(), &arguments, expect);
    };
    check(&format!("proxy :1 --admin off --listen 127.0.0.1:0 --listen {taken}"), "the address is in use");
    check(&format!("proxy :1 --listen 127.0.0.1:0 --admin {taken}"), "choose another address with --admin");
    check("proxy :1 --listen unix:nowhere/x.sock", "the directory does not exist");
    check("proxy nonsense", "ORIGIN: found \"nonsense\"");
    check("proxy http://127.0.0.1:99999", "ORIGIN: found");
    check("proxy ftp://a", "ORIGIN: found \"ftp://a\"");
    check("proxy", "requires ORIGIN; for example");
    check("proxy :1 --ram 1ZB", "--ram: found \"1ZB\"; allowed:");
    check("proxy :1 --workers 0", "--workers: found \"0\"; allowed:");
    check("proxy :1 --listen 127.0.0.1:http", "--listen: found");
    check(
        "proxy :1 --log nowhere/access.log --listen 127.0.0.1:0 --admin off",
        "nowhere/access.log cannot be created: its directory does not exist; create it",
    );
    check("prxy :1", "did you mean `larder proxy`?");
    check("serve nowhere", "DIR: nowhere: no such file or directory");
    check("run", "no configuration file: neither larder.toml nor");
    check("run -c nowhere.toml", "nowhere.toml: cannot be read");
    check("run -c bad.toml", "bad.toml:2: cash: unknown");
    check("check -c bad.toml", "bad.toml:2: cash: unknown");
    check("check -c not.toml", "not.toml:1: ");
    check("explain ftp://a/", "URL: found \"ftp://a/\"");
    let (_closed, closed_at) = crate::harness::closed_address();
    let nobody = run(folder.path(), &["explain", "http://a/", "--admin", &closed_at.to_string()]);
    assert_eq!(1, nobody.code);
    assert!(
        nobody.err.starts_with(&format!("larder: No larder answers at {closed_at} (connection refused)"))
    );
}

#[test]
fn a_name_that_is_not_known_is_a_warning() {
    let arguments = ["proxy", "http://nohost.invalid", "--listen", "127.0.0.1:0", "--admin", "off"];
    let larder = Larder::within("exec 2>said.txt", &arguments);
    let expect = "larder: warning: ORIGIN: the name nohost.invalid cannot be resolved now (";
    // The lookup may end after the start.
    until("it is told", || read(&larder, "said.txt").lines().any(|it| it.starts_with(expect)));
    assert_eq!(502, larder.get("/").status);
}

#[test]
fn an_unresolvable_name_in_a_reload_is_a_warning() {
    let origin = Origin::fixed(PAGE);
    let larder = start(config(&origin, "", ""));
    let text = config(&origin, "", "").replace(&origin.url(), "http://nohost.invalid:80");
    std::fs::write(larder.config(), &text).unwrap();
    larder.signal(libc::SIGHUP);
    until("the reload is counted", || larder.counter("config_reloads") >= 1);
    let line = 1 + text.lines().position(|it| it.contains("nohost")).unwrap();
    let expect =
        format!("larder.toml:{line}: site.route.proxy.to: the name nohost.invalid cannot be resolved now (");
    until("it is told", || read(&larder, "error.log").contains(&expect));
    let log = read(&larder, "error.log");
    let report: Vec<&str> = log.lines().filter(|it| it.contains("nohost")).collect();
    assert!(report.len() == 1 && report[0].contains(" warn config-warning "), "{report:?}");
    let output = run(larder.folder.path(), &["check"]);
    assert_eq!((0, ""), (output.code, output.err.as_str()));
    assert!(output.out.starts_with(&format!("warning: {expect}")), "{}", output.out);
    assert!(output.out.contains("larder.toml: OK\n"), "{}", output.out);
}

#[test]
fn the_first_line_of_the_error_log_names_version_and_addresses() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\n");
    let larder = start(config(&origin, "", ""));
    let first = lines(&larder, "error.log", 1).remove(0);
    let (version, file) = (env!("CARGO_PKG_VERSION"), larder.config());
    let expect = format!(
        " info started version={version} configuration={} listen=http://{} admin=http://{} workers=2",
        file.display(),
        larder.address,
        larder.admin
    );
    assert!(first.ends_with(&expect), "{first}\n{expect}");
}

#[test]
fn check_prints_the_effect_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let text = "listen = [\"127.0.0.1:8080\", \"unix:/run/l.sock\"]\n[cache.ram]\nsize = \"1GiB\"\n[[site]]\nhosts = [\"*.example.com\"]\n\
                [[site.route]]\npath = \"/s/*\"\nfiles = { root = \".\" }\n[[site.route]]\nproxy = { to = [\"http://[::1]:81\"], backup = [\"b:82\", \"c:83\"] }\n\
                cache = { enabled = false }\n";
    std::fs::write(folder.path().join("larder.toml"), text).unwrap();
    let output = run(folder.path(), &["check"]);
    assert_eq!((0, ""), (output.code, output.err.as_str()));
    for expect in [
        "larder.toml: OK\n",
        "listen   127.0.0.1:8080, unix:/run/l.sock\n",
        "ram      1GiB\n",
        "site     *.example.com\n",
        "/s/*               files ",
        "/*                 proxy http://[::1]:81; backup http://b:82, http://c:83 (not cached)\n",
    ] {
        assert!(output.out.contains(expect), "{expect}: {}", output.out);
    }
    let many = "workers = 0\nlisten = [\"x\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = { to = [\"http://a:1\"] }\n";
    std::fs::write(folder.path().join("many.toml"), many).unwrap();
    let output = run(folder.path(), &["check", "many.toml"]);
    assert_eq!(
        (2, "larder: unexpected argument \"many.toml\"; write `larder check -c many.toml`\n"),
        (output.code, output.err.as_str())
    );
    let output = run(folder.path(), &["check", "-c", "many.toml"]);
    assert_eq!((2, 2), (output.code, output.err.lines().count()), "every mistake at once: {}", output.err);
}

#[test]
fn explain_reports_the_last_response_and_the_next() {
    let origin = Origin::new(|request| match request.target() {
        "/private" => "HTTP/1.1 200 OK\nCache-Control: private\n\nmine".to_owned(),
        "/bare" => "HTTP/1.1 200 OK\n\nbare".to_owned(),
        _ => PAGE.to_owned(),
    });
    let text = config(&origin, "private_cookies = [\"session*\"], default_ttl = \"60s\"", "");
    let larder = start(text.clone());
    let admin = larder.admin.to_string();
    for target in ["/page", "/private", "/bare"] {
        larder.get(target);
    }
    larder.advance(10);
    let explain = |path: &str, more: &[&str]| {
        let url = format!("http://h{path}");
        let output = run(larder.folder.path(), &[&["explain", &url, "--admin", &admin], more].concat());
        assert_eq!((0, ""), (output.code, output.err.as_str()), "{path}");
        output.out
    };
    let page = explain("/page", &[]);
    let line = 1 + text.lines().position(|it| it.starts_with("cache = ")).unwrap();
    for expect in [
        "verdict  hit\n",
        "route    */*",
        "key      http://h/page\n",
        "ram      1 variant(s)\n",
        "status 200, 5 bytes",
        "resident 1", // Ten seconds, or eleven.
        "600",
        "RFC 9111",
        "cache.private_cookies",
        &format!("larder.toml:{line}\n"),
    ] {
        assert!(page.contains(expect), "{expect}: {page}");
    }
    assert!(!page.contains("to change the verdict"), "a hit needs no advice: {page}");
    let json = |path: &str, more: &[&str]| -> serde_json::Value {
        serde_json::from_str(&explain(path, &[&["--json"], more].concat())).unwrap()
    };
    for (path, more, verdict) in [
        ("/page", &[][..], "hit"),
        ("/page", &["-H", "Cache-Control: no-cache"], "miss"),
        ("/page", &["-X", "HEAD"], "hit"),
        ("/page", &["-X", "POST"], "pass"),
        ("/page", &["-H", "Cookie: session1=x"], "pass"),
        ("/bare", &[], "hit"),
        ("/private", &[], "miss"),
        ("/nobody-asked", &[], "miss"),
    ] {
        let output = json(path, more);
        assert_eq!(verdict, output["verdict"]["name"], "{path} {more:?}: {output:#}");
        let rules = output["rules"].as_array().unwrap();
        let decided = rules.iter().filter(|it| it["outcome"] == "decided").count();
        assert_eq!(1, decided, "one rule decides {path} {more:?}: {output:#}");
        let shown = &json(path, more)["settings"]["given"];
        assert!(shown.as_array().unwrap().iter().any(|it| it["key"] == "cache.default_ttl"), "{shown}");
    }
    let bare = json("/bare", &[])["rules"].to_string();
    let decider =
        format!("\"cache.default_ttl: {}:{line}\"", larder.folder.path().join("larder.toml").display());
    assert!(bare.contains(&decider), "the rule names its line: {bare}");
    let refused = json("/private", &[]);
    assert!(refused["last_refusal"]["rules"].to_string().contains("private"), "{refused:#}");
    assert!(refused["change"].is_string() || refused["last_refusal"]["change"].is_string(), "{refused:#}");
}

#[test]
fn the_demo_shows_its_announced_results() {
    let larder = Larder::command(&["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let mut client = larder.client();
    until("it says what to try", || larder.printed().contains("session=Ada'\n"));
    let why = larder.printed();
    let why = why.lines().find_map(|it| it.trim().strip_prefix("Why?")).unwrap_or_default();
    let words: Vec<&str> = why.split_whitespace().skip(1).collect();
    let output = run(larder.folder.path(), &words);
    assert!(
        output.code == 0 && output.out.contains("verdict  miss\n"),
        "{why}: {} {}",
        output.out,
        output.err
    );
    assert!(output.out.contains("to change the verdict: Send the request once"), "{}", output.out);
    let (miss, hit) = (client.get("/recipes/1"), client.get("/recipes/1"));
    assert!(miss.status == 200 && !miss.is_hit() && hit.is_hit(), "{}, {}", miss.cache(), hit.cache());
    assert_eq!(miss.body, hit.body);
    // A search is a page for each query.
    let (pear, plum) = (client.get("/search?q=pear"), client.get("/search?q=plum"));
    assert!(client.get("/search?q=pear").is_hit() && pear.body != plum.body);
    // A page that changes.
    let now = client.get("/now");
    larder.advance(60);
    assert_ne!(now.body, {
        client.get("/now");
        client.get("/now").body
    });
    // A login is private.
    let login = login(&mut client);
    let page = client.get_with("/me", &login);
    assert!(page.text().contains("Ada") && !page.is_hit(), "{}", page.text());
    assert!(!larder.get("/me").text().contains("Ada"));
    // Hundreds of pages, and images.
    assert_eq!(200, client.get("/recipes/300").status);
    let photo = client.get("/photos/1.png");
    assert!(photo.body.starts_with(b"\x89PNG") && client.get("/photos/1.png").is_hit());
}

#[test]
fn the_demo_has_a_configuration_that_can_be_changed_and_goes_with_it() {
    let mut larder = Larder::command(&["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let config = |larder: &Larder| -> serde_json::Value {
        serde_json::from_str(&larder.admin_get("/api/v1/config").text()).unwrap()
    };
    let message = config(&larder);
    assert_eq!((true, None), (message["editable"].as_bool().unwrap(), message["why"].as_str()), "{message}");
    let path = PathBuf::from(message["path"].as_str().unwrap());
    until("it is named", || larder.printed().contains(&*path.to_string_lossy()));
    let text = message["text"].as_str().unwrap().replace("# trace = 10", "trace = 7");
    let body = serde_json::json!({ "text": text, "base": message["hash"] }).to_string();
    let lines = format!("{}\r\nContent-Length: {}", larder.admin_lines(), body.len());
    let put = Client::connect(larder.admin)
        .send(format!("PUT /api/v1/config HTTP/1.1\r\n{lines}\r\n\r\n{body}"))
        .read();
    assert_eq!(200, put.status, "{put:?}");
    assert!(larder.admin_get("/api/v1/traces").text().contains(r#""every":7"#));
    assert_eq!(1, config(&larder)["history"].as_array().unwrap().len());
    larder.signal(libc::SIGTERM);
    wait(&mut larder.child);
    assert!(!path.parent().unwrap().exists(), "{} goes", path.display());
}

#[test]
fn the_demo_without_an_admin_names_no_explain() {
    let larder = Larder::command(&["demo", "--listen", "127.0.0.1:0", "--admin", "off"]);
    until("it says what to try", || larder.printed().contains("Many at once"));
    assert_eq!(200, larder.get("/recipes/1").status);
    assert!(!larder.printed().contains(" explain"), "{}", larder.printed());
}

/// Logs in as Ada, as the form of the demo does.
fn login(client: &mut Client) -> String {
    let kind = "Content-Type: application/x-www-form-urlencoded\r\n";
    let landed = client.request("POST", "/login", kind, "name=Ada");
    let cookie = landed.field("set-cookie").unwrap_or_else(|| panic!("{landed:?}"));
    format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let ended = run(
        folder.path(),
        &["proxy", ":1", "--listen", "unix:web.sock", "--listen", &taken, "--log", "access.log"],
    );
    assert_eq!((2, 0), (ended.code, ended.out.len()), "{ended:?}");
    assert_eq!(0, std::fs::read_dir(folder.path()).unwrap().count(), "socket and log are gone: {ended:?}");
}

#[test]
fn a_stop_takes_the_socket_file_along() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("web.sock");
    let unix = format!("unix:{}", socket.display());
    let root = folder.path().to_str().unwrap();
    let mut larder = Larder::command(&["serve", root, "--listen", &unix, "--admin", "127.0.0.1:0"]);
    assert!(socket.exists());
    larder.signal(libc::SIGTERM);
    assert!(wait(&mut larder.child).success());
    assert!(!socket.exists());
}
