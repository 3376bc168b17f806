//! Attacks on the advice: no proposal may let a response be shared that is for one client.

use super::*;
use crate::field::Field;
use crate::key::QueryPolicy;
use crate::miss_reason::{MissReason, REASONS};
use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::reuse::{self, Reuse};
use crate::storable::{self, Storable};
use crate::stored::Meta;
use crate::trace::Silent;
use crate::trial::evidence::{
    DemandedResponses, EqualForAll, NeedlessParameters, ReorderedParameters, ShareableResponses, SilentErrors,
};
use larder_stdx::clock::WallTime;

mod settings;

const NOW: WallTime = WallTime(1_000_000);

fn facts(policy: &Policy) -> ChangeFacts<'_> {
    ChangeFacts {
        policy,
        is_public: true,
        parameters: u64::MAX >> 8,
        status: None,
        set_cookies: &[],
        length: Some(80 << 20),
        most_stored: 256 << 20,
        ram_size: 1 << 30,
        ram_limit: 1 << 40,
        needed: NeededPages::default(),
        has_disk: false,
        full_disk: None,
    }
}

fn settings_of(all: &[SafeChange]) -> Vec<&SafeSetting> {
    let settings = all.iter().filter_map(|it| match it {
        SafeChange::Configuration { settings, .. } => Some(settings),
        SafeChange::Application { .. } | SafeChange::Server { .. } => None,
    });
    settings.flatten().collect()
}

/// Names and values.
type Lines = &'static [(&'static str, &'static str)];

/// Exchanges that are for one client: the request's fields and the response's.
const PRIVATE: &[(Lines, Lines)] = &[
    (&[], &[("cache-control", "private")]),
    (&[], &[("cache-control", "private, max-age=60")]),
    (&[], &[("cache-control", "no-store")]),
    (&[], &[("set-cookie", "session=1")]),
    (&[], &[("set-cookie", "session=1"), ("cache-control", "max-age=60")]),
    (&[], &[("vary", "*"), ("etag", "\"1\"")]),
    (&[("cookie", "session=1")], &[]),
    (&[("cookie", "session=1")], &[("etag", "\"1\"")]),
    (&[("cookie", "session=1")], &[("last-modified", "Mon, 05 Jan 1970 00:00:00 GMT")]),
    (&[("cookie", "session=1")], &[("vary", "cookie")]),
    (&[("cookie", "session=1")], &[("cache-control", "max-age=0")]),
    (&[("cookie", "_ga=1; session=1")], &[("etag", "\"1\"")]),
    (&[("cookie", "session=1; _gid=2")], &[]),
    (&[("cookie", "_ga=1"), ("cookie", "session=1")], &[]),
    (&[("authorization", "Bearer a")], &[]),
    (&[("authorization", "Bearer a")], &[("etag", "\"1\"")]),
    (&[("authorization", "Bearer a")], &[("cache-control", "max-age=60")]),
    (&[("cache-control", "no-store")], &[("cache-control", "max-age=60")]),
];

/// Whether the response is stored and then served to another client without credentials.
fn is_shared(policy: &Policy, request: &[Field<'_>], response: &[Field<'_>]) -> bool {
    let facts = RequestFacts::read("GET", request);
    if storable::decide(&facts, 200, response, policy, NOW, NOW, &mut Silent) != Storable::Store {
        return false;
    }
    let meta = Meta::of(200, response, policy, NOW, NOW);
    let other = RequestFacts::read("GET", &[]);
    matches!(
        reuse::decide(Ok(&meta), &other, policy, NOW, &mut Silent),
        Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating
    )
}

fn fields<'a>(of: &'a [(&'a str, &'a str)]) -> Vec<Field<'a>> {
    of.iter().map(|it| Field { name: it.0, value: it.1.as_bytes() }).collect()
}

#[test]
fn no_setting_shares_a_response_for_one_client() {
    let named = Policy { private_cookies: vec!["session*".to_owned()], ..Policy::default() };
    for policy in [Policy::default(), named] {
        for row in REASONS {
            for change in changes(row.reason, &facts(&policy)) {
                let mut after = policy.clone();
                settings_of(&[change]).iter().for_each(|it| it.apply(&mut after));
                for (request, response) in PRIVATE {
                    let (request_fields, response_fields) = (fields(request), fields(response));
                    assert!(
                        !is_shared(&after, &request_fields, &response_fields),
                        "{}: {request:?} {response:?} became shared",
                        row.name
                    );
                }
            }
        }
    }
}

