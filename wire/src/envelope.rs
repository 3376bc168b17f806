//! The envelope: the byte form of a stored response, in the fleet and as the head of a disk record. Parsing is in `read`;
//! storage, and the decision whether a response may be used, are not here.
//!
//! ```text
//! 0      4  magic, 93 6c 72 64                     all numbers are little-endian
//! 4      1  version, 1
//! 5      1  flags, 0
//! 6      2  status code
//! 8      4  length of the head: everything here, the last checksum included
//! 12     4  CRC-32 of the body as stored
//! 16     8  length of the body as stored
//! 24        sections in ascending order of their tags, each at most once:
//!           tag (1), length (4), content
//! -4     4  CRC-32 of the head before it
//! ```
//!
//! CRC-32 is that of zlib, which every language has: an application may write envelopes of its own
//! (docs/fleet-envelope.md). A section with a tag of 128 and above may be skipped; any other unknown one makes the
//! envelope invalid. An application omits the facts, which are then computed from its fields.

mod mark;
mod read;

pub use mark::{Mark, Unshared};
pub use read::{Older, head_length, older};

use larder_semantics::field::FieldList;
use larder_semantics::freshness::LifetimeSource;
use larder_semantics::stored::Meta;

/// The first bytes of every envelope. The first byte occurs neither in text nor in UTF-8, so that an older `content-type
/// NUL body` is never taken for one.
pub const MAGIC: [u8; 4] = [0x93, b'l', b'r', b'd'];

/// The version that is written, and the only one that is accepted.
pub const VERSION: u8 = 1;

/// The most bytes of a head.
pub const MAX_HEAD: usize = 1 << 20;

/// The most field lines of one section.
pub const MAX_LINES: usize = 256;

/// The most parts of one body.
pub const MAX_PARTS: u32 = 1 << 16;

/// Bytes before the first section.
const FIXED: usize = 24;

/// Bytes of the checksum at the end.
const SUM: usize = 4;

/// Tags of the sections, in their order.
mod tag {
    pub(super) const KEY: u8 = 1;
    pub(super) const FIELDS: u8 = 2;
    pub(super) const FACTS: u8 = 3;
    pub(super) const ETAG: u8 = 4;
    pub(super) const VARY: u8 = 5;
    pub(super) const VARIANT: u8 = 6;
    pub(super) const PARTIAL: u8 = 7;
    pub(super) const TRAILERS: u8 = 8;
    pub(super) const TAGS: u8 = 9;
    pub(super) const KNOWN: u8 = 10;
    pub(super) const SEQ: u8 = 11;
    pub(super) const PARTS: u8 = 12;
    pub(super) const PACKED: u8 = 13;
    pub(super) const UNSHARED: u8 = 14;
    /// Sections from this tag on may be skipped.
    pub(super) const OPTIONAL: u8 = 128;
}

/// Bits of the facts' last byte.
mod bit {
    pub(super) const MUST_REVALIDATE: u8 = 1;
    pub(super) const NO_CACHE: u8 = 2;
    pub(super) const LAST_MODIFIED: u8 = 4;
    pub(super) const IMPLICIT: u8 = 8;
}

/// The sources of lifetimes, by their number in the facts. New ones are added at the end.
const SOURCES: [LifetimeSource; 11] = [
    LifetimeSource::None,
    LifetimeSource::Override,
    LifetimeSource::Targeted,
    LifetimeSource::SMaxAge,
    LifetimeSource::MaxAge,
    LifetimeSource::Expires,
    LifetimeSource::StatusDefault,
    LifetimeSource::RouteDefault,
    LifetimeSource::Heuristic,
    LifetimeSource::Purged,
    LifetimeSource::Unfollowed,
];

