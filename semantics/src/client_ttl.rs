//! The lifetime of a response for clients, apart from its lifetime in the cache (`client_ttl`). The lifetime in the cache is in
//! `freshness`.

use crate::cache_control::{Qualified, ResponseDirectives};
use crate::date;
use crate::field::{self, Field};
use larder_stdx::clock::WallTime;

/// The fields that decide about it.
pub const FIELDS: [&str; 4] = ["cache-control", "expires", "age", "set-cookie"];

/// The fields that a lifetime for clients replaces.
pub const REPLACED: [&str; 3] = ["cache-control", "expires", "age"];

/// The fields, apart from `Cache-Control`, that tell shared caches to keep a response.
pub const FOR_SHARED_CACHES: [&str; 8] = [
    "cdn-cache-control",
    "cloudflare-cdn-cache-control",
    "netlify-cdn-cache-control",
    "vercel-cdn-cache-control",
    "akamai-cache-control",
    "edge-control",
    "surrogate-control",
    "x-accel-expires",
];

/// Makes the `Cache-Control` value that `out` has from `at` on one that keeps shared caches from storing the response: `private`
/// first, since an unclosed quote could hide what follows it, and neither `public` nor `s-maxage` (RFC 9111 §5.2.2). `no-store`
/// needs no `private`.
pub fn make_private(out: &mut Vec<u8>, at: usize) {
    if is_private_with_prefix(&out[at..]) {
        // In place, so that a hit allocates nothing.
        let length = out.len() - at;
        out.extend_from_slice(PRIVATE.as_bytes());
        out.copy_within(at..at + length, at + PRIVATE.len());
        out[at..at + PRIVATE.len()].copy_from_slice(PRIVATE.as_bytes());
        return;
    }
    let length = out.len() - at;
    // Behind the value, so that a hit allocates nothing: a member of n bytes takes n + 2, and n + 1 in the value.
    out.resize(at + 3 * length + PRIVATE.len(), 0);
    let (value, room) = out[at..].split_at_mut(length);
    let (mut used, mut is_stored_nowhere) = (0, false);
    let mut push = |member: &[u8]| {
        for part in [if used == 0 { b"" } else { &b", "[..] }, member] {
            room[used..used + part.len()].copy_from_slice(part);
            used += part.len();
        }
    };
    push(b"private");
    for it in field::members(value) {
        let name = it.split(|it| *it == b'=').next().unwrap_or_default().trim_ascii();
        let replaced: [&[u8]; 3] = [b"public", b"private", b"s-maxage"];
        if !replaced.iter().any(|it| name.eq_ignore_ascii_case(it)) {
            is_stored_nowhere |= name.eq_ignore_ascii_case(b"no-store");
            push(it);
        }
    }
    let skipped = if is_stored_nowhere { PRIVATE.len() } else { 0 };
    out.copy_within(at + length + skipped..at + length + used, at);
    out.truncate(at + used - skipped);
}

/// The prefix that makes most values of `Cache-Control` private.
pub const PRIVATE: &str = "private, ";

/// Whether a value is private with [`PRIVATE`] before it: most are. It is a list of members without quotes, separated as larder does, of
/// which none says where the response may be stored.
#[must_use]
pub fn is_private_with_prefix(value: &[u8]) -> bool {
    let says_where = |member: &[u8]| {
        let name = member.split(|it| *it == b'=').next().unwrap_or_default();
        let directives: [&[u8]; 4] = [b"public", b"private", b"s-maxage", b"no-store"];
        directives.iter().any(|it| name.eq_ignore_ascii_case(it))
    };
    let is_usual = |member: &[u8]| {
        let usual = |it: &u8| matches!(it, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'=');
        !member.is_empty() && member.iter().all(usual) && !says_where(member)
    };
    let mut members = value.split(|it| *it == b',');
    members.next().is_some_and(is_usual) && members.all(|it| it.strip_prefix(b" ").is_some_and(is_usual))
}

/// The setting of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTtl {
    /// The lifetime.
    pub seconds: u32,
    /// Whether responses are the same for all clients, as files are: a field that marks them as shareable is not needed.
    pub is_shareable: bool,
}

/// The `Cache-Control` of a response for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLifetime {
    seconds: u32,
    scope: &'static str,
    /// The directives of the response that stay.
    kept: [&'static str; 3],
}

