//! `Cache-Control` as a struct, for requests and responses (RFC 9111 §5.2). The choice of the field in force is not here
//! (`targeted`), nor are the effects of directives (`storable`, `freshness`, `reuse`).
//!
//! Choices where other caches disagree:
//!
//! * A delta-seconds may be a token or a quoted string (§5.2); a value other than digits (a sign, a fraction, a space
//!   next to the `=`, no argument at all) is *zero*, which is stale (§4.2.1).
//! * A number above 2^31 is 2^31 (§1.2.2).
//! * A repeated directive has the lowest of its values. §4.2.1 allows the first value or staleness; the lowest is never
//!   fresher than either.
//! * `no-cache` and `private` with an invalid list of names apply to the whole response.
//! * A quote opens a quoted string only right after `=`, and only if it is closed; a lone quote hides no directive that
//!   follows it.
//! * A restricting directive counts with any argument; `public` and `must-understand`, which permit, count only without
//!   one.

use crate::field::{Field, is_token};
use crate::policy::RequestDirectivePolicy;

/// The largest number of seconds that is distinguished (RFC 9111 §1.2.2).
pub const MAX_DELTA: u32 = 1 << 31;

/// Directives of a request (RFC 9111 §5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `max-age`: seconds; overflow is 2^31, an invalid value is zero (stale).
    pub max_age: Option<u32>,
    /// `min-fresh`: seconds.
    pub min_fresh: Option<u32>,
    /// `max-stale`: seconds; without argument any staleness, `u32::MAX`.
    pub max_stale: Option<u32>,
    /// `no-cache`, or `Pragma: no-cache` without Cache-Control.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `stale-if-error`: seconds (RFC 5861 §4).
    pub stale_if_error: Option<u32>,
}

/// `no-cache` and `private` may apply to the whole response or to named fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Qualified {
    /// The directive is absent.
    #[default]
    Absent,
    /// Present without argument: applies to the whole response.
    Whole,
    /// Present with field names, lower case: applies to those fields only.
    Fields(Vec<String>),
}

/// Directives of a response (RFC 9111 §5.2.2), or of the targeted field that replaces them (RFC 9213).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// `max-age`: seconds.
    pub max_age: Option<u32>,
    /// `s-maxage`: seconds.
    pub s_maxage: Option<u32>,
    /// `stale-while-revalidate`: seconds.
    pub stale_while_revalidate: Option<u32>,
    /// `stale-if-error`: seconds.
    pub stale_if_error: Option<u32>,
    /// `no-cache`.
    pub no_cache: Qualified,
    /// `private`.
    pub private: Qualified,
    /// `no-store`.
    pub no_store: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `immutable` (RFC 8246).
    pub immutable: bool,
}

impl RequestDirectives {
    /// Adds one `Cache-Control` line. No allocation.
    pub fn add_line(&mut self, value: &[u8]) {
        for it in directives(value) {
            self.add(it);
        }
    }

    fn add(&mut self, it: Directive<'_>) {
        let is = |name: &str| it.name.eq_ignore_ascii_case(name.as_bytes());
        match it.name.len() {
            7 if is("max-age") => lowest(&mut self.max_age, it.argument.seconds()),
            8 if is("no-cache") => self.no_cache = true,
            8 if is("no-store") => self.no_store = true,
            9 if is("max-stale") => {
                let bare = it.argument == Argument::None;
                lowest(&mut self.max_stale, if bare { u32::MAX } else { it.argument.seconds() });
            }
            9 if is("min-fresh") => {
                self.min_fresh = Some(self.min_fresh.unwrap_or(0).max(it.argument.seconds()));
            }
            12 if is("no-transform") => self.no_transform = true,
            14 if is("only-if-cached") => self.only_if_cached = true,
            14 if is("stale-if-error") => lowest(&mut self.stale_if_error, it.argument.seconds()),
            _ => {}
        }
    }

