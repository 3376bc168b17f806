//! The trial of a changed configuration: recorded requests are decided under the running configuration and under the changed
//! one, by the functions that serve, and the differences are counted. Pure: the caller routes and admits each request.
//!
//! The cache of the trial has no bounds and no purges: a hit ratio is that of lifetimes, keys and storability. Facts that
//! were not recorded are counted as unknown, never replaced by a guess.

mod audience;
mod cache;
pub mod evidence;
pub mod facts;
mod outcome;

pub use audience::{SharedExample, SharedReason, SharingCheck};
pub use outcome::{ChangeExample, ChangeKind, ChangeList, HitShare, TrialReport};

use crate::cache_rule::ArrivingResponse;
use crate::cookies;
use crate::field::Field;
use crate::freshness::{Lifetime, LifetimeSource};
use crate::miss_reason::{self, MissReason, RequestCredentials};
use crate::policy::Policy;
use crate::request::RequestFacts;
use crate::secret;
use crate::storable::{self, NotStorable, Storable};
use crate::stored::Meta;
use crate::trace::Silent;
use cache::{CacheModel, ModelAnswer, ModelRequest};
use larder_stdx::clock::WallTime;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// One recorded request.
#[derive(Clone, Copy, Debug)]
pub struct RecordedRequest<'r> {
    /// When it ended.
    pub time: WallTime,
    /// Its beginning and its end by the precise clock, microseconds: its response was made in between.
    pub span: (u64, u64),
    /// The number of requests that it stands for, from 1: a busy server records a sample.
    pub weight: u32,
    /// Its method.
    pub method: &'r str,
    /// `http` or `https`.
    pub scheme: &'r str,
    /// Lower case, without the scheme's default port.
    pub authority: &'r str,
    /// Path and query.
    pub target: &'r str,
    /// The recorded fields. The value of a cookie is a hash of it; of `Authorization` only the presence is known.
    pub fields: &'r [Field<'r>],
    /// A hash of the client: its address and its cookies.
    pub client: u64,
    /// The status that it got.
    pub status: u16,
    /// The part of the cache.
    pub served: ServedBy,
    /// The response of an origin to this request.
    pub response: Option<RecordedResponse<'r>>,
    /// The stored response that it got, as it is in the cache at the time of the trial.
    pub stored: Option<RecordedResponse<'r>>,
}

/// The part of the cache in a recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    /// A stored response, with its remaining lifetime in seconds; negative if it was stale.
    Cache(i32),
    /// An origin.
    Origin,
    /// Neither: a file, or a response of larder's own.
    Other,
}

/// A response of an origin, as far as it decides.
#[derive(Clone, Copy, Debug)]
pub struct RecordedResponse<'r> {
    /// When its head arrived.
    pub time: WallTime,
    /// Its status.
    pub status: u16,
    /// Its deciding fields.
    pub fields: &'r [Field<'r>],
    /// A hash of its representation (entity tag, date of change, length); 0 if it has none of these.
    pub digest: u64,
    /// A hash of its fields ([`facts::head_digest`]); 0 if it is not known.
    pub head: u64,
    /// The bytes of its body; 0 if they are not known.
    pub length: u64,
}

/// The treatment of a recorded request under one configuration.
#[derive(Clone, Copy, Debug)]
pub struct TrialSide<'p> {
    /// The number of its route in a list of the caller's; routes of both configurations with one name have one number.
    pub route: Option<usize>,
    /// A hash of the origin and of the request that it gets: where it differs, the recorded response says nothing.
    pub origin: u64,
    /// Whether the rules of access demand credentials for it.
    pub demands: bool,
    /// The way of the request.
    pub course: Course<'p>,
}

/// The way of a request before the origin.
#[derive(Clone, Copy, Debug)]
pub enum Course<'p> {
    /// larder answers itself with this status, by this key of the configuration.
    Answered {
        /// The status.
        status: u16,
        /// The key, in the notation of the table.
        key: &'static str,
    },
    /// The rules of access refuse it with this status, by this key.
    Refused {
        /// The status.
        status: u16,
        /// The key, in the notation of the table.
        key: &'static str,
    },
    /// A file, whose existence is not examined.
    File,
    /// An origin, without the cache, for this reason; whether the reason is that the response is one client's.
    Passed {
        /// Stable, kebab-case.
        why: &'static str,
        /// Whether the response belongs to one client.
        of_one_client: bool,
    },
    /// The cache, under this key.
    Cached {
        /// The whole key.
        key: &'p [u8],
        /// The policy of the route.
        policy: &'p Policy,
    },
    /// It depends on a fact that was not recorded.
    Unknown(UnknownFact),
}

