use super::*;

mod fleet;
mod refusals;
mod traffic;

use crate::certificate_renewal::{ExpiryState, Validity};

/// 02:46:11 UTC on 6 November 1994.
const NOW: u64 = 784_089_971;

fn origin(name: &str, why: &str) -> OriginFact {
    OriginFact {
        name: name.to_owned(),
        is_used: why.is_empty(),
        is_down: !why.is_empty(),
        why: why.to_owned(),
        ..OriginFact::default()
    }
}

fn route(name: &str, origins: &[usize]) -> RouteFact {
    RouteFact { name: name.to_owned(), origins: origins.to_vec() }
}

/// Facts at a second after the start.
fn at(second: u64) -> StateFacts {
    StateFacts {
        now: NOW + second,
        at: 1000 * second,
        ram_budget: 100,
        ram_usable: 100,
        ..Default::default()
    }
}

fn counts(requests: u64, errors_5xx: u64) -> CountFacts {
    CountFacts { requests, errors_5xx, ..Default::default() }
}

/// The names of the findings, and the word.
fn names(report: &ServerStateReport) -> (StateWord, Vec<&'static str>) {
    (report.word, report.findings.iter().map(|it| it.kind.row().name).collect())
}

/// Two readings of the same facts, the second after the longest time that a condition needs.
fn settled(facts: &StateFacts) -> ServerStateReport {
    let mut judge = StateJudge::default();
    judge.look(facts);
    judge.look(&StateFacts { now: facts.now + 60, at: facts.at + 60_000, ..facts.clone() })
}

#[test]
fn the_list_is_in_the_order_of_its_kinds_and_whole() {
    let mut before = Severity::Failing;
    for (at, it) in FINDINGS.iter().enumerate() {
        assert_eq!(at, it.kind as usize, "{}", it.name);
        assert!(it.severity <= before, "{}: the worst come first", it.name);
        assert!(it.remedy.ends_with('.') && !it.form.ends_with('.'), "{}", it.name);
        assert!(manual().contains(&format!("| `{}` |", it.name)));
        before = it.severity;
    }
}

#[test]
fn without_a_condition_it_is_healthy() {
    let report = settled(&at(0));
    assert_eq!((StateWord::Healthy, vec![]), names(&report));
    assert_eq!("Healthy", report.sentence());
}

#[test]
fn an_origin_is_down_with_its_reason_and_its_effect() {
    let why = "its health check answers 503";
    let origins = vec![origin("10.0.0.7:8000", why), origin("10.0.0.8:8000", "")];
    let routes = vec![route("a/", &[0, 1]), route("b/", &[0, 1]), route("c/", &[1])];
    let mut judge = StateJudge::default();
    let facts = StateFacts { origins, routes, ..at(0) };
    let report = judge.look(&facts);
    assert_eq!(
        "Degraded: origin 10.0.0.7:8000 is down since 02:46:11 UTC (its health check answers 503); its 2 routes use \
         10.0.0.8:8000",
        report.sentence()
    );
    assert_eq!("overview?origin=10.0.0.7:8000", report.findings[0].view);
    // The start stays, also if the other one fails; on another day it has a date.
    let both = StateFacts {
        origins: vec![origin("10.0.0.7:8000", why), origin("10.0.0.8:8000", "timeout")],
        ..facts.clone()
    };
    let report = judge.look(&StateFacts { now: NOW + 86_400, at: 86_400_000, ..both });
    assert_eq!((StateWord::Failing, vec!["no-origin", "no-origin"]), names(&report));
    assert_eq!(
        "Failing: origin 10.0.0.7:8000 is down since 06 Nov 02:46:11 UTC (its health check answers 503); 2 routes have no \
         other origin in use (a/, b/) (1 more: no-origin)",
        report.sentence()
    );
    let well =
        StateFacts { origins: vec![origin("10.0.0.7:8000", ""), origin("10.0.0.8:8000", "")], ..facts };
    assert_eq!((StateWord::Healthy, vec![]), names(&judge.look(&StateFacts { now: NOW + 86_401, ..well })));
}

/// "Failing" was the headline for a route whose requests were all answered, and a route with errors alone came third.
#[test]
fn a_failed_health_check_of_an_origin_that_answers_comes_after_requests_that_fail() {
    let why = "health check: it answered 404";
    let origins = vec![
        OriginFact { is_answering: true, ..origin("a", why) },
        OriginFact { is_answering: true, ..origin("b", why) },
        origin("c", ""),
    ];
    let routes = vec![route("rooms", &[0, 1]), route("r1", &[2])];
    let mut judge = StateJudge::default();
    let mut look = |second, errors| {
        let (counts, troubled) = (counts(10_000 * second, errors), vec![troubled(1, errors, errors, 0)]);
        judge.look(&StateFacts {
            origins: origins.clone(),
            routes: routes.clone(),
            counts,
            troubled,
            ..at(second)
        })
    };
    (0..12).for_each(|second| drop(look(second, 10 * second)));
    let report = look(12, 120);
    assert_eq!((StateWord::Degraded, vec!["route-fails", "origin-down", "origin-down"]), names(&report));
    let sentence = report.findings[1].sentence(report.now);
    assert!(
        sentence.ends_with(
            "(health check: it answered 404); 1 route has no other origin in use (rooms); it still gets requests, and answers them"
        ),
        "{sentence}"
    );
}

