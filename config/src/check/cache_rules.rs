//! The rules of a route about the responses that it caches: `site.route.cache.rule`.

use super::{ConfigCheck, RoutePath};
use crate::kind::ConfigValue;
use crate::problem::Source;
use larder_semantics::expression::ExpressionSubject;
use larder_semantics::policy::{CacheRule, Policy, RuleInForce, StaleIfError};
use std::sync::Arc;

impl ConfigCheck {
    /// The rules of a route with this policy, in the order of the file.
    pub(super) fn cache_rules(&mut self, at: &RoutePath, policy: &Policy) -> Vec<CacheRule> {
        let list = at.key("cache.rule");
        let count = self.values.count(&list);
        (0..count).filter_map(|index| self.cache_rule(&format!("{list}[{index}]"), policy)).collect()
    }

    fn cache_rule(&mut self, path: &str, policy: &Policy) -> Option<CacheRule> {
        let place = self.values.sections.get(path).cloned().unwrap_or(Source::Default);
        let key = |name: &str| format!("{path}.{name}");
        let seconds = |it: ConfigValue| match it {
            ConfigValue::Time(it) => Some(u32::try_from(it.as_secs()).unwrap_or(u32::MAX)),
            _ => None,
        };
        let [ttl, while_revalidating, if_error] =
            ["ttl", "stale_while_revalidate", "stale_if_error"].map(|name| seconds(self.value(&key(name))));
        let pass = self.flag(&key("pass"));
        let text = self.text(&key("when"));
        if text.is_empty() {
            if !self.is_wrong(&key("when")) {
                let text = "missing; a rule requires a condition, such as when = 'status == 404'";
                self.problem(place, "site.route.cache.rule.when", text);
            }
            return None;
        }
        let when = self.condition(ExpressionSubject::Response, &key("when"))?;
        let sets = [ttl, while_revalidating, if_error].iter().any(Option::is_some);
        if sets == pass {
            let text = match pass {
                true => {
                    "a rule with pass = true stores nothing; remove ttl, stale_while_revalidate and stale_if_error"
                }
                false => {
                    "the rule has no effect; set ttl, stale_while_revalidate, stale_if_error or pass = true"
                }
            };
            self.problem(place, "site.route.cache.rule", text);
            return None;
        }
        let sets_ttl = ttl.is_some();
        let any_status = sets_ttl && when.reads_status();
        let rule = RuleInForce { place: place.to_string().into(), pass, sets_ttl, any_status };
        let policy = Policy {
            override_ttl: ttl.or(policy.override_ttl),
            stale_while_revalidate: while_revalidating.unwrap_or(policy.stale_while_revalidate),
            stale_if_error: if_error.map_or(policy.stale_if_error, StaleIfError::Set),
            rules: Vec::new(),
            rule: Some(rule),
            ..policy.clone()
        };
        Some(CacheRule { when, policy: Arc::new(policy) })
    }
}
