//! No source of a PHP script leaves as text: by its own name, by that of a copy, or through a symbolic link with another name.

mod support;

use larder_files::{Listing, NotServed, RootOptions, SymlinkPolicy, TryMember};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use support::{SECRET, Site};

/// Links to what is refused under its own name. The first text is the target.
const REFUSED: [(&str, &str); 13] = [
    ("a.php", "script.txt"),
    ("A.PHP", "upper.txt"),
    ("a.php.bak", "copy.html"),
    (".htpasswd", "password.txt"),
    (".h/x.php", "hidden.txt"),
    ("a.php", "chain-1"),
    ("chain-1", "chain-2.txt"),
    ("../a.php", "dir/up.txt"),
    ("dir/up.txt", "down.txt"),
    ("linked/../a.php", "way.txt"),
    ("a.php", "b.txt.br"),
    (".htpasswd", "b.txt.gz"),
    ("a.php", "dir/index.html"),
];

/// Links that a deployment makes.
const SERVED: [(&str, &str); 6] = [
    (".releases/5", "current"),
    ("current/page.txt", "page.txt"),
    (".releases/5/page.txt", "direct.txt"),
    (".step", "twice.txt"),
    ("current/page.txt", ".step"),
    ("dir", "linked"),
];

fn site(options: RootOptions) -> Site {
    let site = Site::with(
        options,
        &[
            ("a.php", SECRET),
            ("A.PHP", SECRET),
            ("a.php.bak", SECRET),
            (".htpasswd", SECRET),
            (".h/x.php", SECRET),
            ("b.txt", "b"),
            ("dir/c.txt", "c"),
            (".releases/5/page.txt", "page"),
        ],
    );
    for (to, name) in REFUSED.into_iter().chain(SERVED) {
        symlink(to, site.path(name)).unwrap();
    }
    site
}

#[track_caller]
fn discloses_nothing(site: &Site) {
    for (_, name) in REFUSED.into_iter().filter(|it| !it.1.starts_with("b.txt")) {
        for request in ["", "\nRange: bytes=0-3", "\nAccept-Encoding: br, gzip", "\nIf-None-Match: *"] {
            let got = site.request(&format!("GET /{name}{request}"));
            assert_eq!(404, got.status, "{name} {request}");
            assert!(!got.text().contains(SECRET), "{name}");
        }
    }
}

#[test]
fn the_name_that_was_opened_is_judged() {
    let site = site(RootOptions::default());
    discloses_nothing(&site);
    for target in ["/page.txt", "/direct.txt", "/twice.txt", "/current/page.txt"] {
        assert_eq!((200, "page".to_owned()), (site.get(target).status, site.get(target).text()), "{target}");
    }
    // A sibling that leads to a script is none.
    for coding in ["br", "gzip"] {
        let got = site.request(&format!("GET /b.txt\nAccept-Encoding: {coding}"));
        assert_eq!((200, "b".to_owned()), (got.status, got.text()));
    }
}

#[test]
fn with_links_that_are_followed_everywhere() {
    let site = site(RootOptions { symlinks: SymlinkPolicy::Anywhere, ..RootOptions::default() });
    fs::write(site.outside().join("x.php"), SECRET).unwrap();
    symlink(site.outside().join("x.php"), site.path("out.txt")).unwrap();
    symlink(site.outside().join("secret"), site.path("shown.txt")).unwrap();
    discloses_nothing(&site);
    assert_eq!(404, site.get("/out.txt").status);
    assert_eq!(200, site.get("/shown.txt").status);
}

#[test]
fn pages_for_every_path_are_judged() {
    let members = vec![TryMember::own(), TryMember::parse("/script.txt").unwrap()];
    let options =
        RootOptions { members, not_found: Some("/password.txt".to_owned()), ..RootOptions::default() };
    let site = site(options);
    discloses_nothing(&site);
    assert_eq!(404, site.get("/none").status);
    assert!(!site.get("/none").text().contains(SECRET));
}

#[test]
fn clean_urls_lead_to_no_script() {
    let members = vec![TryMember::own(), TryMember::suffixed(".html")];
    let site = site(RootOptions { members, clean_urls: true, ..RootOptions::default() });
    site.write("exported.php.html", "exported");
    for target in ["/copy", "/a.php/", "/dir/"] {
        assert_eq!(404, site.get(target).status, "{target}");
    }
    // The page has no other URL, since `/exported.php` is that of a script.
    assert_eq!("exported", site.get("/exported.php.html").text());
}

#[test]
fn listings_contain_only_servable_entries() {
    let site = site(RootOptions { listing: Listing::On, ..RootOptions::default() });
    symlink("b.txt", site.path("name.php")).unwrap();
    site.write("old.php.d/x.txt", "x");
    let listed = site.get("/").text();
    for name in ["page.txt", "b.txt", "current/", "old.php.d/"] {
        assert!(listed.contains(&format!("\"{name}\"")), "{name}: {listed}");
    }
    for name in ["script.txt", "upper.txt", "copy.html", "password.txt", "chain-", "way.txt", ".php\""] {
        assert!(!listed.contains(name), "{name}: {listed}");
    }
    assert_eq!((404, 200), (site.get("/name.php").status, site.get("/old.php.d/x.txt").status));
}

#[test]
fn files_that_an_application_names_are_judged() {
    let site = site(RootOptions::default());
    for (_, name) in REFUSED.into_iter().filter(|it| !it.1.starts_with("b.txt")) {
        let file = site.block_on(site.root.file(format!("/{name}").as_bytes()));
        assert_eq!(Some(NotServed::NotFound), file.err(), "{name}");
    }
    assert!(site.block_on(site.root.file(b"/page.txt")).is_ok());
}

/// Each lookup sees the link before or after the change, and never reads the script.
#[test]
fn a_link_that_changes_during_a_lookup() {
    let site = site(RootOptions { cache_for: Duration::ZERO, ..RootOptions::default() });
    symlink("b.txt", site.path("swapped")).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut names = ["a.php", "b.txt", "page.txt", ".htpasswd"].into_iter().cycle();
            while !ended.load(Relaxed) {
                symlink(names.next().unwrap(), site.path(".new")).unwrap();
                fs::rename(site.path(".new"), site.path("swapped")).unwrap();
            }
        });
        let _end = Enough(&ended);
        let (mut seen, mut at) = ([0; 2], 0);
        while at < 200 || seen.contains(&0) {
            at += 1;
            let got = site.at(at, "GET /swapped");
            match got.status {
                200 => assert!(matches!(got.text().as_str(), "b" | "page"), "{}", got.text()),
                status => assert!(matches!(status, 404 | 503), "{status}"),
            }
            seen[usize::from(got.status == 200)] += 1;
        }
    });
}

/// Ends the other thread, also when the test fails.
struct Enough<'a>(&'a AtomicBool);

impl Drop for Enough<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
