//! Range requests (RFC 9110 §14): the requested bytes of a representation of known length, and the text around them in a
//! 206. The bytes themselves are not here.

use crate::field::{self, Field};
use std::io::Write as _;

/// The most parts of one response; a request for more, or for ranges of over twice the object in sum, gets the whole
/// object.
pub const MAX_PARTS: usize = 16;

/// The most disjoint ranges that are kept while a field is parsed, since later ones may join them.
const MAX_PENDING: usize = 4 * MAX_PARTS;

/// The effect of a `Range` field. Ranges are (first, last), both inclusive, within the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Ignore the field: 200.
    Whole,
    /// 206 with one part.
    One(u64, u64),
    /// 206 `multipart/byteranges`, in the requested order, overlaps coalesced.
    Many(Vec<(u64, u64)>),
    /// 416.
    Unsatisfiable,
}

/// One member of a `Range`, as requested (RFC 9110 §14.1.2). Numbers too large are `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spec {
    /// `first-last`, not reversed.
    Span(u64, u64),
    /// `first-`.
    From(u64),
    /// `-length`.
    Suffix(u64),
}

/// Applies a `Range` value to a representation of `length` bytes. Units other than bytes, and invalid values, select the
/// whole; so do ranges of more than twice the length in sum. The parts never overlap or touch. Work is linear in the
/// value; only `Many` allocates.
#[must_use]
pub fn select(value: &[u8], length: u64) -> Selection {
    let Some(specs) = specs(value) else { return Selection::Whole };
    let mut parts = RangeSet { list: [(0, 0); MAX_PENDING], len: 0 };
    let mut total = 0u64;
    let (mut any, mut any_empty) = (false, false);
    for spec in specs {
        let Some(spec) = spec else { return Selection::Whole };
        any = true;
        match spec.within(length) {
            Within::Nothing => {}
            Within::Empty => any_empty = true,
            Within::Bytes(first, last) => {
                total = total.saturating_add(last - first + 1);
                if total > length.saturating_mul(2) || !parts.add(first, last) {
                    return Selection::Whole;
                }
            }
        }
    }
    match parts.list.get(..parts.len) {
        Some([]) if any && !any_empty => Selection::Unsatisfiable,
        Some([(first, last)]) => Selection::One(*first, *last),
        Some(many @ [_, ..]) if many.len() <= MAX_PARTS => Selection::Many(many.to_vec()),
        _ => Selection::Whole,
    }
}

/// Disjoint ranges that do not touch, in the requested order. Owns no heap memory.
struct RangeSet {
    list: [(u64, u64); MAX_PENDING],
    len: usize,
}

impl RangeSet {
    /// Adds a range, joined with all that it overlaps or touches, at the position of the first of them. False if the set
    /// is full.
    fn add(&mut self, first: u64, last: u64) -> bool {
        // Ends are below the length, so adding one cannot overflow. The ranges of the list do not touch each other, so
        // those not reached by the new one are not reached by their union either.
        let reaches = |it: &(u64, u64)| it.0 <= last + 1 && first <= it.1 + 1;
        let Some(place) = self.list[..self.len].iter().position(reaches) else {
            let Some(free) = self.list.get_mut(self.len) else { return false };
            *free = (first, last);
            self.len += 1;
            return true;
        };
        let mut joined = (first, last);
        let mut kept = place + 1;
        for at in place..self.len {
            let it = self.list[at];
            if reaches(&it) {
                joined = (joined.0.min(it.0), joined.1.max(it.1));
            } else {
                self.list[kept] = it;
                kept += 1;
            }
        }
        self.list[place] = joined;
        self.len = kept;
        true
    }
}

/// The members of a `Range` in bytes, each `None` if invalid; `None` for other units.
pub fn specs(value: &[u8]) -> Option<impl Iterator<Item = Option<Spec>> + '_> {
    let at = value.iter().position(|it| *it == b'=')?;
    let is_bytes = value[..at].eq_ignore_ascii_case(b"bytes");
    let members = value[at + 1..].split(|it| *it == b',').map(field::trim);
    is_bytes.then(|| members.filter(|it| !it.is_empty()).map(Spec::parse))
}

/// The extent of a member in a representation of known length.
enum Within {
    Bytes(u64, u64),
    /// An empty suffix: satisfiable (RFC 9110 §14.1.2), but a 206 cannot express it.
    Empty,
    Nothing,
}

