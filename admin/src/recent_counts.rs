//! The counts of the last 30 to 60 minutes, for advice and the reasons of requests: the growth of the counters since a snapshot. A route
//! whose settings of the cache change begins again, since counts from before are no evidence about the new ones.

use super::Admin;
use larder_config::RouteConfig;
use larder_counters::RouteCounters;
use larder_semantics::advice::ReasonCount;
use larder_server::live::Live;
use larder_server::route_stats::{AdviceSums, ConfigScopes, ReasonSum};
use larder_stdx::clock;
use std::cell::RefCell;
use std::collections::HashMap;

/// Seconds between two snapshots: a fault that has ended leaves the advice after twice this time at the latest.
const HALF: u64 = 1800;

/// The counts of a route since its counters began, or their growth.
#[derive(Clone, Debug, Default)]
pub struct AdviceCounts {
    pub requests: u64,
    pub hits: u64,
    pub origin_requests: u64,
    /// Of each reason that occurred.
    pub reasons: Vec<ReasonCount>,
    pub sums: AdviceSums,
    /// The cookies that its application sets although it removes them, and how often.
    pub removed: Vec<(String, u64)>,
}

impl AdviceCounts {
    /// The growth since `before`. Evidence that pages differ is kept: a parameter, and whether a response was replaced.
    fn since(self, before: &Self) -> Self {
        let of_reason = |it: ReasonCount| {
            let then = before.reasons.iter().find(|then| then.reason == it.reason);
            let (requests, micros) = then.map_or((0, 0), |it| (it.requests, it.micros));
            ReasonCount {
                requests: it.requests.saturating_sub(requests),
                micros: it.micros.saturating_sub(micros),
                ..it
            }
        };
        let of_cookie = |(name, count): (String, u64)| {
            let then = before.removed.iter().find(|then| then.0 == name).map_or(0, |it| it.1);
            (name, count.saturating_sub(then))
        };
        let (sums, then) = (self.sums, before.sums);
        Self {
            requests: self.requests.saturating_sub(before.requests),
            hits: self.hits.saturating_sub(before.hits),
            origin_requests: self.origin_requests.saturating_sub(before.origin_requests),
            reasons: self.reasons.into_iter().map(of_reason).filter(|it| it.requests > 0).collect(),
            sums: AdviceSums {
                analytics: sums.analytics.saturating_sub(then.analytics),
                cookies: sums.cookies.saturating_sub(then.cookies),
                plain: sums.plain.saturating_sub(then.plain),
                anonymous: sums.anonymous.saturating_sub(then.anonymous),
                needless_private: sums.needless_private.saturating_sub(then.needless_private),
                needless_credentials: sums.needless_credentials.saturating_sub(then.needless_credentials),
                needless_first: sums.needless_first.saturating_sub(then.needless_first),
                parameters: sums.parameters,
                changed: sums.changed,
            },
            removed: self.removed.into_iter().map(of_cookie).filter(|it| it.1 > 0).collect(),
        }
    }
}

/// Two snapshots of counts that only grow, the later one up to [`HALF`] old. Times are seconds since the start.
#[derive(Default)]
struct CountWindow<T> {
    earlier: (u64, T),
    later: (u64, T),
}

impl<T: Clone> CountWindow<T> {
    fn begin(now: u64, counts: &T) -> Self {
        Self { earlier: (now, counts.clone()), later: (now, counts.clone()) }
    }

    /// Takes a snapshot if the last one is old enough.
    fn advance(&mut self, now: u64, counts: impl FnOnce() -> T) {
        if now.saturating_sub(self.later.0) >= HALF {
            self.earlier = std::mem::replace(&mut self.later, (now, counts()));
        }
    }

    /// The counts at the beginning, and the seconds since then.
    fn beginning(&self, now: u64) -> (&T, u64) {
        (&self.earlier.1, now.saturating_sub(self.earlier.0))
    }
}

#[derive(Default)]
struct RouteWindow {
    counts: CountWindow<AdviceCounts>,
    /// When the settings of the cache changed last, Unix seconds.
    changed: Option<u64>,
}

#[derive(Default)]
struct AllWindows {
    /// In the order of the scopes of routes.
    routes: Vec<RouteWindow>,
    /// Requests that an origin got a second time.
    retries: CountWindow<u64>,
}

/// The windows of all routes, and of the server. Of the main thread.
#[derive(Default)]
pub struct CountWindows(RefCell<AllWindows>);

/// The counts of a time range.
pub struct RecentRoute {
    /// Its length: shorter than that of the server if the settings of the route have changed.
    pub seconds: u64,
    /// The counts within it.
    pub counts: AdviceCounts,
}

impl Admin {
    /// Takes snapshots of the counters, if they are due.
    pub(super) fn advance_counts(&self, live: &Live) {
        let (now, configs) = (uptime(), configs(live));
        let mut windows = self.judged.counts.0.borrow_mut();
        windows.routes.resize_with(live.scopes.routes.len(), RouteWindow::default);
        for (at, it) in windows.routes.iter_mut().enumerate() {
            it.counts.advance(now, || self.counts_of(&live.scopes, at, configs.get(&at).copied()));
        }
        windows.retries.advance(now, || self.retries());
    }

