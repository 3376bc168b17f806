//! Tables for storing, rule by rule, and the law: larder stores only responses that RFC 9111 §3 allows to be stored, by
//! an oracle that was written from its text alone.

use super::*;
use crate::field::FieldList;
use crate::testing::{NOW, head};
use crate::trace::{RuleRecord, Silent};
use proptest::prelude::*;

const URI: Uri<'static> = Uri { scheme: "http", authority: "a.example", target: "/d/p?q" };

fn verdict(request: &str, status: u16, response: &str, policy: &Policy) -> &'static str {
    let (method, fields) = request.split_once(" | ").unwrap_or((request, ""));
    let (request, response) = (head(fields), head(response));
    let request_fields = request.view();
    let facts = RequestFacts::read(method, &request_fields).with_uri(URI.scheme, URI.authority, URI.target);
    decide(&facts, status, &response.view(), policy, NOW, NOW, &mut Silent).name()
}

/// `status | response` to a plain GET, under the default policy.
#[track_caller]
fn check(text: &str, expect: &str) {
    let (status, response) = text.split_once(" | ").unwrap_or((text, ""));
    let found = verdict("GET", status.parse().unwrap(), response, &Policy::default());
    assert_eq!(expect, found, "{text}");
}

/// `request` answered by a 200 with `response`.
#[track_caller]
fn asked(request: &str, response: &str, expect: &str) {
    assert_eq!(expect, verdict(request, 200, response, &Policy::default()), "{request} -> {response}");
}

#[track_caller]
fn under(policy: &Policy, text: &str, expect: &str) {
    let (status, response) = text.split_once(" | ").unwrap_or((text, ""));
    assert_eq!(expect, verdict("GET", status.parse().unwrap(), response, policy), "{text}");
}

#[test]
fn lifetimes_and_uselessness() {
    check("200 | Cache-Control: max-age=60", "store");
    check("200 | Cache-Control: s-maxage=60", "store");
    check("200 | Expires: @60", "store");
    check("200 | Last-Modified: @-1000", "store");
    check("200 | CDN-Cache-Control: max-age=60 | Cache-Control: no-store", "store");
    check("200 | CDN-Cache-Control: no-store | Cache-Control: max-age=60", "no-store");
    check("200 | CDN-Cache-Control: max-age=60, &&& | Cache-Control: no-store", "no-store");
    check("200 | CDN-Cache-Control: max-age=\"60\" | Cache-Control: no-store", "no-store");
    check("200", "useless");
    check("200 | Cache-Control: public", "useless");
    check("200 | Cache-Control: max-age=0", "useless");
    check("200 | Cache-Control: max-age=60 | Age: 60", "useless");
    check("200 | Expires: 0", "useless");
    check("200 | ETag: \"a\"", "store");
    check("200 | Cache-Control: max-age=0 | ETag: \"a\"", "store");
    check("200 | Cache-Control: max-age=0 | ETag: a b\"", "useless");
    check("200 | Cache-Control: max-age=60 | Age: 60 | Last-Modified: @-5", "store");
    check("200 | Cache-Control: max-age=60, no-cache", "useless");
    check("200 | Cache-Control: max-age=60, no-cache | ETag: \"a\"", "store");
    check("200 | Cache-Control: max-age=60, no-cache=\"a\"", "store");
    check("200 | Cache-Control: max-age=0, stale-while-revalidate=9", "store");
    check("200 | Cache-Control: max-age=0, stale-if-error=9", "store");
    check("200 | Cache-Control: max-age=0, stale-if-error=9, must-revalidate", "useless");
    check("200 | Cache-Control: max-age=0, stale-while-revalidate=9 | Age: 9", "useless");
    check("200 | Pragma: no-cache | Cache-Control: max-age=60", "store");
    check("200 | Pragma: no-cache | Last-Modified: @-1000", "store");
    check("200 | Cache-Control: max-age=60, immutable", "store");
}

