//! What an exchange does where others wait for its place while somebody else is waited for. Who is told, and when, is in `resting`.

use super::{Exchange, ExchangeLink, ResponsePhase};
use crate::{OriginPool, StallCause};
use std::rc::Rc;

impl Exchange {
    /// Whose place it has that others may wait for, while somebody else is waited for. Once the origin has begun to answer, a client that
    /// sends is one that speaks with it.
    pub(crate) fn place_held_for(&self, whose: StallCause) -> Option<Rc<OriginPool>> {
        let state = self.state.borrow();
        let rests = whose != StallCause::Sends || matches!(state.reading, ResponsePhase::Head);
        let is_waited_for = state.place.as_ref().is_some_and(|it| it.is_waited_for(whose));
        (rests && is_waited_for).then(|| state.origin.clone())
    }

    /// From now on little of the answer is read at once: it goes to somebody who does not take it soon.
    pub(crate) fn read_little(&self) {
        if let ExchangeLink::Open(it) = &mut self.state.borrow_mut().link {
            it.read_little();
        }
    }
}