#[test]
fn an_origin_that_no_route_uses_or_that_is_drained_is_no_finding() {
    let drained = OriginFact { is_used: false, ..origin("a", "") };
    let facts = StateFacts {
        origins: vec![drained, origin("b", "timeout")],
        routes: vec![route("r", &[0])],
        ..at(0)
    };
    assert_eq!((StateWord::Healthy, vec![]), names(&settled(&facts)));
}

#[test]
fn the_share_of_server_errors_needs_requests_and_ends_below_its_threshold() {
    let mut judge = StateJudge::default();
    let mut look = |second: u64, counts: CountFacts| judge.look(&StateFacts { counts, ..at(second) });
    look(0, counts(1_000, 0));
    assert_eq!(StateWord::Healthy, look(1, counts(1_019, 19)).word, "19 requests are too few");
    let report = look(2, counts(1_020, 20));
    assert_eq!((StateWord::Failing, vec!["most-requests-fail"]), names(&report));
    assert_eq!(
        "Failing: 100 % of the responses are server errors since 02:46:13 UTC (20 of 20 within the last minute)",
        report.sentence()
    );
    assert_eq!(vec!["most-requests-fail"], names(&look(3, counts(1_050, 21))).1, "42 %");
    assert_eq!(vec!["requests-fail"], names(&look(4, counts(1_060, 21))).1, "35 %");
    assert_eq!(vec!["requests-fail"], names(&look(5, counts(2_000, 21))).1, "2.1 %");
    assert_eq!(StateWord::Healthy, look(6, counts(2_100, 21)).word, "1.9 %");
    assert_eq!(StateWord::Healthy, look(7, counts(2_101, 50)).word, "5 % is required again");
    assert_eq!(StateWord::Degraded, look(8, counts(2_101, 90)).word);
    // After a minute without requests nothing is known of their share.
    for second in 9..70 {
        look(second, counts(2_101, 90));
    }
    assert_eq!(StateWord::Healthy, look(70, counts(2_101, 90)).word);
}

fn troubled(at: u32, requests: u64, errors_5xx: u64, limited: u64) -> RouteCountFact {
    RouteCountFact { at, name: format!("r{at}"), requests, errors_5xx, limited, ..RouteCountFact::default() }
}

/// The 503s of a maintenance were server errors of the route for a minute after it.
#[test]
fn the_errors_of_a_maintenance_are_none_after_it() {
    let mut judge = StateJudge::default();
    let mut look = |second, it: RouteCountFact| {
        let report = judge.look(&StateFacts { troubled: vec![it], ..at(second) });
        report.findings.first().map(|it| it.evidence.clone())
    };
    assert_eq!(None, look(0, troubled(3, 100, 1, 0)));
    for second in 1..20 {
        let ordered = RouteCountFact { is_ordered: true, ..troubled(3, 100 + second * 40, second * 40, 0) };
        assert_eq!(None, look(second, ordered));
    }
    for second in 20..40 {
        assert_eq!(None, look(second, troubled(3, 900, 760, 0)));
    }
    look(40, troubled(3, 1100, 910, 0));
    // A condition is named when it has lasted.
    assert_eq!(Some("150 of 240 within the last minute".to_owned()), look(55, troubled(3, 1100, 910, 0)));
}

#[test]
fn server_errors_are_reported_by_route_within_the_minute() {
    let mut judge = StateJudge::default();
    let mut look = |second, counts, troubled| {
        let report = judge.look(&StateFacts { counts, troubled, ..at(second) });
        report.findings.first().map(|it| (it.kind.row().name, it.effect.clone()))
    };
    let errors = |effect: &str| Some(("requests-fail", effect.to_owned()));
    look(0, counts(1_000, 100), vec![troubled(3, 900, 100, 0)]);
    // The first route had its errors before.
    let found = look(1, counts(1_100, 110), vec![troubled(1, 50, 10, 0), troubled(3, 900, 100, 0)]);
    assert_eq!(errors("by route: r1 10"), found);
    let many = vec![
        troubled(1, 50, 10, 0),
        troubled(3, 900, 101, 0),
        troubled(4, 50, 12, 0),
        troubled(5, 50, 1, 0),
        troubled(6, 50, 1, 0),
    ];
    assert_eq!(errors("by route: r4 12, r1 10, r3 1 and 2 more"), look(2, counts(1_200, 125), many));
}

