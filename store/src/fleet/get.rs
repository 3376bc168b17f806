//! Reading from the fleet: the newest record of a key, the record of the requested variant, and its parts. Data is used
//! only if it is complete and of that key, since any program may have written it; unusable data counts as absent.

use super::connection::now;
use super::recompute_lease::{LeaseKey, LeasedItem, OtherNodesLease, RecomputeLease, VIVIFY, names_hash};
use super::server::{ConnectionChoice, FleetItem, OperationFailure, PendingOperation};
use super::supersede::CLOCKS_APART;
use super::{FilledBy, Fleet, FleetQuery, FleetResponse, FleetResult, LeaseState, Shortfall, Want, chunking};
use crate::ram::Stored;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_semantics::freshness::Freshness;
use larder_semantics::stored::Meta;
use larder_semantics::vary;
use larder_stdx::clock::{self, WallTime};
use larder_wire::envelope::{self, BodyInfo, Envelope, EnvelopeError, Mark, Unshared};
use larder_wire::memcached::{
    FleetKey, MAX_EXPIRE, MemcachedLease, MemcachedReply, MemcachedRequest, MemcachedValue, Ttl,
};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A read in progress.
pub(super) struct PendingRead {
    asked: PendingOperation,
    server: usize,
}

/// A record whose head has been read and belongs to the key.
struct FleetRecord {
    envelope: Envelope,
    item: FleetItem,
    /// The place of the body in the value.
    head: usize,
    by_application: bool,
    /// Its key in the fleet.
    key: FleetKey,
}

/// The result of reading one key of the fleet.
enum FleetRead {
    Record(Box<FleetRecord>),
    /// Another node has found that there is nothing to share.
    Marked(Box<Mark>, FleetItem),
    /// It was removed a moment ago.
    Removed(FleetItem, LeaseState),
    /// Nothing usable.
    Nothing(LeaseState),
    /// Nothing at all.
    Absent,
}

impl Fleet {
    /// Looks up a response. Ends within `timeout` in every case.
    pub async fn get(self: &Rc<Self>, query: FleetQuery<'_>) -> FleetResult {
        self.counters.fleet_gets.add(1);
        let got = match self.find(&query, now() + self.settings.timeout).await {
            Ok(got) => got,
            Err(Shortfall::Unavailable) => FleetResult::Unavailable,
            Err(Shortfall::Corrupt) => {
                self.counters.fleet_corrupt.add(1);
                FleetResult::Miss { lease: LeaseState::NotNeeded, removed: None }
            }
        };
        let lease = match &got {
            FleetResult::Hit { lease, .. } => {
                self.counters.fleet_hits.add(1);
                lease
            }
            FleetResult::Miss { lease, .. } => {
                self.counters.fleet_misses.add(1);
                lease
            }
            FleetResult::Unshared { .. } => {
                self.counters.fleet_hit_for_miss_hits.add(1);
                return got;
            }
            FleetResult::Unavailable => {
                self.counters.fleet_unavailable.add(1);
                return got;
            }
        };
        match lease {
            LeaseState::NotNeeded => {}
            LeaseState::Acquired(_) => self.counters.fleet_recompute_wins.add(1),
            LeaseState::HeldElsewhere(_) => self.counters.fleet_recompute_waits.add(1),
        }
        got
    }

    async fn find(
        self: &Rc<Self>,
        query: &FleetQuery<'_>,
        deadline: Instant,
    ) -> Result<FleetResult, Shortfall> {
        let base = self.keys.key(query.key);
        let mut record = match self.read_unpurged(query, &base, deadline).await? {
            FleetRead::Record(record) => record,
            other => {
                if query.want == Want::Recompute {
                    self.note_without_record(query.key, &other);
                }
                return Ok(without_record(other));
            }
        };
        let generation = record.item.hit.flags;
        if query.want == Want::Recompute {
            let names = names_hash(record.envelope.meta.vary());
            self.seen.note(query.key, generation, names, record.item.hit.cas);
        }
        if !record.envelope.meta.vary().is_empty() {
            let wanted = requested_variant(&record.envelope, query);
            if *record.envelope.variant != wanted[..] {
                self.pass_lease_on(&record.key, &record.item);
                let newer = replaces(&record.envelope, query.held);
                let key = self.variant(query.key, generation, &wanted);
                record = match self.read_unpurged(query, &key, deadline).await? {
                    FleetRead::Record(record) => record,
                    other => return Ok(without_record(other).unless_newer(newer)),
                };
                // By now it may vary on other names than the newest.
                if *record.envelope.variant != self::requested_variant(&record.envelope, query)[..] {
                    self.pass_lease_on(&record.key, &record.item);
                    return Ok(FleetResult::Miss { lease: LeaseState::NotNeeded, removed: newer });
                }
            }
        }
        let mut lease = LeaseState::NotNeeded;
        let recomputes = query.want == Want::Recompute && is_expired(query, &record);
        if recomputes && self.uses_leases(query) {
            (record, lease) = self.lease_for(query, record, deadline).await?;
        } else if !recomputes {
            // A node that renews it without leases overwrites this very item: it must keep its number.
            self.pass_lease_on(&record.key, &record.item);
        }
        let body = self.body(&record, deadline).await?;
        let FleetRecord { envelope, by_application, .. } = *record;
        Ok(FleetResult::Hit { found: Box::new(FleetResponse { envelope, body, by_application }), lease })
    }

