//! A fill charges the miss budget of the client that started it when it asks the origin. The budget is in `crate::miss_budget`.

use super::FillJob;
use crate::miss_budget::OriginClock;
use crate::rewrite;
use larder_semantics::rate::RefusedFor;
use std::rc::Rc;

impl FillJob {
    /// Charges the budget of the route with a request to the origin. A background revalidation is charged to the client whose
    /// request started it: otherwise a client that requests stale pages reaches the origin without a bound.
    ///
    /// # Errors
    /// It is exceeded.
    pub fn charge(&self) -> Result<(), RefusedFor> {
        let Some(budget) = &self.route.budget else { return Ok(()) };
        let fields = self.request.fields.view();
        let view = rewrite::view(&self.request, &fields, Some(&self.client), self.route.geo.as_deref());
        let charged = budget.charge(&view);
        if charged.is_err() && self.is_background() {
            budget.note_exceeded(&self.gateway.counters); // No request waits for it that would count it.
        }
        charged
    }

    /// Measures the time of the origin's response, from now until it has ended.
    pub fn origin_clock(&self) -> Option<Rc<OriginClock>> {
        let budget = self.route.budget.as_ref()?;
        let fields = self.request.fields.view();
        let view = rewrite::view(&self.request, &fields, Some(&self.client), self.route.geo.as_deref());
        budget.clock(&view).map(Rc::new)
    }

    /// The request was not sent.
    pub fn give_back(&self) {
        let Some(budget) = &self.route.budget else { return };
        let fields = self.request.fields.view();
        budget.give_back(&rewrite::view(
            &self.request,
            &fields,
            Some(&self.client),
            self.route.geo.as_deref(),
        ));
    }
}
