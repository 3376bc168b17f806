//! Fields as one connection is sent them: a field that was sent before is named from the table that the peer keeps (RFC 7541
//! §2.3.2). How a literal is written is in `encode`.

use super::encode::{self, PLAIN};
use super::huffman;
use super::table::OVERHEAD;

/// Begins an indexed field (RFC 7541 §6.1).
const INDEXED: u8 = 0x80;

/// Bytes of the table, as RFC 7541 §4.1 counts them, unless the peer wants less: what connections begin with.
const MOST: usize = super::TABLE;
/// Where fields are looked up by their hash: more than twice as many as a table of typical fields has.
const PLACES: usize = 128;
/// Places that a hash may have, one behind the other.
const PROBES: usize = 4;
/// More than fit into the table, each of which has a name and a value of a byte.
const ENTRIES: usize = 128;
const _: () = assert!(ENTRIES > MOST / (OVERHEAD + 2));
/// Bytes of a literal that is remembered at most: a longer one displaces too many others.
const LONGEST: usize = 256;
/// Names of the static table whose fields are not remembered: `:status`, which mostly has an index there already; `age`,
/// `content-length` and `content-range`, which are short or never the same; `set-cookie`, since the length of what follows
/// would tell of a secret (RFC 7541 §7.1).
const NEVER: u64 = 1 << 8 | 1 << 21 | 1 << 28 | 1 << 30 | 1 << 55;

/// Writes the field sections of one connection, in the order in which they are sent. A field is remembered when it is sent a
/// second time, so that what differs with each response does not displace what recurs.
#[derive(Debug)]
pub struct Encoder {
    /// None until a field could be remembered.
    table: Option<Box<Table>>,
    /// Bytes of the table that the peer knows of.
    told: usize,
    /// Bytes that the peer allows now, and the least that it allowed since it was told.
    limit: usize,
    least: usize,
}

/// The peer's table. Entries are compared by the literals that they were sent as, without their first byte's flags: the same field
/// in another spelling is another entry.
#[derive(Debug)]
struct Table {
    /// What is known of the field or the name with some hash: see [`Place`].
    places: [Place; PLACES],
    /// By their numbers, of which the last [`Table::count`] are in use.
    entries: [EncoderEntry; ENTRIES],
    count: u16,
    /// What the next entry is numbered.
    next: u16,
    /// The literals of the entries in the order in which they came, and bytes that were taken off its start so far.
    text: Vec<u8>,
    gone: u32,
    size: usize,
}

/// A tag, and the number of an entry, which may be gone; 0 where the place is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place(u32);

/// Of a place with an entry; without it the field was sent once.
const HAS_ENTRY: u32 = 1 << 16;
/// Where the tag begins, of which [`tag`] sets the last bit.
const TAG: u32 = 17;

#[derive(Clone, Copy, Debug, Default)]
struct EncoderEntry {
    start: u32,
    length: u16,
    /// As RFC 7541 §4.1 counts it.
    size: u16,
}

/// What a look-up found.
#[derive(Clone, Copy)]
enum Found {
    /// Its index (RFC 7541 §2.3.3).
    At(usize),
    /// It was sent once.
    Once,
    Nothing,
}

/// What the peer knows of a field.
#[derive(Clone, Copy)]
enum Known {
    /// All, by this index.
    Field(usize),
    /// Its name, by this index.
    Name(usize),
    /// Nothing yet, but it recurs.
    Due,
    /// Nothing.
    No,
}

/// A literal without indexing, taken apart.
#[derive(Clone, Copy)]
struct Literal<'a> {
    bytes: &'a [u8],
    /// Of its name in the static table; 0 where the name is written out.
    place: u8,
    /// Where its value begins.
    value: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { table: None, told: MOST, limit: MOST, least: MOST }
    }
}

