//! Whether a page of a site may stand in place of errors (`error_pages`): every client gets it.

use crate::cache_control::{Qualified, ResponseDirectives};
use crate::field::{self, Field};

/// The reason for not using a response as an error page; `None` if it may be used. It was requested without credentials.
#[must_use]
pub fn refusal(status: u16, fields: &[Field<'_>]) -> Option<&'static str> {
    let directives = ResponseDirectives::read(fields);
    let is_coded = || field::all(fields, "content-encoding").any(|it| !it.eq_ignore_ascii_case(b"identity"));
    if status != 200 {
        Some("its status is not 200")
    } else if directives.no_store || directives.private != Qualified::Absent {
        Some("its Cache-Control keeps it from other clients")
    } else if fields.iter().any(Field::sets_cookie) {
        Some("it sets a cookie")
    } else if is_coded() {
        Some("it is compressed although the request accepts no coding")
    } else {
        None
    }
}

/// Whether a field of an error describes its body, or that response as one of its client: not that of a page in its place.
#[must_use]
pub fn is_of_body(name: &str) -> bool {
    let has_prefix = name.get(..OF_CONTENT.len()).is_some_and(|it| it.eq_ignore_ascii_case(OF_CONTENT));
    has_prefix || OF_BODY.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// The beginning of the names of fields about a body: `Content-Disposition`, `Content-Encoding`, also policies for its scripts.
const OF_CONTENT: &str = "content-";

/// Other fields about a body.
const OF_BODY: [&str; 10] = [
    "etag",
    "last-modified",
    "accept-ranges",
    "digest",
    "repr-digest",
    "link",
    "refresh",
    "set-cookie",
    "set-cookie2",
    "transfer-encoding",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_page_keeps_the_fields_about_the_request() {
        for name in
            ["Content-Disposition", "content-encoding", "Content-Length", "ETag", "Set-Cookie", "Link"]
        {
            assert!(is_of_body(name), "{name}");
        }
        for name in ["WWW-Authenticate", "Retry-After", "Allow", "Vary", "Cache-Control", "Content", "X-A"] {
            assert!(!is_of_body(name), "{name}");
        }
    }

    #[test]
    fn only_pages_for_everyone_are_used() {
        let check = |status: u16, name: &str, value: &str| {
            refusal(status, &[Field { name, value: value.as_bytes() }]).is_none()
        };
        assert!(check(200, "Cache-Control", "no-cache") && check(200, "Content-Encoding", "identity"));
        for (status, name, value) in [
            (404, "A", ""),
            (302, "Location", "/login"),
            (200, "Cache-Control", "max-age=1, private"),
            (200, "cache-control", "private=\"x\""),
            (200, "Cache-Control", "no-store"),
            (200, "Set-Cookie", "a=b"),
            (200, "Content-Encoding", "gzip"),
        ] {
            assert!(!check(status, name, value), "{status} {name}: {value}");
        }
    }
}
