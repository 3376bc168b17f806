//! Answers from files and directories that do not change.

mod support;

use larder_files::{FileCoding, Listing, RootOptions};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use support::{Got, Site};

const DIGITS: &str = "0123456789";

fn digits() -> Site {
    let site = Site::new(&[("d.txt", DIGITS), ("empty.txt", "")]);
    site.set_modified("d.txt", 784_111_777);
    site
}

#[test]
fn a_file_with_all_that_belongs_to_it() {
    let site = digits();
    let got = site.get("/d.txt");
    assert_eq!((200, DIGITS), (got.status, got.text().as_str()));
    assert_eq!("text/plain; charset=utf-8", got.field("content-type"));
    assert_eq!("10", got.field("content-length"));
    assert_eq!("Sun, 06 Nov 1994 08:49:37 GMT", got.field("last-modified"));
    assert_eq!("bytes", got.field("accept-ranges"));
    assert!(got.field("etag").starts_with('"') && got.field("etag").ends_with('"'), "strong");
    assert_eq!((None, None), (got.find("vary"), got.find("cache-control")));
    let head = site.request("HEAD /d.txt");
    assert_eq!((200, &got.fields, 0), (head.status, &head.fields, head.body.len()));
    let empty = site.get("/empty.txt");
    assert_eq!((200, "0", 0), (empty.status, empty.field("content-length"), empty.body.len()));
}

#[test]
fn the_head_is_ready() {
    let site = digits();
    let got = site.get("/d.txt");
    let now = larder_stdx::clock::Monotonic(1000);
    let file = site.root.lookup_now("/d.txt?query", &[], now).expect("cached by the request before");
    let lines: String = got.fields.iter().map(|it| format!("{}: {}\r\n", it.0, it.1)).collect();
    let head = String::from_utf8_lossy(&file.head.text()).into_owned();
    let (status, fields) = head.split_once("\r\n").unwrap();
    assert_eq!("HTTP/1.1 200 OK", status);
    assert!(fields.eq_ignore_ascii_case(&lines), "{fields}");
    assert!(site.root.lookup_now("/%64.txt", &[], now).is_some(), "another spelling of the same path");
}

#[test]
fn a_modification_in_the_future_is_not_claimed() {
    let site = digits();
    site.set_modified("d.txt", 9_000_000_000);
    assert_eq!(None, site.get("/d.txt").find("last-modified"));
}

#[test]
fn methods() {
    let site = digits();
    let check = |request: &str, status| {
        let got = site.request(request);
        assert_eq!((status, "GET, HEAD, OPTIONS"), (got.status, got.field("allow")), "{request}");
    };
    check("POST /d.txt", 405);
    check("PUT /d.txt", 405);
    check("DELETE /absent", 405);
    check("get /d.txt", 405);
    check("PROPFIND /d.txt", 405);
    check("OPTIONS /d.txt", 204);
}

#[track_caller]
fn conditional(site: &Site, field: &str, expect: u16) {
    let etag = site.get("/d.txt").field("etag").to_owned();
    let field = field.replace("ETAG", &etag);
    for method in ["GET", "HEAD"] {
        let got = site.request(&format!("{method} /d.txt\n{field}"));
        assert_eq!(expect, got.status, "{method} {field}");
        if expect == 304 {
            assert_eq!((None, etag.as_str()), (got.find("content-length"), got.field("etag")));
            assert!(got.body.is_empty());
        }
    }
}

#[test]
fn preconditions() {
    let site = digits();
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    conditional(&site, "If-None-Match: ETAG", 304);
    conditional(&site, "If-None-Match: W/ETAG", 304);
    conditional(&site, "If-None-Match: \"x\", ETAG", 304);
    conditional(&site, "If-None-Match: *", 304);
    conditional(&site, "If-None-Match: \"x\"", 200);
    conditional(&site, &format!("If-None-Match: \"x\"\nIf-Modified-Since: {date}"), 200);
    conditional(&site, &format!("If-Modified-Since: {date}"), 304);
    conditional(&site, "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT", 200);
    conditional(&site, "If-Modified-Since: yesterday", 200);
    conditional(&site, "If-Match: ETAG", 200);
    conditional(&site, "If-Match: W/ETAG", 412);
    conditional(&site, "If-Match: *", 200);
    conditional(&site, "If-Match: \"x\"", 412);
    conditional(&site, &format!("If-Unmodified-Since: {date}"), 200);
    conditional(&site, "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT", 412);
    conditional(&site, &format!("If-Match: \"x\"\nIf-Unmodified-Since: {date}"), 412);
}

