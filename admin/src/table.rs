//! Every endpoint of the admin, declared once: its method, its path, its request and response, its function. Only these
//! rows are served, and docs/generated/openapi.json is generated from them.
//!
//! A new endpoint is one row, in the short form `row(METHOD, PATH, ACCESS, SUMMARY, RUN)` with its options:
//!
//! ```text
//! row("GET", "/api/v1/things", VIEWER, "Things that are.", |it, asked| Box::pin(async move { it.things(asked) }))
//!     .query(&[text("search", "part of a name"), integer("limit", 1, 1000, "how many at most"),
//!              one_of("order", &["asc", "desc"], "in which order")])    // other values are rejected with 400
//!     .gives(THINGS)                  // JSON schema of the answer with 200, a `&str` in the subject's own file
//!     .example("search=a&limit=2", "")    // its query and body; a test asks it and holds the answer against `gives`
//! row("PUT", "/api/v1/things", OPERATOR, ..).takes(THING).most(1 << 20).gives(THINGS).example("", r#"{"name":"a"}"#)
//! ```
//!
//! ACCESS is the least role that may call it, or `OPEN` and its kin for clients without a token; a viewer must not see there what
//! docs/decisions/0209-roles.md keeps from it. A row is a write, which the audit log records, unless it is a `GET` or
//! `.reads()`. The body of `takes` is validated before the function runs, and passed to it as `asked.json`: a name
//! outside of the schema is rejected, and the schema's `description` is the text for a missing one. `takes_any` and
//! `gives_any` are for bodies that are not JSON, `events` for streams of events. The query is read with
//! `asked.query_value("limit")`: decoded, and validated against its row.

use super::config::MaintenanceState;
use super::objects;
use super::parameters::{Parameter, integer, one_of, text};
use super::purge::PREVIEW;
use super::recent_sums::MINUTE_AGO;
use super::schemas::{
    self, CODE, DESCRIPTION, ENDED, EVERY, EXPLANATION, LINK, OVERLAYS, PURGE, PURGED, QUESTION, SAMPLING,
    SESSION, STATS, TRACES,
};
use super::stats::DETAIL;
use super::top::{TOP, TOP_RESET};
use super::{
    Admin, AdminRequest, AdminResponse, advice, config, history, nodes, server_state, sessions, why,
};
use larder_config::admin_role::AdminRole;
use larder_counters::top::{TopOrder, TopSubject};
use larder_semantics::policy::LONGEST_LIFETIME;
use std::future::Future;
use std::pin::Pin;

/// The default limit of a request body, bytes.
pub const BODY: usize = 64 * 1024;

/// The most bytes of an overlay page; `admin.overlay_size` limits all of them together.
pub const OVERLAY: usize = 32 << 20;

/// The most bytes of a request about a configuration.
pub const CONFIG: usize = 1 << 20;

type AdminFuture<'a> = Pin<Box<dyn Future<Output = AdminResponse> + 'a>>;

/// One row of the table.
pub struct Endpoint {
    /// The method; `GET` includes `HEAD`.
    pub method: &'static str,
    /// The path. `{name}` at its end matches the rest of the path, which is not empty.
    pub path: &'static str,
    /// One line: its purpose.
    pub summary: &'static str,
    /// The most bytes of a body.
    pub body: usize,
    /// Whether it exists only if tests move the clock.
    pub for_tests: bool,
    /// The required access.
    pub needs: EndpointAccess,
    /// Its effect on larder.
    pub effect: Effect,
    /// The parameters of the query.
    pub query: &'static [Parameter],
    /// Whether the query is part of the path's `{name}`, with any content.
    pub free_query: bool,
    /// The type of its body; `None` if it is ignored.
    pub takes: Option<Content>,
    /// The type of its response with 200.
    pub gives: Content,
    /// A well-formed query and body.
    pub example: Option<(&'static str, &'static str)>,
    /// Its function.
    pub run: for<'a> fn(&'a Admin, AdminRequest<'a>) -> AdminFuture<'a>,
}

