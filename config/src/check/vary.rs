//! Access rules over fields of which nearly every client has a value of its own: `Vary` of each response then makes caches in front useless.

use super::ConfigCheck;
use crate::{Config, RouteConfig, SiteConfig};
use larder_semantics::expression::Expression;

/// Fields with thousands of values.
const MANY_VALUES: [&str; 2] = ["User-Agent", "Referer"];

impl ConfigCheck {
    /// Warns of them, unless the responses are private in any case.
    pub(super) fn warn_vary(&mut self, config: &Config) {
        let routes = config.sites.iter().flat_map(|site| site.routes.iter().map(move |it| (site, it)));
        let stored_in_front = |it: &(&SiteConfig, &RouteConfig)| {
            !it.1.access.is_shared && config.fact_of_client(it.0, it.1).is_none()
        };
        for (_, route) in routes.filter(stored_in_front) {
            let rules = [("deny_when", &route.access.deny_when), ("allow_when", &route.access.allow_when)];
            for (name, rule) in rules {
                let read = rule.as_ref().map_or_else(Vec::new, Expression::fields);
                let of_many = |it: &&&str| read.iter().any(|read| read.eq_ignore_ascii_case(it));
                let Some(field) = MANY_VALUES.iter().find(of_many) else { continue };
                let text = format!(
                    "every response has Vary: {field}, so that a cache in front stores a copy for each value; set \
                     access.shared = true if such a cache may give a stored response to a client that this rule refuses"
                );
                let key = format!("site[].route[].access.{name}");
                self.warn_of(route.decided.by(&key), &format!("site.route.access.{name}"), &text);
            }
        }
    }
}
