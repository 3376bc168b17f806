//! The section `files`: members of `files.try`, and mistakes among its keys.

use super::{read, refuse_whole};
use crate::{Config, FilesConfig, Service};
use larder_files::TryMember;

const START: &str = "[[site]]\nhosts = \"a\"\n[[site.route]]\n";

fn files(keys: &str) -> (Config, FilesConfig) {
    let config = read(&format!("{START}files = {{ root = \"src\", {keys} }}")).unwrap();
    let Service::Files(files) = config.sites[0].routes[0].service.clone() else { panic!("files") };
    (config, files)
}

#[track_caller]
fn refuse(keys: &str, expect: &str) {
    refuse_whole(
        &format!("{START}files = {{ root = \"src\", {keys} }}"),
        &format!("t.toml:4: site.route.files.{expect}"),
    );
}

#[track_caller]
fn warn(keys: &str, expect: &str) {
    let (config, _) = files(keys);
    let warnings: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(format!("t.toml:4: site.route.files.{expect}"), warnings.join("\n"), "{keys}");
}

#[test]
fn members() {
    let own = TryMember::own;
    let html = || TryMember::suffixed(".html");
    let check = |keys: &str, expect: &[TryMember]| assert_eq!(expect, files(keys).1.members, "{keys}");
    check("listing = false", &[own()]);
    check("clean_urls = true", &[own(), html()]);
    check("spa = true, index = \"lib.rs\"", &[own(), TryMember::Page("/lib.rs".into())]);
    check(
        "try = [\"{path}\", \"{path}.html\", \"/lib.rs\"]",
        &[own(), html(), TryMember::Fixed("/lib.rs".into())],
    );
    check("try = [\"{path}\", \"=410\"]", &[own(), TryMember::Status(410)]);
    assert_eq!(Some("/lib.rs"), files("not_found = \"lib.rs\"").1.not_found.as_deref());
}

#[test]
fn compression_follows_the_rules_of_cached_pages() {
    let text = format!(
        "[cache.compress]\nmin_size = \"2KiB\"\n{START}files = {{ root = \"src\", compress = true }}\n\
         cache.compress.codings = [\"br\"]"
    );
    let config = read(&text).unwrap();
    let Service::Files(files) = &config.sites[0].routes[0].service else { panic!("files") };
    let rules = files.compress.as_ref().unwrap();
    assert_eq!((2048, 1), (rules.min_size, rules.codings.iter().count()));
    assert!(config.sites[0].routes[0].cache.compress.is_none(), "files.compress is for files only");
}

#[test]
fn mistakes() {
    let form = "a path in files.root that begins with \"/\" or \"{path}\", such as \"{path}.html\"; or \"=404\" or \"=410\"";
    for member in ["../x", "/../x", "{path}/../../etc", "{uri}", "index.html", "=200", "/dir/"] {
        refuse(&format!("try = [\"{member}\"]"), &format!("try: found [\"{member}\"]; allowed: {form}"));
    }
    refuse("try = []", "try: the list is empty; its first member is usually \"{path}\"");
    refuse(
        "try = [\"=404\", \"{path}\"]",
        "try: members after a status are never reached; put the status last",
    );
    refuse(
        "try = [\"{path}\", \"/.env\"]",
        "try: a member names a hidden file (one that begins with a dot), which is not served; rename it, or set \
         files.dotfiles = true",
    );
    refuse(
        "try = [\"{path}\"], clean_urls = true",
        "clean_urls: it redirects /page.html to /page, which no member of files.try serves; add \"{path}.html\" to \
         files.try",
    );
    refuse(
        "try = [\"{path}\"], spa = true",
        "spa: files.try names the files of every path already; add \"/index.html\" as its last member, or remove \
         files.try",
    );
    refuse_whole(
        &format!(
            "[cache]\ncompress = {{ codings = [] }}\n{START}files = {{ root = \"src\", compress = true }}"
        ),
        "t.toml:2: cache.compress.codings: the list is empty; add a coding, or set cache.compress.enabled = false",
    );
}

#[test]
fn warnings() {
    let missing = "no such file or directory; until it exists in files.root, this member answers no request";
    warn("try = [\"{path}\", \"/none.html\"]", &format!("try: /none.html: {missing}"));
    warn("try = [\"/none/{path}\", \"{path}\"]", &format!("try: /none: {missing}"));
    warn("not_found = \"404.html\"", &format!("not_found: /404.html: {missing}"));
    warn("spa = true", &format!("spa: /index.html: {missing}"));
    warn(
        "spa = true, listing = true, index = \"lib.rs\"",
        "listing: directories without an index are listed, so the application does not answer there; set \
         files.listing = false",
    );
    let text = format!("[cache.compress]\nworkers = 0\n{START}files = {{ root = \"src\", compress = true }}");
    let config = read(&text).unwrap();
    assert_eq!(
        "t.toml:6: site.route.files.compress: no file is compressed: cache.compress.workers is 0; set it to 1 or more",
        config.warnings[0].to_string()
    );
}
