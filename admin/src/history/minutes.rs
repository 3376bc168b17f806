//! The busiest routes and URLs of each minute of the last six hours: they show the differences of a time range. A name is kept once, and
//! each figure takes 16 bits.

use larder_counters::RouteCounters;
use larder_server::route_stats::ConfigScopes;
use larder_wire::history::{StoredMinute, StoredRoute, pack, unpack};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// The minutes that are kept: six hours.
pub const MINUTES: usize = 360;
/// The most routes of a minute: the busiest, where a server error counts as 16 requests.
pub const ROUTES: usize = 64;
/// The most reasons of a minute, of all routes together.
const REASONS: usize = 80;
/// The most reasons of one route.
const REASONS_OF_ROUTE: usize = 8;
/// The most URLs of a minute.
pub const URLS: usize = 16;
/// The most routes whose counters are compared.
const TRACKED: usize = 256;
/// The most names, and the bytes that are kept of one.
const NAMES: usize = 1024;
const NAME: usize = 120;
/// The requests for which a server error counts.
const ERROR_WEIGHT: u64 = 16;

/// The figures of a route, and their counters.
pub const FIGURES: [&str; 8] =
    ["requests", "errors_5xx", "errors_4xx", "hits", "misses", "passes", "origin_requests", "origin_us"];
/// Positions among the figures.
pub const ERRORS: usize = 1;
/// The microseconds of the origin.
pub const ORIGIN_MICROS: usize = 7;

/// Bytes of a reason of a route whose counters are compared; a route has about four.
const OF_REASON: usize = size_of::<(&str, u64, u64)>();

/// A URL, with the requests and the misses of a minute.
pub type UrlCount = (String, u64, u64);

#[derive(Clone, Copy)]
struct RouteFigures {
    name: u16,
    /// The number of its reasons in the list of the minute.
    reasons: u16,
    values: [u16; FIGURES.len()],
}

/// Of a reason its requests and the microseconds of their origins; of a URL its requests and misses.
#[derive(Clone, Copy)]
struct NamedPair {
    name: u16,
    first: u16,
    second: u16,
}

struct RouteMinute {
    at: u32,
    millis: u32,
    routes: Box<[RouteFigures]>,
    /// Those of the first route, then those of the second ...
    reasons: Box<[NamedPair]>,
    urls: Box<[NamedPair]>,
}

/// The counters of a route since the start.
#[derive(Clone, Default)]
struct RouteSums {
    counters: [u64; FIGURES.len()],
    /// Of each reason that occurred: its requests and microseconds.
    reasons: Vec<(&'static str, u64, u64)>,
}

/// Texts with numbers; an empty one is free.
#[derive(Default)]
struct NameTable(Vec<Box<str>>);

impl NameTable {
    /// The number of a name; `None` if there are too many.
    fn number(&mut self, name: &str) -> Option<u16> {
        let end = (0..=NAME.min(name.len())).rev().find(|it| name.is_char_boundary(*it)).unwrap_or(0);
        let name = if end == 0 { "-" } else { &name[..end] };
        let at = self.0.iter().position(|it| **it == *name).or_else(|| {
            let free = self.0.iter().position(|it| it.is_empty());
            let at = free.unwrap_or(self.0.len());
            match self.0.get_mut(at) {
                Some(it) => *it = name.into(),
                None if at < NAMES => self.0.push(name.into()),
                None => return None,
            }
            Some(at)
        })?;
        u16::try_from(at).ok()
    }

    /// The number of names that can be added.
    fn room(&self) -> usize {
        NAMES - self.0.len() + self.0.iter().filter(|it| it.is_empty()).count()
    }

