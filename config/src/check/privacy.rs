//! Settings that may share one visitor's page with another. They are allowed, since a site may have no sessions; `larder check` warns
//! of them.

use super::{ConfigCheck, ConfigValue, Problem, RoutePath};
use crate::problem::Source;
use larder_semantics::policy::{CredentialUse, Policy};

impl ConfigCheck {
    pub(super) fn warn_privacy(&mut self, at: &RoutePath, cache: &Policy) {
        self.warn_shared_sessions(at, cache);
        self.warn_ignored_cookies(at, cache);
    }

    /// Warns of a lifetime for responses that declare none without a list of session cookies: an application's session pages without
    /// `Cache-Control` are then shared. Any list, an empty one included, avoids the warning; so do a preset, cookies in the key, and
    /// credentials that keep responses apart.
    fn warn_shared_sessions(&mut self, at: &RoutePath, cache: &Policy) {
        let is_given = |name: &str| self.source(&self.cache_key(at, name)) != Source::Default;
        let keeps_apart = matches!(cache.credentials, CredentialUse::InKey | CredentialUse::Private);
        if !cache.enabled
            || keeps_apart
            || ["private_cookies", "preset", "key.cookies"].into_iter().any(is_given)
        {
            return;
        }
        for name in ["override_ttl", "default_ttl"] {
            let source = self.source(&self.cache_key(at, name));
            let key = format!("cache.{name}");
            let is_warned = self.warnings.iter().any(|it| it.key == key && it.source == source);
            let is_given = matches!(source, Source::Line { .. } | Source::Flag(_))
                && matches!(self.value(&self.cache_key(at, name)), ConfigValue::Time(_));
            if is_warned || !is_given {
                continue;
            }
            let text = format!(
                "{name} shares responses that say nothing of caching among all visitors, session pages included; name the \
                 session cookies in private_cookies, or set private_cookies = [] if the route has none"
            );
            self.warnings.push(Problem { source, key, text });
        }
    }

    /// Warns of ignored cookies where no cookie is private.
    fn warn_ignored_cookies(&mut self, at: &RoutePath, cache: &Policy) {
        let source = self.source(&self.cache_key(at, "ignored_cookies"));
        let is_given = matches!(source, Source::Line { .. } | Source::Flag(_));
        if cache.enabled && is_given && cache.private_cookies.is_empty() && !cache.ignored_cookies.is_empty()
        {
            let text = "no effect without private_cookies; add private_cookies = [\"*\"] to make every other cookie private";
            self.warn_of(source, "cache.ignored_cookies", text);
        }
    }
}
