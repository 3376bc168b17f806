//! Keys in this crate: their hash in RAM, and the place of the host in their text. `semantics::key` defines the text.

use std::hash::{Hash, Hasher};

/// The hash of a key. Seeded at random for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u128);

impl KeyHash {
    /// Its place among `of`, a power of two: by bits that a table within the place does not use.
    pub(crate) fn place(self, of: usize) -> usize {
        (self.0 >> 64) as usize & (of - 1)
    }

    pub(crate) fn packed(self) -> PackedHash {
        PackedHash { low: self.0 as u64, high: (self.0 >> 64) as u64 }
    }
}

/// A [`KeyHash`] with word alignment, for use in every entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedHash {
    low: u64,
    high: u64,
}

impl PackedHash {
    pub(crate) fn whole(self) -> KeyHash {
        KeyHash(u128::from(self.high) << 64 | u128::from(self.low))
    }
}

impl Hash for PackedHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
    }
}

/// The place of a key's host, its port included: after `://`, up to the target (or up to the space before a target that
/// is no path).
pub(crate) fn authority(key: &[u8]) -> Option<(usize, usize)> {
    let start = key.windows(3).position(|it| it == b"://")? + 3;
    let length = key[start..].iter().position(|it| matches!(it, b'/' | b' '));
    Some((start, length.map_or(key.len(), |it| start + it)))
}
