//! Password hashes are verified on threads of their own: one takes tens of milliseconds, in which a worker would answer no request.
//!
//! These threads run only while a processor is idle: a worker that wakes preempts them at once. Where all processors stay busy
//! they hardly run, so that another thread, with a share of the time, verifies what they do not finish.

use super::apr1;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use larder_stdx::clock::precise_micros;
use larder_wire::htpasswd::APR1;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The most passwords that wait. A client beyond them has to come again.
const QUEUE: usize = 64;
/// The most threads, without the one for passwords that they do not finish.
const MOST_THREADS: usize = 4;
/// Microseconds without a password that is begun or finished, after which the threads count as starved. Longer than the most
/// expensive hashes in use: bcrypt with the exponent 12 takes a quarter of a second.
const STARVED: u64 = 500_000;
/// The niceness of the thread for passwords that the others do not finish: a tenth of a processor that another thread keeps busy.
const NICENESS: i32 = 10;

/// The threads; started with the first password.
#[derive(Default)]
pub struct HashPool {
    state: Mutex<HashQueue>,
    bell: Condvar,
}

#[derive(Default)]
struct HashQueue {
    jobs: VecDeque<Arc<HashJob>>,
    /// Those that a thread has begun.
    begun: VecDeque<Arc<HashJob>>,
    /// When a thread began or finished one last, or the first one came; microseconds.
    progress: u64,
    threads: usize,
}

struct HashJob {
    password: Vec<u8>,
    hash: Arc<str>,
    /// Taken by the thread that is the first to have the answer.
    reply: Mutex<Option<oneshot::Sender<bool>>>,
}

impl HashPool {
    /// Verifies a password; `None` if too many wait.
    pub async fn verify(self: &Arc<Self>, password: Vec<u8>, hash: Arc<str>) -> Option<bool> {
        let (job, answer) = HashJob::new(password, hash);
        {
            let mut state = self.state.lock();
            if state.jobs.len() >= QUEUE {
                return None;
            }
            if state.is_done() {
                state.progress = precise_micros();
            }
            state.jobs.push_back(job);
            let most =
                std::thread::available_parallelism().map_or(1, |it| it.get() / 2).clamp(1, MOST_THREADS);
            if state.threads < most.min(state.jobs.len()) && self.begin(state.threads) {
                state.threads += 1;
            }
            if state.threads == 0 {
                state.jobs.clear();
                return None;
            }
        }
        self.bell.notify_all();
        answer.await.ok()
    }

    /// Begins a thread; with the first one that for passwords that are not finished.
    fn begin(self: &Arc<Self>, number: usize) -> bool {
        let pool = self.clone();
        let work = move || {
            run_when_idle();
            loop {
                let job = pool.next();
                job.finish();
                pool.note_finished(&job);
            }
        };
        let is_begun = start(format!("password-{number}"), work);
        if is_begun && number == 0 {
            self.begin_last();
        }
        is_begun
    }

    /// Begins the thread for passwords that the others do not finish.
    fn begin_last(self: &Arc<Self>) -> bool {
        let pool = self.clone();
        let work = move || {
            let _ = rustix::process::nice(NICENESS);
            loop {
                pool.next_unfinished().finish();
            }
        };
        start("password-last".to_owned(), work)
    }

    fn next(&self) -> Arc<HashJob> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.progress = precise_micros();
                state.begun.push_back(job.clone());
                return job;
            }
            self.bell.wait(&mut state);
        }
    }

    fn note_finished(&self, job: &Arc<HashJob>) {
        let mut state = self.state.lock();
        state.progress = precise_micros();
        state.begun.retain(|it| !Arc::ptr_eq(it, job));
    }

    /// The longest waiting password, as soon as the threads count as starved.
    fn next_unfinished(&self) -> Arc<HashJob> {
        let mut state = self.state.lock();
        loop {
            if state.is_done() {
                self.bell.wait(&mut state);
                continue;
            }
            let without = precise_micros().saturating_sub(state.progress);
            if without < STARVED {
                self.bell.wait_for(&mut state, Duration::from_micros(STARVED - without));
            } else if let Some(job) = state.take_first() {
                return job;
            }
        }
    }
}

impl HashQueue {
    /// Whether no password waits for a thread or its answer.
    fn is_done(&self) -> bool {
        self.jobs.is_empty() && self.begun.is_empty()
    }

