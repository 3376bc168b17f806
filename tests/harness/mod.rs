//! The parts of scenarios: an origin with exact answers, a client with exact requests, and a running larder. No sleeps;
//! every wait is for an event and has a bound.

pub mod acme_ca;
pub mod apache;
pub mod application;
pub mod client;
pub mod command;
pub mod comparison;
pub mod database_process;
pub mod foreign_server;
pub mod http2;
pub mod http2_origin;
pub mod http2_servers;
pub mod lighttpd;
pub mod mariadb;
pub mod memcached;
pub mod mmdb;
pub mod names;
pub mod nginx;
pub mod origin;
pub mod pages;
pub mod pebble;
pub mod pgbouncer;
pub mod php;
pub mod postgres;
pub mod quic;
pub mod relay;
pub mod scgi;
pub mod schema;
pub mod secure;
pub mod server;
pub mod sql_session;
pub mod step_ca;
pub mod tiers;
pub mod uwsgi;
pub mod variables;

pub use client::{Client, Response};
pub use memcached::Memcached;
pub use origin::Origin;
pub use pages::Pages;
pub use server::Larder;

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The bound of every wait: far above what anything takes, so that only a failure meets it.
pub const TIMEOUT: Duration = Duration::from_secs(240);

/// The second at which the clocks of every larder of this run stand, until a scenario moves them: now, as the first asks.
#[allow(clippy::disallowed_methods, reason = "real dates, so that an application's own clock agrees")]
pub fn begun() -> u64 {
    static BEGUN: OnceLock<u64> = OnceLock::new();
    *BEGUN.get_or_init(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

/// An address that refuses connections for as long as the socket lives: bound without listening, so that no other test gets it.
pub fn closed_address() -> (socket2::Socket, SocketAddr) {
    bound(|_| {})
}

/// The same, where a server that is started later may listen: it sets `SO_REUSEADDR`, as each does. No other socket gets the
/// port, since the kernel gives none that is bound.
pub fn reserved_address() -> (socket2::Socket, SocketAddr) {
    bound(|socket| {
        socket.set_reuse_address(true).unwrap();
        socket.set_reuse_port(true).unwrap();
    })
}

fn bound(prepare: impl FnOnce(&socket2::Socket)) -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    prepare(&socket);
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// Waits until `done` holds, asking again whenever the scheduler lets us.
///
/// # Panics
/// After [`TIMEOUT`], with `what` was waited for.
#[allow(clippy::disallowed_methods, reason = "a test's patience is measured in real time")]
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    // Each look may be a request: without a pause the looks take the processor from what they wait for.
    let mut pause = Duration::from_micros(100);
    while !done() {
        assert!(start.elapsed() < TIMEOUT, "not reached in time: {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