/// The attack works: a lifetime without a bypass for cookies would share the page of a session.
#[test]
fn a_lifetime_alone_would_share_it() {
    let mut policy = Policy::default();
    SafeSetting::DefaultTtl(60).apply(&mut policy);
    assert!(is_shared(&policy, &fields(&[("cookie", "session=1")]), &[]));
}

#[test]
fn responses_that_are_not_cached_on_purpose_get_no_proposed_setting() {
    let policy = Policy::default();
    for row in REASONS.iter().filter(|it| it.class.is_uncached()) {
        assert!(settings_of(&changes(row.reason, &facts(&policy))).is_empty(), "{}", row.name);
    }
}

#[test]
fn no_lifetime_where_responses_differed() {
    let policy = Policy::default();
    let apart = ChangeFacts { is_public: false, ..facts(&policy) };
    for reason in [MissReason::NoLifetime, MissReason::Expired] {
        assert!(settings_of(&changes(reason, &apart)).is_empty(), "{reason:?}");
    }
}

#[test]
fn the_parameters_in_force_stay() {
    let mut policy = Policy::default();
    policy.key.query = QueryPolicy::Drop(vec!["session".to_owned(), "utm_*".to_owned()]);
    let asked =
        ChangeFacts { parameters: crate::analytics::parameters_of("/?utm_a=1&gclid=2"), ..facts(&policy) };
    let all = changes(MissReason::FirstRequest, &asked);
    let [SafeSetting::DropParameters(names)] = settings_of(&all)[..] else { panic!("{all:?}") };
    assert_eq!(["session", "utm_*", "gclid"], names[..]);
    for query in [QueryPolicy::None, QueryPolicy::Keep(Vec::new())] {
        policy.key.query = query;
        assert!(changes(MissReason::FirstRequest, &facts(&policy)).is_empty());
    }
}

#[test]
fn no_more_ram_than_the_machine_has() {
    let policy = Policy::default();
    let small = ChangeFacts { ram_limit: 1 << 30, has_disk: true, ..facts(&policy) };
    assert!(changes(MissReason::Evicted, &small).is_empty());
    let all = changes(MissReason::Evicted, &facts(&policy));
    let keys: Vec<_> = settings_of(&all).iter().map(|it| (it.key(), it.value())).collect();
    let text = |it: &str| SettingValue::Text(it.to_owned());
    assert_eq!([("cache.ram.size", text("2GiB")), ("cache.disk.path", text("/var/cache/larder"))], keys[..]);
    // A disk tier that is full has a size, too.
    let full = ChangeFacts { full_disk: Some(10 << 30), has_disk: true, ..facts(&policy) };
    let all = changes(MissReason::Evicted, &full);
    let keys: Vec<_> = settings_of(&all).iter().map(|it| (it.key(), it.value())).collect();
    assert_eq!([("cache.disk.size", text("20GiB")), ("cache.ram.size", text("2GiB"))], keys[..]);
}

/// Twice the size was proposed, 24 MiB, where the pages needed 30 MiB; and room for the evicted pages alone, where those in RAM need theirs.
#[test]
fn the_proposed_ram_has_room_for_the_pages_in_it_and_the_evicted_ones() {
    let policy = Policy::default();
    let of = |evicted_bytes: u64, ram_limit| {
        let one = ChangeFacts {
            ram_size: 12 << 20,
            ram_limit,
            needed: NeededPages { evicted: 600, evicted_bytes, stored: 11 << 20 },
            has_disk: true,
            ..facts(&policy)
        };
        let all = changes(MissReason::Evicted, &one);
        let [SafeChange::Configuration { sentence, settings }] = &all[..] else { panic!("{all:?}") };
        (sentence.to_string(), settings[0].value())
    };
    let text = |it: &str| SettingValue::Text(it.to_owned());
    let sentence = |room| {
        format!(
            "RAM holds 11 MiB of pages, and 600 different pages of about 30 MiB were evicted while they were fresh: RAM has room for {room} of them."
        )
    };
    assert_eq!((sentence("all"), text("47MiB")), of(30 << 20, 1 << 30));
    assert_eq!((sentence("a part"), text("30MiB")), of(30 << 20, 30 << 20));
    assert_eq!(text("48MiB"), of(500 << 20, 1 << 30).1, "no more than four times the size");
    assert_eq!(("RAM keeps twice as many pages.".to_owned(), text("24MiB")), of(1 << 20, 1 << 30));
}

