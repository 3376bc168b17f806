//! Writing to the fleet, and removing. No request waits for a write; a removed response is not written afterwards.

use super::chunking;
use super::connection::{ServerReply, now};
use super::held_body::HeldBody;
use super::recompute_lease::{ABSENT, names_hash, new_generation, random};
use super::server::{ConnectionChoice, OperationFailure};
use super::supersede::{CLOCKS_APART, RecordReplacement};
use super::{FilledBy, Fleet, FleetPut, OversizePolicy, RecomputeLease, Removed, Settled};
use crate::ram::{FleetCopy, Stored, StoredArc, StoredBody};
use crate::stored_envelope;
use larder_semantics::vary;
use larder_stdx::clock;
use larder_wire::envelope::{BodyInfo, BodySplit, Envelope, Mark, Unshared, sum};
use larder_wire::memcached::{FleetKey, MAX_EXPIRE, MemcachedReply, MemcachedRequest, MemcachedValue};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// The most bytes that memcached needs for an item in addition to key and value: its header.
const ITEM_COST: u64 = 512;

/// A write may take a millisecond longer than other requests for each of these bytes: no request waits for it, and the
/// network may be slow. 16 MB/s.
const BYTES_A_MILLISECOND: u64 = 16 * 1024;

/// How often a write is tried again for what other nodes write meanwhile.
const MOST_CONFLICTS: u32 = 8;

/// One response that is being written.
struct OutgoingItem {
    key: Box<[u8]>,
    stored: StoredArc,
    /// Seconds for which it is to be kept.
    expire: u32,
    /// The number of removals when it started.
    removals: u64,
    base: (FleetKey, Overwrite),
    variant: Option<(FleetKey, Overwrite)>,
    generation: u32,
}

/// The content that a write may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overwrite {
    /// The item with this number on the server.
    This(u64),
    /// None: the key was absent when it was read.
    Nothing,
    /// Anything but a removal: the key was not read.
    AllButRemovals,
    /// Anything: the item is found only through another.
    All,
}

/// The result of writing one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PutResult {
    /// It is there.
    Written,
    /// Another node has written a newer one since, which stays.
    Superseded,
    /// It was removed since it was requested.
    Removed,
    /// It was not written: it was removed meanwhile, there is no room, or the server does not answer.
    NotWritten,
}

impl Fleet {
    /// Queues a response for writing: under its key as the newest, and under its variant's key. Kept for its lifetime and
    /// `stale_grace`, at most `expire`; for memcached's maximum of 30 days where that is zero. Once a server has it,
    /// `stored.recheck` is set.
    pub fn put(self: &Rc<Self>, key: &[u8], stored: &StoredArc) -> FleetPut {
        self.put_under_lease(key, stored, None)
    }

    /// [`Fleet::put`] for a response made under this node's lease. The lease ends when the response is written, or will
    /// not be.
    pub fn put_under_lease(
        self: &Rc<Self>,
        key: &[u8],
        stored: &StoredArc,
        lease: Option<RecomputeLease>,
    ) -> FleetPut {
        let Some(expire) = self.lifetime_seconds(stored) else {
            if stored.meta.partial().is_none() {
                self.supersede_soon(key, RecordReplacement::Marker(stored.meta.request_time));
            }
            return FleetPut::settled_as(Settled::NotStored);
        };
        let size = stored.body.len();
        let skips =
            self.settings.large == OversizePolicy::Skip && size > self.settings.max_item && !self.packs(size);
        if size > self.settings.queue || skips {
            self.counters.fleet_too_large.add(1);
            self.supersede_soon(key, RecordReplacement::Marker(stored.meta.request_time));
            return FleetPut::settled_as(Settled::NotStored);
        }
        // Waiting writes are in RAM, whose room they take meanwhile.
        let most = self.settings.queue.min(self.store.budget() / 8);
        if self.writing.get() > 0 && self.writing.get() + size > most {
            self.counters.fleet_puts_full.add(1);
            self.supersede_soon(key, RecordReplacement::Marker(stored.meta.request_time));
            return FleetPut::settled_as(Settled::NotStored);
        }
        self.writing.set(self.writing.get() + size);
        let outgoing = self.outgoing(key, stored, expire);
        let leaving = self.store.note_leaving(stored);
        let (settles, settled) = oneshot::channel();
        let fleet = self.clone();
        tokio::task::spawn_local(async move {
            let result = fleet.write(&outgoing).await;
            match result {
                Settled::Stored => fleet.counters.fleet_puts.add(1),
                _ => fleet.counters.fleet_puts_failed.add(1),
            }
            fleet.writing.set(fleet.writing.get() - size);
            drop((lease, leaving, outgoing));
            let _ = settles.send(result);
        });
        if self.settings.no_block {
            return FleetPut::settled_as(Settled::Unknown);
        }
        FleetPut { result: Err((settled, now() + self.settings.timeout)) }
    }

