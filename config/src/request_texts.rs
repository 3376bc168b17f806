//! The parts of a request that the texts and conditions of a route read, over all of its keys.

use crate::finish::{FinishConfig, RespondBody};
use crate::{Config, RouteConfig, Service, SiteConfig};
use larder_observe::log::sink::LogTarget;
use larder_semantics::scheme::Scheme;
use larder_semantics::template::{Template, TemplateInput};
use larder_transport::listener::{Entrance, Listen};

impl Config {
    /// Whether requests of a route, or without one those of the site that have none, have an identifier: a text that applies to them
    /// reads `{request_id}`, or the format of their log.
    #[must_use]
    pub fn identifies(&self, site: &SiteConfig, route: Option<&RouteConfig>) -> bool {
        let reads = |it: &Template| it.inputs().any(|it| it == TemplateInput::RequestId);
        let by_texts = match route {
            Some(route) => route.texts().any(reads),
            None => site.finish.texts().any(reads),
        };
        let format = site.log.format.as_ref().unwrap_or(&self.log.format);
        let is_logged = *site.log.target.as_ref().unwrap_or(&self.log.access) != LogTarget::Off;
        by_texts || is_logged && format.reads_identifier()
    }
}

impl Config {
    /// The schemes that requests can have: those of the listeners, and both with a trusted proxy.
    #[must_use]
    pub fn schemes(&self) -> Vec<Scheme> {
        let is_secure = |it: &Entrance| matches!(it.at, Listen::Tls(_));
        let has = |it: &Scheme| {
            let secure = *it == Scheme::Https;
            !self.clients.trusted.is_empty() || self.listen.iter().any(|it| is_secure(it) == secure)
        };
        [Scheme::Http, Scheme::Https].into_iter().filter(has).collect()
    }

    /// The scheme with which larder requests the error pages of a site: `https` if some listener has TLS, or all requests of the site are
    /// redirected to it.
    #[must_use]
    pub fn scheme_of_pages(&self, site: &SiteConfig) -> Scheme {
        let has_tls = self.listen.iter().any(|it| matches!(it.at, Listen::Tls(_)));
        if has_tls || site.redirects.to_https { Scheme::Https } else { Scheme::Http }
    }
}

impl SiteConfig {
    /// The request fields that take part in the choice of the response to a URL: those that the conditions of a route read and of
    /// the earlier ones that may match its paths, and those in the text of its answer and of its fields. Without a route, those of all
    /// conditions.
    #[must_use]
    pub fn varies(&self, route: Option<usize>) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut add = |name: &str| {
            if !names.iter().any(|it| it.eq_ignore_ascii_case(name)) {
                names.push(name.to_owned());
            }
        };
        let chosen = route.and_then(|it| self.routes.get(it));
        let before = &self.routes[..route.map_or(self.routes.len(), |it| it + 1)];
        // Caches keep responses to GET, also for HEAD.
        let meets = |it: &&RouteConfig| {
            it.methods.allow("GET") && chosen.is_none_or(|chosen| chosen.path.may_meet(&it.path))
        };
        for when in before.iter().filter(meets).filter_map(|it| it.when.as_ref()) {
            when.fields().into_iter().for_each(&mut add);
        }
        let finish = chosen.map_or(&self.finish, |it| &it.finish);
        let texts = chosen.and_then(|it| it.service.text()).into_iter().chain(finish.texts());
        for input in texts.flat_map(Template::inputs) {
            match input {
                TemplateInput::Header(name) => add(name),
                TemplateInput::Cookie(_) => add("Cookie"),
                _ => {}
            }
        }
        names
    }
}

impl FinishConfig {
    /// The values of fields.
    fn texts(&self) -> impl Iterator<Item = &Template> {
        self.fields.iter().flat_map(|it| it.adds.iter().chain(&it.default))
    }
}

impl RouteConfig {
    /// Its texts with variables that may read more than the URL.
    fn texts(&self) -> impl Iterator<Item = &Template> {
        let of_origin = self.rewrite.fields.iter().flat_map(|it| it.1.set.iter().map(|it| &it.1));
        self.finish.texts().chain(self.service.text()).chain(of_origin)
    }
}

impl Service {
    /// The text of a redirect or of a fixed answer.
    fn text(&self) -> Option<&Template> {
        match self {
            Service::Redirect(it) => Some(&it.to),
            Service::Respond(it) => match &it.body {
                RespondBody::Text(text) => Some(text),
                RespondBody::File(_) | RespondBody::Live | RespondBody::Ready => None,
            },
            Service::Proxy(_) | Service::Files(_) | Service::Sql(_) => None,
        }
    }
}
