//! A fill charges the miss budget of the client that started it when it asks the origin. The budget is in `crate::budget`.

use super::FillJob;
use crate::budget::OriginClock;
use crate::rewrite;
use larder_semantics::rate::RefusedFor;
use std::rc::Rc;

impl FillJob {
    /// Charges the budget of the route with a request to the origin. A renewal in the background is charged to no client.
    ///
    /// # Errors
    /// It is exceeded.
    pub fn charge(&self) -> Result<(), RefusedFor> {
        let Some(budget) = self.route.budget.as_ref().filter(|_| !self.background) else { return Ok(()) };
        let fields = self.request.fields.view();
        budget.charge(&rewrite::view(&self.request, &fields, Some(&self.client), self.route.geo.as_deref()))
    }

    /// Measures the time of the origin's response, from now until it has ended.
    pub fn origin_clock(&self) -> Option<Rc<OriginClock>> {
        let budget = self.route.budget.as_ref().filter(|_| !self.background)?;
        let fields = self.request.fields.view();
        let view = rewrite::view(&self.request, &fields, Some(&self.client), self.route.geo.as_deref());
        budget.clock(&view).map(Rc::new)
    }

    /// The request was not sent.
    pub fn give_back(&self) {
        let Some(budget) = self.route.budget.as_ref().filter(|_| !self.background) else { return };
        let fields = self.request.fields.view();
        budget.give_back(&rewrite::view(
            &self.request,
            &fields,
            Some(&self.client),
            self.route.geo.as_deref(),
        ));
    }
}
