//! Moving responses between RAM and the lower tiers: writing them, removing them everywhere, promoting them to RAM. The steps
//! `Disk` and `Fleet` of a fill (`fill/disk.rs`, `fill/fleet.rs`) decide when a tier is asked, and how its response is used.

use crate::assemble::assemble;
use crate::cache_rules;
use crate::coding;
use crate::route::{self, Gateway, GatewayRoute, PurgeSending};
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::cookies::CookieLines;
use larder_semantics::field::FieldList;
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::storable::{self, Storable};
use larder_semantics::stored::{self, Meta};
use larder_semantics::tiers;
use larder_semantics::trace::Silent;
use larder_semantics::{tags, vary};
use larder_stdx::clock;
use larder_store::disk::DiskWrite;
use larder_store::fleet::{
    Fleet, FleetPut, FleetResponse, Mark, OversizePolicy, RecomputeLease, RecordReplacement, Removed,
    Unshared,
};
use larder_store::ram::KeyHash;
use larder_store::{
    DiskTier, FleetCopy, Position, Positions, PurgeEpoch, PurgeFacts, PurgeRule, PurgeScope, Stored,
    StoredArc, StoredBody, Strength,
};
use larder_wire::envelope::Envelope;
use larder_wire::message::Request;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Seconds for which waiting requests see the mark of an answer that may not be shared, where it says nothing about the
/// next answer: long enough that each looks again. A server counts in whole seconds.
const ANSWER_MARKED: u32 = 2;

/// How long the answer to an unsafe method waits for the disk, and for other nodes' logs, to record its removals.
const DISK_PATIENCE: Duration = Duration::from_secs(1);

/// Writes to the tiers below.
pub(crate) struct TierWrites {
    /// The write to the fleet.
    pub put: Option<FleetPut>,
    /// The removal of older records from the disk.
    pub displaced: Option<DiskWrite>,
}

impl Gateway {
    /// Whether a route has any tier below RAM.
    pub(crate) fn reaches_below(&self, route: &GatewayRoute) -> bool {
        self.disk_of(&route.policy).is_some() || self.fleet_of(&route.policy).is_some()
    }

    /// The disk, where there is one and the route uses it.
    pub(crate) fn disk_of(&self, policy: &Policy) -> Option<&Arc<DiskTier>> {
        self.tiers.disk.as_ref().filter(|_| policy.tiers.disk)
    }

    /// The fleet, where there is one and the route uses it.
    pub(crate) fn fleet_of(&self, policy: &Policy) -> Option<&Rc<Fleet>> {
        self.tiers.fleet.as_ref().filter(|_| policy.tiers.fleet)
    }

    /// Queues a response for the tiers below, unless its key was `removed`; it is stored in RAM, or was refused there
    /// only for want of room. `lease` is the lease under which it was made. A response that is not written still replaces
    /// the older record, unless it `freshens` that.
    pub(crate) fn write_down(
        &self,
        policy: &Policy,
        key: &[u8],
        stored: &StoredArc,
        lease: Option<RecomputeLease>,
        freshens: bool,
        removed: impl Fn() -> bool,
    ) -> TierWrites {
        if self.fleet_of(policy).is_some() {
            // Until the write is done; and others may write there.
            self.note_local_only(stored);
        }
        let goes_down = tiers::goes_down(&stored.meta, clock::wall());
        let disk = self.disk_of(policy).filter(|_| stored.meta.partial().is_none());
        // Ahead of the queue: a process killed before the new record is written must not leave the old one.
        let displaced = disk.and_then(|it| it.displace(key, stored));
        if let Some(disk) = disk.filter(|_| goes_down) {
            disk.write_unless(key, stored, removed);
        }
        let fleet = self.fleet_of(policy).filter(|_| self.tiers.fills_fleet());
        let put = match fleet {
            Some(fleet) if goes_down => Some(fleet.put_under_lease(key, stored, lease)),
            Some(fleet) if !freshens && stored.meta.partial().is_none() => {
                fleet.supersede_soon(key, RecordReplacement::Marker(stored.meta.request_time));
                None
            }
            _ => None,
        };
        TierWrites { put, displaced }
    }

