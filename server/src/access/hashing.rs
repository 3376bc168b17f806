//! Password hashes are verified on threads of their own: one takes tens of milliseconds, in which a worker would answer no request.

use super::apr1;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use larder_wire::htpasswd::APR1;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The most passwords that wait. A client beyond them has to come again.
const QUEUE: usize = 64;
/// The most threads.
const MOST_THREADS: usize = 4;

/// The threads; started with the first password.
#[derive(Default)]
pub struct HashPool {
    state: Mutex<HashQueue>,
    bell: Condvar,
}

#[derive(Default)]
struct HashQueue {
    jobs: VecDeque<HashJob>,
    threads: usize,
}

struct HashJob {
    password: Vec<u8>,
    hash: Arc<str>,
    reply: oneshot::Sender<bool>,
}

impl HashPool {
    /// Verifies a password; `None` if too many wait.
    pub async fn verify(self: &Arc<Self>, password: Vec<u8>, hash: Arc<str>) -> Option<bool> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.jobs.len() >= QUEUE {
                return None;
            }
            state.jobs.push_back(HashJob { password, hash, reply });
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
        self.bell.notify_one();
        answer.await.ok()
    }

    fn begin(self: &Arc<Self>, number: usize) -> bool {
        let pool = self.clone();
        let work = move || {
            // Requests of clients that are known already go first.
            let _ = rustix::process::nice(19);
            loop {
                let job = pool.next();
                // The client of a closed reply has gone.
                if !job.reply.is_closed() {
                    let holds = verify(&job.password, &job.hash);
                    let _ = job.reply.send(holds);
                }
            }
        };
        std::thread::Builder::new().name(format!("password-{number}")).spawn(work).is_ok()
    }

    fn next(&self) -> HashJob {
        let mut state = self.state.lock();
        loop {
            match state.jobs.pop_front() {
                Some(job) => return job,
                None => self.bell.wait(&mut state),
            }
        }
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
}