    fn name(&self, number: u16) -> &str {
        self.0.get(usize::from(number)).map_or("", |it| it)
    }
}

/// The minutes.
pub struct RouteMinutes {
    names: NameTable,
    minutes: VecDeque<RouteMinute>,
    before: HashMap<String, RouteSums>,
    /// The time of the last reading, milliseconds since the start.
    last: Option<u64>,
    /// The minutes at the end that are not in the file.
    unsaved: usize,
    /// Whether the URLs of the last minute are yet to come.
    is_open: bool,
}

/// The sums over a time range.
#[derive(Default)]
pub struct RangeSums {
    /// Milliseconds with figures.
    pub millis: u64,
    /// By route.
    pub routes: BTreeMap<String, RouteRange>,
    /// By URL: requests and misses.
    pub urls: BTreeMap<String, (u64, u64)>,
}

/// The sums of a route over a time range.
#[derive(Default)]
pub struct RouteRange {
    /// In the order of [`FIGURES`].
    pub values: [u64; FIGURES.len()],
    /// By reason: requests and microseconds.
    pub reasons: BTreeMap<String, (u64, u64)>,
}

impl RouteMinutes {
    /// None yet.
    pub fn new() -> Self {
        Self {
            names: NameTable::default(),
            minutes: VecDeque::new(),
            before: HashMap::new(),
            last: None,
            unsaved: 0,
            is_open: false,
        }
    }

    /// Ends a minute; the first call only begins one. Its URLs come with [`RouteMinutes::urls`].
    pub fn take(&mut self, scopes: &ConfigScopes, at: u64, uptime: u64) {
        let now = sums(scopes);
        if let Some(last) = self.last {
            // Of more routes than are compared, one may be compared for the first time.
            let is_full = self.before.len() >= TRACKED;
            let mut grown: Vec<(&str, RouteSums)> = now
                .iter()
                .filter(|it| !is_full || self.before.contains_key(it.0))
                .filter_map(|(name, it)| {
                    let it = it.since(self.before.get(name));
                    (it.counters[0] + it.counters[6] > 0).then_some((name.as_str(), it))
                })
                .collect();
            grown.sort_by_key(|(name, it)| {
                (std::cmp::Reverse(it.counters[0] + ERROR_WEIGHT * it.counters[ERRORS]), *name)
            });
            grown.truncate(ROUTES);
            let millis = u32::try_from(uptime.saturating_sub(last)).unwrap_or(u32::MAX);
            self.push(u32::try_from(at).unwrap_or(u32::MAX), millis, &grown);
            self.unsaved = (self.unsaved + 1).min(self.minutes.len());
            self.is_open = true;
        }
        (self.before, self.last) = (now, Some(uptime));
    }

    fn push(&mut self, at: u32, millis: u32, grown: &[(&str, RouteSums)]) {
        self.make_room();
        let (mut routes, mut reasons) = (Vec::new(), Vec::new());
        for (name, it) in grown {
            let Some(name) = self.names.number(name) else { continue };
            let mut own = it.reasons.clone();
            own.sort_by_key(|it| std::cmp::Reverse(it.1));
            own.truncate(REASONS_OF_ROUTE.min(REASONS - reasons.len()));
            let numbered = own.iter().filter_map(|(name, requests, micros)| {
                let name = self.names.number(name)?;
                Some(NamedPair { name, first: pack(*requests), second: pack(*micros) })
            });
            let before = reasons.len();
            reasons.extend(numbered);
            let count = u16::try_from(reasons.len() - before).unwrap_or(0);
            routes.push(RouteFigures { name, reasons: count, values: it.counters.map(pack) });
        }
        self.minutes.push_back(RouteMinute {
            at,
            millis,
            routes: routes.into(),
            reasons: reasons.into(),
            urls: Box::default(),
        });
    }

    /// Drops the oldest minute of too many, and the names that no minute has. Where URLs differ from minute to minute, those of the
    /// oldest minutes make room for the names of routes.
    fn make_room(&mut self) {
        if self.minutes.len() == MINUTES {
            self.minutes.pop_front();
        }
        let mut dropped = 0;
        while self.names.room() < ROUTES + REASONS + URLS {
            self.drop_unused_names();
            if self.names.room() >= ROUTES + REASONS + URLS || dropped >= self.minutes.len() {
                return;
            }
            self.minutes.iter_mut().skip(dropped).take(30).for_each(|it| it.urls = Box::default());
            dropped += 30;
        }
    }

    fn drop_unused_names(&mut self) {
        let mut used = vec![false; self.names.0.len()];
        for minute in &self.minutes {
            let of_routes = minute.routes.iter().map(|it| it.name);
            let of_pairs = minute.reasons.iter().chain(&minute.urls).map(|it| it.name);
            of_routes.chain(of_pairs).for_each(|it| used[usize::from(it)] = true);
        }
        let unused = self.names.0.iter_mut().zip(used).filter(|it| !it.1);
        unused.for_each(|(name, _)| *name = Box::default());
    }

