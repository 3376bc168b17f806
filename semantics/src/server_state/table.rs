//! The closed list of findings: names, severities, sentence forms and remedies. The table of the guide is made from it.

use std::fmt::Write as _;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; the server is healthy.
    Notice,
    /// A part has failed or is at a limit.
    Degraded,
    /// Requests fail.
    Failing,
}

impl Severity {
    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Degraded => "degraded",
            Severity::Failing => "failing",
        }
    }
}

/// One row of the list.
#[derive(Clone, Copy, Debug)]
pub struct FindingRow {
    /// Its kind.
    pub kind: FindingKind,
    /// Its name: a stable interface.
    pub name: &'static str,
    /// Its weight.
    pub severity: Severity,
    /// Seconds for which the condition holds before it is a finding: states that pass by themselves at a start, or jitter.
    pub settles: u64,
    /// The view of the admin page that shows it, as in the address of the page.
    pub view: &'static str,
    /// The form of its sentence.
    pub form: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

macro_rules! findings {
    ($($kind:ident $name:literal $severity:ident $settles:literal $view:literal: $form:literal, $remedy:literal;)*) => {
        /// The kinds of findings; of equal severity, the earlier comes first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingKind { $(#[doc = $form] $kind,)* }

        /// All kinds, in their order.
        pub const FINDINGS: &[FindingRow] = &[$(FindingRow {
            kind: FindingKind::$kind, name: $name, severity: Severity::$severity, settles: $settles, view: $view,
            form: $form, remedy: $remedy,
        },)*];
    };
}

findings! {
    WorkerFailed "worker-failed" Failing 0 "overview":
        "worker N has failed since TIME (REASON); larder ends, and its service manager starts it again",
        "Report the reason; the error log has it (`worker-failed`).";
    NoOrigin "no-origin" Failing 0 "overview":
        "origin ADDRESS is down since TIME (REASON); N routes have no other origin in use (NAMES)",
        "Start the origin, or correct `proxy.to`. If only its health check fails, correct `proxy.health`: requests are still sent to an origin that is down if the route has no other, unless `proxy.all_ejected` is `refuse`. If the sentence names a drained origin, restore that (`larder origin restore`). Pages in the cache are served meanwhile, expired ones as far as `cache.stale_if_error` permits.";
    DatabasePagesFail "database-pages-fail" Failing 0 "overview":
        "pages of database NAME fail since TIME (REASON); N of M requests for them were server errors within TIME",
        "Correct the reason; `larder check --connect` tests the database. `cache.stale_if_error` of a route permits stale pages meanwhile.";
    CertificateExpired "certificate-expired" Failing 0 "config?part=certificates":
        "the certificate of NAMES has expired (DATE); clients reject it",
        "Replace the files of the certificate. For `tls.acme`, `larder tls list` has the reason of failed renewals.";
    CertificateNotYetValid "certificate-not-yet-valid" Failing 0 "config?part=certificates":
        "the certificate of NAMES is not valid yet (its validity begins on DATE); clients reject it",
        "Correct the clock of the machine, or put a valid certificate in its place.";
    MostRequestsFail "most-requests-fail" Failing 0 "live?filter=status >= 500":
        "N % of the responses are server errors since TIME (M of T within the last minute); by route: NAMES AND NUMBERS; the last failure of the first: REASON",
        "`larder tail 'status >= 500'` has the requests, `larder worst` also those that the origin broke off, `larder stats` the routes and origins. This state begins at 50 % of the responses of a minute, and ends below 40 %.";
    RequestsFail "requests-fail" Degraded 0 "live?filter=status >= 500":
        "N % of the responses are server errors since TIME (M of T within the last minute); by route: NAMES AND NUMBERS; the last failure of the first: REASON",
        "`larder tail 'status >= 500'` has the requests, `larder worst` also those that the origin broke off, `larder stats` the routes and origins. This state begins at 5 % of at least 20 responses within a minute, and ends below 2 %.";
    RouteFails "route-fails" Degraded 10 "live?filter=status >= 500":
        "most responses of route NAME are server errors since TIME (N of M within the last minute); its last failure: REASON",
        "If its last failure is a timeout, raise the one of `proxy` that was reached, such as `proxy.first_byte_timeout`. Otherwise the error log has the failure (`origin-failed`) and what a program or application wrote to its error output (`application-stderr`); the application has to be corrected if the status is its own.";
    OriginErrors "origin-errors" Degraded 0 "overview":
        "origin ADDRESS answers N % of its requests with server errors since TIME (M of T within the last minute; K % at the other origins); it still gets requests of route NAME",
        "Repair the origin, or drain it (`larder origin drain`): its routes use the others. This state begins when at least 20 % of 20 or more answers within a minute are server errors, and this share is three times that of the other origins of the same routes. It ends below 10 %, or below twice the share of the others. If they have sent fewer than 20 answers, it begins at 50 % and ends below 40 %.";
    RedirectLoop "redirect-loop" Degraded 0 "live?filter=reason == \"redirect-loop\"":
        "the origin of route NAME redirects requests to their own URL since TIME (N of M within the last minute); clients never get these pages",
        "Let the application build its URLs from `X-Forwarded-Proto` and `X-Forwarded-Host`, or trust the address of larder as a proxy. Behind another proxy, name it in `clients.trusted`.";
    ProxyRedirectLoop "proxy-redirect-loop" Degraded 0 "config?section=clients.":
        "the clients of ADDRESS are redirected in a loop by route NAME since TIME (N of its M recent requests say X-Forwarded-Proto: https, and KEY or the origin redirects them to https); larder ignores the field because `clients.trusted` lacks the address",
        "If this proxy is yours, add its address to `clients.trusted`: its clients use TLS already. Never add addresses of others: they could claim any client address. This state begins at ten such requests within five minutes, and half of those of the route.";
    LimitReached "limit-reached" Degraded 0 "config?section=limits.":
        "EVENT since TIME (N times within the last minute)",
        "Raise the limit or correct the file that the sentence names, or find the cause of the load with `larder top`.";
    PurgeLogNotFollowed "purge-log-not-followed" Degraded 5 "nodes":
        "the purge log is not followed since TIME (N of M servers); every stored response is validated before use",
        "Restore the memcached servers of `cache.fleet.servers`, or the network to them.";
    MemcachedDown "memcached-down" Degraded 0 "nodes":
        "memcached server ADDRESS is not used since TIME (N failures in a row); the other servers store its keys",
        "Start the server. It is used again by itself after a successful attempt. If it is gone for good, replace it in `cache.fleet.servers` of all nodes.";
    OriginDown "origin-down" Degraded 0 "overview":
        "origin ADDRESS is down since TIME (REASON); its N routes use OTHERS, or have no other in use and it answers their requests",
        "Start the origin, or correct `proxy.health` if only its health check fails. It gets requests again by itself after a successful health check or trial request.";
    OriginsDisagree "origins-disagree" Degraded 0 "overview":
        "origins of route NAME disagree since TIME (ADDRESS lets URL be shared, ADDRESS forbids it; N and M recent responses); whether a client gets a shared page depends on the origin",
        "Let both origins send the same `Cache-Control`, or set `cache.enabled = false` for the route. Purge the pages that the first one has sent if they are for one client. This state ends five minutes after the last such responses.";
    DatabaseNotFollowed "database-not-followed" Degraded 5 "overview":
        "the changes of database NAME are not followed since TIME (REASON); pages with its rows are validated every second",
        "Correct the reason; `larder check --connect` tests the database.";
    DatabaseBehind "database-behind" Degraded 10 "overview":
        "the changes of database NAME are read late since TIME (N s and M bytes of its log behind); pages with its rows are validated every second",
        "Commit more rows in each transaction, or follow fewer tables; the metric `database_lag_seconds` has the delay.";
    NodeServersDiffer "node-servers-differ" Degraded 10 "nodes":
        "node NAME uses another list of memcached servers since TIME; purges do not reach all nodes",
        "Set the same `cache.fleet.servers` on all nodes.";
    NodeKeysDiffer "node-keys-differ" Degraded 10 "nodes":
        "node NAME finds keys on other servers, or in another form, since TIME; nodes do not share its pages",
        "Set the same `distribution`, `hash`, `namespace` and `md5_keys` in `cache.fleet` on all nodes, and the same names of the servers.";
    MemcachedFlaps "memcached-flaps" Degraded 0 "config?section=cache.fleet.":
        "memcached server ADDRESS fails and comes back since TIME (N times within the last ten minutes); each time its pages are missing, and those of a restarted server are lost",
        "Its log and that of its machine have the reason: a restart, lack of memory, or a network that loses packets. If it only answers late, raise `cache.fleet.timeout`. This state begins at three ejections within ten minutes.";
    DiskOff "disk-off" Degraded 0 "overview":
        "the disk tier is off since TIME (REASON); responses are stored in RAM only",
        "Correct the reason, such as a full or failed device; larder tries to write again by itself.";
    DiskReadsOff "disk-reads-off" Degraded 0 "overview":
        "the disk tier is not read since TIME (three reads in a row took longer than 1 s); its pages are fetched from the origins",
        "Check the device of `cache.disk.path`; larder tries to read again by itself.";
    DiskDeviceFull "disk-device-full" Degraded 0 "config?section=cache.disk.":
        "the device of the disk tier is full since TIME; pages are dropped before `cache.disk.size` is reached",
        "Free space on the device, or lower `cache.disk.size`.";
    ConfigurationRefused "configuration-refused" Degraded 0 "config?part=text":
        "the configuration in the file is refused since TIME (REASON); the previous one stays in force",
        "Correct the file; `larder check` lists every error. The finding ends with the next successful reload.";
    AccessFileBroken "access-file-broken" Degraded 0 "config":
        "the file PATH cannot be used since TIME (REASON); the users, keys or countries read before stay in force",
        "Correct or restore the file of `access.basic.file`, `access.jwt` or `geoip`; it is read again by itself. A user who was removed since can still log in.";
    StartWouldFail "start-would-fail" Degraded 0 "config?part=text":
        "the next start of larder would fail since TIME (REASON); the running configuration stays in force",
        "Correct the file that the sentence names: secrets, users, keys and certificates are read at each start. `larder check` lists every error.";
    CertificateMissing "certificate-missing" Degraded 0 "config?part=certificates":
        "NAME has no certificate (REASON)",
        "Correct the reason; `larder tls list` has the time of the next attempt.";
    CertificateExpiring "certificate-expiring" Degraded 0 "config?part=certificates":
        "the certificate of NAMES expires in N days (DATE)",
        "Renew it, at the latest 14 days before its end. `tls.acme` renews by itself: `larder tls list` has the last failure.";
    CertificateOtherNames "certificate-other-names" Degraded 10 "config?part=certificates":
        "no certificate is for NAMES (the certificates are for NAMES); clients reject the connection",
        "Add a certificate that has these names to `tls.certificates`, or let `tls.acme` obtain one. Hosts count that are served over TLS only, or are redirected to it (`redirect_https`) and requested in TLS handshakes, without proxies in `clients.trusted`.";
    MemoryWithheld "memory-withheld" Degraded 60 "overview?show=memory":
        "a part of the RAM tier is withheld since TIME (USABLE of BUDGET can be used), because the process uses more memory than planned",
        "Lower `limits.connections`, or raise `cache.ram.size` if the machine has free memory. A smaller size does not end this state.";
    PagesEvicted "fresh-pages-evicted" Notice 0 "overview":
        "fresh pages are evicted from RAM since TIME (N within the last minute); requests for them go to the origin",
        "Raise `cache.ram.size`, or add `cache.disk`. With a disk tier or a fleet, requests count that no tier could answer: hits of these tiers are none. This state begins at 100 such pages or requests within a minute and a tenth of the stored pages, and ends below half of that.";
    DiskTooSmall "disk-too-small" Notice 0 "config?section=cache.disk.":
        "fresh pages are evicted from the disk tier since TIME (N requests for them within the last minute); no other tier has them, and these requests go to the origin",
        "Raise `cache.disk.size`, if the device has the space. This state begins at 100 such requests within a minute and a tenth of the stored pages, and ends below half of that.";
    MemcachedTooSmall "memcached-too-small" Notice 10 "config?section=cache.fleet.":
        "memcached loses fresh pages since TIME (N of M lookups within the last minute); larder cannot tell that from a removal, and validates them at the origin",
        "Give the memcached servers more memory (`-m`), or add one to `cache.fleet.servers`: their `stats` name the server by its `evictions`. A server that was restarted is the cause for a few minutes. Pages that need no fleet keep out of it with `cache.tiers`. This state begins at 100 such lookups within a minute and one in twenty, and ends below half of that.";
    OriginQueue "origin-queue" Notice 10 "overview":
        "requests wait for a slot of origin ADDRESS since TIME (N within the last minute waited 100 ms or longer, P % of its answers); `proxy.connections` of route NAME is N (FILE:LINE)",
        "Raise `proxy.connections` if the origin can take more requests at once; otherwise make it faster. This state begins at 20 such requests within a minute and one in a hundred (the 99th percentile), and ends below half of that number.";
    PurgeRepeated "purge-repeated" Notice 0 "live?filter=method == \"PURGE\"":
        "SENDER has purged TARGET repeatedly since TIME (N times within the last five minutes); M requests for purged pages went to the origin within the last minute, or no stored response of this node matched",
        "If nothing needs these purges, remove the address from `cache.purge.from`, or revoke the token. Otherwise let the sender purge a page only after it changed. A client can purge only pages of routes whose `cache.purge.from` has its address. This state begins at ten purges of one target by one sender, if they matched nothing or there are 20 such requests, and ends below half of that.";
    RouteLimited "route-limited" Notice 10 "live?filter=status == 429":
        "route NAME refuses most requests with 429 since TIME (M of T within the last minute); its limits: LIMITS",
        "`larder tail 'status == 429'` has the requests; the error log (`route-limited`) names the limit that decides. Raise it in `access.limit` or `access.limits` of the route if it refuses visitors.";
    RouteRejects "route-rejects" Notice 10 "live?filter=status >= 400 && status < 500":
        "most responses of route NAME have a status of 400 to 499 since TIME (N of M within the last minute)",
        "`Live` names the status and who gave it. 404 of files: correct `files.root` or `files.strip`. 413: raise `body_size` or `limits.body_size`. 405: correct `methods`. A status of the origin has to be corrected in the application; meanwhile `cache.status_ttl` stores it, or `cache.override_ttl` if the response declares itself stale (`no-cache`).";
    HostUnknown "host-unknown" Notice 10 "live?filter=status == 404":
        "no site has the host NAME (N of the last M recorded requests); requests for it get 404",
        "If the name is yours, add it to `hosts` of its site. Otherwise its DNS entry points to this server by mistake.";
    ProxyNotTrusted "proxy-not-trusted" Notice 10 "config?section=clients.":
        "ADDRESS sends X-Forwarded-For, which larder ignores: `clients.trusted` lacks the address (N of the last M recorded requests); its K clients are one client for `access` and the log, and their scheme is that of the proxy's connection",
        "If this proxy is yours, add its address to `clients.trusted`. Never add addresses of others: they could claim any client address.";
    RouteRefused "route-refused" Notice 10 "live?filter=status == 401 || status == 403":
        "route NAME refuses most requests with 401 or 403 since TIME (M of T within the last minute); its KEYS refuses them",
        "If these are visitors, correct the keys of `access` that the sentence names; Explain has the rule for each URL. Clients that guess passwords are refused rightly. This state begins at 60 % of the requests of a minute and 20 refused ones, and ends below 40 %.";
    RefusalsAfterChange "refusals-after-change" Notice 0 "live?filter=status >= 400 && status < 500":
        "larder refuses more requests than before the configuration changed since TIME (N within the last minute, M within the minute before the change); changed: KEYS",
        "If these are visitors, roll the change back in the history of the configuration, or correct the keys that the sentence names. This state begins at 20 refused requests (400, 401, 403, 413, 414, 429, 431) within a minute and four times those before the change, and ends ten minutes after the change.";
    LimitRefusesClients "limit-refuses-clients" Notice 60 "live?filter=status >= 400 && status < 500":
        "EVENT `limits.KEY` (VALUE) since TIME (N times within the last minute); set `limits.KEY` to VALUE or more if these are visitors",
        "Set the key as the sentence says. A single client that reaches a limit needs no change: Live and Top have the requests. This state begins at 20 times within each minute, for timeouts also a tenth of the requests.";
    UrlFails "url-fails" Notice 0 "live?filter=status >= 500":
        "every request for URL fails since TIME (N of N recent ones, with STATUS); route NAME answers its other requests",
        "Only the application can correct that: its log has the reason. Meanwhile an overlay (`larder overlay`) can answer the URL with a page of yours. This state begins at ten requests within five minutes, all of which fail.";
    OriginSlow "origin-slow" Notice 10 "overview":
        "origin ADDRESS is slower than the other origins of route NAME since TIME (N ms to a response on average within the last minute; M ms at the others)",
        "Find the cause at the origin, or drain it (`larder origin drain`). This state begins at four times the median of the other origins of the same routes and 200 ms, with 20 answers each within a minute, and ends below twice the median or 100 ms.";
    CertificateLacksNames "certificate-lacks-names" Notice 10 "config?part=certificates":
        "no certificate is for NAMES (the certificates are for NAMES); they are also served over plain HTTP, and clients that use https:// reject the connection",
        "Add a certificate that has these names to `tls.certificates`, let `tls.acme` obtain one, or limit the routes of the site to the plain addresses (`listeners`).";
    RunsAsRoot "runs-as-root" Notice 0 "config?section=top":
        "larder runs as root without `user` (REASON); a fault in it, or in a program that it runs, has every right on this machine",
        "Set `user = \"larder\"` and restart: the sockets are bound as root, and everything after that is done as this user. Or start larder as another user (`User=` of systemd). The state names programs of `cgi`, otherwise an address of `listen` that other machines reach.";
    RouteUnreachable "route-unreachable" Notice 0 "config":
        "route NAME at FILE:LINE gets no request (ROUTES BEFORE IT)",
        "Move the route before those that the sentence names, or remove it. `larder check` lists the same.";
    MaintenanceOn "maintenance-on" Notice 0 "config":
        "maintenance is on for NAMES since TIME (FILE:LINE); their requests get 503, except from the clients of `maintenance.allow`",
        "Set `maintenance.enabled = false`, or `larder maintenance off HOST`, when the work is done.";
    NodeSilent "node-silent" Notice 0 "nodes":
        "node NAME does not report since TIME; a purge with `wait` takes a lease, and NAME validates every stored response until it reports again",
        "Start the node, or restore its network to the memcached servers. A node that ended without a report is listed for an hour.";
    NodeVersionsDiffer "node-versions-differ" Notice 60 "nodes":
        "nodes run different versions since TIME (VERSION: NAMES)",
        "Upgrade the other nodes. Nodes of different versions share pages and purges, except for other versions of the envelope.";
    NodeClockOff "node-clock-off" Notice 10 "nodes":
        "the clock of node NAME is N s ahead or behind since TIME; ages and lifetimes of pages that nodes share are wrong by that time",
        "Synchronise the clocks of both machines (NTP).";
    RestartPending "restart-pending" Notice 0 "config":
        "keys in the file wait for a restart since TIME (KEYS)",
        "Restart larder, or `larder upgrade`, when it suits.";
    Http3Unused "http3-unused" Notice 3600 "config?section=top":
        "`http3` is on and announced to clients, but none has connected over it since TIME (N connections over TCP); a firewall may block the UDP port, and clients stay on TCP",
        "Open the UDP port of every `https://` address in both directions, in the firewall of the provider, too, and test from another network: `curl --http3-only`. Without browsers among the clients, set `http3 = false`. This state begins an hour after 1,000 connections over TLS.";
    SnapshotNotRead "snapshot-not-read" Notice 0 "overview":
        "the snapshot of the RAM tier was not read at the start (REASON); the tier began empty",
        "None is needed: pages are fetched again. The finding ends after an hour.";
}

impl FindingKind {
    /// Whether stored responses are validated before use as long as it holds.
    #[must_use]
    pub fn doubts_stored_responses(self) -> bool {
        use FindingKind::{DatabaseBehind, DatabaseNotFollowed, MemcachedDown, PurgeLogNotFollowed};
        matches!(self, PurgeLogNotFollowed | MemcachedDown | DatabaseNotFollowed | DatabaseBehind)
    }

