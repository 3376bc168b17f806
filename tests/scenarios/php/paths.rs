//! Attacks on the path of a script, one test for each.

use super::{ENV, PhpSite, SECRET, script, site, told, variable};
use crate::harness::{Larder, Response, http2};
use std::path::Path;

/// The target over HTTP/1.1, and over HTTP/2, whose answer is the same.
fn get(larder: &Larder, target: &str) -> Response {
    let one = larder.get(target);
    let mut second = http2::Http2::connect(larder);
    let id = second.head(&http2::request("GET", target, &[]), http2::END_STREAM);
    let two = second.answer(id);
    assert_eq!(one.status, two.status, "{target} over HTTP/2");
    for text in [one.text(), two.text()] {
        assert!(!text.contains(SECRET), "{target}: {text}");
    }
    one
}

/// The script that answers is the front controller.
#[track_caller]
fn no_script(larder: &Larder, target: &str) {
    assert_eq!("/index.php -", script(&get(larder, target)), "{target}");
}

/// CVE-2019-11043: a line break in the path made `PATH_INFO` empty.
#[test]
fn control_characters_are_refused() {
    let PhpSite { larder, .. } = &site();
    for target in [
        "/env.php%0a",
        "/env.php/%0A",
        "/env.php/a%0d%0ab",
        "/%0a/env.php",
        "/env.php%00",
        "/env.php%00.jpg",
        "/x%00/env.php",
        "/none%7f",
    ] {
        assert_eq!(400, get(larder, target).status, "{target}");
    }
}

/// `PATH_INFO` is unset or begins with a slash, never empty.
#[test]
fn path_info_is_not_empty() {
    let PhpSite { larder, .. } = &site();
    for (target, expect) in [
        ("/env.php", "-"),
        ("/env.php/", "/"),
        ("/env.php?a=/b", "-"),
        ("/env.php//", "/"),
        ("/env.php/.", "/"),
    ] {
        assert_eq!(format!("/env.php {expect}"), script(&get(larder, target)), "{target}");
    }
}

/// php's `cgi.fix_pathinfo` would run the picture.
#[test]
fn an_uploaded_picture_is_never_run() {
    let PhpSite { larder, .. } = &site();
    for target in [
        "/upload/x.jpg/y.php",
        "/upload/x.jpg/.php",
        "/upload/x.jpg%2fy.php",
        "/upload/x.php.jpg/y.php",
        "/upload/x.jpg/",
    ] {
        no_script(larder, target);
    }
    // As a file it is what was uploaded: no script.
    assert_eq!(Some("image/jpeg"), larder.get("/upload/x.jpg").field("content-type"));
}

/// FrankenPHP GHSA-g966-83w7-6w38: the split was found in a lower-cased copy, which is longer.
#[test]
fn the_path_is_split_by_its_own_bytes() {
    let PhpSite { larder, folder, .. } = &site();
    let name = "ȺȺȺȺ.php.html";
    std::fs::write(folder.path().join(name), ENV).unwrap();
    let encoded = "/%C8%BA%C8%BA%C8%BA%C8%BA.php.html";
    assert!(larder.get(encoded).text().starts_with("<?php"), "a page is no script");
    no_script(larder, &format!("{encoded}.php"));
    no_script(larder, "/%C8%BA%C8%BA%C8%BA%C8%BA.php");
    std::fs::write(folder.path().join("Ⱥ.php"), ENV).unwrap();
    assert_eq!("/Ⱥ.php /Ⱥ", script(&get(larder, "/%C8%BA.php/%C8%BA")));
}

#[test]
fn a_path_is_decoded_once() {
    let PhpSite { larder, .. } = &site();
    no_script(larder, "/env%252ephp");
    no_script(larder, "/env.php%253f");
    assert_eq!("/env.php -", script(&get(larder, "/env%2ephp")));
    assert_eq!("/env.php /%2e", script(&get(larder, "/env.php/%252e")));
    assert_eq!("/env.php -", script(&get(larder, "/x/../env.php")));
    assert_eq!("/env.php -", script(&get(larder, "//env.php")));
    assert_eq!("/env.php -", script(&get(larder, "/bare/%2e%2e/env.php")));
}

