//! The step `Lookup`: RAM's response, or one that was found in a lower tier, and the decision of `semantics::reuse` about
//! it. The same at the fast speed: `answer_prepared` and `ready` in `fast_path.rs`.

use super::deliver::Delivery;
use super::error::OwnError;
use super::machine::Step;
use super::{Coalescing, Machine, RamCopy, RamMarker, RequestInput};
use crate::fill::FetchKind;
use crate::fill::TierLookup;
use crate::route;
use crate::{coding, fast_path};
use larder_semantics::cache_status::{AnsweringTier, CacheReport};
use larder_semantics::reuse::{self, ForwardReason, Reuse};
use larder_semantics::tiers::{self, Descent};
use larder_semantics::trace::Silent;
use larder_semantics::vary;
use larder_stdx::clock::{self, WallTime};
use larder_store::StoredArc;
use larder_store::ram::{Entry, KeyHash, Lookup};

impl Machine<'_, '_> {
    pub(super) fn lookup(&mut self) -> Step {
        let (selected, flight) = match self.found.tier_hit.take() {
            Some((stored, tier)) => {
                self.found.tier = tier;
                let flight = self.flight(stored.meta.vary());
                (Ok(stored), flight)
            }
            None => {
                self.found.tier = AnsweringTier::Ram;
                self.look_in_ram()
            }
        };
        self.found.stored = selected.as_ref().ok().cloned();
        let usable = match &selected {
            Ok(stored) => Ok(&stored.meta),
            Err(reason) => Err(*reason),
        };
        let now = clock::wall();
        let mut decision =
            reuse::decide(usable, self.input.facts, &self.input.route.policy, now, &mut Silent);
        if let Some(stored) =
            self.found.stored.as_ref().filter(|it| it.is_superseded() && decision.reason().is_none())
        {
            decision = tiers::doubted(&stored.meta, self.input.facts, &self.input.route.policy);
        }
        self.act(decision, now, flight)
    }

    /// Carries out the decision about a response in RAM or from a tier below. The tiers below are asked before the
    /// origin.
    fn act(&mut self, decision: Reuse, now: WallTime, flight: KeyHash) -> Step {
        let policy = &self.input.route.policy;
        let held = self.found.stored.as_ref().map(|it| &it.meta);
        let again = self.found.stored.as_ref().is_some_and(|it| self.input.gateway.tiers.is_due(it, now))
            && self.found.tier == AnsweringTier::Ram;
        let worth = match self.may_look_below() {
            true => tiers::descent(decision, held, again, self.input.facts, policy),
            false => Descent::InVain,
        };
        let due = self.may_look_below() && self.is_due(decision, now);
        self.input.gateway.counters.cache_rechecks.add(u64::from(due));
        let decision = match held {
            Some(meta) if due || self.found.ram_copy == RamCopy::Doubted => {
                tiers::doubted(meta, self.input.facts, policy)
            }
            _ => decision,
        };
        let needs_origin = matches!(decision, Reuse::Validate(_) | Reuse::Forward(_));
        let is_over = needs_origin && self.input.is_over_budget();
        let below = if due || worth == Descent::Worthwhile { TierLookup::First } else { TierLookup::Skip };
        match decision {
            _ if below == TierLookup::First && (is_over || self.looks_up_privately(decision)) => {
                self.begin_tier_lookup(flight, due)
            }
            Reuse::Serve | Reuse::ServeStale => self.serve_found(now),
            Reuse::ServeWhileRevalidating => {
                // One node renews a response of the fleet: by the fill that found it, or by another's.
                if self.found.tier != AnsweringTier::Fleet {
                    self.revalidate_in_background(flight);
                }
                self.serve_found(now)
            }
            Reuse::Validate(reason) | Reuse::Forward(reason) if is_over => {
                self.plan.reason = reason;
                self.follow_or_refuse(flight)
            }
            Reuse::Validate(reason) => self.join(reason, FetchKind::Validation, flight, below),
            Reuse::Forward(reason) => self.join(reason, FetchKind::Full, flight, below),
            Reuse::GatewayTimeout => self.fails(OwnError::OnlyIfCached),
        }
    }

    fn look_in_ram(&mut self) -> (Result<StoredArc, ForwardReason>, KeyHash) {
        let looked = self.input.gateway.store.lookup(self.key.hash, &self.key.bytes, route::misses_clock());
        let selected = match &looked {
            Lookup::Entry(entry) => {
                let selected = entry.select(self.input.fields, &mut Vec::new());
                match selected.is_some_and(|it| coding::is_of_no_use(it, self.input.fields)) {
                    true => self.found.ram_marker = RamMarker::Undecodable,
                    false if self.found.ram_marker == RamMarker::Undecodable => {
                        self.found.ram_marker = RamMarker::None
                    }
                    false => {}
                }
                let selected = self.input.select(entry);
                if selected.is_none() && vary::are_by_client(entry.vary()) {
                    self.found.ram_marker = RamMarker::OfOthers;
                }
                selected.ok_or(ForwardReason::VaryMiss)
            }
            Lookup::HitForMiss => {
                self.input.gateway.counters.hit_for_miss.add(1);
                self.plan.coalescing = Coalescing::Private;
                self.found.ram_marker = RamMarker::HitForMiss;
                Err(ForwardReason::UriMiss)
            }
            Lookup::Nothing => Err(ForwardReason::UriMiss),
        };
        let flight = match &looked {
            Lookup::Entry(entry) => self.flight(entry.vary()),
            Lookup::HitForMiss | Lookup::Nothing => self.flight(&self.waiting.vary),
        };
        (selected, flight)
    }

    pub fn serve_found(&mut self, now: clock::WallTime) -> Step {
        let Some(stored) = self.found.stored.clone() else { return self.fails(OwnError::Status(500)) };
        let ttl = fast_path::ttl(&stored.meta, now);
        let counters = &self.input.gateway.counters;
        counters.cache_hits.add(1);
        counters.cache_stale_hits.add(u64::from(ttl <= 0));
        self.input.gateway.store.note_hit(self.key.hash, &self.key.bytes);
        match self.found.tier {
            AnsweringTier::Ram => {}
            AnsweringTier::Disk => counters.cache_hits_disk.add(1),
            AnsweringTier::Fleet => counters.cache_hits_fleet.add(1),
        }
        self.response.answer =
            Some(Delivery::Stored { stored, report: CacheReport::Hit { ttl, tier: self.found.tier } });
        Step::Hit
    }

    /// Another fill may have stored and ended between lookup and start: then its response answers.
    pub fn stored_meanwhile(&mut self) -> Option<Step> {
        let Lookup::Entry(entry) = self.input.gateway.store.lookup(self.key.hash, &self.key.bytes, 0) else {
            return None;
        };
        let stored = self.input.select(&entry)?;
        let now = clock::wall();
        let reuse =
            reuse::decide(Ok(&stored.meta), self.input.facts, &self.input.route.policy, now, &mut Silent);
        if reuse != Reuse::Serve
            || self.found.ram_copy == RamCopy::Doubted
            || self.input.gateway.tiers.is_due(&stored, now)
        {
            return None;
        }
        self.found.stored = Some(stored);
        self.found.tier = AnsweringTier::Ram;
        Some(self.serve_found(now))
    }
}

impl RequestInput<'_, '_> {
    /// The variant that this request selects, if it can be brought into a form that the client accepts.
    fn select(&self, entry: &Entry) -> Option<StoredArc> {
        let stored = entry.select(self.fields, &mut Vec::new())?;
        (!coding::is_of_no_use(stored, self.fields)).then(|| stored.clone())
    }
}
