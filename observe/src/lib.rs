//! The consumers of every finished request: the access log, subsystem logs, traces and the live stream. Each consumer has
//! a module of its own; the handling of requests is not here. No consumer blocks, and without consumers a request costs a
//! branch.

pub mod counted;
pub mod ids;
pub mod log;
pub mod recent;
pub mod recorder;
pub mod sampling;
mod scopes;
pub mod stream;
pub mod telemetry;
pub mod top;
mod traceparent;
pub mod tracer;
pub mod traces;
pub mod worst;

use crate::log::sites::{OpenSiteLog, SiteLogs};
use crate::log::{ErrorLog, Level, LogEntry, LogHandle, ResponseEnd, Subsystem};
use ids::Ids;
use larder_counters::{Counters, WorkerScope};
use larder_gateway::OriginFacts;
use larder_gateway::stages::{SpentTimes, Stages};
use larder_semantics::cache_status::{AnsweringTier, CacheReport};
use larder_semantics::field::Field;
use larder_semantics::invalidate;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::scheme::Scheme;
use larder_stdx::clock;
use larder_transport::{Client, MissingPreamble, SyntheticSent};
use larder_wire::message::{Reject, Version};
use recent::RecentKeeper;
use recorder::RecorderFeed;
pub use scopes::{Timed, WorkerScopes};
use std::cell::OnceCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use stream::Tap;
use telemetry::Context;
use top::Feed;
use tracer::Tracer;
use worst::Worst;

/// The result of a request.
pub struct RequestOutcome {
    /// The status sent; 0 if none was.
    pub status: u16,
    /// Bytes of body.
    pub body: u64,
    /// The report in `Cache-Status`, if the cache was involved.
    pub report: Option<CacheReport>,
    /// Whether the response was sent to its last byte.
    pub end: ResponseEnd,
    /// The origin's part; `None` if it was not contacted.
    pub origin: Option<OriginFacts>,
    /// Why the origin was contacted; `None` if it was not.
    pub reason: Option<MissReason>,
    /// Why the origin gave no valid response, where larder answered for that reason.
    pub failure: Option<Box<str>>,
}

impl RequestOutcome {
    /// A complete response without an origin exchange.
    #[must_use]
    pub fn whole(status: u16, body: u64, report: Option<CacheReport>) -> Self {
        Self { status, body, report, end: ResponseEnd::Whole, origin: None, reason: None, failure: None }
    }

    /// A response made by larder and sent at the slow speed.
    #[must_use]
    pub fn sent(sent: SyntheticSent) -> Self {
        let end = if sent.complete { ResponseEnd::Whole } else { ResponseEnd::Cut };
        Self { end, ..Self::whole(sent.status, sent.body, None) }
    }

    /// Whether the status is one from 500, or the origin broke the response off.
    #[must_use]
    pub fn is_server_error(&self) -> bool {
        (500..=599).contains(&self.status) || self.end == ResponseEnd::Broken
    }

    /// The name of the reason for asking the origin; empty without one.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.reason.map_or("", MissReason::name)
    }

    /// The cache result, as in the access log; empty if the cache was not involved.
    #[must_use]
    pub fn cache(&self) -> &'static str {
        match self.report {
            Some(CacheReport::Hit { ttl, tier }) => match (ttl > 0, tier) {
                (true, AnsweringTier::Ram) => "hit",
                (true, AnsweringTier::Disk) => "hit-disk",
                (true, AnsweringTier::Fleet) => "hit-fleet",
                (false, _) => "hit-stale",
            },
            Some(CacheReport::Overlay) => "overlay",
            Some(CacheReport::Forwarded { reason, .. }) => reason.name(),
            Some(CacheReport::OnlyIfCached) => "only-if-cached",
            Some(CacheReport::SharedFailure { .. }) => "shared-failure",
            Some(CacheReport::OverBudget { .. }) => "over-budget",
            None => "",
        }
    }
}

/// A finished request, answered or not, with all reported values.
pub struct Finished<'a> {
    /// The client.
    pub client: &'a Client,
    /// Its method; `-` if its head was rejected.
    pub method: &'a str,
    /// The protocol of an extended CONNECT over HTTP/2; its method is GET, as for every rule.
    pub protocol: Option<&'a str>,
    /// Its target as received; `-` if its head was rejected.
    pub target: &'a str,
    /// Its scheme, as a trusted proxy tells it.
    pub scheme: Scheme,
    /// Its version.
    pub version: Version,
    /// Its host.
    pub authority: &'a str,
    /// The route's name; empty without a route.
    pub route: &'a str,
    /// The site's name: its first host; empty without a site.
    pub site: &'a str,
    /// The positions of site and route in the configuration.
    pub at: Option<(usize, usize)>,
    /// The fields of its head.
    pub fields: &'a [Field<'a>],
    /// Microseconds from the complete head to the end; for fast answers only with a consumer: they take less time than
    /// reading the clock.
    pub micros: Option<u64>,
    /// Its result.
    pub outcome: &'a RequestOutcome,
    /// Its beginning by the precise clock, and the time in each stage, if measured.
    pub spent: Option<(u64, SpentTimes)>,
    /// Its stop watch, which has the steps of a trace; `None` for a request without.
    pub stages: Option<&'a Stages>,
    /// Whether it is kept as a trace.
    pub traced: bool,
    /// Whether it is kept among the worst.
    pub is_worst: bool,
    /// Its OpenTelemetry context, if it becomes a span.
    pub span: Option<Context>,
    /// Its identifier (`{request_id}`), if it has one.
    pub request_id: Option<&'a [u8]>,
    /// The client by its credentials, as in keys; empty without any.
    pub user: &'a str,
    /// The reason for rejecting its head, if it was.
    pub refused: Option<Reject>,
}

