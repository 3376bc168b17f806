//! Faults of a fleet server: the right bytes or none, never an error, never longer than the deadline; not used after
//! three consecutive failures, used again after the retry time. The clock is moved.

mod fleet;

use fleet::faulty::{Fault, Faulty};
use fleet::memcached::{Memcached, On};
use fleet::pages::{get, get_as, hit, page, put, text};
use fleet::{patient, run};
use larder_counters::Counters;
use larder_stdx::clock;
use larder_store::fleet::{
    Fleet, FleetResult, FleetServerState, FleetSettings, Health, Removed, Settled, Want,
};
use larder_store::{StoredArc, StoredBody};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// The deadline where a server lets it pass, and elsewhere: a busy machine must not fail a test that is not about time.
const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

/// How much longer than its deadline an operation may take on a busy machine: what does not end by it here never ends.
const BUSY: Duration = Duration::from_secs(60);

/// How often a thing is tried that a busy machine may hold up beyond a short deadline.
const TRIES: usize = 50;

const URL: &str = "http://a/";

/// The clock is the process's: one test at a time.
fn clock_is_ours() -> MutexGuard<'static, ()> {
    static OURS: Mutex<()> = Mutex::new(());
    OURS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn settings(server: &Faulty) -> FleetSettings {
    FleetSettings {
        servers: vec![server.address.clone()],
        timeout: LONG,
        connect_timeout: LONG,
        no_block: false,
        connections: 1,
        ..FleetSettings::default()
    }
}

/// A get that ends in time, and brings the right bytes or none.
async fn get_in_time(fleet: &Rc<Fleet>, url: &str, body: &[u8]) -> FleetResult {
    let begin = Instant::now();
    let got = get(fleet, url).await;
    assert!(begin.elapsed() < fleet.settings().timeout + BUSY, "{:?}", begin.elapsed());
    if let FleetResult::Hit { found, .. } = &got {
        assert_eq!(body, &found.body[..]);
    }
    got
}

fn is_ejected(fleet: &Fleet, server: usize) -> bool {
    fleet.health().state(server) == FleetServerState::Ejected
}

/// Asks until the server that was ejected is back: it is tried beside what is asked.
async fn until_back(fleet: &Rc<Fleet>, server: usize) {
    clock::advance_monotonic(6_000);
    let deadline = Instant::now() + LONG;
    while is_ejected(fleet, server) && Instant::now() < deadline {
        let _ = get(fleet, "http://whatever/").await;
        tokio::task::yield_now().await;
    }
    assert!(!is_ejected(fleet, server), "it was not tried again");
}

/// Puts until it is there.
async fn put_surely(fleet: &Rc<Fleet>, url: &str, stored: &StoredArc) {
    for _ in 0..TRIES {
        if put(fleet, url, stored).await == Settled::Stored {
            return;
        }
    }
    panic!("{url} is not taken");
}

/// Gets until it is a hit; the first tries may still meet a connection that went wrong.
async fn get_surely(fleet: &Rc<Fleet>, url: &str, body: &[u8]) {
    for _ in 0..TRIES {
        if matches!(get_in_time(fleet, url, body).await, FleetResult::Hit { .. }) {
            return;
        }
    }
    panic!("{url} is not found");
}

/// A page is there, the server does wrong, is left alone, and is used again when it does right.
fn check(fault: Fault, ejected: bool) -> Arc<Counters> {
    let _ours = clock_is_ours();
    run(async {
        let server = Faulty::start().await;
        let lets_it_pass = matches!(fault, Fault::Hang | Fault::Deaf | Fault::Slow(_) | Fault::Long);
        let timeout = if lets_it_pass { SHORT } else { LONG };
        let (fleet, counters) = fleet::fleet(FleetSettings { timeout, ..settings(&server) });
        let body = fleet::pages::noise(50_000);
        let stored = page(&[("Cache-Control", "max-age=6000")], &[], StoredBody::Heap(body.clone().into()));
        put_surely(&fleet, URL, &stored).await;
        put_surely(&fleet, "http://b/", &text("another")).await;
        get_surely(&fleet, URL, &body).await;

        server.does(fault);
        for _ in 0..3 {
            let got = get_in_time(&fleet, URL, &body).await;
            assert!(!matches!(got, FleetResult::Hit { .. }), "{fault:?}");
        }
        assert_eq!(ejected, is_ejected(&fleet, 0), "{fault:?}");
        if ejected {
            let before = server.connections();
            for _ in 0..50 {
                let got = get_in_time(&fleet, URL, &body).await;
                assert!(matches!(got, FleetResult::Unavailable), "{got:?}");
            }
            assert_eq!(before, server.connections(), "{fault:?}: it is left alone");
            server.does(Fault::None);
            assert!(
                matches!(get_in_time(&fleet, URL, &body).await, FleetResult::Unavailable),
                "not before its time"
            );
            until_back(&fleet, 0).await;
            assert!(counters.fleet_ejections.get() > 0 && counters.fleet_readmissions.get() > 0);
        } else {
            server.does(Fault::None);
        }
        get_surely(&fleet, URL, &body).await;
        counters
    })
}

