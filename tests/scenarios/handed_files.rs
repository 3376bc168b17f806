//! Files that an application hands over (`sendfile`): `X-Sendfile` and `X-Accel-Redirect` of HTTP, FastCGI, SCGI and uWSGI, with
//! ranges and preconditions, over both protocols of clients; paths that attack it; and that nothing of it is ever stored.

use crate::harness::http2::{self, Http2};
use crate::harness::origin::{Gate, Script, response};
use crate::harness::server::Setup;
use crate::harness::variables::{Dialect, VariablesApplication};
use crate::harness::{Larder, Origin, Response, until};
use std::path::{Path, PathBuf};

const OUTSIDE: &str = "not beneath the root";

struct HandingSite {
    folder: tempfile::TempDir,
    origin: Origin,
    larder: Larder,
}

/// `private` with the files, `current` as a link to it, and a file that is not beneath.
fn build(folder: &Path) -> PathBuf {
    let root = folder.join("private");
    for (name, text) in [
        ("a.txt", "0123456789"),
        ("b/c d.pdf", "a pdf"),
        ("empty", ""),
        (".env", "hidden"),
        ("b/.git/config", "hidden"),
        ("x.php", "a script"),
        ("x.php.br", "a script"),
        ("x.php.txt", "a script"),
        (".releases/5/new.txt", "a release"),
        ("100%.txt", "percent"),
    ] {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        // A file that was just written has no `Last-Modified`.
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
    }
    std::fs::write(folder.join("outside.txt"), OUTSIDE).unwrap();
    std::fs::write(folder.join("page.html"), "the page\n").unwrap();
    std::fs::write(root.join("large"), "x".repeat(3 << 20)).unwrap();
    for (to, from) in [
        ("../outside.txt", root.join("out")),
        ("/etc/passwd", root.join("passwd")),
        ("a.txt", root.join("link")),
        ("x.php", root.join("script.txt")),
        (".env", root.join("env.txt")),
        (".releases/5", root.join("release")),
        ("release/new.txt", root.join("new.txt")),
        ("fifo", root.join("fifo.txt")),
        ("private", folder.join("current")),
    ] {
        std::os::unix::fs::symlink(to, from).unwrap();
    }
    let fifo = std::ffi::CString::new(root.join("fifo").to_str().unwrap()).unwrap();
    // SAFETY: the path is a string that ends with NUL and lives through the call.
    assert_eq!(0, unsafe { libc::mkfifo(fifo.as_ptr(), 0o644) });
    root
}

/// An application whose answer is the query of the target, with `;` between the lines and `~HH` for other bytes; `ROOT` is the
/// folder.
fn application(folder: &Path) -> Origin {
    let folder = folder.display().to_string();
    Origin::new(move |it| {
        let lines = it.target().split_once('?').map_or("", |it| it.1).replace(';', "\n");
        let lines = decoded(&lines).replace("ROOT", &folder);
        let (status, lines) = match lines.strip_prefix("status=") {
            Some(rest) => rest.split_once('\n').unwrap_or((rest, "")),
            None => ("200 OK", lines.as_str()),
        };
        format!("HTTP/1.1 {status}\n{lines}\n\nthe application's own body")
    })
}

fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'~' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A site with these lines of its route.
fn site(route: &str) -> HandingSite {
    site_with("sendfile = { root = \"ROOT/current\", prefix = \"/protected/\" }", route)
}

fn site_with(sendfile: &str, route: &str) -> HandingSite {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let origin = application(folder.path());
    let here = |it: &str| it.replace("ROOT", &folder.path().display().to_string());
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\nerror = \"error.log\"\naccess = \"access.log\"\nformat = \"{{method}} {{status}} {{bytes}}\"\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"app\"\nproxy = {{ to = [\"{}\"] }}\n{}\n{}\n",
        origin.url(),
        here(sendfile),
        here(route),
    ));
    HandingSite { folder, origin, larder }
}

impl HandingSite {
    /// One GET whose answer has these lines.
    fn get(&self, lines: &str) -> Response {
        self.get_with(lines, "")
    }

    fn get_with(&self, lines: &str, fields: &str) -> Response {
        self.larder.client().get_with(&target(lines), fields)
    }
}

fn target(lines: &str) -> String {
    let byte = |it: u8| match it {
        b'-' | b'_' | b'.' | b'/' | b'=' | b';' => char::from(it).to_string(),
        it if it.is_ascii_alphanumeric() => char::from(it).to_string(),
        it => format!("~{it:02x}"),
    };
    format!("/page?{}", lines.bytes().map(byte).collect::<String>())
}

