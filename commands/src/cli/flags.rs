//! The flags of commands, in groups: rows that the parser, `--help`, the manual page and the completions read.

/// The effect of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Its value is the value of this configuration key.
    Key(&'static str),
    /// Its value is one member of the list that is the value of this key, with any commas that it has; each use adds one.
    Member(&'static str),
    /// It has no value and sets this key to `true`.
    True(&'static str),
    /// `ADDR:PORT` or `off`, for the two keys of the admin interface.
    Admin,
    /// `KEY=VALUE`, for any key.
    Set,
    /// `-c FILE`.
    File,
    /// `Name: value`, a field of the explained request.
    Field,
    /// The method of the explained request.
    Method,
    /// JSON instead of text.
    Json,
    /// Selects the larder.
    AdminTarget,
    /// Handled by the command, under this name.
    Own(&'static str),
}

/// One row of a table of flags.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The long form, with `--`.
    pub long: &'static str,
    /// The short form, with `-`.
    pub short: Option<char>,
    /// Its value as shown by help; empty for a flag without value.
    pub value: &'static str,
    /// Its effect.
    pub means: Means,
    /// One line for `--help`.
    pub help: &'static str,
}

const fn flag(long: &'static str, value: &'static str, means: Means, help: &'static str) -> Flag {
    Flag { long, short: None, value, means, help }
}

const fn short(short: char, flag: Flag) -> Flag {
    Flag { short: Some(short), ..flag }
}

/// The flags of every command that starts a server or checks its configuration.
#[rustfmt::skip]
pub const SERVER: &[Flag] = &[
    short('l', flag("listen", "ADDR:PORT|https://ADDR:PORT|unix:PATH", Means::Key("listen"), "listen address for clients; may be repeated (127.0.0.1:8080)")),
    flag("tls-self-signed", "", Means::True("tls.self_signed"), "TLS with a self-signed certificate, for trials; applies to --listen ADDR:PORT, not to \
                 http://ADDR:PORT"),
    short('w', flag("workers", "N", Means::Key("workers"), "worker threads (one per core)")),
    flag("ram", "SIZE", Means::Key("cache.ram.size"), "size of the RAM tier (256MiB)"),
    flag("admin", "ADDR:PORT|off", Means::Admin, "admin address (127.0.0.1:9180 or the next free port)"),
    flag("admin-socket", "PATH", Means::Key("admin.socket"), "also open a Unix socket for the admin, mode 0600 (none)"),
    flag("log", "FILE|-|off", Means::Key("log.access"), "access log; `-` is standard output (off)"),
    flag("log-format", "FORMAT", Means::Key("log.format"), "combined, common, json, or a template with {field}s (combined)"),
    flag("error-log", "FILE|-|off", Means::Key("log.error"), "error log; `-` is standard error (-)"),
    flag("default-ttl", "DURATION", Means::Key("cache.default_ttl"), "lifetime of responses that declare none (off)"),
    flag("stale-while-revalidate", "DURATION", Means::Key("cache.stale_while_revalidate"), "how long to serve stale responses while validating (0s)"),
    flag("stale-if-error", "DURATION", Means::Key("cache.stale_if_error"), "how long to serve stale responses if the origin fails (1d)"),
    flag("private-cookies", "NAMES", Means::Key("cache.private_cookies"), "requests with one of these cookies bypass the cache"),
    flag("body-size", "SIZE", Means::Key("limits.body_size"), "maximum request body (64MiB)"),
    flag("set", "KEY=VALUE", Means::Set, "set any key of docs/generated/config.md; may be repeated"),
];

/// The flags of a server that is reachable from everywhere, for `proxy` and `serve`.
#[rustfmt::skip]
pub const PUBLIC: &[Flag] = &[
    own(super::domain::DOMAIN, "NAME", "serve this domain by HTTPS, with a certificate by ACME, on ports 80 and 443, and redirect HTTP to it; may be repeated"),
    flag("acme-email", "EMAIL", Means::Key("tls.acme.email"), "address of the operator for the CA (none)"),
    flag("acme-ca", "URL", Means::Key("tls.acme.ca[0].directory"), "ACME directory of another CA (Let's Encrypt)"),
];

/// The flags of `serve` alone.
#[rustfmt::skip]
pub const SERVE: &[Flag] = &[
    flag("index", "NAMES", Means::Key("site[0].route[0].files.index"), "index files, separated by commas (index.html)"),
    flag("listing", "", Means::True("site[0].route[0].files.listing"), "list directories without an index file"),
    flag("spa", "", Means::True("site[0].route[0].files.spa"), "single-page application: index.html for paths without a file that a browser navigates to"),
    flag("redirect-https", "", Means::True("site[0].redirect_https"), "redirect requests without TLS to https, which an https:// listen address or a proxy in front must serve"),
    flag("basic-auth", "USER:HASH", Means::Member("site[0].route[0].access.basic.users"), "require a password: the user with the hash that `htpasswd -nB USER` or `argon2` prints; may be repeated"),
    flag("dotfiles", "", Means::True("site[0].route[0].files.dotfiles"), "serve names that begin with a dot"),
    flag("symlinks", "RULE", Means::Key("site[0].route[0].files.symlinks"), "never, beneath or follow (beneath)"),
];

/// `-c`.
pub const FILE: &[Flag] = &[short(
    'c',
    flag("config", "FILE", Means::File, "configuration file (larder.toml, then /etc/larder/larder.toml)"),
)];

/// The flags of `check` alone.
#[rustfmt::skip]
pub const CHECK: &[Flag] = &[
    own("connect", "", "connect to every server that the configuration names, and print a remedy for each failure"),
    own("against-recent", "", "try the configuration on the recent requests of the running larder (the one with this file, that of --admin, or the only one); exit code 1 if private responses would be shared"),
    flag("json", "", Means::Json, "print JSON, with --against-recent"),
];

/// `-c` of a command that contacts a running larder.
const OF_FILE: Flag = short(
    'c',
    flag("config", "FILE", Means::File, "query the larder that runs with this configuration file"),
);

/// The flags of `explain`.
#[rustfmt::skip]
pub const EXPLAIN: &[Flag] = &[
    short('H', flag("header", "'NAME: VALUE'", Means::Field, "header field of the request; may be repeated")),
    short('X', flag("method", "METHOD", Means::Method, "method of the request (GET)")),
    own("client", "ADDR", "address of the client, or `unix` (127.0.0.1)"),
    own("listener", "ADDR:PORT", "listener at which the request arrives, as in `listen` (that of the port of the URL)"),
    own("server-name", "NAME", "name in the TLS handshake of the connection (the host of the URL)"),
    own("id", "ID", "a past request instead of a URL: its id from `larder tail --json`, the live stream or a trace"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the one on this machine that serves the port of the URL)"),
    OF_FILE,
];

const fn own(long: &'static str, value: &'static str, help: &'static str) -> Flag {
    flag(long, value, Means::Own(long), help)
}

/// The flags of `purge`.
#[rustfmt::skip]
pub const PURGE: &[Flag] = &[
    own("prefix", "URL", "purge every URL with this prefix"),
    own("tag", "TAG", "purge every response with this tag (Surrogate-Key, Cache-Tag, Cache-Groups); may be repeated"),
    own("where", "CONDITION", "purge every response that matches, such as 'status >= 500'"),
    own("all", "", "purge everything"),
    own("soft", "", "mark as stale: a stale response may still be served where that is allowed"),
    own("validate", "", "validate with the origin before the next use"),
    own("host", "HOST", "host of URLs that begin with a slash"),
    own("wait", "", "wait until every node of the fleet has applied the purge"),
    own("dry-run", "", "count the responses that would be purged, and purge nothing"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to purge (the one on this machine that serves the port of the URL, or \
                 the only one)"),
    OF_FILE,
];

/// The flags of `tail`.
#[rustfmt::skip]
pub const TAIL: &[Flag] = &[
    flag("json", "", Means::Json, "print one JSON object per line and request"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `top`.
#[rustfmt::skip]
pub const TOP: &[Flag] = &[
    own("by", "COLUMN", "sort URLs or clients by requests, misses, bytes or origin_time (requests)"),
    own("clients", "", "list addresses of clients in place of URLs; of IPv6 networks of a /64"),
    own("once", "", "print the totals since the start once, and exit"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `stats`.
#[rustfmt::skip]
pub const STATS: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `overlay`.
#[rustfmt::skip]
pub const OVERLAY: &[Flag] = &[
    own("ttl", "DURATION", "expire after this time (never)"),
    own("status", "CODE", "status of the page: 200, or 400 to 599 (200)"),
    own("type", "TYPE", "Content-Type (by the extension of FILE, then of the URI, then by the content)"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `origin`.
#[rustfmt::skip]
pub const ORIGIN: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `tls`.
#[rustfmt::skip]
pub const TLS: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `maintenance`.
#[rustfmt::skip]
pub const MAINTENANCE: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `login`.
#[rustfmt::skip]
pub const LOGIN: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `upgrade`.
#[rustfmt::skip]
pub const UPGRADE: &[Flag] = &[
    own("timeout", "SECONDS", "maximum time for each step of the new process, up to 3600 (60)"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to upgrade (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `objects`.
#[rustfmt::skip]
pub const OBJECTS: &[Flag] = &[
    own("tier", "all|ram|disk", "only entries of this tier; all: entries in RAM, then those on disk only (all)"),
    own("sort", "BY", "sort by key, size, age, hits or expires (key); on disk by size, hits or age (age)"),
    own("order", "asc|desc", "sort order (asc for key and expires, desc for the others)"),
    own("limit", "N", "maximum number of entries, up to 1000 (100)"),
    own("tag", "TAG", "only entries with this tag"),
    own("status", "STATUS", "only entries with this status: 404, 4xx or 400-499"),
    own("cursor", "NEXT", "continue after an earlier page: its `next` value"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `bench`.
#[rustfmt::skip]
pub const BENCH: &[Flag] = &[
    own("server", "HOST:PORT", "memcached server of the fleet; may be repeated (one is started)"),
    own("page-time", "DURATION", "response time of the origin (20ms)"),
    own("concurrency", "LIST", "concurrent clients, one row per value (1,5)"),
    own("rounds", "N", "number of rounds of the three variants (5)"),
    own("time", "DURATION", "duration of one measurement (1s)"),
    flag("json", "", Means::Json, "print JSON"),
];

/// The flags of `warm`.
#[rustfmt::skip]
pub const WARM: &[Flag] = &[
    own("sitemap", "URL", "sitemap or sitemap index, gzip or plain; fetched through larder"),
    own("log", "FILE", "access log in common or combined format; the most requested URLs come first"),
    own("list", "FILE|-", "one URL or path per line; `-` is standard input"),
    own("concurrency", "N", "concurrent requests (4)"),
    own("rate", "N", "maximum requests per second (unlimited)"),
    own("misses", "N", "stop after this many requests reached the origin (unlimited)"),
    own("to", "ADDRESS", "address of larder: HOST:PORT, unix:PATH or https://HOST:PORT, one per scheme; certificates are \
                 verified for other machines only (the larder on this machine)"),
    own("as", "http|https", "request every URL with this scheme: `http` if a proxy in front of larder terminates TLS (the scheme \
                 of each URL)"),
    short('H', flag("header", "'NAME: VALUE'", Means::Field, "header field of every request, such as Host for paths; may be repeated")),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "admin address of the larder whose listen address is used (the one on this machine)"),
    OF_FILE,
];

/// The flags of `trace`.
#[rustfmt::skip]
pub const TRACE: &[Flag] = &[
    own("route", "NAME", "record: only requests of this route (all)"),
    own("every", "N", "record: trace one in N requests while recording (the value of `site.route.trace`)"),
    own("for", "DURATION", "record: duration, or until Ctrl-C (30s)"),
    short('o', own("output", "FILE|-", "output file; `-` is standard output (traces.jsonl; plot: FILE with .html)")),
    flag("admin", "ADDR:PORT|unix:PATH", Means::AdminTarget, "record: admin address of the larder (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `sign`.
#[rustfmt::skip]
pub const SIGN: &[Flag] = &[
    own("expires", "DURATION", "how long the URL is valid (1h)"),
    own("prefix", "PATH", "valid for every page beneath this path, which ends with a slash (the page of the URL)"),
    own("ip", "NETWORK", "valid for clients of this network or address (every client)"),
    own("route", "NAME", "the route whose secret signs (the route of the URL)"),
    own("secret-file", "FILE", "file with the secret, in place of a configuration"),
    own("parameters", "PREFIX", "with --secret-file: access.signed.parameters of the route that verifies (none)"),
    FILE[0],
];
