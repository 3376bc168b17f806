//! PHP sites (`php`) with a real php-fpm: the script of a path, its variables, attacks on paths, files that answer first, bodies,
//! the cache, and failures of php-fpm.

mod beside;
mod failures;
mod keys;
mod killed_workers;
mod paths;
mod uploads;
mod webdav;

use crate::harness::command::run;
use crate::harness::php::PhpFpm;
use crate::harness::{Larder, Response, http2, until};
use serde_json::Value;
use std::path::Path;

/// Not for clients.
const SECRET: &str = "the password of the database";

const ENV: &str = include_str!("../apps/env.php");

/// A site: scripts that name themselves and their variables, and files.
fn build(root: &Path) {
    let source = format!("<?php /* {SECRET} */ ?>");
    let page = format!("{source}{ENV}");
    for (name, text) in [
        ("index.php", &*page),
        ("env.php", &page),
        ("admin/index.php", &page),
        ("docs/index.html", "docs, a file"),
        ("style.css", "body {}"),
        ("bare/a.txt", "a file"),
        ("named.php/a.txt", "a file"),
        ("named.php/config.php", &source),
        ("pages.php/index.html", "an index"),
        ("upload/x.jpg", &page),
        ("upload/x.php.jpg", &page),
        (".git/hook.php", &page),
        (".env", SECRET),
        ("config.phtml", &source),
        ("lib.phar", &source),
        ("UPPER.PHP", &source),
        ("config.php.bak", &source),
        ("config.php~", &source),
        ("#config.php#", &source),
        ("config.php_old", &source),
        ("config.php.save.1", &source),
        ("config.phps", &source),
        ("config.php.txt", &source),
        ("config.php.br", &source),
        ("config.php.", &source),
        ("config.php ", &source),
        ("config.php-1", &source),
    ] {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

struct PhpSite {
    folder: tempfile::TempDir,
    fpm: PhpFpm,
    larder: Larder,
}

/// A site with more keys of `php`, and more lines of its route and file.
fn site_with(children: usize, php: &str, more: &str) -> PhpSite {
    let (folder, fpm) = (tempfile::tempdir().unwrap(), PhpFpm::start(children));
    build(folder.path());
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nname = \"shop\"\n\
         php = {{ root = {:?}, to = {:?}, {php} }}\n{more}\n",
        folder.path(),
        fpm.name()
    ));
    PhpSite { folder, fpm, larder }
}

fn site() -> PhpSite {
    site_with(2, "", "")
}

fn told(answer: &Response) -> Value {
    assert_eq!(200, answer.status, "{answer:?}");
    serde_json::from_str(&answer.text()).unwrap_or_else(|it| panic!("{it}: {}", answer.text()))
}

/// A variable; `-` where it is not set.
fn variable(report: &Value, name: &str) -> String {
    report["server"][name].as_str().unwrap_or("-").to_owned()
}

/// `SCRIPT_NAME PATH_INFO` of the script that answers.
fn script(answer: &Response) -> String {
    let report = told(answer);
    format!("{} {}", variable(&report, "SCRIPT_NAME"), variable(&report, "PATH_INFO"))
}

#[test]
fn files_scripts_and_the_front_controller() {
    let PhpSite { larder, folder, .. } = &site();
    for (target, expect) in [
        ("/", "/index.php -"),
        ("/env.php", "/env.php -"),
        ("/env.php/a%20b/c?x=1", "/env.php /a b/c"),
        ("/env.php/", "/env.php /"),
        ("/admin/", "/admin/index.php -"),
        ("/2026/a-post/", "/index.php -"),
        ("/none.php", "/index.php -"),
        ("/bare/", "/index.php -"),
    ] {
        assert_eq!(expect, script(&larder.get(target)), "{target}");
        let mut second = http2::Http2::connect(larder);
        let id = second.head(&http2::request("GET", target, &[]), http2::END_STREAM);
        let json: Value = serde_json::from_str(&second.answer(id).text()).unwrap();
        assert_eq!(expect.split(' ').next().unwrap(), variable(&json, "SCRIPT_NAME"), "HTTP/2 {target}");
    }
    let answer = told(&larder.get("/env.php/a%20b?x=%31"));
    let of = |name: &str| variable(&answer, name);
    let root = folder.path().canonicalize().unwrap().display().to_string();
    assert_eq!(format!("{root}/env.php"), of("SCRIPT_FILENAME"));
    assert_eq!(root, of("DOCUMENT_ROOT"));
    assert_eq!(["/env.php/a%20b?x=%31", "x=%31"], [&*of("REQUEST_URI"), &of("QUERY_STRING")]);
    assert_eq!("/env.php/a b", of("PHP_SELF"));
    assert_eq!("docs, a file", larder.get("/docs/").text());
    assert_eq!("body {}", larder.get("/style.css").text());
    assert_eq!("/index.php -", script(&larder.client().request("POST", "/style.css", "", "a=b")));
}

