//! The phases of a request, to which the keys of a site and of a route belong: the order in which forms and manuals list
//! them.

use super::{ROUTE, SITE};

/// A phase of a request, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoutePhase {
    /// Selects the site and the route.
    Match,
    /// Admits or rejects the request, before the cache.
    Admit,
    /// Changes what the origin receives.
    Rewrite,
    /// Answers the request.
    Answer,
    /// Decides what is stored, and for how long.
    Cache,
    /// Changes responses as they are sent, and records them.
    Finish,
}

impl RoutePhase {
    /// All, in order.
    pub const ALL: [RoutePhase; 6] = [
        RoutePhase::Match,
        RoutePhase::Admit,
        RoutePhase::Rewrite,
        RoutePhase::Answer,
        RoutePhase::Cache,
        RoutePhase::Finish,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RoutePhase::Match => "match",
            RoutePhase::Admit => "admit",
            RoutePhase::Rewrite => "rewrite",
            RoutePhase::Answer => "answer",
            RoutePhase::Cache => "cache",
            RoutePhase::Finish => "finish",
        }
    }

    /// The phase of the key with this pattern; `None` for a key outside of sites.
    #[must_use]
    pub fn of(pattern: &str) -> Option<Self> {
        let rest = pattern.strip_prefix(ROUTE).or_else(|| pattern.strip_prefix(SITE))?;
        let first = rest.split(['.', '[']).next().unwrap_or(rest);
        Some(match first {
            "use" | "path" | "name" | "methods" | "when" | "listeners" | "hosts" | "canonical_host"
            | "redirect_https" | "redirect_status" | "redirect_map" => RoutePhase::Match,
            "access" | "maintenance" => RoutePhase::Admit,
            "strip" | "add_prefix" | "rewrite" | "query" | "request_headers" | "forwarded"
            | "client_cert" => RoutePhase::Rewrite,
            "cache" => RoutePhase::Cache,
            "response_headers" | "client_ttl" | "error_pages" | "intercept_errors" | "cors" | "hsts"
            | "csp" | "server_timing" | "trace" | "access_log" | "log_format" | "log_when" | "log_skip" => {
                RoutePhase::Finish
            }
            // The services and their parts.
            _ => RoutePhase::Answer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::patterns;
    use super::*;

    #[test]
    fn keys_of_sites_have_a_phase() {
        #[track_caller]
        fn check(pattern: &str, expect: Option<RoutePhase>) {
            assert_eq!(expect, RoutePhase::of(pattern), "{pattern}");
        }
        check("site[].hosts", Some(RoutePhase::Match));
        check("site[].route[].access.limit.rate", Some(RoutePhase::Admit));
        check("site[].access.deny", Some(RoutePhase::Admit));
        check("site[].route[].query.set", Some(RoutePhase::Rewrite));
        check("site[].route[].proxy.to", Some(RoutePhase::Answer));
        check("site[].route[].cache.rule[].when", Some(RoutePhase::Cache));
        check("site[].response_headers.set", Some(RoutePhase::Finish));
        check("cache.default_ttl", None);
        check("listen", None);
    }

    #[test]
    fn every_phase_has_keys() {
        for phase in RoutePhase::ALL {
            assert!(patterns().any(|it| RoutePhase::of(&it) == Some(phase)), "{}", phase.name());
        }
    }
}