    /// Whether a response of this node is in the fleet too, as far as larder decides that: if it is missing then, it was
    /// removed.
    pub(crate) fn is_shared(&self, stored: &Stored) -> bool {
        let Some(fleet) = self.tiers.fleet.as_ref().filter(|_| self.tiers.fills_fleet()) else {
            return false;
        };
        // A response that RAM cannot hold is not written to the fleet.
        let length = stored.body.len();
        self.store.could_hold(length)
            && (fleet.settings().large == OversizePolicy::Split || length < fleet.settings().max_item)
    }

    /// Whether the held response is missing in the fleet only because it was never written there.
    pub(crate) fn is_local_only(&self, held: &Stored, tier: AnsweringTier) -> bool {
        match tier {
            AnsweringTier::Ram => held.is_shared() == FleetCopy::No,
            AnsweringTier::Disk => !self.is_shared(held),
            AnsweringTier::Fleet => false,
        }
    }

    /// Removes a key from every tier. It ends once that is done and survives `kill -9`: by the fleet's deadline and
    /// [`DISK_PATIENCE`] at the latest. Returns whether any tier of this node had it.
    pub(crate) async fn remove(&self, policy: &Policy, hash: KeyHash, key: &[u8]) -> bool {
        let (mut was_there, mut on_disk) = self.remove_here(policy, hash, key);
        if let Some(fleet) = self.fleet_of(policy) {
            let removed = fleet.remove(key).await;
            // A request that arrived meanwhile may still have found it in the fleet and stored it here.
            let (again, written) = self.remove_here(policy, hash, key);
            was_there |= again;
            on_disk = written;
            if removed == Removed::Perhaps {
                // A server that returns may still have it; at least this node does not take it.
                let scope = PurgeScope::Url(key.into());
                self.store.purge(PurgeRule { scope, strength: Strength::Hard, positions: Vec::new() });
            }
        }
        if let Some(written) = on_disk {
            self.known_to_next_process(written).await;
        }
        was_there
    }

    /// Removes a key from the tiers of this node, and returns a handle for the completion of the disk's write.
    fn remove_here(&self, policy: &Policy, hash: KeyHash, key: &[u8]) -> (bool, Option<DiskWrite>) {
        let disk = self.disk_of(policy);
        let (in_ram, below) =
            self.store.remove_with(hash, key, || disk.map(|it| (it.knows(key), it.remove(key))));
        let Some((on_disk, written)) = below else { return (in_ram, None) };
        (in_ram || on_disk, Some(written))
    }

    /// Waits until a removal will be known to the next process, at most for the time that a healthy device needs.
    pub(crate) async fn known_to_next_process(&self, written: DiskWrite) {
        if !matches!(tokio::time::timeout(DISK_PATIENCE, written).await, Ok(Ok(()))) {
            self.counters.disk_removals_late.add(1);
        }
    }

    /// Waits until purges have been sent where other nodes read them, at most for the time that takes normally.
    pub(crate) async fn wait_for_purges(&self, sending: Vec<PurgeSending>) {
        let all = async {
            for it in sending {
                it.await;
            }
        };
        if tokio::time::timeout(DISK_PATIENCE, all).await.is_err() {
            self.counters.group_purges_late.add(1);
        }
    }

    /// A response that the fleet has, too, is valid for its local lifetime from now on.
    pub(crate) fn note_shared(&self, stored: &Stored) {
        self.note_due(stored, FleetCopy::Yes);
    }

    /// The same for a response that the fleet lacks.
    pub(crate) fn note_local_only(&self, stored: &Stored) {
        self.note_due(stored, FleetCopy::No);
    }

    fn note_due(&self, stored: &Stored, shared: FleetCopy) {
        let Some(fleet) = &self.tiers.fleet else { return };
        stored.is_due_at(clock::wall().0.saturating_add(fleet.settings().local_ttl.as_secs()), shared);
    }

