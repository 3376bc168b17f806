//! Conditions over requests, and the parts of a request that they read.

use super::*;
use crate::expression::{Expression, ExpressionSubject, RequestDomain};
use proptest::prelude::*;

const FIELDS: &[Field<'static>] = &[
    Field { name: "Host", value: b"ignored" },
    Field { name: "Accept", value: b"application/json" },
    Field { name: "X-Two", value: b"one" },
    Field { name: "x-two", value: b"two" },
    Field { name: "Cookie", value: b"a=1; session=xyz; a=2" },
];

fn view() -> RequestView<'static> {
    RequestView {
        method: "POST",
        scheme: Scheme::Https,
        authority: "WWW.Example.com:8443",
        target: "/a/%62?x=1&y=a%20b+c&x=2&%7a=3&flag",
        path: b"/a/b",
        fields: FIELDS,
        client: Some("::ffff:10.1.2.3".parse().unwrap()),
        listener: "0.0.0.0:8443",
        ..RequestView::default()
    }
}

#[track_caller]
fn check(text: &str, expect: bool) {
    let parse = |it: &str| Expression::parse_about(ExpressionSubject::Request, it);
    let expression = parse(text).unwrap_or_else(|it| panic!("{text}\n{it}"));
    assert_eq!(expect, expression.holds(&view()), "{text}");
    assert_eq!(!expect, parse(&format!("!({text})")).unwrap().holds_for_each(&view()), "not {text}");
}

