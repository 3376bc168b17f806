//! Which form of a file a request prefers: a precompressed sibling (RFC 9110 §12.5.3), and for listings
//! HTML or JSON (§12.5.1).

use larder_semantics::field::{self, Field};

/// A content coding that a sibling file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `br`, from `NAME.br` (RFC 7932).
    Brotli,
    /// `zstd`, from `NAME.zst` (RFC 8878).
    Zstd,
    /// `gzip`, from `NAME.gz` (RFC 1952).
    Gzip,
}

impl Coding {
    /// All of them, the preferred one first where a client likes several equally.
    pub const ALL: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    /// Its name in `Content-Encoding`.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// What the sibling's name has more than the file's.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }
}

/// A quality value in thousandths.
type Quality = u16;

/// The position in `available` of the coding the client likes best, `None` for the file as it is. The file
/// as it is wins only where the client says so: its quality is that of `identity` if given, else the least
/// there is. No `Accept-Encoding` means as it is (RFC 9110 §12.5.3: any would be allowed, few are ready).
pub fn choose(fields: &[Field<'_>], available: impl Iterator<Item = Coding>) -> Option<usize> {
    let identity = quality(fields, "identity", false);
    let mut best: Option<(usize, Quality)> = None;
    for (at, coding) in available.enumerate() {
        let alias = if coding == Coding::Gzip { quality(fields, "x-gzip", false) } else { None };
        let Some(value) = quality(fields, coding.token(), true).or(alias).filter(|it| *it > 0) else {
            continue;
        };
        if best.is_none_or(|it| value > it.1) && identity.is_none_or(|it| value >= it) {
            best = Some((at, value));
        }
    }
    best.map(|it| it.0)
}

/// The quality of `token` in all `Accept-Encoding` lines; that of `*` where it is not named and `star`.
fn quality(fields: &[Field<'_>], token: &str, star: bool) -> Option<Quality> {
    let members = || members(fields, "accept-encoding");
    let named = members().find(|it| it.0.eq_ignore_ascii_case(token.as_bytes()));
    named.or_else(|| members().find(|it| star && it.0 == b"*")).map(|it| it.1)
}

/// Whether the client prefers JSON to HTML, by `Accept`: named JSON with a quality not below HTML's.
pub fn prefers_json(fields: &[Field<'_>]) -> bool {
    let of = |wanted: &str| {
        members(fields, "accept").find(|it| it.0.eq_ignore_ascii_case(wanted.as_bytes())).map(|it| it.1)
    };
    match (of("application/json"), of("text/html")) {
        (Some(json), Some(html)) => json > html,
        (Some(json), None) => json > 0,
        (None, _) => false,
    }
}

/// The members of a list field, each with its quality; 1 where it has none, 0 where it is no number.
fn members<'a>(fields: &'a [Field<'a>], name: &'a str) -> impl Iterator<Item = (&'a [u8], Quality)> {
    field::all(fields, name).flat_map(|it| it.split(|byte| *byte == b',')).map(|member| {
        let mut parts = member.split(|byte| *byte == b';');
        let token = parts.next().unwrap_or_default().trim_ascii();
        let weight = parts
            .map(<[u8]>::trim_ascii)
            .find_map(|it| it.strip_prefix(b"q=").or_else(|| it.strip_prefix(b"Q=")));
        (token, weight.map_or(1000, thousandths))
    })
}

/// `0`, `0.5`, `1.000` (RFC 9110 §12.4.2).
fn thousandths(text: &[u8]) -> Quality {
    let (whole, fraction) = match text {
        [whole] => (*whole, &b""[..]),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return 0,
    };
    if !matches!(whole, b'0' | b'1') || !fraction.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let scale = [100, 10, 1];
    let part: Quality = fraction.iter().zip(scale).map(|(it, by)| Quality::from(it - b'0') * by).sum();
    (Quality::from(whole - b'0') * 1000 + part).min(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept_encoding: &str, expect: Option<Coding>) {
        let fields = [Field { name: "Accept-Encoding", value: accept_encoding.as_bytes() }];
        let chosen = choose(&fields, Coding::ALL.into_iter()).map(|it| Coding::ALL[it]);
        assert_eq!(expect, chosen, "{accept_encoding}");
    }

    #[test]
    fn codings() {
        use Coding::{Brotli, Gzip, Zstd};
        check("", None);
        check("gzip", Some(Gzip));
        check("x-gzip", Some(Gzip));
        check("GZIP", Some(Gzip));
        check("gzip, deflate, br, zstd", Some(Brotli));
        check("gzip, deflate, zstd", Some(Zstd));
        check("gzip;q=1.0, br;q=0.5", Some(Gzip));
        check("gzip;q=0", None);
        check("*", Some(Brotli));
        check("*;q=0.1, br;q=0", Some(Zstd));
        check("identity", None);
        check("identity;q=0.5, gzip;q=0.4", None);
        check("identity;q=0.5, gzip;q=0.5", Some(Gzip));
        check("identity;q=0, *;q=0", None);
        check("deflate", None);
        check("gzip;q=nonsense", None);
        check("br ; q=0.001", Some(Brotli));
    }

    #[track_caller]
    fn check_json(accept: &str, expect: bool) {
        assert_eq!(expect, prefers_json(&[Field { name: "accept", value: accept.as_bytes() }]), "{accept}");
    }

    #[test]
    fn listings() {
        check_json("text/html,application/xhtml+xml,*/*;q=0.8", false);
        check_json("application/json", true);
        check_json("application/json, text/html", false);
        check_json("application/json, text/html;q=0.9", true);
        check_json("*/*", false);
        check_json("application/json;q=0", false);
    }

    #[test]
    fn no_field_is_as_it_is() {
        assert_eq!(None, choose(&[], Coding::ALL.into_iter()));
        assert!(!prefers_json(&[]));
    }
}
