//! The static table (RFC 9204 Appendix A). There is no dynamic one: see `super`.

#[rustfmt::skip]
pub(super) static STATIC: [(&str, &str); 99] = [
    (":authority", ""), (":path", "/"), ("age", "0"), ("content-disposition", ""), ("content-length", "0"), ("cookie", ""),
    ("date", ""), ("etag", ""), ("if-modified-since", ""), ("if-none-match", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("referer", ""), ("set-cookie", ""), (":method", "CONNECT"), (":method", "DELETE"), (":method", "GET"),
    (":method", "HEAD"), (":method", "OPTIONS"), (":method", "POST"), (":method", "PUT"), (":scheme", "http"),
    (":scheme", "https"), (":status", "103"), (":status", "200"), (":status", "304"), (":status", "404"), (":status", "503"),
    ("accept", "*/*"), ("accept", "application/dns-message"), ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"), ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"), ("access-control-allow-origin", "*"), ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"), ("cache-control", "max-age=604800"), ("cache-control", "no-cache"),
    ("cache-control", "no-store"), ("cache-control", "public, max-age=31536000"), ("content-encoding", "br"),
    ("content-encoding", "gzip"), ("content-type", "application/dns-message"), ("content-type", "application/javascript"),
    ("content-type", "application/json"), ("content-type", "application/x-www-form-urlencoded"), ("content-type", "image/gif"),
    ("content-type", "image/jpeg"), ("content-type", "image/png"), ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"), ("content-type", "text/plain"), ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"), ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"), ("vary", "accept-encoding"),
    ("vary", "origin"), ("x-content-type-options", "nosniff"), ("x-xss-protection", "1; mode=block"), (":status", "100"),
    (":status", "204"), (":status", "206"), (":status", "302"), (":status", "400"), (":status", "403"), (":status", "421"),
    (":status", "425"), (":status", "500"), ("accept-language", ""), ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"), ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"), ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"), ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"), ("access-control-request-method", "get"),
    ("access-control-request-method", "post"), ("alt-svc", "clear"), ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"), ("early-data", "1"),
    ("expect-ct", ""), ("forwarded", ""), ("if-range", ""), ("origin", ""), ("purpose", "prefetch"), ("server", ""),
    ("timing-allow-origin", "*"), ("upgrade-insecure-requests", "1"), ("user-agent", ""), ("x-forwarded-for", ""),
    ("x-frame-options", "deny"), ("x-frame-options", "sameorigin"),
];

/// The first index of a name of a response field in the static table. Any case.
#[inline]
pub(super) fn place_of(name: &[u8]) -> Option<u8> {
    let places: &[u8] = match name.len() {
        3 => &[2],
        4 => &[6, 7, 11, 59],
        6 => &[92],
        7 => &[83],
        8 => &[12],
        10 => &[14],
        12 => &[44],
        13 => &[36, 10, 32],
        14 => &[4],
        15 => &[97],
        16 => &[42, 62],
        19 => &[3, 93],
        22 => &[61],
        23 => &[85],
        25 => &[56],
        27 => &[35],
        28 => &[33, 76],
        29 => &[79],
        32 => &[73],
        _ => &[],
    };
    places.iter().find(|it| STATIC[usize::from(**it)].0.as_bytes().eq_ignore_ascii_case(name)).copied()
}

/// The last index of the name that begins at `place`, and further ones with other values.
pub(super) fn values_of(place: u8) -> std::ops::RangeInclusive<u8> {
    match place {
        36 => 36..=41,
        42 => 42..=43,
        44 => 44..=54,
        56 => 56..=58,
        59 => 59..=60,
        33 => 33..=34,
        73 => 73..=74,
        76 => 76..=78,
        97 => 97..=98,
        it => it..=it,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_at_their_first_place() {
        let of_requests = [
            "cookie",
            "if-modified-since",
            "if-none-match",
            "referer",
            "accept",
            "accept-encoding",
            "range",
            "accept-language",
            "access-control-request-headers",
            "access-control-request-method",
            "authorization",
            "early-data",
            "expect-ct",
            "forwarded",
            "if-range",
            "origin",
            "purpose",
            "upgrade-insecure-requests",
            "user-agent",
            "x-forwarded-for",
        ];
        for (name, _) in STATIC.iter().filter(|it| !it.0.starts_with(':')) {
            let first = STATIC.iter().position(|it| it.0 == *name).unwrap();
            let found = place_of(name.to_ascii_uppercase().as_bytes()).map(usize::from);
            let expect = (!of_requests.contains(name)).then_some(first);
            assert_eq!(expect, found, "{name}");
        }
        assert_eq!(None, place_of(b"x-cache"));
    }

    #[test]
    fn further_values_have_the_same_name() {
        for (place, (name, _)) in (0..99).zip(STATIC) {
            if place_of(name.as_bytes()) == Some(place) {
                assert!(values_of(place).all(|it| STATIC[usize::from(it)].0 == name), "{name}");
            }
        }
    }
}