/// A fact without which the trial decides nothing about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFact {
    /// The response of another origin, or to another request.
    OtherOrigin,
    /// The response that the request got.
    Response,
    /// The value of a cookie or a credential.
    Withheld,
    /// The files of a directory.
    Files,
    /// The value of a cookie that a condition of a route compares: not even the route is known.
    Condition,
}

impl UnknownFact {
    /// All of them.
    pub const ALL: [UnknownFact; 5] = [
        UnknownFact::OtherOrigin,
        UnknownFact::Response,
        UnknownFact::Withheld,
        UnknownFact::Files,
        UnknownFact::Condition,
    ];

    /// Stable, kebab-case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            UnknownFact::OtherOrigin => "other-origin",
            UnknownFact::Response => "response",
            UnknownFact::Withheld => "withheld",
            UnknownFact::Files => "files",
            UnknownFact::Condition => "condition",
        }
    }

    /// One clause for display, after a number of requests.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            UnknownFact::OtherOrigin => {
                "go to an origin that they did not go to before, or as other requests: the responses are unknown"
            }
            UnknownFact::Response => "got a response that was not recorded",
            UnknownFact::Withheld => {
                "depend on the value of a cookie or of a credential, which is not recorded"
            }
            UnknownFact::Files => "depend on the files of a directory, which are not examined",
            UnknownFact::Condition => {
                "depend on a condition about the value of a cookie, which is not recorded"
            }
        }
    }
}

/// The most variants of a key whose responses are known.
const VARIANTS: usize = 64;

/// A trial in progress: [`ConfigTrial::see`] each request in order, then [`ConfigTrial::finish`].
#[derive(Default)]
pub struct ConfigTrial<'r> {
    running: CacheModel,
    changed: CacheModel,
    /// The last response of each variant under a key of the running configuration; at most [`VARIANTS`] of a key.
    known: HashMap<u64, Vec<(u64, RecordedResponse<'r>)>>,
    sharing: SharingCheck,
    report: TrialReport,
}

impl<'r> ConfigTrial<'r> {
    /// Decides the request `number` under both configurations.
    pub fn see(
        &mut self,
        number: usize,
        request: &RecordedRequest<'r>,
        running: &TrialSide<'_>,
        changed: &TrialSide<'_>,
    ) {
        self.report.counts(request);
        let seen = Seen { number, request };
        let fact = [running, changed].into_iter().find_map(TrialSide::unknown);
        if fact == Some(UnknownFact::Condition) {
            return self.report.unknown(UnknownFact::Condition, request.weight);
        }
        if running.route != changed.route {
            let text = |it: Option<usize>| it.map_or_else(String::new, |it| it.to_string());
            self.report.changed(ChangeKind::Route, seen, text(running.route), text(changed.route), None);
        }
        if running.demands && !changed.demands && running.admits() && changed.admits() {
            self.sharing.opened(number, request.weight);
        }
        if let Some(fact) = fact {
            return self.report.unknown(fact, request.weight);
        }
        let is_other = running.asks() && changed.asks() && running.origin != changed.origin;
        let is_new = !running.asks() && changed.asks();
        self.compare_status(seen, running, changed);
        if matches!(changed.course, Course::File) && !matches!(running.course, Course::File) {
            return self.report.unknown(UnknownFact::Files, request.weight);
        }
        // An error of larder's own, an overlay or a limit: the cache and the origin took no part.
        if running.asks() && request.served == ServedBy::Other {
            return;
        }
        let facts = request.facts();
        let known = self.response_of(request, running);
        let seed = seed_of(request, running, known.as_ref());
        let ours = self.model(seen, &facts, running, known, seed, Side::Running);
        if is_other || is_new {
            return self.report.unknown(UnknownFact::OtherOrigin, request.weight);
        }
        let seed = seed.filter(|_| running.key() == changed.key());
        let theirs = self.model(seen, &facts, changed, known, seed, Side::Changed);
        if ours == ModelAnswer::Unknown || theirs == ModelAnswer::Unknown {
            self.report.unknown(UnknownFact::Response, request.weight);
        }
        self.compare_caching(seen, &facts, running, changed, known.as_ref());
    }

