//! The facts of a request's fields for the decisions, parsed in one pass.

use crate::cache_control::RequestDirectives;
use crate::cookie_pairs::in_list;
use crate::cookies::{self, CookieLines};
use crate::field::Field;
use crate::key::KEYED_BODY;
use crate::policy::Policy;
use crate::secret;

/// The size of an ordinary field section (names and values, bytes); for a larger one see [`RequestFacts::provoking`].
pub const ORDINARY_HEAD: usize = 8192;

/// Facts of one request. Cheap to make: one pass, no allocation.
#[derive(Clone, Debug)]
pub struct RequestFacts<'a> {
    /// As received; case-sensitive. `GET` for a QUERY whose body is in the key ([`KEYED_BODY`]), which is the GET of that key.
    pub method: &'a str,
    /// `Cache-Control`, or `Pragma: no-cache` if that is absent (RFC 9111 §5.4).
    pub directives: RequestDirectives,
    /// An `Authorization` field is present (RFC 9111 §3.5).
    pub authorization: bool,
    /// All fields, for [`RequestFacts::has_identity_field`].
    pub fields: &'a [Field<'a>],
    /// The `Cookie` lines. Whether the origin saw a relevant one depends on the route: [`crate::cookies::matter`].
    pub cookies: CookieLines<'a>,
    /// `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since` or `If-Range` is present.
    pub conditional: bool,
    /// A `Range` field is present (and the method is GET: RFC 9110 §14.2 ignores it elsewhere).
    pub range: Option<&'a [u8]>,
    /// The value of `If-Range` (RFC 9110 §13.1.5).
    pub if_range: Option<&'a [u8]>,
    /// The request has a body (`Content-Length` above zero or `Transfer-Encoding`).
    pub has_body: bool,
    /// A field requests the effect of another method (`X-HTTP-Method-Override` and the like), so that the response does
    /// not belong to this method: neither stored nor served from the store.
    pub method_override: bool,
    /// The head is unusual (larger than [`ORDINARY_HEAD`]): an error response to it does not describe the resource and is
    /// not stored.
    pub provoking: bool,
    /// The target URI, if known: see [`RequestFacts::with_uri`].
    pub uri: Option<Uri<'a>>,
}

/// The target URI of a request (RFC 9110 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Lower case, without the scheme's default port.
    pub authority: &'a str,
    /// Origin-form.
    pub target: &'a str,
}

impl<'a> RequestFacts<'a> {
    /// Parses the facts from a field section.
    #[must_use]
    pub fn read(method: &'a str, fields: &'a [Field<'a>]) -> Self {
        let mut facts = RequestFacts {
            method,
            directives: RequestDirectives::default(),
            authorization: false,
            fields,
            cookies: CookieLines::Absent,
            conditional: false,
            range: None,
            if_range: None,
            has_body: false,
            method_override: false,
            provoking: false,
            uri: None,
        };
        let mut seen = FieldsSeen::default();
        let mut bytes = 0;
        for it in fields {
            bytes += it.name.len() + it.value.len();
            facts.add(it, &mut seen);
        }
        facts.provoking = bytes > ORDINARY_HEAD;
        facts.directives.no_cache |= seen.pragma_no_cache && !seen.cache_control;
        // Two Range lines are no valid Range, and Range has a meaning for GET only (RFC 9110 §14.2).
        if seen.ranges > 1 || method != "GET" {
            facts.range = None;
        }
        if seen.keyed_body {
            (facts.method, facts.has_body) = ("GET", false);
        }
        facts
    }

    /// Adds the target URI, which is required to store a response to POST: its `Content-Location` must be equal to it
    /// (RFC 9110 §9.3.3).
    #[must_use]
    pub fn with_uri(mut self, scheme: &'a str, authority: &'a str, target: &'a str) -> Self {
        self.uri = Some(Uri { scheme, authority, target });
        self
    }

    /// Whether a field identifies the client, such as `X-Api-Key`; not one by whose values responses are stored apart. A search of all
    /// names: a hit on a response that may be shared does not make it.
    #[must_use]
    pub fn has_identity_field(&self, policy: &Policy) -> bool {
        self.identity_fields(policy).next().is_some()
    }

    fn identity_fields(&self, policy: &Policy) -> impl Iterator<Item = &Field<'a>> {
        let is_apart = |name: &str| {
            policy.key.headers.iter().chain(&policy.vary).any(|it| it.eq_ignore_ascii_case(name))
        };
        self.fields.iter().filter(move |it| secret::identifies_client(it.name) && !is_apart(it.name))
    }

    /// Whether the origin sees credentials: `Authorization`, a field that identifies the client, or a cookie that is relevant on the route.
    #[must_use]
    pub fn has_credentials(&self, policy: &Policy) -> bool {
        self.authorization
            || cookies::matter(self.cookies, self.method, policy)
            || self.has_identity_field(policy)
    }

    /// The credentials of the request as evidence, without any value.
    pub(crate) fn credentials_evidence(&self, policy: &Policy) -> String {
        match self.credentials_in_words(policy) {
            Some(it) => format!("the request has {it}"),
            None => "no field of the request identifies the client".to_owned(),
        }
    }

