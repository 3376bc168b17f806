//! The findings of one route or one origin by its requests of the last minute.

use super::*;
use crate::trial::evidence::ProxyLoop;

#[test]
fn a_route_that_refuses_most_requests_by_its_access_rules_is_a_notice() {
    let mut judge = StateJudge::default();
    let mut look = |second, requests, refused| {
        let fact = RouteCountFact {
            refused,
            rules: "`access.allow` or `access.basic`".to_owned(),
            ..troubled(7, requests, 0, 0)
        };
        judge.look(&StateFacts { troubled: vec![fact], ..at(second) })
    };
    let fine = |report: ServerStateReport| assert_eq!("Healthy", report.sentence());
    fine(look(0, 1_000, 900));
    fine(look(1, 1_019, 919)); // 19 are too few.
    fine(look(2, 1_100, 950)); // Half: clients send each request first without credentials.
    fine(look(3, 1_100, 959));
    fine(look(4, 1_100, 960)); // It has not lasted.
    let report = look(14, 1_100, 960);
    assert_eq!(
        "Healthy. Notice: route r7 refuses most requests with 401 or 403 since 02:46:15 UTC (60 of 100 within the last \
         minute); its `access.allow` or `access.basic` refuses them",
        report.sentence()
    );
    assert_eq!("live?filter=route == \"r7\" && (status == 401 || status == 403)", report.findings[0].view);
    assert_eq!(1, look(15, 1_140, 960).findings.len(), "43 %");
    fine(look(16, 1_160, 960)); // 38 %.
    fine(look(17, 1_160, 970));
    fine(look(80, 1_160, 970));
}

#[test]
fn guessed_passwords_do_not_degrade_the_server() {
    let mut judge = StateJudge::default();
    let mut look = |second, sum| {
        let fact = RouteCountFact { refused: sum, ..troubled(1, sum, 0, 0) };
        judge.look(&StateFacts { counts: counts(sum, 0), troubled: vec![fact], ..at(second) })
    };
    look(0, 0);
    for second in 1..30 {
        assert_eq!(StateWord::Healthy, look(second, 500 * second).word);
    }
    assert_eq!(vec!["route-refused"], names(&look(30, 15_000)).1);
}

fn answers(all: u64, errors_5xx: u64, millis: u64) -> OriginAnswers {
    OriginAnswers { all, errors_5xx, micros: all * millis * 1000, ..OriginAnswers::default() }
}

/// Facts of one second about origins a, b, c … of the routes shop and api.
fn of_origins(second: u64, sums: &[OriginAnswers]) -> StateFacts {
    let origins = sums.iter().zip(["a", "b", "c", "d"]);
    let origins = origins.map(|(answers, name)| OriginFact { answers: *answers, ..origin(name, "") });
    let all: Vec<usize> = (0..sums.len()).collect();
    StateFacts {
        origins: origins.collect(),
        routes: vec![route("shop", &all), route("api", &all)],
        ..at(second)
    }
}

#[test]
fn one_origin_with_server_errors_is_a_finding_until_they_end() {
    let mut judge = StateJudge::default();
    let mut look = |second, a, b| judge.look(&of_origins(second, &[a, b]));
    let start = answers(5_000, 900, 10);
    look(0, start, start);
    let later = |all: u64, errors: u64| answers(5_000 + all, 900 + errors, 10);
    assert_eq!("Healthy", look(1, later(19, 19), later(100, 0)).sentence(), "19 answers are too few");
    assert_eq!("Healthy", look(2, later(100, 19), later(100, 0)).sentence(), "19 %");
    assert_eq!("Healthy", look(3, later(100, 20), later(100, 7)).sentence(), "the other one has a third");
    let report = look(4, later(100, 20), later(100, 6));
    assert_eq!(
        "Degraded: origin a answers 20 % of its requests with server errors since 02:46:15 UTC (20 of 100 within the last \
         minute; 6 % at the other origins); it still gets requests of routes shop, api",
        report.sentence()
    );
    assert_eq!(1, look(5, later(200, 20), later(200, 10)).findings.len(), "10 %, twice the other");
    assert_eq!("Healthy", look(6, later(201, 20), later(200, 10)).sentence(), "below 10 %");
    assert_eq!("Healthy", look(7, later(250, 40), later(250, 10)).sentence(), "20 % are required again");
    assert_eq!("Healthy", look(70, later(250, 250), later(250, 250)).sentence(), "an error of both");
}

