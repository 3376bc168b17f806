//! The advisor: findings from counted requests, each with its changes and the requests that they would help. A finding without a
//! change is left out, and so is one that rests on a guess.

use super::change::{
    ChangeFacts, NeededPages, SafeChange, SafeSetting, changes, compressed, fewer_variants,
    lifetime_of_errors, sorted_parameters, with_cache, with_harmless_directives, without_cookies,
    without_needless_cookies, without_needless_parameters,
};
use super::large::{self, LargePage};
use crate::miss_reason::MissReason;
use crate::policy::Policy;
use crate::trial::evidence::{
    DemandedResponses, EqualForAll, NeedlessParameters, ReorderedParameters, ShareableResponses,
    SilentErrors, VaryingField,
};
use std::borrow::Cow;

/// Findings about fewer requests are left out.
const FEWEST: u64 = 10;
/// So are those about fewer than one of this many requests to the origin.
const SHARE: u64 = 100;
/// With less RAM, compression is proposed together with this size: half of it is the most for one codec, and brotli at its default level takes 4.6 MiB for
/// a page of 64 KiB. With 8 MiB no form was made in a test.
const RAM_FOR_CODECS: u64 = 16 << 20;

/// The requests of one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonCount {
    /// The reason.
    pub reason: MissReason,
    /// Their number.
    pub requests: u64,
    /// Microseconds to the heads of their responses, in total.
    pub micros: u64,
}

/// The counted facts of a route.
#[derive(Clone, Copy, Debug)]
pub struct CountedRoute<'a> {
    /// Its policy.
    pub policy: &'a Policy,
    /// Its requests to the origin, by reason.
    pub reasons: &'a [ReasonCount],
    /// First requests with parameters of analytics.
    pub analytics: u64,
    /// These parameters ([`crate::analytics::parameters_of`]).
    pub parameters: u64,
    /// Requests that are private because of cookies, all of which are those of analytics.
    pub cookies: u64,
    /// Stored responses that could be compressed and were sent as they came, to clients that accept gzip.
    pub plain: u64,
    /// Requests without credentials for pages without a lifetime.
    pub anonymous: u64,
    /// The names of cookies that the application sets again because the route removes them from requests.
    pub removed_cookies: &'a [String],
    /// How often it did.
    pub removals: u64,
    /// The evidence of recent requests that pages are the same for all clients, whatever their cookies.
    pub equal: Option<&'a EqualForAll>,
    /// The parameters that change no page, as recent requests show.
    pub needless: Option<&'a NeedlessParameters>,
    /// The parameters whose order changes no page, as recent requests show.
    pub reordered: Option<&'a ReorderedParameters>,
    /// The evidence that all responses of a route without a cache were for all clients.
    pub shareable: Option<&'a ShareableResponses>,
    /// The requests that demand a new response of a page that could be a hit.
    pub demanded: Option<&'a DemandedResponses>,
    /// The errors among the responses without a lifetime.
    pub silent: &'a SilentErrors,
    /// The fields in `Vary` of which recent requests have several values.
    pub varying: &'a [VaryingField],
    /// The pages that exceed `cache.max_object`, and would be stored otherwise.
    pub large: &'a [LargePage],
    /// The largest body that a tier of the route keeps.
    pub most_stored: u64,
    /// Whether responses to some URL of the route differed, or the route knows its clients by other means than cookies.
    pub differs: bool,
    /// Whether recent requests show that what would be proposed about lifetimes and cookies shares a response for one client, or
    /// responses that differed between clients.
    pub is_red: bool,
}

