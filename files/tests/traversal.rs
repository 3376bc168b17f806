//! Nothing outside of the root, nothing hidden and nothing that is no file is ever disclosed,
//! and nothing blocks.

mod support;

use larder_files::{Dotfiles, Listing, RootOptions, SymlinkPolicy};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::Duration;
use support::{SECRET, Site};

/// Raw targets that must not be answered with 2xx. `secret` is next to the root, `.env` inside.
const CORPUS: &[&str] = &[
    "/../secret",
    "/../../../../../../etc/passwd",
    "/dir/../../secret",
    "/%2e%2e/secret",
    "/%2e%2e%2fsecret",
    "/..%2fsecret",
    "/..%2Fsecret",
    "/%2e./secret",
    "/.%2e/secret",
    "/%2E%2E/secret",
    "/dir/%2e%2e/%2e%2e/secret",
    "/%252e%252e/secret",
    "/%252e%252e%252fsecret",
    "/%25252e%25252e/secret",
    "/%c0%ae%c0%ae/secret",
    "/%c0%ae%c0%ae%c0%afsecret",
    "/%e0%80%ae%e0%80%ae/secret",
    "/%f0%80%80%ae%f0%80%80%ae/secret",
    "/%uff0e%uff0e/secret",
    "/%u002e%u002e/secret",
    "/..;/secret",
    "/..;a=b/secret",
    "/dir/..;/..;/secret",
    "/..%3b/secret",
    "/..%00/secret",
    "/a.txt%00.html",
    "/a.txt%00",
    "/%00",
    "/..\\secret",
    "/..%5csecret",
    "/..%5Csecret",
    "/dir\\..\\..\\secret",
    "/..%c1%9csecret",
    "/..%255csecret",
    "\\..\\secret",
    "//secret",
    "//%61.txt",
    "/dir//./b.txt",
    "//etc/passwd",
    "/a.txt/",
    "/a.txt/.",
    "/a.txt/x",
    "/a.txt%2f",
    "/a.txt%20",
    "/a.txt.",
    "/a.txt::$DATA",
    "/a.txt%0a",
    "/a.txt%0d%0aX:y",
    "/%",
    "/%2",
    "/%zz",
    "/a.txt%",
    "/.env",
    "/%2eenv",
    "/.git/config",
    "/.%67it/config",
    "/dir/.hidden",
    "/.well-known/../.env",
    "/.well-known/.secret",
    "/dir/.well-known/x",
    "/...",
    "/....//secret",
    "/....%2f%2fsecret",
    "/~root",
    "/proc/self/environ",
    "/absolute",
    "/absolute-inside",
    "/up",
    "/updir/secret",
    "/loop",
    "/loop1",
    "/loopdir/a",
    "/magic",
    "/fifo",
    "/fifo/",
    "/socket",
    "/null",
    "/link-to-fifo",
    "/dir/%2e%2e%5c%2e%2e%5csecret",
    "a.txt",
    "",
    "*",
    "/a.txt#x",
];

fn site(options: RootOptions) -> Site {
    let site = Site::with(
        options,
        &[
            ("a.txt", "a"),
            ("dir/b.txt", "b"),
            (".env", SECRET),
            (".git/config", SECRET),
            ("dir/.hidden", SECRET),
            (".well-known/acme", "token"),
            (".well-known/.secret", SECRET),
            ("dir/.well-known/x", SECRET),
        ],
    );
    for (to, name) in [
        (site.outside().join("secret").to_str().unwrap(), "absolute"),
        (site.path("a.txt").to_str().unwrap(), "absolute-inside"),
        ("../secret", "up"),
        ("..", "updir"),
        ("loop", "loop"),
        ("loop2", "loop1"),
        ("loop1", "loop2"),
        (".", "loopdir"),
        ("/proc/self/exe", "magic"),
        ("/dev/null", "null"),
        ("fifo", "link-to-fifo"),
        ("dir/b.txt", "inside"),
        ("../a.txt", "dir/up-inside"),
    ] {
        symlink(to, site.path(name)).unwrap();
    }
    fs::remove_file(site.path("loopdir")).unwrap();
    symlink("loopdir/", site.path("loopdir")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, site.path("fifo"), rustix::fs::Mode::RUSR).unwrap();
    drop(UnixListener::bind(site.path("socket")).unwrap());
    site
}