    fn take_first(&mut self) -> Option<Arc<HashJob>> {
        self.begun.pop_front().or_else(|| self.jobs.pop_front())
    }
}

impl HashJob {
    fn new(password: Vec<u8>, hash: Arc<str>) -> (Arc<Self>, oneshot::Receiver<bool>) {
        let (reply, answer) = oneshot::channel();
        (Arc::new(Self { password, hash, reply: Mutex::new(Some(reply)) }), answer)
    }

    fn finish(&self) {
        // The client of a closed reply has gone.
        if self.reply.lock().as_ref().is_none_or(oneshot::Sender::is_closed) {
            return;
        }
        let holds = verify(&self.password, &self.hash);
        let reply = self.reply.lock().take();
        if let Some(reply) = reply {
            let _ = reply.send(holds);
        }
    }
}

fn start(name: String, work: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name(name).spawn(work).is_ok()
}

/// Lets this thread run only while a processor is idle: a worker that wakes preempts it at once. A thread of low priority would
/// use up its time slice first; it is what remains where the system refuses the policy.
fn run_when_idle() {
    let _ = rustix::process::nice(19);
    let priority: libc::c_int = 0;
    // SAFETY: thread 0 is the calling one, and the kernel reads one `int`, which outlives the call. The function of the same name
    // is a stub in musl.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const priority);
    }
}

/// Whether a password has this hash.
fn verify(password: &[u8], hash: &str) -> bool {
    if hash.starts_with("$argon2id$") {
        let parsed = PasswordHash::new(hash);
        return parsed.is_ok_and(|it| argon2::Argon2::default().verify_password(password, &it).is_ok());
    }
    match hash.starts_with(APR1) {
        true => apr1::verify(password, hash),
        false => bcrypt::verify(password, hash).unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by the programs of others: `argon2 larderSalt16byte -id -t 2 -m 12 -p 2 -e`, `htpasswd -nbB -C 5`.
    #[test]
    fn hashes_of_other_programs() {
        let argon2 = "$argon2id$v=19$m=4096,t=2,p=2$bGFyZGVyU2FsdDE2Ynl0ZQ$mOfEHw9XB50Sl9kCgU8ntlgvg8eXl/pmYVhKtIXjWWQ";
        let bcrypt = "$2y$05$ESWj3oWJVteFziuz2K8xe.qbtpvSTrfFne63/cePKuyLUV3NAeB5e";
        for (password, hash) in [("correct horse", argon2), ("battery", bcrypt)] {
            assert!(verify(password.as_bytes(), hash), "{hash}");
            for wrong in ["", "correct horse ", "Correct horse", "batter", "battery\0"] {
                assert!(!verify(wrong.as_bytes(), hash), "{wrong:?}: {hash}");
            }
        }
        let other_parameters = argon2.replace("t=2", "t=3");
        assert!(!verify(b"correct horse", &other_parameters));
    }

    const BATTERY: &str = "$2y$05$ESWj3oWJVteFziuz2K8xe.qbtpvSTrfFne63/cePKuyLUV3NAeB5e";

    #[test]
    fn passwords_are_verified_while_the_threads_for_them_do_not_run() {
        let pool = Arc::<HashPool>::default();
        let jobs = || HashJob::new(b"battery".to_vec(), BATTERY.into());
        // One that a thread has begun without coming to its end, and one that waits behind it.
        let [(begun, first), (waiting, second)] = [jobs(), jobs()];
        {
            let mut state = pool.state.lock();
            state.begun.push_back(begun.clone());
            state.jobs.push_back(waiting);
        }
        assert!(pool.begin_last());
        assert_eq!([Ok(true), Ok(true)], [first, second].map(oneshot::Receiver::blocking_recv));
        // The thread runs again: its answer is not needed any more.
        begun.finish();
        pool.note_finished(&begun);
        assert!(pool.state.lock().is_done());
    }

    #[test]
    fn a_waking_worker_preempts_the_verification_of_a_password() {
        let read = || {
            run_when_idle();
            std::fs::read_to_string("/proc/thread-self/stat").unwrap()
        };
        let stat = std::thread::spawn(read).join().unwrap();
        // `policy` is the 41st value of proc(5); the second, a name, may have spaces.
        let policy = stat.rsplit_once(") ").unwrap().1.split(' ').nth(38).map(str::to_owned);
        assert_eq!(Some(libc::SCHED_IDLE.to_string()), policy, "{stat}");
    }
}
