//! The field encoder of one connection: a field that was sent before is indexed in the peer's dynamic table (RFC 7541
//! §2.3.2). The encoding of literals is in `encode`.

use super::encode::{self, PLAIN};
use super::huffman;
use super::table::OVERHEAD;

/// The first byte of an indexed field (RFC 7541 §6.1).
const INDEXED: u8 = 0x80;

/// Bytes of the table, as RFC 7541 §4.1 counts them, unless the peer permits less: the initial size of connections.
const MOST: usize = super::TABLE;
/// The slots of the lookup by hash: more than twice as many as a table of typical fields has entries.
const PLACES: usize = 128;
/// Consecutive slots that a hash may use.
const PROBES: usize = 4;
/// More than fit into the table if each has a name and a value of a byte.
const ENTRIES: usize = 128;
const _: () = assert!(ENTRIES > MOST / (OVERHEAD + 2));
/// The most bytes of a literal that enters the table: a longer one displaces too many others.
const LONGEST: usize = 256;
/// Names of the static table whose fields never enter the dynamic one: `:status`, which mostly has an index already;
/// `age`, `content-length` and `content-range`, which are short or never the same; `set-cookie`, since the length of the
/// output would reveal a secret (RFC 7541 §7.1).
const NEVER: u64 = 1 << 8 | 1 << 21 | 1 << 28 | 1 << 30 | 1 << 55;

/// Writes the field sections of one connection, in the order of sending. A field enters the table when it is sent the
/// second time, so that fields that differ in each response do not displace recurring ones.
#[derive(Debug)]
pub struct Encoder {
    /// `None` until a field could enter it.
    table: Option<Box<Table>>,
    /// The announced size of the table, bytes.
    announced_size: usize,
    /// The size that the peer permits now, and the minimum since the last announcement.
    limit: usize,
    min_size: usize,
}

/// The peer's table. Entries are compared by their literals as sent, without the first byte's flags: the same field in
/// another encoding is another entry.
#[derive(Debug)]
struct Table {
    /// The state of the field or name of each hash: see [`HashSlot`].
    places: [HashSlot; PLACES],
    /// By their numbers, of which the last [`Table::count`] are in use.
    entries: [EncoderEntry; ENTRIES],
    count: u16,
    /// The number of the next entry.
    next: u16,
    /// The literals of the entries in their order, and the number of bytes removed from its start so far.
    text: Vec<u8>,
    gone: u32,
    size: usize,
}

/// A tag, and the number of an entry, which may have been evicted; 0 for an empty slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HashSlot(u32);

/// Set in a slot with an entry; otherwise the field was sent once.
const HAS_ENTRY: u32 = 1 << 16;
/// The position of the tag, of which [`tag`] sets the last bit.
const TAG: u32 = 17;

#[derive(Clone, Copy, Debug, Default)]
struct EncoderEntry {
    start: u32,
    length: u16,
    /// The size as counted by RFC 7541 §4.1.
    size: u16,
}

/// The result of a lookup.
#[derive(Clone, Copy)]
enum FoundEntry {
    /// Its index (RFC 7541 §2.3.3).
    At(usize),
    /// Sent once.
    Once,
    Nothing,
}

/// The peer's knowledge of a field.
#[derive(Clone, Copy)]
enum Known {
    /// The whole field, by this index.
    Field(usize),
    /// Its name, by this index.
    Name(usize),
    /// None yet, but it recurs.
    Recurring,
    /// None.
    No,
}

/// A parsed literal without indexing.
#[derive(Clone, Copy)]
struct Literal<'a> {
    bytes: &'a [u8],
    /// The index of its name in the static table; 0 for a literal name.
    place: u8,
    /// The start of its value.
    value: usize,
}

/// A literal parsed before it is sent: one that is sent often is not parsed each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreparedLiteral {
    /// Of all its bytes, for [`Encoder::literal`].
    hash: u64,
    /// Offset of its value.
    value: u32,
    /// Place of its name in the static table; 0 if the name is a literal too.
    place: u8,
}

impl PreparedLiteral {
    /// Of what [`encode::compact_field`] makes, or [`encode::compact_name`]: then for [`Encoder::named_literal`].
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let (place, value) = Literal::name(bytes)?;
        Some(Self { hash: hash(bytes), value: u32::try_from(value).ok()?, place })
    }

    #[inline]
    fn with<'a>(&self, bytes: &'a [u8]) -> Literal<'a> {
        Literal { bytes, place: self.place, value: self.value as usize }
    }
}

impl Default for Encoder {
    fn default() -> Self {
        Self { table: None, announced_size: MOST, limit: MOST, min_size: MOST }
    }
}

