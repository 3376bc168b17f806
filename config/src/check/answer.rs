//! Answers that larder makes itself: redirects, fixed answers, maintenance. The service of a route is chosen in `check.rs`.

use super::variables::is_foreign;
use super::{ConfigCheck, RoutePath};
use crate::finish::{MaintenanceConfig, RedirectConfig, RespondBody, RespondConfig, SiteRedirects};
use crate::include;
use crate::kind::{HostPattern, PathPattern};
use crate::problem::Source;
use crate::redirect_map::{self, RedirectMap};
use crate::redirect_target;
use larder_semantics::network::Network;
use larder_semantics::template::Template;
use larder_stdx::size::ByteSize;
use larder_transport::NO_RESPONSE;
use larder_transport::listener::{Listen, ListenerAddress};
use std::sync::Arc;

impl ConfigCheck {
    pub(super) fn redirect(
        &mut self,
        at: &RoutePath,
        route: &Source,
        path: &PathPattern,
    ) -> Option<RedirectConfig> {
        let (to, status) = (at.key("redirect.to"), at.key("redirect.status"));
        let text = self.text(&to);
        if text.is_empty() {
            if !self.is_wrong(&to) {
                let text = "missing; set the target, such as to = \"https://example.com{uri}\"";
                self.problem(route.clone(), "site.route.redirect.to", text);
            }
            return None;
        }
        let code = self.number(&status);
        let source = self.source(&to);
        self.refuse_open_redirect(&source, "site.route.redirect.to", &text);
        let target = Template::parse(&text).ok()?;
        self.refuse_variables(at, &to, "site.route.redirect.to", &target, path);
        let (shown, status) = (self.written(&to), u16::try_from(code).unwrap_or(302));
        Some(RedirectConfig { to: target, shown, status })
    }

    pub(super) fn respond(&mut self, at: &RoutePath, path: &PathPattern) -> Option<RespondConfig> {
        let key = |name: &str| at.key(&format!("respond.{name}"));
        let given = |it: &Self, name: &str| it.values.given.contains_key(&key(name));
        let all = ["body", "file", "health"].map(|it| given(self, it));
        if all.iter().filter(|it| **it).count() > 1 {
            let text = "more than one of body, file and health is set; keep one";
            self.problem(self.source(&key("body")), "site.route.respond", text);
        }
        let body = if all[1] {
            let (source, file) = (self.source(&key("file")), self.text(&key("file")));
            RespondBody::File(self.served_file(&source, "site.route.respond.file", &file)?)
        } else {
            match self.text(&key("health")).as_str() {
                "live" => RespondBody::Live,
                "ready" => RespondBody::Ready,
                _ => {
                    let (text, row) = (self.text(&key("body")), "site.route.respond.body");
                    let instead = "write respond.file for the content of a file";
                    self.refuse_file(&key("body"), row, &text, instead);
                    let body = Template::parse(&text).ok()?;
                    self.refuse_variables(at, &key("body"), row, &body, path);
                    RespondBody::Text(body)
                }
            }
        };
        let media_type = Some(self.text(&key("type"))).filter(|it| !it.is_empty());
        let status = u16::try_from(self.number(&key("status"))).unwrap_or(200);
        self.refuse_respond(at, status, &body);
        Some(RespondConfig { status, body, media_type })
    }

    /// Statuses that contradict the body or need a field.
    fn refuse_respond(&mut self, at: &RoutePath, status: u16, body: &RespondBody) {
        let key = at.key("respond.status");
        let is_given =
            |it: &Self, name: &str| it.values.given.contains_key(&at.key(&format!("respond.{name}")));
        let has_content =
            is_given(self, "file") || matches!(body, RespondBody::Text(it) if !it.text().is_empty());
        let text = match (status, body) {
            (_, RespondBody::Live | RespondBody::Ready) if is_given(self, "status") => {
                "no effect: the status of health is 200, or 503 while larder drains; remove it".to_owned()
            }
            (NO_RESPONSE, _) if has_content => {
                "444 closes the connection without a response; remove the body".to_owned()
            }
            (204 | 205 | 304, _) if has_content => {
                format!("a response with status {status} has no body (RFC 9110); remove the body, or use 200")
            }
            (301 | 302 | 303 | 307 | 308, _) if !self.sets_location(at) => {
                format!(
                    "a response with status {status} needs a Location; use redirect = {{ to = \"/new\", status = {status} }} \
                     in place of respond"
                )
            }
            _ => return,
        };
        self.problem(self.source(&key), "site.route.respond.status", &text);
    }

