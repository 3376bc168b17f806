//! One worker's traces: selects traced requests, and passes on their results.

use super::Finished;
use super::sampling::TraceSampler;
use super::telemetry::{Spans, Telemetry};
use super::traces::{RequestTrace, Traces, start_us, url};
use larder_counters::Counters;
use larder_gateway::stages::Stages;
use std::sync::Arc;

/// One worker's end of [`Traces`].
pub struct Tracer {
    sampler: TraceSampler,
    /// This worker's end of the telemetry.
    pub spans: Spans,
    traces: Arc<Traces>,
    counters: Arc<Counters>,
}

impl Tracer {
    /// Traces into `traces`, and to `telemetry` if configured.
    pub fn new(traces: Arc<Traces>, telemetry: Option<Arc<Telemetry>>, counters: Arc<Counters>) -> Self {
        Self {
            spans: Spans::new(telemetry, counters.clone()),
            sampler: TraceSampler::new(traces.sampling.clone()),
            traces,
            counters,
        }
    }

    /// Whether the next request of a route is to be traced. Call [`Tracer::count`] once for each request; a request that the fast
    /// speed declines is checked again at the slow speed.
    #[inline]
    pub fn is_due(&self, at: (usize, usize)) -> bool {
        self.sampler.is_due(at)
    }

    /// Counts a request of a route.
    #[inline]
    pub fn count(&self, at: (usize, usize)) {
        self.sampler.count(at);
    }

    /// Keeps what came of a request that is traced.
    pub fn finished(&self, it: &Finished<'_>, id: String) {
        let Some((began, spent)) = it.spent else { return };
        let start_us = start_us(began);
        let trace = RequestTrace {
            id,
            start_us,
            route: it.route.to_owned(),
            method: it.method.to_owned(),
            url: url(it.client.scheme, it.authority, it.target),
            status: it.outcome.status,
            bytes: it.outcome.body,
            cache: it.outcome.cache(),
            spent,
            steps: it.stages.map(Stages::steps).unwrap_or_default(),
        };
        self.traces.add(trace, &self.counters);
    }
}
