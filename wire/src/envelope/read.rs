//! The parser of envelopes. The input comes from servers that other hosts on their network can write to: no length is
//! trusted, and memory use is at most the size of the input plus a few KiB.

use super::{
    BodyInfo, BodySplit, Envelope, EnvelopeError, FACTS, FIXED, MAGIC, MAX_HEAD, MAX_LINES, Mark, PartHead,
    SOURCES, SUM, Unshared, VERSION, bit, sum, tag,
};
use larder_semantics::cache_control::MAX_DELTA;
use larder_semantics::date;
use larder_semantics::entity_tag::is_entity_tag;
use larder_semantics::field::{Field, FieldList, first, is_token, trim};
use larder_semantics::freshness::Lifetime;
use larder_semantics::policy::Policy;
use larder_semantics::range::HeldRange;
use larder_semantics::storable::is_never_stored;
use larder_semantics::stored::{Meta, Uncommon};
use larder_semantics::vary::{self, MAX_NAMES};
use larder_stdx::clock::WallTime;

/// The last second of a date (year 9999).
const LAST_TIME: u64 = 253_402_300_799;

/// The length of the head at the start of `bytes`, so that as much can be read; `None` if they are too few.
///
/// # Errors
/// They do not begin a supported envelope.
pub fn head_length(bytes: &[u8]) -> Result<Option<usize>, EnvelopeError> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] {
        return Err(EnvelopeError::Foreign);
    }
    match bytes.get(4) {
        Some(&VERSION) | None => {}
        Some(version) => return Err(EnvelopeError::Version(*version)),
    }
    let Some(length) = u32_at(bytes, 8) else { return Ok(None) };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    match length {
        _ if length > MAX_HEAD => Err(EnvelopeError::TooLarge),
        _ if length < FIXED + SUM => Err(EnvelopeError::Short),
        _ => Ok(Some(length)),
    }
}

impl Envelope {
    /// Parses the head at the start of `bytes`, and returns its length; the body behind it is not examined
    /// ([`BodyInfo::check`]).
    ///
    /// # Errors
    /// The reason why it cannot be used; [`EnvelopeError::NoFacts`] if an application wrote it.
    pub fn read(bytes: &[u8]) -> Result<(Envelope, usize), EnvelopeError> {
        let (mut raw, length) = Raw::read_response(bytes)?;
        let meta = raw.meta().ok_or(EnvelopeError::NoFacts)?;
        Ok((raw.envelope(meta), length))
    }

    /// As [`Envelope::read`]; absent facts are computed from status and fields as if the response had arrived from an
    /// origin at its `Date`, or at `now` if that is earlier or there is no `Date`. So its age, and the comparison with
    /// purges, do not depend on the time of reading.
    ///
    /// The fields are as the application wrote them: the caller asks `semantics::storable` whether such a response may be
    /// stored at all, and keeps the result of `semantics::stored::stored_fields`.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub fn read_filled(
        bytes: &[u8],
        policy: &Policy,
        now: WallTime,
    ) -> Result<(Envelope, usize), EnvelopeError> {
        let (mut raw, length) = Raw::read_response(bytes)?;
        if let Some(meta) = raw.meta() {
            return Ok((raw.envelope(meta), length));
        }
        let fields = raw.fields.view();
        let made = first(&fields, "date").and_then(date::parse).map_or(now, |it| it.min(now));
        let meta = Meta::of(raw.status, &fields, policy, made, made);
        if !meta.vary().is_empty() && raw.variant.is_empty() {
            return Err(EnvelopeError::NoVariant);
        }
        Ok((raw.envelope(meta), length))
    }
}

impl Mark {
    /// Parses a mark.
    ///
    /// # Errors
    /// The reason why it cannot be used; [`EnvelopeError::Section`] also for a response.
    pub fn read(bytes: &[u8]) -> Result<Mark, EnvelopeError> {
        let (mut raw, length) = Raw::read(bytes)?;
        let says = raw.unshared.ok_or(EnvelopeError::Section(tag::UNSHARED))?;
        let meta = raw.meta().ok_or(EnvelopeError::NoFacts)?;
        if raw.body != BodyInfo::default() || bytes.len() != length {
            return Err(EnvelopeError::BodyLength);
        }
        Ok(Mark { of: raw.envelope(meta), says })
    }
}