fn sums(requests: u64, errors_5xx: u64) -> ConfigSums {
    ConfigSums { routes: [requests, errors_5xx], databases: Vec::new() }
}

#[test]
fn a_reload_keeps_the_minute() {
    let mut judge = StateJudge::default();
    let mut evicted = counts(9_000, 100);
    judge.look(&StateFacts { counts: evicted.clone(), troubled: vec![troubled(3, 900, 100, 0)], ..at(0) });
    evicted.evicted_fresh = 50;
    let begun = CountFacts { requests: 10_000, errors_5xx: 160, ..evicted.clone() };
    let report = judge.look(&StateFacts { counts: begun, troubled: vec![troubled(3, 950, 160, 0)], ..at(1) });
    let sentence = |report: &ServerStateReport| report.findings.first().map(|it| it.sentence(report.now));
    let first =
        "6 % of the responses are server errors since 02:46:12 UTC (60 of 1000 within the last minute)";
    assert!(sentence(&report).unwrap().starts_with(first), "{report:?}");
    // A route with 8000 requests and without errors is removed, one with 300 and 7 ends its maintenance, and the others move.
    judge.reload(&sums(10_000, 160), &sums(2_300, 167), |at| (at == 3).then_some(1));
    let after = CountFacts { requests: 2_900, errors_5xx: 180, ..evicted };
    let report = judge.look(&StateFacts { counts: after, troubled: vec![troubled(1, 980, 173, 0)], ..at(2) });
    let first = "4 % of the responses are server errors since 02:46:12 UTC (73 of 1600 within the last minute); by route: r1 73";
    assert_eq!(Some(first.to_owned()), sentence(&report));
}

#[test]
fn a_reload_without_earlier_errors_begins_no_finding() {
    let mut judge = StateJudge::default();
    judge.look(&StateFacts { counts: counts(1_000, 10), ..at(0) });
    // The removed route had all of these errors and requests; a new one has none.
    judge.reload(&sums(1_000, 10), &sums(0, 0), |_| None);
    let report = judge.look(&StateFacts { counts: counts(100, 1), ..at(1) });
    assert_eq!(StateWord::Healthy, report.word, "{report:?}");
    let report = judge.look(&StateFacts { counts: counts(200, 11), ..at(2) });
    assert!(report.findings[0].evidence.contains("11 of 200"), "{report:?}");
}

fn limited_route(requests: u64, limited: u64) -> RouteCountFact {
    let limits = "5/s by client, 100/h by client".to_owned();
    RouteCountFact { limits, ..troubled(7, requests, 0, limited) }
}

#[test]
fn a_route_that_refuses_most_requests_is_a_notice() {
    let mut judge = StateJudge::default();
    let mut look = |second, requests, limited| {
        let report =
            judge.look(&StateFacts { troubled: vec![limited_route(requests, limited)], ..at(second) });
        let found = report.findings.first().map(|it| (it.kind.row().name, it.sentence(report.now)));
        (report.word, found)
    };
    assert_eq!((StateWord::Healthy, None), look(0, 1_000, 900));
    assert_eq!((StateWord::Healthy, None), look(1, 1_019, 919), "19 are too few");
    assert_eq!((StateWord::Healthy, None), look(2, 1_100, 949), "49 of 100");
    assert_eq!((StateWord::Healthy, None), look(3, 1_100, 950), "it has not lasted");
    let sentence = "route r7 refuses most requests with 429 since 02:46:14 UTC (50 of 100 within the last minute); its limits: 5/s by client, 100/h by client";
    assert_eq!((StateWord::Healthy, Some(("route-limited", sentence.to_owned()))), look(13, 1_100, 950));
    assert_eq!((StateWord::Healthy, None), look(80, 1_100, 950), "a minute later");
}

#[test]
fn redirects_of_requests_to_their_own_url_are_a_finding_for_a_minute() {
    let mut judge = StateJudge::default();
    let mut look = |second, requests, loops| {
        let troubled = vec![RouteCountFact { loops, ..troubled(7, requests, 0, 0) }];
        let report = judge.look(&StateFacts { troubled, ..at(second) });
        let found = report.findings.first().map(|it| (it.kind.row().name, it.sentence(report.now)));
        (report.word, found)
    };
    assert_eq!((StateWord::Healthy, None), look(0, 1_000, 100));
    assert_eq!((StateWord::Healthy, None), look(1, 1_050, 109), "9 are too few");
    assert_eq!((StateWord::Healthy, None), look(2, 1_500, 110), "10 of 500");
    let sentence = "the origin of route r7 redirects requests to their own URL since 02:46:14 UTC (30 of 510 within the last minute); clients never get these pages";
    assert_eq!((StateWord::Degraded, Some(("redirect-loop", sentence.to_owned()))), look(3, 1_510, 130));
    assert_eq!((StateWord::Healthy, None), look(80, 1_510, 130), "a minute later");
}