#[track_caller]
fn range(site: &Site, fields: &str, expect: &str) {
    let got = site.request(&format!("GET /d.txt\n{fields}"));
    let place = got.find("content-range").unwrap_or("-").to_owned();
    assert_eq!(got.body.len().to_string(), got.field("content-length"));
    let body = if got.status == 416 { String::new() } else { got.text() };
    assert_eq!(expect, format!("{} {place} {body}", got.status).trim_end(), "{fields}");
}

#[test]
fn ranges() {
    let site = digits();
    range(&site, "Range: bytes=0-3", "206 bytes 0-3/10 0123");
    range(&site, "Range: bytes=4-", "206 bytes 4-9/10 456789");
    range(&site, "Range: bytes=-3", "206 bytes 7-9/10 789");
    range(&site, "Range: bytes=-30", "206 bytes 0-9/10 0123456789");
    range(&site, "Range: bytes=9-99", "206 bytes 9-9/10 9");
    range(&site, "Range: bytes=10-", "416 bytes */10");
    range(&site, "Range: bytes=-0", "416 bytes */10");
    range(&site, "Range: lines=1-2", "200 - 0123456789");
    range(&site, "Range: bytes=3-1", "200 - 0123456789");
    range(&site, "Range: bytes=0-3\nRange: bytes=4-5", "200 - 0123456789");
    let etag = site.get("/d.txt").field("etag").to_owned();
    range(&site, &format!("Range: bytes=0-3\nIf-Range: {etag}"), "206 bytes 0-3/10 0123");
    range(&site, &format!("Range: bytes=0-3\nIf-Range: W/{etag}"), "200 - 0123456789");
    range(&site, "Range: bytes=0-3\nIf-Range: \"x\"", "200 - 0123456789");
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    range(&site, &format!("Range: bytes=0-3\nIf-Range: {date}"), "206 bytes 0-3/10 0123");
    range(&site, "Range: bytes=0-3\nIf-Range: Sun, 06 Nov 1994 08:49:38 GMT", "200 - 0123456789");
    let head = site.request("HEAD /d.txt\nRange: bytes=0-3");
    assert_eq!((200, "10"), (head.status, head.field("content-length")));
    let both = site.request(&format!("GET /d.txt\nRange: bytes=0-3\nIf-None-Match: {etag}"));
    assert_eq!(304, both.status, "preconditions come first");
}

#[test]
fn several_ranges_are_parts() {
    let site = digits();
    let got = site.request("GET /d.txt\nRange: bytes=0-1,8-");
    assert_eq!((206, None), (got.status, got.find("content-range")));
    let boundary = got.field("content-type").strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, bytes: &str| {
        let kind = "Content-Type: text/plain; charset=utf-8";
        format!("--{boundary}\r\n{kind}\r\nContent-Range: bytes {range}/10\r\n\r\n{bytes}\r\n")
    };
    assert_eq!(format!("{}{}--{boundary}--\r\n", part("0-1", "01"), part("8-9", "89")), got.text());
    assert_eq!(got.body.len().to_string(), got.field("content-length"));
}

#[test]
fn a_thousand_overlapping_ranges_are_at_most_twice_the_file() {
    let site = Site::new(&[("d.txt", &DIGITS.repeat(1000))]);
    let ranges: Vec<String> = (0..1000).map(|it| format!("{it}-9000")).collect();
    let got = site.request(&format!("GET /d.txt\nRange: bytes={}", ranges.join(",")));
    assert!(got.body.len() <= 20_000, "{}", got.body.len());
    let ranges: Vec<String> = (0..1000).map(|it| format!("{}-{}", it * 10, it * 10)).collect();
    let got = site.request(&format!("GET /d.txt\nRange: bytes={}", ranges.join(",")));
    assert!(got.body.len() <= 20_000, "{}", got.body.len());
}

#[test]
fn directories() {
    let site = Site::new(&[("index.html", "home"), ("dir/index.html", "inner"), ("bare/x", "x")]);
    let check = |target: &str, status, expect: &str| {
        let got = site.get(target);
        let text = got.find("location").map_or_else(|| got.text(), str::to_owned);
        assert_eq!((status, expect), (got.status, text.as_str()), "{target}");
    };
    let absent = "404 Not Found\nNo resource exists at this URL.\n";
    check("/", 200, "home");
    check("/?q", 200, "home");
    check("/dir/", 200, "inner");
    check("/dir/index.html", 200, "inner");
    check("/dir", 301, "/dir/");
    check("/dir?a=b/c", 301, "/dir/?a=b/c");
    check("/d%69r", 301, "/dir/");
    check("/bare/", 404, absent);
    check("/bare", 301, "/bare/");
    check("/index.html/", 404, absent);
    check("/absent/", 404, absent);
    assert_eq!(0, site.request("HEAD /dir").body.len());
}

