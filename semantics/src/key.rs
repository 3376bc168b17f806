//! The cache key: scheme, authority and target as sent to the origin, changed only by the recipe. Variants under one key
//! are not here (`vary`).
//!
//! A key is one readable line, such as `https://example.com/list?page=2 h:x-device=phone c:currency=EUR`. Within a part,
//! the bytes that end it are written as a backslash and two hexadecimal digits, so that no request can forge a boundary:
//! two keys of one recipe are equal only if every part is.

use crate::accept::MediaTypeOffers;
use crate::escape::escape;
use crate::field::{self, Field};
use crate::geo::COUNTRY_FIELD;
use crate::language::LanguageOffers;
use crate::parameter::{decoded, matches_decoded, name_of};
use crate::scheme::Scheme;
use crate::vary;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The name under which the digest of a QUERY's body takes part in its key (RFC 10008). It is no field name (RFC 9110 §5.1), so
/// that neither a client can send it nor an origin receive it.
pub const KEYED_BODY: &str = ":query";

/// The rules for making a key from a request. The default is the exact target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRecipe {
    /// The treatment of the query's parameters.
    pub query: QueryPolicy,
    /// Whether parameters are sorted by name (stable for equal names).
    pub sort_query: bool,
    /// Request header fields whose values are part of the key, lower case. A value is normalised as
    /// `vary` does; an absent field differs from an empty one.
    pub headers: Vec<String>,
    /// Cookies whose values are part of the key. A trailing `*` in a name matches any rest. Every value of a repeated
    /// cookie counts; the order of different cookies does not.
    pub cookies: Vec<String>,
    /// The offers of media types: the one that `Accept` prefers is part of the key, and the only one in the `Accept` of a request
    /// to the origin.
    pub accept: MediaTypeOffers,
    /// The offers of languages: the one that `Accept-Language` selects is part of the key, and the only one in the `Accept-Language` of a
    /// request to the origin.
    pub languages: LanguageOffers,
    /// All hosts of the site share one cache: the site's name, which follows a `*` in the key (no host begins so); the
    /// name of a site for all hosts is empty. `None`: the host is part of the key.
    pub any_host_of: Option<String>,
    /// The condition of the route, other than the path, as eight bytes in hexadecimal: routes for different requests of one
    /// URL do not share responses.
    pub condition: Option<String>,
    /// The digest of a QUERY's body ([`KEYED_BODY`]) is part of the key.
    pub bodies: bool,
    /// A request to the origin for the cache has only parts that are in the key: of the client's fields only those of
    /// `headers` and `cookies`. A request with a field that cannot be left out uses no cache.
    pub strict: bool,
}

/// The query parameters that are part of the key. A trailing `*` in a name matches any rest.
///
/// Names are compared after percent-decoding, as an application sees them: `?i%64=1` is `id`. A kept parameter is kept
/// byte for byte, but empty parameters (`&&`) are removed; and so is the `?` of an empty query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueryPolicy {
    /// All, byte for byte.
    #[default]
    All,
    /// None.
    None,
    /// All but these.
    Drop(Vec<String>),
    /// Only these.
    Keep(Vec<String>),
}

