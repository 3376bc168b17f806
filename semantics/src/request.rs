//! What the decisions need to know of a request's fields, read in one pass.

use crate::cache_control::RequestDirectives;
use crate::field::Field;

/// Facts of one request. Cheap to make: one pass, no allocation.
#[derive(Clone, Debug)]
pub struct RequestFacts<'a> {
    /// As received; case-sensitive.
    pub method: &'a str,
    /// `Cache-Control`, or `Pragma: no-cache` where that is absent (RFC 9111 §5.4).
    pub directives: RequestDirectives,
    /// An `Authorization` field is present (RFC 9111 §3.5).
    pub authorization: bool,
    /// `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since` or `If-Range` is present.
    pub conditional: bool,
    /// A `Range` field is present (and the method is GET: RFC 9110 §14.2 ignores it elsewhere).
    pub range: Option<&'a [u8]>,
    /// The request has a body (`Content-Length` above zero or `Transfer-Encoding`).
    pub has_body: bool,
}

impl<'a> RequestFacts<'a> {
    /// Reads the facts from a field section.
    #[must_use]
    pub fn read(method: &'a str, fields: &[Field<'a>]) -> Self {
        let _ = (method, fields);
        todo!()
    }
}
