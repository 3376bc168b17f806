//! The files that a path may mean: `files.try`, clean URLs, the page of an application, the page for absent paths.

mod support;

use larder_files::{Dotfiles, Listing, RootOptions, TryMember};
use larder_stdx::clock::Monotonic;
use std::fs;
use std::os::unix::fs::symlink;
use support::{SECRET, Site};

const FILES: &[(&str, &str)] = &[
    ("index.html", "home"),
    ("about.html", "about"),
    ("docs/index.html", "docs"),
    ("docs/guide.html", "guide"),
    ("both.html", "both, the page"),
    ("both/index.html", "both, the directory"),
    ("bare/x.txt", "x"),
    ("a.txt", "a"),
    ("de/a.txt", "A"),
    ("404.html", "absent"),
    (".env", SECRET),
    ("x/.env", SECRET),
];

fn tried(members: &[&str]) -> RootOptions {
    let members = members.iter().map(|it| TryMember::parse(it).unwrap()).collect();
    RootOptions { members, ..RootOptions::default() }
}

fn clean() -> RootOptions {
    let members = vec![TryMember::own(), TryMember::suffixed(".html")];
    RootOptions { members, clean_urls: true, ..RootOptions::default() }
}

fn application() -> RootOptions {
    let mut options = clean();
    options.members.push(TryMember::Page("/index.html".into()));
    options
}

/// Status, and the target of the redirect or the first line of the page.
#[track_caller]
fn check(site: &Site, request: &str, status: u16, expect: &str) {
    // From the disk, then from the cache.
    for _ in 0..2 {
        let got = site.request(&format!("GET {request}"));
        let text = got.find("location").map_or_else(|| got.text(), str::to_owned);
        assert_eq!((status, expect), (got.status, text.trim_end()), "{request}");
    }
}

const ABSENT: &str = "404 Not Found\nNo resource exists at this URL.";

#[test]
fn members_in_order() {
    let site = Site::with(tried(&["{path}", "{path}.html", "{path}/index.html", "/index.html"]), FILES);
    check(&site, "/about", 200, "about");
    check(&site, "/about?q=1", 200, "about");
    check(&site, "/%61bout", 200, "about");
    check(&site, "/x/../about", 200, "about");
    check(&site, "/about.html", 200, "about");
    check(&site, "/docs/guide", 200, "guide");
    check(&site, "/docs", 301, "/docs/");
    check(&site, "/docs?a=b", 301, "/docs/?a=b");
    check(&site, "/docs/", 200, "docs");
    check(&site, "/both", 200, "both, the page");
    check(&site, "/both/", 200, "both, the directory");
    check(&site, "/bare", 200, "home");
    check(&site, "/bare/", 200, "home");
    check(&site, "/any/path/at/all", 200, "home");
    check(&site, "/missing.js", 200, "home");
    check(&site, "/about/", 200, "home");
    check(&site, "/", 200, "home");
}

#[test]
fn the_end_of_a_list() {
    let site = Site::with(tried(&["/de/{path}", "{path}", "=404"]), FILES);
    check(&site, "/a.txt", 200, "A");
    check(&site, "/about.html", 200, "about");
    check(&site, "/none", 404, ABSENT);
    check(&site, "/docs", 301, "/docs/");
    check(&site, "/bare", 404, ABSENT);
    let site = Site::with(tried(&["{path}", "=410"]), FILES);
    check(&site, "/none", 410, "410 Gone\nThis resource was removed.");
    let site = Site::with(tried(&["{path}/", "=404"]), FILES);
    check(&site, "/docs", 301, "/docs/");
    check(&site, "/docs/", 200, "docs");
    check(&site, "/a.txt", 404, ABSENT);
    check(&site, "/bare/", 404, ABSENT);
    let site = Site::with(tried(&["/none.html", "/a.txt"]), FILES);
    check(&site, "/whatever", 200, "a");
}

#[test]
fn a_prefix_is_removed_before_the_members() {
    let site = Site::with(
        RootOptions { strip: "/app".to_owned(), ..tried(&["{path}", "{path}.html", "/index.html"]) },
        FILES,
    );
    check(&site, "/app/about", 200, "about");
    check(&site, "/app/none", 200, "home");
    check(&site, "/app/docs?x", 301, "/app/docs/?x");
    check(&site, "/app", 301, "/app/");
    check(&site, "/other", 404, ABSENT);
}

