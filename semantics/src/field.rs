//! Field lines (RFC 9110 §5): borrowed while a head is parsed, owned when it is stored. The parser of a whole head is not
//! here (`wire`), nor is the meaning of any one field.

use crate::secret;
pub use crate::words::is_same_name;
use std::fmt;

/// One field line. The name's case is as received; compare with [`Field::is`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// A token; any case.
    pub name: &'a str,
    /// Without leading and trailing whitespace; may contain obs-text (0x80 and above), never CR, LF or NUL.
    pub value: &'a [u8],
}

impl<'a> Field<'a> {
    /// Whether this line's name is `name`, in any case.
    #[must_use]
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        is_same_name(self.name, name)
    }

    /// Whether this line gives its client a cookie. No current client reads `Set-Cookie2` (RFC 6265 §9.4), but its value would be one
    /// client's in the responses to others.
    #[must_use]
    pub fn sets_cookie(&self) -> bool {
        self.is("set-cookie") || self.is("set-cookie2")
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

/// All lines of `name` as evidence for display: `Name: value, value`, or `no Name`.
pub(crate) fn lines(fields: &[Field<'_>], name: &str) -> String {
    let value = |it| String::from_utf8_lossy(&secret::shown(name, it)).into_owned();
    let values: Vec<_> = all(fields, name).map(value).collect();
    if values.is_empty() { format!("no {name}") } else { format!("{name}: {}", values.join(", ")) }
}

/// Whether `value` is a token (RFC 9110 §5.6.2): one byte or more, all of them `tchar`.
#[must_use]
pub fn is_token(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|it| IS_TCHAR[usize::from(*it)])
}

/// Used for every byte of a variant key, hence a table.
const IS_TCHAR: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0u8;
    while at < 128 {
        table[at as usize] = at.is_ascii_alphanumeric();
        at += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

/// `value` without optional whitespace (space, tab) at both ends (RFC 9110 §5.6.3).
#[must_use]
pub fn trim(value: &[u8]) -> &[u8] {
    let is_text = |it: &u8| !matches!(it, b' ' | b'\t');
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |it| it + 1);
    &value[start..end]
}

/// Whether this `Content-Type` is that of an event stream.
#[must_use]
pub fn is_event_stream(kind: &[u8]) -> bool {
    let kind = kind.split(|it| *it == b';').next().unwrap_or_default();
    trim(kind).eq_ignore_ascii_case(b"text/event-stream")
}

/// The members of one line of a comma-separated list (RFC 9110 §5.6.1): trimmed, empty ones left out. A
/// comma within a quoted string separates nothing; a quoted string that is never closed runs to the end.
///
/// Not for lists of entity tags, in which a backslash escapes nothing (see `validator`).
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    FieldMembers { rest: value }.filter(|it| !it.is_empty())
}

#[derive(Clone)]
struct FieldMembers<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for FieldMembers<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let mut quotes = Quotes::default();
        let end = self.rest.iter().position(|it| !quotes.inside(*it) && *it == b',');
        let end = end.unwrap_or(self.rest.len());
        let member = trim(&self.rest[..end]);
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(member)
    }
}

/// Tracks, byte by byte, whether the position is within a quoted string (RFC 9110 §5.6.4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quotes {
    quoted: bool,
    escaped: bool,
}

impl Quotes {
    /// Takes the next byte; true if it is part of a quoted string, including its quotes.
    pub(crate) fn inside(&mut self, byte: u8) -> bool {
        let was_quoted = self.quoted;
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.quoted => self.escaped = true,
            b'"' => self.quoted = !self.quoted,
            _ => {}
        }
        was_quoted || self.quoted
    }
}

/// A set of field names that may contain names that were not inserted: a bit for each of 256 classes of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameSet([u64; 4]);

impl NameSet {
    /// Bytes of a set.
    pub const SIZE: usize = 32;
    /// The set that may have every name.
    pub const ALL: NameSet = NameSet([u64::MAX; 4]);

