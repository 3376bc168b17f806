//! The beginnings of a site's path patterns, side by side: most routes of a long list are excluded by one comparison of eight
//! bytes each.

use super::Matched;

/// Routes up to which every pattern is compared directly.
const FEW: usize = 4;

/// The first bytes of each route's pattern, in order. Empty for a short list of routes.
#[derive(Debug, Default)]
pub(super) struct Prefixes(Vec<FirstBytes>);

#[derive(Clone, Copy, Debug)]
struct FirstBytes {
    /// The first eight bytes, and zero for absent ones.
    word: u64,
    /// All bits of the bytes that count.
    mask: u64,
    /// The next eight bytes, in the same form.
    next: (u64, u64),
}

impl Prefixes {
    pub(super) fn of(routes: &[Matched]) -> Self {
        let all = routes.iter().map(|it| FirstBytes::of(it.prefix()));
        Self(if routes.len() > FEW { all.collect() } else { Vec::new() })
    }

    /// The first route that may match the normal form of a path, and for which `takes` is true.
    #[inline]
    pub(super) fn first(&self, path: &[u8], count: usize, takes: impl Fn(usize) -> bool) -> Option<usize> {
        if self.0.is_empty() {
            return (0..count).find(|it| takes(*it));
        }
        let (word, next) = (word(path), word(path.get(8..).unwrap_or_default()));
        let may = |it: &FirstBytes| (word & it.mask) == it.word && (next & it.next.1) == it.next.0;
        self.0.iter().enumerate().position(|(at, it)| may(it) && takes(at))
    }
}

impl FirstBytes {
    fn of(prefix: &[u8]) -> Self {
        let half = |bytes: &[u8]| (word(bytes), word(&[0xff; 8][..bytes.len().min(8)]));
        let (word, mask) = half(prefix);
        Self { word, mask, next: half(prefix.get(8..).unwrap_or_default()) }
    }
}

/// The first eight bytes as a number, with zero for absent ones.
fn word(bytes: &[u8]) -> u64 {
    if let Some(whole) = bytes.first_chunk() {
        return u64::from_le_bytes(*whole);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}