macro_rules! faults {
    ($($name:ident: $fault:expr, $ejected:literal, $counter:ident;)*) => {
        $(#[test]
        fn $name() {
            let counters = check($fault, $ejected);
            assert!(counters.$counter.get() > 0, stringify!($counter));
        })*
    };
}

faults! {
    one_that_hangs_is_ejected: Fault::Hang, true, fleet_timeouts;
    one_that_does_not_read_is_ejected: Fault::Deaf, true, fleet_timeouts;
    one_that_is_slow_is_ejected: Fault::Slow(300), true, fleet_timeouts;
    one_that_drops_connections_is_ejected: Fault::Drop, true, fleet_failures;
    one_that_refuses_is_ejected: Fault::Refuse, true, fleet_failures;
    one_that_sends_garbage_is_ejected: Fault::Garbage, true, fleet_protocol_errors;
    one_that_speaks_http_is_ejected: Fault::Foreign, true, fleet_protocol_errors;
    one_that_answers_about_another_key_is_ejected: Fault::WrongKey, true, fleet_protocol_errors;
    one_that_loses_count_is_ejected: Fault::WrongOpaque, true, fleet_protocol_errors;
    one_that_cuts_values_is_ejected: Fault::Cut, true, fleet_failures;
    one_that_says_too_short_is_ejected: Fault::Short, true, fleet_protocol_errors;
    one_that_says_too_long_is_ejected: Fault::Long, true, fleet_failures;
    one_that_says_too_much_is_ejected: Fault::Huge, true, fleet_protocol_errors;
    one_that_never_ends_its_line_is_ejected: Fault::Endless, true, fleet_protocol_errors;
    one_that_fails_at_reading_is_ejected: Fault::Broken, true, fleet_failures;
    the_value_of_another_key_is_not_served: Fault::Swapped, false, fleet_foreign;
    a_changed_byte_is_not_served: Fault::Flipped, false, fleet_corrupt;
}

#[test]
fn a_server_that_answers_twice_is_not_trusted() {
    let _ours = clock_is_ours();
    run(async {
        let server = Faulty::start().await;
        let (fleet, counters) = fleet::fleet(settings(&server));
        put(&fleet, URL, &text("a")).await;
        put(&fleet, "http://b/", &text("b")).await;
        server.does(Fault::Twice);
        for _ in 0..20 {
            get_in_time(&fleet, URL, b"a").await;
            get_in_time(&fleet, "http://b/", b"b").await;
        }
        assert!(counters.fleet_protocol_errors.get() > 0);
    });
}

#[test]
fn a_failure_seen_by_one_worker_suspends_the_server_for_all() {
    let _ours = clock_is_ours();
    run(async {
        let server = Faulty::start().await;
        let settings = Arc::new(settings(&server));
        let counters = Arc::new(Counters::default());
        let health = Health::new(&settings, counters.clone(), None);
        let store = fleet::some_store();
        let worker = || Fleet::new(settings.clone(), health.clone(), store.clone(), counters.clone());
        let (a, b) = (worker(), worker());
        put_surely(&a, URL, &text("a")).await;
        get_surely(&b, URL, b"a").await;
        server.does(Fault::Drop);
        for _ in 0..3 {
            assert!(matches!(get_in_time(&a, URL, b"a").await, FleetResult::Unavailable));
        }
        let before = server.connections();
        assert!(matches!(get_in_time(&b, URL, b"a").await, FleetResult::Unavailable));
        assert_eq!((true, before), (is_ejected(&b, 0), server.connections()));
        server.does(Fault::None);
        // One of them tries; both are back, and only one attempt was made.
        until_back(&a, 0).await;
        get_surely(&b, URL, b"a").await;
        assert_eq!(1, counters.fleet_readmissions.get());
    });
}

