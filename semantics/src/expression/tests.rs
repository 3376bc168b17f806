//! The meaning of conditions, and the errors about invalid ones.

use super::*;
use proptest::prelude::*;

struct Page {
    key: &'static str,
    status: i64,
    ttl: i64,
}

const PAGE: Page =
    Page { key: "http://www.example.com:8080/a/b.html?x=1&y=2 h:lang=de", status: 404, ttl: -300 };

impl ExpressionFacts for Page {
    fn text(&self, name: TextName, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        part_of_key(self.key.as_bytes(), name).is_some_and(test)
    }

    fn number(&self, name: Number) -> Option<i64> {
        match name {
            Number::Status => Some(self.status),
            Number::Age => Some(90),
            Number::Ttl => Some(self.ttl),
            _ => None,
        }
    }

    fn has_tag(&self, tag: &str) -> bool {
        tag == "red"
    }

    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let lines: &[&[u8]] = match name.to_ascii_lowercase().as_str() {
            "content-type" => &[b"text/html"],
            "link" => &[b"one", b"two"],
            "odd" => &[b"\xff\"\\"],
            _ => &[],
        };
        lines.iter().any(|it| test(it))
    }
}

#[track_caller]
fn check(text: &str, expect: bool) {
    let expression = Expression::parse(text).unwrap_or_else(|it| panic!("{text}\n{it}"));
    assert_eq!(expect, expression.holds(&PAGE), "{text}");
    let negated = Expression::parse(&format!("!({text})")).unwrap();
    assert_eq!(!expect, negated.holds_for_each(&PAGE), "not {text}");
    assert_eq!(text, expression.text());
}

