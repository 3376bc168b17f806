//! Every counter of the server, declared once.
//!
//! One row of the table gives the atomic, the JSON name, the admin page's label and
//! the line of docs/generated/counters.md. A counter that is not in the table cannot exist.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a number means, so that a page can print it and a test can compare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things since the start; never falls.
    Count,
    /// A number of bytes since the start; never falls.
    Bytes,
    /// Microseconds since the start, in all; never falls. Its name ends with `_us` or `_micros`, its help begins with the unit.
    Micros,
    /// How many there are now.
    Gauge,
    /// A limit that was reached this many times (statement 20 of the safety list).
    Limit,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Describe {
    /// Its name in JSON: a stable interface.
    pub name: &'static str,
    /// What one unit of it is.
    pub unit: Unit,
    /// One line, for the docs and the admin page.
    pub help: &'static str,
}

/// One number of one worker. Only its worker writes, so an addition is a load and a store.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `n`. Not atomic as a whole: two threads that add to the same counter may lose one.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Takes `n` away, for gauges.
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    /// Adds `n` from any thread, at the price of a locked instruction.
    pub fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Takes `n` away from any thread, for gauges.
    pub fn sub_shared(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }

    /// Sets a gauge that is not a sum, from any thread.
    pub fn set_shared(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The value now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($(#[$about:meta])* $table:ident; $($name:ident: $unit:ident, $help:literal;)*) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        pub struct $table { $(#[doc = $help] pub $name: Counter,)* }

        impl $table {
            /// The table, in the order it is shown.
            pub const TABLE: &'static [Describe] = &[$(Describe {
                name: stringify!($name), unit: Unit::$unit, help: $help,
            },)*];

            /// The values, in the order of the table.
            pub fn values(&self) -> impl Iterator<Item = u64> + '_ {
                [$(&self.$name,)*].into_iter().map(Counter::get)
            }
        }
    };
}
pub(crate) use counters;