#[test]
fn an_origin_without_others_to_compare_needs_half_of_its_answers() {
    let mut judge = StateJudge::default();
    let mut look = |second, a, b| judge.look(&of_origins(second, &[a, b]));
    look(0, answers(0, 0, 10), answers(0, 0, 10));
    assert_eq!("Healthy", look(1, answers(100, 49, 10), answers(0, 0, 10)).sentence());
    let report = look(2, answers(100, 50, 10), answers(19, 19, 10));
    assert_eq!(
        "Degraded: origin a answers 50 % of its requests with server errors since 02:46:13 UTC (50 of 100 within the last \
         minute); it still gets requests of routes shop, api",
        report.sentence()
    );
    // An only origin is in the share of the routes.
    let mut judge = StateJudge::default();
    judge.look(&of_origins(0, &[answers(0, 0, 10)]));
    assert_eq!("Healthy", judge.look(&of_origins(1, &[answers(100, 100, 10)])).sentence());
}

#[test]
fn origins_of_different_routes_are_not_compared() {
    let mut judge = StateJudge::default();
    let facts = |second, sums: &[OriginAnswers]| StateFacts {
        routes: vec![route("shop", &[0, 1]), route("reports", &[0])],
        ..of_origins(second, sums)
    };
    judge.look(&facts(0, &[answers(0, 0, 10), answers(0, 0, 10)]));
    for second in 1..30 {
        let report = judge
            .look(&facts(second, &[answers(100 * second, 90 * second, 2_000), answers(100 * second, 0, 10)]));
        assert_eq!("Healthy", report.sentence());
    }
}

#[test]
fn an_origin_that_is_slower_than_the_others_is_a_notice() {
    let mut judge = StateJudge::default();
    let mut sums = [answers(0, 0, 0); 3];
    judge.look(&of_origins(0, &sums));
    let mut second = 0;
    // As many answers as these within one second, and the minute before is gone.
    let mut look = |each: [(u64, u64); 3]| {
        second += 100;
        judge.look(&of_origins(second, &sums));
        for (sum, (all, millis)) in sums.iter_mut().zip(each) {
            let more = answers(all, 0, millis);
            (sum.all, sum.micros) = (sum.all + more.all, sum.micros + more.micros);
        }
        let _ = judge.look(&of_origins(second + 1, &sums));
        judge.look(&of_origins(second + 11, &sums))
    };
    for each in [
        [(19, 900), (100, 50), (100, 60)],   // Too few.
        [(100, 199), (100, 40), (100, 40)],  // Fast enough.
        [(100, 239), (100, 60), (100, 239)], // Not four times the median, which is the lower of two.
        [(100, 900), (19, 50), (19, 60)],    // No comparison.
    ] {
        assert_eq!("Healthy", look(each).sentence(), "{each:?}");
    }
    assert_eq!(
        "Healthy. Notice: origin a is slower than the other origins of routes shop, api since 02:54:32 UTC (240 ms to a \
         response on average within the last minute; 60 ms at the others)",
        look([(100, 240), (100, 60), (100, 70)]).sentence()
    );
}

/// Its neighbours had further routes, so that it was compared with none.
#[test]
fn an_origin_with_one_route_is_compared_by_the_time_of_this_route() {
    let look = |of_route: u64, millis_of_route: u64| {
        let mut judge = StateJudge::default();
        // The other origin has another route as well, which is slow.
        let facts = |second, sums: &[OriginAnswers]| StateFacts {
            routes: vec![route("v3", &[0, 1]), route("reports", &[1])],
            ..of_origins(second, sums)
        };
        judge.look(&facts(0, &[answers(0, 0, 0), answers(0, 0, 0)]));
        let own =
            OriginAnswers { of_route, micros_of_route: millis_of_route * 1000, ..answers(100, 0, 1500) };
        judge.look(&facts(1, &[own, answers(500, 0, 3000)]));
        judge.look(&facts(11, &[own, answers(500, 0, 3000)])).sentence()
    };
    assert_eq!(
        "Healthy. Notice: origin a is slower than the other origins of route v3 since 02:46:12 UTC (1500 ms to a response on \
         average within the last minute; 10 ms at the others)",
        look(300, 100 * 1500 + 200 * 10)
    );
    assert_eq!("Healthy", look(300, 300 * 1500), "all are slow");
    assert_eq!("Healthy", look(110, 100 * 1500 + 10 * 10), "too few answers of the others");
    assert_eq!("Healthy", look(0, 0), "nothing is known of the route");
}

