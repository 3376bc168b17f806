//! How long a fill that is not kept waits for its slowest reader: as long as that takes while nobody else waits, and only
//! while it keeps up once somebody does. Readers of a kept fill are never waited for.

use super::{Abandoned, FillWriter, State, WINDOW};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How much of others' waiting a reader is given to get [`ENOUGH`] further: one that has not moved since they wait.
const STILL: Duration = Duration::from_secs(1);

/// The same for one that has: a send buffer drains in steps of a MiB or more, and an honest line may take a while for one.
const MOVING: Duration = Duration::from_secs(3);

/// Bytes that a reader is to get further.
const ENOUGH: u64 = 256 * 1024;

/// What the writer knows of the reader that others wait for.
#[derive(Default)]
pub(super) struct Pace {
    /// Where the slowest stood when others began to wait for it, or got [`ENOUGH`] further; `None` before.
    from: Option<u64>,
    /// How long they have waited since.
    waited: Duration,
    /// Whether it got further since they wait.
    moves: bool,
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
                    let from = *self.pace.from.get_or_insert(slowest);
                    if slowest >= from + ENOUGH {
                        self.pace = Pace { from: Some(slowest), waited: Duration::ZERO, moves: true };
                    }
                    let patience = if self.pace.moves { MOVING } else { STILL };
                    let left = patience.saturating_sub(self.pace.waited);
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
        let below = self.pace.from.unwrap_or(0) + ENOUGH;
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
