//! The origins of a route, as a file names and weighs them, and how they are used. Where one is, is read in `address`.

use super::address;
use larder_gateway::HashBy;
use larder_origin::{
    ApplicationProtocol, GroupRules, HealthCheck, OriginAddress, OriginSecurity, OriginTls, Protocol,
};
use larder_semantics::field::is_token;
use larder_semantics::rewrite;
use larder_stdx::circuit_breaker::BreakerSettings;
use larder_wire::proxy::PreambleVersion;
use std::fmt;

/// The largest weight of an origin.
const MAX_WEIGHT: u32 = 1000;

/// The allowed forms of an origin of a route, as the end of a sentence.
pub const ALLOWED: &str = "\"http://HOST:PORT\", \"https://HOST:PORT\", \"h2c://HOST:PORT\", each optionally with a base path \
     (\"http://HOST:PORT/v2\"), \"fastcgi://HOST:PORT\", \"scgi://HOST:PORT\", \"uwsgi://HOST:PORT\", \"HOST:PORT\", \"unix:/PATH\" or \
     \"h2c+unix:/PATH\", \"fastcgi+unix:/PATH\", \"scgi+unix:/PATH\", \"uwsgi+unix:/PATH\", optionally followed by a space and \
     \"weight=N\" from 1 to 1000, or \"drain\"";

/// The allowed forms of an address of php-fpm, as the end of a sentence.
pub const FASTCGI_ALLOWED: &str = "\"unix:/PATH\", \"HOST:PORT\", \"fastcgi://HOST:PORT\" or \"fastcgi+unix:/PATH\", optionally followed by a space and \
     \"weight=N\" from 1 to 1000, or \"drain\"";

/// One origin of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginMember {
    /// Its address.
    pub at: OriginAddress,
    /// Its protocol.
    pub scheme: MemberProtocol,
    /// Its share of the requests, relative to the other origins: 1 to 1000.
    pub weight: u32,
    /// It gets no new requests.
    pub drained: bool,
    /// The path that precedes that of every request, without a slash at its end; usually empty.
    pub base: String,
    /// Whether the base path may be a secret: it was written with a variable of the environment.
    pub hides_base: bool,
}

/// The protocol of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberProtocol {
    /// HTTP/1.1.
    Http,
    /// TLS with HTTP/1.1, or with HTTP/2 if the route offers it.
    Https,
    /// HTTP/2 in clear text, from the first byte (RFC 9113 §3.3).
    H2c,
    /// FastCGI, SCGI or uWSGI.
    Application(ApplicationProtocol),
}

impl MemberProtocol {
    /// The scheme in addresses.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            MemberProtocol::Http => "http",
            MemberProtocol::Https => "https",
            MemberProtocol::H2c => "h2c",
            MemberProtocol::Application(ApplicationProtocol::FastCgi) => "fastcgi",
            MemberProtocol::Application(ApplicationProtocol::Scgi) => "scgi",
            MemberProtocol::Application(ApplicationProtocol::Uwsgi) => "uwsgi",
        }
    }
}

/// The origins of a route.
#[derive(Clone, Debug)]
pub struct Origins {
    /// The members; never empty, without duplicates.
    pub members: Vec<OriginMember>,
    /// The rules of their use.
    pub rules: GroupRules,
    /// The conditions of an ejection.
    pub ejection: BreakerSettings,
    /// The input of the hash, if the load balancing uses one.
    pub hash_by: HashBy,
    /// Their health check, without `host`; `None` without one.
    pub health: Option<HealthCheck>,
    /// The verification of those with TLS; `None` if there are none.
    pub tls: Option<OriginTls>,
    /// The name in their certificates, if it is not their own.
    pub tls_name: Option<String>,
    /// Whether HTTP/2 is offered to those with TLS.
    pub offers_http2: bool,
    /// The version of the PROXY header that begins their connections, if any.
    pub preamble: Option<PreambleVersion>,
}

