//! The heaviest URLs and clients: by requests, misses, bytes sent and time at the origin. Each worker has sketches of its own, which
//! it writes without a lock; a reader requests a copy from each worker. The sketch is `larder_counters::top`; the API is
//! in `admin/top`.

use super::RequestOutcome;
use larder_counters::top::{Heavy, PLACE, TopMark, TopOrder, TopSketch, TopSubject};
use larder_semantics::cache_status::CacheReport;
use larder_semantics::scheme::Scheme;
use larder_stdx::clock;
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The most bytes of all sketches of all workers.
pub const BYTES: usize = 32 << 20;

/// The most slots of one sketch: more would not visibly improve the result.
const PLACES: usize = 4096;

/// The slots of one sketch of clients.
const CLIENTS: usize = 512;

/// The beginning of texts of `https`; no authority has a slash.
pub const HTTPS: &str = "https://";

/// The time limit of one worker for a copy.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A request to a worker.
enum TopQuery {
    Copy(TopSubject, TopOrder, oneshot::Sender<TopSketch>),
    Forget(oneshot::Sender<()>),
    Grown(usize, oneshot::Sender<[Vec<Heavy>; 2]>),
}

/// The sketches of all workers, for readers.
pub struct Tops {
    workers: Mutex<Vec<mpsc::Sender<TopQuery>>>,
    /// Secret: otherwise a client could construct URLs that count as one.
    seed: u64,
    since: AtomicU64,
    bytes: AtomicU64,
}

impl Default for Tops {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        Self {
            workers: Mutex::default(),
            seed,
            since: AtomicU64::new(clock::wall().0),
            bytes: AtomicU64::new(0),
        }
    }
}

/// Copies of the workers' sketches.
pub struct Copies {
    /// One of each worker that responded.
    pub parts: Vec<TopSketch>,
    /// Whether all responded.
    pub complete: bool,
}

impl Tops {
    /// The sketches of one of `workers`, available to readers until the runtime ends.
    #[must_use]
    pub fn worker(self: &Arc<Self>, workers: usize) -> Rc<Feed> {
        let (sender, asked) = mpsc::channel(4);
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        let bytes = (BYTES / (TopOrder::ALL.len() * workers.max(1))).min(PLACES * PLACE);
        let tops = TopOrder::ALL.map(|_| TopSketch::new(bytes));
        let clients = TopOrder::ALL.map(|_| TopSketch::new(CLIENTS * PLACE));
        let marks = [tops[0].mark(), tops[1].mark()];
        let sketches = tops.iter().chain(&clients).map(TopSketch::bytes);
        let bytes = sketches.chain(marks.iter().map(TopMark::bytes));
        self.bytes.fetch_add(bytes.sum::<usize>() as u64, Relaxed);
        let feed = Rc::new(Feed {
            seed: self.seed,
            tops: RefCell::new(tops),
            clients: RefCell::new(clients),
            marks: RefCell::new(marks),
        });
        tokio::task::spawn_local(feed.clone().serve(asked));
        feed
    }

    /// The sketches of `of` by `by` of every worker.
    pub async fn copies(&self, of: TopSubject, by: TopOrder) -> Copies {
        let answers = self.query(|reply| TopQuery::Copy(of, by, reply)).await;
        let all = answers.len();
        let parts: Vec<TopSketch> = answers.into_iter().flatten().collect();
        Copies { complete: parts.len() == all, parts }
    }

    /// The URLs with the most requests, and those with the most misses, since the last call: at most `most` of each worker. An `https` URL begins with [`HTTPS`].
    pub async fn grown(&self, most: usize) -> [Vec<Heavy>; 2] {
        let mut all = [Vec::new(), Vec::new()];
        for [requests, misses] in self.query(|reply| TopQuery::Grown(most, reply)).await.into_iter().flatten()
        {
            all[0].extend(requests);
            all[1].extend(misses);
        }
        all
    }

    /// Resets all sketches; returns whether every worker did.
    pub async fn forget(&self) -> bool {
        let answers = self.query(TopQuery::Forget).await;
        self.since.store(clock::wall().0, Relaxed);
        answers.iter().all(Option::is_some)
    }

