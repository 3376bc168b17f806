//! Every command and every flag, declared once: the parser and `--help` read the same rows.

/// What a flag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Its value is the value of this configuration key.
    Key(&'static str),
    /// It has no value and sets this key to `true`.
    True(&'static str),
    /// `ADDR:PORT` or `off`, for the two keys of the admin interface.
    Admin,
    /// `KEY=VALUE`, for any key.
    Set,
    /// `-c FILE`.
    File,
    /// `Name: value`, a field of the request that is explained.
    Field,
    /// The method of the request that is explained.
    Method,
    /// JSON in place of text.
    Json,
    /// Which larder is asked.
    Ask,
    /// The command's own business, under this name.
    Own(&'static str),
}

/// One row of a table of flags.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// With `--`.
    pub long: &'static str,
    /// With `-`.
    pub short: Option<char>,
    /// Its value as help shows it; empty where it takes none.
    pub value: &'static str,
    /// What it does.
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
    short('l', flag("listen", "ADDR:PORT|https://ADDR:PORT|unix:PATH", Means::Key("listen"), "where clients are served; may be repeated (127.0.0.1:8080)")),
    flag("tls-self-signed", "", Means::True("tls.self_signed"), "serve by TLS, with a certificate made for a trial; also at --listen ADDR:PORT, not at http://ADDR:PORT"),
    short('w', flag("workers", "N", Means::Key("workers"), "worker threads (one for each core)")),
    flag("ram", "SIZE", Means::Key("cache.ram.size"), "bytes that the RAM tier may take (256MiB)"),
    flag("admin", "ADDR:PORT|off", Means::Admin, "the admin address (127.0.0.1:9180 or the next free port)"),
    flag("admin-socket", "PATH", Means::Key("admin.socket"), "Unix socket for the admin as well, for this user alone (none)"),
    flag("log", "FILE|-|off", Means::Key("log.access"), "access log; `-` is standard output (off)"),
    flag("log-format", "FORMAT", Means::Key("log.format"), "combined, common, json, or a line with {field}s (combined)"),
    flag("error-log", "FILE|-|off", Means::Key("log.error"), "error log; `-` is standard error (-)"),
    flag("default-ttl", "DURATION", Means::Key("cache.default_ttl"), "lifetime of responses that name none (off)"),
    flag("stale-while-revalidate", "DURATION", Means::Key("cache.stale_while_revalidate"), "serve stale for so long while validating (0s)"),
    flag("stale-if-error", "DURATION", Means::Key("cache.stale_if_error"), "serve stale for so long when the origin fails (1d)"),
    flag("private-cookies", "NAMES", Means::Key("cache.private_cookies"), "requests with one of these cookies pass the cache"),
    flag("body-size", "SIZE", Means::Key("limits.body_size"), "largest request body (64MiB)"),
    flag("set", "KEY=VALUE", Means::Set, "any other key of docs/generated/config.md; may be repeated"),
];

/// The flags of `serve` alone.
#[rustfmt::skip]
pub const SERVE: &[Flag] = &[
    flag("index", "NAMES", Means::Key("site[0].route[0].files.index"), "index files, separated by commas (index.html)"),
    flag("listing", "", Means::True("site[0].route[0].files.listing"), "list directories that have no index file"),
    flag("dotfiles", "", Means::True("site[0].route[0].files.dotfiles"), "serve names that begin with a dot"),
    flag("symlinks", "RULE", Means::Key("site[0].route[0].files.symlinks"), "never, beneath or follow (beneath)"),
];

/// `-c`.
pub const FILE: &[Flag] = &[short(
    'c',
    flag("config", "FILE", Means::File, "the configuration (larder.toml, then /etc/larder/larder.toml)"),
)];

/// The flags of `explain`.
#[rustfmt::skip]
pub const EXPLAIN: &[Flag] = &[
    short('H', flag("header", "'NAME: VALUE'", Means::Field, "a header field of the request; may be repeated")),
    short('X', flag("method", "METHOD", Means::Method, "the method of the request (GET)")),
    own("id", "ID", "a request of the past in place of a URL: its id in `larder tail --json`, the live stream or a trace"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the one on this machine that serves the URL's port)"),
];

const fn own(long: &'static str, value: &'static str, help: &'static str) -> Flag {
    flag(long, value, Means::Own(long), help)
}

/// The flags of `purge`.
#[rustfmt::skip]
pub const PURGE: &[Flag] = &[
    own("prefix", "URL", "everything whose URL begins so"),
    own("tag", "TAG", "everything with this tag (Surrogate-Key, Cache-Tag, Cache-Groups); may be repeated"),
    own("where", "CONDITION", "everything of which this is true, such as 'status >= 500'"),
    own("all", "", "everything"),
    own("soft", "", "it becomes stale: used as a stale response may be"),
    own("validate", "", "it is validated with the origin before it is used again"),
    own("host", "HOST", "the host of URLs that begin with a slash"),
    own("wait", "", "wait until every node of the fleet is past it"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the one on this machine that serves the URL's port, or the only one)"),
];

/// The flags of `tail`.
#[rustfmt::skip]
pub const TAIL: &[Flag] = &[
    flag("json", "", Means::Json, "print each request as JSON, one a line"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the only one on this machine)"),
];

/// The flags of `top`.
#[rustfmt::skip]
pub const TOP: &[Flag] = &[
    own("by", "COLUMN", "what URLs are ordered by: requests, misses, bytes or origin_time (requests)"),
    own("once", "", "print one picture of everything since the start, and end"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the only one on this machine)"),
];

/// The flags of `stats`.
#[rustfmt::skip]
pub const STATS: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the only one on this machine)"),
];

/// The flags of `overlay`.
#[rustfmt::skip]
pub const OVERLAY: &[Flag] = &[
    own("ttl", "DURATION", "the original returns after so long (never)"),
    own("status", "CODE", "the status of the page: 200, or 400 to 599 (200)"),
    own("type", "TYPE", "its Content-Type (by the extension of FILE, else of the URI, else by a look at it)"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the only one on this machine)"),
];

/// The flags of `origin`.
#[rustfmt::skip]
pub const ORIGIN: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the only one on this machine)"),
];