    /// The result.
    #[must_use]
    pub fn finish(mut self) -> TrialReport {
        let seconds = self.report.seconds().max(1);
        self.report.running = self.running.share(seconds);
        self.report.changed_share = self.changed.share(seconds);
        self.report.shared = self.sharing.finish();
        self.report
    }

    /// The response that decides about a request: its own, or the last of its variant under its key, or the stored one.
    fn response_of(
        &mut self,
        request: &RecordedRequest<'r>,
        running: &TrialSide<'_>,
    ) -> Option<RecordedResponse<'r>> {
        let own = request.response.filter(RecordedResponse::is_whole);
        let Course::Cached { key, policy } = running.course else { return own };
        let variant = |it: &RecordedResponse<'r>| variant_of(request, policy, it);
        let known = self.known.entry(xxh3_64(key)).or_default();
        if own.is_none()
            && let Some((_, found)) = known.iter().rev().find(|it| it.0 == variant(&it.1))
        {
            return Some(*found);
        }
        let found = own.or(request.stored)?;
        let variant = variant(&found);
        known.retain(|it| it.0 != variant);
        if known.len() == VARIANTS {
            known.remove(0);
        }
        known.push((variant, found));
        Some(found)
    }

    /// The answer of the cache of one configuration.
    fn model(
        &mut self,
        seen: Seen<'_, 'r>,
        facts: &RequestFacts<'_>,
        side: &TrialSide<'_>,
        response: Option<RecordedResponse<'r>>,
        seed: Option<WallTime>,
        of: Side,
    ) -> ModelAnswer {
        let model = match of {
            Side::Running => &mut self.running,
            Side::Changed => &mut self.changed,
        };
        match side.course {
            Course::Cached { key, policy } => public_form(policy, seen.request, response, |public| {
                let key = xxh3_64(key);
                let Some((request, response)) = public else {
                    let request = seen.request;
                    return model.see(&ModelRequest { request, facts, key, policy, response, seed });
                };
                let facts = &request.facts();
                model.see(&ModelRequest { request, facts, key, policy, response, seed })
            }),
            Course::Passed { .. } => model.passed(seen.request.weight),
            Course::Answered { .. } | Course::Refused { .. } | Course::File | Course::Unknown(_) => {
                ModelAnswer::None
            }
        }
    }

    fn compare_status(&mut self, seen: Seen<'_, 'r>, running: &TrialSide<'_>, changed: &TrialSide<'_>) {
        let now = match running.course {
            Course::Answered { status, .. } | Course::Refused { status, .. } => status,
            _ => seen.request.status,
        };
        let mut change = |kind, then: &str, key| {
            self.report.changed(kind, seen, now.to_string(), then.to_owned(), key);
        };
        match (running.course, changed.course) {
            (_, Course::Answered { status, key } | Course::Refused { status, key }) if status != now => {
                change(ChangeKind::Status, &status.to_string(), Some(key));
            }
            (_, Course::Answered { .. } | Course::Refused { .. }) => {}
            (Course::Refused { key, .. }, _) => change(ChangeKind::Open, "admitted", Some(key)),
            (Course::Answered { key, .. }, Course::File) => {
                change(ChangeKind::Status, "that of a file", Some(key));
            }
            (Course::Answered { key, .. }, _) => {
                change(ChangeKind::Status, "that of the origin", Some(key));
            }
            _ => {}
        }
    }

    /// Compares key, storability and lifetime, and notes a response that is newly shared.
    fn compare_caching(
        &mut self,
        seen: Seen<'_, 'r>,
        facts: &RequestFacts<'_>,
        running: &TrialSide<'_>,
        changed: &TrialSide<'_>,
        response: Option<&RecordedResponse<'r>>,
    ) {
        let verdict =
            |of| response.and_then(|response| CachingVerdict::of(seen.request, facts, of, response));
        let (now, then) = (verdict(running), verdict(changed));
        self.compare_keys(seen, (running.key(), now.as_ref()), (changed.key(), then.as_ref()));
        let (Some(response), Some(now), Some(then)) = (response, now, then) else { return };
        if now.is_stored() != then.is_stored() {
            let key = match now.is_stored() {
                _ if now.is_public != then.is_public => Some("cache.public_files"),
                true => then.key(),
                false => now.lifted_by(&then),
            };
            let (from, to) = (now.name().to_owned(), then.name().to_owned());
            self.report.changed(ChangeKind::Storage, seen, from, to, key);
        } else if let (true, Some(old), Some(new)) = (now.is_stored(), now.lifetime, then.lifetime)
            && old.seconds != new.seconds
        {
            let text = |it: u32| format!("{it} s");
            let key = now.lifetime_key(&then);
            self.report.changed(ChangeKind::Lifetime, seen, text(old.seconds), text(new.seconds), key);
        }
        if let Some(group) = then.group {
            // With `Set-Cookie`, also where `cache.public_files` removes it: the application may make the page for that client.
            self.sharing.note(seen.number, seen.request, response, &now, group);
        }
    }

    /// Compares the keys, and the names of the fields by which stored responses are kept apart.
    fn compare_keys(
        &mut self,
        seen: Seen<'_, 'r>,
        (now, by_now): (Option<&[u8]>, Option<&CachingVerdict>),
        (then, by_then): (Option<&[u8]>, Option<&CachingVerdict>),
    ) {
        let (Some(now), Some(then)) = (now, then) else { return };
        let is_stored = |it: Option<&CachingVerdict>| it.is_some_and(CachingVerdict::is_stored);
        let compares = is_stored(by_now) && is_stored(by_then);
        let names =
            |it: Option<&CachingVerdict>| it.filter(|_| compares).map_or("", |it| &it.vary).to_owned();
        let (one, other) = (names(by_now), names(by_then));
        if now == then && one == other {
            return;
        }
        let shown = |key: &[u8], names: &str| {
            let vary = if names.is_empty() { String::new() } else { format!(" vary: {names}") };
            format!("{}{vary}", shown_key(key))
        };
        let key = if now == then { "cache.vary" } else { "cache.key" };
        self.report.changed(ChangeKind::Key, seen, shown(now, &one), shown(then, &other), Some(key));
    }
}