#[track_caller]
fn disclose_nothing(site: &Site) {
    for target in CORPUS {
        for _ in 0..2 {
            let got = site.get(target);
            assert!(matches!(got.status, 400 | 404 | 414), "{target} was answered with {}", got.status);
            assert!(!got.text().contains(SECRET), "{target}");
        }
        let now = site.root.lookup_now(target, &[], larder_stdx::clock::Monotonic(1000));
        assert!(now.is_none(), "{target} is cached");
    }
}

#[test]
fn the_corpus_discloses_nothing() {
    disclose_nothing(&site(RootOptions::default()));
    disclose_nothing(&site(RootOptions { listing: Listing::On, ..RootOptions::default() }));
}

#[test]
fn valid_targets_of_the_corpus_are_served() {
    let site = site(RootOptions::default());
    for (target, expect) in [
        ("/a.txt", "a"),
        ("/%61.txt", "a"),
        ("/a.txt?x=../../secret", "a"),
        ("/dir/b.txt", "b"),
        ("/inside", "b"),
        ("/dir/up-inside", "a"),
        ("/.well-known/acme", "token"),
        ("/dir/../a.txt", "a"),
        ("/dir/%2e%2E/a.txt", "a"),
        ("/absent/../dir/./b.txt", "b"),
        ("/../a.txt", "a"),
        ("/.git/../a.txt", "a"),
    ] {
        let got = site.get(target);
        assert_eq!((200, expect), (got.status, got.text().as_str()), "{target}");
    }
}

#[test]
fn links_by_policy() {
    let check = |symlinks, target: &str, expect| {
        let site = site(RootOptions { symlinks, ..RootOptions::default() });
        assert_eq!(expect, site.get(target).status, "{symlinks:?} {target}");
    };
    check(SymlinkPolicy::Never, "/inside", 404);
    check(SymlinkPolicy::Never, "/dir/b.txt", 200);
    check(SymlinkPolicy::Beneath, "/inside", 200);
    check(SymlinkPolicy::Beneath, "/absolute", 404);
    check(SymlinkPolicy::Anywhere, "/absolute", 200);
    check(SymlinkPolicy::Anywhere, "/absolute-inside", 200);
    check(SymlinkPolicy::Anywhere, "/up", 200);
    check(SymlinkPolicy::Anywhere, "/null", 404);
    check(SymlinkPolicy::Anywhere, "/loop", 404);
    check(SymlinkPolicy::Anywhere, "/../secret", 404);
}

#[test]
fn shown_dotfiles_are_served() {
    let site = site(RootOptions { dotfiles: Dotfiles::Shown, ..RootOptions::default() });
    assert_eq!(SECRET, site.get("/.env").text());
    assert_eq!(404, site.get("/../secret").status);
}

/// A reader that opens a FIFO lets its writer go on: looking must not even do that.
#[test]
fn a_writer_that_waits_at_a_fifo_is_not_woken() {
    use rustix::fs::{Mode, OFlags, open};
    let site = site(RootOptions::default());
    assert_eq!(404, site.get("/fifo").status);
    let writer = open(site.path("fifo"), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    assert_eq!(Some(rustix::io::Errno::NXIO), writer.err(), "nobody reads");
}

#[test]
fn a_root_that_is_renamed_is_served_until_another_one_is_in_its_place() {
    let site = site(RootOptions { cache_for: Duration::ZERO, ..RootOptions::default() });
    fs::rename(site.path(""), site.outside().join("elsewhere")).unwrap();
    assert_eq!("a", site.get("/a.txt").text());
    fs::create_dir(site.path("")).unwrap();
    fs::write(site.path("a.txt"), "the next release").unwrap();
    assert_eq!("the next release", site.get("/a.txt").text());
    assert_eq!(404, site.get("/dir/b.txt").status, "only the one before has it");
}

#[test]
fn a_directory_swapped_for_a_link_does_not_lead_out() {
    let site = site(RootOptions::default());
    fs::create_dir(site.outside().join("outside")).unwrap();
    fs::write(site.outside().join("outside/b.txt"), SECRET).unwrap();
    assert_eq!("b", site.get("/dir/b.txt").text());
    fs::remove_dir_all(site.path("dir")).unwrap();
    symlink("../outside", site.path("dir")).unwrap();
    assert_eq!(404, site.at(5000, "GET /dir/b.txt").status);
}

#[test]
fn a_file_that_may_not_be_read_is_forbidden() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        return; // Root reads everything.
    }
    let site = site(RootOptions::default());
    fs::set_permissions(site.path("a.txt"), fs::Permissions::from_mode(0o0)).unwrap();
    assert_eq!(403, site.get("/a.txt").status);
}
