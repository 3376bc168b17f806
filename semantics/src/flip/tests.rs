//! Tables for proposals: their text, and a check that they hold.

use super::*;
use crate::testing::{NOW, at, head};
use proptest::prelude::*;

mod private;

/// `request` answered with `status | response`: the sentences of the smallest change.
#[track_caller]
fn check(policy: &Policy, request: &str, response: &str, expect: &str) {
    let (method, fields) = request.split_once(" | ").unwrap_or((request, ""));
    let (status, response) = response.split_once(" | ").unwrap_or((response, ""));
    let (request, response) = (head(fields), head(response));
    let (request, response) = (request.view(), response.view());
    let exchange = OriginExchange {
        method,
        request: &request,
        answered: &request,
        uri: None,
        status: status.parse().unwrap(),
        response: &response,
        policy,
        request_time: NOW,
        response_time: NOW,
    };
    let found = smallest(&exchange).unwrap_or_default();
    let found: Vec<_> = found.iter().map(FlipChange::sentence).collect();
    assert_eq!(expect, found.join(" "), "{method} {fields} -> {status} {response:?}");
}

#[test]
fn one_change_to_a_response_or_the_route() {
    let rfc = &Policy::default();
    check(rfc, "GET", "200 | Cache-Control: max-age=60", "");
    check(
        rfc,
        "GET",
        "200 | Cache-Control: max-age=60, no-cache=\"a, b\", no-cache",
        "Configure the origin to respond with Cache-Control: max-age=60, no-cache=\"a, b\".",
    );
    check(
        rfc,
        "GET",
        "200 | Cache-Control: max-age=60 | Age: 100",
        "Configure the origin to respond without Age.",
    );
    check(rfc, "GET", "200", "Configure the origin to respond with Cache-Control: max-age=60.");
    let none = &Policy { max_ttl: 0, ..Policy::default() };
    check(none, "GET", "200 | Cache-Control: max-age=60", "Set cache.max_ttl = \"60s\" for the route.");
    check(rfc, "GET", "500", "Configure the origin to respond with Cache-Control: max-age=60.");
    check(
        rfc,
        "GET",
        "200 | Cache-Control: max-age=0, must-revalidate",
        "Configure the origin to respond with Cache-Control: max-age=60, must-revalidate.",
    );
    check(
        rfc,
        "GET",
        "200 | CDN-Cache-Control: max-age=0",
        "Configure the origin to respond with CDN-Cache-Control: max-age=60.",
    );
    check(
        rfc,
        "GET",
        "200 | Expires: 0 | Last-Modified: @-1000",
        "Configure the origin to respond without Expires.",
    );
    let off = Policy { enabled: false, ..Policy::default() };
    check(&off, "GET", "200 | Cache-Control: max-age=60", "Set cache.enabled = true for the route.");
    check(
        rfc,
        "GET",
        "200 | Cache-Control: max-age=60 | Content-Length: 99999999",
        "Set cache.max_object = \"99999999B\" for the route.",
    );
}

#[test]
fn one_change_to_a_request() {
    let rfc = &Policy::default();
    check(
        rfc,
        "GET | Cache-Control: no-store",
        "200 | Expires: @60",
        "Send the request without Cache-Control.",
    );
    check(rfc, "GET | Content-Length: 5", "200 | Expires: @60", "Send the request without a body.");
}

#[test]
fn two_changes_where_one_does_not_do() {
    let rfc = &Policy::default();
    check(
        rfc,
        "GET",
        "200 | Cache-Control: max-age=0 | Content-Length: 99999999",
        "Configure the origin to respond with Cache-Control: max-age=60. Set cache.max_object = \"99999999B\" for the route.",
    );
    check(
        rfc,
        "GET | Cache-Control: no-store",
        "200 | Cache-Control: max-age=0",
        "Send the request without Cache-Control. Configure the origin to respond with Cache-Control: max-age=60.",
    );
}

