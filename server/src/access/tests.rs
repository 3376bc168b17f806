//! The rules by themselves: the rate over threads, and the cost of a decision.

use super::limits::LimitsExceeded;
use super::*;
use larder_config::access::{BasicConfig, LimitConfig, LimitKey};
use larder_semantics::field::Field;
use larder_semantics::rate::{Gcra, Rate, RefusedFor, TICKS};
use larder_stdx::clock;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

fn limit(rate: &str, burst: u32, by: LimitKey) -> AccessRules {
    let rate = Some(Gcra::new(Rate::parse(rate).unwrap(), burst));
    let limit = LimitConfig { scope: "h".to_owned(), rate, burst, by, concurrency: None, place: None };
    AccessRules::new(&AccessConfig { limits: vec![limit], ..AccessConfig::default() }, &Arc::default())
}

/// Whether a request is admitted.
fn admits(rules: &AccessRules, fields: &[Field<'_>], client: SocketAddr) -> bool {
    let view = RequestView { fields, client: Some(client.ip()), ..RequestView::default() };
    matches!(rules.judge(&view, &Counters::default(), &RefCell::default()), Verdict::Admit)
}

fn at(client: &str) -> SocketAddr {
    SocketAddr::new(client.parse().unwrap(), 1)
}

#[test]
fn keys_of_a_limit() {
    clock::tick();
    let rules = limit("1/h", 0, LimitKey::Client);
    assert!(admits(&rules, &[], at("192.0.2.1")) && !admits(&rules, &[], at("::ffff:192.0.2.1")));
    assert!(admits(&rules, &[], at("192.0.2.2")));
    assert!(admits(&rules, &[], at("2001:db8::1")) && !admits(&rules, &[], at("2001:db8::2")));
    assert!(admits(&rules, &[], at("2001:db8:0:1::1")));
    let rules = limit("1/h", 0, LimitKey::Network);
    assert!(admits(&rules, &[], at("192.0.2.1")) && !admits(&rules, &[], at("192.0.2.2")));
    let rules = limit("1/h", 0, LimitKey::Header("x-api-key".to_owned()));
    let key = |value: &'static str| [Field { name: "X-Api-Key", value: value.as_bytes() }];
    assert!(admits(&rules, &key("a"), at("192.0.2.1")) && !admits(&rules, &key("a"), at("192.0.2.2")));
    assert!(admits(&rules, &key("b"), at("192.0.2.1")));
    // A client cannot avoid the limit by leaving out its key.
    assert!(admits(&rules, &[], at("192.0.2.1")) && !admits(&rules, &key(""), at("192.0.2.1")));
}

/// Nothing calls [`clock::tick`] here, as between two turns of a worker's timer.
#[test]
fn a_rate_follows_the_clock_of_the_kernel() {
    let rules = limit("100/s", 0, LimitKey::Client);
    let view = RequestView { client: Some(at("192.0.2.1").ip()), ..RequestView::default() };
    for number in 0..10 {
        assert!(rules.limits.take(&view).is_ok(), "request {number}, 11 ms after the one before");
        let begun = clock::precise_micros();
        while clock::precise_micros() - begun < 11_000 {
            std::hint::spin_loop();
        }
    }
}

/// Two threads send as fast as they can while time passes: the number admitted is within 1 % of the rate.
#[test]
fn exact_over_two_workers() {
    let rules = limit("1000/s", 10, LimitKey::Client);
    let (admitted, now) = (AtomicU64::new(0), AtomicU64::new(1));
    let gcra = Gcra::new(Rate::parse("1000/s").unwrap(), 10);
    let rates = rules.limits.all()[0].rates();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let time = now.load(Ordering::Relaxed);
                    if time > 10_000 {
                        break;
                    }
                    match rates.change(7, |it| gcra.judge(it, time * TICKS)) {
                        Ok(()) => admitted.fetch_add(1, Ordering::Relaxed),
                        Err(_) => now.fetch_max(time + 1, Ordering::Relaxed),
                    };
                }
            });
        }
    });
    let admitted = admitted.load(Ordering::Relaxed);
    assert!(admitted.abs_diff(10_000) <= 100, "{admitted}");
}

