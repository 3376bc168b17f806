//! The worst requests, without sampling: the slowest of a day, and of those that failed the latest, and before them some of each route and
//! minute, of all workers. A hit of RAM is never among
//! them; any other request is compared with a threshold. Credentials are not kept: neither fields nor the values of secret parameters.

use super::Finished;
use super::RequestOutcome;
use super::ids::RequestId;
use super::log::ResponseEnd;
use larder_semantics::secret;
use larder_stdx::clock;
use larder_wire::history::StoredRequest;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The slow requests that are kept.
pub const SLOW: usize = 100;
/// The latest failed requests, which are kept in any case.
pub const LATEST: usize = 30;
/// The failed requests before them that are kept: one route that fails all the time has one in each minute of the last hour.
pub const EARLIER: usize = 76;
/// Of them, those of one route and minute at most; once all places are taken, one of each earlier minute.
const OF_A_MINUTE: usize = 2;
/// The failed requests that are kept.
const FAILED: usize = LATEST + EARLIER;
/// Seconds for which a slow request is kept.
const DAY: u64 = 86_400;
/// Seconds by which a slow request may be in the future: a clock that is corrected by less loses none.
const CLOCK_STEP: u64 = 3600;
/// The most bytes of a URL, of the sentence on a failure, of any other text that is not larder's, and of a name of larder.
const URL: usize = 320;
const FAILURE: usize = 128;
const TEXT: usize = 64;
const NAME: usize = 32;
/// A larger response is compared by the time of its origin: the rest depends on the client.
const LARGE: u64 = 256 << 10;
/// Switching protocols: the duration is that of the connection.
const UPGRADED: u16 = 101;

/// In a kept status: the origin broke the response off.
const BROKEN: u16 = 1 << 15;

/// The names of the texts of a request, in their order.
pub const TEXTS: [&str; 9] =
    ["id", "method", "url", "route", "cache", "reason", "origin", "request_id", "failure"];

/// The most bytes of a text.
const fn most_of(name: &str) -> usize {
    match name.as_bytes() {
        b"url" => URL,
        b"failure" => FAILURE,
        b"id" | b"method" | b"cache" | b"reason" => NAME,
        _ => TEXT,
    }
}

/// A kept request.
pub struct WorstRequest {
    /// The request with its response.
    pub request: StoredRequest,
    /// Its number in the order of arrival.
    number: u64,
}

impl WorstRequest {
    /// The text with a name of [`TEXTS`].
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        let at = TEXTS.iter().position(|it| *it == name);
        at.map_or("", |at| &self.request.texts[at])
    }

    /// The status that was sent; 0 if none was.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.request.status & !BROKEN
    }

    /// Whether the origin broke the response off.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.request.status & BROKEN != 0
    }

    fn is_failure(&self) -> bool {
        self.is_broken() || self.status() >= 500
    }
}

#[derive(Default)]
struct WorstLists {
    /// The slowest first.
    slow: Vec<Arc<WorstRequest>>,
    /// The latest that failed, the oldest first.
    failed: Vec<Arc<WorstRequest>>,
    /// Some of those before them, the oldest first.
    earlier: Vec<Arc<WorstRequest>>,
    /// The number of requests so far, and of those that are in the file.
    numbers: u64,
    saved: u64,
}

impl WorstLists {
    /// Adds the latest request that failed.
    fn add_failed(&mut self, it: Arc<WorstRequest>) {
        self.failed.push(it);
        if self.failed.len() <= LATEST {
            return;
        }
        let past = self.failed.remove(0);
        let minute = |it: &WorstRequest| it.request.at / 60;
        let is_like =
            |it: &&Arc<WorstRequest>| minute(it) == minute(&past) && it.text("route") == past.text("route");
        if self.earlier.iter().rev().filter(is_like).take(OF_A_MINUTE).count() == OF_A_MINUTE {
            return;
        }
        if self.earlier.len() == EARLIER {
            let is_doubled = |at: &usize| {
                let it = &self.earlier[*at];
                let later = self.earlier[at + 1..].iter().take_while(|other| minute(other) == minute(it));
                later.into_iter().any(|other| other.text("route") == it.text("route"))
            };
            let surplus = (0..EARLIER).find(is_doubled).unwrap_or(0);
            self.earlier.remove(surplus);
        }
        self.earlier.push(past);
    }

    /// All that failed, the oldest first.
    fn all_failed(&self) -> impl DoubleEndedIterator<Item = &Arc<WorstRequest>> {
        self.earlier.iter().chain(&self.failed)
    }
}

