//! Range requests (RFC 9110 §14): which bytes of a representation of known length are asked for.

/// The most parts that one answer has; more, or ranges that add up to over twice the object, are
/// answered with the whole object (statement 10).
pub const MAX_PARTS: usize = 16;

/// What a `Range` field selects. Ranges are (first, last), both inclusive, within the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Ignore the field: 200.
    Whole,
    /// 206 with one part.
    One(u64, u64),
    /// 206 `multipart/byteranges`, in the order asked for, overlaps coalesced.
    Many(Vec<(u64, u64)>),
    /// 416.
    Unsatisfiable,
}

/// Reads a `Range` value against a representation of `length` bytes.
#[must_use]
pub fn select(value: &[u8], length: u64) -> Selection {
    let _ = (value, length);
    todo!()
}

/// A valid single `Content-Range` (RFC 9110 §14.4): first, last, complete length where known.
#[must_use]
pub fn content_range(value: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let _ = value;
    todo!()
}
