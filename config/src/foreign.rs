//! Words of the configurations of other servers (nginx, Caddy, Apache, lighttpd, HAProxy, Varnish), and the keys of larder
//! for them. A hint names a key only if the table of keys has it, and only where the word has this meaning: a word without a
//! place is one of the top level, of sites and of routes, and within another section it stands for keys of that section alone.

mod words;

use super::key_path::dotted;
use super::table::{self, ROUTE, ROUTE_CACHE, SITE};
use words::WORDS;

/// Words of other servers with one meaning.
struct ForeignWord {
    /// The words, separated by spaces; case, `_` and `-` do not count.
    words: &'static str,
    /// The sections in which they have this meaning, by the names of [`place_name`]; empty for [`LEVELS`].
    within: &'static str,
    /// The keys or sections of larder, each with its effect, which is named if there are several.
    keys: &'static [(&'static str, &'static str)],
    /// The rest of the sentence: how to write it, or why there is no key.
    note: &'static str,
}

/// The places of the directives of other servers: the top of the file, a site, a route.
const LEVELS: [&str; 3] = ["top", "site", "route"];

/// Prefixes of the words of nginx for application protocols; the rest is that of a word of its proxy module.
const LIKE_PROXY: [&str; 4] = ["fastcgi_", "uwsgi_", "scgi_", "grpc_"];

/// Beginnings of lines that only the files of one server have.
const LINES: [(&str, &[&str]); 5] = [
    ("nginx", &["server {", "http {", "events {", "upstream ", "location ", "server_name "]),
    ("Apache", &["<VirtualHost", "<Directory", "<Location", "<IfModule", "RewriteRule "]),
    ("HAProxy", &["frontend ", "default_backend ", "use_backend "]),
    ("lighttpd", &["server.modules ", "server.document-root ", "$HTTP["]),
    ("Caddy", &["reverse_proxy ", "file_server", "php_fastcgi ", "handle_path ", "handle {"]),
];

/// The server that a text which is no TOML is a configuration of, if its lines have the words of one.
pub fn server_of(text: &str) -> Option<&'static str> {
    let lines = || text.lines().map(str::trim_start);
    let is_of = |words: &[&str]| lines().any(|line| words.iter().any(|it| line.starts_with(it)));
    let is_larder = lines().any(|it| it.starts_with("[["));
    LINES.iter().find(|it| !is_larder && is_of(it.1)).map(|it| it.0)
}

const fn word(
    words: &'static str,
    keys: &'static [(&'static str, &'static str)],
    note: &'static str,
) -> ForeignWord {
    inside("", words, keys, note)
}

const fn inside(
    within: &'static str,
    words: &'static str,
    keys: &'static [(&'static str, &'static str)],
    note: &'static str,
) -> ForeignWord {
    ForeignWord { words, within, keys, note }
}

impl ForeignWord {
    fn has(&self, plain_name: &str) -> bool {
        self.words.split(' ').any(|it| plain(it) == plain_name)
    }

    fn is_within(&self, place: &str) -> bool {
        !self.within.is_empty() && self.within.split(' ').any(|it| it == place)
    }
}

/// The end of the sentence about an unknown key named `name` in `section` (a pattern that ends with a dot, or empty), if it is a word
/// of another server; `Some("")` if larder has no key for it at present.
#[must_use]
pub fn hint(section: &str, name: &str) -> Option<String> {
    let like_proxy = LIKE_PROXY.iter().find_map(|it| name.strip_prefix(it));
    hint_here(section, name)
        .or_else(|| hint_of_levels(section, name))
        .or_else(|| hint_of_levels(section, &format!("proxy_{}", like_proxy?)))
}

/// The same for words that have a meaning of their own in this very section.
pub(super) fn hint_here(section: &str, name: &str) -> Option<String> {
    let (name, place) = (plain(name), place_name(section));
    let row = WORDS.iter().find(|it| it.has(&name) && it.is_within(&place))?;
    let keys = row.keys.iter().filter_map(|(key, effect)| Some((place_of(key, section)?, *effect)));
    Some(sentence(keys.collect(), row.note))
}

