//! A background revalidation: the fill behind a stale response that is being served (RFC 5861 section 3), and its pause after one that
//! did not replace that response.

use super::{FillJob, FillOutcome, FillRun};
use crate::route::Gateway;
use larder_semantics::vary;
use larder_stdx::clock;
use larder_store::ram::KeyHash;
use larder_store::{Begin, FillEnd, FillHead, StoredArc};
use std::rc::Rc;

impl Gateway {
    /// Starts the revalidation of a stale response, unless one has just ended without success.
    pub(crate) fn start_revalidation(self: &Rc<Self>, job: FillJob, flight: KeyHash) {
        let is_paused = || self.shared.revalidation_pauses.has(flight, clock::monotonic());
        if is_paused() {
            return;
        }
        // It has no reader: a response that is not stored is not read to its end.
        let Begin::Lead(mut writer, _) = self.store.begin(job.hash, flight, &job.key) else { return };
        // The revalidation of another worker may have ended since the first look; it was recorded before its fill ended.
        if is_paused() {
            writer.head(FillHead::StoreChanged, false);
            return writer.finish(FillEnd::Complete(None));
        }
        self.counters.background_validations.add(1);
        job.spawn(writer);
    }
}

impl FillJob {
    /// The identity of the revalidation of `stored`: the key, and the variant where there are some.
    pub(super) fn revalidation_of(&self, stored: &StoredArc) -> KeyHash {
        let mut key = self.key.clone();
        if !stored.meta.vary().is_empty() {
            vary::write_key(stored.meta.vary(), &self.request.fields.view(), &mut key);
        }
        self.gateway.store.hash(&key)
    }
}

impl FillRun {
    /// Records a revalidation that left the same stored response in RAM, so that the next hit does not start another at once. A response
    /// that replaced it is renewed by each hit if it is stale from the beginning (`max-age=0`).
    pub(super) fn note_revalidation(&self) {
        let job = &self.job;
        let left_stale = !matches!(
            self.outcome,
            FillOutcome::Found(..)
                | FillOutcome::Freshened(..)
                | FillOutcome::RepeatLookup
                | FillOutcome::OverBudget
        );
        if !job.is_background() || !left_stale {
            return;
        }
        let Some(before) = &job.stored else { return };
        if job.in_ram().is_some_and(|it| StoredArc::ptr_eq(&it, before)) {
            job.gateway.shared.revalidation_pauses.note(job.revalidation_of(before), clock::monotonic());
        }
    }
}
