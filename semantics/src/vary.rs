//! Secondary keys: the request fields that select a variant (RFC 9111 §4.1). The primary key is in `key`.
//!
//! A variant key has one line for each name, such as `accept-encoding=br,gzip`; without `=` if the request has no such
//! field.

use crate::coding::{self, AcceptedCodings, Coding, Quality};
use crate::cookie_pairs;
use crate::escape::escape;
use crate::field::{self, Field, FieldList, Quotes};
use std::cmp::Ordering;

/// The most names in the `Vary` of one response; more count as `*`.
pub const MAX_NAMES: usize = 32;

/// The most members of an `Accept-Language` that are sorted; a longer list is compared unchanged.
const MAX_MEMBERS: usize = 32;

/// The most frequent values, and their normal form, so that most hits need no sorting: a third of the time for a variant
/// key.
const KNOWN_ENCODINGS: [(&[u8], Usual); 6] = [
    (b"gzip, deflate, br, zstd", Usual(GZIP | BROTLI | ZSTD)),
    (b"gzip, deflate, br", Usual(GZIP | BROTLI)),
    (b"gzip, deflate", Usual(GZIP)),
    (b"deflate, gzip, br, zstd", Usual(GZIP | BROTLI | ZSTD)),
    (b"gzip", Usual(GZIP)),
    (b"identity", Usual(0)),
];

const GZIP: usize = 1;
const BROTLI: usize = 2;
const ZSTD: usize = 4;
/// The plain form is refused.
const ENCODED_ONLY: usize = 8;

/// The normal form of an `Accept-Encoding`: which of gzip, br and zstd it accepts, and whether it refuses the plain form.
/// All requests that accept the same share a variant, and the origin gets this form, so that the response fits the
/// variant. Qualities, other codings (`deflate`, `dcb`) and malformed members are dropped: for any input of clients, a
/// page has at most these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usual(usize);

/// Each [`Usual`]: its form for an origin, and its sorted form in a variant key.
const FORMS: [(&str, &str); 16] = [
    ("identity", "identity"),
    ("gzip", "gzip"),
    ("br", "br"),
    ("gzip, br", "br,gzip"),
    ("zstd", "zstd"),
    ("gzip, zstd", "gzip,zstd"),
    ("br, zstd", "br,zstd"),
    ("gzip, br, zstd", "br,gzip,zstd"),
    ("identity;q=0", "identity;q=0"),
    ("gzip, identity;q=0", "gzip,identity;q=0"),
    ("br, identity;q=0", "br,identity;q=0"),
    ("gzip, br, identity;q=0", "br,gzip,identity;q=0"),
    ("zstd, identity;q=0", "identity;q=0,zstd"),
    ("gzip, zstd, identity;q=0", "gzip,identity;q=0,zstd"),
    ("br, zstd, identity;q=0", "br,identity;q=0,zstd"),
    ("gzip, br, zstd, identity;q=0", "br,gzip,identity;q=0,zstd"),
];

impl Usual {
    /// For a request with the field: `*` stands for each of the three without a member of its own (RFC 9110 §12.5.3).
    fn of(request: &[Field<'_>]) -> Usual {
        let accepted = AcceptedCodings::read(request);
        let bit = |coding, bit| if accepted.quality(coding) > 0 { bit } else { 0 };
        let plain = bit(Coding::Identity, ENCODED_ONLY) ^ ENCODED_ONLY;
        Usual(bit(Coding::Gzip, GZIP) | bit(Coding::Brotli, BROTLI) | bit(Coding::Zstd, ZSTD) | plain)
    }

    fn asked(self) -> &'static str {
        FORMS.get(self.0).map_or("identity", |it| it.0)
    }

    fn key(self) -> &'static str {
        FORMS.get(self.0).map_or("identity", |it| it.1)
    }
}

