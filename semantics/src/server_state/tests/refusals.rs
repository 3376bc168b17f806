//! The findings of limits of clients, changes of the configuration, single URLs, origins that disagree, the access log and the next start.

use super::*;

/// The first finding: its name and sentence.
fn first(report: &ServerStateReport) -> Option<(&'static str, String)> {
    report.findings.first().map(|it| (it.kind.row().name, it.sentence(report.now)))
}

#[test]
fn a_limit_that_refuses_clients_for_more_than_a_minute_is_a_notice_with_its_key() {
    for (place, row) in CLIENT_LIMITS.iter().enumerate() {
        let mut judge = StateJudge::default();
        let mut look = |second, times: u64| {
            let mut facts = at(second);
            facts.client_limits[place] = 2048;
            facts.counts = counts(100 * second, 0);
            facts.counts.client_limits[place] = times;
            judge.look(&facts)
        };
        look(0, 7);
        // One burst, which the minute forgets before it has lasted.
        look(1, 1_000);
        for second in 2..62 {
            assert_eq!("Healthy", look(second, 1_000).sentence(), "{}", row.key);
        }
        // Steadily; a timeout needs a tenth of the 6,000 requests of the minute.
        let step = if row.share > 0 { 11 } else { 2 };
        let mut report = ServerStateReport::default();
        for second in 62..200 {
            report = look(second, 1_000 + step * (second - 61));
        }
        let (name, sentence) = first(&report).unwrap_or_else(|| panic!("{}", row.key));
        assert_eq!(("limit-refuses-clients", StateWord::Healthy), (name, report.word));
        let start = match row.other {
            "" => format!("{} `{}` (", row.event, row.key),
            // A route's own value may be the one that was reached.
            other => format!("{} {other}, or than `{}` (", row.event, row.key),
        };
        assert!(sentence.starts_with(&start), "{sentence}");
        assert_eq!(
            row.other.is_empty(),
            !sentence.contains("; raise that of the route, or set "),
            "{sentence}"
        );
        let (value, double) = match row.unit {
            LimitUnit::Bytes => ("(2KiB)", "to 4KiB or more"),
            LimitUnit::Millis => ("(2048ms)", "to 4096ms or more"),
            LimitUnit::Number => ("(2048)", "to 4096 or more"),
        };
        assert!(sentence.contains(value) && sentence.contains(double), "{sentence}");
        assert!(sentence.contains(&format!("{} times within the last minute", 60 * step)), "{sentence}");
        let mut judge = StateJudge::default();
        for second in 0..200 {
            let mut facts = at(second);
            facts.counts = counts(100 * second, 0);
            facts.counts.client_limits[place] = if row.share > 0 { 9 * second } else { second / 4 };
            assert_eq!("Healthy", judge.look(&facts).sentence(), "{}: too few", row.key);
        }
    }
}

#[test]
fn more_refused_requests_after_a_change_name_the_change() {
    let changed = Some(PastFact { at: NOW + 70, why: "1 key: route office: access.allow".to_owned() });
    let facts = |second, refused| StateFacts {
        counts: CountFacts { refused, ..counts(1_000, 0) },
        changed: changed.clone(),
        ..at(second)
    };
    let run = |before: u64, after: &[(u64, u64)]| {
        let mut judge = StateJudge::default();
        for second in 0..=70 {
            judge.look(&facts(second, 500 + before * second / 60));
        }
        judge.reload(&sums(1_000, 0), &sums(1_000, 0), Some);
        let start = 500 + before * 70 / 60;
        after
            .iter()
            .map(|(second, times)| first(&judge.look(&facts(*second, start + times))))
            .collect::<Vec<_>>()
    };
    let expect = "larder refuses more requests than before the configuration changed since 02:47:21 UTC (20 within the last \
                  minute, 0 within the minute before the change); changed: 1 key: route office: access.allow";
    assert_eq!(
        [None, Some(("refusals-after-change", expect.to_owned())), None],
        run(0, &[(72, 19), (73, 20), (671, 100)])[..]
    );
    // As many as before, and three times as many.
    assert_eq!([None, None], run(60, &[(100, 60), (130, 180)])[..]);
    assert!(run(60, &[(130, 250)])[0].is_some());
    // A reload without a change.
    let mut judge = StateJudge::default();
    judge.look(&StateFacts { changed: None, ..facts(0, 0) });
    judge.reload(&sums(0, 0), &sums(0, 0), |_| None);
    assert_eq!(None, first(&judge.look(&StateFacts { changed: None, ..facts(5, 500) })));
}

