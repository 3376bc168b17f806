//! The mark: an item that a node writes to the fleet instead of a response that it may not share, so that other nodes do
//! not wait for one. An envelope without fields and body; parsing is in `read`, and its use is not here.

use super::{BodyInfo, Envelope, section, tag};
use larder_semantics::field::FieldList;
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::policy::{Policy, StaleIfError};
use larder_semantics::stored::{Meta, Uncommon};
use larder_stdx::clock::WallTime;

/// Reports that the origin has responded, and that the response cannot be shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Key, status and facts of that response, and the positions of the purge logs when it was requested. The lifetime is
    /// that of the mark; there are neither fields nor body.
    pub of: Envelope,
    /// The subject of the mark.
    pub says: Unshared,
}

/// The subject of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unshared {
    /// Responses under this key: requests need not wait for each other while it is valid.
    Page,
    /// Only that response: it does not concern later ones under this key, and waiting requests stop waiting.
    Answer,
    /// Responses requested from the origin before it: the item was removed meanwhile. Responses to later requests
    /// overwrite it.
    Removed,
}

impl Unshared {
    /// Parses the section; `None` if it is neither.
    pub(super) fn of(content: &[u8]) -> Option<Unshared> {
        match content {
            [1] => Some(Unshared::Page),
            [2] => Some(Unshared::Answer),
            [3] => Some(Unshared::Removed),
            _ => None,
        }
    }

    fn content(self) -> [u8; 1] {
        match self {
            Unshared::Page => [1],
            Unshared::Answer => [2],
            Unshared::Removed => [3],
        }
    }
}

impl Mark {
    /// A mark for this number of `seconds`, about a response with these facts.
    #[must_use]
    pub fn new(key: &[u8], meta: &Meta, known: Vec<(u64, u64)>, says: Unshared, seconds: u32) -> Mark {
        let lifetime = Lifetime { seconds, source: LifetimeSource::None };
        let (etag, uncommon) = (None, Uncommon::default());
        let of = Envelope {
            key: key.into(),
            variant: Box::default(),
            meta: Meta { lifetime, etag, uncommon, implicit: false, ..meta.clone() },
            fields: FieldList::new(),
            trailers: None,
            tags: Box::default(),
            known,
            seq: 0,
            body: BodyInfo::default(),
        };
        Mark { of, says }
    }

    /// The mark that replaces for `seconds` an item removed at `now`. Its status has no meaning (410, "gone").
    #[must_use]
    pub fn of_removal(key: &[u8], now: WallTime, seconds: u32) -> Mark {
        // The bytes that earlier versions wrote; a mark is never served stale.
        let policy = Policy { stale_if_error: StaleIfError::Set(86_400), ..Policy::default() };
        let meta = Meta::of(410, &[], &policy, now, now);
        Mark::new(key, &meta, Vec::new(), Unshared::Removed, seconds)
    }

    /// Appends it as bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.of.head().write_with(out, |out| section(tag::UNSHARED, &self.says.content(), out));
    }
}
