//! The table of error-log events, with the renamed ones, and the part of the manual made from it. Writing an event is not here.

use super::level::{Level, Subsystem};
use std::fmt::Write as _;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct EventRow {
    /// Its name in the log: a stable interface.
    pub name: &'static str,
    /// Its usual level.
    pub level: Level,
    /// The condition that it reports, its values, and its rate limit.
    pub meaning: &'static str,
}

const fn row(name: &'static str, level: Level, meaning: &'static str) -> EventRow {
    EventRow { name, level, meaning }
}

/// Every event, in the order of the manual.
#[rustfmt::skip]
pub const EVENTS: &[EventRow] = &[
    row("started", Level::Info, "larder accepts connections: `version`, `configuration` (the file, or `flags`), `listen` and `admin` (addresses, separated by commas), `workers`."),
    row("root-given-up", Level::Info, "The process was started as root and has changed to `user`, without capabilities and with no_new_privs: `user`, `uid`, `gid`."),
    row("sandboxed", Level::Info, "The restrictions of `sandbox` are in force: `system_calls`, `paths`."),
    row("sandbox-missing", Level::Warn, "The kernel lacks a part of `sandbox`, and larder serves without it: `why`, `now`."),
    row("config-writable", Level::Warn, "larder was started as root, and another user can write its configuration, and so decide what the next start as root does: `why`. Give the files and their directories to root."),
    row("user-ignored", Level::Warn, "The key `user` has no effect, because the process was not started as root: `why`."),
    row("descriptors", Level::Info, "File descriptor limits and the number of client connections that they allow."),
    row("config-warning", Level::Warn, "A configuration value that is valid but probably wrong: `why`."),
    row("reloaded", Level::Info, "A reload took effect: `file`, `because`."),
    row("reload-refused", Level::Error, "A reload was rejected and the running configuration stays in force: `why`, with file and line; one event for each error."),
    row("restart-pending", Level::Info, "A key of the configuration takes effect at the next start: `why`, with file and line. All other changes are in force."),
    row("certificates-reloaded", Level::Info, "Changed certificate files were reloaded."),
    row("certificates-rejected", Level::Error, "Changed certificate files are invalid; the previous certificates stay in use."),
    row("certificate-warning", Level::Warn, "A certificate or key file is usable but has a problem, such as an expired certificate: `why`."),
    row("certificate-expires", Level::Warn, "A certificate expires soon or has expired."),
    row("certificate-obtained", Level::Info, "A certificate was obtained by ACME and is served within a second: `name`, `authority`, `until`."),
    row("certificate-failed", Level::Error, "No CA issued a certificate for a name: `name`, `why`, `failures` (consecutive ones), `next` (the next attempt). The present certificate stays in use, and the other names are served."),
    row("acme-folder", Level::Warn, "The folder of `tls.acme` cannot be used, or another process has its lock: `why`. The certificates in it are served."),
    row("certificate-received", Level::Info, "A certificate that another node of the fleet obtained was stored and is served within a second: `name`, `until`."),
    row("acme-fleet", Level::Warn, "The nodes cannot request certificates together (`tls.acme.fleet_key`), and this one requests them alone: `why`, `now`. At level info: they can again."),
    row("geoip-reloaded", Level::Info, "A replaced database of `geoip` was read: `file`."),
    row("geoip-rejected", Level::Error, "A database of `geoip` was replaced by a broken one, or vanished; the previous one stays in use: `file`, `why`."),
    row("route-limited", Level::Warn, "A limit of a site or route (`access.limit`) was reached: `route` (its name, or `site` with the first host), `limit`, and `times`, the refused requests since the previous line. At most one line per minute and limit."),
    row("budget-exceeded", Level::Warn, "A budget of misses (`access.budget`) was exceeded: `route` (its name, or `site` with the first host), `limit`, and `times`, the requests beyond it since the previous line. At most one line per minute and budget."),
    row("limit-reached", Level::Warn, "A limit was reached, repeated once a minute while that continues: `limit` is the counter (`counters.md`), `times` its increase since the previous line, `total` its value since the start, `meaning`."),
    row("limit-cleared", Level::Info, "A limit was not reached for one minute: `limit`, `times` since it was first reached, `total`."),
    row("error-page-failed", Level::Warn, "A page of `error_pages` could not be requested from its site, and the previous one, or larder's own, is used: `host`, `target`, `why`. The request is repeated every 5 s."),
    row("proxy-header", Level::Warn, "A connection was closed for lack of a valid PROXY protocol header: `from`, `why` (`refused`: not in `clients.proxies`; `missing`, `malformed`, `cut`, `timeout`). At most one line per second and `why`; `left_out` counts the others."),
    row("upgraded", Level::Info, "A new process has the sockets, the RAM and disk tiers and the purges; this one finishes its requests: `process`, `version`, `because`."),
    row("upgrade-failed", Level::Error, "The new process of an upgrade could not take over: `why`, `because`. This process keeps serving."),
    row("successor-ended", Level::Error, "The process that replaced this one by an upgrade has ended, by a stop, a signal or a crash, while this one finished its requests: `process`, `why`, `now`."),
    row("predecessor-crashed", Level::Warn, "The larder that this process replaces ended during the hand-over or before it had finished its requests: `why`, and `now`, the state with which this process serves."),
    row("predecessor-ended", Level::Info, "The process that this one replaced has finished its requests, or a release that does not report this has ended."),
    row("ram-handed-over", Level::Info, "At an upgrade, the RAM tier was taken over from the running process: `version` (of the stream), `responses`, `bytes`, `shared` (the part of them that was not copied: large bodies), `left_out` (expired, or beyond the budget, three quarters of the memory that is left, or 20 s), `duration_ms`."),
    row("overlay-not-handed-over", Level::Warn, "At an upgrade, an overlay of the replaced process could not be set, and its original is served: `why`."),
    row("ram-not-handed-over", Level::Warn, "At an upgrade, the RAM tier could not be taken over, and starts empty: `why`."),
    row("ticket-keys-not-handed-over", Level::Warn, "At an upgrade, the keys of TLS tickets could not be taken over, and each client makes a full handshake once: `why`."),
    row("ram-restored", Level::Info, "The RAM tier was filled from `cache.ram.snapshot`: `path`, `responses`, `bytes`, `left_out` (expired, or beyond the budget or 20 s), `duration_ms`."),
    row("ram-not-restored", Level::Warn, "The file of `cache.ram.snapshot` is not used, and the RAM tier starts empty: `path`, `why`."),
    row("ram-saved", Level::Info, "At a stop, the RAM tier was written to `cache.ram.snapshot`: `path`, `responses`, `bytes`, `left_out`, `duration_ms`."),
    row("ram-not-saved", Level::Warn, "At a stop, the RAM tier was not written, and the next start begins with an empty one: `path`, `why`."),
    row("history-not-kept", Level::Warn, "The file of `admin.history` cannot be used or written, and the history stays in RAM: `path`, `why`, `now`. It is tried again every minute, and every second while another larder writes it."),
    row("history-kept", Level::Info, "The file of `admin.history` is written again, with everything that was not: `path`."),
    row("history-damaged", Level::Warn, "The file of `admin.history` was damaged, or not one of larder; it was renamed, and a new one has the records before the damage: `path`, `why`, `now`."),
    row("requests-cut", Level::Warn, "At a stop, requests were cut at `limits.drain_timeout`."),
    row("access-log-incomplete", Level::Warn, "At a stop, the last lines of the access log were not written in time."),
    row("worker-failed", Level::Error, "A worker panicked: `worker`, `why`. larder ends with exit code 1 within a second, so that its service manager starts it again."),
    row("stopped", Level::Info, "larder has stopped."),
    row("purged", Level::Info, "A purge is in force and confirmed."),
    row("purge-uncertain", Level::Warn, "A purge is in force on this node but not confirmed everywhere; the receipt gives the reason."),
    row("purge-receipt", Level::Debug, "The receipt of one tier or node for a purge."),
    row("invalidated", Level::Debug, "An unsafe method invalidated the stored response of its URL."),
    row("disk-on", Level::Info, "The disk tier writes again."),
    row("disk-off", Level::Warn, "The disk tier is off after an I/O error, for `cache.disk.retry`."),
    row("disk-full", Level::Warn, "The device is full before `cache.disk.size` is reached; the oldest segments are dropped."),
    row("disk-corrupt", Level::Warn, "Corrupt records or segments were found on disk and dropped."),
    row("disk-revalidating", Level::Warn, "The purge journal or segments are damaged; every response on disk is validated before use."),
    row("disk-reads-off", Level::Warn, "Reads from the device are skipped after three consecutive timeouts of 1 s."),
    row("disk-reads-on", Level::Info, "The device responds again."),
    row("disk-hit", Level::Debug, "A request was served from the disk tier."),
    row("spool-off", Level::Warn, "The spool is off; a slow client of a shared body that is too large to store delays the others by up to 0.5 s, and is then cut."),
    row("fleet-server-ejected", Level::Warn, "A memcached server was ejected after consecutive failures; its keys move to the other servers."),
    row("fleet-server-readmitted", Level::Info, "An ejected memcached server is used again."),
    row("fleet-server-failing", Level::Warn, "A memcached server failed and `cache.fleet.auto_eject` is false; its keys are misses."),
    row("fleet-server-recovered", Level::Info, "That memcached server responds again."),
    row("fleet-operation", Level::Debug, "One operation of a memcached server: `server`, `what`, `key`, `came`, `duration_us`."),
    row("fleet-hit", Level::Debug, "A request was served from the fleet."),
    row("purge-log-gap", Level::Warn, "The purge log of a memcached server was replaced or has a missing entry (restart, `flush_all` or eviction)."),
    row("purge-log-full-validation", Level::Warn, "A purge may have been missed; every stored response is validated before use."),
    row("purge-log-out-of-sync", Level::Warn, "Too few memcached servers answer polls of the purge log; every stored response is validated before use."),
    row("purge-log-in-sync", Level::Info, "This node reads the purge logs again; stored responses are no longer all validated before use."),
    row("credentials-refused", Level::Debug, "A token or a signed URL was refused: `kind`, `why`. Clients do not learn the reason. At most one line per second and reason; `left_out` counts the others."),
    row("key-file-broken", Level::Error, "A file of keys for tokens was replaced by a broken one: `file`, `why`. The keys read before stay in force."),
    row("application-stderr", Level::Warn, "An application behind FastCGI, or a CGI program, wrote to its error output: `route`, `origin`, `text` (the first 500 bytes). At most one line per second and origin; `left_out` counts the others."),
    row("file-not-sent", Level::Warn, "A file that an application hands over (`sendfile`) was not sent: `route`, `file` (the field as it came, the first 500 bytes), `why`. The client gets 404, or 403 and 5xx for a failure to read it. At most one line per second and route; `left_out` counts the others."),
    row("origin-failed", Level::Error, "An exchange with an origin failed, even if a stored response was served: `route`, `origin`, `why`. At most one line per second and origin; `left_out` counts the others. A `warn` if `proxy.connections` was reached."),
    row("database-failed", Level::Error, "A query has no complete result, even if a stored response was served: `route`, `database`, `why`. At most one line per second and database; `left_out` counts the others. A `warn` if `database.max_connections` was reached."),
    row("database-followed", Level::Info, "The changes of a database purge the pages of its rows from now on: `database`."),
    row("database-not-followed", Level::Warn, "The changes of a database cannot be followed: `database`, `why` with the remedy. Pages with its rows are validated every second. One line for each new reason, and then every ten minutes; `times` counts the failures since the last."),
    row("database-followed-by-another-node", Level::Info, "Another node of the fleet reads the changes of a database, and its purges arrive through the purge logs: `database`. This node takes over if that one stops."),
    row("replica-ejected", Level::Error, "A replica of a database failed, and gets no queries until a connection to it succeeds: `database`, `replica`, `why`. At most one line per second and replica; `left_out` counts the others."),
    row("replica-readmitted", Level::Info, "An ejected replica of a database gets queries again: `database`, `replica`."),
    row("origin-ejected", Level::Warn, "An origin was ejected after `proxy.eject_after` consecutive failures."),
    row("origin-readmitted", Level::Info, "An ejected origin is used again."),
    row("origin-unhealthy", Level::Warn, "An origin failed `proxy.health.fall` consecutive health checks."),
    row("origin-healthy", Level::Info, "An origin passed `proxy.health.rise` consecutive health checks."),
    row("origin-asked", Level::Debug, "A request was forwarded to the origin: `why` is the reason in the terms of RFC 9211."),
    row("log-not-written", Level::Error, "A log could not be written."),
    row("log-not-reopened", Level::Error, "A log file could not be reopened after SIGUSR1."),
    row("admin-write", Level::Info, "A client of the admin changed something: `who` (the name of the token, `socket` or `nobody`), `role` and `session` if there are any, `from`, `method`, `path`, `status`, `query`, `body`."),
    row("admin-refused", Level::Warn, "An admin request was answered with 400 or more: as `admin-write`, and `why`. Per second, at most 5 lines per client and status, and 52 in total."),
    row("admin-refused-summary", Level::Warn, "Number of rejected admin requests that were not logged (`left_out`), by `from` (an IPv4 address, an IPv6 /64, or `others` beyond 32 clients) and `status`. Authenticated and unauthenticated clients are counted separately."),
];

