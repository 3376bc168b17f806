//! The access rule that would decide about a request, for `explain`: nothing is counted, no password is verified, no service is asked.

use super::AccessRules;
use super::credentials::Credential;
use super::verification::Checked;
use larder_config::Source;
use larder_config::access::{Addresses, LimitConfig};
use larder_counters::Counters;
use larder_semantics::request_view::RequestView;

/// The decision of access rules about an explained request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessVerdict {
    /// It would be refused, with this status.
    Refused(u16),
    /// It depends on a verification that `explain` does not make.
    Depends,
    /// It would be admitted.
    Admitted,
}

/// The rule that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFinding {
    /// The decision.
    pub verdict: AccessVerdict,
    /// The key of the rule, in the notation of the table.
    pub key: &'static str,
    /// One sentence.
    pub sentence: String,
    /// The requests that the rule admits, if it refuses this one: the object of a sentence.
    pub admits: String,
    /// The place of the rule, if it is a member of a list.
    pub place: Option<Source>,
}

impl AccessFinding {
    /// Whether the rule demands a credential.
    #[must_use]
    pub fn is_of_credentials(&self) -> bool {
        !matches!(self.key, DENY | DENY_WHEN | ALLOW | ALLOW_WHEN | RATE | LIMITS)
    }

    /// Whether the rate of requests decides.
    #[must_use]
    pub fn is_of_rate(&self) -> bool {
        matches!(self.key, RATE | LIMITS)
    }

    fn refused(
        key: &'static str,
        status: u16,
        sentence: impl Into<String>,
        admits: impl Into<String>,
    ) -> Self {
        let verdict = AccessVerdict::Refused(status);
        Self { verdict, key, sentence: sentence.into(), admits: admits.into(), place: None }
    }

    fn admitted(key: &'static str, sentence: &str) -> Self {
        let sentence = sentence.to_owned();
        Self { verdict: AccessVerdict::Admitted, key, sentence, admits: String::new(), place: None }
    }
}

impl AccessRules {
    /// The rule that decides about a request.
    #[must_use]
    pub fn explain(&self, view: &RequestView<'_>) -> AccessFinding {
        let config = &self.config;
        let client =
            view.client.map_or_else(|| "a Unix socket".to_owned(), |it| it.to_canonical().to_string());
        if let Some(it) = config.deny.as_ref().filter(|it| it.has(view)) {
            let admits = format!("clients that are not in {}", it.shown());
            return AccessFinding::refused(DENY, 403, format!("the client {client} is in deny"), admits);
        }
        if let Some(it) = config.deny_when.as_ref().filter(|it| it.holds(view)) {
            let text = format!("the condition is true: {}", it.shown());
            return AccessFinding::refused(DENY_WHEN, 403, text, "requests for which it is false");
        }
        if let Some(it) = config.allow_when.as_ref().filter(|it| !it.holds_for_each(view)) {
            return AccessFinding::refused(
                ALLOW_WHEN,
                403,
                format!("the condition is false: {}", it.shown()),
                "requests for which it is true",
            );
        }
        let Some(by_address) = self.by_facts(view) else {
            let shown = config.allow.as_ref().map(Addresses::shown).unwrap_or_default();
            let text = format!("the client {client} is not in allow");
            return AccessFinding::refused(ALLOW, 403, text, format!("clients in {shown}"));
        };
        if let Some(exceeded) = self.limits.exceeded(view) {
            let (limit, wait) = (self.limits.deciding(&exceeded), exceeded.seconds());
            let text = format!("the limit {} is exceeded for {wait} s", limit.describe());
            let found =
                AccessFinding::refused(key_of(limit), 429, text, format!("such a request in {wait} s"));
            return AccessFinding { place: limit.place.clone(), ..found };
        }
        match (self.credentials.is_empty(), config.any && by_address) {
            (true, _) if by_address => AccessFinding::admitted(ALLOW, "the client is in allow"),
            (true, _) => self.unrefused(),
            (false, true) => {
                AccessFinding::admitted(ALLOW, "the client is in allow; no credentials are needed")
            }
            (false, false) => self.by_each_credential(view),
        }
    }