impl PartHead {
    /// The bytes of part `index`, if `value` is that part of that generation, complete and undamaged.
    ///
    /// # Errors
    /// [`EnvelopeError::Short`], [`EnvelopeError::ForeignPart`], [`EnvelopeError::BodyLength`] (of a body of `length` bytes), [`EnvelopeError::BodySum`].
    pub fn open<'a>(
        value: &'a [u8],
        parts: &BodySplit,
        length: u64,
        index: u32,
    ) -> Result<&'a [u8], EnvelopeError> {
        let (generation, part) =
            (u64_at(value, 0).ok_or(EnvelopeError::Short)?, u32_at(value, 8).ok_or(EnvelopeError::Short)?);
        let expected = u32_at(value, 12).ok_or(EnvelopeError::Short)?;
        if generation != parts.generation || part != index {
            return Err(EnvelopeError::ForeignPart);
        }
        let body = &value[PartHead::LENGTH..];
        let before = parts.size.saturating_mul(index.into());
        if body.len() as u64 != parts.size.min(length.saturating_sub(before)) {
            return Err(EnvelopeError::BodyLength);
        }
        if sum(body) == expected { Ok(body) } else { Err(EnvelopeError::BodySum) }
    }
}

/// A page of the older form, from applications without envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Older<'a> {
    /// The `Content-Type`, as a field value.
    pub content_type: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// The longest content type of the older form, bytes.
const MAX_CONTENT_TYPE: usize = 255;

/// Parses `content-type NUL body`. The form does not show whether the body is complete.
///
/// # Errors
/// [`EnvelopeError::Foreign`]: there is no NUL, or the part before it is not a media type.
pub fn older(bytes: &[u8]) -> Result<Older<'_>, EnvelopeError> {
    let window = &bytes[..bytes.len().min(MAX_CONTENT_TYPE + 1)];
    let at = memchr::memchr(0, window).ok_or(EnvelopeError::Foreign)?;
    let content_type = trim(&bytes[..at]);
    let is_type = content_type.contains(&b'/') && content_type.iter().all(|it| is_text(*it) && it.is_ascii());
    if !is_type {
        return Err(EnvelopeError::Foreign);
    }
    Ok(Older { content_type, body: &bytes[at + 1..] })
}

/// The sections as found.
#[derive(Default)]
struct Raw<'a> {
    status: u16,
    key: &'a [u8],
    fields: FieldList,
    /// Without the values in sections of their own.
    facts: Option<Meta>,
    etag: Option<&'a [u8]>,
    vary: Vec<Box<str>>,
    variant: &'a [u8],
    partial: Option<HeldRange>,
    trailers: Option<FieldList>,
    tags: Vec<u64>,
    known: Vec<(u64, u64)>,
    seq: u64,
    body: BodyInfo,
    unshared: Option<Unshared>,
}

impl<'a> Raw<'a> {
    fn read_response(bytes: &'a [u8]) -> Result<(Raw<'a>, usize), EnvelopeError> {
        let (raw, length) = Raw::read(bytes)?;
        if raw.unshared.is_some() {
            return Err(EnvelopeError::Mark);
        }
        // A status that cannot have been stored is never served: a client that waits for a final response would take the
        // next one for it.
        if is_never_stored(raw.status) {
            return Err(EnvelopeError::Status(raw.status));
        }
        if (raw.status == 206) != raw.partial.is_some() {
            return Err(EnvelopeError::Section(tag::PARTIAL));
        }
        if raw.status == 204 && raw.body.length > 0 {
            return Err(EnvelopeError::BodyLength);
        }
        Ok((raw, length))
    }

