//! The table of counters.
//!
//! One row gives the atomic, the JSON and Prometheus name, the label on the admin page and the line of
//! docs/generated/counters.md. A counter that is not in the table cannot exist.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The meaning of a number, for printing and for comparison in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of events since the start; never decreases.
    Count,
    /// A number of bytes since the start; never decreases.
    Bytes,
    /// The sum of microseconds since the start; never decreases. Its name ends with `_us` or `_micros`, its help begins
    /// with the unit.
    Micros,
    /// A current number.
    Gauge,
    /// The number of times that a limit was reached.
    Limit,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct CounterRow {
    /// Its name in JSON: a stable interface.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// One line, for the docs and the admin page.
    pub help: &'static str,
}

/// A renamed counter: the name in earlier releases, and the name now.
///
/// A row stays for one release. Output has the new name only; the manual lists both.
pub const ALIASES: &[(&str, &str)] = &[
    ("cache_two_ways", "cache_ambiguous_paths"),
    ("disk_gave_way", "disk_device_full_drops"),
    ("fill_laggards_cut", "fill_laggards"),
    ("admin_guesses", "admin_throttled"),
    ("admin_refusals_untold", "admin_refusals_unlogged"),
    ("coding_shed", "coding_evictions"),
    ("log_polls", "purge_log_polls"),
    ("log_purges_applied", "purge_log_applied"),
    ("log_purges_sent", "purge_log_written"),
    ("log_purges_uncertain", "purge_log_uncertain"),
    ("log_gaps", "purge_log_gaps"),
    ("log_doubts", "purge_log_full_validations"),
    ("log_leases_lost", "purge_log_leases_lost"),
    ("fleet_wins", "fleet_recompute_wins"),
    ("fleet_waits", "fleet_recompute_waits"),
    ("fleet_marks", "fleet_hit_for_miss_writes"),
    ("fleet_marked", "fleet_hit_for_miss_hits"),
    ("fleet_packed", "fleet_compressed"),
];

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

    /// Subtracts `n`, for gauges.
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    /// Adds `n` from any thread, at the price of a locked instruction.
    pub fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Subtracts `n` from any thread, for gauges.
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
            /// The table, in display order.
            pub const TABLE: &'static [CounterRow] = &[$(CounterRow {
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
    connections_refused: Limit, "Client connections closed at once, and upgrades over HTTP/2 refused, because `limits.connections` was reached and no connection was idle.";
    connections_shed: Limit, "Client connections closed to free a place, at `limits.connections` or without free file descriptors: idle ones first, then those with a slow request head.";
    accept_errors: Limit, "Accepts that failed or were delayed for lack of file descriptors or memory; accepting paused briefly.";
    http2_connections: Count, "HTTP/2 client connections accepted.";
    http2_open: Gauge, "HTTP/2 client connections open now.";
    http2_requests: Count, "Requests over HTTP/2.";
    http3_connections: Count, "HTTP/3 client connections accepted: handshakes that succeeded.";
    http3_open: Gauge, "HTTP/3 client connections open now.";
    http3_requests: Count, "Requests over HTTP/3.";
    http3_early: Count, "Requests over HTTP/3 that were answered in early data (0-RTT), before the end of the handshake.";
    http3_errors: Count, "HTTP/3 connections closed because the client violated the protocol.";
    http3_retries: Count, "QUIC handshakes that had to prove their address (Retry), because many were incomplete.";
    http3_forwarded: Count, "UDP packets that arrived at another worker or process than that of their connection, and were passed on.";
    http2_errors: Count, "HTTP/2 connections closed because the client violated the protocol.";
    requests: Count, "Requests with a valid head.";
    requests_rejected: Count, "Requests rejected because they were not valid HTTP (4xx, connection closed).";
    client_bytes_received: Bytes, "Bytes read from clients, heads included.";
    client_bytes_sent: Bytes, "Bytes written to clients, heads included.";
    client_head_timeouts: Limit, "Clients that did not send a complete request head within `limits.head_timeout`.";
    client_body_timeouts: Limit, "Clients that did not send their request body in time (`limits.body_timeout`, `limits.min_rate`).";
    client_idle_timeouts: Count, "Keep-alive connections closed after `limits.idle_timeout`.";
    client_write_timeouts: Limit, "Clients that did not read their response in time (`limits.write_timeout`, `limits.min_rate`).";
    client_aborts: Count, "Clients that closed the connection before their response was complete.";
    http2_streams_refused: Limit, "HTTP/2 requests refused (REFUSED_STREAM): `limits.http2_streams` were open, or four times as many with reset streams still in work.";
    http2_floods: Limit, "HTTP/2 connections closed (ENHANCE_YOUR_CALM) for floods of resets, PINGs, SETTINGS, WINDOW_UPDATEs, empty frames or endless field sections.";
    http3_requests_refused: Limit, "HTTP/3 requests refused (H3_REQUEST_REJECTED): four times `limits.http2_streams` were in work, reset ones included.";
    http3_refused: Limit, "QUIC handshakes refused: `limits.connections` were open, or too many handshakes were incomplete.";
    http3_floods: Limit, "HTTP/3 connections closed (H3_EXCESSIVE_LOAD) for floods of resets, empty or unknown frames and streams.";
    http3_unanswered: Limit, "Packets from this machine to its UDP port of HTTP/3 without an answer within 1 s, one every 5 s; after three of them the port is not announced (`Alt-Svc`).";
    http3_lost: Limit, "UDP packets for another worker or process that were dropped, because its queue was full.";
    tls_handshakes: Count, "Full TLS handshakes.";
    tls_resumed: Count, "Resumed TLS handshakes.";
    tls_12: Count, "TLS 1.2 handshakes, full and resumed.";
    tls_13: Count, "TLS 1.3 handshakes, full and resumed.";
    tls_open: Gauge, "Client connections open now that use TLS or are in the handshake.";
    tls_waiting_bytes: Gauge, "Bytes in TLS buffers: encrypted output not yet sent, incomplete input records, and decrypted input not yet read.";
    tls_expires_seconds: Gauge, "Seconds until the first certificate expires; 0 if one has expired, or without TLS.";
    tls_unknown_names: Count, "TLS handshakes for a name that no certificate has; the first certificate of a file was sent.";
    tls_failed_plain: Count, "Clients that sent plain HTTP to a TLS port; each received 400.";
    tls_failed_version: Count, "TLS handshakes that failed: no TLS version in common.";
    tls_failed_cipher: Count, "TLS handshakes that failed: no cipher, group or signature algorithm in common.";
    tls_failed_protocol: Count, "TLS handshakes that failed: no application protocol in common (ALPN).";
    tls_failed_certificate: Count, "TLS handshakes that failed: client certificate missing or invalid (`tls.client_auth`).";
    tls_failed_certificate_version: Count, "TLS handshakes that failed: the client certificate is X.509 version 1. Issue it with extensions (`openssl x509 -req -extfile`), so that it has version 3.";
    tls_failed_name: Count, "TLS handshakes that failed: no certificate for the name, which ACME may bring later, and none of a file.";
    tls_failed_refused: Count, "TLS handshakes that failed: the client sent an alert, usually because it does not trust the certificate.";
    tls_failed_malformed: Count, "TLS connections that failed: the input was not TLS, or was corrupted.";
    tls_failed_cut: Count, "TLS handshakes that failed: the client closed the connection.";
    tls_failed_timeout: Limit, "TLS handshakes that failed: `limits.head_timeout` expired.";
    acme_orders: Count, "Orders of certificates by ACME that were begun or resumed.";
    acme_certificates: Count, "Certificates obtained by ACME.";
    acme_failures: Count, "Attempts that ended without a certificate; the names wait before the next one.";
    proxy_headers: Count, "Connections whose PROXY protocol header was read.";
    proxy_refused: Count, "Connections closed at once: the peer is not in `clients.proxies`, and the address requires a PROXY protocol header.";
    proxy_missing: Count, "Connections closed because they did not start with a PROXY protocol header.";
    proxy_malformed: Count, "Connections closed because of a malformed PROXY protocol header.";
    proxy_cut: Count, "Connections that ended inside the PROXY protocol header.";
    proxy_timeout: Limit, "Connections closed because the PROXY protocol header took longer than `limits.head_timeout`.";
    head_too_large: Limit, "Requests rejected with 431: the head exceeded `limits.head_size`, or had too many fields.";
    target_too_long: Limit, "Requests rejected with 414: the target exceeded `limits.target_size`.";
    unread_bodies: Limit, "HTTP/2 and HTTP/3 requests whose streams were reset because more than 16 MiB of request bodies were in the memory of the worker.";
    body_too_large: Limit, "Requests rejected with 413: the body exceeded `body_size` of its route, or `limits.body_size`.";
    traces: Count, "Requests traced (`site.route.trace`).";
    traces_overwritten: Limit, "Traces overwritten by newer ones before they were read.";
    telemetry_sent: Count, "Request spans accepted by the OpenTelemetry collector (`telemetry.otlp`).";
    telemetry_failed: Count, "Request spans that the collector did not accept.";
    telemetry_dropped: Limit, "Request spans dropped because the export queue was full.";
    traces_lost: Limit, "Traces not delivered to a follower because its queue was full.";
    cache_hits: Count, "Requests served from the cache without contacting the origin.";
    cache_stale_hits: Count, "Hits served stale (RFC 5861).";
    cache_hits_disk: Count, "Hits, of `cache_hits`, from the disk tier.";
    cache_hits_fleet: Count, "Hits, of `cache_hits`, from the memcached fleet.";
    cache_rechecks: Count, "Requests that checked the fleet for a newer copy because `local_ttl` of the copy in RAM had expired.";
    recompute_waits: Count, "Fills that waited for another node to recompute the key.";
    recompute_takeovers: Count, "Recomputations taken over from a node that did not respond.";
    recompute_wait_timeouts: Count, "Fills whose wait for another node timed out; they fetched from the origin themselves.";
    disk_promotions: Count, "Large bodies copied from disk into RAM.";
    cache_misses: Count, "Requests that needed a response of the origin, through their own fetch or a shared one, whether it succeeded or not.";
    cache_validations: Count, "Stored responses validated with the origin.";
    cache_validated: Count, "Validations answered with 304.";
    cache_passes: Count, "Requests that bypassed the cache.";
    upgrades: Count, "Connections and HTTP/2 streams upgraded to another protocol, such as WebSocket.";
    upgrades_open: Gauge, "Upgraded connections open now.";
    upgrades_idle: Limit, "Upgraded connections closed because both directions were idle for `limits.upgrade_idle`.";
    get_bodies_dropped: Count, "Request bodies of GET and HEAD not forwarded: the route uses the cache, and bodies are not part of the key.";
    cache_ambiguous_paths: Count, "Requests, of `cache_passes`, with an ambiguous path: two readings of it match different routes.";
    cache_stores: Count, "Responses stored.";
    cache_refusals: Count, "Responses that may not be stored (`larder explain` names the rule).";
    cache_invalidations: Count, "Stored responses invalidated by an unsafe method.";
    purges: Count, "Purges in force, by a command or from the purge log of the fleet.";
    purges_everything: Count, "Purges of everything, of `purges`.";
    purged_responses: Count, "Stored responses removed from RAM by a purge, counted when they are found.";
    purge_rules_full: Limit, "Purge rules dropped because the table was full; responses stored before them are validated first.";
    purge_tags_full: Limit, "Responses with more tags than can be stored; every purge by tag matches them.";
    cache_evictions: Count, "Stored responses evicted for space.";
    cache_evictions_fresh: Count, "Evicted responses, of `cache_evictions`, that were fresh.";
    cache_evicted_seconds: Count, "Seconds from the arrival of responses to their eviction, of `cache_evictions`, in total: divided by these it is the age of an evicted response.";
    ram_restored: Count, "Responses restored at the start from `cache.ram.snapshot`, or at an upgrade from the process before.";
    cache_idle_evictions: Count, "Responses evicted because they were unused for `cache.ram.idle`.";
    cache_over_budget: Limit, "Fills not kept in RAM because the RAM budget was exhausted; the disk tier may store them.";
    cache_object_too_large: Limit, "Responses not stored because they exceed `cache.max_object`.";
    cache_variants_full: Limit, "Variants evicted because the key already had `cache.max_variants`.";
    coding_hits: Count, "Hits served in an encoding made from the stored response.";
    coding_made: Count, "Encodings made: stored responses compressed or decoded.";
    coding_bytes_read: Bytes, "Bytes of stored bodies read to make encodings.";
    coding_bytes_made: Bytes, "Bytes of bodies of encodings made.";
    coding_queue_micros: Micros, "Microseconds that encodings waited in the queue for a thread, in total.";
    coding_waits: Count, "Requests that waited for an encoding because the client accepts no other.";
    coding_no_memory: Limit, "Encodings not made: the working memory of the codec exceeds half of the RAM budget, or no room could be made.";
    coding_queue_full: Limit, "Encodings not made because the queue was full (`cache.compress.queue`).";
    coding_no_gain: Count, "Encodings not made because they would save less than a 16th.";
    coding_no_room: Limit, "Encodings not stored because the RAM budget was exhausted.";
    coding_evictions: Count, "Encodings evicted for space.";
    coding_streams: Count, "Responses, not stored, compressed while being sent to a client.";
    decoding_streams: Count, "Bodies decoded while being sent to a client.";
    decoding_too_large: Limit, "Compressed bodies whose decoded size exceeds the limit.";
    decoding_bombs: Limit, "Compressed bodies that expand more than 250 times.";
    decoding_failures: Count, "Bodies that do not match their Content-Encoding.";
    access_refused: Count, "Requests refused because of `access`: by address, country, condition or credentials (401, 403).";
    access_limited: Limit, "Requests refused because of `access.limit.rate`, `access.limit.concurrency` or one of `access.limits.rate` and `access.limits.concurrency` (429).";
    budget_exceeded: Limit, "Requests beyond a budget (`access.budget.misses`, `access.budget.seconds`): served stale, also without a revalidation, or refused with 429.";
    access_files_broken: Count, "Password files, key files and databases of `geoip` that were replaced by broken or empty ones, or vanished. The users, keys and databases read before stay in force. The error log has the reason.";
    access_keys_fetched: Count, "Fetches of the keys of issuers (`access.jwt.jwks_url`).";
    access_keys_failures: Count, "Fetches of keys without usable keys. The keys fetched before stay in force; without any, tokens get 503. The error log has the reason.";
    access_forward_asked: Count, "Questions to the services of `access.forward.to`.";
    access_forward_failures: Count, "Questions without an answer of the service, or with one that neither admits nor refuses. The request got 503. The error log has the line.";
    purges_refused: Count, "`PURGE` requests rejected because of `cache.purge.method` (405) or `cache.purge.from` (403).";
    purge_log_polls: Count, "Answers of memcached servers to polls of the purge log.";
    purge_log_applied: Count, "Purges of other nodes applied by this node.";
    purge_log_written: Count, "Purges that this node wrote to the purge log.";
    purge_log_uncertain: Count, "Purges confirmed by too few memcached servers, or unknown to nodes that use other servers.";
    purge_log_gaps: Count, "Purge logs of a server that were replaced or had a missing entry.";
    purge_log_full_validations: Count, "Times that every stored response was marked for validation because a purge may have been missed.";
    purge_log_leases_lost: Count, "Times that the lease on the purge log expired because too few memcached servers answered; every entry is then validated before use.";
    node_statuses_damaged: Count, "Records of nodes in memcached that were damaged or of no node, counted at each reading.";
    purges_incomplete: Count, "Purges in force on this node but not confirmed elsewhere; the receipt says where.";
    group_purges_late: Limit, "Group invalidations by unsafe methods answered after 1 s, before the disk tier and the purge log had confirmed them.";
    purges_full: Limit, "Purges rejected with 503 because too many were in progress.";
    requests_collapsed: Count, "Requests that waited for another request's fetch.";
    collapse_timeouts: Limit, "Requests whose wait for another request's fetch timed out (`cache.collapse_wait`); one of them begins a second fetch, and the others wait for both.";
    collapse_failures: Count, "Requests answered with the failure of another request's fetch, after two fetches in turn had failed; both requests have the same header fields.";
    fill_step_disk: Count, "Fetches that looked in the disk tier (step `disk` of the fill machine, see ARCHITECTURE).";
    fill_step_fleet: Count, "Fetches that looked in the fleet (step `fleet` of the fill machine, see ARCHITECTURE).";
    fill_step_origin: Count, "Fetches that waited for a permit and asked the origin, a second time after an unusable answer included (step `origin` of the fill machine, see ARCHITECTURE).";
    fill_step_decide: Count, "Fetches that decided whether their response is stored, passed on or used to freshen (step `decide` of the fill machine, see ARCHITECTURE).";
    fill_step_freshen: Count, "Fetches that updated the stored response after a 304 (step `freshen` of the fill machine, see ARCHITECTURE).";
    fill_step_store: Count, "Fetches that shared the response while it arrived, to store it (step `store` of the fill machine, see ARCHITECTURE).";
    fill_step_forward: Count, "Fetches that forwarded the response to the one client that may have it (step `forward` of the fill machine, see ARCHITECTURE).";
    fill_step_finish: Count, "Fetches that ended (step `finish` of the fill machine, see ARCHITECTURE).";
    fill_laggards: Limit, "Clients whose response was cut because they fell behind a shared body too large to store: they delayed the others by 0.5 s in total and the spool was off or full, or the spool failed.";
    fill_spooled: Count, "Shared bodies, too large to store, of which a part was buffered in the spool for slow clients.";
    fill_spool_bytes: Gauge, "Bytes in the spool now.";
    fill_spool_given_up: Limit, "Shared bodies that the spool stopped buffering: `cache.spool.size` was reached, or its directory failed or was too slow. Slow clients of these are then cut.";
    fill_hurried: Count, "Bodies, not stored, whose rest was fetched into the spool because requests queued for the origin and the clients were slow.";
    fill_given_up: Limit, "Fetches cancelled because requests queued for the origin and no client waited for the fetch.";
    answers_shed: Limit, "Responses cut because requests queued for the origin, the client had read nothing for 1 s, and the spool had no room.";
    uploads_shed: Limit, "Requests rejected with 503 because other requests queued for the origin and the request body arrived at less than 4 KiB/s.";
    fills_full: Limit, "Fetches not shared because `limits.fills` fetches were in flight.";
    hit_for_miss: Count, "Requests that did not wait because responses of the key are known not to be shared (hit-for-miss).";
    background_validations: Count, "Validations in the background after a stale response was served (RFC 5861 section 3).";
    database_queries: Count, "Queries for databases.";
    database_connections: Count, "Connections opened to databases.";
    database_replicas_ejected: Limit, "Replicas that got no more queries after a failure (`database.replicas`), by any worker.";
    database_failures: Count, "Queries without a complete result.";
    database_cancelled: Count, "Queries cancelled because no client waited for them, or because of a limit of their route.";
    database_row_tags: Count, "Tags that changes of followed databases purged.";
    database_gaps: Limit, "Times that a database could not be followed (`database.follow.publication`, `database.follow.binlog`, `database.follow.interval`): pages with its rows were validated.";
    database_lag_seconds: Gauge, "Seconds for which a change of a followed database may have been committed without a purge of its pages, now, rounded up; of several databases the most. Above 1, pages with its rows are validated every second.";
    database_queue_timeouts: Limit, "Queries that waited `database.queue_timeout` for a connection.";
    origin_requests: Count, "Requests sent to origins.";
    origin_connects: Count, "Connections opened to origins.";
    origin_surplus: Limit, "Origin connections closed because of bytes that belong to no response. For 1 minute no connection to that origin is reused.";
    origin_reuses: Count, "Requests sent on an idle origin connection.";
    origin_retries: Count, "Requests retried because a reused connection was closed by the origin.";
    origin_connect_failures: Count, "Connections to origins that failed.";
    origin_tls_handshakes: Count, "TLS handshakes with origins completed.";
    origin_tls_failures: Count, "TLS handshakes with origins that failed: certificate verification failed, or the peer does not speak TLS.";
    origin_http2_connects: Count, "HTTP/2 connections, of `origin_connects`.";
    origin_http2_streams: Count, "Requests, of `origin_requests`, sent over HTTP/2.";
    origin_http2_refused: Count, "HTTP/2 requests that the origin refused without processing (REFUSED_STREAM, GOAWAY).";
    origin_http2_dead: Limit, "HTTP/2 connections closed because the origin did not answer a PING within `proxy.connect_timeout`.";
    origin_timeouts: Limit, "Origin timeouts: connect, TLS handshake, first byte, between bytes or total.";
    origin_bad_responses: Count, "Origin responses that were not valid HTTP, or incomplete.";
    origin_bytes_sent: Bytes, "Bytes written to origins, heads included.";
    origin_bytes_received: Bytes, "Bytes read from origins, heads included.";
    origin_head_too_large: Limit, "Origin responses rejected because the head exceeded `proxy.head_size`.";
    origin_too_many_fields: Limit, "Origin responses rejected because the head had too many fields.";
    origin_interim_flood: Limit, "Origin connections closed because of more than `proxy.interim` 1xx responses.";
    origin_descriptor_waits: Limit, "Requests that waited for a file descriptor for an origin connection.";
    origin_pressed: Limit, "Exchanges that waited for a slow client, or had none, and were asked to release the origin connection: see `fill_hurried`, `fill_given_up`, `uploads_shed` and `answers_shed`.";
    origin_busy: Limit, "Requests that found no free slot of `proxy.connections` in time, or `proxy.queue` full. Requests that another origin then served are included.";
    origin_retries_elsewhere: Count, "Requests retried on another origin after a failure.";
    origin_retry_budget: Limit, "Requests not retried because `proxy.retry_budget` was exhausted.";
    origin_ejections: Limit, "Origins ejected after `proxy.eject_after` consecutive failures.";
    origin_readmissions: Count, "Ejected origins put back into use.";
    origin_health_checks: Count, "Health checks sent to origins (`proxy.health.path`).";
    origin_health_failures: Count, "Health checks that failed.";
    origin_refused_ejected: Limit, "Requests rejected because every origin of the route that is not drained was ejected.";
    origin_refused_drained: Count, "Requests rejected because every origin of the route was drained.";
    files_loads: Count, "Lookups of static files that read the file system.";
    files_evictions: Count, "Open files closed because the open-file cache was full.";
    files_changed: Limit, "Downloads of static files cut because the file was overwritten, truncated or unreadable while it was sent.";
    files_busy: Limit, "Requests for static files rejected with 503: the read queue was full, the file kept changing for 1 s, or no descriptor was free for 30 s.";
    fleet_gets: Count, "Lookups in the fleet.";
    fleet_hits: Count, "Lookups in the fleet that found the response.";
    fleet_purged: Count, "Fleet hits discarded because a purge covers them or their age is unknown.";
    fleet_misses: Count, "Lookups in the fleet that found nothing.";
    fleet_lost: Count, "Lookups in the fleet that found neither a fresh page that this node had seen there nor the marker of its removal: its server evicted it, or was restarted.";
    fleet_unavailable: Count, "Lookups in the fleet that no server answered in time.";
    fleet_recompute_wins: Count, "Recompute tokens won: this node fetches the item for all nodes.";
    fleet_recompute_waits: Count, "Lookups that found another node already recomputing the item.";
    fleet_hit_for_miss_writes: Count, "Hit-for-miss markers written: other nodes do not wait for a response that cannot be shared.";
    fleet_hit_for_miss_hits: Count, "Lookups that found a hit-for-miss marker of another node.";
    fleet_hedges: Count, "Hedged reads: repeated because the first answer was slow (`cache.fleet.hedge`).";
    fleet_puts: Count, "Responses stored in the fleet.";
    fleet_puts_failed: Count, "Responses that the fleet did not store.";
    fleet_puts_full: Limit, "Responses not written to the fleet because the queue was full (`cache.fleet.queue`).";
    fleet_too_large: Limit, "Responses not written to the fleet because they exceed `cache.fleet.max_item`.";
    fleet_split: Count, "Responses written to the fleet in several items.";
    fleet_compressed: Count, "Responses written to the fleet compressed.";
    fleet_removes: Count, "Keys deleted from the fleet.";
    fleet_removes_failed: Count, "Deletions that a server of the fleet did not confirm.";
    fleet_queue_full: Limit, "Operations not sent to a server of the fleet because its queue was full.";
    fleet_timeouts: Limit, "Operations that a server of the fleet did not answer within `cache.fleet.timeout`.";
    fleet_failures: Count, "Failures of servers of the fleet: no connection, no answer, or an invalid one.";
    fleet_ejections: Count, "Servers of the fleet ejected after `cache.fleet.failures` consecutive failures.";
    fleet_readmissions: Count, "Ejected servers of the fleet put back into use.";
    fleet_connects: Count, "Connections opened to servers of the fleet.";
    fleet_protocol_errors: Count, "Connections to the fleet closed because of an invalid answer.";
    fleet_foreign: Count, "Fleet items ignored because they belong to another key or were not written by larder.";
    fleet_corrupt: Count, "Fleet items ignored because of a wrong length or checksum, or a missing part.";
    fleet_bytes_sent: Bytes, "Bytes written to servers of the fleet.";
    fleet_bytes_received: Bytes, "Bytes read from servers of the fleet.";
    disk_hits: Count, "Lookups in the disk tier that found the response.";
    disk_misses: Count, "Lookups in the disk tier that found nothing usable.";
    disk_writes: Count, "Responses written to the disk tier.";
    disk_bytes_written: Bytes, "Bytes written to segments of the disk tier, metadata included.";
    disk_evicted_writes: Count, "Responses queued for the disk tier on eviction from RAM, because the disk tier did not have them.";
    disk_evicted_refused: Limit, "Responses evicted from RAM and not queued for the disk tier, because a 16th of the RAM budget was already queued.";
    disk_queue_full: Limit, "Responses not written to the disk tier because the queue was full (`cache.disk.queue`).";
    disk_large_writes: Count, "Bodies too large for RAM, queued for the disk tier.";
    disk_large_given_up: Limit, "Bodies too large for RAM and not stored on disk: four were already being written, there was no room, or the device was too slow.";
    disk_too_large: Limit, "Responses not written to the disk tier because they exceed a segment, or their head is too large for an envelope.";
    disk_skipped: Count, "Responses not written to the disk tier: partial, fresh for less than `cache.disk.min_ttl`, removed in the meantime, or of a process that has handed over its tier.";
    disk_no_room: Limit, "Responses not written to the disk tier because readers of dropped segments held all of its space.";
    disk_off: Gauge, "1 while the disk tier is off after a failed write, 0 otherwise.";
    disk_off_skipped: Limit, "Responses not written to the disk tier because it was off after a failure.";
    disk_failures: Count, "System calls of the disk tier that failed.";
    disk_corrupt: Count, "Corrupt records and segments of the disk tier: dropped, never served.";
    disk_reappended: Count, "Responses rewritten because their segment was the oldest and they had been used.";
    disk_segments_dropped: Count, "Segments of the disk tier dropped for space.";
    disk_device_full_drops: Count, "Segments, of `disk_segments_dropped`, dropped because the device was full before `cache.disk.size` was reached.";
    disk_removals: Count, "Removals and purges written to the disk tier.";
    disk_removals_late: Limit, "Removals, by unsafe methods or newer responses, that the disk tier had not written after 1 s; the request went on.";
    disk_pool_reads: Count, "Reads of the disk tier that had to wait for the device.";
    disk_pool_wait_micros: Micros, "Microseconds that reads of the disk tier waited for a thread of `cache.disk.readers`.";
    disk_pool_full: Limit, "Lookups in the disk tier skipped because the read queue was full.";
    disk_slow: Limit, "Lookups in the disk tier that timed out after 1 s.";
    disk_reads_off: Gauge, "1 while reads from the device are off after three consecutive timeouts of 1 s, 0 otherwise.";
    disk_reads_skipped: Limit, "Lookups in the disk tier skipped while reads from the device were off.";
    admin_wrong_tokens: Count, "Admin requests with a wrong token, an expired session or an invalid login code.";
    admin_throttled: Limit, "Admin requests with wrong credentials answered with 429 (rate limit).";
    admin_refusals: Count, "Admin requests answered with 400 or more.";
    admin_refusals_unlogged: Limit, "Rejected admin requests counted but not logged, because of the rate limit of the audit log.";
    admin_links_full: Limit, "Login links that expired early because newer ones were created.";
    admin_sessions_full: Limit, "Sessions of the admin page ended because newer ones were created.";
    streams_open: Gauge, "Listeners to the live stream of finished requests, now.";
    streams_refused: Limit, "Listeners to the live stream rejected with 503 because 16 were connected.";
    stream_records_lost: Limit, "Records of the live stream dropped because a listener was too slow. The stream reports the number to it.";
    log_lines_dropped: Limit, "Access-log lines dropped because the log could not be written, or not fast enough. The error log gives the reason.";
    overlay_hits: Count, "Requests answered by an overlay (a page that the operator set for a URL).";
    overlays: Gauge, "Overlays set now.";
    overlay_bytes: Gauge, "Bytes of overlays now, part of the RAM budget.";
    overlays_refused: Limit, "Overlays rejected: too many, above `admin.overlay_size`, or the RAM budget was exhausted.";
    config_reloads: Count, "Configuration reloads that took effect.";
    config_rejections: Count, "Configuration reloads rejected; the previous configuration stayed in force.";
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

    #[test]
    fn an_alias_is_a_name_that_no_counter_has_now() {
        let exists = |name: &str| Counters::TABLE.iter().any(|it| it.name == name);
        for (old, new) in ALIASES {
            assert!(!exists(old) && exists(new), "{old} {new}");
        }
    }
}