    /// Its row.
    #[must_use]
    pub fn row(self) -> &'static FindingRow {
        &FINDINGS[self as usize]
    }
}

/// A counter whose growth means that clients or data were turned away for lack of capacity.
#[derive(Clone, Copy, Debug)]
pub struct LimitRow {
    /// Its name in the statistics.
    pub counter: &'static str,
    /// The event, with the limit.
    pub event: &'static str,
}

const fn limit(counter: &'static str, event: &'static str) -> LimitRow {
    LimitRow { counter, event }
}

/// The counters of [`FindingKind::LimitReached`]. Limits that a single client reaches by itself, such as timeouts, are not among them.
pub const LIMITS: [LimitRow; 9] = [
    limit("connections_refused", "client connections are refused at `limits.connections`"),
    limit("connections_shed", "client connections are closed to free places at `limits.connections`"),
    limit("accept_errors", "client connections wait for file descriptors or memory"),
    limit(
        "origin_busy",
        "requests find no free connection to an origin (`proxy.connections`, `proxy.queue`)",
    ),
    limit("origin_descriptor_waits", "requests to origins wait for file descriptors"),
    limit("files_busy", "requests for files are refused because the read queue is full"),
    limit(
        "database_queue_timeouts",
        "queries find no free connection to a database (`database.queue_timeout`)",
    ),
    limit(
        "purge_rules_full",
        "purge rules are dropped because their table is full; older pages are validated",
    ),
    limit("log_lines_dropped", "lines of an access log are dropped"),
];

