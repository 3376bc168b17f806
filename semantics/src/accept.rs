//! Proactive negotiation of media types against the offers of a route (RFC 9110 §12.5.1): every `Accept` becomes one offer,
//! or none. Content codings are in `coding`, languages in `vary`.

use crate::coding::{BEST, Quality, quality};
use crate::field::{self, Field};
use std::cmp::Reverse;

/// The most offers of a route: each is a variant of every page.
pub const MAX_OFFERS: usize = 16;

/// The most members of an `Accept` that are read; later ones are ignored.
const MAX_MEMBERS: usize = 64;

/// The text in keys for a request that accepts no offer. It is no media type.
const NONE: &str = "-";

/// The media types that an application offers, the preferred one first: distinct, `type/subtype` in lower case. Empty: `Accept`
/// is not negotiated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaTypeOffers(Vec<String>);

/// Why a list of offers is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidOffers {
    /// A member is no `type/subtype` in lower case.
    NotAType(String),
    /// A member is in the list twice.
    Twice(String),
    /// There are more than [`MAX_OFFERS`].
    TooMany,
}

impl MediaTypeOffers {
    /// Checks a list of offers.
    ///
    /// # Errors
    /// A member is no media type or a duplicate, or there are too many.
    pub fn new(types: Vec<String>) -> Result<MediaTypeOffers, InvalidOffers> {
        if let Some(it) = types.iter().find(|it| !is_offer(it)) {
            return Err(InvalidOffers::NotAType(it.clone()));
        }
        if let Some((_, it)) = types.iter().enumerate().find(|(at, it)| types[..*at].contains(it)) {
            return Err(InvalidOffers::Twice(it.clone()));
        }
        if types.len() > MAX_OFFERS { Err(InvalidOffers::TooMany) } else { Ok(MediaTypeOffers(types)) }
    }

    /// Whether `Accept` is left to the application.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The offers, the preferred one first.
    #[must_use]
    pub fn list(&self) -> &[String] {
        &self.0
    }

    /// The offer that a request prefers; `None` if it accepts none of them.
    ///
    /// The quality of an offer is that of the most specific media range that matches it. The offer of the highest quality wins;
    /// of equal ones that with the more specific range, then the one that an exact range names first, then the first of the list.
    /// An absent or empty field, and one without a valid member, accepts all alike.
    #[must_use]
    pub fn preferred(&self, request: &[Field<'_>]) -> Option<&str> {
        let mut ranges = field::all(request, "accept")
            .flat_map(field::members)
            .take(MAX_MEMBERS)
            .filter_map(MediaRange::read)
            .enumerate()
            .peekable();
        let first = self.0.first()?;
        if ranges.peek().is_none() {
            return Some(first);
        }
        let mut matched = [None::<OfferMatch>; MAX_OFFERS];
        for (place, range) in ranges {
            for (offer, best) in self.0.iter().zip(&mut matched) {
                let Some(specificity) = range.specificity(offer) else { continue };
                let exact = if specificity == EXACT { place } else { MAX_MEMBERS };
                let new = OfferMatch { quality: range.quality, specificity, exact: Reverse(exact) };
                // Of two equally specific ranges, which no client needs, the more generous one.
                let is_better = |it: OfferMatch| {
                    (new.specificity, new.quality, new.exact) > (it.specificity, it.quality, it.exact)
                };
                if best.is_none_or(is_better) {
                    *best = Some(new);
                }
            }
        }
        let mut chosen: Option<(&str, OfferMatch)> = None;
        for (offer, found) in self.0.iter().zip(matched) {
            let Some(found) = found.filter(|it| it.quality > 0) else { continue };
            if chosen.is_none_or(|(_, it)| found > it) {
                chosen = Some((offer, found));
            }
        }
        chosen.map(|it| it.0)
    }

    /// Appends the part of a key for a request: one of the offers, or a text that is none of them.
    pub(crate) fn write_key(&self, request: &[Field<'_>], out: &mut Vec<u8>) {
        out.extend_from_slice(b" a:");
        out.extend_from_slice(self.preferred(request).unwrap_or(NONE).as_bytes());
    }

    /// Every value of `Accept` that selects a key of its own: each offer, and one that accepts none of them. For the removal of
    /// all responses of a target.
    pub fn representatives(&self) -> impl Iterator<Item = &str> {
        let none = (!self.0.is_empty()).then_some("*/*;q=0");
        self.0.iter().map(String::as_str).chain(none)
    }
}

/// The best media range for an offer, ordered by preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OfferMatch {
    quality: Quality,
    specificity: u8,
    /// The place of an exact range in the field.
    exact: Reverse<usize>,
}

const EXACT: u8 = 2;

/// A member of `Accept`.
struct MediaRange<'a> {
    kind: &'a [u8],
    subtype: &'a [u8],
    quality: Quality,
}