/// The required access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointAccess {
    /// Clients with a token, or a session of one, that has this role or a greater one.
    Role(AdminRole),
    /// Every client that names this admin in `Host`, except pages of another web origin.
    Named,
    /// Every client, with any `Host` or none: monitors use the address of a load balancer, or HTTP/1.0. Its answer has nothing that a page
    /// of another origin may not read.
    Every,
    /// The same for requests without `Authorization`, which get one word; with it, as a viewer.
    Word,
}

impl EndpointAccess {
    /// The role that a client with a token needs; `None` if it needs no token.
    #[must_use]
    pub fn role(self) -> Option<AdminRole> {
        match self {
            EndpointAccess::Role(role) => Some(role),
            EndpointAccess::Word => Some(AdminRole::Viewer),
            EndpointAccess::Named | EndpointAccess::Every => None,
        }
    }
}

/// The accesses, as rows name them.
const OPEN: EndpointAccess = EndpointAccess::Named;
const ANY_NAME: EndpointAccess = EndpointAccess::Every;
const WORD: EndpointAccess = EndpointAccess::Word;
const VIEWER: EndpointAccess = EndpointAccess::Role(AdminRole::Viewer);
const OPERATOR: EndpointAccess = EndpointAccess::Role(AdminRole::Operator);
const ADMIN: EndpointAccess = EndpointAccess::Role(AdminRole::Admin);

/// The effect of an endpoint on larder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None.
    Reads,
    /// A change: recorded in the audit log.
    Writes,
}

