//! Whether the first read of a connection is tried before its socket is registered with epoll. If the request arrives
//! along with the connection, that saves the registration: two system calls and a turn of the loop; otherwise it is a
//! wasted call. The more frequent case depends on the load of worker and clients, so it is learned at run time.

use std::cell::Cell;

/// The weight of a try that found a request; one without counts one. Trying pays if one in four finds one.
const WORTH: u8 = 3;
/// The limit of the learned value.
const MOST: u8 = 32;
/// One in this many connections is tried in any case.
const TRY_ONE_IN: u8 = 16;

/// The learned value of a worker.
pub(crate) struct EagerRead {
    score: Cell<u8>,
    skipped: Cell<u8>,
}

impl EagerRead {
    /// Without experience: tries.
    pub fn new() -> Self {
        Self { score: Cell::new(MOST / 2), skipped: Cell::new(0) }
    }

    /// Whether to try with this connection.
    pub fn is_due(&self) -> bool {
        if self.score.get() > 0 {
            return true;
        }
        let left_out = self.skipped.get() + 1;
        self.skipped.set(left_out % TRY_ONE_IN);
        left_out == TRY_ONE_IN
    }

    /// Records whether a try found a request.
    pub fn record(&self, came: bool) {
        let score = self.score.get();
        self.score.set(if came { (score + WORTH).min(MOST) } else { score.saturating_sub(1) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `all` connections are tried, where one in `each` comes with its request.
    fn tried(eager_read: &EagerRead, all: u32, each: u32) -> u32 {
        let mut tried = 0;
        for at in 0..all {
            if eager_read.is_due() {
                eager_read.record(at % each == 0);
                tried += 1;
            }
        }
        tried
    }

    #[test]
    fn an_eager_read_that_fails_is_rare_until_it_succeeds_again() {
        let eager_read = EagerRead::new();
        assert_eq!(100, tried(&eager_read, 100, 1));
        assert_eq!(100, tried(&eager_read, 100, 3), "one in three pays");
        let seldom = tried(&eager_read, 10_000, u32::MAX);
        assert!((600..700).contains(&seldom), "{seldom}: one in {TRY_ONE_IN}");
        assert!(tried(&eager_read, 100, 1) > 80, "they come with their requests again");
    }
}
