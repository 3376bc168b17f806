//! The request as origins see it: `strip`, `add_prefix` and `query` of a route, and their contradictions.

use super::{ConfigCheck, RoutePath};
use crate::{PathPattern, Service};
use larder_gateway::rewrite::RewriteSettings;
use larder_semantics::path;
use larder_semantics::query::Parameters;
use larder_semantics::rewrite::Rewrite;
use std::sync::Arc;

/// The keys of a route that change the target for an origin; the base path of its `proxy.to` is one more.
pub const OF_TARGET: [&str; 5] = ["strip", "add_prefix", "query.keep", "query.remove", "query.set"];

impl ConfigCheck {
    pub(super) fn rewrite(
        &mut self,
        at: &RoutePath,
        service: Option<&Service>,
        path: &PathPattern,
    ) -> RewriteSettings {
        let base = match service {
            Some(Service::Proxy(proxy)) => proxy.to.members[0].base.clone(),
            Some(_) => {
                self.refuse_rewrite(at);
                return RewriteSettings::default();
            }
            None => return RewriteSettings::default(),
        };
        let strip = self.text(&at.key("strip"));
        self.refuse_strip(at, &strip, path);
        let query = Parameters {
            keep: self.texts(&at.key("query.keep")),
            remove: self.texts(&at.key("query.remove")),
            set: self.pairs(&at.key("query.set")),
        };
        if !query.keep.is_empty() && !query.remove.is_empty() {
            let text = "both keep and remove are set; keep alone already removes all other parameters";
            self.problem(self.source(&at.key("query.remove")), "site.route.query.remove", text);
        }
        let added = self.text(&at.key("add_prefix"));
        let added = format!("{base}{}", added.trim_end_matches('/'));
        RewriteSettings { target: Rewrite::new(&strip, &added, query).map(Arc::new) }
    }

    /// Rejects rewrites where there is no origin.
    fn refuse_rewrite(&mut self, at: &RoutePath) {
        let given: Vec<_> =
            OF_TARGET.iter().filter(|it| self.values.given.contains_key(&at.key(it))).collect();
        for name in given {
            let instead =
                if *name == "strip" { "write files = { strip = \"/PREFIX\" }" } else { "remove it" };
            let text = format!("no effect without an origin; {instead}");
            self.problem(self.source(&at.key(name)), &format!("site.route.{name}"), &text);
        }
    }

    /// Rejects a prefix that no path of the route has.
    fn refuse_strip(&mut self, at: &RoutePath, strip: &str, pattern: &PathPattern) {
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
        if !strip.is_empty() && !may_have {
            let text = format!(
                "no path that matches \"{pattern}\" begins with \"{below}\"; remove it, or change the path"
            );
            self.problem(self.source(&at.key("strip")), "site.route.strip", &text);
        }
    }
}
