//! The cookie by which a client returns to the origin that answered it (`proxy.sticky`): its lines in both directions, and the
//! responses that set it. The choice of the origin is in `origin`.

use crate::cache_control::{Qualified, ResponseDirectives};
use crate::date;
use crate::field::{self, Field, FieldList};
use crate::method;
use crate::scheme::Scheme;
use larder_stdx::clock::WallTime;

/// `SameSite` of the cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameSite {
    /// `Lax`.
    #[default]
    Lax,
    /// `Strict`.
    Strict,
    /// `None`: also in requests from pages of other sites.
    None,
}

/// The sticky cookie of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickyCookie {
    /// The name.
    pub name: String,
    /// The lifetime in seconds, renewed by each response that sets the cookie; `None` ends with the browser session.
    pub ttl: Option<u32>,
    /// The path.
    pub path: String,
    /// `SameSite`.
    pub same_site: SameSite,
    /// Whether only requests over TLS have it; `None` if it was set over TLS.
    pub secure: Option<bool>,
}

impl StickyCookie {
    /// Removes the cookie from the request: it is of no concern to the cache and the origin. Returns the remaining fields and
    /// the number of the origin; `None` where the request has no such cookie.
    #[must_use]
    pub fn take(&self, fields: &[Field<'_>]) -> Option<(FieldList, Option<u64>)> {
        let is_ours = |pair: &&[u8]| {
            let end = pair.iter().position(|it| *it == b'=').unwrap_or(pair.len());
            pair[..end].trim_ascii() == self.name.as_bytes()
        };
        let pairs = |it: &Field<'_>| it.is("cookie");
        if !fields
            .iter()
            .filter(|it| pairs(it))
            .any(|it| it.value.split(|it| *it == b';').any(|it| is_ours(&it)))
        {
            return None;
        }
        let (mut rest, mut origin) = (FieldList::with_room_for(fields, 0), None);
        for it in fields {
            if !it.is("cookie") {
                rest.push(it.name, it.value);
                continue;
            }
            let mut line: Vec<u8> = Vec::with_capacity(it.value.len());
            for pair in it.value.split(|it| *it == b';') {
                if is_ours(&pair) {
                    let value = pair.iter().position(|it| *it == b'=').map(|at| &pair[at + 1..]);
                    origin = origin.or(value.and_then(number));
                    continue;
                }
                if !line.is_empty() {
                    line.push(b';');
                }
                line.extend_from_slice(if line.is_empty() { pair.trim_ascii() } else { pair });
            }
            if !line.trim_ascii().is_empty() {
                rest.push(it.name, line);
            }
        }
        Some((rest, origin))
    }

    /// Whether a response from the origin `answered` sets the cookie, where the request asked for the origin `asked`.
    #[must_use]
    pub fn is_due(&self, asked: Option<u64>, answered: u64) -> bool {
        self.ttl.is_some() || asked != Some(answered)
    }

    /// The value of `Set-Cookie` for an origin.
    #[must_use]
    pub fn line(&self, origin: u64, scheme: Scheme) -> String {
        let mut line = format!("{}={origin:016x}; Path={}; HttpOnly", self.name, self.path);
        if let Some(ttl) = self.ttl {
            line.push_str(&format!("; Max-Age={ttl}"));
        }
        line.push_str(match self.same_site {
            SameSite::Lax => "; SameSite=Lax",
            SameSite::Strict => "; SameSite=Strict",
            SameSite::None => "; SameSite=None",
        });
        // Browsers reject `SameSite=None` without it.
        if self.secure.unwrap_or(scheme == Scheme::Https || self.same_site == SameSite::None) {
            line.push_str("; Secure");
        }
        line
    }
}

/// The number of an origin, as in the cookie.
fn number(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    let is_plain = text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_plain)
}

