//! What scenarios are made of: an origin that says exactly what it is told to, a client that sends exactly what
//! it is given, and a running larder. Nothing here sleeps; every wait is for an event and has a bound.

pub mod application;
pub mod client;
pub mod command;
pub mod memcached;
pub mod origin;
pub mod pages;
pub mod relay;
pub mod schema;
pub mod server;
pub mod tiers;

pub use client::{Client, Response};
pub use memcached::Memcached;
pub use origin::Origin;
pub use pages::Pages;
pub use server::Larder;

use std::time::{Duration, Instant};

/// The bound of every wait: far above what anything takes, so that only a failure meets it.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `done` holds, asking again whenever the scheduler lets us.
///
/// # Panics
/// After [`PATIENCE`], with `what` was waited for.
#[allow(clippy::disallowed_methods, reason = "a test's patience is measured in real time")]
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::yield_now();
    }
}