#[test]
fn others_of_one_kind_are_counted() {
    let mut judge = StateJudge::default();
    judge.look(&at(0));
    let counts =
        CountFacts { limits: std::array::from_fn(|at| if at < 3 { 5 } else { 0 }), ..CountFacts::default() };
    let report = judge.look(&StateFacts { counts, waiting: vec!["workers".to_owned()], ..at(1) });
    assert!(
        report.sentence().ends_with("(3 more: 2 × limit-reached, restart-pending)"),
        "{}",
        report.sentence()
    );
}

#[test]
fn a_reload_that_drops_counters_is_no_error() {
    let mut judge = StateJudge::default();
    judge.look(&StateFacts { counts: counts(1_000, 500), ..at(0) });
    assert_eq!(StateWord::Healthy, judge.look(&StateFacts { counts: counts(10, 10), ..at(1) }).word);
}

#[test]
fn a_limit_is_a_finding_for_a_minute() {
    for (place, row) in LIMITS.iter().enumerate() {
        let mut judge = StateJudge::default();
        let reached = |times: u64| {
            let mut counts = CountFacts::default();
            counts.limits[place] = times;
            counts
        };
        judge.look(&StateFacts { counts: reached(7), ..at(0) });
        assert_eq!(
            StateWord::Healthy,
            judge.look(&StateFacts { counts: reached(11), ..at(1) }).word,
            "4 times"
        );
        let report = judge.look(&StateFacts { counts: reached(12), ..at(2) });
        assert_eq!((StateWord::Degraded, vec!["limit-reached"]), names(&report));
        let expect = format!("Degraded: {} since 02:46:13 UTC (5 times within the last minute)", row.event);
        assert!(report.sentence().starts_with(&expect), "{}", report.sentence());
        for second in 3..63 {
            judge.look(&StateFacts { counts: reached(12), ..at(second) });
        }
        assert_eq!(StateWord::Healthy, judge.look(&StateFacts { counts: reached(12), ..at(63) }).word);
    }
}

#[test]
fn many_readings_within_a_second_take_no_memory() {
    let mut judge = StateJudge::default();
    for number in 0..10_000 {
        judge.look(&StateFacts { at: number, ..at(0) });
    }
    for second in 10..1_000 {
        judge.look(&at(second));
    }
    assert!(judge.samples.len() <= 62, "{}", judge.samples.len());
}

#[test]
fn a_reason_that_is_unknown_for_a_moment_is_that_of_before() {
    let database = |why: &str| StateFacts {
        databases: vec![DatabaseFact { name: "shop".to_owned(), why: why.to_owned(), ..Default::default() }],
        ..at(0)
    };
    let mut judge = StateJudge::default();
    assert_eq!(StateWord::Healthy, judge.look(&database("")).word, "it begins");
    let report = judge.look(&StateFacts { at: 5_000, ..database("connection refused.") });
    assert!(report.sentence().contains("(connection refused); pages"), "{}", report.sentence());
    let report = judge.look(&StateFacts { at: 6_000, ..database("") });
    assert_eq!(
        "Degraded: the changes of database shop are not followed since 02:46:11 UTC (connection refused); pages with its \
         rows are validated every second",
        report.sentence()
    );
}

#[test]
fn changes_of_a_database_that_stay_late_are_a_finding() {
    let database = |second: u64, lag_millis: u64| StateFacts {
        databases: vec![DatabaseFact {
            name: "shop".to_owned(),
            is_followed: true,
            lag_millis,
            lag_bytes: 7_310_000,
            ..Default::default()
        }],
        ..at(second)
    };
    let mut judge = StateJudge::default();
    assert_eq!(StateWord::Healthy, judge.look(&database(0, 2_000)).word);
    assert_eq!(StateWord::Healthy, judge.look(&database(10, 2_001)).word, "it may pass");
    let report = judge.look(&database(20, 12_345));
    let sentence = report.sentence();
    assert!(
        sentence.starts_with("Degraded: the changes of database shop are read late since "),
        "{sentence}"
    );
    let end = "(12 s and 7310000 bytes of its log behind); pages with its rows are validated every second";
    assert!(sentence.ends_with(end), "{sentence}");
    assert_eq!(StateWord::Healthy, judge.look(&database(21, 900)).word);
}

