//! The table of configuration keys. A row yields the check, the default, the suggestion for a misspelt key, the manual
//! (`docs/generated/config.md`) and the JSON schema for editors. The parser of a file is not here.

use super::kind::{TextForm, ValueKind};
use super::presets;
use larder_semantics::policy::LONGEST_LIFETIME;

/// The places of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyScope {
    /// Only at its path.
    Once,
    /// At `cache.NAME` as the default of every route, and at `site[].route[].cache.NAME` for one.
    EveryRoute,
    /// At `site[].route[].NAME`, and at `site[].NAME` as the default of the routes of a site.
    SiteAndRoute,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path; `[]` means "each of the list".
    pub path: &'static str,
    /// Its places.
    pub scope: KeyScope,
    /// The type, unit and range of its value.
    pub kind: ValueKind,
    /// The default, in the notation of a flag; `None` without one.
    pub default: Option<&'static str>,
    /// Its effect, for the manual.
    pub help: &'static str,
    /// A value in the notation of a file.
    pub example: &'static str,
    /// When a changed value takes effect.
    pub takes: Takes,
}

/// When a changed value of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// At the next reload.
    AtReload,
    /// At the next start; a reload that changes it keeps the old value, and takes over the rest.
    AtStart,
}

/// The prefix of every route key under `cache`.
pub const ROUTE_CACHE: &str = "site[].route[].cache.";

/// The prefix of the keys of a route.
pub const ROUTE: &str = "site[].route[].";
/// The prefix of the keys of a site.
pub const SITE: &str = "site[].";

/// The row of a pattern such as `cache.ram.size` or `site[].route[].cache.default_ttl`.
#[must_use]
pub fn find(pattern: &str) -> Option<&'static Key> {
    let of_route = pattern.strip_prefix(ROUTE_CACHE);
    TABLE.iter().find(|it| {
        let of_every = it.path.strip_prefix("cache.").filter(|_| it.scope == KeyScope::EveryRoute);
        it.path == pattern
            || of_route.is_some_and(|rest| of_every == Some(rest))
            || it.path_of_site().is_some_and(|it| it == pattern)
    })
}

impl Key {
    /// Its path as the default of the routes of a site, for a row of [`KeyScope::SiteAndRoute`].
    #[must_use]
    pub fn path_of_site(&self) -> Option<String> {
        let rest = self.path.strip_prefix(ROUTE).filter(|_| self.scope == KeyScope::SiteAndRoute)?;
        Some(format!("{SITE}{rest}"))
    }
}

/// Whether `pattern` is a section: the beginning of some key's path.
#[must_use]
pub fn is_section(pattern: &str) -> bool {
    patterns().any(|it| {
        it.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('.') || rest.starts_with("[]."))
    })
}

/// Every pattern of a key, including the per-route ones.
pub fn patterns() -> impl Iterator<Item = String> {
    let routes = TABLE.iter().filter(|it| it.scope == KeyScope::EveryRoute);
    let routes =
        routes.filter_map(|it| it.path.strip_prefix("cache.").map(|rest| format!("{ROUTE_CACHE}{rest}")));
    let sites = TABLE.iter().filter_map(Key::path_of_site);
    TABLE.iter().map(|it| it.path.to_owned()).chain(routes).chain(sites)
}

const fn once(
    path: &'static str,
    kind: ValueKind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: KeyScope::Once, kind, default, help, example, takes: Takes::AtReload }
}

/// The row of a key that requires a restart.
const fn start(
    path: &'static str,
    kind: ValueKind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: KeyScope::Once, kind, default, help, example, takes: Takes::AtStart }
}

const fn each(
    path: &'static str,
    kind: ValueKind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: KeyScope::EveryRoute, kind, default, help, example, takes: Takes::AtReload }
}

/// The row of a key of a route that its site may set for all its routes.
const fn both(
    path: &'static str,
    kind: ValueKind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: KeyScope::SiteAndRoute, kind, default, help, example, takes: Takes::AtReload }
}

/// Text, and formats without compression of their own. Pictures, sound, video, archives, WOFF and unknown types are not
/// compressed.
const COMPRESSIBLE: &str = "text/*,application/json,application/javascript,application/x-javascript,application/xml,\
    application/wasm,application/vnd.ms-fontobject,application/x-font-ttf,font/ttf,font/otf,font/collection,image/bmp,\
    image/x-icon,image/vnd.microsoft.icon,+json,+xml";

/// The response fields of tags: of Fastly, Cloudflare, Drupal (three), Symfony, Magento and Varnish.
const TAG_FIELDS: &str =
    "Surrogate-Key,Cache-Tag,Cache-Tags,Purge-Cache-Tags,X-Cache-Tags,X-Magento-Tags,xkey";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const LONGEST: u64 = LONGEST_LIFETIME as u64;

const fn size(least: u64, most: u64) -> ValueKind {
    ValueKind::Size { least, most }
}
const fn time(least: u64, most: u64) -> ValueKind {
    ValueKind::Time { least, most }
}
const fn integer(least: u64, most: u64) -> ValueKind {
    ValueKind::Integer { least, most }
}
const fn seconds(most: u64) -> ValueKind {
    ValueKind::Seconds { most }
}
/// The largest relative expiry of memcached: a larger number is interpreted as a date.
const MEMCACHED_LONGEST: u64 = 30 * 86_400;
const LEVEL: ValueKind = ValueKind::OneOf(&["debug", "info", "warn", "error", "off"]);
const LIFETIME: ValueKind = ValueKind::Seconds { most: LONGEST };
const LIFETIME_OR_OFF: ValueKind = ValueKind::SecondsOrOff { most: LONGEST };

