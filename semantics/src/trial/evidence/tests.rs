//! The evidence on small recordings: each refusal, each missing part, and the names that are proven.

use super::*;
use crate::field::Field;
use crate::key::QueryPolicy;
use crate::policy::Policy;
use crate::trial::{RecordedResponse, ServedBy};
use larder_stdx::clock::WallTime;
use xxhash_rust::xxh3::xxh3_64;

/// One recorded request: its time, target, `Cookie`, further fields, and the fields and body of the response.
#[derive(Clone)]
struct Row {
    at: u64,
    target: String,
    cookie: String,
    sent: &'static [Field<'static>],
    came: &'static [Field<'static>],
    body: u64,
}

const fn field(name: &'static str, value: &'static str) -> Field<'static> {
    Field { name, value: value.as_bytes() }
}

const AGE: &[Field<'static>] = &[field("cache-control", "max-age=60")];
const SILENT: &[Field<'static>] = &[];

fn row(at: u64, target: String, cookie: String) -> Row {
    Row { at, target, cookie, sent: &[], came: AGE, body: 1 }
}

/// Twenty visitors with a session each request two pages, one after the other.
fn visits() -> Vec<Row> {
    (0..40).map(|it| row(it, format!("/{}", it % 2), format!("sid={}; _ga={it}", it / 2))).collect()
}

/// The same pages, as a route that names no private cookies withholds them: without a lifetime.
fn visits_of(policy: &Policy) -> Vec<Row> {
    let is_silent = policy.private_cookies.is_empty();
    with(visits(), |_, it| it.came = if is_silent { SILENT } else { AGE })
}

fn with(rows: Vec<Row>, change: impl Fn(usize, &mut Row)) -> Vec<Row> {
    let mut rows = rows;
    rows.iter_mut().enumerate().for_each(|(at, it)| change(at, it));
    rows
}

/// Passes each row as a recorded request to `see`.
fn recorded<T>(rows: &[Row], see: impl FnOnce(&[RecordedRequest<'_>]) -> T) -> T {
    let sent: Vec<Vec<Field<'_>>> = rows
        .iter()
        .map(|it| {
            let cookie = Field { name: "cookie", value: it.cookie.as_bytes() };
            it.sent.iter().copied().chain((!it.cookie.is_empty()).then_some(cookie)).collect()
        })
        .collect();
    let all: Vec<RecordedRequest<'_>> = rows
        .iter()
        .zip(&sent)
        .map(|(it, fields)| RecordedRequest {
            time: WallTime(it.at),
            span: (it.at * 10, it.at * 10 + 1),
            weight: 1,
            method: "GET",
            scheme: "http",
            authority: "h",
            target: &it.target,
            fields,
            client: xxh3_64(it.cookie.as_bytes()),
            status: 200,
            served: ServedBy::Origin,
            response: Some(RecordedResponse {
                time: WallTime(it.at),
                status: 200,
                fields: it.came,
                digest: if it.body == 0 { 0 } else { it.body * 8 + 1 },
                head: 0,
                length: 0,
            }),
            stored: None,
        })
        .collect();
    see(&all)
}

fn cookies(rows: &[Row], policy: &Policy) -> CookieSharing {
    recorded(rows, |all| {
        let mut evidence = CookieEvidence::new(policy);
        all.iter().enumerate().for_each(|(number, it)| evidence.note(number, it));
        evidence.verdict()
    })
}

fn parameters(rows: &[Row], policy: &Policy) -> Option<NeedlessParameters> {
    recorded(rows, |all| {
        let mut evidence = ParameterEvidence::new(policy);
        all.iter().enumerate().for_each(|(number, it)| evidence.note(number, it));
        evidence.verdict()
    })
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|it| (*it).to_owned()).collect()
}

#[track_caller]
fn equal(rows: &[Row], policy: &Policy) -> EqualForAll {
    match cookies(rows, policy) {
        CookieSharing::Equal(it) => it,
        other => panic!("{other:?}"),
    }
}

#[test]
fn equal_responses_for_many_sessions_are_evidence() {
    let expect = EqualForAll {
        cookies: owned(&["sid"]),
        analytics: owned(&["_ga*"]),
        needs_lifetime: false,
        could: 40,
        pages: 2,
        all: 40,
    };
    for names in [&[][..], &["*"], &["sid", "_g*"]] {
        let policy = Policy { private_cookies: owned(names), ..Policy::default() };
        let expect = EqualForAll { needs_lifetime: names.is_empty(), ..expect.clone() };
        assert_eq!(expect, equal(&visits_of(&policy), &policy), "{names:?}");
    }
    // Of a fixed list, the other cookies are gone already.
    let only = Policy { private_cookies: owned(&["sid"]), ..Policy::default() };
    assert_eq!(EqualForAll { analytics: Vec::new(), ..expect }, equal(&visits(), &only));
    const VARIES: &[Field<'static>] =
        &[field("cache-control", "public, max-age=60"), field("vary", "Cookie")];
    let varied = with(visits(), |_, it| it.came = VARIES);
    assert_eq!(40, equal(&varied, &Policy::default()).could);
    let none = with(visits(), |_, it| it.cookie.clear());
    assert_eq!(CookieSharing::Unneeded, cookies(&none, &Policy::default()));
}

#[test]
fn a_cookie_with_few_values_is_not_proven() {
    let rows = with(visits(), |at, it| {
        if at % 4 < 2 {
            it.cookie.push_str("; lang=de");
        }
    });
    let found = equal(&rows, &Policy { private_cookies: owned(&["*"]), ..Policy::default() });
    assert_eq!((owned(&["sid"]), 20), (found.cookies, found.could));
}

#[test]
fn pages_of_one_client_are_refused() {
    const PRIVATE: &[Field<'static>] = &[field("cache-control", "private, max-age=60")];
    const NO_STORE: &[Field<'static>] = &[field("cache-control", "no-store")];
    const SETS: &[Field<'static>] = &[field("cache-control", "max-age=60"), field("set-cookie", "sid=")];
    let policies = [&[][..], &["*"], &["sid"]];
    for policy in policies.map(|it| Policy { private_cookies: owned(it), ..Policy::default() }) {
        let check = |why, change: &dyn Fn(usize, &mut Row)| {
            let found = cookies(&with(visits_of(&policy), change), &policy);
            assert!(
                matches!(found, CookieSharing::Refused(it, _) if it == why),
                "{why:?} {:?} {found:?}",
                policy.private_cookies
            );
        };
        // One response of the route is enough.
        check(SharingRefusal::Private, &|at, it| {
            if at == 30 {
                it.came = PRIVATE
            }
        });
        check(SharingRefusal::Private, &|at, it| {
            if at == 30 {
                it.came = NO_STORE
            }
        });
        check(SharingRefusal::SetsCookie, &|at, it| {
            if at == 30 {
                it.came = SETS
            }
        });
        check(SharingRefusal::Differs, &|at, it| {
            if at == 30 {
                it.body = 2
            }
        });
        // The page of the last visitor, and of the first.
        check(SharingRefusal::Differs, &|at, it| {
            if at > 37 {
                it.body = 2
            }
        });
        check(SharingRefusal::Differs, &|at, it| {
            if at < 2 {
                it.body = 2
            }
        });
        // A page with a clock, and one for each visitor.
        check(SharingRefusal::Differs, &|at, it| it.body = at as u64 + 1);
        check(SharingRefusal::Differs, &|at, it| it.body = at as u64 / 2 % 3 + 1);
    }
}

#[test]
fn two_visitors_whose_other_cookie_changes_with_each_request_are_two_visitors() {
    let rows: Vec<Row> = (0..40)
        .map(|it| Row {
            body: it / 20 + 1,
            ..row(it, "/me".to_owned(), format!("sid={}; once={it}", it / 20))
        })
        .collect();
    let found = cookies(&rows, &Policy { private_cookies: owned(&["*"]), ..Policy::default() });
    assert!(matches!(found, CookieSharing::Refused(SharingRefusal::Differs, _)), "{found:?}");
    // One of them alone proves nothing of the session.
    let one = equal(&rows[..20], &Policy { private_cookies: owned(&["once"]), ..Policy::default() });
    assert_eq!(owned(&["once"]), one.cookies);
    assert_eq!(
        CookieSharing::Missing(MissingEvidence::Values),
        cookies(&rows[..20], &Policy { private_cookies: owned(&["*"]), ..Policy::default() }),
    );
}

#[test]
fn a_page_that_changes_with_the_time_alone_is_equal() {
    let rows = with(visits(), |at, it| it.body = if at < 20 { 1 } else { 2 });
    assert_eq!(40, equal(&rows, &Policy { private_cookies: owned(&["*"]), ..Policy::default() }).could);
}

#[test]
fn the_missing_evidence_is_named() {
    let policy = Policy { private_cookies: owned(&["*"]), ..Policy::default() };
    let check = |why, rows: &[Row]| assert_eq!(CookieSharing::Missing(why), cookies(rows, &policy));
    check(MissingEvidence::Requests, &visits()[..8]);
    // Bodies were not read: HEAD, or an unknown content coding.
    check(MissingEvidence::Requests, &with(visits(), |_, it| it.body = 0));
    check(MissingEvidence::Clients, &with(visits(), |at, it| it.target = format!("/{at}")));
    check(MissingEvidence::Values, &with(visits(), |at, it| it.cookie = format!("sid={}", at % 7)));
}

#[test]
fn requests_that_identify_their_client_otherwise_are_no_evidence() {
    const AUTHORIZATION: &[Field<'static>] = &[field("authorization", "1")];
    const API_KEY: &[Field<'static>] = &[field("x-api-key", "1")];
    for sent in [AUTHORIZATION, API_KEY] {
        let found = cookies(&with(visits_of(&Policy::default()), |_, it| it.sent = sent), &Policy::default());
        assert_eq!(CookieSharing::Missing(MissingEvidence::Requests), found, "{sent:?}");
    }
}

/// Requests with parameters whose values are all new, for three pages.
fn campaigns() -> Vec<Row> {
    (0..60)
        .map(|it| Row {
            body: it % 3 + 1,
            ..row(it, format!("/p?page={}&utm_source={it}&wt_mc={it}&emid={it}", it % 3), String::new())
        })
        .collect()
}

#[test]
fn parameters_that_change_no_page_are_found_together() {
    let expect = NeedlessParameters {
        names: owned(&["emid", "wt_mc"]),
        analytics: owned(&["utm_*"]),
        requests: 60,
        pages: 3,
        all: 60,
    };
    assert_eq!(Some(expect), parameters(&campaigns(), &Policy::default()));
    let mut dropped = Policy::default();
    dropped.key.query = QueryPolicy::Drop(owned(&["wt_*"]));
    assert_eq!(owned(&["emid"]), parameters(&campaigns(), &dropped).unwrap().names);
    dropped.key.query = QueryPolicy::Keep(owned(&["page"]));
    assert_eq!(None, parameters(&campaigns(), &dropped));
}

#[test]
fn parameters_that_may_change_a_page_stay() {
    let none = |change: &dyn Fn(usize, &mut Row)| {
        assert_eq!(None, parameters(&with(campaigns(), change), &Policy::default()));
    };
    // Each request has its own page.
    none(&|at, it| it.body = at as u64 + 1);
    // Secrets, and parameters of pages that are not stored.
    none(&|at, it| it.target = format!("/p?page={}&token={at}", at % 3));
    const PRIVATE: &[Field<'static>] = &[field("cache-control", "private")];
    none(&|at, it| {
        if at == 7 {
            it.came = PRIVATE
        }
    });
    // Few values, and one that changes a page once.
    none(&|at, it| it.target = format!("/p?page={}&size={}", at % 3, at % 5));
    none(&|at, it| {
        it.target = format!("/p?q={at}");
        it.body = if at == 30 { 2 } else { 1 };
    });
}

#[test]
fn parameters_in_several_orders_are_found_unless_the_order_changes_a_page() {
    let target = |it: u64| match it % 2 {
        0 => format!("/list?a=1&b=2&page={}", it / 4),
        _ => format!("/list?page={}&b=2&a=1", it / 4),
    };
    let rows: Vec<Row> =
        (0..16).map(|it| Row { body: it / 4 + 1, ..row(it, target(it), String::new()) }).collect();
    let found = |rows: &[Row], policy: &Policy| {
        recorded(rows, |all| {
            let mut evidence = ParameterEvidence::new(policy);
            all.iter().enumerate().for_each(|(number, it)| evidence.note(number, it));
            evidence.reordered()
        })
    };
    let policy = Policy::default();
    assert_eq!(Some(ReorderedParameters { requests: 16, pages: 4, all: 16 }), found(&rows, &policy));
    assert_eq!(None, found(&with(rows.clone(), |at, it| it.body = at as u64 % 2 + 1), &policy));
    assert_eq!(None, found(&with(rows.clone(), |at, it| it.target = target(at as u64 / 4 * 4)), &policy));
    let repeated = with(rows.clone(), |at, it| {
        it.target = format!("/list?a={}&a={}", at % 2, (at + 1) % 2);
        it.body = 1;
    });
    assert_eq!(None, found(&repeated, &policy), "the order of equal names is that of the key as well");
    let mut sorted = Policy::default();
    sorted.key.sort_query = true;
    assert_eq!(None, found(&rows, &sorted));
}

#[test]
fn a_route_without_a_cache_is_shareable_only_if_every_response_was() {
    let policy = Policy { enabled: false, default_ttl: Some(60), ..Policy::default() };
    let found = |rows: &[Row]| {
        recorded(rows, |all| {
            let mut evidence = UncachedEvidence::new(&policy);
            all.iter().enumerate().for_each(|(number, it)| evidence.note(number, it));
            evidence.verdict()
        })
    };
    const PUBLIC: &[Field<'static>] = &[field("cache-control", "public, max-age=60")];
    let rows = with(visits(), |_, it| it.came = PUBLIC);
    assert_eq!(Some(ShareableResponses { could: 40, pages: 2, all: 40 }), found(&rows));
    const REFUSED: [&[Field<'static>]; 6] = [
        &[field("cache-control", "private, max-age=60")],
        &[field("cache-control", "no-store")],
        &[field("cache-control", "public, max-age=60"), field("set-cookie", "a=")],
        &[field("cache-control", "public, max-age=60"), field("vary", "*")],
        SILENT,
        &[field("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")],
    ];
    for refused in REFUSED {
        let one = with(rows.clone(), |at, it| {
            if at == 17 {
                it.came = refused;
            }
        });
        assert_eq!(None, found(&one), "{refused:?}");
    }
    assert_eq!(None, found(&with(rows.clone(), |at, it| it.body = at as u64 / 2 + 1)), "clients differ");
    assert_eq!(None, found(&with(rows.clone(), |at, it| it.target = format!("/{at}"))), "each page once");
    const TOKEN: &[Field<'static>] = &[field("authorization", "Basic eA==")];
    let with_token = with(visits(), |_, it| (it.sent, it.cookie) = (TOKEN, String::new()));
    assert_eq!(None, found(&with_token));
}

#[test]
fn the_fields_that_make_variants_are_counted_by_their_values() {
    const AGENTS: [&[Field<'static>]; 3] = [
        &[field("user-agent", "a"), field("accept-encoding", "gzip")],
        &[field("user-agent", "b"), field("accept-encoding", "gzip, x")],
        &[field("user-agent", "c"), field("accept-encoding", "gzip")],
    ];
    const CAME: &[Field<'static>] =
        &[field("cache-control", "max-age=60"), field("vary", "user-agent, Accept-Encoding")];
    let rows: Vec<Row> = (0..12)
        .map(|it| row(it, "/a".to_owned(), String::new()))
        .enumerate()
        .map(|(at, it)| Row { sent: AGENTS[at % 3], came: CAME, ..it })
        .collect();
    let policy = Policy::default();
    let found = recorded(&rows, |all| {
        let mut evidence = VariantEvidence::new(&policy);
        all.iter().for_each(|it| evidence.note(it));
        evidence.verdict()
    });
    assert_eq!([VaryingField { name: "User-Agent".to_owned(), values: 3 }], found[..]);
}

/// Requests for this URL of an origin with this status, and for thirty others.
fn with_status(rows: &[Row], status: impl Fn(&str) -> u16) -> Vec<FailingUrl> {
    let policy = Policy::default();
    recorded(rows, |all| {
        let mut application_faults = RouteFaults::new(&policy);
        for (number, it) in all.iter().enumerate() {
            application_faults.note(number, &RecordedRequest { status: status(it.target), ..*it }, 1);
        }
        application_faults.failing().collect()
    })
}

#[test]
fn a_url_whose_requests_all_fail_is_found_on_a_route_that_answers() {
    let mut rows: Vec<Row> = (0..30).map(|it| row(it, format!("/{it}"), String::new())).collect();
    rows.extend((30..40).map(|it| row(it, "/4711".to_owned(), String::new())));
    let of = |target: &'static str, status: u16| move |it: &str| if it == target { status } else { 200 };
    let expect = FailingUrl { number: 39, requests: 10, status: 500 };
    assert_eq!([expect], with_status(&rows, of("/4711", 500))[..]);
    assert!(with_status(&rows, of("/4711", 404)).is_empty());
    assert!(with_status(&rows, of("/1", 500)).is_empty(), "one request");
    assert!(with_status(&rows[..39], of("/4711", 500)).is_empty(), "nine requests");
    assert!(with_status(&rows[30..], of("/4711", 500)).is_empty(), "no others");
    assert!(with_status(&rows, |_| 500).is_empty(), "the route fails");
    rows.push(row(50, "/4711".to_owned(), "ok".to_owned()));
    assert_eq!(11, with_status(&rows, of("/4711", 500))[0].requests);
}

#[test]
fn origins_that_disagree_on_sharing_are_found() {
    const NO_STORE: &[Field<'static>] = &[field("cache-control", "no-store")];
    let policy = Policy::default();
    let found = |origin: &dyn Fn(usize) -> u64, came: &dyn Fn(usize) -> &'static [Field<'static>]| {
        let rows: Vec<Row> = (0..32)
            .map(|it| Row { came: came(it as usize), ..row(it, format!("/{}", it / 4), String::new()) })
            .collect();
        recorded(&rows, |all| {
            let mut application_faults = RouteFaults::new(&policy);
            all.iter().enumerate().for_each(|(at, it)| application_faults.note(at, it, origin(at)));
            application_faults.disagreement().map(|it| (it.shares, it.forbids))
        })
    };
    let alternately = |at: usize| at as u64 % 2 + 1;
    let of_second = |at: usize| if at % 2 == 1 { NO_STORE } else { AGE };
    assert_eq!(Some(((1, 16), (2, 16))), found(&alternately, &of_second));
    assert_eq!(None, found(&alternately, &|_| AGE));
    assert_eq!(None, found(&|_| 1, &of_second), "one origin");
    assert_eq!(None, found(&alternately, &|at| if at < 8 { of_second(at) } else { AGE }), "few responses");
    // The URLs differ, not the origins.
    assert_eq!(None, found(&alternately, &|at| if at / 4 % 2 == 1 { NO_STORE } else { AGE }));
    // The first origin forbids it at times.
    assert_eq!(None, found(&alternately, &|at| if at == 0 { NO_STORE } else { of_second(at) }));
}

#[test]
fn the_redirects_of_a_proxys_clients_to_their_own_url_are_a_loop() {
    const HTTPS: &[Field<'static>] = &[field("x-forwarded-proto", "https")];
    const FORWARDED: &[Field<'static>] = &[field("forwarded", "for=203.0.113.9;proto=https")];
    let came = |location: &str| facts::response(&[Field { name: "Location", value: location.as_bytes() }]);
    let found = |rows: &[Row], location: &str, secures: bool, scheme: &'static str| {
        let text = came(location);
        let fields = facts::fields(&text);
        recorded(rows, |all| {
            let mut loops = ProxyLoops::default();
            for it in all {
                let response = RecordedResponse { status: 308, fields: &fields, ..it.response.unwrap() };
                let (served, response) = match secures {
                    true => (ServedBy::Other, None),
                    false => (ServedBy::Origin, Some(response)),
                };
                let request = RecordedRequest { scheme, status: 308, served, response, ..*it };
                loops.note(&request, Some([127, 0, 7, 7].into()), secures);
            }
            loops.found().map(|it| (it.proxy.to_string(), it.loops, it.requests, it.is_own))
        })
    };
    let rows = |sent: &'static [Field<'static>]| -> Vec<Row> {
        (0..20)
            .map(|it| Row {
                sent: if it % 2 == 0 { sent } else { SILENT },
                ..row(it, "/x?a=1".to_owned(), String::new())
            })
            .collect()
    };
    let expect = |is_own| Some(("127.0.7.7".to_owned(), 10, 20, is_own));
    for sent in [HTTPS, FORWARDED] {
        assert_eq!(expect(false), found(&rows(sent), "https://H:443/x?a=1", false, "http"));
        assert_eq!(expect(true), found(&rows(sent), "", true, "http"), "by larder");
    }
    for elsewhere in
        ["https://h/y", "http://h/x?a=1", "https://other/x?a=1", "https://h:8443/x?a=1", "/x?a=1"]
    {
        assert_eq!(None, found(&rows(HTTPS), elsewhere, false, "http"), "{elsewhere}");
    }
    assert_eq!(
        None,
        found(&rows(SILENT), "https://h/x?a=1", false, "http"),
        "clients without a proxy follow it"
    );
    assert_eq!(None, found(&rows(HTTPS), "https://h/x?a=1", false, "https"), "a trusted proxy");
    assert_eq!(None, found(&rows(HTTPS)[..18], "https://h/x?a=1", false, "http"), "nine");
    let mut many = rows(HTTPS);
    many.extend((20..22).map(|it| row(it, "/x".to_owned(), String::new())));
    assert_eq!(None, found(&many, "https://h/x?a=1", false, "http"), "one of the clients invents the field");
    assert!(!String::from_utf8_lossy(&came("https://h/x?token=s3cret")).contains("s3cret"));
}

/// Two releases behind one route were named by no sentence: each page was stored after the first response that may be.
#[test]
fn origins_that_disagree_on_each_page_are_found_by_few_responses() {
    const NO_STORE: &[Field<'static>] = &[field("cache-control", "no-store")];
    let policy = Policy::default();
    let found = |shares: u64, forbids: u64, change: &dyn Fn(usize, &mut Row)| {
        let all = (0..shares).map(|it| (1, AGE, it)).chain((0..forbids).map(|it| (2, NO_STORE, it)));
        let (origins, rows): (Vec<u64>, Vec<Row>) = all
            .map(|(origin, came, it)| (origin, Row { came, ..row(it, format!("/{it}"), String::new()) }))
            .unzip();
        recorded(&with(rows, change), |all| {
            let mut application_faults = RouteFaults::new(&policy);
            all.iter().enumerate().for_each(|(at, it)| application_faults.note(at, it, origins[at]));
            application_faults.disagreement().map(|it| (it.shares, it.forbids))
        })
    };
    let same = |_: usize, _: &mut Row| ();
    assert_eq!(Some(((1, 4), (2, 8))), found(4, 8, &same));
    assert_eq!(None, found(3, 9, &same), "too few of one");
    assert_eq!(None, found(4, 7, &same), "too few of both");
    assert_eq!(
        None,
        found(4, 8, &|at, it| if at == 4 {
            it.came = AGE
        }),
        "one of the second may be shared"
    );
    assert_eq!(
        None,
        found(4, 8, &|_, it| it.cookie = "sid=1".to_owned()),
        "sessions may be bound to an origin"
    );
    assert_eq!(
        None,
        found(4, 8, &|at, it| if at > 5 {
            it.target = format!("/other{at}")
        }),
        "two common pages"
    );
}