/// Whether another cache may give a response to other clients: then it must not bind them to an origin.
#[must_use]
pub fn is_for_others(method: &str, fields: &[Field<'_>], now: WallTime) -> bool {
    if !method::is_safe(method) {
        return false;
    }
    let directives = ResponseDirectives::read(fields);
    if directives.private == Qualified::Whole || directives.no_store {
        return false;
    }
    let lives = match directives.s_maxage.or(directives.max_age) {
        Some(seconds) => seconds > 0,
        None => field::first(fields, "expires").and_then(date::parse).is_some_and(|it| it > now),
    };
    directives.public || lives
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie() -> StickyCookie {
        let (name, path) = ("at".to_owned(), "/".to_owned());
        StickyCookie { name, ttl: None, path, same_site: SameSite::Lax, secure: None }
    }

    #[test]
    fn the_cookie_is_taken_out_of_the_request() {
        let check = |lines: &[&str], expect: Option<(&[&str], Option<u64>)>| {
            let mut fields = vec![Field { name: "Accept", value: b"at=1" }];
            fields.extend(lines.iter().map(|it| Field { name: "Cookie", value: it.as_bytes() }));
            let taken = cookie().take(&fields);
            let found = taken.as_ref().map(|(rest, origin)| {
                assert_eq!(Some(&b"at=1"[..]), rest.get("accept"));
                let lines: Vec<_> =
                    rest.get_all("cookie").map(|it| std::str::from_utf8(it).unwrap()).collect();
                (lines, *origin)
            });
            assert_eq!(expect.map(|it| (it.0.to_vec(), it.1)), found, "{lines:?}");
        };
        check(&[], None);
        check(&["a=1; bat=2; b=at=3"], None);
        check(&["at=00000000000000ff"], Some((&[], Some(255))));
        check(&["a=1; at=00000000000000ff; b=2"], Some((&["a=1; b=2"], Some(255))));
        check(&["at=00000000000000ff;b=2"], Some((&["b=2"], Some(255))));
        check(&["a=1;at=00000000000000ff"], Some((&["a=1"], Some(255))));
        check(&["at=0000000000000001; at=0000000000000002"], Some((&[], Some(1))));
        check(&["a=1", "at=0000000000000001"], Some((&["a=1"], Some(1))));
        for wrong in
            ["at", "at=", "at=1", "at=+0000000000000ff", "at=00000000000000ffff", "at=zz000000000000ff"]
        {
            check(&[wrong], Some((&[], None)));
        }
    }

    #[test]
    fn lines() {
        assert_eq!("at=00000000000000ff; Path=/; HttpOnly; SameSite=Lax", cookie().line(255, Scheme::Http));
        assert_eq!(
            "at=00000000000000ff; Path=/; HttpOnly; SameSite=Lax; Secure",
            cookie().line(255, Scheme::Https)
        );
        let whole =
            StickyCookie { ttl: Some(60), same_site: SameSite::None, path: "/app".to_owned(), ..cookie() };
        assert_eq!(
            "at=0000000000000001; Path=/app; HttpOnly; Max-Age=60; SameSite=None; Secure",
            whole.line(1, Scheme::Http)
        );
        let open = StickyCookie { secure: Some(false), same_site: SameSite::Strict, ..cookie() };
        assert_eq!("at=0000000000000001; Path=/; HttpOnly; SameSite=Strict", open.line(1, Scheme::Https));
        assert!(cookie().is_due(None, 1) && cookie().is_due(Some(2), 1) && !cookie().is_due(Some(1), 1));
        assert!(whole.is_due(Some(1), 1), "a lifetime is renewed");
    }

    #[test]
    fn a_response_that_other_caches_may_store_sets_no_sticky_cookie() {
        let now = WallTime(784_111_777); // Sun, 06 Nov 1994 08:49:37 GMT
        let check = |method: &str, lines: &[(&'static str, &'static str)], expect: bool| {
            let fields: Vec<_> =
                lines.iter().map(|it| Field { name: it.0, value: it.1.as_bytes() }).collect();
            assert_eq!(expect, is_for_others(method, &fields, now), "{method} {lines:?}");
        };
        check("GET", &[], false);
        check("GET", &[("Cache-Control", "max-age=60")], true);
        check("HEAD", &[("Cache-Control", "public")], true);
        check("GET", &[("Cache-Control", "max-age=0, s-maxage=9")], true);
        check("GET", &[("Cache-Control", "max-age=60, private")], false);
        check("GET", &[("Cache-Control", "max-age=60, no-store")], false);
        check("GET", &[("Cache-Control", "max-age=0")], false);
        check("GET", &[("Cache-Control", "private=\"x\", max-age=60")], true);
        check("POST", &[("Cache-Control", "max-age=60")], false);
        check("GET", &[("Expires", "Sun, 06 Nov 1994 08:49:38 GMT")], true);
        check("GET", &[("Expires", "Thu, 19 Nov 1981 08:52:00 GMT")], false);
    }
}