#[track_caller]
fn sends(answer: &Response, text: &str) {
    assert_eq!((200, text.to_owned()), (answer.status, answer.text()), "{answer:?}");
    for name in ["x-sendfile", "x-accel-redirect"] {
        assert_eq!(None, answer.field(name));
    }
}

#[test]
fn files_in_place_of_the_body() {
    let site = site("");
    for order in [
        "X-Sendfile: ROOT/current/b/c d.pdf",
        "X-Sendfile: ROOT/private/b/c d.pdf",
        "X-Sendfile: ROOT/x/../private//b/./c d.pdf",
        "x-sendfile: b/c d.pdf",
        "X-Accel-Redirect: /protected/b/c%20d.pdf",
        "X-Accel-Redirect: /protected//b/c d.pdf?x=y",
    ] {
        for _ in 0..2 {
            let it = site.get(order);
            sends(&it, "a pdf");
            assert_eq!(Some("application/pdf"), it.field("content-type"), "{order}");
            assert_eq!(Some("bytes"), it.field("accept-ranges"));
            assert_eq!(Some("5"), it.field("content-length"));
            assert!(it.field("etag").is_some() && it.field("last-modified").is_some(), "{it:?}");
        }
        let mut two = Http2::connect(&site.larder);
        let answer = two.get(&target(order));
        assert_eq!((Some("200"), "a pdf".to_owned()), (answer.field(":status"), answer.text()), "{order}");
        assert_eq!(None, answer.field("x-sendfile").or(answer.field("x-accel-redirect")));
    }
    sends(&site.get("X-Sendfile: link"), "0123456789");
    sends(&site.get("X-Sendfile: new.txt"), "a release");
    sends(&site.get("X-Sendfile: 100%.txt"), "percent");
    sends(&site.get("X-Accel-Redirect: /protected/100%25.txt"), "percent");
    sends(&site.get("X-Sendfile: empty"), "");
    let large = site.get("X-Sendfile: large");
    assert_eq!((200, 3 << 20, true), (large.status, large.body.len(), large.complete));
    // A file is seen as it is now.
    let file = site.folder.path().join("private/new");
    for text in ["one", "two", "three"] {
        std::fs::write(&file, text).unwrap();
        sends(&site.get("X-Sendfile: new"), text);
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(404, site.get("X-Sendfile: new").status);
    let mut client = site.larder.client();
    sends(&client.get(&target("X-Sendfile: a.txt")), "0123456789");
    let post = client.request("POST", &target("X-Sendfile: a.txt"), "Range: bytes=0-1\r\n", "body");
    sends(&post, "0123456789");
    assert_eq!("the application's own body", site.get("X-A: 1").text());
}

#[test]
fn fields_of_the_application_win() {
    let site = site("response_headers.set = { X-Site = \"1\" }");
    let it = site.get(
        "X-Sendfile: a.txt;Content-Type: a/b;Content-Disposition: attachment;Cache-Control: private, max-age=5;Set-Cookie: a=1;\
         ETag: \"own\";Content-Encoding: gzip;X-Accel-Buffering: no;X-Accel-Limit-Rate: 1;X-Accel-Expires: 60;\
         X-Accel-Charset: utf-8;Content-MD5: x;X-Own: 1;Vary: Cookie",
    );
    sends(&it, "0123456789");
    for (name, value) in [
        ("content-type", Some("a/b")),
        ("content-disposition", Some("attachment")),
        ("cache-control", Some("private, max-age=5")),
        ("set-cookie", Some("a=1")),
        ("etag", Some("\"own\"")),
        ("content-encoding", None),
        ("x-accel-buffering", None),
        ("x-accel-limit-rate", None),
        ("x-accel-expires", None),
        ("x-accel-charset", None),
        ("content-md5", None),
        ("x-own", Some("1")),
        ("x-site", Some("1")),
        ("vary", Some("Cookie")),
        ("content-length", Some("10")),
    ] {
        assert_eq!(value, it.field(name), "{name}");
    }
    assert!(it.field("last-modified").is_some(), "of the file");
    // The application's tag decides.
    let own = "X-Sendfile: a.txt;ETag: \"own\";Set-Cookie: a=1;Vary: Cookie";
    let same = site.get_with(own, "If-None-Match: \"own\"\r\n");
    assert_eq!((304, Some("\"own\""), Some("Cookie")), (same.status, same.field("etag"), same.field("vary")));
    assert_eq!(412, site.get_with(own, "If-Match: \"other\"\r\n").status);
    let part = site.get_with(own, "Range: bytes=2-4\r\nIf-Range: \"own\"\r\n");
    assert_eq!((206, "234"), (part.status, &*part.text()));
    sends(&site.get_with(own, "Range: bytes=2-4\r\nIf-Range: \"other\"\r\n"), "0123456789");
}

#[test]
fn ranges_conditions_and_head() {
    // Also where a shared fill asks without the client's fields, and where the route has no cache.
    for route in ["", "cache.enabled = false", "cache = { override_ttl = \"1h\" }"] {
        let site = site(route);
        let order = "X-Sendfile: a.txt";
        let tag = site.get(order).field("etag").unwrap().to_owned();
        let same = site.get_with(order, &format!("If-None-Match: {tag}\r\n"));
        assert_eq!((304, ""), (same.status, &*same.text()), "{route}");
        let part = site.get_with(order, "Range: bytes=2-4\r\n");
        assert_eq!((206, "234"), (part.status, &*part.text()), "{route}");
        assert_eq!(Some("bytes 2-4/10"), part.field("content-range"));
        assert_eq!("789", site.get_with(order, "Range: bytes=-3\r\n").text());
        let parts = site.get_with(order, "Range: bytes=0-0,9-9\r\n");
        assert_eq!(206, parts.status);
        assert!(parts.text().contains("bytes 9-9/10\r\n\r\n9"), "{}", parts.text());
        let none = site.get_with(order, "Range: bytes=20-\r\n");
        assert_eq!((416, Some("bytes */10")), (none.status, none.field("content-range")));
        let large = site.get_with("X-Sendfile: large", "Range: bytes=1000000-2999999\r\n");
        assert_eq!((206, 2_000_000), (large.status, large.body.len()));
        let head = site.larder.client().request("HEAD", &target(order), "", "");
        assert_eq!(
            (200, Some("10"), Some(&*tag)),
            (head.status, head.field("content-length"), head.field("etag"))
        );
        let mut two = Http2::connect(&site.larder);
        let id =
            two.head(&http2::request("GET", &target(order), &[("range", "bytes=2-4")]), http2::END_STREAM);
        let answer = two.answer(id);
        assert_eq!((Some("206"), "234".to_owned()), (answer.field(":status"), answer.text()));
        let id = two.head(&http2::request("HEAD", &target(order), &[]), http2::END_STREAM);
        let answer = two.answer(id);
        assert_eq!(
            (Some("200"), Some("10"), String::new()),
            (answer.field(":status"), answer.field("content-length"), answer.text())
        );
    }
}

#[test]
fn applications_of_every_protocol() {
    for dialect in Dialect::ALL {
        let folder = tempfile::tempdir().unwrap();
        let root = build(folder.path());
        let order = root.join("b/c d.pdf").display().to_string();
        let application = VariablesApplication::new(dialect, move |_| {
            dialect.whole(&format!(
                "Content-Type: text/html\r\nX-Sendfile: {order}\r\nCache-Control: max-age=60\r\n\r\n"
            ))
        });
        let larder = Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\nsendfile.root = {root:?}\n",
            application.url()
        ));
        for _ in 0..2 {
            let it = larder.get("/");
            sends(&it, "a pdf");
            assert_eq!((Some("text/html"), false), (it.field("content-type"), it.is_hit()), "{dialect:?}");
        }
        assert_eq!(2, application.asked().len());
        let it =
            larder.client().request("GET", "/", "X-Sendfile: /etc/passwd\r\nX-Accel-Redirect: /a\r\n", "");
        sends(&it, "a pdf");
        let names = ["HTTP_X_SENDFILE", "HTTP_X_ACCEL_REDIRECT"];
        assert_eq!(["-", "-"], names.map(|name| application.last().value(name).to_owned()));
    }
}

