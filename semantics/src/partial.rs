//! Partial responses: stored, served, completed and combined (RFC 9111 §3.3, §3.4, RFC 9110 §15.3.7.3).

use crate::date;
use crate::entity_tag;
use crate::freshness::Freshness;
use crate::range::{self, HeldRange, Selection, Spec};
use crate::stored::Meta;
use crate::validator;
use larder_stdx::clock::WallTime;

/// The `Range` value that requests the missing bytes of a part from the origin, to be sent with the stored strong
/// validator as `If-Range`: `bytes=500-`. `None` if no bytes are missing, or bytes on both sides, which would arrive as a
/// multipart: then the request is sent without `Range`.
#[must_use]
pub fn missing(part: &HeldRange) -> Option<String> {
    let has_end = part.complete == Some(part.last.saturating_add(1));
    match (part.first, has_end) {
        (0, false) => Some(format!("bytes={}-", part.last.saturating_add(1))),
        (first @ 1.., true) => Some(format!("bytes=0-{}", first - 1)),
        _ => None,
    }
}

/// The request that completes a stored part: the missing `Range` and the strong validator to send as `If-Range` (RFC 9110
/// §13.1.5: never a weak one).
#[must_use]
pub fn completion(stored: &Meta) -> Option<(String, Vec<u8>)> {
    let range = missing(&stored.partial()?)?;
    let validator = match (&stored.etag, stored.last_modified.get()) {
        (Some(tag), _) => (!tag.starts_with(b"W/")).then(|| tag.to_vec())?,
        (None, Some(time)) if validator::last_modified_is_strong(stored) => date::format(time).into_bytes(),
        (None, _) => return None,
    };
    Some((range, validator))
}

/// Whether a client whose transfer was cut can request the rest: a whole response with a strong entity tag, by `Range` and
/// `If-Range` (RFC 9110 §13.1.5). `Last-Modified` does not count: a file that replaced another may have its time.
#[must_use]
pub fn is_resumable(meta: &Meta) -> bool {
    let is_strong = meta.etag.as_deref().is_some_and(|it| !it.starts_with(b"W/"));
    is_strong && meta.status == 200 && meta.partial().is_none()
}

/// The bytes of a stored part that answer a `Range` value: (first, last, complete length if known), for a 206 with that
/// `Content-Range`. `None` if the stored response is whole, the range is not a single valid one, or it is not certainly
/// stored.
#[must_use]
pub fn answers(stored: &Meta, range_value: &[u8]) -> Option<(u64, u64, Option<u64>)> {
    let part = stored.partial()?;
    let (first, last) = match part.complete {
        Some(complete) => match range::select(range_value, complete) {
            Selection::One(first, last) => (first, last),
            Selection::Whole | Selection::Many(_) | Selection::Unsatisfiable => return None,
        },
        None => {
            // Without a length only a span with both ends is certainly stored.
            let mut specs = range::specs(range_value)?;
            match (specs.next()?, specs.next()) {
                (Some(Spec::Span(first, last)), None) => (first, last),
                _ => return None,
            }
        }
    };
    part.contains(first, last).then_some((first, last, part.complete))
}

/// The result of combining two parts of the same representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// They touch or overlap: one part, which may be the whole now.
    Into {
        /// The union.
        part: HeldRange,
        /// Whether every byte is stored.
        whole: bool,
    },
    /// They cannot be combined; the new one replaces the old.
    Replace,
}

/// Whether `new` may be combined with `old`: both share a strong validator and touch (RFC 9111 §3.4).
/// A response that is whole already is not combined with anything.
#[must_use]
pub fn combine(old: &Meta, new: &Meta) -> Combine {
    let (Some(a), Some(b)) = (old.partial(), new.partial()) else { return Combine::Replace };
    let touch = a.first <= b.last.saturating_add(1) && b.first <= a.last.saturating_add(1);
    let complete = a.complete.or(b.complete);
    let agree = b.complete.is_none() || b.complete == complete;
    let part = HeldRange { first: a.first.min(b.first), last: a.last.max(b.last), complete };
    let within = complete.is_none_or(|it| part.last < it);
    if touch && agree && within && validator::same_strong(old, new) {
        Combine::Into { part, whole: part.is_whole() }
    } else {
        Combine::Replace
    }
}