    /// Adds a name.
    pub fn insert(&mut self, name: &str) {
        let (word, bit) = Self::class(name.as_bytes());
        self.0[word] |= bit;
    }

    /// The set as bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes.as_chunks_mut().0.iter_mut().zip(self.0).for_each(|(room, word)| *room = word.to_ne_bytes());
        bytes
    }

    /// The set with these bytes, from [`NameSet::to_bytes`].
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let mut words = [0; 4];
        words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, it)| *word = u64::from_ne_bytes(*it));
        Self(words)
    }

    /// Whether the name, in any case, may have been added; never false for one that was.
    #[inline]
    #[must_use]
    pub fn may_have(self, name: &str) -> bool {
        self.may_have_bytes(name.as_bytes())
    }

    /// The same for a name as bytes.
    #[inline]
    #[must_use]
    pub fn may_have_bytes(self, name: &[u8]) -> bool {
        let (word, bit) = Self::class(name);
        self.0[word] & bit != 0
    }

    /// Whether the two may have a name in common.
    #[inline]
    #[must_use]
    pub fn may_meet(self, other: NameSet) -> bool {
        self.0.iter().zip(other.0).fold(0, |met, (mine, other)| met | mine & other) != 0
    }

    /// By length and by the first, middle and last letter: field names differ in these most. The word and the bit in it.
    #[inline]
    fn class(name: &[u8]) -> (usize, u64) {
        let letter = |at: usize| name.get(at).map_or(0, |it| usize::from(it | 0x20));
        let (length, last) = (name.len(), name.len().wrapping_sub(1));
        let sum = length * 7 + letter(0) * 29 + letter(length / 2) * 5 + letter(last);
        (sum / 64 % 4, 1 << (sum % 64))
    }
}

/// An owned field section: names and values in one text that is already HTTP/1.1 wire form, `Name: value\r\n` per line,
/// so that a stored head is sent without being formatted again.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldList {
    text: Vec<u8>,
    index: Vec<QuotedLine>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct QuotedLine {
    start: u32,
    name_len: u32,
    value_len: u32,
}

impl QuotedLine {
    /// The line in the text of its list.
    #[inline]
    fn of(self, text: &[u8]) -> Field<'_> {
        let start = self.start as usize;
        let name_end = start + self.name_len as usize;
        let value_start = name_end + 2;
        Field {
            // SAFETY: `push` and `from_wire` are the only places that make a `QuotedLine`; they copied these bytes from a `str`.
            // `text` only grows until the whole list is replaced, or `retain` moves whole lines together with their places.
            name: unsafe { std::str::from_utf8_unchecked(&text[start..name_end]) },
            value: &text[value_start..value_start + self.value_len as usize],
        }
    }

    /// Its bytes with `: ` and the line end.
    fn size(self) -> usize {
        self.name_len as usize + self.value_len as usize + 4
    }
}

fn small(length: usize) -> u32 {
    u32::try_from(length).expect("a head is bounded far below 4 GiB")
}

