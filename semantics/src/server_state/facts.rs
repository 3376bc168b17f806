//! The facts from which the state of the server is judged, as the caller has gathered them.

use super::samples::RecordedFacts;
use super::table::{CLIENT_LIMITS, LIMITS};
use crate::certificate_renewal::{ExpiryState, Validity};
use crate::trial::evidence::ProxyLoop;
use std::sync::Arc;

/// All facts at one time.
#[derive(Clone, Debug, Default)]
pub struct StateFacts {
    /// The wall clock, Unix seconds.
    pub now: u64,
    /// The monotonic clock, milliseconds.
    pub at: u64,
    /// The number of a worker that failed, and its panic.
    pub failed_worker: Option<(usize, String)>,
    /// The origins of all routes.
    pub origins: Vec<OriginFact>,
    /// The routes with origins.
    pub routes: Vec<RouteFact>,
    /// The routes that have sent errors or had redirect loops since the start, without those whose errors the operator
    /// has ordered; by position.
    pub troubled: Vec<RouteCountFact>,
    /// Why it matters that this process is root, where it is.
    pub root: Option<String>,
    /// The routes that get no request.
    pub unreachable: Vec<UnreachableFact>,
    /// The routes under maintenance.
    pub maintenance: Vec<MaintenanceFact>,
    /// The memcached servers.
    pub memcached: Vec<MemcachedFact>,
    /// The purge that one sender has repeated most within the last five minutes.
    pub repeated_purge: Option<RepeatedPurgeFact>,
    /// Whether the other memcached servers take over the keys of one that is not used.
    pub keys_move: bool,
    /// The disk tier.
    pub disk: DiskFact,
    /// The purge log of the fleet; `None` without one.
    pub purge_log: Option<PurgeLogFact>,
    /// The nodes of the fleet; empty without a purge log.
    pub nodes: Vec<NodeFact>,
    /// The databases that are to be followed.
    pub databases: Vec<DatabaseFact>,
    /// The configuration in the file, if it was refused.
    pub refused: Option<PastFact>,
    /// The certificates of files, if their replacements were refused.
    pub refused_certificates: Option<PastFact>,
    /// The files of access rules that cannot be used.
    pub broken_files: Vec<BrokenFileFact>,
    /// The changed keys that wait for a restart.
    pub waiting: Vec<String>,
    /// The names that clients requested in TLS handshakes and no certificate has, with the numbers of these since the start.
    pub unknown_names: Vec<(String, u64)>,
    /// The hosts of sites that clients reach over TLS only, without a proxy before larder.
    pub tls_hosts: Vec<String>,
    /// Those whose requests without TLS are redirected to `https`: a proxy before larder may serve their TLS.
    pub secured_hosts: Vec<String>,
    /// Those that clients reach over TLS and without it.
    pub plain_hosts: Vec<String>,
    /// The access log that drops lines, if lines are dropped.
    pub log: Option<LogFact>,
    /// The values of [`CLIENT_LIMITS`], in its order.
    pub client_limits: [u64; CLIENT_LIMITS.len()],
    /// The last change of the configuration.
    pub changed: Option<PastFact>,
    /// Why the next start would fail, if it would.
    pub next_start: Option<PastFact>,
    /// The URLs whose requests all fail.
    pub failing_urls: Vec<FailingUrlFact>,
    /// The origins that disagree on whether a response may be shared.
    pub disagreeing: Vec<DisagreeingFact>,
    /// The proxies that are not trusted, whose clients are redirected in a loop.
    pub proxy_loops: Vec<ProxyLoopFact>,
    /// The certificates.
    pub certificates: Vec<CertificateFact>,
    /// The use of HTTP/3; `None` without an open UDP port.
    pub http3: Option<Http3Fact>,
    /// Why the folder of `tls.acme` cannot be used.
    pub certificate_folder: Option<String>,
    /// Sums since the start.
    pub counts: CountFacts,
    /// Bytes of the RAM budget.
    pub ram_budget: u64,
    /// The bytes of it that can be used.
    pub ram_usable: u64,
    /// The snapshot of the RAM tier, if the start could not read it.
    pub snapshot: Option<PastFact>,
    /// The requests that were recorded within the last minute.
    pub recorded: Arc<RecordedFacts>,
}