impl OriginMember {
    /// Parses an address, optionally followed by ` weight=N` and ` drain`.
    ///
    /// # Errors
    /// The allowed forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let text = words.next().unwrap_or("");
        if let Some((scheme @ ("fcgi" | "cgi" | "ajp" | "tcp" | "ws" | "wss"), _)) = text.split_once("://") {
            return Err(match scheme {
                "ws" | "wss" => {
                    "http:// or https://, since a WebSocket begins with a request of HTTP".to_owned()
                }
                "fcgi" => "fastcgi:// in place of fcgi://".to_owned(),
                "cgi" => "a route with cgi = { root = \"/usr/lib/cgi-bin\" } in place of proxy".to_owned(),
                _ => format!("an origin that speaks HTTP; larder does not speak {scheme} to origins"),
            });
        }
        let (text, base) = base_path(text)?;
        let (at, scheme) = upstream(text)?;
        let mut member = Self { at, scheme, weight: 1, drained: false, base, hides_base: false };
        for word in words {
            match word.strip_prefix("weight=") {
                Some(weight) => {
                    let is_plain = weight.bytes().all(|it| it.is_ascii_digit());
                    let weight = weight.parse().ok().filter(|it| is_plain && (1..=MAX_WEIGHT).contains(it));
                    member.weight = weight.ok_or_else(|| {
                        format!("a weight from 1 to {MAX_WEIGHT}, or \"drain\" for no requests")
                    })?;
                }
                None if word == "drain" => member.drained = true,
                None => return Err(of_nginx(word).unwrap_or_else(|| ALLOWED.to_owned())),
            }
        }
        Ok(member)
    }

    /// Parses an address of php-fpm, where an address without a scheme means FastCGI.
    ///
    /// # Errors
    /// The allowed forms.
    pub fn parse_fastcgi(text: &str) -> Result<Self, String> {
        let is_named = text.contains("://") || text.starts_with("fastcgi+");
        let full = match text.trim_start() {
            text if is_named => text.to_owned(),
            text if text.starts_with("unix:") => format!("fastcgi+{text}"),
            text => format!("fastcgi://{text}"),
        };
        let is_fastcgi = |it: &Self| it.scheme == MemberProtocol::Application(ApplicationProtocol::FastCgi);
        let member = Self::parse(&full).ok().filter(is_fastcgi);
        member.ok_or_else(|| match text.starts_with('/') {
            true => format!("\"unix:{text}\" for a socket"),
            false => FASTCGI_ALLOWED.to_owned(),
        })
    }

    /// Its name in statistics.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.at.to_string();
        match (self.scheme, &self.at) {
            (MemberProtocol::Http, _) | (_, OriginAddress::Programs(_)) => name,
            (it, OriginAddress::Tcp(..)) => name.replacen("http", it.scheme(), 1),
            (it, OriginAddress::Unix(_)) => format!("{}+{name}", it.scheme()),
        }
    }

    /// Its own host without a port: the name in its certificate, unless configured. A Unix socket has none.
    #[must_use]
    pub fn host(&self) -> &str {
        match &self.at {
            OriginAddress::Tcp(host, _) => host,
            OriginAddress::Unix(_) | OriginAddress::Programs(_) => "localhost",
        }
    }

    /// Its own authority, as in `Host`.
    #[must_use]
    pub fn authority(&self) -> String {
        let default_port = if self.scheme == MemberProtocol::Https { 443 } else { 80 };
        match &self.at {
            OriginAddress::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            OriginAddress::Tcp(host, port) if *port == default_port => host.clone(),
            OriginAddress::Tcp(host, port) => format!("{host}:{port}"),
            OriginAddress::Unix(_) | OriginAddress::Programs(_) => "localhost".to_owned(),
        }
    }
}

impl Origins {
    /// The TLS settings for one of them, if it uses TLS.
    #[must_use]
    pub fn speaks(&self, member: &OriginMember) -> Option<OriginSecurity> {
        let tls = self.tls.clone().filter(|_| member.scheme == MemberProtocol::Https)?;
        let name = self.tls_name.clone().unwrap_or_else(|| member.host().to_owned());
        Some(OriginSecurity { tls, name })
    }

    /// The protocol of one of them.
    #[must_use]
    pub fn protocol(&self, member: &OriginMember) -> Protocol {
        match member.scheme {
            MemberProtocol::H2c => Protocol::Http2,
            MemberProtocol::Https if self.offers_http2 => Protocol::Negotiated,
            MemberProtocol::Http | MemberProtocol::Https => Protocol::Http1,
            MemberProtocol::Application(protocol) => Protocol::Application(protocol),
        }
    }
}

