//! Readers against the origin's connection, where others need that: the rest of a body that is not kept is then fetched as soon as it
//! comes, and what its readers do not take goes to the spool; and a fetch that nobody waits for is given up. Who needs a connection is
//! not known here.

use super::spooling::Spooling;
use super::{Abandoned, Fill, FillWriter};

/// How the origin's connection is weighed against the readers of a body that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainPolicy {
    /// The body is fetched as its readers take it.
    No,
    /// As soon as the origin sends it: what they do not take goes to the spool. Where that takes no more,
    Spools(WithoutSpool),
    /// As its readers take it again: the spool took no more, and they are not to be cut off for now.
    NoMore,
}

impl DrainPolicy {
    pub(super) fn is_on(self) -> bool {
        matches!(self, DrainPolicy::Spools(_))
    }
}

/// What becomes of readers for whom the spool has no room, while others need the origin's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutSpool {
    /// They are waited for again.
    Wait,
    /// They are cut off.
    Cut,
}

impl FillWriter {
    /// From here on the rest of a body that is not kept is fetched as soon as it comes, since others need the connection, and its readers
    /// go on from the spool.
    pub fn hurry(&mut self, otherwise: WithoutSpool) {
        if self.spooling == Spooling::GivenUp && otherwise == WithoutSpool::Wait {
            return;
        }
        if self.hurry == DrainPolicy::No {
            self.fill.store.counters.fill_hurried.add_shared(1);
        }
        self.hurry = DrainPolicy::Spools(otherwise);
    }

    /// Waits until nobody reads but those who may be gone ([`super::FillReader::doubt`]); somebody may join again.
    pub async fn unread(&self) {
        loop {
            let drained = self.fill.drained.notified();
            if self.fill.is_unread() {
                return;
            }
            drained.await;
        }
    }

    /// Whether that is so; then nobody can join any more.
    #[must_use]
    pub fn leaves_unread(&self) -> bool {
        self.fill.store.flights.leave_if(&self.fill, || self.fill.is_unread())
    }

    /// Waits until nobody reads any more. After that nobody can join either.
    pub async fn deserted(&self) {
        loop {
            let drained = self.fill.drained.notified();
            if self.fill.store.flights.leave_if(&self.fill, || self.readers() == 0) {
                return;
            }
            drained.await;
        }
    }

    /// Before the end of a body that was hurried: what its readers have not taken of it is not to lie in RAM for as long as they take.
    pub async fn put_by(&mut self) {
        let holds = |fill: &Fill| fill.state.lock().held() > 0;
        while self.hurry.is_on() && holds(&self.fill) && self.spool().await {}
    }

    /// Brings what is held to the spool, whoever waits; where that takes no more, the connection is not to be waited for by others for
    /// the sake of a reader that does nothing.
    pub(super) async fn hurry_on(&mut self) -> Result<(), Abandoned> {
        if self.spool().await {
            return Ok(());
        }
        let cuts = self.hurry == DrainPolicy::Spools(WithoutSpool::Cut);
        self.hurry = DrainPolicy::NoMore;
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
        state.readers <= state.doubted
    }
}