/// The worst requests of all workers.
#[derive(Default)]
pub struct Worst {
    /// The duration above which a request is among the slowest, microseconds.
    over: AtomicU64,
    lists: Mutex<WorstLists>,
}

/// The duration by which a request is compared with others, microseconds.
fn rank(outcome: &RequestOutcome, micros: u64) -> u64 {
    let of_origin = outcome.origin.as_ref().map_or(0, |it| it.micros);
    let by_client = outcome.body > LARGE || outcome.end == ResponseEnd::Cut || outcome.status == UPGRADED;
    if by_client { of_origin } else { micros }
}

fn failed(outcome: &RequestOutcome) -> bool {
    // Maintenance and fixed answers are the operator's own.
    outcome.is_server_error() && (outcome.report.is_some() || outcome.origin.is_some())
}

impl Worst {
    /// Whether a request that was no hit of RAM is kept.
    #[must_use]
    pub fn wants(&self, outcome: &RequestOutcome, micros: u64) -> bool {
        failed(outcome) || rank(outcome, micros) > self.over.load(Relaxed)
    }

    /// Keeps a request for which [`Worst::wants`] holds.
    pub fn insert(&self, it: &Finished<'_>, id: RequestId) {
        let (outcome, micros) = (it.outcome, it.micros.unwrap_or(0));
        let url = format!("{}://{}{}", it.scheme.name(), it.authority, secret::shown_target(it.target));
        let request_id = it.request_id.map(String::from_utf8_lossy).unwrap_or_default();
        let origin = outcome.origin.as_ref();
        let texts = [
            id.to_string(),
            cut(it.method, NAME),
            cut(&url, URL),
            cut(it.route, TEXT),
            outcome.cache().to_owned(),
            outcome.reason().to_owned(),
            cut(origin.map_or("", |it| &it.name), TEXT),
            cut(&request_id, TEXT),
            cut(outcome.failure.as_deref().unwrap_or_default(), FAILURE),
        ];
        self.put(StoredRequest {
            at: clock::wall().0,
            micros,
            rank: rank(outcome, micros),
            origin_micros: origin.map_or(0, |it| it.micros),
            status: outcome.status | if outcome.end == ResponseEnd::Broken { BROKEN } else { 0 },
            texts,
        });
    }

    fn put(&self, request: StoredRequest) {
        let mut lists = self.guard();
        lists.numbers += 1;
        let it = Arc::new(WorstRequest { request, number: lists.numbers });
        if it.is_failure() {
            lists.add_failed(it.clone());
        }
        let at = lists.slow.partition_point(|other| other.request.rank >= it.request.rank);
        if at < SLOW {
            lists.slow.insert(at, it);
            lists.slow.truncate(SLOW);
        }
        self.set_threshold(&lists);
    }

    fn set_threshold(&self, lists: &WorstLists) {
        let over = lists.slow.get(SLOW - 1).map_or(0, |it| it.request.rank);
        self.over.store(over, Relaxed);
    }

    /// Drops slow requests that are older than a day, and those from the future: the clock was set back. To be called about once a minute.
    pub fn advance(&self, now: u64) {
        let mut lists = self.guard();
        lists.slow.retain(|it| it.request.at + DAY > now && it.request.at <= now + CLOCK_STEP);
        self.set_threshold(&lists);
    }

    /// The slow requests, the slowest first, and the failed ones, the latest first.
    #[must_use]
    pub fn lists(&self) -> (Vec<Arc<WorstRequest>>, Vec<Arc<WorstRequest>>) {
        let lists = self.guard();
        (lists.slow.clone(), lists.all_failed().rev().cloned().collect())
    }

    /// The requests that are not in the file, or `all`, in the order of arrival, and the number of requests so far, for [`Worst::saved`].
    #[must_use]
    pub fn stored(&self, all: bool) -> (Vec<StoredRequest>, u64) {
        let lists = self.guard();
        let saved = if all { None } else { Some(lists.saved) };
        let mut found: Vec<&Arc<WorstRequest>> = lists
            .slow
            .iter()
            .chain(lists.all_failed())
            .filter(|it| saved.is_none_or(|saved| it.number > saved))
            .collect();
        found.sort_by_key(|it| (it.number, it.request.at));
        found.dedup_by(|a, b| Arc::ptr_eq(a, b));
        (found.into_iter().map(|it| it.request.clone()).collect(), lists.numbers)
    }

    /// The requests that [`Worst::stored`] gave with this number are in the file. Workers may have added others meanwhile.
    pub fn saved(&self, number: u64) {
        self.guard().saved = number;
    }

