//! Counts every finished request for its route, with its duration. One worker's: plain stores, and a branch if it is
//! switched off. The counters themselves are in `server::route_stats`.
//!
//! Every response at the slow speed is timed. A fast answer is too short for two readings of the clock, so that of those
//! the first few of each second are timed, and of the rest one in [`EACH`], which then represents all of them. The second
//! is the coarse clock's. So the times of a quiet server are exact, and those of a busy one cost little.

use super::RequestOutcome;
use larder_counters::{CookieNames, Histogram, RouteScope, WorkerScope};
use larder_semantics::analytics;
use larder_semantics::cache_status::{AnsweringTier, CacheReport};
use larder_semantics::coding::{AcceptedCodings, Coding};
use larder_semantics::cookies;
use larder_semantics::field::Field;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::parameter;
use larder_semantics::reuse::ForwardReason;
use larder_semantics::trial::facts;
use larder_stdx::clock;
use std::cell::Cell;
use std::sync::Arc;

/// Fast answers of a second that are all timed.
const FIRST: u32 = 64;
/// Of later ones, one in this many is timed: a prime, so that no pattern of requests always hits the same.
const EACH: u32 = 61;

/// A fast answer that is timed.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    started: u64,
    /// The number of answers that it stands for.
    pub weight: u64,
}

/// The counters of one worker.
pub struct WorkerScopes {
    is_on: Cell<bool>,
    own: Arc<WorkerScope>,
    sampler: TimingSampler,
}

impl WorkerScopes {
    /// Counts into `own`, and into the scopes of the routes.
    #[must_use]
    pub fn new(own: Arc<WorkerScope>, is_on: bool) -> Self {
        Self { is_on: Cell::new(is_on), own, sampler: TimingSampler::default() }
    }

    /// Switches counting on or off.
    pub fn switch(&self, is_on: bool) {
        self.is_on.set(is_on);
    }

    /// Called before a request that may be answered at the fast speed: begins to time it if it is sampled.
    #[inline]
    pub fn begin(&self) -> Option<Timed> {
        if !self.is_on.get() {
            return None;
        }
        let weight = self.sampler.weight(clock::wall().0)?;
        Some(Timed { started: clock::precise_micros(), weight })
    }

    /// Counts a fast answer.
    #[inline]
    pub fn fast(&self, scope: Option<&RouteScope>, outcome: &RequestOutcome, timed: Option<Timed>) {
        if !self.is_on.get() {
            return;
        }
        self.count(scope, outcome);
        if let Some(Timed { started, weight }) = timed {
            self.time(scope, outcome, clock::precise_micros().saturating_sub(started), weight);
        }
    }

    /// Whether other requests are timed: [`WorkerScopes::slow`] needs their beginning.
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Counts a request that was answered at the slow speed, in `micros` from its head to its last byte.
    pub fn slow(&self, scope: Option<&RouteScope>, outcome: &RequestOutcome, micros: u64) {
        if !self.is_on.get() {
            return;
        }
        self.count(scope, outcome);
        self.time(scope, outcome, micros, 1);
    }