fn explained<'a>(verdict: &'a str, reason: Option<MissReason>) -> ExplainedFacts<'a> {
    ExplainedFacts {
        verdict,
        sentence: "",
        reason,
        tier: "ram",
        freshness: "fresh for 48 s",
        failure: None,
        time_limit: None,
        credential: None,
        errors: None,
        redirects_to_https: false,
        untrusted_proxy: None,
        status: None,
        refused_by: None,
        equal: None,
        by_access: false,
        audience: PageAudience::Unknown,
        max_object: 1 << 20,
        set_cookie_hint: None,
        has_setting: false,
    }
}

#[test]
fn the_answer_is_one_clause_and_the_judgement_one_sentence() {
    #[track_caller]
    fn check(facts: ExplainedFacts<'_>, answer: &str, because: &str) {
        let report = summarize(&facts);
        assert_eq!((answer, because), (&*report.answer, &*report.because));
    }
    check(
        explained("hit", None),
        "Served from RAM: fresh for 48 s.",
        "That is right: the stored page answers, and the origin is not asked.",
    );
    check(
        explained("miss", Some(MissReason::SetCookie)),
        "Not cached: the response sets a cookie.",
        "That is right: the cookie is for one client; if the page is the same for all, the application can set the cookie on one page only, or by a script.",
    );
    check(
        explained("miss", Some(MissReason::FirstRequest)),
        "Not stored yet: no response is stored under this key.",
        "That is normal: each page is fetched from the origin once.",
    );
    let credentials = explained("pass", Some(MissReason::Credentials));
    check(
        ExplainedFacts {
            credential: Some(&named(CredentialOf::LastRequest, "the cookie lang")),
            ..credentials
        },
        "Not cached: the last request for this URL had the cookie lang, and nothing says that the page is the same for all clients.",
        "That is right: the page may be for one client.",
    );
    let no_lifetime = explained("miss", Some(MissReason::NoLifetime));
    check(
        no_lifetime,
        "Not cached: the response declares no lifetime.",
        "It could be cached: a lifetime by the application or by the route lets larder keep it.",
    );
    check(
        ExplainedFacts { audience: PageAudience::OneClient, ..no_lifetime },
        "Not cached: the response declares no lifetime.",
        "That is right: a response to this URL was for one client.",
    );
}

fn named(of: CredentialOf, words: &str) -> NamedCredential {
    NamedCredential { of, words: words.to_owned() }
}

#[test]
fn the_answer_names_the_field_or_cookies_on_which_the_reason_depends() {
    for (reason, of, words, answer) in [
        (
            MissReason::PrivateCookie,
            CredentialOf::Request,
            "the cookie sid",
            "Not cached: the request has the cookie sid, which `cache.private_cookies` makes private.",
        ),
        (
            MissReason::Credentials,
            CredentialOf::Variants,
            "the cookies a and b",
            "Not stored for this client: Vary makes a variant for each value of the cookies a and b.",
        ),
        (
            MissReason::SetCookie,
            CredentialOf::Response,
            "the cookie sid",
            "Not cached: the response sets the cookie sid.",
        ),
        (
            MissReason::Authorization,
            CredentialOf::LastRequest,
            "Authorization",
            "Not cached: the last request for this URL had Authorization.",
        ),
    ] {
        let credential = named(of, words);
        let facts = ExplainedFacts { credential: Some(&credential), ..explained("miss", Some(reason)) };
        assert_eq!(answer, summarize(&facts).answer);
    }
}

