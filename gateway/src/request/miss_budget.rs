//! Requests beyond the miss budget of their client (`crate::miss_budget`): they read along with fetches of others, get a stale response, or
//! are refused.

use super::deliver::Delivery;
use super::machine::Step;
use super::{Machine, OwnError, RequestInput};
use crate::fast_path;
use crate::fill::TierLookup;
use crate::fill::{FetchKind, FillPurpose};
use crate::rewrite;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::miss_budget::BudgetBound;
use larder_semantics::rate::RefusedFor;
use larder_stdx::clock;
use larder_store::ram::KeyHash;

impl Machine<'_, '_> {
    /// A client beyond its budget reads along with the fetch of another, if there is one.
    pub fn follow_or_refuse(&mut self, flight: KeyHash) -> Step {
        self.waiting.reader = match self.may_follow() {
            true => self.input.gateway.store.follow(self.key.hash, flight, &self.key.bytes),
            false => None,
        };
        if self.waiting.reader.is_some() { Step::Wait } else { self.over_budget() }
    }

    /// The budget of the client is exceeded: stale if allowed, otherwise 429.
    pub fn over_budget(&mut self) -> Step {
        self.input.note_over_budget();
        if let Some(Step::Hit) = self.stale_instead(false)
            && let Some(Delivery::Stored { stored, report }) = &mut self.response.answer
        {
            *report = CacheReport::OverBudget { ttl: Some(fast_path::ttl(&stored.meta, clock::wall())) };
            return Step::Hit;
        }
        self.fails(OwnError::OverBudget)
    }

    /// Starts the revalidation of the stale response that this request gets, within the budget of the client.
    pub fn revalidate_in_background(&self, flight: KeyHash) {
        if self.input.is_over_budget() {
            return self.input.note_over_budget();
        }
        let job = self.job(FetchKind::Validation, TierLookup::First, FillPurpose::Revalidation);
        self.input.gateway.start_revalidation(job, flight);
    }
}

impl RequestInput<'_, '_> {
    /// Whether the budget of the route admits no request to the origin.
    pub fn is_over_budget(&self) -> bool {
        let Some(budget) = &self.route.budget else { return false };
        let geo = self.route.geo.as_deref();
        budget.exceeded(&rewrite::view(self.request, self.fields, Some(self.client), geo)).is_some()
    }

    /// Counts and logs a request beyond the budget.
    pub fn note_over_budget(&self) {
        if let Some(budget) = &self.route.budget {
            budget.note_exceeded(&self.gateway.counters);
        }
    }

    /// The fields of the 429 to a request beyond the budget.
    pub fn budget_fields(&self) -> Vec<(&'static str, String)> {
        let Some(budget) = &self.route.budget else { return Vec::new() };
        let geo = self.route.geo.as_deref();
        let view = rewrite::view(self.request, self.fields, Some(self.client), geo);
        // Another worker's clock may have moved meanwhile.
        let bound = if budget.settings.misses.is_some() { BudgetBound::Misses } else { BudgetBound::Seconds };
        let (bound, wait) = budget.exceeded_bound(&view).unwrap_or((bound, RefusedFor { ticks: 1 }));
        budget.settings.refusal(bound, wait).into()
    }
}
