//! Cookies that a route removes from requests although its application sets them, as the responses show: names, never values.

use larder_semantics::cookies;
use larder_semantics::field::{Field, is_token};
use larder_semantics::policy::Policy;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The most routes with such cookies.
const ROUTES: usize = 1024;
/// The most names of a route.
const NAMES: usize = 8;
/// Bytes of the longest name that is kept.
const LONGEST: usize = 64;

/// Names of cookies, and how often each was set again.
type CookieCounts = BTreeMap<Box<str>, u64>;

/// The cookies of each route, by its name. They outlast a reload.
#[derive(Default)]
pub struct RemovedCookies(Mutex<BTreeMap<Box<str>, CookieCounts>>);

impl RemovedCookies {
    /// Notes the response to a request whose cookies a route has removed.
    pub(crate) fn note(&self, route: &str, policy: &Policy, request: &[Field<'_>], response: &[Field<'_>]) {
        for name in cookies::set_again(policy, request, response) {
            if name.len() > LONGEST || !is_token(name.as_bytes()) || name.contains('*') {
                continue;
            }
            let Ok(mut routes) = self.0.lock() else { return };
            if routes.len() >= ROUTES && !routes.contains_key(route) {
                return;
            }
            let names = routes.entry(route.into()).or_default();
            if names.len() < NAMES || names.contains_key(name) {
                *names.entry(name.into()).or_default() += 1;
            }
        }
    }

    /// Those of a route, and how often each was set since the start.
    #[must_use]
    pub fn of(&self, route: &str) -> Vec<(String, u64)> {
        let Ok(routes) = self.0.lock() else { return Vec::new() };
        routes.get(route).into_iter().flatten().map(|(name, count)| (name.to_string(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let removed = RemovedCookies::default();
        let policy = |named: &str| Policy { private_cookies: vec![named.to_owned()], ..Policy::default() };
        let names: Vec<String> = (0..20).map(|it| format!("c{it}")).chain(["a*b".to_owned()]).collect();
        let cookie = names.iter().map(|it| format!("{it}=1")).collect::<Vec<_>>().join("; ");
        let request = [Field { name: "Cookie", value: cookie.as_bytes() }];
        for _ in 0..2 {
            for name in &names {
                let sets = format!("{name}=s3cret; Path=/");
                let response = [Field { name: "Set-Cookie", value: sets.as_bytes() }];
                removed.note("r", &policy("session"), &request, &response);
            }
        }
        let found = removed.of("r");
        assert_eq!((NAMES, true), (found.len(), found.iter().all(|it| it.1 == 2)));
        assert!(!format!("{found:?}").contains("s3cret"));
        assert!(removed.of("other").is_empty());
    }
}
