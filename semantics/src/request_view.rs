//! The values of a request that arrives, for expressions and templates.

use crate::address_text::AddressText;
use crate::captures::Captures;
use crate::cookie_pairs;
use crate::expression::{ExpressionFacts, Number, TextName};
use crate::field::{self, Field};
use crate::geo::{COUNTRY_FIELD, Country, GeoLookup};
pub use crate::host::host_of;
use crate::path;
use crate::scheme::Scheme;
use std::borrow::Cow;
use std::net::IpAddr;

/// The field with the identifier of a request. The handler sets it where something reads `{request_id}`.
pub const REQUEST_ID: &str = "X-Request-Id";

/// A request, borrowed from its head and its connection.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The method.
    pub method: &'a str,
    /// The scheme of the connection.
    pub scheme: Scheme,
    /// The host, with its port if it was sent.
    pub authority: &'a str,
    /// Path and query as received.
    pub target: &'a str,
    /// The path in its normal form (`path::NORMAL`), by which the route was chosen; see [`normal_path`].
    pub path: &'a [u8],
    /// The field lines.
    pub fields: &'a [Field<'a>],
    /// The client's address, behind trusted proxies; `None` for a peer of a Unix socket.
    pub client: Option<IpAddr>,
    /// The address of the listener, as it is configured.
    pub listener: &'a str,
    /// The authenticated user: the name of basic authentication, the subject of a token, the first field that forward auth
    /// gives; empty without one, and before admission.
    pub user: &'a [u8],
    /// The captures of the route's path pattern.
    pub captures: Captures<'a>,
    /// The hosts of its site, as they are configured.
    pub hosts: &'a [String],
    /// The databases of countries and autonomous systems, if there are any. They are read only by rules that ask.
    pub geo: Option<&'a GeoLookup>,
}

impl Default for RequestView<'_> {
    fn default() -> Self {
        RequestView {
            method: "GET",
            scheme: Scheme::Http,
            authority: "",
            target: "/",
            path: b"/",
            fields: &[],
            client: None,
            listener: "",
            user: b"",
            captures: Captures::default(),
            hosts: &[],
            geo: None,
        }
    }
}

impl<'a> RequestView<'a> {
    /// The host without its port, in the client's spelling.
    #[must_use]
    pub fn host(&self) -> &'a str {
        host_of(self.authority)
    }

    /// The part of the host that the `*` of its pattern stands for, in the client's spelling: `a.b` of `a.b.example.com` for
    /// `*.example.com`, the whole host for `*`. Empty for a host that is named in full.
    #[must_use]
    pub fn wildcard(&self) -> &'a str {
        let host = self.host();
        let part = |pattern: &String| {
            let Some(rest) = pattern.strip_prefix('*') else {
                return pattern.eq_ignore_ascii_case(host).then_some("");
            };
            let (part, end) = host.split_at_checked(host.len().checked_sub(rest.len())?)?;
            (!part.is_empty() && end.eq_ignore_ascii_case(rest)).then_some(part)
        };
        self.hosts.iter().filter_map(part).min_by_key(|it| it.len()).unwrap_or_default()
    }

    /// The path as received, without the query.
    #[must_use]
    pub fn spelled_path(&self) -> &'a str {
        path_of(self.target)
    }

    /// The query as received, without its question mark.
    #[must_use]
    pub fn query(&self) -> &'a str {
        let target = self.target;
        match memchr::memchr2(b'?', b'#', target.as_bytes()) {
            Some(at) if target.as_bytes()[at] == b'?' => {
                let query = &target[at + 1..];
                query.split_once('#').map_or(query, |it| it.0)
            }
            _ => "",
        }
    }

    /// The values of a query parameter of this name, decoded: `%` escapes, and `+` as a space.
    pub fn parameters<'n>(&self, name: &'n str) -> impl Iterator<Item = Cow<'a, [u8]>> + use<'a, 'n> {
        self.query().split('&').filter_map(move |it| {
            let (found, value) = it.split_once('=').unwrap_or((it, ""));
            (*decoded(found) == *name.as_bytes()).then(|| decoded(value))
        })
    }

    /// The values of the cookies of this name.
    pub fn cookies<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        cookie_pairs::pairs(self.fields).filter(move |it| it.0 == name.as_bytes()).map(|it| it.1)
    }

    /// The suffixes and values of the cookies that are numbered pieces of the cookie `name`: `name_0`, `name.1`, `name-2`.
    pub fn cookie_pieces<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a, 'n> {
        cookie_pairs::pairs(self.fields).filter_map(move |(whole, value)| {
            let piece = whole.strip_prefix(name.as_bytes())?;
            let (mark, number) = piece.split_first()?;
            let is_piece =
                b"_.-".contains(mark) && !number.is_empty() && number.iter().all(u8::is_ascii_digit);
            is_piece.then_some((piece, value))
        })
    }

    /// The country of the client: that of the key, where it is part of it.
    #[must_use]
    pub fn country(&self) -> Option<Country> {
        match self.fields.iter().find(|it| it.name == COUNTRY_FIELD) {
            Some(it) => Country::of_bytes(it.value),
            None => self.geo?.country(self.client?),
        }
    }

    /// The number of the client's autonomous system.
    #[must_use]
    pub fn asn(&self) -> Option<u32> {
        self.geo?.asn(self.client?)
    }
}

