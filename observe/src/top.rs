//! Which URLs weigh most: by requests, misses, bytes sent and time at the origin. Each worker has sketches of its own,
//! which it writes without a lock; whoever reads asks each worker for a copy. The sketch is `larder_counters::top`; how
//! it is told is in `admin/top`.

use super::RequestOutcome;
use larder_counters::top::{PLACE, TopOrder, TopSketch};
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

/// Bytes of all sketches of all workers at most.
pub const BYTES: usize = 32 << 20;

/// Places of one sketch at most: more would be more exact than anybody can see.
const PLACES: usize = 4096;

/// What the texts of `https` begin with; no authority has a slash.
pub const HTTPS: &str = "https://";

/// How long one worker may take for a copy.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is asked of a worker.
enum TopQuery {
    Copy(TopOrder, oneshot::Sender<TopSketch>),
    Forget(oneshot::Sender<()>),
}

/// Every worker's sketches, as a reader reaches them.
pub struct Tops {
    workers: Mutex<Vec<mpsc::Sender<TopQuery>>>,
    /// Not to be known outside: else somebody could have URLs counted as one.
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

/// Copies of what the workers have.
pub struct Copies {
    /// One of each worker that answered.
    pub parts: Vec<TopSketch>,
    /// Whether all did.
    pub complete: bool,
}

impl Tops {
    /// The sketches of one of `workers`, which are served to readers until the runtime ends.
    #[must_use]
    pub fn worker(self: &Arc<Self>, workers: usize) -> Rc<Feed> {
        let (sender, asked) = mpsc::channel(4);
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        let bytes = (BYTES / (TopOrder::ALL.len() * workers.max(1))).min(PLACES * PLACE);
        let tops = TopOrder::ALL.map(|_| TopSketch::new(bytes));
        self.bytes.fetch_add(tops.iter().map(|it| it.bytes() as u64).sum(), Relaxed);
        let feed = Rc::new(Feed { seed: self.seed, tops: RefCell::new(tops) });
        tokio::task::spawn_local(feed.clone().serve(asked));
        feed
    }

    /// What is counted by `by`, of every worker.
    pub async fn copies(&self, by: TopOrder) -> Copies {
        let answers = self.ask(|reply| TopQuery::Copy(by, reply)).await;
        let all = answers.len();
        let parts: Vec<TopSketch> = answers.into_iter().flatten().collect();
        Copies { complete: parts.len() == all, parts }
    }

    /// Has everything be counted anew; whether every worker does.
    pub async fn forget(&self) -> bool {
        let answers = self.ask(TopQuery::Forget).await;
        self.since.store(clock::wall().0, Relaxed);
        answers.iter().all(Option::is_some)
    }

    /// Bytes of all sketches: every worker has them from its start on.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Since when is counted, unix seconds.
    #[must_use]
    pub fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    async fn ask<T>(&self, ask: impl Fn(oneshot::Sender<T>) -> TopQuery) -> Vec<Option<T>> {
        let asked: Vec<Option<oneshot::Receiver<T>>> = {
            let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            let each = |it: &mpsc::Sender<TopQuery>| {
                let (reply, answer) = oneshot::channel();
                it.try_send(ask(reply)).is_ok().then_some(answer)
            };
            workers.iter().map(each).collect()
        };
        let mut answers = Vec::new();
        for it in asked {
            let answer = match it {
                Some(it) => tokio::time::timeout(PATIENCE, it).await.ok().and_then(Result::ok),
                None => None,
            };
            answers.push(answer);
        }
        answers
    }
}

/// What stands before the authority: nothing for `http`, whose texts are told with it.
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

    /// Counts any other.
    pub fn slow(&self, scheme: Scheme, authority: &str, target: &str, outcome: &RequestOutcome) {
        let missed = matches!(outcome.report, Some(it @ CacheReport::Forwarded { .. }) if !it.is_pass());
        let text: &[&[u8]] = &[mark(scheme), authority.as_bytes(), target.as_bytes()];
        let hash = self.hash(scheme, authority, target);
        let tops = &mut *self.tops.borrow_mut();
        tops[0].add(hash, 1, text);
        tops[2].add(hash, outcome.body, text);
        if missed {
            tops[1].add(hash, 1, text);
        }
        if let Some(micros) = outcome.origin.map(|it| it.micros).filter(|it| *it > 0) {
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
                TopQuery::Forget(reply) => {
                    self.tops.borrow_mut().iter_mut().for_each(TopSketch::clear);
                    let _ = reply.send(());
                }
            }
        }
    }
}
