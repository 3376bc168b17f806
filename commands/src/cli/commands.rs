//! The table of commands: the command-line parser, `--help`, the manual page and the completions read the same rows.

pub use super::flags::*;

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
    /// `larder advice`.
    Advice,
    /// `larder worst`.
    Worst,
    /// `larder nodes`.
    Nodes,
    /// `larder audit`.
    Audit,
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
        flags: &[PUBLIC, SERVER],
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
            (
                "larder proxy :3000 --domain example.com",
                "https://example.com with a certificate of Let's Encrypt, on ports 80 and 443",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Serve,
        word: "serve",
        argument: "DIR",
        argument_help: "the directory to serve",
        about: "Serve the files of a directory, compressed, with clean URLs and its 404.html",
        flags: &[SERVE, PUBLIC, SERVER],
        examples: &[
            ("larder serve public", "serves public/ on 127.0.0.1:8080"),
            ("larder serve . --listing --listen 127.0.0.1:0", "lists directories, on a free port"),
            ("larder serve dist --spa", "serves a single-page application with its own routes"),
            (
                "larder serve public --domain example.com --domain www.example.com",
                "https for both names, with certificates of Let's Encrypt",
            ),
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
        about: "Check a configuration file and print every error; connects to no server without --connect or --against-recent",
        flags: &[FILE, CHECK, SERVER],
        examples: &[
            ("larder check -c site.toml", "prints OK and a summary, or every error with its line number"),
            (
                "larder check -c site.toml --connect",
                "also connects to every origin and memcached server; exit code 1 if one fails",
            ),
            (
                "larder check -c site.toml --against-recent",
                "also prints the hit ratio, the routes and the statuses that recent requests of the running larder would get",
            ),
        ],
    },
    CommandRow {
        name: CommandName::Explain,
        word: "explain",
        argument: "URL",
        argument_help: "the URL as a client of the running larder requests it, a path of the first site, a tag (tag:NAME), or the id of a request",
        about: "Explain why a URL is or is not served from the cache",
        flags: &[EXPLAIN],
        examples: &[
            (
                "larder explain http://127.0.0.1:8080/",
                "prints the answer, whether it is right, safe changes, and every rule in order",
            ),
            ("larder explain /blog", "the same for a path of the first site"),
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
            ("larder purge --all --dry-run", "counts the stored responses, and purges nothing"),
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
            (
                "larder top",
                "refreshes every second; keys 1 to 4 select the sort column, c clients, u URLs, q quits",
            ),
            ("larder top --once --by origin_time", "prints the URLs with the most origin time, once"),
            ("larder top --once --clients --by misses", "prints the clients with the most misses, once"),
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
        name: CommandName::Advice,
        word: "advice",
        argument: "",
        argument_help: "",
        about: "Print findings about the cache of a running larder, each with safe changes and the requests that they would help",
        flags: &[STATS],
        examples: &[
            (
                "larder advice",
                "findings about the last 30 to 60 minutes, as text, with the difference in the configuration",
            ),
            ("larder advice --json", "JSON output, as /api/v1/advice"),
        ],
    },
    CommandRow {
        name: CommandName::Worst,
        word: "worst",
        argument: "",
        argument_help: "",
        about: "Print the slowest and the latest failed requests of a running larder, which it keeps without sampling and over restarts",
        flags: &[STATS],
        examples: &[
            ("larder worst", "20 of each, as text"),
            ("larder worst --json", "JSON output, as /api/v1/worst"),
        ],
    },
    CommandRow {
        name: CommandName::Nodes,
        word: "nodes",
        argument: "",
        argument_help: "",
        about: "Print the nodes of the fleet, as a running larder reads them in the memcached servers: state, version, hit ratio, last report",
        flags: &[STATS],
        examples: &[
            ("larder nodes", "a table, and the state of each memcached server"),
            ("larder nodes --json", "JSON output, as /api/v1/nodes"),
        ],
    },
    CommandRow {
        name: CommandName::Audit,
        word: "audit",
        argument: "",
        argument_help: "",
        about: "Print the latest changes and rejected requests of the admin of a running larder, with the token of each; a file of admin.audit has them all",
        flags: &[STATS],
        examples: &[
            ("larder audit", "the latest last, a line each"),
            ("larder audit --json", "JSON output, as /api/v1/audit"),
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
                "answers every request with 503; written to the configuration file, which larder must be able to write",
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
            "after the program was replaced; if the new one fails, the running one keeps serving",
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