/// The first requests of each client are within its burst, whatever the number of clients, in a table that keeps its size. The figures: `cargo test --profile trial -p larder-server --lib every_client_has_its_burst -- --nocapture`.
#[test]
fn every_client_has_its_burst() {
    const PART: u32 = 10_000;
    clock::tick();
    for clients in [1_u32, 1000, 100_000, 10_000_000] {
        // Unoptimised, the last are only more than the table has slots.
        let rounds = if cfg!(debug_assertions) { clients.clamp(20_000, 300_000) } else { 10_000_000 };
        let rules = limit("100000/s", 100, LimitKey::Client);
        let (mut admitted, mut fastest) = (0, Fastest::default());
        for part in 0..rounds / PART {
            admitted += fastest.run(PART, || {
                let of = |it: u32| std::net::Ipv4Addr::from((it % clients).wrapping_mul(2_654_435_761));
                let mut view = RequestView::default();
                let these = part * PART..(part + 1) * PART;
                let admits = |it| {
                    view.client = Some(of(it).into());
                    u64::from(rules.limits.take(&view).is_ok())
                };
                these.map(admits).sum()
            });
        }
        println!("{clients} clients: {fastest}, {admitted} admitted");
        assert!(admitted >= u64::from(clients.saturating_mul(100).min(rounds)), "{clients}: {admitted}");
        assert_eq!(4 << 20, rules.limits.all()[0].rates().bytes(), "{clients}");
    }
    let rules = limit("100000/s", 100, LimitKey::Client);
    let mut fastest = Fastest::default();
    for _ in 0..100 {
        fastest.run(PART, || {
            let wait = std::hint::black_box(LimitsExceeded::wait(RefusedFor { ticks: TICKS }));
            (0..PART).for_each(|_| drop(std::hint::black_box(rules.limits.refuse(wait))));
            0
        });
    }
    println!("with the response to a request too many: {fastest}");
}

/// The fastest of several parts of many decisions, in nanoseconds a decision: other programs take time from the rest.
#[derive(Default)]
struct Fastest {
    /// With all admitted.
    admitted: Option<u64>,
    /// With all refused.
    refused: Option<u64>,
}

impl Fastest {
    /// Measures a part of `count` decisions, and returns the number of those that it admitted.
    fn run(&mut self, count: u32, part: impl FnOnce() -> u64) -> u64 {
        let before = clock::precise_micros();
        let admitted = part();
        let nanos = (clock::precise_micros() - before) * 1000 / u64::from(count);
        let of = match admitted {
            0 => &mut self.refused,
            it if it == u64::from(count) => &mut self.admitted,
            _ => return admitted,
        };
        *of = Some(of.map_or(nanos, |it| it.min(nanos)));
        admitted
    }
}

impl std::fmt::Display for Fastest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let figures = [("admitted", self.admitted), ("refused", self.refused)];
        let texts = figures.into_iter().filter_map(|(name, it)| Some(format!("{name} {} ns", it?)));
        f.write_str(&texts.collect::<Vec<_>>().join(", "))
    }
}

/// A name with `_` in the configuration and one with `-` from a client are one variable for an application.
#[test]
fn spellings_of_a_field_that_no_client_can_send() {
    let admitted = |name: &str| Admitted {
        removed: Some([name.to_ascii_lowercase().replace('_', "-")].into()),
        ..Admitted::default()
    };
    for configured in ["Remote_User", "Remote-User"] {
        for sent in ["Remote-User", "remote_user", "REMOTE-USER", "Remote_User"] {
            assert!(
                !admitted(configured).keeps(&Field { name: sent, value: b"root" }),
                "{configured} {sent}"
            );
        }
        assert!(admitted(configured).keeps(&Field { name: "Remote-Users", value: b"" }));
    }
}

/// The fast path asks for the address alone where no other rule has a say, and gets the same answer.
/// Rules with several limits of clients.
fn limits(rates: &[(&str, LimitKey)]) -> AccessRules {
    let of = |(rate, by): &(&str, LimitKey)| LimitConfig {
        scope: "h".to_owned(),
        rate: Rate::parse(rate).map(|it| Gcra::new(it, 0)),
        burst: 0,
        by: by.clone(),
        concurrency: None,
        place: Some(larder_config::Source::Default),
    };
    let limits = rates.iter().map(of).collect();
    AccessRules::new(&AccessConfig { limits, ..AccessConfig::default() }, &Arc::default())
}

