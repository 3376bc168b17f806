//! The facts of an entry by which listings filter and sort.

use super::StoredArc;
use larder_semantics::tags;

/// Facts next to an entry's key, so that listings need not read its responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedFacts {
    /// Bytes of the bodies of all variants.
    pub bytes: u64,
    /// When the origin made the newest, wall seconds.
    pub epoch: u32,
    /// Until when the newest is fresh.
    pub expires: u32,
    /// The newest one's status.
    pub status: u16,
    /// A bit for each tag of any variant; several tags share a bit. Without the bit an entry does not have the tag.
    pub tags: u32,
}

/// The bit of a tag; all bits for "every tag".
pub(crate) fn tag_bit(tag: u64) -> u32 {
    if tag == tags::EVERY { u32::MAX } else { 1 << (tag >> 59) }
}

impl ListedFacts {
    pub fn of(variants: &[StoredArc]) -> ListedFacts {
        let bytes = variants.iter().map(|it| it.body.len()).sum();
        let Some(newest) = variants.first() else {
            return ListedFacts { bytes, epoch: 0, expires: 0, status: 0, tags: 0 };
        };
        let meta = &newest.meta;
        let epoch = meta.response_time.0.saturating_sub(u64::from(meta.initial_age));
        let seconds = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
        let expires = seconds(epoch.saturating_add(u64::from(meta.lifetime.seconds)));
        let all = variants.iter().flat_map(|it| it.tags().iter());
        let tags = all.fold(0, |bits, it| bits | tag_bit(*it));
        ListedFacts { bytes, epoch: seconds(epoch), expires, status: meta.status, tags }
    }
}