#[test]
fn a_request_that_forbids_a_hit_is_changed_too() {
    let rfc = &Policy::default();
    let expect = "Send the request without Cache-Control. Configure the origin to respond without Age.";
    for request in ["no-cache", "max-age=0", "min-fresh=1000", "only-if-cached"] {
        let request = format!("GET | Cache-Control: {request}");
        check(rfc, &request, "200 | Cache-Control: max-age=60, must-revalidate | Age: 100", expect);
    }
    check(
        rfc,
        "GET | Pragma: no-cache",
        "200 | Cache-Control: max-age=60 | Age: 100",
        "Send the request without Pragma. Configure the origin to respond without Age.",
    );
    // `Pragma` counts only where `Cache-Control` is gone.
    check(
        rfc,
        "GET | Cache-Control: no-store | Pragma: no-cache",
        "200 | Cache-Control: max-age=60",
        "Set cache.request_directives = \"ignore\" for the route.",
    );
    // What lets the request have it, and what makes it storable.
    check(
        rfc,
        "GET | Cache-Control: no-cache",
        "200 | Cache-Control: max-age=0 | Content-Length: 99999999",
        "Send the request without Cache-Control. Configure the origin to respond with Cache-Control: max-age=60. Set cache.max_object = \"99999999B\" for the route.",
    );
    let ignores = &Policy { request_directives: RequestDirectivePolicy::Ignore, ..Policy::default() };
    check(
        ignores,
        "GET | Cache-Control: no-cache",
        "200 | Cache-Control: max-age=60 | Age: 100",
        "Configure the origin to respond without Age.",
    );
}

#[test]
fn several_changes_are_proposed_if_all_are_required() {
    let rfc = &Policy::default();
    let off = Policy { enabled: false, ..Policy::default() };
    check(
        &off,
        "GET | Content-Length: 5 | Cache-Control: no-store",
        "200 | Cache-Control: max-age=0 | Content-Length: 99999999",
        "Send the request without Cache-Control. Send the request without a body. Configure the origin to respond with Cache-Control: max-age=60. Set cache.enabled = true for the route. Set cache.max_object = \"99999999B\" for the route.",
    );
    // What an origin says thousands of times is not tried thousands of times.
    let many = format!("200 | Cache-Control: {}", "no-cache,".repeat(4000));
    check(rfc, "GET", &many, "Configure the origin to respond with Cache-Control: max-age=60.");
}

#[test]
fn no_change_is_proposed_for_a_method_or_a_status() {
    let rfc = &Policy::default();
    check(rfc, "PUT", "200 | Cache-Control: max-age=60", "");
    check(rfc, "GET", "304 | Cache-Control: max-age=60", "");
}

/// A page of one visitor's is rightly not shared, and no proposal shares it.
#[test]
fn no_change_is_proposed_for_a_page_of_one_visitor() {
    let (rfc, sharing) = (&Policy::default(), &Policy { store_set_cookie: true, ..Policy::default() });
    for policy in [rfc, sharing] {
        for (request, response) in [
            ("GET", "Cache-Control: private"),
            ("GET", "Cache-Control: max-age=60, no-store"),
            ("GET", "Cache-Control: private | Expires: @60"),
            ("GET", "CDN-Cache-Control: no-store"),
            ("GET", "CDN-Cache-Control: max-age=0 | Cache-Control: private"),
            ("GET", "CDN-Cache-Control: Private"),
            ("GET", "Cache-Control: max-age=0 | Set-Cookie: a=b"),
            ("GET", "Cache-Control: max-age=60 | Vary: *"),
            ("GET", "ETag: \"a\" | Vary: Accept, cookie"),
            ("GET", "Cache-Control: max-age=0 | Vary: Authorization"),
            ("GET | Authorization: x", "Expires: @60"),
            ("GET | Authorization: x", "Cache-Control: max-age=60"),
            ("GET | Cookie: a=b", "ETag: \"a\""),
            ("GET | Cookie: a=b", "Cache-Control: max-age=0"),
        ] {
            check(policy, request, &format!("200 | {response}"), "");
        }
    }
    check(rfc, "GET", "200 | Cache-Control: max-age=60 | Set-Cookie: a=b", "");
}

