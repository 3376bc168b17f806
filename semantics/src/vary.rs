//! Secondary keys: which request fields select a variant (RFC 9111 §4.1).

use crate::field::Field;

/// Reads every `Vary` line: the names, lower case, sorted, without duplicates; `None` for `*` (or for a
/// value that is not a list of names, which can never be matched safely).
#[must_use]
pub fn names(fields: &[Field<'_>]) -> Option<Vec<Box<str>>> {
    let _ = fields;
    todo!()
}

/// Appends the variant key of a request: for each name its combined, normalised value. Two requests have
/// equal variant keys only if RFC 9111 §4.1 lets them share (whitespace, line combining; for
/// `Accept-Encoding` and `Accept-Language` also order, case and quality). Empty `names` append nothing.
pub fn write_key(names: &[Box<str>], request: &[Field<'_>], out: &mut Vec<u8>) {
    let _ = (names, request, out);
    todo!()
}
