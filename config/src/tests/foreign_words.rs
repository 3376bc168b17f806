//! Words of other servers, each at its place: the key of larder that the message names.

use super::*;
use crate::table;

/// A configuration with `line` in a section: `top`, `site`, `route`, or one by its path.
fn with(place: &str, line: &str) -> String {
    const ROUTES: &str = "[[site.route]]\npath = \"/*\"\nproxy.to = \":1\"\n";
    let top = |line: &str| format!("{line}\n[[site]]\nhosts = \"a\"\n{ROUTES}");
    let section = format!("{place}.");
    match place {
        "top" => top(line),
        "site" => format!("[[site]]\nhosts = \"a\"\n{line}\n{ROUTES}"),
        "route" => format!("[[site]]\nhosts = \"a\"\n{ROUTES}{line}\n"),
        "tls.certificates" | "database" => top(&format!("[[{place}]]\n{line}")),
        _ if table::is_section(place) => top(&format!("{section}{line}")),
        _ => format!("[[site]]\nhosts = \"a\"\n{ROUTES}{section}{line}\n"),
    }
}

/// The messages about unknown keys.
fn unknown(place: &str, line: &str) -> Vec<String> {
    let all = read(&with(place, line)).map(drop).map_or_else(|it| it.0, |()| Vec::new());
    all.into_iter().map(|it| it.text).filter(|it| it.starts_with("unknown key")).collect()
}

/// Keys and sections of larder that a message names.
fn named(message: &str) -> Vec<&str> {
    let quoted = message.split('`').skip(1).step_by(2);
    let patterns: Vec<String> = table::patterns().map(|it| it.replace("[]", "")).collect();
    let is_key = |it: &&str| {
        let section = format!("{it}.");
        patterns.iter().any(|key| key == it || key.starts_with(&section))
    };
    quoted.filter(is_key).collect()
}

/// Each line: a place, the keys that a message there has to name and may name (`-`: it says that no key is needed, or that there is
/// none; `?`: it lists the keys of the place), and the words, each with the value "x" unless it has another one.
const EXPECTED: &str = include_str!("foreign_words.txt");

#[test]
fn each_foreign_word_leads_to_its_key() {
    let mut wrong = Vec::new();
    for line in EXPECTED.lines().filter(|it| !it.is_empty() && !it.starts_with('#')) {
        let [place, keys, words] = line.splitn(3, " | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        for word in words.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, "\"x\""));
            let found = unknown(place, &format!("{name} = {value}"));
            let [message] = &found[..] else {
                wrong.push(format!("{place} {name}: {found:?}"));
                continue;
            };
            let has = named(message);
            let fits = match keys {
                "?" => message.starts_with("unknown key; known "),
                "-" => ["; known ", "did you mean", "larder calls"].iter().all(|it| !message.contains(it)),
                _ => {
                    let expected = || keys.split(' ');
                    let is_expected =
                        |it: &&str| expected().any(|key| *it == key || it.ends_with(&format!(".{key}")));
                    let is_named =
                        |key: &str| has.iter().any(|it| *it == key || it.ends_with(&format!(".{key}")));
                    has.iter().all(is_expected) && expected().all(is_named)
                }
            };
            if !fits {
                wrong.push(format!("{place} {name}: expected {keys}; {message}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// No word leads out of a section to a key that it only resembles: a message names keys of the section, or those of a row for it.
#[test]
fn a_value_of_another_kind_is_another_key() {
    let found = unknown("route", "health = { path = \"/health\" }");
    assert!(found[0].contains("`site.route.proxy.health` (requests that check an origin)"), "{found:?}");
    for (place, line) in [
        ("route", "numbers = 5"),
        ("access", "binlog = true"),
        ("cache", "publication = \"a\""),
        ("proxy", "realm = \"a\""),
        ("top", "token_file = 5"),
    ] {
        let found = unknown(place, line);
        assert!(found[0].starts_with("unknown key; known "), "{place} {line}: {found:?}");
    }
}

#[test]
fn directives_of_lighttpd_have_dots() {
    let found = unknown("top", "server.document-root = \"/srv\"\nserver.port = 80\nserver.modules = []");
    assert_eq!(3, found.len(), "{found:?}");
    assert!(found[0].contains("`site.route.files.root`") && found[1].contains("`listen`"), "{found:?}");
    let text = with("top", "url.redirect = \"x\"");
    let found = read(&text).map(drop).unwrap_err().to_string();
    assert!(
        found.starts_with("t.toml:1: url.redirect: unknown key; larder calls these `site.route.redirect`"),
        "{found}"
    );
}