impl KeyRecipe {
    /// Appends the key of a request to `out`: readable, and equal for two requests only if the recipe treats them as
    /// equal (parts are length- or separator-safe against forged boundaries).
    ///
    /// `authority` is lower case and without the scheme's default port (see [`authority`]); `target` is origin-form.
    /// Allocates only to grow `out`, and one list if parameters are sorted.
    pub fn write(
        &self,
        scheme: &str,
        authority: &str,
        target: &str,
        fields: &[Field<'_>],
        out: &mut Vec<u8>,
    ) {
        match scheme {
            // Nothing in them is escaped.
            "http" | "https" => out.extend_from_slice(scheme.as_bytes()),
            _ => escape(scheme.as_bytes(), |it| it == b':', out),
        }
        out.extend_from_slice(b"://");
        let host = match &self.any_host_of {
            None => authority,
            Some(site) => {
                out.push(b'*');
                site
            }
        };
        escape(host.as_bytes(), |it| matches!(it, b'/' | b'*'), out);
        if !target.starts_with('/') {
            out.push(b' '); // Asterisk- or authority-form: never part of a host.
        }
        self.write_target(target, out);
        if let Some(condition) = &self.condition {
            out.extend_from_slice(b" w:");
            out.extend_from_slice(condition.as_bytes());
        }
        if !self.accept.is_empty() {
            self.accept.write_key(fields, out);
        }
        if !self.languages.is_empty() {
            self.languages.write_key(fields, out);
        }
        for name in &self.headers {
            out.extend_from_slice(b" h:");
            escape(name.as_bytes(), |it| it == b'=', out);
            vary::write_value(name, fields, out);
        }
        for (at, pattern) in self.cookies.iter().enumerate() {
            // A cookie belongs to the first pattern that it matches, so that patterns cannot overlap.
            let earlier = &self.cookies[..at];
            for (name, value) in cookies(fields) {
                if matches(pattern, name) && !earlier.iter().any(|it| matches(it, name)) {
                    out.extend_from_slice(b" c:");
                    escape(name, |it| it == b'=', out);
                    if let Some(value) = value {
                        out.push(b'=');
                        escape(value, |_| false, out);
                    }
                }
            }
        }
        if self.bodies
            && let Some(it) = fields.iter().find(|it| it.name == KEYED_BODY)
        {
            out.extend_from_slice(b" q:");
            out.extend_from_slice(it.value); // Hexadecimal digits.
        }
    }

    /// Whether the client's country is part of the key (`cache.key.country`).
    #[must_use]
    pub fn has_country(&self) -> bool {
        self.headers.iter().any(|it| it == COUNTRY_FIELD)
    }

    /// The text in keys for the condition of a route; `None` for one without.
    #[must_use]
    pub fn condition_of(when: Option<&str>, listeners: &[String]) -> Option<String> {
        if when.is_none() && listeners.is_empty() {
            return None;
        }
        let text = format!("{}\n{}", when.unwrap_or_default(), listeners.join("\n"));
        Some(format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes())))
    }

    /// Whether this request field is part of the key as one of the offers of the route, which is all that the origin is sent of it.
    #[must_use]
    pub fn negotiates(&self, name: &str) -> bool {
        match name.len() {
            6 => !self.accept.is_empty() && name.eq_ignore_ascii_case("accept"),
            15 => !self.languages.is_empty() && name.eq_ignore_ascii_case("accept-language"),
            _ => false,
        }
    }

    /// The negotiated fields of a request for each key of a target: every combination of offers. One without fields if there are none.
    #[must_use]
    pub fn representatives(&self) -> Vec<Vec<Field<'_>>> {
        let types: Vec<&str> = self.accept.representatives().collect();
        let languages: Vec<&str> = self.languages.list().iter().map(String::as_str).collect();
        let mut all = vec![Vec::new()];
        for (name, values) in [("accept", types), ("accept-language", languages)] {
            if !values.is_empty() {
                let before = std::mem::take(&mut all);
                for (fields, value) in
                    before.iter().flat_map(|it| values.iter().map(move |value| (it, value)))
                {
                    let mut fields: Vec<Field<'_>> = fields.clone();
                    fields.push(Field { name, value: value.as_bytes() });
                    all.push(fields);
                }
            }
        }
        all
    }

    /// The recipe without the additions to the target: its keys are those that a purge of a URL names.
    #[must_use]
    pub fn of_url(&self) -> KeyRecipe {
        KeyRecipe {
            headers: Vec::new(),
            cookies: Vec::new(),
            accept: MediaTypeOffers::default(),
            languages: LanguageOffers::default(),
            condition: None,
            bodies: false,
            ..self.clone()
        }
    }

    /// Appends the common beginning of all keys of this recipe whose target begins with `target`: it must not contain
    /// parameters that a key leaves out. `authority` as for [`KeyRecipe::write`].
    pub fn write_prefix(&self, scheme: &str, authority: &str, target: &str, out: &mut Vec<u8>) {
        let all = KeyRecipe { any_host_of: self.any_host_of.clone(), ..KeyRecipe::default() };
        all.write(scheme, authority, target, &[], out);
    }

    /// The target as in the key, so that a request for the cache has no other one: a parameter that is not in the key
    /// must not influence a shared page.
    #[must_use]
    pub fn target<'t>(&self, target: &'t str) -> Cow<'t, str> {
        if self.keeps_targets() || !target.contains('?') {
            return Cow::Borrowed(target);
        }
        let mut kept = String::with_capacity(target.len());
        self.parts_of_target(target, |mark, part| {
            kept.extend(mark);
            kept.push_str(part);
        });
        if kept == target { Cow::Borrowed(target) } else { Cow::Owned(kept) }
    }

    fn keeps_targets(&self) -> bool {
        self.query == QueryPolicy::All && !self.sort_query
    }

    fn write_target(&self, target: &str, out: &mut Vec<u8>) {
        if self.keeps_targets() {
            return escape(target.as_bytes(), |_| false, out);
        }
        self.parts_of_target(target, |mark, part| {
            out.extend(mark.map(|it| it as u8));
            escape(part.as_bytes(), |_| false, out);
        });
    }

    /// Reports the path, and each kept parameter with the mark before it.
    fn parts_of_target(&self, target: &str, mut visit: impl FnMut(Option<char>, &str)) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        visit(None, path);
        let kept = query.split('&').filter(|it| !it.is_empty() && self.keeps(it));
        let mut mark = '?';
        let mut push = |parameter: &str| {
            visit(Some(mark), parameter);
            mark = '&';
        };
        if self.sort_query {
            let mut sorted: Vec<&str> = kept.collect();
            sorted.sort_by(by_name);
            sorted.into_iter().for_each(&mut push);
        } else {
            kept.for_each(&mut push);
        }
    }

    fn keeps(&self, parameter: &str) -> bool {
        let named = |it: &String| matches_decoded(it, name_of(parameter));
        match &self.query {
            QueryPolicy::All => true,
            QueryPolicy::None => false,
            QueryPolicy::Drop(names) => !names.iter().any(named),
            QueryPolicy::Keep(names) => names.iter().any(named),
        }
    }

    /// The recipe as a sentence, for `explain`: the parts of a request in the key.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = "The key is the scheme, ".to_owned();
        text.push_str(if self.any_host_of.is_some() { "the site for any of its hosts" } else { "the host" });
        text.push_str(match &self.query {
            QueryPolicy::All => " and the target with its whole query",
            QueryPolicy::None => " and the path without its query",
            QueryPolicy::Drop(_) => " and the target with its query except ",
            QueryPolicy::Keep(_) => " and the path with, of its query, only ",
        });
        if let QueryPolicy::Drop(names) | QueryPolicy::Keep(names) = &self.query {
            text.push_str(&listed(names));
        }
        if self.sort_query && self.query != QueryPolicy::None {
            text.push_str(", the parameters sorted by name");
        }
        for (what, names) in [("header", &self.headers), ("cookie", &self.cookies)] {
            if !names.is_empty() {
                let plural = if names.len() == 1 { "" } else { "s" };
                text.push_str(&format!("; and the {what}{plural} {}", listed(names)));
            }
        }
        if !self.accept.is_empty() {
            text.push_str(&format!("; and the one of {} that Accept prefers", self.accept.list().join(", ")));
        }
        if !self.languages.is_empty() {
            let all = self.languages.list().join(", ");
            text.push_str(&format!("; and the one of {all} that Accept-Language selects"));
        }
        if self.bodies {
            text.push_str("; and, of a QUERY, a digest of its body");
        }
        if self.condition.is_some() {
            text.push_str("; and the condition of the route");
        }
        text.push('.');
        if self.strict {
            text.push_str(" Requests to the origin carry nothing else.");
        }
        text
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Appends `host` as in the key: lower case, without the scheme's default port, an empty port or leading zeros of one
/// (RFC 9110 §4.2.3, RFC 3986 §6.2.3). `host` is a valid `Host` value.
pub fn authority(scheme: &str, host: &str, out: &mut String) {
    let scheme = if scheme.eq_ignore_ascii_case("https") { Scheme::Https } else { Scheme::Http };
    let shorter = scheme.without_port(host);
    let (name, port) = match shorter.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => (name, Some(port)),
        _ => (shorter, None),
    };
    out.extend(name.chars().map(|it| it.to_ascii_lowercase()));
    if let Some(port) = port {
        let bare = port.trim_start_matches('0');
        out.push(':');
        out.push_str(if bare.is_empty() { "0" } else { bare });
    }
}

/// The cookies of a request, in order: (name, value), the value `None` without `=` (RFC 6265 §5.4).
fn cookies<'a>(fields: &'a [Field<'a>]) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
    field::all(fields, "cookie").flat_map(|line| line.split(|it| *it == b';')).filter_map(|it| {
        let it = field::trim(it);
        match it.iter().position(|byte| *byte == b'=') {
            Some(at) => Some((field::trim(&it[..at]), Some(field::trim(&it[at + 1..])))),
            None if it.is_empty() => None,
            None => Some((it, None)),
        }
    })
}

/// Whether `name` matches `pattern`: exactly, or up to a trailing `*`.
fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

/// Compares two parameters by decoded name, so that two spellings of one name keep their order.
fn by_name(a: &&str, b: &&str) -> Ordering {
    decoded(name_of(a)).cmp(decoded(name_of(b)))
}

#[cfg(test)]
mod tests;
