//! The trial on small sequences: hit ratios by arithmetic, and each danger.

mod dangers;

use super::*;
use crate::policy::Policy;

/// A recorded request: its time, target, client, and what it got.
struct Row<'a> {
    time: u64,
    target: &'a str,
    client: u64,
    served: ServedBy,
    /// The fields of the response of the origin, and its hash.
    response: Option<(&'a [Field<'a>], u64)>,
}

/// A hash of validators for an even number, of a body for an odd one.
fn hash(number: u64) -> u64 {
    number.wrapping_mul(8) + number % 2
}

fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Policy::default();
    change(&mut policy);
    policy
}

fn key(policy: &Policy, target: &str) -> Vec<u8> {
    let mut key = Vec::new();
    policy.key.write("http", "h", target, &[], &mut key);
    key
}

/// The report about rows under two policies of one route.
fn report(rows: &[Row<'_>], running: &Policy, changed: &Policy) -> TrialReport {
    report_for(rows, &[], running, changed)
}

/// The same for requests with these fields.
fn report_for(rows: &[Row<'_>], fields: &[Field<'_>], running: &Policy, changed: &Policy) -> TrialReport {
    let mut trial = ConfigTrial::default();
    for (number, row) in rows.iter().enumerate() {
        let response = row.response.map(|(fields, digest)| RecordedResponse {
            time: WallTime(row.time),
            status: 200,
            fields,
            digest: hash(digest),
            head: 0,
            length: 0,
        });
        let request = RecordedRequest {
            time: WallTime(row.time),
            span: (row.time, row.time),
            weight: 1,
            method: "GET",
            scheme: "http",
            authority: "h",
            target: row.target,
            fields,
            client: row.client,
            status: 200,
            served: row.served,
            response,
            stored: None,
        };
        let (one, other) = (key(running, row.target), key(changed, row.target));
        let side = |key, policy| TrialSide {
            route: Some(0),
            origin: 1,
            demands: false,
            course: Course::Cached { key, policy },
        };
        trial.see(number, &request, &side(&one, running), &side(&other, changed));
    }
    trial.finish()
}

const MAX_AGE: &[Field<'static>] = &[Field { name: "Cache-Control", value: b"max-age=60" }];

/// One request a second for a page with a lifetime of a minute.
fn minute() -> Vec<Row<'static>> {
    (0..120)
        .map(|time| {
            let is_miss = time % 60 == 0;
            let served = if is_miss { ServedBy::Origin } else { ServedBy::Cache(60 - (time % 60) as i32) };
            Row { time, target: "/a", client: 1, served, response: is_miss.then_some((MAX_AGE, 2)) }
        })
        .collect()
}

#[test]
fn ratios_are_those_of_lifetimes() {
    let same = Policy::default();
    let outcome = report(&minute(), &same, &same);
    assert_eq!((118.0, 120.0), (outcome.measured.hits, outcome.measured.all));
    assert_eq!((outcome.measured, outcome.measured), (outcome.running, outcome.changed_share));
    let cut = policy(|it| it.max_ttl = 10);
    let outcome = report(&minute(), &same, &cut);
    assert_eq!(Some(108.0 / 120.0), outcome.changed_share.ratio(), "a miss every ten seconds");
    assert_eq!(120, outcome.of(ChangeKind::Lifetime).requests);
    assert_eq!((1, "60 s", "10 s"), {
        let it = &outcome.of(ChangeKind::Lifetime);
        (it.examples.len(), &*it.examples[0].from, &*it.examples[0].to)
    });
    let off = policy(|it| it.enabled = false);
    assert_eq!(Some(0.0), report(&minute(), &same, &off).changed_share.ratio());
}

#[test]
fn a_cache_that_was_warm_before_is_warm_in_the_trial() {
    let same = Policy::default();
    // The records begin 40 seconds after the response arrived, which is known from the store.
    let rows: Vec<Row<'_>> = minute().into_iter().skip(40).collect();
    let mut trial = ConfigTrial::default();
    let stored = RecordedResponse {
        time: WallTime(60),
        status: 200,
        fields: MAX_AGE,
        digest: hash(2),
        head: 0,
        length: 0,
    };
    for (number, row) in rows.iter().enumerate() {
        let request = RecordedRequest {
            time: WallTime(row.time),
            span: (row.time, row.time),
            weight: 1,
            method: "GET",
            scheme: "http",
            authority: "h",
            target: row.target,
            fields: &[],
            client: 1,
            status: 200,
            served: row.served,
            response: row.response.map(|it| RecordedResponse {
                time: WallTime(row.time),
                fields: it.0,
                ..stored
            }),
            stored: (number == 0).then_some(stored),
        };
        let key = key(&same, "/a");
        let side = TrialSide {
            route: None,
            origin: 1,
            demands: false,
            course: Course::Cached { key: &key, policy: &same },
        };
        trial.see(number, &request, &side, &side);
    }
    let report = trial.finish();
    assert_eq!((79.0, report.measured), (report.running.hits, report.running));
}

#[test]
fn a_sample_counts_with_its_weight() {
    let same = Policy::default();
    let mut trial = ConfigTrial::default();
    for (number, time) in (0..600_u64).step_by(10).enumerate() {
        let response = RecordedResponse {
            time: WallTime(time),
            status: 200,
            fields: MAX_AGE,
            digest: hash(2),
            head: 0,
            length: 0,
        };
        let request = RecordedRequest {
            time: WallTime(time),
            span: (time, time),
            weight: 100,
            method: "GET",
            scheme: "http",
            authority: "h",
            target: "/a",
            fields: &[],
            client: 1,
            status: 200,
            served: ServedBy::Origin,
            response: Some(response),
            stored: None,
        };
        let key = key(&same, "/a");
        let side = TrialSide {
            route: None,
            origin: 1,
            demands: false,
            course: Course::Cached { key: &key, policy: &same },
        };
        trial.see(number, &request, &side, &side);
    }
    // Ten requests a second for ten minutes: a miss each minute.
    let report = trial.finish();
    let misses = report.running.all - report.running.hits;
    assert_eq!(6000.0, report.running.all);
    assert!((9.0..13.0).contains(&misses), "{misses}");
}

const SETS: &[Field<'static>] =
    &[Field { name: "Cache-Control", value: b"max-age=60" }, Field { name: "Set-Cookie", value: b"a=" }];

fn misses<'a>(rows: &[(&'a str, u64, u64)], fields: &'a [Field<'a>]) -> Vec<Row<'a>> {
    let one = |(time, (target, client, digest)): (usize, &(&'a str, u64, u64))| Row {
        time: time as u64,
        target,
        client: *client,
        served: ServedBy::Origin,
        response: Some((fields, *digest)),
    };
    rows.iter().enumerate().map(one).collect()
}