/// A key for display, without the values of cookies, credentials and secret parameters.
fn shown_key(key: &[u8]) -> String {
    String::from_utf8_lossy(&secret::shown_key(key)).into_owned()
}

/// Which of the two configurations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Running,
    Changed,
}

/// A request with its number.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'s, 'r> {
    number: usize,
    request: &'s RecordedRequest<'r>,
}

impl<'r> RecordedRequest<'r> {
    fn facts(&self) -> RequestFacts<'r> {
        RequestFacts::read(self.method, self.fields).with_uri(self.scheme, self.authority, self.target)
    }
}

impl TrialSide<'_> {
    fn unknown(&self) -> Option<UnknownFact> {
        match self.course {
            Course::Unknown(fact) => Some(fact),
            _ => None,
        }
    }

    /// Whether the rules of access admit it, as far as that is known.
    fn admits(&self) -> bool {
        !matches!(self.course, Course::Answered { .. } | Course::Refused { .. })
            && self.unknown().is_none_or(|it| it == UnknownFact::Withheld && self.demands)
    }

    /// Whether an origin may be asked.
    fn asks(&self) -> bool {
        matches!(self.course, Course::Passed { .. } | Course::Cached { .. })
    }

    fn key(&self) -> Option<&[u8]> {
        match self.course {
            Course::Cached { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// The decision of one configuration about a response.
pub(crate) struct CachingVerdict {
    stored: Result<(), &'static str>,
    /// Whether it is withheld from others because it is one client's.
    of_one_client: bool,
    /// That of a stored one, and the one that a refused one would have.
    lifetime: Option<Lifetime>,
    /// A hash of its key and variant, where it is stored.
    group: Option<u64>,
    /// The names of its variant, in order.
    vary: String,
    refusal: Option<NotStorable>,
    /// `cache.max_ttl`.
    max_ttl: u32,
    /// Whether the request is for a file of `cache.public_files`.
    is_public: bool,
}

impl CachingVerdict {
    fn of(
        request: &RecordedRequest<'_>,
        facts: &RequestFacts<'_>,
        side: &TrialSide<'_>,
        response: &RecordedResponse<'_>,
    ) -> Option<Self> {
        let (key, policy) = match side.course {
            Course::Passed { why, of_one_client } => {
                return Some(Self { stored: Err(why), of_one_client, ..Self::STORED });
            }
            Course::Cached { key, policy } => (key, policy),
            _ => return None,
        };
        Some(public_form(policy, request, Some(*response), |public| match public {
            Some((request, Some(response))) => {
                let it = Self::of_cached(request, &request.facts(), (key, policy), &response);
                Self { is_public: true, ..it }
            }
            _ => Self::of_cached(request, facts, (key, policy), response),
        }))
    }

    fn of_cached(
        request: &RecordedRequest<'_>,
        facts: &RequestFacts<'_>,
        (key, policy): (&[u8], &Policy),
        response: &RecordedResponse<'_>,
    ) -> Self {
        let of_rule = rule(policy, request, response);
        let meta = meta(of_rule, response);
        let (lifetime, max_ttl) = (Some(meta.lifetime), of_rule.max_ttl);
        let it = Self { lifetime, max_ttl, ..Self::STORED };
        match judge(request, facts, policy, response) {
            Storable::Store => {
                let mut names: Vec<String> = meta.vary().iter().map(|it| it.to_ascii_lowercase()).collect();
                names.sort_unstable();
                Self { group: Some(group_of(request, key, &meta)), vary: names.join(", "), ..it }
            }
            Storable::Refuse(why) => {
                let of_one_client =
                    matches!(why, NotStorable::Private | NotStorable::NoStore | NotStorable::Authorization);
                let has_credentials = facts.has_credentials(policy);
                let stored = Err(reason_of(why, meta, has_credentials));
                Self { stored, of_one_client, refusal: Some(why), ..it }
            }
        }
    }

    const STORED: Self = Self {
        stored: Ok(()),
        of_one_client: false,
        lifetime: None,
        group: None,
        vary: String::new(),
        refusal: None,
        max_ttl: 0,
        is_public: false,
    };

    fn is_stored(&self) -> bool {
        self.stored.is_ok()
    }

    fn name(&self) -> &'static str {
        self.stored.err().unwrap_or("stored")
    }

    /// The key of the configuration that refuses it, if one does.
    fn key(&self) -> Option<&'static str> {
        Some(match self.refusal {
            Some(NotStorable::Disabled) => "cache.enabled",
            Some(NotStorable::SetCookie) => "cache.store_set_cookie",
            Some(NotStorable::TooLarge) => "cache.max_object",
            Some(NotStorable::Credentials) => "cache.private_cookies",
            Some(_) => return None,
            None if self.stored == Err("cache-off") => "cache.enabled",
            None if self.stored == Err("private-cookie") => "cache.private_cookies",
            None => return None,
        })
    }
}

impl CachingVerdict {
    /// The key by which `then` stores what this one refuses: a new lifetime permits sharing, as does another list of cookies.
    fn lifted_by(&self, then: &Self) -> Option<&'static str> {
        let source = |it: &Self| it.lifetime.and_then(source_key);
        let new = source(then).filter(|it| source(self) != Some(it));
        match self.refusal {
            Some(NotStorable::Credentials) => new.or(self.key()),
            _ => self.key().or(source(then)),
        }
    }

    /// The key by which `then` gives another lifetime.
    fn lifetime_key(&self, then: &Self) -> Option<&'static str> {
        let (old, new) = (self.lifetime?, then.lifetime?);
        let is_cut = old.seconds == self.max_ttl || new.seconds == then.max_ttl;
        if is_cut && self.max_ttl != then.max_ttl {
            return Some("cache.max_ttl");
        }
        source_key(new).or(source_key(old))
    }
}

