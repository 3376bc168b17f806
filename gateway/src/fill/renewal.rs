//! A renewal in the background: the fill behind a stale response that is being served (RFC 5861 section 3). It requests what all visitors
//! share, whichever visitor's request started it.

use super::{FillJob, FillOutcome, FillRun};
use crate::route::Gateway;
use larder_semantics::cookies;
use larder_semantics::freshness::Freshness;
use larder_semantics::vary;
use larder_stdx::clock;
use larder_store::Begin;
use larder_store::StoredArc;
use larder_store::ram::KeyHash;
use std::rc::Rc;

impl Gateway {
    /// Starts the renewal of a stale response, unless one has just ended without success.
    pub(crate) fn validate_in_background(self: &Rc<Self>, mut job: FillJob, flight: KeyHash) {
        if self.refusals.renewals.has(flight, clock::monotonic()) {
            return;
        }
        // It has no reader: a response that is not stored is not read to its end.
        if let Begin::Lead(writer, _) = self.store.begin(job.hash, flight, &job.key) {
            self.counters.background_validations.add(1);
            job.leave_session_out();
            job.spawn(writer);
        }
    }
}

impl FillJob {
    /// Removes the cookies of a session (`cache.private_cookies`) from the renewal of a file that all visitors share: the response
    /// to them could not be stored.
    fn leave_session_out(&mut self) {
        let policy = &self.route.policy;
        if !cookies::is_private(&self.request.fields.view(), policy) {
            return;
        }
        let kept = cookies::only(&self.request.fields.view(), &policy.key.cookies);
        let fields = &mut Rc::make_mut(&mut self.request).fields;
        fields.remove("cookie");
        if let Some(kept) = kept {
            fields.push("Cookie", kept);
        }
    }

    /// The identity of the renewal of `stored`: the key, and the variant where there are some.
    pub(super) fn renewal_of(&self, stored: &StoredArc) -> KeyHash {
        let mut key = self.key.clone();
        if !stored.meta.vary().is_empty() {
            vary::write_key(stored.meta.vary(), &self.request.fields.view(), &mut key);
        }
        self.gateway.store.hash(&key)
    }
}

impl FillRun {
    /// Records a renewal after which the stored response is as stale as before, so that the next hit does not start another at once.
    pub(super) fn note_renewal(&self) {
        let job = &self.job;
        let has_asked = !matches!(
            self.outcome,
            FillOutcome::Found(..) | FillOutcome::LookAgain | FillOutcome::OverBudget
        );
        if !job.background || !has_asked {
            return;
        }
        let now = clock::wall();
        let is_stale = |it: &StoredArc| matches!(it.meta.freshness(now), Freshness::Stale { .. });
        if let Some(stored) = job.in_ram().filter(is_stale) {
            job.gateway.refusals.renewals.note(job.renewal_of(&stored), clock::monotonic());
        }
    }
}
