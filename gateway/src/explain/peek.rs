//! A read-only look into every tier for `explain`: the content of each, and the response that would answer a request.
//! Nothing is moved, and no lease is taken.

use super::{KeyContent, TierContent};
use crate::route::{Gateway, GatewayRoute};
use crate::tier_transfer;
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::field::Field;
use larder_semantics::partial;
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::reuse::{self, Reuse};
use larder_semantics::tiers::{self, Descent};
use larder_semantics::trace::Silent;
use larder_stdx::clock::{self, WallTime};
use larder_store::fleet::{FleetQuery, FleetResult, Want};
use larder_store::{DiskTier, Stored, StoredArc};
use larder_wire::envelope::Envelope;
use larder_wire::message::Request;

/// The findings in the tiers below RAM.
pub(crate) struct Peeked {
    /// Each tier of the route with its content.
    pub tiers: Vec<TierContent>,
    /// The response that would answer the request, or be validated.
    pub chosen: Option<(StoredArc, AnsweringTier)>,
    /// RAM's copy is to be validated: the fleet has lost it.
    pub doubted: bool,
}

impl Gateway {
    /// Looks in the tiers below for requests that RAM does not answer with `held`.
    pub(crate) async fn peek(
        &self,
        route: &GatewayRoute,
        request: &Request,
        key: &[u8],
        held: Option<&StoredArc>,
    ) -> Peeked {
        let policy = &route.policy;
        let (fields, now) = (request.fields.view(), clock::wall());
        let mut tiers = Vec::new();
        let mut chosen = held.map(|it| (it.clone(), AnsweringTier::Ram));
        let facts = RequestFacts::read(&request.method, &fields);
        let serves =
            |it: &Stored| reuse::decide(Ok(&it.meta), &facts, policy, now, &mut Silent).reason().is_none();
        // A whole wins over a part that cannot answer.
        let is_part = |it: &StoredArc| it.meta.partial().is_some() && !serves(it);
        if let Some(disk) = self.disk_of(policy) {
            let found = self.peek_on_disk(disk, key, &fields).await;
            let holds = if found.is_some() { KeyContent::Response } else { KeyContent::Nothing };
            tiers.push(TierContent { tier: AnsweringTier::Disk, holds });
            if chosen.as_ref().is_none_or(|it| is_part(&it.0)) {
                let outdates = |it: &StoredArc| {
                    chosen.as_ref().is_some_and(|part| partial::outdates(&part.0.meta, &it.meta))
                };
                let whole = found.filter(|it| !outdates(it));
                chosen = whole.map(|it| (it, AnsweringTier::Disk)).or(chosen);
            }
        }
        let (mut doubted, mut removed) = (false, None);
        if let Some(fleet) = self.fleet_of(policy) {
            let held = chosen.as_ref().map(|it| &*it.0);
            let (want, is_purged) = (Want::ReadOnly, &|_: &Envelope, _| false);
            let query = FleetQuery { key, request: &fields, policy, want, held, is_purged };
            let holds = match fleet.get(query).await {
                FleetResult::Unavailable => KeyContent::Unknown,
                FleetResult::Unshared { status, seconds, .. } => {
                    removed = Some(now);
                    KeyContent::Unshared { status, seconds }
                }
                FleetResult::Miss { removed: at, .. } => {
                    removed = at;
                    KeyContent::Nothing
                }
                FleetResult::Hit { found, .. } => {
                    let local = chosen.as_ref().map(|it| &*it.0);
                    let local_serves = local.is_some_and(&serves);
                    let is_same = || local.is_some_and(|it| tier_transfer::is_same(&found, it));
                    let meta = local.map(|it| &it.meta);
                    let compared = tiers::compare_found(&found.envelope.meta, meta, local_serves, is_same);
                    let found = self.of_fleet(policy, request, *found);
                    let is_kept = found.is_some();
                    match found.and_then(|it| self.store.admit_foreign(key, it)) {
                        None if is_kept => KeyContent::Purged,
                        None => KeyContent::Nothing,
                        Some(found) => {
                            if compared.takes_found(local_serves, || serves(&found)) {
                                chosen = Some((StoredArc::new(found), AnsweringTier::Fleet));
                            }
                            KeyContent::Response
                        }
                    }
                }
            };
            let went = |it: &Stored| removed.is_some_and(|at| at >= it.meta.response_time);
            doubted = matches!(holds, KeyContent::Nothing | KeyContent::Purged | KeyContent::Unshared { .. })
                && match &chosen {
                    Some((it, tier)) => {
                        let is_due = *tier != AnsweringTier::Ram || self.tiers.is_due(it, now);
                        is_due && (!self.is_local_only(it, *tier) || went(it) || it.is_superseded())
                    }
                    None => false,
                };
            tiers.push(TierContent { tier: AnsweringTier::Fleet, holds });
        }
        let chosen = chosen.filter(|it| tier_transfer::fits(&it.0, &fields));
        if !self.descends(held, &facts, policy, now) {
            return Peeked { tiers, chosen: held.map(|it| (it.clone(), AnsweringTier::Ram)), doubted: false };
        }
        Peeked { tiers, chosen, doubted }
    }

    async fn peek_on_disk(&self, disk: &DiskTier, key: &[u8], fields: &[Field<'_>]) -> Option<StoredArc> {
        if !disk.knows(key) {
            return None;
        }
        disk.read(key, fields).await.and_then(|it| self.store.admit(key, it)).map(StoredArc::new)
    }

    /// Whether this request asks the tiers below, given RAM's content.
    fn descends(
        &self,
        held: Option<&StoredArc>,
        facts: &RequestFacts<'_>,
        policy: &Policy,
        now: WallTime,
    ) -> bool {
        let usable = held.map(|it| &it.meta).ok_or(reuse::ForwardReason::UriMiss);
        let verdict = reuse::decide(usable, facts, policy, now, &mut Silent);
        let due = matches!(verdict, Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating)
            && self.fleet_of(policy).is_some()
            && held.is_some_and(|it| self.tiers.is_due(it, now));
        let again = held.is_some_and(|it| self.tiers.is_due(it, now));
        due || tiers::descent(verdict, usable.ok(), again, facts, policy) == Descent::Worthwhile
    }
}