/// Orders of other servers are not obeyed, and no client sees their paths: also without `sendfile`, in trailers and in interim responses.
#[test]
fn no_client_sees_an_order_of_any_server() {
    let plain = site_with("", "");
    let handing = site("");
    let orders = [
        "X-Sendfile2: ROOT/private/a.txt 0-4",
        "X-Sendfile-Temporary: ROOT/private/a.txt",
        "X-LiteSpeed-Location: /private/a.txt",
        "x-sendfile: a.txt",
        "X-Accel-Redirect: /protected/a.txt",
    ];
    for order in orders {
        for lines in [order.to_owned(), format!("Cache-Control: max-age=60;{order}")] {
            for _ in 0..2 {
                let it = plain.get(&lines);
                assert_eq!((200, "the application's own body"), (it.status, &*it.text()), "{lines}");
                assert!(!it.is_hit() && !format!("{it:?}").contains("a.txt"), "{it:?}");
            }
        }
    }
    for order in &orders[..3] {
        let it = handing.get(order);
        assert!(it.status == 404 && !format!("{it:?}").contains("a.txt"), "{it:?}");
    }
    let lines = "X-Sendfile-Type: secret;X-Accel-Mapping: secret;X-Accel-Buffering: no;X-Accel-Expires: 5";
    for (it, expect) in [(plain.get(lines), Some("no")), (handing.get(lines), None)] {
        assert_eq!((200, expect), (it.status, it.field("x-accel-buffering")));
        assert!(!format!("{it:?}").contains("secret"), "{it:?}");
    }
}

