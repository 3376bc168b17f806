//! Expansions of templates, as texts and as URLs.

use super::*;
use crate::field::Field;
use crate::pattern::PathPattern;
use crate::scheme::Scheme;
use proptest::prelude::*;

const FIELDS: &[Field<'static>] = &[
    Field { name: "X-A", value: b"a b\x01/?&\xff" },
    Field { name: "Cookie", value: b"lang=de/x" },
    Field { name: "x-request-id", value: b"7f" },
];

#[track_caller]
fn check(template: &str, value: &str, url: &str) {
    let pattern = PathPattern::of("/blog/{year}/{slug...}");
    let view = RequestView {
        method: "GET",
        scheme: Scheme::Https,
        authority: "Example.com:8443",
        target: "/blog/2026/a%20b/%C3%A9?q=1%2B&r=x%26y",
        path: "/blog/2026/a b/\u{e9}".as_bytes(),
        fields: FIELDS,
        client: Some("::ffff:10.1.2.3".parse().unwrap()),
        listener: ":443",
        user: b"ann",
        captures: pattern.captures("/blog/2026/a b/\u{e9}".as_bytes()).unwrap(),
        hosts: &[],
        geo: None,
    };
    let template = Template::parse(template).unwrap_or_else(|it| panic!("{template}: {it}"));
    let mut out = Vec::new();
    template.expand(&view, &mut out);
    assert_eq!(value, String::from_utf8_lossy(&out), "{template:?}");
    out.clear();
    template.expand_url(&view, &mut out);
    assert_eq!(url, String::from_utf8_lossy(&out), "{template:?} as a URL");
}

#[test]
fn expansions() {
    check("", "", "");
    check("plain", "plain", "plain");
    check("{{x}}", "{x}", "%7Bx%7D");
    let target = "/blog/2026/a%20b/%C3%A9?q=1%2B&r=x%26y";
    check(
        "https://{host}{uri}",
        &format!("https://example.com{target}"),
        &format!("https://example.com{target}"),
    );
    check("{scheme} {method} {client}", "https GET 10.1.2.3", "https%20GET%2010.1.2.3");
    check(
        "{path}|{query}",
        "/blog/2026/a%20b/%C3%A9|q=1%2B&r=x%26y",
        "/blog/2026/a%20b/%C3%A9%7Cq=1%2B&r=x%26y",
    );
    check("{request_id}{listener}", "7f:443", "7f:443");
    check("{year}/{slug}", "2026/a b/\u{e9}", "2026/a%20b/%C3%A9");
    check("{1}/{2}{3}", "2026/a b/\u{e9}", "2026/a%20b/%C3%A9");
    check("/p?x={slug}", "/p?x=a b/\u{e9}", "/p?x=a%20b%2F%C3%A9");
    check("/{header.x-a}", "/a b/?&\u{fffd}", "/a%20b%01/%3F&%FF");
    check("/?x={header.x-a}", "/?x=a b/?&\u{fffd}", "/?x=a%20b%01%2F%3F%26%FF");
    check("{header.absent}{cookie.absent}{query.absent}", "", "");
    check("{cookie.lang}", "de/x", "de/x");
    check("https://{cookie.lang}.example.com/", "https://de/x.example.com/", "https://de%2Fx.example.com/");
    check("/{query.q}-{query.r}", "/1+-x&y", "/1+-x&y");
    check("/?{query.q}&{query.r}", "/?1+&x&y", "/?1%2B&x%26y");
    check("{header.Host}", "Example.com:8443", "Example.com:8443");
}

/// A path is never a reference to another host.
#[test]
fn a_received_path_is_not_another_host() {
    let view = RequestView { target: "//evil.example/x?y", ..RequestView::default() };
    for (template, expect) in [
        ("{uri}", "/evil.example/x?y"),
        ("{path}", "/evil.example/x"),
        ("/{uri}", "/evil.example/x?y"),
        ("/{path}#a", "/evil.example/x#a"),
        ("//cdn.example{uri}", "//cdn.example//evil.example/x?y"),
        ("https://a{uri}", "https://a//evil.example/x?y"),
    ] {
        let mut out = b"Location: ".to_vec();
        Template::parse(template).unwrap().expand_url(&view, &mut out);
        assert_eq!(format!("Location: {expect}"), String::from_utf8(out).unwrap(), "{template}");
    }
}

#[test]
fn names_and_constants() {
    let of = |it| Template::parse(it).unwrap();
    assert_eq!(Some("a{b"), of("a{{b").constant());
    assert_eq!(Some(""), of("").constant());
    assert_eq!(None, of("{host}").constant());
    assert_eq!(vec!["id", "2", "9"], of("{id}{host}{2}{header.X}{9}").names().collect::<Vec<_>>());
}

#[test]
fn errors() {
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let error = Template::parse(text).expect_err(text);
        assert!(error.contains(expect), "{text}: {error}");
    }
    check("{", "\"{\" without its counterpart; write {{");
    check("a}b", "\"}\" without its counterpart; write }}");
    check("{}", "unknown variable {}");
    check("{0}", "unknown variable {0}");
    check("{10}", "unknown variable {10}");
    check("{a-b}", "unknown variable {a-b}");
    check("{file.x}", "unknown variable {file.x}");
    check("{header}", "{header} needs a name, such as {header.x-name}");
    check("{header.}", "\"\" is not a name");
    check("{header.a b}", "\"a b\" is not a name");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn parsing_never_panics(text in "\\PC{0,40}") {
        let _ = Template::parse(&text);
    }

    /// Neither an expansion nor a URL can split a head, whatever the request holds.
    #[test]
    fn an_expansion_has_no_control_bytes(
        template in "[a{}?/:\n\r\0]{0,4}(\\{(1|x|host|uri|path|query|header.x|cookie.x|query.x|method)\\}[a/?]?){0,4}",
        target in "/[a/?&=%\r\n\0\u{e9}x0-9+]{0,20}",
        authority in "[a:.\r\n\0]{0,9}",
        value in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let Ok(template) = Template::parse(&template) else { return Ok(()) };
        let pattern = PathPattern::of("/{x...}");
        let path = [b"/", &value[..]].concat();
        let fields = [Field { name: "X", value: &value }, Field { name: "cookie", value: &[b"x=", &value[..]].concat() }];
        let captures = pattern.captures(&path).unwrap();
        let view = RequestView { target: &target, authority: &authority, fields: &fields, captures, ..RequestView::default() };
        let mut out = Vec::new();
        template.expand(&view, &mut out);
        prop_assert!(!out.iter().any(u8::is_ascii_control), "{:?}", out);
        out.clear();
        template.expand_url(&view, &mut out);
        prop_assert!(out.iter().all(u8::is_ascii_graphic), "{:?}", out);
        prop_assert!(template.text().starts_with("//") || !out.starts_with(b"//"), "{:?}", out);
    }
}
