//! Every configuration key, declared once. A row gives the check, the default, the nearest-name hints, the
//! manual (`docs/generated/config.md`) and the editor's schema. Reading a file is not here.

use super::kind::{Form, Kind};

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
}

/// What every route key under `cache` begins with.
pub const ROUTE_CACHE: &str = "site[].route[].cache.";

/// Keys of tiers and features that are named in the design but not built yet.
pub const NOT_BUILT: &[(&str, &str)] = &[
    ("cache.disk", "the disk tier is not built yet: pages are kept in RAM only; remove this section"),
    ("cache.fleet", "the memcached fleet is not built yet: pages are kept in RAM only; remove this section"),
];

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
    Key { path, scope: Scope::Once, kind, default, help, example }
}

const fn each(
    path: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    help: &'static str,
    example: &'static str,
) -> Key {
    Key { path, scope: Scope::EveryRoute, kind, default, help, example }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Seconds of ten years: no lifetime is longer, so that sums of lifetimes cannot overflow.
const LONGEST: u64 = 315_360_000;

const fn size(least: u64, most: u64) -> Kind {
    Kind::Size { least, most }
}
const fn time(least: u64, most: u64) -> Kind {
    Kind::Time { least, most }
}
const fn integer(least: u64, most: u64) -> Kind {
    Kind::Integer { least, most }
}
const LIFETIME: Kind = Kind::Seconds { most: LONGEST };
const LIFETIME_OR_OFF: Kind = Kind::SecondsOrOff { most: LONGEST };

/// The table, in the order of the manual.
#[rustfmt::skip]
pub const TABLE: &[Key] = &[
    once("listen", Kind::List(Form::Listen), Some("127.0.0.1:8080"),
        "Where clients are served: `ADDR:PORT` (port 0 takes a free one) or `unix:PATH`.", r#"["0.0.0.0:8080", "unix:/run/larder.sock"]"#),
    once("workers", integer(1, 1024), None,
        "Worker threads; without it, one for each core.", "4"),

    once("limits.head_size", size(KIB, MIB), Some("16KiB"),
        "Largest request head; a longer one is refused with 431.", r#""32KiB""#),
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
        "Longest time in which a client takes no byte of its response.", r#""1m""#),
    once("limits.min_rate", size(0, MIB), Some("128B"),
        "Least bytes per second that a client must send or take, over any ten seconds; 0 is off.", r#""1KiB""#),
    once("limits.connections", integer(1, 10_000_000), Some("50000"),
        "Open client connections of all workers together; above it, new ones are closed at once.", "20000"),
    once("limits.fills", integer(1, 1_000_000), Some("4096"),
        "Fetches in flight that other requests may share; above it, fetches are not shared.", "1024"),
    once("limits.drain_timeout", time(0, HOUR), Some("10s"),
        "How long a stop waits for requests in progress.", r#""30s""#),

    once("cache.ram.size", size(MIB, 64 * TIB), Some("256MiB"),
        "Bytes that the RAM tier may take: bodies, heads, index and fills in flight.", r#""1GiB""#),
    once("cache.ram.heap_line", size(0, MIB), Some("16KiB"),
        "Bodies above this many bytes live in the arena and leave by `sendfile`; others on the heap.", r#""16KiB""#),

    each("cache.enabled", Kind::Bool, Some("true"),
        "Whether the cache is used at all.", "false"),
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
        "A request that carries one of these cookies passes the cache; once named, all other cookies are ignored for the key and not sent to the origin. A `*` at the end matches any rest.", r#"["session*", "wordpress_logged_in_*"]"#),
    each("cache.key.query", Kind::OneOf(&["all", "none"]), Some("all"),
        "Whether the query is part of the key.", r#""none""#),
    each("cache.key.drop", Kind::List(Form::ParameterGlob), None,
        "Query parameters left out of the key; a `*` at the end matches any rest.", r#"["utm_*", "fbclid"]"#),
    each("cache.key.keep", Kind::List(Form::ParameterGlob), None,
        "The only query parameters in the key; a `*` at the end matches any rest.", r#"["page", "q"]"#),
    each("cache.key.sort", Kind::Bool, Some("false"),
        "Sort the query's parameters by name before they enter the key.", "true"),
    each("cache.key.headers", Kind::List(Form::FieldName), None,
        "Request header fields whose values are part of the key.", r#"["X-Country"]"#),
    each("cache.key.cookies", Kind::List(Form::CookieName), None,
        "Cookies whose values are part of the key.", r#"["currency"]"#),
    each("cache.key.ignore_host", Kind::Bool, Some("false"),
        "All hosts of the site share one cache.", "true"),
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
    each("cache.cache_status", Kind::Bool, Some("true"),
        "Send `Cache-Status` with every response (RFC 9211).", "false"),
    each("cache.x_cache", Kind::Bool, Some("false"),
        "Send the older `X-Cache: HIT` or `MISS` as well.", "true"),

    once("admin.enabled", Kind::Bool, Some("true"),
        "Whether the admin listener and the admin socket are opened.", "false"),
    once("admin.listen", Kind::One(Form::SocketAddress), Some("127.0.0.1:9180"),
        "The admin address; by default this or the next free port, printed at the start.", r#""127.0.0.1:9180""#),
    once("admin.socket", Kind::One(Form::Path), None,
        "Unix socket on which the admin answers as well, for the user alone who runs larder (mode 0600); without it, none.", r#""/run/larder/admin.sock""#),

    once("log.access", Kind::One(Form::LogTarget), Some("off"),
        "Access log: a file, `-` for standard output, or `off`.", r#""/var/log/larder/access.log""#),
    once("log.format", Kind::OneOf(&["combined", "common", "json"]), Some("combined"),
        "The form of an access-log line.", r#""json""#),
    once("log.error", Kind::One(Form::LogTarget), Some("-"),
        "Error log: a file, `-` for standard error, or `off`.", r#""/var/log/larder/error.log""#),

    once("site[].hosts", Kind::List(Form::Host), None,
        "The host names of the site: exact, `*.example.com` for any name below, or `*` for every other host.", r#"["www.example.com", "*.example.org"]"#),
    once("site[].route[].path", Kind::One(Form::PathPattern), Some("/*"),
        "The paths of the route: exact, or with a `*` at the end; routes are tried in the order of the file and the first that matches is taken.", r#""/static/*""#),
    once("site[].route[].methods", Kind::List(Form::Method), None,
        "The methods of the route; without it, all.", r#"["GET", "HEAD"]"#),

    once("site[].route[].proxy.to", Kind::List(Form::Origin), None,
        "The origin: `http://HOST:PORT` or `unix:PATH`.", r#"["http://127.0.0.1:8000"]"#),
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
        "Open connections of each worker to the origin.", "32"),
    once("site[].route[].proxy.idle_connections", integer(0, 100_000), Some("64"),
        "Unused connections of each worker kept to the origin.", "16"),
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
