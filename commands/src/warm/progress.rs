//! The progress of a long command: a bar on a terminal, otherwise a line for each tenth. Both go to standard error.

use super::WarmSummary;
use std::cell::Cell;
use std::io::{IsTerminal, Write};

/// Characters of the bar.
const WIDTH: usize = 30;

/// The state of the display.
pub struct WarmProgress {
    all: usize,
    is_terminal: bool,
    /// Tenths that were printed.
    printed: Cell<usize>,
}

impl WarmProgress {
    /// A display for this number of steps.
    pub fn new(all: usize) -> Self {
        Self { all, is_terminal: std::io::stderr().is_terminal(), printed: Cell::new(0) }
    }

    /// Updates the display if there is progress.
    pub fn draw(&self, now: &WarmSummary) {
        let done = usize::try_from(now.done + now.errors).unwrap_or(usize::MAX).min(self.all);
        let mut out = std::io::stderr().lock();
        // A missing reader is no reason to stop.
        if self.is_terminal {
            let _ = write!(out, "\r{}", bar(done, self.all, now));
            let _ = out.flush();
            return;
        }
        let tenths = done * 10 / self.all.max(1);
        if tenths > self.printed.replace(tenths) && tenths < 10 {
            let _ = writeln!(out, "{done} of {} ({} from the origin)", self.all, now.misses);
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

fn bar(done: usize, all: usize, now: &WarmSummary) -> String {
    let full = done * WIDTH / all.max(1);
    let (bar, rest) = ("#".repeat(full), "-".repeat(WIDTH - full));
    format!(
        "[{bar}{rest}] {done} of {all}, {} from the cache, {} from the origin\x1b[K",
        now.hits, now.misses
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        let now = WarmSummary { hits: 3, misses: 2, ..WarmSummary::default() };
        let expect = "[###############---------------] 5 of 10, 3 from the cache, 2 from the origin\x1b[K";
        assert_eq!(expect, bar(5, 10, &now));
        assert!(bar(10, 10, &now).starts_with(&format!("[{}]", "#".repeat(WIDTH))));
        assert!(bar(0, 0, &now).starts_with(&format!("[{}]", "-".repeat(WIDTH))));
    }
}