#[test]
fn interim_responses_and_trailers_have_no_orders() {
    let origin = Origin::scripted(|_| {
        vec![
            Script::Send(response(
                "HTTP/1.1 103 Early Hints\nLink: </a.css>\nX-Sendfile: secret\nX-Accel-Redirect: secret\n\n",
            )),
            Script::Send(
                b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\
                  X-Sendfile: secret\r\nX-LiteSpeed-Location: secret\r\nX-Sum: 7\r\n\r\n"
                    .to_vec(),
            ),
        ]
    });
    for route in ["", "cache = { enabled = false }"] {
        let larder = Larder::start(Setup {
            config: format!(
                "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n{route}\n",
                origin.url()
            ),
            env: Vec::new(),
        });
        for _ in 0..2 {
            let mut client = larder.client();
            client.send("GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n");
            let it = client.read();
            assert!(it.trailers.contains(&("X-Sum".to_owned(), "7".to_owned())), "{it:?}");
            assert!(!format!("{it:?}").contains("secret"), "{it:?}");
            let mut client = Http2::connect(&larder);
            let id = client.head(
                &http2::request("GET", "/", &[("te", "trailers")]),
                http2::END_HEADERS | http2::END_STREAM,
            );
            let it = client.answer(id);
            let all = format!("{:?}", it.fields);
            assert!(it.text() == "page" && !all.contains("secret"), "{all}");
        }
    }
}

