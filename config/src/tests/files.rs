//! The section `files`: members of `files.try`, and mistakes among its keys.

use super::{read, refuse_whole};
use crate::{Config, FilesConfig, Methods, Service};
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
    let flags = ["spa", "listing"].map(|it| crate::Setting {
        path: format!("site[0].route[0].files.{it}"),
        text: "true".to_owned(),
        flag: format!("--{it}"),
    });
    let text = format!("{START}files = {{ root = \"src\", index = \"lib.rs\" }}");
    let config =
        crate::Config::from_text(&text, "t.toml", crate::Path::new(env!("CARGO_MANIFEST_DIR")), &flags)
            .unwrap();
    assert!(config.warnings.iter().any(|it| it.to_string().ends_with("; leave out --listing")));
    let text = format!("[cache.compress]\nworkers = 0\n{START}files = {{ root = \"src\", compress = true }}");
    let config = read(&text).unwrap();
    assert_eq!(
        "t.toml:6: site.route.files.compress: no file is compressed: cache.compress.workers is 0; set it to 1 or more",
        config.warnings[0].to_string()
    );
}

/// A route that falls through, with more keys of it, before another route.
fn falling(keys: &str, own: &str, next: &str) -> String {
    format!("{START}files = {{ root = \"src\", fall_through = true{keys} }}\n{own}\n[[site.route]]\n{next}")
}

const NEXT: &str = "respond = { status = 204 }";

#[test]
fn paths_without_a_file_belong_to_a_later_route() {
    let methods = |own: &str| read(&falling("", own, NEXT)).unwrap().sites[0].routes[0].methods.clone();
    assert_eq!(Methods::Only(vec!["GET".to_owned()]), methods(""));
    assert_eq!(Methods::Only(vec!["HEAD".to_owned()]), methods("methods = [\"HEAD\", \"POST\"]"));
    let refuse = |text: &str, expect: &str| refuse_whole(text, expect);
    let later = "no later route of the site takes a GET of";
    let none = format!("{START}files = {{ root = \"src\", fall_through = true }}");
    refuse(
        &none,
        &format!(
            "t.toml:4: site.route.files.fall_through: {later} \"/*\", so that paths without a file have no route; \
                            add one after this route, or remove the key"
        ),
    );
    for next in [
        "methods = [\"POST\"]\nrespond = { status = 204 }",
        "listeners = [\"127.0.0.1:1\"]\nrespond = { status = 204 }",
    ] {
        let text = falling("", "listeners = [\"127.0.0.1:2\"]", next);
        let text = format!("listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\n{text}");
        let problems = read(&text).unwrap_err().to_string();
        assert!(problems.contains(later), "{problems}");
    }
    let text = falling("", "path = \"/static/*\"", "path = \"/app/*\"\nrespond = { status = 204 }");
    assert!(read(&text).unwrap_err().to_string().contains(later));
    assert!(
        read(&falling("", "path = \"/static/*\"", "path = \"*.css\"\nrespond = { status = 204 }")).is_ok()
    );
    let text = falling("", "methods = [\"POST\"]", NEXT);
    assert!(
        read(&text).unwrap_err().to_string().contains("files.fall_through serves files to GET and HEAD only")
    );
}

#[test]
fn keys_that_answer_paths_without_a_file() {
    for (keys, key) in [
        (", spa = true, index = \"lib.rs\"", "spa: the page of the application"),
        (", not_found = \"/lib.rs\"", "not_found: this page"),
        (", try = [\"{path}\", \"/lib.rs\"]", "try: a member without {path}, or a status,"),
        (", try = [\"{path}\", \"=410\"]", "try: a member without {path}, or a status,"),
    ] {
        let expect = format!(
            "t.toml:4: site.route.files.{key} answers paths without a file, which belong to the next route with \
             files.fall_through = true; remove one of the two"
        );
        refuse_whole(&falling(keys, "", NEXT), &expect);
    }
}

/// The rules of the first route hold for every path: the next route has them, too.
#[test]
fn access_rules_are_those_of_the_next_route_too() {
    let deny = "access.deny = [\"192.0.2.0/24\"]";
    let problem = |own: &str, next: &str| {
        let found = read(&falling("", own, &format!("{next}\n{NEXT}")));
        found.err().map(|it| it.to_string()).unwrap_or_default()
    };
    let expect = "t.toml:4: site.route.files.fall_through: paths without a file get past access.deny to the route \"/*\" at \
                  t.toml:6; set the same rule there, or for the site";
    assert_eq!(expect, problem(deny, "").trim());
    assert!(problem(deny, "access.deny = [\"192.0.2.0/25\"]").contains("access.deny"));
    assert_eq!("", problem(deny, deny));
    assert_eq!("", problem(deny, "access.deny = [\"192.0.2.0/24\", \"198.51.100.7\"]"), "it refuses more");
    let allow = "access.allow = [\"192.0.2.0/24\"]";
    assert_eq!("", problem(allow, "access.allow = [\"192.0.2.0/25\"]"), "it admits fewer");
    assert!(problem(allow, "access.allow = [\"192.0.0.0/16\"]").contains("access.allow"));
    assert_eq!("", problem("", deny), "rules of the application alone");
    assert_eq!("", problem("access.limit.rate = \"1/s\"", ""));
    let both = "access.allow = [\"192.0.2.0/24\"]\naccess.signed = { secret = \"0123456789abcdef0123456789abcdef\" }";
    let either = format!("{both}\naccess.satisfy = \"any\"");
    assert!(problem(both, &either).contains("access.satisfy"), "{}", problem(both, &either));
    assert_eq!("", problem(&either, both));
}