#[test]
fn statuses() {
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        check(&format!("{status} | Last-Modified: @-1000"), "store");
        check(&format!("{status}"), "useless");
    }
    for status in [201, 202, 299, 302, 303, 307, 403, 418, 451, 499, 500, 502, 503, 504, 599, 999] {
        check(&format!("{status} | Last-Modified: @-1000 | ETag: \"a\""), "no-lifetime");
        check(&format!("{status} | Last-Modified: @-1000 | Cache-Control: public"), "store");
        check(&format!("{status} | Cache-Control: max-age=60"), "store");
        check(&format!("{status} | Expires: @60"), "store");
    }
    // Not final, or about one request's conditions, credentials, ranges or form.
    for status in [
        0, 99, 100, 101, 103, 199, 304, 400, 401, 407, 408, 412, 413, 415, 416, 417, 421, 425, 426, 428, 429,
        431,
    ] {
        check(&format!("{status} | Cache-Control: public, max-age=60 | ETag: \"a\""), "status");
    }
}

#[test]
fn errors_that_an_odd_request_provokes() {
    let policy = Policy::default();
    let huge = format!("GET | X-Huge: {}", "a".repeat(9000));
    for status in [400, 403, 404, 405, 410, 500, 502] {
        assert_eq!("status", verdict(&huge, status, "Cache-Control: max-age=60", &policy));
    }
    for status in [200, 301] {
        assert_eq!("store", verdict(&huge, status, "Cache-Control: max-age=60", &policy));
    }
    asked("GET | X-HTTP-Method-Override: DELETE", "Cache-Control: max-age=60", "method");
}

#[test]
fn forbidden_by_the_response() {
    check("200 | Cache-Control: no-store", "no-store");
    check("200 | Cache-Control: No-StOrE", "no-store");
    check("200 | Cache-Control: max-age=10000, no-store | Expires: @10000", "no-store");
    check("200 | Cache-Control: private, max-age=60", "private");
    check("200 | Cache-Control: private=\"a\", max-age=60", "store");
    check("200 | Cache-Control: private=\"a b\", max-age=60", "private");
    check("200 | CDN-Cache-Control: private | Cache-Control: max-age=60", "private");
    check("200 | Cache-Control: max-age=60 | Vary: *", "vary-star");
    check("200 | Cache-Control: max-age=60 | Vary: Foo | Vary: *", "vary-star");
    check("200 | Cache-Control: max-age=60 | Vary: Foo", "store");
    check("200 | Cache-Control: max-age=60 | Set-Cookie: a=b", "set-cookie");
    check("200 | Cache-Control: max-age=60, no-cache=\"Set-Cookie\" | Set-Cookie: a=b", "store");
    check("200 | Cache-Control: max-age=60, private=\"set-cookie\" | Set-Cookie: a=b", "store");
    under(
        &Policy { store_set_cookie: true, ..Policy::default() },
        "200 | Cache-Control: max-age=60 | Set-Cookie: a=b",
        "store",
    );
    check("200 | Cache-Control: max-age=60 | Content-Length: 67108865", "too-large");
    check("200 | Cache-Control: max-age=60 | Content-Type: Text/Event-Stream ;charset=utf-8", "endless");
    check("200 | Cache-Control: max-age=60 | Content-Type: text/event-stream | Content-Length: 9", "store");
    check("200 | Cache-Control: max-age=60 | Content-Type: text/event-streams", "store");
    check("200 | Cache-Control: max-age=60 | Content-Length: 67108864", "store");
}

