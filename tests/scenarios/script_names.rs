//! Statement 26, through the binary: no source of a script leaves as text, whatever name, symbolic link, route or field asks for it.

use crate::harness::http2::Http2;
use crate::harness::{Larder, Origin, until};
use std::os::unix::fs::symlink;
use std::path::Path;

const SECRET: &str = "the password of the database";

/// Files with the source of a script, or a password, as targets.
const SOURCES: &[&str] = &[
    "/a.php",
    "/A.PHP",
    "/a.php7",
    "/a.phtml",
    "/a.php.br",
    "/a.php.zst",
    "/a.php.gz",
    "/a.php.",
    "/a.php%20",
    "/a.php~",
    "/a.php-1",
    "/a.php.1",
    "/a.PhP.BaK",
    "/a.php.txt",
    "/a.php.TXT",
    "/a%20(copy).php.txt",
    "/a.php%20(1).txt",
    "/a.php.zip",
    "/dir/a.php.old",
    "/.htpasswd",
    "/.h/x.php",
];

/// Links to them, with harmless names.
const LINKS: &[(&str, &str)] = &[
    ("a.php", "link.txt"),
    ("A.PHP", "upper.html"),
    ("a.php.1", "copy.css"),
    (".htpasswd", "password.txt"),
    (".h/x.php", "hidden.txt"),
    ("link.txt", "chain"),
    ("../a.php", "dir/up.txt"),
    ("a.php", "shown.txt.br"),
    ("a.php", "404.html"),
    ("a.php", "pages/index.html"),
    ("a.php", "extension.html"),
];

/// Files that are served, with their text.
const SERVED: &[(&str, &str)] = &[
    ("/index.php.html", "exported"),
    ("/logo.php.svg", "<svg/>"),
    ("/shown.txt", "shown"),
    ("/current/page.txt", "deployed"),
    ("/page.txt", "deployed"),
];

fn build(root: &Path) {
    let write = |name: &str, text: &str| {
        let path = root.join(name.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for target in SOURCES {
        write(&target.replace("%20", " "), SECRET);
    }
    write(".releases/5/page.txt", "deployed");
    write("pages/a.txt", "a");
    for (target, text) in &SERVED[..3] {
        write(target, text);
    }
    for (to, name) in LINKS.iter().chain(&[(".releases/5", "current"), ("current/page.txt", "page.txt")]) {
        symlink(to, root.join(name)).unwrap();
    }
}

/// The directory with these keys of `files`, before an application whose only page is `the application`.
fn serve(files: &str) -> (tempfile::TempDir, Larder, Origin) {
    let (folder, origin) =
        (tempfile::tempdir().unwrap(), Origin::new(|_| "HTTP/1.1 200 OK\n\nthe application".into()));
    build(folder.path());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nfiles = {{ root = {:?}, {files} }}\n\
         [[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        folder.path(),
        origin.url()
    );
    (folder, Larder::configured(config), origin)
}

fn targets() -> impl Iterator<Item = String> {
    let links = LINKS.iter().filter(|it| !it.1.starts_with("shown.txt"));
    SOURCES.iter().map(|it| (*it).to_owned()).chain(links.map(|it| format!("/{}", it.1)))
}

/// Every target by every method and field, twice, so that the second one may come from memory.
fn discloses_nothing(larder: &Larder, expect: u16) {
    let requests = [
        ("GET", ""),
        ("GET", ""),
        ("HEAD", ""),
        ("GET", "If-None-Match: *\r\n"),
        ("GET", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n"),
        ("GET", "Range: bytes=0-10\r\n"),
        ("GET", "Accept: text/html\r\n"),
        ("GET", "Accept-Encoding: br, zstd, gzip\r\n"),
    ];
    let mut second = Http2::connect(larder);
    for target in targets() {
        for (method, fields) in requests {
            let it = larder.client().request(method, &target, fields, "");
            assert_eq!(expect, it.status, "{method} {target} {fields}: {it:?}");
            assert!(!it.text().contains("password"), "{method} {target} {fields}: {it:?}");
        }
        let it = second.get(&target);
        assert!(!it.text().contains("password"), "{target}: {}", it.text());
    }
}

fn serves(larder: &Larder) {
    for (target, text) in SERVED {
        let it = larder.client().get_with(target, "Accept-Encoding: br\r\n");
        assert_eq!((200, *text), (it.status, &*it.text()), "{target}");
    }
}

#[test]
fn no_source_leaves_as_text() {
    let (_folder, larder, _origin) = serve("listing = true, not_found = \"404.html\"");
    discloses_nothing(&larder, 404);
    serves(&larder);
    for target in ["/", "/dir/", "/.h/"] {
        let it = larder.get(target);
        assert!(!it.text().contains("a.php") && !it.text().contains("link.txt"), "{target}: {}", it.text());
    }
    assert!(larder.get("/").text().contains("logo.php.svg"));
}

#[test]
fn no_member_of_a_list_leads_to_a_source() {
    let (_folder, larder, _origin) =
        serve("try = [\"{path}\", \"{path}.html\", \"{path}/index.html\", \"/link.txt\"], clean_urls = true");
    discloses_nothing(&larder, 404);
    for target in ["/extension", "/upper", "/pages", "/pages/", "/none"] {
        let it = larder.get(target);
        assert!(matches!(it.status, 301 | 404) && !it.text().contains(SECRET), "{target}: {it:?}");
    }
    serves(&larder);
}

#[test]
fn the_next_route_has_the_path_of_a_source() {
    let (folder, larder, _origin) = serve("fall_through = true");
    for target in targets() {
        assert_eq!("the application", larder.get(&target).text(), "{target}");
    }
    serves(&larder);
    // A file that becomes a link to a script within a second.
    std::fs::remove_file(folder.path().join("shown.txt")).unwrap();
    symlink("a.php", folder.path().join("shown.txt")).unwrap();
    until("the change is seen", || {
        let text = larder.get("/shown.txt").text();
        assert!(!text.contains(SECRET), "{text}");
        text == "the application"
    });
}
