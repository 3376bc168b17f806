//! The fields of requests and responses that are recorded for a trial, without any secret value: of a cookie its name and a
//! keyed hash, of credentials a keyed hash.

use super::{RecordedRequest, RecordedResponse};
use crate::analytics;
use crate::coding::Coding;
use crate::cookie_pairs;
use crate::cookies;
use crate::field::{Field, first};
use crate::file_order;
use crate::scheme::Scheme;
use crate::secret;
use crate::transcode;
use std::io::Write;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// The most bytes of one value: a request with a longer one is not recorded.
pub const LONGEST: usize = 1024;

/// The most bytes of a response field that is not one of [`DECIDING`].
const SHORT: usize = 64;

/// Replaces a value of a response that is not recorded.
const PRESENT: &[u8] = b"-";

/// Fields of a response that decide about storing, by their names in lower case.
const DECIDING: [&str; 13] = [
    "age",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "date",
    "expires",
    "last-modified",
    "pragma",
    "transfer-encoding",
    "vary",
];

/// Request fields that no decision about route, key or storability reads, by their names in lower case.
const NEEDLESS: [&str; 13] = [
    "content-type",
    "dnt",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "priority",
    "te",
    "upgrade-insecure-requests",
    "x-request-id",
];

/// The recorded field in place of a `Location` that begins with `https:`, by a hash of its URL: the URL may have a secret.
const REDIRECT: &str = "redirect-to-https";

/// Whether this request field is recorded, at least a hash of its value.
#[must_use]
pub fn keeps(name: &str) -> bool {
    // `Sec-CH-UA`, `Sec-Fetch-Mode` and the like: many bytes of every browser.
    let is_hint = name.get(..4).is_some_and(|it| it.eq_ignore_ascii_case("sec-"));
    !is_hint && !NEEDLESS.iter().any(|it| name.eq_ignore_ascii_case(it)) && !name.starts_with(':')
}

/// Fields of nearly every request that are no secrets: their names need no search for words, which takes a microsecond.
fn is_ordinary(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "origin",
        "range",
        "referer",
        "user-agent",
    ];
    NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}

fn is_credential(name: &str) -> bool {
    if is_ordinary(name) {
        return false;
    }
    ["authorization", "proxy-authorization"].iter().any(|it| name.eq_ignore_ascii_case(it))
        || secret::names_secret(name)
}

