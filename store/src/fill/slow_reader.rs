//! How long a fill that is not kept waits for its slowest reader. Without other waiting readers it is as long as that
//! takes; with them, half a second over the whole body. Then readers that are a window behind are cut; their clients may
//! request the rest with `Range`. Readers of a kept fill are never waited for. While the spool takes the bytes beyond the
//! window (`spooling`), only the device is waited for.
//!
//! The half second is a sum over all slow readers, whether they advance or not. It bounds the delay that a body's readers
//! can get from any cause but themselves and the origin. A reader stays if it is less than a window behind. The window is
//! therefore wide where RAM has room, compared with the bursts of about a mebibyte in which a send buffer drains.

use super::{Abandoned, FIRST, Fill, FillState, FillWriter, WINDOW};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long in total readers wait for slower ones, while one body arrives.
const MOST_WAIT: Duration = Duration::from_millis(500);

/// The widest window for a body with several readers, while RAM has room for it.
const WIDEST: u64 = 4 * 1024 * 1024;

/// A window is not wider than this part of the RAM budget.
const PART: u64 = 64;

/// The writer's record of the waits.
#[derive(Default)]
pub(super) struct WriterPace {
    /// How long readers have waited until now.
    waited: Duration,
}

/// Whether there is room in the window.
enum WindowSpace {
    Yes,
    /// Where RAM has some: there are several readers.
    Perhaps,
    No,
    NoReader,
}

impl FillWriter {
    /// Waits until the window has room, cuts off readers that delay the others for too long, and enters `cost` in the
    /// budget.
    pub(super) async fn reserve_window(&mut self, cost: u64) -> Result<(), Abandoned> {
        let fill = self.fill.clone();
        loop {
            let drained = fill.drained.notified();
            let (room, waiting, held) = {
                let state = fill.state.lock();
                (state.window_space(fill.widest()), state.waiting, state.held())
            };
            match room {
                WindowSpace::NoReader => return Err(Abandoned),
                _ if self.drain_policy.is_on() && held >= FIRST => self.drain_step().await?,
                WindowSpace::Yes => {
                    self.fill.store.budget.charge(cost);
                    self.fill.store.trim();
                    return Ok(());
                }
                WindowSpace::Perhaps if self.fill.store.reserve(cost).is_ok() => return Ok(()),
                WindowSpace::Perhaps | WindowSpace::No if waiting == 0 => self.wait_drained(drained).await,
                WindowSpace::Perhaps | WindowSpace::No
                    if self.slow_readers.waited < MOST_WAIT && self.spool().await => {}
                WindowSpace::Perhaps | WindowSpace::No if self.slow_readers.waited < MOST_WAIT => {
                    let before = Instant::now();
                    let _ = timeout(MOST_WAIT - self.slow_readers.waited, drained).await;
                    self.slow_readers.waited += before.elapsed();
                }
                WindowSpace::Perhaps => self.leave_behind(WINDOW),
                WindowSpace::No => self.leave_behind(self.fill.widest()),
            }
        }
    }

    /// Continues without the readers that are `window` bytes behind.
    fn leave_behind(&self, window: u64) {
        let left = self.fill.change(0, &self.fill.arrived, |state| state.leave_behind(window));
        self.fill.store.counters.fill_laggards.add_shared(left as u64);
    }
}

impl Fill {
    fn widest(&self) -> u64 {
        (self.store.budget.limit() / PART).clamp(WINDOW, WIDEST)
    }
}

impl FillState {
    fn window_space(&self, widest: u64) -> WindowSpace {
        match self.held() {
            _ if self.readers == 0 => WindowSpace::NoReader,
            held if held < WINDOW => WindowSpace::Yes,
            held if held < widest && self.readers > 1 => WindowSpace::Perhaps,
            _ => WindowSpace::No,
        }
    }

    /// Cuts off the readers that make this hold `window` bytes or more; returns their number.
    fn leave_behind(&mut self, window: u64) -> usize {
        let kept = self.chunks.iter().find(|it| self.length - it.start < window);
        self.left_behind = kept.map_or(self.length, |it| it.start);
        let going_on = self.positions.split_off(&self.left_behind);
        let left = std::mem::replace(&mut self.positions, going_on).values().sum();
        self.readers -= left;
        self.drop_read_chunks();
        left
    }

    /// A reader that had read everything up to `at` and waited does not wait any more, if it still did.
    pub(super) fn clear_waiting(&mut self, at: u64) {
        if at == self.length {
            self.waiting -= 1;
        }
    }
}