impl Encoder {
    /// Sets the peer's `SETTINGS_HEADER_TABLE_SIZE`, from the next section on (RFC 7541 §4.2).
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = usize::try_from(limit).unwrap_or(MOST).min(MOST);
        self.min_size = self.min_size.min(self.limit);
        if let Some(table) = &mut self.table {
            table.evict(0, self.limit);
        }
    }

    /// Handles a section that was begun and not sent: the peer's table is emptied at the beginning of the next one.
    pub fn forget(&mut self) {
        (self.table, self.announced_size, self.min_size) = (None, MOST, 0);
    }

    /// Begins a section: required for every one.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.announced_size != self.limit || self.min_size != self.limit {
            self.resize(out);
        }
    }

    #[cold]
    fn resize(&mut self, out: &mut Vec<u8>) {
        if self.min_size < self.announced_size {
            encode::integer(0x20, 5, self.min_size, out);
            self.announced_size = self.min_size;
            if let Some(table) = &mut self.table {
                table.evict(0, self.announced_size);
            }
        }
        if self.announced_size != self.limit {
            encode::integer(0x20, 5, self.limit, out);
        }
        (self.announced_size, self.min_size) = (self.limit, self.limit);
    }

    /// Appends a block of `:status` and literals without indexing, as made by [`encode::compact_head`].
    pub fn block(&mut self, block: &[u8], out: &mut Vec<u8>) {
        if self.limit == 0 {
            return out.extend_from_slice(block);
        }
        let table = self.table.get_or_insert_with(Table::new);
        let mut rest = block;
        // `:status` mostly has an index.
        while let Some((first, after)) = rest.split_first().filter(|it| it.0 & 0x80 != 0) {
            out.push(*first);
            rest = after;
        }
        while let Some(literal) = Literal::first(rest) {
            rest = &rest[literal.bytes.len()..];
            table.write(literal, || hash(literal.bytes), self.limit, out);
        }
        debug_assert!(rest.is_empty(), "literals without indexing");
        out.extend_from_slice(rest);
    }

    /// Appends a literal without indexing of which `known` was made.
    #[inline]
    pub(crate) fn literal(&mut self, bytes: &[u8], known: PreparedLiteral, out: &mut Vec<u8>) {
        if self.limit == 0 {
            return out.extend_from_slice(bytes);
        }
        let table = self.table.get_or_insert_with(Table::new);
        table.write(known.with(bytes), || known.hash, self.limit, out);
    }

    /// Appends a literal without indexing: its name, of which `known` was made, and its value.
    #[inline]
    pub(crate) fn named_literal(
        &mut self,
        name: &[u8],
        value: &[u8],
        known: PreparedLiteral,
        out: &mut Vec<u8>,
    ) {
        let at = out.len();
        out.extend_from_slice(name);
        out.extend_from_slice(value);
        if self.limit > 0 && NEVER >> known.place & 1 == 0 {
            self.index_literal(at, known.place, name.len(), out);
        }
    }

    /// Appends a ready head in HTTP/1.1 text: see [`encode::head`].
    pub fn head(&mut self, text: &[u8], out: &mut Vec<u8>) {
        encode::each_of(text, out, |name, value, out| self.field(name, value, out));
    }

    /// Appends a field. The name is written in lower case, the value unchanged.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.field_with(name, |out| out.extend_from_slice(value), out);
    }

    /// Appends a field whose value `write` appends.
    #[inline]
    pub fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        let at = out.len();
        encode::field_with(name, write, out);
        if self.limit > 0
            && let Some((place, value)) = Literal::name(&out[at..])
        {
            self.index_literal(at, place, value, out);
        }
    }

    /// Replaces the literal at the end of `out` by its index if it is in the table. `place` is that of its name in the static table,
    /// `value` the offset of its value.
    fn index_literal(&mut self, at: usize, place: u8, value: usize, out: &mut Vec<u8>) {
        let literal = Literal { bytes: &out[at..], place, value };
        let table = self.table.get_or_insert_with(Table::new);
        match table.known(literal, || hash(literal.bytes)) {
            Known::Field(index) => {
                out.truncate(at);
                encode::integer(INDEXED, 7, index, out);
            }
            Known::Name(index) => {
                // First after the value, then in the place of the name, which is longer.
                let (value, end) = (at + value, out.len());
                encode::integer(PLAIN, 4, index, out);
                let prefix = out.len() - end;
                out.copy_within(end.., at);
                out.copy_within(value..end, at + prefix);
                out.truncate(at + prefix + end - value);
            }
            Known::Recurring => table.add(at, self.limit, out),
            Known::No => {}
        }
    }
}

