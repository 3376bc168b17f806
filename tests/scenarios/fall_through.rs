//! Routes over files whose other paths belong to the next route (`files.fall_through`): the choice at both speeds and over both
//! protocols, new and removed files, access rules of both routes, and paths that attack it.

use crate::harness::{Larder, Origin, command, http2, until};
use std::path::Path;

const SECRET: &str = "not for visitors";

fn build(root: &Path) {
    for (name, text) in [
        ("a.txt", "a file"),
        ("about.html", "about, a file"),
        ("docs/index.html", "docs, a file"),
        ("bare/x.txt", "x"),
        ("with space.txt", "space, a file"),
        (".env", SECRET),
        (".git/config", SECRET),
    ] {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// An application that names its request; pages below `/stored` may be stored.
fn application() -> Origin {
    Origin::new(|it| {
        let kept = if it.target().contains("stored") { "max-age=600" } else { "no-store" };
        format!(
            "HTTP/1.1 200 OK\nCache-Control: {kept}\nContent-Type: text/plain\n\napplication: {}",
            it.line()
        )
    })
}

struct FileSite {
    folder: tempfile::TempDir,
    origin: Origin,
    larder: Larder,
}

/// A directory before an application; more keys of both routes.
fn site(files: &str, first: &str, second: &str) -> FileSite {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let origin = application();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\nname = \"public\"\nfiles = {{ root = {:?}, fall_through = true, {files} }}\n{first}\n\
         [[site.route]]\nname = \"app\"\nproxy = {{ to = [\"{}\"] }}\n{second}\n",
        folder.path(),
        origin.url()
    ));
    FileSite { folder, origin, larder }
}

/// Both protocols, twice each: from the disk, and from what is remembered.
#[track_caller]
fn check(larder: &Larder, method: &str, target: &str, status: u16, expect: &str) {
    let mut first = larder.client();
    for _ in 0..2 {
        let one = first.request(method, target, "", "");
        let text = one.field("location").map_or_else(|| one.text(), str::to_owned);
        assert!(one.status == status && text.contains(expect), "HTTP/1.1 {method} {target}: {one:?}");
        let mut second = http2::Http2::connect(larder);
        let id = second.head(&http2::request(method, target, &[]), http2::END_STREAM);
        let two = second.answer(id);
        let text = two.field("location").map_or_else(|| two.text(), str::to_owned);
        assert!(two.status == status && text.contains(expect), "HTTP/2 {method} {target}: {two:?}");
    }
}

#[test]
fn a_file_or_the_application() {
    let FileSite { larder, .. } = &site("", "", "");
    check(larder, "GET", "/a.txt", 200, "a file");
    check(larder, "GET", "/a.txt?query", 200, "a file");
    check(larder, "GET", "/with%20space.txt", 200, "space, a file");
    check(larder, "GET", "/none", 200, "application: GET /none HTTP/1.1");
    check(larder, "GET", "/none?q=1", 200, "application: GET /none?q=1");
    check(larder, "GET", "/", 200, "application: GET / ");
    check(larder, "GET", "/docs/", 200, "docs, a file");
    check(larder, "GET", "/docs", 301, "/docs/");
    check(larder, "GET", "/bare/", 200, "application: GET /bare/ ");
    check(larder, "GET", "/bare", 200, "application: GET /bare ");
    check(larder, "GET", "/a.txt/", 200, "application: GET /a.txt/ ");
    check(larder, "GET", "/a.txt/more", 200, "application: GET /a.txt/more ");
    check(larder, "HEAD", "/none", 200, "");
    for target in ["/.env", "/.git/config", "/%2eenv"] {
        check(larder, "GET", target, 200, "application: GET");
    }
    let head = larder.client().request("HEAD", "/a.txt", "", "");
    assert_eq!((200, Some("6")), (head.status, head.field("content-length")));
}

#[test]
fn other_methods_are_for_the_application() {
    let FileSite { larder, .. } = &site("", "", "");
    for target in ["/form", "/a.txt"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
            check(larder, method, target, 200, &format!("application: {method} {target}"));
        }
    }
}