    /// The URLs of the last minute do not come: the process ends.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    /// The URLs of the last minute.
    pub fn urls(&mut self, urls: &[UrlCount]) {
        self.is_open = false;
        let pairs: Vec<NamedPair> = urls
            .iter()
            .take(URLS)
            .filter_map(|(url, requests, misses)| {
                let name = self.names.number(url)?;
                Some(NamedPair { name, first: pack(*requests), second: pack(*misses) })
            })
            .collect();
        if let Some(last) = self.minutes.back_mut() {
            last.urls = pairs.into();
        }
    }

    /// Puts the minutes of a file, the oldest first, in front of those of this process.
    pub fn restore(&mut self, earlier: &[StoredMinute]) {
        let own: Vec<RouteMinute> = self.minutes.drain(..).collect();
        let room = MINUTES - own.len();
        for it in &earlier[earlier.len().saturating_sub(room)..] {
            self.make_room();
            let minute = self.minute_of(it);
            self.minutes.push_back(minute);
        }
        self.minutes.extend(own);
    }

    fn minute_of(&mut self, it: &StoredMinute) -> RouteMinute {
        let (mut routes, mut reasons) = (Vec::new(), Vec::new());
        for route in it.routes.iter().take(ROUTES) {
            let Some(name) = self.names.number(&route.name) else { continue };
            let before = reasons.len();
            reasons.extend(self.pairs(&route.reasons, REASONS - before));
            let count = u16::try_from(reasons.len() - before).unwrap_or(0);
            let values = std::array::from_fn(|at| route.values.get(at).copied().unwrap_or(0));
            routes.push(RouteFigures { name, reasons: count, values });
        }
        let urls = self.pairs(&it.urls, URLS).into();
        RouteMinute { at: it.at, millis: it.millis, routes: routes.into(), reasons: reasons.into(), urls }
    }

    fn pairs(&mut self, all: &[(String, u16, u16)], most: usize) -> Vec<NamedPair> {
        let pair = |(name, first, second): &(String, u16, u16)| {
            Some(NamedPair { name: self.names.number(name)?, first: *first, second: *second })
        };
        all.iter().take(most).filter_map(pair).collect()
    }

    /// The minutes that are not in the file; the last one only with its URLs, or if `all` are wanted.
    pub fn unsaved(&self, all: bool) -> Vec<StoredMinute> {
        let open = usize::from(self.is_open && !all);
        let count = self.unsaved.saturating_sub(open);
        self.minutes
            .iter()
            .skip(self.minutes.len() - self.unsaved)
            .take(count)
            .map(|it| self.stored(it))
            .collect()
    }

    /// The minutes of [`RouteMinutes::unsaved`] are in the file.
    pub fn saved(&mut self) {
        self.unsaved = usize::from(self.is_open).min(self.unsaved);
    }

    /// All minutes.
    pub fn all(&self) -> impl Iterator<Item = StoredMinute> {
        self.minutes.iter().map(|it| self.stored(it))
    }

    fn stored(&self, it: &RouteMinute) -> StoredMinute {
        let pair = |it: &NamedPair| (self.names.name(it.name).to_owned(), it.first, it.second);
        let mut reasons = it.reasons.iter();
        let routes = it.routes.iter().map(|route| StoredRoute {
            name: self.names.name(route.name).to_owned(),
            values: route.values.to_vec(),
            reasons: reasons.by_ref().take(usize::from(route.reasons)).map(pair).collect(),
        });
        let routes = routes.collect();
        StoredMinute { at: it.at, millis: it.millis, routes, urls: it.urls.iter().map(pair).collect() }
    }

    /// The beginning of the oldest minute, Unix seconds; `None` without any.
    pub fn begin(&self) -> Option<u64> {
        self.minutes.front().map(|it| u64::from(it.at).saturating_sub(u64::from(it.millis) / 1000))
    }

