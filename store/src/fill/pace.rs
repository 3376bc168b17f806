//! How long a fill that is not kept waits for its slowest reader: as long as that takes while nobody else waits, and only
//! while it keeps up once somebody does. Readers of a kept fill are never waited for.

use super::{Abandoned, FillWriter, State, WINDOW};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How much of others' waiting a reader is given to get [`ENOUGH`] further.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes that a reader takes in [`PATIENCE`] unless it is slow: 8 Mbit/s.
const ENOUGH: u64 = 1 << 20;

/// What the writer knows of the reader that others wait for.
#[derive(Default)]
pub(super) struct Pace {
    /// Where the slowest stood when others began to wait for it.
    from: u64,
    /// How long they have waited since.
    waited: Duration,
}

/// Whether there is room in the window.
enum Room {
    Yes,
    /// One reader lags, and nobody has read all that there is.
    Full,
    /// The slowest stands here, and somebody waits for more than there is.
    Wanted(u64),
    Nobody,
}

impl FillWriter {
    /// Waits until the window has room, and leaves behind whoever keeps others waiting for too long.
    pub(super) async fn room(&mut self) -> Result<(), Abandoned> {
        loop {
            let drained = self.fill.drained.notified();
            let room = self.fill.state.lock().room();
            match room {
                Room::Yes => return Ok(()),
                Room::Nobody => return Err(Abandoned),
                Room::Full => drained.await,
                Room::Wanted(slowest) => {
                    if slowest >= self.pace.from + ENOUGH {
                        self.pace = Pace { from: slowest, waited: Duration::ZERO };
                    }
                    let left = PATIENCE.saturating_sub(self.pace.waited);
                    let before = Instant::now();
                    if timeout(left, drained).await.is_err() {
                        self.leave_behind();
                        self.pace = Pace::default();
                    } else {
                        self.pace.waited += before.elapsed();
                    }
                }
            }
        }
    }

    /// Ends the body of every reader that did not get far enough, but for those who have read the most.
    fn leave_behind(&self) {
        let below = self.pace.from + ENOUGH;
        let left = self.fill.change(0, &self.fill.arrived, |state| state.leave_behind(below));
        self.fill.store.counters.fill_laggards.add_shared(left as u64);
    }
}

impl State {
    fn room(&self) -> Room {
        match (self.positions.first_key_value(), self.held()) {
            (None, _) => Room::Nobody,
            (_, held) if held < WINDOW => Room::Yes,
            (Some((slowest, _)), _) if self.positions.contains_key(&self.length) => Room::Wanted(*slowest),
            _ => Room::Full,
        }
    }

    /// Leaves behind who stands below `below` and has not read all that there is; how many that were.
    fn leave_behind(&mut self, below: u64) -> usize {
        self.left_behind = below.min(self.length);
        let going_on = self.positions.split_off(&self.left_behind);
        let left = std::mem::replace(&mut self.positions, going_on).values().sum();
        self.readers -= left;
        self.let_go();
        left
    }
}
