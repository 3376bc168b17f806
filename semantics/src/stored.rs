//! The facts of a stored response, in addition to its bytes: all inputs of later decisions, computed once when it is
//! stored. The bytes are in `store`.

use crate::cache_control::{ResponseDirectives, directives};
use crate::date;
use crate::entity_tag::EntityTag;
use crate::field::{Field, FieldList, all, first, members};
use crate::freshness::{AgeInputs, Freshness, Lifetime, LifetimeInputs, LifetimeSource, clamp};
use crate::policy::Policy;
use crate::range::HeldRange;
use crate::trace::Silent;
use crate::transcode;
use larder_stdx::clock::{OptionalWallTime, WallTime};

/// Facts of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its status code.
    pub status: u16,
    /// Our clock when the request was sent.
    pub request_time: WallTime,
    /// Our clock when the response head had arrived.
    pub response_time: WallTime,
    /// The origin's `Date`, or `response_time` if absent or invalid.
    pub date: WallTime,
    /// `corrected_initial_age` (RFC 9111 §4.2.3), seconds.
    pub initial_age: u32,
    /// Its lifetime.
    pub lifetime: Lifetime,
    /// `must-revalidate`, `proxy-revalidate` or `s-maxage`: never stale without validation.
    pub must_revalidate: bool,
    /// `no-cache` without field names: always validated first.
    pub no_cache: bool,
    /// It is served only to requests without credentials, as its own request was: neither the response nor the route permits
    /// sharing ([`is_implicit`]), or its `Vary` has `Cookie` and its request had none of the route's private cookies.
    pub implicit: bool,
    /// `stale-while-revalidate` in force, seconds: the response's, or the route's, which does not apply to a lifetime of
    /// zero.
    pub stale_while_revalidate: u32,
    /// `stale-if-error` in force, seconds: the response's, or the route's; the default does not apply to a lifetime of
    /// zero.
    pub stale_if_error: u32,
    /// The `ETag` value with its quotes and `W/`, if it has a valid one.
    pub etag: Option<EntityTag>,
    /// `Last-Modified`, if valid.
    pub last_modified: OptionalWallTime,
    /// The facts that most responses lack.
    pub uncommon: Uncommon,
}

/// Facts that most responses do not have: a pointer where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uncommon(Option<Box<UncommonFacts>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct UncommonFacts {
    vary: Vec<Box<str>>,
    partial: Option<HeldRange>,
}

impl Uncommon {
    /// See [`Meta::vary`] and [`Meta::partial`].
    #[must_use]
    pub fn new(vary: Vec<Box<str>>, partial: Option<HeldRange>) -> Self {
        let is_common = vary.is_empty() && partial.is_none();
        Self((!is_common).then(|| Box::new(UncommonFacts { vary, partial })))
    }

    /// Bytes of its blocks, one by one.
    pub fn blocks(&self) -> impl Iterator<Item = usize> {
        let blocks =
            |it: &'_ UncommonFacts| [size_of::<UncommonFacts>(), it.vary.capacity() * size_of::<Box<str>>()];
        let names = self.0.iter().flat_map(|it| it.vary.iter().map(|it| it.len()));
        self.0.iter().flat_map(move |it| blocks(it)).chain(names)
    }
}

impl Meta {
    /// The names in its `Vary`, lower case; if not empty, it is stored under another variant key than the plain one.
    #[inline]
    #[must_use]
    pub fn vary(&self) -> &[Box<str>] {
        self.uncommon.0.as_ref().map_or(&[], |it| &it.vary)
    }

    /// The stored part of the representation, if it is only a part (a 206, or a truncated body that may be completed):
    /// see `partial`.
    #[inline]
    #[must_use]
    pub fn partial(&self) -> Option<HeldRange> {
        self.uncommon.0.as_ref().and_then(|it| it.partial)
    }

    /// Changes what [`Meta::vary`] says.
    pub fn set_vary(&mut self, vary: Vec<Box<str>>) {
        self.uncommon = Uncommon::new(vary, self.partial());
    }

    /// Changes what [`Meta::partial`] says.
    pub fn set_partial(&mut self, partial: Option<HeldRange>) {
        let vary = self.uncommon.0.take().map(|it| it.vary).unwrap_or_default();
        self.uncommon = Uncommon::new(vary, partial);
    }

    /// Age at `now` (RFC 9111 §4.2.3), seconds, at most 2^31.
    #[inline]
    #[must_use]
    pub fn age(&self, now: WallTime) -> u32 {
        let resident = now.seconds_since(self.response_time);
        clamp(u64::from(self.initial_age).saturating_add(resident))
    }

    /// Fresh or stale at `now`.
    #[inline]
    #[must_use]
    pub fn freshness(&self, now: WallTime) -> Freshness {
        Freshness::of(self.lifetime.seconds, self.age(now))
    }