/// Whether a value has a byte below 0x20: eight at a time, since values are short.
fn has_controls(value: &[u8]) -> bool {
    let (words, rest) = value.as_chunks::<8>();
    let is_control = |it: &u8| *it < b' ';
    let has_some = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        // A byte below 0x20 borrows; exact for the question whether there is one.
        word.wrapping_sub(0x2020_2020_2020_2020) & !word & 0x8080_8080_8080_8080 != 0
    };
    match value.last_chunk::<8>() {
        Some(last) => words.iter().any(has_some) || has_some(last),
        None => rest.iter().any(is_control),
    }
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
        let mut list = Self::with_room_for(fields, 0);
        for it in fields {
            list.push(it.name, it.value);
        }
        list
    }

    /// An empty list with capacity for `fields` and for a few more lines of `more` bytes together.
    #[must_use]
    pub fn with_room_for(fields: &[Field<'_>], more: usize) -> Self {
        let bytes: usize = fields.iter().map(|it| it.name.len() + it.value.len() + 4).sum();
        let lines = if more > 0 { fields.len() + 6 } else { fields.len() };
        Self::with_capacity(lines, bytes + more)
    }

    /// An empty list with capacity for this number of lines and bytes, line ends included.
    #[must_use]
    pub fn with_capacity(lines: usize, bytes: usize) -> Self {
        Self { text: Vec::with_capacity(bytes), index: Vec::with_capacity(lines) }
    }

    /// The lines of a parsed head, `Some` where they are already in wire form in `head`, from the first to the last: then they are
    /// copied as a whole. The parser has rejected CR, LF and NUL in values. `more` lines and bytes have room after them.
    #[must_use]
    pub fn from_wire<'h>(
        head: &'h [u8],
        fields: impl ExactSizeIterator<Item = Field<'h>>,
        more: (usize, usize),
    ) -> Option<Self> {
        let place = |it: &[u8]| it.as_ptr().addr().wrapping_sub(head.as_ptr().addr());
        let mut index = Vec::with_capacity(fields.len() + more.0);
        let (mut first, mut end) = (0, 0);
        for it in fields {
            let start = place(it.name.as_bytes());
            if index.is_empty() {
                (first, end) = (start, start);
            }
            let name_end = start.wrapping_add(it.name.len());
            let value = place(it.value);
            let line_end = value.wrapping_add(it.value.len());
            let is_wire = start == end
                && value == name_end.wrapping_add(2)
                && head.get(name_end..value) == Some(b": ")
                && head.get(line_end..line_end.wrapping_add(2)) == Some(b"\r\n");
            if !is_wire {
                return None;
            }
            index.push(QuotedLine {
                start: small(start - first),
                name_len: small(it.name.len()),
                value_len: small(it.value.len()),
            });
            end = line_end + 2;
        }
        let mut text = Vec::with_capacity(end - first + more.1);
        text.extend_from_slice(head.get(first..end)?);
        Some(Self { text, index })
    }

    /// Adds a line at the end. The caller passes a valid name and value; CR, LF and NUL in a value are written as spaces,
    /// so that a bug in a caller cannot split a response.
    pub fn push(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        let start = self.text.len();
        self.text.reserve(name.len() + value.len() + 4);
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b": ");
        self.text.extend_from_slice(value);
        if has_controls(value) {
            let copied = self.text.len() - value.len();
            for it in &mut self.text[copied..] {
                *it = if matches!(*it, b'\r' | b'\n' | 0) { b' ' } else { *it };
            }
        }
        self.text.extend_from_slice(b"\r\n");
        self.index.push(QuotedLine {
            start: small(start),
            name_len: small(name.len()),
            value_len: small(value.len()),
        });
    }

    /// The lines in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Field<'_>> + Clone + '_ {
        self.index.iter().map(|it| self.at(*it))
    }

    #[inline]
    fn at(&self, line: QuotedLine) -> Field<'_> {
        line.of(&self.text)
    }

    /// The lines as a vector, for the functions that take a slice.
    #[must_use]
    pub fn view(&self) -> Vec<Field<'_>> {
        self.iter().collect()
    }

    /// The first value of `name`.
    #[must_use]
    #[inline]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.named(name).next().map(|it| it.value)
    }

    /// The lines of one name: most other names differ in length, which is compared first.
    #[inline]
    fn named<'s, 'n>(&'s self, name: &'n str) -> impl Iterator<Item = Field<'s>> + use<'s, 'n> {
        let is_as_long = move |it: &&QuotedLine| it.name_len as usize == name.len();
        self.index.iter().filter(is_as_long).map(|it| self.at(*it)).filter(move |it| it.is(name))
    }

    /// Every value of `name`, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.named(name).map(|it| it.value)
    }

    /// Whether there is a line of that name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Keeps the lines for which `keep` holds, in place.
    pub fn retain(&mut self, mut keep: impl FnMut(Field<'_>) -> bool) {
        // A panic of `keep` leaves an empty list, not one whose lines have half moved.
        let Self { mut text, mut index } = std::mem::take(self);
        let mut end = 0;
        index.retain_mut(|line| {
            let kept = keep(line.of(&text));
            if kept {
                let (start, size) = (line.start as usize, line.size());
                if start != end {
                    text.copy_within(start..start + size, end);
                    line.start = small(end);
                }
                end += size;
            }
            kept
        });
        text.truncate(end);
        *self = Self { text, index };
    }

    /// Makes room for a number of lines and bytes.
    pub fn reserve(&mut self, lines: usize, bytes: usize) {
        self.text.reserve(bytes);
        self.index.reserve(lines);
    }

    /// Removes every line of that name.
    pub fn remove(&mut self, name: &str) {
        if self.contains(name) {
            self.retain(|it| !it.is(name));
        }
    }

    /// Replaces all lines of that name by one.
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

    /// Bytes on the heap.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.blocks().iter().sum()
    }

    /// The sizes of its heap blocks, for the RAM budget.
    #[must_use]
    pub fn blocks(&self) -> [usize; 2] {
        [self.text.capacity(), self.index.capacity() * size_of::<QuotedLine>()]
    }

    /// Releases unused capacity before the list is stored. By a copy: an allocator does not shrink a block that is at
    /// most half too large.
    pub fn shrink(&mut self) {
        if self.text.capacity() > self.text.len() {
            self.text = self.text.as_slice().to_vec();
        }
        if self.index.capacity() > self.index.len() {
            self.index = self.index.as_slice().to_vec();
        }
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
    use proptest::prelude::*;

    #[track_caller]
    fn check_members(value: &str, expect: &[&str]) {
        let got: Vec<_> = members(value.as_bytes()).map(|it| std::str::from_utf8(it).unwrap()).collect();
        assert_eq!(expect, got, "{value}");
    }

    #[test]
    fn a_set_of_names_contains_its_inserted_names() {
        let mut set = NameSet::default();
        set.insert("X-Powered-By");
        assert!(set.may_have("x-powered-by"));
        assert!(!set.may_have("Server"));
        assert!(!NameSet::default().may_meet(set));
        assert!(set.may_meet(NameSet::ALL) && NameSet::ALL.may_have("Server"));
        assert_eq!(set, NameSet::from_bytes(&set.to_bytes()));
    }

    /// The names in most heads are in classes of their own: a rule for one of them does not slow down responses without it.
    #[test]
    fn names_of_most_heads_are_in_different_classes() {
        let of_heads = [
            "Server",
            "Date",
            "Content-Type",
            "Content-Length",
            "Cache-Control",
            "Via",
            "Age",
            "Cache-Status",
            "ETag",
            "Last-Modified",
            "Vary",
            "Expires",
            "Accept-Ranges",
            "Content-Encoding",
            "Connection",
            "Set-Cookie",
        ];
        let of_rules = [
            "X-Powered-By",
            "X-Frame-Options",
            "X-Content-Type-Options",
            "Strict-Transport-Security",
            "Content-Security-Policy",
            "Referrer-Policy",
            "Permissions-Policy",
            "Access-Control-Allow-Origin",
            "X-Robots-Tag",
        ];
        let mut set = NameSet::default();
        of_heads.iter().for_each(|it| set.insert(it));
        let met: Vec<_> = of_rules.iter().filter(|it| set.may_have(it)).collect();
        assert!(met.is_empty(), "{met:?}");
    }

    #[test]
    fn a_head_in_wire_form_is_copied_as_a_whole() {
        let check = |head: &str, is_wire: bool| {
            let fields: Vec<_> = head
                .lines()
                .filter_map(|it| it.split_once(':'))
                .map(|(name, value)| Field { name, value: trim(value.as_bytes()) })
                .collect();
            let list = FieldList::from_wire(head.as_bytes(), fields.iter().copied(), (1, 9));
            assert_eq!(is_wire, list.is_some(), "{head:?}");
            if let Some(mut list) = list {
                assert_eq!(FieldList::from_fields(&fields), list, "{head:?}");
                list.push("C", "3");
                assert_eq!(Some(&b"3"[..]), list.get("c"));
            }
        };
        check("HTTP/1.1 200 OK\r\nA: 1\r\nBc: 2 3\r\n\r\n", true);
        check("A: \r\nB: \r\n", true);
        check("A:1\r\n\r\n", false);
        check("A: 1\nB: 2\r\n", false);
        check("A: 1 \r\nB: 2\r\n", false);
        check("A:  1\r\n", false);
        check("A: 1\r\n B\r\nC: 2\r\n", false);
        check("A: 1", false);
        let elsewhere = String::from("A");
        let field = Field { name: &elsewhere, value: b"1" };
        assert_eq!(None, FieldList::from_wire(b"A: 1\r\n", [field].into_iter(), (0, 0)));
        assert_eq!(Some(FieldList::new()), FieldList::from_wire(b"HTTP/1.1 200 OK", [].into_iter(), (0, 0)));
    }

    #[test]
    fn removed_lines_leave_the_others_in_order() {
        for gone in ["", "a", "b", "c", "ab", "ac", "bc", "abc"] {
            let mut list = FieldList::new();
            let mut expect = FieldList::new();
            for (name, value) in [("a", "1"), ("b", "22"), ("a", "333"), ("c", ""), ("b", "4")] {
                list.push(name, value);
                if !gone.contains(name) {
                    expect.push(name, value);
                }
            }
            list.retain(|it| !gone.contains(it.name));
            assert_eq!(expect, list, "{gone}");
        }
    }

    #[test]
    fn controls_in_values_are_spaces() {
        for value in ["", "1234567", "12345678", "1234567890\u{80}\u{ff}", "\t2345678"] {
            for (at, control) in (0..value.len()).flat_map(|at| [(at, b'\r'), (at, b'\n'), (at, 0)]) {
                let (mut bad, mut good) = (value.as_bytes().to_vec(), value.as_bytes().to_vec());
                (bad[at], good[at]) = (control, b' ');
                let mut list = FieldList::new();
                list.push("A", &bad);
                assert_eq!(Some(&good[..]), list.get("a"));
            }
        }
    }

    #[test]
    fn members_of_a_list() {
        check_members("", &[]);
        check_members(" , ,", &[]);
        check_members("a", &["a"]);
        check_members("a , b\t,,c ", &["a", "b", "c"]);
        check_members(r#"a="b, c", d"#, &[r#"a="b, c""#, "d"]);
        check_members(r#"a="b\", c", d"#, &[r#"a="b\", c""#, "d"]);
        check_members(r#"a="b, c"#, &[r#"a="b, c"#]);
    }

    proptest! {
        #[test]
        fn a_member_is_trimmed_and_never_empty(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            for it in members(&value) {
                prop_assert!(!it.is_empty());
                prop_assert_eq!(trim(it), it);
            }
        }

        #[test]
        fn a_list_returns_the_fields_inserted(
            lines in proptest::collection::vec(("[A-Za-z-]{1,9}", "[ -~]{0,20}"), 0..9)
        ) {
            let fields: Vec<_> =
                lines.iter().map(|it| Field { name: &it.0, value: it.1.as_bytes() }).collect();
            let list = FieldList::from_fields(&fields);
            prop_assert_eq!(&fields, &list.view());
            let wire: String = lines.iter().map(|it| format!("{}: {}\r\n", it.0, it.1)).collect();
            prop_assert_eq!(wire.as_bytes(), list.text());
        }
    }

    #[test]
    fn tokens() {
        assert!(is_token(b"x-Gzip!#$%&'*+-.^_`|~9"));
        for it in [&b""[..], b"a b", b"a\"", b"a,", b"\x80", b"(a)", b"a=b"] {
            assert!(!is_token(it), "{it:?}");
        }
    }

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
