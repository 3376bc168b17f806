//! `access.forward` of a route: the service that decides about its requests, and its contradictions.

use super::{ConfigCheck, RoutePath};
use crate::access::{ForwardConfig, ForwardKey};
use crate::address::authority;
use crate::member::{MemberProtocol, OriginMember};
use crate::problem::Source;
use larder_gateway::trusted_headers;
use larder_origin::{OriginTls, TlsSettings};
use std::time::Duration;

/// The keys that have no effect without a service.
const OF_SERVICE: [&str; 7] = ["path", "timeout", "copy", "ttl", "key", "redirect", "ca"];

/// Fields that are not copied to requests, each with the reason.
const NOT_COPIED: [(&str, &str); 3] = [
    ("cookie", "the cookies of a request are those of the client"),
    ("accept-encoding", "it decides which stored form a client gets"),
    ("content-type", "it describes the body of the client"),
];

impl ConfigCheck {
    pub(super) fn forward(&mut self, at: &RoutePath) -> Option<ForwardConfig> {
        let key = |it: &Self, name: &str| it.access_key(at, &format!("forward.{name}"));
        let to = key(self, "to");
        let text = self.text(&to);
        if text.is_empty() {
            let given = OF_SERVICE.into_iter().find(|it| self.values.given.contains_key(&key(self, it)));
            if let Some(name) = given.filter(|_| !self.is_wrong(&to)) {
                let text = format!(
                    "{name} has no effect without a service; add access.forward.to, such as \"http://127.0.0.1:4180\""
                );
                let source = self.source(&key(self, name));
                self.problem(source, &format!("site.route.access.forward.{name}"), &text);
            }
            return None;
        }
        let member = OriginMember::parse(&text).ok()?;
        if member.weight != 1 || member.drained {
            let text = "the service is one origin; remove \"weight\" and \"drain\"";
            self.problem(self.source(&to), "site.route.access.forward.to", text);
        }
        if matches!(member.scheme, MemberProtocol::Application(_)) {
            let text = format!(
                "found \"{text}\"; the service is asked over HTTP: name its HTTP address, such as \"http://127.0.0.1:4180\""
            );
            self.problem(self.source(&to), "site.route.access.forward.to", &text);
        }
        let copy = self.copied(&key(self, "copy"));
        let ttl = self.time(&key(self, "ttl"));
        let config = ForwardConfig {
            path: self.text(&key(self, "path")),
            timeout: self.time(&key(self, "timeout")),
            copy,
            ttl,
            key: self.reuse_key(&key(self, "key"), ttl),
            redirect: self.sign_in(&key(self, "redirect")),
            ca: self.path(&key(self, "ca")),
            to: member,
        };
        self.refuse_ca(&config, &key(self, "ca"), &to);
        Some(config)
    }

    /// The fields that requests get.
    fn copied(&mut self, key: &str) -> Vec<String> {
        let names = self.texts(key);
        for name in &names {
            if self.refuse_own(key, "access.forward.copy", name) {
                continue;
            }
            let known = NOT_COPIED.iter().find(|it| name.eq_ignore_ascii_case(it.0)).map(|it| it.1);
            let reaches = trusted_headers::reaches_an_origin(name, true, |_| false);
            if let Some(why) = known.or((!reaches).then_some("larder writes or drops it")) {
                let text = format!("{name} cannot be copied to requests: {why}; use another field");
                self.problem(self.source(key), "site.route.access.forward.copy", &text);
            }
        }
        names
    }

    fn reuse_key(&mut self, key: &str, ttl: Duration) -> Vec<ForwardKey> {
        let parts: Vec<_> = self.texts(key).iter().filter_map(|it| ForwardKey::parse(it)).collect();
        let wrong = match () {
            () if parts.is_empty() => None,
            () if ttl.is_zero() => {
                Some("no effect, since answers are not reused; set access.forward.ttl, such as \"10s\"")
            }
            () if !parts.iter().any(ForwardKey::is_of_client) => Some(
                "an answer for one client would admit all others; add the part by which the service knows a client, such as \
                 \"cookie:NAME\"",
            ),
            () => None,
        };
        if let Some(text) = wrong {
            self.problem(self.source(key), "site.route.access.forward.key", text);
        }
        parts
    }

    /// The page for clients that the service does not know.
    fn sign_in(&mut self, key: &str) -> Option<String> {
        let text = Some(self.text(key)).filter(|it| !it.is_empty())?;
        let rest = text.replace("{url}", "").replace("{uri}", "");
        let scheme = ["http://", "https://"].into_iter().find(|it| rest.starts_with(it));
        let is_path = rest.starts_with('/') && !rest.starts_with("//");
        let host = |it: &str| text[it.len()..].split(['/', '?']).next().unwrap_or_default().to_owned();
        let has_host = scheme.is_some_and(|it| authority(&host(it)).is_some());
        if !(is_path || has_host) || rest.contains(['{', '}', ' ', '\\', '"', '<', '>']) {
            let wrong = "a path such as \"/oauth2/start?rd={uri}\", or a URL that begins with \"https://\" and a host; {url} and \
                         {uri} are the only variables";
            let text = format!("found \"{text}\", expected {wrong}");
            self.problem(self.source(key), "site.route.access.forward.redirect", &text);
        }
        Some(text)
    }

    /// Rejects certificates that cannot be read, or have no use.
    fn refuse_ca(&mut self, config: &ForwardConfig, ca: &str, to: &str) {
        let is_secure = config.to.scheme == MemberProtocol::Https;
        let wrong = match (&config.ca, is_secure) {
            (Some(_), false) => {
                Some("the service does not use TLS; write \"https://HOST\" in access.forward.to".to_owned())
            }
            (None, false) => None,
            (ca, true) => OriginTls::new(&TlsSettings { ca: ca.clone(), ..TlsSettings::default() }).err(),
        };
        if let Some(text) = wrong {
            let (key, name) = if self.source(ca) == Source::Default { (to, "to") } else { (ca, "ca") };
            self.problem(self.source(key), &format!("site.route.access.forward.{name}"), &text);
        }
    }
}
