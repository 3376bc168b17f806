//! Content codings and quality values (RFC 9110 §12.4.2, §12.5.3). Compressing is not here.

use crate::field::{self, Field};

/// A quality in thousandths: 0 is "not acceptable", 1000 the best (RFC 9110 §12.4.2).
pub type Quality = u16;

/// The best quality, and the quality of a member without `q`.
pub const BEST: Quality = 1000;

/// The content codings that are distinguished (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// No coding.
    Identity,
    /// `gzip`, or its old name `x-gzip`.
    Gzip,
    /// `br` (RFC 7932).
    Brotli,
    /// `zstd` (RFC 8878).
    Zstd,
    /// `deflate` (RFC 9110 §8.4.1.2). It is decoded if an origin sends it, and never produced or requested.
    Deflate,
    /// Two or three of these, applied one after the other: decoded if an origin sends them.
    Several(Several),
    /// Any other.
    Other,
}

/// Two or three codings, in the order in which they were applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Several([CodingOption; 3]);

/// One of [`Several`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodingOption {
    None,
    Gzip,
    Brotli,
    Zstd,
    Deflate,
}

impl Several {
    /// The codings in the order in which they were applied.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Coding> {
        self.0.into_iter().filter_map(|it| match it {
            CodingOption::None => None,
            CodingOption::Gzip => Some(Coding::Gzip),
            CodingOption::Brotli => Some(Coding::Brotli),
            CodingOption::Zstd => Some(Coding::Zstd),
            CodingOption::Deflate => Some(Coding::Deflate),
        })
    }
}

impl Coding {
    /// The coding of that name, in any case.
    #[must_use]
    pub fn of(name: &[u8]) -> Coding {
        let is = |it: &str| name.eq_ignore_ascii_case(it.as_bytes());
        if is("gzip") || is("x-gzip") {
            Coding::Gzip
        } else if is("br") {
            Coding::Brotli
        } else if is("zstd") {
            Coding::Zstd
        } else if is("deflate") {
            Coding::Deflate
        } else if is("identity") {
            Coding::Identity
        } else {
            Coding::Other
        }
    }

    /// All of `codings` as one, in the order in which they were applied: `Other` if one of them is unknown, or there are
    /// more than three.
    #[must_use]
    pub fn over(codings: impl IntoIterator<Item = Coding>) -> Coding {
        let mut plied = [CodingOption::None; 3];
        let (mut count, mut last) = (0, Coding::Identity);
        for it in codings.into_iter().filter(|it| *it != Coding::Identity) {
            let Some(slot) = plied.get_mut(count) else { return Coding::Other };
            *slot = match it {
                Coding::Gzip => CodingOption::Gzip,
                Coding::Brotli => CodingOption::Brotli,
                Coding::Zstd => CodingOption::Zstd,
                Coding::Deflate => CodingOption::Deflate,
                Coding::Identity | Coding::Several(_) | Coding::Other => return Coding::Other,
            };
            (count, last) = (count + 1, it);
        }
        if count > 1 { Coding::Several(Several(plied)) } else { last }
    }
}

/// The qualities of each coding in a request's `Accept-Encoding`. Cheap to copy: it owns no heap memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedCodings {
    identity: Quality,
    gzip: Quality,
    brotli: Quality,
    zstd: Quality,
    deflate: Quality,
    other: Quality,
}

