//! The fast path for the disk tier: a large fresh response in the page cache is sent from its segment at once. Responses
//! that need device reads, a place in RAM, validation or another form go to `run`. The same at the slow speed: `on_disk` in
//! `fill/disk.rs`.

use crate::coding;
use crate::fast_path::{self, FastHit};
use crate::route::{Gateway, GatewayRoute};
use crate::tier_transfer;
use larder_semantics::cache_status::AnsweringTier;
use larder_semantics::conditional::Precondition;
use larder_semantics::request::RequestFacts;
use larder_stdx::clock;
use larder_store::StoredBody;
use larder_store::ram::KeyHash;
use larder_transport::ResponseWriter;
use larder_wire::message::RequestHead;

impl Gateway {
    /// Answers from the disk tier where RAM has nothing, or returns `None` with nothing written.
    #[allow(clippy::too_many_arguments, reason = "its only caller has looked them up")]
    pub(crate) fn on_disk_now(
        &self,
        route: &GatewayRoute,
        head: &RequestHead<'_>,
        facts: &RequestFacts<'_>,
        key: &[u8],
        hash: KeyHash,
        began: Option<u64>,
        answer: &mut ResponseWriter<'_>,
    ) -> Option<FastHit> {
        let policy = &route.policy;
        let disk = self.disk_of(policy).filter(|it| it.knows(key))?;
        // The fleet may have a newer one; and a frequently used response belongs in RAM, if it fits.
        let is_for_ram = || self.is_for_ram(disk, hash) && self.store.could_hold(disk.size_of(key));
        if self.fleet_of(policy).is_some() || (policy.tiers.ram && is_for_ram()) {
            return None;
        }
        let stored = disk.read_now(key, head.fields)?;
        if policy.tiers.ram && !matches!(stored.body, StoredBody::Disk(_)) {
            return None;
        }
        let stored = tier_transfer::for_clients(self.store.admit(key, stored)?, policy);
        let now = clock::wall();
        let precondition = fast_path::ready(&stored, head, facts, policy, now)?;
        if fast_path::is_replaced(stored.meta.status, answer) {
            return None;
        }
        if stored.encodings.is_some() || coding::is_of_no_use(&stored, head.fields) {
            return None;
        }
        self.note_use(hash);
        self.counters.cache_hits.add(1);
        self.counters.cache_hits_disk.add(1);
        let not_modified = precondition == Precondition::NotModified;
        Some(fast_path::respond(
            &stored,
            AnsweringTier::Disk,
            None,
            head,
            not_modified,
            policy,
            now,
            began,
            answer,
        ))
    }
}
