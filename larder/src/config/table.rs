//! Every configuration key, declared once. A row gives the check, the default, the nearest-name hints, the
//! manual (`docs/generated/config.md`) and the editor's schema. Reading a file is not here.

use super::kind::{Form, Kind};
use super::presets;
use larder_semantics::policy::LONGEST_LIFETIME;

/// Where a key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only at its path.
    Once,
    /// At `cache.NAME` as the default of every route, and at `site[].route[].cache.NAME` for one.
    EveryRoute,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path; `[]` stands for "each of the list".
    pub path: &'static str,
    /// Where it may stand.
    pub scope: Scope,
    /// What its value is: type, unit, range.
    pub kind: Kind,
    /// The value where none is given, as a flag would spell it; `None` where there is none.
    pub default: Option<&'static str>,
    /// One sentence, for the manual.
    pub help: &'static str,
    /// A value as it stands in a file.
    pub example: &'static str,
    /// When a changed value is taken over.
    pub takes: Takes,
}

/// When a changed value of a key is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// At the next reload.
    AtReload,
    /// At the next start; a reload that changes it is refused.
    AtStart,
}

/// What every route key under `cache` begins with.
pub const ROUTE_CACHE: &str = "site[].route[].cache.";

/// The row of a pattern such as `cache.ram.size` or `site[].route[].cache.default_ttl`.
#[must_use]
pub fn find(pattern: &str) -> Option<&'static Key> {
    match pattern.strip_prefix(ROUTE_CACHE) {
        Some(rest) => TABLE.iter().find(|it| {
            it.scope == Scope::EveryRoute && it.path.strip_prefix("cache.").is_some_and(|it| it == rest)
        }),
        None => TABLE.iter().find(|it| it.path == pattern),
    }
}

/// Whether `pattern` is a section: the beginning of some key's path.
#[must_use]
pub fn is_section(pattern: &str) -> bool {
    patterns().any(|it| {
        it.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('.') || rest.starts_with("[]."))
    })
}

/// Every pattern under which a key may be written, the per-route ones included.
pub fn patterns() -> impl Iterator<Item = String> {
    let routes = TABLE.iter().filter(|it| it.scope == Scope::EveryRoute);
    let routes =
        routes.filter_map(|it| it.path.strip_prefix("cache.").map(|rest| format!("{ROUTE_CACHE}{rest}")));
    TABLE.iter().map(|it| it.path.to_owned()).chain(routes)
}

const fn once(
    path: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: Scope::Once, kind, default, help, example, takes: Takes::AtReload }
}

/// The row of a key that is looked at when larder starts, and then never again.
const fn start(
    path: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: Scope::Once, kind, default, help, example, takes: Takes::AtStart }
}

const fn each(
    path: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: Scope::EveryRoute, kind, default, help, example, takes: Takes::AtReload }
}

/// Text by nature, and formats that carry no compression of their own. Left alone are pictures, sound, video, archives,
/// WOFF, and what nobody knows.
const COMPRESSIBLE: &str = "text/*,application/json,application/javascript,application/x-javascript,application/xml,\
    application/wasm,application/vnd.ms-fontobject,application/x-font-ttf,font/ttf,font/otf,font/collection,image/bmp,\
    image/x-icon,image/vnd.microsoft.icon,+json,+xml";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const LONGEST: u64 = LONGEST_LIFETIME as u64;

const fn size(least: u64, most: u64) -> Kind {
    Kind::Size { least, most }
}
const fn time(least: u64, most: u64) -> Kind {
    Kind::Time { least, most }
}
const fn integer(least: u64, most: u64) -> Kind {
    Kind::Integer { least, most }
}
const fn seconds(most: u64) -> Kind {
    Kind::Seconds { most }
}
/// What memcached takes as seconds from now: a larger number is a date to it.
const MEMCACHED_LONGEST: u64 = 30 * 86_400;
const LEVEL: Kind = Kind::OneOf(&["debug", "info", "warn", "error", "off"]);
const LIFETIME: Kind = Kind::Seconds { most: LONGEST };
const LIFETIME_OR_OFF: Kind = Kind::SecondsOrOff { most: LONGEST };