    /// The counts of a route within its window.
    pub(super) fn recent_counts(&self, live: &Live, at: usize, config: &RouteConfig) -> RecentRoute {
        let windows = self.judged.counts.0.borrow();
        let counts = self.counts_of(&live.scopes, at, Some(config));
        match windows.routes.get(at).map(|it| it.counts.beginning(uptime())) {
            Some((before, seconds)) => RecentRoute { seconds, counts: counts.since(before) },
            None => RecentRoute { seconds: uptime(), counts },
        }
    }

    /// The requests that an origin got a second time within the window of the server, and its seconds.
    pub(super) fn recent_retries(&self) -> (u64, u64) {
        let windows = self.judged.counts.0.borrow();
        let (before, seconds) = windows.retries.beginning(uptime());
        (self.retries().saturating_sub(*before), seconds)
    }

    /// When the settings of the cache of a route changed, Unix seconds.
    pub(super) fn settings_changed(&self, at: usize) -> Option<u64> {
        self.judged.counts.0.borrow().routes.get(at)?.changed
    }

    /// Another configuration is in force: the windows of routes whose settings of the cache it changes begin again.
    pub(super) fn carry_counts_over(&self, before: &Live, after: &Live) {
        let (now, old, new) = (uptime(), configs(before), configs(after));
        let cache = |of: &HashMap<usize, &RouteConfig>, at| of.get(&at).map(|it| it.cache.clone());
        let mut windows = self.judged.counts.0.borrow_mut();
        let mut earlier = std::mem::take(&mut windows.routes);
        earlier.resize_with(before.scopes.routes.len(), RouteWindow::default);
        let moved = after.scopes.positions_since(&before.scopes).into_iter().enumerate().zip(earlier);
        let mut kept: HashMap<usize, (usize, RouteWindow)> =
            moved.filter_map(|((was, is), window)| Some((is?, (was, window)))).collect();
        let window = |at| match kept.remove(&at) {
            Some((was, window)) if cache(&old, was) == cache(&new, at) => window,
            found => {
                let counts = self.counts_of(&after.scopes, at, new.get(&at).copied());
                let changed = found.map(|_| clock::wall().0);
                RouteWindow { counts: CountWindow::begin(now, &counts), changed }
            }
        };
        windows.routes = (0..after.scopes.routes.len()).map(window).collect();
    }

    /// The counts of a route since its counters began.
    fn counts_of(&self, scopes: &ConfigScopes, at: usize, config: Option<&RouteConfig>) -> AdviceCounts {
        let counters = scopes.counters_of(at);
        let value = |name: &str| {
            let found = RouteCounters::TABLE.iter().zip(&counters).find(|it| it.0.name == name);
            found.map_or(0, |it| *it.1)
        };
        let reason =
            |it: ReasonSum| ReasonCount { reason: it.row.reason, requests: it.requests, micros: it.micros };
        AdviceCounts {
            requests: value("requests"),
            hits: value("hits"),
            origin_requests: value("origin_requests"),
            reasons: scopes.reasons_of(at).into_iter().map(reason).collect(),
            sums: scopes.advice_of(at),
            removed: config.map_or_else(Vec::new, |it| self.gateway.shared.removed_cookies.of(&it.name)),
        }
    }

    fn retries(&self) -> u64 {
        self.totals.sum_of(|it| &it.origin_retries)
    }
}

/// Seconds since the start.
fn uptime() -> u64 {
    clock::monotonic_now().0 / 1000
}

/// The configuration of each route, by the position of its scope.
pub(super) fn configs(live: &Live) -> HashMap<usize, &RouteConfig> {
    let of_site = live.scopes.sites.iter().zip(&live.config.sites);
    let routes = of_site.flat_map(|(scope, site)| scope.routes.iter().copied().zip(&site.routes));
    // Of routes that are counted as one, the first gets the requests.
    let mut configs = HashMap::new();
    for (at, it) in routes {
        configs.entry(at).or_insert(it);
    }
    configs
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::miss_reason::MissReason;

    #[test]
    fn the_window_is_of_half_an_hour_to_an_hour() {
        let mut window: CountWindow<u64> = CountWindow::default();
        for (now, counts, expect) in [
            (100, 5, (0, 100)),
            (HALF, 7, (0, HALF)),
            (2 * HALF - 1, 9, (0, 2 * HALF - 1)),
            (2 * HALF, 11, (7, HALF)),
            (3 * HALF + 60, 13, (11, HALF + 60)),
        ] {
            window.advance(now, || counts);
            assert_eq!((&expect.0, expect.1), window.beginning(now), "{now}");
        }
        assert_eq!((&3, 10), CountWindow::begin(50, &3).beginning(60));
    }

    #[test]
    fn counts_that_began_again_are_none_and_evidence_is_kept() {
        let counts = |requests, analytics, changed| AdviceCounts {
            requests,
            reasons: vec![ReasonCount { reason: MissReason::Expired, requests, micros: 10 * requests }],
            sums: AdviceSums { analytics, changed, ..AdviceSums::default() },
            removed: vec![("sid".to_owned(), requests)],
            ..AdviceCounts::default()
        };
        let grown = counts(9, 4, 1).since(&counts(4, 1, 1));
        assert_eq!((5, 5, 50), (grown.requests, grown.reasons[0].requests, grown.reasons[0].micros));
        assert_eq!((3, 1, 5), (grown.sums.analytics, grown.sums.changed, grown.removed[0].1));
        let again = counts(2, 0, 0).since(&counts(4, 1, 1));
        assert_eq!((0, 0, 0), (again.requests, again.reasons.len(), again.removed.len()));
    }
}
