//! How far a follower is behind its database: the ends of the log as the database gave them, until the purges of the changes before them are done.
//! The pages meanwhile are the caller's.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// The most ends that are kept. Each second has one, so a follower that is further behind is also above every bound.
const MOST: usize = 600;

/// The least time from one result of a follower to the next. The changes of a busy database are gathered, since each result takes round trips; a single
/// change is not delayed.
pub(crate) const GATHER: Duration = Duration::from_millis(5);

/// Bits of a position for the byte in a file of the log; the others are the number of the file.
pub(crate) const OFFSET_BITS: u32 = 40;

/// How far a follower is behind its database; clones are the same. Clocks of the database are not compared with this one's.
#[derive(Clone, Debug, Default)]
pub struct FollowLag(Rc<RefCell<LagState>>);

#[derive(Debug, Default)]
struct LagState {
    /// Ends of the log that are not reached, with the moment at which each was the end, the oldest first.
    due: VecDeque<(u64, Instant)>,
    /// The position up to which the pages of changes are purged.
    applied: u64,
}

impl FollowLag {
    /// The log ends here now: changes up to there are committed.
    pub(crate) fn ends(&self, position: u64) {
        let mut state = self.0.borrow_mut();
        let last = state.due.back().map_or(state.applied, |it| it.0);
        if position > last && state.due.len() < MOST {
            state.due.push_back((position, Instant::now()));
        }
    }

    /// The pages of all changes up to there are purged.
    pub(crate) fn applied(&self, position: u64) {
        let mut state = self.0.borrow_mut();
        state.applied = state.applied.max(position);
        while state.due.front().is_some_and(|it| it.0 <= state.applied) {
            state.due.pop_front();
        }
    }

    /// The time for which a change may have been committed whose pages are not purged; zero if there is none. It is at most a second too
    /// short.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.0.borrow().due.front().map_or(Duration::ZERO, |it| it.1.elapsed())
    }

    /// Bytes of the log between the end that the database last gave and the changes whose pages are purged; of the last file of the log, if
    /// they are in several.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let state = self.0.borrow();
        let bytes = |it: &(u64, Instant)| match it.0 >> OFFSET_BITS == state.applied >> OFFSET_BITS {
            true => it.0.saturating_sub(state.applied),
            false => it.0 & ((1 << OFFSET_BITS) - 1),
        };
        state.due.back().map_or(0, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_end_that_is_not_reached_counts() {
        let lag = FollowLag::default();
        let check = |seconds: u64, bytes: u64| {
            assert_eq!((Duration::from_secs(seconds), bytes), (lag.time(), lag.bytes()));
        };
        let pass = |seconds: u64| tokio::time::advance(Duration::from_secs(seconds));
        lag.applied(100);
        lag.ends(100);
        pass(5).await;
        check(0, 0);
        lag.ends(300);
        pass(1).await;
        lag.ends(500);
        pass(1).await;
        check(2, 400);
        // Other changes were committed after the second end.
        lag.applied(300);
        check(1, 200);
        lag.applied(499);
        pass(1).await;
        check(2, 1);
        lag.applied(600);
        check(0, 0);
        // An end that is older than what was read is no delay.
        lag.ends(550);
        pass(1).await;
        check(0, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn ends_are_bounded() {
        let lag = FollowLag::default();
        for position in 1..=2 * MOST as u64 {
            lag.ends(position);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(2 * MOST as u64, lag.time().as_secs());
        lag.applied(2 * MOST as u64);
        assert_eq!(Duration::ZERO, lag.time());
    }
}
