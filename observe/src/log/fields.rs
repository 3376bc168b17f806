//! The fields of an access-log line, each declared once, and the three named formats of a line. Custom formats are in
//! `form`.

use super::escape;
use super::stamp::Stamp;
use larder_semantics::{field, secret};
use larder_stdx::clock::WallTime;
use larder_transport::tls::Secured;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;

/// One request, as logged. Texts are the peer's bytes, unescaped; empty if absent.
#[derive(Clone, Copy, Debug)]
pub struct LogEntry<'a> {
    /// The time at which the response was finished.
    pub time: WallTime,
    /// The client's address; `None` for Unix sockets.
    pub client: Option<IpAddr>,
    /// The request's method.
    pub method: &'a [u8],
    /// The request's target, as sent to the origin.
    pub target: &'a [u8],
    /// As `HTTP/1.1`.
    pub protocol: &'static str,
    /// The request's host.
    pub host: &'a [u8],
    /// The status sent.
    pub status: u16,
    /// Bytes of the body sent.
    pub bytes: u64,
    /// Whether the response was complete.
    pub end: ResponseEnd,
    /// Microseconds from the request's head to the response's last byte; 0 for fast answers.
    pub duration: u64,
    /// The fields of the request's head.
    pub fields: &'a [field::Field<'a>],
    /// The cache result, as in `Cache-Status`: `hit` (`hit-disk`, `hit-fleet` from a tier below RAM), `hit-stale`,
    /// `overlay`, `only-if-cached`, `shared-failure`, or the reason for forwarding, in the terms of RFC 9211.
    pub cache: &'a str,
    /// The reason for asking the origin; empty if it was not asked.
    pub reason: &'a str,
    /// The route: its name, otherwise its first host pattern and its path pattern.
    pub route: &'a str,
    /// Microseconds until the origin's head arrived; `None` if it was not contacted.
    pub origin_duration: Option<u64>,
    /// The origin's protocol, as `HTTP/1.1`; empty if it was not contacted.
    pub origin_protocol: &'static str,
    /// The result of the client's TLS handshake; `None` over clear text.
    pub tls: Option<&'a Secured>,
    /// The identifier of the request; empty without one.
    pub request_id: &'a [u8],
    /// The name of the origin that answered; empty if none did.
    pub origin: &'a str,
    /// The status of the origin's response.
    pub origin_status: Option<u16>,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The name of the site; empty without one.
    pub site: &'a str,
    /// The address of the listener.
    pub listener: &'a str,
    /// The client by its credentials; empty without any.
    pub user: &'a str,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseEnd {
    /// It was sent completely.
    Whole,
    /// The client disconnected before its last byte, or did not read it.
    Cut,
    /// The origin failed before its last byte.
    Broken,
}

impl ResponseEnd {
    /// `whole` or `cut`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ResponseEnd::Whole => "whole",
            ResponseEnd::Cut | ResponseEnd::Broken => "cut",
        }
    }
}

/// The simplest named format that has a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// All three.
    Common,
    /// Combined and JSON.
    Combined,
    /// JSON alone.
    Json,
    /// None: templates alone.
    Template,
}

