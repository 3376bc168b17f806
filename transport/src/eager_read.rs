//! Whether the first read of a connection is tried before its socket is registered with epoll. If the request arrives
//! along with the connection, that saves the registration: two system calls and a turn of the loop; otherwise it is a
//! wasted call. The more frequent case depends on the load of worker and clients, so it is learned at run time.

use std::cell::Cell;

/// The weight of a try that found a request; one without counts one. Trying pays if one in four finds one.
const WORTH: u8 = 3;
/// The limit of the learned value.
const MOST: u8 = 32;
/// One in this many connections is tried in any case.
const EACH: u8 = 16;

/// The learned value of a worker.
pub(crate) struct EagerRead {
    score: Cell<u8>,
    left_out: Cell<u8>,
}

impl EagerRead {
    /// Without experience: tries.
    pub fn new() -> Self {
        Self { score: Cell::new(MOST / 2), left_out: Cell::new(0) }
    }

    /// Whether to try with this connection.
    pub fn is_due(&self) -> bool {
        if self.score.get() > 0 {
            return true;
        }
        let left_out = self.left_out.get() + 1;
        self.left_out.set(left_out % EACH);
        left_out == EACH
    }

    /// Records whether a try found a request.
    pub fn tell(&self, came: bool) {
        let score = self.score.get();
        self.score.set(if came { (score + WORTH).min(MOST) } else { score.saturating_sub(1) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `all` connections are tried, where one in `each` comes with its request.
    fn tried(haste: &EagerRead, all: u32, each: u32) -> u32 {
        let mut tried = 0;
        for at in 0..all {
            if haste.is_due() {
                haste.tell(at % each == 0);
                tried += 1;
            }
        }
        tried
    }

    #[test]
    fn an_eager_read_that_fails_is_rare_until_it_succeeds_again() {
        let haste = EagerRead::new();
        assert_eq!(100, tried(&haste, 100, 1));
        assert_eq!(100, tried(&haste, 100, 3), "one in three pays");
        let seldom = tried(&haste, 10_000, u32::MAX);
        assert!((600..700).contains(&seldom), "{seldom}: one in {EACH}");
        assert!(tried(&haste, 100, 1) > 80, "they come with their requests again");
    }
}
