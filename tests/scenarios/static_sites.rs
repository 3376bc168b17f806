//! Static sites through the binary: `larder serve`, the files that a path may mean, compressed forms and pages for absent
//! paths, over HTTP/1.1 and HTTP/2, from the disk and from the open-file cache.

use crate::harness::{Larder, Response, command, http2};
use larder_gateway::coding::codec;
use larder_semantics::coding::Coding;
use std::path::Path;

const SECRET: &str = "not for visitors";

/// Text that compresses well.
fn script() -> String {
    (0..400).map(|it| format!("export const value{it} = \"a line of a script\";\n")).collect()
}

/// A site as a generator builds it.
fn build(root: &Path) {
    for (name, text) in [
        ("index.html", "<title>home</title>"),
        ("about.html", "<title>about</title>"),
        ("docs/index.html", "<title>docs</title>"),
        ("404.html", "<title>nothing here</title>"),
        ("assets/app.js", &script()),
        ("assets/with.css", &script()),
        ("assets/with.css.gz", "a sibling"),
        ("photo.png", &script()),
        (".env", SECRET),
        (".git/config", SECRET),
    ] {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

fn serve(flags: &[&str]) -> (tempfile::TempDir, Larder) {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let directory = folder.path().to_str().unwrap();
    let common = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "1"];
    let larder = Larder::command(&[&["serve", directory][..], &common, flags].concat());
    (folder, larder)
}

fn configured(files: &str) -> (tempfile::TempDir, Larder) {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         files = {{ root = {:?}, {files} }}\n",
        folder.path()
    );
    (folder, Larder::configured(config))
}

/// What both protocols answer, at both speeds: status and body or target.
#[track_caller]
fn check(larder: &Larder, target: &str, fields: &[(&str, &str)], status: u16, expect: &str) {
    let lines: String = fields.iter().map(|it| format!("{}: {}\r\n", it.0, it.1)).collect();
    let mut first = larder.client();
    for _ in 0..2 {
        let one = first.get_with(target, &lines);
        let text = one.field("location").map_or_else(|| one.text(), str::to_owned);
        assert!(one.status == status && text.contains(expect), "HTTP/1.1 {target}: {one:?}");
        let mut second = http2::Http2::connect(larder);
        let id = second.head(&http2::request("GET", target, fields), http2::END_STREAM);
        let two = second.answer(id);
        let text = two.field("location").map_or_else(|| two.text(), str::to_owned);
        assert!(two.status == status && text.contains(expect), "HTTP/2 {target}: {two:?}");
        assert_eq!(one.field("content-type"), two.field("content-type"), "{target}");
        assert_eq!(one.field("etag"), two.field("etag"), "{target}");
    }
}

#[test]
fn serve_has_the_habits_of_a_static_site() {
    let (_folder, larder) = serve(&[]);
    check(&larder, "/", &[], 200, "home");
    check(&larder, "/about", &[], 200, "about");
    check(&larder, "/about.html?a=b", &[], 301, "/about?a=b");
    check(&larder, "/docs", &[], 301, "/docs/");
    check(&larder, "/docs?a=b", &[], 301, "/docs/?a=b");
    check(&larder, "/docs/index.html", &[], 301, "/docs/");
    check(&larder, "/docs/", &[], 200, "docs");
    check(&larder, "/none", &[], 404, "nothing here");
    check(&larder, "/none.js", &[("range", "bytes=0-3")], 404, "nothing here");
    check(&larder, "/.env", &[], 404, "nothing here");
    check(&larder, "//about?a=b", &[], 301, "/about?a=b");
    check(&larder, "///docs//", &[], 301, "/docs/");
    for none in ["//none", "//.env", "//%61bout", "//x/../about", "//about.html/x"] {
        check(&larder, none, &[], 404, "nothing here");
    }
    check(&larder, "/assets/..%2f.env", &[], 404, "nothing here");
    let head = larder.client().request("HEAD", "/none", "", "");
    assert_eq!((404, 0, Some("27")), (head.status, head.body.len(), head.field("content-length")));
    assert_eq!(Some("text/html; charset=utf-8"), head.field("content-type"));
    assert_eq!(None, head.field("etag").or(head.field("accept-ranges")).or(head.field("last-modified")));
}

fn plain(response: &Response) -> Vec<u8> {
    let coding = match response.field("content-encoding") {
        None => return response.body.clone(),
        Some("gzip") => Coding::Gzip,
        Some("br") => Coding::Brotli,
        Some("zstd") => Coding::Zstd,
        Some(other) => panic!("{other}"),
    };
    codec::decode(coding, &response.body, 8 << 20).unwrap()
}

