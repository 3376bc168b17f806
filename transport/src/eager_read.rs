//! Whether the first read of a connection is tried before its socket is watched. Where the request comes along with the
//! connection, that saves the watching: two system calls and a turn of the loop; where it does not, it is one in vain.
//! Which of them is the rule depends on how busy worker and clients are, so it is learned as it goes.

use std::cell::Cell;

/// What a try that found a request is worth; one that found none is worth one. It pays where one in four does.
const WORTH: u8 = 3;
/// So much is remembered at most.
const MOST: u8 = 32;
/// Connections of which one is tried all the same.
const EACH: u8 = 16;

/// What a worker learned.
pub(crate) struct EagerRead {
    score: Cell<u8>,
    left_out: Cell<u8>,
}

impl EagerRead {
    /// Knows nothing, and tries.
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

    /// A try found something, or nothing.
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
    fn what_does_not_pay_is_tried_seldom_and_learned_anew() {
        let haste = EagerRead::new();
        assert_eq!(100, tried(&haste, 100, 1));
        assert_eq!(100, tried(&haste, 100, 3), "one in three pays");
        let seldom = tried(&haste, 10_000, u32::MAX);
        assert!((600..700).contains(&seldom), "{seldom}: one in {EACH}");
        assert!(tried(&haste, 100, 1) > 80, "they come with their requests again");
    }
}
