//! The tables of counters, and the counters and histograms of each worker. Their output is not here.

pub mod histogram;
pub mod manual;
pub mod reasons;
pub mod scopes;
pub mod table;
pub mod top;

pub use histogram::{Histogram, Snapshot};
pub use manual::manual;
pub use reasons::{
    AdviceCounters, CookieNames, ExampleRequest, MOST_REASONS, NeedlessCookies, ReasonCounters,
    ReasonExamples,
};
pub use scopes::{Lately, OriginCounters, OriginScope, RouteCounters, RouteScope, TierCounters, WorkerScope};
pub use table::{CounterRow, Counters, Unit};