/// One origin.
#[derive(Clone, Debug, Default)]
pub struct OriginFact {
    /// Its address.
    pub name: String,
    /// Whether it gets requests and answers them.
    pub is_used: bool,
    /// Whether it failed: it gets no requests, or its latest ones have all failed. A drained origin is not down.
    pub is_down: bool,
    /// Whether only its health check fails: its latest request was answered.
    pub is_answering: bool,
    /// The reason.
    pub why: String,
    /// Whether it is drained.
    pub is_drained: bool,
    /// The key that limits its requests, with value and place: "`proxy.connections` of route a is 4 (larder.toml:9)".
    pub limit: String,
    /// Sums since the start.
    pub answers: OriginAnswers,
}

/// The answers of an origin: sums since the start, or their growth within a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginAnswers {
    /// Requests whose final response began.
    pub all: u64,
    /// Responses of them with a status from 500.
    pub errors_5xx: u64,
    /// Microseconds from these requests to the heads of their responses, in total.
    pub micros: u64,
    /// Requests that waited 100 ms or longer for a slot of `proxy.connections`.
    pub waits: u64,
    /// If it has only one route: the requests of this route to all its origins.
    pub of_route: u64,
    /// The microseconds of these requests.
    pub micros_of_route: u64,
}

/// One route with origins.
#[derive(Clone, Debug, Default)]
pub struct RouteFact {
    /// Its name.
    pub name: String,
    /// The positions of its origins among all.
    pub origins: Vec<usize>,
}

/// Sums of a route since the start.
#[derive(Clone, Debug, Default)]
pub struct RouteCountFact {
    /// Its position among all.
    pub at: u32,
    /// Its name.
    pub name: String,
    /// Whether the operator has ordered its errors: it is under maintenance.
    pub is_ordered: bool,
    /// Requests.
    pub requests: u64,
    /// Responses of them with a status from 500.
    pub errors_5xx: u64,
    /// Requests of them that `access.limit` refused.
    pub limited: u64,
    /// Requests of them that the origin redirected to their own URL.
    pub loops: u64,
    /// Requests of them that `access` refused with 401 or 403.
    pub refused: u64,
    /// `PURGE` requests of clients that may not purge (403).
    pub purges_refused: u64,
    /// Responses with a status of 400 to 499, the refused and limited ones included.
    pub errors_4xx: u64,
    /// Why the last exchange with its origins failed, if they fail now.
    pub failure: String,
    /// The keys of its `access` that can refuse requests, such as "`access.allow` or `access.basic`".
    pub rules: String,
    /// The limits of its `access`, such as "5/s by client and 100/h by client".
    pub limits: String,
}

/// An access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFact {
    /// Its file.
    pub name: String,
    /// Why it was not written; empty if it is not fast enough.
    pub why: String,
}

/// A URL whose recent requests all fail, on a route that answers its other requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailingUrlFact {
    /// The URL as clients request it.
    pub url: String,
    /// Its route.
    pub route: String,
    /// Its recent requests.
    pub requests: u64,
    /// The status of the latest.
    pub status: u16,
}

/// Two origins of a route with responses to one URL, of which only those of the first may be shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisagreeingFact {
    /// The route.
    pub route: String,
    /// The URL.
    pub url: String,
    /// The origin that permits sharing, and its recent responses.
    pub shares: (String, u64),
    /// The one that forbids it, and its recent responses.
    pub forbids: (String, u64),
}

/// A proxy that is not trusted, whose clients a route redirects in a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyLoopFact {
    /// The route.
    pub route: String,
    /// The proxy with its requests.
    pub found: ProxyLoop,
}

/// A route that earlier ones take all requests of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreachableFact {
    /// Its name.
    pub route: String,
    /// Its line: `larder.toml:12`.
    pub at: String,
    /// The routes before it.
    pub why: String,
}

