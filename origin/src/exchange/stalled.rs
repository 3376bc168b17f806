//! What an exchange does where others wait for its place while somebody else is waited for. Who is told, and when, is in
//! `stalled_exchanges`.

use super::{Exchange, ExchangeLink, ResponsePhase};
use crate::pool::OriginPool;
use crate::stalled_exchanges::{PermitWanted, StallCause, StalledEntry};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// A rest under way.
struct Stall<'e> {
    exchange: &'e Exchange,
    origin: Rc<OriginPool>,
    entry: Rc<StalledEntry>,
}

impl<'e> Stall<'e> {
    fn begin(exchange: &'e Exchange, origin: Rc<OriginPool>, whose: StallCause) -> Self {
        let entry = origin.resters.enter(whose, &exchange.rested);
        if entry.is_at_once() {
            origin.press_at_once();
        }
        Self { exchange, origin, entry }
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.origin.resters.leave(&self.entry, &self.exchange.rested);
    }
}

impl Exchange {
    /// Waits for `work`, which is not the origin's. It may be waited for further after this, and all is as before then.
    ///
    /// # Errors
    /// [`PermitWanted`]: others wait for the place that this exchange has, and it has waited for a second in all. Never where it has none any
    /// more, since all of the answer is here.
    pub async fn resting<T>(
        &self,
        whose: StallCause,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, PermitWanted> {
        let mut rest = None;
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                self.rested.still.set(None);
                return Poll::Ready(Ok(done));
            }
            if rest.is_none() {
                rest = self.place_held_for(whose).map(|it| Stall::begin(self, it, whose));
            }
            let Some(Stall { entry, .. }) = &rest else { return Poll::Pending };
            if let Some(wanted) = entry.is_wanted()
                && self.place_held_for(whose).is_some()
            {
                if whose == StallCause::Takes {
                    self.read_little();
                }
                return Poll::Ready(Err(wanted));
            }
            entry.wakes(context.waker());
            Poll::Pending
        })
        .await
    }

    /// Whose place it has that others may wait for, while somebody else is waited for. Once the origin has begun to answer, a client that
    /// sends is one that speaks with it.
    fn place_held_for(&self, whose: StallCause) -> Option<Rc<OriginPool>> {
        let state = self.state.borrow();
        let rests = whose != StallCause::Sends || matches!(state.reading, ResponsePhase::Head);
        let is_waited_for = state.permit.as_ref().is_some_and(|it| it.is_waited_for(whose));
        (rests && is_waited_for).then(|| state.origin.clone())
    }

    /// From now on little of the answer is read at once: it goes to somebody who does not take it soon.
    fn read_little(&self) {
        if let ExchangeLink::Open(it) = &mut self.state.borrow_mut().link {
            it.read_little();
        }
    }
}