/// Of several values of one name a condition that refuses takes each, and one that admits takes all.
#[test]
fn several_values() {
    for (text, some, each) in [
        (r#"query.x == "1""#, true, false),
        (r#"query.x != "1""#, true, false),
        (r#"!(query.x == "1")"#, true, false),
        (r#"!(query.x != "1" || query.x == "2")"#, true, false),
        (r#"query.x !~ "^[12]$""#, false, false),
        (r#"query.x ~ "^[12]$""#, true, true),
        (r#"header.x-two != """#, true, true),
        (r#"header.absent == """#, true, true),
    ] {
        let it = Expression::parse_about(ExpressionSubject::Request, text).unwrap();
        assert_eq!((some, each), (it.holds(&view()), it.holds_for_each(&view())), "{text}");
    }
}

#[test]
fn conditions() {
    check(r#"method in ["GET", "POST"] && header.Accept ~ "json""#, true);
    check(r#"method in ["GET"]"#, false);
    check(r#"method in ["GET", "POST",]"#, true);
    check(r#"method == "POST" && scheme == "https""#, true);
    check(r#"host == "www.example.com""#, true);
    check(r#"host in ["a", "www.example.com"]"#, true);
    check(r#"path == "/a/b""#, true);
    check(r#"path ~ "^/a/.$""#, true);
    check(r#"query contains "y=a%20b""#, true);
    check(r#"query["y"] == "a b c" && query.y == "a b c""#, true);
    check(r#"query.x == "2" && query.x == "1" && query.z == "3""#, true);
    check(r#"query.flag == """#, true);
    check(r#"query.absent == "" && query.absent ~ """#, true);
    check(r#"query.absent != """#, false);
    check(r#"url == "https://WWW.Example.com:8443/a/%62?x=1&y=a%20b+c&x=2&%7a=3&flag""#, true);
    check(r#"listener == "0.0.0.0:8443""#, true);
    check(r#"client == "10.1.2.3" && client in "10.0.0.0/8""#, true);
    check(r#"client in ["192.0.2.0/24", "10.0.0.0/8"]"#, true);
    check(r#"client in ["192.0.2.0/24"]"#, false);
    check(r#"header["x-two"] == "two" && header.x-Two in ["one"]"#, true);
    check(r#"header.Host == "WWW.Example.com:8443""#, true);
    check(r#"header.absent != "x""#, true);
    check(r#"cookie.session == "xyz" && cookie["a"] == "2""#, true);
    check(r#"cookie.Session == "xyz""#, false);
    check(r#"header.X-Two!="three""#, true);
}

#[test]
fn a_line_feed_in_a_path_makes_no_difference() {
    let admin = Expression::parse_about(ExpressionSubject::Request, r#"path ~ "^/admin/.*x$""#).unwrap();
    assert!(admin.holds(&RequestView { path: b"/admin/\nx", ..view() }));
}

#[test]
fn errors() {
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let error = Expression::parse_about(ExpressionSubject::Request, text).expect_err(text).to_string();
        assert_eq!(expect, error, "{text}");
    }
    let all = "method, scheme, host, path, query, query[\"name\"], url, listener, client, country, asn, header[\"name\"] or cookie[\"name\"]";
    check("status == 200", &format!("column 1: unknown name \"status\"; expected {all}"));
    check("method in \"GET\"", "column 11: \"GET\" is not a list; write [\"a\", \"b\"]");
    check("method in", "column 10: a list is missing, as in [\"a\", \"b\"]");
    check("method in []", "column 12: \"]\" is not in quotes; write \"]\"");
    check("method in [GET]", "column 12: \"GET\" is not in quotes; write \"GET\"");
    check("method in [\"GET\" \"POST\"]", "column 18: a ] at the end of the list is missing");
    check(
        "client in [\"10.0.0.0/8\", \"x\"]",
        "column 26: \"x\" is not a network; write one such as \"10.0.0.0/8\"",
    );
    check("header. == \"x\"", "column 9: a name is missing behind the dot, as in header.Accept");
    check("cookie == \"x\"", "column 8: the name of a cookie, as in cookie[\"session\"] is missing");
    check("query < \"x\"", "column 7: \"<\" has nothing to compare; write ==, !=, ~, !~, contains or in");
}

#[test]
fn parts_of_a_target() {
    let view = |target| RequestView { target, ..view() };
    let parts = |target| (view(target).spelled_path(), view(target).query());
    assert_eq!(("/a", "b?c"), parts("/a?b?c"));
    assert_eq!(("/a", ""), parts("/a#b?c"));
    assert_eq!(("/", ""), parts("*"));
    assert_eq!(("/", "x"), parts("?x"));
    let mut room = Vec::new();
    assert_eq!(b"/b", normal_path("/a/../%62?x", &mut room));
    assert_eq!("[::1]", host_of("[::1]:80"));
    assert_eq!("a.b", host_of("a.b.:80"));
}

#[test]
fn the_wildcard_part_of_a_host() {
    let check = |hosts: &[&str], authority: &str, expect: &str| {
        let hosts: Vec<String> = hosts.iter().map(|it| (*it).to_owned()).collect();
        let view = RequestView { authority, hosts: &hosts, ..view() };
        assert_eq!(expect, view.wildcard(), "{authority} for {hosts:?}");
    };
    check(&["*.example.com"], "shop.Example.com:8080", "shop");
    check(&["*.example.com"], "a.b.example.com.", "a.b");
    check(&["example.com", "*.example.com"], "example.com", "");
    check(&["*.example.com", "www.example.com"], "WWW.example.com", "");
    check(&["*.example.com", "*.b.example.com"], "a.b.example.com", "a");
    check(&["*"], "any.test:81", "any.test");
    check(&["*", "*.test"], "any.test", "any");
    check(&["example.com"], "other.test", "");
    check(&[], "other.test", "");
    check(&["*.\u{e9}x"], "\u{e9}", "");
}

#[test]
fn the_fields_that_a_condition_reads() {
    let check = |text: &str, expect: &[&str]| {
        let it = Expression::parse_about(ExpressionSubject::Request, text).unwrap();
        assert_eq!(expect, it.fields(), "{text}");
    };
    check(r#"method == "GET" && client in "10.0.0.0/8" && query.a == "" && header.Host == "a""#, &[]);
    check(
        r#"!(header.Accept ~ "json" || cookie.a == "1") && header["X-A"] != """#,
        &["Accept", "Cookie", "X-A"],
    );
}

proptest! {
    #[test]
    fn never_panics(text in "[a-z\"\\\\()!&|<>=~\\[\\],. 0-9\u{e4}-]{0,40}") {
        if let Ok(expression) = Expression::parse_about(ExpressionSubject::Request, &text) {
            let _ = expression.holds(&view());
        }
    }

    #[test]
    fn words_in_any_order_never_panic(words in proptest::collection::vec(proptest::sample::select(vec![
        "method", "header", "[", "]", ".", "\"x\"", "\"", "==", "~", "in", ",", "1", "(", ")", "!", "&&", "||", "client", "query", "cookie", "\\",
    ]), 0..12)) {
        let text = words.join(" ");
        match Expression::parse_about(ExpressionSubject::Request, &text) {
            Ok(expression) => drop(expression.holds(&view())),
            Err(error) => prop_assert!(error.column <= text.chars().count() + 1 && !error.sentence.is_empty()),
        }
    }

    #[test]
    fn any_request_can_be_asked(target in "\\PC{0,30}", authority in "\\PC{0,300}", cookie in proptest::collection::vec(any::<u8>(), 0..40)) {
        let fields = [Field { name: "cookie", value: &cookie }];
        let view = RequestView { target: &target, authority: &authority, fields: &fields, ..view() };
        for text in [r#"host == "x" || url ~ "y$""#, r#"query.a == "b" || cookie.a ~ "b.""#] {
            let _ = Expression::parse_about(ExpressionSubject::Request, text).unwrap().holds(&view);
        }
    }
}

/// Small tests over few values, so that they often contradict one another.
fn a_test() -> impl Strategy<Value = String> {
    prop_oneof![
        "path (==|!=|contains) \"/[ab]{0,2}\"",
        "path !?~ \"\\^/[ab]?\"",
        "client in \"10\\.[01]\\.0\\.[01](/(8|16|31))?\"",
        "client == \"10\\.[01]\\.0\\.[01]\"",
        "method (==|!=) \"(GET|PUT)\"",
        "header\\.x (==|!=) \"[12]\"",
    ]
}

proptest! {
    #[test]
    fn an_expression_that_a_request_fulfils_is_possible(
        tests in proptest::collection::vec((a_test(), any::<bool>()), 1..5),
        is_all in any::<bool>(),
        path in "/[ab]{0,2}", client in "10\\.[01]\\.0\\.[01]", method in "(GET|PUT|POST)", x in "[12]?",
    ) {
        let joined: Vec<_> = tests.iter().map(|it| if it.1 { it.0.clone() } else { format!("!({})", it.0) }).collect();
        let parsed = condition(&joined.join(if is_all { " && " } else { " || " }));
        let fields = [Field { name: "x", value: x.as_bytes() }];
        let view = RequestView {
            path: path.as_bytes(), client: client.parse().ok(), method: &method, fields: &fields, ..RequestView::default()
        };
        let truth = parsed.holds(&view);
        let all = [(&parsed, truth)];
        prop_assert!(Expression::are_possible(&all, &RequestDomain::ALL), "{} is {truth} for {view:?}", parsed.text());
    }
}

fn condition(text: &str) -> Expression {
    Expression::parse_about(ExpressionSubject::Request, text).unwrap_or_else(|it| panic!("{text}: {it}"))
}