    /// Whether it can be served at `now` without a request to the origin before: fresh, or stale while it is renewed.
    #[must_use]
    pub fn allows_hits(&self, now: WallTime) -> bool {
        let is_fresh = matches!(self.freshness(now), Freshness::Fresh { .. });
        !self.no_cache && (is_fresh || self.stale_while_revalidate > 0)
    }

    /// Whether the origin can be asked to validate it (RFC 9111 §4.3.1).
    #[inline]
    #[must_use]
    pub fn has_validator(&self) -> bool {
        self.etag.is_some() || self.last_modified.get().is_some()
    }

    /// Whether it is as responses of files are: it declares its lifetime, or has a validator.
    #[inline]
    #[must_use]
    pub fn is_of_a_file(&self) -> bool {
        let source = self.lifetime.source;
        self.has_validator()
            || matches!(
                source,
                LifetimeSource::Targeted
                    | LifetimeSource::SMaxAge
                    | LifetimeSource::MaxAge
                    | LifetimeSource::Expires
            )
    }

    /// Computes the facts of a response that [`crate::storable::decide`] accepted. `fields` are as received, before
    /// [`stored_fields`].
    #[must_use]
    pub fn of(
        status: u16,
        fields: &[Field<'_>],
        policy: &Policy,
        request_time: WallTime,
        response_time: WallTime,
    ) -> Meta {
        let inputs = LifetimeInputs::read(status, fields, policy, (request_time, response_time));
        let ages = AgeInputs::read(fields, request_time, response_time);
        let directives = &inputs.directives;
        let lifetime = inputs.lifetime(policy, &mut Silent);
        let no_cache = always_validated(directives, status, policy);
        let names = vary(fields).unwrap_or_default();
        Meta {
            status,
            request_time,
            response_time,
            date: ages.date_value,
            initial_age: ages.corrected_initial_age(),
            lifetime,
            must_revalidate: directives.forbids_stale(),
            no_cache,
            implicit: is_implicit(directives, lifetime, no_cache) || is_without_cookies(&names, policy),
            stale_while_revalidate: directives
                .stale_while_revalidate
                .unwrap_or_else(|| lifetime.stale_while_revalidate(policy.stale_while_revalidate)),
            stale_if_error: directives
                .stale_if_error
                .unwrap_or_else(|| lifetime.stale_if_error(policy.stale_if_error)),
            etag: etag(fields).map(EntityTag::from),
            last_modified: inputs.last_modified.into(),
            uncommon: Uncommon::new(
                selecting(transcode::own_names(names, transcode::handled(status, fields, policy)), policy),
                if status == 206 { HeldRange::of(fields) } else { None },
            ),
        }
    }

    /// Whether a stored response was, or may be, sent in several codings: its `Vary` names `Accept-Encoding`, which selects
    /// no variant.
    #[must_use]
    pub fn is_negotiated(&self, fields: &FieldList) -> bool {
        let is_coding = |it: &[u8]| it.eq_ignore_ascii_case(b"accept-encoding");
        fields.get_all("vary").flat_map(members).any(is_coding)
            && !self.vary().iter().any(|it| **it == *"accept-encoding")
    }

    /// The facts for preconditions on a made form: the stored ones with a weak tag.
    #[must_use]
    pub fn of_form(&self) -> Meta {
        let mut meta = self.clone();
        if let Some(tag) = meta.etag.as_mut().filter(|it| !it.starts_with(b"W/")) {
            *tag = [b"W/", &tag[..]].concat().into();
        }
        meta
    }
}

/// Whether neither the response nor the route permits sharing: not `public`, and no explicit lifetime above zero. Such a
/// response to a request with credentials is specific to one visitor (RFC 9111 §3.5 has the same for `Authorization`).
#[must_use]
pub fn is_implicit(directives: &ResponseDirectives, lifetime: Lifetime, no_cache: bool) -> bool {
    !directives.public && (no_cache || !lifetime.is_named())
}

/// Whether the names in `Vary` have `Cookie` on a route that names its private cookies. The response was then made without
/// them, and [`selecting`] leaves the name out.
fn is_without_cookies(names: &[Box<str>], policy: &Policy) -> bool {
    !policy.private_cookies.is_empty() && names.iter().any(|it| &**it == "cookie")
}

/// Whether `no-cache` is in force for the whole response. Not under `cache.override_ttl`, which replaces the origin's
/// freshness.
pub(crate) fn always_validated(directives: &ResponseDirectives, status: u16, policy: &Policy) -> bool {
    let overridden = crate::freshness::overrides(policy, status);
    directives.no_cache.is_whole() && !overridden
}

/// The entity tag, if there is exactly one line and it is valid (RFC 9110 §8.8.3).
pub(crate) fn etag<'a>(fields: &[Field<'a>]) -> Option<&'a [u8]> {
    let mut lines = fields.iter().filter(|it| it.is("etag")).map(|it| it.value);
    let tag = lines.next()?;
    (lines.all(|it| it == tag) && crate::entity_tag::is_entity_tag(tag)).then_some(tag)
}

