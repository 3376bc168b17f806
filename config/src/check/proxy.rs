//! `proxy` of a route: its origins, their load balancing, and their limits.

use super::{ConfigCheck, RoutePath, clamp};
use crate::kind;
use crate::member::{self, MemberProtocol, OriginMember, Origins};
use crate::problem::{Problem, Source};
use crate::{OriginHost, Proxy};
use larder_gateway::buffered::BufferedBodies;
use larder_origin::{
    AllEjected, Balance, BodyTest, GroupRules, HealthCheck, MOST_ORIGINS, OriginLimits, OriginTls,
    TlsSettings,
};
use larder_stdx::circuit_breaker::BreakerSettings;
use larder_wire::proxy::PreambleVersion;

/// Whether it is an application behind FastCGI, SCGI or uWSGI.
pub(super) fn is_application(member: &OriginMember) -> bool {
    matches!(member.scheme, MemberProtocol::Application(_))
}

/// The default number of requests that wait, for each possible connection or process.
pub(super) const QUEUE_OF_EACH: usize = 16;

impl ConfigCheck {
    /// The protocols that a connection may be upgraded to.
    pub(super) fn upgrades(&mut self, at: &RoutePath) -> Vec<String> {
        let key = at.key("upgrade");
        let protocols = self.texts(&key);
        if protocols.iter().any(|it| it.eq_ignore_ascii_case("h2c")) {
            // RFC 9113 has removed it, and the tunnelled requests could not be checked.
            let text = "\"h2c\" cannot be upgraded to; clients use HTTP/2 in clear text directly, without an upgrade";
            self.problem(self.source(&key), "site.route.upgrade", text);
        }
        protocols
    }

    pub(super) fn proxy(&mut self, at: &RoutePath, route: &Source) -> Option<Proxy> {
        let key = |name: &str| at.key(&format!("proxy.{name}"));
        let (members, backups) = self.members(at, route);
        self.no_upgrade(at, &members);
        let balance = self.balance(at);
        let connections = self.usize(&key("connections"));
        let limits = OriginLimits {
            connect: self.time(&key("connect_timeout")),
            handshake: self.time(&key("tls.timeout")),
            first_byte: self.time(&key("first_byte_timeout")),
            between_bytes: self.time(&key("between_bytes_timeout")),
            total: self.time(&key("total_timeout")),
            idle: self.time(&key("idle_timeout")),
            head_size: self.usize(&key("head_size")),
            connections,
            queue: self.given_number(&key("queue")).map_or(connections.saturating_mul(QUEUE_OF_EACH), clamp),
            queue_wait: self
                .values
                .given
                .contains_key(&key("queue_timeout"))
                .then(|| self.time(&key("queue_timeout"))),
            idle_connections: self.idle_connections(at, &members),
            interim: self.usize(&key("interim")),
        };
        let host = self.origin_host(at);
        let refuses = self.text(&key("all_ejected")) == "refuse";
        let slow_start = self.time(&key("slow_start"));
        let is_alone = members.len() < 2 && !refuses;
        let number = |name: &str| u32::try_from(self.number(&key(name))).unwrap_or(u32::MAX);
        let rules = GroupRules {
            balance,
            slow_start,
            all_ejected: if refuses { AllEjected::Refuse } else { AllEjected::Try },
            tries: number("tries"),
            budget: number("retry_budget"),
            failure_statuses: self
                .texts(&key("failure_statuses"))
                .iter()
                .filter_map(|it| it.parse().ok())
                .collect(),
            backups,
        };
        let ejection = BreakerSettings {
            // Ejecting the only origin has no use, since it is used even so.
            failures: if is_alone { 0 } else { number("eject_after") },
            window: self.time(&key("eject_window")),
            time: self.time(&key("eject_time")),
            max_time: self.time(&key("eject_max")),
        };
        let health = self.health(at);
        let (tls, tls_name) = self.tls_to(at, &members);
        let offers_http2 = self.offers_http2(at, &members);
        let preamble = self.preamble(at, &members, offers_http2);
        let buffers = match self.flag(&key("buffer_request")) {
            true => BufferedBodies::All,
            false if members.iter().any(is_application) => BufferedBodies::Unsized,
            false => BufferedBodies::None,
        };
        let hash_by = member::hash_by(&self.text(&key("hash_by"))).unwrap_or_default();
        (!members.is_empty()).then_some(Proxy {
            php: None,
            to: Origins { members, rules, ejection, hash_by, health, tls, tls_name, offers_http2, preamble },
            limits,
            host,
            sticky: self.sticky(at),
            buffers,
            sendfile: self.sendfile(at),
        })
    }