/// The number of each: a match, so that a new one cannot be forgotten.
const fn source_number(source: LifetimeSource) -> u8 {
    match source {
        LifetimeSource::None => 0,
        LifetimeSource::Override => 1,
        LifetimeSource::Targeted => 2,
        LifetimeSource::SMaxAge => 3,
        LifetimeSource::MaxAge => 4,
        LifetimeSource::Expires => 5,
        LifetimeSource::StatusDefault => 6,
        LifetimeSource::RouteDefault => 7,
        LifetimeSource::Heuristic => 8,
        // Other versions know no difference, and there is none but the reason in statistics.
        LifetimeSource::Purged | LifetimeSource::Unread | LifetimeSource::RulesDropped => 9,
        LifetimeSource::Unfollowed => 10,
    }
}

/// The parsed head of an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The full key, to be compared with the requested one. Never empty.
    pub key: Box<[u8]>,
    /// The variant key; empty without `Vary`.
    pub variant: Box<[u8]>,
    /// Status and facts.
    pub meta: Meta,
    /// The stored fields, in order.
    pub fields: FieldList,
    /// The trailer section, if there was one.
    pub trailers: Option<FieldList>,
    /// Hashes of its tags.
    pub tags: Box<[u64]>,
    /// The position of each purge log of the fleet when the response was requested from the origin: log, entry.
    pub known: Vec<(u64, u64)>,
    /// The last purge of the writing node: for the disk tier; otherwise 0.
    pub seq: u64,
    /// The description of the body.
    pub body: BodyInfo,
}

/// An envelope to be written, borrowed from its parts.
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeHead<'a> {
    /// [`Envelope::key`].
    pub key: &'a [u8],
    /// [`Envelope::variant`].
    pub variant: &'a [u8],
    /// [`Envelope::meta`].
    pub meta: &'a Meta,
    /// [`Envelope::fields`] as text: `Name: value` and CRLF each.
    pub fields: &'a [u8],
    /// [`Envelope::trailers`].
    pub trailers: Option<&'a FieldList>,
    /// [`Envelope::tags`].
    pub tags: &'a [u64],
    /// [`Envelope::known`].
    pub known: &'a [(u64, u64)],
    /// [`Envelope::seq`].
    pub seq: u64,
    /// [`Envelope::body`].
    pub body: BodyInfo,
}

/// The description of a body before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyInfo {
    /// Stored bytes: after the head, or in all parts together.
    pub length: u64,
    /// Their CRC-32, as computed by [`sum`] and [`EnvelopeSum`].
    pub sum: u32,
    /// Its split into several values.
    pub parts: Option<BodySplit>,
    /// Its uncompressed length, if it is compressed (zstd).
    pub packed: Option<u64>,
}

impl BodyInfo {
    /// The description of an unmodified body after the head.
    #[must_use]
    pub fn of(body: &[u8]) -> BodyInfo {
        BodyInfo { length: body.len() as u64, sum: sum(body), parts: None, packed: None }
    }

    /// Checks the length and the checksum of `body`.
    ///
    /// # Errors
    /// [`EnvelopeError::BodyLength`], [`EnvelopeError::BodySum`].
    pub fn check(&self, body: &[u8]) -> Result<(), EnvelopeError> {
        if body.len() as u64 != self.length {
            return Err(EnvelopeError::BodyLength);
        }
        if sum(body) == self.sum { Ok(()) } else { Err(EnvelopeError::BodySum) }
    }
}

/// The split of a body into several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodySplit {
    /// The random name of this generation: every part has it, so that parts of two are never mixed.
    pub generation: u64,
    /// Bytes of every part but the last, without its [`PartHead`]; above zero.
    pub size: u64,
    /// The number of parts, [`MAX_PARTS`] at most.
    pub count: u32,
}

impl BodySplit {
    /// The split of a body of `length` bytes into parts of `size`; `None` if there would be too many, or none.
    #[must_use]
    pub fn of(generation: u64, length: u64, size: u64) -> Option<BodySplit> {
        let count = length.checked_add(size.checked_sub(1)?)?.checked_div(size)?;
        let count = u32::try_from(count).ok().filter(|it| (1..=MAX_PARTS).contains(it))?;
        Some(BodySplit { generation, size, count })
    }
}

