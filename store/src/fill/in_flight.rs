//! The fetches in flight, so that a request can join one and a removal can reach all of its key. `fill` has their
//! content.

use super::Fill;
use crate::key::KeyHash;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Stripes of the map: a power of two.
const STRIPES: usize = 64;

/// The identity of a fill: the hash of its primary key, and the number of its fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FillId {
    pub primary: KeyHash,
    pub fetch: FetchNumber,
}

/// The number of a key's fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FetchNumber {
    /// The one for this variant, which requests may join.
    Shared(KeyHash),
    /// One that cannot be joined.
    Private(u64),
    /// One that was shared and can no longer be joined: it started before a purge, takes long, or its response is stale
    /// already. It counts as shared.
    Displaced(u64),
}

type Stripe = Mutex<BTreeMap<FillId, Arc<Fill>>>;

/// The fills in flight. A key's fills are neighbours in one stripe.
pub(crate) struct InFlight {
    stripes: Box<[Stripe]>,
    shared: AtomicUsize,
    most: usize,
    serial: AtomicU64,
}

/// The result of [`InFlight::join_or`].
pub(crate) enum Joined {
    /// This one was there, and `join`, called under the lock, returned true.
    Existing(Arc<Fill>),
    /// This one was added.
    New(Arc<Fill>),
    /// Neither: too many fills, or another key has the same hash.
    Refused,
}

impl InFlight {
    /// No flights, and at most `most` shared ones.
    pub fn new(most: usize) -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            shared: AtomicUsize::new(0),
            most,
            serial: AtomicU64::new(0),
        }
    }

    /// Calls `join` on the present fill, or adds the one that `make` returns. Where `join` returns false, the present
    /// fill continues in addition to the new one, and can no longer be joined.
    pub fn join_or(
        &self,
        id: FillId,
        key: &[u8],
        join: impl FnOnce(&Fill) -> bool,
        make: impl FnOnce() -> Arc<Fill>,
    ) -> Joined {
        let mut stripe = self.stripe(id.primary).lock();
        if let Some(fill) = stripe.get(&id) {
            if *fill.key != *key {
                return Joined::Refused;
            }
            if join(fill) {
                return Joined::Existing(fill.clone());
            }
            self.displace_in(&mut stripe, id);
        }
        let one_more = |it| (it < self.most).then_some(it + 1);
        if self.shared.fetch_update(Relaxed, Relaxed, one_more).is_err() {
            return Joined::Refused;
        }
        let fill = make();
        stripe.insert(id, fill.clone());
        Joined::New(fill)
    }

    /// Calls `join` on the present fill, and returns it if that is true.
    pub fn join(&self, id: FillId, key: &[u8], join: impl FnOnce(&Fill) -> bool) -> Option<Arc<Fill>> {
        let stripe = self.stripe(id.primary).lock();
        stripe.get(&id).filter(|it| *it.key == *key && join(it)).cloned()
    }

    /// Adds a fill that cannot be joined, under an id of its own.
    pub fn add_private(&self, primary: KeyHash, make: impl FnOnce(FillId) -> Arc<Fill>) -> Arc<Fill> {
        let id = FillId { primary, fetch: FetchNumber::Private(self.serial.fetch_add(1, Relaxed)) };
        let fill = make(id);
        self.stripe(primary).lock().insert(id, fill.clone());
        fill
    }

    /// The fill can no longer be joined, but a removal of its key reaches it until it leaves. No effect where it has left
    /// already, or could not be joined.
    pub fn displace(&self, fill: &Arc<Fill>) {
        if !matches!(fill.id.fetch, FetchNumber::Shared(_)) {
            return;
        }
        let mut stripe = self.stripe(fill.id.primary).lock();
        if stripe.get(&fill.id).is_some_and(|it| Arc::ptr_eq(it, fill)) {
            self.displace_in(&mut stripe, fill.id);
        }
    }

    fn displace_in(&self, stripe: &mut BTreeMap<FillId, Arc<Fill>>, id: FillId) {
        let fetch_key = FetchNumber::Displaced(self.serial.fetch_add(1, Relaxed));
        if let Some(fill) = stripe.remove(&id) {
            stripe.insert(FillId { fetch: fetch_key, ..id }, fill);
        }
    }

    /// The fill can no longer be joined. No effect where it has left already.
    pub fn leave(&self, fill: &Arc<Fill>) {
        self.leave_if(fill, || true);
    }

    /// [`InFlight::leave`] if `may`, called while no request can join, returns true; returns its result.
    pub fn leave_if(&self, fill: &Arc<Fill>, may: impl FnOnce() -> bool) -> bool {
        let mut stripe = self.stripe(fill.id.primary).lock();
        let may = may();
        if may && let Some(id) = place_of(&stripe, fill) {
            stripe.remove(&id);
            self.count_down(id);
        }
        may
    }

    /// Removes every fill of a key and marks it: its response is not stored.
    pub fn detach(&self, primary: KeyHash, key: &[u8]) {
        let first = FillId { primary, fetch: FetchNumber::Shared(KeyHash(0)) };
        let last = FillId { primary, fetch: FetchNumber::Displaced(u64::MAX) };
        let mut stripe = self.stripe(primary).lock();
        let fills = stripe.range(first..=last).filter(|it| *it.1.key == *key);
        let ids: Vec<FillId> = fills.map(|it| *it.0).collect();
        for id in ids {
            if let Some(fill) = stripe.remove(&id) {
                fill.detach();
                self.count_down(id);
            }
        }
    }

    /// Fills in flight, shared or not.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.stripes.iter().map(|it| it.lock().len()).sum()
    }

    fn count_down(&self, id: FillId) {
        if matches!(id.fetch, FetchNumber::Shared(_) | FetchNumber::Displaced(_)) {
            self.shared.fetch_sub(1, Relaxed);
        }
    }

    fn stripe(&self, primary: KeyHash) -> &Stripe {
        &self.stripes[primary.place(STRIPES)]
    }
}

/// The id under which a fill is listed: its own, or another since it was displaced.
fn place_of(stripe: &BTreeMap<FillId, Arc<Fill>>, fill: &Arc<Fill>) -> Option<FillId> {
    if stripe.get(&fill.id).is_some_and(|it| Arc::ptr_eq(it, fill)) {
        return Some(fill.id);
    }
    let primary = fill.id.primary;
    let displaced = |n| FillId { primary, fetch: FetchNumber::Displaced(n) };
    stripe.range(displaced(0)..=displaced(u64::MAX)).find(|it| Arc::ptr_eq(it.1, fill)).map(|it| *it.0)
}
