//! Files of `cache.public_files`: the same for every visitor, requested once for all of them, and they end no session.

use super::preset_visitors::{PRESETS, before};
use crate::harness::origin::{Script, response};
use crate::harness::tiers::disk;
use crate::harness::{Larder, Origin, Response};

/// A site whose files have the date of their last change alone, as those of many web servers.
fn dated_files() -> Origin {
    Origin::new(|it| {
        let cookie = it.field("cookie").unwrap_or("nobody");
        let sets = if it.target().contains("missing") { "Set-Cookie: session=new\n" } else { "" };
        format!("HTTP/1.1 200 OK\nLast-Modified: Thu, 01 Jan 2015 00:00:00 GMT\n{sets}\nfor {cookie}")
    })
}

/// The files of a preset's public directories, and files that an application may send to one visitor.
const DIRECTORIES: [(&str, &[&str], &[&str]); 7] = [
    (
        "wordpress",
        &["/wp-content/uploads/2026/11/a.jpg", "/wp-includes/css/a.css?ver=6.8", "/wp-admin/js/a.js"],
        &["/wp-content/plugins/shop/a.php", "/account/avatar.png"],
    ),
    (
        "drupal",
        &["/core/misc/a.js", "/themes/own/a.css", "/sites/default/files/styles/large/a.png"],
        &["/system/files/a.png", "/sites/default/private/a.png", "/core/install.php"],
    ),
    ("django", &["/static/admin/a.css"], &["/media/a.png", "/static/../media/a.png"]),
    ("rails", &["/assets/a-5f1c.js", "/packs/a.css"], &["/rails/active_storage/blobs/a.png", "/assets"]),
    ("laravel", &["/build/assets/a.js", "/storage/a.png"], &["/avatars/a.png"]),
    ("flask", &["/static/a.css"], &["/avatar.png"]),
    ("nextjs", &["/_next/static/chunks/a.js"], &["/avatar.png", "/_next/image?url=%2Favatar.png"]),
];

#[test]
fn files_of_public_directories_are_requested_once_for_all_sessions() {
    let origin = dated_files();
    for (preset, public, private) in DIRECTORIES {
        let larder = before(&origin, preset);
        let mut client = larder.client();
        let session = PRESETS.iter().find(|it| it.0 == preset).unwrap().1;
        let other = session.replace("anna", "bert");
        let mut get = |path: &str, cookie: &str| client.get_with(path, &format!("Cookie: {cookie}\r\n"));
        for path in public {
            let first = get(path, session);
            assert_eq!((200, "for nobody"), (first.status, &*first.text()), "{preset}: {path}");
            for cookie in [session, &other] {
                assert!(get(path, cookie).is_hit(), "{preset}: {path}");
            }
        }
        for path in private {
            for cookie in [session, &other] {
                let own = get(path, cookie);
                assert_eq!((format!("for {cookie}"), false), (own.text(), own.is_hit()), "{preset}: {path}");
            }
        }
        assert!(larder.get(public[0]).is_hit(), "{preset}");
    }
}

/// The application takes a visitor without cookies for a new one.
#[test]
fn a_public_file_ends_no_session() {
    let origin = dated_files();
    for cache in ["preset = \"laravel\"", "preset = \"node\", public_files = [\"/build/*\"]"] {
        let larder = Larder::before(&origin, cache);
        let mut client = larder.client();
        let mut get = |method: &str, path: &str| client.request(method, path, "Cookie: session=anna\r\n", "");
        for _ in 0..2 {
            let missing = get("GET", "/build/missing.js");
            assert_eq!((None, "for nobody"), (missing.field("set-cookie"), &*missing.text()), "{cache}");
        }
        let page = get("GET", "/missing");
        assert_eq!((Some("session=new"), "for session=anna"), (page.field("set-cookie"), &*page.text()));
        let sent = get("POST", "/build/missing.js");
        assert_eq!((Some("session=new"), "for session=anna"), (sent.field("set-cookie"), &*sent.text()));
        let explained = r#"{"url":"http://h/build/missing.js","headers":[["Cookie","session=anna"]]}"#;
        let explained = larder.admin_post("/api/v1/explain", explained).text();
        assert!(explained.contains("\"rules\"") && !explained.contains("private-cookie"), "{explained}");
    }
}

#[test]
fn an_early_hint_for_a_public_file_sets_no_cookie() {
    let origin = Origin::scripted(|_| {
        let hint = "HTTP/1.1 103 Early Hints\nLink: </a.css>; rel=preload\nSet-Cookie: session=new\n\n";
        vec![Script::Send([response(hint), response("HTTP/1.1 200 OK\n\nok")].concat())]
    });
    let larder = Larder::before(&origin, "preset = \"laravel\"");
    for (path, cookie, sets) in [
        ("/build/a.js", "Cookie: session=anna\r\n", false),
        ("/build/b.js", "", false),
        ("/page", "Cookie: session=anna\r\n", true),
    ] {
        let found = larder.client().get_with(path, cookie);
        let hint = format!("{:?}", found.interim);
        assert_eq!((true, sets), (hint.contains("preload"), hint.contains("session=new")), "{path}: {hint}");
    }
}