/// The routes that one `maintenance` puts under maintenance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceFact {
    /// Their names.
    pub routes: Vec<String>,
    /// The line of the key: `larder.toml:12`.
    pub at: String,
    /// Whether `maintenance.allow` has clients that are served nevertheless.
    pub admits_some: bool,
}

/// One memcached server.
#[derive(Clone, Debug, Default)]
pub struct MemcachedFact {
    /// Its address.
    pub name: String,
    /// Whether it is not used because it failed.
    pub is_down: bool,
    /// The failures in a row after which it is not used.
    pub failures: u32,
    /// How often that happened within the last ten minutes.
    pub ejections: usize,
}

/// A purge that one sender repeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepeatedPurgeFact {
    /// Its sender: a token, or the address of a client.
    pub by: String,
    /// Its target.
    pub target: String,
    /// How often it was sent within the last five minutes.
    pub times: usize,
    /// The responses of this node that it matched, in total.
    pub matched: u64,
}

/// The disk tier.
#[derive(Clone, Debug, Default)]
pub struct DiskFact {
    /// Why it is off; `None` if it is on, or there is none.
    pub off: Option<String>,
    /// Whether reads from the device are off after timeouts.
    pub reads_off: bool,
    /// Whether the device is full before `cache.disk.size` is reached.
    pub device_full: bool,
    /// Whether there is a disk tier, and it is on.
    pub is_on: bool,
    /// Whether it has dropped pages because `cache.disk.size` was reached.
    pub is_full: bool,
}

/// The purge log of the fleet.
#[derive(Clone, Copy, Debug, Default)]
pub struct PurgeLogFact {
    /// Whether this node may use stored responses without validation.
    pub in_sync: bool,
    /// The servers whose log is followed.
    pub followed: u64,
    /// All servers.
    pub servers: u64,
}

/// One node of the fleet.
#[derive(Clone, Debug, Default)]
pub struct NodeFact {
    /// Its name.
    pub name: String,
    /// The time of its last report, Unix seconds, if it is silent.
    pub silent: Option<u64>,
    /// Its version, if it reports one.
    pub version: Option<String>,
    /// Seconds by which its clock is ahead of this node's, if they differ by much.
    pub clock_off: Option<i64>,
    /// Whether it uses other memcached servers.
    pub other_servers: bool,
    /// Whether it finds keys on other servers, or writes them in another form.
    pub other_keys: bool,
}

/// A database that is to be followed.
#[derive(Clone, Debug, Default)]
pub struct DatabaseFact {
    /// Its name.
    pub name: String,
    /// Whether its changes purge pages.
    pub is_followed: bool,
    /// The reason, if it is known at this time.
    pub why: String,
    /// Milliseconds for which a change may have been committed without a purge.
    pub lag_millis: u64,
    /// Bytes of its log before which all changes purge pages, up to its end.
    pub lag_bytes: u64,
    /// Requests since the start of the routes whose pages its changes purge.
    pub requests: u64,
    /// Responses of them with a status from 500.
    pub errors_5xx: u64,
}

/// An event of the past with its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastFact {
    /// Its time, Unix seconds.
    pub at: u64,
    /// The reason.
    pub why: String,
}

/// A file of users, keys or countries that cannot be used, while its earlier content is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokenFileFact {
    /// Its path.
    pub name: String,
    /// Since when, Unix seconds.
    pub at: u64,
    /// The reason.
    pub why: String,
    /// The content in force, as a sentence.
    pub effect: &'static str,
}

/// One certificate.
#[derive(Clone, Debug)]
pub struct CertificateFact {
    /// Its names.
    pub names: Vec<String>,
    /// Its state.
    pub state: ExpiryState,
    /// Its validity.
    pub validity: Option<Validity>,
    /// Failed attempts in a row to obtain the next one.
    pub failures: u32,
    /// The last failure; empty after a success.
    pub error: String,
}

/// The use of HTTP/3 since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http3Fact {
    /// Connections over HTTP/3.
    pub connections: u64,
    /// Connections over TLS and TCP, whose responses announce it.
    pub tls_connections: u64,
}