/// A directory may have the name of a script. What lies behind the name of a script is no file.
#[test]
fn files_below_a_directory_named_like_a_script() {
    let PhpSite { larder, .. } = &site();
    for (target, text) in [
        ("/named.php/a.txt", "a file"),
        ("/named%2ephp/a%2Etxt", "a file"),
        ("/pages.php/", "an index"),
        ("/pages.php/index.html", "an index"),
    ] {
        let it = larder.get(target);
        assert_eq!((200, text), (it.status, &*it.text()), "{target}");
    }
    for (target, expect) in [
        ("/env.php/a.txt", "/env.php /a.txt"),
        ("/env.php/", "/env.php /"),
        ("/named.php", "/index.php -"),
        ("/named.php/", "/index.php -"),
        ("/named.php/none.txt", "/index.php -"),
        ("/named.php/.git", "/index.php -"),
    ] {
        assert_eq!(expect, script(&larder.get(target)), "{target}");
    }
    let source = larder.get("/named.php/config.php");
    assert_eq!((200, ""), (source.status, &*source.text()), "it ran");
}

#[test]
fn a_directory_gets_its_slash() {
    let PhpSite { larder, .. } = &site();
    for (method, status) in [("GET", 301), ("HEAD", 301), ("POST", 308), ("PROPFIND", 308)] {
        let answer = larder.client().request(method, "/admin?a=b", "", "");
        assert_eq!((status, Some("/admin/?a=b")), (answer.status, answer.field("location")), "{method}");
    }
    assert_eq!(Some("/docs/"), larder.get("/docs").field("location"));
    assert_eq!("/index.php -", script(&larder.get("/bare")));
}

/// `docs/guide/coming-from.md`: sites of one WordPress in subdirectories need no `rewrite … last`.
#[test]
fn a_subdirectory_that_is_a_link_to_the_root() {
    let PhpSite { larder, folder, .. } = &site();
    std::os::unix::fs::symlink(".", folder.path().join("second")).unwrap();
    assert_eq!("body {}", larder.get("/second/style.css").text());
    assert_eq!("/second/admin/index.php -", script(&larder.get("/second/admin/")));
    assert_eq!("/index.php -", script(&larder.get("/second/a/page/")));
}

#[test]
fn other_front_controllers() {
    let PhpSite { larder, .. } = &site_with(1, "front_controller = \"off\"", "");
    assert_eq!([404, 404, 200], ["/none", "/none.php", "/"].map(|it| larder.get(it).status));
    assert_eq!(404, larder.client().request("POST", "/none", "", "a=b").status);
    let PhpSite { larder, .. } = &site_with(1, "front_controller = \"/admin/index.php\"", "");
    assert_eq!("/admin/index.php -", script(&larder.get("/none")));
}

#[test]
fn variables_of_the_operator_and_a_root_in_a_container() {
    let elsewhere = tempfile::tempdir().unwrap();
    build(elsewhere.path());
    let root = elsewhere.path().display();
    let php = format!(
        "application_root = \"{root}/\", env = {{ APP_ENV = \"test\", HTTPS = \"on\", \
         TENANT = \"{{{{of}}}} {{host}} {{path}}\", NOT_OF_THE_KEY = \"{{header.x-in}}\" }}"
    );
    let PhpSite { larder, folder, .. } = &site_with(1, &php, "");
    let answer = told(&larder.client().get_with("/env.php", "X-In: in\r\n"));
    let tenant = ["TENANT", "NOT_OF_THE_KEY", "HTTP_X_IN"].map(|it| variable(&answer, it));
    assert_eq!(["{of} h /env.php", "-", "in"], tenant);
    assert_eq!(format!("{root}/env.php"), answer["file"].as_str().unwrap());
    assert_eq!(root.to_string(), variable(&answer, "DOCUMENT_ROOT"));
    assert_eq!(["test", "on"], ["APP_ENV", "HTTPS"].map(|it| variable(&answer, it)));
    assert!(!answer.to_string().contains(folder.path().to_str().unwrap()));
}

#[test]
fn bodies_reach_php_whole() {
    let PhpSite { larder, .. } = &site();
    let long = "x".repeat(300_000);
    let chunks: String = [100_000; 3].map(|it| format!("{it:x}\r\n{}\r\n", "x".repeat(it))).concat();
    let sized = format!("Content-Length: 300000\r\n\r\n{long}");
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    for framing in [sized, chunked] {
        let mut client = larder.client();
        client.send(format!("PUT /env.php HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\n{framing}"));
        let answer = told(&client.read());
        assert_eq!(300_000, answer["body"]);
        assert_eq!(["300000", "a/b"], ["CONTENT_LENGTH", "CONTENT_TYPE"].map(|it| variable(&answer, it)));
    }
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let answer = told(&larder.client().request("POST", "/env.php", form, "a=1&b%5B%5D=2"));
    assert_eq!(serde_json::json!({ "a": "1", "b": ["2"] }), answer["post"]);
    let part = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\n";
    let body = format!("{part}{long}\r\n--x--\r\n");
    let upload = "Content-Type: multipart/form-data; boundary=x\r\n";
    let answer = told(&larder.client().request("POST", "/env.php", upload, &body));
    assert_eq!(300_000, answer["files"]["f"]["size"], "{answer}");
}