    /// The unused connections that are kept. A process of php-fpm serves one connection at a time, so that one that is kept
    /// occupies it: none are, unless the configuration asks for it.
    fn idle_connections(&self, at: &RoutePath, members: &[OriginMember]) -> usize {
        let key = at.key("proxy.idle_connections");
        match members.iter().any(is_application) && !self.values.given.contains_key(&key) {
            true => 0,
            false => self.usize(&key),
        }
    }

    /// The protocols of applications have no upgrade.
    fn no_upgrade(&mut self, at: &RoutePath, members: &[OriginMember]) {
        let key = at.key("upgrade");
        let source = self.source(&key);
        let is_given = self.values.given.contains_key(&key) && !self.texts(&key).is_empty();
        if let Some(it) = members.iter().find(|it| is_application(it)).filter(|_| is_given)
            && !self.is_of_block(&source)
        {
            let text = format!(
                "{it} uses {}, which has no upgrades; use an http:// origin for them, or remove this key",
                it.scheme.scheme()
            );
            self.problem(source, "site.route.upgrade", &text);
        }
    }

    /// Whether the origins speak protocols that one request can be written in: HTTP, or one of applications.
    fn one_protocol(&mut self, key: &str, named: &str, members: &[OriginMember]) {
        let family = |it: &OriginMember| match it.scheme {
            MemberProtocol::Application(it) => Some(it),
            MemberProtocol::Http | MemberProtocol::Https | MemberProtocol::H2c => None,
        };
        let Some(first) = members.first() else { return };
        if let Some(other) = members.iter().find(|it| family(it) != family(first)) {
            let text = format!(
                "{first} and {other} have different protocols, and a request moves from a failing origin to another; give each \
                 protocol a route of its own"
            );
            self.problem(self.source(key), named, &text);
        }
    }

    /// The `Host` for the origins.
    fn origin_host(&mut self, at: &RoutePath) -> OriginHost {
        let [host, preserve] = ["proxy.host", "proxy.preserve_host"].map(|it| at.key(it));
        let named = self.text(&host);
        if !named.is_empty() {
            if self.values.given.contains_key(&preserve) && self.flag(&preserve) {
                let text = "host and preserve_host = true contradict each other; remove one of them";
                self.problem(self.source(&host), "site.route.proxy.host", text);
            }
            return OriginHost::Named(named);
        }
        if self.flag(&preserve) { OriginHost::Client } else { OriginHost::Own }
    }