impl Spec {
    fn parse(member: &[u8]) -> Option<Spec> {
        let at = member.iter().position(|it| *it == b'-')?;
        match (&member[..at], &member[at + 1..]) {
            ([], length) => Some(Spec::Suffix(number(length)?)),
            (first, []) => Some(Spec::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Spec::Span(first, last))
            }
        }
    }

    fn within(self, length: u64) -> Within {
        match self {
            Spec::Suffix(0) => Within::Nothing,
            Spec::Suffix(_) if length == 0 => Within::Empty,
            Spec::Suffix(wanted) => Within::Bytes(length.saturating_sub(wanted), length - 1),
            Spec::Span(first, _) | Spec::From(first) if first >= length => Within::Nothing,
            Spec::From(first) => Within::Bytes(first, length - 1),
            Spec::Span(first, last) => Within::Bytes(first, last.min(length - 1)),
        }
    }
}

/// Parses digits only; too large a number is the largest.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, it| {
        let digit = it.is_ascii_digit().then(|| u64::from(it - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    })
}

/// A valid single `Content-Range` (RFC 9110 §14.4): first, last, complete length if known.
#[must_use]
pub fn content_range(value: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let (unit, rest) = value.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes ") {
        return None;
    }
    let slash = rest.iter().position(|it| *it == b'/')?;
    let (range, complete) = (&rest[..slash], &rest[slash + 1..]);
    let dash = range.iter().position(|it| *it == b'-')?;
    // An offset that does not fit is as good as invalid: such bytes cannot be stored.
    let exact = |digits: &[u8]| number(digits).filter(|it| *it < u64::MAX);
    let (first, last) = (exact(&range[..dash])?, exact(&range[dash + 1..])?);
    let complete = if complete == b"*" { None } else { Some(exact(complete)?) };
    let valid = first <= last && complete.is_none_or(|it| last < it);
    valid.then_some((first, last, complete))
}

/// The stored range of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRange {
    /// Offset of the first stored byte.
    pub first: u64,
    /// Offset of the last stored byte, inclusive.
    pub last: u64,
    /// Length of the whole representation, if known.
    pub complete: Option<u64>,
}

impl HeldRange {
    /// The range of a 206 with these fields: its only `Content-Range`, if that is valid. A multipart has none.
    #[must_use]
    pub fn of(fields: &[Field<'_>]) -> Option<HeldRange> {
        let mut lines = field::all(fields, "content-range");
        let (value, further) = (lines.next()?, lines.next());
        let (first, last, complete) = content_range(value)?;
        further.is_none().then_some(HeldRange { first, last, complete })
    }

    /// The number of stored bytes; one at least.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }

    /// Whether every byte from `first` to `last`, inclusive, is stored.
    #[must_use]
    pub fn contains(&self, first: u64, last: u64) -> bool {
        self.first <= first && first <= last && last <= self.last
    }

    /// Whether it is known to be the whole representation.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.first == 0 && self.complete == Some(self.last.saturating_add(1))
    }
}

/// Appends the value of a `Content-Range` for bytes `first` to `last`: `bytes 0-499/1234`.
pub fn write_content_range(first: u64, last: u64, complete: Option<u64>, out: &mut Vec<u8>) {
    match complete {
        Some(complete) => write!(out, "bytes {first}-{last}/{complete}"),
        None => write!(out, "bytes {first}-{last}/*"),
    }
    .expect("a vector takes everything");
}

/// Appends the text before the bytes of one part of a `multipart/byteranges` (RFC 9110 §14.6), beginning with the line
/// end that closes the part before it.
///
/// `boundary` is the caller's: at most 70 letters and digits that do not occur in the body. `content_type` is the stored
/// response's own, if it has one.
pub fn write_part_head(
    boundary: &str,
    content_type: Option<&[u8]>,
    (first, last): (u64, u64),
    length: u64,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary.as_bytes());
    if let Some(content_type) = content_type {
        out.extend_from_slice(b"\r\nContent-Type: ");
        out.extend_from_slice(content_type);
    }
    out.extend_from_slice(b"\r\nContent-Range: ");
    write_content_range(first, last, Some(length), out);
    out.extend_from_slice(b"\r\n\r\n");
}