/// The table, in the order of the manual.
#[rustfmt::skip]
pub const TABLE: &[Key] = &[
    once("listen", ValueKind::List(TextForm::Listen), Some("127.0.0.1:8080"),
        "Addresses for clients: `http://ADDR:PORT` or `ADDR:PORT` (port 0 takes a free port), `https://ADDR:PORT` for TLS, or `unix:PATH`. A relative path starts at the working directory of the process. `http+proxy://ADDR:PORT`, `https+proxy://ADDR:PORT` and `unix+proxy:PATH` require a PROXY protocol header, version 1 or 2, before any other byte. The client address is then taken from that header. All other addresses read no such header.", r#"["0.0.0.0:8080", "unix:/run/larder.sock"]"#),
    start("workers", integer(1, 1024), None,
        "Worker threads. Default: one per core.", "4"),

    once("include", ValueKind::List(TextForm::Path), None,
        "Further files of the configuration, relative to the directory of the file that names them: paths, and patterns with `*` and `?`, whose matches are read in the order of their names. Their `[[site]]` sections and other keys are added; a key that two files set is an error. A pattern without a match is allowed, a missing path is an error. Relative paths in an included file start at its own directory.", r#"["conf.d/*.toml"]"#),

    once("clients.trusted", ValueKind::List(TextForm::Peer), None,
        "Reverse proxies in front of larder whose `clients.header` field is trusted. The client address is the rightmost address in it that is not one of these. `\"unix\"` means every connection to a Unix socket.", r#"["10.0.0.0/8"]"#),
    once("clients.header", ValueKind::OneOf(&["X-Forwarded-For", "Forwarded"]), Some("X-Forwarded-For"),
        "The header field from which the client address is read. Every proxy of `clients.trusted` must overwrite or extend it, for any value from its own client.", r#""Forwarded""#),
    once("clients.proxies", ValueKind::List(TextForm::Peer), None,
        "Networks that may connect to the addresses of `listen` that require a PROXY protocol header. Other connections are closed at once. Default: every network. `\"unix\"` means every connection to a Unix socket.", r#"["10.0.0.0/8", "unix"]"#),
    once("tls.certificates[].cert", ValueKind::One(TextForm::Path), None,
        "The certificate and its chain, PEM. It is sent to clients that request one of its names by SNI (`*` matches one label). The first certificate also serves clients without SNI or with an unknown name. A changed file is reloaded while larder runs.", r#""chain.pem""#),
    once("tls.certificates[].key", ValueKind::One(TextForm::Path), None,
        "The private key of the certificate, PEM without a passphrase: PKCS#8, PKCS#1 or SEC1; RSA, P-256, P-384 or Ed25519.", r#""key.pem""#),
    once("tls.certificates[].ocsp", ValueKind::One(TextForm::Path), None,
        "The OCSP response for the certificate, DER, stapled for clients that request it. larder does not fetch it: an external job replaces the file.", r#""ocsp.der""#),
    once("tls.min_version", ValueKind::OneOf(&["1.2", "1.3"]), Some("1.2"),
        "The lowest TLS version that larder accepts. The highest is 1.3.", r#""1.3""#),
    once("tls.client_auth", ValueKind::OneOf(&["off", "optional", "required"]), Some("off"),
        "Whether clients must present a certificate. `required` rejects connections without one. `optional` accepts them. Both reject an invalid certificate.", r#""required""#),
    once("tls.client_ca", ValueKind::One(TextForm::Path), None,
        "The CA certificates that sign client certificates, PEM.", r#""clients.pem""#),
    once("tls.self_signed", ValueKind::Bool, Some("false"),
        "Generate a self-signed certificate in memory, for trials: clients do not trust it by default. Addresses of `listen` without a scheme, the default one included, then speak TLS. `http://ADDR:PORT` stays clear text.", "true"),

    once("limits.head_size", size(KIB, MIB), Some("16KiB"),
        "Maximum size of a request head. A larger head, or more than 128 fields, is rejected with 431.", r#""32KiB""#),
    once("limits.target_size", size(256, MIB), Some("8KiB"),
        "Maximum size of a request target (path and query). A longer one is rejected with 414.", r#""4KiB""#),
    once("limits.body_size", size(0, TIB), Some("64MiB"),
        "Maximum size of a request body. A larger one is rejected with 413.", r#""1GiB""#),
    once("limits.head_timeout", time(100, HOUR), Some("10s"),
        "Timeout for a complete request head, from its first byte or from the accept of the connection.", r#""5s""#),
    once("limits.body_timeout", time(100, HOUR), Some("30s"),
        "Timeout between two reads of a request body.", r#""1m""#),
    once("limits.idle_timeout", time(100, DAY), Some("60s"),
        "Keep-alive timeout: how long a client connection may be idle between two requests.", r#""15s""#),
    once("limits.write_timeout", time(100, HOUR), Some("30s"),
        "Timeout for a client that reads no byte of its response. Up to four times as long for a client that accepted 1 MiB at once.", r#""1m""#),
    once("limits.min_rate", size(0, MIB), Some("128B"),
        "Minimum transfer rate of a client in bytes per second, in both directions, averaged over 10 s or between two pauses. 0 disables the check.", r#""1KiB""#),
    once("limits.connections", integer(1, 10_000_000), Some("50000"),
        "Maximum number of open client connections, all workers together. At the limit, connections idle for more than 1 s are closed on any worker. Without an idle connection, new connections are closed.", "20000"),
    once("limits.http2_streams", integer(1, 65_535), Some("128"),
        "Maximum concurrent streams per HTTP/2 connection. More are refused with REFUSED_STREAM, and the client may retry. Reset streams do not count. At four times the limit, reset streams still in work included, only RAM hits are served.", "256"),
    start("limits.fills", integer(1, 1_000_000), Some("4096"),
        "Maximum number of concurrent fetches that several requests may share. Above it, each request fetches for itself.", "1024"),
    once("limits.upgrade_idle", time(100, 7 * DAY), Some("10m"),
        "Idle timeout of an upgraded connection (`site.route.upgrade`), in both directions.", r#""1h""#),
    once("limits.drain_timeout", time(0, HOUR), Some("10s"),
        "How long a stop waits for requests in progress.", r#""30s""#),

    start("cache.ram.size", size(MIB, 64 * TIB), Some("256MiB"),
        "Size of the RAM tier: bodies, heads, index and fills in flight.", r#""1GiB""#),
    once("cache.ram.idle", ValueKind::TimeOrOff { least: 10 * SECOND, most: 365 * DAY }, Some("off"),
        "Evict entries from RAM that no request used for this time, even without memory pressure. The memory returns to the operating system.", r#""10m""#),
    start("cache.ram.heap_line", size(0, MIB), Some("16KiB"),
        "Bodies above this size are stored in the arena and sent with `sendfile`. Smaller ones are stored on the heap.", r#""16KiB""#),

    start("cache.spool.size", ValueKind::SizeOrOff { least: MIB, most: 64 * TIB }, Some("1GiB"),
        "Maximum size of the spool: unnamed files that buffer a shared body, too large to store, for clients slower than the others. Without room, or with `off`, a slow client falls behind and its rest is fetched separately or cut.", r#""4GiB""#),
    start("cache.spool.directory", ValueKind::One(TextForm::Path), None,
        "Directory of the spool files; do not use a tmpfs. Default: `$TMPDIR`, otherwise /var/tmp. If no file can be created there, the spool is off and the error log gives the reason.", r#""/var/lib/larder""#),

    start("cache.compress.workers", integer(0, 64), Some("1"),
        "Threads that compress stored responses. 0 disables compression.", "2"),
    start("cache.compress.queue", integer(1, 100_000), Some("256"),
        "Maximum number of queued compressions. Above it a compression is skipped, and a later hit queues it again.", "1000"),
    start("cache.compress.gzip_level", integer(1, 9), Some("6"),
        "Compression level of gzip.", "9"),
    start("cache.compress.br_level", integer(0, 11), Some("5"),
        "Compression level of brotli. Each level above 9 takes many times as long as the one before.", "9"),
    start("cache.compress.zstd_level", integer(1, 19), Some("9"),
        "Compression level of zstd.", "15"),

    start("cache.disk.path", ValueKind::One(TextForm::Path), None,
        "Directory of the disk tier, created if missing. Without it, there is no disk tier. One process may use a directory at a time.", r#""/var/cache/larder""#),
    start("cache.disk.size", size(16 * MIB, 1024 * TIB), Some("10GiB"),
        "Maximum size of the disk tier. The oldest segment is dropped when it is reached.", r#""50GiB""#),
    start("cache.disk.segment_size", size(MIB, GIB), Some("64MiB"),
        "Size of a segment file. A response larger than a segment is not stored on disk.", r#""32MiB""#),
    start("cache.disk.min_ttl", LIFETIME, Some("10s"),
        "Responses with a shorter lifetime are not written to disk.", r#""1m""#),
    start("cache.disk.promote_after", integer(1, 1000), Some("2"),
        "A large body on disk is copied into RAM at this number of uses.", "3"),
    start("cache.disk.readers", integer(1, 256), Some("4"),
        "Threads that read data that is not in the page cache of the operating system.", "8"),
    start("cache.disk.queue", size(MIB, 64 * GIB), Some("64MiB"),
        "Maximum size of the write queue, and never more than an eighth of `cache.ram.size`. Queued responses stay in RAM. Responses beyond it are not stored on disk.", r#""256MiB""#),
    start("cache.disk.retry", time(100, DAY), Some("10s"),
        "How long the disk tier stays off after an I/O error.", r#""1m""#),

    start("cache.fleet.servers", ValueKind::List(TextForm::Memcached), None,
        "The memcached servers, in the same order on every node and client: `HOST:PORT` or `unix:PATH`, optionally followed by a space and `weight=N`. A relative path starts at the working directory of the process. Without servers, there is no fleet.", r#"["10.0.0.1:11211", "10.0.0.2:11211"]"#),
    start("cache.fleet.protocol", ValueKind::OneOf(&["meta", "binary"]), Some("meta"),
        "The memcached protocol: meta commands (memcached 1.6 or newer) or binary.", r#""binary""#),
    start("cache.fleet.distribution", ValueKind::OneOf(&["ketama", "ketama_weighted", "modula"]), Some("ketama"),
        "How keys are distributed over the servers, compatible with libmemcached. Only `ketama_weighted` uses weights.", r#""modula""#),
    start("cache.fleet.hash", ValueKind::OneOf(&["default", "md5", "crc", "fnv1_32", "fnv1_64", "fnv1a_32", "fnv1a_64", "murmur", "one_at_a_time"]), Some("default"),
        "The hash function for keys, with the names and results of libmemcached.", r#""md5""#),
    start("cache.fleet.namespace", ValueKind::One(TextForm::KeyText), None,
        "Replaces the host in fleet keys. Default: the host. With it, all hosts share fleet entries, and a purge by URL or prefix covers all hosts.", r#""shop""#),
    start("cache.fleet.key_prefix", ValueKind::One(TextForm::KeyText), None,
        "Prefix of every key that larder writes.", r#""larder:""#),
    start("cache.fleet.md5_keys", ValueKind::Bool, Some("false"),
        "Hash every key: the prefix, followed by the MD5 of the rest. By default only keys that memcached rejects are hashed.", "true"),
    start("cache.fleet.expire", seconds(MEMCACHED_LONGEST), Some("1d"),
        "Maximum expiry of an item, which is otherwise its lifetime plus `stale_grace`. 0 leaves eviction to the server for up to 30 days, beyond that lifetime.", r#""6h""#),
    start("cache.fleet.put", ValueKind::Bool, Some("true"),
        "Write responses of the origin to the fleet. With `false`, the fleet is read only. If applications write (`filled_by`), larder never writes.", "false"),
    start("cache.fleet.no_block", ValueKind::Bool, Some("true"),
        "Write to the fleet in the background. With `false`, the last byte of a response waits for the write, at most `timeout`.", "false"),
    start("cache.fleet.timeout", time(1, MINUTE), Some("50ms"),
        "Timeout of one memcached operation. The operation then counts as a failure of the server.", r#""20ms""#),
    start("cache.fleet.connect_timeout", time(1, MINUTE), Some("250ms"),
        "Timeout for a connection to a server.", r#""100ms""#),
    start("cache.fleet.hedge", ValueKind::TimeOrOff { least: 1, most: MINUTE }, Some("off"),
        "Hedge slow reads: after this time the read is repeated on another connection, and the first answer is used.", r#""10ms""#),
    start("cache.fleet.auto_eject", ValueKind::Bool, Some("true"),
        "Eject a server that failed `failures` times in a row until `retry` has passed, and move its keys to the other servers. With `false`, its keys are misses for that time.", "false"),
    start("cache.fleet.failures", integer(1, 1000), Some("3"),
        "Consecutive failures after which a server is ejected.", "5"),
    start("cache.fleet.retry", time(100, DAY), Some("5s"),
        "Time after which an ejected server is tried again.", r#""30s""#),
    start("cache.fleet.max_item", size(KIB, GIB), Some("1MiB"),
        "Maximum item size of the servers (their `-I` option).", r#""8MiB""#),
    start("cache.fleet.large", ValueKind::OneOf(&["split", "skip"]), Some("split"),
        "Responses larger than `max_item` are split over several items, or not stored in the fleet.", r#""skip""#),
    start("cache.fleet.compress_above", ValueKind::SizeOrOff { least: 64, most: GIB }, Some("off"),
        "Bodies of at least this size are compressed before they are written to the servers.", r#""4KiB""#),
    start("cache.fleet.local_ttl", LIFETIME, Some("5s"),
        "How long a copy in RAM is used before the fleet is checked for a newer one. If applications write to the fleet, also the maximum time that an unstorable response is remembered.", r#""2s""#),
    start("cache.fleet.filled_by", ValueKind::OneOf(&["larder", "applications", "older"]), Some("larder"),
        "Writers of the fleet besides larder: none, applications that use larder's envelope, or applications that use the older form (content type, NUL, body).", r#""applications""#),
    start("cache.fleet.recompute_once", ValueKind::Bool, Some("true"),
        "One node fetches a missing or stale key from the origin; the other nodes wait for it, each at most `cache.collapse_wait` (`meta` only).", "false"),
    start("cache.fleet.stale_grace", LIFETIME, Some("60s"),
        "How long a replaced or removed item may be served stale while one node fetches it from the origin.", r#""10s""#),
    start("cache.fleet.connections", integer(1, 64), Some("2"),
        "Connections of each worker to each server.", "4"),
    start("cache.fleet.queue", size(64 * KIB, GIB), Some("16MiB"),
        "Maximum size of the write queue, per server and worker. Responses beyond it are not stored in the fleet.", r#""64MiB""#),
    start("cache.fleet.purge_log", ValueKind::Bool, Some("true"),
        "Write purges to a log in the servers that every node follows.", "false"),
    start("cache.fleet.poll", time(10, MINUTE), Some("100ms"),
        "Interval at which a node reads the purge log.", r#""50ms""#),
    start("cache.fleet.lease", time(100, MINUTE), Some("2s"),
        "How long a node trusts its entries without having read the purge log. After that, every entry is validated with the origin.", r#""5s""#),

    each("cache.enabled", ValueKind::Bool, Some("true"),
        "Use the cache.", "false"),
    each("cache.preset", ValueKind::OneOf(&presets::NAMES), None,
        "Default values of the keys below for a well-known application. A key that is set for the route or for all routes overrides the preset.", r#""wordpress""#),
    each("cache.default_ttl", LIFETIME_OR_OFF, Some("off"),
        "Lifetime of storable responses that declare none. Replaces the heuristic.", r#""60s""#),
    each("cache.override_ttl", LIFETIME_OR_OFF, Some("off"),
        "Lifetime of every storable response, for any lifetime that the origin declares. `no-store`, `private` and `Set-Cookie` still prevent storing.", r#""5m""#),
    each("cache.max_ttl", LIFETIME, Some("365d"),
        "Upper limit of every lifetime.", r#""7d""#),
    each("cache.status_ttl", ValueKind::StatusTtls { most: LONGEST }, None,
        "Lifetimes by status for responses that declare none (negative caching).", r#"{ 404 = "10s", 410 = "1h" }"#),
    each("cache.heuristic_percent", integer(0, 100), Some("10"),
        "Heuristic lifetime, in percent of the time since `Last-Modified` (RFC 9111 section 4.2.2), for requests without credentials: `Authorization`, or a cookie that is neither in the key nor removed by `cache.private_cookies`. 0 disables it.", "0"),
    each("cache.heuristic_max", LIFETIME, Some("1d"),
        "Maximum heuristic lifetime.", r#""1h""#),
    each("cache.stale_while_revalidate", LIFETIME, Some("0s"),
        "How long a stale response is served while it is validated in the background, unless the response declares it itself (RFC 5861 section 3).", r#""30s""#),
    each("cache.stale_if_error", LIFETIME, Some("1d"),
        "How long a stale response is served if the origin disconnects or answers 5xx, unless the response declares it itself (RFC 5861 section 4). The default does not apply to responses whose lifetime is zero.", r#""1h""#),
    each("cache.request_directives", ValueKind::OneOf(&["obey", "harmless", "ignore"]), Some("obey"),
        "Which Cache-Control directives of requests are obeyed: all, only those that cause no load on the origin (`only-if-cached`, `max-stale`), or none.", r#""harmless""#),
    each("cache.targets", ValueKind::List(TextForm::FieldName), Some("CDN-Cache-Control"),
        "Targeted Cache-Control fields to obey, most specific first (RFC 9213 section 2.2).", r#"["Larder-Cache-Control", "CDN-Cache-Control"]"#),
    each("cache.store_set_cookie", ValueKind::Bool, Some("false"),
        "Store responses with `Set-Cookie`, without that field.", "true"),
    each("cache.private_cookies", ValueKind::List(TextForm::CookieGlob), None,
        "A request with one of these cookies bypasses the cache, unless its path names a file (`.css`, `.png` …), whose response is shared only if it says so. All other cookies are then ignored for the key and for `Vary: Cookie`, and are not sent to the origin. `*` matches any text.", r#"["session*", "wordpress_logged_in_*"]"#),
    each("cache.key.query", ValueKind::OneOf(&["all", "none"]), Some("all"),
        "Include the query in the cache key.", r#""none""#),
    each("cache.key.drop", ValueKind::List(TextForm::ParameterGlob), None,
        "Query parameters that are removed from the cache key and from requests to the origin. A `*` at the end matches any suffix.", r#"["utm_*", "fbclid"]"#),
    each("cache.key.keep", ValueKind::List(TextForm::ParameterGlob), None,
        "The only query parameters in the cache key. A `*` at the end matches any suffix.", r#"["page", "q"]"#),
    each("cache.key.sort", ValueKind::Bool, Some("false"),
        "Sort query parameters by name in the cache key and in requests to the origin.", "true"),
    each("cache.key.headers", ValueKind::List(TextForm::FieldName), None,
        "Request header fields whose values are part of the cache key. Fields such as `X-Forwarded-Proto` are then trusted and forwarded.", r#"["X-Country"]"#),
    each("cache.key.cookies", ValueKind::List(TextForm::CookieName), None,
        "Cookies whose values are part of the cache key.", r#"["currency"]"#),
    each("cache.key.ignore_host", ValueKind::Bool, Some("false"),
        "All hosts of the site share one cache. Keys contain `*` and the first host of the site.", "true"),
    each("cache.key.strict", ValueKind::Bool, Some("false"),
        "Send only what is in the cache key to the origin: no client header field except those of `cache.key.headers`, and no client address. `User-Agent`, `Accept-Language` and `Referer` are removed. Any other field (`Authorization`, `Origin`, a `Cookie` without `cache.private_cookies`) makes the request bypass the cache.", "true"),
    each("cache.max_variants", integer(1, 1000), Some("32"),
        "Maximum number of variants (by `Vary`) per cache key.", "8"),
    each("cache.max_object", size(0, TIB), Some("64MiB"),
        "Maximum size of a stored body.", r#""8MiB""#),
    each("cache.hit_for_miss", LIFETIME, Some("10s"),
        "How long larder remembers that responses of a key cannot be shared. Requests for such a key do not wait for each other (hit-for-miss).", r#""1m""#),
    each("cache.collapse_wait", time(0, HOUR), Some("10s"),
        "How long a request waits for the response head of another request's fetch of the same key. One of the waiting requests then begins a second fetch for all of them.", r#""2s""#),
    each("cache.on_abort", ValueKind::OneOf(&["finish", "cancel"]), Some("finish"),
        "After the last client of a fetch has closed its connection, the fetch is finished and stored, or cancelled.", r#""cancel""#),
    each("cache.get_bodies", ValueKind::OneOf(&["drop", "pass"]), Some("drop"),
        "Body of a GET or HEAD request: dropped, or forwarded to the origin, as Elasticsearch needs it. The request bypasses the cache in both cases.", r#""pass""#),
    each("cache.compress.enabled", ValueKind::Bool, Some("false"),
        "Store compressed encodings of responses and send each client the encoding that it prefers. Requests to the origin carry a normalised `Accept-Encoding`. Compressed responses are decoded for clients that do not accept the coding.", "true"),
    each("cache.compress.codings", ValueKind::List(TextForm::Coding), Some("zstd,br,gzip"),
        "The content codings to produce. The first one wins if a client prefers several equally.", r#"["br", "gzip"]"#),
    each("cache.compress.min_size", size(1, GIB), Some("1KiB"),
        "Minimum size of a body that is compressed.", r#""256B""#),
    each("cache.compress.max_size", size(KIB, GIB), Some("8MiB"),
        "Maximum size of a body that is compressed, or stored decoded.", r#""1MiB""#),
    each("cache.compress.types", ValueKind::List(TextForm::MediaType), Some(COMPRESSIBLE),
        "The media types that are compressed: exact, `text/*` for all subtypes, or `+xml` for all types with that suffix.", r#"["text/*", "application/json", "+xml"]"#),
    each("cache.cache_status", ValueKind::Bool, Some("true"),
        "Send `Cache-Status` (RFC 9211) with every response from the cache or the origin, and with the 502, 503 and 504 of larder in their place. Files, and errors before the cache lookup (400, 404, 405, 508 and similar), do not carry it.", "false"),
    each("cache.x_cache", ValueKind::Bool, Some("false"),
        "Also send the older `X-Cache: HIT` or `X-Cache: MISS`.", "true"),

    each("cache.tiers", ValueKind::List(TextForm::Tier), Some("ram,disk,fleet"),
        "The tiers that the route uses, among the configured ones.", r#"["ram", "disk"]"#),
    each("cache.tags.headers", ValueKind::List(TextForm::FieldName), Some(TAG_FIELDS),
        "Response fields that carry purge tags, separated by spaces and commas. The default has those of Fastly, Cloudflare, Drupal, Symfony, Magento and Varnish. `Cache-Groups` (RFC 9875) is always read as well.", r#"["Surrogate-Key"]"#),
    each("cache.tags.send", ValueKind::Bool, Some("false"),
        "Send these tag fields to clients. By default they are removed (`Cache-Groups` is always sent).", "true"),
    each("cache.purge.method", ValueKind::Bool, None,
        "Whether a `PURGE` request purges the URL, or the tags or the pattern of its fields; `BAN`, `FULLBAN`, `PURGEKEYS` and `PURGETAGS` of other caches' plugins likewise. With `false`, they are rejected with 405. Default: they are unknown methods and are forwarded to the origin.", "true"),
    each("cache.purge.from", ValueKind::List(TextForm::Network), Some("127.0.0.1/32,::1/128"),
        "Networks whose clients may send `PURGE`. Other clients receive 403. Clients of a Unix socket may always purge.", r#"["127.0.0.1/32", "10.0.0.0/8"]"#),

    start("admin.enabled", ValueKind::Bool, Some("true"),
        "Open the admin listener and the admin socket.", "false"),
    start("admin.listen", ValueKind::One(TextForm::SocketAddress), Some("127.0.0.1:9180"),
        "Address of the admin listener. By default this port or the next free one, printed at the start.", r#""127.0.0.1:9180""#),
    start("admin.socket", ValueKind::One(TextForm::Path), None,
        "Unix socket of the admin, for the user that runs larder only (mode 0600). Default: none.", r#""/run/larder/admin.sock""#),
    start("admin.token_file", ValueKind::One(TextForm::Path), None,
        "File of the admin token (mode 0600), created at the first start. Default: `larder/admin-token` in `$XDG_STATE_HOME` or `~/.local/state`; for root, in /var/lib. The environment variable `LARDER_ADMIN_TOKEN` overrides it.", r#""/etc/larder/admin-token""#),
    once("admin.audit", ValueKind::One(TextForm::Path), None,
        "File of the audit log: every change through the admin and every rejected request. The error log contains the same events.", r#""/var/log/larder/audit.log""#),
    once("admin.hosts", ValueKind::List(TextForm::HostName), None,
        "Host names of a TLS proxy in front of the admin. Requests with a name other than these and the admin's own address are rejected.", r#"["ops.example.com"]"#),
    once("admin.overlay_size", size(0, 64 * GIB), Some("16MiB"),
        "Maximum size of all overlays together (pages that replace a URL). It is part of `cache.ram.size` and limited to a quarter of it.", r#""64MiB""#),
    once("admin.statistics", ValueKind::Bool, Some("true"),
        "Collect counters and latencies by site, route and origin. The totals under `counters` are always collected.", "false"),

    once("log.access", ValueKind::One(TextForm::LogTarget), Some("off"),
        "Access log: a file, `-` for standard output, `syslog` for the system log (its socket /dev/log; `syslog:PATH` for another), or `off`. A site may have its own (`site.access_log`).", r#""/var/log/larder/access.log""#),
    once("log.format", ValueKind::One(TextForm::LogFormat), Some("combined"),
        "Format of an access-log line; docs/generated/log.md lists the fields.", r#""json""#),
    once("log.error", ValueKind::One(TextForm::LogTarget), Some("-"),
        "Error log: a file, `-` for standard error, or `off`.", r#""/var/log/larder/error.log""#),

    once("log.levels.server", LEVEL, Some("info"),
        "Minimum level of error-log events about start, stop, reload and limits.", r#""warn""#),
    once("log.levels.purge", LEVEL, Some("info"),
        "Minimum level of error-log events about purges.", r#""debug""#),
    once("log.levels.disk", LEVEL, Some("info"),
        "Minimum level of error-log events about the disk tier.", r#""debug""#),
    once("log.levels.fleet", LEVEL, Some("info"),
        "Minimum level of error-log events about the memcached fleet.", r#""debug""#),
    once("log.levels.nodes", LEVEL, Some("info"),
        "Minimum level of error-log events about the purge log that nodes share.", r#""debug""#),
    once("log.levels.origin", LEVEL, Some("info"),
        "Minimum level of error-log events about origins.", r#""debug""#),
    once("log.levels.log", LEVEL, Some("info"),
        "Minimum level of error-log events about the logs themselves.", r#""error""#),
    once("log.levels.audit", LEVEL, Some("info"),
        "Minimum level of audit events in the error log: changes through the admin (`info`) and rejected requests (`warn`). The file of `admin.audit` always has both.", r#""warn""#),

    start("telemetry.otlp", ValueKind::One(TextForm::Origin), None,
        "OpenTelemetry collector that receives traces by OTLP over HTTP, at `/v1/traces`. Without it, no traces are exported.", r#""http://127.0.0.1:4318""#),
    start("telemetry.sample", integer(0, u32::MAX as u64), Some("100"),
        "Export a span for one of this many requests, per worker. 0 exports none by sampling.", "10"),
    start("telemetry.follow", ValueKind::Bool, Some("false"),
        "Also export a span for each request whose `traceparent` is marked as sampled. Enable it only behind trusted clients: each of them can have every request of its own measured and exported.", "true"),

    once("site[].hosts", ValueKind::List(TextForm::Host), None,
        "Host names of the site: exact, `*.example.com` for any subdomain, or `*` for every other host.", r#"["www.example.com", "*.example.org"]"#),
    once("site[].canonical_host", ValueKind::One(TextForm::HostName), None,
        "Redirect requests for the other hosts of the site to this host, with 308 and the same path and query.", r#""example.com""#),
    once("site[].redirect_https", ValueKind::Bool, Some("false"),
        "Redirect requests without TLS to `https`, with 308. A request that a proxy of `clients.trusted` received over TLS (`X-Forwarded-Proto: https`) is not redirected. The port is dropped if the client named none; otherwise it is that of the first `https://` address of `listen`.", "true"),
    once("site[].redirect_map", ValueKind::One(TextForm::Path), None,
        "File of redirects, one in each line: path, target, and optionally the status (default 301), separated by spaces; `#` begins a comment. A request for one of the paths is redirected, with its query unless the target has one. All other requests go to the routes. The file is read at start and reload.", r#""redirects.map""#),
    once("site[].access_log", ValueKind::One(TextForm::LogTarget), None,
        "Access log of the site: a file, `-` for standard output, `syslog` for the system log (its socket /dev/log; `syslog:PATH` for another), or `off`. Default: `log.access`.", r#""/var/log/larder/shop.log""#),
    once("site[].log_format", ValueKind::One(TextForm::LogFormat), None,
        "Format of the access-log lines of the site. Default: `log.format`.", r#""json""#),
    once("site[].log_when", ValueKind::One(TextForm::FinishedCondition), None,
        "Log only requests for which this condition holds; the language is that of `larder tail`.", r#""status >= 400""#),
    once("site[].log_skip", ValueKind::One(TextForm::FinishedCondition), None,
        "Log no requests for which this condition holds.", r#""path == \"/health\"""#),
    both("site[].route[].use", ValueKind::List(TextForm::BlockName), None,
        "Blocks whose keys the route has, or every route of the site. `[block.NAME]` may have every key of a route. A key of the route overrides its blocks, a later block an earlier one, the blocks of the route those of its site, and a key of the site the blocks of the site.", r#"["shared"]"#),

    once("site[].route[].path", ValueKind::One(TextForm::PathPattern), Some("/*"),
        "Paths of the route: one path, or a pattern. `*` stands for any text (`/static/*`, `*.php`), `{id}` for a part of one segment (`/shop/{id}`), `{rest...}` at the end for all that follows; after `regex:`, a regular expression for the whole path. Patterns are compared with the normal form of a path, percent-decoded once. Routes are tried in file order; the first match wins. `/app` is redirected to `/app/` if only `/app/*` matches.", r#""/static/*""#),
    once("site[].route[].name", ValueKind::One(TextForm::RouteName), None,
        "Name of the route in logs, statistics and filters (`route == \"api\"`), unique in the file. Default: the first host of the site and the path of the route.", r#""api""#),
    once("site[].route[].methods", ValueKind::List(TextForm::Method), None,
        "Methods of the route; `GET` includes `HEAD`. Default: all. A request for a path whose routes have other methods only gets 405.", r#"["GET", "POST"]"#),
    once("site[].route[].when", ValueKind::One(TextForm::Condition), None,
        "Condition for requests of the route, over `method`, `scheme`, `host`, `path`, `query`, `url`, `listener`, `client`, `header.NAME`, `cookie.NAME` and `query.NAME`. Other requests are tried with the next route. Routes with different conditions do not share stored responses.", r#"'method in ["GET", "POST"] && header.Accept ~ "json"'"#),
    both("site[].route[].listeners", ValueKind::List(TextForm::Listen), None,
        "Listeners of the route, of those in `listen`. Requests on other listeners are tried with the next route. Default: all.", r#"["127.0.0.1:8080"]"#),
    both("site[].route[].csp", ValueKind::One(TextForm::FieldValue), None,
        "`Content-Security-Policy` of every response; replaces that of the origin.", r#""default-src 'self'""#),
    both("site[].route[].client_ttl", LIFETIME_OR_OFF, Some("off"),
        "Lifetime of responses in browsers, apart from their lifetime in the cache: replaces `Cache-Control`, `Expires` and `Age` of responses that permit their reuse. `no-store`, `no-cache`, `private` and responses that set a cookie stay as they are. A response that no field marks as shareable becomes `private`. `0s` requires validation.", r#""5m""#),
    both("site[].route[].error_pages", ValueKind::Pairs { name: TextForm::ErrorStatus, value: TextForm::Path, example: r#"{ 404 = "errors/404.html", 5xx = "errors/sorry.html" }"# }, None,
        "Files of error pages, by status or class of statuses, relative to the directory of the configuration file; 1 MiB at most each. They replace larder's own error pages. A page of a route replaces that of its site.", r#"{ 404 = "404.html", 5xx = "sorry.html" }"#),
    both("site[].route[].intercept_errors", ValueKind::Bool, Some("false"),
        "Replace errors of the origin by `error_pages`, too.", "true"),

    once("site[].route[].trace", integer(0, u32::MAX as u64), Some("0"),
        "Trace one of this many requests: measure its stages and keep them (`larder trace`, `GET /api/v1/traces`). 0 disables tracing. The rate can be changed while larder runs.", "100"),
    once("site[].route[].forwarded", ValueKind::OneOf(&["x-forwarded", "forwarded", "both", "off"]), Some("x-forwarded"),
        "Fields that tell the origin the client address, scheme and host: `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded` (RFC 7239). The same fields of clients are removed.", r#""both""#),
    once("site[].route[].client_cert", ValueKind::Bool, Some("false"),
        "Send the client certificate (`tls.client_auth`) to the origin in `Client-Cert` (RFC 9440). The same field of clients is then removed. Requests with a certificate bypass the cache unless `cache.key.headers` contains \"Client-Cert\".", "true"),
    once("site[].route[].upgrade", ValueKind::List(TextForm::FieldName), Some("websocket"),
        "Protocols, without version, that a client may upgrade to if the origin agrees. An empty list allows none. Upgrade requests bypass the cache. `h2c` is not allowed here.", r#"["websocket", "SPDY"]"#),
    once("site[].route[].server_timing", ValueKind::Bool, Some("false"),
        "Send `Server-Timing` with every response: the stages finished before its head is sent, in milliseconds.", "true"),
    once("site[].route[].strip", ValueKind::One(TextForm::RewritePrefix), None,
        "Prefix that is removed from the path before the request is sent to the origin. It is removed at a `/` only, and paths without it stay. The cache key, purges and logs keep the client's path. `Location`, `Content-Location`, `Refresh` and the paths of cookies in responses get the prefix back.", r#""/api""#),
    once("site[].route[].add_prefix", ValueKind::One(TextForm::RewritePrefix), None,
        "Prefix that is added to the path for the origin, after `strip`. A base path in `proxy.to` precedes it. It is removed from `Location`, `Content-Location`, `Refresh` and the paths of cookies in responses.", r#""/v2""#),
    once("site[].route[].rewrite", ValueKind::One(TextForm::PathTemplate), None,
        "Path that is sent to the origin in place of the client's, below the base path of `proxy.to`: a text with variables (`{path}`, `{host}`, `{query.NAME}`) and the captures of `path` (`{id}`, `{1}`), which are percent-decoded and encoded again. The client's query is kept unless the text has a `?`. For several rewrites write one route for each, with `path = \"regex:…\"`.", r#""/legacy{path}""#),
    once("site[].route[].query.keep", ValueKind::List(TextForm::ParameterGlob), None,
        "Query parameters that are sent to the origin; all others are removed. A trailing `*` matches any rest. For cached routes prefer `cache.key.keep`, which removes them from the key as well.", r#"["id", "page"]"#),
    once("site[].route[].query.remove", ValueKind::List(TextForm::ParameterGlob), None,
        "Query parameters that are not sent to the origin. A trailing `*` matches any rest. For cached routes prefer `cache.key.drop`, which removes them from the key as well.", r#"["utm_*"]"#),
    once("site[].route[].query.set", ValueKind::Pairs { name: TextForm::ParameterName, value: TextForm::FieldValue, example: r#"{ format = "json" }"# }, None,
        "Query parameters that are sent to the origin in place of the client's of the same name.", r#"{ format = "json" }"#),
    both("site[].route[].request_headers.set", ValueKind::Pairs { name: TextForm::FieldName, value: TextForm::SecretTemplate, example: r#"{ "X-Api-Key" = "file:/run/secrets/api" }"# }, None,
        "Header fields that are sent to the origin in place of the client's, with variables such as `{host}`, `{client}`, `{header.NAME}` and the captures of `path`. A field whose value is empty is not sent. A request whose response may be shared is sent without fields whose variables are not part of the cache key.", r#"{ "X-Forwarded-Prefix" = "/api" }"#),
    both("site[].route[].request_headers.remove", ValueKind::List(TextForm::FieldName), None,
        "Header fields of the client that are not sent to the origin.", r#"["X-Debug"]"#),

    both("site[].route[].access.allow", ValueKind::List(TextForm::AccessAddress), None,
        "Clients that are admitted: networks, addresses, or `unix`. All others get 403. `deny` has precedence. Default: every client.", r#"["10.0.0.0/8"]"#),
    both("site[].route[].access.deny", ValueKind::List(TextForm::AccessAddress), None,
        "Clients that get 403, even if `allow` or their credentials would admit them.", r#"["10.0.0.13", "2001:db8::/32"]"#),
    both("site[].route[].access.allow_when", ValueKind::One(TextForm::AccessCondition), None,
        "A condition that requests must meet. A request that does not meet it gets 403. The language is that of `when`.", r#"'method in ["GET", "HEAD"]'"#),
    both("site[].route[].access.deny_when", ValueKind::One(TextForm::AccessCondition), None,
        "Requests that meet this condition get 403. It has precedence over `allow_when`.", r#"'header["User-Agent"] ~ "(?i)badbot"'"#),
    both("site[].route[].access.satisfy", ValueKind::OneOf(&["all", "any"]), Some("all"),
        "`all`: a client needs an address of `allow` and credentials. `any`: one of them is enough. `deny` refuses in either case.", r#""any""#),
    both("site[].route[].access.basic.realm", ValueKind::One(TextForm::FieldValue), Some("larder"),
        "Name of the protected area, which browsers show when they ask for a password.", r#""staging""#),
    both("site[].route[].access.basic.users", ValueKind::List(TextForm::Secret), None,
        "Users with their password hashes: `NAME:HASH` as `htpasswd -nB NAME` prints it, bcrypt or argon2id. A verified password is remembered for 5 minutes. After 20 wrong passwords a network (/64) gets 429.", r#"["deploy:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe"]"#),
    both("site[].route[].access.basic.file", ValueKind::One(TextForm::Path), None,
        "File of more users, as `htpasswd -B` writes it. A changed file is read within a second. A broken one is logged, and the users read before stay in force.", r#""htpasswd""#),
    both("site[].route[].access.key", ValueKind::OneOf(&["none", "identity"]), Some("none"),
        "`identity`: each admitted user has a cache of their own, as the name of the user is part of the key. By default a route with credentials does not use the cache.", r#""identity""#),
    both("site[].route[].access.shared", ValueKind::Bool, Some("false"),
        "All admitted users get the same responses, from one cache. Set it only if no page depends on the user.", "true"),
    both("site[].route[].access.pass_authorization", ValueKind::Bool, Some("false"),
        "Send the `Authorization` field that admitted the request to the origin as well. By default it is removed.", "true"),
    both("site[].route[].access.limit.rate", ValueKind::One(TextForm::Rate), None,
        "Limit the rate of requests of each client, hits included. Requests above it get 429 with `Retry-After`. The limit of a site counts the requests of all routes that inherit it.", r#""5/s""#),
    both("site[].route[].access.limit.burst", integer(0, 1_000_000), Some("0"),
        "Requests that may exceed the rate at once.", "20"),
    both("site[].route[].access.limit.by", ValueKind::One(TextForm::LimitKey), Some("client"),
        "Requests that are counted together: those of an address (`client`; of a /64 for IPv6), of a /24 or /48 (`network`), of a value of `header:NAME` or `cookie:NAME`, or all of the route (`route`). A request without the field or cookie is counted by its address.", r#""header:X-Api-Key""#),
    both("site[].route[].access.limit.concurrency", integer(1, 65_535), None,
        "Maximum number of requests in progress of each client. Requests above it get 429. A response that is sent at once, from RAM, counts only while it is made.", "10"),
    both("site[].route[].maintenance.enabled", ValueKind::Bool, Some("false"),
        "Answer every request with 503 and `Retry-After`, except for clients of `maintenance.allow`. `larder maintenance` sets this key.", "true"),
    both("site[].route[].maintenance.allow", ValueKind::List(TextForm::Network), None,
        "Networks whose clients are served during the maintenance.", r#"["10.0.0.0/8"]"#),
    both("site[].route[].maintenance.retry_after", time(SECOND, 30 * DAY), Some("10m"),
        "`Retry-After` of the maintenance answer.", r#""1h""#),
    both("site[].route[].maintenance.page", ValueKind::One(TextForm::Path), None,
        "File of the maintenance page, relative to the directory of the configuration file. Default: the error page for 503.", r#""sorry.html""#),
    both("site[].route[].response_headers.set", ValueKind::Pairs { name: TextForm::FieldName, value: TextForm::Template, example: r#"{ "X-Frame-Options" = "DENY" }"# }, None,
        "Response fields to set: existing lines of the same name are removed. Applied when a response is sent, to hits, files and errors alike; never stored. A route adds its fields to those of its site. Values may contain variables such as `{host}` or `{request_id}`; `{{` is a literal brace.", r#"{ "X-Frame-Options" = "DENY" }"#),
    both("site[].route[].response_headers.add", ValueKind::Pairs { name: TextForm::FieldName, value: TextForm::Template, example: r#"{ Link = "</a.css>; rel=preload" }"# }, None,
        "Response fields to add; existing lines of the same name are kept.", r#"{ Link = "</a.css>; rel=preload" }"#),
    both("site[].route[].response_headers.remove", ValueKind::List(TextForm::FieldName), None,
        "Response fields to remove.", r#"["X-Powered-By", "Server"]"#),
    both("site[].route[].response_headers.default", ValueKind::Pairs { name: TextForm::FieldName, value: TextForm::Template, example: r#"{ "Referrer-Policy" = "same-origin" }"# }, None,
        "Response fields to add to responses that lack them.", r#"{ "Referrer-Policy" = "same-origin" }"#),
    both("site[].route[].hsts.max_age", LIFETIME, None,
        "`Strict-Transport-Security`: how long browsers use only TLS for the host (RFC 6797). Sent over TLS only.", r#""365d""#),
    both("site[].route[].hsts.subdomains", ValueKind::Bool, Some("false"),
        "Add `includeSubDomains`.", "true"),
    both("site[].route[].hsts.preload", ValueKind::Bool, Some("false"),
        "Add `preload`, the consent to be listed in browsers.", "true"),
    both("site[].route[].cors.origins", ValueKind::List(TextForm::PageOrigin), None,
        "Origins of web pages whose scripts may read responses: `https://example.com`, `https://*.example.com`, `null`, or `*` for all. larder answers preflight requests itself and replaces the CORS fields of the application.", r#"["https://app.example.com"]"#),
    both("site[].route[].cors.methods", ValueKind::List(TextForm::Method), Some("GET,HEAD,POST"),
        "Methods of preflighted requests.", r#"["GET", "PUT", "DELETE"]"#),
    both("site[].route[].cors.headers", ValueKind::List(TextForm::FieldName), None,
        "Request fields that scripts may send. Default: those that the preflight request names.", r#"["Content-Type", "Authorization"]"#),
    both("site[].route[].cors.expose", ValueKind::List(TextForm::FieldName), None,
        "Response fields that scripts may read, in addition to those that are always readable.", r#"["X-Request-Id"]"#),
    both("site[].route[].cors.credentials", ValueKind::Bool, Some("false"),
        "Permit cookies and credentials in these requests. Not with `origins = [\"*\"]`.", "true"),
    both("site[].route[].cors.max_age", time(0, DAY), Some("10m"),
        "How long a browser keeps the result of a preflight request.", r#""1h""#),

    once("site[].route[].redirect.to", ValueKind::One(TextForm::Template), None,
        "Redirect requests of the route to this URL or path. Variables: `{host}`, `{uri}`, `{path}`, `{query}`, `{scheme}`, and captures of the route's path. The host of the target is constant or `{host}`, so that a client cannot redirect to another site.", r#""https://blog.example.com{uri}""#),
    once("site[].route[].redirect.status", integer(301, 308), Some("302"),
        "Status of the redirect: 301, 302, 303, 307 or 308. 307 and 308 keep the method.", "308"),
    once("site[].route[].respond.status", integer(200, 599), Some("200"),
        "Status of a fixed answer.", "410"),
    once("site[].route[].respond.body", ValueKind::One(TextForm::BodyTemplate), None,
        "Body of a fixed answer; it may contain variables.", r#""gone""#),
    once("site[].route[].respond.file", ValueKind::One(TextForm::Path), None,
        "File whose content is the body of a fixed answer, relative to the directory of the configuration file; 1 MiB at most.", r#""robots.txt""#),
    once("site[].route[].respond.type", ValueKind::One(TextForm::FieldValue), None,
        "`Content-Type` of a fixed answer. Default: that of the file name, otherwise text.", r#""application/json""#),
    once("site[].route[].respond.health", ValueKind::OneOf(&["live", "ready"]), None,
        "Answer for health checks of a load balancer: `live` is always 200; `ready` is 503 while larder drains its connections.", r#""ready""#),

    once("site[].route[].cache.rule[].when", ValueKind::One(TextForm::ResponseCondition), None,
        "The responses of a rule: a condition over `status`, `type` (the media type), `size` (`Content-Length`), `header[\"name\"]`, `scheme`, `host`, `path`, `query` and `target`. The first rule of the route whose condition holds decides.", r#"'status == 404 && type == "text/html"'"#),
    once("site[].route[].cache.rule[].ttl", LIFETIME, None,
        "Their lifetime, for any lifetime that the origin declares. It applies to statuses that are not cacheable by default only if the condition reads `status`. `no-store`, `private` and `Set-Cookie` still prevent storing.", r#""10s""#),
    once("site[].route[].cache.rule[].pass", ValueKind::Bool, Some("false"),
        "Do not store them.", "true"),
    once("site[].route[].cache.rule[].stale_while_revalidate", LIFETIME, None,
        "As `cache.stale_while_revalidate`.", r#""30s""#),
    once("site[].route[].cache.rule[].stale_if_error", LIFETIME, None,
        "As `cache.stale_if_error`.", r#""1h""#),

    once("site[].route[].proxy.to", ValueKind::List(TextForm::Member), None,
        "The origins: `http://HOST:PORT`, `https://HOST:PORT`, `h2c://HOST:PORT` (HTTP/2 in clear text), `unix:PATH` or `h2c+unix:PATH`. A relative path starts at the working directory of the process. Each may be followed by `weight=N` (default 1). An origin with `drain` receives no new requests.", r#"["http://10.0.0.1:8000", "http://10.0.0.2:8000 weight=3"]"#),
    once("site[].route[].proxy.backup", ValueKind::List(TextForm::Member), None,
        "Backup origins, in the forms of `to`: they get requests only while no origin of `to` may be asked, because all are ejected, unhealthy or drained, and a request that all of those failed.", r#"["http://10.0.0.9:8000"]"#),
    once("site[].route[].proxy.balance", ValueKind::OneOf(&["round_robin", "least_requests", "power_of_two", "hash", "consistent_hash"]), Some("power_of_two"),
        "Load balancing: in turn; fewest active requests per weight; the less loaded of two random origins; or a hash of `hash_by`, by remainder or consistent. The consistent hash moves few requests when an origin is added or removed.", r#""least_requests""#),
    once("site[].route[].proxy.hash_by", ValueKind::One(TextForm::HashBy), Some("target"),
        "Input of the hash for `balance`: host and target, the client address, or the value of a field or cookie. Requests without that value are balanced by load.", r#""cookie:session""#),
    once("site[].route[].proxy.tries", integer(1, 64), Some("3"),
        "Maximum number of origins tried per request. A request is retried if no connection was established. If the origin failed before its response began, only idempotent methods are retried (RFC 9110 section 9.2.2). At most 64 KiB of their body may have been sent; larder buffers them until the response begins.", "2"),
    once("site[].route[].proxy.retry_budget", integer(0, 100), Some("20"),
        "Maximum retries, in percent of requests, of requests that the first origin may have received. Unused retries accumulate up to the number of concurrent requests of one origin.", "10"),
    once("site[].route[].proxy.failure_statuses", ValueKind::List(TextForm::FailureStatus), None,
        "Statuses that count as a failure of the origin: for `eject_after`, and for a retry on another origin.", "[502, 503]"),
    once("site[].route[].proxy.eject_after", integer(0, 1000), Some("5"),
        "Consecutive failures (no connection, no response, `failure_statuses`) after which an origin is ejected. 0 disables ejection. The only origin of a route is ejected if `all_ejected` is `refuse`.", "3"),
    once("site[].route[].proxy.eject_window", time(1, DAY), Some("10s"),
        "Maximum time between the first and the last of these failures.", r#""1m""#),
    once("site[].route[].proxy.eject_time", time(1, DAY), Some("5s"),
        "Duration of the first ejection; one request then probes the origin. The duration doubles if the probe fails or the origin soon fails again.", r#""1s""#),
    once("site[].route[].proxy.eject_max", time(1, 7 * DAY), Some("5m"),
        "Maximum duration of an ejection.", r#""1m""#),
    once("site[].route[].proxy.all_ejected", ValueKind::OneOf(&["try", "refuse"]), Some("try"),
        "Behaviour while all origins are ejected: requests are sent to them anyway (`try`), or rejected with 503 at once (`refuse`, a circuit breaker) except for the probe.", r#""refuse""#),
    once("site[].route[].proxy.health.path", ValueKind::One(TextForm::PathPrefix), None,
        "Path of the health check, below the base path of `proxy.to`, sent to each origin by one of the workers. An origin without an expected response receives no requests. Default: no health check.", r#""/health""#),
    once("site[].route[].proxy.health.host", ValueKind::One(TextForm::Authority), None,
        "`Host` of the health check. Default: that of requests, for the client's host the first exact one of the site.", r#""app.internal""#),
    once("site[].route[].proxy.health.method", ValueKind::OneOf(&["GET", "HEAD", "OPTIONS"]), Some("GET"),
        "Method of the health check.", r#""HEAD""#),
    once("site[].route[].proxy.health.status", ValueKind::List(TextForm::StatusRange), Some("200-399"),
        "Statuses of a healthy origin.", r#"["200", "300-308"]"#),
    once("site[].route[].proxy.health.body", ValueKind::One(TextForm::BodyTest), None,
        "Text that the first 64 KiB of the body of a healthy origin contain, or `regex:` and a regular expression that matches there.", r#""\"status\":\"ok\"""#),
    once("site[].route[].proxy.health.interval", time(10, DAY), Some("5s"),
        "Interval of the health check, with a jitter of 10 %.", r#""1s""#),
    once("site[].route[].proxy.health.timeout", time(1, HOUR), Some("2s"),
        "Timeout of the health check, connection included.", r#""500ms""#),
    once("site[].route[].proxy.health.fall", integer(1, 100), Some("3"),
        "Consecutive failed health checks after which an origin is marked unhealthy.", "2"),
    once("site[].route[].proxy.health.rise", integer(1, 100), Some("2"),
        "Consecutive successful health checks after which an origin is marked healthy.", "1"),
    once("site[].route[].proxy.slow_start", time(0, DAY), Some("10s"),
        "Slow start: how long the share of a recovered origin grows from a tenth to its full share. 0 disables it. It does not apply if `balance` is a hash.", r#""1m""#),
    once("site[].route[].proxy.tls.ca", ValueKind::One(TextForm::Path), None,
        "CA certificates, PEM, for the verification of `https://` origins. Default: the trust store of the system.", r#""ca.pem""#),
    once("site[].route[].proxy.tls.name", ValueKind::One(TextForm::HostName), None,
        "Host name for SNI and for the verification of the certificate. Default: the host of each origin in `to`.", r#""app.internal""#),
    once("site[].route[].proxy.tls.verify", ValueKind::Bool, Some("true"),
        "Verify the certificate of the origin. Without verification, an attacker on the network path can read and change everything.", "false"),
    once("site[].route[].proxy.tls.client_cert", ValueKind::One(TextForm::Path), None,
        "Client certificate that larder presents to the origin, PEM, followed by its intermediate certificates.", r#""client.pem""#),
    once("site[].route[].proxy.tls.client_key", ValueKind::One(TextForm::Path), None,
        "Private key of the client certificate, PEM.", r#""client.key""#),
    once("site[].route[].proxy.tls.timeout", time(1, HOUR), Some("5s"),
        "Timeout of the TLS handshake, after the connection is established.", r#""2s""#),
    once("site[].route[].proxy.http2", ValueKind::Bool, Some("false"),
        "Offer HTTP/2 and HTTP/1.1 to `https://` origins by ALPN; the origin chooses. gRPC requires it. `h2c://` origins always use HTTP/2.", "true"),
    once("site[].route[].proxy.host", ValueKind::One(TextForm::Authority), None,
        "`Host` that is sent to the origin, in place of the client's. References of responses to this host are rewritten to the host of the client.", r#""app.internal""#),
    once("site[].route[].proxy.preserve_host", ValueKind::Bool, Some("true"),
        "Send the `Host` of the client to the origin. With `false`, the host of the origin is sent.", "false"),
    once("site[].route[].proxy.connect_timeout", time(1, HOUR), Some("5s"),
        "Timeout for a connection to the origin.", r#""1s""#),
    once("site[].route[].proxy.first_byte_timeout", time(1, DAY), Some("60s"),
        "Timeout from the last byte of the request to the head of the response.", r#""30s""#),
    once("site[].route[].proxy.between_bytes_timeout", time(1, DAY), Some("30s"),
        "Timeout between two reads of the response, and between two writes of a request body.", r#""10s""#),
    once("site[].route[].proxy.total_timeout", time(0, 7 * DAY), Some("0s"),
        "Timeout of the whole exchange with the origin. 0 disables it.", r#""5m""#),
    once("site[].route[].proxy.idle_timeout", time(0, DAY), Some("30s"),
        "How long an idle connection to the origin is kept open.", r#""4s""#),
    once("site[].route[].proxy.connections", integer(1, 100_000), Some("256"),
        "Maximum concurrent requests to the origin, per worker. HTTP/1.1 uses one connection for each; an HTTP/2 connection carries up to 100. An eighth, at least one, is reserved for requests whose body larder does not have to wait for.", "32"),
    once("site[].route[].proxy.queue", integer(0, 1_000_000), None,
        "Maximum number of requests that wait for one of `connections`, per worker. Requests beyond it go to another origin or receive 503. Default: 16 per connection.", "100"),
    once("site[].route[].proxy.queue_timeout", time(1, HOUR), None,
        "Timeout in the queue. Default: `connect_timeout` covers both the queue and the connection.", r#""1s""#),
    once("site[].route[].proxy.idle_connections", integer(0, 100_000), Some("64"),
        "Maximum idle connections to the origin, per worker. With HTTP/2, only 0 has an effect.", "16"),
    once("site[].route[].proxy.interim", integer(0, 1000), Some("16"),
        "Maximum number of interim (1xx) responses per request. The connection of an origin that sends more is closed.", "4"),
    once("site[].route[].proxy.head_size", size(KIB, MIB), Some("64KiB"),
        "Maximum size of a response head of the origin.", r#""32KiB""#),

    once("site[].route[].files.root", ValueKind::One(TextForm::Path), None,
        "Directory of the files, relative to the directory of the configuration file.", r#""public""#),
    once("site[].route[].files.strip", ValueKind::One(TextForm::PathPrefix), None,
        "Prefix that is removed from the request path before the lookup in `root`.", r#""/static""#),
    once("site[].route[].files.index", ValueKind::List(TextForm::FileName), Some("index.html"),
        "Index files of a directory, tried in this order.", r#"["index.html", "index.htm"]"#),
    once("site[].route[].files.try", ValueKind::List(TextForm::TryMember), Some("{path}"),
        "The files that a path may mean, tried in this order. `{path}` is the request path in normal form, without `strip`. A member without `{path}` is one file for every path. `=404` or `=410` ends the list with that status. A directory with an index is redirected to its path with a slash.", r#"["{path}", "{path}.html", "{path}/index.html", "/index.html"]"#),
    once("site[].route[].files.clean_urls", ValueKind::Bool, Some("false"),
        "Serve `about.html` as `/about`, and redirect `/about.html` to `/about` and `/about/index.html` to `/about/`. The query is kept.", "true"),
    once("site[].route[].files.spa", ValueKind::Bool, Some("false"),
        "Single-page application: serve the first file of `index` in `root` for paths without a file if a browser navigates to them: the last segment has no extension, or the request accepts HTML by name. A missing script or image remains 404.", "true"),
    once("site[].route[].files.not_found", ValueKind::One(TextForm::Page), None,
        "Page that is sent with 404 if no file exists. Default: one sentence of text. `larder serve` uses `/404.html`.", r#""/404.html""#),
    once("site[].route[].files.compress", ValueKind::Bool, Some("false"),
        "Compress files that have no precompressed file in the coding, by `codings`, `min_size`, `max_size` and `types` of `cache.compress`. Each encoding is made once and kept with the open file. `larder serve` uses `true`.", "true"),
    once("site[].route[].files.listing", ValueKind::Bool, Some("false"),
        "List directories without an index file.", "true"),
    once("site[].route[].files.dotfiles", ValueKind::Bool, Some("false"),
        "Serve names that begin with a dot.", "true"),
    once("site[].route[].files.symlinks", ValueKind::OneOf(&["never", "beneath", "follow"]), Some("beneath"),
        "Symbolic links: rejected, followed inside `root` only, or followed everywhere.", r#""never""#),
    once("site[].route[].files.precompressed", ValueKind::Bool, Some("true"),
        "Serve `FILE.br`, `FILE.zst` or `FILE.gz` instead of `FILE` to clients that accept the coding.", "false"),
    once("site[].route[].files.cache_control", ValueKind::One(TextForm::FieldValue), None,
        "`Cache-Control` that is sent with every file. Default: none.", r#""max-age=3600""#),
    once("site[].route[].files.cache_for", time(0, HOUR), Some("1s"),
        "How long an open file is reused before the file system is checked. A change is visible within this time.", r#""10s""#),
    once("site[].route[].files.small_file", size(0, 16 * MIB), Some("16KiB"),
        "Files up to this size are kept in RAM.", r#""64KiB""#),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound() {
        for key in TABLE {
            assert!(key.help.ends_with('.'), "{}: a help is a sentence", key.path);
            assert_eq!(1, TABLE.iter().filter(|it| it.path == key.path).count(), "{} twice", key.path);
            if let Some(default) = key.default {
                assert!(key.kind.parse(default).is_ok(), "{}: default {default}", key.path);
            }
        }
        assert_eq!("cache.default_ttl", find("site[].route[].cache.default_ttl").unwrap().path);
        assert!(find("site[].route[].cache.ram.size").is_none());
        assert!(is_section("site") && is_section("site[].route") && is_section("site[].route[].cache.key"));
        assert!(!is_section("sit") && !is_section("listen"));
    }
}