    fn read(bytes: &'a [u8]) -> Result<(Raw<'a>, usize), EnvelopeError> {
        let length = head_length(bytes)?.ok_or(EnvelopeError::Short)?;
        let head = bytes.get(..length).ok_or(EnvelopeError::Short)?;
        let end = length - SUM;
        if u32_at(head, end) != Some(sum(&head[..end])) {
            return Err(EnvelopeError::HeadSum);
        }
        if head[5] != 0 {
            return Err(EnvelopeError::Flags(head[5]));
        }
        let status = u16::from_le_bytes([head[6], head[7]]);
        if !(100..=599).contains(&status) {
            return Err(EnvelopeError::Status(status));
        }
        let mut raw = Raw { status, ..Raw::default() };
        raw.body.sum = u32_at(head, 12).ok_or(EnvelopeError::Short)?;
        raw.body.length = u64_at(head, 16).ok_or(EnvelopeError::Short)?;
        let mut rest = &head[FIXED..end];
        let mut last = 0;
        while let Some(&tag) = rest.first() {
            let size =
                u32_at(rest, 1).and_then(|it| usize::try_from(it).ok()).ok_or(EnvelopeError::Section(tag))?;
            let content = rest[5..].get(..size).ok_or(EnvelopeError::Section(tag))?;
            if tag <= last {
                return Err(EnvelopeError::Section(tag));
            }
            last = tag;
            raw.take(tag, content).ok_or(EnvelopeError::Section(tag))?;
            rest = &rest[5 + size..];
        }
        if raw.key.is_empty() {
            return Err(EnvelopeError::NoKey);
        }
        Ok((raw, length))
    }

    /// The facts with the values in sections of their own; `None` if they are absent.
    fn meta(&mut self) -> Option<Meta> {
        let facts = self.facts.take()?;
        Some(Meta {
            status: self.status,
            etag: self.etag.map(Into::into),
            uncommon: Uncommon::new(std::mem::take(&mut self.vary), self.partial),
            ..facts
        })
    }

    fn envelope(self, meta: Meta) -> Envelope {
        Envelope {
            key: self.key.into(),
            variant: self.variant.into(),
            meta,
            fields: self.fields,
            trailers: self.trailers,
            tags: self.tags.into(),
            known: self.known,
            seq: self.seq,
            body: self.body,
        }
    }

    /// Parses one section; `None` if it is invalid for its tag.
    fn take(&mut self, tag: u8, content: &'a [u8]) -> Option<()> {
        match tag {
            tag::KEY => self.key = content,
            tag::FIELDS => self.fields = lines(content)?,
            tag::FACTS => self.facts = Some(facts(content)?),
            tag::ETAG => self.etag = Some(content).filter(|it| is_entity_tag(it)).map(Some)?,
            tag::VARY => self.vary = names(content)?,
            tag::VARIANT => self.variant = content,
            tag::PARTIAL => self.partial = Some(partial(content)?),
            tag::TRAILERS => self.trailers = Some(lines(content)?),
            tag::TAGS => self.tags = numbers(content)?.collect(),
            tag::KNOWN => {
                let mut numbers = numbers(content)?;
                (content.len() % 16 == 0).then_some(())?;
                // Allocated at once: a growing vector would take twice as much.
                self.known = Vec::with_capacity(content.len() / 16);
                while let (Some(log), Some(entry)) = (numbers.next(), numbers.next()) {
                    self.known.push((log, entry));
                }
            }
            tag::SEQ => self.seq = only(content)?,
            tag::PARTS => {
                let [generation, size, count] = array(numbers(content)?)?;
                let parts = BodySplit::of(generation, self.body.length, size)?;
                self.body.parts = Some(parts).filter(|it| u64::from(it.count) == count).map(Some)?;
            }
            tag::PACKED => self.body.packed = Some(only(content)?),
            tag::UNSHARED => self.unshared = Some(Unshared::of(content)?),
            tag::OPTIONAL.. => {}
            _ => return None,
        }
        Some(())
    }
}

/// Field lines, `Name: value` and CRLF each.
fn lines(text: &[u8]) -> Option<FieldList> {
    let count = memchr::memchr_iter(b'\n', text).take(MAX_LINES + 1).count();
    if count > MAX_LINES {
        return None;
    }
    // Nothing is allocated for the lines but the list: the bytes may be hostile.
    let mut list = FieldList::with_capacity(count, text.len() + count);
    let mut rest = text;
    while !rest.is_empty() {
        let feed = memchr::memchr(b'\n', rest)?;
        let line = rest[..feed].strip_suffix(b"\r")?;
        let field = field(line)?;
        list.push(field.name, field.value);
        rest = &rest[feed + 1..];
    }
    Some(list)
}

