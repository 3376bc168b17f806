//! The form of a file for a request: a precompressed sibling or a form that is made (RFC 9110 §12.5.3), and for listings HTML or JSON (§12.5.1).

use larder_semantics::coding::{self, AcceptedCodings, Quality};
use larder_semantics::field::{self, Field};

/// A content coding of a file's forms: of its siblings, and of those that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCoding {
    /// `br`, from `NAME.br` (RFC 7932).
    Brotli,
    /// `zstd`, from `NAME.zst` (RFC 8878).
    Zstd,
    /// `gzip`, from `NAME.gz` (RFC 1952).
    Gzip,
}

impl FileCoding {
    /// All of them, the preferred one first among equal qualities.
    pub const ALL: [FileCoding; 3] = [FileCoding::Brotli, FileCoding::Zstd, FileCoding::Gzip];

    /// The one that is made for this coding, if any.
    pub(crate) fn of(coding: coding::Coding) -> Option<FileCoding> {
        FileCoding::ALL.into_iter().find(|it| it.in_general() == coding)
    }

    /// The same among all codings.
    #[must_use]
    pub fn in_general(self) -> coding::Coding {
        match self {
            FileCoding::Brotli => coding::Coding::Brotli,
            FileCoding::Zstd => coding::Coding::Zstd,
            FileCoding::Gzip => coding::Coding::Gzip,
        }
    }

    /// Its name in `Content-Encoding`.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            FileCoding::Brotli => "br",
            FileCoding::Zstd => "zstd",
            FileCoding::Gzip => "gzip",
        }
    }

    /// The suffix of a sibling's name.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            FileCoding::Brotli => ".br",
            FileCoding::Zstd => ".zst",
            FileCoding::Gzip => ".gz",
        }
    }
}

/// The position in `available` of the coding with the highest quality, `None` for the plain file. The plain file wins
/// only if its quality is higher than that of every available coding, or if the request names no coding at all (RFC 9110
/// §12.5.3 would allow any without the field; few clients without it can decode one).
pub fn choose(fields: &[Field<'_>], available: impl Iterator<Item = FileCoding>) -> Option<usize> {
    field::first(fields, "accept-encoding")?;
    let accepted = AcceptedCodings::read(fields);
    let least = accepted.quality(coding::Coding::Identity).max(1);
    let mut best: Option<(usize, Quality)> = None;
    for (at, it) in available.enumerate() {
        let quality = accepted.quality(it.in_general());
        if quality >= least && best.is_none_or(|it| quality > it.1) {
            best = Some((at, quality));
        }
    }
    best.map(|it| it.0)
}

/// Whether the client accepts HTML by name, as browsers do when they navigate to a page; for scripts and pictures they do
/// not.
pub fn accepts_html(fields: &[Field<'_>]) -> bool {
    media_quality(fields, "text/html") > 0
}

/// Whether the client prefers JSON to HTML, by `Accept`: JSON is named, with a higher quality than HTML if that is named
/// too. Browsers and tools send a wildcard, and get HTML.
pub fn prefers_json(fields: &[Field<'_>]) -> bool {
    let json = media_quality(fields, "application/json");
    json > media_quality(fields, "text/html")
}

/// The quality of a media type that is named in `Accept`, 0 if it is not (RFC 9110 §12.5.1).
fn media_quality(fields: &[Field<'_>], media_type: &str) -> Quality {
    let members = field::all(fields, "accept").flat_map(field::members);
    let of = |member: &[u8]| {
        let mut parts = member.split(|it| *it == b';').map(<[u8]>::trim_ascii);
        parts.next().filter(|it| it.eq_ignore_ascii_case(media_type.as_bytes()))?;
        let weight = parts.find_map(|it| it.strip_prefix(b"q=").or_else(|| it.strip_prefix(b"Q=")));
        weight.map_or(Some(coding::BEST), coding::quality)
    };
    members.filter_map(of).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept_encoding: &str, expect: Option<FileCoding>) {
        let fields = [Field { name: "Accept-Encoding", value: accept_encoding.as_bytes() }];
        let chosen = choose(&fields, FileCoding::ALL.into_iter()).map(|it| FileCoding::ALL[it]);
        assert_eq!(expect, chosen, "{accept_encoding}");
    }

    #[test]
    fn codings() {
        use FileCoding::{Brotli, Gzip, Zstd};
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
        assert_eq!(None, choose(&[], FileCoding::ALL.into_iter()));
        assert!(!prefers_json(&[]));
    }
}
