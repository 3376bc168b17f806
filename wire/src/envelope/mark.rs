//! The mark: what a node leaves in the fleet in the place of a response that it may not share, so that the others need
//! not wait for one. An envelope without fields and body; reading is in `read`, and what it is good for is not here.

use super::{BodyInfo, Envelope, section, tag};
use larder_semantics::field::FieldList;
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::policy::{Policy, StaleIfError};
use larder_semantics::stored::Meta;
use larder_stdx::clock::WallTime;

/// Says that the origin was asked, and that what it answered is not for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Key, status and facts of that answer, and how far the purge logs were followed when it was asked for. The lifetime
    /// is for how long the mark holds; there are neither fields nor body.
    pub of: Envelope,
    /// What may not be shared.
    pub says: Unshared,
}

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unshared {
    /// Answers under this key: nobody need wait for another's while it holds.
    Page,
    /// That one answer: it says nothing about others under this key, and those who waited need not wait any longer.
    Answer,
    /// Whatever was asked of the origin before it was there: it was removed meanwhile. What is asked for from now on is
    /// written over it.
    Removed,
}

impl Unshared {
    /// As the section has it; `None` where it is neither.
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
    /// A mark for so many `seconds`, about an answer with these facts.
    #[must_use]
    pub fn new(key: &[u8], meta: &Meta, known: Vec<(u64, u64)>, says: Unshared, seconds: u32) -> Mark {
        let lifetime = Lifetime { seconds, source: LifetimeSource::None };
        let (etag, vary, partial) = (None, Vec::new(), None);
        let of = Envelope {
            key: key.into(),
            variant: Box::default(),
            meta: Meta { lifetime, etag, vary, partial, implicit: false, ..meta.clone() },
            fields: FieldList::new(),
            trailers: None,
            tags: Box::default(),
            known,
            seq: 0,
            body: BodyInfo::default(),
        };
        Mark { of, says }
    }

    /// What stands for `seconds` in the place of what was removed at `now`. Its status tells nothing (410, "gone").
    #[must_use]
    pub fn of_removal(key: &[u8], now: WallTime, seconds: u32) -> Mark {
        // The bytes that earlier versions wrote; nothing of them is ever served stale.
        let policy = Policy { stale_if_error: StaleIfError::Set(86_400), ..Policy::default() };
        let meta = Meta::of(410, &[], &policy, now, now);
        Mark::new(key, &meta, Vec::new(), Unshared::Removed, seconds)
    }

    /// Appends it as bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.of.head().write_with(out, |out| section(tag::UNSHARED, &self.says.content(), out));
    }
}