#[test]
fn sources_are_never_served() {
    let PhpSite { larder, folder, .. } = &site();
    for (to, name) in [
        ("config.phtml", "link.txt"),
        ("env.php", "env.html"),
        (".env", "env.txt"),
        (".git/hook.php", "hook.css"),
        ("env.php", "style.css.br"),
        ("upload/x.jpg", "picture.php"),
    ] {
        std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
    }
    for target in [
        "/link.txt",
        "/env.html",
        "/env.txt",
        "/hook.css",
        "/style.css.br",
        "/picture.php",
        "/config.php.txt",
        "/config.php.br",
        "/config.php.",
        "/config.php%20",
        "/config.php-1",
        "/config.phtml",
        "/lib.phar",
        "/%63onfig.phtml",
        "/config.phtml/",
        "/config.php.bak",
        "/config.php.BAK",
        "/config.php~",
        "/%23config.php%23",
        "/config.php_old",
        "/config.php.save.1",
        "/config.phps",
        "/.env",
        "/.git/hook.php",
        "/.git/hook.php/x",
        "/%2eenv",
        "/bare/../.env",
    ] {
        no_script(larder, target);
    }
    // php-fpm runs `.php` alone (security.limit_extensions).
    assert_eq!(403, get(larder, "/UPPER.PHP").status);
    no_script(larder, "/ENV.PHP");
    no_script(larder, "/Env.php");
    for (method, target) in [("HEAD", "/config.phtml"), ("POST", "/config.phtml"), ("OPTIONS", "/lib.phar")] {
        assert!(!larder.client().request(method, target, "", "").text().contains(SECRET));
    }
    let ranged = larder.client().get_with("/env.php", "Range: bytes=0-20\r\n");
    assert!(!ranged.text().contains("<?php"), "{ranged:?}");
}

#[test]
fn a_script_outside_of_the_root_is_not_run() {
    let PhpSite { larder, folder, .. } = &site();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("evil.php"), "<?php echo 'run';").unwrap();
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
    link(&outside.path().join("evil.php"), "evil.php");
    link(outside.path(), "linked");
    link(Path::new("env.php"), "inside.php");
    let up = "/../".repeat(20);
    for target in ["/evil.php", "/linked/evil.php", &format!("{up}{}/evil.php", outside.path().display())] {
        no_script(larder, target);
    }
    assert_eq!("/inside.php -", script(&get(larder, "/inside.php")));
}

/// httpoxy, and names that are one variable with a field of a proxy.
#[test]
fn fields_that_pose_as_variables() {
    let PhpSite { larder, .. } = &site();
    let lines = "Proxy: http://evil\r\nRemote_User: root\r\nX-Forwarded_For: 1\r\nScript-Name: /x\r\nContent_Length: 9\r\nDocument-Root: /etc\r\n\
                 PHP-Value: a=b\r\nX-Ok: 1\r\n";
    let report = told(&larder.client().get_with("/env.php", lines));
    let names = [
        "HTTP_PROXY",
        "HTTP_REMOTE_USER",
        "REMOTE_USER",
        "CONTENT_LENGTH",
        "PHP_VALUE",
        "HTTP_X_OK",
        "SCRIPT_NAME",
    ];
    assert_eq!(["-", "-", "-", "-", "-", "1", "/env.php"], names.map(|it| variable(&report, it)));
}

/// A query is never an argument (CVE-2012-1823, CVE-2024-4577).
#[test]
fn a_query_is_data() {
    let PhpSite { larder, .. } = &site();
    for query in ["-s", "-d+allow_url_include%3d1", "%ADd+auto_prepend_file=/etc/passwd", "--version"] {
        let answer = get(larder, &format!("/env.php?{query}"));
        assert_eq!("/env.php -", script(&answer));
    }
}