    /// Remembers the item in a place without a record: a response stored nevertheless replaces only that item.
    fn note_without_record(&self, key: &[u8], looked: &FleetRead) {
        match looked {
            FleetRead::Marked(_, item) | FleetRead::Removed(item, _) => {
                let time = Duration::from_secs(seconds_of(item).into());
                self.seen.note_for(key, 0, 0, item.hit.cas, time);
            }
            FleetRead::Nothing(LeaseState::HeldElsewhere(theirs)) => self.seen.note(key, 0, 0, theirs.0.cas),
            FleetRead::Absent => self.seen.note_absent(key),
            // The lease knows it.
            FleetRead::Nothing(LeaseState::Acquired(_) | LeaseState::NotNeeded) | FleetRead::Record(_) => {
                let _ = self.seen.take(key);
            }
        }
    }

    /// Reads one key. A mark to which a purge applies is removed, and the key is read again.
    async fn read_unpurged(
        self: &Rc<Self>,
        query: &FleetQuery<'_>,
        key: &FleetKey,
        deadline: Instant,
    ) -> Result<FleetRead, Shortfall> {
        let looked = self.read_key(query, key, None, deadline).await?;
        if let FleetRead::Removed(item, LeaseState::NotNeeded) = &looked
            && self.uses_leases(query)
        {
            return self.request_lease(query, key, item, deadline).await;
        }
        let FleetRead::Marked(mark, item) = &looked else { return Ok(looked) };
        if !(query.is_purged)(&mark.of, false) {
            return Ok(looked);
        }
        if query.want == Want::ReadOnly {
            return Ok(FleetRead::Nothing(LeaseState::NotNeeded));
        }
        let request = MemcachedRequest::Delete { key, stale: None, cas: Some(item.hit.cas) };
        // The reply does not matter: the new content is read.
        let _ = self.servers[item.server].exchange(&request, ConnectionChoice::of(key), deadline).await;
        match self.read_key(query, key, None, deadline).await? {
            FleetRead::Marked(mark, _) if (query.is_purged)(&mark.of, false) => {
                Ok(FleetRead::Nothing(LeaseState::NotNeeded))
            }
            other => Ok(other),
        }
    }

    /// Reads one key. With `recache` one of all nodes that read it gets the lease.
    async fn read_key(
        self: &Rc<Self>,
        query: &FleetQuery<'_>,
        key: &FleetKey,
        recache: Option<u32>,
        deadline: Instant,
    ) -> Result<FleetRead, Shortfall> {
        let vivify = (self.uses_leases(query) && recache.is_none()).then_some(VIVIFY);
        let request = MemcachedRequest::Get { key, named: true, vivify, recache };
        let item = match self.read(&request, key, deadline).await {
            Ok(Some(item)) => item,
            Ok(None) => return Ok(FleetRead::Absent),
            Err(_) => return Err(Shortfall::Unavailable),
        };
        if item.value.is_empty() {
            // Created by a reader, and to be filled by the node with the lease.
            return Ok(FleetRead::Nothing(self.lease_state(query, key, &item, true)));
        }
        match self.parse_record(query, &item.value) {
            Ok((envelope, head, by_application)) => {
                let key = key.clone();
                Ok(FleetRead::Record(Box::new(FleetRecord { envelope, item, head, by_application, key })))
            }
            Err(EnvelopeError::Mark) => match Mark::read(&item.value) {
                Ok(mark) if *mark.of.key == *self.keys.full(query.key) => Ok(match mark.says {
                    Unshared::Removed => {
                        let mut lease = self.lease_state(query, key, &item, true);
                        if query.want == Want::ReadOnly {
                            // Given back at once: it may have been given back before, and goes to the next reader.
                            lease = LeaseState::NotNeeded;
                        }
                        FleetRead::Removed(item, lease)
                    }
                    Unshared::Page | Unshared::Answer => FleetRead::Marked(Box::new(mark), item),
                }),
                Ok(_) => {
                    self.counters.fleet_foreign.add(1);
                    Ok(FleetRead::Nothing(LeaseState::NotNeeded))
                }
                Err(_) => Err(Shortfall::Corrupt),
            },
            Err(EnvelopeError::Foreign | EnvelopeError::Version(_) | EnvelopeError::NoFacts) => {
                self.counters.fleet_foreign.add(1);
                Ok(FleetRead::Nothing(LeaseState::NotNeeded))
            }
            Err(_) => Err(Shortfall::Corrupt),
        }
    }

