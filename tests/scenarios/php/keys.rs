//! PHP with other keys of a route: presets, files that PHP hands over, reloads, HTTP/2, and habits of nginx.

use super::build;
use super::{ENV, PhpSite, script, site, site_with, told, variable};
use crate::harness::php::PhpFpm;
use crate::harness::{Larder, http2, until};
use serde_json::Value;

/// Every preset of a PHP application: a page of strangers is shared, a page of a session is not.
#[test]
fn presets() {
    for (preset, session) in [
        ("wordpress", "wordpress_logged_in_a"),
        ("drupal", "SESSa1b2"),
        ("laravel", "laravel_session"),
        ("php", "PHPSESSID"),
    ] {
        let PhpSite { larder, .. } = &site_with(1, "", &format!("cache = {{ preset = \"{preset}\" }}"));
        let (page, cookie) = ("/post?cache=max-age%3D60", format!("Cookie: {session}=b\r\n"));
        let get = |lines: &str| larder.client().get_with(page, lines);
        assert!(!get("").is_hit());
        assert!(get("").is_hit() && get("Cookie: _ga=1\r\n").is_hit(), "{preset}");
        let own = get(&cookie);
        assert!(!own.is_hit(), "{preset}");
        assert_eq!(format!("{session}=b"), variable(&told(&own), "HTTP_COOKIE"), "{preset}");
    }
}

/// The configuration that Symfony recommends for nginx: the front controller, no other script.
#[test]
fn other_scripts_are_refused_and_the_home_page_is_not() {
    let (folder, fpm) = (tempfile::tempdir().unwrap(), PhpFpm::start(1));
    build(folder.path());
    let php = format!("php = {{ root = {:?}, to = {:?} }}", folder.path(), fpm.name());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = 'regex:/index\\.php(/.*)?'\n{php}\n\
         [[site.route]]\nname = \"refused\"\npath = \"*.php\"\nrespond = {{ status = 404 }}\n\
         [[site.route]]\n{php}\n"
    );
    let larder = &Larder::configured(config);
    for (target, expect) in [
        ("/", "/index.php -"),
        ("/posts/1", "/index.php -"),
        ("/index.php", "/index.php -"),
        ("/index.php/a", "/index.php /a"),
    ] {
        assert_eq!(expect, script(&larder.get(target)), "{target}");
    }
    for target in ["/env.php", "/env.php/x", "/admin/", "/admin/index.php"] {
        assert_eq!(404, larder.get(target).status, "{target}");
    }
    let response = larder.admin_post("/api/v1/explain", r#"{"url":"http://a.test/admin/"}"#).text();
    let response: Value = serde_json::from_str(&response).unwrap();
    let answer = response["summary"]["answer"].as_str().unwrap();
    assert!(answer.starts_with("No script answers: 404: "), "{answer}");
    assert!(
        answer.contains("/admin/index.php belongs to the earlier route refused (")
            && answer.contains(".toml:"),
        "{answer}"
    );
}

/// A session of PHP itself: its pages are never shared.
#[test]
fn a_session_is_private() {
    let PhpSite { larder, folder, .. } = &site_with(1, "", "cache = { default_ttl = \"1m\" }");
    let text = "<?php session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo session_id(), ' ', $_SESSION['n'];";
    std::fs::write(folder.path().join("session.php"), text).unwrap();
    let first = larder.get("/session.php");
    let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let id = cookie.split_once('=').unwrap().1;
    let again = larder.client().get_with("/session.php", &format!("Cookie: {cookie}\r\n"));
    assert_eq!(format!("{id} 2"), again.text());
    let other = larder.get("/session.php").text();
    assert!(other.ends_with(" 1") && !other.contains(id), "{other}");
}

#[test]
fn files_that_php_hands_over() {
    let private = tempfile::tempdir().unwrap();
    std::fs::write(private.path().join("a.txt"), "private text").unwrap();
    let PhpSite { larder, folder, .. } =
        &site_with(1, "", &format!("sendfile = {{ root = {:?} }}", private.path()));
    std::fs::write(
        folder.path().join("send.php"),
        "<?php header('X-Sendfile: a.txt'); header('Content-Type: a/b');",
    )
    .unwrap();
    let answer = larder.client().get_with("/send.php", "Range: bytes=0-6\r\n");
    assert_eq!((206, "private"), (answer.status, &*answer.text()), "{answer:?}");
    assert_eq!(Some("a/b"), answer.field("content-type"));
}

/// A body over HTTP/2 without `content-length` reaches PHP with its length.
#[test]
fn a_body_over_http2() {
    let PhpSite { larder, .. } = &site();
    let mut client = http2::Http2::connect(larder);
    let id = client.head(&http2::request("POST", "/env.php", &[("content-type", "text/plain")]), 0);
    client.data(id, b"hello ", 0);
    client.data(id, b"world", http2::END_STREAM);
    let json: serde_json::Value = serde_json::from_str(&client.answer(id).text()).unwrap();
    assert_eq!((11, "11".to_owned()), (json["body"].as_u64().unwrap(), variable(&json, "CONTENT_LENGTH")));
}

#[test]
fn a_reload_takes_over_every_key() {
    let PhpSite { larder, .. } = &site_with(1, "env = { APP = \"1\" }", "");
    assert_eq!("1", variable(&told(&larder.get("/env.php")), "APP"));
    let text = std::fs::read_to_string(larder.config()).unwrap();
    let text = text
        .replace("APP = \"1\" }", "APP = \"2\" }, front_controller = \"off\", application_root = \"/none\"");
    std::fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    until("the change is there", || (0..8).all(|_| larder.get("/nothing").status == 404));
    // php-fpm does not find the script at that path.
    assert_eq!(404, larder.get("/env.php").status);
    let text =
        std::fs::read_to_string(larder.config()).unwrap().replace(", application_root = \"/none\"", "");
    std::fs::write(larder.config(), text).unwrap();
    larder.signal(libc::SIGHUP);
    until("the variable is the new one", || {
        let answer = larder.get("/env.php");
        answer.status == 200 && variable(&told(&answer), "APP") == "2"
    });
}

/// `index index.php index.html;` of nginx: the source of the script is not sent.
#[test]
fn an_index_that_is_a_script() {
    let PhpSite { larder, .. } = &site_with(1, "", "files = { index = [\"index.php\", \"index.html\"] }");
    assert_eq!("/admin/index.php -", script(&larder.get("/admin/")));
    assert_eq!("/index.php -", script(&larder.get("/")));
    assert_eq!("docs, a file", larder.get("/docs/").text());
    assert_eq!(Some("/admin/?a"), larder.get("/admin?a").field("location"));
}

/// A script that appears, or is replaced by a directory, is seen within `files.cache_for`.
#[test]
fn new_and_removed_scripts() {
    let PhpSite { larder, folder, .. } = &site_with(1, "", "files = { cache_for = \"0s\" }");
    let path = folder.path().join("new.php");
    assert_eq!("/index.php -", script(&larder.get("/new.php")));
    std::fs::write(&path, ENV).unwrap();
    assert_eq!("/new.php /a", script(&larder.get("/new.php/a")));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!("/index.php -", script(&larder.get("/new.php")));
    // Another name: php-fpm remembers that this one was a file.
    let other = folder.path().join("other.php");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("index.php"), ENV).unwrap();
    assert_eq!("/other.php/index.php -", script(&larder.get("/other.php/")));
}