#[test]
fn an_index_may_be_a_link_within_the_root() {
    let site = Site::new(&[("real.html", "real"), ("dir/x", "x")]);
    symlink("../real.html", site.path("dir/index.html")).unwrap();
    assert_eq!("real", site.get("/dir/").text());
}

#[test]
fn the_first_index_wins_and_a_directory_is_none() {
    let index = vec!["index.htm".to_owned(), "index.html".to_owned()];
    let site = Site::with(RootOptions { index, ..RootOptions::default() }, &[("index.html", "second")]);
    fs::create_dir(site.path("index.htm")).unwrap();
    assert_eq!("second", site.get("/").text());
    fs::remove_dir(site.path("index.htm")).unwrap();
    site.write("index.htm", "first");
    assert_eq!("first", site.at(5000, "GET /").text());
}

#[test]
fn a_prefix_is_removed() {
    let options = RootOptions { strip: "/static".to_owned(), ..RootOptions::default() };
    let site = Site::with(options, &[("a.txt", "a"), ("index.html", "home"), ("static/a.txt", "twice")]);
    let check = |target: &str, expect: u16, text: &str| {
        let got = site.get(target);
        assert_eq!((expect, true), (got.status, got.text().starts_with(text)), "{target}");
    };
    check("/static/a.txt", 200, "a");
    check("/static/", 200, "home");
    check("/static", 301, "");
    check("/static/static/a.txt", 200, "twice");
    check("/a.txt", 404, "");
    check("/staticx/a.txt", 404, "");
    check("/", 404, "");
    assert_eq!("/static/", site.get("/static").field("location"));
}

const HOSTILE: &[&[u8]] =
    &[b"<script>alert(1)<", b"a\"onmouseover='x", b"a&b;c", b"javascript:x", b"\xff\xfe", b"q?x#y%41 z"];