    /// Bytes of all sketches: every worker has them from its start.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The beginning of counting, unix seconds.
    #[must_use]
    pub fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    async fn query<T>(&self, make_query: impl Fn(oneshot::Sender<T>) -> TopQuery) -> Vec<Option<T>> {
        let asked: Vec<Option<oneshot::Receiver<T>>> = {
            let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            let each = |it: &mpsc::Sender<TopQuery>| {
                let (reply, answer) = oneshot::channel();
                it.try_send(make_query(reply)).is_ok().then_some(answer)
            };
            workers.iter().map(each).collect()
        };
        let mut answers = Vec::new();
        for it in asked {
            let answer = match it {
                Some(it) => tokio::time::timeout(TIMEOUT, it).await.ok().and_then(Result::ok),
                None => None,
            };
            answers.push(answer);
        }
        answers
    }
}

/// Whether no stored response could be used.
fn is_missed(outcome: &RequestOutcome) -> bool {
    match outcome.report {
        Some(CacheReport::SharedFailure { .. }) => true,
        Some(it @ CacheReport::Forwarded { .. }) => !it.is_pass(),
        _ => false,
    }
}

/// The client of an entry of [`TopSubject::Clients`]: an address, or a network such as `2001:db8::/64`.
#[must_use]
pub fn client_of(text: &[u8]) -> Option<String> {
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(text).ok()?);
    Some(match address.to_canonical() {
        IpAddr::V4(it) => it.to_string(),
        IpAddr::V6(it) => format!("{it}/64"),
    })
}

/// The prefix of the authority: empty for `http`.
fn mark(scheme: Scheme) -> &'static [u8] {
    match scheme {
        Scheme::Http => b"",
        Scheme::Https => HTTPS.as_bytes(),
    }
}

/// One worker's sketches, in the order of [`TopOrder::ALL`].
pub struct Feed {
    seed: u64,
    tops: RefCell<[TopSketch; 4]>,
    clients: RefCell<[TopSketch; 4]>,
    /// Of requests and misses, at the last [`Tops::grown`].
    marks: RefCell<[TopMark; 2]>,
}

impl Feed {
    /// Counts a fast answer: no allocation, no clock, no lock.
    #[inline]
    pub fn fast(&self, scheme: Scheme, authority: &str, target: &str, body: u64) {
        let text: &[&[u8]] = &[mark(scheme), authority.as_bytes(), target.as_bytes()];
        let hash = self.hash(scheme, authority, target);
        let tops = &mut *self.tops.borrow_mut();
        tops[0].add(hash, 1, text);
        if body > 0 {
            tops[2].add(hash, body, text);
        }
    }

    /// Counts a fast answer of `body` bytes for its client; it stands for `weight` answers.
    pub fn fast_of_client(&self, client: IpAddr, body: u64, weight: u64) {
        let (hash, text) = self.network(client);
        let clients = &mut *self.clients.borrow_mut();
        clients[0].add(hash, weight, &[&text]);
        if body > 0 {
            clients[2].add(hash, body.saturating_mul(weight), &[&text]);
        }
    }

    /// Counts any other response for its client.
    pub fn slow_of_client(&self, client: IpAddr, outcome: &RequestOutcome) {
        let (hash, text) = self.network(client);
        let clients = &mut *self.clients.borrow_mut();
        clients[0].add(hash, 1, &[&text]);
        clients[2].add(hash, outcome.body, &[&text]);
        if is_missed(outcome) {
            clients[1].add(hash, 1, &[&text]);
        }
        if let Some(micros) = outcome.origin.as_ref().map(|it| it.micros).filter(|it| *it > 0) {
            clients[3].add(hash, micros, &[&text]);
        }
    }

    /// The hash and the bytes of the address of a client; of IPv6 those of its /64, which one client has as a whole.
    fn network(&self, client: IpAddr) -> (u64, [u8; 16]) {
        let text = match client.to_canonical() {
            IpAddr::V4(it) => it.to_ipv6_mapped().octets(),
            IpAddr::V6(it) => (u128::from(it) >> 64 << 64).to_be_bytes(),
        };
        (xxh3_64_with_seed(&text, self.seed), text)
    }

