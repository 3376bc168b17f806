//! The miss budget of a route in force (`access.budget`): charged when a request is sent to the origin, never by hits. A request beyond it
//! gets the stored response, where that may be served stale, otherwise 429. Its classes are in `semantics::budget`.

use larder_counters::RouteScope;
use larder_semantics::budget::BudgetSettings;
use larder_semantics::rate::{RefusedFor, TICKS};
use larder_semantics::request_view::RequestView;
use larder_stdx::clock;
use larder_stdx::rate_table::RateTable;
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
        let key = self.settings.by.key(view, self.seed);
        self.settings.misses.judge(self.table.get(key), now()).err()
    }

    /// Charges one request.
    ///
    /// # Errors
    /// The budget is exceeded.
    pub(crate) fn charge(&self, view: &RequestView<'_>) -> Result<(), RefusedFor> {
        let (key, now) = (self.settings.by.key(view, self.seed), now());
        self.table.change(key, |arrival| self.settings.misses.judge(arrival, now))
    }

    /// A charged request was not sent.
    pub(crate) fn give_back(&self, view: &RequestView<'_>) {
        let key = self.settings.by.key(view, self.seed);
        let _ = self.table.change::<()>(key, |it| Ok(it.saturating_sub(self.settings.misses.interval)));
    }
}

fn now() -> u64 {
    clock::monotonic().0 * TICKS
}
