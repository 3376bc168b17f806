//! Bytes beyond the window, while some readers wait for more and others are slow: the oldest chunks go to the spool,
//! where slow readers read them. A chunk keeps its place in the queue; only its bytes move. It stays in RAM until it is
//! known to be in the spool. When the spool is full, only the room is lost, and `slow_reader` decides; the body is offered again later. `crate::spool`
//! writes and reads the files.

use super::{Chunk, ChunkBytes, Fill, FillState, FillWriter};
use crate::spool::{CALL_TIMEOUT, SINGLE_CALL_TIMEOUT, Spooled};
use bytes::Bytes;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Approximate bytes that are written at once: the smallest window.
const STEP: u64 = super::WINDOW;

/// The pieces of one call: less than the kernel's limit.
const PIECES: usize = 256;

/// A larger chunk is not spooled: a reader would have to hold all of it.
const LARGEST: usize = 1 << 20;

/// How long a body is not offered to the spool after a failed write: longer than the spool refuses new bodies after one.
const SPOOL_PAUSE: Duration = Duration::from_secs(11);

/// The writer's record of spooling.
#[derive(Default)]
pub(super) struct Spooling {
    /// A part of the body was written.
    has_begun: bool,
    /// The spool was full, or failed.
    has_failed: bool,
    /// After a failure: until then the body continues without the spool.
    paused_until: Option<Instant>,
}

impl Spooling {
    /// Whether the body continues without the spool for now.
    pub(super) fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|it| Instant::now() < it)
    }
}

/// The oldest chunks in RAM.
struct OldestChunks {
    /// The place of each.
    starts: Vec<u64>,
    pieces: Vec<Bytes>,
    /// No reader needs anything before this.
    needed: u64,
}

/// A chunk in the spool, for a reader inside it.
pub(super) struct SpooledChunk {
    file: Arc<Spooled>,
    start: u64,
    length: usize,
    check: u64,
}

impl SpooledChunk {
    /// All of it; `None` where it cannot be read any more.
    pub(super) async fn read(&self, fill: &Fill) -> Option<Bytes> {
        self.file.read(fill.store.charge_read(self.length), self.start, self.length, self.check).await
    }

    /// The bytes after `at` of all of it.
    pub(super) fn after(&self, at: u64, whole: &Bytes) -> Bytes {
        whole.slice(usize::try_from(at - self.start).unwrap_or(whole.len())..)
    }
}

impl FillWriter {
    /// Writes the oldest held bytes to the spool; false where that fails.
    pub(super) async fn spool(&mut self) -> bool {
        let Some(spool) = self.fill.store.spool.get() else {
            return false;
        };
        if self.spooling.is_paused() {
            return false;
        }
        let counters = &self.fill.store.counters;
        let (file, oldest, timeout) = {
            let state = self.fill.state.lock();
            let timeout = if state.readers > 1 { CALL_TIMEOUT } else { SINGLE_CALL_TIMEOUT };
            (state.spooled.clone(), state.oldest(), timeout)
        };
        // The failure of other bodies is no reason to give up one that had none.
        let Spooling { has_begun, has_failed, .. } = self.spooling;
        let may = has_begun && !has_failed || spool.is_on();
        if let Some(OldestChunks { starts, pieces, needed }) = oldest.filter(|_| may) {
            let file = file.unwrap_or_else(|| Spooled::new(spool, starts[0]));
            if let Ok(checks) = file.append(starts[0], pieces, needed, timeout).await {
                if !std::mem::replace(&mut self.spooling.has_begun, true) {
                    counters.fill_spooled.add_shared(1);
                }
                self.fill.change(0, &self.fill.drained, |state| {
                    state.set_spooled(file, &starts, &checks);
                });
                return true;
            }
        }
        self.spooling.paused_until = Some(Instant::now() + SPOOL_PAUSE);
        if !std::mem::replace(&mut self.spooling.has_failed, true) {
            counters.fill_spool_given_up.add_shared(1);
        }
        false
    }

    /// Waits until the body may be offered to the spool again.
    pub(super) async fn wait_pause(&self) {
        match self.spooling.paused_until {
            Some(it) if self.fill.store.spool.get().is_some() => sleep_until(it).await,
            _ => pending().await,
        }
    }
}

impl Fill {
    /// The reader at `at` cannot get the following bytes: it is cut.
    pub(super) fn cut_reader(&self, at: u64) {
        self.change(0, &self.drained, |state| {
            // Unless it was already, with others.
            if at >= state.left_behind {
                state.remove_position(at);
                state.drop_read_chunks();
                self.store.counters.fill_laggards.add_shared(1);
            }
        });
    }
}

impl FillState {
    /// The place of the first chunk whose bytes are in RAM.
    pub(super) fn first_in_ram(&self) -> usize {
        self.chunks.partition_point(|it| it.bytes().is_none())
    }

    fn oldest(&self) -> Option<OldestChunks> {
        let first = self.first_in_ram();
        let at = self.chunks.get(first)?.start;
        let step = self.chunks.range(first..).take_while(|it| it.start < at + STEP && it.length <= LARGEST);
        let step = step.take(PIECES).filter_map(|it| Some((it.start, it.bytes()?.clone())));
        let (starts, pieces): (Vec<u64>, Vec<Bytes>) = step.unzip();
        let needed = self.chunks.front()?.start;
        (!pieces.is_empty()).then_some(OldestChunks { starts, pieces, needed })
    }

    /// The chunks at these places are in the file; those that were dropped meanwhile are skipped.
    fn set_spooled(&mut self, file: Arc<Spooled>, starts: &[u64], checks: &[u64]) {
        let first = self.first_in_ram();
        let mut here = self.chunks.range_mut(first..).peekable();
        for (start, check) in starts.iter().zip(checks) {
            if let Some(chunk) = here.next_if(|it| it.start == *start) {
                self.charged -= chunk.length as u64;
                chunk.held = ChunkBytes::Spooled(*check);
            }
        }
        self.spooled = Some(file);
        self.close_spool_if_empty();
    }

    pub(super) fn in_spool(&self, chunk: &Chunk, check: u64) -> Option<SpooledChunk> {
        let file = self.spooled.clone()?;
        Some(SpooledChunk { file, start: chunk.start, length: chunk.length, check })
    }

    /// Closes the file when no chunk is in it.
    pub(super) fn close_spool_if_empty(&mut self) {
        if self.chunks.front().is_none_or(|it| it.bytes().is_some()) {
            self.spooled = None;
        }
    }
}