impl AcceptedCodings {
    /// Parses every `Accept-Encoding` line in one pass. Without the field every coding is acceptable; a malformed member
    /// is skipped, as are those after the 64th.
    #[must_use]
    pub fn read(fields: &[Field<'_>]) -> AcceptedCodings {
        let mut lines = field::all(fields, "accept-encoding").peekable();
        if lines.peek().is_none() {
            return AcceptedCodings {
                identity: BEST,
                gzip: BEST,
                brotli: BEST,
                zstd: BEST,
                deflate: BEST,
                other: BEST,
            };
        }
        let mut named: [Option<Quality>; 5] = [None; 5];
        let mut any = None;
        for (name, quality) in lines.flat_map(field::members).take(64).filter_map(weighted) {
            let slot = match Coding::of(name) {
                Coding::Identity => &mut named[0],
                Coding::Gzip => &mut named[1],
                Coding::Brotli => &mut named[2],
                Coding::Zstd => &mut named[3],
                Coding::Deflate => &mut named[4],
                Coding::Other if name == b"*" => &mut any,
                Coding::Other | Coding::Several(_) => continue,
            };
            *slot = Some(slot.map_or(quality, |it: Quality| it.max(quality)));
        }
        let rest = any.unwrap_or(0);
        AcceptedCodings {
            // Identity is acceptable unless it, or `*` without it, is excluded (RFC 9110 §12.5.3).
            identity: named[0].unwrap_or(any.unwrap_or(1)),
            gzip: named[1].unwrap_or(rest),
            brotli: named[2].unwrap_or(rest),
            zstd: named[3].unwrap_or(rest),
            deflate: named[4].unwrap_or(rest),
            other: rest,
        }
    }

    /// The quality of `coding`, of several the lowest; 0 is "not acceptable". Identity without a member has the lowest,
    /// 1.
    #[must_use]
    pub fn quality(&self, coding: Coding) -> Quality {
        match coding {
            Coding::Identity => self.identity,
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
            Coding::Deflate => self.deflate,
            Coding::Several(all) => all.iter().map(|it| self.quality(it)).min().unwrap_or(0),
            Coding::Other => self.other,
        }
    }

    /// Whether every coding is accepted alike: there is no `Accept-Encoding`, or only `*`.
    #[must_use]
    pub fn is_indifferent(&self) -> bool {
        [self.gzip, self.brotli, self.zstd, self.deflate, self.other].iter().all(|it| *it == self.identity)
            && self.identity > 0
    }
}

/// Splits a list member into its name and quality: `gzip;q=0.5`. `None` if the name is not a token, or there are
/// parameters other than one valid `q`.
#[must_use]
pub fn weighted(member: &[u8]) -> Option<(&[u8], Quality)> {
    let Some(at) = member.iter().position(|it| *it == b';') else {
        return field::is_token(member).then_some((member, BEST));
    };
    let (name, rest) = member.split_at(at);
    let name = field::trim(name);
    let [b'q' | b'Q', b'=', value @ ..] = field::trim(rest.get(1..)?) else { return None };
    field::is_token(name).then_some((name, quality(value)?))
}

/// Parses a `qvalue`: `0`, `1`, or with up to three decimals (RFC 9110 §12.4.2). `None` if invalid.
#[must_use]
pub fn quality(value: &[u8]) -> Option<Quality> {
    let (whole, decimals) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut sum = 0;
    for place in 0..3 {
        let digit = decimals.get(place).unwrap_or(&b'0');
        sum = sum * 10 + Quality::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    match whole {
        b'0' => Some(sum),
        b'1' if sum == 0 => Some(BEST),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `expect`: identity, gzip, br, zstd, other.
    #[track_caller]
    fn check(lines: &[&str], expect: [Quality; 5]) {
        let fields: Vec<_> =
            lines.iter().map(|it| Field { name: "Accept-Encoding", value: it.as_bytes() }).collect();
        let it = AcceptedCodings::read(&fields);
        let all = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd, Coding::Other];
        assert_eq!(expect, all.map(|coding| it.quality(coding)), "{lines:?}");
    }

    #[test]
    fn accepted() {
        check(&[], [1000; 5]);
        check(&[""], [1, 0, 0, 0, 0]);
        check(&["gzip"], [1, 1000, 0, 0, 0]);
        check(&["X-GZip;q=0.5 , BR"], [1, 500, 1000, 0, 0]);
        check(&["gzip", "zstd;q=0.125"], [1, 1000, 0, 125, 0]);
        check(&["*"], [1000; 5]);
        check(&["*;q=0"], [0; 5]);
        check(&["identity;q=0, gzip"], [0, 1000, 0, 0, 0]);
        check(&["gzip;q=0, *;q=0.1"], [100, 0, 100, 100, 100]);
        check(&["gzip;q=2, br;q=, zstd;x=1, gz ip"], [1, 0, 0, 0, 0]);
        check(&["gzip;q=0.5, br;q=0.!"], [1, 500, 0, 0, 0]);
    }

    #[test]
    fn stacked_codings_are_combined_up_to_three() {
        use Coding::{Brotli, Deflate, Gzip, Identity, Other};
        let check = |all: &[Coding], expect: Option<&[Coding]>| match Coding::over(all.iter().copied()) {
            Coding::Several(it) => assert_eq!(expect, Some(&it.iter().collect::<Vec<_>>()[..]), "{all:?}"),
            one => assert_eq!(expect.unwrap_or(&[Other])[0], one, "{all:?}"),
        };
        check(&[], Some(&[Identity]));
        check(&[Identity, Deflate], Some(&[Deflate]));
        check(&[Gzip, Identity, Brotli], Some(&[Gzip, Brotli]));
        check(&[Gzip, Gzip, Gzip], Some(&[Gzip, Gzip, Gzip]));
        check(&[Gzip, Gzip, Gzip, Gzip], None);
        check(&[Gzip, Other], None);
        let fields = [Field { name: "accept-encoding", value: b"gzip, br;q=0.5, deflate;q=0" }];
        let accepted = AcceptedCodings::read(&fields);
        let quality = |all: &[Coding]| accepted.quality(Coding::over(all.iter().copied()));
        assert_eq!((500, 0), (quality(&[Gzip, Brotli]), quality(&[Deflate, Gzip])));
    }

    #[test]
    fn qualities() {
        for (value, expect) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("1.000", Some(1000)),
            ("0.", Some(0)),
            ("0.5", Some(500)),
            ("0.05", Some(50)),
            ("0.001", Some(1)),
            ("1.001", None),
            ("0.0001", None),
            ("2", None),
            ("-1", None),
            (".5", None),
            ("0.5x", None),
            ("", None),
        ] {
            assert_eq!(expect, quality(value.as_bytes()), "{value}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = weighted(&value);
            let _ = AcceptedCodings::read(&[Field { name: "accept-encoding", value: &value }]);
        }
    }
}