/// Sums since the start, or their growth within a minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountFacts {
    /// Requests of all routes.
    pub requests: u64,
    /// Responses of them with a status from 500.
    pub errors_5xx: u64,
    /// Responses stored in RAM.
    pub stored: u64,
    /// Responses evicted from RAM for space that were fresh.
    pub evicted_fresh: u64,
    /// Requests of all routes that reached an origin with the reason `evicted`.
    pub missed_evicted: u64,
    /// The same with the reason `purged`.
    pub missed_purged: u64,
    /// Lookups in the fleet.
    pub fleet_lookups: u64,
    /// Lookups of them for a fresh page that had been there and was gone without a removal.
    pub fleet_lost: u64,
    /// Requests that larder refused by `access` or as invalid.
    pub refused: u64,
    /// The counters of [`LIMITS`], in its order.
    pub limits: [u64; LIMITS.len()],
    /// The counters of [`CLIENT_LIMITS`], in its order.
    pub client_limits: [u64; CLIENT_LIMITS.len()],
}

/// The sums that change with the configuration: the counters of removed routes are dropped, and those of maintenance are not judged.
#[derive(Clone, Debug, Default)]
pub struct ConfigSums {
    /// Requests of all routes, and the responses of them with a status from 500.
    pub routes: [u64; 2],
    /// The same of the routes whose pages the changes of a database purge, by its name.
    pub databases: Vec<(String, [u64; 2])>,
}

/// The growth of a sum. A sum of an earlier reading may be below zero after a reload; a decrease is none.
pub(super) fn growth(before: u64, now: u64) -> u64 {
    let grown = now.wrapping_sub(before);
    if grown > u64::MAX / 2 { 0 } else { grown }
}

impl OriginAnswers {
    /// The growth since `before`.
    pub(super) fn since(&self, before: &OriginAnswers) -> OriginAnswers {
        OriginAnswers {
            all: growth(before.all, self.all),
            errors_5xx: growth(before.errors_5xx, self.errors_5xx),
            micros: growth(before.micros, self.micros),
            waits: growth(before.waits, self.waits),
            of_route: growth(before.of_route, self.of_route),
            micros_of_route: growth(before.micros_of_route, self.micros_of_route),
        }
    }

    /// Those of the other origins of its only route.
    pub(super) fn of_others(&self) -> OriginAnswers {
        OriginAnswers {
            all: self.of_route.saturating_sub(self.all),
            micros: self.micros_of_route.saturating_sub(self.micros),
            ..OriginAnswers::default()
        }
    }
}

impl CountFacts {
    /// With at most these numbers of events of limits.
    pub(super) fn with_limits_of(mut self, of: &CountFacts) -> CountFacts {
        self.limits.iter_mut().zip(of.limits).for_each(|(it, most)| *it = most.min(*it));
        self.client_limits.iter_mut().zip(of.client_limits).for_each(|(it, most)| *it = most.min(*it));
        self
    }

    /// The growth since `before`.
    pub(super) fn since(&self, before: &CountFacts) -> CountFacts {
        let mut limits = self.limits;
        limits.iter_mut().zip(before.limits).for_each(|(now, before)| *now = growth(before, *now));
        let mut client_limits = self.client_limits;
        client_limits
            .iter_mut()
            .zip(before.client_limits)
            .for_each(|(now, before)| *now = growth(before, *now));
        CountFacts {
            requests: growth(before.requests, self.requests),
            errors_5xx: growth(before.errors_5xx, self.errors_5xx),
            stored: growth(before.stored, self.stored),
            evicted_fresh: growth(before.evicted_fresh, self.evicted_fresh),
            missed_evicted: growth(before.missed_evicted, self.missed_evicted),
            missed_purged: growth(before.missed_purged, self.missed_purged),
            fleet_lookups: growth(before.fleet_lookups, self.fleet_lookups),
            fleet_lost: growth(before.fleet_lost, self.fleet_lost),
            refused: growth(before.refused, self.refused),
            limits,
            client_limits,
        }
    }
}