/// A page that was stored is a hit, also when its script is gone: nothing is looked up.
#[test]
fn a_page_is_cached_like_any_other() {
    let PhpSite { larder, folder, .. } = &site();
    let target = "/env.php?cache=max-age%3D60";
    let first = larder.get(target);
    assert!(!first.is_hit());
    std::fs::remove_file(folder.path().join("env.php")).unwrap();
    let again = larder.get(target);
    assert!(again.is_hit() && again.text() == first.text(), "{again:?}");
    assert!(larder.client().request("HEAD", target, "", "").is_hit());
}

#[test]
fn error_output_is_in_the_log() {
    let PhpSite { larder, folder, .. } = &site_with(1, "", "[log]\naccess = \"off\"\nerror = \"error.log\"");
    std::fs::write(folder.path().join("warn.php"), "<?php error_log('something odd'); echo 'page';").unwrap();
    assert_eq!("page", larder.get("/warn.php").text());
    let log = || larder.error_log();
    until("the error output is logged", || log().contains("something odd"));
    assert!(log().contains("application-stderr"), "{}", log());
}

#[test]
fn access_rules_hold_for_files_and_scripts() {
    let PhpSite { larder, .. } = &site_with(1, "", "access = { deny = [\"127.0.0.1\"] }");
    for target in ["/style.css", "/env.php", "/", "/none", "/docs", "/admin"] {
        for method in ["GET", "POST"] {
            assert_eq!(403, larder.client().request(method, target, "", "").status, "{method} {target}");
        }
    }
    // The limit counts a request once, in either half.
    let limit = "access = { limit = { rate = \"1/h\", burst = 2 } }";
    let PhpSite { larder, .. } = &site_with(1, "", limit);
    let statuses = ["/style.css", "/env.php", "/style.css", "/env.php", "/style.css", "/env.php"];
    let refused = statuses.map(|it| larder.get(it).status).iter().filter(|it| **it == 429).count();
    assert_eq!(3, refused, "three of six are within the limit");
}

#[test]
fn keys_of_files_and_proxy_refine_it() {
    let more = "files = { cache_control = \"max-age=9\", index = [\"a.txt\"] }\nproxy = { health = { path = \"/ping\", body = \"pong\", interval = \"20ms\" } }";
    let PhpSite { larder, .. } = &site_with(1, "", more);
    assert_eq!(Some("max-age=9"), larder.get("/style.css").field("cache-control"));
    assert_eq!("a file", larder.get("/bare/").text());
    until("the health check was sent", || larder.counter("origin_health_checks") >= 3);
    assert_eq!(0, larder.counter("origin_health_failures"));
    assert_eq!(200, larder.get("/env.php").status);
}

#[test]
fn explain_names_the_script() {
    let PhpSite { larder, .. } = &site();
    for (target, verdict, expect) in [
        ("/env.php/a", "miss", "PATH_INFO /a"),
        ("/none", "miss", "the path names no script"),
        ("/admin/", "miss", "the script of the directory"),
        ("/admin", "redirect", "redirected to /admin/"),
        ("/env.php%00", "refused", "no script: 400"),
        ("/style.css", "file", "site.route.php.root"),
    ] {
        let question = format!("{{\"url\": \"http://a{target}\"}}");
        let answer = larder.admin_post("/api/v1/explain", &question).text();
        let json: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(verdict, json["verdict"]["name"], "{target}: {answer}");
        assert!(answer.contains(expect), "{target}: {answer}");
        let place = json["script"]["where"].as_str().or(json["file"]["where"].as_str()).unwrap();
        assert!(place.contains("larder.toml:"), "{target}: {answer}");
    }
}

#[test]
fn check_names_both_halves() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("www")).unwrap();
    let text = "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nphp = { root = \"www\", to = \"127.0.0.1:9000\" }\n";
    std::fs::write(folder.path().join("larder.toml"), text).unwrap();
    let ended = run(folder.path(), &["check", "-c", "larder.toml"]);
    assert_eq!(0, ended.code, "{ended:?}");
    assert!(ended.out.contains("files ") && ended.out.contains("php fastcgi://127.0.0.1:9000"), "{ended:?}");
    assert!(format!("{ended:?}").contains("has no /index.php"), "{ended:?}");
}
