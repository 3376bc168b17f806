//! How long a fill that is not kept waits for its slowest reader: as long as that takes while nobody else waits, and half
//! a second over the whole body while somebody does. Then readers that are a window behind are cut;
//! their clients may request the rest with `Range`. Readers of a kept fill are never waited for; nor is anybody while the spool takes what
//! the window has no room for (`spooling`): then only the device is.
//!
//! The half second is a sum, whoever the laggards were and whether they moved: so it bounds what a body can be delayed by
//! others than its own reader and the origin. What a reader needs to stay is to be less than a window behind: that window
//! is therefore wide, where RAM has room, beside the bursts of a mebibyte or so in which a send buffer drains.

use super::{Abandoned, FIRST, Fill, FillState, FillWriter, WINDOW};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long others wait for laggards, in all, while one body comes.
const HELD: Duration = Duration::from_millis(500);

/// The widest window for a body that several read, while RAM has room for it.
const WIDEST: u64 = 4 * 1024 * 1024;

/// A window is not wider than this part of the RAM budget.
const PART: u64 = 64;

/// What the writer knows of those that others waited for.
#[derive(Default)]
pub(super) struct WriterPace {
    /// How long others have waited until now.
    held: Duration,
}

/// Whether there is room in the window.
enum WindowSpace {
    Yes,
    /// Where RAM has some: several read this.
    Perhaps,
    No,
    Nobody,
}

impl FillWriter {
    /// Waits until the window has room, leaves behind whoever keeps others waiting for too long, and enters `cost` in the
    /// ledger.
    pub(super) async fn room(&mut self, cost: u64) -> Result<(), Abandoned> {
        let fill = self.fill.clone();
        loop {
            let drained = fill.drained.notified();
            let (room, waiting, held) = {
                let state = fill.state.lock();
                (state.room(fill.widest()), state.waiting, state.held())
            };
            match room {
                WindowSpace::Nobody => return Err(Abandoned),
                _ if self.hurry.is_on() && held >= FIRST => self.hurry_on().await?,
                WindowSpace::Yes => {
                    self.fill.store.ledger.charge(cost);
                    self.fill.store.trim();
                    return Ok(());
                }
                WindowSpace::Perhaps if self.fill.store.reserve(cost).is_ok() => return Ok(()),
                WindowSpace::Perhaps | WindowSpace::No if waiting == 0 => drained.await,
                WindowSpace::Perhaps | WindowSpace::No if self.pace.held < HELD && self.spool().await => {}
                WindowSpace::Perhaps | WindowSpace::No if self.pace.held < HELD => {
                    let before = Instant::now();
                    let _ = timeout(HELD - self.pace.held, drained).await;
                    self.pace.held += before.elapsed();
                }
                WindowSpace::Perhaps => self.leave_behind(WINDOW),
                WindowSpace::No => self.leave_behind(self.fill.widest()),
            }
        }
    }

    /// Goes on without those who are `window` bytes behind.
    fn leave_behind(&self, window: u64) {
        let left = self.fill.change(0, &self.fill.arrived, |state| state.leave_behind(window));
        self.fill.store.counters.fill_laggards.add_shared(left as u64);
    }
}

impl Fill {
    fn widest(&self) -> u64 {
        (self.store.ledger.budget() / PART).clamp(WINDOW, WIDEST)
    }
}

impl FillState {
    fn room(&self, widest: u64) -> WindowSpace {
        match self.held() {
            _ if self.readers == 0 => WindowSpace::Nobody,
            held if held < WINDOW => WindowSpace::Yes,
            held if held < widest && self.readers > 1 => WindowSpace::Perhaps,
            _ => WindowSpace::No,
        }
    }

    /// Leaves behind whoever makes this hold `window` bytes or more; how many that were.
    fn leave_behind(&mut self, window: u64) -> usize {
        let kept = self.chunks.iter().find(|it| self.length - it.start < window);
        self.left_behind = kept.map_or(self.length, |it| it.start);
        let going_on = self.positions.split_off(&self.left_behind);
        let left = std::mem::replace(&mut self.positions, going_on).values().sum();
        self.readers -= left;
        self.let_go();
        left
    }

    /// One that had read everything up to `at` and waited does not any more, if it still did.
    pub(super) fn waits_no_more(&mut self, at: u64) {
        if at == self.length {
            self.waiting -= 1;
        }
    }
}