/// The normal form of a request's `Accept-Encoding`, as sent to the origin of a cached page; `None` without the field.
#[must_use]
pub fn normal_encodings(request: &[Field<'_>]) -> Option<&'static str> {
    field::all(request, "accept-encoding").next()?;
    Some(Usual::of(request).asked())
}

/// Fields of a proxy on the client and the way of the request: the origin gets them from larder, or only from a trusted
/// proxy. Equal requests cannot be recognised by the values that clients send.
const TOLD: [&str; 44] = [
    "ali-cdn-real-ip",
    "cdn-src-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "forwarded-for-ip",
    "http-client-ip",
    "incap-client-ip",
    "proxy-client-ip",
    "real-ip",
    "remote-addr",
    "traceparent",
    "tracestate",
    "true-client-ip",
    "via",
    "wl-proxy-client-ip",
    "x-appengine-user-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-ip",
    "x-clientip",
    "x-cluster-client-ip",
    "x-coming-from",
    "x-envoy-external-address",
    "x-forward-for",
    "x-forwarded-for",
    "x-forwarder-for",
    "x-nf-client-connection-ip",
    "x-original-forwarded-for",
    "x-original-remote-addr",
    "x-originally-forwarded-for",
    "x-originating-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "remote-ip",
    "x-source-ip",
    "x-sucuri-clientip",
    "x-true-client-ip",
    "x-vercel-forwarded-for",
];

/// Whether no variant can be selected by this field.
#[must_use]
pub fn is_client_fact(name: &str) -> bool {
    TOLD.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Parses every `Vary` line: the names, lower case, sorted, without duplicates; `None` for `*`, for a value that is not a
/// list of names, and for a name in `TOLD`, which can never be matched safely.
#[must_use]
pub fn names(fields: &[Field<'_>]) -> Option<Vec<Box<str>>> {
    let mut names: Vec<Box<str>> = Vec::new();
    for member in field::all(fields, "vary").flat_map(field::members) {
        if member == b"*" || !field::is_token(member) || std::str::from_utf8(member).is_ok_and(is_client_fact)
        {
            return None;
        }
        let name = std::str::from_utf8(member).ok()?.to_ascii_lowercase().into_boxed_str();
        if let Err(at) = names.binary_search(&name) {
            if names.len() == MAX_NAMES {
                return None;
            }
            names.insert(at, name);
        }
    }
    Some(names)
}

/// Adds names to the `Vary` of a response, unless it has them (RFC 9110 §12.5.5).
pub fn add_names<'n>(fields: &mut FieldList, names: impl IntoIterator<Item = &'n str>) {
    for name in names {
        let named = |it: &[u8]| it == b"*" || it.eq_ignore_ascii_case(name.as_bytes());
        if !fields.get_all("vary").flat_map(field::members).any(named) {
            fields.push("Vary", name);
        }
    }
}

/// Appends the variant key of a request: for each name its combined, normalised value. Two requests have equal variant
/// keys only if RFC 9111 §4.1 lets them share (whitespace, line combining; for `Accept-Language` also order, case and the
/// notation of qualities; for `Accept-Encoding` all except which of gzip, br, zstd and the plain form are accepted).
/// Empty `names` append nothing.
///
/// Allocates only to grow `out`, by at most three times the bytes of the values and 25.
pub fn write_key(names: &[Box<str>], request: &[Field<'_>], out: &mut Vec<u8>) {
    for name in names {
        escape(name.as_bytes(), |it| it == b'=', out);
        write_value(name, request, out);
        out.push(b'\n');
    }
}

/// Whether one request may select two stored responses, each given by the names in its `Vary` and its variant key: both
/// have the same value for every common name. Of these the older must not be used: the `Vary` of the newer counts (RFC
/// 9111 §4.1, §4.3.3). If each varies on a name that the other lacks, the keys show no more than that.
#[must_use]
pub fn may_meet(one: (&[Box<str>], &[u8]), other: (&[Box<str>], &[u8])) -> bool {
    if one.0 == other.0 {
        return one.1 == other.1;
    }
    let differs = |(name, line): (&str, &[u8])| {
        let mut others = lines(other);
        others.any(|it| it.0 == name && it.1 != line)
    };
    !lines(one).any(differs)
}

/// Each name with its line of a variant key.
fn lines<'a>(of: (&'a [Box<str>], &'a [u8])) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    of.0.iter().map(|it| &**it).zip(of.1.split_inclusive(|it| *it == b'\n'))
}

/// Appends `=` and the combined, normalised and escaped value of one field, or nothing if the request does not have it.
pub(crate) fn write_value(name: &str, request: &[Field<'_>], out: &mut Vec<u8>) {
    let lines = field::all(request, name);
    let mut rest = lines.clone();
    let Some(first) = rest.next() else { return };
    out.push(b'=');
    let ordered = match name {
        "accept-encoding" => {
            let known = KNOWN_ENCODINGS.iter().find(|it| it.0 == first);
            let normal = match (known, rest.next()) {
                (Some((_, normal)), None) => *normal,
                _ => Usual::of(request),
            };
            return out.extend_from_slice(normal.key().as_bytes());
        }
        "accept-language" => Preferences::read(lines.clone()),
        _ => None,
    };
    match ordered {
        Some(ordered) => ordered.write(out),
        // Not a list: commas are part of a cookie, and its lines are joined so (RFC 9113 §8.2.3).
        None if name == "cookie" => write_exact(lines, out),
        None => write_combined(lines, out),
    }
}

/// Lines joined by commas, without the whitespace around those that separate (RFC 9110 §5.3).
fn write_combined<'a>(lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let mut quotes = Quotes::default();
    for (at, line) in lines.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let mut rest = field::trim(line);
        while !rest.is_empty() {
            let comma = rest.iter().position(|it| !quotes.inside(*it) && *it == b',');
            let (member, after) = rest.split_at(comma.unwrap_or(rest.len()));
            escape(field::trim(member), |_| false, out);
            if comma.is_some() {
                out.push(b',');
            }
            rest = after.get(1..).unwrap_or_default();
        }
    }
}

fn write_exact<'a>(lines: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    for (at, line) in lines.enumerate() {
        if at > 0 {
            escape(b"; ", |_| false, out);
        }
        escape(line, |_| false, out);
    }
}