impl<'a> Literal<'a> {
    /// The one at the beginning of `bytes`; `None` if there is none, or another representation.
    #[inline]
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let (place, value) = Self::name(bytes)?;
        let length = value + string(bytes.get(value..)?)?;
        Some(Self { bytes: bytes.get(..length)?, place, value })
    }

    /// Of the literal at the beginning of `bytes`: the place of its name in the static table, 0 if the name is a literal too, and the
    /// offset of its value.
    #[inline]
    fn name(bytes: &[u8]) -> Option<(u8, usize)> {
        match *bytes.first()? {
            0 => Some((0, 1 + string(&bytes[1..])?)),
            0x0f => Some((*bytes.get(1).filter(|it| **it < 0x7f)? + 15, 2)),
            place @ 1..0x0f => Some((place, 1)),
            _ => None,
        }
    }

    /// The size as counted by RFC 7541 §4.1.
    fn size(&self) -> Option<usize> {
        let (name, value) = self.bytes.split_at(self.value);
        let name = match self.place {
            0 => text_length(name.get(1..)?)?,
            place => super::table::STATIC.get(usize::from(place) - 1)?.0.len(),
        };
        Some(name + text_length(value)? + OVERHEAD)
    }
}

/// Bytes of the string at the beginning of `bytes`, including its length (RFC 7541 §5.2).
#[inline]
fn string(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? & 0x7f {
        0x7f => {
            let mut rest = bytes;
            let length = super::decode::integer(&mut rest, 7)?;
            Some(bytes.len() - rest.len() + length as usize)
        }
        length => Some(1 + usize::from(length)),
    }
}

/// Bytes of the text of a complete string.
fn text_length(string: &[u8]) -> Option<usize> {
    let mut rest = string;
    let length = super::decode::integer(&mut rest, 7)? as usize;
    if string.first()? & 0x80 == 0 { Some(length) } else { huffman::decoded_length(rest) }
}

