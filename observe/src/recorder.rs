//! The recorder of requests for the trial of a configuration: a ring of bounded bytes for each worker, with the facts that
//! decide about a request and its response. It has no bodies and no values of cookies and credentials.
//!
//! A busy worker records a sample: `SampledClass` begins with every request, and adapts its rate so that a tick (250 ms) adds at
//! most `OF_TICK` of a kind. Each record has the number of requests that it stands for. A hit that is not recorded costs two
//! additions; one that is, a microsecond and no allocation.

use super::Finished;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::scheme::Scheme;
use larder_semantics::trial::ServedBy;
use larder_semantics::trial::facts;
use larder_stdx::clock::{self, WallTime};
use std::cell::Cell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// The most requests that are recorded, of all workers.
pub const RECORDS: usize = 12_288;

/// The most bytes of all records of all workers.
pub const BYTES: usize = 4 << 20;

/// The most bytes of one record: a larger one is not recorded.
const LARGEST: usize = 4096;

/// The texts of requests' fields that are remembered for each worker.
const KNOWN: usize = 1024;

/// The parts of a record's text.
const PARTS: usize = 5;

/// The most records of a kind that a tick of a busy process adds.
const OF_TICK: u32 = 32;

/// The most records of a kind that are added without a sample, after a quiet time.
const BURST: u32 = 4096;

/// The records of all workers.
pub struct Recorder {
    rings: Mutex<Vec<Arc<Mutex<RecordRing>>>>,
    /// Secret: without it, a hash of a cookie could be compared with that of a guess.
    seed: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { rings: Mutex::default(), seed: RandomState::new().hash_one(0) }
    }
}

/// One recorded request.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// When it ended.
    pub time: WallTime,
    /// The same by the precise clock, microseconds: the order of the records of all workers.
    order: u64,
    /// The microseconds that it took, at most 71 minutes.
    took: u32,
    /// The number of requests that it stands for.
    pub weight: u32,
    /// Its scheme.
    pub scheme: Scheme,
    /// The address of its client; `None` for a peer of a Unix socket.
    pub address: Option<IpAddr>,
    /// A hash of its client.
    pub client: u64,
    /// The status that was sent; 0 if none was.
    pub status: u16,
    /// The part of the cache.
    pub served: ServedBy,
    /// The status of the origin's response to it; 0 without one.
    pub origin_status: u16,
    /// A hash of that response's representation.
    pub digest: u64,
    /// A hash of its fields.
    pub head: u64,
    /// The bytes of its body, at most 4 GiB; 0 if they are not known.
    pub length: u32,
    /// The hash of the name of the origin ([`origin_hash`]); 0 without one.
    pub origin: u64,
    /// Method, listener, host, target, the response's fields.
    text: Box<[u8]>,
    lengths: [u16; PARTS],
    fields: Box<[u8]>,
}

impl RequestRecord {
    fn field(&self, number: usize) -> &[u8] {
        let start: usize = self.lengths[..number].iter().map(|it| usize::from(*it)).sum();
        &self.text[start..start + usize::from(self.lengths[number])]
    }

    fn text(&self, number: usize) -> &str {
        std::str::from_utf8(self.field(number)).unwrap_or_default()
    }

    /// Its beginning and its end by the precise clock, microseconds.
    #[must_use]
    pub fn span(&self) -> (u64, u64) {
        (self.order.saturating_sub(self.took.into()), self.order)
    }

    /// Its method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.text(0)
    }

    /// Its listener, in the notation of the configuration.
    #[must_use]
    pub fn listener(&self) -> &str {
        self.text(1)
    }

    /// Its host, as received.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.text(2)
    }

    /// Path and query.
    #[must_use]
    pub fn target(&self) -> &str {
        self.text(3)
    }

    /// The recorded fields of the request, for [`facts::fields`].
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// Those of the response of the origin.
    #[must_use]
    pub fn response(&self) -> &[u8] {
        self.field(4)
    }
}

/// The records at one moment.
pub struct Recording {
    /// In the order of time.
    pub records: Vec<RequestRecord>,
    /// Requests of the same time that were not recorded: too large, or above the rate.
    pub left_out: u64,
}

