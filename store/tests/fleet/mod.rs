//! Common parts of the tests of the fleet.

#![allow(dead_code, reason = "not every test file needs all of it")]

pub mod faulty;
pub mod memcached;
pub mod pages;

use larder_counters::Counters;
use larder_store::Store;
use larder_store::fleet::{Fleet, FleetAddress, FleetKey, FleetSettings, Health};
use std::rc::Rc;
use std::sync::Arc;

/// Runs a test as a worker runs.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test)
}

/// A store that holds what is on its way.
pub fn some_store() -> Arc<Store> {
    let settings = larder_store::RamSettings { budget: 64 << 20, heap_line: 16 * 1024, fills: 10 };
    Store::new(settings, Arc::default()).unwrap()
}

/// A worker's fleet, with its counters.
pub fn fleet(settings: FleetSettings) -> (Rc<Fleet>, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let health = Health::new(&settings, counters.clone(), None);
    (Fleet::new(Arc::new(settings), health, some_store(), counters.clone()), counters)
}

/// Settings with patience: a busy machine must not fail a test that is not about time.
#[must_use]
pub fn patient(servers: Vec<FleetAddress>) -> FleetSettings {
    let time = std::time::Duration::from_secs(60);
    FleetSettings { servers, timeout: time, connect_timeout: time, ..FleetSettings::default() }
}

pub fn key(text: &str) -> FleetKey {
    FleetKey::new(text.as_bytes()).unwrap()
}