#[test]
fn clean_urls_and_members_come_first() {
    let keys = "try = [\"{path}\", \"{path}.html\", \"/docs{path}/index.html\"], clean_urls = true";
    let FileSite { larder, .. } = &site(keys, "", "");
    check(larder, "GET", "/about", 200, "about, a file");
    check(larder, "GET", "/about.html", 301, "/about");
    check(larder, "GET", "/about/", 301, "/about");
    check(larder, "GET", "/none.html", 200, "application: GET /none.html");
    let FileSite { larder, .. } = &site("strip = \"/static\"", "path = \"/static/*\"", "");
    check(larder, "GET", "/static/a.txt", 200, "a file");
    check(larder, "GET", "/static/none", 200, "application: GET /static/none");
    check(larder, "GET", "/static/", 200, "application: GET /static/ ");
    let FileSite { larder, .. } = &site("listing = true", "", "");
    check(larder, "GET", "/bare/", 200, "x.txt");
    check(larder, "GET", "/bare", 301, "/bare/");
}

/// A page of the application is a hit at the fast speed, without a look on the disk.
#[test]
fn a_cached_page_is_a_hit() {
    let FileSite { larder, origin, .. } = &site("cache_for = \"1h\"", "", "");
    let mut client = larder.client();
    client.get("/stored/a");
    let looks = larder.counter("files_loads");
    for _ in 0..50 {
        let page = client.get("/stored/a");
        assert!(page.is_hit(), "{page:?}");
    }
    assert_eq!((1, looks), (origin.requests(), larder.counter("files_loads")));
    let mut second = http2::Http2::connect(larder);
    assert_eq!("application: GET /stored/a HTTP/1.1", second.get("/stored/a").text());
    // Spellings of one path: each finds the page.
    for target in ["/stored/%61", "/stored/../stored/a", "/./stored/a"] {
        assert_eq!(200, client.get(target).status, "{target}");
    }
}

#[test]
fn a_new_file_appears_and_a_removed_one_goes() {
    let FileSite { larder, folder, .. } = &site("cache_for = \"10s\"", "", "");
    larder.hold();
    check(larder, "GET", "/stored/new.txt", 200, "application");
    std::fs::create_dir(folder.path().join("stored")).unwrap();
    std::fs::write(folder.path().join("stored/new.txt"), "new, a file").unwrap();
    check(larder, "GET", "/stored/new.txt", 200, "application");
    larder.pass(10_000);
    check(larder, "GET", "/stored/new.txt", 200, "new, a file");
    std::fs::remove_file(folder.path().join("stored/new.txt")).unwrap();
    larder.pass(10_000);
    check(larder, "GET", "/stored/new.txt", 200, "application");
    // In the second half of the time one request looks, so that a busy path never waits.
    std::fs::write(folder.path().join("stored/new.txt"), "again, a file").unwrap();
    larder.pass(6000);
    let mut client = larder.client();
    until("the file is seen early", || client.get("/stored/new.txt").text().contains("again, a file"));
    // With zero every request looks.
    let FileSite { larder, folder, .. } = &site("cache_for = \"0s\"", "", "");
    check(larder, "GET", "/new.txt", 200, "application");
    std::fs::write(folder.path().join("new.txt"), "new, a file").unwrap();
    check(larder, "GET", "/new.txt", 200, "new, a file");
}

/// Random paths take no memory of their own, and leave the files open.
#[test]
fn random_paths_evict_no_file() {
    let FileSite { larder, .. } = &site("cache_for = \"1h\"", "", "");
    let mut client = larder.client();
    client.get("/a.txt");
    client.get("/none");
    let files = larder.memory("server", "files");
    for at in 0..3000 {
        assert_eq!(200, client.get(&format!("/random/{at}")).status);
    }
    assert_eq!(files, larder.memory("server", "files"));
    let looks = larder.counter("files_loads");
    assert_eq!("a file", client.get("/a.txt").text());
    assert_eq!((looks, 0), (larder.counter("files_loads"), larder.counter("files_evictions")));
}

/// Rules of the first route are for its files, those of the second for every path that reaches the application.
#[test]
fn no_path_gets_past_the_access_rules() {
    let deny = "access.deny_when = 'header.x-blocked == \"1\"'";
    let FileSite { larder, origin, .. } = &site("", deny, deny);
    let blocked = "X-Blocked: 1\r\n";
    for target in ["/a.txt", "/docs", "/none", "/.env", "/a%2ftxt", "//a.txt", "/none/../a.txt"] {
        for _ in 0..2 {
            let refused = larder.client().get_with(target, blocked);
            assert!(matches!(refused.status, 400 | 403), "{target}: {refused:?}");
        }
        larder.get(target);
        assert_eq!(403, larder.client().get_with(target, blocked).status, "{target}: also once it is known");
    }
    assert!(
        origin.received().iter().all(|it| it.field("x-blocked").is_none()),
        "nothing reached the application"
    );
    // Rules of the application alone.
    let FileSite { larder, .. } = &site("", "", deny);
    assert_eq!("a file", larder.client().get_with("/a.txt", blocked).text());
    assert_eq!(403, larder.client().get_with("/stored", blocked).status);
    larder.get("/stored");
    assert_eq!(403, larder.client().get_with("/stored", blocked).status);
    assert_eq!(403, larder.client().request("POST", "/a.txt", blocked, "x").status);
}

