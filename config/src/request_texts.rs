//! The parts of a request that the texts and conditions of a route read, over all of its keys.

use crate::finish::{FinishConfig, RespondBody};
use crate::{Config, RouteConfig, Service, SiteConfig};
use larder_observe::log::sink::LogTarget;
use larder_semantics::template::{Template, TemplateInput};

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

impl SiteConfig {
    /// The request fields that take part in the choice of the response to a URL: those that the conditions of a route read and of
    /// the earlier ones that may match its paths, and those in the text of its answer. Without a route, those of all conditions.
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
        for input in chosen.and_then(|it| it.service.text()).iter().flat_map(|it| it.inputs()) {
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
