//! What is counted of one route, and of one origin, by one worker: two tables more, and a histogram beside each. Which routes
//! there are, and who counts, is not here.

use crate::histogram::Histogram;
use crate::table::{Counter, Describe, Unit, counters};

counters! {
    /// What one worker counts of the requests of one route. A site is the sum of its routes.
    RouteCounters;
    requests: Count, "Requests that the route answered.";
    hits: Count, "Requests answered from the store without asking the origin.";
    misses: Count, "Requests that the origin answered, or another's fetch; what larder says by itself is none of these three.";
    passes: Count, "Requests that did not use the cache.";
    stale: Count, "Hits, of `hits`, that were stale and allowed to be (RFC 5861).";
    revalidated: Count, "Misses, of `misses`, that the origin answered with 304: what was stored still held.";
    errors_4xx: Count, "Responses with a status of 400 to 499.";
    errors_5xx: Count, "Responses with a status of 500 to 599.";
    bytes_sent: Bytes, "Bytes of bodies in responses to clients.";
    origin_requests: Count, "Requests of the route that were sent to its origin, validations in the background included.";
    origin_us: Count, "Microseconds from such a request to the head of its final response, in all.";
    hits_ram: Count, "Hits, of `hits`, that lay in RAM.";
    hits_disk: Count, "Hits, of `hits`, that lay on disk.";
    hits_fleet: Count, "Hits, of `hits`, that lay in the memcached fleet.";
}

counters! {
    /// What one worker counts of one origin, whichever routes use it.
    OriginCounters;
    requests: Count, "Requests sent to the origin.";
    answers: Count, "Requests, of `requests`, whose final response began; its latency is theirs.";
    failures: Count, "Exchanges that failed: no connection, no answer in time, or one that is none.";
    bytes: Bytes, "Bytes of response bodies that came from the origin.";
}

/// One worker's part of a route.
#[derive(Debug, Default)]
#[repr(align(128))] // Workers write their parts all the time: none shares a cache line with another.
pub struct RouteScope {
    /// Its counters.
    pub counters: RouteCounters,
    /// How long its requests took.
    pub latency: Histogram,
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
    /// What one worker counts of what one tier answered.
    TierCounters;
    hits: Count, "Requests answered from the tier without asking the origin.";
    bytes_served: Bytes, "Bytes of bodies in these responses.";
}

/// What one worker counts of all its requests, whichever routes they are of.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerScope {
    /// What RAM answered.
    pub ram: TierCounters,
    /// What the disk answered.
    pub disk: TierCounters,
    /// What the fleet answered.
    pub fleet: TierCounters,
    /// How long hits took: answered from the store.
    pub hit: Histogram,
    /// How long misses took: answered by way of the origin.
    pub miss: Histogram,
    /// How long those took that did not use the cache.
    pub pass: Histogram,
    /// How long those took in which the cache had no part: files, overlays, and what no route answers for.
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
        let all = RouteCounters::TABLE.iter().chain(OriginCounters::TABLE);
        assert!(all.clone().all(|it| it.help.ends_with('.')), "a help is a sentence");
        assert_eq!(18, all.count());
        assert_eq!(4, OriginCounters::default().values().count());
    }
}