/// The unit of a limit of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Millis,
    /// A number.
    Number,
}

/// A limit of `limits` at which requests of clients are refused.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimitRow {
    /// Its counter in the statistics.
    pub counter: &'static str,
    /// Its key.
    pub key: &'static str,
    /// The unit of its value.
    pub unit: LimitUnit,
    /// The event, up to the key.
    pub event: &'static str,
    /// A key of routes, or another one, that has the same effect; empty without one.
    pub other: &'static str,
    /// The least share of the requests, per cent: timeouts of single clients are usual.
    pub share: u64,
}

const fn client_limit(
    counter: &'static str,
    key: &'static str,
    unit: LimitUnit,
    event: &'static str,
    other: &'static str,
) -> ClientLimitRow {
    let share = if matches!(unit, LimitUnit::Millis) { 10 } else { 0 };
    ClientLimitRow { counter, key, unit, event, other, share }
}

/// The limits of [`FindingKind::LimitRefusesClients`]; `limits.connections` is among [`LIMITS`].
pub const CLIENT_LIMITS: [ClientLimitRow; 9] = [
    client_limit(
        "head_too_large",
        "limits.head_size",
        LimitUnit::Bytes,
        "requests are rejected with 431: their heads are larger than",
        "",
    ),
    client_limit(
        "target_too_long",
        "limits.target_size",
        LimitUnit::Bytes,
        "requests are rejected with 414: their targets are longer than",
        "",
    ),
    client_limit(
        "body_too_large",
        "limits.body_size",
        LimitUnit::Bytes,
        "requests are rejected with 413: their bodies are larger than",
        "`body_size` of their route",
    ),
    client_limit(
        "client_head_timeouts",
        "limits.head_timeout",
        LimitUnit::Millis,
        "connections are closed: their request heads take longer than",
        "",
    ),
    client_limit(
        "client_body_timeouts",
        "limits.body_timeout",
        LimitUnit::Millis,
        "requests are rejected with 408: their bodies are slower than `limits.min_rate`, or pause for longer than",
        "`body_timeout` of their route",
    ),
    client_limit(
        "client_write_timeouts",
        "limits.write_timeout",
        LimitUnit::Millis,
        "responses are cut: their clients read slower than `limits.min_rate`, or pause for longer than",
        "`write_timeout` of their route",
    ),
    client_limit(
        "http2_streams_refused",
        "limits.http2_streams",
        LimitUnit::Number,
        "HTTP/2 requests are refused beyond",
        "",
    ),
    client_limit(
        "http3_requests_refused",
        "limits.http2_streams",
        LimitUnit::Number,
        "HTTP/3 requests are refused beyond four times",
        "",
    ),
    client_limit(
        "http3_refused",
        "limits.connections",
        LimitUnit::Number,
        "HTTP/3 connections are refused beyond",
        "",
    ),
];

/// The list as the table of the guide.
#[must_use]
pub fn manual() -> String {
    let mut out = String::from("| finding | state | sentence | remedy |\n|---|---|---|---|\n");
    for it in FINDINGS {
        let state = it.severity.name();
        let _ = writeln!(out, "| `{}` | {state} | {} | {} |", it.name, it.form, it.remedy);
    }
    out
}