impl fmt::Display for OriginMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        f.write_str(if self.hides_base { rewrite::HIDDEN_PATH } else { &self.base })?;
        if self.weight != 1 {
            write!(f, " weight={}", self.weight)?;
        }
        f.write_str(if self.drained { " drain" } else { "" })
    }
}

/// The remedy for a parameter that a server has in nginx.
fn of_nginx(word: &str) -> Option<String> {
    let key = match word.split('=').next().unwrap_or(word) {
        "backup" => "the address alone; a backup belongs to proxy.backup",
        "down" => "\"drain\" in place of \"down\"",
        "max_fails" => "the address alone; the failures are proxy.eject_after",
        "fail_timeout" => "the address alone; the times are proxy.eject_window and proxy.eject_time",
        "max_conns" => "the address alone; the limit is proxy.connections",
        "slow_start" => "the address alone; the time is proxy.slow_start",
        _ => return None,
    };
    Some(key.to_owned())
}

/// Splits the base path from a URL.
fn base_path(text: &str) -> Result<(&str, String), String> {
    let Some((scheme, rest)) = text.split_once("://").filter(|it| matches!(it.0, "http" | "https" | "h2c"))
    else {
        return Ok((text, String::new()));
    };
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let base = rest[at..].trim_end_matches('/');
    if !base.is_empty() && !rewrite::is_prefix(base) {
        return Err(format!("a base path without \"//\", \".\", \"..\", \"?\" and \"#\" in {ALLOWED}"));
    }
    Ok((&text[..scheme.len() + 3 + at], base.to_owned()))
}

/// Parses the address of an origin of a route, and its protocol.
///
/// # Errors
/// The allowed forms.
fn upstream(text: &str) -> Result<(OriginAddress, MemberProtocol), String> {
    let read = if let Some(rest) = text.strip_prefix("https://") {
        address::authority_of(text, rest, Some(443)).map(|it| (it, MemberProtocol::Https))
    } else if let Some(rest) = text.strip_prefix("h2c://") {
        address::authority_of(text, rest, Some(80)).map(|it| (it, MemberProtocol::H2c))
    } else if let Some((protocol, rest)) = application(text) {
        match rest.strip_prefix("://") {
            Some(rest) => address::authority_of(text, rest, None),
            None => address::origin(rest.strip_prefix('+').unwrap_or(rest)),
        }
        .map(|it| (it, MemberProtocol::Application(protocol)))
    } else if let Some(path) = text.strip_prefix("h2c+").filter(|it| it.starts_with("unix:")) {
        address::origin(path).map(|it| (it, MemberProtocol::H2c))
    } else {
        address::origin(text).map(|it| (it, MemberProtocol::Http))
    };
    // Here more forms are allowed than for other origins.
    read.map_err(|why| why.replacen(address::ORIGIN, ALLOWED, 1))
}

/// The protocol of an address of an application, and the rest of it.
fn application(text: &str) -> Option<(ApplicationProtocol, &str)> {
    let all = [
        ("fastcgi", ApplicationProtocol::FastCgi),
        ("scgi", ApplicationProtocol::Scgi),
        ("uwsgi", ApplicationProtocol::Uwsgi),
    ];
    let (scheme, protocol) = all.into_iter().find(|it| text.starts_with(it.0))?;
    let rest = &text[scheme.len()..];
    (rest.starts_with("://") || rest.starts_with("+unix:")).then_some((protocol, rest))
}