/// The flags of `login`.
#[rustfmt::skip]
pub const LOGIN: &[Flag] = &[
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the only one on this machine)"),
];

/// The flags of `objects`.
#[rustfmt::skip]
pub const OBJECTS: &[Flag] = &[
    own("tier", "all|ram|disk", "only what is there; all: what is in RAM, and then what is on disk alone (all)"),
    own("sort", "BY", "by key, size, age, hits or expires (key); on disk by size, hits or age (age)"),
    own("order", "asc|desc", "which end first (asc for key and expires, desc for the others)"),
    own("limit", "N", "how many at most, up to 1000 (100)"),
    own("tag", "TAG", "only what has this tag"),
    own("status", "STATUS", "only this status: 404, 4xx or 400-499"),
    own("cursor", "NEXT", "go on behind an earlier page, whose `next` this is"),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "which larder to ask (the only one on this machine)"),
];

/// The flags of `bench`.
#[rustfmt::skip]
pub const BENCH: &[Flag] = &[
    own("server", "HOST:PORT", "a memcached of the fleet; may be repeated (one is started)"),
    own("page-time", "DURATION", "how long the application behind larder takes for a page (20ms)"),
    own("concurrency", "LIST", "how many ask at the same time, one row each (1,5)"),
    own("rounds", "N", "how often the three take turns (5)"),
    own("time", "DURATION", "how long a turn lasts (1s)"),
    flag("json", "", Means::Json, "print JSON"),
];