/// The counted facts.
#[derive(Clone, Copy, Debug)]
pub struct AdviceFacts<'a> {
    /// The routes with a cache.
    pub routes: &'a [CountedRoute<'a>],
    /// `cache.ram.size`.
    pub ram_size: u64,
    /// The most RAM that may be proposed.
    pub ram_limit: u64,
    /// The pages of RAM, and those that it lacks.
    pub needed: NeededPages,
    /// Whether there is a disk tier.
    pub has_disk: bool,
    /// `cache.disk.size` of a disk tier that has dropped pages for space.
    pub full_disk: Option<u64>,
    /// Why stored responses are in doubt now, and the remedy, as sentences; `None` if they are not.
    pub doubt: Option<&'a str>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: AdviceKind,
    /// The positions of its routes; none for the server.
    pub routes: Vec<usize>,
    /// The finding, one sentence.
    pub sentence: Cow<'static, str>,
    /// The counted requests that the changes would help: an upper bound.
    pub requests: u64,
    /// Microseconds of the origin for them.
    pub micros: u64,
    /// The changes, those of the configuration first.
    pub changes: Vec<SafeChange>,
}

impl Finding {
    fn new(
        kind: AdviceKind,
        route: Option<usize>,
        (requests, micros): (u64, u64),
        changes: Vec<SafeChange>,
    ) -> Self {
        let sentence = kind.sentence().into();
        let routes = route.into_iter().collect();
        Self { kind, routes, sentence, requests, micros, changes }
    }

    /// Whether both are one finding: the same changes for several routes, without figures of one of them.
    fn is_as(&self, other: &Self) -> bool {
        let has_figures =
            matches!(self.kind, AdviceKind::TooLarge | AdviceKind::Variants | AdviceKind::Demanded);
        !has_figures
            && self.kind == other.kind
            && self.sentence == other.sentence
            && self.changes == other.changes
    }
}

/// Requests that are not cached on purpose, of the operator, the client or the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UncachedRequests {
    /// The position of their route.
    pub route: usize,
    /// Why.
    pub count: ReasonCount,
}

/// The advice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Stored responses in doubt first, since that hinders the other changes; then those that save requests to the origin, most requests first.
    pub findings: Vec<Finding>,
    /// Most requests first.
    pub uncached: Vec<UncachedRequests>,
}

macro_rules! kinds {
    ($($kind:ident $name:literal: $sentence:literal, $from:literal;)*) => {
        /// The kinds of findings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AdviceKind { $(#[doc = $sentence] $kind,)* }

        impl AdviceKind {
            /// Every kind.
            pub const ALL: &[AdviceKind] = &[$(AdviceKind::$kind,)*];

            /// Its name in the API: a stable interface.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(AdviceKind::$kind => $name,)* }
            }

            /// The finding, one sentence.
            #[must_use]
            pub fn sentence(self) -> &'static str {
                match self { $(AdviceKind::$kind => $sentence,)* }
            }

            /// The counted requests.
            #[must_use]
            pub fn figure(self) -> &'static str {
                match self { $(AdviceKind::$kind => $from,)* }
            }
        }
    };
}

