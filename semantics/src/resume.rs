//! The rest of a whole response for one who has its first bytes: whether it may be asked for, how, and which answers
//! bring it (RFC 9110 §13.1.5, §14.2, §15.3.7.3). Parts that are stored are completed by `partial`.
//!
//! A strong entity tag proves that an answer has the same bytes, so that its rest will do. Without one the whole is asked
//! for again: an answer that begins with the very bytes that were sent can be sent in its whole length from where they end,
//! and what its client then has is that answer and never a mixture, whatever became of the page meanwhile.

use crate::field::{self, Field};
use crate::partial::HeldRange;
use crate::stored::{self, Meta};
use crate::validator;

/// The strong entity tag by which the rest of this response can be asked for, whatever becomes of it meanwhile; `None`
/// where nothing proves that two answers have the same bytes.
///
/// `Last-Modified` does not, even where RFC 9110 §8.8.2.2 would call it strong: a file that was put in place of another may
/// have its time, and the two halves of two files would be sent as one.
#[must_use]
pub fn tag(meta: &Meta) -> Option<&[u8]> {
    let tag = meta.etag.as_deref().filter(|it| !it.starts_with(b"W/"))?;
    (meta.status == 200 && meta.partial.is_none()).then_some(tag)
}

/// What a head says of its body beside how long it is and in which coding (RFC 9110 §8.3 to §8.8, RFC 9530): where any
/// of it is another in a new answer, the head that was sent would be untrue of the new body.
const SAYS: [&str; 9] = [
    "content-type",
    "content-language",
    "content-location",
    "etag",
    "last-modified",
    "content-md5",
    "digest",
    "content-digest",
    "repr-digest",
];

/// The `Range` for what follows the first `at` bytes.
#[must_use]
pub fn range(at: u64) -> String {
    format!("bytes={at}-")
}

/// A response of which some has been sent.
#[derive(Clone, Copy, Debug)]
pub struct BegunResponse<'a> {
    /// Its facts.
    pub meta: &'a Meta,
    /// Its fields.
    pub fields: &'a [Field<'a>],
    /// How long its body is, where that is known.
    pub length: Option<u64>,
    /// How many bytes of it were sent.
    pub at: u64,
}

/// Where the body of an answer stands to what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumes {
    /// So many of its first bytes were sent already.
    pub skip: u64,
    /// So many bytes it has, those to be skipped included, where that is known; others are no rest of anything.
    pub length: Option<u64>,
    /// What shows that the two are one.
    pub proof: Proof,
}

/// What shows that the bytes of an answer follow those that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Both have one strong entity tag.
    Tag,
    /// Nothing yet: the bytes to be skipped must be found to be those that were sent.
    Bytes,
}