fn reasons(rows: &[Row<'_>], running: &Policy, changed: &Policy) -> Vec<SharedReason> {
    let each = |it: &SharedExample| vec![it.reason; it.weight as usize];
    report(rows, running, changed).shared.iter().flat_map(each).collect()
}

#[test]
fn responses_that_must_not_be_shared_are_found() {
    let (same, shares) = (Policy::default(), policy(|it| it.store_set_cookie = true));
    let sets = misses(&[("/a", 1, 3)], SETS);
    assert_eq!([SharedReason::SetCookie], reasons(&sets, &same, &shares)[..]);
    assert!(reasons(&sets, &shares, &shares).is_empty(), "it is shared already");
    assert!(reasons(&sets, &shares, &same).is_empty());
    let kept = policy(|it| it.default_ttl = Some(60));
    // Odd numbers are hashes of bodies.
    for (rows, expect) in [
        (&[("/a", 1, 3), ("/a", 2, 5)][..], 2),
        (&[("/a", 1, 3), ("/a", 2, 3)], 0),
        (&[("/a", 1, 3), ("/a", 1, 5)], 0),
        (&[("/a", 1, 3), ("/b", 2, 5)], 0),
        (&[("/a", 1, 3), ("/a", 2, 2)], 0),
        // A page that changes with every request, whoever asks.
        (&[("/a", 1, 3), ("/a", 2, 5), ("/a", 1, 7)], 0),
        // One client's page that stays, beside another's.
        (&[("/a", 1, 3), ("/a", 2, 5), ("/a", 1, 3)], 3),
    ] {
        let found = reasons(&misses(rows, &[]), &same, &kept);
        assert_eq!(vec![SharedReason::Differed; expect], found, "{rows:?}");
    }
}

#[test]
fn requests_for_public_files_have_no_cookies() {
    let cookie = [Field { name: "cookie", value: b"sid=1" }];
    let of = |public: &[&str]| {
        policy(|it| {
            it.private_cookies = vec!["*".to_owned()];
            it.public_files = public.iter().map(|it| crate::pattern::PathPattern::of(it)).collect();
        })
    };
    let (none, public) = (of(&[]), of(&["/static/*"]));
    let file = misses(&[("/static/a.css", 1, 3), ("/static/a.css", 2, 3), ("/static/a.css", 3, 3)], SETS);
    let report = report_for(&file, &cookie, &none, &public);
    assert_eq!((Some(0.0), Some(2.0 / 3.0)), (report.running.ratio(), report.changed_share.ratio()));
    assert_eq!(3, report.of(ChangeKind::Storage).requests);
    let named = |report: &TrialReport| report.shared.iter().map(|it| it.reason).collect::<Vec<_>>();
    assert_eq!(vec![SharedReason::SetCookie; 3], named(&report));
    let plain = misses(&[("/static/a.css", 1, 3), ("/static/a.css", 2, 3)], &[]);
    assert!(named(&report_for(&plain, &cookie, &none, &public)).is_empty());
    let report = report_for(&file, &cookie, &public, &none);
    assert_eq!((Some(2.0 / 3.0), Some(0.0)), (report.running.ratio(), report.changed_share.ratio()));
    let other = misses(&[("/a.css", 1, 3), ("/a.css", 2, 3)], SETS);
    assert_eq!(Some(0.0), report_for(&other, &cookie, &none, &public).changed_share.ratio());
    // The files of the directory are not the same for all visitors.
    let own = misses(&[("/static/a.css", 1, 3), ("/static/a.css", 2, 5), ("/static/a.css", 1, 3)], SETS);
    assert!(!report_for(&own, &cookie, &none, &public).shared.is_empty());
}

#[test]
fn urls_that_become_one_must_have_one_response() {
    let dropped = policy(|it| it.key.query = crate::key::QueryPolicy::Drop(vec!["page".to_owned()]));
    let same = Policy::default();
    let differ = misses(&[("/a?page=1", 1, 3), ("/a?page=2", 1, 5), ("/a?page=1", 1, 3)], MAX_AGE);
    assert!(!reasons(&differ, &same, &dropped).is_empty());
    let equal = misses(&[("/a?page=1", 1, 3), ("/a?page=2", 1, 3)], MAX_AGE);
    assert!(reasons(&equal, &same, &dropped).is_empty());
    let outcome = report(&equal, &same, &dropped);
    assert_eq!((2, 2), (outcome.of(ChangeKind::Key).requests, outcome.of(ChangeKind::Key).urls()));
    assert_eq!((Some(0.0), Some(0.5)), (outcome.running.ratio(), outcome.changed_share.ratio()));
}

#[test]
fn recorded_fields_have_no_secrets() {
    let fields = [
        Field { name: "cookie", value: b"a=s3cret; b" },
        Field { name: "AUTHORIZATION", value: b"Bearer s3cret" },
        Field { name: "X-Auth-Token", value: b"s3cret" },
        Field { name: "Sec-Fetch-Mode", value: b"navigate" },
        Field { name: "Accept", value: b"*/*" },
    ];
    let mut text = Vec::new();
    facts::write_request(&fields, 7, &mut |it| text.extend_from_slice(it));
    assert!(!text.windows(6).any(|it| it == b"s3cret"), "{}", text.escape_ascii());
    let of = |value: &[u8], seed| {
        let mut text = Vec::new();
        let field = Field { name: "Authorization", value };
        facts::write_request(&[field], seed, &mut |it| text.extend_from_slice(it));
        text
    };
    assert!(
        of(b"one", 7) == of(b"one", 7) && of(b"one", 7) != of(b"two", 7) && of(b"one", 7) != of(b"one", 8)
    );
    let read = facts::fields(&text);
    let names: Vec<&str> = read.iter().map(|it| it.name).collect();
    assert_eq!(["cookie", "AUTHORIZATION", "X-Auth-Token", "Accept"], names[..]);
    let response = facts::response(&[
        Field { name: "Set-Cookie", value: b"session=s3cret; HttpOnly" },
        Field { name: "ETag", value: b"\"s3cret\"" },
        Field { name: "X-Session", value: b"s3cret" },
        Field { name: "Content-Security-Policy", value: b"default-src 'self'" },
        Field { name: "CDN-Cache-Control", value: b"max-age=3" },
    ]);
    assert!(!response.windows(6).any(|it| it == b"s3cret"), "{}", response.escape_ascii());
    let names: Vec<&str> = facts::fields(&response).iter().map(|it| it.name).collect();
    assert_eq!(["Set-Cookie", "ETag", "CDN-Cache-Control"], names[..]);
}

/// A page that is the same for all clients in its first 70,000 bytes, and has its state at its end, was taken for the same.
#[test]
fn the_whole_body_of_text_is_compared() {
    let hash = |kind: &'static str, coding: &'static str, body: &[u8], step: usize| {
        let fields = [
            Field { name: "Content-Type", value: kind.as_bytes() },
            Field { name: "Content-Encoding", value: coding.as_bytes() },
        ];
        let fields = if coding.is_empty() { &fields[..1] } else { &fields[..] };
        let mut digest = facts::BodyDigest::of(fields)?;
        body.chunks(step).for_each(|it| digest.add(it));
        Some(digest.finish())
    };
    let mut body = vec![b'x'; 300_000];
    for kind in ["text/html; charset=utf-8", "application/json", "image/png"] {
        let whole = hash(kind, "", &body, 300_000);
        assert_eq!(whole, hash(kind, "", &body, 1_000), "{kind}: however it arrives");
        assert_ne!(whole, hash(kind, "", &body[1..], 300_000), "{kind}: the length");
        assert_ne!(whole, hash(kind, "gzip", &body, 300_000), "{kind}: another coding");
        assert_eq!(
            (Some(1), Some(2)),
            (whole.map(facts::class_of), hash(kind, "gzip", &body, 9).map(facts::class_of))
        );
        for (at, is_seen) in
            [(65_535, true), (66_000, true), (75_000, kind != "image/png"), (299_999, kind != "image/png")]
        {
            body[at] = b'y';
            assert_eq!(is_seen, whole != hash(kind, "", &body, 4_096), "{kind} at {at}");
            body[at] = b'x';
        }
    }
    assert_eq!(None, hash("text/html", "unknown", &body, 9));
}

/// The trial of a larger `cache.max_object` predicted nothing: a chunked response declares no length.
#[test]
fn a_response_without_a_declared_length_is_stored_up_to_max_object() {
    let limit = |bytes| policy(|it| it.max_object = bytes);
    let see = |length: u64, changed: u64| {
        let mut trial = ConfigTrial::default();
        for time in 0..4 {
            let response = RecordedResponse {
                time: WallTime(time),
                status: 200,
                fields: MAX_AGE,
                digest: hash(3),
                head: 0,
                length,
            };
            let (one, other) = (limit(1 << 20), limit(changed));
            let key = key(&one, "/a");
            let side = |policy| TrialSide {
                route: Some(0),
                origin: 1,
                demands: false,
                course: Course::Cached { key: &key, policy },
            };
            let request = RecordedRequest {
                time: WallTime(time),
                span: (time, time),
                weight: 1,
                method: "GET",
                scheme: "http",
                authority: "h",
                target: "/a",
                fields: &[],
                client: 1,
                status: 200,
                served: ServedBy::Origin,
                response: Some(response),
                stored: None,
            };
            trial.see(0, &request, &side(&one), &side(&other));
        }
        let report = trial.finish();
        let storage = report.of(ChangeKind::Storage);
        let example = storage.examples.first().map(|it| (it.from.clone(), it.to.clone(), it.key));
        (report.running.hits, report.changed_share.hits, storage.requests, example)
    };
    let example = |from: &str, to: &str| Some((from.to_owned(), to.to_owned(), Some("cache.max_object")));
    assert_eq!((0.0, 3.0, 4, example("too-large", "stored")), see(1_400_000, 2 << 20));
    assert_eq!((3.0, 0.0, 4, example("stored", "too-large")), see(1_000_000, 500_000));
    assert_eq!((3.0, 3.0, 0, None), see(0, 500_000), "an unknown length");
}