/// One worker's consumers.
pub struct Observer {
    /// This worker's access log.
    log: LogHandle,
    /// The logs of sites that have their own.
    site_logs: SiteLogs,
    /// This worker's traces.
    pub tracer: Tracer,
    /// The error log, for events of single requests in a followed subsystem.
    errors: ErrorLog,
    /// The counters of routes; called separately, since it needs the beginning of a request.
    pub scopes: WorkerScopes,
    /// The heaviest URLs and clients; called separately, while statistics are on.
    pub top: Rc<Feed>,
    /// The live stream.
    stream: Tap,
    /// Assigns ids to requests that were logged or streamed.
    ids: Arc<Ids>,
    /// Keeps these for a time.
    keeper: RecentKeeper,
    /// The recorder for trials of a configuration; called separately, while statistics are on.
    pub recorder: RecorderFeed,
    /// The worst requests.
    worst: Arc<Worst>,
}

impl Observer {
    /// Reports to `log`, to followed subsystems of `errors`, to `tracer` and to listeners of `stream`; counts into `own`,
    /// and into the scopes of routes, while `statistics` are on.
    #[must_use]
    #[allow(clippy::too_many_arguments, reason = "each is a hearer, and it is called once")]
    pub fn new(
        log: LogHandle,
        errors: ErrorLog,
        tracer: Tracer,
        own: Arc<WorkerScope>,
        statistics: bool,
        top: Rc<Feed>,
        stream: Tap,
        ids: Arc<Ids>,
        keeper: RecentKeeper,
        recorder: RecorderFeed,
        worst: Arc<Worst>,
    ) -> Self {
        let site_logs = SiteLogs::default();
        Self {
            log,
            site_logs,
            errors,
            tracer,
            scopes: WorkerScopes::new(own, statistics),
            top,
            stream,
            ids,
            keeper,
            recorder,
            worst,
        }
    }

    /// Whether a fast answer has a consumer. One that was not timed is no sample.
    #[inline]
    pub fn is_reported_fast(&self, outcome: &RequestOutcome, micros: Option<u64>) -> bool {
        self.is_logged() || self.stream.is_on() || micros.is_some() && self.keeper.wants(outcome)
    }

    #[inline]
    fn is_logged(&self) -> bool {
        self.log.is_on() || self.site_logs.is_on()
    }

    /// Whether a consumer needs the duration of a fast answer, which may be a hit or not.
    #[inline]
    pub fn times_fast(&self, may_hit: bool) -> bool {
        self.stream.is_on() || if may_hit { self.keeper.wants_hits() } else { self.keeper.wants_others() }
    }

    /// Whether other requests have a consumer.
    pub fn is_reported_slow(&self) -> bool {
        self.is_logged() || self.stream.is_on() || self.keeper.wants_any() || self.follows()
    }

    /// Whether a request that was answered at the slow speed, in `micros`, is kept among the worst.
    pub fn is_worst(&self, outcome: &RequestOutcome, micros: Option<u64>) -> bool {
        self.scopes.is_on() && micros.is_some_and(|it| self.worst.wants(outcome, it))
    }

    /// Reports a request to all consumers.
    pub fn finished(&self, it: &Finished<'_>) {
        if it.micros.is_some() {
            self.follow(it);
        }
        if self.is_logged() {
            self.record(it);
        }
        // All reports of one request have the same id.
        let id = OnceCell::new();
        let id = || *id.get_or_init(|| self.ids.next());
        // It is kept before the id is published: a lookup right after finds it.
        let keep = |record| self.keeper.insert(it, id(), record);
        let is_kept = self.stream.is_on() && self.stream.publish(it, id, keep);
        if !is_kept && it.traced {
            self.stream.record(it, id()).map(keep);
        } else if !is_kept && self.keeper.wants(it.outcome) {
            self.stream
                .record(it, id())
                .into_iter()
                .for_each(|sampled| self.keeper.sample(it, id(), sampled));
        }
        if it.traced {
            self.tracer.finished(it, id().to_string());
        }
        if it.is_worst {
            self.worst.insert(it, id());
        }
        self.tracer.spans.finished(it);
    }