#[test]
fn a_database_whose_pages_fail_is_named_before_the_share_of_errors() {
    let facts = |second, is_followed, [requests, errors_5xx]: [u64; 2]| StateFacts {
        databases: vec![DatabaseFact {
            name: "shop".to_owned(),
            is_followed,
            lag_millis: 0,
            lag_bytes: 0,
            why: "connection refused".to_owned(),
            requests,
            errors_5xx,
        }],
        counts: counts(requests, errors_5xx),
        ..at(second)
    };
    let mut judge = StateJudge::default();
    judge.look(&facts(0, true, [0, 0]));
    for second in 1..50 {
        assert_eq!(StateWord::Healthy, judge.look(&facts(second, true, [100 * second, 0])).word);
    }
    let mut look = |second, is_followed, sums| judge.look(&facts(second, is_followed, sums));
    assert_eq!(StateWord::Healthy, look(50, true, [5000, 3]).word, "single faults");
    for (second, errors) in [(51, 103), (56, 603)] {
        look(second, false, [100 * second, errors]);
    }
    let report = look(60, false, [6000, 1003]);
    let (word, found) = names(&report);
    assert_eq!((StateWord::Failing, "database-pages-fail"), (word, found[0]));
    assert!(found.contains(&"requests-fail"), "{found:?}");
    let expect = "Failing: pages of database shop fail since 02:47:02 UTC (connection refused); 10";
    assert!(report.sentence().starts_with(expect), "{}", report.sentence());
    // Without requests it stays for the minute; pages that are served again end it.
    assert_eq!("database-pages-fail", names(&look(75, false, [6000, 1003])).1[0]);
    assert_eq!(StateWord::Degraded, look(80, false, [6500, 1003]).word);
    assert!(!names(&look(90, true, [7000, 1003])).1.contains(&"database-pages-fail"));
}

#[test]
fn memory_is_withheld_after_a_minute_and_until_half_of_it_is_back() {
    let mut judge = StateJudge::default();
    let mut look = |second, ram_usable| judge.look(&StateFacts { ram_usable, ..at(second) }).word;
    assert_eq!(StateWord::Healthy, look(0, 90));
    assert_eq!(StateWord::Healthy, look(59, 90));
    assert_eq!(StateWord::Degraded, look(60, 90));
    assert_eq!(StateWord::Degraded, look(61, 95));
    assert_eq!(StateWord::Healthy, look(62, 96));
    assert_eq!(StateWord::Healthy, look(63, 95), "10 % is required again");
}

#[test]
fn certificates_are_findings_by_their_state() {
    #[track_caller]
    fn check(state: ExpiryState, days: i64, failures: u32, expect: &str) {
        let end = i64::try_from(NOW).unwrap() + days * 86_400 + 60;
        let certificate = CertificateFact {
            names: vec!["a.example".to_owned(), "b.example".to_owned()],
            state,
            validity: Some(Validity { from: end - 90 * 86_400, until: end }),
            failures,
            error: if failures > 0 { "the CA is away.".to_owned() } else { String::new() },
        };
        assert_eq!(
            expect,
            StateJudge::default().look(&StateFacts { certificates: vec![certificate], ..at(0) }).sentence()
        );
    }
    let names = "the certificate of a.example, b.example";
    check(ExpiryState::Valid, 99, 0, "Healthy");
    check(ExpiryState::Valid, 99, 3, "Healthy");
    check(ExpiryState::Missing, 0, 0, "Healthy");
    check(ExpiryState::Expiring, 10, 0, &format!("Degraded: {names} expires in 10 days (16 Nov 1994)"));
    let failed =
        format!("Degraded: {names} expires in 1 day (07 Nov 1994, 2 failed renewals: the CA is away)");
    check(ExpiryState::Expiring, 1, 2, &failed);
    check(
        ExpiryState::Expired,
        -1,
        0,
        &format!("Failing: {names} has expired (05 Nov 1994); clients reject it"),
    );
    check(
        ExpiryState::NotYetValid,
        91,
        0,
        &format!("Failing: {names} is not valid yet (its validity begins on 07 Nov 1994); clients reject it"),
    );
    check(ExpiryState::Missing, 0, 1, "Degraded: a.example, b.example has no certificate (the CA is away)");
}