/// The name of the reason for which a response is not stored: that of the statistics and of explain.
fn reason_of(why: NotStorable, meta: Meta, has_credentials: bool) -> &'static str {
    let of_request = match why {
        NotStorable::RequestBody => MissReason::RequestBody,
        _ => MissReason::Method,
    };
    let credentials = || if has_credentials { RequestCredentials::Some } else { RequestCredentials::None };
    miss_reason::refused(of_request, why, || meta, credentials).name()
}

/// The key of the configuration that gives a lifetime, if one does.
fn source_key(lifetime: Lifetime) -> Option<&'static str> {
    match lifetime.source {
        LifetimeSource::Override => Some("cache.override_ttl"),
        LifetimeSource::StatusDefault => Some("cache.status_ttl"),
        LifetimeSource::RouteDefault => Some("cache.default_ttl"),
        LifetimeSource::Heuristic => Some("cache.heuristic_percent"),
        _ => None,
    }
}

/// The policy for a response: with the rule of the route that holds.
fn rule<'p>(
    policy: &'p Policy,
    request: &RecordedRequest<'_>,
    response: &RecordedResponse<'_>,
) -> &'p Policy {
    let RecordedRequest { scheme, authority, target, .. } = *request;
    let RecordedResponse { status, fields, .. } = *response;
    policy.of_response(&ArrivingResponse { scheme, authority, target, status, fields })
}

