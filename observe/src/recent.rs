//! The latest logged or streamed requests, with their heads, for `explain`; and a few of all others, the samples, with which
//! a new listener of the live stream begins. Any other request is not kept: its id is unknown.
//!
//! Credentials are not kept: of `Authorization` and `Proxy-Authorization` only their presence, of `Cookie` the names of
//! its cookies.

use super::ids::RequestId;
use super::stream::{host, parts};
use super::{Finished, RequestOutcome};
use bytes::Bytes;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::expression::{Expression, ExpressionFacts, Number, TextName};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::scheme::Scheme;
use larder_semantics::secret::{self, shown_target};
use larder_store::memory::on_heap;
use larder_wire::message::Reject;
use serde_json::Value;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The most requests that are kept, of all workers.
pub const KEPT: usize = 4096;

/// The most bytes of all kept requests.
const BYTES: usize = 8 << 20;

/// The most samples, of all workers.
pub const SAMPLES: usize = 512;

/// The most bytes of all samples.
const SAMPLE_BYTES: usize = 640 << 10;

/// The most samples of a tick (250 ms), of all workers: making one takes 5 µs, so that all of them take about a thousandth of a
/// processor. Below this rate every request is one, except for hits.
const SAMPLES_OF_TICK: u32 = 64;

/// Ticks for which one hit of a worker is a sample: a hit allocates nothing, and a sample does.
const TICKS_OF_HIT: u32 = 4;

/// Replaces a value that is not kept. No kept value of a client equals it: such a value is replaced as well.
const MARK: &[u8] = b"-";

/// A request with its result.
pub struct RecentRequest {
    /// Its id.
    pub id: RequestId,
    /// Its method; `-` if its head was rejected.
    pub method: String,
    /// The protocol of an extended CONNECT, if it is one.
    pub protocol: Option<Box<str>>,
    /// The scheme of its connection.
    pub scheme: Scheme,
    /// Its target as received.
    pub target: String,
    /// Its host.
    pub authority: String,
    /// Its fields, without private values.
    pub fields: FieldList,
    /// The names of the fields whose values were left out.
    pub withheld: Vec<&'static str>,
    /// Its record in the stream.
    pub then: Bytes,
    /// The reason for rejecting its head, if it was: then the other fields are unknown.
    pub refused: Option<Reject>,
}

#[derive(Default)]
struct RecentRing {
    kept: RecentQueue,
    /// Not in `kept`, so that they take no room of requests whose ids were published.
    samples: RecentQueue,
}

#[derive(Default)]
struct RecentQueue {
    requests: VecDeque<Arc<RecentRequest>>,
    bytes: usize,
    /// The bytes of the records among them, which the stream counts.
    then_bytes: usize,
}

impl RecentQueue {
    /// Adds a request, in place of the oldest ones above `most` requests and bytes.
    fn put(&mut self, request: RecentRequest, most: (usize, usize)) {
        self.bytes += weight(&request);
        self.then_bytes += request.then.len();
        self.requests.push_back(Arc::new(request));
        while self.requests.len() > most.0 || self.bytes > most.1 {
            let Some(oldest) = self.requests.pop_front() else { break };
            self.bytes -= weight(&oldest);
            self.then_bytes -= oldest.then.len();
        }
    }

    /// Bytes without the records in the stream.
    fn own_bytes(&self) -> usize {
        self.bytes - self.then_bytes + self.requests.capacity() * size_of::<Arc<RecentRequest>>()
    }
}

/// The kept requests of all workers: each writes into a ring of its own, so that no worker waits for another.
#[derive(Default)]
pub struct Recent(Mutex<Vec<Arc<Mutex<RecentRing>>>>);

/// One worker's end.
pub struct RecentKeeper {
    ring: Arc<Mutex<RecentRing>>,
    most: (usize, usize),
    most_samples: (usize, usize),
    /// Samples that may be kept before the next tick.
    wanted: Cell<u32>,
    of_tick: u32,
    /// Ticks until a hit is kept.
    until_hit: Cell<u32>,
}