/// Renamed events: the name in earlier releases, and the name now. A row stays for one release.
pub const ALIASES: &[(&str, &str)] = &[
    ("certificate-odd", "certificate-warning"),
    ("certificates-taken", "certificates-reloaded"),
    ("certificates-refused", "certificates-rejected"),
    ("log-cut-off", "access-log-incomplete"),
    ("cut-off", "requests-cut"),
    ("disk-doubted", "disk-revalidating"),
    ("left-for-restart", "restart-pending"),
    ("log-doubt", "purge-log-full-validation"),
    ("log-gap", "purge-log-gap"),
    ("log-in-sync", "purge-log-in-sync"),
    ("log-lost", "purge-log-out-of-sync"),
    ("origin-sick", "origin-unhealthy"),
    ("origin-well", "origin-healthy"),
    ("origin-back", "origin-readmitted"),
    ("server-ejected", "fleet-server-ejected"),
    ("server-left-alone", "fleet-server-failing"),
    ("server-readmitted", "fleet-server-readmitted"),
    ("server-back", "fleet-server-recovered"),
    ("limit-over", "limit-cleared"),
    ("admin-refused-more", "admin-refused-summary"),
];

/// The part of the manual on the error log.
pub(super) fn manual(out: &mut String) {
    out.push_str(
        "\n# Error log\n\n`log.error` sets the file (`-` is standard error). One event per line: time, level, event, and `name=value` \
         pairs;\nvalues with spaces or special characters are JSON strings.\n\n| level | meaning |\n|---|---|\n",
    );
    for (level, meaning) in [
        (Level::Debug, "A single operation of a subsystem, for debugging."),
        (Level::Info, "Normal operation."),
        (Level::Warn, "Something was rejected, cut or degraded; the server continues."),
        (Level::Error, "A failure that requires attention."),
    ] {
        let _ = writeln!(out, "| `{}` | {meaning} |", level.name());
    }
    let names: Vec<String> = Subsystem::ALL.iter().map(|it| format!("`{}`", it.name())).collect();
    let _ = write!(
        out,
        "\nEach subsystem has its own minimum level, `log.levels.NAME`, which a reload changes while larder runs: {}.\n\
         `off` disables its events. `admin.audit` sets a file for the three `admin-` events.\n\n\
         | event | level | meaning |\n|---|---|---|\n",
        names.join(", ")
    );
    for event in EVENTS {
        let _ = writeln!(out, "| `{}` | {} | {} |", event.name, event.level.name(), event.meaning);
    }
    out.push_str("\n## Renamed events\n\n| earlier name | name |\n|---|---|\n");
    for (old, new) in ALIASES {
        let _ = writeln!(out, "| `{old}` | `{new}` |");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_a_name_that_no_event_has_now() {
        let exists = |name: &str| EVENTS.iter().any(|it| it.name == name);
        for (old, new) in ALIASES {
            assert!(!exists(old) && exists(new), "{old} {new}");
        }
        assert!(EVENTS.iter().all(|it| it.meaning.ends_with('.')), "a meaning is a sentence");
        for (at, it) in EVENTS.iter().enumerate() {
            assert!(EVENTS[..at].iter().all(|other| other.name != it.name), "{} twice", it.name);
        }
    }
}
