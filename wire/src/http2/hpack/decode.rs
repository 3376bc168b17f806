//! The decoder of field sections: bounded, with the table synchronised even for rejected sections.

use super::super::ErrorCode;
use super::huffman;
use super::table::{Dynamic, Flaw, OVERHEAD, STATIC};
use crate::message::MAX_FIELDS;
use larder_semantics::field::is_token;

/// The text buffer that is kept from one section to the next, bytes.
const KEEP: usize = 128 * 1024;

/// The most changes of the table's size at the beginning of a section: to the minimum since the last one, and to the
/// current size (RFC 7541 §4.2).
const RESIZES: u32 = 2;

/// The decoder of one connection.
#[derive(Debug)]
pub struct HpackDecoder {
    table: Dynamic,
    /// The largest table that the peer may request, bytes.
    allowed: usize,
}

/// The fields of one section. Reused for the next.
#[derive(Debug, Default)]
pub struct Section {
    text: Vec<u8>,
    lines: Vec<DecodedField>,
    flaw: Option<Flaw>,
    /// Bytes as RFC 9113 §6.5.2 counts them.
    size: usize,
    /// The limit of these bytes.
    limit: usize,
    /// The line of `cookie`, to which further ones are joined.
    cookie: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct DecodedField {
    start: u32,
    name: u32,
    value: u32,
}

impl Section {
    /// Empties it, for a section of up to `limit` bytes.
    pub fn begin(&mut self, limit: usize) {
        self.text.clear();
        self.text.shrink_to(KEEP);
        self.lines.clear();
        (self.flaw, self.size, self.limit, self.cookie) = (None, 0, limit, None);
    }

    /// Whether the limit or [`MAX_FIELDS`] was exceeded: then some fields are missing.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.size > self.limit
    }

    /// The first error in a field, if any.
    #[must_use]
    pub fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    /// Names and values in order. Lines of `cookie` are joined (RFC 9113 §8.2.3).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + Clone {
        self.lines.iter().map(|it| {
            let (start, name, value) = (it.start as usize, it.name as usize, it.value as usize);
            let both = self.text.get(start..start + name + value).unwrap_or_default();
            both.split_at(name.min(both.len()))
        })
    }

    /// Adds a field of a static table.
    pub(crate) fn known(&mut self, name: &[u8], value: &[u8]) {
        if self.admit(name.len(), value.len()) {
            let start = self.text.len();
            self.text.extend_from_slice(name);
            self.text.extend_from_slice(value);
            self.push(start, name.len());
        }
    }

    /// Adds a field whose name `name` appends, and whose value `value`; `None` if either is invalid.
    pub(crate) fn literal(
        &mut self,
        name: impl FnOnce(&mut Vec<u8>) -> Option<()>,
        value: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        let start = self.text.len();
        name(&mut self.text)?;
        let name = self.text.len() - start;
        value(&mut self.text)?;
        let (name_text, value) = self.text[start..].split_at(name);
        let flaw = match (is_name(name_text), is_value(value)) {
            (false, _) => Some(Flaw::Name),
            (true, false) => Some(Flaw::Value),
            (true, true) => None,
        };
        let value = value.len();
        self.note(flaw);
        if self.admit(name, value) {
            self.push(start, name);
        } else {
            self.text.truncate(start);
        }
        Some(())
    }

    /// Counts a field; returns whether it fits.
    fn admit(&mut self, name: usize, value: usize) -> bool {
        self.size = self.size.saturating_add(name + value + OVERHEAD);
        if self.lines.len() >= MAX_FIELDS {
            self.size = usize::MAX;
        }
        !self.is_too_large()
    }

    fn note(&mut self, flaw: Option<Flaw>) {
        self.flaw = self.flaw.or(flaw);
    }

    /// Adds the field at the end of the text.
    fn push(&mut self, start: usize, name: usize) {
        let value = self.text.len() - start - name;
        let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        if self.text.get(start..start + name) == Some(b"cookie") {
            if let Some(line) = self.cookie.and_then(|it| self.lines.get_mut(it)) {
                if value == 0 {
                    return self.text.truncate(start);
                }
                if line.value == 0 {
                    *line = DecodedField { start: small(start), name: small(name), value: small(value) };
                    return;
                }
                if (line.start + line.name + line.value) as usize == start {
                    // Directly behind it, in order of arrival.
                    self.text.splice(start..start + name, *b"; ");
                    line.value = small(self.text.len()) - line.start - line.name;
                    return;
                }
                let before = line.start as usize..(line.start + line.name + line.value) as usize;
                let from = self.text.len();
                self.text.extend_from_within(before);
                self.text.extend_from_slice(b"; ");
                self.text.extend_from_within(start + name..start + name + value);
                line.start = small(from);
                line.value = small(self.text.len() - from) - line.name;
                return;
            }
            self.cookie = Some(self.lines.len());
        }
        self.lines.push(DecodedField { start: small(start), name: small(name), value: small(value) });
    }
}

impl HpackDecoder {
    /// With an empty table of up to `allowed` bytes.
    #[must_use]
    pub fn new(allowed: usize) -> Self {
        Self { table: Dynamic::new(allowed), allowed }
    }