impl ClientLifetime {
    /// The one of a response with this status and these fields, if the setting applies: the
    /// status is one that caches understand, and the response neither sets a cookie nor forbids its reuse (`no-store`, `no-cache`,
    /// `private`, or a lifetime of zero). Redirects and 404s have to declare a lifetime. A response that no field marks as
    /// shareable becomes `private`: browsers may keep it, other caches may not. A setting of zero requires validation.
    #[must_use]
    pub fn of<'f>(
        ttl: ClientTtl,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
    ) -> Option<Self> {
        let mut stated = ResponseDirectives::default();
        let (mut expires, mut date) = (None, None);
        for it in fields {
            match it.name.len() {
                13 if it.is("cache-control") => stated.add_line(it.value),
                7 if it.is("expires") => expires = Some(date::parse(it.value)),
                4 if it.is("date") => date = date::parse(it.value),
                10 | 11 if it.sets_cookie() => return None,
                _ => {}
            }
        }
        // An invalid date, such as `0`, is in the past (RFC 9111 section 5.3).
        let is_past = |it: Option<WallTime>| it.is_none_or(|it| date.is_some_and(|date| it <= date));
        let is_over = match stated.max_age {
            Some(it) => it == 0,
            None => stated.s_maxage.is_none() && expires.is_some_and(is_past),
        };
        let forbids =
            stated.no_store || stated.no_cache != Qualified::Absent || stated.private != Qualified::Absent;
        let declares = stated.max_age.is_some() || stated.s_maxage.is_some() || expires.is_some();
        let is_reusable = match status {
            200 | 203 | 204 | 206 | 304 => true,
            300 | 301 | 302 | 303 | 307 | 308 | 404 | 410 => declares || stated.public,
            _ => false,
        };
        if forbids || is_over || !is_reusable {
            return None;
        }
        let scope = match (stated.public || ttl.is_shareable && !declares, declares) {
            (true, _) => "public, ",
            (false, true) => "",
            (false, false) => PRIVATE,
        };
        let kept = [
            (stated.must_revalidate, ", must-revalidate"),
            (stated.no_transform, ", no-transform"),
            (stated.immutable, ", immutable"),
        ];
        Some(Self { seconds: ttl.seconds, scope, kept: kept.map(|it| if it.0 { it.1 } else { "" }) })
    }

    /// The same for the client's own cache alone.
    #[must_use]
    pub fn private(self) -> Self {
        Self { scope: PRIVATE, ..self }
    }

    /// Appends the value of the field.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.seconds == 0 {
            let scope = if self.scope == PRIVATE { PRIVATE } else { "" };
            out.extend_from_slice(scope.as_bytes());
            return out.extend_from_slice(b"no-cache");
        }
        out.extend_from_slice(self.scope.as_bytes());
        out.extend_from_slice(b"max-age=");
        out.extend_from_slice(itoa::Buffer::new().format(self.seconds).as_bytes());
        self.kept.iter().for_each(|it| out.extend_from_slice(it.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seconds: u32, status: u16, fields: &[(&str, &str)], expected: Option<&str>) {
        let fields: Vec<_> = fields.iter().map(|it| Field { name: it.0, value: it.1.as_bytes() }).collect();
        let ttl = ClientTtl { seconds, is_shareable: false };
        let written = ClientLifetime::of(ttl, status, fields.iter().copied()).map(|it| {
            let mut out = Vec::new();
            it.write(&mut out);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(expected, written.as_deref());
    }

    #[test]
    fn a_private_value_has_nothing_for_shared_caches() {
        #[track_caller]
        fn check(value: &str, expected: &str) {
            let mut out = format!("before {value}").into_bytes();
            make_private(&mut out, 7);
            assert_eq!(format!("before {expected}"), String::from_utf8(out).unwrap());
        }
        check("public, max-age=600", "private, max-age=600");
        check("max-age=5,s-maxage=600 , Public,immutable", "private, max-age=5, immutable");
        check("", "private");
        check("a,b,c,d,e,f", "private, a, b, c, d, e, f");
        check("private=\"set-cookie, x\", no-cache=\"a, public\"", "private, no-cache=\"a, public\"");
        check("private", "private");
        check("no-store, public", "no-store");
        check("S-MAXAGE = \"9\", must-revalidate", "private, must-revalidate");
        check("x=\"a, max-age=5", "private, x=\"a, max-age=5");
        let ttl = ClientTtl { seconds: 0, is_shareable: true };
        let mut out = Vec::new();
        ClientLifetime::of(ttl, 200, std::iter::empty()).unwrap().private().write(&mut out);
        assert_eq!("private, no-cache", String::from_utf8(out).unwrap());
    }

    #[test]
    fn only_responses_that_may_be_reused_get_it() {
        let cc = "Cache-Control";
        check(60, 200, &[], Some("private, max-age=60"));
        check(60, 200, &[(cc, "max-age=5")], Some("max-age=60"));
        check(
            60,
            200,
            &[(cc, "public"), (cc, "s-maxage=5, immutable")],
            Some("public, max-age=60, immutable"),
        );
        let (date, later) = ("Tue, 24 Nov 2026 10:00:00 GMT", "Tue, 24 Nov 2026 10:10:00 GMT");
        check(60, 200, &[("Date", date), ("Expires", later)], Some("max-age=60"));
        check(60, 200, &[("Date", later), ("Expires", date)], None);
        check(60, 200, &[("Date", date), ("Expires", date), (cc, "max-age=9")], Some("max-age=60"));
        check(60, 200, &[("Expires", "0")], None);
        check(60, 200, &[(cc, "max-age=0, must-revalidate")], None);
        check(60, 200, &[(cc, "public, max-age=0")], None);
        check(60, 404, &[], None);
        check(60, 302, &[("Location", "/login")], None);
        check(60, 404, &[(cc, "max-age=9")], Some("max-age=60"));
        check(0, 200, &[(cc, "max-age=5")], Some("no-cache"));
        let file = ClientTtl { seconds: 60, is_shareable: true };
        assert_eq!("public, ", ClientLifetime::of(file, 200, std::iter::empty()).unwrap().scope);
        for forbids in ["no-store", "private", "no-cache", "private=\"x\"", "max-age=5, no-cache"] {
            check(60, 200, &[(cc, forbids)], None);
        }
        check(60, 200, &[(cc, "max-age=5"), ("Set-Cookie", "a=b")], None);
        check(60, 500, &[(cc, "max-age=5")], None);
    }
}
