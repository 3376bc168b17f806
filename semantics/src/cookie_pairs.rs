//! The pairs of `Cookie` lines (RFC 6265 §4.2.1). Their effects on the cache are in `cookies`.

use crate::field::{self, Field};

/// The pairs of every `Cookie` line, in order: name and value, without whitespace around them.
pub(crate) fn pairs<'a>(fields: &'a [Field<'a>]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    field::all(fields, "cookie").flat_map(pairs_of)
}

/// The pairs of one line.
pub(crate) fn pairs_of(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|it| *it == b';').map(|pair| {
        let pair = pair.trim_ascii();
        match pair.iter().position(|it| *it == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &b""[..]),
        }
    })
}