impl Recorder {
    /// The end of one of `workers`.
    #[must_use]
    pub fn worker(&self, workers: usize) -> RecorderFeed {
        let workers = workers.max(1);
        let ring = Arc::new(Mutex::new(RecordRing::new(RECORDS / workers, BYTES / workers)));
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).push(ring.clone());
        let share = |most: u32| (most / u32::try_from(workers).unwrap_or(u32::MAX)).max(4);
        let class = || SampledClass::new(share(OF_TICK), share(BURST));
        RecorderFeed { ring, seed: self.seed, hits: class(), others: class() }
    }

    fn rings(&self) -> Vec<Arc<Mutex<RecordRing>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The records of all workers. A worker meanwhile records nothing: the copy takes at most a millisecond.
    #[must_use]
    pub fn read(&self) -> Recording {
        let mut all = Recording { records: Vec::new(), left_out: 0 };
        for it in self.rings() {
            let ring = it.lock().unwrap_or_else(PoisonError::into_inner);
            all.records.extend(ring.entries.iter().filter_map(|it| ring.record(it)));
            all.left_out += ring.left_out;
        }
        all.records.sort_by_key(|it| it.order);
        all
    }

    /// Bytes that are allocated.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.sum(|ring| ring.capacity * size_of::<RecordEntry>() + ring.other_bytes() + ring.text.len())
    }

    /// Bytes that have been written to: the others are not resident.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sum(|ring| {
            let entries = ring.capacity.min(ring.added) * size_of::<RecordEntry>();
            let text = ring.text.len().min(to_usize(ring.written));
            if ring.added == 0 { 0 } else { entries + text + ring.other_bytes() }
        })
    }

    fn sum(&self, bytes: impl Fn(&RecordRing) -> usize) -> u64 {
        let of =
            |it: &Arc<Mutex<RecordRing>>| bytes(&it.lock().unwrap_or_else(PoisonError::into_inner)) as u64;
        self.rings().iter().map(of).sum()
    }
}

/// A text in a ring.
#[derive(Clone, Copy, Default)]
struct TextPlace {
    /// Its position among all bytes that were ever written.
    start: u64,
    length: u16,
}

/// A record without its text.
#[derive(Clone, Copy)]
struct RecordEntry {
    text: TextPlace,
    /// The request's fields, which several records share.
    fields: TextPlace,
    time: u32,
    order: u64,
    took: u32,
    client: u64,
    digest: u64,
    head: u64,
    origin: u64,
    length: u32,
    address: Option<IpAddr>,
    weight: u32,
    served: ServedBy,
    scheme: Scheme,
    status: u16,
    origin_status: u16,
    lengths: [u16; PARTS],
}

/// One worker's records. Every part is allocated once.
struct RecordRing {
    entries: VecDeque<RecordEntry>,
    capacity: usize,
    /// The entries that were ever added.
    added: usize,
    text: Box<[u8]>,
    /// All bytes that were ever written.
    written: u64,
    /// The latest texts of requests' fields, by their hash: a browser sends the same with most requests.
    known: Box<[(u64, TextPlace)]>,
    /// The record that is being made.
    scratch: Box<[u8]>,
    left_out: u64,
}

impl RecordRing {
    fn new(records: usize, bytes: usize) -> Self {
        let known = vec![(0, TextPlace::default()); KNOWN].into_boxed_slice();
        let other_bytes = records * size_of::<RecordEntry>() + size_of_val(&*known) + LARGEST;
        Self {
            entries: VecDeque::with_capacity(records),
            capacity: records,
            added: 0,
            text: vec![0; bytes.saturating_sub(other_bytes).max(LARGEST)].into_boxed_slice(),
            written: 0,
            known,
            scratch: vec![0; LARGEST].into_boxed_slice(),
            left_out: 0,
        }
    }

    /// Bytes of the other parts.
    fn other_bytes(&self) -> usize {
        size_of_val(&*self.known) + LARGEST
    }