/// The flags of `warm`.
#[rustfmt::skip]
pub const WARM: &[Flag] = &[
    own("sitemap", "URL", "a sitemap or an index of sitemaps, gzip or not; larder is asked for it"),
    own("log", "FILE", "an access log in the common or combined form; what was asked for most comes first"),
    own("list", "FILE|-", "one URL or path a line; `-` is standard input"),
    own("concurrency", "N", "requests under way at once (4)"),
    own("rate", "N", "requests begun in a second at most (no bound)"),
    own("misses", "N", "stop when so many requests have reached the origin (no bound)"),
    own("to", "ADDRESS", "where larder serves: HOST:PORT, unix:PATH or https://HOST:PORT; one of each scheme may be given; whose certificate it is, is asked of other machines only (the one that runs on this machine)"),
    own("as", "http|https", "ask for every URL by this scheme: `http` where a proxy in front of larder ends TLS (each by its own)"),
    short('H', flag("header", "'NAME: VALUE'", Means::Field, "a header field of every request, such as the Host of paths; may be repeated")),
    flag("json", "", Means::Json, "print JSON"),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "the larder that is asked where it serves (the one on this machine)"),
];

/// The flags of `trace`.
#[rustfmt::skip]
pub const TRACE: &[Flag] = &[
    own("route", "NAME", "record: the requests of this route (all)"),
    own("every", "N", "record: trace one in N requests meanwhile (as `site.route.trace` says)"),
    own("for", "DURATION", "record: for so long, or until Ctrl-C (30s)"),
    short('o', own("output", "FILE|-", "where to; `-` is standard output (traces.jsonl; plot: FILE with .html)")),
    flag("admin", "ADDR:PORT|unix:PATH", Means::Ask, "record: which larder (the only one on this machine)"),
];

/// Which command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
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
    /// `larder objects`.
    Objects,
    /// `larder warm`.
    Warm,
    /// `larder stats`.
    Stats,
    /// `larder overlay WHAT`.
    Overlay,
    /// `larder origin WHAT`.
    Origin,
    /// `larder login`.
    Login,
    /// `larder tail`.
    Tail,
    /// `larder top`.
    Top,
    /// `larder demo`.
    Demo,
    /// `larder bench WHAT`.
    Bench,
    /// `larder trace record` and `larder trace plot FILE`.
    Trace,
}

/// One row of the table of commands.
#[derive(Clone, Copy, Debug)]
pub struct Describe {
    /// Which.
    pub name: Name,
    /// As it is typed.
    pub word: &'static str,
    /// The argument that it needs, and how it is found in messages; empty where it needs none; with `...` behind it any
    /// number, none included.
    pub argument: &'static str,
    /// What the argument is.
    pub argument_help: &'static str,
    /// One line.
    pub about: &'static str,
    /// Its flags, in groups.
    pub flags: &'static [&'static [Flag]],
    /// At least one: what is typed, and what it does.
    pub examples: &'static [(&'static str, &'static str)],
}

