//! The heaviest URLs: by requests, misses, bytes sent and time at the origin. Each worker has sketches of its own, which
//! it writes without a lock; a reader requests a copy from each worker. The sketch is `larder_counters::top`; the API is
//! in `admin/top`.

use super::RequestOutcome;
use larder_counters::top::{Heavy, PLACE, TopMark, TopOrder, TopSketch};
use larder_semantics::cache_status::CacheReport;
use larder_semantics::scheme::Scheme;
use larder_stdx::clock;
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
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

/// The beginning of texts of `https`; no authority has a slash.
pub const HTTPS: &str = "https://";

/// The time limit of one worker for a copy.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A request to a worker.
enum TopQuery {
    Copy(TopOrder, oneshot::Sender<TopSketch>),
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
        let marks = [tops[0].mark(), tops[1].mark()];
        let bytes = tops.iter().map(TopSketch::bytes).chain(marks.iter().map(TopMark::bytes));
        self.bytes.fetch_add(bytes.sum::<usize>() as u64, Relaxed);
        let feed = Rc::new(Feed { seed: self.seed, tops: RefCell::new(tops), marks: RefCell::new(marks) });
        tokio::task::spawn_local(feed.clone().serve(asked));
        feed
    }

    /// The sketches by `by` of every worker.
    pub async fn copies(&self, by: TopOrder) -> Copies {
        let answers = self.query(|reply| TopQuery::Copy(by, reply)).await;
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

    /// Counts any other response.
    pub fn slow(&self, scheme: Scheme, authority: &str, target: &str, outcome: &RequestOutcome) {
        let missed = match outcome.report {
            Some(CacheReport::SharedFailure { .. }) => true,
            Some(it @ CacheReport::Forwarded { .. }) => !it.is_pass(),
            _ => false,
        };
        let text: &[&[u8]] = &[mark(scheme), authority.as_bytes(), target.as_bytes()];
        let hash = self.hash(scheme, authority, target);
        let tops = &mut *self.tops.borrow_mut();
        tops[0].add(hash, 1, text);
        tops[2].add(hash, outcome.body, text);
        if missed {
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
                TopQuery::Copy(by, reply) => {
                    let _ = reply.send(self.tops.borrow()[by.place()].clone());
                }
                TopQuery::Grown(most, reply) => {
                    let (tops, mut marks) = (self.tops.borrow(), self.marks.borrow_mut());
                    let [requests, misses] = &mut *marks;
                    let _ = reply.send([tops[0].grown(requests, most), tops[1].grown(misses, most)]);
                }
                TopQuery::Forget(reply) => {
                    self.tops.borrow_mut().iter_mut().for_each(TopSketch::clear);
                    let _ = reply.send(());
                }
            }
        }
    }
}