#[test]
fn a_slow_origin_is_a_notice_until_it_is_below_twice_the_median() {
    let mut judge = StateJudge::default();
    judge.look(&of_origins(0, &[answers(0, 0, 0); 2]));
    let mut look = |second, a: u64| {
        judge.look(&of_origins(second, &[answers(100, 0, a), answers(100, 0, 50)])).findings.len()
    };
    assert_eq!(0, look(1, 500), "it has not lasted");
    assert_eq!(1, look(11, 500));
    assert_eq!(1, look(12, 100), "twice the median, and 100 ms");
    assert_eq!(0, look(13, 99));
    assert_eq!(0, look(30, 199), "200 ms are required again");
}

#[test]
fn a_reload_begins_a_new_minute_of_origins() {
    let mut judge = StateJudge::default();
    judge.look(&of_origins(0, &[answers(0, 0, 10), answers(0, 0, 10)]));
    judge.reload(&ConfigSums::default(), &ConfigSums::default(), |_| None);
    // The places of the origins have changed: the sums of one are those of another.
    let report = judge.look(&of_origins(1, &[answers(900, 900, 900), answers(100, 0, 10)]));
    assert_eq!("Healthy", report.sentence());
    assert_eq!(
        "Healthy",
        judge.look(&of_origins(12, &[answers(900, 900, 900), answers(100, 0, 10)])).sentence()
    );
}

#[test]
fn a_drained_origin_is_the_remedy_of_a_route_whose_other_origin_is_down() {
    let drained = |name| OriginFact { is_used: false, is_drained: true, ..origin(name, "") };
    let facts = |origins| StateFacts { origins, routes: vec![route("shop", &[0, 1])], ..at(0) };
    let sentence = |facts: &StateFacts| StateJudge::default().look(facts).sentence();
    assert_eq!(
        "Failing: origin b is down since 02:46:11 UTC (timeout); 1 route has no other origin in use (shop); origin a is \
         drained: restore it",
        sentence(&facts(vec![drained("a"), origin("b", "timeout")]))
    );
    assert_eq!("Healthy", sentence(&facts(vec![drained("a"), origin("b", "")])), "the act of the operator");
    assert_eq!("Healthy", sentence(&facts(vec![drained("a"), drained("b")])), "the same");
    let mut three = facts(vec![drained("a"), origin("b", "timeout"), origin("c", "")]);
    three.routes = vec![route("shop", &[0, 1, 2])];
    assert_eq!(
        "Degraded: origin b is down since 02:46:11 UTC (timeout); its route uses c",
        sentence(&three),
        "the other one is enough"
    );
}

#[test]
fn a_process_of_root_is_a_notice_with_the_programs_that_have_its_rights() {
    let facts = StateFacts { root: Some("the programs of route bin run as root".to_owned()), ..at(0) };
    let report = StateJudge::default().look(&facts);
    assert_eq!(
        "Healthy. Notice: larder runs as root without `user` (the programs of route bin run as root); \
         a fault in it, or in a program that it runs, has every right on this machine",
        report.sentence()
    );
}

#[test]
fn a_route_without_requests_is_a_notice_with_its_line() {
    let fact = |route: &str, line| UnreachableFact {
        route: route.to_owned(),
        at: format!("larder.toml:{line}"),
        why: "shop/* at larder.toml:4 matches first".to_owned(),
    };
    let facts = StateFacts { unreachable: vec![fact("shop/api/*", 9)], ..at(0) };
    let report = StateJudge::default().look(&facts);
    assert_eq!(
        "Healthy. Notice: route shop/api/* at larder.toml:9 gets no request (shop/* at larder.toml:4 matches first)",
        report.sentence()
    );
    assert_eq!("config?at=larder.toml:9", report.findings[0].view);
    assert_eq!("Healthy", StateJudge::default().look(&at(0)).sentence());
}