/// Explain said "That is right" of a page that the advice called equal for all values of the cookie.
#[test]
fn a_page_that_is_equal_for_all_cookies_could_be_cached() {
    let evidence =
        "Recent requests: 90 of 100 could have been hits; 4 pages were the same for all values of sid.";
    for reason in [MissReason::PrivateCookie, MissReason::Credentials] {
        let facts = ExplainedFacts { equal: Some(evidence), ..explained("pass", Some(reason)) };
        let found = summarize(&facts);
        assert_eq!((Rightness::CouldBeCached, true), (found.rightness, found.shows_changes));
        assert_eq!(format!("It could be cached. {evidence}"), found.because);
        for facts in [
            ExplainedFacts { audience: PageAudience::Differs, ..facts },
            ExplainedFacts { by_access: true, ..facts },
            ExplainedFacts { reason: Some(MissReason::SetCookie), ..facts },
        ] {
            assert_eq!(Rightness::Right, summarize(&facts).rightness, "{facts:?}");
        }
    }
}

/// Explain said "That is right" of a redirect loop and of a URL that answers each request with 500.
#[test]
fn a_fault_of_the_application_or_of_a_setting_is_never_right() {
    let of_credentials = |verdict| ExplainedFacts {
        credential: None,
        audience: PageAudience::OneClient,
        ..explained(verdict, Some(MissReason::Credentials))
    };
    let check = |facts: ExplainedFacts<'_>, answer: &str, because: &str| {
        let found = summarize(&facts);
        assert_eq!((answer, Rightness::Fault), (&*found.answer, found.rightness));
        assert!(found.because.contains(because) && !found.shows_changes, "{}", found.because);
    };
    let loops = ExplainedFacts { redirects_to_https: true, ..of_credentials("miss") };
    let of_proxy = ExplainedFacts { untrusted_proxy: Some("127.0.7.1"), ..loops };
    assert_eq!(Rightness::Right, summarize(&loops).rightness, "a site may redirect to https");
    check(
        of_proxy,
        "Not cached: the origin redirects to the same URL over https, which is a loop for the clients of 127.0.7.1.",
        "add it: clients.trusted = [\"127.0.7.1\"]",
    );
    // The redirect may be stored as well.
    check(
        ExplainedFacts { verdict: "hit", reason: None, ..of_proxy },
        "Served from RAM: the origin redirects to the same URL over https, which is a loop for the clients of 127.0.7.1.",
        "`clients.trusted` lacks this address",
    );
    let late = ExplainedFacts { failure: Some("the origin timed out"), ..explained("miss", None) };
    let answer = "Not cached: the origin gave no valid response (the origin timed out).";
    check(late, answer, "Repair the origin first");
    let limit = Some("`site.route.proxy.first_byte_timeout` (at a.toml:9) is 600ms");
    check(
        ExplainedFacts { time_limit: limit, ..late },
        answer,
        "larder ended the request: `site.route.proxy.first_byte_timeout` (at a.toml:9) is 600ms. Raise it",
    );
    let own = explained("miss", Some(MissReason::RedirectLoop));
    check(
        own,
        "Not cached: the origin redirects the request to its own URL, which is a loop.",
        "No client can follow it",
    );
    check(
        ExplainedFacts { untrusted_proxy: Some("10.0.0.1"), ..own },
        "Not cached: the origin redirects the request to its own URL, which is a loop.",
        "10.0.0.1 sends X-Forwarded-Proto: https, which larder ignores",
    );
    for (failed, of, because) in [
        (1, 1, "The last request for it failed"),
        (4, 4, "Each of the last 4 recorded requests"),
        (2, 5, "2 of the last 5"),
    ] {
        let errors = Some(UrlErrors { status: 500, failed, of });
        check(
            ExplainedFacts { errors, ..of_credentials("pass") },
            "Not cached: the last response to this URL was 500.",
            because,
        );
    }
    check(
        ExplainedFacts { status: Some(503), ..explained("hit", None) },
        "Served from RAM: the stored response is an error (503).",
        "`cache.status_ttl`",
    );
    check(
        ExplainedFacts { failure: Some("no connection"), ..of_credentials("miss") },
        "Not cached: the origin gave no valid response (no connection).",
        "Repair the origin first",
    );
}