    /// Reports a rejected head, answered with a page of `body` bytes.
    pub fn rejected(&self, reject: Reject, client: &Client, body: u64) {
        if !(self.is_logged() || self.stream.is_on() || self.keeper.wants_others()) {
            return;
        }
        self.finished(&Finished {
            client,
            method: "-",
            protocol: None,
            target: "-",
            scheme: client.scheme,
            version: Version::Http11,
            authority: "",
            route: "",
            site: "",
            at: None,
            fields: &[],
            micros: None,
            outcome: &RequestOutcome::whole(reject.status(), body, None),
            spent: None,
            stages: None,
            traced: false,
            is_worst: false,
            span: None,
            request_id: None,
            user: "",
            refused: Some(reject),
        });
    }

    /// Logs a connection that was closed because of a missing or invalid PROXY header: at most once a second for each
    /// reason.
    pub fn proxy_header_missing(&self, why: MissingPreamble, peer: Option<SocketAddr>) {
        let (why, from) = (why.name(), peer.map_or("unix".to_owned(), |it| it.to_string()));
        let teller = self.errors.of(Subsystem::Server);
        teller.seldom_of(Level::Warn, "proxy-header", why, &[("why", why), ("from", &from)]);
    }

    /// Takes over the present target and format of the access log.
    pub fn follow_log(&self, log: &log::AccessLog) {
        self.log.follow(log);
    }

    /// Takes over the logs of sites; `counters` are those of the worker.
    pub fn follow_site_logs(&self, logs: &[OpenSiteLog], counters: &Arc<Counters>) {
        self.site_logs.follow(logs, counters);
    }

    /// Sends buffered records, and begins a tick of samples: to be called at every tick of the worker, and before it ends.
    pub fn flush(&self) {
        if self.scopes.is_on() {
            self.keeper.tick();
            self.recorder.tick();
        }
        self.log.flush();
        self.site_logs.flush();
        self.stream.expire();
    }

    /// Whether single operations of the tiers below RAM, or of origins, are logged.
    fn follows(&self) -> bool {
        [Subsystem::Disk, Subsystem::Fleet, Subsystem::Origin, Subsystem::Purge]
            .iter()
            .any(|it| self.errors.logs(*it, Level::Debug))
    }

    /// Logs the operation of the subsystem that answered.
    fn follow(&self, it: &Finished<'_>) {
        let outcome = it.outcome;
        let is_forwarded = matches!(outcome.report, Some(CacheReport::Forwarded { .. }));
        if is_forwarded && invalidate::is_due(it.method, outcome.status) {
            self.follow_one(it, Subsystem::Purge, "invalidated", "");
        }
        let (subsystem, event, why) = match outcome.report {
            Some(CacheReport::Hit { tier: AnsweringTier::Disk, .. }) => (Subsystem::Disk, "disk-hit", ""),
            Some(CacheReport::Hit { tier: AnsweringTier::Fleet, .. }) => (Subsystem::Fleet, "fleet-hit", ""),
            Some(CacheReport::Forwarded { reason, .. }) => (Subsystem::Origin, "origin-asked", reason.name()),
            _ => return,
        };
        self.follow_one(it, subsystem, event, why);
    }

    fn follow_one(&self, it: &Finished<'_>, subsystem: Subsystem, event: &str, why: &str) {
        let outcome = it.outcome;
        if !self.errors.logs(subsystem, Level::Debug) {
            return;
        }
        let url = format!("{}://{}{}", it.client.scheme.name(), it.authority, it.target);
        let (status, micros) = (outcome.status.to_string(), it.micros.unwrap_or(0).to_string());
        let mut values =
            vec![("method", it.method), ("url", &url), ("status", &status), ("duration_us", &micros)];
        if !why.is_empty() {
            values.push(("why", why));
        }
        self.errors.of(subsystem).event(Level::Debug, event, &values);
    }

    /// One line of the access log.
    fn record(&self, it: &Finished<'_>) {
        let outcome = it.outcome;
        let entry = LogEntry {
            time: clock::wall(),
            client: it.client.peer.map(|it| it.ip()),
            method: it.method.as_bytes(),
            target: it.target.as_bytes(),
            protocol: it.version.name(),
            host: it.authority.as_bytes(),
            status: outcome.status,
            bytes: outcome.body,
            end: outcome.end,
            duration: it.micros.unwrap_or(0),
            fields: it.fields,
            cache: outcome.cache(),
            reason: outcome.reason(),
            route: it.route,
            origin_duration: outcome.origin.as_ref().map(|it| it.micros),
            origin_protocol: outcome.origin.as_ref().map_or("", |it| it.protocol()),
            tls: it.client.tls.as_deref(),
            request_id: it.request_id.unwrap_or_default(),
            origin: outcome.origin.as_ref().map_or("", |it| &it.name),
            origin_status: outcome.origin.as_ref().map(|it| it.status),
            scheme: it.scheme.name(),
            site: it.site,
            listener: &it.client.listener,
            user: it.user,
        };
        self.site_logs.choose(it, &self.log, |log| log.record(&entry));
    }
}