#[test]
fn a_route_with_mostly_errors_is_named_if_the_share_of_all_routes_is_small() {
    let mut judge = StateJudge::default();
    let mut look = |second, requests, errors_5xx, errors_4xx, of_all: u64| {
        let failure = "the origin timed out".to_owned();
        let fact = RouteCountFact { errors_4xx, failure, ..troubled(7, requests, errors_5xx, 0) };
        judge.look(&StateFacts { counts: counts(of_all, errors_5xx), troubled: vec![fact], ..at(second) })
    };
    look(0, 0, 0, 0, 0);
    assert_eq!("Healthy", look(1, 30, 19, 0, 10_000).sentence(), "too few");
    assert_eq!("Healthy", look(2, 40, 20, 0, 10_000).sentence(), "it has not lasted");
    assert_eq!(
        "Degraded: most responses of route r7 are server errors since 02:46:13 UTC (20 of 40 within the last minute); its last \
         failure: the origin timed out",
        look(13, 40, 20, 0, 10_000).sentence()
    );
    assert_eq!("Healthy", look(14, 60, 20, 0, 10_000).sentence(), "a third");
    // The finding about all routes names the route.
    assert_eq!(vec!["requests-fail"], names(&look(90, 160, 120, 0, 11_000)).1);
    assert_eq!("Healthy", look(200, 160, 120, 0, 11_000).sentence(), "over");
    look(201, 200, 120, 40, 12_000);
    assert_eq!(
        "Healthy. Notice: most responses of route r7 have a status of 400 to 499 since 02:49:32 UTC (40 of 40 within the last minute)",
        look(212, 200, 120, 40, 12_000).sentence()
    );
}

#[test]
fn refused_requests_are_no_client_errors_of_another_reason() {
    let mut judge = StateJudge::default();
    let mut look = |second, sum| {
        let fact = RouteCountFact { refused: sum, errors_4xx: sum, ..troubled(1, sum, 0, 0) };
        judge.look(&StateFacts { troubled: vec![fact], ..at(second) })
    };
    look(0, 0);
    look(1, 100);
    assert_eq!(vec!["route-refused"], names(&look(12, 100)).1);
}

/// After `cache.purge.from` was narrowed as the state had proposed, the state named the purges that it refuses as client errors.
#[test]
fn refused_purges_are_no_client_errors_of_a_route() {
    let mut judge = StateJudge::default();
    let mut look = |second, requests, errors_4xx, purges_refused| {
        let fact = RouteCountFact { errors_4xx, purges_refused, ..troubled(1, requests, 0, 0) };
        judge.look(&StateFacts { troubled: vec![fact], ..at(second) })
    };
    look(0, 0, 0, 0);
    look(1, 125, 107, 107);
    assert_eq!("Healthy", look(12, 125, 107, 107).sentence());
    look(200, 125, 107, 107);
    look(201, 300, 137, 107);
    assert!(look(212, 300, 137, 107).sentence().starts_with("Healthy"), "30 of 175");
    look(400, 300, 137, 107);
    look(401, 500, 297, 207);
    let text = look(412, 500, 297, 207).sentence();
    // 60 of the other 100.
    assert!(text.contains("route r1 have a status of 400 to 499") && text.contains("(60 of 100 "), "{text}");
}

fn of_samples<'a>(second: u64, samples: impl Iterator<Item = RecordedSample<'a>>) -> StateFacts {
    let mut recorded = RecordedFacts::default();
    samples.for_each(|it| recorded.add(it));
    StateFacts { recorded: std::sync::Arc::new(recorded), ..at(second) }
}

