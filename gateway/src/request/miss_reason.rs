//! The reason of a request to the origin: the facts for `semantics::miss_reason`, and the reason that log and statistics get.

use super::{Machine, RamCopy};
use crate::fill::FillPurpose;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::miss_reason::{self, MissFacts, MissReason};
use larder_semantics::{reuse, tiers};
use larder_stdx::clock;
use larder_store::Stored;

impl Machine<'_, '_> {
    /// Whether the copy of RAM has to be compared with the fleet's before its lifetime ends.
    fn is_fresh_and_due(&self, it: &Stored) -> bool {
        let now = clock::wall();
        let is_due = self.input.gateway.tiers.is_due(it, now);
        is_due && !it.meta.no_cache && tiers::usable_for(&it.meta, now) > 0
    }

    /// The reason for a fetch that this request starts, before its response is known.
    pub fn miss_reason(&self, purpose: FillPurpose) -> MissReason {
        if let Some(bypassed) = self.plan.bypassed {
            return bypassed;
        }
        let stored = self.found.stored.as_ref();
        let others = |it| reuse::is_for_others(it, self.input.facts, &self.input.route.policy);
        miss_reason::judge(&MissFacts {
            forward: self.plan.reason,
            stored: stored.map(|it| &it.meta),
            is_for_others: stored
                .map_or(self.found.has_variants_for_other_credentials(), |it| others(&it.meta)),
            is_doubted: self.found.ram_copy == RamCopy::Doubted
                || stored.is_some_and(|it| it.is_superseded() || self.is_fresh_and_due(it)),
            is_hit_for_miss: self.found.is_hit_for_miss(),
            is_head: self.input.facts.method == "HEAD",
            removed: if stored.is_none() {
                self.input.gateway.store.removal_cause(self.key.hash)
            } else {
                None
            },
            is_background: purpose == FillPurpose::Revalidation,
        })
    }

    /// The reason of this request: `None` where no origin was asked because of it, or for it by another request.
    pub fn final_reason(&self) -> Option<MissReason> {
        let is_answered = self.response.summary.origin.is_some();
        match self.response.summary.report {
            Some(CacheReport::Forwarded { collapsed: true, .. } | CacheReport::SharedFailure { .. }) => {
                Some(MissReason::Waited)
            }
            Some(CacheReport::Forwarded { .. }) if !is_answered => {
                self.starter.reason.get().map(miss_reason::without_response)
            }
            Some(CacheReport::Forwarded { .. }) => self.starter.reason.get(),
            // An upgrade, or a response of larder in place of the origin's.
            None if is_answered => self.starter.reason.get(),
            _ => None,
        }
    }
}