#[test]
fn a_redirect_to_its_own_request_is_a_loop() {
    for status in [301, 302, 303, 307, 308] {
        for own in ["/d/p?q", "http://a.example/d/p?q", "HTTP://A.Example:80/d/p?q", "p?q", "", "/d/p?q#top"]
        {
            check(&format!("{status} | Location: {own} | Cache-Control: max-age=60"), "redirect-loop");
        }
        check(&format!("{status} | Location: /d/p?q | Cache-Control: private, no-store"), "redirect-loop");
        for other in ["/d/p", "https://a.example/d/p?q", "http://b.example/d/p?q", "?r"] {
            check(&format!("{status} | Location: {other} | Cache-Control: max-age=60"), "store");
        }
        // The next request has the cookie; a page behind a form is fetched by GET.
        let cookie = "Location: /d/p?q | Set-Cookie: seen=1 | Cache-Control: max-age=60";
        check(&format!("{status} | {cookie}"), "set-cookie");
        let found =
            verdict("POST", status, "Location: /d/p?q | Cache-Control: max-age=60", &Policy::default());
        assert_eq!("status", found, "{status}");
    }
    check("200 | Location: /d/p?q | Cache-Control: max-age=60", "store");
}

#[test]
fn must_understand_takes_the_place_of_no_store() {
    check("200 | Cache-Control: max-age=60, no-store, must-understand", "store");
    check("404 | Cache-Control: max-age=60, no-store, must-understand", "store");
    check("599 | Cache-Control: max-age=60, no-store, must-understand", "status");
    check("599 | Cache-Control: max-age=60, must-understand", "status");
    check("200 | Cache-Control: max-age=60, no-store, must-understand=1", "no-store");
    check("200 | CDN-Cache-Control: max-age=60, no-store, must-understand", "store");
}

#[test]
fn forbidden_by_the_request() {
    asked("GET", "Cache-Control: max-age=60", "store");
    for method in ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "get", "FOO", "CONNECT"] {
        asked(method, "Cache-Control: max-age=60, public", "method");
    }
    asked("GET | Content-Length: 3", "Cache-Control: max-age=60", "request-body");
    asked("GET | Transfer-Encoding: chunked", "Cache-Control: max-age=60", "request-body");
    asked("GET | Content-Length: 0", "Cache-Control: max-age=60", "store");
    asked("GET | Cache-Control: no-store", "Cache-Control: max-age=60", "request-no-store");
    asked("GET | Cache-Control: no-cache", "Cache-Control: max-age=60", "store");
    asked("GET | Cookie: a=b", "Cache-Control: max-age=60", "store");
    asked("GET | Authorization: x", "Cache-Control: max-age=60", "authorization");
    asked("GET | Authorization: x", "Expires: @60", "authorization");
    asked("GET | Authorization: x", "Cache-Control: max-age=60, proxy-revalidate", "authorization");
    asked("GET | Authorization: x", "Cache-Control: max-age=60, public", "store");
    asked("GET | Authorization: x", "Cache-Control: max-age=60, must-revalidate", "store");
    asked("GET | Authorization: x", "Cache-Control: s-maxage=60", "store");
    asked("GET | Authorization: x", "Cache-Control: public | CDN-Cache-Control: max-age=60", "authorization");
    let ignore =
        Policy { request_directives: crate::policy::RequestDirectivePolicy::Ignore, ..Policy::default() };
    assert_eq!("store", verdict("GET | Cache-Control: no-store", 200, "Expires: @60", &ignore));
}

