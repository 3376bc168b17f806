//! No proposal shares a response for one visitor. This module defines such responses independently, by the text of the
//! fields.

use super::*;
use crate::testing::{NOW, at, head};
use proptest::option::of;
use proptest::sample::{select, subsequence};

/// Directives of a response; a lifetime stands in one of them at most.
const DIRECTIVES: [&str; 10] = [
    "no-store",
    "private",
    "private=\"x-user\"",
    "public",
    "no-cache",
    "must-revalidate",
    "must-understand",
    "immutable",
    "stale-while-revalidate=9",
    "unknown=1",
];

/// Lines of requests that bear on storing or reuse.
const REQUEST: [&str; 7] = [
    "Authorization: x",
    "Cookie: sid=1",
    "Cache-Control: no-cache",
    "Cache-Control: no-store",
    "Pragma: no-cache",
    "Content-Length: 5",
    "X-HTTP-Method: PUT",
];

/// Lines of responses other than directives.
const RESPONSE: [&str; 8] = [
    "Set-Cookie: a=b",
    "ETag: \"a\"",
    "Last-Modified: @-1000",
    "Expires: @60",
    "Vary: *",
    "Vary: Accept,Cookie",
    "Age: 99",
    "Content-Length: 99999999",
];

/// A request, its response, and the policy for judging it.
#[derive(Clone, Debug)]
struct Case {
    request: Vec<&'static str>,
    answered: Vec<&'static str>,
    control: Option<String>,
    targeted: Option<String>,
    lines: Vec<&'static str>,
    status: u16,
    policy: Policy,
}

fn directives() -> impl Strategy<Value = Option<String>> {
    let lifetime = select(vec!["", "max-age=0", "max-age=60", "s-maxage=60"]);
    of((subsequence(DIRECTIVES.to_vec(), 0..4), lifetime, any::<bool>()).prop_map(
        |(mut text, lifetime, ahead)| {
            if text.contains(&"private") {
                text.retain(|it| !it.starts_with("private="));
            }
            let at = if ahead { 0 } else { text.len() };
            text.splice(at..at, Some(lifetime).filter(|it| !it.is_empty()));
            text.join(", ")
        },
    ))
}

prop_compose! {
    fn policies()(
        enabled in prop::bool::weighted(0.8),
        ignores: bool,
        store_set_cookie: bool,
        has_targets in prop::bool::weighted(0.8),
        default_ttl in select(vec![None, Some(60)]),
        override_ttl in select(vec![None, None, None, Some(60)]),
        max_ttl in select(vec![0, 100_000, 100_000]),
    ) -> Policy {
        let mut policy = Policy { enabled, store_set_cookie, default_ttl, override_ttl, max_ttl, ..Policy::default() };
        if ignores {
            policy.request_directives = RequestDirectivePolicy::Ignore;
        }
        if !has_targets {
            policy.targets.clear();
        }
        policy
    }
}

prop_compose! {
    fn cases()(
        request in subsequence(REQUEST.to_vec(), 0..4),
        other in of(subsequence(REQUEST.to_vec(), 0..3)),
        control in directives(),
        targeted in directives(),
        lines in subsequence(RESPONSE.to_vec(), 0..4),
        status in select(vec![200u16, 200, 404, 500, 301]),
        policy in policies(),
    ) -> Case {
        Case { answered: other.unwrap_or_else(|| request.clone()), request, control, targeted, lines, status, policy }
    }
}

impl Case {
    fn response(&self) -> FieldList {
        let mut list = head(&self.lines.join(" | "));
        self.control.iter().for_each(|it| list.push("Cache-Control", it));
        self.targeted.iter().for_each(|it| list.push("CDN-Cache-Control", it));
        list
    }

    /// By the text: what the fields say, of whichever is in force.
    fn says(&self, directive: &str) -> bool {
        let target = self.targeted.as_ref().filter(|it| !self.policy.targets.is_empty() && !it.is_empty());
        let in_force = target.or(self.control.as_ref());
        in_force.is_some_and(|it| it.split(", ").any(|it| it == directive))
    }

    fn forbids(&self) -> bool {
        let fields = [&self.control, if self.policy.targets.is_empty() { &None } else { &self.targeted }];
        let words = fields.into_iter().flatten().flat_map(|it| it.split(", "));
        words.into_iter().any(|it| it == "private" || it == "no-store")
    }

