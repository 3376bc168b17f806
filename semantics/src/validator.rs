//! Validators of a stored response, and the conditional request that asks the origin whether it is still current (RFC 9111
//! §4.3.1). Entity tags are in `entity_tag`.

use crate::date;
use crate::entity_tag::strong_eq;
use crate::field::FieldList;
use crate::stored::Meta;

/// Whether the stored `Last-Modified` is strong (RFC 9110 §8.8.2.2): at least one second older than the response's
/// `Date`, so that two changes cannot have the same one.
#[must_use]
pub fn last_modified_is_strong(stored: &Meta) -> bool {
    stored.last_modified.get().is_some_and(|it| it < stored.date)
}

/// Whether two responses have the same strong validator (RFC 9110 §15.3.7.3): the entity tag if either has one, otherwise
/// `Last-Modified`.
#[must_use]
pub fn same_strong(a: &Meta, b: &Meta) -> bool {
    match (&a.etag, &b.etag) {
        (Some(a), Some(b)) => strong_eq(a, b),
        (None, None) => {
            a.last_modified.get() == b.last_modified.get()
                && last_modified_is_strong(a)
                && last_modified_is_strong(b)
        }
        _ => false,
    }
}

/// Sets the stored validators in a request to the origin, in place of the client's own conditions and range:
/// `If-None-Match` from `ETag`, `If-Modified-Since` from `Last-Modified`.
pub fn make_conditional(request: &mut FieldList, stored: &Meta) {
    const OWN: [&str; 6] =
        ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"];
    request.retain(|it| !OWN.iter().any(|name| it.is(name)));
    if let Some(etag) = &stored.etag {
        request.push("If-None-Match", &**etag);
    }
    if let Some(time) = stored.last_modified.get() {
        request.push("If-Modified-Since", date::format(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditional::tests::meta;

    #[track_caller]
    fn check(stored: &str, expect: &str) {
        let mut request = FieldList::new();
        for name in ["if-match", "If-None-Match", "IF-MODIFIED-SINCE", "If-Unmodified-Since", "If-Range"] {
            request.push(name, "\"client\"");
        }
        request.push("Range", "bytes=0-1");
        request.push("Accept", "*/*");
        make_conditional(&mut request, &meta(stored));
        assert_eq!(format!("Accept: */*\r\n{expect}"), String::from_utf8_lossy(request.text()));
    }

    #[test]
    fn the_origin_is_asked_with_stored_validators_alone() {
        check("", "");
        check("e:W/\"s\"", "If-None-Match: W/\"s\"\r\n");
        check("lm:100", "If-Modified-Since: Thu, 01 Jan 1970 00:01:40 GMT\r\n");
        check(
            "e:\"s\" lm:100",
            "If-None-Match: \"s\"\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:01:40 GMT\r\n",
        );
    }

    #[test]
    fn strong_validators() {
        let check = |a: &str, b: &str, expect: bool| {
            assert_eq!(expect, same_strong(&meta(a), &meta(b)), "{a} | {b}");
            assert_eq!(expect, same_strong(&meta(b), &meta(a)), "{b} | {a}");
        };
        check("e:\"a\"", "e:\"a\"", true);
        check("e:\"a\" lm:1", "e:\"a\" lm:2", true);
        check("e:W/\"a\"", "e:W/\"a\"", false);
        check("e:\"a\"", "e:\"b\"", false);
        check("e:\"a\" lm:1", "lm:1", false);
        check("lm:100", "lm:100", true);
        check("lm:100", "lm:101", false);
        check("lm:100 date:100", "lm:100", false);
        check("", "", false);
    }
}
