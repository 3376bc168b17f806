//! The heads of large records that were read lately, so that a hit in the page cache need not read and verify its head again.
//! A record never changes: what is here is right for as long as the index knows the record. Bodies are not here, and no
//! segment is held.

use super::index::Known;
use larder_wire::envelope::Envelope;
use larder_wire::segment::Header;
use parking_lot::Mutex;
use std::sync::Arc;

/// How many are kept: a power of two.
const PLACES: usize = 256;

/// Longer heads are not kept, bytes: all of them together take a mebibyte at most, and what they allocate beside.
const MOST: u32 = 4096;

struct Head {
    header: Header,
    envelope: Envelope,
}

/// The heads, by the hash of their key: the last of a place stays.
pub(crate) struct Heads(Box<[Mutex<Option<Arc<Head>>>]>);

impl Heads {
    pub fn new() -> Heads {
        Heads((0..PLACES).map(|_| Mutex::default()).collect())
    }

    /// The head of a record, if it is here.
    pub fn get(&self, hash: u64, known: &Known) -> Option<(Header, Envelope)> {
        let head = self.place(hash).lock().clone()?;
        let is_it = head.header.hash == hash && head.header.stamp == known.stamp;
        is_it.then(|| (head.header, head.envelope.clone()))
    }

    /// Keeps the head of a record that was verified.
    pub fn keep(&self, header: Header, envelope: &Envelope) {
        if header.head <= MOST {
            let head = Arc::new(Head { header, envelope: envelope.clone() });
            let before = self.place(header.hash).lock().replace(head);
            drop(before); // Not under the lock.
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
    fn place(&self, hash: u64) -> &Mutex<Option<Arc<Head>>> {
        &self.0[hash as usize % PLACES]
    }
}