    /// The directives by which the route lets a client control the cache; the rest as if absent. `no-transform` does not
    /// concern caching and stays.
    #[inline]
    #[must_use]
    pub fn obeyed(self, policy: RequestDirectivePolicy) -> Self {
        let nothing = Self { no_transform: self.no_transform, ..Self::default() };
        match policy {
            RequestDirectivePolicy::Obey => self,
            RequestDirectivePolicy::Harmless => {
                Self { max_stale: self.max_stale, only_if_cached: self.only_if_cached, ..nothing }
            }
            RequestDirectivePolicy::Ignore => nothing,
        }
    }
}

impl Qualified {
    /// Whether the directive applies to the whole response.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }

    /// Whether the list of names contains the field `name`.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        matches!(self, Self::Fields(names) if names.iter().any(|it| it.eq_ignore_ascii_case(name)))
    }

    /// Merges another occurrence: the whole response outweighs names, names add up. `list` is a comma-separated list; an
    /// empty list or one with an invalid name means the whole response.
    pub(crate) fn add_names(&mut self, list: &[u8]) {
        let members = || list.split(|it| *it == b',').map(<[u8]>::trim_ascii).filter(|it| !it.is_empty());
        if members().next().is_none() || !members().all(is_token) {
            *self = Self::Whole;
        }
        match self {
            Self::Whole => return,
            Self::Absent => *self = Self::Fields(Vec::new()),
            Self::Fields(_) => {}
        }
        let Self::Fields(names) = self else { return };
        names.extend(members().map(|it| String::from_utf8_lossy(it).to_ascii_lowercase()));
    }

    fn add(&mut self, argument: Argument<'_>) {
        match argument {
            Argument::Token(list) | Argument::Quoted(list) => self.add_names(list),
            Argument::None | Argument::Malformed => *self = Self::Whole,
        }
    }
}

impl ResponseDirectives {
    /// Parses every `Cache-Control` line.
    #[must_use]
    pub fn read(fields: &[Field<'_>]) -> Self {
        let mut found = Self::default();
        for line in crate::field::all(fields, "cache-control") {
            found.add_line(line);
        }
        found
    }

    /// Adds one `Cache-Control` line.
    pub fn add_line(&mut self, value: &[u8]) {
        for it in directives(value) {
            self.add(it);
        }
    }

    fn add(&mut self, it: Directive<'_>) {
        let is = |name: &str| it.name.eq_ignore_ascii_case(name.as_bytes());
        let bare = it.argument == Argument::None;
        match it.name.len() {
            6 if is("public") => self.public |= bare,
            7 if is("max-age") => lowest(&mut self.max_age, it.argument.seconds()),
            7 if is("private") => self.private.add(it.argument),
            8 if is("s-maxage") => lowest(&mut self.s_maxage, it.argument.seconds()),
            8 if is("no-cache") => self.no_cache.add(it.argument),
            8 if is("no-store") => self.no_store = true,
            9 if is("immutable") => self.immutable |= bare,
            12 if is("no-transform") => self.no_transform = true,
            14 if is("stale-if-error") => lowest(&mut self.stale_if_error, it.argument.seconds()),
            15 if is("must-revalidate") => self.must_revalidate = true,
            15 if is("must-understand") => self.must_understand |= bare,
            16 if is("proxy-revalidate") => self.proxy_revalidate = true,
            22 if is("stale-while-revalidate") => {
                lowest(&mut self.stale_while_revalidate, it.argument.seconds());
            }
            _ => {}
        }
    }

    /// Whether a shared cache must never serve it stale (RFC 9111 §4.2.4): `must-revalidate`, `proxy-revalidate`, or
    /// `s-maxage`, which implies the latter (§5.2.2.10).
    #[must_use]
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage.is_some()
    }

    /// Whether a response to a request with `Authorization` may be shared (RFC 9111 §3.5). A lifetime of the operator would
    /// suspend the validation that `must-revalidate` and a lifetime of zero demand before every reuse: with it the response has
    /// to say more.
    #[must_use]
    pub fn shares_authorized(&self, is_overridden: bool) -> bool {
        match is_overridden {
            false => self.public || self.must_revalidate || self.s_maxage.is_some(),
            true => {
                self.no_cache == Qualified::Absent && (self.public || self.s_maxage.is_some_and(|it| it > 0))
            }
        }
    }