/// The beginning of each part of a split body: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHead {
    /// [`BodySplit::generation`].
    pub generation: u64,
    /// The index of the part, from zero.
    pub index: u32,
    /// CRC-32 of the bytes that follow.
    pub sum: u32,
}

impl PartHead {
    /// Its number of bytes.
    pub const LENGTH: usize = 16;

    /// Appends the head of the part `bytes`.
    pub fn write(generation: u64, index: u32, bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&generation.to_le_bytes());
        out.extend_from_slice(&index.to_le_bytes());
        out.extend_from_slice(&sum(bytes).to_le_bytes());
    }
}

/// The reason why bytes are not a usable envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvelopeError {
    /// The beginning is not that of an envelope.
    Foreign,
    /// Another version.
    Version(u8),
    /// Truncated.
    Short,
    /// The head is too large.
    TooLarge,
    /// The head's checksum differs.
    HeadSum,
    /// An unknown flag.
    Flags(u8),
    /// Not a status code, or one that is never stored.
    Status(u16),
    /// The section with this tag is unknown, out of order, or invalid.
    Section(u8),
    /// There is no key.
    NoKey,
    /// It is a [`Mark`], not a response.
    Mark,
    /// There are no facts, and the reader does not compute them.
    NoFacts,
    /// `Vary` has names, and the variant key is missing.
    NoVariant,
    /// The body has another length.
    BodyLength,
    /// The body's checksum differs.
    BodySum,
    /// A part belongs to another body, or is another part.
    ForeignPart,
}

impl std::fmt::Display for EnvelopeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EnvelopeError::Foreign => {
                f.write_str("the bytes do not start with the magic number of an envelope")
            }
            EnvelopeError::Version(it) => write!(f, "the envelope has version {it}; supported is {VERSION}"),
            EnvelopeError::Short => f.write_str("the envelope is truncated"),
            EnvelopeError::TooLarge => write!(f, "the envelope head exceeds {MAX_HEAD} bytes"),
            EnvelopeError::HeadSum => f.write_str("the checksum of the envelope head does not match"),
            EnvelopeError::Flags(it) => write!(f, "the envelope has unknown flags {it:#04x}"),
            EnvelopeError::Status(it) => {
                write!(f, "the envelope has status {it}, which cannot be stored")
            }
            EnvelopeError::Section(it) => {
                write!(f, "section {it} of the envelope is unknown, misplaced or malformed")
            }
            EnvelopeError::NoKey => f.write_str("the envelope has no key"),
            EnvelopeError::Mark => f.write_str("the envelope is a hit-for-miss marker, not a response"),
            EnvelopeError::NoFacts => f.write_str("the envelope has no metadata of its response"),
            EnvelopeError::NoVariant => f.write_str("the envelope has Vary but no variant key"),
            EnvelopeError::BodyLength => f.write_str("the body length differs from the envelope"),
            EnvelopeError::BodySum => f.write_str("the checksum of the body does not match"),
            EnvelopeError::ForeignPart => f.write_str("a part belongs to a different body"),
        }
    }
}

impl std::error::Error for EnvelopeError {}

/// The CRC-32 of `bytes`: zlib's.
#[must_use]
pub fn sum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// [`sum`] of bytes in several pieces.
#[derive(Clone, Debug, Default)]
pub struct EnvelopeSum(crc32fast::Hasher);

impl EnvelopeSum {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum of all bytes.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

impl Envelope {
    /// Its parts, borrowed.
    #[must_use]
    pub fn head(&self) -> EnvelopeHead<'_> {
        EnvelopeHead {
            key: &self.key,
            variant: &self.variant,
            meta: &self.meta,
            fields: self.fields.text(),
            trailers: self.trailers.as_ref(),
            tags: &self.tags,
            known: &self.known,
            seq: self.seq,
            body: self.body,
        }
    }

    /// Appends the head as bytes; the body follows it, unless it is split into parts.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.head().write(out);
    }
}