#[test]
fn a_flapping_server_is_never_an_error() {
    let _ours = clock_is_ours();
    run(async {
        let server = Faulty::start().await;
        let (fleet, _) = fleet::fleet(settings(&server));
        put(&fleet, URL, &text("a")).await;
        for round in 0..40 {
            server.does(if round % 2 == 0 { Fault::Flapping } else { Fault::None });
            get_in_time(&fleet, URL, b"a").await;
            if is_ejected(&fleet, 0) {
                clock::advance_monotonic(6_000);
            }
        }
        server.does(Fault::None);
        until_back(&fleet, 0).await;
        let _ = get_in_time(&fleet, URL, b"a").await;
        hit(get_in_time(&fleet, URL, b"a").await);
    });
}

#[test]
fn a_full_server_is_still_read() {
    let _ours = clock_is_ours();
    run(async {
        let server = Faulty::start().await;
        let (fleet, counters) = fleet::fleet(settings(&server));
        put(&fleet, URL, &text("a")).await;
        server.does(Fault::Full);
        for _ in 0..10 {
            assert_eq!(Settled::NotStored, put(&fleet, "http://b/", &text("b")).await);
        }
        assert!(!is_ejected(&fleet, 0));
        assert_eq!((10, 0), (counters.fleet_puts_failed.get(), counters.fleet_failures.get()));
        hit(get_in_time(&fleet, URL, b"a").await);
    });
}

#[test]
fn a_late_answer_is_not_taken_for_anothers() {
    let _ours = clock_is_ours();
    run(async {
        let server = Faulty::start().await;
        let settings = FleetSettings { failures: 1000, timeout: SHORT, ..settings(&server) };
        let (fleet, _) = fleet::fleet(settings);
        for at in 0..10 {
            put_surely(&fleet, &format!("http://{at}/"), &text(&at.to_string())).await;
        }
        // Some answers come in time, some late, and some with the connection given up before.
        for round in 0..30 {
            server.does(Fault::Slow([0, 110, 10, 90, 230][round % 5]));
            let at = round % 10;
            get_in_time(&fleet, &format!("http://{at}/"), at.to_string().as_bytes()).await;
        }
    });
}

#[test]
fn without_auto_eject_its_keys_stay_where_they_are() {
    let _ours = clock_is_ours();
    run(async {
        let (a, b) = (Faulty::start().await, Faulty::start().await);
        let servers = vec![a.address.clone(), b.address.clone()];
        let (fleet, _) = fleet::fleet(FleetSettings { servers, auto_eject: false, ..settings(&a) });
        let urls: Vec<String> = (0..40).map(|it| format!("http://a/{it}")).collect();
        for url in &urls {
            assert_eq!(Settled::Stored, put(&fleet, url, &text("x")).await);
        }
        a.does(Fault::Drop);
        let mut unavailable = 0;
        for url in urls.iter().chain(&urls) {
            match get_in_time(&fleet, url, b"x").await {
                FleetResult::Hit { .. } => {}
                FleetResult::Unavailable => unavailable += 1,
                got => panic!("{got:?}"),
            }
        }
        assert!(is_ejected(&fleet, 0) && !is_ejected(&fleet, 1));
        assert!((2..78).contains(&unavailable), "{unavailable}");
    });
}

#[test]
fn a_slow_connection_is_hedged_by_the_other() {
    let _ours = clock_is_ours();
    run(async {
        let server = Faulty::start().await;
        let hedge = Some(Duration::from_millis(5));
        let hedged = FleetSettings { hedge, connections: 2, ..settings(&server) };
        let (fleet, counters) = fleet::fleet(hedged);
        put(&fleet, URL, &text("a")).await;
        assert_eq!(1, server.connections());
        server.does(Fault::OneHangs);
        // The least busy is the one that hangs, or the other: the answer comes in any case.
        for _ in 0..4 {
            hit(get(&fleet, URL).await);
        }
        assert!(counters.fleet_hedges.get() > 0);
        assert_eq!(0, counters.fleet_timeouts.get());
    });
}