/// As nginx, Apache and lighttpd do: a path that names no servable file is 404, and the client sees nothing of it.
#[test]
fn paths_that_lead_elsewhere() {
    let site = site("");
    let long = format!("X-Sendfile: {}", "a/".repeat(3000));
    for order in [
        "X-Sendfile: /etc/passwd",
        "X-Sendfile: ROOT/outside.txt",
        "X-Sendfile: ROOT/current/../outside.txt",
        "X-Sendfile: ROOT/private/../outside.txt",
        "X-Sendfile: ../outside.txt",
        "X-Sendfile: b/../../outside.txt",
        "X-Sendfile: out",
        "X-Sendfile: passwd",
        "X-Sendfile: b",
        "X-Sendfile: b/",
        "X-Sendfile: a.txt/",
        "X-Sendfile: ROOT/private",
        "X-Sendfile: .",
        "X-Sendfile:",
        "X-Sendfile: missing",
        "X-Sendfile: .env",
        "X-Sendfile: b/.git/config",
        "X-Sendfile: x.php",
        "X-Sendfile: fifo",
        "X-Sendfile: fifo.txt",
        "X-Sendfile: release",
        "X-Sendfile: x.php.br",
        "X-Sendfile: x.php.txt",
        "X-Sendfile: script.txt",
        "X-Sendfile: env.txt",
        "X-Accel-Redirect: /protected/x.php.txt",
        "X-Accel-Redirect: /protected/script.txt",
        "X-Accel-Redirect: /protected/env.txt",
        "X-Sendfile: b\\c",
        "X-Sendfile: %61.txt",
        "X-Sendfile: file:///etc/passwd",
        "X-Sendfile: a.txt;X-Sendfile: a.txt",
        "X-Sendfile: a.txt;X-Accel-Redirect: /protected/a.txt",
        "X-Accel-Redirect: /protected/../outside.txt",
        "X-Accel-Redirect: /protected/b/../a.txt",
        "X-Accel-Redirect: /protected/%2e%2e/outside.txt",
        "X-Accel-Redirect: /protected/..%2foutside.txt",
        "X-Accel-Redirect: /protected/%252e%252e/outside.txt",
        "X-Accel-Redirect: /protected/a.txt%00",
        "X-Accel-Redirect: /protected/a%0d%0aX-Evil: 1",
        "X-Accel-Redirect: /protected/%5c..%5coutside.txt",
        "X-Accel-Redirect: /protected/%zz",
        "X-Accel-Redirect: /protected/",
        "X-Accel-Redirect: /protected",
        "X-Accel-Redirect: /protecteda.txt",
        "X-Accel-Redirect: /other/a.txt",
        "X-Accel-Redirect: a.txt",
        "X-Accel-Redirect: @named",
        "X-Accel-Redirect: http://127.0.0.1/protected/a.txt",
        "X-Accel-Redirect: /protected/.env",
        "X-Accel-Redirect: /protected/passwd",
        "X-Accel-Redirect: ROOT/private/a.txt",
        &long,
    ] {
        let it = site.get(order);
        assert_eq!((404, Some("no-store")), (it.status, it.field("cache-control")), "{order}: {it:?}");
        let whole = format!("{:?} {}", it.fields, it.text());
        let folder = site.folder.path().display().to_string();
        for part in [&*folder, OUTSIDE, "root:", "hidden", "a script", "own body", "protected", "Evil"] {
            assert!(!whole.contains(part), "{order}: {whole}");
        }
        let mut two = Http2::connect(&site.larder);
        assert_eq!(Some("404"), two.get(&target(order)).field(":status"), "{order}");
    }
    let log = || std::fs::read_to_string(site.larder.folder.path().join("error.log")).unwrap_or_default();
    until("the log has a reason", || log().contains("file-not-sent"));
    assert!(log().contains("the path is outside of sendfile.root") && !log().contains("origin-failed"));
    let held = site.folder.path().join("private/denied");
    std::fs::write(&held, "denied").unwrap();
    std::fs::set_permissions(&held, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
    // SAFETY: it only reads.
    let expect = if unsafe { libc::geteuid() } == 0 { 200 } else { 403 };
    assert_eq!(expect, site.get("X-Sendfile: denied").status);
}

#[test]
fn responses_with_handed_files_are_not_stored() {
    let long = "Cache-Control: public, max-age=600;CDN-Cache-Control: max-age=600";
    let rule = "[[site.route.cache.rule]]\nwhen = 'status == 200'\nttl = \"1h\"";
    for sendfile in ["sendfile.root = \"ROOT/private\"", ""] {
        for route in [
            "",
            "cache = { override_ttl = \"1h\" }",
            rule,
            "cache = { status_ttl = { 200 = \"1h\", 404 = \"1h\" } }",
        ] {
            let site = site_with(sendfile, route);
            for order in
                ["X-Sendfile: a.txt", "X-Accel-Redirect: /protected/a.txt", "X-LIGHTTPD-send-file: a.txt"]
            {
                let lines = format!("{order};{long}");
                for method in ["GET", "GET", "HEAD", "GET"] {
                    let before = site.origin.requests();
                    let it = site.larder.client().request(method, &target(&lines), "", "");
                    assert!(
                        !it.is_hit() && site.origin.requests() > before,
                        "{sendfile} {route} {method} {order}: {it:?}"
                    );
                    assert!(it.field("x-sendfile").or(it.field("x-accel-redirect")).is_none());
                }
                let other = site.get(&format!("status=404 No;{order};{long}"));
                assert_eq!((404, false), (other.status, other.is_hit()));
                assert_eq!("the application's own body", other.text(), "another status has its own body");
                assert_eq!(Some("no-store"), other.field("cache-control"), "for caches in front of larder");
                assert!(!site.get(&format!("status=404 No;{order};{long}")).is_hit());
            }
        }
    }
}

#[test]
fn a_304_of_the_application_is_its_answer() {
    let site = site("cache.enabled = false");
    let it =
        site.get_with("status=304 Not Modified;ETag: \"a\";X-Sendfile: a.txt", "If-None-Match: \"a\"\r\n");
    assert_eq!((304, None, ""), (it.status, it.field("x-sendfile"), &*it.text()));
    let part = site.get("status=206 Partial;Content-Range: bytes 0-1/10;X-Sendfile: a.txt");
    assert_eq!(None, part.field("x-sendfile"));
    assert!(!part.text().contains("0123"), "{part:?}");
}

/// A stored page is freshened by a 304 that has an order as well: it does not become one.
#[test]
fn an_order_in_a_304_changes_no_stored_page() {
    let origin = Origin::new(|it| match it.field("if-none-match") {
        None => "HTTP/1.1 200 OK\nCache-Control: max-age=1\nETag: \"a\"\n\npage".to_owned(),
        Some(_) => {
            "HTTP/1.1 304 Not Modified\nCache-Control: max-age=60\nETag: \"a\"\nX-Sendfile: /etc/passwd\n\n"
                .to_owned()
        }
    });
    let larder = Larder::before(&origin, "");
    assert_eq!("page", larder.get("/").text());
    larder.advance(5);
    for _ in 0..2 {
        let it = larder.get("/");
        assert_eq!((200, "page", None), (it.status, &*it.text(), it.field("x-sendfile")));
    }
    assert_eq!(2, origin.requests());
}

/// Each visitor that waits asks for itself, since the application decides about each.
#[test]
fn waiting_clients_ask_for_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let root = build(folder.path());
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::scripted(move |it| {
        let name = if it.number % 2 == 0 { "a.txt" } else { "b/c d.pdf" };
        let text =
            format!("HTTP/1.1 200 OK\nCache-Control: public, max-age=60\nX-Sendfile: {name}\n\nown body");
        vec![Script::Gate(held.clone()), Script::Send(response(&text))]
    });
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\nsendfile.root = {root:?}\n",
        origin.url()
    ));
    let mut clients: Vec<_> = (0..6).map(|_| larder.client()).collect();
    clients.iter_mut().for_each(|it| {
        it.send("GET /one HTTP/1.1\r\nHost: h\r\n\r\n");
    });
    until("the first waits", || gate.waiting() > 0);
    gate.open();
    let mut texts: Vec<String> = clients.iter_mut().map(|it| it.read().text()).collect();
    texts.sort();
    assert_eq!(["0123456789", "0123456789", "0123456789", "a pdf", "a pdf", "a pdf"], texts[..]);
    assert_eq!(6, origin.requests());
    assert!(!larder.get("/one").is_hit());
}