/// The commands, in the order of `--help`.
pub const COMMANDS: &[Describe] = &[
    Describe {
        name: Name::Proxy,
        word: "proxy",
        argument: "ORIGIN",
        argument_help: "the application: http://HOST:PORT, HOST:PORT, :PORT or unix:PATH",
        about: "Stand in front of an application and cache what it allows",
        flags: &[SERVER],
        examples: &[
            ("larder proxy http://127.0.0.1:8000", "caches the application on 127.0.0.1:8080"),
            ("larder proxy :3000 --listen 0.0.0.0:80 --ram 2GiB", "for other machines, with 2 GiB of pages"),
            ("larder proxy unix:/run/app.sock --default-ttl 1m", "pages without a lifetime live a minute"),
        ],
    },
    Describe {
        name: Name::Serve,
        word: "serve",
        argument: "DIR",
        argument_help: "the directory whose files are served",
        about: "Serve the files of a directory",
        flags: &[SERVE, SERVER],
        examples: &[
            ("larder serve public", "serves public/ on 127.0.0.1:8080"),
            ("larder serve . --listing --listen 127.0.0.1:0", "lists directories, on a free port"),
        ],
    },
    Describe {
        name: Name::Run,
        word: "run",
        argument: "",
        argument_help: "",
        about: "Run as a configuration file says; flags go over it",
        flags: &[FILE, SERVER],
        examples: &[
            ("larder run", "reads larder.toml here, or else /etc/larder/larder.toml"),
            ("larder run -c site.toml --log -", "prints the access log"),
        ],
    },
    Describe {
        name: Name::Check,
        word: "check",
        argument: "",
        argument_help: "",
        about: "Read a configuration file and tell everything that is wrong with it",
        flags: &[FILE, SERVER],
        examples: &[("larder check -c site.toml", "prints OK and a summary, or every error with its line")],
    },
    Describe {
        name: Name::Explain,
        word: "explain",
        argument: "URL",
        argument_help: "the URL as a client of the running larder would ask for it",
        about: "Tell why a URL is, or is not, answered from the cache",
        flags: &[EXPLAIN],
        examples: &[
            ("larder explain http://127.0.0.1:8080/", "every rule in order, and the verdict"),
            (
                "larder explain http://127.0.0.1:8080/me -H 'Cookie: session=1'",
                "the same for a visitor with a cookie",
            ),
            ("larder explain http://127.0.0.1:8080/ --json", "for programs"),
            (
                "larder explain --id 1fq2k8zd",
                "a request that `larder tail --json` told of, and what happened then",
            ),
        ],
    },
    Describe {
        name: Name::Purge,
        word: "purge",
        argument: "URL...",
        argument_help: "what to remove: URLs as clients of the running larder ask for them",
        about: "Remove what is stored: pages, everything with a tag, or all",
        flags: &[PURGE],
        examples: &[
            ("larder purge http://127.0.0.1:8080/news", "removes one page, with all its variants"),
            ("larder purge --tag product-17 --soft", "lets everything with this tag be stale from now on"),
            (
                "larder purge --prefix http://127.0.0.1:8080/blog/ --wait",
                "returns when all nodes are past it",
            ),
            (
                "larder purge --where 'header[\"content-type\"] ~ \"^text/html\" && age > 3600'",
                "removes pages that are older than an hour",
            ),
        ],
    },
    Describe {
        name: Name::Objects,
        word: "objects",
        argument: "SEARCH...",
        argument_help: "a part of the URL; or, with *, a pattern for all of it, from the host or the path on",
        about: "List what is stored",
        flags: &[OBJECTS],
        examples: &[
            ("larder objects --sort hits --limit 20", "what is asked for most"),
            ("larder objects '/blog/*.html' --sort size", "the largest pages of the blog"),
            ("larder objects --tier disk --sort size", "the largest that are on disk"),
            ("larder objects --status 4xx --json", "stored errors, for programs"),
        ],
    },
    Describe {
        name: Name::Warm,
        word: "warm",
        argument: "",
        argument_help: "",
        about: "Ask a running larder for many pages, so that it has them",
        flags: &[WARM],
        examples: &[
            ("larder warm --sitemap http://127.0.0.1:8080/sitemap.xml", "asks for every page of the sitemap"),
            (
                "larder warm --log access.log -H 'Host: www.example.com' --misses 1000",
                "asks the origin a thousand times at most",
            ),
            (
                "larder warm --list urls.txt --concurrency 16 --rate 50 --json",
                "fifty requests a second; for programs",
            ),
            (
                "larder warm --sitemap https://www.example.com/sitemap.xml --as http",
                "behind a proxy that ends TLS: in clear, as that proxy asks",
            ),
        ],
    },
    Describe {
        name: Name::Tail,
        word: "tail",
        argument: "FILTER...",
        argument_help: "which requests, such as 'status >= 500 && route == \"api\"'; without it, all",
        about: "Show the requests of a running larder as they are finished",
        flags: &[TAIL],
        examples: &[
            ("larder tail", "one line for each request"),
            (
                "larder tail 'status >= 500 && route == \"api\" && cache != \"hit\"'",
                "failures of one route that the cache did not answer",
            ),
            ("larder tail 'duration_us > 100ms' --json", "slow ones; for programs"),
        ],
    },
    Describe {
        name: Name::Top,
        word: "top",
        argument: "",
        argument_help: "",
        about: "Watch a running larder: rates, latency, memory, routes and the heaviest URLs",
        flags: &[TOP],
        examples: &[
            ("larder top", "anew each second; 1 to 4 choose a column, q quits"),
            ("larder top --once --by origin_time", "what costs the application most, once"),
        ],
    },
    Describe {
        name: Name::Stats,
        word: "stats",
        argument: "",
        argument_help: "",
        about: "Tell what a running larder has counted: hits, latency, routes, tiers, memory, limits",
        flags: &[STATS],
        examples: &[
            ("larder stats", "everything since the start, for a person"),
            ("larder stats --json", "for programs: docs/statistics.md"),
        ],
    },
    Describe {
        name: Name::Overlay,
        word: "overlay",
        argument: "WHAT...",
        argument_help: "add URI FILE, remove URI, or list",
        about: "Put a page over whatever a running larder serves at a URI, or take it away again",
        flags: &[OVERLAY],
        examples: &[
            ("larder overlay add /shop soon.html --status 503 --ttl 1h", "on every host, for an hour"),
            ("larder overlay add http://www.example.com/news -", "on one host; reads standard input"),
            ("larder overlay remove /shop", "the original returns"),
            ("larder overlay list", "with how often each was asked for"),
        ],
    },
    Describe {
        name: Name::Origin,
        word: "origin",
        argument: "WHAT...",
        argument_help: "list, drain ORIGIN, or restore ORIGIN, by its address as in proxy.to",
        about: "Take an origin of a running larder out of use, put it back, or tell how all are",
        flags: &[ORIGIN],
        examples: &[
            ("larder origin list", "each with its state, and what it has under way"),
            (
                "larder origin drain http://10.0.0.2:8000",
                "what is under way ends, nothing new begins: until restore, or a restart of larder",
            ),
            (
                "larder origin restore http://10.0.0.2:8000",
                "it is asked again, little by little (slow_start)",
            ),
        ],
    },
    Describe {
        name: Name::Login,
        word: "login",
        argument: "",
        argument_help: "",
        about: "Print a link that opens the admin page of a running larder, once",
        flags: &[LOGIN],
        examples: &[("larder login", "prints a link for the browser; it works once, within ten minutes")],
    },
    Describe {
        name: Name::Demo,
        word: "demo",
        argument: "",
        argument_help: "",
        about: "Start a slow site and larder in front of it, and say what to try",
        flags: &[SERVER],
        examples: &[("larder demo", "prints two addresses and what to try")],
    },
    Describe {
        name: Name::Bench,
        word: "bench",
        argument: "WHAT",
        argument_help: "tiers: RAM over a memcached fleet, the fleet alone, and no cache",
        about: "Measure on this machine what the tiers are worth",
        flags: &[BENCH],
        examples: &[
            ("larder bench tiers", "starts a slow site, a memcached and three larders, and prints a table"),
            ("larder bench tiers --server 10.0.0.1:11211 --concurrency 1,5,50", "with a memcached elsewhere"),
        ],
    },
    Describe {
        name: Name::Trace,
        word: "trace",
        argument: "WHAT...",
        argument_help: "record, or plot FILE",
        about: "Record where the time of requests goes, and draw it",
        flags: &[TRACE],
        examples: &[
            (
                "larder trace record --every 100 --for 1m",
                "writes one in a hundred requests of a minute to traces.jsonl",
            ),
            (
                "larder trace record --route 'shop.example.com/*' --every 1 -o shop.jsonl",
                "every request of one route",
            ),
            ("larder trace plot traces.jsonl", "draws them: traces.html, for a browser"),
        ],
    },
];

/// Commands of the design that are not built yet.
pub const NOT_BUILT: &[&str] = &["replay"];

/// What the exit codes mean.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "done; a server was stopped and its requests were finished"),
    (
        1,
        "it ran, and failed: no larder answers, requests were cut off at the stop, a purge is not certain everywhere, a page to warm failed",
    ),
    (2, "nothing was started: the command line, the configuration, an address or a port is wrong"),
];
