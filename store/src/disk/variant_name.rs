//! The identity of a variant in the index of the disk tier.

use xxhash_rust::xxh3::Xxh3;

/// The index's identity of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariantName {
    /// The hash of the names in `Vary`; zero without any.
    pub names: u16,
    /// The hash of the names and the request's values.
    pub variant: u32,
}

impl VariantName {
    /// The older records that one of this name replaces: those of its variant, or all of them, expressed as zero, where
    /// it does not vary.
    pub fn displaces(self) -> u32 {
        if self.names == 0 { 0 } else { self.variant }
    }
}

/// The identity of a variant, by the directory's seed and its key's hash.
#[allow(clippy::cast_possible_truncation, reason = "parts of a hash")]
pub(crate) fn of(hash: u64, vary: &[Box<str>], variant: &[u8]) -> VariantName {
    let mut hasher = Xxh3::with_seed(hash);
    for name in vary {
        hasher.update(name.as_bytes());
        hasher.update(b"\n");
    }
    let names = if vary.is_empty() { 0 } else { (hasher.digest() as u16).max(1) };
    hasher.update(b"\n");
    hasher.update(variant);
    VariantName { names, variant: hasher.digest() as u32 }
}