fn hostile() -> Site {
    let site = Site::with(
        RootOptions { listing: Listing::On, ..RootOptions::default() },
        &[("dir/b.txt", "bb"), ("dir/sub/x", "x"), ("dir/.hidden", "x"), ("dir/back\\slash", "x")],
    );
    for name in HOSTILE {
        fs::write(site.path("dir").join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    fs::write(site.path("dir/new\nline"), "x").unwrap();
    symlink("../../secret", site.path("dir/out")).unwrap();
    symlink("b.txt", site.path("dir/in")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, site.path("dir/fifo"), rustix::fs::Mode::RUSR).unwrap();
    site
}

#[test]
fn a_listing_names_exactly_the_files_that_are_served() {
    let site = hostile();
    let got = site.request("GET /dir/\nAccept: application/json");
    assert_eq!("application/json", got.field("content-type"));
    let lines: Vec<serde_json::Value> = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(
        HOSTILE.len() + 3,
        lines.len(),
        "b.txt, sub and in, but no hidden, odd, foreign or special ones"
    );
    assert_eq!(
        ("sub/", "directory"),
        (lines[0]["name"].as_str().unwrap(), lines[0]["type"].as_str().unwrap())
    );
    for it in &lines {
        let got = site.get(&format!("/dir/{}", it["href"].as_str().unwrap()));
        assert_eq!(200, got.status, "{it} leads somewhere");
        if let Some(size) = it["size"].as_u64() {
            assert_eq!(size, got.body.len() as u64);
        }
    }
}

#[test]
fn a_listing_is_escaped() {
    let site = hostile();
    let got = site.get("/dir/");
    assert_eq!("text/html; charset=utf-8", got.field("content-type"));
    let page = got.text();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;") && !page.contains("<script"), "{page}");
    assert!(
        page.contains("href=\"a%22onmouseover%3D%27x\"") || page.contains("a%22onmouseover=%27x\""),
        "{page}"
    );
    assert!(page.contains("href=\"javascript%3Ax\""), "no scheme: {page}");
    assert!(page.contains("href=\"q%3Fx%23y%2541%20z\""), "{page}");
    assert!(!page.contains("fifo") && !page.contains(">out<") && !page.contains("hidden"), "{page}");
    assert_eq!(0, site.request("HEAD /dir/").body.len());
    assert_eq!("Accept", got.field("vary"));
}

#[test]
fn a_truncated_listing_names_its_limit() {
    let site = Site::with(RootOptions { listing: Listing::On, ..RootOptions::default() }, &[]);
    for it in 0..10_001 {
        fs::write(site.path(&format!("{it}")), "").unwrap();
    }
    let page = site.get("/").text();
    assert_eq!(
        (10_000, true),
        (page.matches("<tr>").count(), page.contains("The listing is limited to 10000 entries."))
    );
}

fn coded() -> Site {
    let site = Site::new(&[
        ("a.js", "plain"),
        ("a.js.br", "brotli"),
        ("a.js.zst", "zstd"),
        ("a.js.gz", "gzip"),
        ("b.css", "plain"),
        ("b.css.gz", "gzip"),
        ("alone.css", "plain"),
    ]);
    for name in ["a.js", "a.js.br", "a.js.zst", "a.js.gz", "b.css", "b.css.gz"] {
        site.set_modified(name, 1_000_000_000);
    }
    site
}

fn accepting(site: &Site, target: &str, accept: &str) -> Got {
    site.request(&format!("GET {target}\nAccept-Encoding: {accept}"))
}

#[test]
fn precompressed_siblings() {
    let site = coded();
    let check = |target: &str, accept: &str, expect: &str| {
        let got = accepting(&site, target, accept);
        assert_eq!((200, expect), (got.status, got.text().as_str()), "{target} {accept}");
        assert_eq!("Accept-Encoding", got.field("vary"));
        assert_eq!(expect.len().to_string(), got.field("content-length"));
        let coding =
            FileCoding::ALL.into_iter().map(FileCoding::token).find(|it| expect.starts_with(&it[..2]));
        assert_eq!(coding, got.find("content-encoding"), "{target} {accept}");
    };
    check("/a.js", "gzip, deflate, br, zstd", "brotli");
    check("/a.js", "gzip, zstd", "zstd");
    check("/a.js", "gzip", "gzip");
    check("/a.js", "gzip;q=0, identity", "plain");
    check("/a.js", "br;q=0.2, gzip;q=0.7", "gzip");
    check("/b.css", "br, gzip", "gzip");
    check("/b.css", "br", "plain");
    assert_eq!("text/javascript; charset=utf-8", accepting(&site, "/a.js", "br").field("content-type"));
    assert_eq!(None, accepting(&site, "/alone.css", "gzip").find("vary"));
    let direct = accepting(&site, "/a.js.gz", "gzip");
    assert_eq!(("application/gzip", None), (direct.field("content-type"), direct.find("content-encoding")));
}

#[test]
fn each_form_has_its_own_validator() {
    let site = coded();
    let mut etags: Vec<String> = ["", "br", "zstd", "gzip"]
        .iter()
        .map(|it| accepting(&site, "/a.js", it).field("etag").to_owned())
        .collect();
    let [plain, brotli] = [etags[0].clone(), etags[1].clone()];
    etags.sort();
    etags.dedup();
    assert_eq!(4, etags.len(), "{etags:?}");
    let check = |accept: &str, etag: &str, expect| {
        let request = format!("GET /a.js\nAccept-Encoding: {accept}\nIf-None-Match: {etag}");
        let got = site.request(&request);
        assert_eq!((expect, "Accept-Encoding"), (got.status, got.field("vary")), "{request}");
    };
    check("br", &brotli, 304);
    check("br", &plain, 200);
    check("", &plain, 304);
    let part = site.request("GET /a.js\nAccept-Encoding: br\nRange: bytes=0-1");
    assert_eq!((206, "br", "bytes 0-1/6"), (part.status, part.text().as_str(), part.field("content-range")));
}

#[test]
fn an_older_or_irregular_sibling_is_not_used() {
    let site = coded();
    site.set_modified("a.js.br", 999_999_999);
    fs::remove_file(site.path("a.js.zst")).unwrap();
    fs::create_dir(site.path("a.js.zst")).unwrap();
    fs::remove_file(site.path("a.js.gz")).unwrap();
    symlink("../../secret", site.path("a.js.gz")).unwrap();
    let got = accepting(&site, "/a.js", "br, zstd, gzip");
    assert_eq!(("plain", None), (got.text().as_str(), got.find("vary")));
    let off = Site::with(
        RootOptions { precompressed: false, ..RootOptions::default() },
        &[("a.js", "plain"), ("a.js.gz", "gzip")],
    );
    assert_eq!("plain", accepting(&off, "/a.js", "gzip").text());
}

#[test]
fn options_of_fields() {
    let options = RootOptions {
        cache_control: Some("public, max-age=60".to_owned()),
        media_types: vec![("x".to_owned(), "text/x-x".to_owned())],
        ..RootOptions::default()
    };
    let got = Site::with(options, &[("a.x", "x")]).get("/a.x");
    assert_eq!(("public, max-age=60", "text/x-x"), (got.field("cache-control"), got.field("content-type")));
}