#[test]
fn a_limit_of_the_site_counts_a_request_once() {
    let limit = "access.limit = { rate = \"1/h\", burst = 3 }";
    let FileSite { larder, .. } = &site("", limit, limit);
    let mut client = larder.client();
    let all: Vec<u16> = (0..6).map(|at| client.get(&format!("/none/{at}")).status).collect();
    let expect = all.iter().filter(|it| **it == 200).count();
    assert!((3..=4).contains(&expect) && all[expect..].iter().all(|it| *it == 429), "{all:?}");
}

/// Paths with two interpretations are judged by the routes that remain.
#[test]
fn odd_paths_do_not_reach_a_protected_route() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let origin = application();
    let to = origin.url();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\npath = \"/admin/*\"\nproxy = {{ to = [\"{to}\"] }}\naccess.deny = [\"0.0.0.0/0\"]\n\
         [[site.route]]\nfiles = {{ root = {:?}, fall_through = true }}\n\
         [[site.route]]\nproxy = {{ to = [\"{to}\"] }}\n",
        folder.path(),
    ));
    for target in [
        "/admin/x",
        "/x/../admin/x",
        "/x/..%2fadmin/x",
        "/admin%2fx",
        "/%61dmin/x",
        "//admin/x",
        "/x/%2e%2e/admin/x",
        "/admin",
    ] {
        for _ in 0..2 {
            let answer = larder.get(target);
            assert!(matches!(answer.status, 301 | 400 | 403), "{target}: {answer:?}");
        }
    }
    assert_eq!(0, origin.requests(), "{:?}", origin.received());
    check(&larder, "GET", "/other", 200, "application: GET /other");
}

/// Whatever a path spells, nothing outside of the directory and nothing hidden is disclosed.
#[test]
fn attacks_find_no_file() {
    let FileSite { larder, folder, .. } = &site("compress = true", "", "");
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out.txt")).unwrap();
    for target in super::files_attacks::TARGETS {
        for _ in 0..2 {
            let mut client = larder.client();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let it = client.read();
            let text = it.text();
            assert!(!text.contains(SECRET) && !text.contains("root:"), "{target}: {it:?}");
            assert!(it.complete && it.status != 500, "{target}: {it:?}");
        }
    }
    check(larder, "GET", "/out.txt", 200, "application");
}

/// Several directories one after the other, and a purge of a page behind them.
#[test]
fn two_directories_and_a_purge() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(one.path().join("1.txt"), "the first").unwrap();
    std::fs::write(two.path().join("2.txt"), "the second").unwrap();
    let origin = application();
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n\
         [[site.route]]\nfiles = {{ root = {:?}, fall_through = true }}\n\
         [[site.route]]\nfiles = {{ root = {:?}, fall_through = true }}\n\
         [[site.route]]\nproxy = {{ to = [\"{}\"] }}\ncache.purge.method = true\n",
        one.path(),
        two.path(),
        origin.url()
    ));
    check(&larder, "GET", "/1.txt", 200, "the first");
    check(&larder, "GET", "/2.txt", 200, "the second");
    check(&larder, "GET", "/stored", 200, "application: GET /stored");
    assert_eq!(1, origin.requests());
    assert_eq!(200, larder.client().request("PURGE", "/stored", "", "").status);
    check(&larder, "GET", "/stored", 200, "application: GET /stored");
    assert_eq!(2, origin.requests());
    // An unsafe method removes the page, as without the directories.
    larder.client().request("POST", "/stored", "", "x");
    assert!(!larder.get("/stored").is_hit());
}

#[test]
fn explain_tells_both_steps() {
    let FileSite { larder, folder, .. } = &site("", "", "");
    larder.get("/stored");
    let run = |target: &str| {
        let url = format!("http://{}{target}", larder.address);
        let admin = larder.admin.to_string();
        let ended = command::run(folder.path(), &["explain", &url, "--admin", &admin]);
        format!("{}{}", ended.out, ended.err)
    };
    let output = run("/stored");
    assert!(output.contains("app") && output.contains("its directory has no file for the path"), "{output}");
    let output = run("/a.txt");
    assert!(output.contains("public") && output.contains("The file a.txt answers"), "{output}");
}
