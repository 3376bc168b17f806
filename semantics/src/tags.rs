//! The tags of a response, by which it can be purged: `Surrogate-Key`, `Cache-Tag`, and the groups of RFC 9875.

use xxhash_rust::xxh3::xxh3_64;

/// The hash that stands for a tag: the same in every process and on every node, since it is written down.
#[must_use]
pub fn hash(tag: &str) -> u64 {
    xxh3_64(tag.as_bytes())
}