/// Nor what was answered to another request's credentials.
#[test]
fn no_change_is_proposed_for_a_response_to_other_credentials() {
    let (theirs, response, policy) =
        (head("Authorization: x"), head("Cache-Control: max-age=0"), Policy::default());
    let (theirs, response) = (theirs.view(), response.view());
    let mut exchange = OriginExchange {
        method: "GET",
        request: &[],
        answered: &theirs,
        uri: None,
        status: 200,
        response: &response,
        policy: &policy,
        request_time: NOW,
        response_time: NOW,
    };
    assert_eq!((true, None), (is_one_visitors(&exchange), smallest(&exchange)));
    exchange.answered = &[];
    assert!(!is_one_visitors(&exchange) && smallest(&exchange).is_some());
}

/// Where no response is known, a request with credentials may do without them.
#[test]
fn before_a_response_a_request_is_advised_to_do_without_credentials() {
    let (request, response, policy) =
        (head("Authorization: x"), head("Cache-Control: max-age=60"), Policy::default());
    let (request, response) = (request.view(), response.view());
    let exchange = OriginExchange {
        method: "GET",
        request: &request,
        answered: &request,
        uri: None,
        status: 200,
        response: &response,
        policy: &policy,
        request_time: NOW,
        response_time: NOW,
    };
    let without = FlipChange::RemoveRequestHeader { name: "Authorization".to_owned() };
    assert_eq!(Some(vec![without]), smallest_before_a_response(&exchange));
}