#[test]
fn a_refused_request_is_neither_right_nor_wrong() {
    let rule =
        "`site.route.access.allow` at a.toml:8 decides, before the cache. It admits clients in 10.0.0.0/8.";
    let facts = ExplainedFacts {
        sentence: "Refused by larder before the cache: the client 127.0.0.1 is not in allow.",
        refused_by: Some(rule),
        ..explained("refused", None)
    };
    let found = summarize(&facts);
    assert_eq!(
        ("Refused: the client 127.0.0.1 is not in allow.", Rightness::ByRule, rule),
        (&*found.answer, found.rightness, &*found.because)
    );
    let answers = [
        ("larder rejects the request with 405: no.", "Rejected: 405: no."),
        (
            "No file answers: 404 No resource exists at this URL.",
            "No file answers: 404 No resource exists at this URL.",
        ),
        (
            "A file accepts GET, HEAD and OPTIONS, not this method.",
            "A file accepts GET, HEAD and OPTIONS, not this method.",
        ),
    ];
    for (sentence, answer) in answers {
        let found = summarize(&ExplainedFacts { sentence, ..explained("refused", None) });
        assert_eq!((answer, Rightness::ByRule), (&*found.answer, found.rightness));
        assert!(!found.because.contains("right"), "{}", found.because);
    }
}

#[test]
fn a_response_that_is_too_large_names_the_limit() {
    for (max_object, limit) in [(1 << 20, "1MiB"), (1536 << 10, "1536KiB"), (1000, "1000B")] {
        let facts = ExplainedFacts { max_object, ..explained("miss", Some(MissReason::TooLarge)) };
        let answer = format!("Not cached: the response is larger than cache.max_object ({limit}).");
        assert_eq!(answer, summarize(&facts).answer);
    }
}

#[test]
fn a_page_of_one_client_gets_no_proposed_change() {
    for row in REASONS {
        for audience in [PageAudience::Differs, PageAudience::OneClient] {
            let report = summarize(&ExplainedFacts { audience, ..explained("miss", Some(row.reason)) });
            assert!(!report.shows_changes && report.rightness != Rightness::CouldBeCached, "{}", row.name);
        }
    }
}

fn counts(of: &[(MissReason, u64)]) -> Vec<ReasonCount> {
    of.iter().map(|it| ReasonCount { reason: it.0, requests: it.1, micros: it.1 * 1000 }).collect()
}

fn route<'a>(policy: &'a Policy, reasons: &'a [ReasonCount]) -> CountedRoute<'a> {
    CountedRoute {
        policy,
        reasons,
        analytics: 0,
        parameters: 0,
        cookies: 0,
        plain: 0,
        anonymous: 0,
        removed_cookies: &[],
        removals: 0,
        equal: None,
        needless: None,
        reordered: None,
        shareable: None,
        demanded: None,
        silent: &NO_ERRORS,
        varying: &[],
        large: &[],
        most_stored: 256 << 20,
        differs: false,
        is_red: false,
    }
}

static NO_ERRORS: SilentErrors = SilentErrors { errors: 0, all: 0, statuses: Vec::new() };