    /// The seconds for which a response is kept; `None` where it must not be written.
    fn lifetime_seconds(&self, stored: &Stored) -> Option<u32> {
        let meta = &stored.meta;
        let is_useful = meta.lifetime.seconds > 0 || meta.has_validator();
        // A part would replace the whole.
        if !self.settings.put || meta.partial().is_some() || !is_useful {
            return None;
        }
        if self.settings.expire.is_zero() {
            // Not for ever: memcached gives no lease for an item without an end.
            return Some(MAX_EXPIRE);
        }
        let remaining = meta.lifetime.seconds.saturating_sub(meta.age(clock::wall()));
        let most = self.settings.expire.as_secs().min(MAX_EXPIRE.into());
        let seconds = self.settings.stale_grace.as_secs().saturating_add(remaining.into()).min(most);
        // Zero would mean for ever.
        u32::try_from(seconds).ok().filter(|it| *it > 0)
    }

    fn packs(&self, size: u64) -> bool {
        self.settings.compress_above.is_some_and(|it| size > it)
    }

    /// The facts known now, before any wait.
    fn outgoing(&self, key: &[u8], stored: &StoredArc, expire: u32) -> OutgoingItem {
        let seen = self.seen.take(key);
        let with_turn = |key: FleetKey, otherwise: Overwrite| {
            let over = self.leases.replaces(&key).map_or(otherwise, Overwrite::This);
            (key, over)
        };
        let over = match seen.map(|it| it.cas) {
            Some(ABSENT) => Overwrite::Nothing,
            Some(cas) => Overwrite::This(cas),
            None => Overwrite::AllButRemovals,
        };
        let varies = !stored.meta.vary().is_empty();
        let names = names_hash(stored.meta.vary());
        let known = seen.filter(|it| it.generation != 0 && it.names == names).map(|it| it.generation);
        let generation = if varies { known.unwrap_or_else(new_generation) } else { 0 };
        OutgoingItem {
            key: key.into(),
            stored: stored.clone(),
            expire,
            removals: self.health.removals(key),
            base: with_turn(self.keys.key(key), over),
            variant: varies.then(|| {
                with_turn(self.variant(key, generation, stored.variant()), Overwrite::AllButRemovals)
            }),
            generation,
        }
    }

    async fn write(self: &Rc<Self>, outgoing: &OutgoingItem) -> Settled {
        let OutgoingItem { stored, base, variant, .. } = outgoing;
        let Some((value, body)) = self.make(outgoing).await else { return Settled::NotStored };
        // The variant first: the newest of its generation leads to all variants.
        let mut result = Settled::Stored;
        let (mut is_outdone, mut is_removed) = (false, false);
        for (key, over) in variant.iter().chain([base]) {
            let written = self.set(outgoing, key, &value, body.as_ref(), *over).await;
            match written {
                PutResult::Written => self.leases.forget_written(key),
                PutResult::Superseded => {
                    self.leases.forget_written(key);
                    is_outdone = true;
                }
                PutResult::Removed => {
                    self.leases.forget_written(key);
                    (is_outdone, is_removed) = (true, true);
                    // The newest record leads to the variants, of which this one is not there.
                    break;
                }
                PutResult::NotWritten => result = Settled::NotStored,
            }
        }
        if self.health.removals(&outgoing.key) != outgoing.removals {
            // Removed while it was being written: a removal from here on finds it, an earlier one may not have.
            let trace = self.removal_marker(&outgoing.key);
            for (key, _) in variant.iter().chain([base]) {
                if let Some(server) = self.route(key) {
                    let trace = trace.as_deref().filter(|_| *key == base.0);
                    let request = removal(key, &trace, self.removal_seconds());
                    self.servers[server].send(
                        &request,
                        ConnectionChoice::of(key),
                        now() + self.settings.timeout,
                    );
                }
            }
            return Settled::NotStored;
        }
        if result == Settled::Stored {
            if is_removed || is_outdone && variant.is_none() {
                result = Settled::NotStored;
            }
            let recheck = clock::wall().0.saturating_add(self.settings.local_ttl.as_secs());
            stored.is_due_at(recheck, FleetCopy::Yes);
        }
        result
    }