    /// The credentials of the request, as the object of a sentence: the names of fields and cookies, without any value.
    #[must_use]
    pub fn credentials_in_words(&self, policy: &Policy) -> Option<String> {
        if self.authorization {
            return Some("Authorization".to_owned());
        }
        let of_cookies = || cookies::mattering(self.fields, self.method, policy);
        match cookies::matter(self.cookies, self.method, policy) {
            true => of_cookies().or_else(|| Some("Cookie".to_owned())),
            false => {
                let names: Vec<String> = self.identity_fields(policy).map(|it| it.name.to_owned()).collect();
                in_list("field", &names)
            }
        }
    }

    /// Adds one field: the length of its name is compared first, so that most cost one comparison of a number.
    #[inline]
    fn add(&mut self, it: &Field<'a>, seen: &mut FieldsSeen) {
        match it.name.len() {
            5 if it.is("range") => {
                self.range = Some(it.value);
                seen.ranges += 1;
            }
            6 if it.is("cookie") => {
                self.cookies = match self.cookies {
                    CookieLines::Absent => CookieLines::One(it.value),
                    CookieLines::One(_) | CookieLines::Several => CookieLines::Several,
                };
            }
            6 if it.name == KEYED_BODY => seen.keyed_body = true,
            6 if it.is("pragma") => {
                seen.pragma_no_cache |= it
                    .value
                    .split(|it| *it == b',')
                    .any(|it| it.trim_ascii().eq_ignore_ascii_case(b"no-cache"));
            }
            8 if it.is("if-match") => self.conditional = true,
            8 if it.is("if-range") => {
                self.conditional = true;
                self.if_range = Some(it.value);
            }
            13 => self.add_13(it, seen),
            14 if it.is("content-length") => self.has_body |= it.value.iter().any(|it| *it != b'0'),
            17 if it.is("if-modified-since") => self.conditional = true,
            17 if it.is("transfer-encoding") => self.has_body = true,
            17 if it.is("x-method-override") => self.method_override = true,
            19 if it.is("if-unmodified-since") => self.conditional = true,
            22 if it.is("x-http-method-override") => self.method_override = true,
            _ => {}
        }
    }

    fn add_13(&mut self, it: &Field<'a>, seen: &mut FieldsSeen) {
        if it.is("cache-control") {
            seen.cache_control = true;
            self.directives.add_line(it.value);
        } else if it.is("authorization") {
            self.authorization = true;
        } else if it.is("if-none-match") {
            self.conditional = true;
        } else if it.is("x-http-method") {
            self.method_override = true;
        }
    }
}

/// State that is evaluated after all fields have been seen.
#[derive(Default)]
struct FieldsSeen {
    keyed_body: bool,
    cache_control: bool,
    pragma_no_cache: bool,
    ranges: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `head` is lines of `Name: value`.
    fn read<'a>(method: &'a str, head: &[(&'a str, &'a str)]) -> RequestFacts<'a> {
        let fields: Vec<_> =
            head.iter().map(|(name, value)| Field { name, value: value.as_bytes() }).collect();
        RequestFacts::read(method, fields.leak())
    }

    #[test]
    fn facts_of_fields() {
        assert!(read("GET", &[("AUTHORIZATION", "x")]).authorization);
        for name in ["If-Match", "if-none-match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"] {
            assert!(read("GET", &[(name, "x")]).conditional, "{name}");
        }
        let cookies = |head| read("GET", head).cookies;
        assert_eq!(CookieLines::Absent, cookies(&[("Cookie2", "a=1")]));
        assert_eq!(CookieLines::One(b"a=1"), cookies(&[("cookie", "a=1")]));
        assert_eq!(CookieLines::Several, cookies(&[("Cookie", "a=1"), ("COOKIE", ""), ("Cookie", "b=1")]));
        assert_eq!(Some(&b"bytes=0-1"[..]), read("GET", &[("Range", "bytes=0-1")]).range);
        assert_eq!(None, read("HEAD", &[("Range", "bytes=0-1")]).range);
        assert_eq!(None, read("GET", &[("Range", "bytes=0-1"), ("range", "bytes=3-4")]).range);
        assert!(read("GET", &[("Content-Length", "1")]).has_body);
        assert!(!read("GET", &[("Content-Length", "0")]).has_body);
        assert!(read("GET", &[("Transfer-Encoding", "chunked")]).has_body);
        for name in ["X-HTTP-Method", "X-Method-Override", "X-HTTP-Method-Override"] {
            assert!(read("GET", &[(name, "DELETE")]).method_override, "{name}");
        }
        let long = "a".repeat(ORDINARY_HEAD);
        assert!(read("GET", &[("X-Oversized", &long)]).provoking);
        assert!(!read("GET", &[("Host", "a"), ("Cookie", &long[..4000])]).provoking);
    }

    #[test]
    fn pragma_counts_only_without_cache_control() {
        assert!(read("GET", &[("Pragma", "foo, No-Cache")]).directives.no_cache);
        assert!(!read("GET", &[("Pragma", "no-cache"), ("Cache-Control", "max-age=9")]).directives.no_cache);
        assert!(!read("GET", &[("Cache-Control", ""), ("Pragma", "no-cache")]).directives.no_cache);
        assert!(!read("GET", &[("Pragma", "no-cache-at-all")]).directives.no_cache);
    }
}
