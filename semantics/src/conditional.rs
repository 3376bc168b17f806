//! Preconditions of a request against a stored response: RFC 9110 §13, in its order of precedence.

use crate::date;
use crate::entity_tag;
use crate::field::{self, Field};
use crate::stored::Meta;
use crate::validator;
use larder_stdx::clock::WallTime;

/// The result of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Respond as without preconditions.
    Proceed,
    /// 304 (RFC 9110 §15.4.5).
    NotModified,
    /// 412 (RFC 9110 §15.5.13).
    Failed,
}

/// Evaluates `If-Match`, `If-Unmodified-Since`, `If-None-Match`, `If-Modified-Since` for a GET or HEAD
/// (RFC 9110 §13.2.2). Stored responses that are not 200 (or 206) ignore them.
#[must_use]
pub fn evaluate(fields: &[Field<'_>], stored: &Meta) -> Precondition {
    if !matches!(stored.status, 200 | 206) {
        return Precondition::Proceed; // RFC 9110 §13.2.1.
    }
    if has(fields, "if-match") {
        if !any_tag(fields, "if-match", stored, entity_tag::strong_eq) {
            return Precondition::Failed;
        }
    } else if let (Some(since), Some(modified)) =
        (only_date(fields, "if-unmodified-since"), stored.last_modified.get())
    {
        // Without a Last-Modified the field is ignored (RFC 9110 §13.1.4).
        if modified > since {
            return Precondition::Failed;
        }
    }
    if has(fields, "if-none-match") {
        if any_tag(fields, "if-none-match", stored, entity_tag::weak_eq) {
            return Precondition::NotModified;
        }
    } else if let Some(since) = only_date(fields, "if-modified-since") {
        // `date` is the time of receipt if there was no Date (RFC 9111 §4.3.2).
        if stored.last_modified.get().unwrap_or(stored.date) <= since {
            return Precondition::NotModified;
        }
    }
    Precondition::Proceed
}

/// Whether `If-Range` lets a `Range` apply (RFC 9110 §13.1.5): strong comparison; a date only if it is exactly
/// `Last-Modified` and strong by §8.8.2.2. True without `If-Range`.
#[must_use]
pub fn range_applies(fields: &[Field<'_>], stored: &Meta) -> bool {
    let mut lines = field::all(fields, "if-range");
    let (value, further) = (lines.next(), lines.next());
    let Some(value) = value else { return true };
    if further.is_some() {
        return false;
    }
    if entity_tag::is_entity_tag(value) {
        return stored.etag.as_ref().is_some_and(|it| entity_tag::strong_eq(it, value));
    }
    date::parse(value).is_some_and(|it| stored.last_modified.get() == Some(it))
        && validator::last_modified_is_strong(stored)
}

fn has(fields: &[Field<'_>], name: &str) -> bool {
    fields.iter().any(|it| it.is(name))
}

/// Whether the field is a lone `*`, or lists a tag equal to the stored one.
fn any_tag(fields: &[Field<'_>], name: &str, stored: &Meta, eq: fn(&[u8], &[u8]) -> bool) -> bool {
    let lines = || field::all(fields, name);
    if lines().count() == 1 && lines().all(|it| it == b"*") {
        return true; // Something is stored: that is all that `*` asks.
    }
    let Some(etag) = &stored.etag else { return false };
    lines().flat_map(entity_tag::entity_tags).any(|it| eq(it, etag))
}

/// The field's date; `None` if it is absent, invalid, or repeated.
fn only_date(fields: &[Field<'_>], name: &str) -> Option<WallTime> {
    let mut lines = field::all(fields, name);
    let (value, further) = (lines.next()?, lines.next());
    if further.is_some() { None } else { date::parse(value) }
}

/// Whether a stored field is part of a 304 (RFC 9110 §15.4.5): fields that control caches, validators, and fields that do
/// not describe the representation, which is not sent.
#[must_use]
pub fn in_not_modified(name: &str) -> bool {
    !["content-length", "content-type", "content-encoding", "content-language", "content-range"]
        .iter()
        .any(|it| name.eq_ignore_ascii_case(it))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::freshness::{Lifetime, LifetimeSource};
    use crate::range::HeldRange;
    use crate::stored::Uncommon;
    use proptest::prelude::*;

    /// A stored response: `204` status, `e:TAG`, `lm:SECONDS`, `date:SECONDS` (1000 without), `p:FIRST-LAST/LENGTH`.
    pub(crate) fn meta(spec: &str) -> Meta {
        let mut meta = Meta {
            status: 200,
            request_time: WallTime(1000),
            response_time: WallTime(1000),
            date: WallTime(1000),
            initial_age: 0,
            lifetime: Lifetime { seconds: 60, source: LifetimeSource::MaxAge },
            must_revalidate: false,
            no_cache: false,
            implicit: false,
            stale_while_revalidate: 0,
            stale_if_error: 0,
            etag: None,
            last_modified: None.into(),
            uncommon: Uncommon::default(),
        };
        for word in spec.split_whitespace() {
            match word.split_once(':') {
                Some(("e", tag)) => meta.etag = Some(tag.as_bytes().into()),
                Some(("lm", time)) => meta.last_modified = Some(WallTime(time.parse().unwrap())).into(),
                Some(("date", time)) => meta.date = WallTime(time.parse().unwrap()),
                Some(("p", part)) => {
                    let value = format!("bytes {part}");
                    meta.set_partial(HeldRange::of(&[Field {
                        name: "Content-Range",
                        value: value.as_bytes(),
                    }]));
                }
                _ => meta.status = word.parse().unwrap(),
            }
        }
        meta
    }

    /// `request`: `m:` If-Match, `n:` If-None-Match, `r:` If-Range, `u:` If-Unmodified-Since,
    /// `s:` If-Modified-Since; a date as seconds with `@`, or any text; parts separated by ` | `.
    fn evaluated<T>(request: &str, run: impl FnOnce(&[Field<'_>]) -> T) -> T {
        let lines: Vec<(&str, String)> = request
            .split(" | ")
            .filter(|it| !it.is_empty())
            .map(|it| {
                let (name, value) = it.split_once(':').unwrap();
                let name = match name {
                    "m" => "If-Match",
                    "n" => "If-None-Match",
                    "r" => "If-Range",
                    "u" => "If-Unmodified-Since",
                    _ => "If-Modified-Since",
                };
                let date = value.strip_prefix('@').map(|it| date::format(WallTime(it.parse().unwrap())));
                (name, date.unwrap_or_else(|| value.to_owned()))
            })
            .collect();
        let fields: Vec<_> =
            lines.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
        run(&fields)
    }

    #[track_caller]
    fn check(stored: &str, request: &str, expect: Precondition) {
        let got = evaluated(request, |fields| evaluate(fields, &meta(stored)));
        assert_eq!(expect, got, "{stored} | {request}");
    }

    use Precondition::{Failed, NotModified, Proceed};

    #[test]
    fn if_none_match() {
        check("e:\"a\"", "", Proceed);
        check("e:\"a\"", "n:\"a\"", NotModified);
        check("e:\"a\"", "n:W/\"a\"", NotModified);
        check("e:W/\"a\"", "n:\"a\"", NotModified);
        check("e:W/\"a\"", "n:W/\"a\"", NotModified);
        check("e:\"a\"", "n:\"b\"", Proceed);
        check("e:\"a\"", "n:\"b\", \"a\"", NotModified);
        check("e:\"a\"", "n:\"b\" | n:W/\"a\"", NotModified);
        check("e:\"a,b\"", "n:\"a,b\"", NotModified);
        check("e:\"b\"", "n:\"a,b\"", Proceed);
        check("e:\"a\"", "n:a", Proceed);
        check("e:\"a\"", "n:a, \"a\"", NotModified);
        check("e:\"a\"", "n:\"A\"", Proceed);
        check("e:\"a\"", "n:", Proceed);
        check("e:\"a\"", "n:*", NotModified);
        check("", "n:*", NotModified);
        check("e:\"a\"", "n:*, \"b\"", Proceed);
        check("e:\"*\"", "n:\"*\"", NotModified);
        check("", "n:\"a\"", Proceed);
    }

    #[test]
    fn if_modified_since() {
        check("lm:500", "s:@500", NotModified);
        check("lm:500", "s:@501", NotModified);
        check("lm:500", "s:@499", Proceed);
        check("lm:500", "s:yesterday", Proceed);
        check("lm:500", "s:0", Proceed);
        check("lm:500", "s:@500 | s:@500", Proceed);
        // Without Last-Modified, Date stands in (RFC 9111 §4.3.2).
        check("", "s:@1000", NotModified);
        check("", "s:@999", Proceed);
        check("date:900", "s:@900", NotModified);
    }

    #[test]
    fn if_match() {
        check("e:\"a\"", "m:\"a\"", Proceed);
        check("e:\"a\"", "m:\"b\"", Failed);
        check("e:\"a\"", "m:\"b\", \"a\"", Proceed);
        check("e:\"a\"", "m:W/\"a\"", Failed);
        check("e:W/\"a\"", "m:W/\"a\"", Failed);
        check("e:W/\"a\"", "m:\"a\"", Failed);
        check("e:\"a\"", "m:*", Proceed);
        check("", "m:*", Proceed);
        check("", "m:\"a\"", Failed);
        check("e:\"a\"", "m:a", Failed);
    }

    #[test]
    fn if_unmodified_since() {
        check("lm:500", "u:@500", Proceed);
        check("lm:500", "u:@499", Failed);
        check("lm:500", "u:@501", Proceed);
        check("lm:500", "u:tomorrow", Proceed);
        check("", "u:@1", Proceed);
        check("lm:500", "u:@499 | u:@499", Proceed);
    }

    #[test]
    fn precedence() {
        // If-Match before If-Unmodified-Since, which is then not looked at.
        check("e:\"a\" lm:500", "m:\"a\" | u:@1", Proceed);
        check("e:\"a\" lm:500", "m:\"b\" | u:@900", Failed);
        // If-None-Match before If-Modified-Since, which is then not looked at.
        check("e:\"a\" lm:500", "n:\"b\" | s:@900", Proceed);
        check("e:\"a\" lm:500", "n:\"a\" | s:@1", NotModified);
        check("e:\"a\" lm:500", "n:garbage | s:@900", Proceed);
        check("lm:500", "n:\"a\" | s:@900", Proceed);
        // The first pair before the second.
        check("e:\"a\" lm:500", "m:\"b\" | n:\"a\"", Failed);
        check("e:\"a\" lm:500", "n:\"a\" | m:\"a\"", NotModified);
        check("e:\"a\" lm:500", "s:@900 | u:@1", Failed);
        check("e:\"a\" lm:500", "u:@900 | s:@900", NotModified);
        check("e:\"a\" lm:500", "m:* | n:*", NotModified);
    }

    #[test]
    fn only_a_successful_representation_has_preconditions() {
        check("206 e:\"a\"", "n:\"a\"", NotModified);
        check("404 e:\"a\"", "n:\"a\"", Proceed);
        check("301 e:\"a\"", "m:\"b\"", Proceed);
        check("204", "n:*", Proceed);
    }

    #[track_caller]
    fn check_range(stored: &str, request: &str, expect: bool) {
        assert_eq!(expect, evaluated(request, |it| range_applies(it, &meta(stored))), "{stored} | {request}");
    }

    #[test]
    fn if_range() {
        check_range("e:\"a\"", "", true);
        check_range("e:\"a\"", "r:\"a\"", true);
        check_range("e:\"a\"", "r:\"b\"", false);
        check_range("e:\"a\"", "r:W/\"a\"", false);
        check_range("e:W/\"a\"", "r:W/\"a\"", false);
        check_range("e:W/\"a\"", "r:\"a\"", false);
        check_range("", "r:\"a\"", false);
        check_range("e:\"a\"", "r:a", false);
        check_range("e:\"a\"", "r:*", false);
        check_range("e:\"a\"", "r:\"a\" | r:\"a\"", false);
        check_range("e:\"a\"", "r:\"b\", \"a\"", false);
        check_range("lm:500", "r:@500", true);
        check_range("lm:500", "r:@501", false);
        check_range("lm:500", "r:@499", false);
        check_range("lm:1000", "r:@1000", false); // Weak: as old as the response itself.
        check_range("lm:999", "r:@999", true);
        check_range("", "r:@1000", false);
        check_range("lm:500", "r:garbage", false);
    }

    proptest! {
        #[test]
        fn never_panics(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 5)) {
            let names = ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"];
            let fields: Vec<_> =
                names.into_iter().zip(&values).map(|(name, value)| Field { name, value }).collect();
            let _ = evaluate(&fields, &meta("e:\"a\" lm:500"));
            let _ = range_applies(&fields, &meta("e:\"a\" lm:500"));
        }
    }
}
