//! Proactive negotiation of languages against the offers of a route (RFC 9110 §12.5.4): every `Accept-Language` becomes one offer. Media types
//! are in `accept`.

use crate::coding::{self, Quality};
use crate::field::{self, Field};

/// The most offers of a route: each is a variant of every page.
pub const MAX_LANGUAGES: usize = 32;

/// The most ranges of an `Accept-Language` that are read; later ones are ignored.
const MAX_RANGES: usize = 32;

/// The languages that an application offers, its default first: distinct language tags. Empty: `Accept-Language` is not negotiated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguageOffers(Vec<String>);

/// Why a list of languages is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidLanguages {
    /// A member is no language tag.
    NotATag(String),
    /// A member is in the list twice, perhaps in another case.
    Twice(String),
    /// There are more than [`MAX_LANGUAGES`].
    TooMany,
}

impl LanguageOffers {
    /// Checks a list of offers.
    ///
    /// # Errors
    /// A member is no language tag or a duplicate, or there are too many.
    pub fn new(tags: Vec<String>) -> Result<LanguageOffers, InvalidLanguages> {
        if let Some(it) = tags.iter().find(|it| !is_language(it)) {
            return Err(InvalidLanguages::NotATag(it.clone()));
        }
        let is_repeated = |at: usize, it: &str| tags.iter().take(at).any(|tag| tag.eq_ignore_ascii_case(it));
        if let Some((_, it)) = tags.iter().enumerate().find(|(at, it)| is_repeated(*at, it)) {
            return Err(InvalidLanguages::Twice(it.clone()));
        }
        if tags.len() > MAX_LANGUAGES { Err(InvalidLanguages::TooMany) } else { Ok(LanguageOffers(tags)) }
    }

    /// Whether `Accept-Language` is left to the application.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The offers, the default first.
    #[must_use]
    pub fn list(&self) -> &[String] {
        &self.0
    }

    /// The offer for a request; `None` without offers.
    ///
    /// The ranges are tried by quality, then in the order of the request. A range selects the offer that equals it, or the first
    /// offer that it is a prefix of (`de` and `de-AT`), or the one that remains when subtags are removed from its end (RFC 4647 §3.4).
    /// `*` selects the first offer that no other range matches. An offer of quality zero is not selected. A request that selects no offer
    /// has the first one that it does not refuse, or the first: a page in another language serves its reader better than an error (RFC 9110 §12.5.4).
    #[must_use]
    pub fn preferred(&self, request: &[Field<'_>]) -> Option<&str> {
        let first = self.0.first()?;
        let ranges = Ranges::read(request);
        let mut refused = [false; MAX_LANGUAGES];
        let mut named = [false; MAX_LANGUAGES];
        for ((offer, refused), named) in self.0.iter().zip(&mut refused).zip(&mut named) {
            if let Some(it) = ranges.most_specific(offer) {
                (*refused, *named) = (it.quality == 0, it.tag != b"*");
            }
        }
        let allowed = || self.0.iter().zip(refused).zip(named).filter(|((_, refused), _)| !refused);
        for range in ranges.by_quality() {
            let found = if range.tag == b"*" {
                allowed().find(|(_, named)| !named)
            } else {
                select(range.tag, allowed)
            };
            if let Some(((offer, _), _)) = found {
                return Some(offer);
            }
        }
        let default = allowed().next().map_or(first, |((it, _), _)| it);
        Some(default)
    }

    /// Appends the part of a key for a request: one of the offers.
    pub(crate) fn write_key(&self, request: &[Field<'_>], out: &mut Vec<u8>) {
        if let Some(it) = self.preferred(request) {
            out.extend_from_slice(b" l:");
            out.extend_from_slice(it.as_bytes());
        }
    }
}

/// One offer, whether it is refused, and whether a range names it.
type AllowedLanguage<'o> = ((&'o String, bool), bool);