fn of_stored(stored: &str, later: i64, request: &str) -> String {
    let (list, request) = (head(stored), head(request));
    let (fields, policy) = (list.view(), Policy::default());
    let meta = Meta::of(200, &fields, &policy, NOW, NOW);
    let kept = crate::stored::stored_fields(&fields, &policy, NOW);
    let found =
        smallest_for_reuse(&meta, &kept, "GET", &request.view(), &policy, at(later)).unwrap_or_default();
    assert!(found.iter().all(is_allowed), "{found:?}");
    found.iter().map(FlipChange::sentence).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn reuse(stored: &str, later: i64, request: &str, expect: &str) {
    assert_eq!(expect, of_stored(stored, later, request), "{stored}, {later} s later, {request:?}");
}

#[test]
fn changes_that_make_a_stored_response_reusable() {
    let without = "Send the request without Cache-Control.";
    let lifetime = "Configure the origin to respond with Cache-Control: max-age=60.";
    reuse("Cache-Control: max-age=60", 10, "", "");
    reuse("Cache-Control: max-age=60", 10, "Cache-Control: no-cache", without);
    reuse("Cache-Control: max-age=60", 55, "Cache-Control: max-age=50", without);
    reuse("Cache-Control: max-age=60", 10, "Pragma: no-cache", "Send the request without Pragma.");
    reuse("Cache-Control: max-age=60, no-cache", 10, "", lifetime);
    reuse("ETag: \"a\"", 100, "", lifetime);
    // What is only too old is renewed by the request itself.
    reuse("Cache-Control: max-age=60", 100, "", "");
    reuse("Expires: @60", 100, "", "");
    // Nothing for what is one visitor's.
    reuse("Cache-Control: max-age=0 | ETag: \"a\"", 10, "Cookie: a=b", "");
    reuse("Cache-Control: private, max-age=0 | ETag: \"a\"", 10, "", "");
}

/// The age of a stale copy is not in the advice, which stays what it is while that grows.
#[test]
fn advice_does_not_depend_on_the_clock() {
    for (stored, request) in [
        ("Cache-Control: max-age=0 | ETag: \"a\"", ""),
        ("Cache-Control: max-age=60, no-cache | ETag: \"a\"", ""),
        ("Expires: 0 | ETag: \"a\"", ""),
        ("ETag: \"a\" | Age: 500", ""),
        ("Cache-Control: max-age=0 | ETag: \"a\"", "Cache-Control: no-cache"),
        ("Cache-Control: max-age=0, must-revalidate | ETag: \"a\"", "Cache-Control: min-fresh=5"),
    ] {
        let soon = of_stored(stored, 1, request);
        assert!(!soon.is_empty(), "{stored}");
        for later in [2, 1000, 1_000_000] {
            assert_eq!(soon, of_stored(stored, later, request), "{stored}, {later} s later");
        }
    }
}

/// No value that the configuration would refuse: of an age that nothing covers something else is proposed, or nothing.
#[test]
fn no_proposed_setting_exceeds_the_allowed_values() {
    let (list, policy) =
        (head("Cache-Control: max-age=99999999999 | Age: 99999999999 | ETag: \"a\""), Policy::default());
    let fields = list.view();
    let exchange = OriginExchange {
        method: "GET",
        request: &[],
        answered: &[],
        uri: None,
        status: 200,
        response: &fields,
        policy: &policy,
        request_time: NOW,
        response_time: NOW,
    };
    let found = Trial::of(&exchange).candidates_to_store(&exchange);
    assert!(found.iter().all(is_allowed), "{found:?}");
}

/// Whether the configuration takes what is proposed of it: a lifetime of ten years at most.
fn is_allowed(change: &FlipChange) -> bool {
    use FlipSetting::{DefaultTtl, OverrideTtl, StaleWhileRevalidate, StatusTtl};
    match change {
        FlipChange::SetConfig(
            DefaultTtl(it) | OverrideTtl(it) | StaleWhileRevalidate(it) | StatusTtl(_, it),
        ) => *it <= 3650 * 86_400,
        _ => true,
    }
}

/// Requests that forbid a hit, or storing, or neither.
const REQUESTS: [&str; 14] = [
    "",
    "Cache-Control: no-cache",
    "Cache-Control: no-store",
    "Cache-Control: max-age=0",
    "Cache-Control: min-fresh=1000",
    "Cache-Control: only-if-cached",
    "Cache-Control: no-store, max-age=0 | Pragma: no-cache",
    "Pragma: no-cache",
    "Pragma: no-cache | Authorization: x",
    "Cache-Control: no-cache | Authorization: x",
    "Cache-Control: max-stale=5",
    "Range: bytes=0-1",
    "Cache-Control: no-cache | Content-Length: 5 | Pragma: no-cache",
    "Authorization: x | Content-Length: 5 | Cache-Control: no-store | X-HTTP-Method: PUT",
];

/// Responses that are refused, and some that are not.
const RESPONSES: [&str; 15] = [
    "",
    "Cache-Control: max-age=60",
    "Cache-Control: no-store",
    "Cache-Control: private, max-age=60",
    "Cache-Control: max-age=60, must-revalidate | Set-Cookie: a=b",
    "Cache-Control: private | Set-Cookie: a=b",
    "Cache-Control: max-age=60 | Vary: *",
    "Cache-Control: max-age=60 | Age: 100",
    "Cache-Control: no-cache | Vary: *",
    "Expires: 0",
    "Cache-Control: max-age=0 | Vary: * | Content-Length: 99999999",
    "Cache-Control: public, no-cache | Vary: * | Age: 99",
    "Cache-Control: private | Set-Cookie: a=b | Vary: *",
    "Cache-Control: no-store, private | Set-Cookie: a=b | Vary: * | Content-Length: 99999999",
    "Cache-Control: no-cache, no-store | Set-Cookie: a=b | Age: 99 | Content-Length: 99999999",
];

/// Written down once more, and by nothing of `Trial` but its parts: the request is sent, what comes is stored, and the
/// same request is answered with it.
fn is_a_hit_the_second_time(it: &Trial, exchange: &OriginExchange<'_>) -> bool {
    let (request, response) = (it.request.view(), it.response.view());
    let facts = RequestFacts { has_body: it.body, ..RequestFacts::read(exchange.method, &request) };
    let first = reuse::decide(Err(ForwardReason::UriMiss), &facts, &it.policy, NOW, &mut Silent);
    let stored = storable::decide(&facts, exchange.status, &response, &it.policy, NOW, NOW, &mut Silent);
    let meta = Meta::of(exchange.status, &response, &it.policy, NOW, NOW);
    let second = reuse::decide(Ok(&meta), &facts, &it.policy, NOW, &mut Silent);
    first == Reuse::Forward(ForwardReason::UriMiss) && stored == Storable::Store && second == Reuse::Serve
}

fn none_can_be_left_out(changes: &[FlipChange], exchange: &OriginExchange<'_>) -> bool {
    (0..changes.len()).all(|left_out| {
        let rest = changes.iter().enumerate().filter(|it| it.0 != left_out);
        let changed = rest.fold(Trial::of(exchange), |trial, it| trial.with(it.1));
        !is_a_hit_the_second_time(&changed, exchange)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// For any bytes: nothing panics, and what is proposed holds when it is applied.
    #[test]
    fn a_proposal_holds(control: Vec<u8>, cookie: bool, pragma in "no-(cache|store)", status in 200u16..600) {
        let request = [Field { name: "Cache-Control", value: pragma.as_bytes() }];
        let response = [
            Field { name: "Cache-Control", value: &control },
            Field { name: if cookie { "Set-Cookie" } else { "Age" }, value: &control },
        ];
        let policy = Policy::default();
        let exchange = OriginExchange {
            method: "GET",
            request: &request,
            answered: &request,
            uri: None,
            status,
            response: &response,
            policy: &policy,
            request_time: NOW,
            response_time: NOW,
        };
        if let Some(changes) = smallest(&exchange) {
            let changed = changes.iter().fold(Trial::of(&exchange), |trial, it| trial.with(it));
            prop_assert!(is_a_hit_the_second_time(&changed, &exchange), "{changes:?}");
            prop_assert!(!changes.is_empty() && none_can_be_left_out(&changes, &exchange), "{changes:?}");
            prop_assert!(changes.iter().all(is_allowed), "{changes:?}");
        }
    }

    /// For requests and responses that each say something of their own: what is proposed makes the same request a hit,
    /// and each part of it is needed; nothing is proposed only where it is one, or where the status is never stored.
    #[test]
    fn the_same_request_is_a_hit_the_second_time(
        request in proptest::sample::select(REQUESTS.to_vec()),
        response in proptest::sample::select(RESPONSES.to_vec()),
        status in proptest::sample::select(vec![200u16, 404, 500]),
        enabled: bool,
    ) {
        let (request, response) = (head(request), head(response));
        let (request, response) = (request.view(), response.view());
        let policy = Policy { enabled, ..Policy::default() };
        let exchange = OriginExchange {
            method: "GET",
            request: &request,
            answered: &request,
            uri: None,
            status,
            response: &response,
            policy: &policy,
            request_time: NOW,
            response_time: NOW,
        };
        let was = Trial::of(&exchange);
        match smallest(&exchange) {
            Some(changes) => {
                prop_assert!(!is_a_hit_the_second_time(&was, &exchange));
                let changed = changes.iter().fold(was, |trial, it| trial.with(it));
                prop_assert!(is_a_hit_the_second_time(&changed, &exchange), "{changes:?}");
                prop_assert!(none_can_be_left_out(&changes, &exchange), "{changes:?}");
            }
            None => prop_assert!(
                is_a_hit_the_second_time(&was, &exchange) || is_one_visitors(&exchange),
                "nothing is proposed"
            ),
        }
    }
}