    /// Whether the route or its site adds a `Location` to responses.
    fn sets_location(&self, at: &RoutePath) -> bool {
        let prefixes = [at.key("response_headers"), at.of_site("response_headers")];
        let keys =
            prefixes.iter().flat_map(|it| ["set", "add", "default"].map(|name| format!("{it}.{name}")));
        keys.flat_map(|it| self.pairs(&it)).any(|it| it.0.eq_ignore_ascii_case("location"))
    }

    pub(super) fn maintenance(&mut self, at: &RoutePath) -> Option<MaintenanceConfig> {
        let key = |name: &str| self.site_key(at, &format!("maintenance.{name}"));
        let (page, source) = (self.text(&key("page")), self.source(&key("page")));
        let config = MaintenanceConfig {
            enabled: self.flag(&key("enabled")),
            allow: self.texts(&key("allow")).iter().filter_map(|it| Network::parse(it)).collect(),
            retry_after: self.time(&key("retry_after")).as_secs(),
            page: None,
        };
        let page = match page.is_empty() {
            true => None,
            false => self.served_file(&source, "site.route.maintenance.page", &page),
        };
        config.enabled.then_some(MaintenanceConfig { page, ..config })
    }

    /// The redirects of the site at `prefix`, which has these hosts.
    pub(super) fn site_redirects(&mut self, prefix: &str, hosts: &[HostPattern]) -> SiteRedirects {
        let key = |name: &str| format!("{prefix}.{name}");
        let host = Some(self.text(&key("canonical_host"))).filter(|it| !it.is_empty());
        if let Some(name) = &host {
            // A site without a route sends its clients to another site.
            let has_routes = self.values.count(&format!("{prefix}.route")) > 0;
            let problem = match (hosts.iter().any(|it| it.strength(name) > 0), hosts) {
                (false, _) if !has_routes => None,
                (false, _) => Some(format!("\"{name}\" is no host of this site; add it to hosts")),
                (true, [HostPattern::Exact(_)]) => {
                    Some("the site has no other host to redirect; remove this key".to_owned())
                }
                _ => None,
            };
            if let Some(text) = problem {
                self.problem(self.source(&key("canonical_host")), "site.canonical_host", &text);
            }
        }
        let to_https = self.flag(&key("redirect_https"));
        let is_tls = |it: &ListenerAddress| matches!(it.at, Listen::Tls(_));
        if to_https && !self.listen().iter().any(is_tls) && self.texts("clients.trusted").is_empty() {
            let text = "no address of listen has TLS, so another server must answer on the port of https; name it in \
                        clients.trusted if it sends requests to larder, which are redirected again otherwise, or add an address \
                        such as \"https://0.0.0.0:443\"";
            if !self.is_wrong("listen") && !self.is_wrong("clients.trusted") {
                self.warn_of(self.source(&key("redirect_https")), "site.redirect_https", text);
            }
        }
        let status = self.site_redirect_status(prefix, to_https || host.is_some());
        SiteRedirects { to_https, canonical_host: host, status, map: self.redirect_map(&key("redirect_map")) }
    }

    /// The status of the redirects of a site; `has_some` is whether there are any.
    fn site_redirect_status(&mut self, prefix: &str, has_some: bool) -> u16 {
        let key = format!("{prefix}.redirect_status");
        let status = self.number(&key);
        if !has_some && self.values.given.contains_key(&key) && !self.is_wrong(&key) {
            let text = "no effect without redirect_https or canonical_host; remove it";
            self.problem(self.source(&key), "site.redirect_status", text);
        }
        u16::try_from(status).unwrap_or(308)
    }

    fn redirect_map(&mut self, key: &str) -> Option<Arc<RedirectMap>> {
        let path = self.path(key)?;
        let mut report = |text: String| self.problem(self.source(key), "site.redirect_map", &text);
        let file = path.display();
        match include::read_text(&path, redirect_map::LARGEST) {
            Ok(text) => match RedirectMap::parse(&text) {
                Ok(map) => return Some(Arc::new(map)),
                Err(problems) => {
                    problems.into_iter().for_each(|(line, it)| report(format!("{file}, line {line}: {it}")));
                }
            },
            Err(wrong) => {
                let most = ByteSize(redirect_map::LARGEST);
                report(format!("{file}: {wrong}; use a regular file of at most {most}"));
            }
        }
        None
    }

    /// Reports a target of a redirect that is none, or whose host a client could choose.
    pub(super) fn refuse_open_redirect(&mut self, source: &Source, row: &str, text: &str) {
        // A variable of another server has a message of its own.
        if let Some(wrong) = redirect_target::wrong(text).filter(|_| !is_foreign(text)) {
            self.problem(source.clone(), row, &format!("found \"{text}\": {wrong}"));
        }
    }
}