    /// Of a request, whether its answer is for its client only, by its credentials.
    fn is_for(&self, request: &[&str]) -> bool {
        let has = |name: &str| request.iter().any(|it| it.starts_with(name));
        let says = |all: &[&str]| all.iter().any(|it| self.says(it));
        let authorized = has("Authorization") && !says(&["public", "must-revalidate", "s-maxage=60"]);
        let has_lifetime = says(&["max-age=60", "s-maxage=60"])
            || self.lines.contains(&"Expires: @60")
            || self.policy.override_ttl.or(self.policy.default_ttl).is_some();
        let cookie = has("Cookie") && !says(&["public"]) && !has_lifetime;
        authorized || cookie
    }

    fn varies(&self) -> bool {
        self.lines.iter().any(|it| it.starts_with("Vary: "))
    }

    fn is_one_visitors(&self) -> bool {
        self.forbids()
            || self.lines.contains(&"Set-Cookie: a=b")
            || self.varies()
            || self.is_for(&self.request)
            || self.is_for(&self.answered)
    }
}

/// Whether the response is stored, and answers the request or the same without credentials.
fn is_shared(it: &Trial, status: u16) -> bool {
    let (request, response) = (it.request.view(), it.response.view());
    let facts = RequestFacts { has_body: it.body, ..RequestFacts::read("GET", &request) };
    let stored = storable::decide(&facts, status, &response, &it.policy, NOW, NOW, &mut Silent);
    let meta = Meta::of(status, &response, &it.policy, NOW, NOW);
    let answers = |facts: &RequestFacts<'_>| {
        matches!(
            reuse::decide(Ok(&meta), facts, &it.policy, NOW, &mut Silent),
            Reuse::Serve | Reuse::ServeStale | Reuse::ServeWhileRevalidating
        )
    };
    stored == Storable::Store && (answers(&facts) || answers(&RequestFacts::read("GET", &[])))
}

fn is_of_the_request(change: &FlipChange) -> bool {
    use FlipChange::{RemoveRequestBody, RemoveRequestHeader, SetConfig};
    matches!(
        change,
        RemoveRequestHeader { .. } | RemoveRequestBody | SetConfig(FlipSetting::IgnoreRequestDirectives)
    )
}

fn keeps_private_field(it: &Trial) -> bool {
    crate::targeted::directives(&it.response.view(), &it.policy).0.private.names("x-user")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// An applied proposal shares neither a response for one visitor nor such a field.
    #[test]
    fn no_proposal_shares_a_response_of_one_visitor(case in cases()) {
        let (request, answered, response) =
            (head(&case.request.join(" | ")), head(&case.answered.join(" | ")), case.response());
        let (request, answered, fields) = (request.view(), answered.view(), response.view());
        let exchange = OriginExchange {
            method: "GET",
            request: &request,
            answered: &answered,
            uri: None,
            status: case.status,
            response: &fields,
            policy: &case.policy,
            request_time: NOW,
            response_time: NOW,
        };
        let was = Trial::of(&exchange);
        let changes = smallest(&exchange).unwrap_or_default();
        let changed = changes.iter().fold(was.clone(), |trial, it| trial.with(it));
        if case.is_one_visitors() {
            prop_assert!(is_shared(&was, case.status) || !is_shared(&changed, case.status), "{changes:?}");
        }
        prop_assert!(!keeps_private_field(&was) || keeps_private_field(&changed), "{changes:?}");
    }

    /// The same of what is stored, whatever its age: nothing is proposed of it but what concerns the request.
    #[test]
    fn no_proposal_for_reuse_shares_a_response_of_one_visitor(case in cases(), later in 0i64..200) {
        let (request, response) = (head(&case.request.join(" | ")), case.response());
        let (request, fields) = (request.view(), response.view());
        let meta = Meta::of(case.status, &fields, &case.policy, NOW, NOW);
        let kept = crate::stored::stored_fields(&fields, &case.policy, NOW);
        let found = smallest_for_reuse(&meta, &kept, "GET", &request, &case.policy, at(later));
        let changes = found.unwrap_or_default();
        if case.forbids() || case.is_for(&case.request) || case.varies() {
            prop_assert!(changes.iter().all(is_of_the_request), "{changes:?}");
        }
        if reuse::is_for_others(&meta, &RequestFacts::read("GET", &request), &case.policy) {
            prop_assert!(changes.is_empty(), "{changes:?}");
        }
    }
}