    /// Adds the requests of a file, the oldest first, to those of this process.
    pub fn restore(&self, earlier: Vec<StoredRequest>) {
        let mut lists = self.guard();
        let mut restored: Vec<Arc<WorstRequest>> = Vec::new();
        for mut request in earlier {
            if restored.iter().any(|it| it.request == request) {
                continue;
            }
            request.texts.iter_mut().zip(TEXTS).for_each(|(text, name)| {
                *text = cut(text, most_of(name));
            });
            restored.push(Arc::new(WorstRequest { request, number: 0 }));
        }
        lists.slow.extend(restored.iter().cloned());
        lists.slow.sort_by_key(|it| std::cmp::Reverse(it.request.rank));
        lists.slow.truncate(SLOW);
        let own: Vec<Arc<WorstRequest>> = lists.all_failed().cloned().collect();
        (lists.earlier, lists.failed) = Default::default();
        let all = restored.into_iter().filter(|it| it.is_failure()).chain(own);
        all.for_each(|it| lists.add_failed(it));
        self.set_threshold(&lists);
    }

    /// Bytes of memory; a request that is slow and has failed counts twice.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let lists = self.guard();
        let texts = |it: &Arc<WorstRequest>| it.request.texts.iter().map(String::len).sum::<usize>();
        lists.slow.iter().chain(lists.all_failed()).map(|it| size_of::<WorstRequest>() + 16 + texts(it)).sum()
    }

    /// The most bytes of memory.
    #[must_use]
    pub const fn most_bytes() -> usize {
        let (mut texts, mut at) = (0, 0);
        while at < TEXTS.len() {
            texts += most_of(TEXTS[at]);
            at += 1;
        }
        (SLOW + FAILED) * (size_of::<WorstRequest>() + 16 + texts)
    }

    fn guard(&self) -> MutexGuard<'_, WorstLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// At most `most` bytes of a text; a longer one ends with an ellipsis.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most - '…'.len_utf8()).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
    let mut cut = String::with_capacity(end + '…'.len_utf8());
    cut.push_str(&text[..end]);
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Ids;
    use crate::stream::tests::{hit, with_request};
    use larder_semantics::cache_status::CacheReport;
    use larder_semantics::reuse::ForwardReason;

    fn miss(status: u16) -> RequestOutcome {
        let report = CacheReport::Forwarded {
            reason: ForwardReason::UriMiss,
            status: Some(status),
            stored: false,
            collapsed: false,
        };
        RequestOutcome { status, report: Some(report), origin: None, ..hit() }
    }

    fn request(at: u64, rank: u64, status: u16) -> StoredRequest {
        StoredRequest { at, micros: rank, rank, status, ..StoredRequest::default() }
    }

    #[test]
    fn the_slowest_and_the_latest_failed_are_kept() {
        let worst = Worst::default();
        assert!(worst.wants(&miss(200), 1), "there is room");
        (1..=150).for_each(|it| worst.put(request(1000 + it, it, 200)));
        let (slow, failed) = worst.lists();
        assert_eq!((100, 0, 150), (slow.len(), failed.len(), slow[0].request.rank));
        assert!(!worst.wants(&miss(200), 51) && worst.wants(&miss(200), 52));
        assert!(worst.wants(&miss(503), 1), "a failure is always kept");
        let own = RequestOutcome { report: None, ..miss(503) };
        assert!(!worst.wants(&own, 1), "maintenance is no failure");
        assert!(worst.wants(&RequestOutcome { end: ResponseEnd::Broken, ..miss(200) }, 1));
        (1..=50).for_each(|it| worst.put(request(2000 + it, 1, 500)));
        let (slow, failed) = worst.lists();
        assert_eq!(
            (100, 32, 2050, 2001),
            (slow.len(), failed.len(), failed[0].request.at, failed[31].request.at)
        );
        // Two that were slow while the clock was ahead.
        worst.put(request(DAY + 1140 + CLOCK_STEP, 1000, 200));
        worst.put(request(2 * DAY, 1001, 200));
        assert_eq!(1001, worst.lists().0[0].request.rank);
        worst.advance(DAY + 1140);
        assert_eq!(1000, worst.lists().0.remove(0).request.rank, "that of an hour ahead may stay");
        worst.advance(DAY + 1139);
        assert_eq!(10, worst.lists().0.len(), "a day later there is room again");
        assert!(worst.wants(&miss(200), 1));
    }

    /// A route that fails ten times a second, and another that failed once an hour ago: both have examples in each minute of the last hour.
    #[test]
    fn failed_requests_of_an_hour_ago_are_kept() {
        let worst = Worst::default();
        let mut ids = 0..;
        let mut of = |at: u64, route: &str| {
            let mut it = request(at, 1, 502);
            (it.texts[0], it.texts[3]) = (format!("{:?}", ids.next()), route.to_owned());
            it
        };
        const HOUR: u64 = 600_000;
        worst.put(of(HOUR + 30, "other"));
        for at in HOUR..HOUR + 3600 {
            (0..10).for_each(|_| worst.put(of(at, "route")));
        }
        let (_, failed) = worst.lists();
        assert!(failed.len() <= FAILED, "{}", failed.len());
        assert!(failed.iter().any(|it| it.text("route") == "other"));
        let minutes: std::collections::BTreeSet<u64> =
            failed.iter().filter(|it| it.text("route") == "route").map(|it| it.request.at / 60).collect();
        assert_eq!(60, minutes.len(), "{minutes:?}");
        let latest = failed.iter().take(LATEST).map(|it| it.request.at);
        assert!(latest.clone().all(|it| it >= HOUR + 3597) && latest.is_sorted_by(|a, b| a >= b));
        // So it is after a restart.
        let next = Worst::default();
        next.restore(worst.stored(true).0);
        let times = |of: &Worst| of.lists().1.iter().map(|it| it.request.at).collect::<Vec<_>>();
        assert_eq!(times(&worst), times(&next));
    }

    #[test]
    fn durations_of_the_client_do_not_count() {
        let outcome = RequestOutcome { body: LARGE + 1, ..miss(200) };
        assert_eq!((9, 0), (rank(&miss(200), 9), rank(&outcome, 9)));
        assert_eq!(0, rank(&RequestOutcome { end: ResponseEnd::Cut, ..miss(200) }, 9));
        assert_eq!(0, rank(&miss(UPGRADED), 9));
    }

    #[test]
    fn a_request_is_kept_without_credentials_and_within_bounds() {
        let (worst, ids) = (Worst::default(), Ids::default());
        let outcome = RequestOutcome { failure: Some("f".repeat(500).into()), ..miss(503) };
        let target = format!("/a?token=s3cret&b={}", "x".repeat(2000));
        with_request(&outcome, |it| {
            worst.insert(&Finished { target: &target, micros: Some(7), ..*it }, ids.next());
        });
        let (slow, failed) = worst.lists();
        assert!(Arc::ptr_eq(&slow[0], &failed[0]));
        let url = failed[0].text("url");
        assert!(url.contains("/a?token=***&b=xxx") && url.ends_with('…') && url.len() <= URL, "{url}");
        assert_eq!(
            (8, "uri-miss", 7),
            (failed[0].text("id").len(), failed[0].text("cache"), slow[0].request.rank)
        );
        assert_eq!(FAILURE, failed[0].text("failure").len());
        assert!(Worst::most_bytes() <= 212 << 10, "{}", Worst::most_bytes());
    }

    #[test]
    fn a_request_that_comes_while_the_file_is_written_is_in_the_next_write() {
        let worst = Worst::default();
        worst.put(request(1, 5, 500));
        let (_, number) = worst.stored(false);
        worst.put(request(2, 6, 500));
        worst.saved(number);
        assert_eq!(vec![2], worst.stored(false).0.iter().map(|it| it.at).collect::<Vec<_>>());
    }

    #[test]
    fn requests_are_stored_once_and_restored() {
        let worst = Worst::default();
        worst.put(request(1, 5, 200));
        worst.put(request(2, 6, 500));
        let (stored, number) = worst.stored(false);
        assert_eq!(vec![1, 2], stored.iter().map(|it| it.at).collect::<Vec<_>>());
        worst.saved(number);
        assert!(worst.stored(false).0.is_empty());
        assert_eq!(2, worst.stored(true).0.len());
        let broken = WorstRequest { request: request(2, 6, 200 | BROKEN), number: 0 };
        assert!(broken.is_failure() && broken.is_broken() && broken.status() == 200);
        let next = Worst::default();
        next.put(request(3, 1, 500));
        next.restore(stored.iter().chain(&stored).cloned().collect());
        let (slow, failed) = next.lists();
        assert_eq!(vec![2, 1, 3], slow.iter().map(|it| it.request.at).collect::<Vec<_>>());
        assert_eq!(vec![3, 2], failed.iter().map(|it| it.request.at).collect::<Vec<_>>());
        assert_eq!(1, next.stored(false).0.len(), "those of the file are in the file");
    }
}
