//! Error pages that are pages of their site: requested without credentials, kept while the application fails.

use crate::harness::http2::Http2;
use crate::harness::{Larder, Origin, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// larder with these keys of its site, a route that is down, a folder of files and an application.
fn larder(origin: &Origin, site: &str, files: &str) -> Larder {
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\naccess = \"off\"\nerror = \"larder.log\"\n[[site]]\nhosts = [\"h\", \"*\"]\n{site}\n[[site.route]]\npath = \"/down\"\n\
         proxy.to = \"127.0.0.1:1\"\n{files}[[site.route]]\nproxy.to = \"{}\"\n",
        origin.url()
    );
    Larder::configured(config)
}

const PAGES: &str =
    "error_pages = { 404 = \"url:/not-found\", 5xx = \"url:/sorry?a=b\" }\nintercept_errors = true";

#[test]
fn a_page_of_the_application_replaces_errors_and_outlives_it() {
    let fails = Arc::new(AtomicBool::new(false));
    let of_origin = fails.clone();
    let origin = Origin::new(move |it| {
        match it.target() {
        _ if of_origin.load(Relaxed) => "HTTP/1.1 500 Internal Server Error\n\ntrace".to_owned(),
        "/not-found" => {
            "HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Type: text/html\nX-Of-Page: 1\n\n<h1>none</h1>".to_owned()
        }
        "/sorry?a=b" => "HTTP/1.1 200 OK\nContent-Type: text/html\n\nsorry".to_owned(),
        "/fine" => "HTTP/1.1 200 OK\n\nfine".to_owned(),
        _ => "HTTP/1.1 404 Not Found\nX-Of-Error: 1\n\nplain".to_owned(),
    }
    });
    let larder = larder(&origin, PAGES, "");
    let credentials = "Cookie: session=1\r\nAuthorization: Basic YTpi\r\n";
    let get = |target: &str| larder.client().get_with(target, credentials);
    until("the page is there", || get("/missing").text() == "<h1>none</h1>");
    let it = get("/missing");
    assert_eq!((404, Some("text/html"), Some("1"), None), {
        (it.status, it.field("content-type"), it.field("x-of-error"), it.field("x-of-page"))
    });
    until("the other page is there", || get("/down").text() == "sorry");
    assert_eq!(502, get("/down").status);
    let mut http2 = Http2::connect(&larder);
    let it = http2.get("/missing");
    assert_eq!((404, "<h1>none</h1>".to_owned()), (it.status, it.text()));
    assert_eq!("fine", get("/fine").text());
    let asked: Vec<_> = origin.received();
    let asked: Vec<_> =
        asked.iter().filter(|it| ["/not-found", "/sorry?a=b"].contains(&it.target())).collect();
    assert!(!asked.is_empty());
    for it in asked {
        assert_eq!(
            (None, None, Some("h")),
            (it.field("cookie"), it.field("authorization"), it.field("host"))
        );
    }
    // The application fails, and larder reloads meanwhile.
    fails.store(true, Relaxed);
    assert_eq!((500, "sorry".to_owned()), (get("/new").status, get("/new").text()));
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(
        larder.config(),
        text.replace(PAGES, &format!("{PAGES}\nresponse_headers.set.X-A = \"2\"")),
    )
    .unwrap();
    larder.signal(libc::SIGHUP);
    until("the reload is in force", || get("/down").field("x-a") == Some("2"));
    assert_eq!((500, "sorry".to_owned()), (get("/new").status, get("/new").text()));
}

/// A page that one client alone may get is none for all, and a page that fails has no page of its own.
#[test]
fn a_page_that_cannot_be_had_leaves_the_plain_one() {
    for head in [
        "200 OK\nSet-Cookie: a=b",
        "200 OK\nCache-Control: private",
        "200 OK\nCache-Control: no-store",
        "404 Not Found\nA: b",
        "302 Found\nLocation: /login",
        "503 Service Unavailable\nA: b",
        "200 OK\nContent-Length: 2000000",
    ] {
        let origin = Origin::new(move |_| format!("HTTP/1.1 {head}\n\nsecret"));
        let larder = larder(&origin, "error_pages = { 4xx = \"url:/page\", 5xx = \"url:/page\" }", "");
        let log = || std::fs::read_to_string(larder.folder.path().join("larder.log")).unwrap_or_default();
        until("the page was requested", || log().contains("error-page-failed"));
        let it = larder.get("/down");
        assert_eq!((502, false), (it.status, it.text().contains("secret")), "{head}: {}", it.text());
        assert!(it.text().starts_with("502"), "{head}: {}", it.text());
    }
}