/// A response is shared if it says so, or the route does: neither a guess nor a validator makes one visitor's page another's.
#[test]
fn a_response_to_credentials_is_shared_only_if_it_or_the_route_allows_it() {
    for credentials in ["Cookie: sid=1", "Cookie: a=1 | Cookie: b=2"] {
        let request = format!("GET | {credentials}");
        for silent in [
            "ETag: W/\"a\"",
            "Last-Modified: @-100000",
            "Last-Modified: @-100000 | ETag: \"a\" | Vary: Cookie",
            "Cache-Control: max-age=0 | ETag: \"a\"",
            "Cache-Control: s-maxage=0 | ETag: \"a\"",
            "Cache-Control: must-revalidate | ETag: \"a\"",
            "Cache-Control: max-age=60, no-cache | ETag: \"a\"",
            "Cache-Control: max-age=0, stale-if-error=60, stale-while-revalidate=60",
            "Expires: 0 | Last-Modified: @-100000",
            "Expires: @-60 | ETag: \"a\"",
            "Expires: @-3600 | Date: @-7200 | ETag: \"a\"",
            "CDN-Cache-Control: max-age=0 | Cache-Control: public, max-age=60 | ETag: \"a\"",
        ] {
            asked(&request, silent, "credentials");
            asked("GET", silent, "store");
        }
        for shared in [
            "Cache-Control: public | ETag: \"a\"",
            "Cache-Control: public, max-age=0 | ETag: \"a\"",
            "Cache-Control: public | Last-Modified: @-100000",
            "Cache-Control: s-maxage=60",
            "Cache-Control: max-age=60",
            "CDN-Cache-Control: max-age=60",
            "Expires: @60",
        ] {
            asked(&request, shared, "store");
        }
        for policy in [
            Policy { default_ttl: Some(60), ..Policy::default() },
            Policy { override_ttl: Some(60), ..Policy::default() },
            Policy { status_ttl: vec![(200, 60)], ..Policy::default() },
        ] {
            assert_eq!("store", verdict(&request, 200, "", &policy));
        }
        let heuristic = Policy { heuristic_percent: 50, stale_while_revalidate: 60, ..Policy::default() };
        assert_eq!("credentials", verdict(&request, 200, "Last-Modified: @-100000", &heuristic));
        assert_eq!("credentials", verdict(&request, 200, "", &heuristic));
    }
    asked(
        "GET | Authorization: x",
        "Cache-Control: must-revalidate | Last-Modified: @-100000",
        "credentials",
    );
    asked("GET | Authorization: x", "Cache-Control: max-age=0, must-revalidate | ETag: \"a\"", "credentials");
}

#[test]
fn cookies_that_the_route_takes_out_or_has_in_the_key_do_not_count() {
    let check = |policy: &Policy, request: &str, expect: &str| {
        assert_eq!(expect, verdict(request, 200, "Last-Modified: @-100000", policy), "{request}");
    };
    let private = Policy { private_cookies: vec!["sid*".to_owned()], ..Policy::default() };
    check(&private, "GET | Cookie: _ga=1; theme=dark", "store");
    check(&private, "GET | Cookie: _ga=1; sid_x=1", "credentials");
    check(&private, "GET | Cookie: _ga=1 | Authorization: x", "authorization");
    let recipe = |headers: &[&str], cookies: &[&str]| crate::key::KeyRecipe {
        headers: headers.iter().map(|it| (*it).to_owned()).collect(),
        cookies: cookies.iter().map(|it| (*it).to_owned()).collect(),
        ..Default::default()
    };
    let keyed = Policy { key: recipe(&[], &["currency"]), ..Policy::default() };
    check(&keyed, "GET | Cookie: currency=EUR", "store");
    check(&keyed, "GET | Cookie: currency=EUR; sid=1", "credentials");
    check(&keyed, "GET | Cookie: Currency=EUR", "credentials");
    let whole = Policy { key: recipe(&["cookie"], &[]), ..Policy::default() };
    check(&whole, "GET | Cookie: sid=1", "store");
    check(&Policy::default(), "GET | Cookie: ", "store");
    check(&Policy::default(), "GET | Cookie: ; ;", "store");
    check(&Policy::default(), "GET | Cookie: sid", "credentials");
}

#[test]
fn post_answers_need_their_own_content_location() {
    for own in ["/d/p?q", "http://a.example/d/p?q", "HTTP://A.Example:80/d/p?q", "p?q", "?q", ""] {
        asked("POST | Content-Length: 3", &format!("Expires: @60 | Content-Location: {own}"), "store");
    }
    for other in ["/d/p", "/", "https://a.example/d/p?q", "http://b.example/d/p?q", "?r", "//x/d/p?q", "é"] {
        asked("POST", &format!("Expires: @60 | Content-Location: {other}"), "method");
    }
    asked("POST", "Expires: @60", "method");
    for status in [301, 303, 308, 403, 404, 410, 500, 502, 503, 599] {
        let fields = "Cache-Control: max-age=60 | Content-Location: /d/p?q";
        assert_eq!("status", verdict("POST", status, fields, &Policy::default()), "{status}");
        assert_eq!("store", verdict("GET", status, fields, &Policy::default()), "{status}");
        let by_config = Policy { status_ttl: vec![(status, 60)], ..Policy::default() };
        assert_eq!("status", verdict("POST", status, fields, &by_config), "{status}");
    }
    asked("POST", "Expires: @60 | Content-Location: /d/p?q | Content-Location: /d/p?q", "method");
    asked("POST", "Last-Modified: @-1000 | Content-Location: /d/p?q", "method");
    asked("POST", "Cache-Control: public | ETag: \"a\" | Content-Location: /d/p?q", "method");
}

