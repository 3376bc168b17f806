//! The step `TierLookup`: a request that may not share a fetch looks in the tiers below RAM, by a fill that does nothing
//! more. This module also decides when any request looks there.

use super::machine::Step;
use super::{LowerTierState, MAX_LOOKUPS, Machine, RamCopy};
use crate::fill::TierLookup;
use crate::fill::{FetchKind, FillPurpose};
use crate::stages::RequestStage;
use crate::tier_transfer;
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
        self.found.lower_tiers == LowerTierState::NotAsked
            && !self.found.is_hit_for_miss()
            && self.input.gateway.reaches_below(self.input.route)
    }

    /// Whether RAM's response has reached the end of its local lifetime, so that the fleet is asked first.
    pub fn is_due(&self, decision: Reuse, now: WallTime) -> bool {
        matches!(decision, Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating)
            && self.found.tier == AnsweringTier::Ram
            && self.input.gateway.fleet_of(&self.input.route.policy).is_some()
            && self.found.stored.as_ref().is_some_and(|it| self.input.gateway.tiers.is_due(it, now))
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
        self.found.ram_copy = if due { RamCopy::Doubted } else { RamCopy::Trusted };
        match self.input.gateway.store.begin(self.key.hash, KeyHash(flight.0 ^ LOOKING), &self.key.bytes) {
            Begin::Lead(writer, reader) => {
                self.waiting.reader = Some(reader);
                self.job(FetchKind::Full, TierLookup::Only, FillPurpose::Response).spawn(writer);
            }
            Begin::Follow(reader) => {
                self.input.stages.enter(RequestStage::Wait);
                self.waiting.reader = Some(reader);
            }
            Begin::Full => {}
        }
        Step::TierLookup
    }

    /// `TierLookup`: waits for the result of the lookup.
    pub async fn look_in_tiers(&mut self) -> Step {
        self.found.lower_tiers = LowerTierState::Asked;
        self.waiting.lookups += 1;
        let Some(mut reader) = self.waiting.reader.take() else { return Step::Lookup };
        let collapse_wait = Duration::from_millis(u64::from(self.input.route.policy.collapse_wait_ms));
        let head = tokio::time::timeout(collapse_wait, reader.head()).await;
        self.input.stages.enter(RequestStage::Lookup);
        match head {
            Ok(FillHead::Found(stored, tier)) => self.consider_tier_hit(stored, tier),
            _ => Step::Lookup,
        }
    }

    /// Makes the machine consider a lower tier's response, if it is of this request's variant.
    pub fn consider_tier_hit(&mut self, stored: StoredArc, tier: AnsweringTier) -> Step {
        self.found.lower_tiers = LowerTierState::Asked;
        if tier_transfer::fits(&stored, self.input.fields) {
            self.found.ram_copy = RamCopy::Trusted;
            self.found.tier_hit = Some((stored, tier));
        } else {
            self.waiting.vary = stored.meta.vary().to_vec();
            if self.waiting.lookups < MAX_LOOKUPS {
                self.found.lower_tiers = LowerTierState::NotAsked; // For this variant no request has looked yet.
            }
        }
        Step::Lookup
    }

    /// A response that another's fill has found below and put into RAM may be served where the origin failed.
    pub fn take_stale(&mut self) {
        if self.found.stored.is_none()
            && let Lookup::Entry(entry) = self.input.gateway.store.lookup(self.key.hash, &self.key.bytes, 0)
        {
            self.found.stored = entry.select(self.input.fields, &mut Vec::new()).cloned();
        }
    }
}