    /// The value, and the body after it unless that is in parts, which are written by then.
    async fn make(self: &Rc<Self>, outgoing: &OutgoingItem) -> Option<(Vec<u8>, Option<HeldBody>)> {
        let stored = &outgoing.stored;
        let mut body = match &stored.body {
            StoredBody::Heap(bytes) => HeldBody::Bytes(bytes.bytes()),
            StoredBody::Arena(slice) | StoredBody::Disk(slice) => HeldBody::of(slice, &self.store).await?,
        };
        let mut packed = None;
        if self.packs(stored.body.len()) {
            (body, packed) = chunking::pack(body).await;
            self.counters.fleet_compressed.add(u64::from(packed.is_some()));
        }
        let length = body.bytes().len() as u64;
        let sum = body.work(None, sum).await?;
        let full = self.keys.full(&outgoing.key);
        let mut info = BodyInfo { length, sum, parts: None, packed };
        let mut value = head(outgoing, &full, info);
        let most = self.settings.max_item.saturating_sub(ITEM_COST);
        if value.len() as u64 + length <= most {
            return Some((value, Some(body)));
        }
        let parts = u64::from_le_bytes(random()?);
        // A part is an item like others, with its own small head.
        let parts = BodySplit::of(parts, length, most.saturating_sub(64));
        let Some(parts) = parts.filter(|_| self.settings.large == OversizePolicy::Split) else {
            self.counters.fleet_too_large.add(1);
            return None;
        };
        for index in 0..parts.count {
            let part = chunking::part(&body, &parts, index);
            let key = self.keys.part(parts.generation, index);
            let is_there =
                self.set(outgoing, &key, &part.0, Some(&part.1), Overwrite::All).await == PutResult::Written;
            if !is_there || self.health.removals(&outgoing.key) != outgoing.removals {
                return None;
            }
        }
        info.parts = Some(parts);
        value = head(outgoing, &full, info);
        if value.len() as u64 > most {
            self.counters.fleet_too_large.add(1);
            return None;
        }
        self.counters.fleet_split.add(1);
        Some((value, None))
    }

    /// Writes one item: `head`, and after it the bytes of `body`, which are not copied.
    async fn set(
        self: &Rc<Self>,
        outgoing: &OutgoingItem,
        key: &FleetKey,
        head: &[u8],
        body: Option<&HeldBody>,
        over: Overwrite,
    ) -> PutResult {
        let mut over = over;
        for _ in 0..MOST_CONFLICTS {
            let Some(server) = self.route(key) else { return PutResult::NotWritten };
            let value = MemcachedValue { pieces: &[head], behind: body.map_or(0, |it| it.bytes().len()) };
            let millis = value.length() as u64 / BYTES_A_MILLISECOND;
            let deadline = now() + self.settings.timeout + Duration::from_millis(millis);
            let (flags, expire) = (outgoing.generation, outgoing.expire);
            let set = |cas| MemcachedRequest::Set { key, value, flags, expire, cas, stale_if_older: false };
            let request = match over {
                Overwrite::This(cas) => set(Some(cas)),
                Overwrite::All => set(None),
                Overwrite::Nothing | Overwrite::AllButRemovals => {
                    MemcachedRequest::Add { key, value, flags, expire }
                }
            };
            match self.servers[server]
                .store(&request, body, ConnectionChoice::of(key), deadline)
                .await
                .map(|it| it.reply)
            {
                Ok(MemcachedReply::Done) => return PutResult::Written,
                Ok(MemcachedReply::Exists | MemcachedReply::NotStored) => {}
                Ok(_) => {
                    // It has no room: its value under this key is older.
                    let gone = MemcachedRequest::Delete { key, stale: None, cas: None };
                    self.servers[server].send(
                        &gone,
                        ConnectionChoice::of(key),
                        now() + self.settings.timeout,
                    );
                    return PutResult::NotWritten;
                }
                Err(_) => return PutResult::NotWritten,
            }
            match (self.current_content(outgoing, key, over).await, over) {
                (CurrentContent::Removal, _) => return PutResult::Removed,
                (CurrentContent::Contested(cas), _) => {
                    if let Some(result) = self.remove_contested(outgoing, key, server, cas).await {
                        return result;
                    }
                }
                (CurrentContent::Older(cas), _) | (CurrentContent::Other(cas), Overwrite::AllButRemovals) => {
                    over = Overwrite::This(cas);
                }
                (CurrentContent::Other(_) | CurrentContent::Newer, _) => return PutResult::Superseded,
                (CurrentContent::Unknown, _) => return PutResult::NotWritten,
            }
        }
        PutResult::NotWritten
    }