    /// Whether a value is a record of the requested key.
    fn parse_record(
        &self,
        query: &FleetQuery<'_>,
        value: &Bytes,
    ) -> Result<(Envelope, usize, bool), EnvelopeError> {
        let by = self.settings.filled_by;
        let (envelope, head, by_application) = match Envelope::read(value) {
            Ok((envelope, head)) => (envelope, head, false),
            Err(EnvelopeError::NoFacts) if by != FilledBy::Larder => {
                let (envelope, head) = Envelope::read_filled(value, query.policy, clock::wall())?;
                (envelope, head, true)
            }
            // It does not name its own key: only a readable fleet key proves it, or a hash that the operator has chosen.
            Err(EnvelopeError::Foreign) if by == FilledBy::Older && self.keys.identifies(query.key) => {
                let (envelope, head) = parse_legacy(value, query, &self.keys.full(query.key))?;
                (envelope, head, true)
            }
            Err(broken) => return Err(broken),
        };
        // No node leaves parts here, and no code verifies that one has the bytes it claims.
        if envelope.meta.partial().is_some() {
            return Err(EnvelopeError::BodyLength);
        }
        // Two keys with the same fleet key, or a foreign record.
        if *envelope.key == *self.keys.full(query.key) {
            Ok((envelope, head, by_application))
        } else {
            Err(EnvelopeError::Foreign)
        }
    }

    /// The body after the head, or from its parts: verified and unpacked.
    async fn body(self: &Rc<Self>, record: &FleetRecord, deadline: Instant) -> Result<Bytes, Shortfall> {
        let info = record.envelope.body;
        // Parts are first joined on the heap: the budget has the room, and a body without room in RAM is not requested.
        let room = info.parts.map(|_| self.store.room_for(info.packed.unwrap_or(0).max(info.length)));
        let _room = room.transpose().map_err(|_| Shortfall::Unavailable)?;
        let kept = match &info.parts {
            Some(parts) => self.gather(&info, parts, deadline).await?,
            None => record.item.value.slice(record.head..),
        };
        chunking::open(kept, info).await.map_err(|_| Shortfall::Corrupt)
    }

    /// Whether leases decide which node fetches an absent or expired response.
    fn uses_leases(&self, query: &FleetQuery<'_>) -> bool {
        query.want == Want::Recompute && self.grants_leases()
    }

    fn lease_of(self: &Rc<Self>, query: &FleetQuery<'_>, record: &FleetRecord) -> LeaseState {
        self.lease_state(query, &record.key, &record.item, record.envelope.meta.vary().is_empty())
    }

    fn lease_state(
        self: &Rc<Self>,
        query: &FleetQuery<'_>,
        key: &FleetKey,
        item: &FleetItem,
        is_exclusive: bool,
    ) -> LeaseState {
        let place = || LeaseKey { key: key.clone(), server: item.server, cas: item.hit.cas, item: has(item) };
        match item.hit.lease {
            MemcachedLease::None => LeaseState::NotNeeded,
            MemcachedLease::Taken if self.uses_leases(query) => {
                LeaseState::HeldElsewhere(OtherNodesLease(place()))
            }
            MemcachedLease::Taken => LeaseState::NotNeeded,
            MemcachedLease::Won => LeaseState::Acquired(RecomputeLease::new(self, place(), is_exclusive)),
        }
    }

    /// Asks again for an expired record, so that one of all nodes gets the lease. A newer record is used.
    async fn lease_for(
        self: &Rc<Self>,
        query: &FleetQuery<'_>,
        record: Box<FleetRecord>,
        deadline: Instant,
    ) -> Result<(Box<FleetRecord>, LeaseState), Shortfall> {
        if record.item.hit.lease != MemcachedLease::None {
            let lease = self.lease_of(query, &record);
            return Ok((record, lease));
        }
        match self.request_lease(query, &record.key, &record.item, deadline).await? {
            FleetRead::Record(newer) if newer.envelope.variant == record.envelope.variant => {
                let lease = self.lease_of(query, &newer);
                Ok((newer, lease))
            }
            FleetRead::Record(other) => {
                // Another variant is the newest by now.
                self.forget_lease(&other);
                Ok((record, LeaseState::NotNeeded))
            }
            _ => Ok((record, LeaseState::NotNeeded)),
        }
    }