#[test]
fn partial_responses() {
    let partial = |request: &str, response: &str| verdict(request, 206, response, &Policy::default());
    let range = "GET | Range: bytes=0-4";
    assert_eq!("store", partial(range, "Cache-Control: max-age=60 | Content-Range: bytes 0-4/10"));
    assert_eq!("partial", partial(range, "Cache-Control: max-age=60"));
    assert_eq!("partial", partial(range, "Cache-Control: max-age=60 | Content-Range: bytes 4-0/10"));
    assert_eq!("partial", partial("GET", "Cache-Control: max-age=60 | Content-Range: bytes 0-4/10"));
}

#[test]
fn the_route_has_a_say() {
    under(&Policy { enabled: false, ..Policy::default() }, "200 | Cache-Control: max-age=60", "disabled");
    let ttl = Policy { default_ttl: Some(60), status_ttl: vec![(503, 5)], ..Policy::default() };
    under(&ttl, "200", "store");
    under(&ttl, "404", "store");
    under(&ttl, "503", "store");
    under(&ttl, "500", "no-lifetime");
    under(&ttl, "302", "no-lifetime");
    let over = Policy { override_ttl: Some(60), ..Policy::default() };
    under(&over, "200 | Cache-Control: no-cache, max-age=0", "store");
    under(&over, "200 | Cache-Control: no-store", "no-store");
    under(&over, "200 | Cache-Control: private", "private");
    under(&over, "200 | Set-Cookie: a=b", "set-cookie");
    let swr = Policy { stale_while_revalidate: 9, ..Policy::default() };
    under(&swr, "200 | Cache-Control: max-age=0", "useless");
    under(&swr, "200", "useless");
    under(&swr, "200 | Cache-Control: max-age=0, stale-while-revalidate=9", "store");
    under(&Policy { default_ttl: Some(1), ..swr }, "200", "store");
}

#[test]
fn each_rule_is_recorded_in_order_up_to_the_one_that_decides() {
    let list = head("Cache-Control: max-age=60, private");
    let facts = RequestFacts::read("GET", &[]);
    let mut report = RuleRecord::default();
    let _ = decide(&facts, 200, &list.view(), &Policy::default(), NOW, NOW, &mut report);
    let names: Vec<_> = report.0.iter().map(|it| it.name).collect();
    let expect = vec![
        "disabled",
        "method",
        "request-body",
        "request-no-store",
        "status",
        "must-understand",
        "no-store",
        "private",
    ];
    assert_eq!(expect, names);
    let last = report.0.last().unwrap();
    assert_eq!((RuleOutcome::Decided, "RFC 9111 §5.2.2.7"), (last.outcome, last.source));
    assert_eq!("Cache-Control: max-age=60, private", last.evidence);
}