    /// Keeps the request as an example of its reason for asking the origin, counts the facts for advice, and counts one that waited
    /// for another's fetch: it did not reach the origin, where the others are counted.
    pub fn reason(
        &self,
        scope: Option<&RouteScope>,
        outcome: &RequestOutcome,
        (method, target, fields): (&str, &str, &[Field<'_>]),
        url: impl FnOnce() -> String,
    ) {
        let (Some(reason), Some(scope), true) = (outcome.reason, scope, self.is_on.get()) else { return };
        if reason == MissReason::Waited {
            scope.reasons.add(reason.index());
        }
        count_needless(scope, reason, target, fields);
        match reason {
            MissReason::FirstRequest => {
                let bits = analytics::parameters_of(target);
                if bits != 0 {
                    scope.advice.saw_parameters(bits);
                }
            }
            // Of errors a lifetime of the route is none: `cache.status_ttl` decides about them.
            MissReason::NoLifetime
                if outcome.status < 400
                    && !fields.iter().any(|it| it.is("cookie") || it.is("authorization")) =>
            {
                scope.advice.anonymous.add(1);
                let renewed = |it: &CacheReport| {
                    matches!(
                        it,
                        CacheReport::Forwarded { reason: ForwardReason::Stale, status: Some(200), .. }
                    )
                };
                scope.advice.changed.add(u64::from(outcome.report.as_ref().is_some_and(renewed)));
            }
            MissReason::PrivateCookie if cookies::are_only(fields, analytics::COOKIES) => {
                scope.advice.cookies.add(1);
            }
            MissReason::Credentials
                if cookies::are_only(fields, analytics::COOKIES) && !facts::has_identity(fields) =>
            {
                scope.advice.cookies.add(1);
            }
            _ => {}
        }
        let is_stored = matches!(outcome.report, Some(CacheReport::Forwarded { stored: true, .. }));
        if is_stored && outcome.origin.as_ref().is_some_and(|it| it.is_plain_text) {
            let accepted = AcceptedCodings::read(fields);
            let likes_gzip = !accepted.is_indifferent() && accepted.quality(Coding::Gzip) > 0;
            scope.advice.plain.add(u64::from(likes_gzip));
        }
        scope.examples.keep(reason.index(), clock::wall().0, method, url);
    }

    fn count(&self, scope: Option<&RouteScope>, outcome: &RequestOutcome) {
        if let Some(CacheReport::Hit { tier, .. }) = outcome.report {
            let tier = match tier {
                AnsweringTier::Ram => &self.own.ram,
                AnsweringTier::Disk => &self.own.disk,
                AnsweringTier::Fleet => &self.own.fleet,
            };
            tier.hits.add(1);
            tier.bytes_served.add(outcome.body);
            tier.saved_us.add(scope.map_or(0, |it| it.lately.micros()));
        }
        if let Some(scope) = scope {
            count(scope, outcome);
        }
    }

    fn time(&self, scope: Option<&RouteScope>, outcome: &RequestOutcome, micros: u64, weight: u64) {
        self.histogram(outcome.report).record(micros, weight);
        if let Some(scope) = scope {
            scope.latency.record(micros, weight);
        }
    }

    fn histogram(&self, report: Option<CacheReport>) -> &Histogram {
        match report {
            Some(CacheReport::Hit { .. }) => &self.own.hit,
            Some(it) if it.is_pass() => &self.own.pass,
            Some(CacheReport::Forwarded { .. } | CacheReport::SharedFailure { .. }) => &self.own.miss,
            Some(CacheReport::Overlay | CacheReport::OnlyIfCached | CacheReport::OverBudget { .. })
            | None => &self.own.other,
        }
    }
}

/// Counts one request.
fn count(scope: &RouteScope, outcome: &RequestOutcome) {
    let into = &scope.counters;
    into.requests.add(1);
    into.bytes_sent.add(outcome.body);
    match outcome.status {
        _ if outcome.is_server_error() => into.errors_5xx.add(1),
        400..=499 => into.errors_4xx.add(1),
        _ => {}
    }
    match outcome.report {
        Some(CacheReport::Hit { ttl, tier }) => {
            into.hits.add(1);
            into.saved_us.add(scope.lately.micros());
            into.stale.add(u64::from(ttl <= 0));
            match tier {
                AnsweringTier::Ram => into.hits_ram.add(1),
                AnsweringTier::Disk => into.hits_disk.add(1),
                AnsweringTier::Fleet => into.hits_fleet.add(1),
            }
        }
        Some(it) if it.is_pass() => into.passes.add(1),
        Some(CacheReport::Forwarded { status, reason, .. }) => {
            into.misses.add(1);
            into.revalidated.add(u64::from(status == Some(304) && reason != ForwardReason::UriMiss));
        }
        Some(CacheReport::SharedFailure { .. }) => into.misses.add(1),
        // The gateway counts requests beyond a budget.
        Some(CacheReport::Overlay | CacheReport::OnlyIfCached | CacheReport::OverBudget { .. }) | None => {}
    }
}

/// Chooses the fast answers that are timed.
#[derive(Default)]
struct TimingSampler {
    second: Cell<u64>,
    /// The number of answers in this second.
    seen: Cell<u32>,
}

impl TimingSampler {
    /// The number of answers that one of this second represents; `None` if it is not timed.
    #[inline]
    fn weight(&self, second: u64) -> Option<u64> {
        if self.second.replace(second) != second {
            self.seen.set(0);
        }
        let seen = self.seen.get();
        if seen < FIRST {
            self.seen.set(seen + 1);
            return Some(1);
        }
        if seen < FIRST + EACH - 1 {
            self.seen.set(seen + 1);
            return None;
        }
        self.seen.set(FIRST);
        Some(u64::from(EACH))
    }
}

/// Counts a request that was withheld from the cache because of cookies that change no page of its route, or a first one for a URL whose
/// parameters change none.
fn count_needless(scope: &RouteScope, reason: MissReason, target: &str, fields: &[Field<'_>]) {
    if reason == MissReason::FirstRequest {
        let is_free = |it: &CookieNames| parameter::has_one_of(target, &it.parameters);
        scope.advice.needless_first.add(u64::from(scope.needless.names().is_some_and(|it| is_free(&it))));
    }
    let counter = match reason {
        MissReason::PrivateCookie => &scope.advice.needless_private,
        MissReason::Credentials => &scope.advice.needless_credentials,
        _ => return,
    };
    let is_free = |it: &CookieNames| cookies::are_ignored(fields, &it.private, &it.ignored);
    if scope.needless.names().is_some_and(|it| is_free(&it)) && !facts::is_identified(fields) {
        counter.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_counters::{RouteCounters, Snapshot};

    #[track_caller]
    fn check(status: u16, report: Option<CacheReport>, expect: &[&str]) {
        let (scope, all) = (RouteScope::default(), WorkerScopes::new(Arc::default(), true));
        let outcome = RequestOutcome { report, ..RequestOutcome::whole(status, 1, None) };
        all.slow(Some(&scope), &outcome, 5);
        let values = RouteCounters::TABLE.iter().zip(scope.counters.values());
        let counted: Vec<&str> = values.filter(|it| it.1 == 1).map(|it| it.0.name).collect();
        let expect: Vec<&str> =
            RouteCounters::TABLE.iter().map(|it| it.name).filter(|it| expect.contains(it)).collect();
        assert_eq!(expect, counted, "{status} {report:?}");
    }

    #[test]
    fn a_request_is_counted_by_its_outcome() {
        let hit = |ttl, tier| Some(CacheReport::Hit { ttl, tier });
        let asked =
            |reason, status| Some(CacheReport::Forwarded { reason, status, stored: true, collapsed: false });
        let own = &["requests", "bytes_sent"];
        let with = |more: &[&'static str]| [own, more].concat();
        check(200, hit(3, AnsweringTier::Ram), &with(&["hits", "hits_ram"]));
        check(200, hit(0, AnsweringTier::Disk), &with(&["hits", "hits_disk", "stale"]));
        check(404, hit(1, AnsweringTier::Fleet), &with(&["hits", "hits_fleet", "errors_4xx"]));
        check(200, asked(ForwardReason::UriMiss, Some(200)), &with(&["misses"]));
        check(200, asked(ForwardReason::Stale, Some(304)), &with(&["misses", "revalidated"]));
        check(304, asked(ForwardReason::UriMiss, Some(304)), &with(&["misses"]));
        check(502, asked(ForwardReason::Bypass, None), &with(&["passes", "errors_5xx"]));
        check(200, asked(ForwardReason::Method, Some(200)), &with(&["passes"]));
        check(200, Some(CacheReport::Overlay), own);
        check(200, None, own);
    }

    /// Each hit saves the time that the origin took then: the sum stays when the origin becomes faster.
    #[test]
    fn saved_time_does_not_fall_when_the_origin_becomes_faster() {
        let (scope, all) = (RouteScope::default(), WorkerScopes::new(Arc::default(), true));
        let saved = || (scope.counters.saved_us.get(), all.own.disk.saved_us.get());
        let hit = || all.slow(Some(&scope), &RequestOutcome::whole(200, 1, hit_of(AnsweringTier::Disk)), 5);
        hit();
        assert_eq!((0, 0), saved(), "the origin was not asked yet");
        scope.lately.note(800);
        hit();
        assert_eq!((800, 800), saved());
        scope.lately.note(0);
        hit();
        assert_eq!((1500, 1500), saved());
        all.slow(Some(&scope), &RequestOutcome::whole(200, 1, None), 5);
        assert_eq!((1500, 1500), saved(), "it was no hit");
    }

    fn hit_of(tier: AnsweringTier) -> Option<CacheReport> {
        Some(CacheReport::Hit { ttl: 3, tier })
    }

    #[test]
    fn many_requests_of_a_second_are_timed_by_weighted_samples() {
        let sampler = TimingSampler::default();
        let weights =
            |second, count: u64| (0..count).filter_map(|_| sampler.weight(second)).collect::<Vec<_>>();
        assert_eq!(vec![1; 64], weights(1, 64));
        assert_eq!(vec![61; 3], weights(1, 3 * 61));
        assert_eq!(Vec::<u64>::new(), weights(1, 60), "the next is its turn");
        assert_eq!(vec![1; 64], weights(2, 64 + 60), "a new second");
        assert_eq!(vec![61], weights(2, 1));
    }

    #[test]
    fn statistics_that_are_off_count_nothing() {
        let (scope, all) = (RouteScope::default(), WorkerScopes::new(Arc::default(), false));
        let outcome = RequestOutcome::whole(200, 1, None);
        assert!(all.begin().is_none());
        all.fast(Some(&scope), &outcome, Some(Timed { started: 0, weight: 1 }));
        all.slow(Some(&scope), &outcome, 1);
        assert_eq!(0, scope.counters.values().sum::<u64>());
        all.switch(true);
        let timed = all.begin();
        all.fast(Some(&scope), &outcome, timed);
        assert_eq!(2, scope.counters.values().sum::<u64>());
        assert_eq!(1, Snapshot::of([&all.own.other, &all.own.hit]).count());
    }
}
