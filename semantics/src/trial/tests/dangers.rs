//! Dangers that a trial must name before a response is shared: pages behind many others, redirects, pages that change with each request, variants that
//! become one, and routes that are opened.

use super::*;

const SESSION: [&[Field<'static>]; 3] = [
    &[Field { name: "Cookie", value: b"session=00000001" }],
    &[Field { name: "Cookie", value: b"session=00000002" }],
    &[Field { name: "Authorization", value: b"00000003" }],
];

/// A miss of a client with these fields: the hashes of its body and of its fields, odd numbers.
struct Miss<'a> {
    target: &'a str,
    client: u64,
    fields: &'a [Field<'a>],
    body: u64,
    head: u64,
}

fn miss(client: u64, fields: &'static [Field<'static>], body: u64) -> Miss<'static> {
    Miss { target: "/a", client, fields, body, head: 1 }
}

/// Both ways of a request, by policies with their response fields.
fn told(rows: &[Miss<'_>], response: &[Field<'_>], running: &Policy, changed: &Policy) -> TrialReport {
    let mut trial = ConfigTrial::default();
    for (number, row) in rows.iter().enumerate() {
        let response = RecordedResponse {
            time: WallTime(number as u64),
            status: 200,
            fields: response,
            digest: hash(row.body),
            head: hash(row.head),
            length: 0,
        };
        let request = recorded(number, row.target, row.fields, row.client, ServedBy::Origin, 200);
        let request = RecordedRequest { response: Some(response), ..request };
        let (one, other) = (key(running, row.target), key(changed, row.target));
        trial.see(
            number,
            &request,
            &side(Course::Cached { key: &one, policy: running }, false),
            &side(Course::Cached { key: &other, policy: changed }, false),
        );
    }
    trial.finish()
}

fn recorded<'a>(
    number: usize,
    target: &'a str,
    fields: &'a [Field<'a>],
    client: u64,
    served: ServedBy,
    status: u16,
) -> RecordedRequest<'a> {
    RecordedRequest {
        time: WallTime(number as u64),
        span: (number as u64, number as u64),
        weight: 1,
        method: "GET",
        scheme: "http",
        authority: "h",
        target,
        fields,
        client,
        status,
        served,
        response: None,
        stored: None,
    }
}