#[test]
fn files_are_compressed_once_for_each_coding() {
    let (_folder, larder) = serve(&[]);
    let get = |target: &str, lines: &str| larder.client().get_with(target, lines);
    let identity = get("/assets/app.js", "");
    assert_eq!((None, Some("Accept-Encoding")), (identity.field("content-encoding"), identity.field("vary")));
    for coding in ["gzip", "br", "zstd"] {
        let accept = format!("Accept-Encoding: {coding}\r\n");
        for _ in 0..3 {
            let coded = get("/assets/app.js", &accept);
            assert_eq!(Some(coding), coded.field("content-encoding"), "{coded:?}");
            assert_eq!(script().as_bytes(), plain(&coded));
            assert!(coded.body.len() < script().len() / 4);
            assert_eq!(Some("Accept-Encoding"), coded.field("vary"));
        }
        let etag = get("/assets/app.js", &accept).field("etag").unwrap().to_owned();
        assert!(etag.starts_with("W/") && etag.ends_with(&format!("-{coding}\"")), "{etag}");
        let head = larder.client().request("HEAD", "/assets/app.js", &accept, "");
        assert_eq!((200, Some(etag.as_str())), (head.status, head.field("etag")));
        let same = get("/assets/app.js", &format!("{accept}If-None-Match: {etag}\r\n"));
        assert_eq!((304, Some(etag.as_str())), (same.status, same.field("etag")));
        let part = get("/assets/app.js", &format!("{accept}Range: bytes=0-5\r\n"));
        assert_eq!((206, "export", None), (part.status, &*part.text(), part.field("content-encoding")));
        assert_eq!(identity.field("etag"), part.field("etag"));
    }
    assert_eq!(3, larder.counter("coding_made"));
    assert_eq!("a sibling", get("/assets/with.css", "Accept-Encoding: gzip, br, zstd\r\n").text());
    assert_eq!(None, get("/photo.png", "Accept-Encoding: gzip, br\r\n").field("content-encoding"));
    assert_eq!(None, get("/about", "Accept-Encoding: gzip\r\n").field("content-encoding"), "below min_size");
}

#[test]
fn a_changed_file_is_never_answered_with_its_old_forms() {
    let (folder, larder) = serve(&[]);
    let get = || larder.client().get_with("/assets/app.js", "Accept-Encoding: br\r\n");
    larder.hold();
    let old = get();
    std::fs::write(folder.path().join("assets/app.js"), script().replace("line", "word")).unwrap();
    larder.pass(5000);
    let new = get();
    assert_eq!(Some("br"), new.field("content-encoding"));
    assert!(plain(&new) == script().replace("line", "word").as_bytes() && plain(&old) == script().as_bytes());
    assert_ne!(old.field("etag"), new.field("etag"));
}

#[test]
fn a_single_page_application() {
    let (folder, larder) = serve(&["--spa"]);
    check(&larder, "/users/7", &[], 200, "home");
    check(&larder, "/users/7?tab=2", &[], 200, "home");
    check(&larder, "/about", &[], 200, "about");
    check(&larder, "/docs", &[], 301, "/docs/");
    check(&larder, "/assets/", &[], 200, "home");
    check(&larder, "/assets/gone.js", &[("accept", "*/*")], 404, "nothing here");
    check(&larder, "/jane.doe", &[("accept", "text/html,*/*;q=0.8")], 200, "home");
    check(&larder, "/.well-known/security.txt", &[("accept", "text/html")], 404, "nothing here");
    check(&larder, "/.env", &[("accept", "text/html")], 404, "nothing here");
    let etag = larder.get("/").field("etag").unwrap().to_owned();
    let lines = format!("If-None-Match: {etag}\r\n");
    assert_eq!(304, larder.client().get_with("/users/8", &lines).status);
    larder.hold();
    larder.get("/users/9");
    std::fs::write(folder.path().join("index.html"), "<title>a new release</title>").unwrap();
    larder.pass(5000);
    check(&larder, "/users/9", &[], 200, "a new release");
}

#[test]
fn a_list_of_files_to_try() {
    let (_folder, larder) =
        configured("try = [\"{path}\", \"{path}.html\", \"{path}/index.html\", \"=410\"]");
    check(&larder, "/about", &[], 200, "about");
    check(&larder, "/about.html", &[], 200, "about");
    check(&larder, "/x/../about", &[], 200, "about");
    check(&larder, "/docs?a", &[], 301, "/docs/?a");
    check(&larder, "/docs/", &[], 200, "docs");
    check(&larder, "/none", &[], 410, "removed");
    check(&larder, "/..%2f..%2fetc/passwd", &[], 404, "No resource");
}