    /// The sums over the minutes of which more than half lies within `from` to `to`; of a shorter range, over the minute of its middle.
    pub fn range(&self, from: u64, to: u64) -> RangeSums {
        let mut sums = RangeSums::default();
        for minute in self.minutes.iter().filter(|it| middle(it) >= from && middle(it) < to) {
            sums.millis += u64::from(minute.millis);
            let mut reasons = minute.reasons.iter();
            for route in &minute.routes {
                let of = sums.routes.entry(self.names.name(route.name).to_owned()).or_default();
                of.values.iter_mut().zip(route.values).for_each(|(sum, it)| *sum += unpack(it));
                for reason in reasons.by_ref().take(usize::from(route.reasons)) {
                    add(&mut of.reasons, self.names.name(reason.name), reason);
                }
            }
            minute.urls.iter().for_each(|it| add(&mut sums.urls, self.names.name(it.name), it));
        }
        sums
    }

    /// The beginning and the end of the minutes that a range touches; the range itself where there are none.
    pub fn whole_minutes(&self, from: u64, to: u64) -> (u64, u64) {
        let mut touched = self.minutes.iter().filter(|it| begin(it) < to && u64::from(it.at) > from);
        let Some(first) = touched.next() else { return (from, to) };
        let last = touched.next_back().unwrap_or(first);
        (begin(first), u64::from(last.at))
    }

    /// Whether a first minute has begun.
    pub fn is_begun(&self) -> bool {
        self.last.is_some()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let minute = |it: &RouteMinute| {
            size_of::<RouteMinute>()
                + it.routes.len() * size_of::<RouteFigures>()
                + (it.reasons.len() + it.urls.len()) * size_of::<NamedPair>()
        };
        let names = self.names.0.iter().map(|it| size_of::<Box<str>>() + it.len());
        let tracked = size_of::<(String, RouteSums)>();
        let before = self.before.iter().map(|it| tracked + it.0.len() + it.1.reasons.len() * OF_REASON);
        self.minutes.iter().map(minute).sum::<usize>() + names.sum::<usize>() + before.sum::<usize>()
    }

    /// The most bytes of memory.
    pub const fn most_bytes() -> usize {
        let minute = size_of::<RouteMinute>()
            + ROUTES * size_of::<RouteFigures>()
            + (REASONS + URLS) * size_of::<NamedPair>();
        let tracked = size_of::<(String, RouteSums)>() + NAME + 4 * OF_REASON;
        MINUTES * minute + NAMES * (NAME + 16) + TRACKED * tracked
    }
}

fn begin(it: &RouteMinute) -> u64 {
    u64::from(it.at).saturating_sub(u64::from(it.millis) / 1000)
}

fn middle(it: &RouteMinute) -> u64 {
    u64::midpoint(begin(it), u64::from(it.at))
}

fn add(sums: &mut BTreeMap<String, (u64, u64)>, name: &str, it: &NamedPair) {
    let sum = sums.entry(name.to_owned()).or_default();
    (sum.0, sum.1) = (sum.0 + unpack(it.first), sum.1 + unpack(it.second));
}

impl RouteSums {
    fn since(&self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self.clone() };
        let counters = std::array::from_fn(|at| self.counters[at].saturating_sub(before.counters[at]));
        let reasons = self.reasons.iter().map(|(name, requests, micros)| {
            let then = before.reasons.iter().find(|it| it.0 == *name).map_or((0, 0), |it| (it.1, it.2));
            (*name, requests.saturating_sub(then.0), micros.saturating_sub(then.1))
        });
        Self { counters, reasons: reasons.filter(|it| it.1 > 0).collect() }
    }
}