    /// Reads a key a second time, so that one of all nodes that do gets the lease to replace `item`; a fresh record in
    /// its place by now is not replaced.
    async fn request_lease(
        self: &Rc<Self>,
        query: &FleetQuery<'_>,
        key: &FleetKey,
        item: &FleetItem,
        deadline: Instant,
    ) -> Result<FleetRead, Shortfall> {
        let recache = seconds_of(item).saturating_add(1).min(MAX_EXPIRE);
        let mut looked = self.read_key(query, key, Some(recache), deadline).await?;
        if let FleetRead::Record(record) = &mut looked
            && !is_expired(query, record)
        {
            self.forget_lease(record);
            record.item.hit.lease = MemcachedLease::None;
        }
        Ok(looked)
    }

    /// Releases a lease to the next reader: a server gives the lease of a stale item to the first reader, also to one
    /// that only looks, or that continues with another variant.
    pub(super) fn pass_lease_on(&self, key: &FleetKey, item: &FleetItem) {
        if item.hit.lease != MemcachedLease::Won {
            return;
        }
        let request =
            MemcachedRequest::Delete { key, stale: Some(seconds_of(item)), cas: Some(item.hit.cas) };
        self.servers[item.server].send(&request, ConnectionChoice::of(key), now() + self.settings.timeout);
    }

    /// Releases a lease that no node is to have: a server forgets its lease only when it gets the same value again.
    fn forget_lease(&self, record: &FleetRecord) {
        let FleetRecord { item, key, .. } = record;
        if item.hit.lease != MemcachedLease::Won {
            return;
        }
        let (value, cas) = ([&item.value[..]], Some(item.hit.cas));
        let value = MemcachedValue::of(&value);
        let (flags, expire) = (item.hit.flags, seconds_of(item));
        let request = MemcachedRequest::Set { key, value, flags, expire, cas, stale_if_older: false };
        self.servers[item.server].send(&request, ConnectionChoice::of(key), now() + self.settings.timeout);
    }

    /// Sends a plain read to the server of a key, if there is one.
    pub(super) fn send_read(self: &Rc<Self>, key: FleetKey, deadline: Instant) -> Option<PendingRead> {
        let server = self.route(&key)?;
        let request = MemcachedRequest::Get { key: &key, named: true, vivify: None, recache: None };
        let asked = self.servers[server].request(&request, ConnectionChoice::Any, deadline).ok()?;
        Some(PendingRead { asked, server })
    }

    /// Waits for a sent read; `None` where there is none.
    pub(super) async fn receive_read(
        &self,
        sent: PendingRead,
        deadline: Instant,
    ) -> Result<Option<FleetItem>, OperationFailure> {
        let server = sent.server;
        let answer = self.servers[server].answer(sent.asked, deadline).await?;
        match answer.reply {
            MemcachedReply::Hit(hit) => Ok(Some(FleetItem { value: answer.value, hit, server })),
            _ => Ok(None),
        }
    }

    /// Reads a key from its server, a second time if the first answer is slow.
    async fn read(
        self: &Rc<Self>,
        request: &MemcachedRequest<'_>,
        key: &FleetKey,
        deadline: Instant,
    ) -> Result<Option<FleetItem>, OperationFailure> {
        let server = self.route(key).ok_or(OperationFailure::Broken)?;
        let query = |request, way| {
            self.servers[server].request(request, way, deadline).map(|asked| PendingRead { asked, server })
        };
        let first = query(request, ConnectionChoice::Any)?;
        let other = ConnectionChoice::Not(first.asked.way);
        let mut first = std::pin::pin!(self.receive_read(first, deadline));
        let Some(hedge) = self.settings.hedge else { return first.await };
        if let Ok(answered) = timeout_at((now() + hedge).min(deadline), &mut first).await {
            return answered;
        }
        self.counters.fleet_hedges.add(1);
        // Without taking a lease: the first read may have taken it, and it would seem to be another node's.
        let plain = MemcachedRequest::Get { key, named: true, vivify: None, recache: None };
        let takes_turns = !matches!(request, MemcachedRequest::Get { vivify: None, recache: None, .. });
        let Ok(second) = query(&plain, other) else { return first.await };
        let mut second = std::pin::pin!(self.receive_read(second, deadline));
        tokio::select! {
            it = &mut first => match it {
                Ok(it) => Ok(it),
                Err(_) => second.await,
            },
            it = &mut second => match it {
                Ok(Some(it)) if !it.value.is_empty() && it.hit.lease != MemcachedLease::Taken => Ok(Some(it)),
                Ok(None) if !takes_turns => Ok(None),
                _ => first.await,
            },
        }
    }
}