/// Passes the recorded text of a request's fields to `write`, in pieces. The hashes of cookies are keyed by `seed`, a secret of
/// the process. Allocates nothing.
pub fn write_request(fields: &[Field<'_>], seed: u64, write: &mut impl FnMut(&[u8])) {
    for it in fields.iter().filter(|it| keeps(it.name)) {
        write(it.name.as_bytes());
        write(b"\0");
        if it.is("cookie") {
            write_cookies(it.value, seed, write);
        } else if is_credential(it.name) {
            write_hash(it.value, seed, write);
        } else {
            write(it.value);
        }
        write(b"\n");
    }
}

fn write_cookies(line: &[u8], seed: u64, write: &mut impl FnMut(&[u8])) {
    let mut separator = &b""[..];
    for pair in line.split(|it| *it == b';') {
        let pair = pair.trim_ascii();
        // A cookie without a name is only a value.
        let end = pair.iter().position(|it| *it == b'=');
        let (name, value) = end.map_or((&b""[..], pair), |at| (&pair[..at], &pair[at + 1..]));
        if pair.is_empty() {
            continue;
        }
        write(separator);
        separator = b"; ";
        write(name);
        write(b"=");
        if !value.is_empty() {
            write_hash(value, seed, write);
        }
    }
}

/// 32 bits: two values of one visitor and another differ, and none is found by a search, without the seed.
fn write_hash(value: &[u8], seed: u64, write: &mut impl FnMut(&[u8])) {
    let mut room = [0; 8];
    let hash = xxh3_64_with_seed(value, seed);
    let _ = write!(&mut room[..], "{:08x}", hash >> 32);
    write(&room);
}

/// A hash of the client of a request: its address, its cookies and the fields that identify it.
#[must_use]
pub fn client(address: &[u8], fields: &[Field<'_>], seed: u64) -> u64 {
    let mut hash = Xxh3::with_seed(seed);
    hash.update(address);
    for it in fields.iter().filter(|it| it.is("cookie") || identifies(it.name)) {
        hash.update(it.value);
    }
    hash.digest()
}

/// Whether a field other than `Cookie` and `Authorization` says which client sends a request.
fn identifies(name: &str) -> bool {
    keeps(name) && !is_ordinary(name) && secret::identifies_client(name)
}

/// Whether a request says by a cookie, by credentials or by another field which client sends it. A cookie of an analytics program
/// changes no page.
#[must_use]
pub fn has_identity(fields: &[Field<'_>]) -> bool {
    let has_cookie = fields.iter().any(|it| it.is("cookie"));
    has_cookie && !cookies::are_only(fields, analytics::COOKIES) || is_identified(fields)
}

/// Whether a request says by credentials or a field other than `Cookie` which client sends it.
#[must_use]
pub fn is_identified(fields: &[Field<'_>]) -> bool {
    fields.iter().any(|it| is_credential(it.name) || identifies(it.name))
}

/// The recorded text of a response's fields.
#[must_use]
pub fn response(fields: &[Field<'_>]) -> Vec<u8> {
    let mut text = Vec::with_capacity(256);
    for it in fields {
        let value = match it {
            it if it.sets_cookie() => cookie_name(it.value),
            it if it.is("etag") => b"\"-\"",
            it if file_order::is_order(it.name) => PRESENT,
            it if decides(it.name) && it.value.len() <= LONGEST => it.value,
            it if is_other(it) => it.value,
            it if it.is("location") => {
                write_redirect(it.value, &mut text);
                continue;
            }
            _ => continue,
        };
        text.extend_from_slice(it.name.as_bytes());
        text.push(0);
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text
}

/// The recorded form of a `Location`, if it leads to `https`.
fn write_redirect(location: &[u8], text: &mut Vec<u8>) {
    let location = std::str::from_utf8(location).ok().and_then(Scheme::split);
    let Some((Scheme::Https, rest)) = location else { return };
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    text.extend_from_slice(REDIRECT.as_bytes());
    text.push(0);
    text.extend_from_slice(url_hash(authority, target).as_bytes());
    text.push(b'\n');
}

/// 32 bits of a hash of a URL without its scheme and the default ports.
fn url_hash(authority: &str, target: &str) -> String {
    let authority = Scheme::Https.without_port(Scheme::Http.without_port(authority)).to_ascii_lowercase();
    let hash = xxh3_64_with_seed(target.as_bytes(), xxh3_64(authority.as_bytes()));
    format!("{:08x}", hash >> 32)
}

/// The name of a cookie with its `=`.
fn cookie_name(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|it| matches!(it, b'=' | b';'));
    end.map_or(PRESENT, |at| &value[..at + usize::from(value[at] == b'=')])
}

/// `CDN-Cache-Control`, `Surrogate-Control` and other targeted fields decide as well.
fn decides(name: &str) -> bool {
    let ends = |end: &str| {
        name.len()
            .checked_sub(end.len())
            .and_then(|at| name.get(at..))
            .is_some_and(|it| it.eq_ignore_ascii_case(end))
    };
    DECIDING.iter().any(|it| name.eq_ignore_ascii_case(it)) || ends("-control")
}

/// A field that rules of routes (`cache.rule`) may read.
fn is_other(it: &Field<'_>) -> bool {
    let is_own = it.name.get(..2).is_some_and(|it| it.eq_ignore_ascii_case("x-"));
    is_own && it.value.len() <= SHORT && !secret::names_secret(it.name)
}

/// The bytes at the beginning of a body that are all hashed, and the size of its later parts.
const PART: usize = 64 << 10;
/// The bytes of each later part that are hashed where the body is neither text nor data: such bodies are large, and a difference
/// in one seldom is in a single place.
const SAMPLE: usize = 4 << 10;

/// The lowest bits of a hash: only hashes of one class are comparable. That of [`digest`] has class 0.
const CLASSES: u64 = 8;

/// The class of a hash.
#[must_use]
pub fn class_of(hash: u64) -> u64 {
    hash % CLASSES
}

/// All classes.
pub fn classes() -> std::ops::Range<u64> {
    0..CLASSES
}

/// The hash of a body while it is sent. Text is hashed as a whole: the part that is for one client may be its last one.
pub struct BodyDigest {
    hash: Xxh3,
    bytes: usize,
    is_text: bool,
    class: u64,
}

impl BodyDigest {
    /// For the body of a response with these fields; `None` if its content coding is not known.
    #[must_use]
    pub fn of(fields: &[Field<'_>]) -> Option<Self> {
        let class = match transcode::coding_of(fields) {
            Coding::Identity => 1,
            Coding::Gzip => 2,
            Coding::Brotli => 3,
            Coding::Zstd => 4,
            Coding::Deflate => 5,
            _ => return None,
        };
        let is_text = first(fields, "content-type").is_none_or(transcode::is_text);
        Some(Self { hash: Xxh3::new(), bytes: 0, is_text, class })
    }

    /// Adds the next bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        if self.is_text {
            self.hash.update(bytes);
            self.bytes += bytes.len();
            return;
        }
        while !bytes.is_empty() {
            let (part, at) = (self.bytes / PART, self.bytes % PART);
            let (now, rest) = bytes.split_at(bytes.len().min(PART - at));
            let hashed = if part == 0 { PART } else { SAMPLE };
            self.hash.update(&now[..now.len().min(hashed.saturating_sub(at))]);
            self.bytes += now.len();
            bytes = rest;
        }
    }

    /// The hash, of the class of its content coding.
    #[must_use]
    pub fn finish(&self) -> u64 {
        (self.hash.digest() ^ self.bytes as u64) & !(CLASSES - 1) | self.class
    }
}

/// Fields of a response that differ by nature, between requests of one client as well: with the time, the server, the connection
/// or the request. By their names in lower case.
const UNSTEADY: [&str; 32] = [
    "accept-ranges",
    "age",
    "alt-svc",
    "connection",
    "content-digest",
    "content-encoding",
    "content-length",
    "content-md5",
    "content-range",
    "content-security-policy",
    "content-security-policy-report-only",
    "date",
    "digest",
    "etag",
    "expires",
    "keep-alive",
    "last-modified",
    "nel",
    "pragma",
    "report-to",
    "reporting-endpoints",
    "repr-digest",
    "retry-after",
    "server",
    "set-cookie",
    "set-cookie2",
    "trailer",
    "transfer-encoding",
    "vary",
    "via",
    "x-amz-cf-id",
    "x-amz-id-2",
];

/// Words of names of such fields: `X-Request-Id` and `CF-Ray`, `X-Response-Time`, `X-Served-By`, `X-RateLimit-Remaining`.
const UNSTEADY_WORDS: [&str; 34] = [
    "age",
    "backend",
    "cache",
    "correlation",
    "date",
    "duration",
    "elapsed",
    "expires",
    "hits",
    "host",
    "hostname",
    "instance",
    "limit",
    "node",
    "nonce",
    "pod",
    "rate",
    "ratelimit",
    "ray",
    "remaining",
    "request",
    "requestid",
    "reset",
    "runtime",
    "served",
    "server",
    "span",
    "spanid",
    "time",
    "timer",
    "timing",
    "trace",
    "traceid",
    "worker",
];

/// Whether a field may differ between two responses without another content. A name that says that it is secret, or a client's, is
/// none of these.
fn is_unsteady(name: &str) -> bool {
    if UNSTEADY.iter().any(|it| name.eq_ignore_ascii_case(it)) || file_order::is_order(name) {
        return true;
    }
    let has_word = secret::with_plain(name, |plain| {
        plain.split('-').any(|it| UNSTEADY_WORDS.contains(&it)) || plain.ends_with("-control")
    });
    has_word && !secret::identifies_client(name)
}

/// A hash of the fields of a response that are stored and shared with it, in any order, without those that differ by nature: an odd
/// number. A redirect target or `X-User` is in it.
#[must_use]
pub fn head_digest(fields: &[Field<'_>]) -> u64 {
    let one = |it: &Field<'_>| {
        let name = secret::with_plain(it.name, |plain| xxh3_64(plain.as_bytes()));
        xxh3_64_with_seed(it.value, name)
    };
    let kept = fields.iter().filter(|it| !is_unsteady(it.name));
    kept.fold(1, |hash: u64, it| hash.wrapping_add(one(it))) & !(CLASSES - 1) | 1
}

/// A hash of a representation, by its entity tag, date of change and length: of class 0; 0 without any of these.
#[must_use]
pub fn digest(fields: &[Field<'_>]) -> u64 {
    let parts = ["etag", "last-modified", "content-length"].map(|name| first(fields, name));
    if parts.iter().all(Option::is_none) {
        return 0;
    }
    let mut hash = Xxh3::new();
    for it in parts {
        hash.update(&[u8::from(it.is_some())]);
        hash.update(&xxh3_64(it.unwrap_or_default()).to_le_bytes());
    }
    (hash.digest() & !(CLASSES - 1)).max(CLASSES)
}

/// The fields of a recorded text.
#[must_use]
pub fn fields(text: &[u8]) -> Vec<Field<'_>> {
    text.split(|it| *it == b'\n').filter_map(field).collect()
}

fn field(line: &[u8]) -> Option<Field<'_>> {
    let at = line.iter().position(|it| *it == 0)?;
    let name = std::str::from_utf8(&line[..at]).ok()?;
    Some(Field { name, value: &line[at + 1..] })
}

impl RecordedResponse<'_> {
    /// Whether it is a complete answer: not one to a condition or for a range.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !matches!(self.status, 206 | 304 | 416)
    }

    /// Whether its `Location` is the URL of its request over `https`.
    #[must_use]
    pub fn redirects_to_https(&self, request: &RecordedRequest<'_>) -> bool {
        let own = || url_hash(request.authority, request.target);
        first(self.fields, REDIRECT).is_some_and(|it| it == own().as_bytes())
    }
}

/// Whether a request has a credential whose value is not recorded.
#[must_use]
pub fn has_withheld(fields: &[Field<'_>]) -> bool {
    fields.iter().any(|it| it.is("cookie") || is_credential(it.name))
}

/// Whether a request has one of these cookies.
#[must_use]
pub fn has_cookie(fields: &[Field<'_>], names: &[String]) -> bool {
    cookie_pairs::pairs(fields).any(|(name, _)| names.iter().any(|it| it.as_bytes() == name))
}