/// A list of names with qualities, in the order of their names, each once. Owns no heap memory.
struct Preferences<'a> {
    members: [(&'a [u8], Quality); MAX_MEMBERS],
    len: usize,
}

impl<'a> Preferences<'a> {
    /// `None` if a member is malformed, repeated with different qualities, or one too many: then the meaning of the list
    /// is unknown, and it equals only itself.
    fn read(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut list = Self { members: [(b"", 0); MAX_MEMBERS], len: 0 };
        // A quoted string would be malformed here, so every comma separates.
        let members = lines.flat_map(|it| it.split(|it| *it == b',')).map(field::trim);
        for member in members.filter(|it| !it.is_empty()) {
            let (name, quality) = coding::weighted(member)?;
            match list.members[..list.len].binary_search_by(|it| in_order(it.0, name)) {
                Ok(at) if list.members[at].1 == quality => {}
                Ok(_) => return None,
                Err(_) if list.len == MAX_MEMBERS => return None,
                Err(at) => {
                    list.members.copy_within(at..list.len, at + 1);
                    list.members[at] = (name, quality);
                    list.len += 1;
                }
            }
        }
        Some(list)
    }

    fn write(&self, out: &mut Vec<u8>) {
        for (at, (name, quality)) in self.members[..self.len].iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend(name.iter().map(u8::to_ascii_lowercase)); // A token: nothing to escape.
            if *quality < coding::BEST {
                write_quality(*quality, out);
            }
        }
    }
}

fn in_order(a: &[u8], b: &[u8]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        match a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    a.len().cmp(&b.len())
}

/// Whether responses with these names in `Vary` differ by the credentials of clients.
#[must_use]
pub fn are_by_client(names: &[Box<str>]) -> bool {
    names.iter().any(|it| ["cookie", "authorization"].iter().any(|own| it.eq_ignore_ascii_case(own)))
}

/// The fields that tell a request from every stored variant, each given by its names in `Vary` and its variant key, in words: of `Cookie`
/// the names of the cookies, without their values.
#[must_use]
pub fn in_words(variants: &[(&[Box<str>], &[u8])], request: &[Field<'_>]) -> Option<String> {
    let (names, _) = variants.first()?;
    let (mut fields, mut of_cookies) = (Vec::new(), None);
    for name in names.iter() {
        let mut own = Vec::new();
        write_key(std::slice::from_ref(name), request, &mut own);
        let stored = variants.iter().flat_map(|it| lines(*it)).filter(|it| it.0 == &**name);
        let other: Vec<&[u8]> = stored.map(|it| it.1).filter(|it| *it != own).collect();
        if other.is_empty() {
            continue;
        }
        match name.eq_ignore_ascii_case("cookie") {
            false => fields.push(name.to_string()),
            true => {
                // A space after a semicolon is escaped.
                let value =
                    |it: &[u8]| String::from_utf8_lossy(it).split_once('=')?.1.replace("\\20", " ").into();
                let values: Vec<String> = other.into_iter().chain([&own[..]]).filter_map(value).collect();
                let values: Vec<&[u8]> = values.iter().map(|it| it.trim_end().as_bytes()).collect();
                of_cookies = cookie_pairs::in_words(&values, |_| true).or_else(|| Some("Cookie".to_owned()));
            }
        }
    }
    let words: Vec<String> = of_cookies.into_iter().chain(cookie_pairs::in_list("field", &fields)).collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

/// Appends `;q=0.5` in its shortest form.
fn write_quality(quality: Quality, out: &mut Vec<u8>) {
    out.extend_from_slice(b";q=0");
    let mut rest = quality;
    let mut place = 100;
    if rest > 0 {
        out.push(b'.');
    }
    while rest > 0 {
        // Below 1000, so each is a digit.
        out.push(b'0' + u8::try_from(rest / place).unwrap_or(9));
        rest %= place;
        place /= 10;
    }
}

#[cfg(test)]
mod tests;
