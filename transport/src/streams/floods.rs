//! Limits on cheap frames of one connection that cause work: counted over ten seconds, each kind by itself.

use larder_stdx::clock;
use std::cell::Cell;

/// The period of counting, milliseconds.
const WINDOW: u64 = 10_000;

/// The counted events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloodKind {
    /// A stream that was ended before its response: by the client, or by larder because of the client (CVE-2023-44487 and
    /// similar).
    Reset,
    /// A PING that requires an answer.
    Ping,
    /// SETTINGS that must be applied and acknowledged.
    Settings,
    /// WINDOW_UPDATE, beyond those expected for sent DATA.
    WindowUpdate,
    /// DATA and field sections without a byte, PRIORITY, and unknown frames.
    Nothing,
}

impl FloodKind {
    /// The permitted number. A browser that leaves a page of a hundred pictures resets a hundred streams at once.
    const fn most(self) -> u32 {
        match self {
            FloodKind::Reset => 500,
            FloodKind::Ping => 200,
            FloodKind::Settings => 100,
            FloodKind::WindowUpdate => 5_000,
            FloodKind::Nothing => 1_000,
        }
    }
}

/// The counts of one connection.
#[derive(Debug, Default)]
pub(crate) struct Floods {
    since: Cell<u64>,
    counts: [Cell<u32>; 5],
    /// Expected WINDOW_UPDATEs: two for each DATA frame.
    called_for: Cell<u32>,
}

impl Floods {
    /// Counts one; returns whether the limit is exceeded.
    pub fn add(&self, kind: FloodKind) -> bool {
        let now = clock::monotonic().0;
        if now.saturating_sub(self.since.get()) >= WINDOW {
            self.since.set(now);
            self.counts.iter().for_each(|it| it.set(0));
        }
        if kind == FloodKind::WindowUpdate && self.called_for.get() > 0 {
            self.called_for.set(self.called_for.get() - 1);
            return false;
        }
        let count = &self.counts[kind as usize];
        count.set(count.get() + 1);
        count.get() > kind.most()
    }

    /// Records a sent DATA frame.
    pub fn sent_data(&self) {
        self.called_for.set(self.called_for.get().saturating_add(2).min(100_000));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_measure() {
        clock::tick();
        let floods = Floods::default();
        for _ in 0..FloodKind::Ping.most() {
            assert!(!floods.add(FloodKind::Ping));
        }
        assert!(floods.add(FloodKind::Ping));
        assert!(!floods.add(FloodKind::Settings));
    }

    #[test]
    fn updates_that_data_called_for_do_not_count() {
        let floods = Floods::default();
        for _ in 0..10_000 {
            floods.sent_data();
            assert!(!floods.add(FloodKind::WindowUpdate) && !floods.add(FloodKind::WindowUpdate));
        }
    }
}
