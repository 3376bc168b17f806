//! The access rules of a route, `site.route.access`, and their contradictions.

use super::{ConfigCheck, RoutePath};
use crate::access::{AccessConfig, Addresses, LimitConfig, LimitKey};
use crate::problem::Source;
use larder_semantics::rate::{Gcra, Rate};

impl ConfigCheck {
    pub(super) fn access(&mut self, at: &RoutePath) -> AccessConfig {
        AccessConfig {
            allow: self.addresses(at, "allow"),
            deny: self.addresses(at, "deny"),
            limit: self.limit(at),
        }
    }

    /// The key of `access.NAME`, in the route or in its site.
    fn access_key(&self, at: &RoutePath, name: &str) -> String {
        self.site_key(at, &format!("access.{name}"))
    }

    fn addresses(&self, at: &RoutePath, name: &str) -> Option<Addresses> {
        let texts = self.texts(&self.access_key(at, name));
        (!texts.is_empty()).then(|| Addresses::of(&texts))
    }

    fn limit(&mut self, at: &RoutePath) -> Option<LimitConfig> {
        let [rate, burst, by, concurrency] =
            ["rate", "burst", "by", "concurrency"].map(|it| self.access_key(at, &format!("limit.{it}")));
        let burst_count = u32::try_from(self.number(&burst)).unwrap_or(u32::MAX);
        let most = self.given_number(&concurrency).and_then(|it| u32::try_from(it).ok());
        let bound = Rate::parse(&self.text(&rate));
        if bound.is_none() && !self.is_wrong(&rate) {
            let lone = [(&burst, "burst", false), (&by, "by", most.is_some())];
            let lone = lone.into_iter().map(|(key, name, fits)| (self.source(key), name, fits));
            if let Some((source, name, _)) = lone.into_iter().find(|it| it.0 != Source::Default && !it.2) {
                let text =
                    format!("{name} has no effect without a rate; add access.limit.rate, such as \"5/s\"");
                self.problem_once(source, "site.route.access.limit", &text);
            }
        }
        if bound.is_none() && most.is_none() {
            return None;
        }
        let own = at.key("access.limit.");
        let is_own = [&rate, &burst, &by, &concurrency].into_iter().any(|it| it.starts_with(&own));
        let site = self.texts(&at.of_site("hosts")).into_iter().next().unwrap_or_default();
        let scope = match is_own {
            true => {
                format!("{site} {} {}", self.text(&at.key("path")), self.texts(&at.key("methods")).join(","))
            }
            false => site,
        };
        Some(LimitConfig {
            scope,
            rate: bound.map(|it| Gcra::new(it, burst_count)),
            burst: burst_count,
            by: LimitKey::parse(&self.text(&by)).unwrap_or(LimitKey::Client),
            concurrency: most,
        })
    }
}