impl EnvelopeHead<'_> {
    /// Appends the head as bytes; the body follows it, unless it is split into parts.
    ///
    /// A head larger than [`MAX_HEAD`], or with a field section of more than [`MAX_LINES`], is written but cannot be
    /// parsed: the caller checks the length first.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_with(out, |_| {});
    }

    /// [`EnvelopeHead::write`] with further sections after its own.
    fn write_with(&self, out: &mut Vec<u8>, more: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, 0]);
        out.extend_from_slice(&self.meta.status.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.body.sum.to_le_bytes());
        out.extend_from_slice(&self.body.length.to_le_bytes());
        self.write_sections(out);
        more(out);
        let length = out.len() - start + SUM;
        // A head of unbounded size is not readable either, with any length.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        out[start + 8..start + 12].copy_from_slice(&length.to_le_bytes());
        let sum = sum(&out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
    }

    fn write_sections(&self, out: &mut Vec<u8>) {
        section(tag::KEY, self.key, out);
        section(tag::FIELDS, self.fields, out);
        section(tag::FACTS, &facts(self.meta), out);
        if let Some(etag) = &self.meta.etag {
            section(tag::ETAG, etag, out);
        }
        if !self.meta.vary().is_empty() {
            section(tag::VARY, self.meta.vary().join(",").as_bytes(), out);
        }
        if !self.variant.is_empty() {
            section(tag::VARIANT, self.variant, out);
        }
        if let Some(part) = self.meta.partial() {
            numbers(tag::PARTIAL, [part.first, part.last].into_iter().chain(part.complete), out);
        }
        if let Some(trailers) = self.trailers {
            section(tag::TRAILERS, trailers.text(), out);
        }
        if !self.tags.is_empty() {
            numbers(tag::TAGS, self.tags.iter().copied(), out);
        }
        if !self.known.is_empty() {
            numbers(tag::KNOWN, self.known.iter().flat_map(|it| [it.0, it.1]), out);
        }
        if self.seq != 0 {
            numbers(tag::SEQ, [self.seq].into_iter(), out);
        }
        if let Some(parts) = &self.body.parts {
            numbers(tag::PARTS, [parts.generation, parts.size, parts.count.into()].into_iter(), out);
        }
        if let Some(length) = self.body.packed {
            numbers(tag::PACKED, [length].into_iter(), out);
        }
    }
}

fn section(tag: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(content);
}

/// A section of eight-byte numbers.
fn numbers(tag: u8, numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    let start = out.len();
    section(tag, &[], out);
    out.extend(numbers.flat_map(u64::to_le_bytes));
    let length = u32::try_from(out.len() - start - 5).unwrap_or(u32::MAX);
    out[start + 1..start + 5].copy_from_slice(&length.to_le_bytes());
}

/// Bytes of the facts.
const FACTS: usize = 50;

fn facts(meta: &Meta) -> [u8; FACTS] {
    let mut bits = 0;
    for (is_set, bit) in [
        (meta.must_revalidate, bit::MUST_REVALIDATE),
        (meta.no_cache, bit::NO_CACHE),
        (meta.last_modified.get().is_some(), bit::LAST_MODIFIED),
        (meta.implicit, bit::IMPLICIT),
    ] {
        bits |= if is_set { bit } else { 0 };
    }
    let mut out = [0; FACTS];
    out[..8].copy_from_slice(&meta.request_time.0.to_le_bytes());
    out[8..16].copy_from_slice(&meta.response_time.0.to_le_bytes());
    out[16..24].copy_from_slice(&meta.date.0.to_le_bytes());
    out[24..32].copy_from_slice(&meta.last_modified.get().unwrap_or_default().0.to_le_bytes());
    out[32..36].copy_from_slice(&meta.initial_age.to_le_bytes());
    out[36..40].copy_from_slice(&meta.lifetime.seconds.to_le_bytes());
    out[40..44].copy_from_slice(&meta.stale_while_revalidate.to_le_bytes());
    out[44..48].copy_from_slice(&meta.stale_if_error.to_le_bytes());
    out[48] = source_number(meta.lifetime.source);
    out[49] = bits;
    out
}

#[cfg(test)]
mod tests;