/// One row of the table of fields.
pub struct LogField {
    /// Its name in JSON: a stable interface.
    pub name: &'static str,
    /// The simplest form that has it.
    pub since: Since,
    /// One line, for the manual.
    pub help: &'static str,
    /// Appends its JSON value.
    pub(super) json: fn(&LogEntry<'_>, &mut Stamp, &mut Vec<u8>),
    /// Appends its value for a custom format, escaped; nothing if there is none.
    pub plain: fn(&LogEntry<'_>, &mut Stamp, &mut Vec<u8>),
}

/// The fields, in the order of the JSON form.
#[rustfmt::skip]
pub static FIELDS: &[LogField] = &[
    LogField { name: "time", since: Since::Common, help: "Time at which the response finished: UTC, RFC 3339 in JSON, `[day/month/year:h:m:s +0000]` otherwise.",
        json: |it, stamp, out| { out.push(b'"'); out.extend_from_slice(stamp.rfc3339(it.time)); out.push(b'"'); },
        plain: |it, stamp, out| out.extend_from_slice(stamp.rfc3339(it.time)) },
    LogField { name: "client", since: Since::Common, help: "The client's address; empty (`-`) for Unix sockets.",
        json: |it, _, out| match it.client { Some(ip) => { let _ = write!(out, "\"{ip}\""); } None => out.extend_from_slice(b"\"\"") },
        plain: |it, _, out| if let Some(ip) = it.client { let _ = write!(out, "{ip}"); } },
    LogField { name: "method", since: Since::Common, help: "The request's method.",
        json: |it, _, out| escape::json(it.method, out),
        plain: |it, _, out| escape::escaped(it.method, out) },
    LogField { name: "host", since: Since::Json, help: "The request's host, unchanged.",
        json: |it, _, out| escape::json(it.host, out),
        plain: |it, _, out| escape::escaped(it.host, out) },
    LogField { name: "target", since: Since::Common, help: "The request's target (path and query), as the client sent it and as the origin receives it.",
        json: |it, _, out| escape::json(it.target, out),
        plain: |it, _, out| escape::escaped(it.target, out) },
    LogField { name: "protocol", since: Since::Common, help: "The request's protocol.",
        json: |it, _, out| { let _ = write!(out, "\"{}\"", it.protocol); },
        plain: |it, _, out| out.extend_from_slice(it.protocol.as_bytes()) },
    LogField { name: "status", since: Since::Common, help: "The status of the response.",
        json: |it, _, out| number(u64::from(it.status), out),
        plain: |it, _, out| number(u64::from(it.status), out) },
    LogField { name: "bytes", since: Since::Common, help: "Bytes of the response body that were sent; `-` for none in the common and combined formats.",
        json: |it, _, out| number(it.bytes, out),
        plain: |it, _, out| number(it.bytes, out) },
    LogField { name: "end", since: Since::Json, help: "`whole`, or `cut`: the client closed the connection or the origin failed before the last byte of the response.",
        json: |it, _, out| escape::json(it.end.name().as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.end.name().as_bytes(), out) },
    LogField { name: "duration_us", since: Since::Json, help: "Microseconds from the request's head to the response's last byte; 0 for hits in RAM and open files, which are not timed.",
        json: |it, _, out| number(it.duration, out),
        plain: |it, _, out| number(it.duration, out) },
    LogField { name: "referer", since: Since::Combined, help: "The request's `Referer`, with `***` for the values of secret parameters (`signature`, `token`, `code` …).",
        json: |it, _, out| escape::json(&it.referer(), out),
        plain: |it, _, out| escape::escaped(&it.referer(), out) },
    LogField { name: "user_agent", since: Since::Combined, help: "The request's `User-Agent`.",
        json: |it, _, out| escape::json(it.user_agent(), out),
        plain: |it, _, out| escape::escaped(it.user_agent(), out) },
    LogField { name: "cache", since: Since::Json, help: "The cache result, as in `Cache-Status`: `hit` (`hit-disk` or `hit-fleet` from a lower tier), `hit-stale` (served stale), `overlay`, `only-if-cached` (a 504 for that directive), `shared-failure` (an error of the origin to two identical requests within the last second), or the reason for forwarding, in the terms of RFC 9211. Empty if the cache was not involved.",
        json: |it, _, out| escape::json(it.cache.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.cache.as_bytes(), out) },
    LogField { name: "route", since: Since::Json, help: "The route: `site.route.name`, otherwise the first host pattern of the site and the path pattern of the route.",
        json: |it, _, out| escape::json(it.route.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.route.as_bytes(), out) },
    LogField { name: "origin_us", since: Since::Json, help: "Microseconds until the response head of the origin arrived; `null` if the origin was not contacted.",
        json: |it, _, out| match it.origin_duration { Some(it) => number(it, out), None => out.extend_from_slice(b"null") },
        plain: |it, _, out| if let Some(it) = it.origin_duration { number(it, out) } },
    LogField { name: "origin_protocol", since: Since::Json, help: "The protocol of the origin: `HTTP/1.0`, `HTTP/1.1`, `HTTP/2.0`, `FastCGI`, `SCGI` or `uWSGI`; empty if the origin was not contacted.",
        json: |it, _, out| escape::json(it.origin_protocol.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.origin_protocol.as_bytes(), out) },
    LogField { name: "tls_version", since: Since::Json, help: "`TLSv1.2` or `TLSv1.3`; empty for clear text.",
        json: |it, _, out| escape::json(it.tls_text(|it| it.version), out),
        plain: |it, _, out| escape::escaped(it.tls_text(|it| it.version), out) },
    LogField { name: "tls_cipher", since: Since::Json, help: "The cipher suite, by its IANA name; empty for clear text.",
        json: |it, _, out| escape::json(it.tls_text(|it| it.cipher), out),
        plain: |it, _, out| escape::escaped(it.tls_text(|it| it.cipher), out) },
    LogField { name: "tls_name", since: Since::Json, help: "The host name in the TLS handshake (SNI); empty if there was none.",
        json: |it, _, out| escape::json(it.tls_text(|it| &it.name), out),
        plain: |it, _, out| escape::escaped(it.tls_text(|it| &it.name), out) },
    LogField { name: "tls_client", since: Since::Json, help: "The subject of the client certificate (`tls.client_auth`), such as `O=Example, CN=ann`; empty if there was none.",
        json: |it, _, out| escape::json(it.tls_text(|it| &it.client), out),
        plain: |it, _, out| escape::escaped(it.tls_text(|it| &it.client), out) },
    LogField { name: "request_id", since: Since::Json, help: "The identifier of the request (`X-Request-Id`). Requests have one where the route or site reads `{request_id}` in a text, or this log in its format; empty otherwise.",
        json: |it, _, out| escape::json(it.request_id, out),
        plain: |it, _, out| escape::escaped(it.request_id, out) },
    LogField { name: "origin", since: Since::Json, help: "The address of the origin, as in `proxy.to`; empty if it was not contacted or did not answer.",
        json: |it, _, out| escape::json(it.origin.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.origin.as_bytes(), out) },
    LogField { name: "origin_status", since: Since::Json, help: "The status of the origin's response, 304 for a validation; `null` if the origin was not contacted or did not answer.",
        json: |it, _, out| match it.origin_status { Some(it) => number(u64::from(it), out), None => out.extend_from_slice(b"null") },
        plain: |it, _, out| if let Some(it) = it.origin_status { number(u64::from(it), out) } },
    LogField { name: "user", since: Since::Common, help: "The user of `access.basic`, or the subject of a token (`access.jwt`); other bytes than letters, digits and `-_.@` are percent-encoded. Empty where the route demands neither.",
        json: |it, _, out| escape::json(it.user.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.user.as_bytes(), out) },
    LogField { name: "reason", since: Since::Json, help: "Why an origin was asked, such as `first-request`, `expired`, `evicted` or `set-cookie`: the list is in [Why is my hit ratio low?](../guide/why-is-my-hit-ratio-low.md). Empty if no origin was asked.",
        json: |it, _, out| escape::json(it.reason.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.reason.as_bytes(), out) },
    LogField { name: "scheme", since: Since::Template, help: "`http` or `https`, as a trusted proxy tells it.",
        json: |it, _, out| escape::json(it.scheme.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.scheme.as_bytes(), out) },
    LogField { name: "site", since: Since::Template, help: "The site: its first host; empty without a site.",
        json: |it, _, out| escape::json(it.site.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.site.as_bytes(), out) },
    LogField { name: "listener", since: Since::Template, help: "The address of the listener, as it is configured.",
        json: |it, _, out| escape::json(it.listener.as_bytes(), out),
        plain: |it, _, out| escape::escaped(it.listener.as_bytes(), out) },
];

impl LogEntry<'_> {
    /// The request's `Referer`, without secrets: a browser sends the URL of a signed page with each of its images.
    pub(super) fn referer(&self) -> Cow<'_, [u8]> {
        secret::shown("referer", field::first(self.fields, "referer").unwrap_or_default())
    }