    /// Replaces the item with this number by a removal mark. `None` where another node has replaced it by now.
    async fn remove_contested(
        self: &Rc<Self>,
        outgoing: &OutgoingItem,
        key: &FleetKey,
        server: usize,
        cas: u64,
    ) -> Option<PutResult> {
        let Some(mark) = self.removal_marker(&outgoing.key) else { return Some(PutResult::Removed) };
        let (pieces, expire) = ([&mark[..]], self.removal_seconds());
        let value = MemcachedValue::of(&pieces);
        let request =
            MemcachedRequest::Set { key, value, flags: 0, expire, cas: Some(cas), stale_if_older: false };
        self.counters.fleet_removes.add(1);
        let deadline = now() + self.settings.timeout;
        let replied = self.servers[server].exchange(&request, ConnectionChoice::of(key), deadline).await;
        match replied.map(|it| it.reply) {
            Ok(MemcachedReply::Exists) => None,
            Ok(MemcachedReply::Done | MemcachedReply::NotFound) => Some(PutResult::Removed),
            _ => {
                self.counters.fleet_removes_failed.add(1);
                Some(PutResult::NotWritten)
            }
        }
    }

    /// Whether it is unknown which of two responses with the same variant and with different entity tags the origin made
    /// later. Without leases nodes fetch a page at the same time as a rule: then the first one stays.
    fn is_contested(&self, other: &Envelope, ours: &Stored) -> bool {
        let (theirs, ours_tag) = (&other.meta.etag, &ours.meta.etag);
        self.grants_leases()
            && theirs.is_some()
            && ours_tag.is_some()
            && theirs != ours_tag
            && meets(other, ours)
            && !is_newer(other, ours)
            && !is_older(other, ours)
    }

    /// The content of a key to which a write failed.
    async fn current_content(
        self: &Rc<Self>,
        outgoing: &OutgoingItem,
        key: &FleetKey,
        over: Overwrite,
    ) -> CurrentContent {
        let deadline = now() + self.settings.timeout;
        let Some(sent) = self.send_read(key.clone(), deadline) else { return CurrentContent::Unknown };
        let Ok(Some(it)) = self.receive_read(sent, deadline).await else { return CurrentContent::Unknown };
        let ours = &outgoing.stored.meta;
        let standing = match Mark::read(&it.value) {
            Ok(Mark { says: Unshared::Removed, of }) => {
                let is_later = ours.request_time.0 > of.meta.response_time.0 + CLOCKS_APART;
                if is_later { CurrentContent::Other(it.hit.cas) } else { CurrentContent::Removal }
            }
            // The origin gave that answer after this one was requested, as far as clocks tell.
            Ok(mark) if mark.of.meta.response_time >= ours.request_time => CurrentContent::Removal,
            Ok(_) => CurrentContent::Other(it.hit.cas),
            Err(_) => match Envelope::read(&it.value) {
                Ok((other, _)) if is_newer(&other, &outgoing.stored) => CurrentContent::Newer,
                Ok((other, _)) if is_older(&other, &outgoing.stored) => CurrentContent::Older(it.hit.cas),
                Ok((other, _)) if self.is_contested(&other, &outgoing.stored) => {
                    CurrentContent::Contested(it.hit.cas)
                }
                _ => CurrentContent::Other(it.hit.cas),
            },
        };
        let is_left = match standing {
            CurrentContent::Removal | CurrentContent::Newer => true,
            CurrentContent::Older(_) | CurrentContent::Contested(_) => false,
            CurrentContent::Other(_) | CurrentContent::Unknown => over != Overwrite::AllButRemovals,
        };
        if is_left {
            // It stays, and so does its lease.
            self.pass_lease_on(key, &it);
        }
        standing
    }

    /// The marker that replaces a removed item for a while, so that no response requested before is written there. None
    /// where applications fill the fleet: larder writes nothing there, and an application may write to an absent key.
    fn removal_marker(&self, key: &[u8]) -> Option<Vec<u8>> {
        if self.settings.filled_by != FilledBy::Larder {
            return None;
        }
        let mut bytes = Vec::new();
        Mark::of_removal(&self.keys.full(key), clock::wall(), self.removal_seconds()).write(&mut bytes);
        Some(bytes)
    }

    /// Removes a key with all variants from every server that could have it. Ends within `timeout`.
    pub async fn remove(self: &Rc<Self>, key: &[u8]) -> Removed {
        self.remove_with_marker(key, self.removal_marker(key).as_deref()).await
    }

