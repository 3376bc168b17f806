//! The ids of finished requests that were logged or streamed, for `explain`. Other requests have none.

use larder_stdx::clock;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 2025-01-01, in unix milliseconds.
const BEGINNING: u64 = 1_735_689_600_000;

/// The bits of an id: eight characters of five bits each, so that ids sort equally as text and as numbers.
const BITS: u32 = 40;

/// Digits and letters without `i`, `l`, `o` and `u`, which are easily misread (Crockford's base 32), in the order of
/// ASCII.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The id of one finished request: unique in the life of this process, increasing. Eight characters as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(u64);

impl RequestId {
    /// Parses the text of a [`RequestId`]; `None` for other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 8 {
            return None;
        }
        text.bytes()
            .try_fold(0, |sum: u64, it| {
                let digit = DIGITS.iter().position(|digit| *digit == it.to_ascii_lowercase())?;
                Some(sum << 5 | digit as u64)
            })
            .map(RequestId)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |at: u32| char::from(DIGITS[(self.0 >> (at * 5) & 31) as usize]);
        (0..8).rev().try_for_each(|at| fmt::Write::write_char(f, digit(at)))
    }
}

/// Assigns ids, for all workers.
pub struct Ids(AtomicU64);

impl Default for Ids {
    /// The first id is the time of the start in milliseconds: it differs from all ids of an earlier process with fewer
    /// than a thousand logged requests a second.
    fn default() -> Self {
        Self(AtomicU64::new((clock::unix_micros(clock::precise_micros()) / 1000).saturating_sub(BEGINNING)))
    }
}

impl Ids {
    /// The next id.
    pub fn next(&self) -> RequestId {
        RequestId(self.0.fetch_add(1, Relaxed) & ((1 << BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written_and_sort_as_text() {
        let numbers = [0, 1, 31, 32, 1 << 20, (1 << 35) - 1, 1 << 35, (1 << BITS) - 1];
        let texts: Vec<String> = numbers.iter().map(|it| RequestId(*it).to_string()).collect();
        assert!(texts.is_sorted() && texts.iter().all(|it| it.len() == 8), "{texts:?}");
        let read: Vec<_> = texts.iter().map(|it| RequestId::parse(it)).collect();
        assert_eq!(numbers.map(|it| Some(RequestId(it))).to_vec(), read);
        assert_eq!(None, RequestId::parse("0000000u"));
        assert_eq!(None, RequestId::parse(""));
    }

    #[test]
    fn each_is_another() {
        let ids = Ids::default();
        let (one, two) = (ids.next(), ids.next());
        assert!(one < two && one.to_string() < two.to_string());
    }
}
