//! The request as origins see it: `strip`, `add_prefix` and `query` of a route, and their contradictions.

use super::{ConfigCheck, RoutePath};
use crate::{PathPattern, Service};
use larder_gateway::rewrite::RewriteSettings;
use larder_semantics::key::KeyRecipe;
use larder_semantics::path;
use larder_semantics::policy::{CredentialUse, Policy};
use larder_semantics::query_rewrite::Parameters;
use larder_semantics::request_fields::{RequestFields, undetermined};
use larder_semantics::rewrite::{HiddenPaths, PathTemplate, Rewrite};
use larder_semantics::template::{Template, TemplateInput};
use larder_wire::message::fields::is_hop_by_hop;
use std::sync::Arc;

/// The keys of a route that change the target for an origin; the base path of its `proxy.to` is one more.
pub const OF_TARGET: [&str; 6] =
    ["strip", "add_prefix", "rewrite", "query.keep", "query.remove", "query.set"];
/// The keys that change the fields for an origin; a site may set them for its routes.
pub const OF_FIELDS: [&str; 2] = ["request_headers.set", "request_headers.remove"];

/// The key that sets variables for applications.
pub const OF_VARIABLES: &str = "proxy.env";
/// The same for the scripts of PHP.
pub const OF_SCRIPTS: &str = "php.env";

/// Fields that larder writes itself: the framing of a request, its connection, conditions and ranges of the cache, and the
/// traces of loops; each with the remedy.
const OWN_FIELDS: [(&str, &str); 14] = [
    ("host", "set proxy.host instead"),
    ("content-length", "larder frames the body"),
    ("expect", "larder answers it"),
    ("via", "loops are found by it"),
    ("cdn-loop", "loops are found by it"),
    ("max-forwards", "larder counts it"),
    ("range", "the cache asks for whole responses or for the missing part"),
    ("if-range", "the cache validates stored responses"),
    ("if-match", "the cache validates stored responses"),
    ("if-none-match", "the cache validates stored responses"),
    ("if-modified-since", "the cache validates stored responses"),
    ("if-unmodified-since", "the cache validates stored responses"),
    ("x-http-method-override", "the method is that of the request"),
    ("x-method-override", "the method is that of the request"),
];

impl ConfigCheck {
    pub(super) fn rewrite(
        &mut self,
        at: &RoutePath,
        service: Option<&Service>,
        path: &PathPattern,
        cache: &Policy,
    ) -> RewriteSettings {
        let (base, hides_base) = match service {
            Some(Service::Proxy(proxy)) => {
                let is_hidden = proxy.to.members.iter().any(|it| it.hides_base);
                (proxy.to.members[0].base.clone(), is_hidden)
            }
            Some(_) => {
                self.refuse_rewrite(at);
                return RewriteSettings::default();
            }
            None => return RewriteSettings::default(),
        };
        let query = Parameters {
            keep: self.texts(&at.key("query.keep")),
            remove: self.texts(&at.key("query.remove")),
            set: self.set_parameters(at, path, cache),
        };
        if !query.keep.is_empty() && !query.remove.is_empty() {
            let text = "both keep and remove are set; keep alone already removes all other parameters";
            self.problem(self.source(&at.key("query.remove")), "site.route.query.remove", text);
        }
        let fields = self.request_fields(at, path, cache).map(|it| Arc::new((path.clone(), it)));
        let target = match self.path_template(at, path, cache) {
            Some(it) => Some(Rewrite::of_template(it, &base, query).on_route(path.clone())),
            None => {
                let [strip, added] = ["strip", "add_prefix"].map(|it| self.text(&at.key(it)));
                self.refuse_strip(at, &strip, path);
                let added = format!("{base}{}", added.trim_end_matches('/'));
                Rewrite::new(&strip, &added, query).map(|it| it.on_route(path.clone()))
            }
        };
        let is_secret = |key: &str| self.with_variables(&at.key(key)).is_some();
        let hidden = HiddenPaths { added: hides_base || is_secret("add_prefix"), path: is_secret("rewrite") };
        let target = target.map(|it| it.hiding(hidden));
        let hosts = self.texts(&at.of_site("hosts")).into();
        let variables = self.application_variables(at, service, path, cache);
        let variables = variables.map(|it| Arc::new((path.clone(), it)));
        RewriteSettings { target: target.map(Arc::new), fields, variables, hosts }
    }