    /// Adds a record in place of the oldest ones. `fields` and `text` write their part, the latter one of [`PARTS`] at a time.
    fn put(
        &mut self,
        mut entry: RecordEntry,
        fields: impl FnOnce(&mut PartWriter<'_>),
        text: impl FnOnce(&mut PartWriter<'_>),
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut writer = PartWriter { to: &mut scratch, length: 0, is_whole: true };
        fields(&mut writer);
        let fields_end = writer.length;
        text(&mut writer);
        let (length, is_whole) = (writer.length, writer.is_whole);
        if is_whole {
            entry.fields = self.place_fields(&scratch[..fields_end]);
            entry.text = self.append(&scratch[fields_end..length]);
            if self.entries.len() == self.capacity {
                self.entries.pop_front();
            }
            self.entries.push_back(entry);
            self.added += 1;
        } else {
            self.left_out += u64::from(entry.weight);
        }
        self.scratch = scratch;
    }

    /// The place of a text of fields: the one where it was written before, if that lies in the newer half.
    fn place_fields(&mut self, fields: &[u8]) -> TextPlace {
        let hash = xxh3_64(fields);
        let slot = to_usize(hash % KNOWN as u64);
        let (known, place) = self.known[slot];
        let is_new = place.start + self.text.len() as u64 / 2 > self.written;
        if known == hash && usize::from(place.length) == fields.len() && is_new {
            return place;
        }
        let place = self.append(fields);
        self.known[slot] = (hash, place);
        place
    }

    /// Appends a text in place of the oldest ones.
    fn append(&mut self, mut bytes: &[u8]) -> TextPlace {
        let place = TextPlace { start: self.written, length: u16::try_from(bytes.len()).unwrap_or(0) };
        while !bytes.is_empty() {
            let at = to_usize(self.written % self.text.len() as u64);
            let fits = bytes.len().min(self.text.len() - at);
            self.text[at..at + fits].copy_from_slice(&bytes[..fits]);
            self.written += fits as u64;
            bytes = &bytes[fits..];
        }
        let oldest = self.oldest();
        while self.entries.front().is_some_and(|it| it.text.start < oldest) {
            self.entries.pop_front();
        }
        place
    }

    /// The position of the oldest byte that is still there.
    fn oldest(&self) -> u64 {
        self.written.saturating_sub(self.text.len() as u64)
    }

    fn text(&self, place: TextPlace) -> Option<Box<[u8]>> {
        if place.start < self.oldest() {
            return None;
        }
        let length = usize::from(place.length);
        let start = to_usize(place.start % self.text.len() as u64);
        let first = length.min(self.text.len() - start);
        let mut text = Vec::with_capacity(length);
        text.extend_from_slice(&self.text[start..start + first]);
        text.extend_from_slice(&self.text[..length - first]);
        Some(text.into())
    }

    /// A record; `None` if its fields have been overwritten.
    fn record(&self, it: &RecordEntry) -> Option<RequestRecord> {
        Some(RequestRecord {
            time: WallTime(it.time.into()),
            order: it.order,
            took: it.took,
            weight: it.weight,
            scheme: it.scheme,
            address: it.address,
            client: it.client,
            status: it.status,
            served: it.served,
            origin_status: it.origin_status,
            digest: it.digest,
            head: it.head,
            length: it.length,
            origin: it.origin,
            text: self.text(it.text)?,
            lengths: it.lengths,
            fields: self.text(it.fields)?,
        })
    }
}

/// Writes the parts of one record.
struct PartWriter<'r> {
    to: &'r mut [u8],
    length: usize,
    is_whole: bool,
}

impl PartWriter<'_> {
    fn add(&mut self, bytes: &[u8]) {
        match self.to.get_mut(self.length..self.length + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.length += bytes.len();
            }
            None => self.is_whole = false,
        }
    }
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// One worker's end.
pub struct RecorderFeed {
    ring: Arc<Mutex<RecordRing>>,
    seed: u64,
    hits: SampledClass,
    others: SampledClass,
}

impl RecorderFeed {
    /// The number of requests that the present fast answer stands for if it is recorded.
    #[inline]
    pub fn takes_fast(&self) -> Option<u32> {
        self.hits.takes()
    }

    /// The same for another answer, at the beginning of its request.
    pub fn takes_slow(&self) -> Option<u32> {
        self.others.takes()
    }

    /// Begins a tick.
    pub fn tick(&self) {
        let left_out = self.hits.tick() + self.others.tick();
        if left_out > 0
            && let Ok(mut ring) = self.ring.try_lock()
        {
            ring.left_out += left_out;
        }
    }

