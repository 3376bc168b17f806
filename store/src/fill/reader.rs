//! The reading end of a fill.

use super::spooling::SpooledChunk;
use super::{Fill, FillEnd, FillHead, NextBytes, WINDOW, part};
use crate::key::KeyHash;
use bytes::Bytes;
use larder_stdx::clock::Monotonic;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The part of the RAM budget above which passing bodies are fetched only as they are taken.
const PART: u64 = 8;

/// One reader. Dropping it leaves the fill.
pub struct FillReader {
    fill: Arc<Fill>,
    at: u64,
    place: ReaderRole,
    /// See [`FillReader::set_read_ahead`].
    ahead: u64,
    /// It was counted as waiting when it had read everything up to `at`.
    waits: bool,
    /// Bytes that it needs could not be read from the spool: its position counts no more.
    is_lost: bool,
    /// See [`FillReader::mark_suspect`].
    is_suspect: bool,
}

/// The result of one look at the fill.
enum ReaderProgress {
    Next(Result<Bytes, FillEnd>),
    /// It is in the spool.
    Spooled(SpooledChunk),
    /// Nothing new.
    Wait,
}

/// The kind of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderRole {
    /// The one that started the fill.
    Leader,
    /// One that joined before there was a head.
    Waiting,
    /// One that joined later.
    Follower,
}

impl FillReader {
    /// A reader that the fill's state already counts, at its beginning.
    pub(super) fn new(fill: Arc<Fill>, place: ReaderRole) -> Self {
        Self { fill, at: 0, place, ahead: WINDOW, waits: false, is_lost: false, is_suspect: false }
    }

    /// Whether this reader joined before the head.
    #[must_use]
    pub fn has_waited(&self) -> bool {
        self.place != ReaderRole::Follower
    }

    /// Whether this reader reads `fill`.
    pub(super) fn reads(&self, fill: &Fill) -> bool {
        std::ptr::eq(&*self.fill, fill)
    }

    /// Whether both read one fetch.
    #[must_use]
    pub fn reads_with(&self, other: &FillReader) -> bool {
        other.reads(&self.fill)
    }

    /// Whether this reader's request may ask the origin itself in addition: one reader of the same fetch may, in each
    /// interval of `each` milliseconds.
    #[must_use]
    pub fn may_start_extra_fetch(&self, now: Monotonic, each: u64) -> bool {
        let last = self.fill.extra_fetch_at.load(Relaxed);
        let is_time = last == 0 || now.0 >= last + each;
        is_time && self.fill.extra_fetch_at.compare_exchange(last, now.0.max(1), Relaxed, Relaxed).is_ok()
    }

    /// The hash of the fields of the failed fetch's request, where that may have caused the failure.
    #[must_use]
    pub fn provoked_by(&self) -> Option<KeyHash> {
        self.fill.state.lock().provoked_by
    }

