//! Path patterns: matches, captures, coverage, errors.

use super::*;
use crate::path;
use proptest::prelude::*;

#[track_caller]
fn check(pattern: &str, path: &str, expect: Option<&[&str]>) {
    let pattern = PathPattern::parse(pattern).unwrap_or_else(|it| panic!("{pattern}: {it}"));
    let captures = pattern.captures(path.as_bytes());
    assert_eq!(expect.is_some(), captures.is_some(), "{pattern} {path}");
    assert_eq!(expect.is_some(), pattern.matches(path.as_bytes()), "{pattern} {path}");
    let Some((expect, captures)) = expect.zip(captures) else { return };
    assert_eq!(expect.len(), pattern.names().len(), "{pattern}");
    for (at, it) in expect.iter().enumerate() {
        assert_eq!(it.as_bytes(), captures.number(at + 1), "{pattern} {path}");
        let name = &pattern.names()[at];
        if !name.is_empty() {
            assert_eq!(it.as_bytes(), captures.named(name), "{pattern} {path}");
        }
    }
    assert_eq!(b"", captures.number(0));
    assert_eq!(b"", captures.number(expect.len() + 1));
    assert_eq!(b"", captures.named("absent"));
}

#[test]
fn exact_paths_and_stars() {
    check("/about", "/about", Some(&[]));
    check("/about", "/about/", None);
    check("/*", "/", Some(&[""]));
    check("/static/*", "/static/a/b", Some(&["a/b"]));
    check("/static/*", "/static", None);
    check("/img*", "/img/x", Some(&["/x"]));
    check("*.php", "/index.php", Some(&["/index"]));
    check("*.php", "/a/b.php", Some(&["/a/b"]));
    check("*.php", "/a.php/b", None);
    check("*.php", "/a.PHP", None);
    check("/static/*.css", "/static/a/b.css", Some(&["a/b"]));
    check("/static/*.css", "/static/.css", Some(&[""]));
    check("/a/*/a", "/a/a", None);
    check("/a/*/edit", "/a/x/y/edit", Some(&["x/y"]));
}

#[test]
fn captures_of_segments() {
    check("/shop/{id}", "/shop/7", Some(&["7"]));
    check("/shop/{id}", "/shop/", None);
    check("/shop/{id}", "/shop/7/", None);
    check("/shop/{id}", "/shop/7/8", None);
    check("/shop/{id}/", "/shop/7/", Some(&["7"]));
    check("/blog/{year}/{slug}", "/blog/2026/a-b.c", Some(&["2026", "a-b.c"]));
    check("/blog/{year}/{slug}", "/blog/2026", None);
    check("/img-{id}.png", "/img-7.png", Some(&["7"]));
    check("/img-{id}.png", "/img-.png", None);
    check("/img-{id}.png", "/img-7.png.png", Some(&["7.png"]));
    check("/{lang}/shop/{id}/edit", "/de/shop/7/edit", Some(&["de", "7"]));
    check("/{lang}/shop/{id}/edit", "/de/shop/7/edits", None);
    check("/files/{rest...}", "/files/a/b", Some(&["a/b"]));
    check("/files/{rest...}", "/files/", Some(&[""]));
    check("/files/{rest...}", "/files", None);
    check("/shop/{id}/*", "/shop/7/a/b", Some(&["7", "a/b"]));
    check("/shop/{id}/*", "/shop/7/", Some(&["7", ""]));
    check("/shop/{id}/*", "/shop/7", None);
    check("/caf%C3%A9/{id}", "/caf\u{e9}/1", Some(&["1"]));
    // A decoded line feed is a byte like any other.
    check("/a/{id}", "/a/x\ny", Some(&["x\ny"]));
}

#[test]
fn regular_expressions() {
    check("regex:/shop/[0-9]+", "/shop/77", Some(&[]));
    check("regex:/shop/[0-9]+", "/shop/77/x", None);
    check("regex:/shop/[0-9]+", "/a/shop/77", None);
    check("regex:^/shop/(?<id>[0-9]+)(/(.*))?$", "/shop/77", Some(&["77", "", ""]));
    check("regex:^/shop/(?<id>[0-9]+)(/(.*))?$", "/shop/77/a", Some(&["77", "/a", "a"]));
    check("regex:/a|/b", "/b", Some(&[]));
    check("regex:/a|/b", "/ab", None);
    check("regex:/ab?", "/a", Some(&[]));
    check("regex:/admin/.*", "/admin/\nx", Some(&[]));
    check("regex:(?i)/shop", "/SHOP", Some(&[]));
    check(r"regex:/a\.php", "/a.php", Some(&[]));
    check("regex:/a{2}", "/aa", Some(&[]));
}

