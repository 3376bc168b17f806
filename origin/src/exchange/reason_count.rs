//! Counting the reason of a request for its route, exactly once: as soon as the response has been judged, at the latest when the
//! exchange ends. So the reasons of a route add up to its requests to origins.

use larder_counters::{MOST_REASONS, RouteScope};
use larder_semantics::miss_reason::{self, MissReason, REASONS};
use std::cell::Cell;
use std::sync::Arc;

const _: () = assert!(REASONS.len() <= MOST_REASONS);

/// The reason of one request that was sent to an origin or to a database.
pub struct ReasonTally {
    /// `None` where requests are not counted by route.
    route: Option<Arc<RouteScope>>,
    /// `None` for a request of larder's own.
    reason: Cell<Option<MissReason>>,
    /// The time to the head of the response, until it is counted.
    micros: Cell<u64>,
    is_counted: Cell<bool>,
    /// Whether the head of a response came.
    is_answered: Cell<bool>,
}

impl ReasonTally {
    /// Of one request of a route.
    #[must_use]
    pub fn new(route: Option<Arc<RouteScope>>, reason: Option<MissReason>) -> Self {
        let (micros, is_counted, is_answered) = (Cell::new(0), Cell::new(false), Cell::new(false));
        Self { route, reason: Cell::new(reason), micros, is_counted, is_answered }
    }

    /// Counts it, in place of the earlier reason as `instead` if given. Later calls have no effect.
    pub fn count(&self, instead: Option<MissReason>) {
        if self.is_counted.replace(true) {
            return;
        }
        if instead.is_some() {
            self.reason.set(instead);
        }
        if let (Some(route), Some(reason)) = (&self.route, self.reason.get()) {
            route.reasons.add(reason.index());
            route.reasons.took(reason.index(), self.micros.take());
        }
    }

    /// The head of the response came after these microseconds.
    pub fn add_time(&self, micros: u64) {
        self.is_answered.set(true);
        if !self.is_counted.get() {
            self.micros.set(self.micros.get().saturating_add(micros));
        } else if let (Some(route), Some(reason)) = (&self.route, self.reason.get()) {
            route.reasons.took(reason.index(), micros);
        }
    }
}

impl Drop for ReasonTally {
    fn drop(&mut self) {
        let is_answered = self.is_answered.get();
        self.count(self.reason.get().filter(|_| !is_answered).map(miss_reason::without_response));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(route: &RouteScope) -> Vec<(&'static str, u64, u64)> {
        let values = REASONS.iter().zip(route.reasons.values());
        values.filter(|(_, it)| *it != (0, 0)).map(|(row, it)| (row.name, it.0, it.1)).collect()
    }

    #[test]
    fn counted_once_with_the_last_reason() {
        let route = Arc::new(RouteScope::default());
        let tally = ReasonTally::new(Some(route.clone()), Some(MissReason::FirstRequest));
        tally.add_time(40);
        tally.count(Some(MissReason::SetCookie));
        tally.count(None);
        tally.add_time(2);
        drop(tally);
        assert_eq!([("set-cookie", 1, 42)], counted(&route)[..]);
        drop(ReasonTally::new(Some(route.clone()), Some(MissReason::Expired)));
        assert_eq!(
            [("expired", 1, 0), ("set-cookie", 1, 42)],
            counted(&route)[..],
            "it ended without an answer"
        );
        drop(ReasonTally::new(Some(route.clone()), Some(MissReason::FirstRequest)));
        assert_eq!(("no-response", 1, 0), counted(&route)[2], "{:?}", counted(&route));
        drop(ReasonTally::new(Some(route.clone()), None));
        drop(ReasonTally::new(None, Some(MissReason::Expired)));
        assert_eq!(3, counted(&route).len());
    }
}