/// RFC 9111 §3 sentence by sentence, written apart from the code above: it looks at directives as
/// lower-case text, takes nothing from the library, and knows nothing of configuration. Its inputs are
/// well-formed and without duplicates.
mod oracle {
    #[derive(Debug)]
    pub(super) struct Head {
        pub method: &'static str,
        pub request: Vec<(&'static str, String)>,
        pub status: u16,
        pub response: Vec<(&'static str, String)>,
    }

    impl Head {
        fn asked(&self, name: &str) -> Option<&str> {
            self.request.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
        }

        fn said(&self, name: &str) -> Option<&str> {
            self.response.iter().find(|it| it.0 == name).map(|it| it.1.as_str())
        }

        fn directive(text: Option<&str>, name: &str) -> bool {
            text.unwrap_or("").split(", ").any(|it| it == name || it.starts_with(&format!("{name}=")))
        }

        fn has(&self, name: &str) -> bool {
            Self::directive(self.said("Cache-Control"), name)
        }

        /// "A cache MUST NOT store a response to a request unless:"
        pub(super) fn storable(&self) -> bool {
            // "the request method is understood by the cache"
            let method = self.method == "GET";
            // "the response status code is final"
            let is_final = self.status >= 200;
            // "if the response status code is 206 or 304, or the must-understand cache directive is present:
            // the cache understands the response status code"
            let special = self.status == 206 || self.status == 304 || self.has("must-understand");
            let understood = match self.status {
                206 => self.said("Content-Range").is_some() && self.asked("Range").is_some(),
                304 | 599 => false,
                _ => true,
            };
            // "the no-store cache directive is not present in the response" — §5.2.2.3: or ignored
            let no_store = self.has("no-store") && !(self.has("must-understand") && understood);
            let asked_no_store = Self::directive(self.asked("Cache-Control"), "no-store");
            // "if the cache is shared: the private response directive is either not present or allows a
            // shared cache to store a modified response"
            let private = self.said("Cache-Control").unwrap_or("").split(", ").any(|it| it == "private");
            // "if the cache is shared: the Authorization header field is not present in the request or a
            // response directive is present that explicitly allows shared caching"
            let may_share = self.has("must-revalidate") || self.has("public") || self.has("s-maxage");
            let authorization = self.asked("Authorization").is_none() || may_share;
            // DESIGN §5, "private by default": what the origin made for a visitor whose credentials it saw is shared by its own word.
            let credentials = self.asked("Authorization").is_some() || self.asked("Cookie").is_some();
            let fresh = match (self.has("s-maxage"), self.has("max-age")) {
                (true, _) => true,
                (false, true) => self.has("max-age=60"),
                (false, false) => self.said("Expires").is_some(),
            };
            let shared = !credentials || self.has("public") || fresh && !self.has("no-cache");
            // "the response contains at least one of the following"
            let heuristic =
                [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501].contains(&self.status);
            let one_of = self.has("public")
                || self.said("Expires").is_some()
                || self.has("max-age")
                || self.has("s-maxage")
                || heuristic;
            // §4.1: what varies on everything is never matched again.
            let matched = self.said("Vary") != Some("*");
            method
                && is_final
                && (!special || understood)
                && !no_store
                && !asked_no_store
                && !private
                && authorization
                && shared
                && one_of
                && matched
        }
    }
}

fn any_directives() -> impl Strategy<Value = Option<String>> {
    let names = prop::sample::subsequence(
        vec![
            "max-age=60",
            "max-age=0",
            "s-maxage=60",
            "no-store",
            "no-cache",
            "private",
            "private=\"x-user\"",
            "public",
            "must-revalidate",
            "proxy-revalidate",
            "must-understand",
            "immutable",
            "stale-if-error=60",
            "unknown=\"no store, private\"",
        ],
        0..5,
    );
    prop::option::of(names.prop_filter_map("one max-age", |it| {
        let ages = it.iter().filter(|it| it.starts_with("max-age")).count();
        let privates = it.iter().filter(|it| it.starts_with("private")).count();
        let quoted = it.iter().any(|it| it.starts_with("unknown"));
        // The oracle splits at every comma, so the quoted one stands alone.
        (ages <= 1 && privates <= 1 && (!quoted || it.len() == 1)).then(|| it.join(", "))
    }))
}

fn any_head() -> impl Strategy<Value = oracle::Head> {
    let status = prop::sample::select(vec![
        100u16, 103, 200, 200, 200, 203, 204, 206, 206, 301, 302, 304, 307, 400, 403, 404, 410, 500, 501,
        503, 599,
    ]);
    let request = (prop::bool::ANY, prop::bool::ANY, prop::bool::ANY, prop::bool::ANY);
    let fields = (prop::bool::ANY, prop::bool::ANY, prop::bool::ANY, prop::bool::ANY, 0u8..4);
    let method = prop::sample::select(vec!["GET", "GET", "GET", "PUT", "DELETE", "FOO"]);
    (method, status, any_directives(), request, fields).prop_map(
        |(
            method,
            status,
            directives,
            (authorization, cookie, no_store, range),
            (etag, modified, expires, part, vary),
        )| {
            let line = |present: bool, name, value: &str| present.then(|| (name, value.to_owned()));
            let request = [
                line(authorization, "Authorization", "x"),
                line(cookie, "Cookie", "sid=1"),
                line(no_store, "Cache-Control", "no-store"),
                line(range, "Range", "bytes=0-4"),
            ];
            let response = [
                directives.map(|it| ("Cache-Control", it)),
                line(etag, "ETag", "\"a\""),
                line(modified, "Last-Modified", &crate::date::format(crate::testing::at(-1000))),
                line(expires, "Expires", &crate::date::format(crate::testing::at(60))),
                line(part, "Content-Range", "bytes 0-4/10"),
                line(vary == 1, "Vary", "*"),
                line(vary == 2, "Vary", "Accept, X-Foo"),
            ];
            oracle::Head {
                method,
                status,
                request: request.into_iter().flatten().collect(),
                response: response.into_iter().flatten().collect(),
            }
        },
    )
}

fn fields(lines: &[(&'static str, String)]) -> FieldList {
    let mut list = FieldList::new();
    for (name, value) in lines {
        list.push(name, value);
    }
    list
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn every_stored_response_may_be_stored_by_rfc_9111(it in any_head()) {
        let (request, response) = (fields(&it.request), fields(&it.response));
        let request = request.view();
        let facts = RequestFacts::read(it.method, &request);
        let verdict = decide(&facts, it.status, &response.view(), &Policy::default(), NOW, NOW, &mut Silent);
        match verdict {
            Storable::Store => prop_assert!(it.storable(), "stored: {:?} {:?}", it.status, response),
            // Allowed, but it could never be used; or a 206 that the oracle, too, cannot place.
            Storable::Refuse(NotStorable::Useless) => {}
            // Allowed, and not done: what provoked it is in no key (decision 0040).
            Storable::Refuse(NotStorable::Status) if it.status == 400 => {}
            Storable::Refuse(why) => prop_assert!(!it.storable(), "{why:?}: {} {:?}", it.status, response),
        }
    }

    #[test]
    fn any_bytes_are_decided(
        status: u16,
        names in prop::collection::vec(0usize..16, 0..8),
        values in prop::collection::vec(any::<Vec<u8>>(), 8),
        method in "GET|POST|HEAD",
    ) {
        const NAMES: [&str; 16] = [
            "Cache-Control", "CDN-Cache-Control", "Expires", "Date", "Age", "Vary", "ETag", "Last-Modified",
            "Content-Range", "Content-Length", "Content-Location", "Set-Cookie", "Connection", "Pragma", "Range",
            "Authorization",
        ];
        let fields: Vec<_> =
            names.iter().zip(&values).map(|(name, value)| Field { name: NAMES[*name], value }).collect();
        let facts = RequestFacts::read(&method, &fields).with_uri(URI.scheme, URI.authority, URI.target);
        let policy = Policy::default();
        let _ = decide(&facts, status, &fields, &policy, NOW, NOW, &mut RuleRecord::default());
        let meta = crate::stored::Meta::of(status, &fields, &policy, NOW, NOW);
        let kept = crate::stored::stored_fields(&fields, &policy, NOW);
        let _ = crate::reuse::decide(Ok(&meta), &facts, &policy, NOW, &mut RuleRecord::default());
        let _ = crate::freshen::selects(&meta, &fields, true);
        let _ = crate::freshen::apply(&kept, &meta, &fields, &policy, NOW, NOW);
    }
}