kinds! {
    Doubted "responses-doubted": "Stored responses are validated with the origin before each use, because servers that larder needs for them do not answer. Until they do, other changes have little effect.",
        "requests with the reason doubted";
    Analytics "analytics-parameters": "One page is stored under many URLs, which differ in parameters of analytics.",
        "first requests whose query has such a parameter";
    Cookies "analytics-cookies": "Pages are not cached because the requests have cookies of analytics.",
        "requests with the reasons private-cookie and credentials whose only cookies are of analytics";
    NeedlessCookies "needless-cookies": "Pages are not cached because the requests have cookies, although recent responses were the same for all their values.",
        "requests with the reasons private-cookie and credentials, by the share of recent ones whose cookies change no page, each page fetched once";
    NeedlessParameters "needless-parameters": "One page is stored under many URLs, which differ in parameters that change no page.",
        "first requests, by the share of recent ones that have such a parameter, each page fetched once";
    NoLifetime "no-lifetime": "Pages declare no lifetime, so that each request needs the origin.",
        "requests without a cookie and Authorization with the reason no-lifetime";
    MissingPages "missing-pages": "Responses to requests for missing pages declare no lifetime, so that each of these requests needs the origin.",
        "requests with the reason no-lifetime, by the share of recent ones without credentials that got the status 404 or 410";
    Demanded "new-demanded": "Requests demand a new response (`Cache-Control: no-cache` or `max-age`), so that a stored page does not answer them.",
        "requests with the reason client-no-cache, by the share of recent ones whose responses can be stored, each page fetched once";
    RemovedCookies "removed-cookies": "The application sets cookies that this route removes from requests, so that it begins with new ones each time: a session is lost.",
        "responses that set a cookie which their request had";
    ParameterOrder "parameter-order": "One page is stored under several URLs, which differ in the order of their parameters.",
        "first requests, by the share of recent ones whose parameters came in several orders, each page fetched once";
    CacheOff "cache-off": "The route does not use the cache, although all its recent responses were for all clients.",
        "requests with the reason cache-off, by the share of recent ones whose responses could be stored, each page fetched once";
    TooLarge "too-large": "Responses are not stored because they are larger than `cache.max_object`, and are requested again.",
        "requests with the reason too-large, by the share of remembered ones for a page that was requested before and fits";
    Expired "expired": "Clients wait while expired pages are renewed.", "requests with the reason expired";
    SmallRam "small-ram": "RAM is too small: fresh pages are removed to make room, and are requested again.",
        "requests with the reasons evicted and no-room";
    Disk "disk": "Pages that were not used for a time are removed from RAM, and are requested again.",
        "requests with the reason idle";
    Variants "variants": "Pages are stored once for each value of the fields in Vary.", "requests with the reason variant";
    Validators "validators": "Pages are stale on arrival and cannot be validated, so that each request fetches them as a whole.",
        "requests with the reason useless";
    Compression "compression-off": "Text is sent without compression to clients that accept it.",
        "stored responses of 1 KiB or more, of a type that compresses well, when they were fetched; hits come on top";
}

impl AdviceKind {
    /// Whether its changes share responses that were not shared: a trial on recent requests must be without danger.
    #[must_use]
    pub fn shares(self) -> bool {
        use AdviceKind::{
            CacheOff, Cookies, MissingPages, NeedlessCookies, NeedlessParameters, NoLifetime, ParameterOrder,
        };
        matches!(
            self,
            NoLifetime
                | MissingPages
                | Cookies
                | NeedlessCookies
                | NeedlessParameters
                | ParameterOrder
                | CacheOff
        )
    }

    /// The effect of its changes.
    #[must_use]
    pub fn saves(self) -> AdviceGain {
        match self {
            AdviceKind::Compression => AdviceGain::Bytes,
            _ => AdviceGain::Requests,
        }
    }
}

/// The effect of a change. Ordered: those for fewer requests to the origin come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdviceGain {
    /// Fewer requests to the origin.
    Requests,
    /// Smaller responses, of which hits are not counted.
    Bytes,
}

impl AdviceGain {
    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AdviceGain::Requests => "requests",
            AdviceGain::Bytes => "bytes",
        }
    }
}

/// The advice for these facts.
#[must_use]
pub fn advise(facts: &AdviceFacts<'_>) -> Advice {
    let mut all = Advice::default();
    for (at, route) in facts.routes.iter().enumerate() {
        for it in of_route(facts, at, route) {
            match all.findings.iter_mut().find(|other| other.is_as(&it)) {
                Some(other) => {
                    other.routes.push(at);
                    (other.requests, other.micros) = (other.requests + it.requests, other.micros + it.micros);
                }
                None => all.findings.push(it),
            }
        }
        let uncached = route.reasons.iter().filter(|it| is_uncached(it.reason) && it.requests > 0);
        all.uncached.extend(uncached.map(|it| UncachedRequests { route: at, count: *it }));
        let (requests, _) = sum(route.reasons, &[MissReason::NoLifetime]);
        if (route.differs || route.is_red) && requests > 0 {
            let count = ReasonCount { reason: MissReason::NoLifetime, requests, micros: 0 };
            all.uncached.push(UncachedRequests { route: at, count });
        }
    }
    all.findings.extend(of_server(facts));
    all.findings
        .sort_by_key(|it| (it.kind != AdviceKind::Doubted, it.kind.saves(), std::cmp::Reverse(it.requests)));
    all.uncached.sort_by_key(|it| std::cmp::Reverse(it.count.requests));
    all
}

