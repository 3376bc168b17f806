//! Field lines (RFC 9110 §5): borrowed as a head is read, owned as one is kept. Parsing of a whole
//! head is not here (`wire`), nor is the meaning of any one field.

use std::fmt;

/// One field line. The name's case is as received; compare with [`Field::is`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// A token; any case.
    pub name: &'a str,
    /// Without leading and trailing whitespace; may hold obs-text (0x80 and above), never CR, LF or NUL.
    pub value: &'a [u8],
}

impl<'a> Field<'a> {
    /// Whether this line's name is `name`, in any case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Every value of `name`, in order (RFC 9110 §5.3).
pub fn all<'a>(fields: &'a [Field<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
    fields.iter().filter(move |it| it.is(name)).map(|it| it.value)
}

/// The first value of `name`.
#[must_use]
pub fn first<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|it| it.is(name)).map(|it| it.value)
}

/// A field section that is kept: names and values in one text that is already HTTP/1.1 wire form,
/// `Name: value\r\n` per line, so that a stored head is sent without being formatted again.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldList {
    text: Vec<u8>,
    index: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Line {
    start: u32,
    name_len: u32,
    value_len: u32,
}

impl FieldList {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of `fields`, in order.
    #[must_use]
    pub fn from_fields(fields: &[Field<'_>]) -> Self {
        let mut list = Self {
            text: Vec::with_capacity(fields.iter().map(|it| it.name.len() + it.value.len() + 4).sum()),
            index: Vec::with_capacity(fields.len()),
        };
        for it in fields {
            list.push(it.name, it.value);
        }
        list
    }

    /// Adds a line at the end. The caller has a valid name and value; CR, LF and NUL in a value are
    /// written as spaces, so that a bug elsewhere cannot split a response.
    pub fn push(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b": ");
        self.text.extend(value.iter().map(|it| if matches!(it, b'\r' | b'\n' | 0) { b' ' } else { *it }));
        self.text.extend_from_slice(b"\r\n");
        let small = |it: usize| u32::try_from(it).expect("a head is bounded far below 4 GiB");
        self.index.push(Line {
            start: small(start),
            name_len: small(name.len()),
            value_len: small(value.len()),
        });
    }

    /// The lines in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Field<'_>> + Clone + '_ {
        self.index.iter().map(|it| self.at(*it))
    }

    fn at(&self, line: Line) -> Field<'_> {
        let start = line.start as usize;
        let name_end = start + line.name_len as usize;
        let value_start = name_end + 2;
        Field {
            name: std::str::from_utf8(&self.text[start..name_end]).expect("pushed from a str"),
            value: &self.text[value_start..value_start + line.value_len as usize],
        }
    }

    /// The lines as a vector, for the functions that take a slice.
    #[must_use]
    pub fn view(&self) -> Vec<Field<'_>> {
        self.iter().collect()
    }

    /// The first value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|it| it.is(name)).map(|it| it.value)
    }

    /// Every value of `name`, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.iter().filter(move |it| it.is(name)).map(|it| it.value)
    }

    /// Whether there is a line of that name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Keeps the lines for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(Field<'_>) -> bool) {
        if self.iter().all(&mut keep) {
            return;
        }
        let mut kept = Self::new();
        for it in self.iter().filter(|it| keep(*it)) {
            kept.push(it.name, it.value);
        }
        *self = kept;
    }

    /// Removes every line of that name.
    pub fn remove(&mut self, name: &str) {
        self.retain(|it| !it.is(name));
    }

    /// Puts one line in place of all of that name.
    pub fn set(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.remove(name);
        self.push(name, value);
    }

    /// The wire form: every line with its CRLF, without the empty line that ends a head.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes on the heap, for the RAM budget.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.text.capacity() + self.index.capacity() * size_of::<Line>()
    }

    /// Gives back what capacity is over, before the list is kept for long.
    pub fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.index.shrink_to_fit();
    }
}

impl fmt::Debug for FieldList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|it| (it.name, String::from_utf8_lossy(it.value)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_its_wire_form() {
        let mut list = FieldList::new();
        list.push("ETag", "\"a\"");
        list.push("X-A", "1");
        list.push("x-a", "2\r\nEvil: 3");
        assert_eq!(b"ETag: \"a\"\r\nX-A: 1\r\nx-a: 2  Evil: 3\r\n", list.text());
        assert_eq!(2, list.get_all("X-a").count());
        list.set("x-A", "4");
        assert_eq!(b"ETag: \"a\"\r\nx-A: 4\r\n", list.text());
        assert_eq!(Some(&b"\"a\""[..]), list.get("etag"));
        assert_eq!(None, first(&list.view(), "age"));
    }
}