impl Encoder {
    /// The peer's `SETTINGS_HEADER_TABLE_SIZE`, from the next section on (RFC 7541 §4.2).
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = usize::try_from(limit).unwrap_or(MOST).min(MOST);
        self.least = self.least.min(self.limit);
        if let Some(table) = &mut self.table {
            table.evict(0, self.limit);
        }
    }

    /// A section that was begun is not sent: the peer's table is emptied at the beginning of the next one.
    pub fn forget(&mut self) {
        (self.table, self.told, self.least) = (None, MOST, 0);
    }

    /// Begins a section: every one has to begin so.
    #[inline]
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.told != self.limit || self.least != self.limit {
            self.resize(out);
        }
    }

    #[cold]
    fn resize(&mut self, out: &mut Vec<u8>) {
        if self.least < self.told {
            encode::integer(0x20, 5, self.least, out);
            self.told = self.least;
            if let Some(table) = &mut self.table {
                table.evict(0, self.told);
            }
        }
        if self.told != self.limit {
            encode::integer(0x20, 5, self.limit, out);
        }
        (self.told, self.least) = (self.limit, self.limit);
    }

    /// Appends a block of `:status` and literals without indexing, as [`encode::compact_head`] makes it.
    pub fn block(&mut self, block: &[u8], out: &mut Vec<u8>) {
        if self.limit == 0 {
            return out.extend_from_slice(block);
        }
        let table = self.table.get_or_insert_with(Table::new);
        let mut rest = block;
        // `:status` has an index mostly.
        while let Some((first, after)) = rest.split_first().filter(|it| it.0 & 0x80 != 0) {
            out.push(*first);
            rest = after;
        }
        while let Some(literal) = Literal::first(rest) {
            rest = &rest[literal.bytes.len()..];
            match table.known(literal) {
                Known::Field(index) => encode::integer(INDEXED, 7, index, out),
                Known::Name(index) => {
                    encode::integer(PLAIN, 4, index, out);
                    out.extend_from_slice(&literal.bytes[literal.value..]);
                }
                Known::No => out.extend_from_slice(literal.bytes),
                Known::Due => {
                    let at = out.len();
                    out.extend_from_slice(literal.bytes);
                    table.add(at, self.limit, out);
                }
            }
        }
        debug_assert!(rest.is_empty(), "literals without indexing");
        out.extend_from_slice(rest);
    }

    /// Appends a whole head that is ready as HTTP/1.1 text: see [`encode::head`].
    pub fn head(&mut self, text: &[u8], out: &mut Vec<u8>) {
        encode::each_of(text, out, |name, value, out| self.field(name, value, out));
    }

    /// Appends a field. The name is written in lower case, the value as it is.
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.field_with(name, |out| out.extend_from_slice(value), out);
    }

    /// Appends a field whose value `write` appends.
    #[inline]
    pub fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        let at = out.len();
        encode::field_with(name, write, out);
        if self.limit > 0 {
            self.settle(at, out);
        }
    }

    /// Names the literal at the end of `out` from the table where it is there.
    fn settle(&mut self, at: usize, out: &mut Vec<u8>) {
        let Some(literal) = Literal::first(&out[at..]) else { return };
        let table = self.table.get_or_insert_with(Table::new);
        match table.known(literal) {
            Known::Field(index) => {
                out.truncate(at);
                encode::integer(INDEXED, 7, index, out);
            }
            Known::Name(index) => {
                // Behind the value first, then in the place of the name, which is longer.
                let (value, end) = (at + literal.value, out.len());
                encode::integer(PLAIN, 4, index, out);
                let prefix = out.len() - end;
                out.copy_within(end.., at);
                out.copy_within(value..end, at + prefix);
                out.truncate(at + prefix + end - value);
            }
            Known::Due => table.add(at, self.limit, out),
            Known::No => {}
        }
    }
}

impl<'a> Literal<'a> {
    /// The one at the beginning of `bytes`; `None` where there is none, or another representation.
    #[inline]
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let (place, value) = match *bytes.first()? {
            0 => (0, 1 + string(&bytes[1..])?),
            0x0f => (*bytes.get(1).filter(|it| **it < 0x7f)? + 15, 2),
            place @ 1..0x0f => (place, 1),
            _ => return None,
        };
        let length = value + string(bytes.get(value..)?)?;
        Some(Self { bytes: bytes.get(..length)?, place, value })
    }

    /// As RFC 7541 §4.1 counts it.
    fn size(&self) -> Option<usize> {
        let (name, value) = self.bytes.split_at(self.value);
        let name = match self.place {
            0 => text_length(name.get(1..)?)?,
            place => super::table::STATIC.get(usize::from(place) - 1)?.0.len(),
        };
        Some(name + text_length(value)? + OVERHEAD)
    }
}