impl BegunResponse<'_> {
    /// Whether an answer has the bytes that follow, to the last. To a request with [`range`] and `If-Range`: a 206 of the same
    /// strong tag that begins there and ends where the whole does. To any: the whole once more, of that tag; or one whose
    /// head says the same of its body, if its bytes turn out to be the same so far. `length` is that of its body, where its
    /// framing says one. `None` of anything else, such as a part of what was asked for.
    #[must_use]
    pub fn resumes(&self, status: u16, fields: &[Field<'_>], length: Option<u64>) -> Option<Resumes> {
        let same_tag =
            tag(self.meta).zip(stored::etag(fields)).is_some_and(|(ours, it)| validator::strong_eq(ours, it));
        match status {
            206 if same_tag => self.part(fields, length),
            200 if same_tag => self.whole(fields, length, Proof::Tag),
            206 => None,
            _ => {
                let alike =
                    status == self.meta.status && self.meta.partial.is_none() && self.says_the_same(fields);
                alike.then(|| self.whole(fields, length, Proof::Bytes))?
            }
        }
    }

    fn says_the_same(&self, fields: &[Field<'_>]) -> bool {
        SAYS.iter().all(|name| field::all(self.fields, name).eq(field::all(fields, name)))
    }

    fn part(&self, fields: &[Field<'_>], length: Option<u64>) -> Option<Resumes> {
        let part = HeldRange::of(fields)?;
        let ends = part.last.checked_add(1)?;
        let known = [self.length, part.complete];
        let to_the_end = known.iter().any(Option::is_some) && known.iter().flatten().all(|it| *it == ends);
        let exact = length.is_none_or(|it| it == part.length());
        // After If-Range a 206 need not repeat what is known already (RFC 9110 §15.3.7).
        let coding = !fields.iter().any(|it| it.is("content-encoding")) || self.is_coded_like(fields);
        let resumes = part.first == self.at && to_the_end && exact && coding;
        resumes.then_some(Resumes { skip: 0, length: Some(part.length()), proof: Proof::Tag })
    }

    fn whole(&self, fields: &[Field<'_>], length: Option<u64>, proof: Proof) -> Option<Resumes> {
        let known = [self.length, length];
        let agree = self.length.is_none() || length.is_none() || self.length == length;
        let reaches = known.iter().flatten().all(|it| *it >= self.at);
        let length = self.length.or(length);
        (agree && reaches && self.is_coded_like(fields)).then_some(Resumes { skip: self.at, length, proof })
    }

    fn is_coded_like(&self, fields: &[Field<'_>]) -> bool {
        let codings = |it: &[Field<'_>]| -> Vec<Vec<u8>> {
            let lines = it.iter().filter(|it| it.is("content-encoding"));
            lines.flat_map(|it| field::members(it.value).map(<[u8]>::to_ascii_lowercase)).collect()
        };
        codings(self.fields) == codings(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditional::tests::meta;

    #[test]
    fn only_a_strong_tag_of_a_whole_response_will_do() {
        let check = |spec: &str, expect: Option<&str>| {
            assert_eq!(expect.map(str::as_bytes), tag(&meta(spec)), "{spec}");
        };
        check("e:\"a\"", Some("\"a\""));
        check("e:\"a\" lm:500", Some("\"a\""));
        check("e:W/\"a\"", None);
        check("lm:500", None);
        check("", None);
        check("404 e:\"a\"", None);
        check("e:\"a\" p:0-4/10", None);
        assert_eq!("bytes=500-", range(500));
    }

    /// `answer`: a status and fields, `etag: "a"; content-range: bytes 4-9/10`; `length` of its body.
    #[track_caller]
    fn check(
        begun: &str,
        whole: Option<u64>,
        answer: &str,
        length: Option<u64>,
        expect: Option<(u64, Option<u64>)>,
    ) {
        let fields = |text: &'static str| -> Vec<Field<'static>> {
            let lines = text.split("; ").filter(|it| !it.is_empty());
            lines
                .map(|it| it.split_once(": ").unwrap())
                .map(|(name, value)| Field { name, value: value.as_bytes() })
                .collect()
        };
        let (status, rest) = answer.split_once(' ').unwrap();
        let (mut sent, came) = (fields(begun.to_owned().leak()), fields(rest.to_owned().leak()));
        sent.push(Field { name: "ETag", value: b"\"a\"" });
        let begun = BegunResponse { meta: &meta("e:\"a\""), fields: &sent, length: whole, at: 4 };
        let expect = expect.map(|(skip, length)| Resumes { skip, length, proof: Proof::Tag });
        assert_eq!(
            expect,
            begun.resumes(status.parse().unwrap(), &came, length),
            "{answer} {length:?} of {whole:?}"
        );
    }

    #[test]
    fn a_part_goes_on_where_it_was_left_and_to_the_end() {
        let rest = Some((0, Some(6)));
        let part = "206 etag: \"a\"; content-range: bytes 4-9/10";
        check("", Some(10), part, Some(6), rest);
        check("", None, part, Some(6), rest);
        check("", Some(10), part, None, rest);
        check("", Some(10), "206 etag: \"a\"; content-range: bytes 4-9/*", Some(6), rest);
        check("content-encoding: gzip", Some(10), part, Some(6), rest);
        check(
            "content-encoding: x, gzip",
            Some(10),
            &format!("{part}; content-encoding: x; content-encoding: GZIP"),
            Some(6),
            rest,
        );
        // Nobody knows where it ends; it is not the end; it is another whole.
        check("", None, "206 etag: \"a\"; content-range: bytes 4-9/*", Some(6), None);
        check("", Some(10), "206 etag: \"a\"; content-range: bytes 4-8/10", Some(5), None);
        check("", Some(11), part, Some(6), None);
        check("", Some(10), "206 etag: \"a\"; content-range: bytes 4-10/11", Some(7), None);
        // It begins elsewhere, says two things, or nothing.
        check("", Some(10), "206 etag: \"a\"; content-range: bytes 3-9/10", Some(7), None);
        check("", Some(10), "206 etag: \"a\"; content-range: bytes 5-9/10", Some(5), None);
        check("", Some(10), part, Some(5), None);
        check("", Some(10), "206 etag: \"a\"; content-range: bytes 4-18446744073709551615/*", None, None);
        check("", Some(10), "206 etag: \"a\"; content-type: multipart/byteranges", Some(6), None);
        // It is not known to be of the same bytes.
        check("", Some(10), "206 content-range: bytes 4-9/10", Some(6), None);
        check("", Some(10), "206 etag: W/\"a\"; content-range: bytes 4-9/10", Some(6), None);
        check("", Some(10), "206 etag: \"b\"; content-range: bytes 4-9/10", Some(6), None);
        check("", Some(10), &format!("{part}; content-encoding: gzip"), Some(6), None);
        check("content-encoding: br", Some(10), &format!("{part}; content-encoding: gzip"), Some(6), None);
    }

    #[test]
    fn the_whole_once_more_is_skipped_to_where_it_was_left() {
        check("", Some(10), "200 etag: \"a\"", Some(10), Some((4, Some(10))));
        check("", None, "200 etag: \"a\"", Some(10), Some((4, Some(10))));
        check("", Some(10), "200 etag: \"a\"", None, Some((4, Some(10))));
        check("", None, "200 etag: \"a\"", None, Some((4, None)));
        check(
            "content-encoding: gzip",
            None,
            "200 etag: \"a\"; content-encoding: gzip",
            None,
            Some((4, None)),
        );
        check("", Some(10), "200 etag: \"a\"", Some(11), None);
        check("", None, "200 etag: \"a\"", Some(3), None);
        check("", Some(10), "200 etag: \"b\"", Some(10), None);
        check("", Some(10), "200 etag: W/\"a\"", Some(10), None);
        check("", Some(10), "200 x: y", Some(10), None);
        check("content-encoding: gzip", Some(10), "200 etag: \"a\"", Some(10), None);
        check("", Some(10), "200 etag: \"a\"; content-encoding: gzip", Some(10), None);
    }

    /// Without a strong tag: `begun` and `answer` are each a status and fields.
    #[track_caller]
    fn check_bytes(begun: &str, answer: &str, expect: bool) {
        let read = |text: &str| -> (u16, Vec<(String, String)>) {
            let (status, rest) = text.split_once(' ').unwrap_or((text, ""));
            let lines = rest.split("; ").filter_map(|it| it.split_once(": "));
            (status.parse().unwrap(), lines.map(|it| (it.0.to_owned(), it.1.to_owned())).collect())
        };
        fn view(lines: &[(String, String)]) -> Vec<Field<'_>> {
            lines.iter().map(|it| Field { name: &it.0, value: it.1.as_bytes() }).collect()
        }
        let ((status, sent), (new, came)) = (read(begun), read(answer));
        let mut meta = meta("");
        meta.status = status;
        meta.etag = stored::etag(&view(&sent)).map(Into::into);
        let sent = view(&sent);
        let begun_with = |length| BegunResponse { meta: &meta, fields: &sent, length, at: 4 };
        let resumes = |whole, length| begun_with(whole).resumes(new, &view(&came), length);
        for (whole, length) in [(None, None), (Some(10), Some(10)), (None, Some(4)), (Some(4), None)] {
            let all = whole.or(length);
            let expect = expect.then_some(Resumes { skip: 4, length: all, proof: Proof::Bytes });
            assert_eq!(expect, resumes(whole, length), "{begun} and {answer}, {whole:?} {length:?}");
        }
        for (whole, length) in [(Some(10), Some(11)), (None, Some(3)), (Some(10), Some(3))] {
            assert_eq!(None, resumes(whole, length), "{begun} and {answer}, {whole:?} {length:?}");
        }
    }

    #[test]
    fn the_whole_once_more_will_do_where_its_head_says_the_same() {
        check_bytes("200", "200", true);
        check_bytes("200 date: a; server: b", "200 date: c; x: y; cache-control: no-store", true);
        check_bytes("404 content-type: a/b", "404 content-type: a/b", true);
        check_bytes("200 etag: W/\"a\"; last-modified: x", "200 last-modified: x; etag: W/\"a\"", true);
        check_bytes("200 content-encoding: gzip", "200 content-encoding: GZIP", true);
        check_bytes("200 content-encoding: gzip", "200", false);
        check_bytes("200", "404", false);
        check_bytes("200", "206 content-range: bytes 0-9/10", false);
        check_bytes("206", "206", false);
        for name in SAYS {
            let said = format!("200 {name}: \"a\"");
            let other = format!("200 {name}: \"b\"");
            check_bytes(&said, &other, false);
            check_bytes(&said, "200", false);
            check_bytes("200", &said, false);
        }
        check_bytes("200 etag: W/\"a\"", "200 etag: \"a\"", false);
    }

    #[test]
    fn nothing_else_does() {
        for status in [203, 204, 304, 404, 412, 416, 500, 503] {
            check("", Some(10), &format!("{status} etag: \"a\"; content-range: bytes 4-9/10"), Some(6), None);
        }
    }
}