#[test]
fn logs_pages_compression_and_connections() {
    let site = site(
        "error_pages = { 404 = \"ROOT/page.html\" }\ncache = { compress = { enabled = true, uncached = true, min_size = \"1B\" } }",
    );
    let text = "a text that could be compressed\n".repeat(1000);
    std::fs::write(site.folder.path().join("private/long.txt"), &text).unwrap();
    let mut client = site.larder.client();
    for _ in 0..3 {
        let it = client
            .get_with(&target("X-Sendfile: long.txt;Content-Length: 0"), "Accept-Encoding: gzip, br\r\n");
        sends(&it, &text);
        assert_eq!((None, Some("32000")), (it.field("content-encoding"), it.field("content-length")));
    }
    let page = client.get(&target("X-Sendfile: missing"));
    assert_eq!((404, "the page\n"), (page.status, &*page.text()));
    let log = site.larder.folder.path().join("access.log");
    until("the access log is written", || {
        let lines = std::fs::read_to_string(&log).unwrap_or_default();
        lines.matches("GET 200 32000").count() == 3 && lines.contains("GET 404 9")
    });
}

#[test]
fn explain_names_the_order() {
    let site = site("cache = { override_ttl = \"1h\" }");
    sends(&site.get("X-Sendfile: a.txt"), "0123456789");
    let url = format!("http://h{}", target("X-Sendfile: a.txt"));
    let response =
        site.larder.admin_post("/api/v1/explain", &serde_json::json!({ "url": url }).to_string()).text();
    assert!(
        response.contains("file-order") && response.contains("orders a file in place of its body"),
        "{response}"
    );
    assert!(!response.contains("Configure the origin"), "no advice would share it: {response}");
}

#[test]
fn a_reload_takes_it_over() {
    let site = site_with("", "");
    assert_eq!("the application's own body", site.get("X-Sendfile: a.txt").text());
    let root = site.folder.path().join("private");
    let before = std::fs::read_to_string(site.larder.config()).unwrap();
    let with = before.replace("name = \"app\"\n", &format!("name = \"app\"\nsendfile.root = {root:?}\n"));
    std::fs::write(site.larder.config(), with).unwrap();
    site.larder.signal(libc::SIGHUP);
    until("sendfile is in force", || site.get("X-Sendfile: a.txt").text() == "0123456789");
    std::fs::write(site.larder.config(), before).unwrap();
    site.larder.signal(libc::SIGHUP);
    until("it is not any more", || site.get("X-Sendfile: a.txt").text() != "0123456789");
}