    /// Counts any other response.
    pub fn slow(&self, scheme: Scheme, authority: &str, target: &str, outcome: &RequestOutcome) {
        let text: &[&[u8]] = &[mark(scheme), authority.as_bytes(), target.as_bytes()];
        let hash = self.hash(scheme, authority, target);
        let tops = &mut *self.tops.borrow_mut();
        tops[0].add(hash, 1, text);
        tops[2].add(hash, outcome.body, text);
        if is_missed(outcome) {
            tops[1].add(hash, 1, text);
        }
        if let Some(micros) = outcome.origin.as_ref().map(|it| it.micros).filter(|it| *it > 0) {
            tops[3].add(hash, micros, text);
        }
    }

    #[inline]
    fn hash(&self, scheme: Scheme, authority: &str, target: &str) -> u64 {
        let seed = self.seed ^ u64::from(scheme == Scheme::Https);
        xxh3_64_with_seed(target.as_bytes(), xxh3_64_with_seed(authority.as_bytes(), seed))
    }

    async fn serve(self: Rc<Self>, mut asked: mpsc::Receiver<TopQuery>) {
        while let Some(it) = asked.recv().await {
            match it {
                TopQuery::Copy(of, by, reply) => {
                    let tops = match of {
                        TopSubject::Urls => &self.tops,
                        TopSubject::Clients => &self.clients,
                    };
                    let _ = reply.send(tops.borrow()[by.place()].clone());
                }
                TopQuery::Grown(most, reply) => {
                    let (tops, mut marks) = (self.tops.borrow(), self.marks.borrow_mut());
                    let [requests, misses] = &mut *marks;
                    let _ = reply.send([tops[0].grown(requests, most), tops[1].grown(misses, most)]);
                }
                TopQuery::Forget(reply) => {
                    for tops in [&self.tops, &self.clients] {
                        tops.borrow_mut().iter_mut().for_each(TopSketch::clear);
                    }
                    let _ = reply.send(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_counters::top::heaviest;
    use larder_semantics::reuse::ForwardReason;

    #[tokio::test]
    async fn clients_are_counted_by_address_and_by_network_of_64_bits() {
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let tops = Arc::<Tops>::default();
                let feed = tops.worker(1);
                for (client, body, weight) in [
                    ("10.0.0.1", 5, 1),
                    ("::ffff:10.0.0.1", 5, 1),
                    ("2001:db8:0:1::1", 1, 61),
                    ("2001:db8:0:1:ffff::9", 1, 2),
                    ("2001:db8:0:2::1", 0, 1),
                ] {
                    feed.fast_of_client(client.parse().unwrap(), body, weight);
                }
                let missed = RequestOutcome::whole(
                    502,
                    7,
                    Some(CacheReport::SharedFailure { reason: ForwardReason::UriMiss }),
                );
                feed.slow_of_client("10.0.0.1".parse().unwrap(), &missed);
                for (by, expect) in [
                    (
                        TopOrder::Requests,
                        &[("2001:db8:0:1::/64", 63), ("10.0.0.1", 3), ("2001:db8:0:2::/64", 1)][..],
                    ),
                    (TopOrder::Misses, &[("10.0.0.1", 1)]),
                    (TopOrder::Bytes, &[("2001:db8:0:1::/64", 63), ("10.0.0.1", 17)]),
                    (TopOrder::OriginTime, &[]),
                ] {
                    let copies = tops.copies(TopSubject::Clients, by).await;
                    let found: Vec<(String, u64)> = heaviest(&copies.parts, 9)
                        .iter()
                        .map(|it| (client_of(&it.text).unwrap(), it.weight))
                        .collect();
                    let found: Vec<(&str, u64)> = found.iter().map(|it| (&*it.0, it.1)).collect();
                    assert_eq!(expect, found, "{by:?}");
                    assert!(tops.copies(TopSubject::Urls, by).await.parts[0].total() == 0);
                }
                assert!(tops.forget().await);
                assert_eq!(0, tops.copies(TopSubject::Clients, TopOrder::Requests).await.parts[0].total());
            })
            .await;
    }
}
