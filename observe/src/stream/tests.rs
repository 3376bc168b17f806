//! The listeners of each event, and the treatment of slow listeners.

use super::*;
use crate::RequestOutcome;
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::expression::ExpressionSubject;
use larder_semantics::field::Field;
use larder_semantics::scheme::Scheme;
use larder_transport::Client;
use larder_wire::message::Version;

/// Has `work` done with a request that has this outcome.
pub fn with_request<T>(outcome: &RequestOutcome, work: impl FnOnce(&Finished<'_>) -> T) -> T {
    let client = Client {
        peer: "192.0.2.7:4000".parse().ok(),
        hops: Vec::new(),
        local: None,
        scheme: Scheme::Http,
        listener: "".into(),
        tls: None,
        began: Default::default(),
        is_own: false,
        alternative: None,
    };
    work(&Finished {
        client: &client,
        method: "GET",
        protocol: None,
        target: "/list/a?page=2",
        scheme: Scheme::Http,
        version: Version::Http11,
        authority: "WWW.example.com:8080",
        route: "api",
        site: "example.com",
        at: None,
        fields: &[
            Field { name: "User-Agent", value: b"curl/8" },
            Field { name: "X-Kind", value: b"one" },
            Field { name: "X-Kind", value: b"two" },
        ],
        micros: Some(1500),
        outcome,
        spent: None,
        stages: None,
        traced: false,
        is_worst: false,
        span: None,
        request_id: None,
        user: "",
        refused: None,
    })
}

/// The outcome of a hit.
pub fn hit() -> RequestOutcome {
    RequestOutcome::whole(200, 120, Some(CacheReport::Hit { ttl: 7, tier: AnsweringTier::Ram }))
}

/// The first id.
fn id() -> RequestId {
    RequestId::parse("00000001").unwrap()
}

/// Tells of a request somebody listens to; what was told.
fn publish(tap: &Tap, outcome: &RequestOutcome) -> Bytes {
    let kept = RefCell::default();
    assert!(with_request(outcome, |it| tap.publish(it, id, |record| *kept.borrow_mut() = record)));
    kept.into_inner()
}

#[track_caller]
fn check(filter: &str, expect: bool) {
    let filter = Expression::parse_about(ExpressionSubject::Finished, filter).unwrap();
    assert_eq!(
        expect,
        with_request(&hit(), |it| filter.holds(&FilterFacts { it, is_shown: false })),
        "{filter:?}"
    );
}

/// Filters that are true of [`hit`] ...
pub const TRUE: &[&str] = &[
    "status == 200 && status < 300 && !(status >= 500)",
    "route == \"api\" && site == \"example.com\" && method == \"GET\"",
    "host == \"www.example.com\" && path == \"/list/a\" && query == \"page=2\"",
    "url == \"http://WWW.example.com:8080/list/a?page=2\"",
    "url ~ \"page=[0-9]$\"",
    "cache == \"hit\" && ttl == 7s && bytes == 120",
    "duration_us >= 1ms && duration_us < 2000",
    "scheme == \"http\" && scheme != \"https\"",
    "reason == \"\" && reason != \"evicted\"",
    "!(origin_us > 0)",
    "client in \"192.0.2.0/24\"",
    "client == \"192.0.2.7\" && user_agent contains \"curl\" && end == \"whole\"",
    "referer == \"\" && referer !~ \".\"",
    "header[\"x-kind\"] == \"two\" && header[\"X-KIND\"] != \"three\"",
];

/// ... and that are not.
pub const FALSE: &[&str] = &[
    "cache != \"hit\"",
    "origin_us > 0",
    "origin_us != 0",
    "client in \"198.51.100.0/24\" || client in \"::/0\"",
    "header[\"cookie\"] ~ \".\"",
];

#[test]
fn every_name_of_the_language() {
    TRUE.iter().for_each(|it| check(it, true));
    FALSE.iter().for_each(|it| check(it, false));
}

#[test]
fn each_listener_gets_the_records_that_match_its_filter() {
    let hub = Hub::new(Arc::default());
    let tap = Tap::new(hub.clone());
    assert!(!tap.is_on());
    let filter = |text| Expression::parse_about(ExpressionSubject::Finished, text).ok();
    let mut all = hub.listen(None).unwrap();
    let mut failures = hub.listen(filter("status >= 500")).unwrap();
    assert!(tap.is_on());
    let report = publish(&tap, &hit());
    assert_eq!(Ok(report.clone()), all.records.try_recv());
    assert!(failures.records.try_recv().is_err());
    let value: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!("http://WWW.example.com:8080/list/a?page=2", value["url"]);
    assert_eq!((&json!("00000001"), &json!(1500)), (&value["id"], &value["duration_us"]));
    publish(&tap, &RequestOutcome::whole(503, 0, None));
    assert!(failures.records.try_recv().is_ok() && all.records.try_recv().is_ok());
    drop((all, failures));
    assert!(!tap.is_on());
}

/// Who hears of a request may ask for it at once.
#[test]
fn a_request_is_kept_once_and_before_anybody_hears_of_it() {
    let hub = Hub::new(Arc::default());
    let tap = Tap::new(hub.clone());
    let all = RefCell::new([hub.listen(None).unwrap(), hub.listen(None).unwrap()]);
    let kept = Cell::new(0);
    let keep = |_| {
        kept.set(kept.get() + 1);
        assert!(all.borrow_mut().iter_mut().all(|it| it.records.try_recv().is_err()));
    };
    assert!(with_request(&hit(), |it| tap.publish(it, id, keep)));
    assert_eq!(1, kept.get());
    assert!(all.borrow_mut().iter_mut().all(|it| it.records.try_recv().is_ok()));
}

#[test]
fn a_record_that_matches_no_filter_is_not_published() {
    let hub = Hub::new(Arc::default());
    let tap = Tap::new(hub.clone());
    let filter = Expression::parse_about(ExpressionSubject::Finished, "status >= 500").unwrap();
    let _none = hub.listen(Some(filter)).unwrap();
    let (no_id, not_kept) = (|| unreachable!("no id is given out"), |_| unreachable!("it is kept"));
    assert!(!with_request(&hit(), |it| tap.publish(it, no_id, not_kept)));
}

#[test]
fn a_slow_listener_loses_records_and_their_number_is_counted() {
    let counters: Arc<Counters> = Arc::default();
    let hub = Hub::new(counters.clone());
    let tap = Tap::new(hub.clone());
    let slow = hub.listen(None).unwrap();
    let mut quick = hub.listen(None).unwrap();
    for _ in 0..QUEUE + 5 {
        publish(&tap, &hit());
        quick.records.try_recv().unwrap();
    }
    assert_eq!((5, 0, 0), (slow.lost(), slow.lost(), quick.lost()));
    assert_eq!(5, counters.stream_records_lost.get());
}

#[test]
fn only_so_many_listen() {
    let counters: Arc<Counters> = Arc::default();
    let hub = Hub::new(counters.clone());
    let all: Vec<_> = (0..LISTENERS).map(|_| hub.listen(None).unwrap()).collect();
    assert!(hub.listen(None).is_none());
    assert_eq!((1, LISTENERS as u64), (counters.streams_refused.get(), counters.streams_open.get()));
    drop(all);
    assert!(hub.listen(None).is_some());
}

#[test]
fn long_texts_are_cut_between_characters() {
    assert_eq!("ab", short("ab".into()));
    let long = short("ä".repeat(TEXT).into());
    assert_eq!(TEXT + "…".len(), long.len());
}

#[test]
fn secrets_in_urls_are_hidden() {
    let outcome = hit();
    with_request(&outcome, |it| {
        let fields = [Field { name: "Referer", value: b"http://h/login?code=SECRET&next=/a" }];
        let it = Finished { target: "/reset?token=SECRET&page=2", fields: &fields, ..*it };
        let record = record(&it, id());
        assert_eq!("http://WWW.example.com:8080/reset?token=***&page=2", record["url"]);
        assert_eq!("http://h/login?code=***&next=/a", record["referer"]);
        assert!(!record.to_string().contains("SECRET"));
    });
}
