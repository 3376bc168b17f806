//! Why responses were not stored, lately: enough of each exchange to decide it again for `explain`; or why there was none.

use crate::failing::Failing;
use larder_semantics::field::FieldList;
use larder_stdx::clock::{self, WallTime};
use larder_store::ram::KeyHash;
use larder_wire::message::Request;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Most keys that are remembered; the oldest goes.
pub const CAPACITY: usize = 1024;
/// Fields over this many bytes are not remembered: memory stays below CAPACITY × this × 2.
const MAX_FIELDS_BYTES: usize = 4096;

/// One exchange whose response was not stored, or that brought none.
#[derive(Clone, Debug)]
pub struct RefusedStorage {
    /// The request's method.
    pub method: String,
    /// The request's fields.
    pub request: FieldList,
    /// Why no valid response came, if so; `status` is then what the client got, unless it got something stored.
    pub failure: Option<String>,
    /// The response's status.
    pub status: u16,
    /// The response's fields, as received.
    pub response: FieldList,
    /// When the request was sent.
    pub request_time: WallTime,
    /// When the response head had arrived.
    pub response_time: WallTime,
}

/// The last [`CAPACITY`] keys whose response was not stored.
#[derive(Default)]
pub struct Refusals {
    inner: Mutex<RefusalsInner>,
    /// Pages whose origin fails those who wait for them.
    pub failing: Failing,
}

#[derive(Default)]
struct RefusalsInner {
    /// `None` of those that were stored since: they keep their place in `order`.
    map: HashMap<u128, Option<Arc<RefusedStorage>>>,
    order: VecDeque<u128>,
}

impl Refusals {
    /// Remembers one, unless the same key was remembered within this second.
    pub fn note(&self, hash: KeyHash, now: WallTime, make: impl FnOnce() -> RefusedStorage) {
        self.keep(hash, now, false, make);
    }

    /// Remembers that `request` was answered with `status` because no valid response came; as [`Refusals::note`].
    pub fn note_failure(&self, hash: KeyHash, request: &Request, status: u16, why: &str) {
        let now = clock::wall();
        self.keep(hash, now, true, || RefusedStorage {
            method: request.method.clone(),
            request: request.fields.clone(),
            failure: Some(why.to_owned()),
            status,
            response: FieldList::new(),
            request_time: now,
            response_time: now,
        });
    }

    fn keep(&self, hash: KeyHash, now: WallTime, failed: bool, make: impl FnOnce() -> RefusedStorage) {
        let Ok(mut inner) = self.inner.lock() else { return };
        let is_known = |it: &Arc<RefusedStorage>| it.response_time == now && it.failure.is_some() == failed;
        if inner.map.get(&hash.0).is_some_and(|it| it.as_ref().is_some_and(is_known)) {
            return;
        }
        let refused = make();
        if refused.request.text().len() + refused.response.text().len() > 2 * MAX_FIELDS_BYTES {
            return;
        }
        if inner.map.insert(hash.0, Some(Arc::new(refused))).is_none() {
            inner.order.push_back(hash.0);
        }
        if inner.order.len() > CAPACITY
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.map.remove(&oldest);
        }
    }

    /// The last one of a key.
    #[must_use]
    pub fn get(&self, hash: KeyHash) -> Option<Arc<RefusedStorage>> {
        self.inner.lock().ok()?.map.get(&hash.0).cloned().flatten()
    }

    /// Forgets a key whose response was stored after all.
    pub fn forget(&self, hash: KeyHash) {
        if let Ok(mut inner) = self.inner.lock()
            && let Some(it) = inner.map.get_mut(&hash.0)
        {
            *it = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(second: u64) -> RefusedStorage {
        RefusedStorage {
            method: "GET".to_owned(),
            request: FieldList::new(),
            failure: None,
            status: 200,
            response: FieldList::new(),
            request_time: WallTime(second),
            response_time: WallTime(second),
        }
    }

    #[test]
    fn bounded_and_newest_wins() {
        let refusals = Refusals::default();
        for key in 0..CAPACITY as u128 + 5 {
            refusals.note(KeyHash(key), WallTime(1), || refused(1));
        }
        assert!(refusals.get(KeyHash(0)).is_none());
        assert!(refusals.get(KeyHash(5)).is_some());
        refusals.note(KeyHash(5), WallTime(2), || refused(2));
        assert_eq!(WallTime(2), refusals.get(KeyHash(5)).unwrap().response_time);
        refusals.note(KeyHash(5), WallTime(2), || unreachable!("once a second"));
    }

    #[test]
    fn one_that_is_refused_and_stored_in_turns_pushes_nobody_out() {
        let refusals = Refusals::default();
        refusals.note(KeyHash(1), WallTime(1), || refused(1));
        for second in 0..2 * CAPACITY as u64 {
            refusals.note(KeyHash(2), WallTime(second), || refused(second));
            refusals.forget(KeyHash(2));
        }
        assert!(refusals.get(KeyHash(1)).is_some() && refusals.get(KeyHash(2)).is_none());
    }
}