/// Whether a response may be stored on a route with this policy.
fn judge(
    request: &RecordedRequest<'_>,
    facts: &RequestFacts<'_>,
    policy: &Policy,
    it: &RecordedResponse<'_>,
) -> Storable {
    let policy = rule(policy, request, it);
    match storable::decide(facts, it.status, it.fields, policy, it.time, it.time, &mut Silent) {
        // Without a declared length, a fill finds that out while it reads the body.
        Storable::Store if it.length > policy.max_object => Storable::Refuse(NotStorable::TooLarge),
        found => found,
    }
}

/// Calls `with` with a request for a file of `cache.public_files` and its response as the cache has them: without cookies in either
/// direction; with `None` for another request.
fn public_form<T>(
    policy: &Policy,
    request: &RecordedRequest<'_>,
    response: Option<RecordedResponse<'_>>,
    with: impl FnOnce(Option<(&RecordedRequest<'_>, Option<RecordedResponse<'_>>)>) -> T,
) -> T {
    if !cookies::is_public_file(policy, request.method, request.target) {
        return with(None);
    }
    let sent: Vec<Field<'_>> = request.fields.iter().filter(|it| !it.is("cookie")).copied().collect();
    let all = response.map_or(&[][..], |it| it.fields);
    let came: Vec<Field<'_>> = all.iter().filter(|it| !cookies::changes_cookies(it)).copied().collect();
    let response = response.map(|it| RecordedResponse { fields: &came, ..it });
    with(Some((&RecordedRequest { fields: &sent, ..*request }, response)))
}

/// A hash of a key with the variant of a request.
fn group_of(request: &RecordedRequest<'_>, key: &[u8], meta: &Meta) -> u64 {
    let mut group = key.to_vec();
    crate::vary::write_key(meta.vary(), request.fields, &mut group);
    xxh3_64(&group)
}

/// The variant of a response that a request selects, under one key.
fn variant_of(request: &RecordedRequest<'_>, policy: &Policy, it: &RecordedResponse<'_>) -> u64 {
    let variant =
        |request: &RecordedRequest<'_>| group_of(request, &[], &meta(rule(policy, request, it), it));
    public_form(policy, request, None, |public| variant(public.map_or(request, |it| it.0)))
}

fn meta(policy: &Policy, it: &RecordedResponse<'_>) -> Meta {
    Meta::of(it.status, it.fields, policy, it.time, it.time)
}

/// When the stored response arrived that a recorded hit got, by its remaining lifetime under the running configuration.
fn seed_of(
    request: &RecordedRequest<'_>,
    running: &TrialSide<'_>,
    response: Option<&RecordedResponse<'_>>,
) -> Option<WallTime> {
    let (ServedBy::Cache(ttl), Course::Cached { policy, .. }) = (request.served, running.course) else {
        return None;
    };
    let response = response?;
    let meta = meta(rule(policy, request, response), response);
    let age = i64::from(meta.lifetime.seconds) - i64::from(ttl);
    let resident = u64::try_from(age - i64::from(meta.initial_age)).unwrap_or(0);
    Some(WallTime(request.time.0.saturating_sub(resident)))
}

#[cfg(test)]
mod tests;