/// An application that starts a session with each of its responses, also with files that say `said`.
fn starting_sessions(text: &'static str) -> Origin {
    Origin::new(move |it| {
        let head = match it.field("if-none-match") {
            Some(_) => "304 Not Modified",
            None => "200 OK",
        };
        let more = "Set-Cookie: session=new\nSet-Cookie2: session=new; Version=1\nClear-Site-Data: \"cookies\"\nETag: \"1\"";
        format!("HTTP/1.1 {head}\n{text}\n{more}\n\nfor {}", it.field("cookie").unwrap_or("nobody"))
    })
}

/// The fields by which a response changes the cookies of its visitor.
fn changes(it: &Response) -> Vec<&str> {
    ["set-cookie", "set-cookie2", "clear-site-data"]
        .into_iter()
        .filter(|name| it.field(name).is_some())
        .collect()
}

const NO_CHANGES: [&str; 0] = [];

/// The lines of visitors with and without a session.
const VISITORS: [&str; 4] =
    ["Cookie: session=anna\r\n", "", "Cookie: session=bert\r\n", "Cookie: lang=de\r\n"];

#[test]
fn a_public_file_is_stored_although_it_sets_a_cookie() {
    let origin = starting_sessions("Cache-Control: max-age=60");
    for first in ["GET", "HEAD"] {
        for cache in ["preset = \"laravel\"", "public_files = [\"/build/*\"], store_set_cookie = true"] {
            let folder = tempfile::tempdir().unwrap();
            let larder = Larder::before_with(&origin, cache, &disk(folder.path()));
            let before = origin.requests();
            let head = larder.client().request(first, "/build/a.js", VISITORS[1], "");
            assert_eq!(NO_CHANGES[..], changes(&head), "{first}: {cache}");
            for visitor in VISITORS.repeat(2) {
                let got = larder.client().get_with("/build/a.js", visitor);
                assert_eq!(
                    ("for nobody", &NO_CHANGES[..]),
                    (&*got.text(), &*changes(&got)),
                    "{first}: {visitor}"
                );
            }
            let of_head = usize::from(first == "HEAD");
            assert_eq!(1 + of_head, origin.requests() - before, "{first}: {cache}");
            // Another path and another method of the same path are not concerned.
            for (method, path) in [("GET", "/a.js"), ("POST", "/build/a.js"), ("GET", "/build/a.php")] {
                let got = larder.client().request(method, path, VISITORS[0], "");
                assert_eq!(Some("session=new"), got.field("set-cookie"), "{method} {path}");
            }
        }
    }
}

#[test]
fn a_response_to_a_public_file_changes_no_cookie_however_it_is_requested() {
    for text in ["Cache-Control: no-cache", "Cache-Control: private, max-age=60", "Cache-Control: no-store"] {
        let origin = starting_sessions(text);
        let larder = Larder::before(&origin, "preset = \"laravel\"");
        let lines = ["", "If-None-Match: \"1\"\r\n", "Range: bytes=0-1\r\n", "Cache-Control: no-store\r\n"];
        let before = origin.requests();
        for (visitor, more) in VISITORS.into_iter().flat_map(|it| lines.map(|more| (it, more))) {
            for method in ["GET", "HEAD"] {
                let got = larder.client().request(method, "/build/a.js", &format!("{visitor}{more}"), "");
                assert_eq!(NO_CHANGES[..], changes(&got), "{text}: {method} {visitor}{more}");
                assert!(!got.is_hit(), "{text}: {method} {visitor}{more}");
            }
        }
        assert_eq!(32, origin.requests() - before, "{text}");
    }
}

#[test]
fn documents_and_archives_are_files_and_data_is_one_in_public_directories() {
    let origin = Origin::new(|it| {
        let cookie = it.field("cookie").unwrap_or("nobody");
        format!("HTTP/1.1 200 OK\nCache-Control: public, max-age=60\n\nfor {cookie}")
    });
    for (preset, session, _) in PRESETS {
        let larder = before(&origin, preset);
        let public = DIRECTORIES.iter().find(|it| it.0 == preset).map_or("/", |it| it.1[0]);
        let directory = &public[..public.rfind('/').unwrap()];
        let is_data = |it: &str| matches!(it, "json" | "xml" | "html" | "md");
        for end in
            ["pdf", "txt", "zip", "gz", "csv", "docx", "odt", "webmanifest", "json", "xml", "html", "md"]
        {
            for (path, is_shared) in [
                (format!("{directory}/a.{end}"), !directory.is_empty() || !is_data(end)),
                (format!("/other/a.{end}"), !is_data(end)),
            ] {
                larder.get(&path);
                let before = origin.requests();
                for visitor in [session.to_owned(), session.replace("anna", "bert")] {
                    larder.client().get_with(&path, &format!("Cookie: {visitor}\r\n"));
                }
                assert_eq!(if is_shared { 0 } else { 2 }, origin.requests() - before, "{preset}: {path}");
            }
        }
    }
}