/// The offer that a range selects.
fn select<'o, I: Iterator<Item = AllowedLanguage<'o>>>(
    range: &[u8],
    allowed: impl Fn() -> I,
) -> Option<AllowedLanguage<'o>> {
    let equals = |tag: &[u8]| allowed().find(|((it, _), _)| it.as_bytes().eq_ignore_ascii_case(tag));
    let mut found = equals(range).or_else(|| allowed().find(|((it, _), _)| is_prefix(range, it.as_bytes())));
    let mut rest = range;
    while found.is_none()
        && let Some(at) = rest.iter().rposition(|it| *it == b'-')
    {
        rest = &rest[..at];
        found = equals(rest);
    }
    found
}

/// A member of `Accept-Language`.
#[derive(Clone, Copy)]
struct LanguageRange<'a> {
    tag: &'a [u8],
    quality: Quality,
}

/// The valid ranges of a request, the earliest [`MAX_RANGES`].
struct Ranges<'a> {
    all: [LanguageRange<'a>; MAX_RANGES],
    len: usize,
}

impl<'a> Ranges<'a> {
    /// Malformed members are skipped.
    fn read(request: &'a [Field<'a>]) -> Self {
        let mut it = Self { all: [LanguageRange { tag: b"", quality: 0 }; MAX_RANGES], len: 0 };
        let members = field::all(request, "accept-language").flat_map(field::members).take(MAX_RANGES);
        for (tag, quality) in members.filter_map(coding::weighted) {
            if tag == b"*" || std::str::from_utf8(tag).is_ok_and(is_language) {
                it.all[it.len] = LanguageRange { tag, quality };
                it.len += 1;
            }
        }
        it
    }

    /// Those of a quality above zero, the highest first; equal ones in their order.
    fn by_quality(&self) -> impl Iterator<Item = LanguageRange<'a>> {
        let mut sorted = self.all;
        let sorted_len = self.len;
        // Stable without an allocation: at most 32 members.
        for at in 1..sorted_len {
            let mut to = at;
            while to > 0 && sorted[to - 1].quality < sorted[to].quality {
                sorted.swap(to - 1, to);
                to -= 1;
            }
        }
        sorted.into_iter().take(sorted_len).filter(|it| it.quality > 0)
    }

    /// The longest range that equals an offer or is a prefix of it; of equal ones the most generous; `*` matches every offer.
    fn most_specific(&self, offer: &str) -> Option<LanguageRange<'a>> {
        let offer = offer.as_bytes();
        let length = |it: &LanguageRange<'_>| if it.tag == b"*" { 0 } else { it.tag.len() };
        let matches = |it: &&LanguageRange<'_>| {
            it.tag == b"*" || it.tag.eq_ignore_ascii_case(offer) || is_prefix(it.tag, offer)
        };
        let all = self.all.iter().take(self.len).filter(matches);
        all.max_by_key(|it| (length(it), it.quality)).copied()
    }
}

/// Whether a range ends at a hyphen of a longer tag (RFC 4647 §3.3.1).
fn is_prefix(range: &[u8], tag: &[u8]) -> bool {
    tag.get(range.len()) == Some(&b'-') && tag[..range.len()].eq_ignore_ascii_case(range)
}