/// The names in `Vary`; `None` for `*`; empty without `Vary`.
pub(crate) fn vary(fields: &[Field<'_>]) -> Option<Vec<Box<str>>> {
    match first(fields, "vary") {
        None => Some(Vec::new()),
        Some(_) => crate::vary::names(fields),
    }
}

/// The names that select a variant: those of `Vary` and of `cache.vary`. With a strict key none does: the request to the origin is determined by the key. `Accept`
/// and `Accept-Language` do not where the key has an offer, which is all that the origin was sent. If the route names its private cookies, the request had only the cookies of the key: `Cookie` then selects no variant,
/// even if `Vary` names it.
fn selecting(mut names: Vec<Box<str>>, policy: &Policy) -> Vec<Box<str>> {
    for it in &policy.vary {
        if let Err(at) = names.binary_search_by(|name| (**name).cmp(it)) {
            names.insert(at, it.as_str().into());
        }
    }
    if policy.key.strict {
        names.clear();
    }
    if !policy.private_cookies.is_empty() {
        names.retain(|it| &**it != "cookie");
    }
    names.retain(|it| !policy.key.negotiates(it));
    names
}

/// Adds the names by which larder itself varies the responses of a route: `cache.vary`, and the fields for which the key has offers. A
/// 304 without `Vary` leaves that of the stored response in force.
pub fn mark_varied(status: u16, fields: &mut FieldList, policy: &Policy) {
    let negotiated = ["Accept", "Accept-Language"].into_iter().filter(|it| policy.key.negotiates(it));
    if status != 304 || fields.contains("vary") {
        crate::vary::add_names(fields, policy.vary.iter().map(String::as_str).chain(negotiated));
    }
}

/// The fields that are stored and sent with every hit: without hop-by-hop and `Connection`-nominated fields (RFC 9111
/// §3.1), without those named by `no-cache="…"`/`private="…"`, without `Age` (each hit has its own) and without
/// `Set-Cookie` and `Set-Cookie2`; `Date` is added if it was absent or invalid (RFC 9110 §6.6.1). All other fields are unchanged and in
/// order: targeted fields, `Cache-Status` of caches before larder, and unknown fields.
#[must_use]
pub fn stored_fields(fields: &[Field<'_>], policy: &Policy, response_time: WallTime) -> FieldList {
    let (directives, _) = crate::targeted::directives(fields, policy);
    let mut kept = FieldList::new();
    let mut dated = false;
    for it in fields.iter().filter(|it| is_kept(it.name, fields) && directives.keeps(it.name)) {
        if it.is("date") {
            // Exactly one valid Date: further ones would contradict the computed age.
            if dated || date::parse(it.value).is_none() {
                continue;
            }
            dated = true;
        }
        kept.push(it.name, it.value);
    }
    if !dated {
        kept.push("Date", date::format(response_time));
    }
    kept.shrink();
    kept
}

/// The trailer fields that are stored and shared, of a response with this head: with the same exceptions as in [`stored_fields`].
#[must_use]
pub fn stored_trailers(trailers: FieldList, head: &[Field<'_>], policy: &Policy) -> Option<FieldList> {
    let (directives, _) = crate::targeted::directives(head, policy);
    let mut kept = trailers;
    kept.retain(|it| is_kept(it.name, head) && directives.keeps(it.name));
    (!kept.is_empty()).then_some(kept)
}

/// Whether a line of that name may be stored at all, apart from directives (RFC 9111 §3.1).
pub(crate) fn is_kept(name: &str, fields: &[Field<'_>]) -> bool {
    !is_hop_by_hop(name) && !is_nominated(name, fields) && !is_ours_to_make(name)
}

/// Fields that concern one connection (RFC 9110 §7.6.1, RFC 9111 §3.1).
#[must_use]
pub fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authentication-info",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    NAMES.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Whether `Connection` names the field (RFC 9110 §7.6.1).
#[must_use]
pub fn is_nominated(name: &str, fields: &[Field<'_>]) -> bool {
    all(fields, "connection").flat_map(directives).any(|it| it.name.eq_ignore_ascii_case(name.as_bytes()))
}

/// Never stored: `Age` is computed for each hit, a cookie is for one client.
fn is_ours_to_make(name: &str) -> bool {
    name.eq_ignore_ascii_case("age") || Field { name, value: b"" }.sets_cookie()
}

#[cfg(test)]
mod tests;