/// The item that a lease is about.
fn has(item: &FleetItem) -> LeasedItem {
    if item.value.is_empty() {
        return LeasedItem::Nothing;
    }
    match Mark::read(&item.value) {
        Ok(_) => LeasedItem::Removal,
        Err(_) => LeasedItem::Response,
    }
}

/// For how long the server has it.
fn seconds_of(item: &FleetItem) -> u32 {
    match item.hit.ttl {
        Ttl::Seconds(it) => it,
        Ttl::Unknown | Ttl::Never => MAX_EXPIRE,
    }
}

/// The result of a lookup that found no record.
fn without_record(looked: FleetRead) -> FleetResult {
    match looked {
        FleetRead::Marked(mark, item) => {
            let seconds = seconds_of(&item).min(mark.of.meta.lifetime.seconds).max(1);
            let meta = &mark.of.meta;
            FleetResult::Unshared {
                unshared: mark.says,
                status: meta.status,
                at: meta.response_time,
                seconds,
            }
        }
        FleetRead::Removed(item, lease) => {
            // A trace is older than its request by the difference of clocks, and this one came a second before that request.
            let removed = Mark::read(&item.value).ok().map(|it| it.of.meta.response_time);
            let removed = removed.map(|it| WallTime(it.0.saturating_add(CLOCKS_APART)));
            FleetResult::Miss { lease, removed }
        }
        FleetRead::Nothing(lease) => FleetResult::Miss { lease, removed: None },
        FleetRead::Record(_) | FleetRead::Absent => {
            FleetResult::Miss { lease: LeaseState::NotNeeded, removed: None }
        }
    }
}

impl FleetResult {
    /// For a miss: another answer of the origin came at this moment, where no later one is known.
    fn unless_newer(self, newer: Option<WallTime>) -> Self {
        match self {
            FleetResult::Miss { lease, removed } => FleetResult::Miss { lease, removed: removed.max(newer) },
            other => other,
        }
    }
}

/// The time of a record that replaces the held response although it is of another variant than the requested one: one
/// request may select both (RFC 9111 §4.1), since they vary on other names.
fn replaces(newest: &Envelope, held: Option<&Stored>) -> Option<WallTime> {
    let held = held.filter(|it| it.meta.vary() != newest.meta.vary())?;
    let meet = vary::may_meet((newest.meta.vary(), &newest.variant), (held.meta.vary(), held.variant()));
    meet.then_some(newest.meta.response_time)
}

/// The variant key of the request, by the names of a record.
fn requested_variant(envelope: &Envelope, query: &FleetQuery<'_>) -> Vec<u8> {
    let mut wanted = Vec::new();
    vary::write_key(envelope.meta.vary(), query.request, &mut wanted);
    wanted
}

/// Whether it has expired, by itself or by a purge, so that leases make sense. A record without a lifetime is requested
/// each time anyway.
fn is_expired(query: &FleetQuery<'_>, record: &FleetRecord) -> bool {
    let meta = &record.envelope.meta;
    let has_lifetime = meta.lifetime.seconds > 0 && !meta.no_cache;
    has_lifetime
        && (record.item.hit.stale
            || !matches!(meta.freshness(clock::wall()), Freshness::Fresh { .. })
            || (query.is_purged)(&record.envelope, record.by_application))
}

/// A page written before envelopes existed: `content-type NUL body`.
fn parse_legacy(
    value: &Bytes,
    query: &FleetQuery<'_>,
    key: &[u8],
) -> Result<(Envelope, usize), EnvelopeError> {
    let page = envelope::older(value)?;
    let now = clock::wall();
    let mut fields = FieldList::new();
    fields.push("Content-Type", page.content_type);
    let meta = Meta::of(200, &fields.view(), query.policy, now, now);
    let envelope = Envelope {
        key: key.into(),
        variant: Box::default(),
        meta,
        fields,
        trailers: None,
        tags: Box::default(),
        known: Vec::new(),
        seq: 0,
        body: BodyInfo::of(page.body),
    };
    Ok((envelope, value.len() - page.body.len()))
}