/// Bytes of the string at the beginning of `bytes`, its length's among them (RFC 7541 §5.2).
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

/// Bytes of what a whole string says.
fn text_length(string: &[u8]) -> Option<usize> {
    let mut rest = string;
    let length = super::decode::integer(&mut rest, 7)? as usize;
    if string.first()? & 0x80 == 0 { Some(length) } else { huffman::decoded_length(rest) }
}

/// Which place a literal has: quick rather than good, since fields are compared.
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

/// The first place of a hash.
#[inline]
fn first_of(hash: u64) -> usize {
    (hash >> 57) as usize
}

/// The tag of a hash, and nothing else, as a place has it.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash as u32 | 1) << TAG
}

impl Table {
    fn new() -> Box<Self> {
        Box::new(Self {
            places: [Place::default(); PLACES],
            entries: [EncoderEntry::default(); ENTRIES],
            count: 0,
            next: 0,
            text: Vec::new(),
            gone: 0,
            size: 0,
        })
    }

    /// What the peer knows of a field; that it was sent is noted.
    #[inline]
    fn known(&mut self, literal: Literal<'_>) -> Known {
        if literal.bytes.len() > LONGEST || NEVER >> literal.place & 1 != 0 {
            return Known::No;
        }
        let hash = hash(literal.bytes);
        match self.find(hash, |it| it == literal.bytes) {
            Found::At(index) => Known::Field(index),
            Found::Once => Known::Due,
            Found::Nothing => {
                self.set(hash, Place(tag(hash)));
                if literal.place > 0 { Known::No } else { self.known_name(literal) }
            }
        }
    }

    fn known_name(&mut self, literal: Literal<'_>) -> Known {
        let name = &literal.bytes[..literal.value];
        let hash = hash(name);
        match self.find(hash, |it| it.starts_with(name)) {
            Found::At(index) => Known::Name(index),
            Found::Once => Known::Due,
            Found::Nothing => {
                self.set(hash, Place(tag(hash)));
                Known::No
            }
        }
    }

    /// Looks for an entry with a literal that `is_it`.
    #[inline]
    fn find(&self, hash: u64, is_it: impl Fn(&[u8]) -> bool) -> Found {
        let (first, tag) = (first_of(hash), tag(hash));
        for probe in 0..PROBES {
            let place = self.places[(first + probe) % PLACES];
            if place.0 >> TAG != tag >> TAG {
                continue;
            }
            if place.0 & HAS_ENTRY == 0 {
                return Found::Once;
            }
            let at = self.newer_than(place);
            if at < self.count && is_it(self.literal(place.0 as u16)) {
                return Found::At(super::table::STATIC.len() + 1 + usize::from(at));
            }
        }
        Found::Nothing
    }

    /// How many entries are newer than that of a place, which may be gone.
    #[inline]
    fn newer_than(&self, place: Place) -> u16 {
        self.next.wrapping_sub(1).wrapping_sub(place.0 as u16)
    }

    /// The literal of an entry that is there.
    #[inline]
    fn literal(&self, number: u16) -> &[u8] {
        let entry = self.entries[usize::from(number) % ENTRIES];
        let start = entry.start.wrapping_sub(self.gone) as usize;
        self.text.get(start..start + usize::from(entry.length)).unwrap_or_default()
    }

    /// Remembers what is known of a hash, in place of what is gone or was sent once; of an entry only where there are but those.
    fn set(&mut self, hash: u64, place: Place) {
        let (first, tag) = (first_of(hash), tag(hash));
        // From another one each time: not always the same is displaced.
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

    /// Has the peer remember the literal at the end of `out`, which becomes one with incremental indexing (RFC 7541 §6.2.1).
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
        let mut set = |hash| self.set(hash, Place(tag(hash) | HAS_ENTRY | u32::from(number)));
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

    /// Makes room for `size` bytes, as the peer does (RFC 7541 §4.3, §4.4).
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