counters! {
    /// The counters of one worker; the totals are summed when they are read.
    Counters;
    connections_accepted: Count, "Client connections accepted.";
    connections_open: Gauge, "Client connections open now.";
    connections_refused: Limit, "Client connections closed at once, and WebSockets and the like over HTTP/2 refused, because `limits.connections` was reached and none could make room.";
    connections_shed: Limit, "Client connections closed to make room, for want of descriptors or because `limits.connections` was reached: idle ones, then those whose head was slow to come.";
    accept_errors: Limit, "Accepts that failed or were put off, for want of descriptors or memory; accepting paused for a moment.";
    http2_connections: Count, "Client connections that speak HTTP/2.";
    http2_open: Gauge, "Of the open client connections, those that speak HTTP/2.";
    http2_requests: Count, "Requests over HTTP/2.";
    http2_errors: Count, "HTTP/2 connections ended because the client broke a rule of the protocol.";
    requests: Count, "Requests whose head was understood.";
    requests_rejected: Count, "Requests refused because their bytes were not valid HTTP (4xx, connection closed).";
    client_bytes_received: Bytes, "Bytes read from clients, heads included.";
    client_bytes_sent: Bytes, "Bytes written to clients, heads included.";
    client_head_timeouts: Limit, "Clients that did not send a whole head in time.";
    client_body_timeouts: Limit, "Clients that did not send their body in time.";
    client_idle_timeouts: Count, "Keep-alive connections closed because nothing came.";
    client_write_timeouts: Limit, "Clients that did not read their response in time.";
    client_aborts: Count, "Clients that went away before their response was sent.";
    http2_streams_refused: Limit, "HTTP/2 requests refused because `limits.http2_streams` of their connection were under way, or four times as many with those that their client has reset (REFUSED_STREAM).";
    http2_floods: Limit, "HTTP/2 connections ended because they asked for too much that costs them nothing: resets, PINGs, SETTINGS, WINDOW_UPDATEs, empty frames, field sections without an end (ENHANCE_YOUR_CALM).";
    tls_handshakes: Count, "TLS handshakes that were done in full.";
    tls_resumed: Count, "TLS handshakes that took up an earlier session.";
    tls_12: Count, "TLS handshakes, of both kinds, that came to TLS 1.2.";
    tls_13: Count, "TLS handshakes, of both kinds, that came to TLS 1.3.";
    tls_open: Gauge, "Of the open client connections, those that speak TLS, or begin to.";
    tls_waiting_bytes: Gauge, "Sealed bytes that wait for clients, or for their end, and opened ones that wait for us.";
    tls_expires_seconds: Gauge, "Seconds until the first of the certificates expires; 0 if one has, or without TLS.";
    tls_unknown_names: Count, "TLS handshakes for a name that no certificate has; the first certificate was shown.";
    tls_failed_plain: Count, "Clients that spoke HTTP in clear where TLS is spoken; each was told so (400).";
    tls_failed_version: Count, "TLS handshakes that failed: the client speaks no version that is spoken here.";
    tls_failed_cipher: Count, "TLS handshakes that failed: no cipher, group or signature in common.";
    tls_failed_protocol: Count, "TLS handshakes that failed: the client speaks no protocol that is spoken here (ALPN).";
    tls_failed_certificate: Count, "TLS handshakes that failed: the client showed no certificate where it must, or no good one.";
    tls_failed_refused: Count, "TLS handshakes that failed: the client sent an alert, most often because it does not trust the certificate.";
    tls_failed_malformed: Count, "TLS connections that failed: what the client sent is no TLS, or was changed on its way.";
    tls_failed_cut: Count, "TLS handshakes that failed: the client went away within.";
    tls_failed_timeout: Limit, "TLS handshakes that failed: they took longer than `limits.head_timeout`.";
    proxy_headers: Count, "Connections whose header of the PROXY protocol was read.";
    proxy_refused: Count, "Connections closed at once: none of `clients.proxies`, where a header of the PROXY protocol is to come first.";
    proxy_missing: Count, "Connections closed because they did not begin with a header of the PROXY protocol.";
    proxy_malformed: Count, "Connections closed because their header of the PROXY protocol broke its rules.";
    proxy_cut: Count, "Connections that ended within their header of the PROXY protocol.";
    proxy_timeout: Limit, "Connections closed because their header of the PROXY protocol took longer than `limits.head_timeout`.";
    head_too_large: Limit, "Requests refused because the head was over `limits.head_size` or had too many fields (431).";
    target_too_long: Limit, "Requests refused because the target was over `limits.target_size` (414).";
    body_too_large: Limit, "Requests refused because the body was over `limits.body_size` (413).";
    traces: Count, "Requests whose stages were timed and kept as a trace (`site.route.trace`).";
    traces_overwritten: Limit, "Traces that were overwritten by newer ones before anybody had read them.";
    telemetry_sent: Count, "Requests whose spans an OpenTelemetry collector has taken (`telemetry.otlp`).";
    telemetry_failed: Count, "Requests whose spans the collector did not take.";
    telemetry_dropped: Limit, "Requests whose spans were dropped because too many waited to be sent.";
    traces_lost: Limit, "Traces that were not given to somebody who follows them, because too many waited already.";
    cache_hits: Count, "Requests answered from the store without asking the origin.";
    cache_stale_hits: Count, "Hits that were stale and allowed to be (RFC 5861).";
    cache_hits_disk: Count, "Hits, of `cache_hits`, that lay on disk.";
    cache_hits_fleet: Count, "Hits, of `cache_hits`, that lay in the memcached fleet.";
    cache_rechecks: Count, "Requests that asked the fleet about a copy in RAM because its `local_ttl` had passed.";
    recompute_waits: Count, "Fills that waited for what another node was recomputing.";
    recompute_takeovers: Count, "Turns to recompute that were taken from a node that gave no sign of life.";
    recompute_wait_timeouts: Count, "Fills that waited for another node in vain, and asked the origin themselves.";
    disk_promotions: Count, "Large bodies that were taken from the disk into RAM.";
    cache_misses: Count, "Requests that were for the origin to answer, to them or to another that they waited for, whether it did or not.";
    cache_validations: Count, "Stored responses validated with the origin.";
    cache_validated: Count, "Validations that the origin answered with 304.";
    cache_passes: Count, "Requests that did not use the cache.";
    upgrades: Count, "Connections, and streams of HTTP/2, that went on in another protocol than HTTP, such as WebSocket.";
    upgrades_open: Gauge, "Of these, those that are open.";
    upgrades_idle: Limit, "Of these, those that were cut as neither side sent anything for `limits.upgrade_idle`.";
    get_bodies_dropped: Count, "Bodies of GET and HEAD that went no further than here, as the route uses the cache: they are in no key.";
    cache_two_ways: Count, "Requests, of `cache_passes`, whose path can be read in two ways, of which different routes answer.";
    cache_stores: Count, "Responses stored.";
    cache_refusals: Count, "Responses that might not be stored (explain names the rule).";
    cache_invalidations: Count, "Stored responses invalidated by an unsafe method.";
    purges: Count, "Purges that came into force, by command or by the fleet's log.";
    purged_responses: Count, "Stored responses that a purge took out of RAM, counted when they are met.";
    purge_rules_full: Limit, "Purges let go because too many were held: what was stored before them is validated first.";
    purge_tags_full: Limit, "Responses with more tags than are told apart: they are purged with any tag.";
    cache_evictions: Count, "Stored responses removed for space.";
    cache_idle_evictions: Count, "Responses evicted because nobody asked for them in `cache.ram.idle`.";
    cache_over_budget: Limit, "Fills that went unstored because the RAM budget could not make room.";
    cache_object_too_large: Limit, "Responses not stored because they exceed the largest object size.";
    cache_variants_full: Limit, "Variants dropped because their key had `cache.max_variants` already.";
    coding_hits: Count, "Hits that were served in a form made from the stored response.";
    coding_made: Count, "Forms made: stored responses coded, or decoded.";
    coding_bytes_read: Bytes, "Bytes of stored bodies that forms were made of.";
    coding_bytes_made: Bytes, "Bytes of the bodies of forms that were made.";
    coding_queue_micros: Micros, "Microseconds that orders for forms waited for a thread, in all.";
    coding_waits: Count, "Requests that waited for a form because they accept nothing else.";
    coding_no_memory: Limit, "Forms not made because what the codec needs while it works found no room in the RAM budget, or is more than half of it.";
    coding_queue_full: Limit, "Forms not made because too many were to be made already.";
    coding_no_gain: Count, "Forms not made because they would not be smaller by a 16th.";
    coding_no_room: Limit, "Forms not made because the RAM budget could not make room.";
    coding_shed: Count, "Forms taken out for space.";
    decoding_streams: Count, "Bodies decoded on their way to a client.";
    decoding_too_large: Limit, "Coded bodies that become larger than they may when they are decoded.";
    decoding_bombs: Limit, "Coded bodies that become more than 250 times as large when they are decoded.";
    decoding_failures: Count, "Bodies that are not in the coding that their Content-Encoding names.";
    purges_refused: Count, "`PURGE` requests that were refused, because of `cache.purge.method` (405) or `cache.purge.from` (403).";
    log_polls: Count, "Answers of memcached servers that were asked for new purges of other nodes.";
    log_purges_applied: Count, "Purges that another node asked for and this one applied.";
    log_purges_sent: Count, "Purges that this node told the others of.";
    log_purges_uncertain: Count, "Purges that too few memcached servers took, or that nodes with other servers may not know.";
    log_gaps: Count, "Times that a server's purge log was not the one that was followed, or had an entry missing.";
    log_doubts: Count, "Times that everything stored had to be validated, because a purge may have been missed.";
    log_leases_lost: Count, "Times that too few memcached servers answered to trust anything without validation.";
    purges_incomplete: Count, "Purges that are in force here, but could not be made sure of elsewhere; the answer says where.";
    group_purges_late: Limit, "Invalidations of groups by unsafe methods that were answered before the disk tier and the fleet's logs had them, because that took longer than a second.";
    purges_full: Limit, "Purges refused because too many were under way (503).";
    requests_collapsed: Count, "Requests that waited for another request's fetch.";
    collapse_timeouts: Limit, "Followers that gave up waiting and fetched for themselves.";
    fill_laggards: Limit, "Readers of a shared body, too large to keep, that were left behind because others had waited for them half a second, or because the spool could not be read.";
    fill_laggards_continued: Count, "Clients, of `fill_laggards`, for whom the origin was asked for the rest.";
    fill_laggards_cut: Limit, "Clients, of `fill_laggards`, whose body was cut short: the origin did not send the rest of it, or of another, or none of half of the connections to it came free in time.";
    fill_spooled: Count, "Shared bodies, too large to keep, of which the spool held some for readers that were too slow for the others.";
    fill_spool_bytes: Gauge, "Bytes in the spool now.";
    fill_spool_given_up: Limit, "Shared bodies of which the spool took no more: `cache.spool.size` was reached, or its directory failed or was too slow. Who is too slow for the others is left behind then.";
    fill_hurried: Count, "Bodies, not kept, of which the rest was fetched into the spool because others needed the connection to the origin and their clients were slow.";
    fill_given_up: Limit, "Fetches given up because others needed the connection to the origin and nobody waited for them any more.";
    answers_shed: Limit, "Answers cut off because others needed the connection to the origin, their client had taken nothing for a second, and the spool had no room.";
    events_shed: Limit, "Streams of events, more than `proxy.connections`, cut off because a page needed the connection to the origin: a browser asks for them again by itself.";
    uploads_shed: Limit, "Requests refused with 503 because others needed the connection to the origin and the request's body came slower than 4 KiB a second.";
    fills_full: Limit, "Fetches that went uncoalesced because `limits.fills` fetches were in flight.";
    hit_for_miss: Count, "Requests that did not wait because the key's answers are known not to be shared.";
    background_validations: Count, "Validations started while a stale response was served (RFC 5861 §3).";
    origin_requests: Count, "Requests sent to origins.";
    origin_connects: Count, "Connections opened to origins.";
    origin_surplus: Limit, "Connections on which an origin sent bytes that belong to no response; for a minute no connection to it is used twice.";
    origin_reuses: Count, "Requests sent on an origin connection that was already open.";
    origin_retries: Count, "Requests sent again because a reused connection had died.";
    origin_connect_failures: Count, "Connections to origins that could not be opened.";
    origin_tls_handshakes: Count, "TLS handshakes with origins that came to their end.";
    origin_tls_failures: Count, "TLS handshakes with origins that failed: not who it should be, or no TLS.";
    origin_http2_connects: Count, "Connections to origins, of `origin_connects`, that speak HTTP/2.";
    origin_http2_streams: Count, "Requests, of `origin_requests`, that were sent as streams of such connections.";
    origin_http2_refused: Count, "Of these, those that the origin did not begin with (REFUSED_STREAM, GOAWAY).";
    origin_http2_dead: Limit, "Connections that speak HTTP/2 and were closed because the origin did not answer a PING within `proxy.connect_timeout`.";
    origin_timeouts: Limit, "Origin deadlines that passed: connect, TLS handshake, first byte, between bytes or total.";
    origin_bad_responses: Count, "Origin responses that were not valid HTTP, or were cut short.";
    origin_bytes_sent: Bytes, "Bytes written to origins, heads included.";
    origin_bytes_received: Bytes, "Bytes read from origins, heads included.";
    origin_head_too_large: Limit, "Origin responses refused because the head was over `proxy.head_size`.";
    origin_too_many_fields: Limit, "Origin responses refused because the head had too many fields.";
    origin_interim_flood: Limit, "Origins cut off because they sent too many 1xx responses.";
    origin_descriptor_waits: Limit, "Requests that waited because no descriptor was left for a connection to their origin.";
    origin_pressed: Limit, "Exchanges that waited for their clients, or for nobody, and were told that others need their place with the origin: see `fill_hurried`, `fill_given_up`, `uploads_shed` and `answers_shed`.";
    origin_busy: Limit, "Requests for which one of `proxy.connections` was not free in time, or that found `proxy.queue` full; each that another origin took included.";
    origin_retries_elsewhere: Count, "Requests sent to another origin because one had failed them.";
    origin_retry_budget: Limit, "Requests that were not sent to another origin because `proxy.retry_budget` was used up.";
    origin_ejections: Limit, "Times that an origin was left alone, as it had failed `proxy.eject_after` times in a row.";
    origin_readmissions: Count, "Times that an origin that had been left alone was used again.";
    origin_health_checks: Count, "Times that an origin was asked whether it is well (`proxy.health.path`).";
    origin_health_failures: Count, "Times that it did not say so.";
    origin_refused_ejected: Limit, "Requests refused because every origin of their route was left alone, or all but those that were drained.";
    origin_refused_drained: Count, "Requests refused because every origin of their route was drained.";
    files_loads: Count, "Lookups of static files that asked the disk.";
    files_evictions: Count, "Files closed because the open-file cache was full.";
    files_busy: Limit, "Requests for static files refused (503): too many waited for the disk already, or for a second the file did not stand still, or for half a minute no descriptor was left.";
    fleet_gets: Count, "Responses looked for in the fleet.";
    fleet_hits: Count, "Responses that were found in the fleet.";
    fleet_purged: Count, "Of these, those that were not used: a purge has met them, or nothing tells that they are younger.";
    fleet_misses: Count, "Responses that the fleet does not have.";
    fleet_unavailable: Count, "Responses about which no server of the fleet could say anything in time.";
    fleet_wins: Count, "Times that this node was told to recompute an item of the fleet.";
    fleet_waits: Count, "Times that another node was already recomputing an item of the fleet.";
    fleet_marks: Count, "Times that this node told the others that an answer may not be shared, so that they need not wait for it.";
    fleet_marked: Count, "Looks into the fleet that found that another node's answer may not be shared.";
    fleet_hedges: Count, "Reads of the fleet that were asked a second time because the first answer was slow.";
    fleet_puts: Count, "Responses that a server of the fleet has stored.";
    fleet_puts_failed: Count, "Responses that no server of the fleet took.";
    fleet_puts_full: Limit, "Responses not written to the fleet because `cache.fleet.queue` bytes were waiting.";
    fleet_too_large: Limit, "Responses not written to the fleet because they exceed `cache.fleet.max_item`.";
    fleet_split: Count, "Responses written to the fleet in parts.";
    fleet_packed: Count, "Responses written to the fleet compressed.";
    fleet_removes: Count, "Keys removed from the fleet.";
    fleet_removes_failed: Count, "Removals that a server of the fleet did not confirm.";
    fleet_queue_full: Limit, "Requests not sent to a server of the fleet because too many were waiting for it.";
    fleet_timeouts: Limit, "Requests that a server of the fleet did not answer within `cache.fleet.timeout`.";
    fleet_failures: Count, "Failures of servers of the fleet: no connection, no answer, or one that is none.";
    fleet_ejections: Count, "Servers of the fleet left alone because they failed `cache.fleet.failures` times in a row.";
    fleet_readmissions: Count, "Servers of the fleet used again after they had been left alone.";
    fleet_connects: Count, "Connections opened to servers of the fleet.";
    fleet_protocol_errors: Count, "Connections to the fleet closed because what came was not the answer.";
    fleet_foreign: Count, "Items of the fleet not used because they belong to another key or are not larder's.";
    fleet_corrupt: Count, "Items of the fleet not used because a length or a checksum is wrong, or a part is missing.";
    fleet_bytes_sent: Bytes, "Bytes written to servers of the fleet.";
    fleet_bytes_received: Bytes, "Bytes read from servers of the fleet.";
    disk_hits: Count, "Responses found in the disk tier.";
    disk_misses: Count, "Lookups in the disk tier that found nothing to use.";
    disk_writes: Count, "Responses written to the disk tier.";
    disk_bytes_written: Bytes, "Bytes written to segments of the disk tier, all that belongs to them included.";
    disk_evicted_writes: Count, "Responses queued for the disk tier when RAM evicted them, because it had not got them when they were stored, or had dropped them since.";
    disk_evicted_refused: Limit, "Responses that RAM evicted and that were not queued for the disk tier, which lacked them, because a 16th of the RAM budget was on its way there.";
    disk_queue_full: Limit, "Responses not written to the disk tier because `cache.disk.queue` bytes waited already.";
    disk_large_writes: Count, "Bodies too large for RAM that were queued for the disk tier.";
    disk_large_given_up: Limit, "Bodies too large for RAM that were not kept on disk either, because four were on their way there already, there was no room, or the device was too slow.";
    disk_too_large: Limit, "Responses not written to the disk tier because they are larger than a segment, or their head is larger than an envelope's.";
    disk_skipped: Count, "Responses not written to the disk tier because they are only a part, fresh for less than `cache.disk.min_ttl`, or removed meanwhile.";
    disk_no_room: Limit, "Responses not written to the disk tier because all its room was held by readers of dropped segments.";
    disk_off: Gauge, "1 while the disk tier takes nothing because a write failed, else 0.";
    disk_off_skipped: Limit, "Responses not written to the disk tier because it was off after a failure.";
    disk_failures: Count, "Calls to the file system that failed for the disk tier.";
    disk_corrupt: Count, "Records and segments of the disk tier whose bytes were not those that were written: dropped, never served.";
    disk_reappended: Count, "Responses written again because their segment was the oldest and they had been used.";
    disk_segments_dropped: Count, "Segments of the disk tier dropped for room.";
    disk_gave_way: Count, "Of those, segments dropped because the device was full before `cache.disk.size` was reached.";
    disk_removals: Count, "Removals and purges written to the disk tier.";
    disk_removals_late: Limit, "Removals by unsafe methods that were answered before the disk tier had written them down, because that took longer than a second.";
    disk_pool_reads: Count, "Reads of the disk tier that had to wait for the device.";
    disk_pool_wait_micros: Micros, "Microseconds that reads of the disk tier waited for one of `cache.disk.readers`.";
    disk_pool_full: Limit, "Lookups in the disk tier given up because too many reads waited already.";
    disk_slow: Limit, "Lookups in the disk tier given up because the device took longer than a second.";
    disk_reads_off: Gauge, "1 while lookups in the disk tier do not wait for the device because it kept three in a row waiting for more than a second, else 0.";
    disk_reads_skipped: Limit, "Lookups in the disk tier given up at once because the device was left alone so.";
    admin_wrong_tokens: Count, "Requests to the admin with a wrong token, an ended session's, or the code of no login link.";
    admin_guesses: Limit, "The same, of those answered with 429 because too many came.";
    admin_refusals: Count, "Requests to the admin that were answered with 400 or more.";
    admin_refusals_untold: Limit, "The same, of those that the audit log only counts because others of the same client were told in that second.";
    admin_links_full: Limit, "Login links that ended before their time because newer ones were made.";
    admin_sessions_full: Limit, "Sessions of the admin page that ended because newer ones began.";
    streams_open: Gauge, "Listeners to the live stream of finished requests.";
    streams_refused: Limit, "Listeners to the live stream refused (503) because 16 listened already.";
    stream_records_lost: Limit, "Records of the live stream that a listener lost because it was too slow; it is told how many.";
    log_lines_dropped: Limit, "Access-log lines dropped because the log could not be written, or not fast enough; why it could not is in the error log.";
    overlay_hits: Count, "Requests answered by an overlay: a page that the operator put over whatever is there.";
    overlays: Gauge, "Overlays that are set now.";
    overlay_bytes: Gauge, "Bytes that overlays take now, of the RAM budget.";
    overlays_refused: Limit, "Overlays not taken because they would be too many, more than `admin.overlay_size`, or more than the RAM budget has room for.";
    config_reloads: Count, "Configurations taken over while running.";
    config_rejections: Count, "Configurations refused while running; the old one stayed.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_values_agree() {
        let counters = Counters::default();
        counters.cache_hits.add(2);
        let at = Counters::TABLE.iter().position(|it| it.name == "cache_hits").unwrap();
        assert_eq!(Counters::TABLE.len(), counters.values().count());
        assert_eq!(Some(2), counters.values().nth(at));
        assert!(Counters::TABLE.iter().all(|it| it.help.ends_with('.')), "a help is a sentence");
    }
}
