//! Freeing the origin's connection when other requests need it. The rest of a body that is not kept is then fetched as
//! fast as it arrives, and the bytes that its readers do not take go to the spool; a fetch that no request waits for is
//! cancelled. Other modules know which requests need a connection.

use super::{Abandoned, Fill, FillWriter};
use tokio::sync::futures::Notified;

/// How a body that is not kept is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainPolicy {
    /// The body is fetched as its readers take it.
    No,
    /// As fast as the origin sends it: bytes that the readers do not take go to the spool. The argument is the
    /// treatment of readers when the spool is full.
    Spools(WithoutSpool),
    /// As its readers take it, until the body may be offered to the spool again: the spool was full or failed, and the readers
    /// are not to be cut off for now.
    SpoolPaused,
}

impl DrainPolicy {
    pub(super) fn is_on(self) -> bool {
        matches!(self, DrainPolicy::Spools(_))
    }
}

/// The treatment of readers when the spool is full and other requests need the origin's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutSpool {
    /// They are waited for again.
    Wait,
    /// They are cut off.
    Cut,
}

impl FillWriter {
    /// From here on the rest of a body that is not kept is fetched as fast as it arrives, since other requests need the
    /// connection; its readers continue from the spool.
    pub fn drain(&mut self, otherwise: WithoutSpool) {
        if self.spooling.is_paused() && otherwise == WithoutSpool::Wait {
            return;
        }
        if self.drain_policy == DrainPolicy::No {
            self.fill.store.counters.fill_hurried.add_shared(1);
        }
        self.drain_policy = DrainPolicy::Spools(otherwise);
    }

    /// Waits until the readers have taken bytes, which `drained` says, or a body that rests may be offered to the spool again.
    pub(super) async fn wait_drained(&mut self, drained: Notified<'_>) {
        if self.drain_policy != DrainPolicy::SpoolPaused {
            return drained.await;
        }
        tokio::select! {
            () = drained => {}
            () = self.wait_pause() => self.drain_policy = DrainPolicy::Spools(WithoutSpool::Wait),
        }
    }

    /// Waits until all remaining readers may be gone ([`super::FillReader::mark_suspect`]); a reader may still join.
    pub async fn unread(&self) {
        loop {
            let drained = self.fill.drained.notified();
            if self.fill.is_unread() {
                return;
            }
            drained.await;
        }
    }

    /// Whether that is so; then no reader can join any more.
    #[must_use]
    pub fn leaves_unread(&self) -> bool {
        self.fill.store.in_flight.leave_if(&self.fill, || self.fill.is_unread())
    }

    /// Waits until there is no reader any more; after that none can join.
    pub async fn without_readers(&self) {
        loop {
            let drained = self.fill.drained.notified();
            if self.fill.store.in_flight.leave_if(&self.fill, || self.readers() == 0) {
                return;
            }
            drained.await;
        }
    }

    /// Before the end of a hurried body: the bytes that its readers have not taken must not stay in RAM for as long as
    /// they take.
    pub async fn spool_rest(&mut self) {
        let holds = |fill: &Fill| fill.state.lock().held() > 0;
        while self.drain_policy.is_on() && holds(&self.fill) && self.spool().await {}
    }

    /// Writes the held bytes to the spool without waiting for readers. If the spool is full, other requests must not wait
    /// for the connection because of a reader that does nothing.
    pub(super) async fn drain_step(&mut self) -> Result<(), Abandoned> {
        if self.spool().await {
            return Ok(());
        }
        let cuts = self.drain_policy == DrainPolicy::Spools(WithoutSpool::Cut);
        self.drain_policy = DrainPolicy::SpoolPaused;
        if cuts {
            self.fill.store.counters.answers_shed.add_shared(1);
            return Err(Abandoned);
        }
        Ok(())
    }
}

impl Fill {
    fn is_unread(&self) -> bool {
        let state = self.state.lock();
        state.readers <= state.suspect_readers
    }
}
