//! Partial responses: kept, served from, completed and combined (RFC 9111 §3.3, §3.4, RFC 9110 §15.3.7.3).

use crate::stored::Meta;

/// Which part of a representation is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of the first byte that is held.
    pub first: u64,
    /// Offset of the last byte that is held, inclusive.
    pub last: u64,
    /// Length of the whole representation, where known.
    pub complete: Option<u64>,
}

/// What can be made of two parts of the same representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// They touch or overlap: one part, and whether it is the whole now.
    Into {
        /// The union.
        part: Part,
        /// Every byte is held.
        whole: bool,
    },
    /// They cannot be combined; the new one replaces the old.
    Replace,
}

/// Whether `new` may be combined with `old`: both share a strong validator and touch (RFC 9111 §3.4).
#[must_use]
pub fn combine(old: &Meta, new: &Meta) -> Combine {
    let _ = (old, new);
    todo!()
}