    /// For how many seconds no request waits for an answer that was not stored. Where applications write to the fleet,
    /// they may have written it when a copy would be validated.
    pub(crate) fn remembers_misses(&self, policy: &Policy) -> u64 {
        let most = u64::from(policy.hit_for_miss);
        match self.fleet_of(policy) {
            Some(fleet) if !self.tiers.fills_fleet() => most.min(fleet.settings().local_ttl.as_secs()),
            _ => most,
        }
    }

    /// For these seconds no request waits for another's answer under this key, by a response that had this `epoch`.
    pub(crate) fn remember_miss(&self, hash: KeyHash, epoch: &PurgeEpoch, seconds: u64) {
        self.store.remember_miss(hash, epoch.seq, route::misses_clock() + seconds * 1000);
    }

    /// Tells the other nodes, which wait for this node's fetch, that they will not get it: `says` what may not be shared.
    /// Where applications fill the fleet, larder must not write in their way.
    pub(crate) fn mark_unshared(
        &self,
        policy: &Policy,
        key: &[u8],
        about: impl FnOnce() -> Meta,
        epoch: &PurgeEpoch,
        says: Unshared,
        lease: RecomputeLease,
    ) {
        if let Some(mark) = self.mark(policy, key, about, epoch, says) {
            lease.end_with_mark(&mark);
        }
    }

    /// The mark for other nodes of an answer that is not for them; `None` where larder does not fill the fleet.
    pub(crate) fn mark(
        &self,
        policy: &Policy,
        key: &[u8],
        about: impl FnOnce() -> Meta,
        epoch: &PurgeEpoch,
        says: Unshared,
    ) -> Option<Mark> {
        let seconds = match says {
            Unshared::Page => u32::try_from(self.remembers_misses(policy)).unwrap_or(u32::MAX),
            Unshared::Answer | Unshared::Removed => ANSWER_MARKED,
        };
        let fleet = self.fleet_of(policy).filter(|_| self.tiers.fills_fleet())?;
        let known = epoch.log.as_slice().iter().map(|it| (it.log, it.entry)).collect();
        Some(Mark::new(&fleet.keys().full(key), &about(), known, says, seconds))
    }

    /// Whether a purge that this node knows applies to a fleet record.
    pub(crate) fn has_purged(
        &self,
        policy: &Policy,
        request: &Request,
        it: &Envelope,
        by_application: bool,
    ) -> bool {
        let permitted = match by_application {
            true => permitted(&it.meta, &it.fields, policy, request),
            false => None,
        };
        let fields = permitted.as_ref().unwrap_or(&it.fields);
        let purge_facts = purge_facts_of(it, fields, policy, by_application);
        self.store.has_purged(&it.key, &it.meta, fields, &purge_facts, it.body.length)
    }

    /// A response of the disk as it is to be served, and whether RAM takes it: a small one at once, a large one after
    /// some uses.
    pub(crate) async fn take_up(
        &self,
        disk: &DiskTier,
        policy: &Policy,
        hash: KeyHash,
        mut stored: Stored,
    ) -> (Stored, PromoteToRam) {
        let StoredBody::Disk(slice) = &stored.body else { return (stored, PromoteToRam::IntoRam) };
        if !policy.tiers.ram || self.uses.borrow_mut().count(hash) < disk.promote_after() {
            return (stored, PromoteToRam::NotYet);
        }
        match disk.copy_in(&self.store, slice).await {
            Some(body) => {
                self.counters.disk_promotions.add(1);
                stored.body = body;
                (stored, PromoteToRam::IntoRam)
            }
            None => (stored, PromoteToRam::NotYet),
        }
    }

    /// Whether the next use of a large response on disk takes it into RAM.
    pub(crate) fn is_for_ram(&self, disk: &DiskTier, hash: KeyHash) -> bool {
        self.uses.borrow().so_far(hash).saturating_add(1) >= disk.promote_after()
    }

    /// Counts a use of a large response on disk.
    pub(crate) fn note_use(&self, hash: KeyHash) {
        self.uses.borrow_mut().count(hash);
    }

