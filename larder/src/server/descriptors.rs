//! How many descriptors the process may have, and how many of them clients may take.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::num::NonZeroUsize;

/// What each thread's event loop opens, at most.
const OF_A_THREAD: usize = 6;
/// Least and most descriptors that are kept for origins, files and logs; an eighth of all in between.
const KEPT: (usize, usize) = (16, 4096);

/// Raises the limit as far as the system lets us, and says how many client connections there is room for. To be asked
/// when everything that the process opens at start is open.
pub fn for_clients(workers: NonZeroUsize) -> usize {
    let allowed = raise();
    let open = std::fs::read_dir("/proc/self/fd").map_or(64, Iterator::count);
    let threads = (workers.get() + 1) * OF_A_THREAD;
    left(allowed, open + threads)
}

fn left(allowed: usize, taken: usize) -> usize {
    let kept = (allowed / 8).clamp(KEPT.0, KEPT.1);
    allowed.saturating_sub(taken).saturating_sub(kept)
}

/// The soft limit is often 1024 for the sake of programs that know no more; the hard one is what is meant.
fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_for_others() {
        assert_eq!(1024 - 40 - 128, left(1024, 40));
        assert_eq!(64 - 30 - 16, left(64, 30));
        assert_eq!(0, left(32, 30));
        assert_eq!(1_000_000 - 40 - 4096, left(1_000_000, 40));
    }
}