impl<'a> MediaRange<'a> {
    /// `None` for a malformed member, and for one with parameters: an offer has none, so that it does not match. `charset` is
    /// ignored, which some clients add.
    fn read(member: &'a [u8]) -> Option<MediaRange<'a>> {
        let mut parts = member.split(|it| *it == b';').map(field::trim);
        let name = parts.next()?;
        let slash = name.iter().position(|it| *it == b'/')?;
        let (kind, subtype) = (&name[..slash], &name[slash + 1..]);
        if !field::is_token(kind) || !field::is_token(subtype) || kind == b"*" && subtype != b"*" {
            return None;
        }
        let mut found = BEST;
        for part in parts.filter(|it| !it.is_empty()) {
            match part {
                [b'q' | b'Q', b'=', value @ ..] => {
                    found = quality(value)?;
                    break; // The rest are extensions, not parameters (RFC 7231 §5.3.2).
                }
                _ if part.len() > 8 && part[..8].eq_ignore_ascii_case(b"charset=") => {}
                _ => return None,
            }
        }
        Some(MediaRange { kind, subtype, quality: found })
    }

    /// How specifically the range matches an offer; `None` if it does not.
    fn specificity(&self, offer: &str) -> Option<u8> {
        let (kind, subtype) = offer.split_once('/')?;
        if self.kind == b"*" {
            return Some(0);
        }
        if !self.kind.eq_ignore_ascii_case(kind.as_bytes()) {
            return None;
        }
        match self.subtype {
            b"*" => Some(1),
            it => it.eq_ignore_ascii_case(subtype.as_bytes()).then_some(EXACT),
        }
    }
}

/// Whether this is a media type without wildcards and parameters, in lower case.
#[must_use]
pub fn is_offer(text: &str) -> bool {
    let is_part = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b".+-".contains(&it);
    let is_name = |it: &str| !it.is_empty() && it.bytes().all(is_part);
    text.split_once('/').is_some_and(|(kind, name)| is_name(kind) && is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offers(types: &str) -> MediaTypeOffers {
        MediaTypeOffers::new(types.split_whitespace().map(str::to_owned).collect()).unwrap()
    }

    #[track_caller]
    fn check(accept: &str, expect: &str) {
        let all = offers("text/html text/markdown application/json");
        let lines: Vec<_> =
            accept.split(" | ").map(|it| Field { name: "Accept", value: it.as_bytes() }).collect();
        assert_eq!(expect, all.preferred(&lines).unwrap_or("none"), "{accept}");
    }

    #[test]
    fn quality_then_specificity() {
        check("application/json", "application/json");
        check("text/html;q=0.5, text/markdown", "text/markdown");
        check("text/*;q=0.9, application/json;q=0.8", "text/html");
        check("text/*, text/html;q=0.1", "text/markdown");
        check("*/*;q=0.1, application/json;q=0.2", "application/json");
        check("*/*, text/html;q=0", "text/markdown");
        check("text/*;q=0, */*", "application/json");
        check("TEXT/Markdown ; Q=0.7", "text/markdown");
        check("text/plain | application/json;q=0.3", "application/json");
        check("text/html;q=0.2, text/html;q=0.8, text/markdown;q=0.5", "text/html");
    }

    #[test]
    fn of_equal_qualities_the_more_specific_the_earlier_and_the_first_offer() {
        check("*/*", "text/html");
        check("text/*", "text/html");
        check("*/*, text/markdown", "text/markdown");
        check("text/markdown, text/html, */*", "text/markdown");
        check("text/html, text/markdown", "text/html");
        check("application/*, text/*", "text/html");
        check("application/json, text/plain, */*", "application/json");
        check("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", "text/html");
        check("image/avif,image/webp,*/*;q=0.8", "text/html");
    }

    #[test]
    fn malformed_members_are_skipped_and_nothing_left_is_anything() {
        for accept in [
            "",
            ",",
            "text",
            "text/",
            "/html",
            "*/html",
            "text/html/x",
            "text/html;q=2",
            "text/html;q=",
            "\u{1}",
        ] {
            check(accept, "text/html");
        }
        check("text/html;q=x, application/json", "application/json");
        check("text/html;level=1, application/json;q=0.1", "application/json");
        check("text/markdown; charset=utf-8; q=0.9, text/html;q=0.1", "text/markdown");
        assert_eq!(Some("text/html"), offers("text/html").preferred(&[]));
    }

    #[test]
    fn an_accept_without_an_offered_type_selects_none() {
        for accept in ["image/png", "text/html;q=0, text/markdown;q=0", "*/*;q=0", "text/*;q=0.000"] {
            check(accept, "none");
        }
    }

    #[test]
    fn a_list_is_distinct_bounded_and_of_types() {
        let list = |it: &[&str]| MediaTypeOffers::new(it.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(Err(InvalidOffers::Twice("a/b".to_owned())), list(&["a/b", "c/d", "a/b"]));
        for it in ["text/*", "*/*", "+json", "Text/html", "text/html;q=1", "text/html, a/b", "text", "-"] {
            assert_eq!(Err(InvalidOffers::NotAType(it.to_owned())), list(&[it]), "{it}");
        }
        let many: Vec<String> = (0..=MAX_OFFERS).map(|it| format!("a/{it}")).collect();
        assert_eq!(Err(InvalidOffers::TooMany), MediaTypeOffers::new(many));
    }

    #[test]
    fn a_thousand_members_are_bounded() {
        let many = vec!["image/png"; 1_000].join(",") + ",application/json";
        check(&many, "none");
        let early = format!("application/json,{many}");
        check(&early, "application/json");
    }

    #[test]
    fn each_representative_selects_another_key() {
        let all = offers("text/html text/markdown");
        let mut keys: Vec<Vec<u8>> = all
            .representatives()
            .map(|it| {
                let mut key = Vec::new();
                all.write_key(&[Field { name: "accept", value: it.as_bytes() }], &mut key);
                key
            })
            .collect();
        assert_eq!(3, keys.len());
        keys.sort();
        keys.dedup();
        assert_eq!(3, keys.len());
    }

    proptest! {
        #[test]
        fn any_accept_is_one_of_the_offers_or_none(value in "[a-z/*;,q=.01 ]{0,60}", more in ".{0,20}") {
            let all = offers("a/b b/a a/a");
            let lines = [Field { name: "accept", value: value.as_bytes() }, Field { name: "Accept", value: more.as_bytes() }];
            let mut key = Vec::new();
            all.write_key(&lines, &mut key);
            let key = String::from_utf8(key).unwrap();
            prop_assert!([" a:a/b", " a:b/a", " a:a/a", " a:-"].contains(&key.as_str()), "{key}");
        }

        /// The field that is sent to the origin selects the same key again, so that the response fits the key.
        #[test]
        fn the_preferred_offer_prefers_itself(value in "[ab/*;,q=.01 ]{0,60}") {
            let all = offers("a/b b/a a/a");
            let lines = [Field { name: "accept", value: value.as_bytes() }];
            if let Some(chosen) = all.preferred(&lines) {
                prop_assert_eq!(Some(chosen), all.preferred(&[Field { name: "accept", value: chosen.as_bytes() }]));
            }
        }
    }
}