/// The treatment of a new part if a response is stored under its key and variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Both are joined ([`combine`]).
    Combines,
    /// It replaces the other.
    Replaces,
    /// It is dropped: a whole response that is still fresh, or has the same validator, is worth more.
    Gives,
}

/// Decides whether a part joins, replaces, or yields to the stored response.
#[must_use]
pub fn beside(stored: &Meta, part: &Meta, now: WallTime) -> Beside {
    if stored.partial().is_some() {
        return match combine(stored, part) {
            Combine::Into { .. } => Beside::Combines,
            Combine::Replace => Beside::Replaces,
        };
    }
    let differs = match (&stored.etag, &part.etag) {
        (Some(a), Some(b)) => !entity_tag::weak_eq(a, b),
        _ => stored.last_modified != part.last_modified,
    };
    let fresh = matches!(stored.freshness(now), Freshness::Fresh { .. });
    let gives = stored.status == 200 && !differs && (fresh || validator::same_strong(stored, part));
    if gives { Beside::Gives } else { Beside::Replaces }
}

/// Whether a whole that was found is of another representation than a part that came later: both have strong tags, which differ. The whole is
/// not to be gone back to then.
#[must_use]
pub fn outdates(part: &Meta, whole: &Meta) -> bool {
    let tags = part.etag.as_deref().zip(whole.etag.as_deref());
    let differ = tags.is_some_and(|(a, b)| a != b && !a.starts_with(b"W/") && !b.starts_with(b"W/"));
    let is_later = (part.date, part.response_time) >= (whole.date, whole.response_time);
    part.partial().is_some() && whole.partial().is_none() && differ && is_later
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditional::tests::meta;
    use crate::field::Field;
    use proptest::prelude::*;

    fn part(spec: &str) -> HeldRange {
        meta(&format!("p:{spec}")).partial().expect(spec)
    }

    #[test]
    fn only_one_valid_content_range_makes_a_part() {
        let line = |value| Field { name: "content-range", value };
        assert_eq!(Some(part("0-1/5")), HeldRange::of(&[line(b"bytes 0-1/5")]));
        assert_eq!(None, HeldRange::of(&[line(b"bytes 0-1/5"), line(b"bytes 0-1/5")]));
        assert_eq!(None, HeldRange::of(&[line(b"bytes */5")]));
        assert_eq!(None, HeldRange::of(&[]));
    }

    #[track_caller]
    fn check_missing(held: &str, expect: Option<&str>) {
        assert_eq!(expect, missing(&part(held)).as_deref(), "{held}");
    }

    #[test]
    fn the_missing_range_of_a_part() {
        check_missing("0-9/10", None);
        check_missing("0-4/10", Some("bytes=5-"));
        check_missing("0-4/*", Some("bytes=5-"));
        check_missing("5-9/10", Some("bytes=0-4"));
        check_missing("5-8/10", None);
        check_missing("5-9/*", None);
    }

    #[test]
    fn facts_of_a_part() {
        assert!(part("0-9/10").is_whole() && !part("0-9/*").is_whole() && !part("1-9/10").is_whole());
        assert_eq!((10, 1), (part("0-9/*").length(), part("9-9/*").length()));
    }

    #[track_caller]
    fn check_completion(stored: &str, expect: Option<(&str, &str)>) {
        let got = completion(&meta(stored));
        let expect = expect.map(|(range, validator)| (range.to_owned(), validator.as_bytes().to_vec()));
        assert_eq!(expect, got, "{stored}");
    }

    #[test]
    fn only_a_whole_response_with_a_strong_tag_is_resumable() {
        for (spec, expect) in [
            ("e:\"a\"", true),
            ("e:\"a\" lm:500", true),
            ("e:W/\"a\"", false),
            ("lm:500", false),
            ("", false),
            ("404 e:\"a\"", false),
            ("e:\"a\" p:0-4/10", false),
        ] {
            assert_eq!(expect, is_resumable(&meta(spec)), "{spec}");
        }
    }

    #[test]
    fn completing_takes_a_strong_validator() {
        check_completion("e:\"a\" p:0-4/10", Some(("bytes=5-", "\"a\"")));
        check_completion("e:W/\"a\" p:0-4/10", None);
        check_completion("e:W/\"a\" lm:500 p:0-4/10", None);
        check_completion("lm:500 p:0-4/10", Some(("bytes=5-", "Thu, 01 Jan 1970 00:08:20 GMT")));
        check_completion("lm:1000 p:0-4/10", None);
        check_completion("p:0-4/10", None);
        check_completion("e:\"a\"", None);
    }

    #[track_caller]
    fn check_beside(stored: &str, part: &str, expect: Beside) {
        assert_eq!(expect, beside(&meta(stored), &meta(part), WallTime(1001)), "{stored} beside {part}");
    }

    #[test]
    fn a_part_gives_way_to_a_whole_of_the_same_bytes() {
        check_beside("e:\"a\"", "e:\"a\" p:0-4/10", Beside::Gives);
        check_beside("e:\"a\"", "e:\"b\" p:0-4/10", Beside::Replaces);
        check_beside("", "p:0-4/10", Beside::Gives);
        check_beside("lm:500", "lm:501 p:0-4/10", Beside::Replaces);
        check_beside("404", "p:0-4/10", Beside::Replaces);
        check_beside("e:\"a\" p:5-9/10", "e:\"a\" p:0-4/10", Beside::Combines);
        check_beside("e:\"a\" p:6-9/10", "e:\"a\" p:0-4/10", Beside::Replaces);
        let stale = WallTime(5000);
        assert_eq!(Beside::Replaces, beside(&meta("e:W/\"a\""), &meta("e:W/\"a\" p:0-4/10"), stale));
        assert_eq!(Beside::Gives, beside(&meta("e:\"a\""), &meta("e:\"a\" p:0-4/10"), stale));
    }

    #[track_caller]
    fn check(held: &str, range: &str, expect: Option<(u64, u64, Option<u64>)>) {
        let stored = meta(&if held.is_empty() { String::new() } else { format!("206 p:{held}") });
        assert_eq!(expect, answers(&stored, range.as_bytes()), "{held} {range}");
    }

    #[test]
    fn sub_ranges_of_a_stored_part() {
        check("2-7/10", "bytes=2-7", Some((2, 7, Some(10))));
        check("2-7/10", "bytes=3-4", Some((3, 4, Some(10))));
        check("2-7/10", "bytes=1-4", None);
        check("2-7/10", "bytes=3-8", None);
        check("2-7/10", "bytes=3-", None);
        check("2-7/10", "bytes=-2", None);
        check("5-9/10", "bytes=5-", Some((5, 9, Some(10))));
        check("5-9/10", "bytes=7-", Some((7, 9, Some(10))));
        check("5-9/10", "bytes=7-100", Some((7, 9, Some(10))));
        check("5-9/10", "bytes=-5", Some((5, 9, Some(10))));
        check("5-9/10", "bytes=-6", None);
        check("5-9/10", "bytes=10-", None);
        check("5-9/10", "bytes=5-5,7-7", None);
        check("5-9/10", "bytes=5-5,6-7", Some((5, 7, Some(10))));
        check("0-9/10", "bytes=-99", Some((0, 9, Some(10))));
        check("5-9/*", "bytes=6-8", Some((6, 8, None)));
        check("5-9/*", "bytes=6-", None);
        check("5-9/*", "bytes=-1", None);
        check("5-9/*", "bytes=6-10", None);
        check("5-9/*", "bytes=6-7,8-9", None);
        check("5-9/*", "bytes=8-7", None);
        check("5-9/*", "lines=6-8", None);
        check("5-9/10", "garbage", None);
        check("", "bytes=0-1", None);
    }

    #[track_caller]
    fn check_combine(old: &str, new: &str, expect: Option<(&str, bool)>) {
        let expect = expect.map_or(Combine::Replace, |(it, whole)| Combine::Into { part: part(it), whole });
        assert_eq!(expect, combine(&meta(old), &meta(new)), "{old} + {new}");
    }

    #[test]
    fn combining() {
        check_combine("e:\"a\" p:0-4/10", "e:\"a\" p:5-9/10", Some(("0-9/10", true)));
        check_combine("e:\"a\" p:5-9/10", "e:\"a\" p:0-4/10", Some(("0-9/10", true)));
        check_combine("e:\"a\" p:0-4/10", "e:\"a\" p:3-7/10", Some(("0-7/10", false)));
        check_combine("e:\"a\" p:0-4/*", "e:\"a\" p:5-9/10", Some(("0-9/10", true)));
        check_combine("e:\"a\" p:0-4/10", "e:\"a\" p:5-9/*", Some(("0-9/10", true)));
        check_combine("e:\"a\" p:0-4/*", "e:\"a\" p:5-9/*", Some(("0-9/*", false)));
        check_combine("e:\"a\" p:2-7/10", "e:\"a\" p:3-4/10", Some(("2-7/10", false)));
        check_combine("lm:1 p:0-4/10", "lm:1 p:5-9/10", Some(("0-9/10", true)));
        // A hole, another length, another or a weak validator, none at all.
        check_combine("e:\"a\" p:0-4/10", "e:\"a\" p:6-9/10", None);
        check_combine("e:\"a\" p:0-4/10", "e:\"a\" p:5-9/11", None);
        check_combine("e:\"a\" p:0-4/5", "e:\"a\" p:5-9/*", None);
        check_combine("e:\"a\" p:0-4/10", "e:\"b\" p:5-9/10", None);
        check_combine("e:W/\"a\" p:0-4/10", "e:W/\"a\" p:5-9/10", None);
        check_combine("lm:1 date:1 p:0-4/10", "lm:1 p:5-9/10", None);
        check_combine("p:0-4/10", "p:5-9/10", None);
        // Whole ones.
        check_combine("e:\"a\"", "e:\"a\" p:5-9/10", None);
        check_combine("e:\"a\" p:5-9/10", "e:\"a\"", None);
    }

    proptest! {
        #[test]
        fn a_combination_holds_both_and_no_more(
            a in 0..40u64, b in 0..40u64, c in 0..40u64, d in 0..40u64, known: bool
        ) {
            let spec = |x: u64, y: u64| {
                let complete = if known { "40".to_owned() } else { "*".to_owned() };
                meta(&format!("e:\"a\" p:{}-{}/{complete}", x.min(y), x.max(y)))
            };
            let (old, new) = (spec(a, b), spec(c, d));
            let (x, y) = (old.partial().unwrap(), new.partial().unwrap());
            let bytes: std::collections::BTreeSet<u64> = (x.first..=x.last).chain(y.first..=y.last).collect();
            if let Combine::Into { part, whole } = combine(&old, &new) {
                prop_assert_eq!(part.length(), bytes.len() as u64);
                prop_assert!(bytes.contains(&part.first) && bytes.contains(&part.last));
                prop_assert_eq!(whole, known && bytes.len() == 40);
            } else {
                prop_assert!(!bytes.contains(&(x.last + 1)) && !bytes.contains(&(y.last + 1)));
            }
        }

        #[test]
        fn never_panics(range in proptest::collection::vec(any::<u8>(), 0..40), spec in "bytes=[0-9,-]{0,20}") {
            for held in [meta("p:5-9/10"), meta("p:5-9/*"), meta("")] {
                let _ = answers(&held, &range);
                if let Some((first, last, _)) = answers(&held, spec.as_bytes()) {
                    prop_assert!(held.partial().unwrap().contains(first, last));
                }
            }
        }
    }
}
