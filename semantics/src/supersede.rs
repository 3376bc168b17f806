//! The responses of an origin that make a stored one for the same request unusable: RFC 9111 section 4.3.3. The removal
//! is not here.

use crate::request::RequestFacts;
use crate::storable;

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

/// The same of an answer of which only its status is known, as what a node leaves in the fleet tells it: an answer to credentials leaves
/// nothing there.
#[must_use]
pub fn supersedes_for_all(status: u16) -> bool {
    supersedes(&RequestFacts::read("GET", &[]), status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;

    #[track_caller]
    fn check(method: &str, fields: &[Field<'_>], statuses: &[u16], expect: bool) {
        let facts = RequestFacts::read(method, fields);
        for status in statuses {
            assert_eq!(expect, supersedes(&facts, *status), "{method} {status}");
        }
    }

    #[test]
    fn a_full_response_takes_the_place_of_what_is_stored() {
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
}
