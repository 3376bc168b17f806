//! Recently read heads of large records, so that a hit in the page cache need not read and verify the head again. A
//! record never changes: a cached head is right as long as the index has the record. No bodies are cached, and no segment
//! is held.

use super::index::KnownRecord;
use super::parts::PartChecksums;
use larder_wire::envelope::Envelope;
use larder_wire::segment::RecordHeader;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Slots: a power of two.
const PLACES: usize = 4096;

/// Heads longer than this many bytes are not cached.
const MOST: u32 = 4096;

/// The most bytes of all heads together.
const MOST_BYTES: u64 = 1 << 20;

struct CachedHead {
    header: RecordHeader,
    envelope: Envelope,
    parts: Arc<PartChecksums>,
}

/// The heads by the hash of their key: the last of a slot stays, until other heads need its bytes.
pub(crate) struct Heads {
    places: Box<[Mutex<Option<Arc<CachedHead>>>]>,
    bytes: AtomicU64,
}

impl Heads {
    pub fn new() -> Heads {
        Heads { places: (0..PLACES).map(|_| Mutex::default()).collect(), bytes: AtomicU64::new(0) }
    }

    /// The head of a record, if it is cached.
    pub fn get(
        &self,
        hash: u64,
        known: &KnownRecord,
    ) -> Option<(RecordHeader, Envelope, Arc<PartChecksums>)> {
        let head = self.places[place(hash)].lock().clone()?;
        let is_it = head.header.hash == hash && head.header.stamp == known.stamp;
        is_it.then(|| (head.header, head.envelope.clone(), head.parts.clone()))
    }

    /// Caches the head of a verified record. Above the byte limit, the heads in the following slots are dropped.
    pub fn insert(&self, header: RecordHeader, envelope: &Envelope, parts: &Arc<PartChecksums>) {
        if header.head > MOST {
            return;
        }
        let at = place(header.hash);
        self.bytes.fetch_add(cost(&header), Relaxed);
        self.put(at, Some(Arc::new(CachedHead { header, envelope: envelope.clone(), parts: parts.clone() })));
        let mut behind = (at + 1..PLACES).chain(0..at);
        while self.bytes.load(Relaxed) > MOST_BYTES
            && let Some(next) = behind.next()
        {
            self.put(next, None);
        }
    }

    fn put(&self, at: usize, head: Option<Arc<CachedHead>>) {
        // Not dropped under the lock.
        let before = std::mem::replace(&mut *self.places[at].lock(), head);
        self.bytes.fetch_sub(before.map_or(0, |it| cost(&it.header)), Relaxed);
    }
}

/// Approximate bytes of a head: its parts are allocated separately.
fn cost(header: &RecordHeader) -> u64 {
    u64::from(header.head) + size_of::<CachedHead>() as u64 + 128
}

#[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
fn place(hash: u64) -> usize {
    hash as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::index::RecordLocation;
    use crate::sample;
    use crate::stored_envelope;
    use larder_wire::segment::RecordKind;

    fn header(hash: u64, stamp: u64, head: u32) -> RecordHeader {
        let (kind, epoch, variant, names, body) = (RecordKind::Response, 0, 0, 0, 1);
        RecordHeader { kind, hash, stamp, epoch, variant, names, head, body, head_sum: 0, body_sum: 0 }
    }

    fn known(stamp: u64) -> KnownRecord {
        KnownRecord {
            location: RecordLocation { segment: 1, offset: 0, size: 1 },
            stamp,
            variant: 0,
            names: 0,
            flags: 0,
        }
    }

    #[test]
    fn the_last_of_a_place_stays_and_all_are_bounded() {
        let mut written = Vec::new();
        stored_envelope::write(b"key", &sample::plain(sample::text("body")), &mut written);
        let parts = Arc::new(PartChecksums::of(0, b"body"));
        let envelope = stored_envelope::read(&written).unwrap().0;
        let heads = Heads::new();
        heads.insert(header(5, 1, 100), &envelope, &parts);
        assert!(heads.get(5, &known(1)).is_some_and(|it| it.1 == envelope));
        assert!(heads.get(5, &known(2)).is_none() && heads.get(5 + PLACES as u64, &known(1)).is_none());
        heads.insert(header(5 + PLACES as u64, 1, MOST), &envelope, &parts);
        heads.insert(header(5 + PLACES as u64, 2, MOST + 1), &envelope, &parts);
        assert!(heads.get(5, &known(1)).is_none() && heads.get(5 + PLACES as u64, &known(1)).is_some());
        for hash in 0..3 * PLACES as u64 {
            heads.insert(header(hash, 1, 100 + u32::try_from(hash % 3000).unwrap()), &envelope, &parts);
            assert!(heads.get(hash, &known(1)).is_some(), "{hash}");
            assert!(heads.bytes.load(Relaxed) <= MOST_BYTES, "{hash}");
        }
        let kept = heads.places.iter().filter_map(|it| it.lock().clone()).map(|it| cost(&it.header));
        assert_eq!(kept.sum::<u64>(), heads.bytes.load(Relaxed), "what is counted is what is there");
        assert!(heads.bytes.load(Relaxed) > MOST_BYTES - 8192, "no more goes than has to");
    }
}