#[test]
fn clean_urls() {
    let site = Site::with(clean(), FILES);
    site.write("twice", "without");
    site.write("twice.html", "with");
    check(&site, "/about", 200, "about");
    check(&site, "/about.html", 301, "/about");
    check(&site, "/about.html?a=b&c", 301, "/about?a=b&c");
    check(&site, "/about/", 301, "/about");
    check(&site, "/about/?a", 301, "/about?a");
    check(&site, "/about/index.html", 404, ABSENT);
    check(&site, "/docs/index.html?x=y", 301, "/docs/?x=y");
    check(&site, "/docs/index", 301, "/docs/");
    check(&site, "/index.html", 301, "/");
    check(&site, "/index", 301, "/");
    check(&site, "/docs", 301, "/docs/");
    check(&site, "/docs/", 200, "docs");
    check(&site, "/docs/guide.html", 301, "/docs/guide");
    check(&site, "/docs/guide", 200, "guide");
    check(&site, "/both", 200, "both, the page");
    check(&site, "/both/", 200, "both, the directory");
    check(&site, "/both.html", 301, "/both");
    check(&site, "/twice", 200, "without");
    check(&site, "/twice.html", 200, "with");
    check(&site, "/a.txt", 200, "a");
    check(&site, "/none.html", 404, ABSENT);
    check(&site, "/bare/", 404, ABSENT);
    check(&site, "/.html", 404, ABSENT);
    assert_eq!(0, site.request("HEAD /about.html").body.len());
}

/// `/about.html` is served while it is no other page's second name, and no longer once it is.
#[test]
fn a_redirect_follows_the_disk() {
    let site = Site::with(clean(), &[("p.html", "page"), ("p", "file")]);
    check(&site, "/p.html", 200, "page");
    fs::remove_file(site.path("p")).unwrap();
    assert_eq!(301, site.at(3000, "GET /p.html").status);
    assert!(site.root.lookup_now("/p.html", &[], Monotonic(3000)).is_none());
}

#[test]
fn the_first_index_is_the_clean_one() {
    let index = vec!["index.htm".to_owned(), "index.html".to_owned()];
    let site =
        Site::with(RootOptions { index, ..clean() }, &[("index.html", "second"), ("index.htm", "first")]);
    check(&site, "/", 200, "first");
    check(&site, "/index.html", 200, "second");
}

#[test]
fn an_application_answers_where_a_browser_navigates() {
    let site = Site::with(application(), FILES);
    check(&site, "/users/7", 200, "home");
    check(&site, "/users/", 200, "home");
    check(&site, "/bare", 200, "home");
    check(&site, "/about", 200, "about");
    check(&site, "/docs", 301, "/docs/");
    check(&site, "/missing.js", 404, ABSENT);
    check(&site, "/missing.js\nAccept: */*", 404, ABSENT);
    check(&site, "/logo.png\nAccept: image/avif,image/webp,*/*;q=0.8", 404, ABSENT);
    check(&site, "/users/jane.doe\nAccept: text/html,*/*;q=0.8", 200, "home");
    check(&site, "/.well-known/apple-app-site-association\nAccept: text/html", 404, ABSENT);
    check(&site, "/.env\nAccept: text/html", 404, ABSENT);
    let vary = |request: &str| site.request(request).find("vary").map(str::to_owned);
    assert_eq!(Some("Accept".to_owned()), vary("GET /missing.js"));
    assert_eq!(Some("Accept".to_owned()), vary("GET /users/jane.doe\nAccept: text/html"));
    assert_eq!(None, vary("GET /users/7"));
    assert_eq!(None, vary("GET /a.txt"));
    let etag = site.get("/").field("etag").to_owned();
    for target in ["/users/7", "/users/jane.doe"] {
        let got = site.request(&format!("GET {target}\nAccept: text/html\nIf-None-Match: {etag}"));
        assert_eq!(304, got.status, "{target}");
    }
}

