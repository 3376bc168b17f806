//! The table of commands and flags: the command-line parser and `--help` read the same rows.

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
    Ask,
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

/// The flags of `serve` alone.
#[rustfmt::skip]
pub const SERVE: &[Flag] = &[
    flag("index", "NAMES", Means::Key("site[0].route[0].files.index"), "index files, separated by commas (index.html)"),
    flag("listing", "", Means::True("site[0].route[0].files.listing"), "list directories without an index file"),
    flag("spa", "", Means::True("site[0].route[0].files.spa"), "single-page application: index.html for paths without a file that a browser navigates to"),
    flag("redirect-https", "", Means::True("site[0].redirect_https"), "redirect requests without TLS to https; requires an https:// listen address or a trusted proxy"),
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
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the one on this machine that serves the port of the URL)"),
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
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to purge (the one on this machine that serves the port of the URL, or \
                 the only one)"),
    OF_FILE,
];

/// The flags of `tail`.
#[rustfmt::skip]
pub const TAIL: &[Flag] = &[
    flag("json", "", Means::Json, "print one JSON object per line and request"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `top`.
#[rustfmt::skip]
pub const TOP: &[Flag] = &[
    own("by", "COLUMN", "sort URLs by requests, misses, bytes or origin_time (requests)"),
    own("once", "", "print the totals since the start once, and exit"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `stats`.
#[rustfmt::skip]
pub const STATS: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `overlay`.
#[rustfmt::skip]
pub const OVERLAY: &[Flag] = &[
    own("ttl", "DURATION", "expire after this time (never)"),
    own("status", "CODE", "status of the page: 200, or 400 to 599 (200)"),
    own("type", "TYPE", "Content-Type (by the extension of FILE, then of the URI, then by the content)"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `origin`.
#[rustfmt::skip]
pub const ORIGIN: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `tls`.
#[rustfmt::skip]
pub const TLS: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `maintenance`.
#[rustfmt::skip]
pub const MAINTENANCE: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `login`.
#[rustfmt::skip]
pub const LOGIN: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
    OF_FILE,
];

/// The flags of `upgrade`.
#[rustfmt::skip]
pub const UPGRADE: &[Flag] = &[
    own("timeout", "SECONDS", "maximum time for each step of the new process, up to 3600 (60)"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to upgrade (the only one on this machine)"),
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
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder to query (the only one on this machine)"),
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
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "admin address of the larder whose listen address is used (the one on this machine)"),
    OF_FILE,
];

/// The flags of `trace`.
#[rustfmt::skip]
pub const TRACE: &[Flag] = &[
    own("route", "NAME", "record: only requests of this route (all)"),
    own("every", "N", "record: trace one in N requests while recording (the value of `site.route.trace`)"),
    own("for", "DURATION", "record: duration, or until Ctrl-C (30s)"),
    short('o', own("output", "FILE|-", "output file; `-` is standard output (traces.jsonl; plot: FILE with .html)")),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "record: admin address of the larder (the only one on this machine)"),
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

/// The name of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandName {
    /// `larder proxy ORIGIN`.
    Proxy,
    /// `larder serve DIR`.
    Serve,
    /// `larder run`.
    Run,
    /// `larder check`.
    Check,
    /// `larder explain URL`.
    Explain,
    /// `larder purge URL...`.
    Purge,
    /// `larder sign URL`.
    Sign,
    /// `larder objects`.
    Objects,
    /// `larder warm`.
    Warm,
    /// `larder stats`.
    Stats,
    /// `larder overlay ACTION`.
    Overlay,
    /// `larder origin ACTION`.
    Origin,
    /// `larder tls list`.
    Tls,
    /// `larder maintenance ACTION`.
    Maintenance,
    /// `larder login`.
    Login,
    /// `larder upgrade`.
    Upgrade,
    /// `larder tail`.
    Tail,
    /// `larder top`.
    Top,
    /// `larder demo`.
    Demo,
    /// `larder bench COMPARISON`.
    Bench,
    /// `larder trace record` and `larder trace plot FILE`.
    Trace,
    /// `larder completions SHELL`.
    Completions,
    /// `larder man [PAGE]`.
    Man,
    /// `larder version`.
    Version,
}

/// One row of the table of commands.
#[derive(Clone, Copy, Debug)]
pub struct CommandRow {
    /// Its name.
    pub name: CommandName,
    /// The word on the command line.
    pub word: &'static str,
    /// The required argument, as named in messages; empty if there is none; followed by `...` for any number, including
    /// none.
    pub argument: &'static str,
    /// The meaning of the argument.
    pub argument_help: &'static str,
    /// One line.
    pub about: &'static str,
    /// Its flags, in groups.
    pub flags: &'static [&'static [Flag]],
    /// The examples, at least one: the command line, and its effect.
    pub examples: &'static [(&'static str, &'static str)],
}

/// The commands, in the order of `--help`.
pub const COMMANDS: &[CommandRow] = &[
    CommandRow {
        name: CommandName::Proxy,
        word: "proxy",
        argument: "ORIGIN",
        argument_help: "the origin: http://HOST:PORT, HOST:PORT, :PORT or unix:PATH",
        about: "Run a reverse proxy that caches the responses of an origin",
        flags: &[SERVER],
        examples: &[
            ("larder proxy http://127.0.0.1:8000", "caches the origin on 127.0.0.1:8080"),
            (
                "larder proxy :3000 --listen 0.0.0.0:80 --ram 2GiB",
                "reachable from other machines, with a 2 GiB cache",
            ),
            (
                "larder proxy unix:/run/app.sock --default-ttl 1m",
                "pages without a lifetime are fresh for 1 minute",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Serve,
        word: "serve",
        argument: "DIR",
        argument_help: "the directory to serve",
        about: "Serve the files of a directory, compressed, with clean URLs and its 404.html",
        flags: &[SERVE, SERVER],
        examples: &[
            ("larder serve public", "serves public/ on 127.0.0.1:8080"),
            ("larder serve . --listing --listen 127.0.0.1:0", "lists directories, on a free port"),
            ("larder serve dist --spa", "serves a single-page application with its own routes"),
        ],
    },
    CommandRow {
        name: CommandName::Run,
        word: "run",
        argument: "",
        argument_help: "",
        about: "Run with a configuration file; flags override it",
        flags: &[FILE, SERVER],
        examples: &[
            ("larder run", "reads ./larder.toml, otherwise /etc/larder/larder.toml"),
            ("larder run -c site.toml --log -", "prints the access log"),
        ],
    },
    CommandRow {
        name: CommandName::Check,
        word: "check",
        argument: "",
        argument_help: "",
        about: "Check a configuration file and print every error; connects to no server without --connect",
        flags: &[FILE, CHECK, SERVER],
        examples: &[
            ("larder check -c site.toml", "prints OK and a summary, or every error with its line number"),
            (
                "larder check -c site.toml --connect",
                "also connects to every origin and memcached server; exit code 1 if one fails",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Explain,
        word: "explain",
        argument: "URL",
        argument_help: "the URL as a client of the running larder requests it",
        about: "Explain why a URL is or is not served from the cache",
        flags: &[EXPLAIN],
        examples: &[
            ("larder explain http://127.0.0.1:8080/", "prints every rule in order, and the verdict"),
            (
                "larder explain http://127.0.0.1:8080/me -H 'Cookie: session=1'",
                "the same for a client with a cookie",
            ),
            (
                "larder explain http://127.0.0.1:8080/admin --client 192.0.2.7",
                "the same for a client at this address: names the rule of access that decides",
            ),
            ("larder explain http://127.0.0.1:8080/ --json", "JSON output"),
            ("larder explain --id 1fq2k8zd", "the trace of a request shown by `larder tail --json`"),
        ],
    },
    CommandRow {
        name: CommandName::Purge,
        word: "purge",
        argument: "URL...",
        argument_help: "the URLs to purge, as clients of the running larder request them",
        about: "Purge stored responses: by URL, prefix, tag or condition, or all",
        flags: &[PURGE],
        examples: &[
            ("larder purge http://127.0.0.1:8080/news", "purges one page with all its variants"),
            ("larder purge --tag product-17 --soft", "marks every response with this tag as stale"),
            (
                "larder purge --prefix http://127.0.0.1:8080/blog/ --wait",
                "returns when all nodes have applied it",
            ),
            (
                "larder purge --where 'header[\"content-type\"] ~ \"^text/html\" && age > 3600'",
                "purges HTML pages older than 1 hour",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Sign,
        word: "sign",
        argument: "URL",
        argument_help: "the URL as clients request it",
        about: "Sign a URL of a route with access.signed",
        flags: &[SIGN],
        examples: &[
            (
                "larder sign https://www.example.com/report.pdf --expires 10m",
                "prints the URL with its signature",
            ),
            (
                "larder sign https://www.example.com/video/42/index.m3u8 --prefix /video/42/",
                "the query of the printed URL admits to every page beneath /video/42/",
            ),
            (
                "larder sign http://127.0.0.1:8080/a --secret-file url-secret --ip 192.0.2.0/24",
                "without a configuration, for clients of one network",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Objects,
        word: "objects",
        argument: "SEARCH...",
        argument_help: "a part of the URL; with *, a pattern for the whole URL, starting at the host or the path",
        about: "List the stored responses",
        flags: &[OBJECTS],
        examples: &[
            ("larder objects --sort hits --limit 20", "the most requested entries"),
            ("larder objects '/blog/*.html' --sort size", "the largest pages below /blog/"),
            ("larder objects --tier disk --sort size", "the largest entries on disk"),
            ("larder objects --status 4xx --json", "stored 4xx responses, as JSON"),
        ],
    },
    CommandRow {
        name: CommandName::Warm,
        word: "warm",
        argument: "",
        argument_help: "",
        about: "Warm the cache of a running larder by requesting many pages",
        flags: &[WARM],
        examples: &[
            ("larder warm --sitemap http://127.0.0.1:8080/sitemap.xml", "requests every page of the sitemap"),
            (
                "larder warm --log access.log -H 'Host: www.example.com' --misses 1000",
                "stops after 1000 requests to the origin",
            ),
            (
                "larder warm --list urls.txt --concurrency 16 --rate 50 --json",
                "50 requests per second, JSON output",
            ),
            (
                "larder warm --sitemap https://www.example.com/sitemap.xml --as http",
                "uses HTTP in clear text, as behind a proxy that terminates TLS",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Tail,
        word: "tail",
        argument: "FILTER...",
        argument_help: "a filter such as 'status >= 500 && route == \"api\"'; default: all requests",
        about: "Print the requests of a running larder as they finish",
        flags: &[TAIL],
        examples: &[
            ("larder tail", "one line per request"),
            (
                "larder tail 'status >= 500 && route == \"api\" && cache != \"hit\"'",
                "failures of one route that were not cache hits",
            ),
            ("larder tail 'duration_us > 100ms' --json", "slow requests, as JSON"),
        ],
    },
    CommandRow {
        name: CommandName::Top,
        word: "top",
        argument: "",
        argument_help: "",
        about: "Show live statistics of a running larder: rates, latency, memory, routes and top URLs",
        flags: &[TOP],
        examples: &[
            ("larder top", "refreshes every second; keys 1 to 4 select the sort column, q quits"),
            ("larder top --once --by origin_time", "prints the URLs with the most origin time, once"),
        ],
    },
    CommandRow {
        name: CommandName::Stats,
        word: "stats",
        argument: "",
        argument_help: "",
        about: "Print the statistics of a running larder: hits, latency, routes, tiers, memory, limits",
        flags: &[STATS],
        examples: &[
            ("larder stats", "totals since the start, as text"),
            ("larder stats --json", "JSON output: docs/statistics.md"),
        ],
    },
    CommandRow {
        name: CommandName::Overlay,
        word: "overlay",
        argument: "ACTION...",
        argument_help: "add URI FILE, remove URI, or list",
        about: "Set or remove an overlay: a page that replaces the response of a URI",
        flags: &[OVERLAY],
        examples: &[
            ("larder overlay add /shop soon.html --status 503 --ttl 1h", "on every host, for 1 hour"),
            (
                "larder overlay add http://www.example.com/news -",
                "on one host, with the page from standard input",
            ),
            ("larder overlay remove /shop", "the original returns"),
            ("larder overlay list", "lists overlays with their hits"),
        ],
    },
    CommandRow {
        name: CommandName::Origin,
        word: "origin",
        argument: "ACTION...",
        argument_help: "list, drain ORIGIN, or restore ORIGIN, with the address as in proxy.to",
        about: "List, drain or restore the origins of a running larder",
        flags: &[ORIGIN],
        examples: &[
            ("larder origin list", "lists each origin with its state and requests in progress"),
            (
                "larder origin drain http://10.0.0.2:8000",
                "requests in progress finish, new ones go elsewhere; until restore or a restart of larder",
            ),
            (
                "larder origin restore http://10.0.0.2:8000",
                "puts the origin back into use with a growing share (slow_start)",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Tls,
        word: "tls",
        argument: "ACTION...",
        argument_help: "list",
        about: "List the certificates of a running larder: expiry, next renewal, last failure",
        flags: &[TLS],
        examples: &[("larder tls list", "one line for each certificate, and for each name without one")],
    },
    CommandRow {
        name: CommandName::Maintenance,
        word: "maintenance",
        argument: "ACTION...",
        argument_help: "list, on [HOST], or off [HOST], with a host as in site.hosts; without HOST every site",
        about: "Put a site of a running larder under maintenance, or back into service",
        flags: &[MAINTENANCE],
        examples: &[
            (
                "larder maintenance on www.example.com",
                "answers every request with 503; saved in the configuration file, so that a restart keeps it",
            ),
            ("larder maintenance off www.example.com", "serves the site again"),
            ("larder maintenance list", "lists each site with its state"),
        ],
    },
    CommandRow {
        name: CommandName::Login,
        word: "login",
        argument: "",
        argument_help: "",
        about: "Print a single-use login link for the admin page of a running larder",
        flags: &[LOGIN],
        examples: &[("larder login", "prints a link that is valid once, for 10 minutes")],
    },
    CommandRow {
        name: CommandName::Upgrade,
        word: "upgrade",
        argument: "",
        argument_help: "",
        about: "Replace a running larder by the program that is on disk now, without losing a request",
        flags: &[UPGRADE],
        examples: &[(
            "larder upgrade",
            "after the program was replaced; if the new one fails, the running one serves on",
        )],
    },
    CommandRow {
        name: CommandName::Demo,
        word: "demo",
        argument: "",
        argument_help: "",
        about: "Start a slow demo site with larder in front of it",
        flags: &[SERVER],
        examples: &[("larder demo", "prints two addresses and what to try")],
    },
    CommandRow {
        name: CommandName::Bench,
        word: "bench",
        argument: "COMPARISON",
        argument_help: "tiers: RAM with a memcached fleet, the fleet only, and no cache",
        about: "Measure the gain of the tiers on this machine",
        flags: &[BENCH],
        examples: &[
            ("larder bench tiers", "starts a slow site, one memcached and three larders, and prints a table"),
            (
                "larder bench tiers --server 10.0.0.1:11211 --concurrency 1,5,50",
                "with a memcached on another machine",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Trace,
        word: "trace",
        argument: "ACTION...",
        argument_help: "record, or plot FILE",
        about: "Record the stages of requests, and plot them",
        flags: &[TRACE],
        examples: &[
            (
                "larder trace record --every 100 --for 1m",
                "writes one in 100 requests to traces.jsonl, for 1 minute",
            ),
            (
                "larder trace record --route 'shop.example.com/*' --every 1 -o shop.jsonl",
                "every request of one route",
            ),
            ("larder trace plot traces.jsonl", "writes a plot to traces.html"),
        ],
    },
    CommandRow {
        name: CommandName::Completions,
        word: "completions",
        argument: "SHELL",
        argument_help: "bash, zsh or fish",
        about: "Print the completions for a shell",
        flags: &[],
        examples: &[(
            "larder completions bash > /etc/bash_completion.d/larder",
            "completes commands and flags in bash",
        )],
    },
    CommandRow {
        name: CommandName::Man,
        word: "man",
        argument: "PAGE...",
        argument_help: "larder, the commands, or larder.toml, the configuration keys; default: larder",
        about: "Print a manual page in roff",
        flags: &[],
        examples: &[("larder man larder.toml | man -l -", "shows every configuration key")],
    },
    CommandRow {
        name: CommandName::Version,
        word: "version",
        argument: "",
        argument_help: "",
        about: "Print the version",
        flags: &[],
        examples: &[("larder version", "the same as larder --version")],
    },
];

/// Commands of the design that are not built yet.
pub const NOT_BUILT: &[&str] = &["replay"];