#[test]
fn texts() {
    check(r#"key == "http://www.example.com:8080/a/b.html?x=1&y=2 h:lang=de""#, true);
    check(r#"scheme == "http""#, true);
    check(r#"host == "www.example.com""#, true);
    check(r#"path == "/a/b.html""#, true);
    check(r#"query == "x=1&y=2""#, true);
    check(r#"path != "/a""#, true);
    check(r#"path contains "b.""#, true);
    check(r#"path contains "B.""#, false);
    check(r#"path contains """#, true);
    check(r#"path contains "/a/b.html/and/more""#, false);
    check(r#"key ~ "^https?://www\.""#, true);
    check(r#"key ~ "^https?://www\\.""#, true);
    check(r#"host ~ "example""#, true);
    check(r#"host ~ "^example""#, false);
    check(r#"host !~ "^example""#, true);
    check(r#"host ~ "(?i)EXAMPLE""#, true);
    check(r#"path ~ "\d""#, false);
    check(r#"query ~ "y=\d$""#, true);
}

#[test]
fn parts_of_odd_keys() {
    let check = |key, text: &str| {
        let page = Page { key, ..PAGE };
        assert!(Expression::parse(text).unwrap().holds(&page), "{key}: {text}");
    };
    check("https://[::1]:8443/x", r#"host == "[::1]" && path == "/x" && query == """#);
    check("https://[::1]/x", r#"host == "[::1]""#);
    check("http://*/x?", r#"host == "*" && query == """#);
    check("http://h *", r#"host == "h" && path == """#);
    check("http://h/a\\20b?c d:e=f?g", r#"path == "/a\\20b" && query == "c""#);
    check("odd", r#"scheme == "odd" && host == """#);
    check("", r#"key == "" && scheme == """#);
}

#[test]
fn numbers() {
    check("status == 404", true);
    check("status != 404", false);
    check("status < 404 || status > 404", false);
    check("status <= 404 && status >= 404", true);
    check("status >= 400 && status < 500", true);
    check("age > 60s", true);
    check("age > 1m29s && age<=90", true);
    check("age >= 2m", false);
    check("ttl == -5m", true);
    check("ttl < -299 && ttl > -1h", true);
    check("ttl<0", true);
    check("status in [301, 404]", true);
    check("status in [404,] && ttl in [-5m]", true);
    check("status in [200, 301]", false);
    check("size in [0]", false);
    // Not known.
    check("size < 1KiB", false);
    check("size >= 1KiB", false);
    for operator in ["==", "!=", "<", "<=", ">", ">="] {
        check(&format!("size {operator} 0"), false);
    }
}

#[test]
fn tags_and_headers() {
    check(r#"tag == "red""#, true);
    check(r#"tag != "red""#, false);
    check(r#"tag == "Red""#, false);
    check(r#"header["Content-Type"] == "text/html""#, true);
    check(r#"header["content-type"] ~ "^text/""#, true);
    check(r#"header["link"] == "two" && header["link"] == "one""#, true);
    // Each of several lines may make it true, and its negation as well.
    check(r#"header["link"] != "two""#, true);
    check(r#"header["link"] != "two" && header["link"] != "one""#, true);
    // A missing field is the empty text.
    check(r#"header["absent"] == """#, true);
    check(r#"header["absent"] != """#, false);
    check(r#"header["absent"] ~ """#, true);
    check(r#"header["absent"] ~ "^$""#, true);
    check(r#"header["absent"] !~ "^($|https?://example\.com/)""#, false);
    check(r#"header["absent"] in ["", "x"]"#, true);
    check(r#"header["absent"] in ["x"]"#, false);
    check(r#"header["absent"] contains "x""#, false);
    check(r#"header["link"] == """#, false);
    check(r#"header["absent"] != "x" && header["absent"] !~ "x""#, true);
    check(r#"header["odd"] contains "\"\\""#, true);
    check(r#"header["odd"] ~ "(?-u)^\xff""#, true);
}

#[test]
fn and_binds_before_or_and_not_before_both() {
    let [yes, no] = ["status == 404", "status == 1"];
    for (a, b, c) in (0..8).map(|it| (it & 1 != 0, it & 2 != 0, it & 4 != 0)) {
        let [x, y, z] = [a, b, c].map(|it| if it { yes } else { no });
        check(&format!("{x} || {y} && {z}"), a || b && c);
        check(&format!("{x} && {y} || {z}"), a && b || c);
        check(&format!("({x} || {y}) && {z}"), (a || b) && c);
        check(&format!("!({x}) && {y}||{z}"), !a && b || c);
        check(&format!("!!({x}) && ({y}) && !{z}"), a && b && !c);
    }
}

#[track_caller]
fn check_error(text: &str, column: usize, sentence: &str) {
    let error = Expression::parse(text).expect_err(text);
    assert_eq!((column, sentence), (error.column, error.sentence.as_str()), "{text}");
}

#[test]
fn errors_name_the_column_and_the_allowed_form() {
    let fields = FIELDS_IN_ERRORS;
    check_error("", 1, &format!("a test is missing; expected {fields}"));
    check_error("status == 404 &&", 17, &format!("a test is missing; expected {fields}"));
    check_error(
        "Status == 404",
        1,
        &format!("unknown name \"Status\"; did you mean status? expected {fields}"),
    );
    check_error("status = 404", 8, "\"=\" has nothing to compare; write ==, !=, <, <=, >, >= or in");
    check_error("status", 7, "a comparison is missing; write ==, !=, <, <=, >, >= or in");
    check_error("status == \"404\"", 11, "unexpected \"404\"; write a number, such as 404");
    check_error("status == 4o4", 11, "unexpected \"4o4\"; write a number, such as 404");
    check_error("status == 60s", 11, "unexpected \"60s\"; write a number, such as 404");
    check_error("age > 1KiB", 7, "unexpected \"1KiB\"; write seconds, or a duration such as 60s or 1h30m");
    check_error("size > 60s", 8, "unexpected \"60s\"; write bytes, or a size such as 1KiB");
    check_error("age >", 6, "a number is missing; write seconds, or a duration such as 60s or 1h30m");
    check_error(
        "status == 99999999999999999999",
        11,
        "unexpected \"99999999999999999999\"; write a number, such as 404",
    );
    check_error("host == www", 9, "\"www\" is not in quotes; write \"www\"");
    check_error("host == ", 9, "a quoted text is missing");
    check_error("host == \"www", 9, "the closing quote is missing");
    check_error("host < \"www\"", 6, "\"<\" has nothing to compare; write ==, !=, ~, !~, contains or in");
    check_error(
        "tag ~ \"x\"",
        5,
        "\"~\" has nothing to compare; a tag can only be compared with == or !=, because only its hash is stored",
    );
    check_error("header == \"x\"", 8, "the name of a field, as in header[\"content-type\"] is missing");
    check_error("header[\"x\" == \"x\"", 12, "a ] after the field name is missing");
    check_error("(status == 1", 13, "a closing ) is missing");
    check_error("status == 1)", 12, "unexpected \")\"; combine tests with && or ||");
    check_error("status == 1 age > 1", 13, "unexpected \"age\"; combine tests with && or ||");
    check_error("status == 1 and age > 1", 13, "unexpected \"and\"; combine tests with && or ||");
    check_error("host == \"\u{e4}\" & tag", 13, "unexpected \"&\"; combine tests with && or ||");
    let escape = |it: &str| format!("unknown escape \\{it}; write \\\\ for a backslash and \\\" for a quote");
    check_error(r#"host == "\x""#, 10, &escape("x"));
    check_error(r#"host == "\\\"ä\n""#, 15, &escape("n"));
    check_error(r#"tag == "a\b""#, 10, &escape("b"));
    check_error(r#"header["a\b"] == "x""#, 10, &escape("b"));
    check_error(r#"host contains "\ä""#, 16, &escape("ä"));
    check_error(r#"host == "\"#, 9, "the closing quote is missing");
    check_error(r#"host ~ "\y""#, 8, "\"\\y\" is not a regular expression: unrecognized escape sequence");
    check_error("host ~ \"(\"", 8, "\"(\" is not a regular expression: unclosed group");
    check_error(
        "host ~ \"(a{99}){99}\"",
        8,
        "the pattern \"(a{99}){99}\" compiles to more than 64 KiB; use fewer repetitions",
    );
}

#[test]
fn a_tag_that_is_needed_is_known() {
    let needed = |text: &str| Expression::parse(text).unwrap().needed_tag().map(str::to_owned);
    assert_eq!(Some("a".to_owned()), needed("tag == \"a\""));
    assert_eq!(Some("a".to_owned()), needed("status == 1 && (tag == \"a\") && tag == \"b\""));
    for it in
        ["tag != \"a\"", "!(tag == \"a\")", "tag == \"a\" || status == 1", "status == 1 && !(tag == \"a\")"]
    {
        assert_eq!(None, needed(it), "{it}");
    }
}

#[test]
fn a_pattern_that_is_a_text_takes_little() {
    let weight = |text: &str| Expression::parse(text).unwrap().weight();
    assert!(weight(r#"path ~ "^/a\.b" || host ~ "\.example$" || path ~ "^/x$" || path ~ "y""#) < 1024);
    assert!(weight(r#"path ~ "^/a.b""#) > 4096);
}

const FIELDS_IN_ERRORS: &str =
    "key, scheme, host, path, query, target, header[\"name\"], tag, status, age, ttl or size";

#[test]
fn conditions_are_bounded() {
    let deep = |n: usize| format!("{}status == 1{}", "(".repeat(n), ")".repeat(n));
    assert!(Expression::parse(&deep(31)).is_ok());
    check_error(&deep(32), 33, "parentheses and ! may be nested 32 levels at most");
    check_error(&"!".repeat(4000), 33, "parentheses and ! may be nested 32 levels at most");
    assert!(Expression::parse(&" ".repeat(4097)).unwrap_err().sentence.contains("limited to 4096 bytes"));
    let many = vec!["host ~ \"x\""; 17].join(" || ");
    check_error(&many, 16 * 14 + 8, "a condition may have at most 16 patterns");
    assert!(Expression::parse(&vec!["status==1"; 300].join("||")).is_ok());
}

#[test]
fn each_subject_has_names_of_its_own() {
    #[track_caller]
    fn check(text: &str, expect: Result<(), &str>) {
        let found = Expression::parse_about(ExpressionSubject::Finished, text);
        assert_eq!(expect.map_err(str::to_owned), found.map(|_| ()).map_err(|it| it.to_string()), "{text}");
    }
    check("status >= 500 && route == \"api\" && cache != \"hit\"", Ok(()));
    check("duration_us > 50ms || origin_us >= 1000 || bytes > 1MiB", Ok(()));
    check("status>=500&&route==\"api\"", Ok(()));
    check("client in \"10.0.0.0/8\" || !(client in \"2001:db8::/32\") && client != \"::1\"", Ok(()));
    check("client in 10.0.0.0/8", Err("column 11: \"10\" is not in quotes; write \"10\""));
    check(
        "client in \"10.0.0/8\"",
        Err("column 11: \"10.0.0/8\" is not a network; write one such as \"10.0.0.0/8\""),
    );
    check(
        "client within \"::/0\"",
        Err("column 8: \"within\" has nothing to compare; write ==, !=, ~, !~, contains or in"),
    );
    check("host in \"::/0\"", Err("column 9: \"::/0\" is not a list; write [\"a\", \"b\"]"));
    check(
        "status == 200 && tag == \"a\"",
        Err(
            "column 18: unknown name \"tag\"; expected status, route, site, method, scheme, host, path, query, url, cache, reason, ttl, bytes, duration_us, origin, origin_us, client, user_agent, referer, end or header[\"name\"]",
        ),
    );
    check(
        "duration_us > slow",
        Err("column 15: unexpected \"slow\"; write microseconds, or a duration such as 50ms"),
    );
    assert!(Expression::parse("route == \"api\"").is_err(), "of a stored response no route is known");
}

proptest! {
    #[test]
    fn a_plain_pattern_matches_as_the_regex_crate(
        pattern in "\\^?(\\\\?[ab/.*+?#~&$-]|[\\[\\]<>ab]){0,4}\\$?",
        page in "[ab/.*+?#~&$<>\n-]{0,6}",
    ) {
        use regex::bytes::RegexBuilder;
        if let (Some(plain), Ok(regex)) =
            (parse::plain(&pattern), RegexBuilder::new(&pattern).unicode(false).build())
        {
            prop_assert_eq!(regex.is_match(page.as_bytes()), plain.holds(page.as_bytes()), "{}", pattern);
        }
    }

    #[test]
    fn never_panics(text in "[a-z\"\\\\()!&|<>=~\\[\\] 0-9\u{e4}-]{0,40}") {
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.holds(&PAGE);
        }
    }

    #[test]
    fn words_in_any_order_never_panic(words in proptest::collection::vec(proptest::sample::select(vec![
        "key", "status", "header", "[", "]", "\"x\"", "\"", "==", "~", "<", "1", "-1", "1s", "(", ")", "!", "&&", "||", "tag", "size", "\\",
    ]), 0..12)) {
        let text = words.join(" ");
        match Expression::parse(&text) {
            Ok(expression) => drop(expression.holds(&PAGE)),
            Err(error) => prop_assert!(error.column <= text.chars().count() + 1 && !error.sentence.is_empty()),
        }
    }
}

#[test]
fn values_of_secrets_are_not_shown() {
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let parsed =
            Expression::parse_about(ExpressionSubject::Request, text).unwrap_or_else(|it| panic!("{it}"));
        assert_eq!((text, expect), (parsed.text(), parsed.shown()));
    }
    for plain in [
        r#"header.Accept == "a" && path ~ "^/x\"\\.""#,
        r#"!(cookie.beta == "1")"#,
        r#"status in [1] || query["p"] != "é""#,
    ] {
        if let Ok(parsed) = Expression::parse_about(ExpressionSubject::Request, plain) {
            assert_eq!(plain, parsed.shown());
        }
    }
    check(r#"header.X-Api-Key == "s3cret""#, r#"header.X-Api-Key == "***""#);
    check(
        r#"path == "/a" && (header["X-Api-Key"] in ["a\"b", "c"] || query.token ~ "^s\"e") && host == "h""#,
        r#"path == "/a" && (header["X-Api-Key"] in ["***", "***"] || query.token ~ "***") && host == "h""#,
    );
    check(
        r#"header.Authorization contains "Bearer é" || cookie.sid_token!="x""#,
        r#"header.Authorization contains "***" || cookie.sid_token!="***""#,
    );
}
