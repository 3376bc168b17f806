//! Another full response of the origin makes the stored response to the same request unusable, in every tier and for
//! every node, whether it is stored itself or not. `semantics::supersede` decides which answers do so; `store` forgets in
//! each tier.

use super::{ArrivedHead, FillJob};
use crate::assemble::join;
use crate::route::Gateway;
use larder_semantics::field::Field;
use larder_semantics::partial::{self, Beside};
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::supersede::{self, RefusedEffect};
use larder_stdx::clock::{self, WallTime};
use larder_store::disk::DiskWrite;
use larder_store::fleet::{RecordReplacement, Removed, Unshared};
use larder_store::ram::{KeyHash, Lookup};
use larder_store::{PurgeRule, PurgeScope, Stored, StoredArc, Strength};

impl Gateway {
    /// Removes the stored response to a request from every tier, since the origin has sent another. In RAM that is the
    /// variant that the request selects. Below it is all variants, of which those in RAM are written down again. No
    /// response requested before is stored afterwards.
    ///
    /// Where a tier of this node had it, ends when it is gone everywhere, and would be after `kill -9`; otherwise other
    /// nodes hear of it within 0.1 s. `instead` is the new record in the fleet.
    pub(crate) async fn supersede(
        &self,
        policy: &Policy,
        hash: KeyHash,
        key: &[u8],
        request: &[Field<'_>],
        instead: RecordReplacement<'_>,
    ) {
        let (was_here, mut on_disk) = self.supersede_here(policy, hash, key, request);
        match self.fleet_of(policy) {
            Some(fleet) if was_here => {
                let removed = fleet.supersede(key, instead).await;
                // A request that arrived meanwhile may still have found it in the fleet and stored it here.
                on_disk = self.supersede_here(policy, hash, key, request).1.or(on_disk);
                if removed == Removed::Perhaps {
                    // A server that returns may still have it; at least this node does not take it.
                    let scope = PurgeScope::Url(key.into());
                    self.store.purge(PurgeRule { scope, strength: Strength::Hard, positions: Vec::new() });
                }
            }
            Some(fleet) => fleet.supersede_soon(key, instead),
            None => {}
        }
        if let Some(written) = on_disk {
            self.known_to_next_process(written).await;
        }
    }

    /// The same in the tiers of this node: whether one had it, and a handle for the completion of the disk's write.
    fn supersede_here(
        &self,
        policy: &Policy,
        hash: KeyHash,
        key: &[u8],
        request: &[Field<'_>],
    ) -> (bool, Option<DiskWrite>) {
        let in_ram = self.store.supersede(hash, key, request);
        let on_disk = self.disk_of(policy).and_then(|it| it.supersede(key));
        // A fill that started in between may have found it on the disk.
        let again = on_disk.is_some() && self.store.supersede(hash, key, request);
        (in_ram || again || on_disk.is_some(), on_disk)
    }
}

impl FillJob {
    /// A part joined with the response stored meanwhile, as RFC 9111 §3.4 allows; `None` where the stored one is better
    /// alone.
    pub(crate) fn with_stored(&self, new: Stored) -> Option<Stored> {
        if new.meta.partial().is_none() {
            return Some(new);
        }
        let looked = self.gateway.store.lookup(self.hash, &self.key, 0);
        let Lookup::Entry(entry) = looked else { return Some(new) };
        let Some(old) = entry.select(&self.request.fields.view(), &mut Vec::new()) else { return Some(new) };
        match partial::beside(&old.meta, &new.meta, clock::wall()) {
            Beside::Combines => {
                let tags = &self.route.policy.tags;
                Some(join(&self.gateway.store, old, &new, tags).unwrap_or(new))
            }
            Beside::Replaces => Some(new),
            Beside::Gives => None,
        }
    }

    /// The effect on stored responses of this fill's response, which may not be stored. Returns whether that ended its lease.
    pub(crate) async fn supersede(&self, arrived: &ArrivedHead, says: Unshared) -> bool {
        let request = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &request);
        let policy = &self.route.policy;
        let stored = self.stored.clone().or_else(|| self.in_ram());
        match supersede::of_refused(
            &facts,
            arrived.response.status,
            policy,
            stored.as_ref().map(|it| &it.meta),
        ) {
            RefusedEffect::None => return false,
            RefusedEffect::Unrelated => {
                drop(self.lease.take());
                return true;
            }
            RefusedEffect::Supersedes => {}
        }
        let meta = || self.meta_of(arrived);
        let mark = self.gateway.mark(policy, &self.key, meta, &arrived.epoch, says);
        let instead =
            mark.as_ref().map_or(RecordReplacement::Marker(arrived.request_time), RecordReplacement::Mark);
        self.gateway.supersede(policy, self.hash, &self.key, &request, instead).await;
        if self.gateway.tiers.fills_fleet()
            && let Some(lease) = self.lease.take()
        {
            lease.end();
        }
        true
    }

    /// Whether the answer to this request says nothing about a stored response.
    pub(crate) fn is_unrelated_to(&self, stored: &Stored) -> bool {
        let request = self.request.fields.view();
        let facts = RequestFacts::read(&self.request.method, &request);
        supersede::is_unrelated(&facts, &self.route.policy, Some(&stored.meta))
    }

    /// The response in RAM that this request selects by now.
    pub(super) fn in_ram(&self) -> Option<StoredArc> {
        match self.gateway.store.lookup(self.hash, &self.key, 0) {
            Lookup::Entry(entry) => entry.select(&self.request.fields.view(), &mut Vec::new()).cloned(),
            Lookup::HitForMiss | Lookup::Nothing => None,
        }
    }

    /// Whether RAM has another answer by now.
    pub(crate) fn is_replaced(&self) -> bool {
        self.in_ram().is_some()
    }

    /// Ends this node's lease, if any, at once: the origin's answer is not for other nodes.
    pub(crate) fn leave_turn(&self, arrived: &ArrivedHead, says: Unshared) {
        if let Some(lease) = self.lease.take() {
            let meta = || self.meta_of(arrived);
            self.gateway.mark_unshared(&self.route.policy, &self.key, meta, &arrived.epoch, says, lease);
        }
    }

    /// Another answer arrived during this fill: neither is kept in any tier.
    pub(crate) async fn overtaken(&self) {
        let request = self.request.fields.view();
        let now = RecordReplacement::Marker(clock::wall());
        self.gateway.supersede(&self.route.policy, self.hash, &self.key, &request, now).await;
    }

    /// RAM cannot hold this fill's response: the one that it replaces is removed, and fills continue.
    pub(crate) async fn outgrown(&self, asked: WallTime) {
        let (policy, request) = (&self.route.policy, self.request.fields.view());
        self.gateway.store.drop_selected(self.hash, &self.key, &request);
        let on_disk = self.gateway.disk_of(policy).and_then(|it| it.supersede(&self.key));
        if let Some(fleet) = self.gateway.fleet_of(policy) {
            fleet.supersede_soon(&self.key, RecordReplacement::Marker(asked));
        }
        if let Some(written) = on_disk {
            self.gateway.known_to_next_process(written).await;
        }
    }
}