impl Recent {
    /// The end of one of `workers`.
    #[must_use]
    pub fn worker(&self, workers: usize) -> RecentKeeper {
        let ring: Arc<Mutex<RecentRing>> = Arc::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ring.clone());
        let workers = workers.max(1);
        let most_samples = ((SAMPLES / workers).max(16), (SAMPLE_BYTES / workers).max(16 << 10));
        RecentKeeper {
            ring,
            most: (KEPT / workers, BYTES / workers),
            most_samples,
            wanted: Cell::new(0),
            until_hit: Cell::new(1),
            of_tick: (SAMPLES_OF_TICK / u32::try_from(workers).unwrap_or(u32::MAX)).max(2),
        }
    }

    fn rings(&self) -> Vec<Arc<Mutex<RecentRing>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes of all kept requests, without their records in the stream.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = |it: &Arc<Mutex<RecentRing>>| {
            let ring = it.lock().unwrap_or_else(PoisonError::into_inner);
            ring.kept.own_bytes() + ring.samples.own_bytes()
        };
        self.rings().iter().map(bytes).sum::<usize>() as u64
    }

    /// The request with this id, if it is still kept.
    #[must_use]
    pub fn find(&self, id: RequestId) -> Option<Arc<RecentRequest>> {
        self.rings().iter().find_map(|it| {
            let ring = it.lock().unwrap_or_else(PoisonError::into_inner);
            let mut all = ring.kept.requests.iter().chain(&ring.samples.requests).rev();
            all.find(|it| it.id == id).cloned()
        })
    }

    /// Scheme and authority with which clients ask for `target`: those of the latest kept request for it, otherwise the most frequent
    /// ones. Only authorities for which `is_ours` holds count.
    #[must_use]
    pub fn site_of(&self, target: &str, is_ours: impl Fn(&str) -> bool) -> Option<(Scheme, String)> {
        let mut latest: Option<Arc<RecentRequest>> = None;
        let mut counts: HashMap<(Scheme, String), usize> = HashMap::new();
        for it in self.rings() {
            let ring = it.lock().unwrap_or_else(PoisonError::into_inner);
            let all = ring.kept.requests.iter().chain(&ring.samples.requests);
            for it in all.filter(|it| it.refused.is_none() && is_ours(&it.authority)) {
                *counts.entry((it.scheme, it.authority.clone())).or_default() += 1;
                if it.target == target && latest.as_ref().is_none_or(|known| known.id < it.id) {
                    latest = Some(it.clone());
                }
            }
        }
        let most = || counts.into_iter().max_by_key(|it| it.1).map(|it| it.0);
        latest.map(|it| (it.scheme, it.authority.clone())).or_else(most)
    }

    /// The kept requests for a URL, the newest first, at most `most`.
    #[must_use]
    pub fn of_url(&self, authority: &str, target: &str, most: usize) -> Vec<Arc<RecentRequest>> {
        let mut all: Vec<Arc<RecentRequest>> = Vec::new();
        for it in self.rings() {
            let ring = it.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = ring.kept.requests.iter().chain(&ring.samples.requests);
            all.extend(
                kept.filter(|it| it.target == target && it.authority.eq_ignore_ascii_case(authority))
                    .cloned(),
            );
        }
        all.sort_unstable_by_key(|it| Reverse(it.id));
        all.truncate(most);
        all
    }

    /// The latest kept requests, the newest first, at most `most`.
    #[must_use]
    pub fn newest(&self, most: usize) -> Vec<Arc<RecentRequest>> {
        let mut all: Vec<Arc<RecentRequest>> = Vec::new();
        for it in self.rings() {
            let ring = it.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(ring.kept.requests.iter().chain(&ring.samples.requests).cloned());
        }
        all.sort_unstable_by_key(|it| Reverse(it.id));
        all.truncate(most);
        all
    }

    /// The records of the latest kept requests for which `filter` is true, the oldest first, at most `most`. With a filter this
    /// may take some ten milliseconds: the records are parsed.
    #[must_use]
    pub fn latest(&self, most: usize, filter: Option<&Expression>) -> Vec<Bytes> {
        let matching =
            self.newest(usize::MAX).into_iter().filter(|it| filter.is_none_or(|filter| it.matches(filter)));
        let mut records: Vec<Bytes> = matching.take(most).map(|it| it.then.clone()).collect();
        records.reverse();
        records
    }
}