#[test]
fn a_host_without_a_site_is_a_notice_unless_one_stranger_invents_it() {
    let of = |second, host: &'static str, requests: u64, clients: u64, is_related| {
        let sample = |it: u64| RecordedSample {
            client: Some(std::net::Ipv4Addr::from(u32::try_from(it % clients).unwrap()).into()),
            unknown_host: Some(host),
            is_related,
            ignored: None,
        };
        of_samples(second, (0..requests).map(sample))
    };
    let look = |facts: &dyn Fn(u64) -> StateFacts| {
        let mut judge = StateJudge::default();
        judge.look(&facts(0));
        judge.look(&facts(10)).sentence()
    };
    let notice = "Healthy. Notice: no site has the host www.a.example (10 of the last 10 recorded requests); requests for it get 404";
    assert_eq!(notice, look(&|it| of(it, "www.a.example", 10, 1, true)));
    assert_eq!(notice, look(&|it| of(it, "www.a.example", 10, 3, false)));
    assert_eq!("Healthy", look(&|it| of(it, "www.a.example", 9, 3, true)));
    assert_eq!("Healthy", look(&|it| of(it, "www.a.example", 100, 2, false)));
    assert_eq!("Healthy", look(&|it| of(it, "192.0.2.1", 100, 9, false)), "scanners ask for addresses");
}

#[test]
fn a_proxy_that_is_not_trusted_is_a_notice() {
    let of = |second, requests: usize, clients: usize| {
        const ADDRESSES: [&str; 4] = ["9.9.9.1", "9.9.9.2", "9.9.9.3", "9.9.9.4"];
        let sample = |it: usize| RecordedSample {
            client: Some([10, 0, 0, 1].into()),
            unknown_host: None,
            is_related: false,
            ignored: Some(ADDRESSES[it % clients]),
        };
        of_samples(second, (0..requests).map(sample))
    };
    for (requests, clients, is_notice) in [(10, 3, true), (9, 3, false), (100, 2, false)] {
        let mut judge = StateJudge::default();
        judge.look(&of(0, requests, clients));
        let found = judge.look(&of(10, requests, clients)).sentence();
        let expect = match is_notice {
            true => {
                "Healthy. Notice: 10.0.0.1 sends X-Forwarded-For, which larder ignores: `clients.trusted` lacks the address (10 of the \
                 last 10 recorded requests); its 3 clients are one client for `access` and the log, and their scheme is that of the \
                 proxy's connection"
            }
            false => "Healthy",
        };
        assert_eq!(expect, found);
    }
}

/// The only sentence was that no certificate is for the host.
#[test]
fn the_loop_of_a_proxys_clients_replaces_the_notice_about_the_proxy() {
    let of = |second, loops: Vec<ProxyLoopFact>| {
        const ADDRESSES: [&str; 3] = ["9.9.9.1", "9.9.9.2", "9.9.9.3"];
        let sample = |it: usize| RecordedSample {
            client: Some([10, 0, 0, 1].into()),
            unknown_host: None,
            is_related: false,
            ignored: Some(ADDRESSES[it % 3]),
        };
        StateFacts { proxy_loops: loops, ..of_samples(second, (0..10).map(sample)) }
    };
    let found = |is_own| ProxyLoopFact {
        route: "shop".to_owned(),
        found: ProxyLoop { proxy: [10, 0, 0, 1].into(), loops: 12, requests: 13, is_own },
    };
    for (is_own, by) in [(true, "`redirect_https` of its site"), (false, "the origin")] {
        let mut judge = StateJudge::default();
        judge.look(&of(0, vec![found(is_own)]));
        let report = judge.look(&of(10, vec![found(is_own)]));
        assert_eq!((StateWord::Degraded, vec!["proxy-redirect-loop"]), names(&report));
        assert_eq!(
            format!(
                "Degraded: the clients of 10.0.0.1 are redirected in a loop by route shop since 02:46:11 UTC (12 of its 13 recent \
                 requests say X-Forwarded-Proto: https, and {by} redirects them to https); larder ignores the field because \
                 `clients.trusted` lacks the address"
            ),
            report.sentence()
        );
    }
    let mut judge = StateJudge::default();
    judge.look(&of(0, Vec::new()));
    assert_eq!(vec!["proxy-not-trusted"], names(&judge.look(&of(10, Vec::new()))).1);
}