/// The counters of the busiest routes since the start; those of routes with one name are added.
fn sums(scopes: &ConfigScopes) -> HashMap<String, RouteSums> {
    let place = |name: &str| RouteCounters::TABLE.iter().position(|it| it.name == name);
    let places = FIGURES.map(place);
    let mut numbers: Vec<(u64, usize)> =
        (0..scopes.routes.len()).map(|it| (scopes.errors_of(it).0, it)).collect();
    if numbers.len() > TRACKED {
        numbers.sort_unstable_by_key(|it| std::cmp::Reverse(it.0));
        numbers.truncate(TRACKED);
    }
    let mut all: HashMap<String, RouteSums> = HashMap::new();
    for (_, route) in numbers {
        let (name, counters) = (&scopes.routes[route].name, scopes.counters_of(route));
        let sums = all.entry(name.clone()).or_default();
        for (sum, place) in sums.counters.iter_mut().zip(places) {
            *sum += place.and_then(|it| counters.get(it)).copied().unwrap_or(0);
        }
        for it in scopes.reasons_of(route) {
            match sums.reasons.iter_mut().find(|known| known.0 == it.row.name) {
                Some(known) => (known.1, known.2) = (known.1 + it.requests, known.2 + it.micros),
                None => sums.reasons.push((it.row.name, it.requests, it.micros)),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(requests: u64, errors: u64) -> RouteSums {
        let counters = [requests, errors, 0, 0, requests, 0, requests, 1000 * requests];
        RouteSums { counters, reasons: vec![("expired", requests, 1000 * requests)] }
    }

    fn minutes(count: u32) -> RouteMinutes {
        let mut all = RouteMinutes::new();
        for minute in 1..=count {
            let sick = if minute == 3 { 50 } else { 0 };
            all.push(60 * minute, 60_000, &[("a/*", route(100, sick)), ("b/*", route(10, 0))]);
            all.unsaved = (all.unsaved + 1).min(all.minutes.len());
            all.urls(&[(format!("http://a/{minute}"), 7, 3)]);
        }
        all
    }

    #[test]
    fn a_range_is_the_sum_of_its_minutes() {
        let all = minutes(5);
        let range = all.range(120, 240);
        assert_eq!((120_000, 2), (range.millis, range.routes.len()));
        assert_eq!([200, 50, 0, 0, 200, 0, 200], range.routes["a/*"].values[..7]);
        assert_eq!((20, 20), (range.routes["b/*"].values[0], range.routes["b/*"].reasons["expired"].0));
        assert_eq!(vec!["http://a/3", "http://a/4"], range.urls.keys().collect::<Vec<_>>());
        assert_eq!((60, 240), all.whole_minutes(100, 190));
        assert_eq!((Some(0), (900, 901)), (all.begin(), all.whole_minutes(900, 901)));
    }

    #[test]
    fn minutes_are_restored_as_they_were_stored() {
        let all = minutes(5);
        let stored: Vec<StoredMinute> = all.all().collect();
        let mut next = RouteMinutes::new();
        next.push(1000, 60_000, &[("c/*", route(1, 0))]);
        next.restore(&stored);
        let again: Vec<StoredMinute> = next.all().collect();
        assert_eq!((6, &stored[..]), (again.len(), &again[..5]));
        assert_eq!("c/*", again[5].routes[0].name);
        assert!(next.unsaved(true).is_empty(), "those of the file are in the file");
    }

    #[test]
    fn the_last_minute_is_saved_with_its_urls() {
        let mut all = minutes(2);
        assert_eq!(2, all.unsaved(false).len());
        all.saved();
        assert!(all.unsaved(false).is_empty());
        all.push(180, 60_000, &[]);
        (all.unsaved, all.is_open) = (1, true);
        assert_eq!((0, 1), (all.unsaved(false).len(), all.unsaved(true).len()));
        all.saved();
        all.urls(&[]);
        assert_eq!(1, all.unsaved(false).len());
    }

    #[test]
    fn minutes_and_names_are_bounded() {
        let mut all = RouteMinutes::new();
        for minute in 0..500 {
            let names: Vec<String> =
                (0..ROUTES).map(|it| format!("{minute}-{it}-{}", "ä".repeat(NAME))).collect();
            let grown: Vec<(&str, RouteSums)> = names.iter().map(|it| (it.as_str(), route(1, 1))).collect();
            all.push(minute, 60_000, &grown);
        }
        assert_eq!(MINUTES, all.minutes.len());
        assert!(all.names.0.len() <= NAMES && all.names.0.iter().all(|it| it.len() <= NAME));
        assert!(all.minutes.iter().all(|it| it.reasons.len() <= REASONS));
        let mut all = RouteMinutes::new();
        for minute in 0..MINUTES as u32 {
            all.push(minute, 60_000, &[("a/*", route(1, 0))]);
            all.urls(&(0..URLS).map(|it| (format!("{minute}-{it}"), 1, 1)).collect::<Vec<_>>());
        }
        assert!(all.minutes.iter().all(|it| it.routes.len() == 1 && it.reasons.len() == 1), "URLs give way");
        assert!(all.minutes.iter().rev().take(20).all(|it| it.urls.len() == URLS), "the latest stay");
        assert!(RouteMinutes::most_bytes() <= 920 << 10, "{}", RouteMinutes::most_bytes());
    }
}