#[test]
fn the_queue_of_writes_is_bounded() {
    let _ours = clock_is_ours();
    run(async {
        let server = Faulty::start().await;
        let (fleet, counters) = fleet::fleet(FleetSettings {
            queue: 1 << 20,
            failures: 1_000_000,
            timeout: SHORT,
            ..settings(&server)
        });
        put_surely(&fleet, URL, &text("a")).await;
        server.does(Fault::Deaf);
        let stored = page(&[("Cache-Control", "max-age=60")], &[], StoredBody::Heap(vec![1; 100_000].into()));
        let puts: Vec<_> = (0..50).map(|it| fleet.put(format!("http://{it}/").as_bytes(), &stored)).collect();
        assert!(counters.fleet_puts_full.get() >= 39, "{}", counters.fleet_puts_full.get());
        let begin = Instant::now();
        let gets: Vec<_> = (0..6000)
            .map(|_| {
                let fleet = fleet.clone();
                tokio::task::spawn_local(async move { get(&fleet, URL).await })
            })
            .collect();
        for it in gets {
            assert!(matches!(it.await.unwrap(), FleetResult::Unavailable));
        }
        // One after the other they would wait ten minutes.
        assert!(begin.elapsed() < BUSY, "{:?}", begin.elapsed());
        assert!(counters.fleet_queue_full.get() > 0);
        for it in puts {
            assert_ne!(Settled::Stored, it.wait().await);
        }
    });
}

#[test]
fn a_stopped_server_of_three_does_not_delay_the_rest() {
    let _ours = clock_is_ours();
    let servers: Vec<_> = (0..3).map(|_| Memcached::start(On::Tcp, &[])).collect();
    run(async {
        let addresses: Vec<_> = servers.iter().map(Memcached::address).collect();
        let (filler, _) = fleet::fleet(FleetSettings { no_block: false, ..patient(addresses.clone()) });
        let urls: Vec<String> = (0..300).map(|it| format!("http://a/{it}")).collect();
        for url in &urls {
            assert_eq!(Settled::Stored, put(&filler, url, &text(url)).await);
        }
        let settings = FleetSettings { timeout: 5 * SHORT, no_block: false, ..patient(addresses) };
        let (fleet, counters) = fleet::fleet(settings);
        for url in &urls {
            get_surely(&fleet, url, url.as_bytes()).await;
        }
        servers[1].signal("STOP");
        // All at once: those of the other two are hits, those of the stopped one end by the deadline.
        let gets: Vec<_> = urls
            .iter()
            .map(|url| {
                let (fleet, url) = (fleet.clone(), url.clone());
                tokio::task::spawn_local(async move { get_in_time(&fleet, &url, url.as_bytes()).await })
            })
            .collect();
        let mut hits = 0;
        for it in gets {
            hits += usize::from(matches!(it.await.unwrap(), FleetResult::Hit { .. }));
        }
        assert!((150..290).contains(&hits), "{hits}");
        for url in &urls {
            get_in_time(&fleet, url, url.as_bytes()).await;
        }
        assert!(is_ejected(&fleet, 1) && counters.fleet_timeouts.get() > 0);
        // Its keys are the others' now.
        for url in &urls {
            if !matches!(get_in_time(&fleet, url, url.as_bytes()).await, FleetResult::Hit { .. }) {
                put_surely(&fleet, url, &text(url)).await;
                get_surely(&fleet, url, url.as_bytes()).await;
            }
        }
        assert_eq!(Removed::Perhaps, fleet.remove(urls[0].as_bytes()).await, "one of them cannot be asked");
        servers[1].signal("CONT");
        until_back(&fleet, 1).await;
        for url in &urls[1..] {
            get_surely(&fleet, url, url.as_bytes()).await;
        }
        assert_eq!(Removed::Everywhere, fleet.remove(urls[0].as_bytes()).await);
        assert!(!matches!(get_in_time(&fleet, &urls[0], b"").await, FleetResult::Hit { .. }));
    });
}