    /// The origins, backups last, and the number of those; none if one of them is invalid.
    fn members(&mut self, at: &RoutePath, route: &Source) -> (Vec<OriginMember>, usize) {
        let is_php = self.has(at, "php");
        let name = if is_php { "php.to" } else { "proxy.to" };
        let parse = if is_php { OriginMember::parse_fastcgi } else { OriginMember::parse };
        let (key, named) = (at.key(name), format!("site.route.{name}"));
        let (texts, source) = (self.texts(&key), self.source(&key));
        if texts.is_empty() && !self.is_wrong(&key) {
            let text = match is_php {
                true => "missing; set the address of php-fpm, such as to = \"unix:/run/php/php-fpm.sock\"",
                false => "missing; set the origin, such as to = [\"http://127.0.0.1:8000\"]",
            };
            self.problem(route.clone(), &named, text);
        }
        let mut members: Vec<OriginMember> = texts.iter().filter_map(|it| parse(it).ok()).collect();
        let first = members.len();
        if first > 0 && members.iter().all(|it| it.drained) {
            let text = "every origin is drained; at least one must serve requests";
            self.problem(source.clone(), &named, text);
        }
        let of_backups = at.key("proxy.backup");
        let backups = self.texts(&of_backups);
        members.extend(backups.iter().filter_map(|it| OriginMember::parse(it).ok()));
        for (number, it) in members.iter_mut().enumerate().filter(|it| !it.1.base.is_empty()) {
            let written = self.with_variables(if number < first { &key } else { &of_backups });
            it.hides_base = written.is_some_and(|text| !text.contains(&it.base));
        }
        if let Some(twice) =
            (1..members.len()).find(|it| members[..*it].iter().any(|has| has.name() == members[*it].name()))
        {
            let member = members[twice].name();
            let is_backup = twice >= first && members[..first].iter().any(|it| it.name() == member);
            let (key, text) = match is_backup {
                true => {
                    ("proxy.backup", format!("{member} is one of {name} already; remove it from one of them"))
                }
                false => (name, format!("duplicate origin {member}; use weight=N for a larger share")),
            };
            self.problem(self.source(&at.key(key)), &format!("site.route.{key}"), &text);
        }
        self.one_protocol(&key, &named, &members);
        if let Some(other) = members.iter().find(|it| it.base != members[0].base) {
            let text = format!(
                "{} and {other} have different base paths, but the origins of a route get the same request; use one base \
                 path, or a route for each",
                members[0]
            );
            self.problem(source.clone(), "site.route.proxy.to", &text);
        }
        if members.len() > MOST_ORIGINS {
            let text = format!("{} origins; the maximum per route is {MOST_ORIGINS}", members.len());
            self.problem(source, &named, &text);
        }
        let backups = members.len() - first;
        (if first == 0 { Vec::new() } else { members }, backups)
    }

    /// The health check of the origins.
    fn health(&mut self, at: &RoutePath) -> Option<HealthCheck> {
        let key = |name: &str| at.key(&format!("proxy.health.{name}"));
        let path = self.text(&key("path"));
        if path.is_empty() {
            let names = ["interval", "timeout", "fall", "rise", "host", "method", "status", "body"];
            if let Some(given) = names.iter().find(|it| self.values.given.contains_key(&key(it)))
                && !self.is_wrong(&key("path"))
            {
                let text = "the health check has no path; set one, such as path = \"/health\"";
                self.problem(self.source(&key(given)), &format!("site.route.proxy.health.{given}"), text);
            }
            return None;
        }
        let method = self.text(&key("method"));
        let body = Some(self.text(&key("body"))).filter(|it| !it.is_empty());
        if method == "HEAD" && body.is_some() {
            let text = "a response to HEAD has no body; set method = \"GET\", or remove body";
            self.problem(self.source(&key("body")), "site.route.proxy.health.body", text);
        }
        let number = |name: &str| u32::try_from(self.number(&key(name))).unwrap_or(u32::MAX);
        Some(HealthCheck {
            path,
            host: self.text(&key("host")),
            method,
            statuses: self.texts(&key("status")).iter().filter_map(|it| kind::status_range(it)).collect(),
            body: body.and_then(|it| BodyTest::parse(&it).ok()),
            interval: self.time(&key("interval")),
            timeout: self.time(&key("timeout")),
            rise: number("rise"),
            fall: number("fall"),
        })
    }