    /// Whether a line of that name may be stored: named neither by `no-cache` nor by `private` (RFC 9111 §5.2.2.4,
    /// §5.2.2.7).
    #[must_use]
    pub fn keeps(&self, name: &str) -> bool {
        !self.no_cache.names(name) && !self.private.names(name)
    }
}

/// One directive as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directive<'a> {
    /// In any case; an invalid token is an unknown directive.
    pub name: &'a [u8],
    /// The part after the `=`.
    pub argument: Argument<'a>,
}

/// The argument of a directive (RFC 9111 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument<'a> {
    /// There is no `=`.
    None,
    /// A token.
    Token(&'a [u8]),
    /// The content of the quotes, with its escapes.
    Quoted(&'a [u8]),
    /// Neither, or with spaces next to the `=`.
    Malformed,
}

impl Argument<'_> {
    /// As delta-seconds (RFC 9111 §1.2.2): at most [`MAX_DELTA`]; zero if it is none.
    #[must_use]
    pub fn seconds(self) -> u32 {
        match self {
            Argument::Token(digits) | Argument::Quoted(digits) => delta_seconds(digits).unwrap_or(0),
            Argument::None | Argument::Malformed => 0,
        }
    }
}

/// Digits and nothing else as seconds, at most [`MAX_DELTA`] (RFC 9111 §1.2.2).
#[must_use]
pub fn delta_seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits
        .iter()
        .fold(0u32, |sum, it| sum.saturating_mul(10).saturating_add(u32::from(it - b'0')).min(MAX_DELTA));
    Some(value)
}

/// The directives of one line, in order. Never fails: an unparsable part is an unknown name or an
/// [`Argument::Malformed`].
#[must_use]
pub fn directives(line: &[u8]) -> Directives<'_> {
    Directives { rest: line }
}

/// See [`directives`].
#[derive(Clone, Debug)]
pub struct Directives<'a> {
    rest: &'a [u8],
}

impl<'a> Directives<'a> {
    /// The part that was not parsed yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Directives<'a> {
    type Item = Directive<'a>;

    fn next(&mut self) -> Option<Directive<'a>> {
        let skipped = self.rest.iter().position(|it| !matches!(it, b',' | b' ' | b'\t'))?;
        self.rest = self.rest.split_at(skipped).1;
        let (raw_name, tail) = cut(self.rest, |it| matches!(it, b'=' | b','));
        let name = raw_name.trim_ascii_end();
        let Some(after) = tail.strip_prefix(b"=") else {
            self.rest = tail;
            return Some(Directive { name, argument: Argument::None });
        };
        let (mut argument, tail) = read_argument(after);
        if name.len() != raw_name.len() {
            argument = Argument::Malformed;
        }
        self.rest = tail;
        Some(Directive { name, argument })
    }
}

/// Parses the part after a `=`, up to the comma that ends the directive.
fn read_argument(text: &[u8]) -> (Argument<'_>, &[u8]) {
    if let Some((inside, after)) = text.strip_prefix(b"\"").and_then(close_quote) {
        let (junk, tail) = cut(after, |it| it == b',');
        let clean = junk.trim_ascii().is_empty();
        return (if clean { Argument::Quoted(inside) } else { Argument::Malformed }, tail);
    }
    let (raw, tail) = cut(text, |it| it == b',');
    let token = raw.trim_ascii_end();
    (if is_token(token) { Argument::Token(token) } else { Argument::Malformed }, tail)
}

/// The parts before and after the quote that closes a quoted string; `None` if it is never closed.
fn close_quote(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut escaped = false;
    let end = text.iter().position(|it| {
        let closes = *it == b'"' && !escaped;
        escaped = *it == b'\\' && !escaped;
        closes
    })?;
    let (inside, rest) = text.split_at(end);
    Some((inside, rest.get(1..).unwrap_or_default()))
}

/// Splits before the first byte for which `ends` is true; without one the second part is empty.
fn cut(text: &[u8], ends: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|it| ends(*it)).unwrap_or(text.len()))
}

fn lowest(slot: &mut Option<u32>, value: u32) {
    *slot = Some(slot.map_or(value, |it| it.min(value)));
}

#[cfg(test)]
mod tests;