fn advice_of(routes: &[CountedRoute<'_>]) -> Advice {
    advise(&AdviceFacts {
        routes,
        ram_size: 1 << 30,
        ram_limit: 1 << 40,
        needed: NeededPages::default(),
        has_disk: false,
        full_disk: None,
        doubt: None,
    })
}

fn kinds(of: &Advice) -> Vec<(&'static str, u64)> {
    of.findings.iter().map(|it| (it.kind.name(), it.requests)).collect()
}

#[test]
fn each_fault_is_found_with_the_requests_that_it_costs() {
    let policy = Policy { private_cookies: vec!["*".to_owned()], ..Policy::default() };
    let reasons = counts(&[
        (MissReason::PrivateCookie, 200),
        (MissReason::FirstRequest, 100),
        (MissReason::NoLifetime, 90),
        (MissReason::Expired, 80),
        (MissReason::Evicted, 70),
        (MissReason::NoRoom, 1),
        (MissReason::Idle, 60),
        (MissReason::Variant, 50),
        (MissReason::Useless, 40),
        (MissReason::SetCookie, 1000),
        (MissReason::TooLarge, 36),
        (MissReason::CacheOff, 33),
        (MissReason::ClientNoCache, 25),
    ]);
    let parameters = crate::analytics::parameters_of("/?gclid=1");
    let advice = advice_of(&[CountedRoute {
        analytics: 95,
        parameters,
        cookies: 97,
        plain: 30,
        anonymous: 85,
        removed_cookies: &["sid".to_owned()],
        removals: 3,
        large: &[LargePage { length: 100 << 20, requests: 36 }],
        shareable: Some(&ShareableResponses { could: 31, pages: 1, all: 33 }),
        demanded: Some(&demanded_by(1)),
        silent: &SilentErrors { errors: 25, all: 100, statuses: vec![404] },
        reordered: Some(&ReorderedParameters { requests: 99, pages: 1, all: 100 }),
        ..route(&policy, &reasons)
    }]);
    assert_eq!(
        [
            ("parameter-order", 98),
            ("analytics-cookies", 97),
            ("analytics-parameters", 95),
            ("no-lifetime", 85),
            ("expired", 80),
            ("small-ram", 71),
            ("disk", 60),
            ("variants", 50),
            ("validators", 40),
            ("too-large", 35),
            ("cache-off", 30),
            ("missing-pages", 22),
            ("new-demanded", 22),
            ("removed-cookies", 3),
            ("compression-off", 30),
        ],
        kinds(&advice)[..]
    );
    assert_eq!(
        [(MissReason::SetCookie, 1000), (MissReason::PrivateCookie, 200), (MissReason::CacheOff, 33)],
        advice.uncached.iter().map(|it| (it.count.reason, it.count.requests)).collect::<Vec<_>>()[..]
    );
    assert!(advice.findings.iter().all(|it| !it.changes.is_empty() && it.kind.sentence().ends_with('.')));
    // Two replace those about analytics, and one is about servers.
    assert_eq!(AdviceKind::ALL.len() - 3, advice.findings.len(), "every kind is attacked here");
}

fn demanded_by(clients: usize) -> DemandedResponses {
    DemandedResponses { could: 9, pages: 1, all: 9, clients, most: Some(([10, 0, 0, 9].into(), 7)) }
}

/// The page proposed four changes, and with each of them in force the hit ratio stayed 0 %.
#[test]
fn stored_responses_in_doubt_are_the_first_finding_while_they_are() {
    let policy = Policy::default();
    let reasons = counts(&[(MissReason::Expired, 1000), (MissReason::Doubted, 9)]);
    let routes = [route(&policy, &reasons)];
    let facts = AdviceFacts {
        routes: &routes,
        ram_size: 1 << 30,
        ram_limit: 1 << 40,
        needed: NeededPages::default(),
        has_disk: false,
        full_disk: None,
        doubt: Some("The purge log is not followed. Restore its servers."),
    };
    let advice = advise(&facts);
    assert_eq!([("responses-doubted", 9), ("expired", 1000)], kinds(&advice)[..]);
    let sentence = "The purge log is not followed. Restore its servers.".to_owned();
    assert_eq!([SafeChange::Server { sentence }], advice.findings[0].changes[..]);
    assert_eq!([("expired", 1000)], kinds(&advise(&AdviceFacts { doubt: None, ..facts }))[..]);
}

fn equal(cookies: &[&str], needs_lifetime: bool) -> EqualForAll {
    let cookies = cookies.iter().map(|it| (*it).to_owned()).collect();
    EqualForAll { cookies, analytics: Vec::new(), needs_lifetime, could: 90, pages: 10, all: 160 }
}

/// Recent requests show cookies and parameters that change no page: the counted requests are helped by their share.
#[test]
fn cookies_and_parameters_that_change_no_page_are_one_change_each() {
    let reasons = counts(&[(MissReason::PrivateCookie, 200), (MissReason::FirstRequest, 100)]);
    let list = |names: &[&str]| SettingValue::List(names.iter().map(|it| (*it).to_owned()).collect());
    let text = |it: &str| SettingValue::Text(it.to_owned());
    let needless = NeedlessParameters {
        names: vec!["emid".to_owned(), "wt_mc".to_owned()],
        analytics: vec!["utm_*".to_owned()],
        requests: 80,
        pages: 5,
        all: 100,
    };
    let check = |private: &[&str], equal: &EqualForAll, expect: &[(&str, SettingValue)]| {
        let private_cookies = private.iter().map(|it| (*it).to_owned()).collect();
        let policy = Policy { private_cookies, ..Policy::default() };
        let counted = CountedRoute {
            analytics: 100,
            parameters: 1,
            cookies: 100,
            equal: Some(equal),
            needless: Some(&needless),
            ..route(&policy, &reasons)
        };
        let advice = advice_of(&[counted]);
        assert_eq!([("needless-cookies", 100), ("needless-parameters", 75)], kinds(&advice)[..]);
        let settings = |at: usize| -> Vec<_> {
            settings_of(&advice.findings[at].changes).iter().map(|it| (it.key(), it.value())).collect()
        };
        assert_eq!(expect, settings(0), "{private:?}");
        assert_eq!([("cache.key.drop", list(&["utm_*", "emid", "wt_mc"]))], settings(1)[..]);
        // What is private, or differed, gets neither.
        assert_eq!(
            0,
            advice_of(&[CountedRoute { is_red: true, cookies: 0, analytics: 0, ..counted }]).findings.len()
        );
        let differs = advice_of(&[CountedRoute { differs: true, cookies: 0, ..counted }]);
        assert_eq!([("needless-parameters", 75)], kinds(&differs)[..]);
    };
    check(&["*"], &equal(&["sid"], false), &[("cache.ignored_cookies", list(&["sid"]))]);
    check(&["sid", "cart"], &equal(&["sid"], false), &[("cache.private_cookies", list(&["cart"]))]);
    check(&["sid"], &equal(&["sid"], false), &[("cache.ignored_cookies", list(&["sid"]))]);
    check(&["sid", "s*"], &equal(&["sid"], false), &[("cache.ignored_cookies", list(&["sid"]))]);
    check(
        &[],
        &equal(&["sid"], true),
        &[
            ("cache.default_ttl", text("60s")),
            ("cache.private_cookies", list(&["*"])),
            ("cache.ignored_cookies", list(&["sid"])),
        ],
    );
}

/// `hb_sess` was proposed in one list with the cookies of statistics, and only the third line spoke of logins.
#[test]
fn a_cookie_that_is_named_like_a_session_is_called_one_first() {
    let policy = Policy::default();
    let sentence = |cookies: &[&str]| match without_needless_cookies(&policy, &equal(cookies, false)) {
        SafeChange::Configuration { sentence, .. } => sentence.into_owned(),
        it => panic!("{it:?}"),
    };
    let found = sentence(&["hb_sess", "hb_theme"]);
    assert!(found.starts_with("Caution: by its name hb_sess is a session cookie. "), "{found}");
    assert!(sentence(&["PHPSESSID", "auth"]).starts_with("Caution: by their names PHPSESSID, auth are"));
    assert!(sentence(&["hb_theme", "shop_id"]).starts_with("Requests that have only these cookies"));
}

/// Most sites name no private cookies: the first visit is stored, and all later ones have cookies of analytics.
#[test]
fn cookies_of_analytics_on_a_route_that_names_no_private_ones() {
    let policy = Policy::default();
    let reasons = counts(&[(MissReason::Credentials, 200)]);
    let counted = CountedRoute { cookies: 150, ..route(&policy, &reasons) };
    let advice = advice_of(&[counted]);
    assert_eq!([("analytics-cookies", 150)], kinds(&advice)[..]);
    let keys: Vec<_> = settings_of(&advice.findings[0].changes).iter().map(|it| it.key()).collect();
    assert_eq!(["cache.private_cookies", "cache.ignored_cookies"], keys[..]);
    assert!(advice_of(&[CountedRoute { differs: true, ..counted }]).findings.is_empty());
}

/// The finding is about the routes without compression, and its change leaves responses for one client as they are.
#[test]
fn compression_is_proposed_for_stored_responses() {
    let (without, reasons) = (Policy::default(), counts(&[(MissReason::FirstRequest, 100)]));
    let with = Policy { compress: Some(crate::compress::Compress::usual().into()), ..Policy::default() };
    let of = |policy, plain| CountedRoute { plain, ..route(policy, &reasons) };
    let advice = advice_of(&[of(&without, 6), of(&without, 5), of(&with, 40)]);
    assert_eq!([("compression-off", 11)], kinds(&advice)[..]);
    let values: Vec<_> =
        settings_of(&advice.findings[0].changes).iter().map(|it| (it.key(), it.value())).collect();
    let switch = SettingValue::Switch;
    assert_eq!(
        [("cache.compress.enabled", switch(true)), ("cache.compress.uncached", switch(false))],
        values[..]
    );
    assert!(advice_of(&[of(&without, 9), of(&with, 40)]).findings.is_empty());
    // The codecs have no room in 8 MiB: the same change makes it, if the machine has it.
    let routes = &[of(&without, 1000)];
    let small = |ram_limit| {
        advise(&AdviceFacts {
            routes,
            ram_size: 8 << 20,
            ram_limit,
            needed: NeededPages::default(),
            has_disk: false,
            full_disk: None,
            doubt: None,
        })
    };
    let advice = small(1 << 40);
    let keys: Vec<_> = settings_of(&advice.findings[0].changes).iter().map(|it| it.key()).collect();
    assert_eq!(["cache.compress.enabled", "cache.compress.uncached", "cache.ram.size"], keys[..]);
    assert!(small(15 << 20).findings.is_empty());
}

#[test]
fn few_requests_are_no_finding() {
    let policy = Policy::default();
    let few = counts(&[(MissReason::Expired, 9), (MissReason::Evicted, 9)]);
    assert!(advice_of(&[route(&policy, &few)]).findings.is_empty());
    let rare =
        counts(&[(MissReason::Expired, 99), (MissReason::Evicted, 99), (MissReason::SetCookie, 100_000)]);
    assert!(advice_of(&[route(&policy, &rare)]).findings.is_empty());
}

/// Neither a reason that is right nor a route whose responses differ gets a setting, whatever was counted.
#[test]
fn no_setting_is_proposed_that_shares_private_responses() {
    let named = Policy { private_cookies: vec!["session*".to_owned()], ..Policy::default() };
    for (policy, row) in
        [Policy::default(), named].iter().flat_map(|it| REASONS.iter().map(move |row| (it, row)))
    {
        let reasons = counts(&[(row.reason, 1_000_000)]);
        let counted = CountedRoute {
            analytics: 1_000_000,
            parameters: 1,
            cookies: 1_000_000,
            anonymous: 1_000_000,
            shareable: Some(&ShareableResponses { could: 1000, pages: 1, all: 1000 }),
            reordered: Some(&ReorderedParameters { requests: 1000, pages: 1, all: 1000 }),
            large: &[LargePage { length: 100 << 20, requests: 1000 }],
            ..route(policy, &reasons)
        };
        for differs in [false, true] {
            let advice = advice_of(&[CountedRoute { differs, ..counted }]);
            for finding in &advice.findings {
                let mut after = policy.clone();
                settings_of(&finding.changes).iter().for_each(|it| it.apply(&mut after));
                for (request, response) in PRIVATE {
                    assert!(
                        !is_shared(&after, &fields(request), &fields(response)),
                        "{}: {request:?} {response:?}",
                        row.name
                    );
                }
                let gives_life =
                    settings_of(&finding.changes).iter().any(|it| matches!(it, SafeSetting::DefaultTtl(_)));
                assert!(!(differs && gives_life), "{}", row.name);
            }
            let names_none = policy.private_cookies.is_empty();
            let can_be_advised = match row.reason {
                MissReason::Useless => true,
                MissReason::CacheOff => !differs,
                // Those whose only cookies are of analytics.
                MissReason::PrivateCookie => !names_none,
                MissReason::Credentials => names_none && !differs,
                _ => false,
            };
            if row.class.is_uncached() && !can_be_advised {
                assert!(advice.findings.is_empty(), "{}: {:?}", row.name, advice.findings);
                assert_eq!(1, advice.uncached.len(), "{}", row.name);
            }
        }
    }
}

#[test]
fn a_setting_in_force_is_not_proposed() {
    let policy = Policy {
        default_ttl: Some(1),
        stale_while_revalidate: 1,
        key: crate::key::KeyRecipe {
            query: QueryPolicy::Drop(vec!["utm_*".to_owned()]),
            ..Default::default()
        },
        ..Policy::default()
    };
    let reasons =
        counts(&[(MissReason::FirstRequest, 100), (MissReason::Expired, 100), (MissReason::Evicted, 100)]);
    let counted = CountedRoute { analytics: 100, parameters: 1, ..route(&policy, &reasons) };
    let report = advise(&AdviceFacts {
        routes: &[counted],
        ram_size: 1 << 30,
        ram_limit: 1 << 30,
        needed: NeededPages::default(),
        has_disk: true,
        full_disk: None,
        doubt: None,
    });
    assert_eq!(Vec::<(&str, u64)>::new(), kinds(&report));
}