    /// Decodes one complete block into `section`, which has just begun. Excess and errors are recorded in the section:
    /// the table is updated in any case.
    ///
    /// # Errors
    /// The block is invalid, and therefore the table: the connection cannot be used further.
    /// The block is broken, and with it the table: nothing more can be read on this connection.
    pub fn decode(&mut self, block: &[u8], section: &mut Section) -> Result<(), ErrorCode> {
        self.read(block, section).ok_or(ErrorCode::Compression)
    }

    /// The counted size of its table.
    #[cfg(test)]
    pub(super) fn table_size(&self) -> usize {
        self.table.size()
    }

    fn read(&mut self, block: &[u8], section: &mut Section) -> Option<()> {
        let mut rest = block;
        let (mut begun, mut resizes) = (false, 0);
        while let Some(first) = rest.first() {
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                self.indexed(index, section)?;
            } else if first & 0x40 != 0 {
                self.literal(&mut rest, 6, section)?;
            } else if first & 0x20 != 0 {
                let size = integer(&mut rest, 5)? as usize;
                resizes += 1;
                // Only before the first field (RFC 7541 §4.2).
                if begun || size > self.allowed || resizes > RESIZES {
                    return None;
                }
                self.table.resize(size);
                continue;
            } else {
                self.literal(&mut rest, 4, section)?;
            }
            begun = true;
        }
        Some(())
    }

    fn indexed(&self, index: u32, section: &mut Section) -> Option<()> {
        let (name, value, flaw) = self.get(index)?;
        section.note(flaw);
        if section.admit(name.len(), value.len()) {
            let start = section.text.len();
            section.text.extend_from_slice(name);
            section.text.extend_from_slice(value);
            section.push(start, name.len());
        }
        Some(())
    }

    fn get(&self, index: u32) -> Option<(&[u8], &[u8], Option<Flaw>)> {
        let index = (index as usize).checked_sub(1)?;
        match STATIC.get(index) {
            Some((name, value)) => Some((name.as_bytes(), value.as_bytes(), None)),
            None => self.table.get(index - STATIC.len()),
        }
    }

    /// A literal whose name's index has `prefix` bits: with 6 it enters the table.
    fn literal(&mut self, rest: &mut &[u8], prefix: u32, section: &mut Section) -> Option<()> {
        let start = section.text.len();
        let mut flaw = None;
        match integer(rest, prefix)? {
            0 => {
                string(rest, &mut section.text)?;
                if !is_name(&section.text[start..]) {
                    flaw = Some(Flaw::Name);
                }
            }
            index => {
                let (name, _, of_name) = self.get(index)?;
                flaw = of_name.filter(|it| *it == Flaw::Name);
                section.text.extend_from_slice(name);
            }
        }
        let name = section.text.len() - start;
        string(rest, &mut section.text)?;
        let (name_text, value) = section.text[start..].split_at(name);
        if flaw.is_none() && !is_value(value) {
            flaw = Some(Flaw::Value);
        }
        if prefix == 6 {
            self.table.add(name_text, value, flaw);
        }
        let value = value.len();
        section.note(flaw);
        if section.admit(name, value) {
            section.push(start, name);
        } else {
            section.text.truncate(start);
        }
        Some(())
    }
}

/// An integer with a prefix of this many bits (RFC 7541 §5.1); `None` if it is truncated or too large.
pub(crate) fn integer(rest: &mut &[u8], prefix: u32) -> Option<u32> {
    let mask = (1u32 << prefix) - 1;
    let (first, mut tail) = rest.split_first()?;
    let mut sum = u32::from(*first) & mask;
    if sum == mask {
        for shift in [0, 7, 14, 21] {
            let (byte, after) = tail.split_first()?;
            tail = after;
            sum = sum.checked_add(u32::from(byte & 0x7f) << shift)?;
            if byte & 0x80 == 0 {
                *rest = tail;
                return Some(sum);
            }
        }
        return None;
    }
    *rest = tail;
    Some(sum)
}

/// Appends a string (RFC 7541 §5.2).
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
    string_behind(rest, 7, out)
}

/// A string whose length has `prefix` bits, behind the bit for its coding.
pub(crate) fn string_behind(rest: &mut &[u8], prefix: u32, out: &mut Vec<u8>) -> Option<()> {
    let is_coded = rest.first()? & 1 << prefix != 0;
    let length = integer(rest, prefix)? as usize;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    if is_coded {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Some(())
}

/// A lower-case token, or one behind a colon: those names are checked elsewhere.
fn is_name(name: &[u8]) -> bool {
    let token = name.strip_prefix(b":").unwrap_or(name);
    is_token(token) && !token.iter().any(u8::is_ascii_uppercase)
}

/// No control character except the tab, and no white space at the ends.
fn is_value(value: &[u8]) -> bool {
    let is_space = |it: Option<&u8>| matches!(it, Some(b' ' | b'\t'));
    let is_bad = |it: u8| (it < b' ' && it != b'\t') || it == 0x7f;
    !is_space(value.first())
        && !is_space(value.last())
        && !value.iter().fold(false, |found, it| found | is_bad(*it))
}

#[cfg(test)]
mod tests;