    /// The verification of origins with TLS, and their name; nothing if there are none.
    fn tls_to(&mut self, at: &RoutePath, members: &[OriginMember]) -> (Option<OriginTls>, Option<String>) {
        let key = |name: &str| at.key(&format!("proxy.tls.{name}"));
        let say = |name: &str| format!("site.route.proxy.tls.{name}");
        if !members.iter().any(|it| it.scheme == MemberProtocol::Https) {
            let names = ["ca", "name", "verify", "client_cert", "client_key", "timeout"];
            if let Some(given) = names.iter().find(|it| self.values.given.contains_key(&key(it))) {
                let text = "no origin of the route uses TLS; write \"https://HOST\" in proxy.to";
                self.problem(self.source(&key(given)), &say(given), text);
            }
            return (None, None);
        }
        let settings = self.tls_settings(&key, "site.route.proxy.tls");
        let tls = OriginTls::new(&settings).map_err(|why| {
            let named = ["ca", "client_cert"].into_iter().find(|it| self.values.given.contains_key(&key(it)));
            let named = named.unwrap_or("ca");
            let source = match self.source(&key(named)) {
                Source::Default => self.source(&at.key("proxy.to")),
                source => source,
            };
            self.problem(source, &say(named), &why);
        });
        let name = Some(self.text(&key("name"))).filter(|it| !it.is_empty());
        (tls.ok(), name)
    }

    /// The files and the verification of TLS towards servers, by keys of a section.
    pub(super) fn tls_settings(&mut self, key: &dyn Fn(&str) -> String, section: &str) -> TlsSettings {
        let say = |name: &str| format!("{section}.{name}");
        let own = match (self.path(&key("client_cert")), self.path(&key("client_key"))) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (certificate, _) => {
                let (has, lacks) = match certificate {
                    Some(_) => ("client_cert", "client_key"),
                    None => ("client_key", "client_cert"),
                };
                let text = format!("no effect without {lacks}; set that as well");
                self.problem(self.source(&key(has)), &say(has), &text);
                None
            }
        };
        let unverified = !self.flag(&key("verify"));
        if unverified {
            let text = "the certificate of the server is not verified; set its CA with ca = \"FILE\" instead";
            let source = self.source(&key("verify"));
            self.warnings.push(Problem { source, key: say("verify"), text: text.to_owned() });
        }
        TlsSettings { ca: self.path(&key("ca")), unverified, own }
    }

    /// Whether HTTP/2 is offered to origins with TLS. For other origins the key is an error.
    fn offers_http2(&mut self, at: &RoutePath, members: &[OriginMember]) -> bool {
        let key = at.key("proxy.http2");
        if self.values.given.contains_key(&key)
            && !members.iter().any(|it| it.scheme == MemberProtocol::Https)
        {
            let text = "no origin of the route uses TLS, which negotiates HTTP/2; for HTTP/2 in clear text write \
                        \"h2c://HOST:PORT\" in proxy.to";
            self.problem(self.source(&key), "site.route.proxy.http2", text);
        }
        self.flag(&key)
    }

    /// The PROXY header for the origins. Connections that several clients share have none.
    fn preamble(
        &mut self,
        at: &RoutePath,
        members: &[OriginMember],
        offers_http2: bool,
    ) -> Option<PreambleVersion> {
        let key = at.key("proxy.proxy_protocol");
        let version = match self.text(&key).as_str() {
            "v1" => PreambleVersion::V1,
            "v2" => PreambleVersion::V2,
            _ => return None,
        };
        let h2c = members.iter().find(|it| it.scheme == MemberProtocol::H2c);
        let shared = match h2c {
            Some(it) => Some(format!("{it} uses HTTP/2; use http:// or https://")),
            None => offers_http2.then(|| "http2 = true offers HTTP/2; remove it".to_owned()),
        };
        if let Some(shared) = shared {
            let text = format!(
                "a PROXY header names one client for a connection, and an HTTP/2 connection carries several: {shared}"
            );
            self.problem(self.source(&key), "site.route.proxy.proxy_protocol", &text);
        }
        Some(version)
    }

    fn balance(&mut self, at: &RoutePath) -> Balance {
        let balance = Balance::named(&self.text(&at.key("proxy.balance"))).unwrap_or_default();
        let by = at.key("proxy.hash_by");
        let hashes = matches!(balance, Balance::Hash | Balance::ConsistentHash);
        if self.values.given.contains_key(&by) && !hashes && !self.is_wrong(&at.key("proxy.balance")) {
            let text = "balance does not use a hash; set balance = \"consistent_hash\" or \"hash\" as well";
            self.problem(self.source(&by), "site.route.proxy.hash_by", text);
        }
        balance
    }
}