/// The path of a request target, without its query; `/` if it has none.
#[must_use]
pub fn path_of(target: &str) -> &str {
    let end = memchr::memchr2(b'?', b'#', target.as_bytes()).unwrap_or(target.len());
    let path = &target[..end];
    if path.starts_with('/') { path } else { "/" }
}

/// The normal form of a target's path. Uses `room` only if the path is not in that form.
#[must_use]
pub fn normal_path<'a>(target: &'a str, room: &'a mut Vec<u8>) -> &'a [u8] {
    let path = path_of(target).as_bytes();
    if path::is_plain(path) {
        return path;
    }
    path::read(path, path::NORMAL, room);
    room
}

/// A part of a query, decoded. Allocates only if it has an escape.
fn decoded(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = Vec::with_capacity(text.len());
    let way = path::PathReading { decode: path::Decode::All, ..path::SPELLED };
    path::read(text.replace('+', " ").as_bytes(), way, &mut out);
    Cow::Owned(out)
}

/// Whether `test` is true for a host in lower case, without its port.
fn test_host(host: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    let host = host.as_bytes();
    if !host.iter().any(u8::is_ascii_uppercase) {
        return test(host);
    }
    let mut room = [0; 255]; // The longest name.
    match room.get_mut(..host.len()) {
        Some(lower) => {
            lower.copy_from_slice(host);
            lower.make_ascii_lowercase();
            test(lower)
        }
        None => test(&host.to_ascii_lowercase()),
    }
}

impl ExpressionFacts for RequestView<'_> {
    fn text(&self, name: TextName, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match name {
            TextName::Method => test(self.method.as_bytes()),
            TextName::Scheme => test(self.scheme.name().as_bytes()),
            TextName::Host => test_host(self.host(), test),
            TextName::Path => test(self.path),
            TextName::Query => test(self.query().as_bytes()),
            TextName::Url => {
                let url = [self.scheme.name(), "://", self.authority, self.target].concat();
                test(url.as_bytes())
            }
            TextName::Listener => test(self.listener.as_bytes()),
            TextName::Client => {
                self.client.is_some_and(|it| test(AddressText::of(it.to_canonical()).bytes()))
            }
            TextName::Country => test(self.country().as_ref().map_or(b"", Country::bytes)),
            TextName::Key
            | TextName::Target
            | TextName::Type
            | TextName::Route
            | TextName::Site
            | TextName::Cache
            | TextName::Reason
            | TextName::Origin
            | TextName::UserAgent
            | TextName::Referer
            | TextName::End => false,
        }
    }

    fn number(&self, name: Number) -> Option<i64> {
        match name {
            Number::Asn => self.asn().map(i64::from),
            _ => None,
        }
    }

    fn has_tag(&self, _: &str) -> bool {
        false
    }

    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        // The authority is that of the request line or of `:authority`, if there is one.
        if name.eq_ignore_ascii_case("host") {
            return test(self.authority.as_bytes());
        }
        field::all(self.fields, name).any(test)
    }

    fn cookie(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.cookies(name).any(test)
    }

    fn parameter(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.parameters(name).any(|it| test(&it))
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }
}

#[cfg(test)]
mod tests;