/// Appends the text after the last part.
pub fn write_multipart_end(boundary: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n--");
    out.extend_from_slice(boundary.as_bytes());
    out.extend_from_slice(b"--\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(value: &str, length: u64, expect: Selection) {
        assert_eq!(expect, select(value.as_bytes(), length), "{value} of {length}");
    }

    use Selection::{Many, One, Unsatisfiable, Whole};

    #[test]
    fn one_range() {
        check("bytes=0-0", 10, One(0, 0));
        check("bytes=2-5", 10, One(2, 5));
        check("bytes=0-9", 10, One(0, 9));
        check("bytes=2-", 10, One(2, 9));
        check("bytes=2-99", 10, One(2, 9));
        check("bytes=-3", 10, One(7, 9));
        check("bytes=-99", 10, One(0, 9));
        check("Bytes=2-5", 10, One(2, 5));
        check("bytes= 2-5 , ", 10, One(2, 5));
        check("bytes=007-0008", 10, One(7, 8));
        check("bytes=9-99999999999999999999999", 10, One(9, 9));
        check("bytes=-99999999999999999999999", 10, One(0, 9));
    }

    #[test]
    fn unsatisfiable() {
        check("bytes=10-", 10, Unsatisfiable);
        check("bytes=10-20", 10, Unsatisfiable);
        check("bytes=-0", 10, Unsatisfiable);
        check("bytes=10-, -0", 10, Unsatisfiable);
        check("bytes=99999999999999999999999-", 10, Unsatisfiable);
        check("bytes=10-, 3-4", 10, One(3, 4));
        check("bytes=0-", 0, Unsatisfiable);
        check("bytes=0-0", 0, Unsatisfiable);
        check("bytes=-0", 0, Unsatisfiable);
        check("bytes=-1", 0, Whole);
    }

    #[test]
    fn invalid_is_ignored() {
        for it in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=5-2",
            "bytes=1--2",
            "bytes=+1-2",
            "bytes=1 -2",
            "bytes=0x1-2",
            "bytes=1-2-3",
            "bytes=0-1;2-3",
            "bytes=0-1,x",
            "bytes:0-1",
            "bytes 0-1",
            "items=0-1",
            "bytes =0-1",
            "bytes=1.0-2",
            "seconds=0-1, bytes=0-1",
            "bytes=--1",
            "bytes=5-2, 0-1",
        ] {
            check(it, 10, Whole);
        }
    }

    #[test]
    fn many_ranges() {
        check("bytes=0-1, 4-5", 10, Many(vec![(0, 1), (4, 5)]));
        check("bytes=4-5,0-1", 10, Many(vec![(4, 5), (0, 1)]));
        check("bytes=0-1,2-3", 10, One(0, 3));
        check("bytes=0-3,2-5", 10, One(0, 5));
        check("bytes=0-0,-1", 10, Many(vec![(0, 0), (9, 9)]));
        check("bytes=0-1,4-5,1-4", 10, One(0, 5));
        check("bytes=8-9,0-1,4-5,2-3", 10, Many(vec![(8, 9), (0, 5)]));
        check("bytes=0-,0-", 10, One(0, 9));
        check("bytes=0-,0-,0-0", 10, Whole);
    }

    fn disjoint(count: u64) -> String {
        let parts: Vec<_> = (0..count).map(|it| format!("{}-{}", it * 2, it * 2)).collect();
        format!("bytes={}", parts.join(","))
    }

    #[test]
    fn range_bombs_get_the_whole() {
        let overlapping: Vec<_> = (0..1000).map(|it| format!("{it}-")).collect();
        check(&format!("bytes={}", overlapping.join(",")), 100_000, Whole);
        check(&format!("bytes={}0-", "0-,".repeat(10_000)), 100_000, Whole);
        check(&disjoint(17), 1 << 30, Whole);
        check(&disjoint(20_000), 1 << 30, Whole);
        assert!(matches!(select(disjoint(16).as_bytes(), 1 << 30), Many(it) if it.len() == 16));
        // Small ones that touch are one, however many.
        let touching: Vec<_> = (0..1000).map(|it| format!("{it}-{it}")).collect();
        check(&format!("bytes={}", touching.join(",")), 100_000, One(0, 999));
        check(&format!("bytes={}", "999999-,".repeat(20_000)), 10, Unsatisfiable);
    }

    #[test]
    fn content_ranges() {
        let check = |value: &str, expect| assert_eq!(expect, content_range(value.as_bytes()), "{value}");
        check("bytes 0-499/1234", Some((0, 499, Some(1234))));
        check("Bytes 42-42/*", Some((42, 42, None)));
        check("bytes 0-9/10", Some((0, 9, Some(10))));
        for it in [
            "",
            "bytes",
            "bytes */10",
            "bytes 0-10/10",
            "bytes 5-4/10",
            "bytes 0-1",
            "bytes=0-1/2",
            "bytes  0-1/2",
            "bytes 0-1/",
            "bytes -1/2",
            "bytes 0-/2",
            "items 0-1/2",
            "bytes 0-1/2, 2-3/4",
            "bytes 0-1/x",
            "bytes 0-99999999999999999999999/*",
            "bytes +0-1/2",
            "bytes 0-1/2/3",
        ] {
            check(it, None);
        }
    }

    #[test]
    fn multipart() {
        let mut out = Vec::new();
        let parts = [(0, 1), (9, 10)];
        for part in parts {
            write_part_head("B", Some(b"text/plain"), part, 100, &mut out);
            out.extend_from_slice(b"ab");
        }
        write_multipart_end("B", &mut out);
        assert_eq!(
            "\r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/100\r\n\r\nab\
             \r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 9-10/100\r\n\r\nab\r\n--B--\r\n",
            String::from_utf8_lossy(&out)
        );
    }

    type Ends = (Option<u64>, Option<u64>);

    /// A `Range` of plain numbers, and the bytes that it asks for one by one: the oracle.
    fn ranges() -> impl Strategy<Value = (u64, Vec<Ends>)> {
        let end = || proptest::option::weighted(0.8, 0..70u64);
        (0..64u64, proptest::collection::vec((end(), end()), 0..8))
    }

    fn spell(ranges: &[Ends]) -> String {
        let side = |it: Option<u64>| it.map_or(String::new(), |it| it.to_string());
        let all: Vec<_> = ranges.iter().map(|(a, b)| format!("{}-{}", side(*a), side(*b))).collect();
        format!("bytes={}", all.join(", "))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn parts_contain_exactly_the_requested_bytes((length, ranges) in ranges()) {
            let mut asked = std::collections::BTreeSet::new();
            let mut total = 0;
            let mut valid = !ranges.is_empty();
            let mut any_suffix = false;
            for (first, last) in &ranges {
                let (from, to) = match (first, last) {
                    (None, None) => (0, 0),
                    (Some(first), Some(last)) => (*first, (last + 1).min(length)),
                    (Some(first), None) => (*first, length),
                    (None, Some(suffix)) => (length.saturating_sub(*suffix), length),
                };
                valid &= match (first, last) {
                    (None, None) => false,
                    (Some(first), Some(last)) => first <= last,
                    _ => true,
                };
                any_suffix |= first.is_none() && last.is_some_and(|it| it > 0);
                total += to.saturating_sub(from);
                asked.extend(from..to);
            }
            let parts = match select(spell(&ranges).as_bytes(), length) {
                Whole => {
                    prop_assert!(!valid || total > 2 * length || (length == 0 && any_suffix));
                    return Ok(());
                }
                Unsatisfiable => vec![],
                One(first, last) => vec![(first, last)],
                Many(parts) => parts,
            };
            prop_assert!(valid && total <= 2 * length);
            let got: Vec<u64> = parts.iter().flat_map(|(first, last)| *first..=*last).collect();
            prop_assert_eq!(asked.len(), got.len(), "no byte twice");
            prop_assert!(got.iter().all(|it| asked.contains(it)));
            for (first, last) in &parts {
                prop_assert!(!parts.iter().any(|it| it.0 == last + 1 || it.1 + 1 == *first), "joined");
            }
        }

        #[test]
        fn never_panics_and_stays_within(
            value in "(bytes=)?[0-9,\\- ]{0,60}", noise in proptest::collection::vec(any::<u8>(), 0..40),
            length in prop_oneof![any::<u64>(), 0..100u64],
        ) {
            let _ = (select(&noise, length), content_range(&noise));
            let parts = match select(value.as_bytes(), length) {
                One(first, last) => vec![(first, last)],
                Many(parts) => parts,
                Whole | Unsatisfiable => vec![],
            };
            prop_assert!(parts.len() <= MAX_PARTS);
            prop_assert!(parts.iter().all(|(first, last)| first <= last && *last < length));
            let total: u128 = parts.iter().map(|(first, last)| u128::from(last - first) + 1).sum();
            prop_assert!(total <= u128::from(length), "no byte twice, so never over the length");
        }

        #[test]
        fn a_content_range_is_read_as_written(first in 0..1000u64, more in 0..1000u64, rest in 1..1000u64, known: bool) {
            let last = first + more;
            let complete = known.then_some(last + rest);
            let mut out = Vec::new();
            write_content_range(first, last, complete, &mut out);
            prop_assert_eq!(Some((first, last, complete)), content_range(&out));
        }
    }
}