/// Deep links are hits, hold one copy of the page, and show a change of it in time.
#[test]
fn paths_share_the_page() {
    let site = Site::with(application(), &[("index.html", "old")]);
    let now = |millis: u64| Monotonic(1_000_000 + millis);
    for it in 0..100 {
        assert_eq!("old", site.at(now(0).0, &format!("GET /users/{it}")).text());
    }
    assert_eq!(101, site.root.files_held());
    assert!(site.root.memory_held() < 101 * 400 + 2048, "{}", site.root.memory_held());
    assert!(site.root.lookup_now("/users/7", &[], now(1)).is_some());
    assert!(site.root.lookup_now("/users/j.doe", &[], now(1)).is_none());
    site.write("index.html", "newer");
    assert_eq!("newer", site.at(now(1000).0, "GET /users/7").text());
    assert_eq!("newer", site.at(now(1000).0, "GET /users/8").text());
    fs::remove_file(site.path("index.html")).unwrap();
    assert_eq!(404, site.at(now(3000).0, "GET /users/7").status);
    site.write("users/7", "a file by now");
    assert_eq!("a file by now", site.at(now(3000).0, "GET /users/7").text());
}

#[test]
fn the_page_for_absent_paths() {
    let options = RootOptions {
        not_found: Some("/404.html".to_owned()),
        cache_control: Some("public, max-age=31536000, immutable".to_owned()),
        ..RootOptions::default()
    };
    let site = Site::with(options, FILES);
    let page = |request: &str| {
        let got = site.request(request);
        assert_eq!((404, "text/html; charset=utf-8"), (got.status, got.field("content-type")), "{request}");
        for name in ["etag", "last-modified", "accept-ranges", "cache-control", "content-range"] {
            assert_eq!(None, got.find(name), "{request}");
        }
        assert_eq!("6", got.field("content-length"), "{request}");
        got.text()
    };
    let etag = site.get("/404.html").field("etag").to_owned();
    for request in [
        "GET /none".to_owned(),
        "GET /.env".to_owned(),
        "GET /../secret".to_owned(),
        "GET /a//b".to_owned(),
        "GET /bare/".to_owned(),
        "GET /none\nRange: bytes=0-1".to_owned(),
        format!("GET /none\nIf-None-Match: {etag}"),
        "GET /none\nIf-Match: \"x\"".to_owned(),
    ] {
        assert_eq!("absent", page(&request));
    }
    assert_eq!("", page("HEAD /none"));
    assert_eq!(200, site.get("/404.html").status);
    assert_eq!(405, site.request("POST /none").status);
    site.write("404.html", "moved!");
    assert_eq!("moved!", site.at(9000, "GET /none").text());
    fs::remove_file(site.path("404.html")).unwrap();
    assert_eq!((404, format!("{ABSENT}\n")), {
        let got = site.at(20_000, "GET /none");
        (got.status, got.text())
    });
}

/// A page that is a way out of the root, or no file, answers nothing.
#[test]
fn pages_stay_beneath_the_root() {
    for page in ["out.html", "fifo.html", "dir.html"] {
        let options =
            RootOptions { not_found: Some(format!("/{page}")), ..tried(&["{path}", &format!("/{page}")]) };
        let site = Site::with(options, &[("a", "a")]);
        symlink("../secret", site.path("out.html")).unwrap();
        fs::create_dir(site.path("dir.html")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, site.path("fifo.html"), rustix::fs::Mode::RUSR).unwrap();
        check(&site, "/none", 404, ABSENT);
    }
    let hidden = Site::with(tried(&["{path}", "{path}/.env", "/.env"]), FILES);
    check(&hidden, "/y", 404, ABSENT);
    let shown = Site::with(RootOptions { dotfiles: Dotfiles::Shown, ..tried(&["{path}", "/.env"]) }, FILES);
    check(&shown, "/y", 200, SECRET);
}

#[test]
fn a_listing_is_of_the_path_itself() {
    let site = Site::with(RootOptions { listing: Listing::On, ..tried(&["{path}", "/index.html"]) }, FILES);
    assert!(site.get("/bare/").text().contains("x.txt"));
    check(&site, "/bare", 301, "/bare/");
    check(&site, "/none", 200, "home");
}

/// The key of a page that answers many paths is no path.
#[test]
fn the_key_of_a_page_cannot_be_requested() {
    let site = Site::with(application(), FILES);
    check(&site, "/users/7", 200, "home");
    for target in ["\0/index.html", "/\0/index.html", "%00/index.html", "/%00/index.html", "index.html"] {
        assert!(site.root.lookup_now(target, &[], Monotonic(1000)).is_none(), "{target:?}");
        assert_eq!(400, site.get(target).status, "{target:?}");
    }
}
