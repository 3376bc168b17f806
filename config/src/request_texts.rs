//! The parts of a request that the texts and conditions of a route read, over all of its keys.

use crate::client_fact::ClientFact;
use crate::finish::{FinishConfig, RespondBody};
use crate::{Config, PathPattern, RouteConfig, Service, SiteConfig};
use larder_observe::log::sink::LogTarget;
use larder_semantics::expression::Expression;
use larder_semantics::path::{self, Decode};
use larder_semantics::request_view::path_of;
use larder_semantics::scheme::Scheme;
use larder_semantics::template::{Template, TemplateInput};
use larder_transport::listener::{Listen, ListenerAddress};

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
        let is_secure = |it: &ListenerAddress| matches!(it.at, Listen::Tls(_));
        let has = |it: &Scheme| {
            let secure = *it == Scheme::Https;
            !self.clients.trusted.is_empty() || self.listen.iter().any(|it| is_secure(it) == secure)
        };
        [Scheme::Http, Scheme::Https].into_iter().filter(has).collect()
    }

    /// The port of the first listener with TLS, as it is configured: it may be 0.
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.listen.iter().find_map(|it| match &it.at {
            Listen::Tls(address) => Some(address.port()),
            Listen::Tcp(_) | Listen::Unix(_) => None,
        })
    }

    /// The scheme with which larder requests the error pages of a site: `https` if some listener has TLS, or all requests of the site are
    /// redirected to it.
    #[must_use]
    pub fn scheme_of_pages(&self, site: &SiteConfig) -> Scheme {
        let has_tls = self.listen.iter().any(|it| matches!(it.at, Listen::Tls(_)));
        if has_tls || site.redirects.to_https { Scheme::Https } else { Scheme::Http }
    }
}

impl Config {
    /// The request fields and the facts of the client that take part in the choice of the response to a URL: those that the conditions
    /// of a route read and, on their paths, those of the earlier ones that may match its paths; those in the text of its answer and of
    /// its fields; and those by which its access rules admit. Without a route, those of all conditions on their paths.
    #[must_use]
    pub fn varies(&self, site: &SiteConfig, route: Option<usize>) -> RouteVary {
        let chosen = route.and_then(|it| site.routes.get(it));
        let before = &site.routes[..route.map_or(site.routes.len(), |it| it + 1)];
        // Caches keep responses to GET, also for HEAD.
        let meets = |it: &&RouteConfig| {
            it.methods.allow("GET") && chosen.is_none_or(|chosen| chosen.path.may_meet(&it.path))
        };
        let mut varies = RouteVary::default();
        for it in before.iter().filter(meets) {
            let mut names = Vec::new();
            let read = it.when.as_ref().map_or_else(Vec::new, Expression::fields);
            read.into_iter().for_each(|it| add(&mut names, it));
            let fact = self.fact_of_choice(it);
            let is_everywhere =
                it.path.is_all() || chosen.is_some_and(|own| own.path.text() == it.path.text());
            match is_everywhere {
                true => {
                    names.iter().for_each(|it| add(&mut varies.everywhere, it));
                    varies.fact = varies.fact.max(fact);
                }
                false => varies.add_at(&it.path, &names, fact),
            }
        }
        let finish = chosen.map_or(&site.finish, |it| &it.finish);
        let texts = chosen.and_then(|it| it.service.text()).into_iter().chain(finish.texts());
        for input in texts.flat_map(Template::inputs) {
            match input {
                TemplateInput::Header(name) => add(&mut varies.everywhere, name),
                TemplateInput::Cookie(_) => add(&mut varies.everywhere, "Cookie"),
                _ => {}
            }
        }
        if let Some(chosen) = chosen {
            chosen.fields_of_access().for_each(|it| add(&mut varies.everywhere, it));
            varies.fact = varies.fact.max(self.fact_of_client(site, chosen));
        }
        varies
    }
}

/// Adds a name that is not among them.
fn add(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|it| it.eq_ignore_ascii_case(name)) {
        names.push(name.to_owned());
    }
}

/// The request fields in the `Vary` of the responses of a route, by path, and the fact of the client on which they depend apart from
/// fields: a route that precedes it takes part in the choice on its own paths only.
#[derive(Clone, Debug, Default)]
pub struct RouteVary {
    /// The names for every path.
    everywhere: Vec<String>,
    /// The fact for every path.
    fact: Option<ClientFact>,
    /// The names and facts for some paths, at most [`RouteVary::GROUPS`].
    groups: Vec<VaryGroup>,
}

/// The fields and the fact that some routes read, and the paths of these.
#[derive(Clone, Debug)]
struct VaryGroup {
    names: Vec<String>,
    fact: Option<ClientFact>,
    paths: Vec<PathPattern>,
}

impl RouteVary {
    /// Each group doubles the heads that are made in advance, and most sites have one: routes beyond it join the last.
    const GROUPS: usize = 3;

    fn add_at(&mut self, path: &PathPattern, names: &[String], fact: Option<ClientFact>) {
        if names.is_empty() && fact.is_none() {
            return;
        }
        let same = |it: &VaryGroup| it.names == names && it.fact == fact;
        let at = self
            .groups
            .iter()
            .position(same)
            .or((self.groups.len() == Self::GROUPS).then_some(Self::GROUPS - 1));
        let at = at.unwrap_or_else(|| {
            self.groups.push(VaryGroup { names: Vec::new(), fact: None, paths: Vec::new() });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        names.iter().for_each(|it| add(&mut group.names, it));
        group.fact = group.fact.max(fact);
        group.paths.push(path.clone());
    }

    /// Whether no path has a name or a fact.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.everywhere.is_empty() && self.fact.is_none() && self.groups.is_empty()
    }

    /// The number of cases: of the sets of names that a path may have.
    #[must_use]
    pub fn cases(&self) -> usize {
        1 << self.groups.len()
    }

    /// The case of a target. A path that has several interpretations has every name. Allocates nothing.
    #[inline]
    #[must_use]
    pub fn case(&self, target: &str) -> usize {
        if self.groups.is_empty() { 0 } else { self.case_of_path(path_of(target).as_bytes()) }
    }

    fn case_of_path(&self, path: &[u8]) -> usize {
        if !path::is_plain(path) {
            return self.cases() - 1;
        }
        let takes = |it: &PathPattern| it.matches(path) || it.is_directory(path, Decode::All);
        let bits = self.groups.iter().enumerate().filter(|it| it.1.paths.iter().any(takes));
        bits.map(|it| 1 << it.0).sum()
    }

    /// The names of a case.
    #[must_use]
    pub fn names(&self, case: usize) -> Vec<String> {
        let mut names = self.everywhere.clone();
        let groups = self.groups.iter().enumerate().filter(|it| case >> it.0 & 1 == 1);
        groups.flat_map(|it| &it.1.names).for_each(|it| add(&mut names, it));
        names
    }
}

impl RouteVary {
    /// The fact of the client on which the responses of a case depend; of several, the one that yields to the fewest settings.
    #[must_use]
    pub fn fact(&self, case: usize) -> Option<ClientFact> {
        let groups = self.groups.iter().enumerate().filter(|it| case >> it.0 & 1 == 1);
        groups.map(|it| it.1.fact).fold(self.fact, Option::max)
    }
}

impl FinishConfig {
    /// The values of fields.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Template> {
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
    pub(crate) fn text(&self) -> Option<&Template> {
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