/// Facts with one condition are one finding with this sentence, which ends with the condition.
fn finds(cases: impl IntoIterator<Item = (StateFacts, &'static str)>) {
    for (facts, expect) in cases {
        let mut judge = StateJudge::default();
        judge.look(&facts);
        let report = judge.look(&StateFacts { at: 5_000, ..facts });
        assert_eq!(expect, report.sentence());
        assert_eq!(1, report.count_of(report.findings[0].kind));
        assert_eq!("Healthy", judge.look(&at(6)).sentence());
    }
}

fn disk(off: Option<&str>, reads_off: bool, device_full: bool) -> DiskFact {
    DiskFact { off: off.map(str::to_owned), reads_off, device_full, is_on: true, is_full: false }
}

#[test]
fn the_tiers_below_ram_are_findings() {
    let server =
        |name: &str, is_down| MemcachedFact { name: name.to_owned(), is_down, failures: 3, ejections: 0 };
    finds([
        (
            StateFacts {
                memcached: vec![server("m:1", true), server("m:2", false)],
                keys_move: true,
                ..at(0)
            },
            "Degraded: memcached server m:1 is not used since 02:46:11 UTC (3 failures in a row); the other servers store its keys",
        ),
        (
            StateFacts { memcached: vec![server("m:1", true), server("m:2", false)], ..at(0) },
            "Degraded: memcached server m:1 is not used since 02:46:11 UTC (3 failures in a row); its keys are not stored in the fleet",
        ),
        (
            StateFacts { memcached: vec![server("m:1", true)], keys_move: true, ..at(0) },
            "Degraded: memcached server m:1 is not used since 02:46:11 UTC (3 failures in a row); no memcached server is in use, and nodes share no pages",
        ),
        (
            StateFacts { disk: disk(Some("No space left on device"), false, false), ..at(0) },
            "Degraded: the disk tier is off since 02:46:11 UTC (No space left on device); responses are stored in RAM only",
        ),
        (
            StateFacts { disk: disk(None, true, false), ..at(0) },
            "Degraded: the disk tier is not read since 02:46:11 UTC (three reads in a row took longer than 1 s); its pages are fetched from the origins",
        ),
        (
            StateFacts { disk: disk(None, false, true), ..at(0) },
            "Degraded: the device of the disk tier is full since 02:46:11 UTC; pages are dropped before `cache.disk.size` is reached",
        ),
        (
            StateFacts { purge_log: Some(PurgeLogFact { in_sync: false, followed: 1, servers: 3 }), ..at(0) },
            "Degraded: the purge log is not followed since 02:46:11 UTC (1 of 3 servers); every stored response is validated before use",
        ),
    ]);
}

#[test]
fn every_other_part_is_a_finding() {
    let past = |why: &str| Some(PastFact { at: NOW - 60, why: why.to_owned() });
    finds([
        (
            StateFacts { failed_worker: Some((1, "index out of bounds\nbacktrace".to_owned())), ..at(0) },
            "Failing: worker 1 has failed since 02:46:11 UTC (index out of bounds); larder ends, and its service manager starts it again",
        ),
        (
            StateFacts { refused: past("larder.toml:3: workers: 0 is too few.\nmore"), ..at(0) },
            "Degraded: the configuration in the file is refused since 02:45:11 UTC (larder.toml:3: workers: 0 is too few); the previous one stays in force",
        ),
        (
            StateFacts { refused_certificates: past("a.pem: no key"), ..at(0) },
            "Degraded: the certificates in the files are refused since 02:45:11 UTC (a.pem: no key); the previous ones stay in use",
        ),
        (
            StateFacts {
                broken_files: vec![BrokenFileFact {
                    name: "/etc/larder/users".to_owned(),
                    at: NOW - 60,
                    why: "line 3: no hash".to_owned(),
                    effect: "the users read before stay in force",
                }],
                ..at(0)
            },
            "Degraded: the file /etc/larder/users cannot be used since 02:45:11 UTC (line 3: no hash); the users read before stay in force",
        ),
        (
            StateFacts { certificate_folder: Some("permission denied".to_owned()), ..at(0) },
            "Degraded: the certificates of `tls.acme` cannot be stored (permission denied)",
        ),
        (
            StateFacts { waiting: vec!["workers".to_owned(), "cache.disk.path".to_owned()], ..at(0) },
            "Healthy. Notice: keys in the file wait for a restart since 02:46:11 UTC (workers, cache.disk.path)",
        ),
        (
            StateFacts { snapshot: past("its checksum is wrong"), ..at(0) },
            "Healthy. Notice: the snapshot of the RAM tier was not read at the start (its checksum is wrong); the tier began empty",
        ),
    ]);
}

#[test]
fn fresh_pages_that_leave_ram_are_a_notice_without_a_lower_tier() {
    let evicted = CountFacts { stored: 900, evicted_fresh: 100, ..Default::default() };
    let mut judge = StateJudge::default();
    judge.look(&at(0));
    let report = judge.look(&StateFacts { counts: evicted.clone(), ..at(1) });
    assert_eq!(
        "Healthy. Notice: fresh pages are evicted from RAM since 02:46:12 UTC (100 within the last minute); requests for them go to the origin",
        report.sentence()
    );
    let report = judge.look(&StateFacts { counts: evicted, disk: disk(None, false, false), ..at(2) });
    assert_eq!("Healthy", report.sentence(), "the disk tier has them");
}

#[test]
fn requests_for_evicted_pages_are_a_notice_with_a_lower_tier() {
    let mut judge = StateJudge::default();
    let mut look = |second, missed_evicted, stored, is_full| {
        let counts = CountFacts { stored, evicted_fresh: 10 * stored, missed_evicted, ..Default::default() };
        let disk = DiskFact { is_full, ..disk(None, false, false) };
        let report = judge.look(&StateFacts { counts, disk, ..at(second) });
        report.findings.first().map(|it| (it.kind.row().name, it.sentence(report.now)))
    };
    let named = |found: Option<(&'static str, String)>| found.map(|it| it.0);
    assert_eq!(None, look(0, 5_000, 1_000, true));
    assert_eq!(None, look(1, 5_099, 1_500, true));
    assert_eq!(None, look(2, 5_100, 2_001, true), "less than a tenth of the stored ones");
    let sentence = "fresh pages are evicted from the disk tier since 02:46:14 UTC (100 requests for them within the last minute); no other tier has them, and these requests go to the origin";
    assert_eq!(Some(("disk-too-small", sentence.to_owned())), look(3, 5_100, 2_000, true));
    assert_eq!(
        Some("fresh-pages-evicted"),
        named(look(4, 5_100, 2_000, false)),
        "the disk has room, and lacks them"
    );
    for second in 5..61 {
        look(second, 5_100, 2_000, true);
    }
    assert_eq!(Some("disk-too-small"), named(look(61, 5_149, 2_200, true)), "50");
    assert_eq!(None, look(62, 5_149, 2_200, true));
    assert_eq!(None, look(63, 5_199, 2_200, true), "100 are required again");
}

#[test]
fn a_host_that_no_certificate_has_is_a_finding() {
    let certificate = |names: &[&str]| CertificateFact {
        names: names.iter().map(|it| (*it).to_owned()).collect(),
        state: ExpiryState::Valid,
        validity: None,
        failures: 0,
        error: String::new(),
    };
    let facts = |hosts: &[&str], names: &[&str]| StateFacts {
        tls_hosts: hosts.iter().map(|it| (*it).to_owned()).collect(),
        certificates: vec![certificate(names)],
        ..at(0)
    };
    assert_eq!(
        "Healthy",
        settled(&facts(&["www.shop.example", "b.example"], &["*.shop.example", "B.example"])).sentence()
    );
    assert_eq!("Healthy", settled(&facts(&[], &["old.example"])).sentence());
    let wrong =
        facts(&["shop.example", "a.b.shop.example", "www.shop.example"], &["*.shop.example", "old.example"]);
    assert_eq!(
        "Degraded: no certificate is for shop.example, a.b.shop.example (the certificates are for *.shop.example, old.example); \
         clients reject the connection",
        settled(&wrong).sentence()
    );
    let requested = StateFacts {
        unknown_names: vec![
            ("secure.example".to_owned(), 41),
            ("b.example".to_owned(), 1),
            ("other".to_owned(), 9),
        ],
        ..facts(
            &["c.example", "d.example", "e.example", "f.example", "b.example", "Secure.example"],
            &["old.example"],
        )
    };
    assert_eq!(
        "Degraded: no certificate is for Secure.example (41 TLS handshakes), b.example (1 TLS handshake), c.example and 3 \
         more (the certificates are for old.example); clients reject the connection",
        settled(&requested).sentence()
    );
    assert_eq!(
        "Healthy",
        StateJudge::default().look(&wrong).sentence(),
        "files are replaced one after the other"
    );
    // A proxy may serve the TLS of hosts whose plain requests are redirected.
    let secured = |unknown_names| StateFacts {
        secured_hosts: vec!["loop.example".to_owned(), "shop.example".to_owned()],
        unknown_names,
        ..facts(&[], &["old.example"])
    };
    assert_eq!("Healthy", settled(&secured(Vec::new())).sentence());
    assert_eq!(
        "Degraded: no certificate is for shop.example (2 TLS handshakes) (the certificates are for old.example); clients reject the connection",
        settled(&secured(vec![("shop.example".to_owned(), 2)])).sentence()
    );
}

#[test]
fn the_worst_finding_comes_first_and_decides_the_state() {
    let facts = StateFacts {
        waiting: vec!["workers".to_owned()],
        refused: Some(PastFact { at: NOW, why: "why".to_owned() }),
        origins: vec![origin("a", "timeout")],
        routes: vec![route("r", &[0])],
        ..at(0)
    };
    let report = StateJudge::default().look(&facts);
    assert_eq!(
        (StateWord::Failing, vec!["no-origin", "configuration-refused", "restart-pending"]),
        names(&report)
    );
    assert!(
        report.sentence().ends_with("(2 more: configuration-refused, restart-pending)"),
        "{}",
        report.sentence()
    );
}

#[test]
fn a_report_is_bounded() {
    let origins: Vec<_> = (0..200).map(|it| origin(&format!("10.0.0.{it}"), &"é".repeat(5_000))).collect();
    let routes: Vec<_> = (0..200).map(|it| route(&format!("r{it}"), &[it])).collect();
    let report = StateJudge::default().look(&StateFacts { origins, routes, ..at(0) });
    assert_eq!((50, 150), (report.findings.len(), report.left_out));
    assert!(report.sentence().chars().count() < 500 && report.sentence().ends_with("(199 more: no-origin)"));
}

fn node(name: &str) -> NodeFact {
    NodeFact { name: name.to_owned(), version: Some("1.2.0".to_owned()), ..NodeFact::default() }
}

#[test]
fn nodes_that_disagree_are_named() {
    let facts = |nodes| StateFacts { nodes, ..at(0) };
    let same = facts(vec![node("a"), node("b"), NodeFact { version: None, ..node("c") }]);
    assert_eq!((StateWord::Healthy, vec![]), names(&settled(&same)));
    let other = NodeFact { other_servers: true, ..node("b") };
    let report = settled(&facts(vec![node("a"), other]));
    assert_eq!(
        "Degraded: node b uses another list of memcached servers since 02:46:11 UTC; purges do not reach all nodes",
        report.sentence()
    );
    let keys = NodeFact { other_keys: true, ..node("b") };
    assert_eq!((StateWord::Degraded, vec!["node-keys-differ"]), names(&settled(&facts(vec![keys]))));
    let old = NodeFact { version: Some("1.1.9".to_owned()), ..node("c") };
    assert_eq!(
        "Healthy. Notice: nodes run different versions since 02:46:11 UTC (1.1.9: c; 1.2.0: a, b)",
        settled(&facts(vec![node("a"), node("b"), old])).sentence()
    );
    for (off, words) in [(-300, "300 s behind"), (12, "12 s ahead")] {
        let sentence = settled(&facts(vec![NodeFact { clock_off: Some(off), ..node("b") }])).sentence();
        let expect = format!("Healthy. Notice: the clock of node b is {words} since 02:46:11 UTC; ages");
        assert!(sentence.starts_with(&expect), "{sentence}");
    }
}

#[test]
fn a_silent_node_is_a_notice_with_its_last_report() {
    let silent = NodeFact { silent: Some(NOW - 600), version: Some("0.9".to_owned()), ..node("b") };
    let facts = StateFacts { nodes: vec![node("a"), silent], ..at(0) };
    let report = StateJudge::default().look(&facts);
    assert_eq!((StateWord::Healthy, vec!["node-silent"]), names(&report), "its version does not count");
    let expect =
        "Healthy. Notice: node b does not report since 02:36:11 UTC; a purge with `wait` takes a lease";
    assert!(report.sentence().starts_with(expect), "{}", report.sentence());
}

#[test]
fn http3_that_no_client_uses_is_a_notice_after_an_hour() {
    let facts = |second, connections, tls_connections| StateFacts {
        http3: Some(Http3Fact { connections, tls_connections }),
        ..at(second)
    };
    let mut judge = StateJudge::default();
    for (second, connections) in [(0, 999), (10, 1_000), (3_609, 2_000)] {
        assert_eq!("Healthy", judge.look(&facts(second, 0, connections)).sentence(), "{second}");
    }
    assert_eq!(
        "Healthy. Notice: `http3` is on and announced to clients, but none has connected over it since 02:46:21 UTC \
         (2100 connections over TCP); a firewall may block the UDP port, and clients stay on TCP",
        judge.look(&facts(3_610, 0, 2_100)).sentence()
    );
    assert_eq!("Healthy", judge.look(&facts(3_611, 1, 2_101)).sentence());
    assert_eq!("Healthy", judge.look(&at(3_612)).sentence());
}

/// After a restart, a fault that had stood before it had the time of the restart.
#[test]
fn a_condition_that_stood_before_the_start_keeps_its_time() {
    let with = |why: &str, second: u64| StateFacts {
        origins: vec![origin("a", why), origin("b", "")],
        routes: vec![route("r/", &[0, 1])],
        ..at(second)
    };
    let mut judge = StateJudge::default();
    judge.look(&with("timeout", 5));
    judge.continue_from(|event| (event == "origin a is down").then_some(NOW - 3600));
    let since = |report: &ServerStateReport| report.findings.first().and_then(|it| it.since);
    assert_eq!(Some(NOW - 3600), since(&judge.look(&with("timeout", 6))));
    assert_eq!(None, since(&judge.look(&with("", 7))));
    assert_eq!(Some(NOW + 60), since(&judge.look(&with("timeout", 60))), "a new one");
}

#[test]
fn an_event_is_the_same_each_time_that_it_begins() {
    for (what, expect) in [
        ("the purge log is not followed", "the purge log is not followed"),
        ("12 % of the responses are server errors", "the responses are server errors"),
        (
            "origin a answers 50 % of its requests with server errors",
            "origin a answers its requests with server errors",
        ),
        (&*"ä".repeat(80), &*"ä".repeat(50)),
    ] {
        assert_eq!(expect, event_of(what));
    }
    let mut finding =
        settled(&StateFacts { disk: disk(Some("it is gone"), false, false), ..at(0) }).findings.remove(0);
    finding.repeated = Some((5, NOW - 60));
    assert_eq!(
        "the disk tier is off since 02:46:11 UTC, 5 times since 02:45:11 UTC (it is gone); responses are stored in RAM only",
        finding.sentence(NOW)
    );
}
