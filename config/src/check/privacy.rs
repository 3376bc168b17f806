//! Settings by which one visitor's page may become another's, and of which `larder check` warns: they are allowed, since a site may
//! have no visitors that it tells apart.

use super::{ConfigCheck, ConfigValue, Problem, RoutePath};
use crate::problem::Source;

impl ConfigCheck {
    /// Warns of a whole site whose pages have a lifetime by the route's word where nothing says which cookies are a visitor's: what
    /// an application with sessions sends without `Cache-Control` is shared then. A list that is given, an empty one too, is an answer.
    /// Not of routes to a part of a site: an operator who writes `/blog/*` has thought of what lies there.
    pub(super) fn warn_shared_sessions(&mut self, at: &RoutePath) {
        if self.text(&at.key("path")) != "/*"
            || self.source(&self.cache_key(at, "private_cookies")) != Source::Default
            || !self.flag(&self.cache_key(at, "enabled"))
        {
            return;
        }
        for name in ["override_ttl", "default_ttl"] {
            let source = self.source(&self.cache_key(at, name));
            let key = format!("cache.{name}");
            let is_told = self.warnings.iter().any(|it| it.key == key && it.source == source);
            let is_given = matches!(source, Source::Line { .. } | Source::Flag(_))
                && matches!(self.value(&self.cache_key(at, name)), ConfigValue::Time(_));
            if is_told || !is_given {
                continue;
            }
            let text = format!(
                "{name} shares responses that say nothing of caching among all visitors, session pages included; name the \
                 session cookies in private_cookies, or set private_cookies = [] if the site has none"
            );
            self.warnings.push(Problem { source, key, text });
        }
    }
}