    /// Records a request that stands for `weight`; not while the records are read.
    pub fn record(&self, it: &Finished<'_>, weight: u32) {
        let Ok(mut ring) = self.ring.try_lock() else { return };
        let address = it.client.peer.map(|it| it.ip());
        let bytes = address.map(|it| match it {
            IpAddr::V4(it) => it.to_ipv6_mapped().octets(),
            IpAddr::V6(it) => it.octets(),
        });
        let origin = it.outcome.origin.as_ref();
        let answer = origin.and_then(|it| it.recorded.as_ref());
        let response = answer.map_or(&[][..], |it| &it.facts);
        let parts = [it.method, &it.client.listener, it.authority, it.target].map(str::as_bytes);
        let [method, listener, authority, target] = parts;
        let parts = [method, listener, authority, target, response];
        let entry = RecordEntry {
            text: TextPlace::default(),
            fields: TextPlace::default(),
            time: u32::try_from(clock::wall().0).unwrap_or(u32::MAX),
            order: clock::precise_micros(),
            took: u32::try_from(it.micros.unwrap_or(0)).unwrap_or(u32::MAX),
            client: facts::client(bytes.as_ref().map_or(&[][..], |it| it), it.fields, self.seed),
            digest: answer.map_or(0, |it| it.digest),
            head: answer.map_or(0, |it| it.head),
            length: origin.map_or(0, |it| it.recorded_length),
            origin: origin.map_or(0, |it| origin_hash(&it.name)),
            address,
            weight,
            served: served(it),
            scheme: it.scheme,
            status: it.outcome.status,
            origin_status: origin.map_or(0, |it| it.status),
            lengths: parts.map(|it| u16::try_from(it.len()).unwrap_or(0)),
        };
        let fields =
            |to: &mut PartWriter<'_>| facts::write_request(it.fields, self.seed, &mut |it| to.add(it));
        ring.put(entry, fields, |to| parts.iter().for_each(|it| to.add(it)));
    }
}

/// The hash of the name of an origin, as in a record.
#[must_use]
pub fn origin_hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

fn served(it: &Finished<'_>) -> ServedBy {
    match it.outcome.report {
        Some(CacheReport::Hit { ttl, .. }) => ServedBy::Cache(i32::try_from(ttl).unwrap_or(i32::MAX)),
        Some(CacheReport::Forwarded { .. }) => ServedBy::Origin,
        _ => ServedBy::Other,
    }
}

/// The sample of one kind of requests.
struct SampledClass {
    of_tick: u32,
    burst: u32,
    /// One in this many is recorded.
    every: Cell<u32>,
    /// Requests until the next record.
    until: Cell<u32>,
    /// Records that may still be added.
    tokens: Cell<u32>,
    /// Requests of this tick.
    seen: Cell<u32>,
    left_out: Cell<u64>,
}

impl SampledClass {
    fn new(of_tick: u32, burst: u32) -> Self {
        let (every, until) = (Cell::new(1), Cell::new(1));
        let (tokens, seen, left_out) = (Cell::new(burst), Cell::new(0), Cell::new(0));
        Self { of_tick, burst, every, until, tokens, seen, left_out }
    }

    #[inline]
    fn takes(&self) -> Option<u32> {
        self.seen.set(self.seen.get().wrapping_add(1));
        let until = self.until.get().saturating_sub(1);
        self.until.set(until);
        if until > 0 { None } else { self.take() }
    }

    fn take(&self) -> Option<u32> {
        let every = self.every.get();
        self.until.set(every);
        let tokens = self.tokens.get();
        if tokens == 0 {
            self.left_out.set(self.left_out.get() + u64::from(every));
            return None;
        }
        self.tokens.set(tokens - 1);
        Some(every)
    }

    /// Adapts the rate to that of the last tick; returns the requests that were left out.
    fn tick(&self) -> u64 {
        let seen = self.seen.replace(0);
        let tokens = (self.tokens.get() + self.of_tick).min(self.burst);
        self.tokens.set(tokens);
        let every = if seen <= tokens { 1 } else { seen.div_ceil(self.of_tick) };
        self.every.set(every);
        self.until.set(self.until.get().clamp(1, every));
        self.left_out.replace(0)
    }
}

#[cfg(test)]
mod tests;