/// The keys and sections of larder for a word, in any place.
pub(super) fn keys_of(name: &str) -> impl Iterator<Item = &'static str> {
    let name = plain(name);
    WORDS.iter().filter(move |it| it.has(&name)).flat_map(|it| it.keys).map(|it| it.0)
}

fn hint_of_levels(section: &str, name: &str) -> Option<String> {
    let (name, place) = (plain(name), place_name(section));
    let row = WORDS.iter().find(|it| it.has(&name) && it.within.is_empty())?;
    let is_level = LEVELS.contains(&&*place);
    let is_of_section = |it: &String| is_level || it.starts_with(section);
    let keys = row.keys.iter().filter_map(|(key, effect)| Some((place_of(key, section)?, *effect)));
    let keys: Vec<_> = keys.filter(|it| is_of_section(&it.0)).collect();
    (is_level || !keys.is_empty()).then(|| sentence(keys, row.note))
}

/// A word without the differences of case and separators.
fn plain(word: &str) -> String {
    word.to_ascii_lowercase().replace(['_', '-'], "")
}

/// The name of a section in [`ForeignWord::within`]: `top`, `site`, `route`, otherwise its path without lists. A section of a
/// route has one name, whether it is set for the route, for its site, or (`cache`) for all sites.
fn place_name(section: &str) -> String {
    let path = section.trim_end_matches('.');
    let of_route = |rest: &str| table::is_section(&format!("{ROUTE}{rest}")).then(|| rest.to_owned());
    let name = match path {
        "" => "top".to_owned(),
        _ if section == ROUTE => "route".to_owned(),
        _ => match (path.strip_prefix(ROUTE), path.strip_prefix(SITE)) {
            (Some(rest), _) => rest.to_owned(),
            (None, Some(rest)) => of_route(rest).unwrap_or_else(|| path.to_owned()),
            (None, None) => path.to_owned(),
        },
    };
    dotted(&name)
}

fn sentence(known: Vec<(String, &str)>, note: &str) -> String {
    let shown = |(key, effect): &(String, &str)| match known.len() > 1 && !effect.is_empty() {
        true => format!("`{}` ({effect})", dotted(key)),
        false => format!("`{}`", dotted(key)),
    };
    let mut named: Vec<String> = known.iter().map(shown).collect();
    named.dedup();
    let last = named.pop();
    let keys = match (last, named.as_slice()) {
        (None, _) => return note.to_owned(),
        (Some(only), []) => format!("larder calls it {only}"),
        (Some(last), first) => format!("larder calls these {} and {last}", first.join(", ")),
    };
    if note.is_empty() { keys } else { format!("{keys}; {note}") }
}