#[test]
fn an_undecoded_path_is_compared_with_the_written_pattern() {
    for (pattern, spelled) in [
        ("/caf%C3%A9", "/caf%C3%A9"),
        ("/caf%C3%A9/*", "/caf%C3%A9/x"),
        ("/caf%C3%A9/{id}", "/caf%C3%A9/x"),
        ("*%2Ephp", "/a%2Ephp"),
    ] {
        let pattern = PathPattern::of(pattern);
        assert!(pattern.matches_as(spelled.as_bytes(), Decode::No), "{pattern}");
        assert!(!pattern.matches(spelled.as_bytes()), "{pattern}");
    }
}

#[test]
fn errors() {
    #[track_caller]
    fn check(pattern: &str, expect: &str) {
        let error = PathPattern::parse(pattern).expect_err(pattern);
        assert!(error.contains(expect), "{pattern}: {error}");
    }
    check("", "a path begins with \"/\"");
    check("a/*", "a path begins with \"/\"");
    check("*", "write \"/*\" for all paths");
    check("/a*b*", "one \"*\"");
    check("^/x/(.*)$", r#"write "regex:/x/(.*)""#);
    check("^/x/", r#"write "regex:/x/.*""#);
    check(r"~ \.php$", r"write 'regex:.*\.php'");
    check(r"~* ^/a\.(png|gif)$", r"write 'regex:(?i)/a\.(png|gif)'");
    check("~^/a", r#"write "regex:/a.*""#);
    check("/x/(.*)", r#"write "regex:/x/(.*)""#);
    check("= /a", r#"write "/a""#);
    check("^~ /a/", r#"write "/a/*""#);
    check("/a?b", "'?' cannot occur");
    check("/a b", "' ' cannot occur");
    check("/{a}/{a}", "occurs twice");
    check("/{host}", "is a variable of every request");
    check("/{a}{b}", "one capture");
    check("/{a", "without \"}\"");
    check("/a}", "without \"{\"");
    check("/{1}", "is not a capture");
    check("/{}", "is not a capture");
    check("/{rest...}/x", "must be the last segment");
    check("/{id}/*/x", "must be the last segment");
    check("/{id}/x*", "whole segment at the end");
    check("/{id}/../x", "cannot occur in the normal form");
    check("/{id}//x", "cannot occur in the normal form");
    check("/{id}/a%2fb", "cannot occur in the normal form");
    check("*/../x", "cannot occur in the normal form");
    check("regex:", "a path begins with");
    check("regex:shop", "a path begins with");
    check("regex:/a(", "is not a regular expression: unclosed group");
    check("regex:/a)(", "is not a regular expression");
    check("regex:/((a{99}){99}){99}", "compiles to more than 256 KiB");
    check("/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}/{j}", "at most 9 captures");
    check(&format!("/{}", "x".repeat(5000)), "limited to 4096 bytes");
}

#[test]
fn patterns_that_may_meet() {
    #[track_caller]
    fn check(a: &str, b: &str, expect: bool) {
        let [a, b] = [a, b].map(|it| PathPattern::parse(it).unwrap());
        assert_eq!((expect, expect), (a.may_meet(&b), b.may_meet(&a)), "{a} and {b}");
    }
    check("/*", "/api/*", true);
    check("/api/*", "/api", true);
    check("/api/*", "/apis", false);
    check("/api/*", "/shop/*", false);
    check("*.php", "*.css", false);
    check("*.php", "/api/*", true);
    check("/a/{id}/b", "/a/*", true);
    check("/a/{id}/b", "*/c", false);
    check("regex:/a.*", "/b", false);
    check("/a", "/b", false);
    check("/a", "/{x}", true);
}

#[test]
fn coverage() {
    #[track_caller]
    fn check(a: &str, b: &str, expect: bool) {
        let [a, b] = [a, b].map(|it| PathPattern::parse(it).unwrap());
        assert_eq!(expect, a.covers(&b), "{a} covers {b}");
    }
    for open in ["regex:/a/.*", "regex:^/a/(.*)$"] {
        for (other, expect) in [
            ("/a/b", true),
            ("/a/*", true),
            ("/a/{x}", true),
            ("/a/*.php", true),
            ("regex:/a/b.*", true),
            ("regex:/a/[0-9]+", true),
            ("/a", false),
            ("/a*", false),
            ("/b/{x}", false),
            ("regex:/(a|b)/.*", false),
        ] {
            check(open, other, expect);
        }
    }
    check("regex:.*", "/{x}", true);
    // A part that is no literal text is not analysed.
    check("regex:/[a]/.*", "/a/*", false);
    check("regex:/a./.*", "/a./*", false);
    check("regex:/a/b?.*", "/a/*", false);
    check("/*", "/static/*", true);
    check("/static/*", "/*", false);
    check("/a", "/a", true);
    check("/a*", "/ab", true);
    check("/a", "/a*", false);
    check("/*", "regex:/a.*", true);
    check("/*", "*.php", true);
    check("/a/*", "/a/{id}", true);
    check("/a/*", "/{id}/a", false);
    check("*.php", "/x.php", true);
    check("*.php", "/x/*.php", true);
    check("/x/*.php", "*.php", false);
    check("*.php", "/x/{id}.php", true);
    check("*/edit", "/x/{id}/edit", true);
    check("*.php", "/x/{id}", false);
    check("/a/{id}", "/a/b", true);
    check("/a/{id}", "/a/{name}", true);
    check("/a/{id}", "/a/x-{name}", true);
    check("/a/x-{id}", "/a/{name}", false);
    check("/a/{id}/*", "/a/{id}/b", true);
    check("/a/{id}/*", "/a/{id}", false);
    check("/a/{rest...}", "/a/{id}", true);
    check("/a/*", "/a/{rest...}", true);
    check("/a/{rest...}", "/a/*", true);
    check("/{x}/b", "/a/{y}", false);
    check("regex:/a/.*", "/a/b", true);
    check("regex:/a/.*", "/a/*", true);
    check("regex:/a/.*", "regex:/a/.*", true);
    check("/a/*", "regex:/a/[0-9]+", true);
    check("/a/*", "regex:/a/b|/c", false);
}

#[test]
fn equal_if_the_text_is() {
    assert_eq!(PathPattern::of("/a/{x}"), PathPattern::of("/a/{x}"));
    assert_ne!(PathPattern::of("/a/{x}"), PathPattern::of("/a/{y}"));
    assert_eq!("regex:/a", PathPattern::of("regex:/a").to_string());
    assert!(PathPattern::all().is_all() && PathPattern::of("/{all...}").is_all());
    assert!(!PathPattern::of("*.php").is_all() && !PathPattern::of("/a*").is_all());
    assert_eq!(b"/a/", PathPattern::of("/a/{x}").prefix());
    assert_eq!(b"/a/x", PathPattern::of("/a/x{y}/z").prefix());
    assert_eq!(b"/a/", PathPattern::of("regex:/a/[0-9]+").prefix());
    assert_eq!(b"/", PathPattern::of("regex:/a?").prefix());
    assert_eq!(b"", PathPattern::of("regex:/a|/b").prefix());
}

#[test]
fn literal_ends() {
    let check = |pattern: &str, begin: &str, end: &str| {
        let pattern = PathPattern::parse(pattern).unwrap();
        let ends = pattern.literal_ends();
        assert_eq!((begin.as_bytes(), end.as_bytes()), ends, "{pattern}");
    };
    check("/about", "/about", "/about");
    check("/static/*", "/static/", "");
    check("/static/*.css", "/static/", ".css");
    check("*.php", "", ".php");
    check("/img/{id}.png", "/img/", ".png");
    check("/shop/{id}/edit", "/shop/", "edit");
    check("/shop/{id}/*", "/shop/", "");
    check("regex:/a/[0-9]+x", "/a/", "");
    // Up to a byte that is not decoded in every interpretation.
    check("/caf%C3%A9/menu", "/caf", "/menu");
    check("/a/*.%63ss", "/a/", "ss");
}

fn some_patterns() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "/", "/", "a", "b", "{x}", "{y}", "*", ".", "%61", "%2f", "{z...}", "regex:", "(", ")", "|", "[ab]",
        "?", "+", "^", "$", "\\",
    ]);
    prop::collection::vec(part, 0..9).prop_map(|it| it.concat())
}

fn some_paths() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec!["/", "/", "a", "b", ".", "\n", "\u{e4}"]);
    prop::collection::vec(part, 0..9).prop_map(|it| {
        let mut out = Vec::new();
        path::read(format!("/{}", it.concat()).as_bytes(), path::NORMAL, &mut out);
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn parsing_never_panics(text in "\\PC{0,40}") {
        let _ = PathPattern::parse(&text);
    }

    /// Whatever matches begins with the prefix, and its captures are parts of it.
    #[test]
    fn captures_agree_with_matches(text in some_patterns(), path in some_paths()) {
        let Ok(pattern) = PathPattern::parse(&text) else { return Ok(()) };
        let captures = pattern.captures(&path);
        prop_assert_eq!(pattern.matches(&path), captures.is_some(), "{}", text);
        if let Some(captures) = captures {
            prop_assert!(path.starts_with(pattern.prefix()), "{} {:?}", text, path);
            for decode in [Decode::No, Decode::All] {
                let (begin, end) = pattern.literal_ends();
                let ends = path.starts_with(begin) && path.ends_with(end);
                prop_assert!(ends || !pattern.matches_as(&path, decode), "{} {:?}", text, path);
            }
            for number in 0..11 {
                let it = captures.number(number);
                prop_assert!(it.is_empty() || path.windows(it.len()).any(|part| part == it));
            }
        }
    }

    /// What is reported as covered is covered.
    #[test]
    fn a_covered_pattern_matches_nothing_more(one in some_patterns(), other in some_patterns(), path in some_paths()) {
        let (Ok(one), Ok(other)) = (PathPattern::parse(&one), PathPattern::parse(&other)) else { return Ok(()) };
        if one.covers(&other) && other.matches(&path) {
            prop_assert!(one.matches(&path), "{one} {other} {path:?}");
        }
    }

    /// What is reported not to meet matches no path in common.
    #[test]
    fn patterns_that_do_not_meet_have_no_path_in_common(one in some_patterns(), other in some_patterns(), path in some_paths()) {
        let (Ok(one), Ok(other)) = (PathPattern::parse(&one), PathPattern::parse(&other)) else { return Ok(()) };
        if one.matches(&path) && other.matches(&path) {
            prop_assert!(one.may_meet(&other) && other.may_meet(&one), "{one} {other} {path:?}");
        }
    }

    /// As a regular expression it matches the same paths, as far as they need no decoding.
    #[test]
    fn the_regular_expression_of_a_pattern_matches_the_same(text in some_patterns(), path in some_paths()) {
        let Ok(pattern) = PathPattern::parse(&text) else { return Ok(()) };
        let same = regex::bytes::RegexBuilder::new(&pattern.to_regex())
            .unicode(false).dot_matches_new_line(true).build().unwrap();
        let matches = pattern.matches_as(&path, Decode::No);
        prop_assert_eq!(matches, same.is_match(&path), "{} {} {:?}", text, pattern.to_regex(), path);
    }

    /// A regular expression matches the whole path, as the crate would.
    #[test]
    fn a_regular_expression_matches_as_the_regex_crate(text in some_patterns(), path in some_paths()) {
        let text = text.replace("regex:", "");
        let Ok(pattern) = PathPattern::parse(&format!("regex:{text}")) else { return Ok(()) };
        let whole = regex::bytes::RegexBuilder::new(&format!("^(?:{text})$"))
            .unicode(false).dot_matches_new_line(true).build().unwrap();
        prop_assert_eq!(whole.is_match(&path), pattern.matches(&path), "{} {:?}", text, path);
    }
}

#[test]
fn samples_are_paths_of_their_pattern() {
    for (pattern, expect) in [
        ("/about", Some("/about")),
        ("/*", Some("/any")),
        ("/static/*.css", Some("/static/any.css")),
        ("*.php", Some("any.php")),
        ("/shop/{id}.html/x", Some("/shop/any.html/x")),
        ("/files/{rest...}", Some("/files/any")),
        ("/%C3%A4", None),
        ("regex:/a+", None),
    ] {
        assert_eq!(
            expect.filter(|it| it.starts_with('/')),
            PathPattern::of(pattern).sample().as_deref(),
            "{pattern}"
        );
    }
}