impl RecentKeeper {
    /// Keeps a request, in place of the oldest if the ring is full.
    pub fn insert(&self, it: &Finished<'_>, id: RequestId, then: Bytes) {
        let request = request(it, id, then);
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).kept.put(request, self.most);
    }

    /// Whether the next hit is kept as a sample.
    #[inline]
    pub fn wants_hits(&self) -> bool {
        self.until_hit.get() == 0
    }

    /// Whether the next request that is no hit is kept as a sample.
    #[inline]
    pub fn wants_others(&self) -> bool {
        self.wanted.get() != 0
    }

    /// Whether the next request may be kept as a sample.
    pub fn wants_any(&self) -> bool {
        self.wants_hits() || self.wants_others()
    }

    /// Whether a request with this outcome is kept as a sample.
    #[inline]
    pub fn wants(&self, outcome: &RequestOutcome) -> bool {
        if is_hit(outcome) { self.wants_hits() } else { self.wants_others() }
    }

    /// Keeps a request as a sample.
    pub fn sample(&self, it: &Finished<'_>, id: RequestId, then: Bytes) {
        match is_hit(it.outcome) {
            true => self.until_hit.set(TICKS_OF_HIT),
            false => self.wanted.set(self.wanted.get().saturating_sub(1)),
        }
        let request = request(it, id, then);
        self.ring.lock().unwrap_or_else(PoisonError::into_inner).samples.put(request, self.most_samples);
    }

    /// Begins a tick.
    pub fn tick(&self) {
        self.wanted.set(self.of_tick);
        self.until_hit.set(self.until_hit.get().saturating_sub(1));
    }
}

fn is_hit(outcome: &RequestOutcome) -> bool {
    matches!(outcome.report, Some(CacheReport::Hit { .. }))
}

impl RecentRequest {
    fn matches(&self, filter: &Expression) -> bool {
        let record = serde_json::from_slice(&self.then).unwrap_or_default();
        filter.holds(&KeptFacts { request: self, record })
    }
}

/// A kept request as input of a filter. Values that are not kept, such as those of cookies, match no text.
struct KeptFacts<'a> {
    request: &'a RecentRequest,
    record: Value,
}

impl ExpressionFacts for KeptFacts<'_> {
    fn text(&self, name: TextName, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let it = self.request;
        let target = || shown_target(&it.target);
        let field = |name: &str| self.record[name].as_str().unwrap_or("").as_bytes();
        match name {
            TextName::Route => test(field("route")),
            TextName::Site => test(field("site")),
            TextName::Method => test(it.method.as_bytes()),
            TextName::Host => test(host(&it.authority).as_bytes()),
            TextName::Path => test(parts(&target()).0.as_bytes()),
            TextName::Query => test(parts(&target()).1.as_bytes()),
            TextName::Url => {
                let url = format!("{}://{}{}", it.scheme.name(), it.authority, it.target);
                test(shown_target(&url).as_bytes())
            }
            TextName::Scheme => test(it.scheme.name().as_bytes()),
            TextName::Cache => test(field("cache")),
            TextName::Reason => test(field("reason")),
            TextName::Origin => test(field("origin")),
            TextName::Client => self.record["client"].as_str().is_some_and(|it| test(it.as_bytes())),
            TextName::UserAgent => it.fields.get("user-agent").is_some_and(test),
            TextName::Referer => self.header("referer", test),
            TextName::End => test(field("end")),
            TextName::Key | TextName::Target | TextName::Type | TextName::Listener | TextName::Country => {
                false
            }
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.record["client"].as_str()?.parse().ok()
    }

    fn number(&self, name: Number) -> Option<i64> {
        let field = |name: &str| self.record[name].as_i64();
        match name {
            Number::Status => field("status"),
            Number::Bytes | Number::Size => field("bytes"),
            Number::Duration => field("duration_us"),
            Number::Origin => field("origin_us"),
            Number::Ttl => field("ttl"),
            Number::Age | Number::Asn => None,
        }
    }

    fn has_tag(&self, _: &str) -> bool {
        false
    }

    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.request.fields.iter().any(|it| it.is(name) && test(&secret::shown(name, it.value)))
    }
}

