//! The value of `cache.max_object` that holds the pages which exceed it.

use super::change::{SafeChange, SafeSetting};
use larder_stdx::size::ByteSize;

const MIB: u64 = 1 << 20;

/// A page that exceeds `cache.max_object`, and would be stored otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargePage {
    /// The bytes of its body.
    pub length: u64,
    /// The remembered requests for it.
    pub requests: u64,
}

/// A value that holds such pages.
pub(super) struct LargeSetting {
    /// The change.
    pub change: SafeChange,
    /// The remembered requests that would have been hits: each page is fetched once.
    pub helped: u64,
    /// All remembered requests for such pages.
    pub all: u64,
}

/// The value that holds nine of ten repeated requests for these pages, as far as a body of `most` bytes is the largest that a tier keeps;
/// `None` if no page that fits was requested again.
pub(super) fn setting_for(pages: &[LargePage], most: u64) -> Option<LargeSetting> {
    let most = most / MIB * MIB;
    let repeated = |it: &LargePage| it.requests.saturating_sub(1);
    let mut fitting: Vec<&LargePage> =
        pages.iter().filter(|it| it.length <= most && it.requests > 1).collect();
    fitting.sort_by_key(|it| it.length);
    let whole: u64 = fitting.iter().map(|it| repeated(it)).sum();
    let mut held = 0;
    let largest = fitting.iter().find(|it| {
        held += repeated(it);
        held.saturating_mul(10) >= whole.saturating_mul(9)
    })?;
    // An eighth for growth.
    let size = (largest.length + largest.length / 8).next_multiple_of(MIB).min(most);
    let kept = || fitting.iter().filter(|it| it.length <= size);
    let (number, bytes) = (kept().count(), kept().map(|it| it.length).sum::<u64>());
    let pages_are = if number == 1 { "1 page of".to_owned() } else { format!("{number} pages of together") };
    let change = SafeChange::Configuration {
        sentence: format!(
            "Bodies of up to {} are stored: {pages_are} {} MiB, requested more than once.",
            ByteSize(size),
            bytes.div_ceil(MIB)
        )
        .into(),
        settings: vec![SafeSetting::MaxObject(size)],
    };
    let all = pages.iter().map(|it| it.requests).sum();
    Some(LargeSetting { change, helped: kept().map(|it| repeated(it)).sum(), all })
}