/// Whether this has the form of a language tag: subtags of one to eight letters and digits, the first of letters (RFC 4647 §2.1).
#[must_use]
pub fn is_language(text: &str) -> bool {
    let is_subtag = |it: &str| (1..=8).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_alphanumeric());
    let first = text.split('-').next().unwrap_or_default();
    first.bytes().all(|it| it.is_ascii_alphabetic()) && text.split('-').all(is_subtag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offers(tags: &str) -> LanguageOffers {
        LanguageOffers::new(tags.split_whitespace().map(str::to_owned).collect()).unwrap()
    }

    fn of(all: &LanguageOffers, value: &str) -> String {
        let lines: Vec<_> =
            value.split(" | ").map(|it| Field { name: "Accept-Language", value: it.as_bytes() }).collect();
        all.preferred(&lines).unwrap().to_owned()
    }

    #[track_caller]
    fn check(value: &str, expect: &str) {
        assert_eq!(expect, of(&offers("en de pt-BR zh-Hant de-AT"), value), "{value}");
    }

    #[test]
    fn by_quality_then_in_the_order_of_the_request() {
        check("de", "de");
        check("DE;q=0.5, en;Q=0.6", "en");
        check("fr, de;q=0.7, en;q=0.3", "de");
        check("en, de", "en");
        check("de, en", "de");
        check("fr | de;q=0.1", "de");
    }

    #[test]
    fn the_lists_of_browsers() {
        check("de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7", "de");
        check("de-AT,de;q=0.8,en;q=0.5", "de-AT");
        check("pt-PT,pt;q=0.9,en;q=0.8", "pt-BR");
        check("zh-TW,zh;q=0.9,en-US;q=0.8", "zh-Hant");
        check("en-GB,en;q=0.5", "en");
        check("de-Latn-AT-1996, en", "de");
        check("fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5", "en");
    }

    #[test]
    fn wildcards_and_refusals() {
        check("*", "en");
        check("en;q=0", "de");
        check("*, en;q=0.1", "de");
        check("*;q=0.5, fr", "en");
        check("en;q=0, *", "de");
        check("de;q=0, de-AT, en;q=0.5", "de-AT");
        check("de;q=0, de-DE, pt;q=0.3", "pt-BR");
    }

    #[test]
    fn no_selected_offer_is_the_default() {
        for value in [
            "fr",
            "",
            ",",
            "*;q=0",
            "x",
            "de_DE",
            "de;q=2",
            "d\u{e9}",
            "de-*-DE",
            "toolonglanguage",
            "-",
            "de-",
        ] {
            check(value, "en");
        }
        assert_eq!(Some("en"), offers("en de").preferred(&[]));
        assert_eq!(None, LanguageOffers::default().preferred(&[]));
    }

    #[test]
    fn a_list_is_distinct_bounded_and_of_tags() {
        let list = |it: &[&str]| LanguageOffers::new(it.iter().map(|it| (*it).to_owned()).collect());
        assert_eq!(Err(InvalidLanguages::Twice("DE".to_owned())), list(&["de", "en", "DE"]));
        for it in ["", "*", "de_DE", "de-", "-de", "1a", "de;q=1", "de, en", "abcdefghi", "de-*"] {
            assert_eq!(Err(InvalidLanguages::NotATag(it.to_owned())), list(&[it]), "{it}");
        }
        let many: Vec<String> = (0..=MAX_LANGUAGES).map(|it| format!("a-{it}")).collect();
        assert_eq!(Err(InvalidLanguages::TooMany), LanguageOffers::new(many));
    }

    #[test]
    fn a_thousand_ranges_are_bounded() {
        check(&(vec!["fr"; 1_000].join(",") + ",de"), "en");
    }

    proptest! {
        #[test]
        fn any_field_is_one_of_the_offers(value in "[a-d*;,q=.01 -]{0,60}", more in ".{0,20}") {
            let all = offers("a b-c d");
            let lines = [
                Field { name: "accept-language", value: value.as_bytes() },
                Field { name: "Accept-Language", value: more.as_bytes() },
            ];
            let mut key = Vec::new();
            all.write_key(&lines, &mut key);
            let key = String::from_utf8(key).unwrap();
            prop_assert!([" l:a", " l:b-c", " l:d"].contains(&key.as_str()), "{key}");
        }

        /// The field that is sent to the origin selects the same key again, so that the response fits the key.
        #[test]
        fn an_offer_prefers_itself(at in 0usize..5) {
            let all = offers("en de pt-BR zh-Hant de-AT");
            prop_assert_eq!(&all.list()[at], &of(&all, &all.list()[at]));
        }
    }
}
