//! A few threads that wait for the device, so that no event loop does. The queue is bounded: excess work is refused at
//! once. Callers define the work. `commands/src/trace/picture.rs` shows why the threads are few.

use larder_counters::Counters;
use larder_stdx::clock;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The most queued items per thread.
const WAITING: usize = 32;

/// Its argument is the microseconds that it waited.
type PoolJob = Box<dyn FnOnce(u64) + Send>;

struct ReadJob {
    work: PoolJob,
    since: u64,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<ReadJob>,
    stopped: bool,
}

/// Microseconds since an arbitrary moment.
pub type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

struct ReadPoolShared {
    jobs: Mutex<Jobs>,
    wake: Condvar,
    counters: Arc<Counters>,
    clock: Clock,
}

/// Too many items wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull;

/// The reader threads. They end when this is dropped and their work is done.
pub struct Pool {
    shared: Arc<ReadPoolShared>,
    most: usize,
}

impl Pool {
    /// Starts `readers` threads of this name, or as many as the kernel allows; without any, all work is refused.
    #[must_use]
    pub fn new(name: &str, readers: usize, counters: Arc<Counters>) -> Pool {
        Self::with_clock(name, readers, counters, Box::new(clock::precise_micros))
    }

    /// The same with another clock, for tests with a slow device.
    #[must_use]
    pub fn with_clock(name: &str, readers: usize, counters: Arc<Counters>, clock: Clock) -> Pool {
        let shared =
            Arc::new(ReadPoolShared { jobs: Mutex::default(), wake: Condvar::new(), counters, clock });
        let start = |number: &usize| {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
            thread.spawn(move || run(&shared)).is_ok()
        };
        let threads = (0..readers).filter(start).count();
        Pool { shared, most: threads * WAITING }
    }

    /// Does `work` on one of the threads, unless the caller has stopped waiting by then. The result includes the
    /// microseconds that it waited for a thread.
    ///
    /// # Errors
    /// Too many items wait already; it is not done.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<(T, u64)>, PoolFull> {
        let (answer, receiver) = oneshot::channel();
        let work = Box::new(move |waited| {
            if !answer.is_closed() {
                let _ = answer.send((work(), waited));
            }
        });
        let job = ReadJob { work, since: (self.shared.clock)() };
        let mut jobs = self.shared.jobs.lock();
        if jobs.waiting.len() >= self.most {
            return Err(PoolFull);
        }
        jobs.waiting.push_back(job);
        drop(jobs);
        self.shared.wake.notify_one();
        Ok(receiver)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.jobs.lock().stopped = true;
        self.shared.wake.notify_all();
    }
}

fn run(shared: &ReadPoolShared) {
    loop {
        let mut jobs = shared.jobs.lock();
        let job = loop {
            match jobs.waiting.pop_front() {
                Some(job) => break job,
                None if jobs.stopped => return,
                None => shared.wake.wait(&mut jobs),
            }
        };
        drop(jobs);
        let waited = (shared.clock)().saturating_sub(job.since);
        shared.counters.disk_pool_reads.add_shared(1);
        shared.counters.disk_pool_wait_micros.add_shared(waited);
        (job.work)(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_read_beyond_the_queue_is_refused_at_once() {
        let counters = Arc::new(Counters::default());
        let pool = Pool::new("test", 1, counters.clone());
        let (begun, has_begun) = mpsc::channel();
        let (release, wait) = mpsc::channel::<()>();
        // The device hangs.
        let hung = pool.run(move || {
            begun.send(()).unwrap();
            let _ = wait.recv();
        });
        has_begun.recv().unwrap();
        let waiting: Vec<_> = (0..WAITING).map(|it| pool.run(move || it).unwrap()).collect();
        assert!(matches!(pool.run(|| ()), Err(PoolFull)));
        drop(release);
        hung.unwrap().blocking_recv().unwrap();
        let answers = waiting.into_iter().map(|it| it.blocking_recv().unwrap().0);
        assert_eq!((0..WAITING).collect::<Vec<_>>(), answers.collect::<Vec<_>>());
        assert_eq!(1 + WAITING as u64, counters.disk_pool_reads.get());
    }

    #[test]
    fn a_read_without_a_waiting_request_is_skipped() {
        let pool = Pool::new("test", 1, Arc::default());
        let (release, wait) = mpsc::channel::<()>();
        let first = pool.run(move || wait.recv().is_err()).unwrap();
        let (done, was_done) = mpsc::channel();
        drop(pool.run(move || done.send(())));
        drop(release);
        assert!(first.blocking_recv().unwrap().0);
        pool.run(|| ()).unwrap().blocking_recv().unwrap();
        assert!(was_done.try_recv().is_err());
    }
}