fn field(line: &[u8]) -> Option<Field<'_>> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    // All bytes in any case: several at a time.
    let sound = is_token(name) && value.iter().fold(true, |all, it| all & is_text(*it));
    let name = std::str::from_utf8(name).ok()?;
    sound.then_some(Field { name, value })
}

/// The bytes permitted in a field value (RFC 9110 §5.5).
fn is_text(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

/// The names of `Vary`: lower case, ascending, separated by commas. None of the fields that larder sends itself: earlier
/// versions stored such variants, by the values of clients.
fn names(text: &[u8]) -> Option<Vec<Box<str>>> {
    let mut names: Vec<Box<str>> = Vec::new();
    for name in text.split(|it| *it == b',') {
        let follows = names.last().is_none_or(|before| before.as_bytes() < name);
        let sound = is_token(name) && !name.iter().any(u8::is_ascii_uppercase);
        if !follows || !sound || names.len() == MAX_NAMES {
            return None;
        }
        let name = std::str::from_utf8(name).ok()?;
        if vary::is_client_fact(name) {
            return None;
        }
        names.push(name.into());
    }
    Some(names)
}

fn facts(bytes: &[u8]) -> Option<Meta> {
    let bytes: &[u8; FACTS] = bytes.try_into().ok()?;
    let time = |at| u64_at(bytes, at).filter(|it| *it <= LAST_TIME).map(WallTime);
    let seconds = |at| u32_at(bytes, at);
    let bits = bytes[49];
    let known = bit::MUST_REVALIDATE | bit::NO_CACHE | bit::LAST_MODIFIED | bit::IMPLICIT;
    let last_modified = time(24)?;
    let has_last_modified = bits & bit::LAST_MODIFIED != 0;
    if bits & !known != 0 || !has_last_modified && last_modified.0 != 0 {
        return None;
    }
    Some(Meta {
        status: 0,
        request_time: time(0)?,
        response_time: time(8)?,
        date: time(16)?,
        initial_age: seconds(32).filter(|it| *it <= MAX_DELTA)?,
        lifetime: Lifetime {
            seconds: seconds(36).filter(|it| *it <= MAX_DELTA)?,
            source: *SOURCES.get(usize::from(bytes[48]))?,
        },
        must_revalidate: bits & bit::MUST_REVALIDATE != 0,
        no_cache: bits & bit::NO_CACHE != 0,
        implicit: bits & bit::IMPLICIT != 0,
        stale_while_revalidate: seconds(40)?,
        stale_if_error: seconds(44)?,
        etag: None,
        last_modified: has_last_modified.then_some(last_modified).into(),
        uncommon: Uncommon::default(),
    })
}

fn partial(content: &[u8]) -> Option<HeldRange> {
    let mut numbers = numbers(content)?;
    let part = HeldRange { first: numbers.next()?, last: numbers.next()?, complete: numbers.next() };
    let ordered = part.first <= part.last && part.complete.is_none_or(|it| part.last < it);
    (ordered && numbers.next().is_none()).then_some(part)
}

/// Eight-byte numbers, without further bytes.
fn numbers(content: &[u8]) -> Option<impl ExactSizeIterator<Item = u64> + '_> {
    let (numbers, rest) = content.as_chunks::<8>();
    rest.is_empty().then(|| numbers.iter().map(|it| u64::from_le_bytes(*it)))
}

fn array<const N: usize>(mut numbers: impl ExactSizeIterator<Item = u64>) -> Option<[u64; N]> {
    if numbers.len() != N {
        return None;
    }
    let mut array = [0; N];
    for it in &mut array {
        *it = numbers.next()?;
    }
    Some(array)
}

fn only(content: &[u8]) -> Option<u64> {
    array::<1>(numbers(content)?).map(|it| it[0])
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
