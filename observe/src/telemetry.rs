//! OpenTelemetry traces: the selection of spans, and the queue in which they wait to be sent. Workers never wait for it:
//! spans for a full queue are dropped, and counted. The encoding and sending of spans are in `export`.

mod export;

use super::Finished;
use super::traceparent::TraceParent;
use super::traces::start_us;
use larder_counters::Counters;
use larder_gateway::stages::SpentTimes;
use larder_semantics::field::{self, Field};
use larder_semantics::scheme::Scheme;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

/// Spans that may wait to be sent.
const QUEUE: usize = 4096;

/// The reported values of one request.
#[derive(Clone, Debug)]
pub struct Span {
    context: Context,
    start_us: u64,
    spent: SpentTimes,
    method: String,
    scheme: Scheme,
    path: String,
    host: String,
    route: String,
    client: Option<IpAddr>,
    status: u16,
    cache: &'static str,
}

/// The position of a request in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace, and this request's span in it.
    own: TraceParent,
    /// The parent span; 0 if it is the first.
    parent: u64,
}

impl Context {
    /// The value of `traceparent` for the origin.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.own.to_string()
    }
}

enum SpanItem {
    Span(Box<Span>),
    /// Requests a notification after all earlier spans were sent.
    Flush(SyncSender<()>),
}

/// An OpenTelemetry collector, and the selection of spans for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Its address.
    pub to: larder_origin::OriginAddress,
    /// One in this many requests is sent; 0 sends none.
    pub sample: u32,
    /// Whether requests with the sampled flag in their `traceparent` are sent as well.
    pub follow: bool,
}

/// The queue of spans for a collector, of all workers.
pub struct Telemetry {
    every: u32,
    follow: bool,
    queue: SyncSender<SpanItem>,
}

impl Telemetry {
    /// The telemetry of a configuration; `None` if it has no collector.
    ///
    /// # Errors
    /// One sentence: it cannot be started.
    pub fn of(
        collector: Option<&Collector>,
        counters: impl FnOnce() -> Arc<Counters>,
    ) -> Result<Option<Arc<Self>>, String> {
        collector.map(|it| Self::start(it, counters())).transpose()
    }

    /// Starts the sending thread; counts into `counters`.
    fn start(settings: &Collector, counters: Arc<Counters>) -> Result<Arc<Self>, String> {
        let (queue, items) = mpsc::sync_channel(QUEUE);
        let sender = export::SpanSender::new(&settings.to, counters)
            .map_err(|why| format!("The telemetry exporter cannot start: {why}."))?;
        std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || sender.run(&items))
            .map_err(|it| format!("The telemetry thread cannot be started: {it}."))?;
        Ok(Arc::new(Self { every: settings.sample, follow: settings.follow, queue }))
    }

    /// Waits until queued spans are sent, but not longer than `timeout`.
    pub fn flush(&self, timeout: Duration) {
        let (flushed, done) = mpsc::sync_channel(1);
        if self.queue.try_send(SpanItem::Flush(flushed)).is_ok() {
            let _ = done.recv_timeout(timeout);
        }
    }
}

/// One worker's end.
pub struct Spans {
    telemetry: Option<Arc<Telemetry>>,
    counters: Arc<Counters>,
    /// Requests until the next sampled one, inclusive.
    left: Cell<u32>,
    random: RandomState,
    made: Cell<u64>,
}

impl Spans {
    /// Sends by `telemetry`; without it, nothing is sent.
    pub fn new(telemetry: Option<Arc<Telemetry>>, counters: Arc<Counters>) -> Self {
        let left = Cell::new(telemetry.as_ref().map_or(0, |it| it.every));
        Self { telemetry, counters, left, random: RandomState::new(), made: Cell::new(0) }
    }

    /// Whether the next request, with these fields, becomes a span: by its turn, or by the sampled flag of its sender.
    /// Costs a branch if telemetry is off.
    #[inline]
    pub fn due(&self, fields: &[Field<'_>]) -> Option<Context> {
        let telemetry = self.telemetry.as_ref()?;
        self.due_of(telemetry, fields)
    }

    fn due_of(&self, telemetry: &Telemetry, fields: &[Field<'_>]) -> Option<Context> {
        let due = telemetry.every > 0 && self.left.get() <= 1;
        if !due && !telemetry.follow {
            return None;
        }
        let parent = field::first(fields, "traceparent").and_then(TraceParent::read);
        let followed = telemetry.follow && parent.is_some_and(|it| it.sampled);
        (due || followed).then(|| {
            let trace = parent.map_or_else(|| self.some_trace(), |it| it.trace);
            let own = TraceParent { trace, span: self.some_span(), sampled: true };
            Context { own, parent: parent.map_or(0, |it| it.span) }
        })
    }

    /// Counts a request; to be called once for each.
    #[inline]
    pub fn count(&self) {
        if let Some(telemetry) = &self.telemetry {
            let left = self.left.get();
            self.left.set(if left <= 1 { telemetry.every } else { left - 1 });
        }
    }

    /// Queues the result of a request that became a span. Never waits.
    pub fn finished(&self, it: &Finished<'_>) {
        let (Some(context), Some(telemetry), Some((began, spent))) = (it.span, &self.telemetry, it.spent)
        else {
            return;
        };
        let span = Span {
            context,
            start_us: start_us(began),
            spent,
            method: it.method.to_owned(),
            scheme: it.client.scheme,
            path: it.target.split('?').next().unwrap_or_default().chars().take(1024).collect(),
            host: it.authority.to_owned(),
            route: it.route.to_owned(),
            client: it.client.peer.map(|it| it.ip().to_canonical()),
            status: it.outcome.status,
            cache: it.outcome.cache(),
        };
        if telemetry.queue.try_send(SpanItem::Span(Box::new(span))).is_err() {
            self.counters.telemetry_dropped.add(1);
        }
    }

    fn some_span(&self) -> u64 {
        let made = self.made.get();
        self.made.set(made.wrapping_add(1));
        self.random.hash_one(made).max(1)
    }

    fn some_trace(&self) -> u128 {
        u128::from(self.some_span()) << 64 | u128::from(self.some_span())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(every: u32, follow: bool) -> Spans {
        let (queue, items) = mpsc::sync_channel(1);
        std::mem::forget(items);
        Spans::new(Some(Arc::new(Telemetry { every, follow, queue })), Arc::default())
    }

    fn take(spans: &Spans, parent: &str) -> Option<Context> {
        let fields = [Field { name: "traceparent", value: parent.as_bytes() }];
        let due = spans.due(&fields);
        spans.count();
        due
    }

    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const NOT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

    #[test]
    fn spans_follow_the_sampling_rate_and_the_sampled_parent() {
        let it = spans(3, true);
        let taken = [NOT, NOT, NOT, SAMPLED, "junk", "junk"].map(|parent| take(&it, parent));
        assert_eq!([false, false, true, true, false, true], taken.map(|it| it.is_some()));
        let of_parent = taken[2].unwrap();
        assert_eq!(0x00f0_67aa_0ba9_02b7, of_parent.parent);
        assert!(of_parent.traceparent().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
        assert!(of_parent.traceparent().ends_with("-01") && of_parent.own.span != of_parent.parent);
        let first = taken[5].unwrap();
        assert!(first.parent == 0 && first.own.trace != 0 && first.own.trace != of_parent.own.trace);
        let it = spans(0, false);
        assert!((0..5).all(|_| take(&it, SAMPLED).is_none()));
        let off = Spans::new(None, Arc::default());
        assert!(take(&off, SAMPLED).is_none());
    }
}