    /// Bytes of body that have come so far.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.fill.state.lock().length
    }

    /// From now on `bytes` of a body that is not kept may be buffered between its origin and this reader, where it has no
    /// other: [`WINDOW`] at most and by default. It is one piece at a time where all such bodies together take an eighth
    /// of the RAM budget already.
    pub fn set_read_ahead(&mut self, bytes: u64) {
        let budget = &self.fill.store.budget;
        let is_much = budget.fills.get() > budget.limit() / PART;
        self.ahead = bytes.min(if is_much { 0 } else { WINDOW });
    }

    /// This reader's client may be gone: until it takes some of the body, the fetch may be cancelled in favour of other
    /// requests.
    pub fn mark_suspect(&mut self) {
        if !std::mem::replace(&mut self.is_suspect, true) {
            self.fill.change(0, &self.fill.drained, |state| state.suspect_readers += 1);
        }
    }

    fn clear_suspect(&mut self) {
        if std::mem::take(&mut self.is_suspect) {
            self.fill.change(0, &self.fill.drained, |state| {
                state.suspect_readers = state.suspect_readers.saturating_sub(1)
            });
        }
    }

    /// Waits for the head. A fill whose writer was dropped without one failed with 502. May be called again.
    pub async fn head(&mut self) -> FillHead {
        loop {
            let arrived = self.fill.arrived.notified();
            if let Some(head) = self.fill.state.lock().head.clone() {
                return head;
            }
            arrived.await;
        }
    }

    /// The next bytes, from the beginning; `Err` at the end, with its reason. Dropping this future loses nothing. A
    /// follower of a private response has no body to read.
    ///
    /// # Errors
    /// The end of the body, or of the part that this reader gets.
    pub async fn next(&mut self) -> Result<Bytes, FillEnd> {
        self.next_of(u64::MAX).await
    }

    /// [`FillReader::next`], with at most `most` bytes, more than none, of a body that is not kept and has no other
    /// reader: bytes that are not taken here can go to the spool.
    ///
    /// # Errors
    /// As [`FillReader::next`].
    pub async fn next_of(&mut self, most: u64) -> Result<Bytes, FillEnd> {
        let next = self.read_bytes(most).await;
        if next.is_ok() {
            self.clear_suspect();
        }
        next
    }

    async fn read_bytes(&mut self, most: u64) -> Result<Bytes, FillEnd> {
        let Self { fill, at, place, ahead, waits, is_lost, .. } = self;
        let mut read = None;
        loop {
            let arrived = fill.arrived.notified();
            let looked = fill.change(0, &fill.drained, |state| {
                if std::mem::take(waits) {
                    state.clear_waiting(*at);
                }
                state.ahead = *ahead;
                if state.is_private() && *place != ReaderRole::Leader {
                    return ReaderProgress::Next(Err(FillEnd::Failed));
                }
                if *is_lost || *at < state.left_behind {
                    return ReaderProgress::Next(Err(FillEnd::LeftBehind));
                }
                let bytes = match (state.read(*at), read.take()) {
                    (NextBytes::Here(bytes), _) => bytes,
                    (NextBytes::Spooled(it), Some(whole)) => it.after(*at, &whole),
                    (NextBytes::Spooled(it), None) => return ReaderProgress::Spooled(it),
                    (NextBytes::Nothing, _) => {
                        *waits = state.end.is_none();
                        state.waiting += usize::from(*waits);
                        return state
                            .end
                            .clone()
                            .map_or(ReaderProgress::Wait, |it| ReaderProgress::Next(Err(it)));
                    }
                };
                let bytes = match state.has_one_reader() && bytes.len() as u64 > most {
                    true => part(&mut { bytes }, most),
                    false => bytes,
                };
                state.remove_position(*at);
                *at += bytes.len() as u64;
                state.add_position(*at);
                state.drop_read_chunks();
                ReaderProgress::Next(Ok(bytes))
            });
            match looked {
                ReaderProgress::Next(next) => return next,
                ReaderProgress::Wait => arrived.await,
                ReaderProgress::Spooled(it) => {
                    // Rare, and large.
                    read = Box::pin(it.read(fill)).await;
                    if read.is_none() {
                        fill.cut_reader(*at);
                        *is_lost = true;
                    }
                }
            }
        }
    }
}

/// A fill that a reader has left, for waiting until it is over.
pub struct DepartedReader(Arc<Fill>);

impl FillReader {
    /// Leaves, as dropping it does.
    #[must_use]
    pub fn leave(self) -> DepartedReader {
        DepartedReader(self.fill.clone())
    }
}

impl DepartedReader {
    /// Waits until the fill has ended.
    pub async fn wait_end(self) {
        loop {
            let arrived = self.0.arrived.notified();
            if self.0.state.lock().end.is_some() {
                return;
            }
            arrived.await;
        }
    }
}

impl Drop for FillReader {
    fn drop(&mut self) {
        self.clear_suspect();
        self.fill.change(0, &self.fill.drained, |state| {
            if self.waits {
                state.clear_waiting(self.at);
            }
            if self.place == ReaderRole::Leader {
                state.leader = false;
            } else if state.is_private() {
                return; // It does not count any more.
            }
            if self.is_lost || self.at < state.left_behind {
                return; // Nor does this one.
            }
            state.remove_position(self.at);
            state.drop_read_chunks();
        });
    }
}