#[test]
fn a_killed_server_of_three_is_absorbed() {
    let _ours = clock_is_ours();
    let mut servers: Vec<_> = (0..3).map(|_| Memcached::start(On::Unix, &[])).collect();
    run(async {
        let addresses: Vec<_> = servers.iter().map(Memcached::address).collect();
        let settings = FleetSettings { no_block: false, ..patient(addresses) };
        let (fleet, counters) = fleet::fleet(settings);
        let urls: Vec<String> = (0..60).map(|it| format!("http://a/{it}")).collect();
        for url in &urls {
            assert_eq!(Settled::Stored, put(&fleet, url, &text(url)).await);
        }
        servers[0].kill();
        for url in urls.iter().chain(&urls) {
            get_in_time(&fleet, url, url.as_bytes()).await;
        }
        assert_eq!((true, 1), (is_ejected(&fleet, 0), counters.fleet_ejections.get()));
        for url in &urls {
            if !matches!(get_in_time(&fleet, url, url.as_bytes()).await, FleetResult::Hit { .. }) {
                assert_eq!(Settled::Stored, put(&fleet, url, &text(url)).await);
            }
            hit(get_in_time(&fleet, url, url.as_bytes()).await);
        }
        servers[0].restart();
        until_back(&fleet, 0).await;
        for url in &urls {
            get_in_time(&fleet, url, url.as_bytes()).await;
        }
        assert!(!is_ejected(&fleet, 0));
    });
}

/// A random number below `most`: the same in every run.
fn random(state: &mut u64, most: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state % most as u64) as usize
}

#[test]
fn any_mix_of_faults_leaves_bytes_intact_and_removed_items_removed() {
    const FAULTS: [Fault; 14] = [
        Fault::Drop,
        Fault::Refuse,
        Fault::Garbage,
        Fault::Foreign,
        Fault::WrongKey,
        Fault::WrongOpaque,
        Fault::Cut,
        Fault::Short,
        Fault::Huge,
        Fault::Twice,
        Fault::Swapped,
        Fault::Flipped,
        Fault::Full,
        Fault::Flapping,
    ];
    let _ours = clock_is_ours();
    run(async {
        let servers = [Faulty::start().await, Faulty::start().await, Faulty::start().await];
        let addresses: Vec<_> = servers.iter().map(|it| it.address.clone()).collect();
        let settings = FleetSettings { servers: addresses, max_item: 4096, ..settings(&servers[0]) };
        let nodes: Vec<_> = (0..3).map(|_| fleet::fleet(settings.clone())).collect();
        // What each key was removed up to, and the versions so far.
        let (mut removed, mut version) = ([0; 12], 0);
        let mut state = 0x1234_5678_9abc_def1;
        let mut hits = 0;
        for _ in 0..4000 {
            let key = random(&mut state, removed.len());
            let url = format!("http://a/{key}");
            let node = &nodes[random(&mut state, nodes.len())].0;
            match random(&mut state, 20) {
                0 => servers[random(&mut state, 3)].does(FAULTS[random(&mut state, FAULTS.len())]),
                1 | 2 => servers[random(&mut state, 3)].does(Fault::None),
                3 => clock::advance_monotonic(6_000),
                4 | 5 => {
                    if node.remove(url.as_bytes()).await == Removed::Everywhere {
                        removed[key] = version;
                    }
                }
                6..10 => {
                    version += 1;
                    let turn = get_as(node, &url, &[], Want::Recompute).await;
                    // Some lie in parts.
                    let padding = " ".repeat([0, 100, 9000][random(&mut state, 3)]);
                    put(node, &url, &text(&format!("{key} {version} {padding}"))).await;
                    drop(turn);
                }
                _ => {
                    let begin = Instant::now();
                    let got = get(node, &url).await;
                    assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
                    let FleetResult::Hit { found, .. } = got else { continue };
                    hits += 1;
                    let body = std::str::from_utf8(&found.body).unwrap();
                    let mut words = body.split(' ').map(|it| it.parse::<usize>().ok());
                    assert_eq!(Some(Some(key)), words.next(), "another key's bytes");
                    let written = words.next().flatten().unwrap();
                    assert!(written > removed[key] && written <= version, "{body} was removed");
                }
            }
        }
        assert!(hits > 300, "{hits}");
        let ejections: u64 = nodes.iter().map(|it| it.1.fleet_ejections.get()).sum();
        assert!(ejections > 3, "{ejections}");
    });
}
