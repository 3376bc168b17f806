//! The step `TierLookup`: a request that may not share a fetch looks in the tiers below RAM, by a fill that does nothing
//! more. This module also decides when any request looks there.

use super::machine::Step;
use super::{LowerTierState, MAX_LOOKUPS, Machine, RamCopy};
use crate::fill::tier_lookup::TierLookup;
use crate::fill::{FetchKind, FillPurpose};
use crate::lower_tiers;
use crate::stages::RequestStage;
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::reuse::Reuse;
use larder_stdx::clock::WallTime;
use larder_store::ram::{KeyHash, Lookup};
use larder_store::{Begin, FillHead, StoredArc};
use std::time::Duration;

/// Distinguishes the flight that only looks below from the one that asks the origin.
const LOOKING: u128 = 0x6c6f_6f6b;

impl Machine<'_, '_> {
    /// Whether the tiers below may still be asked for this request.
    pub fn may_look_below(&self) -> bool {
        self.tiers == LowerTierState::NotAsked
            && !self.is_hit_for_miss()
            && self.gateway.reaches_below(self.route)
    }

    /// Whether RAM's response has reached the end of its local lifetime, so that the fleet is asked first.
    pub fn is_due(&self, decision: Reuse, now: WallTime) -> bool {
        matches!(decision, Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating)
            && self.tier == AnsweringTier::Ram
            && self.gateway.fleet_of(&self.route.policy).is_some()
            && self.found.as_ref().is_some_and(|it| it.is_due(now.0))
    }

    /// Whether the tiers below are asked by a fill that does nothing more.
    pub fn looks_up_privately(&self, decision: Reuse) -> bool {
        let fetch = match decision {
            Reuse::Validate(_) => FetchKind::Validation,
            _ => FetchKind::Full,
        };
        decision == Reuse::GatewayTimeout || self.fetches_privately(fetch)
    }

    /// Starts looking below, or joins a running lookup.
    pub fn begin_tier_lookup(&mut self, flight: KeyHash, due: bool) -> Step {
        self.ram = if due { RamCopy::Doubted } else { RamCopy::Trusted };
        match self.gateway.store.begin(self.hash, KeyHash(flight.0 ^ LOOKING), &self.key) {
            Begin::Lead(writer, reader) => {
                self.reader = Some(reader);
                self.job(FetchKind::Full, TierLookup::Only, FillPurpose::Response).spawn(writer);
            }
            Begin::Follow(reader) => {
                self.stages.enter(RequestStage::Wait);
                self.reader = Some(reader);
            }
            Begin::Full => {}
        }
        Step::TierLookup
    }

    /// `TierLookup`: waits for the result of the lookup.
    pub async fn look_in_tiers(&mut self) -> Step {
        self.tiers = LowerTierState::Asked;
        self.lookups += 1;
        let Some(mut reader) = self.reader.take() else { return Step::Lookup };
        let collapse_wait = Duration::from_millis(u64::from(self.route.policy.collapse_wait_ms));
        let head = tokio::time::timeout(collapse_wait, reader.head()).await;
        self.stages.enter(RequestStage::Lookup);
        match head {
            Ok(FillHead::Found(stored, tier)) => self.consider_tier_hit(stored, tier),
            _ => Step::Lookup,
        }
    }

    /// Makes the machine consider a lower tier's response, if it is of this request's variant.
    pub fn consider_tier_hit(&mut self, stored: StoredArc, tier: AnsweringTier) -> Step {
        self.tiers = LowerTierState::Asked;
        if lower_tiers::fits(&stored, self.fields) {
            self.ram = RamCopy::Trusted;
            self.tier_hit = Some((stored, tier));
        } else {
            self.vary = stored.meta.vary().to_vec();
            if self.lookups < MAX_LOOKUPS {
                self.tiers = LowerTierState::NotAsked; // For this variant no request has looked yet.
            }
        }
        Step::Lookup
    }

    /// A response that another's fill has found below and put into RAM may be served where the origin failed.
    pub fn take_stale(&mut self) {
        if self.found.is_none()
            && let Lookup::Entry(entry) = self.gateway.store.lookup(self.hash, &self.key, 0)
        {
            self.found = entry.select(self.fields, &mut Vec::new()).cloned();
        }
    }
}