    /// [`Fleet::remove`], with the marker that replaces it.
    pub(super) async fn remove_with_marker(self: &Rc<Self>, key: &[u8], trace: Option<&[u8]>) -> Removed {
        self.counters.fleet_removes.add(1);
        // Before any request is sent: writes in progress here check it after they have arrived.
        self.health.removed(key);
        let _ = self.seen.take(key);
        let deadline = now() + self.settings.timeout;
        let base = self.keys.key(key);
        let stands = self.removal_seconds();
        let request = removal(&base, &trace, stands);
        let mut removed = Removed::Everywhere;
        let mut asked = Vec::new();
        for server in self.holders(&base) {
            let sent = self
                .is_live(server)
                .then(|| self.servers[server].request(&request, ConnectionChoice::of(&base), deadline).ok())
                .flatten();
            match sent {
                Some(sent) => asked.push((server, sent)),
                None => removed = Removed::Perhaps,
            }
        }
        for (server, sent) in asked {
            let is_gone = |answer: Result<ServerReply, OperationFailure>| {
                answer.is_ok_and(|it| matches!(it.reply, MemcachedReply::Done | MemcachedReply::NotFound))
            };
            if is_gone(self.servers[server].answer(sent, deadline).await) {
                continue;
            }
            // It may have no room for the marker.
            let request = removal(&base, &None, stands);
            if trace.is_none()
                || !is_gone(
                    self.servers[server].exchange(&request, ConnectionChoice::of(&base), deadline).await,
                )
            {
                removed = Removed::Perhaps;
            }
        }
        if removed == Removed::Perhaps {
            self.counters.fleet_removes_failed.add(1);
        }
        removed
    }

    /// The servers that may have a key. While servers are ejected, each node's keys are where that node places them: any
    /// server may have them, and may have kept them since.
    fn holders(&self, key: &FleetKey) -> Vec<usize> {
        if self.settings.auto_eject {
            (0..self.servers.len()).collect()
        } else {
            self.server_of(key).into_iter().collect()
        }
    }
}

/// The content where a write failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CurrentContent {
    Removal,
    /// Another answer for the same variant, requested after this one had arrived.
    Newer,
    /// An answer for the same variant that had arrived before this one was requested, with this number.
    Older(u64),
    /// Another answer for the same variant, with this number: neither is known to be the newer one.
    Contested(u64),
    /// Other content, with this number.
    Other(u64),
    /// None any more, or the server does not answer.
    Unknown,
}

/// Whether the same request may select a record that was requested after this response had arrived, by the clocks of the
/// nodes.
fn is_newer(other: &Envelope, ours: &Stored) -> bool {
    meets(other, ours) && other.meta.request_time > ours.meta.response_time
}

/// Whether the same request may select a record that had arrived before this response was requested: a node that wrote it
/// late must not undo this one.
fn is_older(other: &Envelope, ours: &Stored) -> bool {
    meets(other, ours) && other.meta.response_time < ours.meta.request_time
}

fn meets(other: &Envelope, ours: &Stored) -> bool {
    vary::may_meet((other.meta.vary(), &other.variant), (ours.meta.vary(), ours.variant()))
}

/// The request that removes a key, with the marker that replaces it.
fn removal<'a>(key: &'a FleetKey, trace: &'a Option<&'a [u8]>, stands: u32) -> MemcachedRequest<'a> {
    match trace {
        Some(trace) => MemcachedRequest::Set {
            key,
            value: MemcachedValue::of(std::slice::from_ref(trace)),
            flags: 0,
            expire: stands,
            cas: None,
            stale_if_older: false,
        },
        None => MemcachedRequest::Delete { key, stale: None, cas: None },
    }
}

/// The head of an item. Positions of this process mean nothing to other nodes.
fn head(outgoing: &OutgoingItem, key: &[u8], body: BodyInfo) -> Vec<u8> {
    let mut bytes = Vec::new();
    stored_envelope::write_with(key, &outgoing.stored, 0, body, &mut bytes);
    bytes
}

impl FleetPut {
    fn settled_as(settled: Settled) -> Self {
        FleetPut { result: Ok(settled) }
    }

    /// Waits for the result, for `timeout` at most; not at all with `no_block`.
    pub async fn wait(self) -> Settled {
        match self.result {
            Ok(settled) => settled,
            Err((settled, deadline)) => match timeout_at(deadline, settled).await {
                Ok(settled) => settled.unwrap_or(Settled::NotStored),
                Err(_) => Settled::Unknown,
            },
        }
    }
}

/// A write's result, or the channel and the deadline for it.
pub(super) type PendingPut = Result<Settled, (oneshot::Receiver<Settled>, Instant)>;