/// The type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// JSON of this schema.
    Json(&'static str),
    /// Bytes of this media type.
    Any(&'static str),
    /// Server-sent events, with their description.
    Events(&'static str),
}

/// The result of a lookup by path and method.
pub enum EndpointMatch<'a> {
    /// This row, with the value of its `{name}`.
    Endpoint(&'static Endpoint, Option<&'a str>),
    /// The path has endpoints, but none with this method.
    OtherMethod,
    /// The path has none.
    Nothing,
}

const URI: Parameter = text("uri", "/PATH for every host, or http://HOST/PATH for one host; https://HOST/PATH is equivalent, and both are listed as *://HOST/PATH").required();

const ORIGIN: Parameter =
    text("origin", "its address as in proxy.to, such as http://10.0.0.2:8000").required();

/// The parameters of an overlay's target.
const OVER: &[Parameter] = &[
    URI,
    integer("ttl", 1, LONGEST_LIFETIME as i64, "seconds until it expires; default: never"),
    integer("status", 200, 599, "200, or 400 to 599"),
];

/// The parameters of the latest entries of the audit log.
const AUDIT_QUERY: &[Parameter] = &[
    text("who", "only of the token with this name"),
    text("search", "only those whose method and path have this text, such as PUT or /config"),
    integer("status", 100, 599, "only with this status"),
    one_of("kind", &["changes", "refused"], "only changes, or only rejected requests"),
    integer("limit", 1, 700, "maximum number of entries (all)"),
];

/// A schema that permits everything.
const ANYTHING: &str = "{}";

const fn row(
    method: &'static str,
    path: &'static str,
    needs: EndpointAccess,
    summary: &'static str,
    run: for<'a> fn(&'a Admin, AdminRequest<'a>) -> AdminFuture<'a>,
) -> Endpoint {
    let effect = match method.as_bytes() {
        b"GET" => Effect::Reads,
        _ => Effect::Writes,
    };
    Endpoint {
        method,
        path,
        summary,
        body: BODY,
        for_tests: false,
        needs,
        effect,
        query: &[],
        free_query: false,
        takes: None,
        gives: Content::Json(ANYTHING),
        example: None,
        run,
    }
}

impl Endpoint {
    /// Marks it as reading, although it is not a `GET`.
    const fn reads(mut self) -> Self {
        self.effect = Effect::Reads;
        self
    }

    /// Marks it as writing, although it is a `GET`.
    const fn writes(mut self) -> Self {
        self.effect = Effect::Writes;
        self
    }

    /// Makes it exist only if tests move the clock.
    const fn for_tests(mut self) -> Self {
        self.for_tests = true;
        self
    }

    /// Sets the most bytes of its body.
    const fn most(mut self, bytes: usize) -> Self {
        self.body = bytes;
        self
    }

    /// Sets the permitted parameters of the query.
    const fn query(mut self, parameters: &'static [Parameter]) -> Self {
        self.query = parameters;
        self
    }

    /// Makes the query part of its path's `{name}`.
    const fn free_query(mut self) -> Self {
        self.free_query = true;
        self
    }

    /// Sets the JSON schema of its body.
    const fn takes(mut self, schema: &'static str) -> Self {
        self.takes = Some(Content::Json(schema));
        self
    }

    /// Sets the media type of its body.
    const fn takes_any(mut self, media: &'static str) -> Self {
        self.takes = Some(Content::Any(media));
        self
    }

    /// Sets the JSON schema of its response.
    const fn gives(mut self, schema: &'static str) -> Self {
        self.gives = Content::Json(schema);
        self
    }

    /// Sets the media type of its response.
    const fn gives_any(mut self, media: &'static str) -> Self {
        self.gives = Content::Any(media);
        self
    }

    /// Makes it a stream of server-sent events, with this description.
    const fn events(mut self, which: &'static str) -> Self {
        self.gives = Content::Events(which);
        self
    }

    /// Sets an example of its query and body.
    const fn example(mut self, query: &'static str, body: &'static str) -> Self {
        self.example = Some((query, body));
        self
    }
}

/// The endpoints. If several match a path, the first counts.
#[rustfmt::skip]
pub static ENDPOINTS: &[Endpoint] = &[
    row("GET", "/", OPEN, "The page.", |it, asked| Box::pin(async move { it.page(asked) })).gives_any("text/html"),
    row("GET", "/assets/{name}", OPEN, "Returns a file of the admin page.", |it, asked| Box::pin(async move { it.asset(asked) })).gives_any("*/*"),
    row("GET", "/api/v1/openapi.json", VIEWER, "This description.", |it, _| Box::pin(async move { it.openapi() })).gives(DESCRIPTION),
    row("GET", "/healthz", ANY_NAME, "Health check of larder for monitoring: returns one word.", |it, _| Box::pin(async move { it.healthz() })).gives_any("text/plain"),
    row("GET", "/api/v1/health", WORD, "The state of the server: the findings, the worst first. Without a token it is one word as text: healthy, degraded or failing.", |it, asked| Box::pin(async move { it.server_state(&asked) })).gives(server_state::SERVER_STATE).example("", ""),
    row("GET", "/api/v1/history", VIEWER, "The history: samples of the counters in steps of 1 s (15 minutes), 10 s (6 hours) or more (7 days), and events, those before a restart included.", |it, asked| Box::pin(async move { it.history(&asked) }))
        .query(history::QUERY).gives(history::HISTORY).example("since=0&step=60", ""),
    row("GET", "/api/v1/history/difference", VIEWER, "Compares a time range of the last 6 hours with the time of the same length before it: routes, reasons and URLs by minute, slow and failed requests.", |it, asked| Box::pin(async move { it.history_difference(&asked) }))
        .query(&[integer("from", 0, 99_999_999_999, "its beginning, Unix time").required(), integer("to", 0, 99_999_999_999, "its end, Unix time (now)")]).gives(history::DIFFERENCE).example("from=1700000000&to=1700000300", ""),
    row("GET", "/api/v1/worst", VIEWER, "Lists the worst requests, without sampling: the slowest 100 of a day, the latest 30 that failed, and before them one or two of each route and minute.", |it, asked| Box::pin(async move { it.worst(&asked) }))
        .query(&[integer("since", 0, 99_999_999_999, "only those that ended at this Unix time or later"), integer("until", 0, 99_999_999_999, "or earlier")]).gives(history::WORST).example("since=0", ""),
    row("POST", "/api/v1/login", OPEN, "Starts a session with the code of a login link.", |it, asked| Box::pin(async move { it.login(asked) })).takes(CODE).gives(SESSION),
    row("POST", "/api/v1/login-links", VIEWER, "Creates a single-use login link.", |it, asked| Box::pin(async move { it.login_link(asked) })).gives(LINK).example("", ""),
    row("POST", "/api/v1/logout", VIEWER, "Ends the session of the request.", |it, asked| Box::pin(async move { it.logout(asked) })).gives(ENDED),
    row("POST", "/api/v1/logout/everywhere", VIEWER, "Ends all sessions of the token of the request, and makes its login links invalid.", |it, asked| Box::pin(async move { it.logout_everywhere(asked) })).gives(sessions::ALL_ENDED).example("", ""),
    row("GET", "/api/v1/whoami", VIEWER, "Returns the name and the role of the token of the request.", |it, asked| Box::pin(async move { it.whoami(&asked) })).gives(sessions::WHOAMI).example("", ""),
    row("GET", "/api/v1/sessions", ADMIN, "Lists the sessions of the page.", |it, asked| Box::pin(async move { it.sessions(&asked) })).gives(sessions::SESSIONS).example("", ""),
    row("DELETE", "/api/v1/sessions", ADMIN, "Ends all sessions, or those of one token, and makes the login links invalid.", |it, asked| Box::pin(async move { it.end_sessions(&asked) })).query(sessions::OF_TOKEN).gives(sessions::ALL_ENDED).example("token=admin", ""),
    row("DELETE", "/api/v1/sessions/{id}", ADMIN, "Ends a session.", |it, asked| Box::pin(async move { it.end_session(&asked) })).gives(ENDED),
    row("GET", "/api/v1/tokens", ADMIN, "Lists the tokens with their roles and last uses.", |it, _| Box::pin(async move { it.tokens() })).gives(sessions::TOKENS).example("", ""),
    row("GET", "/api/v1/audit", ADMIN, "Lists the latest changes and rejected requests, the latest first; of a file of admin.audit, those before a restart included.", |it, asked| Box::pin(async move { it.audit_entries(&asked) }))
        .query(AUDIT_QUERY).gives(schemas::AUDIT).example("limit=10", ""),
    row("GET", "/cache/stats", VIEWER, "The statistics.", |it, asked| Box::pin(it.stats(asked))).gives(STATS),
    row("GET", "/api/v1/stats", VIEWER, "The statistics.", |it, asked| Box::pin(it.stats(asked))).query(DETAIL).gives(STATS),
    row("GET", "/api/v1/stats/minute", VIEWER, "The sums of the statistics of a minute ago, or of the start of larder if that is later: the page opens with the figures of a whole minute.", |it, asked| Box::pin(async move { it.stats_minute_ago(&asked) })).gives(MINUTE_AGO),
    row("GET", "/metrics", VIEWER, "Returns the statistics in the Prometheus text format.", |it, _| Box::pin(it.metrics())).gives_any("text/plain"),
    row("POST", "/cache/explain", VIEWER, "Explains how a request would be served, and why.", |it, asked| Box::pin(it.explain(asked))).reads().takes(QUESTION).gives(EXPLANATION).example("", r#"{"url":"http://www.example.com/","headers":[["Cookie","a=b"]]}"#),
    row("POST", "/api/v1/explain", VIEWER, "Explains how a request would be served, and why.", |it, asked| Box::pin(it.explain(asked))).reads().takes(QUESTION).gives(EXPLANATION).example("", r#"{"url":"http://www.example.com/","headers":[["Cookie","a=b"]]}"#),
    row("POST", "/cache/purge", OPERATOR, "Purges stored responses.", |it, asked| Box::pin(it.purge(asked))).takes(PURGE).gives(PURGED).example("", r#"{"tag":"product-17","soft":true}"#),
    row("POST", "/api/v1/purge", OPERATOR, "Purges stored responses.", |it, asked| Box::pin(it.purge(asked))).takes(PURGE).gives(PURGED).example("", r#"{"tag":"product-17","soft":true}"#),
    row("POST", "/api/v1/purge/preview", VIEWER, "Counts the stored responses that a purge would match now, and purges nothing.", |it, asked| Box::pin(it.preview_purge(asked))).reads().takes(PURGE).gives(PREVIEW).example("", r#"{"tag":"product-17"}"#),
    row("GET", "/api/v1/overlays", VIEWER, "Lists the overlays: pages that replace the response of a URI.", |it, _| Box::pin(async move { it.overlays() })).gives(OVERLAYS),
    row("PUT", "/api/v1/overlays", OPERATOR, "Sets an overlay: the body replaces the response of a URI.", |it, asked| Box::pin(async move { it.put_overlay(&asked) })).most(OVERLAY).query(OVER).takes_any("*/*").gives(schemas::OVERLAY).example("uri=/late&ttl=60&status=503", "<p>Back soon"),
    row("DELETE", "/api/v1/overlays", OPERATOR, "Removes an overlay.", |it, asked| Box::pin(async move { it.remove_overlay(&asked) })).query(&[URI]).gives(schemas::OVERLAY).example("uri=/late", ""),
    row("POST", "/cache/add/{uri}", OPERATOR, "Sets an overlay: the body replaces the response of a URI.", |it, asked| Box::pin(async move { it.put_overlay(&asked) })).most(OVERLAY).free_query().takes_any("*/*").gives(schemas::OVERLAY),
    row("POST", "/cache/reset/{uri}", OPERATOR, "Removes an overlay.", |it, asked| Box::pin(async move { it.remove_overlay(&asked) })).free_query().gives(schemas::OVERLAY),
    row("GET", "/cache/reset/{uri}", OPERATOR, "Alias of the same endpoint in the older plugin.", |it, asked| Box::pin(async move { it.remove_overlay(&asked) })).writes().free_query().gives(schemas::OVERLAY),
    row("GET", "/api/v1/origins", VIEWER, "Lists the origins of all routes with their state.", |it, _| Box::pin(async move { it.origins() })).gives(schemas::ORIGINS).example("", ""),
    row("PUT", "/api/v1/origins/drain", OPERATOR, "Drains an origin: requests in progress finish, and it receives no new ones until it is restored or larder restarts. A reload that keeps its address keeps the drain.", |it, asked| Box::pin(async move { it.drain_origin(&asked) }))
        .query(&[ORIGIN]).gives(schemas::ORIGIN).example("origin=http://10.0.0.2:8000", ""),
    row("DELETE", "/api/v1/origins/drain", OPERATOR, "Restores a drained origin.", |it, asked| Box::pin(async move { it.restore_origin(&asked) }))
        .query(&[ORIGIN]).gives(schemas::ORIGIN).example("origin=http://10.0.0.2:8000", ""),
    row("GET", "/api/v1/certificates", VIEWER, "Lists the certificates in use, and the names of `tls.acme` with their renewals and failures.", |it, _| Box::pin(async move { it.certificates() })).gives(schemas::CERTIFICATES).example("", ""),
    row("GET", "/api/v1/objects", VIEWER, "Lists stored objects, page by page, with search and sort order.", |it, asked| Box::pin(it.objects(asked)))
        .query(objects::QUERY).gives(objects::PAGE).example("search=/a*&sort=size&order=desc&limit=10", ""),
    row("GET", "/api/v1/objects/{id}", VIEWER, "Returns one stored object with all its variants.", |it, asked| Box::pin(it.object(asked))).gives(objects::OBJECT),
    row("GET", "/api/v1/traces", VIEWER, "Returns the latest traces and the sampling rates.", |it, asked| Box::pin(async move { it.traces(&asked) }))
        .query(&[text("route", "only of this route"), integer("limit", 1, 4096, "maximum number of traces (200)")]).gives(TRACES),
    row("PUT", "/api/v1/traces/sampling", OPERATOR, "Sets the sampling rate of a route, until the next reload or restart, or for a number of seconds.", |it, asked| Box::pin(async move { it.set_sampling(&asked) })).takes(EVERY).gives(SAMPLING).example("", r#"{"route":"*","every":100}"#),
    row("GET", "/api/v1/traces/stream", VIEWER, "Streams traces as server-sent events.", |it, asked| Box::pin(async move { it.stream_traces(&asked) }))
        .query(&[text("route", "only of this route")]).events("`trace`: a trace; `lost`: number of dropped traces."),
    row("GET", "/api/v1/top", VIEWER, "Lists the top URLs, or the top clients.", |it, asked| Box::pin(it.top(asked)))
        .query(&[one_of("of", &TopSubject::NAMES, "the entries of the list (urls)"), one_of("by", &TopOrder::NAMES, "sort column"), integer("limit", 1, 1000, "maximum number of entries")])
        .gives(TOP).example("by=bytes&limit=2", ""),
    row("POST", "/api/v1/top/reset", OPERATOR, "Resets the counts of top URLs and clients.", |it, _| Box::pin(it.forget_top())).gives(TOP_RESET).example("", ""),
    row("GET", "/api/v1/why", VIEWER, "Returns why requests reached origins: the reasons, their counts by route, and an example of each.", |it, _| Box::pin(async move { it.reasons() })).gives(why::WHY).example("", ""),
    row("GET", "/api/v1/nodes", VIEWER, "Lists the nodes of the fleet as their records in the memcached servers state them: state, version, hit ratio, distance to the end of the purge logs; and the servers.", |it, _| Box::pin(async move { it.nodes() })).gives(nodes::NODES).example("", ""),
    row("GET", "/api/v1/advice", VIEWER, "Returns findings about the cache from the counted requests: each with the requests that it costs, and changes that share nothing private.", |it, _| Box::pin(it.advice())).gives(advice::ADVICE).example("", ""),
    row("GET", "/api/v1/stream", VIEWER, "Streams finished requests as server-sent events; `filter` selects requests.", |it, asked| Box::pin(async move { it.stream(asked) }))
        .query(&[text("filter", "a condition such as status >= 500"), integer("recent", 0, 300, "requests that have finished before, which are sent first (0)")])
        .events("`request`: a finished request; `recent`: number of requests before it that had finished before the stream began, the last of which may come again; `lost`: number of dropped requests."),
    row("GET", "/api/v1/config", VIEWER, "Returns the configuration: its text, every key, and its history.", |it, asked| Box::pin(it.config(asked)))
        .gives(config::TOLD).example("", ""),
    row("GET", "/api/v1/maintenance", VIEWER, "Lists the sites, and whether each is under maintenance.", |it, _| Box::pin(async move { it.maintenance() })).gives(config::SITES).example("", ""),
    row("PUT", "/api/v1/maintenance", OPERATOR, "Puts sites under maintenance, by an edit of the configuration file.", |it, asked| Box::pin(async move { it.set_maintenance(&asked, MaintenanceState::On).await })).query(config::OF_HOST).gives(config::SITES).example("", ""),
    row("DELETE", "/api/v1/maintenance", OPERATOR, "Puts sites back in service, by an edit of the configuration file.", |it, asked| Box::pin(async move { it.set_maintenance(&asked, MaintenanceState::Off).await })).query(config::OF_HOST).gives(config::SITES).example("", ""),
    row("PUT", "/api/v1/config", ADMIN, "Saves and activates a configuration. Rejected with 409 if the file has changed, and with 422 if the text is invalid. Keys that require a restart wait for the next start, and `pending` names them.", |it, asked| Box::pin(it.put_config(asked)))
        .most(CONFIG).takes(config::TEXT_AND_BASE).gives(config::IN_FORCE),
    row("POST", "/api/v1/config/check", ADMIN, "Checks a configuration, or one of the history, and returns its problems and the differences.", |it, asked| Box::pin(it.check_config(asked)))
        .reads().most(CONFIG).takes(config::TEXT).gives(config::CHECKED).example("", r#"{"text":"workers = 2"}"#),
    row("POST", "/api/v1/config/trial", ADMIN, "Tries a configuration, or one of the history, on recent requests: the predicted hit ratio, the requests that would change route, status, key, storage or lifetime, and the responses that would be shared and must not be. Nothing is changed.", |it, asked| Box::pin(it.try_config(asked)))
        .reads().most(CONFIG).takes(config::TEXT).gives(config::TRIED).example("", r#"{"text":"[[site]]\nhosts = \"*\"\n\n[[site.route]]\npath = \"/*\"\nproxy = { to = \"http://127.0.0.1:8000\" }"}"#),
    row("POST", "/api/v1/config/edit", ADMIN, "Returns a text with edited keys, sites or routes; comments are preserved.", |it, asked| Box::pin(it.edit_config(asked)))
        .reads().most(CONFIG).takes(config::EDITS_OF).gives(config::EDITED).example("", r#"{"text":"workers = 2","set":[{"path":["workers"],"value":3}]}"#),
    row("POST", "/api/v1/config/layers", ADMIN, "Returns what a site, a route or a block sets and inherits: for each key its values, with their places.", |it, asked| Box::pin(it.config_layers(asked)))
        .reads().most(CONFIG).takes(config::SECTION_OF).gives(config::LAYERS).example("", r#"{"text":"[[site]]\nhosts = \"a\"","at":["site",0]}"#),
    row("POST", "/api/v1/config/rollback", ADMIN, "Activates an earlier configuration.", |it, asked| Box::pin(it.roll_back(asked)))
        .takes(config::BACK_TO).gives(config::IN_FORCE),
    row("POST", "/api/v1/upgrade", ADMIN, "Starts the program that is on disk now, and hands the sockets, the disk tier and the purges over to it. Answers when it serves; after a failure this process continues to serve, and the answer is 409 with the reason.", |it, asked| Box::pin(it.upgrade(asked)))
        .query(&[integer("timeout", 1, 3600, "maximum seconds for each step of the new process (60)")]).gives(super::upgrade::UPGRADED),
    row("POST", "/test/clock", ADMIN, "Moves the clock, for tests.", |it, asked| Box::pin(async move { it.move_clock(asked) })).for_tests().reads()
        .query(&[integer("advance", -1_000_000_000, 1_000_000_000, "seconds").required(), integer("uptime", 0, 1_000_000_000, "milliseconds of the monotonic clock"), integer("hold", 0, 1, "1: only this endpoint moves the monotonic clock; 0: the machine does again")]),
];

/// Finds the endpoint for a method and a path.
pub fn find<'a>(method: &str, path: &'a str) -> EndpointMatch<'a> {
    let method = if method == "HEAD" { "GET" } else { method };
    let mut found = EndpointMatch::Nothing;
    for it in ENDPOINTS {
        match fits(it.path, path) {
            Some(named) if it.method == method => return EndpointMatch::Endpoint(it, named),
            Some(_) => found = EndpointMatch::OtherMethod,
            None => {}
        }
    }
    found
}

/// Whether `path` matches `pattern`, with the value of its `{name}`.
fn fits<'a>(pattern: &str, path: &'a str) -> Option<Option<&'a str>> {
    match pattern.split_once('{') {
        None => (pattern == path).then_some(None),
        Some((start, _)) => path.strip_prefix(start).filter(|it| !it.is_empty()).map(Some),
    }
}

/// The methods of a target's path, as `Allow` lists them.
pub fn methods_of(target: &str) -> String {
    let path = target.split('?').next().unwrap_or(target);
    let mut all: Vec<&str> = Vec::new();
    for it in ENDPOINTS.iter().filter(|it| fits(it.path, path).is_some()) {
        all.push(it.method);
        if it.method == "GET" {
            all.push("HEAD");
        }
    }
    all.join(", ")
}