/// Whether requests of this reason are listed as not cached.
fn is_uncached(reason: MissReason) -> bool {
    reason.row().class.is_uncached() && reason != MissReason::Useless
}

fn of_route(facts: &AdviceFacts<'_>, at: usize, route: &CountedRoute<'_>) -> Vec<Finding> {
    let change_facts = ChangeFacts {
        policy: route.policy,
        is_public: !route.differs,
        parameters: route.parameters,
        status: None,
        set_cookies: &[],
        length: None,
        most_stored: 0,
        ram_size: facts.ram_size,
        ram_limit: facts.ram_limit,
        needed: facts.needed,
        has_disk: facts.has_disk,
        full_disk: facts.full_disk,
    };
    let whole: u64 = route.reasons.iter().map(|it| it.requests).sum();
    let finding = |kind, reason, requests: u64| {
        let (counted, micros) = sum(route.reasons, &[reason]);
        let requests = requests.min(counted);
        let changes = match kind {
            AdviceKind::NoLifetime if route.differs || route.is_red => Vec::new(),
            AdviceKind::Cookies if route.is_red => Vec::new(),
            AdviceKind::Cookies => without_cookies(&change_facts),
            AdviceKind::Variants => vec![fewer_variants(route.varying)],
            _ => changes(reason, &change_facts),
        };
        let is_worth = requests >= FEWEST && requests.saturating_mul(SHARE) >= whole && !changes.is_empty();
        let micros = micros.checked_div(counted).unwrap_or(0).saturating_mul(requests);
        is_worth.then(|| Finding::new(kind, Some(at), (requests, micros), changes))
    };
    // Where the private cookies are not named, each cookie is a credential.
    let private_by_cookies = match route.policy.private_cookies.is_empty() {
        true => MissReason::Credentials,
        false => MissReason::PrivateCookie,
    };
    let (cookies, parameters) = (needless_cookies(at, route), needless_parameters(at, route));
    let found = [
        finding(AdviceKind::Analytics, MissReason::FirstRequest, route.analytics)
            .filter(|_| parameters.is_none()),
        finding(AdviceKind::Cookies, private_by_cookies, route.cookies).filter(|_| cookies.is_none()),
        cookies,
        parameters,
        finding(AdviceKind::NoLifetime, MissReason::NoLifetime, route.anonymous),
        missing_pages(at, route, &change_facts),
        demanded(at, route),
        finding(AdviceKind::Expired, MissReason::Expired, u64::MAX).filter(has_setting),
        finding(AdviceKind::Variants, MissReason::Variant, u64::MAX).map(|it| named(it, route.varying)),
        finding(AdviceKind::Validators, MissReason::Useless, u64::MAX),
        removed_cookies(at, route),
        reordered(at, route),
        unused_cache(at, route),
        too_large(at, route),
    ];
    found.into_iter().flatten().collect()
}

/// Requests that are withheld from the cache because of cookies that change no page.
fn needless_cookies(at: usize, route: &CountedRoute<'_>) -> Option<Finding> {
    let of = route.equal.filter(|it| !it.cookies.is_empty() && !route.differs && !route.is_red)?;
    let (counted, micros) = sum(route.reasons, &[MissReason::PrivateCookie, MissReason::Credentials]);
    let change = without_needless_cookies(route.policy, of);
    let helped = (of.could.saturating_sub(of.pages), of.all);
    by_share(AdviceKind::NeedlessCookies, at, (counted, micros), helped, change)
}

/// First requests for pages that are stored under another URL.
fn needless_parameters(at: usize, route: &CountedRoute<'_>) -> Option<Finding> {
    let of = route.needless.filter(|_| !route.is_red)?;
    let counted = sum(route.reasons, &[MissReason::FirstRequest]);
    let change = without_needless_parameters(route.policy, of)?;
    by_share(
        AdviceKind::NeedlessParameters,
        at,
        counted,
        (of.requests.saturating_sub(of.pages), of.all),
        change,
    )
}

