//! Counters and latency histograms per route, origin and tier, one set per worker. The list of routes and the code that
//! counts are not here.

use crate::histogram::Histogram;
use crate::reasons::{AdviceCounters, NeedlessCookies, ReasonCounters, ReasonExamples};
use crate::table::{Counter, CounterRow, Unit, counters};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

counters! {
    /// Counters of one worker for the requests of one route. A site is the sum of its routes.
    RouteCounters;
    requests: Count, "Requests that the route answered.";
    hits: Count, "Requests served from the cache without contacting the origin.";
    misses: Count, "Requests that needed a response of the origin, through their own fetch or a shared one, whether it succeeded or not. Files, overlays and responses made by larder are not counted as hits, misses or passes.";
    passes: Count, "Requests that bypassed the cache.";
    stale: Count, "Hits, of `hits`, served stale (RFC 5861).";
    revalidated: Count, "Misses, of `misses`, answered by the origin with 304: the stored response is still valid.";
    errors_4xx: Count, "Responses with a status of 400 to 499.";
    errors_5xx: Count, "Responses with a status of 500 to 599, and those that the origin broke off.";
    bytes_sent: Bytes, "Bytes of bodies in responses to clients.";
    origin_requests: Count, "Requests of the route sent to its origin or database, background validations included.";
    origin_us: Micros, "Microseconds from such a request to the head of its final response, in total.";
    hits_ram: Count, "Hits, of `hits`, from RAM.";
    hits_disk: Count, "Hits, of `hits`, from the disk tier.";
    hits_fleet: Count, "Hits, of `hits`, from the memcached fleet.";
    refused: Count, "Requests refused because of `access`: by address, country, condition or credentials (401, 403).";
    purges_refused: Count, "`PURGE` requests of clients that may not purge the route (403), such as those whose address is not in `cache.purge.from`.";
    limited: Count, "Requests refused because of `access.limit.rate`, `access.limit.concurrency` or one of `access.limits.rate` and `access.limits.concurrency`, or after too many wrong credentials (429).";
    budget_exceeded: Count, "Requests beyond the budget of the route (`access.budget.misses`, `access.budget.seconds`): served stale, or refused with 429.";
    saved_us: Micros, "Microseconds saved by hits, in total: an estimate, for each hit the recent average time of the origin for responses of the route that are stored or validated.";
}

counters! {
    /// Counters of one worker for one origin, over all routes that use it.
    OriginCounters;
    requests: Count, "Requests sent to the origin.";
    answers: Count, "Requests, of `requests`, whose final response began. The latency is measured over these.";
    errors_5xx: Count, "Responses, of `answers`, with a status of 500 to 599.";
    waits: Count, "Requests that waited 100 ms or longer for a slot of `proxy.connections`.";
    failures: Count, "Exchanges that failed: no connection, a timeout, or an invalid response.";
    bytes: Bytes, "Bytes of response bodies received from the origin.";
}

/// One worker's part of a route.
#[derive(Debug, Default)]
#[repr(align(128))] // Workers write their parts all the time: none shares a cache line with another.
pub struct RouteScope {
    /// Its counters.
    pub counters: RouteCounters,
    /// Durations of its requests.
    pub latency: Histogram,
    /// Its requests to the origin, by reason.
    pub reasons: ReasonCounters,
    /// The facts for advice.
    pub advice: AdviceCounters,
    /// Examples of them; all workers' parts share these.
    pub examples: Arc<ReasonExamples>,
    /// The cookies that change no page of it; all workers' parts share them.
    pub needless: Arc<NeedlessCookies>,
    /// Recent time of its origin for responses that hits can follow; all workers' parts share it, since a hit of one may be the
    /// miss of another.
    pub lately: Arc<Lately>,
}

/// The recent time of an origin from a request to the head of its response, of responses that were stored or validated: the time
/// that a hit saves. Pages that are never stored, however slow, are requested with and without the cache.
#[derive(Debug, Default)]
pub struct Lately(AtomicU64);

impl Lately {
    /// Records a response time in microseconds. Each response counts an eighth of the mean, so responses before the last
    /// twenty hardly count. Of two simultaneous calls one may be lost.
    pub fn note(&self, micros: u64) {
        let next = match self.0.load(Relaxed) {
            0 => micros,
            before => before - before / 8 + micros / 8,
        };
        self.0.store(next, Relaxed);
    }

    /// The mean in microseconds; zero before the first response.
    #[must_use]
    pub fn micros(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One worker's part of an origin.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OriginScope {
    /// Its counters.
    pub counters: OriginCounters,
    /// From the request to the head of the final response.
    pub latency: Histogram,
}

counters! {
    /// Counters of one worker for the responses of one tier.
    TierCounters;
    hits: Count, "Requests served from the tier without contacting the origin.";
    bytes_served: Bytes, "Bytes of response bodies of these requests.";
    saved_us: Micros, "Microseconds saved by these hits, in total: an estimate, for each hit the recent average time of the origin for responses of its route that are stored or validated.";
}

/// Counters of one worker for all its requests, over all routes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerScope {
    /// Responses from RAM.
    pub ram: TierCounters,
    /// Responses from disk.
    pub disk: TierCounters,
    /// Responses from the fleet.
    pub fleet: TierCounters,
    /// Durations of hits: responses from the store.
    pub hit: Histogram,
    /// Durations of misses: responses that needed the origin.
    pub miss: Histogram,
    /// Durations of requests that did not use the cache.
    pub pass: Histogram,
    /// Durations of other requests: files, overlays, and requests without a route.
    pub other: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_values_agree() {
        let route = RouteCounters::default();
        route.hits_fleet.add(3);
        let named = |name| RouteCounters::TABLE.iter().position(|it| it.name == name);
        assert_eq!(Some(3), route.values().nth(named("hits_fleet").unwrap()));
        let all = RouteCounters::TABLE.iter().chain(OriginCounters::TABLE).chain(TierCounters::TABLE);
        assert!(all.clone().all(|it| it.help.ends_with('.')), "a help is a sentence");
        assert_eq!(28, all.clone().count());
        for it in all.chain(crate::Counters::TABLE) {
            let name_says = it.name.ends_with("_us") || it.name.ends_with("_micros");
            let is_time = it.unit == Unit::Micros;
            assert_eq!((is_time, is_time), (name_says, it.help.starts_with("Microseconds ")), "{it:?}");
            let name_says = it.name.split('_').any(|it| it == "bytes");
            assert!(name_says || it.unit != Unit::Bytes, "{it:?}");
        }
        assert_eq!(6, OriginCounters::default().values().count());
    }

    #[test]
    fn the_recent_latency_of_an_origin_follows_its_responses() {
        let lately = Lately::default();
        assert_eq!(0, lately.micros());
        lately.note(8000);
        assert_eq!(8000, lately.micros());
        lately.note(16_000);
        assert_eq!(9000, lately.micros());
        (0..60).for_each(|_| lately.note(100));
        assert!((100..=108).contains(&lately.micros()), "{lately:?}");
    }
}