#[test]
fn single_faults_name_their_part() {
    let check = |facts: StateFacts, word, name, sentence: &str| {
        let report = settled(&facts);
        assert_eq!((word, vec![name]), names(&report));
        let found = report.findings[0].sentence(report.now);
        assert!(found.contains(sentence), "{found}");
    };
    let url = FailingUrlFact {
        url: "http://h/product/4711".to_owned(),
        route: "products".to_owned(),
        requests: 37,
        status: 500,
    };
    check(
        StateFacts { failing_urls: vec![url], ..at(0) },
        StateWord::Healthy,
        "url-fails",
        "every request for http://h/product/4711 fails since 02:46:11 UTC (37 of 37 recent ones, with 500); route products answers its other requests",
    );
    let fact = DisagreeingFact {
        route: "api".to_owned(),
        url: "http://h/api/1".to_owned(),
        shares: ("http://b".to_owned(), 9),
        forbids: ("http://a".to_owned(), 70),
    };
    check(
        StateFacts { disagreeing: vec![fact], ..at(0) },
        StateWord::Degraded,
        "origins-disagree",
        "origins of route api disagree since 02:46:11 UTC (http://b lets http://h/api/1 be shared, http://a forbids it; 9 and 70 recent responses); whether",
    );
    check(
        StateFacts {
            next_start: Some(PastFact { at: NOW, why: "users.txt cannot be read".to_owned() }),
            ..at(0)
        },
        StateWord::Degraded,
        "start-would-fail",
        "the next start of larder would fail since 02:46:11 UTC (users.txt cannot be read); the running",
    );
    let certificate = CertificateFact {
        names: vec!["shop.test".to_owned()],
        state: ExpiryState::Valid,
        validity: None,
        failures: 0,
        error: String::new(),
    };
    check(
        StateFacts {
            plain_hosts: vec!["shop.test".to_owned(), "intern.test".to_owned()],
            certificates: vec![certificate],
            ..at(0)
        },
        StateWord::Healthy,
        "certificate-lacks-names",
        "no certificate is for intern.test (the certificates are for shop.test); they are also served over plain HTTP",
    );
}

#[test]
fn the_access_log_that_drops_lines_is_named_with_the_reason() {
    let place = LIMITS.iter().position(|it| it.counter == "log_lines_dropped").unwrap();
    for (why, expect) in
        [("", "it is not written fast enough"), ("no space left on device", "no space left on device")]
    {
        let mut judge = StateJudge::default();
        let mut look = |second, dropped| {
            let log = LogFact { name: "/var/log/a.log".to_owned(), why: why.to_owned() };
            let mut facts = StateFacts { log: Some(log), ..at(second) };
            facts.counts.limits[place] = dropped;
            judge.look(&facts).sentence()
        };
        look(0, 0);
        assert_eq!(
            format!(
                "Degraded: lines of the access log /var/log/a.log are dropped since 02:46:12 UTC (9 times within the last minute: {expect}); correct the reason, or name another file in `log.access`"
            ),
            look(1, 9)
        );
    }
}

/// After the limit was raised as the sentence had proposed, it proposed to double the new value, by the events at the old one.
#[test]
fn events_at_an_earlier_limit_are_none_of_the_limit_in_force() {
    let mut judge = StateJudge::default();
    let mut times = 0;
    let mut facts = |second, limit| {
        times += 2;
        let mut facts = at(second);
        (facts.client_limits[0], facts.counts.client_limits[0]) = (limit, times);
        // A refusal of the route at each second.
        facts.troubled = vec![limited_route(times, times)];
        facts
    };
    (0..130).for_each(|second| drop(judge.look(&facts(second, 4096))));
    let report = judge.look(&facts(130, 4096));
    assert_eq!(vec!["route-limited", "limit-refuses-clients"], names(&report).1);
    judge.reload(&sums(0, 0), &sums(0, 0), Some);
    judge.renew(ChangedLimits { routes: vec![7], is_any: true });
    assert_eq!("Healthy", judge.look(&facts(131, 8192)).sentence());
    // It is reached as well.
    (132..220).for_each(|second| drop(judge.look(&facts(second, 8192))));
    let report = judge.look(&facts(220, 8192));
    assert_eq!(vec!["route-limited", "limit-refuses-clients"], names(&report).1);
    // Another reload changes no limit.
    judge.reload(&sums(0, 0), &sums(0, 0), Some);
    judge.renew(ChangedLimits::default());
    assert_eq!(2, judge.look(&facts(221, 8192)).findings.len());
}