    /// Without credentials, a client that no rule refuses.
    fn unrefused(&self) -> AccessFinding {
        let config = &self.config;
        let keys = [
            (config.allow_when.is_some(), ALLOW_WHEN, "the condition is true"),
            (config.deny_when.is_some(), DENY_WHEN, "the condition is false"),
            (config.deny.is_some(), DENY, "the client is not in deny"),
        ];
        let key = keys.into_iter().find(|it| it.0);
        if let Some((_, key, text)) = key {
            return AccessFinding::admitted(key, text);
        }
        let first = self.limits.first();
        let found = AccessFinding::admitted(first.map_or(RATE, key_of), "no limit is exceeded");
        AccessFinding { place: first.and_then(|it| it.place.clone()), ..found }
    }

    fn by_each_credential(&self, view: &RequestView<'_>) -> AccessFinding {
        let (mut depends, mut refused, mut valid) = (None, None, None);
        for it in &self.credentials {
            let key = it.key();
            let found = match it.check(view, &Counters::default()) {
                Checked::Valid(_) => &mut valid,
                Checked::Unknown(_) => &mut depends,
                Checked::Invalid(page) => {
                    let text = it.refusal(page.status);
                    refused =
                        refused.or_else(|| Some(AccessFinding::refused(key, page.status, text, it.admits())));
                    continue;
                }
            };
            let text = it.unverified();
            let verdict = AccessVerdict::Depends;
            let finding = AccessFinding { verdict, key, sentence: text, admits: String::new(), place: None };
            *found = found.take().or(Some(finding));
        }
        let valid = valid.map(|it| AccessFinding::admitted(it.key, "its credentials are valid"));
        let found = match self.config.any {
            true => valid.or(depends).or(refused),
            false => refused.or(depends).or(valid),
        };
        found.unwrap_or_else(|| self.unrefused())
    }
}

/// The key of a limit.
fn key_of(limit: &LimitConfig) -> &'static str {
    if limit.place.is_some() { LIMITS } else { RATE }
}

const RATE: &str = "site[].route[].access.limit.rate";
const LIMITS: &str = "site[].route[].access.limits";
const DENY: &str = "site[].route[].access.deny";
const DENY_WHEN: &str = "site[].route[].access.deny_when";
const ALLOW: &str = "site[].route[].access.allow";
const ALLOW_WHEN: &str = "site[].route[].access.allow_when";