/// Parses `target`, `client`, `header:NAME` or `cookie:NAME`.
#[must_use]
pub fn hash_by(text: &str) -> Option<HashBy> {
    match text.split_once(':') {
        None if text == "target" => Some(HashBy::Target),
        None if text == "client" => Some(HashBy::Client),
        Some(("header", name)) if is_token(name.as_bytes()) => Some(HashBy::Header(name.to_owned())),
        Some(("cookie", name)) if is_token(name.as_bytes()) => Some(HashBy::Cookie(name.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        match OriginMember::parse(text) {
            Ok(it) => assert_eq!(expect, it.to_string(), "{text}"),
            Err(why) => assert!(!expect.is_empty() && why.contains(expect), "{text}: {why}"),
        }
    }

    #[test]
    fn members() {
        check("http://a:1", "http://a:1");
        check("https://a", "https://a:443");
        check("https://a:1 weight=2", "https://a:1 weight=2");
        check("https://[::1]", "https://[::1]:443");
        check("h2c://a", "h2c://a:80");
        check("h2c://[::1]:1 drain", "h2c://[::1]:1 drain");
        check("h2c+unix:/run/a weight=2", "h2c+unix:/run/a weight=2");
        check("h2c://", "\"h2c://HOST:PORT\"");
        check("h2c+unix:", "\"h2c://HOST:PORT\"");
        check("a:1  weight=3", "http://a:1 weight=3");
        check("a:1 drain weight=1", "http://a:1 drain");
        check("unix:/run/a weight=1000", "unix:/run/a weight=1000");
        for wrong in ["0", "1001", "+1", "", "1.5"] {
            check(&format!("a:1 weight={wrong}"), "a weight from 1 to 1000, or \"drain\" for no requests");
        }
        check("a:1 heavy", "\"weight=N\"");
        check("", "\"http://HOST:PORT\"");
        check("http://a:1 backup", "a backup belongs to proxy.backup");
        check("http://a:1 down", "\"drain\" in place of");
        check("a:1 max_fails=3", "proxy.eject_after");
        check("fastcgi://127.0.0.1:9000", "fastcgi://127.0.0.1:9000");
        check("fastcgi+unix:/run/php.sock weight=2", "fastcgi+unix:/run/php.sock weight=2");
        check("scgi://localhost:4000", "scgi://localhost:4000");
        check("uwsgi+unix:/run/app.sock", "uwsgi+unix:/run/app.sock");
        check("uwsgi://a", "\"uwsgi://HOST:PORT\"");
        check("fastcgi://a:1/b", "without a path");
        check("fcgi://a:1", "fastcgi:// in place of fcgi://");
        check("cgi:///usr/lib/cgi-bin", "a route with cgi = {");
        check("ajp://a:1", "larder does not speak ajp to origins");
        check("wss://a", "http:// or https://");
        check("http://a/b/ weight=2", "http://a:80/b weight=2");
        check("https://a:1/b/%63", "https://a:1/b/%63");
        check("h2c://a:1/", "h2c://a:1");
        for wrong in
            ["http://a//b", "http://a/b/../c", "http://a/b?c", "http://a?c", "http://a/b#c", "http://a/%4"]
        {
            check(wrong, "a base path without");
        }
        check("a:1/b", "without a path");
        check("ftp://a/b", "without a path");
    }

    #[test]
    fn addresses_of_php() {
        let named = |text: &str| OriginMember::parse_fastcgi(text).map(|it| it.to_string());
        for (text, expect) in [
            ("unix:/run/php.sock", "fastcgi+unix:/run/php.sock"),
            ("127.0.0.1:9000 weight=2", "fastcgi://127.0.0.1:9000 weight=2"),
            ("[::1]:9000", "fastcgi://[::1]:9000"),
            ("fastcgi://php:9000 drain", "fastcgi://php:9000 drain"),
            ("fastcgi+unix:/run/php.sock", "fastcgi+unix:/run/php.sock"),
        ] {
            assert_eq!(Ok(expect.to_owned()), named(text), "{text}");
        }
        for wrong in
            ["http://a:1", "scgi://a:1", "uwsgi+unix:/a", "", "a", "unix:", "127.0.0.1:9000 heavy", "a:1/b"]
        {
            assert_eq!(Err(FASTCGI_ALLOWED.to_owned()), named(wrong), "{wrong}");
        }
        assert_eq!(Err("\"unix:/run/php.sock\" for a socket".to_owned()), named("/run/php.sock"));
    }

    #[test]
    fn the_sources_of_a_hash_are_parsed() {
        assert_eq!(Some(HashBy::Cookie("id".into())), hash_by("cookie:id"));
        assert_eq!(Some(HashBy::Header("X-User".into())), hash_by("header:X-User"));
        assert_eq!([None, None, None], ["", "header:", "cookie:a b"].map(hash_by));
    }
}
