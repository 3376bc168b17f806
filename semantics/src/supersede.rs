//! The responses of an origin that make a stored one for the same request unusable: RFC 9111 section 4.3.3. The removal
//! is not here.

use crate::cookies;
use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::reuse;
use crate::storable;
use crate::stored::Meta;

/// Whether a response with this status is another full response that replaces the stored one, whether it may be stored
/// itself or not.
///
/// Not an error of the origin (5xx), after which the stored one may be used stale; not a 304 or a part; and not a
/// response to the form or the credentials of this one request, which another request would not get. A 401 to a request
/// without credentials applies to every client.
#[must_use]
pub fn supersedes(request: &RequestFacts<'_>, status: u16) -> bool {
    let is_full = (200..500).contains(&status) && status != 206;
    let of_the_request = storable::is_never_stored(status) && (status != 401 || request.authorization);
    request.method == "GET" && is_full && !of_the_request
}

/// The effect on what is stored of an answer that may not be stored itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedEffect {
    /// It makes the stored response unusable, in every tier and on every node.
    Supersedes,
    /// It has none here; other nodes need not wait for it.
    None,
    /// It has none anywhere, and other nodes hear nothing of it: it is for one visitor, to whom the stored response is not served.
    Unrelated,
}

/// Decides the effect of an answer with this status that may not be stored; `stored` is the response that is stored under its
/// key.
///
/// A request with private cookies, or one for which the stored response is not, says nothing about that response: otherwise a
/// client with a made-up cookie could remove what is stored for all.
#[must_use]
pub fn of_refused(
    request: &RequestFacts<'_>,
    status: u16,
    policy: &Policy,
    stored: Option<&Meta>,
) -> RefusedEffect {
    if is_unrelated(request, policy, stored) {
        return RefusedEffect::Unrelated;
    }
    match supersedes(request, status) {
        true => RefusedEffect::Supersedes,
        false => RefusedEffect::None,
    }
}

/// Whether the answer to a request is for one visitor to whom the stored response is not served.
#[must_use]
pub fn is_unrelated(request: &RequestFacts<'_>, policy: &Policy, stored: Option<&Meta>) -> bool {
    cookies::are_private(request.cookies, request.method, policy)
        || stored.is_some_and(|it| reuse::is_for_others(it, request, policy))
}

/// [`supersedes`] for an answer of which only its status is known, as what a node leaves in the fleet tells it: an answer to credentials leaves
/// nothing there.
#[must_use]
pub fn supersedes_for_all(status: u16) -> bool {
    supersedes(&RequestFacts::read("GET", &[]), status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use larder_stdx::clock::WallTime;

    #[track_caller]
    fn check(method: &str, fields: &[Field<'_>], statuses: &[u16], expect: bool) {
        let facts = RequestFacts::read(method, fields);
        for status in statuses {
            assert_eq!(expect, supersedes(&facts, *status), "{method} {status}");
        }
    }

    #[test]
    fn a_full_response_replaces_the_stored_one() {
        check("GET", &[], &[200, 203, 204, 301, 302, 303, 307, 308, 401, 403, 404, 405, 410, 451], true);
    }

    #[test]
    fn errors_parts_and_answers_to_one_requests_form_do_not() {
        check(
            "GET",
            &[],
            &[103, 206, 304, 400, 407, 408, 412, 416, 429, 431, 500, 502, 503, 504, 599],
            false,
        );
        check("HEAD", &[], &[200, 404], false);
        check("POST", &[], &[200, 404], false);
        let credentials = [Field { name: "Authorization", value: b"Basic eDp5" }];
        check("GET", &credentials, &[401], false);
        check("GET", &credentials, &[200, 404], true);
    }

    #[test]
    fn a_response_to_one_visitor_leaves_the_stored_one_for_other_visitors() {
        use RefusedEffect::{Supersedes, Unrelated};
        let private = Policy { private_cookies: vec!["sid".to_owned()], ..Policy::default() };
        let (cookie, other) = (&b"sid=1"[..], &b"theme=1"[..]);
        let effect = |policy: &Policy, cookie: Option<&[u8]>, stored: Option<&str>| {
            let fields: Vec<_> = cookie.iter().map(|value| Field { name: "Cookie", value }).collect();
            let meta = stored.map(|value| {
                let text = [Field { name: "Cache-Control", value: value.as_bytes() }];
                Meta::of(200, &text, policy, WallTime(9), WallTime(9))
            });
            of_refused(&RequestFacts::read("GET", &fields), 200, policy, meta.as_ref())
        };
        for stored in [None, Some("max-age=9"), Some("public"), Some("no-cache"), Some("max-age=0")] {
            assert_eq!(Unrelated, effect(&private, Some(cookie), stored), "{stored:?}");
            assert_eq!(Supersedes, effect(&private, Some(other), stored), "{stored:?}");
            assert_eq!(Supersedes, effect(&Policy::default(), None, stored), "{stored:?}");
        }
        let default = Policy::default();
        assert_eq!(Supersedes, effect(&default, Some(cookie), None));
        assert_eq!(Supersedes, effect(&default, Some(cookie), Some("max-age=9")));
        assert_eq!(Unrelated, effect(&default, Some(cookie), Some("no-cache")));
        assert_eq!(Unrelated, effect(&default, Some(cookie), Some("max-age=0")));
    }
}