    /// The fleet's response as a stored response; `None` where it may not be one.
    pub(crate) fn of_fleet(
        &self,
        policy: &Policy,
        request: &Request,
        found: FleetResponse,
    ) -> Option<Stored> {
        let FleetResponse { envelope: it, body, by_application } = found;
        let mut fields = it.fields.clone();
        if by_application {
            fields = permitted(&it.meta, &fields, policy, request)?;
        }
        // Without room in RAM it is served nevertheless.
        let body = self
            .store
            .make_body(std::slice::from_ref(&body))
            .unwrap_or_else(|_| StoredBody::on_the_heap(&[body]));
        let purge_facts = purge_facts_of(&it, &fields, policy, by_application);
        let stored = assemble(it.meta, fields, it.trailers, body, it.variant, purge_facts, &policy.tags);
        Some(coding::ready(stored, policy))
    }
}

/// A response from the disk as clients see it: without hidden fields, and prepared for encodings.
pub(crate) fn for_clients(mut stored: Stored, policy: &Policy) -> Stored {
    let hidden = |name: &str| tags::is_hidden(name, &policy.tags);
    if stored.lines().any(|it| hidden(it.name)) {
        let fields = stored.fields();
        let head = coding::head_of(stored.meta.status, &fields, stored.body.len(), hidden);
        stored.set_head(head, fields);
    }
    coding::ready(stored, policy)
}

/// Whether RAM takes a response found below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromoteToRam {
    IntoRam,
    NotYet,
}

/// The facts that purges compare, for a record.
fn purge_facts_of(it: &Envelope, fields: &FieldList, policy: &Policy, by_application: bool) -> PurgeFacts {
    let known: Vec<Position> = it.known.iter().map(|&(log, entry)| Position { log, entry }).collect();
    // An application need not repeat its tags outside the fields.
    let tags = match by_application {
        true => tags::merged(&it.tags, &tags::of(&fields.view(), &policy.tags, &it.key)),
        false => it.tags.clone(),
    };
    PurgeFacts { tags, epoch: PurgeEpoch { seq: 0, log: Positions::new(&known) } }
}

/// The fields of an application's page that are kept, if it may be stored at all: the rules for origins apply.
fn permitted(
    meta: &stored::Meta,
    fields: &FieldList,
    policy: &Policy,
    request: &Request,
) -> Option<FieldList> {
    let asked = request.fields.view();
    // The application wrote it for all clients: it is not an answer to this request's credentials.
    let mut facts = RequestFacts::read("GET", &asked);
    facts.cookies = CookieLines::Absent;
    let view = fields.view();
    let policy = cache_rules::of_response(policy, request, meta.status, &view);
    let (sent, came) = (meta.request_time, meta.response_time);
    match storable::decide(&facts, meta.status, &view, policy, sent, came, &mut Silent) {
        Storable::Store => Some(stored::stored_fields(&view, policy, came)),
        Storable::Refuse(_) => None,
    }
}

/// Whether the fleet's response equals the held one, byte for byte.
pub(crate) fn is_same(found: &FleetResponse, held: &Stored) -> bool {
    let same_body = match &held.body {
        StoredBody::Heap(bytes) => bytes[..] == found.body[..],
        StoredBody::Arena(slice) | StoredBody::Disk(slice) => {
            match slice.owner.mapped(slice.offset, slice.length) {
                Some(bytes) => *bytes == found.body[..],
                // Comparing would need a read; the same length and entity tag count as equal.
                None => slice.length == found.body.len() as u64 && held.meta.etag.is_some(),
            }
        }
    };
    same_body && found.envelope.fields.iter().eq(held.lines())
}

/// Whether a stored response is of the variant that a request selects.
pub(crate) fn fits(stored: &Stored, request: &[larder_semantics::field::Field<'_>]) -> bool {
    let mut variant = Vec::new();
    vary::write_key(stored.meta.vary(), request, &mut variant);
    *variant == *stored.variant()
}