/// A finding about the share of counted requests that recent ones show.
fn by_share(
    kind: AdviceKind,
    at: usize,
    (counted, micros): (u64, u64),
    (part, whole): (u64, u64),
    change: SafeChange,
) -> Option<Finding> {
    let share = |of: u64| u64::try_from(u128::from(of) * u128::from(part) / u128::from(whole.max(1))).ok();
    let (requests, micros) = (share(counted)?.min(counted), share(micros)?.min(micros));
    (requests >= FEWEST).then(|| Finding::new(kind, Some(at), (requests, micros), vec![change]))
}

/// First requests for pages that are stored under another order of their parameters.
fn reordered(at: usize, route: &CountedRoute<'_>) -> Option<Finding> {
    let of = route.reordered.filter(|_| !route.is_red)?;
    let counted = sum(route.reasons, &[MissReason::FirstRequest]);
    let helped = (of.requests.saturating_sub(of.pages), of.all);
    by_share(AdviceKind::ParameterOrder, at, counted, helped, sorted_parameters())
}

/// Requests of a route that does not use the cache.
fn unused_cache(at: usize, route: &CountedRoute<'_>) -> Option<Finding> {
    let of = route.shareable.filter(|_| !route.differs && !route.is_red)?;
    let counted = sum(route.reasons, &[MissReason::CacheOff]);
    let helped = (of.could.saturating_sub(of.pages), of.all);
    by_share(AdviceKind::CacheOff, at, counted, helped, with_cache())
}

/// Requests for missing pages, whose responses declare no lifetime.
fn missing_pages(at: usize, route: &CountedRoute<'_>, facts: &ChangeFacts<'_>) -> Option<Finding> {
    let of = Some(route.silent).filter(|it| it.errors > 0 && !route.differs && !route.is_red)?;
    let counted = sum(route.reasons, &[MissReason::NoLifetime]);
    let change = lifetime_of_errors(facts, &of.statuses).pop()?;
    by_share(AdviceKind::MissingPages, at, counted, (of.errors, of.all), change)
}

/// Requests that demand a new response, with the client that sends most of them.
fn demanded(at: usize, route: &CountedRoute<'_>) -> Option<Finding> {
    let of = route.demanded.filter(|_| !route.differs)?;
    let counted = sum(route.reasons, &[MissReason::ClientNoCache]);
    let helped = (of.could.saturating_sub(of.pages), of.all);
    let found = by_share(AdviceKind::Demanded, at, counted, helped, with_harmless_directives())?;
    let clients = match (of.most, of.clients) {
        (Some((client, _)), 1) => format!("All recent ones are from {client}."),
        (Some((client, times)), clients) => {
            format!("The recent ones are from {clients} clients; {times} of {} from {client}.", of.could)
        }
        (None, _) => return Some(found),
    };
    Some(Finding { sentence: format!("{} {clients}", found.sentence).into(), ..found })
}

/// Requests for pages that exceed `cache.max_object`.
fn too_large(at: usize, route: &CountedRoute<'_>) -> Option<Finding> {
    let of = large::setting_for(route.large, route.most_stored)?;
    let counted = sum(route.reasons, &[MissReason::TooLarge]);
    by_share(AdviceKind::TooLarge, at, counted, (of.helped, of.all), of.change)
}

/// The most fields that a finding names.
const NAMED: usize = 3;

/// The finding about variants, with the fields of which there are several values.
fn named(finding: Finding, varying: &[VaryingField]) -> Finding {
    if varying.is_empty() {
        return finding;
    }
    let of = |it: &VaryingField| format!("{} ({} values)", it.name, it.values);
    let names = varying.iter().take(NAMED).map(of).collect::<Vec<_>>().join(", ");
    let sentence = format!(
        "Pages are stored once for each value of the fields in Vary; recent requests for one page had {names}."
    );
    Finding { sentence: sentence.into(), ..finding }
}

/// However few: each is a session that ended.
fn removed_cookies(at: usize, route: &CountedRoute<'_>) -> Option<Finding> {
    let names = route.policy.private_cookies.iter().chain(route.removed_cookies).cloned().collect();
    let change = SafeChange::Configuration {
        sentence:
            "The application gets these cookies, and pages for requests with one of them are not shared."
                .into(),
        settings: vec![SafeSetting::PrivateCookies(names)],
    };
    (route.removals > 0)
        .then(|| Finding::new(AdviceKind::RemovedCookies, Some(at), (route.removals, 0), vec![change]))
}