/// The response to a request: Retry-After, RateLimit and RateLimit-Policy; `None` if it is admitted.
fn refusal(rules: &AccessRules, fields: &[Field<'_>]) -> Option<[String; 3]> {
    let view = RequestView { fields, client: Some(at("192.0.2.1").ip()), ..RequestView::default() };
    let Verdict::Refuse(page) = rules.judge(&view, &Counters::default(), &RefCell::default()) else {
        return None;
    };
    let field = |name: &str| {
        page.fields.iter().find(|it| it.is(name)).map(|it| String::from_utf8_lossy(it.value).into_owned())
    };
    Some(["Retry-After", "RateLimit", "RateLimit-Policy"].map(|it| field(it).unwrap_or_default()))
}

#[test]
fn a_request_is_within_all_limits_or_counts_for_none() {
    clock::tick();
    let by_key = LimitKey::Header("x-api-key".to_owned());
    let rules = limits(&[("2/m", by_key), ("1/h", LimitKey::Client)]);
    let key = |value: &'static str| [Field { name: "X-Api-Key", value: value.as_bytes() }];
    assert_eq!(None, refusal(&rules, &key("a")));
    // The rate of the key is not reached yet by the refused request, nor by those after it.
    let policy = "\"2/m by header:x-api-key\";q=2;w=60, \"1/h by client\";q=1;w=3600";
    for _ in 0..3 {
        let limit = "\"1/h by client\";r=0;t=3600";
        assert_eq!(Some(["3600", limit, policy].map(str::to_owned)), refusal(&rules, &key("b")));
    }
    let other =
        RequestView { fields: &key("b"), client: Some(at("192.0.2.2").ip()), ..RequestView::default() };
    assert!(rules.limits.take(&other).is_ok(), "the refused requests counted for their key");
    // The longest wait is that of the response, and all limits that are reached are in it.
    let reached = "\"2/m by header:x-api-key\";r=0;t=30, \"1/h by client\";r=0;t=3600";
    assert_eq!(Some(["3600", reached, policy].map(str::to_owned)), refusal(&rules, &key("a")));
}

/// Threads that are refused by one limit give back to the others: not more than the rate are admitted, in either order.
#[test]
fn several_limits_over_four_threads() {
    for rates in [["100000/s", "4/d"], ["4/d", "100000/s"]] {
        clock::tick();
        let rules = limits(&rates.map(|it| (it, LimitKey::Client)));
        let view = || RequestView { client: Some(at("192.0.2.1").ip()), ..RequestView::default() };
        // Threads that add a key to the table at once may use two slots.
        let admitted = AtomicU64::new(u64::from(rules.limits.take(&view()).is_ok()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let view = view();
                    let count = (0..10_000).filter(|_| rules.limits.take(&view).is_ok()).count();
                    admitted.fetch_add(count as u64, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(1, admitted.load(Ordering::Relaxed), "{rates:?}");
    }
}

/// The cost of a decision over two limits: half of it is that of one. `cargo test --profile trial`, as above.
#[test]
fn a_decision_over_two_limits() {
    const PART: u32 = 10_000;
    clock::tick();
    let rules = limits(&[("100000/s", LimitKey::Client), ("100000/s", LimitKey::Network)]);
    let mut fastest = Fastest::default();
    for part in 0..if cfg!(debug_assertions) { 2 } else { 100 } {
        fastest.run(PART, || {
            let mut view = RequestView::default();
            let these = part * PART..(part + 1) * PART;
            let admits = |it| {
                view.client = Some(std::net::Ipv4Addr::from((it % 100_000) << 8).into());
                u64::from(rules.limits.take(&view).is_ok())
            };
            these.map(admits).sum()
        });
    }
    println!("two limits: {fastest}");
}

#[test]
fn an_address_admits_alone_only_without_other_rules() {
    let list =
        |texts: &[&str]| Some(Addresses::of(&texts.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()));
    let own = || AccessConfig { allow: list(&["192.0.2.0/24", "unix"]), ..AccessConfig::default() };
    let check = |config: AccessConfig, expect: [bool; 3]| {
        let rules = AccessRules::new(&config, &Arc::default());
        for (address, expect) in [Some("192.0.2.1"), Some("198.51.100.1"), None].into_iter().zip(expect) {
            let client = address.map(|it| it.parse().unwrap());
            assert_eq!(expect, rules.admits_address(client), "{config:?} {address:?}");
            let view = RequestView { client, ..RequestView::default() };
            let verdict = rules.judge(&view, &Counters::default(), &RefCell::default());
            assert!(!expect || matches!(verdict, Verdict::Admit), "{config:?} {address:?}");
        }
    };
    check(own(), [true, false, true]);
    check(AccessConfig { deny: list(&["192.0.2.1"]), ..own() }, [false, false, true]);
    check(AccessConfig { deny: list(&["198.51.100.0/24"]), ..AccessConfig::default() }, [false; 3]);
    check(AccessConfig { deny: list(&["country:FR"]), ..own() }, [false; 3]);
    let limit = LimitConfig {
        scope: "h".to_owned(),
        rate: None,
        burst: 0,
        by: LimitKey::Client,
        concurrency: Some(1),
        place: None,
    };
    check(AccessConfig { limits: vec![limit], ..own() }, [false; 3]);
    let basic = BasicConfig { realm: "a".to_owned(), users: Vec::new(), file: None };
    check(AccessConfig { basic: Some(basic), any: true, ..own() }, [false; 3]);
    let removed = Some([String::from("x-user")].into());
    let of_site = AccessRules { removed, ..AccessRules::new(&own(), &Arc::default()) };
    assert!(!of_site.admits_address("192.0.2.1".parse().ok()), "fields of the request are removed");
}
