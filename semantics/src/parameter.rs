//! Query parameters, as applications see them: percent-decoded.

/// The name of a parameter, as it is written.
pub(crate) fn name_of(parameter: &str) -> &[u8] {
    parameter.split('=').next().unwrap_or_default().as_bytes()
}

/// Whether a name matches `pattern` after percent-decoding: exactly, or up to a trailing `*`.
pub(crate) fn matches_decoded(pattern: &str, name: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => decoded(name).take(prefix.len()).eq(prefix.bytes()),
        None => decoded(name).eq(pattern.bytes()),
    }
}

/// Whether the query of a target has a parameter whose name matches one of these patterns.
#[must_use]
pub fn has_one_of(target: &str, patterns: &[String]) -> bool {
    let query = target.split_once('?').map_or("", |it| it.1);
    query.split('&').any(|it| patterns.iter().any(|pattern| matches_decoded(pattern, name_of(it))))
}

/// The bytes of a name or value of a query after percent-decoding, `+` as a space; a `%` without two hexadecimal digits stays.
pub fn decoded(name: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = name;
    std::iter::from_fn(move || {
        let (byte, after) = match *rest {
            [] => return None,
            [b'%', high, low, ref after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(high) << 4 | hex(low), after)
            }
            [b'+', ref after @ ..] => (b' ', after),
            [byte, ref after @ ..] => (byte, after),
        };
        rest = after;
        Some(byte)
    })
}

/// The value of a hexadecimal digit; the caller passes no other byte.
fn hex(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { (digit | 0x20) - b'a' + 10 }
}
