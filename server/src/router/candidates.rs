//! The literal beginnings and ends of a site's path patterns, in order: comparisons of eight bytes exclude nearly all routes of a
//! long list.

use super::Matched;

/// The routes of a site that may take a path.
#[derive(Debug, Default)]
pub(super) struct RouteCandidates(Vec<LiteralEnds>);

/// The first and last literal bytes of a route's pattern.
#[derive(Clone, Copy, Debug)]
struct LiteralEnds {
    first: MaskedWord,
    /// The eight bytes after the first eight.
    second: MaskedWord,
    last: MaskedWord,
}

/// Up to eight bytes.
#[derive(Clone, Copy, Debug)]
struct MaskedWord {
    /// The bytes, and zero for absent ones.
    word: u64,
    /// All bits of the bytes that count.
    mask: u64,
}

impl RouteCandidates {
    pub(super) fn of(routes: &[Matched]) -> Self {
        Self(routes.iter().map(LiteralEnds::of).collect())
    }

    /// The routes that may take an interpretation of a path, in order. The others do not.
    #[inline]
    pub(super) fn of_path(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        let (first, second) = (first_word(path), first_word(path.get(8..).unwrap_or_default()));
        let last = last_word(path);
        let may =
            move |it: &LiteralEnds| it.first.is_in(first) && it.second.is_in(second) && it.last.is_in(last);
        self.0.iter().enumerate().filter(move |it| may(it.1)).map(|it| it.0)
    }
}

impl LiteralEnds {
    fn of(route: &Matched) -> Self {
        let (begin, end) = route.path.literal_ends();
        // `/app/*` is also the route of `/app`.
        let begin = if route.takes_directory { begin.strip_suffix(b"/").unwrap_or(begin) } else { begin };
        let masked = |bytes: &[u8]| MaskedWord {
            word: first_word(bytes),
            mask: first_word(&[0xff; 8][..bytes.len().min(8)]),
        };
        Self {
            first: masked(begin),
            second: masked(begin.get(8..).unwrap_or_default()),
            last: MaskedWord { word: last_word(end), mask: last_word(&[0xff; 8][..end.len().min(8)]) },
        }
    }
}

impl MaskedWord {
    fn is_in(self, word: u64) -> bool {
        word & self.mask == self.word
    }
}

/// The first eight bytes as a number, with zero for absent ones.
fn first_word(bytes: &[u8]) -> u64 {
    if let Some(whole) = bytes.first_chunk() {
        return u64::from_le_bytes(*whole);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

/// The last eight bytes as a number, with zero for absent ones.
fn last_word(bytes: &[u8]) -> u64 {
    if let Some(whole) = bytes.last_chunk() {
        return u64::from_le_bytes(*whole);
    }
    let mut padded = [0; 8];
    padded[8 - bytes.len()..].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}