/// Every member for every target that must not be had: SAFETY, statement 16.
#[test]
fn no_member_discloses_hidden_files_or_files_outside_of_the_root() {
    let files = "try = [\"{path}\", \"{path}.html\", \"{path}/\", \"{path}/index.html\", \"/docs{path}\", \"/index.html\"], \
                 clean_urls = true, compress = true, not_found = \"404.html\"";
    let (folder, larder) = configured(files);
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out.html")).unwrap();
    std::os::unix::fs::symlink("/etc", folder.path().join("up")).unwrap();
    for target in super::files_attacks::TARGETS {
        let mut client = larder.client();
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\nAccept-Encoding: br\r\n\r\n"
        ));
        let it = client.read();
        let text = it.text();
        assert!(!text.contains(SECRET) && !text.contains("root:"), "{target}: {it:?}");
        assert!(it.complete && it.status != 500, "{target}: {it:?}");
        let to = it.field("location").unwrap_or("/");
        assert!(to.starts_with('/') && !to.starts_with("//") && !to.starts_with("/\\"), "{target}: {it:?}");
    }
    for target in ["/out", "/out.html", "/up/passwd", "/up/"] {
        check(&larder, target, &[], 200, "home");
    }
}

/// Every key of `files` is changed by a reload.
#[test]
fn a_reload_changes_all_of_it() {
    let (_folder, larder) = configured("listing = false");
    assert_eq!(404, larder.get("/about").status);
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let more = "clean_urls = true, spa = true, compress = true, not_found = \"/404.html\"";
    std::fs::write(larder.config(), text.replace("listing = false", more)).unwrap();
    larder.signal(libc::SIGHUP);
    crate::harness::until("the reload", || larder.counter("config_reloads") >= 1);
    crate::harness::until("the workers have it", || larder.get("/about").status == 200);
    check(&larder, "/users/7", &[], 200, "home");
    check(&larder, "/none.js", &[], 404, "nothing here");
    let coded = larder.client().get_with("/assets/app.js", "Accept-Encoding: gzip\r\n");
    assert_eq!(Some("gzip"), coded.field("content-encoding"));
}

#[test]
fn check_names_a_missing_file() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let config = "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nfiles = { root = \".\", try = \
                  [\"{path}\", \"/app.html\"] }\n";
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    let ended = command::run(folder.path(), &["check"]);
    let text = format!("{}{}", ended.out, ended.err);
    assert!(
        ended.code == 0 && text.contains("larder.toml:5: site.route.files.try: /app.html: no such file"),
        "{text}"
    );
    std::fs::write(folder.path().join("larder.toml"), config.replace("/app.html", "/../app.html")).unwrap();
    let ended = command::run(folder.path(), &["check"]);
    assert!(ended.code == 2 && ended.err.contains("larder.toml:5: site.route.files.try: "), "{ended:?}");
}

/// curl follows the redirect from the address without TLS to the one with it.
#[test]
fn serve_redirects_to_https() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let root = folder.path().to_str().unwrap();
    let listen =
        ["--listen", "http://127.0.0.1:0", "--listen", "https://127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let more = ["--workers", "1", "--tls-self-signed", "--redirect-https"];
    let larder = Larder::command(&[&["serve", root][..], &listen, &more].concat());
    let moved = larder.client().get_with("/docs?a=b", "");
    let of_tls = larder.printed();
    let of_tls = of_tls.lines().find_map(|it| it.strip_prefix("listening on https://127.0.0.1:")).unwrap();
    assert_eq!((308, Some("https://h/docs?a=b")), (moved.status, moved.field("location")));
    let to = |port: u16, to: u16| format!("h.test:{port}:127.0.0.1:{to}");
    let (clear, tls) = (to(80, larder.address.port()), to(443, of_tls.parse().unwrap()));
    let followed = std::process::Command::new("curl")
        .args(["--connect-to", &clear, "--connect-to", &tls])
        .args(["-ksSL", "-w", " %{http_code} %{num_redirects} %{url_effective}", "http://h.test/about?a=b"])
        .output()
        .expect("curl is installed");
    let text = String::from_utf8_lossy(&followed.stdout).into_owned();
    assert_eq!(
        "<title>about</title> 200 1 https://h.test/about?a=b",
        text,
        "{}",
        String::from_utf8_lossy(&followed.stderr)
    );
    let posted = larder.client().request("POST", "/about", "", "a=b");
    assert_eq!(308, posted.status, "the method stays");
}