    /// The request's `User-Agent`.
    pub(super) fn user_agent(&self) -> &[u8] {
        field::first(self.fields, "user-agent").unwrap_or_default()
    }

    /// One value of the client's TLS.
    fn tls_text(&self, of: impl Fn(&Secured) -> &str) -> &[u8] {
        self.tls.map_or(b"", |it| of(it).as_bytes())
    }
}

pub(super) fn number(number: u64, out: &mut Vec<u8>) {
    let _ = write!(out, "{number}");
}

/// The manual of log fields: `docs/generated/log.md`.
#[must_use]
pub fn manual() -> String {
    let mut out = String::from(
        "# Access log\n\nGenerated from `observe/src/log/fields.rs` and `events.rs`; do not edit.\n\n\
         `log.access` sets the file (`-` is standard output), `log.format` the format. SIGUSR1 reopens the file.\n\
         Requests never wait for the log: lines that cannot be written in time are dropped and counted as\n\
         `log_lines_dropped`. In all formats but `json`, quotes, backslashes, control characters and bytes\n\
         beyond ASCII are written `\\xHH`.\n\n\
         * `common`: `client - user [time] \"method target protocol\" status bytes`\n\
         * `combined`: `common` followed by `\"referer\" \"user_agent\"`\n\
         * `json`: one JSON object per line with all fields but those of templates\n\
         * a template: text with fields of the table in braces, for instance\n\
         \x20 `log.format = '{client} [{time:common}] \"{method} {target}\" {status} {duration_us} {header:X-Forwarded-For}'`.\n\
         \x20 `{time}` is RFC 3339 in UTC, `{time:common}` the time of the common format, `{header:NAME}` all values of that request\n\
         \x20 field. A missing value is `-`. Values are escaped as above. Outside double quotes, spaces are escaped as\n\
         \x20 `\\x20`, so that a client cannot add columns. `{{` and `}}` are literal braces.\n\n\
         | field | in | meaning |\n|---|---|---|\n",
    );
    for field in FIELDS {
        let forms = match field.since {
            Since::Common => "all",
            Since::Combined => "combined, json",
            Since::Json => "json",
            Since::Template => "templates",
        };
        let _ = writeln!(out, "| `{}` | {forms} | {} |", field.name, field.help);
    }
    super::events::manual(&mut out);
    out
}