fn side(course: Course<'_>, demands: bool) -> TrialSide<'_> {
    TrialSide { route: Some(0), origin: 1, demands, course }
}

/// Each reason with the requests that its responses stand for.
fn counted(report: &TrialReport) -> Vec<(SharedReason, u32)> {
    let of = |reason: &SharedReason| {
        let weight = report.shared.iter().filter(|it| it.reason == *reason).map(|it| it.weight).sum();
        (*reason, weight)
    };
    SharedReason::ALL.iter().map(of).filter(|it| it.1 > 0).collect()
}

fn kept() -> Policy {
    policy(|it| it.default_ttl = Some(60))
}

#[test]
fn pages_of_sessions_are_found_behind_any_number_of_equal_ones() {
    for anonymous in [3, 64, 5000] {
        let mut rows: Vec<Miss<'_>> = (0..anonymous).map(|it| miss(it % 5, &[], 3)).collect();
        rows.extend([miss(11, SESSION[0], 5), miss(12, SESSION[1], 7), miss(12, SESSION[1], 7)]);
        let report = told(&rows, &[], &Policy::default(), &kept());
        let expect = u32::try_from(rows.len()).unwrap();
        assert_eq!(vec![(SharedReason::Differed, expect)], counted(&report), "{anonymous}");
        assert!(report.shared.len() < 10, "each different response once");
    }
}

/// All clients may have one address, and the page may depend on a field that only the application knows.
#[test]
fn a_body_that_comes_back_after_another_one_differs_by_more_than_time() {
    let check = |bodies: &[(u64, u64)], expect: &[(SharedReason, u32)]| {
        let rows: Vec<Miss<'_>> = bodies.iter().map(|it| miss(it.0, &[], it.1)).collect();
        let report = told(&rows, &[], &Policy::default(), &kept());
        assert_eq!(expect, counted(&report), "{bodies:?}");
    };
    check(&[(1, 3), (1, 5), (1, 3), (1, 7)], &[(SharedReason::Differed, 4)]);
    check(&[(1, 3), (2, 5), (3, 3), (1, 5)], &[(SharedReason::Differed, 4)]);
    // A page that changes from time to time.
    check(&[(1, 3), (1, 3), (1, 5), (1, 5), (1, 7)], &[]);
    check(&[(1, 3), (2, 3), (1, 5), (2, 5)], &[]);
}

/// Records are in the order of their ends. A request that took long may have got the page from before the change.
#[test]
fn a_page_that_changes_during_a_request_does_not_alternate() {
    let check = |requests: &[(u64, u64, u64)], expect: &[(SharedReason, u32)]| {
        let (running, changed) = (Policy::default(), kept());
        let (one, other) = (key(&running, "/a"), key(&changed, "/a"));
        let mut trial = ConfigTrial::default();
        for (number, (begin, end, body)) in requests.iter().enumerate() {
            let response = RecordedResponse {
                time: WallTime(0),
                status: 200,
                fields: &[],
                digest: hash(*body),
                head: hash(1),
                length: 0,
            };
            let request = recorded(number, "/a", &[], 1, ServedBy::Origin, 200);
            let request = RecordedRequest { span: (*begin, *end), response: Some(response), ..request };
            trial.see(
                number,
                &request,
                &side(Course::Cached { key: &one, policy: &running }, false),
                &side(Course::Cached { key: &other, policy: &changed }, false),
            );
        }
        assert_eq!(expect, counted(&trial.finish()), "{requests:?}");
    };
    check(&[(10, 20, 3), (30, 50, 5), (25, 60, 3), (70, 80, 5)], &[]);
    check(&[(10, 20, 3), (21, 50, 5), (51, 60, 3)], &[(SharedReason::Differed, 3)]);
    // Three pages, of which the second came while the first and the third were requested.
    check(&[(10, 40, 3), (20, 60, 5), (50, 90, 7), (95, 99, 7)], &[]);
    check(&[(10, 40, 3), (20, 60, 5), (50, 90, 7), (95, 99, 3)], &[(SharedReason::Differed, 4)]);
}

/// The application may make the page for the client to whom it gives the cookie.
#[test]
fn a_public_file_with_a_cookie_is_named_although_the_cookie_is_removed() {
    let changed = policy(|it| it.public_files = vec![crate::pattern::PathPattern::of("/*")]);
    let response = [
        Field { name: "Set-Cookie", value: b"sid=1" },
        Field { name: "Cache-Control", value: b"max-age=60" },
    ];
    let rows = [Miss { target: "/x.css", ..miss(1, &[], 3) }];
    let report = told(&rows, &response, &Policy::default(), &changed);
    assert_eq!(vec![(SharedReason::SetCookie, 1)], counted(&report));
}

#[test]
fn fields_that_are_shared_are_compared_and_those_that_differ_by_nature_are_not() {
    let head = |name: &'static str, value: &'static str| {
        facts::head_digest(&[
            Field { name: "Content-Type", value: b"text/html" },
            Field { name, value: value.as_bytes() },
        ])
    };
    for name in [
        "Location",
        "Refresh",
        "Link",
        "Content-Disposition",
        "Content-Location",
        "X-User",
        "X-CSRF-Token",
        "x_session_expires",
        "X-Account",
        "X-Country",
        "Access-Control-Allow-Origin",
        "WWW-Authenticate",
    ] {
        assert_ne!(head(name, "1"), head(name, "2"), "{name}");
    }
    for name in [
        "Date",
        "age",
        "Expires",
        "Last-Modified",
        "ETag",
        "Server-Timing",
        "X-Request-Id",
        "X-Runtime",
        "X-Response-Time",
        "CF-Ray",
        "X-Served-By",
        "X-RateLimit-Remaining",
        "Content-Length",
        "Set-Cookie",
        "Content-Security-Policy",
        "CDN-Cache-Control",
        "X-B3-TraceId",
        "X-Amzn-Trace-Id",
        "Via",
        "X-Cache",
    ] {
        assert_eq!(head(name, "1"), head(name, "2"), "{name}");
    }
    let pair = [Field { name: "A", value: b"1" }, Field { name: "B", value: b"2" }];
    let turned = [Field { name: "b", value: b"2" }, Field { name: "a", value: b"1" }];
    assert_eq!(facts::head_digest(&pair), facts::head_digest(&turned), "neither order nor case");
    assert_eq!(1, facts::class_of(facts::head_digest(&[])));

    let redirect = |client, to| Miss { head: head("Location", to), ..miss(client, SESSION[0], 3) };
    let rows = [redirect(11, "/of/1"), redirect(12, "/of/2"), redirect(11, "/of/1")];
    let found = told(&rows, &[], &Policy::default(), &kept());
    assert_eq!(vec![(SharedReason::Differed, 3)], counted(&found));
    // A field that changes with each request hides no difference of bodies.
    let rows = [3, 5, 3].map(|body| Miss { head: 100 + body, ..miss(body, SESSION[0], body) });
    let found = told(&rows, &[], &Policy::default(), &kept());
    assert_eq!(vec![(SharedReason::Differed, 3)], counted(&found));
}

#[test]
fn a_page_that_changes_with_each_request_is_named_if_its_requests_have_credentials() {
    let changing = |fields: &[&'static [Field<'static>]]| -> Vec<Miss<'static>> {
        let one = |it: u64| {
            let fields = fields[usize::try_from(it).unwrap() % fields.len()];
            miss(it % 3, fields, 2 * it + 1)
        };
        (1..=9).map(one).collect()
    };
    let of = |rows: &[Miss<'_>], now: &Policy, then: &Policy| counted(&told(rows, &[], now, then));
    // A response to Authorization is not stored under the changed configuration either.
    assert_eq!(vec![(SharedReason::Changes, 6)], of(&changing(&SESSION), &Policy::default(), &kept()));
    let one_client = [3, 5, 7].map(|body| miss(1, SESSION[0], body));
    assert_eq!(vec![(SharedReason::Changes, 3)], of(&one_client, &Policy::default(), &kept()));
    assert!(of(&changing(&[&[]]), &Policy::default(), &kept()).is_empty(), "a public page with a clock");
    let analytics: &[Field<'static>] = &[Field { name: "Cookie", value: b"_ga=00000001" }];
    assert!(of(&changing(&[analytics]), &Policy::default(), &kept()).is_empty());
    assert!(of(&changing(&SESSION), &kept(), &kept()).is_empty(), "it is shared already");
}

#[test]
fn urls_of_a_page_with_a_clock_become_one_without_an_alarm() {
    let dropped = policy(|it| it.key.query = crate::key::QueryPolicy::Drop(vec!["utm".to_owned()]));
    let row = |target, body| Miss { target, ..miss(1, &[], body) };
    let rows = [row("/a?utm=1", 3), row("/a?utm=2", 5), row("/a?utm=1", 7)];
    assert!(counted(&told(&rows, MAX_AGE, &Policy::default(), &dropped)).is_empty());
    // A hit repeats what is stored: it is no evidence that the page stays the same.
    let mut trial = ConfigTrial::default();
    for (number, it) in rows.iter().enumerate().flat_map(|it| [it; 3]).enumerate() {
        let (at, row) = it;
        let is_miss = number % 3 == 0;
        let response = RecordedResponse {
            time: WallTime(at as u64 * 100),
            status: 200,
            fields: MAX_AGE,
            digest: hash(row.body),
            head: 1,
            length: 0,
        };
        let served = if is_miss { ServedBy::Origin } else { ServedBy::Cache(50) };
        let request = recorded(at * 100, row.target, &[], 1, served, 200);
        let request = RecordedRequest { response: is_miss.then_some(response), ..request };
        let same = Policy::default();
        let (one, other) = (key(&same, row.target), key(&dropped, row.target));
        let running = side(Course::Cached { key: &one, policy: &same }, false);
        trial.see(number, &request, &running, &side(Course::Cached { key: &other, policy: &dropped }, false));
    }
    assert!(counted(&trial.finish()).is_empty());
}

#[test]
fn variants_that_become_one_must_have_one_response() {
    let varied = policy(|it| it.vary = vec!["X-AB".to_owned()]);
    const GROUPS: [&[Field<'static>]; 2] =
        [&[Field { name: "X-AB", value: b"a" }], &[Field { name: "X-AB", value: b"b" }]];
    let rows = [miss(1, GROUPS[0], 3), miss(2, GROUPS[1], 5), miss(2, GROUPS[0], 3)];
    let found = told(&rows, MAX_AGE, &varied, &Policy::default());
    assert_eq!(vec![(SharedReason::Differed, 3)], counted(&found));
    let keys = found.of(ChangeKind::Key);
    assert_eq!((3, Some("cache.vary")), (keys.requests, keys.examples[0].key));
    assert_eq!(("http://h/a vary: x-ab", "http://h/a"), (&*keys.examples[0].from, &*keys.examples[0].to));
    let same = told(&rows, MAX_AGE, &varied, &varied);
    assert!(counted(&same).is_empty() && same.of(ChangeKind::Key).requests == 0);
    // A hit has the response of its own variant.
    let mut trial = ConfigTrial::default();
    let plain = Policy::default();
    for (number, (fields, body)) in
        [(GROUPS[0], 3), (GROUPS[1], 5), (GROUPS[0], 0), (GROUPS[1], 0)].iter().enumerate()
    {
        let response = RecordedResponse {
            time: WallTime(0),
            status: 200,
            fields: MAX_AGE,
            digest: hash(*body),
            head: 1,
            length: 0,
        };
        let served = if *body > 0 { ServedBy::Origin } else { ServedBy::Cache(50) };
        let request = recorded(number, "/a", fields, 1, served, 200);
        let request = RecordedRequest { response: (*body > 0).then_some(response), ..request };
        let (one, other) = (key(&varied, "/a"), key(&plain, "/a"));
        let running = side(Course::Cached { key: &one, policy: &varied }, false);
        trial.see(number, &request, &running, &side(Course::Cached { key: &other, policy: &plain }, false));
    }
    assert_eq!(vec![(SharedReason::Differed, 4)], counted(&trial.finish()));
}

#[test]
fn a_route_that_is_opened_is_named() {
    let plain = Policy::default();
    let key = key(&plain, "/a");
    let cached = Course::Cached { key: &key, policy: &plain };
    let see = |served, status, running: TrialSide<'_>, changed: TrialSide<'_>| {
        let mut trial = ConfigTrial::default();
        trial.see(0, &recorded(0, "/a", SESSION[2], 1, served, status), &running, &changed);
        trial.finish()
    };
    let change = |it: &TrialReport, kind| {
        it.of(kind).examples.first().map(|it| (it.from.clone(), it.to.clone(), it.key))
    };
    let refused = Course::Refused { status: 401, key: "access.basic" };
    let opened = see(ServedBy::Other, 401, side(refused, true), side(cached, false));
    let expect = Some(("401".to_owned(), "admitted".to_owned(), Some("access.basic")));
    assert_eq!(expect, change(&opened, ChangeKind::Open));
    assert!(counted(&opened).is_empty(), "this request had no response that becomes public");
    assert_eq!(1, opened.unknown[UnknownFact::OtherOrigin as usize]);
    let of_file = see(ServedBy::Other, 403, side(refused, true), side(Course::File, false));
    assert!(change(&of_file, ChangeKind::Open).is_some());

    let passed = Course::Passed { why: "credentials", of_one_client: true };
    let public = see(ServedBy::Origin, 200, side(passed, true), side(cached, false));
    assert_eq!(vec![(SharedReason::Opened, 1)], counted(&public));
    let unknown = Course::Unknown(UnknownFact::Withheld);
    let by_identity = see(ServedBy::Origin, 200, side(unknown, true), side(cached, false));
    assert_eq!(vec![(SharedReason::Opened, 1)], counted(&by_identity));
    let still = see(ServedBy::Origin, 200, side(passed, true), side(unknown, true));
    assert!(counted(&still).is_empty(), "other credentials");

    let answered = see(
        ServedBy::Other,
        410,
        side(Course::Answered { status: 410, key: "respond" }, false),
        side(cached, false),
    );
    let expect = Some(("410".to_owned(), "that of the origin".to_owned(), Some("respond")));
    assert_eq!(expect, change(&answered, ChangeKind::Status));
}

#[test]
fn the_key_that_decides_is_named() {
    let of = |rows: &[Miss<'_>], response, now: &Policy, then: &Policy, kind| {
        told(rows, response, now, then).of(kind).examples.first().and_then(|it| it.key)
    };
    let modified: &[Field<'static>] =
        &[Field { name: "Last-Modified", value: b"Thu, 01 Jan 1970 00:00:00 GMT" }];
    let rows = [miss(1, SESSION[0], 3)];
    let storage = of(&rows, modified, &Policy::default(), &kept(), ChangeKind::Storage);
    assert_eq!(Some("cache.default_ttl"), storage, "it lifts the refusal for the cookie");
    let cut = policy(|it| it.max_ttl = 10);
    let lifetime = |now, then| of(&rows[..1], MAX_AGE, now, then, ChangeKind::Lifetime);
    let anonymous = [miss(1, &[], 3)];
    assert_eq!(
        Some("cache.max_ttl"),
        of(&anonymous, MAX_AGE, &Policy::default(), &cut, ChangeKind::Lifetime)
    );
    assert_eq!(
        Some("cache.max_ttl"),
        of(&anonymous, MAX_AGE, &cut, &Policy::default(), ChangeKind::Lifetime)
    );
    let longer = policy(|it| it.override_ttl = Some(90));
    assert_eq!(Some("cache.override_ttl"), lifetime(&Policy::default(), &longer));
}

#[test]
fn secret_parameters_are_hidden_in_keys() {
    let dropped = policy(|it| it.key.query = crate::key::QueryPolicy::Drop(vec!["utm".to_owned()]));
    let rows = [Miss { target: "/a?token=s3cret&utm=1", ..miss(1, &[], 3) }];
    let keys = told(&rows, MAX_AGE, &Policy::default(), &dropped);
    let it = &keys.of(ChangeKind::Key).examples[0];
    assert!(it.from.contains("token=***") && it.to.contains("token=***"), "{it:?}");
    assert!(!format!("{it:?}").contains("s3cret"));
}