/// The hash of a literal: fast rather than good, since fields are compared.
#[inline]
fn hash(bytes: &[u8]) -> u64 {
    let word = |it: Option<&[u8; 8]>| it.map_or(0, |it| u64::from_le_bytes(*it));
    let ends = match bytes.len() {
        0..8 => bytes.iter().fold(0, |sum, it| sum << 8 | u64::from(*it)),
        length => {
            let middle = word(bytes[(length - 8) / 2..].first_chunk());
            word(bytes.first_chunk()) ^ word(bytes.last_chunk()).rotate_left(23) ^ middle.rotate_left(47)
        }
    };
    let mixed = (ends ^ bytes.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The first slot of a hash.
#[inline]
fn first_of(hash: u64) -> usize {
    (hash >> 57) as usize
}

/// The tag of a hash, as in a slot.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash as u32 | 1) << TAG
}

impl Table {
    fn new() -> Box<Self> {
        Box::new(Self {
            places: [HashSlot::default(); PLACES],
            entries: [EncoderEntry::default(); ENTRIES],
            count: 0,
            next: 0,
            text: Vec::new(),
            gone: 0,
            size: 0,
        })
    }

    /// Appends a literal, or its index.
    #[inline]
    fn write(&mut self, literal: Literal<'_>, hash: impl FnOnce() -> u64, limit: usize, out: &mut Vec<u8>) {
        match self.known(literal, hash) {
            Known::Field(index) => encode::integer(INDEXED, 7, index, out),
            Known::Name(index) => {
                encode::integer(PLAIN, 4, index, out);
                out.extend_from_slice(&literal.bytes[literal.value..]);
            }
            Known::No => out.extend_from_slice(literal.bytes),
            Known::Recurring => {
                let at = out.len();
                out.extend_from_slice(literal.bytes);
                self.add(at, limit, out);
            }
        }
    }

    /// The peer's knowledge of a field; records that it was sent.
    #[inline]
    fn known(&mut self, literal: Literal<'_>, hash: impl FnOnce() -> u64) -> Known {
        if literal.bytes.len() > LONGEST || NEVER >> literal.place & 1 != 0 {
            return Known::No;
        }
        let hash = hash();
        match self.find(hash, |it| it == literal.bytes) {
            FoundEntry::At(index) => Known::Field(index),
            FoundEntry::Once => Known::Recurring,
            FoundEntry::Nothing => {
                self.set(hash, HashSlot(tag(hash)));
                if literal.place > 0 { Known::No } else { self.known_name(literal) }
            }
        }
    }

    fn known_name(&mut self, literal: Literal<'_>) -> Known {
        let name = &literal.bytes[..literal.value];
        let hash = hash(name);
        match self.find(hash, |it| it.starts_with(name)) {
            FoundEntry::At(index) => Known::Name(index),
            FoundEntry::Once => Known::Recurring,
            FoundEntry::Nothing => {
                self.set(hash, HashSlot(tag(hash)));
                Known::No
            }
        }
    }

    /// Searches an entry with a literal for which `is_it` is true.
    #[inline]
    fn find(&self, hash: u64, is_it: impl Fn(&[u8]) -> bool) -> FoundEntry {
        let (first, tag) = (first_of(hash), tag(hash));
        for probe in 0..PROBES {
            let place = self.places[(first + probe) % PLACES];
            if place.0 >> TAG != tag >> TAG {
                continue;
            }
            if place.0 & HAS_ENTRY == 0 {
                return FoundEntry::Once;
            }
            let at = self.newer_than(place);
            if at < self.count && is_it(self.literal(place.0 as u16)) {
                return FoundEntry::At(super::table::STATIC.len() + 1 + usize::from(at));
            }
        }
        FoundEntry::Nothing
    }

    /// The number of entries newer than that of a slot, which may have been evicted.
    #[inline]
    fn newer_than(&self, place: HashSlot) -> u16 {
        self.next.wrapping_sub(1).wrapping_sub(place.0 as u16)
    }

    /// The literal of an existing entry.
    #[inline]
    fn literal(&self, number: u16) -> &[u8] {
        let entry = self.entries[usize::from(number) % ENTRIES];
        let start = entry.start.wrapping_sub(self.gone) as usize;
        self.text.get(start..start + usize::from(entry.length)).unwrap_or_default()
    }

    /// Records the state of a hash, replacing an evicted or once-sent one; an entry only if there are no others.
    fn set(&mut self, hash: u64, place: HashSlot) {
        let (first, tag) = (first_of(hash), tag(hash));
        // From another slot each time: so the displaced one varies.
        let turn = (hash >> 40) as usize % PROBES;
        let mut at = (first + turn) % PLACES;
        for probe in 0..PROBES {
            let next = (first + (turn + probe) % PROBES) % PLACES;
            let there = self.places[next];
            if there.0 == 0 || there.0 >> TAG == tag >> TAG {
                at = next;
                break;
            }
            if there.0 & HAS_ENTRY == 0 || self.newer_than(there) >= self.count {
                at = next;
            }
        }
        self.places[at] = place;
    }

    /// Turns the literal at the end of `out` into one with incremental indexing (RFC 7541 §6.2.1).
    #[cold]
    fn add(&mut self, at: usize, limit: usize, out: &mut Vec<u8>) {
        let Some(literal) = Literal::first(&out[at..]) else { return };
        // It would empty the table (RFC 7541 §4.4).
        let Some(size) = literal.size().filter(|it| *it <= limit) else { return };
        self.evict(size, limit);
        if self.text.len() + literal.bytes.len() > MOST {
            let oldest = self.entries[usize::from(self.next.wrapping_sub(self.count)) % ENTRIES];
            let start = match self.count {
                0 => self.text.len(),
                _ => oldest.start.wrapping_sub(self.gone) as usize,
            };
            self.text.drain(..start);
            self.gone = self.gone.wrapping_add(u32::try_from(start).unwrap_or(0));
        }
        let small = |it: usize| u16::try_from(it).unwrap_or(u16::MAX);
        let start = self.gone.wrapping_add(u32::try_from(self.text.len()).unwrap_or(0));
        self.text.extend_from_slice(literal.bytes);
        let number = self.next;
        let entry = EncoderEntry { start, length: small(literal.bytes.len()), size: small(size) };
        self.entries[usize::from(number) % ENTRIES] = entry;
        (self.next, self.count) = (number.wrapping_add(1), self.count + 1);
        self.size += size;
        let mut set = |hash| self.set(hash, HashSlot(tag(hash) | HAS_ENTRY | u32::from(number)));
        set(hash(literal.bytes));
        if literal.place == 0 {
            set(hash(&literal.bytes[..literal.value]));
        }
        let place = literal.place;
        out[at] = 0x40 | place;
        if place >= 0x0f {
            out.remove(at + 1);
        }
    }

    /// Evicts entries for `size` bytes, as the peer does (RFC 7541 §4.3, §4.4).
    fn evict(&mut self, size: usize, limit: usize) {
        while self.size + size > limit && self.count > 0 {
            let oldest = self.entries[usize::from(self.next.wrapping_sub(self.count)) % ENTRIES];
            self.size -= usize::from(oldest.size);
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
