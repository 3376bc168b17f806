//! The findings of memcached servers, of requests in a queue, and of repeated purges.

use super::*;

#[test]
fn a_memcached_that_loses_fresh_pages_is_a_notice_until_that_ends() {
    let mut judge = StateJudge::default();
    let mut look = |second, fleet_lookups, fleet_lost| {
        let counts = CountFacts { fleet_lookups, fleet_lost, ..CountFacts::default() };
        judge.look(&StateFacts { counts, ..at(second) })
    };
    let fine = |report: ServerStateReport| assert_eq!("Healthy", report.sentence());
    fine(look(0, 9_000, 500));
    fine(look(1, 9_500, 599)); // 99 are too few.
    fine(look(2, 11_020, 600)); // Less than one in twenty.
    fine(look(3, 11_000, 600)); // It has not lasted.
    assert_eq!(
        "Healthy. Notice: memcached loses fresh pages since 02:46:14 UTC (100 of 2000 lookups within the last minute); \
         larder cannot tell that from a removal, and validates them at the origin",
        look(13, 11_000, 600).sentence()
    );
    assert_eq!(1, look(14, 13_000, 600).findings.len(), "2.5 %");
    fine(look(15, 15_000, 600)); // Below 2 %.
}

#[test]
fn a_memcached_server_that_fails_three_times_in_ten_minutes_is_a_finding() {
    let of = |ejections| {
        let server = MemcachedFact { name: "m:1".to_owned(), ejections, ..MemcachedFact::default() };
        settled(&StateFacts { memcached: vec![server], ..at(0) })
    };
    assert_eq!("Healthy", of(2).sentence());
    assert_eq!(
        "Degraded: memcached server m:1 fails and comes back since 02:46:11 UTC (3 times within the last ten minutes); each \
         time its pages are missing, and those of a restarted server are lost",
        of(3).sentence()
    );
}

#[test]
fn requests_that_wait_for_a_slot_of_an_origin_are_a_notice_with_the_key() {
    let mut judge = StateJudge::default();
    let mut look = |second, all, waits| {
        let limit = "`proxy.connections` of route shop is 1 (a.toml:9)".to_owned();
        let answers = OriginAnswers { all, waits, ..OriginAnswers::default() };
        let one = OriginFact { answers, limit, ..origin("a", "") };
        judge.look(&StateFacts { origins: vec![one], routes: vec![route("shop", &[0])], ..at(second) })
    };
    let fine = |report: ServerStateReport| assert_eq!("Healthy", report.sentence());
    fine(look(0, 1_000, 100));
    fine(look(1, 1_100, 119)); // 19 are too few.
    fine(look(2, 3_001, 120)); // Less than one in a hundred.
    fine(look(3, 1_040, 120)); // It has not lasted.
    assert_eq!(
        "Healthy. Notice: requests wait for a slot of origin a since 02:46:14 UTC (20 within the last minute waited 100 ms or \
         longer, 50 % of its answers); `proxy.connections` of route shop is 1 (a.toml:9)",
        look(13, 1_040, 120).sentence()
    );
    fine(look(75, 1_100, 129));
}

#[test]
fn a_purge_that_one_sender_repeats_is_a_notice_while_it_costs_requests() {
    let mut judge = StateJudge::default();
    let mut look = |second, times, missed_purged| {
        let purge = RepeatedPurgeFact {
            by: "10.0.0.9".to_owned(),
            target: "prefix a/".to_owned(),
            times,
            matched: 9,
        };
        let counts = CountFacts { missed_purged, ..CountFacts::default() };
        judge.look(&StateFacts { counts, repeated_purge: Some(purge), ..at(second) })
    };
    let fine = |report: ServerStateReport| assert_eq!("Healthy", report.sentence());
    fine(look(0, 9, 100));
    fine(look(1, 9, 200)); // An editor at work.
    fine(look(2, 10, 119)); // Hardly a request for these pages.
    assert_eq!(
        "Healthy. Notice: 10.0.0.9 has purged prefix a/ repeatedly since 02:46:14 UTC (10 times within the last \
         five minutes); 20 requests for purged pages went to the origin within the last minute",
        look(3, 10, 120).sentence()
    );
    assert_eq!(1, look(4, 5, 120).findings.len());
    fine(look(5, 4, 120));
    // Purges that match nothing cost no such request.
    let mut judge = StateJudge::default();
    let purge =
        RepeatedPurgeFact { by: "10.0.0.9".to_owned(), target: "where a".to_owned(), times: 10, matched: 0 };
    let report = judge.look(&StateFacts { repeated_purge: Some(purge), ..at(0) });
    assert_eq!("no stored response of this node matched", report.findings[0].effect);
}