    /// `rewrite`, which makes the whole path.
    fn path_template(&mut self, at: &RoutePath, path: &PathPattern, cache: &Policy) -> Option<PathTemplate> {
        let key = at.key("rewrite");
        let template = Template::parse(&self.text(&key)).ok().filter(|it| !it.text().is_empty())?;
        let beside =
            ["strip", "add_prefix"].into_iter().find(|it| self.values.given.contains_key(&at.key(it)));
        if let Some(name) = beside {
            let text = format!("rewrite makes the whole path, so {name} has no effect; remove one of them");
            self.problem(self.source(&at.key(name)), &format!("site.route.{name}"), &text);
        }
        self.refuse_variables(at, &key, "site.route.rewrite", &template, path);
        self.refuse_undetermined(&key, "site.route.rewrite", &template, cache);
        Some(PathTemplate { pattern: path.clone(), template })
    }

    /// `query.set`: names, each with its value.
    fn set_parameters(
        &mut self,
        at: &RoutePath,
        path: &PathPattern,
        cache: &Policy,
    ) -> Vec<(String, Template)> {
        let (key, spelled) = (at.key("query.set"), "site.route.query.set");
        let mut set = Vec::new();
        for (name, value) in self.pairs(&key) {
            let Ok(template) = Template::parse(&value) else { continue };
            self.refuse_variables(at, &key, spelled, &template, path);
            self.refuse_undetermined(&key, spelled, &template, cache);
            set.push((name, template));
        }
        set
    }

    /// Rejects a part of the target that reads what is in no key, on a cached route.
    fn refuse_undetermined(&mut self, key: &str, spelled: &str, template: &Template, cache: &Policy) {
        // Here the client's address is no exception: it would choose among pages of one key.
        let key_alone = KeyRecipe { strict: true, ..cache.key.clone() };
        if let Some(input) = undetermined(template, &key_alone).filter(|it| is_shareable(it, cache)) {
            let text = format!(
                "{input} is not part of the cache key, so that one client's page would be served to others; add it to \
                 cache.key, or set cache.enabled = false for the route"
            );
            self.problem(self.source(key), spelled, &text);
        }
    }

    /// `request_headers`: a route adds its fields to those of its site, and the nearer rule about a field is in force. `None` where nothing
    /// is changed.
    fn request_fields(
        &mut self,
        at: &RoutePath,
        path: &PathPattern,
        cache: &Policy,
    ) -> Option<RequestFields> {
        let mut all = RequestFields::default();
        for keys in [OF_FIELDS.map(|it| at.of_site(it)), OF_FIELDS.map(|it| at.key(it))] {
            let [of_set, of_remove] = keys;
            for name in self.texts(&of_remove) {
                self.refuse_own(&of_remove, OF_FIELDS[1], &name);
                all.remove(&name);
            }
            for (name, value) in self.pairs(&of_set) {
                let Ok(template) = Template::parse(&value) else { continue };
                self.check_field(at, &of_set, &name, &template, path, cache);
                all.set(&name, template);
            }
        }
        (!all.is_empty()).then_some(all)
    }

    /// Reports what is wrong with a field for the origin.
    fn check_field(
        &mut self,
        at: &RoutePath,
        key: &str,
        name: &str,
        template: &Template,
        path: &PathPattern,
        cache: &Policy,
    ) {
        const SPELLED: &str = "site.route.request_headers.set";
        self.refuse_own(key, OF_FIELDS[0], name);
        if name.eq_ignore_ascii_case("accept-encoding") {
            let text = "Accept-Encoding decides which stored form a client gets; remove it instead, or use cache.compress";
            self.problem(self.source(key), SPELLED, text);
        }
        self.refuse_variables(at, key, SPELLED, template, path);
        self.warn_left_out(key, SPELLED, name, template, cache);
    }

