//! The tables of indexed fields: the static one (RFC 7541 Appendix A), and the dynamic one that the peer fills.

use std::collections::VecDeque;

/// The error in one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Its name is not a lower-case token (RFC 9113 §8.2.1).
    Name,
    /// Its value has a control character, or white space at its ends.
    Value,
}

/// The additional counted bytes of an entry (RFC 7541 §4.1).
pub(super) const OVERHEAD: usize = 32;

#[rustfmt::skip]
pub(super) static STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// The index of a name in the static table, counted from 1; 0 if it is not there. Any case.
#[inline]
pub(super) fn place_of(name: &[u8]) -> u8 {
    let places: &[u8] = match name.len() {
        3 => &[21, 60],
        4 => &[33, 34, 59, 45, 37, 38],
        5 => &[22, 50],
        6 => &[54, 19, 32, 35],
        7 => &[36, 51, 52],
        8 => &[46, 39, 42],
        10 => &[55, 58],
        11 => &[53],
        12 => &[31, 47],
        13 => &[24, 44, 18, 23, 30, 41],
        14 => &[28, 15],
        15 => &[16, 17],
        16 => &[26, 27, 29, 61],
        17 => &[40, 57],
        18 => &[48],
        19 => &[25, 43, 49],
        25 => &[56],
        27 => &[20],
        _ => &[],
    };
    let first = name.first().map(u8::to_ascii_lowercase);
    let is_it = |it: &&u8| {
        let known = STATIC[usize::from(**it) - 1].0.as_bytes();
        known.first().copied() == first && known.eq_ignore_ascii_case(name)
    };
    places.iter().find(is_it).copied().unwrap_or(0)
}

/// The name at an index of the static table, counted from 1.
#[inline]
pub(crate) fn known_name(index: u32) -> Option<&'static [u8]> {
    let place = usize::try_from(index).ok()?.checked_sub(1)?;
    STATIC.get(place).map(|it| it.0.as_bytes())
}

/// The dynamic table, newest first. The bytes of its entries are in one text in their order, so that adding one allocates
/// nothing.
#[derive(Debug)]
pub(super) struct Dynamic {
    text: Vec<u8>,
    /// The number of bytes removed from the start of `text` so far.
    gone: u64,
    entries: VecDeque<TableEntry>,
    size: usize,
    /// The size that the peer wants, up to the permitted one.
    max: usize,
}

#[derive(Clone, Copy, Debug)]
struct TableEntry {
    /// Counted from the first byte ever added.
    start: u64,
    name: u32,
    value: u32,
    flaw: Option<Flaw>,
}

impl Dynamic {
    pub fn new(max: usize) -> Self {
        Self { text: Vec::new(), gone: 0, entries: VecDeque::new(), size: 0, max }
    }

    /// Changes the size that the peer wants.
    pub fn resize(&mut self, max: usize) {
        self.max = max;
        self.evict(0);
    }

    /// The entry at `place`, counted from 0.
    pub fn get(&self, place: usize) -> Option<(&[u8], &[u8], Option<Flaw>)> {
        let entry = self.entries.get(place)?;
        let start = usize::try_from(entry.start - self.gone).ok()?;
        let both = self.text.get(start..start + (entry.name + entry.value) as usize)?;
        let (name, value) = both.split_at(entry.name as usize);
        Some((name, value, entry.flaw))
    }

    /// Adds a field, and evicts the oldest ones; one larger than the table empties it (RFC 7541 §4.4).
    pub fn add(&mut self, name: &[u8], value: &[u8], flaw: Option<Flaw>) {
        let size = name.len() + value.len() + OVERHEAD;
        self.evict(size);
        if size > self.max {
            return;
        }
        if self.text.len() + size > 2 * self.max {
            let start = self.entries.back().map_or(self.gone + self.text.len() as u64, |it| it.start);
            self.text.drain(..usize::try_from(start - self.gone).unwrap_or(self.text.len()));
            self.gone = start;
        }
        let start = self.gone + self.text.len() as u64;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        self.entries.push_front(TableEntry {
            start,
            name: small(name.len()),
            value: small(value.len()),
            flaw,
        });
        self.size += size;
    }

    /// Evicts entries for `size` bytes.
    fn evict(&mut self, size: usize) {
        while self.size + size > self.max {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.size -= (oldest.name + oldest.value) as usize + OVERHEAD;
        }
    }

    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_name_that_a_field_may_have_is_found() {
        for (at, (name, _)) in STATIC.iter().enumerate().filter(|it| !it.1.0.starts_with(':')) {
            assert_eq!(at + 1, usize::from(place_of(name.to_ascii_uppercase().as_bytes())), "{name}");
        }
        assert_eq!(0, place_of(b"x-cache"));
        assert_eq!(0, place_of(b""));
    }

    proptest! {
        #[test]
        fn the_newest_that_fit_are_there(
            max in 0..300usize, fields in proptest::collection::vec((0..40usize, 0..90usize), 0..200)
        ) {
            let mut table = Dynamic::new(max);
            let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for (at, (name, value)) in fields.iter().enumerate() {
                let byte = u8::try_from(at % 200).unwrap();
                let (name, value) = (vec![byte; *name], vec![byte + 1; *value]);
                table.add(&name, &value, None);
                if name.len() + value.len() + OVERHEAD > max {
                    all.clear();
                } else {
                    all.insert(0, (name, value));
                }
                let mut room = max;
                let expect: Vec<_> = all.iter().map_while(|(name, value)| {
                    room = room.checked_sub(name.len() + value.len() + OVERHEAD)?;
                    Some((&name[..], &value[..], None))
                }).collect();
                let got: Vec<_> = (0..).map_while(|place| table.get(place)).collect();
                assert_eq!(expect, got);
                all.truncate(expect.len());
                assert!(table.size() <= max && table.text.len() <= 2 * max);
            }
        }
    }
}