impl Credential {
    /// The key that makes it.
    fn key(&self) -> &'static str {
        match self {
            Credential::Basic(_) => "site[].route[].access.basic",
            Credential::Jwt(_) => "site[].route[].access.jwt",
            Credential::Signed(_) => "site[].route[].access.signed",
            Credential::Forward(_) => "site[].route[].access.forward.to",
        }
    }

    /// Why a request without valid ones is refused.
    fn refusal(&self, status: u16) -> String {
        match (self, status) {
            (_, 400) => "the path is ambiguous".to_owned(),
            (Credential::Basic(_), _) => "the request has no user name and password".to_owned(),
            (Credential::Jwt(_), 503) => {
                "the keys of access.jwt.jwks_url could not be fetched yet".to_owned()
            }
            (Credential::Jwt(_), 403) => "the token lacks a required claim".to_owned(),
            (Credential::Jwt(_), _) => "the request has no valid token".to_owned(),
            (Credential::Signed(_), _) => "the URL has no valid signature".to_owned(),
            (Credential::Forward(_), _) => "the service refuses the request".to_owned(),
        }
    }

    /// The requests that it admits.
    fn admits(&self) -> &'static str {
        match self {
            Credential::Basic(_) => "requests with a user name and password of its list",
            Credential::Jwt(_) => "requests with a valid token",
            Credential::Signed(_) => "requests with a valid signature",
            Credential::Forward(_) => "requests that the service admits",
        }
    }

    /// The conditions that a request with these depends on.
    fn unverified(&self) -> String {
        match self {
            Credential::Basic(_) => "the password of the request would be verified".to_owned(),
            Credential::Jwt(_) | Credential::Signed(_) => "the request would be verified".to_owned(),
            Credential::Forward(it) => format!("the service {} would be asked", it.service()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::access::{AccessConfig, BasicConfig, LimitKey};
    use larder_semantics::expression::{Expression, ExpressionSubject};
    use larder_semantics::field::Field;
    use larder_semantics::rate::{Gcra, Rate};
    use larder_wire::htpasswd::PasswordEntry;
    use std::cell::RefCell;
    use std::sync::Arc;

    fn rules(config: AccessConfig) -> AccessRules {
        larder_stdx::clock::tick();
        AccessRules::new(&config, &Arc::default())
    }

    #[track_caller]
    fn check(rules: &AccessRules, view: &RequestView<'_>, verdict: AccessVerdict, key: &str, text: &str) {
        let found = rules.explain(view);
        assert_eq!(
            (verdict, key, text),
            (found.verdict, found.key.trim_start_matches("site[].route[].access."), found.sentence.as_str())
        );
    }

    fn list(text: &str) -> Option<Addresses> {
        Some(Addresses::of(&[text.to_owned()]))
    }

    #[test]
    fn the_rule_that_decides() {
        use AccessVerdict::{Admitted, Refused};
        let when = |it: &str| Expression::parse_about(ExpressionSubject::Request, it).ok();
        let view = RequestView { client: "10.0.0.7".parse().ok(), ..RequestView::default() };
        let none = AccessConfig::default;
        let deny = rules(AccessConfig { deny: list("10.0.0.0/8"), allow: list("10.0.0.7"), ..none() });
        check(&deny, &view, Refused(403), "deny", "the client 10.0.0.7 is in deny");
        let allow = rules(AccessConfig { allow: list("10.0.0.8"), ..none() });
        check(&allow, &view, Refused(403), "allow", "the client 10.0.0.7 is not in allow");
        let only = rules(AccessConfig { allow_when: when("method == \"POST\""), ..none() });
        check(&only, &view, Refused(403), "allow_when", "the condition is false: method == \"POST\"");
        let not = rules(AccessConfig { deny_when: when("method == \"GET\""), ..none() });
        check(&not, &view, Refused(403), "deny_when", "the condition is true: method == \"GET\"");
        let near = rules(AccessConfig { allow: list("10.0.0.0/8"), ..none() });
        check(&near, &view, Admitted, "allow", "the client is in allow");
    }

    #[test]
    fn a_limit_is_looked_at_and_not_used() {
        let rate = Some(Gcra::new(Rate::parse("1/h").unwrap(), 0));
        let (scope, by) = ("h".to_owned(), LimitKey::Client);
        let limit = LimitConfig { scope, rate, burst: 0, by, concurrency: None, place: None };
        let rules = rules(AccessConfig { limits: vec![limit], ..AccessConfig::default() });
        let view = RequestView { client: "10.0.0.7".parse().ok(), ..RequestView::default() };
        for _ in 0..3 {
            check(&rules, &view, AccessVerdict::Admitted, "limit.rate", "no limit is exceeded");
        }
        rules.judge(&view, &Counters::default(), &RefCell::default());
        check(
            &rules,
            &view,
            AccessVerdict::Refused(429),
            "limit.rate",
            "the limit 1/h by client is exceeded for 3600 s",
        );
    }

    #[test]
    fn credentials_are_named_and_not_verified() {
        let user =
            PasswordEntry::parse("a:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe").unwrap();
        let basic = BasicConfig { realm: "r".to_owned(), users: vec![user], file: None };
        let rules = rules(AccessConfig { basic: Some(basic), ..AccessConfig::default() });
        let text = "the request has no user name and password";
        check(&rules, &RequestView::default(), AccessVerdict::Refused(401), "basic", text);
        let fields = [Field { name: "Authorization", value: b"Basic YTpi" }];
        let view = RequestView { fields: &fields, ..RequestView::default() };
        check(
            &rules,
            &view,
            AccessVerdict::Depends,
            "basic",
            "the password of the request would be verified",
        );
    }
}