fn request(it: &Finished<'_>, id: RequestId, then: Bytes) -> RecentRequest {
    let (fields, withheld) = without_secrets(it.fields);
    RecentRequest {
        id,
        method: it.method.to_owned(),
        protocol: it.protocol.map(Into::into),
        scheme: it.client.scheme,
        target: it.target.to_owned(),
        authority: it.authority.to_owned(),
        fields,
        withheld,
        then,
        refused: it.refused,
    }
}

fn weight(it: &RecentRequest) -> usize {
    let protocol = it.protocol.as_ref().map_or(0, |it| it.len());
    let texts = [it.method.len(), it.target.len(), it.authority.len(), protocol];
    let blocks = texts.iter().chain(&it.fields.blocks()).map(|it| on_heap(*it)).sum::<u64>();
    let own = blocks + on_heap(size_of::<RecentRequest>() + 2 * size_of::<usize>());
    usize::try_from(own).unwrap_or(usize::MAX) + it.then.len()
}

/// The fields to keep, and the names of those whose values are removed.
fn without_secrets(fields: &[Field<'_>]) -> (FieldList, Vec<&'static str>) {
    let (mut kept, mut withheld) = (FieldList::new(), Vec::new());
    for it in fields {
        let secret = ["Authorization", "Proxy-Authorization", "Cookie"].into_iter().find(|name| it.is(name));
        let Some(name) = secret else {
            kept.push(it.name, it.value);
            continue;
        };
        if !withheld.contains(&name) {
            withheld.push(name);
        }
        match name {
            "Cookie" => kept.push(it.name, names_alone(it.value)),
            _ => kept.push(it.name, MARK),
        }
    }
    (kept, withheld)
}

/// A `Cookie` value in which every cookie's value is [`MARK`].
fn names_alone(value: &[u8]) -> Vec<u8> {
    let name = |pair: &[u8]| {
        let pair = pair.trim_ascii();
        match pair.iter().position(|it| *it == b'=') {
            Some(end) => [&pair[..end], b"=", MARK].concat(),
            // A cookie without a name is only a value.
            None => MARK.to_vec(),
        }
    };
    value.split(|it| *it == b';').map(name).collect::<Vec<_>>().join(&b"; "[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestOutcome;
    use crate::ids::Ids;
    use crate::stream::encode;
    use crate::stream::tests::{FALSE, TRUE, hit, with_request};
    use larder_semantics::expression::ExpressionSubject;

    #[test]
    fn secrets_are_not_kept() {
        let fields = [
            Field { name: "cookie", value: b"session=s3cret; theme=dark;bare" },
            Field { name: "Authorization", value: b"Basic s3cret" },
            Field { name: "Accept", value: b"*/*" },
        ];
        let (kept, withheld) = without_secrets(&fields);
        assert_eq!(Some(&b"session=-; theme=-; -"[..]), kept.get("cookie"));
        assert_eq!(Some(&b"-"[..]), kept.get("authorization"));
        assert_eq!(Some(&b"*/*"[..]), kept.get("accept"));
        assert_eq!(["Cookie", "Authorization"], withheld[..]);
    }

    #[test]
    fn the_latest_are_known_and_the_oldest_go() {
        let (recent, ids) = (Recent::default(), Ids::default());
        let (one, other) = (recent.worker(2), recent.worker(2));
        let outcome = hit();
        let keep = |keeper: &RecentKeeper| {
            let id = ids.next();
            with_request(&outcome, |it| keeper.insert(it, id, Bytes::from_static(b"{}")));
            id
        };
        let (first, elsewhere) = (keep(&one), keep(&other));
        assert_eq!("/list/a?page=2", recent.find(first).unwrap().target);
        let last = (0..KEPT / 2).fold(first, |_, _| keep(&one));
        assert!(recent.find(first).is_none(), "it had to go");
        assert!(recent.find(elsewhere).is_some() && recent.find(last).is_some());
        with_request(&outcome, |it| one.insert(it, first, Bytes::from(vec![0; BYTES])));
        assert!(recent.find(first).is_none() && recent.find(last).is_none(), "bytes are bounded, too");
        assert_eq!(0, one.ring.lock().unwrap().kept.bytes);
    }

    #[test]
    fn samples_are_few_and_take_no_room_of_other_records() {
        let (recent, ids) = (Recent::default(), Ids::default());
        let keeper = recent.worker(1);
        let outcome = RequestOutcome { report: None, ..hit() };
        assert!(!keeper.wants_others(), "before the first tick");
        let sample = || {
            let id = ids.next();
            with_request(&outcome, |it| keeper.sample(it, id, Bytes::from(id.to_string())));
            id
        };
        keeper.tick();
        let first = sample();
        for _ in 1..SAMPLES_OF_TICK {
            assert!(keeper.wants_others());
            sample();
        }
        assert!(!keeper.wants_others(), "until the next tick");
        assert!(!keeper.wants(&outcome) && keeper.wants_any(), "a hit may come, but this is none");
        let published = ids.next();
        with_request(&outcome, |it| keeper.insert(it, published, Bytes::from_static(b"{}")));
        let last = (0..SAMPLES).fold(first, |_, _| sample());
        assert!(recent.find(first).is_none());
        assert!(recent.find(published).is_some() && recent.find(last).is_some());
        let latest = recent.latest(3, None);
        assert_eq!((3, last.to_string().as_bytes()), (latest.len(), &latest[2][..]));
        assert_eq!(SAMPLES + 1, recent.latest(usize::MAX, None).len());
        with_request(&outcome, |it| keeper.sample(it, last, Bytes::from(vec![0; SAMPLE_BYTES])));
        assert_eq!(0, keeper.ring.lock().unwrap().samples.bytes, "bytes are bounded, too");
    }

    #[test]
    fn one_hit_in_some_ticks_is_a_sample() {
        let (recent, ids) = (Recent::default(), Ids::default());
        let keeper = recent.worker(1);
        let outcome = hit();
        assert!(!keeper.wants_hits(), "before the first tick");
        keeper.tick();
        let sample = |it: &Finished<'_>| {
            assert!(keeper.wants(it.outcome));
            keeper.sample(it, ids.next(), Bytes::new());
            assert!(!keeper.wants(it.outcome));
        };
        with_request(&outcome, sample);
        assert!(keeper.wants_others(), "hits take none of theirs");
        (1..TICKS_OF_HIT).for_each(|_| keeper.tick());
        assert!(!keeper.wants_hits());
        keeper.tick();
        with_request(&outcome, sample);
    }

    #[test]
    fn the_latest_are_those_that_a_filter_lets_through() {
        let (recent, ids) = (Recent::default(), Ids::default());
        let keeper = recent.worker(1);
        let filter = |text| Expression::parse_about(ExpressionSubject::Finished, text).unwrap();
        for (status, times) in [(503, 2), (200, 3)] {
            let outcome = RequestOutcome { status, ..hit() };
            for _ in 0..times {
                let id = ids.next();
                with_request(&outcome, |it| keeper.sample(it, id, encode(it, id).unwrap().into()));
            }
        }
        let count = |text| recent.latest(10, Some(&filter(text))).len();
        assert_eq!((2, 3), (count("status >= 500"), count("status == 200")));
        assert_eq!((5, 0), (count("url contains \"/list/\""), count("url contains \"/lists/\"")));
    }

    #[test]
    fn a_filter_is_as_true_of_a_kept_request_as_of_a_live_one() {
        let (recent, ids) = (Recent::default(), Ids::default());
        let keeper = recent.worker(1);
        let id = ids.next();
        with_request(&hit(), |it| keeper.sample(it, id, encode(it, id).unwrap().into()));
        let is_true = |text: &str| {
            let filter = Expression::parse_about(ExpressionSubject::Finished, text).unwrap();
            recent.latest(1, Some(&filter)).len() == 1
        };
        TRUE.iter().for_each(|it| assert!(is_true(it), "{it}"));
        FALSE.iter().for_each(|it| assert!(!is_true(it), "{it}"));
    }
}