    /// Warns of a field or variable for the origin that is empty, or that requests lack whose response may be shared.
    pub(super) fn warn_left_out(
        &mut self,
        key: &str,
        spelled: &str,
        name: &str,
        template: &Template,
        cache: &Policy,
    ) {
        if cache.credentials == CredentialUse::None && template.inputs().any(|it| it == TemplateInput::User) {
            let text = format!(
                "{name} is always empty: no access rule of the route identifies users; add access.basic, jwt or forward"
            );
            return self.warn_of(self.source(key), spelled, &text);
        }
        let Some(input) = undetermined(template, &cache.key).filter(|it| is_shareable(it, cache)) else {
            return;
        };
        let text = format!(
            "{name} reads {input}, which is not part of the cache key: requests whose response may be shared are sent \
             without {name}; add it to cache.key, or set cache.enabled = false for the route"
        );
        self.warn_of(self.source(key), spelled, &text);
    }

    /// Rejects a field that larder writes itself; returns whether it is one.
    pub(super) fn refuse_own(&mut self, key: &str, row: &str, name: &str) -> bool {
        let own = OWN_FIELDS.iter().find(|it| name.eq_ignore_ascii_case(it.0)).map(|it| it.1);
        let hop = is_hop_by_hop(name).then_some("it belongs to one connection");
        let why = own.or(hop);
        if let Some(why) = why {
            let text = format!("{name} cannot be set or removed: {why}");
            self.problem(self.source(key), &format!("site.route.{row}"), &text);
        }
        why.is_some()
    }

    /// Rejects rewrites where there is no origin.
    fn refuse_rewrite(&mut self, at: &RoutePath) {
        let given: Vec<_> = OF_TARGET
            .iter()
            .chain(&OF_FIELDS)
            .filter(|it| self.values.given.get(&at.key(it)).is_some_and(|it| !self.is_of_block(&it.1)))
            .collect();
        for name in given {
            let instead =
                if *name == "strip" { "write files = { strip = \"/PREFIX\" }" } else { "remove it" };
            let text = format!("no effect without an origin; {instead}");
            self.problem(self.source(&at.key(name)), &format!("site.route.{name}"), &text);
        }
    }

    /// Rejects a prefix that no path of the route has.
    fn refuse_strip(&mut self, at: &RoutePath, strip: &str, pattern: &PathPattern) {
        if let Some(text) = never_stripped(strip, pattern) {
            self.problem(self.source(&at.key("strip")), "site.route.strip", &text);
        }
    }
}

/// Whether a response that depends on this part of a request may be shared: with credentials that are not in the key, none is.
fn is_shareable(input: &TemplateInput<'_>, cache: &Policy) -> bool {
    cache.enabled && !(*input == TemplateInput::User && cache.credentials == CredentialUse::Private)
}

/// The sentence about a prefix that no path of a route has.
pub(super) fn never_stripped(strip: &str, pattern: &PathPattern) -> Option<String> {
    let strip = strip.trim_end_matches('/');
    let below = format!("{strip}/");
    let mut normal = Vec::new();
    path::read(below.as_bytes(), path::NORMAL, &mut normal);
    let begins = pattern.prefix();
    let is_exact = pattern.text().starts_with('/') && !pattern.text().contains(['*', '{']);
    let may_have = begins.starts_with(&normal)
        || match is_exact {
            true => begins == &normal[..normal.len() - 1],
            false => normal.starts_with(begins),
        };
    (!strip.is_empty() && !may_have).then(|| {
        format!("no path that matches \"{pattern}\" begins with \"{below}\"; remove it, or change the path")
    })
}
