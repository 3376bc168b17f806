//! The lines of the error log about limits of routes: one a minute for each limit, with the number of requests.

use larder_observe::log::{Level, SubsystemLog};
use larder_stdx::clock;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Milliseconds between two lines about one limit.
const PAUSE: u64 = 60_000;

/// The log of one limit, shared by all workers.
pub(super) struct LimitLog {
    /// The name of the event.
    event: &'static str,
    /// The site or route.
    scope: String,
    /// The limit, in words.
    limit: String,
    /// The time of the next line.
    next: AtomicU64,
    /// Requests since the last line.
    times: AtomicU64,
}

impl LimitLog {
    pub fn new(event: &'static str, scope: &str, limit: String) -> Self {
        let scope = scope.trim().to_owned();
        Self { event, scope, limit, next: AtomicU64::new(0), times: AtomicU64::new(0) }
    }

    /// One more request was refused.
    pub fn note(&self, errors: &OnceLock<SubsystemLog>) {
        self.times.fetch_add(1, Relaxed);
        let (now, next) = (clock::monotonic().0, self.next.load(Relaxed));
        if now < next || self.next.compare_exchange(next, now + PAUSE, Relaxed, Relaxed).is_err() {
            return;
        }
        let times = self.times.swap(0, Relaxed).to_string();
        if let Some(errors) = errors.get() {
            let values = [("route", self.scope.as_str()), ("limit", &self.limit), ("times", &times)];
            errors.event(Level::Warn, self.event, &values);
        }
    }
}
