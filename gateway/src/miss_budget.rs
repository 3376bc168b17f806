//! The budget of a route in force (`access.budget`): a miss is charged when a request is sent to the origin, and the origin's time when
//! its response has ended; never hits. A request beyond it gets the stored response, where that may be served stale, otherwise 429. Its
//! classes are in `semantics::miss_budget`.

use larder_counters::{Counters, RouteScope};
use larder_semantics::miss_budget::{BudgetBound, BudgetSettings};
use larder_semantics::rate::{RefusedFor, TICKS};
use larder_semantics::request_view::RequestView;
use larder_stdx::clock;
use larder_stdx::rate_table::RateTable;
use std::rc::Rc;
use std::sync::Arc;

/// Called for each request beyond a budget.
pub type BudgetReport = Box<dyn Fn()>;

/// The budget of a route. All workers charge one table.
pub struct MissBudget {
    /// Its settings.
    pub settings: BudgetSettings,
    /// The arrival times.
    pub table: Arc<RateTable>,
    /// Tells the keys of this budget from those of others.
    pub seed: u64,
    /// The counters of the route, if it is counted.
    pub route: Option<Arc<RouteScope>>,
    /// Logs that it is exceeded.
    pub report: BudgetReport,
}

impl MissBudget {
    /// How long a request has to wait until the budget admits it; `None` if it does now. Nothing is charged.
    #[must_use]
    pub fn exceeded(&self, view: &RequestView<'_>) -> Option<RefusedFor> {
        self.exceeded_bound(view).map(|it| it.1)
    }

    /// The same with the bound that is reached; of both the one for which a request waits longer.
    pub(crate) fn exceeded_bound(&self, view: &RequestView<'_>) -> Option<(BudgetBound, RefusedFor)> {
        let BudgetSettings { misses, seconds, by, .. } = &self.settings;
        let misses = misses.and_then(|it| it.judge(self.table.get(by.key(view, self.seed)), now()).err());
        let seconds = seconds.and_then(|it| it.judge(self.table.get(self.time_key(view)), now()).err());
        let bounds = [(BudgetBound::Misses, misses), (BudgetBound::Seconds, seconds)];
        bounds.into_iter().filter_map(|it| Some((it.0, it.1?))).max_by_key(|it| it.1.ticks)
    }

    /// Counts and logs a request beyond the budget.
    #[cold]
    pub(crate) fn note_exceeded(&self, process: &Counters) {
        process.budget_exceeded.add(1);
        self.route.iter().for_each(|it| it.counters.budget_exceeded.add(1));
        (self.report)();
    }

    fn time_key(&self, view: &RequestView<'_>) -> u64 {
        self.settings.by.key(view, !self.seed)
    }

    /// Charges one request.
    ///
    /// # Errors
    /// The budget is exceeded.
    pub(crate) fn charge(&self, view: &RequestView<'_>) -> Result<(), RefusedFor> {
        if let Some(seconds) = self.settings.seconds {
            seconds.judge(self.table.get(self.time_key(view)), now())?;
        }
        let Some(misses) = self.settings.misses else { return Ok(()) };
        let (key, now) = (self.settings.by.key(view, self.seed), now());
        self.table.change(key, |arrival| misses.judge(arrival, now))
    }

    /// Measures the time of a response of the origin; `None` if it has no bound.
    pub(crate) fn clock(self: &Rc<Self>, view: &RequestView<'_>) -> Option<OriginClock> {
        self.settings.seconds?;
        Some(OriginClock { key: self.time_key(view), began: clock::monotonic_now().0, budget: self.clone() })
    }

    /// A charged request was not sent.
    pub(crate) fn give_back(&self, view: &RequestView<'_>) {
        let Some(misses) = self.settings.misses else { return };
        let key = self.settings.by.key(view, self.seed);
        let _ = self.table.change::<()>(key, |it| Ok(it.saturating_sub(misses.interval)));
    }
}

/// Charges a budget with the time of a response of the origin when it is dropped. Milliseconds of the clock: one that is shorter counts
/// as none or as one, as often as is right.
pub(crate) struct OriginClock {
    budget: Rc<MissBudget>,
    key: u64,
    /// Milliseconds of the monotonic clock.
    began: u64,
}

impl Drop for OriginClock {
    fn drop(&mut self) {
        let Some(share) = self.budget.settings.seconds else { return };
        let took = clock::monotonic_now().0.saturating_sub(self.began);
        if took > 0 {
            let charge = |full| Ok::<_, ()>(share.charge(full, now(), took));
            let _ = self.budget.table.change(self.key, charge);
        }
    }
}

/// The time, read from the kernel: the reading of workers moves a few times a second, which would be the highest rate.
fn now() -> u64 {
    clock::rate_millis() * TICKS
}
