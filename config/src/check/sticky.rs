//! `proxy.sticky` of a route: the cookie that binds clients to an origin.

use super::{ConfigCheck, RoutePath};
use crate::kind::ConfigValue;
use larder_semantics::sticky::{SameSite, StickyCookie};
use std::sync::Arc;

impl ConfigCheck {
    pub(super) fn sticky(&mut self, at: &RoutePath) -> Option<Arc<StickyCookie>> {
        let key = |name: &str| at.key(&format!("proxy.sticky.{name}"));
        let name = self.text(&key("cookie"));
        if name.is_empty() {
            let others = ["ttl", "path", "same_site", "secure"];
            if let Some(given) = others.into_iter().find(|it| self.values.given.contains_key(&key(it)))
                && !self.is_wrong(&key("cookie"))
            {
                let text = "no effect without a name; set it, such as cookie = \"larder-origin\"";
                self.problem(self.source(&key(given)), &format!("site.route.proxy.sticky.{given}"), text);
            }
            return None;
        }
        let secure = match self.values.given.get(&key("secure")) {
            Some((ConfigValue::Bool(secure), _)) => Some(*secure),
            _ => None,
        };
        let same_site = match self.text(&key("same_site")).as_str() {
            "strict" => SameSite::Strict,
            "none" => SameSite::None,
            _ => SameSite::Lax,
        };
        if same_site == SameSite::None && secure == Some(false) {
            let text =
                "browsers reject a cookie with same_site = \"none\" that is not secure; set secure = true";
            self.problem(self.source(&key("secure")), "site.route.proxy.sticky.secure", text);
        }
        let path = self.text(&key("path"));
        let prefix =
            |prefix: &str| name.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix));
        let is_of_host = prefix("__Host-");
        if (is_of_host || prefix("__Secure-")) && secure != Some(true) || is_of_host && path != "/" {
            let text = format!(
                "browsers accept \"{name}\" only with secure = true{}; set that, or choose a name without the prefix",
                if is_of_host { " and path = \"/\"" } else { "" }
            );
            self.problem(self.source(&key("cookie")), "site.route.proxy.sticky.cookie", &text);
        }
        let ttl = match self.values.given.get(&key("ttl")) {
            Some((ConfigValue::Time(it), _)) => u32::try_from(it.as_secs()).ok(),
            _ => None,
        };
        if ttl == Some(0) {
            let text = "browsers delete a cookie whose lifetime is 0s; set a longer one, or remove the key";
            self.problem(self.source(&key("ttl")), "site.route.proxy.sticky.ttl", text);
        }
        Some(Arc::new(StickyCookie { name, ttl, path, same_site, secure }))
    }
}