/// The table, in the order of the manual.
#[rustfmt::skip]
pub const TABLE: &[Key] = &[
    start("listen", Kind::List(Form::Listen), Some("127.0.0.1:8080"),
        "Where clients are served: `http://ADDR:PORT` or `ADDR:PORT` (port 0 takes a free one), `https://ADDR:PORT` by TLS, or `unix:PATH` (beneath the directory that larder was started in, if it does not begin with `/`). At `http+proxy://ADDR:PORT`, `https+proxy://ADDR:PORT` and `unix+proxy:PATH` a header of the PROXY protocol, version 1 or 2, has to come before anything else, and says whose connection it is; elsewhere none is read.", r#"["0.0.0.0:8080", "unix:/run/larder.sock"]"#),
    start("workers", integer(1, 1024), None,
        "Worker threads; without it, one for each core.", "4"),

    once("clients.trusted", Kind::List(Form::Peer), None,
        "Proxies in front that are believed when they say, in the field that `clients.header` names, whose request it is: the client is then the rightmost address there that is none of theirs. `\"unix\"` is whoever connects to a Unix socket.", r#"["10.0.0.0/8"]"#),
    once("clients.header", Kind::OneOf(&["X-Forwarded-For", "Forwarded"]), Some("X-Forwarded-For"),
        "The one field that proxies of `clients.trusted` write, whatever their clients wrote there.", r#""Forwarded""#),
    once("clients.proxies", Kind::List(Form::Peer), None,
        "Who may send the header of the PROXY protocol to the addresses of `listen` that want one; others are closed at once. Without it, whoever can connect there. `\"unix\"` is whoever connects to a Unix socket.", r#"["10.0.0.0/8", "unix"]"#),
    once("tls.certificates[].cert", Kind::One(Form::Path), None,
        "The certificate and what leads from it to its authority, PEM. It is shown to who asks for one of the names in it (a `*` stands for one label); the first certificate also to who asks for none, or for a name of none. A changed file is taken over while larder runs.", r#""chain.pem""#),
    once("tls.certificates[].key", Kind::One(Form::Path), None,
        "Its private key, PEM without a password: PKCS#8, PKCS#1 or SEC1; RSA, P-256, P-384 or Ed25519.", r#""key.pem""#),
    once("tls.certificates[].ocsp", Kind::One(Form::Path), None,
        "What the authority's OCSP responder said of it, DER: stapled for clients that ask. Whoever fetches it replaces the file.", r#""ocsp.der""#),
    once("tls.min_version", Kind::OneOf(&["1.2", "1.3"]), Some("1.2"),
        "The lowest version of TLS that is spoken; the highest is 1.3.", r#""1.3""#),
    once("tls.client_auth", Kind::OneOf(&["off", "optional", "required"]), Some("off"),
        "Whether clients show certificates: who must and does not is not served; who may and shows a bad one is not either.", r#""required""#),
    once("tls.client_ca", Kind::One(Form::Path), None,
        "The authorities that sign the clients' certificates, PEM.", r#""clients.pem""#),
    start("tls.self_signed", Kind::Bool, Some("false"),
        "Make a certificate for this machine alone, in memory, that no client trusts unless it is told to: for a trial. Addresses of `listen` without a scheme, the one by default as well, are served by TLS then; `http://ADDR:PORT` stays in clear.", "true"),

    once("limits.head_size", size(KIB, MIB), Some("16KiB"),
        "Largest request head; a longer one is refused with 431, and so is one of more than 128 fields.", r#""32KiB""#),
    once("limits.target_size", size(256, MIB), Some("8KiB"),
        "Largest request target (path and query); a longer one is refused with 414.", r#""4KiB""#),
    once("limits.body_size", size(0, TIB), Some("64MiB"),
        "Largest request body; a larger one is refused with 413.", r#""1GiB""#),
    once("limits.head_timeout", time(100, HOUR), Some("10s"),
        "Time for a whole request head, from its first byte or from the accept.", r#""5s""#),
    once("limits.body_timeout", time(100, HOUR), Some("30s"),
        "Longest silence within a request body.", r#""1m""#),
    once("limits.idle_timeout", time(100, DAY), Some("60s"),
        "How long a connection may wait for its next request.", r#""15s""#),
    once("limits.write_timeout", time(100, HOUR), Some("30s"),
        "Longest time in which a client takes no byte of its response; up to four times as long for one that took a mebibyte at once.", r#""1m""#),
    once("limits.min_rate", size(0, MIB), Some("128B"),
        "Least bytes per second that a client must send or take, over ten seconds or from one silence to the next; 0 is off.", r#""1KiB""#),
    once("limits.connections", integer(1, 10_000_000), Some("50000"),
        "Open client connections of all workers together. Above it those that have rested for a second make room, whichever worker has them, and where none has, new ones are closed.", "20000"),
    once("limits.http2_streams", integer(1, 65_535), Some("128"),
        "Requests under way at once over one HTTP/2 connection; above it, they are refused and may be sent again. What a client has reset is not under way; where four times as many are worked for with that, only what RAM has is answered.", "256"),
    start("limits.fills", integer(1, 1_000_000), Some("4096"),
        "Fetches in flight that other requests may share; above it, fetches are not shared.", "1024"),
    once("limits.upgrade_idle", time(100, 7 * DAY), Some("10m"),
        "How long a connection that went on in another protocol (`site.route.upgrade`) may be silent in both directions.", r#""1h""#),
    once("limits.drain_timeout", time(0, HOUR), Some("10s"),
        "How long a stop waits for requests in progress.", r#""30s""#),

    start("cache.ram.size", size(MIB, 64 * TIB), Some("256MiB"),
        "Bytes that the RAM tier may take: bodies, heads, index and fills in flight.", r#""1GiB""#),
    once("cache.ram.idle", Kind::TimeOrOff { least: 10 * SECOND, most: 365 * DAY }, Some("off"),
        "What nobody has asked for in so long is evicted from RAM, though there is room, and the memory is given back to the system.", r#""10m""#),
    start("cache.ram.heap_line", size(0, MIB), Some("16KiB"),
        "Bodies above this many bytes live in the arena and leave by `sendfile`; others on the heap.", r#""16KiB""#),

    start("cache.spool.size", Kind::SizeOrOff { least: MIB, most: 64 * TIB }, Some("1GiB"),
        "Bytes that may lie in files without a name for those who read a body too slowly for the others that share it, where it is too large to keep; without room there (or `off`) they are left behind.", r#""4GiB""#),
    start("cache.spool.directory", Kind::One(Form::Path), None,
        "Where these files are made, better not in a tmpfs; without it, in `$TMPDIR`, or else in /var/tmp. Where none can be made there is no spool, and the error log says why.", r#""/var/lib/larder""#),

    start("cache.compress.workers", integer(0, 64), Some("1"),
        "Threads that make the compressed forms of stored responses; 0 makes none.", "2"),
    start("cache.compress.queue", integer(1, 100_000), Some("256"),
        "Forms that may wait to be made; above it they are not made now, and a later hit asks again.", "1000"),
    start("cache.compress.gzip_level", integer(1, 9), Some("6"),
        "How hard gzip tries.", "9"),
    start("cache.compress.br_level", integer(0, 11), Some("5"),
        "How hard brotli tries; each level above 9 takes many times as long.", "9"),
    start("cache.compress.zstd_level", integer(1, 19), Some("9"),
        "How hard zstd tries.", "15"),

    start("cache.disk.path", Kind::One(Form::Path), None,
        "Directory of the disk tier, which is made if it is not there; without it, there is no such tier. One process has a directory at a time.", r#""/var/cache/larder""#),
    start("cache.disk.size", size(16 * MIB, 1024 * TIB), Some("10GiB"),
        "Bytes that the disk tier may take; the oldest segment goes when it would be more.", r#""50GiB""#),
    start("cache.disk.segment_size", size(MIB, GIB), Some("64MiB"),
        "Bytes of one segment file; a response that does not fit into one is not kept on disk.", r#""32MiB""#),
    start("cache.disk.min_ttl", LIFETIME, Some("10s"),
        "Responses with a shorter lifetime are not written to disk.", r#""1m""#),
    start("cache.disk.promote_after", integer(1, 1000), Some("2"),
        "A large body that lies on disk is taken into RAM at its use of this number.", "3"),
    start("cache.disk.readers", integer(1, 256), Some("4"),
        "Threads that read what the system does not hold in its page cache.", "8"),
    start("cache.disk.queue", size(MIB, 64 * GIB), Some("64MiB"),
        "Bytes that may wait to be written, and never more than an eighth of `cache.ram.size`: what waits is in RAM for as long. What does not fit is not kept on disk.", r#""256MiB""#),
    start("cache.disk.retry", time(100, DAY), Some("10s"),
        "How long the tier stays off after an error of the disk.", r#""1m""#),

    start("cache.fleet.servers", Kind::List(Form::Memcached), None,
        "The memcached servers, in the order that all nodes and clients share: `HOST:PORT` or `unix:PATH` (beneath the directory that larder was started in, if it does not begin with `/`), and `weight=N` behind a space; without it, there is no fleet.", r#"["10.0.0.1:11211", "10.0.0.2:11211"]"#),
    start("cache.fleet.protocol", Kind::OneOf(&["meta", "binary"]), Some("meta"),
        "What is spoken with the servers: the meta commands (memcached 1.6 or newer), or the binary protocol.", r#""binary""#),
    start("cache.fleet.distribution", Kind::OneOf(&["ketama", "ketama_weighted", "modula"]), Some("ketama"),
        "How keys are spread over the servers, as libmemcached does it; only `ketama_weighted` heeds weights.", r#""modula""#),
    start("cache.fleet.hash", Kind::OneOf(&["default", "md5", "crc", "fnv1_32", "fnv1_64", "fnv1a_32", "fnv1a_64", "murmur", "one_at_a_time"]), Some("default"),
        "The hash of keys, as libmemcached names and computes it.", r#""md5""#),
    start("cache.fleet.namespace", Kind::One(Form::KeyText), None,
        "Stands in place of the host in the keys; without it, the host does. Hosts share what the fleet keeps then, and a purge by URL or prefix is of all of them.", r#""shop""#),
    start("cache.fleet.key_prefix", Kind::One(Form::KeyText), None,
        "What every key of ours begins with.", r#""larder:""#),
    start("cache.fleet.md5_keys", Kind::Bool, Some("false"),
        "Every key is the prefix and the MD5 of the rest; otherwise only those that memcached would not take.", "true"),
    start("cache.fleet.expire", seconds(MEMCACHED_LONGEST), Some("1d"),
        "How long a server keeps an item at most: no longer than its lifetime and `stale_grace`. 0 leaves it to the server's memory, also beyond these, for 30 days.", r#""6h""#),
    start("cache.fleet.put", Kind::Bool, Some("true"),
        "Write to the fleet what the origin answers; otherwise it is only read. Where applications write (`filled_by`), larder never does.", "false"),
    start("cache.fleet.no_block", Kind::Bool, Some("true"),
        "No response waits until a server has taken it; otherwise its last byte does, for `timeout` at most.", "false"),
    start("cache.fleet.timeout", time(1, MINUTE), Some("50ms"),
        "How long one operation may take before the server counts as failed for it.", r#""20ms""#),
    start("cache.fleet.connect_timeout", time(1, MINUTE), Some("250ms"),
        "How long a connection to a server may take.", r#""100ms""#),
    start("cache.fleet.hedge", Kind::TimeOrOff { least: 1, most: MINUTE }, Some("off"),
        "A read that took so long is asked again on another connection, and the first answer is used.", r#""10ms""#),
    start("cache.fleet.auto_eject", Kind::Bool, Some("true"),
        "A server that failed `failures` times in a row is left alone until `retry` has passed, and its keys belong to the others meanwhile; otherwise nothing is kept under them meanwhile.", "false"),
    start("cache.fleet.failures", integer(1, 1000), Some("3"),
        "Failures in a row after which a server is left out.", "5"),
    start("cache.fleet.retry", time(100, DAY), Some("5s"),
        "After so long a server that was left out is tried again.", r#""30s""#),
    start("cache.fleet.max_item", size(KIB, GIB), Some("1MiB"),
        "Largest item that the servers take (their `-I`).", r#""8MiB""#),
    start("cache.fleet.large", Kind::OneOf(&["split", "skip"]), Some("split"),
        "What becomes of a response above `max_item`: it is split over several items, or not kept in the fleet.", r#""skip""#),
    start("cache.fleet.compress_above", Kind::SizeOrOff { least: 64, most: GIB }, Some("off"),
        "Bodies of this size and more are compressed on their way to the servers.", r#""4KiB""#),
    start("cache.fleet.local_ttl", LIFETIME, Some("5s"),
        "How long a copy in RAM is used before the fleet is asked whether it has another. Where others write to the fleet, also how long at most an answer that is not stored is remembered.", r#""2s""#),
    start("cache.fleet.filled_by", Kind::OneOf(&["larder", "applications", "older"]), Some("larder"),
        "Who else writes pages: nobody, applications in our own envelope, or applications in the older form (content type, NUL, body).", r#""applications""#),
    start("cache.fleet.recompute_once", Kind::Bool, Some("true"),
        "Of all nodes one asks the origin for a key that is missing or stale, and the others wait for it, each `cache.collapse_wait` at most (`meta` only).", "false"),
    start("cache.fleet.stale_grace", LIFETIME, Some("60s"),
        "How long an item that was replaced or removed may still be served while one node asks the origin.", r#""10s""#),
    start("cache.fleet.connections", integer(1, 64), Some("2"),
        "Connections of each worker to each server.", "4"),
    start("cache.fleet.queue", size(64 * KIB, GIB), Some("16MiB"),
        "Bytes that may wait for each server in each worker; what does not fit is not kept in the fleet.", r#""64MiB""#),
    start("cache.fleet.purge_log", Kind::Bool, Some("true"),
        "Purges are written to a log in the servers, which every node follows.", "false"),
    start("cache.fleet.poll", time(10, MINUTE), Some("100ms"),
        "How often a node reads that log.", r#""50ms""#),
    start("cache.fleet.lease", time(100, MINUTE), Some("2s"),
        "How long a node trusts what it holds without having read the log; after it, everything is validated with the origin.", r#""5s""#),

    each("cache.enabled", Kind::Bool, Some("true"),
        "Whether the cache is used at all.", "false"),
    each("cache.preset", Kind::OneOf(&presets::NAMES), None,
        "Values for the keys below that are usual in front of an application of this kind; any that is given for the route, or for all, stands in its place.", r#""wordpress""#),
    each("cache.default_ttl", LIFETIME_OR_OFF, Some("off"),
        "Lifetime of storable responses that name none, in place of the heuristic.", r#""60s""#),
    each("cache.override_ttl", LIFETIME_OR_OFF, Some("off"),
        "Lifetime in place of whatever the origin says; `no-store`, `private` and `Set-Cookie` still forbid storing.", r#""5m""#),
    each("cache.max_ttl", LIFETIME, Some("365d"),
        "No lifetime is longer than this.", r#""7d""#),
    each("cache.status_ttl", Kind::StatusTtls { most: LONGEST }, None,
        "Lifetimes by status for responses that name none (negative caching).", r#"{ 404 = "10s", 410 = "1h" }"#),
    each("cache.heuristic_percent", integer(0, 100), Some("10"),
        "Share of the time since `Last-Modified` that counts as lifetime (RFC 9111 section 4.2.2); 0 is off.", "0"),
    each("cache.heuristic_max", LIFETIME, Some("1d"),
        "The longest heuristic lifetime.", r#""1h""#),
    each("cache.stale_while_revalidate", LIFETIME, Some("0s"),
        "How long past its lifetime a response is served while it is validated in the background, where the response says nothing (RFC 5861 section 3).", r#""30s""#),
    each("cache.stale_if_error", LIFETIME, Some("1d"),
        "How long past its lifetime a response is served when the origin disconnects or answers 5xx, where the response says nothing (RFC 5861 section 4).", r#""1h""#),
    each("cache.request_directives", Kind::OneOf(&["obey", "harmless", "ignore"]), Some("obey"),
        "Which Cache-Control directives of requests count: all, only those that cannot make the origin work (`only-if-cached`, `max-stale`), or none.", r#""harmless""#),
    each("cache.targets", Kind::List(Form::FieldName), Some("CDN-Cache-Control"),
        "Targeted fields to obey, most specific first (RFC 9213 section 2.2).", r#"["Larder-Cache-Control", "CDN-Cache-Control"]"#),
    each("cache.store_set_cookie", Kind::Bool, Some("false"),
        "Store responses with `Set-Cookie`, the field itself left out.", "true"),
    each("cache.private_cookies", Kind::List(Form::CookieGlob), None,
        "A request that carries one of these cookies passes the cache; once named, all other cookies are ignored, for the key as for `Vary: Cookie`, and not sent to the origin. A `*` matches whatever stands there.", r#"["session*", "wordpress_logged_in_*"]"#),
    each("cache.key.query", Kind::OneOf(&["all", "none"]), Some("all"),
        "Whether the query is part of the key.", r#""none""#),
    each("cache.key.drop", Kind::List(Form::ParameterGlob), None,
        "Query parameters left out of the key, and of what is asked for the cache; a `*` at the end matches any rest.", r#"["utm_*", "fbclid"]"#),
    each("cache.key.keep", Kind::List(Form::ParameterGlob), None,
        "The only query parameters in the key; a `*` at the end matches any rest.", r#"["page", "q"]"#),
    each("cache.key.sort", Kind::Bool, Some("false"),
        "Sort the query's parameters by name before they enter the key, and for what is asked for the cache.", "true"),
    each("cache.key.headers", Kind::List(Form::FieldName), None,
        "Request header fields whose values are part of the key. Those that tell by which way a request came (`X-Forwarded-Proto`) are then believed and passed on.", r#"["X-Country"]"#),
    each("cache.key.cookies", Kind::List(Form::CookieName), None,
        "Cookies whose values are part of the key.", r#"["currency"]"#),
    each("cache.key.ignore_host", Kind::Bool, Some("false"),
        "All hosts of the site share one cache; in keys its first host stands for them, behind a `*`.", "true"),
    each("cache.key.strict", Kind::Bool, Some("false"),
        "Nothing that is not in the key reaches an application that is asked for the cache: of the client's header fields those of `cache.key.headers`, and no word of who it is. What browsers say of themselves (`User-Agent`, `Accept-Language`, `Referer`) is left out; a request with any other field (`Authorization`, `Origin`, a `Cookie` where `cache.private_cookies` names none) uses no cache.", "true"),
    each("cache.max_variants", integer(1, 1000), Some("32"),
        "Most variants (by `Vary`) under one key.", "8"),
    each("cache.max_object", size(0, TIB), Some("64MiB"),
        "Largest body that is stored.", r#""8MiB""#),
    each("cache.hit_for_miss", LIFETIME, Some("10s"),
        "How long it is remembered that a key's answers may not be shared, so that requests do not wait for one another.", r#""1m""#),
    each("cache.collapse_wait", time(0, HOUR), Some("10s"),
        "How long a request waits for the head of another request's fetch of the same key.", r#""2s""#),
    each("cache.on_abort", Kind::OneOf(&["finish", "cancel"]), Some("finish"),
        "What becomes of a fetch when nobody reads it any more: it goes on and is stored, or it is cancelled.", r#""cancel""#),
    each("cache.compress.enabled", Kind::Bool, Some("false"),
        "Keep stored responses in compressed forms as well, and serve each client the one that it likes best. The origin is asked for what a client accepts, in one spelling, and what it sends compressed is decoded for clients that cannot read it.", "true"),
    each("cache.compress.codings", Kind::List(Form::Coding), Some("zstd,br,gzip"),
        "The codings that are made; the first is taken where a client likes several equally.", r#"["br", "gzip"]"#),
    each("cache.compress.min_size", size(1, GIB), Some("1KiB"),
        "The smallest body that is compressed.", r#""256B""#),
    each("cache.compress.max_size", size(KIB, GIB), Some("8MiB"),
        "The largest body that is compressed, and the largest that is kept decoded.", r#""1MiB""#),
    each("cache.compress.types", Kind::List(Form::MediaType), Some(COMPRESSIBLE),
        "The media types that are compressed: exact, `text/*` for a whole type, `+xml` for every one that ends so.", r#"["text/*", "application/json", "+xml"]"#),
    each("cache.cache_status", Kind::Bool, Some("true"),
        "Send `Cache-Status` (RFC 9211) with every response of the cache or of the origin behind it, and with larder's own 502, 503 and 504 in their place; not with files, and not with what larder answers before it looks into the cache (400, 404, 405, 508 and the like).", "false"),
    each("cache.x_cache", Kind::Bool, Some("false"),
        "Send the older `X-Cache: HIT` or `MISS` as well.", "true"),

    each("cache.tiers", Kind::List(Form::Tier), Some("ram,disk,fleet"),
        "The tiers that are used, of those that there are.", r#"["ram", "disk"]"#),
    each("cache.tags.headers", Kind::List(Form::FieldName), Some("Surrogate-Key,Cache-Tag"),
        "Response fields that hold tags, between spaces and commas. `Cache-Groups` (RFC 9875) is always read beside them.", r#"["Surrogate-Key"]"#),
    each("cache.tags.send", Kind::Bool, Some("false"),
        "Send those fields to clients; otherwise they are for larder alone (`Cache-Groups` is always sent).", "true"),
    each("cache.purge.method", Kind::Bool, None,
        "Whether a `PURGE` request removes what is stored; where it is false, it is refused, and without it `PURGE` is an unknown method and goes to the origin.", "true"),
    each("cache.purge.from", Kind::List(Form::Network), Some("127.0.0.1/32,::1/128"),
        "Networks whose clients may send `PURGE`; others get 403. Clients of a Unix socket always may.", r#"["127.0.0.1/32", "10.0.0.0/8"]"#),

    start("admin.enabled", Kind::Bool, Some("true"),
        "Whether the admin listener and the admin socket are opened.", "false"),
    start("admin.listen", Kind::One(Form::SocketAddress), Some("127.0.0.1:9180"),
        "The admin address; by default this or the next free port, printed at the start.", r#""127.0.0.1:9180""#),
    start("admin.socket", Kind::One(Form::Path), None,
        "Unix socket on which the admin answers as well, for the user alone who runs larder (mode 0600); without it, none.", r#""/run/larder/admin.sock""#),
    start("admin.token_file", Kind::One(Form::Path), None,
        "The file that keeps the admin's token (mode 0600), made at the first start; without it, `larder/admin-token` below `$XDG_STATE_HOME` or `~/.local/state`, root's in /var/lib. `LARDER_ADMIN_TOKEN` in the environment goes over it.", r#""/etc/larder/admin-token""#),
    start("admin.audit", Kind::One(Form::Path), None,
        "A file for the audit log: who changed what through the admin, and who was refused; it is in the error log as well.", r#""/var/log/larder/audit.log""#),
    once("admin.hosts", Kind::List(Form::HostName), None,
        "Host names under which a TLS proxy before the admin is asked; any other name than the admin's own address is refused.", r#"["ops.example.com"]"#),
    once("admin.overlay_size", size(0, 64 * GIB), Some("16MiB"),
        "Bytes that overlays (pages put over whatever is there) may take together, of `cache.ram.size` and never more than a quarter of that.", r#""64MiB""#),
    once("admin.statistics", Kind::Bool, Some("true"),
        "Count requests by site, route and origin, and measure how long they take; the totals under `counters` are counted in any case.", "false"),

    start("log.access", Kind::One(Form::LogTarget), Some("off"),
        "Access log: a file, `-` for standard output, or `off`.", r#""/var/log/larder/access.log""#),
    start("log.format", Kind::One(Form::LogFormat), Some("combined"),
        "The form of an access-log line; what fields there are is in docs/generated/log.md.", r#""json""#),
    start("log.error", Kind::One(Form::LogTarget), Some("-"),
        "Error log: a file, `-` for standard error, or `off`.", r#""/var/log/larder/error.log""#),

    once("log.levels.server", LEVEL, Some("info"),
        "Least level of what the error log tells of starting, stopping, reloads and limits.", r#""warn""#),
    once("log.levels.purge", LEVEL, Some("info"),
        "The same of purges.", r#""debug""#),
    once("log.levels.disk", LEVEL, Some("info"),
        "The same of the disk tier.", r#""debug""#),
    once("log.levels.fleet", LEVEL, Some("info"),
        "The same of the memcached fleet.", r#""debug""#),
    once("log.levels.nodes", LEVEL, Some("info"),
        "The same of the purge log that nodes share.", r#""debug""#),
    once("log.levels.origin", LEVEL, Some("info"),
        "The same of origins.", r#""debug""#),
    once("log.levels.log", LEVEL, Some("info"),
        "The same of the logs themselves.", r#""error""#),
    once("log.levels.audit", LEVEL, Some("info"),
        "The same of what is changed through the admin (`info`), and of who is refused there (`warn`). The file of `admin.audit` has both in any case.", r#""warn""#),

    start("telemetry.otlp", Kind::One(Form::Origin), None,
        "An OpenTelemetry collector, which is sent traces by OTLP over HTTP, at `/v1/traces`; without it, nobody is.", r#""http://127.0.0.1:4318""#),
    start("telemetry.sample", integer(0, u32::MAX as u64), Some("100"),
        "Send a span of one in so many requests, of each worker; 0 is none by itself.", "10"),
    start("telemetry.follow", Kind::Bool, Some("false"),
        "Send a span also of each request whose `traceparent` says that whoever sent it records it; only where no stranger sends it: each can have every request of its own measured and sent.", "true"),

    once("site[].hosts", Kind::List(Form::Host), None,
        "The host names of the site: exact, `*.example.com` for any name below, or `*` for every other host.", r#"["www.example.com", "*.example.org"]"#),
    once("site[].route[].path", Kind::One(Form::PathPattern), Some("/*"),
        "The paths of the route: exact, or with a `*` at the end; routes are tried in the order of the file and the first that matches is taken.", r#""/static/*""#),
    once("site[].route[].name", Kind::One(Form::RouteName), None,
        "What the route is called in logs, statistics and filters (`route == \"api\"`); without it, the site's first host and the route's path. No two routes have the same.", r#""api""#),
    once("site[].route[].methods", Kind::List(Form::Method), None,
        "The methods of the route; without it, all.", r#"["GET", "HEAD"]"#),

    once("site[].route[].trace", integer(0, u32::MAX as u64), Some("0"),
        "Time the stages of one in so many requests and keep them as traces (`larder trace`, `GET /api/v1/traces`); 0 is off. Can be changed while running.", "100"),
    once("site[].route[].forwarded", Kind::OneOf(&["x-forwarded", "forwarded", "both", "off"]), Some("x-forwarded"),
        "In which fields origins are told who asks, and by which way: `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded` (RFC 7239). What clients write there reaches no origin.", r#""both""#),
    once("site[].route[].client_cert", Kind::Bool, Some("false"),
        "Tell origins the certificate that a client showed (`tls.client_auth`), in `Client-Cert` (RFC 9440). What clients write there reaches no origin then. Requests with a certificate use no cache, unless `cache.key.headers` has \"Client-Cert\".", "true"),
    once("site[].route[].upgrade", Kind::List(Form::FieldName), Some("websocket"),
        "Protocols, without a version, to which a connection may change through larder if the application agrees; none with an empty list. Such requests use no cache. `h2c` cannot be among them.", r#"["websocket", "SPDY"]"#),
    once("site[].route[].server_timing", Kind::Bool, Some("false"),
        "Send `Server-Timing` with every response: the stages that are over when its head is sent, in milliseconds.", "true"),

    once("site[].route[].proxy.to", Kind::List(Form::Member), None,
        "The origins: `http://HOST:PORT`, `https://HOST:PORT`, `h2c://HOST:PORT` (HTTP/2 in clear text), `unix:PATH` or `h2c+unix:PATH` (beneath the directory that larder was started in, if it does not begin with `/`), each with its weight, which is 1 where nothing is said; one with `drain` gets no new requests.", r#"["http://10.0.0.1:8000", "http://10.0.0.2:8000 weight=3"]"#),
    once("site[].route[].proxy.balance", Kind::OneOf(&["round_robin", "least_requests", "power_of_two", "hash", "consistent_hash"]), Some("power_of_two"),
        "Which of several origins gets a request: each in turn; whoever has fewest under way for its weight; the better so of two taken at random; or always the same by a hash of `hash_by`: by its remainder, or so that few requests change their origin when one comes or goes.", r#""least_requests""#),
    once("site[].route[].proxy.hash_by", Kind::One(Form::HashBy), Some("target"),
        "What of a request decides where `balance` is a hash: host and target, the client's address, or the value of a field or cookie; requests without that are balanced by load.", r#""cookie:session""#),
    once("site[].route[].proxy.tries", integer(1, 64), Some("3"),
        "Origins that one request is sent to at most. Another is asked where no connection was had; and where one failed before its response began, if the method is idempotent (RFC 9110 section 9.2.2) and no more than 64 KiB of a body were sent, which are remembered until then.", "2"),
    once("site[].route[].proxy.retry_budget", integer(0, 100), Some("20"),
        "Requests of a hundred that are sent to another origin though the first may have seen them; as many as one origin may have under way are saved up.", "10"),
    once("site[].route[].proxy.failure_statuses", Kind::List(Form::FailureStatus), None,
        "Statuses by which an origin says that it failed: they count for `eject_after`, and another origin is asked as where it does not answer.", "[502, 503]"),
    once("site[].route[].proxy.eject_after", integer(0, 1000), Some("5"),
        "Failures in a row (no connection, no answer, `failure_statuses`) after which an origin is left alone; 0 is never. The only origin of a route is left alone where `all_ejected` is `refuse`.", "3"),
    once("site[].route[].proxy.eject_window", time(1, DAY), Some("10s"),
        "The longest time between the first and the last of these.", r#""1m""#),
    once("site[].route[].proxy.eject_time", time(1, DAY), Some("5s"),
        "For how long; then one request tries it. If that fails too, or it fails again soon, twice as long.", r#""1s""#),
    once("site[].route[].proxy.eject_max", time(1, 7 * DAY), Some("5m"),
        "For how long at most.", r#""1m""#),
    once("site[].route[].proxy.all_ejected", Kind::OneOf(&["try", "refuse"]), Some("try"),
        "What is done while every origin is left alone: they are asked all the same, or requests are refused with 503 at once (a circuit breaker), but for the one that tries.", r#""refuse""#),
    once("site[].route[].proxy.health.path", Kind::One(Form::PathPrefix), None,
        "What each origin is asked for from time to time, by one of the workers: while it does not answer with a status from 200 to 399, it gets no requests. Without it, nothing is asked.", r#""/health""#),
    once("site[].route[].proxy.health.interval", time(10, DAY), Some("5s"),
        "How often; a tenth more or less.", r#""1s""#),
    once("site[].route[].proxy.health.timeout", time(1, HOUR), Some("2s"),
        "How long its answer may take, the connection included.", r#""500ms""#),
    once("site[].route[].proxy.health.fall", integer(1, 100), Some("3"),
        "Wrong or missing answers in a row after which an origin is left alone.", "2"),
    once("site[].route[].proxy.health.rise", integer(1, 100), Some("2"),
        "Right answers in a row after which it is used again.", "1"),
    once("site[].route[].proxy.slow_start", time(0, DAY), Some("10s"),
        "For how long an origin that is back gets less than its share, which grows from a tenth; 0 is off, and so it is where `balance` is a hash.", r#""1m""#),
    once("site[].route[].proxy.tls.ca", Kind::One(Form::Path), None,
        "The certificates, in PEM, that those of `https://` origins must come from; without it, the ones that this system trusts.", r#""ca.pem""#),
    once("site[].route[].proxy.tls.name", Kind::One(Form::HostName), None,
        "The name that is asked for (SNI) and that their certificates must be for; without it, that of each in `to`.", r#""app.internal""#),
    once("site[].route[].proxy.tls.verify", Kind::Bool, Some("true"),
        "Whether it is looked at who they are; where it is not, anybody between can read and change everything.", "false"),
    once("site[].route[].proxy.tls.client_cert", Kind::One(Form::Path), None,
        "A certificate, in PEM, that larder shows them; with those between it and its CA behind it.", r#""client.pem""#),
    once("site[].route[].proxy.tls.client_key", Kind::One(Form::Path), None,
        "Its key, in PEM.", r#""client.key""#),
    once("site[].route[].proxy.tls.timeout", time(1, HOUR), Some("5s"),
        "From when a connection stands until the handshake of TLS is over.", r#""2s""#),
    once("site[].route[].proxy.http2", Kind::Bool, Some("false"),
        "Offer HTTP/2 to `https://` origins, beside HTTP/1.1: whichever they choose is spoken. gRPC needs it. `h2c://` origins speak nothing else.", "true"),
    once("site[].route[].proxy.preserve_host", Kind::Bool, Some("true"),
        "Send the client's `Host` to the origin; otherwise the origin's own.", "false"),
    once("site[].route[].proxy.connect_timeout", time(1, HOUR), Some("5s"),
        "Until a connection to the origin stands.", r#""1s""#),
    once("site[].route[].proxy.first_byte_timeout", time(1, DAY), Some("60s"),
        "From the request's last byte to the response's head.", r#""30s""#),
    once("site[].route[].proxy.between_bytes_timeout", time(1, DAY), Some("30s"),
        "Longest silence within the response, and longest time in which the origin takes no byte of a request.", r#""10s""#),
    once("site[].route[].proxy.total_timeout", time(0, 7 * DAY), Some("0s"),
        "The whole exchange with the origin; 0 is off.", r#""5m""#),
    once("site[].route[].proxy.idle_timeout", time(0, DAY), Some("30s"),
        "How long an unused connection to the origin is kept.", r#""4s""#),
    once("site[].route[].proxy.connections", integer(1, 100_000), Some("256"),
        "Requests of each worker that the origin has at a time; as many connections with HTTP/1.1, while those with HTTP/2 take up to 100 each. An eighth of them, one at least, are not for requests whose body is to come.", "32"),
    once("site[].route[].proxy.queue", integer(0, 1_000_000), None,
        "Requests of each worker that wait for one of `connections`, at most; those beyond go to another origin, or are answered with 503. Without it, 16 for each of `connections`.", "100"),
    once("site[].route[].proxy.queue_timeout", time(1, HOUR), None,
        "How long they wait; without it, they have `connect_timeout` for both.", r#""1s""#),
    once("site[].route[].proxy.idle_connections", integer(0, 100_000), Some("64"),
        "Unused connections of each worker kept to the origin; with HTTP/2, 0 alone means something.", "16"),
    once("site[].route[].proxy.interim", integer(0, 1000), Some("16"),
        "Interim (1xx) responses to one request; an origin that sends more is cut off.", "4"),
    once("site[].route[].proxy.head_size", size(KIB, MIB), Some("64KiB"),
        "Largest response head of the origin.", r#""32KiB""#),

    once("site[].route[].files.root", Kind::One(Form::Path), None,
        "The directory to serve; relative to the directory of the configuration file.", r#""public""#),
    once("site[].route[].files.strip", Kind::One(Form::PathPrefix), None,
        "Prefix removed from the request path before it is looked up beneath the root.", r#""/static""#),
    once("site[].route[].files.index", Kind::List(Form::FileName), Some("index.html"),
        "Files looked for when a directory is asked for, in this order.", r#"["index.html", "index.htm"]"#),
    once("site[].route[].files.listing", Kind::Bool, Some("false"),
        "List directories that have no index file.", "true"),
    once("site[].route[].files.dotfiles", Kind::Bool, Some("false"),
        "Serve names that begin with a dot.", "true"),
    once("site[].route[].files.symlinks", Kind::OneOf(&["never", "beneath", "follow"]), Some("beneath"),
        "Symbolic links: refused, followed where they stay beneath the root, or followed anywhere.", r#""never""#),
    once("site[].route[].files.precompressed", Kind::Bool, Some("true"),
        "Serve `FILE.br`, `FILE.zst` or `FILE.gz` in place of `FILE` to clients that accept it.", "false"),
    once("site[].route[].files.cache_control", Kind::One(Form::FieldValue), None,
        "`Cache-Control` sent with every file; without it, none.", r#""max-age=3600""#),
    once("site[].route[].files.cache_for", time(0, HOUR), Some("1s"),
        "For how long an open file is used before the file system is asked again: a change is seen within this time.", r#""10s""#),
    once("site[].route[].files.small_file", size(0, 16 * MIB), Some("16KiB"),
        "Files up to this size are kept in RAM whole.", r#""64KiB""#),
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