/// The pattern under which `key` is set from within `section`: in the same route or site, if it may stand there. `None` if
/// the table has no such key.
fn place_of(key: &str, section: &str) -> Option<String> {
    let is_known = |it: &String| {
        table::find(it).is_some() || table::is_section(it) || table::is_section(&format!("{it}[]"))
    };
    let in_route = key.strip_prefix("cache.").filter(|_| section.starts_with(ROUTE));
    let in_site =
        key.strip_prefix(ROUTE).filter(|_| section.starts_with(SITE) && !section.starts_with(ROUTE));
    let nearer = in_route
        .map(|rest| format!("{ROUTE_CACHE}{rest}"))
        .or_else(|| in_site.map(|rest| format!("{SITE}{rest}")))
        .filter(is_known);
    nearer.or_else(|| Some(key.to_owned()).filter(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hint_names_a_key_that_exists() {
        for row in WORDS {
            for (key, _) in row.keys {
                assert!(place_of(key, "").is_some(), "{}: {key}", row.words);
            }
            assert!(!row.keys.is_empty() || !row.note.is_empty(), "{}", row.words);
        }
    }

    #[test]
    fn every_foreign_word_has_one_row_for_a_place() {
        let mut seen = std::collections::HashSet::new();
        for row in WORDS {
            for (place, it) in
                row.within.split(' ').flat_map(|at| row.words.split(' ').map(move |it| (at, it)))
            {
                assert!(seen.insert((place, plain(it))), "{it} has two rows for {place}");
            }
        }
    }

    #[test]
    fn every_place_of_a_row_is_one() {
        let sections = table::patterns().filter_map(|it| it.rfind('.').map(|dot| it[..=dot].to_owned()));
        let places: std::collections::HashSet<String> = sections.map(|it| place_name(&it)).collect();
        for row in WORDS.iter().filter(|it| !it.within.is_empty()) {
            for it in row.within.split(' ').filter(|it| *it != "top") {
                assert!(places.contains(it), "{}: {it}", row.words);
            }
        }
    }

    #[test]
    fn words_of_other_servers() {
        #[track_caller]
        fn check(section: &str, name: &str, expect: &str) {
            assert_eq!(Some(expect), hint(section, name).as_deref(), "{section}{name}");
        }
        check(
            ROUTE,
            "root",
            "larder calls it `site.route.files.root`; for example files = { root = \"public\" }",
        );
        check(SITE, "server_name", "larder calls it `site.hosts`");
        check(
            ROUTE,
            "limits",
            "larder calls these `site.route.access.limit` (requests of each client) and `site.route.body_size` (the size of \
             request bodies); the limits of all clients together are in the section [limits]",
        );
        check(SITE, "ServerName", "larder calls it `site.hosts`");
        check("", "server", "larder calls it `site`; a virtual host is a [[site]] with hosts");
        check(SITE, "location", "larder calls it `site.route`; a location is a [[site.route]] with a path");
        check(
            ROUTE,
            "ttl",
            "larder calls these `site.route.cache.default_ttl` (for responses that declare none), \
             `site.route.cache.override_ttl` (for all responses) and `site.route.cache.status_ttl` (lifetimes by status)",
        );
        check(
            "cache.",
            "grace",
            "larder calls these `cache.stale_while_revalidate` (while it is fetched again) and `cache.stale_if_error` \
             (after a failure of the origin)",
        );
        check(
            ROUTE,
            "proxy_pass",
            "larder calls it `site.route.proxy.to`; for example proxy = { to = [\"http://127.0.0.1:8000\"] }",
        );
        check("", "tcp_nopush", "larder needs no key for it");
        assert_eq!(None, hint(ROUTE, "colour"));
        let proxy = "site[].route[].proxy.";
        check(proxy, "servers", "larder calls it `site.route.proxy.to`");
        check(SITE, "satisfy", "larder calls it `site.access.satisfy`; \"any\" or \"all\"");
        check(
            ROUTE,
            "limit_conn",
            "larder calls these `site.route.access.limit.concurrency` (of each client) and `limits.connections` (of all clients together)",
        );
        for (word, part) in [
            ("alias", "`site.route.files.strip` (the prefix that it stands for)"),
            ("templates", "larder renders no templates"),
            ("proxy_intercept_errors", "`site.route.intercept_errors`"),
            ("fastcgi_pass", "`site.route.php.to` (php-fpm)"),
            ("php_fastcgi", "`site.route.php.to` (php-fpm)"),
            ("sub_filter", "does not change the text of responses"),
            ("http_check", "`site.route.proxy.health.path`"),
            ("Options", "`site.route.files.listing` (lists of directories)"),
            ("stub_status", "`admin`; the admin page"),
            ("http2", "clients use HTTP/2 over TLS without a key"),
            ("internal", "`site.route.sendfile.root`"),
            ("default_server", "hosts = [\"*\"]"),
            ("proxy_cookie_path", "`Path` and `Domain` in cookies of the origin are rewritten"),
            ("ssi", "assembles no page"),
            ("mirror", "no copy of a request"),
            ("abort", "respond = { status = 444 }"),
            ("merge_slashes", "needs no key"),
            ("dav_methods", "for reading only"),
            ("log_not_found", "`site.log_skip`"),
            ("handle_response", "`site.route.error_pages` (pages in place of errors)"),
            ("map", "`site.redirect_map` (a file of redirects)"),
        ] {
            let found = hint(ROUTE, word).unwrap();
            assert!(found.contains(part), "{word}: {found}");
        }
        assert!(hint("", "uid").unwrap().contains("`user`"));
    }
}