/// Expired pages alone are no fault: the finding is that clients wait for their renewal.
fn has_setting(finding: &Finding) -> bool {
    finding.changes.iter().any(|it| matches!(it, SafeChange::Configuration { .. }))
}

/// The findings about the tiers, over all routes.
fn of_server(facts: &AdviceFacts<'_>) -> Vec<Finding> {
    let policy = Policy::default();
    let change_facts = ChangeFacts {
        policy: &policy,
        is_public: false,
        parameters: 0,
        status: None,
        set_cookies: &[],
        length: None,
        most_stored: 0,
        ram_size: facts.ram_size,
        ram_limit: facts.ram_limit,
        needed: facts.needed,
        has_disk: facts.has_disk,
        full_disk: facts.full_disk,
    };
    let all = || facts.routes.iter().flat_map(|it| it.reasons);
    let whole: u64 = all().map(|it| it.requests).sum();
    let finding = |kind, reasons: &[MissReason]| {
        let (requests, micros) = all()
            .filter(|it| reasons.contains(&it.reason))
            .fold((0, 0), |sum, it| (sum.0 + it.requests, sum.1 + it.micros));
        let mut proposed: Vec<SafeChange> = Vec::new();
        for reason in reasons {
            for change in changes(*reason, &change_facts) {
                if !proposed.contains(&change) {
                    proposed.push(change);
                }
            }
        }
        proposed.retain(is_of_server);
        let is_worth = requests >= FEWEST && requests.saturating_mul(SHARE) >= whole && !proposed.is_empty();
        is_worth.then(|| Finding::new(kind, None, (requests, micros), proposed))
    };
    let found = [
        finding(AdviceKind::SmallRam, &[MissReason::Evicted, MissReason::NoRoom]),
        finding(AdviceKind::Disk, &[MissReason::Idle]),
        uncompressed(facts),
        doubted(facts),
    ];
    found.into_iter().flatten().collect()
}

/// Requests for stored responses that are in doubt, while they are. However few: each other change depends on it.
fn doubted(facts: &AdviceFacts<'_>) -> Option<Finding> {
    let sentence = facts.doubt?.to_owned();
    let sums = facts.routes.iter().map(|it| sum(it.reasons, &[MissReason::Doubted]));
    let (requests, micros) = sums.fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1));
    let changes = vec![SafeChange::Server { sentence }];
    (requests > 0).then(|| Finding::new(AdviceKind::Doubted, None, (requests, micros), changes))
}

/// Responses that routes without compression sent as they came. Few are enough: their hits are not counted.
fn uncompressed(facts: &AdviceFacts<'_>) -> Option<Finding> {
    let without = facts.routes.iter().filter(|it| it.policy.compress.is_none());
    let requests: u64 = without.map(|it| it.plain).sum();
    let is_small = facts.ram_size < RAM_FOR_CODECS;
    let changes = vec![compressed(is_small.then_some(RAM_FOR_CODECS))];
    let has_room = !is_small || facts.ram_size > 0 && facts.ram_limit >= RAM_FOR_CODECS;
    (requests >= FEWEST && has_room)
        .then(|| Finding::new(AdviceKind::Compression, None, (requests, 0), changes))
}

fn is_of_server(change: &SafeChange) -> bool {
    match change {
        SafeChange::Configuration { settings, .. } => settings.iter().all(SafeSetting::is_of_server),
        SafeChange::Application { .. } | SafeChange::Server { .. } => false,
    }
}

/// Requests and microseconds of these reasons.
fn sum(of: &[ReasonCount], reasons: &[MissReason]) -> (u64, u64) {
    let these = of.iter().filter(|it| reasons.contains(&it.reason));
    these.fold((0, 0), |sum, it| (sum.0 + it.requests, sum.1 + it.micros))
}