#[test]
fn a_page_may_be_a_file_of_the_site() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("errors")).unwrap();
    std::fs::write(folder.path().join("errors/none.html"), "<h1>file</h1>").unwrap();
    let origin = Origin::fixed("HTTP/1.1 404 Not Found\n\nplain");
    let files =
        format!("[[site.route]]\npath = \"/errors/*\"\nfiles.root = \"{}\"\n", folder.path().display());
    let larder =
        larder(&origin, "error_pages.404 = \"url:/errors/none.html\"\nintercept_errors = true", &files);
    until("the page is there", || larder.get("/missing").text() == "<h1>file</h1>");
    let it = larder.get("/errors/missing");
    assert_eq!((404, "<h1>file</h1>".to_owned()), (it.status, it.text()));
    assert_eq!(Some("text/html; charset=utf-8"), it.field("content-type"));
}

/// A page for a maintenance is requested at the start, although all of the site is under maintenance.
#[test]
fn a_page_for_a_maintenance_survives_a_restart() {
    let origin = Origin::new(|it| match it.target() {
        "/maint" => "HTTP/1.1 200 OK\nContent-Type: text/html\n\n<h1>back soon</h1>".to_owned(),
        _ => "HTTP/1.1 200 OK\n\npage".to_owned(),
    });
    let larder = larder(&origin, "error_pages.503 = \"url:/maint\"\nmaintenance.enabled = true", "");
    until("the page is there", || larder.get("/a").text() == "<h1>back soon</h1>");
    let it = larder.get("/a");
    assert_eq!(
        (503, Some("600"), Some("text/html")),
        (it.status, it.field("retry-after"), it.field("content-type"))
    );
    // It is a page of the site like any other for its clients.
    assert_eq!(503, larder.get("/maint").status);
    assert!(origin.received().iter().all(|it| it.target() == "/maint"));
    let log = std::fs::read_to_string(larder.folder.path().join("larder.log")).unwrap_or_default();
    assert!(!log.contains("error-page-failed"), "{log}");
}

/// With TLS in front of larder, the page is requested as by a client over TLS: it is not redirected to https.
#[test]
fn a_page_is_not_redirected_to_https() {
    let origin = Origin::new(|it| match it.target() {
        "/sorry" => "HTTP/1.1 200 OK\n\nsorry".to_owned(),
        _ => "HTTP/1.1 500 Internal Server Error\n\ntrace".to_owned(),
    });
    let site = "error_pages.5xx = \"url:/sorry\"\nintercept_errors = true\nredirect_https = true";
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\nclients.trusted = [\"127.0.0.1\"]\n[[site]]\nhosts = [\"h\"]\n{site}\n[[site.route]]\nproxy.to = \"{}\"\n",
        origin.url()
    ));
    let get = || larder.client().get_with("/a", "X-Forwarded-Proto: https\r\n");
    until("the page is there", || get().text() == "sorry");
    assert_eq!(500, get().status);
}

/// The page in place of an error has no field about the body of the error, or for its client.
#[test]
fn a_page_has_no_field_of_the_body_that_it_replaces() {
    let origin = Origin::fixed(
        "HTTP/1.1 401 Unauthorized\nContent-Disposition: attachment\nContent-Type: application/json\nContent-Language: en\n\
         Set-Cookie: a=b\nContent-Security-Policy: script-src 'nonce-1'\nLink: </x.css>; rel=preload\nETag: \"a\"\n\
         WWW-Authenticate: Basic realm=\"x\"\nRetry-After: 7\nX-Of-Error: 1\n\n{}",
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("401.html"), "<h1>no</h1>").unwrap();
    let page = format!("error_pages.401 = \"{}/401.html\"\nintercept_errors = true", folder.path().display());
    let larder = larder(&origin, &page, "");
    for _ in 0..2 {
        let it = larder.get("/a");
        assert_eq!((401, "<h1>no</h1>".to_owned()), (it.status, it.text()));
        for name in [
            "content-disposition",
            "content-language",
            "set-cookie",
            "content-security-policy",
            "link",
            "etag",
        ] {
            assert_eq!(None, it.field(name), "{name}");
        }
        let kept =
            ["content-type", "www-authenticate", "retry-after", "x-of-error"].map(|name| it.field(name));
        assert_eq!([Some("text/html; charset=utf-8"), Some("Basic realm=\"x\""), Some("7"), Some("1")], kept);
    }
}
