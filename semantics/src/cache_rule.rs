//! The facts that a rule of a route reads of a response (`site.route.cache.rule`). The rules are in `policy`.
//!
//! A condition reads only the URL and the response. A stored response is shared, so that a rule about other parts of the request
//! that caused it would decide for all clients by the first of them; `site.route.when` chooses routes by those.

use crate::expression::{ExpressionFacts, Number, TextName};
use crate::field::{self, Field};

/// A response that arrives, with its URL.
#[derive(Clone, Copy, Debug)]
pub struct ArrivingResponse<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port.
    pub authority: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Its status code.
    pub status: u16,
    /// Its fields.
    pub fields: &'a [Field<'a>],
}

impl ArrivingResponse<'_> {
    fn parts(&self) -> (&str, &str) {
        self.target.split_once('?').unwrap_or((self.target, ""))
    }

    /// The media type without parameters, in lower case.
    fn media_type(&self) -> Option<Vec<u8>> {
        let value = field::first(self.fields, "content-type")?;
        Some(value.split(|it| *it == b';').next().unwrap_or(value).trim_ascii().to_ascii_lowercase())
    }
}

impl ExpressionFacts for ArrivingResponse<'_> {
    fn text(&self, name: TextName, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match name {
            TextName::Scheme => test(self.scheme.as_bytes()),
            TextName::Host => {
                let port = self.authority.rfind(':').filter(|at| !self.authority[*at..].contains(']'));
                test(self.authority[..port.unwrap_or(self.authority.len())].to_ascii_lowercase().as_bytes())
            }
            TextName::Path => test(self.parts().0.as_bytes()),
            TextName::Query => test(self.parts().1.as_bytes()),
            TextName::Target => test(self.target.as_bytes()),
            TextName::Type => self.media_type().is_some_and(|it| test(&it)),
            _ => false,
        }
    }

    fn number(&self, name: Number) -> Option<i64> {
        match name {
            Number::Status => Some(self.status.into()),
            Number::Size => {
                let length = field::first(self.fields, "content-length")?;
                std::str::from_utf8(length).ok()?.trim().parse().ok()
            }
            _ => None,
        }
    }

    fn has_tag(&self, _: &str) -> bool {
        false
    }

    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        field::all(self.fields, name).any(test)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Expression, ExpressionSubject};

    #[track_caller]
    fn check(when: &str, expect: bool) {
        let fields = [
            Field { name: "Content-Type", value: b"Text/HTML; charset=utf-8" },
            Field { name: "Content-Length", value: b"2048" },
            Field { name: "X-Kind", value: b"news" },
        ];
        let response = ArrivingResponse {
            scheme: "https",
            authority: "Example.com:8443",
            target: "/a/b?c=d",
            status: 404,
            fields: &fields,
        };
        let when = Expression::parse_about(ExpressionSubject::Response, when).unwrap();
        assert_eq!(expect, when.holds(&response), "{}", when.text());
    }

    #[test]
    fn conditions_about_a_response_that_arrives() {
        check("status == 404 && type == \"text/html\"", true);
        check("status >= 500", false);
        check("size > 1KiB && size <= 2KiB", true);
        check("size > 2KiB", false);
        check("path ~ \"^/a/\" && query == \"c=d\" && target == \"/a/b?c=d\"", true);
        check("host == \"example.com\" && scheme == \"https\"", true);
        check("header[\"x-kind\"] == \"news\" && header.X-None != \"x\"", true);
        check("type ~ \"^image/\"", false);
    }

    #[test]
    fn a_condition_cannot_read_the_client() {
        for when in
            ["cookie.a == \"1\"", "client in \"10.0.0.0/8\"", "user_agent ~ \"x\"", "method == \"GET\""]
        {
            assert!(Expression::parse_about(ExpressionSubject::Response, when).is_err(), "{when}");
        }
    }
}
