//! What the tests of the fleet share.

#![allow(dead_code, reason = "not every test file needs all of it")]

pub mod faulty;
pub mod memcached;
pub mod pages;

use larder_counters::Counters;
use larder_store::Store;
use larder_store::fleet::{Address, Fleet, FleetKey, Health, Settings};
use std::rc::Rc;
use std::sync::Arc;

/// Runs a test as a worker runs.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test)
}

/// A store that holds what is on its way.
pub fn some_store() -> Arc<Store> {
    let settings = larder_store::Settings { budget: 64 << 20, heap_line: 16 * 1024, fills: 10 };
    Store::new(settings, Arc::default()).unwrap()
}

/// A worker's fleet, and what it counts.
pub fn fleet(settings: Settings) -> (Rc<Fleet>, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let health = Health::new(&settings, counters.clone(), None);
    (Fleet::new(Arc::new(settings), health, some_store(), counters.clone()), counters)
}

/// Settings with patience: a busy machine must not fail a test that is not about time.
#[must_use]
pub fn patient(servers: Vec<Address>) -> Settings {
    let time = std::time::Duration::from_secs(5);
    Settings { servers, timeout: time, connect_timeout: time, ..Settings::default() }
}

pub fn key(text: &str) -> FleetKey {
    FleetKey::new(text.as_bytes()).unwrap()
}
