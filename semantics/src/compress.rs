//! The compression settings of a route, and the sets of codings that decisions use. The decisions are in `transcode`.

use crate::coding::Coding;

/// The default of `cache.compress.types`, as in the configuration: text, and formats without compression of their own. Pictures,
/// sound, video, archives, WOFF and unknown types are not compressed.
pub const DEFAULT_TYPES: &str = "text/*,application/json,application/x-ndjson,application/javascript,application/x-javascript,application/xml,\
    application/wasm,application/vnd.ms-fontobject,application/x-font-ttf,font/ttf,font/otf,font/collection,image/bmp,\
    image/x-icon,image/vnd.microsoft.icon,+json,+xml";

/// Compression settings of a route: `cache.compress`. Shared by all its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compress {
    /// `cache.compress.codings`: the codings to produce, the preferred one first among equal qualities.
    pub codings: CodingPreference,
    /// `cache.compress.min_size`: bytes of the smallest body that is coded.
    pub min_size: u64,
    /// `cache.compress.max_size`: bytes of the largest plain form, coded or decoded.
    pub max_size: u64,
    /// `cache.compress.types`: media types, lower case; `text/*` is every subtype, and `+xml` every type with that
    /// suffix.
    pub types: Vec<String>,
    /// `cache.compress.uncached`: whether responses that are not stored are coded while they are sent.
    pub uncached: bool,
}

impl Compress {
    /// With the defaults of its keys.
    #[must_use]
    pub fn usual() -> Compress {
        Compress {
            codings: CodingPreference::DEFAULT,
            min_size: 1 << 10,
            max_size: 8 << 20,
            types: DEFAULT_TYPES.split(',').map(str::to_owned).collect(),
            uncached: true,
        }
    }
}

/// Codings in order of preference: at most the three that larder produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodingPreference([Option<Coding>; 3]);

impl CodingPreference {
    /// The smallest result first.
    pub const DEFAULT: CodingPreference =
        CodingPreference([Some(Coding::Zstd), Some(Coding::Brotli), Some(Coding::Gzip)]);

    /// The producible ones of `codings`, each once, in their order.
    #[must_use]
    pub fn of(codings: impl IntoIterator<Item = Coding>) -> CodingPreference {
        let mut order = [None; 3];
        let mut free = order.iter_mut();
        let mut seen = Codings::NONE;
        for it in codings {
            let known = matches!(it, Coding::Gzip | Coding::Brotli | Coding::Zstd);
            if known && !seen.has(it) {
                seen = seen.with(it);
                if let Some(slot) = free.next() {
                    *slot = Some(it);
                }
            }
        }
        CodingPreference(order)
    }

    /// The codings in this order.
    pub fn iter(self) -> impl Iterator<Item = Coding> {
        self.0.into_iter().flatten()
    }
}

/// A set of codings; it never contains `Other`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codings(u8);

impl Codings {
    /// The empty set.
    pub const NONE: Codings = Codings(0);

    /// The set with these bits of [`Codings::bits`].
    #[must_use]
    pub fn from_bits(bits: u8) -> Codings {
        Codings(bits & 0b1_1111)
    }

    /// One bit for each coding, for an atomic.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether the set contains `coding`.
    #[must_use]
    pub fn has(self, coding: Coding) -> bool {
        self.0 & bit(coding) != 0
    }

    /// The set with `coding` in it.
    #[must_use]
    pub fn with(self, coding: Coding) -> Codings {
        Codings(self.0 | bit(coding))
    }

    /// The set without those of `other`.
    #[must_use]
    pub fn without(self, other: Codings) -> Codings {
        Codings(self.0 & !other.0)
    }
}

fn bit(coding: Coding) -> u8 {
    place(coding).map_or(0, |it| 1 << it)
}

/// The index of a coding's form among [`PLACES`]; `None` for `Other`. The codings that are never produced share one: only
/// a stored form has them.
#[must_use]
pub fn place(coding: Coding) -> Option<usize> {
    match coding {
        Coding::Identity => Some(0),
        Coding::Gzip => Some(1),
        Coding::Brotli => Some(2),
        Coding::Zstd => Some(3),
        Coding::Deflate | Coding::Several(_) => Some(4),
        Coding::Other => None,
    }
}

/// The largest number of forms of one representation, including the stored one.
pub const PLACES: usize = 5;
